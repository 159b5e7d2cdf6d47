#include "kernels/cpu/int8_panels.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cpu/int8.h"
#include "kernels/cpu/primitive.h"
#include "kernels/cpu/share.h"
#include "kernels/quant.h"

#define PANEL   GRAFT_CPU_INT8_PANEL
#define PACKING 0x70616e65u
#define WHOLE   16 /* quads that matrix instructions take at once */

/* Bytes of levels that leave room for a panel in the second-level cache, of which processors with
 * matrix instructions have 2 MiB; and these read weights faster than memory gives them twice. */
#define LEVELS        (512 << 10)
#define MATRIX_LEVELS (1 << 20)
#define LEAST_TILES   8  /* fewer in a block would read weights too often */
#define LEAST_PANELS  16 /* fewer would quantize rows too often */
#define WORTH         4  /* panels that are worth quantizing a block of rows again */
#define TASKS         8  /* for each thread, where there is enough work */
#define MOST_PANELS   8  /* taken at a time */

bool graft_cpu_panels_can(const graft_device *d)
{
    return d->simd->int8_multiply != NULL;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static size_t weight_bytes(const graft_cpu_panels *p)
{
    return (size_t)(p->panels * PANEL * 4 * p->quads);
}

static size_t start_bytes(const graft_cpu_panels *p)
{
    return (size_t)(p->panels * PANEL) * sizeof(int32_t);
}

/* How many outputs of the panel there are in each half, the first of which is `first`; the other
 * half is behind it, or with GEGLU behind all values. */
typedef struct place {
    int64_t first[2], count[2];
} place;

static place place_of(const graft_kernel *k, int64_t panel)
{
    int64_t wide = k->op.in[GRAFT_LINEAR_W].dim[0];
    bool geglu = k->op.attrs.act == GRAFT_ACT_GEGLU;
    int64_t half = PANEL / 2, first = panel * (geglu ? half : PANEL), all = geglu ? wide / 2 : wide;
    int64_t second = geglu ? first + all : first + half;
    place p = {{first, second}, {least(all - first, half), 0}};
    p.count[1] = geglu ? p.count[0] : most(0, least(all - second, half));
    return p;
}

/* Few large blocks, since each reads all weights. Threads begin with blocks of their own, unless
 * outputs are so many that what it takes to quantize rows twice does not count. */
static void divide(graft_cpu_panels *p, int64_t threads)
{
    const int64_t levels = p->matrix ? MATRIX_LEVELS : LEVELS;
    p->blocks = graft_cpu_pieces(p->tiles, most(LEAST_TILES, levels / p->stride / p->rows));
    if (p->blocks > 1 || p->panels < LEAST_PANELS * threads)
        p->blocks = least(p->tiles, graft_cpu_pieces(p->blocks, threads) * threads);
    p->most = graft_cpu_pieces(p->tiles, p->blocks);
}

void graft_cpu_panels_init(graft_kernel *k, graft_cpu_panels *p, bool matrix)
{
    const graft_tensor_desc *w = &k->op.in[GRAFT_LINEAR_W];
    bool geglu = k->op.attrs.act == GRAFT_ACT_GEGLU;
    int64_t rows = graft_cpu_rows(&k->op.in[GRAFT_LINEAR_X]);
    p->matrix = matrix;
    p->rows = matrix ? GRAFT_CPU_INT8_TILE_ROWS : GRAFT_CPU_INT8_ROWS;
    p->tiles = graft_cpu_pieces(rows, p->rows);
    p->panels = graft_cpu_pieces(geglu ? w->dim[0] / 2 : w->dim[0], geglu ? PANEL / 2 : PANEL);
    p->quads = graft_cpu_pieces(w->dim[1], 4);
    if (matrix) p->quads = graft_cpu_pieces(p->quads, WHOLE) * WHOLE;
    /* An odd number of lines: rows of a tile do not fall on the same cache sets. */
    p->stride = (p->quads * 4 / 64 | 1) * 64;
    if (p->stride < p->quads * 4) p->stride += 128;
    divide(p, k->d->host.threads);
    int64_t block = p->most * p->rows;
    size_t end = 0, threads = (size_t)k->d->host.threads;
    p->at_threads = threads * sizeof(graft_cpu_piece);
    graft_cpu_reserve(&end, (size_t)(block * p->stride));
    p->at_scale = graft_cpu_reserve(&end, (size_t)block * sizeof(float));
    p->at_out = graft_cpu_reserve(&end, (size_t)block * sizeof(void *));
    p->at_residual = graft_cpu_reserve(&end, (size_t)block * sizeof(void *));
    p->at_turned = graft_cpu_reserve(&end, graft_cpu_int8_turned(&k->op));
    p->for_thread = end;
    k->info.workspace_bytes = p->at_threads + end * threads;
    k->info.packed_bytes[GRAFT_LINEAR_W] =
        weight_bytes(p) + start_bytes(p) + (size_t)w->dim[0] * sizeof(float);
    /* Without a rest both are the same. */
    bool padded = p->quads > graft_cpu_pieces(w->dim[1], 4);
    k->info.packing[GRAFT_LINEAR_W] = PACKING + geglu + 2 * padded;
    snprintf(k->info.variant, sizeof k->info.variant, "int8 panels %s",
             matrix ? "amx" : k->d->simd->name);
}

/* ------------------------------------------------------------------ weights */

typedef struct packing {
    const graft_kernel *k;
    const graft_cpu_panels *p;
    const int8_t *level;
    const int64_t *at; /* of each four inputs in a panel */
    int8_t *weight;
    int32_t *start;
} packing;

/* Up to sixteen outputs of a panel, four inputs of each a line. */
static void pack_half(const packing *g, int64_t first, int64_t count, int8_t *to, int32_t *start)
{
    int64_t n = g->k->op.in[GRAFT_LINEAR_W].dim[1], whole = n / 4;
    const int8_t *from = g->level + first * n;
    int64_t done = count == PANEL / 2 ? whole : 0;
    if (done) g->k->d->simd->lines(from, (size_t)n, PANEL / 2, false, (size_t)done, g->at, to);
    for (int64_t i = done; i < g->p->quads; i++)
        for (int64_t o = 0; o < PANEL / 2; o++)
            for (int64_t j = 0; j < 4; j++)
                to[g->at[i] + 4 * o + j] = o < count && 4 * i + j < n ? from[o * n + 4 * i + j] : 0;
    for (int64_t o = 0; o < PANEL / 2; o++) {
        start[o] = o < count ? -128 * g->k->d->simd->sum_s8(from + o * n, (size_t)n) : 0;
    }
}

static void pack_part(void *ctx, int part, int parts)
{
    const packing *g = ctx;
    int64_t end = g->p->panels * (part + 1) / parts;
    for (int64_t i = g->p->panels * part / parts; i < end; i++) {
        place p = place_of(g->k, i);
        for (int h = 0; h < 2; h++)
            pack_half(g, p.first[h], p.count[h],
                      g->weight + i * PANEL * 4 * g->p->quads + h * PANEL * 2,
                      g->start + i * PANEL + h * PANEL / 2);
    }
    g->k->d->simd->drain();
}

graft_status graft_cpu_panels_pack(graft_kernel *k, const graft_cpu_panels *p, graft_dtype from,
                                   const void *src, void *dst)
{
    const int64_t *w = k->op.in[GRAFT_LINEAR_W].dim;
    graft_cpu_int8_levels level;
    int64_t *at = graft_cpu_calloc(k->d, (size_t)p->quads * sizeof *at);
    if (!at) return GRAFT_E_NOMEM;
    char *scale = (char *)dst + weight_bytes(p) + start_bytes(p);
    graft_status st = graft_cpu_int8_levels_of(k->d, GRAFT_QUANT_INT8, from, src, w[0], w[1],
                                               (float *)(void *)scale, &level);
    if (!st) {
        for (int64_t i = 0; i < p->quads; i++) at[i] = i * PANEL * 4;
        packing g = {k,  p,   level.level,
                     at, dst, (int32_t *)(void *)((char *)dst + weight_bytes(p))};
        graft_cpu_parallel(graft_cpu_threads(k->d, w[0] * w[1]), pack_part, &g);
        graft_cpu_free(k->d, level.own);
    }
    graft_cpu_free(k->d, at);
    return st;
}

/* ------------------------------------------------------------------ launch */

typedef struct launching {
    const graft_kernel *k;
    const graft_cpu_panels *p;
    const void *const *in;
    void *out;
    char *workspace;
    graft_cpu_share share;
} launching;

/* Levels of a block's rows, and where results go. */
static void begin_block(const launching *l, int64_t block, char *ws, graft_cpu_int8 *job)
{
    const graft_op_desc *op = &l->k->op;
    const graft_tensor_desc *x = &op->in[GRAFT_LINEAR_X], *y = &op->out;
    const graft_tensor_desc *residual = &op->in[GRAFT_LINEAR_RESIDUAL];
    const graft_cpu_simd *simd = l->k->d->simd;
    const graft_cpu_panels *p = l->p;
    int64_t first = block * p->tiles / p->blocks * p->rows, n = x->dim[x->rank - 1];
    int64_t end = least((block + 1) * p->tiles / p->blocks * p->rows, graft_cpu_rows(x));
    float *scale = (float *)(void *)(ws + p->at_scale);
    void **out = (void **)(void *)(ws + p->at_out);
    const void **add = (const void **)(void *)(ws + p->at_residual);
    job->rows = end - first;
    job->level = (uint8_t *)ws;
    job->row_scale = scale;
    job->out = out;
    job->residual = l->in[GRAFT_LINEAR_RESIDUAL] ? add : NULL;
    for (int64_t i = 0; i < job->rows; i++) {
        const void *row =
            graft_cpu_at(l->in[GRAFT_LINEAR_X], x->dtype, graft_cpu_row_offset(x, first + i));
        graft_cpu_int8_row r =
            graft_cpu_int8_row_of(l->k, row, (float *)(void *)(ws + p->at_turned));
        scale[i] = graft_quant_scale(simd->absmax(r.x, r.type, (size_t)n), 127.0f);
        simd->int8_levels(r.x, r.type, graft_quant_inverse(scale[i]), (uint8_t *)ws + i * p->stride,
                          (size_t)n);
        out[i] = graft_cpu_at_mut(l->out, y->dtype, graft_cpu_row_offset(y, first + i));
        if (job->residual)
            add[i] = graft_cpu_at(l->in[GRAFT_LINEAR_RESIDUAL], residual->dtype,
                                  graft_cpu_row_offset(residual, first + i));
    }
}

/* The block that this thread will probably get next is fetched while it multiplies. */
static void look_ahead(const launching *l, int own, int64_t block, graft_cpu_int8 *job)
{
    const graft_tensor_desc *x = &l->k->op.in[GRAFT_LINEAR_X];
    const graft_cpu_panels *p = l->p;
    int64_t n = x->dim[x->rank - 1], rows = graft_cpu_rows(x);
    if (block >= p->blocks || !graft_cpu_share_goes_on(&l->share, own) || !graft_cpu_is_dense(x))
        return;
    int64_t first = block * p->tiles / p->blocks * p->rows;
    int64_t end = least((block + 1) * p->tiles / p->blocks * p->rows, rows);
    job->ahead = graft_cpu_at(l->in[GRAFT_LINEAR_X], x->dtype, first * n);
    job->ahead_bytes = (end - first) * n * (int64_t)graft_dtype_size(x->dtype);
}

static void launch_part(void *ctx, int part, int parts)
{
    launching *l = ctx;
    const graft_cpu_panels *p = l->p;
    const graft_op_desc *op = &l->k->op;
    const char *w = l->in[GRAFT_LINEAR_W];
    char *ws = l->workspace + p->at_threads + p->for_thread * (size_t)part;
    graft_cpu_int8 job = {.stride = p->stride,
                          .quads = p->quads,
                          .weight = (const int8_t *)w,
                          .start = (const int32_t *)(const void *)(w + weight_bytes(p)),
                          .scale =
                              (const float *)(const void *)(w + weight_bytes(p) + start_bytes(p)),
                          .bias = l->in[GRAFT_LINEAR_BIAS],
                          .outputs = op->in[GRAFT_LINEAR_W].dim[0],
                          .act = op->attrs.act,
                          .out_type = op->out.dtype,
                          .residual_type = op->in[GRAFT_LINEAR_RESIDUAL].dtype};
    void (*multiply)(const graft_cpu_int8 *, int64_t, int64_t) =
        p->matrix ? graft_cpu_int8_tiles : l->k->d->simd->int8_multiply;
    int64_t held = -1, first, count;
    (void)parts;
    while ((count = graft_cpu_share_take(&l->share, part, &first)) > 0) {
        for (int64_t end = first + count; first < end;) {
            int64_t block = first / p->panels, from = first % p->panels;
            int64_t panels = least(end - first, p->panels - from);
            if (block != held) begin_block(l, held = block, ws, &job);
            job.ahead = NULL;
            if (from + panels == p->panels) look_ahead(l, part, block + 1, &job);
            multiply(&job, from, panels);
            first += panels;
        }
    }
}

void graft_cpu_panels_launch(graft_kernel *k, const graft_cpu_panels *p, const void *const *in,
                             void *out, void *workspace)
{
    launching l = {.k = k, .p = p, .in = in, .out = out, .workspace = workspace};
    int64_t work = p->tiles * p->rows * p->quads * p->panels; /* as if each took 32 * 4 products */
    int64_t units = p->blocks * p->panels;
    int threads = graft_cpu_threads(k->d, work);
    l.share.most = least(MOST_PANELS, units / (TASKS * threads));
    l.share.least = WORTH;
    graft_cpu_share_begin(&l.share, workspace, units, threads);
    graft_cpu_parallel(threads, launch_part, &l);
}
