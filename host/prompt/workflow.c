#include "host/prompt/workflow.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/png.h"
#include "base/str.h"
#include "host/schema/describe.h"
#include "host/prompt/literal.h"
#include "host/schema/schema.h"
#include "base/tree.h"
#include "base/webp.h"

#define WANTED "a workflow is a JSON file, or a PNG or WebP picture that carries one"

void graft_workflow_finish(graft_workflow *w)
{
    cJSON_Delete(w->prompt);
    cJSON_Delete(w->extra_pnginfo);
    memset(w, 0, sizeof *w);
}

static bool is_graph(const cJSON *json)
{
    return cJSON_IsArray(graft_tree_get(json, "nodes"));
}

/* An API prompt as a file holds it: the prompt itself, or the body that would be posted. */
static cJSON *take_prompt(cJSON *json, cJSON **extra)
{
    cJSON *inner = graft_tree_get(json, "prompt");
    if (!cJSON_IsObject(inner) || graft_tree_get(inner, "class_type")) return json;
    cJSON *data = graft_tree_get(json, "extra_data");
    if (cJSON_IsObject(graft_tree_get(data, "extra_pnginfo")))
        *extra = cJSON_DetachItemFromObjectCaseSensitive(data, "extra_pnginfo");
    inner = cJSON_DetachItemFromObjectCaseSensitive(json, "prompt");
    cJSON_Delete(json);
    return inner;
}

/* {"workflow": graph}; takes `graph`. */
static graft_status keep_graph(cJSON *graph, graft_workflow *out, graft_err *e)
{
    out->extra_pnginfo = cJSON_CreateObject();
    if (graft_tree_put(out->extra_pnginfo, "workflow", graph)) return GRAFT_OK;
    return graft_fail_nomem(e, "a workflow");
}

graft_status graft_workflow_parse(const char *text, size_t n, const char *what,
                                  const graft_registry *r, graft_workflow *out, graft_err *e)
{
    cJSON *json = NULL;
    memset(out, 0, sizeof *out);
    graft_status st = graft_json_parse_python(text, n, what, &json, e);
    if (st) return st;
    if (is_graph(json)) {
        st = graft_workflow_from_ui(json, r, &out->prompt, e);
        out->editor = true;
        if (st) graft_err_prefix(e, st, "%s", what);
        if (st)
            cJSON_Delete(json);
        else
            st = keep_graph(json, out, e);
    } else if (cJSON_IsObject(json)) {
        out->prompt = take_prompt(json, &out->extra_pnginfo);
    } else {
        const char *is = cJSON_IsArray(json) ? "a list" : "a single value";
        cJSON_Delete(json);
        st = graft_fail(e, GRAFT_E_FORMAT, "%s: this is %s; a workflow is a JSON object of nodes",
                        what, is);
    }
    if (st) graft_workflow_finish(out);
    return st;
}

/* A picture's "prompt" is what made it, to the letter; its "workflow" is the graph in the editor.
 */
static graft_status read_picture(const char *data, size_t size, const char *path,
                                 const graft_registry *r, graft_workflow *out, graft_err *e)
{
    graft_status (*const read)(const uint8_t *, size_t, const char *, char **, graft_err *) =
        graft_webp_is((const uint8_t *)data, size) ? graft_webp_read_text : graft_png_read_text;
    char *prompt = NULL, *graph = NULL;
    cJSON *json = NULL;
    graft_status st = read((const uint8_t *)data, size, "prompt", &prompt, e);
    /* What failed first is told, unless something was found: a file that is cut off still has what
     * stands before its picture. */
    if (st == GRAFT_OK || st == GRAFT_E_NOTFOUND)
        st = read((const uint8_t *)data, size, "workflow", &graph, e);
    else if (st != GRAFT_E_NOMEM)
        read((const uint8_t *)data, size, "workflow", &graph, NULL);
    if (st == GRAFT_E_NOMEM || (st && st != GRAFT_E_NOTFOUND && !prompt && !graph)) {
        graft_err_prefix(e, st, "%s", path);
        goto out;
    }
    if (!prompt && !graph) {
        st = graft_fail(e, GRAFT_E_NOTFOUND, "%s: the picture carries no workflow; " WANTED, path);
        goto out;
    }
    st = GRAFT_E_NOTFOUND;
    if (prompt) st = graft_workflow_parse(prompt, strlen(prompt), path, r, out, e);
    /* Some programs wrote prompts that are not JSON; the graph may still be good. */
    if (st && st != GRAFT_E_NOMEM && graph)
        st = graft_workflow_parse(graph, strlen(graph), path, r, out, e);
    if (st) goto out;
    if (prompt && graph && !out->extra_pnginfo &&
        graft_json_parse_python(graph, strlen(graph), path, &json, NULL) == GRAFT_OK)
        st = keep_graph(json, out, e);
    if (st) graft_workflow_finish(out);
out:
    graft_free(prompt);
    graft_free(graph);
    return st;
}

/* A file that is no workflow, told before its first letter is called wrong. */
static graft_status check_kind(const char *text, size_t n, const char *path, graft_err *e)
{
    size_t at = 0;
    while (at < n && strchr(" \t\r\n", text[at]) && text[at]) at++;
    if (at == n) return graft_fail(e, GRAFT_E_FORMAT, "%s: the file is empty; " WANTED, path);
    if (n > 3 && memcmp(text, "\xff\xd8\xff", 3) == 0)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: a JPEG picture carries no workflow; " WANTED,
                          path);
    if (text[at] == '{' || text[at] == '[' || text[at] == '"') return GRAFT_OK;
    return graft_fail(e, GRAFT_E_FORMAT, "%s: neither JSON nor a PNG or WebP picture; " WANTED,
                      path);
}

/* A prompt is an object of nodes. */
static graft_status check_nodes(const cJSON *prompt, const char *path, graft_err *e)
{
    for (const cJSON *node = prompt->child; node; node = node->next)
        if (graft_json_str(node, "class_type", NULL)) return GRAFT_OK;
    for (const cJSON *node = prompt->child; node; node = node->next)
        if (cJSON_IsObject(graft_tree_get(node, "inputs")))
            return graft_fail(e, GRAFT_E_FORMAT, "%s: node %.80s has no class_type", path,
                              node->string);
    return graft_fail(e, GRAFT_E_FORMAT, "%s: JSON, but not a workflow: there is no node in it",
                      path);
}

const char *graft_workflow_shown(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

graft_status graft_workflow_read(const char *path, const graft_registry *r, graft_workflow *out,
                                 graft_err *e)
{
    static const unsigned char magic[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    char *text = NULL;
    size_t n = 0;
    memset(out, 0, sizeof *out);
    bool given = graft_workflow_shown(path) == path;
    if (given && graft_dir_exists(path))
        return graft_fail(e, GRAFT_E_ARG, "%s: this is a folder; " WANTED, path);
    graft_status st =
        graft_file_read_stream(given ? path : NULL, GRAFT_JSON_MAX_BYTES, &text, &n, e);
    if (st) return st;
    path = graft_workflow_shown(path);
    if ((n >= sizeof magic && memcmp(text, magic, sizeof magic) == 0) ||
        graft_webp_is((const uint8_t *)text, n)) {
        st = read_picture(text, n, path, r, out, e);
    } else {
        /* Some editors put a mark of UTF-8 first. */
        size_t mark = n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        st = check_kind(text + mark, n - mark, path, e);
        if (!st) st = graft_workflow_parse(text + mark, n - mark, path, r, out, e);
    }
    if (!st) st = check_nodes(out->prompt, path, e);
    if (st) graft_workflow_finish(out);
    graft_free(text);
    return st;
}

/* The title in the editor, or else the class's; may be NULL. */
static const char *title_of(const cJSON *node, const graft_registry *r)
{
    const char *class_type = graft_json_str(node, "class_type", "");
    const char *title = graft_json_str(graft_tree_get(node, "_meta"), "title", NULL);
    const graft_registry_node *entry = graft_registry_find(r, class_type);
    return !title && entry ? entry->node->title : title;
}

static bool named(const cJSON *node, const char *name, const graft_registry *r)
{
    const char *class_type = graft_json_str(node, "class_type", ""), *title = title_of(node, r);
    return strcmp(class_type, name) == 0 || (title && strcmp(title, name) == 0);
}

/* Ids are left out: every number is near to every other. */
static graft_status not_named(const cJSON *prompt, const char *name, const graft_registry *r,
                              graft_err *e)
{
    char text[GRAFT_NEAR_TEXT];
    graft_near near;
    graft_near_init(&near, name);
    for (const cJSON *node = prompt->child; node; node = node->next) {
        const char *title = title_of(node, r);
        graft_near_add(&near, graft_json_str(node, "class_type", ""));
        if (title) graft_near_add(&near, title);
    }
    return graft_fail(e, GRAFT_E_NOTFOUND, "no node has the id, title or class \"%.80s\"%s", name,
                      graft_near_text(&near, text));
}

static graft_status find_named(cJSON *prompt, const char *name, const graft_registry *r,
                               cJSON **out, graft_err *e)
{
    graft_str ids = GRAFT_STR_INIT;
    size_t n = 0;
    *out = cJSON_GetObjectItemCaseSensitive(prompt, name);
    if (*out) return GRAFT_OK;
    for (cJSON *node = prompt->child; node; node = node->next) {
        if (!named(node, name, r)) continue;
        *out = node;
        graft_str_printf(&ids, "%s%s", n++ ? ", " : "", node->string);
    }
    graft_status st = GRAFT_OK;
    if (n > 1)
        st = graft_fail(e, GRAFT_E_ARG, "\"%s\" is the name of several nodes: %s; use an id", name,
                        ids.data ? ids.data : "");
    else if (!n)
        st = not_named(prompt, name, r, e);
    graft_str_finish(&ids);
    return st;
}

static graft_status no_such_class(const cJSON *node, const graft_registry *r, graft_err *e)
{
    const char *class_type = graft_json_str(node, "class_type", "");
    char text[GRAFT_NEAR_TEXT];
    graft_near near;
    graft_near_init(&near, class_type);
    graft_describe_near(r, &near);
    return graft_fail(e, GRAFT_E_NOTFOUND, "node %s: there is no node class %.80s%s", node->string,
                      class_type, graft_near_text(&near, text));
}

/* Inputs that take a link are named, too: who meant one is told what it takes. */
static graft_status find_input(const cJSON *node, const graft_node *schema, const char *name,
                               const graft_input **out, graft_err *e)
{
    char text[GRAFT_NEAR_TEXT];
    graft_near near;
    graft_near_init(&near, name);
    for (size_t i = 0; i < graft_schema_inputs(schema); i++) {
        *out = schema->inputs[i];
        if (graft_schema_one_of(*out, name)) return GRAFT_OK;
        if ((*out)->flags & GRAFT_INPUT_MANY) continue;
        if (strcmp((*out)->name, name) == 0) return GRAFT_OK;
        graft_near_add(&near, (*out)->name);
    }
    return graft_fail(e, GRAFT_E_NOTFOUND, "node %s (%s) has no input \"%.80s\"%s", node->string,
                      schema->id, name, graft_near_text(&near, text));
}

/* An input that is one of many has JSON for its value. */
static graft_status value_of(const cJSON *node, const graft_input *in, const char *name,
                             const char *text, cJSON **out, graft_err *e)
{
    char what[300];
    if (!(in->flags & GRAFT_INPUT_MANY)) {
        *out = graft_literal_from_text(in, text);
        return *out ? GRAFT_OK : graft_fail_nomem(e, "an input");
    }
    snprintf(what, sizeof what, "node %s, input %.80s", node->string, name);
    return graft_json_parse(text, strlen(text), what, out, e);
}

graft_status graft_workflow_set(cJSON *prompt, const graft_registry *r, const char *node,
                                const char *input, const char *text, graft_err *e)
{
    cJSON *found, *inputs, *value;
    graft_status st = find_named(prompt, node, r, &found, e);
    if (st) return st;
    const char *class_type = graft_json_str(found, "class_type", "");
    const graft_registry_node *entry = graft_registry_find(r, class_type);
    if (!entry) return no_such_class(found, r, e);
    const graft_input *in = NULL;
    if ((st = find_input(found, entry->node, input, &in, e))) return st;
    if (!graft_schema_literal(in) && strcmp(in->type, "*") != 0)
        return graft_fail(e, GRAFT_E_ARG, "node %s (%s): input %s takes a link to %s, not a value",
                          found->string, class_type, input, in->type);
    inputs = graft_tree_get(found, "inputs");
    if (!cJSON_IsObject(inputs)) {
        inputs = cJSON_CreateObject();
        if (!graft_tree_set(found, "inputs", inputs)) return graft_fail_nomem(e, "an input");
    }
    if ((st = value_of(found, in, input, text, &value, e))) return st;
    return graft_tree_set(inputs, input, value) ? GRAFT_OK : graft_fail_nomem(e, "an input");
}
