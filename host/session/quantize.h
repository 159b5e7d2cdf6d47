/* graft quantize: a workflow that only calibrates, made from the command line. */
#ifndef GRAFT_HOST_SESSION_QUANTIZE_H
#define GRAFT_HOST_SESSION_QUANTIZE_H
#include "base/json.h"
#include "host/services/folders.h"
#include "host/session/options.h"
#include "plugin/loader.h"

#define GRAFT_QUANTIZE_NODE   "quantize" /* id of the QuantizeModel node */
#define GRAFT_QUANTIZE_REPORT "report"   /* of the node that wants its result */

/* The workflow in the API format: loader, prompts, an empty latent, QuantizeModel, and a report
 * behind it so that something wants the result. The checkpoint is a name, or the path of a file in
 * one of the folders. */
graft_status graft_quantize_workflow(const graft_options *o, const graft_folders *folders,
                                     const graft_registry *r, cJSON **out, graft_err *e);
/* Checks the options' values by what the nodes say of their inputs; GRAFT_E_ARG for a wrong one. */
graft_status graft_quantize_check(const graft_options *o, const graft_registry *r, graft_err *e);
#endif
