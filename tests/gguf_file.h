/* GGUF files for tests: tensors in, bytes out. */
#ifndef GRAFT_TESTS_GGUF_FILE_H
#define GRAFT_TESTS_GGUF_FILE_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "engine/weights/safetensors.h"

enum { GGUF_ALIGNMENT = 32 };

/* Grows as it is written; never more than there is room for. */
typedef struct gguf_file {
    uint8_t *data;
    size_t n, room;
} gguf_file;

static inline void gguf_put(gguf_file *f, const void *p, size_t n)
{
    if (f->n + n > f->room) {
        f->room = 2 * (f->n + n);
        f->data = realloc(f->data, f->room);
        if (!f->data) abort();
    }
    if (n) memcpy(f->data + f->n, p, n);
    f->n += n;
}

static inline void gguf_put_number(gguf_file *f, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        uint8_t b = (uint8_t)(v >> 8 * i);
        gguf_put(f, &b, 1);
    }
}

static inline void gguf_put_text(gguf_file *f, const char *text)
{
    gguf_put_number(f, strlen(text), 8);
    gguf_put(f, text, strlen(text));
}

static inline void gguf_align(gguf_file *f)
{
    while (f->n % GGUF_ALIGNMENT) gguf_put(f, "", 1);
}

static inline void gguf_put_pair(gguf_file *f, const char *key, const char *text)
{
    gguf_put_text(f, key);
    gguf_put_number(f, 8, 4);
    gguf_put_text(f, text);
}

/* Magic, version, and counts. */
static inline void gguf_put_header(gguf_file *f, size_t tensors, size_t pairs)
{
    gguf_put(f, "GGUF", 4);
    gguf_put_number(f, 3, 4);
    gguf_put_number(f, tensors, 8);
    gguf_put_number(f, pairs, 8);
}

/* The same, and the first of `pairs` pairs: the architecture. */
static inline void gguf_begin_with(gguf_file *f, const char *architecture, size_t tensors,
                                   size_t pairs)
{
    gguf_put_header(f, tensors, pairs);
    gguf_put_pair(f, "general.architecture", architecture);
}

static inline void gguf_begin(gguf_file *f, const char *architecture, size_t tensors)
{
    gguf_begin_with(f, architecture, tensors, 1);
}

/* Rows that are no whole blocks: such a tensor is laid out as rows of one block. */
static inline bool gguf_is_reshaped(const graft_st_tensor *t)
{
    return t->blocks && t->shape[t->rank - 1] % t->blocks->values;
}

static inline void gguf_put_original_shape(gguf_file *f, const graft_st_tensor *t)
{
    char key[300];
    snprintf(key, sizeof key, "comfy.gguf.orig_shape.%s", t->name);
    gguf_put_text(f, key);
    gguf_put_number(f, 9, 4);
    gguf_put_number(f, 5, 4);
    gguf_put_number(f, (uint64_t)t->rank, 8);
    for (int i = 0; i < t->rank; i++) gguf_put_number(f, (uint64_t)t->shape[i], 4);
}

static inline void gguf_put_info(gguf_file *f, const char *name, int rank, const int64_t *shape,
                                 uint32_t type, uint64_t offset)
{
    gguf_put_text(f, name);
    gguf_put_number(f, (uint64_t)rank, 4);
    for (int i = rank; i-- > 0;) gguf_put_number(f, (uint64_t)shape[i], 8);
    gguf_put_number(f, type, 4);
    gguf_put_number(f, offset, 8);
}

static inline uint32_t gguf_type_of(const graft_st_tensor *t)
{
    if (t->blocks) return t->blocks->id;
    return t->dtype == GRAFT_F16 ? 1 : t->dtype == GRAFT_BF16 ? 30 : t->dtype == GRAFT_I8 ? 24 : 0;
}

/* What a part of several says: its number from 0, how many there are and of how many tensors. */
typedef struct gguf_split {
    uint64_t no, count, tensors;
} gguf_split;

static inline void gguf_put_split(gguf_file *f, const gguf_split *s)
{
    gguf_put_text(f, "split.no");
    gguf_put_number(f, 2, 4);
    gguf_put_number(f, s->no, 2);
    gguf_put_text(f, "split.count");
    gguf_put_number(f, 2, 4);
    gguf_put_number(f, s->count, 2);
    gguf_put_text(f, "split.tensors.count");
    gguf_put_number(f, 5, 4);
    gguf_put_number(f, s->tensors, 4);
}

/* Their infos, and their data at the end of the file. */
static inline void gguf_put_tensors(gguf_file *f, const graft_st_tensor *t, size_t n)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t each = t[i].blocks ? t[i].blocks->values : 1;
        const int64_t flat[2] = {graft_st_values(&t[i]) / each, each};
        const bool other = gguf_is_reshaped(&t[i]);
        gguf_put_info(f, t[i].name, other ? 2 : t[i].rank, other ? flat : t[i].shape,
                      gguf_type_of(&t[i]), offset);
        offset += (t[i].bytes + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
    }
    gguf_align(f);
    for (size_t i = 0; i < n; i++) {
        gguf_put(f, t[i].data, (size_t)t[i].bytes);
        gguf_align(f);
    }
}

/* Pairs of metadata, put one after the other. */
typedef struct gguf_pairs {
    gguf_file bytes;
    size_t n;
} gguf_pairs;

static inline void gguf_add_text(gguf_pairs *p, const char *key, const char *text)
{
    gguf_put_pair(&p->bytes, key, text);
    p->n++;
}

static inline void gguf_add_u32(gguf_pairs *p, const char *key, uint32_t v)
{
    gguf_put_text(&p->bytes, key);
    gguf_put_number(&p->bytes, 4, 4);
    gguf_put_number(&p->bytes, v, 4);
    p->n++;
}

/* A list of n values of this type, which the caller puts behind it. */
static inline void gguf_add_list(gguf_pairs *p, const char *key, uint32_t type, uint64_t n)
{
    gguf_put_text(&p->bytes, key);
    gguf_put_number(&p->bytes, 9, 4);
    gguf_put_number(&p->bytes, type, 4);
    gguf_put_number(&p->bytes, n, 8);
    p->n++;
}

/* A file of these tensors, whose bytes the caller frees; config and more: NULL, or what metadata
 * have. With `split` it is the first of several parts, which has the first n of its tensors. */
static inline gguf_file gguf_with(const char *architecture, const char *config,
                                  const graft_st_tensor *t, size_t n, const gguf_split *split,
                                  const gguf_pairs *more)
{
    gguf_file f = {0};
    const size_t all = split ? (size_t)split->tensors : n;
    size_t reshaped = 0;
    for (size_t i = 0; i < all; i++) reshaped += gguf_is_reshaped(&t[i]);
    gguf_begin_with(&f, architecture, n,
                    1 + reshaped + (config != NULL) + 3 * !!split + (more ? more->n : 0));
    if (config) gguf_put_pair(&f, "config", config);
    for (size_t i = 0; i < all; i++)
        if (gguf_is_reshaped(&t[i])) gguf_put_original_shape(&f, &t[i]);
    if (split) gguf_put_split(&f, split);
    if (more) gguf_put(&f, more->bytes.data, more->bytes.n);
    gguf_put_tensors(&f, t, n);
    return f;
}

static inline gguf_file gguf_of(const char *architecture, const char *config,
                                const graft_st_tensor *t, size_t n)
{
    return gguf_with(architecture, config, t, n, NULL, NULL);
}

/* A part behind the first: no metadata but what it says of itself. */
static inline gguf_file gguf_later_part(const graft_st_tensor *t, size_t n, const gguf_split *split)
{
    gguf_file f = {0};
    gguf_put_header(&f, n, 3);
    gguf_put_split(&f, split);
    gguf_put_tensors(&f, t, n);
    return f;
}

static inline void gguf_write(const gguf_file *f, const char *path)
{
    FILE *to = fopen(path, "wb");
    if (!to || fwrite(f->data, 1, f->n, to) != f->n || fclose(to)) abort();
}

/* The path of a part; number from 1. */
static inline const char *gguf_part_path(const char *stem, size_t number, size_t count, char *out,
                                         size_t size)
{
    snprintf(out, size, "%s-%05zu-of-%05zu.gguf", stem, number, count);
    return out;
}

/* As llama.cpp's gguf-split writes them: STEM-00001-of-…, with tensors one after the other, about
 * as many in each. */
static inline void gguf_write_parts(const char *stem, size_t count, const char *architecture,
                                    const char *config, const graft_st_tensor *t, size_t n,
                                    const gguf_pairs *more)
{
    char path[500];
    for (size_t i = 0; i < count; i++) {
        const size_t from = n * i / count, to = n * (i + 1) / count;
        const gguf_split split = {i, count, n};
        gguf_file f = i ? gguf_later_part(t + from, to - from, &split)
                        : gguf_with(architecture, config, t, to, &split, more);
        gguf_write(&f, gguf_part_path(stem, i + 1, count, path, sizeof path));
        free(f.data);
    }
}

static inline void gguf_remove_parts(const char *stem, size_t count)
{
    char path[500];
    for (size_t i = 0; i < count; i++)
        remove(gguf_part_path(stem, i + 1, count, path, sizeof path));
}

/* Packs n values, a multiple of 32, as Q8_0, which the caller frees, and makes them what that
 * holds. */
static inline uint8_t *gguf_pack_q8_0(float *v, size_t n)
{
    uint8_t *out = malloc(n / 32 * 34 + 1), *p = out;
    if (!out) abort();
    for (size_t at = 0; at < n; at += 32) {
        float most = 0;
        for (size_t i = 0; i < 32; i++) most = fmaxf(most, fabsf(v[at + i]));
        uint16_t half = graft_f32_to_f16(most / 127);
        float d = graft_f16_to_f32(half);
        *p++ = (uint8_t)half;
        *p++ = (uint8_t)(half >> 8);
        for (size_t i = 0; i < 32; i++) {
            float level = d > 0 ? rintf(v[at + i] / d) : 0;
            if (level > 127) level = 127;
            if (level < -127) level = -127;
            *p++ = (uint8_t)(int8_t)level;
            v[at + i] = level * d;
        }
    }
    return out;
}

/* Makes `to`, whose data is freed, the values of `t` as Q8_0, and those what that holds. Both have
 * data of their own, a multiple of 32 float32. */
static inline void gguf_pack_tensor(graft_st_tensor *to, const graft_st_tensor *t)
{
    const size_t n = (size_t)graft_st_values(t);
    free((void *)(uintptr_t)to->data);
    to->data = gguf_pack_q8_0((float *)(uintptr_t)t->data, n);
    to->bytes = n / 32 * 34;
    to->blocks = graft_ggml_blocks_find(8);
}
#endif
