/* Mistral in GGUF files: llama.cpp's names, its order of the rows of queries and keys, and its
 * vocabulary in metadata. Such a file gives the bits of one in transformers' names with the same
 * values, and what is made of it is as if it were of the latter. */
#include <sys/stat.h>

#include "base/file.h"
#include "engine/files/llama_rows.h"
#include "engine/prompts/mistral.h"
#include "tests/engine/llama_files.h"
#include "tests/engine/texts_packed.h"
#include "tests/tekken_gguf.h"

#define VOCABULARY GRAFT_SOURCE_DIR "/golden/small/tekken/tekken.json"
#define DEMO       GRAFT_SOURCE_DIR "/models/checkpoints/emoji-64.safetensors"
#define CONFIG     "{\"head_dim\": 8}"
#define PROMPT     "the red apple, 3d [IMG]"

enum { LAYERS = 31, WIDTH = 32, HEADS = 4, SHARED = 2, HEAD = 8, DENSE = 64, VOCAB = 300 };
enum { Q8_0 = 8, PARTS = 3 };

static graft_engine *engine;
static char folder[400], file[500], beside[500];
static char *json;

/* ------------------------------------------------------------------ files */

static made_file *make_file(void)
{
    static const struct {
        const char *name;
        int64_t rows, columns;
    } parts[] = {{"self_attn.q_proj", HEADS * HEAD, WIDTH},
                 {"self_attn.k_proj", SHARED * HEAD, WIDTH},
                 {"self_attn.v_proj", SHARED * HEAD, WIDTH},
                 {"self_attn.o_proj", WIDTH, HEADS * HEAD},
                 {"mlp.gate_proj", DENSE, WIDTH},
                 {"mlp.up_proj", DENSE, WIDTH},
                 {"mlp.down_proj", WIDTH, DENSE},
                 {"input_layernorm", WIDTH, 0},
                 {"post_attention_layernorm", WIDTH, 0}};
    made_file *f = calloc(1, sizeof *f);
    char name[100];
    if (!f) abort();
    random_state = 7;
    add_tensor(f, "model.embed_tokens.weight", 2, (int64_t[]){VOCAB, WIDTH}, NULL, 1.0f);
    for (int i = 0; i < LAYERS; i++)
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", i, parts[k].name);
            const int rank = parts[k].columns ? 2 : 1;
            add_tensor(f, name, rank, (int64_t[]){parts[k].rows, parts[k].columns}, NULL, 0.4f);
        }
    add_tensor(f, "model.norm.weight", 1, (int64_t[]){WIDTH}, NULL, 0.2f);
    add_tensor(f, "lm_head.weight", 2, (int64_t[]){VOCAB, WIDTH}, NULL, 1.0f);
    return f;
}

/* Two of the same values: matrices in blocks, and in float32. */
static void make_files(made_file **packed, made_file **plain)
{
    *packed = make_file();
    *plain = make_file();
    for (size_t i = 0; i < (*packed)->n; i++)
        if ((*packed)->tensor[i].rank == 2)
            gguf_pack_tensor(&(*packed)->tensor[i], &(*plain)->tensor[i]);
}

/* How a file differs from llama.cpp's. */
typedef struct unlike {
    bool nameless, rowless; /* transformers' names, and with them its order; its order alone */
    bool unnumbered;        /* nothing about heads */
    uint32_t head;          /* of so many numbers; 0: HEAD */
    const char *cut;        /* how texts are cut up, if not as Tekken does */
    const char *kind;       /* if not "llama" */
    const char *config;
} unlike;

/* At `file`, or in parts. */
static void write_mistral(const unlike *u, bool in_parts)
{
    made_file *packed, *plain;
    gguf_pairs pairs = {0};
    char key[100];
    const char *kind = u->nameless ? "test" : u->kind ? u->kind : "llama";
    make_files(&packed, &plain);
    if (!u->nameless && !u->rowless) turn_as_llama(packed, HEAD);
    if (!u->nameless) call_as_llama(packed);
    for (size_t i = 0; i < packed->n && !u->nameless; i++)
        if (strcmp(packed->tensor[i].name, "lm_head.weight") == 0)
            call_tensor(&packed->tensor[i], "output.weight");
    snprintf(key, sizeof key, "%s.rope.dimension_count", kind);
    if (!u->unnumbered) gguf_add_u32(&pairs, key, u->head ? u->head : HEAD);
    add_tekken(&pairs, json, u->cut ? u->cut : "tekken", VOCAB, NULL, 0);
    gguf_file bytes = gguf_with(kind, u->config, packed->tensor, packed->n, NULL, &pairs);
    unlink(file); /* somebody may have it open */
    gguf_write(&bytes, file);
    if (in_parts) {
        char stem[500];
        snprintf(stem, sizeof stem, "%s/parts", folder);
        gguf_write_parts(stem, PARTS, kind, u->config, packed->tensor, packed->n, &pairs);
    }
    free(bytes.data);
    free(pairs.bytes.data);
    finish_file(packed);
    finish_file(plain);
}

/* In transformers' names and float32, with the vocabulary beside it. */
static void write_plain(const char *path)
{
    made_file *packed, *plain;
    make_files(&packed, &plain);
    add_bytes(plain, "", GRAFT_MISTRAL_TOKENIZER, json, strlen(json));
    write_file(plain, path, CONFIG);
    finish_file(packed);
}

static graft_status try_load(graft_engine *g, const char *path, graft_clip **out, graft_err *e)
{
    *out = NULL;
    return graft_clip_load(g, &path, 1, "flux2", NULL, out, e);
}

static graft_clip *load(graft_engine *g, const char *path)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c;
    CHECK_OK(try_load(g, path, &c, &e), &e);
    if (!c) abort();
    return c;
}

/* ------------------------------------------------------------------ what it gives */

static void same_as_transformers(void)
{
    static const unlike files[] = {
        {0}, {.kind = "mistral3"}, {.unnumbered = true, .config = CONFIG}};
    const char *path = temp_path("plain.safetensors");
    write_plain(path);
    graft_clip *a = load(engine, path);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_mistral(&files[i], false);
        graft_clip *b = load(engine, file);
        CHECK(memcmp(&a->qwen3->arch, &b->qwen3->arch, sizeof a->qwen3->arch) == 0);
        CHECK_INT(b->qwen3->arch.head_dim, HEAD);
        CHECK_INT(graft_tekken_tokens(b->qwen3->tekken), VOCAB);
        CHECK(encode_alike(a, b, PROMPT));
        graft_clip_release(b);
    }
    write_mistral(&(unlike){.rowless = true}, false); /* which is no such file */
    graft_clip *b = load(engine, file);
    CHECK(!encode_alike(a, b, PROMPT));
    graft_clip_release(a);
    graft_clip_release(b);
    unlink(path);
    unlink(file);
}

/* In blocks, whichever part of several they are in: rows were moved as they are packed. */
static void stays_packed(void)
{
    char first[500];
    graft_engine *keeps = packing_engine(true), *other = packing_engine(true);
    snprintf(first, sizeof first, "%s/parts-00001-of-00003.gguf", folder);
    write_mistral(&(unlike){0}, true);
    graft_clip *a = load(keeps, file), *b = load(keeps, first);
    CHECK(encode_alike(a, b, PROMPT));
    CHECK_INT(packed_in(keeps, Q8_0), 7 * (LAYERS - 1));
    write_mistral(&(unlike){.nameless = true, .config = CONFIG}, false);
    graft_clip *c = load(other, file);
    CHECK(encode_alike(a, c, PROMPT));
    CHECK_INT(packed_in(other, Q8_0), 7 * (LAYERS - 1));
    graft_clip_release(a);
    graft_clip_release(b);
    graft_clip_release(c);
    graft_engine_destroy(keeps);
    graft_engine_destroy(other);
    snprintf(first, sizeof first, "%s/parts", folder);
    gguf_remove_parts(first, PARTS);
    unlink(file);
}

/* ------------------------------------------------------------------ what is made of it */

static void same_file(const char *one, const char *two)
{
    graft_safetensors *a = open_file(one), *b = open_file(two);
    if (!a || !b) abort();
    CHECK_INT(graft_safetensors_count(a), graft_safetensors_count(b));
    for (size_t i = 0; i < graft_safetensors_count(b); i++)
        check_tensor(a, graft_safetensors_at(b, i)->name, graft_safetensors_at(b, i));
    graft_safetensors_close(a);
    graft_safetensors_close(b);
}

/* What is known of a model by its file's config is as it was. */
static void same_model(const char *one, const char *two)
{
    graft_model *a = load_model(engine, one), *b = load_model(engine, two);
    CHECK(memcmp(&a->arch, &b->arch, sizeof a->arch) == 0);
    CHECK(a->scale_factor == b->scale_factor && a->prediction == b->prediction);
    graft_model_release(a);
    graft_model_release(b);
}

/* A converted file has rows in transformers' order, and says of how many numbers heads are. */
static void converted(void)
{
    const char *to[2] = {temp_path("one.safetensors"), temp_path("two.safetensors")};
    graft_convert_info info;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 2; i++) {
        write_mistral(&(unlike){.nameless = i, .config = i ? CONFIG : NULL}, false);
        CHECK_OK(graft_checkpoint_convert(file, to[i], &info, &e), &e);
        CHECK_INT(info.tensors, LAYERS * 9 + 4);
    }
    same_file(to[0], to[1]);
    graft_clip *a = load(engine, to[0]), *b = load(engine, to[1]);
    CHECK(encode_alike(a, b, PROMPT));
    graft_clip_release(a);
    graft_clip_release(b);
    unlink(to[0]);
    unlink(to[1]);
    unlink(file);
}

/* So has what nodes save, alone or behind a model, whose config the file gets: with it, and with
 * that of the text encoder, and with no config at all. */
static void saved_beside(const graft_model *m)
{
    const char *to[3] = {temp_path("one.safetensors"), temp_path("two.safetensors"),
                         temp_path("three.safetensors")};
    const unlike from[3] = {{0}, {.config = CONFIG}, {.nameless = true, .config = CONFIG}};
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 3; i++) {
        write_mistral(&from[i], false);
        graft_clip *c = load(engine, file);
        const graft_checkpoint what = {.model = m, .clip = c};
        CHECK_OK(graft_checkpoint_save(&what, to[i], NULL, NULL, &e), &e);
        graft_clip *again = load(engine, to[i]);
        CHECK_INT(again->qwen3->arch.head_dim, HEAD);
        CHECK_INT(graft_tekken_tokens(again->qwen3->tekken), VOCAB);
        CHECK(memcmp(&again->qwen3->arch, &c->qwen3->arch, sizeof c->qwen3->arch) == 0);
        graft_clip_release(again);
        graft_clip_release(c);
    }
    same_file(to[0], to[2]);
    same_file(to[1], to[2]);
    if (m) same_model(to[0], DEMO);
    for (int i = 0; i < 3; i++) unlink(to[i]);
    unlink(file);
}

static void saved(void)
{
    graft_model *m = load_model(engine, DEMO);
    saved_beside(NULL);
    saved_beside(m);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ what is refused */

static void refused(const unlike *u, graft_status status, const char *words)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c;
    write_mistral(u, false);
    CHECK_INT(try_load(engine, file, &c, &e), status);
    CHECK(!c && strstr(e.text, words));
    if (!strstr(e.text, words)) fprintf(stderr, "  no \"%s\" in: %s\n", words, e.text);
    graft_clip_release(c);
    unlink(file);
}

static void tokenizers(void)
{
    const unlike other = {.cut = "gpt-2"};
    graft_err e = GRAFT_ERR_INIT;
    refused(&other, GRAFT_E_NOTFOUND,
            "Mistral without its tokenizer: there is no metadata of Tekken");
    refused(&other, GRAFT_E_NOTFOUND, "put tekken.json of Mistral Small beside it");
    CHECK_OK(graft_file_write(beside, json, strlen(json), &e), &e);
    write_mistral(&other, false);
    graft_clip *a = load(engine, file);
    write_mistral(&(unlike){0}, false);
    graft_clip *b = load(engine, file);
    CHECK(encode_alike(a, b, PROMPT));
    graft_clip_release(a);
    graft_clip_release(b);
    unlink(beside);
    unlink(file);
}

static void heads(void)
{
    refused(&(unlike){.head = 12}, GRAFT_E_FORMAT, "tensor blk.0.attn_");
    refused(&(unlike){.head = 12}, GRAFT_E_FORMAT, "are not heads of 12");
    refused(&(unlike){.head = 1}, GRAFT_E_FORMAT, "are not heads of 1");
    refused(&(unlike){.unnumbered = true}, GRAFT_E_FORMAT, "are not heads of 128");
    refused(&(unlike){.head = UINT32_MAX}, GRAFT_E_FORMAT, "are not heads of 128");
}

/* Opening it, and moving rows, may run out of memory anywhere. */
static void no_memory(void)
{
    const int64_t live = live_blocks();
    graft_status st = GRAFT_E_NOMEM;
    int n;
    write_mistral(&(unlike){0}, false);
    for (n = 1; n < 2999 && st; n++) {
        graft_safetensors *f = NULL;
        graft_err e = GRAFT_ERR_INIT;
        graft_alloc_fail_at(n);
        st = graft_safetensors_open(file, &f, &e);
        if (!st) st = graft_llama_rows_adopt(f, &e);
        graft_alloc_fail_at(0);
        if (st) CHECK(st == GRAFT_E_NOMEM && e.text[0]);
        graft_safetensors_close(f);
        CHECK_INT(live_blocks(), live);
    }
    CHECK(n > 20 && n < 2999);
    unlink(file);
}

int main(void)
{
    size_t n;
    graft_err e = GRAFT_ERR_INIT;
    engine = make_engine("cpu");
    snprintf(folder, sizeof folder, "%s", temp_path("mistral-gguf"));
    snprintf(file, sizeof file, "%s/mistral-Q8_0.gguf", folder);
    snprintf(beside, sizeof beside, "%s/tekken.json", folder);
    CHECK_OK(graft_file_read(VOCABULARY, 1 << 20, &json, &n, &e), &e);
    char *many = json ? strstr(json, "\"default_vocab_size\":803") : NULL;
    if (!engine || !many || mkdir(folder, 0700)) return 1;
    memcpy(strchr(many, ':') + 1, "300", 3); /* no more than the table has */
    RUN(same_as_transformers);
    RUN(stays_packed);
    RUN(converted);
    RUN(saved);
    RUN(tokenizers);
    RUN(heads);
    RUN(no_memory);
    graft_free(json);
    graft_engine_destroy(engine);
    rmdir(folder);
    return test_end();
}
