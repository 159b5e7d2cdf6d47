/* Gemma 2 as Lumina-Image 2.0's text encoder: where it is found, its tokenizer, and what its
 * prompts are made of. What it computes is held against golden/small/gemma2, and the tokenizer
 * against golden/small/unigram. */
#include "base/file.h"
#include "engine/models/parts/tensors.h"
#include "engine/prompts/gemma2.h"
#include "tests/engine/llama_files.h"
#include "tests/spiece_gguf.h"

#define GEMMA  GRAFT_SOURCE_DIR "/golden/small/gemma2.safetensors"
#define NET    GRAFT_SOURCE_DIR "/golden/small/lumina2_two.safetensors"
#define SPIECE GRAFT_SOURCE_DIR "/golden/small/unigram/"
#define PLACE  "text_encoders.gemma2_2b.transformer."
#define CONFIG "{\"head_dim\": 16}"

enum { WIDTH = 24, HEAD = 16, BEGIN = 2, PAD = 0 };

static graft_engine *engine;

/* ------------------------------------------------------------------ files */

static char *spiece(const char *name, size_t *n)
{
    char path[400], *data = NULL;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(path, sizeof path, SPIECE "%s.model", name);
    CHECK_OK(graft_file_read(path, 1 << 20, &data, n, &e), &e);
    if (!data) abort();
    return data;
}

static void add_tokenizer(made_file *f, const char *place, const char *name)
{
    size_t n;
    char *data = spiece(name, &n);
    add_bytes(f, place, "spiece_model", data, n);
    graft_free(data);
}

/* The model below `place`, without a tokenizer. */
static made_file *wordless(const char *place)
{
    made_file *f = language_at(GEMMA, place);
    char name[100];
    snprintf(name, sizeof name, "%smerges_txt", place);
    drop_tensor(f, name);
    return f;
}

static made_file *gemma_at(const char *place)
{
    made_file *f = wordless(place);
    add_tokenizer(f, place, "gemma");
    return f;
}

static made_file *gemma(void)
{
    return gemma_at("");
}

static graft_clip *clip_of(made_file *f)
{
    return clip_loaded(engine, f, CONFIG, "lumina2");
}

static void refused(made_file *f, const char *type, graft_status status, const char *words)
{
    clip_with_refused(engine, f, CONFIG, type, status, words);
}

/* With ComfyUI's type, and where nobody chose one. */
static void kind(void)
{
    graft_clip *c = clip_of(gemma()),
               *other = clip_loaded(engine, gemma(), CONFIG, "stable_diffusion");
    const graft_qwen3_arch *a = &c->qwen3->arch;
    CHECK(c->kind == GRAFT_CLIP_LUMINA2 && c->width == WIDTH && !c->qwen3->tokenizer);
    CHECK(a->gemma && !a->mistral && !a->biased && a->layers == 4);
    CHECK(a->head_dim == HEAD && a->heads == 6 && a->key_heads == 2 && a->vocab == 540);
    CHECK_STR(graft_qwen3_family(a), "Gemma 2");
    CHECK_STR(graft_clip_encoder_name(c, 0), "gemma2_2b");
    CHECK(other->kind == c->kind && encode_alike(c, other, "a (red:1.2) cat"));
    graft_clip_release(other);
    graft_clip_release(c);
    refused(gemma(), "krea2", GRAFT_E_UNSUPPORTED,
            "it seems to be a Gemma text encoder, which CLIPLoader with type lumina2 opens");
    refused(gemma(), "flux2", GRAFT_E_UNSUPPORTED, "no Qwen 3 or Mistral text encoder");
    refused(gemma(), "qwen_image", GRAFT_E_UNSUPPORTED, "no Qwen 2.5 text encoder");
    /* Heads of 256, where nobody says otherwise. */
    clip_with_refused(engine, gemma(), NULL, "lumina2", GRAFT_E_UNSUPPORTED,
                      "a Gemma 2 of 4 layers with queries of 96 numbers, keys of 32 and heads of "
                      "256");
}

static void places(void)
{
    static const char *const place[] = {"", PLACE}, *const tokenizer[] = {"", "text_encoders."};
    graft_clip *c = clip_of(gemma());
    for (int i = 0; i < 4; i++) {
        made_file *f = wordless(place[i / 2]);
        add_tokenizer(f, tokenizer[i % 2], "gemma");
        add_tensor(f, "lm_head.weight", 2, (int64_t[]){540, WIDTH}, NULL, 0.1f);
        graft_clip *other = clip_of(f);
        CHECK(encode_alike(c, other, "the red apple"));
        graft_clip_release(other);
    }
    graft_clip_release(c);
}

/* Beside the file, by the name that its authors give it. */
static void tokenizer_beside(void)
{
    char to[400];
    size_t n;
    char *data = spiece("gemma", &n);
    const char *path = temp_path("encoder.safetensors");
    graft_clip *c = clip_of(gemma());
    snprintf(to, sizeof to, "%.*s/tokenizer.model", (int)(strrchr(path, '/') - path), path);
    FILE *f = fopen(to, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f)) abort();
    graft_clip *other = clip_of(wordless(""));
    unlink(to);
    CHECK(encode_alike(c, other, "the red apple"));
    graft_clip_release(other);
    graft_clip_release(c);
    graft_free(data);
    refused(wordless(""), "lumina2", GRAFT_E_NOTFOUND,
            "Gemma 2 without its tokenizer: put tokenizer.model of Gemma 2 beside it");
}

/* Of another model, or of a larger one. */
static void other_tokenizers(void)
{
    made_file *f = wordless("");
    add_tokenizer(f, "", "t5");
    refused(f, "lumina2", GRAFT_E_FORMAT, "its tokenizer is not Gemma's");
    f = wordless("");
    add_tokenizer(f, "", "fallback"); /* of 560 tokens */
    refused(f, "lumina2", GRAFT_E_FORMAT, "its table has 540 tokens, fewer than the 560");
}

/* As llama.cpp has it: its names, norms that are stored as they are, the tokenizer in metadata. */
static void as_gguf(void)
{
    static const char *const words[][2] = {{"post_attention_layernorm", "post_attention_norm"},
                                           {"pre_feedforward_layernorm", "ffn_norm"},
                                           {"post_feedforward_layernorm", "post_ffw_norm"},
                                           {NULL, NULL}};
    const char *path = temp_path("encoder.gguf");
    made_file *f = wordless("");
    size_t n;
    char *data = spiece("gemma", &n);
    graft_unigram_file m;
    gguf_pairs pairs = {0};
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = clip_of(gemma()), *other = NULL;
    const graft_unigram_tokens tokens = graft_unigram_tokens_of(c->qwen3->words);
    for (size_t i = 0; i < f->n; i++)
        for (int64_t k = 0; strstr(f->tensor[i].name, "norm") && k < f->tensor[i].shape[0]; k++)
            ((float *)(uintptr_t)f->tensor[i].data)[k] += 1;
    for (size_t i = 0; i < f->n; i++) replace_word(&f->tensor[i], words);
    call_as_llama(f);
    CHECK_OK(graft_unigram_file_read((graft_bytes){(const uint8_t *)data, n}, &m, &e), &e);
    add_spiece(&pairs, &m, m.count, &tokens);
    gguf_add_u32(&pairs, "gemma2.attention.key_length", HEAD);
    gguf_file bytes = gguf_with("gemma2", NULL, f->tensor, f->n, NULL, &pairs);
    gguf_write(&bytes, path);
    CHECK_OK(graft_clip_load(engine, &path, 1, "lumina2", NULL, &other, &e), &e);
    if (!other) abort();
    CHECK(other->kind == c->kind && other->qwen3->arch.gemma);
    graft_cond *k = encoded(c, "the red apple"), *l = encoded(other, "the red apple");
    CHECK_INT(k->entry[0]->tokens, l->entry[0]->tokens);
    for (int64_t i = 0; i < k->entry[0]->tokens * WIDTH; i++) /* one more is rounded once */
        CHECK(fabsf(k->entry[0]->data[i] - l->entry[0]->data[i]) < 1e-4f);
    graft_cond_release(k);
    graft_cond_release(l);
    graft_clip_release(other);
    graft_clip_release(c);
    graft_unigram_file_finish(&m);
    unlink(path);
    free(bytes.data);
    free(pairs.bytes.data);
    finish_file(f);
    graft_free(data);
}

/* All that is read must be there: the table, and all layers but the last. */
static void lost_tensors(void)
{
    made_file *all = gemma();
    int named = 0, unread = 0;
    for (size_t i = 0; i < all->n; i++) {
        const char *name = all->tensor[i].name;
        made_file *f = gemma();
        drop_tensor(f, name);
        if (all->tensor[i].dtype == GRAFT_U8) {
            finish_file(f);
        } else if (strcmp(name, GRAFT_GEMMA2_TENSOR) == 0) {
            refused(f, "lumina2", GRAFT_E_UNSUPPORTED, "no Qwen 3 text encoder in it");
        } else if (strstr(name, "model.layers.3.") || strcmp(name, "model.norm.weight") == 0) {
            graft_clip_release(clip_of(f));
            unread++;
        } else {
            refused(f, "lumina2", GRAFT_E_FORMAT, name);
            named++;
        }
    }
    CHECK_INT(named, 3 * 11); /* of three layers, and the table; one tells what it is */
    CHECK_INT(unread, 11 + 1);
    finish_file(all);
}

static void other_networks(void)
{
    graft_clip *c = clip_of(gemma());
    const graft_qwen3_shape shapes[] = {{.joined = GRAFT_QWEN3_KLEIN},
                                        {.joined = GRAFT_QWEN3_DEV},
                                        {.normed = 1},
                                        {.whole = 1},
                                        {.placed = 1},
                                        {.layered = GRAFT_QWEN3_KREA2}};
    graft_err e = GRAFT_ERR_INIT;
    graft_graph *g = NULL;
    graft_qwen3_shape s;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        s = shapes[i];
        s.batch = 1, s.tokens = 32, s.act_dtype = GRAFT_F32;
        CHECK_INT(graft_qwen3_build(&c->qwen3->arch, &s, &g, &e), GRAFT_E_UNSUPPORTED);
        CHECK(!g && strstr(e.text, "Gemma 2 for another network"));
    }
    graft_clip_release(c);
    made_file *f = gemma();
    add_tensor(f, GRAFT_QWEN3_TENSOR, 1, (int64_t[]){HEAD}, NULL, 0.1f);
    refused(f, "lumina2", GRAFT_E_UNSUPPORTED, "a Gemma 3");
}

/* ------------------------------------------------------------------ prompts */

/* Tokens of texts one after the other, behind the mark that begins them all. */
static int32_t *tokens_of(const graft_clip *c, const char *const *text, size_t *n)
{
    int32_t *all = malloc(4096 * sizeof *all);
    if (!all) abort();
    all[0] = BEGIN;
    for (*n = 1; *text; text++) {
        graft_err e = GRAFT_ERR_INIT;
        int32_t *ids = NULL;
        size_t more = 0;
        CHECK_OK(graft_unigram_encode(c->qwen3->words, *text, strlen(*text), &ids, &more, &e), &e);
        memcpy(all + *n, ids, more * sizeof *ids);
        *n += more;
        graft_free(ids);
    }
    return all;
}

/* What the model gives for these texts, of which number `which` has this weight. */
static void prompt_is(const graft_clip *c, const char *prompt, const char *const *text, int which,
                      float weight)
{
    const graft_build_options o = {.no_disk = true};
    const graft_qwen3 *q = c->qwen3;
    const char *const before[] = {which > 0 ? text[0] : NULL, which > 1 ? text[1] : NULL, NULL};
    const char *const until[] = {text[0], which > 0 ? text[1] : NULL, NULL};
    size_t n, from, end;
    int32_t *ids = tokens_of(c, text, &n);
    free(tokens_of(c, before, &from));
    free(tokens_of(c, until, &end));
    float *want = calloc(n, WIDTH * sizeof *want), empty[2 * WIDTH];
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_qwen3_run(c->engine, &o, &q->arch, q->weights, GRAFT_QWEN3_TAKE_MOST, ids,
                             (int64_t)n, NULL, want, &e),
             &e);
    CHECK_OK(graft_qwen3_run_empty(c->engine, &o, &q->arch, q->weights,
                                   (const int32_t[]){BEGIN, PAD}, NULL, empty, &e),
             &e);
    for (size_t i = from * WIDTH; i < end * WIDTH; i++)
        if (weight != 1)
            want[i] = (want[i] - empty[WIDTH + i % WIDTH]) * weight + empty[WIDTH + i % WIDTH];
    graft_cond *k = encoded(c, prompt);
    CHECK(k->n == 1 && k->entry[0]->width == WIDTH && !k->entry[0]->pooled);
    CHECK_INT(k->entry[0]->tokens, n);
    if (k->entry[0]->tokens == (int64_t)n)
        CHECK(memcmp(k->entry[0]->data, want, n * WIDTH * sizeof *want) == 0);
    graft_cond_release(k);
    free(ids);
    free(want);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* As they are but for the syntax of weights, behind the mark that a text begins with. */
static void prompts(void)
{
    graft_clip *c = clip_of(gemma());
    prompt_is(c, "the red apple", TEXTS("the red apple"), 0, 1);
    prompt_is(c, "the (red:1.5) apple", TEXTS("the ", "red", " apple"), 1, 1.5f);
    prompt_is(c, "(cat:0.5)", TEXTS("cat"), 0, 0.5f);
    prompt_is(c, "a \\(b\\)\n <bos>", TEXTS("a (b)\n <bos>"), 0, 1);
    prompt_is(c, "  two  words ", TEXTS("  two  words "), 0, 1);
    prompt_is(c, "", (const char *const[]){NULL, NULL}, 0, 1);
    graft_cond *k = encoded(c, "");
    CHECK_INT(k->entry[0]->tokens, 1);
    graft_cond_release(k);
    graft_clip_release(c);
}

/* Behind what the model is told to be. */
static void wishes(void)
{
    static const char *const begun[] = {
        "You are an assistant designed to generate superior images with the superior degree of "
        "image-text alignment based on textual prompts or user prompts. <Prompt Start> a cat",
        "You are an assistant designed to generate high-quality images with the highest degree of "
        "image-text alignment based on textual prompts. <Prompt Start> a cat"};
    graft_clip *c = clip_of(gemma());
    for (int i = 0; i < 2; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_cond *got = NULL, *want = encoded(c, begun[i]);
        CHECK_OK(graft_clip_encode_lumina2(c, i ? GRAFT_LUMINA2_ALIGNMENT : GRAFT_LUMINA2_SUPERIOR,
                                           "a cat", NULL, &got, &e),
                 &e);
        CHECK(got && same_cond(got, want));
        graft_cond_release(got);
        graft_cond_release(want);
    }
    graft_clip_release(c);
}

/* As many tokens as its tokenizer leaves of a text, the first one among them; no more. */
static void long_prompts(void)
{
    enum { MOST = GRAFT_QWEN3_MAX_TOKENS };
    graft_clip *c = clip_of(gemma());
    char *text = calloc(MOST + 1, 1);
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *k = NULL;
    memset(text, '7', MOST); /* each digit is a token */
    CHECK_INT(graft_clip_encode(c, text, NULL, &k, &e), GRAFT_E_LIMIT);
    CHECK(!k && strstr(e.text, "at most 2048 are read by Gemma 2"));
    text[200] = '\0';
    CHECK_OK(graft_clip_encode(c, text, NULL, &k, &e), &e);
    CHECK(k && k->entry[0]->tokens == 201);
    graft_cond_release(k);
    free(text);
    graft_clip_release(c);
}

/* ------------------------------------------------------------------ checkpoints, memory */

static void checkpoints(void)
{
    graft_clip *c = clip_of(gemma()), *other = NULL;
    const char *path = temp_path("whole.safetensors");
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *k = NULL;
    found_beside_as(engine, gemma_at(PLACE), NET, CONFIG, c, GRAFT_NET_ZIMAGE);
    made_file *f = golden_file(NET);
    write_file(f, path, NULL);
    CHECK_OK(graft_checkpoint_load(engine, path, NULL, &m, &other, NULL, &e), &e);
    CHECK_INT(graft_clip_encode(other, "the", NULL, &k, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!k && strstr(e.text, "no Gemma 2 in it; CLIPLoader opens"));
    unlink(path);
    graft_model_release(m);
    graft_clip_release(other);
    graft_clip_release(c);
}

static void no_memory(void)
{
    graft_clip *c = clip_of(gemma());
    encodes_short_of_memory(c, 9);
    graft_clip_release(c);
}

int main(void)
{
    engine = make_engine("cpu");
    if (!engine) return 1;
    RUN(kind);
    RUN(places);
    RUN(tokenizer_beside);
    RUN(other_tokenizers);
    RUN(as_gguf);
    RUN(lost_tensors);
    RUN(other_networks);
    RUN(prompts);
    RUN(wishes);
    RUN(long_prompts);
    RUN(checkpoints);
    RUN(no_memory);
    graft_engine_destroy(engine);
    return test_end();
}
