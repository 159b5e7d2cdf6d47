/* A checked prompt: the API form of a workflow, resolved against the registry. */
#ifndef GRAFT_HOST_PROMPT_PROMPT_H
#define GRAFT_HOST_PROMPT_PROMPT_H
#include "base/json.h"
#include "host/prompt/literal.h"
#include "plugin/loader.h"

/* With the length of the JSON this bounds the time that checking can take, which grows with neither
 * faster than in proportion. */
#define GRAFT_PROMPT_MAX_NODES 10000

typedef struct graft_prompt_input {
    bool linked;
    bool outer;            /* linked: to a node that is not of this prompt, see graft_outer */
    graft_literal literal; /* unless linked */
    size_t node;           /* linked: number of the origin */
    uint32_t slot;
    const char *type; /* linked: of the origin's output; borrowed from its record */
} graft_prompt_input;

typedef struct graft_prompt_node {
    cJSON *json;       /* the node's member of graft_prompt.json */
    const char *id;    /* borrowed from the JSON */
    const char *title; /* likewise; the node's own title without one */
    const graft_registry_node *entry;
    const graft_input *const *inputs; /* the schema's, then those that only this prompt has */
    graft_prompt_input *in;           /* one per input; NULL when the node is not reached */
    size_t n_in, n_out;
    size_t n_declared;  /* n_in is larger for GRAFT_NODE_DYNAMIC only */
    graft_input *extra; /* the n_in - n_declared others; owned, with their names */
    bool output;        /* to be run for its own sake */
} graft_prompt_node;

typedef struct graft_prompt {
    const graft_registry *registry;
    cJSON *json; /* owned; literals as they were converted */
    graft_prompt_node *node;
    size_t count;
    size_t *output; /* good output nodes, in the order of the JSON */
    size_t n_output;
} graft_prompt;

/* The nodes around a part of a prompt, to which its links may lead: for an id the number and the
 * node, or NULL. The part's own nodes are numbered from `count` on. */
typedef struct graft_outer {
    const void *ctx;
    const graft_prompt_node *(*find)(const void *ctx, const char *id, size_t *number);
    size_t count;
} graft_outer;

/* Sets inputs, n_in and n_declared from the schema and, for a dynamic node, from the links among
 * `inputs` (NULL: none) that the schema does not name. */
graft_status graft_prompt_node_inputs(graft_prompt_node *n, const cJSON *inputs, graft_err *e);
void graft_prompt_destroy(graft_prompt *p); /* NULL is fine */
#endif
