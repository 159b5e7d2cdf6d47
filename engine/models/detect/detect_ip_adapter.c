/* IP-Adapters, by the names and shapes of their tensors. */
#include <string.h>

#include "base/str.h"
#include "engine/models/detect/detect_parts.h"

#define PROJ      "image_proj.proj.weight"
#define LATENTS   "image_proj.latents"
#define MAX_DEPTH 64

/* Of another kind than those that are supported, told by what one of its names contains. */
static const struct relative {
    const char *part, *what;
} relatives[] = {
    {"to_q_lora.", "an IP-Adapter FaceID, which needs a face recognition network"},
    {"to_k_lora.", "an IP-Adapter FaceID, which needs a face recognition network"},
    {"double_blocks.", "an IP-Adapter for FLUX"},
    {"single_blocks.", "an IP-Adapter for FLUX"},
    {"ip_adapter_proj_model.", "an IP-Adapter for FLUX"},
    {"image_proj.time_embedding.", "an IP-Adapter for Stable Diffusion 3"},
    {"image_proj.norm_in", "an IP-Adapter with an unknown projection of pictures"},
    {"image_proj.perceiver_resampler.", "an IP-Adapter FaceID plus"},
    {"norm_ip", "an IP-Adapter for Stable Diffusion 3"},
    {"image_proj.proj.0.", "an IP-Adapter with an MLP for pictures (full face, or FaceID)"},
    {"aggr.", "an IP-Adapter of another kind (InstantID or PuLID)"},
};

static graft_status refuse(const graft_safetensors *f, graft_err *e)
{
    for (size_t k = 0; k < sizeof relatives / sizeof *relatives; k++)
        for (size_t i = 0; i < graft_safetensors_count(f); i++)
            if (strstr(graft_safetensors_at(f, i)->name, relatives[k].part))
                return graft_fail(e, GRAFT_E_UNSUPPORTED,
                                  "%s: %s; IP-Adapters for Stable Diffusion 1.x and XL, plain and "
                                  "plus, are supported",
                                  graft_safetensors_path(f), relatives[k].what);
    return GRAFT_OK;
}

/* Of a matrix of this name; 0 for one that is none. */
static int32_t rows_of(const graft_safetensors *f, const char *name, int32_t *columns)
{
    const graft_st_tensor *t = graft_detect_find(f, "", "%s", name);
    *columns = t && t->rank == 2 ? graft_detect_dim(t, 1) : 0;
    return *columns ? graft_detect_dim(t, 0) : 0;
}

/* By two names of each layer, here and of the resampler's, so that a file that lacks one of them is
 * refused by that name. */
static graft_status detect_layers(const graft_safetensors *f, graft_ip_adapter_arch *a,
                                  graft_err *e)
{
    char name[64];
    for (int32_t columns; a->n_layers < GRAFT_IP_ADAPTER_LAYERS; a->n_layers++) {
        snprintf(name, sizeof name, "ip_adapter.%d.to_k_ip.weight", 2 * a->n_layers + 1);
        const int32_t rows = rows_of(f, name, &columns);
        if (!graft_detect_find(f, "", "%s", name) &&
            !graft_detect_find(f, "", "ip_adapter.%d.to_v_ip.weight", 2 * a->n_layers + 1))
            break;
        if (!rows || (a->n_layers && columns != a->width))
            return graft_detect_missing(f, "", name, e);
        a->channels[a->n_layers] = rows;
        a->width = columns;
    }
    if (a->n_layers) return GRAFT_OK;
    return graft_detect_missing(f, "", "ip_adapter.1.to_k_ip.weight", e);
}

static graft_status detect_projection(const graft_safetensors *f, graft_ip_adapter_arch *a,
                                      graft_err *e)
{
    const int32_t rows = rows_of(f, PROJ, &a->seen);
    if (!rows || rows % a->width) return graft_detect_missing(f, "", PROJ, e);
    a->tokens = rows / a->width;
    return GRAFT_OK;
}

static graft_status detect_resampler(const graft_safetensors *f, graft_ip_adapter_arch *a,
                                     graft_err *e)
{
    const graft_st_tensor *t = graft_detect_find(f, "", LATENTS);
    const char *name;
    int32_t columns;
    if (t->rank != 3 || t->shape[0] != 1) return graft_detect_missing(f, "", LATENTS, e);
    a->tokens = graft_detect_dim(t, 1);
    a->hidden = graft_detect_dim(t, 2);
    name = "image_proj.proj_in.weight";
    if (rows_of(f, name, &a->seen) != a->hidden || !a->hidden || !a->tokens)
        return graft_detect_missing(f, "", name, e);
    name = "image_proj.layers.0.0.to_q.weight";
    a->inner = rows_of(f, name, &columns);
    if (!a->inner || a->inner % 64) return graft_detect_missing(f, "", name, e);
    name = "image_proj.layers.0.1.1.weight";
    a->mlp = rows_of(f, name, &columns);
    if (!a->mlp) return graft_detect_missing(f, "", name, e);
    while (a->depth < MAX_DEPTH &&
           (graft_detect_find(f, "", "image_proj.layers.%d.0.to_q.weight", a->depth) ||
            graft_detect_find(f, "", "image_proj.layers.%d.0.to_kv.weight", a->depth)))
        a->depth++;
    return GRAFT_OK;
}

graft_status graft_ip_adapter_detect(const graft_safetensors *f, graft_ip_adapter_arch *out,
                                     graft_err *e)
{
    memset(out, 0, sizeof *out);
    graft_status st = refuse(f, e);
    if (!st) st = detect_layers(f, out, e);
    if (st) return st;
    out->kind =
        graft_detect_find(f, "", LATENTS) ? GRAFT_IP_ADAPTER_RESAMPLER : GRAFT_IP_ADAPTER_LINEAR;
    return out->kind == GRAFT_IP_ADAPTER_RESAMPLER ? detect_resampler(f, out, e)
                                                   : detect_projection(f, out, e);
}
