/* libcublasLt.so.13 without a device: the functions that the CUDA backend uses, products by loops.
 * Two algorithms, or as many as are asked for, which do the same, and as many for fast sums of FP8;
 * all but the first ask for a workspace and write to all of it. */
#include <cublasLt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fake_driver.h"
#include "tests/cuda/fake_value.h"

#define EXPORT __attribute__((visibility("default")))

enum { WORKSPACE = 4096 };

typedef struct layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t ld;
} layout;

typedef struct preference {
    size_t workspace;
    uint32_t align[4]; /* that a, b, c and d have at least */
} preference;

typedef struct matmul {
    cublasOperation_t a, b;
    cublasLtEpilogue_t epilogue;
    cudaDataType_t bias_type;
    const void *bias;
    int32_t a_mode, b_mode;
    int8_t fast;                    /* sums of levels that leave the tensor cores late */
    const float *a_scale, *b_scale; /* one for each of the product's rows and columns */
} matmul;

EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    if (!fake_cuda_context()) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (fake_cuda.refuse_open && fake_cuda.refuse_open--) return CUBLAS_STATUS_NOT_INITIALIZED;
    *h = malloc(1);
    return *h ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT size_t cublasLtGetVersion(void)
{
    return 130100;
}

EXPORT const char *cublasLtGetStatusString(cublasStatus_t s)
{
    return s ? "made up" : "success";
}

EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute,
                                               cudaDataType_t scale)
{
    matmul *m = calloc(1, sizeof *m);
    if (!m || compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) abort();
    m->bias_type = (cudaDataType_t)-1;
    m->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    *d = (cublasLtMatmulDesc_t)(void *)m;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    free(d);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                                     cublasLtMatmulDescAttributes_t name,
                                                     const void *value, size_t n)
{
    matmul *m = (matmul *)(void *)d;
    struct {
        cublasLtMatmulDescAttributes_t name;
        void *to;
        size_t bytes; /* as the header says */
    } known[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &m->a, sizeof(int32_t)},
                 {CUBLASLT_MATMUL_DESC_TRANSB, &m->b, sizeof(int32_t)},
                 {CUBLASLT_MATMUL_DESC_EPILOGUE, &m->epilogue, sizeof(uint32_t)},
                 {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &m->bias_type, sizeof(int32_t)},
                 {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &m->bias, sizeof(void *)},
                 {CUBLASLT_MATMUL_DESC_FAST_ACCUM, &m->fast, sizeof(int8_t)},
                 {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &m->a_mode, sizeof(int32_t)},
                 {CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &m->b_mode, sizeof(int32_t)},
                 {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &m->a_scale, sizeof(void *)},
                 {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &m->b_scale, sizeof(void *)}};
    size_t i = 0;
    while (i < sizeof known / sizeof *known && known[i].name != name) i++;
    if (i == sizeof known / sizeof *known) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (n != known[i].bytes) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(known[i].to, value, n);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t ld)
{
    layout *to = malloc(sizeof *to);
    if (!to) abort();
    *to = (layout){type, rows, columns, ld};
    *l = (cublasLtMatrixLayout_t)(void *)to;
    return ld >= (int64_t)rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    preference *to = malloc(sizeof *to);
    if (!to) abort();
    *to = (preference){.align = {256, 256, 256, 256}}; /* as the header says */
    *p = (cublasLtMatmulPreference_t)(void *)to;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t name, const void *value,
    size_t n)
{
    preference *to = (preference *)(void *)p;
    if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
        if (n != sizeof(uint64_t)) return CUBLAS_STATUS_INVALID_VALUE;
        memcpy(&to->workspace, value, n);
        return CUBLAS_STATUS_SUCCESS;
    }
    int which = (int)name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (which < 0 || which > 3) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (n != sizeof(uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&to->align[which], value, n);
    return CUBLAS_STATUS_SUCCESS;
}

/* Levels have scales, by rows and columns, and are a multiple of 16 bytes in each direction. Only
 * compute capability 9.0 has them, and their results are of 16 bits, as is the bias. */
static bool levels_fit(const matmul *m, const layout *a, const layout *b, const layout *y)
{
    if (a->type != CUDA_R_8F_E4M3)
        return !m->a_mode && !m->b_mode && !m->a_scale && !m->b_scale && !m->fast;
    return fake_cuda.capability == 90 && b->type == a->type && y->type != CUDA_R_32F &&
           m->a_mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F && m->b_mode == m->a_mode &&
           m->a_scale && m->b_scale && (uintptr_t)m->a_scale % 16 == 0 &&
           (uintptr_t)m->b_scale % 16 == 0 && a->rows % 16 == 0 && a->ld % 16 == 0 &&
           b->ld % 16 == 0 && y->rows % 16 == 0;
}

/* Only what the backend asks for: the first operand transposed, or, without a bias, as it is. */
static bool fits(const matmul *m, const layout *a, const layout *b, const layout *c,
                 const layout *y)
{
    bool bias = m->epilogue == CUBLASLT_EPILOGUE_BIAS, plain = m->a == CUBLAS_OP_N;
    if (plain && bias) return false;
    return m->b == CUBLAS_OP_N && b->rows == (plain ? a->columns : a->rows) &&
           y->rows == (plain ? a->rows : a->columns) && b->columns == y->columns &&
           c->rows == y->rows && c->columns == y->columns && c->type == y->type &&
           (bias ? m->bias && m->bias_type == y->type : m->epilogue == CUBLASLT_EPILOGUE_DEFAULT) &&
           levels_fit(m, a, b, y);
}

EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y, cublasLtMatmulPreference_t p, int most,
    cublasLtMatmulHeuristicResult_t *list, int *count)
{
    const preference *want = (const preference *)(const void *)p;
    (void)h;
    __atomic_fetch_add(&fake_cuda.heuristics, 1, __ATOMIC_RELAXED);
    *count = 0;
    if (!fake_cuda_context()) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!fits((const matmul *)(const void *)d, (const layout *)(const void *)a,
              (const layout *)(const void *)b, (const layout *)(const void *)c,
              (const layout *)(const void *)y))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *count = most < 2 || want->workspace < WORKSPACE ? 1 : fake_cuda.algorithms ? most : 2;
    for (int i = 0; i < *count; i++) {
        memset(&list[i], 0, sizeof list[i]);
        list[i].algo.data[0] = 77;
        list[i].algo.data[1] = (uint64_t)i;
        list[i].algo.data[3] = (uint64_t)((const matmul *)(const void *)d)->fast;
        for (int k = 0; k < 4; k++) list[i].algo.data[2] |= (uint64_t)want->align[k] << 16 * k;
        list[i].workspaceSize = i ? WORKSPACE : 0;
        list[i].state = CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y,
                                              const cublasLtMatmulAlgo_t *algo,
                                              cublasLtMatmulHeuristicResult_t *out)
{
    (void)h;
    if (algo->data[0] != 77 || (int)algo->data[3] != ((const matmul *)(const void *)d)->fast ||
        !fits((const matmul *)(const void *)d, (const layout *)(const void *)a,
              (const layout *)(const void *)b, (const layout *)(const void *)c,
              (const layout *)(const void *)y))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    out->algo = *algo;
    out->workspaceSize = algo->data[1] ? WORKSPACE : 0;
    return CUBLAS_STATUS_SUCCESS;
}

typedef struct product {
    matmul m;
    layout la, lb, lc, ld;
    const void *a, *b, *c;
    void *d, *workspace;
    float alpha, beta;
    uint64_t k, workspace_bytes;
} product;

static graft_dtype dtype_of(cudaDataType_t t)
{
    if (t == CUDA_R_8F_E4M3) return GRAFT_F8_E4M3;
    return t == CUDA_R_32F ? GRAFT_F32 : t == CUDA_R_16F ? GRAFT_F16 : GRAFT_BF16;
}

static void run(const void *args)
{
    product p;
    memcpy(&p, args, sizeof p);
    graft_dtype factor = dtype_of(p.la.type), t = dtype_of(p.ld.type);
    uint64_t rows = p.ld.rows;
    float *a = fake_alloc((int64_t)(rows * p.k), sizeof *a);
    float *b = fake_alloc((int64_t)p.k, sizeof *b), *sums = fake_alloc((int64_t)rows, sizeof *sums);
    if (p.workspace_bytes) memset(p.workspace, 0x11, p.workspace_bytes);
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t k = 0; k < p.k; k++)
            a[k * rows + i] = fake_load(factor, p.a,
                                        p.m.a == CUBLAS_OP_T ? (int64_t)k + (int64_t)i * p.la.ld
                                                             : (int64_t)i + (int64_t)k * p.la.ld);
    for (uint64_t j = 0; j < p.ld.columns; j++) {
        for (uint64_t k = 0; k < p.k; k++)
            b[k] = fake_load(factor, p.b, (int64_t)k + (int64_t)j * p.lb.ld);
        fake_sum_rows(sums, a, b, (int64_t)rows, (int64_t)p.k);
        for (uint64_t i = 0; i < rows; i++) {
            float sum = sums[i] * p.alpha;
            if (p.m.a_scale) sum *= p.m.a_scale[i] * p.m.b_scale[j];
            if (p.beta != 0) sum += p.beta * fake_load(t, p.c, (int64_t)i + (int64_t)j * p.lc.ld);
            if (p.m.epilogue == CUBLASLT_EPILOGUE_BIAS)
                sum += fake_load(dtype_of(p.m.bias_type), p.m.bias, (int64_t)i);
            fake_store(t, p.d, (int64_t)i + (int64_t)j * p.ld.ld, sum);
        }
    }
    free(a);
    free(b);
    free(sums);
}

/* All begin where the preference said, and the workspace at a multiple of 256. */
static bool aligned(const product *p, const cublasLtMatmulAlgo_t *algo)
{
    const void *const pointer[4] = {p->a, p->b, p->c, p->d};
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)pointer[i] % (algo->data[2] >> 16 * i & 0xffff)) return false;
    return (uintptr_t)p->workspace % 256 == 0;
}

EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha,
                                     const void *a, cublasLtMatrixLayout_t la, const void *b,
                                     cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                                     cublasLtMatrixLayout_t lc, void *y, cublasLtMatrixLayout_t ly,
                                     const cublasLtMatmulAlgo_t *algo, void *workspace,
                                     size_t workspace_bytes, cudaStream_t stream)
{
    product p = {.a = a, .b = b, .c = c, .d = y, .workspace = workspace};
    (void)h, (void)stream;
    memcpy(&p.m, d, sizeof p.m);
    memcpy(&p.la, la, sizeof p.la);
    memcpy(&p.lb, lb, sizeof p.lb);
    memcpy(&p.lc, lc, sizeof p.lc);
    memcpy(&p.ld, ly, sizeof p.ld);
    memcpy(&p.alpha, alpha, sizeof p.alpha);
    memcpy(&p.beta, beta, sizeof p.beta);
    p.k = p.lb.rows;
    p.workspace_bytes = workspace_bytes;
    bool good = fits(&p.m, &p.la, &p.lb, &p.lc, &p.ld) && algo->data[0] == 77 &&
                (int)algo->data[3] == p.m.fast && (!workspace_bytes || workspace) &&
                fake_cuda_context() && aligned(&p, algo);
    if (!good) return CUBLAS_STATUS_INVALID_VALUE;
    bool both = p.m.epilogue == CUBLASLT_EPILOGUE_BIAS && p.beta != 0;
    if (fake_cuda_refuses()) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p.la.type == CUDA_R_8F_E4M3 && both && fake_cuda.refuse_sums)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p.m.fast) fake_cuda.fast_products++;
    if (fake_cuda.idle && algo->data[1] == (uint64_t)fake_cuda.idle) return CUBLAS_STATUS_SUCCESS;
    return fake_cuda_enqueue(run, &p, sizeof p) ? CUBLAS_STATUS_EXECUTION_FAILED
                                                : CUBLAS_STATUS_SUCCESS;
}
