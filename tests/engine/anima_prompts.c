/* Anima's text encoder: which files it is found in and as what, that all of them is read, what of a
 * prompt Qwen 3 reads and of which words the network is told, and where T5's tokenizer is. What
 * Qwen 3 computes is held against golden/small/qwen3; what the network makes of it: anima.c. */
#include "base/file.h"
#include "engine/files/load.h"
#include "engine/models/encoders/anima_adapter.h"
#include "engine/models/parts/tensors.h"
#include "engine/prompts/t5.h"
#include "tests/engine/language.h"

#define PLACE    "text_encoders.qwen3_06b.transformer."
#define WORDS    GRAFT_SOURCE_DIR "/golden/small/unigram/t5.model"
#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { LAYERS = 2, WIDTH = 32, HEADS = 2, KEY_HEADS = 1, HEAD = 8, DENSE = 24, VOCAB = 300 };

static graft_engine *engine;

static void add(made_file *f, const char *prefix, const char *name, int64_t rows, int64_t columns)
{
    char full[200];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    add_tensor(f, full, columns ? 2 : 1, (int64_t[]){rows, columns}, NULL, 0.4f);
}

/* Qwen 3 below a prefix, with its tokenizer, and where `words` says so T5's. */
static made_file *file_at(const char *prefix, bool words)
{
    static const struct part {
        const char *name;
        int64_t rows, columns;
    } parts[] = {{"input_layernorm", WIDTH, 0},
                 {"self_attn.q_proj", HEADS * HEAD, WIDTH},
                 {"self_attn.k_proj", KEY_HEADS * HEAD, WIDTH},
                 {"self_attn.v_proj", KEY_HEADS * HEAD, WIDTH},
                 {"self_attn.q_norm", HEAD, 0},
                 {"self_attn.k_norm", HEAD, 0},
                 {"self_attn.o_proj", WIDTH, HEADS * HEAD},
                 {"post_attention_layernorm", WIDTH, 0},
                 {"mlp.gate_proj", DENSE, WIDTH},
                 {"mlp.up_proj", DENSE, WIDTH},
                 {"mlp.down_proj", WIDTH, DENSE}};
    made_file *f = calloc(1, sizeof *f);
    char name[200], *model = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t n = 0;
    if (!f) abort();
    random_state = 7;
    add(f, prefix, "model.embed_tokens.weight", VOCAB, WIDTH);
    for (int i = 0; i < LAYERS; i++)
        for (size_t k = 0; k < COUNT(parts); k++) {
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", i, parts[k].name);
            add(f, prefix, name, parts[k].rows, parts[k].columns);
        }
    add(f, prefix, "model.norm.weight", WIDTH, 0);
    add_merges(f, prefix);
    if (!words) return f;
    CHECK_OK(graft_file_read(WORDS, 1 << 20, &model, &n, &e), &e);
    add_bytes(f, prefix, GRAFT_T5_TOKENIZER, model, n);
    graft_free(model);
    return f;
}

/* Takes f. */
static graft_status try_load(made_file *f, const graft_task *task, graft_clip **out, graft_err *e)
{
    const char *path = temp_path("encoder.safetensors");
    write_file(f, path, NULL);
    *out = NULL;
    graft_status st = graft_clip_load(engine, &path, 1, "stable_diffusion", task, out, e);
    unlink(path);
    return st;
}

/* Of a file, which is used up. */
static graft_clip *clip_of(made_file *f)
{
    return clip_as(engine, f, "stable_diffusion");
}

/* ------------------------------------------------------------------ files */

static void is_found(void)
{
    graft_clip *c = clip_of(file_at("", true)), *d = clip_of(file_at(PLACE, true));
    const graft_qwen3_arch *a = &c->qwen3->arch;
    CHECK(c->kind == GRAFT_CLIP_ANIMA && !c->n_encoders && !c->t5 && c->width == WIDTH);
    CHECK(!a->biased && a->layers == LAYERS && a->width == WIDTH && a->heads == HEADS &&
          a->key_heads == KEY_HEADS);
    CHECK_STR(graft_clip_encoder_name(c, 0), "qwen3_06b");
    CHECK(!graft_clip_encoder_name(c, 1));
    CHECK(encode_alike(c, d, "the red apple"));
    graft_clip_release(c);
    graft_clip_release(d);
}

/* The published one, by its width of 1024, is Anima's whatever it is opened as; others are only
 * where they are opened as Stable Diffusion's, and larger ones not even then. */
static void as_other_types(void)
{
    static const char *const types[] = {"lumina2", "qwen_image", "flux2",
                                        "sd3",     "chroma",     "stable_diffusion"};
    for (size_t i = 0; i < COUNT(types); i++)
        for (int wide = 0; wide < 2; wide++) {
            graft_err e = GRAFT_ERR_INIT;
            graft_clip *c;
            made_file *f = file_at("", true);
            for (size_t k = 0; wide && k < f->n; k++) { /* told by the norm alone, then refused */
                if (strcmp(f->tensor[k].name, "model.norm.weight") != 0) continue;
                drop_tensor(f, "model.norm.weight");
                add(f, "", "model.norm.weight", 1024, 0);
                break;
            }
            graft_status st = try_clip(engine, f, types[i], &c, &e);
            if (wide) {
                CHECK_INT(st, GRAFT_E_FORMAT);
                CHECK(strstr(e.text, "model.norm.weight"));
            } else if (strcmp(types[i], "lumina2") == 0) {
                CHECK(st == GRAFT_OK && c && c->kind == GRAFT_CLIP_QWEN3);
            } else if (strcmp(types[i], "qwen_image") == 0) { /* Qwen-Image 2.1's have any width */
                CHECK(st == GRAFT_OK && c && c->kind == GRAFT_CLIP_QWEN_IMAGE21);
            } else {
                CHECK((st == GRAFT_OK) == (strcmp(types[i], "stable_diffusion") == 0));
            }
            graft_clip_release(c);
        }
    made_file *f = file_at("", true);
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c;
    drop_tensor(f, "model.norm.weight");
    add(f, "", "model.norm.weight", 2560, 0);
    CHECK_INT(try_clip(engine, f, "stable_diffusion", &c, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "a Qwen 3 text encoder") && !c);
}

/* Any of its tensors: all layers are read, and the norm behind them. */
static void lacks_a_tensor(void)
{
    made_file *all = file_at("", false);
    for (size_t i = 0; i < all->n; i++) {
        const char *name = all->tensor[i].name;
        graft_err e = GRAFT_ERR_INIT;
        graft_clip *c;
        if (strcmp(name, "merges_txt") == 0) continue;
        made_file *f = file_at("", true);
        drop_tensor(f, name);
        const graft_status st = try_clip(engine, f, "stable_diffusion", &c, &e);
        const bool tells =
            strcmp(name, GRAFT_QWEN3_TENSOR) == 0 || strcmp(name, "model.norm.weight") == 0;
        CHECK_INT(st, tells ? GRAFT_E_UNSUPPORTED : GRAFT_E_FORMAT);
        CHECK(tells || strstr(e.text, name));
        CHECK(!c);
    }
    finish_file(all);
}

/* Who knows where T5's tokenizer is, as the folder of text encoders. */
static graft_status known_words(void *ctx, const char *name, char **path, graft_err *e)
{
    CHECK_STR(name, "spiece.model");
    *path = graft_strdup(ctx);
    return *path ? GRAFT_OK : graft_fail_nomem(e, "a path");
}

static void without_words(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_task task = {.ctx = (void *)(uintptr_t)WORDS, .text_file = known_words};
    graft_clip *c, *own = clip_of(file_at("", true));
    CHECK_INT(try_load(file_at("", false), NULL, &c, &e), GRAFT_E_NOTFOUND);
    CHECK(strstr(e.text, "Anima's text encoder without T5's tokenizer: put spiece.model"));
    CHECK(!c);
    CHECK_OK(try_load(file_at("", false), &task, &c, &e), &e);
    CHECK(encode_alike(own, c, "the red apple"));
    graft_clip_release(c);
    graft_clip_release(own);
}

/* Saved alone and in a checkpoint it is found again, with T5's tokenizer, wherever that was. */
static void saved(void)
{
    graft_task task = {.ctx = (void *)(uintptr_t)WORDS, .text_file = known_words};
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 4; i++) {
        const char *to = temp_path("saved.safetensors");
        graft_clip *c, *again = NULL;
        CHECK_OK(try_load(file_at("", i & 1), &task, &c, &e), &e);
        const graft_checkpoint what = {.clip = c, .encoder = i / 2};
        CHECK_OK(graft_checkpoint_save(&what, to, NULL, NULL, &e), &e);
        graft_safetensors *f = open_file(to);
        CHECK(graft_safetensors_find(f,
                                     what.encoder ? GRAFT_QWEN3_TENSOR : PLACE GRAFT_QWEN3_TENSOR));
        graft_safetensors_close(f);
        CHECK_OK(graft_clip_load(engine, &to, 1, "stable_diffusion", NULL, &again, &e), &e);
        CHECK(again && encode_alike(c, again, "the red apple"));
        graft_clip_release(again);
        graft_clip_release(c);
        unlink(to);
    }
}

/* A checkpoint of all is one of Anima's; without T5's tokenizer its network is there, and the text
 * encoder says why it is not. */
static void in_a_checkpoint(void)
{
    for (int words = 0; words < 2; words++) {
        const char *path = temp_path("checkpoint.safetensors");
        graft_safetensors *net = open_file(GRAFT_SOURCE_DIR "/golden/small/anima_two.safetensors");
        made_file *all = copy_file(net, UNET), *text = file_at(PLACE, words);
        graft_err e = GRAFT_ERR_INIT;
        graft_model *m = NULL;
        graft_clip *c = NULL;
        graft_weights *file = NULL;
        graft_cond *k = NULL;
        for (size_t i = 0; i < text->n; i++) {
            const graft_st_tensor *t = &text->tensor[i];
            if (t->dtype == GRAFT_U8)
                add_bytes(all, "", t->name, t->data, (size_t)t->bytes);
            else
                add_tensor(all, t->name, t->rank, t->shape, t->data, 0);
        }
        finish_file(text);
        graft_safetensors_close(net);
        write_file(all, path, NULL);
        CHECK_OK(graft_weights_create(open_file(path), &file, &e), &e);
        CHECK_OK(graft_load_model_part(engine, file, NULL, &m, &e), &e);
        CHECK_OK(graft_load_clip_part(engine, file, NULL, &c, &e), &e);
        CHECK(m && m->arch.kind == GRAFT_NET_ANIMA && c && c->kind == GRAFT_CLIP_ANIMA);
        graft_status st = graft_clip_encode(c, "the", NULL, &k, &e);
        CHECK_INT(st, words ? GRAFT_OK : GRAFT_E_NOTFOUND);
        CHECK(words || strstr(e.text, "put spiece.model"));
        if (k) graft_cond_release(k);
        graft_clip_release(c);
        graft_model_release(m);
        graft_weights_release(file);
        unlink(path);
    }
}

/* ------------------------------------------------------------------ prompts */

/* A prompt as it is written, the pieces of it that stand apart, and what these weigh. */
typedef struct prompt {
    const char *text, *piece[4];
    float weight[4];
} prompt;
static const prompt prompts[] = {
    {"the red apple", {"the red apple"}, {1}},
    {"the red (apple:1.3), \\(the\\)", {"the red ", "apple", ", (the)"}, {1, 1.3f, 1}},
    {"((the)) the", {"the", " the"}, {1.21f, 1}},
    {"(the:0)", {"the"}, {0}},
    {"the\n\n the", {"the\n\n the"}, {1}},
};

static void check_tokens(const graft_clip *c, const prompt *p, const graft_cond_entry *k)
{
    const graft_qwen3 *q = c->qwen3;
    const graft_build_options o = {.no_disk = true};
    graft_err e = GRAFT_ERR_INIT;
    int32_t all[64];
    size_t n = 0;
    for (size_t i = 0; i < 4 && p->piece[i]; i++) {
        int32_t *id = NULL;
        size_t more = 0;
        CHECK_OK(graft_qwen_encode(q->tokenizer, p->piece[i], strlen(p->piece[i]), &id, &more, &e),
                 &e);
        memcpy(all + n, id, more * sizeof *id);
        n += more;
        graft_free(id);
    }
    float *want = calloc(n * WIDTH, sizeof *want);
    CHECK_OK(graft_qwen3_run(engine, &o, &q->arch, q->weights, GRAFT_QWEN3_TAKE_NORMED, all,
                             (int64_t)n, NULL, want, &e),
             &e);
    CHECK(k->tokens == (int64_t)n && memcmp(k->data, want, n * WIDTH * sizeof *want) == 0);
    free(want);
}

static void check_words(const graft_clip *c, const prompt *p, const graft_cond_entry *k)
{
    const float *ids = k->pooled, *weights = ids + GRAFT_ANIMA_WORDS;
    graft_err e = GRAFT_ERR_INIT;
    size_t n = 0;
    CHECK(k->worded && k->pooled_width == GRAFT_ANIMA_TOLD);
    for (size_t i = 0; i < 4 && p->piece[i]; i++) {
        int32_t *id = NULL;
        size_t more = 0;
        CHECK_OK(
            graft_unigram_encode(c->qwen3->words, p->piece[i], strlen(p->piece[i]), &id, &more, &e),
            &e);
        for (size_t w = 0; w < more; w++, n++) {
            CHECK(ids[n] == (float)id[w]);
            CHECK_NEAR(weights[n], p->weight[i], 1e-6);
        }
        graft_free(id);
    }
    const int32_t end = graft_unigram_tokens_of(c->qwen3->words).end;
    CHECK(ids[n] == (float)end && weights[n] == 1);
    CHECK(ids[2 * GRAFT_ANIMA_WORDS] == (float)(n + 1));
    for (n++; n < GRAFT_ANIMA_WORDS; n++) CHECK(weights[n] == 0);
}

static void what_is_read(void)
{
    graft_clip *c = clip_of(file_at("", true));
    for (size_t i = 0; i < COUNT(prompts); i++) {
        graft_cond *k = encoded(c, prompts[i].text);
        CHECK_INT(k->n, 1);
        check_tokens(c, &prompts[i], k->entry[0]);
        check_words(c, &prompts[i], k->entry[0]);
        graft_cond_release(k);
    }
    graft_clip_release(c);
}

/* No text at all is the token that ends texts to Qwen, and to T5 its end. */
static void nothing(void)
{
    graft_clip *c = clip_of(file_at("", true));
    const prompt none = {"", {"<|endoftext|>"}, {1}}, no_words = {"", {NULL}, {0}};
    graft_cond *k = encoded(c, "");
    CHECK_INT(k->entry[0]->tokens, 1);
    check_tokens(c, &none, k->entry[0]);
    check_words(c, &no_words, k->entry[0]);
    graft_cond_release(k);
    graft_clip_release(c);
}

/* Of more words than Anima takes the first count, and the end; somebody is told. */
static void too_long(void)
{
    enum { REPEATED = 600 };
    char text[REPEATED * 4 + 1] = "";
    graft_clip *c = clip_of(file_at("", true));
    graft_err e = GRAFT_ERR_INIT;
    int32_t *id = NULL;
    size_t n = 0;
    for (int i = 0; i < REPEATED; i++) memcpy(text + 4 * i, "the ", 5);
    CHECK_OK(graft_unigram_encode(c->qwen3->words, text, strlen(text), &id, &n, &e), &e);
    CHECK(n > GRAFT_ANIMA_WORDS);
    last_log[0] = 0;
    graft_cond *k = encoded(c, text);
    const float *ids = k->entry[0]->pooled, *weights = ids + GRAFT_ANIMA_WORDS;
    CHECK(strstr(last_log, "Anima is told of the first 512"));
    CHECK(ids[2 * GRAFT_ANIMA_WORDS] == GRAFT_ANIMA_WORDS);
    bool same = true;
    for (int i = 0; i < GRAFT_ANIMA_WORDS - 1; i++)
        same = same && ids[i] == (float)id[i] && weights[i] == 1;
    CHECK(same);
    CHECK(ids[GRAFT_ANIMA_WORDS - 1] == (float)graft_unigram_tokens_of(c->qwen3->words).end);
    graft_free(id);
    graft_cond_release(k);
    graft_clip_release(c);
}

static void no_memory(void)
{
    graft_clip *c = clip_of(file_at("", true));
    encodes_short_of_memory(c, 8);
    graft_clip_release(c);
}

int main(void)
{
    engine = make_engine("ref");
    if (!engine) return 1;
    RUN(is_found);
    RUN(as_other_types);
    RUN(lacks_a_tensor);
    RUN(without_words);
    RUN(saved);
    RUN(in_a_checkpoint);
    RUN(what_is_read);
    RUN(nothing);
    RUN(too_long);
    RUN(no_memory);
    graft_engine_destroy(engine);
    return test_end();
}
