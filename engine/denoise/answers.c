#include "engine/denoise/answers.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/denoise/change.h"
#include "engine/objects/control.h"
#include "engine/objects/sight.h"

/* The positive prompts' answer, the negative ones', third ones' and the perturbed rows'. */
enum { POSITIVE, NEGATIVE, THIRD, PERTURBED, KINDS };

/* An entry of the last evaluation in full. */
typedef struct asked {
    size_t slot;
    const graft_control *control;
    graft_hash weights;
} asked;

enum { CHANGED, MOVED, MEASURES };

struct graft_answers {
    const graft_guided_config *c;
    graft_easycache_state state;
    graft_memory memory;
    size_t n;             /* values of an answer */
    float *x, *v;         /* of the last evaluation, made or not: v is the positive prompts' */
    float *delta[KINDS];  /* v - x of the last one in full; NULL: not kept */
    double *sums;         /* on a device: GRAFT_CHANGE_SUMS, on their way */
    graft_fetch *learned; /* what the last evaluation in full taught, under way; or NULL */
    asked *asked;
    size_t n_asked; /* 0: none yet */
    float sigma;    /* of the last one in full */
    size_t evaluations, left_out;
};

static void forget(graft_answers *a)
{
    for (int k = 0; k < KINDS; k++) {
        graft_memory_free(&a->memory, a->delta[k]);
        a->delta[k] = NULL;
    }
    graft_memory_free(&a->memory, a->x);
    graft_memory_free(&a->memory, a->v);
    graft_memory_free(&a->memory, a->sums);
    a->x = a->v = NULL;
    a->sums = NULL;
}

graft_status graft_answers_move(graft_answers *a, graft_memory to, graft_err *e)
{
    const graft_guided_config *c = a->c;
    const bool kept[KINDS] = {true, true, c->third.prompt, graft_model_perturbs(c->model)};
    const size_t bytes = a->n * sizeof(float);
    forget(a);
    a->memory = to;
    a->x = graft_memory_alloc(&to, bytes);
    a->v = graft_memory_alloc(&to, bytes);
    a->sums = graft_memory_alloc(&to, GRAFT_CHANGE_SUMS * sizeof *a->sums);
    bool ok = a->x && a->v && a->sums;
    for (int k = 0; k < KINDS; k++) {
        if (!kept[k]) continue;
        a->delta[k] = graft_memory_alloc(&to, bytes);
        ok = ok && a->delta[k];
    }
    return ok ? GRAFT_OK : graft_fail_nomem(e, "EasyCache");
}

graft_status graft_answers_create(const graft_guided_config *c, graft_answers **out, graft_err *e)
{
    *out = NULL;
    if (!(c->model->easycache.threshold > 0) || c->tap) return GRAFT_OK;
    graft_answers *a = graft_calloc(1, sizeof *a);
    if (!a) return graft_fail_nomem(e, "EasyCache");
    a->c = c;
    a->n = (size_t)(c->shape[0] * c->shape[1] * c->shape[2] * c->shape[3]);
    a->asked = graft_malloc_array(graft_guided_slots(c), sizeof *a->asked);
    graft_easycache_begin(&a->state);
    graft_status st = a->asked ? GRAFT_OK : graft_fail_nomem(e, "EasyCache");
    if (!st) st = graft_answers_move(a, (graft_memory){NULL}, e);
    if (st)
        graft_answers_destroy(a);
    else
        *out = a;
    return st;
}

void graft_answers_destroy(graft_answers *a)
{
    if (!a) return;
    if (a->learned) graft_backend_more(a->memory.backend)->fetch_free(a->learned);
    forget(a);
    graft_free(a->asked);
    graft_free(a);
}

/* ------------------------------------------------------------------ distances */

/* Begins to measure on a device: |v - before|, of |v| where that is NULL, and |x - a->x|. */
static graft_status ask(graft_answers *a, const float *v, const float *before, const float *x,
                        graft_fetch **out, graft_err *e)
{
    const graft_backend *b = a->memory.backend;
    const graft_change c = {.x = v, /* none of these is written to */
                            .positive = (float *)before,
                            .negative = (float *)x,
                            .third = a->x,
                            .work = a->sums,
                            .n = a->n,
                            .per = a->n,
                            .area = a->n,
                            .kind = GRAFT_CHANGE_DISTANCE};
    graft_status st = graft_change_run(&a->memory, &c, e);
    if (st) return st;
    st = graft_backend_more(b)->fetch(b->device, a->sums, MEASURES * sizeof *a->sums, out);
    return graft_memory_check(&a->memory, st, e);
}

/* Waits for that, and ends it. */
static graft_status hear(graft_answers *a, graft_fetch *f, double out[MEASURES], graft_err *e)
{
    const graft_kernels_more *more = graft_backend_more(a->memory.backend);
    const void *data = NULL;
    const graft_status st = more->fetched(f, &data);
    if (!st) memcpy(out, data, MEASURES * sizeof *out);
    for (int i = 0; i < MEASURES && !st; i++) out[i] /= (double)a->n;
    more->fetch_free(f);
    return graft_memory_check(&a->memory, st, e);
}

static graft_status measure(graft_answers *a, const float *v, const float *before, const float *x,
                            double out[MEASURES], graft_err *e)
{
    graft_fetch *f = NULL;
    if (!a->memory.backend) {
        out[CHANGED] = graft_easycache_distance(v, before, a->n);
        out[MOVED] = graft_easycache_distance(x, a->x, a->n);
        return GRAFT_OK;
    }
    const graft_status st = ask(a, v, before, x, &f, e);
    return st ? st : hear(a, f, out, e);
}

/* What the last evaluation in full taught has arrived. */
static graft_status learn(graft_answers *a, graft_err *e)
{
    graft_fetch *f = a->learned;
    double d[MEASURES];
    a->learned = NULL;
    const graft_status st = f ? hear(a, f, d, e) : GRAFT_OK;
    if (f && !st) graft_easycache_evaluated(&a->state, d[CHANGED], d[MOVED]);
    return st;
}

/* out = x + sign * other */
static graft_status combine(const graft_answers *a, const float *x, int sign, const float *other,
                            float *out, graft_err *e)
{
    const graft_backend *b = a->memory.backend;
    const float *const in[] = {x, other};
    for (size_t i = 0; i < a->n && !b; i++) out[i] = sign < 0 ? x[i] - other[i] : x[i] + other[i];
    if (!b) return GRAFT_OK;
    return graft_memory_check(
        &a->memory,
        graft_backend_more(b)->mix(b->device, out, a->n, 2, (const double[]){1, sign}, in), e);
}

/* ------------------------------------------------------------------ evaluations */

/* Whether it is the same prompts, steered by the same ControlNets, and the same networks, as at the
 * last evaluation in full, and positive ones are among them. */
static bool same_question(const graft_answers *a, const active *list, size_t n, float sigma)
{
    const graft_model *m = a->c->model;
    if (!n || n != a->n_asked || list[0].side != GRAFT_POSITIVE ||
        graft_model_perturbs_at(m, a->c->table, a->sigma) !=
            graft_model_perturbs_at(m, a->c->table, sigma) ||
        graft_model_skips_at(m, a->c->table, a->sigma) !=
            graft_model_skips_at(m, a->c->table, sigma) ||
        graft_model_shrinks(m, a->c->table, a->sigma) !=
            graft_model_shrinks(m, a->c->table, sigma) ||
        graft_model_sees_at(m, a->c->table, a->sigma) != graft_model_sees_at(m, a->c->table, sigma))
        return false;
    for (size_t i = 0; i < n; i++) {
        const asked *k = &a->asked[i];
        if (k->slot != list[i].slot || k->control != list[i].control ||
            !graft_hash_equal(k->weights, list[i].weights) ||
            !graft_control_alike(a->c->table, k->control, a->sigma, sigma))
            return false;
    }
    return true;
}

static graft_status remember(graft_answers *a, const graft_answer *now, graft_err *e)
{
    const size_t bytes = a->n * sizeof *a->x;
    const graft_status st = graft_memory_copy(&a->memory, a->x, now->x, bytes, e);
    return st ? st : graft_memory_copy(&a->memory, a->v, now->positive, bytes, e);
}

/* Whether the answer can be told from the last one. */
static graft_status is_enough(graft_answers *a, const graft_answer *to, bool *enough, graft_err *e)
{
    double d[MEASURES];
    const graft_status st = measure(a, a->v, NULL, to->x, d, e);
    if (st) return st;
    *enough =
        graft_easycache_enough(&a->state, a->c->model->easycache.threshold, d[MOVED], d[CHANGED]);
    return GRAFT_OK;
}

graft_status graft_answers_made(graft_answers *a, const active *list, size_t n, float sigma,
                                bool may, const graft_answer *to, bool *made, graft_err *e)
{
    const graft_easycache *o = &a->c->model->easycache;
    float *const out[KINDS] = {to->positive, to->negative, to->third, to->perturbed};
    graft_status st = learn(a, e);
    *made = false;
    a->evaluations++;
    if (st || !may || !graft_sigma_in_range(a->c->table, o->start, o->end, sigma) ||
        !same_question(a, list, n, sigma))
        return st;
    st = is_enough(a, to, made, e);
    if (st || !*made) return st;
    for (int k = 0; k < KINDS && !st; k++)
        if (out[k]) st = combine(a, to->x, 1, a->delta[k], out[k], e);
    a->left_out++;
    return st ? st : remember(a, to, e);
}

graft_status graft_answers_keep(graft_answers *a, const active *list, size_t n, float sigma,
                                const graft_answer *from, graft_err *e)
{
    const float *const v[KINDS] = {from->positive, from->negative, from->third, from->perturbed};
    double d[MEASURES] = {NAN, NAN};
    const bool again = a->n_asked > 0, there = a->memory.backend != NULL;
    graft_status st = learn(a, e);
    if (!st && again)
        st = there ? ask(a, from->positive, a->v, from->x, &a->learned, e)
                   : measure(a, from->positive, a->v, from->x, d, e);
    if (!st && !(again && there)) graft_easycache_evaluated(&a->state, d[CHANGED], d[MOVED]);
    for (int k = 0; k < KINDS && !st; k++)
        if (v[k]) st = combine(a, v[k], -1, from->x, a->delta[k], e);
    if (!st) st = remember(a, from, e);
    for (size_t i = 0; i < n; i++)
        a->asked[i] = (asked){list[i].slot, list[i].control, list[i].weights};
    a->n_asked = n;
    a->sigma = sigma;
    return st;
}

void graft_answers_tell(const graft_answers *a)
{
    const graft_task *t = a->c->task;
    if (a->c->model->easycache.verbose && t)
        graft_log_printf(&t->log, GRAFT_LOG_INFO,
                         "EasyCache: %zu of %zu evaluations of the model were left out",
                         a->left_out, a->evaluations);
}
