/* LINEAR in float32 and bfloat16 with our own products (simd.h, product): a block of rows is copied
 * to where no two of its rows share a set of a cache, multiplied by some panels of outputs, and
 * results go to memory once, finished. Every result is computed alone, so that it does not depend
 * on how the work is shared. */
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/linear.h"
#include "kernels/cpu/share.h"

#define BLOCK       GRAFT_CPU_PRODUCT_BLOCK
#define TILE        GRAFT_CPU_PRODUCT_ROWS
#define MATRIX_TILE GRAFT_CPU_PRODUCT_TILE_ROWS
#define WORD        4           /* bytes */
#define LINE        64          /* likewise */
#define ROWS        252         /* of a block: enough for weights that are read anew for each */
#define BYTES       (384 << 10) /* or more, as many as leave room for weights in the cache */
#define TASKS       8           /* for each thread, where there is enough work */
#define MOST_UNITS  8           /* taken at a time */
#define LEAST_UNITS 2           /* worth fetching a block of rows for */
#define SETS        4096        /* bytes after which lines share a set of the first-level cache */

#define MATRIX_BYTES (768 << 10) /* of a block that matrix instructions multiply at once */

typedef struct state {
    dnnl_memory_desc_t layout; /* of the weights */
    bool matrix;               /* by matrix instructions */
    bool widened;              /* rows of bfloat16 become float32 */
    int64_t rows, block, blocks;
    bool in_place;               /* rows are multiplied where they are */
    int64_t row, in_word;        /* then: elements from row to row; elements of a word */
    int64_t words, stride;       /* of a weight's row; words from row to row of a copied block */
    int64_t panels, wide, units; /* panels; of a unit; units of a block of rows */
    size_t at_threads, at_out, at_residual, at_sums, for_thread; /* in the workspace */
} state;

bool graft_cpu_has_panels(const graft_device *d, const graft_op_desc *op)
{
    const graft_tensor_desc *w = &op->in[GRAFT_LINEAR_W];
    int64_t block = op->attrs.act == GRAFT_ACT_GEGLU ? 2 * BLOCK : BLOCK;
    return d->simd->product && w->dim[0] % block == 0;
}

const dnnl_memory_desc_t *graft_cpu_panels_layout(const graft_kernel *k)
{
    const state *s = k->state;
    return &s->layout;
}

/* Equal blocks, whole tiles but for the last. */
static void divide(state *s)
{
    const int64_t part = GRAFT_CPU_PRODUCT_TILE_WORDS, tile = s->matrix ? MATRIX_TILE : TILE;
    int64_t most = s->matrix
                       ? MATRIX_BYTES / ((s->words < part ? s->words : part) * WORD) / tile * tile
                       : BYTES / (s->stride * WORD) / tile * tile;
    if (!s->matrix && most < ROWS) most = ROWS;
    s->blocks = graft_cpu_pieces(s->rows, most);
    s->block = graft_cpu_pieces(graft_cpu_pieces(s->rows, s->blocks), tile) * tile;
    s->blocks = graft_cpu_pieces(s->rows, s->block);
}

static graft_status pack(graft_kernel *k, int32_t input, graft_dtype t, const void *src, void *dst)
{
    (void)input;
    return graft_cpu_pack_weights(k->d, graft_cpu_panels_layout(k), 0, t, src, dst);
}

static graft_status pack_rows(graft_kernel *k, int32_t input, graft_dtype t, const void *src,
                              void *dst, int64_t first, int64_t rows)
{
    (void)input;
    return graft_cpu_pack_weight_rows(k->d, graft_cpu_panels_layout(k), 0, t, src, dst, first,
                                      rows);
}

/* Elements from each row of x to the next; 0: that differs. */
static int64_t row_stride(const graft_tensor_desc *x)
{
    for (int i = x->rank - 3; i >= 0; i--)
        if (x->dim[i] > 1 && x->stride[i] != x->dim[i + 1] * x->stride[i + 1]) return 0;
    return x->rank > 1 ? x->stride[x->rank - 2] : x->dim[0];
}

static void choose_rows(const graft_tensor_desc *x, state *s)
{
    int64_t size = (int64_t)graft_dtype_size(x->dtype);
    s->in_word = WORD / size;
    s->words = s->layout.padded_dims[1] / s->in_word;
    s->row = row_stride(x);
    s->in_place = !s->matrix && !s->widened && s->row > 0 && s->row % s->in_word == 0 &&
                  s->row * size % SETS != 0 && s->words * s->in_word == x->dim[x->rank - 1];
    /* An odd number of lines. */
    s->stride = s->matrix ? s->words : ((s->words << s->widened) / BLOCK | 1) * BLOCK;
}

static void lay_out(graft_kernel *k, state *s)
{
    size_t end = 0, threads = (size_t)k->d->host.threads;
    s->at_threads = threads * sizeof(graft_cpu_piece);
    graft_cpu_reserve(&end, (size_t)((s->in_place ? TILE : s->block) * s->stride) * WORD);
    s->at_out = graft_cpu_reserve(&end, (size_t)s->block * sizeof(void *));
    s->at_residual = graft_cpu_reserve(&end, (size_t)s->block * sizeof(void *));
    if (s->matrix)
        s->at_sums = graft_cpu_reserve(
            &end, (size_t)graft_cpu_product_tiles_sums(s->block, s->words, 1) * sizeof(float));
    s->for_thread = end;
    k->info.workspace_bytes = s->at_threads + end * threads;
}

static graft_status launch_until(graft_kernel *k, const void *const *in, void *out, void *workspace,
                                 graft_cpu_stop *stop);

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_LINEAR_X], *w = &k->op.in[GRAFT_LINEAR_W];
    const dnnl_dims_t dims = {w->dim[0], w->dim[1]};
    bool pairs = x->dtype == GRAFT_BF16;
    state *s = k->state = graft_cpu_calloc(k->d, sizeof *s);
    (void)variant; /* linear.c chose it */
    if (!s) return graft_fail_nomem(e, "a linear operator");
    k->pack_rows = pack_rows;
    k->launch_until = launch_until;
    graft_cpu_pack_as(k, GRAFT_LINEAR_BIAS, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_LINEAR_RESIDUAL, k->op.out.dtype);
    dnnl_status_t ds = dnnl_memory_desc_init_by_tag(
        &s->layout, 2, dims, pairs ? dnnl_bf16 : dnnl_f32, pairs ? dnnl_AB16b16a2b : dnnl_AB16b16a);
    graft_status st = graft_cpu_dnnl_fail(ds, "weights", e);
    if (st) return st;
    s->widened = pairs && !k->d->simd->product_bf16;
    s->matrix = pairs && graft_cpu_has_tiles(k->d);
    s->rows = graft_cpu_rows(x);
    s->panels = k->op.out.dim[k->op.out.rank - 1] / BLOCK;
    s->wide = k->op.attrs.act == GRAFT_ACT_GEGLU ? 1 : 2;
    s->units = graft_cpu_pieces(s->panels, s->wide);
    choose_rows(x, s);
    divide(s);
    lay_out(k, s);
    k->info.packed_bytes[GRAFT_LINEAR_W] = dnnl_memory_desc_get_size(&s->layout);
    k->info.packing[GRAFT_LINEAR_W] = graft_cpu_packing_weights(&s->layout, 0);
    snprintf(k->info.variant, sizeof k->info.variant, "panels %s",
             s->matrix ? "amx" : k->d->simd->name);
    return GRAFT_OK;
}

typedef struct launching {
    const graft_kernel *k;
    const state *s;
    const void *const *in;
    void *out;
    char *workspace;
    graft_cpu_share share;
} launching;

/* Copies rows of x, and fills the last word. */
static void copy_rows(const launching *l, int64_t first, int64_t rows, char *to)
{
    const graft_tensor_desc *x = &l->k->op.in[GRAFT_LINEAR_X];
    const graft_dtype t = l->s->widened ? GRAFT_F32 : x->dtype;
    int64_t n = x->dim[x->rank - 1], bytes = n * (int64_t)graft_dtype_size(t);
    int64_t whole = (l->s->words << l->s->widened) * WORD;
    for (int64_t i = 0; i < rows; i++, to += l->s->stride * WORD) {
        const void *row =
            graft_cpu_at(l->in[GRAFT_LINEAR_X], x->dtype, graft_cpu_row_offset(x, first + i));
        if (l->s->widened)
            l->k->d->simd->act(GRAFT_ACT_NONE, row, x->dtype, to, t, (size_t)n);
        else
            memcpy(to, row, (size_t)bytes);
        memset(to + bytes, 0, (size_t)(whole - bytes));
    }
}

/* Likewise, as matrix instructions take them. */
static void copy_tiles(const launching *l, int64_t first, int64_t rows, char *to)
{
    const graft_tensor_desc *x = &l->k->op.in[GRAFT_LINEAR_X];
    const int64_t n = x->dim[x->rank - 1] * 2, chunk = MATRIX_TILE * LINE;
    for (int64_t i = 0; i < rows; i++) {
        const char *from =
            graft_cpu_at(l->in[GRAFT_LINEAR_X], x->dtype, graft_cpu_row_offset(x, first + i));
        char *row =
            to + i / MATRIX_TILE * MATRIX_TILE * l->s->words * WORD + i % MATRIX_TILE * LINE;
        graft_cpu_product_tiles_row(from, n, chunk, row);
    }
}

/* Where a block's rows are, and where results go. */
static void begin_block(const launching *l, int64_t block, char *ws, graft_cpu_product *job)
{
    const graft_op_desc *op = &l->k->op;
    const graft_tensor_desc *x = &op->in[GRAFT_LINEAR_X], *y = &op->out;
    const graft_tensor_desc *residual = &op->in[GRAFT_LINEAR_RESIDUAL];
    const state *s = l->s;
    int64_t first = block * s->block, left = s->rows - first;
    void **out = (void **)(void *)(ws + s->at_out);
    const void **add = (const void **)(void *)(ws + s->at_residual);
    job->rows = left < s->block ? left : s->block;
    job->out = out;
    job->residual = l->in[GRAFT_LINEAR_RESIDUAL] ? add : NULL;
    int64_t whole = s->in_place ? job->rows / TILE * TILE : 0;
    if (s->matrix)
        copy_tiles(l, first, job->rows, ws);
    else
        copy_rows(l, first + whole, job->rows - whole, ws);
    job->x = (const float *)(const void *)ws;
    job->rest = job->x + (s->in_place ? 0 : job->rows / TILE * TILE * s->stride);
    if (s->in_place) job->x = graft_cpu_at(l->in[GRAFT_LINEAR_X], x->dtype, first * s->row);
    for (int64_t i = 0; i < job->rows; i++) {
        out[i] = graft_cpu_at_mut(l->out, y->dtype, graft_cpu_row_offset(y, first + i));
        if (job->residual)
            add[i] = graft_cpu_at(l->in[GRAFT_LINEAR_RESIDUAL], residual->dtype,
                                  graft_cpu_row_offset(residual, first + i));
    }
}

/* The block that this thread will probably get next is fetched while it multiplies. */
static void look_ahead(const launching *l, int own, int64_t block, graft_cpu_product *job)
{
    const graft_tensor_desc *x = &l->k->op.in[GRAFT_LINEAR_X];
    const state *s = l->s;
    int64_t n = x->dim[x->rank - 1], first = block * s->block, left = s->rows - first;
    if (left <= 0 || !graft_cpu_share_goes_on(&l->share, own) || !graft_cpu_is_dense(x)) return;
    job->ahead = graft_cpu_at(l->in[GRAFT_LINEAR_X], x->dtype, first * n);
    job->ahead_bytes =
        (left < s->block ? left : s->block) * n * (int64_t)graft_dtype_size(x->dtype);
}

/* A unit is a block of rows by so many panels. */
static void launch_part(void *ctx, int part, int parts)
{
    launching *l = ctx;
    const state *s = l->s;
    const graft_op_desc *op = &l->k->op;
    char *ws = l->workspace + s->at_threads + s->for_thread * (size_t)part;
    const int64_t whole_row = 0;
    int64_t held = -1, first, count;
    graft_cpu_product job = {.dtype = op->in[GRAFT_LINEAR_X].dtype,
                             .stride = s->in_place ? s->row / s->in_word : s->stride,
                             .rest_stride = s->stride,
                             .words = s->words,
                             .weight = l->in[GRAFT_LINEAR_W],
                             .block_stride = s->words * BLOCK,
                             .bias = l->in[GRAFT_LINEAR_BIAS],
                             .outputs = op->in[GRAFT_LINEAR_W].dim[0],
                             .act = op->attrs.act,
                             .out_type = op->out.dtype,
                             .residual_type = op->in[GRAFT_LINEAR_RESIDUAL].dtype,
                             .tile = MATRIX_TILE * s->words,
                             .chunk = MATRIX_TILE * LINE / WORD,
                             .tap = &whole_row,
                             .taps = 1,
                             .sums = (float *)(void *)(ws + s->at_sums)};
    void (*const product)(const graft_cpu_product *, int64_t, int64_t) =
        s->matrix ? graft_cpu_product_tiles : l->k->d->simd->product;
    (void)parts;
    while ((count = graft_cpu_share_take(&l->share, part, &first)) > 0) {
        for (int64_t end = first + count; first < end;) {
            int64_t block = first / s->units, from = first % s->units, to = from + end - first;
            if (to > s->units) to = s->units;
            if (block != held) begin_block(l, held = block, ws, &job);
            first += to - from;
            job.ahead = NULL;
            if (to == s->units) look_ahead(l, part, block + 1, &job);
            int64_t panel = from * s->wide, last = to * s->wide;
            product(&job, panel, (last < s->panels ? last : s->panels) - panel);
        }
    }
}

static graft_status launch_until(graft_kernel *k, const void *const *in, void *out, void *workspace,
                                 graft_cpu_stop *stop)
{
    const state *s = k->state;
    int64_t units = s->blocks * s->units, work = s->rows * s->panels * s->words;
    int threads = graft_cpu_threads(k->d, work);
    launching l = {.k = k, .s = s, .in = in, .out = out, .workspace = workspace};
    l.share.most = units / (TASKS * threads) < MOST_UNITS ? units / (TASKS * threads) : MOST_UNITS;
    l.share.stop = stop;
    l.share.least = LEAST_UNITS;
    graft_cpu_share_begin(&l.share, workspace, units, threads);
    graft_cpu_parallel(threads, launch_part, &l);
    return GRAFT_OK;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    return launch_until(k, in, out, workspace, NULL);
}

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st = graft_cpu_linear_check(op, e);
    if (!st && !graft_cpu_has_panels(d, op))
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "linear: no panels");
    return st;
}

const graft_cpu_op graft_cpu_op_linear_panels = {check, init, NULL, pack, launch, NULL};
