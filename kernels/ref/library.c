#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "kernels/quant.h"
#include "kernels/ref/ref.h"

enum { ALIGNMENT = 64 };

struct graft_device {
    graft_kernels_host host;
};

struct graft_kernel {
    const graft_ref_op *op;
    graft_op_desc desc; /* constants as dense float32 */
    graft_device *device;
};

/* Puts the message into the caller's text buffer, which may be NULL. */
static graft_status report(graft_status st, const graft_err *e, char *text, uint64_t n)
{
    if (text && n) snprintf(text, (size_t)n, "%s", st ? e->text : "");
    return st;
}

static graft_status device_create(const graft_kernels_host *host, int32_t device_index,
                                  graft_device **out, char *text, uint64_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    *out = NULL;
    if (!host || host->size < GRAFT_KERNELS_HOST_SIZE || !host->alloc || !host->free)
        return report(graft_fail(&e, GRAFT_E_ARG, "host record is too small or has no allocator"),
                      &e, text, n);
    if (device_index != 0)
        return report(graft_fail(&e, GRAFT_E_NOTFOUND, "device %d of 1", (int)device_index), &e,
                      text, n);
    graft_device *d = host->alloc(ALIGNMENT, sizeof *d);
    if (!d) return report(graft_fail_nomem(&e, "the device"), &e, text, n);
    memset(d, 0, sizeof *d);
    memcpy(&d->host, host, host->size < sizeof d->host ? host->size : sizeof d->host);
    *out = d;
    return report(GRAFT_OK, &e, text, n);
}

static void device_destroy(graft_device *d)
{
    if (d) d->host.free(d);
}

static graft_status device_info(graft_device *d, graft_device_info *out)
{
    (void)d;
    if (out->size < sizeof out->size) return GRAFT_E_ARG;
    graft_device_info info = {.size = out->size < sizeof info ? out->size : sizeof info,
                              .name = "reference (float32, one thread)",
                              .identity = "ref " GRAFT_VERSION,
                              .alignment = ALIGNMENT,
                              .host_memory = 1};
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    info.memory_total = page * (uint64_t)sysconf(_SC_PHYS_PAGES);
    info.memory_free = page * (uint64_t)sysconf(_SC_AVPHYS_PAGES);
    memcpy(out, &info, info.size);
    return GRAFT_OK;
}

static void *buffer_alloc(graft_device *d, uint64_t bytes)
{
    size_t rounded;
    if (bytes > SIZE_MAX || !graft_size_round_up((size_t)bytes, ALIGNMENT, &rounded)) return NULL;
    return d->host.alloc(ALIGNMENT, rounded ? rounded : ALIGNMENT);
}

static void buffer_free(graft_device *d, void *p)
{
    if (p) d->host.free(p);
}

static graft_status transfer(graft_device *d, void *dst, const void *src, uint64_t bytes)
{
    (void)d;
    if (bytes) memcpy(dst, src, (size_t)bytes);
    return GRAFT_OK;
}

static int32_t supports(graft_device *d, const graft_op_desc *given)
{
    (void)d;
    graft_op_desc desc;
    const graft_ref_op *op;
    return graft_ref_check_own(given, &desc, &op, NULL) == GRAFT_OK;
}

/* Weights of 4 bits are packed as kernels/quant.h says. */
static bool is_int4(const graft_kernel *k, int32_t input)
{
    return k->desc.attrs.quant == GRAFT_QUANT_INT4 && input == GRAFT_LINEAR_W;
}

/* Bytes of a weight whose packed form is not of floats; 0: it is. */
static uint64_t levels_bytes(const graft_kernel *k, int32_t input)
{
    const graft_tensor_desc *t = &k->desc.in[input];
    const int32_t type = graft_quant_blocks(k->desc.attrs.quant);
    if (type && input == GRAFT_LINEAR_W)
        return (uint64_t)graft_blocks_bytes(type, t->dim[0], t->dim[1]);
    return is_int4(k, input) ? graft_quant4_bytes(t->dim[0], graft_ref_elements(t) / t->dim[0]) : 0;
}

static void fill_info(const graft_kernel *k, graft_kernel_info *out)
{
    graft_kernel_info info = {.variant = "ref f32", .variant_count = 1};
    info.size = out->size < sizeof info ? out->size : sizeof info;
    if (k->op->workspace) info.workspace_bytes = k->op->workspace(&k->desc) * sizeof(float);
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) {
        const graft_tensor_desc *t = &k->desc.in[i];
        if (!graft_ref_present(t) || !t->constant) continue;
        bool reordered = k->op->reorder && k->op->reorder(&k->desc, i, NULL, NULL);
        info.packed_bytes[i] = levels_bytes(k, i);
        if (!info.packed_bytes[i])
            info.packed_bytes[i] = (uint64_t)graft_ref_elements(t) * sizeof(float);
        info.packing[i] =
            reordered ? (uint64_t)(GRAFT_REF_REORDERED + k->desc.op) : GRAFT_REF_PLAIN;
        if (reordered) info.packing[i] += (uint64_t)k->desc.attrs.quant << 16;
    }
    memcpy(out, &info, info.size);
}

static graft_status prepare(graft_device *d, const graft_op_desc *given, int32_t variant,
                            graft_kernel **out, graft_kernel_info *info, char *text, uint64_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_op_desc desc;
    const graft_ref_op *op;
    *out = NULL;
    graft_status st = graft_ref_check_own(given, &desc, &op, &e);
    if (st) return report(st, &e, text, n);
    if (variant < -1 || variant > 0)
        return report(graft_fail(&e, GRAFT_E_ARG, "variant %d of 1", (int)variant), &e, text, n);
    if (!info || info->size < sizeof info->size)
        return report(graft_fail(&e, GRAFT_E_ARG, "kernel info without its size"), &e, text, n);
    graft_kernel *k = d->host.alloc(ALIGNMENT, sizeof *k);
    if (!k) return report(graft_fail_nomem(&e, "a kernel"), &e, text, n);
    *k = (graft_kernel){.op = op, .desc = desc, .device = d};
    fill_info(k, info);
    *out = k;
    return report(GRAFT_OK, &e, text, n);
}

static void release(graft_kernel *k)
{
    if (k) k->device->host.free(k);
}

/* Rows of outputs, each to what its 8-bit form would be worth. */
static void quantize_weights(graft_quant q, const graft_tensor_desc *t, float *w)
{
    int64_t n = graft_ref_elements(t) / t->dim[0];
    for (int64_t o = 0; o < t->dim[0]; o++, w += n)
        graft_quant8_snap(q, w, w, n, graft_quant_absmax(w, n));
}

/* What GRAFT_Q8 or GRAFT_QF8 is worth. */
static void read_levels(graft_quant q, const graft_tensor_desc *t, const void *src, float *w)
{
    int64_t all = graft_ref_elements(t), n = all / t->dim[0];
    for (int64_t i = 0; i < all; i++) {
        float scale;
        memcpy(&scale, (const char *)src + all + i / n * (int64_t)sizeof scale, sizeof scale);
        w[i] = graft_quant8_value(q, ((const uint8_t *)src)[i]) * scale;
    }
}

static graft_status pack(graft_kernel *k, int32_t input, graft_dtype src_dtype, const void *src,
                         void *dst)
{
    if (input < 0 || input >= GRAFT_MAX_INPUTS || !src || !dst) return GRAFT_E_ARG;
    const graft_tensor_desc *t = &k->desc.in[input];
    if (!graft_ref_present(t) || !t->constant) return GRAFT_E_ARG;
    int64_t n = graft_ref_elements(t);
    bool reordered = k->op->reorder && k->op->reorder(&k->desc, input, NULL, NULL);
    if (!reordered)
        return graft_ref_to_f32(src_dtype, src, dst, n) ? GRAFT_OK : GRAFT_E_UNSUPPORTED;
    const uint64_t levels = levels_bytes(k, input);
    const int32_t type = levels ? graft_quant_blocks(k->desc.attrs.quant) : 0;
    if (levels && src_dtype == graft_quant_dtype(k->desc.attrs.quant)) {
        memcpy(dst, src, (size_t)levels);
        return GRAFT_OK;
    }
    if (type && type != GRAFT_GGML_Q8_0) return GRAFT_E_UNSUPPORTED;
    float *plain = buffer_alloc(k->device, (uint64_t)n * sizeof *plain);
    if (!plain) return GRAFT_E_NOMEM;
    graft_status st = GRAFT_E_UNSUPPORTED;
    graft_quant q = k->desc.attrs.quant;
    bool of_8_bits = graft_quant_is_8(q), ready = of_8_bits && src_dtype == graft_quant_dtype(q);
    if (ready) read_levels(q, t, src, plain);
    if (ready || graft_ref_to_f32(src_dtype, src, plain, n)) {
        if (of_8_bits && !ready) quantize_weights(q, t, plain);
        if (is_int4(k, input))
            graft_quant4_pack_rows(plain, 0, t->dim[0], t->dim[0], n / t->dim[0], dst);
        else if (type)
            graft_ggml_pack_q8_0(plain, n, dst);
        else
            k->op->reorder(&k->desc, input, plain, dst);
        st = GRAFT_OK;
    }
    buffer_free(k->device, plain);
    return st;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    if (!in || !out || (!workspace && k->op->workspace && k->op->workspace(&k->desc)))
        return GRAFT_E_ARG;
    for (uint32_t i = 0; i < k->op->inputs; i++)
        if (graft_ref_present(&k->desc.in[i]) && !in[i]) return GRAFT_E_ARG;
    k->op->run(&k->desc, in, out, workspace);
    return GRAFT_OK;
}

static int32_t inplace(graft_kernel *k, int32_t input)
{
    const graft_tensor_desc *t = &k->desc.in[0];
    return input == 0 && k->op->inplace && !t->constant && graft_ref_is_dense(t) &&
           graft_ref_is_dense(&k->desc.out);
}

/* Launches have finished when they return. */
static graft_status wait_all(graft_device *d, char *text, uint64_t n)
{
    (void)d;
    if (text && n) text[0] = 0;
    return GRAFT_OK;
}

static int32_t score(void)
{
    return 1; /* runs anywhere; every other library is faster */
}

static int32_t device_count(void)
{
    return 1;
}

static const graft_kernels_api api = {
    .create = device_create,
    .destroy = device_destroy,
    .info = device_info,
    .alloc = buffer_alloc,
    .free = buffer_free,
    .upload = transfer,
    .download = transfer,
    .supports = supports,
    .prepare = prepare,
    .release = release,
    .pack = pack,
    .launch = launch,
    .inplace = inplace,
    .wait = wait_all,
};

static const graft_kernels_more more = {.size = sizeof more,
                                        .wants = GRAFT_WANTS_HADAMARD | GRAFT_WANTS_BLOCKS};

GRAFT_KERNELS_EXPORT const graft_kernels graft_kernels_entry = {
    .abi_major = GRAFT_KERNELS_ABI_MAJOR,
    .abi_minor = GRAFT_KERNELS_ABI_MINOR,
    .name = "ref",
    .version = GRAFT_VERSION,
    .score = score,
    .device_count = device_count,
    .api = &api,
    .more = &more,
};
