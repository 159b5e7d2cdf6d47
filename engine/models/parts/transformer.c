#include "engine/models/parts/transformer.h"

void graft_transformer_check_patches(graft_graph *g, const graft_net_shape *s, int32_t patch)
{
    if (s->height % patch || s->width % patch)
        graft_graph_fail(g, GRAFT_E_ARG,
                         "a latent of %lldx%lld: this transformer takes multiples of %d, which are "
                         "%d pixels",
                         (long long)s->width, (long long)s->height, patch, 8 * patch);
}

void graft_transformer_check_side(graft_graph *g, const graft_net_shape *s, int32_t patch,
                                  int32_t most)
{
    if (s->height / patch > most || s->width / patch > most)
        graft_graph_fail(g, GRAFT_E_LIMIT, "a latent of %lldx%lld is too large",
                         (long long)s->width, (long long)s->height);
}

void graft_transformer_check_table(graft_graph *g, const graft_net_shape *s, int32_t patch,
                                   int32_t side)
{
    if (s->height / patch > side || s->width / patch > side)
        graft_graph_fail(g, GRAFT_E_ARG,
                         "a latent of %lldx%lld: this transformer knows places for %d, which are "
                         "%d pixels a side",
                         (long long)s->width, (long long)s->height, side * patch, 8 * side * patch);
}

void graft_transformer_check_tokens(graft_graph *g, const graft_net_shape *s, int32_t step,
                                    int32_t most)
{
    const graft_status st = s->tokens > most ? GRAFT_E_LIMIT : GRAFT_E_ARG;
    if (s->tokens >= 1 && s->tokens % step == 0 && s->tokens <= most) return;
    if (step == 1)
        graft_graph_fail(g, st, "a prompt of %lld tokens: this transformer takes 1 to %d",
                         (long long)s->tokens, most);
    else
        graft_graph_fail(
            g, st, "a prompt of %lld tokens: this transformer takes multiples of %d, up to %d",
            (long long)s->tokens, step, most);
}

void graft_transformer_check_wide(graft_graph *g, const graft_net_shape *s, const char *name)
{
    if (s->act_dtype != GRAFT_F32 && s->act_dtype != GRAFT_BF16)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED,
                         "%s runs in float32 and bfloat16 only: its values exceed float16", name);
}

void graft_transformer_check_skipped(graft_graph *g, const graft_net_shape *s, int32_t blocks)
{
    const uint64_t known = blocks < 64 ? ((uint64_t)1 << blocks) - 1 : UINT64_MAX;
    if (s->perturbed < 0 || s->perturbed > s->batch || (s->perturbed && !(s->skip & known)))
        graft_graph_fail(g, GRAFT_E_ARG, "%lld of %lld rows cannot skip such blocks",
                         (long long)s->perturbed, (long long)s->batch);
}

void graft_transformer_check_unchanged(graft_graph *g, const graft_net_shape *s, bool more)
{
    bool grids = false;
    for (int i = 0; i < GRAFT_GRIDS; i++) grids |= s->grid[i].rows || s->grid[i].columns;
    if (s->variant || s->cut || s->adapted || s->freeu || s->merged || s->shrink.block || grids ||
        more)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED, "a transformer has no blocks of a UNet to change");
}
