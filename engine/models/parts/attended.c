#include "engine/models/parts/attended.h"

/* Puts `depth` cross-attentions of a block behind the others. */
static bool put(graft_crossings *c, int32_t depth, int32_t channels)
{
    if (depth > GRAFT_CROSSINGS - c->n) return false;
    for (int32_t i = 0; i < depth; i++) c->channels[c->n++] = channels;
    return true;
}

void graft_crossings_of(const graft_unet_arch *a, graft_crossings *out)
{
    bool fits = true;
    *out = (graft_crossings){0};
    for (int32_t i = 0; i < a->n_input; i++)
        fits = fits && put(out, a->input[i].transformer, a->input[i].channels);
    for (int32_t i = 0; i < a->n_output; i++)
        fits = fits && put(out, a->output[i].transformer, a->output[i].channels);
    fits = fits && put(out, a->middle_transformer, a->input[a->n_input - 1].channels);
    if (!fits) out->n = 0;
}

/* Those before the block: how many cross-attentions, or how many blocks that have some. */
static int32_t before(const graft_unet_arch *a, graft_crossing_part part, int32_t i, bool blocks)
{
    const int32_t input = part == GRAFT_CROSSING_INPUT ? i : a->n_input;
    const int32_t output = part == GRAFT_CROSSING_INPUT    ? 0
                           : part == GRAFT_CROSSING_OUTPUT ? i
                                                           : a->n_output;
    int32_t n = 0;
    for (int32_t k = 0; k < input; k++)
        n += blocks ? a->input[k].transformer > 0 : a->input[k].transformer;
    for (int32_t k = 0; k < output; k++)
        n += blocks ? a->output[k].transformer > 0 : a->output[k].transformer;
    return n;
}

int32_t graft_crossings_first(const graft_unet_arch *a, graft_crossing_part part, int32_t i)
{
    return before(a, part, i, false);
}

int32_t graft_crossings_blocks(const graft_unet_arch *a, graft_crossing_part part, int32_t i)
{
    return before(a, part, i, true);
}

int64_t graft_crossings_before(const graft_crossings *c, int32_t until)
{
    int64_t channels = 0;
    for (int32_t i = 0; i < until; i++) channels += c->channels[i];
    return channels;
}
