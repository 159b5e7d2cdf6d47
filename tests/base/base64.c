/* Base64: the vectors of RFC 4648, all bytes there and back, and what is none. */
#include "base/alloc.h"
#include "base/base64.h"
#include "tests/test.h"

static void read_is(const char *text, const char *want)
{
    char out[64] = "";
    size_t n = 99;
    CHECK(graft_base64_read(text, strlen(text), out, &n));
    CHECK_INT(n, strlen(want));
    CHECK(memcmp(out, want, strlen(want)) == 0);
    CHECK_INT(out[n], 0); /* nothing is written behind */
}

static void written_is(const char *bytes, const char *want)
{
    graft_str s = GRAFT_STR_INIT;
    graft_base64_write(&s, bytes, strlen(bytes));
    CHECK_STR(s.data ? s.data : "", want);
    graft_str_finish(&s);
}

static void vectors(void)
{
    static const char *const pair[][2] = {{"", ""},
                                          {"f", "Zg=="},
                                          {"fo", "Zm8="},
                                          {"foo", "Zm9v"},
                                          {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        written_is(pair[i][0], pair[i][1]);
        read_is(pair[i][1], pair[i][0]);
    }
}

static void all_bytes(void)
{
    unsigned char in[256], out[256];
    size_t n;
    for (int i = 0; i < 256; i++) in[i] = (unsigned char)(i * 167 + 91);
    for (size_t length = 0; length <= sizeof in; length++) {
        graft_str s = GRAFT_STR_INIT;
        graft_base64_write(&s, in, length);
        CHECK_INT(s.len, (length + 2) / 3 * 4);
        CHECK(graft_base64_read(s.data, s.len, out, &n) && n == length);
        CHECK(memcmp(in, out, length) == 0);
        graft_str_finish(&s);
    }
}

static void damaged(void)
{
    static const char *const texts[] = {"Z",    "Zg",     "Zg=",   "Zg===",    "=",
                                        "====", "Z===",   "Zm9v=", "Zm=v",     "Zm9-",
                                        "Zm9_", "Zm9v\n", "Zm 9",  "Zm8=Zm9v", "Zm9v Zm9"};
    char out[64];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t n = 7;
        CHECK(!graft_base64_read(texts[i], strlen(texts[i]), out, &n));
        CHECK_INT(n, 0);
    }
}

int main(void)
{
    RUN(vectors);
    RUN(all_bytes);
    RUN(damaged);
    return test_end();
}
