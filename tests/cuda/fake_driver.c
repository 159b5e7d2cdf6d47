#include "tests/cuda/fake_driver.h"

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda/emulator.h"
#include "tests/cuda/fake_stream.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT fake_cuda_state fake_cuda = {.memory = (int64_t)4 << 30, .capability = 90, .devices = 1};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct block {
    void *p;
    int64_t bytes;
    bool mapped;
    struct block *next;
} block;

static block *blocks, *folded;     /* of the device; of the host, see fold() and hidden() */
static int sticky;                 /* as a real context: after an error nothing works any more */
static __thread CUcontext current; /* each thread has its own */

EXPORT int fake_cuda_refuses(void)
{
    if (fake_cuda.refuse_plans > 1) sticky = CUDA_ERROR_LAUNCH_FAILED;
    return fake_cuda.refuse_plans != 0;
}

int *fake_cuda_sticky(void)
{
    return &sticky;
}

EXPORT int fake_cuda_context(void)
{
    if (current) return 1;
    __atomic_fetch_add(&fake_cuda.misuse, 1, __ATOMIC_RELAXED);
    return 0;
}

CUresult fake_cuda_outside(void)
{
    return fake_cuda_context() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* ------------------------------------------------------------------ devices */

EXPORT CUresult cuInit(unsigned flags)
{
    const char *devices = getenv("FAKE_CUDA_DEVICES"), *capability = getenv("FAKE_CUDA_CAPABILITY");
    if (devices) fake_cuda.devices = atoi(devices);
    if (capability) fake_cuda.capability = atoi(capability);
    return flags               ? CUDA_ERROR_INVALID_VALUE
           : fake_cuda.devices ? CUDA_SUCCESS
                               : CUDA_ERROR_NO_DEVICE;
}

EXPORT CUresult cuDriverGetVersion(int *v)
{
    const char *version = getenv("FAKE_CUDA_VERSION");
    *v = version ? atoi(version) : 13000;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult r, const char **s)
{
    *s = r == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult r, const char **s)
{
    *s = r == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "made up";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *n)
{
    *n = fake_cuda.devices;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *d, int i)
{
    *d = i;
    return i < fake_cuda.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDeviceGetName(char *name, int n, CUdevice d)
{
    snprintf(name, (size_t)n, "Emulated GPU %d", d);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d)
{
    (void)d;
    if (a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        *v = fake_cuda.capability / 10;
    else if (a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        *v = fake_cuda.capability % 10;
    else if (a == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
        *v = fake_cuda.cache;
    else
        *v = 2; /* processors: few, so that small products use large tiles too */
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
    (void)d;
    *c = (CUcontext)&fake_cuda;
    fake_cuda.live_objects++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice d)
{
    (void)d;
    fake_cuda.live_objects--;
    sticky = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext c)
{
    if (c != (CUcontext)&fake_cuda) return CUDA_ERROR_INVALID_CONTEXT;
    current = c;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ memory */

EXPORT CUresult cuMemGetInfo(size_t *free_bytes, size_t *total)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    *total = (size_t)fake_cuda.memory;
    *free_bytes = (size_t)(fake_cuda.memory - fake_cuda.live_bytes);
    return sticky ? (CUresult)sticky : CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc(CUdeviceptr *p, size_t bytes)
{
    void *data = NULL;
    CUresult r = fake_stream_idle();
    if (r) return r;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if ((uint64_t)bytes > (uint64_t)(fake_cuda.memory - fake_cuda.live_bytes) ||
        (fake_cuda.largest && (uint64_t)bytes > (uint64_t)fake_cuda.largest))
        return CUDA_ERROR_OUT_OF_MEMORY;
    block *b = malloc(sizeof *b);
    const bool mapped = fake_cuda.skip_work;
    if (mapped)
        data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!b || data == MAP_FAILED || (!mapped && posix_memalign(&data, 256, bytes))) abort();
    if (!mapped) memset(data, 0xcd, bytes);
    pthread_mutex_lock(&lock);
    *b = (block){data, (int64_t)bytes, mapped, blocks};
    blocks = b;
    fake_cuda.live_blocks++;
    fake_cuda.live_bytes += (int64_t)bytes;
    if (fake_cuda.live_bytes > fake_cuda.peak_bytes) fake_cuda.peak_bytes = fake_cuda.live_bytes;
    pthread_mutex_unlock(&lock);
    *p = (CUdeviceptr)(uintptr_t)data;
    fake_cuda.allocs++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree(CUdeviceptr p)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    if (fake_stream_records()) fake_cuda.misuse++;
    if (fake_stream_busy() && !sticky)
        fake_cuda.misuse++; /* the driver would wait; nobody should rely on it */
    fake_stream_finish();
    fake_cuda.frees++;
    pthread_mutex_lock(&lock);
    for (block **at = &blocks; *at; at = &(*at)->next) {
        block *b = *at;
        if ((uintptr_t)b->p != p) continue;
        *at = b->next;
        fake_cuda.live_blocks--;
        fake_cuda.live_bytes -= b->bytes;
        if (b->mapped)
            munmap(b->p, (size_t)b->bytes);
        else
            free(b->p);
        free(b);
        r = CUDA_SUCCESS;
        break;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

/* Where nothing is computed, memory of the host that takes no room: every FOLD bytes of it are the
 * same ones. NULL: ordinary memory will do. */
static void *fold(size_t bytes)
{
    enum { FOLD = 1 << 20 };
    if (!fake_cuda.skip_work || bytes < FOLD) return NULL;
    const size_t whole = (bytes + FOLD - 1) / FOLD * FOLD;
    int fd = memfd_create("folded", 0);
    block *b = malloc(sizeof *b);
    uint8_t *p = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!b || fd < 0 || p == MAP_FAILED || ftruncate(fd, FOLD)) abort();
    for (size_t at = 0; at < whole; at += FOLD)
        if (mmap(p + at, FOLD, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
            abort();
    close(fd);
    *b = (block){p, (int64_t)whole, true, folded};
    folded = b;
    return p;
}

/* Memory of the host that hide() reaches. */
static void *hidden(size_t bytes)
{
    block *b = malloc(sizeof *b);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!b || p == MAP_FAILED) abort();
    *b = (block){p, (int64_t)bytes, true, folded};
    folded = b;
    return p;
}

static void hide(bool now)
{
    for (const block *b = folded; b && fake_cuda.hide_pinned; b = b->next)
        if (mprotect(b->p, (size_t)b->bytes, now ? PROT_NONE : PROT_READ | PROT_WRITE)) abort();
}

static bool unfold(const void *p)
{
    for (block **at = &folded; *at; at = &(*at)->next) {
        block *b = *at;
        if (b->p != p) continue;
        *at = b->next;
        munmap(b->p, (size_t)b->bytes);
        free(b);
        return true;
    }
    return false;
}

EXPORT CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    CUresult r = fake_stream_idle();
    if (r) return r;
    (void)flags;
    if (fake_cuda.fail_pinned == 1) return CUDA_ERROR_OUT_OF_MEMORY;
    if (fake_cuda.fail_pinned) fake_cuda.fail_pinned--;
    *p = fake_cuda.hide_pinned ? hidden(bytes) : fold(bytes);
    if (!*p) *p = malloc(bytes);
    fake_cuda.live_objects++;
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFreeHost(void *p)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    if (fake_stream_records()) fake_cuda.misuse++;
    if (!unfold(p)) free(p);
    fake_cuda.live_objects--;
    return CUDA_SUCCESS;
}

static CUresult copy(CUstream s, void *dst, const void *src, size_t n, uint64_t *count,
                     uint64_t *bytes)
{
    CUresult r = fake_stream_copy(s, dst, src, n);
    if (r) return r;
    ++*count;
    *bytes += n;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t n, CUstream s)
{
    return copy(s, (void *)(uintptr_t)dst, src, n, &fake_cuda.uploads, &fake_cuda.upload_bytes);
}

EXPORT CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t n, CUstream s)
{
    return copy(s, dst, (const void *)(uintptr_t)src, n, &fake_cuda.downloads,
                &fake_cuda.download_bytes);
}

EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s)
{
    return copy(s, (void *)(uintptr_t)dst, (const void *)(uintptr_t)src, n, &fake_cuda.copies,
                &fake_cuda.copy_bytes);
}

/* ------------------------------------------------------------------ kernels */

EXPORT CUresult cuModuleLoadData(CUmodule *m, const void *image)
{
    CUresult r = fake_stream_idle();
    if (r) return r;
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic != 0xba55ed50u) return CUDA_ERROR_INVALID_IMAGE; /* of a fat binary */
    *m = (CUmodule)malloc(1);
    fake_cuda.live_objects++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule m)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    free(m);
    fake_cuda.live_objects--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    (void)m;
    for (const emulated_kernel *k = emulated_kernels; k->name; k++) {
        if (strcmp(k->name, name) != 0) continue;
        *f = (CUfunction)(uintptr_t)k;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

static unsigned shared_limit[512]; /* of each kernel: what was asked for beyond the usual */
enum { USUAL_SHARED = 48 << 10 };

EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int value)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    const emulated_kernel *kernel = (const emulated_kernel *)(uintptr_t)f;
    if (a != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value > (fake_cuda.capability >= 90 ? 227 << 10 : 163 << 10))
        return CUDA_ERROR_INVALID_VALUE;
    shared_limit[kernel - emulated_kernels] = (unsigned)value;
    return CUDA_SUCCESS;
}

static void play(const void *what)
{
    const fake_work *n = what;
    if (n->threads)
        emulator_launch(n->run, n->args, n->grid, n->threads, n->shared);
    else
        n->run(n->args);
}

void fake_cuda_run(const fake_work *n)
{
    pthread_mutex_lock(&lock);
    hide(!n->copies);
    play(n);
    hide(false);
    pthread_mutex_unlock(&lock);
}

void fake_cuda_run_overlapped(const fake_work *n, const fake_work *next)
{
    pthread_mutex_lock(&lock);
    hide(true);
    emulator_begin_early(play, n);
    play(next);
    hide(false);
    fake_cuda.overlapped++;
    pthread_mutex_unlock(&lock);
}

static size_t args_of(const char *name);

EXPORT int fake_cuda_enqueue(void (*f)(const void *), const void *args, unsigned long bytes)
{
    fake_work n = {.run = f};
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    if (sticky) return sticky;
    if (bytes > sizeof n.args) abort();
    memcpy(n.args, args, bytes);
    return (int)fake_stream_launch(&n);
}

static CUresult launch(const CUlaunchConfig *c, CUfunction f, void **args, void **extra, bool early)
{
    const emulated_kernel *kernel = (const emulated_kernel *)(uintptr_t)f;
    unsigned gx = c->gridDimX, gy = c->gridDimY, gz = c->gridDimZ, shared = c->sharedMemBytes;
    fake_work n = {.run = kernel->run,
                   .grid = {gx, gy, gz},
                   .threads = c->blockDimX,
                   .shared = shared,
                   .early = early};
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    if (sticky) return (CUresult)sticky;
    if (c->blockDimY != 1 || c->blockDimZ != 1 ||
        (shared > USUAL_SHARED && shared > shared_limit[kernel - emulated_kernels]) || extra ||
        !gx || !gy || !gz || gy > 65535 || gz > 65535 || gx > 0x7fffffffu)
        return CUDA_ERROR_INVALID_VALUE;
    const char *fault = getenv("FAKE_CUDA_FAULT"), *hang = getenv("FAKE_CUDA_HANG");
    if (hang && strncmp(kernel->name, hang, strlen(hang)) == 0) pause();
    bool faults = fault && strncmp(kernel->name, fault, strlen(fault)) == 0;
    if (faults || (fake_cuda.fail_launch && --fake_cuda.fail_launch == 0)) {
        sticky = CUDA_ERROR_LAUNCH_FAILED;
        return CUDA_ERROR_LAUNCH_FAILED;
    }
    if (args_of(kernel->name) > sizeof n.args) abort();
    memcpy(n.args, args[0], args_of(kernel->name));
    return fake_stream_launch(&n);
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                               unsigned by, unsigned bz, unsigned shared, CUstream s, void **args,
                               void **extra)
{
    const CUlaunchConfig c = {.gridDimX = gx,
                              .gridDimY = gy,
                              .gridDimZ = gz,
                              .blockDimX = bx,
                              .blockDimY = by,
                              .blockDimZ = bz,
                              .sharedMemBytes = shared,
                              .hStream = s};
    return launch(&c, f, args, extra, false);
}

_Static_assert(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION == 6 &&
                   sizeof(CUlaunchAttributeValue) == 64 && sizeof(CUlaunchAttribute) == 72,
               "as in the interface of drivers");

/* With the one attribute that is used, and only where it means something. */
EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **args, void **extra)
{
    const CUlaunchAttribute *a = c->attrs;
    if (c->numAttrs != 1 || a->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION ||
        a->value.programmaticStreamSerializationAllowed != 1 || fake_cuda.capability < 90) {
        fake_cuda.misuse++;
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (fake_cuda.refuse_early) return CUDA_ERROR_NOT_SUPPORTED;
    if (fake_cuda.fault_early || getenv("FAKE_CUDA_FAULT_EARLY")) sticky = CUDA_ERROR_LAUNCH_FAILED;
    if (++fake_cuda.early % 16 == 5 && fake_cuda.forget_early) return CUDA_SUCCESS;
    return launch(c, f, args, extra, true);
}

#include "kernels/cuda/gpu/params.h"
#include "kernels/changes.h"

static size_t args_of(const char *name)
{
    static const struct {
        const char *start;
        size_t bytes;
    } table[] = {{"graft_move", sizeof(graft_cuda_move)},
                 {"graft_unfold", sizeof(graft_cuda_unfold)},
                 {"graft_rows", sizeof(graft_cuda_rows)},
                 {"graft_pack", sizeof(graft_cuda_pack)},
                 {"graft_norm_rows", sizeof(graft_cuda_normed_rows)},
                 {"graft_turn_", sizeof(graft_cuda_turned_rows)},
                 {"graft_corners", sizeof(graft_cuda_corners)},
                 {"graft_widen", sizeof(graft_cuda_widen)},
                 {"graft_mix", sizeof(graft_cuda_mix)},
                 {"graft_guide", sizeof(graft_guidance)},
                 {"graft_blend", sizeof(graft_blend)},
                 {"graft_rescale", sizeof(graft_rescale)},
                 {"graft_excerpt", sizeof(graft_excerpt)},
                 {"graft_weighed", sizeof(graft_weighed)},
                 {"graft_change", sizeof(graft_change)},
                 {"graft_merge", sizeof(graft_cuda_merge)},
                 {"graft_elementwise", sizeof(graft_cuda_elementwise)},
                 {"graft_pairs", sizeof(graft_cuda_pairs)},
                 {"graft_acts", sizeof(graft_cuda_acts)},
                 {"graft_gate", sizeof(graft_cuda_gate)},
                 {"graft_timestep", sizeof(graft_cuda_timestep)},
                 {"graft_layer_norm", sizeof(graft_cuda_layer_norm)},
                 {"graft_rms_norm", sizeof(graft_cuda_rms_norm)},
                 {"graft_rope", sizeof(graft_cuda_rope)},
                 {"graft_route", sizeof(graft_cuda_route)},
                 {"graft_tokens", sizeof(graft_cuda_tokens)},
                 {"graft_group", sizeof(graft_cuda_group_norm)},
                 {"graft_mean", sizeof(graft_cuda_mean)},
                 {"graft_wave", sizeof(graft_cuda_wave)},
                 {"graft_matmul", sizeof(graft_cuda_matmul)},
                 {"graft_attention", sizeof(graft_cuda_attention)},
                 {"graft_wgmma", sizeof(graft_cuda_wgmma)},
                 {"graft_shares", sizeof(graft_cuda_shares)},
                 {"graft_flash_hopper", sizeof(graft_cuda_flash)},
                 {"graft_flash", sizeof(graft_cuda_attention)},
                 {"graft_int8", sizeof(graft_cuda_int8)},
                 {"graft_fp8", sizeof(graft_cuda_int8)},
                 {"graft_quant4", sizeof(graft_cuda_quant4)},
                 {"graft_block", sizeof(graft_cuda_block)},
                 {"graft_quant_rows", sizeof(graft_cuda_quant_rows)},
                 {"graft_quant_weights", sizeof(graft_cuda_quant_weights)},
                 {"graft_quant_", sizeof(graft_cuda_quant_pictures)}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strncmp(name, table[i].start, strlen(table[i].start)) == 0) return table[i].bytes;
    abort();
}
