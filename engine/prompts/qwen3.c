#include "engine/prompts/qwen3.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/weights/quantized.h"

typedef struct qwen3_run {
    graft_engine *engine;
    const graft_build_options *options;
    const graft_qwen3_arch *arch;
    graft_weights *weights;
    int64_t padded; /* tokens */
    bool normed;    /* for Qwen-Image */
    bool joined;    /* for FLUX.2, of which the first so many are words */
    int64_t words;
} qwen3_run;

/* The tokens' table, whichever files it is the sum of. */
static graft_status check_table(const qwen3_run *r, const char *name, graft_err *e)
{
    graft_weight_term t;
    size_t at = 0, terms = 0, good = 0;
    for (; graft_weights_next_term(r->weights, name, &at, &t); terms++)
        good += t.tensor && graft_weights_takes(t.tensor) && !graft_is_quantized(t.tensor->dtype) &&
                t.tensor->rank == 2 && t.tensor->shape[0] == r->arch->vocab &&
                t.tensor->shape[1] == r->arch->width;
    if (terms > 0 && good == terms) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_FORMAT, "table %s is missing or has another shape", name);
}

static graft_status look_up(const qwen3_run *r, const int32_t *ids, int64_t tokens, float *x,
                            graft_err *e)
{
    const graft_qwen3_arch *a = r->arch;
    const char *name = graft_qwen3_embeddings_name();
    graft_status st = check_table(r, name, e);
    for (int64_t i = 0; i < tokens && !st; i++) {
        if (ids[i] < 0 || ids[i] >= a->vocab)
            return graft_fail(e, GRAFT_E_ARG, "token %d is outside of %s's table of %d", ids[i],
                              graft_qwen3_family(a), a->vocab);
        st = graft_weights_values(r->weights, name, (int64_t)ids[i] * a->width, a->width,
                                  x + i * a->width, e);
    }
    return st;
}

static graft_status build_graph(const void *arch, const void *shape, graft_graph **out,
                                graft_err *e)
{
    return graft_qwen3_build(arch, shape, out, e);
}

static graft_status bind(const qwen3_run *r, const graft_task *task, graft_binding **out,
                         graft_err *e)
{
    graft_qwen3_shape shape;
    memset(&shape, 0, sizeof shape);
    graft_compile_job job = {.kind = "text_encoder_qwen3",
                             .arch = r->arch,
                             .arch_bytes = sizeof *r->arch,
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .offload = true,
                             .build = build_graph};
    shape.batch = 1;
    shape.tokens = r->padded;
    shape.joined = r->joined;
    shape.normed = r->normed;
    graft_status st =
        graft_options_resolve_wide(r->engine, r->options, &job.backend, &shape.act_dtype, e);
    return st ? st : graft_engine_bind(r->engine, r->options, &job, r->weights, task, out, e);
}

static graft_status run(qwen3_run *r, const int32_t *ids, int64_t tokens, const graft_task *task,
                        float *hidden, graft_err *e)
{
    graft_binding *b = NULL;
    if (tokens < 1) return graft_fail(e, GRAFT_E_ARG, "a text without tokens");
    if (tokens > GRAFT_QWEN3_MAX_TOKENS)
        return graft_fail(e, GRAFT_E_LIMIT, "a text of %lld tokens; at most %d are read by %s",
                          (long long)tokens, GRAFT_QWEN3_MAX_TOKENS, graft_qwen3_family(r->arch));
    r->padded = (tokens + GRAFT_QWEN3_STEP - 1) / GRAFT_QWEN3_STEP * GRAFT_QWEN3_STEP;
    const size_t padded = (size_t)r->padded, from = (size_t)r->arch->width;
    const size_t width = from * (r->joined ? GRAFT_QWEN3_JOINED : 1);
    graft_status st = GRAFT_OK;
    float *x = graft_calloc(padded, from * sizeof *x);
    float *out = graft_malloc_array(padded, width * sizeof *out);
    float *bias = r->joined
                      ? graft_malloc_array(padded * padded, (size_t)r->arch->heads * sizeof *bias)
                      : NULL;
    if (!x || !out || (r->joined && !bias)) {
        st = graft_fail_nomem(e, "text encoder");
        goto out;
    }
    GRAFT_TRY(look_up(r, ids, tokens, x, e));
    GRAFT_TRY(bind(r, task, &b, e));
    if (task && task->compile_only) {
        memset(hidden, 0, (size_t)tokens * width * sizeof *hidden);
        goto out;
    }
    graft_task_phase(task, "encode");
    if (bias) graft_qwen3_bias(r->arch, r->words, r->padded, bias);
    GRAFT_TRY(graft_exe_run(b, r->engine->arenas, (const void *[]){x, bias}, (void *[]){out}, task,
                            NULL, e));
    memcpy(hidden, out, (size_t)tokens * width * sizeof *hidden);
out:
    graft_binding_release(b);
    graft_free(x);
    graft_free(out);
    graft_free(bias);
    return st;
}

graft_status graft_qwen3_run(graft_engine *engine, const graft_build_options *options,
                             const graft_qwen3_arch *arch, graft_weights *weights,
                             const int32_t *ids, int64_t tokens, const graft_task *task,
                             float *hidden, graft_err *e)
{
    qwen3_run r = {.engine = engine, .options = options, .arch = arch, .weights = weights};
    return run(&r, ids, tokens, task, hidden, e);
}

graft_status graft_qwen3_run_normed(graft_engine *engine, const graft_build_options *options,
                                    const graft_qwen3_arch *arch, graft_weights *weights,
                                    const int32_t *ids, int64_t tokens, const graft_task *task,
                                    float *hidden, graft_err *e)
{
    qwen3_run r = {
        .engine = engine, .options = options, .arch = arch, .weights = weights, .normed = true};
    return run(&r, ids, tokens, task, hidden, e);
}

graft_status graft_qwen3_run_joined(graft_engine *engine, const graft_build_options *options,
                                    const graft_qwen3_arch *arch, graft_weights *weights,
                                    const int32_t *ids, int64_t words, int64_t tokens,
                                    const graft_task *task, float *hidden, graft_err *e)
{
    qwen3_run r = {.engine = engine,
                   .options = options,
                   .arch = arch,
                   .weights = weights,
                   .joined = true,
                   .words = words};
    if (words < 1 || words > tokens)
        return graft_fail(e, GRAFT_E_ARG, "%lld words of %lld tokens", (long long)words,
                          (long long)tokens);
    return run(&r, ids, tokens, task, hidden, e);
}
