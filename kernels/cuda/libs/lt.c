#include "kernels/cuda/libs/lt.h"

#include <cublasLt.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/device/keep.h"
#include "kernels/cuda/device/open.h"

#define LT_FUNCTIONS(X)                                                                            \
    X(create, cublasLtCreate)                                                                      \
    X(destroy, cublasLtDestroy)                                                                    \
    X(version, cublasLtGetVersion)                                                                 \
    X(status_text, cublasLtGetStatusString)                                                        \
    X(desc_create, cublasLtMatmulDescCreate)                                                       \
    X(desc_destroy, cublasLtMatmulDescDestroy)                                                     \
    X(desc_set, cublasLtMatmulDescSetAttribute)                                                    \
    X(layout_create, cublasLtMatrixLayoutCreate)                                                   \
    X(layout_destroy, cublasLtMatrixLayoutDestroy)                                                 \
    X(preference_create, cublasLtMatmulPreferenceCreate)                                           \
    X(preference_destroy, cublasLtMatmulPreferenceDestroy)                                         \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute)                                        \
    X(heuristic, cublasLtMatmulAlgoGetHeuristic)                                                   \
    X(check, cublasLtMatmulAlgoCheck)                                                              \
    X(matmul, cublasLtMatmul)

typedef struct lt_table {
#define LT_FIELD(field, function) __typeof__(&function) field;
    LT_FUNCTIONS(LT_FIELD)
#undef LT_FIELD
} lt_table;

/* CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F, which headers before CUDA 12.9 lack: a scale for each
 * row of x and of w. */
enum { OUTER_VECTORS = 3 };

#define LT_WORKSPACE ((size_t)32 << 20)

/* The algorithms for one shape, also as they are kept on disk, under a key with a number that
 * changes with how many are asked for: the library says of its own record that it may be stored as
 * bytes and used with the same version. */
typedef struct lt_choice {
    cublasLtMatmulAlgo_t algorithm;
    uint64_t workspace;
    uint64_t fast; /* sums of FP8 stay in the tensor cores, with fewer bits than float32 has */
} lt_choice;

enum { KEY = 10, FAST = 2, CHOICES = GRAFT_CUDA_LT_ALGORITHMS + FAST };
typedef struct lt_list {
    int64_t key[KEY];
    int32_t count;
    lt_choice choice[CHOICES];
    struct lt_list *next;
} lt_list;

struct graft_cuda_lt {
    graft_device *d;
    lt_table f;
    cublasLtHandle_t handle;
    lt_list *lists; /* the device's lock guards what follows */
    bool told;      /* that algorithms on disk were no good */
};

struct graft_cuda_lt_plan {
    graft_cuda_lt *lt;
    graft_cuda_gemm g;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t x, w, y, r;
    lt_choice choice;
};

static graft_status fail(const graft_cuda_lt *lt, cublasStatus_t s, const char *what, graft_err *e)
{
    return graft_fail(e, GRAFT_E_DEVICE, "cuBLASLt: %s: %s (%d)", what, lt->f.status_text(s),
                      (int)s);
}

/* The first of the files that is there. */
static graft_status open_first(graft_device *d, const char *const *files, graft_cuda_lt **out,
                               graft_err *e)
{
#define LT_NAME(field, function) #function,
    static const char *const names[] = {LT_FUNCTIONS(LT_NAME) NULL};
    graft_dl dl;
    graft_status st = graft_cuda_open(files, &dl, e);
    if (st) return graft_err_prefix(e, st, "no cuBLASLt, so products use own kernels");
    graft_cuda_lt *lt = d->host.alloc(GRAFT_CUDA_ALIGN, sizeof *lt);
    if (!lt) return graft_fail_nomem(e, "cuBLASLt");
    memset(lt, 0, sizeof *lt);
    lt->d = d;
    st = graft_cuda_symbols(&dl, names, &lt->f, "cuBLASLt", e);
    if (!st) {
        cublasStatus_t s = lt->f.create(&lt->handle);
        if (s) st = fail(lt, s, "opening it", e);
    }
    if (st) {
        d->host.free(lt);
        return st;
    }
    graft_cuda_log_path(d, "cuBLASLt", lt->f.version(), graft_cuda_path(&dl));
    *out = lt;
    return GRAFT_OK;
}

graft_status graft_cuda_lt_open(graft_device *d, graft_cuda_lt **out, graft_err *e)
{
    static const char *const files[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    *out = NULL;
    graft_status st = open_first(d, files, out, e);
    /* A driver of CUDA 12 refuses the newer one, which may lie beside the older. */
    if (st == GRAFT_E_DEVICE && open_first(d, files + 1, out, NULL) == GRAFT_OK) st = GRAFT_OK;
    return st;
}

void graft_cuda_lt_close(graft_device *d, graft_cuda_lt *lt)
{
    if (!lt) return;
    while (lt->lists) {
        lt_list *l = lt->lists;
        lt->lists = l->next;
        d->host.free(l);
    }
    lt->f.destroy(lt->handle);
    d->host.free(lt);
}

size_t graft_cuda_lt_version(const graft_cuda_lt *lt)
{
    return lt->f.version();
}

static cudaDataType_t data_type(graft_dtype t)
{
    return t == GRAFT_F16 ? CUDA_R_16F : t == GRAFT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static cublasStatus_t set_scales(const graft_cuda_lt_plan *p, const void *x, const void *w)
{
    const lt_table *f = &p->lt->f;
    cublasStatus_t s = f->desc_set(p->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &w, sizeof(w));
    return s ? s : f->desc_set(p->desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &x, sizeof(x));
}

static cublasStatus_t describe_levels(const graft_cuda_lt_plan *p)
{
    const lt_table *f = &p->lt->f;
    const int32_t mode = OUTER_VECTORS;
    const void *somewhere = (const void *)(uintptr_t)GRAFT_CUDA_ALIGN;
    cublasStatus_t s = f->desc_set(p->desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode, sizeof mode);
    if (!s) s = f->desc_set(p->desc, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode, sizeof mode);
    return s ? s : set_scales(p, somewhere, somewhere);
}

/* Its matrices are stored by columns, so a row of ours is a column there: y^T = w x^T. */
static cublasStatus_t describe(graft_cuda_lt_plan *p)
{
    const lt_table *f = &p->lt->f;
    const graft_cuda_gemm *g = &p->g;
    cudaDataType_t t = data_type(g->dtype), factor = g->levels ? CUDA_R_8F_E4M3 : t;
    cudaDataType_t result = g->wide ? CUDA_R_32F : t;
    cublasOperation_t transposed = g->by_rows ? CUBLAS_OP_N : CUBLAS_OP_T;
    uint64_t w_rows = (uint64_t)(g->by_rows ? g->n : g->k);
    const uintptr_t somewhere = GRAFT_CUDA_ALIGN;
    cublasLtEpilogue_t epilogue = g->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    cublasStatus_t s = f->desc_create(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!s) s = f->desc_set(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    if (!s) s = f->desc_set(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!s && g->bias) s = f->desc_set(p->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &t, sizeof t);
    /* Each run sets its own; what chooses algorithms may look whether there is one, and at its
     * alignment. */
    if (!s && g->bias)
        s = f->desc_set(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &somewhere, sizeof somewhere);
    if (!s && g->levels) s = describe_levels(p);
    if (!s) s = f->layout_create(&p->w, factor, w_rows, (uint64_t)(g->n + g->k) - w_rows, g->ldw);
    if (!s) s = f->layout_create(&p->x, factor, (uint64_t)g->k, (uint64_t)g->m, g->ldx);
    if (!s) s = f->layout_create(&p->y, result, (uint64_t)g->n, (uint64_t)g->m, g->ldo);
    if (!s && g->residual) s = f->layout_create(&p->r, t, (uint64_t)g->n, (uint64_t)g->m, g->ldr);
    return s;
}

/* Attention's two: w is keys or values. */
static bool no_weight(const graft_cuda_gemm *g)
{
    return g->wide || g->by_rows;
}

static cublasStatus_t set_fast(const graft_cuda_lt_plan *p, uint64_t fast)
{
    const int8_t value = fast != 0;
    if (!p->g.levels) return fast ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    return p->lt->f.desc_set(p->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &value, sizeof value);
}

static cublasStatus_t propose(const graft_cuda_lt_plan *p, int most_choices,
                              cublasLtMatmulHeuristicResult_t *list, int *count)
{
    const lt_table *f = &p->lt->f;
    cublasLtMatmulPreference_t preference = NULL;
    size_t most = LT_WORKSPACE;
    uint32_t align = 16;
    cublasStatus_t s = f->preference_create(&preference);
    if (s) return s;
    s = f->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    /* Slices of merged tensors begin at multiples of their widths only, and w is one in products
     * that have no weight; else what is packed begins at multiples of 256. */
    if (!s && no_weight(&p->g))
        s = f->preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align,
                              sizeof align);
    if (!s)
        s = f->preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align,
                              sizeof align);
    if (!s)
        s = f->preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align,
                              sizeof align);
    if (!s)
        s = f->preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align,
                              sizeof align);
    if (!s)
        s = f->heuristic(p->lt->handle, p->desc, p->w, p->x, p->r ? p->r : p->y, p->y, preference,
                         most_choices, list, count);
    f->preference_destroy(preference);
    return s;
}

/* Every row must begin at a multiple of 16 bytes, as the algorithms were asked to expect. */
static bool aligned(const graft_cuda_gemm *g)
{
    int64_t n = 16 / (int64_t)graft_dtype_size(g->dtype);
    if (g->levels && (g->ldx % 16 || g->ldw % 16 || g->k % 16 || g->n % 16)) return false;
    return g->ldx % n == 0 && g->ldo % n == 0 && g->ldr % n == 0 && g->ldw % n == 0;
}

/* What the library proposes, at most so many. */
static int ask(const graft_cuda_lt_plan *p, uint64_t fast, int most, lt_choice *out)
{
    cublasLtMatmulHeuristicResult_t found[GRAFT_CUDA_LT_ALGORITHMS];
    int n = 0, good = 0;
    memset(found, 0, sizeof found);
    if (set_fast(p, fast) || propose(p, most, found, &n)) return 0;
    for (int i = 0; i < n; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS)
            out[good++] = (lt_choice){found[i].algo, found[i].workspaceSize, fast};
    return good;
}

/* The fast ones by turns with the others, which begin: whoever tries a few has both kinds. */
static void ask_all(const graft_cuda_lt_plan *p, lt_list *l)
{
    lt_choice exact[GRAFT_CUDA_LT_ALGORITHMS], fast[FAST];
    int n_exact = ask(p, false, GRAFT_CUDA_LT_ALGORITHMS, exact);
    int n_fast = n_exact && p->g.levels ? ask(p, true, FAST, fast) : 0;
    for (int i = 0; i < n_exact || i < n_fast; i++) {
        if (i < n_exact) l->choice[l->count++] = exact[i];
        if (i < n_fast) l->choice[l->count++] = fast[i];
    }
}

/* What an earlier process chose, as far as the library still takes it. */
static int32_t restore(const graft_cuda_lt_plan *p, const graft_cuda_key *key, lt_choice *out)
{
    const graft_device *d = p->lt->d;
    uint64_t bytes;
    int32_t n = 0;
    char *data = graft_cuda_keep_read(d, key, &bytes);
    if (!data) return 0;
    uint64_t most = bytes / sizeof *out;
    if (bytes % sizeof *out || most > CHOICES) most = 0;
    memcpy(out, data, most * sizeof *out);
    d->host.free(data);
    for (; n < (int32_t)most; n++) {
        cublasLtMatmulHeuristicResult_t r;
        memset(&r, 0, sizeof r);
        if (set_fast(p, out[n].fast) ||
            p->lt->f.check(p->lt->handle, p->desc, p->w, p->x, p->r ? p->r : p->y, p->y,
                           &out[n].algorithm, &r) ||
            r.state != CUBLAS_STATUS_SUCCESS || r.workspaceSize > LT_WORKSPACE)
            break;
        out[n].workspace = r.workspaceSize;
    }
    if (most && n == (int32_t)most) return n;
    if (!p->lt->told)
        graft_cuda_log(
            d, GRAFT_LOG_WARN,
            "cuBLASLt does not take algorithms that were kept on disk; it is asked anew");
    p->lt->told = true;
    return 0;
}

/* The algorithms for the plan's shape; NULL without memory. The lock is held. */
static const lt_list *find_list(const graft_cuda_lt_plan *p)
{
    const graft_cuda_gemm *g = &p->g;
    graft_cuda_lt *lt = p->lt;
    /* The last says that w was asked for at multiples of 16: what was kept before that does not
     * count. */
    const int64_t form =
        (g->wide ? 1 << 16 : 0) + (g->by_rows ? 1 << 17 : 0) + (no_weight(g) ? 1 << 18 : 0);
    const int64_t numbers[KEY] = {g->dtype + 256 * (int64_t)g->levels + form,
                                  g->m,
                                  g->n,
                                  g->k,
                                  g->ldx,
                                  g->ldw,
                                  g->ldo,
                                  g->ldr,
                                  g->bias,
                                  g->residual};
    for (const lt_list *l = lt->lists; l; l = l->next)
        if (memcmp(l->key, numbers, sizeof numbers) == 0) return l;
    lt_list *l = lt->d->host.alloc(GRAFT_CUDA_ALIGN, sizeof *l);
    if (!l) return NULL;
    memset(l, 0, sizeof *l);
    memcpy(l->key, numbers, sizeof numbers);
    const graft_cuda_key key = {"cublasLt algorithms 3", l->key, sizeof l->key};
    l->count = restore(p, &key, l->choice);
    if (!l->count) {
        ask_all(p, l);
        if (l->count)
            graft_cuda_keep_write(lt->d, &key, l->choice, (uint64_t)l->count * sizeof *l->choice);
    }
    l->next = lt->lists;
    lt->lists = l;
    return l;
}

graft_status graft_cuda_lt_plan_create(graft_cuda_lt *lt, const graft_cuda_gemm *g, int32_t index,
                                       graft_cuda_lt_plan **out, int32_t *count)
{
    *count = 0;
    if (!aligned(g)) return GRAFT_E_UNSUPPORTED;
    graft_cuda_lt_plan *p = lt->d->host.alloc(GRAFT_CUDA_ALIGN, sizeof *p);
    if (!p) return GRAFT_E_NOMEM;
    memset(p, 0, sizeof *p);
    p->lt = lt;
    p->g = *g;
    graft_cuda_lock(lt->d);
    const lt_list *l = describe(p) == CUBLAS_STATUS_SUCCESS ? find_list(p) : NULL;
    graft_cuda_unlock(lt->d);
    if (l) *count = l->count;
    graft_status st = l && index >= 0 && index < l->count ? GRAFT_OK : GRAFT_E_UNSUPPORTED;
    if (!st) p->choice = l->choice[index];
    if (!st && set_fast(p, p->choice.fast)) st = GRAFT_E_UNSUPPORTED;
    if (st || !out)
        graft_cuda_lt_plan_destroy(p);
    else
        *out = p;
    return st;
}

void graft_cuda_lt_plan_destroy(graft_cuda_lt_plan *p)
{
    if (!p) return;
    const lt_table *f = &p->lt->f;
    if (p->r) f->layout_destroy(p->r);
    if (p->y) f->layout_destroy(p->y);
    if (p->x) f->layout_destroy(p->x);
    if (p->w) f->layout_destroy(p->w);
    if (p->desc) f->desc_destroy(p->desc);
    p->lt->d->host.free(p);
}

bool graft_cuda_lt_fast(const graft_cuda_lt_plan *p)
{
    return p->choice.fast != 0;
}

uint64_t graft_cuda_lt_workspace(const graft_cuda_lt_plan *p)
{
    return p->choice.workspace;
}

void graft_cuda_lt_scales(graft_cuda_lt_plan *p, const float *x, const float *w)
{
    set_scales(p, x, w); /* a product without them fails */
}

graft_status graft_cuda_lt_run(graft_device *d, graft_cuda_lt_plan *p, const void *x, const void *w,
                               const void *bias, const void *residual, void *y, void *workspace)
{
    const lt_table *f = &p->lt->f;
    float one = 1, beta = p->g.residual ? 1 : 0;
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    if (d->lost[0]) return GRAFT_E_DEVICE;
    if (p->g.bias) s = f->desc_set(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (!s)
        s = f->matmul(p->lt->handle, p->desc, &one, w, p->w, x, p->x, &beta,
                      p->g.residual ? residual : y, p->r ? p->r : p->y, y, p->y,
                      &p->choice.algorithm, p->choice.workspace ? workspace : NULL,
                      p->choice.workspace, d->stream);
    if (!s) return GRAFT_OK;
    return graft_cuda_refused(d, p->g.levels ? GRAFT_CUDA_LT_FP8 : GRAFT_CUDA_LT_PRODUCT,
                              f->status_text(s));
}
