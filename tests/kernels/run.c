#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/log.h"
#include "kernels/blocks.h"
#include "tests/kernels/harness.h"
#include "tests/kernels/limits.h"
#include "tests/kernels/spare.h"

enum { GUARD = 256, GUARD_BYTE = 0xa7, POISON = 0xff /* NaN in every float format */ };

/* A device buffer between two guards, and what its bytes should be. */
typedef struct guarded {
    unsigned char *device, *mirror; /* GUARD + bytes + GUARD */
    size_t bytes;
} guarded;

static void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "out of memory\n");
        abort();
    }
    return p;
}

static atomic_int warnings;

static void show_warning(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level < GRAFT_LOG_WARN) return;
    fprintf(stderr, "  %s\n", text);
    atomic_fetch_add(&warnings, 1);
}

int lib_warnings(void)
{
    return atomic_load(&warnings);
}

const graft_kernels_host *lib_host(void)
{
    static const graft_kernels_host host = {.size = sizeof host,
                                            .threads = 2,
                                            .alloc = spare_alloc,
                                            .free = spare_give,
                                            .log = show_warning};
    return &host;
}

bool lib_open_with(const char *path, const graft_kernels_host *host, kernel_lib *out)
{
    char text[256] = "";
    memset(out, 0, sizeof *out);
    out->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!out->handle) {
        printf("skipped: %s\n", dlerror());
        return false;
    }
    out->kernels = dlsym(out->handle, GRAFT_KERNELS_SYMBOL);
    if (!out->kernels || out->kernels->abi_major != GRAFT_KERNELS_ABI_MAJOR) {
        printf("skipped: %s has no kernels of ABI %u\n", path, GRAFT_KERNELS_ABI_MAJOR);
        return false;
    }
    out->api = out->kernels->api;
    if (out->kernels->score() <= 0 || out->kernels->device_count() < 1) {
        printf("skipped: %s cannot run on this machine\n", path);
        return false;
    }
    if (out->api->create(host, 0, &out->device, text, sizeof text)) {
        printf("skipped: %s: %s\n", path, text);
        return false;
    }
    out->info.size = sizeof out->info;
    out->api->info(out->device, &out->info);
    return true;
}

bool lib_open(const char *path, kernel_lib *out)
{
    return lib_open_with(path, lib_host(), out);
}

void lib_close(kernel_lib *lib)
{
    lib->api->destroy(lib->device);
    lib->device = NULL;
}

double element_get(graft_dtype dtype, const void *p, int64_t i)
{
    switch (dtype) {
    case GRAFT_F32:
        return (double)((const float *)p)[i];
    case GRAFT_F16:
        return (double)graft_f16_to_f32(((const uint16_t *)p)[i]);
    case GRAFT_BF16:
        return (double)graft_bf16_to_f32(((const uint16_t *)p)[i]);
    case GRAFT_F64:
        return ((const double *)p)[i];
    case GRAFT_I8:
        return ((const int8_t *)p)[i];
    case GRAFT_U8:
    case GRAFT_BOOL8:
        return ((const uint8_t *)p)[i];
    case GRAFT_I32:
        return ((const int32_t *)p)[i];
    case GRAFT_I64:
        return (double)((const int64_t *)p)[i];
    case GRAFT_F8_E4M3:
        return (double)graft_f8_e4m3_to_f32(((const uint8_t *)p)[i]);
    case GRAFT_F8_E5M2:
        return (double)graft_f8_e5m2_to_f32(((const uint8_t *)p)[i]);
    default:
        return NAN;
    }
}

/* Float8 by search: the byte whose value is nearest. */
static uint8_t to_f8(graft_dtype dtype, double v)
{
    uint8_t best = 0;
    double least = INFINITY;
    for (int b = 0; b < 256; b++) {
        uint8_t byte = (uint8_t)b;
        double off = fabs(element_get(dtype, &byte, 0) - v);
        if (off < least) least = off, best = byte;
    }
    return best;
}

void element_put(graft_dtype dtype, void *p, int64_t i, double v)
{
    switch (dtype) {
    case GRAFT_F32:
        ((float *)p)[i] = (float)v;
        break;
    case GRAFT_F16:
        ((uint16_t *)p)[i] = graft_f32_to_f16((float)v);
        break;
    case GRAFT_BF16:
        ((uint16_t *)p)[i] = graft_f32_to_bf16((float)v);
        break;
    case GRAFT_F64:
        ((double *)p)[i] = v;
        break;
    case GRAFT_I8:
        ((int8_t *)p)[i] = (int8_t)v;
        break;
    case GRAFT_U8:
    case GRAFT_BOOL8:
        ((uint8_t *)p)[i] = (uint8_t)v;
        break;
    case GRAFT_I32:
        ((int32_t *)p)[i] = (int32_t)v;
        break;
    case GRAFT_I64:
        ((int64_t *)p)[i] = (int64_t)v;
        break;
    case GRAFT_F8_E4M3:
    case GRAFT_F8_E5M2:
        ((uint8_t *)p)[i] = to_f8(dtype, v);
        break;
    default:
        break;
    }
}

/* n neighbours: what most of a test's elements are. */
static void elements_put(graft_dtype dtype, void *p, int64_t n, const float *v)
{
    if (dtype == GRAFT_F32)
        memcpy(p, v, (size_t)n * sizeof *v);
    else if (dtype == GRAFT_F16)
        graft_f32_to_f16_array(v, p, (size_t)n);
    else if (dtype == GRAFT_BF16)
        graft_f32_to_bf16_array(v, p, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++) element_put(dtype, p, i, (double)v[i]);
}

static void elements_get(graft_dtype dtype, const void *p, int64_t n, float *v)
{
    if (dtype == GRAFT_F32)
        memcpy(v, p, (size_t)n * sizeof *v);
    else if (dtype == GRAFT_F16)
        graft_f16_to_f32_array(p, v, (size_t)n);
    else if (dtype == GRAFT_BF16)
        graft_bf16_to_f32_array(p, v, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++) v[i] = (float)element_get(dtype, p, i);
}

/* To what the dtype holds of them. */
static void round_to(graft_dtype dtype, float *v, int64_t n)
{
    if (dtype == GRAFT_F32) return;
    void *cells = spare_take((size_t)n * sizeof(uint64_t));
    elements_put(dtype, cells, n, v);
    elements_get(dtype, cells, n, v);
    spare_give(cells);
}

static bool is_activation(const graft_op_desc *d, int input)
{
    const graft_tensor_desc *t = &d->in[input];
    bool moments = d->op == GRAFT_OP_GROUP_NORM && input == GRAFT_NORM_MOMENTS;
    bool factor = d->op == GRAFT_OP_MUL && input == 1 && element_count(t) == 1;
    factor |= (d->op == GRAFT_OP_MEAN_SCALE || d->op == GRAFT_OP_LOW_SCALE) && input;
    /* Rows of adaptive norms and gates, and what is added to scores. */
    factor |= d->op == GRAFT_OP_LAYER_NORM && input > GRAFT_NORM_X;
    factor |= d->op == GRAFT_OP_MUL && input == GRAFT_MUL_B && d->in[GRAFT_MUL_RESIDUAL].dtype;
    factor |= d->op == GRAFT_OP_MUL && input == GRAFT_MUL_B && t->rank == 3 && t->dim[0] > 1 &&
              (t->dim[1] == 1 || t->dim[2] == 1);
    factor |= d->op == GRAFT_OP_ATTENTION && input == GRAFT_ATTENTION_BIAS;
    return t->dtype == GRAFT_F32 && !t->constant && d->op != GRAFT_OP_TIMESTEP && !moments &&
           !factor;
}

graft_op_desc case_desc(const kernel_case *c, graft_dtype dtype)
{
    graft_op_desc d = c->desc;
    if (c->fixed) return d;
    const bool table = d.op == GRAFT_OP_MATCH_TOKENS; /* its result is whole numbers */
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++)
        if (is_activation(&c->desc, i)) d.in[i].dtype = dtype;
    if (!table) d.out.dtype = dtype;
    return d;
}

/* Variance 1 with a tail: the sum of three uniform values. */
static double random_normal(uint64_t *state)
{
    double sum = 0;
    for (int i = 0; i < 3; i++) sum += (double)(random_next(state) >> 11) * 0x1p-53 * 2 - 1;
    return sum;
}

/* fan_in: the root of how many products of a weight become one result. */
static inline double value_of(const kernel_case *c, int input, double fan_in, uint64_t *state)
{
    const graft_op_desc *d = &c->desc;
    const graft_tensor_desc *t = &d->in[input];
    if (d->op == GRAFT_OP_EMBEDDING && input == 0)
        return (double)(random_next(state) % (uint64_t)d->in[1].dim[0]);
    if (d->op == GRAFT_OP_GATHER_ROW && input == 1)
        return (double)(random_next(state) % (uint64_t)d->in[0].dim[1]);
    /* With some for no row, on either side. */
    if (d->op == GRAFT_OP_MERGE_TOKENS && input == 1)
        return (double)(random_next(state) % (uint64_t)(d->attrs.groups + 2)) - 1;
    if (d->op == GRAFT_OP_SPREAD_TOKENS && input == 1)
        return (double)(random_next(state) % (uint64_t)(d->in[0].dim[1] + 2)) - 1;
    if (d->op == GRAFT_OP_ATTENTION && input == GRAFT_ATTENTION_COUNT)
        return (double)(random_next(state) % (uint64_t)d->in[1].dim[1]) + 1;
    if (d->op == GRAFT_OP_TIMESTEP) return (double)(random_next(state) % 4000) * 0.25;
    double v = random_normal(state);
    bool weight = (d->op == GRAFT_OP_CONV2D || d->op == GRAFT_OP_LINEAR) && input == 1;
    if (weight) return v / fan_in;
    bool norm =
        d->op == GRAFT_OP_GROUP_NORM || d->op == GRAFT_OP_LAYER_NORM || d->op == GRAFT_OP_RMS_NORM;
    if (norm && input == 0) return 1.5 * v + 0.5; /* so that the mean matters */
    if (norm && input == 1) return 1 + 0.2 * v;
    if (norm && input == GRAFT_NORM_MOMENTS) return 0.5 + fabs(v); /* variances among them */
    return c->fixed && t->dtype != GRAFT_BOOL8 ? 100 * v : v;      /* COPY: beyond int8 as well */
}

void case_values(const kernel_case *c, graft_dtype dtype, uint64_t seed,
                 float *val[GRAFT_MAX_INPUTS])
{
    graft_op_desc d = case_desc(c, dtype);
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) {
        val[i] = NULL;
        if (d.in[i].dtype == GRAFT_DTYPE_NONE) continue;
        int64_t n = element_count(&d.in[i]);
        uint64_t state = seed * 1000003 + (uint64_t)i;
        double fan_in = sqrt((double)(n / d.in[i].dim[0]));
        val[i] = spare_take((size_t)n * sizeof(float));
        for (int64_t j = 0; j < n; j++) val[i][j] = (float)value_of(c, i, fan_in, &state);
        round_to(d.in[i].constant ? dtype : d.in[i].dtype, val[i], n);
        if (d.in[i].constant) round_to(c->source, val[i], n);
    }
}

void values_free(float *val[GRAFT_MAX_INPUTS])
{
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) spare_give(val[i]);
}

static int64_t extent(const graft_tensor_desc *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n += (t->dim[i] - 1) * t->stride[i];
    return n;
}

static guarded guarded_make(const kernel_lib *lib, size_t bytes, int fill)
{
    guarded g = {.bytes = bytes};
    g.device = must(lib->api->alloc(lib->device, bytes + 2 * GUARD));
    g.mirror = spare_take(bytes + 2 * GUARD);
    memset(g.mirror, GUARD_BYTE, bytes + 2 * GUARD);
    memset(g.mirror + GUARD, fill, bytes);
    lib->api->upload(lib->device, g.device, g.mirror, bytes + 2 * GUARD);
    return g;
}

static void guarded_free(const kernel_lib *lib, guarded *g)
{
    if (g->device) lib->api->free(lib->device, g->device);
    spare_give(g->mirror);
    memset(g, 0, sizeof *g);
}

static void *guarded_data(const guarded *g)
{
    return g->device ? g->device + GUARD : NULL;
}

/* Brings the device's bytes into the mirror; false when a guard was written to. */
static bool guarded_fetch(const kernel_lib *lib, guarded *g)
{
    lib->api->download(lib->device, g->mirror, g->device, g->bytes + 2 * GUARD);
    for (size_t i = 0; i < GUARD; i++)
        if (g->mirror[i] != GUARD_BYTE || g->mirror[GUARD + g->bytes + i] != GUARD_BYTE)
            return false;
    return true;
}

/* False when a byte is no longer what the mirror says. */
static bool guarded_unchanged(const kernel_lib *lib, const guarded *g)
{
    size_t all = g->bytes + 2 * GUARD;
    unsigned char *now = spare_take(all);
    lib->api->download(lib->device, now, g->device, all);
    bool same = memcmp(now, g->mirror, all) == 0;
    spare_give(now);
    return same;
}

/* Offset in elements of the i-th element in logical order. */
static int64_t offset_of(const graft_tensor_desc *t, int64_t i)
{
    int64_t at = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        at += i % t->dim[d] * t->stride[d];
        i /= t->dim[d];
    }
    return at;
}

/* How many elements, in logical order, lie side by side from each multiple of it on. */
static int64_t neighbours(const graft_tensor_desc *t)
{
    int64_t n = 1;
    for (int d = t->rank - 1; d >= 0 && (t->stride[d] == n || t->dim[d] == 1); d--) n *= t->dim[d];
    return n;
}

static guarded place(const kernel_lib *lib, const graft_tensor_desc *t, const float *val)
{
    size_t bytes = (size_t)extent(t) * graft_dtype_size(t->dtype);
    guarded g = guarded_make(lib, bytes, POISON);
    int64_t n = element_count(t), row = neighbours(t), size = graft_dtype_size(t->dtype);
    for (int64_t i = 0; i < n; i += row)
        elements_put(t->dtype, g.mirror + GUARD + offset_of(t, i) * size, row, val + i);
    lib->api->upload(lib->device, g.device, g.mirror, bytes + 2 * GUARD);
    return g;
}

static void take(const graft_tensor_desc *t, const guarded *g, float *out)
{
    int64_t n = element_count(t), row = neighbours(t), size = graft_dtype_size(t->dtype);
    for (int64_t i = 0; i < n; i += row)
        elements_get(t->dtype, g->mirror + GUARD + offset_of(t, i) * size, row, out + i);
}

/* Bytes of a strided output that belong to no element keep the poison. */
static bool gaps_untouched(const graft_tensor_desc *t, const guarded *g, int poison)
{
    int64_t n = element_count(t), row = neighbours(t);
    size_t size = graft_dtype_size(t->dtype);
    if ((size_t)n * size == g->bytes) return true; /* there are none */
    unsigned char *owned = memset(spare_take(g->bytes), 0, g->bytes);
    for (int64_t i = 0; i < n; i += row)
        memset(owned + (size_t)offset_of(t, i) * size, 1, (size_t)row * size);
    bool clean = true;
    for (size_t i = 0; i < g->bytes && clean; i++)
        clean = owned[i] || g->mirror[GUARD + i] == (unsigned char)poison;
    spare_give(owned);
    return clean;
}

typedef struct session {
    const kernel_lib *lib;
    graft_op_desc desc;
    graft_kernel *kernel;
    graft_kernel_info info;
    guarded in[GRAFT_MAX_INPUTS], out, workspace;
    bool once; /* nothing is done again to see that it repeats */
    case_result *result;
} session;

static bool fault(session *s, const char *text, const char *detail)
{
    snprintf(s->result->fault, sizeof s->result->fault, "%s%s", text, detail);
    return false;
}

/* Twice, into differently poisoned memory: packing must give equal bytes. */
static bool pack_constant(session *s, int i, const kernel_case *c, const float *val)
{
    const graft_tensor_desc *t = &s->desc.in[i];
    const graft_kernels_api *api = s->lib->api;
    int64_t n = element_count(t);
    const bool blocks = c->blocks && i == GRAFT_LINEAR_W;
    graft_dtype source = blocks ? c->desc.attrs.quant : c->source;
    size_t source_bytes =
        blocks ? (size_t)graft_blocks_bytes(source - GRAFT_BLOCKS, t->dim[0], t->dim[1])
               : (size_t)n * graft_dtype_size(source);
    void *host = spare_take(source_bytes);
    if (blocks)
        memcpy(host, c->blocks, source_bytes);
    else
        elements_put(source, host, n, val);
    size_t bytes = (size_t)s->info.packed_bytes[i];
    guarded first = {0};
    s->in[i] = guarded_make(s->lib, bytes, POISON);
    bool ok = !api->pack(s->kernel, i, source, host, guarded_data(&s->in[i]));
    if (!s->once) {
        first = guarded_make(s->lib, bytes, 0);
        ok = !api->pack(s->kernel, i, source, host, guarded_data(&first)) && ok;
    }
    if (!ok) fault(s, "pack() failed", "");
    if (ok && ((!s->once && !guarded_fetch(s->lib, &first)) || !guarded_fetch(s->lib, &s->in[i])))
        ok = fault(s, "pack() wrote beyond packed_bytes", "");
    if (ok && !s->once && memcmp(first.mirror, s->in[i].mirror, bytes + 2 * GUARD) != 0)
        ok = fault(s, "pack() gave other bytes the second time", "");
    guarded_free(s->lib, &first);
    spare_give(host);
    return ok;
}

static bool set_inputs(session *s, const kernel_case *c, float *const *val)
{
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) {
        const graft_tensor_desc *t = &s->desc.in[i];
        if (t->dtype == GRAFT_DTYPE_NONE) continue;
        if (!t->constant)
            s->in[i] = place(s->lib, t, val[i]);
        else if (!s->info.packed_bytes[i])
            return fault(s, "packed_bytes of a constant is 0", "");
        else if (!pack_constant(s, i, c, val[i]))
            return false;
    }
    return true;
}

/* One launch with everything poisoned first; checks guards, gaps and inputs. */
static bool launch(session *s, int poison, float *out)
{
    const kernel_lib *lib = s->lib;
    const void *in[GRAFT_MAX_INPUTS];
    char text[256] = "";
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) in[i] = guarded_data(&s->in[i]);
    guarded_free(lib, &s->out);
    guarded_free(lib, &s->workspace);
    size_t bytes = (size_t)extent(&s->desc.out) * graft_dtype_size(s->desc.out.dtype);
    s->out = guarded_make(lib, bytes, poison);
    if (s->info.workspace_bytes)
        s->workspace = guarded_make(lib, (size_t)s->info.workspace_bytes, poison);
    if (lib->api->launch(s->kernel, in, guarded_data(&s->out), guarded_data(&s->workspace)))
        return fault(s, "launch() failed", "");
    if (lib->api->wait(lib->device, text, sizeof text)) return fault(s, "wait(): ", text);
    if (!guarded_fetch(lib, &s->out)) return fault(s, "wrote outside the output", "");
    if (!gaps_untouched(&s->desc.out, &s->out, poison))
        return fault(s, "wrote between the output's rows", "");
    if (s->workspace.device && !guarded_fetch(lib, &s->workspace))
        return fault(s, "wrote outside the workspace", "");
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++)
        if (s->in[i].device && !guarded_unchanged(lib, &s->in[i]))
            return fault(s, "changed an input", "");
    take(&s->desc.out, &s->out, out);
    return true;
}

/* What is computed in another order where it lies elsewhere: within what the dtype allows. */
static bool as_good(const session *s, const float *got, const float *expected, int64_t n)
{
    error_sum sum = {0};
    double nmse, max;
    for (int64_t i = 0; i < n; i++) error_add(&sum, (double)got[i], (double)expected[i]);
    return error_within(&sum, limit_for(&s->desc, s->desc.out.dtype), &nmse, &max);
}

/* Input i is overwritten with the output; it must come out as it did elsewhere. A smaller output
 * takes the beginning. */
static bool launch_inplace(session *s, int i, const float *expected)
{
    const kernel_lib *lib = s->lib;
    const void *in[GRAFT_MAX_INPUTS];
    int64_t n = element_count(&s->desc.out);
    for (int j = 0; j < GRAFT_MAX_INPUTS; j++) in[j] = guarded_data(&s->in[j]);
    if (s->desc.in[i].constant || s->in[i].bytes < s->out.bytes)
        return fault(s, "inplace() where the result is larger", "");
    if (lib->api->launch(s->kernel, in, guarded_data(&s->in[i]), guarded_data(&s->workspace)))
        return fault(s, "launch() in place failed", "");
    lib->api->wait(lib->device, NULL, 0);
    if (!guarded_fetch(lib, &s->in[i])) return fault(s, "wrote outside, in place", "");
    float *got = spare_take((size_t)n * sizeof *got);
    take(&s->desc.out, &s->in[i], got);
    bool bits = memcmp(got, expected, (size_t)n * sizeof *got) == 0;
    bool good = s->in[i].bytes == s->out.bytes ? bits : as_good(s, got, expected, n);
    s->result->placed = 1 + bits;
    spare_give(got);
    return good || fault(s, "other values in place", "");
}

/* What ran instead must not pass for the variant in reports. */
static void name_stand_in(session *s)
{
    const graft_kernels *k = s->lib->kernels;
    const graft_kernels_more *more = k->abi_minor >= 1 ? k->more : NULL;
    if (GRAFT_KERNELS_HAS(more, stands_in) && more->stands_in(s->kernel))
        snprintf(s->result->variant, sizeof s->result->variant, "%.50s, refused", s->info.variant);
}

static bool run(session *s, const kernel_case *c, int32_t variant, float *const *val)
{
    const kernel_lib *lib = s->lib;
    char text[256] = "";
    int64_t n = element_count(&s->desc.out);
    s->info.size = sizeof s->info;
    if (lib->api->prepare(lib->device, &s->desc, variant, &s->kernel, &s->info, text, sizeof text))
        return fault(s, "prepare(): ", text);
    s->result->variants = s->info.variant_count;
    memcpy(s->result->variant, s->info.variant, sizeof s->result->variant);
    if (s->info.variant_count < 1 || s->info.variant_index < 0 ||
        s->info.variant_index >= s->info.variant_count ||
        (variant >= 0 && s->info.variant_index != variant))
        return fault(s, "variant_index and variant_count do not fit", "");
    if (!set_inputs(s, c, val)) return false;
    s->result->out = must(malloc((size_t)n * sizeof(float)));
    if (!launch(s, POISON, s->result->out)) return false;
    if (s->once) return true;
    float *again = spare_take((size_t)n * sizeof *again);
    bool ok = launch(s, 0x5b, again);
    if (ok && memcmp(again, s->result->out, (size_t)n * sizeof *again) != 0)
        ok = fault(s, "other bits the second time", "");
    spare_give(again);
    for (int i = 0; ok && i < GRAFT_MAX_INPUTS; i++)
        if (s->in[i].device && lib->api->inplace(s->kernel, i)) {
            ok = launch_inplace(s, i, s->result->out);
            break; /* the input is gone */
        }
    name_stand_in(s);
    return ok;
}

static void run_session(session *s, const kernel_case *c, int32_t variant, float *const *val)
{
    memset(s->result, 0, sizeof *s->result);
    run(s, c, variant, val);
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) guarded_free(s->lib, &s->in[i]);
    guarded_free(s->lib, &s->out);
    guarded_free(s->lib, &s->workspace);
    s->lib->api->release(s->kernel);
}

void case_run(const kernel_lib *lib, const kernel_case *c, graft_dtype dtype, int32_t variant,
              float *const *val, case_result *out)
{
    session s = {.lib = lib, .desc = case_desc(c, dtype), .result = out};
    run_session(&s, c, variant, val);
}

void case_want(const kernel_lib *lib, const kernel_case *c, graft_dtype dtype, float *const *val,
               case_result *out)
{
    session s = {.lib = lib, .desc = case_desc(c, dtype), .once = true, .result = out};
    run_session(&s, c, -1, val);
}
