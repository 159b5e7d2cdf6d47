/* Workflow files: JSON in ComfyUI's API format or its editor's format, or a PNG that carries
 * either. */
#ifndef GRAFT_HOST_PROMPT_WORKFLOW_H
#define GRAFT_HOST_PROMPT_WORKFLOW_H
#include "base/json.h"
#include "plugin/loader.h"

typedef struct graft_workflow {
    cJSON *prompt;        /* API format: id -> {class_type, inputs, _meta} */
    bool editor;          /* made of an editor's graph: prompts may have choices, see choices.h */
    cJSON *extra_pnginfo; /* {"workflow": …} to be stored in pictures; NULL when there is none */
} graft_workflow;

/* Reads a file, or with "-" standard input; *out is to be given to graft_workflow_finish() on
 * success. Any thread. */
graft_status graft_workflow_read(const char *path, const graft_registry *r, graft_workflow *out,
                                 graft_err *e);
/* The same for JSON text in memory; `what` names it in messages. */
graft_status graft_workflow_parse(const char *text, size_t n, const char *what,
                                  const graft_registry *r, graft_workflow *out, graft_err *e);
void graft_workflow_finish(graft_workflow *w);
/* How messages name the file that graft_workflow_read() takes: the path, or "standard input". */
const char *graft_workflow_shown(const char *path);

/* Sets one input in an API prompt. `node` is an id, or a title or class that only one node has;
 * `text` is read by the type of the input. A link on the input gives way. */
graft_status graft_workflow_set(cJSON *prompt, const graft_registry *r, const char *node,
                                const char *input, const char *text, graft_err *e);

/* Editor format (0.4 and 1.0) to API format; `graph` is only read. In workflow_ui.c. */
graft_status graft_workflow_from_ui(const cJSON *graph, const graft_registry *r, cJSON **prompt,
                                    graft_err *e);
#endif
