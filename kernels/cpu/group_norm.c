/* GROUP_NORM with its act: one pass for sums per channel, one that writes.
 *
 * Sums are taken about the channel's first value, so that a large mean costs no digits, in runs of
 * float32 that go to double; channels are joined to groups in double. Pixels are cut into slices,
 * however many threads there are, so that their number does not change the order of a sum. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/share.h"

#define SLICES     64   /* of a picture, at most */
#define UNIT       8192 /* elements of a unit of the second pass, or a pixel */
#define MOST_UNITS 8    /* of either pass, taken at a time */

typedef struct norm_state {
    int threads, sum_threads; /* of the second pass, of the first */
    int64_t slices;           /* of the pixels, with sums of their own */
    int64_t pixels, channels, images;
    int64_t unit; /* pixels */
    size_t at_sums;
} norm_state;

static graft_status check_moments(const graft_op_desc *op, graft_err *e)
{
    const graft_tensor_desc *m = &op->in[GRAFT_NORM_MOMENTS];
    if (!graft_cpu_present(m)) return GRAFT_OK;
    graft_status st = graft_cpu_check_float(m, 3, "group_norm: moments", e);
    if (st) return st;
    if (m->dtype != GRAFT_F32 || m->constant || !graft_cpu_is_dense(m) ||
        m->dim[0] != op->out.dim[0] || m->dim[1] != op->attrs.groups || m->dim[2] != 2)
        return graft_fail(e, GRAFT_E_ARG, "group_norm: moments must be float32 (N, groups, 2)");
    return GRAFT_OK;
}

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *x = &op->in[GRAFT_NORM_X], *y = &op->out;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(x, 4, "group_norm: x", e));
    GRAFT_TRY(graft_cpu_check_float(y, 4, "group_norm: output", e));
    GRAFT_TRY(graft_cpu_check_same(x, y, "group_norm: x and output", e));
    GRAFT_TRY(
        graft_cpu_check_vector(&op->in[GRAFT_NORM_GAMMA], x->dim[3], 0, "group_norm: gamma", e));
    GRAFT_TRY(
        graft_cpu_check_vector(&op->in[GRAFT_NORM_BETA], x->dim[3], 0, "group_norm: beta", e));
    GRAFT_TRY(graft_cpu_check_absent(op, GRAFT_NORM_MOMENTS + 1, e));
    if (op->attrs.groups < 1 || x->dim[3] % op->attrs.groups)
        return graft_fail(e, GRAFT_E_ARG, "group_norm: %lld channels in %d groups",
                          (long long)x->dim[3], (int)op->attrs.groups);
    if (!graft_act_is_pointwise(op->attrs.act) || x->constant)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "group_norm: act %d or a constant x",
                        (int)op->attrs.act);
    if (!st) st = check_moments(op, e);
out:
    return st;
}

/* A slice has sixteen times as many pixels as there are slices: adding them up costs little then.
 */
static int64_t slices_of(int64_t pixels)
{
    int64_t n = 1;
    while (n < SLICES && n * n * 16 < pixels) n++;
    return n;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_NORM_X];
    norm_state *s = k->state = graft_cpu_calloc(k->d, sizeof *s);
    (void)variant;
    if (!s) return graft_fail_nomem(e, "a group norm");
    graft_cpu_pack_as(k, GRAFT_NORM_GAMMA, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_NORM_BETA, GRAFT_F32);
    s->images = x->dim[0];
    s->pixels = x->dim[1] * x->dim[2];
    s->channels = x->dim[3];
    s->slices = slices_of(s->pixels);
    s->threads = graft_cpu_threads(k->d, 2 * s->pixels * s->channels);
    if (s->threads > s->pixels) s->threads = (int)s->pixels;
    s->sum_threads = s->threads > s->slices ? (int)s->slices : s->threads;
    /* Two sums a channel of each slice, two floats of each thread; once: shift, mean, factor. */
    size_t c = (size_t)s->channels;
    s->unit = graft_cpu_pieces(UNIT, s->channels);
    s->at_sums = sizeof(graft_cpu_piece) * (size_t)s->threads;
    k->info.workspace_bytes = s->at_sums + (size_t)s->slices * c * 2 * sizeof(double) +
                              (size_t)s->sum_threads * c * 2 * sizeof(float) +
                              3 * c * sizeof(float);
    return GRAFT_OK;
}

typedef struct job {
    const graft_kernel *k;
    const norm_state *s;
    const char *x;
    char *y;
    const float *beta;
    double *sums; /* of each slice: sum, square */
    float *partial, *shift, *mean, *factor;
    graft_cpu_share share;
} job;

/* Element offset of a pixel. */
static int64_t pixel_offset(const graft_tensor_desc *t, int64_t at)
{
    return at / t->dim[2] * t->stride[1] + at % t->dim[2] * t->stride[2];
}

/* How many of the pixels from `at` to `end` lie at one stride: those of a row, or all when rows
 * follow each other. */
static int64_t run_of(const job *j, int64_t at, int64_t end)
{
    const graft_tensor_desc *x = &j->k->op.in[GRAFT_NORM_X], *y = &j->k->op.out;
    int64_t width = x->dim[2], row = width - at % width;
    if (x->stride[1] == x->stride[2] * width && y->stride[1] == y->stride[2] * width)
        return end - at;
    return row < end - at ? row : end - at;
}

static void sums_of_slice(const job *j, int64_t slice, float *partial)
{
    const graft_tensor_desc *x = &j->k->op.in[GRAFT_NORM_X];
    const norm_state *s = j->s;
    int64_t at = s->pixels * slice / s->slices, end = s->pixels * (slice + 1) / s->slices;
    double *sum = j->sums + 2 * s->channels * slice;
    memset(sum, 0, (size_t)s->channels * 2 * sizeof *sum);
    for (int64_t n; at < end; at += n) {
        n = run_of(j, at, end);
        j->k->d->simd->channel_sums(graft_cpu_at(j->x, x->dtype, pixel_offset(x, at)), x->dtype, n,
                                    x->stride[2], s->channels, j->shift, sum, sum + s->channels,
                                    partial);
    }
}

static void sums_part(void *p, int part, int parts)
{
    job *j = p;
    int64_t first, count;
    (void)parts;
    while ((count = graft_cpu_share_take(&j->share, part, &first)) > 0)
        for (int64_t end = first + count; first < end; first++)
            sums_of_slice(j, first, j->partial + 2 * j->s->channels * part);
}

static void affine(const job *j, int64_t at, int64_t end)
{
    const graft_tensor_desc *x = &j->k->op.in[GRAFT_NORM_X], *y = &j->k->op.out;
    for (int64_t n; at < end; at += n) {
        n = run_of(j, at, end);
        j->k->d->simd->channel_affine(
            j->k->op.attrs.act, graft_cpu_at(j->x, x->dtype, pixel_offset(x, at)), x->dtype,
            x->stride[2], graft_cpu_at_mut(j->y, y->dtype, pixel_offset(y, at)), y->dtype,
            y->stride[2], n, j->s->channels, j->mean, j->factor, j->beta);
    }
}

static void affine_part(void *p, int part, int parts)
{
    job *j = p;
    const norm_state *s = j->s;
    int64_t first, count;
    (void)parts;
    while ((count = graft_cpu_share_take(&j->share, part, &first)) > 0) {
        int64_t end = (first + count) * s->unit;
        affine(j, first * s->unit, end < s->pixels ? end : s->pixels);
    }
}

/* Joins slices and channels to mean and 1/deviation of each group. */
static void finish_sums(const job *j, const float *gamma)
{
    int64_t channels = j->s->channels, size = channels / j->k->op.attrs.groups;
    double n = (double)j->s->pixels, count = n * (double)size;
    for (int64_t g = 0; g < channels; g += size) {
        double mean = 0, square = 0;
        for (int64_t c = g; c < g + size; c++) {
            double *sum = j->sums + c, *about = sum + channels;
            for (int64_t i = 1; i < j->s->slices; i++) {
                *sum += sum[2 * channels * i];
                *about += about[2 * channels * i];
            }
            mean += n * (double)j->shift[c] + *sum;
        }
        mean /= count;
        for (int64_t c = g; c < g + size; c++) {
            double sum = j->sums[c], about = j->sums[c + channels];
            double own = sum / n, apart = (double)j->shift[c] + own - mean;
            square += about - sum * own + n * apart * apart;
        }
        double r =
            1.0 / sqrt((square > 0 ? square : square * 0.0) / count + (double)j->k->op.attrs.eps);
        for (int64_t c = g; c < g + size; c++) {
            j->mean[c] = (float)mean;
            j->factor[c] = (float)(r * (double)gamma[c]);
        }
    }
}

static void take_moments(const job *j, const float *moments, const float *gamma)
{
    int64_t size = j->s->channels / j->k->op.attrs.groups;
    for (int64_t c = 0; c < j->s->channels; c++) {
        const float *m = moments + c / size * 2;
        j->mean[c] = m[0];
        j->factor[c] = (float)((double)gamma[c] / sqrt((double)m[1] + (double)j->k->op.attrs.eps));
    }
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const norm_state *s = k->state;
    const graft_tensor_desc *x = &k->op.in[GRAFT_NORM_X], *y = &k->op.out;
    const float *moments = in[GRAFT_NORM_MOMENTS];
    size_t c = (size_t)s->channels;
    job j = {.k = k, .s = s, .beta = in[GRAFT_NORM_BETA], .share.most = MOST_UNITS};
    j.sums = (double *)(void *)((char *)workspace + s->at_sums);
    j.partial = (float *)(j.sums + 2 * c * (size_t)s->slices);
    j.shift = j.partial + 2 * c * (size_t)s->sum_threads;
    j.mean = j.shift + c;
    j.factor = j.mean + c;
    for (int64_t i = 0; i < s->images; i++) {
        j.x = graft_cpu_at(in[GRAFT_NORM_X], x->dtype, i * x->stride[0]);
        j.y = graft_cpu_at_mut(out, y->dtype, i * y->stride[0]);
        if (moments) {
            take_moments(&j, moments + i * k->op.attrs.groups * 2, in[GRAFT_NORM_GAMMA]);
        } else {
            k->d->simd->act(GRAFT_ACT_NONE, j.x, x->dtype, j.shift, GRAFT_F32, c);
            graft_cpu_share_begin(&j.share, workspace, s->slices, s->sum_threads);
            graft_cpu_parallel(s->sum_threads, sums_part, &j);
            finish_sums(&j, in[GRAFT_NORM_GAMMA]);
        }
        graft_cpu_share_begin(&j.share, workspace, graft_cpu_pieces(s->pixels, s->unit),
                              s->threads);
        graft_cpu_parallel(s->threads, affine_part, &j);
    }
    return GRAFT_OK;
}

static int32_t inplace(const graft_kernel *k, int32_t input)
{
    return input == GRAFT_NORM_X && k->op.in[0].dtype == k->op.out.dtype &&
           graft_cpu_is_dense(&k->op.in[0]) && graft_cpu_is_dense(&k->op.out);
}

const graft_cpu_op graft_cpu_op_group_norm = {check, init, NULL, NULL, launch, inplace};
