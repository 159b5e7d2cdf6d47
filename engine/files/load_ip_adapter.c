/* IP-Adapters. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/files/kinds.h"
#include "engine/files/load.h"
#include "engine/models/detect/detect.h"
#include "engine/models/encoders/ip_adapter.h"
#include "engine/prompts/vision.h"
#include "engine/weights/quantized.h"

/* The learned queries are no weight of the graph. */
static graft_status check_queries(const graft_safetensors *f, const graft_ip_adapter_arch *a,
                                  graft_err *e)
{
    const char *name = graft_ip_adapter_queries(a);
    const graft_st_tensor *t = name ? graft_safetensors_find(f, name) : NULL;
    if (!t || (graft_st_is_weight(t) && !graft_is_quantized(t->dtype))) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_FORMAT, "%s: tensor %s has numbers of an unexpected type",
                      graft_safetensors_path(f), name);
}

/* What is not read is no error: fine-tunes carry leftovers. */
static graft_status check(const graft_ip_adapter *a, const graft_safetensors *f, graft_err *e)
{
    graft_graph *g = NULL;
    graft_status st = check_queries(f, &a->arch, e);
    if (st) return st;
    st = graft_ip_adapter_build(&a->arch, 1, GRAFT_F32, &g, e);
    st = st ? graft_load_blame(a->weights, st, e) : graft_weights_check(a->weights, g, e);
    graft_graph_destroy(g);
    return st;
}

/* Whether anything in it is an adapter's. */
static bool is_adapter(const graft_safetensors *f)
{
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        if (graft_str_starts(name, "ip_adapter") || graft_str_starts(name, "image_proj.") ||
            strstr(name, ".ip_adapter"))
            return true;
    }
    return false;
}

static graft_status make(graft_engine *engine, graft_weights *file, graft_ip_adapter **out,
                         graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    char guess[128];
    if (!is_adapter(f))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: no IP-Adapter in it%s (tensor ip_adapter.1.to_k_ip.weight is "
                          "missing)",
                          graft_safetensors_path(f),
                          graft_kind_guess(f, "IPAdapterModelLoader", guess, sizeof guess));
    graft_ip_adapter *a = graft_calloc(1, sizeof *a);
    if (!a) return graft_fail_nomem(e, "IP-Adapter");
    atomic_init(&a->refs, 1);
    a->engine = engine;
    snprintf(a->options.precision, sizeof a->options.precision, "f32");
    a->weights = graft_weights_retain(file);
    graft_status st = graft_ip_adapter_detect(f, &a->arch, e);
    if (!st) st = check(a, f, e);
    if (st)
        graft_ip_adapter_release(a);
    else
        *out = a;
    return st;
}

graft_status graft_ip_adapter_load(graft_engine *engine, const char *path, const graft_task *task,
                                   graft_ip_adapter **out, graft_err *e)
{
    graft_weights *file = NULL;
    *out = NULL;
    graft_status st = graft_load_open(path, NULL, task, &file, e);
    if (!st) st = make(engine, file, out, e);
    graft_weights_release(file);
    return st;
}
