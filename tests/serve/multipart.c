#include "host/serve/multipart.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "tests/test.h"

#define TYPE             "multipart/form-data; boundary=xyz"
#define PART(head, data) "--xyz\r\nContent-Disposition: form-data; " head "\r\n\r\n" data "\r\n"

static graft_status parse(const char *type, const char *body, graft_multipart *m)
{
    return graft_multipart_parse(type, (const uint8_t *)body, strlen(body), m, NULL);
}

static void parts_are_found(void)
{
    graft_multipart m;
    char text[16];
    graft_err e = GRAFT_ERR_INIT;
    const char *body = PART("name=\"image\"; filename=\"a \\\"b\\\".png\"", "PNG\r\n--xy data")
        PART("name=type", "input") PART("name=\"empty\"", "") "--xyz--\r\n";
    CHECK_OK(parse(TYPE, body, &m), &e);
    CHECK_INT(m.count, 3);
    const graft_multipart_part *p = graft_multipart_find(&m, "image");
    CHECK(p && p->size == strlen("PNG\r\n--xy data"));
    if (p) CHECK_STR(p->filename, "a \"b\".png");
    CHECK(graft_multipart_text(&m, "type", text, sizeof text));
    CHECK_STR(text, "input");
    CHECK(graft_multipart_text(&m, "empty", text, sizeof text));
    CHECK_STR(text, "");
    CHECK(!graft_multipart_text(&m, "none", text, sizeof text));
    CHECK(!graft_multipart_text(&m, "type", text, 5));
}

static void forms_of_the_header(void)
{
    graft_multipart m;
    const char *body = PART("filename=\"x;name=evil\"; name=\"n\"", "1") "--xyz--";
    CHECK_INT(parse("Multipart/Form-Data; charset=utf-8; boundary=\"xyz\"", body, &m), GRAFT_OK);
    CHECK_INT(m.count, 1);
    CHECK_STR(m.part[0].name, "n");
    CHECK_STR(m.part[0].filename, "x;name=evil");
    CHECK_INT(parse("preamble: multipart/form-data; boundary=xyz", body, &m), GRAFT_E_FORMAT);
    CHECK_INT(parse("multipart/form-data", body, &m), GRAFT_E_FORMAT);
    CHECK_INT(parse("multipart/form-data; boundary=", body, &m), GRAFT_E_FORMAT);
    CHECK_INT(graft_multipart_parse(NULL, (const uint8_t *)"", 0, &m, NULL), GRAFT_E_FORMAT);
}

static void damage_is_refused(void)
{
    static const char *const bad[] = {
        "",
        "--xyz",
        "--xyz\r\n",
        "--xyz\r\n\r\n",
        "hello",
        PART("name=\"a\"", "1"),
        PART("filename=\"a\"", "1") "--xyz--",
        "--xyz\r\nX: y\r\n\r\n1\r\n--xyz--",
        "--xyz\r\nContent-Disposition: form-data; name=\"a\r\n\r\n1\r\n--xyz--"};
    graft_multipart m;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(parse(TYPE, bad[i], &m), GRAFT_E_FORMAT);
    char many[8192] = "";
    for (int i = 0; i < GRAFT_MULTIPART_MAX + 1; i++) strcat(many, PART("name=a", "1"));
    strcat(many, "--xyz--");
    CHECK_INT(parse(TYPE, many, &m), GRAFT_E_LIMIT);
}

/* Every cut of a good body, and every byte of it changed, in memory of exactly its size. */
static void nothing_is_read_outside(void)
{
    const char *good =
        PART("name=\"image\"; filename=\"a.png\"", "data") PART("name=b", "1") "--xyz--\r\n";
    size_t n = strlen(good);
    graft_multipart m;
    for (size_t cut = 0; cut <= n; cut++) {
        uint8_t *copy = malloc(cut ? cut : 1);
        memcpy(copy, good, cut);
        graft_multipart_parse(TYPE, copy, cut, &m, NULL);
        for (size_t i = 0; i < m.count; i++)
            CHECK(m.part[i].data >= copy && m.part[i].data + m.part[i].size <= copy + cut);
        free(copy);
    }
    uint8_t *copy = malloc(n);
    for (size_t i = 0; i < n; i++)
        for (int v = 0; v < 256; v += 13) {
            memcpy(copy, good, n);
            copy[i] = (uint8_t)v;
            graft_multipart_parse(TYPE, copy, n, &m, NULL);
        }
    CHECK(m.count <= GRAFT_MULTIPART_MAX);
    free(copy);
}

int main(void)
{
    RUN(parts_are_found);
    RUN(forms_of_the_header);
    RUN(damage_is_refused);
    RUN(nothing_is_read_outside);
    return test_end();
}
