#include "engine/models/names/diffusers_layers.h"

#include <string.h>

#define NAME(...) graft_name_make(__VA_ARGS__)

const graft_diffusers_pair graft_diffusers_single[] = {{"time_embed.0", "time_embedding.linear_1"},
                                                       {"time_embed.2", "time_embedding.linear_2"},
                                                       {"label_emb.0.0", "add_embedding.linear_1"},
                                                       {"label_emb.0.2", "add_embedding.linear_2"},
                                                       {"input_blocks.0.0", "conv_in"},
                                                       {"out.0", "conv_norm_out"},
                                                       {"out.2", "conv_out"},
                                                       {NULL, NULL}};

const graft_diffusers_pair graft_diffusers_residual[] = {{"in_layers.0", "norm1"},
                                                         {"in_layers.2", "conv1"},
                                                         {"out_layers.0", "norm2"},
                                                         {"out_layers.3", "conv2"},
                                                         {"emb_layers.1", "time_emb_proj"},
                                                         {"skip_connection", "conv_shortcut"},
                                                         {NULL, NULL}};

bool graft_diffusers_rows_alone(const graft_diffusers_pair *list, const char *name,
                                graft_diffusers_rows *out)
{
    for (; list->ours; list++)
        if (strcmp(list->ours, name) == 0) {
            out->name[out->pieces++] = NAME("%s", list->theirs);
            return true;
        }
    return false;
}

bool graft_diffusers_rows_in_block(const graft_diffusers_block_layer *list, const char *blocks,
                                   int block, const char *layer, graft_diffusers_rows *out)
{
    for (; list->ours; list++) {
        if (strcmp(list->ours, layer) != 0) continue;
        for (; out->pieces < GRAFT_DIFFUSERS_PIECES && list->theirs[out->pieces]; out->pieces++)
            out->name[out->pieces] = NAME("%s%d.%s", blocks, block, list->theirs[out->pieces]);
        return true;
    }
    return false;
}
