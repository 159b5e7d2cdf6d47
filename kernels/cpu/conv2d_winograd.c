/* CONV2D 3x3 by Winograd's F(4x4, 3x3): a quarter of the multiplications, in float32 whatever the
 * tensors are (simd/winograd.c has the arithmetic).
 *
 * Weights stay as they are and are transformed in every launch: four times their size would
 * otherwise be resident, and slow to swap. A thread transforms them for a few inputs and outputs at
 * a time, uses them for a panel of tiles while they are in its second-level cache, and adds up
 * there; so the only large piece of scratch memory is the transformed picture, which is bounded by
 * working on a strip of tiles at a time. */
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/conv2d.h"

#define BLOCK       16 /* channels of a block of weights */
#define TILE        4  /* outputs a side */
#define SIDE        6  /* inputs a side */
#define POSITIONS   36
#define PANEL       64                 /* tiles that share transformed weights */
#define CHUNK       64                 /* inputs of them, at most */
#define OUTPUTS     32                 /* and outputs, at most */
#define STRIP_BYTES ((int64_t)3 << 20) /* transformed picture, for each thread */
#define APART       16                 /* floats between rows, lest all share a set of a cache */
#define LINE        64                 /* bytes */
#define WORTH       64                 /* channels that pay for transforming a picture */
#define LARGE       (128 * 128)        /* pixels */
#define WEIGHTS     ((int64_t)9 * BLOCK * BLOCK)

typedef struct winograd {
    graft_cpu_winograd shape;
    dnnl_memory_desc_t layout;                         /* of the weights */
    int64_t height, width;                             /* of the input, doubled */
    int64_t down, across;                              /* tiles of a picture */
    int64_t total, strip;                              /* tiles of all pictures, and of a strip */
    size_t at_input, at_threads, thread_bytes, at_add; /* in the workspace */
    size_t at_sums, at_pixels;                         /* in a thread's part, after the weights */
} winograd;

int graft_cpu_has_winograd(const graft_op_desc *op)
{
    const graft_tensor_desc *w = &op->in[GRAFT_CONV_W];
    return w->dim[2] == 3 && w->dim[3] == 3 && op->attrs.stride_h == 1 && op->attrs.stride_w == 1 &&
           w->dim[0] % BLOCK == 0 && w->dim[1] % BLOCK == 0;
}

/* float32: whatever the picture's size, so that all sizes share one layout of the weights; only the
 * smallest pictures lose a little. bfloat16: where pictures are large, as in a VAE, and the
 * processor has no matrix unit for it. */
int graft_cpu_prefers_winograd(const graft_op_desc *op)
{
    const graft_tensor_desc *w = &op->in[GRAFT_CONV_W], *y = &op->out;
    if (!graft_cpu_has_winograd(op) || w->dim[0] < WORTH || w->dim[1] < WORTH) return 0;
    if (op->in[GRAFT_CONV_X].dtype == GRAFT_F32) return 1;
    const int matrix_unit = dnnl_cpu_isa_avx512_core_amx;
    return y->dim[0] * y->dim[1] * y->dim[2] >= LARGE &&
           ((int)dnnl_get_effective_cpu_isa() & matrix_unit) != matrix_unit;
}

static void plan(const graft_op_desc *op, int threads, winograd *s)
{
    const graft_tensor_desc *w = &op->in[GRAFT_CONV_W], *y = &op->out;
    graft_cpu_winograd *f = &s->shape;
    graft_cpu_conv2d_input_size(op, &s->height, &s->width);
    s->down = (y->dim[1] + TILE - 1) / TILE;
    s->across = (y->dim[2] + TILE - 1) / TILE;
    s->total = y->dim[0] * s->down * s->across;
    f->inputs = w->dim[1];
    f->chunk = CHUNK;
    while (f->inputs % f->chunk) f->chunk -= BLOCK;
    f->outputs = w->dim[0] % OUTPUTS ? BLOCK : OUTPUTS;
    int64_t panels = STRIP_BYTES * threads / (POSITIONS * 4 * f->inputs * PANEL);
    int64_t all = (s->total + PANEL - 1) / PANEL;
    if (panels < 1) panels = 1;
    int64_t strips = (all + panels - 1) / panels;
    s->strip = (all + strips - 1) / strips * PANEL; /* equal, not a short one at the end */
    if (s->strip > s->total) s->strip = s->total;
    f->chunk_stride = s->strip * f->chunk;
    f->position_stride = s->strip * f->inputs + APART;
    f->weights_stride = f->chunk * f->outputs + APART;
    f->sums_stride = PANEL * f->outputs + APART;
}

static void lay_out(graft_kernel *k, winograd *s)
{
    const graft_cpu_winograd *f = &s->shape;
    size_t end = 0, part = 0;
    graft_cpu_reserve(&part, (size_t)(POSITIONS * f->weights_stride) * 4);
    s->at_sums = graft_cpu_reserve(&part, (size_t)(POSITIONS * f->sums_stride) * 4);
    s->at_pixels = graft_cpu_reserve(&part, (size_t)(TILE * TILE * f->outputs) * 4);
    s->thread_bytes = part;
    s->at_input = graft_cpu_reserve(&end, (size_t)(POSITIONS * f->position_stride) * 4);
    s->at_threads = graft_cpu_reserve(&end, part * (size_t)k->d->host.threads);
    if (graft_cpu_present(&k->op.in[GRAFT_CONV_CHANNEL_ADD]))
        s->at_add = graft_cpu_reserve(&end, (size_t)(k->op.out.dim[0] * k->op.out.dim[3]) * 4);
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

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant; /* conv2d.c chose it */
    winograd *s = k->state = graft_cpu_calloc(k->d, sizeof *s);
    if (!s) return graft_fail_nomem(e, "a convolution");
    k->pack_rows = pack_rows;
    graft_cpu_pack_as(k, GRAFT_CONV_BIAS, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_CONV_CHANNEL_ADD, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_CONV_RESIDUAL, k->op.out.dtype);
    graft_status st = choose_layout(&k->op, &s->layout, e);
    if (st) return st;
    plan(&k->op, k->d->host.threads, s);
    lay_out(k, s);
    snprintf(k->info.variant, sizeof k->info.variant, "winograd 4x4, %d strips",
             (int)((s->total + s->strip - 1) / s->strip));
    k->info.packed_bytes[GRAFT_CONV_W] = dnnl_memory_desc_get_size(&s->layout);
    k->info.packing[GRAFT_CONV_W] = graft_cpu_packing_weights(&s->layout);
    return GRAFT_OK;
}

static graft_status pack(graft_kernel *k, int32_t input, graft_dtype t, const void *src, void *dst)
{
    (void)input;
    return graft_cpu_pack_weights(k->d, graft_cpu_winograd_layout(k), 0, t, src, dst);
}

/* One strip of a launch. */
typedef struct strip {
    const graft_kernel *k;
    const winograd *s;
    int64_t first, tiles; /* counted over all pictures */
    const void *x, *w, *residual;
    const float *bias, *add;
    float *v;      /* transformed input */
    char *threads; /* scratch of each */
    void *y;
} strip;

typedef struct place {
    int64_t image, row, column; /* of its first output */
} place;

static place place_of(const winograd *s, int64_t tile)
{
    int64_t in_image = tile % (s->down * s->across);
    return (place){tile / (s->down * s->across), in_image / s->across * TILE,
                   in_image % s->across * TILE};
}

/* The 36 pixels that a tile reads; NULL beyond the picture. */
static void pixels_of(const strip *p, int64_t tile, const void **pixel)
{
    const graft_op_desc *op = &p->k->op;
    const graft_tensor_desc *x = &op->in[GRAFT_CONV_X];
    int shift = op->attrs.upsample == 2;
    place at = place_of(p->s, tile);
    for (int i = 0; i < POSITIONS; i++) {
        int64_t r = at.row + i / SIDE - op->attrs.pad_top;
        int64_t c = at.column + i % SIDE - op->attrs.pad_left;
        bool inside = r >= 0 && r < p->s->height && c >= 0 && c < p->s->width;
        pixel[i] = !inside ? NULL
                           : graft_cpu_at(p->x, x->dtype,
                                          at.image * x->stride[0] + (r >> shift) * x->stride[1] +
                                              (c >> shift) * x->stride[2]);
    }
}

static void input_part(void *ctx, int part, int parts)
{
    const strip *p = ctx;
    const graft_cpu_winograd *f = &p->s->shape;
    int64_t end = p->tiles * (part + 1) / parts;
    const void *pixel[POSITIONS];
    for (int64_t t = p->tiles * part / parts; t < end; t++) {
        pixels_of(p, p->first + t, pixel);
        p->k->d->simd->winograd_input(pixel, p->k->op.in[GRAFT_CONV_X].dtype, f,
                                      p->v + t * f->chunk);
    }
}

/* Elements from the tensor's first to a channel of a pixel. */
static int64_t offset_of(const graft_tensor_desc *t, int64_t n, int64_t h, int64_t w,
                         int64_t channel)
{
    return n * t->stride[0] + h * t->stride[1] + w * t->stride[2] + channel;
}

/* A tile's outputs to their places, with what is left to do on them. */
static void put_tile(const strip *p, int64_t tile, int64_t channel, float *pixels)
{
    const graft_tensor_desc *y = &p->k->op.out;
    place at = place_of(p->s, tile);
    int64_t n = p->s->shape.outputs;
    for (int i = 0; i < TILE * TILE; i++) {
        int64_t h = at.row + i / TILE, w = at.column + i % TILE;
        if (h >= y->dim[1] || w >= y->dim[2]) continue;
        float *pixel = pixels + i * n;
        graft_cpu_conv2d_epilogue(p->k, (const int64_t[]){at.image, h, w, channel}, n, p->add,
                                  p->residual, pixel, GRAFT_F32);
        void *to = graft_cpu_at_mut(p->y, y->dtype, offset_of(y, at.image, h, w, channel));
        p->k->d->simd->act(GRAFT_ACT_NONE, pixel, GRAFT_F32, to, y->dtype, (size_t)n);
    }
}

/* Asks for what put_tile() will touch: rows this short are beyond what processors foresee. */
static void expect_tile(const strip *p, int64_t tile, int64_t channel)
{
    const graft_tensor_desc *y = &p->k->op.out, *r = &p->k->op.in[GRAFT_CONV_RESIDUAL];
    place at = place_of(p->s, tile);
    int64_t bytes = p->s->shape.outputs * (int64_t)graft_dtype_size(y->dtype);
    for (int i = 0; i < TILE * TILE; i++) {
        int64_t h = at.row + i / TILE, w = at.column + i % TILE;
        if (h >= y->dim[1] || w >= y->dim[2]) continue;
        const char *to = graft_cpu_at(p->y, y->dtype, offset_of(y, at.image, h, w, channel));
        for (int64_t b = 0; b < bytes; b += LINE) __builtin_prefetch(to + b, 1);
        if (!p->residual) continue;
        const char *from =
            graft_cpu_at(p->residual, r->dtype, offset_of(r, at.image, h, w, channel));
        for (int64_t b = 0; b < bytes; b += LINE) __builtin_prefetch(from + b);
    }
}

/* Asks for a part of the weights that weights_of() will read, so that memory works while the
 * processor multiplies. */
static void expect_weights(const strip *p, int64_t channel, int64_t input, int part)
{
    const graft_cpu_winograd *f = &p->s->shape;
    graft_dtype t = p->k->op.in[GRAFT_CONV_X].dtype;
    int64_t bytes = f->chunk / BLOCK * WEIGHTS * (int64_t)graft_dtype_size(t);
    int64_t begin = bytes * part / POSITIONS, end = bytes * (part + 1) / POSITIONS;
    if (channel >= p->k->op.out.dim[3]) return;
    for (int64_t o = 0; o < f->outputs; o += BLOCK) {
        int64_t block = (channel + o) / BLOCK * (f->inputs / BLOCK) + input / BLOCK;
        const char *from = graft_cpu_at(p->w, t, block * WEIGHTS);
        for (int64_t b = begin / LINE * LINE; b < end; b += LINE)
            __builtin_prefetch(from + b, 0, 2);
    }
}

/* Transformed weights: a chunk of inputs from `input` on by the outputs from `channel` on. */
static void weights_of(const strip *p, int64_t channel, int64_t input, float *u)
{
    const graft_cpu_winograd *f = &p->s->shape;
    graft_dtype t = p->k->op.in[GRAFT_CONV_X].dtype;
    for (int64_t o = 0; o < f->outputs; o += BLOCK) {
        int64_t block = (channel + o) / BLOCK * (f->inputs / BLOCK) + input / BLOCK;
        for (int64_t i = 0; i < f->chunk; i += BLOCK, block++)
            p->k->d->simd->winograd_weights(graft_cpu_at(p->w, t, block * WEIGHTS), t, f,
                                            u + i * f->outputs + o);
    }
}

/* A panel of tiles by some outputs. */
static void multiply(const strip *p, int64_t first, int64_t channel, char *scratch)
{
    const winograd *s = p->s;
    const graft_cpu_winograd *f = &s->shape;
    const graft_cpu_simd *simd = p->k->d->simd;
    int64_t tiles = p->tiles - first < PANEL ? p->tiles - first : PANEL;
    bool last = first + tiles == p->tiles; /* of these outputs */
    float *u = (float *)(void *)scratch, *sums = (float *)(void *)(scratch + s->at_sums);
    float *pixels = (float *)(void *)(scratch + s->at_pixels);
    for (int64_t c = 0, next; c < f->inputs; c = next) {
        const float *v = p->v + c / f->chunk * f->chunk_stride + first * f->chunk;
        next = c + f->chunk;
        weights_of(p, channel, c, u);
        for (int i = 0; i < POSITIONS; i++) {
            if (next < f->inputs)
                expect_weights(p, channel, next, i);
            else if (last)
                expect_weights(p, channel + f->outputs, 0, i);
            simd->winograd_multiply(v + i * f->position_stride, u + i * f->weights_stride, f, tiles,
                                    c > 0, sums + i * f->sums_stride);
        }
    }
    for (int64_t t = 0; t < tiles; t++) {
        if (t + 2 < tiles) expect_tile(p, p->first + first + t + 2, channel);
        simd->winograd_output(sums + t * f->outputs, f, p->bias ? p->bias + channel : NULL, pixels);
        put_tile(p, p->first + first + t, channel, pixels);
    }
}

static void multiply_part(void *ctx, int part, int parts)
{
    const strip *p = ctx;
    int64_t panels = (p->tiles + PANEL - 1) / PANEL;
    int64_t total = p->k->op.out.dim[3] / p->s->shape.outputs * panels;
    int64_t end = total * (part + 1) / parts;
    char *scratch = p->threads + (size_t)part * p->s->thread_bytes;
    for (int64_t i = total * part / parts; i < end; i++)
        multiply(p, i % panels * PANEL, i / panels * p->s->shape.outputs, scratch);
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

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const winograd *s = k->state;
    char *ws = workspace;
    int threads = graft_cpu_threads(k->d, graft_cpu_elements(&k->op.in[GRAFT_CONV_W]) +
                                              graft_cpu_elements(&k->op.out));
    strip p = {.k = k,
               .s = s,
               .x = in[GRAFT_CONV_X],
               .w = in[GRAFT_CONV_W],
               .residual = in[GRAFT_CONV_RESIDUAL],
               .bias = in[GRAFT_CONV_BIAS],
               .add = channels(k, in, ws),
               .v = (float *)(void *)(ws + s->at_input),
               .threads = ws + s->at_threads,
               .y = out};
    for (; p.first < s->total; p.first += s->strip) {
        p.tiles = s->total - p.first < s->strip ? s->total - p.first : s->strip;
        graft_cpu_parallel(threads, input_part, &p);
        graft_cpu_parallel(threads, multiply_part, &p);
    }
    return GRAFT_OK;
}

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    (void)d;
    graft_status st = graft_cpu_conv2d_check(op, e);
    if (!st && !graft_cpu_has_winograd(op))
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "conv2d: no Winograd");
    return st;
}

const graft_cpu_op graft_cpu_op_conv2d_winograd = {check, init, NULL, pack, launch, NULL};
