/* CLIP: prompts to conditioning. */
#include <string.h>

#include "base/alloc.h"
#include "engine/prompts/embedding.h"
#include "engine/objects/objects.h"
#include "engine/prompts/clip_hooks.h"
#include "engine/prompts/qwen3.h"
#include "engine/prompts/t5.h"
#include "engine/weights/quantized.h"

static void encoders_release(graft_clip *c)
{
    for (size_t i = 0; i < 2; i++) graft_engine_release_weights(c->engine, c->encoder[i].weights);
}

graft_clip *graft_clip_retain(graft_clip *c)
{
    atomic_fetch_add(&c->refs, 1);
    return c;
}

void graft_clip_release(graft_clip *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) != 1) return;
    encoders_release(c);
    graft_t5_release(c->t5);
    graft_qwen3_release(c->qwen3);
    graft_clip_hooking_destroy(c->hooking);
    graft_free(c);
}

graft_clip *graft_clip_copy(const graft_clip *c)
{
    const graft_clip_hooking *of = c->hooking;
    graft_clip_hooking *hooking =
        of ? graft_clip_hooking_create(of->hooks, of->on_prompts, of->scheduled) : NULL;
    graft_clip *n = of && !hooking ? NULL : graft_malloc(sizeof *n);
    if (!n) {
        graft_clip_hooking_destroy(hooking);
        return NULL;
    }
    memcpy(n, c, sizeof *n);
    atomic_init(&n->refs, 1);
    n->hooking = hooking;
    for (size_t i = 0; i < n->n_encoders; i++) graft_weights_retain(n->encoder[i].weights);
    graft_t5_retain(n->t5);
    graft_qwen3_retain(n->qwen3);
    return n;
}

graft_status graft_clip_there(const graft_clip *c, graft_err *e)
{
    return c->missing.code ? graft_fail(e, c->missing.code, "%s", c->missing.text) : GRAFT_OK;
}

graft_status graft_clip_set_last_layer(const graft_clip *c, int64_t layer, graft_clip **out,
                                       graft_err *e)
{
    if (layer >= 0) return graft_fail(e, GRAFT_E_ARG, "the layer counts from the end: -1, -2, …");
    graft_clip *n = graft_clip_copy(c);
    if (!n) return graft_fail_nomem(e, "text encoder");
    for (size_t i = 0; i < n->n_encoders; i++) {
        graft_encoder *k = &n->encoder[i];
        bool there = layer < -k->cut && layer >= -k->cut - k->arch.layers;
        k->layer = there ? (int32_t)-layer - k->cut : 1;
    }
    *out = n;
    return GRAFT_OK;
}

graft_status graft_clip_t5_options(const graft_clip *c, int64_t more, int64_t least,
                                   graft_clip **out, graft_err *e)
{
    if (more < 0 || least < 0 || more > GRAFT_T5_PADDING || least > GRAFT_T5_PADDING)
        return graft_fail(e, GRAFT_E_ARG,
                          "min_padding %lld and min_length %lld must be between 0 and %d",
                          (long long)more, (long long)least, GRAFT_T5_PADDING);
    graft_clip *n = graft_clip_copy(c);
    if (!n) return graft_fail_nomem(e, "text encoder");
    n->padding = (struct graft_clip_padding){true, more, least};
    *out = n;
    return GRAFT_OK;
}

const char *graft_clip_encoder_name(const graft_clip *c, size_t i)
{
    if (i == c->n_encoders && c->t5) return c->t5->arch.own_bias ? "pile_t5xl" : "t5xxl";
    if (i == c->n_encoders + (c->t5 != NULL) && c->qwen3) return graft_qwen3_name(c->qwen3);
    if (i >= c->n_encoders) return NULL;
    const graft_encoder *k = &c->encoder[i];
    return k->large ? "clip_g" : k->arch.width == 1024 ? "clip_h" : "clip_l";
}

int64_t graft_encoder_pooled_width(const graft_encoder *n)
{
    return n->arch.projection ? n->arch.projection : n->arch.width;
}

/* ------------------------------------------------------------------ one encoder */

/* The row of one token: of the table, straight from the mapped files, or one of the vectors. */
static graft_status look_up(const graft_encoder *k, const char *table, const graft_chunks *c,
                            int32_t token, float *out, graft_err *e)
{
    size_t width = (size_t)k->arch.width;
    if (token < 0) {
        size_t row = (size_t)(-1 - (int64_t)token);
        if (row >= c->n_vectors)
            return graft_fail(e, GRAFT_E_ARG, "token %d is outside of %zu vectors", token,
                              c->n_vectors);
        memcpy(out, c->vectors + row * width, width * sizeof *out);
        return GRAFT_OK;
    }
    if (token >= k->arch.vocab)
        return graft_fail(e, GRAFT_E_ARG, "token %d is outside the table of %d", token,
                          k->arch.vocab);
    return graft_weights_values(k->weights, table, (int64_t)token * k->arch.width, k->arch.width,
                                out, e);
}

/* What the graph leaves to its caller: x (count,length,width) plus the first places. */
static graft_status add_positions(const graft_encoder *k, size_t count, size_t length, float *x,
                                  graft_err *e)
{
    const char *name = graft_textenc_positions_name(&k->arch);
    const size_t n = length * (size_t)k->arch.width;
    if (graft_textenc_adds_positions(&k->arch, (int64_t)length)) return GRAFT_OK;
    if (!graft_weights_find(k->weights, name))
        return graft_fail(e, GRAFT_E_FORMAT, "the table of positions %s is missing", name);
    float *places = graft_malloc_array(n, sizeof *places);
    if (!places) return graft_fail_nomem(e, "text encoder");
    graft_status st = graft_weights_values(k->weights, name, 0, (int64_t)n, places, e);
    for (size_t i = 0; i < count && !st; i++)
        for (size_t v = 0; v < n; v++) x[i * n + v] += places[v];
    graft_free(places);
    return st;
}

static graft_status look_up_all(const graft_encoder *k, const graft_chunks *c, size_t length,
                                float *out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    char name[256];
    graft_weight_term t;
    size_t width = (size_t)k->arch.width;
    graft_textenc_table_name(&k->arch, name, sizeof name);
    for (size_t at = 0; graft_weights_next_term(k->weights, name, &at, &t);)
        if (!t.tensor || !graft_st_is_weight(t.tensor) || graft_is_quantized(t.tensor->dtype) ||
            t.tensor->rank != 2 || t.tensor->shape[0] != k->arch.vocab ||
            t.tensor->shape[1] != k->arch.width)
            return graft_fail(e, GRAFT_E_FORMAT, "token table %s is missing", name);
    for (size_t i = 0; i < c->count * length; i++)
        GRAFT_TRY(look_up(k, name, c, c->tokens[i], out + i * width, e));
    st = add_positions(k, c->count, length, out, e);
out:
    return st;
}

static graft_status build_graph(const void *arch, const void *shape, graft_graph **out,
                                graft_err *e)
{
    return graft_textenc_build(arch, shape, out, e);
}

static graft_status bind(const graft_clip *c, const graft_encoder *k, int64_t batch, size_t length,
                         const graft_task *task, graft_binding **out, graft_err *e)
{
    graft_textenc_shape shape;
    memset(&shape, 0, sizeof shape);
    graft_compile_job job = {.kind = "text_encoder",
                             .arch = &k->arch,
                             .arch_bytes = sizeof k->arch,
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .offload = true,
                             .build = build_graph};
    shape.batch = batch;
    shape.tokens = (int64_t)length;
    shape.hidden_layer = k->arch.layers + 1 - k->layer;
    if (shape.hidden_layer < 1) shape.hidden_layer = 1;
    shape.hidden_norm = k->hidden_norm;
    shape.pooled = true;
    shape.projected = k->arch.projection != 0;
    graft_status st =
        graft_options_resolve(c->engine, &c->options, &job.backend, &shape.act_dtype, e);
    if (st) return st;
    if (shape.act_dtype == GRAFT_F32 &&
        graft_backend_wants(job.backend, GRAFT_WANTS_NARROW_WEIGHTS))
        job.narrow = graft_weights_narrow(k->weights);
    return graft_engine_bind(c->engine, &c->options, &job, k->weights, task, out, e);
}

/* Weights aside: hidden (n,length,width), pooled (n,pooled_width) of n chunks of `length` tokens.
 */
static graft_status run_tokens(const graft_clip *c, const graft_encoder *k, const graft_chunks *in,
                               size_t length, const graft_task *task, float *hidden, float *pooled,
                               graft_err *e)
{
    graft_binding *b = NULL;
    const int32_t *tokens = in->tokens;
    size_t n = in->count, width = (size_t)k->arch.width;
    float *x = graft_malloc_array(n * length, width * sizeof *x);
    int32_t *row = graft_calloc(n, sizeof *row);
    graft_status st = GRAFT_OK;
    if (!x || !row) {
        st = graft_fail_nomem(e, "text encoder");
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t t = length; t-- > 0;)
            if (tokens[i * length + t] == k->arch.eos) row[i] = (int32_t)t;
    GRAFT_TRY(look_up_all(k, in, length, x, e));
    GRAFT_TRY(bind(c, k, (int64_t)n, length, task, &b, e));
    if (task && task->compile_only) {
        memset(hidden, 0, n * length * width * sizeof *hidden);
        memset(pooled, 0, n * (size_t)graft_encoder_pooled_width(k) * sizeof *pooled);
        goto out;
    }
    graft_task_phase(task, "encode");
    GRAFT_TRY(graft_exe_run(b, c->engine->arenas, (const void *[]){x, row},
                            (void *[]){hidden, pooled}, task, NULL, e));
out:
    graft_binding_release(b);
    graft_free(x);
    graft_free(row);
    return st;
}

/* Moves every token away from what the empty prompt has in its place, by its weight. */
static void apply_weights(const graft_chunks *chunks, size_t width, const float *empty,
                          float *hidden)
{
    for (size_t i = 0; i < chunks->count * GRAFT_TEXT_CHUNK; i++) {
        float w = chunks->weights[i];
        const float *z = empty + (i % GRAFT_TEXT_CHUNK) * width;
        float *h = hidden + i * width;
        if (w == 1.0f) continue;
        for (size_t k = 0; k < width; k++) h[k] = (h[k] - z[k]) * w + z[k];
    }
}

/* The token behind the end of a text. */
static int32_t padding_of(const graft_encoder *k)
{
    return k->pad_token ? k->arch.eos : 0;
}

static void empty_chunk(const graft_encoder *k, int32_t *tokens)
{
    tokens[0] = 49406 < k->arch.vocab ? 49406 : k->arch.eos - 1;
    tokens[1] = k->arch.eos;
    for (int i = 2; i < GRAFT_TEXT_CHUNK; i++) tokens[i] = padding_of(k);
}

graft_status graft_clip_run_chunks(const graft_clip *c, size_t i, const graft_chunks *chunks,
                                   const graft_task *task, float *hidden, float *pooled,
                                   graft_err *e)
{
    const graft_encoder *k = &c->encoder[i];
    size_t width = (size_t)k->arch.width, n = chunks->count, all = n;
    size_t chunk = GRAFT_TEXT_CHUNK * width, pw = (size_t)graft_encoder_pooled_width(k);
    graft_status st = GRAFT_OK;
    for (size_t t = 0; t < n * GRAFT_TEXT_CHUNK; t++)
        if (chunks->weights[t] != 1.0f) all = n + 1; /* the empty prompt runs along */
    int32_t *tokens = graft_malloc_array(all * GRAFT_TEXT_CHUNK, sizeof *tokens);
    float *h = graft_malloc_array(all, chunk * sizeof *h);
    float *p = graft_malloc_array(all, pw * sizeof *p);
    if (!tokens || !h || !p) {
        st = graft_fail_nomem(e, "text encoder");
        goto out;
    }
    memcpy(tokens, chunks->tokens, n * GRAFT_TEXT_CHUNK * sizeof *tokens);
    if (all > n) empty_chunk(k, tokens + n * GRAFT_TEXT_CHUNK);
    graft_chunks in = {
        .count = all, .tokens = tokens, .n_vectors = chunks->n_vectors, .vectors = chunks->vectors};
    GRAFT_TRY(run_tokens(c, k, &in, GRAFT_TEXT_CHUNK, task, h, p, e));
    if (all > n) apply_weights(chunks, width, h + n * chunk, h);
    memcpy(hidden, h, n * chunk * sizeof *h);
    memcpy(pooled, p, pw * sizeof *p);
out:
    graft_free(tokens);
    graft_free(h);
    graft_free(p);
    return st;
}

/* ------------------------------------------------------------------ prompts */

static graft_status read_prompt(const graft_clip *c, size_t i, const char *text,
                                const graft_task *task, graft_chunks *out, graft_err *e)
{
    const graft_tokenizer *t;
    graft_embeddings x;
    const graft_text_embeddings named = {.ctx = &x, .find = graft_embeddings_find};
    bool wanted = task && task->embedding;
    graft_embeddings_init(&x, c, i, task);
    graft_status st = graft_engine_tokenizer(c->engine, &t, e);
    if (!st)
        st = graft_prompt_chunks_with(t, text, c->encoder[i].pad_token, wanted ? &named : NULL, out,
                                      e);
    if (!st) {
        out->n_vectors = x.n_vectors;
        out->vectors = x.vectors;
        x.vectors = NULL;
    }
    graft_embeddings_finish(&x);
    return st;
}

graft_status graft_clip_encode_one(const graft_clip *c, size_t i, const char *text,
                                   const graft_task *task, graft_encoded *out, graft_err *e)
{
    const graft_encoder *k = &c->encoder[i];
    graft_chunks chunks = {0};
    graft_status st = read_prompt(c, i, text, task, &chunks, e);
    if (st) return st;
    size_t n = chunks.count * GRAFT_TEXT_CHUNK;
    out->chunks = chunks.count;
    out->hidden = graft_malloc_array(n, (size_t)k->arch.width * sizeof *out->hidden);
    out->pooled = graft_malloc_array((size_t)graft_encoder_pooled_width(k), sizeof *out->pooled);
    st = out->hidden && out->pooled
             ? graft_clip_run_chunks(c, i, &chunks, task, out->hidden, out->pooled, e)
             : graft_fail_nomem(e, "text encoder");
    graft_chunks_finish(&chunks);
    return st;
}

/* All words of the chunks in one of `length` tokens, as many as have room. */
static void join_chunks(const graft_encoder *k, const graft_chunks *c, size_t length,
                        int32_t *tokens)
{
    size_t n = 0;
    tokens[n++] = c->tokens[0];
    for (size_t i = 0; i < c->count; i++) {
        const int32_t *own = c->tokens + i * GRAFT_TEXT_CHUNK;
        for (size_t t = 1; t < GRAFT_TEXT_CHUNK && own[t] != k->arch.eos && n + 1 < length; t++)
            tokens[n++] = own[t];
    }
    tokens[n++] = k->arch.eos;
    while (n < length) tokens[n++] = padding_of(k);
}

graft_status graft_clip_encode_pooled(const graft_clip *c, size_t i, const char *text,
                                      const graft_task *task, float *pooled, graft_err *e)
{
    const graft_encoder *k = &c->encoder[i];
    graft_chunks chunks = {0};
    graft_status st = read_prompt(c, i, text, task, &chunks, e);
    if (st) return st;
    const bool longer = chunks.count > 1 && k->arch.positions > GRAFT_TEXT_CHUNK;
    const size_t length = longer ? (size_t)k->arch.positions : GRAFT_TEXT_CHUNK;
    int32_t *tokens = graft_malloc_array(length, sizeof *tokens);
    float *hidden = graft_malloc_array(length, (size_t)k->arch.width * sizeof *hidden);
    if (!tokens || !hidden) st = graft_fail_nomem(e, "text encoder");
    if (!st) {
        if (longer)
            join_chunks(k, &chunks, length, tokens);
        else
            memcpy(tokens, chunks.tokens, length * sizeof *tokens);
        const graft_chunks one = {
            .count = 1, .tokens = tokens, .n_vectors = chunks.n_vectors, .vectors = chunks.vectors};
        st = run_tokens(c, k, &one, length, task, hidden, pooled, e);
    }
    graft_free(tokens);
    graft_free(hidden);
    graft_chunks_finish(&chunks);
    return st;
}

graft_status graft_clip_lengthen(const graft_clip *c, size_t i, size_t chunks,
                                 const graft_task *task, graft_encoded *k, graft_err *e)
{
    graft_encoded empty = {0};
    if (k->chunks >= chunks) return GRAFT_OK;
    graft_status st = graft_clip_encode_one(c, i, "", task, &empty, e);
    size_t each = (size_t)GRAFT_TEXT_CHUNK * (size_t)c->encoder[i].arch.width;
    float *hidden = st ? NULL : graft_malloc_array(chunks * each, sizeof *hidden);
    if (!st && !hidden) st = graft_fail_nomem(e, "text encoder");
    if (!st) {
        memcpy(hidden, k->hidden, k->chunks * each * sizeof *hidden);
        for (; k->chunks < chunks; k->chunks++)
            memcpy(hidden + k->chunks * each, empty.hidden, each * sizeof *hidden);
        graft_free(k->hidden);
        k->hidden = hidden;
    }
    graft_encoded_finish(&empty);
    return st;
}

void graft_encoded_finish(graft_encoded *k)
{
    graft_free(k->hidden);
    graft_free(k->pooled);
    *k = (graft_encoded){0};
}

/* SDXL: L's and G's columns side by side, as many tokens as both have; G's pooled output. One text
 * has as many for both, unless an embedding has more vectors for one of them. */
static graft_status join_two(const graft_clip *c, graft_encoded *l, graft_encoded *g,
                             const graft_sdxl_size *size, graft_cond **out, graft_err *e)
{
    size_t a = (size_t)c->encoder[0].arch.width, b = (size_t)c->encoder[1].arch.width;
    size_t chunks = l->chunks < g->chunks ? l->chunks : g->chunks;
    size_t tokens = chunks * GRAFT_TEXT_CHUNK;
    float *data = graft_malloc_array(tokens, (a + b) * sizeof *data);
    if (!data) return graft_fail_nomem(e, "conditioning");
    for (size_t i = 0; i < tokens; i++) {
        memcpy(data + i * (a + b), l->hidden + i * a, a * sizeof *data);
        memcpy(data + i * (a + b) + a, g->hidden + i * b, b * sizeof *data);
    }
    float *pooled = g->pooled;
    g->pooled = NULL;
    return graft_cond_create((int64_t)tokens, (int64_t)(a + b), data,
                             graft_encoder_pooled_width(&c->encoder[1]), pooled, size, out, e);
}

static graft_status encode(const graft_clip *c, const char *text_l, const char *text_g,
                           const graft_sdxl_size *size, const graft_task *task, graft_cond **out,
                           graft_err *e)
{
    graft_encoded part[2];
    graft_status st = graft_clip_there(c, e);
    if (st) return st;
    if (c->kind == GRAFT_CLIP_SD3)
        return graft_clip_encode_sd3(c, text_l, text_g, text_l, task, out, e);
    if (c->kind == GRAFT_CLIP_FLUX) return graft_clip_encode_flux(c, text_l, text_l, task, out, e);
    if (c->kind == GRAFT_CLIP_HIDREAM)
        return graft_clip_encode_hidream(c, text_l, text_l, text_l, text_l, task, out, e);
    if (c->kind == GRAFT_CLIP_CHROMA) return graft_clip_encode_chroma(c, text_l, task, out, e);
    if (c->kind == GRAFT_CLIP_AURAFLOW) return graft_clip_encode_auraflow(c, text_l, task, out, e);
    if (c->kind == GRAFT_CLIP_ANIMA) return graft_clip_encode_anima(c, text_l, task, out, e);
    if (c->qwen3) return graft_clip_encode_qwen3(c, text_l, task, out, e);
    memset(part, 0, sizeof part);
    GRAFT_TRY(graft_clip_encode_one(c, 0, text_l, task, &part[0], e));
    if (c->kind == GRAFT_CLIP_SDXL) {
        GRAFT_TRY(graft_clip_encode_one(c, 1, text_g, task, &part[1], e));
        size_t longest = part[0].chunks > part[1].chunks ? part[0].chunks : part[1].chunks;
        for (size_t i = 0; i < 2 && text_l != text_g; i++)
            GRAFT_TRY(graft_clip_lengthen(c, i, longest, task, &part[i], e));
        st = join_two(c, &part[0], &part[1], size, out, e);
    } else {
        float *hidden = part[0].hidden, *pooled = part[0].pooled;
        part[0].hidden = part[0].pooled = NULL;
        st = graft_cond_create((int64_t)part[0].chunks * GRAFT_TEXT_CHUNK, c->encoder[0].arch.width,
                               hidden, graft_encoder_pooled_width(&c->encoder[0]), pooled, size,
                               out, e);
    }
out:
    graft_encoded_finish(&part[0]);
    graft_encoded_finish(&part[1]);
    return st;
}

static graft_status encode_text(const graft_clip *c, const void *what, const graft_task *task,
                                graft_cond **out, graft_err *e)
{
    return encode(c, what, what, NULL, task, out, e);
}

graft_status graft_clip_encode(const graft_clip *c, const char *text, const graft_task *task,
                               graft_cond **out, graft_err *e)
{
    if (c->hooking) return graft_clip_encode_hooked(c, encode_text, text, 1, task, out, e);
    return encode_text(c, text, task, out, e);
}

typedef struct sized_prompt {
    const char *text_g, *text_l;
    const graft_sdxl_size *size;
    double score; /* of the refiner's */
} sized_prompt;

static graft_status encode_sdxl(const graft_clip *c, const void *what, const graft_task *task,
                                graft_cond **out, graft_err *e)
{
    const sized_prompt *p = what;
    return encode(c, p->text_l, p->text_g, p->size, task, out, e);
}

graft_status graft_clip_encode_sdxl(const graft_clip *c, const char *text_g, const char *text_l,
                                    const graft_sdxl_size *size, const graft_task *task,
                                    graft_cond **out, graft_err *e)
{
    graft_status st = graft_clip_there(c, e);
    if (st) return st;
    if (c->kind != GRAFT_CLIP_SDXL)
        return graft_fail(e, GRAFT_E_ARG, "these text encoders are not SDXL's two");
    const sized_prompt p = {text_g, text_l, size, 0};
    if (c->hooking) return graft_clip_encode_hooked(c, encode_sdxl, &p, 1, task, out, e);
    return encode_sdxl(c, &p, task, out, e);
}

static graft_status encode_refiner(const graft_clip *c, const void *what, const graft_task *task,
                                   graft_cond **out, graft_err *e)
{
    const sized_prompt *p = what;
    graft_status st = encode_sdxl(c, p, task, out, e);
    if (st) return st;
    (*out)->entry[0]->has_score = true;
    (*out)->entry[0]->score = p->score;
    return GRAFT_OK;
}

graft_status graft_clip_encode_refiner(const graft_clip *c, const char *text, double score,
                                       int64_t width, int64_t height, const graft_task *task,
                                       graft_cond **out, graft_err *e)
{
    const graft_sdxl_size size = {width, height, 0, 0, width, height};
    *out = NULL;
    if (!(score >= 0 && score <= 1e6))
        return graft_fail(e, GRAFT_E_ARG, "%g is not an aesthetic score", score);
    const sized_prompt p = {text, text, &size, score};
    if (c->hooking) return graft_clip_encode_hooked(c, encode_refiner, &p, 1, task, out, e);
    return encode_refiner(c, &p, task, out, e);
}
