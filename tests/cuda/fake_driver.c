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

#define EXPORT __attribute__((visibility("default")))

EXPORT fake_cuda_state fake_cuda = {.memory = (int64_t)4 << 30, .capability = 90, .devices = 1};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct node { /* a recorded launch */
    void (*run)(const void *);
    uint32_t grid[3], threads, shared; /* 0 threads: no kernel but a call */
    bool early;                        /* may begin before the kernel ahead has ended */
    char args[1024];
    struct node *next;
} node;

typedef struct graph {
    node *first, **end;
    int64_t bytes; /* of the device */
} graph;

typedef struct block {
    void *p;
    int64_t bytes;
    bool mapped;
    struct block *next;
} block;

static block *blocks;
static graph *recording;           /* one stream records at a time */
static int sticky;                 /* as a real context: after an error nothing works any more */
static bool broken;                /* what is recorded: something that cannot be was tried */
static __thread CUcontext current; /* each thread has its own */

/* Big enough for all structs of arguments; the kernels copy what they need from it. */
static const size_t args_bytes = sizeof((node *)0)->args;

/* Work that was handed over and not done: with fake_cuda.lazy everything waits until someone waits
 * for it, so that a wait that is missing shows. Its users hold the device's lock. */
static node *queue, **queue_end = &queue;
static uint64_t queued, done; /* ever */
static uint64_t handed;       /* kernels and copies that the stream was given, ever: its clock */

static void run(const node *n);
static void run_overlapped(const node *n, const node *next);
static void copy_now(const void *args);

static node *take(void)
{
    node *n = queue;
    queue = n->next;
    if (!queue) queue_end = &queue;
    done++;
    return n;
}

/* A kernel that may begin before the one ahead has ended does so: pairs of them, which begin at
 * other places each time. */
static void work_until(uint64_t number)
{
    static uint64_t turn;
    while (queue && done < number) {
        node *n = take();
        if (queue && done < number && queue->early && n->run != copy_now && turn++ % 3) {
            node *next = take();
            run_overlapped(n, next);
            free(next);
        } else {
            run(n);
        }
        free(n);
    }
}

static void hand_over(const node *n)
{
    handed++;
    if (fake_cuda.skip_work) return;
    if (!fake_cuda.lazy) {
        run(n);
        return;
    }
    node *copy = malloc(sizeof *copy);
    if (!copy) abort();
    *copy = *n;
    copy->next = NULL;
    *queue_end = copy;
    queue_end = &copy->next;
    queued++;
}

EXPORT int fake_cuda_refuses(void)
{
    if (fake_cuda.refuse_plans > 1) sticky = CUDA_ERROR_LAUNCH_FAILED;
    return fake_cuda.refuse_plans != 0;
}

EXPORT int fake_cuda_context(void)
{
    if (current) return 1;
    __atomic_fetch_add(&fake_cuda.misuse, 1, __ATOMIC_RELAXED);
    return 0;
}

static CUresult with_context(void)
{
    return fake_cuda_context() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult not_while_recording(void)
{
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (sticky) return (CUresult)sticky;
    if (!recording) return CUDA_SUCCESS;
    fake_cuda.misuse++;
    broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
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
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    *total = (size_t)fake_cuda.memory;
    *free_bytes = (size_t)(fake_cuda.memory - fake_cuda.live_bytes);
    return sticky ? (CUresult)sticky : CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc(CUdeviceptr *p, size_t bytes)
{
    void *data = NULL;
    CUresult r = not_while_recording();
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
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    if (recording) fake_cuda.misuse++;
    if (queue && !sticky) fake_cuda.misuse++; /* the driver would wait; nobody should rely on it */
    work_until(UINT64_MAX);
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

EXPORT CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    CUresult r = not_while_recording();
    if (r) return r;
    (void)flags;
    *p = malloc(bytes);
    fake_cuda.live_objects++;
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFreeHost(void *p)
{
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (recording) fake_cuda.misuse++;
    free(p);
    fake_cuda.live_objects--;
    return CUDA_SUCCESS;
}

typedef struct copy_args {
    void *dst;
    const void *src;
    size_t n;
} copy_args;

static void copy_now(const void *args)
{
    copy_args a;
    memcpy(&a, args, sizeof a);
    memcpy(a.dst, a.src, a.n);
}

static CUresult copy(void *dst, const void *src, size_t n, uint64_t *count, uint64_t *bytes)
{
    node work = {.run = copy_now};
    CUresult r = not_while_recording();
    if (r) return r;
    memcpy(work.args, &(copy_args){dst, src, n}, sizeof(copy_args));
    hand_over(&work);
    ++*count;
    *bytes += n;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t n, CUstream s)
{
    (void)s;
    return copy((void *)(uintptr_t)dst, src, n, &fake_cuda.uploads, &fake_cuda.upload_bytes);
}

EXPORT CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t n, CUstream s)
{
    (void)s;
    return copy(dst, (const void *)(uintptr_t)src, n, &fake_cuda.downloads,
                &fake_cuda.download_bytes);
}

EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s)
{
    (void)s;
    return copy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, n, &fake_cuda.copies,
                &fake_cuda.copy_bytes);
}

/* ------------------------------------------------------------------ streams, events */

EXPORT CUresult cuStreamCreate(CUstream *s, unsigned flags)
{
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    (void)flags;
    *s = (CUstream)malloc(1);
    fake_cuda.live_objects++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy(CUstream s)
{
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    work_until(UINT64_MAX);
    free(s);
    fake_cuda.live_objects--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream s)
{
    (void)s;
    CUresult r = not_while_recording();
    fake_cuda.waits++;
    work_until(UINT64_MAX);
    if (!r && fake_cuda.fail_wait && --fake_cuda.fail_wait == 0) r = CUDA_ERROR_LAUNCH_FAILED;
    if (r == CUDA_ERROR_LAUNCH_FAILED) sticky = (int)r;
    return r;
}

typedef struct event {
    uint64_t before; /* how much work there was */
    uint64_t time;
    bool timed, set;
} event;

EXPORT CUresult cuEventCreate(CUevent *e, unsigned flags)
{
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    event *made = calloc(1, sizeof *made);
    if (!made) abort();
    made->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    *e = (CUevent)made;
    fake_cuda.live_objects++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy(CUevent e)
{
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    free(e);
    fake_cuda.live_objects--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent e, CUstream s)
{
    (void)s;
    CUresult r = not_while_recording();
    if (r) return r;
    *(event *)e = (event){queued, handed, ((event *)e)->timed, true};
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent e)
{
    CUresult r = not_while_recording();
    fake_cuda.event_waits++;
    work_until(((const event *)e)->before);
    if (!r && fake_cuda.fail_event && --fake_cuda.fail_event == 0) r = CUDA_ERROR_LAUNCH_FAILED;
    if (r == CUDA_ERROR_LAUNCH_FAILED) sticky = (int)r;
    return r;
}

EXPORT CUresult cuEventQuery(CUevent e)
{
    CUresult r = not_while_recording();
    if (r) return r;
    return done < ((const event *)e)->before ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/* A kernel takes a microsecond. */
EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    const event *a = (const event *)from, *b = (const event *)to;
    CUresult r = not_while_recording();
    if (r) return r;
    if (!a->timed || !b->timed || !a->set || !b->set) return CUDA_ERROR_INVALID_HANDLE;
    if (done < a->before || done < b->before) return CUDA_ERROR_NOT_READY;
    *ms = 1e-3f * (float)(b->time - a->time);
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ kernels */

EXPORT CUresult cuModuleLoadData(CUmodule *m, const void *image)
{
    CUresult r = not_while_recording();
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
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    free(m);
    fake_cuda.live_objects--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
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
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    const emulated_kernel *kernel = (const emulated_kernel *)(uintptr_t)f;
    if (a != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value > (fake_cuda.capability >= 90 ? 227 << 10 : 163 << 10))
        return CUDA_ERROR_INVALID_VALUE;
    shared_limit[kernel - emulated_kernels] = (unsigned)value;
    return CUDA_SUCCESS;
}

static void play(const void *what)
{
    const node *n = what;
    if (n->threads)
        emulator_launch(n->run, n->args, n->grid, n->threads, n->shared);
    else
        n->run(n->args);
}

static void run(const node *n)
{
    pthread_mutex_lock(&lock);
    play(n);
    pthread_mutex_unlock(&lock);
}

static void run_overlapped(const node *n, const node *next)
{
    pthread_mutex_lock(&lock);
    emulator_begin_early(play, n);
    play(next);
    fake_cuda.overlapped++;
    pthread_mutex_unlock(&lock);
}

static size_t args_of(const char *name);

static CUresult enqueue(const node *n)
{
    if (recording && fake_cuda.fail_record && --fake_cuda.fail_record == 0) broken = true;
    if (recording && broken) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (recording) {
        node *copy = malloc(sizeof *copy);
        if (!copy) abort();
        *copy = *n;
        *recording->end = copy;
        recording->end = &copy->next;
        fake_cuda.recorded++;
        return CUDA_SUCCESS;
    }
    fake_cuda.launches++;
    if (!fake_cuda.skip_launch || --fake_cuda.skip_launch) hand_over(n);
    return CUDA_SUCCESS;
}

EXPORT int fake_cuda_enqueue(void (*f)(const void *), const void *args, unsigned long bytes)
{
    node n = {.run = f};
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (sticky) return sticky;
    if (bytes > args_bytes) abort();
    memcpy(n.args, args, bytes);
    return (int)enqueue(&n);
}

static CUresult launch(const CUlaunchConfig *c, CUfunction f, void **args, void **extra, bool early)
{
    const emulated_kernel *kernel = (const emulated_kernel *)(uintptr_t)f;
    unsigned gx = c->gridDimX, gy = c->gridDimY, gz = c->gridDimZ, shared = c->sharedMemBytes;
    node n = {.run = kernel->run,
              .grid = {gx, gy, gz},
              .threads = c->blockDimX,
              .shared = shared,
              .early = early};
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
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
    if (args_of(kernel->name) > args_bytes) abort();
    memcpy(n.args, args[0], args_of(kernel->name));
    return enqueue(&n);
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
#include "kernels/guidance.h"

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
                 {"graft_corners", sizeof(graft_cuda_corners)},
                 {"graft_widen", sizeof(graft_cuda_widen)},
                 {"graft_mix", sizeof(graft_cuda_mix)},
                 {"graft_guide", sizeof(graft_guidance)},
                 {"graft_blend", sizeof(graft_blend)},
                 {"graft_rescale", sizeof(graft_rescale)},
                 {"graft_merge", sizeof(graft_cuda_merge)},
                 {"graft_elementwise", sizeof(graft_cuda_elementwise)},
                 {"graft_pairs", sizeof(graft_cuda_pairs)},
                 {"graft_acts", sizeof(graft_cuda_acts)},
                 {"graft_gate", sizeof(graft_cuda_gate)},
                 {"graft_timestep", sizeof(graft_cuda_timestep)},
                 {"graft_layer_norm", sizeof(graft_cuda_layer_norm)},
                 {"graft_rms_norm", sizeof(graft_cuda_rms_norm)},
                 {"graft_rope", sizeof(graft_cuda_rope)},
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
                 {"graft_quant_rows", sizeof(graft_cuda_quant_rows)},
                 {"graft_quant_weights", sizeof(graft_cuda_quant_weights)},
                 {"graft_quant_", sizeof(graft_cuda_quant_pictures)}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strncmp(name, table[i].start, strlen(table[i].start)) == 0) return table[i].bytes;
    abort();
}

/* ------------------------------------------------------------------ graphs */

EXPORT CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode mode)
{
    (void)s, (void)mode;
    CUresult r = not_while_recording();
    if (r) return r;
    recording = malloc(sizeof *recording);
    if (!recording) abort();
    recording->first = NULL;
    recording->end = &recording->first;
    recording->bytes = 0;
    broken = false;
    fake_cuda.live_objects++;
    fake_cuda.captures++;
    return CUDA_SUCCESS;
}

static CUresult graph_free(graph *g)
{
    while (g->first) {
        node *n = g->first;
        g->first = n->next;
        free(n);
    }
    fake_cuda.live_bytes -= g->bytes;
    free(g);
    fake_cuda.live_objects--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamEndCapture(CUstream s, CUgraph *out)
{
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    (void)s;
    if (!recording) return CUDA_ERROR_ILLEGAL_STATE;
    graph *g = recording;
    *g->end = NULL;
    recording = NULL;
    *out = broken ? NULL : (CUgraph)g;
    if (!broken) return CUDA_SUCCESS;
    graph_free(g);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph from,
                                            unsigned long long flags)
{
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    (void)flags;
    graph *g = malloc(sizeof *g), *source = (graph *)from;
    if (!g) abort();
    g->end = &g->first;
    g->bytes = 0;
    for (const node *n = source->first; n; n = n->next) {
        g->bytes += fake_cuda.node_bytes;
        node *copy = malloc(sizeof *copy);
        if (!copy) abort();
        *copy = *n;
        *g->end = copy;
        g->end = &copy->next;
    }
    *g->end = NULL;
    fake_cuda.live_objects++;
    fake_cuda.live_bytes += g->bytes;
    *out = (CUgraphExec)g;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphUpload(CUgraphExec g, CUstream s)
{
    (void)g, (void)s;
    return not_while_recording();
}

EXPORT CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *count)
{
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (nodes) return CUDA_ERROR_INVALID_VALUE;
    *count = 0;
    for (const node *n = ((graph *)g)->first; n; n = n->next) ++*count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroy(CUgraph g)
{
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    return graph_free((graph *)g);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec g)
{
    if (with_context()) return CUDA_ERROR_INVALID_CONTEXT;
    return graph_free((graph *)g);
}

EXPORT CUresult cuGraphLaunch(CUgraphExec g, CUstream s)
{
    (void)s;
    CUresult r = not_while_recording();
    if (r) return r;
    fake_cuda.replays++;
    for (const node *n = ((graph *)g)->first; n; n = n->next) hand_over(n);
    return CUDA_SUCCESS;
}
