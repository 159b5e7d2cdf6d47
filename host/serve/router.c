#include <stdio.h>
#include <string.h>

#include "host/serve/routes.h"

/* "/x" matches exactly, "/x/" what begins so; the first match with the right method counts. */
static const struct entry {
    int methods;
    const char *path;
    graft_route *handler;
} table[] = {
    {GRAFT_HTTP_POST, "/prompt", graft_route_prompt_post},
    {GRAFT_HTTP_GET, "/prompt", graft_route_prompt_get},
    {GRAFT_HTTP_GET, "/ws", graft_route_bad_request},
    {GRAFT_HTTP_GET, "/queue", graft_route_queue_get},
    {GRAFT_HTTP_POST, "/queue", graft_route_queue_post},
    {GRAFT_HTTP_POST, "/interrupt", graft_route_interrupt},
    {GRAFT_HTTP_POST, "/free", graft_route_free},
    {GRAFT_HTTP_GET, "/history", graft_route_history_get},
    {GRAFT_HTTP_POST, "/history", graft_route_history_post},
    {GRAFT_HTTP_GET, "/history/", graft_route_history_one},
    {GRAFT_HTTP_GET, "/object_info", graft_route_object_info},
    {GRAFT_HTTP_GET, "/object_info/", graft_route_object_info_one},
    {GRAFT_HTTP_GET, "/system_stats", graft_route_system_stats},
    {GRAFT_HTTP_GET, "/features", graft_route_features},
    {GRAFT_HTTP_GET, "/view", graft_route_view},
    {GRAFT_HTTP_POST, "/upload/image", graft_route_upload_image},
    {GRAFT_HTTP_POST, "/upload/mask", graft_route_upload_mask},
    {GRAFT_HTTP_GET, "/embeddings", graft_route_embeddings},
    {GRAFT_HTTP_GET, "/models", graft_route_models},
    {GRAFT_HTTP_GET, "/models/", graft_route_models_folder},
    {GRAFT_HTTP_GET, "/experiment/models", graft_route_experiment_models},
    {GRAFT_HTTP_GET, "/experiment/models/", graft_route_experiment_folder},
    {GRAFT_HTTP_GET, "/view_metadata/", graft_route_view_metadata},
    {GRAFT_HTTP_GET, "/extensions", graft_route_extensions},
    {GRAFT_HTTP_GET, "/users", graft_route_users},
    {GRAFT_HTTP_POST, "/users", graft_route_users_post},
    {GRAFT_HTTP_GET, "/settings", graft_route_settings_get},
    {GRAFT_HTTP_POST, "/settings", graft_route_settings_post},
    {GRAFT_HTTP_GET, "/settings/", graft_route_setting_get},
    {GRAFT_HTTP_POST, "/settings/", graft_route_setting_post},
    {GRAFT_HTTP_GET, "/userdata", graft_route_userdata_list},
    {GRAFT_HTTP_GET, "/v2/userdata", graft_route_userdata_list2},
    {GRAFT_HTTP_GET, "/userdata/", graft_route_userdata_get},
    {GRAFT_HTTP_POST, "/userdata/", graft_route_userdata_post},
    {GRAFT_HTTP_DELETE, "/userdata/", graft_route_userdata_delete},
    {GRAFT_HTTP_GET, "/i18n", graft_route_empty_object},
    {GRAFT_HTTP_GET, "/workflow_templates", graft_route_templates},
    {GRAFT_HTTP_GET, "/workflow_templates/", graft_route_template},
    {GRAFT_HTTP_GET, "/global_subgraphs", graft_route_empty_object},
    {GRAFT_HTTP_GET, "/node_replacements", graft_route_empty_object},
    {GRAFT_HTTP_GET, "/jobs", graft_route_jobs},
    {GRAFT_HTTP_POST, "/jobs/cancel", graft_route_jobs_cancel},
    {GRAFT_HTTP_GET, "/jobs/", graft_route_jobs_one},
    {GRAFT_HTTP_POST, "/jobs/", graft_route_jobs_post},
    {GRAFT_HTTP_GET, "/internal/logs", graft_route_logs},
    {GRAFT_HTTP_GET, "/internal/logs/raw", graft_route_logs_raw},
    {GRAFT_HTTP_PATCH, "/internal/logs/subscribe", graft_route_logs_subscribe},
    {GRAFT_HTTP_GET, "/internal/files/", graft_route_internal_files},
};

/* What follows the route in the path, or NULL. */
static const char *match(const struct entry *x, const char *path)
{
    size_t n = strlen(x->path);
    if (strncmp(path, x->path, n) != 0) return NULL;
    if (x->path[n - 1] == '/') return path[n] ? path + n : NULL;
    return path[n] ? NULL : path + n;
}

static graft_status not_allowed(graft_http_response *r, int methods, graft_err *e)
{
    static const struct {
        int method;
        const char *name;
    } known[] = {{GRAFT_HTTP_DELETE, "DELETE"},
                 {GRAFT_HTTP_GET, "GET,HEAD"},
                 {GRAFT_HTTP_PATCH, "PATCH"},
                 {GRAFT_HTTP_POST, "POST"}};
    char allow[64] = "";
    for (size_t i = 0, n = 0; i < sizeof known / sizeof *known; i++)
        if (methods & known[i].method)
            n += (size_t)snprintf(allow + n, sizeof allow - n, "%s%s", n ? "," : "", known[i].name);
    graft_status st = graft_http_text(r, 405, "405: Method Not Allowed", e);
    graft_http_header(r, "allow:", allow);
    return st;
}

static graft_status route(graft_serve *s, const graft_http_request *q, graft_http_response *r,
                          graft_err *e)
{
    const char *path = q->path;
    int others = 0;
    bool api = strncmp(path, "/api/", 5) == 0;
    if (api) path += 4;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *rest = match(&table[i], path);
        if (!rest) continue;
        if (table[i].methods & (int)q->method) return table[i].handler(s, q, rest, r, e);
        others |= table[i].methods;
    }
    if (others) return not_allowed(r, others, e);
    if (q->method == GRAFT_HTTP_GET && !api) return graft_route_static(s, q, path, r, e);
    return graft_http_text(r, 404, "404: Not Found", e);
}

bool graft_serve_takes_long(const graft_http_request *q)
{
    const char *path = strncmp(q->path, "/api/", 5) == 0 ? q->path + 4 : q->path;
    if (q->method == GRAFT_HTTP_POST)
        return strcmp(path, "/upload/image") == 0 || strcmp(path, "/upload/mask") == 0;
    if (q->method != GRAFT_HTTP_GET) return false;
    if (strcmp(path, "/jobs") == 0) return true; /* a thousand stored jobs are parsed for it */
    if (strcmp(path, "/system_stats") == 0) return true;       /* the first opens the device */
    if (strcmp(path, "/workflow_templates") == 0) return true; /* looks into each of them */
    if (strcmp(path, "/view") == 0)
        return graft_http_arg(q, "preview") || graft_http_arg(q, "channel");
    return graft_str_starts(path, "/view_metadata/");
}

void graft_serve_failure(graft_serve *s, graft_http_response *r, const graft_err *why)
{
    graft_err e = GRAFT_ERR_INIT;
    bool full = why->code == GRAFT_E_NOMEM || why->code == GRAFT_E_LIMIT;
    const char *text = why->code == GRAFT_E_NOMEM ? "out of memory"
                       : full                     ? "no room is left"
                                                  : "internal error";
    graft_logs_line(&s->logs, GRAFT_LOG_ERROR, why->text);
    if (graft_http_error(r, full ? 507 : 500, text, &e)) graft_http_empty(r, 500);
}

/* Says no; what was asked goes to the log, because the asker may be behind a proxy that its owner
 * has to tell about us. */
static void refuse(graft_serve *s, const graft_http_request *q, graft_verdict v,
                   graft_http_response *r)
{
    char line[400];
    if (v == GRAFT_VERDICT_TOKEN) {
        if (graft_http_text(r, 401, "401: this server asks for its token", NULL))
            graft_http_empty(r, 401);
        graft_http_header(r, "www-authenticate:", "Basic realm=\"Graft\", charset=\"UTF-8\"");
        return;
    }
    snprintf(line, sizeof line, "refused: %.80s, Host \"%.80s\", Origin \"%.80s\" (%s)", q->path,
             q->host ? q->host : "", q->origin ? q->origin : "",
             v == GRAFT_VERDICT_HOST ? "see --allow-host"
                                     : "another site's page; see --cors-origin");
    graft_logs_line(&s->logs, GRAFT_LOG_WARN, line);
    /* An empty answer would be a download to a browser. */
    if (graft_http_text(r, 403, "403: not for this Host or Origin", NULL)) graft_http_empty(r, 403);
}

void graft_serve_answer(graft_serve *s, const graft_http_request *q, graft_http_response *r)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_verdict v = graft_security_check(&s->security, q);
    if (v != GRAFT_VERDICT_OK) {
        refuse(s, q, v, r);
    } else if (q->method == GRAFT_HTTP_OPTIONS) {
        graft_http_empty(r, 200);
    } else if (!graft_str_is_utf8(q->path, strlen(q->path))) {
        graft_http_empty(r, 400);
    } else if (route(s, q, r, &e)) {
        graft_serve_failure(s, r, &e);
    }
    graft_security_cors(&s->security, q, r);
    graft_http_header(r, "x-content-type-options:", "nosniff");
    if (v == GRAFT_VERDICT_OK && graft_security_by_argument(&s->security, q)) {
        char cookie[280];
        int n =
            snprintf(cookie, sizeof cookie, "graft_token=%s; Path=/; HttpOnly; SameSite=Strict%s",
                     s->security.token, q->tls ? "; Secure" : "");
        if (n < (int)sizeof cookie) graft_http_header(r, "set-cookie:", cookie);
    }
}
