#include "engine/prompts/t5.h"

#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/weights/quantized.h"

typedef struct t5_run {
    graft_engine *engine;
    const graft_build_options *options;
    const graft_t5_arch *arch;
    graft_weights *weights;
    int64_t batch, words, tokens; /* words: of each text, which alone are attended to */
} t5_run;

/* A table (rows,columns), whichever files it is the sum of. */
static graft_status check_table(const t5_run *r, const char *name, int32_t rows, int32_t columns,
                                graft_err *e)
{
    graft_weight_term t;
    size_t at = 0, terms = 0, good = 0;
    for (; graft_weights_next_term(r->weights, name, &at, &t); terms++)
        good += t.tensor && graft_st_is_weight(t.tensor) && !graft_is_quantized(t.tensor->dtype) &&
                t.tensor->rank == 2 && t.tensor->shape[0] == rows && t.tensor->shape[1] == columns;
    if (terms > 0 && good == terms) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_FORMAT, "table %s is missing or has another shape", name);
}

static graft_status look_up(const t5_run *r, const int32_t *ids, float *x, graft_err *e)
{
    const graft_t5_arch *a = r->arch;
    const char *name = graft_t5_embeddings_name(a);
    graft_status st = check_table(r, name, a->vocab, a->width, e);
    for (int64_t i = 0; i < r->batch * r->tokens && !st; i++) {
        if (ids[i] < 0 || ids[i] >= a->vocab)
            return graft_fail(e, GRAFT_E_ARG, "token %d is outside of T5's table of %d", ids[i],
                              a->vocab);
        st = graft_weights_values(r->weights, name, (int64_t)ids[i] * a->width, a->width,
                                  x + i * a->width, e);
    }
    return st;
}

/* The bias, or the buckets of UMT5's. */
static graft_status make_bias(const t5_run *r, void *bias, graft_err *e)
{
    const graft_t5_arch *a = r->arch;
    if (a->own_bias) {
        graft_t5_buckets(a, r->tokens, bias);
        return GRAFT_OK;
    }
    const char *name = graft_t5_bias_name();
    const int64_t count = (int64_t)a->buckets * a->heads;
    graft_status st = check_table(r, name, a->buckets, a->heads, e);
    if (st) return st;
    float *table = graft_malloc_array((size_t)count, sizeof *table);
    if (!table) return graft_fail_nomem(e, "T5's bias");
    st = graft_weights_values(r->weights, name, 0, count, table, e);
    if (!st) graft_t5_bias(a, table, r->words, r->tokens, bias);
    graft_free(table);
    return st;
}

static graft_status build_graph(const void *arch, const void *shape, graft_graph **out,
                                graft_err *e)
{
    return graft_t5_build(arch, shape, out, e);
}

static graft_status bind(const t5_run *r, const graft_task *task, graft_binding **out, graft_err *e)
{
    graft_t5_shape shape;
    memset(&shape, 0, sizeof shape);
    graft_compile_job job = {.kind = "text_encoder_t5",
                             .arch = r->arch,
                             .arch_bytes = sizeof *r->arch,
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .offload = true,
                             .build = build_graph};
    shape.batch = r->batch;
    shape.tokens = r->tokens;
    graft_status st =
        graft_options_resolve_wide(r->engine, r->options, &job.backend, &shape.act_dtype, e);
    if (st) return st;
    if (graft_engine_keeps(r->engine, r->options, job.backend, shape.act_dtype, r->weights))
        job.packed = r->weights;
    return graft_engine_bind(r->engine, r->options, &job, r->weights, task, out, e);
}

static graft_status check_shape(const t5_run *r, int64_t *values, int64_t *scores, graft_err *e)
{
    const int64_t x[3] = {r->batch, r->tokens, r->arch->width};
    const int64_t bias[3] = {r->arch->own_bias ? 1 : r->arch->heads, r->tokens, r->tokens};
    if (r->batch < 1 || r->tokens < 1)
        return graft_fail(e, GRAFT_E_ARG, "%lld texts of %lld tokens", (long long)r->batch,
                          (long long)r->tokens);
    if (r->tokens > GRAFT_T5_MAX_TOKENS || !graft_size_product(x, 3, values) ||
        !graft_size_product(bias, 3, scores))
        return graft_fail(e, GRAFT_E_LIMIT, "a text of %lld tokens; at most %d are read by T5",
                          (long long)r->tokens, GRAFT_T5_MAX_TOKENS);
    return GRAFT_OK;
}

static graft_status run(const t5_run *r, const int32_t *ids, const graft_task *task, float *hidden,
                        graft_err *e)
{
    int64_t values = 0, scores = 0;
    graft_binding *b = NULL;
    graft_status st = check_shape(r, &values, &scores, e);
    if (st) return st;
    float *x = graft_malloc_array((size_t)values, sizeof *x);
    void *bias = graft_malloc_array((size_t)scores, sizeof(float));
    if (!x || !bias) {
        st = graft_fail_nomem(e, "text encoder");
        goto out;
    }
    GRAFT_TRY(look_up(r, ids, x, e));
    GRAFT_TRY(make_bias(r, bias, e));
    GRAFT_TRY(bind(r, task, &b, e));
    if (task && task->compile_only) {
        memset(hidden, 0, (size_t)values * sizeof *hidden);
        goto out;
    }
    graft_task_phase(task, "encode");
    GRAFT_TRY(graft_exe_run(b, r->engine->arenas, (const void *[]){x, bias}, (void *[]){hidden},
                            task, NULL, e));
out:
    graft_binding_release(b);
    graft_free(x);
    graft_free(bias);
    return st;
}

graft_status graft_t5_run(graft_engine *engine, const graft_build_options *options,
                          const graft_t5_arch *arch, graft_weights *weights, const int32_t *ids,
                          int64_t batch, int64_t tokens, const graft_task *task, float *hidden,
                          graft_err *e)
{
    const t5_run r = {engine, options, arch, weights, batch, tokens, tokens};
    return run(&r, ids, task, hidden, e);
}

graft_status graft_t5_run_masked(graft_engine *engine, const graft_build_options *options,
                                 const graft_t5_arch *arch, graft_weights *weights,
                                 const int32_t *ids, int64_t words, int64_t tokens,
                                 const graft_task *task, float *hidden, graft_err *e)
{
    const t5_run r = {engine, options, arch, weights, 1, words, tokens};
    if (arch->own_bias)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "a UMT5 with padding that is not attended to");
    if (words < 1 || words > tokens)
        return graft_fail(e, GRAFT_E_ARG, "%lld words of %lld tokens", (long long)words,
                          (long long)tokens);
    return run(&r, ids, task, hidden, e);
}
