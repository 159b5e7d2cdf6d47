/* Inside of dnn*.c: cuDNN's functions, and descriptors made one after the other. */
#ifndef GRAFT_KERNELS_CUDA_DNN_GRAPH_H
#define GRAFT_KERNELS_CUDA_DNN_GRAPH_H
#include <cudnn.h>

#include "kernels/cuda/device/device.h"

#define GRAFT_DNN_FUNCTIONS(X)                                                                     \
    X(version, cudnnGetVersion)                                                                    \
    X(status_text, cudnnGetErrorString)                                                            \
    X(last_error, cudnnGetLastErrorString)                                                         \
    X(create, cudnnCreate)                                                                         \
    X(destroy, cudnnDestroy)                                                                       \
    X(set_stream, cudnnSetStream)                                                                  \
    X(make, cudnnBackendCreateDescriptor)                                                          \
    X(drop, cudnnBackendDestroyDescriptor)                                                         \
    X(set, cudnnBackendSetAttribute)                                                               \
    X(get, cudnnBackendGetAttribute)                                                               \
    X(finalize, cudnnBackendFinalize)                                                              \
    X(execute, cudnnBackendExecute)

typedef struct graft_dnn_table {
#define GRAFT_DNN_FIELD(field, function) __typeof__(&function) field;
    GRAFT_DNN_FUNCTIONS(GRAFT_DNN_FIELD)
#undef GRAFT_DNN_FIELD
} graft_dnn_table;

typedef cudnnBackendDescriptor_t graft_dnn_desc;

/* Descriptors that go together. After the first failure nothing more is done and `failed` says
 * what it was. */
typedef struct graft_dnn_builder {
    const graft_dnn_table *f;
    cudnnHandle_t handle; /* whose device graphs are for; NULL: of one that is only described */
    graft_dnn_desc made[96];
    int n;
    cudnnStatus_t status;
    char failed[200];
} graft_dnn_builder;

graft_dnn_desc graft_dnn_make(graft_dnn_builder *b, cudnnBackendDescriptorType_t type);
void graft_dnn_set(graft_dnn_builder *b, graft_dnn_desc d, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t n, const void *value);
void graft_dnn_set_one(graft_dnn_builder *b, graft_dnn_desc d, cudnnBackendAttributeName_t name,
                       graft_dnn_desc value);
void graft_dnn_finalize(graft_dnn_builder *b, graft_dnn_desc d, const char *what);
/* Destroys everything, whether it failed or not. */
void graft_dnn_finish(graft_dnn_builder *b);

/* Whether x and w are levels, with scales. */
static inline bool graft_dnn_of_levels(const graft_op_desc *op)
{
    return op->attrs.quant == GRAFT_QUANT_INT8 || op->attrs.quant == GRAFT_QUANT_FP8;
}
/* The operation graphs; NULL on failure. Tensor i of run()'s data has the number i + 1. */
graft_dnn_desc graft_dnn_conv_graph(graft_dnn_builder *b, const graft_op_desc *op);
graft_dnn_desc graft_dnn_attention_graph(graft_dnn_builder *b, const graft_op_desc *op);
#endif
