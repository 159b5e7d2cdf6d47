/* The entry of the library: the table of operators, the device, and the four phases of a kernel. */
#include <inttypes.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernels/cpu/dequantized.h"
#include "kernels/cpu/int8_panels.h"
#include "kernels/cpu/primitive.h"
#include "kernels/quant.h"

#define VERSION "7"
_Static_assert(GRAFT_LINEAR_W == 1 && GRAFT_CONV_W == 1, "weights share a place");

/* The one that computes with floats. */
static const graft_cpu_op *find_plain(graft_op op)
{
    switch (op) {
    case GRAFT_OP_CONV2D:
        return &graft_cpu_op_conv2d;
    case GRAFT_OP_LINEAR:
        return &graft_cpu_op_linear;
    case GRAFT_OP_GROUP_NORM:
        return &graft_cpu_op_group_norm;
    case GRAFT_OP_LAYER_NORM:
        return &graft_cpu_op_layer_norm;
    case GRAFT_OP_ATTENTION:
        return &graft_cpu_op_attention;
    case GRAFT_OP_ACT:
        return &graft_cpu_op_act;
    case GRAFT_OP_ADD:
        return &graft_cpu_op_add;
    case GRAFT_OP_MUL:
        return &graft_cpu_op_mul;
    case GRAFT_OP_SCALE:
        return &graft_cpu_op_scale;
    case GRAFT_OP_CONCAT:
        return &graft_cpu_op_concat;
    case GRAFT_OP_COPY:
        return &graft_cpu_op_copy;
    case GRAFT_OP_UPSAMPLE:
        return &graft_cpu_op_upsample;
    case GRAFT_OP_EMBEDDING:
        return &graft_cpu_op_embedding;
    case GRAFT_OP_TIMESTEP:
        return &graft_cpu_op_timestep;
    case GRAFT_OP_GEGLU:
        return &graft_cpu_op_geglu;
    case GRAFT_OP_GATHER_ROW:
        return &graft_cpu_op_gather_row;
    case GRAFT_OP_PRELU:
        return &graft_cpu_op_prelu;
    case GRAFT_OP_MEAN_SCALE:
        return &graft_cpu_op_mean_scale;
    case GRAFT_OP_LOW_SCALE:
        return &graft_cpu_op_low_scale;
    case GRAFT_OP_RMS_NORM:
        return &graft_cpu_op_rms_norm;
    case GRAFT_OP_JOIN:
        return &graft_cpu_op_join;
    case GRAFT_OP_ROPE:
        return &graft_cpu_op_rope;
    case GRAFT_OP_MATCH_TOKENS:
        return &graft_cpu_op_match_tokens;
    case GRAFT_OP_MERGE_TOKENS:
        return &graft_cpu_op_merge_tokens;
    case GRAFT_OP_SPREAD_TOKENS:
        return &graft_cpu_op_spread_tokens;
    case GRAFT_OP_ROUTE:
        return &graft_cpu_op_route;
    default:
        return NULL;
    }
}

static const graft_cpu_op *find(const graft_device *own, const graft_op_desc *d)
{
    const graft_op op = d->op;
    const bool weights = op == GRAFT_OP_CONV2D || op == GRAFT_OP_LINEAR;
    /* Integers are a permission for attention. */
    if (op == GRAFT_OP_ATTENTION && d->attrs.quant == GRAFT_QUANT_INT8)
        return &graft_cpu_op_attention;
    if (op == GRAFT_OP_LINEAR && graft_quant_blocks(d->attrs.quant))
        return &graft_cpu_op_dequantized;
    if (d->attrs.quant < 0 || d->attrs.quant > (weights ? GRAFT_QUANT_FP8 : GRAFT_QUANT_NONE))
        return NULL;
    bool bytes =
        graft_cpu_multiplies_bytes(op) || (op == GRAFT_OP_LINEAR && graft_cpu_panels_can(own));
    if (d->attrs.quant == GRAFT_QUANT_INT8 && bytes)
        return op == GRAFT_OP_LINEAR ? &graft_cpu_op_linear_int8 : &graft_cpu_op_conv2d_int8;
    if (d->attrs.quant != GRAFT_QUANT_NONE || graft_cpu_is_widened(own, d))
        return &graft_cpu_op_dequantized;
    return find_plain(op);
}

bool graft_cpu_has_tiles(const graft_device *d)
{
    return d->simd->product_bf16 && graft_cpu_has_matrix_unit() && graft_cpu_tiles_allowed();
}

void *graft_cpu_calloc(graft_device *d, size_t bytes)
{
    void *p = d->host.alloc(GRAFT_CPU_ALIGN, bytes ? bytes : 1);
    if (p) memset(p, 0, bytes);
    return p;
}

void graft_cpu_free(graft_device *d, void *p)
{
    if (p) d->host.free(p);
}

/* The brand string of the processor, as the system reports it. */
static void processor_name(char *out, size_t n)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    snprintf(out, n, "CPU");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, n, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (f) fclose(f);
}

/* What this process may have: the machine's memory, or less in a container (cgroups 2 and 1) or
 * under a limit. */
static uint64_t memory_total(void)
{
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t total = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0, most;
    struct rlimit r;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        FILE *f = fopen(limits[i], "r");
        if (f && fscanf(f, "%" SCNu64, &most) == 1 && most && (!total || most < total))
            total = most;
        if (f) fclose(f);
    }
    if (getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY &&
        (!total || r.rlim_cur < total))
        total = r.rlim_cur;
    return total;
}

static void describe(graft_device *d)
{
    graft_device_info *i = &d->info;
    const dnnl_version_t *v = dnnl_version();
    char name[80];
    i->size = sizeof *i;
    i->fast_bf16 = graft_cpu_multiplies_bf16();
    i->fast_int8 = graft_cpu_panels_can(d) || graft_cpu_uses(dnnl_cpu_isa_avx512_core_vnni) ||
                   graft_cpu_uses(dnnl_cpu_isa_avx2_vnni);
    i->alignment = GRAFT_CPU_ALIGN;
    i->host_memory = 1;
    processor_name(name, sizeof name);
    const bool tiles = graft_cpu_has_tiles(d);
    snprintf(i->name, sizeof i->name, "%s (%s%s)", name, graft_cpu_simd_features(),
             tiles ? ", AMX" : "");
    snprintf(i->identity, sizeof i->identity,
             "cpu %s%s isa %d threads %d onednn %d.%d.%d packing 2", d->simd->name,
             tiles ? " amx" : "", (int)dnnl_get_effective_cpu_isa(), (int)d->host.threads, v->major,
             v->minor, v->patch);
    i->memory_total = memory_total();
}

static graft_status create(const graft_kernels_host *host, int32_t index, graft_device **out,
                           char *text, uint64_t n)
{
    graft_status st = GRAFT_OK;
    graft_err e = GRAFT_ERR_INIT;
    graft_device *d = NULL;
    *out = NULL;
    if (!host || host->size < GRAFT_KERNELS_HOST_SIZE || index != 0) {
        st = graft_fail(&e, GRAFT_E_ARG, "the cpu library has one device and needs a host record");
        goto out;
    }
    d = host->alloc(GRAFT_CPU_ALIGN, sizeof *d);
    if (!d) {
        st = graft_fail_nomem(&e, "a device");
        goto out;
    }
    memset(d, 0, sizeof *d);
    memcpy(&d->host, host, host->size < sizeof d->host ? host->size : sizeof d->host);
    if (d->host.threads > omp_get_thread_limit()) d->host.threads = omp_get_thread_limit();
    if (d->host.threads < 1) d->host.threads = 1;
    d->simd = graft_cpu_simd_best(getenv("GRAFT_CPU_ISA")); /* for tests and comparisons */
    if (dnnl_engine_create(&d->engine, dnnl_cpu, 0) != dnnl_success) {
        st = graft_fail(&e, GRAFT_E_DEVICE, "oneDNN makes no CPU engine");
        goto out;
    }
    describe(d);
    *out = d;
out:
    if (st) {
        if (d) host->free(d);
        if (text && n) snprintf(text, n, "%s", e.text);
    }
    return st;
}

static void destroy(graft_device *d)
{
    if (!d) return;
    dnnl_engine_destroy(d->engine);
    d->host.free(d);
}

static graft_status info(graft_device *d, graft_device_info *out)
{
    if (!out || out->size < sizeof(uint32_t)) return GRAFT_E_ARG;
    uint32_t size = out->size;
    graft_device_info i = d->info;
    long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0) i.memory_free = (uint64_t)pages * (uint64_t)page;
    i.size = size < sizeof i ? size : (uint32_t)sizeof i;
    memcpy(out, &i, i.size);
    out->size = size;
    return GRAFT_OK;
}

#define HUGE_PAGE       ((size_t)2 << 20)
#define ROOM            ((size_t)32 << 20) /* for what is generated for one operator */
#define ROOM_PER_THREAD ((size_t)16 << 20) /* its stack, and the allocator's reserve with it */

static void *buffer_alloc(graft_device *d, uint64_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    if (bytes < HUGE_PAGE) return d->host.alloc(GRAFT_CPU_ALIGN, (size_t)bytes);
    void *p = d->host.alloc(HUGE_PAGE, (size_t)bytes);
    if (p) madvise(p, (size_t)bytes, MADV_HUGEPAGE); /* a hint: fewer page faults and TLB misses */
    return p;
}

static void buffer_free(graft_device *d, void *p)
{
    graft_cpu_free(d, p);
}

static graft_status transfer(graft_device *d, void *dst, const void *src, uint64_t bytes)
{
    (void)d;
    memcpy(dst, src, (size_t)bytes);
    return GRAFT_OK;
}

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    if (!op || op->size < sizeof *op)
        return graft_fail(e, GRAFT_E_ARG, "the operator's record is too short");
    if (!graft_op_desc_is_known(op))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "operator record has fields that this library does not know");
    const graft_cpu_op *type = find(d, op);
    if (!type)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "operator %d is not in the cpu library",
                          (int)op->op);
    int before = graft_cpu_threads_set(d->host.threads);
    graft_status st = type->check(d, op, e);
    graft_cpu_threads_set(before);
    return st;
}

static int32_t supports(graft_device *d, const graft_op_desc *op)
{
    return check(d, op, NULL) == GRAFT_OK;
}

static void release(graft_kernel *k)
{
    if (!k) return;
    graft_device *d = k->d;
    if (k->type->finish) k->type->finish(k);
    graft_cpu_free(d, k->state);
    graft_cpu_free(d, k);
}

/* oneDNN's code generators and OpenMP's thread starter end the process when memory is refused:
 * neither is asked while there is not clearly enough. */
static graft_status check_room(const graft_device *d, graft_err *e)
{
    size_t bytes = ROOM + (size_t)d->host.threads * ROOM_PER_THREAD;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return graft_fail_nomem(e, "compiling an operator");
    munmap(p, bytes);
    return GRAFT_OK;
}

static graft_status prepare(graft_device *d, const graft_op_desc *op, int32_t variant,
                            graft_kernel **out, graft_kernel_info *report, char *text, uint64_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_kernel *k = NULL;
    int before = omp_get_max_threads();
    *out = NULL;
    graft_status st = check(d, op, &e);
    if (!st && !(k = graft_cpu_calloc(d, sizeof *k))) st = graft_fail_nomem(&e, "a kernel");
    if (st) goto out;
    k->d = d;
    k->type = find(d, op);
    memcpy(&k->op, op, sizeof k->op);
    k->usual = graft_cpu_crowd_usual(op);
    k->info.variant_count = 1;
    snprintf(k->info.variant, sizeof k->info.variant, "%s", d->simd->name);
    if (k->type->init) {
        GRAFT_TRY(check_room(d, &e));
        graft_cpu_threads_set(d->host.threads);
        GRAFT_TRY(k->type->init(k, variant, &e));
    }
    if (variant >= k->info.variant_count) {
        st = graft_fail(&e, GRAFT_E_ARG, "variant %d of %d", (int)variant,
                        (int)k->info.variant_count);
        goto out;
    }
    if (report) {
        uint32_t size =
            report->size && report->size < sizeof *report ? report->size : (uint32_t)sizeof *report;
        k->info.size = size;
        memcpy(report, &k->info, size);
    }
    *out = k;
out:
    graft_cpu_threads_set(before);
    if (st) {
        release(k);
        if (text && n) snprintf(text, n, "%s", e.text);
    }
    return st;
}

static int is_packed_by_type(const graft_kernel *k, int32_t input)
{
    return k->type->pack &&
           k->info.packing[input] != graft_cpu_packing_dense(k->op.in[input].dtype);
}

static graft_status pack_input(graft_kernel *k, int32_t input, graft_dtype t, const void *src,
                               void *dst)
{
    if (input < 0 || input >= GRAFT_MAX_INPUTS || !k->info.packed_bytes[input]) return GRAFT_E_ARG;
    graft_quant quant = k->op.attrs.quant;
    bool ready = quant && t == graft_quant_dtype(quant) && input == GRAFT_LINEAR_W;
    if (!ready && !graft_cpu_is_float(t)) return GRAFT_E_UNSUPPORTED;
    const graft_tensor_desc *to = &k->op.in[input];
    if (is_packed_by_type(k, input)) return k->type->pack(k, input, t, src, dst);
    return graft_cpu_pack_dense(k->d, t, src, to->dtype, dst, graft_cpu_elements(to));
}

/* On this thread alone, which may be one that must not start a pool of its own. */
static graft_status pack(graft_kernel *k, int32_t input, graft_dtype t, const void *src, void *dst)
{
    int before = graft_cpu_threads_set(1);
    graft_status st = pack_input(k, input, t, src, dst);
    graft_cpu_threads_set(before);
    return st;
}

static graft_status pack_rows(graft_kernel *k, int32_t input, graft_dtype t, const void *src,
                              void *dst, int64_t first, int64_t rows)
{
    if (input < 0 || input >= GRAFT_MAX_INPUTS || !k->info.packed_bytes[input]) return GRAFT_E_ARG;
    const graft_tensor_desc *to = &k->op.in[input];
    if (first < 0 || rows < 0 || first > to->dim[0] - rows || first % GRAFT_PACK_ROWS)
        return GRAFT_E_ARG;
    if (!graft_cpu_is_float(t) || !k->pack_rows || !is_packed_by_type(k, input) ||
        k->op.attrs.quant != GRAFT_QUANT_NONE)
        return GRAFT_E_UNSUPPORTED;
    return k->pack_rows(k, input, t, src, dst, first, rows);
}

/* Small operators are not worth asking for. */
static graft_status launch_any(graft_kernel *k, const void *const *in, void *out, void *workspace,
                               graft_cpu_stop *stop)
{
    graft_device *d = k->d;
    int before = graft_cpu_threads_set(d->host.threads), levels = 0;
    bool small = k->usual < INT64_MAX && d->host.threads > 1;
    int64_t now = 0;
    bool alone = small && graft_cpu_crowd_alone(&d->crowd, &now);
    if (alone) levels = graft_cpu_alone_begin();
    bool asks = stop && k->launch_until && k->usual == INT64_MAX;
    graft_status st = asks ? k->launch_until(k, in, out, workspace, stop)
                           : k->type->launch(k, in, out, workspace);
    if (alone) graft_cpu_alone_end(levels);
    if (small && !alone) graft_cpu_crowd_ended(&d->crowd, k->usual, now);
    graft_cpu_threads_set(before);
    return st;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    return launch_any(k, in, out, workspace, NULL);
}

static graft_status launch_until(graft_kernel *k, const void *const *in, void *out, void *workspace,
                                 const graft_stop *ask)
{
    graft_cpu_stop stop = {.ask = ask};
    graft_status st = launch_any(k, in, out, workspace, &stop);
    return !st && atomic_load(&stop.stopped) ? GRAFT_E_CANCEL : st;
}

static int32_t inplace(graft_kernel *k, int32_t input)
{
    return k->type->inplace ? k->type->inplace(k, input) : 0;
}

static graft_status wait(graft_device *d, char *text, uint64_t n)
{
    (void)d;
    if (text && n) text[0] = '\0';
    return GRAFT_OK;
}

static int32_t score(void)
{
    return graft_cpu_simd_best(NULL) != graft_cpu_simd_best("plain") ? 100 : 10;
}

static int32_t device_count(void)
{
    return 1;
}

static const graft_kernels_api api = {
    .create = create,
    .destroy = destroy,
    .info = info,
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
    .wait = wait,
};

static const graft_kernels_more more = {
    .size = sizeof more,
    .pack_rows = pack_rows,
    .launch_until = launch_until,
    .wants = GRAFT_WANTS_HADAMARD | GRAFT_WANTS_BLOCKS,
};

GRAFT_KERNELS_EXPORT const graft_kernels graft_kernels_entry = {
    GRAFT_KERNELS_ABI_MAJOR,
    GRAFT_KERNELS_ABI_MINOR,
    "cpu",
    VERSION,
    score,
    device_count,
    &api,
    &more,
};
