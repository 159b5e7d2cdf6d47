#include "engine/denoise/third.h"

graft_change graft_third_change(const graft_third *t, double cfg, float *const d[GRAFT_SIDES],
                                float *out)
{
    const bool perpendicular = t->way == GRAFT_THIRD_PERPENDICULAR;
    return (graft_change){.positive = d[GRAFT_POSITIVE],
                          .negative = d[GRAFT_NEGATIVE],
                          .third = d[GRAFT_THIRD],
                          .out = out,
                          .cfg = t->way == GRAFT_THIRD_NESTED ? t->scale * cfg : cfg,
                          .strength = t->scale,
                          .kind = perpendicular ? GRAFT_CHANGE_PERPENDICULAR : GRAFT_CHANGE_THREE};
}

void graft_third_guide(const graft_third *t, double cfg, float *const d[GRAFT_SIDES], size_t n,
                       size_t per, float *out)
{
    graft_change c = graft_third_change(t, cfg, d, out);
    c.n = n;
    c.per = c.area = per;
    (void)graft_change_run(&(const graft_memory){NULL}, &c, NULL);
}
