#include "engine/sampling/schedule.h"

#include <math.h>
#include <string.h>

#include "engine/sampling/beta_quantile.h"

#define LCM_STEPS 50

/* The i-th of n float32 points from `from` to `to`, rounded as PyTorch's linspace for AVX2 does:
 * the first of each 8 by a fused step from the nearer end and its others from that one, as far as
 * blocks of 16 are full; then each by itself. */
static float linspace(float from, float to, int n, int i)
{
    if (n == 1) return from;
    float step = (to - from) / (float)(n - 1);
    bool full_block = (i & ~15) + 16 <= n;
    int first = full_block ? i & ~7 : i;
    float base =
        first < n / 2 ? fmaf(step, (float)first, from) : fmaf(-step, (float)(n - 1 - first), to);
    return i == first ? base : base + step * (float)(i - first);
}

static void set_sigmas(graft_sigma_table *t, const double *sigma)
{
    for (int i = 0; i < t->count; i++) {
        t->sigma[i] = (float)sigma[i];
        t->log_sigma[i] = (float)log(sigma[i]);
    }
}

/* Shifts and scales sqrt(alpha_bar) so that the last step is all noise (arXiv:2305.08891, alg. 1);
 * a last value just above 0 keeps sigma finite. */
static void rescale_to_zero_snr(double *sigma, int count)
{
    double first = 1 / sqrt(sigma[0] * sigma[0] + 1);
    double last = 1 / sqrt(sigma[count - 1] * sigma[count - 1] + 1);
    for (int i = 0; i < count; i++) {
        double root = 1 / sqrt(sigma[i] * sigma[i] + 1);
        root = (root - last) * first / (first - last);
        double alpha_bar = i == count - 1 ? 4.8973451890853435e-08 : root * root;
        sigma[i] = sqrt((1 - alpha_bar) / alpha_bar);
    }
}

/* Keeps every 20th step, counted from the noisiest. */
static void keep_lcm_steps(graft_sigma_table *t)
{
    int stride = t->count / LCM_STEPS;
    for (int i = 0; i < LCM_STEPS; i++) {
        int from = t->count - 1 - (LCM_STEPS - 1 - i) * stride;
        t->sigma[i] = t->sigma[from];
        t->log_sigma[i] = (float)log(t->sigma[i]);
    }
    t->count = LCM_STEPS;
    t->timestep_stride = stride;
}

void graft_sigma_table_init(graft_sigma_table *t, double beta_start, double beta_end, bool zsnr,
                            bool lcm)
{
    double sigma[GRAFT_SCHEDULE_STEPS], alpha_bar = 1;
    double from = sqrt(beta_start), to = sqrt(beta_end);
    const int last = GRAFT_SCHEDULE_STEPS - 1;
    *t = (graft_sigma_table){.count = GRAFT_SCHEDULE_STEPS, .timestep_stride = 1};
    for (int i = 0; i <= last; i++) {
        double root = from + (to - from) * i / last;
        alpha_bar *= 1 - root * root;
        sigma[i] = sqrt((1 - alpha_bar) / alpha_bar);
    }
    if (zsnr) rescale_to_zero_snr(sigma, t->count);
    set_sigmas(t, sigma);
    if (lcm) keep_lcm_steps(t);
}

/* In float32, as ComfyUI has it, but that rounding leads to no more than all noise. */
static float flow_sigma(float shift, float t)
{
    return fminf(shift * t / (1 + (shift - 1) * t), 1);
}

void graft_sigma_table_init_flow(graft_sigma_table *t, double shift, int count)
{
    *t = (graft_sigma_table){.count = count, .timestep_stride = 1, .shift = (float)shift};
    for (int i = 0; i < t->count; i++) {
        t->sigma[i] = flow_sigma(t->shift, (float)(i + 1) / (float)count);
        t->log_sigma[i] = (float)log(t->sigma[i]);
    }
}

void graft_sigma_table_init_continuous(graft_sigma_table *t, double low, double high,
                                       graft_time time)
{
    const float from = (float)log(low), to = (float)log(high);
    *t = (graft_sigma_table){.time = time, .count = GRAFT_SCHEDULE_STEPS, .timestep_stride = 1};
    for (int i = 0; i < t->count; i++) {
        t->sigma[i] = (float)exp(linspace(from, to, t->count, i));
        t->log_sigma[i] = (float)log(t->sigma[i]);
    }
}

/* Of networks that are told any sigma, in float32 as ComfyUI has it. */
static float told_of(graft_time time, float sigma)
{
    return time == GRAFT_TIME_LOG ? 0.25f * (float)log(sigma)
                                  : (float)atan(sigma) / (float)(M_PI / 2);
}

static float told_back(graft_time time, float told)
{
    return (float)(time == GRAFT_TIME_LOG ? exp(told / 0.25f) : tan(told * (float)(M_PI / 2)));
}

float graft_sigma_to_timestep(const graft_sigma_table *t, float sigma)
{
    if (t->time != GRAFT_TIME_STEPS) return told_of(t->time, sigma);
    if (t->shift > 0) return sigma * GRAFT_SCHEDULE_STEPS;
    float wanted = (float)log(sigma), best = INFINITY;
    int at = 0;
    for (int i = 0; i < t->count; i++) {
        float distance = fabsf(wanted - t->log_sigma[i]);
        if (distance < best) best = distance, at = i;
    }
    return (float)(at * t->timestep_stride + t->timestep_stride - 1);
}

float graft_timestep_to_sigma(const graft_sigma_table *t, float timestep)
{
    if (t->time != GRAFT_TIME_STEPS) return told_back(t->time, timestep);
    if (t->shift > 0) return flow_sigma(t->shift, timestep / GRAFT_SCHEDULE_STEPS);
    float place = (timestep - (float)(t->timestep_stride - 1)) / (float)t->timestep_stride;
    place = fminf(fmaxf(place, 0), (float)(t->count - 1));
    int low = (int)floorf(place), high = (int)ceilf(place);
    float share = place - (float)low;
    float log_sigma = (1 - share) * t->log_sigma[low] + share * t->log_sigma[high];
    return (float)exp(log_sigma);
}

float graft_percent_to_sigma(const graft_sigma_table *t, double percent)
{
    if (percent <= 0) return t->shift > 0 ? 1 : 999999999.9f;
    if (percent >= 1) return 0;
    if (t->time != GRAFT_TIME_STEPS) {
        const double low = log(t->sigma[0]), high = log(t->sigma[t->count - 1]);
        return (float)exp((high - low) * (1 - percent) + low);
    }
    if (t->shift > 0) return flow_sigma(t->shift, (float)(1 - percent));
    return graft_timestep_to_sigma(t, (float)((1 - percent) * (GRAFT_SCHEDULE_STEPS - 1)));
}

bool graft_sigma_in_range(const graft_sigma_table *t, double start, double end, float sigma)
{
    return sigma <= graft_percent_to_sigma(t, start) && sigma >= graft_percent_to_sigma(t, end);
}

/* Where a scheduler puts its sigmas; too many only count, so that one check at the end does. */
typedef struct sigma_list {
    float *data;
    size_t cap, count;
} sigma_list;

static void put(sigma_list *l, float sigma)
{
    if (l->count < l->cap) l->data[l->count] = sigma;
    l->count++;
}

static void make_simple(const graft_sigma_table *t, int steps, sigma_list *l)
{
    double stride = (double)t->count / steps;
    for (int i = 0; i < steps; i++) put(l, t->sigma[t->count - 1 - (int)(i * stride)]);
    put(l, 0);
}

/* From the highest timestep to the lowest, `points` of them equally far apart; the first `keep`. */
static void put_timesteps(const graft_sigma_table *t, int points, int keep, sigma_list *l)
{
    float start = graft_sigma_to_timestep(t, t->sigma[t->count - 1]);
    float end = graft_sigma_to_timestep(t, t->sigma[0]);
    for (int i = 0; i < keep; i++)
        put(l, graft_timestep_to_sigma(t, linspace(start, end, points, i)));
}

static void make_sgm_uniform(const graft_sigma_table *t, int steps, sigma_list *l)
{
    put_timesteps(t, steps + 1, steps, l);
    put(l, 0);
}

static void make_normal(const graft_sigma_table *t, int steps, sigma_list *l)
{
    /* A schedule that ends at no noise has its zero already. */
    bool has_zero = fabsf(t->sigma[0]) <= 1e-5f;
    put_timesteps(t, steps + has_zero, steps + has_zero, l);
    if (!has_zero) put(l, 0);
}

static void put_karras(int steps, double high, double low, double rho, sigma_list *l)
{
    double from = pow(high, 1 / rho), to = pow(low, 1 / rho);
    for (int i = 0; i < steps; i++) {
        float root = (float)from + linspace(0, 1, steps, i) * (float)(to - from);
        put(l, (float)pow(root, rho));
    }
    put(l, 0);
}

static void put_exponential(int steps, double high, double low, sigma_list *l)
{
    float from = (float)log(high), to = (float)log(low);
    for (int i = 0; i < steps; i++) put(l, (float)exp(linspace(from, to, steps, i)));
    put(l, 0);
}

static void make_karras(const graft_sigma_table *t, int steps, sigma_list *l)
{
    put_karras(steps, t->sigma[t->count - 1], t->sigma[0], 7, l);
}

static void make_exponential(const graft_sigma_table *t, int steps, sigma_list *l)
{
    put_exponential(steps, t->sigma[t->count - 1], t->sigma[0], l);
}

static void make_ddim_uniform(const graft_sigma_table *t, int steps, sigma_list *l)
{
    bool has_zero = t->count > 1 && fabsf(t->sigma[1]) <= 1e-5f;
    int stride = t->count / (steps + has_zero);
    if (stride < 1) stride = 1;
    for (int i = 1 + (t->count - 2) / stride * stride; i >= 1; i -= stride) put(l, t->sigma[i]);
    if (!has_zero) put(l, 0);
}

/* Timesteps at quantiles of Beta(alpha, beta) (arXiv:2407.12173); repeated ones only once. */
static void put_beta(const graft_sigma_table *t, int steps, double alpha, double beta,
                     sigma_list *l)
{
    double last = -1;
    for (int i = 0; i < steps; i++) {
        double share = graft_beta_quantile(1 - i * (1.0 / steps), alpha, beta);
        double timestep = rint(share * (t->count - 1));
        if (timestep != last) put(l, t->sigma[(int)timestep]);
        last = timestep;
    }
    put(l, 0);
}

static void make_beta(const graft_sigma_table *t, int steps, sigma_list *l)
{
    put_beta(t, steps, 0.6, 0.6, l);
}

/* Mochi's schedule: half of the steps linear down to 1 - threshold, the others on a parabola that
 * continues value and slope. */
static void make_linear_quadratic(const graft_sigma_table *t, int steps, sigma_list *l)
{
    const double threshold = 0.025;
    float most = t->sigma[t->count - 1];
    int linear = steps / 2, quadratic = steps - linear;
    if (steps == 1) linear = 1;
    double rest = linear - threshold * steps;
    double square = rest / ((double)linear * quadratic * quadratic);
    double slope = threshold / linear - 2 * rest / ((double)quadratic * quadratic);
    double offset = square * ((double)linear * linear);
    for (int i = 0; i < steps; i++) {
        double share =
            i < linear ? i * threshold / linear : square * ((double)i * i) + slope * i + offset;
        put(l, (float)(1 - share) * most);
    }
    put(l, 0);
}

/* "Align Your Steps", eq. 33: equal steps of atan(sigma). One step has 0 / 0 for its place, which
 * ComfyUI hands on as NaN; the only sensible value stands here instead. */
static void make_kl_optimal(const graft_sigma_table *t, int steps, sigma_list *l)
{
    float low = (float)atan(t->sigma[0]), high = (float)atan(t->sigma[t->count - 1]);
    for (int i = 0; i < steps; i++) {
        float share = steps == 1 ? 0 : (float)i / (float)(steps - 1);
        put(l, (float)tan(share * low + (1 - share) * high));
    }
    put(l, 0);
}

#define SCHEDULERS(X)                                                                              \
    X(simple)                                                                                      \
    X(sgm_uniform)                                                                                 \
    X(karras)                                                                                      \
    X(exponential)                                                                                 \
    X(ddim_uniform)                                                                                \
    X(beta)                                                                                        \
    X(normal)                                                                                      \
    X(linear_quadratic)                                                                            \
    X(kl_optimal)

static const char *const names[] = {
#define NAME(scheduler) #scheduler,
    SCHEDULERS(NAME)
#undef NAME
        NULL};

typedef void make_fn(const graft_sigma_table *t, int steps, sigma_list *l);
static make_fn *const makers[] = {
#define MAKER(scheduler) make_##scheduler,
    SCHEDULERS(MAKER)
#undef MAKER
};

const char *const *graft_schedule_names(void)
{
    return names;
}

graft_status graft_schedule_make(const graft_sigma_table *t, const char *scheduler, int steps,
                                 float *out, size_t cap, size_t *count, graft_err *e)
{
    *count = 0;
    if (steps < 1) return graft_fail(e, GRAFT_E_ARG, "a schedule of %d steps", steps);
    for (size_t i = 0; names[i]; i++) {
        if (strcmp(names[i], scheduler) != 0) continue;
        sigma_list l = {out, cap, 0};
        makers[i](t, steps, &l);
        if (l.count > cap)
            return graft_fail(e, GRAFT_E_LIMIT, "scheduler %s gives %zu sigmas, room for %zu",
                              scheduler, l.count, cap);
        *count = l.count;
        return GRAFT_OK;
    }
    return graft_fail(e, GRAFT_E_NOTFOUND, "unknown scheduler \"%s\"", scheduler);
}

void graft_schedule_karras(int steps, double high, double low, double rho, float *out)
{
    put_karras(steps, high, low, rho, &(sigma_list){out, (size_t)steps + 1, 0});
}

void graft_schedule_exponential(int steps, double high, double low, float *out)
{
    put_exponential(steps, high, low, &(sigma_list){out, (size_t)steps + 1, 0});
}

void graft_schedule_polyexponential(int steps, double high, double low, double rho, float *out)
{
    float span = (float)(log(high) - log(low)), base = (float)log(low);
    for (int i = 0; i < steps; i++) {
        float share = (float)pow(linspace(1, 0, steps, i), rho);
        out[i] = (float)exp(share * span + base);
    }
    out[steps] = 0;
}

void graft_schedule_vp(int steps, double beta_d, double beta_min, double eps_s, float *out)
{
    for (int i = 0; i < steps; i++) {
        float t = linspace(1, (float)eps_s, steps, i);
        float grown = (float)beta_d * (t * t) / 2 + (float)beta_min * t;
        out[i] = sqrtf((float)exp(grown) - 1);
    }
    out[steps] = 0;
}

void graft_schedule_laplace(int steps, double high, double low, double mu, double beta, float *out)
{
    for (int i = 0; i < steps; i++) {
        const float from_middle = 0.5f - linspace(0, 1, steps, i);
        const float sign = (float)((from_middle > 0) - (from_middle < 0));
        const float tail = (float)log(1 - 2 * fabsf(from_middle) + 1e-5f);
        const float log_sigma = (float)mu - (float)beta * sign * tail;
        out[i] = fminf(fmaxf((float)exp(log_sigma), (float)low), (float)high);
    }
}

size_t graft_schedule_beta(const graft_sigma_table *t, int steps, double alpha, double beta,
                           float *out)
{
    sigma_list l = {out, (size_t)steps + 1, 0};
    put_beta(t, steps, alpha, beta, &l);
    return l.count;
}

/* Equal places on the curve through the points, straight in log sigma between two of them. */
void graft_schedule_aligned(const double *level, int levels, int steps, float *out)
{
    for (int i = 0; i < steps; i++) {
        double place = (double)i * (levels - 1) / steps;
        int at = (int)place;
        double share = place - at;
        out[i] = (float)exp(log(level[at]) * (1 - share) + log(level[at + 1]) * share);
    }
    out[steps] = 0;
}

/* mu on the line for 10 steps, and on that for 200, which holds for any number of larger pictures.
 */
static double flux2_mu(int steps, double tokens)
{
    const double few = 8.73809524e-05 * tokens + 1.89833333;
    const double many = 0.00016927 * tokens + 0.45666666;
    return tokens > 4300 ? many : many + (few - many) * (200 - steps) / (200 - 10);
}

void graft_schedule_flux2(int steps, int64_t tokens, float *out)
{
    const double m = exp(flux2_mu(steps, (double)tokens));
    for (int i = 0; i <= steps; i++) {
        const double t = 1 - (double)i / steps;
        out[i] = (float)(m * t / (1 + (m - 1) * t));
    }
}

/* The z below which a share of the normal distribution is, 0 < share < 1. */
static double normal_quantile(double share)
{
    double low = 0, high = 40;
    const double tail = share < 0.5 ? share : 1 - share;
    for (int i = 0; i < 100; i++) {
        const double z = (low + high) / 2;
        *(erfc(z / sqrt(2)) / 2 > tail ? &low : &high) = z;
    }
    return share < 0.5 ? -low : low;
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

void graft_schedule_ideogram4(int steps, double mu, double std, float *out)
{
    const double least = logistic(-7.5), most = logistic(9);
    for (int i = 0; i < steps; i++) {
        const double share = 1 - (double)i / steps;
        const double sigma = i ? logistic(mu + std * normal_quantile(share)) : 1;
        out[i] = (float)fmin(fmax(sigma, least), most);
    }
    out[steps] = 0;
}
