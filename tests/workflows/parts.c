/* A checkpoint in several files, which is loaded by the name of the first, draws the same picture.
 */
#include "tests/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/weights/safetensors.h"
#include "tests/workflows/pictures.h"
#include "tests/workflows/process.h"

enum { PARTS = 3 };
#define DEMO GRAFT_SOURCE_DIR "/models/checkpoints/emoji-64.safetensors"

static char models[300];

static const char *part_path(int number)
{
    char path[100];
    snprintf(path, sizeof path, "parts/models/checkpoints/demo-%05d-of-%05d.safetensors", number,
             PARTS);
    return scratch(path);
}

/* Tensors are dealt out one by one, so that no layer is in one part. */
static void divide(void)
{
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_dir_make(scratch("parts/models/checkpoints"), &e), &e);
    snprintf(models, sizeof models, "%s", scratch("parts/models"));
    CHECK_OK(graft_safetensors_open(DEMO, &f, &e), &e);
    if (!f) return;
    const char *const metadata[] = {"config", graft_safetensors_metadata(f, "config"), NULL};
    graft_st_tensor *t = calloc(graft_safetensors_count(f), sizeof *t);
    if (!t) abort();
    for (int part = 0; part < PARTS; part++) {
        size_t n = 0;
        for (size_t i = (size_t)part; i < graft_safetensors_count(f); i += PARTS)
            t[n++] = *graft_safetensors_at(f, i);
        CHECK_OK(graft_safetensors_write(part_path(part + 1), t, n, metadata[1] ? metadata : NULL,
                                         true, &e),
                 &e);
    }
    free(t);
    graft_safetensors_close(f);
}

static void draw(process *p, const char *set)
{
    process_workflow(p, "workflows/txt2img.json", (const char *[]){"5.steps=3", set, NULL});
    CHECK_INT(p->status, 0);
    CHECK_INT(output_count(p), 1);
    if (p->status) fprintf(stderr, "%s\n", p->text);
}

static void same_picture(void)
{
    process whole = {
        .output = "parts/whole", .backend = "auto", .models = GRAFT_SOURCE_DIR "/models"};
    process parts = {.output = "parts/parts", .backend = "auto", .models = models};
    draw(&whole, NULL);
    draw(&parts, "1.ckpt_name=demo-00001-of-00003.safetensors");
    CHECK(picture_psnr(output_file(&whole, 0), output_file(&parts, 0)) > 200);
    process_finish(&whole);
    process_finish(&parts);
}

static void refused(const char *name, const char *words)
{
    process p = {.output = "parts/refused", .models = models};
    process_workflow(&p, "workflows/txt2img.json", (const char *[]){name, NULL});
    CHECK_INT(p.status, 1);
    CHECK(strstr(p.text, words));
    if (!strstr(p.text, words)) fprintf(stderr, "no \"%s\" in: %s\n", words, p.text);
    process_finish(&p);
}

static void later_part(void)
{
    refused("1.ckpt_name=demo-00002-of-00003.safetensors",
            "input ckpt_name: demo-00002-of-00003.safetensors is a later part of a model; choose "
            "its first, demo-00001-of-00003.safetensors\n");
    refused("1.ckpt_name=demo-00002-of-00005.safetensors",
            "input ckpt_name: demo-00002-of-00005.safetensors is a later part of a model, whose "
            "first, demo-00001-of-00005.safetensors, is not there\n");
}

static void missing_part(void)
{
    process p = {.output = "parts/missing", .models = models};
    CHECK_INT(unlink(part_path(2)), 0);
    process_workflow(&p, "workflows/txt2img.json",
                     (const char *[]){"1.ckpt_name=demo-00001-of-00003.safetensors", NULL});
    CHECK_INT(p.status, 1);
    CHECK(strstr(p.text, "ckpt_name") &&
          strstr(p.text, "in 3 parts, and demo-00002-of-00003.safetensors is missing"));
    if (!strstr(p.text, "ckpt_name")) fprintf(stderr, "%s\n", p.text);
    process_finish(&p);
}

int main(void)
{
    RUN(divide);
    RUN(same_picture);
    RUN(later_part);
    RUN(missing_part);
    return test_end();
}
