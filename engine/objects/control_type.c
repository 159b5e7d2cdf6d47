#include <string.h>

#include "base/alloc.h"
#include "engine/objects/control.h"

static const char *const types[] = {GRAFT_CONTROLNET_TYPES};
#define N_TYPES (sizeof types / sizeof *types)
_Static_assert(N_TYPES == 1 + GRAFT_CONTROL_TYPES, "a name for each type, and one for none");

static graft_status check(const graft_controlnet *n, const char *type, size_t i, graft_err *e)
{
    if (i == N_TYPES)
        return graft_fail(e, GRAFT_E_ARG, "\"%s\" is not a type of a ControlNet's pictures", type);
    if (!n->arch.types || i <= (size_t)n->arch.types) return GRAFT_OK;
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
    if (i) copy->type[i - 1] = copy->told = 1;
    *out = copy;
    return GRAFT_OK;
}
