/* What the nodes have in common that say where, when, how strongly and with which hooks prompts
 * count. */
#ifndef GRAFT_NODES_COND_PROPS_H
#define GRAFT_NODES_COND_PROPS_H
#include "nodes/node.h"

#define IN_PROP_STRENGTH()                                                                         \
    IN_FLOAT("strength", 1.0, 0.0, 10.0, 0.01,                                                     \
             "How much the new prompt counts beside others that lie in the same place.")
#define IN_PROP_AREA()                                                                             \
    IN_CHOICE("set_cond_area", CHOICES("default", "mask bounds"),                                  \
              "With a mask. default: the prompt is drawn with all of the picture in view. mask "   \
              "bounds: with the part around the mask, as if that were a picture of its own.")
#define IN_PROP_MASK()                                                                             \
    IN_OBJECT("mask", "MASK",                                                                      \
              "Where the new prompt counts; it is scaled to the picture. Grey counts less.",       \
              .flags = GRAFT_INPUT_OPTIONAL)
#define IN_PROP_HOOKS()                                                                            \
    IN_OBJECT("hooks", "HOOKS", "LoRAs for the new prompt alone, behind those that it has.",       \
              .flags = GRAFT_INPUT_OPTIONAL)
#define IN_PROP_TIMESTEPS()                                                                        \
    IN_OBJECT("timesteps", "TIMESTEPS_RANGE",                                                      \
              "The part of the steps in which the new prompt counts, from Timesteps Range.",       \
              .flags = GRAFT_INPUT_OPTIONAL)

/* The prompts of input `cond` with the five inputs from number `first` on, which have the order of
 * the macros above. */
graft_status graft_cond_props_set(graft_call *c, int cond, int first, graft_cond **out);
/* Those of input `before`, and these. */
graft_status graft_cond_props_add(graft_call *c, int before, int cond, int first, graft_cond **out);
#endif
