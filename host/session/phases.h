/* Time and peak memory of the phases of a run (load, compile, sample, …). Any thread; one at a time
 * in a process, as the peak of memory is the process's. */
#ifndef GRAFT_HOST_SESSION_PHASES_H
#define GRAFT_HOST_SESSION_PHASES_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/str.h"

#define GRAFT_PHASES_MAX 24 /* later names count as "more" */

typedef struct graft_phase_row {
    char name[24];
    double seconds;
    int64_t peak; /* bytes of resident memory while the phase ran */
} graft_phase_row;
typedef struct graft_phases {
    pthread_mutex_t lock;
    graft_phase_row row[GRAFT_PHASES_MAX];
    int count, current; /* current: -1 between phases */
    double started, begun;
    int64_t peak, all_peak; /* bytes: of the current phase, of the run */
    bool resets;            /* the system lets us reset the peak; else it is sampled */
} graft_phases;

void graft_phases_init(graft_phases *p); /* starts the total */
void graft_phases_finish(graft_phases *p);
void graft_phases_restart(graft_phases *p);                 /* another run: as after init */
void graft_phases_begin(graft_phases *p, const char *name); /* ends the phase before it */
void graft_phases_end(graft_phases *p);
void graft_phases_sample(graft_phases *p);
/* Both end the phase that goes on. The second appends {"seconds", "memory_peak": bytes, "phases":
 * [{"name", "seconds", "memory_peak"}]}. */
void graft_phases_print(graft_phases *p, FILE *out);
void graft_phases_json(graft_phases *p, graft_str *out);
#endif
