/* ComfySwitchNode: one of two values; only that one is computed. */
#include "nodes/node.h"

enum { SWITCH, ON_FALSE, ON_TRUE };
static const graft_input *const inputs[] = {
    [SWITCH] = IN_BOOL("switch", false, "Which of the two: off is on_false, on is on_true."),
    [ON_FALSE] = IN_OBJECT("on_false", "*",
                           "What comes out when the switch is off. It is computed only then.",
                           .flags = GRAFT_INPUT_LAZY),
    [ON_TRUE] =
        IN_OBJECT("on_true", "*", "What comes out when the switch is on. It is computed only then.",
                  .flags = GRAFT_INPUT_LAZY),
    NULL};
static const graft_output *const outputs[] = {OUT("output", "*", "The one that was chosen."), NULL};

static graft_status needed(void *self, const graft_arg *in, uint64_t *bits)
{
    (void)self;
    *bits = UINT64_C(1) << (in[SWITCH].u.i ? ON_TRUE : ON_FALSE);
    return GRAFT_OK;
}

static const void *query(const char *id)
{
    static const graft_lazy_api lazy = {needed};
    return strcmp(id, GRAFT_LAZY_ID) == 0 ? &lazy : NULL;
}

static graft_status run(graft_call *c)
{
    return graft_call_out_same(c, 0, graft_arg_bool(c, SWITCH) ? ON_TRUE : ON_FALSE);
}

GRAFT_NODE(switch, .id = "ComfySwitchNode", .title = "Switch", .category = "logic",
           .flags = GRAFT_NODE_EXPERIMENTAL, .query = query,
           .description = "Passes on one of two values of any kind, for example a model with or "
                          "without a LoRA. The other one is not computed.");
