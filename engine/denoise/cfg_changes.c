#include "engine/denoise/cfg_changes.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

#define TINY 1e-8 /* what norms are at least divided by */

struct graft_cfg_changes {
    const graft_guided_config *c;
    size_t per, area;                  /* values of a picture, of one of its channels */
    float sigma;                       /* of the call before */
    float *average[GRAFT_CFG_CHANGES]; /* of a change with momentum, of all pictures; or NULL */
    bool begun[GRAFT_CFG_CHANGES];
    double *guidance; /* of one picture */
};

/* One picture. */
typedef struct picture {
    const graft_cfg_changes *k;
    const graft_cfg_change *change;
    double cfg;
    const float *x;
    float *positive, *negative, *guided, *average;
    bool begun;
} picture;

graft_status graft_cfg_changes_create(const graft_guided_config *c, graft_cfg_changes **out,
                                      graft_err *e)
{
    const graft_model *m = c->model;
    *out = NULL;
    if (!m->n_cfg_changes) return GRAFT_OK;
    graft_cfg_changes *k = graft_calloc(1, sizeof *k);
    if (!k) return graft_fail_nomem(e, "guidance");
    k->c = c;
    k->area = (size_t)(c->shape[2] * c->shape[3]);
    k->per = (size_t)c->shape[1] * k->area;
    k->guidance = graft_malloc_array(k->per, sizeof *k->guidance);
    bool ok = k->guidance;
    for (int i = 0; i < m->n_cfg_changes; i++) {
        if (m->cfg_change[i].momentum == 0) continue;
        k->average[i] = graft_malloc_array((size_t)c->shape[0] * k->per, sizeof *k->average[i]);
        ok = ok && k->average[i];
    }
    if (ok) {
        *out = k;
        return GRAFT_OK;
    }
    graft_cfg_changes_destroy(k);
    return graft_fail_nomem(e, "guidance");
}

void graft_cfg_changes_destroy(graft_cfg_changes *k)
{
    if (!k) return;
    for (int i = 0; i < GRAFT_CFG_CHANGES; i++) graft_free(k->average[i]);
    graft_free(k->guidance);
    graft_free(k);
}

static double norm_of(const float *v, size_t n)
{
    double square = 0;
    for (size_t i = 0; i < n; i++) square += (double)v[i] * v[i];
    return sqrt(square);
}

/* ------------------------------------------------------------------ before */

/* The average counts in float32, as it is kept. */
static void add_momentum(const picture *p, double *guidance)
{
    const size_t n = p->k->per;
    for (size_t i = 0; i < n; i++) {
        const double before = p->begun ? p->change->momentum * (double)p->average[i] : 0;
        p->average[i] = (float)(before + guidance[i]);
        guidance[i] = (double)p->average[i];
    }
}

static void projected(const picture *p)
{
    const size_t n = p->k->per;
    if (p->cfg == 0) return; /* D is N, whatever P is */
    const graft_cfg_change *c = p->change;
    double *g = p->k->guidance, square = 0, dot = 0, of_positive = norm_of(p->positive, n);
    for (size_t i = 0; i < n; i++) g[i] = (double)p->positive[i] - (double)p->negative[i];
    if (p->average) add_momentum(p, g);
    for (size_t i = 0; i < n; i++) {
        square += g[i] * g[i];
        dot += g[i] * (double)p->positive[i];
    }
    const double length = sqrt(square);
    const double keep = c->limit > 0 && length > c->limit ? c->limit / length : 1;
    const double along = of_positive > 0 ? dot / (of_positive * of_positive) : 0;
    for (size_t i = 0; i < n; i++) {
        const double pos = (double)p->positive[i], neg = (double)p->negative[i];
        const double changed = keep * (g[i] + (c->strength - 1) * along * pos);
        p->positive[i] = (float)(neg + changed + (pos - neg) / p->cfg);
    }
}

/* The singular vector is u0 (x - N) + u1 (x - P), where u is the first eigenvector of the two
 * differences' products with each other; its square's length is the first eigenvalue. */
static void tangential(const picture *p)
{
    const size_t n = p->k->per;
    double nn = 0, pp = 0, np = 0;
    for (size_t i = 0; i < n; i++) {
        const double a = (double)p->x[i] - (double)p->negative[i];
        const double b = (double)p->x[i] - (double)p->positive[i];
        nn += a * a;
        pp += b * b;
        np += a * b;
    }
    const double half = (nn - pp) / 2, root = hypot(half, np), first = (nn + pp) / 2 + root;
    if (!(first > 0)) return;
    /* Of the two forms of the eigenvector the one in which nothing cancels. */
    double u0 = half >= 0 ? half + root : np, u1 = half >= 0 ? np : root - half;
    const double length = hypot(u0, u1);
    if (length > 0) {
        u0 /= length;
        u1 /= length;
    } else {
        u0 = 1;
    }
    const double along = (u0 * nn + u1 * np) / first;
    for (size_t i = 0; i < n; i++) {
        const double a = (double)p->x[i] - (double)p->negative[i];
        const double b = (double)p->x[i] - (double)p->positive[i];
        p->negative[i] = (float)((double)p->x[i] - along * (u0 * a + u1 * b));
    }
}

/* ------------------------------------------------------------------ after */

static void renormed(const picture *p, float sigma)
{
    const size_t n = p->k->per;
    if (!((double)sigma < p->change->limit)) {
        memcpy(p->guided, p->positive, n * sizeof *p->guided);
        return;
    }
    const double most = p->change->strength * norm_of(p->positive, n);
    const double length = norm_of(p->guided, n);
    if (!(p->change->strength > 0) || length < most || !(length > 0)) return;
    for (size_t i = 0; i < n; i++) p->guided[i] = (float)((double)p->guided[i] * (most / length));
}

static void zero_star(const picture *p)
{
    const size_t n = p->k->per;
    double dot = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        const double a = (double)p->x[i] - (double)p->negative[i];
        dot += a * ((double)p->x[i] - (double)p->positive[i]);
        square += a * a;
    }
    const double share = (1 - dot / (square + TINY)) * (p->cfg - 1);
    for (size_t i = 0; i < n; i++)
        p->guided[i] = (float)((double)p->guided[i] + share * (double)p->negative[i]);
}

static void normed(const picture *p)
{
    const size_t area = p->k->area;
    for (size_t at = 0; at < area; at++) {
        double wanted = 0, have = 0;
        for (size_t i = at; i < p->k->per; i += area) {
            wanted += (double)p->positive[i] * p->positive[i];
            have += (double)p->guided[i] * p->guided[i];
        }
        double scale = sqrt(wanted) / (sqrt(have) + TINY);
        scale = p->change->strength * (scale < 1 ? scale : 1);
        for (size_t i = at; i < p->k->per; i += area)
            p->guided[i] = (float)((double)p->guided[i] * scale);
    }
}

static double root_of(double v)
{
    return v < 0 ? -sqrt(-v) : sqrt(v);
}

/* The cosine between the roots of cfg N and (cfg P + D) / 2 along the channels of a place. */
static double likeness(const picture *p, size_t at)
{
    double dot = 0, a2 = 0, b2 = 0;
    for (size_t i = at; i < p->k->per; i += p->k->area) {
        const double a = root_of(p->cfg * (double)p->negative[i]);
        const double b = root_of((p->cfg * (double)p->positive[i] + (double)p->guided[i]) / 2);
        dot += a * b;
        a2 += a * a;
        b2 += b * b;
    }
    return dot / fmax(sqrt(a2) * sqrt(b2), TINY);
}

static void similar(const picture *p)
{
    double sum = 0;
    for (size_t at = 0; at < p->k->area; at++) sum += likeness(p, at);
    const double share = (1 + sum / (double)p->k->area) / 2;
    for (size_t i = 0; i < p->k->per; i++) {
        const double leap = p->cfg * (double)p->positive[i];
        p->guided[i] = (float)(leap + share * ((double)p->guided[i] - leap));
    }
}

/* ------------------------------------------------------------------ a call */

static bool is_before(graft_cfg_kind kind)
{
    return kind == GRAFT_CFG_PROJECTED || kind == GRAFT_CFG_TANGENTIAL;
}

static picture picture_of(const graft_cfg_changes *k, int change, const graft_cfg_call *call,
                          float *guided, int64_t i)
{
    const size_t at = (size_t)i * k->per;
    return (picture){.k = k,
                     .change = &k->c->model->cfg_change[change],
                     .cfg = k->c->cfg,
                     .x = call->x + at,
                     .positive = call->positive + at,
                     .negative = call->negative ? call->negative + at : NULL,
                     .guided = guided ? guided + at : NULL,
                     .average = k->average[change] ? k->average[change] + at : NULL,
                     .begun = k->begun[change]};
}

void graft_cfg_changes_before(graft_cfg_changes *k, const graft_cfg_call *call)
{
    const graft_model *m = k->c->model;
    const bool guided = call->negative && k->c->cfg != 1.0;
    /* Noisier than the call before: another run of a sampler, or a step back. */
    for (int i = 0; i < m->n_cfg_changes && call->sigma > k->sigma; i++) k->begun[i] = false;
    k->sigma = call->sigma;
    for (int i = 0; i < m->n_cfg_changes && guided; i++) {
        if (!is_before(m->cfg_change[i].kind)) continue;
        for (int64_t n = 0; n < k->c->shape[0]; n++) {
            const picture p = picture_of(k, i, call, NULL, n);
            if (p.change->kind == GRAFT_CFG_PROJECTED)
                projected(&p);
            else
                tangential(&p);
        }
        k->begun[i] = true;
    }
}

static void change_guided(const picture *p, float sigma)
{
    switch (p->change->kind) {
    case GRAFT_CFG_RENORMED:
        renormed(p, sigma);
        break;
    case GRAFT_CFG_ZERO_STAR:
        zero_star(p);
        break;
    case GRAFT_CFG_NORMED:
        normed(p);
        break;
    case GRAFT_CFG_SIMILAR:
        similar(p);
        break;
    case GRAFT_CFG_PROJECTED:
    case GRAFT_CFG_TANGENTIAL:
        break;
    }
}

void graft_cfg_changes_after(const graft_cfg_changes *k, const graft_cfg_call *call, float *guided)
{
    const graft_model *m = k->c->model;
    const bool two = call->negative && k->c->cfg != 1.0;
    for (int i = 0; i < m->n_cfg_changes; i++) {
        if (!two && m->cfg_change[i].kind != GRAFT_CFG_NORMED) continue;
        for (int64_t n = 0; n < k->c->shape[0]; n++) {
            const picture p = picture_of(k, i, call, guided, n);
            change_guided(&p, call->sigma);
        }
    }
}
