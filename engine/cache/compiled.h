/* Compiled graphs by key, in memory: each is made once, however many callers ask at one time.
 *
 * The key names everything that could change the result: what is built (kind, architecture, shape,
 * precision), how (tuning, pass and format versions) and for what (backend, library version,
 * device). The graph's weights are no part of it. */
#ifndef GRAFT_CACHE_COMPILED_H
#define GRAFT_CACHE_COMPILED_H
#include "engine/disk/disk.h"
#include "engine/exec/exe.h"
#include "engine/exec/invariants.h"
#include "engine/exec/tune.h"
#include "engine/weights/weights.h"

typedef struct graft_compiled graft_compiled;

/* max_bytes: of graphs that nobody uses; the longest unused goes first. disk and tuner are
 * borrowed, disk may be NULL. */
graft_status graft_compiled_create(uint64_t max_bytes, graft_disk_cache *disk, graft_tuner *tuner,
                                   graft_compiled **out, graft_err *e);
void graft_compiled_destroy(graft_compiled *c);

typedef struct graft_compile_job {
    const char *kind; /* "unet", "vae_decoder", … */
    const void *arch; /* plain data without padding that differs */
    size_t arch_bytes;
    const void *shape; /* likewise */
    size_t shape_bytes;
    graft_backend *backend;
    graft_tuning tuning;
    bool use_disk;
    graft_steady steady;   /* of the graph's inputs, what may be the same in many runs */
    int64_t max_bytes;     /* of arena, workspace and packed weights; 0: no limit */
    int64_t beside_bytes;  /* of packed weights that others need at the same time */
    int64_t arena_bytes;   /* of activations of others that run in turn with it, at most */
    uint64_t behind_bytes; /* of weights that will be needed at the same time */
    bool part;             /* it will be among them: what it needs is not all that is needed */
    bool offload;          /* weights may stay in memory of the host (offload.h) */
    /* Linear layers stay packed as in these (quant/kept.h), which are the caller's; NULL: none. */
    const graft_weights *packed;
    graft_dtype narrow;     /* what all weights are in their files: F16, BF16; else NONE */
    int64_t resident_bytes; /* packed weights in memory now, which trials must leave room for */
    int64_t process_bytes;  /* that all may take together, trials, too; 0: no limit */
    /* Builds the graph as model code describes it; passes run afterwards. */
    graft_status (*build)(const void *arch, const void *shape, graft_graph **out, graft_err *e);
} graft_compile_job;

/* The key that the job has. */
graft_hash graft_compile_key(const graft_compile_job *job);
/* The compiled graph with one reference for the caller. GRAFT_E_LIMIT, with the smallest budget
 * that would do, when its arena and weights are over max_bytes; GRAFT_E_CANCEL soon after the task
 * is cancelled, also while another caller makes the graph. Any thread. */
graft_status graft_compiled_get(graft_compiled *c, const graft_compile_job *job,
                                const graft_task *task, graft_exe **out, graft_err *e);

/* All compiled graphs that are in memory now, each with a reference for the caller; free the array
 * with graft_compiled_list_free(). */
graft_status graft_compiled_list(graft_compiled *c, graft_exe ***out, size_t *n, graft_err *e);
void graft_compiled_list_free(graft_exe **list, size_t n);
/* What graft_exe.arch is for this architecture. */
graft_hash graft_compiled_arch(const void *arch, size_t bytes);

typedef struct graft_compiled_stats {
    uint64_t in_memory, hits, from_disk, built;
    double build_seconds; /* in all */
} graft_compiled_stats;
void graft_compiled_stats_get(graft_compiled *c, graft_compiled_stats *out);
#endif
