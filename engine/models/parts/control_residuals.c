#include "engine/models/parts/control_residuals.h"

#include <string.h>

graft_vid graft_control_wide(const graft_build *b, graft_vid v, int64_t n)
{
    const int64_t rows = graft_build_dim(b, v, 0), t = graft_build_dim(b, v, 1);
    const int64_t c = graft_build_dim(b, v, 2);
    if (v < 0 || rows == n) return v;
    v = graft_graph_reshape(b->g, v, 3, (int64_t[]){1, rows * t, c});
    const graft_vid once = v;
    for (int64_t i = rows; i < n; i += rows) v = graft_build_join(b, v, once);
    return graft_graph_reshape(b->g, v, 3, (int64_t[]){n, t, c});
}

void graft_control_residuals_init(graft_control_residuals *r, const graft_build *b,
                                  const graft_control_shape *s, int32_t hidden, int32_t patch)
{
    const int64_t dim[4] = {s->batch, s->height / patch, s->width / patch, hidden};
    *r = (graft_control_residuals){.b = b, .s = s};
    memcpy(r->dim, dim, sizeof dim);
    for (int i = 0; i < GRAFT_STEERED_MOST; i++) r->before[i] = r->made[i] = GRAFT_NO_VALUE;
    graft_vid strength = graft_graph_input(b->g, GRAFT_F32, 1, (int64_t[]){1});
    r->strength = graft_graph_reshape(b->g, strength, 3, (int64_t[]){1, 1, 1});
}

/* Where a part's residuals begin among all. */
static int first_of(const graft_control_shape *s, int part)
{
    return part ? graft_steered_count(&s->steered, 0) : 0;
}

void graft_control_residuals_before(graft_control_residuals *r)
{
    const graft_control_shape *s = r->s;
    const int64_t tokens[3] = {r->dim[0], r->dim[1] * r->dim[2], r->dim[3]};
    for (int part = 0; part < GRAFT_STEERED_PARTS; part++)
        for (int k = 0; s->more >> part & 1 && k < graft_steered_count(&s->steered, part); k++) {
            graft_vid v = graft_graph_input(r->b->g, s->act_dtype, 4, r->dim);
            r->before[first_of(s, part) + k] = graft_graph_reshape(r->b->g, v, 3, tokens);
        }
}

void graft_control_residual(graft_control_residuals *r, int part, int i, graft_name name,
                            graft_vid h)
{
    const graft_control_shape *s = r->s;
    const graft_build *b = r->b;
    const int own = part ? graft_steered_count(&s->own, 0) + i : i;
    graft_vid made = GRAFT_NO_VALUE;
    for (int k = 0; k < graft_steered_count(&s->steered, part); k++) {
        const int at = first_of(s, part) + k;
        const int block = graft_steered_begin(&s->steered, part, k);
        if (graft_steered_by(&s->own, part, block) != own) continue;
        if (made < 0) {
            made = graft_build_linear(b, name, h, (int32_t)r->dim[3], true);
            made = graft_build_mul(b, made, r->strength);
            if (made < 0) return;
        }
        r->made[at] = r->before[at] >= 0 ? graft_build_add(b, made, r->before[at]) : made;
    }
}

void graft_control_residuals_finish(graft_control_residuals *r)
{
    for (int i = 0; i < graft_steered_all(&r->s->steered); i++) {
        if (r->made[i] < 0) continue;
        graft_graph_output(r->b->g, graft_graph_reshape(r->b->g, r->made[i], 4, r->dim));
    }
}
