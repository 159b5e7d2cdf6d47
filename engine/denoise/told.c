#include "engine/denoise/told.h"

#include <string.h>

#include "engine/denoise/unclip.h"
#include "engine/denoise/waves.h"

/* What the refiner is told of prompts that do not say how beautiful the picture is to be:
 * diffusers' numbers. */
#define SCORE_POSITIVE 6.0
#define SCORE_NEGATIVE 2.5

/* The numbers behind the pooled text in y: none of a transformer's; SDXL's height, width, crop top
 * and left, then target height and width, or the refiner's score. Returns how many. */
static int size_numbers(const graft_guided *g, const graft_cond_entry *k, bool negative,
                        double out[6])
{
    int64_t h = g->c.shape[2] * 8, w = g->c.shape[3] * 8;
    const double plain[6] = {(double)h, (double)w, 0, 0, (double)h, (double)w};
    memcpy(out, plain, sizeof plain);
    if (k->has_size) {
        const graft_sdxl_size *s = &k->size;
        const double given[6] = {(double)s->height,        (double)s->width,
                                 (double)s->crop_h,        (double)s->crop_w,
                                 (double)s->target_height, (double)s->target_width};
        memcpy(out, given, sizeof given);
    }
    if (!graft_net_is_unet(&g->c.model->arch)) return 0;
    if (!graft_unet_is_refiner(&g->c.model->arch.unet)) return 6;
    out[4] = k->has_score ? k->score : negative ? SCORE_NEGATIVE : SCORE_POSITIVE;
    return 5;
}

/* Z-Image's y: which of a prompt's last tokens are none of its own. */
static void fill_marks(const graft_cond_entry *k, int64_t adm, float *y)
{
    for (int64_t i = 0; i < adm; i++) y[i] = adm - i <= k->filled ? 1.0f : 0.0f;
}

/* The pooled text, then the numbers, or FLUX's guidance as it is. An area's are those of the whole
 * picture: it is to show a part of that, and no cut-off objects. */
static void fill_told(const graft_guided *g, const graft_cond_entry *k, bool negative, float *y)
{
    double numbers[6];
    int count = size_numbers(g, k, negative, numbers);
    const graft_net_arch *a = &g->c.model->arch;
    if (a->kind == GRAFT_NET_ZIMAGE) {
        fill_marks(k, a->adm_channels, y);
        return;
    }
    if (a->unet.unclip) {
        graft_unclip_fill(g->c.model, k, g->c.seed, y);
        return;
    }
    const bool told = graft_net_told_guidance(a);
    int64_t adm = a->adm_channels, sizes = count ? count * 256 : told;
    int64_t pooled = adm > sizes ? adm - sizes : 0;
    memset(y, 0, (size_t)adm * sizeof *y);
    int64_t have = k->pooled ? k->pooled_width : 0;
    memcpy(y, k->pooled ? k->pooled : y, (size_t)(have < pooled ? have : pooled) * sizeof *y);
    int64_t each = count ? (adm - pooled) / count / 2 * 2 : 0;
    for (int i = 0; i < count; i++) graft_waves(numbers[i], each, y + pooled + i * each);
    if (told) y[pooled] = (float)(k->has_guidance ? k->guidance : GRAFT_FLUX_GUIDANCE);
}

void graft_guided_fill_y(const graft_guided *g, const graft_cond_entry *k, bool negative, float *y)
{
    const graft_net_arch *a = &g->c.model->arch;
    if (a->adm_channels) fill_told(g, k, negative, y);
    if (graft_net_counts_tokens(a, k->tokens)) y[a->adm_channels] = (float)(k->tokens - k->filled);
}
