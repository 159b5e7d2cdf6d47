/* What a check of a prompt came to. */
#ifndef GRAFT_HOST_PROMPT_VALIDATION_H
#define GRAFT_HOST_PROMPT_VALIDATION_H
#include "base/str.h"
#include "host/services/folders.h"
#include "host/prompt/prompt.h"

typedef struct graft_validation {
    graft_prompt *prompt; /* NULL when nothing can run */
    cJSON *error;         /* {type, message, details, extra_info}; NULL when something can run */
    /* An object: id -> {errors, dependent_outputs, class_type}. Lists of outputs are not whole
     * where all of them together would have more than some 100 000 entries. A long list of choices
     * is told in one `input_config` only; in the others stands null. */
    cJSON *node_errors;
} graft_validation;

void graft_validation_finish(graft_validation *v);
/* One readable line a fault: "FILE: node 3 (KSampler), input steps: …". `folders` (may be NULL):
 * where files were looked for. */
void graft_validation_text(const graft_validation *v, const char *file,
                           const graft_folders *folders, graft_str *out);
#endif
