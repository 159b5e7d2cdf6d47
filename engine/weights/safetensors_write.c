#include <inttypes.h>
#include <string.h>

#include "base/file.h"
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
    if (!graft_str_is_utf8(t->name, strlen(t->name)))
        return graft_fail(e, GRAFT_E_ARG, "tensor \"%.200s\": the name is not UTF-8", t->name);
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

/* The reader's rules are the rules for what is written: unique names, UTF-8, sizes that fit. */
static graft_status check(const graft_file_writer *w, const char *path, graft_err *e)
{
    graft_mapping map = {0};
    graft_safetensors *f = NULL;
    graft_status st = graft_file_map(graft_file_writer_name(w), &map, e);
    if (!st) st = graft_safetensors_open_memory(map.data, map.size, path, &f, e);
    graft_safetensors_close(f);
    graft_file_unmap(&map);
    if (st == GRAFT_E_FORMAT || st == GRAFT_E_UNSUPPORTED) st = GRAFT_E_ARG;
    if (st && e) e->code = st;
    return st;
}

static graft_status add_header(graft_file_writer *w, const graft_str *header, graft_err *e)
{
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)header->len >> (8 * i));
    graft_status st = graft_file_writer_add(w, length, sizeof length, e);
    return st ? st : graft_file_writer_add(w, header->data, header->len, e);
}

graft_status graft_safetensors_write_from(const char *path, const graft_st_tensor *tensors,
                                          size_t n, const char *const *metadata, bool replace,
                                          graft_safetensors_source *source, void *ctx, graft_err *e)
{
    graft_str header = GRAFT_STR_INIT;
    graft_file_writer *w = NULL;
    uint64_t data_size;
    graft_status st;
    GRAFT_TRY(make_header(&header, tensors, n, metadata, &data_size, e));
    GRAFT_TRY(graft_file_writer_open(path, &w, e));
    GRAFT_TRY(add_header(w, &header, e));
    for (size_t i = 0; i < n; i++) {
        const void *data = NULL;
        if (!tensors[i].bytes) continue;
        GRAFT_TRY(source(ctx, i, &data, e));
        GRAFT_TRY(graft_file_writer_add(w, data, (size_t)tensors[i].bytes, e));
    }
    GRAFT_TRY(check(w, path, e));
    GRAFT_TRY(graft_file_writer_commit(w, replace, e));
out:
    graft_file_writer_close(w);
    graft_str_finish(&header);
    return st;
}

static graft_status own_data(void *ctx, size_t i, const void **data, graft_err *e)
{
    (void)e;
    *data = ((const graft_st_tensor *)ctx)[i].data;
    return GRAFT_OK;
}

graft_status graft_safetensors_write(const char *path, const graft_st_tensor *tensors, size_t n,
                                     const char *const *metadata, bool replace, graft_err *e)
{
    return graft_safetensors_write_from(path, tensors, n, metadata, replace, own_data,
                                        (void *)tensors, e);
}
