#include "engine/models/encoders/t5.h"

#include <math.h>

#include "engine/models/parts/build.h"

#define NAME(...)    graft_name_make(__VA_ARGS__)
#define EPS          1e-6f
#define FAR_DISTANCE 128.0
/* Beside any score; infinities would make a block of keys of no number. */
#define UNSEEN -1e9f

typedef struct t5 {
    graft_build b;
    const graft_t5_arch *a;
    graft_vid bias;    /* of all layers, or */
    graft_vid buckets; /* what each one's is looked up by */
    int64_t tokens;
} t5;

const char *graft_t5_embeddings_name(const graft_t5_arch *a)
{
    return a->embed_tokens ? "encoder.embed_tokens.weight" : "shared.weight";
}

const char *graft_t5_bias_name(void)
{
    return "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
}

/* ------------------------------------------------------------------ the bias */

int32_t graft_t5_bucket(int32_t buckets, int64_t distance)
{
    const int32_t half = buckets / 2, near = half / 2, side = distance > 0 ? half : 0;
    const int64_t d = distance < 0 ? -distance : distance;
    if (d < near) return side + (int32_t)d;
    /* Where a step begins at a whole number, its logarithm must not fall short of it. */
    const double steps = log((double)d / near) / log(FAR_DISTANCE / near) * (half - near) + 1e-9;
    return side + (steps < half - near ? near + (int32_t)steps : half - 1);
}

void graft_t5_buckets(const graft_t5_arch *a, int64_t tokens, int32_t *out)
{
    for (int64_t q = 0; q < tokens; q++)
        for (int64_t k = 0; k < tokens; k++)
            out[q * tokens + k] = graft_t5_bucket(a->buckets, k - q);
}

void graft_t5_bias(const graft_t5_arch *a, const float *table, int64_t words, int64_t tokens,
                   float *out)
{
    for (int64_t distance = 1 - tokens; distance < tokens; distance++) {
        const float *row = table + (int64_t)graft_t5_bucket(a->buckets, distance) * a->heads;
        const int64_t first = distance < 0 ? -distance : 0; /* query that has a key there */
        const int64_t end = distance < 0 ? tokens : tokens - distance;
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t q = first; q < end; q++)
                out[(h * tokens + q) * tokens + q + distance] =
                    q + distance < words ? row[h] : UNSEEN;
    }
}

/* ------------------------------------------------------------------ the graph */

static graft_vid linear(const t5 *t, graft_name name, graft_vid x, int32_t width)
{
    return graft_build_linear(&t->b, name, x, width, false);
}

/* Of the float32 that the layers add up to. */
static graft_vid normed(const t5 *t, graft_name name, graft_vid x)
{
    return graft_build_rms_norm(&t->b, NAME("%s.weight", name.text), x, 1, EPS);
}

static graft_vid added(const t5 *t, graft_vid x, graft_vid y)
{
    return graft_build_add(&t->b, graft_build_cast(&t->b, y, GRAFT_F32), x);
}

/* (heads,T,T), which layer i adds to its scores. */
static graft_vid bias_of(const t5 *t, int i)
{
    const graft_build *b = &t->b;
    const int64_t table[2] = {t->a->buckets, t->a->heads}, heads = t->a->heads, n = t->tokens;
    if (!t->a->own_bias) return t->bias;
    const graft_name name =
        NAME("encoder.block.%d.layer.0.SelfAttention.relative_attention_bias.weight", i);
    const graft_vid in[2] = {t->buckets, graft_graph_weight(b->g, name.text, 2, table)};
    if (in[0] < 0 || in[1] < 0) return GRAFT_NO_VALUE;
    graft_vid v = graft_graph_node(b->g, GRAFT_OP_EMBEDDING, NULL, in, 2, GRAFT_F32);
    v = graft_build_exchanged(b, v, (const int64_t[]){1, n * n, heads, 1}, GRAFT_F32);
    return graft_graph_reshape(b->g, v, 3, (const int64_t[]){heads, n, n});
}

static graft_vid attention(const t5 *t, int i, graft_vid x)
{
    static const char *const part[3] = {"q", "k", "v"};
    const int32_t inner = t->a->heads * t->a->head_dim;
    const graft_name name = NAME("encoder.block.%d.layer.0", i);
    graft_vid h =
        graft_build_cast(&t->b, normed(t, NAME("%s.layer_norm", name.text), x), t->b.act_dtype);
    graft_vid in[4] = {0, 0, 0, bias_of(t, i)};
    if (in[3] < 0) return GRAFT_NO_VALUE;
    for (int k = 0; k < 3; k++) {
        in[k] = linear(t, NAME("%s.SelfAttention.%s", name.text, part[k]), h, inner);
        if (in[k] < 0) return GRAFT_NO_VALUE;
    }
    h = graft_graph_node(t->b.g, GRAFT_OP_ATTENTION,
                         &(graft_attrs){.heads = t->a->heads, .scale = 1.0f}, in, 4,
                         GRAFT_DTYPE_NONE);
    return added(t, x, linear(t, NAME("%s.SelfAttention.o", name.text), h, t->a->width));
}

static graft_vid feed_forward(const t5 *t, int i, graft_vid x)
{
    const graft_name name = NAME("encoder.block.%d.layer.1", i);
    graft_vid h =
        graft_build_cast(&t->b, normed(t, NAME("%s.layer_norm", name.text), x), t->b.act_dtype);
    graft_vid gate = linear(t, NAME("%s.DenseReluDense.wi_0", name.text), h, t->a->intermediate);
    gate = graft_build_act(&t->b, gate, GRAFT_ACT_GELU_TANH);
    h = linear(t, NAME("%s.DenseReluDense.wi_1", name.text), h, t->a->intermediate);
    h = graft_build_mul(&t->b, gate, h);
    return added(t, x, linear(t, NAME("%s.DenseReluDense.wo", name.text), h, t->a->width));
}

graft_status graft_t5_build(const graft_t5_arch *a, const graft_t5_shape *s, graft_graph **out,
                            graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "text encoder graph");
    t5 t = {.b = {g, s->act_dtype}, .a = a, .bias = -1, .buckets = -1, .tokens = s->tokens};
    if (s->act_dtype != GRAFT_F32 && s->act_dtype != GRAFT_BF16)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED, "T5 runs in float32 and bfloat16 only");
    if (s->tokens > GRAFT_T5_MAX_TOKENS)
        graft_graph_fail(g, GRAFT_E_LIMIT, "a text of %lld tokens; at most %d are read by T5",
                         (long long)s->tokens, GRAFT_T5_MAX_TOKENS);
    graft_vid x = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){s->batch, s->tokens, a->width});
    if (a->own_bias)
        t.buckets = graft_graph_input(g, GRAFT_I32, 2, (int64_t[]){s->tokens, s->tokens});
    else
        t.bias = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){a->heads, s->tokens, s->tokens});
    for (int i = 0; i < a->layers; i++) x = feed_forward(&t, i, attention(&t, i, x));
    graft_graph_output(g, normed(&t, NAME("encoder.final_layer_norm"), x));
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}
