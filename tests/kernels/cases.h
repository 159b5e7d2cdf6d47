/* What the files that make cases share: a list of them, and tensors. */
#ifndef GRAFT_TESTS_KERNELS_CASES_H
#define GRAFT_TESTS_KERNELS_CASES_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/harness.h"

typedef struct case_list {
    kernel_case *item;
    size_t count, cap;
} case_list;

/* A dense activation; dimensions end at the first 0. */
static inline graft_tensor_desc act_of(int64_t a, int64_t b, int64_t c, int64_t d)
{
    graft_tensor_desc t = {.dtype = GRAFT_F32, .dim = {a, b, c, d}};
    while (t.rank < GRAFT_MAX_RANK && t.dim[t.rank] > 0) t.rank++;
    make_dense(&t);
    return t;
}

static inline graft_tensor_desc weight_of(int64_t a, int64_t b, int64_t c, int64_t d)
{
    graft_tensor_desc t = act_of(a, b, c, d);
    t.constant = 1;
    return t;
}

/* Rows `gap` elements further apart than they are long: a slice of a wider tensor. */
static inline graft_tensor_desc gapped(graft_tensor_desc t, int64_t gap)
{
    int64_t below = t.dim[t.rank - 1] + gap;
    for (int i = t.rank - 2; i >= 0; i--) {
        t.stride[i] = below;
        below *= t.dim[i];
    }
    return t;
}

static inline kernel_case *add_case(case_list *l, graft_op op)
{
    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->item = realloc(l->item, l->cap * sizeof *l->item);
        if (!l->item) abort();
    }
    kernel_case *c = &l->item[l->count++];
    *c = (kernel_case){.source = GRAFT_F32};
    c->desc.size = sizeof c->desc;
    c->desc.op = op;
    return c;
}

static const char *const act_name[] = {"",       "+silu", "+gelu",      "+quick_gelu", "+geglu",
                                       "+leaky", "+relu", "+gelu_tanh", "+tanh"};

/* cases_norm.c */
void group_norm(case_list *l, graft_tensor_desc x, int32_t groups, graft_act act, float eps,
                int64_t gap);
void cases_norms(case_list *l);
void cases_wide_norms(case_list *l);
void cases_transformer_norms(case_list *l);
void cases_whole_groups(case_list *l);
#endif
