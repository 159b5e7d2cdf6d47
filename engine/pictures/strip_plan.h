/* How a half of a VAE runs within a memory budget and still gives what it gives in one piece.
 *
 * The half is cut into segments. Between two segments one tensor is kept whole; within a segment
 * everything is computed strip by strip, each strip with as many rows around it as the convolutions
 * look at. Group norms need the statistics of the whole picture: for each of them the strips are
 * gone through once up to the norm, and once more to the segment's end. So memory is bought with
 * time, and the plan is the fastest one that fits: the longer a segment, the fewer tensors are
 * kept, and the more is computed again. Attention sees all pixels: units with it run in one piece.
 */
#ifndef GRAFT_PICTURES_STRIP_PLAN_H
#define GRAFT_PICTURES_STRIP_PLAN_H
#include "engine/objects/objects.h"

typedef struct graft_strip_segment {
    int32_t first, end;    /* units */
    int64_t height, width; /* of its input */
    int64_t rows;          /* of the input that are read at once; height: in one piece */
    int64_t step, halo;    /* rows that one strip adds to the result; rows that it needs around */
    int64_t bytes;         /* what running it takes, all that is kept meanwhile included */
    int64_t weight_bytes;  /* of these: packed weights */
    int64_t arena_bytes;   /* of these: activations and workspaces */
    int64_t strip_bytes;   /* the most that a part gives for one strip; 0: in one piece */
} graft_strip_segment;

/* (height, width, channels) */
typedef struct graft_strip_tensor {
    int64_t height, width, channels;
    graft_dtype dtype;
} graft_strip_tensor;
static inline int64_t graft_strip_row_bytes(const graft_strip_tensor *t)
{
    return t->width * t->channels * (int64_t)graft_dtype_size(t->dtype);
}

typedef struct graft_strip_plan {
    graft_vae_half half;
    bool decoder;
    graft_dtype act_dtype;
    bool keep_packs; /* there is room for the packed weights of all segments at once */
    size_t n;
    graft_strip_segment segment[GRAFT_VAE_MAX_UNITS];
} graft_strip_plan;

static inline bool graft_strip_whole(const graft_strip_segment *s)
{
    return s->rows >= s->height;
}

/* height and width: of the latent for the decoder, of the picture otherwise. GRAFT_E_LIMIT, with
 * the smallest budget that would do, when nothing fits into VAE's max_memory_mb or GRAFT_MEMORY_MB.
 * What counts: packed weights, arena, and on devices whose memory is the host's the tensors that
 * are kept. Compiles the parts that come into question. */
graft_status graft_strip_plan_make(const graft_vae *v, bool decoder, int64_t height, int64_t width,
                                   const graft_task *task, graft_strip_plan *out, graft_err *e);

/* The part of a segment up to group norm `stop` of it, or to its end with -1. */
graft_vae_part graft_strip_part(const graft_strip_plan *p, const graft_strip_segment *s,
                                int32_t stop);
/* What that part gives for `rows` rows of input. */
graft_strip_tensor graft_strip_output(const graft_strip_plan *p, const graft_strip_segment *s,
                                      int32_t stop, int64_t rows);
/* What the segment reads, whole. */
graft_strip_tensor graft_strip_input(const graft_strip_plan *p, const graft_strip_segment *s);
/* Group norms of the segment whose statistics must be found; none in one piece. */
int32_t graft_strip_norms(const graft_strip_plan *p, const graft_strip_segment *s);
/* Whether norm `stop` reads the segment's very input, which no run has to make. */
bool graft_strip_reads_input(const graft_strip_plan *p, const graft_strip_segment *s, int32_t stop);

/* The task without its reports: many small parts are compiled, which is no progress of the run. */
static inline graft_task graft_strip_quiet(const graft_task *task)
{
    graft_task quiet = {0};
    if (!task) return quiet;
    quiet.ctx = task->ctx;
    quiet.cancelled = task->cancelled;
    quiet.log = task->log;
    return quiet;
}
/* Compiles (or finds) a part; tuning is left out: a strip is small, and there are many. */
graft_status graft_strip_compile(const graft_vae *v, const graft_vae_part *part,
                                 const graft_task *task, graft_exe **out, graft_err *e);
graft_status graft_strip_bind(const graft_vae *v, const graft_vae_part *part,
                              const graft_task *task, graft_binding **out, graft_err *e);
#endif
