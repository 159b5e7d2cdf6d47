/* Hypernetworks as AUTOMATIC1111's web UI trains them (2022): small networks before the keys and
 * values of a UNet's attentions. Where what keys and values are made of, the prompt or the picture
 * itself, is as wide as a pair of networks (h_k, h_v) is made for, an attention sees
 *
 *     to_k(c + s h_k(c)),  to_v(c + s h_v(c))
 *
 * in place of to_k(c) and to_v(c); s is the strength, an input of the graph. h is a row of linear
 * layers from the width back to it, behind each of them but the last, which may have it too, an
 * activation, and then a layer norm where the file has one there.
 *
 * Names in files are WIDTH.PART.linear.NUMBER.weight, PART 0 for keys and 1 for values, as graft
 * convert makes them of such a file's dictionaries; older ones have linear1 and linear2. Numbers
 * count activations and dropout, too, so there are gaps. What the activation is, and whether the
 * last layer has it, is in the file's metadata: activation_func, activate_output. Pure functions,
 * any thread. */
#ifndef GRAFT_MODELS_HYPERNETWORK_H
#define GRAFT_MODELS_HYPERNETWORK_H
#include "engine/models/parts/build.h"
#include "engine/weights/safetensors.h"

enum { GRAFT_HYPER_KEYS, GRAFT_HYPER_VALUES, GRAFT_HYPER_PARTS };
#define GRAFT_HYPER_WIDTHS 6
#define GRAFT_HYPER_LAYERS 12

typedef enum graft_hyper_act {
    GRAFT_HYPER_LINEAR = 0,
    GRAFT_HYPER_RELU = 1,
    GRAFT_HYPER_LEAKY = 2, /* 0.01 x where x is negative */
    GRAFT_HYPER_TANH = 3,
    GRAFT_HYPER_SIGMOID = 4,
    GRAFT_HYPER_HARD_SWISH = 5, /* x min(max(x + 3, 0), 6) / 6 (arXiv:1905.02244) */
    GRAFT_HYPER_SILU = 6,
    GRAFT_HYPER_GELU = 7
} graft_hyper_act;

typedef struct graft_hyper_layer {
    int32_t number, width; /* of what comes out */
    int32_t norm, bias;    /* 1: it is a layer norm; it has a bias, as norms always have */
} graft_hyper_layer;

/* n_widths 0: none. Unused places are zeros: it is part of keys. */
typedef struct graft_hypernetwork_arch {
    int32_t n_widths, act, act_at_end, old_names;
    struct graft_hyper_pair {
        int32_t width, n[GRAFT_HYPER_PARTS];
        graft_hyper_layer layer[GRAFT_HYPER_PARTS][GRAFT_HYPER_LAYERS];
    } pair[GRAFT_HYPER_WIDTHS];
} graft_hypernetwork_arch;

/* GRAFT_E_UNSUPPORTED: no hypernetwork, or an activation that is not there; GRAFT_E_FORMAT: its
 * layers do not follow from each other. */
graft_status graft_hypernetwork_detect(const graft_safetensors *f, graft_hypernetwork_arch *out,
                                       graft_err *e);
/* What its tensors' names begin with beside a UNet's (graft_weights_beside()). */
#define GRAFT_HYPER_CALLED "hyper."
/* x (N,T,C) -> the same: x + strength * h(x), or x itself where nothing is made for C. strength:
 * (1) float32. */
graft_vid graft_hypernetwork_build(const graft_build *b, const graft_hypernetwork_arch *a, int part,
                                   graft_vid x, graft_vid strength);
/* A graph of all of it, for its weights' sake, with its tensors' own names. */
graft_status graft_hypernetwork_build_all(const graft_hypernetwork_arch *a, graft_graph **out,
                                          graft_err *e);
#endif
