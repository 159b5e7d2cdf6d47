#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/commands/commands.h"
#include "host/serve/command.h"
#include "host/run/job.h"
#include "host/session/session.h"

static void on_finding(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level >= GRAFT_LOG_WARN)
        printf("%s: %s\n", level >= GRAFT_LOG_ERROR ? "error" : "warning", text);
}

int graft_command_check(const graft_options *o)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_folders folders = {0};
    graft_services services = {0};
    const graft_log log = {NULL, on_finding};
    graft_status st = graft_folders_init(&folders, o->models, o->input, o->output, o->temp, &e);
    if (!st) {
        graft_services_init(&services, &folders, graft_job_services, &log);
        st = graft_plugin_check(o->file, &services.host, &log, &e);
    }
    graft_services_finish(&services);
    graft_folders_finish(&folders);
    if (st)
        fprintf(stderr, "graft: %s\n", e.text);
    else
        printf("%s: no rule is broken\n", o->file);
    return st ? GRAFT_EXIT_FAILED : GRAFT_EXIT_OK;
}

/* What a command printed is on its way; fails where not all of it could be written. */
static graft_status printed(graft_err *e)
{
    bool before = ferror(stdout);
    errno = 0;
    if (!fflush(stdout) && !before) return GRAFT_OK;
    if (errno == EPIPE || errno == EBADF)
        return graft_fail(e, GRAFT_E_IO, "standard output is closed");
    return graft_fail(e, GRAFT_E_IO, "standard output: %s",
                      errno ? strerror(errno) : "not all of it could be written");
}

int main(int argc, char **argv)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_options o;
    /* Writing beyond a limit on files' sizes then fails as on a full disk. */
    signal(SIGXFSZ, SIG_IGN);
    int status = GRAFT_EXIT_OK;
    graft_status st = graft_options_parse(argc, argv, &o, &e);
    if (st) {
        fprintf(stderr, "graft: %s\n", e.text);
        if (st == GRAFT_E_ARG && argc < 2) graft_options_help(GRAFT_COMMAND_HELP, stderr);
        if (st == GRAFT_E_ARG && argc >= 2) graft_options_hint(argv[1], stderr);
        graft_options_finish(&o);
        return st == GRAFT_E_ARG ? GRAFT_EXIT_USAGE : GRAFT_EXIT_FAILED;
    }
    /* OpenMP's threads wait for work by spinning, for milliseconds unless told otherwise, which
     * beside other programs costs them and us dearly. The library is not loaded yet. */
    setenv("GOMP_SPINCOUNT", "10000", 0);
    /* Nodes have no other way to know. */
    if (o.device) setenv("GRAFT_BACKEND", o.device, 1);
    if (o.threads) setenv("GRAFT_THREADS", o.threads, 1);
    switch (o.command) {
    case GRAFT_COMMAND_HELP:
        graft_options_help(o.topic, stdout);
        break;
    case GRAFT_COMMAND_VERSION:
        puts("graft " GRAFT_VERSION);
        break;
    case GRAFT_COMMAND_RUN:
    case GRAFT_COMMAND_COMPILE:
    case GRAFT_COMMAND_QUANTIZE:
        status = graft_command_run(&o);
        if (status == GRAFT_EXIT_USAGE) graft_options_hint(argv[1], stderr);
        break;
    case GRAFT_COMMAND_COMPARE:
        status = graft_command_compare(&o);
        break;
    case GRAFT_COMMAND_CACHE:
        status = graft_command_cache(&o);
        break;
    case GRAFT_COMMAND_CONVERT:
        status = graft_command_convert(&o);
        break;
    case GRAFT_COMMAND_NODES:
        status = graft_command_nodes(&o);
        break;
    case GRAFT_COMMAND_CHECK:
        status = graft_command_check(&o);
        break;
    case GRAFT_COMMAND_SERVE:
        status = graft_command_serve(&o);
        break;
    }
    if (!status && o.command != GRAFT_COMMAND_SERVE && printed(&e)) {
        fprintf(stderr, "graft: %s\n", e.text);
        status = GRAFT_EXIT_FAILED;
    }
    graft_options_finish(&o);
    return status;
}
