/* Pictures, masks and latents mirrored and turned by right angles. Any thread. */
#ifndef GRAFT_IMAGE_TURN_H
#define GRAFT_IMAGE_TURN_H
#include <stdbool.h>
#include <stdint.h>

/* First mirrored, then turned. */
typedef struct graft_turn {
    bool upside_down, left_to_right;
    int turns; /* clockwise, 0 to 3 */
} graft_turn;

/* The shape (outer, h, w, inner) afterwards. */
void graft_turn_shape(const graft_turn *t, const int64_t shape[4], int64_t out[4]);
/* src (outer, h, w, inner), the last index fastest, to dst of that shape, which does not overlap
 * it: pictures are (N,H,W,C), latents (N*C,h,w,1). */
void graft_turn_apply(const graft_turn *t, const float *src, const int64_t shape[4], float *dst);
#endif
