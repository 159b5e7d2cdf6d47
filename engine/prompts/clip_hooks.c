#include "engine/prompts/clip_hooks.h"

#include <string.h>

#include "base/alloc.h"

graft_clip_hooking *graft_clip_hooking_create(const graft_hooks *hooks, bool on_prompts,
                                              bool scheduled)
{
    graft_clip_hooking *h = graft_calloc(1, sizeof *h);
    if (!h) return NULL;
    h->hooks = graft_hooks_retain((graft_hooks *)(uintptr_t)hooks);
    h->on_prompts = on_prompts;
    h->scheduled = scheduled;
    pthread_mutex_init(&h->lock, NULL);
    return h;
}

void graft_clip_hooking_destroy(graft_clip_hooking *h)
{
    if (!h) return;
    for (size_t i = 0; i < h->n_sets; i++) graft_clip_release(h->set[i].clip);
    graft_hooks_release(h->hooks);
    pthread_mutex_destroy(&h->lock);
    graft_free(h);
}

graft_status graft_clip_hooks(const graft_clip *c, const graft_hooks *h, bool on_prompts,
                              bool scheduled, graft_clip **out, graft_err *e)
{
    graft_clip_hooking *hooking = graft_clip_hooking_create(h, on_prompts, scheduled);
    graft_clip *n = hooking ? graft_clip_copy(c) : NULL;
    if (!n) {
        graft_clip_hooking_destroy(hooking);
        return graft_fail_nomem(e, "text encoder");
    }
    graft_clip_hooking_destroy(n->hooking);
    n->hooking = hooking;
    *out = n;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ stretches */

/* Shares of the schedule are compared as they are: what they are as sigmas depends on the model. */
static bool begun(const void *ctx, double start)
{
    return start <= *(const double *)ctx;
}

/* The next start after `share` at which some keyframe begins; 1 where there is none. */
static double next_start(const graft_hooks *h, double share)
{
    double next = 1;
    for (size_t i = 0; i < h->n; i++) {
        const graft_keyframes *k = h->item[i].keyframes;
        for (size_t f = 0; k && f < k->n; f++)
            if (k->frame[f].start > share && k->frame[f].start < next) next = k->frame[f].start;
    }
    return next;
}

typedef struct stretch {
    double start, end;
    graft_hash key;
} stretch;

/* From *start on, as far as the encoder's weights stay the same. */
static stretch next_stretch(const graft_clip_hooking *h, double start)
{
    graft_hook_moment now = {begun, &start};
    stretch s = {start, 1, graft_hooks_key(h->hooks, h->scheduled ? &now : NULL, true)};
    while (h->scheduled && (s.end = next_start(h->hooks, start)) < 1) {
        start = s.end; /* which `now` sees */
        if (!graft_hash_equal(s.key, graft_hooks_key(h->hooks, &now, true))) break;
    }
    return s;
}

/* ------------------------------------------------------------------ encoders of a stretch */

static graft_clip *find_set(graft_clip_hooking *h, graft_hash key)
{
    graft_clip *found = NULL;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < h->n_sets && !found; i++) {
        const struct graft_clip_set s = h->set[i];
        if (!graft_hash_equal(s.key, key)) continue;
        memmove(h->set + 1, h->set, i * sizeof s);
        h->set[0] = s;
        found = graft_clip_retain(s.clip);
    }
    pthread_mutex_unlock(&h->lock);
    return found;
}

static void keep_set(graft_clip_hooking *h, graft_clip *clip, graft_hash key)
{
    const struct graft_clip_set s = {key, graft_clip_retain(clip)};
    graft_clip *gone = NULL;
    pthread_mutex_lock(&h->lock);
    if (h->n_sets == GRAFT_CLIP_SETS) gone = h->set[--h->n_sets].clip;
    memmove(h->set + 1, h->set, h->n_sets * sizeof s);
    h->set[0] = s;
    h->n_sets++;
    pthread_mutex_unlock(&h->lock);
    graft_clip_release(gone);
}

/* Takes c's reference over. */
static graft_status change(const graft_hooks *h, const graft_hook_moment *now,
                           const graft_task *task, graft_clip *c, graft_clip **out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < h->n && !st; i++) {
        const graft_hook_item *k = &h->item[i];
        const double strength = graft_hook_strength(k, now, true);
        graft_clip *next = NULL;
        if (strength == 0) continue;
        st = k->hook->kind->clip(k->hook, c, strength, task, &next, e);
        if (st) break;
        graft_clip_release(c);
        c = next;
    }
    if (st)
        graft_clip_release(c);
    else
        *out = c;
    return st;
}

static graft_status clip_of(const graft_clip *c, const stretch *s, const graft_task *task,
                            graft_clip **out, graft_err *e)
{
    graft_clip_hooking *h = c->hooking;
    const graft_hook_moment now = {begun, &s->start};
    *out = find_set(h, s->key);
    if (*out) return GRAFT_OK;
    graft_clip *plain = graft_clip_copy(c);
    if (!plain) return graft_fail_nomem(e, "text encoder");
    graft_clip_hooking_destroy(plain->hooking);
    plain->hooking = NULL;
    graft_status st = change(h->hooks, h->scheduled ? &now : NULL, task, plain, out, e);
    if (!st) keep_set(h, *out, s->key);
    return st;
}

/* ------------------------------------------------------------------ prompts */

/* One of a stretch alone is as new, so its entries are nobody else's. */
static void mark(graft_cond *c, const stretch *s)
{
    for (size_t i = 0; i < c->n; i++) {
        c->entry[i]->has_stretch = s->start > 0 || s->end < 1;
        c->entry[i]->stretch_start = s->start;
        c->entry[i]->stretch_end = s->end;
    }
}

/* Takes `one` over; *all NULL: it becomes that. */
static graft_status join(graft_cond **all, graft_cond *one, graft_err *e)
{
    graft_cond *both = one;
    graft_status st = *all ? graft_cond_combine(*all, one, &both, e) : GRAFT_OK;
    if (*all) {
        graft_cond_release(one);
        if (!st) graft_cond_release(*all);
    }
    if (!st) *all = both;
    return st;
}

static graft_status encode_stretch(const graft_clip *c, const stretch *s,
                                   graft_clip_encoder_fn *encode, const void *what, size_t n,
                                   const graft_task *task, graft_cond **out, graft_err *e)
{
    graft_clip *changed = NULL;
    graft_cond *one[GRAFT_CLIP_CONDS] = {NULL};
    graft_status st = clip_of(c, s, task, &changed, e);
    if (!st) st = encode(changed, what, task, one, e);
    for (size_t i = 0; i < n && !st; i++) {
        mark(one[i], s);
        st = join(&out[i], one[i], e);
        one[i] = NULL;
    }
    for (size_t i = 0; i < n; i++) graft_cond_release(one[i]);
    graft_clip_release(changed);
    return st;
}

static graft_status add_hooks(const graft_clip_hooking *h, graft_cond **c, graft_err *e)
{
    graft_cond *hooked = NULL;
    if (!h->on_prompts) return GRAFT_OK;
    graft_status st = graft_cond_hooks(*c, h->hooks, &hooked, e);
    if (st) return st;
    graft_cond_release(*c);
    *c = hooked;
    return GRAFT_OK;
}

graft_status graft_clip_encode_hooked(const graft_clip *c, graft_clip_encoder_fn *encode,
                                      const void *what, size_t n, const graft_task *task,
                                      graft_cond **out, graft_err *e)
{
    graft_status st = graft_clip_there(c, e);
    for (size_t i = 0; i < n; i++) out[i] = NULL;
    for (double start = 0; start < 1 && !st;) {
        const stretch s = next_stretch(c->hooking, start);
        st = encode_stretch(c, &s, encode, what, n, task, out, e);
        start = s.end;
    }
    for (size_t i = 0; i < n && !st; i++) st = add_hooks(c->hooking, &out[i], e);
    for (size_t i = 0; i < n && st; i++) {
        graft_cond_release(out[i]);
        out[i] = NULL;
    }
    return st;
}
