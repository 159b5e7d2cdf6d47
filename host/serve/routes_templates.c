/* Workflows to begin with, as a package of nodes brings them: {"graft": [names]}, and its files.
 * ComfyUI's frontend opens those of editors alone; Graft's page asks for format=any. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "host/serve/routes.h"
#include "base/tree.h"

#define PACKAGE "graft"
#define INDEX   "index.json" /* of a folder of templates: what each is called and does */

#define MAX_FILE ((size_t)8 << 20)

static const char *const suffix[] = {".json", NULL};

/* Whether a file is a workflow as editors save it, with nodes that have places. */
static bool is_of_editor(const char *folder, const char *name)
{
    char *path = NULL, *text = NULL;
    size_t size = 0;
    cJSON *json = NULL;
    bool is = !graft_path_inside(folder, name, &path, NULL) && graft_file_exists(path) &&
              !graft_file_read(path, MAX_FILE, &text, &size, NULL) &&
              !graft_json_parse_python(text, size, name, &json, NULL) &&
              cJSON_IsArray(graft_tree_get(json, "nodes"));
    cJSON_Delete(json);
    graft_free(text);
    graft_free(path);
    return is;
}

/* Names without their suffix; those in sub-folders are none. */
static void put_names(graft_str *t, const char *folder, bool any, char **names, size_t n)
{
    for (size_t i = 0, listed = 0; i < n; i++) {
        if (strchr(names[i], '/') || strcmp(names[i], INDEX) == 0) continue;
        if (!any && !is_of_editor(folder, names[i])) continue;
        char *name = graft_strndup(names[i], strlen(names[i]) - strlen(suffix[0]));
        graft_str_puts(t, listed++ ? "," : "{\"" PACKAGE "\":[");
        if (name)
            graft_str_json(t, name);
        else
            t->failed = true;
        graft_free(name);
    }
    graft_str_puts(t, t->len ? "]}" : "{}");
}

graft_status graft_route_templates(graft_serve *s, const graft_http_request *q, const char *rest,
                                   graft_http_response *r, graft_err *e)
{
    char **names = NULL;
    size_t n = 0;
    graft_str t = GRAFT_STR_INIT;
    const char *format = graft_http_arg(q, "format");
    (void)rest;
    if (graft_dir_exists(s->templates)) {
        graft_status st = graft_dir_list(s->templates, suffix, &names, &n, e);
        if (st) return st;
    }
    put_names(&t, s->templates, format && strcmp(format, "any") == 0, names, n);
    graft_names_free(names, n);
    return graft_http_str(r, 200, &t, e);
}

/* Only what a template consists of: a workflow, and a picture of it. */
graft_status graft_route_template(graft_serve *s, const graft_http_request *q, const char *rest,
                                  graft_http_response *r, graft_err *e)
{
    const char *type = graft_http_type(rest);
    bool ours = graft_str_starts(rest, PACKAGE "/");
    if (ours && (graft_str_starts(type, "application/json") || graft_http_type_inert(type)))
        return graft_serve_file(s->templates, rest + strlen(PACKAGE "/"), q, r, e);
    return graft_http_text(r, 404, "404: Not Found", e);
}
