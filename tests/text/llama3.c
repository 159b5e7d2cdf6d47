/* Llama 3's tokenizer: texts against the tokens in golden/small/llama3, the same vocabulary in a
 * GGUF file's metadata, what is no such vocabulary, and memory that runs out. */
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/text/llama3.h"
#include "engine/text/tokenizer.h"
#include "tests/gguf_file.h"
#include "tests/test.h"
#include "tests/text/golden_tokens.h"

#define FOLDER GRAFT_SOURCE_DIR "/golden/small/llama3/"
enum { BYTES = 256, TOKENS = BYTES + 121, MARKS = 11 };

static graft_llama3 *made(void)
{
    size_t n;
    graft_llama3 *t = NULL;
    graft_err e = GRAFT_ERR_INIT;
    char *text = text_of(FOLDER "llama_tokenizer.json", &n);
    CHECK_OK(graft_llama3_create_json(text, n, "llama_tokenizer.json", &t, &e), &e);
    if (!t) abort();
    graft_free(text);
    return t;
}

/* ------------------------------------------------------------------ texts */

static graft_status encode(const void *t, const char *text, size_t n, int32_t **ids, size_t *count,
                           graft_err *e)
{
    return graft_llama3_encode(t, text, n, ids, count, e);
}

static void golden_texts(const graft_llama3 *t)
{
    golden_tokens(FOLDER "tokens.json", 190, encode, t);
}

static void texts(void)
{
    graft_llama3 *t = made();
    golden_texts(t);
    CHECK_INT(graft_llama3_tokens(t), TOKENS + MARKS);
    CHECK_INT(graft_llama3_token(t, GRAFT_LLAMA3_BEGIN), TOKENS);
    CHECK_INT(graft_llama3_token(t, GRAFT_LLAMA3_TURN), TOKENS + 9);
    graft_llama3_destroy(t);
}

/* No text takes time that grows with the square of its length. */
static void long_texts(void)
{
    static const char *const units[] = {"a", " ", "the ", "\n", "1", "<|", "\xcc\x81", "<|eot_id"};
    graft_llama3 *t = made();
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        graft_str s = GRAFT_STR_INIT;
        graft_err e = GRAFT_ERR_INIT;
        int32_t *ids = NULL;
        size_t n = 0;
        while (s.len < 1 << 18) graft_str_puts(&s, units[i]);
        CHECK_OK(graft_llama3_encode(t, s.data, s.len, &ids, &n, &e), &e);
        CHECK(n > 0);
        graft_free(ids);
        CHECK_INT(graft_llama3_encode(t, s.data, GRAFT_TEXT_MAX_BYTES + 1, &ids, &n, &e),
                  GRAFT_E_LIMIT);
        CHECK(!ids && !n);
        graft_str_finish(&s);
    }
    graft_llama3_destroy(t);
}

/* ------------------------------------------------------------------ files */

/* As llama.cpp has it: the tokens, then those of the marks, by their kinds. */
static void add_list(gguf_pairs *p, const cJSON *vocab, const char *cut, uint32_t tokens)
{
    const char *name[TOKENS] = {NULL};
    const cJSON *item;
    cJSON_ArrayForEach(item, vocab) name[item->valueint] = item->string;
    gguf_add_text(p, "tokenizer.ggml.model", "gpt2");
    gguf_add_text(p, "tokenizer.ggml.pre", cut);
    gguf_add_list(p, "tokenizer.ggml.tokens", 8, tokens + MARKS);
    for (uint32_t i = 0; i < tokens; i++) gguf_put_text(&p->bytes, name[i]);
    for (uint32_t i = 0; i < MARKS; i++) gguf_put_text(&p->bytes, "<|mark|>");
    gguf_add_list(p, "tokenizer.ggml.token_type", 5, tokens + MARKS);
    for (uint32_t i = 0; i < tokens + MARKS; i++) gguf_put_number(&p->bytes, i < tokens ? 1 : 3, 4);
}

static void in_gguf(void)
{
    static const struct {
        const char *cut;
        uint32_t tokens;
        bool there;
    } cases[] = {{"llama-bpe", TOKENS, true},
                 {"llama-bpe", BYTES, true},
                 {"llama-bpe", BYTES - 1, false},
                 {"gpt-2", TOKENS, false}};
    size_t n;
    char *json = text_of(FOLDER "llama_tokenizer.json", &n);
    cJSON *root = cJSON_Parse(json);
    const cJSON *vocab = cJSON_GetObjectItem(cJSON_GetObjectItem(root, "model"), "vocab");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graft_safetensors *f = NULL;
        graft_err e = GRAFT_ERR_INIT;
        gguf_pairs pairs = {0};
        graft_llama3 *own = NULL;
        add_list(&pairs, vocab, cases[i].cut, cases[i].tokens);
        gguf_file bytes = gguf_with("llama", NULL, NULL, 0, NULL, &pairs);
        CHECK_OK(graft_safetensors_open_memory(bytes.data, bytes.n, "a", &f, &e), &e);
        const graft_st_tensor *t = f ? graft_safetensors_find(f, "llama_tokens") : NULL;
        CHECK(!t == !cases[i].there);
        if (t) CHECK_OK(graft_llama3_create(t->data, (size_t)t->bytes, &own, &e), &e);
        if (own) CHECK_INT(graft_llama3_tokens(own), cases[i].tokens + MARKS);
        if (own && i == 0) golden_texts(own);
        graft_llama3_destroy(own);
        graft_safetensors_close(f);
        free(bytes.data);
        free(pairs.bytes.data);
    }
    cJSON_Delete(root);
    graft_free(json);
}

/* The file with `from` in it, the first time, replaced by `to`. */
static char *vocabulary_with(const char *from, const char *to)
{
    size_t n;
    graft_str out = GRAFT_STR_INIT;
    char *text = text_of(FOLDER "llama_tokenizer.json", &n);
    const char *at = from ? strstr(text, from) : NULL;
    if (from && !at) abort();
    graft_str_append(&out, text, at ? (size_t)(at - text) : n);
    if (at) graft_str_printf(&out, "%s%s", to, at + strlen(from));
    graft_free(text);
    text = graft_str_take(&out);
    if (!text) abort();
    return text;
}

static void damaged_files(void)
{
    static const struct {
        const char *from, *to;
        graft_status want;
        const char *word;
    } cases[] = {{"{1,3}", "", GRAFT_E_UNSUPPORTED, "no tokenizer of Llama 3"},
                 {"\"BPE\"", "\"Unigram\"", GRAFT_E_UNSUPPORTED, "no tokenizer of Llama 3"},
                 {"\"pre_tokenizer\"", "\"other\"", GRAFT_E_UNSUPPORTED, "no tokenizer of Llama 3"},
                 {"\"vocab\"", "\"other\"", GRAFT_E_FORMAT, "no vocabulary"},
                 {"\"!\": 0", "\"!\": 1", GRAFT_E_FORMAT, "not numbered from 0 on"},
                 {"\"!\": 0", "\"!\": -1", GRAFT_E_FORMAT, "not numbered from 0 on"},
                 {"\"!\": 0", "\"!\": 400", GRAFT_E_FORMAT, "not numbered from 0 on"},
                 {"\"!\": 0", "\"!\": 0.5", GRAFT_E_FORMAT, "not numbered from 0 on"},
                 {"\"!\": 0", "\"!!\": 0", GRAFT_E_FORMAT, "token 0 is not its byte"},
                 {"\"4444\"", "\"\"", GRAFT_E_FORMAT, "token 376 is not in the alphabet"},
                 {"\"4444\"", "\"4 4\"", GRAFT_E_FORMAT, "token 376 is not in the alphabet"},
                 {"\"content\": \"<|eot_id|>\"", "\"content\": \"<|eom_id|>\"", GRAFT_E_UNSUPPORTED,
                  "<|eom_id|> is token 386, not 385"},
                 {"\"content\": \"<|reserved_special_token_0|>\"",
                  "\"content\": \"<|reserved_special_token_1|>\"", GRAFT_OK, ""},
                 {"\"content\": \"<|eot_id|>\"", "\"content\": \"<|else|>\"", GRAFT_OK, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_llama3 *t = (graft_llama3 *)&e;
        char *text = vocabulary_with(cases[i].from, cases[i].to);
        CHECK_INT(graft_llama3_create_json(text, strlen(text), "a.json", &t, &e), cases[i].want);
        CHECK((t != NULL) == (cases[i].want == GRAFT_OK));
        CHECK(strstr(e.text, cases[i].word) && (t || strstr(e.text, "a.json")));
        if (!strstr(e.text, cases[i].word)) fprintf(stderr, "    %zu: %s\n", i, e.text);
        graft_llama3_destroy(t);
        graft_free(text);
    }
}

static void damaged_lists(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_llama3 *t = NULL;
    CHECK_INT(graft_llama3_create("", 0, &t, &e), GRAFT_E_FORMAT);
    CHECK_INT(graft_llama3_create("a\nb\n", 4, &t, &e), GRAFT_E_FORMAT);
    CHECK(!t && strstr(e.text, "a list of 2 tokens"));
}

/* ------------------------------------------------------------------ memory */

static graft_status everything(const char *json, graft_err *e)
{
    graft_llama3 *t = NULL;
    int32_t *ids = NULL;
    size_t n;
    static const char text[] = "the <|eot_id|>caf\xc3\xa9 1234\n\n";
    graft_status st = graft_llama3_create_json(json, strlen(json), "a.json", &t, e);
    if (!st) st = graft_llama3_encode(t, text, strlen(text), &ids, &n, e);
    graft_free(ids);
    graft_llama3_destroy(t);
    return st;
}

static void memory_runs_out(void)
{
    graft_alloc_stats before, after;
    graft_err e = GRAFT_ERR_INIT;
    char *json = vocabulary_with(NULL, NULL);
    cJSON_Hooks hooks = {graft_malloc, graft_free};
    cJSON_InitHooks(&hooks);
    graft_status st = GRAFT_E_NOMEM;
    graft_alloc_stats_get(&before);
    int64_t at = 0;
    while (st == GRAFT_E_NOMEM) {
        graft_alloc_fail_at(++at);
        st = everything(json, &e);
        graft_alloc_fail_at(0);
    }
    CHECK_OK(st, &e);
    CHECK(at > 500);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
    cJSON_InitHooks(NULL);
    graft_free(json);
}

int main(void)
{
    RUN(texts);
    RUN(long_texts);
    RUN(in_gguf);
    RUN(damaged_files);
    RUN(damaged_lists);
    RUN(memory_runs_out);
    return test_end();
}
