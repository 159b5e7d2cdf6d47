/* A matrix that a file stores as a product of smaller ones, as all forms of LoRA do. Any thread. */
#ifndef GRAFT_WEIGHTS_FACTORS_H
#define GRAFT_WEIGHTS_FACTORS_H
#include "engine/weights/weights.h"

/* The sizes of a (rows,rank) x b (rank,columns). With a core, b is (rank_b,in), and columns are in
 * * kernel; without, kernel is 1, also where b has a kernel's places among its columns. Of a whole
 * matrix rank is 0. */
typedef struct graft_factors_size {
    int64_t rows, columns, rank, rank_b, in, kernel;
} graft_factors_size;
/* False where they do not fit each other. */
bool graft_factors_size_of(const graft_factors *f, graft_factors_size *out);
/* b, or the core times b, as float32 (rank,columns): graft_free. NULL when out of memory. */
float *graft_factors_right(const graft_factors *f, const graft_factors_size *s);
/* All of it as float32 (rows,columns): graft_free. NULL when out of memory. */
float *graft_factors_whole(const graft_factors *f, const graft_factors_size *s);
/* The tensor's values as float32: graft_free. NULL when out of memory. */
float *graft_factors_values(const graft_st_tensor *t);
/* c (m,n) += f * a (m,k) b (k,n), row-major; sums in the order of k, fused where the processor can.
 */
void graft_add_product(float *c, const float *a, const float *b, int64_t m, int64_t k, int64_t n,
                       float f);
#endif
