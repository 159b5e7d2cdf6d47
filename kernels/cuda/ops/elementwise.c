/* ACT, ADD, MUL, SCALE, GEGLU, PRELU, and the ends of products that libraries compute. */
#include "kernels/cuda/ops/op.h"

/* `out` and the shape are set from the kernel's result. */
static graft_cuda_elementwise over_result(const graft_kernel *k, int32_t op, void *out)
{
    graft_cuda_elementwise p = {.out = out, .op = op};
    graft_cuda_shape(&k->op.out, p.dim, p.so);
    p.count = (uint32_t)graft_ref_elements(&k->op.out);
    return p;
}

static graft_status launch(const graft_kernel *k, const graft_cuda_elementwise *p)
{
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_elementwise, k->t),
                             graft_cuda_blocks(p->count, GRAFT_CUDA_THREADS), 1, 1, p);
}

static bool as_dense(const graft_tensor_desc *a, const graft_tensor_desc *out)
{
    return graft_ref_is_dense(a) && graft_ref_elements(a) == graft_ref_elements(out);
}

static graft_status init_binary(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant, (void)e;
    graft_cuda_pack_plain(k, 0, k->t);
    graft_cuda_pack_plain(k, 1, k->t);
    return GRAFT_OK;
}

/* A constant is dense once it is packed. */
static graft_tensor_desc input_of(const graft_kernel *k, int i)
{
    graft_tensor_desc t = k->op.in[i];
    int64_t below = 1;
    for (int d = t.rank - 1; d >= 0 && t.constant; d--) {
        t.stride[d] = below;
        below *= t.dim[d];
    }
    return t;
}

static graft_status launch_binary(graft_kernel *k, const void *const *in, void *out,
                                  char *workspace)
{
    (void)workspace;
    int32_t op = k->op.op == GRAFT_OP_ADD   ? GRAFT_CUDA_ADD
                 : k->op.op == GRAFT_OP_MUL ? GRAFT_CUDA_MUL
                                            : GRAFT_CUDA_PRELU;
    graft_cuda_elementwise p = over_result(k, op, out);
    graft_tensor_desc a = input_of(k, 0), b = input_of(k, 1);
    p.a = in[0];
    p.b = in[1];
    graft_cuda_broadcast(&a, &k->op.out, p.sa);
    graft_cuda_broadcast(&b, &k->op.out, p.sb);
    p.b_is_f32 = !b.constant && b.dtype == GRAFT_F32;
    p.flat = graft_ref_is_dense(&k->op.out) && as_dense(&a, &k->op.out) && as_dense(&b, &k->op.out);
    return launch(k, &p);
}

/* Eight values at a time, where rows allow it. */
static bool gate_by_eights(const graft_kernel *k, const graft_cuda_gate *p)
{
    int64_t step = 16 / (int64_t)graft_dtype_size(k->t);
    const void *const both[] = {p->a, p->residual, p->b};
    bool yes = k->op.out.dim[2] % 8 == 0 && p->sb % 4 == 0 && graft_cuda_aligned(both, 3, p->out);
    for (int i = 0; i < 2; i++)
        yes = yes && p->sa[i] % step == 0 && p->sr[i] % step == 0 && p->so[i] % step == 0;
    return yes;
}

static graft_status launch_gate(graft_kernel *k, const void *const *in, void *out)
{
    const graft_tensor_desc *a = &k->op.in[GRAFT_MUL_A], *r = &k->op.in[GRAFT_MUL_RESIDUAL];
    graft_cuda_gate eight = {.a = in[GRAFT_MUL_A],
                             .residual = in[GRAFT_MUL_RESIDUAL],
                             .b = in[GRAFT_MUL_B],
                             .out = out,
                             .sb = k->op.in[GRAFT_MUL_B].stride[0],
                             .tokens = (uint32_t)a->dim[1],
                             .eights = (uint32_t)(a->dim[2] / 8)};
    for (int i = 0; i < 2; i++) {
        eight.sa[i] = a->stride[i];
        eight.sr[i] = r->stride[i];
        eight.so[i] = k->op.out.stride[i];
    }
    eight.count = (uint32_t)(a->dim[0] * a->dim[1]) * eight.eights;
    if (gate_by_eights(k, &eight))
        return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_gate, k->t),
                                 graft_cuda_blocks(eight.count, GRAFT_CUDA_THREADS), 1, 1, &eight);
    graft_cuda_elementwise p = over_result(k, GRAFT_CUDA_GATE, out);
    p.a = eight.a;
    p.b = eight.b;
    p.c = eight.residual;
    p.b_is_f32 = 1;
    graft_cuda_shape(a, NULL, p.sa);
    graft_cuda_shape(r, NULL, p.sc);
    graft_cuda_broadcast(&k->op.in[GRAFT_MUL_B], &k->op.out, p.sb);
    return launch(k, &p);
}

static graft_status check_mul(const graft_op_desc *op, graft_err *e)
{
    const graft_tensor_desc *r = &op->in[GRAFT_MUL_RESIDUAL];
    if (graft_cuda_present(r) && (r->constant || op->in[GRAFT_MUL_A].constant))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "a and the residual must vary");
    return GRAFT_OK;
}

static graft_status launch_mul(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    if (graft_cuda_present(&k->op.in[GRAFT_MUL_RESIDUAL])) return launch_gate(k, in, out);
    return launch_binary(k, in, out, workspace);
}

static graft_status init_unary(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant, (void)e;
    graft_cuda_pack_plain(k, 0, k->t);
    return GRAFT_OK;
}

/* Whether act(x + residual) has been launched eight values at a time, both being dense as the
 * result; *st: how that went. residual may be NULL. */
static bool acts_by_eights(const graft_kernel *k, const void *x, const void *residual, void *out,
                           graft_act act, graft_status *st)
{
    int64_t n = graft_ref_elements(&k->op.out);
    const void *const both[] = {x, residual};
    graft_cuda_acts p = {
        .x = x, .residual = residual, .out = out, .eights = (uint32_t)(n / 8), .act = act};
    if (n % 8 || !graft_ref_is_dense(&k->op.out) || !graft_cuda_aligned(both, 2, out)) return false;
    *st = graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_acts, k->t),
                            graft_cuda_blocks(p.eights, GRAFT_CUDA_THREADS), 1, 1, &p);
    return true;
}

static graft_status launch_unary(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    (void)workspace;
    bool scale = k->op.op == GRAFT_OP_SCALE;
    graft_cuda_elementwise p = over_result(k, scale ? GRAFT_CUDA_SCALE : GRAFT_CUDA_ACT, out);
    graft_tensor_desc a = input_of(k, 0);
    graft_status st;
    if (!scale && as_dense(&a, &k->op.out) &&
        acts_by_eights(k, in[0], NULL, out, k->op.attrs.act, &st))
        return st;
    p.a = in[0];
    p.act = k->op.attrs.act;
    p.scale = k->op.attrs.scale;
    p.shift = k->op.attrs.shift;
    graft_cuda_shape(&a, NULL, p.sa);
    p.flat = graft_ref_is_dense(&k->op.out) && as_dense(&a, &k->op.out);
    return launch(k, &p);
}

static graft_status launch_geglu(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    (void)workspace;
    graft_cuda_elementwise p = over_result(k, GRAFT_CUDA_GEGLU, out);
    graft_tensor_desc a = input_of(k, 0);
    p.a = in[0];
    p.b = (const char *)in[0] + p.dim[3] * graft_dtype_size(k->t);
    graft_cuda_shape(&a, NULL, p.sa);
    graft_cuda_shape(&a, NULL, p.sb);
    return launch(k, &p);
}

graft_status graft_cuda_finish(const graft_kernel *k, void *out, graft_act act, int b_input,
                               const void *b, int c_input, const void *c)
{
    graft_status st;
    bool dense = !c || as_dense(&k->op.in[c_input], &k->op.out);
    if (!b && dense && acts_by_eights(k, out, c, out, act, &st)) return st;
    graft_cuda_elementwise p = over_result(k, GRAFT_CUDA_FINISH, out);
    p.a = out;
    p.b = b;
    p.c = c;
    p.act = act;
    graft_cuda_shape(&k->op.out, NULL, p.sa);
    if (b && k->op.in[b_input].rank == 2 && k->op.out.rank == 4) /* (N, O) on (N, H, W, O) */
        p.sb[0] = k->op.in[b_input].stride[0], p.sb[3] = 1;
    else if (b)
        graft_cuda_broadcast(&k->op.in[b_input], &k->op.out, p.sb);
    if (c) graft_cuda_broadcast(&k->op.in[c_input], &k->op.out, p.sc);
    return launch(k, &p);
}

graft_status graft_cuda_fold_pairs(const graft_kernel *k, const void *wide, void *out)
{
    int64_t n = k->op.out.dim[k->op.out.rank - 1], rows = graft_ref_elements(&k->op.out) / n;
    graft_cuda_pairs eight = {.wide = wide, .out = out, .so = graft_cuda_row_stride(&k->op.out)};
    const void *const both[] = {wide, out};
    int64_t step = 16 / (int64_t)graft_dtype_size(k->t);
    if (n % 8 == 0 && eight.so >= 0 && eight.so % step == 0 && graft_cuda_aligned(both, 2, out)) {
        eight.eights = (uint32_t)(n / 8);
        eight.count = (uint32_t)(rows * (n / 8));
        return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_pairs, k->t),
                                 graft_cuda_blocks(eight.count, GRAFT_CUDA_THREADS), 1, 1, &eight);
    }
    graft_cuda_elementwise p = over_result(k, GRAFT_CUDA_GEGLU, out);
    p.a = wide;
    p.b = (const char *)wide + graft_dtype_size(k->t);
    p.sa[3] = 2;
    for (int i = 2; i >= 0; i--) p.sa[i] = p.sa[i + 1] * p.dim[i + 1];
    for (int i = 0; i < 4; i++) p.sb[i] = p.sa[i];
    return launch(k, &p);
}

const graft_cuda_op graft_cuda_op_act = {
    .init = init_unary, .launch = launch_unary, .inplace = true};
const graft_cuda_op graft_cuda_op_scale = {
    .init = init_unary, .launch = launch_unary, .inplace = true};
const graft_cuda_op graft_cuda_op_add = {
    .init = init_binary, .launch = launch_binary, .inplace = true};
const graft_cuda_op graft_cuda_op_mul = {
    .check = check_mul, .init = init_binary, .launch = launch_mul, .inplace = true};
const graft_cuda_op graft_cuda_op_prelu = {
    .init = init_binary, .launch = launch_binary, .inplace = true};
const graft_cuda_op graft_cuda_op_geglu = {.init = init_unary, .launch = launch_geglu};
