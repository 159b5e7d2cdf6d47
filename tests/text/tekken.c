/* Mistral's tokenizer: texts against the tokens in golden/small/tekken, what is no such vocabulary,
 * and memory that runs out. */
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/text/tekken.h"
#include "engine/text/tokenizer.h"
#include "tests/tekken_gguf.h"
#include "tests/test.h"
#include "tests/text/golden_tokens.h"

#define FOLDER GRAFT_SOURCE_DIR "/golden/small/tekken/"
enum { BYTES = 256, SPECIAL = 24 };

static graft_tekken *made(void)
{
    size_t n;
    graft_tekken *t = NULL;
    graft_err e = GRAFT_ERR_INIT;
    char *text = text_of(FOLDER "tekken.json", &n);
    CHECK_OK(graft_tekken_create_json(text, n, "tekken.json", &t, &e), &e);
    if (!t) abort();
    graft_free(text);
    return t;
}

/* ------------------------------------------------------------------ texts */

static graft_status encode(const void *t, const char *text, size_t n, int32_t **ids, size_t *count,
                           graft_err *e)
{
    return graft_tekken_encode(t, text, n, ids, count, e);
}

static void golden_texts(const graft_tekken *t)
{
    golden_tokens(FOLDER "tokens.json", 200, encode, t);
}

static void texts(void)
{
    graft_tekken *t = made();
    golden_texts(t);
    graft_tekken_destroy(t);
}

/* As llama.cpp has it in a GGUF file's metadata it is the same vocabulary. */
static void in_gguf(void)
{
    static const int32_t late[] = {3, 3, 3, 3, 1, 3}, none[] = {1};
    enum { TOKENS = BYTES + 523 + SPECIAL };
    const struct {
        const char *cut;
        uint32_t tokens;
        const int32_t *kind;
        uint32_t n_kinds;
        bool there;
    } cases[] = {{"tekken", TOKENS, NULL, 0, true},
                 {"tekken", BYTES + SPECIAL, NULL, 0, true},
                 {"tekken", BYTES + SPECIAL - 1, NULL, 0, false},
                 {"llama-bpe", TOKENS, NULL, 0, false},
                 {"tekken", TOKENS, late, 6, false},
                 {"tekken", TOKENS, none, 1, false}};
    size_t n;
    char *json = text_of(FOLDER "tekken.json", &n);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graft_safetensors *f = NULL;
        graft_err e = GRAFT_ERR_INIT;
        gguf_pairs pairs = {0};
        add_tekken(&pairs, json, cases[i].cut, cases[i].tokens, cases[i].kind, cases[i].n_kinds);
        gguf_file bytes = gguf_with("llama", NULL, NULL, 0, NULL, &pairs);
        CHECK_OK(graft_safetensors_open_memory(bytes.data, bytes.n, "a", &f, &e), &e);
        const graft_st_tensor *t = f ? graft_safetensors_find(f, "tekken_model") : NULL;
        graft_tekken *own = NULL;
        CHECK(!t == !cases[i].there);
        if (t) CHECK_OK(graft_tekken_create_json(t->data, (size_t)t->bytes, "a", &own, &e), &e);
        if (own) CHECK_INT(graft_tekken_tokens(own), cases[i].tokens);
        if (own && i == 0) golden_texts(own);
        graft_tekken_destroy(own);
        graft_safetensors_close(f);
        free(bytes.data);
        free(pairs.bytes.data);
    }
    graft_free(json);
}

/* A token that has a character which stands for no byte: there is no vocabulary. */
static void no_alphabet(void)
{
    static const char letter[] = "\1\0\0\0\0\0\0\0A";
    size_t n;
    char *json = text_of(FOLDER "tekken.json", &n);
    for (int i = 0; i < 2; i++) {
        graft_safetensors *f = NULL;
        graft_err e = GRAFT_ERR_INIT;
        gguf_pairs pairs = {0};
        add_tekken(&pairs, json, "tekken", BYTES + SPECIAL, NULL, 0);
        char *at = memmem(pairs.bytes.data, pairs.bytes.n, letter, sizeof letter - 1);
        CHECK(at != NULL);
        if (at && i) at[8] = ' ';
        gguf_file bytes = gguf_with("llama", NULL, NULL, 0, NULL, &pairs);
        CHECK_OK(graft_safetensors_open_memory(bytes.data, bytes.n, "a", &f, &e), &e);
        CHECK(f && (graft_safetensors_find(f, "tekken_model") != NULL) == (i == 0));
        graft_safetensors_close(f);
        free(bytes.data);
        free(pairs.bytes.data);
    }
    graft_free(json);
}

static void marks(void)
{
    graft_tekken *t = made();
    CHECK_INT(graft_tekken_tokens(t), BYTES + 523 + SPECIAL); /* two are not used */
    CHECK_INT(graft_tekken_token(t, GRAFT_TEKKEN_BEGIN), 1);
    CHECK_INT(graft_tekken_token(t, GRAFT_TEKKEN_PAD), 11);
    CHECK_STR(graft_tekken_name(GRAFT_TEKKEN_SYSTEM), "[SYSTEM_PROMPT]");
    CHECK_STR(graft_tekken_name(GRAFT_TEKKEN_SYSTEM_END), "[/SYSTEM_PROMPT]");
    CHECK_STR(graft_tekken_name(GRAFT_TEKKEN_USER), "[INST]");
    CHECK_STR(graft_tekken_name(GRAFT_TEKKEN_USER_END), "[/INST]");
    CHECK_STR(graft_tekken_name(GRAFT_TEKKEN_PICTURE), "[IMG]");
    graft_tekken_destroy(t);
}

/* No text takes time that grows with the square of its length. */
static void long_texts(void)
{
    static const char *const units[] = {
        "a",  "A",        " ", "the ",  "\n",           "1",
        "[I", "\xcc\x81", "/", "[INST", "\xe4\xb8\xad", "\xe4\xb8\xadZ"};
    graft_tekken *t = made();
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        graft_str s = GRAFT_STR_INIT;
        graft_err e = GRAFT_ERR_INIT;
        int32_t *ids = NULL;
        size_t n = 0;
        while (s.len < 1 << 18) graft_str_puts(&s, units[i]);
        CHECK_OK(graft_tekken_encode(t, s.data, s.len, &ids, &n, &e), &e);
        CHECK(n > 0);
        graft_free(ids);
        CHECK_INT(graft_tekken_encode(t, s.data, GRAFT_TEXT_MAX_BYTES + 1, &ids, &n, &e),
                  GRAFT_E_LIMIT);
        CHECK(!ids && !n);
        graft_str_finish(&s);
    }
    graft_tekken_destroy(t);
}

/* ------------------------------------------------------------------ files */

#define REGEX                                                                                      \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*"                \
    "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"                        \
    "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*|"       \
    "\\\\p{N}| "                                                                                   \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

static void put_base64(graft_str *out, uint8_t byte)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    graft_str_printf(out, "%c%c==", digits[byte >> 2], digits[(byte & 3) << 4]);
}

/* A tekken.json of the bytes, "th" and "the" with `from` in it replaced by `to`. */
static char *vocabulary_with(const char *from, const char *to)
{
    graft_str s = GRAFT_STR_INIT, out = GRAFT_STR_INIT;
    graft_str_puts(&s,
                   "{\"config\":{\"pattern\":\"" REGEX "\",\"default_vocab_size\":278,"
                   "\"default_num_special_tokens\":20},\"special_tokens\":["
                   "{\"rank\":2,\"token_str\":\"<s>\"},{\"rank\":3,\"token_str\":\"[INST]\"},"
                   "{\"rank\":4,\"token_str\":\"[/INST]\"},{\"rank\":5,\"token_str\":\"<pad>\"},"
                   "{\"rank\":6,\"token_str\":\"[SYSTEM_PROMPT]\"},"
                   "{\"rank\":7,\"token_str\":\"[/SYSTEM_PROMPT]\"},"
                   "{\"rank\":8,\"token_str\":\"<else>\"}],\"vocab\":[");
    for (int i = 0; i < BYTES; i++) {
        graft_str_printf(&s, "{\"rank\":%d,\"token_bytes\":\"", i);
        put_base64(&s, (uint8_t)i);
        graft_str_puts(&s, "\"},");
    }
    graft_str_puts(&s, "{\"rank\":256,\"token_bytes\":\"dGg=\"},"
                       "{\"rank\":257,\"token_bytes\":\"dGhl\"}]}");
    const char *at = from ? strstr(s.data, from) : NULL;
    if (from && !at) abort();
    graft_str_append(&out, s.data, at ? (size_t)(at - s.data) : s.len);
    if (at) graft_str_printf(&out, "%s%s", to, at + strlen(from));
    graft_str_finish(&s);
    char *text = graft_str_take(&out);
    if (!text) abort();
    return text;
}

static void named_marks(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_tekken *t = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    char *text = vocabulary_with(NULL, NULL);
    static const char prompt[] = "<s>[INST]the<pad>[IMG]";
    static const int32_t want[] = {2, 3, 277, 5, 20 + '[', 20 + 'I'};
    CHECK_OK(graft_tekken_create_json(text, strlen(text), "a.json", &t, &e), &e);
    CHECK_INT(graft_tekken_tokens(t), 278);
    CHECK_INT(graft_tekken_token(t, GRAFT_TEKKEN_PAD), 5);
    CHECK_INT(graft_tekken_token(t, GRAFT_TEKKEN_PICTURE), -1);
    CHECK_OK(graft_tekken_encode(t, prompt, strlen(prompt), &ids, &n, &e), &e);
    CHECK_INT(n, 9);
    for (size_t i = 0; i < sizeof want / sizeof *want && i < n; i++) CHECK_INT(ids[i], want[i]);
    graft_free(ids);
    graft_free(text);
    graft_tekken_destroy(t);
}

static void damaged_files(void)
{
    static const struct {
        const char *from, *to;
        graft_status want;
        const char *word;
    } cases[] = {{"\\\\p{N}|", "\\\\p{N}{1,3}|", GRAFT_E_UNSUPPORTED, "in another way"},
                 {"\"pattern\"", "\"other\"", GRAFT_E_UNSUPPORTED, "no tokenizer of Mistral's"},
                 {"\"config\"", "\"other\"", GRAFT_E_UNSUPPORTED, "no tokenizer of Mistral's"},
                 {":278", ":279", GRAFT_E_FORMAT, "258 tokens, but 259 are to be used"},
                 {":278", ":275", GRAFT_E_FORMAT, "275 tokens with 20"},
                 {":278", ":-1", GRAFT_E_FORMAT, "-1 tokens"},
                 {":278", ":9000000000000000000", GRAFT_E_FORMAT, "with 20"},
                 {":278", ":1.5", GRAFT_E_FORMAT, "tokens with 20"},
                 {":20}", ":0}", GRAFT_E_FORMAT, "with 0 special"},
                 {":20}", ":22}", GRAFT_OK, ""}, /* the last two tokens are not used */
                 {":20}", ":100000}", GRAFT_E_FORMAT, "with 100000 special"},
                 {"\"rank\":2,", "\"rank\":20,", GRAFT_E_FORMAT, "<s> is token 20 of 20"},
                 {"\"rank\":2,", "\"rank\":-2,", GRAFT_E_FORMAT, "<s> is token -2"},
                 {"\"rank\":8,", "", GRAFT_E_FORMAT, "<else> is token -1"},
                 {"\"<pad>\"", "\"<rad>\"", GRAFT_E_UNSUPPORTED, "no token <pad>"},
                 {"\"[SYSTEM_PROMPT]\"", "7", GRAFT_E_UNSUPPORTED, "no token [SYSTEM_PROMPT]"},
                 {"\"vocab\"", "\"other\"", GRAFT_E_FORMAT, "no vocabulary"},
                 {"\"vocab\":[", "\"vocab\":7,\"other\":[", GRAFT_E_FORMAT, "no vocabulary"},
                 {"\"rank\":256", "\"rank\":255", GRAFT_E_FORMAT, "token 256 has another rank"},
                 {"\"dGg=\"", "\"dGhl\"", GRAFT_E_FORMAT, "token 257 is empty or there already"},
                 {"\"dGg=\"", "\"\"", GRAFT_E_FORMAT, "token 256 is empty"},
                 {"\"dGg=\"", "\"====\"", GRAFT_E_FORMAT, "token 256 are not in base64"},
                 {"\"dGg=\"", "\"dGg\"", GRAFT_E_FORMAT, "token 256 are not in base64"},
                 {"\"dGg=\"", "\"d-g=\"", GRAFT_E_FORMAT, "token 256 are not in base64"},
                 {"\"dGg=\"", "\"dG=g\"", GRAFT_E_FORMAT, "token 256 are not in base64"},
                 {"\"dGg=\"", "7", GRAFT_E_FORMAT, "token 256 is empty"},
                 {"\"AA==\"", "\"AQ==\"", GRAFT_E_FORMAT, "token 0 is not its byte"},
                 {"\"AA==\"", "\"AAA=\"", GRAFT_E_FORMAT, "token 0 is not its byte"},
                 {"]}", "]", GRAFT_E_FORMAT, "a.json"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_tekken *t = (graft_tekken *)&e;
        char *text = vocabulary_with(cases[i].from, cases[i].to);
        CHECK_INT(graft_tekken_create_json(text, strlen(text), "a.json", &t, &e), cases[i].want);
        CHECK((t != NULL) == (cases[i].want == GRAFT_OK));
        CHECK(strstr(e.text, cases[i].word) && (t || strstr(e.text, "a.json")));
        if (!strstr(e.text, cases[i].word)) fprintf(stderr, "    %zu: %s\n", i, e.text);
        graft_tekken_destroy(t);
        graft_free(text);
    }
}

/* ------------------------------------------------------------------ memory */

static graft_status everything(const char *json, graft_err *e)
{
    graft_tekken *t = NULL;
    int32_t *ids = NULL;
    size_t n;
    static const char text[] = "the <s>caf\xc3\xa9 the\n\n";
    graft_status st = graft_tekken_create_json(json, strlen(json), "a.json", &t, e);
    if (!st) st = graft_tekken_encode(t, text, strlen(text), &ids, &n, e);
    graft_free(ids);
    graft_tekken_destroy(t);
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
    CHECK(at > 1000);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
    cJSON_InitHooks(NULL);
    graft_free(json);
}

int main(void)
{
    RUN(texts);
    RUN(in_gguf);
    RUN(no_alphabet);
    RUN(marks);
    RUN(long_texts);
    RUN(named_marks);
    RUN(damaged_files);
    RUN(memory_runs_out);
    return test_end();
}
