#include <math.h>

#include "tests/kernels/cases.h"

void make_dense(graft_tensor_desc *t)
{
    int64_t below = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        t->stride[i] = below;
        below *= t->dim[i];
    }
}

static const graft_dtype float_dtype[] = {GRAFT_F32, GRAFT_F16,     GRAFT_BF16,
                                          GRAFT_F64, GRAFT_F8_E4M3, GRAFT_F8_E5M2};
enum { BIAS = 1, ADD = 2, RES = 4, ALL = 7 };

typedef struct conv_row {
    int32_t n, h, w, c, o, kernel_h, kernel_w, stride_h, stride_w;
    int32_t pad[4]; /* top, left, bottom, right */
    int32_t upsample, up_h, up_w;
    int32_t extras, act, gap; /* BIAS | ADD | RES */
    graft_dtype source;
} conv_row;

static void conv(case_list *l, conv_row v)
{
    kernel_case *c = add_case(l, GRAFT_OP_CONV2D);
    graft_op_desc *d = &c->desc;
    bool up = v.upsample == 2;
    int32_t h = up ? v.up_h : v.h, w = up ? v.up_w : v.w;
    int32_t oh = (h + v.pad[0] + v.pad[2] - v.kernel_h) / v.stride_h + 1;
    int32_t ow = (w + v.pad[1] + v.pad[3] - v.kernel_w) / v.stride_w + 1;
    d->attrs = (graft_attrs){.kernel_h = v.kernel_h,
                             .kernel_w = v.kernel_w,
                             .stride_h = v.stride_h,
                             .stride_w = v.stride_w,
                             .pad_top = v.pad[0],
                             .pad_left = v.pad[1],
                             .pad_bottom = v.pad[2],
                             .pad_right = v.pad[3],
                             .act = v.act,
                             .upsample = v.upsample,
                             .up_h = v.up_h,
                             .up_w = v.up_w};
    d->in[GRAFT_CONV_X] = gapped(act_of(v.n, v.h, v.w, v.c), v.gap);
    d->in[GRAFT_CONV_W] = weight_of(v.o, v.c, v.kernel_h, v.kernel_w);
    if (v.extras & BIAS) d->in[GRAFT_CONV_BIAS] = weight_of(v.o, 0, 0, 0);
    if (v.extras & ADD) d->in[GRAFT_CONV_CHANNEL_ADD] = gapped(act_of(v.n, v.o, 0, 0), v.gap);
    if (v.extras & RES) d->in[GRAFT_CONV_RESIDUAL] = gapped(act_of(v.n, oh, ow, v.o), 2 * v.gap);
    d->out = gapped(act_of(v.n, oh, ow, v.o), v.gap);
    if (v.source) c->source = v.source;
    snprintf(c->name, sizeof c->name,
             "conv2d %dx%dx%dx%d to %d, %dx%d/%d,%d pad %d,%d,%d,%d%s%s%s%s%s gap %d weights %d",
             v.n, v.h, v.w, v.c, v.o, v.kernel_h, v.kernel_w, v.stride_h, v.stride_w, v.pad[0],
             v.pad[1], v.pad[2], v.pad[3], up ? " upsampled" : "", v.extras & BIAS ? " bias" : "",
             v.extras & ADD ? " add" : "", v.extras & RES ? " residual" : "", act_name[v.act],
             v.gap, (int)c->source);
}

static void convs(case_list *l)
{
    static const conv_row rows[] = {
        {1, 8, 8, 4, 32, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS, 0, 0, 0},
        {2, 16, 16, 32, 32, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, ALL, GRAFT_ACT_SILU, 0, 0},
        {1, 16, 16, 64, 64, 3, 3, 2, 2, {1, 1, 1, 1}, 0, 0, 0, BIAS, 0, 0, 0}, /* UNet down */
        {1, 17, 15, 32, 48, 3, 3, 2, 2, {0, 0, 1, 1}, 0, 0, 0, BIAS, 0, 0, 0}, /* VAE down */
        {1, 8, 8, 32, 32, 3, 3, 1, 1, {1, 1, 1, 1}, 2, 16, 16, BIAS, 0, 0, 0}, /* up */
        {2, 5, 7, 16, 24, 3, 3, 1, 1, {1, 1, 1, 1}, 2, 9, 13, ALL, 0, 0, 0},   /* odd cut */
        {1, 4, 4, 16, 16, 3, 3, 1, 1, {1, 1, 1, 1}, 2, 7, 8, 0, GRAFT_ACT_GELU, 3, 0},
        {1, 5, 5, 8, 8, 3, 3, 1, 1, {1, 1, 1, 1}, 1, 0, 0, BIAS, 0, 0, 0},
        {1, 9, 11, 3, 5, 5, 3, 2, 3, {2, 0, 1, 1}, 0, 0, 0, ADD, 0, 0, 0},
        {1, 6, 6, 1, 1, 3, 3, 1, 1, {0, 0, 0, 0}, 0, 0, 0, 0, 0, 0, 0},
        {3, 1, 1, 7, 9, 1, 1, 1, 1, {0, 0, 0, 0}, 0, 0, 0, RES, 0, 0, 0},
        {1, 1, 1, 16, 16, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS, 0, 0, 0},
        {1, 16, 16, 14, 14, 16, 16, 16, 16, {0, 0, 0, 0}, 0, 0, 0, 0, 0, 0, 0}, /* patches */
        {1, 12, 12, 32, 4, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS, 0, 0, 0},   /* UNet out */
        {1, 24, 24, 32, 3, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS, 0, 0, 0},   /* VAE out */
        {1, 16, 16, 96, 32, 1, 1, 1, 1, {0, 0, 0, 0}, 0, 0, 0, BIAS, 0, 5, 0},  /* shortcut */
        {2, 30, 19, 45, 64, 1, 1, 1, 1, {0, 0, 0, 0}, 0, 0, 0, RES, 0, 0, 0},   /* odd inputs */
        {1, 61, 40, 63, 32, 1, 1, 2, 2, {0, 0, 0, 0}, 0, 0, 0, RES | BIAS, 0, 0, 0},
        {2, 7, 9, 13, 17, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, ALL, GRAFT_ACT_QUICK_GELU, 3, 0},
        {1, 6, 6, 8, 8, 3, 3, 1, 1, {2, 3, 0, 1}, 0, 0, 0, ALL, GRAFT_ACT_SILU, 1, 0},
        {1, 8, 8, 16, 20, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS, 0, 0, GRAFT_F16},
        {1, 8, 8, 16, 20, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS, 0, 0, GRAFT_BF16},
        {1, 8, 8, 16, 20, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS, 0, 0, GRAFT_F64},
        {1, 8, 8, 16, 20, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS, 0, 0, GRAFT_F8_E4M3},
        {1, 8, 8, 16, 20, 1, 1, 1, 1, {0, 0, 0, 0}, 0, 0, 0, BIAS, 0, 0, GRAFT_F8_E5M2},
        /* The shapes of SD 1.x at 256 x 256 and less. */
        {1, 32, 32, 4, 320, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS, 0, 0, GRAFT_F16},
        {1, 16, 16, 320, 320, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, ALL, 0, 0, 0},
        {1, 32, 32, 320, 4, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS, 0, 0, 0},
        {1, 8, 8, 640, 640, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS | ADD, 0, 0, 0},
        {1, 4, 4, 1280, 640, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS | RES, 0, 0, 0},
        {1, 16, 16, 960, 320, 1, 1, 1, 1, {0, 0, 0, 0}, 0, 0, 0, BIAS, 0, 0, 0},
        {1, 16, 16, 320, 320, 3, 3, 2, 2, {1, 1, 1, 1}, 0, 0, 0, BIAS, 0, 0, 0},
        {1, 8, 8, 320, 320, 3, 3, 1, 1, {1, 1, 1, 1}, 2, 15, 16, BIAS, 0, 0, 0},
        {1, 48, 48, 128, 128, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS | RES, 0, 0, 0}, /* VAE */
        {1, 32, 40, 512, 64, 1, 1, 1, 1, {0, 0, 0, 0}, 0, 0, 0, BIAS, 0, 0, 0},
        /* Winograd: uneven sizes and padding, then more tiles and more weights than it transforms
         * at a time. */
        {2, 13, 11, 48, 32, 3, 3, 1, 1, {1, 0, 1, 2}, 0, 0, 0, ALL, GRAFT_ACT_SILU, 3, 0},
        {1, 9, 10, 32, 64, 3, 3, 1, 1, {2, 1, 0, 1}, 0, 0, 0, BIAS | ADD, 0, 0, 0},
        {1, 7, 6, 16, 32, 3, 3, 1, 1, {0, 0, 0, 0}, 0, 0, 0, RES, 0, 16, 0},
        {1, 437, 434, 16, 16, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, ALL, 0, 0, 0},
        {2, 6, 5, 704, 704, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, ALL, GRAFT_ACT_SILU, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) conv(l, rows[i]);
}

static void random_convs(case_list *l)
{
    uint64_t state = 1;
    for (int i = 0; i < 40; i++) {
        int32_t v[16];
        for (int j = 0; j < 16; j++) v[j] = (int32_t)(random_next(&state) >> 40);
        conv_row r = {1 + v[0] % 2,
                      3 + v[1] % 10,
                      3 + v[2] % 10,
                      1 + v[3] % 40,
                      1 + v[4] % 40,
                      1 + v[5] % 3,
                      1 + v[6] % 3,
                      1 + v[7] % 2,
                      1 + v[8] % 2,
                      {v[9] % 3, v[10] % 3, v[11] % 3, v[12] % 3},
                      0,
                      0,
                      0,
                      v[13] % 8,
                      v[14] % 4,
                      i % 3 ? 0 : v[15] % 9,
                      float_dtype[i % 4]};
        if (i % 4 == 3) {
            r.upsample = 2;
            r.up_h = 2 * r.h - i % 2;
            r.up_w = 2 * r.w - i % 3 % 2;
        }
        conv(l, r);
    }
}

static void linear(case_list *l, graft_tensor_desc x, int64_t o, int extras, graft_act act,
                   int64_t gap, graft_dtype source)
{
    kernel_case *c = add_case(l, GRAFT_OP_LINEAR);
    graft_op_desc *d = &c->desc;
    int last = x.rank - 1;
    graft_tensor_desc out = x;
    out.dim[last] = act == GRAFT_ACT_GEGLU ? o / 2 : o;
    make_dense(&out);
    d->attrs.act = act;
    d->in[GRAFT_LINEAR_X] = gapped(x, gap);
    d->in[GRAFT_LINEAR_W] = weight_of(o, x.dim[last], 0, 0);
    if (extras & BIAS) d->in[GRAFT_LINEAR_BIAS] = weight_of(o, 0, 0, 0);
    if (extras & RES) d->in[GRAFT_LINEAR_RESIDUAL] = gapped(out, 2 * gap);
    d->out = gapped(out, gap);
    c->source = source;
    snprintf(c->name, sizeof c->name,
             "linear rank %d, %lld rows, %lld to %lld%s%s%s gap %lld weights %d", (int)x.rank,
             (long long)(element_count(&x) / x.dim[last]), (long long)x.dim[last], (long long)o,
             extras & BIAS ? " bias" : "", extras & RES ? " residual" : "", act_name[act],
             (long long)gap, (int)source);
}

static void linears(case_list *l)
{
    linear(l, act_of(1, 1, 0, 0), 1, 0, 0, 0, GRAFT_F32);
    linear(l, act_of(64, 0, 0, 0), 48, BIAS, 0, 0, GRAFT_F32); /* rank 1 */
    linear(l, act_of(2, 320, 0, 0), 1280, BIAS, GRAFT_ACT_SILU, 0, GRAFT_F16);
    linear(l, act_of(2, 1280, 0, 0), 320, BIAS, 0, 0, GRAFT_F16);
    linear(l, act_of(1, 77, 768, 0), 768, BIAS | RES, 0, 0, GRAFT_F32);
    linear(l, act_of(1, 77, 768, 0), 1536, BIAS, GRAFT_ACT_QUICK_GELU, 0, GRAFT_F32);
    linear(l, act_of(2, 77, 768, 0), 640, 0, 0, 0, GRAFT_BF16); /* cross k and v merged */
    linear(l, act_of(2, 256, 320, 0), 960, 0, 0, 0, GRAFT_F32); /* q, k, v merged */
    linear(l, act_of(1, 256, 320, 0), 2560, BIAS, GRAFT_ACT_GEGLU, 0, GRAFT_F16);
    linear(l, act_of(1, 256, 1280, 0), 320, BIAS | RES, 0, 0, GRAFT_F32);
    linear(l, act_of(1, 16, 1280, 0), 1280, BIAS, GRAFT_ACT_GELU, 0, GRAFT_F32);
    linear(l, act_of(1, 8, 8, 64), 64, BIAS | RES, 0, 0, GRAFT_F32); /* rank 4 */
    linear(l, act_of(2, 3, 5, 7), 11, BIAS | RES, GRAFT_ACT_SILU, 5, GRAFT_F64);
    linear(l, act_of(2, 13, 40, 0), 26, BIAS, GRAFT_ACT_GEGLU, 3, GRAFT_F32);
    linear(l, act_of(1, 9, 33, 0), 34, 0, GRAFT_ACT_GEGLU, 0, GRAFT_F8_E5M2);
    linear(l, act_of(7, 24, 0, 0), 40, BIAS, 0, 0, GRAFT_F8_E4M3);
    /* Around the tiles of matrix units: one more and one less, rows apart by multiples of 8 or not.
     */
    linear(l, act_of(1, 65, 72, 0), 168, BIAS, 0, 0, GRAFT_F32);
    linear(l, act_of(1, 129, 136, 0), 168, BIAS | RES, GRAFT_ACT_SILU, 8, GRAFT_BF16);
    linear(l, act_of(1, 131, 67, 0), 77, BIAS | RES, GRAFT_ACT_GELU, 5, GRAFT_F32);
    linear(l, act_of(1, 70, 200, 0), 336, BIAS, GRAFT_ACT_GEGLU, 0, GRAFT_F32);
    linear(l, act_of(1, 67, 77, 0), 330, 0, GRAFT_ACT_GEGLU, 3, GRAFT_F16);
    linear(l, act_of(2, 150, 456, 0), 330, BIAS, 0, 0, GRAFT_F32);
    linear(l, act_of(3, 128, 1024, 0), 320, RES, GRAFT_ACT_QUICK_GELU, 0, GRAFT_F16);
    /* Rows that are multiplied in parts. */
    linear(l, act_of(2, 37, 4160, 0), 112, BIAS | RES, 0, 0, GRAFT_BF16);
    linear(l, act_of(1, 33, 2600, 0), 96, BIAS, GRAFT_ACT_GEGLU, 0, GRAFT_F32);
    linear(l, act_of(1, 15, 2081, 0), 304, BIAS | RES, GRAFT_ACT_SILU, 3, GRAFT_F32);
    uint64_t state = 2;
    for (int i = 0; i < 30; i++) {
        int64_t v[6];
        for (int j = 0; j < 6; j++) v[j] = (int64_t)(random_next(&state) >> 40);
        graft_act act = (graft_act)(v[4] % 5);
        int extras = (int)v[5] & (act == GRAFT_ACT_GEGLU ? BIAS : BIAS | RES);
        linear(l, act_of(1 + v[0] % 3, 1 + v[1] % 40, 1 + v[2] % 150, 0), 2 + v[3] % 140 / 2 * 2,
               extras, act, i % 3 ? 0 : v[0] % 11, float_dtype[i % 4]);
    }
}

/* gap: how far q, k and v rows exceed their length; a multiple of the channels is a merged tensor.
 */
static kernel_case *attention(case_list *l, int64_t n, int64_t t, int64_t s, int32_t heads,
                              int64_t d, int32_t causal, int64_t q_gap, int64_t kv_gap)
{
    kernel_case *c = add_case(l, GRAFT_OP_ATTENTION);
    c->desc.attrs =
        (graft_attrs){.heads = heads, .causal = causal, .scale = 1.0f / sqrtf((float)d)};
    c->desc.in[0] = gapped(act_of(n, t, heads * d, 0), q_gap);
    c->desc.in[1] = c->desc.in[2] = gapped(act_of(n, s, heads * d, 0), kv_gap);
    c->desc.out = act_of(n, t, heads * d, 0);
    snprintf(c->name, sizeof c->name,
             "attention %lld x %lld on %lld, %d heads of %lld%s, gaps %lld %lld", (long long)n,
             (long long)t, (long long)s, (int)heads, (long long)d, causal ? " causal" : "",
             (long long)q_gap, (long long)kv_gap);
    return c;
}

/* Scores far apart, so that what counts as large changes on the way. */
static void steep(kernel_case *c, float times)
{
    size_t n = strlen(c->name);
    c->desc.attrs.scale *= times;
    snprintf(c->name + n, sizeof c->name - n, ", steep");
}

static void attentions(case_list *l)
{
    attention(l, 1, 256, 256, 8, 40, 0, 0, 0);
    attention(l, 2, 256, 256, 8, 40, 0, 640, 640); /* slices of q, k, v in one tensor */
    attention(l, 2, 64, 77, 8, 80, 0, 0, 640);     /* cross, slices of k, v in one tensor */
    attention(l, 2, 16, 77, 8, 160, 0, 0, 0);
    attention(l, 1, 77, 77, 12, 64, 1, 1536, 1536); /* CLIP */
    attention(l, 2, 77, 77, 4, 64, 1, 0, 0);
    attention(l, 1, 144, 144, 1, 512, 0, 0, 0); /* VAE */
    attention(l, 1, 1, 1, 2, 64, 0, 0, 0);
    attention(l, 1, 1, 77, 2, 40, 0, 0, 0);
    attention(l, 3, 1, 1, 1, 8, 1, 0, 0);
    attention(l, 1, 33, 65, 3, 5, 0, 7, 3);
    attention(l, 2, 17, 17, 2, 32, 1, 1, 2);
    attention(l, 1, 9, 154, 5, 24, 0, 0, 0); /* two prompts joined */
    attention(l, 1, 576, 576, 2, 40, 0, 160, 160);
    attention(l, 1, 100, 1, 4, 16, 0, 0, 0);
    attention(l, 1, 70, 400, 1, 512, 0, 0, 0); /* more keys than are laid out at a time */
    attention(l, 1, 200, 200, 1, 1024, 1, 0, 0);
    attention(l, 1, 65, 200, 2, 41, 0, 3, 5);
    attention(l, 1, 130, 130, 1, 7, 1, 0, 0);
    steep(attention(l, 1, 192, 1000, 2, 40, 0, 0, 0), 60);
    steep(attention(l, 1, 100, 400, 1, 512, 0, 0, 0), 8);
    steep(attention(l, 2, 300, 300, 1, 16, 1, 0, 0), 60);
}

static void binary(case_list *l, graft_op op, graft_tensor_desc a, graft_tensor_desc b, int64_t gap)
{
    kernel_case *c = add_case(l, op);
    c->desc.in[0] = gapped(a, gap);
    c->desc.in[1] = b;
    c->desc.out = gapped(a, gap / 2);
    snprintf(c->name, sizeof c->name, "%s rank %d of %lld, %s b %lldx%lldx%lldx%lld, gap %lld",
             op == GRAFT_OP_ADD ? "add" : "mul", (int)a.rank, (long long)element_count(&a),
             b.constant ? "constant" : "given", (long long)b.dim[0], (long long)b.dim[1],
             (long long)b.dim[2], (long long)b.dim[3], (long long)gap);
}

static void binaries(case_list *l)
{
    for (graft_op op = GRAFT_OP_ADD; op <= GRAFT_OP_MUL; op++) {
        binary(l, op, act_of(2, 16, 16, 320), act_of(2, 16, 16, 320), 0);
        binary(l, op, act_of(2, 77, 768, 0), weight_of(1, 77, 768, 0), 0); /* position table */
        binary(l, op, act_of(2, 77, 768, 0), act_of(1, 1, 768, 0), 0);
        binary(l, op, act_of(2, 5, 7, 24), act_of(1, 1, 1, 24), 0);
        binary(l, op, act_of(2, 5, 7, 24), act_of(1, 5, 7, 24), 4);
        binary(l, op, act_of(2, 5, 7, 24), gapped(act_of(2, 5, 7, 24), 3), 8);
        binary(l, op, act_of(3, 33, 0, 0), weight_of(1, 33, 0, 0), 0);
        binary(l, op, act_of(1001, 0, 0, 0), act_of(1001, 0, 0, 0), 0);
        binary(l, op, act_of(1, 0, 0, 0), act_of(1, 0, 0, 0), 0);
    }
    /* A factor, float32 beside any dtype. */
    binary(l, GRAFT_OP_MUL, act_of(2, 5, 7, 24), act_of(1, 1, 1, 1), 0);
    binary(l, GRAFT_OP_MUL, act_of(2, 5, 7, 24), act_of(1, 1, 1, 1), 8);
    binary(l, GRAFT_OP_MUL, act_of(3, 16, 16, 320), act_of(1, 1, 1, 1), 0);
}

static void unary(case_list *l, graft_op op, graft_attrs attrs, graft_tensor_desc x,
                  graft_tensor_desc out, const char *name)
{
    kernel_case *c = add_case(l, op);
    c->desc.attrs = attrs;
    c->desc.in[0] = x;
    c->desc.out = out;
    snprintf(c->name, sizeof c->name, "%s%s %lldx%lldx%lldx%lld", name, act_name[attrs.act],
             (long long)x.dim[0], (long long)x.dim[1], (long long)x.dim[2], (long long)x.dim[3]);
}

static void elementwise(case_list *l)
{
    for (graft_act act = GRAFT_ACT_SILU; act <= GRAFT_ACT_QUICK_GELU; act++) {
        graft_attrs a = {.act = act};
        unary(l, GRAFT_OP_ACT, a, act_of(2, 1280, 0, 0), act_of(2, 1280, 0, 0), "act");
        unary(l, GRAFT_OP_ACT, a, act_of(2, 3, 5, 7), act_of(2, 3, 5, 7), "act");
        unary(l, GRAFT_OP_ACT, a, gapped(act_of(9, 31, 0, 0), 2), act_of(9, 31, 0, 0), "act gap");
    }
    graft_attrs scale = {.scale = 0.18215f, .shift = -0.5f}, minus = {.scale = -3};
    unary(l, GRAFT_OP_SCALE, scale, act_of(1, 32, 32, 4), act_of(1, 32, 32, 4), "scale");
    unary(l, GRAFT_OP_SCALE, minus, gapped(act_of(5, 13, 0, 0), 3), act_of(5, 13, 0, 0), "scale");
    unary(l, GRAFT_OP_SCALE, minus, act_of(17, 0, 0, 0), act_of(17, 0, 0, 0), "scale");
    graft_attrs none = {0};
    unary(l, GRAFT_OP_GEGLU, none, act_of(1, 64, 640, 0), act_of(1, 64, 320, 0), "geglu");
    unary(l, GRAFT_OP_GEGLU, none, gapped(act_of(3, 4, 14, 0), 2), gapped(act_of(3, 4, 7, 0), 1),
          "geglu gap");
    unary(l, GRAFT_OP_GEGLU, none, act_of(2, 0, 0, 0), act_of(1, 0, 0, 0), "geglu");
    unary(l, GRAFT_OP_TIMESTEP, none, act_of(2, 0, 0, 0), act_of(2, 320, 0, 0), "timestep");
    unary(l, GRAFT_OP_TIMESTEP, none, act_of(7, 0, 0, 0), act_of(7, 2, 0, 0), "timestep");
    unary(l, GRAFT_OP_TIMESTEP, none, act_of(1, 0, 0, 0), act_of(1, 256, 0, 0), "timestep");
    static const int32_t up[][5] = {
        {1, 8, 8, 16, 16}, {2, 5, 7, 9, 13}, {1, 3, 4, 10, 4}, {1, 7, 7, 3, 2}, {1, 1, 1, 5, 6}};
    for (size_t i = 0; i < sizeof up / sizeof *up; i++) {
        graft_attrs a = {.up_h = up[i][3], .up_w = up[i][4]};
        int64_t channels = i % 2 ? 5 : 64;
        unary(l, GRAFT_OP_UPSAMPLE, a, gapped(act_of(up[i][0], up[i][1], up[i][2], channels), i),
              act_of(up[i][0], up[i][3], up[i][4], channels), "upsample");
    }
}

static void two_inputs(case_list *l, graft_op op, graft_tensor_desc a, graft_tensor_desc b,
                       graft_tensor_desc out, graft_dtype source, const char *name)
{
    kernel_case *c = add_case(l, op);
    c->desc.in[0] = a;
    c->desc.in[1] = b;
    c->desc.out = out;
    c->source = source;
    snprintf(c->name, sizeof c->name, "%s %lldx%lldx%lldx%lld, weights %d", name,
             (long long)a.dim[0], (long long)a.dim[1], (long long)a.dim[2], (long long)a.dim[3],
             (int)source);
}

static graft_tensor_desc ids_of(int64_t a, int64_t b)
{
    graft_tensor_desc t = act_of(a, b, 0, 0);
    t.dtype = GRAFT_I32;
    return t;
}

static void moves(case_list *l)
{
    two_inputs(l, GRAFT_OP_CONCAT, act_of(2, 16, 16, 320), act_of(2, 16, 16, 640),
               act_of(2, 16, 16, 960), 1, "concat");
    two_inputs(l, GRAFT_OP_CONCAT, gapped(act_of(2, 3, 5, 7), 2), act_of(2, 3, 5, 1),
               gapped(act_of(2, 3, 5, 8), 5), 1, "concat gap");
    two_inputs(l, GRAFT_OP_CONCAT, act_of(3, 0, 0, 0), act_of(4, 0, 0, 0), act_of(7, 0, 0, 0), 1,
               "concat");
    two_inputs(l, GRAFT_OP_CONCAT, act_of(2, 9, 11, 0), weight_of(2, 9, 4, 0), act_of(2, 9, 15, 0),
               1, "concat constant");
    two_inputs(l, GRAFT_OP_EMBEDDING, ids_of(2, 77), weight_of(1000, 768, 0, 0),
               act_of(2, 77, 768, 0), GRAFT_F16, "embedding");
    two_inputs(l, GRAFT_OP_EMBEDDING, ids_of(5, 0), weight_of(3, 7, 0, 0),
               gapped(act_of(5, 7, 0, 0), 2), GRAFT_F8_E4M3, "embedding");
    two_inputs(l, GRAFT_OP_EMBEDDING, gapped(ids_of(3, 4), 2), weight_of(9, 5, 0, 0),
               act_of(3, 4, 5, 0), GRAFT_BF16, "embedding gap");
    two_inputs(l, GRAFT_OP_GATHER_ROW, act_of(2, 77, 768, 0), ids_of(2, 0), act_of(2, 768, 0, 0), 1,
               "gather_row");
    two_inputs(l, GRAFT_OP_GATHER_ROW, gapped(act_of(3, 5, 11, 0), 4), ids_of(3, 0),
               gapped(act_of(3, 11, 0, 0), 1), 1, "gather_row gap");
}

static void copy(case_list *l, graft_tensor_desc x, graft_tensor_desc out, graft_dtype from,
                 graft_dtype to)
{
    kernel_case *c = add_case(l, GRAFT_OP_COPY);
    c->fixed = true;
    c->desc.in[0] = x;
    c->desc.out = out;
    c->desc.in[0].dtype = from;
    c->desc.out.dtype = to;
    snprintf(c->name, sizeof c->name,
             "copy dtype %d to %d, %lldx%lldx%lldx%lld, strides %lld,%lld,%lld,%lld", (int)from,
             (int)to, (long long)x.dim[0], (long long)x.dim[1], (long long)x.dim[2],
             (long long)x.dim[3], (long long)x.stride[0], (long long)x.stride[1],
             (long long)x.stride[2], (long long)x.stride[3]);
}

/* A view in the shape (n,h,w,c) of a dense (n,c,h,w). */
static graft_tensor_desc channels_first(int64_t n, int64_t h, int64_t w, int64_t c)
{
    graft_tensor_desc t = act_of(n, h, w, c);
    t.stride[0] = c * h * w;
    t.stride[1] = w;
    t.stride[2] = 1;
    t.stride[3] = h * w;
    return t;
}

static void copies(case_list *l)
{
    static const graft_dtype all[] = {GRAFT_F32, GRAFT_F16, GRAFT_BF16, GRAFT_I8,
                                      GRAFT_U8,  GRAFT_I32, GRAFT_I64,  GRAFT_F64};
    for (size_t i = 0; i < 8; i++)
        for (size_t j = 0; j < 8; j++)
            copy(l, gapped(act_of(3, 5, 17, 0), i % 3), act_of(3, 5, 17, 0), all[i], all[j]);
    copy(l, act_of(2, 19, 0, 0), act_of(2, 19, 0, 0), GRAFT_F8_E4M3, GRAFT_F32);
    copy(l, act_of(2, 19, 0, 0), act_of(2, 19, 0, 0), GRAFT_F8_E5M2, GRAFT_BF16);
    copy(l, act_of(2, 19, 0, 0), act_of(2, 19, 0, 0), GRAFT_F32, GRAFT_BOOL8);
    for (size_t i = 0; i < 3; i++) {
        graft_dtype t = all[i];
        copy(l, channels_first(2, 16, 16, 4), act_of(2, 16, 16, 4), t, t);
        copy(l, act_of(2, 16, 16, 4), channels_first(2, 16, 16, 4), t, t);
        copy(l, channels_first(1, 5, 7, 3), act_of(1, 5, 7, 3), GRAFT_F32, t);
        copy(l, act_of(1, 5, 7, 3), channels_first(1, 5, 7, 3), t, GRAFT_F32);
        copy(l, gapped(act_of(2, 6, 5, 8), 8), act_of(2, 6, 5, 8), t, t); /* a slice */
    }
    copy(l, act_of(1, 0, 0, 0), act_of(1, 0, 0, 0), GRAFT_F32, GRAFT_F16);
    copy(l, act_of(2, 64, 320, 0), act_of(2, 64, 320, 0), GRAFT_BF16, GRAFT_F32);
}

static void prelu(case_list *l, graft_tensor_desc x, int64_t gap)
{
    kernel_case *c = add_case(l, GRAFT_OP_PRELU);
    c->desc.in[GRAFT_PRELU_X] = gapped(x, gap);
    c->desc.in[GRAFT_PRELU_SLOPE] = weight_of(x.dim[x.rank - 1], 0, 0, 0);
    c->desc.out = gapped(x, gap / 2);
    snprintf(c->name, sizeof c->name, "prelu %lldx%lldx%lldx%lld, gap %lld", (long long)x.dim[0],
             (long long)x.dim[1], (long long)x.dim[2], (long long)x.dim[3], (long long)gap);
}

/* What networks that enlarge pictures need beside the others. */
static void upscalers(case_list *l)
{
    static const conv_row rows[] = {
        {1, 9, 11, 96, 32, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS, GRAFT_ACT_LEAKY, 0, 0},
        {1, 7, 5, 24, 20, 3, 3, 1, 1, {1, 1, 1, 1}, 2, 14, 10, ALL, GRAFT_ACT_LEAKY, 0, 0}};
    const graft_attrs leaky = {.act = GRAFT_ACT_LEAKY};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) conv(l, rows[i]);
    linear(l, act_of(2, 3, 5, 7), 12, BIAS | RES, GRAFT_ACT_LEAKY, 0, GRAFT_F32);
    unary(l, GRAFT_OP_ACT, leaky, act_of(2, 3, 5, 7), act_of(2, 3, 5, 7), "act");
    unary(l, GRAFT_OP_ACT, leaky, gapped(act_of(9, 31, 0, 0), 2), act_of(9, 31, 0, 0), "act gap");
    prelu(l, act_of(2, 16, 16, 64), 0);
    prelu(l, act_of(1, 5, 7, 9), 0);
    prelu(l, act_of(2, 5, 7, 24), 8);
    prelu(l, act_of(3, 4, 5, 1), 0);
    prelu(l, act_of(33, 0, 0, 0), 0);
    group_norm(l, act_of(1, 3, 5, 22), 2, GRAFT_ACT_LEAKY, 1e-5f, 0);
}

static void factor(case_list *l, graft_op op, graft_tensor_desc x, int64_t gap)
{
    kernel_case *c = add_case(l, op);
    c->desc.in[GRAFT_FACTOR_X] = gapped(x, gap);
    c->desc.in[GRAFT_FACTOR] = act_of(1, 0, 0, 0);
    c->desc.out = gapped(x, gap / 2);
    snprintf(c->name, sizeof c->name, "%s %lldx%lldx%lldx%lld, gap %lld",
             op == GRAFT_OP_MEAN_SCALE ? "mean_scale" : "low_scale", (long long)x.dim[0],
             (long long)x.dim[1], (long long)x.dim[2], (long long)x.dim[3], (long long)gap);
}

/* What FreeU does to features; short axes, and lengths that are no multiple of anything. */
static void factors(case_list *l)
{
    static const int64_t dims[][4] = {{2, 8, 8, 64},   {1, 7, 5, 9},    {3, 4, 6, 1},
                                      {1, 1, 9, 22},   {2, 5, 1, 34},   {1, 1, 1, 6},
                                      {1, 2, 2, 17},   {1, 3, 2, 48},   {1, 33, 70, 32},
                                      {2, 11, 13, 70}, {1, 2, 131, 20}, {1, 16, 16, 320}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (int low = 0; low < 2; low++) {
            const int64_t *d = dims[i];
            factor(l, low ? GRAFT_OP_LOW_SCALE : GRAFT_OP_MEAN_SCALE,
                   act_of(d[0], d[1], d[2], d[3]), i % 3 == 1 ? 6 : 0);
        }
}

/* What tiny autoencoders need beside the others: convolutions without bias, and ReLU. */
static void autoencoders(case_list *l)
{
    static const conv_row rows[] = {
        {1, 9, 11, 64, 64, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS, GRAFT_ACT_RELU, 0, 0},
        {2, 7, 9, 64, 64, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS | RES, GRAFT_ACT_RELU, 0, 0},
        {1, 10, 6, 64, 64, 3, 3, 2, 2, {1, 1, 1, 1}, 0, 0, 0, 0, GRAFT_ACT_NONE, 0, 0},
        {1, 7, 5, 24, 24, 3, 3, 1, 1, {1, 1, 1, 1}, 2, 14, 10, 0, GRAFT_ACT_NONE, 0, 0},
        {1, 5, 7, 24, 24, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, ALL, GRAFT_ACT_RELU, 3, 0},
        {1, 13, 12, 3, 20, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS, GRAFT_ACT_RELU, 0, 0}};
    const graft_attrs relu = {.act = GRAFT_ACT_RELU};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) conv(l, rows[i]);
    linear(l, act_of(2, 3, 5, 7), 12, BIAS | RES, GRAFT_ACT_RELU, 0, GRAFT_F32);
    unary(l, GRAFT_OP_ACT, relu, act_of(2, 3, 5, 7), act_of(2, 3, 5, 7), "act");
    unary(l, GRAFT_OP_ACT, relu, gapped(act_of(9, 31, 0, 0), 2), act_of(9, 31, 0, 0), "act gap");
    group_norm(l, act_of(1, 3, 5, 22), 2, GRAFT_ACT_RELU, 1e-5f, 0);
}

/* residual + a b */
static void gate(case_list *l, graft_tensor_desc a, int64_t apart, int64_t gap)
{
    kernel_case *c = add_case(l, GRAFT_OP_MUL);
    c->desc.in[GRAFT_MUL_A] = gapped(a, gap);
    c->desc.in[GRAFT_MUL_B] = gapped(act_of(a.dim[0], 1, a.dim[2], 0), apart - a.dim[2]);
    c->desc.in[GRAFT_MUL_RESIDUAL] = gapped(a, 2 * gap);
    c->desc.out = gapped(a, gap / 2);
    snprintf(c->name, sizeof c->name, "mul with residual %lldx%lldx%lld, rows %lld, gap %lld",
             (long long)a.dim[0], (long long)a.dim[1], (long long)a.dim[2], (long long)apart,
             (long long)gap);
}

/* The bias' rows are `apart` elements long, of which the keys are the first. */
static void biased(kernel_case *c, int64_t apart)
{
    graft_op_desc *d = &c->desc;
    size_t n = strlen(c->name);
    int64_t keys = d->in[1].dim[1];
    d->in[GRAFT_ATTENTION_BIAS] =
        gapped(act_of(d->attrs.heads, d->out.dim[1], keys, 0), apart - keys);
    snprintf(c->name + n, sizeof c->name - n, ", bias %lld", (long long)apart);
}

/* Scores that go far beyond what they may become. */
static void capped(kernel_case *c, float cap)
{
    size_t n = strlen(c->name);
    c->desc.attrs.shift = cap;
    snprintf(c->name + n, sizeof c->name - n, ", cap %g", (double)cap);
    steep(c, 3);
}

static void capped_attentions(case_list *l)
{
    biased(attention(l, 2, 33, 65, 3, 5, 0, 7, 3), 68);
    capped(&l->item[l->count - 1], 2);
    biased(attention(l, 1, 40, 40, 8, 256, 0, 0, 0), 40);
    capped(&l->item[l->count - 1], 0.5f);
}

static void counted(kernel_case *c)
{
    size_t n = strlen(c->name);
    c->desc.in[GRAFT_ATTENTION_COUNT] = ids_of(c->desc.out.dim[0], 0);
    snprintf(c->name + n, sizeof c->name - n, ", count");
}

static void joins(case_list *l)
{
    static const int64_t dims[][4] = {
        {2, 64, 77, 1536}, {1, 5, 9, 24}, {3, 1, 2, 7}, {1, 1, 1, 1}, {2, 11, 1, 64}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (int64_t gap = 0; gap <= 8; gap += 8) {
            const int64_t *d = dims[i];
            two_inputs(l, GRAFT_OP_JOIN, gapped(act_of(d[0], d[1], d[3], 0), 2 * gap),
                       gapped(act_of(d[0], d[2], d[3], 0), gap / 8 * 3),
                       gapped(act_of(d[0], d[1] + d[2], d[3], 0), gap), 1,
                       gap ? "join gap" : "join");
        }
}

/* batch, tokens, heads, values of each, rows, columns, values turned by either; the place of the
 * grid, its first row and column, tokens behind it; the base of the angles; values behind those
 * that turn; whether pairs go round; whether rows go down */
typedef int32_t rope_row[16];

static void ropes_of(case_list *l, const rope_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int64_t gap = 0; gap <= 8; gap += 4) {
            const int32_t *r = rows[i];
            kernel_case *c = add_case(l, GRAFT_OP_ROPE);
            graft_tensor_desc x = act_of(r[0], r[1], (int64_t)r[2] * r[3], 0);
            c->desc.attrs = (graft_attrs){
                .heads = r[2], .up_h = r[4], .up_w = r[5], .kernel_h = r[6], .kernel_w = r[7]};
            c->desc.attrs.groups = r[8];
            c->desc.attrs.pad_top = r[9];
            c->desc.attrs.pad_left = r[10];
            c->desc.attrs.pad_bottom = r[11];
            c->desc.attrs.scale = (float)r[12];
            c->desc.attrs.pad_right = r[13];
            c->desc.attrs.stride_h = r[14];
            c->desc.attrs.stride_w = r[15];
            c->desc.in[0] = gapped(x, gap);
            c->desc.out = gapped(x, gap / 8 * 3);
            snprintf(c->name, sizeof c->name,
                     "rope %d of %d tokens, %d x %d, grid %dx%d, turned %d+%d, at %d %d %d before "
                     "%d, base %d, last %d, mixed %d, down %d, gap %d",
                     r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11],
                     r[12], r[13], r[14], r[15], (int)gap);
        }
}

static void ropes(case_list *l)
{
    static const rope_row rows[] = {
        {2, 77, 24, 128, 7, 9, 56, 56},
        {1, 12, 3, 10, 3, 4, 4, 6},
        {2, 9, 1, 512, 2, 3, 256, 256},
        {3, 5, 2, 6, 1, 5, 0, 4},
        {1, 31, 4, 8, 5, 1, 8, 0},
        {1, 66, 2, 32, 64, 1, 16, 12},
        {1, 300, 1, 18, 1, 300, 2, 12},
        {1, 4, 5, 2, 1, 1, 0, 2},
        {2, 40, 24, 128, 3, 5, 56, 56, 1, 0, 0, 12},
        {1, 20, 2, 32, 3, 4, 12, 14, 3, 64, 0, 0},
        {2, 21, 3, 24, 2, 3, 6, 10, 0, 0, 9, 15},
        {1, 30, 1, 16, 4, 4, 0, 0, 7, 5, 2, 1},
        {1, 96, 4, 128, 1, 96, 0, 128, 0, 0, 0, 0, 1000000},
        {2, 40, 30, 128, 3, 5, 48, 48, 33, 0, 0, 12, 256},
        {1, 64, 2, 16, 32, 1, 4, 12, 0, 1, 0, 32, 256},
        {2, 30, 24, 128, 3, 5, 32, 32, 10, 0, 0, 12, 2000, 32},
        {1, 29, 3, 128, 3, 7, 32, 32, 0, 0, 0, 0, 2000, 32},
        {1, 14, 2, 18, 2, 3, 4, 6, 2, 1, 3, 1, 0, 6},
        {2, 9, 1, 10, 2, 4, 0, 0, 3, 0, 0, 1, 0, 10},
        {1, 40, 18, 256, 4, 5, 40, 40, 65536, 65536, 65536, 20, 5000000, 0, 1},
        {2, 9, 3, 22, 2, 3, 8, 6, 5, 2, 7, 1, 0, 0, 1},
        {1, 7, 2, 12, 3, 2, 4, 4, 0, 1, 0, 0, 100, 0, 1}};
    ropes_of(l, rows, sizeof rows / sizeof *rows);
}

/* Places that go down. */
static void falling_ropes(case_list *l)
{
    static const rope_row rows[] = {{2, 40, 24, 96, 37, 1, 32, 0, 0, 36, 0, 0, 10000, 64, 0, 1},
                                    {1, 21, 3, 24, 4, 3, 6, 10, 2, 700, 3, 5, 0, 2, 0, 1},
                                    {1, 9, 2, 12, 3, 2, 4, 4, 0, 2, 0, 1, 100, 0, 1, 1}};
    ropes_of(l, rows, sizeof rows / sizeof *rows);
}

/* Gates that are a tanh, and factors, float32 beside any dtype: one of each token, one of each
 * channel. */
static void gates(case_list *l)
{
    const graft_attrs tanh = {.act = GRAFT_ACT_TANH};
    unary(l, GRAFT_OP_ACT, tanh, act_of(2, 3, 5, 7), act_of(2, 3, 5, 7), "act");
    unary(l, GRAFT_OP_ACT, tanh, gapped(act_of(9, 31, 0, 0), 2), act_of(9, 31, 0, 0), "act gap");
    linear(l, act_of(2, 3, 5, 7), 12, BIAS | RES, GRAFT_ACT_TANH, 0, GRAFT_F32);
    linear(l, act_of(1, 131, 67, 0), 77, BIAS, GRAFT_ACT_TANH, 5, GRAFT_F32);
    binary(l, GRAFT_OP_MUL, act_of(2, 32, 48, 0), act_of(2, 32, 1, 0), 0);
    binary(l, GRAFT_OP_MUL, act_of(3, 7, 24, 0), act_of(3, 7, 1, 0), 4);
    binary(l, GRAFT_OP_MUL, act_of(2, 70, 384, 0), act_of(2, 1, 384, 0), 0);
    binary(l, GRAFT_OP_MUL, act_of(3, 5, 7, 0), act_of(3, 1, 7, 0), 2);
}

/* What diffusion transformers and T5 need beside the others. */
static void transformers(case_list *l)
{
    static const conv_row rows[] = {
        {1, 9, 11, 64, 64, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, BIAS, GRAFT_ACT_GELU_TANH, 0, 0},
        {2, 5, 7, 24, 20, 3, 3, 1, 1, {1, 1, 1, 1}, 0, 0, 0, ALL, GRAFT_ACT_GELU_TANH, 3, 0}};
    const graft_attrs tanh = {.act = GRAFT_ACT_GELU_TANH};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) conv(l, rows[i]);
    linear(l, act_of(2, 3, 5, 7), 12, BIAS | RES, GRAFT_ACT_GELU_TANH, 0, GRAFT_F32);
    linear(l, act_of(1, 131, 67, 0), 77, BIAS | RES, GRAFT_ACT_GELU_TANH, 5, GRAFT_F32);
    linear(l, act_of(2, 77, 384, 0), 1536, BIAS, GRAFT_ACT_GELU_TANH, 0, GRAFT_F16);
    linear(l, act_of(1, 25, 64, 0), 80, 0, GRAFT_ACT_GELU_TANH, 0, GRAFT_BF16);
    unary(l, GRAFT_OP_ACT, tanh, act_of(2, 3, 5, 7), act_of(2, 3, 5, 7), "act");
    unary(l, GRAFT_OP_ACT, tanh, gapped(act_of(9, 31, 0, 0), 2), act_of(9, 31, 0, 0), "act gap");
    group_norm(l, act_of(1, 3, 5, 22), 2, GRAFT_ACT_GELU_TANH, 1e-5f, 0);
    gates(l);
    cases_transformer_norms(l);
    joins(l);
    gate(l, act_of(2, 70, 1536, 0), 6 * 1536, 0);
    gate(l, act_of(3, 5, 7, 0), 7, 3);
    gate(l, act_of(1, 77, 64, 0), 64, 8);
    gate(l, act_of(4, 1, 33, 0), 33, 0);
    gate(l, act_of(2, 19, 1, 0), 5, 0);
    gate(l, act_of(1, 1, 1, 0), 1, 0);
    counted(attention(l, 4, 96, 150, 2, 64, 0, 0, 0));
    counted(attention(l, 3, 70, 300, 2, 40, 0, 160, 160));
    counted(attention(l, 3, 70, 200, 1, 80, 0, 0, 0));
    counted(attention(l, 4, 136, 264, 2, 128, 0, 0, 256));
    counted(attention(l, 2, 33, 65, 3, 5, 0, 7, 3));
    counted(attention(l, 2, 16, 77, 2, 160, 0, 0, 0));
    counted(attention(l, 2, 70, 400, 1, 512, 0, 0, 0));
    counted(attention(l, 3, 1, 1, 1, 8, 0, 0, 0));
    attention(l, 1, 200, 300, 2, 128, 0, 0, 0);
    biased(attention(l, 1, 77, 77, 4, 64, 0, 0, 0), 77);
    biased(attention(l, 2, 33, 65, 3, 5, 0, 7, 3), 68);
    biased(attention(l, 1, 40, 40, 64, 8, 0, 1024, 1024), 40);
    biased(attention(l, 1, 130, 200, 2, 41, 0, 3, 5), 201);
    biased(attention(l, 3, 1, 1, 1, 8, 0, 0, 0), 1);
    biased(attention(l, 1, 100, 1, 4, 16, 0, 0, 0), 1);
    biased(attention(l, 1, 70, 400, 1, 512, 0, 0, 0), 400);
    attention(l, 1, 192, 300, 2, 64, 0, 0, 0)->desc.attrs.scale = 1; /* T5 has no other */
    biased(&l->item[l->count - 1], 512);
}

/* What oneDNN got wrong with AMX: rows or columns left out, and 1 x 1 of few pixels. */
static void left_out(case_list *l)
{
    static const conv_row rows[] = {
        {1, 33, 8, 16, 77, 3, 3, 2, 2, {1, 1, 3, 1}, 0, 0, 0, BIAS, 0, 0, 0},
        {1, 20, 11, 84, 86, 1, 2, 2, 2, {0, 1, 0, 1}, 0, 0, 0, 0, 0, 0, 0},
        {1, 26, 2, 192, 96, 3, 1, 2, 3, {1, 0, 1, 0}, 0, 0, 0, BIAS, 0, 0, 0},
        {1, 6, 6, 128, 56, 1, 1, 1, 1, {0, 0, 0, 0}, 0, 0, 0, BIAS | RES, 0, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) conv(l, rows[i]);
}

/* Few tokens with heads that one block cannot keep: two pictures of two heads, dense and as slices
 * of q, k, v in one tensor, and keys that are no multiple of what is laid out at a time. */
static void long_heads(case_list *l)
{
    attention(l, 2, 6, 16, 2, 256, 0, 0, 0);
    attention(l, 2, 7, 9, 2, 256, 0, 1024, 1024);
    kernel_case *c = &l->item[l->count - 1];
    c->desc.out = gapped(c->desc.out, 512);
    attention(l, 1, 5, 21, 1, 168, 0, 0, 336);
    steep(attention(l, 1, 3, 40, 1, 512, 0, 0, 0), 8);
    attention(l, 2, 70, 77, 2, 256, 0, 1024, 1024);
}

static void tokens(case_list *l)
{
    /* batch, rows, columns, channels, tokens left, pattern, gap */
    static const int32_t rows[][7] = {
        {2, 16, 16, 40, 128, 0, 0}, {1, 24, 20, 320, 336, 7, 0},  {2, 9, 7, 24, 40, 3, 4},
        {3, 8, 8, 33, 16, 1, 8},    {1, 2, 2, 8, 1, 2, 0},        {2, 4, 6, 16, 24, 5, 0},
        {1, 1, 9, 16, 9, 0, 0},     {2, 33, 31, 64, 600, 900, 0}, {1, 48, 52, 17, 700, 12, 8},
        {1, 5, 3, 1, 8, 4, 3},      {1, 20, 18, 16, 200, 3, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int32_t *r = rows[i];
        const int64_t all = (int64_t)r[1] * r[2];
        const graft_tensor_desc x = gapped(act_of(r[0], all, r[3], 0), r[6]);
        const graft_tensor_desc few = gapped(act_of(r[0], r[4], r[3], 0), r[6] / 2);
        const graft_tensor_desc table = gapped(ids_of(r[0], all), r[6] / 4);
        kernel_case *c = add_case(l, GRAFT_OP_MATCH_TOKENS);
        c->desc.attrs = (graft_attrs){.up_h = r[1], .up_w = r[2], .groups = r[4], .pad_top = r[5]};
        c->desc.in[0] = x;
        c->desc.out = table;
        snprintf(c->name, sizeof c->name, "match_tokens %d of %dx%d, %d left of %d, pattern %d",
                 r[0], r[1], r[2], r[4], (int)all, r[5]);
        two_inputs(l, GRAFT_OP_MERGE_TOKENS, x, table, few, 1, "merge_tokens");
        l->item[l->count - 1].desc.attrs.groups = r[4];
        two_inputs(l, GRAFT_OP_SPREAD_TOKENS, few, table, x, 1, "spread_tokens");
    }
    /* many tokens of one row, and wide ones */
    two_inputs(l, GRAFT_OP_MERGE_TOKENS, act_of(1, 1800, 5, 0), ids_of(1, 1800), act_of(1, 1, 5, 0),
               1, "merge_tokens of many");
    l->item[l->count - 1].desc.attrs.groups = 1;
    two_inputs(l, GRAFT_OP_MERGE_TOKENS, act_of(2, 7, 1100, 0), ids_of(2, 7), act_of(2, 2, 1100, 0),
               1, "merge_tokens");
    l->item[l->count - 1].desc.attrs.groups = 2;
}

/* Gates of experts: few choices and many, all of them, dense and as slices. */
static void routes(case_list *l)
{
    /* entries, tokens, choices, how many are taken, gap */
    static const int32_t rows[][5] = {{2, 70, 4, 2, 0}, {1, 5, 4, 1, 3}, {3, 9, 8, 3, 8},
                                      {1, 1, 1, 1, 0},  {2, 3, 5, 5, 0}, {1, 600, 64, 6, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int32_t *r = rows[i];
        const graft_attrs taken = {.groups = r[3]};
        const graft_tensor_desc x = act_of(r[0], r[1], r[2], 0);
        unary(l, GRAFT_OP_ROUTE, taken, gapped(x, r[4]), gapped(x, r[4] / 2), "route");
    }
}

/* The place in the list seeds a case's values: new ones come last. */
kernel_case *kernel_cases(size_t *count)
{
    case_list l = {0};
    convs(&l);
    random_convs(&l);
    linears(&l);
    cases_norms(&l);
    attentions(&l);
    binaries(&l);
    elementwise(&l);
    moves(&l);
    copies(&l);
    cases_wide_norms(&l);
    upscalers(&l);
    factors(&l);
    autoencoders(&l);
    transformers(&l);
    cases_whole_groups(&l);
    left_out(&l);
    long_heads(&l);
    ropes(&l);
    tokens(&l);
    capped_attentions(&l);
    falling_ropes(&l);
    routes(&l);
    *count = l.count;
    return l.item;
}
