/* Architectures of ControlNets for transformers of random weights, in their authors' names, but
 * with queries, keys and values joined as the network has them. */
#ifndef GRAFT_BENCH_MAKE_CONTROL_H
#define GRAFT_BENCH_MAKE_CONTROL_H
#include "engine/models/parts/arch.h"

/* As deep as half of the network; types: of pictures, if it is to be a union ControlNet. *a is
 * zeroed. */
void make_control_of_flux(const graft_flux_arch *net, int32_t types, graft_control_arch *a);
/* DiffSynth's, within the network. *a is zeroed. */
void make_control_of_qwen_image(const graft_qwen_image_arch *net, graft_control_arch *a);
/* Version 1, or 2.1 for several types. *a is zeroed. */
void make_control_of_zimage(const graft_zimage_arch *net, int32_t types, graft_control_arch *a);
#endif
