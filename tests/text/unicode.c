/* Unicode helpers: UTF-8 both ways for every code point, and properties that normal forms have. */
#include "engine/text/unicode.h"
#include "tests/test.h"

static void utf8(void)
{
    int bad = 0;
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        if (cp >= 0xd800 && cp <= 0xdfff) continue;
        uint8_t s[4];
        uint32_t back;
        size_t n = graft_unicode_encode(cp, s);
        bad += graft_unicode_decode(s, n, &back) != n || back != cp;
        if (n > 1) bad += graft_unicode_decode(s, n - 1, &back) != 1 || back != 0xfffd;
    }
    CHECK_INT(bad, 0);
}

static size_t nfc(const uint32_t *in, size_t n, uint32_t out[64])
{
    uint32_t scratch[64];
    CHECK(graft_unicode_nfc_room(n) <= 64);
    memcpy(out, in, n * sizeof *in);
    return graft_unicode_nfc(out, n, scratch);
}

static void composes(const uint32_t *in, size_t n, const uint32_t *want, size_t n_want)
{
    uint32_t out[64];
    size_t len = nfc(in, n, out);
    CHECK_INT(len, n_want);
    CHECK(len == n_want && memcmp(out, want, len * sizeof *out) == 0);
}
#define COUNTED(...)     (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__})
#define LIST(...)        COUNTED(__VA_ARGS__) / sizeof(uint32_t)
#define COMPOSES(a, ...) composes(a, LIST(__VA_ARGS__))

/* Cases of the kinds that UAX #15 explains. */
static void normal_form(void)
{
    COMPOSES(LIST('e', 0x301), 0xe9);
    COMPOSES(LIST(0x212b), 0xc5);
    COMPOSES(LIST('s', 0x307, 0x323), 0x1e69); /* marks in the wrong order */
    COMPOSES(LIST('s', 0x323, 0x307), 0x1e69);
    COMPOSES(LIST(0x1e9b, 0x323), 0x1e9b, 0x323);
    COMPOSES(LIST('a', 0x328, 0x301), 0x105, 0x301);
    COMPOSES(LIST('a', 0x301, 0x328), 0x105, 0x301); /* the ogonek passes the acute accent */
    COMPOSES(LIST('a', 0x302, 0x302), 0xe2, 0x302);
    COMPOSES(LIST(0x301, 'e'), 0x301, 'e');
    COMPOSES(LIST('e', 0x200d, 0x301), 'e', 0x200d, 0x301); /* blocked */
    COMPOSES(LIST(0x958), 0x915, 0x93c);                    /* excluded from composition */
    COMPOSES(LIST(0xfb2c), 0x5e9, 0x5bc, 0x5c1);
    COMPOSES(LIST(0x1d160), 0x1d158, 0x1d165, 0x1d16e);
    COMPOSES(LIST(0x1112, 0x1161, 0x11ab), 0xd55c); /* Hangul */
    COMPOSES(LIST(0xd558, 0x11ab), 0xd55c);
    COMPOSES(LIST(0xd558, 0x11a7), 0xd558, 0x11a7); /* not a final consonant */
    COMPOSES(LIST(0xd55c, 0x11ab), 0xd55c, 0x11ab);
    COMPOSES(LIST(0x2f800), 0x4e3d);
    COMPOSES(LIST(0x344), 0x308, 0x301);
    COMPOSES(LIST(0x11099, 0x110ba), 0x1109a); /* beyond the first plane */
}

/* Composing twice changes nothing, for every code point behind a letter and before a mark. */
static void idempotent(void)
{
    int bad = 0;
    for (uint32_t cp = 1; cp <= 0x3ffff; cp++) {
        if (cp >= 0xd800 && cp <= 0xdfff) continue;
        uint32_t in[3] = {'a', cp, 0x323}, once[64], twice[64];
        size_t n = nfc(in, 3, once), m = nfc(once, n, twice);
        bad += n != m || memcmp(once, twice, n * sizeof *once) != 0;
    }
    CHECK_INT(bad, 0);
}

static void letters(void)
{
    static const struct {
        uint32_t cp;
        graft_unicode_letter_kind want;
    } cases[] = {{'A', GRAFT_UNICODE_UPPER},     {'Z', GRAFT_UNICODE_UPPER},
                 {'@', GRAFT_UNICODE_NO_LETTER}, {'a', GRAFT_UNICODE_LOWER},
                 {'z', GRAFT_UNICODE_LOWER},     {'{', GRAFT_UNICODE_NO_LETTER},
                 {'1', GRAFT_UNICODE_NO_LETTER}, {' ', GRAFT_UNICODE_NO_LETTER},
                 {0xaa, GRAFT_UNICODE_EITHER},   {0xc9, GRAFT_UNICODE_UPPER},
                 {0xe9, GRAFT_UNICODE_LOWER},    {0xd7, GRAFT_UNICODE_NO_LETTER},
                 {0x1c5, GRAFT_UNICODE_UPPER},   {0x2b0, GRAFT_UNICODE_EITHER},
                 {0x301, GRAFT_UNICODE_EITHER},  {0x416, GRAFT_UNICODE_UPPER},
                 {0x4e00, GRAFT_UNICODE_EITHER}, {0x2163, GRAFT_UNICODE_NO_LETTER},
                 {0x1d400, GRAFT_UNICODE_UPPER}, {0x10ffff, GRAFT_UNICODE_NO_LETTER}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_INT(graft_unicode_letter(cases[i].cp), cases[i].want);
    for (uint32_t cp = 0; cp < 0x110000; cp++) { /* letters are letters in both */
        const bool one = graft_unicode_letter(cp) != GRAFT_UNICODE_NO_LETTER;
        if (graft_unicode_class(cp) == GRAFT_UNICODE_LETTER) CHECK(one);
        if (one && graft_unicode_class(cp) != GRAFT_UNICODE_LETTER)
            CHECK(graft_unicode_letter(cp) == GRAFT_UNICODE_EITHER);
    }
}

static void classes(void)
{
    CHECK_INT(graft_unicode_class('a'), GRAFT_UNICODE_LETTER);
    CHECK_INT(graft_unicode_class('0'), GRAFT_UNICODE_NUMBER);
    CHECK_INT(graft_unicode_class('['), GRAFT_UNICODE_OTHER);
    CHECK_INT(graft_unicode_class('`'), GRAFT_UNICODE_OTHER);
    CHECK_INT(graft_unicode_class('{'), GRAFT_UNICODE_OTHER);
    CHECK_INT(graft_unicode_class(' '), GRAFT_UNICODE_SPACE);
    CHECK_INT(graft_unicode_class('\n'), GRAFT_UNICODE_SPACE);
    CHECK_INT(graft_unicode_class(0), GRAFT_UNICODE_DROP);
    CHECK_INT(graft_unicode_class(0x0b), GRAFT_UNICODE_DROP);
    CHECK_INT(graft_unicode_class(0x7f), GRAFT_UNICODE_DROP);
    CHECK_INT(graft_unicode_class(0xad), GRAFT_UNICODE_DROP);
    CHECK_INT(graft_unicode_class(0xb2), GRAFT_UNICODE_NUMBER);
    CHECK_INT(graft_unicode_class(0xe9), GRAFT_UNICODE_LETTER);
    CHECK_INT(graft_unicode_class(0x301), GRAFT_UNICODE_OTHER);
    CHECK_INT(graft_unicode_class(0x378), GRAFT_UNICODE_DROP); /* never assigned so far */
    CHECK_INT(graft_unicode_class(0x2028), GRAFT_UNICODE_SPACE);
    CHECK_INT(graft_unicode_class(0x2163), GRAFT_UNICODE_NUMBER);
    CHECK_INT(graft_unicode_class(0x4e00), GRAFT_UNICODE_LETTER);
    CHECK_INT(graft_unicode_class(0xfffd), GRAFT_UNICODE_DROP);
    CHECK_INT(graft_unicode_class(0x1f600), GRAFT_UNICODE_OTHER);
    CHECK_INT(graft_unicode_class(0x10ffff), GRAFT_UNICODE_DROP);
    CHECK_INT(graft_unicode_digit('7'), 7);
    CHECK_INT(graft_unicode_digit(0x669), 9);
    CHECK_INT(graft_unicode_digit(0x66a), -1);
    CHECK_INT(graft_unicode_digit(0xb2), -1);
    CHECK_INT(graft_unicode_digit(0x1d7ff), 9);
    CHECK(graft_unicode_is_space(0x1c) && graft_unicode_is_space(0x3000));
    CHECK(!graft_unicode_is_space(0x200b));
}

static void lowers(const uint32_t *in, size_t n, const uint32_t *want, size_t n_want)
{
    uint32_t out[64];
    size_t len = graft_unicode_lower(in, n, out);
    CHECK(len == n_want && memcmp(out, want, len * sizeof *out) == 0);
}
#define LOWERS(a, ...) lowers(a, LIST(__VA_ARGS__))

static void lower_case(void)
{
    LOWERS(LIST('A', 'Z', '@', '['), 'a', 'z', '@', '[');
    LOWERS(LIST(0xc0, 0xd7, 0xde, 0xdf), 0xe0, 0xd7, 0xfe, 0xdf);
    LOWERS(LIST(0x100, 0x101, 0x139), 0x101, 0x101, 0x13a);
    LOWERS(LIST(0x130), 'i', 0x307);
    LOWERS(LIST(0x1c4, 0x1c5), 0x1c6, 0x1c6);
    LOWERS(LIST(0x1e9e, 0x2126), 0xdf, 0x3c9);
    LOWERS(LIST(0x10400, 0x1e921), 0x10428, 0x1e943);
    LOWERS(LIST(0x3a3), 0x3c3);
    LOWERS(LIST('A', 0x3a3), 'a', 0x3c2);
    LOWERS(LIST('A', '\'', 0x3a3, 0x301), 'a', '\'', 0x3c2, 0x301);
    LOWERS(LIST('A', 0x3a3, '\'', 'B'), 'a', 0x3c3, '\'', 'b');
    LOWERS(LIST('1', 0x3a3), '1', 0x3c3);
}

int main(void)
{
    RUN(utf8);
    RUN(normal_form);
    RUN(idempotent);
    RUN(classes);
    RUN(letters);
    RUN(lower_case);
    return test_end();
}
