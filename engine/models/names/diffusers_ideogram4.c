/* Ideogram 4's transformer in diffusers' names, which are its authors' but for attention. */
#include <stdio.h>
#include <string.h>

#include "engine/models/names/diffusers.h"
#include "engine/models/names/diffusers_file.h"
#include "engine/models/names/diffusers_names.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

#define WHAT "Ideogram 4's transformer"

static const char *const single[] = {
    "input_proj", "llm_cond_proj",      "t_embedding.mlp_in",          "t_embedding.mlp_out",
    "adaln_proj", "final_layer.linear", "final_layer.adaln_modulation"};
#define N_SINGLE (sizeof single / sizeof *single)

/* A norm has one vector, and what computes without a bias has a weight alone: both as "weight". */
static const graft_diffusers_block_layer layers[] = {
    {"attention.qkv", {"attention.to_q", "attention.to_k", "attention.to_v"}, true},
    {"attention.o", {"attention.to_out.0"}, true},
    {"attention.norm_q", {"attention.norm_q"}, true},
    {"attention.norm_k", {"attention.norm_k"}, true},
    {"feed_forward.w1", {"feed_forward.w1"}, true},
    {"feed_forward.w2", {"feed_forward.w2"}, true},
    {"feed_forward.w3", {"feed_forward.w3"}, true},
    {"attention_norm1", {"attention_norm1"}, true},
    {"attention_norm2", {"attention_norm2"}, true},
    {"ffn_norm1", {"ffn_norm1"}, true},
    {"ffn_norm2", {"ffn_norm2"}, true},
    {"adaln_modulation", {"adaln_modulation"}, false},
    {NULL, {NULL}, false}};

bool graft_diffusers_ideogram4_name(const char *name, graft_diffusers_rows *out)
{
    int block = 0, n = 0;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < N_SINGLE; i++)
        if (strcmp(name, single[i]) == 0) {
            out->name[out->pieces++] = NAME("%s", name);
            return true;
        }
    if (sscanf(name, "layers.%d.%n", &block, &n) != 1 || !n || block < 0) return false;
    return graft_diffusers_rows_in_block(layers, "layers.", block, name + n, out);
}

/* ------------------------------------------------------------------ the file */

bool graft_diffusers_is_ideogram4(const graft_safetensors *f)
{
    return graft_diffusers_has(f, "layers.0.attention.to_q.weight") &&
           graft_diffusers_has(f, "llm_cond_proj.weight");
}

static void add_block(graft_diffusers_names *n, int block)
{
    for (const graft_diffusers_block_layer *l = layers; l->ours; l++) {
        graft_diffusers_rows rows = {.pieces = 0};
        for (; rows.pieces < GRAFT_DIFFUSERS_PIECES && l->theirs[rows.pieces]; rows.pieces++)
            rows.name[rows.pieces] = NAME("layers.%d.%s", block, l->theirs[rows.pieces]);
        graft_diffusers_names_joined(n, NAME("layers.%d.%s", block, l->ours), &rows,
                                     l->norm ? "weight" : NULL);
    }
}

graft_status graft_diffusers_adopt_ideogram4(graft_safetensors *f, graft_err *e)
{
    static const char *const alone[] = {"llm_cond_norm.weight", "embed_image_indicator.weight"};
    graft_diffusers_names n;
    int32_t count = 0;
    if (!graft_diffusers_is_ideogram4(f)) return GRAFT_OK;
    graft_status st = graft_diffusers_count_blocks(f, "layers.", WHAT, &count, e);
    if (st) return st;
    graft_diffusers_names_init(&n, f, e);
    for (size_t i = 0; i < N_SINGLE; i++)
        graft_diffusers_names_layer(&n, NAME("%s", single[i]), NAME("%s", single[i]));
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        graft_diffusers_names_tensor(&n, NAME("%s", alone[i]), NAME("%s", alone[i]), false);
    for (int block = 0; block < count; block++) add_block(&n, block);
    st = graft_diffusers_names_apply(&n, WHAT);
    graft_diffusers_names_finish(&n);
    return st;
}
