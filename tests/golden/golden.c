#include "tests/golden/golden.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/models/detect/detect.h"
#include "engine/models/vaes/taesd.h"
#include "engine/weights/values.h"

void golden_note(golden *g, const char *what, double error, double tolerance)
{
    bool ok = error <= tolerance;
    printf("%-4s %-28s %-40s %.3g (at most %.3g)\n", ok ? "ok" : "FAIL", g->file, what, error,
           tolerance);
    g->cases++;
    g->failed += !ok;
    double share = isnan(error) ? INFINITY : error / tolerance;
    if (share < g->worst && g->cases > 1) return;
    g->worst = share;
    g->worst_error = error;
    snprintf(g->worst_name, sizeof g->worst_name, "%s %s", g->file, what);
}

double golden_error(const float *a, const float *b, size_t n)
{
    double diff = 0, top = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(a[i])) return INFINITY;
        diff = fmax(diff, fabs((double)a[i] - b[i]));
        top = fmax(top, fabs((double)b[i]));
    }
    return top > 0 ? diff / top : diff;
}

static bool is_float32(const golden *g)
{
    return strcmp(g->dtype, "f32") == 0;
}

void golden_note_model(golden *g, const char *what, double error)
{
    golden_note(g, what, error, is_float32(g) ? 2e-5 : 3e-2);
    g->models++;
    g->sum += error;
}

void golden_note_mean(golden *g)
{
    if (g->models && !is_float32(g)) golden_note(g, "mean", g->sum / g->models, 2e-2);
    g->models = 0;
    g->sum = 0;
}

float *golden_read(const graft_safetensors *f, const char *name, size_t *n)
{
    const graft_st_tensor *t = graft_safetensors_find(f, name);
    if (!t) return NULL;
    *n = 1;
    for (int i = 0; i < t->rank; i++) *n *= (size_t)t->shape[i];
    float *p = graft_malloc_array(*n, sizeof *p);
    if (p) graft_to_f32(t->dtype, t->data, p, *n);
    return p;
}

const graft_st_tensor *golden_case(const graft_safetensors *f, int k, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "case%d.%s", k, name);
    return graft_safetensors_find(f, full);
}

size_t golden_count(const graft_st_tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= (size_t)t->shape[i];
    return n;
}

float *golden_copy(const graft_st_tensor *t)
{
    float *p = graft_malloc_array(golden_count(t), sizeof *p);
    if (p) graft_to_f32(t->dtype, t->data, p, golden_count(t));
    return p;
}

int32_t *golden_tokens(const graft_st_tensor *t)
{
    int32_t *p = graft_malloc_array(golden_count(t), sizeof *p);
    for (size_t i = 0; p && i < golden_count(t); i++) {
        int64_t wide;
        if (t->dtype == GRAFT_I64) {
            memcpy(&wide, (const char *)t->data + 8 * i, 8);
            p[i] = (int32_t)wide;
        } else {
            memcpy(&p[i], (const char *)t->data + 4 * i, 4);
        }
    }
    return p;
}

void golden_options(const golden *g, graft_build_options *o)
{
    memset(o, 0, sizeof *o);
    snprintf(o->precision, sizeof o->precision, "%s", g->dtype);
    snprintf(o->device, sizeof o->device, "%s", g->backend);
    o->no_disk = true;
}

/* ------------------------------------------------------------------ UNet */

/* The model with the case's HyperTile, or a copy as it is; *turn: whose grids it has. */
static graft_status unet_tiled(const graft_model *m, const graft_st_tensor *tiles, int *turn,
                               graft_model **out, graft_err *e)
{
    float v[5];
    *turn = 0;
    if (!tiles) return (*out = graft_model_copy(m)) ? GRAFT_OK : graft_fail_nomem(e, "a model");
    if (golden_count(tiles) != 5) return graft_fail(e, GRAFT_E_FORMAT, "not five numbers");
    graft_to_f32(tiles->dtype, tiles->data, v, 5);
    *turn = (int)v[4];
    const graft_hypertile_options o = {(int64_t)v[0], (int64_t)v[1], (int64_t)v[2], v[3] != 0};
    return graft_model_hypertile(m, &o, out, e);
}

/* With the case's TomePatchModel in place of *m, which is released. */
static graft_status unet_merging(graft_model **m, const graft_st_tensor *ratio, graft_err *e)
{
    float v;
    graft_model *merging = NULL;
    if (!ratio) return GRAFT_OK;
    graft_to_f32(ratio->dtype, ratio->data, &v, 1);
    graft_status st = graft_model_merge_tokens(*m, (double)v, &merging, e);
    if (st) return st;
    graft_model_release(*m);
    *m = merging;
    return GRAFT_OK;
}

/* The same with the case's PatchModelAddDownscale. */
static graft_status unet_shrunk(const graft_model *m, const graft_st_tensor *numbers,
                                graft_model **out, graft_err *e)
{
    static const char *const methods[] = {"bicubic", "nearest-exact", "bilinear", "area"};
    float v[5];
    if (!numbers) return (*out = graft_model_copy(m)) ? GRAFT_OK : graft_fail_nomem(e, "a model");
    if (golden_count(numbers) != 5) return graft_fail(e, GRAFT_E_FORMAT, "not five numbers");
    graft_to_f32(numbers->dtype, numbers->data, v, 5);
    const graft_downscale_options o = {.block_number = (int64_t)v[0],
                                       .factor = (double)v[1] / 1000,
                                       .start = 0,
                                       .end = 1,
                                       .after_skip = v[2] != 0,
                                       .down_method = methods[(int)v[3] & 3],
                                       .up_method = methods[(int)v[4] & 3]};
    return graft_model_downscale(m, &o, out, e);
}

float *golden_x(const graft_safetensors *f, int k, graft_unet_use *use)
{
    const graft_st_tensor *x = golden_case(f, k, "x"), *t[GRAFT_REFERENCES];
    const size_t rows = (size_t)x->shape[0];
    graft_references *r = &use->references;
    size_t row = golden_count(x) / rows;
    if (x->rank == 5) { /* layers */
        r->layers = x->shape[2] > 1 ? (int32_t)x->shape[2] : 0;
        use->height = x->shape[2] * x->shape[3];
        use->width = x->shape[4];
    }
    for (char name[32]; r->n < GRAFT_REFERENCES; r->n++) {
        snprintf(name, sizeof name, "reference%d", r->n);
        const graft_st_tensor *one = t[r->n] = golden_case(f, k, name);
        if (!one) break;
        r->of[r->n] = (graft_grid){(int32_t)one->shape[2], (int32_t)one->shape[3]};
        row += golden_count(one) / rows;
    }
    int32_t *within =
        golden_case(f, k, "within") ? golden_tokens(golden_case(f, k, "within")) : NULL;
    for (int i = 0; within && i < r->n; i++) r->within[i] = within[i];
    graft_free(within);
    if (golden_case(f, k, "by_index")) r->placing = GRAFT_PLACE_BEHIND;
    if (golden_case(f, k, "clean")) r->placing = GRAFT_PLACE_CLEAN;
    float *all = graft_malloc_array(rows, row * sizeof *all);
    for (size_t at = 0, n = golden_count(x) / rows, i = 0; all; at += n, i++) {
        const graft_st_tensor *one = i ? t[i - 1] : x;
        float *from = golden_copy(one);
        n = golden_count(one) / rows;
        for (size_t p = 0; from && p < rows; p++)
            memcpy(all + p * row + at, from + p * n, n * sizeof *all);
        graft_free(from);
        if (i == (size_t)r->n) break;
    }
    return all;
}

/* Ideogram 4's prompts of zeros are no words. */
static bool is_wordless(const graft_net_arch *a, const float *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (words[i] != 0) return false;
    return a->kind == GRAFT_NET_IDEOGRAM4;
}

bool golden_count_tokens(const graft_net_arch *a, const graft_st_tensor *context, int64_t all,
                         float *in[4])
{
    const size_t rows = (size_t)context->shape[0], own = (size_t)context->shape[1];
    const size_t width = (size_t)context->shape[2], told = (size_t)a->adm_channels;
    float *wide = graft_malloc_array(rows * (size_t)all, width * sizeof *wide);
    float *y = graft_malloc_array(rows, (told + 1) * sizeof *y);
    const bool ok = wide && y && in[2] && (in[3] || !told);
    const bool none = ok && is_wordless(a, in[2], rows * own * width);
    for (size_t i = 0; ok && i < rows * (size_t)all * width; i++) wide[i] = 3.0f - (float)(i % 7);
    for (size_t r = 0; ok && r < rows; r++) {
        memcpy(wide + r * (size_t)all * width, in[2] + r * own * width, own * width * sizeof *wide);
        if (told) memcpy(y + r * (told + 1), in[3] + r * told, told * sizeof *y);
        y[r * (told + 1) + told] = none ? 0 : in[3] && !told ? in[3][r] : (float)own;
    }
    graft_free(in[2]);
    graft_free(in[3]);
    in[2] = wide;
    in[3] = y;
    return ok;
}

/* In 16 bits rounding decides which tokens are most alike, and with that some values altogether,
 * but where the case's cosines are far enough apart. Such small pictures are off by up to 0.05
 * without merging, too; one token that is merged into another than it should be, or not at all,
 * moves them by 0.13 and more. */
static void note_merged(golden *g, const graft_safetensors *f, int k, const char *what,
                        double error)
{
    if (golden_case(f, k, "clear")) golden_note(g, what, error, 0.06);
}

/* In 16 bits rounding also decides which experts a token goes through, where two of them are near
 * each other: of networks that have some only cases whose choices are clear are looked at.
 *
 * all: tokens that the network is given; 0: those of the prompt. */
static graft_status unet_case(golden *g, const graft_model *m, const graft_safetensors *f, int k,
                              int64_t all, graft_err *e)
{
    static const char *const names[4] = {"x", "timesteps", "context", "y"};
    const graft_st_tensor *t[4], *want = golden_case(f, k, "output");
    float *in[4] = {0}, *expected = golden_copy(want);
    float *out = graft_malloc_array(golden_count(want), sizeof *out);
    const graft_st_tensor *downscale = golden_case(f, k, "downscale");
    graft_model *tiled = NULL, *shrunk = NULL;
    graft_binding *b = NULL;
    graft_status st = GRAFT_OK;
    for (int i = 0; i < 4; i++) {
        t[i] = golden_case(f, k, names[i]);
        if (t[i] && i) in[i] = golden_copy(t[i]);
    }
    graft_unet_use use = {.pictures = t[0]->shape[0],
                          .entries = 1,
                          .height = t[0]->shape[2],
                          .width = t[0]->shape[3],
                          .tokens = t[2]->shape[1]};
    in[0] = golden_x(f, k, &use);
    if (all) use.tokens = all;
    if (all && !golden_count_tokens(&m->arch, t[2], all, in))
        GRAFT_TRY(graft_fail_nomem(e, "a case"));
    if (golden_case(f, k, "perturbed")) use.perturbed = want->shape[0] - t[0]->shape[0];
    GRAFT_TRY(unet_tiled(m, golden_case(f, k, "hypertile"), &use.turn, &tiled, e));
    GRAFT_TRY(unet_merging(&tiled, golden_case(f, k, "tome"), e));
    GRAFT_TRY(unet_shrunk(tiled, downscale, &shrunk, e));
    use.shrink = downscale != NULL;
    GRAFT_TRY(graft_model_bind_guided(shrunk, &use, NULL, &b, e));
    GRAFT_TRY(graft_exe_run(b, g->engine->arenas, (const void *const *)in, (void *[]){out}, NULL,
                            NULL, e));
    char what[64];
    snprintf(what, sizeof what, "model case%d%s", k, all ? " counted" : "");
    const double error = golden_error(out, expected, golden_count(want));
    if (golden_case(f, k, "tome") && !is_float32(g))
        note_merged(g, f, k, what, error);
    else if (is_float32(g) || !m->arch.hidream.experts || golden_case(f, k, "clear"))
        golden_note_model(g, what, error);
out:
    graft_binding_release(b);
    graft_model_release(shrunk);
    graft_model_release(tiled);
    for (int i = 0; i < 4; i++) graft_free(in[i]);
    graft_free(expected);
    graft_free(out);
    return st;
}

graft_status golden_unet(golden *g, graft_safetensors *f, graft_err *e)
{
    graft_model m = {.engine = g->engine};
    graft_weights *file = NULL;
    graft_status st = graft_weights_create(f, &file, e);
    if (st) return st;
    golden_options(g, &m.options);
    GRAFT_TRY(graft_net_detect(f, "model.diffusion_model.", graft_safetensors_metadata(f, "config"),
                               &m.arch, e));
    GRAFT_TRY(graft_weights_part(file, "model.diffusion_model.", &m.weights, e));
    for (int k = 0; k < 1000; k++) {
        if (!golden_case(f, k, "output")) continue;
        if (!graft_net_counts_tokens(&m.arch, 1)) GRAFT_TRY(unet_case(g, &m, f, k, 0, e));
        if (graft_net_counts_tokens(&m.arch, GOLDEN_MANY))
            GRAFT_TRY(unet_case(g, &m, f, k, GOLDEN_MANY, e));
    }
out:
    graft_weights_release(m.weights);
    graft_weights_release(file);
    return st;
}

/* ------------------------------------------------------------------ VAE */

void golden_move_channels(const float *src, float *dst, const int64_t nchw[4], bool to_last)
{
    int64_t c = nchw[1], area = nchw[2] * nchw[3];
    for (int64_t n = 0; n < nchw[0]; n++)
        for (int64_t k = 0; k < c; k++)
            for (int64_t i = 0; i < area; i++) {
                int64_t first = (n * c + k) * area + i, last = (n * area + i) * c + k;
                dst[to_last ? last : first] = src[to_last ? first : last];
            }
}

static graft_status vae_case(golden *g, const graft_vae *v, const graft_safetensors *f, int k,
                             bool decoder, graft_err *e)
{
    const graft_st_tensor *t = golden_case(f, k, decoder ? "latent" : "image");
    const graft_st_tensor *want = golden_case(f, k, decoder ? "decoded" : "moments");
    if (!t || !want) return GRAFT_OK;
    float *in = golden_copy(t), *expected = golden_copy(want), *x = golden_copy(t);
    float *out = graft_malloc_array(golden_count(want), sizeof *out);
    float *y = graft_malloc_array(golden_count(want), sizeof *y);
    size_t per_in = golden_count(t) / (size_t)t->shape[0],
           per_out = golden_count(want) / (size_t)t->shape[0];
    graft_binding *b = NULL;
    graft_status st = GRAFT_OK;
    if (!decoder) golden_move_channels(x, in, t->shape, true);
    if (decoder && graft_vae_is_tiny(&v->arch)) graft_taesd_clamp(in, golden_count(t));
    GRAFT_TRY(graft_vae_bind(v, decoder, t->shape[2], t->shape[3], NULL, &b, e));
    for (int64_t i = 0; i < t->shape[0]; i++)
        GRAFT_TRY(graft_exe_run(b, g->engine->arenas, (const void *[]){in + (size_t)i * per_in},
                                (void *[]){out + (size_t)i * per_out}, NULL, NULL, e));
    if (decoder) golden_move_channels(out, y, want->shape, false);
    char what[64];
    snprintf(what, sizeof what, "vae case%d %s", k, decoder ? "decode" : "encode");
    golden_note_model(g, what, golden_error(decoder ? y : out, expected, golden_count(want)));
out:
    graft_binding_release(b);
    graft_free(in);
    graft_free(x);
    graft_free(expected);
    graft_free(out);
    graft_free(y);
    return st;
}

static graft_status vae_cases(golden *g, const graft_vae *v, const graft_safetensors *f,
                              graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (int k = 0; k < 1000 && !st; k++) {
        st = vae_case(g, v, f, k, true, e);
        if (!st) st = vae_case(g, v, f, k, false, e);
    }
    return st;
}

/* One half of a TAESD in its author's names; the other lies in the file beside it. */
static graft_status golden_tiny_half(golden *g, const char *path, graft_err *e)
{
    static const char *const halves[2] = {"_encoder.safetensors", "_decoder.safetensors"};
    const bool decoder = graft_str_ends(path, halves[1]);
    const size_t stem = strlen(path) - strlen(halves[decoder]);
    graft_vae v = {.engine = g->engine};
    graft_safetensors *f[2] = {NULL, NULL};
    graft_weights *w[2] = {NULL, NULL};
    graft_status st = GRAFT_OK;
    if (!decoder && !graft_str_ends(path, halves[0]))
        return graft_fail(e, GRAFT_E_FORMAT, "%s: neither ..._encoder nor ..._decoder", path);
    for (int i = 0; i < 2; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%.*s%s", (int)stem, path, halves[i]);
        GRAFT_TRY(graft_safetensors_open(name, &f[i], e));
        GRAFT_TRY(graft_weights_create(f[i], &w[i], e));
    }
    golden_options(g, &v.options);
    GRAFT_TRY(graft_taesd_pair_detect(f[0], f[1], &v.arch, e));
    v.encoder_weights = w[0];
    v.weights = w[1];
    GRAFT_TRY(vae_cases(g, &v, f[decoder], e));
out:
    graft_weights_release(w[0]);
    graft_weights_release(w[1]);
    return st;
}

graft_status golden_tiny(golden *g, const char *path, graft_safetensors *f, graft_err *e)
{
    graft_vae v = {.engine = g->engine};
    if (graft_taesd_half_in(f) != GRAFT_TINY_NONE) {
        graft_safetensors_close(f);
        return golden_tiny_half(g, path, e);
    }
    graft_status st = graft_weights_create(f, &v.weights, e);
    if (st) return st;
    golden_options(g, &v.options);
    st = graft_vae_detect(f, "", &v.arch, e);
    if (!st) st = vae_cases(g, &v, f, e);
    graft_weights_release(v.weights);
    return st;
}

graft_status golden_vae(golden *g, graft_safetensors *f, graft_err *e)
{
    graft_vae v = {.engine = g->engine};
    graft_weights *file = NULL;
    graft_status st = graft_weights_create(f, &file, e);
    if (st) return st;
    golden_options(g, &v.options);
    GRAFT_TRY(graft_vae_detect(f, "first_stage_model.", &v.arch, e));
    GRAFT_TRY(graft_weights_part(file, "first_stage_model.", &v.weights, e));
    GRAFT_TRY(vae_cases(g, &v, f, e));
out:
    graft_weights_release(v.weights);
    graft_weights_release(file);
    return st;
}

/* ------------------------------------------------------------------ prompts */

static double chunk_error(const cJSON *want, const graft_chunks *got)
{
    double worst = 0;
    if ((size_t)cJSON_GetArraySize(want) != got->count) return INFINITY;
    size_t at = 0;
    for (const cJSON *chunk = want->child; chunk; chunk = chunk->next) {
        if (cJSON_GetArraySize(chunk) != GRAFT_TEXT_CHUNK) return INFINITY;
        for (const cJSON *pair = chunk->child; pair; pair = pair->next, at++) {
            if ((int)pair->child->valuedouble != got->tokens[at]) return INFINITY;
            double w = pair->child->next->valuedouble;
            worst = fmax(worst, fabs(w - got->weights[at]) / fmax(1.0, fabs(w)));
        }
    }
    return worst;
}

graft_status golden_prompts(golden *g, const char *path, graft_err *e)
{
    char *text = NULL;
    size_t n;
    cJSON *root = NULL;
    const graft_tokenizer *t;
    graft_status st = graft_file_read(path, (size_t)64 << 20, &text, &n, e);
    if (st) return st;
    GRAFT_TRY(graft_json_parse(text, n, path, &root, e));
    GRAFT_TRY(graft_engine_tokenizer(g->engine, &t, e));
    for (const cJSON *k = root->child; k; k = k->next) {
        const char *prompt = graft_json_str(k, "prompt", "");
        graft_chunks chunks;
        char what[48];
        GRAFT_TRY(graft_prompt_chunks(t, prompt, 49407, &chunks, e));
        snprintf(what, sizeof what, "\"%.36s\"", prompt);
        for (char *c = what; *c; c++)
            if ((unsigned char)*c < 0x20) *c = ' ';
        golden_note(g, what, chunk_error(cJSON_GetObjectItemCaseSensitive(k, "chunks"), &chunks),
                    1e-6);
        graft_chunks_finish(&chunks);
    }
out:
    cJSON_Delete(root);
    graft_free(text);
    return st;
}

graft_status golden_check_run(golden *g, const graft_safetensors *f, int k, const char *name,
                              graft_binding *b, const void *const *in, graft_err *e)
{
    const graft_st_tensor *t = golden_case(f, k, name);
    char what[64];
    if (!t) return graft_fail(e, GRAFT_E_FORMAT, "case %d has no %s", k, name);
    float *want = golden_copy(t), *out = golden_copy(t);
    graft_status st = want && out ? GRAFT_OK : graft_fail_nomem(e, "outputs");
    if (!st) st = graft_exe_run(b, g->engine->arenas, in, (void *[]){out}, NULL, NULL, e);
    snprintf(what, sizeof what, "case%d %s", k, name);
    if (!st) golden_note_model(g, what, golden_error(out, want, golden_count(t)));
    graft_free(want);
    graft_free(out);
    return st;
}
