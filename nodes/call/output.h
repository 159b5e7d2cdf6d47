/* Output files under names that the host reserves, and what a node shows. One thread. */
#ifndef GRAFT_NODES_OUTPUT_H
#define GRAFT_NODES_OUTPUT_H
#include "nodes/call/call.h"

/* A reserved file; every member is the host's. */
typedef struct graft_output_file {
    char *path, *name, *subfolder;
} graft_output_file;

graft_status graft_output_reserve(graft_call *c, const char *folder, const char *prefix,
                                  const char *suffix, int64_t width, int64_t height,
                                  graft_output_file *out);
void graft_output_finish(graft_call *c, graft_output_file *f);

typedef struct graft_output_place { /* see graft_folders_api.reserve */
    const char *folder, *prefix, *suffix;
    int64_t width, height;
} graft_output_place;
/* Writes `path`; GRAFT_E_ARG when there is such a file already. */
typedef graft_status graft_output_writer(const void *what, const char *path, graft_err *e);
/* Has `write` make a file and shows it under `key`; under another name when somebody else was first
 * to make the reserved one. */
graft_status graft_output_write(graft_call *c, const graft_output_place *place, const char *key,
                                graft_output_writer *write, const void *what);
/* For "graft.validate/1": refuses a prefix that leaves the folder before anything is computed. */
graft_status graft_output_validate(const graft_arg *prefix, char *text, uint64_t n);
/* Adds {"filename", "subfolder", "type"} to what the node shows under `key`. */
graft_status graft_output_show(graft_call *c, const char *key, const char *folder,
                               const graft_output_file *f);
/* Shows a text on the node; copied. */
graft_status graft_output_show_text(graft_call *c, const char *text);
#endif
