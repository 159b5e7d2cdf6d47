/* Copies beside the launches (kernel_abi.h, lane_create): in a stream of their own, which all lanes
 * of a device share. */
#ifndef GRAFT_KERNELS_CUDA_LANE_H
#define GRAFT_KERNELS_CUDA_LANE_H
#include "kernels/cuda/device/device.h"

void *graft_cuda_host_alloc(graft_device *d, uint64_t bytes);
void graft_cuda_host_free(graft_device *d, void *p);
graft_status graft_cuda_lane_create(graft_device *d, uint32_t n, graft_lane **out);
graft_status graft_cuda_lane_load(graft_lane *l, uint32_t index, void *dst, const void *src,
                                  uint64_t bytes);
graft_status graft_cuda_lane_need(graft_lane *l, uint32_t index);
void graft_cuda_lane_free(graft_lane *l);
/* For copies whose memory is to be freed. Each is needed by a launch, so that waiting for those is
 * enough; of a device that is lost some may have come without. The lock is held. */
void graft_cuda_lanes_wait(graft_device *d);
#endif
