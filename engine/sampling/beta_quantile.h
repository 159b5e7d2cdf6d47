/* Quantiles of the beta distribution. Any thread. */
#ifndef GRAFT_SAMPLING_BETA_QUANTILE_H
#define GRAFT_SAMPLING_BETA_QUANTILE_H

/* The x with I_x(a, b) = p (the regularized incomplete beta function); p in [0,1], a and b > 0. */
double graft_beta_quantile(double p, double a, double b);
#endif
