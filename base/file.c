#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"

#define MAX_FOLDERS_DEEP 16
#define LARGE            ((uint64_t)16 << 20) /* bytes of a file that is worth large pages */

static graft_status fail_errno(graft_err *e, const char *path, const char *doing, int code)
{
    char buf[128];
    const char *why = strerror_r(code, buf, sizeof buf); /* GNU form: returns the text */
    graft_status st = code == ENOENT || code == ENOTDIR ? GRAFT_E_NOTFOUND
                      : code == ENOMEM                  ? GRAFT_E_NOMEM
                                                        : GRAFT_E_IO;
    return graft_fail(e, st, "%s: cannot %s: %s", path, doing, why);
}

static graft_file_id id_of(const struct stat *s)
{
    return (graft_file_id){(uint64_t)s->st_dev, (uint64_t)s->st_ino, (uint64_t)s->st_size,
                           s->st_mtim.tv_sec,   s->st_mtim.tv_nsec,  s->st_ctim.tv_sec,
                           s->st_ctim.tv_nsec};
}

/* Opens a regular file; anything else (folder, pipe, device) is refused without blocking on it. */
static graft_status open_regular(const char *path, int *fd, graft_file_id *id, graft_err *e)
{
    struct stat s;
    *id = (graft_file_id){0};
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return fail_errno(e, path, "open", errno);
    graft_status st = GRAFT_OK;
    if (fstat(*fd, &s))
        st = fail_errno(e, path, "read", errno);
    else if (!S_ISREG(s.st_mode))
        st = graft_fail(e, GRAFT_E_IO, "%s: not a regular file", path);
    else
        *id = id_of(&s);
    if (st != GRAFT_OK) close(*fd);
    return st;
}

bool graft_file_identify(const char *path, graft_file_id *out)
{
    struct stat s;
    if (stat(path, &s)) return false;
    *out = id_of(&s);
    return true;
}

bool graft_file_was_changed(const char *path, const graft_file_id *id)
{
    graft_file_id now;
    if (!graft_file_identify(path, &now) || now.device != id->device || now.inode != id->inode)
        return false;
    return now.size != id->size || now.changed_s != id->changed_s ||
           now.changed_ns != id->changed_ns;
}

graft_status graft_file_map(const char *path, graft_mapping *out, graft_err *e)
{
    graft_file_id id;
    return graft_file_map_identified(path, out, &id, e);
}

graft_status graft_file_map_identified(const char *path, graft_mapping *out, graft_file_id *id,
                                       graft_err *e)
{
    int fd;
    *out = (graft_mapping){NULL, 0};
    graft_status st = open_regular(path, &fd, id, e);
    if (st != GRAFT_OK) return st;
    const uint64_t size = id->size;
    if (size > SIZE_MAX / 2) {
        st = graft_fail(e, GRAFT_E_LIMIT, "%s: too large to map", path);
    } else if (size) {
        void *p = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            st = fail_errno(e, path, "map", errno);
        } else {
            /* A hint: where the file system has large pages it then reads in pieces of their size,
             * and a page fault maps one of them, now and in later processes. */
            if (size >= LARGE) madvise(p, (size_t)size, MADV_HUGEPAGE);
            *out = (graft_mapping){p, (size_t)size};
        }
    }
    close(fd);
    return st;
}

void graft_file_unmap(graft_mapping *m)
{
    if (!m) return;
    if (m->data) munmap((void *)(uintptr_t)m->data, m->size);
    *m = (graft_mapping){NULL, 0};
}

void graft_file_forget(const graft_mapping *m, size_t offset, size_t size)
{
    if (!m->data || offset >= m->size) return;
    if (size > m->size - offset) size = m->size - offset;
    /* Whole pages inside the range only: a page shared with a neighbour stays. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t begin = (offset + page - 1) / page * page;
    size_t end = offset + size == m->size ? m->size : (offset + size) / page * page;
    if (begin < end) madvise((void *)(uintptr_t)(m->data + begin), end - begin, MADV_DONTNEED);
}

/* All that is left in fd; room for `expected` bytes is made at once. */
static graft_status drain(int fd, const char *path, uint64_t expected, size_t limit, char **out,
                          size_t *size, graft_err *e)
{
    size_t len = 0, cap;
    char *text = NULL;
    graft_status st = GRAFT_OK;
    if (expected > limit || expected > SIZE_MAX / 4) goto too_big;
    /* Files of /proc say that they are empty, and any file may grow: read to the end. */
    cap = (size_t)expected + 512;
    text = graft_malloc(cap + 1);
    if (!text) goto no_memory;
    for (;;) {
        if (len == cap) {
            char *more = graft_realloc(text, 2 * cap + 1, 1);
            if (!more) goto no_memory;
            text = more;
            cap *= 2;
        }
        ssize_t n = read(fd, text + len, cap - len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            st = fail_errno(e, path, "read", errno);
            goto out;
        }
        if (n == 0) break;
        len += (size_t)n;
        if (len > limit) goto too_big;
    }
    text[len] = 0;
    *out = text;
    *size = len;
    text = NULL;
    goto out;
too_big:
    st = graft_fail(e, GRAFT_E_LIMIT, "%s: larger than the limit of %zu bytes", path, limit);
    goto out;
no_memory:
    st = graft_fail_nomem(e, path);
out:
    graft_free(text);
    return st;
}

graft_status graft_file_read(const char *path, size_t limit, char **out, size_t *size, graft_err *e)
{
    int fd;
    graft_file_id id;
    *out = NULL;
    *size = 0;
    graft_status st = open_regular(path, &fd, &id, e);
    if (st != GRAFT_OK) return st;
    st = drain(fd, path, id.size, limit, out, size, e);
    close(fd);
    return st;
}

graft_status graft_file_read_stream(const char *path, size_t limit, char **out, size_t *size,
                                    graft_err *e)
{
    *out = NULL;
    *size = 0;
    struct stat s;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (fd < 0) return fail_errno(e, path, "open", errno);
    uint64_t expected = !fstat(fd, &s) && S_ISREG(s.st_mode) ? (uint64_t)s.st_size : 0;
    graft_status st = drain(fd, path ? path : "standard input", expected, limit, out, size, e);
    if (path) close(fd);
    return st;
}

static graft_status write_all(int fd, const char *path, const void *data, size_t size, graft_err *e)
{
    const char *p = data;
    while (size) {
        ssize_t n = write(fd, p, size < INT_MAX / 2 ? size : INT_MAX / 2);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno(e, path, "write", errno);
        p += n;
        size -= (size_t)n;
    }
    return GRAFT_OK;
}

/* A fresh file beside `path`. The name is short, so that a `path` near NAME_MAX still works. */
static graft_status open_temporary(const char *path, char **name, int *fd, graft_err *e)
{
    static _Atomic unsigned counter; /* only makes names differ; O_EXCL decides */
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
    for (int attempt = 0; attempt < 100; attempt++) {
        graft_str s = GRAFT_STR_INIT;
        graft_str_append(&s, path, folder);
        graft_str_printf(&s, ".graft-%ld-%u.tmp", (long)getpid(), atomic_fetch_add(&counter, 1));
        *name = graft_str_take(&s);
        if (!*name) return graft_fail_nomem(e, path);
        *fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*fd >= 0) return GRAFT_OK;
        int code = errno;
        graft_free(*name);
        *name = NULL;
        if (code != EEXIST) return fail_errno(e, path, "create", code);
    }
    return graft_fail(e, GRAFT_E_IO, "%s: cannot create: no free temporary name", path);
}

static graft_status put_in_place(const char *temp, const char *path, bool replace, graft_err *e)
{
    if (replace) return rename(temp, path) ? fail_errno(e, path, "replace", errno) : GRAFT_OK;
    int failed = renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE) ? errno : 0;
    if (failed == EINVAL || failed == ENOSYS) { /* a file system without the flag */
        failed = link(temp, path) ? errno : 0;
        if (!failed) unlink(temp);
    }
    if (failed == EEXIST) return graft_fail(e, GRAFT_E_ARG, "%s: exists", path);
    return failed ? fail_errno(e, path, "create", failed) : GRAFT_OK;
}

struct graft_file_writer {
    char *path, *temp; /* temp NULL: it has its name */
    int fd;            /* -1: closed */
};

graft_status graft_file_writer_open(const char *path, graft_file_writer **out, graft_err *e)
{
    graft_file_writer *w = graft_calloc(1, sizeof *w);
    if (!w) return graft_fail_nomem(e, path);
    w->fd = -1;
    w->path = graft_strdup(path);
    graft_status st =
        w->path ? open_temporary(path, &w->temp, &w->fd, e) : graft_fail_nomem(e, path);
    if (st)
        graft_file_writer_close(w);
    else
        *out = w;
    return st;
}

graft_status graft_file_writer_add(graft_file_writer *w, const void *data, size_t size,
                                   graft_err *e)
{
    return write_all(w->fd, w->path, data, size, e);
}

const char *graft_file_writer_name(const graft_file_writer *w)
{
    return w->temp ? w->temp : w->path;
}

graft_status graft_file_writer_commit(graft_file_writer *w, bool replace, graft_err *e)
{
    if (fsync(w->fd)) return fail_errno(e, w->path, "flush", errno);
    int failed = close(w->fd) ? errno : 0;
    w->fd = -1;
    if (failed && failed != EINTR) return fail_errno(e, w->path, "write", failed);
    graft_status st = put_in_place(w->temp, w->path, replace, e);
    if (st) return st;
    graft_free(w->temp);
    w->temp = NULL;
    return GRAFT_OK;
}

void graft_file_writer_close(graft_file_writer *w)
{
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    if (w->temp) unlink(w->temp);
    graft_free(w->temp);
    graft_free(w->path);
    graft_free(w);
}

static graft_status write_file(const char *path, const void *data, size_t size, bool replace,
                               graft_err *e)
{
    graft_file_writer *w = NULL;
    graft_status st = graft_file_writer_open(path, &w, e);
    if (!st) st = graft_file_writer_add(w, data, size, e);
    if (!st) st = graft_file_writer_commit(w, replace, e);
    graft_file_writer_close(w);
    return st;
}

graft_status graft_file_write(const char *path, const void *data, size_t size, graft_err *e)
{
    return write_file(path, data, size, true, e);
}

graft_status graft_file_write_new(const char *path, const void *data, size_t size, graft_err *e)
{
    return write_file(path, data, size, false, e);
}

bool graft_file_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

bool graft_dir_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

graft_status graft_dir_make(const char *path, graft_err *e)
{
    if (!*path) return graft_fail(e, GRAFT_E_ARG, "cannot make a folder without a name");
    char *p = graft_strdup(path);
    if (!p) return graft_fail_nomem(e, path);
    graft_status st = GRAFT_OK;
    for (char *s = p + 1; st == GRAFT_OK; s++) {
        if (*s != '/' && *s) continue;
        char was = *s;
        *s = 0;
        if (mkdir(p, 0777)) {
            int why = errno == EEXIST ? ENOTDIR : errno;
            if (!graft_dir_exists(p)) st = fail_errno(e, p, "make the folder", why);
        }
        *s = was;
        if (!was) break;
    }
    graft_free(p);
    return st;
}

char *graft_path_join(const char *root, const char *name)
{
    graft_str s = GRAFT_STR_INIT;
    graft_str_puts(&s, root);
    if (*root && !graft_str_ends(root, "/")) graft_str_puts(&s, "/");
    graft_str_puts(&s, name);
    return graft_str_take(&s);
}

const char *graft_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *graft_path_beside(const char *path, const char *name)
{
    graft_str s = GRAFT_STR_INIT;
    graft_str_append(&s, path, (size_t)(graft_path_name(path) - path));
    graft_str_puts(&s, name);
    return graft_str_take(&s);
}

/* What is wrong with a relative name, or NULL. */
static const char *name_fault(const char *name)
{
    size_t n = strlen(name);
    if (!n) return "is empty";
    if (n >= PATH_MAX) return "is too long";
    if (name[0] == '/') return "is absolute";
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c < 0x20 || c == 0x7f) return "has a control character";
        if (c == '\\') return "has a back-slash";
    }
    for (const char *part = name; part;) {
        const char *end = strchr(part, '/');
        size_t len = end ? (size_t)(end - part) : strlen(part);
        if (len == 0) return "has an empty part";
        if (len > NAME_MAX) return "is too long";
        if ((len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.'))
            return "has a part that is . or ..";
        part = end ? end + 1 : NULL;
    }
    return NULL;
}

/* The real path of the deepest part of `path` that exists; `path` is longer than `root`. A link
 * that leads nowhere counts as existing: writing through it would leave the folder. */
static graft_status deepest_real(const char *path, char **real, graft_err *e)
{
    char *p = graft_strdup(path);
    if (!p) return graft_fail_nomem(e, path);
    graft_status st = GRAFT_OK;
    for (;;) {
        struct stat s;
        int code = lstat(p, &s) ? errno : 0;
        if (!code) {
            *real = realpath(p, NULL);
            if (!*real) st = fail_errno(e, path, "follow", errno);
            break;
        }
        char *slash = strrchr(p, '/');
        if (code != ENOENT || !slash || slash == p) {
            st = fail_errno(e, path, "follow", code);
            break;
        }
        *slash = 0;
    }
    graft_free(p);
    return st;
}

graft_status graft_path_below(const char *root, const char *name, char **out, graft_err *e)
{
    const char *fault = name_fault(name);
    *out = NULL;
    if (fault) return graft_fail(e, GRAFT_E_ARG, "the name \"%.200s\" %s", name, fault);
    *out = graft_path_join(root, name);
    return *out ? GRAFT_OK : graft_fail_nomem(e, "a path");
}

graft_status graft_path_inside(const char *root, const char *name, char **out, graft_err *e)
{
    char *joined = NULL, *real_root = NULL, *real = NULL;
    *out = NULL;
    graft_status st = graft_path_below(root, name, &joined, e);
    if (st) return st;
    real_root = realpath(root, NULL);
    if (!real_root) {
        st = fail_errno(e, root, "open the folder", errno);
        goto out;
    }
    char *from_real = graft_path_join(real_root, name);
    st = from_real ? deepest_real(from_real, &real, e) : graft_fail_nomem(e, "a path");
    graft_free(from_real);
    if (st != GRAFT_OK) goto out;
    size_t n = strlen(real_root);
    if (n == 1) n = 0; /* the root folder itself */
    if (strncmp(real, real_root, n) != 0 || (real[n] != '/' && real[n] != 0)) {
        st = graft_fail(e, GRAFT_E_ARG, "the name \"%.200s\" leads out of its folder", name);
        goto out;
    }
    *out = joined;
    joined = NULL;
out:
    graft_free(joined);
    free(real_root); /* both by realpath(): the system's allocator */
    free(real);
    return st;
}

typedef struct listing {
    const char *const *suffix;
    char **name;
    size_t count, cap;
} listing;

static bool wanted(const listing *l, const char *name)
{
    if (!l->suffix) return true;
    for (const char *const *s = l->suffix; *s; s++)
        if (graft_str_ends(name, *s)) return true;
    return false;
}

/* The folders on the way down: a link back to one of them is not entered again. */
typedef struct level {
    const struct level *above;
    dev_t dev;
    ino_t ino;
} level;

static bool may_enter(const level *above, const struct stat *s)
{
    int deep = 0;
    for (const level *v = above; v; v = v->above, deep++)
        if (v->dev == s->st_dev && v->ino == s->st_ino) return false;
    return deep <= MAX_FOLDERS_DEEP;
}

static graft_status list_folder(listing *l, const char *folder, const char *prefix,
                                const level *above, graft_err *e);

/* Takes one entry of a folder in: a file is added, a folder entered, anything else passed over. */
static graft_status list_entry(listing *l, const char *folder, const char *prefix,
                               const char *entry, const level *above, graft_err *e)
{
    graft_status st = GRAFT_OK;
    struct stat s;
    if (!graft_str_is_utf8(entry, strlen(entry))) return GRAFT_OK; /* JSON could not name it */
    char *path = graft_path_join(folder, entry), *name = graft_path_join(prefix, entry);
    if (!path || !name || graft_grow(&l->name, &l->cap, l->count + 1, sizeof *l->name)) {
        st = graft_fail_nomem(e, folder);
    } else if (stat(path, &s) == 0) {
        if (S_ISDIR(s.st_mode)) {
            level here = {above, s.st_dev, s.st_ino};
            if (may_enter(above, &s)) st = list_folder(l, path, name, &here, e);
        } else if (S_ISREG(s.st_mode) && wanted(l, name)) {
            l->name[l->count++] = name;
            name = NULL;
        }
    }
    graft_free(path);
    graft_free(name);
    return st;
}

static graft_status list_folder(listing *l, const char *folder, const char *prefix,
                                const level *above, graft_err *e)
{
    DIR *d = opendir(folder);
    if (!d) {
        int code = errno;
        if (code == ENOMEM || code == EMFILE || code == ENFILE)
            return fail_errno(e, folder, "list", code);
        return GRAFT_OK; /* gone, or closed to us: as if it were empty */
    }
    graft_status st = GRAFT_OK;
    struct dirent *entry;
    while (st == GRAFT_OK && (entry = readdir(d))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        st = list_entry(l, folder, prefix, entry->d_name, above, e);
    }
    closedir(d);
    return st;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

graft_status graft_dir_list(const char *root, const char *const *suffix, char ***names,
                            size_t *count, graft_err *e)
{
    listing l = {suffix, NULL, 0, 0};
    struct stat s;
    *names = NULL;
    *count = 0;
    if (stat(root, &s)) return GRAFT_OK;
    level top = {NULL, s.st_dev, s.st_ino};
    graft_status st = list_folder(&l, root, "", &top, e);
    if (st != GRAFT_OK) {
        graft_names_free(l.name, l.count);
        return st;
    }
    if (l.count) qsort(l.name, l.count, sizeof *l.name, by_bytes);
    *names = l.name;
    *count = l.count;
    return GRAFT_OK;
}

void graft_names_free(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++) graft_free(names[i]);
    graft_free(names);
}
