#include "kernels/cpu/crowd.h"

#include "base/clock.h"
#include "kernels/cpu/desc.h"

#define MS           ((int64_t)1000000)
#define SMALL        (4 * MS)
#define LATE         MS /* beyond what is usual: a thread did not run */
#define LEAST_PAUSE  (4 * MS)
#define MOST_PAUSE   (1000 * MS)
#define FLOP_PER_NS  10
#define BYTES_PER_NS 1

/* In double: the products may be larger than any tensor. */
static double flop_of(const graft_op_desc *op)
{
    const graft_tensor_desc *w = &op->in[1], *y = &op->out; /* w: keys with ATTENTION */
    switch (op->op) {
    case GRAFT_OP_CONV2D:
    case GRAFT_OP_LINEAR:
        return 2.0 * (double)graft_cpu_rows(y) * (double)graft_cpu_elements(w);
    case GRAFT_OP_ATTENTION:
        return 4.0 * (double)graft_cpu_elements(y) * (double)w->dim[1];
    case GRAFT_OP_MATCH_TOKENS: /* three quarters of the tokens by the others */
        return 0.375 * (double)graft_cpu_elements(&op->in[0]) * (double)op->in[0].dim[1];
    default:
        return 0;
    }
}

int64_t graft_cpu_crowd_usual(const graft_op_desc *op)
{
    double values = (double)graft_cpu_elements(&op->out);
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++)
        if (graft_cpu_present(&op->in[i])) values += (double)graft_cpu_elements(&op->in[i]);
    double ns = flop_of(op) / FLOP_PER_NS + values * sizeof(float) / BYTES_PER_NS;
    return ns < (double)SMALL ? (int64_t)ns : INT64_MAX;
}

bool graft_cpu_crowd_alone(graft_cpu_crowd *c, int64_t *now)
{
    *now = graft_clock_ns();
    return *now < atomic_load_explicit(&c->until, memory_order_relaxed);
}

void graft_cpu_crowd_ended(graft_cpu_crowd *c, int64_t usual, int64_t since)
{
    int64_t now = graft_clock_ns();
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
