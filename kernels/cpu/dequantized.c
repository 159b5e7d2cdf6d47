/* LINEAR and CONV2D on weights of 4 bits, of 8, integers or FP8, or in bfloat16, and LINEAR on
 * blocks (kernels/blocks.h): the float operator on blocks of outputs (LINEAR) or on all of them
 * (CONV2D), whose weights are expanded into the workspace right before. With 8 bits the input is
 * rounded to its levels, so that results are those of integers but for the rounding of float32.
 * Widened, it computes in float32 what is bfloat16 outside. */
#include "kernels/cpu/dequantized.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cpu/conv2d.h"
#include "kernels/cpu/int8.h"
#include "kernels/cpu/linear.h"
#include "kernels/quant.h"

#define BLOCK_BYTES ((int64_t)1 << 20) /* of expanded weights, which should stay in the cache */

/* The float operator on one block. */
typedef struct part {
    graft_kernel kernel;
    graft_cpu_expand *place;
    int64_t outputs; /* of the result */
} part;

typedef struct state {
    part block, rest;
    int64_t outputs; /* of the whole result */
    int geglu;
    bool widened, residual; /* a residual that is to be widened, too */
    /* In the workspace. */
    size_t at_weights, at_tile, at_bias, at_input, at_most, at_turned, at_inner, at_residual,
        at_output;
} state;

bool graft_cpu_is_widened(const graft_device *d, const graft_op_desc *op)
{
    if ((op->op != GRAFT_OP_LINEAR && op->op != GRAFT_OP_CONV2D) ||
        op->in[GRAFT_LINEAR_X].dtype != GRAFT_BF16 || graft_cpu_multiplies_bf16())
        return false;
    return op->op == GRAFT_OP_LINEAR ? !graft_cpu_has_panels(d, op) : !graft_cpu_has_winograd(op);
}

static int64_t per_output(const graft_tensor_desc *w)
{
    return graft_cpu_elements(w) / w->dim[0];
}

static bool of_8_bits(const graft_op_desc *op)
{
    return graft_quant_is_8(op->attrs.quant);
}

/* The type of the blocks that the weight has; 0: it has none. */
static int32_t blocks_of(const graft_op_desc *op)
{
    return graft_quant_blocks(op->attrs.quant);
}

static graft_tensor_desc *residual_of(graft_op_desc *op)
{
    return &op->in[op->op == GRAFT_OP_CONV2D ? GRAFT_CONV_RESIDUAL : GRAFT_LINEAR_RESIDUAL];
}

/* Where the scales of 8 bits begin. */
static size_t levels_bytes(const graft_tensor_desc *w)
{
    return ((size_t)graft_cpu_elements(w) + GRAFT_CPU_ALIGN - 1) / GRAFT_CPU_ALIGN *
           GRAFT_CPU_ALIGN;
}

/* Outputs in a block. */
static int64_t block_outputs(const graft_op_desc *op)
{
    const graft_tensor_desc *w = &op->in[GRAFT_LINEAR_W];
    int64_t all = op->out.dim[op->out.rank - 1];
    bool geglu = op->op == GRAFT_OP_LINEAR && op->attrs.act == GRAFT_ACT_GEGLU;
    /* A constant residual is packed for the operator that it belongs to. */
    if (op->op == GRAFT_OP_CONV2D || op->in[GRAFT_LINEAR_RESIDUAL].constant) return all;
    int64_t row = w->dim[1] * (int64_t)graft_dtype_size(op->in[GRAFT_LINEAR_X].dtype);
    int64_t n = BLOCK_BYTES / (row * (geglu ? 2 : 1)) / 64 * 64;
    if (n < 64) n = 64;
    return n < all ? n : all;
}

/* The float operator that makes `n` outputs. Offsets into its tensors are the caller's. */
static void describe(const graft_op_desc *op, bool widened, int64_t n, graft_op_desc *out)
{
    *out = *op;
    out->attrs.quant = GRAFT_QUANT_NONE;
    if (op->op == GRAFT_OP_LINEAR) out->attrs.groups = 0;
    graft_tensor_desc *x = &out->in[GRAFT_LINEAR_X], *residual = residual_of(out);
    if (of_8_bits(op) || widened) graft_cpu_make_dense(x, widened ? GRAFT_F32 : x->dtype);
    if (widened) graft_cpu_make_dense(&out->out, GRAFT_F32);
    if (widened && graft_cpu_present(residual) && !residual->constant)
        graft_cpu_make_dense(residual, GRAFT_F32);
    if (op->op == GRAFT_OP_CONV2D) return;
    int64_t wide = op->attrs.act == GRAFT_ACT_GEGLU ? 2 * n : n;
    out->in[GRAFT_LINEAR_W].dim[0] = wide;
    out->out.dim[op->out.rank - 1] = n;
    if (graft_cpu_present(&op->in[GRAFT_LINEAR_BIAS])) out->in[GRAFT_LINEAR_BIAS].dim[0] = wide;
    if (graft_cpu_present(residual)) residual->dim[residual->rank - 1] = n;
}

static const graft_cpu_op *type_of(const graft_op_desc *op)
{
    return op->op == GRAFT_OP_CONV2D ? &graft_cpu_op_conv2d : &graft_cpu_op_linear;
}

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_op_desc plain;
    graft_status st =
        op->op == GRAFT_OP_CONV2D ? graft_cpu_conv2d_check(op, e) : graft_cpu_linear_check(op, e);
    const int32_t type = blocks_of(op);
    const int64_t *w = op->in[GRAFT_LINEAR_W].dim;
    if (!st && type && !graft_blocks_fit(type, w[0], w[1]))
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "linear: w is no whole number of blocks of %s",
                        graft_blocks_name(type));
    if (st) return st;
    describe(op, graft_cpu_is_widened(d, op), block_outputs(op), &plain);
    return type_of(op)->check(d, &plain, e);
}

static graft_status part_init(graft_kernel *k, part *p, int64_t outputs, graft_err *e)
{
    graft_kernel *own = &p->kernel;
    int output_dim;
    own->d = k->d;
    own->type = type_of(&k->op);
    own->usual = k->usual;
    own->info.variant_count = 1;
    describe(&k->op, ((const state *)k->state)->widened, outputs, &own->op);
    p->outputs = outputs;
    graft_status st = own->type->init(own, -1, e);
    if (st) return st;
    if (own->usual == INT64_MAX) k->usual = INT64_MAX;
    const dnnl_memory_desc_t *md = k->op.op == GRAFT_OP_CONV2D
                                       ? graft_cpu_conv2d_layout(own, &output_dim)
                                       : graft_cpu_linear_layout(own, &output_dim);
    st = graft_cpu_expand_create(k->d, md, output_dim, &p->place);
    return st ? graft_fail(e, st, "quantized weights: oneDNN's layout is not known") : GRAFT_OK;
}

static void part_finish(graft_device *d, part *p)
{
    if (p->kernel.type && p->kernel.type->finish) p->kernel.type->finish(&p->kernel);
    graft_cpu_free(d, p->kernel.state);
    graft_cpu_expand_destroy(d, p->place);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void lay_out(graft_kernel *k, state *s)
{
    const graft_kernel_info *a = &s->block.kernel.info, *b = &s->rest.kernel.info;
    size_t end = 0, tile = graft_cpu_expand_workspace(k->d, s->block.place);
    s->at_weights = graft_cpu_reserve(
        &end, larger(a->packed_bytes[GRAFT_LINEAR_W], b->packed_bytes[GRAFT_LINEAR_W]));
    if (s->rest.place) tile = larger(tile, graft_cpu_expand_workspace(k->d, s->rest.place));
    s->at_tile = graft_cpu_reserve(&end, tile);
    if (s->geglu)
        s->at_bias = graft_cpu_reserve(&end, 2 * (size_t)s->block.outputs * sizeof(float));
    if (of_8_bits(&k->op) || s->widened) {
        const graft_tensor_desc *x = &s->block.kernel.op.in[GRAFT_LINEAR_X];
        s->at_input =
            graft_cpu_reserve(&end, (size_t)graft_cpu_elements(x) * graft_dtype_size(x->dtype));
        s->at_most = graft_cpu_reserve(&end, GRAFT_CPU_INT8_PARTS * sizeof(float));
        s->at_turned =
            graft_cpu_reserve(&end, graft_cpu_int8_turned(&k->op) * (size_t)k->d->host.threads);
    }
    const size_t floats = (size_t)graft_cpu_elements(&k->op.out) * sizeof(float);
    if (s->widened) s->at_output = graft_cpu_reserve(&end, floats);
    if (s->residual) s->at_residual = graft_cpu_reserve(&end, floats);
    s->at_inner = graft_cpu_reserve(&end, larger(a->workspace_bytes, b->workspace_bytes));
    k->info.workspace_bytes = end;
}

/* Sizes and layout of packed weights, and the kernel's name. */
static void name_weights(graft_kernel *k)
{
    static const struct {
        const char *name;
        uint64_t packing;
    } kinds[] = {[GRAFT_QUANT_NONE] = {"bf16", 0},
                 [GRAFT_QUANT_INT8] = {"int8", GRAFT_CPU_PACKING_8BITS},
                 [GRAFT_QUANT_INT4] = {"int4", GRAFT_CPU_PACKING_4BITS},
                 [GRAFT_QUANT_FP8] = {"fp8", GRAFT_CPU_PACKING_FP8}};
    const state *s = k->state;
    const graft_tensor_desc *w = &k->op.in[GRAFT_LINEAR_W];
    const graft_quant q = k->op.attrs.quant;
    const int32_t type = blocks_of(&k->op);
    snprintf(k->info.variant, sizeof k->info.variant, "%s as floats, %.40s",
             type ? graft_blocks_name(type) : kinds[q].name, s->block.kernel.info.variant);
    if (type) {
        k->info.packing[GRAFT_LINEAR_W] = GRAFT_CPU_PACKING_BLOCKS + (uint64_t)type;
        k->info.packed_bytes[GRAFT_LINEAR_W] =
            (uint64_t)graft_blocks_bytes(type, w->dim[0], w->dim[1]);
        return;
    }
    if (q == GRAFT_QUANT_NONE) {
        graft_cpu_pack_as(k, GRAFT_LINEAR_W, GRAFT_BF16);
        return;
    }
    k->info.packing[GRAFT_LINEAR_W] = kinds[q].packing;
    k->info.packed_bytes[GRAFT_LINEAR_W] = of_8_bits(&k->op)
                                               ? levels_bytes(w) + (size_t)w->dim[0] * sizeof(float)
                                               : graft_quant4_bytes(w->dim[0], per_output(w));
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    graft_status st;
    state *s = k->state = graft_cpu_calloc(k->d, sizeof *s);
    (void)variant;
    if (!s) return graft_fail_nomem(e, "an operator on quantized weights");
    s->geglu = k->op.op == GRAFT_OP_LINEAR && k->op.attrs.act == GRAFT_ACT_GEGLU;
    s->outputs = k->op.out.dim[k->op.out.rank - 1];
    s->widened = graft_cpu_is_widened(k->d, &k->op);
    const graft_tensor_desc *residual = residual_of(&k->op);
    s->residual = s->widened && graft_cpu_present(residual) && !residual->constant;
    int64_t block = block_outputs(&k->op), rest = s->outputs % block;
    GRAFT_TRY(part_init(k, &s->block, block, e));
    if (rest) GRAFT_TRY(part_init(k, &s->rest, rest, e));
    lay_out(k, s);
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) {
        if (i == GRAFT_LINEAR_W || !k->op.in[i].constant) continue;
        graft_cpu_pack_as(k, i, s->block.kernel.op.in[i].dtype);
    }
    name_weights(k);
out:
    return st;
}

static void finish(graft_kernel *k)
{
    state *s = k->state;
    if (!s) return;
    part_finish(k->d, &s->block);
    part_finish(k->d, &s->rest);
}

/* ------------------------------------------------------------------ packing */

typedef struct job {
    graft_dtype from;
    const void *src;
    void *dst;
    float *row; /* one for each part */
    int64_t outputs, n;
} job;

static void pack_part(void *p, int index, int parts)
{
    const job *j = p;
    float *row = j->row + j->n * index;
    int64_t end = j->outputs * (index + 1) / parts;
    for (int64_t o = j->outputs * index / parts; o < end; o++) {
        graft_cpu_to_f32(j->from, j->src, o * j->n, row, j->n);
        graft_quant4_pack_rows(row, o, 1, j->outputs, j->n, j->dst);
    }
}

static void pack_blocks_part(void *p, int index, int parts)
{
    const job *j = p;
    float *row = j->row + j->n * index;
    int64_t end = j->outputs * (index + 1) / parts;
    for (int64_t o = j->outputs * index / parts; o < end; o++) {
        graft_cpu_to_f32(j->from, j->src, o * j->n, row, j->n);
        graft_ggml_pack_q8_0(row, j->n,
                             (uint8_t *)j->dst + graft_ggml_bytes(GRAFT_GGML_Q8_0, o * j->n));
    }
}

static graft_status pack8(graft_kernel *k, const graft_tensor_desc *w, graft_dtype t,
                          const void *src, void *dst)
{
    graft_cpu_int8_levels level;
    size_t levels = (size_t)graft_cpu_elements(w), end = levels_bytes(w);
    float *scale = (float *)(void *)((char *)dst + end);
    memset((char *)dst + levels, 0, end - levels);
    graft_status st = graft_cpu_int8_levels_of(k->d, k->op.attrs.quant, t, src, w->dim[0],
                                               per_output(w), scale, &level);
    if (!st) memcpy(dst, level.level, levels);
    graft_cpu_free(k->d, level.own);
    return st;
}

static graft_status pack(graft_kernel *k, int32_t input, graft_dtype t, const void *src, void *dst)
{
    const graft_tensor_desc *w = &k->op.in[input];
    if (of_8_bits(&k->op)) return pack8(k, w, t, src, dst);
    const int32_t type = blocks_of(&k->op);
    job j = {.from = t, .src = src, .dst = dst, .outputs = w->dim[0], .n = per_output(w)};
    if (t == graft_quant_dtype(k->op.attrs.quant)) {
        memcpy(dst, src, (size_t)k->info.packed_bytes[input]);
        return GRAFT_OK;
    }
    if (type && type != GRAFT_GGML_Q8_0) return GRAFT_E_UNSUPPORTED;
    if (type && j.n % GRAFT_GGML_SMALL) { /* a block goes on into the next row */
        j.n *= j.outputs;
        j.outputs = 1;
    }
    int parts = graft_cpu_threads(k->d, j.outputs * j.n);
    j.row = graft_cpu_calloc(k->d, (size_t)(parts * j.n) * sizeof(float));
    if (!j.row) return GRAFT_E_NOMEM;
    graft_cpu_parallel(parts, type ? pack_blocks_part : pack_part, &j);
    graft_cpu_free(k->d, j.row);
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ the input */

/* Rows of x, which are pixels of one picture (CONV2D) or all rows (LINEAR). */
typedef struct rounding {
    const graft_kernel *k;
    const void *x;
    void *y; /* dense */
    graft_dtype to;
    bool by_rows; /* each has a scale of its own, else `scale` is that of all */
    float scale, *turned;
    int64_t rows, length;
} rounding;

static const void *row_of(const rounding *r, int64_t i)
{
    const graft_tensor_desc *x = &r->k->op.in[GRAFT_LINEAR_X];
    if (r->k->op.op != GRAFT_OP_CONV2D)
        return graft_cpu_at(r->x, x->dtype, graft_cpu_row_offset(x, i));
    return graft_cpu_at(r->x, x->dtype,
                        i / x->dim[2] * x->stride[1] + i % x->dim[2] * x->stride[2]);
}

static void round_part(void *p, int index, int parts)
{
    enum { PIECE = 512 };
    const rounding *r = p;
    const graft_cpu_simd *simd = r->k->d->simd;
    graft_quant q = r->k->op.attrs.quant;
    int64_t end = r->rows * (index + 1) / parts;
    int8_t level[PIECE];
    float value[PIECE];
    for (int64_t i = r->rows * index / parts; i < end; i++) {
        graft_cpu_int8_row ready =
            graft_cpu_int8_row_of(r->k, row_of(r, i), r->turned + index * r->length);
        const void *row = ready.x;
        const graft_dtype t = ready.type;
        float scale = r->scale;
        if (r->by_rows) scale = graft_quant8_scale(q, simd->absmax(row, t, (size_t)r->length));
        for (int64_t at = 0; at < r->length; at += PIECE) {
            size_t n = (size_t)(r->length - at < PIECE ? r->length - at : PIECE);
            if (q == GRAFT_QUANT_FP8) {
                float inverse = graft_quant_inverse(scale);
                simd->act(GRAFT_ACT_NONE, graft_cpu_at(row, t, at), t, value, GRAFT_F32, n);
                for (size_t k = 0; k < n; k++)
                    value[k] = graft_quant_e4m3(value[k] * inverse) * scale;
            } else {
                simd->to_s8(graft_cpu_at(row, t, at), t, graft_quant_inverse(scale), level, n);
                for (size_t k = 0; k < n; k++) value[k] = (float)level[k] * scale;
            }
            simd->act(GRAFT_ACT_NONE, value, GRAFT_F32,
                      graft_cpu_at_mut(r->y, r->to, i * r->length + at), r->to, n);
        }
    }
}

/* x to multiples of its scales, one a row (LINEAR) or one a picture (CONV2D), in the dtype that is
 * computed in. */
static void round_input(const graft_kernel *k, const void *x, char *ws)
{
    const state *s = k->state;
    const graft_tensor_desc *d = &k->op.in[GRAFT_LINEAR_X];
    bool pictures = k->op.op == GRAFT_OP_CONV2D;
    int64_t count = pictures ? d->dim[0] : 1, length = d->dim[d->rank - 1];
    int64_t rows = graft_cpu_elements(d) / length / count;
    graft_dtype to = s->widened ? GRAFT_F32 : d->dtype;
    float *each = (float *)(void *)(ws + s->at_most);
    for (int64_t n = 0; n < count; n++) {
        rounding r = {.k = k,
                      .x = graft_cpu_at(x, d->dtype, pictures ? n * d->stride[0] : 0),
                      .y = graft_cpu_at_mut(ws + s->at_input, to, n * rows * length),
                      .to = to,
                      .by_rows = !pictures,
                      .turned = (float *)(void *)(ws + s->at_turned),
                      .rows = rows,
                      .length = length};
        if (pictures)
            r.scale =
                graft_quant8_scale(k->op.attrs.quant, graft_cpu_int8_most(k->d, d, r.x, each));
        graft_cpu_parallel(graft_cpu_threads(k->d, rows * length), round_part, &r);
    }
}

/* ------------------------------------------------------------------ running */

/* Rows of one tensor to another of its shape. */
typedef struct conversion {
    const graft_kernel *k;
    const graft_tensor_desc *from, *to;
    const void *x;
    void *y;
} conversion;

static void convert_part(void *p, int index, int parts)
{
    const conversion *r = p;
    int64_t all = graft_cpu_rows(r->from), end = all * (index + 1) / parts;
    for (int64_t i = all * index / parts; i < end; i++)
        r->k->d->simd->act(
            GRAFT_ACT_NONE, graft_cpu_at(r->x, r->from->dtype, graft_cpu_row_offset(r->from, i)),
            r->from->dtype, graft_cpu_at_mut(r->y, r->to->dtype, graft_cpu_row_offset(r->to, i)),
            r->to->dtype, (size_t)r->from->dim[r->from->rank - 1]);
}

/* `t`, a tensor of k, to dense float32 (widen), or from it. */
static void convert(const graft_kernel *k, const graft_tensor_desc *t, const void *from, void *to,
                    bool widen)
{
    graft_tensor_desc dense = *t;
    graft_cpu_make_dense(&dense, GRAFT_F32);
    conversion r = {k, widen ? t : &dense, widen ? &dense : t, from, to};
    graft_cpu_parallel(graft_cpu_threads(k->d, graft_cpu_elements(t)), convert_part, &r);
}

/* Outputs from `first` on. */
static graft_status run_part(const graft_kernel *k, part *p, int64_t first, const void *const *in,
                             void *out, char *ws)
{
    const state *s = k->state;
    const graft_tensor_desc *w = &k->op.in[GRAFT_LINEAR_W];
    const void *own[GRAFT_MAX_INPUTS];
    const char *packed = in[GRAFT_LINEAR_W];
    const int at_residual = (int)(residual_of(&p->kernel.op) - p->kernel.op.in);
    graft_cpu_expand_rows rows = {.quant = k->op.attrs.quant,
                                  .level = packed,
                                  .outputs = w->dim[0],
                                  .first = first,
                                  .count = p->outputs,
                                  .second = s->outputs + first,
                                  .narrow = s->widened};
    if (of_8_bits(&k->op))
        rows.scale = (const float *)(const void *)(packed + levels_bytes(w));
    else if (k->op.attrs.quant == GRAFT_QUANT_INT4)
        rows.scale = graft_quant4_scales(packed, w->dim[0], per_output(w));
    memcpy(own, in, sizeof own);
    if (of_8_bits(&k->op) || s->widened) own[GRAFT_LINEAR_X] = ws + s->at_input;
    if (s->residual) own[at_residual] = ws + s->at_residual;
    if (s->widened) out = ws + s->at_output;
    graft_cpu_expand_run(k->d, p->place, &rows, ws + s->at_weights, ws + s->at_tile);
    own[GRAFT_LINEAR_W] = ws + s->at_weights;
    if (k->op.op == GRAFT_OP_LINEAR) {
        const graft_tensor_desc *residual = &p->kernel.op.in[GRAFT_LINEAR_RESIDUAL];
        const float *bias = in[GRAFT_LINEAR_BIAS];
        if (bias && s->geglu) {
            float *both = (float *)(void *)(ws + s->at_bias);
            memcpy(both, bias + first, (size_t)p->outputs * sizeof *both);
            memcpy(both + p->outputs, bias + s->outputs + first, (size_t)p->outputs * sizeof *both);
            own[GRAFT_LINEAR_BIAS] = both;
        } else if (bias) {
            own[GRAFT_LINEAR_BIAS] = bias + first;
        }
        if (graft_cpu_present(residual))
            own[GRAFT_LINEAR_RESIDUAL] =
                graft_cpu_at(own[GRAFT_LINEAR_RESIDUAL], residual->dtype, first);
    }
    return p->kernel.type->launch(
        &p->kernel, own, graft_cpu_at_mut(out, p->kernel.op.out.dtype, first), ws + s->at_inner);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    state *s = k->state;
    graft_status st = GRAFT_OK;
    int64_t first = 0;
    char *ws = workspace;
    const graft_tensor_desc *residual = residual_of(&k->op);
    const graft_tensor_desc *x = &k->op.in[GRAFT_LINEAR_X];
    if (of_8_bits(&k->op))
        round_input(k, in[GRAFT_LINEAR_X], ws);
    else if (s->widened)
        convert(k, x, in[GRAFT_LINEAR_X], ws + s->at_input, true);
    if (s->residual) convert(k, residual, in[residual - k->op.in], ws + s->at_residual, true);
    for (; first + s->block.outputs <= s->outputs && !st; first += s->block.outputs)
        st = run_part(k, &s->block, first, in, out, ws);
    if (!st && first < s->outputs) st = run_part(k, &s->rest, first, in, out, ws);
    if (!st && s->widened) convert(k, &k->op.out, ws + s->at_output, out, false);
    return st;
}

const graft_cpu_op graft_cpu_op_dequantized = {check, init, finish, pack, launch, NULL};
