#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/size.h"
#include "base/str.h"
#include "engine/weights/safetensors.h"
#include "engine/weights/safetensors_dtype.h"

#define ALIGN 8u

static const char *dtype_name(graft_dtype dtype)
{
    for (int i = 0; i < GRAFT_ST_DTYPE_COUNT; i++)
        if (dtype != GRAFT_DTYPE_NONE && graft_st_dtype_names[i].dtype == dtype)
            return graft_st_dtype_names[i].name;
    return NULL;
}

static void append_metadata(graft_str *s, const char *const *metadata)
{
    graft_str_puts(s, "\"__metadata__\":{");
    for (size_t i = 0; metadata[i]; i += 2) {
        if (i) graft_str_puts(s, ",");
        graft_str_json(s, metadata[i]);
        graft_str_puts(s, ":");
        graft_str_json(s, metadata[i + 1]);
    }
    graft_str_puts(s, "}");
}

/* Appends the tensor's entry; *at moves past its bytes. */
static graft_status append_tensor(graft_str *s, const graft_st_tensor *t, uint64_t *at,
                                  graft_err *e)
{
    const char *dtype = dtype_name(t->dtype);
    uint64_t begin = *at;
    if (!dtype || t->rank < 0 || t->rank > GRAFT_SAFETENSORS_MAX_RANK)
        return graft_fail(e, GRAFT_E_ARG, "tensor \"%.200s\": dtype %d or rank %d out of range",
                          t->name, (int)t->dtype, t->rank);
    if (__builtin_add_overflow(*at, t->bytes, at))
        return graft_fail(e, GRAFT_E_LIMIT, "tensor \"%.200s\": too much data", t->name);
    graft_str_json(s, t->name);
    graft_str_printf(s, ":{\"dtype\":\"%s\",\"shape\":[", dtype);
    for (int i = 0; i < t->rank; i++) graft_str_printf(s, "%s%" PRId64, i ? "," : "", t->shape[i]);
    graft_str_printf(s, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, *at);
    return GRAFT_OK;
}

static graft_status make_header(graft_str *s, const graft_st_tensor *tensors, size_t n,
                                const char *const *metadata, uint64_t *data_size, graft_err *e)
{
    *data_size = 0;
    graft_str_puts(s, "{");
    if (metadata) append_metadata(s, metadata);
    for (size_t i = 0; i < n; i++) {
        if (i || metadata) graft_str_puts(s, ",");
        graft_status st = append_tensor(s, &tensors[i], data_size, e);
        if (st) return st;
    }
    graft_str_puts(s, "}");
    while (!s->failed && s->len % ALIGN) graft_str_puts(s, " ");
    return s->failed ? graft_fail_nomem(e, "the header of a safetensors file") : GRAFT_OK;
}

static void put_length(size_t length, uint8_t out[8])
{
    for (int i = 0; i < 8; i++) out[i] = (uint8_t)((uint64_t)length >> (8 * i));
}

/* The reader's rules are the rules for what is written: unique names, UTF-8, sizes that fit. */
static graft_status blame_caller(graft_status st, graft_err *e)
{
    if (st == GRAFT_E_FORMAT || st == GRAFT_E_UNSUPPORTED) st = GRAFT_E_ARG;
    if (st && e) e->code = st;
    return st;
}

graft_status graft_safetensors_write(const char *path, const graft_st_tensor *tensors, size_t n,
                                     const char *const *metadata, int replace, graft_err *e)
{
    graft_str header = GRAFT_STR_INIT;
    graft_safetensors *check = NULL;
    uint8_t *file = NULL;
    uint64_t data_size;
    size_t size;
    graft_status st = GRAFT_OK;
    GRAFT_TRY(make_header(&header, tensors, n, metadata, &data_size, e));
    if (!graft_size_add(8 + header.len, (size_t)data_size, &size)) {
        st = graft_fail(e, GRAFT_E_LIMIT, "%s: too much data", path);
        goto out;
    }
    file = graft_malloc(size);
    if (!file) {
        st = graft_fail_nomem(e, "a safetensors file");
        goto out;
    }
    put_length(header.len, file);
    memcpy(file + 8, header.data, header.len);
    uint8_t *at = file + 8 + header.len;
    for (size_t i = 0; i < n; i++) {
        if (tensors[i].bytes) memcpy(at, tensors[i].data, (size_t)tensors[i].bytes);
        at += tensors[i].bytes;
    }
    GRAFT_TRY(blame_caller(graft_safetensors_open_memory(file, size, path, &check, e), e));
    GRAFT_TRY(replace ? graft_file_write(path, file, size, e)
                      : graft_file_write_new(path, file, size, e));
out:
    graft_safetensors_close(check);
    graft_free(file);
    graft_str_finish(&header);
    return st;
}

graft_status graft_safetensors_write_from(const char *path, const graft_st_tensor *tensors,
                                          size_t n, const char *const *metadata,
                                          graft_safetensors_source *source, void *ctx, graft_err *e)
{
    graft_str header = GRAFT_STR_INIT;
    graft_file_writer *w = NULL;
    graft_safetensors *check = NULL;
    uint8_t length[8];
    uint64_t data_size;
    graft_status st;
    GRAFT_TRY(make_header(&header, tensors, n, metadata, &data_size, e));
    GRAFT_TRY(graft_file_writer_open(path, &w, e));
    put_length(header.len, length);
    GRAFT_TRY(graft_file_writer_add(w, length, sizeof length, e));
    GRAFT_TRY(graft_file_writer_add(w, header.data, header.len, e));
    for (size_t i = 0; i < n; i++) {
        const void *data = NULL;
        if (!tensors[i].bytes) continue;
        GRAFT_TRY(source(ctx, i, &data, e));
        GRAFT_TRY(graft_file_writer_add(w, data, (size_t)tensors[i].bytes, e));
    }
    GRAFT_TRY(blame_caller(graft_safetensors_open(graft_file_writer_name(w), &check, e), e));
    GRAFT_TRY(graft_file_writer_commit(w, e));
out:
    graft_safetensors_close(check);
    graft_file_writer_close(w);
    graft_str_finish(&header);
    return st;
}
