/* The graph IR: operators over values, in execution order, with weights as numbered slots.
 *
 * A graph holds shapes and structure only. A weight is a slot: the names of the tensors that fill
 * it and what is done to them; values come when a weight set is bound. A view (reshape, slice) is
 * no operator but a value that names its root, an offset and strides, so that planner and kernels
 * see memory as it is.
 *
 * Builders use the functions below without checking each call: the first failure is kept in the
 * graph, later calls pass GRAFT_NO_VALUE through, and graft_graph_status() tells at the end. One
 * thread at a time while a graph is built; any thread once it is only read. */
#ifndef GRAFT_GRAPH_GRAPH_H
#define GRAFT_GRAPH_GRAPH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/str.h"
#include "kernels/op_desc.h"

typedef int32_t graft_vid;
#define GRAFT_NO_VALUE (-1)

typedef enum graft_graph_value_kind {
    GRAFT_VALUE_INPUT = 0,
    GRAFT_VALUE_WEIGHT = 1,
    GRAFT_VALUE_CONST = 2,
    GRAFT_VALUE_TEMP = 3
} graft_graph_value_kind;

typedef struct graft_gvalue {
    graft_graph_value_kind kind;
    int32_t index;     /* INPUT: its number; WEIGHT: slot; CONST: literal; TEMP: 0 */
    graft_dtype dtype; /* of weights: GRAFT_F32, whatever the file holds, but where
                          graft_graph_narrow() said more */
    int32_t rank;
    int64_t dim[GRAFT_MAX_RANK], stride[GRAFT_MAX_RANK]; /* elements */
    graft_vid root;                                      /* itself, unless a view */
    int64_t offset; /* of a view, in elements from the root's first */
} graft_gvalue;

typedef struct graft_gnode {
    graft_op op;
    graft_attrs attrs;
    graft_vid in[GRAFT_MAX_INPUTS];
    graft_vid out;
} graft_gnode;

typedef enum graft_slot_kind {
    GRAFT_SLOT_PLAIN = 0,     /* one source with the same number of elements */
    GRAFT_SLOT_ROWS = 1,      /* sources joined along the first dimension */
    GRAFT_SLOT_TRANSPOSE = 2, /* one source (b,a) for a slot (a,b) */
    GRAFT_SLOT_CROP = 3,  /* the middle of one source (m*m,c), a square of m rows of m cells, for
                             a slot (1,h,w,c): from row (m-h)/2 and column (m-w)/2 on */
    GRAFT_SLOT_LAST = 4,  /* of one source (o,i,m,h,w) what has the last m, for a slot (o,i,h,w) */
    GRAFT_SLOT_MORE = 5,  /* as PLAIN, and one more: of what is stored by how far it is from 1 */
    GRAFT_SLOT_FIRST = 6, /* of one source (o,m*i,...) what has the first i, for a slot (o,i,...) */
    GRAFT_SLOT_SUM = 7,   /* of one source (o,m*i,...) the sum of its m parts, likewise */
    GRAFT_SLOT_BOTTOM = 8, /* of one source (m*o,...) what has the last o, for a slot (o,...) */
    GRAFT_SLOT_LATER = 9   /* as CROP, from row (m-h+1)/2 and column (m-w+1)/2 on */
} graft_slot_kind;

typedef struct graft_gslot {
    graft_slot_kind kind;
    int32_t rank;
    int64_t dim[GRAFT_MAX_RANK];
    size_t n_sources;
    char **source; /* tensor names */
    int64_t *rows; /* ROWS: first dimension of each source; CROP, LAST and those behind MORE: m */
    int32_t hadamard; /* PLAIN and ROWS of rank 2: each so many values of a row times the matrix of
                         kernels/hadamard.h; 0: as they are */
} graft_gslot;

typedef struct graft_graph_literal {
    graft_dtype dtype;
    int64_t count;
    void *data; /* dense */
} graft_graph_literal;

typedef struct graft_graph {
    graft_gvalue *value;
    size_t n_values, cap_values;
    graft_gnode *node;
    size_t n_nodes, cap_nodes;
    graft_gslot *slot;
    size_t n_slots, cap_slots;
    graft_graph_literal *literal;
    size_t n_literals, cap_literals;
    graft_vid *input;
    size_t n_inputs, cap_inputs;
    graft_vid *output;
    size_t n_outputs, cap_outputs;
    graft_status status; /* first failure while building */
    graft_err err;
} graft_graph;

graft_graph *graft_graph_create(void); /* NULL when out of memory */
void graft_graph_destroy(graft_graph *g);
graft_status graft_graph_status(const graft_graph *g, graft_err *e);
/* Keeps the first failure; returns GRAFT_NO_VALUE. */
graft_vid graft_graph_fail(graft_graph *g, graft_status st, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

graft_vid graft_graph_input(graft_graph *g, graft_dtype dtype, int rank, const int64_t *dim);
/* A weight of the given shape; `name` is the tensor's full name. The same name and shape give the
 * same slot. */
graft_vid graft_graph_weight(graft_graph *g, const char *name, int rank, const int64_t *dim);
/* As graft_graph_weight, from a source stored as (dim[1], dim[0]). */
graft_vid graft_graph_weight_transposed(graft_graph *g, const char *name, const int64_t dim[2]);
/* Says that no value of LINEAR's weights, whichever set they come from, needs more than dtype,
 * GRAFT_F16 or GRAFT_BF16. */
void graft_graph_narrow(graft_graph *g, graft_dtype dtype);
/* A weight (1,height,width,channels) from the middle of a source that is a square of `side` rows.
 */
graft_vid graft_graph_weight_crop(graft_graph *g, const char *name, int64_t side,
                                  const int64_t dim[4]);
/* The same, a row or a column later where the middle lies between two of the source's. */
graft_vid graft_graph_weight_crop_later(graft_graph *g, const char *name, int64_t side,
                                        const int64_t dim[4]);
/* A weight (o,i,h,w) from the last of `slices` slices of a source (o,i,slices,h,w). */
graft_vid graft_graph_weight_last(graft_graph *g, const char *name, int64_t slices,
                                  const int64_t dim[4]);
/* A weight of which the source has `parts`, side by side in the second dimension: the first, or the
 * sum of all; or one above the other in the first dimension: the last. */
graft_vid graft_graph_weight_first(graft_graph *g, const char *name, int64_t parts, int rank,
                                   const int64_t *dim);
graft_vid graft_graph_weight_sum(graft_graph *g, const char *name, int64_t parts, int rank,
                                 const int64_t *dim);
graft_vid graft_graph_weight_bottom(graft_graph *g, const char *name, int64_t parts, int rank,
                                    const int64_t *dim);
/* As graft_graph_weight, with values that are one more than the source's. */
graft_vid graft_graph_weight_more(graft_graph *g, const char *name, int rank, const int64_t *dim);
/* A weight whose sources are those of `parts`, joined by rows. All must be PLAIN or ROWS weights.
 */
graft_vid graft_graph_weight_rows(graft_graph *g, const graft_vid *parts, size_t n);
/* Copies the data. */
graft_vid graft_graph_const(graft_graph *g, graft_dtype dtype, int rank, const int64_t *dim,
                            const void *data);
/* A dense value that some node will make; for passes. */
graft_vid graft_graph_temp(graft_graph *g, graft_dtype dtype, int rank, const int64_t *dim);
/* Appends an operator; the output's shape follows from its inputs (infer.c). dtype NONE: that of
 * the first input. `in` has n places; missing ones are absent. */
graft_vid graft_graph_node(graft_graph *g, graft_op op, const graft_attrs *attrs,
                           const graft_vid *in, size_t n, graft_dtype out_dtype);
/* Views. reshape needs a dense value; slice takes `count` columns of the last dimension from
 * `begin`, or rows of the first with graft_graph_slice_rows, or of (N,T,C) tokens of each entry. */
graft_vid graft_graph_reshape(graft_graph *g, graft_vid v, int rank, const int64_t *dim);
graft_vid graft_graph_slice(graft_graph *g, graft_vid v, int64_t begin, int64_t count);
graft_vid graft_graph_slice_rows(graft_graph *g, graft_vid v, int64_t begin, int64_t count);
graft_vid graft_graph_slice_tokens(graft_graph *g, graft_vid v, int64_t begin, int64_t count);
/* (a,b,c,d) with dimension i of the view being dimension order[i] of v; for COPY only. */
graft_vid graft_graph_permute(graft_graph *g, graft_vid v, const int32_t order[4]);
void graft_graph_output(graft_graph *g, graft_vid v);

static inline bool graft_graph_is_view(const graft_graph *g, graft_vid v)
{
    return g->value[v].root != v;
}
/* Whether a slot's rows are those of its sources, one behind the other, turned or not; and whether
 * its bytes are. */
static inline bool graft_gslot_rows(const graft_gslot *s)
{
    return s->kind == GRAFT_SLOT_PLAIN || s->kind == GRAFT_SLOT_ROWS;
}
static inline bool graft_gslot_plain(const graft_gslot *s)
{
    return graft_gslot_rows(s) && !s->hadamard;
}
/* Whether it is the middle of a square: CROP and LATER. */
static inline bool graft_gslot_crop(const graft_gslot *s)
{
    return s->kind == GRAFT_SLOT_CROP || s->kind == GRAFT_SLOT_LATER;
}
/* Whether it is made of a part of its source, or of a sum of its parts: FIRST, SUM and BOTTOM. */
static inline bool graft_gslot_part(const graft_gslot *s)
{
    return s->kind >= GRAFT_SLOT_FIRST && s->kind <= GRAFT_SLOT_BOTTOM;
}
/* What the dimensions of such a slot's source are, as many as it has itself. */
static inline void graft_gslot_part_shape(const graft_gslot *s, int64_t *dim)
{
    dim[s->kind != GRAFT_SLOT_BOTTOM] *= s->rows[0];
}
/* Has a LINEAR in integers take its rows turned in groups of so many (kernels/hadamard.h), and the
 * weight likewise, which no other operator may read otherwise; 0: takes that back. */
void graft_graph_turn_rows(graft_graph *g, size_t node, int32_t group);
bool graft_gvalue_dense(const graft_gvalue *v);
int64_t graft_gvalue_count(const graft_gvalue *v);
/* Fills a kernel descriptor for node i. */
void graft_graph_desc(const graft_graph *g, size_t i, graft_op_desc *out);
const char *graft_op_name(graft_op op); /* "conv2d"; "?" when unknown */
int graft_op_input_count(graft_op op);  /* places that the operator may use */

/* Output shape of an operator (infer.c). GRAFT_E_ARG with the reason when shapes do not fit. */
graft_status graft_op_infer(graft_op op, const graft_attrs *a, const graft_gvalue *const *in,
                            int64_t out_dim[GRAFT_MAX_RANK], int32_t *out_rank, graft_err *e);

/* Checks everything that passes rely on (verify.c): ids in range, definitions before uses, shapes
 * as inferred, views inside their roots, slots complete. */
graft_status graft_graph_verify(const graft_graph *g, graft_err *e);

/* Text form (text.c): one line a slot, input, node and output; parse(print(g)) equals g. Literals
 * are printed in hexadecimal. */
void graft_graph_print(const graft_graph *g, graft_str *out);
graft_status graft_graph_parse(const char *text, size_t n, graft_graph **out, graft_err *e);
/* Hash of the text form. */
graft_status graft_graph_hash(const graft_graph *g, graft_hash *out, graft_err *e);
#endif
