#include "host/serve/stored.h"

#include "tests/test.h"

static void words_of_lists(void)
{
    CHECK(graft_http_has_word("gzip", "gzip"));
    CHECK(graft_http_has_word("br, GZIP;q=0.5", "gzip"));
    CHECK(graft_http_has_word("gzip ; q=1.000, br", "gzip"));
    CHECK(graft_http_has_word("gzip;q=0.001", "gzip"));
    CHECK(!graft_http_has_word("", "gzip"));
    CHECK(!graft_http_has_word("gzipped, x-gzip", "gzip"));
    CHECK(!graft_http_has_word("br;q=1 gzip", "gzip")); /* one word with something behind it */
    CHECK(!graft_http_has_word("gzip;q=0", "gzip"));
    CHECK(!graft_http_has_word("br, gzip; q=0.000 , deflate", "gzip"));
    CHECK(!graft_http_has_word("gzip;level=1;Q=0", "gzip"));
}

static void ranges_of_bytes(void)
{
    static const struct {
        const char *range;
        size_t size;
        graft_stored_range what;
        size_t first, count;
    } all[] = {
        {"bytes=0-0", 10, GRAFT_STORED_PART, 0, 1},
        {"bytes=2-5", 10, GRAFT_STORED_PART, 2, 4},
        {"BYTES=2-5 ", 10, GRAFT_STORED_PART, 2, 4},
        {"bytes=2-", 10, GRAFT_STORED_PART, 2, 8},
        {"bytes=9-", 10, GRAFT_STORED_PART, 9, 1},
        {"bytes=0-99", 10, GRAFT_STORED_PART, 0, 10},
        {"bytes=3-99999999999999999999999", 10, GRAFT_STORED_PART, 3, 7},
        {"bytes=-4", 10, GRAFT_STORED_PART, 6, 4},
        {"bytes=-99", 10, GRAFT_STORED_PART, 0, 10},
        {"bytes=-99999999999999999999999", 10, GRAFT_STORED_PART, 0, 10},
        {"bytes=10-", 10, GRAFT_STORED_OUTSIDE, 0, 0},
        {"bytes=10-20", 10, GRAFT_STORED_OUTSIDE, 0, 0},
        {"bytes=99999999999999999999999-", 10, GRAFT_STORED_OUTSIDE, 0, 0},
        {"bytes=-0", 10, GRAFT_STORED_OUTSIDE, 0, 0},
        {"bytes=0-", 0, GRAFT_STORED_OUTSIDE, 0, 0},
        {"bytes=-1", 0, GRAFT_STORED_OUTSIDE, 0, 0},
        {NULL, 10, GRAFT_STORED_ALL, 0, 0},
        {"", 10, GRAFT_STORED_ALL, 0, 0},
        {"bytes", 10, GRAFT_STORED_ALL, 0, 0},
        {"bytes=", 10, GRAFT_STORED_ALL, 0, 0},
        {"bytes=-", 10, GRAFT_STORED_ALL, 0, 0},
        {"bytes=5", 10, GRAFT_STORED_ALL, 0, 0},
        {"bytes=5-2", 10, GRAFT_STORED_ALL, 0, 0},
        {"bytes=a-b", 10, GRAFT_STORED_ALL, 0, 0},
        {"bytes=1-2x", 10, GRAFT_STORED_ALL, 0, 0},
        {"bytes=+1-2", 10, GRAFT_STORED_ALL, 0, 0},
        {"bytes=1--2", 10, GRAFT_STORED_ALL, 0, 0},
        {"bytes=0-1,3-4", 10, GRAFT_STORED_ALL, 0, 0},
        {"lines=0-1", 10, GRAFT_STORED_ALL, 0, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t first = 0, count = 0;
        CHECK_INT(graft_stored_parse(all[i].range, all[i].size, &first, &count), all[i].what);
        if (all[i].what != GRAFT_STORED_PART) continue;
        CHECK_INT(first, all[i].first);
        CHECK_INT(count, all[i].count);
    }
}

int main(void)
{
    RUN(words_of_lists);
    RUN(ranges_of_bytes);
    return test_end();
}
