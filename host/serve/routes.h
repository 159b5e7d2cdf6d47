/* The routes of the protocol. A handler answers a request that passed the security check; `rest` is
 * what follows the route's prefix. A failure becomes a 500. The main thread, where
 * graft_serve_takes_long() does not say that it is another: these look at files only. */
#ifndef GRAFT_HOST_SERVE_ROUTES_H
#define GRAFT_HOST_SERVE_ROUTES_H
#include "host/serve/serve.h"

typedef graft_status graft_route(graft_serve *s, const graft_http_request *q, const char *rest,
                                 graft_http_response *r, graft_err *e);

/* routes_prompt.c */
graft_route graft_route_prompt_post, graft_route_prompt_get;
/* routes_queue.c */
graft_route graft_route_queue_get, graft_route_queue_post, graft_route_interrupt, graft_route_free,
    graft_route_history_get, graft_route_history_one, graft_route_history_post;
/* routes_info.c */
graft_route graft_route_object_info, graft_route_object_info_one, graft_route_system_stats,
    graft_route_features, graft_route_empty_object, graft_route_bad_request;
/* routes_models.c */
graft_route graft_route_embeddings, graft_route_models, graft_route_models_folder,
    graft_route_experiment_models, graft_route_experiment_folder, graft_route_view_metadata;
/* routes_view.c */
graft_route graft_route_view, graft_route_internal_files;
/* routes_upload.c */
graft_route graft_route_upload_image, graft_route_upload_mask;
/* routes_user.c */
graft_route graft_route_users, graft_route_users_post, graft_route_settings_get,
    graft_route_setting_get, graft_route_settings_post, graft_route_setting_post;
/* routes_userdata.c */
graft_route graft_route_userdata_list, graft_route_userdata_list2, graft_route_userdata_get,
    graft_route_userdata_post, graft_route_userdata_delete;
/* routes_jobs.c */
graft_route graft_route_jobs, graft_route_jobs_one, graft_route_jobs_post, graft_route_jobs_cancel;
/* routes_logs.c */
graft_route graft_route_logs, graft_route_logs_raw, graft_route_logs_subscribe;
/* routes_templates.c */
graft_route graft_route_templates, graft_route_template;
/* static.c */
graft_route graft_route_static, graft_route_extensions;

/* Appends the features object, which /features and the WebSocket give. */
void graft_serve_features(const graft_serve *s, graft_str *out);
/* The rendered schemas are stale after an upload. [any] */
void graft_serve_forget_info(graft_serve *s);
/* Answers with a file below a folder, which no link may leave, or 404. */
graft_status graft_serve_file(const char *root, const char *name, const graft_http_request *q,
                              graft_http_response *r, graft_err *e);
/* 500 with {"error": …}, or 507 when memory or disk is short. */
void graft_serve_failure(graft_serve *s, graft_http_response *r, const graft_err *e);
#endif
