#include "engine/weights/safetensors.h"

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "tests/test.h"

/* A file in memory: the header's text, then `data` zero bytes. */
typedef struct image {
    uint8_t *bytes;
    size_t size;
} image;

static image make(const char *header, size_t data)
{
    size_t n = strlen(header);
    image im = {calloc(1, 8 + n + data + 1), 8 + n + data};
    for (int i = 0; i < 8; i++) im.bytes[i] = (uint8_t)((uint64_t)n >> (8 * i));
    memcpy(im.bytes + 8, header, n);
    return im;
}

static graft_status open_text(const char *header, size_t data, graft_err *e)
{
    image im = make(header, data);
    graft_safetensors *f;
    graft_status st = graft_safetensors_open_memory(im.bytes, im.size, "test.safetensors", &f, e);
    if (!st) graft_safetensors_close(f);
    CHECK((f == NULL) == (st != GRAFT_OK));
    free(im.bytes);
    return st;
}

/* Refused with `code`, and the message holds the file's name and `words`. */
static void refused_as(int line, graft_status code, const char *header, size_t data,
                       const char *words)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_status st = open_text(header, data, &e);
    CHECK_INT(st, code);
    CHECK(strstr(e.text, words) && strstr(e.text, "test.safetensors"));
    if (st != code || !strstr(e.text, words))
        fprintf(stderr, "  case of line %d: %d \"%s\"\n", line, (int)st, e.text);
}
#define REFUSED(header, data, words) refused_as(__LINE__, GRAFT_E_FORMAT, header, data, words)
#define T(dtype, shape, offsets)                                                                   \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void refuses_bad_lengths(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_safetensors *f;
    uint8_t bytes[64] = {0};
    for (size_t n = 0; n < 8; n++)
        CHECK_INT(graft_safetensors_open_memory(bytes, n, "a", &f, &e), GRAFT_E_FORMAT);
    CHECK_INT(graft_safetensors_open_memory(bytes, 8, "a", &f, &e), GRAFT_E_FORMAT);
    bytes[0] = 57; /* one more than there is */
    CHECK_INT(graft_safetensors_open_memory(bytes, 64, "a", &f, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "cut short"));
    memset(bytes, 0xff, 8);
    CHECK_INT(graft_safetensors_open_memory(bytes, 64, "a", &f, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "18446744073709551615"));
    const uint32_t over = 100000001;
    size_t size = 8 + (size_t)over;
    uint8_t *big = calloc(1, size);
    memcpy(big, &over, 4);
    big[8] = '{';
    CHECK_INT(graft_safetensors_open_memory(big, size, "a", &f, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "100000001"));
    free(big);
}

static void refuses_bad_text(void)
{
    REFUSED("", 0, "expected '{'");
    REFUSED(" {}", 0, "expected '{'");
    REFUSED("[]", 0, "expected '{'");
    REFUSED("{", 0, "header byte 1");
    REFUSED("{}x", 0, "after the header");
    REFUSED("{}{}", 0, "after the header");
    REFUSED("{\"a\"}", 0, "expected ':'");
    REFUSED("{\"a\":1}", 0, "expected '{'");
    REFUSED("{\"a\":null}", 0, "expected '{'");
    REFUSED("{,}", 0, "expected '\"'");
    REFUSED("{\"a\":" T("F32", "[]", "[0,4]") ",}", 4, "expected '\"'");
    REFUSED("{\"a\":" T("F32", "[]", "[0,4]") "", 4, "expected '}'");
    REFUSED("{\"a", 0, "does not end");
    REFUSED("{\"a\\", 0, "escape");
    REFUSED("{\"\\x\":1}", 0, "escape");
    REFUSED("{\"\\u12\":1}", 0, "escape");
    REFUSED("{\"\\u12g4\":1}", 0, "escape");
    REFUSED("{\"\\ud800\":1}", 0, "escape");
    REFUSED("{\"\\ud800\\u0041\":1}", 0, "escape");
    REFUSED("{\"\\udc00\":1}", 0, "escape");
    REFUSED("{\"a\\u0000b\":" T("F32", "[]", "[0,4]") "}", 4, "zero character");
    REFUSED("{\"a\nb\":" T("F32", "[]", "[0,4]") "}", 4, "control");
    REFUSED("{\"\xff\":1}", 0, "UTF-8");
    REFUSED("{\"\xc0\xaf\":1}", 0, "UTF-8");
    REFUSED("{\"\xe0\x80\x80\":1}", 0, "UTF-8");
    REFUSED("{\"\xed\xa0\x80\":1}", 0, "UTF-8");
    REFUSED("{\"\xf4\x90\x80\x80\":1}", 0, "UTF-8");
    REFUSED("{\"\xe2\x82\":1}", 0, "UTF-8");
}

/* What people have renamed, or have got in a model's place. */
static void says_what_else_it_is(void)
{
    static const struct {
        const char *text, *words;
    } other[] = {
        {"", "too short"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "a Git LFS pointer"},
        {"<!DOCTYPE html>\n<html lang=\"en\">", "a web page"},
        {"\r\n  <HTML><body>", "a web page"},
        {"\xef\xbb\xbf<html>", "a web page"},
        {"Access to this model is restricted", "text, not a safetensors file"},
        {"Acc\xc3\xa8s", "text, not a safetensors file"},
        {"404", "text, not a safetensors file"},
        {"PK\3\4........", "graft convert"},
        {"\x01\x02\x03\x04\x05\x06\x07\x08", "header of 578437695752307201 bytes"}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_safetensors *f;
        const char *text = other[i].text;
        CHECK_INT(graft_safetensors_open_memory(text, strlen(text), "a", &f, &e), GRAFT_E_FORMAT);
        if (!strstr(e.text, other[i].words)) CHECK_STR(e.text, other[i].words);
    }
    char page[1000];
    for (size_t i = 0; i < sizeof page; i++) page[i] = "\xe2\x82\xac"[i % 3]; /* cut at byte 256 */
    graft_err e = GRAFT_ERR_INIT;
    graft_safetensors *f;
    CHECK(graft_safetensors_open_memory(page, sizeof page, "a", &f, &e) == GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "a: text, not") != NULL);
}

static void refuses_bad_tensors(void)
{
    REFUSED("{\"a\":{}}", 0, "missing");
    REFUSED("{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 0, "missing");
    REFUSED("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "duplicate member");
    REFUSED("{\"a\":{\"shape\":[],\"size\":4}}", 0, "unknown member");
    REFUSED("{\"abc\":" T("f32", "[]", "[0,4]") "}", 4, "\"abc\": unknown dtype \"f32\"");
    REFUSED("{\"a\":" T("F32", "[-1]", "[0,4]") "}", 4, "negative");
    REFUSED("{\"a\":" T("F32", "[1.0]", "[0,4]") "}", 4, "whole");
    REFUSED("{\"a\":" T("F32", "[1e0]", "[0,4]") "}", 4, "whole");
    REFUSED("{\"a\":" T("F32", "[01]", "[0,4]") "}", 4, "leading");
    REFUSED("{\"a\":" T("F32", "[\"1\"]", "[0,4]") "}", 4, "whole");
    REFUSED("{\"a\":" T("F32", "[1,]", "[0,4]") "}", 4, "whole");
    REFUSED("{\"a\":" T("F32", "1", "[0,4]") "}", 4, "expected '['");
    REFUSED("{\"a\":" T("F32", "[9223372036854775808]", "[0,4]") "}", 4, "too large");
    REFUSED("{\"a\":" T("F32", "[99999999999999999999999]", "[0,4]") "}", 4, "too large");
    REFUSED("{\"a\":" T("F32", "[4294967296,4294967296]", "[0,0]") "}", 0, "too large");
    REFUSED("{\"a\":" T("F32", "[4294967296,4294967296,0]", "[0,0]") "}", 0, "too large");
    REFUSED("{\"a\":" T("F64", "[4611686018427387904]", "[0,0]") "}", 0, "too large");
    REFUSED("{\"a\":" T("F32", "[2]", "[0,4]") "}", 4, "need 8 bytes");
    REFUSED("{\"a\":" T("F16", "[2]", "[0,8]") "}", 8, "need 4 bytes");
    REFUSED("{\"a\":" T("F32", "[]", "[4,0]") "}", 4, "wrong order");
    REFUSED("{\"a\":" T("F32", "[]", "[-4,0]") "}", 4, "negative");
    REFUSED("{\"a\":" T("F32", "[]", "[0]") "}", 4, "expected ','");
    REFUSED("{\"a\":" T("F32", "[]", "[0,4,8]") "}", 4, "expected ']'");
    REFUSED("{\"a\":" T("F32", "[]", "[0,4]") "}", 3, "the data has 3 bytes");
    REFUSED("{\"a\":" T("F32", "[]", "[0,4]") "}", 3, "the file is cut off, perhaps a download");
    REFUSED("{\"a\":" T("F32", "[]", "[18446744073709551612,18446744073709551616]") "}", 3,
            "too large");
    refused_as(__LINE__, GRAFT_E_UNSUPPORTED, "{\"a\":" T("U16", "[]", "[0,2]") "}", 2, "U16");
    refused_as(__LINE__, GRAFT_E_UNSUPPORTED, "{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}",
               1, "8 dimensions");
}

static void refuses_bad_layouts(void)
{
    REFUSED("{}", 1, "after the last tensor");
    REFUSED("{\"a\":" T("U8", "[1]", "[0,1]") "}", 2, "1 bytes of data after");
    REFUSED("{\"a\":" T("U8", "[1]", "[1,2]") "}", 2, "\"a\": a gap");
    REFUSED("{\"a\":" T("U8", "[1]", "[0,1]") ",\"b\":" T("U8", "[1]", "[2,3]") "}", 3,
            "\"b\": a gap");
    REFUSED("{\"a\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[2]", "[1,3]") "}", 3, "overlaps");
    REFUSED("{\"a\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[2]", "[0,2]") "}", 2, "overlaps");
    REFUSED("{\"a\":" T("U8", "[3]", "[0,3]") ",\"b\":" T("U8", "[1]", "[1,2]") "}", 3, "overlaps");
    REFUSED("{\"a\":" T("U8", "[3]", "[0,3]") ",\"b\":" T("U8", "[0]", "[1,1]") "}", 3, "overlaps");
    REFUSED("{\"a\":" T("U8", "[1]", "[0,1]") ",\"a\":" T("U8", "[1]", "[1,2]") "}", 2,
            "\"a\" occurs twice");
    REFUSED("{\"a\":" T("U8", "[1]", "[0,1]") ",\"\\u0061\":" T("U8", "[1]", "[1,2]") "}", 2,
            "\"a\" occurs twice");
}

static void refuses_bad_metadata(void)
{
    REFUSED("{\"__metadata__\":[]}", 0, "expected '{'");
    REFUSED("{\"__metadata__\":{\"a\":1}}", 0, "expected '\"'");
    REFUSED("{\"__metadata__\":{\"a\":{}}}", 0, "expected '\"'");
    REFUSED("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "metadata \"a\" occurs twice");
    REFUSED("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate __metadata__");
    REFUSED("{\"__metadata__\":" T("U8", "[1]", "[0,1]") "}", 1, "expected '\"'");
}

static void reads_what_is_allowed(void)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(open_text("{}", 0, &e), &e);
    CHECK_OK(open_text("{}      ", 0, &e), &e);
    CHECK_OK(open_text("{ \"__metadata__\" : { } }\n", 0, &e), &e);
    image im = make("{\"b\" : {\"data_offsets\" : [ 2 , 6 ] , \"shape\" : [ 1 , 1 ] ,"
                    "\"dtype\" : \"F32\"},\n\t\"empty\":" T(
                        "F16", "[3,0]", "[2,2]") ","
                                                 "\"__metadata__\":{\"k\":\"a\\\"\\\\\\/"
                                                 "\\b\\f\\n\\r\\t\\u00e9\\u20ac\\ud83d\\ude00"
                                                 "\",\"z\":\"x\\u0000y\"},"
                                                 "\"a/\xc3\xa9\":" T("BOOL", "[2]", "[0,2]") "}   ",
                    6);
    graft_safetensors *f;
    CHECK_OK(graft_safetensors_open_memory(im.bytes, im.size, "m", &f, &e), &e);
    if (!f) return;
    CHECK_INT(graft_safetensors_count(f), 3);
    CHECK_STR(graft_safetensors_at(f, 0)->name, "a/\xc3\xa9");
    CHECK_STR(graft_safetensors_at(f, 1)->name, "empty");
    CHECK_STR(graft_safetensors_at(f, 2)->name, "b");
    const graft_st_tensor *b = graft_safetensors_find(f, "b");
    CHECK(b == graft_safetensors_at(f, 2));
    CHECK_INT(b->rank, 2);
    CHECK_INT(b->dtype, GRAFT_F32);
    CHECK_INT(b->bytes, 4);
    CHECK((const uint8_t *)b->data == im.bytes + im.size - 4);
    CHECK(graft_safetensors_find(f, "c") == NULL);
    CHECK(graft_safetensors_find(f, "") == NULL);
    CHECK_STR(graft_safetensors_metadata(f, "k"),
              "a\"\\/\b\f\n\r\t\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    CHECK_STR(graft_safetensors_metadata(f, "z"), "x");
    CHECK(graft_safetensors_metadata(f, "q") == NULL);
    const char *value;
    CHECK_STR(graft_safetensors_metadata_at(f, 1, &value), "z");
    CHECK(graft_safetensors_metadata_at(f, 2, &value) == NULL);
    CHECK_STR(graft_safetensors_path(f), "m");
    graft_safetensors_forget(f, b);
    graft_safetensors_close(f);
    graft_safetensors_close(NULL);
    free(im.bytes);
}

static const graft_dtype all_dtypes[] = {GRAFT_F32,   GRAFT_F16,     GRAFT_BF16,   GRAFT_I8,
                                         GRAFT_U8,    GRAFT_I32,     GRAFT_I64,    GRAFT_F64,
                                         GRAFT_BOOL8, GRAFT_F8_E4M3, GRAFT_F8_E5M2};
enum { N_DTYPES = sizeof all_dtypes / sizeof all_dtypes[0] };

static void temp_path(char path[64])
{
    snprintf(path, 64, "/tmp/graft_safetensors_%ld.tmp", (long)getpid());
    unlink(path);
}

static void round_trip(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char path[64], names[N_DTYPES][32];
    uint8_t data[N_DTYPES][64];
    graft_st_tensor t[N_DTYPES];
    temp_path(path);
    for (int i = 0; i < N_DTYPES; i++) {
        snprintf(names[i], sizeof names[i], "t.%d \"\\\n\xc3\xa9", i);
        for (int k = 0; k < 64; k++) data[i][k] = (uint8_t)(i * 64 + k);
        t[i] = (graft_st_tensor){
            .name = names[i], .dtype = all_dtypes[i], .rank = i % 4, .data = data[i]};
        int64_t n = 1;
        for (int d = 0; d < t[i].rank; d++) n *= t[i].shape[d] = i == 7 ? 0 : d + 1;
        t[i].bytes = (uint64_t)n * graft_dtype_size(t[i].dtype);
    }
    const char *metadata[] = {"key", "value", "empty", "", "quote\"", "line\n", NULL};
    CHECK_OK(graft_safetensors_write(path, t, N_DTYPES, metadata, 0, &e), &e);
    CHECK_INT(graft_safetensors_write(path, t, N_DTYPES, metadata, 0, &e), GRAFT_E_ARG);
    CHECK_OK(graft_safetensors_write(path, t, N_DTYPES, metadata, 1, &e), &e);
    graft_safetensors *f;
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    unlink(path);
    if (!f) return;
    CHECK_INT(graft_safetensors_count(f), N_DTYPES);
    CHECK_STR(graft_safetensors_metadata(f, "quote\""), "line\n");
    CHECK_STR(graft_safetensors_metadata(f, "empty"), "");
    for (int i = 0; i < N_DTYPES; i++) {
        const graft_st_tensor *r = graft_safetensors_find(f, names[i]);
        CHECK(r && r->dtype == t[i].dtype && r->rank == t[i].rank && r->bytes == t[i].bytes);
        if (!r) continue;
        CHECK(memcmp(r->shape, t[i].shape, sizeof r->shape) == 0);
        CHECK(memcmp(r->data, data[i], t[i].bytes) == 0);
        graft_safetensors_forget(f, r);
        CHECK(memcmp(r->data, data[i], t[i].bytes) == 0);
    }
    graft_safetensors_close(f);
}

static void writer_refuses(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char path[64];
    temp_path(path);
    float x[2] = {1, 2};
    graft_st_tensor t[2] = {
        {.name = "a", .dtype = GRAFT_F32, .rank = 1, .shape = {1}, .data = x, .bytes = 4},
        {.name = "a", .dtype = GRAFT_F32, .rank = 1, .shape = {1}, .data = x, .bytes = 4}};
    CHECK_INT(graft_safetensors_write(path, t, 2, NULL, 0, &e), GRAFT_E_ARG);
    t[1].name = "__metadata__";
    CHECK_INT(graft_safetensors_write(path, t, 2, NULL, 0, &e), GRAFT_E_ARG);
    t[1].name = "\xff";
    CHECK_INT(graft_safetensors_write(path, t, 2, NULL, 0, &e), GRAFT_E_ARG);
    t[1].name = "b";
    t[1].bytes = 8;
    CHECK_INT(graft_safetensors_write(path, t, 2, NULL, 0, &e), GRAFT_E_ARG);
    CHECK_INT(e.code, GRAFT_E_ARG);
    t[1].bytes = 4;
    t[1].rank = 9;
    CHECK_INT(graft_safetensors_write(path, t, 2, NULL, 0, &e), GRAFT_E_ARG);
    t[1].rank = 1;
    t[1].dtype = GRAFT_DTYPE_NONE;
    CHECK_INT(graft_safetensors_write(path, t, 2, NULL, 0, &e), GRAFT_E_ARG);
    CHECK(!graft_file_exists(path));
    t[1].dtype = GRAFT_F32;
    t[1].shape[0] = -1;
    CHECK_INT(graft_safetensors_write(path, t, 2, NULL, 0, &e), GRAFT_E_ARG);
    CHECK(graft_safetensors_open(path, &(graft_safetensors *){NULL}, &e) != GRAFT_OK);
    CHECK(strstr(e.text, path));
}

/* Time must grow with the size of the header, not with its square. */
static void many_tensors(void)
{
    enum { N = 300000 };
    graft_str s = GRAFT_STR_INIT;
    graft_str_puts(&s, "{");
    for (int i = 0; i < N; i++) { /* backwards, so that sorting has work */
        int at = N - 1 - i;
        graft_str_printf(&s, "%s\"model.block.%d.weight\":" T("F16", "[1,1]", "[%d,%d]"),
                         i ? "," : "", at, 2 * at, 2 * at + 2);
    }
    graft_str_puts(&s, "}");
    image im = make(s.data, 2 * N);
    graft_err e = GRAFT_ERR_INIT;
    graft_safetensors *f;
    clock_t t0 = clock();
    CHECK_OK(graft_safetensors_open_memory(im.bytes, im.size, "many", &f, &e), &e);
    int found = 0;
    for (int i = 0; f && i < N; i++) {
        char name[40];
        snprintf(name, sizeof name, "model.block.%d.weight", i);
        found += graft_safetensors_find(f, name) == graft_safetensors_at(f, (size_t)i);
    }
    double seconds = (double)(clock() - t0) / CLOCKS_PER_SEC;
    printf("%d tensors, header of %zu bytes: %.3f s\n", N, s.len, seconds);
    CHECK_INT(found, N);
    CHECK(seconds < 20);
    graft_safetensors_close(f);
    free(im.bytes);
    graft_str_finish(&s);
}

/* Every prefix and every single changed byte gives an answer and no leak. */
static void damaged_files(void)
{
    image im =
        make("{\"__metadata__\":{\"a\":\"\\u00e9\"},\"w\":" T("F32", "[2,1]", "[0,8]") "}", 8);
    graft_err e;
    graft_safetensors *f;
    graft_alloc_stats before, after;
    graft_alloc_stats_get(&before);
    for (size_t n = 0; n < im.size; n++) {
        uint8_t *cut = malloc(n ? n : 1);
        memcpy(cut, im.bytes, n);
        CHECK(graft_safetensors_open_memory(cut, n, "cut", &f, &e) == GRAFT_E_FORMAT);
        free(cut);
    }
    for (size_t i = 0; i < im.size; i++)
        for (int v = 0; v < 256; v++) {
            uint8_t old = im.bytes[i];
            im.bytes[i] = (uint8_t)v;
            graft_status st = graft_safetensors_open_memory(im.bytes, im.size, "changed", &f, &e);
            CHECK((st == GRAFT_OK) == (f != NULL));
            graft_safetensors_close(f);
            im.bytes[i] = old;
        }
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
    free(im.bytes);
}

/* Names given later: found by them alone, and two tensors cannot have the same one. */
static void renamed(void)
{
    char path[64];
    temp_path(path);
    const float x[6] = {1, 2, 3, 4, 5, 6};
    const graft_st_tensor t[3] = {
        {.name = "a", .dtype = GRAFT_F32, .rank = 2, .shape = {2, 3}, .data = x, .bytes = 24},
        {.name = "b", .dtype = GRAFT_F32, .rank = 1, .shape = {1}, .data = x, .bytes = 4},
        {.name = "c", .dtype = GRAFT_F32, .rank = 1, .shape = {1}, .data = x, .bytes = 4}};
    const graft_st_alias names[3] = {
        {.name = "longer.name", .kernel = true}, {.name = "a", .kernel = true}, {.name = NULL}};
    const graft_st_alias same[3] = {{.name = "c"}, {.name = NULL}, {.name = NULL}};
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_safetensors_write(path, t, 3, NULL, 0, &e), &e);
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    CHECK_OK(graft_safetensors_rename(f, names, &e), &e);
    const graft_st_tensor *a = graft_safetensors_find(f, "longer.name");
    const graft_st_tensor *b = graft_safetensors_find(f, "a");
    const graft_st_tensor *c = graft_safetensors_find(f, "c");
    CHECK(!graft_safetensors_find(f, "b"));
    CHECK(a && a->rank == 4 && a->shape[1] == 3 && a->shape[2] == 1 && a->shape[3] == 1);
    CHECK(a && memcmp(a->data, x, sizeof x) == 0 && strcmp(graft_st_called(a), "a") == 0);
    CHECK(b && b->rank == 1 && strcmp(b->called, "b") == 0);
    CHECK(c && !c->called && strcmp(graft_st_called(c), "c") == 0);
    graft_safetensors_close(f);
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    CHECK_INT(graft_safetensors_rename(f, same, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "tensors a and c are the same one") && strstr(e.text, path));
    graft_safetensors_close(f);
    unlink(path);
}

/* Rows of several in one tensor, halves that change places, and what does not go together. */
static void joined_by_rows(void)
{
    char path[64];
    temp_path(path);
    const float x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const float want[12] = {11, 12, 1, 2, 3, 4, 5, 6}, turned[4] = {9, 10, 7, 8};
    const graft_st_tensor t[5] = {
        {.name = "v", .dtype = GRAFT_F32, .rank = 2, .shape = {2, 2}, .data = x + 2, .bytes = 16},
        {.name = "k", .dtype = GRAFT_F32, .rank = 2, .shape = {1, 2}, .data = x, .bytes = 8},
        {.name = "q", .dtype = GRAFT_F32, .rank = 2, .shape = {1, 2}, .data = x + 10, .bytes = 8},
        {.name = "two", .dtype = GRAFT_F32, .rank = 2, .shape = {2, 2}, .data = x + 6, .bytes = 16},
        {.name = "odd", .dtype = GRAFT_F32, .rank = 2, .shape = {1, 4}, .data = x, .bytes = 16}};
    const graft_st_alias good[5] = {{.piece = true},
                                    {.piece = true, .next = 1},
                                    {.name = "qkv", .next = 2},
                                    {.name = "turned", .exchanged = true},
                                    {.name = NULL}};
    const graft_st_alias bad[3][5] = {{[0] = {.name = "a", .next = 5}, [4] = {.piece = true}},
                                      {[3] = {.name = "a", .next = 5}, [4] = {.piece = true}},
                                      {[4] = {.name = "a", .exchanged = true}}};
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_safetensors_write(path, t, 5, NULL, 0, &e), &e);
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    CHECK_OK(graft_safetensors_rename(f, good, &e), &e);
    CHECK_INT(graft_safetensors_count(f), 3);
    const graft_st_tensor *a = graft_safetensors_find(f, "qkv");
    const graft_st_tensor *b = graft_safetensors_find(f, "turned");
    const graft_st_tensor *c = graft_safetensors_find(f, "odd");
    CHECK(a && a->rank == 2 && a->shape[0] == 4 && a->shape[1] == 2 && a->bytes == 32);
    CHECK(a && memcmp(a->data, want, 32) == 0 && strcmp(graft_st_called(a), "q") == 0);
    CHECK(b && b->shape[0] == 2 && memcmp(b->data, turned, sizeof turned) == 0);
    CHECK(c && memcmp(c->data, x, 16) == 0);
    CHECK(!graft_safetensors_find(f, "v") && !graft_safetensors_find(f, "k"));
    for (size_t i = 0; i < 3; i++) graft_safetensors_forget(f, graft_safetensors_at(f, i));
    CHECK(a && memcmp(a->data, want, 32) == 0);
    graft_safetensors_close(f);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
        CHECK_INT(graft_safetensors_rename(f, bad[i], &e), GRAFT_E_FORMAT);
        CHECK(strstr(e.text, path) && strstr(e.text, "odd"));
        graft_safetensors_close(f);
    }
    unlink(path);
}

static void every_allocation_fails(void)
{
    char path[64];
    temp_path(path);
    float x[2] = {1, 2};
    graft_st_tensor t = {
        .name = "a", .dtype = GRAFT_F32, .rank = 1, .shape = {2}, .data = x, .bytes = 8};
    const char *metadata[] = {"key", "value", NULL};
    graft_alloc_stats before, after;
    graft_alloc_stats_get(&before);
    graft_status st = GRAFT_E_NOMEM;
    int64_t n;
    for (n = 1; n < 200 && st; n++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_alloc_fail_at(n);
        st = graft_safetensors_write(path, &t, 1, metadata, 0, &e);
        graft_alloc_fail_at(0);
        if (st) CHECK_INT(st, GRAFT_E_NOMEM);
        if (st) CHECK(e.text[0] && !graft_file_exists(path));
    }
    CHECK(n > 5 && n < 200);
    st = GRAFT_E_NOMEM;
    for (n = 1; n < 200 && st; n++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_safetensors *f;
        graft_alloc_fail_at(n);
        st = graft_safetensors_open(path, &f, &e);
        graft_alloc_fail_at(0);
        if (st) CHECK_INT(st, GRAFT_E_NOMEM);
        if (st) CHECK(e.text[0] && !f);
        graft_safetensors_close(f);
    }
    CHECK(n > 6 && n < 200);
    unlink(path);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

static void reference_files(void)
{
    static const char *const names[] = {"noise", "schedules", "samplers", "vae", "unet_sdxl"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512];
        snprintf(path, sizeof path, GRAFT_SOURCE_DIR "/../shared/golden/%s.safetensors", names[i]);
        if (!graft_file_exists(path)) {
            printf("skipped: %s.safetensors is not beside the source tree\n", names[i]);
            continue;
        }
        graft_err e = GRAFT_ERR_INIT;
        graft_safetensors *f;
        CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
        CHECK(f && graft_safetensors_count(f) > 0);
        graft_safetensors_close(f);
    }
}

#define Q(version) "\"__metadata__\":{\"graft.quantized\":\"" version "\"},"

/* 8 bits: (2,3) values and 2 scales. 4 bits: 2 rows of a group, 2 scales, the sizes 2 x 64. */
static void quantized_tensors(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_safetensors *f = NULL;
    image a = make(
        "{" Q("1") "\"w\":" T("I8", "[2,3]", "[0,6]") ",\"w_scale\":" T("F32", "[2]", "[6,14]") "}",
        14);
    CHECK_OK(graft_safetensors_open_memory(a.bytes, a.size, "a", &f, &e), &e);
    const graft_st_tensor *t = graft_safetensors_find(f, "w");
    CHECK(t && t->dtype == GRAFT_Q8 && t->rank == 2 && t->shape[1] == 3 && t->bytes == 14);
    CHECK(!t->part && graft_safetensors_find(f, "w_scale")->part);
    graft_safetensors_close(f);
    free(a.bytes);
    image c =
        make("{\"__metadata__\":{\"graft.quantized\":\"1\",\"graft.quantized.tensors\":\"1\"},"
             "\"w\":" T("F8_E4M3", "[2,3]", "[0,6]") ",\"w_scale\":" T(
                 "F32", "[2]", "[6,14]") ",\"x\":" T("F8_E4M3", "[2,3]", "[14,20]") "}",
             20);
    CHECK_OK(graft_safetensors_open_memory(c.bytes, c.size, "c", &f, &e), &e);
    t = graft_safetensors_find(f, "w");
    CHECK(t && t->dtype == GRAFT_QF8 && t->rank == 2 && t->shape[1] == 3 && t->bytes == 14);
    t = graft_safetensors_find(f, "x"); /* was so before it was quantized */
    CHECK(t && t->dtype == GRAFT_F8_E4M3 && t->bytes == 6);
    graft_safetensors_close(f);
    free(c.bytes);
    image b = make("{" Q("1") "\"w\":" T("U8", "[2,32]", "[0,64]") ",\"w_scale\":" T(
                       "F32", "[2,1]", "[64,72]") ",\"w_shape\":" T("I64", "[2]", "[72,88]") "}",
                   88);
    uint8_t *shape = b.bytes + b.size - 16;
    shape[0] = 2;
    shape[8] = 64;
    CHECK_OK(graft_safetensors_open_memory(b.bytes, b.size, "b", &f, &e), &e);
    t = graft_safetensors_find(f, "w");
    CHECK(t && t->dtype == GRAFT_Q4 && t->rank == 2 && t->shape[1] == 64 && t->bytes == 72);
    graft_safetensors_close(f);
    static const uint8_t bad[][2] = {{0, 64}, {3, 64}, {2, 65}, {2, 0}, {0xff, 0xff}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        shape[0] = bad[i][0];
        shape[8] = bad[i][1];
        CHECK_INT(graft_safetensors_open_memory(b.bytes, b.size, "b", &f, &e), GRAFT_E_FORMAT);
        CHECK(strstr(e.text, "quantized tensor \"w\""));
    }
    memset(shape, 0x7f, 16);
    CHECK_INT(graft_safetensors_open_memory(b.bytes, b.size, "b", &f, &e), GRAFT_E_FORMAT);
    memset(shape, 0, 16);
    shape[0] = 2, shape[8] = 64;
    memset(shape - 8, 0xff, 4); /* a scale that is no number */
    CHECK_INT(graft_safetensors_open_memory(b.bytes, b.size, "b", &f, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "not finite"));
    free(b.bytes);
}

static void refuses_bad_quantized_tensors(void)
{
    refused_as(
        __LINE__, GRAFT_E_UNSUPPORTED,
        "{" Q("2") "\"w\":" T("I8", "[2,3]", "[0,6]") ",\"w_scale\":" T("F32", "[2]", "[6,14]") "}",
        14, "layout 2");
    REFUSED("{" Q("1") "\"w\":" T("I8", "[2,3]", "[0,6]") "}", 6, "its scale is missing");
    REFUSED(
        "{" Q("1") "\"w\":" T("U8", "[2,3]", "[0,6]") ",\"w_scale\":" T("F32", "[2]", "[6,14]") "}",
        14, "its shape is missing");
    REFUSED(
        "{" Q("1") "\"w\":" T("I8", "[6]", "[0,6]") ",\"w_scale\":" T("F32", "[6]", "[6,30]") "}",
        30, "no weight of a layer");
    REFUSED(
        "{" Q("1") "\"w\":" T("I8", "[2,3]", "[0,6]") ",\"w_scale\":" T("F32", "[3]", "[6,18]") "}",
        18, "wrong shape");
    REFUSED(
        "{" Q("1") "\"w\":" T("I8", "[2,3]", "[0,6]") ",\"w_scale\":" T("F16", "[2]", "[6,10]") "}",
        10, "not F32");
    REFUSED(
        "{\"__metadata__\":{\"graft.quantized\":\"1\",\"graft.quantized.tensors\":\"1\"},\"w\":" T(
            "F8_E4M3", "[2,3]", "[0,6]") "}",
        6, "0 quantized tensors with their scales, where 1 should be");
    REFUSED("{" Q("1") "\"v\":" T("I8", "[2,3]", "[0,6]") ",\"v_scale\":" T(
                "F32", "[2]", "[6,14]") ",\"w\":" T("F8_E4M3", "[2,3]",
                                                    "[14,20]") ",\"w_scale\":" T("F32", "[2]",
                                                                                 "[20,28]") "}",
            28, "quantized otherwise");
    REFUSED(
        "{" Q("1") "\"w_scale\":" T("F32", "[2]", "[0,8]") ",\"w\":" T("I8", "[2,3]", "[8,14]") "}",
        14, "does not lie behind it");
    REFUSED(
        "{" Q("1") "\"w\":" T("I8", "[0,3]", "[0,0]") ",\"w_scale\":" T("F32", "[0]", "[0,0]") "}",
        0, "no weight of a layer");
}

int main(void)
{
    RUN(refuses_bad_lengths);
    RUN(refuses_bad_text);
    RUN(says_what_else_it_is);
    RUN(refuses_bad_tensors);
    RUN(refuses_bad_layouts);
    RUN(refuses_bad_metadata);
    RUN(reads_what_is_allowed);
    RUN(round_trip);
    RUN(writer_refuses);
    RUN(many_tensors);
    RUN(damaged_files);
    RUN(renamed);
    RUN(joined_by_rows);
    RUN(every_allocation_fails);
    RUN(reference_files);
    RUN(quantized_tensors);
    RUN(refuses_bad_quantized_tensors);
    return test_end();
}
