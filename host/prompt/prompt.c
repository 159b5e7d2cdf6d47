#include "host/prompt/prompt.h"

#include <string.h>

#include "base/alloc.h"
#include "host/schema/schema.h"

#define MAX_EXTRA 1000

static bool declared(const graft_node *node, const char *name)
{
    for (size_t i = 0; node->inputs && node->inputs[i]; i++)
        if (strcmp(node->inputs[i]->name, name) == 0) return true;
    return false;
}

/* Links only: who wants literals declares them. */
static bool is_extra(const graft_node *node, const cJSON *item)
{
    return cJSON_IsArray(item) && !declared(node, item->string);
}

graft_status graft_prompt_node_inputs(graft_prompt_node *n, const cJSON *inputs, graft_err *e)
{
    const graft_node *node = n->entry->node;
    const cJSON *item;
    size_t more = 0;
    n->inputs = node->inputs;
    n->n_in = n->n_declared = graft_schema_inputs(node);
    if (!(node->flags & GRAFT_NODE_DYNAMIC) || !cJSON_IsObject(inputs)) return GRAFT_OK;
    cJSON_ArrayForEach(item, inputs) more += is_extra(node, item);
    if (!more) return GRAFT_OK;
    if (more > MAX_EXTRA)
        return graft_fail(e, GRAFT_E_LIMIT, "node %s has more than %d inputs", n->id, MAX_EXTRA);
    const graft_input **all = graft_malloc_array(n->n_in + more, sizeof *all);
    n->extra = graft_calloc(more, sizeof *n->extra);
    if (!all || !n->extra) {
        graft_free(all);
        return graft_fail_nomem(e, "a prompt");
    }
    for (size_t i = 0; i < n->n_declared; i++) all[i] = node->inputs[i];
    n->inputs = all;
    cJSON_ArrayForEach(item, inputs)
    {
        if (!is_extra(node, item)) continue;
        graft_input *in = &n->extra[n->n_in - n->n_declared];
        in->size = sizeof *in;
        in->flags = GRAFT_INPUT_OPTIONAL;
        in->type = "*";
        in->kind = GRAFT_OBJECT;
        in->name = graft_strdup(item->string);
        if (!in->name) return graft_fail_nomem(e, "a prompt");
        all[n->n_in++] = in;
    }
    return GRAFT_OK;
}

static void node_finish(graft_prompt_node *n)
{
    for (size_t k = 0; n->in && k < n->n_in; k++) graft_literal_finish(&n->in[k].literal);
    graft_free(n->in);
    if (!n->extra) return;
    for (size_t k = n->n_declared; k < n->n_in; k++)
        graft_free((char *)(uintptr_t)n->inputs[k]->name);
    if (n->inputs != n->entry->node->inputs) graft_free((void *)(uintptr_t)n->inputs);
    graft_free(n->extra);
}

void graft_prompt_destroy(graft_prompt *p)
{
    if (!p) return;
    for (size_t i = 0; p->node && i < p->count; i++) node_finish(&p->node[i]);
    graft_free(p->node);
    graft_free(p->output);
    cJSON_Delete(p->json);
    graft_free(p);
}
