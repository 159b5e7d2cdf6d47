/* How much of this process lies in the machine's memory, in bytes (proc(5), /proc/pid/status).
 * Pages of mapped files count. Any thread; the peak and its reset are the process's. */
#ifndef GRAFT_BASE_RESIDENT_H
#define GRAFT_BASE_RESIDENT_H
#include <stdbool.h>
#include <stdint.h>

int64_t graft_resident_now(void);  /* 0: the system does not say */
int64_t graft_resident_peak(void); /* since the process began or the last reset; 0 likewise */
/* The peak begins anew from what is resident now. False: not allowed here, and it goes on. */
bool graft_resident_reset_peak(void);
#endif
