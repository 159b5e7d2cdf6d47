#include "host/serve/chunked.h"

#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

/* Decodes `text`, which comes in pieces of `step` bytes. The event that ended it; what was in it
 * goes to `out` and what is left behind its end to `rest`. */
static graft_chunked_event decode(const char *text, size_t n, size_t step, char *out, size_t *rest)
{
    graft_chunked c = {0};
    size_t at = 0, got = 0;
    while (at < n) {
        size_t m = n - at < step ? n - at : step, size;
        const uint8_t *in = (const uint8_t *)text + at, *end = in + m, *data;
        graft_chunked_event e;
        at += m;
        while ((e = graft_chunked_next(&c, &in, end, &data, &size)) != GRAFT_CHUNKED_MORE) {
            if (e != GRAFT_CHUNKED_DATA) {
                *rest = n - at + (size_t)(end - in);
                out[got] = 0;
                return e;
            }
            memcpy(out + got, data, size);
            got += size;
        }
    }
    out[got] = 0;
    *rest = 0;
    return GRAFT_CHUNKED_MORE;
}

static void bodies_are_put_together(void)
{
    static const struct {
        const char *text, *body;
        size_t rest;
    } cases[] = {
        {"0\r\n\r\n", "", 0},
        {"5\r\nhello\r\n0\r\n\r\n", "hello", 0},
        {"3\r\nhel\r\n2\r\nlo\r\n000\r\n\r\n", "hello", 0},
        {"00000000000000b\r\n0\r\n\r\n0\r\n\r\nx\r\n0\r\n\r\n", "0\r\n\r\n0\r\n\r\nx", 0},
        {"A;name=\"a;b\"\r\n0123456789\r\n1 ;x\r\n!\r\n0;last\r\n\r\n", "0123456789!", 0},
        {"1\r\nx\r\n0\r\nTrailer: 1\r\nOther: 2\r\n\r\n", "x", 0},
        {"1\r\nx\r\n0\r\n\r\nGET / HTTP/1.1\r\n", "x", 16},
    };
    char out[64];
    size_t rest;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step < 20; step++) {
            size_t n = strlen(cases[i].text);
            CHECK_INT(decode(cases[i].text, n, step, out, &rest), GRAFT_CHUNKED_END);
            CHECK_STR(out, cases[i].body);
            CHECK_INT(rest, cases[i].rest);
        }
}

static void what_is_not_whole_waits(void)
{
    const char *text = "2;x\r\nab\r\n0\r\nT: x\r\n\r\n";
    char out[64];
    size_t rest;
    for (size_t n = 0; n < strlen(text); n++)
        CHECK_INT(decode(text, n, 3, out, &rest), GRAFT_CHUNKED_MORE);
    CHECK_INT(decode(text, strlen(text), 3, out, &rest), GRAFT_CHUNKED_END);
}

static void damage_is_refused(void)
{
    static const char *const bad[] = {"\r\n",
                                      "\n",
                                      "x\r\n",
                                      "-1\r\n",
                                      " 1\r\nx",
                                      "+1\r\nx",
                                      "0x1\r\nx",
                                      "1\nx",
                                      "1\rx",
                                      "1\r\nxy",
                                      "1\r\nx\n",
                                      "1\r\nx\r1",
                                      "0\r\n\n",
                                      "0\r\nT: x\n\r\n",
                                      "0\r\nT: x\rU: y\r\n",
                                      ";x\r\n",
                                      "1;x\ny\r\n\n",
                                      "0\r\n\r\r\n"};
    char out[64], text[GRAFT_CHUNKED_EXTRA + 64];
    size_t rest;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t step = 1; step < 8; step++)
            CHECK_INT(decode(bad[i], strlen(bad[i]), step, out, &rest), GRAFT_CHUNKED_BAD);
    CHECK_INT(decode("1000000000000000", 16, 4, out, &rest), GRAFT_CHUNKED_BAD);
    memset(text, 'x', sizeof text);
    memcpy(text, "1;", 2);
    CHECK_INT(decode(text, sizeof text, 100, out, &rest), GRAFT_CHUNKED_BAD);
    memcpy(text, "0\r\n", 3);
    CHECK_INT(decode(text, sizeof text, 100, out, &rest), GRAFT_CHUNKED_BAD);
}

/* Texts that are damaged at random, by a fixed seed: however they come in pieces, they mean the
 * same, and no byte outside of them is read (each is in memory of its own). */
static void pieces_do_not_matter(void)
{
    static const char good[] =
        "3\r\nabc\r\n1a;x=y\r\n0123456789abcdefghijklmnop\r\n0\r\nT: 1\r\n\r\n";
    static const char bytes[] = "\r\n;0123afx \t";
    uint32_t state = 20261122;
    for (int i = 0; i < 20000; i++) {
        const size_t n = sizeof good - 1;
        char *text = malloc(n), out[2][64];
        size_t rest[2];
        memcpy(text, good, n);
        for (int k = 0; k < 3; k++) {
            state = state * 1664525u + 1013904223u;
            if (state >> 31) text[(state >> 8) % n] = bytes[(state >> 20) % (sizeof bytes - 1)];
        }
        graft_chunked_event whole = decode(text, n, n, out[0], &rest[0]);
        CHECK_INT(decode(text, n, 1 + state % 7, out[1], &rest[1]), whole);
        CHECK_STR(out[1], out[0]);
        CHECK_INT(rest[1], rest[0]);
        free(text);
    }
}

int main(void)
{
    RUN(bodies_are_put_together);
    RUN(what_is_not_whole_waits);
    RUN(damage_is_refused);
    RUN(pieces_do_not_matter);
    return test_end();
}
