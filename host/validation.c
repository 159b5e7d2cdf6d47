#include "host/validation.h"

#include <string.h>

#include "base/alloc.h"
#include "host/tree.h"

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

/* The words that clients of the protocol know are not those that a terminal needs; false where
 * they will do. */
static bool put_plainly(const char *type, const char *details, const cJSON *extra, graft_str *out)
{
    const cJSON *config = graft_tree_get(extra, "input_config");
    const char *wanted = cJSON_GetStringValue(cJSON_GetArrayItem(config, 0));
    bool custom = strcmp(type, "custom_validation_failed") == 0;
    if ((custom && *details) || strcmp(type, "value_not_in_list") == 0) {
        graft_str_printf(out, ": %s", details);
        if (graft_tree_get(extra, "folder") && is_pickle(graft_tree_get(extra, "received_value")))
            graft_str_puts(out, ": files of PyTorch are not loaded; \"graft convert FILE\" makes a "
                                ".safetensors of one");
        else if (graft_str_ends(details, " not in []"))
            graft_str_puts(out, ": there is no such file; --models and --input say where to look");
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

static void put_fault(const cJSON *f, graft_str *out)
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
    if (!put_plainly(type, details, extra, out)) {
        graft_str_printf(out, ": %s", graft_json_str(f, "message", ""));
        if (*details) graft_str_printf(out, " (%s)", details);
    }
    graft_str_puts(out, "\n");
}

void graft_validation_text(const graft_validation *v, const char *file, graft_str *out)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, v->node_errors)
    {
        const cJSON *class_type = graft_tree_get(entry, "class_type");
        const cJSON *fault;
        cJSON_ArrayForEach(fault, graft_tree_get(entry, "errors"))
        {
            graft_str_printf(out, "%s: node %s", file, entry->string);
            if (cJSON_IsString(class_type)) graft_str_printf(out, " (%s)", class_type->valuestring);
            put_fault(fault, out);
        }
    }
    if (v->error && !(v->node_errors && v->node_errors->child))
        graft_str_printf(out, "%s: %s\n", file, graft_json_str(v->error, "message", ""));
}
