#include "host/serve/security.h"

#include "tests/test.h"

static const graft_security local = {NULL, NULL, "127.0.0.1", "graft.example, other.example"};

static graft_verdict ask(const graft_security *s, char *host, char *origin, char *site)
{
    const graft_http_request q = {.method = GRAFT_HTTP_POST,
                                  .path = (char *)"/prompt",
                                  .host = host,
                                  .origin = origin,
                                  .fetch_site = site};
    return graft_security_check(s, &q);
}
#define T(text) ((char *)(text))

static void hosts(void)
{
    static const char *const good[] = {"127.0.0.1:8188", "localhost",         "LOCALHOST:1",
                                       "[::1]:8188",     "192.168.1.2:80",    "a.localhost",
                                       "graft.example",  "Other.Example:443", "localhost.:8188"};
    static const char *const bad[] = {"evil.example",
                                      "127.0.0.1.evil.example",
                                      "localhost.evil",
                                      "xlocalhost",
                                      "[::1",
                                      "a b",
                                      "127.0.0.1:x",
                                      "127.0.0.1:999999",
                                      ":80",
                                      "user@127.0.0.1",
                                      "graft.example.evil",
                                      "0x7f.1:80"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK_INT(ask(&local, T(good[i]), NULL, NULL), GRAFT_VERDICT_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(ask(&local, T(bad[i]), NULL, NULL), GRAFT_VERDICT_HOST);
}

static void origins(void)
{
    char *host = T("127.0.0.1:8188");
    CHECK_INT(ask(&local, host, T("http://127.0.0.1:8188"), NULL), GRAFT_VERDICT_OK);
    CHECK_INT(ask(&local, T("127.0.0.1"), T("http://127.0.0.1"), NULL), GRAFT_VERDICT_OK);
    CHECK_INT(ask(&local, T("graft.example"), T("https://graft.example"), NULL), GRAFT_VERDICT_OK);
    static const char *const bad[] = {"null",
                                      "http://127.0.0.1",
                                      "http://127.0.0.1:8189",
                                      "http://localhost:8188",
                                      "http://evil.example:8188",
                                      "x",
                                      "http://127.0.0.1:8188.evil.example",
                                      "http://127.0.0.1:8188/x",
                                      "http://a@127.0.0.1:8188"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(ask(&local, host, T(bad[i]), NULL), GRAFT_VERDICT_ORIGIN);
    CHECK_INT(ask(&local, host, NULL, T("cross-site")), GRAFT_VERDICT_ORIGIN);
    CHECK_INT(ask(&local, host, NULL, T("same-site")), GRAFT_VERDICT_ORIGIN);
    CHECK_INT(ask(&local, host, NULL, T("none")), GRAFT_VERDICT_OK);
    const graft_security open = {NULL, "https://app.example", "127.0.0.1", NULL};
    CHECK_INT(ask(&open, host, T("https://app.example"), T("cross-site")), GRAFT_VERDICT_OK);
    CHECK_INT(ask(&open, host, T("https://evil.example"), NULL), GRAFT_VERDICT_ORIGIN);
}

static graft_verdict with(const char *authorization, const char *cookie, const char *arg)
{
    static const graft_security s = {"se:cret", NULL, "127.0.0.1", NULL};
    char *args[] = {T(arg)};
    const graft_http_request q = {.method = GRAFT_HTTP_GET,
                                  .path = T("/"),
                                  .authorization = T(authorization),
                                  .cookie = T(cookie),
                                  .arg = args,
                                  .n_arg = arg ? 1 : 0};
    return graft_security_check(&s, &q);
}

static void tokens(void)
{
    CHECK_INT(with("Bearer se:cret", NULL, NULL), GRAFT_VERDICT_OK);
    CHECK_INT(with("bearer se:cret", NULL, NULL), GRAFT_VERDICT_OK);
    CHECK_INT(with("Basic dTpzZTpjcmV0", NULL, NULL), GRAFT_VERDICT_OK); /* u:se:cret */
    CHECK_INT(with(NULL, "a=b; graft_token=se:cret; c=d", NULL), GRAFT_VERDICT_OK);
    CHECK_INT(with(NULL, NULL, "token=se:cret"), GRAFT_VERDICT_OK);
    static const char *const bad[] = {"",
                                      "Bearer",
                                      "Bearer ",
                                      "Bearer se:cre",
                                      "Bearer se:crett",
                                      "Basic",
                                      "Basic !!",
                                      "Basic c2U6Y3JldA==",
                                      "se:cret"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(with(bad[i], NULL, NULL), GRAFT_VERDICT_TOKEN);
    CHECK_INT(with(NULL, "xgraft_token=se:cret", NULL), GRAFT_VERDICT_TOKEN);
    CHECK_INT(with(NULL, "graft_token=", NULL), GRAFT_VERDICT_TOKEN);
    CHECK_INT(with(NULL, NULL, "token="), GRAFT_VERDICT_TOKEN);
    CHECK_INT(with(NULL, NULL, NULL), GRAFT_VERDICT_TOKEN);
    CHECK(graft_security_equal("", "") && !graft_security_equal("a", "") &&
          !graft_security_equal("", "a") && !graft_security_equal("aa", "a"));
}

static void text_is_utf8(void)
{
    static const char *const bad[] = {"\x80",         "\xc0\xaf",         "\xe0\x80\xaf",
                                      "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80",
                                      "a\xff",        "\xe2\x82"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!graft_str_is_utf8(bad[i], strlen(bad[i])));
    CHECK(graft_str_is_utf8("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x8d\x8e", 15));
}

int main(void)
{
    RUN(hosts);
    RUN(origins);
    RUN(tokens);
    RUN(text_is_utf8);
    return test_end();
}
