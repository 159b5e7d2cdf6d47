/* The entry of the library: the table of operators, and the phases of a kernel. */
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/device/capture.h"
#include "kernels/cuda/device/lane.h"
#include "kernels/cuda/device/marks.h"
#include "kernels/cuda/device/stage.h"
#include "kernels/cuda/libs/lt.h"
#include "kernels/cuda/opening.h"
#include "kernels/cuda/ops/sampler.h"
#include "kernels/quant.h"
#include "kernels/ref/ref.h"

#define VERSION "3"
#define SCORE   1000

static const graft_cuda_op *find(const graft_op_desc *d)
{
    graft_op op = d->op;
    graft_quant quant = d->attrs.quant;
    bool weighted = op == GRAFT_OP_CONV2D || op == GRAFT_OP_LINEAR;
    if (weighted && quant == GRAFT_QUANT_INT4) return &graft_cuda_op_int4;
    if (op == GRAFT_OP_LINEAR && graft_quant_blocks(quant)) return &graft_cuda_op_blocks;
    if (graft_cuda_is_narrow(d)) return &graft_cuda_op_narrow;
    bool of_8_bits = quant == GRAFT_QUANT_INT8 || quant == GRAFT_QUANT_FP8;
    switch (op) {
    case GRAFT_OP_CONV2D:
        return of_8_bits ? &graft_cuda_op_conv2d_int8 : &graft_cuda_op_conv2d;
    case GRAFT_OP_LINEAR:
        return of_8_bits ? &graft_cuda_op_linear_int8 : &graft_cuda_op_linear;
    case GRAFT_OP_GROUP_NORM:
        return &graft_cuda_op_group_norm;
    case GRAFT_OP_LAYER_NORM:
        return &graft_cuda_op_layer_norm;
    case GRAFT_OP_ATTENTION:
        return &graft_cuda_op_attention;
    case GRAFT_OP_ACT:
        return &graft_cuda_op_act;
    case GRAFT_OP_ADD:
        return &graft_cuda_op_add;
    case GRAFT_OP_MUL:
        return &graft_cuda_op_mul;
    case GRAFT_OP_SCALE:
        return &graft_cuda_op_scale;
    case GRAFT_OP_CONCAT:
        return &graft_cuda_op_concat;
    case GRAFT_OP_COPY:
        return &graft_cuda_op_copy;
    case GRAFT_OP_UPSAMPLE:
        return &graft_cuda_op_upsample;
    case GRAFT_OP_EMBEDDING:
        return &graft_cuda_op_embedding;
    case GRAFT_OP_TIMESTEP:
        return &graft_cuda_op_timestep;
    case GRAFT_OP_GEGLU:
        return &graft_cuda_op_geglu;
    case GRAFT_OP_GATHER_ROW:
        return &graft_cuda_op_gather_row;
    case GRAFT_OP_PRELU:
        return &graft_cuda_op_prelu;
    case GRAFT_OP_MEAN_SCALE:
        return &graft_cuda_op_mean_scale;
    case GRAFT_OP_LOW_SCALE:
        return &graft_cuda_op_low_scale;
    case GRAFT_OP_RMS_NORM:
        return &graft_cuda_op_rms_norm;
    case GRAFT_OP_JOIN:
        return &graft_cuda_op_join;
    case GRAFT_OP_ROPE:
        return &graft_cuda_op_rope;
    case GRAFT_OP_MATCH_TOKENS:
        return &graft_cuda_op_match_tokens;
    case GRAFT_OP_MERGE_TOKENS:
        return &graft_cuda_op_merge_tokens;
    case GRAFT_OP_SPREAD_TOKENS:
        return &graft_cuda_op_spread_tokens;
    case GRAFT_OP_ROUTE:
        return &graft_cuda_op_route;
    default:
        return NULL;
    }
}

static graft_status report(graft_status st, const graft_err *e, char *text, uint64_t n)
{
    if (text && n) snprintf(text, (size_t)n, "%s", st ? e->text : "");
    return st;
}

/* ------------------------------------------------------------------ device */

static graft_status create(const graft_kernels_host *host, int32_t index, graft_device **out,
                           char *text, uint64_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    pthread_mutexattr_t recursive;
    *out = NULL;
    if (!host || host->size < GRAFT_KERNELS_HOST_SIZE || !host->alloc || !host->free)
        return report(graft_fail(&e, GRAFT_E_ARG, "the host record is too short"), &e, text, n);
    if (index < 0)
        return report(graft_fail(&e, GRAFT_E_NOTFOUND, "device %d", (int)index), &e, text, n);
    graft_device *d = host->alloc(GRAFT_CUDA_ALIGN, sizeof *d);
    if (!d) return report(graft_fail_nomem(&e, "the device"), &e, text, n);
    memset(d, 0, sizeof *d);
    memcpy(&d->host, host, host->size < sizeof d->host ? host->size : sizeof d->host);
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&d->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    graft_status st = graft_cuda_device_open(d, index, &e);
    if (st) {
        graft_cuda_device_close(d);
        pthread_mutex_destroy(&d->lock);
        host->free(d);
    } else {
        *out = d;
    }
    return report(st, &e, text, n);
}

static void destroy(graft_device *d)
{
    if (!d) return;
    graft_cuda_device_close(d);
    pthread_mutex_destroy(&d->lock);
    d->host.free(d);
}

static graft_status info(graft_device *d, graft_device_info *out)
{
    if (!out || out->size < sizeof out->size) return GRAFT_E_ARG;
    graft_device_info i = d->info;
    size_t free_bytes = 0, total = 0;
    graft_cuda_lock(d);
    if (!d->lost[0] && d->drv.memory_info(&free_bytes, &total) == CUDA_SUCCESS)
        i.memory_free = free_bytes;
    graft_cuda_unlock(d);
    i.size = out->size < sizeof i ? out->size : (uint32_t)sizeof i;
    memcpy(out, &i, i.size);
    return GRAFT_OK;
}

/* Only the driver is looked at: the other libraries are large and report when a device is made. */
static void missing(char *text, uint64_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_cuda_driver drv;
    if (!text || !n) return;
    text[0] = '\0';
    if (graft_cuda_driver_open(&drv, &e))
        snprintf(text, (size_t)n, "%s; other backends work", e.text);
}

/* ------------------------------------------------------------------ memory */

static void *buffer_alloc(graft_device *d, uint64_t bytes)
{
    CUdeviceptr p = 0;
    char text[160];
    size_t free_bytes = 0, total = 0;
    if (bytes > INT64_MAX) return NULL;
    graft_cuda_lock(d);
    CUresult r = d->lost[0] ? CUDA_ERROR_UNKNOWN : d->drv.memory_alloc(&p, bytes ? bytes : 1);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && d->drv.memory_info(&free_bytes, &total) == CUDA_SUCCESS) {
        snprintf(text, sizeof text, "CUDA: %llu MB wanted, %zu of %zu MB are free",
                 (unsigned long long)(bytes >> 20), free_bytes >> 20, total >> 20);
        graft_cuda_log(d, GRAFT_LOG_WARN, text);
    } else if (r && !d->lost[0]) {
        graft_cuda_done(d, r, "memory of the device");
    }
    graft_cuda_unlock(d);
    return r ? NULL : (void *)(uintptr_t)p;
}

static void buffer_free(graft_device *d, void *p)
{
    if (!p) return;
    graft_cuda_lock(d);
    if (!d->lost[0]) /* work that uses it may still wait its turn */
        graft_cuda_done(d, d->drv.stream_wait(d->stream), "the work before memory is freed");
    else
        graft_cuda_lanes_wait(d);
    d->drv.memory_free((CUdeviceptr)(uintptr_t)p);
    graft_cuda_unlock(d);
}

static graft_status upload(graft_device *d, void *dst, const void *src, uint64_t bytes)
{
    graft_cuda_lock(d);
    graft_status st = graft_cuda_upload(d, dst, src, bytes);
    graft_cuda_unlock(d);
    return st;
}

static graft_status download(graft_device *d, void *dst, const void *src, uint64_t bytes)
{
    graft_cuda_lock(d);
    graft_status st = graft_cuda_download(d, dst, src, bytes);
    if (!st) graft_cuda_scratch_free(d);
    graft_cuda_unlock(d);
    return st;
}

/* ------------------------------------------------------------------ kernels */

/* Inputs that are float32 also where the kernel computes with 16 bits, and never anything else. */
static bool is_f32(const graft_op_desc *op, int i)
{
    switch (op->op) {
    case GRAFT_OP_GROUP_NORM:
        return i == GRAFT_NORM_MOMENTS;
    case GRAFT_OP_LAYER_NORM:
        return i != GRAFT_NORM_X && !op->in[i].constant;
    case GRAFT_OP_ATTENTION:
        return i == GRAFT_ATTENTION_BIAS;
    case GRAFT_OP_MUL:
        return i == GRAFT_MUL_B && graft_cuda_present(&op->in[GRAFT_MUL_RESIDUAL]);
    case GRAFT_OP_MEAN_SCALE:
    case GRAFT_OP_LOW_SCALE:
        return i == GRAFT_FACTOR;
    case GRAFT_OP_TIMESTEP:
        return true;
    default:
        return false;
    }
}

/* A factor that varies, or is one number, may be, too. */
static bool may_be_f32(const graft_op_desc *op, int i)
{
    bool factor = op->op == GRAFT_OP_MUL && i == GRAFT_MUL_B &&
                  (!op->in[i].constant || graft_ref_elements(&op->in[i]) == 1);
    return factor || is_f32(op, i);
}

/* What a kernel computes with: the result's, where that is no table. */
static graft_dtype dtype_of(const graft_op_desc *op)
{
    return op->op == GRAFT_OP_MATCH_TOKENS ? op->in[0].dtype : op->out.dtype;
}

/* The checks of the ref library see float32 in place of the dtype that this kernel computes with.
 */
static graft_status check(const graft_op_desc *op, graft_op_desc *d, graft_err *e)
{
    const graft_ref_op *known;
    graft_op_desc given;
    if (!op || op->size < sizeof *op)
        return graft_fail(e, GRAFT_E_ARG, "the operator's record is too short");
    if (!graft_op_desc_is_known(op))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "operator record has fields that this library does not know");
    memcpy(&given, op, sizeof given);
    given.size = sizeof given;
    /* Integers are a permission there, of which no kernel here makes use. */
    if (given.op == GRAFT_OP_ATTENTION && given.attrs.quant == GRAFT_QUANT_INT8)
        given.attrs.quant = GRAFT_QUANT_NONE;
    *d = given;
    graft_dtype t = dtype_of(&given);
    if (given.op != GRAFT_OP_COPY && (t == GRAFT_F16 || t == GRAFT_BF16)) {
        for (int i = 0; i < GRAFT_MAX_INPUTS; i++) {
            if (given.in[i].dtype == GRAFT_F32 && !given.in[i].constant && !may_be_f32(&given, i))
                return graft_fail(e, GRAFT_E_UNSUPPORTED, "input %d is float32, the result not", i);
            if (given.in[i].dtype == t && !is_f32(&given, i)) given.in[i].dtype = GRAFT_F32;
        }
        if (given.out.dtype == t) given.out.dtype = GRAFT_F32;
    }
    const graft_cuda_op *type = find(&given);
    if (!type)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "operator %d is not in the cuda library",
                          (int)given.op);
    graft_op_desc unused;
    graft_status st = graft_ref_check_own(&given, &unused, &known, e);
    for (int i = 0; i <= GRAFT_MAX_INPUTS && !st; i++) {
        const graft_tensor_desc *x = i < GRAFT_MAX_INPUTS ? &given.in[i] : &given.out;
        if (graft_cuda_present(x) && graft_ref_elements(x) > INT32_MAX - 1024)
            st = graft_fail(e, GRAFT_E_LIMIT, "a tensor of more than 2^31 elements");
    }
    if (!st && type->check) st = type->check(&given, e);
    return st;
}

static int32_t supports(graft_device *d, const graft_op_desc *op)
{
    graft_op_desc unused;
    (void)d;
    return check(op, &unused, NULL) == GRAFT_OK;
}

static void release(graft_kernel *k)
{
    if (!k) return;
    release(k->piece);
    graft_cuda_lt_plan_destroy(k->lt_sums);
    graft_cuda_lt_plan_destroy(k->lt); /* cuDNN's plans belong to the device */
    k->d->host.free(k);
}

static graft_status prepare(graft_device *d, const graft_op_desc *op, int32_t variant,
                            graft_kernel **out, graft_kernel_info *to, char *text, uint64_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_op_desc desc;
    *out = NULL;
    graft_status st = check(op, &desc, &e);
    if (!st && (!to || to->size < sizeof to->size))
        st = graft_fail(&e, GRAFT_E_ARG, "kernel info without its size");
    graft_kernel *k = st ? NULL : d->host.alloc(GRAFT_CUDA_ALIGN, sizeof *k);
    if (!st && !k) st = graft_fail_nomem(&e, "a kernel");
    if (st) return report(st, &e, text, n);
    memset(k, 0, sizeof *k);
    k->d = d;
    k->type = find(&desc);
    k->op = desc;
    k->t = dtype_of(&desc);
    k->info.variant_count = 1;
    snprintf(k->info.variant, sizeof k->info.variant, "own");
    if (k->type->init) st = k->type->init(k, variant, &e);
    if (!st && (variant < -1 || variant >= k->info.variant_count))
        st = graft_fail(&e, GRAFT_E_ARG, "variant %d of %d", (int)variant,
                        (int)k->info.variant_count);
    if (st) {
        release(k);
    } else {
        k->info.size = to->size < sizeof *to ? to->size : (uint32_t)sizeof *to;
        memcpy(to, &k->info, k->info.size);
        *out = k;
    }
    return report(st, &e, text, n);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    if (!in || !out || (!workspace && k->info.workspace_bytes)) return GRAFT_E_ARG;
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++)
        if (graft_cuda_present(&k->op.in[i]) && !in[i]) return GRAFT_E_ARG;
    graft_cuda_lock(k->d);
    graft_status st = k->d->lost[0] ? GRAFT_E_DEVICE : k->type->launch(k, in, out, workspace);
    if (st && k->d->capturing) k->d->capture_failed = true;
    graft_cuda_unlock(k->d);
    return st;
}

static int32_t stands_in(graft_kernel *k)
{
    graft_cuda_lock(k->d);
    int32_t yes = k->refused || (k->piece && k->piece->refused);
    graft_cuda_unlock(k->d);
    return yes;
}

static int32_t inplace(graft_kernel *k, int32_t input)
{
    if (k->op.op == GRAFT_OP_CONV2D) return input == GRAFT_CONV_X && k->bands.in_place;
    bool residual = input == GRAFT_MUL_RESIDUAL && k->op.op == GRAFT_OP_MUL &&
                    graft_cuda_present(&k->op.in[input]);
    if (input != 0 && !residual) return 0;
    const graft_tensor_desc *t = &k->op.in[input];
    return k->type->inplace && !t->constant && graft_ref_is_dense(t) &&
           graft_ref_is_dense(&k->op.out) &&
           graft_ref_elements(t) == graft_ref_elements(&k->op.out);
}

static graft_status wait_all(graft_device *d, char *text, uint64_t n)
{
    graft_cuda_lock(d);
    graft_status st = d->lost[0] ? GRAFT_E_DEVICE : GRAFT_OK;
    if (!st) st = graft_cuda_done(d, d->drv.stream_wait(d->stream), "waiting for the device");
    if (!st) graft_cuda_scratch_free(d);
    if (text && n) snprintf(text, (size_t)n, "%s", st ? d->lost : "");
    graft_cuda_unlock(d);
    return st;
}

static int32_t device_count(void)
{
    graft_cuda_driver drv;
    int count = 0;
    if (graft_cuda_driver_open(&drv, NULL)) return 0;
    return graft_cuda_driver_device(&drv, 0, NULL, &count, NULL) ? 0 : count;
}

static int32_t score(void)
{
    return device_count() > 0 ? SCORE : 0;
}

static const graft_kernels_api api = {
    .create = create,
    .destroy = destroy,
    .info = info,
    .alloc = buffer_alloc,
    .free = buffer_free,
    .upload = upload,
    .download = download,
    .supports = supports,
    .prepare = prepare,
    .release = release,
    .pack = graft_cuda_pack_weight,
    .launch = launch,
    .inplace = inplace,
    .wait = wait_all,
};

static const graft_kernels_more more = {
    .size = sizeof more,
    .missing = missing,
    .capture_begin = graft_cuda_capture_begin,
    .capture_end = graft_cuda_capture_end,
    .replay = graft_cuda_replay,
    .captured_free = graft_cuda_captured_free,
    .pack_merged = graft_cuda_pack_merged,
    .copy = graft_cuda_copy,
    .fill = graft_cuda_fill,
    .mix = graft_cuda_mix_arrays,
    .guide = graft_cuda_guide,
    .fetch = graft_cuda_fetch,
    .fetched = graft_cuda_fetched,
    .fetch_free = graft_cuda_fetch_free,
    .send = graft_cuda_send_ahead,
    .blend = graft_cuda_blend_arrays,
    .rescale = graft_cuda_rescale_guidance,
    .captured_bytes = graft_cuda_captured_bytes,
    .wants = GRAFT_WANTS_NORM_ADD | GRAFT_WANTS_NARROW_WEIGHTS | GRAFT_WANTS_LINEAR_NORM |
             GRAFT_WANTS_HADAMARD | GRAFT_WANTS_BLOCKS,
    .marks_create = graft_cuda_marks_create,
    .mark = graft_cuda_mark,
    .marks_read = graft_cuda_marks_read,
    .marks_free = graft_cuda_marks_free,
    .stands_in = stands_in,
    .host_alloc = graft_cuda_host_alloc,
    .host_free = graft_cuda_host_free,
    .lane_create = graft_cuda_lane_create,
    .lane_load = graft_cuda_lane_load,
    .lane_need = graft_cuda_lane_need,
    .lane_free = graft_cuda_lane_free,
    .cut = graft_cuda_cut,
    .weigh = graft_cuda_weigh,
    .mean = graft_cuda_weighed_mean,
    .change = graft_cuda_change,
};

GRAFT_KERNELS_EXPORT const graft_kernels graft_kernels_entry = {
    .abi_major = GRAFT_KERNELS_ABI_MAJOR,
    .abi_minor = GRAFT_KERNELS_ABI_MINOR,
    .name = "cuda",
    .version = VERSION,
    .score = score,
    .device_count = device_count,
    .api = &api,
    .more = &more,
};
