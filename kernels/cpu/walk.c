#include <string.h>

#include "kernels/cpu/cpu.h"

#define LAST (GRAFT_MAX_RANK - 1)
/* Elements of a row that one call gets: small enough to spread, large enough to hide the call. */
#define PIECE 8192

void graft_cpu_walk_init(graft_cpu_walk *w, const graft_tensor_desc *shape,
                         const graft_tensor_desc *const *tensor, int tensors)
{
    int to = LAST, started = 0; /* the dimension that is being filled */
    memset(w, 0, sizeof *w);
    w->tensors = tensors;
    for (int i = 0; i < GRAFT_MAX_RANK; i++) w->dim[i] = 1;
    for (int t = 0; t < tensors; t++) w->stride[t][LAST] = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        int64_t stride[GRAFT_CPU_WALKS] = {0};
        int join = started, row = 1;
        if (shape->dim[i] == 1) continue;
        for (int t = 0; t < tensors; t++) {
            int own = i - (shape->rank - tensor[t]->rank);
            if (own >= 0 && tensor[t]->dim[own] != 1) stride[t] = tensor[t]->stride[own];
            if (stride[t] != w->stride[t][to] * w->dim[to]) join = 0;
            if (stride[t] > 1) row = 0;
        }
        if (join) {
            w->dim[to] *= shape->dim[i];
            continue;
        }
        /* Rows are contiguous or broadcast; anything else gets rows of one element. */
        if (started || !row) to--;
        started = 1;
        w->dim[to] = shape->dim[i];
        for (int t = 0; t < tensors; t++) w->stride[t][to] = stride[t];
    }
}

typedef struct run {
    const graft_cpu_walk *w;
    void (*fn)(void *ctx, const int64_t *offset, int64_t n);
    void *ctx;
    int64_t pieces, total;
} run;

static void run_part(void *p, int part, int parts)
{
    const run *r = p;
    const graft_cpu_walk *w = r->w;
    int64_t end = r->total * (part + 1) / parts;
    for (int64_t i = r->total * part / parts; i < end; i++) {
        int64_t row = i / r->pieces, at = i % r->pieces * PIECE;
        int64_t c = row % w->dim[2], b = row / w->dim[2] % w->dim[1],
                a = row / w->dim[2] / w->dim[1];
        int64_t n = w->dim[LAST] - at < PIECE ? w->dim[LAST] - at : PIECE;
        int64_t offset[GRAFT_CPU_WALKS] = {0};
        for (int t = 0; t < w->tensors; t++)
            offset[t] = a * w->stride[t][0] + b * w->stride[t][1] + c * w->stride[t][2] +
                        at * w->stride[t][LAST];
        r->fn(r->ctx, offset, n);
    }
}

void graft_cpu_walk_run(const graft_cpu_walk *w, const graft_device *d,
                        void (*fn)(void *ctx, const int64_t *offset, int64_t n), void *ctx)
{
    int64_t rows = w->dim[0] * w->dim[1] * w->dim[2];
    run r = {w, fn, ctx, (w->dim[LAST] + PIECE - 1) / PIECE, 0};
    r.total = rows * r.pieces;
    graft_cpu_parallel(graft_cpu_threads(d, rows * w->dim[LAST]), run_part, &r);
}
