/* What files in diffusers' names are translated with (diffusers_file.h). */
#ifndef GRAFT_MODELS_DIFFUSERS_NAMES_H
#define GRAFT_MODELS_DIFFUSERS_NAMES_H
#include "engine/models/names/diffusers_layers.h"
#include "engine/weights/safetensors.h"

bool graft_diffusers_has(const graft_safetensors *f, const char *tensor);
/* *count becomes at least one more than the largest block whose tensors' names begin with `blocks`
 * and its number. GRAFT_E_UNSUPPORTED for one that `what` cannot have. */
graft_status graft_diffusers_count_blocks(const graft_safetensors *f, const char *blocks,
                                          const char *what, int32_t *count, graft_err *e);

/* New names on their way into a file. The first failure stays, and nothing is done after it. */
typedef struct graft_diffusers_names {
    graft_safetensors *f;
    graft_st_alias *alias; /* one for each tensor; names are owned */
    size_t count;          /* of tensors, before any are joined */
    graft_status status;
    graft_err *e;
} graft_diffusers_names;

/* *n is finished in any case, after a failure too. */
graft_status graft_diffusers_names_init(graft_diffusers_names *n, graft_safetensors *f,
                                        graft_err *e);
void graft_diffusers_names_finish(graft_diffusers_names *n);

/* The tensor, which must be there, has our name from now on. `kernel`: see graft_st_alias. */
void graft_diffusers_names_tensor(graft_diffusers_names *n, graft_name ours, graft_name theirs,
                                  bool kernel);
/* The same for one that is a vector with us, whatever its shape there. */
void graft_diffusers_names_vector(graft_diffusers_names *n, graft_name ours, graft_name theirs);
/* A layer's weight and bias. */
void graft_diffusers_names_layer(graft_diffusers_names *n, graft_name ours, graft_name theirs);
/* n tensors become one, with the rows of all in this order; or one whose halves change places. */
void graft_diffusers_names_rows(graft_diffusers_names *n, graft_name ours, const graft_name *theirs,
                                int pieces, bool exchanged);
/* A layer that is made of these: its weight and bias; or of a norm its one vector, which is called
 * `vector` with us and "weight" there. NULL: no norm. */
void graft_diffusers_names_joined(graft_diffusers_names *n, graft_name ours,
                                  const graft_diffusers_rows *theirs, const char *vector);
/* The halves of a layer's rows become two layers. */
void graft_diffusers_names_halves(graft_diffusers_names *n, graft_name first, graft_name second,
                                  graft_name theirs);
/* A residual block's layers; "conv_shortcut" may be missing where conv1 changes no channels. */
void graft_diffusers_names_residual(graft_diffusers_names *n, const graft_diffusers_pair *list,
                                    graft_name ours, graft_name theirs);
/* Whether a tensor of the file begins with this. */
bool graft_diffusers_names_any(const graft_diffusers_names *n, graft_name prefix);
/* Gives the file its names. GRAFT_E_UNSUPPORTED for a tensor that got none, unless it is a mark,
 * which has no point in its name; `what`: the network that has no such tensor. */
graft_status graft_diffusers_names_apply(graft_diffusers_names *n, const char *what);
#endif
