/* The public architectures as plain data, so that compiling can be tested without their weights. */
#ifndef GRAFT_TESTS_ENGINE_ARCHES_H
#define GRAFT_TESTS_ENGINE_ARCHES_H
#include <string.h>

#include "engine/objects/objects.h"

/* levels: channel multiples of 320; depth: transformer depth of each level, of every block in it.
 */
static inline void arch_unet(graft_unet_arch *a, const int32_t *mult, const int32_t *depth,
                             int levels)
{
    memset(a, 0, sizeof *a);
    a->in_channels = a->out_channels = 4;
    a->model_channels = 320;
    a->time_dim = 1280;
    a->middle_residual = 2;
    a->input[a->n_input++].channels = 320;
    for (int l = 0; l < levels; l++) {
        for (int k = 0; k < 2; k++)
            a->input[a->n_input++] =
                (graft_unet_block){.channels = 320 * mult[l], .transformer = depth[l]};
        if (l + 1 < levels) a->input[a->n_input++] = (graft_unet_block){.down = 1};
    }
    for (int l = levels - 1; l >= 0; l--)
        for (int k = 0; k < 3; k++)
            a->output[a->n_output++] = (graft_unet_block){
                .channels = 320 * mult[l], .transformer = depth[l], .up = k == 2 && l > 0};
}

static inline graft_unet_arch arch_sd15(void)
{
    graft_unet_arch a;
    arch_unet(&a, (int32_t[]){1, 2, 4, 4}, (int32_t[]){1, 1, 1, 0}, 4);
    a.context_dim = 768;
    a.num_heads = 8;
    a.middle_transformer = 1;
    return a;
}

static inline graft_unet_arch arch_sdxl(void)
{
    graft_unet_arch a;
    arch_unet(&a, (int32_t[]){1, 2, 4}, (int32_t[]){0, 2, 10}, 3);
    a.context_dim = 2048;
    a.head_dim = 64;
    a.adm_channels = 2816;
    a.linear_proj = 1;
    a.middle_transformer = 10;
    return a;
}

static inline graft_vae_arch arch_vae(void)
{
    graft_vae_arch a;
    memset(&a, 0, sizeof a);
    a.in_channels = a.out_channels = 3;
    a.z_channels = a.embed_dim = 4;
    a.levels = 4;
    for (int i = 0; i < 4; i++) a.channels[i] = (int32_t[]){128, 256, 512, 512}[i];
    a.res_blocks = 2;
    a.quant_conv = a.encoder = a.decoder = 1;
    return a;
}

static inline graft_status arch_build_unet(const void *arch, const void *shape, graft_graph **out,
                                           graft_err *e)
{
    return graft_unet_build(arch, shape, out, e);
}

typedef struct arch_vae_shape {
    int64_t height, width;
    graft_dtype act_dtype;
    int32_t encoder;
} arch_vae_shape;

static inline graft_status arch_build_vae(const void *arch, const void *shape, graft_graph **out,
                                          graft_err *e)
{
    const arch_vae_shape *s = shape;
    return s->encoder ? graft_vae_encoder_build(arch, 1, s->height, s->width, s->act_dtype, out, e)
                      : graft_vae_decoder_build(arch, 1, s->height, s->width, s->act_dtype, out, e);
}
#endif
