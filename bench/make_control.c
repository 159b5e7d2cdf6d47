#include "bench/make_control.h"

void make_control_of_flux(const graft_flux_arch *net, int32_t types, graft_control_arch *a)
{
    a->kind = GRAFT_NET_FLUX;
    a->flux = *net;
    a->flux.depth = (net->depth + 1) / 2;
    a->flux.single_depth = net->single_depth / 2;
    a->flux.beside = 0;
    a->types = types;
    a->hint_channels = net->channels;
}

void make_control_of_qwen_image(const graft_qwen_image_arch *net, graft_control_arch *a)
{
    a->kind = GRAFT_NET_QWEN_IMAGE;
    a->within = 1;
    a->qwen_image = *net;
    a->hint_channels = net->channels;
}

void make_control_of_zimage(const graft_zimage_arch *net, int32_t types, graft_control_arch *a)
{
    const int32_t depth = net->depth / (types ? 2 : 5);
    a->kind = GRAFT_NET_ZIMAGE;
    a->zimage = *net;
    a->zimage.depth = depth > 0 ? depth : 1;
    a->refining = types ? GRAFT_CONTROL_REFINES_BOTH : GRAFT_CONTROL_REFINES_HINT;
    a->hint_channels = types ? 2 * net->channels + 1 : net->channels;
}
