/* Random numbers exactly as PyTorch's CPU generator draws them, and the noise that samplers ask
 * for.
 *
 * mt19937 (Matsumoto and Nishimura 1998) seeded with the low 32 bits of the 64-bit seed as PyTorch
 * does; normal numbers by Box-Muller in blocks of 16 float32 values when 16 or more are drawn (the
 * last block redone when the count is no multiple of 16), in double one by one below that.
 *
 * Every bit equals PyTorch's on x86-64 with AVX2 and FMA (builds that take another path differ from
 * it, and so from us, by an ulp or two). All state is in the caller's graft_rng: one thread at a
 * time per generator. */
#ifndef GRAFT_SAMPLING_NOISE_H
#define GRAFT_SAMPLING_NOISE_H
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct graft_rng {
    uint32_t state[624];
    int left, next;
    int has_cached; /* second value of the scalar Box-Muller */
    double cached;
} graft_rng;

void graft_rng_seed(graft_rng *r, uint64_t seed);
/* torch.randn(n): fills out[0..n). */
void graft_rng_randn(graft_rng *r, float *out, size_t n);

/* Of the pictures that a batch's noise may be that of: all before one are drawn, too. */
#define GRAFT_NOISE_MOST_INDEX 65535
/* The starting noise of a latent batch (N,C,h,w). batch_index NULL: one draw of the whole shape;
 * else picture k gets the noise of place batch_index[k] when every index from 0 to the largest is
 * drawn singly, in order. GRAFT_E_LIMIT for indices above GRAFT_NOISE_MOST_INDEX. */
graft_status graft_noise_latent(uint64_t seed, const int64_t shape[4], const int64_t *batch_index,
                                float *out, graft_err *e);

/* Where a sampler gets its noise from: draws n = the latent's size values for the step from sigma
 * to sigma_next. */
typedef struct graft_noise_source {
    void *ctx;
    graft_status (*draw)(void *ctx, double sigma, double sigma_next, float *out, size_t n,
                         graft_err *e);
} graft_noise_source;
/* One randn a draw, seeded once. `r` must outlive the source. */
graft_noise_source graft_noise_plain(graft_rng *r);

/* Brownian noise for the SDE samplers, as ComfyUI's BrownianTreeNoiseSampler on a CPU: increments
 * of one Brownian path between sigmas, divided by sqrt(|difference|), with the sign of the
 * difference. The path follows torchsde's BrownianTree (halving tree, resolution 1e-6, a NumPy
 * SeedSequence of 24 words for each node): checked bit by bit against a model of that tree made
 * with NumPy and PyTorch, not against torchsde itself. Draws depend on seed and sigmas only, not on
 * their order; sigmas outside [sigma_min, sigma_max] are clamped. About 26 rows of n floats are
 * held; one thread at a time. */
typedef struct graft_brownian graft_brownian;
graft_status graft_brownian_create(double sigma_min, double sigma_max, uint64_t seed, size_t n,
                                   graft_brownian **out, graft_err *e);
void graft_brownian_destroy(graft_brownian *b);
graft_noise_source graft_brownian_source(graft_brownian *b);
#endif
