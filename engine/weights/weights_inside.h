/* The inside of a weight set, for the files that make and read one (weights.c, sum.c). */
#ifndef GRAFT_WEIGHTS_WEIGHTS_INSIDE_H
#define GRAFT_WEIGHTS_WEIGHTS_INSIDE_H
#include <stdatomic.h>

#include "base/map.h"
#include "engine/weights/weights.h"

/* The file and what was learned of it: shared by a set and all sets made from it. */
typedef struct graft_set_file {
    _Atomic int refs;
    graft_safetensors *file;
    graft_tensor_state *state; /* of each tensor, as in graft_safetensors_at() */
} graft_set_file;

typedef struct graft_set_place {
    graft_set_file *file;
    char prefix[128];
    char called[GRAFT_WEIGHTS_CALLED]; /* the set's names begin with this, and the file's do not */
} graft_set_place;

typedef struct graft_set_term {
    graft_set_place place;
    double (*share)[GRAFT_THIRDS]; /* of each tensor, by its number in the file that has the names;
                                      0 for those that are not in the set's part of it */
    bool partly;                   /* what it lacks counts for nothing; else that is an error */
} graft_set_term;

typedef struct graft_set_patches {
    graft_patch *patch;
    size_t n;
} graft_set_patches;

struct graft_weights {
    _Atomic int refs;
    graft_set_place place;  /* of a sum: the first set's, which has the names */
    graft_map patches;      /* tensor name without prefix -> graft_set_patches */
    graft_weights **owners; /* whose files hold the patches */
    size_t n_owners;
    graft_set_term *term; /* NULL: the place's tensors as they are; else n_terms, which may be 0 */
    size_t n_terms;
    graft_weights *below; /* has the tensors that the place lacks; its patches are among these.
                           * NULL: none, and where there is one there are no terms; only a set
                           * whose place is called something stands over another such set */
};

/* A set on the same file with the same prefix: no patches, owners and terms. NULL: no memory. */
graft_weights *graft_set_create(const graft_set_place *place);
void graft_set_file_release(graft_set_file *f);
void graft_set_term_finish(graft_set_term *t);
const graft_st_tensor *graft_set_find(const graft_set_place *p, const char *name);
graft_status graft_set_add_patch(graft_weights *w, const char *name, const graft_patch *patch,
                                 graft_err *e);
#endif
