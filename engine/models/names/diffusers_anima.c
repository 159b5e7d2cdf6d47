/* What diffusers calls the layers of Anima, whose adapter is a file of its own there: names of
 * LoRAs.
 */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/models/names/diffusers.h"
#include "engine/models/names/diffusers_names.h"

#define ADAPTER "llm_adapter."

static const graft_diffusers_pair single[] = {
    {"x_embedder.proj.1", "patch_embed.proj"},
    {"t_embedder.1.linear_1", "time_embed.t_embedder.linear_1"},
    {"t_embedder.1.linear_2", "time_embed.t_embedder.linear_2"},
    {"t_embedding_norm", "time_embed.norm"},
    {"final_layer.adaln_modulation.1", "norm_out.linear_1"},
    {"final_layer.adaln_modulation.2", "norm_out.linear_2"},
    {"final_layer.linear", "proj_out"},
    {NULL, NULL}};

static const graft_diffusers_block_layer layers[] = {
    {"adaln_modulation_self_attn.1", {"norm1.linear_1"}, false},
    {"adaln_modulation_self_attn.2", {"norm1.linear_2"}, false},
    {"self_attn.q_proj", {"attn1.to_q"}, false},
    {"self_attn.k_proj", {"attn1.to_k"}, false},
    {"self_attn.v_proj", {"attn1.to_v"}, false},
    {"self_attn.output_proj", {"attn1.to_out.0"}, false},
    {"self_attn.q_norm", {"attn1.norm_q"}, true},
    {"self_attn.k_norm", {"attn1.norm_k"}, true},
    {"adaln_modulation_cross_attn.1", {"norm2.linear_1"}, false},
    {"adaln_modulation_cross_attn.2", {"norm2.linear_2"}, false},
    {"cross_attn.q_proj", {"attn2.to_q"}, false},
    {"cross_attn.k_proj", {"attn2.to_k"}, false},
    {"cross_attn.v_proj", {"attn2.to_v"}, false},
    {"cross_attn.output_proj", {"attn2.to_out.0"}, false},
    {"cross_attn.q_norm", {"attn2.norm_q"}, true},
    {"cross_attn.k_norm", {"attn2.norm_k"}, true},
    {"adaln_modulation_mlp.1", {"norm3.linear_1"}, false},
    {"adaln_modulation_mlp.2", {"norm3.linear_2"}, false},
    {"mlp.layer1", {"ff.net.0.proj"}, false},
    {"mlp.layer2", {"ff.net.2"}, false},
    {NULL, {NULL}, false}};

bool graft_diffusers_anima_name(const char *name, graft_diffusers_rows *out)
{
    int block = 0, n = 0;
    memset(out, 0, sizeof *out);
    if (graft_diffusers_rows_alone(single, name, out)) return true;
    if (graft_str_starts(name, ADAPTER)) {
        out->name[out->pieces++] = graft_name_make("text_conditioner.%s", name + strlen(ADAPTER));
        return true;
    }
    if (sscanf(name, "blocks.%d.%n", &block, &n) != 1 || !n || block < 0) return false;
    return graft_diffusers_rows_in_block(layers, "transformer_blocks.", block, name + n, out);
}
