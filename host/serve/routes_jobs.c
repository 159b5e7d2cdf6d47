#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "host/serve/routes.h"
#include "base/tree.h"

#define PAGE 1000 /* jobs in one answer at most */

static const struct {
    const char *name;
    uint32_t bit;
} kinds[] = {{"pending", GRAFT_STORE_IS_PENDING},
             {"in_progress", GRAFT_STORE_IS_RUNNING},
             {"completed", GRAFT_STORE_IS_SUCCESS},
             {"failed", GRAFT_STORE_IS_ERROR},
             {"cancelled", GRAFT_STORE_IS_INTERRUPTED}};

static const char *status_of(const graft_store_row *row)
{
    if (row->state == GRAFT_STORE_PENDING) return "pending";
    if (row->state == GRAFT_STORE_RUNNING) return "in_progress";
    if (row->status && strcmp(row->status, "success") == 0) return "completed";
    return row->status && strcmp(row->status, "interrupted") == 0 ? "cancelled" : "failed";
}

struct answer {
    graft_serve *serve;
    graft_str text;
    bool full; /* with prompt, outputs and messages */
    size_t n;
};

static cJSON *parse(const char *text)
{
    cJSON *json = NULL;
    if (text) graft_json_parse(text, strlen(text), "a stored job", &json, NULL);
    return json;
}

static void put_time(graft_str *t, const char *name, int64_t ms)
{
    if (ms)
        graft_str_printf(t, ",\"%s\":%lld", name, (long long)ms);
    else
        graft_str_printf(t, ",\"%s\":null", name);
}

static void put_text(graft_str *t, const char *name, const char *value)
{
    graft_str_printf(t, ",\"%s\":", name);
    graft_str_json(t, value);
}

/* How many things the outputs show, texts only where there is nothing else, and the first picture:
 * outputs before previews. */
static void put_outputs(graft_str *t, const char *text)
{
    cJSON *outputs = parse(text);
    const cJSON *node, *list, *item, *best = NULL, *best_node = NULL;
    size_t n = 0, texts = 0;
    cJSON_ArrayForEach(node, outputs) cJSON_ArrayForEach(list, node) cJSON_ArrayForEach(item, list)
    {
        bool text_only = strcmp(list->string, "text") == 0;
        n += !text_only;
        texts += text_only;
        if (!graft_json_str(item, "filename", NULL)) continue;
        bool kept = strcmp(graft_json_str(item, "type", ""), "output") == 0;
        if (best && (!kept || strcmp(graft_json_str(best, "type", ""), "output") == 0)) continue;
        best = item;
        best_node = node;
    }
    graft_str_printf(t, ",\"outputs_count\":%zu,\"preview_output\":", n ? n : texts);
    if (best) {
        graft_str_puts(t, "{\"filename\":");
        graft_str_json(t, graft_json_str(best, "filename", ""));
        put_text(t, "subfolder", graft_json_str(best, "subfolder", ""));
        put_text(t, "type", graft_json_str(best, "type", "output"));
        put_text(t, "nodeId", best_node->string);
        graft_str_puts(t, ",\"mediaType\":\"images\"}");
    } else {
        graft_str_puts(t, "null");
    }
    cJSON_Delete(outputs);
}

/* The data of the "execution_error" message, or null. */
static void put_error(graft_str *t, const char *messages)
{
    cJSON *list = parse(messages);
    const cJSON *item, *data = NULL;
    cJSON_ArrayForEach(item, list)
    {
        const char *type = cJSON_GetStringValue(cJSON_GetArrayItem(item, 0));
        if (type && strcmp(type, "execution_error") == 0) data = cJSON_GetArrayItem(item, 1);
    }
    char *text = data ? graft_json_print(data) : NULL;
    graft_str_printf(t, ",\"execution_error\":");
    graft_str_puts(t, text ? text : "null");
    graft_free(text);
    cJSON_Delete(list);
}

/* What a finished run warned of, of the messages that the history keeps. */
static void put_warnings(graft_str *t, const char *messages)
{
    cJSON *list = parse(messages);
    const cJSON *item;
    size_t n = 0;
    graft_str_puts(t, "[");
    cJSON_ArrayForEach(item, list)
    {
        const char *type = cJSON_GetStringValue(cJSON_GetArrayItem(item, 0));
        const cJSON *data = cJSON_GetArrayItem(item, 1);
        if (!type || strcmp(type, "graft.warning") != 0) continue;
        graft_str_printf(t, "%s{\"node\":", n++ ? "," : "");
        graft_str_json(t, graft_json_str(data, "node", ""));
        put_text(t, "display_node", graft_json_str(data, "display_node", ""));
        put_text(t, "text", graft_json_str(data, "text", ""));
        graft_str_puts(t, "}");
    }
    graft_str_puts(t, "]");
    cJSON_Delete(list);
}

static void put_full(graft_serve *s, graft_str *t, const graft_store_row *row)
{
    bool done = row->state == GRAFT_STORE_DONE;
    bool good = row->status && strcmp(row->status, "success") == 0;
    graft_str_puts(t, ",\"outputs\":");
    graft_str_puts(t, row->outputs ? row->outputs : "{}");
    if (done) {
        graft_str_printf(t,
                         ",\"execution_status\":{\"status_str\":\"%s\",\"completed\":%s,"
                         "\"messages\":",
                         good ? "success" : "error", good ? "true" : "false");
        graft_str_puts(t, row->messages ? row->messages : "[]");
        graft_str_puts(t, "}");
    } else {
        graft_str_puts(t, ",\"execution_status\":null");
    }
    graft_str_puts(t, ",\"warnings\":");
    if (done)
        put_warnings(t, row->messages);
    else
        graft_sink_warnings(&s->sink, row->id, t);
    graft_str_puts(t, ",\"profile\":");
    graft_str_puts(t, row->profile ? row->profile : "null");
    graft_str_puts(t, ",\"workflow\":{\"prompt\":");
    graft_str_puts(t, row->prompt);
    graft_str_puts(t, ",\"extra_data\":");
    graft_str_puts(t, row->extra);
    graft_str_puts(t, "}");
}

static void on_row(void *ctx, const graft_store_row *row)
{
    struct answer *a = ctx;
    graft_str *t = &a->text;
    if (a->n++) graft_str_puts(t, ",");
    graft_str_puts(t, "{\"id\":");
    graft_str_json(t, row->id);
    graft_str_printf(t, ",\"status\":\"%s\",\"priority\":%.17g", status_of(row), row->number);
    put_time(t, "create_time", row->created);
    put_time(t, "execution_start_time", row->started);
    put_time(t, "execution_end_time", row->ended);
    /* A run that succeeded may have told of blocked nodes. */
    put_error(t, strcmp(status_of(row), "completed") == 0 ? NULL : row->messages);
    put_outputs(t, row->outputs);
    graft_str_puts(t, ",\"workflow_id\":");
    if (row->workflow)
        graft_str_json(t, row->workflow);
    else
        graft_str_puts(t, "null");
    graft_str_puts(t, ",\"progress\":");
    graft_sink_progress(&a->serve->sink, row->id, t);
    if (a->full) put_full(a->serve, t, row);
    graft_str_puts(t, "}");
}

/* A whole number that is not negative; false for anything else. */
static bool whole(const char *text, int64_t *out)
{
    char *end;
    if (!text) return true;
    long long v = strtoll(text, &end, 10);
    if (!*text || *end || v < 0) return false;
    *out = v;
    return true;
}

/* NULL, or what is wrong with the arguments. */
static const char *read_query(const graft_http_request *q, graft_store_query *out)
{
    const char *status = graft_http_arg(q, "status"), *by = graft_http_arg(q, "sort_by");
    const char *order = graft_http_arg(q, "sort_order");
    out->limit = PAGE;
    for (const char *p = status; p && *p;) {
        size_t n = strcspn(p, ","), i = 0;
        while (i < 5 && (strlen(kinds[i].name) != n || strncmp(kinds[i].name, p, n) != 0)) i++;
        if (i == 5) return "status must be pending, in_progress, completed, failed or cancelled";
        out->kinds |= kinds[i].bit;
        p += n + (p[n] == ',');
    }
    if (by && strcmp(by, "created_at") != 0 && strcmp(by, "execution_duration") != 0)
        return "sort_by must be created_at or execution_duration";
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return "sort_order must be asc or desc";
    if (!whole(graft_http_arg(q, "limit"), &out->limit) || out->limit == 0)
        return "limit must be a positive whole number";
    if (!whole(graft_http_arg(q, "offset"), &out->offset))
        return "offset must be a whole number that is not negative";
    if (out->limit > PAGE) out->limit = PAGE;
    out->by_duration = by && strcmp(by, "execution_duration") == 0;
    out->ascending = order && strcmp(order, "asc") == 0;
    out->workflow = graft_http_arg(q, "workflow_id");
    return NULL;
}

graft_status graft_route_jobs(graft_serve *s, const graft_http_request *q, const char *rest,
                              graft_http_response *r, graft_err *e)
{
    graft_store_query query = {0};
    struct answer a = {.serve = s};
    int64_t total;
    (void)rest;
    const char *fault = read_query(q, &query);
    if (fault) return graft_http_error(r, 400, fault, e);
    graft_str_puts(&a.text, "{\"jobs\":[");
    graft_status st = graft_store_rows(s->store, &query, on_row, &a, &total, e);
    graft_str_printf(&a.text,
                     "],\"pagination\":{\"offset\":%lld,\"limit\":%lld,\"total\":%lld,"
                     "\"has_more\":%s}}",
                     (long long)query.offset, (long long)query.limit, (long long)total,
                     query.offset + (int64_t)a.n < total ? "true" : "false");
    if (!st) st = graft_http_str(r, 200, &a.text, e);
    graft_str_finish(&a.text);
    return st;
}

graft_status graft_route_jobs_one(graft_serve *s, const graft_http_request *q, const char *rest,
                                  graft_http_response *r, graft_err *e)
{
    const graft_store_query query = {.id = rest, .whole = true, .limit = 1};
    struct answer a = {.serve = s, .full = true};
    int64_t total;
    (void)q;
    graft_status st = graft_store_rows(s->store, &query, on_row, &a, &total, e);
    if (!st)
        st =
            a.n ? graft_http_str(r, 200, &a.text, e) : graft_http_error(r, 404, "Job not found", e);
    graft_str_finish(&a.text);
    return st;
}

/* Takes a job out of the line or stops it. */
static graft_status cancel(graft_serve *s, const char *id, bool *hit, graft_err *e)
{
    int64_t changed = 0;
    *hit = graft_queue_cancel(&s->queue, id);
    if (*hit) return GRAFT_OK;
    graft_status st = graft_queue_delete(&s->queue, id, &changed, e);
    /* It may have started between the two. */
    *hit = changed || graft_queue_cancel(&s->queue, id);
    return st;
}

static graft_status say(graft_http_response *r, bool hit, graft_err *e)
{
    graft_str t = GRAFT_STR_INIT;
    graft_str_printf(&t, "{\"cancelled\":%s}", hit ? "true" : "false");
    return graft_http_str(r, 200, &t, e);
}

graft_status graft_route_jobs_post(graft_serve *s, const graft_http_request *q, const char *rest,
                                   graft_http_response *r, graft_err *e)
{
    size_t n = strlen(rest), end = strlen("/cancel");
    bool hit;
    (void)q;
    if (n <= end || strcmp(rest + n - end, "/cancel") != 0) {
        graft_http_empty(r, 404);
        return GRAFT_OK;
    }
    char *id = graft_strndup(rest, n - end);
    if (!id) return graft_fail_nomem(e, "a request");
    graft_status st = GRAFT_OK;
    if (graft_store_find(s->store, id) == GRAFT_STORE_UNKNOWN)
        st = graft_http_error(r, 404, "Job not found", e);
    else if (!(st = cancel(s, id, &hit, e)))
        st = say(r, hit, e);
    graft_free(id);
    return st;
}

graft_status graft_route_jobs_cancel(graft_serve *s, const graft_http_request *q, const char *rest,
                                     graft_http_response *r, graft_err *e)
{
    graft_err why = GRAFT_ERR_INIT;
    cJSON *body = NULL;
    const cJSON *id;
    bool any = false, hit;
    (void)rest;
    graft_status st = graft_http_json(q, &body, &why);
    const cJSON *list = graft_tree_get(body, "job_ids");
    if (st || !cJSON_IsArray(list)) {
        cJSON_Delete(body);
        return graft_http_error(r, 400, st ? why.text : "job_ids must be a list", e);
    }
    cJSON_ArrayForEach(id, list)
    {
        if (st || !cJSON_IsString(id)) continue;
        st = cancel(s, id->valuestring, &hit, e);
        any |= hit;
    }
    cJSON_Delete(body);
    return st ? st : say(r, any, e);
}
