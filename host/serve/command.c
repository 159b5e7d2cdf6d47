#include "host/serve/command.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "host/serve/serve.h"
#include "host/serve/transport.h"
#include "host/session/ahead.h"

/* Everything that lives as long as the command. */
struct command {
    graft_serve serve;
    graft_options options; /* a copy with another folder for temporary files */
    graft_transport *transport;
    char *state, *temp;
    int lock; /* -1: not held */
    pthread_t worker, signals;
    bool has_worker, has_signals, has_queue;
    sigset_t wanted;
};

static void on_line(void *ctx, int32_t level, const char *text)
{
    graft_logs_line(ctx, level, text);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info, (void)type;
    if (at->level > 0) remove(path);
    return 0;
}

/* What is below the folder goes; links are removed, not followed. */
static void empty_folder(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Two servers with one queue would run jobs twice. */
static graft_status take_lock(struct command *c, graft_err *e)
{
    char *path = graft_path_join(c->state, "lock");
    if (!path) return graft_fail_nomem(e, "the server");
    c->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    graft_status st = GRAFT_OK;
    if (c->lock < 0)
        st = graft_fail(e, GRAFT_E_IO, "cannot write %s: %s", path, strerror(errno));
    else if (flock(c->lock, LOCK_EX | LOCK_NB))
        st = graft_fail(e, GRAFT_E_IO,
                        "another server uses the folder %s; --state names one for this", c->state);
    graft_free(path);
    return st;
}

static char *below(const char *folder, const char *name)
{
    char *path = graft_path_join(folder, name);
    if (path && graft_dir_make(path, NULL)) {
        graft_free(path);
        return NULL;
    }
    return path;
}

/* The folder with the queue, the user's files and the temporary ones. */
static graft_status open_state(struct command *c, graft_err *e)
{
    char real[PATH_MAX];
    const char *given = c->options.serve.state;
    graft_status st = graft_dir_make(given, e);
    if (st) return st;
    if (!realpath(given, real)) return graft_fail(e, GRAFT_E_IO, "cannot open %s", given);
    c->state = graft_strdup(real);
    if (!c->state) return graft_fail_nomem(e, "the server");
    GRAFT_TRY(take_lock(c, e));
    c->serve.users = below(c->state, "user");
    c->temp = below(c->state, "temp");
    char *workflows = c->serve.users ? below(c->serve.users, "workflows") : NULL;
    bool ok = workflows && c->temp;
    graft_free(workflows);
    if (!ok) return graft_fail(e, GRAFT_E_IO, "cannot make folders in %s", c->state);
    empty_folder(c->temp);
    c->options.temp = c->temp;
out:
    return st;
}

static graft_status open_store(struct command *c, graft_err *e)
{
    const graft_store_limits limits = {GRAFT_SERVE_PENDING_COUNT, GRAFT_SERVE_PENDING_BYTES,
                                       GRAFT_SERVE_HISTORY_COUNT, GRAFT_SERVE_HISTORY_BYTES};
    int64_t interrupted;
    char *path = graft_path_join(c->state, "graft.sqlite");
    if (!path) return graft_fail_nomem(e, "the server");
    graft_status st = graft_store_open(path, &limits, &c->serve.store, &interrupted, e);
    graft_free(path);
    if (st) return st;
    c->serve.counter = graft_store_counter(c->serve.store);
    if (interrupted)
        graft_logs_line(&c->serve.logs, GRAFT_LOG_WARN,
                        "the last server was stopped while a prompt ran; the history says so");
    return GRAFT_OK;
}

/* The given folder, or the editor that was built or installed with this program. */
static graft_status find_page(struct command *c, graft_err *e)
{
    static const char *const places[] = {"../share/graft/editor", "share/graft/editor"};
    char exe[PATH_MAX];
    const char *given = c->options.serve.web_root;
    if (given) {
        if (!graft_dir_exists(given))
            return graft_fail(e, GRAFT_E_NOTFOUND, "--web-root: there is no folder %s", given);
        c->serve.web_root = graft_strdup(given);
        return c->serve.web_root ? GRAFT_OK : graft_fail_nomem(e, "the server");
    }
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0) return GRAFT_OK;
    exe[n] = 0;
    char *slash = strrchr(exe, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places && !c->serve.web_root; i++) {
        char *path = graft_path_join(exe, places[i]);
        if (!path) return graft_fail_nomem(e, "the server");
        if (graft_dir_exists(path))
            c->serve.web_root = path;
        else
            graft_free(path);
    }
    return GRAFT_OK;
}

/* The first signal ends the server in order; the second one at once. */
static void *wait_for_signal(void *ctx)
{
    struct command *c = ctx;
    int number;
    sigwait(&c->wanted, &number);
    if (number != SIGUSR1)
        fputs("\nstopping: a job that runs ends within one operator; interrupt again to end at "
              "once\n",
              stderr);
    graft_queue_stop(&c->serve.queue);
    graft_transport_stop(c->transport);
    if (number != SIGUSR1 && sigwait(&c->wanted, &number) == 0 && number != SIGUSR1) _exit(130);
    return NULL;
}

static graft_status start_threads(struct command *c, graft_err *e)
{
    c->has_worker = pthread_create(&c->worker, NULL, graft_serve_worker, &c->serve) == 0;
    if (!c->has_worker) return graft_fail(e, GRAFT_E_NOMEM, "cannot start a thread");
    c->has_signals = pthread_create(&c->signals, NULL, wait_for_signal, c) == 0;
    return c->has_signals ? GRAFT_OK : graft_fail(e, GRAFT_E_NOMEM, "cannot start a thread");
}

static void stop_threads(struct command *c)
{
    if (c->has_queue) graft_queue_stop(&c->serve.queue);
    if (c->has_worker) pthread_join(c->worker, NULL);
    if (c->has_signals) {
        pthread_kill(c->signals, SIGUSR1);
        pthread_join(c->signals, NULL);
    }
}

static void finish(struct command *c)
{
    graft_serve *s = &c->serve;
    stop_threads(c);
    graft_transport_destroy(c->transport);
    graft_executor_destroy(s->executor);
    graft_http_blob_release(s->info);
    graft_http_blob_release(s->info_gzip);
    graft_sink_finish(&s->sink);
    if (c->has_queue) graft_queue_finish(&s->queue);
    graft_store_close(s->store);
    graft_session_finish(&s->session);
    graft_logs_finish(&s->logs);
    graft_roots_finish(&s->roots);
    graft_hub_finish(&s->hub);
    if (c->temp) empty_folder(c->temp);
    graft_free(s->users);
    graft_free(s->web_root);
    graft_free(c->temp);
    graft_free(c->state);
    if (c->lock >= 0) close(c->lock);
}

static graft_status start(struct command *c, graft_err *e)
{
    graft_serve *s = &c->serve;
    const graft_serve_options *o = &c->options.serve;
    const graft_log log = {&s->logs, on_line};
    graft_status st = GRAFT_OK;
    s->options = &c->options;
    s->max_upload = (int64_t)o->max_upload_mb << 20;
    s->security = (graft_security){o->token, o->cors_origin, o->listen, o->allow_host};
    graft_hub_init(&s->hub);
    graft_logs_init(&s->logs, &s->hub, c->options.quiet);
    graft_sink_init(&s->sink, &s->hub, &s->logs);
    s->previews = o->previews;
    s->templates = o->workflows;
    GRAFT_TRY(open_state(c, e));
    GRAFT_TRY(open_store(c, e));
    graft_queue_init(&s->queue, s->store, &s->hub);
    c->has_queue = true;
    GRAFT_TRY(find_page(c, e));
    GRAFT_TRY(graft_session_init(&s->session, &c->options, &log, e));
    GRAFT_TRY(graft_ahead_device(&s->session, &c->options, e));
    GRAFT_TRY(graft_roots_init(&s->roots, &s->session.folders, c->state, e));
    s->logs.roots = &s->roots;
    GRAFT_TRY(graft_executor_create(&s->session.services.host, o->recent >= 0, &s->executor, e));
    if (o->recent > 0) graft_executor_keep_recent(s->executor, (size_t)o->recent);
    GRAFT_TRY(graft_transport_create(s, &c->transport, e));
    st = start_threads(c, e);
out:
    return st;
}

static void announce(const struct command *c)
{
    const graft_serve_options *o = &c->options.serve;
    bool six = strchr(o->listen, ':');
    if (!graft_dir_exists(c->options.models)) /* not in the log, which clients read */
        fprintf(stderr, "graft: there is no folder %s, where models would be\n", c->options.models);
    printf("graft serves at %s://%s%s%s:%d/\n", o->tls_cert ? "https" : "http", six ? "[" : "",
           o->listen, six ? "]" : "", graft_transport_port(c->transport));
    fflush(stdout);
}

int graft_command_serve(const graft_options *o)
{
    graft_err e = GRAFT_ERR_INIT;
    sigset_t before;
    struct command *c = graft_calloc(1, sizeof *c);
    if (!c) {
        fputs("graft: out of memory\n", stderr);
        return GRAFT_EXIT_FAILED;
    }
    c->lock = -1;
    c->options = *o;
    /* Every thread inherits the mask, so that the one that waits gets the signals. */
    sigemptyset(&c->wanted);
    sigaddset(&c->wanted, SIGINT);
    sigaddset(&c->wanted, SIGTERM);
    sigaddset(&c->wanted, SIGHUP);
    sigaddset(&c->wanted, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &c->wanted, &before);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is as bad as a full disk, and no worse */
    graft_status st = start(c, &e);
    if (!st) {
        announce(c);
        graft_transport_run(c->transport);
    }
    finish(c);
    graft_free(c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (st) fprintf(stderr, "graft: %s\n", e.text);
    return st ? GRAFT_EXIT_FAILED : GRAFT_EXIT_OK;
}
