/* Output files under names that the host reserves, and showing them. One thread. */
#ifndef GRAFT_NODES_OUTPUT_H
#define GRAFT_NODES_OUTPUT_H
#include "nodes/call.h"

/* A reserved file; every member is the host's. */
typedef struct graft_output_file {
    char *path, *name, *subfolder;
} graft_output_file;

graft_status graft_output_reserve(graft_call *c, const char *folder, const char *prefix,
                                  const char *suffix, int64_t width, int64_t height,
                                  graft_output_file *out);
void graft_output_finish(graft_call *c, graft_output_file *f);
/* For "graft.validate/1": refuses a prefix that leaves the folder before anything is computed. */
graft_status graft_output_validate(const graft_arg *prefix, char *text, uint64_t n);
/* Adds {"filename", "subfolder", "type"} to what the node shows under `key`. */
graft_status graft_output_show(graft_call *c, const char *key, const char *folder,
                               const graft_output_file *f);
#endif
