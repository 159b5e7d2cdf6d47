/* Upscale models. */
#include <stdio.h>

#include "base/alloc.h"
#include "engine/models/detect/detect.h"
#include "engine/models/vaes/upscaler.h"
#include "tests/golden/golden.h"

/* One picture after the other, as pictures are enlarged. */
static graft_status run_case(golden *g, const graft_upscaler *u, const graft_safetensors *f, int k,
                             graft_err *e)
{
    const graft_st_tensor *image = golden_case(f, k, "image"), *want = golden_case(f, k, "output");
    size_t n_in = golden_count(image), n_out = golden_count(want);
    float *expected = golden_copy(want), *given = golden_copy(image);
    float *in = graft_malloc_array(n_in, sizeof *in), *out = graft_malloc_array(n_out, sizeof *out);
    float *got = graft_malloc_array(n_out, sizeof *got);
    graft_binding *b = NULL;
    graft_status st = GRAFT_OK;
    int64_t pictures = image->shape[0];
    if (!expected || !given || !in || !out || !got) {
        st = graft_fail_nomem(e, "upscale case");
        goto out;
    }
    golden_move_channels(given, in, image->shape, true);
    GRAFT_TRY(graft_upscaler_bind(u, image->shape[2], image->shape[3], NULL, &b, e));
    for (int64_t i = 0; i < pictures; i++)
        GRAFT_TRY(graft_exe_run(b, g->engine->arenas,
                                (const void *[]){in + i * (int64_t)n_in / pictures},
                                (void *[]){out + i * (int64_t)n_out / pictures}, NULL, NULL, e));
    golden_move_channels(out, got, want->shape, false);
    char what[64];
    snprintf(what, sizeof what, "upscale case%d", k);
    golden_note_model(g, what, golden_error(got, expected, n_out));
out:
    graft_binding_release(b);
    graft_free(expected);
    graft_free(given);
    graft_free(in);
    graft_free(out);
    graft_free(got);
    return st;
}

graft_status golden_upscale(golden *g, graft_safetensors *f, graft_err *e)
{
    graft_upscaler u = {.engine = g->engine};
    const char *prefix = graft_upscaler_prefix(f);
    graft_weights *file = NULL;
    graft_status st = graft_weights_create(f, &file, e);
    if (st) return st;
    golden_options(g, &u.options);
    GRAFT_TRY(graft_upscaler_detect(f, prefix, &u.arch, e));
    GRAFT_TRY(graft_weights_part(file, prefix, &u.weights, e));
    for (int k = 0; k < 1000; k++)
        if (golden_case(f, k, "output")) GRAFT_TRY(run_case(g, &u, f, k, e));
out:
    graft_weights_release(u.weights);
    graft_weights_release(file);
    return st;
}
