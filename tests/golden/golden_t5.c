/* T5's encoder: its bias, and hidden states from tokens. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "engine/models/detect/detect.h"
#include "engine/prompts/t5.h"
#include "tests/golden/golden.h"

/* The encoder of a file. */
typedef struct t5_file {
    const graft_safetensors *f;
    graft_t5_arch arch;
    graft_weights *weights;
    graft_build_options options;
} t5_file;

static graft_status bias_case(golden *g, const t5_file *t, int k, graft_err *e)
{
    const graft_st_tensor *want = golden_case(t->f, k, "bias");
    const size_t n = want ? golden_count(want) : 0;
    char name[64];
    if (!want || want->rank != 3)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: case %d has no bias", g->file, k);
    size_t cells = 0;
    float *table = golden_read(t->f, graft_t5_bias_name(), &cells), *expected = golden_copy(want);
    float *bias = graft_calloc(n, sizeof *bias);
    graft_status st = GRAFT_OK;
    if (!table || !expected || !bias) {
        st = graft_fail_nomem(e, "T5's bias");
        goto out;
    }
    graft_t5_bias(&t->arch, table, want->shape[1], want->shape[1], bias);
    snprintf(name, sizeof name, "t5 case%d bias", k);
    golden_note(g, name, golden_error(bias, expected, n), 1e-7);
out:
    graft_free(table);
    graft_free(expected);
    graft_free(bias);
    return st;
}

static graft_status hidden_case(golden *g, const t5_file *t, int k, graft_err *e)
{
    const graft_st_tensor *tokens = golden_case(t->f, k, "tokens");
    const graft_st_tensor *want = golden_case(t->f, k, "hidden");
    char name[64];
    if (!want || tokens->rank != 2 ||
        golden_count(want) != golden_count(tokens) * (size_t)t->arch.width)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: case %d has no hidden states", g->file, k);
    int32_t *ids = golden_tokens(tokens);
    float *hidden = graft_malloc_array(golden_count(want), sizeof *hidden);
    float *expected = golden_copy(want);
    graft_status st = GRAFT_OK;
    if (!ids || !hidden || !expected) {
        st = graft_fail_nomem(e, "T5's hidden states");
        goto out;
    }
    GRAFT_TRY(graft_t5_run(g->engine, &t->options, &t->arch, t->weights, ids, tokens->shape[0],
                           tokens->shape[1], NULL, hidden, e));
    snprintf(name, sizeof name, "t5 case%d hidden", k);
    golden_note_model(g, name, golden_error(hidden, expected, golden_count(want)));
out:
    graft_free(ids);
    graft_free(hidden);
    graft_free(expected);
    return st;
}

/* As HiDream-I1 reads it. */
static graft_status masked_case(golden *g, const t5_file *t, int k, graft_err *e)
{
    const graft_st_tensor *tokens = golden_case(t->f, k, "tokens");
    const graft_st_tensor *words = golden_case(t->f, k, "words");
    const graft_st_tensor *want = golden_case(t->f, k, "masked");
    char name[64];
    if (tokens->rank != 1 || !words || golden_count(words) != 1 ||
        golden_count(want) != golden_count(tokens) * (size_t)t->arch.width)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: case %d has no hidden states", g->file, k);
    int32_t *ids = golden_tokens(tokens), *n = golden_tokens(words);
    float *hidden = graft_malloc_array(golden_count(want), sizeof *hidden);
    float *expected = golden_copy(want);
    graft_status st =
        ids && n && hidden && expected ? GRAFT_OK : graft_fail_nomem(e, "T5's hidden states");
    if (!st)
        st = graft_t5_run_masked(g->engine, &t->options, &t->arch, t->weights, ids, *n,
                                 tokens->shape[0], NULL, hidden, e);
    snprintf(name, sizeof name, "t5 case%d masked", k);
    if (!st) golden_note_model(g, name, golden_error(hidden, expected, golden_count(want)));
    graft_free(ids);
    graft_free(n);
    graft_free(hidden);
    graft_free(expected);
    return st;
}

graft_status golden_t5(golden *g, graft_safetensors *f, graft_err *e)
{
    t5_file t = {.f = f};
    graft_status st = graft_weights_create(f, &t.weights, e);
    if (st) return st;
    golden_options(g, &t.options);
    GRAFT_TRY(graft_t5_detect(f, "", &t.arch, e));
    for (int k = 0; golden_case(f, k, "tokens"); k++) {
        if (golden_case(f, k, "masked")) {
            GRAFT_TRY(masked_case(g, &t, k, e));
            continue;
        }
        if (!t.arch.own_bias) GRAFT_TRY(bias_case(g, &t, k, e));
        GRAFT_TRY(hidden_case(g, &t, k, e));
    }
out:
    graft_weights_release(t.weights);
    return st;
}
