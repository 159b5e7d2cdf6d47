/* The command line. */
#ifndef GRAFT_HOST_OPTIONS_H
#define GRAFT_HOST_OPTIONS_H
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef enum graft_command {
    GRAFT_COMMAND_HELP,
    GRAFT_COMMAND_VERSION,
    GRAFT_COMMAND_RUN,
    GRAFT_COMMAND_COMPILE,
    GRAFT_COMMAND_CACHE,
    GRAFT_COMMAND_NODES,
    GRAFT_COMMAND_CHECK
} graft_command;

typedef struct graft_options {
    graft_command command;
    const char *file; /* borrowed from argv, like `set`; of cache: its own command, or NULL */
    const char **set; /* "NODE.INPUT=VALUE" */
    size_t n_set;
    char *models, *input, *output, *temp, *plugins; /* never NULL after parsing */
    bool quiet, json;
} graft_options;

/* GRAFT_E_ARG with a sentence for a wrong command line. graft_options_finish() in any case. */
graft_status graft_options_parse(int argc, char **argv, graft_options *o, graft_err *e);
void graft_options_finish(graft_options *o);
extern const char graft_options_usage[];
#endif
