/* The commands of the program; each returns the process's exit status. [main] */
#ifndef GRAFT_HOST_COMMANDS_COMMANDS_H
#define GRAFT_HOST_COMMANDS_COMMANDS_H
#include "host/session/options.h"

/* A path as it is shown: ./NAME is NAME. */
const char *graft_path_shown(const char *path); /* run.c */

int graft_command_run(const graft_options *o);     /* run.c; also compile, quantize */
int graft_command_compare(const graft_options *o); /* compare.c */
int graft_command_cache(const graft_options *o);   /* kept.c */
int graft_command_convert(const graft_options *o); /* convert.c */
int graft_command_nodes(const graft_options *o);   /* nodes.c */
int graft_command_check(const graft_options *o);   /* main.c */
#endif
