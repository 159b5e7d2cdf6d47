#include "host/prompt/validation.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/tree.h"

void graft_validation_finish(graft_validation *v)
{
    graft_prompt_destroy(v->prompt);
    cJSON_Delete(v->error);
    cJSON_Delete(v->node_errors);
    memset(v, 0, sizeof *v);
}

/* Names of files that PyTorch writes. */
static bool is_pickle(const cJSON *value)
{
    static const char *const suffixes[] = {".ckpt", ".pt", ".pth", ".bin"};
    const char *name = cJSON_GetStringValue(value);
    for (size_t i = 0; name && i < sizeof suffixes / sizeof *suffixes; i++)
        if (graft_str_ends(name, suffixes[i])) return true;
    return false;
}

/* "A, B" and `last` before the last. */
static void put_list(const cJSON *list, const char *last, graft_str *out)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        const char *join = item == list->child ? "" : item->next ? ", " : last;
        graft_str_printf(out, "%s%s", join, cJSON_IsString(item) ? item->valuestring : "");
    }
}

/* What hint.c found. */
static void put_hints(const cJSON *extra, graft_str *out)
{
    const cJSON *near = graft_tree_get(extra, "suggestions");
    const cJSON *there = graft_tree_get(extra, "available");
    int more = graft_json_int(extra, "count", 0) - cJSON_GetArraySize(there);
    const char *given = graft_json_str(extra, "given", NULL);
    if (near) {
        graft_str_puts(out, "; did you mean ");
        put_list(near, " or ", out);
        graft_str_puts(out, "?");
    } else if (there && there->child) {
        bool one = !more && there->child->next == NULL;
        graft_str_puts(out, one ? "; there is only " : "; there are ");
        put_list(there, more ? ", " : " and ", out);
        if (more) graft_str_printf(out, " and %d more", more);
    } else if (there) {
        bool input = strcmp(graft_json_str(extra, "folder", ""), "input") == 0;
        graft_str_printf(out, ", nor any other; --%s says where to look",
                         input ? "input" : "models");
    }
    if (given) graft_str_printf(out, "; \"%s\" is not an input of this node", given);
}

/* The folder itself where a terminal shows it; for others its name in the protocol. */
static void put_folder(const char *name, const graft_folders *f, graft_str *out)
{
    const char *below = strchr(name, '/'), *root = f ? graft_folders_root(f, name) : NULL;
    if (f && below)
        graft_str_printf(out, "%s%s", f->models, below);
    else
        graft_str_puts(out, root ? root : name);
}

/* The name of a later part of a model, which is no choice whether or not there is such a file. */
static bool put_part(const cJSON *extra, const char *name, graft_str *out)
{
    const char *first = graft_json_str(extra, "first_part", NULL);
    if (!first) return false;
    graft_str_printf(out, ": %s is a later part of a model", name);
    graft_str_printf(out,
                     graft_tree_get(extra, "suggestions") ? "; choose its first, %s"
                                                          : ", whose first, %s, is not there",
                     first);
    return true;
}

/* A value that is none of the choices, which are files where there is a folder. */
static void put_choice(const cJSON *extra, const char *class_type, const char *details,
                       const graft_folders *f, graft_str *out)
{
    const char *folder = graft_json_str(extra, "folder", NULL);
    const cJSON *received = graft_tree_get(extra, "received_value");
    char *value = cJSON_IsString(received) ? NULL : graft_json_print(received);
    const char *text = cJSON_IsString(received) ? received->valuestring : value ? value : "";
    const cJSON *config = graft_tree_get(extra, "input_config");
    const char *length = strstr(details, "(list of length ");
    if (folder && f && strchr(folder, '/') && !graft_dir_exists(f->models)) {
        graft_str_printf(out, ": there is no folder %s with models; --models names another",
                         f->models);
        graft_free(value);
        return;
    }
    if (put_part(extra, text, out)) {
        graft_free(value);
        return;
    }
    if (folder) {
        graft_str_printf(out, ": there is no file %s in ", text);
        put_folder(folder, f, out);
    } else if (length || !cJSON_IsArray(config)) {
        graft_str_printf(out, ": \"%s\" is not one of its choices", text);
    } else {
        graft_str_printf(out, ": \"%s\" is not one of ", text);
        put_list(cJSON_GetArrayItem(config, 0), ", ", out);
    }
    put_hints(extra, out);
    if (folder && is_pickle(received))
        graft_str_puts(
            out,
            "; PyTorch files are not loaded, \"graft convert FILE\" turns one into .safetensors");
    if (!folder && length && !graft_tree_get(extra, "suggestions"))
        graft_str_printf(out, "; \"graft nodes %s\" lists them", class_type);
    graft_free(value);
}

/* The words that clients of the protocol know are not those that a terminal needs; false where
 * they will do. */
static bool put_plainly(const char *type, const char *details, const cJSON *extra, graft_str *out)
{
    const cJSON *config = graft_tree_get(extra, "input_config");
    const char *wanted = cJSON_GetStringValue(cJSON_GetArrayItem(config, 0));
    if (strcmp(type, "missing_node_type") == 0) {
        graft_str_puts(out, ": there is no such node class");
        if (!graft_tree_get(extra, "suggestions"))
            graft_str_puts(out, "; \"graft nodes\" lists those there are");
        return true;
    }
    if (*details && strcmp(type, "custom_validation_failed") == 0) {
        graft_str_printf(out, ": %s", details);
        return true;
    }
    if (wanted && strcmp(type, "return_type_mismatch") == 0) {
        graft_str_printf(out, ": takes %s, and is linked to an output of type %s", wanted,
                         graft_json_str(extra, "received_type", ""));
        return true;
    }
    if (!wanted || strcmp(type, "invalid_input_type") != 0) return false;
    char *value = graft_json_print(graft_tree_get(extra, "received_value"));
    graft_str_printf(out, ": %s is not of type %s", value ? value : "the value", wanted);
    graft_free(value);
    return true;
}

/* "Invalid image file: x.png", of which it is known where it was looked for. */
static bool put_missing(const char *type, const char *details, const cJSON *extra,
                        const graft_folders *f, graft_str *out)
{
    const char *folder = graft_json_str(extra, "folder", NULL), *name = strstr(details, "file: ");
    if (!folder || !name || strcmp(type, "custom_validation_failed") != 0) return false;
    graft_str_printf(out, ": there is no file %s in ", name + strlen("file: "));
    put_folder(folder, f, out);
    return true;
}

static void put_fault(const cJSON *f, const char *class_type, const graft_folders *folders,
                      graft_str *out)
{
    const char *type = graft_json_str(f, "type", ""), *details = graft_json_str(f, "details", "");
    const cJSON *extra = graft_tree_get(f, "extra_info");
    const cJSON *link = graft_tree_get(extra, "linked_node");
    const char *input = graft_json_str(extra, "input_name", NULL);
    const char *from = link ? cJSON_GetStringValue(cJSON_GetArrayItem(link, 0)) : NULL;
    if (input) graft_str_printf(out, ", input %s", input);
    if (from && strncmp(type, "exception_during", 16) == 0) {
        if (strcmp(graft_json_str(extra, "exception_type", ""), "KeyError") == 0)
            graft_str_printf(out, ": linked to node %s, which does not exist\n", from);
        else
            graft_str_printf(out, ": linked to an output that node %s does not have\n", from);
        return;
    }
    /* Node and input are named already. */
    if (strncmp(details, "Node ID", 7) == 0) details = "";
    if (input && graft_str_starts(details, input)) {
        details += strlen(input);
        details += strspn(details, ",:- ");
    }
    if (strcmp(type, "value_not_in_list") == 0) {
        put_choice(extra, class_type, details, folders, out);
    } else {
        if (!put_missing(type, details, extra, folders, out) &&
            !put_plainly(type, details, extra, out)) {
            graft_str_printf(out, ": %s", graft_json_str(f, "message", ""));
            if (*details) graft_str_printf(out, " (%s)", details);
        }
        put_hints(extra, out);
    }
    graft_str_puts(out, "\n");
}

void graft_validation_text(const graft_validation *v, const char *file,
                           const graft_folders *folders, graft_str *out)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, v->node_errors)
    {
        const char *class_type = graft_json_str(entry, "class_type", NULL);
        const cJSON *fault;
        cJSON_ArrayForEach(fault, graft_tree_get(entry, "errors"))
        {
            graft_str_printf(out, "%s: node %s", file, entry->string);
            if (class_type) graft_str_printf(out, " (%s)", class_type);
            put_fault(fault, class_type ? class_type : "", folders, out);
        }
    }
    if (!v->error || (v->node_errors && v->node_errors->child)) return;
    bool none = strcmp(graft_json_str(v->error, "type", ""), "prompt_no_outputs") == 0;
    graft_str_printf(out, "%s: %s\n", file,
                     none ? "none of its nodes saves or shows anything"
                          : graft_json_str(v->error, "message", ""));
}
