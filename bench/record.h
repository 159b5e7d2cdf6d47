/* What benches share: figures, which go to standard output and into a file, times and memory.
 *
 * The file, bench.json, is an object: name -> {value, unit, how, machine, date}. Several programs
 * write into one file; a figure that is measured again replaces the old one. */
#ifndef GRAFT_BENCH_RECORD_H
#define GRAFT_BENCH_RECORD_H
#include "base/error.h"

/* Prints one figure and puts it into `file` (NULL: none); a line on stderr when it cannot be
 * written. `how`: the command that repeats it. */
void record(const char *file, const char *name, double value, const char *unit, const char *how);
/* Ends the program with the message of a failure. */
void must(graft_status st, const graft_err *e);
/* Ends the program when there is no such file, before it has measured for minutes. */
void must_exist(const char *path);
/* Sorts n values, the least first. */
void record_sort(double *v, int n);
/* Of n values, which are sorted meanwhile; n at least 1. */
double record_median(double *v, int n);
/* Resident memory of this process now, and its peak, in MiB. */
double record_rss_mib(void);
double record_peak_mib(void);
/* Starts a new peak; without the right to do so the old one stays. */
void record_reset_peak(void);
#endif
