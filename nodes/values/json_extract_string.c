/* JsonExtractString: what a JSON object in a text has under a name. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "nodes/node.h"

enum { JSON_STRING, KEY };
static const graft_input *const inputs[] = {
    [JSON_STRING] = IN_TEXT("json_string", NULL,
                            "A text with a JSON object in it. What is before and behind that does "
                            "not count, as around a language model's answer.",
                            .flags = GRAFT_INPUT_MULTILINE),
    [KEY] = IN_TEXT("key", NULL, "The name whose value comes out."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("STRING", "STRING",
        "The value as a text; nothing where there is no such object or name, or its value is null. "
        "Numbers are written as they are, lists and objects as JSON."),
    NULL};

/* The last one of this name, as Python has it. */
static const cJSON *value_of(const cJSON *object, const char *name)
{
    const cJSON *item, *found = NULL;
    cJSON_ArrayForEach(item, object)
    {
        if (strcmp(item->string, name) == 0) found = item;
    }
    return found;
}

static graft_status give(graft_call *c, const cJSON *value)
{
    if (!value || cJSON_IsNull(value)) return graft_call_out_text(c, 0, "");
    if (cJSON_IsString(value)) return graft_call_out_text(c, 0, value->valuestring);
    if (cJSON_IsBool(value))
        return graft_call_out_text(c, 0, cJSON_IsTrue(value) ? "True" : "False");
    if (cJSON_IsNumber(value) && isinf(value->valuedouble)) /* as Python reads and writes 1E400 */
        return graft_call_out_text(c, 0, value->valuedouble > 0 ? "inf" : "-inf");
    char *text = graft_json_print(value);
    if (!text) return graft_fail_nomem(&c->err, "a text");
    graft_status st = graft_call_out_text(c, 0, text);
    graft_free(text);
    return st;
}

static graft_status run(graft_call *c)
{
    const char *text = graft_arg_text(c, JSON_STRING);
    cJSON *object = NULL;
    graft_status st = graft_json_find_object(text, strlen(text), "json_string", &object, &c->err);
    if (!st) st = give(c, value_of(object, graft_arg_text(c, KEY)));
    cJSON_Delete(object);
    return st;
}

GRAFT_NODE(json_extract_string, .id = "JsonExtractString", .title = "Extract Text from JSON",
           .category = "utils/string",
           .description = "Takes a value out of a JSON object, by its name.");
