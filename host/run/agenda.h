/* Which nodes of a run wait for what. It begins with the nodes of a prompt and grows by parts that
 * nodes expand into; nodes are numbered, and keep their numbers. The thread that runs alone may
 * call these, except for graft_agenda_node_text(). */
#ifndef GRAFT_HOST_RUN_AGENDA_H
#define GRAFT_HOST_RUN_AGENDA_H
#include <pthread.h>

#include "base/map.h"
#include "host/run/cache.h"
#include "host/run/events.h"
#include "host/prompt/prompt.h"
#include "host/run/values.h"

#define GRAFT_AGENDA_NONE ((size_t)-1)

typedef struct graft_agenda_node {
    const graft_prompt_node *n;
    graft_where where;
    size_t parent;        /* the node that expanded into it, or GRAFT_AGENDA_NONE */
    graft_result *result; /* NULL until done, and after the last consumer */
    graft_cache_key key;  /* once it is staged */
    size_t blocked;       /* active links whose origin is not done */
    size_t consumers;     /* links that may still want the result */
    size_t first_link;    /* number + 1 of a link that starts here; 0: none */
    bool *active;         /* per input: the link counts in `blocked` */
    int hops;             /* links to the nearest output node, 3: three or more */
    bool staged, done, cached;
    bool running;   /* execute() was called and has not returned */
    bool expanding; /* it waits for nodes that it expanded into */
} graft_agenda_node;

typedef struct graft_agenda_link { /* from an origin to an input */
    size_t consumer, input;        /* input GRAFT_AGENDA_NONE: to what the consumer expands into */
    size_t next;                   /* as first_link */
} graft_agenda_link;

typedef struct graft_agenda_part {
    const graft_prompt *prompt;
    graft_prompt *owned; /* the same, unless it is the run's own prompt */
    bool *active;
    size_t base; /* number of its first node */
} graft_agenda_part;

typedef struct graft_agenda {
    bool keep;               /* results stay until the end of the run */
    graft_agenda_node *node; /* moves when nodes are added */
    size_t count, cap;
    size_t *order, n_order, cap_order; /* nodes that may run; within a part origins come first */
    graft_agenda_link *link;
    size_t n_link, cap_link;
    graft_agenda_part *part;
    size_t n_part, cap_part;
    size_t *stack, cap_stack;
    graft_map index;      /* id -> number + 1 */
    pthread_mutex_t lock; /* guards node, index and the prompts' JSON against node_text() */
} graft_agenda;

void graft_agenda_init(graft_agenda *a);
/* Releases results and parts. */
void graft_agenda_finish(graft_agenda *a);

/* Adds the nodes of a prompt: the run's own one (parent GRAFT_AGENDA_NONE, borrowed), or a part
 * that `parent` expands into, checked with graft_validate_part() against this agenda. A part is
 * taken in any case. Nothing is staged yet. */
graft_status graft_agenda_add(graft_agenda *a, const graft_prompt *prompt, size_t parent,
                              graft_err *e);
/* Number of the node with this id, if it may run; else GRAFT_AGENDA_NONE. */
size_t graft_agenda_find(const graft_agenda *a, const char *id);
/* A node's JSON (graft_free); NULL when there is none with this id. Any thread. */
char *graft_agenda_node_text(graft_agenda *a, const char *id);

/* Marks a node, and all it needs, as to be computed. */
void graft_agenda_stage(graft_agenda *a, size_t node);
/* The same for a lazy input that is needed after all. */
void graft_agenda_want(graft_agenda *a, size_t node, size_t input);
/* Lets `node` wait for `origin`, which is among the nodes that it expanded into, or is any other.
 */
graft_status graft_agenda_follow(graft_agenda *a, size_t node, size_t origin, graft_err *e);
/* The ready node that leads soonest to something to look at; asynchronous ones come first, because
 * they cost nothing to start. GRAFT_AGENDA_NONE when none is ready. */
size_t graft_agenda_next(const graft_agenda *a);
/* True when something was staged and is not done. */
bool graft_agenda_open(const graft_agenda *a);
/* When nothing is ready and nothing runs, nodes wait for one another in a circle: one of them, if
 * possible one that came by expansion. */
size_t graft_agenda_circle(const graft_agenda *a);
/* Takes the result; wakes those who waited, drops values that nobody wants any more. */
void graft_agenda_done(graft_agenda *a, size_t node, graft_result *result);
/* Sets a result from the cache; takes it. */
void graft_agenda_cached(graft_agenda *a, size_t node, graft_result *result);
#endif
