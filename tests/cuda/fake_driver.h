/* A driver without a device: libcuda.so.1 with the functions that the CUDA backend uses. Memory of
 * the device is memory of the host, kernels run on the emulator, streams (fake_stream.h) do
 * everything at once. */
#ifndef GRAFT_TESTS_CUDA_FAKE_DRIVER_H
#define GRAFT_TESTS_CUDA_FAKE_DRIVER_H
#include <stdint.h>

typedef struct emulated_kernel {
    const char *name;
    void (*run)(const void *args);
} emulated_kernel;
extern const emulated_kernel emulated_kernels[];

/* For other made-up libraries: `run` with a copy of `bytes` of args takes its place among the
 * launches, now or when the recording that goes on is repeated. */
int fake_cuda_enqueue(void (*run)(const void *), const void *args, unsigned long bytes);
/* Whether they refuse what they are asked to run. */
int fake_cuda_refuses(void);
/* Whether this thread has a context; it is noted as a misuse if not. */
int fake_cuda_context(void);

/* What a test can see and set; found by the symbol fake_cuda. */
typedef struct fake_cuda_state {
    uint64_t launches, replays, captures, recorded; /* recorded: launches into captures */
    int64_t live_blocks, live_bytes, live_objects;  /* memory; streams, events, graphs, … */
    int64_t memory, largest; /* bytes that may be live, and of one block; 0: no limit */
    int64_t peak_bytes;      /* that were live at most */
    int64_t node_bytes;      /* that each node of a graph takes once it can run */
    uint64_t uploads, upload_bytes, downloads, download_bytes; /* host to device, and back */
    uint64_t copies, copy_bytes;                               /* within the device */
    uint64_t waits, event_waits, allocs, frees;
    uint64_t early, overlapped; /* launches that may begin early, and those that did */
    int lazy;                   /* work is done when someone waits for it, and not before */
    int eager;     /* copies beside the launches are done as soon as they may, not as late as they
                    * must; 2: now and then one of them */
    int skip_work; /* nothing that is handed over is done, and memory is none until it is touched */
    int fail_launch; /* the n-th launch from now fails; 0: none */
    int fail_wait, fail_event;
    int fail_pinned;  /* from the n-th on allocations of pinned memory fail */
    int hide_pinned;  /* kernels that read pinned memory fault, which only copies shall do */
    int fail_record;  /* the n-th launch into a capture from now is refused, and the capture with it
                       */
    int skip_launch;  /* the n-th launch from now does nothing */
    int refuse_early; /* launches that may begin early are refused */
    int fault_early;  /* they fault */
    int forget_early; /* some of them do nothing */
    int misuse;       /* calls that are not allowed while a capture goes on, or without a context */
    int capability, devices;
    int cache;         /* bytes of its cache */
    int refuse_open;   /* the made-up cuBLASLt does not open, so many times */
    int refuse_plans;  /* the made-up cuDNN and cuBLASLt run none, 2: and the device fails */
    int refuse_sums;   /* the made-up cuBLASLt adds a bias in FP8, or a residual, but not both */
    int algorithms;    /* the made-up cuBLASLt proposes as many as it is asked for */
    int idle;          /* its algorithm of this number does nothing; 0: none */
    int slow_plans;    /* microseconds that the made-up cuDNN takes to make a plan */
    int fast_products; /* of the made-up cuBLASLt, in FP8 */
    int plans_made, plans_restored, heuristics; /* by the made-up cuDNN and cuBLASLt */
} fake_cuda_state;
extern fake_cuda_state fake_cuda;
#endif
