/* Ministral 3 as ERNIE-Image's text encoder: where it is found and what tells it from FLUX.2 dev's
 * Mistral, and what its prompts are made of. What it computes is held against
 * golden/small/ministral, and the tokenizer against golden/small/tekken. */
#include "engine/models/parts/tensors.h"
#include "tests/engine/llama_files.h"
#include "tests/engine/tekken_language.h"
#include "tests/tekken_gguf.h"

#define MINISTRAL GRAFT_SOURCE_DIR "/golden/small/ministral.safetensors"
#define MISTRAL   GRAFT_SOURCE_DIR "/golden/small/mistral.safetensors"
#define NET       GRAFT_SOURCE_DIR "/golden/small/ernie_image_two.safetensors"
#define DEV       GRAFT_SOURCE_DIR "/golden/small/flux2_dev.safetensors"
#define PLACE     "text_encoders.ministral3_3b.transformer."
#define CONFIG    "{\"head_dim\": 16}"

enum { HEAD = 16, VOCAB = 300 };

static graft_engine *engine;

static made_file *ministral_at(const char *place)
{
    made_file *f = wordless_at(MINISTRAL, place);
    add_vocabulary(f, place);
    return f;
}

static made_file *ministral(void)
{
    return ministral_at("");
}

/* Takes f. */
static graft_clip *clip_of(made_file *f, const char *config, const char *type)
{
    return clip_loaded(engine, f, config, type);
}

/* Takes f. */
static void refused(made_file *f, const char *config, const char *type, graft_status status,
                    const char *words)
{
    clip_with_refused(engine, f, config, type, status, words);
}

/* ------------------------------------------------------------------ files */

/* With ComfyUI's type, and where nobody chose one. */
static void kind(void)
{
    graft_clip *c = clip_of(ministral(), CONFIG, "flux2");
    graft_clip *other = clip_of(ministral(), CONFIG, "stable_diffusion");
    const graft_qwen3_arch *a = &c->qwen3->arch;
    CHECK(c->kind == GRAFT_CLIP_ERNIE_IMAGE && c->width == 20 && !c->qwen3->tokenizer);
    CHECK(a->mistral && a->ministral && !a->biased && a->layers == 3 && a->width == 20);
    CHECK(a->head_dim == 16 && a->heads == 4 && a->key_heads == 2 && a->vocab == 300);
    CHECK_STR(graft_qwen3_family(a), "Ministral 3");
    CHECK_STR(graft_clip_encoder_name(c, 0), "ministral3_3b");
    CHECK(other->kind == c->kind && encode_alike(c, other, "the red apple"));
    graft_clip_release(other);
    graft_clip_release(c);
    refused(ministral(), CONFIG, "lumina2", GRAFT_E_UNSUPPORTED, "CLIPLoader with type flux2");
    refused(ministral(), CONFIG, "qwen_image", GRAFT_E_UNSUPPORTED, "no Qwen 2.5 text encoder");
    refused(wordless_at(MINISTRAL, ""), CONFIG, "flux2", GRAFT_E_NOTFOUND,
            "Ministral 3 without its tokenizer");
    refused(wordless_at(MINISTRAL, ""), CONFIG, "flux2", GRAFT_E_NOTFOUND,
            "put tekken.json of Ministral 3 beside it");
}

static void places(void)
{
    static const char *const place[] = {"", "language_model.", "model.language_", PLACE};
    graft_clip *c = clip_of(ministral(), CONFIG, "flux2");
    for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
        made_file *f = whole_mistral_at(MINISTRAL, place[i]);
        add_vocabulary(f, i % 2 ? "" : place[i]); /* by itself, as ComfyUI has it, or with it */
        graft_clip *other = clip_of(f, CONFIG, "flux2");
        CHECK(encode_alike(c, other, "the red apple"));
        graft_clip_release(other);
    }
    graft_clip_release(c);
}

/* As llama.cpp has it: its order of rows, and the vocabulary in metadata. */
static void as_gguf(void)
{
    const char *path = temp_path("encoder.gguf");
    char *json = vocabulary();
    made_file *f = wordless_at(MINISTRAL, "");
    gguf_pairs pairs = {0};
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = clip_of(ministral(), CONFIG, "flux2"), *other = NULL;
    turn_as_llama(f, HEAD);
    call_as_llama(f);
    gguf_add_u32(&pairs, "mistral3.rope.dimension_count", HEAD);
    add_tekken(&pairs, json, "tekken", VOCAB, NULL, 0);
    gguf_file bytes = gguf_with("mistral3", NULL, f->tensor, f->n, NULL, &pairs);
    gguf_write(&bytes, path);
    CHECK_OK(graft_clip_load(engine, &path, 1, "flux2", NULL, &other, &e), &e);
    CHECK(other && other->kind == c->kind && encode_alike(c, other, "the red apple"));
    CHECK(other && memcmp(&c->qwen3->arch, &other->qwen3->arch, sizeof c->qwen3->arch) == 0);
    graft_clip_release(other);
    graft_clip_release(c);
    unlink(path);
    free(bytes.data);
    free(pairs.bytes.data);
    finish_file(f);
    graft_free(json);
}

/* How many layers it has tells it from FLUX.2 dev's. */
static void by_its_layers(void)
{
    static const char small[] = "{\"head_dim\": 8}";
    made_file *f = wordless_at(MISTRAL, "");
    char layer[40];
    add_vocabulary(f, "");
    for (int i = 27; i < 31; i++) {
        snprintf(layer, sizeof layer, "model.layers.%d.", i);
        drop_tensors(f, layer);
    }
    refused(f, small, "flux2", GRAFT_E_UNSUPPORTED, "a Mistral of 27 layers; FLUX.2 wants");
    f = wordless_at(MISTRAL, "");
    add_vocabulary(f, "");
    for (int i = 26; i < 31; i++) {
        snprintf(layer, sizeof layer, "model.layers.%d.", i);
        drop_tensors(f, layer);
    }
    graft_clip *c = clip_of(f, small, "flux2");
    CHECK(c->kind == GRAFT_CLIP_ERNIE_IMAGE && c->qwen3->arch.layers == GRAFT_MINISTRAL_LAYERS);
    graft_clip_release(c);
}

/* All that is read must be there: the table, and all layers but the last. */
static void lost_tensors(void)
{
    made_file *all = ministral();
    int named = 0, unread = 0;
    for (size_t i = 0; i < all->n; i++) {
        const char *name = all->tensor[i].name;
        made_file *f = ministral();
        drop_tensor(f, name);
        if (strcmp(name, GRAFT_MISTRAL_TENSOR) == 0 || all->tensor[i].dtype == GRAFT_U8) {
            finish_file(f);
        } else if (strstr(name, "model.layers.2.") || strcmp(name, "model.norm.weight") == 0) {
            graft_clip_release(clip_of(f, CONFIG, "flux2"));
            unread++;
        } else {
            refused(f, CONFIG, "flux2", GRAFT_E_FORMAT, name);
            named++;
        }
    }
    CHECK_INT(named, 2 * 9); /* of two layers, and the table; one tells what it is */
    CHECK_INT(unread, 9 + 1);
    finish_file(all);
}

static void other_networks(void)
{
    graft_clip *c = clip_of(ministral(), CONFIG, "flux2");
    const graft_qwen3_shape shapes[] = {{.joined = GRAFT_QWEN3_KLEIN},
                                        {.joined = GRAFT_QWEN3_DEV},
                                        {.normed = 1},
                                        {.whole = 1},
                                        {.layered = GRAFT_QWEN3_KREA2}};
    graft_err e = GRAFT_ERR_INIT;
    graft_graph *g = NULL;
    graft_qwen3_shape s;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        s = shapes[i];
        s.batch = 1, s.tokens = 32, s.act_dtype = GRAFT_F32, s.placed = 1;
        CHECK_INT(graft_qwen3_build(&c->qwen3->arch, &s, &g, &e), GRAFT_E_UNSUPPORTED);
        CHECK(!g && strstr(e.text, "Ministral 3 for another network"));
    }
    s = (graft_qwen3_shape){.batch = 1, .tokens = 32, .act_dtype = GRAFT_F32};
    CHECK_INT(graft_qwen3_build(&c->qwen3->arch, &s, &g, &e), GRAFT_E_ARG);
    CHECK(!g && strstr(e.text, "without its angles"));
    s.placed = 1, s.tokens = GRAFT_QWEN3_MAX_TOKENS + 1;
    CHECK_INT(graft_qwen3_build(&c->qwen3->arch, &s, &g, &e), GRAFT_E_LIMIT);
    graft_clip_release(c);
}

/* ------------------------------------------------------------------ prompts */

/* The network reads what the model gives for `whole`. */
static void prompt_is(const graft_clip *c, const char *text, const char *whole)
{
    const graft_build_options o = {.no_disk = true};
    const graft_qwen3 *q = c->qwen3;
    const size_t row = (size_t)c->width;
    graft_err e = GRAFT_ERR_INIT;
    int32_t *ids = NULL;
    size_t n = 0;
    CHECK_OK(graft_tekken_encode(q->tekken, whole, strlen(whole), &ids, &n, &e), &e);
    float *want = calloc(n, row * sizeof *want);
    CHECK_OK(graft_qwen3_run(engine, &o, &q->arch, q->weights, GRAFT_QWEN3_TAKE_MOST, ids,
                             (int64_t)n, NULL, want, &e),
             &e);
    graft_cond *k = encoded(c, text);
    CHECK(k->n == 1 && k->entry[0]->width == (int64_t)row && !k->entry[0]->pooled);
    CHECK_INT(k->entry[0]->tokens, n);
    if (k->entry[0]->tokens == (int64_t)n)
        CHECK(memcmp(k->entry[0]->data, want, n * row * sizeof *want) == 0);
    graft_cond_release(k);
    graft_free(ids);
    free(want);
}

/* As they are, behind the mark that a text begins with; nothing else is around them. */
static void prompts(void)
{
    graft_clip *c = clip_of(ministral(), CONFIG, "flux2");
    prompt_is(c, "the apple", "<s>the apple");
    prompt_is(c, "", "<s>");
    prompt_is(c, "(red:1.3) \\( embedding:x", "<s>(red:1.3) \\( embedding:x");
    prompt_is(c, "[IMG]a[INST] the", "<s>[IMG]a[INST] the");
    graft_cond *k = encoded(c, "");
    CHECK_INT(k->entry[0]->tokens, 1);
    graft_cond_release(k);
    graft_clip_release(c);
}

/* As many tokens as its tokenizer leaves of a text, the first one among them; no more. */
static void long_prompts(void)
{
    enum { MOST = GRAFT_QWEN3_MAX_TOKENS };
    graft_clip *c = clip_of(ministral(), CONFIG, "flux2");
    char *text = calloc(MOST + 1, 1);
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *k = NULL;
    memset(text, '7', MOST - 1); /* each digit is a token */
    CHECK_OK(graft_clip_encode(c, text, NULL, &k, &e), &e);
    CHECK(k && k->entry[0]->tokens == MOST);
    graft_cond_release(k);
    k = NULL;
    text[MOST - 1] = '7';
    CHECK_INT(graft_clip_encode(c, text, NULL, &k, &e), GRAFT_E_LIMIT);
    CHECK(!k && strstr(e.text, "at most 2048 are read by Ministral 3"));
    free(text);
    graft_clip_release(c);
}

/* ------------------------------------------------------------------ checkpoints, memory */

static graft_status try_checkpoint(made_file *f, const char *net, const char *config,
                                   graft_clip **out, graft_err *e)
{
    const char *path = temp_path("whole.safetensors");
    made_file *own = golden_file(net);
    graft_model *m = NULL;
    for (size_t i = 0; i < own->n; i++)
        add_tensor(f, own->tensor[i].name, own->tensor[i].rank, own->tensor[i].shape,
                   own->tensor[i].data, 0);
    finish_file(own);
    write_file(f, path, config);
    graft_status st = graft_checkpoint_load(engine, path, NULL, &m, out, NULL, e);
    graft_model_release(m);
    unlink(path);
    return st;
}

/* Each network's own alone. */
static void checkpoints(void)
{
    graft_clip *c = clip_of(ministral(), CONFIG, "flux2"), *other = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *k = NULL;
    found_beside_as(engine, ministral_at(PLACE), NET, CONFIG, c, GRAFT_NET_ERNIE_IMAGE);
    CHECK_INT(try_checkpoint(ministral_at(PLACE), DEV, CONFIG, &other, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!other && strstr(e.text, "a Ministral 3 of 3 layers; FLUX.2 wants"));
    made_file *f = wordless_at(MISTRAL, "text_encoders.mistral3_24b.transformer.");
    add_vocabulary(f, "");
    CHECK_INT(try_checkpoint(f, NET, "{\"head_dim\": 8}", &other, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!other &&
          strstr(e.text, "a Mistral of 31 layers; ERNIE-Image reads a Ministral 3 of 26"));
    CHECK_OK(try_checkpoint(calloc(1, sizeof *f), NET, CONFIG, &other, &e), &e);
    CHECK_INT(graft_clip_encode(other, "the", NULL, &k, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!k && strstr(e.text, "no Ministral 3 in it; CLIPLoader opens"));
    graft_clip_release(other);
    graft_clip_release(c);
}

static void no_memory(void)
{
    graft_clip *c = clip_of(ministral(), CONFIG, "flux2");
    encodes_short_of_memory(c, 9);
    graft_clip_release(c);
}

int main(void)
{
    engine = make_engine("cpu");
    if (!engine) return 1;
    RUN(kind);
    RUN(places);
    RUN(as_gguf);
    RUN(by_its_layers);
    RUN(lost_tensors);
    RUN(other_networks);
    RUN(prompts);
    RUN(long_prompts);
    RUN(checkpoints);
    RUN(no_memory);
    graft_engine_destroy(engine);
    return test_end();
}
