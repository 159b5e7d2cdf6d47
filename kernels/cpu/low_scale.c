/* LOW_SCALE: one pass for sums over the picture, one that adds waves.
 *
 * With u of a row and v of a column, cos and sin of u + v come from theirs. So a row needs three
 * sums for each channel, of x, x cos v and x sin v, which go to the picture's seven sums in double;
 * and it is added three values for each channel, which count 1, cos v and sin v. Rows are cut into
 * slices by the picture's size alone, so that threads do not change the order of a sum. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

#define SLICES 16 /* of a picture, at most */
#define RUN    64 /* pixels whose sums are kept in float32 */

enum { ONE, COS_U, SIN_U, COS_V, SIN_V, COS_UV, SIN_UV, SUMS };

typedef struct low_state {
    int threads, row_threads;
    int64_t slices, height, width, channels;
    size_t at_scratch; /* in the workspace, behind the sums; of each thread three rows */
    double *cos_u, *sin_u;
    float *cos_v, *sin_v;
} low_state;

/* Joining slices costs as much as 7 / 3 pixels of each. */
static int64_t slices_of(int64_t height, int64_t width)
{
    int64_t n = 1;
    while (n < SLICES && n < height && n * n * 64 < height * width) n++;
    return n;
}

static void fill_tables(low_state *s)
{
    for (int64_t i = 0; i < s->height; i++) {
        double a = 2 * M_PI * (double)i / (double)s->height;
        s->cos_u[i] = cos(a);
        s->sin_u[i] = sin(a);
    }
    for (int64_t i = 0; i < s->width; i++) {
        double a = 2 * M_PI * (double)i / (double)s->width;
        s->cos_v[i] = (float)cos(a);
        s->sin_v[i] = (float)sin(a);
    }
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_FACTOR_X];
    size_t h = (size_t)x->dim[1], w = (size_t)x->dim[2], c = (size_t)x->dim[3];
    low_state *s = graft_cpu_calloc(k->d, sizeof *s + 2 * h * sizeof(double) + 2 * w * 4);
    (void)variant;
    if (!s) return graft_fail_nomem(e, "a filter's waves");
    k->state = s;
    graft_cpu_pack_as(k, GRAFT_FACTOR, GRAFT_F32);
    s->height = x->dim[1];
    s->width = x->dim[2];
    s->channels = x->dim[3];
    s->cos_u = (double *)(s + 1);
    s->sin_u = s->cos_u + h;
    s->cos_v = (float *)(s->sin_u + h);
    s->sin_v = s->cos_v + w;
    fill_tables(s);
    s->slices = slices_of(s->height, s->width);
    s->row_threads = graft_cpu_threads(k->d, s->height * s->width * s->channels);
    if (s->row_threads > s->height) s->row_threads = (int)s->height;
    s->threads = s->row_threads > s->slices ? (int)s->slices : s->row_threads;
    size_t at = 0;
    graft_cpu_reserve(&at, (size_t)s->slices * c * SUMS * sizeof(double));
    s->at_scratch = at;
    k->info.workspace_bytes = at + (size_t)s->row_threads * c * 3 * sizeof(float);
    return GRAFT_OK;
}

/* One picture. */
typedef struct job {
    const graft_kernel *k;
    const low_state *s;
    const void *x;
    void *y;
    double *sums; /* [slice][SUMS][channel] */
    float *scratch;
    double each; /* (factor - 1) / pixels */
} job;

/* A run's sums, whose columns have their cosines and sines in them, join the picture's. */
static void join_run(const low_state *s, int64_t row, const float *run, double *sums)
{
    int64_t n = s->channels;
    double cosine = s->cos_u[row], sine = s->sin_u[row];
    for (int64_t c = 0; c < n; c++) {
        double plain = (double)run[c], even = (double)run[n + c], odd = (double)run[2 * n + c];
        sums[ONE * n + c] += plain;
        sums[COS_U * n + c] += cosine * plain;
        sums[SIN_U * n + c] += sine * plain;
        sums[COS_V * n + c] += even;
        sums[SIN_V * n + c] += odd;
        sums[COS_UV * n + c] += cosine * even - sine * odd;
        sums[SIN_UV * n + c] += sine * even + cosine * odd;
    }
}

static void sum_slice(const job *j, int64_t slice, float *run)
{
    const low_state *s = j->s;
    const graft_tensor_desc *x = &j->k->op.in[GRAFT_FACTOR_X];
    double *sums = j->sums + slice * SUMS * s->channels;
    int64_t end = s->height * (slice + 1) / s->slices;
    memset(sums, 0, (size_t)(SUMS * s->channels) * sizeof *sums);
    for (int64_t row = s->height * slice / s->slices; row < end; row++)
        for (int64_t at = 0; at < s->width; at += RUN) {
            int64_t n = s->width - at < RUN ? s->width - at : RUN;
            j->k->d->simd->wave_sums(
                graft_cpu_at(j->x, x->dtype, row * x->stride[1] + at * x->stride[2]), x->dtype, n,
                x->stride[2], s->channels, s->cos_v + at, s->sin_v + at, run);
            join_run(s, row, run, sums);
        }
}

static void sums_part(void *p, int part, int parts)
{
    const job *j = p;
    int64_t end = j->s->slices * (part + 1) / parts;
    for (int64_t i = j->s->slices * part / parts; i < end; i++)
        sum_slice(j, i, j->scratch + 3 * j->s->channels * part);
}

/* All slices' sums become the first one's, times what is added of them; waves along an axis of
 * length 1 are none. */
static void join_slices(const job *j)
{
    const low_state *s = j->s;
    bool u = s->height > 1, v = s->width > 1;
    const bool there[SUMS] = {true, u, u, v, v, u && v, u && v};
    int64_t n = s->channels;
    for (int i = 0; i < SUMS; i++)
        for (int64_t c = 0; c < n; c++) {
            double *sum = j->sums + i * n + c;
            for (int64_t slice = 1; slice < s->slices; slice++) *sum += sum[slice * SUMS * n];
            *sum = there[i] ? *sum * j->each : 0;
        }
}

static void add_row(const job *j, int64_t row, float *wave)
{
    const low_state *s = j->s;
    const graft_tensor_desc *x = &j->k->op.in[GRAFT_FACTOR_X], *y = &j->k->op.out;
    const double *sums = j->sums;
    int64_t n = s->channels;
    double cosine = s->cos_u[row], sine = s->sin_u[row];
    for (int64_t c = 0; c < n; c++) {
        double even = sums[COS_UV * n + c], odd = sums[SIN_UV * n + c];
        wave[c] =
            (float)(sums[ONE * n + c] + cosine * sums[COS_U * n + c] + sine * sums[SIN_U * n + c]);
        wave[n + c] = (float)(sums[COS_V * n + c] + cosine * even + sine * odd);
        wave[2 * n + c] = (float)(sums[SIN_V * n + c] - sine * even + cosine * odd);
    }
    j->k->d->simd->wave_add(graft_cpu_at(j->x, x->dtype, row * x->stride[1]), x->dtype,
                            x->stride[2], graft_cpu_at_mut(j->y, y->dtype, row * y->stride[1]),
                            y->dtype, y->stride[2], s->width, n, s->cos_v, s->sin_v, wave);
}

static void add_part(void *p, int part, int parts)
{
    const job *j = p;
    int64_t end = j->s->height * (part + 1) / parts;
    for (int64_t i = j->s->height * part / parts; i < end; i++)
        add_row(j, i, j->scratch + 3 * j->s->channels * part);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const low_state *s = k->state;
    const graft_tensor_desc *x = &k->op.in[GRAFT_FACTOR_X], *y = &k->op.out;
    job j = {.k = k, .s = s, .sums = workspace};
    j.scratch = (float *)(void *)((char *)workspace + s->at_scratch);
    j.each =
        ((double)*(const float *)in[GRAFT_FACTOR] - 1) / ((double)s->height * (double)s->width);
    for (int64_t i = 0; i < x->dim[0]; i++) {
        j.x = graft_cpu_at(in[GRAFT_FACTOR_X], x->dtype, i * x->stride[0]);
        j.y = graft_cpu_at_mut(out, y->dtype, i * y->stride[0]);
        graft_cpu_parallel(s->threads, sums_part, &j);
        join_slices(&j);
        graft_cpu_parallel(s->row_threads, add_part, &j);
    }
    return GRAFT_OK;
}

const graft_cpu_op graft_cpu_op_low_scale = {graft_cpu_check_factor,  init, NULL, NULL, launch,
                                             graft_cpu_inplace_factor};
