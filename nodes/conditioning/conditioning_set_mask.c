/* ConditioningSetMask: a prompt that counts where a mask is white. */
#include "nodes/node.h"

enum { CONDITIONING, MASK, STRENGTH, SET_COND_AREA };
static const graft_input *const inputs[] = {
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "The prompt to place."),
    [MASK] = IN_OBJECT("mask", "MASK",
                       "Where the prompt counts; it is scaled to the picture. Grey counts less."),
    [STRENGTH] = IN_FLOAT("strength", 1.0, 0.0, 10.0, 0.01,
                          "How much the prompt counts beside others that lie in the same place."),
    [SET_COND_AREA] =
        IN_CHOICE("set_cond_area", CHOICES("default", "mask bounds"),
                  "default: the prompt is drawn with all of the picture in view. mask bounds: with "
                  "the part around the mask, as if that were a picture of its own."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The prompt, under its mask only."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_status st = graft_cond_mask(
        graft_arg_cond(c, CONDITIONING), graft_arg_mask(c, MASK), graft_arg_f64(c, STRENGTH),
        graft_arg_is(c, SET_COND_AREA, "mask bounds"), &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(conditioning_set_mask, .id = "ConditioningSetMask", .title = "Conditioning (Set Mask)",
           .category = "conditioning",
           .description = "Lets a prompt count where a mask is white. Combine it with prompts for "
                          "the rest of the picture.");
