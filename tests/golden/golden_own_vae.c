/* VAEs that are a file of their own: FLUX.2's, with pictures from normalized squares of cells, and
 * back, and Wan 2.1's. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/models/detect/detect.h"
#include "engine/models/parts/folding.h"
#include "tests/golden/golden.h"

/* One picture through a half. Rows of pictures are (H,W,C), of latents (C,h,w), as ever. */
static graft_status run_half(golden *g, const graft_vae *v, bool decoder, const float *in,
                             int64_t height, int64_t width, float *out, graft_err *e)
{
    const int64_t fold = decoder ? graft_vae_fold(&v->arch) : 1;
    graft_binding *b = NULL;
    graft_status st = graft_vae_bind(v, decoder, height * fold, width * fold, NULL, &b, e);
    if (!st)
        st = graft_exe_run(b, g->engine->arenas, (const void *[]){in}, (void *[]){out}, NULL, NULL,
                           e);
    graft_binding_release(b);
    return st;
}

static graft_status decode(golden *g, const graft_vae *v, const graft_safetensors *f, int k,
                           graft_err *e)
{
    const graft_st_tensor *t = golden_case(f, k, "latent"), *want = golden_case(f, k, "decoded");
    if (!want || want->shape[2] != t->shape[2] * graft_vae_scale(&v->arch))
        return graft_fail(e, GRAFT_E_FORMAT, "%s: case %d has no picture of its latent's size",
                          g->file, k);
    const size_t per_in = golden_count(t) / (size_t)t->shape[0];
    const size_t per_out = golden_count(want) / (size_t)t->shape[0];
    float *in = golden_copy(t), *expected = golden_copy(want);
    float *cells = graft_malloc_array(per_in, sizeof *cells);
    float *out = graft_malloc_array(golden_count(want), sizeof *out);
    float *y = graft_malloc_array(golden_count(want), sizeof *y);
    graft_status st = in && expected && cells && out && y ? GRAFT_OK : graft_fail_nomem(e, "a VAE");
    char what[64];
    for (int64_t i = 0; i < t->shape[0] && !st; i++) {
        if (v->arch.fold)
            graft_folding_undo(&v->folding, in + (size_t)i * per_in, t->shape[2], t->shape[3],
                               cells);
        else
            memcpy(cells, in + (size_t)i * per_in, per_in * sizeof *cells);
        st = run_half(g, v, true, cells, t->shape[2], t->shape[3], out + (size_t)i * per_out, e);
    }
    snprintf(what, sizeof what, "vae case%d decode", k);
    if (!st) {
        golden_move_channels(out, y, want->shape, false);
        golden_note_model(g, what, golden_error(y, expected, golden_count(want)));
    }
    graft_free(in);
    graft_free(expected);
    graft_free(cells);
    graft_free(out);
    graft_free(y);
    return st;
}

static graft_status encode(golden *g, const graft_vae *v, const graft_safetensors *f, int k,
                           graft_err *e)
{
    const graft_st_tensor *t = golden_case(f, k, "image"), *want = golden_case(f, k, "encoded");
    if (!t || !want || t->shape[2] != want->shape[2] * graft_vae_scale(&v->arch))
        return graft_fail(e, GRAFT_E_FORMAT, "%s: case %d has no latent of its picture's size",
                          g->file, k);
    const size_t per_in = golden_count(t) / (size_t)t->shape[0];
    const size_t per_out = golden_count(want) / (size_t)t->shape[0];
    float *x = golden_copy(t), *in = golden_copy(t), *expected = golden_copy(want);
    float *moments = graft_malloc_array(2 * per_out, sizeof *moments);
    float *out = graft_malloc_array(golden_count(want), sizeof *out);
    graft_status st =
        x && in && expected && moments && out ? GRAFT_OK : graft_fail_nomem(e, "a VAE");
    char what[64];
    if (!st) golden_move_channels(x, in, t->shape, true);
    for (int64_t i = 0; i < t->shape[0] && !st; i++) {
        st = run_half(g, v, false, in + (size_t)i * per_in, t->shape[2], t->shape[3], moments, e);
        if (!st && v->arch.fold)
            graft_folding_do(&v->folding, moments, want->shape[2], want->shape[3],
                             out + (size_t)i * per_out);
        else if (!st) /* means come first */
            memcpy(out + (size_t)i * per_out, moments, per_out * sizeof *out);
    }
    snprintf(what, sizeof what, "vae case%d encode", k);
    if (!st) golden_note_model(g, what, golden_error(out, expected, golden_count(want)));
    graft_free(x);
    graft_free(in);
    graft_free(expected);
    graft_free(moments);
    graft_free(out);
    return st;
}

graft_status golden_own_vae(golden *g, graft_safetensors *f, graft_err *e)
{
    graft_vae v = {.engine = g->engine};
    graft_status st = graft_weights_create(f, &v.weights, e);
    if (st) return st;
    golden_options(g, &v.options);
    st = graft_vae_detect(f, "", &v.arch, e);
    if (!st && v.arch.fold) st = graft_folding_read(v.weights, &v.folding, e);
    for (int k = 0; !st && golden_case(f, k, "latent"); k++) {
        st = decode(g, &v, f, k, e);
        if (!st) st = encode(g, &v, f, k, e);
    }
    graft_weights_release(v.weights);
    return st;
}
