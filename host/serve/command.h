/* `graft serve`. */
#ifndef GRAFT_HOST_SERVE_COMMAND_H
#define GRAFT_HOST_SERVE_COMMAND_H
#include "host/session/options.h"

/* Serves until it is told to end; returns the process's exit status. [main] */
int graft_command_serve(const graft_options *o);
#endif
