/* The tokenizer: words, Unicode rules, and the list of merges. */
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/text/tokenizer.h"
#include "tests/test.h"

static graft_tokenizer *tok;

/* Tokens of text as "1 2 3", in one of a few static buffers. */
static const char *tokens_n(const graft_tokenizer *t, const char *text, size_t n)
{
    static char buffer[4][2048];
    static int turn;
    char *out = buffer[turn++ % 4];
    graft_err e = GRAFT_ERR_INIT;
    int32_t *ids = NULL;
    size_t count = 0, len = 0;
    CHECK_OK(graft_tokenizer_encode(t, text, n, &ids, &count, &e), &e);
    out[0] = '\0';
    for (size_t i = 0; i < count && len < 2000; i++)
        len += (size_t)snprintf(out + len, 2048 - len, i ? " %d" : "%d", ids[i]);
    graft_free(ids);
    return out;
}

static const char *tokens(const char *text)
{
    return tokens_n(tok, text, strlen(text));
}
#define SAME(a, b) CHECK_STR(tokens(a), tokens(b))

static void words(void)
{
    CHECK_STR(tokens("a photo of a cat"), "320 1125 539 320 2368");
    CHECK_STR(tokens("hello, world!"), "3306 267 1002 256");
    CHECK_STR(tokens("it's they're don't"), "585 568 889 982 847 713");
    CHECK_STR(tokens("123 4567 8.9"), "272 273 274 275 276 277 278 279 269 280");
    CHECK_STR(tokens("naïve café x²"), "1097 35689 563 15304 343 41175");
    CHECK_STR(tokens("😀"), "7334");
    CHECK_STR(tokens(""), "");
    SAME("  many \t spaces\r\nhere ", "many spaces here");
    SAME("UPPER Case", "upper case");
    SAME("CAT'S", "cat's");
    SAME("'\xc5\xbf", "'\xc5\xbf");
    CHECK(strcmp(tokens("don't"), tokens("don' t")) != 0);
    CHECK_STR(tokens("!'s"), tokens("!' s"));
}

static void unicode_rules(void)
{
    SAME("cafe\xcc\x81", "caf\xc3\xa9");              /* composed */
    SAME("\xe1\x84\x80\xe1\x85\xa1", "\xea\xb0\x80"); /* Hangul as well */
    SAME("cat\xe2\x80\x8b"
         "dog",
         "catdog"); /* zero-width space: dropped */
    SAME("\xef\xbb\xbf"
         "cat",
         "cat"); /* byte-order mark */
    SAME("cat\x0b"
         "dog",
         "catdog"); /* a control */
    SAME("cat\xc2\xa0"
         "dog\xe3\x80\x80"
         "fox",
         "cat dog fox"); /* other spaces */
    SAME("cat\xe2\x80\xa8"
         "dog",
         "cat dog");                                     /* line separator */
    SAME("猫が好き", "猫 が 好 き");                     /* Chinese characters alone */
    CHECK(strcmp(tokens("ねこ"), tokens("ね こ")) != 0); /* kana not */
    SAME("\xc3\x89T\xc3\x89", "\xc3\xa9t\xc3\xa9");
    SAME("ΟΔΥΣΣΕΥΣ ΣΑΣ' Σ", "οδυσσευς σας' σ");
    SAME("\xc4\xb0stanbul", "i\xcc\x87stanbul");
    SAME("\xe2\x84\xaa", "k"); /* Kelvin sign */
    CHECK(strcmp(tokens("&amp;"), tokens("&")) != 0);
}

static void marks(void)
{
    CHECK_STR(tokens("<|startoftext|>cat<|endoftext|>"), "49406 2368 49407");
    CHECK_STR(tokens("cat!<|endoftext|>"), "2368 256 49407");
    CHECK_STR(tokens("<|ENDofTEXT|>"), "49407");
    CHECK_STR(tokens("<|endoftext"), tokens("<| endoftext"));
}

static void invalid_utf8(void)
{
    static const char *const bad[] = {"\xff",         "\xc0\x80",         "\xe2\x82",
                                      "\x80",         "\xed\xa0\x80",     "\xf4\x90\x80\x80",
                                      "\xf8\x88\x80", "\xe0\x80\x80\x80", "\xf0\x9f\x98"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[32];
        snprintf(text, sizeof text, "c%sat", bad[i]);
        SAME(text, "cat");
    }
    CHECK_STR(tokens_n(tok, "c\0at", 4), "2368"); /* a zero byte is a control like others */
}

static const char *small(const char *merges, const char *text)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_tokenizer *t = NULL;
    CHECK_OK(graft_tokenizer_create_from(merges, strlen(merges), &t, &e), &e);
    const char *out = t ? tokens_n(t, text, strlen(text)) : "";
    graft_tokenizer_destroy(t);
    return out;
}

static void merges(void)
{
    /* a-f are 64-69, at the end of a word 320-325; merge i makes 512 + i. */
    CHECK_STR(small("#version: 0.2\na b\n", "ab abc"), "64 321 512 322");
    CHECK_STR(small("a b\na b</w>", "ab abc"), "513 512 322");
    CHECK_STR(small("\r\na b\r\n\r\nab c</w>\r\n", "abc"), "513");
    CHECK_STR(small("b c\na b\n", "abcd"), "64 512 323");     /* the earlier line first */
    CHECK_STR(small("a a\naa aa\n", "aaaaaa"), "513 64 320"); /* from the left */
    CHECK_STR(small("a a\naa a</w>\n", "aaaa"), "512 64 320");
    CHECK_STR(small("#version: 0\n# !\n", "#!"), "2 256");
}

static void refused(const char *merges_text, const char *says)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_tokenizer *t = (void *)1;
    CHECK_INT(graft_tokenizer_create_from(merges_text, strlen(merges_text), &t, &e),
              GRAFT_E_FORMAT);
    CHECK(t == NULL);
    CHECK(strstr(e.text, says) != NULL);
}

static void bad_merges(void)
{
    refused("", "empty");
    refused("#version: 0.2\n", "empty");
    refused("ab\n", "line 1");
    refused("a b c\n", "line 1");
    refused("a \n", "line 1");
    refused(" a\n", "line 1");
    refused("a b\nab cd\n", "line 2");
    refused("a b\na b\n", "line 2");
    refused("a b\nb c\nab c\na bc\n", "line 4");
    refused("a \xff\n", "line 1");
}

static void limits(void)
{
    graft_err e = GRAFT_ERR_INIT;
    int32_t *ids;
    size_t count, n = GRAFT_TEXT_MAX_BYTES;
    char *text = calloc(n + 2, 1);
    CHECK(text != NULL);
    if (!text) return;
    memset(text, ' ', n + 1);
    CHECK_OK(graft_tokenizer_encode(tok, text, n, &ids, &count, &e), &e);
    CHECK_INT(count, 0);
    CHECK_INT(graft_tokenizer_encode(tok, text, n + 1, &ids, &count, &e), GRAFT_E_LIMIT);
    CHECK(ids == NULL);
    graft_chunks c;
    CHECK_INT(graft_prompt_chunks(tok, text, 0, &c, &e), GRAFT_E_LIMIT);
    CHECK(c.tokens == NULL && c.count == 0);
    free(text);
}

int main(void)
{
    graft_err e = GRAFT_ERR_INIT;
    if (graft_tokenizer_create(&tok, &e) != GRAFT_OK) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    RUN(words);
    RUN(unicode_rules);
    RUN(marks);
    RUN(invalid_utf8);
    RUN(merges);
    RUN(bad_merges);
    RUN(limits);
    graft_tokenizer_destroy(tok);
    graft_tokenizer_destroy(NULL);
    return test_end();
}
