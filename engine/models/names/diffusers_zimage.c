/* Z-Image's transformer and ControlNets in diffusers' names: most layers are called as in the
 * single file. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/models/names/diffusers.h"
#include "engine/models/names/diffusers_file.h"
#include "engine/models/names/diffusers_names.h"
#include "engine/models/parts/tensors.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

#define WHAT "Z-Image's transformer"

/* A layer of a block; a norm has a weight alone, as has what computes without a bias. */
typedef struct block_layer {
    const char *ours, *theirs[3];
    bool bias;
} block_layer;

static const graft_diffusers_pair single[] = {
    {"x_embedder", "all_x_embedder.2-1"},
    {"final_layer.linear", "all_final_layer.2-1.linear"},
    {"final_layer.adaLN_modulation.1", "all_final_layer.2-1.adaLN_modulation.1"},
    {"t_embedder.mlp.0", "t_embedder.mlp.0"},
    {"t_embedder.mlp.2", "t_embedder.mlp.2"},
    {"cap_embedder.1", "cap_embedder.1"},
    {NULL, NULL}};

static const block_layer layers[] = {
    {"attention.qkv", {"attention.to_q", "attention.to_k", "attention.to_v"}, false},
    {"attention.q_norm", {"attention.norm_q"}, false},
    {"attention.k_norm", {"attention.norm_k"}, false},
    {"attention.out", {"attention.to_out.0"}, false},
    {"attention_norm1", {"attention_norm1"}, false},
    {"attention_norm2", {"attention_norm2"}, false},
    {"feed_forward.w1", {"feed_forward.w1"}, false},
    {"feed_forward.w2", {"feed_forward.w2"}, false},
    {"feed_forward.w3", {"feed_forward.w3"}, false},
    {"ffn_norm1", {"ffn_norm1"}, false},
    {"ffn_norm2", {"ffn_norm2"}, false},
    {"adaLN_modulation.0", {"adaLN_modulation.0"}, true}};
#define N_LAYERS (sizeof layers / sizeof *layers)

/* Whose blocks there are; those of the last are not told the time. */
static const char *const lists[] = {"layers", "noise_refiner", "context_refiner"};
enum { LAYERS, NOISE, CONTEXT, LISTS };

static void in_block(const char *list, int block, const block_layer *l, graft_diffusers_rows *out)
{
    for (; out->pieces < 3 && l->theirs[out->pieces]; out->pieces++)
        out->name[out->pieces] = NAME("%s.%d.%s", list, block, l->theirs[out->pieces]);
}

bool graft_diffusers_zimage_name(const char *name, graft_diffusers_rows *out)
{
    memset(out, 0, sizeof *out);
    if (graft_diffusers_rows_alone(single, name, out)) return true;
    for (int i = 0; i < LISTS; i++) {
        int block = 0, n = 0;
        const size_t length = strlen(lists[i]);
        if (!graft_str_starts(name, lists[i]) || sscanf(name + length, ".%d.%n", &block, &n) != 1 ||
            !n || block < 0)
            continue;
        for (size_t k = 0; k < N_LAYERS; k++)
            if (strcmp(layers[k].ours, name + length + n) == 0) {
                in_block(lists[i], block, &layers[k], out);
                return true;
            }
    }
    return false;
}

/* ------------------------------------------------------------------ the file */

bool graft_diffusers_is_zimage(const graft_safetensors *f)
{
    return graft_diffusers_has(f, "layers.0.attention.to_q.weight") &&
           graft_diffusers_has(f, "cap_embedder.1.weight");
}

static void add_block(graft_diffusers_names *n, const char *list, bool told, int block)
{
    for (size_t k = 0; k < N_LAYERS; k++) {
        graft_diffusers_rows rows = {.pieces = 0};
        if (!told && layers[k].bias) continue;
        in_block(list, block, &layers[k], &rows);
        graft_diffusers_names_joined(n, NAME("%s.%d.%s", list, block, layers[k].ours), &rows,
                                     layers[k].bias ? NULL : "weight");
    }
}

graft_status graft_diffusers_adopt_zimage(graft_safetensors *f, graft_err *e)
{
    static const char *const alone[] = {"cap_embedder.0.weight", "cap_pad_token", "x_pad_token"};
    graft_diffusers_names n;
    int32_t count[LISTS] = {0};
    graft_status st = GRAFT_OK;
    if (!graft_diffusers_is_zimage(f)) return GRAFT_OK;
    for (int i = 0; i < LISTS && !st; i++)
        st = graft_diffusers_count_blocks(f, NAME("%s.", lists[i]).text, WHAT, &count[i], e);
    if (st) return st;
    graft_diffusers_names_init(&n, f, e);
    for (const graft_diffusers_pair *p = single; p->ours; p++)
        graft_diffusers_names_layer(&n, NAME("%s", p->ours), NAME("%s", p->theirs));
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        graft_diffusers_names_tensor(&n, NAME("%s", alone[i]), NAME("%s", alone[i]), false);
    for (int i = 0; i < LISTS; i++)
        for (int block = 0; block < count[i]; block++) add_block(&n, lists[i], i != CONTEXT, block);
    st = graft_diffusers_names_apply(&n, WHAT);
    graft_diffusers_names_finish(&n);
    return st;
}

/* ------------------------------------------------------------------ a ControlNet's file */

/* What it has beside a network's block, each with a bias: not in all blocks. */
static void add_projections(graft_diffusers_names *n, const char *list, int block)
{
    static const char *const names[] = {"before_proj", "after_proj"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const graft_name name = NAME("%s.%d.%s", list, block, names[i]);
        if (graft_diffusers_names_any(n, NAME("%s.", name.text)))
            graft_diffusers_names_layer(n, name, name);
    }
}

graft_status graft_diffusers_adopt_control_zimage(graft_safetensors *f, graft_err *e)
{
    static const char what[] = "a ControlNet for Z-Image";
    static const char *const own[] = {"control_layers", "control_noise_refiner"};
    const graft_name hint = NAME("control_all_x_embedder.2-1");
    graft_diffusers_names n;
    int32_t count[2] = {0};
    graft_status st = GRAFT_OK;
    if (!graft_diffusers_has(f, GRAFT_CONTROL_ZIMAGE_TENSOR) ||
        !graft_diffusers_has(f, "control_layers.0.attention.to_q.weight"))
        return GRAFT_OK;
    for (int i = 0; i < 2 && !st; i++)
        st = graft_diffusers_count_blocks(f, NAME("%s.", own[i]).text, what, &count[i], e);
    if (st) return st;
    graft_diffusers_names_init(&n, f, e);
    graft_diffusers_names_layer(&n, hint, hint);
    for (int i = 0; i < 2; i++)
        for (int block = 0; block < count[i]; block++) {
            add_block(&n, own[i], true, block);
            add_projections(&n, own[i], block);
        }
    st = graft_diffusers_names_apply(&n, what);
    graft_diffusers_names_finish(&n);
    return st;
}
