#include "engine/weights/thin.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/task.h"

#define MORE    8    /* vectors that the subspace has beyond the rank */
#define ROUNDS  3    /* of the iteration */
#define SWEEPS  60   /* of Jacobi's rotations; some ten do */
#define NOTHING 1e-6 /* share that is left in float32 of a vector that others had all of */

typedef struct thin {
    const float *a;
    int64_t m, n, k;
    float *left, *right; /* m x k and n x k */
    double *columns;     /* of either, one after the other */
    double *gram, *turn; /* k x k: right' right, and its eigenvectors as rows */
    const graft_task *task;
} thin;

static void finish(thin *w)
{
    graft_free(w->left);
    graft_free(w->right);
    graft_free(w->columns);
    graft_free(w->gram);
    graft_free(w->turn);
}

static graft_status begin(thin *w, graft_err *e)
{
    const size_t k = (size_t)w->k, most = (size_t)(w->m > w->n ? w->m : w->n);
    w->left = graft_malloc_array((size_t)w->m * k, sizeof *w->left);
    w->right = graft_malloc_array((size_t)w->n * k, sizeof *w->right);
    w->columns = graft_malloc_array(most * k, sizeof *w->columns);
    w->gram = graft_malloc_array(k * k, sizeof *w->gram);
    w->turn = graft_malloc_array(k * k, sizeof *w->turn);
    const bool ok = w->left && w->right && w->columns && w->gram && w->turn;
    return ok ? GRAFT_OK : graft_fail_nomem(e, "a matrix of low rank");
}

/* ------------------------------------------------------------------ products with the matrix */

static void times(const thin *w)
{
    memset(w->left, 0, (size_t)(w->m * w->k) * sizeof *w->left);
    for (int64_t i = 0; i < w->m; i++)
        for (int64_t j = 0; j < w->n; j++) {
            const float v = w->a[i * w->n + j];
            const float *restrict from = w->right + j * w->k;
            float *restrict to = w->left + i * w->k;
            for (int64_t c = 0; c < w->k; c++) to[c] += v * from[c];
        }
}

static void times_transposed(const thin *w)
{
    memset(w->right, 0, (size_t)(w->n * w->k) * sizeof *w->right);
    for (int64_t i = 0; i < w->m; i++)
        for (int64_t j = 0; j < w->n; j++) {
            const float v = w->a[i * w->n + j];
            const float *restrict from = w->left + i * w->k;
            float *restrict to = w->right + j * w->k;
            for (int64_t c = 0; c < w->k; c++) to[c] += v * from[c];
        }
}

/* ------------------------------------------------------------------ the subspace */

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* Its columns become orthonormal, by Gram and Schmidt twice, or zeros where one has nothing that
 * those before it have not. */
static void orthonormalize(const thin *w, float *v, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < w->k; c++) w->columns[c * rows + i] = (double)v[i * w->k + c];
    for (int64_t c = 0; c < w->k; c++) {
        double *own = w->columns + c * rows;
        const double before = sqrt(dot(own, own, rows));
        for (int64_t b = 0; b < 2 * c; b++) {
            const double *other = w->columns + b % c * rows, share = dot(own, other, rows);
            for (int64_t i = 0; i < rows; i++) own[i] -= share * other[i];
        }
        const double left = sqrt(dot(own, own, rows));
        const double scale = left > NOTHING * before ? 1 / left : 0;
        for (int64_t i = 0; i < rows; i++) own[i] *= scale;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < w->k; c++) v[i * w->k + c] = (float)w->columns[c * rows + i];
}

/* Signs, as good a random matrix as any; the same each time. */
static void fill(const thin *w)
{
    uint64_t state = 1;
    for (int64_t i = 0; i < w->n * w->k; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        w->right[i] = state >> 63 ? 1.0f : -1.0f;
    }
}

/* left: an orthonormal basis of what the matrix makes of the space; right: the matrix in it,
 * transposed. */
static void find_space(const thin *w)
{
    fill(w);
    for (int round = 0; round < ROUNDS; round++) {
        times(w);
        orthonormalize(w, w->left, w->m);
        times_transposed(w);
        if (round + 1 < ROUNDS) orthonormalize(w, w->right, w->n);
    }
}

/* ------------------------------------------------------------------ singular vectors in it */

static void make_gram(const thin *w)
{
    const int64_t k = w->k;
    memset(w->gram, 0, (size_t)(k * k) * sizeof *w->gram);
    for (int64_t i = 0; i < w->n; i++) {
        const float *row = w->right + i * k;
        for (int64_t b = 0; b < k; b++)
            for (int64_t c = 0; c < k; c++) w->gram[b * k + c] += (double)row[b] * (double)row[c];
    }
}

/* What a rotation makes of two rows of k values. */
static void turn_rows(double *a, double *b, int64_t k, double c, double s)
{
    for (int64_t i = 0; i < k; i++) {
        const double x = a[i], y = b[i];
        a[i] = c * x - s * y;
        b[i] = s * x + c * y;
    }
}

/* Turns rows, then columns, p and q so that their common value becomes 0. But where they cross the
 * columns are what the rows are, since the matrix is symmetric. */
static void rotate(const thin *w, int64_t p, int64_t q)
{
    const int64_t k = w->k;
    double *g = w->gram;
    const double half = (g[q * k + q] - g[p * k + p]) / (2 * g[p * k + q]);
    const double t = (half < 0 ? -1 : 1) / (fabs(half) + sqrt(half * half + 1));
    const double c = 1 / sqrt(t * t + 1), s = t * c;
    turn_rows(g + p * k, g + q * k, k, c, s);
    turn_rows(w->turn + p * k, w->turn + q * k, k, c, s);
    for (int64_t i = p; i <= q; i += q - p) {
        const double x = g[i * k + p], y = g[i * k + q];
        g[i * k + p] = c * x - s * y;
        g[i * k + q] = s * x + c * y;
    }
    for (int64_t i = 0; i < k; i++) {
        if (i == p || i == q) continue;
        g[i * k + p] = g[p * k + i];
        g[i * k + q] = g[q * k + i];
    }
}

/* Jacobi's method: gram becomes diagonal, squares of singular values. */
static graft_status diagonalize(const thin *w, graft_err *e)
{
    const int64_t k = w->k;
    double all = 0;
    memset(w->turn, 0, (size_t)(k * k) * sizeof *w->turn);
    for (int64_t i = 0; i < k; i++) w->turn[i * k + i] = 1;
    for (int64_t i = 0; i < k * k; i++) all += w->gram[i] * w->gram[i];
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double beside = 0;
        for (int64_t p = 0; p < k; p++) {
            if (graft_task_cancelled(w->task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
            for (int64_t q = p + 1; q < k; q++) {
                const double v = w->gram[p * k + q];
                beside += 2 * v * v;
                if (v != 0) rotate(w, p, q);
            }
        }
        if (beside <= 1e-30 * all) break;
    }
    return GRAFT_OK;
}

/* The place of the largest value on the diagonal, which is taken off. */
static int64_t take_largest(const thin *w)
{
    int64_t at = 0;
    for (int64_t i = 1; i < w->k; i++)
        if (w->gram[i * w->k + i] > w->gram[at * w->k + at]) at = i;
    w->gram[at * w->k + at] = -1;
    return at;
}

/* Row r of down, of length 1 and at right angles to those before it. In float32 a small singular
 * value's vector has some of the large ones'; one that has not much else is left out: zeros. */
static void put_down(const thin *w, int64_t column, double least, int64_t r, float *down)
{
    double *v = w->columns;
    float *row = down + r * w->n;
    for (int64_t i = 0; i < w->n; i++) {
        v[i] = 0;
        for (int64_t c = 0; c < w->k; c++)
            v[i] += (double)w->right[i * w->k + c] * w->turn[column * w->k + c];
    }
    for (int64_t b = 0; b < 2 * r; b++) {
        const float *other = down + b % r * w->n;
        double share = 0;
        for (int64_t i = 0; i < w->n; i++) share += v[i] * (double)other[i];
        for (int64_t i = 0; i < w->n; i++) v[i] -= share * (double)other[i];
    }
    const double length = sqrt(dot(v, v, w->n)), scale = length > least ? 1 / length : 0;
    for (int64_t i = 0; i < w->n; i++) row[i] = (float)(v[i] * scale);
}

static void put_up(const thin *w, int64_t rank, const float *down, float *up)
{
    for (int64_t i = 0; i < w->m; i++)
        for (int64_t r = 0; r < rank; r++) {
            const float *row = w->a + i * w->n, *vector = down + r * w->n;
            double sum = 0;
            for (int64_t j = 0; j < w->n; j++) sum += (double)row[j] * (double)vector[j];
            up[i * rank + r] = (float)sum;
        }
}

graft_status graft_thin_factors(const float *a, int64_t m, int64_t n, int64_t rank, float *up,
                                float *down, const graft_task *task, graft_err *e)
{
    const int64_t least = m < n ? m : n, k = rank + MORE < least ? rank + MORE : least;
    thin w = {.a = a, .m = m, .n = n, .k = k, .task = task};
    graft_status st = begin(&w, e);
    if (!st) {
        find_space(&w);
        make_gram(&w);
        st = diagonalize(&w, e);
    }
    if (!st) {
        double most = 0;
        for (int64_t i = 0; i < k; i++) most = fmax(most, w.gram[i * k + i]);
        memset(down, 0, (size_t)(rank * n) * sizeof *down);
        for (int64_t r = 0; r < rank && r < k; r++) {
            const int64_t at = take_largest(&w);
            put_down(&w, at, NOTHING * sqrt(most), r, down);
        }
        put_up(&w, rank, down, up);
    }
    finish(&w);
    return st;
}
