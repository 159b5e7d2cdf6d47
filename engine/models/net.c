#include "engine/models/net.h"

#include <string.h>

#include "engine/models/detect.h"
#include "engine/models/mmdit.h"

void graft_net_of_unet(const graft_unet_arch *a, graft_net_arch *out)
{
    memset(out, 0, sizeof *out);
    out->kind = GRAFT_NET_UNET;
    out->in_channels = a->in_channels;
    out->latent_channels = graft_unet_latent_channels(a);
    out->context_dim = a->context_dim;
    out->adm_channels = a->adm_channels;
    memcpy(&out->unet, a, sizeof *a);
}

static void of_mmdit(const graft_mmdit_arch *a, graft_net_arch *out)
{
    memset(out, 0, sizeof *out);
    out->kind = GRAFT_NET_MMDIT;
    out->in_channels = out->latent_channels = a->channels;
    out->context_dim = a->context_dim;
    out->adm_channels = a->pooled_dim;
    memcpy(&out->mmdit, a, sizeof *a);
}

graft_status graft_net_detect(const graft_safetensors *f, const char *prefix, const char *config,
                              graft_net_arch *out, graft_err *e)
{
    graft_unet_arch unet;
    graft_mmdit_arch mmdit;
    if (graft_detect_find(f, prefix, GRAFT_MMDIT_TENSOR)) {
        graft_status st = graft_mmdit_detect(f, prefix, config, &mmdit, e);
        if (!st) of_mmdit(&mmdit, out);
        return st;
    }
    graft_status st = graft_unet_detect(f, prefix, config, &unet, e);
    if (!st) graft_net_of_unet(&unet, out);
    return st;
}

graft_status graft_net_build(const graft_net_arch *a, const graft_unet_shape *shape,
                             int64_t pictures, graft_graph **out, graft_err *e)
{
    return graft_net_is_unet(a) ? graft_unet_build_guided(&a->unet, shape, pictures, out, e)
                                : graft_mmdit_build(&a->mmdit, shape, out, e);
}

graft_unet_shape graft_net_some_shape(const graft_net_arch *a)
{
    int32_t side = graft_net_is_unet(a) ? 64 : a->mmdit.patch;
    return (graft_unet_shape){
        .batch = 1, .height = side, .width = side, .tokens = 1, .act_dtype = GRAFT_F32};
}

graft_hash graft_net_hash(const graft_net_arch *a)
{
    return graft_net_is_unet(a) ? graft_hash128(&a->unet, sizeof a->unet)
                                : graft_hash128(&a->mmdit, sizeof a->mmdit);
}
