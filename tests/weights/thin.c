/* Matrices as products of two thin ones, against matrices that were made of known singular values.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/weights/thin.h"
#include "tests/test.h"

enum { MOST = 96 * 96 };

static uint32_t seed;

static double random_number(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / 8388608.0 - 1;
}

/* Orthonormal columns of a rows x k matrix. */
static void basis(int rows, int k, double *q)
{
    for (int c = 0; c < k; c++) {
        for (int i = 0; i < rows; i++) q[i * k + c] = random_number();
        for (int again = 0; again < 2; again++)
            for (int b = 0; b < c; b++) {
                double share = 0;
                for (int i = 0; i < rows; i++) share += q[i * k + c] * q[i * k + b];
                for (int i = 0; i < rows; i++) q[i * k + c] -= share * q[i * k + b];
            }
        double length = 0;
        for (int i = 0; i < rows; i++) length += q[i * k + c] * q[i * k + c];
        for (int i = 0; i < rows; i++) q[i * k + c] /= sqrt(length);
    }
}

/* m x n with these k singular values. */
static void make(int m, int n, int k, const double *value, float *a)
{
    static double u[MOST], v[MOST];
    basis(m, k, u);
    basis(n, k, v);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int c = 0; c < k; c++) sum += u[i * k + c] * value[c] * v[j * k + c];
            a[i * n + j] = (float)sum;
        }
}

/* The length of what the product lacks; checks that down's rows are orthonormal, or zeros, and the
 * lengths of up's columns the singular values. */
static double lacks(const float *a, int m, int n, int rank, const double *value)
{
    static float up[MOST], down[MOST];
    graft_err e = GRAFT_ERR_INIT;
    double all = 0;
    CHECK_OK(graft_thin_factors(a, m, n, rank, up, down, NULL, &e), &e);
    for (int r = 0; r < rank; r++) {
        double length = 0;
        for (int b = 0; b <= r; b++) {
            double sum = 0;
            for (int j = 0; j < n; j++) sum += (double)down[r * n + j] * (double)down[b * n + j];
            CHECK(fabs(sum - (r == b)) < 1e-5 || (r == b && sum == 0));
        }
        for (int i = 0; i < m; i++) length += (double)up[i * rank + r] * (double)up[i * rank + r];
        CHECK_NEAR(sqrt(length), value ? value[r] : sqrt(length), 2e-3 * (value ? value[0] : 1));
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double left = (double)a[i * n + j];
            for (int r = 0; r < rank; r++)
                left -= (double)up[i * rank + r] * (double)down[r * n + j];
            all += left * left;
        }
    return sqrt(all);
}

/* No product of that rank is closer than the singular values that are left over. */
static void as_close_as_can_be(void)
{
    static const int size[][2] = {{40, 64}, {64, 40}, {30, 30}, {5, 90}};
    static float a[MOST];
    double value[40];
    for (int s = 0; s < 4; s++) {
        const int m = size[s][0], n = size[s][1], k = m < n ? m : n, most = k < 40 ? k : 40;
        for (int i = 0; i < most; i++) value[i] = 3 * pow(0.8, i);
        seed = (uint32_t)s;
        make(m, n, most, value, a);
        for (int rank = 1; rank <= most; rank += 6) {
            double best = 0;
            for (int i = rank; i < most; i++) best += value[i] * value[i];
            CHECK(lacks(a, m, n, rank, value) < 1.01 * sqrt(best) + 1e-5);
        }
    }
}

/* One that has no more gets all of it, and nothing that it has not, whatever the rank. */
static void of_low_rank(void)
{
    static const double value[20] = {7, 0.5, 1e-3};
    static float a[MOST];
    seed = 9;
    make(50, 70, 3, value, a);
    for (int rank = 3; rank <= 20; rank += 17) CHECK(lacks(a, 50, 70, rank, value) < 1e-5);
    memset(a, 0, sizeof a);
    CHECK(lacks(a, 50, 70, 4, NULL) == 0);
    a[17] = 2; /* one value alone */
    CHECK(lacks(a, 50, 70, 2, NULL) < 1e-6);
}

static void no_memory(void)
{
    float a[6] = {1, 2, 3, 4, 5, 6}, up[2], down[3];
    graft_status st = GRAFT_E_NOMEM;
    graft_err e = GRAFT_ERR_INIT;
    int n = 0;
    while (st == GRAFT_E_NOMEM && n < 20) {
        graft_alloc_fail_at(++n);
        st = graft_thin_factors(a, 2, 3, 1, up, down, NULL, &e);
        graft_alloc_fail_at(0);
    }
    CHECK_INT(st, GRAFT_OK);
    CHECK_INT(n, 6);
    graft_alloc_stats stats;
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
}

static bool answer(void *ctx)
{
    return (*(int *)ctx)-- == 0;
}

/* Between two rows, so that no rank keeps a cancelled run. */
static void cancelled(void)
{
    static const double value[20] = {7, 0.5, 1e-3};
    static float a[MOST], up[MOST], down[MOST];
    graft_err e = GRAFT_ERR_INIT;
    int left = 3;
    const graft_task task = {.ctx = &left, .cancelled = answer};
    make(50, 70, 3, value, a);
    CHECK_INT(graft_thin_factors(a, 50, 70, 10, up, down, &task, &e), GRAFT_E_CANCEL);
    CHECK_INT(left, -1);
    graft_alloc_stats stats;
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
}

int main(void)
{
    RUN(as_close_as_can_be);
    RUN(of_low_rank);
    RUN(no_memory);
    RUN(cancelled);
    return test_end();
}
