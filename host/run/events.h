/* What happens while a prompt runs, told to whoever asked for the run: a terminal, a server. */
#ifndef GRAFT_HOST_RUN_EVENTS_H
#define GRAFT_HOST_RUN_EVENTS_H
#include "base/json.h"
#include "base/log.h"
#include "plugin/graft_plugin.h"

/* A node by its ids. Those of a node of the prompt are all the same, and `parent` is NULL. */
typedef struct graft_where {
    const char *id;
    const char *display; /* the node of the prompt under which clients show it */
    const char *parent;  /* the node that expanded into it, or NULL */
    const char *real;    /* the node of the prompt from which it came, by however many steps */
} graft_where;

typedef struct graft_run_error {
    graft_status code;   /* GRAFT_E_CANCEL: interrupted */
    const char *node_id; /* of the prompt, also when a node fails that it expanded into; "" when no
                          * node is at fault */
    const char *class_type;
    const char *input;     /* "" when no input is at fault */
    const char *text;      /* the sentence alone, without node and input */
    const cJSON *executed; /* array of the ids that had finished */
    const cJSON *inputs;   /* object: name -> array of values, objects by their type; may be NULL */
} graft_run_error;

/* Every function may be NULL. Arguments live for the call. start, cached, node_asked, node_start,
 * node_done, error, blocked and success: the thread that runs; progress, phase, log, warning,
 * preview, preview_wanted, picture and latent: any thread, several at once. Several nodes may have
 * started and not be done: see GRAFT_NODE_ASYNC. */
typedef struct graft_events {
    void *ctx;
    int32_t preview_kind;                   /* GRAFT_PREVIEW_…, where there is a preview() */
    void (*start)(void *ctx, size_t nodes); /* nodes: how many may run at most */
    void (*cached)(void *ctx, const char *const *ids, size_t n); /* always, n may be 0 */
    /* It has said which lazy inputs it needs, and waits for them; node_start follows. */
    void (*node_asked)(void *ctx, const graft_where *at);
    void (*node_start)(void *ctx, const graft_where *at, const graft_node *node, const char *title);
    void (*progress)(void *ctx, const graft_where *at, uint64_t done, uint64_t total);
    void (*phase)(void *ctx, const graft_where *at, const char *phase);
    void (*log)(void *ctx, const graft_where *at, int32_t level, const char *text);
    /* After log, for lines of GRAFT_LOG_WARN and above; and without a line in the log once more in
     * each run in which the node's result comes from the cache. */
    void (*warning)(void *ctx, const graft_where *at, const char *text);
    void (*preview)(void *ctx, const graft_where *at, const graft_tensor *rgb8);
    bool (*preview_wanted)(void *ctx, const graft_where *at); /* would it be shown now? NULL: yes */
    bool (*picture)(void *ctx, const graft_where *at, const void *png, size_t n); /* false: lost */
    void (*latent)(void *ctx, const graft_where *at, const graft_tensor *values); /* after a step */
    /* ui: an object of arrays, NULL when the node shows nothing. Also called for a cached node that
     * shows something, with from_cache. */
    void (*node_done)(void *ctx, const graft_where *at, const cJSON *ui, int32_t from_cache);
    void (*error)(void *ctx, const graft_run_error *error); /* instead of success */
    /* The node did not run because an input was blocked with a message (`text`); the run goes on.
     */
    void (*blocked)(void *ctx, const graft_run_error *why);
    void (*success)(void *ctx);
} graft_events;
#endif
