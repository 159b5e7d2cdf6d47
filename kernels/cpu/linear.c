/* LINEAR: by our own products (linear_panels.c) or by oneDNN over all rows at once. GEGLU runs on
 * blocks of rows whose wide result stays in the cache until the pass that halves it. */
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/linear.h"
#include "kernels/hadamard.h"

typedef enum variant_kind { VARIANT_PANELS, VARIANT_MATMUL, VARIANT_INNER_PRODUCT } variant_kind;

typedef struct linear_state {
    graft_cpu_primitive primitive, tail; /* blocks of rows, and the rest of them */
    int64_t rows, block, rest;
    variant_kind variant;
    int bias, geglu, own_residual, copy_input, copy_output;
    int scratchpad, post_op;
    size_t at_scratchpad, at_input, at_output; /* in the workspace */
} linear_state;

graft_status graft_cpu_linear_check(const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *x = &op->in[GRAFT_LINEAR_X], *w = &op->in[GRAFT_LINEAR_W];
    const graft_tensor_desc *residual = &op->in[GRAFT_LINEAR_RESIDUAL], *y = &op->out;
    int geglu = op->attrs.act == GRAFT_ACT_GEGLU;
    GRAFT_TRY(graft_cpu_check_float(x, 0, "linear: x", e));
    GRAFT_TRY(graft_cpu_check_float(w, 2, "linear: w", e));
    GRAFT_TRY(graft_cpu_check_float(y, x->rank, "linear: output", e));
    if (!w->constant || x->constant || y->constant)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "linear: w must be constant, x not");
    if (!geglu && !graft_act_is_pointwise(op->attrs.act))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "linear: act %d", (int)op->attrs.act);
    if (w->dim[1] != x->dim[x->rank - 1])
        return graft_fail(e, GRAFT_E_ARG, "linear: x has rows of %lld, w wants %lld",
                          (long long)x->dim[x->rank - 1], (long long)w->dim[1]);
    int same = y->dim[y->rank - 1] * (geglu ? 2 : 1) == w->dim[0];
    for (int i = 0; i < x->rank - 1; i++) same = same && x->dim[i] == y->dim[i];
    if (!same) return graft_fail(e, GRAFT_E_ARG, "linear: the output's shape does not follow");
    GRAFT_TRY(graft_cpu_check_vector(&op->in[GRAFT_LINEAR_BIAS], w->dim[0], 1, "linear: bias", e));
    if (graft_cpu_present(residual)) {
        if (geglu) return graft_fail(e, GRAFT_E_UNSUPPORTED, "linear: geglu takes no residual");
        GRAFT_TRY(graft_cpu_check_float(residual, 0, "linear: residual", e));
        GRAFT_TRY(graft_cpu_check_same(residual, y, "linear: residual and output", e));
    }
    GRAFT_TRY(graft_cpu_check_absent(op, GRAFT_LINEAR_RESIDUAL + 1, e));
    if (op->attrs.groups &&
        (op->attrs.quant != GRAFT_QUANT_INT8 || !graft_hadamard_is(op->attrs.groups, w->dim[1])))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "linear: groups of %d", (int)op->attrs.groups);
    if (x->dtype == GRAFT_F32 && y->dtype != GRAFT_F32)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "linear: float32 to bfloat16");
out:
    return st;
}

/* Rows of a GEGLU block: weights are read again for each, the wide result is spilled when it is too
 * large, so small weights get small blocks. */
static int64_t geglu_block(int64_t rows, int64_t in, int64_t wide)
{
    int64_t block = in * wide * 4 > (4 << 20) ? 1024 : (4 << 20) / (wide * 4);
    block = block / 64 * 64;
    if (block < 128) block = 128;
    return block < rows ? block : rows;
}

static void choose(const graft_op_desc *op, linear_state *s)
{
    const graft_tensor_desc *x = &op->in[GRAFT_LINEAR_X], *w = &op->in[GRAFT_LINEAR_W];
    const graft_tensor_desc *residual = &op->in[GRAFT_LINEAR_RESIDUAL];
    s->geglu = op->attrs.act == GRAFT_ACT_GEGLU;
    s->bias = graft_cpu_present(&op->in[GRAFT_LINEAR_BIAS]);
    s->rows = s->block = graft_cpu_rows(x);
    s->copy_input = !graft_cpu_is_dense(x);
    s->copy_output = !graft_cpu_is_dense(&op->out);
    s->own_residual =
        graft_cpu_present(residual) && (!graft_cpu_is_dense(residual) || residual->constant);
    if (s->geglu) {
        s->block = geglu_block(s->rows, w->dim[1], w->dim[0]);
        s->copy_output = 0; /* the last pass writes where it should */
    }
    s->rest = s->rows % s->block;
}

static graft_status describe(graft_device *d, const graft_op_desc *op, const linear_state *s,
                             int64_t rows, const dnnl_memory_desc_t *weights,
                             dnnl_primitive_desc_t *pd, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *w = &op->in[GRAFT_LINEAR_W];
    const graft_tensor_desc *residual = &op->in[GRAFT_LINEAR_RESIDUAL];
    int64_t in = w->dim[1], wide = w->dim[0];
    const int64_t w_stride[2] = {1, in};
    const int64_t x_dim[2] = {rows, in}, x_stride[2] = {in, 1}, w_dim[2] = {in, wide};
    const int64_t y_dim[2] = {rows, wide}, y_stride[2] = {wide, 1}, b_dim[2] = {1, wide};
    graft_dtype t = op->in[GRAFT_LINEAR_X].dtype, to = s->geglu ? GRAFT_F32 : op->out.dtype;
    dnnl_memory_desc_t x_md, w_md, b_md, y_md, r_md;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_inner_product_desc_t ip;
    dnnl_matmul_desc_t mm;
    dnnl_status_t ds;
    int fused = graft_cpu_present(residual) && !s->own_residual;
    int matmul = s->variant == VARIANT_MATMUL;
    graft_act act = s->geglu || s->own_residual ? GRAFT_ACT_NONE : op->attrs.act;
    GRAFT_TRY(graft_cpu_md(&x_md, 2, x_dim, x_stride, t, e));
    GRAFT_TRY(graft_cpu_md(&y_md, 2, y_dim, y_stride, to, e));
    /* Without AVX-512 oneDNN takes weights as they are, and wants them as files have them: with one
     * input's after another's it needs twice the time for few rows. */
    bool as_stored = matmul && t == GRAFT_F32 && !graft_cpu_uses(dnnl_cpu_isa_avx512_core);
    GRAFT_TRY(graft_cpu_md(&w_md, 2, matmul ? w_dim : w->dim, as_stored ? w_stride : NULL, t, e));
    GRAFT_TRY(graft_cpu_md(&b_md, matmul ? 2 : 1, b_dim + !matmul,
                           (int64_t[]){matmul ? wide : 1, 1}, GRAFT_F32, e));
    if (fused) GRAFT_TRY(graft_cpu_md(&r_md, 2, y_dim, y_stride, residual->dtype, e));
    GRAFT_TRY(graft_cpu_attr_create(&attr, fused ? &r_md : NULL, act, e));
    if (weights) w_md = *weights;
    if (matmul) {
        ds = dnnl_matmul_desc_init(&mm, &x_md, &w_md, s->bias ? &b_md : NULL, &y_md);
        if (!ds) ds = dnnl_primitive_desc_create(pd, &mm, attr, d->engine, NULL);
    } else {
        ds = dnnl_inner_product_forward_desc_init(&ip, dnnl_forward_inference, &x_md, &w_md,
                                                  s->bias ? &b_md : NULL, &y_md);
        if (!ds) ds = dnnl_primitive_desc_create(pd, &ip, attr, d->engine, NULL);
    }
    st = graft_cpu_dnnl_fail(ds, "linear", e);
out:
    if (attr) dnnl_primitive_attr_destroy(attr);
    return st;
}

/* Whether oneDNN has nothing for it. */
static bool only_panels(const graft_device *d, const graft_op_desc *op)
{
    return op->in[GRAFT_LINEAR_X].dtype == GRAFT_BF16 && !graft_cpu_multiplies_bf16() &&
           graft_cpu_has_panels(d, op);
}

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    linear_state s = {.variant = VARIANT_MATMUL};
    dnnl_primitive_desc_t pd = NULL;
    graft_status st = graft_cpu_linear_check(op, e);
    if (st || only_panels(d, op)) return st;
    choose(op, &s);
    st = describe(d, op, &s, s.block, NULL, &pd, e);
    if (!st) dnnl_primitive_desc_destroy(pd);
    return st;
}

static size_t scratchpad_bytes(const_dnnl_primitive_desc_t pd)
{
    return dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
}

static void lay_out(graft_kernel *k, linear_state *s, size_t scratchpad)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_LINEAR_X], *w = &k->op.in[GRAFT_LINEAR_W];
    size_t end = 0;
    s->at_scratchpad = graft_cpu_reserve(&end, scratchpad);
    if (s->copy_input)
        s->at_input =
            graft_cpu_reserve(&end, (size_t)graft_cpu_elements(x) * graft_dtype_size(x->dtype));
    if (s->geglu)
        s->at_output = graft_cpu_reserve(&end, (size_t)(s->block * w->dim[0]) * sizeof(float));
    if (s->copy_output)
        s->at_output = graft_cpu_reserve(&end, (size_t)graft_cpu_elements(&k->op.out) *
                                                   graft_dtype_size(k->op.out.dtype));
    k->info.workspace_bytes = end;
}

/* Compiles all primitives with the arguments in the same places. */
static graft_status compile(graft_kernel *k, linear_state *s, graft_err *e)
{
    graft_status st;
    dnnl_primitive_desc_t pd = NULL, tail = NULL;
    int args = 0, arg[GRAFT_CPU_ARGS];
    GRAFT_TRY(describe(k->d, &k->op, s, s->block, NULL, &pd, e));
    arg[args++] = DNNL_ARG_SRC;
    arg[args++] = DNNL_ARG_WEIGHTS;
    arg[args++] = DNNL_ARG_DST;
    if (s->bias) arg[args++] = DNNL_ARG_BIAS;
    s->scratchpad = s->post_op = -1;
    size_t scratchpad = scratchpad_bytes(pd);
    if (s->rest) {
        const dnnl_memory_desc_t *w = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
        GRAFT_TRY(describe(k->d, &k->op, s, s->rest, w, &tail, e));
        if (scratchpad_bytes(tail) > scratchpad) scratchpad = scratchpad_bytes(tail);
    }
    if (scratchpad) arg[s->scratchpad = args++] = DNNL_ARG_SCRATCHPAD;
    if (graft_cpu_present(&k->op.in[GRAFT_LINEAR_RESIDUAL]) && !s->own_residual)
        arg[s->post_op = args++] = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
    lay_out(k, s, scratchpad);
    snprintf(k->info.variant, sizeof k->info.variant, "dnnl %s", graft_cpu_primitive_name(pd));
    GRAFT_TRY(graft_cpu_primitive_init(&s->primitive, k->d->engine, pd, arg, args, e));
    if (tail) GRAFT_TRY(graft_cpu_primitive_init(&s->tail, k->d->engine, tail, arg, args, e));
out:
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (tail) dnnl_primitive_desc_destroy(tail);
    return st;
}

static graft_status pack_rows(graft_kernel *k, int32_t input, graft_dtype t, const void *src,
                              void *dst, int64_t first, int64_t rows)
{
    const linear_state *s = k->state;
    (void)input;
    return graft_cpu_pack_weight_rows(k->d, &s->primitive.md[1], s->variant == VARIANT_MATMUL, t,
                                      src, dst, first, rows);
}

/* Counts the variants and finds the one asked for. Where oneDNN uses instructions for bfloat16 that
 * our products may not, its own come first. */
static variant_kind find_variant(graft_kernel *k, int32_t variant)
{
    variant_kind kind[3];
    bool panels = graft_cpu_has_panels(k->d, &k->op);
    bool only = only_panels(k->d, &k->op);
    bool behind =
        !k->d->simd->product_bf16 || (graft_cpu_has_matrix_unit() && !graft_cpu_has_tiles(k->d));
    bool late = k->op.in[GRAFT_LINEAR_X].dtype == GRAFT_BF16 && !only && behind;
    int32_t n = 0;
    if (panels && !late) kind[n++] = VARIANT_PANELS;
    if (!only) kind[n++] = VARIANT_MATMUL;
    if (!only) kind[n++] = VARIANT_INNER_PRODUCT;
    if (panels && late) kind[n++] = VARIANT_PANELS;
    k->info.variant_count = n;
    k->info.variant_index = variant < 0 || variant >= n ? 0 : variant;
    return kind[k->info.variant_index];
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    graft_status st;
    variant_kind kind = find_variant(k, variant);
    if (kind == VARIANT_PANELS) {
        k->type = &graft_cpu_op_linear_panels;
        return k->type->init(k, variant, e);
    }
    linear_state *s = k->state = graft_cpu_calloc(k->d, sizeof *s);
    if (!s) return graft_fail_nomem(e, "a linear operator");
    s->variant = kind;
    k->usual = INT64_MAX; /* needs the threads that it is made for */
    k->pack_rows = pack_rows;
    graft_cpu_pack_as(k, GRAFT_LINEAR_BIAS, GRAFT_F32);
    choose(&k->op, s);
    graft_cpu_pack_as(k, GRAFT_LINEAR_RESIDUAL, k->op.out.dtype);
    GRAFT_TRY(compile(k, s, e));
    k->info.packed_bytes[GRAFT_LINEAR_W] = dnnl_memory_desc_get_size(&s->primitive.md[1]);
    k->info.packing[GRAFT_LINEAR_W] =
        graft_cpu_packing_weights(&s->primitive.md[1], s->variant == VARIANT_MATMUL);
out:
    return st;
}

static void finish(graft_kernel *k)
{
    linear_state *s = k->state;
    if (!s) return;
    graft_cpu_primitive_finish(&s->primitive);
    graft_cpu_primitive_finish(&s->tail);
}

const dnnl_memory_desc_t *graft_cpu_linear_layout(const graft_kernel *k, int *output_dim)
{
    const linear_state *s = k->state;
    *output_dim = 0;
    if (k->type == &graft_cpu_op_linear_panels) return graft_cpu_panels_layout(k);
    *output_dim = s->variant == VARIANT_MATMUL;
    return &s->primitive.md[1];
}

static graft_status pack(graft_kernel *k, int32_t input, graft_dtype t, const void *src, void *dst)
{
    const linear_state *s = k->state;
    (void)input;
    return graft_cpu_pack_weights(k->d, &s->primitive.md[1], s->variant == VARIANT_MATMUL, t, src,
                                  dst);
}

typedef struct rows {
    const graft_kernel *k;
    const void *from;
    void *to;
    graft_dtype from_type, to_type;
    const graft_tensor_desc *from_desc, *to_desc; /* NULL: dense, rows of `length` */
    int64_t first, count, length;
    const void *residual;
} rows;

/* Element offset of a row; t NULL: dense rows. */
static int64_t row_offset(const graft_tensor_desc *t, int64_t row, int64_t length)
{
    return t ? graft_cpu_row_offset(t, row) : row * length;
}

static void copy_part(void *p, int part, int parts)
{
    const rows *r = p;
    int64_t end = r->first + r->count * (part + 1) / parts;
    for (int64_t i = r->first + r->count * part / parts; i < end; i++)
        memcpy(graft_cpu_at_mut(r->to, r->to_type, row_offset(r->to_desc, i, r->length)),
               graft_cpu_at(r->from, r->from_type, row_offset(r->from_desc, i, r->length)),
               (size_t)r->length * graft_dtype_size(r->to_type));
}

static void geglu_part(void *p, int part, int parts)
{
    const rows *r = p;
    int64_t end = r->count * (part + 1) / parts;
    for (int64_t i = r->count * part / parts; i < end; i++) {
        const float *wide = (const float *)r->from + i * 2 * r->length;
        void *to =
            graft_cpu_at_mut(r->to, r->to_type, row_offset(r->to_desc, r->first + i, r->length));
        r->k->d->simd->geglu(wide, wide + r->length, GRAFT_F32, to, r->to_type, (size_t)r->length);
    }
}

static void residual_part(void *p, int part, int parts)
{
    const rows *r = p;
    const graft_tensor_desc *t = &r->k->op.in[GRAFT_LINEAR_RESIDUAL];
    int64_t end = r->count * (part + 1) / parts;
    for (int64_t i = r->count * part / parts; i < end; i++)
        r->k->d->simd->epilogue(r->k->op.attrs.act,
                                graft_cpu_at_mut(r->to, r->to_type, i * r->length), r->to_type,
                                NULL, graft_cpu_at(r->residual, t->dtype, row_offset(t, i, 0)),
                                t->dtype, (size_t)r->length);
}

static graft_status run_block(graft_kernel *k, int64_t first, int64_t count, const void *x,
                              const void *const *in, void *to, char *ws)
{
    linear_state *s = k->state;
    const graft_tensor_desc *r = &k->op.in[GRAFT_LINEAR_RESIDUAL];
    graft_dtype t = k->op.in[GRAFT_LINEAR_X].dtype;
    const void *arg[GRAFT_CPU_ARGS] = {NULL};
    void *handle[GRAFT_CPU_ARGS];
    arg[0] = graft_cpu_at(x, t, first * k->op.in[GRAFT_LINEAR_W].dim[1]);
    arg[1] = in[GRAFT_LINEAR_W];
    arg[2] = to;
    if (s->bias) arg[3] = in[GRAFT_LINEAR_BIAS];
    if (s->scratchpad >= 0) arg[s->scratchpad] = ws + s->at_scratchpad;
    if (s->post_op >= 0)
        arg[s->post_op] = graft_cpu_at(in[GRAFT_LINEAR_RESIDUAL], r->dtype,
                                       first * k->op.out.dim[k->op.out.rank - 1]);
    memcpy(handle, arg, sizeof handle); /* oneDNN takes inputs as void* too */
    return graft_cpu_primitive_run(count == s->block ? &s->primitive : &s->tail, handle);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    linear_state *s = k->state;
    const graft_tensor_desc *x = &k->op.in[GRAFT_LINEAR_X], *y = &k->op.out;
    int64_t length = y->dim[y->rank - 1];
    const void *from = in[GRAFT_LINEAR_X];
    char *ws = workspace;
    graft_status st = GRAFT_OK;
    if (s->copy_input) {
        rows r = {k, from,    ws + s->at_input,    x->dtype, x->dtype, x, NULL,
                  0, s->rows, x->dim[x->rank - 1], NULL};
        graft_cpu_parallel(graft_cpu_threads(k->d, graft_cpu_elements(x)), copy_part, &r);
        from = ws + s->at_input;
    }
    if (s->geglu) {
        for (int64_t i = 0; i < s->rows && !st; i += s->block) {
            int64_t count = s->rows - i < s->block ? s->rows - i : s->block;
            st = run_block(k, i, count, from, in, ws + s->at_output, ws);
            rows r = {k,   ws + s->at_output, out, GRAFT_F32, y->dtype, NULL, y, i, count, length,
                      NULL};
            if (!st) graft_cpu_parallel(graft_cpu_threads(k->d, count * length), geglu_part, &r);
        }
        return st;
    }
    void *to = s->copy_output ? ws + s->at_output : out;
    st = run_block(k, 0, s->rows, from, in, to, ws);
    if (!st && s->own_residual) {
        rows r = {k,
                  NULL,
                  to,
                  y->dtype,
                  y->dtype,
                  NULL,
                  NULL,
                  0,
                  s->rows,
                  length,
                  in[GRAFT_LINEAR_RESIDUAL]};
        graft_cpu_parallel(graft_cpu_threads(k->d, s->rows * length), residual_part, &r);
    }
    if (!st && s->copy_output) {
        rows r = {k, to, out, y->dtype, y->dtype, NULL, y, 0, s->rows, length, NULL};
        graft_cpu_parallel(graft_cpu_threads(k->d, s->rows * length), copy_part, &r);
    }
    return st;
}

const graft_cpu_op graft_cpu_op_linear = {check, init, finish, pack, launch, NULL};
