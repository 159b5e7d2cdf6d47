#include "nodes/call/output.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"

enum { ATTEMPTS = 100 }; /* another process may take a reserved name first */

static const graft_folders_api *folders(graft_call *c)
{
    return c->self->host->query(c->self->host, GRAFT_FOLDERS_ID);
}

graft_status graft_output_reserve(graft_call *c, const char *folder, const char *prefix,
                                  const char *suffix, int64_t width, int64_t height,
                                  graft_output_file *out)
{
    const graft_folders_api *api = folders(c);
    char why[512] = "";
    *out = (graft_output_file){NULL, NULL, NULL};
    if (!api) return graft_fail(&c->err, GRAFT_E_UNSUPPORTED, "this host gives no access to files");
    graft_status st = api->reserve(c->self->host, folder, prefix, suffix, width, height, &out->path,
                                   &out->name, &out->subfolder, why, sizeof why);
    if (st == GRAFT_OK) return GRAFT_OK;
    *out = (graft_output_file){NULL, NULL, NULL};
    return graft_fail(&c->err, st, "%s", why[0] ? why : graft_status_text(st));
}

void graft_output_finish(graft_call *c, graft_output_file *f)
{
    const graft_folders_api *api = folders(c);
    char *text[] = {f->path, f->name, f->subfolder};
    for (int i = 0; i < 3; i++)
        if (text[i]) api->free_text(c->self->host, text[i]);
    *f = (graft_output_file){NULL, NULL, NULL};
}

graft_status graft_output_show(graft_call *c, const char *key, const char *folder,
                               const graft_output_file *f)
{
    if (!c->self->ui) return GRAFT_OK;
    graft_str json = GRAFT_STR_INIT;
    graft_str_puts(&json, "{\"filename\": ");
    graft_str_json(&json, f->name);
    graft_str_puts(&json, ", \"subfolder\": ");
    graft_str_json(&json, f->subfolder ? f->subfolder : "");
    graft_str_puts(&json, ", \"type\": ");
    graft_str_json(&json, folder);
    graft_str_puts(&json, "}");
    char *text = graft_str_take(&json);
    if (!text) {
        graft_str_finish(&json);
        return graft_fail_nomem(&c->err, "the name of a saved file");
    }
    c->self->ui->add(c->job, key, text);
    graft_free(text);
    return GRAFT_OK;
}

graft_status graft_output_show_text(graft_call *c, const char *text)
{
    graft_str json = GRAFT_STR_INIT;
    if (!c->self->ui) return GRAFT_OK;
    graft_str_json(&json, text);
    char *quoted = graft_str_take(&json);
    graft_str_finish(&json);
    if (!quoted) return graft_fail_nomem(&c->err, "a text to show");
    c->self->ui->add(c->job, "text", quoted);
    graft_free(quoted);
    return GRAFT_OK;
}

/* A reserved name has its folders already; without the file, those that are empty go again. */
static void remove_folders(const graft_output_file *f)
{
    char *path = *f->subfolder ? graft_strdup(f->path) : NULL, *slash;
    size_t deep = 1;
    for (const char *p = f->subfolder; *p; p++) deep += *p == '/';
    while (path && deep--) {
        slash = strrchr(path, '/');
        if (slash) *slash = 0;
        if (!slash || rmdir(path)) break;
    }
    graft_free(path);
}

graft_status graft_output_write(graft_call *c, const graft_output_place *place, const char *key,
                                graft_output_writer *write, const void *what)
{
    graft_output_file file;
    graft_status st = GRAFT_E_IO;
    for (int i = 0; i < ATTEMPTS; i++) {
        st = graft_output_reserve(c, place->folder, place->prefix, place->suffix, place->width,
                                  place->height, &file);
        if (st != GRAFT_OK) return st;
        st = write(what, file.path, &c->err);
        bool taken = st == GRAFT_E_ARG && graft_file_exists(file.path);
        if (st == GRAFT_OK)
            st = graft_output_show(c, key, place->folder, &file);
        else
            remove_folders(&file);
        graft_output_finish(c, &file);
        if (!taken) break;
    }
    return st;
}

/* What the host will refuse in any case, whatever it expands and tidies in the name first. */
static const char *prefix_fault(const char *prefix)
{
    if (*prefix == '/') return "is absolute";
    for (const char *p = prefix; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '\\')
            return "has a control character or a back-slash";
    for (const char *part = prefix; *part;) {
        size_t n = strcspn(part, "/");
        if (n == 2 && strncmp(part, "..", 2) == 0) return "leaves its folder";
        part += n + (part[n] == '/');
    }
    return NULL;
}

graft_status graft_output_validate(const graft_arg *prefix, char *text, uint64_t n)
{
    const char *fault = prefix->kind == GRAFT_STRING ? prefix_fault(prefix->u.s) : NULL;
    if (!fault) return GRAFT_OK;
    snprintf(text, n, "the name \"%.200s\" %s", prefix->u.s, fault);
    return GRAFT_E_ARG;
}
