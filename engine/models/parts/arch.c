#include "engine/models/parts/arch.h"

int32_t graft_unet_known_channels(const graft_unet_arch *a)
{
    int32_t more = a->in_channels - a->out_channels;
    return more == a->out_channels || more == a->out_channels + 1 ? more : 0;
}

int32_t graft_unet_latent_channels(const graft_unet_arch *a)
{
    return a->in_channels - graft_unet_known_channels(a);
}

bool graft_unet_is_refiner(const graft_unet_arch *a)
{
    return a->context_dim == 1280 && a->adm_channels == 1280 + 5 * 256;
}

graft_family graft_unet_family(const graft_unet_arch *a)
{
    if (a->context_dim == 768 && !a->adm_channels) return GRAFT_FAMILY_SD1;
    if (a->context_dim == 1024 && !a->adm_channels) return GRAFT_FAMILY_SD2;
    if (a->unclip) return GRAFT_FAMILY_SD2;
    if (a->adm_channels) return GRAFT_FAMILY_SDXL;
    return GRAFT_FAMILY_CUSTOM;
}
