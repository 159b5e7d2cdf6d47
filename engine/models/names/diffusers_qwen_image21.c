/* Qwen-Image 2.1's transformer in diffusers' names: those of ComfyUI's files, but that the two
 * layers in front of a block's gate are apart. Some quantized files have them below ComfyUI's
 * prefix. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/models/names/diffusers.h"
#include "engine/models/names/diffusers_file.h"
#include "engine/models/names/diffusers_names.h"
#include "engine/models/parts/tensors.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

#define WHAT   "Qwen-Image 2.1's transformer"
#define BLOCKS "transformer_blocks."

static const graft_diffusers_block_layer layers[] = {
    {"img_mlp.gate_up", {"img_mlp.gate_layer", "img_mlp.proj"}, false}, {NULL, {NULL}, false}};

bool graft_diffusers_qwen_image21_name(const char *name, graft_diffusers_rows *out)
{
    int block = 0, n = 0;
    memset(out, 0, sizeof *out);
    if (sscanf(name, BLOCKS "%d.%n", &block, &n) != 1 || !n || block < 0) return false;
    return graft_diffusers_rows_in_block(layers, BLOCKS, block, name + n, out);
}

/* Below which prefix they are; NULL: nowhere. Either layer tells, so that the other one is missed.
 */
static const char *prefix_in(const graft_safetensors *f)
{
    static const char *const prefixes[] = {"", "model.diffusion_model.", NULL};
    for (int i = 0; prefixes[i]; i++)
        for (int k = 0; k < 2; k++)
            if (graft_diffusers_has(f, NAME("%s" GRAFT_QWEN_IMAGE21_TENSOR, prefixes[i]).text) &&
                graft_diffusers_has(
                    f, NAME("%s" BLOCKS "0.%s.weight", prefixes[i], layers->theirs[k]).text))
                return prefixes[i];
    return NULL;
}

bool graft_diffusers_is_qwen_image21(const graft_safetensors *f)
{
    return prefix_in(f) != NULL;
}

/* Whether it is one of the two. */
static bool is_piece(const char *name)
{
    for (int k = 0; k < 2; k++)
        if (graft_str_ends(name, NAME(".%s.weight", layers->theirs[k]).text)) return true;
    return false;
}

graft_status graft_diffusers_adopt_qwen_image21(graft_safetensors *f, graft_err *e)
{
    const char *prefix = prefix_in(f);
    graft_diffusers_names n;
    int32_t count = 0;
    if (!prefix) return GRAFT_OK;
    graft_status st =
        graft_diffusers_count_blocks(f, NAME("%s" BLOCKS, prefix).text, WHAT, &count, e);
    if (st) return st;
    graft_diffusers_names_init(&n, f, e);
    for (size_t i = 0; i < graft_safetensors_count(f) && !n.status; i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        const graft_name same = NAME("%s", t->name);
        if (!is_piece(t->name) && !t->part && strchr(t->name, '.'))
            graft_diffusers_names_tensor(&n, same, same, false);
    }
    for (int block = 0; block < count; block++) {
        const graft_name place = NAME("%s" BLOCKS "%d", prefix, block);
        graft_name piece[2];
        for (int k = 0; k < 2; k++) piece[k] = NAME("%s.%s.weight", place.text, layers->theirs[k]);
        graft_diffusers_names_rows(&n, NAME("%s.%s.weight", place.text, layers->ours), piece, 2,
                                   false);
    }
    st = graft_diffusers_names_apply(&n, WHAT);
    graft_diffusers_names_finish(&n);
    return st;
}
