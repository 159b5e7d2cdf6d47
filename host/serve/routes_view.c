#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "host/serve/picture.h"
#include "host/serve/routes.h"
#include "host/serve/stored.h"

#define PICTURE_BYTES ((size_t)256 << 20)
#define FORM          "-form" /* of an entity tag: what is made of the file, by the address */

/* "name.png [output]" names the folder, too. Cuts the note off and returns the folder or NULL. */
static const char *take_note(char *name)
{
    static const char *const type[] = {"output", "input", "temp"};
    for (size_t i = 0; i < 3; i++) {
        char note[16];
        int n = snprintf(note, sizeof note, " [%s]", type[i]);
        if (!graft_str_ends(name, note)) continue;
        name[strlen(name) - (size_t)n] = 0;
        return type[i];
    }
    return NULL;
}

/* Appends a folder, less what means nothing in its name ("a//./b/" is a/b). What could lead out of
 * the root stays, to be refused. */
static void put_folder(graft_str *out, const char *sub)
{
    if (*sub == '/') graft_str_puts(out, "/");
    for (size_t n; *sub; sub += n + (sub[n] == '/')) {
        n = strcspn(sub, "/");
        if (n > 1 || (n && *sub != '.')) graft_str_printf(out, "%.*s/", (int)n, sub);
    }
}

/* The file that the arguments name. 0 with *path, or the status to answer. */
static int find(graft_serve *s, const graft_http_request *q, char **path, const char **leaf)
{
    const char *given = graft_http_arg(q, "filename");
    const char *sub = graft_http_arg(q, "subfolder"), *type = graft_http_arg(q, "type");
    graft_str full = GRAFT_STR_INIT;
    *path = NULL;
    if (!given || !*given) return 404;
    char *name = graft_strdup(given);
    if (!name) return 500;
    const char *noted = take_note(name);
    const char *root = graft_folders_root(&s->session.folders, noted           ? noted
                                                               : type && *type ? type
                                                                               : "output");
    int status = 0;
    if (!root || name[0] == '/' || strstr(name, "..") || !name[0]) {
        status = 400;
    } else {
        if (sub) put_folder(&full, sub);
        graft_str_puts(&full, name);
        graft_status st =
            full.failed ? GRAFT_E_NOMEM : graft_path_inside(root, full.data, path, NULL);
        if (st == GRAFT_E_NOMEM)
            status = 500;
        else if (st)
            status = sub && *sub ? 403 : graft_dir_exists(root) ? 400 : 404;
        else if (!graft_file_exists(*path))
            status = 404;
    }
    graft_str_finish(&full);
    graft_free(name);
    if (status) {
        graft_free(*path);
        *path = NULL;
        return status;
    }
    const char *slash = strrchr(*path, '/');
    *leaf = slash ? slash + 1 : *path;
    return 0;
}

#define UNESCAPED "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"

/* The name in ASCII, and where it has more than that, and room, as it is (RFC 6266, RFC 8187). */
static void put_name(graft_http_response *r, const char *leaf, bool attachment)
{
    graft_str plain = GRAFT_STR_INIT, whole = GRAFT_STR_INIT;
    bool ascii = true;
    graft_str_printf(&plain, "%sfilename=\"", attachment ? "attachment; " : "");
    for (const char *p = leaf; *p; p++) {
        bool safe = *p >= ' ' && *p <= '~' && *p != '"' && *p != '\\';
        ascii = ascii && (uint8_t)*p < 0x80;
        if (p - leaf < 200) graft_str_printf(&plain, "%c", safe ? *p : '_');
        graft_str_printf(&whole, strchr(UNESCAPED, *p) ? "%c" : "%%%02X", (uint8_t)*p);
    }
    graft_str_printf(&plain, "\"");
    if (!plain.failed && !whole.failed && !ascii &&
        plain.len + whole.len + 20 < sizeof r->header[0].value)
        graft_str_printf(&plain, "; filename*=UTF-8''%s", whole.data);
    if (!plain.failed) graft_http_header(r, "content-disposition:", plain.data);
    graft_str_finish(&plain);
    graft_str_finish(&whole);
}

/* Another form of the picture, as the body of r: preview=FORMAT;QUALITY gives JPEG, channel=rgb|a
 * gives PNG. */
static graft_status convert(const char *path, const char *preview, const char *channel,
                            graft_http_response *r, graft_err *e)
{
    char *data = NULL;
    uint8_t *out = NULL;
    size_t size;
    graft_picture p = {0};
    graft_status st = graft_file_read(path, PICTURE_BYTES, &data, &size, e);
    if (st) goto out;
    GRAFT_TRY(graft_picture_read((const uint8_t *)data, size, &p, e));
    size_t pixels = (size_t)p.width * (size_t)p.height;
    if (channel && strcmp(channel, "a") == 0)
        for (size_t i = 0; i < pixels; i++) memset(p.rgba + 4 * i, 0, 3);
    if (preview) {
        const char *quality = strchr(preview, ';');
        GRAFT_TRY(graft_picture_jpeg(&p, quality ? atoi(quality + 1) : 90, &out, &size, e));
    } else {
        int channels = channel && strcmp(channel, "rgb") == 0 ? 3 : 4;
        GRAFT_TRY(graft_picture_png(&p, channels, &out, &size, e));
    }
    r->body = out;
    r->size = size;
    r->type = preview ? "image/jpeg" : "image/png";
out:
    graft_picture_finish(&p);
    graft_free(data);
    return st;
}

graft_status graft_route_view(graft_serve *s, const graft_http_request *q, const char *rest,
                              graft_http_response *r, graft_err *e)
{
    char *path;
    const char *leaf;
    const char *preview = graft_http_arg(q, "preview"), *channel = graft_http_arg(q, "channel");
    (void)rest;
    int status = find(s, q, &path, &leaf);
    if (status) {
        graft_http_empty(r, status);
        return GRAFT_OK;
    }
    const char *type = graft_http_type(leaf);
    bool inert = graft_http_type_inert(type);
    if (preview && !*preview) preview = NULL;
    if (channel && strcmp(channel, "rgb") != 0 && strcmp(channel, "a") != 0) channel = NULL;
    struct stat info;
    int fd = graft_stored_open(path, &info);
    graft_http_empty(r, fd < 0 ? 404 : 200);
    if (fd < 0) goto out;
    /* What cannot be decoded here is sent as it is. */
    bool other = (preview || channel) && graft_str_starts(type, "image/");
    if (other && (graft_stored_known(r, q, &info, FORM) ||
                  convert(path, preview, channel, r, e) == GRAFT_OK))
        close(fd);
    else
        graft_stored_answer(r, q, fd, &info, inert ? type : "application/octet-stream");
    put_name(r, leaf, !inert);
    if (!inert) graft_http_header(r, "content-security-policy:", "sandbox; default-src 'none'");
    graft_http_header(r, "cache-control:", "no-cache");
out:
    graft_free(path);
    return GRAFT_OK;
}

struct file {
    char *name;
    time_t time;
};

static int newest_first(const void *a, const void *b)
{
    const struct file *x = a, *y = b;
    return x->time != y->time ? (x->time < y->time) - (x->time > y->time)
                              : strcmp(x->name, y->name);
}

/* A link that leads out of the folder is no file of it: /view would not show it. */
static bool leads_out(int dir, const char *root, const char *name)
{
    struct stat info;
    char *path = NULL;
    if (fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) || !S_ISLNK(info.st_mode)) return false;
    graft_status st = graft_path_inside(root, name, &path, NULL);
    graft_free(path);
    return st != GRAFT_OK;
}

/* The files at the top of a folder. */
static graft_status list_files(const char *root, struct file **file, size_t *n, graft_err *e)
{
    size_t cap = 0;
    DIR *dir = opendir(root);
    struct dirent *entry;
    graft_status st = GRAFT_OK;
    while (!st && dir && (entry = readdir(dir))) {
        struct stat info;
        if (entry->d_name[0] == '.' || !graft_str_is_utf8(entry->d_name, strlen(entry->d_name)) ||
            fstatat(dirfd(dir), entry->d_name, &info, 0) || !S_ISREG(info.st_mode) ||
            leads_out(dirfd(dir), root, entry->d_name))
            continue;
        char *copy = graft_strdup(entry->d_name);
        if (!copy || graft_grow(file, &cap, *n + 1, sizeof **file)) {
            graft_free(copy);
            st = graft_fail_nomem(e, "a list of files");
        } else {
            (*file)[(*n)++] = (struct file){copy, info.st_mtime};
        }
    }
    if (dir) closedir(dir);
    return st;
}

graft_status graft_route_internal_files(graft_serve *s, const graft_http_request *q,
                                        const char *rest, graft_http_response *r, graft_err *e)
{
    const char *root = graft_folders_root(&s->session.folders, rest);
    struct file *file = NULL;
    size_t n = 0;
    graft_str t = GRAFT_STR_INIT;
    (void)q;
    if (!root) return graft_http_error(r, 400, "Invalid directory type", e);
    graft_status st = list_files(root, &file, &n, e);
    if (n > 1) qsort(file, n, sizeof *file, newest_first);
    graft_str_puts(&t, "[");
    for (size_t i = 0; i < n; i++) {
        graft_str_puts(&t, i ? "," : "");
        graft_str_json(&t, file[i].name);
        graft_free(file[i].name);
    }
    graft_str_puts(&t, "]");
    graft_free(file);
    if (!st) return graft_http_str(r, 200, &t, e);
    graft_str_finish(&t);
    return st;
}
