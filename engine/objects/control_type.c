#include <string.h>

#include "base/alloc.h"
#include "engine/objects/control.h"

static const char *const types[] = {GRAFT_CONTROLNET_TYPES};
#define N_TYPES (sizeof types / sizeof *types)
_Static_assert(N_TYPES == 1 + GRAFT_CONTROL_TYPES, "a name for each type, and one for none");

/* A transformer's numbers its types otherwise (InstantX and Shakker-Labs 2024): canny, tile, depth,
 * blur, pose, grey, low quality. By the order of the names: their numbers there, or -1. */
static const int of_transformer[N_TYPES - 1] = {[0] = 4,  /* openpose */
                                                [1] = 2,  /* depth */
                                                [2] = -1, /* hed, scribble */
                                                [3] = 0,  /* canny */
                                                [4] = -1, /* normal */
                                                [5] = -1, /* segment */
                                                [6] = 1,  /* tile */
                                                [7] = -1 /* repaint */};

/* The place of name i, which is not the first, in a ControlNet's vector; -1: it has none. */
static int place_of(const graft_controlnet *n, size_t i)
{
    const int place = n->arch.kind == GRAFT_NET_UNET ? (int)i - 1 : of_transformer[i - 1];
    return place < n->arch.types ? place : -1;
}

static graft_status check(const graft_controlnet *n, const char *type, size_t i, graft_err *e)
{
    if (i == N_TYPES)
        return graft_fail(e, GRAFT_E_ARG, "\"%s\" is not a type of a ControlNet's pictures", type);
    if (!n->arch.types || !i || place_of(n, i) >= 0) return GRAFT_OK;
    if (n->arch.kind != GRAFT_NET_UNET)
        return graft_fail(
            e, GRAFT_E_ARG,
            "%s: \"%s\" is none of the types of pictures that union ControlNets for "
            "FLUX.1 know: openpose, depth, canny/lineart/anime_lineart/mlsd and tile, "
            "as many as this one has; with auto it is told none",
            graft_safetensors_path(graft_weights_file(n->weights)), type);
    return graft_fail(e, GRAFT_E_ARG,
                      "%s: this union ControlNet knows %d types of pictures, and \"%s\" is none of "
                      "them; the one with 8 (promax) knows it",
                      graft_safetensors_path(graft_weights_file(n->weights)), n->arch.types, type);
}

graft_status graft_controlnet_with_type(const graft_controlnet *n, const char *type,
                                        const graft_task *task, graft_controlnet **out,
                                        graft_err *e)
{
    size_t i = 0; /* 0: not told */
    while (i < N_TYPES && strcmp(types[i], type) != 0) i++;
    graft_status st = check(n, type, i, e);
    if (st) return st;
    if (!n->arch.types) {
        if (i)
            graft_log_printf(task ? &task->log : &n->engine->log, GRAFT_LOG_WARN,
                             "%s: not a union ControlNet; the type \"%s\" changes nothing",
                             graft_safetensors_path(graft_weights_file(n->weights)), type);
        *out = graft_controlnet_retain((graft_controlnet *)n);
        return GRAFT_OK;
    }
    graft_controlnet *copy = graft_calloc(1, sizeof *copy);
    if (!copy) return graft_fail_nomem(e, "ControlNet");
    atomic_init(&copy->refs, 1);
    copy->engine = n->engine;
    copy->arch = n->arch;
    copy->weights = graft_weights_retain(n->weights);
    if (i) copy->type[place_of(n, i)] = copy->told = 1;
    *out = copy;
    return GRAFT_OK;
}
