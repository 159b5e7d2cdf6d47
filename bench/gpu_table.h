/* Where the time of a network's step goes: for graft-bench-gpu. */
#ifndef GRAFT_BENCH_GPU_TABLE_H
#define GRAFT_BENCH_GPU_TABLE_H
#include "engine/objects/objects.h"

/* Prints the sums by operator and, by operator and shape, how often it runs, its time in the step,
 * the variant that is used, and what tuning found of every other; the costliest first. profile: of
 * this executable. step_ms: what a step takes when nothing is looked at. Returns how many variants
 * computed something else than the library's own choice. */
int gpu_table_print(const graft_engine *engine, const graft_exe *x,
                    const graft_exe_profile *profile, double step_ms);
#endif
