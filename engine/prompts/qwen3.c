#include "engine/prompts/qwen3.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/weights/quantized.h"

typedef struct qwen3_run {
    graft_engine *engine;
    const graft_build_options *options;
    const graft_qwen3_arch *arch;
    graft_weights *weights;
    graft_qwen3_taken taken;
    int64_t padded; /* tokens */
    int64_t words;  /* of JOINED, LED, PADDED and EVERY, and of a Gemma: so many of the first */
    const graft_qwen3_picture *picture; /* of prompts with pictures */
    size_t n_pictures;
} qwen3_run;

static const struct {
    int32_t joined, normed, layered, whole, padded, every; /* of a graph's shape */
    size_t times;
} forms[] = {
    [GRAFT_QWEN3_TAKE_MOST] = {.times = 1},
    [GRAFT_QWEN3_TAKE_NORMED] = {.normed = 1, .times = 1},
    [GRAFT_QWEN3_TAKE_WHOLE] = {.whole = 1, .times = 1},
    [GRAFT_QWEN3_TAKE_LAYERED] = {.layered = GRAFT_QWEN3_KREA2, .times = GRAFT_QWEN3_LAYERED},
    [GRAFT_QWEN3_TAKE_STACKED] = {.layered = GRAFT_QWEN3_IDEOGRAM4, .times = GRAFT_QWEN3_STACKED},
    [GRAFT_QWEN3_TAKE_JOINED] = {.joined = GRAFT_QWEN3_KLEIN, .times = GRAFT_QWEN3_JOINED},
    [GRAFT_QWEN3_TAKE_LED] = {.joined = GRAFT_QWEN3_DEV, .times = GRAFT_QWEN3_JOINED},
    [GRAFT_QWEN3_TAKE_PADDED] = {.normed = 1, .padded = 1, .times = 1},
    [GRAFT_QWEN3_TAKE_EVERY] = {.every = 1},
};

size_t graft_qwen3_times(graft_qwen3_taken taken)
{
    return forms[taken].times;
}

static void take(graft_qwen3_taken taken, graft_qwen3_shape *s)
{
    s->joined = forms[taken].joined;
    s->normed = forms[taken].normed;
    s->layered = forms[taken].layered;
    s->whole = forms[taken].whole;
    s->padded = s->placed = forms[taken].padded;
    s->every = forms[taken].every;
}

graft_status graft_qwen3_check(const graft_qwen3 *q, graft_qwen3_taken taken, graft_err *e)
{
    graft_graph *g = NULL;
    graft_qwen3_shape shape = {.batch = 1, .tokens = 1, .act_dtype = GRAFT_F32};
    take(taken, &shape);
    shape.placed = shape.placed || graft_qwen3_is_placed(&q->arch);
    graft_status st = graft_qwen3_build(&q->arch, &shape, &g, e);
    if (!st) st = graft_weights_check(q->weights, g, e);
    graft_graph_destroy(g);
    return st;
}

/* Numbers that it gives of a token. */
static size_t width_of(const qwen3_run *r)
{
    const size_t times = forms[r->taken].every ? (size_t)r->arch->layers : forms[r->taken].times;
    return (size_t)r->arch->width * times;
}

/* Whether its graph is told where tokens stand. */
static bool is_placed(const qwen3_run *r)
{
    return r->n_pictures > 0 || forms[r->taken].padded || graft_qwen3_is_placed(r->arch);
}

/* How often pictures go deeper into the model. */
static int32_t deep_of(const qwen3_run *r)
{
    return r->n_pictures ? r->picture[0].n_deep : 0;
}

/* The tokens' table, whichever files it is the sum of. */
static graft_status check_table(const qwen3_run *r, const char *name, graft_err *e)
{
    graft_weight_term t;
    size_t at = 0, terms = 0, good = 0;
    for (; graft_weights_next_term(r->weights, name, &at, &t); terms++)
        good += t.tensor && graft_st_is_weight(t.tensor) && !graft_is_quantized(t.tensor->dtype) &&
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
    take(r->taken, &shape);
    shape.placed = is_placed(r);
    shape.deep = deep_of(r);
    graft_status st =
        graft_options_resolve_wide(r->engine, r->options, &job.backend, &shape.act_dtype, e);
    if (st) return st;
    if (graft_engine_keeps(r->engine, r->options, job.backend, shape.act_dtype, r->weights))
        job.packed = r->weights;
    return graft_engine_bind(r->engine, r->options, &job, r->weights, task, out, e);
}

/* What the graph is given beside embeddings, and what it gives. */
typedef struct qwen3_values {
    float *x, *out;
    float *bias;            /* or NULL */
    float *sees;            /* likewise */
    float *cosines, *sines; /* likewise */
    float *deep;            /* likewise: (n_deep,padded,width) */
} qwen3_values;

/* Where tokens stand; all padding turns as the second token does. */
static void turn(const qwen3_run *r, qwen3_values *v)
{
    const size_t angles = (size_t)r->arch->head_dim / 2;
    graft_qwen3_angles(r->arch, r->picture, r->n_pictures, r->padded, v->cosines, v->sines);
    if (!forms[r->taken].padded) return;
    for (size_t i = (size_t)r->words; i < (size_t)r->padded; i++) {
        memcpy(v->cosines + i * angles, v->cosines + angles, angles * sizeof *v->cosines);
        memcpy(v->sines + i * angles, v->sines + angles, angles * sizeof *v->sines);
    }
}

static graft_status make_values(const qwen3_run *r, qwen3_values *v, graft_err *e)
{
    const size_t padded = (size_t)r->padded, from = (size_t)r->arch->width;
    const size_t width = width_of(r);
    const size_t angles = (size_t)r->arch->head_dim / 2, deep = (size_t)deep_of(r);
    const bool placed = is_placed(r);
    v->x = graft_calloc(padded, from * sizeof *v->x);
    v->out = graft_malloc_array(padded, width * sizeof *v->out);
    const bool biased = r->taken == GRAFT_QWEN3_TAKE_JOINED || forms[r->taken].padded ||
                        forms[r->taken].every || r->arch->gemma;
    const bool led = r->taken == GRAFT_QWEN3_TAKE_LED;
    if (biased)
        v->bias = graft_malloc_array(padded * padded, (size_t)r->arch->heads * sizeof *v->bias);
    if (led) v->sees = graft_malloc_array(padded, sizeof *v->sees);
    if (placed) {
        v->cosines = graft_malloc_array(padded, angles * sizeof *v->cosines);
        v->sines = graft_malloc_array(padded, angles * sizeof *v->sines);
    }
    if (deep) v->deep = graft_calloc(deep * padded, from * sizeof *v->deep);
    if (!v->x || !v->out || (biased && !v->bias) || (led && !v->sees) || (deep && !v->deep) ||
        (placed && (!v->cosines || !v->sines)))
        return graft_fail_nomem(e, "text encoder");
    if (v->bias) graft_qwen3_bias(r->arch, r->words, r->padded, v->bias);
    for (int64_t i = 0; v->sees && i < r->padded; i++) v->sees[i] = i < r->words;
    if (placed) turn(r, v);
    return GRAFT_OK;
}

static void finish_values(qwen3_values *v)
{
    graft_free(v->x);
    graft_free(v->out);
    graft_free(v->bias);
    graft_free(v->sees);
    graft_free(v->cosines);
    graft_free(v->sines);
    graft_free(v->deep);
}

/* Pictures in the places of their tokens, and what of them goes deeper. */
static void put_pictures(const qwen3_run *r, qwen3_values *v)
{
    const size_t width = (size_t)r->arch->width, all = (size_t)r->padded * width;
    for (size_t i = 0; i < r->n_pictures; i++) {
        const graft_qwen3_picture *p = &r->picture[i];
        const size_t at = (size_t)p->at * width, n = (size_t)p->rows * (size_t)p->columns * width;
        memcpy(v->x + at, p->seen, n * sizeof *v->x);
        for (size_t k = 0; k < (size_t)p->n_deep; k++)
            memcpy(v->deep + k * all + at, p->deep + k * n, n * sizeof *v->deep);
    }
}

graft_status graft_qwen3_check_length(const graft_qwen3_arch *arch,
                                      const graft_qwen3_picture *picture, size_t n_pictures,
                                      int64_t tokens, graft_err *e)
{
    const int64_t most = graft_qwen3_most(arch, n_pictures > 0);
    char shown[64] = "";
    int64_t cells = 0;
    if (tokens <= most) return GRAFT_OK;
    for (size_t i = 0; i < n_pictures; i++) cells += (int64_t)picture[i].rows * picture[i].columns;
    if (n_pictures)
        snprintf(shown, sizeof shown, ", %lld of them of its pictures", (long long)cells);
    return graft_fail(e, GRAFT_E_LIMIT, "a text of %lld tokens%s; at most %lld are read by %s",
                      (long long)tokens, shown, (long long)most, graft_qwen3_family(arch));
}

static graft_status check_tokens(const qwen3_run *r, int64_t tokens, graft_err *e)
{
    int64_t behind = 0;
    if (tokens < 1) return graft_fail(e, GRAFT_E_ARG, "a text without tokens");
    graft_status st = graft_qwen3_check_length(r->arch, r->picture, r->n_pictures, tokens, e);
    if (st) return st;
    for (size_t i = 0; i < r->n_pictures; i++) {
        const graft_qwen3_picture *p = &r->picture[i];
        if (p->at < behind || p->rows < 1 || p->columns < 1 ||
            p->rows > (tokens - p->at) / p->columns || p->n_deep != deep_of(r))
            return graft_fail(e, GRAFT_E_ARG, "a picture of %d x %d tokens at token %lld of %lld",
                              p->columns, p->rows, (long long)p->at, (long long)tokens);
        behind = p->at + (int64_t)p->rows * p->columns;
    }
    return GRAFT_OK;
}

static graft_status run_graph(const qwen3_run *r, const graft_binding *b, const qwen3_values *v,
                              const graft_task *task, graft_err *e)
{
    const void *in[4 + GRAFT_QWEN3_DEEP] = {v->x};
    int n = 1;
    if (v->bias || v->sees) in[n++] = v->bias ? v->bias : v->sees;
    if (v->cosines) {
        in[n++] = v->cosines;
        in[n++] = v->sines;
    }
    for (int k = 0; k < deep_of(r); k++)
        in[n++] = v->deep + (size_t)k * (size_t)r->padded * (size_t)r->arch->width;
    return graft_exe_run(b, r->engine->arenas, in, (void *[]){v->out}, task, NULL, e);
}

static graft_status run(qwen3_run *r, const int32_t *ids, int64_t tokens, const graft_task *task,
                        float *hidden, graft_err *e)
{
    const size_t width = width_of(r);
    graft_binding *b = NULL;
    qwen3_values v = {0};
    graft_status st = check_tokens(r, tokens, e);
    if (st) return st;
    if (r->arch->gemma && !r->words) r->words = tokens;
    r->padded = (tokens + GRAFT_QWEN3_STEP - 1) / GRAFT_QWEN3_STEP * GRAFT_QWEN3_STEP;
    GRAFT_TRY(make_values(r, &v, e));
    GRAFT_TRY(look_up(r, ids, tokens, v.x, e));
    put_pictures(r, &v);
    GRAFT_TRY(bind(r, task, &b, e));
    if (task && task->compile_only) {
        memset(hidden, 0, (size_t)tokens * width * sizeof *hidden);
        goto out;
    }
    graft_task_phase(task, "encode");
    GRAFT_TRY(run_graph(r, b, &v, task, e));
    memcpy(hidden, v.out, (size_t)tokens * width * sizeof *hidden);
out:
    graft_binding_release(b);
    finish_values(&v);
    return st;
}

graft_status graft_qwen3_run(graft_engine *engine, const graft_build_options *options,
                             const graft_qwen3_arch *arch, graft_weights *weights,
                             graft_qwen3_taken taken, const int32_t *ids, int64_t tokens,
                             const graft_task *task, float *hidden, graft_err *e)
{
    qwen3_run r = {
        .engine = engine, .options = options, .arch = arch, .weights = weights, .taken = taken};
    return run(&r, ids, tokens, task, hidden, e);
}

graft_status graft_qwen3_run_seen(graft_engine *engine, const graft_build_options *options,
                                  const graft_qwen3_arch *arch, graft_weights *weights,
                                  graft_qwen3_taken taken, const int32_t *ids, int64_t tokens,
                                  const graft_qwen3_picture *picture, size_t n_pictures,
                                  const graft_task *task, float *hidden, graft_err *e)
{
    qwen3_run r = {.engine = engine,
                   .options = options,
                   .arch = arch,
                   .weights = weights,
                   .taken = taken,
                   .picture = picture,
                   .n_pictures = n_pictures};
    return run(&r, ids, tokens, task, hidden, e);
}

graft_status graft_qwen3_hidden(graft_engine *engine, const graft_build_options *options,
                                const graft_qwen3 *q, graft_qwen3_taken taken, const int32_t *ids,
                                size_t n, const graft_qwen3_picture *picture, size_t n_pictures,
                                size_t from, const graft_task *task, float **hidden,
                                int64_t *tokens, graft_err *e)
{
    const size_t width = (size_t)q->arch.width * graft_qwen3_times(taken);
    if (n <= from) return graft_fail(e, GRAFT_E_INTERNAL, "a prompt without tokens");
    float *out = graft_malloc_array(n, width * sizeof *out);
    if (!out) return graft_fail_nomem(e, "text encoder");
    graft_status st = graft_qwen3_run_seen(engine, options, &q->arch, q->weights, taken, ids,
                                           (int64_t)n, picture, n_pictures, task, out, e);
    if (st) {
        graft_free(out);
        return st;
    }
    if (from) memmove(out, out + from * width, (n - from) * width * sizeof *out);
    *hidden = out;
    *tokens = (int64_t)(n - from);
    return GRAFT_OK;
}

/* Whether there are words, and room for them. */
static graft_status check_words(const qwen3_run *r, int64_t tokens, graft_err *e)
{
    if (r->words >= 1 && r->words <= tokens) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG, "%lld words of %lld tokens", (long long)r->words,
                      (long long)tokens);
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
                   .taken = GRAFT_QWEN3_TAKE_JOINED,
                   .words = words};
    graft_status st = check_words(&r, tokens, e);
    return st ? st : run(&r, ids, tokens, task, hidden, e);
}

graft_status graft_qwen3_run_every(graft_engine *engine, const graft_build_options *options,
                                   const graft_qwen3_arch *arch, graft_weights *weights,
                                   const int32_t *ids, int64_t words, int64_t tokens,
                                   const graft_task *task, float *hidden, graft_err *e)
{
    qwen3_run r = {.engine = engine,
                   .options = options,
                   .arch = arch,
                   .weights = weights,
                   .taken = GRAFT_QWEN3_TAKE_EVERY,
                   .words = words};
    graft_status st = check_words(&r, tokens, e);
    return st ? st : run(&r, ids, tokens, task, hidden, e);
}

graft_status graft_qwen3_run_empty(graft_engine *engine, const graft_build_options *options,
                                   const graft_qwen3_arch *arch, graft_weights *weights,
                                   const int32_t ids[2], const graft_task *task, float *hidden,
                                   graft_err *e)
{
    qwen3_run r = {
        .engine = engine, .options = options, .arch = arch, .weights = weights, .words = 1};
    return run(&r, ids, 2, task, hidden, e);
}

/* Runs words and one token of padding, which stands for all there is: behind the words it changes
 * none of them. made (words + 1, width_of(r)) is freed with graft_free(). */
static graft_status run_with_padding(qwen3_run *r, const int32_t *ids, int32_t padding,
                                     int64_t tokens, const graft_task *task, float **made,
                                     graft_err *e)
{
    const size_t words = (size_t)r->words;
    graft_status st = check_words(r, tokens, e);
    if (st) return st;
    int32_t *all = graft_malloc_array(words + 1, sizeof *all);
    *made = graft_malloc_array(words + 1, width_of(r) * sizeof **made);
    if (!all || !*made) st = graft_fail_nomem(e, "text encoder");
    if (!st) {
        memcpy(all, ids, words * sizeof *all);
        all[words] = padding;
        st = run(r, all, r->words + 1, task, *made, e);
    }
    graft_free(all);
    return st;
}

graft_status graft_qwen3_run_led(graft_engine *engine, const graft_build_options *options,
                                 const graft_qwen3_arch *arch, graft_weights *weights,
                                 const int32_t *ids, int64_t words, int32_t padding, int64_t tokens,
                                 const graft_task *task, float *hidden, graft_err *e)
{
    qwen3_run r = {.engine = engine,
                   .options = options,
                   .arch = arch,
                   .weights = weights,
                   .taken = GRAFT_QWEN3_TAKE_LED,
                   .words = words};
    const size_t width = width_of(&r), before = (size_t)(tokens - words);
    float *made = NULL;
    graft_status st = run_with_padding(&r, ids, padding, tokens, task, &made, e);
    for (size_t i = 0; !st && i < before; i++)
        memcpy(hidden + i * width, made + (size_t)words * width, width * sizeof *hidden);
    if (!st) memcpy(hidden + before * width, made, (size_t)words * width * sizeof *hidden);
    graft_free(made);
    return st;
}

graft_status graft_qwen3_run_padded(graft_engine *engine, const graft_build_options *options,
                                    const graft_qwen3_arch *arch, graft_weights *weights,
                                    const int32_t *ids, int64_t words,
                                    const graft_qwen3_picture *picture, size_t n_pictures,
                                    int32_t padding, int64_t tokens, const graft_task *task,
                                    float *hidden, graft_err *e)
{
    qwen3_run r = {.engine = engine,
                   .options = options,
                   .arch = arch,
                   .weights = weights,
                   .taken = GRAFT_QWEN3_TAKE_PADDED,
                   .picture = picture,
                   .n_pictures = n_pictures,
                   .words = words};
    const size_t width = width_of(&r);
    float *made = NULL;
    graft_status st = run_with_padding(&r, ids, padding, tokens, task, &made, e);
    if (!st) memcpy(hidden, made, (size_t)words * width * sizeof *hidden);
    for (int64_t i = words; !st && i < tokens; i++)
        memcpy(hidden + (size_t)i * width, made + (size_t)words * width, width * sizeof *hidden);
    graft_free(made);
    return st;
}
