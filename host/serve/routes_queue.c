#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "host/serve/routes.h"
#include "base/tree.h"

graft_status graft_route_queue_get(graft_serve *s, const graft_http_request *q, const char *rest,
                                   graft_http_response *r, graft_err *e)
{
    graft_str text = GRAFT_STR_INIT;
    (void)q, (void)rest;
    graft_str_puts(&text, "{");
    graft_status st = graft_store_queue_json(s->store, &text, e);
    graft_str_puts(&text, "}");
    if (!st) st = graft_http_str(r, 200, &text, e);
    graft_str_finish(&text);
    return st;
}

/* Parses a body that may be absent; false when the answer is a refusal already. */
static bool body_of(const graft_http_request *q, cJSON **body, graft_http_response *r,
                    graft_status *st, graft_err *e)
{
    graft_err why = GRAFT_ERR_INIT;
    *st = graft_http_json(q, body, &why);
    if (!*st) return true;
    if (*st == GRAFT_E_NOMEM)
        graft_fail_nomem(e, "a request");
    else
        *st = graft_http_error(r, 400, why.text, e);
    return false;
}

/* {"clear": true} and {"delete": [ids]}, for the queue and the history. */
static graft_status edit(graft_serve *s, const graft_http_request *q, graft_store_state state,
                         graft_http_response *r, graft_err *e)
{
    cJSON *body;
    const cJSON *id;
    int64_t changed;
    graft_status st;
    if (!body_of(q, &body, r, &st, e)) return st;
    bool pending = state == GRAFT_STORE_PENDING;
    if (cJSON_IsTrue(graft_tree_get(body, "clear")))
        st = pending ? graft_queue_delete(&s->queue, NULL, &changed, e)
                     : graft_store_delete(s->store, state, NULL, &changed, e);
    cJSON_ArrayForEach(id, graft_tree_get(body, "delete"))
    {
        if (st || !cJSON_IsString(id)) continue;
        st = pending ? graft_queue_delete(&s->queue, id->valuestring, &changed, e)
                     : graft_store_delete(s->store, state, id->valuestring, &changed, e);
    }
    cJSON_Delete(body);
    if (!st) graft_http_empty(r, 200);
    return st;
}

graft_status graft_route_queue_post(graft_serve *s, const graft_http_request *q, const char *rest,
                                    graft_http_response *r, graft_err *e)
{
    (void)rest;
    return edit(s, q, GRAFT_STORE_PENDING, r, e);
}

graft_status graft_route_history_post(graft_serve *s, const graft_http_request *q, const char *rest,
                                      graft_http_response *r, graft_err *e)
{
    (void)rest;
    return edit(s, q, GRAFT_STORE_DONE, r, e);
}

graft_status graft_route_interrupt(graft_serve *s, const graft_http_request *q, const char *rest,
                                   graft_http_response *r, graft_err *e)
{
    cJSON *body;
    graft_status st;
    (void)rest;
    if (!body_of(q, &body, r, &st, e)) return st;
    const cJSON *id = graft_tree_get(body, "prompt_id");
    if (!id || cJSON_IsNull(id))
        graft_queue_cancel(&s->queue, NULL);
    else if (cJSON_IsString(id))
        graft_queue_cancel(&s->queue, id->valuestring);
    cJSON_Delete(body);
    graft_http_empty(r, 200);
    return GRAFT_OK;
}

graft_status graft_route_free(graft_serve *s, const graft_http_request *q, const char *rest,
                              graft_http_response *r, graft_err *e)
{
    cJSON *body;
    graft_status st;
    (void)rest;
    if (!body_of(q, &body, r, &st, e)) return st;
    /* The models are values of the kept results: both wishes mean the same here. */
    if (cJSON_IsTrue(graft_tree_get(body, "unload_models")) ||
        cJSON_IsTrue(graft_tree_get(body, "free_memory")))
        graft_queue_free(&s->queue);
    cJSON_Delete(body);
    graft_http_empty(r, 200);
    return GRAFT_OK;
}

static int64_t number(const graft_http_request *q, const char *name)
{
    const char *text = graft_http_arg(q, name);
    char *end;
    if (!text || !*text) return -1;
    long long v = strtoll(text, &end, 10);
    return *end || v < 0 ? -1 : v;
}

graft_status graft_route_history_get(graft_serve *s, const graft_http_request *q, const char *rest,
                                     graft_http_response *r, graft_err *e)
{
    graft_str text = GRAFT_STR_INIT;
    (void)rest;
    graft_str_puts(&text, "{");
    graft_status st =
        graft_store_history_json(s->store, number(q, "max_items"), number(q, "offset"), &text, e);
    graft_str_puts(&text, "}");
    if (!st) st = graft_http_str(r, 200, &text, e);
    graft_str_finish(&text);
    return st;
}

graft_status graft_route_history_one(graft_serve *s, const graft_http_request *q, const char *rest,
                                     graft_http_response *r, graft_err *e)
{
    graft_str text = GRAFT_STR_INIT;
    (void)q;
    graft_str_puts(&text, "{");
    graft_status st = graft_store_history_one(s->store, rest, &text, e);
    graft_str_puts(&text, "}");
    if (!st) st = graft_http_str(r, 200, &text, e);
    graft_str_finish(&text);
    return st;
}
