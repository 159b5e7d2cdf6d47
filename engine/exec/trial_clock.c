/* Apart from trial.c, so that a test may link a clock of its own in place of this one. */
#include <time.h>

#include "engine/exec/trial.h"

double graft_trial_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
