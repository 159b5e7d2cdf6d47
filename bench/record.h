/* bench.json: an object, name -> {value, unit, how, machine, date}. Several programs write into one
 * file; a figure that is measured again replaces the old one. */
#ifndef GRAFT_BENCH_RECORD_H
#define GRAFT_BENCH_RECORD_H

/* Adds or replaces one figure. `how`: the command that repeats it. 0, or -1 with a line on stderr.
 */
int record(const char *file, const char *name, double value, const char *unit, const char *how);
/* Monotonic seconds. */
double record_now(void);
/* Of n values, which are sorted meanwhile; n at least 1. */
double record_median(double *v, int n);
/* Resident memory of this process now, and its peak, in MiB. */
double record_rss_mib(void);
double record_peak_mib(void);
/* Starts a new peak; without the right to do so the old one stays. */
void record_reset_peak(void);
#endif
