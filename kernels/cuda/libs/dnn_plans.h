/* Inside of dnn*.c: the plans of one shape, made by cuDNN's heuristics or restored from what an
 * earlier process kept. */
#ifndef GRAFT_KERNELS_CUDA_DNN_PLANS_H
#define GRAFT_KERNELS_CUDA_DNN_PLANS_H
#include "kernels/cuda/libs/dnn_graph.h"

enum { GRAFT_CUDA_DNN_PLANS = 4 }; /* of a shape, of which tuning chooses */

struct graft_cuda_dnn_plan {
    graft_cuda_dnn *dnn;
    graft_dnn_desc plan;
    int64_t engine, workspace;
    int64_t config; /* which of those that the heuristics propose it is */
    bool compiled;
    graft_cuda_request request; /* what it does */
    float scale;                /* of the scores; the plan reads it when it runs */
};

/* What plans came from: they may refer to it. */
typedef struct graft_dnn_source {
    graft_dnn_builder graph, heuristics;
} graft_dnn_source;

typedef struct graft_dnn_plans {
    graft_op_desc key;
    bool ready; /* false: a thread makes it, or one more plan, now */
    graft_dnn_source source[GRAFT_CUDA_DNN_PLANS];
    int32_t sources;
    int32_t count;   /* 0: cuDNN cannot do it */
    int32_t offered; /* count, and those that are made when they are asked for */
    graft_cuda_dnn_plan plan[GRAFT_CUDA_DNN_PLANS];
    struct graft_dnn_plans *next;
} graft_dnn_plans;

/* What one thread makes plans with. */
typedef struct graft_dnn_maker {
    graft_device *d;
    graft_cuda_dnn *dnn;
    const graft_dnn_table *f;
    cudnnHandle_t handle;      /* of this thread, and lives as long as its plans; or NULL */
    graft_dnn_desc properties; /* of the described device; NULL for a real one */
} graft_dnn_maker;

/* Fills the set of a zeroed record with key. count stays 0 when there is no plan. Of those that
 * have to be compiled the first is made; some more of an attention's are offered. */
void graft_dnn_plans_make(const graft_dnn_maker *m, graft_dnn_plans *set, graft_err *e);
/* One more plan, of those that are offered and not made; offered is count when there is none. */
void graft_dnn_plans_more(const graft_dnn_maker *m, graft_dnn_plans *set);
/* The same from disk. GRAFT_E_NOTFOUND when nothing is kept, GRAFT_E_FORMAT when cuDNN does not
 * take it or it makes no sense; the set is as before then. */
graft_status graft_dnn_plans_restore(const graft_dnn_maker *m, graft_dnn_plans *set);
void graft_dnn_plans_keep(const graft_dnn_maker *m, const graft_dnn_plans *set);
void graft_dnn_plans_finish(const graft_dnn_table *f, graft_dnn_plans *set);
#endif
