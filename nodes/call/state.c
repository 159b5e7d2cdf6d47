#include "nodes/call/state.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/dl.h"
#include "base/file.h"

/* The only static data that changes, as the plugin ABI allows: counted by init() and deinit(). */
static struct {
    pthread_mutex_t lock;
    int64_t inits;
    graft_engine *engine;
    graft_preview_vaes *previews;
    pthread_mutex_t log_lock;
    const graft_host *host; /* that came last, NULL when one has gone; under log_lock */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .log_lock = PTHREAD_MUTEX_INITIALIZER};

/* What the engine says that belongs to no job. */
static void log_line(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    pthread_mutex_lock(&state.log_lock);
    const graft_host *h = state.host;
    const graft_log_api *api = h ? h->query(h, GRAFT_LOG_ID) : NULL;
    if (api && level >= GRAFT_LOG_WARN) api->line(h, level, text);
    pthread_mutex_unlock(&state.log_lock);
}

static void set_host(const graft_host *h)
{
    pthread_mutex_lock(&state.log_lock);
    state.host = h;
    pthread_mutex_unlock(&state.log_lock);
}

/* Where compiled graphs are kept: $GRAFT_CACHE, $XDG_CACHE_HOME/graft or ~/.cache/graft. *out is
 * NULL when the environment names no place. */
static graft_status find_cache_dir(char **out, graft_err *e)
{
    const char *own = getenv("GRAFT_CACHE"), *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    *out = NULL;
    if (own && own[0])
        *out = graft_strdup(own);
    else if (xdg && xdg[0] == '/')
        *out = graft_path_join(xdg, "graft");
    else if (home && home[0])
        *out = graft_path_join(home, ".cache/graft");
    else
        return GRAFT_OK;
    return *out ? GRAFT_OK : graft_fail_nomem(e, "the cache folder's name");
}

static graft_status create_engine(graft_engine **out, graft_err *e)
{
    char *cache_dir = NULL;
    char *dir = graft_dl_folder_of(&graft_plugin_entry);
    graft_status st;
    if (!dir) return graft_fail(e, GRAFT_E_IO, "cannot tell where the node plugin is installed");
    GRAFT_TRY(find_cache_dir(&cache_dir, e));
    graft_engine_config config = {
        .kernel_dir = dir, .cache_dir = cache_dir, .log = {NULL, log_line}};
    GRAFT_TRY(graft_engine_create(&config, out, e));
out:
    graft_free(cache_dir);
    graft_free(dir);
    return st;
}

graft_status graft_nodes_engine(graft_engine **out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    pthread_mutex_lock(&state.lock);
    if (!state.engine) st = create_engine(&state.engine, e);
    *out = state.engine;
    pthread_mutex_unlock(&state.lock);
    return st;
}

graft_status graft_nodes_preview_vaes(graft_preview_vaes **out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    pthread_mutex_lock(&state.lock);
    if (!state.previews) st = graft_preview_vaes_create(&state.previews, e);
    *out = state.previews;
    pthread_mutex_unlock(&state.lock);
    return st;
}

void graft_nodes_begin(const graft_host *h)
{
    set_host(h);
    pthread_mutex_lock(&state.lock);
    state.inits++;
    pthread_mutex_unlock(&state.lock);
}

void graft_nodes_end(void)
{
    pthread_mutex_lock(&state.lock);
    if (state.inits > 0 && --state.inits == 0) {
        graft_preview_vaes_destroy(state.previews);
        state.previews = NULL;
        if (state.engine) graft_engine_destroy(state.engine);
        state.engine = NULL;
    }
    pthread_mutex_unlock(&state.lock);
    /* Whose end it was is not said: with several hosts the others are silent from now on. */
    set_host(NULL);
}

graft_engine *graft_nodes_engine_made(void)
{
    pthread_mutex_lock(&state.lock);
    graft_engine *engine = state.engine;
    pthread_mutex_unlock(&state.lock);
    return engine;
}
