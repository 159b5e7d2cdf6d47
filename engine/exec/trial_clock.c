/* Apart from trial.c, so that a test may link a clock of its own in place of this one. */
#include "base/clock.h"
#include "engine/exec/trial.h"

double graft_trial_now(void)
{
    return graft_clock_now();
}
