/* Sizes and times as people read them, with three or four digits. `text` takes 16 bytes. Any
 * thread. */
#ifndef GRAFT_BASE_QUANTITY_H
#define GRAFT_BASE_QUANTITY_H
#include <stdint.h>

void graft_bytes_text(uint64_t bytes, char text[16]);   /* "12.3 MB" */
void graft_seconds_text(double seconds, char text[16]); /* "12.3 ms" */
#endif
