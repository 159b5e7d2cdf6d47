#include "engine/cache/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"

#define ENTRY_MAX_BYTES ((size_t)64 << 20)
#define ENTRY_SUFFIX    ".graft"

typedef struct file_header {
    char magic[8]; /* "GRAFTCG\n" */
    uint32_t format, zero;
    graft_hash key;
    uint64_t bytes; /* behind the header */
    graft_hash checksum;
} file_header;
static const char magic[8] = {'G', 'R', 'A', 'F', 'T', 'C', 'G', '\n'};

struct graft_disk_cache {
    char *folder;
    uint64_t max_bytes;
    graft_log log;
    _Atomic int complained; /* the folder's troubles are told once */
};

graft_status graft_disk_cache_create(const char *folder, uint64_t max_bytes, const graft_log *log,
                                     graft_disk_cache **out, graft_err *e)
{
    graft_disk_cache *c = graft_calloc(1, sizeof *c);
    char *copy = graft_strdup(folder);
    if (!c || !copy) {
        graft_free(c);
        graft_free(copy);
        return graft_fail_nomem(e, "disk cache");
    }
    c->folder = copy;
    c->max_bytes = max_bytes;
    if (log) c->log = *log;
    *out = c;
    return GRAFT_OK;
}

void graft_disk_cache_destroy(graft_disk_cache *c)
{
    if (!c) return;
    graft_free(c->folder);
    graft_free(c);
}

const char *graft_disk_cache_folder(const graft_disk_cache *c)
{
    return c->folder;
}

static char *path_of(const graft_disk_cache *c, graft_hash key)
{
    graft_str s = GRAFT_STR_INIT;
    char hex[33];
    graft_hash_hex(key, hex);
    graft_str_printf(&s, "%s/%s%s", c->folder, hex, ENTRY_SUFFIX);
    return graft_str_take(&s);
}

/* NULL when the bytes are a whole, undamaged entry; else what is wrong. */
static const char *fault_of(const char *data, size_t size, const graft_hash *key)
{
    file_header h;
    if (size < sizeof h) return "cut short";
    memcpy(&h, data, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0) return "no compiled graph";
    if (h.format != GRAFT_DISK_FORMAT) return "of another format version";
    if (key && !graft_hash_equal(h.key, *key)) return "of another key";
    if (h.bytes != size - sizeof h) return "cut short";
    if (!graft_hash_equal(h.checksum, graft_hash128(data + sizeof h, size - sizeof h)))
        return "damaged";
    return NULL;
}

graft_status graft_disk_cache_read(graft_disk_cache *c, graft_hash key, char **data, size_t *size)
{
    char *path = path_of(c, key), *bytes = NULL;
    size_t n = 0;
    if (!path) return GRAFT_E_NOMEM;
    graft_status st = GRAFT_E_NOTFOUND;
    if (graft_file_exists(path) && !graft_file_read(path, ENTRY_MAX_BYTES, &bytes, &n, NULL)) {
        const char *fault = fault_of(bytes, n, &key);
        if (fault) {
            graft_log_printf(&c->log, GRAFT_LOG_WARN, "cache: %s is %s; it is made anew", path,
                             fault);
            unlink(path);
        } else {
            memmove(bytes, bytes + sizeof(file_header), n - sizeof(file_header));
            *data = bytes;
            *size = n - sizeof(file_header);
            bytes = NULL;
            st = GRAFT_OK;
            utimensat(AT_FDCWD, path, NULL, 0); /* last use, for eviction; may fail */
        }
    }
    graft_free(bytes);
    graft_free(path);
    return st;
}

static void complain(graft_disk_cache *c, const graft_err *e)
{
    if (atomic_exchange(&c->complained, 1)) return;
    graft_log_printf(&c->log, GRAFT_LOG_WARN, "cache: work goes on without it: %s", e->text);
}

static int oldest_first(const void *a, const void *b)
{
    const graft_disk_entry *x = a, *y = b;
    return x->modified < y->modified ? -1 : x->modified > y->modified;
}

static void evict(graft_disk_cache *c)
{
    graft_disk_entry *list = NULL;
    size_t n = 0;
    uint64_t sum = 0;
    if (graft_disk_cache_list(c, false, &list, &n, NULL)) return;
    qsort(list, n, sizeof *list, oldest_first);
    for (size_t i = 0; i < n; i++) sum += list[i].bytes;
    for (size_t i = 0; i < n && sum > c->max_bytes; i++) {
        char *path = graft_path_join(c->folder, list[i].name);
        if (path && unlink(path) == 0) sum -= list[i].bytes;
        graft_free(path);
    }
    graft_free(list);
}

void graft_disk_cache_write(graft_disk_cache *c, graft_hash key, const void *data, size_t size)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_str s = GRAFT_STR_INIT;
    char *path = path_of(c, key);
    file_header h = {.format = GRAFT_DISK_FORMAT, .key = key, .bytes = size};
    memcpy(h.magic, magic, sizeof magic);
    h.checksum = graft_hash128(data, size);
    graft_str_append(&s, (const char *)&h, sizeof h);
    graft_str_append(&s, data, size);
    graft_status st = GRAFT_OK;
    if (!path || s.failed) st = graft_fail_nomem(&e, "cache entry");
    if (!st) st = graft_dir_make(c->folder, &e);
    if (!st) st = graft_file_write(path, s.data, s.len, &e);
    if (st)
        complain(c, &e);
    else
        evict(c);
    graft_str_finish(&s);
    graft_free(path);
}

static bool entry_good(const char *path)
{
    char *data = NULL;
    size_t n = 0;
    if (graft_file_read(path, ENTRY_MAX_BYTES, &data, &n, NULL)) return false;
    bool good = fault_of(data, n, NULL) == NULL;
    graft_free(data);
    return good;
}

graft_status graft_disk_cache_list(graft_disk_cache *c, bool verify, graft_disk_entry **out,
                                   size_t *n, graft_err *e)
{
    graft_disk_entry *list = NULL;
    size_t cap = 0;
    graft_status st = GRAFT_OK;
    *n = 0;
    *out = NULL;
    DIR *dir = opendir(c->folder);
    const struct dirent *d;
    while (dir && (d = readdir(dir)) != NULL) {
        struct stat s;
        if (!graft_str_ends(d->d_name, ENTRY_SUFFIX) || strlen(d->d_name) >= sizeof list->name)
            continue;
        char *path = graft_path_join(c->folder, d->d_name);
        if (!path || graft_grow(&list, &cap, *n + 1, sizeof *list)) {
            graft_free(path);
            st = graft_fail_nomem(e, "list of cache entries");
            break;
        }
        if (stat(path, &s) == 0) {
            graft_disk_entry *k = &list[(*n)++];
            memcpy(k->name, d->d_name, strlen(d->d_name) + 1);
            k->bytes = (uint64_t)s.st_size;
            k->modified = s.st_mtime;
            k->good = !verify || entry_good(path);
        }
        graft_free(path);
    }
    if (dir) closedir(dir);
    if (st)
        graft_free(list);
    else
        *out = list;
    return st;
}

graft_status graft_disk_cache_clear(graft_disk_cache *c, size_t *removed, graft_err *e)
{
    graft_disk_entry *list;
    size_t n;
    *removed = 0;
    graft_status st = graft_disk_cache_list(c, false, &list, &n, e);
    for (size_t i = 0; i < n && !st; i++) {
        char *path = graft_path_join(c->folder, list[i].name);
        if (path && unlink(path) == 0) (*removed)++;
        graft_free(path);
    }
    graft_free(list);
    return st;
}
