#include "nodes/call/metadata.h"

#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"

/* The character beyond ASCII at s; *n is the bytes that it takes. U+FFFD for a byte that begins
 * none.
 */
static uint32_t decode(const unsigned char *s, const unsigned char *end, size_t *n)
{
    *n = graft_str_utf8((const char *)s, (const char *)end);
    if (!*n) {
        *n = 1;
        return 0xfffd;
    }
    uint32_t code = s[0] & (0x7fu >> *n);
    for (size_t i = 1; i < *n; i++) code = code << 6 | (s[i] & 0x3fu);
    return code;
}

char *graft_metadata_ascii(const char *json)
{
    graft_str text = GRAFT_STR_INIT;
    const unsigned char *s = (const unsigned char *)json, *end = s + strlen(json);
    graft_str_append(&text, "", 0);
    while (*s) {
        size_t n = 0;
        while (s[n] && s[n] < 0x80) n++;
        graft_str_append(&text, (const char *)s, n);
        s += n;
        if (!*s) break;
        uint32_t code = decode(s, end, &n);
        s += n;
        if (code >= 0x10000) {
            code -= 0x10000;
            graft_str_printf(&text, "\\u%04x", 0xd800 + (code >> 10));
            code = 0xdc00 + (code & 0x3ff);
        }
        graft_str_printf(&text, "\\u%04x", code);
    }
    char *result = graft_str_take(&text);
    graft_str_finish(&text);
    return result;
}

static graft_status add(graft_metadata *m, const char *key, const char *json, graft_err *e)
{
    char **grown = graft_realloc(m->pairs, m->count + 3, sizeof *grown);
    if (!grown) return graft_fail_nomem(e, "metadata");
    m->pairs = grown;
    m->pairs[m->count] = graft_strdup(key);
    m->pairs[m->count + 1] = graft_metadata_ascii(json);
    m->pairs[m->count + 2] = NULL;
    if (m->pairs[m->count] && m->pairs[m->count + 1]) {
        m->count += 2;
        return GRAFT_OK;
    }
    graft_free(m->pairs[m->count]);
    graft_free(m->pairs[m->count + 1]);
    m->pairs[m->count] = NULL;
    return graft_fail_nomem(e, "metadata");
}

/* PNG keywords: 1-79 printable characters without spaces at the ends or two in a row. */
static bool good_key(const char *key)
{
    size_t n = strlen(key);
    if (n < 1 || n > 79 || key[0] == ' ' || key[n - 1] == ' ' || strstr(key, "  ")) return false;
    for (size_t i = 0; i < n; i++)
        if (key[i] < ' ' || key[i] > '~') return false;
    return true;
}

static graft_status add_extra(graft_call *c, graft_metadata *m, const char *json)
{
    cJSON *extra = NULL;
    graft_status st;
    GRAFT_TRY(graft_json_parse(json, strlen(json), "extra_pnginfo", &extra, &c->err));
    for (const cJSON *item = cJSON_IsObject(extra) ? extra->child : NULL; item; item = item->next) {
        if (!good_key(item->string) || strcmp(item->string, "prompt") == 0) {
            graft_log_printf(&c->task.log, GRAFT_LOG_WARN,
                             "extra_pnginfo: \"%.80s\" cannot name metadata and is left out",
                             item->string);
            continue;
        }
        char *text = graft_json_print(item);
        st = text ? add(m, item->string, text, &c->err) : graft_fail_nomem(&c->err, "metadata");
        graft_free(text);
        if (st != GRAFT_OK) goto out;
    }
out:
    cJSON_Delete(extra);
    return st;
}

graft_status graft_metadata_read(graft_call *c, graft_metadata *out)
{
    const graft_prompt_api *api = c->self->prompt;
    graft_metadata m = GRAFT_METADATA_INIT;
    graft_status st = GRAFT_OK;
    const char *prompt = api ? api->prompt(c->job) : NULL;
    const char *extra = api ? api->extra_pnginfo(c->job) : NULL;
    if (prompt) GRAFT_TRY(add(&m, "prompt", prompt, &c->err));
    if (extra) GRAFT_TRY(add_extra(c, &m, extra));
out:
    if (st == GRAFT_OK)
        *out = m;
    else
        graft_metadata_finish(&m);
    return st;
}

void graft_metadata_finish(graft_metadata *m)
{
    for (size_t i = 0; i < m->count; i++) graft_free(m->pairs[i]);
    graft_free(m->pairs);
    *m = (graft_metadata)GRAFT_METADATA_INIT;
}
