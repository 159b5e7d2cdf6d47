/* ADD and MUL, with broadcast; MUL with a residual, to which a product with one row for each entry
 * of the batch is added. */
#include "base/half.h"
#include "kernels/cpu/cpu.h"

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *y = &op->out;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(&op->in[0], 0, "a", e));
    GRAFT_TRY(graft_cpu_check_float(&op->in[1], 0, "b", e));
    GRAFT_TRY(graft_cpu_check_float(y, 0, "output", e));
    GRAFT_TRY(graft_cpu_check_absent(op, 2, e));
    for (int i = 0; i < 2; i++) {
        const graft_tensor_desc *t = &op->in[i];
        if (t->rank > y->rank)
            return graft_fail(e, GRAFT_E_ARG, "%c has more dimensions than the output", "ab"[i]);
        for (int j = 0; j < t->rank; j++)
            if (t->dim[j] != 1 && t->dim[j] != y->dim[j + y->rank - t->rank])
                return graft_fail(e, GRAFT_E_ARG, "%c: dimension %d is %lld", "ab"[i], j,
                                  (long long)t -> dim[j]);
    }
    if (op->in[0].constant && op->in[1].constant)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "both inputs are constant");
out:
    return st;
}

static bool has_residual(const graft_op_desc *op)
{
    return graft_cpu_present(&op->in[GRAFT_MUL_RESIDUAL]);
}

static graft_status check_mul(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *a = &op->in[GRAFT_MUL_A], *r = &op->in[GRAFT_MUL_RESIDUAL];
    if (!has_residual(op)) return check(d, op, e);
    GRAFT_TRY(graft_cpu_check_float(a, 3, "a", e));
    GRAFT_TRY(graft_cpu_check_row_each(&op->in[GRAFT_MUL_B], a, "b", e));
    GRAFT_TRY(graft_cpu_check_float(r, 3, "residual", e));
    GRAFT_TRY(graft_cpu_check_float(&op->out, 3, "output", e));
    GRAFT_TRY(graft_cpu_check_same(a, r, "a and residual", e));
    GRAFT_TRY(graft_cpu_check_same(a, &op->out, "a and output", e));
    GRAFT_TRY(graft_cpu_check_absent(op, GRAFT_MUL_RESIDUAL + 1, e));
    if (a->constant || r->constant)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "a or the residual is constant");
out:
    return st;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant;
    (void)e;
    graft_cpu_pack_as(k, 0, GRAFT_F32);
    graft_cpu_pack_as(k, 1, GRAFT_F32);
    return GRAFT_OK;
}

typedef struct job {
    const graft_kernel *k;
    graft_cpu_walk w;
    const void *a, *b, *residual;
    void *y;
} job;

static float value(const void *p, graft_dtype t)
{
    return t == GRAFT_F32 ? *(const float *)p : graft_bf16_to_f32(*(const uint16_t *)p);
}

static void piece(void *ctx, const int64_t *offset, int64_t n)
{
    const job *j = ctx;
    const graft_op_desc *op = &j->k->op;
    const graft_cpu_simd *simd = j->k->d->simd;
    const int last = GRAFT_MAX_RANK - 1;
    graft_dtype at = op->in[0].dtype, bt = op->in[1].dtype, yt = op->out.dtype;
    const void *a = graft_cpu_at(j->a, at, offset[0]), *b = graft_cpu_at(j->b, bt, offset[1]);
    void *y = graft_cpu_at_mut(j->y, yt, offset[2]);
    int multiply = op->op == GRAFT_OP_MUL;
    if (j->w.stride[0][last] == 1 && j->w.stride[1][last] == 1) {
        (multiply ? simd->mul : simd->add)(a, at, b, bt, y, yt, (size_t)n);
        return;
    }
    /* One side is a single value along this row; if both are, n values are the same. */
    int single_a = j->w.stride[0][last] == 0, single_b = j->w.stride[1][last] == 0;
    float s = single_a ? value(a, at) : value(b, bt);
    const void *x = single_a ? b : a;
    graft_dtype xt = single_a ? bt : at;
    if (single_a && single_b) {
        float v = value(b, bt);
        v = multiply ? s * v : s + v;
        for (int64_t i = 0; i < n; i++)
            simd->act(GRAFT_ACT_NONE, &v, GRAFT_F32, graft_cpu_at_mut(y, yt, i), yt, 1);
        return;
    }
    simd->scale(x, xt, y, yt, (size_t)n, multiply ? s : 1.0f, multiply ? 0.0f : s);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const graft_tensor_desc *tensor[] = {&k->op.in[0], &k->op.in[1], &k->op.out};
    job j = {k, {0}, in[0], in[1], NULL, out};
    (void)workspace;
    graft_cpu_walk_init(&j.w, &k->op.out, tensor, 3);
    graft_cpu_walk_run(&j.w, k->d, piece, &j);
    return GRAFT_OK;
}

static void gate_piece(void *ctx, const int64_t *offset, int64_t n)
{
    const job *j = ctx;
    const graft_op_desc *op = &j->k->op;
    graft_dtype at = op->in[GRAFT_MUL_A].dtype, rt = op->in[GRAFT_MUL_RESIDUAL].dtype;
    graft_dtype yt = op->out.dtype;
    const char *a = graft_cpu_at(j->a, at, offset[0]);
    const char *r = graft_cpu_at(j->residual, rt, offset[2]);
    const float *b = (const float *)j->b + offset[1];
    char *y = graft_cpu_at_mut(j->y, yt, offset[3]);
    int64_t calls = 1;
    if (j->w.stride[1][GRAFT_MAX_RANK - 1] == 0) { /* one channel: b is the same along the piece */
        calls = n;
        n = 1;
    }
    for (int64_t i = 0; i < calls; i++)
        j->k->d->simd->gate(graft_cpu_at(a, at, i), at, b, graft_cpu_at(r, rt, i), rt,
                            graft_cpu_at_mut(y, yt, i), yt, (size_t)n);
}

static graft_status launch_mul(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const graft_op_desc *op = &k->op;
    const graft_tensor_desc *tensor[] = {&op->in[0], &op->in[1], &op->in[2], &op->out};
    job j = {k, {0}, in[0], in[1], in[2], out};
    if (!has_residual(op)) return launch(k, in, out, workspace);
    graft_cpu_walk_init(&j.w, &op->out, tensor, 4);
    graft_cpu_walk_run(&j.w, k->d, gate_piece, &j);
    return GRAFT_OK;
}

static int32_t inplace(const graft_kernel *k, int32_t input)
{
    if (input < 0 || input > GRAFT_MUL_RESIDUAL) return 0;
    const graft_tensor_desc *t = &k->op.in[input], *y = &k->op.out;
    return graft_cpu_present(t) && !t->constant && t->dtype == y->dtype && graft_cpu_is_dense(t) &&
           graft_cpu_is_dense(y) && graft_cpu_elements(t) == graft_cpu_elements(y);
}

const graft_cpu_op graft_cpu_op_add = {check, init, NULL, NULL, launch, inplace};
const graft_cpu_op graft_cpu_op_mul = {check_mul, init, NULL, NULL, launch_mul, inplace};
