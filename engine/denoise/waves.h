/* Numbers as networks are told them: cosines and sines at falling frequencies, as of timesteps. */
#ifndef GRAFT_DENOISE_WAVES_H
#define GRAFT_DENOISE_WAVES_H
#include <stdint.h>

/* cos and sin of v / 10000^(2 i / width), i from 0: `width` numbers, which is even. */
void graft_waves(double v, int64_t width, float *out);
#endif
