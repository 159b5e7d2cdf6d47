#include "bench/model_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/str.h"
#include "bench/normal.h"

static uint64_t seed_of(const model_file *o, const model_tensor *t)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *c = t->name; *c; c++) h = (h ^ (uint8_t)*c) * 0x100000001b3u;
    return h ^ o->seed * 0x9e3779b97f4a7c15u;
}

int64_t model_tensor_count(const model_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    return n;
}

static size_t element_size(const model_file *o, const model_tensor *t)
{
    return t->index ? sizeof(int64_t) : graft_dtype_size(o->dtype);
}

static bool write_indices(const model_tensor *t, FILE *f)
{
    for (int64_t i = 0, n = model_tensor_count(t); i < n; i++)
        if (fwrite(&i, sizeof i, 1, f) != 1) return false;
    return true;
}

static bool write_weights(const model_file *o, const model_tensor *t, const float *quantile,
                          float *values, uint16_t *narrow, FILE *f)
{
    uint64_t state = seed_of(o, t);
    for (int64_t left = model_tensor_count(t); left > 0; left -= GRAFT_NORMAL_QUANTILES) {
        size_t n = left < GRAFT_NORMAL_QUANTILES ? (size_t)left : GRAFT_NORMAL_QUANTILES;
        for (size_t i = 0; i < n; i += 4) {
            uint64_t r = normal_bits(&state);
            for (size_t k = i; k < i + 4 && k < n; k++, r >>= 16)
                values[k] = t->mean + t->spread * quantile[r & 0xffff];
        }
        const void *data = narrow;
        if (o->dtype == GRAFT_F16)
            graft_f32_to_f16_array(values, narrow, n);
        else if (o->dtype == GRAFT_BF16)
            graft_f32_to_bf16_array(values, narrow, n);
        else if (o->dtype == GRAFT_F8_E4M3)
            for (size_t i = 0; i < n; i++) ((uint8_t *)narrow)[i] = graft_f32_to_f8_e4m3(values[i]);
        else
            data = values;
        if (fwrite(data, element_size(o, t), n, f) != n) return false;
    }
    return true;
}

/* The end of a file that is shorter reads as zeros, too. */
static bool write_zeros(const model_file *o, const model_tensor *t, FILE *f)
{
    off_t end = ftello(f) + (off_t)(model_tensor_count(t) * (int64_t)element_size(o, t));
    return !fflush(f) && !ftruncate(fileno(f), end) && !fseeko(f, end, SEEK_SET);
}

static void make_header(const model_file *o, const model_list *l, graft_str *s)
{
    const char *dtype = o->dtype == GRAFT_F32       ? "F32"
                        : o->dtype == GRAFT_F16     ? "F16"
                        : o->dtype == GRAFT_F8_E4M3 ? "F8_E4M3"
                                                    : "BF16";
    uint64_t at = 0;
    graft_str_puts(s, "{\"__metadata__\":{\"format\":\"pt\"");
    if (o->config) {
        graft_str_puts(s, ",\"config\":");
        graft_str_json(s, o->config);
    }
    if (o->model_type) {
        graft_str_puts(s, ",\"model_type\":");
        graft_str_json(s, o->model_type);
    }
    graft_str_puts(s, "}");
    for (size_t i = 0; i < l->n; i++) {
        const model_tensor *t = &l->at[i];
        uint64_t bytes = (uint64_t)model_tensor_count(t) * element_size(o, t);
        graft_str_puts(s, ",");
        graft_str_json(s, t->name);
        graft_str_printf(s, ":{\"dtype\":\"%s\",\"shape\":[", t->index ? "I64" : dtype);
        for (int k = 0; k < t->rank; k++)
            graft_str_printf(s, "%s%" PRId64, k ? "," : "", t->dim[k]);
        graft_str_printf(s, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + bytes);
        at += bytes;
    }
    graft_str_puts(s, "}");
    while (!s->failed && s->len % 8) graft_str_puts(s, " ");
}

static bool write_all(const model_file *o, const model_list *l, const graft_str *header, FILE *f)
{
    float *quantile = graft_malloc_array(GRAFT_NORMAL_QUANTILES, sizeof *quantile);
    float *values = graft_malloc_array(GRAFT_NORMAL_QUANTILES, sizeof *values);
    uint16_t *narrow = graft_malloc_array(GRAFT_NORMAL_QUANTILES, sizeof *narrow);
    uint64_t size = header->len;
    bool ok = quantile && values && narrow && fwrite(&size, sizeof size, 1, f) == 1 &&
              fwrite(header->data, 1, header->len, f) == header->len;
    if (ok) normal_quantiles(quantile);
    for (size_t i = 0; i < l->n && ok; i++)
        ok = l->at[i].index ? write_indices(&l->at[i], f)
             : o->zeros     ? write_zeros(o, &l->at[i], f)
                            : write_weights(o, &l->at[i], quantile, values, narrow, f);
    graft_free(quantile);
    graft_free(values);
    graft_free(narrow);
    return ok;
}

/* Streams into FILE.part, which is renamed when it is whole. */
graft_status model_file_write(const model_file *o, const model_list *l, graft_err *e)
{
    graft_str header = GRAFT_STR_INIT, part = GRAFT_STR_INIT;
    graft_status st = GRAFT_OK;
    make_header(o, l, &header);
    graft_str_printf(&part, "%s.part", o->path);
    FILE *f = part.failed || header.failed ? NULL : fopen(part.data, "wb");
    bool ok = f && write_all(o, l, &header, f);
    if (f && fclose(f)) ok = false;
    if (ok) ok = rename(part.data, o->path) == 0;
    if (!ok) {
        st = graft_fail(e, GRAFT_E_IO, "%s cannot be written", o->path);
        if (part.data) unlink(part.data);
    }
    graft_str_finish(&header);
    graft_str_finish(&part);
    return st;
}
