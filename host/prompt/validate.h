/* Checks a prompt and makes it runnable. All faults are found at once, in the words that clients of
 * ComfyUI's POST /prompt know. */
#ifndef GRAFT_HOST_PROMPT_VALIDATE_H
#define GRAFT_HOST_PROMPT_VALIDATE_H
#include "host/prompt/validation.h"

/* Takes `json` in any case. `target` (NULL: all) restricts the output nodes. GRAFT_OK also for a
 * faulty prompt; other codes are our own failures. Any thread. */
graft_status graft_validate(const graft_registry *r, const graft_host *host, cJSON *json,
                            const char *const *target, size_t n_target, graft_validation *out,
                            graft_err *e);

/* The same for a part of a prompt, into which a node expands. `wanted`: its nodes that are to run,
 * besides output nodes. Any fault is an error: its first in one line. *out is the caller's. */
graft_status graft_validate_part(const graft_registry *r, const graft_host *host, cJSON *json,
                                 const char *const *wanted, size_t n_wanted,
                                 const graft_outer *outer, graft_prompt **out, graft_err *e);
#endif
