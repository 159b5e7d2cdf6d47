#include "engine/objects/hooks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

static const graft_hash nothing = {0, 0};

void graft_hook_init(graft_hook *h, const graft_hook_kind *kind, const char *path)
{
    graft_file_id file;
    atomic_init(&h->refs, 1);
    h->kind = kind;
    h->id = graft_hash128(path, strlen(path));
    memset(&file, 0, sizeof file);
    if (graft_file_identify(path, &file)) h->id = graft_hash128(&file, sizeof file);
    h->id = graft_hash_mix(h->id, &kind, sizeof kind);
}

static void hook_release(graft_hook *h)
{
    if (h && atomic_fetch_sub(&h->refs, 1) == 1) h->kind->destroy(h);
}

/* ------------------------------------------------------------------ keyframes */

graft_keyframes *graft_keyframes_retain(graft_keyframes *k)
{
    if (k) atomic_fetch_add(&k->refs, 1);
    return k;
}

void graft_keyframes_release(graft_keyframes *k)
{
    if (k && atomic_fetch_sub(&k->refs, 1) == 1) graft_free(k);
}

size_t graft_keyframes_count(const graft_keyframes *k)
{
    return k->n;
}

static graft_status check_keyframe(const graft_keyframe *k, graft_err *e)
{
    if (!(k->start >= 0 && k->start <= 1))
        return graft_fail(e, GRAFT_E_ARG, "a keyframe's start of %g is not between 0 and 1",
                          k->start);
    if (!isfinite(k->strength))
        return graft_fail(e, GRAFT_E_ARG, "a keyframe's strength must be a finite number");
    return GRAFT_OK;
}

/* Behind all that do not start later. */
static void insert(graft_keyframes *k, graft_keyframe one)
{
    size_t at = k->n++;
    for (; at > 0 && k->frame[at - 1].start > one.start; at--) k->frame[at] = k->frame[at - 1];
    k->frame[at] = one;
}

graft_status graft_keyframes_add(const graft_keyframes *before, const graft_keyframe *list,
                                 size_t n, graft_keyframes **out, graft_err *e)
{
    const size_t already = before ? before->n : 0;
    if (n > GRAFT_KEYFRAMES_MOST - already)
        return graft_fail(e, GRAFT_E_LIMIT, "there are at most %d keyframes", GRAFT_KEYFRAMES_MOST);
    for (size_t i = 0; i < n; i++) {
        graft_status st = check_keyframe(&list[i], e);
        if (st) return st;
    }
    graft_keyframes *k = graft_calloc(1, sizeof *k + (already + n) * sizeof k->frame[0]);
    if (!k) return graft_fail_nomem(e, "keyframes");
    atomic_init(&k->refs, 1);
    for (size_t i = 0; i < already; i++) insert(k, before->frame[i]);
    for (size_t i = 0; i < n; i++) insert(k, list[i]);
    *out = k;
    return GRAFT_OK;
}

/* 0: by a straight line, … in the order of the words; -1: none of them. */
static int interpolation_of(const char *name)
{
    static const char *const names[] = {GRAFT_INTERPOLATIONS};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(name, names[i]) == 0) return i;
    return -1;
}

static double eased(int how, double w)
{
    if (how == 1) return w * w;
    if (how == 2) return 1 - (1 - w) * (1 - w);
    return how == 3 ? w * w * (3 - 2 * w) : w;
}

graft_status graft_keyframes_curve(const graft_keyframe_curve *c, graft_keyframe *list,
                                   graft_err *e)
{
    const int how = interpolation_of(c->interpolation);
    if (how < 0) return graft_fail(e, GRAFT_E_ARG, "interpolation %s is unknown", c->interpolation);
    for (size_t i = 0; i < c->n; i++) {
        const double w = c->n > 1 ? (double)i / (double)(c->n - 1) : 0;
        list[i].start = c->from.start + (c->to.start - c->from.start) * w;
        list[i].strength = c->from.strength + (c->to.strength - c->from.strength) * eased(how, w);
    }
    return GRAFT_OK;
}

static double factor_of(const graft_keyframes *k, const graft_hook_moment *now)
{
    if (!k || !k->n) return 1;
    size_t i = 0;
    while (i + 1 < k->n && now->begun(now->ctx, k->frame[i + 1].start)) i++;
    return k->frame[i].strength;
}

/* ------------------------------------------------------------------ lists */

static void set_finish(graft_hook_set *s)
{
    graft_engine_release_weights(s->engine, s->weights);
    graft_engine_release_weights(s->engine, s->base);
}

graft_hooks *graft_hooks_retain(graft_hooks *h)
{
    if (h) atomic_fetch_add(&h->refs, 1);
    return h;
}

void graft_hooks_release(graft_hooks *h)
{
    if (!h || atomic_fetch_sub(&h->refs, 1) != 1) return;
    for (size_t i = 0; i < h->n_sets; i++) set_finish(&h->set[i]);
    for (size_t i = 0; i < h->n; i++) {
        hook_release(h->item[i].hook);
        graft_keyframes_release(h->item[i].keyframes);
    }
    pthread_mutex_destroy(&h->lock);
    graft_free(h);
}

size_t graft_hooks_count(const graft_hooks *h)
{
    return h->n;
}

static graft_status create(size_t room, graft_hooks **out, graft_err *e)
{
    graft_hooks *h = graft_calloc(1, sizeof *h + room * sizeof h->item[0]);
    if (!h) return graft_fail_nomem(e, "hooks");
    atomic_init(&h->refs, 1);
    pthread_mutex_init(&h->lock, NULL);
    *out = h;
    return GRAFT_OK;
}

static bool has(const graft_hooks *h, const graft_hook *hook)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->item[i].hook == hook) return true;
    return false;
}

static void add_all(graft_hooks *h, const graft_hooks *from)
{
    for (size_t i = 0; from && i < from->n; i++) {
        const graft_hook_item *k = &from->item[i];
        if (has(h, k->hook)) continue;
        atomic_fetch_add(&k->hook->refs, 1);
        graft_keyframes_retain(k->keyframes);
        h->item[h->n++] = *k;
    }
}

static graft_status check_count(const graft_hooks *h, graft_err *e)
{
    if (h->n <= GRAFT_HOOKS_MOST) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_LIMIT, "%zu hooks together: there are at most %d", h->n,
                      GRAFT_HOOKS_MOST);
}

graft_status graft_hooks_combine(const graft_hooks *a, const graft_hooks *b, graft_hooks **out,
                                 graft_err *e)
{
    graft_hooks *h = NULL;
    graft_status st = create((a ? a->n : 0) + (b ? b->n : 0), &h, e);
    if (st) return st;
    add_all(h, a);
    add_all(h, b);
    st = check_count(h, e);
    if (st)
        graft_hooks_release(h);
    else
        *out = h;
    return st;
}

graft_status graft_hooks_append(const graft_hooks *before, graft_hook *hook, double strength_model,
                                double strength_clip, graft_hooks **out, graft_err *e)
{
    graft_hooks *h = NULL;
    graft_status st = GRAFT_OK;
    if (!isfinite(strength_model) || !isfinite(strength_clip))
        st = graft_fail(e, GRAFT_E_ARG, "a hook's strength must be a finite number");
    if (!st) st = create((before ? before->n : 0) + 1, &h, e);
    if (st) {
        hook_release(hook);
        return st;
    }
    add_all(h, before);
    h->item[h->n++] = (graft_hook_item){hook, strength_model, strength_clip, NULL};
    st = check_count(h, e);
    if (st)
        graft_hooks_release(h);
    else
        *out = h;
    return st;
}

graft_status graft_hooks_schedule(const graft_hooks *h, const graft_keyframes *k, graft_hooks **out,
                                  graft_err *e)
{
    graft_hooks *n = NULL;
    graft_status st = graft_hooks_combine(h, NULL, &n, e);
    if (st) return st;
    for (size_t i = 0; i < n->n; i++) {
        graft_keyframes_release(n->item[i].keyframes);
        n->item[i].keyframes = graft_keyframes_retain((graft_keyframes *)(uintptr_t)k);
    }
    *out = n;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ what they do */

double graft_hook_strength(const graft_hook_item *k, const graft_hook_moment *now, bool clip)
{
    const double own = clip ? k->strength_clip : k->strength_model;
    return now ? own * factor_of(k->keyframes, now) : own;
}

graft_hash graft_hooks_key(const graft_hooks *h, const graft_hook_moment *now, bool clip)
{
    graft_hash key = nothing;
    for (size_t i = 0; h && i < h->n; i++) {
        const double strength = graft_hook_strength(&h->item[i], now, clip);
        if (strength == 0) continue;
        key = graft_hash_mix(key, &h->item[i].hook->id, sizeof key);
        key = graft_hash_mix(key, &strength, sizeof strength);
    }
    return key;
}

static graft_status change_model(const graft_hooks *h, const graft_model *m,
                                 const graft_hook_moment *now, const graft_task *task,
                                 graft_model **out, graft_err *e)
{
    graft_model *to = graft_model_retain((graft_model *)(uintptr_t)m);
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < h->n && !st; i++) {
        const graft_hook_item *k = &h->item[i];
        const double strength = graft_hook_strength(k, now, false);
        graft_model *next = NULL;
        if (strength == 0) continue;
        st = k->hook->kind->model(k->hook, to, strength, task, &next, e);
        if (st) break;
        graft_model_release(to);
        to = next;
    }
    if (st)
        graft_model_release(to);
    else
        *out = to;
    return st;
}

/* ------------------------------------------------------------------ sets that stay */

/* Weights made before, with a reference; NULL: there are none. */
static graft_weights *find_set(graft_hooks *h, const graft_weights *base, graft_hash key)
{
    graft_weights *found = NULL;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < h->n_sets && !found; i++) {
        const graft_hook_set s = h->set[i];
        if (s.base != base || !graft_hash_equal(s.key, key)) continue;
        memmove(h->set + 1, h->set, i * sizeof s);
        h->set[0] = s;
        found = graft_weights_retain(s.weights);
    }
    pthread_mutex_unlock(&h->lock);
    return found;
}

/* The longest unused one makes room. Releasing weights takes locks of the engine, so it comes when
 * ours is given back. */
static void keep_set(graft_hooks *h, const graft_model *m, graft_weights *changed, graft_hash key)
{
    const graft_hook_set s = {m->engine, graft_weights_retain(m->weights),
                              graft_weights_retain(changed), key};
    graft_hook_set gone = {0};
    pthread_mutex_lock(&h->lock);
    if (h->n_sets == GRAFT_HOOK_SETS) gone = h->set[--h->n_sets];
    memmove(h->set + 1, h->set, h->n_sets * sizeof s);
    h->set[0] = s;
    h->n_sets++;
    pthread_mutex_unlock(&h->lock);
    if (gone.engine) set_finish(&gone);
}

graft_status graft_hooks_model(graft_hooks *h, const graft_model *m, const graft_hook_moment *now,
                               graft_hash key, bool keep, const graft_task *task, graft_model **out,
                               graft_err *e)
{
    graft_weights *made = find_set(h, m->weights, key);
    if (!made) {
        graft_status st = change_model(h, m, now, task, out, e);
        if (!st && keep) keep_set(h, m, (*out)->weights, key);
        return st;
    }
    graft_model *n = graft_model_copy(m);
    if (!n) {
        graft_engine_release_weights(m->engine, made);
        return graft_fail_nomem(e, "model");
    }
    graft_weights_release(n->weights); /* m's, which holds it */
    n->weights = made;
    *out = n;
    return GRAFT_OK;
}
