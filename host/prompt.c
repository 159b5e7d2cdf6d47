#include "host/prompt.h"

#include "base/alloc.h"

void graft_prompt_destroy(graft_prompt *p)
{
    if (!p) return;
    for (size_t i = 0; p->node && i < p->count; i++) {
        graft_prompt_node *n = &p->node[i];
        for (size_t k = 0; n->in && k < n->n_in; k++) graft_literal_finish(&n->in[k].literal);
        graft_free(n->in);
    }
    graft_free(p->node);
    graft_free(p->output);
    cJSON_Delete(p->json);
    graft_free(p);
}
