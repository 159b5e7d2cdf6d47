#include "kernels/cpu/primitive.h"

#include <string.h>

graft_status graft_cpu_dnnl_fail(dnnl_status_t st, const char *what, graft_err *e)
{
    switch (st) {
    case dnnl_success:
        return GRAFT_OK;
    case dnnl_out_of_memory:
        return graft_fail_nomem(e, what);
    case dnnl_invalid_arguments:
        return graft_fail(e, GRAFT_E_ARG, "%s: oneDNN calls the shape invalid", what);
    case dnnl_unimplemented:
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: oneDNN has no implementation", what);
    default:
        return graft_fail(e, GRAFT_E_DEVICE, "%s: oneDNN status %d", what, (int)st);
    }
}

const char *graft_cpu_primitive_name(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) != dnnl_success || !name)
        return "unknown";
    return name;
}

graft_status graft_cpu_md(dnnl_memory_desc_t *out, int n, const int64_t *dim, const int64_t *stride,
                          graft_dtype t, graft_err *e)
{
    dnnl_data_type_t type = t == GRAFT_BF16  ? dnnl_bf16
                            : t == GRAFT_I8  ? dnnl_s8
                            : t == GRAFT_I32 ? dnnl_s32
                                             : dnnl_f32;
    dnnl_dims_t dims = {0}, strides = {0}; /* oneDNN may read all of the array */
    /* Its code generators count in 32 bits, and some then divide by zero. */
    for (int i = 0; i < n; i++)
        if (dim[i] > INT32_MAX)
            return graft_fail(e, GRAFT_E_UNSUPPORTED,
                              "tensor: a dimension of %lld is more than oneDNN takes",
                              (long long)dim[i]);
    memcpy(dims, dim, (size_t)n * sizeof dims[0]);
    if (stride) memcpy(strides, stride, (size_t)n * sizeof dims[0]);
    dnnl_status_t st = stride
                           ? dnnl_memory_desc_init_by_strides(out, n, dims, type, strides)
                           : dnnl_memory_desc_init_by_tag(out, n, dims, type, dnnl_format_tag_any);
    return graft_cpu_dnnl_fail(st, "tensor", e);
}

static dnnl_status_t append_act(dnnl_post_ops_t ops, graft_act act)
{
    switch (act) {
    case GRAFT_ACT_SILU:
        return dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_swish, 1, 0);
    case GRAFT_ACT_QUICK_GELU:
        return dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_swish, 1.702f, 0);
    case GRAFT_ACT_GELU:
        return dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_gelu_erf, 0, 0);
    case GRAFT_ACT_GELU_TANH:
        return dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_gelu_tanh, 0, 0);
    case GRAFT_ACT_TANH:
        return dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_tanh, 0, 0);
    case GRAFT_ACT_LEAKY:
        return dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0.2f, 0);
    case GRAFT_ACT_RELU:
        /* A slope of 0 would make NaN 0 there; one that is nothing lets it pass. */
        return dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 1e-30f, 0);
    default:
        return dnnl_success;
    }
}

graft_status graft_cpu_attr_create(dnnl_primitive_attr_t *out, const dnnl_memory_desc_t *residual,
                                   graft_act act, graft_err *e)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t st = dnnl_primitive_attr_create(out);
    if (!st) st = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (!st) st = dnnl_post_ops_create(&ops);
    if (!st && residual) st = dnnl_post_ops_append_binary(ops, dnnl_binary_add, residual);
    if (!st) st = append_act(ops, act);
    if (!st) st = dnnl_primitive_attr_set_post_ops(*out, ops);
    if (ops) dnnl_post_ops_destroy(ops);
    if (st && *out) {
        dnnl_primitive_attr_destroy(*out);
        *out = NULL;
    }
    return graft_cpu_dnnl_fail(st, "attributes", e);
}

static void slot_finish(graft_cpu_slot *s)
{
    for (int i = 0; i < GRAFT_CPU_ARGS; i++)
        if (s->memory[i]) dnnl_memory_destroy(s->memory[i]);
    if (s->stream) dnnl_stream_destroy(s->stream);
    memset(s->memory, 0, sizeof s->memory);
    s->stream = NULL;
    s->ready = 0;
}

static dnnl_status_t slot_init(graft_cpu_slot *s, graft_cpu_primitive *p)
{
    dnnl_status_t st = dnnl_stream_create(&s->stream, p->engine, dnnl_stream_default_flags);
    for (int i = 0; i < p->args && !st; i++) {
        s->handle[i] = NULL;
        st = dnnl_memory_create(&s->memory[i], &p->md[i], p->engine, DNNL_MEMORY_NONE);
    }
    if (st) {
        slot_finish(s);
    } else {
        s->ready = 1;
    }
    return st;
}

graft_status graft_cpu_primitive_init(graft_cpu_primitive *p, dnnl_engine_t engine,
                                      const_dnnl_primitive_desc_t pd, const int *arg, int args,
                                      graft_err *e)
{
    p->engine = engine;
    p->args = args;
    for (int i = 0; i < GRAFT_CPU_SLOTS; i++) atomic_flag_clear(&p->slot[i].busy);
    for (int i = 0; i < args; i++) {
        p->arg[i] = arg[i];
        const dnnl_memory_desc_t *md =
            dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg[i]);
        if (!md) return graft_fail(e, GRAFT_E_INTERNAL, "oneDNN does not know argument %d", arg[i]);
        p->md[i] = *md;
    }
    dnnl_status_t st = dnnl_primitive_create(&p->primitive, pd);
    if (!st) st = slot_init(&p->slot[0], p);
    return graft_cpu_dnnl_fail(st, "compiling", e);
}

void graft_cpu_primitive_finish(graft_cpu_primitive *p)
{
    for (int i = 0; i < GRAFT_CPU_SLOTS; i++) slot_finish(&p->slot[i]);
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    p->primitive = NULL;
}

static dnnl_status_t slot_run(graft_cpu_primitive *p, graft_cpu_slot *s, void *const *handle)
{
    dnnl_exec_arg_t args[GRAFT_CPU_ARGS];
    dnnl_status_t st = s->ready ? dnnl_success : slot_init(s, p);
    for (int i = 0; i < p->args && !st; i++) {
        args[i] = (dnnl_exec_arg_t){p->arg[i], s->memory[i]};
        if (s->handle[i] == handle[i]) continue;
        st = dnnl_memory_set_data_handle_v2(s->memory[i], handle[i], s->stream);
        s->handle[i] = handle[i];
    }
    if (!st) st = dnnl_primitive_execute(p->primitive, s->stream, p->args, args);
    if (!st) st = dnnl_stream_wait(s->stream);
    return st;
}

graft_status graft_cpu_primitive_run(graft_cpu_primitive *p, void *const *handle)
{
    graft_cpu_slot *s = NULL, own;
    for (int i = 0; i < GRAFT_CPU_SLOTS && !s; i++)
        if (!atomic_flag_test_and_set_explicit(&p->slot[i].busy, memory_order_acquire))
            s = &p->slot[i];
    if (!s) memset(&own, 0, sizeof own);
    dnnl_status_t st = slot_run(p, s ? s : &own, handle);
    if (s) {
        atomic_flag_clear_explicit(&s->busy, memory_order_release);
    } else {
        slot_finish(&own);
    }
    return graft_cpu_dnnl_fail(st, "run", NULL);
}
