/* The inputs that CompileModel and CompileVAE have in common. */
#ifndef GRAFT_NODES_COMPILE_OPTIONS_H
#define GRAFT_NODES_COMPILE_OPTIONS_H
#include "nodes/call/call.h"

extern const graft_input graft_compile_precision, graft_compile_tuning, graft_compile_max_memory_mb,
    graft_compile_device, graft_compile_cache, graft_compile_width, graft_compile_height,
    graft_compile_batch_size;

/* Reads the five options from input `first` on, and the three sizes from input `size` on; the texts
 * are borrowed for the call. */
graft_compile_options graft_compile_options_read(const graft_call *c, int first, int size);
/* Choices of graft_compile_device: "auto" and the backends that can run here. */
char **graft_compile_options_devices(void);
#endif
