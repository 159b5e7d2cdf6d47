#include "engine/weights/zip.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"

/* Sizes of the records' fixed parts, and their first four bytes. */
enum { END_BYTES = 22, LOCATOR_BYTES = 20, END64_BYTES = 56, ENTRY_BYTES = 46, LOCAL_BYTES = 30 };
#define END_MARK     0x06054b50u
#define LOCATOR_MARK 0x07064b50u
#define END64_MARK   0x06064b50u
#define ENTRY_MARK   0x02014b50u
#define LOCAL_MARK   0x04034b50u
#define IN_EXTRA32   0xffffffffu /* the value is in the 64-bit extra field */
#define IN_EXTRA16   0xffffu
#define MOST_COMMENT 65535u

struct graft_zip {
    graft_zip_entry *entry;
    size_t n, cap;
    graft_map by_name; /* to elements of `entry` */
};

typedef struct reader {
    const uint8_t *data;
    size_t size;
    const char *what;
    graft_err *e;
} reader;

static uint32_t u16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t u32(const uint8_t *p)
{
    return u16(p) | u16(p + 2) << 16;
}

static uint64_t u64(const uint8_t *p)
{
    return u32(p) | (uint64_t)u32(p + 4) << 32;
}

static graft_status bad(const reader *r, const char *problem)
{
    return graft_fail(r->e, GRAFT_E_FORMAT, "%s: damaged zip archive: %s", r->what, problem);
}

/* `n` bytes at `at` that begin with `mark`; NULL when there are none. */
static const uint8_t *record(const reader *r, uint64_t at, size_t n, uint32_t mark)
{
    if (at > r->size || r->size - at < n || u32(r->data + at) != mark) return NULL;
    return r->data + at;
}

/* Where the directory is, and how many entries it has. */
static graft_status find_directory(const reader *r, uint64_t *at, uint64_t *size, uint64_t *count)
{
    const uint8_t *end = NULL;
    size_t tail = r->size < END_BYTES + MOST_COMMENT ? r->size : END_BYTES + MOST_COMMENT;
    uint64_t place = r->size;
    for (size_t back = END_BYTES; back <= tail && !end; back++)
        end = record(r, place = r->size - back, END_BYTES, END_MARK);
    if (!end)
        return graft_fail(r->e, GRAFT_E_FORMAT,
                          "%s: not a zip archive, or cut short: its directory is missing", r->what);
    *count = u16(end + 10);
    *size = u32(end + 12);
    *at = u32(end + 16);
    bool parts = u16(end + 4) || u16(end + 6) || u16(end + 8) != u16(end + 10);
    if (*count == IN_EXTRA16 || *size == IN_EXTRA32 || *at == IN_EXTRA32) {
        const uint8_t *locator =
            place < LOCATOR_BYTES ? NULL
                                  : record(r, place - LOCATOR_BYTES, LOCATOR_BYTES, LOCATOR_MARK);
        const uint8_t *end64 =
            locator ? record(r, u64(locator + 8), END64_BYTES, END64_MARK) : NULL;
        if (!end64) return bad(r, "the 64-bit end of its directory is missing");
        *count = u64(end64 + 32);
        *size = u64(end64 + 40);
        *at = u64(end64 + 48);
        parts = u32(end64 + 16) || u32(end64 + 20) || u64(end64 + 24) != *count;
    }
    if (parts)
        return graft_fail(r->e, GRAFT_E_UNSUPPORTED, "%s: a zip archive in several parts", r->what);
    if (*at > r->size || *size > r->size - *at || *count > *size / ENTRY_BYTES)
        return bad(r, "its directory lies outside of the file");
    return GRAFT_OK;
}

/* Takes the values that did not fit into 32 bits from the extra field. */
static graft_status read_extra(const reader *r, const uint8_t *extra, size_t n, uint64_t *value[3])
{
    while (n >= 4) {
        size_t id = u16(extra), length = u16(extra + 2);
        extra += 4;
        n -= 4;
        if (length > n) return bad(r, "an extra field is longer than its entry");
        if (id == 1) {
            const uint8_t *p = extra;
            for (int i = 0; i < 3; i++) {
                if (*value[i] != IN_EXTRA32) continue;
                if ((size_t)(p - extra) + 8 > length) return bad(r, "a 64-bit size is missing");
                *value[i] = u64(p);
                p += 8;
            }
            return GRAFT_OK;
        }
        extra += length;
        n -= length;
    }
    for (int i = 0; i < 3; i++)
        if (*value[i] == IN_EXTRA32) return bad(r, "a 64-bit size is missing");
    return GRAFT_OK;
}

/* Where the entry's data begins: behind the second, shorter record before it. */
static graft_status find_data(const reader *r, uint64_t at, uint64_t size, graft_zip_entry *entry)
{
    const uint8_t *local = record(r, at, LOCAL_BYTES, LOCAL_MARK);
    if (!local) return bad(r, "an entry's header is missing");
    uint64_t data = at + LOCAL_BYTES + u16(local + 26) + u16(local + 28);
    if (data > r->size || size > r->size - data) return bad(r, "an entry ends after the file");
    entry->data = r->data + data;
    entry->size = (size_t)size;
    return GRAFT_OK;
}

static graft_status add_entry(graft_zip *z, const graft_zip_entry *entry, graft_err *e)
{
    if (graft_grow(&z->entry, &z->cap, z->n + 1, sizeof *z->entry))
        return graft_fail_nomem(e, "a zip archive's directory");
    z->entry[z->n++] = *entry;
    return GRAFT_OK;
}

/* *bytes: the length of the directory's record. */
static graft_status read_entry(const reader *r, graft_zip *z, uint64_t at, uint64_t *bytes)
{
    const uint8_t *p = record(r, at, ENTRY_BYTES, ENTRY_MARK);
    if (!p) return bad(r, "an entry of its directory is missing");
    size_t name = u16(p + 28), extra = u16(p + 30), comment = u16(p + 32);
    *bytes = ENTRY_BYTES + name + extra + comment;
    if (*bytes > r->size - at) return bad(r, "an entry of its directory ends after the file");
    uint64_t packed = u32(p + 20), size = u32(p + 24), local = u32(p + 42);
    graft_status st =
        read_extra(r, p + ENTRY_BYTES + name, extra, (uint64_t *[]){&size, &packed, &local});
    if (st) return st;
    const char *text = (const char *)p + ENTRY_BYTES;
    if (memchr(text, 0, name)) return bad(r, "a name with a zero character");
    bool stored = u16(p + 10) == 0 && packed == size && !(u16(p + 8) & 1);
    graft_zip_entry entry = {0};
    if (stored && (st = find_data(r, local, size, &entry))) return st;
    entry.name = graft_malloc(name + 1);
    if (!entry.name) return graft_fail_nomem(r->e, "a zip archive's directory");
    memcpy(entry.name, text, name);
    entry.name[name] = 0;
    if ((st = add_entry(z, &entry, r->e))) graft_free(entry.name);
    return st;
}

static graft_status index_names(graft_zip *z, graft_err *e)
{
    for (size_t i = 0; i < z->n; i++) {
        if (graft_map_has(&z->by_name, z->entry[i].name)) continue;
        if (graft_map_put(&z->by_name, z->entry[i].name, &z->entry[i]))
            return graft_fail_nomem(e, "a zip archive's directory");
    }
    return GRAFT_OK;
}

graft_status graft_zip_open(const void *data, size_t size, const char *what, graft_zip **out,
                            graft_err *e)
{
    reader r = {.data = data, .size = size, .what = what, .e = e};
    uint64_t at = 0, length = 0, count = 0, bytes = 0;
    graft_status st = GRAFT_OK;
    *out = NULL;
    graft_zip *z = graft_calloc(1, sizeof *z);
    if (!z) return graft_fail_nomem(e, "a zip archive's directory");
    GRAFT_TRY(find_directory(&r, &at, &length, &count));
    for (uint64_t i = 0; i < count; i++, at += bytes) GRAFT_TRY(read_entry(&r, z, at, &bytes));
    GRAFT_TRY(index_names(z, e));
    *out = z;
    z = NULL;
out:
    graft_zip_close(z);
    return st;
}

void graft_zip_close(graft_zip *z)
{
    if (!z) return;
    graft_map_finish(&z->by_name);
    for (size_t i = 0; i < z->n; i++) graft_free(z->entry[i].name);
    graft_free(z->entry);
    graft_free(z);
}

size_t graft_zip_count(const graft_zip *z)
{
    return z->n;
}

const graft_zip_entry *graft_zip_at(const graft_zip *z, size_t i)
{
    assert(i < z->n);
    return &z->entry[i];
}

const graft_zip_entry *graft_zip_find(const graft_zip *z, const char *name)
{
    return graft_map_get(&z->by_name, name);
}
