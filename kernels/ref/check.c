/* What every operator record must fulfil before its operator looks at it. */
#include <stdio.h>
#include <string.h>

#include "kernels/quant.h"
#include "kernels/ref/ref.h"

static const graft_ref_op *find_op(graft_op op)
{
    switch (op) {
#define GRAFT_OP(number, NAME, text)                                                               \
    case GRAFT_OP_##NAME:                                                                          \
        return &graft_ref_op_##NAME;
#include "kernels/ops.def"
#undef GRAFT_OP
    default:
        return NULL;
    }
}

static const char *op_name(graft_op op)
{
    switch (op) {
#define GRAFT_OP(number, NAME, text)                                                               \
    case GRAFT_OP_##NAME:                                                                          \
        return text;
#include "kernels/ops.def"
#undef GRAFT_OP
    default:
        return "unknown";
    }
}

/* The record may come from a newer engine: fields that this library does not know must be zero. */
static graft_status read_desc(const graft_op_desc *op, graft_op_desc *out, graft_err *e)
{
    if (op->size < sizeof *out)
        return graft_fail(e, GRAFT_E_ARG, "operator record of %u bytes, expected at least %zu",
                          (unsigned)op->size, sizeof *out);
    if (!graft_op_desc_is_known(op))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "operator record has fields that this library does not know");
    *out = *op;
    out->size = sizeof *out;
    return GRAFT_OK;
}

/* Attention may be quantized to integers alone. */
static bool is_known_quant(const graft_op_desc *d)
{
    graft_quant most = d->op == GRAFT_OP_CONV2D || d->op == GRAFT_OP_LINEAR ? GRAFT_QUANT_FP8
                       : d->op == GRAFT_OP_ATTENTION                        ? GRAFT_QUANT_INT8
                                                                            : GRAFT_QUANT_NONE;
    return d->attrs.quant >= GRAFT_QUANT_NONE && d->attrs.quant <= most;
}

static graft_status check_inputs(const graft_ref_op *op, graft_op_desc *d, graft_err *e)
{
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) {
        graft_tensor_desc *t = &d->in[i];
        char name[24];
        snprintf(name, sizeof name, "input %d", i);
        if (!graft_ref_present(t)) {
            if ((uint32_t)i < op->inputs && !(op->optional >> i & 1))
                return graft_fail(e, GRAFT_E_ARG, "%s is missing", name);
            continue;
        }
        if ((uint32_t)i >= op->inputs)
            return graft_fail(e, GRAFT_E_ARG, "%s is not known to this operator", name);
        graft_status st = graft_ref_check_tensor(t, name, false, true, e);
        if (st) return st;
        if (t->constant) {
            t->dtype = GRAFT_F32;
            graft_ref_make_dense(t);
        }
        st = graft_ref_check_tensor(t, name, false, d->op == GRAFT_OP_COPY, e);
        if (st) return st;
    }
    return graft_ref_check_tensor(&d->out, "out", true, d->op == GRAFT_OP_COPY, e);
}

graft_status graft_ref_check(const graft_op_desc *given, graft_op_desc *d, const graft_ref_op **op,
                             graft_err *e)
{
    if (!given) return graft_fail(e, GRAFT_E_ARG, "no operator record");
    graft_status st = read_desc(given, d, e);
    if (st) return st;
    *op = find_op(d->op);
    if (!*op) return graft_fail(e, GRAFT_E_UNSUPPORTED, "operator %d is not known", (int)d->op);
    if (!is_known_quant(d))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "quant %d", (int)d->attrs.quant);
    st = check_inputs(*op, d, e);
    if (!st) st = (*op)->check(d, e);
    return st ? graft_err_prefix(e, st, "%s", op_name(d->op)) : GRAFT_OK;
}

graft_status graft_ref_check_own(const graft_op_desc *given, graft_op_desc *d,
                                 const graft_ref_op **op, graft_err *e)
{
    const bool sized = given && given->size >= sizeof *given;
    const graft_quant quant = sized ? given->attrs.quant : GRAFT_QUANT_NONE;
    const int32_t type = graft_quant_blocks(quant);
    if (!type || given->op != GRAFT_OP_LINEAR) return graft_ref_check(given, d, op, e);
    if (!graft_op_desc_is_known(given)) return graft_ref_check(given, d, op, e);
    graft_op_desc floats;
    memcpy(&floats, given, sizeof floats);
    floats.size = sizeof floats;
    floats.attrs.quant = GRAFT_QUANT_NONE;
    graft_status st = graft_ref_check(&floats, d, op, e);
    if (st) return st;
    d->attrs.quant = quant;
    const int64_t *w = d->in[GRAFT_LINEAR_W].dim;
    return graft_blocks_fit(type, w[0], w[1])
               ? GRAFT_OK
               : graft_fail(e, GRAFT_E_UNSUPPORTED, "linear: w is no whole number of blocks of %s",
                            graft_blocks_name(type));
}
