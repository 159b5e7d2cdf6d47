#include "engine/sampling/beta_quantile.h"

#include <assert.h>
#include <math.h>

/* The continued fraction of DLMF 8.17.22 by Lentz's method; quick for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double value = d;
    for (int m = 1; m <= 300; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double term[2] = {even, odd}, change = 1;
        for (int k = 0; k < 2; k++) {
            d = 1 + term[k] * d;
            c = 1 + term[k] / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            change = c * d;
            value *= change;
        }
        if (fabs(change - 1) < 1e-16) break;
    }
    return value;
}

/* lgamma without the global that it writes. */
static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

static double beta_distribution(double x, double a, double b)
{
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    double front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(x, a, b) / a;
    return 1 - front * beta_fraction(1 - x, b, a) / b;
}

double graft_beta_quantile(double p, double a, double b)
{
    assert(a > 0 && b > 0);
    if (!(p > 0)) return 0;
    if (p >= 1) return 1;
    if (p == 0.5 && a == b) return 0.5;
    double low = 0, high = 1;
    for (int i = 0; i < 200 && low < high; i++) {
        double middle = 0.5 * (low + high);
        if (middle == low || middle == high) break;
        if (beta_distribution(middle, a, b) < p)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}
