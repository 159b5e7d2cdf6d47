#include "host/prompt/file_name.h"

#include <string.h>

#include "base/alloc.h"
#include "base/tree.h"

void graft_file_name_date(graft_str *out, const char *format, size_t n, const struct tm *t)
{
    for (size_t i = 0; i < n;) {
        char c = format[i];
        size_t run = 1;
        while (i + run < n && format[i + run] == c) run++;
        int value = c == 'M'   ? t->tm_mon + 1
                    : c == 'd' ? t->tm_mday
                    : c == 'h' ? t->tm_hour
                    : c == 'm' ? t->tm_min
                               : t->tm_sec;
        if (c == 'y' && (run == 2 || run == 4))
            graft_str_printf(out, "%0*d", (int)run, (t->tm_year + 1900) % (run == 2 ? 100 : 10000));
        else if (strchr("Mdhms", c) && run <= 2)
            graft_str_printf(out, "%0*d", (int)run, value);
        else
            graft_str_append(out, format + i, run);
        i += run;
    }
}

static bool is_name(const char *text, const char *name, size_t n)
{
    return text && strlen(text) == n && memcmp(text, name, n) == 0;
}

/* A node without a title of its own is shown under its class's, which the prompt has. */
static const graft_litegraph_node *find_named(const cJSON *prompt, const graft_litegraph_scope *s,
                                              const char *name, size_t n)
{
    for (size_t i = 0; i < s->n_node; i++) {
        const graft_litegraph_node *node = &s->node[i];
        const cJSON *properties = graft_tree_get(node->json, "properties");
        const cJSON *meta = graft_tree_get(graft_tree_get(prompt, node->id), "_meta");
        if (is_name(graft_json_str(properties, "Node name for S&R", NULL), name, n) ||
            is_name(graft_json_str(meta, "title", NULL), name, n) || is_name(node->type, name, n))
            return node;
    }
    return NULL;
}

/* Appends a value as text that cannot add a folder; false when the value is a link or absent. 8.0
 * is 8 here, as in a browser. */
static bool put_value(graft_str *out, const cJSON *value)
{
    if (!cJSON_IsString(value) && !graft_json_is_number(value)) return false;
    char *text = cJSON_IsString(value) ? graft_strdup(value->valuestring) : graft_json_print(value);
    if (!text) {
        out->failed = true;
        return true;
    }
    if (graft_json_is_number(value) && graft_str_ends(text, ".0")) text[strlen(text) - 2] = 0;
    for (char *p = text; *p; p++)
        if (strchr("/?<>\\:*|\"", *p) || (unsigned char)*p < 0x20 || *p == 0x7f) *p = '_';
    graft_str_puts(out, text);
    graft_free(text);
    return true;
}

/* The text between two percent signs; false when it means nothing. */
static bool put_placeholder(graft_str *out, const cJSON *prompt, const graft_litegraph *g,
                            const char *name, size_t n)
{
    if (n > 5 && memcmp(name, "date:", 5) == 0) {
        time_t now = time(NULL);
        struct tm t;
        localtime_r(&now, &t);
        graft_file_name_date(out, name + 5, n - 5, &t);
        return true;
    }
    const char *dot = memchr(name, '.', n);
    if (!dot) return false;
    const graft_litegraph_node *node = find_named(prompt, g->root, name, (size_t)(dot - name));
    const cJSON *entry = node ? graft_tree_get(prompt, node->id) : NULL, *input;
    cJSON_ArrayForEach(input, graft_tree_get(entry, "inputs"))
    {
        if (is_name(input->string, dot + 1, n - 1 - (size_t)(dot - name)))
            return put_value(out, input);
    }
    return false;
}

static char *fill(const cJSON *prompt, const graft_litegraph *g, const char *text)
{
    graft_str out = GRAFT_STR_INIT;
    for (const char *p = text; *p;) {
        const char *end = *p == '%' ? strchr(p + 1, '%') : NULL;
        if (end && put_placeholder(&out, prompt, g, p + 1, (size_t)(end - p - 1)))
            p = end + 1;
        else
            graft_str_append(&out, p++, 1);
    }
    return graft_str_take(&out);
}

graft_status graft_file_name_fill(cJSON *prompt, const graft_litegraph *g, graft_err *e)
{
    cJSON *node;
    cJSON_ArrayForEach(node, prompt)
    {
        cJSON *inputs = graft_tree_get(node, "inputs");
        const cJSON *prefix = graft_tree_get(inputs, "filename_prefix");
        if (!cJSON_IsString(prefix) || !strchr(prefix->valuestring, '%')) continue;
        char *text = fill(prompt, g, prefix->valuestring);
        bool ok = text && graft_tree_set(inputs, "filename_prefix", cJSON_CreateString(text));
        graft_free(text);
        if (!ok) return graft_fail_nomem(e, "a file name");
    }
    return GRAFT_OK;
}
