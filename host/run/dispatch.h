/* One node with its inputs gathered: spread lists, adapt values, call execute(), keep outputs. */
#ifndef GRAFT_HOST_RUN_DISPATCH_H
#define GRAFT_HOST_RUN_DISPATCH_H
#include <stdatomic.h>

#include "host/run/expand.h"
#include "host/run/job.h"
#include "host/prompt/prompt.h"
#include "host/run/values.h"

#define GRAFT_DISPATCH_HELPERS 32 /* threads at once for calls over lists */

typedef struct graft_dispatch {
    const graft_host *host;
    const graft_prompt_node *node;
    void *self;
    graft_result **from; /* by input: what its origin gave; NULL: not linked, not (yet) computed */
    graft_job *job;
    atomic_int *helpers; /* threads that may still be started for calls over a list; or NULL */
    graft_expansion expansion; /* the caller's, see below */
    char input[128];           /* the input at fault, "" for none */
    char block[400];           /* the message of a blocked input, "" for none */
} graft_dispatch;

/* Runs the node once per element, in turn or, with `helpers`, as many at once as there are threads
 * for, on instances of their own. Where an input is blocked the outputs are, too, without a call;
 * *out gets a result with one reference. A node whose inputs include an empty list does not run and
 * gives empty lists. When a call gave nodes in place of values, *out is NULL and `expansion` has
 * what came. Any thread, if nobody changes the call or `from` meanwhile. */
graft_status graft_dispatch_run(graft_dispatch *c, graft_result **out, graft_err *e);
/* Asks "graft.lazy/1" which of the missing inputs are needed: bit i is input i. */
graft_status graft_dispatch_lazy(graft_dispatch *c, uint64_t *needed, graft_err *e);
#endif
