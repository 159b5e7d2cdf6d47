/* Weight sets: which bytes fill the slots of a graph.
 *
 * A set names tensors of one or more mapped files; nothing is read until a slot is loaded
 * (slot_data.h). Content is identified by a 128-bit hash of its bytes, dtype and patches, so that
 * equal tensors of two checkpoints are one for everything that is derived from them. A set may be a
 * sum of others: its tensors are computed when they are loaded. Immutable once shared; any thread.
 */
#ifndef GRAFT_WEIGHTS_WEIGHTS_H
#define GRAFT_WEIGHTS_WEIGHTS_H
#include "base/hash.h"
#include "base/log.h"
#include "engine/graph/graph.h"
#include "engine/weights/safetensors.h"
#include "engine/weights/tensor_scan.h"

typedef struct graft_weights graft_weights;

/* All tensors of a file. Takes over `file` (closed with the last reference, or on failure). */
graft_status graft_weights_create(graft_safetensors *file, graft_weights **out, graft_err *e);
/* The part of `base` whose tensors' names begin with `prefix`; names below are without it. */
graft_status graft_weights_part(graft_weights *base, const char *prefix, graft_weights **out,
                                graft_err *e);
const char *graft_weights_prefix(const graft_weights *w);
graft_weights *graft_weights_retain(graft_weights *w);
void graft_weights_release(graft_weights *w);
const graft_safetensors *graft_weights_file(const graft_weights *w);

/* A UNet's regions, which a sum may weigh apart: FIRST has input_blocks and what is in no block
 * (the embeddings of time and label), LAST has output_blocks and out. Other networks are all FIRST.
 */
typedef enum graft_region {
    GRAFT_REGION_FIRST = 0,
    GRAFT_REGION_MIDDLE = 1,
    GRAFT_REGION_LAST = 2
} graft_region;
#define GRAFT_REGIONS 3
graft_region graft_region_of(const char *name);

/* The thirds of a tensor's rows, which a sum may weigh apart, too: queries, keys and values where a
 * file has the three in one matrix. */
#define GRAFT_THIRDS 3
/* How much of a set counts in a sum, tensor by tensor. `of` fills in the share of each third;
 * `name` is without the set's prefix. */
typedef struct graft_shares {
    void (*of)(const void *ctx, const char *name, double share[GRAFT_THIRDS]);
    const void *ctx;
} graft_shares;
/* From the least to the largest of several. */
typedef struct graft_span {
    double least, most;
} graft_span;

/* A matrix: `whole`, or a x b, or with a core (rank_a,rank_b,kernel) a x core x b, as a
 * convolution's three parts are multiplied. What is not there is NULL. */
typedef struct graft_factors {
    const graft_st_tensor *whole, *a, *b, *core;
    bool turned; /* a is stored as (rank,rows), as LyCORIS does where there is a core */
} graft_factors;

typedef enum graft_patch_form {
    GRAFT_PATCH_LOW_RANK = 0, /* part[0]: LoRA (Hu et al. 2021, arXiv:2106.09685), LoCon, or a whole
                                 difference */
    GRAFT_PATCH_HADAMARD = 1, /* part[0] times part[1], value by value: LoHa (Hyeon-Woo et al. 2021,
                                 arXiv:2108.06098) */
    GRAFT_PATCH_KRONECKER = 2 /* part[0] (x) part[1]: LoKr (Yeh et al. 2023, arXiv:2309.14859) */
} graft_patch_form;

/* A change to one tensor: W += strength * scale * delta, or with a magnitude W += strength * (m * V
 * / |V| - W), V = W + scale * delta: DoRA (Liu et al. 2024, arXiv:2402.09353), where W is what the
 * tensor is without patches, and |V| the length of each output's weights, or of each input's where
 * m has shape (1,inputs,…). Made by graft_patch_make (patch.h). */
typedef struct graft_patch {
    graft_patch_form form;
    graft_factors part[2];
    const graft_st_tensor *magnitude; /* m, or NULL */
    int64_t row, rows;           /* the rows of the tensor that it changes; rows 0: all of them */
    int64_t from_row, from_rows; /* delta has from_rows, of which those from from_row on are meant;
                                    from_rows 0: as many as it changes */
    float scale;                 /* alpha / rank; 1 without alpha */
    float strength;
    graft_hash hash; /* of everything above but the strength */
} graft_patch;
/* A new set: `base` with one more patch on tensor name[i] for each i, at least one, all of one
 * strength. `owner`, a set whose file holds the patches' tensors, is kept alive. */
graft_status graft_weights_patch(graft_weights *base, const char *const *name,
                                 const graft_patch *patch, size_t n, graft_weights *owner,
                                 graft_weights **out, graft_err *e);

/* A new set: fa * a + fb * b, tensor by tensor, each with its patches; factors by region. Both have
 * the same tensors in the same shapes; names, and what is no weight, are a's. Sums of sums become
 * one sum, in which a file occurs once: what cancels out is not read, and what remains alone with a
 * factor of 1 is the file's tensor, bit by bit. GRAFT_E_UNSUPPORTED where a DoRA's patch would be
 * part of it. */
graft_status graft_weights_sum(graft_weights *a, const double fa[GRAFT_REGIONS], graft_weights *b,
                               const double fb[GRAFT_REGIONS], graft_weights **out, graft_err *e);
/* The same with shares by tensor. `b` and `of_b` may be NULL: of_a * a; what counts once there
 * stays as it is, a DoRA's patch included. */
graft_status graft_weights_mix(graft_weights *a, const graft_shares *of_a, graft_weights *b,
                               const graft_shares *of_b, graft_weights **out, graft_err *e);
/* A new set: a + b where b has the tensor, else a's own; b with its patches. For a network that is
 * a copy of b in part only, and holds differences from it there. */
graft_status graft_weights_add(graft_weights *a, graft_weights *b, graft_weights **out,
                               graft_err *e);
/* A new set: what a's file has, and for all that it lacks b's tensors with b's patches; a's patches
 * come behind those. For a network that is a copy of b in part only, and holds changes to it there.
 * a is no sum and no such set, nor is b. */
graft_status graft_weights_over(graft_weights *a, graft_weights *b, graft_weights **out,
                                graft_err *e);
/* A new set: b's tensors, and a's beside them, whose names begin with `called` there: shorter than
 * this, and the beginning of none of b's names. For a network within which others run. a is a
 * file's part, without patches; b may be any set but of graft_weights_over(). */
#define GRAFT_WEIGHTS_CALLED 16
graft_status graft_weights_beside(graft_weights *a, const char *called, graft_weights *b,
                                  graft_weights **out, graft_err *e);
/* A new set: without patches. */
graft_status graft_weights_plain(const graft_weights *w, graft_weights **out, graft_err *e);

/* A new set: `base` with the patches that `from` has, for a base whose tensors have the same
 * shapes. */
graft_status graft_weights_rebase(graft_weights *base, const graft_weights *from,
                                  graft_weights **out, graft_err *e);

/* The stored tensor, without patches, of a sum that of its first set; NULL when absent. */
const graft_st_tensor *graft_weights_find(const graft_weights *w, const char *name);
/* Whether every slot of the graph has a source of the right size; names the first that has not. */
graft_status graft_weights_check(const graft_weights *w, const graft_graph *g, graft_err *e);
/* Names the slot's content: equal hashes, equal values. Reads the tensors the first time. */
graft_status graft_weights_slot_hash(const graft_weights *w, const graft_gslot *slot,
                                     graft_hash *out, graft_err *e);

/* The same of a few bytes of each tensor: equal content, equal samples, and seldom the other way
 * round. */
graft_status graft_weights_slot_sample(const graft_weights *w, const graft_gslot *slot,
                                       graft_hash *out, graft_err *e);
/* Warns of non-finite values that hashing found, once a tensor. */
void graft_weights_report(const graft_weights *w, const graft_gslot *slot, const graft_log *log);

/* Whether graft_weights_slot_hash would answer without reading tensors. */
bool graft_weights_slot_hashed(const graft_weights *w, const graft_gslot *slot);
/* Whether a patch whose strength is not 0 changes the slot. */
bool graft_weights_slot_patched(const graft_weights *w, const graft_gslot *slot);
/* Whether its values are none that a file stores: patched, scaled, packed in blocks, or a sum. */
bool graft_weights_slot_derived(const graft_weights *w, const graft_gslot *slot);
/* Whether they are of no file alone, scaled, packed or not: patched, or a sum. */
bool graft_weights_slot_mixed(const graft_weights *w, const graft_gslot *slot);
/* Whether more than one reference is held at this moment. */
bool graft_weights_shared(const graft_weights *w);
/* The i-th set whose file holds patches of this one, in the order of adding, and the strengths of
 * those patches by region; a region without any has those of the first that has some, and where
 * there are none at all they are 0. NULL past the end. */
const graft_weights *graft_weights_owner(const graft_weights *w, size_t i,
                                         graft_span strength[GRAFT_REGIONS]);
/* The i-th file that the set is a sum of, and its factors by region, likewise; NULL past the end,
 * and where the set is no sum. */
const graft_safetensors *graft_weights_summand(const graft_weights *w, size_t i,
                                               graft_span factor[GRAFT_REGIONS]);
bool graft_weights_is_sum(const graft_weights *w);
/* Bytes that the files store for this part, patches not counted. */
uint64_t graft_weights_stored_bytes(const graft_weights *w);
/* GRAFT_F16 or GRAFT_BF16 when the set has its file's tensors as they are, and all floats of more
 * than one dimension have that type; else GRAFT_DTYPE_NONE. Quantized ones are none of either. */
graft_dtype graft_weights_narrow(const graft_weights *w);
/* Tensors that carry a patch whose strength is not 0, and patches in all. */
void graft_weights_patch_count(const graft_weights *w, size_t *tensors, size_t *patches);

/* One stored tensor of those whose sum a tensor is. */
typedef struct graft_weight_term {
    const graft_st_tensor *tensor; /* NULL: its file lacks it */
    graft_tensor_state *state;
    const graft_safetensors *file;
    const char *prefix;
    float factor[GRAFT_THIRDS]; /* of each third, not all 0; with the tensor's own scale */
} graft_weight_term;
/* The next one of tensor `name`, from number *at on, which is 0 at first; false at the end. A set
 * that is no sum has one term. */
bool graft_weights_next_term(const graft_weights *w, const char *name, size_t *at,
                             graft_weight_term *out);
/* Whether the tensor is one of a file alone, once and without patches; *out is its only term then.
 */
bool graft_weights_only(const graft_weights *w, const char *name, graft_weight_term *out);
/* The same of one that can stay packed as it is (packed.h). */
bool graft_weights_packed(const graft_weights *w, const char *name, graft_weight_term *out);
/* Names of tensors that can stay packed, as they are or as Q8_0 (graft_packed_as()), whether or not
 * patches or other terms of a sum change them: the next one from number *at on, which is 0 at
 * first; false at the end. A longer name is passed over. */
#define GRAFT_WEIGHTS_NAME 300
bool graft_weights_next_packed(const graft_weights *w, size_t *at, char name[GRAFT_WEIGHTS_NAME]);
/* The values of all of them. */
uint64_t graft_weights_packed_values(const graft_weights *w);
/* Whether the tensor is one that a file stores, unchanged; *out is its only term then. */
bool graft_weights_stored(const graft_weights *w, const char *name, graft_weight_term *out);
/* Values first .. first + n of tensor `name` as float32, patches not counted. Of quantized tensors
 * all values must be asked for. All terms must be there and hold so many. */
graft_status graft_weights_values(const graft_weights *w, const char *name, int64_t first,
                                  int64_t n, float *out, graft_err *e);
/* All n values of it, with its patches; `target` has its shape. */
graft_status graft_weights_patched_values(const graft_weights *w, const char *name,
                                          const graft_st_tensor *target, int64_t n, float *out,
                                          graft_err *e);

/* What source k of the slot is made of: a tensor as it is stored, and its patches. */
typedef struct graft_slot_source {
    const graft_st_tensor *tensor; /* of a sum: one of them, for its shape */
    bool sum; /* or scaled, or packed in blocks: the values are those of graft_weights_values();
                 hashes and state are nothing */
    const graft_patch *patch; /* n_patches; those of strength 0 do nothing */
    size_t n_patches;
    int64_t rows;       /* of the slot, that it gives */
    graft_hash sample;  /* of the stored tensor */
    graft_hash content; /* likewise, where it was asked for: the tensor is read the first time */
    graft_tensor_state *state; /* what is known of the stored tensor */
} graft_slot_source;
graft_status graft_weights_source(const graft_weights *w, const graft_gslot *slot, size_t k,
                                  bool content, graft_slot_source *out, graft_err *e);

/* Before reading: GRAFT_E_IO when somebody wrote into a file of theirs. */
graft_status graft_weights_unchanged(const graft_weights *w, graft_err *e);
/* Lets the system take back the mapped pages of the slot's sources. */
void graft_weights_forget(const graft_weights *w, const graft_gslot *slot);
#endif
