#include "host/session/session.h"

#include <stdio.h>
#include <string.h>

#include "host/run/job.h"

static void print_line(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level >= GRAFT_LOG_WARN) fprintf(stderr, "graft: %s\n", text);
}

const graft_log graft_session_log = {NULL, print_line};

graft_status graft_session_init(graft_session *s, const graft_options *o, const graft_log *log,
                                graft_err *e)
{
    graft_status st = GRAFT_OK;
    memset(s, 0, sizeof *s);
    GRAFT_TRY(graft_folders_init(&s->folders, o->models, o->input, o->output, o->temp, e));
    graft_services_init(&s->services, &s->folders, graft_job_services, log);
    GRAFT_TRY(graft_registry_create(&s->services.host, &s->registry, e));
    GRAFT_TRY(graft_registry_load_folder(s->registry, o->plugins, log, &s->plugins, e));
    if (!s->plugins)
        graft_log_printf(log, GRAFT_LOG_WARN, "there is no node plugin in %s", o->plugins);
out:
    if (st) graft_session_finish(s);
    return st;
}

void graft_session_finish(graft_session *s)
{
    if (s->registry) graft_registry_destroy(s->registry);
    s->registry = NULL;
    graft_services_finish(&s->services);
    graft_folders_finish(&s->folders);
}
