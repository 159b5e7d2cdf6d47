/* Running a VAE over one picture in overlapping tiles whose seams are blended. */
#ifndef GRAFT_API_TILES_H
#define GRAFT_API_TILES_H
#include "engine/api/objects.h"

typedef struct graft_tile_job {
    const graft_vae *vae;
    bool decoder;
    /* Decoder: in (C,h,w) of the latent, out (H,W,C) of the picture. Encoder: in (C,H,W) of a
     * picture that lies as (H,W,C); out (h,w,C) of moments that lie as (C,h,w). */
    int64_t in[3], out[3];
    int64_t tile, overlap; /* in latent pixels */
} graft_tile_job;

/* VAEDecodeTiled and VAEEncodeTiled: each tile is computed as a picture of its own, so it differs a
 * little from the whole (strips.h does not). A task that only compiles leaves `out` alone. */
graft_status graft_tiles_run(const graft_tile_job *job, const float *in, float *out,
                             const graft_task *task, graft_err *e);
#endif
