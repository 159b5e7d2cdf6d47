/* How a run looks on a terminal (a bar that is redrawn) or in a log (a line now and then). */
#ifndef GRAFT_HOST_SESSION_PROGRESS_H
#define GRAFT_HOST_SESSION_PROGRESS_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct graft_progress {
    pthread_mutex_t lock;
    FILE *out;
    bool terminal, shown; /* shown: a bar is on the line */
    bool quiet;
    char node[100], phase[24];
    size_t n_node, total_nodes;
    uint64_t done, total;
    double begun, drawn; /* of the present count of steps; last redraw */
    uint64_t base;       /* steps done when `begun` was taken */
    int last_tenth;
} graft_progress;

/* All functions: any thread. */
void graft_progress_init(graft_progress *p, FILE *out, bool quiet);
void graft_progress_finish(graft_progress *p); /* leaves a clean line */
void graft_progress_nodes(graft_progress *p, size_t total);
void graft_progress_node(graft_progress *p, const char *title, const char *id);
void graft_progress_phase(graft_progress *p, const char *phase);
void graft_progress_step(graft_progress *p, uint64_t done, uint64_t total);
/* A line of text, without disturbing the bar. */
void graft_progress_say(graft_progress *p, const char *text);
/* Takes the bar off the line. */
void graft_progress_clear(graft_progress *p);
#endif
