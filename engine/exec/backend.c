#include "engine/exec/backend.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dl.h"
#include "base/file.h"
#include "base/str.h"

typedef struct scored {
    const graft_kernels *lib;
    int32_t score;
} scored;

static int best_first(const void *a, const void *b)
{
    return ((const scored *)b)->score - ((const scored *)a)->score;
}

const graft_kernels_more *graft_backend_more(const graft_backend *b)
{
    const graft_kernels_more *more = b->lib->abi_minor >= 1 ? b->lib->more : NULL;
    /* What came later is read only by those who ask for it. */
    return more && more->size >= offsetof(graft_kernels_more, pack_rows) ? more : NULL;
}

bool graft_backend_wants(const graft_backend *b, uint32_t bit)
{
    const graft_kernels_more *more = graft_backend_more(b);
    return GRAFT_KERNELS_HAS(more, wants) && more->wants & bit;
}

/* NULL when the library cannot be used; the reason is in the log. */
static const graft_kernels *open_library(const char *path, const graft_log *log)
{
    graft_dl dl;
    graft_err e = GRAFT_ERR_INIT;
    if (graft_dl_open(path, &dl, &e)) {
        graft_log_printf(log, GRAFT_LOG_WARN, "%s", e.text);
        return NULL;
    }
    const graft_kernels *lib = graft_dl_symbol(&dl, GRAFT_KERNELS_SYMBOL);
    if (!lib) {
        graft_log_printf(log, GRAFT_LOG_WARN, "%s: no kernel library: it has no symbol %s", path,
                         GRAFT_KERNELS_SYMBOL);
        return NULL;
    }
    if (lib->abi_major != GRAFT_KERNELS_ABI_MAJOR || lib->abi_minor > GRAFT_KERNELS_ABI_MINOR) {
        graft_log_printf(log, GRAFT_LOG_WARN, "%s: kernel ABI version %u.%u, this engine has %u.%u",
                         path, lib->abi_major, lib->abi_minor, GRAFT_KERNELS_ABI_MAJOR,
                         GRAFT_KERNELS_ABI_MINOR);
        return NULL;
    }
    return lib;
}

/* Keeps what a library says of its absence, for whoever asks for it by name. */
static void note_absent(graft_backends *b, const graft_kernels *lib)
{
    const graft_kernels_more *more = graft_backend_more(&(graft_backend){.lib = lib});
    if (!more || !more->missing || b->n_absent == GRAFT_MAX_BACKENDS) return;
    size_t i = b->n_absent++;
    snprintf(b->absent[i].name, sizeof b->absent[i].name, "%s", lib->name);
    more->missing(b->absent[i].why, sizeof b->absent[i].why);
    graft_log_printf(&b->log, GRAFT_LOG_DEBUG, "backend %s: %s", lib->name, b->absent[i].why);
}

graft_status graft_backends_load(graft_backends *b, const char *folder, int threads,
                                 const graft_log *log, graft_err *e)
{
    char **names = NULL;
    size_t n = 0, found = 0;
    scored list[GRAFT_MAX_BACKENDS];
    memset(b, 0, sizeof *b);
    b->threads = threads;
    if (log) b->log = *log;
    graft_status st = graft_dir_list(folder, (const char *const[]){".so", NULL}, &names, &n, e);
    if (st) return st;
    for (size_t i = 0; i < n && found < GRAFT_MAX_BACKENDS; i++) {
        if (!graft_str_starts(names[i], "graft_kernels_")) continue;
        char *path = graft_path_join(folder, names[i]);
        if (!path) {
            st = graft_fail_nomem(e, "kernel libraries");
            goto out;
        }
        const graft_kernels *lib = open_library(path, log);
        graft_free(path);
        int32_t score = lib ? lib->score() : 0;
        if (score > 0) list[found++] = (scored){lib, score};
        if (lib && score <= 0) note_absent(b, lib);
    }
    qsort(list, found, sizeof *list, best_first);
    for (size_t i = 0; i < found; i++) {
        graft_backend *k = &b->list[b->count];
        k->lib = list[i].lib;
        k->api = list[i].lib->api;
        k->threads = threads;
        snprintf(k->name, sizeof k->name, "%s", list[i].lib->name);
        b->name[b->count++] = k->name;
    }
    if (!b->count)
        st = graft_fail(e, GRAFT_E_NOTFOUND, "no kernel library that can run here in %s", folder);
out:
    graft_names_free(names, n);
    return st;
}

void graft_backends_finish(graft_backends *b)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->list[i].device) b->list[i].api->destroy(b->list[i].device);
    b->count = 0;
}

static void *host_alloc(size_t align, size_t bytes)
{
    return graft_malloc_aligned(align < sizeof(void *) ? sizeof(void *) : align, bytes);
}

/* ------------------------------------------------------------------ what libraries keep */

static graft_hash kept_key(const graft_backend *k, const void *key, uint64_t bytes)
{
    return graft_hash_mix(graft_hash128(k->name, strlen(k->name)), key, (size_t)bytes);
}

static graft_status kept_read(void *ctx, const void *key, uint64_t key_bytes, void **data,
                              uint64_t *bytes)
{
    graft_backend *k = ctx;
    char *found = NULL;
    size_t n = 0;
    if (!k->disk || atomic_load(&k->no_disk)) return GRAFT_E_NOTFOUND;
    graft_status st = graft_disk_cache_read(k->disk, GRAFT_DISK_KEPT, kept_key(k, key, key_bytes),
                                            NULL, &found, &n);
    if (st) return GRAFT_E_NOTFOUND;
    *data = found;
    *bytes = n;
    return GRAFT_OK;
}

static void kept_write(void *ctx, const void *key, uint64_t key_bytes, const void *data,
                       uint64_t bytes)
{
    graft_backend *k = ctx;
    if (!k->disk || atomic_load(&k->no_disk)) return;
    graft_disk_cache_write(k->disk, GRAFT_DISK_KEPT, kept_key(k, key, key_bytes), NULL, data,
                           (size_t)bytes);
}

/* The file that a library is in: variants are known by number, and a number means the same only
 * while the library's code does. The version alone where there is no file. */
static graft_hash code_of(const graft_kernels *lib)
{
    Dl_info from;
    graft_mapping map;
    graft_hash h = graft_hash128(lib->version, strlen(lib->version));
    if (!dladdr(lib, &from) || graft_file_map(from.dli_fname, &map, NULL)) return h;
    h = graft_hash_mix(h, map.data, map.size);
    graft_file_unmap(&map);
    return h;
}

static graft_status open_device(graft_backends *b, graft_backend *k, graft_err *e)
{
    char text[512] = "";
    graft_kernels_host host = {.size = sizeof host,
                               .threads = b->threads,
                               .alloc = host_alloc,
                               .free = graft_free,
                               .log = b->log.line,
                               .log_ctx = b->log.ctx,
                               .kept_read = kept_read,
                               .kept_write = kept_write,
                               .kept_ctx = k};
    k->disk = b->disk;
    graft_status st = k->api->create(&host, 0, &k->device, text, sizeof text);
    if (st) {
        k->device = NULL;
        return graft_fail(e, st, "backend %s: %s", k->name, text[0] ? text : graft_status_text(st));
    }
    memset(&k->info, 0, sizeof k->info);
    k->info.size = sizeof k->info;
    st = k->api->info(k->device, &k->info);
    if (st) { /* without an identity nothing of it may be cached */
        k->api->destroy(k->device);
        k->device = NULL;
        return graft_fail(e, st, "backend %s: no device information", k->name);
    }
    graft_hash h = graft_hash128(k->name, strlen(k->name));
    const graft_hash code = code_of(k->lib);
    h = graft_hash_mix(h, &code, sizeof code);
    k->identity = graft_hash_mix(h, k->info.identity, strlen(k->info.identity));
    return GRAFT_OK;
}

graft_status graft_backends_get(graft_backends *b, const char *name, graft_backend **out,
                                graft_err *e)
{
    bool any = !name || !name[0] || strcmp(name, "auto") == 0;
    for (size_t i = 0; i < b->count; i++) {
        graft_backend *k = &b->list[i];
        if (!any && strcmp(k->name, name) != 0) continue;
        graft_status st = k->device ? GRAFT_OK : open_device(b, k, e);
        if (!st) *out = k;
        if (!st || !any) return st;
        graft_log_printf(&b->log, GRAFT_LOG_WARN, "%s", e ? e->text : k->name);
    }
    graft_str s = GRAFT_STR_INIT;
    for (size_t i = 0; i < b->count; i++)
        graft_str_printf(&s, "%s %s", i ? "," : "", b->list[i].name);
    const char *why = NULL, *others = s.data ? s.data : " none";
    for (size_t i = 0; i < b->n_absent && !any; i++)
        if (strcmp(b->absent[i].name, name) == 0) why = b->absent[i].why;
    graft_status st =
        why || any
            ? graft_fail(e, GRAFT_E_NOTFOUND, "backend %s cannot run here%s%s; these can:%s",
                         any ? "auto" : name, why ? ": " : "", why ? why : "", others)
            : graft_fail(e, GRAFT_E_NOTFOUND,
                         "there is no backend %s; these can run here:%s; no graft_kernels_%s.so is "
                         "beside theirs",
                         name, others, name);
    graft_str_finish(&s);
    return st;
}

bool graft_backend_computes_in(const graft_backend *b, graft_dtype dtype)
{
    graft_op_desc d;
    memset(&d, 0, sizeof d);
    d.size = sizeof d;
    d.op = GRAFT_OP_LINEAR;
    d.in[0] = d.in[1] = d.out =
        (graft_tensor_desc){.dtype = dtype, .rank = 2, .dim = {16, 16}, .stride = {16, 1}};
    d.in[1].constant = 1;
    d.in[1].dtype = GRAFT_F32;
    return b->api->supports(b->device, &d);
}
