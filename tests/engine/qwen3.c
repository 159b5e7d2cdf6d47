/* Qwen 3 as a text encoder: which files it is found in, what its graph keeps in float32, that no
 * token sees what is behind it, where its tokenizer comes from, and what it refuses. What it
 * computes is held against golden/small/qwen3, its tokenizer against golden/small/qwen. */
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "engine/models/detect/detect.h"
#include "engine/passes/passes.h"
#include "tests/engine/language.h"
#include "tests/engine/texts_packed.h"
#include "tests/gguf_file.h"

enum { LAYERS = 3, WIDTH = 32, HEADS = 6, SHARED = 2, HEAD = 8, DENSE = 64, VOCAB = 300, T = 5 };
enum { QUERIES = HEADS * HEAD, KEYS = SHARED * HEAD, PER_LAYER = 11 };
#define PLACE "text_encoders.qwen3_4b.transformer."
/* A tokenizer.json of 260 tokens and its marks. */
#define TOKENIZER GRAFT_SOURCE_DIR "/tests/fuzz/corpus/qwen/tokenizer"
#define CLIP_FILE GRAFT_SOURCE_DIR "/golden/small/clip_gelu.safetensors"

static graft_engine *engine;

/* ------------------------------------------------------------------ a file */

static const struct part {
    const char *name, *llama;
    int64_t rows, columns;
} parts[PER_LAYER] = {{"input_layernorm", "attn_norm", WIDTH, 0},
                      {"self_attn.q_proj", "attn_q", QUERIES, WIDTH},
                      {"self_attn.k_proj", "attn_k", KEYS, WIDTH},
                      {"self_attn.v_proj", "attn_v", KEYS, WIDTH},
                      {"self_attn.o_proj", "attn_output", WIDTH, QUERIES},
                      {"self_attn.q_norm", "attn_q_norm", HEAD, 0},
                      {"self_attn.k_norm", "attn_k_norm", HEAD, 0},
                      {"post_attention_layernorm", "ffn_norm", WIDTH, 0},
                      {"mlp.gate_proj", "ffn_gate", DENSE, WIDTH},
                      {"mlp.up_proj", "ffn_up", DENSE, WIDTH},
                      {"mlp.down_proj", "ffn_down", WIDTH, DENSE}};

static void add(made_file *f, const char *prefix, const char *name, int64_t rows, int64_t columns,
                float scale)
{
    char full[200];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    float *data = add_tensor(f, full, columns ? 2 : 1, (int64_t[]){rows, columns}, NULL, scale);
    for (int64_t i = 0; !columns && i < rows; i++) data[i] += 1; /* of norms */
}

/* The table, the layers, and two tensors that are not read. */
static made_file *make_file_at(const char *prefix)
{
    made_file *f = calloc(1, sizeof *f);
    char name[100];
    if (!f) abort();
    random_state = 7;
    add(f, prefix, "model.embed_tokens.weight", VOCAB, WIDTH, 1.0f);
    for (int i = 0; i < LAYERS; i++)
        for (int k = 0; k < PER_LAYER; k++) {
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", i, parts[k].name);
            add(f, prefix, name, parts[k].rows, parts[k].columns, 0.3f);
        }
    add(f, prefix, "model.norm.weight", WIDTH, 0, 0.2f);
    add(f, prefix, "lm_head.weight", VOCAB, WIDTH, 1.0f);
    return f;
}

static made_file *make_file(void)
{
    return make_file_at("");
}

static graft_safetensors *opened(const made_file *f)
{
    const char *path = temp_path("qwen3.safetensors");
    graft_safetensors *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_safetensors_write(path, f->tensor, f->n, NULL, true, &e), &e);
    CHECK_OK(graft_safetensors_open(path, &out, &e), &e);
    unlink(path);
    if (!out) abort();
    return out;
}

static graft_status detect(const made_file *f, graft_qwen3_arch *a, graft_err *e)
{
    graft_safetensors *file = opened(f);
    graft_status st = graft_qwen3_detect(file, "", a, e);
    graft_safetensors_close(file);
    return st;
}

static graft_weights *weights_of(const made_file *f, graft_qwen3_arch *a)
{
    graft_safetensors *file = opened(f);
    graft_weights *all = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_qwen3_detect(file, "", a, &e), &e);
    CHECK_OK(graft_weights_create(file, &all, &e), &e);
    return all;
}

/* ------------------------------------------------------------------ files */

static void is_found(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_qwen3_arch a;
    made_file *f = make_file();
    CHECK_OK(detect(f, &a, &e), &e);
    CHECK(a.layers == LAYERS && a.width == WIDTH && a.heads == HEADS && a.key_heads == SHARED);
    CHECK(a.head_dim == HEAD && a.intermediate == DENSE && a.vocab == VOCAB);
    finish_file(f);
}

static graft_status run(const graft_qwen3_arch *a, graft_weights *w, const int32_t *ids,
                        int64_t tokens, float *hidden, graft_err *e)
{
    const graft_build_options o = {.no_disk = true};
    return graft_qwen3_run(engine, &o, a, w, GRAFT_QWEN3_TAKE_MOST, ids, tokens, NULL, hidden, e);
}

/* Without any one of its tensors it is refused by that one's name, when it is found or when it is
 * bound; the last layer's are not read. */
static void lacks_a_tensor(void)
{
    for (size_t gone = 0; gone < 1 + PER_LAYER * (LAYERS - 1); gone++) {
        const int32_t ids[T] = {1, 2, 3, 4, 5};
        float hidden[T * WIDTH];
        graft_err e = GRAFT_ERR_INIT;
        graft_qwen3_arch a;
        made_file *f = make_file();
        graft_st_tensor kept = f->tensor[gone];
        f->tensor[gone] = f->tensor[--f->n];
        graft_status st = detect(f, &a, &e);
        if (!st) {
            graft_weights *w = weights_of(f, &a);
            st = run(&a, w, ids, T, hidden, &e);
            graft_weights_release(w);
        }
        CHECK_INT(st, GRAFT_E_FORMAT);
        CHECK(strstr(e.text, kept.name) != NULL);
        if (!strstr(e.text, kept.name)) fprintf(stderr, "    %s: %s\n", kept.name, e.text);
        f->tensor[f->n++] = kept;
        finish_file(f);
    }
}

static void other_structures(void)
{
    static const struct {
        const char *name, *word;
        graft_status want;
    } more[] = {
        {"model.layers.0.self_attn.q_proj.bias", "Qwen 2", GRAFT_E_UNSUPPORTED},
        {"model.layers.0.mlp.gate.weight", "experts", GRAFT_E_UNSUPPORTED},
        {"model.layers.0.pre_feedforward_layernorm.weight", "Gemma", GRAFT_E_UNSUPPORTED},
        {"visual.blocks.0.attn.qkv.weight", "", GRAFT_OK},
    };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_qwen3_arch a;
        made_file *f = make_file();
        add(f, "", more[i].name, WIDTH, 0, 1);
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
        {2, 2, {QUERIES / 2, 2 * WIDTH}, GRAFT_E_FORMAT},
        {2, 1, {QUERIES * WIDTH, 0}, GRAFT_E_FORMAT},
        {3, 2, {2 * KEYS, WIDTH / 2}, GRAFT_E_FORMAT},
        {6, 2, {2, HEAD / 2}, GRAFT_E_FORMAT},
        {6, 1, {0, 0}, GRAFT_E_FORMAT},
        {9, 2, {DENSE / 2, 2 * WIDTH}, GRAFT_E_FORMAT},
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_qwen3_arch a;
        made_file *f = make_file();
        graft_st_tensor *t = &f->tensor[odd[i].tensor];
        const int64_t before = graft_st_values(t);
        t->rank = odd[i].rank;
        memcpy(t->shape, odd[i].shape, sizeof odd[i].shape);
        if (graft_st_values(t) != before) t->bytes = 0;
        CHECK_INT(detect(f, &a, &e), odd[i].want);
        finish_file(f);
    }
}

/* Heads that do not divide what they should, and a model of one layer, of which nothing is left. */
static void makes_no_sense(void)
{
    static const struct {
        int64_t queries, keys, head;
    } odd[] = {{40, 16, 16}, {48, 40, 8}, {48, 32, 16}, {45, 15, 15}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_qwen3_arch a;
        made_file *f = make_file();
        drop_tensor(f, "model.layers.0.self_attn.q_proj.weight");
        drop_tensor(f, "model.layers.0.self_attn.k_proj.weight");
        drop_tensor(f, "model.layers.0.self_attn.q_norm.weight");
        add(f, "", "model.layers.0.self_attn.q_proj.weight", odd[i].queries, WIDTH, 1);
        add(f, "", "model.layers.0.self_attn.k_proj.weight", odd[i].keys, WIDTH, 1);
        add(f, "", "model.layers.0.self_attn.q_norm.weight", odd[i].head, 0, 1);
        CHECK_INT(detect(f, &a, &e), GRAFT_E_UNSUPPORTED);
        CHECK(strstr(e.text, "makes no sense") != NULL);
        finish_file(f);
    }
    graft_err e = GRAFT_ERR_INIT;
    graft_qwen3_arch a;
    made_file *f = make_file();
    for (int k = 0; k < PER_LAYER; k++) {
        char name[100];
        snprintf(name, sizeof name, "model.layers.1.%s.weight", parts[k].name);
        drop_tensor(f, name);
    }
    CHECK_INT(detect(f, &a, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "1 layers") != NULL);
    finish_file(f);
}

/* ------------------------------------------------------------------ the graph */

static const graft_qwen3_arch arch = {.layers = LAYERS,
                                      .width = WIDTH,
                                      .head_dim = HEAD,
                                      .intermediate = DENSE,
                                      .vocab = VOCAB,
                                      .heads = HEADS,
                                      .key_heads = SHARED};

/* In bfloat16 layers compute in it, and what they add up to, and its norms, are float32. */
static void keeps_float32(void)
{
    const graft_qwen3_shape shape = {.batch = 2, .tokens = 9, .act_dtype = GRAFT_BF16};
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t linears = 0, sums = 0, wide = 0, heads = 0, attentions = 0, turns = 0;
    CHECK_OK(graft_qwen3_build(&arch, &shape, &g, &e), &e);
    if (!g) return;
    CHECK_OK(graft_passes_run(g, &e), &e);
    for (size_t i = 0; i < g->n_nodes; i++) {
        const graft_gnode *n = &g->node[i];
        const graft_dtype dtype = g->value[n->out].dtype;
        if (n->op == GRAFT_OP_LINEAR || n->op == GRAFT_OP_ATTENTION) CHECK_INT(dtype, GRAFT_BF16);
        if (n->op == GRAFT_OP_ADD) CHECK_INT(dtype, GRAFT_F32);
        linears += n->op == GRAFT_OP_LINEAR;
        sums += n->op == GRAFT_OP_ADD;
        wide += n->op == GRAFT_OP_RMS_NORM && n->attrs.heads == 1 && dtype == GRAFT_F32;
        heads += n->op == GRAFT_OP_RMS_NORM && n->attrs.heads > 1;
        attentions += n->op == GRAFT_OP_ATTENTION && n->attrs.causal && n->attrs.heads == HEADS;
        turns += n->op == GRAFT_OP_ROPE && n->attrs.scale == 1e6f;
    }
    CHECK_INT(linears, 7 * (LAYERS - 1));
    CHECK(sums == 2 * (LAYERS - 1) && wide == sums && heads == sums && turns == sums);
    CHECK_INT(attentions, LAYERS - 1);
    graft_graph_destroy(g);
}

static void refuses_shapes(void)
{
    static const struct {
        graft_qwen3_shape shape;
        graft_status want;
    } shapes[] = {
        {{.batch = 1, .tokens = 4, .act_dtype = GRAFT_F16}, GRAFT_E_UNSUPPORTED},
        {{.batch = 1, .tokens = GRAFT_QWEN3_MAX_TOKENS + 1, .act_dtype = GRAFT_F32}, GRAFT_E_LIMIT},
        {{.batch = 1, .tokens = GRAFT_QWEN3_MAX_TOKENS, .act_dtype = GRAFT_F32}, GRAFT_OK}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        graft_graph *g = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_INT(graft_qwen3_build(&arch, &shapes[i].shape, &g, &e), shapes[i].want);
        CHECK((g != NULL) == (shapes[i].want == GRAFT_OK));
        graft_graph_destroy(g);
    }
}

/* ------------------------------------------------------------------ runs */

/* Tokens are the same whatever comes behind them, be it others or padding, and one graph serves
 * texts of about one length. */
static void sees_what_is_before(void)
{
    enum { LONG = 2 * GRAFT_QWEN3_STEP };
    int32_t ids[LONG];
    static float some[LONG * WIDTH], all[LONG * WIDTH];
    graft_err e = GRAFT_ERR_INIT;
    graft_qwen3_arch a;
    made_file *f = make_file();
    graft_weights *w = weights_of(f, &a);
    for (int i = 0; i < LONG; i++) ids[i] = (7 * i + 3) % VOCAB;
    CHECK_OK(run(&a, w, ids, LONG, all, &e), &e);
    const uint64_t built = graphs_built(engine);
    for (int n = 1; n < LONG; n += 13) {
        double worst = 0;
        CHECK_OK(run(&a, w, ids, n, some, &e), &e);
        for (int i = 0; i < n * WIDTH; i++)
            worst = fmax(worst, fabs((double)some[i] - (double)all[i]));
        CHECK(worst < 1e-5);
    }
    CHECK(graphs_built(engine) <= built + 1);
    ids[0]++; /* what all others see */
    CHECK_OK(run(&a, w, ids, LONG, some, &e), &e);
    for (int i = 0; i < LONG; i++)
        CHECK(memcmp(some + i * WIDTH, all + i * WIDTH, WIDTH * sizeof *all) != 0);
    graft_weights_release(w);
    finish_file(f);
}

static void refuses_runs(void)
{
    static float hidden[(GRAFT_QWEN3_MAX_TOKENS + 1) * WIDTH];
    static int32_t ids[GRAFT_QWEN3_MAX_TOKENS + 1] = {0, VOCAB - 1};
    graft_err e = GRAFT_ERR_INIT;
    graft_qwen3_arch a;
    made_file *f = make_file();
    graft_weights *w = weights_of(f, &a);
    CHECK_OK(run(&a, w, ids, T, hidden, &e), &e);
    ids[3] = VOCAB;
    CHECK_INT(run(&a, w, ids, T, hidden, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "token 300") != NULL);
    ids[3] = -1;
    CHECK_INT(run(&a, w, ids, T, hidden, &e), GRAFT_E_ARG);
    ids[3] = 0;
    CHECK_INT(run(&a, w, ids, 0, hidden, &e), GRAFT_E_ARG);
    CHECK_INT(run(&a, w, ids, GRAFT_QWEN3_MAX_TOKENS + 1, hidden, &e), GRAFT_E_LIMIT);
    a.vocab++; /* not the file's */
    CHECK_INT(run(&a, w, ids, T, hidden, &e), GRAFT_E_FORMAT);
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
        graft_qwen3_arch a;
        graft_weights *w = weights_of(f, &a);
        graft_engine *g = packing_engine(keeps);
        CHECK_OK(
            graft_qwen3_run(g, &o, &a, w, GRAFT_QWEN3_TAKE_MOST, ids, T, NULL, hidden[keeps], &e),
            &e);
        CHECK_INT(packed_in(g, type), keeps ? 7 * (LAYERS - 1) : 0);
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
    made_file *floats = make_file(), *integers = make_file();
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
    made_file *f[2] = {make_file(), make_file()};
    float hidden[2][T * WIDTH];
    graft_err e = GRAFT_ERR_INIT;
    store_matrices_as_codes(f[0], f[1], &(codes_way){.nested = true, .block = 64});
    for (int i = 0; i < 2; i++) {
        graft_qwen3_arch a;
        graft_weights *w = weights_of(f[i], &a);
        CHECK_OK(run(&a, w, ids, T, hidden[i], &e), &e);
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
    graft_qwen3_arch a;
    made_file *f = make_file();
    graft_weights *w = weights_of(f, &a);
    memset(hidden, 1, sizeof hidden);
    CHECK_OK(graft_qwen3_run(engine, &o, &a, w, GRAFT_QWEN3_TAKE_MOST, ids, T, &task, hidden, &e),
             &e);
    for (int i = 0; i < T * WIDTH; i++) CHECK(hidden[i] == 0);
    graft_weights_release(w);
    finish_file(f);
}

/* ------------------------------------------------------------------ as a text encoder */

static bool alike(const graft_clip *c, const char *x, const char *y)
{
    graft_cond *k = encoded(c, x), *l = encoded(c, y);
    const bool same = same_cond(k, l);
    graft_cond_release(k);
    graft_cond_release(l);
    return same;
}

static graft_clip *loaded(const char *path)
{
    graft_clip *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_load(engine, &path, 1, "lumina2", NULL, &c, &e), &e);
    if (!c) abort();
    return c;
}

/* In a file of its own or as a checkpoint has it, with its tokenizer in it. */
static graft_clip *clip_of(const char *prefix)
{
    const char *path = temp_path("encoder.safetensors");
    made_file *f = make_file_at(prefix);
    add_merges(f, prefix);
    write_file(f, path, NULL);
    graft_clip *c = loaded(path);
    unlink(path);
    return c;
}

/* A prompt is a user's question, word for word. */
static void prompts(void)
{
    static const char *const texts[] = {"the red (apple:1.3), \\(the\\)", "", "the\n\n the"};
    graft_clip *c = clip_of(""), *d = clip_of(PLACE);
    CHECK(c->kind == GRAFT_CLIP_QWEN3 && !c->n_encoders && c->width == WIDTH);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char all[200];
        snprintf(all, sizeof all, "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n",
                 texts[i]);
        prompt_gives(c, texts[i], "", all, GRAFT_QWEN3_TAKE_MOST);
        CHECK(encode_alike(c, d, texts[i]));
    }
    CHECK(!alike(c, "(the)", "the"));
    CHECK(!alike(c, "(the:1.3)", "(the:1.2)"));
    graft_clip_release(c);
    graft_clip_release(d);
}

static void write_text(const char *folder, const char *name, const char *text, size_t n)
{
    char path[512];
    graft_err e = GRAFT_ERR_INIT;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_OK(graft_file_write(path, text, n, &e), &e);
}

static void remove_text(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK(unlink(path) == 0);
}

/* Of what lies beside the file, what is a tokenizer of this kind is taken; the small one has fewer
 * tokens than the table, the one that is built in more. */
static void tokenizers_beside(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char folder[256], from[300], *json = NULL;
    const char *file = from;
    size_t n = 0;
    cJSON *root = NULL;
    graft_clip *own = clip_of(""), *c = NULL;
    snprintf(folder, sizeof folder, "%s", temp_path("qwen3"));
    snprintf(from, sizeof from, "%s/a.safetensors", folder);
    CHECK(mkdir(folder, 0700) == 0);
    write_file(make_file(), from, NULL);
    CHECK_OK(graft_file_read(TOKENIZER, 1 << 20, &json, &n, &e), &e);
    CHECK_OK(graft_json_parse(json, n, "a", &root, &e), &e);
    char *vocab =
        graft_json_print(cJSON_GetObjectItem(cJSON_GetObjectItem(root, "model"), "vocab"));

    write_text(folder, "tokenizer.json", json, n);
    c = loaded(from);
    CHECK(encode_alike(own, c, "the red apple"));
    graft_clip_release(c);
    remove_text(folder, "tokenizer.json");

    write_text(folder, "vocab.json", vocab, strlen(vocab));
    write_text(folder, "merges.txt", MERGES, strlen(MERGES));
    c = loaded(from);
    CHECK(encode_alike(own, c, "the red apple"));
    graft_clip_release(c);

    /* CLIP's has other merges, and is said to be left out. */
    last_log[0] = '\0';
    write_text(folder, "merges.txt", "t h</w>\n", 8);
    graft_status st = graft_clip_load(engine, &file, 1, "lumina2", NULL, &c, &e);
    CHECK(st == GRAFT_E_FORMAT || st == GRAFT_E_NOTFOUND);
    CHECK(strstr(last_log, "is left out") && strstr(last_log, "merges.txt"));
    remove_text(folder, "vocab.json");
    last_log[0] = '\0';
    st = graft_clip_load(engine, &file, 1, "lumina2", NULL, &c, &e);
    CHECK(st == GRAFT_E_FORMAT ? strstr(e.text, "300 tokens") != NULL
                               : strstr(e.text, "tokenizer.json of Qwen 3") != NULL);
    CHECK_STR(last_log, "");
    remove_text(folder, "merges.txt");
    unlink(from);
    CHECK(rmdir(folder) == 0);
    graft_clip_release(own);
    cJSON_Delete(root);
    graft_free(vocab);
    graft_free(json);
}

/* Saved alone and in a checkpoint it is found again. */
static void saved(void)
{
    graft_clip *c = clip_of("");
    graft_err e = GRAFT_ERR_INIT;
    CHECK_STR(graft_clip_encoder_name(c, 0), "qwen3");
    CHECK(!graft_clip_encoder_name(c, 1));
    for (int64_t encoder = 0; encoder < 2; encoder++) {
        const graft_checkpoint what = {.clip = c, .encoder = encoder};
        const char *to = temp_path("saved.safetensors");
        CHECK_OK(graft_checkpoint_save(&what, to, NULL, NULL, &e), &e);
        graft_clip *again = loaded(to);
        CHECK(encode_alike(c, again, "the red apple"));
        graft_clip_release(again);
        unlink(to);
    }
    graft_clip_release(c);
}

static void other_files(void)
{
    static const char *const types[] = {"lumina2", "chroma", "sd3", "flux2"};
    const char *own = temp_path("own.safetensors"), *clip = CLIP_FILE;
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    write_file(make_file(), own, NULL);
    for (int i = 0; i < 4; i++) {
        const char *path = i % 3 ? own : clip;
        CHECK_INT(graft_clip_load(engine, &path, 1, types[i], NULL, &c, &e), GRAFT_E_UNSUPPORTED);
        CHECK(strstr(e.text, i % 3 ? "CLIPLoader with type lumina2"
                             : i   ? "no Qwen 3 or Mistral text encoder"
                                   : "no Qwen 3 text encoder"));
    }
    CHECK_INT(graft_clip_load(engine, (const char *const[]){own, own}, 2, "lumina2", NULL, &c, &e),
              GRAFT_E_ARG);
    unlink(own);
    c = clip_of("");
    CHECK(graft_clip_merge(c, c, 0.5, &(graft_clip *){NULL}, &e) == GRAFT_E_UNSUPPORTED);
    CHECK(graft_clip_encode_flux(c, "a", "b", NULL, &(graft_cond *){NULL}, &e) == GRAFT_E_ARG);
    graft_clip_release(c);
}

/* ------------------------------------------------------------------ GGUF */

static void put_list(gguf_file *f, const char *key, const char *const *texts, uint64_t n)
{
    gguf_put_text(f, key);
    gguf_put_number(f, 9, 4);
    gguf_put_number(f, 8, 4);
    gguf_put_number(f, n, 8);
    for (uint64_t i = 0; i < n; i++) gguf_put_text(f, texts ? texts[i] : "a");
}

static void put_pair(gguf_file *f, const char *key, const char *value)
{
    gguf_put_text(f, key);
    gguf_put_number(f, 8, 4);
    gguf_put_text(f, value);
}

/* llama.cpp's names, the matrices in blocks, and its tokenizer, or one that texts are cut up for
 * otherwise. */
static gguf_file gguf_like(const made_file *made, const char *cut)
{
    static const char *const merges[] = {"t h", "th e", "\xc4\xa0 the", "\xc4\x8a \xc4\x8a"};
    gguf_file f = {0};
    uint64_t offset = 0;
    gguf_begin_with(&f, "qwen3", made->n, 5);
    put_pair(&f, "tokenizer.ggml.model", "gpt2");
    put_pair(&f, "tokenizer.ggml.pre", cut);
    put_list(&f, "tokenizer.ggml.tokens", NULL, VOCAB);
    put_list(&f, "tokenizer.ggml.merges", merges, 4);
    for (size_t i = 0; i < made->n; i++) {
        const graft_st_tensor *t = &made->tensor[i];
        gguf_put_info(&f, t->name, t->rank, t->shape, gguf_type_of(t), offset);
        offset += (t->bytes + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
    }
    gguf_align(&f);
    for (size_t i = 0; i < made->n; i++) {
        gguf_put(&f, made->tensor[i].data, (size_t)made->tensor[i].bytes);
        gguf_align(&f);
    }
    return f;
}

/* Gives the tensors llama.cpp's names and packs them; `plain` gets the values that are left. */
static void to_llama(made_file *packed, made_file *plain)
{
    for (size_t i = 0; i < packed->n; i++) {
        graft_st_tensor *t = &packed->tensor[i];
        char name[100] = "token_embd.weight";
        if (i > 0 && i <= PER_LAYER * LAYERS)
            snprintf(name, sizeof name, "blk.%zu.%s.weight", (i - 1) / PER_LAYER,
                     parts[(i - 1) % PER_LAYER].llama);
        else if (i)
            snprintf(name, sizeof name, "output%s.weight", t->rank == 1 ? "_norm" : "");
        call_tensor(t, name);
        if (t->rank != 2 || t->shape[1] % 32) continue;
        gguf_pack_tensor(t, &plain->tensor[i]);
    }
}

/* In a GGUF file it gives what it gives in a file of its authors' names and of the same values. */
static void same_in_gguf(void)
{
    made_file *f = make_file(), *g = make_file();
    const char *path = temp_path("qwen3.gguf"), *own = temp_path("plain.safetensors");
    to_llama(g, f);
    add_merges(f, "");
    gguf_file bytes = gguf_like(g, "qwen2"), other = gguf_like(g, "llama-bpe");
    gguf_write(&bytes, path);
    write_file(f, own, NULL);
    graft_clip *a = loaded(own), *b = loaded(path);
    CHECK(memcmp(&a->qwen3->arch, &b->qwen3->arch, sizeof a->qwen3->arch) == 0);
    CHECK(encode_alike(a, b, "the red apple\n\n"));
    graft_clip_release(a);
    graft_clip_release(b);
    gguf_write(&other, path);
    graft_safetensors *file = open_file(path);
    CHECK(graft_safetensors_find(file, "model.layers.2.mlp.up_proj.weight"));
    CHECK(graft_safetensors_find(file, "lm_head.weight"));
    CHECK(!graft_safetensors_find(file, "merges_txt"));
    graft_safetensors_close(file);
    unlink(path);
    unlink(own);
    free(bytes.data);
    free(other.data);
    finish_file(g);
}

/* ------------------------------------------------------------------ memory */

static void no_memory(void)
{
    const int32_t ids[T] = {1, 2, 3, 4, 5};
    float hidden[T * WIDTH], again[T * WIDTH];
    graft_err e = GRAFT_ERR_INIT;
    graft_qwen3_arch a;
    int failed = 0;
    made_file *f = make_file();
    graft_weights *w = weights_of(f, &a);
    CHECK_OK(run(&a, w, ids, T, hidden, &e), &e);
    for (int i = 1; i < 1000; i++) {
        graft_alloc_fail_at(i);
        graft_status st = run(&a, w, ids, T, again, &e);
        graft_alloc_fail_at(0);
        if (st == GRAFT_OK) break;
        CHECK_INT(st, GRAFT_E_NOMEM);
        failed++;
    }
    CHECK(failed >= 2 && failed < 999);
    CHECK(memcmp(hidden, again, sizeof hidden) == 0);
    graft_weights_release(w);
    finish_file(f);
}

int main(void)
{
    engine = make_engine("ref");
    if (!engine) return 1;
    RUN(is_found);
    RUN(lacks_a_tensor);
    RUN(other_structures);
    RUN(odd_shapes);
    RUN(makes_no_sense);
    RUN(keeps_float32);
    RUN(refuses_shapes);
    RUN(sees_what_is_before);
    RUN(refuses_runs);
    RUN(stays_packed);
    RUN(in_4_bits);
    RUN(compiles_only);
    RUN(prompts);
    RUN(tokenizers_beside);
    RUN(saved);
    RUN(other_files);
    RUN(same_in_gguf);
    RUN(no_memory);
    graft_engine_destroy(engine);
    return test_end();
}
