/* Models in several files (base/part.h), which are opened as one. */
#include "base/part.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/weights/safetensors.h"
#include "tests/test.h"

enum { PARTS = 3, VALUES = 6 };
static char folder[64];
static const float values[VALUES] = {1, 2, 3, 4, 5, 6};

static const char *in_folder(const char *name)
{
    static char path[4][160];
    static int at;
    at = (at + 1) % 4;
    snprintf(path[at], sizeof *path, "%s/%s", folder, name);
    return path[at];
}

static const char *part_path(int number)
{
    char name[64];
    snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", number, PARTS);
    return in_folder(name);
}

static graft_st_tensor numbers(const char *name, int first, int n)
{
    return (graft_st_tensor){.name = name,
                             .dtype = GRAFT_F32,
                             .rank = 1,
                             .shape = {n},
                             .data = values + first,
                             .bytes = (uint64_t)n * sizeof *values};
}

static void write_part(int number, const graft_st_tensor *t, size_t n, const char *maker)
{
    const char *const metadata[] = {"format", "pt", "maker", maker, NULL};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_safetensors_write(part_path(number), t, n, metadata, true, &e), &e);
}

/* c and a; nothing; b. */
static void write_parts(void)
{
    const graft_st_tensor first[2] = {numbers("c", 0, 2), numbers("a", 2, 1)};
    const graft_st_tensor last = numbers("b", 3, 3);
    write_part(1, first, 2, "first");
    write_part(2, NULL, 0, "second");
    write_part(3, &last, 1, "third");
}

static void names_of_parts(void)
{
    static const char *const others[] = {"model.safetensors",
                                         "model-00001-of-00001.safetensors",
                                         "model-00000-of-00003.safetensors",
                                         "model-00004-of-00003.safetensors",
                                         "model-0001-of-00003.safetensors",
                                         "model-00001-of-0003.safetensors",
                                         "model-00001-of-00003.GGUF",
                                         "model-00001-of-00003",
                                         "model_00001-of-00003.safetensors",
                                         "00001-of-00003.safetensors",
                                         "model-00001-or-00003.safetensors",
                                         "model-0000a-of-00003.safetensors",
                                         "model-00001-of-00003.json.safetensors",
                                         ".safetensors",
                                         ""};
    graft_part p;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        CHECK(!graft_part_of(others[i], &p));
        if (graft_part_of(others[i], &p)) fprintf(stderr, "  %s\n", others[i]);
    }
    CHECK(graft_part_of("a.b/x-00012-of-99999.sft", &p));
    CHECK_INT(p.number, 12);
    CHECK_INT(p.count, 99999);
    char *other = graft_part_path("a.b/x-00012-of-99999.sft", &p, 99999);
    CHECK_STR(other, "a.b/x-99999-of-99999.sft");
    graft_free(other);
    CHECK(graft_part_of("-00003-of-00003.safetensors", &p) && p.number == 3);
    CHECK_INT(graft_part_stem(&p), 0);
    CHECK(graft_part_of("b/model-00002-of-00003.gguf", &p) && p.number == 2 && p.count == 3);
    CHECK_INT(graft_part_stem(&p), strlen("b/model"));
}

static bool holds(const graft_safetensors *f, const char *name, int first, int n)
{
    const graft_st_tensor *t = graft_safetensors_find(f, name);
    return t && t->rank == 1 && t->shape[0] == n &&
           memcmp(t->data, values + first, (size_t)n * sizeof *values) == 0;
}

/* By any of them. */
static void opened_as_one(void)
{
    write_parts();
    for (int number = 1; number <= PARTS; number++) {
        graft_safetensors *f = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_safetensors_open(part_path(number), &f, &e), &e);
        if (!f) continue;
        CHECK_INT(graft_safetensors_count(f), 3);
        CHECK(holds(f, "a", 2, 1) && holds(f, "b", 3, 3) && holds(f, "c", 0, 2));
        CHECK_STR(graft_safetensors_at(f, 2)->name, "b");
        CHECK_STR(graft_safetensors_metadata(f, "maker"), "first");
        CHECK_STR(graft_safetensors_path(f), part_path(number));
        for (size_t i = 0; i < 3; i++) graft_safetensors_forget(f, graft_safetensors_at(f, i));
        CHECK(holds(f, "b", 3, 3) && holds(f, "c", 0, 2));
        graft_safetensors_close(f);
    }
}

/* A scale belongs to its weight wherever it lies. */
static void scales_of_other_parts(void)
{
    const uint8_t codes[2] = {0x38, 0xc0}; /* 1 and -2 in E4M3 */
    const float scale = 4;
    const graft_st_tensor weight = {.name = "layer.weight",
                                    .dtype = GRAFT_F8_E4M3,
                                    .rank = 2,
                                    .shape = {1, 2},
                                    .data = codes,
                                    .bytes = sizeof codes};
    const graft_st_tensor its = {
        .name = "layer.scale_weight", .dtype = GRAFT_F32, .data = &scale, .bytes = sizeof scale};
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_parts();
    write_part(1, &weight, 1, "first");
    write_part(3, &its, 1, "third");
    CHECK_OK(graft_safetensors_open(part_path(1), &f, &e), &e);
    const graft_st_tensor *t = f ? graft_safetensors_find(f, "layer.weight") : NULL;
    CHECK(t && t->scale == 4);
    const graft_st_tensor *s = f ? graft_safetensors_find(f, "layer.scale_weight") : NULL;
    CHECK(s && s->part);
    graft_safetensors_close(f);
}

static void refused(int asked, graft_status code, const char *word, const char *more)
{
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_safetensors_open(part_path(asked), &f, &e), code);
    CHECK(!f && strstr(e.text, word) && strstr(e.text, more));
    if (!strstr(e.text, word) || !strstr(e.text, more)) fprintf(stderr, "  \"%s\"\n", e.text);
    graft_safetensors_close(f);
}

static void what_does_not_fit(void)
{
    graft_err e = GRAFT_ERR_INIT;
    const graft_st_tensor twice = numbers("c", 0, 1);
    write_parts();
    CHECK_INT(unlink(part_path(2)), 0);
    refused(3, GRAFT_E_NOTFOUND, "00003-of-00003.safetensors: the model is in 3 parts, and ",
            "and model-00002-of-00003.safetensors is missing");
    write_part(2, &twice, 1, "second");
    refused(1, GRAFT_E_FORMAT, "tensor \"c\" occurs twice", "00001-of-00003");
    CHECK_OK(graft_file_write(part_path(2), "<!DOCTYPE html>", 15, &e), &e);
    refused(1, GRAFT_E_FORMAT, "a web page", "model-00002-of-00003.safetensors");
    CHECK_OK(graft_file_write(part_path(2), "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24, &e),
             &e);
    refused(1, GRAFT_E_FORMAT,
            "model-00002-of-00003.safetensors: a GGUF file, but the parts before", "are none");
}

/* Whichever part it is, it is seen. */
static void changes_are_noticed(void)
{
    graft_safetensors *a = NULL, *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_st_tensor last = numbers("b", 0, 3);
    write_parts();
    CHECK_OK(graft_safetensors_open(part_path(1), &a, &e), &e);
    CHECK_OK(graft_safetensors_open(part_path(2), &b, &e), &e);
    CHECK(a && b && graft_safetensors_same(a, b));
    graft_safetensors_close(b);
    b = NULL;
    write_part(3, &last, 1, "third"); /* replaced: the old one stays as it was */
    CHECK_OK(graft_safetensors_open(part_path(1), &b, &e), &e);
    CHECK(a && b && !graft_safetensors_same(a, b));
    CHECK(a && holds(a, "b", 3, 3) && b && holds(b, "b", 0, 3));
    CHECK(a && graft_safetensors_check(a, &e) == GRAFT_OK);
    FILE *into = fopen(part_path(3), "r+b");
    CHECK(into && fputc(9, into) == 9);
    if (into) fclose(into);
    CHECK(b && graft_safetensors_check(b, &e) == GRAFT_E_IO);
    CHECK(strstr(e.text, "model-00003-of-00003.safetensors was written to"));
    graft_safetensors_close(a);
    graft_safetensors_close(b);
}

/* A file's tensors may join another's. */
static void added(void)
{
    graft_safetensors *a = NULL, *b = NULL, *same = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const char *first = in_folder("a.safetensors"), *second = in_folder("b.safetensors");
    const graft_st_tensor c = numbers("c", 0, 2), d[2] = {numbers("d", 2, 3), numbers("e", 5, 1)};
    CHECK_OK(graft_safetensors_write(first, &c, 1, NULL, true, &e), &e);
    CHECK_OK(graft_safetensors_write(second, d, 2, NULL, true, &e), &e);
    CHECK_OK(graft_safetensors_open(first, &a, &e), &e);
    CHECK_OK(graft_safetensors_open(first, &same, &e), &e);
    CHECK_OK(graft_safetensors_open(second, &b, &e), &e);
    if (!a || !b || !same) return;
    CHECK(graft_safetensors_same(a, same));
    CHECK_OK(graft_safetensors_add(a, b, &e), &e);
    CHECK_INT(graft_safetensors_count(a), 3);
    CHECK(holds(a, "c", 0, 2) && holds(a, "d", 2, 3) && holds(a, "e", 5, 1));
    for (size_t i = 0; i < 3; i++) graft_safetensors_forget(a, graft_safetensors_at(a, i));
    CHECK(holds(a, "d", 2, 3) && graft_safetensors_check(a, &e) == GRAFT_OK);
    CHECK(!graft_safetensors_same(a, same) && !graft_safetensors_same(same, a));
    CHECK_OK(graft_safetensors_open(second, &b, &e), &e);
    CHECK_OK(graft_safetensors_add(same, b, &e), &e);
    CHECK(graft_safetensors_same(a, same));
    graft_safetensors_close(same);
    CHECK_OK(graft_safetensors_open(first, &same, &e), &e);
    CHECK_OK(graft_safetensors_open(first, &b, &e), &e);
    CHECK_INT(graft_safetensors_add(same, b, &e), GRAFT_E_FORMAT); /* c is in both */
    graft_safetensors_close(b);
    graft_safetensors_close(same);
    FILE *into = fopen(second, "r+b");
    CHECK(into && fputc(9, into) == 9);
    if (into) fclose(into);
    CHECK(graft_safetensors_check(a, &e) == GRAFT_E_IO && strstr(e.text, "b.safetensors"));
    graft_safetensors_close(a);
    unlink(first);
    unlink(second);
}

/* Slices along the third dimension, and those that are none of one tensor. */
static void sliced(void)
{
    static const float want[12] = {1, 2, 7, 8, 3, 4, 9, 10, 5, 6, 11, 12};
    float x[12];
    for (int i = 0; i < 12; i++) x[i] = (float)(i + 1);
    const graft_st_tensor t[3] = {
        {.name = "s", .dtype = GRAFT_F32, .rank = 3, .shape = {3, 1, 2}, .data = x, .bytes = 24},
        {.name = "t",
         .dtype = GRAFT_F32,
         .rank = 3,
         .shape = {3, 1, 2},
         .data = x + 6,
         .bytes = 24},
        {.name = "u", .dtype = GRAFT_F32, .rank = 3, .shape = {1, 3, 2}, .data = x, .bytes = 24}};
    const graft_st_alias good[3] = {
        {.name = "whole", .slices = true, .next = 2}, {.piece = true}, {.name = NULL}};
    const graft_st_alias bad[3] = {
        {.name = "whole", .slices = true, .next = 3}, {.name = NULL}, {.piece = true}};
    const char *path = in_folder("s.safetensors");
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_safetensors_write(path, t, 3, NULL, true, &e), &e);
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    CHECK_OK(graft_safetensors_rename(f, good, &e), &e);
    const graft_st_tensor *w = graft_safetensors_find(f, "whole");
    CHECK(w && w->rank == 4 && w->shape[0] == 3 && w->shape[1] == 1 && w->shape[2] == 2 &&
          w->shape[3] == 2 && memcmp(w->data, want, sizeof want) == 0);
    CHECK_INT(graft_safetensors_count(f), 2);
    graft_safetensors_close(f);
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    CHECK_INT(graft_safetensors_rename(f, bad, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "slices of tensor s do not fit"));
    graft_safetensors_close(f);
    unlink(path);
}

static void every_allocation_fails(void)
{
    graft_alloc_stats before, after;
    graft_status st = GRAFT_E_NOMEM;
    int64_t n;
    write_parts();
    graft_alloc_stats_get(&before);
    for (n = 1; n < 200 && st; n++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_safetensors *f;
        graft_alloc_fail_at(n);
        st = graft_safetensors_open(part_path(1), &f, &e);
        graft_alloc_fail_at(0);
        if (st) CHECK_INT(st, GRAFT_E_NOMEM);
        if (st) CHECK(e.text[0] && !f);
        graft_safetensors_close(f);
    }
    CHECK(n > 10 && n < 200);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

int main(void)
{
    snprintf(folder, sizeof folder, "/tmp/graft-parts-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    RUN(names_of_parts);
    RUN(opened_as_one);
    RUN(scales_of_other_parts);
    RUN(what_does_not_fit);
    RUN(changes_are_noticed);
    RUN(added);
    RUN(sliced);
    RUN(every_allocation_fails);
    for (int i = 1; i <= PARTS; i++) unlink(part_path(i));
    rmdir(folder);
    return test_end();
}
