/* MEAN_SCALE: a mean for each pixel, then all pixels by their places among the picture's means. */
#include <math.h>

#include "kernels/cpu/cpu.h"

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_FACTOR_X];
    (void)variant;
    (void)e;
    graft_cpu_pack_as(k, GRAFT_FACTOR, GRAFT_F32);
    k->info.workspace_bytes = (uint64_t)(x->dim[1] * x->dim[2]) * sizeof(double);
    return GRAFT_OK;
}

/* One picture. */
typedef struct job {
    const graft_kernel *k;
    const void *x;
    void *y;
    double *mean; /* of each pixel; then what its first half counts */
    int64_t pixels;
} job;

static int64_t pixel_offset(const graft_tensor_desc *t, int64_t at)
{
    return at / t->dim[2] * t->stride[1] + at % t->dim[2] * t->stride[2];
}

static void means_part(void *p, int part, int parts)
{
    const job *j = p;
    const graft_tensor_desc *x = &j->k->op.in[GRAFT_FACTOR_X];
    int64_t n = x->dim[3], end = j->pixels * (part + 1) / parts;
    for (int64_t i = j->pixels * part / parts; i < end; i++) {
        const void *from = graft_cpu_at(j->x, x->dtype, pixel_offset(x, i));
        j->mean[i] = j->k->d->simd->sum(from, x->dtype, (size_t)n) / (double)n;
    }
}

static void to_factors(const job *j, double factor)
{
    double least = INFINITY, most = -INFINITY, off = 0; /* off: 0, or no number */
    for (int64_t i = 0; i < j->pixels; i++) {
        off += j->mean[i] * 0;
        if (j->mean[i] < least) least = j->mean[i];
        if (j->mean[i] > most) most = j->mean[i];
    }
    double range = most - least + off;
    for (int64_t i = 0; i < j->pixels; i++) {
        double m = range == 0 ? 0 : (j->mean[i] - least) / range;
        j->mean[i] = 1 + (factor - 1) * m;
    }
}

static void scale_part(void *p, int part, int parts)
{
    const job *j = p;
    const graft_cpu_simd *simd = j->k->d->simd;
    const graft_tensor_desc *x = &j->k->op.in[GRAFT_FACTOR_X], *y = &j->k->op.out;
    int64_t half = x->dim[3] / 2, rest = x->dim[3] - half;
    int64_t end = j->pixels * (part + 1) / parts;
    for (int64_t i = j->pixels * part / parts; i < end; i++) {
        const void *from = graft_cpu_at(j->x, x->dtype, pixel_offset(x, i));
        void *to = graft_cpu_at_mut(j->y, y->dtype, pixel_offset(y, i));
        simd->scale(from, x->dtype, to, y->dtype, (size_t)half, (float)j->mean[i], 0.0f);
        if (from == to) continue;
        simd->act(GRAFT_ACT_NONE, graft_cpu_at(from, x->dtype, half), x->dtype,
                  graft_cpu_at_mut(to, y->dtype, half), y->dtype, (size_t)rest);
    }
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_FACTOR_X], *y = &k->op.out;
    job j = {.k = k, .mean = workspace, .pixels = x->dim[1] * x->dim[2]};
    int threads = graft_cpu_threads(k->d, j.pixels * x->dim[3]);
    for (int64_t i = 0; i < x->dim[0]; i++) {
        j.x = graft_cpu_at(in[GRAFT_FACTOR_X], x->dtype, i * x->stride[0]);
        j.y = graft_cpu_at_mut(out, y->dtype, i * y->stride[0]);
        graft_cpu_parallel(threads, means_part, &j);
        to_factors(&j, (double)*(const float *)in[GRAFT_FACTOR]);
        graft_cpu_parallel(threads, scale_part, &j);
    }
    return GRAFT_OK;
}

const graft_cpu_op graft_cpu_op_mean_scale = {graft_cpu_check_factor,  init, NULL, NULL, launch,
                                              graft_cpu_inplace_factor};
