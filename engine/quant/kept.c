#include "engine/quant/kept.h"

#include <stdio.h>
#include <string.h>

#include "engine/weights/packed.h"
#include "kernels/blocks.h"

/* The type of blocks that a layer's weight can stay in; 0: floats. */
static uint8_t type_of(const graft_weights *w, const char *name)
{
    graft_weight_term t;
    uint8_t own = 0;
    for (size_t at = 0; graft_weights_next_term(w, name, &at, &t);) {
        own = t.tensor ? (uint8_t)graft_packed_type(t.tensor) : 0;
        if (!own) return 0;
    }
    if (!own) return 0;
    return graft_weights_packed(w, name, &t) ? own : GRAFT_GGML_Q8_0;
}

graft_status graft_kept_choose(const graft_net_arch *a, const graft_weights *w, uint64_t most,
                               graft_quant_choice *out, graft_err *e)
{
    graft_quant_plan *all = NULL;
    uint64_t values = 0;
    char name[160];
    memset(out, 0, sizeof *out);
    /* Whoever binds a model asks: most of the time the files tell. */
    if (graft_weights_packed_values(w) <= most) return GRAFT_OK;
    graft_status st = graft_quant_layers(a, &all, e);
    for (size_t i = 0; !st && i < all->n; i++) {
        const graft_quant_layer *l = &all->layer[i];
        if (l->kind != GRAFT_LAYER_LINEAR || graft_quant_always_kept(l->name)) continue;
        snprintf(name, sizeof name, "%s.weight", l->name);
        out->blocks[i] = type_of(w, name);
        if (!out->blocks[i]) continue;
        out->format = GRAFT_FORMAT_BLOCKS;
        values += (uint64_t)(l->dim[0] * l->dim[1]);
    }
    if (values <= most) memset(out, 0, sizeof *out);
    graft_quant_plan_destroy(all);
    return st;
}

void graft_kept_print(const graft_quant_choice *c, graft_str *out)
{
    bool any = false;
    for (int32_t type = 1; type <= GRAFT_BLOCKS_MOST; type++) {
        if (!graft_blocks_values(type) || !memchr(c->blocks, type, sizeof c->blocks)) continue;
        graft_str_printf(out, "%s%s", any ? ", " : "", graft_blocks_name(type));
        any = true;
    }
}
