/* ATTENTION: hands panels of queries of the heads to the threads. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/share.h"

/* Keys and values are laid out for each call, which few panels do not pay for. */
#define WORTH 4
#define FEW   8 /* or an eighth of a head's */

typedef struct attention_state {
    int64_t panels, heads; /* of one head; of all pictures */
    int32_t group, head_dim;
    int parts;
    bool int8, tiles;
    size_t at_threads, scratch; /* in the workspace; bytes for one thread */
} attention_state;

/* q and k are sound already. */
static graft_status check_bias(const graft_op_desc *op, graft_err *e)
{
    const graft_tensor_desc *b = &op->in[GRAFT_ATTENTION_BIAS];
    if (!(op->attrs.shift >= 0) || (op->attrs.shift > 0 && !graft_cpu_present(b)))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "attention: scores capped at %g without a bias",
                          (double)op->attrs.shift);
    if (!graft_cpu_present(b)) return GRAFT_OK;
    graft_status st = graft_cpu_check_float(b, 3, "attention: bias", e);
    if (st) return st;
    if (b->dim[0] != op->attrs.heads || b->dim[1] != op->in[GRAFT_ATTENTION_Q].dim[1] ||
        b->dim[2] != op->in[GRAFT_ATTENTION_K].dim[1])
        return graft_fail(e, GRAFT_E_ARG, "attention: bias must be heads x queries x keys");
    if (b->constant || b->dtype != GRAFT_F32 || op->attrs.causal)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "attention: a bias that is constant, not float32, or with causal");
    return GRAFT_OK;
}

static graft_status check_count(const graft_op_desc *op, graft_err *e)
{
    const graft_tensor_desc *n = &op->in[GRAFT_ATTENTION_COUNT];
    if (!graft_cpu_present(n)) return GRAFT_OK;
    graft_status st = graft_cpu_check_tensor(n, "attention: count", e);
    if (st) return st;
    if (n->rank != 1 || n->dim[0] != op->out.dim[0])
        return graft_fail(e, GRAFT_E_ARG, "attention: count must be one for each picture");
    if (n->constant || n->dtype != GRAFT_I32 || op->attrs.causal ||
        graft_cpu_present(&op->in[GRAFT_ATTENTION_BIAS]))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "attention: a count that is constant, not int32, or with causal or bias");
    return GRAFT_OK;
}

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *q = &op->in[GRAFT_ATTENTION_Q], *k = &op->in[GRAFT_ATTENTION_K];
    const graft_tensor_desc *v = &op->in[GRAFT_ATTENTION_V], *y = &op->out;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(q, 3, "attention: q", e));
    GRAFT_TRY(graft_cpu_check_float(k, 3, "attention: k", e));
    GRAFT_TRY(graft_cpu_check_float(v, 3, "attention: v", e));
    GRAFT_TRY(graft_cpu_check_float(y, 3, "attention: output", e));
    GRAFT_TRY(graft_cpu_check_same(q, y, "attention: q and output", e));
    GRAFT_TRY(graft_cpu_check_same(k, v, "attention: k and v", e));
    GRAFT_TRY(check_bias(op, e));
    GRAFT_TRY(check_count(op, e));
    GRAFT_TRY(graft_cpu_check_absent(op, GRAFT_ATTENTION_COUNT + 1, e));
    if (q->dim[0] != k->dim[0] || q->dim[2] != k->dim[2])
        return graft_fail(e, GRAFT_E_ARG, "attention: q and k differ in pictures or width");
    if (op->attrs.heads < 1 || q->dim[2] % op->attrs.heads || q->dim[2] / op->attrs.heads > 1 << 16)
        return graft_fail(e, GRAFT_E_ARG, "attention: width %lld in %d heads", (long long)q->dim[2],
                          (int)op->attrs.heads);
    if (q->constant || k->constant || v->constant || q->dtype != k->dtype || q->dtype != v->dtype ||
        q->dtype != y->dtype)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "attention: constants, or differing dtypes");
out:
    return st;
}

static graft_status launch_until(graft_kernel *k, const void *const *in, void *out, void *workspace,
                                 graft_cpu_stop *stop);

/* So many panels, of so many multiply-adds twice, that a thread is done with them within a part of
 * a second: before each such group it looks whether anybody wants the rest. */
static int32_t brief(int32_t group, int64_t work)
{
    const int64_t most = work > 0 ? 4000000000 / work : group;
    return most < 1 ? 1 : most < group ? (int32_t)most : group;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    const graft_tensor_desc *q = &k->op.in[GRAFT_ATTENTION_Q];
    const graft_cpu_simd *simd = k->d->simd;
    attention_state *s = k->state = graft_cpu_calloc(k->d, sizeof *s);
    int64_t keys = k->op.in[GRAFT_ATTENTION_K].dim[1];
    (void)variant;
    if (!s) return graft_fail_nomem(e, "an attention");
    k->launch_until = launch_until;
    s->head_dim = (int32_t)(q->dim[2] / k->op.attrs.heads);
    s->heads = q->dim[0] * k->op.attrs.heads;
    bool bias = graft_cpu_present(&k->op.in[GRAFT_ATTENTION_BIAS]);
    graft_dtype t = bias ? GRAFT_F32 : q->dtype;
    bool plain = !bias && !k->op.attrs.causal && k->op.attrs.scale > 0;
    /* In bfloat16 matrix instructions are about as fast as vectors are in integers: for heads of 64
     * and more faster. */
    s->tiles = plain && t == GRAFT_BF16 && graft_cpu_has_tiles(k->d);
    s->int8 = plain && !s->tiles && k->op.attrs.quant == GRAFT_QUANT_INT8 && simd->attention_int8;
    int64_t panel = s->tiles ? GRAFT_CPU_ATTENTION_TILE_ROWS : simd->attention_panel;
    s->panels = (q->dim[1] + panel - 1) / panel;
    s->group = s->int8    ? simd->attention_int8_group(s->head_dim, keys)
               : s->tiles ? graft_cpu_attention_tiles_group(s->head_dim)
                          : simd->attention_group(t, s->head_dim, keys);
    if (s->group > s->panels) s->group = (int32_t)s->panels;
    s->group = brief(s->group, panel * keys * s->head_dim);
    s->parts = graft_cpu_threads(k->d, q->dim[0] * q->dim[1] * keys * q->dim[2] / 16);
    if (s->parts > s->panels * s->heads) s->parts = (int)(s->panels * s->heads);
    s->scratch = s->int8    ? simd->attention_int8_scratch(s->head_dim, keys, s->group)
                 : s->tiles ? graft_cpu_attention_tiles_scratch(s->head_dim, keys, s->group)
                            : simd->attention_scratch(t, s->head_dim, keys, s->group);
    s->at_threads = sizeof(graft_cpu_piece) * (size_t)s->parts;
    k->info.workspace_bytes = s->at_threads + s->scratch * (size_t)s->parts;
    return GRAFT_OK;
}

typedef struct job {
    const graft_kernel *k;
    const void *const *in;
    void *out;
    char *workspace;
    graft_cpu_share share;
} job;

/* How many keys a picture has. */
static int64_t keys_of(const job *j, int64_t image)
{
    const graft_op_desc *op = &j->k->op;
    const graft_tensor_desc *n = &op->in[GRAFT_ATTENTION_COUNT];
    const int64_t all = op->in[GRAFT_ATTENTION_K].dim[1];
    if (!graft_cpu_present(n)) return all;
    const int64_t keys = ((const int32_t *)j->in[GRAFT_ATTENTION_COUNT])[image];
    return keys < 1 ? 1 : keys > all ? all : keys;
}

/* Neighbouring panels of a head. */
static void attend(const job *j, int64_t head, int64_t first, int64_t count, char *scratch)
{
    const attention_state *s = j->k->state;
    const graft_op_desc *op = &j->k->op;
    const graft_tensor_desc *q = &op->in[GRAFT_ATTENTION_Q], *k = &op->in[GRAFT_ATTENTION_K];
    const graft_tensor_desc *v = &op->in[GRAFT_ATTENTION_V], *y = &op->out;
    const graft_tensor_desc *b = &op->in[GRAFT_ATTENTION_BIAS];
    const float *bias = graft_cpu_present(b) ? j->in[GRAFT_ATTENTION_BIAS] : NULL;
    int64_t image = head / op->attrs.heads, column = head % op->attrs.heads * s->head_dim;
    graft_cpu_attention a = {
        graft_cpu_at(j->in[GRAFT_ATTENTION_Q], q->dtype, image * q->stride[0] + column),
        graft_cpu_at(j->in[GRAFT_ATTENTION_K], k->dtype, image * k->stride[0] + column),
        graft_cpu_at(j->in[GRAFT_ATTENTION_V], v->dtype, image * v->stride[0] + column),
        graft_cpu_at_mut(j->out, y->dtype, image * y->stride[0] + column),
        q->stride[1],
        k->stride[1],
        v->stride[1],
        y->stride[1],
        keys_of(j, image),
        s->head_dim,
        op->attrs.causal,
        op->attrs.scale,
        q->dtype,
        bias ? bias + head % op->attrs.heads * b->stride[0] : NULL,
        bias ? b->stride[1] : 0,
        op->attrs.shift};
    if (s->int8)
        j->k->d->simd->attention_int8(&a, q->dim[1], first, (int32_t)count, scratch);
    else if (s->tiles)
        graft_cpu_attention_tiles(&a, q->dim[1], first, (int32_t)count, scratch);
    else
        j->k->d->simd->attention(&a, q->dim[1], first, (int32_t)count, scratch);
}

static void part(void *p, int i, int n)
{
    job *j = p;
    const attention_state *s = j->k->state;
    char *scratch = j->workspace + s->at_threads + s->scratch * (size_t)i;
    int64_t first, count;
    (void)n;
    while ((count = graft_cpu_share_take(&j->share, i, &first)) > 0) {
        for (int64_t end = first + count; first < end;) {
            int64_t panel = first % s->panels, panels = s->panels - panel;
            if (panels > s->group) panels = s->group;
            if (panels > end - first) panels = end - first;
            attend(j, first / s->panels, panel, panels, scratch);
            first += panels;
        }
    }
}

static graft_status launch_until(graft_kernel *k, const void *const *in, void *out, void *workspace,
                                 graft_cpu_stop *stop)
{
    const attention_state *s = k->state;
    job j = {.k = k, .in = in, .out = out, .workspace = workspace};
    j.share.most = s->group;
    j.share.stop = stop;
    j.share.least = s->panels / FEW < WORTH ? s->panels / FEW : WORTH;
    graft_cpu_share_begin(&j.share, workspace, s->panels * s->heads, s->parts);
    graft_cpu_parallel(s->parts, part, &j);
    return GRAFT_OK;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    return launch_until(k, in, out, workspace, NULL);
}

const graft_cpu_op graft_cpu_op_attention = {check, init, NULL, NULL, launch, NULL};
