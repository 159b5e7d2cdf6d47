#include "engine/models/encoders/qwen3.h"

#include <math.h>

#include "engine/models/parts/stream.h"
#include "engine/models/parts/turned.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define BASE      1e6f  /* of the angles that places turn by */
#define BASE_VL   5e6f  /* the same of Qwen 3-VL */
#define BASE_DEV  1e9f  /* of Mistral Small from 3.1 on */
#define EPS_DEV   1e-5f /* of its norms */
#define CAP       50    /* of the scores of Gemma's attention */
/* YaRN's numbers for Ministral 3, whose base is BASE: a length, by how much it was stretched, and
 * how often at least an angle goes round over it that stays as it was, at most one that is
 * stretched. */
#define YARN_LENGTH 16384
#define YARN_FACTOR 16
#define YARN_FAST   32
#define YARN_SLOW   1
/* Llama 3.1's base and numbers: the length of its training, by how much angles are slowed that do
 * not go round over it, and how often at least one does that stays as it was. */
#define BASE_LLAMA   5e5
#define LLAMA_LENGTH 8192
#define LLAMA_FACTOR 8
#define LLAMA_TIMES  4
/* Beside any score; infinities would make a block of keys of no number. */
#define UNSEEN -1e9f

typedef struct qwen3 {
    graft_build b;
    const graft_qwen3_arch *a;
    int64_t batch, tokens;
    float base;
    graft_vid bias; /* GRAFT_NO_VALUE: a token sees those before it and itself */
    graft_vid sees; /* (1,tokens,1): 0 for one that sees nothing; or GRAFT_NO_VALUE */
    graft_turns turns;
    bool placed; /* turns say where tokens stand */
    int32_t n_deep;
    graft_vid deep[GRAFT_QWEN3_DEEP]; /* added behind the first layers */
} qwen3;

const char *graft_qwen3_embeddings_name(void)
{
    return "model.embed_tokens.weight";
}

const char *graft_qwen3_family(const graft_qwen3_arch *a)
{
    return a->gemma       ? "Gemma 2"
           : a->ministral ? "Ministral 3"
           : a->llama     ? "Llama 3.1"
           : a->mistral   ? "Mistral"
           : a->biased    ? "Qwen 2.5"
                          : "Qwen 3";
}

int64_t graft_qwen3_most(const graft_qwen3_arch *a, bool with_pictures)
{
    return with_pictures && !a->biased && !a->mistral && !a->gemma ? GRAFT_QWEN3_MAX_SEEN
                                                                   : GRAFT_QWEN3_MAX_TOKENS;
}

static graft_vid linear(const qwen3 *m, graft_name name, graft_vid x, int32_t width)
{
    return graft_build_linear(&m->b, name, x, width, false);
}

/* Queries, keys or values of x. */
static graft_vid projected(const qwen3 *m, graft_name name, graft_vid x, int32_t heads)
{
    return graft_build_linear(&m->b, name, x, heads * m->a->head_dim, m->a->biased);
}

static graft_vid rms_normed(const qwen3 *m, graft_name weight, graft_vid x)
{
    const float eps = m->a->mistral ? EPS_DEV : GRAFT_STREAM_EPS;
    return m->a->gemma ? graft_build_rms_norm_more(&m->b, weight, x, 1, eps)
                       : graft_build_rms_norm(&m->b, weight, x, 1, eps);
}

/* Of the float32 that the layers add up to. */
static graft_vid normed(const qwen3 *m, graft_name weight, graft_vid x)
{
    return graft_build_cast(&m->b, rms_normed(m, weight, x), m->b.act_dtype);
}

/* What a branch of layer i gives, of Gemma normed once more by the norm of this name. */
static graft_vid added(const qwen3 *m, int i, const char *norm, graft_vid x, graft_vid y)
{
    y = graft_build_cast(&m->b, y, GRAFT_F32);
    if (m->a->gemma) y = rms_normed(m, NAME("model.layers.%d.%s.weight", i, norm), y);
    return graft_build_add(&m->b, y, x);
}

/* Queries or keys, of Qwen 3 normed, and turned. */
static graft_vid turned(const qwen3 *m, graft_name weight, graft_vid x, int32_t heads)
{
    if (!m->a->biased && !m->a->mistral && !m->a->gemma)
        x = graft_stream_head_normed(&m->b, weight, x, heads);
    if (m->placed) return graft_turned(&m->b, &m->turns, x, heads);
    const graft_rope_grid row = {.heads = heads,
                                 .rows = 1,
                                 .columns = (int32_t)m->tokens,
                                 .of_column = m->a->head_dim,
                                 .base = m->base};
    return graft_turned_on(&m->b, x, &row);
}

static graft_vid attend(const qwen3 *m, graft_vid query, graft_vid key, graft_vid value)
{
    const graft_vid in[4] = {query, key, value, m->bias};
    const graft_attrs a = {.heads = m->a->heads,
                           .scale = 1.0f / sqrtf((float)m->a->head_dim),
                           .shift = m->a->gemma ? CAP : 0};
    if (m->bias < 0) return graft_build_attention(&m->b, query, key, value, m->a->heads, true);
    if (query < 0 || key < 0 || value < 0) return GRAFT_NO_VALUE;
    return graft_graph_node(m->b.g, GRAFT_OP_ATTENTION, &a, in, 4, GRAFT_DTYPE_NONE);
}

static graft_vid attention(const qwen3 *m, int i, graft_vid x)
{
    const int32_t heads = m->a->heads, key_heads = m->a->key_heads;
    const graft_name name = NAME("model.layers.%d.self_attn", i);
    const graft_vid h = normed(m, NAME("model.layers.%d.input_layernorm.weight", i), x);
    graft_vid query = projected(m, NAME("%s.q_proj", name.text), h, heads);
    graft_vid key = projected(m, NAME("%s.k_proj", name.text), h, key_heads);
    const graft_vid value = projected(m, NAME("%s.v_proj", name.text), h, key_heads);
    query = turned(m, NAME("%s.q_norm.weight", name.text), query, heads);
    key = turned(m, NAME("%s.k_norm.weight", name.text), key, key_heads);
    const graft_vid y = attend(m, query, graft_stream_heads_shared(&m->b, key, heads, key_heads),
                               graft_stream_heads_shared(&m->b, value, heads, key_heads));
    graft_vid seen = linear(m, NAME("%s.o_proj", name.text), y, m->a->width);
    if (m->sees >= 0)
        seen = graft_build_mul(&m->b, graft_build_cast(&m->b, seen, GRAFT_F32), m->sees);
    return added(m, i, "post_attention_layernorm", x, seen);
}

static graft_vid feed_forward(const qwen3 *m, int i, graft_vid x)
{
    const graft_name name = NAME("model.layers.%d.mlp", i);
    const bool gemma = m->a->gemma;
    const char *norm = gemma ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    graft_vid h = normed(m, NAME("model.layers.%d.%s.weight", i, norm), x);
    graft_vid gate = linear(m, NAME("%s.gate_proj", name.text), h, m->a->intermediate);
    gate = graft_build_act(&m->b, gate, gemma ? GRAFT_ACT_GELU_TANH : GRAFT_ACT_SILU);
    h = linear(m, NAME("%s.up_proj", name.text), h, m->a->intermediate);
    h = graft_build_mul(&m->b, gate, h);
    h = linear(m, NAME("%s.down_proj", name.text), h, m->a->width);
    return added(m, i, "post_feedforward_layernorm", x, h);
}

static graft_vid layer(const qwen3 *m, int i, graft_vid x)
{
    x = feed_forward(m, i, attention(m, i, x));
    return i < m->n_deep ? graft_build_add(&m->b, m->deep[i], x) : x;
}

static graft_vid first_layers(const qwen3 *m, graft_vid x, int32_t layers)
{
    for (int i = 0; i < layers; i++) x = layer(m, i, x);
    return x;
}

/* Qwen-Image's. */
static graft_vid all_normed(const qwen3 *m, graft_vid x)
{
    return graft_stream_head_normed(&m->b, NAME("model.norm.weight"),
                                    first_layers(m, x, m->a->layers), 1);
}

/* The stream behind so many layers each, side by side. */
static graft_vid side_by_side(const qwen3 *m, graft_vid x, const int32_t *at, int n)
{
    graft_vid all = GRAFT_NO_VALUE;
    int i = 0;
    for (int k = 0; k < n && m->a->layers >= at[n - 1]; k++) {
        for (; i < at[k]; i++) x = layer(m, i, x);
        all = k ? graft_build_concat(&m->b, all, x) : x;
    }
    return all;
}

/* FLUX.2's. */
static graft_vid joined(const qwen3 *m, graft_vid x)
{
    static const int32_t klein[GRAFT_QWEN3_JOINED] = GRAFT_QWEN3_JOINED_AT;
    static const int32_t dev[GRAFT_QWEN3_JOINED] = GRAFT_MISTRAL_JOINED_AT;
    return side_by_side(m, x, m->a->mistral ? dev : klein, GRAFT_QWEN3_JOINED);
}

/* Krea 2's. */
static graft_vid layered(const qwen3 *m, graft_vid x)
{
    int32_t at[GRAFT_QWEN3_LAYERED];
    for (int i = 0; i < GRAFT_QWEN3_LAYERED; i++)
        at[i] = GRAFT_QWEN3_LAYERED_FIRST + GRAFT_QWEN3_LAYERED_STEP * i;
    return side_by_side(m, x, at, GRAFT_QWEN3_LAYERED);
}

/* Ideogram 4's. */
static graft_vid stacked(const qwen3 *m, graft_vid x)
{
    int32_t at[GRAFT_QWEN3_STACKED];
    for (int i = 0; i < GRAFT_QWEN3_STACKED; i++) at[i] = 3 * i + 1;
    at[GRAFT_QWEN3_STACKED - 1] = GRAFT_QWEN3_STACKED_END + 1;
    return side_by_side(m, x, at, GRAFT_QWEN3_STACKED);
}

/* HiDream-I1's: `count` layers from `first` on, which *x goes through. */
static graft_vid every(const qwen3 *m, graft_vid *x, int32_t first, int32_t count)
{
    if (count > 1) {
        const graft_vid left = every(m, x, first, count / 2);
        return graft_build_concat(&m->b, left, every(m, x, first + count / 2, count - count / 2));
    }
    *x = layer(m, first, *x);
    return first + 1 < m->a->layers ? *x : rms_normed(m, NAME("model.norm.weight"), *x);
}

static void check_layers(const graft_qwen3_arch *a, int32_t last, const char *network,
                         graft_graph *g)
{
    if (a->layers <= last)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED,
                         "a Qwen 3 of %d layers; %s wants what layer %d of one with more gives",
                         a->layers, network, last);
}

/* Those that one network alone reads. */
static void check_own(const graft_qwen3_arch *a, const graft_qwen3_shape *s, graft_graph *g)
{
    const bool other = s->joined || s->normed || s->layered || s->whole || s->every;
    if (graft_qwen3_is_led(a) != (s->joined == GRAFT_QWEN3_DEV) || (a->ministral && other) ||
        (a->llama != 0) != (s->every != 0) || (a->gemma && (other || s->placed)))
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED, "%s for another network than its own",
                         graft_qwen3_family(a));
    if (graft_qwen3_is_placed(a) && !s->placed)
        graft_graph_fail(g, GRAFT_E_ARG, "a %s without its angles", graft_qwen3_family(a));
}

static void check(const graft_qwen3_arch *a, const graft_qwen3_shape *s, graft_graph *g)
{
    if (s->act_dtype != GRAFT_F32 && s->act_dtype != GRAFT_BF16)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED, "%s runs in float32 and bfloat16 only",
                         graft_qwen3_family(a));
    if (s->tokens > graft_qwen3_most(a, s->placed))
        graft_graph_fail(g, GRAFT_E_LIMIT, "a text of %lld tokens; at most %lld are read by %s",
                         (long long)s->tokens, (long long)graft_qwen3_most(a, s->placed),
                         graft_qwen3_family(a));
    if (!!s->joined + !!s->normed + !!s->layered + !!s->whole + !!s->every > 1)
        graft_graph_fail(g, GRAFT_E_ARG, "a text for several networks");
    if (s->placed && s->batch != 1)
        graft_graph_fail(g, GRAFT_E_ARG, "%lld texts with pictures", (long long)s->batch);
    if (s->deep && (!s->placed || !s->whole || s->deep < 0 || s->deep > GRAFT_QWEN3_DEEP ||
                    s->deep > a->layers))
        graft_graph_fail(g, GRAFT_E_ARG, "pictures that go deeper %d times into %d layers", s->deep,
                         a->layers);
    if (s->padded && (!s->normed || !s->placed || !a->biased))
        graft_graph_fail(g, GRAFT_E_ARG, "padding that is read, for another network than its own");
    check_own(a, s, g);
    if (graft_qwen3_is_led(a) && a->layers < GRAFT_MISTRAL_JOINED_LEAST)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED,
                         "a Mistral of %d layers; FLUX.2 wants what the first %d give", a->layers,
                         GRAFT_MISTRAL_JOINED_LEAST);
    if (s->joined == GRAFT_QWEN3_KLEIN) check_layers(a, GRAFT_QWEN3_JOINED_END, "FLUX.2", g);
    if (s->layered == GRAFT_QWEN3_KREA2) check_layers(a, GRAFT_QWEN3_LAYERED_END, "Krea 2", g);
    if (s->layered == GRAFT_QWEN3_IDEOGRAM4)
        check_layers(a, GRAFT_QWEN3_STACKED_END, "Ideogram 4", g);
}

void graft_qwen3_bias(const graft_qwen3_arch *a, int64_t words, int64_t tokens, float *bias)
{
    for (int64_t h = 0; h < a->heads; h++)
        for (int64_t query = 0; query < tokens; query++)
            for (int64_t key = 0; key < tokens; key++)
                *bias++ = key <= query && key < words ? 0 : UNSEEN;
}

/* Which axis an angle of a head turns with. Qwen 2.5-VL's: a quarter with the first, of the others
 * half and half. Qwen 3-VL's: in turn the first, the second and the third, until the latter two
 * have five of sixteen each; the rest with the first. */
static int axis_of(const graft_qwen3_arch *a, int32_t angle, int32_t angles)
{
    if (!a->biased) return angle < 3 * (5 * angles / 16) ? angle % 3 : 0;
    const int32_t first = angles / 4, second = first + (angles - first + 1) / 2;
    return angle < first ? 0 : angle < second ? 1 : 2;
}

/* The number, not yet a whole one, of an angle that goes round so often over YaRN's length. */
static double yarn_angle(const graft_qwen3_arch *a, double times)
{
    return a->head_dim * log(YARN_LENGTH / (times * 2 * acos(-1.0))) / (2 * log(BASE));
}

/* By how much angle i of Llama's grows from one place to the next. */
static double llama_speed(const graft_qwen3_arch *a, int32_t i)
{
    const double speed = pow(BASE_LLAMA, -2.0 * i / a->head_dim);
    const double times = LLAMA_LENGTH * speed / (2 * acos(-1.0));
    const double part = fmin(fmax((times - 1) / (LLAMA_TIMES - 1), 0), 1);
    return speed * part + speed / LLAMA_FACTOR * (1 - part);
}

/* The same of the others'. */
static double speed_of(const graft_qwen3_arch *a, int32_t i)
{
    if (a->llama) return llama_speed(a, i);
    const double base = a->biased || a->ministral ? BASE : BASE_VL;
    const double speed = pow(base, -2.0 * i / a->head_dim);
    if (!a->ministral) return speed;
    const double low = fmax(floor(yarn_angle(a, YARN_FAST)), 0);
    const double high = fmin(ceil(yarn_angle(a, YARN_SLOW)), a->head_dim - 1);
    const double part = fmin(fmax((i - low) / fmax(high - low, 1e-3), 0), 1);
    return speed * (1 - part) + speed / YARN_FACTOR * part;
}

static void turn_token(const graft_qwen3_arch *a, const int64_t at[3], float *cosines, float *sines)
{
    const int32_t angles = a->head_dim / 2;
    for (int32_t i = 0; i < angles; i++) {
        const double angle = (double)at[axis_of(a, i, angles)] * speed_of(a, i);
        cosines[i] = (float)cos(angle);
        sines[i] = (float)sin(angle);
    }
}

void graft_qwen3_angles(const graft_qwen3_arch *a, const graft_qwen3_picture *picture, size_t n,
                        int64_t tokens, float *cosines, float *sines)
{
    const int64_t angles = a->head_dim / 2;
    int64_t next = 0, i = 0;
    for (size_t k = 0; i < tokens; k++) {
        const int64_t end = k < n ? picture[k].at : tokens;
        for (; i < end; i++, next++)
            turn_token(a, (const int64_t[]){next, next, next}, cosines + i * angles,
                       sines + i * angles);
        if (k >= n) continue;
        const int64_t rows = picture[k].rows, columns = picture[k].columns;
        for (int64_t cell = 0; cell < rows * columns; cell++, i++)
            turn_token(a, (const int64_t[]){next, next + cell / columns, next + cell % columns},
                       cosines + i * angles, sines + i * angles);
        next += rows > columns ? rows : columns;
    }
}

static void add_deep(qwen3 *m, const graft_qwen3_shape *s)
{
    for (; m->n_deep < s->deep && m->n_deep < GRAFT_QWEN3_DEEP; m->n_deep++)
        m->deep[m->n_deep] =
            graft_graph_input(m->b.g, GRAFT_F32, 3, (int64_t[]){1, s->tokens, m->a->width});
}

graft_status graft_qwen3_build(const graft_qwen3_arch *a, const graft_qwen3_shape *s,
                               graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "text encoder graph");
    qwen3 m = {.b = {g, s->act_dtype},
               .a = a,
               .batch = s->batch,
               .tokens = s->tokens,
               .base = a->gemma                 ? (float)GRAFT_ROPE_BASE
                       : a->mistral             ? BASE_DEV
                       : s->layered || s->whole ? BASE_VL
                                                : BASE,
               .bias = GRAFT_NO_VALUE,
               .sees = GRAFT_NO_VALUE,
               .placed = s->placed};
    check(a, s, g);
    graft_vid x = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){s->batch, s->tokens, a->width});
    if (s->joined == GRAFT_QWEN3_KLEIN || s->padded || s->every || a->gemma)
        m.bias = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){a->heads, s->tokens, s->tokens});
    if (s->joined == GRAFT_QWEN3_DEV)
        m.sees = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){1, s->tokens, 1});
    if (s->placed) m.turns = graft_turns_input(&m.b, s->tokens, a->head_dim / 2);
    add_deep(&m, s);
    if (a->gemma) x = graft_build_scale(&m.b, x, sqrtf((float)a->width), 0);
    graft_graph_output(g, s->joined                             ? joined(&m, x)
                          : s->layered == GRAFT_QWEN3_IDEOGRAM4 ? stacked(&m, x)
                          : s->layered                          ? layered(&m, x)
                          : s->normed                           ? all_normed(&m, x)
                          : s->every                            ? every(&m, &x, 0, a->layers)
                                     : first_layers(&m, x, a->layers - !s->whole));
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}
