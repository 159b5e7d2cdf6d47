#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/png.h"
#include "host/serve/multipart.h"
#include "host/serve/picture.h"
#include "host/serve/routes.h"
#include "base/tree.h"

#define TRIES       10000 /* names "x (1).png" … that are tried */
#define LONG_NAME   180   /* bytes before " (1)": with it and the suffix a name has up to 255 */
#define LONG_SUFFIX 60

/* Where a file goes: a folder below one of the roots, and its name. */
struct place {
    const char *type, *root;
    char type_text[16], sub[512], name[300];
    bool overwrite;
};

/* 0, or the status to answer. */
static int place_of(graft_serve *s, const graft_multipart *m, const graft_multipart_part *file,
                    struct place *p)
{
    char flag[8];
    if (!graft_multipart_text(m, "type", p->type_text, sizeof p->type_text) || !p->type_text[0])
        snprintf(p->type_text, sizeof p->type_text, "input");
    graft_multipart_text(m, "subfolder", p->sub, sizeof p->sub);
    if (graft_multipart_find(m, "subfolder") && graft_multipart_find(m, "subfolder")->size &&
        !p->sub[0])
        return 400;
    graft_multipart_text(m, "overwrite", flag, sizeof flag);
    p->overwrite = strcasecmp(flag, "true") == 0 || strcmp(flag, "1") == 0;
    p->root = graft_folders_root(&s->session.folders, p->type_text);
    snprintf(p->name, sizeof p->name, "%s", file->filename);
    if (!p->root || !p->name[0] || strchr(p->name, '/') || strchr(p->name, '\\') ||
        strstr(p->name, "..") || p->name[0] == '.' || !graft_str_is_utf8(p->name, strlen(p->name)))
        return 400;
    const char *dot = strrchr(p->name, '.');
    if (dot && strlen(dot) > LONG_SUFFIX) return 400;
    size_t n = strlen(p->sub);
    while (n && p->sub[n - 1] == '/') p->sub[--n] = 0;
    return 0;
}

static bool same_content(const char *path, const void *data, size_t size)
{
    graft_mapping m;
    if (graft_file_map(path, &m, NULL)) return false;
    bool same = m.size == size && (!size || memcmp(m.data, data, size) == 0);
    graft_file_unmap(&m);
    return same;
}

/* Writes the file under its name, or under "name (1).png" … when another one has that; changes
 * p->name. 0 or the status to answer. */
static int write_file(struct place *p, const char *folder, const void *data, size_t size)
{
    char base[LONG_NAME + 1], suffix[LONG_SUFFIX + 1];
    const char *dot = strrchr(p->name, '.');
    size_t stem = dot ? (size_t)(dot - p->name) : strlen(p->name);
    snprintf(suffix, sizeof suffix, "%s", dot ? dot : "");
    if (stem > LONG_NAME) stem = LONG_NAME;
    while (stem && (p->name[stem] & 0xc0) == 0x80) stem--; /* not within a character */
    snprintf(base, sizeof base, "%.*s", (int)stem, p->name);
    for (int i = 0; i < TRIES; i++) {
        char *path = NULL;
        if (i) snprintf(p->name, sizeof p->name, "%s (%d)%s", base, i, suffix);
        if (graft_path_inside(folder, p->name, &path, NULL)) return 400;
        int status = -1;
        if (p->overwrite)
            status = graft_file_write(path, data, size, NULL) ? 500 : 0;
        else if (graft_file_exists(path))
            status = same_content(path, data, size) ? 0 : -1;
        else {
            graft_status st = graft_file_write_new(path, data, size, NULL);
            status = !st ? 0 : st == GRAFT_E_ARG ? -1 : 500;
        }
        graft_free(path);
        if (status >= 0) return status;
    }
    return 500;
}

static int store(struct place *p, const void *data, size_t size)
{
    char *folder = NULL;
    if (graft_dir_make(p->root, NULL)) return 500;
    if (!p->sub[0])
        folder = graft_strdup(p->root);
    else if (graft_path_inside(p->root, p->sub, &folder, NULL))
        return 400;
    if (!folder) return 500;
    int status = graft_dir_make(folder, NULL) ? 400 : write_file(p, folder, data, size);
    graft_free(folder);
    return status;
}

static graft_status finish(graft_serve *s, const struct place *p, int status,
                           graft_http_response *r, graft_err *e)
{
    graft_str t = GRAFT_STR_INIT;
    if (status) {
        graft_http_empty(r, status);
        return GRAFT_OK;
    }
    graft_serve_forget_info(s);
    graft_str_puts(&t, "{\"name\":");
    graft_str_json(&t, p->name);
    graft_str_puts(&t, ",\"subfolder\":");
    graft_str_json(&t, p->sub);
    graft_str_printf(&t, ",\"type\":\"%s\"}", p->type_text);
    return graft_http_str(r, 200, &t, e);
}

graft_status graft_route_upload_image(graft_serve *s, const graft_http_request *q, const char *rest,
                                      graft_http_response *r, graft_err *e)
{
    graft_multipart m;
    struct place p = {0};
    int status = 400;
    (void)rest;
    if (!graft_multipart_parse(q->content_type, q->body, q->body_size, &m, NULL)) {
        const graft_multipart_part *file = graft_multipart_find(&m, "image");
        if (file && file->filename[0]) {
            status = place_of(s, &m, file, &p);
            if (!status) status = store(&p, file->data, file->size);
        }
    }
    return finish(s, &p, status, r, e);
}

/* Reads the picture that the mask belongs to. 0 or the status to answer. */
static int read_original(graft_serve *s, const graft_multipart *m, char **data, size_t *size)
{
    char text[2048];
    cJSON *ref = NULL;
    char *path = NULL;
    int status = 0;
    if (!graft_multipart_text(m, "original_ref", text, sizeof text) &&
        !graft_multipart_text(m, "originalRef", text, sizeof text))
        return 400;
    if (graft_json_parse(text, strlen(text), "original_ref", &ref, NULL)) return 400;
    const char *name = graft_json_str(ref, "filename", "");
    const char *sub = graft_json_str(ref, "subfolder", "");
    const char *type = graft_json_str(ref, "type", "output");
    const char *root = graft_folders_root(&s->session.folders, type);
    graft_str full = GRAFT_STR_INIT;
    if (*sub) graft_str_printf(&full, "%s/", sub);
    graft_str_puts(&full, name);
    if (!root || !*name || strstr(name, "..") || name[0] == '/')
        status = 400;
    else if (full.failed || graft_path_inside(root, full.data, &path, NULL))
        status = 403;
    else if (graft_file_read(path, (size_t)256 << 20, data, size, NULL))
        status = 404;
    graft_str_finish(&full);
    graft_free(path);
    cJSON_Delete(ref);
    return status;
}

/* The original with the uploaded picture's alpha, as PNG with the original's workflow. */
static int put_alpha(const graft_multipart_part *mask, const char *original, size_t size,
                     uint8_t **out, size_t *out_size)
{
    graft_picture a = {0}, b = {0};
    char *text[2] = {NULL, NULL};
    graft_png_text chunk[2];
    static const char *const key[2] = {"prompt", "workflow"};
    size_t n = 0;
    int status = 400;
    if (graft_picture_read((const uint8_t *)original, size, &a, NULL) ||
        graft_picture_read(mask->data, mask->size, &b, NULL))
        goto out;
    for (int64_t y = 0; y < a.height; y++)
        for (int64_t x = 0; x < a.width; x++) {
            /* The mask may have been painted at another size. */
            int64_t sx = x * b.width / a.width, sy = y * b.height / a.height;
            a.rgba[(y * a.width + x) * 4 + 3] = b.rgba[(sy * b.width + sx) * 4 + 3];
        }
    for (int i = 0; i < 2; i++)
        if (!graft_png_read_text((const uint8_t *)original, size, key[i], &text[i], NULL))
            chunk[n++] = (graft_png_text){key[i], text[i]};
    status = graft_png_encode(a.rgba, (uint32_t)a.width, (uint32_t)a.height, 4, 4, chunk, n, out,
                              out_size, NULL)
                 ? 500
                 : 0;
out:
    graft_free(text[0]);
    graft_free(text[1]);
    graft_picture_finish(&a);
    graft_picture_finish(&b);
    return status;
}

graft_status graft_route_upload_mask(graft_serve *s, const graft_http_request *q, const char *rest,
                                     graft_http_response *r, graft_err *e)
{
    graft_multipart m;
    struct place p = {0};
    char *original = NULL;
    uint8_t *png = NULL;
    size_t size = 0, png_size = 0;
    int status = 400;
    (void)rest;
    if (!graft_multipart_parse(q->content_type, q->body, q->body_size, &m, NULL)) {
        const graft_multipart_part *file = graft_multipart_find(&m, "image");
        if (file && file->filename[0]) status = place_of(s, &m, file, &p);
        if (!status) status = read_original(s, &m, &original, &size);
        if (!status) status = put_alpha(file, original, size, &png, &png_size);
        if (!status) status = store(&p, png, png_size);
    }
    graft_free(original);
    graft_free(png);
    return finish(s, &p, status, r, e);
}
