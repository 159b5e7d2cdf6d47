/* The kernel-library ABI, version 1: how the engine uses graft_kernels_*.so.
 *
 * A library exports one constant, graft_kernels_entry, readable before any of its code runs. Growth
 * rules and thread tags are those of plugin/graft_plugin.h: records begin with their size, tables
 * of functions are frozen once released.
 *
 * The life of a kernel, four phases so that a new shape repacks no weights and new weights
 * recompile nothing: supports() says whether an operator can run; prepare() chooses and compiles;
 * pack() turns each constant input into the kernel's own layout, once per weight set; launch()
 * runs, allocates nothing, and does not fail for reasons of shape. */
#ifndef GRAFT_KERNELS_KERNEL_ABI_H
#define GRAFT_KERNELS_KERNEL_ABI_H
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "kernels/changes.h"
#include "kernels/guidance.h"
#include "kernels/op_desc.h"

#define GRAFT_KERNELS_ABI_MAJOR 1u
#define GRAFT_KERNELS_ABI_MINOR 14u
#define GRAFT_KERNELS_SYMBOL    "graft_kernels_entry"

/* What the engine lends to a library; outlives the device. [any] */
typedef struct graft_kernels_host {
    uint32_t size;
    int32_t threads;                            /* worker threads to use, at least 1 */
    void *(*alloc)(size_t align, size_t bytes); /* host memory for descriptors and the like */
    void (*free)(void *p);
    void (*log)(void *ctx, int32_t level, const char *text); /* may be NULL */
    void *log_ctx;
    /* What a library makes at a cost and can use again in another process, like compiled code: kept
     * on disk as long as there is room, under a key that names all that it depends on (device,
     * versions, shape). Only within prepare(), on any of its threads. NULL: nothing is kept; so it
     * is where `size` ends before. Since 1.3.
     *
     * read: *data is released with free() above; GRAFT_E_NOTFOUND when there is nothing whole. The
     * folder may be written by others: what is read is still checked. write: may be without effect;
     * takes the place of what was there. */
    graft_status (*kept_read)(void *ctx, const void *key, uint64_t key_bytes, void **data,
                              uint64_t *bytes);
    void (*kept_write)(void *ctx, const void *key, uint64_t key_bytes, const void *data,
                       uint64_t bytes);
    void *kept_ctx;
} graft_kernels_host;
/* Of a record as 1.0 had it, which is the least that a library may ask for. */
#define GRAFT_KERNELS_HOST_SIZE offsetof(graft_kernels_host, kept_read)

typedef struct graft_device graft_device; /* the library's: one per create() */
typedef struct graft_kernel graft_kernel; /* the library's: one per prepare() */

typedef struct graft_device_info {
    uint32_t size;
    char name[128];     /* "AMD EPYC (AVX-512, VNNI, BF16)" */
    char identity[128]; /* goes into cache keys: device, instruction set, library versions */
    uint64_t memory_total, memory_free;     /* bytes; 0: not known */
    uint32_t alignment;                     /* of every buffer, bytes */
    int32_t host_memory;                    /* 1: buffers are ordinary memory */
    int32_t fast_bf16, fast_f16, fast_int8; /* 1: has instructions that make it faster than f32 */
    uint32_t zero;
    uint64_t cache_bytes; /* of the cache in front of its own memory; 0: not known. Since 1.6 */
} graft_device_info;

/* What prepare() found out. */
typedef struct graft_kernel_info {
    uint32_t size;
    /* Bit i: variant i may take long to prepare, seconds rather than moments: for tuning that has
     * the time. The last ones. Since 1.6, 0 before. */
    uint32_t slow;
    uint64_t workspace_bytes;
    /* Per constant input: bytes that pack() writes, and a number that names the layout: equal
     * numbers (from one library version) mean equal bytes for equal source values, whatever the
     * operator or activation shape. 0 bytes: the input is not used in packed form (absent or not
     * constant). */
    uint64_t packed_bytes[GRAFT_MAX_INPUTS];
    uint64_t packing[GRAFT_MAX_INPUTS];
    char variant[64];                     /* "dnnl jit:avx512_core bf16", for reports */
    int32_t variant_index, variant_count; /* choices for tuning: 0 <= index < count */
} graft_kernel_info;

typedef struct graft_kernels_api { /* the table of a library; frozen */
    /* [main] `text` (n bytes) says why on failure. */
    graft_status (*create)(const graft_kernels_host *host, int32_t device_index, graft_device **out,
                           char *text, uint64_t n);
    void (*destroy)(graft_device *d); /* [main] after all kernels and buffers */
    graft_status (*info)(graft_device *d, graft_device_info *out); /* [any] reads out->size */

    /* Device buffers, aligned to info.alignment. [any] NULL when memory is short. */
    void *(*alloc)(graft_device *d, uint64_t bytes);
    void (*free)(graft_device *d, void *p);
    /* [any] Complete when they return. */
    graft_status (*upload)(graft_device *d, void *dst, const void *src, uint64_t bytes);
    graft_status (*download)(graft_device *d, void *dst, const void *src, uint64_t bytes);

    /* [any] 1 when prepare() would succeed, memory permitting. */
    int32_t (*supports)(graft_device *d, const graft_op_desc *op);
    /* [any] `variant`: -1 for the library's own choice, else an index below variant_count. The
     * descriptor is copied. `text` says why on failure. */
    graft_status (*prepare)(graft_device *d, const graft_op_desc *op, int32_t variant,
                            graft_kernel **out, graft_kernel_info *info, char *text, uint64_t n);
    void (*release)(graft_kernel *k); /* [any] NULL is fine */
    /* [any] dst: device buffer of packed_bytes[input]. src: host memory, dense in the desc's shape,
     * of any floating-point dtype: checkpoints store their weights as they like. The dtype that the
     * descriptor gives for a constant is F32, or F16 or BF16 when all values that pack() will see
     * are of that type's, which a library may make use of or not. GRAFT_Q8, GRAFT_QF8 and GRAFT_Q4,
     * at any alignment, are for the weights of operators with that quant; a library may answer
     * GRAFT_E_UNSUPPORTED, and gets floats. GRAFT_BLOCKS and a type likewise, but a library that
     * supports such an operator takes them; floats only for Q8_0, else GRAFT_E_UNSUPPORTED. `src`
     * is the caller's again on return. On the calling thread alone where buffers are ordinary
     * memory: the engine packs several weights at once. For other devices it packs one after the
     * other, and the library may have threads that copy. */
    graft_status (*pack)(graft_kernel *k, int32_t input, graft_dtype src_dtype, const void *src,
                         void *dst);
    /* [any] several launches of one kernel may run at once, each with its own workspace (NULL when
     * workspace_bytes is 0). in[i]: device pointer of the first element, or of the packed bytes of
     * a constant; NULL for absent inputs. out may be equal to in[i] only where inplace() said so.
     */
    graft_status (*launch)(graft_kernel *k, const void *const *in, void *out, void *workspace);
    /* [any] 1 when `out` may be the very buffer of input i, which may be larger than the result. */
    int32_t (*inplace)(graft_kernel *k, int32_t input);
    /* [any] Waits until every launch so far has finished; a device error is returned with its text,
     * and the device is not used again. */
    graft_status (*wait)(graft_device *d, char *text, uint64_t n);
} graft_kernels_api;

/* What a library may add (since 1.1). */
typedef struct graft_captured graft_captured; /* the library's: one per capture */
/* A low-rank term of a weight, as a LoRA has it: factor * up(rows,rank) down(rank,columns) is added
 * to rows first .. first + rows - 1 of its part. Floats in host memory, dense, at any alignment. */
typedef struct graft_low_rank {
    const void *up, *down;
    graft_dtype up_dtype, down_dtype;
    int64_t first, rows, rank;
    float factor;
    uint32_t zero;
} graft_low_rank;
/* Rows of a weight, and the terms that are added to them. */
typedef struct graft_weight_part {
    const void *src; /* device buffer: dense, in `dtype`, as upload() brought it there */
    int64_t rows;
    graft_dtype dtype;
    uint32_t n_terms;
    const graft_low_rank *term;
} graft_weight_part;

/* Whether a launch had better end: 1 from some moment on. */
typedef struct graft_stop {
    void *ctx;
    int32_t (*asked)(void *ctx);
} graft_stop;

typedef struct graft_fetch graft_fetch; /* the library's: one per fetch() */
typedef struct graft_marks graft_marks; /* the library's: one per marks_create() */
typedef struct graft_lane graft_lane;   /* the library's: one per lane_create() */

typedef struct graft_kernels_more {
    uint32_t size; /* grows at the end */
    uint32_t zero;
    /* [any] What is missing here, where it was looked for and what works without, a line a piece;
     * empty when nothing is. */
    void (*missing)(char *text, uint64_t n);
    /* [any] Launches of this thread from here to capture_end() are recorded, not run; meanwhile
     * other threads' calls wait, and this thread calls nothing but launch(). A capture is
     * worthwhile after one ordinary run of the same launches. NULL: no captures. */
    graft_status (*capture_begin)(graft_device *d);
    /* *out: NULL on failure, also when a launch failed meanwhile. */
    graft_status (*capture_end)(graft_device *d, graft_captured **out);
    /* [any] Runs what was recorded, with the same addresses. */
    graft_status (*replay)(graft_captured *c);
    void (*captured_free)(graft_captured *c); /* [any] NULL is fine */
    /* [any] As pack(), for rows first .. first + rows - 1 of the constant's first dimension; src is
     * the first of them. So weights can be packed while they are read, and need not lie in one
     * piece. All rows are given in order, on any one thread; first is a multiple of
     * GRAFT_PACK_ROWS. GRAFT_E_UNSUPPORTED at the first call: only pack() will do. NULL: it always
     * is. Since 1.2. */
    graft_status (*pack_rows)(graft_kernel *k, int32_t input, graft_dtype src_dtype,
                              const void *src, void *dst, int64_t first, int64_t rows);
    /* [any] As pack(), of a constant whose rows are those of the parts, in order, with their terms
     * added in float32: for each element and term, the sum over the rank from its first to its last
     * and then value + factor * sum, all by fused multiply-adds. So a LoRA of another strength
     * needs no weights from the host. The parts' memory may be freed when it returns.
     * GRAFT_E_UNSUPPORTED: pack() will do. NULL: it always is. Since 1.4. */
    graft_status (*pack_merged)(graft_kernel *k, int32_t input, const graft_weight_part *part,
                                uint32_t n_parts, void *dst);
    /* The arithmetic of samplers, on dense float32 arrays in device buffers. [any] All of these
     * come back at once, and happen in one order with launches; failures show in wait(). A library
     * has all of them or none. Since 1.4. */
    graft_status (*copy)(graft_device *d, void *dst, const void *src, uint64_t bytes);
    graft_status (*fill)(graft_device *d, float *out, uint64_t n, float value);
    /* out[i] = factor[0] * in[0][i] + factor[1] * in[1][i] …, 1 to 4 terms: products and sums are
     * rounded to double one by one, then to float. out may be one of the inputs. */
    graft_status (*mix)(graft_device *d, float *out, uint64_t n, uint32_t count,
                        const double *factor, const float *const *in);
    /* As kernels/guidance.h says. */
    graft_status (*guide)(graft_device *d, const graft_guidance *g);
    /* Begins to bring `bytes` to the host; 0 bytes: a mark of what came so far. fetched() waits for
     * this one; *data is good until fetch_free(), which takes NULL. */
    graft_status (*fetch)(graft_device *d, const void *src, uint64_t bytes, graft_fetch **out);
    graft_status (*fetched)(graft_fetch *f, const void **data);
    void (*fetch_free)(graft_fetch *f);
    /* [any] More of the same, of which a library has all or none, since 1.5. send: host to device;
     * src was read when it returns, which may wait for what was sent long before. */
    graft_status (*send)(graft_device *d, void *dst, const void *src, uint64_t bytes);
    graft_status (*blend)(graft_device *d, const graft_blend *b);
    graft_status (*rescale)(graft_device *d, const graft_rescale *r);
    /* [any] Memory of the device that a capture holds, as far as that can be told. Since 1.5. */
    uint64_t (*captured_bytes)(const graft_captured *c);
    uint32_t wants; /* GRAFT_WANTS_…: what graphs for this library may look like. Since 1.5. */
    uint32_t zero2;
    /* [any] Where time goes on a device that works on its own, by its own clock: n marks, at least
     * two, in the order of launches. mark: sets number `index` behind what was launched so far, not
     * while launches are recorded. marks_read: when all were set, in order; waits for the last;
     * seconds[i] is what passed from mark i to mark i + 1. A library has all of them or none. Since
     * 1.6. */
    graft_status (*marks_create)(graft_device *d, uint32_t n, graft_marks **out);
    graft_status (*mark)(graft_marks *m, uint32_t index);
    graft_status (*marks_read)(graft_marks *m, double *seconds);
    void (*marks_free)(graft_marks *m); /* NULL is fine */
    /* [any] 1 when a launch of k was refused by what the library itself builds on, so that
     * something else than info.variant did it, and will from then on. Results are right either way;
     * but what is timed then is not the variant. NULL: that never happens. Since 1.7. */
    int32_t (*stands_in)(graft_kernel *k);
    /* [any] As launch(), with the same bits; but a launch that takes long asks `stop`, on the
     * calling thread only, now and then, and after a 1 ends early with GRAFT_E_CANCEL and anything
     * in `out`. It may never ask. NULL: launch() has to do. Since 1.8. */
    graft_status (*launch_until)(graft_kernel *k, const void *const *in, void *out, void *workspace,
                                 const graft_stop *stop);
    /* [any] Weights that have no room on the device lie packed in memory of the host, and come
     * beside what is computed. A library has all of these or none. Since 1.10.
     * host_alloc: memory that the device reads by itself; NULL where there is none. host_free waits
     * until nothing launched so far reads it.
     * A lane has n loads, and is for one run at a time; a next one may begin while the device still
     * works. lane_load: begins to bring `bytes` from such memory to a place on the device, once all
     * that was launched so far is over, behind the lane's loads before it. lane_need: what is
     * launched from here on finds it there. Both come back at once, are recorded by captures, and
     * failures show in wait(). Each load of a run is needed before the run's last launch. */
    void *(*host_alloc)(graft_device *d, uint64_t bytes);
    void (*host_free)(graft_device *d, void *p);
    graft_status (*lane_create)(graft_device *d, uint32_t n, graft_lane **out);
    graft_status (*lane_load)(graft_lane *l, uint32_t index, void *dst, const void *src,
                              uint64_t bytes);
    graft_status (*lane_need)(graft_lane *l, uint32_t index);
    void (*lane_free)(graft_lane *l); /* NULL is fine */
    /* [any] More of a sampler's arithmetic, as kernels/guidance.h says, of which a library has all
     * or none, since 1.10. cut: `part` becomes that part of `whole`; weigh: adds `part`, weighted,
     * to `whole`, and the weights to `total`. */
    graft_status (*cut)(graft_device *d, const graft_excerpt *r);
    graft_status (*weigh)(graft_device *d, const graft_excerpt *r);
    graft_status (*mean)(graft_device *d, const graft_weighed *w);
    /* As kernels/changes.h says. */
    graft_status (*change)(graft_device *d, const graft_change *c);
} graft_kernels_more;
/* A channel_add that only a GROUP_NORM reads is that one's, and not the convolution's before it. */
#define GRAFT_WANTS_NORM_ADD 1u
/* It makes use of what the descriptor says of constants that need 16 bits only. Since 1.8. */
#define GRAFT_WANTS_NARROW_WEIGHTS 2u
/* A LAYER_NORM that one LINEAR of 8 bits alone reads is that one's, where the library supports it.
 * Since 1.8. */
#define GRAFT_WANTS_LINEAR_NORM 4u
/* It can multiply rows by a Hadamard matrix before it quantizes them (hadamard.h). Without it
 * weights are turned back, and quantized as those of other files. Since 1.12. */
#define GRAFT_WANTS_HADAMARD 8u
/* LINEAR's weights may be blocks (blocks.h), of all types that the library supports: of ggml's
 * since 1.13, of floats since 1.14. Without it they become floats. */
#define GRAFT_WANTS_BLOCKS 16u
/* Whether a record of this library has a field that came later, and not NULL. */
#define GRAFT_KERNELS_HAS(more, field)                                                             \
    ((more) && (more)->size >= offsetof(graft_kernels_more, field) + sizeof((more)->field) &&      \
     (more)->field)
#define GRAFT_PACK_ROWS 16

typedef struct graft_kernels { /* a constant */
    uint32_t abi_major, abi_minor;
    const char *name;    /* "ref", "cpu", "cuda" */
    const char *version; /* part of cache keys */
    /* [any] 0: cannot run on this machine. The library with the highest score is the default. */
    int32_t (*score)(void);
    int32_t (*device_count)(void);
    const graft_kernels_api *api;
    const graft_kernels_more *more; /* since 1.1; may be NULL */
} graft_kernels;

#if defined(__GNUC__)
#define GRAFT_KERNELS_EXPORT __attribute__((visibility("default")))
#else
#define GRAFT_KERNELS_EXPORT
#endif
extern GRAFT_KERNELS_EXPORT const graft_kernels graft_kernels_entry;
#endif
