/* What the tests of IP-Adapters share: the golden files, each a UNet, an adapter and an encoder. */
#ifndef GRAFT_TESTS_ENGINE_IP_ADAPTER_H
#define GRAFT_TESTS_ENGINE_IP_ADAPTER_H
#include "engine/objects/sight.h"
#include "engine/prompts/vision.h"
#include "tests/engine/fixture.h"

#define GOLDEN(name) GRAFT_SOURCE_DIR "/golden/small/" name ".safetensors"
#define PLAIN_SD1    GOLDEN("ip_sd1")
#define PLUS_SD1     GOLDEN("ip_sd1_plus")
#define PLAIN_XL     GOLDEN("ip_sdxl")
#define PLUS_XL      GOLDEN("ip_sdxl_plus")

static graft_engine *engine;
static char path[256];

static inline graft_ip_adapter *load(const char *from)
{
    graft_ip_adapter *a = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_ip_adapter_load(engine, from, NULL, &a, &e), &e);
    return a;
}

static inline graft_vision *load_eyes(const char *from)
{
    graft_vision *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vision_load(engine, from, NULL, &v, &e), &e);
    return v;
}

/* The adapter's tensors, and with `eyes` the encoder's, without model and cases. */
static inline made_file *part_of_file(const char *from, bool eyes)
{
    graft_safetensors *f = open_file(from);
    made_file *m = copy_file(f, "image_proj."), *more = copy_file(f, "ip_adapter.");
    made_file *seeing = copy_file(f, "vis");
    for (size_t i = 0; i < more->n; i++) m->tensor[m->n++] = more->tensor[i];
    for (size_t i = 0; i < seeing->n && eyes; i++) m->tensor[m->n++] = seeing->tensor[i];
    free(more);
    if (eyes)
        free(seeing);
    else
        finish_file(seeing);
    graft_safetensors_close(f);
    return m;
}

static inline void drop(made_file *f, const char *name)
{
    graft_st_tensor *t = made_find(f, name);
    free((char *)t->name);
    free((void *)t->data);
    *t = f->tensor[--f->n];
}
#endif
