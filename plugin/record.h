/* A node's records, checked before anybody uses them. Any thread. */
#ifndef GRAFT_PLUGIN_RECORD_H
#define GRAFT_PLUGIN_RECORD_H
#include <stddef.h>

#include "base/error.h"
#include "plugin/graft_plugin.h"

/* Sizes of the records of ABI 1.0, below which no record can be. */
#define GRAFT_RECORD_END(T, m)   (offsetof(T, m) + sizeof(((T *)0)->m))
#define GRAFT_INPUT_V1_SIZE      GRAFT_RECORD_END(graft_input, round)
#define GRAFT_INPUT_WHEN_SIZE    GRAFT_RECORD_END(graft_input, when)
#define GRAFT_OUTPUT_V1_SIZE     GRAFT_RECORD_END(graft_output, tooltip)
#define GRAFT_NODE_V1_SIZE       GRAFT_RECORD_END(graft_node, query)
#define GRAFT_RECORD_MAX_SOCKETS 256    /* inputs, or outputs, of one node */
#define GRAFT_PLUGIN_MAX_NODES   65536u /* more means a list without an end */

/* Fails, naming node and member, when a host could not use the record without a crash: records that
 * are too short, members that are missing, kinds that contradict the type. */
graft_status graft_record_check(const graft_node *n, graft_err *e);
#endif
