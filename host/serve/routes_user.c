#include <string.h>

#include "base/alloc.h"
#include "host/serve/routes.h"

graft_status graft_route_users(graft_serve *s, const graft_http_request *q, const char *rest,
                               graft_http_response *r, graft_err *e)
{
    graft_str t = GRAFT_STR_INIT;
    (void)s, (void)q, (void)rest;
    graft_str_puts(&t, "{\"storage\":\"server\",\"migrated\":true}");
    return graft_http_str(r, 200, &t, e);
}

/* There is one user. */
graft_status graft_route_users_post(graft_serve *s, const graft_http_request *q, const char *rest,
                                    graft_http_response *r, graft_err *e)
{
    (void)s, (void)q, (void)rest;
    return graft_http_error(r, 400, "Duplicate username.", e);
}

graft_status graft_route_settings_get(graft_serve *s, const graft_http_request *q, const char *rest,
                                      graft_http_response *r, graft_err *e)
{
    graft_str t = GRAFT_STR_INIT;
    (void)q, (void)rest;
    graft_status st = graft_store_settings_json(s->store, &t, e);
    if (!st) st = graft_http_str(r, 200, &t, e);
    graft_str_finish(&t);
    return st;
}

graft_status graft_route_setting_get(graft_serve *s, const graft_http_request *q, const char *rest,
                                     graft_http_response *r, graft_err *e)
{
    char *text = NULL;
    graft_str t = GRAFT_STR_INIT;
    (void)q;
    graft_status st = graft_store_setting_get(s->store, rest, &text, e);
    if (st) return st;
    graft_str_puts(&t, text ? text : "null");
    graft_free(text);
    return graft_http_str(r, 200, &t, e);
}

static graft_status set(graft_serve *s, const char *name, const cJSON *value, graft_err *e)
{
    char *text = graft_json_print(value);
    if (!text) return graft_fail_nomem(e, "a setting");
    graft_status st = graft_store_setting_set(s->store, name, text, e);
    graft_free(text);
    return st;
}

graft_status graft_route_settings_post(graft_serve *s, const graft_http_request *q,
                                       const char *rest, graft_http_response *r, graft_err *e)
{
    graft_err why = GRAFT_ERR_INIT;
    cJSON *body = NULL;
    const cJSON *item;
    (void)rest;
    graft_status st = graft_http_json(q, &body, &why);
    if (st || !cJSON_IsObject(body)) {
        cJSON_Delete(body);
        return graft_http_error(r, 400, st ? why.text : "the settings must be an object", e);
    }
    cJSON_ArrayForEach(item, body) if (!st) st = set(s, item->string, item, e);
    cJSON_Delete(body);
    if (!st) graft_http_empty(r, 200);
    return st;
}

graft_status graft_route_setting_post(graft_serve *s, const graft_http_request *q, const char *rest,
                                      graft_http_response *r, graft_err *e)
{
    graft_err why = GRAFT_ERR_INIT;
    cJSON *body = NULL;
    graft_status st = graft_http_json(q, &body, &why);
    if (st || !body) return graft_http_error(r, 400, st ? why.text : "the setting must be JSON", e);
    st = set(s, rest, body, e);
    cJSON_Delete(body);
    if (!st) graft_http_empty(r, 200);
    return st;
}
