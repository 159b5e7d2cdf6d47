#include "engine/disk/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"

#define ENTRY_MAX_BYTES      ((size_t)64 << 20)
#define LEFTOVER_MAX_SECONDS 3600 /* no write takes that long */
#define LOCK_TRIES           200

typedef struct file_header {
    char magic[8];
    uint32_t format, kind;
    graft_hash key;
    uint64_t bytes;      /* behind the header */
    graft_hash checksum; /* of all above and all behind */
} file_header;
static const char magic[8] = {'G', 'R', 'A', 'F', 'T', 'C', 'G', '\n'};
static const char *const suffixes[] = {".graft", ".tuning", ".kept"};

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

/* Whom to tell. */
static const graft_log *ear_of(const graft_disk_cache *c, const graft_log *log)
{
    return log && log->line ? log : &c->log;
}

static void complain(graft_disk_cache *c, const graft_log *log, const graft_err *e)
{
    if (atomic_exchange(&c->complained, 1)) return;
    graft_log_printf(ear_of(c, log), GRAFT_LOG_WARN, "cache: going on without it: %s", e->text);
}

static char *path_of(const graft_disk_cache *c, graft_disk_kind kind, graft_hash key)
{
    graft_str s = GRAFT_STR_INIT;
    char hex[33];
    graft_hash_hex(key, hex);
    graft_str_printf(&s, "%s/%s%s", c->folder, hex, suffixes[kind]);
    return graft_str_take(&s);
}

/* ------------------------------------------------------------------ one entry */

static graft_hash checksum_of(const file_header *h, const void *data)
{
    graft_hash sum = graft_hash128(data, (size_t)h->bytes);
    return graft_hash_mix(sum, h, offsetof(file_header, checksum));
}

/* NULL when the bytes are a whole, undamaged entry; else what is wrong. */
static const char *fault_of(const char *data, size_t size, graft_disk_kind kind, const char *hex)
{
    file_header h;
    char own[33];
    if (size < sizeof h) return "cut short";
    memcpy(&h, data, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0) return "no cache entry";
    if (h.format != GRAFT_DISK_FORMAT) return "of another format version";
    graft_hash_hex(h.key, own);
    if (h.kind != (uint32_t)kind || memcmp(own, hex, 32) != 0) return "of another key";
    if (h.bytes != size - sizeof h) return "cut short";
    if (!graft_hash_equal(h.checksum, checksum_of(&h, data + sizeof h))) return "damaged";
    return NULL;
}

static void throw_away(graft_disk_cache *c, const graft_log *log, const char *path, const char *why)
{
    graft_log_printf(ear_of(c, log), GRAFT_LOG_WARN, "cache: %s is %s; it will be made again", path,
                     why);
    unlink(path);
}

graft_status graft_disk_cache_read(graft_disk_cache *c, graft_disk_kind kind, graft_hash key,
                                   const graft_log *log, char **data, size_t *size)
{
    char *path = path_of(c, kind, key), *bytes = NULL, hex[33];
    graft_err e = GRAFT_ERR_INIT;
    size_t n = 0;
    if (!path) return GRAFT_E_NOTFOUND;
    graft_hash_hex(key, hex);
    graft_status st = graft_file_read(path, ENTRY_MAX_BYTES, &bytes, &n, &e);
    if (st == GRAFT_E_LIMIT) {
        throw_away(c, log, path, "too large");
    } else if (st) {
        if (st == GRAFT_E_IO) complain(c, log, &e);
    } else {
        const char *fault = fault_of(bytes, n, kind, hex);
        if (fault) {
            throw_away(c, log, path, fault);
            st = GRAFT_E_NOTFOUND;
        } else {
            *size = n - sizeof(file_header);
            memmove(bytes, bytes + sizeof(file_header), *size + 1);
            *data = bytes;
            bytes = NULL;
            utimensat(AT_FDCWD, path, NULL, 0); /* last use, for eviction; may fail */
        }
    }
    graft_free(bytes);
    graft_free(path);
    return st ? GRAFT_E_NOTFOUND : GRAFT_OK;
}

void graft_disk_cache_reject(graft_disk_cache *c, graft_disk_kind kind, graft_hash key,
                             const graft_log *log, const char *why)
{
    char *path = path_of(c, kind, key);
    if (path) throw_away(c, log, path, why);
    graft_free(path);
}

/* ------------------------------------------------------------------ the folder */

/* Which kind of entry has this name; -1 for other files, which are none of our business. */
static int kind_of(const char *name)
{
    if (strspn(name, "0123456789abcdef") != 32) return -1;
    for (int k = 0; k < GRAFT_DISK_KINDS; k++)
        if (strcmp(name + 32, suffixes[k]) == 0) return k;
    return -1;
}

static bool is_old(const file_header *h)
{
    return memcmp(h->magic, magic, sizeof magic) == 0 && h->format != GRAFT_DISK_FORMAT;
}

bool graft_disk_cache_old(const graft_disk_cache *c, const char *name)
{
    file_header h;
    char *path = graft_path_join(c->folder, name);
    FILE *f = path ? fopen(path, "rbe") : NULL;
    bool old = f && fread(&h, 1, sizeof h, f) == sizeof h && is_old(&h);
    if (f) fclose(f);
    graft_free(path);
    return old;
}

static bool entry_good(const char *path, const char *name, graft_disk_kind kind)
{
    char *data = NULL;
    size_t n = 0;
    file_header h;
    if (graft_file_read(path, ENTRY_MAX_BYTES, &data, &n, NULL)) return false;
    bool good = fault_of(data, n, kind, name) == NULL;
    if (!good && n >= sizeof h) {
        memcpy(&h, data, sizeof h);
        good = is_old(&h);
    }
    graft_free(data);
    return good;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const graft_disk_entry *)a)->name, ((const graft_disk_entry *)b)->name);
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
        int kind = kind_of(d->d_name);
        if (kind < 0) continue;
        char *path = graft_path_join(c->folder, d->d_name);
        if (!path || graft_grow(&list, &cap, *n + 1, sizeof *list)) {
            graft_free(path);
            st = graft_fail_nomem(e, "list of cache entries");
            break;
        }
        if (stat(path, &s) == 0 && S_ISREG(s.st_mode)) {
            graft_disk_entry *k = &list[(*n)++];
            memcpy(k->name, d->d_name, strlen(d->d_name) + 1);
            k->bytes = (uint64_t)s.st_size;
            k->modified = s.st_mtime;
            k->tuning = kind == GRAFT_DISK_TUNING;
            k->good = !verify || entry_good(path, k->name, (graft_disk_kind)kind);
        }
        graft_free(path);
    }
    if (dir) closedir(dir);
    if (st) {
        graft_free(list);
        *n = 0;
        return st;
    }
    if (*n) qsort(list, *n, sizeof *list, by_name);
    *out = list;
    return GRAFT_OK;
}

/* Removes temporaries that a killed process left behind, once they are this old; 0: all. */
static void sweep(const graft_disk_cache *c, int64_t seconds)
{
    DIR *dir = opendir(c->folder);
    const struct dirent *d;
    int64_t now = time(NULL);
    while (dir && (d = readdir(dir)) != NULL) {
        struct stat s;
        if (!graft_str_starts(d->d_name, ".graft-") || !graft_str_ends(d->d_name, ".tmp")) continue;
        if (fstatat(dirfd(dir), d->d_name, &s, AT_SYMLINK_NOFOLLOW) || !S_ISREG(s.st_mode))
            continue;
        if (!seconds || now - s.st_mtime >= seconds) unlinkat(dirfd(dir), d->d_name, 0);
    }
    if (dir) closedir(dir);
}

static int oldest_first(const void *a, const void *b)
{
    const graft_disk_entry *x = a, *y = b;
    return x->modified < y->modified ? -1 : x->modified > y->modified;
}

/* An entry from the future was last used before the clock jumped back: it counts as the oldest. */
static void evict(graft_disk_cache *c, const char *keep)
{
    graft_disk_entry *list = NULL;
    size_t n = 0;
    uint64_t sum = 0;
    int64_t now = time(NULL);
    if (graft_disk_cache_list(c, false, &list, &n, NULL)) return;
    for (size_t i = 0; i < n; i++) {
        sum += list[i].bytes;
        if (list[i].modified > now + 1) list[i].modified = 0;
    }
    if (sum > c->max_bytes) qsort(list, n, sizeof *list, oldest_first);
    for (size_t i = 0; i < n && sum > c->max_bytes; i++) {
        if (list[i].tuning || strncmp(list[i].name, keep, 32) == 0) continue;
        char *path = graft_path_join(c->folder, list[i].name);
        if (path && unlink(path) == 0) sum -= list[i].bytes;
        graft_free(path);
    }
    graft_free(list);
}

void graft_disk_cache_write(graft_disk_cache *c, graft_disk_kind kind, graft_hash key,
                            const graft_log *log, const void *data, size_t size)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_str s = GRAFT_STR_INIT;
    char *path = path_of(c, kind, key), hex[33];
    file_header h = {
        .format = GRAFT_DISK_FORMAT, .kind = (uint32_t)kind, .key = key, .bytes = size};
    memcpy(h.magic, magic, sizeof magic);
    h.checksum = checksum_of(&h, data);
    graft_hash_hex(key, hex);
    graft_str_append(&s, (const char *)&h, sizeof h);
    graft_str_append(&s, data, size);
    graft_status st = GRAFT_OK;
    if (!path || s.failed)
        st = graft_fail_nomem(&e, "cache entry");
    else if (size > ENTRY_MAX_BYTES - sizeof h)
        st = graft_fail(&e, GRAFT_E_LIMIT, "an entry of %zu bytes is too large", size);
    if (!st) st = graft_dir_make(c->folder, &e);
    if (!st) st = graft_file_write(path, s.data, s.len, &e);
    if (st) {
        complain(c, log, &e);
    } else {
        evict(c, hex);
        sweep(c, LEFTOVER_MAX_SECONDS);
    }
    graft_str_finish(&s);
    graft_free(path);
}

graft_status graft_disk_cache_clear(graft_disk_cache *c, size_t *removed, graft_err *e)
{
    graft_disk_entry *list;
    size_t n;
    *removed = 0;
    graft_status st = graft_disk_cache_list(c, false, &list, &n, e);
    for (size_t i = 0; i < n && !st; i++) {
        char *path = graft_path_join(c->folder, list[i].name);
        if (!path)
            st = graft_fail_nomem(e, "cache folder");
        else if (unlink(path) == 0)
            (*removed)++;
        else if (errno != ENOENT)
            st = graft_fail(e, GRAFT_E_IO, "%s cannot be removed: %s", path, strerror(errno));
        graft_free(path);
    }
    if (!st) sweep(c, 0);
    graft_free(list);
    return st;
}

int graft_disk_cache_lock(graft_disk_cache *c)
{
    if (graft_dir_make(c->folder, NULL)) return -1;
    int fd = open(c->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB); i++) {
        if (i == LOCK_TRIES || (errno != EWOULDBLOCK && errno != EINTR)) {
            close(fd);
            return -1;
        }
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    return fd;
}

void graft_disk_cache_unlock(int lock)
{
    if (lock >= 0) close(lock);
}
