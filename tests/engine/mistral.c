/* Mistral as FLUX.2 dev's text encoder: where it is found, what its prompts are made of and how
 * long they are, and where its tokenizer comes from. What it computes is held against
 * golden/small/mistral, and the tokenizer against golden/small/tekken. */
#include <sys/stat.h>

#include "base/str.h"
#include "engine/models/parts/tensors.h"
#include "tests/engine/tekken_language.h"

#define MISTRAL GRAFT_SOURCE_DIR "/golden/small/mistral.safetensors"
#define DEV     GRAFT_SOURCE_DIR "/golden/small/flux2_dev.safetensors"
#define PLACE   "text_encoders.mistral3_24b.transformer."
#define CONFIG  "{\"head_dim\": 8}"
#define SYSTEM                                                                                     \
    "<s>[SYSTEM_PROMPT]You are an AI that reasons about image descriptions. You give structured "  \
    "responses focusing on object relationships, object attribution and actions without "          \
    "speculation.[/SYSTEM_PROMPT][INST]"

static graft_engine *engine;
/* A folder of its own, as what lies beside a file counts. */
static char folder[500], encoder[600], beside[600];

/* The golden model below `place`, without a tokenizer. */
static made_file *bare_at(const char *place)
{
    return wordless_at(MISTRAL, place);
}

static made_file *mistral(void)
{
    made_file *f = bare_at("");
    add_vocabulary(f, "");
    return f;
}

/* Takes f. */
static graft_status try_mistral(made_file *f, const char *type, graft_clip **out, graft_err *e)
{
    const char *path = encoder;
    write_file(f, path, CONFIG);
    *out = NULL;
    graft_status st = graft_clip_load(engine, &path, 1, type, NULL, out, e);
    unlink(path);
    return st;
}

/* Takes f. */
static graft_clip *clip_of(made_file *f)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    CHECK_OK(try_mistral(f, "flux2", &c, &e), &e);
    if (!c) abort();
    return c;
}

/* Takes f. */
static void refused(made_file *f, const char *type, graft_status status, const char *words)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    CHECK_INT(try_mistral(f, type, &c, &e), status);
    CHECK(!c && strstr(e.text, words));
    if (!strstr(e.text, words)) fprintf(stderr, "  no \"%s\" in: %s\n", words, e.text);
    graft_clip_release(c);
}

/* ------------------------------------------------------------------ files */

static void kind(void)
{
    graft_clip *c = clip_of(mistral());
    const graft_qwen3_arch *a = &c->qwen3->arch;
    CHECK(c->kind == GRAFT_CLIP_FLUX2 && c->width == 3 * 20 && !c->qwen3->tokenizer);
    CHECK(a->mistral && !a->biased && a->layers == 31 && a->width == 20 && a->head_dim == 8);
    CHECK(a->heads == 4 && a->key_heads == 2 && a->intermediate == 28 && a->vocab == 300);
    CHECK_STR(graft_qwen3_family(a), "Mistral");
    CHECK_STR(graft_clip_encoder_name(c, 0), "mistral3_24b");
    graft_clip_release(c);
    refused(mistral(), "lumina2", GRAFT_E_UNSUPPORTED, "CLIPLoader with type flux2");
    refused(mistral(), "qwen_image", GRAFT_E_UNSUPPORTED, "no Qwen 2.5 text encoder");
}

static void places(void)
{
    static const char *const place[] = {"", "language_model.", "model.language_", PLACE};
    graft_clip *c = clip_of(mistral());
    for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
        made_file *f = whole_mistral_at(MISTRAL, place[i]);
        add_vocabulary(f, i % 2 ? "" : place[i]); /* by itself, as ComfyUI has it, or with it */
        graft_clip *other = clip_of(f);
        CHECK(encode_alike(c, other, "the red apple"));
        graft_clip_release(other);
    }
    graft_clip_release(c);
}

/* As files for FLUX.2 are: so many layers, and no norm. */
static void layers(void)
{
    graft_clip *c = clip_of(mistral());
    made_file *f = mistral();
    drop_tensors(f, "model.layers.30.");
    drop_tensor(f, "model.norm.weight");
    graft_clip *other = clip_of(f);
    CHECK_INT(other->qwen3->arch.layers, 30);
    CHECK(encode_alike(c, other, "the red apple"));
    graft_clip_release(other);
    f = mistral();
    drop_tensors(f, "model.layers.30.");
    drop_tensors(f, "model.layers.29.");
    refused(f, "flux2", GRAFT_E_UNSUPPORTED,
            "encoder.safetensors: a Mistral of 29 layers; FLUX.2 wants");
    graft_clip_release(c);
}

/* By itself and in a checkpoint, with the tokenizer wherever that was. */
static void saved(void)
{
    static const char *const place[] = {"", "language_model."};
    const char *to = temp_path("saved.safetensors");
    graft_clip *c = clip_of(mistral());
    for (int i = 0; i < 4; i++) {
        made_file *f = wordless_at(MISTRAL, place[i / 2]);
        graft_clip *other, *again = NULL;
        graft_err e = GRAFT_ERR_INIT;
        add_vocabulary(f, "");
        other = clip_of(f);
        const graft_checkpoint what = {.clip = other, .encoder = i % 2};
        CHECK_OK(graft_checkpoint_save(&what, to, NULL, NULL, &e), &e);
        CHECK_OK(graft_clip_load(engine, &to, 1, "flux2", NULL, &again, &e), &e);
        CHECK(again && encode_alike(c, again, "the red apple"));
        graft_clip_release(again);
        graft_clip_release(other);
        unlink(to);
    }
    graft_clip_release(c);
}

static void other_networks(void)
{
    graft_clip *c = clip_of(mistral());
    graft_qwen3_shape s = {.batch = 1, .tokens = 32, .act_dtype = GRAFT_F32};
    graft_err e = GRAFT_ERR_INIT;
    graft_graph *g = NULL;
    graft_qwen3_arch a = c->qwen3->arch;
    for (int i = 0; i < 3; i++) {
        s.joined = i == 1 ? GRAFT_QWEN3_KLEIN : i == 2 ? GRAFT_QWEN3_DEV : 0;
        a.mistral = i < 2;
        CHECK_INT(graft_qwen3_build(&a, &s, &g, &e), GRAFT_E_UNSUPPORTED);
        CHECK(!g && strstr(e.text, "another network"));
    }
    graft_clip_release(c);
}

static void lost_tensors(void)
{
    made_file *all = mistral();
    int named = 0;
    for (size_t i = 0; i < all->n; i++) {
        const char *name = all->tensor[i].name;
        made_file *f = mistral();
        if (all->tensor[i].dtype == GRAFT_U8 || strcmp(name, "model.norm.weight") == 0 ||
            strstr(name, "model.layers.30.") || strcmp(name, GRAFT_MISTRAL_TENSOR) == 0) {
            finish_file(f);
            continue;
        }
        drop_tensor(f, name);
        refused(f, "flux2", GRAFT_E_FORMAT, name);
        named++;
    }
    CHECK_INT(named, 30 * 9); /* of the first 30 layers, and the table; one tells what it is */
    made_file *f = mistral();
    drop_tensor(f, GRAFT_MISTRAL_TENSOR);
    refused(f, "flux2", GRAFT_E_UNSUPPORTED, "no Qwen 3 or Mistral text encoder");
    finish_file(all);
}

/* A Qwen 3 whose first norm of heads is lost is none. */
static void no_qwen(void)
{
    made_file *f = language_at(GRAFT_SOURCE_DIR "/golden/small/qwen3_joined.safetensors", "");
    drop_tensor(f, GRAFT_QWEN3_TENSOR);
    add_vocabulary(f, "");
    refused(f, "flux2", GRAFT_E_UNSUPPORTED, "no Qwen 3 or Mistral text encoder");
}

/* ------------------------------------------------------------------ the tokenizer */

static void tokenizers(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char *text = vocabulary();
    refused(bare_at(""), "flux2", GRAFT_E_NOTFOUND, "encoder.safetensors: Mistral without its");
    refused(bare_at(""), "flux2", GRAFT_E_NOTFOUND, "put tekken.json of Mistral Small beside it");
    CHECK_OK(graft_file_write(beside, text, strlen(text), &e), &e);
    graft_clip *c = clip_of(mistral()), *other = clip_of(bare_at(""));
    CHECK(encode_alike(c, other, "the red apple"));
    graft_clip_release(other);
    graft_clip_release(c);
    CHECK_OK(graft_file_write(beside, "{}", 2, &e), &e);
    refused(bare_at(""), "flux2", GRAFT_E_UNSUPPORTED, "tekken.json: no tokenizer of Mistral's");
    unlink(beside);
    made_file *f = bare_at("");
    add_bytes(f, "", GRAFT_MISTRAL_TOKENIZER, "{\"config\"", 9);
    refused(f, "flux2", GRAFT_E_FORMAT, "encoder.safetensors: tekken_model: ");
    memcpy(strstr(text, "\":300") + 2, "301", 3);
    f = bare_at("");
    add_bytes(f, "", GRAFT_MISTRAL_TOKENIZER, text, strlen(text));
    refused(f, "flux2", GRAFT_E_FORMAT, "its table has 300 tokens, fewer than the 301");
    graft_free(text);
}

/* ------------------------------------------------------------------ prompts */

/* What the network reads of `whole`: padding, and then the words. */
static void prompt_is(const graft_clip *c, const char *text, const char *whole)
{
    const graft_build_options o = {.no_disk = true};
    const graft_qwen3 *q = c->qwen3;
    const size_t row = (size_t)c->width;
    graft_err e = GRAFT_ERR_INIT;
    int32_t *ids = NULL;
    size_t n = 0;
    CHECK_OK(graft_tekken_encode(q->tekken, whole, strlen(whole), &ids, &n, &e), &e);
    const size_t tokens = n > 512 ? n : 512;
    float *want = calloc(tokens, row * sizeof *want);
    CHECK_OK(graft_qwen3_run_led(engine, &o, &q->arch, q->weights, ids, (int64_t)n, 11,
                                 (int64_t)tokens, NULL, want, &e),
             &e);
    graft_cond *k = encoded(c, text);
    CHECK(k->n == 1 && k->entry[0]->width == (int64_t)row && !k->entry[0]->pooled);
    CHECK_INT(k->entry[0]->tokens, tokens);
    CHECK(memcmp(k->entry[0]->data, want, tokens * row * sizeof *want) == 0);
    graft_cond_release(k);
    graft_free(ids);
    free(want);
}

static void prompts(void)
{
    graft_clip *c = clip_of(mistral());
    char text[600 * 4 + 1] = "", whole[4000];
    prompt_is(c, "the apple", SYSTEM "the apple[/INST]");
    prompt_is(c, "", SYSTEM "[/INST]");
    prompt_is(c, "(red:1.3) \\( embedding:x", SYSTEM "(red:1.3) \\( embedding:x[/INST]");
    prompt_is(c, "[IMG]a[IMG][IMG]b[/INST]", SYSTEM "ab[/INST][/INST]");
    for (int i = 0; i < 600; i++) memcpy(text + 4 * i, " the", 5);
    snprintf(whole, sizeof whole, SYSTEM "%s[/INST]", text);
    prompt_is(c, text, whole);
    graft_clip_release(c);
}

/* Padding is the same everywhere and in all prompts, and changes no word. */
static void padding(void)
{
    graft_clip *c = clip_of(mistral());
    const graft_qwen3 *q = c->qwen3;
    const graft_build_options o = {.no_disk = true};
    const size_t row = (size_t)c->width;
    const int32_t ids[] = {40, 50, 60, 70, 80};
    float *a = calloc(64, row * sizeof *a), *b = calloc(64, row * sizeof *b);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_qwen3_run_led(engine, &o, &q->arch, q->weights, ids, 5, 11, 40, NULL, a, &e),
             &e);
    CHECK_OK(graft_qwen3_run_led(engine, &o, &q->arch, q->weights, ids, 4, 11, 64, NULL, b, &e),
             &e);
    for (size_t i = 1; i < 35; i++) CHECK(memcmp(a, a + i * row, row * sizeof *a) == 0);
    CHECK(difference(a, b, row) < 1e-6 && difference(a, a + 35 * row, row) > 1e-3);
    CHECK(difference(a + 35 * row, b + 60 * row, 4 * row) < 1e-6);
    CHECK_OK(graft_qwen3_run_led(engine, &o, &q->arch, q->weights, ids, 5, 12, 40, NULL, b, &e),
             &e);
    CHECK(difference(a, b, row) > 1e-3);
    CHECK(difference(a + 35 * row, b + 35 * row, 5 * row) < 1e-6);
    CHECK_INT(graft_qwen3_run_led(engine, &o, &q->arch, q->weights, ids, 0, 11, 5, NULL, a, &e),
              GRAFT_E_ARG);
    CHECK_INT(graft_qwen3_run_led(engine, &o, &q->arch, q->weights, ids, 5, 11, 4, NULL, a, &e),
              GRAFT_E_ARG);
    free(a);
    free(b);
    graft_clip_release(c);
}

static void checkpoints(void)
{
    graft_clip *c = clip_of(mistral());
    made_file *f = bare_at(PLACE);
    add_vocabulary(f, PLACE);
    found_beside_as(engine, f, DEV, CONFIG, c, GRAFT_NET_FLUX2);
    graft_clip_release(c);
}

static void no_memory(void)
{
    graft_clip *c = clip_of(mistral());
    encodes_short_of_memory(c, 9);
    graft_clip_release(c);
}

int main(void)
{
    engine = make_engine("cpu");
    snprintf(folder, sizeof folder, "%s", temp_path("mistral"));
    snprintf(encoder, sizeof encoder, "%s/encoder.safetensors", folder);
    snprintf(beside, sizeof beside, "%s/tekken.json", folder);
    if (!engine || mkdir(folder, 0700)) return 1;
    RUN(kind);
    RUN(places);
    RUN(saved);
    RUN(layers);
    RUN(other_networks);
    RUN(lost_tensors);
    RUN(no_qwen);
    RUN(tokenizers);
    RUN(prompts);
    RUN(padding);
    RUN(checkpoints);
    RUN(no_memory);
    graft_engine_destroy(engine);
    rmdir(folder);
    return test_end();
}
