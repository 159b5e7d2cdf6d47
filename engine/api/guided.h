/* The guided denoiser from the inside, for its two ways: in the host's memory (denoise.c) and on a
 * device (resident.c); and for what compiles ahead (prepare.c). */
#ifndef GRAFT_API_GUIDED_H
#define GRAFT_API_GUIDED_H
#include "engine/api/controls.h"
#include "engine/api/denoise.h"
#include "engine/api/features.h"
#include "kernels/guidance.h"

#define MAX_BINDINGS 16 /* different variants and (entries, tokens) shapes within one run */
#define GROUP_MAX    64 /* conditioning entries in one batch */

typedef struct bound_shape {
    graft_unet_variant variant;
    bool control;
    int64_t entries, tokens;
    graft_binding *binding;
} bound_shape;

/* One conditioning entry that is active at the present sigma. */
typedef struct active {
    const graft_cond_entry *entry;
    bool negative;
    bool fast, done; /* of the present call */
    size_t slot;     /* its place in the positive list, or behind that in the negative one */
    const graft_control *control; /* what steers it in the present call; NULL: nothing */
    bool alike;                   /* by what steered its last whole step */
} active;

struct graft_guided {
    graft_guided_config c;
    bound_shape bound[MAX_BINDINGS];
    size_t n_bound;
    active *active;
    size_t n_active;
    int64_t n, per;             /* values of the latent in all, and per picture */
    float *x, *scaled, *sum[2]; /* (n) each; sum: positive and negative */
    float *batch_x, *batch_out, *timesteps, *context, *y;
    graft_features *features; /* NULL without DeepCache */
    graft_dtype feature_dtype;
    uint8_t *feature;         /* of one batch */
    size_t feature_bytes;     /* of one entry */
    graft_controls *controls; /* NULL without ControlNets */
};

/* Whether the entry counts at this sigma. */
bool graft_guided_active(const graft_sigma_table *t, const graft_cond_entry *k, float sigma);
/* The entries that do, into g->active; both: the negative ones in any case. */
void graft_guided_collect(graft_guided *g, float sigma, bool both);
/* Which of the active entries are fast, settled before any of them runs; scaled: the UNet's x, NULL
 * where DeepCache does not look into it. */
void graft_guided_settle(graft_guided *g, const float *scaled);
/* The next active entries that run together: equally many tokens, all fast or all not, the same
 * ControlNets. Their places in g->active into which[GROUP_MAX]; 0: none is left. */
size_t graft_guided_group(graft_guided *g, size_t *which);
graft_unet_variant graft_guided_variant(const graft_guided *g, bool fast);
/* How a batch of so many entries like `first` uses the UNet. */
graft_unet_use graft_guided_use(const graft_guided *g, const active *first, size_t entries);
/* The UNet for that, bound; g keeps the reference. */
graft_status graft_guided_bind(graft_guided *g, const graft_unet_use *use, graft_binding **out,
                               graft_err *e);
/* SDXL's y of one picture, arch.adm_channels values. */
void graft_guided_fill_y(const graft_guided *g, const graft_cond_entry *k, float *y);
graft_guidance_terms graft_guided_terms(const graft_guided *g, float sigma);
#endif
