/* CONV2D in bfloat16 and in int8 (kernels/quant.h) by AMX's matrix instructions (simd.h,
 * graft_cpu_product_tiles).
 *
 * A panel of outputs is one product for all weights of the filter: the pixels that it sees are
 * copied with their padding to where the next output sees the next pixel, also across the end of a
 * row, so that any 32 outputs are a tile of rows. The few outputs between two rows of
 * the picture are computed and dropped. With a stride pixels of a remainder lie together, in a
 * plane for each. Panels are as large as leaves room in the second-level cache for the weights they
 * are multiplied with; of small pictures some share a panel, and so the reading of weights. */
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/conv2d.h"
#include "kernels/cpu/int8.h"
#include "kernels/cpu/share.h"
#include "kernels/quant.h"

#define BLOCK       GRAFT_CPU_PRODUCT_BLOCK
#define TILE        GRAFT_CPU_PRODUCT_TILE_ROWS
#define WORD        4  /* bytes */
#define CHUNK       16 /* words of a pixel that lie together */
#define LINE        (CHUNK * WORD)
#define BYTES       (768 << 10) /* of a panel that are multiplied at once */
#define ACROSS      64          /* outputs of a row, where it is cut */
#define WIDE        2           /* blocks of outputs of a unit */
#define EACH        4 /* units that a thread should have, at the price of smaller panels */
#define MOST_UNITS  8 /* taken at a time */
#define LEAST_UNITS 2 /* worth copying a panel for */

/* A panel: `images` pictures by `down` rows by `across` columns of outputs, of which those at the
 * ends of the picture may be fewer. */
typedef struct tiles {
    dnnl_memory_desc_t layout; /* of the weights */
    bool int8;                 /* what is multiplied are levels */
    int64_t height, width;     /* of the input as the convolution sees it */
    int64_t words;             /* of a pixel */
    int64_t images, down, across;
    int64_t plane_h, plane_w;           /* planes: the remainders of rows and of columns */
    int64_t rows, columns;              /* pixels of one picture in a plane */
    int64_t at_images, at_down, panels; /* panels beside each other, of a row of them; all */
    int64_t units, blocks;              /* of a panel; blocks of outputs */
    size_t at_scale, at_threads;        /* in the workspace */
    size_t at_out, at_add, at_row_scale, at_sums, for_thread; /* in a thread's part of it */
    int64_t tap[];
} tiles;

bool graft_cpu_has_conv2d_tiles(const graft_device *d, const graft_op_desc *op)
{
    bool can = op->attrs.quant == GRAFT_QUANT_INT8 ||
               (!op->attrs.quant && op->in[GRAFT_CONV_X].dtype == GRAFT_BF16);
    return can && graft_cpu_has_tiles(d) && op->in[GRAFT_CONV_W].dim[0] % BLOCK == 0 &&
           !(graft_cpu_present(&op->in[GRAFT_CONV_CHANNEL_ADD]) &&
             graft_cpu_present(&op->in[GRAFT_CONV_RESIDUAL]));
}

const dnnl_memory_desc_t *graft_cpu_conv2d_tiles_layout(const graft_kernel *k)
{
    const tiles *s = k->state;
    return &s->layout;
}

/* Equal parts of n, each of `most` at most. */
static int64_t part_of(int64_t n, int64_t most)
{
    return graft_cpu_pieces(n, graft_cpu_pieces(n, most < 1 ? 1 : most));
}

/* Panels of about so many pixels. */
static void divide(const graft_op_desc *op, int64_t pixels, tiles *s)
{
    const graft_tensor_desc *w = &op->in[GRAFT_CONV_W], *y = &op->out;
    const int64_t more_h = (w->dim[2] - 1) / op->attrs.stride_h;
    const int64_t more_w = (w->dim[3] - 1) / op->attrs.stride_w;
    pixels /= s->plane_h * s->plane_w;
    s->across = part_of(y->dim[2], y->dim[2] < 2 * ACROSS ? y->dim[2] : ACROSS);
    s->columns = s->across + more_w;
    s->down = part_of(y->dim[1], pixels / s->columns - more_h);
    s->rows = s->down + more_h;
    bool whole = s->down == y->dim[1] && s->across == y->dim[2];
    s->images = whole ? part_of(y->dim[0], pixels / (s->rows * s->columns)) : 1;
    s->at_images = graft_cpu_pieces(y->dim[0], s->images);
    s->at_down = graft_cpu_pieces(y->dim[1], s->down);
    s->panels = s->at_images * s->at_down * graft_cpu_pieces(y->dim[2], s->across);
}

static void plan(const graft_op_desc *op, int threads, tiles *s)
{
    const graft_tensor_desc *w = &op->in[GRAFT_CONV_W];
    const int64_t taps = w->dim[2] * w->dim[3], sh = op->attrs.stride_h, sw = op->attrs.stride_w;
    graft_cpu_conv2d_input_size(op, &s->height, &s->width);
    s->words = s->layout.padded_dims[1] / (s->int8 ? 4 : 2);
    s->plane_h = sh < w->dim[2] ? sh : w->dim[2];
    s->plane_w = sw < w->dim[3] ? sw : w->dim[3];
    s->blocks = w->dim[0] / BLOCK;
    s->units = graft_cpu_pieces(s->blocks, WIDE);
    int64_t pixels = BYTES / (graft_cpu_product_tiles_part(s->words, taps) * WORD);
    do divide(op, pixels, s);
    while (s->panels * s->units < (int64_t)threads * EACH && (pixels /= 2) >= 4 * TILE);
    int64_t plane = s->images * s->rows * s->columns;
    for (int64_t t = 0; t < taps; t++) {
        int64_t y = t / w->dim[3], x = t % w->dim[3];
        s->tap[t] =
            (((y % sh) * s->plane_w + x % sw) * plane + y / sh * s->columns + x / sw) * CHUNK;
    }
}

/* Pixels of a panel, and what its last rows see beyond it. */
static int64_t pixels_of(const tiles *s)
{
    return s->plane_h * s->plane_w * s->images * s->rows * s->columns + TILE;
}

static void lay_out(graft_kernel *k, tiles *s)
{
    const graft_tensor_desc *w = &k->op.in[GRAFT_CONV_W];
    const int64_t rows = s->images * s->rows * s->columns;
    size_t begin = 0, end = 0, threads = (size_t)k->d->host.threads;
    graft_cpu_reserve(&begin, threads * sizeof(graft_cpu_piece));
    if (s->int8)
        s->at_scale = graft_cpu_reserve(&begin, (size_t)(k->op.out.dim[0] + GRAFT_CPU_INT8_PARTS) *
                                                    sizeof(float));
    s->at_threads = begin;
    graft_cpu_reserve(&end, (size_t)(pixels_of(s) * s->words) * WORD);
    s->at_out = graft_cpu_reserve(&end, (size_t)rows * sizeof(void *));
    s->at_add = graft_cpu_reserve(&end, (size_t)rows * sizeof(void *));
    if (s->int8) s->at_row_scale = graft_cpu_reserve(&end, (size_t)rows * sizeof(float));
    s->at_sums = graft_cpu_reserve(
        &end, (size_t)graft_cpu_product_tiles_sums(rows, s->words, w->dim[2] * w->dim[3]) *
                  sizeof(float));
    s->for_thread = end;
    k->info.workspace_bytes = s->at_threads + end * threads;
}

static graft_status pack(graft_kernel *k, int32_t input, graft_dtype t, const void *src, void *dst)
{
    const dnnl_memory_desc_t *layout = graft_cpu_conv2d_tiles_layout(k);
    const tiles *s = k->state;
    (void)input;
    return s->int8 ? graft_cpu_int8_pack(k->d, layout, 0, t, src, dst)
                   : graft_cpu_pack_weights(k->d, layout, 0, t, src, dst);
}

static graft_status pack_rows(graft_kernel *k, int32_t input, graft_dtype t, const void *src,
                              void *dst, int64_t first, int64_t rows)
{
    (void)input;
    return graft_cpu_pack_weight_rows(k->d, graft_cpu_conv2d_tiles_layout(k), 0, t, src, dst, first,
                                      rows);
}

static graft_status launch_until(graft_kernel *k, const void *const *in, void *out, void *workspace,
                                 graft_cpu_stop *stop);

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    const int64_t *dim = k->op.in[GRAFT_CONV_W].dim;
    const dnnl_dims_t dims = {dim[0], dim[1], dim[2], dim[3]};
    tiles *s = k->state =
        graft_cpu_calloc(k->d, sizeof *s + (size_t)(dim[2] * dim[3]) * sizeof *s->tap);
    (void)variant; /* conv2d.c chose it */
    if (!s) return graft_fail_nomem(e, "a convolution");
    s->int8 = k->op.attrs.quant == GRAFT_QUANT_INT8;
    if (!s->int8) k->pack_rows = pack_rows;
    k->launch_until = launch_until;
    graft_cpu_pack_as(k, GRAFT_CONV_BIAS, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_CONV_CHANNEL_ADD, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_CONV_RESIDUAL, k->op.out.dtype);
    dnnl_status_t ds =
        dnnl_memory_desc_init_by_tag(&s->layout, 4, dims, s->int8 ? dnnl_s8 : dnnl_bf16,
                                     s->int8 ? dnnl_OIhw16i16o4i : dnnl_OIhw16i16o2i);
    graft_status st = graft_cpu_dnnl_fail(ds, "weights", e);
    if (st) return st;
    plan(&k->op, k->d->host.threads, s);
    lay_out(k, s);
    k->info.packed_bytes[GRAFT_CONV_W] =
        s->int8 ? graft_cpu_int8_bytes(&s->layout, dim[0]) : dnnl_memory_desc_get_size(&s->layout);
    k->info.packing[GRAFT_CONV_W] =
        s->int8 ? graft_cpu_int8_packing(&s->layout, 0) : graft_cpu_packing_weights(&s->layout, 0);
    snprintf(k->info.variant, sizeof k->info.variant, "%samx %d panels", s->int8 ? "int8 " : "",
             (int)s->panels);
    return GRAFT_OK;
}

typedef struct launching {
    const graft_kernel *k;
    const tiles *s;
    const void *const *in;
    void *out;
    char *workspace;
    const float *scale; /* of each picture, with levels */
    graft_cpu_share share;
} launching;

/* The first output of a panel, and how many of each there are. */
typedef struct panel {
    int64_t image, y, x;
    int64_t images, down, across;
} panel;

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static panel panel_of(const launching *l, int64_t i)
{
    const tiles *s = l->s;
    const int64_t *dim = l->k->op.out.dim;
    panel p = {.image = i % s->at_images * s->images,
               .y = i / s->at_images % s->at_down * s->down,
               .x = i / s->at_images / s->at_down * s->across};
    p.images = at_most(s->images, dim[0] - p.image);
    p.down = at_most(s->down, dim[1] - p.y);
    p.across = at_most(s->across, dim[2] - p.x);
    return p;
}

/* Levels of a pixel to its chunks, zeros to the end of the last. */
static void quantize_pixel(const launching *l, const void *x, float inverse, int64_t chunk,
                           char *to)
{
    const graft_tensor_desc *from = &l->k->op.in[GRAFT_CONV_X];
    const int64_t n = from->dim[3];
    for (int64_t i = 0; i < n; i += LINE, to += chunk) {
        int64_t count = at_most(LINE, n - i);
        l->k->d->simd->to_s8(graft_cpu_at(x, from->dtype, i), from->dtype, inverse, (int8_t *)to,
                             (size_t)count);
        memset(to + count, 0, (size_t)(LINE - count));
    }
}

/* A row of a plane: pixels from (y, x) on, `step` columns apart, zeros beyond the picture. */
static void copy_row(const launching *l, int64_t image, int64_t y, int64_t x, int64_t step,
                     char *to)
{
    const tiles *s = l->s;
    const graft_tensor_desc *from = &l->k->op.in[GRAFT_CONV_X];
    const int shift = l->k->op.attrs.upsample == 2;
    const int64_t chunk = pixels_of(s) * LINE;
    const int64_t row = image * from->stride[0] + (y >> shift) * from->stride[1];
    const float inverse = s->int8 ? graft_quant_inverse(l->scale[image]) : 0;
    const bool inside = y >= 0 && y < s->height;
    for (int64_t i = 0; i < s->columns; i++, x += step, to += LINE) {
        if (!inside || x < 0 || x >= s->width) {
            for (int64_t c = 0; c < s->words / CHUNK; c++) memset(to + c * chunk, 0, LINE);
            continue;
        }
        const void *pixel =
            graft_cpu_at(l->in[GRAFT_CONV_X], from->dtype, row + (x >> shift) * from->stride[2]);
        if (s->int8)
            quantize_pixel(l, pixel, inverse, chunk, to);
        else
            graft_cpu_product_tiles_row(pixel, from->dim[3] * 2, chunk, to);
    }
}

/* The pixels that a panel sees. */
static void copy_panel(const launching *l, const panel *p, char *to)
{
    const tiles *s = l->s;
    const graft_attrs *a = &l->k->op.attrs;
    const int64_t row = s->columns * LINE, chunk = pixels_of(s) * LINE;
    for (int64_t plane = 0; plane < s->plane_h * s->plane_w; plane++) {
        int64_t y = p->y * a->stride_h + plane / s->plane_w - a->pad_top;
        int64_t x = p->x * a->stride_w + plane % s->plane_w - a->pad_left;
        for (int64_t i = 0; i < s->images; i++)
            for (int64_t r = 0; r < s->rows; r++, to += row)
                copy_row(l, at_most(p->image + i, l->k->op.out.dim[0] - 1), y + r * a->stride_h, x,
                         a->stride_w, to);
    }
    for (int64_t c = 0; c < s->words / CHUNK; c++) memset(to + c * chunk, 0, TILE * LINE);
}

/* Where results go, NULL: nowhere; what is added to them, and with levels their pictures' scales.
 */
static void place_panel(const launching *l, const panel *p, void **out, const void **add,
                        float *row_scale)
{
    const tiles *s = l->s;
    const graft_op_desc *op = &l->k->op;
    const graft_tensor_desc *y = &op->out, *r = &op->in[GRAFT_CONV_RESIDUAL];
    const graft_tensor_desc *c = &op->in[GRAFT_CONV_CHANNEL_ADD];
    int64_t i = 0;
    for (int64_t n = p->image; n < p->image + p->images; n++) {
        for (int64_t h = p->y; h < p->y + s->rows; h++) {
            for (int64_t w = p->x; w < p->x + s->columns; w++, i++) {
                out[i] = NULL;
                if (row_scale) row_scale[i] = l->scale[n];
                if (h >= p->y + p->down || w >= p->x + p->across) continue;
                out[i] = graft_cpu_at_mut(l->out, y->dtype,
                                          n * y->stride[0] + h * y->stride[1] + w * y->stride[2]);
                if (l->in[GRAFT_CONV_RESIDUAL])
                    add[i] = graft_cpu_at(l->in[GRAFT_CONV_RESIDUAL], r->dtype,
                                          n * r->stride[0] + h * r->stride[1] + w * r->stride[2]);
                else if (l->in[GRAFT_CONV_CHANNEL_ADD])
                    add[i] =
                        graft_cpu_at(l->in[GRAFT_CONV_CHANNEL_ADD], c->dtype, n * c->stride[0]);
            }
        }
    }
}

static void begin_panel(const launching *l, int64_t i, char *ws, graft_cpu_product *job)
{
    const tiles *s = l->s;
    const panel p = panel_of(l, i);
    const void **add = (const void **)(void *)(ws + s->at_add);
    void **out = (void **)(void *)(ws + s->at_out);
    float *row_scale = s->int8 ? (float *)(void *)(ws + s->at_row_scale) : NULL;
    copy_panel(l, &p, ws);
    place_panel(l, &p, out, add, row_scale);
    job->x = (const float *)(const void *)ws;
    job->rows = ((p.images - 1) * s->rows + p.down - 1) * s->columns + p.across;
    job->out = out;
    job->row_scale = row_scale;
    job->residual = l->in[GRAFT_CONV_RESIDUAL] || l->in[GRAFT_CONV_CHANNEL_ADD] ? add : NULL;
}

/* A unit is a panel by so many outputs. */
static void launch_part(void *ctx, int part, int parts)
{
    launching *l = ctx;
    const tiles *s = l->s;
    const graft_op_desc *op = &l->k->op;
    const int64_t taps = op->in[GRAFT_CONV_W].dim[2] * op->in[GRAFT_CONV_W].dim[3];
    char *ws = l->workspace + s->at_threads + s->for_thread * (size_t)part;
    int64_t held = -1, first, count;
    graft_cpu_product job = {
        .dtype = s->int8 ? GRAFT_I8 : GRAFT_BF16,
        .tile = TILE * CHUNK,
        .chunk = pixels_of(s) * CHUNK,
        .words = s->words,
        .weight = l->in[GRAFT_CONV_W],
        .block_stride = s->words * taps * BLOCK,
        .bias = l->in[GRAFT_CONV_BIAS],
        .outputs = op->out.dim[3],
        .act = op->attrs.act,
        .out_type = op->out.dtype,
        .residual_type = l->in[GRAFT_CONV_RESIDUAL] ? op->in[GRAFT_CONV_RESIDUAL].dtype
                                                    : op->in[GRAFT_CONV_CHANNEL_ADD].dtype,
        .tap = s->tap,
        .taps = taps,
        .scale = s->int8 ? graft_cpu_int8_scales(&s->layout, l->in[GRAFT_CONV_W]) : NULL,
        .sums = (float *)(void *)(ws + s->at_sums)};
    (void)parts;
    while ((count = graft_cpu_share_take(&l->share, part, &first)) > 0) {
        for (int64_t end = first + count; first < end;) {
            int64_t at = first / s->units, from = first % s->units;
            int64_t to = at_most(from + end - first, s->units);
            if (at != held) begin_panel(l, held = at, ws, &job);
            first += to - from;
            graft_cpu_product_tiles(&job, from * WIDE, at_most(to * WIDE, s->blocks) - from * WIDE);
        }
    }
}

/* Every picture has a scale of its own, so that a batch is what its pictures are alone. */
static const float *find_scales(const graft_kernel *k, const void *x, char *workspace)
{
    const tiles *s = k->state;
    const graft_tensor_desc *d = &k->op.in[GRAFT_CONV_X];
    float *scale = (float *)(void *)(workspace + s->at_scale), *each = scale + d->dim[0];
    for (int64_t n = 0; n < d->dim[0]; n++) {
        float most =
            graft_cpu_int8_most(k->d, d, graft_cpu_at(x, d->dtype, n * d->stride[0]), each);
        scale[n] = graft_quant_scale(most, 127.0f);
    }
    return scale;
}

static graft_status launch_until(graft_kernel *k, const void *const *in, void *out, void *workspace,
                                 graft_cpu_stop *stop)
{
    const tiles *s = k->state;
    int64_t units = s->panels * s->units, most;
    int threads = graft_cpu_threads(k->d, graft_cpu_elements(&k->op.in[GRAFT_CONV_W]) +
                                              graft_cpu_elements(&k->op.out));
    launching l = {.k = k, .s = s, .in = in, .out = out, .workspace = workspace};
    if (s->int8) l.scale = find_scales(k, in[GRAFT_CONV_X], workspace);
    most = units / (EACH * threads);
    l.share.most = at_most(most, MOST_UNITS);
    l.share.stop = stop;
    l.share.least = s->panels > 1 ? LEAST_UNITS : 1;
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
    graft_status st = graft_cpu_conv2d_check(op, e);
    if (!st && !graft_cpu_has_conv2d_tiles(d, op))
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "conv2d: no matrix instructions");
    return st;
}

const graft_cpu_op graft_cpu_op_conv2d_tiles = {check, init, NULL, pack, launch, NULL};
