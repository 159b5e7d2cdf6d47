/* Files that an editor keeps: workflows, templates. They live below one folder that holds nothing
 * else; the database of jobs and settings is not in it. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "host/serve/routes.h"

#define FILE_BYTES ((size_t)64 << 20)

static graft_status empty(graft_http_response *r, int status)
{
    graft_http_empty(r, status);
    return GRAFT_OK;
}

static void put_info(graft_str *t, const char *name, const struct stat *info)
{
    graft_str_puts(t, "{\"path\":");
    graft_str_json(t, name);
    graft_str_printf(t, ",\"size\":%lld,\"modified\":%lld.%03d,\"created\":%lld.%03d}",
                     (long long)info->st_size, (long long)info->st_mtim.tv_sec,
                     (int)(info->st_mtim.tv_nsec / 1000000), (long long)info->st_ctim.tv_sec,
                     (int)(info->st_ctim.tv_nsec / 1000000));
}

static void put_split(graft_str *t, const char *name)
{
    graft_str_puts(t, "[");
    graft_str_json(t, name);
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "/");
        char *part = graft_strndup(p, n);
        graft_str_puts(t, ",");
        graft_str_json(t, part ? part : "");
        graft_free(part);
        p += n + (p[n] == '/');
    }
    graft_str_puts(t, "]");
}

/* The folder that an argument names, below the user's. 0 with *path, or the status to answer. */
static int folder_of(graft_serve *s, const char *name, char **path)
{
    char *copy = graft_strdup(name);
    *path = NULL;
    if (!copy) return 500;
    size_t n = strlen(copy);
    while (n && copy[n - 1] == '/') copy[--n] = 0;
    graft_status st = n ? graft_path_inside(s->users, copy, path, NULL) : GRAFT_E_ARG;
    graft_free(copy);
    if (st == GRAFT_E_NOMEM) return 500;
    return st ? 403 : 0;
}

graft_status graft_route_userdata_list(graft_serve *s, const graft_http_request *q,
                                       const char *rest, graft_http_response *r, graft_err *e)
{
    const char *dir = graft_http_arg(q, "dir");
    bool recurse = graft_http_arg_bool(q, "recurse", false);
    bool split = graft_http_arg_bool(q, "split", false);
    bool full = graft_http_arg_bool(q, "full_info", false);
    char *root, **names = NULL;
    size_t n = 0;
    graft_str t = GRAFT_STR_INIT;
    (void)rest;
    if (!dir || !*dir) return graft_http_text(r, 400, "Directory not provided", e);
    int status = folder_of(s, dir, &root);
    if (status == 403) return graft_http_text(r, 403, "Invalid directory", e);
    if (status) return graft_fail_nomem(e, "a path");
    if (!graft_dir_exists(root)) {
        graft_free(root);
        return graft_http_text(r, 404, "Directory not found", e);
    }
    graft_status st = graft_dir_list(root, NULL, &names, &n, e);
    graft_str_puts(&t, "[");
    for (size_t i = 0; i < n; i++) {
        if (!recurse && strchr(names[i], '/')) continue;
        char *path = graft_path_join(root, names[i]);
        struct stat info;
        if (path && stat(path, &info) == 0) {
            if (t.len > 1) graft_str_puts(&t, ",");
            if (full)
                put_info(&t, names[i], &info);
            else if (split)
                put_split(&t, names[i]);
            else
                graft_str_json(&t, names[i]);
        }
        graft_free(path);
    }
    graft_str_puts(&t, "]");
    graft_names_free(names, n);
    graft_free(root);
    if (!st) st = graft_http_str(r, 200, &t, e);
    graft_str_finish(&t);
    return st;
}

/* One folder with its sub-folders, as {name, path, type, size, modified}. */
graft_status graft_route_userdata_list2(graft_serve *s, const graft_http_request *q,
                                        const char *rest, graft_http_response *r, graft_err *e)
{
    const char *sub = graft_http_arg(q, "path");
    char *root;
    graft_str t = GRAFT_STR_INIT;
    struct dirent *entry;
    (void)rest;
    if (sub && *sub) {
        int status = folder_of(s, sub, &root);
        if (status == 403) return graft_http_error(r, 403, "Invalid path", e);
        if (status) return graft_fail_nomem(e, "a path");
    } else if (!(root = graft_strdup(s->users))) {
        return graft_fail_nomem(e, "a path");
    }
    DIR *dir = opendir(root);
    graft_free(root);
    if (!dir) return graft_http_error(r, 404, "Directory not found", e);
    graft_str_puts(&t, "[");
    while ((entry = readdir(dir))) {
        struct stat info;
        if (entry->d_name[0] == '.' || !graft_str_is_utf8(entry->d_name, strlen(entry->d_name)) ||
            fstatat(dirfd(dir), entry->d_name, &info, 0) ||
            (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)))
            continue;
        graft_str path = GRAFT_STR_INIT;
        if (sub && *sub) graft_str_printf(&path, "%s/", sub);
        graft_str_puts(&path, entry->d_name);
        graft_str_puts(&t, t.len > 1 ? ",{\"name\":" : "{\"name\":");
        graft_str_json(&t, entry->d_name);
        graft_str_puts(&t, ",\"path\":");
        graft_str_json(&t, path.data ? path.data : "");
        graft_str_printf(&t, ",\"type\":\"%s\"", S_ISDIR(info.st_mode) ? "directory" : "file");
        if (S_ISREG(info.st_mode)) graft_str_printf(&t, ",\"size\":%lld", (long long)info.st_size);
        graft_str_printf(&t, ",\"modified\":%lld}", (long long)info.st_mtime);
        graft_str_finish(&path);
    }
    closedir(dir);
    graft_str_puts(&t, "]");
    return graft_http_str(r, 200, &t, e);
}

/* 0 with *path, or the status to answer. */
static int file_of(graft_serve *s, const char *name, char **path)
{
    graft_status st = graft_path_inside(s->users, name, path, NULL);
    if (!st) return 0;
    return st == GRAFT_E_NOMEM ? 500 : 403;
}

graft_status graft_route_userdata_get(graft_serve *s, const graft_http_request *q, const char *rest,
                                      graft_http_response *r, graft_err *e)
{
    char *path = NULL, *data = NULL;
    size_t size;
    (void)q;
    int status = file_of(s, rest, &path);
    if (status) return empty(r, status);
    graft_status st = graft_file_exists(path) ? graft_file_read(path, FILE_BYTES, &data, &size, e)
                                              : GRAFT_E_NOTFOUND;
    graft_free(path);
    if (st == GRAFT_E_NOTFOUND) return empty(r, 404);
    if (st) return st;
    graft_http_empty(r, 200);
    r->body = (uint8_t *)data;
    r->size = size;
    /* Whatever the file holds, it is data and never a page. */
    const char *type = graft_http_type(rest);
    r->type = graft_str_starts(type, "application/json") || graft_str_starts(type, "text/css")
                  ? type
                  : "application/octet-stream";
    graft_http_header(r, "cache-control:", "no-cache");
    graft_http_header(r, "content-security-policy:", "sandbox; default-src 'none'");
    return GRAFT_OK;
}

static graft_status answer_path(const graft_http_request *q, const char *name, const char *path,
                                graft_http_response *r, graft_err *e)
{
    graft_str t = GRAFT_STR_INIT;
    struct stat info;
    if (graft_http_arg_bool(q, "full_info", false) && stat(path, &info) == 0)
        put_info(&t, name, &info);
    else
        graft_str_json(&t, name);
    return graft_http_str(r, 200, &t, e);
}

static int make_parent(const char *path)
{
    char *folder = graft_strdup(path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (!slash) {
        graft_free(folder);
        return 500;
    }
    *slash = 0;
    graft_status st = graft_dir_make(folder, NULL);
    graft_free(folder);
    return st ? 400 : 0;
}

static graft_status move(graft_serve *s, const graft_http_request *q, const char *from,
                         const char *to, graft_http_response *r, graft_err *e)
{
    char *source = NULL, *target = NULL;
    graft_status st = GRAFT_OK;
    int status = file_of(s, from, &source);
    if (!status) status = file_of(s, to, &target);
    if (!status && !graft_file_exists(source)) status = 404;
    if (!status && graft_file_exists(target) && !graft_http_arg_bool(q, "overwrite", true))
        status = 409;
    if (!status) status = make_parent(target);
    if (!status && rename(source, target)) status = 400;
    if (status)
        graft_http_empty(r, status);
    else
        st = answer_path(q, to, target, r, e);
    graft_free(source);
    graft_free(target);
    return st;
}

/* FILE/move/TARGET, where both may hold slashes: the first cut at which FILE is a file, else the
 * first one. NULL when the path is no such thing, or a file below a folder named "move". */
static const char *find_move(graft_serve *s, const char *rest)
{
    const char *first = NULL;
    for (const char *p = strstr(rest, "/move/"); p; p = strstr(p + 1, "/move/")) {
        char *name = graft_strndup(rest, (size_t)(p - rest)), *path = NULL;
        bool dir = false;
        if (name && !graft_path_inside(s->users, name, &path, NULL)) {
            if (graft_file_exists(path)) first = p;
            dir = graft_dir_exists(path);
        }
        bool file = first == p;
        graft_free(name);
        graft_free(path);
        if (file) return p;
        if (!first && !dir) first = p;
    }
    return first;
}

graft_status graft_route_userdata_post(graft_serve *s, const graft_http_request *q,
                                       const char *rest, graft_http_response *r, graft_err *e)
{
    const char *cut = find_move(s, rest);
    char *path = NULL;
    if (cut) {
        char *from = graft_strndup(rest, (size_t)(cut - rest));
        if (!from) return graft_fail_nomem(e, "a path");
        graft_status st = move(s, q, from, cut + 6, r, e);
        graft_free(from);
        return st;
    }
    int status = file_of(s, rest, &path);
    if (status) return empty(r, status);
    graft_status st = GRAFT_OK;
    if (!q->body_size) {
        /* The transport resolves "..", so FILE/move/../TARGET arrives as an empty TARGET to save.
         */
        st = graft_http_text(r, 400, "The file is empty", e);
    } else if (graft_file_exists(path) && !graft_http_arg_bool(q, "overwrite", true)) {
        st = graft_http_text(r, 409, "File already exists", e);
    } else if (make_parent(path) || graft_dir_exists(path)) {
        graft_http_empty(r, 400);
    } else {
        st = graft_file_write(path, q->body, q->body_size, e);
        if (!st) st = answer_path(q, rest, path, r, e);
    }
    graft_free(path);
    return st;
}

graft_status graft_route_userdata_delete(graft_serve *s, const graft_http_request *q,
                                         const char *rest, graft_http_response *r, graft_err *e)
{
    char *path = NULL;
    (void)q, (void)e;
    int status = file_of(s, rest, &path);
    if (!status) status = graft_file_exists(path) && unlink(path) == 0 ? 204 : 404;
    graft_free(path);
    return empty(r, status);
}
