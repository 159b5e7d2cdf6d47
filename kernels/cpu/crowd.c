#include "kernels/cpu/crowd.h"

#include <time.h>

#define MS           1000000
#define SMALL        (4 * (int64_t)MS)
#define LATE         MS /* beyond what is usual: a thread did not run */
#define LEAST_PAUSE  (4 * (int64_t)MS)
#define MOST_PAUSE   (1000 * (int64_t)MS)
#define FLOP_PER_NS  10
#define BYTES_PER_NS 1

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

static double elements(const graft_tensor_desc *t)
{
    double n = 1;
    for (int i = 0; i < t->rank; i++) n *= (double)t->dim[i];
    return n;
}

static double flop_of(const graft_op_desc *op)
{
    const graft_tensor_desc *w = &op->in[1], *y = &op->out; /* w: keys with ATTENTION */
    switch (op->op) {
    case GRAFT_OP_CONV2D:
    case GRAFT_OP_LINEAR:
        return 2 * elements(y) * elements(w) / (double)w->dim[0];
    case GRAFT_OP_ATTENTION:
        return 4 * elements(y) * (double)w->dim[1];
    default:
        return 0;
    }
}

int64_t graft_cpu_crowd_usual(const graft_op_desc *op)
{
    double bytes = elements(&op->out) * 4;
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++)
        if (op->in[i].rank > 0) bytes += elements(&op->in[i]) * 4;
    double ns = flop_of(op) / FLOP_PER_NS + bytes / BYTES_PER_NS;
    return ns < (double)SMALL ? (int64_t)ns : INT64_MAX;
}

bool graft_cpu_crowd_alone(graft_cpu_crowd *c, int64_t *now)
{
    *now = now_ns();
    return *now < atomic_load_explicit(&c->until, memory_order_relaxed);
}

void graft_cpu_crowd_ended(graft_cpu_crowd *c, int64_t usual, int64_t since)
{
    int64_t now = now_ns();
    if (now - since < usual + LATE) return;
    int64_t pause = atomic_load_explicit(&c->pause, memory_order_relaxed);
    int64_t until = atomic_load_explicit(&c->until, memory_order_relaxed);
    /* Soon after the last pause: that was too short. */
    pause = now - until < 4 * pause ? 2 * pause : LEAST_PAUSE;
    if (pause < LEAST_PAUSE) pause = LEAST_PAUSE;
    if (pause > MOST_PAUSE) pause = MOST_PAUSE;
    atomic_store_explicit(&c->pause, pause, memory_order_relaxed);
    atomic_store_explicit(&c->until, now + pause, memory_order_relaxed);
}
