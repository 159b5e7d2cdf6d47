/* Cases of GROUP_NORM, LAYER_NORM and RMS_NORM. */
#include "tests/kernels/cases.h"

void group_norm(case_list *l, graft_tensor_desc x, int32_t groups, graft_act act, float eps,
                int64_t gap)
{
    kernel_case *c = add_case(l, GRAFT_OP_GROUP_NORM);
    c->desc.attrs = (graft_attrs){.groups = groups, .act = act, .eps = eps};
    c->desc.in[0] = gapped(x, gap);
    c->desc.in[1] = c->desc.in[2] = weight_of(x.dim[3], 0, 0, 0);
    c->desc.out = gapped(x, gap / 2);
    snprintf(c->name, sizeof c->name, "group_norm %lldx%lldx%lldx%lld, %d groups%s gap %lld",
             (long long)x.dim[0], (long long)x.dim[1], (long long)x.dim[2], (long long)x.dim[3],
             (int)groups, act_name[act], (long long)gap);
}

/* With statistics of a larger picture. */
static void group_norm_given(case_list *l, graft_tensor_desc x, int32_t groups, graft_act act)
{
    group_norm(l, x, groups, act, 1e-6f, 0);
    kernel_case *c = &l->item[l->count - 1];
    c->desc.in[GRAFT_NORM_MOMENTS] = act_of(x.dim[0], groups, 2, 0);
    size_t n = strlen(c->name);
    snprintf(c->name + n, sizeof c->name - n, ", moments given");
}

/* With a channel_add: which of them libraries take is theirs to say. */
static void group_norm_add(case_list *l, graft_tensor_desc x, int32_t groups, graft_act act,
                           int64_t gap)
{
    group_norm(l, x, groups, act, 1e-5f, gap);
    kernel_case *c = &l->item[l->count - 1];
    c->desc.in[GRAFT_NORM_CHANNEL_ADD] = act_of(x.dim[0], x.dim[3], 0, 0);
    size_t n = strlen(c->name);
    snprintf(c->name + n, sizeof c->name - n, ", channel_add");
}

static void layer_norm(case_list *l, graft_tensor_desc x, float eps, int64_t gap,
                       graft_dtype source)
{
    kernel_case *c = add_case(l, GRAFT_OP_LAYER_NORM);
    int64_t n = x.dim[x.rank - 1];
    c->desc.attrs.eps = eps;
    c->source = source;
    c->desc.in[0] = gapped(x, gap);
    c->desc.in[1] = c->desc.in[2] = weight_of(n, 0, 0, 0);
    c->desc.out = gapped(x, gap);
    snprintf(c->name, sizeof c->name, "layer_norm rank %d, %lld rows of %lld, gap %lld, weights %d",
             (int)x.rank, (long long)(element_count(&x) / n), (long long)n, (long long)gap,
             (int)source);
}

void cases_norms(case_list *l)
{
    group_norm(l, act_of(1, 8, 8, 32), 32, GRAFT_ACT_SILU, 1e-5f, 0); /* one channel a group */
    group_norm(l, act_of(2, 16, 16, 320), 32, GRAFT_ACT_SILU, 1e-5f, 0);
    group_norm(l, act_of(1, 16, 16, 320), 32, 0, 1e-6f, 0);
    group_norm(l, act_of(1, 8, 8, 960), 32, GRAFT_ACT_SILU, 1e-5f, 0);
    group_norm(l, act_of(1, 32, 32, 128), 32, GRAFT_ACT_SILU, 1e-6f, 0);
    group_norm(l, act_of(1, 4, 4, 2560), 32, 0, 1e-5f, 0);
    group_norm(l, act_of(1, 1, 1, 64), 32, 0, 1e-5f, 0);
    group_norm(l, act_of(3, 5, 7, 12), 3, GRAFT_ACT_GELU, 1e-3f, 6);
    group_norm(l, act_of(1, 5, 3, 35), 5, GRAFT_ACT_QUICK_GELU, 1e-5f, 0);
    group_norm(l, act_of(2, 6, 5, 10), 1, 0, 1e-5f, 4);
    group_norm_given(l, act_of(1, 9, 16, 128), 32, GRAFT_ACT_SILU);
    group_norm_given(l, act_of(3, 5, 7, 12), 3, 0);
    group_norm_add(l, act_of(2, 9, 16, 64), 32, GRAFT_ACT_SILU, 0);
    group_norm_add(l, act_of(3, 5, 7, 12), 3, 0, 4);
    layer_norm(l, act_of(1, 77, 768, 0), 1e-5f, 0, GRAFT_F16);
    layer_norm(l, act_of(2, 64, 320, 0), 1e-5f, 0, GRAFT_F32);
    layer_norm(l, act_of(1, 16, 1280, 0), 1e-5f, 0, GRAFT_BF16);
    layer_norm(l, act_of(5, 33, 0, 0), 1e-6f, 7, GRAFT_F64);
    layer_norm(l, act_of(2, 3, 4, 5), 1e-5f, 3, GRAFT_F32);
    layer_norm(l, act_of(19, 0, 0, 0), 1e-5f, 0, GRAFT_F32);
}

/* Rows about as wide as some kernels keep at once. */
void cases_wide_norms(case_list *l)
{
    group_norm(l, act_of(2, 12, 16, 2560), 32, GRAFT_ACT_SILU, 1e-5f, 8);
    group_norm(l, act_of(1, 7, 9, 4104), 27, 0, 1e-5f, 0);
    group_norm_add(l, act_of(2, 23, 25, 320), 32, GRAFT_ACT_SILU, 8);
    group_norm_add(l, act_of(1, 11, 5, 1920), 64, GRAFT_ACT_SILU, 0);
    group_norm(l, act_of(2, 13, 11, 1280), 32, GRAFT_ACT_SILU, 1e-5f, 0);
    group_norm(l, act_of(2, 19, 7, 640), 32, GRAFT_ACT_SILU, 1e-5f, 16);
    kernel_case *c = &l->item[l->count - 1]; /* of a wider picture: rows do not follow each other */
    c->desc.in[0].stride[1] += 2 * c->desc.in[0].stride[2];
    c->desc.in[0].stride[0] = c->desc.in[0].dim[1] * c->desc.in[0].stride[1];
    layer_norm(l, act_of(2, 9, 1280, 0), 1e-5f, 8, GRAFT_F32);
    layer_norm(l, act_of(2, 9, 2048, 0), 1e-5f, 8, GRAFT_BF16);
    layer_norm(l, act_of(3, 2056, 0, 0), 1e-5f, 0, GRAFT_F32);
    layer_norm(l, act_of(9, 8, 0, 0), 1e-5f, 8, GRAFT_F32);
}

/* Gamma and beta are slices of one row for each entry of the batch, `apart` elements from entry to
 * entry. */
static void layer_norm_each(case_list *l, graft_tensor_desc x, int64_t apart, int64_t gap)
{
    layer_norm(l, x, 1e-6f, gap, GRAFT_F32);
    kernel_case *c = &l->item[l->count - 1];
    c->desc.in[GRAFT_NORM_GAMMA] = c->desc.in[GRAFT_NORM_BETA] =
        gapped(act_of(x.dim[0], 1, x.dim[2], 0), apart - x.dim[2]);
    size_t n = strlen(c->name);
    snprintf(c->name + n, sizeof c->name - n, ", %lld vectors", (long long)x.dim[0]);
}

static void rms_norm(case_list *l, graft_tensor_desc x, int32_t heads, float eps, int64_t gap,
                     graft_dtype source)
{
    kernel_case *c = add_case(l, GRAFT_OP_RMS_NORM);
    int64_t n = x.dim[x.rank - 1];
    c->desc.attrs = (graft_attrs){.heads = heads, .eps = eps};
    c->source = source;
    c->desc.in[GRAFT_NORM_X] = gapped(x, gap);
    c->desc.in[GRAFT_NORM_GAMMA] = weight_of(n / heads, 0, 0, 0);
    c->desc.out = gapped(x, gap / 2);
    snprintf(c->name, sizeof c->name, "rms_norm rank %d, %lld rows of %d x %lld, gap %lld",
             (int)x.rank, (long long)(element_count(&x) / n), (int)heads, (long long)(n / heads),
             (long long)gap);
}

void cases_transformer_norms(case_list *l)
{
    layer_norm_each(l, act_of(2, 70, 1536, 0), 6 * 1536, 0);
    layer_norm_each(l, act_of(3, 5, 7, 0), 7, 3);
    layer_norm_each(l, act_of(1, 77, 64, 0), 64, 8);
    layer_norm_each(l, act_of(4, 1, 33, 0), 40, 0);
    layer_norm_each(l, act_of(2, 9, 2432, 0), 2 * 2432, 16);
    rms_norm(l, act_of(1, 9, 15, 0), 3, 1e-5f, 0, GRAFT_F32);
    rms_norm(l, act_of(2, 70, 1536, 0), 24, 1e-6f, 2 * 1536, GRAFT_F16); /* a slice of q, k, v */
    rms_norm(l, act_of(2, 19, 2048, 0), 1, 1e-6f, 0, GRAFT_BF16);
    rms_norm(l, act_of(1, 7, 4104, 0), 1, 0, 8, GRAFT_F32);
    rms_norm(l, act_of(2, 3, 4, 10), 2, 1e-6f, 6, GRAFT_F64);
    rms_norm(l, act_of(5, 33, 0, 0), 1, 1e-6f, 7, GRAFT_F32);
    rms_norm(l, act_of(120, 0, 0, 0), 3, 1e-6f, 0, GRAFT_F32);
    rms_norm(l, act_of(3, 11, 12, 0), 12, 1e-3f, 4, GRAFT_F32); /* one value a part */
    rms_norm(l, act_of(1, 33, 1152, 0), 8, 1e-6f, 0, GRAFT_F32);
}

/* Norms of whole groups by one block: what its registers just hold and just do not, groups whose
 * eights belong to two or more of them, slices of which the last has fewer channels, pictures of
 * one and of odd numbers of pixels, rows and pictures apart. */
void cases_whole_groups(case_list *l)
{
    group_norm(l, act_of(1, 7, 9, 320), 32, GRAFT_ACT_SILU, 1e-5f, 0);   /* 10 channels a group */
    group_norm(l, act_of(2, 5, 5, 640), 32, 0, 1e-6f, 8);                /* 20 */
    group_norm(l, act_of(1, 3, 7, 960), 32, GRAFT_ACT_SILU, 1e-5f, 16);  /* 30 */
    group_norm(l, act_of(3, 3, 3, 1280), 32, GRAFT_ACT_SILU, 1e-5f, 0);  /* 40 */
    group_norm(l, act_of(1, 3, 5, 1920), 32, GRAFT_ACT_SILU, 1e-5f, 32); /* 60 */
    group_norm(l, act_of(2, 1, 3, 2560), 32, 0, 1e-5f, 0);               /* 80 */
    group_norm(l, act_of(2, 1, 1, 1280), 32, GRAFT_ACT_SILU, 1e-5f, 0);
    group_norm(l, act_of(1, 51, 16, 40), 4, 0, 1e-5f, 0); /* 102 lanes hold 8 pixels in float32, */
    group_norm(l, act_of(1, 19, 43, 40), 4, 0, 1e-5f, 0); /* which these are one more than */
    group_norm(l, act_of(1, 48, 34, 40), 1, GRAFT_ACT_SILU, 1e-5f, 8); /* and 16 in 16 bits */
    group_norm(l, act_of(1, 71, 23, 40), 1, GRAFT_ACT_SILU, 1e-5f, 8);
    group_norm(l, act_of(1, 20, 13, 504), 8, 0, 1e-5f, 0); /* 63 channels a group */
    group_norm(l, act_of(2, 8, 8, 504), 8, 0, 1e-5f, 0);
    group_norm(l, act_of(2, 2, 3, 512), 1, 0, 1e-5f, 0);
    group_norm(l, act_of(1, 2, 3, 1032), 2, 0, 1e-5f, 0); /* too many for a slice */
    group_norm(l, act_of(2, 9, 5, 72), 9, GRAFT_ACT_SILU, 1e-5f, 8);
    group_norm(l, act_of(1, 4, 5, 104), 104, 0, 1e-5f, 0); /* one channel a group, 8 in the end */
    group_norm(l, act_of(1, 33, 31, 48), 16, GRAFT_ACT_SILU, 1e-6f, 0);
    group_norm(l, act_of(1, 64, 65, 32), 8, 0, 1e-6f, 0); /* parts alone */
    group_norm_add(l, act_of(2, 7, 9, 320), 32, GRAFT_ACT_SILU, 0);
    group_norm_add(l, act_of(3, 3, 5, 640), 32, 0, 8);
    group_norm_add(l, act_of(1, 1, 1, 960), 32, GRAFT_ACT_SILU, 0);
    group_norm_add(l, act_of(2, 3, 3, 1280), 32, GRAFT_ACT_SILU, 16);
    group_norm_add(l, act_of(2, 31, 33, 72), 24, GRAFT_ACT_SILU, 0);
    group_norm_add(l, act_of(2, 2, 2, 2560), 32, GRAFT_ACT_SILU, 0);
}
