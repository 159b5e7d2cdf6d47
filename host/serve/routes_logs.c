#include "base/alloc.h"
#include "host/serve/routes.h"
#include "base/tree.h"

graft_status graft_route_logs(graft_serve *s, const graft_http_request *q, const char *rest,
                              graft_http_response *r, graft_err *e)
{
    graft_str all = GRAFT_STR_INIT, t = GRAFT_STR_INIT;
    (void)q, (void)rest;
    graft_logs_text(&s->logs, &all);
    graft_str_json(&t, all.data ? all.data : "");
    graft_str_finish(&all);
    return graft_http_str(r, 200, &t, e);
}

graft_status graft_route_logs_raw(graft_serve *s, const graft_http_request *q, const char *rest,
                                  graft_http_response *r, graft_err *e)
{
    graft_str t = GRAFT_STR_INIT;
    (void)q, (void)rest;
    graft_str_puts(&t, "{\"entries\":[");
    graft_logs_entries(&s->logs, &t);
    graft_str_puts(&t, "],\"size\":{\"cols\":80,\"rows\":24}}");
    return graft_http_str(r, 200, &t, e);
}

graft_status graft_route_logs_subscribe(graft_serve *s, const graft_http_request *q,
                                        const char *rest, graft_http_response *r, graft_err *e)
{
    graft_err why = GRAFT_ERR_INIT;
    cJSON *body = NULL;
    (void)rest;
    if (graft_http_json(q, &body, &why)) return graft_http_error(r, 400, why.text, e);
    const char *client = graft_json_str(body, "clientId", NULL);
    if (client && s->subscribe)
        s->subscribe(s->subscribe_ctx, client, cJSON_IsTrue(graft_tree_get(body, "enabled")));
    cJSON_Delete(body);
    graft_http_empty(r, 200);
    return GRAFT_OK;
}
