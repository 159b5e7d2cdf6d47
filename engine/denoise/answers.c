#include "engine/denoise/answers.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/objects/control.h"
#include "engine/objects/sight.h"

/* The positive prompts' answer, the negative ones', third ones' and the perturbed rows'. */
enum { POSITIVE, NEGATIVE, THIRD, PERTURBED, KINDS };

/* An entry of the last evaluation in full. */
typedef struct asked {
    size_t slot;
    const graft_control *control;
} asked;

struct graft_answers {
    const graft_guided_config *c;
    graft_easycache_state state;
    size_t n;            /* values of an answer */
    float *x, *v;        /* of the last evaluation, made or not: v is the positive prompts' */
    float *delta[KINDS]; /* v - x of the last one in full; NULL: not kept */
    asked *asked;
    size_t n_asked; /* 0: none yet */
    float sigma;    /* of the last one in full */
    size_t evaluations, left_out;
};

graft_status graft_answers_create(const graft_guided_config *c, graft_answers **out, graft_err *e)
{
    *out = NULL;
    if (!(c->model->easycache.threshold > 0) || c->tap) return GRAFT_OK;
    graft_answers *a = graft_calloc(1, sizeof *a);
    if (!a) return graft_fail_nomem(e, "EasyCache");
    const bool kept[KINDS] = {true, true, c->third.prompt, graft_model_perturbs(c->model)};
    a->c = c;
    a->n = (size_t)(c->shape[0] * c->shape[1] * c->shape[2] * c->shape[3]);
    a->x = graft_malloc_array(a->n, sizeof *a->x);
    a->v = graft_malloc_array(a->n, sizeof *a->v);
    a->asked = graft_malloc_array(graft_guided_slots(c), sizeof *a->asked);
    bool ok = a->x && a->v && a->asked;
    for (int k = 0; k < KINDS; k++) {
        if (!kept[k]) continue;
        a->delta[k] = graft_malloc_array(a->n, sizeof *a->delta[k]);
        ok = ok && a->delta[k];
    }
    graft_easycache_begin(&a->state);
    if (ok) {
        *out = a;
        return GRAFT_OK;
    }
    graft_answers_destroy(a);
    return graft_fail_nomem(e, "EasyCache");
}

void graft_answers_destroy(graft_answers *a)
{
    if (!a) return;
    for (int k = 0; k < KINDS; k++) graft_free(a->delta[k]);
    graft_free(a->x);
    graft_free(a->v);
    graft_free(a->asked);
    graft_free(a);
}

/* Whether it is the same prompts, steered by the same ControlNets, and the same network, as at the
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
            !graft_control_alike(a->c->table, k->control, a->sigma, sigma))
            return false;
    }
    return true;
}

static void make(const graft_answers *a, int kind, const float *x, float *out)
{
    for (size_t i = 0; out && i < a->n; i++) out[i] = x[i] + a->delta[kind][i];
}

static void remember(graft_answers *a, const graft_answer *now)
{
    memcpy(a->x, now->x, a->n * sizeof *a->x);
    memcpy(a->v, now->positive, a->n * sizeof *a->v);
}

bool graft_answers_made(graft_answers *a, const active *list, size_t n, float sigma, bool may,
                        const graft_answer *to)
{
    const graft_easycache *o = &a->c->model->easycache;
    a->evaluations++;
    if (!may || !graft_sigma_in_range(a->c->table, o->start, o->end, sigma) ||
        !same_question(a, list, n, sigma) ||
        !graft_easycache_enough(&a->state, o->threshold,
                                graft_easycache_distance(to->x, a->x, a->n),
                                graft_easycache_distance(a->v, NULL, a->n)))
        return false;
    make(a, POSITIVE, to->x, to->positive);
    make(a, NEGATIVE, to->x, to->negative);
    make(a, THIRD, to->x, to->third);
    make(a, PERTURBED, to->x, to->perturbed);
    remember(a, to);
    a->left_out++;
    return true;
}

static void keep(graft_answers *a, int kind, const float *x, const float *v)
{
    for (size_t i = 0; v && i < a->n; i++) a->delta[kind][i] = v[i] - x[i];
}

void graft_answers_keep(graft_answers *a, const active *list, size_t n, float sigma,
                        const graft_answer *from)
{
    bool again = a->n_asked > 0;
    graft_easycache_evaluated(&a->state,
                              again ? graft_easycache_distance(from->positive, a->v, a->n) : NAN,
                              again ? graft_easycache_distance(from->x, a->x, a->n) : NAN);
    keep(a, POSITIVE, from->x, from->positive);
    keep(a, NEGATIVE, from->x, from->negative);
    keep(a, THIRD, from->x, from->third);
    keep(a, PERTURBED, from->x, from->perturbed);
    remember(a, from);
    for (size_t i = 0; i < n; i++) a->asked[i] = (asked){list[i].slot, list[i].control};
    a->n_asked = n;
    a->sigma = sigma;
}

void graft_answers_tell(const graft_answers *a)
{
    const graft_task *t = a->c->task;
    if (a->c->model->easycache.verbose && t)
        graft_log_printf(&t->log, GRAFT_LOG_INFO,
                         "EasyCache: %zu of %zu evaluations of the model were left out",
                         a->left_out, a->evaluations);
}
