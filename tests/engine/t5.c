/* T5's encoder: the buckets of its bias, which files it is found in, what its graph keeps in
 * float32, and what it refuses. What it computes is held against golden/small/t5. */
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/prompts/t5.h"
#include "engine/passes/passes.h"
#include "tests/engine/diffusers.h"
#include "tests/engine/texts_packed.h"
#include "tests/gguf_file.h"
#include "engine/models/detect/detect.h"

enum { LAYERS = 2, WIDTH = 32, HEADS = 3, INNER = 24, DENSE = 48, VOCAB = 50, T = 5 };
#define PREFIX "text_encoders.t5xxl.transformer."
#define BIAS   "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"

static graft_engine *engine;

/* ------------------------------------------------------------------ a file */

static void add(made_file *f, const char *name, int64_t rows, int64_t columns, float scale)
{
    char full[200];
    snprintf(full, sizeof full, PREFIX "%s", name);
    float *data = add_tensor(f, full, columns ? 2 : 1, (int64_t[]){rows, columns}, NULL, scale);
    for (int64_t i = 0; !columns && i < rows; i++) data[i] += 1; /* of norms */
}

static void add_layer(made_file *f, int layer)
{
    static const struct {
        const char *name;
        int64_t rows, columns;
    } tensors[] = {{"layer.0.layer_norm", WIDTH, 0},
                   {"layer.0.SelfAttention.q", INNER, WIDTH},
                   {"layer.0.SelfAttention.k", INNER, WIDTH},
                   {"layer.0.SelfAttention.v", INNER, WIDTH},
                   {"layer.0.SelfAttention.o", WIDTH, INNER},
                   {"layer.1.layer_norm", WIDTH, 0},
                   {"layer.1.DenseReluDense.wi_0", DENSE, WIDTH},
                   {"layer.1.DenseReluDense.wi_1", DENSE, WIDTH},
                   {"layer.1.DenseReluDense.wo", WIDTH, DENSE}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        char name[100];
        snprintf(name, sizeof name, "encoder.block.%d.%s.weight", layer, tensors[i].name);
        add(f, name, tensors[i].rows, tensors[i].columns, 0.3f);
    }
}

static made_file *make_file(const char *table)
{
    made_file *f = calloc(1, sizeof *f);
    if (!f) abort();
    random_state = 7;
    add(f, table, VOCAB, WIDTH, 1.0f);
    add(f, BIAS, 32, HEADS, 2.0f);
    for (int i = 0; i < LAYERS; i++) add_layer(f, i);
    add(f, "encoder.final_layer_norm.weight", WIDTH, 0, 0.2f);
    return f;
}

static graft_safetensors *opened(const made_file *f)
{
    const char *path = temp_path("t5.safetensors");
    graft_safetensors *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_safetensors_write(path, f->tensor, f->n, NULL, true, &e), &e);
    CHECK_OK(graft_safetensors_open(path, &out, &e), &e);
    unlink(path);
    if (!out) abort();
    return out;
}

static graft_status detect(const made_file *f, graft_t5_arch *a, graft_err *e)
{
    graft_safetensors *file = opened(f);
    graft_status st = graft_t5_detect(file, PREFIX, a, e);
    graft_safetensors_close(file);
    return st;
}

/* The encoder of a file that has these tensors. */
static graft_weights *weights_of(const made_file *f, graft_t5_arch *a)
{
    graft_safetensors *file = opened(f);
    graft_weights *all = NULL, *part = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_t5_detect(file, PREFIX, a, &e), &e);
    CHECK_OK(graft_weights_create(file, &all, &e), &e);
    CHECK_OK(graft_weights_part(all, PREFIX, &part, &e), &e);
    graft_weights_release(all);
    return part;
}

/* ------------------------------------------------------------------ the bias */

/* Of the published 32, in whole numbers: 8 for one distance each, then two to an octave up to 128.
 */
static int expected_bucket(int distance)
{
    const int d = abs(distance);
    int bucket = d;
    if (d >= 8)
        for (bucket = 8; bucket < 15 && (int64_t)d * d >= (int64_t)64 << (bucket - 7); bucket++) {
        }
    return bucket + (distance > 0 ? 16 : 0);
}

static void buckets(void)
{
    bool same = true;
    for (int d = -3000; d <= 3000; d++) same = same && graft_t5_bucket(32, d) == expected_bucket(d);
    CHECK(same);
    CHECK_INT(graft_t5_bucket(32, 0), 0);
    CHECK_INT(graft_t5_bucket(32, -15), 9);
    CHECK_INT(graft_t5_bucket(32, -16), 10);
    CHECK_INT(graft_t5_bucket(32, 1), 17);
    CHECK_INT(graft_t5_bucket(32, INT64_MAX), 31);
    CHECK_INT(graft_t5_bucket(32, -INT64_MAX), 15);
    for (int32_t n = 4; n <= 256; n += 4)
        for (int d = 1; d < 200; d++) {
            const int32_t b = graft_t5_bucket(n, -d), last = graft_t5_bucket(n, 1 - d);
            CHECK(b >= last && b < n / 2 && graft_t5_bucket(n, d) == b + n / 2);
            CHECK(d < 128 || b == n / 2 - 1);
        }
}

static void bias(void)
{
    enum { N = 40 };
    const graft_t5_arch a = {.heads = 2, .buckets = 32};
    static float out[2 * N * N], table[64];
    for (int i = 0; i < 64; i++) table[i] = (float)i;
    graft_t5_bias(&a, table, N, N, out);
    bool same = true;
    for (int h = 0; h < 2; h++)
        for (int q = 0; q < N; q++)
            for (int k = 0; k < N; k++)
                same = same && out[(h * N + q) * N + k] == (float)(2 * expected_bucket(k - q) + h);
    CHECK(same);
    graft_t5_bias(&a, table, 1, 1, out);
    CHECK(out[0] == 0 && out[1] == 1);
}

/* ------------------------------------------------------------------ files */

static void is_found(void)
{
    static const char *const tables[] = {"shared.weight", "encoder.embed_tokens.weight"};
    for (int i = 0; i < 2; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_t5_arch a;
        made_file *f = make_file(tables[i]);
        CHECK_OK(detect(f, &a, &e), &e);
        CHECK(a.layers == LAYERS && a.width == WIDTH && a.heads == HEADS && a.head_dim == 8);
        CHECK(a.intermediate == DENSE && a.vocab == VOCAB && a.buckets == 32);
        CHECK_STR(graft_t5_embeddings_name(&a), tables[i]);
        finish_file(f);
    }
}

/* Without any one of its tensors it is refused by that one's name, when it is found or when it is
 * bound. */
static void lacks_a_tensor(void)
{
    const size_t n = 3 + 9 * LAYERS;
    for (size_t gone = 0; gone < n; gone++) {
        const int32_t ids[T] = {1, 2, 3, 4, 5};
        float hidden[T * WIDTH];
        graft_err e = GRAFT_ERR_INIT;
        graft_t5_arch a;
        made_file *f = make_file("shared.weight");
        CHECK_INT(f->n, n);
        graft_st_tensor kept = f->tensor[gone];
        f->tensor[gone] = f->tensor[--f->n];
        const char *name = kept.name + strlen(PREFIX);
        graft_status st = detect(f, &a, &e);
        if (!st) {
            graft_weights *w = weights_of(f, &a);
            const graft_build_options o = {.no_disk = true};
            st = graft_t5_run(engine, &o, &a, w, ids, 1, T, NULL, hidden, &e);
            graft_weights_release(w);
        }
        CHECK_INT(st, GRAFT_E_FORMAT);
        if (gone == 0) name = "encoder.embed_tokens.weight"; /* could be there instead */
        CHECK(strstr(e.text, name) != NULL);
        if (!strstr(e.text, name)) fprintf(stderr, "    %s: %s\n", name, e.text);
        f->tensor[f->n++] = kept;
        finish_file(f);
    }
}

static void other_structures(void)
{
    static const struct {
        const char *name, *word;
        int64_t rows, columns;
        graft_status want;
    } more[] = {
        {"encoder.block.0.layer.1.DenseReluDense.wi.weight", "1.0", DENSE, WIDTH,
         GRAFT_E_UNSUPPORTED},
        {"decoder.block.0.layer.0.SelfAttention.q.weight", "", INNER, WIDTH, GRAFT_OK},
    };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_t5_arch a;
        made_file *f = make_file("shared.weight");
        add(f, more[i].name, more[i].rows, more[i].columns, 1);
        CHECK_INT(detect(f, &a, &e), more[i].want);
        CHECK(strstr(e.text, more[i].word) != NULL);
        finish_file(f);
    }
}

/* Shapes that do not belong together. */
static void odd_shapes(void)
{
    static const struct {
        size_t tensor;
        int rank;
        int64_t shape[2];
        graft_status want;
    } odd[] = {
        {0, 1, {VOCAB * WIDTH, 0}, GRAFT_E_FORMAT},
        {0, 2, {VOCAB / 2, 2 * WIDTH}, GRAFT_E_FORMAT},
        {1, 2, {HEADS, 32}, GRAFT_E_UNSUPPORTED},
        {1, 2, {96, 1}, GRAFT_OK},
        {1, 1, {32 * HEADS, 0}, GRAFT_E_FORMAT},
        {3, 2, {INNER / 2, 2 * WIDTH}, GRAFT_E_FORMAT},
        {8, 2, {DENSE / 3, 3 * WIDTH}, GRAFT_E_FORMAT},
        {8, 1, {DENSE * WIDTH, 0}, GRAFT_E_FORMAT},
        {1, 2, {48, 2}, GRAFT_OK},
        {1, 2, {24, 4}, GRAFT_OK},
        {1, 2, {6, 16}, GRAFT_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_t5_arch a;
        made_file *f = make_file("shared.weight");
        graft_st_tensor *t = &f->tensor[odd[i].tensor];
        t->rank = odd[i].rank;
        memcpy(t->shape, odd[i].shape, sizeof odd[i].shape);
        CHECK_INT(detect(f, &a, &e), odd[i].want);
        finish_file(f);
    }
}

/* ------------------------------------------------------------------ the graph */

/* In bfloat16 layers compute in it, and what they add up to, and its norms, are float32. */
static void keeps_float32(void)
{
    const graft_t5_arch a = {LAYERS, WIDTH, HEADS, 8, DENSE, VOCAB, 32, 0, 0};
    const graft_t5_shape shape = {2, 9, GRAFT_BF16, 0};
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t linears = 0, sums = 0, norms = 0, attentions = 0;
    CHECK_OK(graft_t5_build(&a, &shape, &g, &e), &e);
    if (!g) return;
    CHECK_OK(graft_passes_run(g, &e), &e);
    for (size_t i = 0; i < g->n_nodes; i++) {
        const graft_gnode *n = &g->node[i];
        const graft_dtype dtype = g->value[n->out].dtype;
        if (n->op == GRAFT_OP_LINEAR || n->op == GRAFT_OP_ATTENTION) CHECK_INT(dtype, GRAFT_BF16);
        if (n->op == GRAFT_OP_ADD || n->op == GRAFT_OP_RMS_NORM) CHECK_INT(dtype, GRAFT_F32);
        linears += n->op == GRAFT_OP_LINEAR;
        sums += n->op == GRAFT_OP_ADD;
        norms += n->op == GRAFT_OP_RMS_NORM;
        attentions += n->op == GRAFT_OP_ATTENTION;
        if (n->op == GRAFT_OP_ATTENTION) CHECK(n->attrs.scale == 1.0f && n->attrs.heads == HEADS);
    }
    /* q, k and v are one product, and the activation is inside of another. */
    CHECK(linears == 5 * LAYERS && sums == 2 * LAYERS && norms == 2 * LAYERS + 1);
    CHECK_INT(attentions, LAYERS);
    graft_graph_destroy(g);
}

static void refuses_shapes(void)
{
    static const struct {
        graft_t5_shape shape;
        graft_status want;
    } shapes[] = {{{1, 4, GRAFT_F16, 0}, GRAFT_E_UNSUPPORTED},
                  {{1, GRAFT_T5_MAX_TOKENS + 1, GRAFT_F32, 0}, GRAFT_E_LIMIT},
                  {{1, GRAFT_T5_MAX_TOKENS, GRAFT_F32, 0}, GRAFT_OK}};
    const graft_t5_arch a = {LAYERS, WIDTH, HEADS, 8, DENSE, VOCAB, 32, 0, 0};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        graft_graph *g = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_INT(graft_t5_build(&a, &shapes[i].shape, &g, &e), shapes[i].want);
        CHECK((g != NULL) == (shapes[i].want == GRAFT_OK));
        graft_graph_destroy(g);
    }
}

/* ------------------------------------------------------------------ runs */

static graft_status run(const graft_t5_arch *a, graft_weights *w, const int32_t *ids, int64_t batch,
                        int64_t tokens, float *hidden, graft_err *e)
{
    const graft_build_options o = {.no_disk = true};
    return graft_t5_run(engine, &o, a, w, ids, batch, tokens, NULL, hidden, e);
}

/* A UMT5 whose layers all have the same bias is a T5 with that; with another one in any of them it
 * is not. */
static void a_bias_each(void)
{
    const int32_t ids[T] = {7, 3, 49, 0, 21};
    float got[3][T * WIDTH];
    graft_err e = GRAFT_ERR_INIT;
    graft_t5_arch a;
    for (int i = 0; i < 3; i++) {
        made_file *f = make_file("shared.weight");

        CHECK_STR(f->tensor[1].name + strlen(PREFIX), BIAS);
        if (i) {
            add(f, GRAFT_UMT5_TENSOR, 32, HEADS, 2.0f);
            if (i == 1)
                memcpy((float *)(uintptr_t)f->tensor[f->n - 1].data, f->tensor[1].data,
                       32 * HEADS * sizeof(float));
        }
        graft_weights *w = weights_of(f, &a);
        CHECK_INT(a.own_bias, i > 0);
        CHECK_OK(run(&a, w, ids, 1, T, got[i], &e), &e);
        graft_weights_release(w);
        finish_file(f);
    }
    double same = 0, other = 0;
    for (int k = 0; k < T * WIDTH; k++) {
        same = fmax(same, fabs(got[0][k] - got[1][k]));
        other = fmax(other, fabs(got[0][k] - got[2][k]));
    }
    CHECK(same < 1e-6 && other > 1e-2);
}

/* Texts of a batch do not see each other, and order matters. */
static void texts_are_apart(void)
{
    const int32_t ids[2 * T] = {7, 3, 49, 0, 0, 3, 7, 49, 0, 0};
    float both[2 * T * WIDTH], one[T * WIDTH];
    graft_err e = GRAFT_ERR_INIT;
    graft_t5_arch a;
    made_file *f = make_file("encoder.embed_tokens.weight");
    graft_weights *w = weights_of(f, &a);
    CHECK_OK(run(&a, w, ids, 2, T, both, &e), &e);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(run(&a, w, ids + i * T, 1, T, one, &e), &e);
        CHECK(memcmp(one, both + i * T * WIDTH, sizeof one) == 0);
    }
    double moved = 0; /* the third token of each, whose neighbours changed places */
    for (int k = 0; k < WIDTH; k++)
        moved = fmax(moved, fabs(both[2 * WIDTH + k] - both[(T + 2) * WIDTH + k]));
    CHECK(moved > 1e-3);
    graft_weights_release(w);
    finish_file(f);
}

/* Embeddings so large that what the layers add is next to nothing: their norm comes out, finite,
 * though they are far outside of float16's range. */
static void outgrows_float16(void)
{
    const int32_t ids[T] = {4, 8, 15, 16, 23};
    float hidden[T * WIDTH];
    graft_err e = GRAFT_ERR_INIT;
    graft_t5_arch a;
    made_file *f = make_file("shared.weight");
    float *table = (float *)f->tensor[0].data;
    const float *gamma = f->tensor[f->n - 1].data;
    for (int i = 0; i < VOCAB * WIDTH; i++) table[i] *= 1e7f;
    graft_weights *w = weights_of(f, &a);
    CHECK_OK(run(&a, w, ids, 1, T, hidden, &e), &e);
    double worst = 0;
    for (int t = 0; t < T; t++) {
        const float *x = table + ids[t] * WIDTH;
        double squares = 0;
        for (int k = 0; k < WIDTH; k++) squares += (double)x[k] * x[k];
        for (int k = 0; k < WIDTH; k++)
            worst =
                fmax(worst, fabs(hidden[t * WIDTH + k] - x[k] / sqrt(squares / WIDTH) * gamma[k]));
    }
    CHECK(worst > 0 && worst < 1e-4);
    graft_weights_release(w);
    finish_file(f);
}

/* What a file of llama.cpp's calls the tensor. */
static void name_as_llama(const char *name, char *out, size_t size)
{
    static const char *const words[][2] = {{"layer.0.SelfAttention.q.", "attn_q."},
                                           {"layer.0.SelfAttention.k.", "attn_k."},
                                           {"layer.0.SelfAttention.v.", "attn_v."},
                                           {"layer.0.SelfAttention.o.", "attn_o."},
                                           {"layer.0.SelfAttention.relative", "attn_rel_b."},
                                           {"layer.0.layer_norm.", "attn_norm."},
                                           {"layer.1.DenseReluDense.wi_0.", "ffn_gate."},
                                           {"layer.1.DenseReluDense.wi_1.", "ffn_up."},
                                           {"layer.1.DenseReluDense.wo.", "ffn_down."},
                                           {"layer.1.layer_norm.", "ffn_norm."}};
    const char *block = strstr(name, "block.");
    snprintf(out, size, "%s",
             strstr(name, "shared") ? "token_embd.weight" : "enc.output_norm.weight");
    for (size_t i = 0; block && i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i][0]))
            snprintf(out, size, "enc.blk.%d.%sweight", atoi(block + 6), words[i][1]);
}

/* In a GGUF file, by llama.cpp's names and with the table of tokens in blocks, an encoder gives
 * what it gives in a file of its authors' names and of the same values; one whose layers have a
 * bias each, too. */
static void check_gguf(bool own_bias)
{
    const int32_t ids[T] = {4, 49, 0, 7, 1};
    float want[T * WIDTH], got[T * WIDTH];
    graft_t5_arch a, b;
    graft_err e = GRAFT_ERR_INIT;
    made_file *f = make_file("shared.weight"), *g = make_file("shared.weight");
    graft_safetensors *file = NULL;
    graft_weights *all = NULL;
    char name[100];
    random_state = 11;
    if (own_bias) add(f, GRAFT_UMT5_TENSOR, 32, HEADS, 2.0f);
    random_state = 11;
    if (own_bias) add(g, GRAFT_UMT5_TENSOR, 32, HEADS, 2.0f);
    for (size_t i = 0; i < f->n; i++) {
        graft_st_tensor *t = &g->tensor[i], *plain = &f->tensor[i];
        name_as_llama(t->name, name, sizeof name);
        call_tensor(t, name);
        if (t->rank != 2 || t->shape[1] % 32) continue;
        gguf_pack_tensor(t, plain);
    }
    gguf_file bytes = gguf_of("t5encoder", NULL, g->tensor, g->n);
    CHECK_OK(graft_safetensors_open_memory(bytes.data, bytes.n, "t5.gguf", &file, &e), &e);
    CHECK_OK(graft_t5_detect(file, "", &b, &e), &e);
    CHECK_OK(graft_weights_create(file, &all, &e), &e);
    graft_weights *w = weights_of(f, &a);
    CHECK_OK(run(&a, w, ids, 1, T, want, &e), &e);
    CHECK_OK(run(&b, all, ids, 1, T, got, &e), &e);
    CHECK(memcmp(&a, &b, sizeof a) == 0 && memcmp(got, want, sizeof got) == 0);
    CHECK(a.own_bias == own_bias);
    graft_weights_release(w);
    graft_weights_release(all);
    finish_file(f);
    finish_file(g);
    free(bytes.data);
}

static void same_in_gguf(void)
{
    check_gguf(false);
    check_gguf(true);
}

static void refuses_runs(void)
{
    int32_t ids[T] = {0, VOCAB - 1, 0, 0, 0};
    float hidden[T * WIDTH];
    graft_err e = GRAFT_ERR_INIT;
    graft_t5_arch a;
    made_file *f = make_file("shared.weight");
    graft_weights *w = weights_of(f, &a);
    CHECK_OK(run(&a, w, ids, 1, T, hidden, &e), &e);
    ids[3] = VOCAB;
    CHECK_INT(run(&a, w, ids, 1, T, hidden, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "token 50") != NULL);
    ids[3] = -1;
    CHECK_INT(run(&a, w, ids, 1, T, hidden, &e), GRAFT_E_ARG);
    ids[3] = 0;
    CHECK_INT(run(&a, w, ids, 1, 0, hidden, &e), GRAFT_E_ARG);
    CHECK_INT(run(&a, w, ids, 0, T, hidden, &e), GRAFT_E_ARG);
    CHECK_INT(run(&a, w, ids, 1, GRAFT_T5_MAX_TOKENS + 1, hidden, &e), GRAFT_E_LIMIT);
    CHECK_INT(run(&a, w, ids, INT64_MAX / 8, T, hidden, &e), GRAFT_E_LIMIT);
    a.vocab++; /* not the file's */
    CHECK_INT(run(&a, w, ids, 1, T, hidden, &e), GRAFT_E_FORMAT);
    graft_weights_release(w);
    finish_file(f);
}

/* Takes f. Returns how far what is computed with these packed weights is from that as floats. */
static double packed_difference(made_file *f, int32_t type)
{
    const int32_t ids[T] = {1, 2, 3, 4, 5};
    const graft_build_options o = {.no_disk = true};
    float hidden[2][T * WIDTH];
    graft_err e = GRAFT_ERR_INIT;
    for (int keeps = 0; keeps < 2; keeps++) {
        graft_t5_arch a;
        graft_weights *w = weights_of(f, &a);
        graft_engine *g = packing_engine(keeps);
        CHECK_OK(graft_t5_run(g, &o, &a, w, ids, 1, T, NULL, hidden[keeps], &e), &e);
        CHECK_INT(packed_in(g, type), keeps ? 5 * LAYERS : 0);
        graft_weights_release(w);
        graft_engine_destroy(g);
    }
    finish_file(f);
    return difference(hidden[0], hidden[1], T * WIDTH);
}

/* Matrices in FP8 stay so in memory, and compute what they do as floats but for the order of sums;
 * the table of tokens is none of them. Another program's integers become Q8_0. */
static void stays_packed(void)
{
    made_file *floats = make_file("shared.weight"), *integers = make_file("shared.weight");
    store_matrices_as_e4m3(floats);
    store_matrices_as_int8(integers);
    CHECK(packed_difference(floats, GRAFT_FLOAT_E4M3) < 1e-5);
    const double rounded = packed_difference(integers, GRAFT_GGML_Q8_0);
    CHECK(rounded > 1e-5 && rounded < 0.02);
}

/* Matrices in NF4 are what a file of the same values has. */
static void in_4_bits(void)
{
    const int32_t ids[T] = {1, 2, 3, 4, 5};
    made_file *f[2] = {make_file("shared.weight"), make_file("shared.weight")};
    float hidden[2][T * WIDTH];
    graft_err e = GRAFT_ERR_INIT;
    store_matrices_as_codes(f[0], f[1], &(codes_way){.nested = true, .block = 64});
    for (int i = 0; i < 2; i++) {
        graft_t5_arch a;
        graft_weights *w = weights_of(f[i], &a);
        CHECK_OK(run(&a, w, ids, 1, T, hidden[i], &e), &e);
        graft_weights_release(w);
        finish_file(f[i]);
    }
    CHECK(memcmp(hidden[0], hidden[1], sizeof hidden[0]) == 0);
}

/* Compiled alone, nothing is computed. */
static void compiles_only(void)
{
    const int32_t ids[T] = {1, 2, 3, 4, 5};
    const graft_build_options o = {.no_disk = true};
    const graft_task task = {.compile_only = true};
    float hidden[T * WIDTH];
    graft_err e = GRAFT_ERR_INIT;
    graft_t5_arch a;
    made_file *f = make_file("shared.weight");
    graft_weights *w = weights_of(f, &a);
    memset(hidden, 1, sizeof hidden);
    CHECK_OK(graft_t5_run(engine, &o, &a, w, ids, 1, T, &task, hidden, &e), &e);
    for (int i = 0; i < T * WIDTH; i++) CHECK(hidden[i] == 0);
    graft_weights_release(w);
    finish_file(f);
}

/* Once all is compiled and packed, each allocation of a run fails in turn. */
/* ------------------------------------------------------------------ as a text encoder */

static void encoded_alike(const graft_clip *a, const graft_clip *b)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *x = NULL, *y = NULL;
    CHECK_OK(graft_clip_encode(a, "a (red:1.3) apple", NULL, &x, &e), &e);
    CHECK_OK(graft_clip_encode(b, "a (red:1.3) apple", NULL, &y, &e), &e);
    if (!x || !y) return;
    const graft_cond_entry *k = x->entry[0], *l = y->entry[0];
    CHECK(k->tokens == l->tokens && k->width == WIDTH &&
          memcmp(k->data, l->data, (size_t)(k->tokens * k->width) * sizeof *k->data) == 0);
    graft_cond_release(x);
    graft_cond_release(y);
}

/* Saved alone it has its tokenizer with it, which lay beside the file it came from; and saved once
 * more. */
static void saved_with_its_tokenizer(void)
{
    static const char model[] = GRAFT_SOURCE_DIR "/golden/small/unigram/odd.model";
    graft_err e = GRAFT_ERR_INIT;
    char folder[256], from[300], tokenizer[300], *bytes = NULL;
    const char *file = from;
    size_t n = 0;
    graft_clip *clip = NULL;
    snprintf(folder, sizeof folder, "%s", temp_path("t5"));
    snprintf(from, sizeof from, "%s/a.safetensors", folder);
    snprintf(tokenizer, sizeof tokenizer, "%s/spiece.model", folder);
    CHECK(mkdir(folder, 0700) == 0);
    write_file(make_file("shared.weight"), from, NULL);
    CHECK_OK(graft_file_read(model, 1 << 20, &bytes, &n, &e), &e);
    CHECK_OK(graft_file_write(tokenizer, bytes, n, &e), &e);
    CHECK_OK(graft_clip_load(engine, &file, 1, "sd3", NULL, &clip, &e), &e);
    CHECK(strcmp(graft_clip_encoder_name(clip, 0), "t5xxl") == 0);
    CHECK(!graft_clip_encoder_name(clip, 1));
    for (int i = 0; i < 2; i++) {
        const graft_checkpoint what = {.clip = clip, .encoder = 1};
        const char *to = temp_path(i ? "again.safetensors" : "saved.safetensors");
        graft_clip *saved = NULL;
        CHECK_OK(graft_checkpoint_save(&what, to, NULL, NULL, &e), &e);
        CHECK_OK(graft_clip_load(engine, &to, 1, "sd3", NULL, &saved, &e), &e);
        if (saved) encoded_alike(clip, saved);
        unlink(to);
        graft_clip_release(clip);
        clip = saved;
    }
    graft_clip_release(clip);
    graft_free(bytes);
    unlink(tokenizer);
    unlink(from);
    CHECK(rmdir(folder) == 0);
}

static void no_memory(void)
{
    const int32_t ids[T] = {1, 2, 3, 4, 5};
    float hidden[T * WIDTH], again[T * WIDTH];
    graft_err e = GRAFT_ERR_INIT;
    graft_t5_arch a;
    int failed = 0;
    made_file *f = make_file("shared.weight");
    graft_weights *w = weights_of(f, &a);
    CHECK_OK(run(&a, w, ids, 1, T, hidden, &e), &e);
    for (int i = 1; i < 1000; i++) {
        graft_alloc_fail_at(i);
        graft_status st = run(&a, w, ids, 1, T, again, &e);
        graft_alloc_fail_at(0);
        if (st == GRAFT_OK) break;
        CHECK_INT(st, GRAFT_E_NOMEM);
        failed++;
    }
    CHECK(failed >= 3 && failed < 999);
    CHECK(memcmp(hidden, again, sizeof hidden) == 0);
    graft_weights_release(w);
    finish_file(f);
}

int main(void)
{
    engine = make_engine("ref");
    if (!engine) return 1;
    RUN(buckets);
    RUN(bias);
    RUN(is_found);
    RUN(lacks_a_tensor);
    RUN(other_structures);
    RUN(odd_shapes);
    RUN(keeps_float32);
    RUN(refuses_shapes);
    RUN(a_bias_each);
    RUN(texts_are_apart);
    RUN(outgrows_float16);
    RUN(same_in_gguf);
    RUN(refuses_runs);
    RUN(stays_packed);
    RUN(in_4_bits);
    RUN(compiles_only);
    RUN(saved_with_its_tokenizer);
    RUN(no_memory);
    graft_engine_destroy(engine);
    return test_end();
}
