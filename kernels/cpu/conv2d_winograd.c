/* CONV2D 3x3 by Winograd's F(4x4, 3x3), F(6x6, 3x3), F(8x4, 3x3) and F(8x8, 3x3): a fourth to a
 * sixth of the multiplications, of doubled pictures a seventh, in float32 whatever the tensors are
 * (simd/winograd.c has the arithmetic).
 *
 * Weights stay as they are and are transformed in every launch: four to eleven times their size
 * would otherwise be resident, and slow to swap. A thread takes a panel of tiles, transforms their
 * pixels once, and then some outputs after the other: it transforms their weights for a few inputs
 * at a time, uses them for the whole panel while they are in its second-level cache, and adds up
 * there. Threads share nothing but the way the work is cut into units of a panel and some outputs.
 *
 * A result of half of x's size or less can take the place of a large x. Its first rows are computed
 * from a copy of what they read, then as many at a time as end before the first row that they read:
 * about as many again as there are. So all but the first are read where they are. */
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/conv2d.h"
#include "kernels/cpu/share.h"

#define BLOCK       16                  /* channels of a block of weights */
#define MOST_SIDE   10                  /* pixels of a tile, a side, at most */
#define CHUNK       32                  /* inputs worked on at a time, at most */
#define OUTPUTS     32                  /* likewise */
#define INPUT_BYTES ((int64_t)16 << 20) /* a panel's transformed pixels */
#define ALL_BYTES   ((int64_t)64 << 20) /* those of all threads, unless they are many */
#define LEAST_BYTES ((int64_t)8 << 20)  /* which have so much each, if that makes them faster */
#define ROUND       8                   /* tiles that are multiplied at a time */
#define APART       16                  /* floats between rows, lest all share a set of a cache */
#define LINE        64                  /* bytes */
#define WORTH       64                  /* channels that pay for transforming a picture */
#define PIXELS      (8 * 8)             /* of a picture, that do so in bfloat16 */
#define WEIGHTS_AS  4                   /* tiles of products that transforming weights is worth */
#define PIXELS_AS   4                   /* tenths of it that transforming a tile's pixels is */
#define MANY_UNITS  16                  /* of each thread, which end together well enough */
#define WORTH_UNITS 2                   /* that pay for transforming a panel again */
#define STREAM      ((int64_t)32 << 20) /* bytes of a result that no cache would hold */
#define IN_PLACE    ((int64_t)32 << 20) /* of x, that are worth some passes */
#define COPIED      4                   /* of x, a part of at most 1 in so many */
#define WEIGHTS     ((int64_t)9 * BLOCK * BLOCK)

/* Weights and sums of a panel fill the second-level cache to two thirds or so. */
typedef struct winograd_size {
    int32_t down, across; /* outputs of a tile */
    int64_t panel;        /* tiles that share transformed weights, at most */
    bool precise;         /* enough for float32 */
    bool doubled;         /* of doubled pixels */
} winograd_size;
static const winograd_size sizes[] = {{4, 4, 96, true, false},
                                      {6, 6, 64, true, false},
                                      {8, 8, 32, false, false},
                                      {8, 4, 64, true, false},
                                      {8, 8, 64, true, true}};
enum { SIZES = sizeof sizes / sizeof *sizes };

typedef struct winograd {
    graft_cpu_winograd shape;
    dnnl_memory_desc_t layout; /* of the weights */
    int64_t height, width;     /* of the input as tiles see it */
    int64_t pixels, products;  /* of a tile */
    int64_t down, across;      /* tiles of a picture */
    int64_t total, panel;      /* tiles of all pictures, and of a panel */
    int64_t panels, groups;    /* of tiles, of outputs */
    int64_t begin;             /* rows that are computed first in place; 0: none are */
    size_t at_threads, thread_bytes, at_add; /* in the workspace */
    size_t at_rows;                          /* what those read */
    size_t at_input, at_sums;                /* in a thread's part, after the weights */
} winograd;

int graft_cpu_has_winograd(const graft_op_desc *op)
{
    const graft_tensor_desc *w = &op->in[GRAFT_CONV_W];
    return w->dim[2] == 3 && w->dim[3] == 3 && op->attrs.stride_h == 1 && op->attrs.stride_w == 1 &&
           w->dim[0] % BLOCK == 0 && w->dim[1] % BLOCK == 0;
}

/* float32: whatever the picture's size, so that all sizes share one layout of the weights; only the
 * smallest pictures lose a little. bfloat16: unless pictures are very small, and where the
 * processor has no matrix unit for it. */
int graft_cpu_prefers_winograd(const graft_op_desc *op)
{
    const graft_tensor_desc *w = &op->in[GRAFT_CONV_W], *y = &op->out;
    if (!graft_cpu_has_winograd(op) || w->dim[0] < WORTH || w->dim[1] < WORTH) return 0;
    if (op->in[GRAFT_CONV_X].dtype == GRAFT_F32) return 1;
    return y->dim[1] * y->dim[2] >= PIXELS && !graft_cpu_has_matrix_unit();
}

/* Every pixel has its copies, also at the lower and the right end, and a tile begins between the
 * first pixel's. */
static bool is_doubled(const graft_op_desc *op)
{
    const graft_tensor_desc *x = &op->in[GRAFT_CONV_X];
    int64_t height, width;
    graft_cpu_conv2d_input_size(op, &height, &width);
    return op->attrs.upsample == 2 && height == 2 * x->dim[1] && width == 2 * x->dim[2] &&
           op->attrs.pad_top == 1 && op->attrs.pad_left == 1;
}

static int64_t products_of(const winograd_size *s)
{
    graft_cpu_winograd f = {.doubled = s->doubled};
    return (int64_t)graft_cpu_winograd_products(&f, s->down) *
           graft_cpu_winograd_products(&f, s->across);
}

/* The one that takes least, much of whose tiles may lie outside: its products, and its weights,
 * whose transformation takes as long as multiplying them with a few tiles. The larger a tile, the
 * larger its rounding error: F(8x8)'s is nothing beside bfloat16's own, and those of F(6x6) and
 * F(8x4) are that of F(4x4) at its usual points, which float32 is content with elsewhere. */
static const winograd_size *size_of(const graft_op_desc *op)
{
    const bool precise = op->in[GRAFT_CONV_X].dtype == GRAFT_F32, doubled = is_doubled(op);
    const winograd_size *best = NULL;
    int64_t least = 0;
    for (int i = 0; i < SIZES; i++) {
        int32_t down = sizes[i].down, across = sizes[i].across;
        int64_t tiles = op->out.dim[0] * graft_cpu_pieces(op->out.dim[1], down) *
                        graft_cpu_pieces(op->out.dim[2], across);
        int64_t weights = graft_cpu_pieces(tiles, sizes[i].panel) * WEIGHTS_AS;
        int64_t products = (graft_cpu_pieces(tiles, 4) * 4 + weights) * products_of(&sizes[i]);
        if ((precise && !sizes[i].precise) || (sizes[i].doubled && !doubled)) continue;
        if (best && products >= least) continue;
        best = &sizes[i];
        least = products;
    }
    return best;
}

/* Tiles of a panel, at most `most`. Large ones share transformed weights among many tiles; small
 * ones give all of many threads something to do. In products of a tile with a group's weights: what
 * the thread with the most units takes, weights and the transformed pixels of its panels included.
 */
static int64_t panel_of(const winograd *s, int64_t most, int threads)
{
    int64_t best = 0, least = 0;
    for (int64_t panels = (s->total + most - 1) / most;; panels++) {
        /* Equal panels, not a short one at the end. */
        int64_t panel = ((s->total + panels - 1) / panels + ROUND - 1) / ROUND * ROUND;
        int64_t units = (s->total + panel - 1) / panel * s->groups;
        int64_t each = (units + threads - 1) / threads;
        int64_t pixels = panel * PIXELS_AS * (s->groups + each - 1) / s->groups / 10;
        int64_t cost = each * (panel + WEIGHTS_AS) + pixels;
        if (!best || cost < least) best = panel, least = cost;
        if (panel == ROUND || each >= MANY_UNITS) return best;
    }
}

static void plan(const graft_op_desc *op, int threads, winograd *s)
{
    const graft_tensor_desc *w = &op->in[GRAFT_CONV_W], *y = &op->out;
    const winograd_size *size = size_of(op);
    graft_cpu_winograd *f = &s->shape;
    graft_cpu_conv2d_input_size(op, &s->height, &s->width);
    if (size->doubled) s->height /= 2, s->width /= 2;
    f->down = size->down;
    f->across = size->across;
    f->doubled = size->doubled;
    s->pixels =
        (int64_t)graft_cpu_winograd_pixels(f, f->down) * graft_cpu_winograd_pixels(f, f->across);
    s->products = products_of(size);
    s->down = graft_cpu_pieces(y->dim[1], f->down);
    s->across = graft_cpu_pieces(y->dim[2], f->across);
    s->total = y->dim[0] * s->down * s->across;
    f->inputs = w->dim[1];
    f->chunk = CHUNK;
    while (f->inputs % f->chunk) f->chunk -= BLOCK;
    f->outputs = w->dim[0] % OUTPUTS ? BLOCK : OUTPUTS;
    int64_t bytes = ALL_BYTES / threads < INPUT_BYTES ? ALL_BYTES / threads : INPUT_BYTES;
    if (bytes < LEAST_BYTES) bytes = LEAST_BYTES;
    int64_t most = bytes / (s->pixels * 4 * f->inputs) / ROUND * ROUND;
    if (most > size->panel) most = size->panel;
    if (most < ROUND) most = ROUND;
    s->groups = y->dim[3] / f->outputs;
    s->panel = panel_of(s, most, threads);
    s->panels = (s->total + s->panel - 1) / s->panel;
    f->pixel_stride = s->panel * f->chunk + APART;
    f->chunk_stride = s->pixels * f->pixel_stride;
    f->weights_stride = f->chunk * f->outputs + APART;
    f->sums_stride = s->panel * f->outputs + APART;
}

static int64_t row_bytes(const graft_tensor_desc *t)
{
    return t->dim[2] * t->dim[3] * (int64_t)graft_dtype_size(t->dtype);
}

/* Rows of tiles enough for all threads, two at least: then the passes grow. */
static int64_t begin_of(const graft_op_desc *op, const winograd *s, int threads)
{
    const graft_tensor_desc *x = &op->in[GRAFT_CONV_X], *y = &op->out;
    const int64_t units = s->across * s->groups;
    int64_t rows = (threads * s->panel + units - 1) / units;
    rows = (rows < 2 ? 2 : rows) * s->shape.down;
    bool fits = op->attrs.upsample != 2 && op->attrs.pad_top <= 1 && x->dim[1] == y->dim[1] &&
                x->dim[2] == y->dim[2] && 2 * row_bytes(y) <= row_bytes(x) &&
                graft_cpu_is_dense(x) && graft_cpu_is_dense(y) &&
                !graft_cpu_present(&op->in[GRAFT_CONV_RESIDUAL]);
    return fits && x->dim[0] * x->dim[1] * row_bytes(x) >= IN_PLACE && rows * COPIED <= x->dim[1]
               ? rows
               : 0;
}

static void lay_out(graft_kernel *k, winograd *s)
{
    const graft_cpu_winograd *f = &s->shape;
    size_t end = 0, part = 0;
    graft_cpu_reserve(&part, (size_t)(s->products * f->weights_stride) * 4);
    s->at_sums = graft_cpu_reserve(&part, (size_t)(s->products * f->sums_stride) * 4);
    s->at_input = graft_cpu_reserve(&part, (size_t)(f->inputs / f->chunk * f->chunk_stride) * 4);
    s->thread_bytes = part;
    graft_cpu_reserve(&end, sizeof(graft_cpu_piece) * (size_t)k->d->host.threads);
    s->at_threads = graft_cpu_reserve(&end, part * (size_t)k->d->host.threads);
    if (graft_cpu_present(&k->op.in[GRAFT_CONV_CHANNEL_ADD]))
        s->at_add = graft_cpu_reserve(&end, (size_t)(k->op.out.dim[0] * k->op.out.dim[3]) * 4);
    s->begin = begin_of(&k->op, s, k->d->host.threads);
    if (s->begin)
        s->at_rows =
            graft_cpu_reserve(&end, (size_t)((s->begin + 2) * row_bytes(&k->op.in[GRAFT_CONV_X])));
    k->info.workspace_bytes = end;
}

/* The layout that weights are kept in: blocks of 16 inputs by 16 outputs, in the dtype of x. */
static graft_status choose_layout(const graft_op_desc *op, dnnl_memory_desc_t *md, graft_err *e)
{
    const int64_t *dim = op->in[GRAFT_CONV_W].dim;
    const dnnl_dims_t dims = {dim[0], dim[1], 3, 3};
    dnnl_data_type_t t = op->in[GRAFT_CONV_X].dtype == GRAFT_F32 ? dnnl_f32 : dnnl_bf16;
    return graft_cpu_dnnl_fail(dnnl_memory_desc_init_by_tag(md, 4, dims, t, dnnl_OIhw16i16o),
                               "weights", e);
}

const dnnl_memory_desc_t *graft_cpu_winograd_layout(const graft_kernel *k)
{
    const winograd *s = k->state;
    return &s->layout;
}

static graft_status pack_rows(graft_kernel *k, int32_t input, graft_dtype t, const void *src,
                              void *dst, int64_t first, int64_t rows)
{
    (void)input;
    return graft_cpu_pack_weight_rows(k->d, graft_cpu_winograd_layout(k), 0, t, src, dst, first,
                                      rows);
}

static graft_status launch_until(graft_kernel *k, const void *const *in, void *out, void *workspace,
                                 graft_cpu_stop *stop);

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant; /* conv2d.c chose it */
    winograd *s = k->state = graft_cpu_calloc(k->d, sizeof *s);
    if (!s) return graft_fail_nomem(e, "a convolution");
    k->pack_rows = pack_rows;
    k->launch_until = launch_until;
    graft_cpu_pack_as(k, GRAFT_CONV_BIAS, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_CONV_CHANNEL_ADD, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_CONV_RESIDUAL, k->op.out.dtype);
    graft_status st = choose_layout(&k->op, &s->layout, e);
    if (st) return st;
    plan(&k->op, k->d->host.threads, s);
    lay_out(k, s);
    snprintf(k->info.variant, sizeof k->info.variant, "winograd %dx%d%s, %d panels", s->shape.down,
             s->shape.across, s->shape.doubled ? " doubled" : "", (int)s->panels);
    k->info.packed_bytes[GRAFT_CONV_W] = dnnl_memory_desc_get_size(&s->layout);
    k->info.packing[GRAFT_CONV_W] = graft_cpu_packing_weights(&s->layout, 0);
    return GRAFT_OK;
}

static graft_status pack(graft_kernel *k, int32_t input, graft_dtype t, const void *src, void *dst)
{
    (void)input;
    return graft_cpu_pack_weights(k->d, graft_cpu_winograd_layout(k), 0, t, src, dst);
}

/* One launch. */
typedef struct job {
    const graft_kernel *k;
    const winograd *s;
    const void *x, *w, *residual;
    const float *bias, *add;
    char *threads; /* scratch of each */
    void *y;
    bool stream;
    int64_t first, end; /* tiles of this pass */
    int64_t before;     /* elements of the tensor x that are not there, before `x` */
    graft_cpu_share share;
} job;

typedef struct place {
    int64_t image, row, column; /* of its first output */
} place;

static place place_of(const winograd *s, int64_t tile)
{
    int64_t in_image = tile % (s->down * s->across);
    return (place){tile / (s->down * s->across), in_image / s->across * s->shape.down,
                   in_image % s->across * s->shape.across};
}

/* The pixels that a tile reads; NULL beyond the picture. Doubled ones once where the tile takes
 * them so. */
static void pixels_of(const job *j, int64_t tile, const void **pixel)
{
    const graft_op_desc *op = &j->k->op;
    const graft_tensor_desc *x = &op->in[GRAFT_CONV_X];
    const winograd *s = j->s;
    int columns = graft_cpu_winograd_pixels(&s->shape, s->shape.across);
    int shift = op->attrs.upsample == 2 && !s->shape.doubled, step = s->shape.doubled ? 2 : 1;
    place at = place_of(s, tile);
    for (int64_t i = 0; i < s->pixels; i++) {
        int64_t r = at.row / step + i / columns - op->attrs.pad_top;
        int64_t c = at.column / step + i % columns - op->attrs.pad_left;
        bool inside = r >= 0 && r < s->height && c >= 0 && c < s->width;
        pixel[i] = !inside ? NULL
                           : graft_cpu_at(j->x, x->dtype,
                                          at.image * x->stride[0] + (r >> shift) * x->stride[1] +
                                              (c >> shift) * x->stride[2] - j->before);
    }
}

static void transform_input(const job *j, int64_t first, int64_t tiles, float *v)
{
    const graft_cpu_winograd *f = &j->s->shape;
    const void *pixel[MOST_SIDE * MOST_SIDE];
    for (int64_t t = 0; t < tiles; t++) {
        pixels_of(j, first + t, pixel);
        j->k->d->simd->winograd_input(pixel, j->k->op.in[GRAFT_CONV_X].dtype, f, v + t * f->chunk);
    }
}

/* Elements from the tensor's first to a channel of a place. */
static int64_t offset_of(const graft_tensor_desc *t, place at, int64_t channel)
{
    return at.image * t->stride[0] + at.row * t->stride[1] + at.column * t->stride[2] + channel;
}

/* Where a tile's outputs go from `channel` on. */
static graft_cpu_winograd_place target_of(const job *j, place at, int64_t channel)
{
    const graft_tensor_desc *y = &j->k->op.out, *r = &j->k->op.in[GRAFT_CONV_RESIDUAL];
    int64_t rows = y->dim[1] - at.row, columns = y->dim[2] - at.column;
    int64_t down = j->s->shape.down, across = j->s->shape.across;
    graft_cpu_winograd_place p = {
        .y = graft_cpu_at_mut(j->y, y->dtype, offset_of(y, at, channel)),
        .dtype = y->dtype,
        .row = y->stride[1],
        .column = y->stride[2],
        .rows = (int32_t)(rows < down ? rows : down),
        .columns = (int32_t)(columns < across ? columns : across),
        .act = j->k->op.attrs.act,
        .stream = j->stream,
    };
    if (!j->residual) return p;
    p.residual = graft_cpu_at(j->residual, r->dtype, offset_of(r, at, channel));
    p.residual_dtype = r->dtype;
    p.residual_row = r->stride[1];
    p.residual_column = r->stride[2];
    return p;
}

/* gcc takes a function that only asks for memory for one without effect and drops calls of it, if
 * they are still calls when it looks. */
#define EXPECT static inline __attribute__((always_inline))

/* Asks for what a tile will touch: rows this short are beyond what processors foresee. */
EXPECT void expect_tile(const job *j, int64_t tile, int64_t channel)
{
    const graft_cpu_winograd_place p = target_of(j, place_of(j->s, tile), channel);
    const int64_t size = (int64_t)graft_dtype_size(p.dtype), n = j->s->shape.outputs;
    const int64_t r_size = (int64_t)graft_dtype_size(p.residual_dtype);
    for (int64_t i = 0; i < (int64_t)p.rows * p.columns; i++) {
        int64_t h = i / p.columns, w = i % p.columns;
        const char *to = (const char *)p.y + (h * p.row + w * p.column) * size;
        for (int64_t b = 0; b < n * size && !p.stream; b += LINE) __builtin_prefetch(to + b, 1);
        if (!p.residual) continue;
        const char *r =
            (const char *)p.residual + (h * p.residual_row + w * p.residual_column) * r_size;
        for (int64_t b = 0; b < n * r_size; b += LINE) __builtin_prefetch(r + b);
    }
}

/* Asks for a part of the weights that transform_weights() will read, so that memory works while the
 * processor multiplies. */
EXPECT void expect_weights(const job *j, int64_t channel, int64_t input, int64_t part)
{
    const graft_cpu_winograd *f = &j->s->shape;
    graft_dtype t = j->k->op.in[GRAFT_CONV_X].dtype;
    int64_t bytes = f->chunk / BLOCK * WEIGHTS * (int64_t)graft_dtype_size(t);
    int64_t begin = bytes * part / j->s->products, end = bytes * (part + 1) / j->s->products;
    for (int64_t o = 0; o < f->outputs; o += BLOCK) {
        int64_t block = (channel + o) / BLOCK * (f->inputs / BLOCK) + input / BLOCK;
        const char *from = graft_cpu_at(j->w, t, block * WEIGHTS);
        for (int64_t b = begin / LINE * LINE; b < end; b += LINE) __builtin_prefetch(from + b);
    }
}

/* Transformed weights: a chunk of inputs from `input` on by the outputs from `channel` on. */
static void transform_weights(const job *j, int64_t channel, int64_t input, float *u)
{
    const graft_cpu_winograd *f = &j->s->shape;
    graft_dtype t = j->k->op.in[GRAFT_CONV_X].dtype;
    for (int64_t o = 0; o < f->outputs; o += BLOCK) {
        int64_t block = (channel + o) / BLOCK * (f->inputs / BLOCK) + input / BLOCK;
        for (int64_t i = 0; i < f->chunk; i += BLOCK, block++)
            j->k->d->simd->winograd_weights(graft_cpu_at(j->w, t, block * WEIGHTS), t, f,
                                            u + i * f->outputs + o);
    }
}

/* Bias and channel_add of a picture's outputs from `channel` on. */
static void bias_of(const job *j, int64_t image, int64_t channel, float *bias)
{
    const float *add = j->add ? j->add + image * j->k->op.out.dim[3] + channel : NULL;
    for (int64_t i = 0; i < j->s->shape.outputs; i++)
        bias[i] = (j->bias ? j->bias[channel + i] : 0) + (add ? add[i] : 0);
}

static void put_panel(const job *j, int64_t first, int64_t tiles, int64_t channel,
                      const float *sums)
{
    const graft_cpu_winograd *f = &j->s->shape;
    float bias[OUTPUTS];
    int64_t image = -1;
    for (int64_t t = 0; t < tiles; t++) {
        place at = place_of(j->s, first + t);
        if (at.image != image) bias_of(j, image = at.image, channel, bias);
        if (t + 2 < tiles && (!j->stream || j->residual)) expect_tile(j, first + t + 2, channel);
        const graft_cpu_winograd_place to = target_of(j, at, channel);
        j->k->d->simd->winograd_output(sums + t * f->outputs, f, bias, &to);
    }
}

/* The transformed pixel that a product is of. */
static int64_t pixel_of(const graft_cpu_winograd *f, int64_t product)
{
    int64_t across = graft_cpu_winograd_products(f, f->across);
    int64_t down = graft_cpu_winograd_pixel_of(f, (int32_t)(product / across));
    return down * graft_cpu_winograd_pixels(f, f->across) +
           graft_cpu_winograd_pixel_of(f, (int32_t)(product % across));
}

/* One unit: the outputs from `channel` on of a panel whose pixels are transformed. `next` is the
 * channel of the unit behind it. */
static void multiply(const job *j, int64_t first, int64_t tiles, int64_t channel, int64_t next,
                     char *scratch)
{
    const winograd *s = j->s;
    const graft_cpu_winograd *f = &s->shape;
    float *u = (float *)(void *)scratch, *sums = (float *)(void *)(scratch + s->at_sums);
    const float *v = (const float *)(const void *)(scratch + s->at_input);
    for (int64_t c = 0; c < f->inputs; c += f->chunk, v += f->chunk_stride) {
        bool last = c + f->chunk == f->inputs;
        transform_weights(j, channel, c, u);
        for (int64_t i = 0; i < s->products; i++) {
            expect_weights(j, last ? next : channel, last ? 0 : c + f->chunk, i);
            j->k->d->simd->winograd_multiply(v + pixel_of(f, i) * f->pixel_stride,
                                             u + i * f->weights_stride, f, tiles, c > 0,
                                             sums + i * f->sums_stride);
        }
    }
    put_panel(j, first, tiles, channel, sums);
}

static void run_unit(const job *j, int64_t unit, bool held, char *scratch)
{
    const winograd *s = j->s;
    int64_t first = j->first + unit / s->groups * s->panel;
    int64_t channel = unit % s->groups * s->shape.outputs;
    int64_t tiles = j->end - first < s->panel ? j->end - first : s->panel;
    if (!held) transform_input(j, first, tiles, (float *)(void *)(scratch + s->at_input));
    multiply(j, first, tiles, channel, (unit + 1) % s->groups * s->shape.outputs, scratch);
}

static void run_part(void *ctx, int part, int parts)
{
    job *j = ctx;
    char *scratch = j->threads + (size_t)part * j->s->thread_bytes;
    int64_t panel = -1, unit, count;
    (void)parts;
    while ((count = graft_cpu_share_take(&j->share, part, &unit)) > 0) {
        for (int64_t end = unit + count; unit < end; unit++) {
            run_unit(j, unit, unit / j->s->groups == panel, scratch);
            panel = unit / j->s->groups;
        }
    }
    if (j->stream) j->k->d->simd->drain();
}

/* channel_add as float32 rows. */
static const float *channels(const graft_kernel *k, const void *const *in, char *workspace)
{
    const winograd *s = k->state;
    const graft_tensor_desc *add = &k->op.in[GRAFT_CONV_CHANNEL_ADD];
    if (!graft_cpu_present(add)) return NULL;
    float *rows = (float *)(void *)(workspace + s->at_add);
    for (int64_t i = 0; i < add->dim[0]; i++) {
        const void *from = graft_cpu_at(in[GRAFT_CONV_CHANNEL_ADD], add->dtype, i * add->stride[0]);
        k->d->simd->act(GRAFT_ACT_NONE, from, add->dtype, rows + i * add->dim[1], GRAFT_F32,
                        (size_t)add->dim[1]);
    }
    return rows;
}

/* Whether the result is best written past the caches, and can be. */
static bool streams(const graft_op_desc *op, const void *out)
{
    const graft_tensor_desc *y = &op->out;
    const int64_t size = (int64_t)graft_dtype_size(y->dtype), *stride = y->stride;
    if (y->dim[0] * stride[0] * size < STREAM || (uintptr_t)out % LINE) return false;
    return (stride[0] * size) % LINE == 0 && (stride[1] * size) % LINE == 0 &&
           (stride[2] * size) % LINE == 0;
}

/* Tiles first ... end - 1. */
static void run_tiles(job *j, int64_t first, int64_t end, void *workspace, int threads)
{
    const winograd *s = j->s;
    int64_t panels = (end - first + s->panel - 1) / s->panel;
    j->first = first;
    j->end = end;
    graft_cpu_share_begin(&j->share, workspace, panels * s->groups, threads);
    graft_cpu_parallel(threads, run_part, j);
}

/* x and the result begin at the same place. */
static void run_in_place(job *j, void *workspace, int threads)
{
    const winograd *s = j->s;
    const graft_tensor_desc *x = &j->k->op.in[GRAFT_CONV_X], *y = &j->k->op.out;
    const int64_t height = y->dim[1], down = s->shape.down;
    const void *all = j->x;
    char *rows = (char *)workspace + s->at_rows;
    for (int64_t n = 0; n < y->dim[0]; n++) {
        const int64_t tile = n * s->down * s->across;
        memcpy(rows, graft_cpu_at(all, x->dtype, n * x->stride[0]),
               (size_t)((s->begin + 2) * row_bytes(x)));
        j->x = rows;
        j->before = n * x->stride[0];
        run_tiles(j, tile, tile + s->begin / down * s->across, workspace, threads);
        j->x = all;
        j->before = 0;
        for (int64_t row = s->begin, end; row < height; row = end) {
            if (j->share.stop && atomic_load(&j->share.stop->stopped)) return;
            end = (row - 1) * row_bytes(x) / row_bytes(y) / down * down;
            end = end < height ? end : height;
            run_tiles(j, tile + row / down * s->across,
                      tile + graft_cpu_pieces(end, (int32_t)down) * s->across, workspace, threads);
        }
    }
}

static graft_status launch_until(graft_kernel *k, const void *const *in, void *out, void *workspace,
                                 graft_cpu_stop *stop)
{
    const winograd *s = k->state;
    char *ws = workspace;
    int threads = graft_cpu_threads(k->d, graft_cpu_elements(&k->op.in[GRAFT_CONV_W]) +
                                              graft_cpu_elements(&k->op.out));
    job j = {.k = k,
             .s = s,
             .x = in[GRAFT_CONV_X],
             .w = in[GRAFT_CONV_W],
             .residual = in[GRAFT_CONV_RESIDUAL],
             .bias = in[GRAFT_CONV_BIAS],
             .add = channels(k, in, ws),
             .threads = ws + s->at_threads,
             .y = out,
             .stream = streams(&k->op, out)};
    j.share.stop = stop;
    j.share.least = s->panels > 1 ? WORTH_UNITS : 1;
    if (out == in[GRAFT_CONV_X])
        run_in_place(&j, workspace, threads);
    else
        run_tiles(&j, 0, s->total, workspace, threads);
    return GRAFT_OK;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    return launch_until(k, in, out, workspace, NULL);
}

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    (void)d;
    graft_status st = graft_cpu_conv2d_check(op, e);
    if (!st && !graft_cpu_has_winograd(op))
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "conv2d: no Winograd");
    return st;
}

static int32_t inplace(const graft_kernel *k, int32_t input)
{
    const winograd *s = k->state;
    return input == GRAFT_CONV_X && s->begin > 0;
}

const graft_cpu_op graft_cpu_op_conv2d_winograd = {check, init, NULL, pack, launch, inplace};
