/* Qwen's tokenizer: texts against the tokens in golden/small/qwen, files of vocabularies, what is
 * no such file, and memory that runs out. */
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/text/qwen.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"
#include "tests/test.h"
#include "tests/text/golden_tokens.h"

#define TOKENS GRAFT_SOURCE_DIR "/golden/small/qwen/tokens.json"
#define REGEX                                                                                      \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}|"               \
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

/* A small vocabulary: "th", "the", " the" and "\n\n". */
static const char merges[] = "t h\nth e\n\xc4\xa0 the\n\xc4\x8a \xc4\x8a\n";
enum { MERGES = 4, BYTES = 256 };

static graft_qwen *made(const char *text)
{
    graft_qwen *q = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_qwen_create(text, strlen(text), &q, &e), &e);
    if (!q) abort();
    return q;
}

/* ------------------------------------------------------------------ texts */

static graft_status encode(const void *q, const char *text, size_t n, int32_t **ids, size_t *count,
                           graft_err *e)
{
    return graft_qwen_encode(q, text, n, ids, count, e);
}

static void texts_are_those_of_the_package(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_qwen *q = NULL;
    if (graft_qwen_create_own(&q, &e) == GRAFT_E_NOTFOUND) {
        puts("skipped: this build has no vocabulary of Qwen");
        return;
    }
    CHECK_INT(graft_qwen_tokens(q), 151669);
    golden_tokens(TOKENS, 50, encode, q);
    graft_qwen_destroy(q);
}

/* Pieces by their first tokens: with the small vocabulary each byte is its own. */
static void pieces(void)
{
    static const struct {
        const char *text;
        int32_t ids[8];
        size_t n;
    } cases[] = {{"the", {257}, 1},
                 {" the", {258}, 1},
                 {"  the", {220, 258}, 2},
                 {"\n\n", {259}, 1},
                 {"\n\n\n", {259, 198}, 2},
                 {"\t\n\nthe", {197, 259, 257}, 3},
                 {"The", {51, 71, 68}, 3},
                 {"1the", {16, 257}, 2},
                 {"\"the", {1, 257}, 2},
                 {"'THE", {6, 51, 39, 36}, 4},
                 {"", {0}, 0},
                 {"<|im_end|>the<|im_end|>", {262, 257, 262}, 3},
                 {"\xff", {171, 123, 121}, 3}}; /* U+FFFD */
    graft_qwen *q = made(merges);
    CHECK_INT(graft_qwen_tokens(q), BYTES + MERGES + 26);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t *ids = NULL;
        size_t n = 0;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_qwen_encode(q, cases[i].text, strlen(cases[i].text), &ids, &n, &e), &e);
        CHECK_INT(n, cases[i].n);
        for (size_t k = 0; k < n && n == cases[i].n; k++) CHECK_INT(ids[k], cases[i].ids[k]);
        graft_free(ids);
    }
    graft_qwen_destroy(q);
}

static void long_texts(void)
{
    static const char *const units[] = {"a", " ",  "the ",         "\n",
                                        "1", "<|", "\xe7\x8c\xab", "\xcc\x81"};
    graft_qwen *q = made(merges);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        graft_str s = GRAFT_STR_INIT;
        graft_err e = GRAFT_ERR_INIT;
        int32_t *ids = NULL;
        size_t n = 0;
        while (s.len < 1 << 18) graft_str_puts(&s, units[i]);
        CHECK_OK(graft_qwen_encode(q, s.data, s.len, &ids, &n, &e), &e);
        CHECK(n > 0);
        graft_free(ids);
        CHECK_INT(graft_qwen_encode(q, s.data, GRAFT_TEXT_MAX_BYTES + 1, &ids, &n, &e),
                  GRAFT_E_LIMIT);
        CHECK(!ids && !n);
        graft_str_finish(&s);
    }
    graft_qwen_destroy(q);
}

/* ------------------------------------------------------------------ files */

static void put_name(graft_str *out, const char *name, int id)
{
    if (id) graft_str_puts(out, ",");
    graft_str_json(out, name);
    graft_str_printf(out, ":%d", id);
}

/* {"!":0, ...}: the byte alphabet and what the merges make. */
static void put_vocab(graft_str *out)
{
    static const char *const more[] = {"th", "the", "\xc4\xa0the", "\xc4\x8a\xc4\x8a"};
    uint32_t other = 0x100;
    int id = 0;
    graft_str_puts(out, "{");
    for (int printing = 1; printing >= 0; printing--)
        for (uint32_t b = 0; b < 256; b++) {
            bool prints = (b >= '!' && b <= '~') || (b >= 0xa1 && b != 0xad);
            uint8_t utf8[5] = {0};
            if (prints != (printing == 1)) continue;
            graft_unicode_encode(printing ? b : other++, utf8);
            put_name(out, (const char *)utf8, id++);
        }
    for (int i = 0; i < MERGES; i++) put_name(out, more[i], id++);
    graft_str_puts(out, "}");
}

/* A tokenizer.json with `from` in it replaced by `to`, when it is there. */
static char *tokenizer_with(const char *from, const char *to)
{
    graft_str s = GRAFT_STR_INIT, out = GRAFT_STR_INIT;
    graft_str_puts(&s, "{\"added_tokens\":[{\"id\":261,\"content\":\"<|im_start|>\"},"
                       "{\"id\":7,\"content\":\"<|other|>\"}],\"normalizer\":{\"type\":\"NFC\"},"
                       "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                       "\"Split\",\"pattern\":{\"Regex\":\"" REGEX "\"}}]},"
                       "\"model\":{\"type\":\"BPE\",\"merges\":[\"t h\",[\"th\",\"e\"],"
                       "\"\xc4\xa0 the\",[\"\xc4\x8a\",\"\xc4\x8a\"]],\"vocab\":");
    put_vocab(&s);
    graft_str_puts(&s, "}}");
    const char *at = from ? strstr(s.data, from) : NULL;
    if (from && !at) abort();
    const size_t head = at ? (size_t)(at - s.data) : s.len;
    graft_str_append(&out, s.data, head);
    if (at) graft_str_printf(&out, "%s%s", to, at + strlen(from));
    graft_str_finish(&s);
    char *text = graft_str_take(&out);
    if (!text) abort();
    return text;
}

static void tokenizers_of_json(void)
{
    static const struct {
        const char *from, *to;
        graft_status want;
        const char *word;
    } cases[] = {{NULL, NULL, GRAFT_OK, ""},
                 {"\"NFC\"", "\"NFKC\"", GRAFT_E_UNSUPPORTED, "no tokenizer of Qwen"},
                 {"\\\\p{N}|", "\\\\p{N}{1,3}|", GRAFT_E_UNSUPPORTED, "no tokenizer of Qwen"},
                 {"\"BPE\"", "\"Unigram\"", GRAFT_E_UNSUPPORTED, "no tokenizer of Qwen"},
                 {"\"id\":261", "\"id\":262", GRAFT_E_UNSUPPORTED, "<|im_start|>"},
                 {"\"t h\",", "", GRAFT_E_FORMAT, "was not made before"},
                 {"\"t h\",", "3,", GRAFT_E_FORMAT, "not of two tokens"},
                 {"[\"th\",\"e\"]", "[\"th\"]", GRAFT_E_FORMAT, "not of two tokens"},
                 {"[\"th\",\"e\"]", "[\"e\",\"th\"]", GRAFT_E_FORMAT, "was not made before"},
                 {",\"th\":256", "", GRAFT_E_UNSUPPORTED, "tokens, but its merges make"},
                 {"\"th\":256", "\"th\":257", GRAFT_E_UNSUPPORTED, "\"th\" is not the token"},
                 {"\"th\":256", "\"ht\":256", GRAFT_E_UNSUPPORTED, "\"ht\" is not the token"},
                 {"\"th\":256", "\"\xe7\x8c\xab\":256", GRAFT_E_UNSUPPORTED, "is not the token"},
                 {"\"th\":256", "\"\":256", GRAFT_E_UNSUPPORTED, "is not the token"},
                 {"\"th\":256", "\"th\":-1", GRAFT_E_FORMAT, "without a number"},
                 {"\"th\":256", "\"th\":\"256\"", GRAFT_E_FORMAT, "without a number"},
                 {"\"vocab\":{", "\"other\":{", GRAFT_E_FORMAT, "no vocabulary"},
                 {"\"merges\":[", "\"other\":[", GRAFT_E_FORMAT, "empty"},
                 {"}}", "}", GRAFT_E_FORMAT, "a.json"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_qwen *q = NULL;
        char *text = tokenizer_with(cases[i].from, cases[i].to);
        CHECK_INT(graft_qwen_create_json(text, strlen(text), "a.json", &q, &e), cases[i].want);
        CHECK((q != NULL) == (cases[i].want == GRAFT_OK));
        CHECK(strstr(e.text, cases[i].word) && (q || strstr(e.text, "a.json")));
        if (!strstr(e.text, cases[i].word)) fprintf(stderr, "    %zu: %s\n", i, e.text);
        if (q) CHECK_INT(graft_qwen_tokens(q), BYTES + MERGES + 26);
        graft_qwen_destroy(q);
        graft_free(text);
    }
}

static void vocabularies_are_checked(void)
{
    static const char other[] = "{\"a\":0}";
    graft_str s = GRAFT_STR_INIT;
    graft_err e = GRAFT_ERR_INIT;
    graft_qwen *q = made(merges),
               *longer = made("t h\nth e\n\xc4\xa0 the\n\xc4\x8a \xc4\x8a\na b\n");
    put_vocab(&s);
    CHECK_OK(graft_qwen_check(q, s.data, s.len, "v.json", &e), &e);
    CHECK_INT(graft_qwen_check(longer, s.data, s.len, "v.json", &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_qwen_check(q, other, strlen(other), "v.json", &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_qwen_check(q, "[]", 2, "v.json", &e), GRAFT_E_FORMAT);
    CHECK_INT(graft_qwen_check(q, "{", 1, "v.json", &e), GRAFT_E_FORMAT);
    graft_str_finish(&s);
    graft_qwen_destroy(q);
    graft_qwen_destroy(longer);
}

/* Of its words' ends CLIP's list says so, which is no name here. */
static void other_lists_are_refused(void)
{
    static const char *const lists[] = {"", "t h</w>\n", "t\n", "t h e\n", "t h\nt h\n", "x yz\n"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_qwen *q = (graft_qwen *)&e;
        CHECK_INT(graft_qwen_create(lists[i], strlen(lists[i]), &q, &e), GRAFT_E_FORMAT);
        CHECK(!q);
    }
}

/* ------------------------------------------------------------------ memory */

static graft_status everything(const char *json, graft_err *e)
{
    graft_qwen *q = NULL;
    int32_t *ids = NULL;
    size_t n;
    static const char text[] = "the <|im_start|>caf\xc3\xa9 the\n\n";
    graft_status st = graft_qwen_create_json(json, strlen(json), "a.json", &q, e);
    if (!st) st = graft_qwen_encode(q, text, strlen(text), &ids, &n, e);
    graft_free(ids);
    graft_qwen_destroy(q);
    return st;
}

static void memory_runs_out(void)
{
    graft_alloc_stats before, after;
    graft_err e = GRAFT_ERR_INIT;
    char *json = tokenizer_with(NULL, NULL);
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
    CHECK(at > 300);
    graft_qwen *q = NULL;
    for (at = 1, st = GRAFT_E_NOMEM; st == GRAFT_E_NOMEM; at++) {
        graft_alloc_fail_at(at);
        st = graft_qwen_create_own(&q, &e);
        graft_alloc_fail_at(0);
    }
    CHECK(st == GRAFT_OK || st == GRAFT_E_NOTFOUND);
    graft_qwen_destroy(q);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
    cJSON_InitHooks(NULL);
    graft_free(json);
}

int main(void)
{
    RUN(texts_are_those_of_the_package);
    RUN(pieces);
    RUN(long_texts);
    RUN(tokenizers_of_json);
    RUN(vocabularies_are_checked);
    RUN(other_lists_are_refused);
    RUN(memory_runs_out);
    return test_end();
}
