/* What a run tells, turned into the protocol's messages and into the record for the history. */
#ifndef GRAFT_HOST_SERVE_SINK_H
#define GRAFT_HOST_SERVE_SINK_H
#include <pthread.h>

#include "base/json.h"
#include "host/run/events.h"
#include "host/session/options.h"
#include "host/session/phases.h"
#include "host/serve/hub.h"
#include "host/serve/logs.h"

typedef enum graft_sink_state {
    GRAFT_SINK_RUNNING,
    GRAFT_SINK_FINISHED,
    GRAFT_SINK_ERROR
} graft_sink_state;
typedef struct graft_sink_node {
    char *id, *parent, *display, *real; /* as in graft_where; id alone for nodes of the prompt */
    graft_sink_state state;
    uint64_t value, max;
    char phase[24];
    double begun;   /* when the first step of a phase was reported: */
    uint64_t first; /* that one */
    double rate;    /* steps a second; 0: not known yet */
    double since;   /* when it began to run; 0: it does not */
    double seconds; /* that it ran before */
} graft_sink_node;

typedef struct graft_sink {
    graft_hub *hub;
    graft_logs *logs;
    graft_phases phases;     /* what the job takes; it has a lock of its own */
    pthread_mutex_t lock;    /* guards the rest */
    const char *id, *client; /* of the job; NULL: nothing runs, no client */
    double added;            /* when it was queued, graft_clock_now() */
    char *current;           /* the node that runs; NULL */
    graft_sink_node *node;
    size_t n_node, cap_node;
    graft_str messages; /* history: ["type",{…}],… */
    cJSON *warnings;    /* array of {"node", "display_node", "text"}; NULL: none */
    graft_str held;     /* the message that ends the run, until graft_sink_tell() */
    bool held_for_all;
    char end[16]; /* "", then "success", "error" or "interrupted" */
    double progress_at, preview_at;
} graft_sink;

void graft_sink_init(graft_sink *s, graft_hub *hub, graft_logs *logs);
void graft_sink_finish(graft_sink *s);

/* The worker: begin, run with the events, take the record, store it, tell, close. The results of a
 * job that was `added` (graft_clock_now()) moments ago are held back for the rest of 50 ms, so
 * that its client has read the answer to the prompt, which says the id, when they come. Id and
 * client are borrowed until close: an end must be told and written down however short memory is. */
void graft_sink_begin(graft_sink *s, const char *id, const char *client, double added);
graft_events graft_sink_events(graft_sink *s, graft_preview_mode previews);
/* A job that could not be run at all. */
void graft_sink_fail(graft_sink *s, const graft_err *why);
/* The messages as a JSON array (graft_free; NULL when out of memory). */
char *graft_sink_take_messages(graft_sink *s);
/* Appends what the job took: as graft_phases_json(), with "nodes": [{"node", "seconds"}], each
 * where the prompt has it, without those from the cache. Runs of more than 500 nodes have none. */
void graft_sink_profile(graft_sink *s, graft_str *out);
/* Sends the event that ended the run. It is held back until here, because a client may ask for the
 * history as soon as it has it: after the entry is stored, before anything else is said. Takes a
 * sink. */
void graft_sink_tell(void *sink);
/* Sends the last "executing" and forgets the job. */
void graft_sink_close(graft_sink *s);

/* Appends the message that tells a client which came back where its job stands; nothing when no
 * job of this client runs, or it has ended and says so itself. Any thread. */
void graft_sink_resume(graft_sink *s, const char *client, graft_str *out);
/* Appends {"node", "phase", "value", "max", "rate", "nodes_done"} or "null" for a job that does not
 * run, or has ended and is about to be in the history. Any thread. */
void graft_sink_progress(graft_sink *s, const char *id, graft_str *out);
/* Appends the warnings so far of the job, if it runs, as an array. Any thread. */
void graft_sink_warnings(graft_sink *s, const char *id, graft_str *out);
#endif
