/* Hooks from the inside (engine/hooks.h). A hook is what changes weights; a list of them is what
 * prompts and text encoders hold, with strengths and keyframes for each.
 *
 * What a hook does is in folders behind this one, since files are opened there: it has functions
 * for it. Hooks and keyframes are immutable. Of lists all that prompts see is immutable; the sets
 * of weights that they keep are behind a lock. Any thread. */
#ifndef GRAFT_OBJECTS_HOOKS_H
#define GRAFT_OBJECTS_HOOKS_H
#include "engine/objects/objects.h"

typedef struct graft_hook graft_hook;
/* `strength` is not 0; *out has a reference for the caller. */
typedef struct graft_hook_kind {
    graft_status (*model)(const graft_hook *h, const graft_model *m, double strength,
                          const graft_task *task, graft_model **out, graft_err *e);
    graft_status (*clip)(const graft_hook *h, const graft_clip *c, double strength,
                         const graft_task *task, graft_clip **out, graft_err *e);
    void (*destroy)(graft_hook *h);
} graft_hook_kind;
/* The first member of what a kind makes. */
struct graft_hook {
    _Atomic int refs;
    const graft_hook_kind *kind;
    graft_hash id; /* of the file's state: equal ids, equal changes */
};
void graft_hook_init(graft_hook *h, const graft_hook_kind *kind, const char *path);

struct graft_keyframes {
    _Atomic int refs;
    size_t n;
    graft_keyframe frame[]; /* by their starts */
};

typedef struct graft_hook_item {
    graft_hook *hook;
    double strength_model, strength_clip;
    graft_keyframes *keyframes; /* NULL: always 1 */
} graft_hook_item;

/* Weights of a model that a list has changed. */
typedef struct graft_hook_set {
    graft_engine *engine;
    graft_weights *base, *weights;
    graft_hash key;
} graft_hook_set;

struct graft_hooks {
    _Atomic int refs;
    pthread_mutex_t lock; /* of what follows */
    graft_hook_set set[GRAFT_HOOK_SETS];
    size_t n_sets; /* the last one used stands first */
    size_t n;
    graft_hook_item item[];
};

/* `before` and one more, whose reference is taken over, also on failure. */
graft_status graft_hooks_append(const graft_hooks *before, graft_hook *hook, double strength_model,
                                double strength_clip, graft_hooks **out, graft_err *e);

/* Which starts have come. */
typedef struct graft_hook_moment {
    bool (*begun)(const void *ctx, double start);
    const void *ctx;
} graft_hook_moment;
/* The strength of one of them then; now NULL: as without keyframes. */
double graft_hook_strength(const graft_hook_item *k, const graft_hook_moment *now, bool clip);

/* What a list does to a model's weights, or to a text encoder's, at a moment: equal keys, the same
 * changes. Zeros: nothing, also of h NULL. now NULL: as without keyframes. */
graft_hash graft_hooks_key(const graft_hooks *h, const graft_hook_moment *now, bool clip);
/* The model so changed, with its key, which is not zeros. Sets of weights that were made before are
 * found again; keep: this one is to be. */
graft_status graft_hooks_model(graft_hooks *h, const graft_model *m, const graft_hook_moment *now,
                               graft_hash key, bool keep, const graft_task *task, graft_model **out,
                               graft_err *e);
#endif
