/* Files of random weights: a list of tensors, written as safetensors. */
#ifndef GRAFT_BENCH_MODEL_FILE_H
#define GRAFT_BENCH_MODEL_FILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/op_desc.h"
#include "base/error.h"

typedef struct model_tensor {
    char *name;
    int rank;
    int64_t dim[GRAFT_MAX_RANK + 1]; /* kernels over several pictures have one more */
    float mean, spread;
    bool index; /* I64 0, 1, 2, … instead of weights */
} model_tensor;

typedef struct model_list {
    model_tensor *at;
    size_t n, cap;
} model_list;

typedef struct model_file {
    const char *path;
    graft_dtype dtype;
    uint64_t seed;
    bool zeros;             /* in place of random weights; they take no room on the disk */
    const char *config;     /* __metadata__.config, or NULL */
    const char *model_type; /* likewise */
} model_file;

int64_t model_tensor_count(const model_tensor *t); /* of its values */
/* A tensor's values depend on seed and name only. The file has its name once it is whole. */
graft_status model_file_write(const model_file *o, const model_list *l, graft_err *e);
#endif
