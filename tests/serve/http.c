#include "host/serve/http.h"

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

int main(void)
{
    RUN(words_of_lists);
    return test_end();
}
