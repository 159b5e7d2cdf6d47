/* Nodes that check their inputs themselves, before anything runs. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/plugins/comfy_testnodes.h"

/* The product of two inputs, each a number or a picture; two numbers make a grey picture. */
static graft_status run_product(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const graft_tensor *a = tensor_of(&in[0]), *b = tensor_of(&in[1]);
    (void)self;
    if ((!a && in[0].kind != GRAFT_FLOAT && in[0].kind != GRAFT_INT) ||
        (!b && in[1].kind != GRAFT_FLOAT && in[1].kind != GRAFT_INT))
        return fail(j, "an input is neither a number nor a picture");
    double x = in[0].kind == GRAFT_INT ? (double)in[0].u.i : in[0].u.f;
    double y = in[1].kind == GRAFT_INT ? (double)in[1].u.i : in[1].u.f;
    if (!a && !b) return give_image(j, out, (float)(x * y), 1, 512, 512);
    const graft_tensor *t = a ? a : b;
    if (t->ndim != 4 || (a && b && !same_shape(a, b))) return fail(j, "the sizes differ");
    picture *p = picture_create(&image_ops, 4, t->shape);
    if (!p) return no_memory(j);
    for (size_t i = 0, n = count_of(t); i < n; i++)
        p->data[i] = (a ? at(a, i) : (float)x) * (b ? at(b, i) : (float)y);
    give(out, &p->value);
    return GRAFT_OK;
}

static const char *const name[] = {"input1", "input2", NULL};

/* Literals must be numbers with a fraction; where types of links come along, those must fit. */
static graft_status check_inputs(const graft_arg *in, const char *const *types, char *text,
                                 uint64_t n)
{
    for (int i = 0; i < 2; i++) {
        bool good = in[i].kind == GRAFT_NONE || in[i].kind == GRAFT_FLOAT;
        if (types && types[i])
            good = strcmp(types[i], "IMAGE") == 0 || strcmp(types[i], "FLOAT") == 0;
        if (good) continue;
        snprintf(text, n, "Invalid type of %s", name[i]);
        return GRAFT_E_ARG;
    }
    return GRAFT_OK;
}
static graft_status check_literals(const graft_host *h, const graft_arg *in,
                                   const char *const *types, char *text, uint64_t n)
{
    (void)h, (void)types;
    return check_inputs(in, NULL, text, n);
}
static graft_status check_both(const graft_host *h, const graft_arg *in, const char *const *types,
                               char *text, uint64_t n)
{
    (void)h;
    return check_inputs(in, types, text, n);
}
static graft_status check_types(const graft_host *h, const graft_arg *in, const char *const *types,
                                char *text, uint64_t n)
{
    static const graft_arg none[2];
    (void)h, (void)in;
    return check_inputs(none, types, text, n);
}
/* Says no, and nothing more. */
static graft_status check_floats(const graft_host *h, const graft_arg *in, const char *const *types,
                                 char *text, uint64_t n)
{
    char unsaid[100];
    (void)h, (void)types, (void)text, (void)n;
    return check_inputs(in, NULL, unsaid, sizeof unsaid);
}
/* Has an opinion about one value of all that it gets. */
static graft_status check_seven(const graft_host *h, const graft_arg *in, const char *const *types,
                                char *text, uint64_t n)
{
    (void)h, (void)types;
    if (in[1].kind != GRAFT_FLOAT || in[1].u.f != 7) return GRAFT_OK;
    snprintf(text, n, "7 is not a number to multiply with");
    return GRAFT_E_ARG;
}
#define QUERY(check, flags, taken)                                                                 \
    static const void *check##_query(const char *id)                                               \
    {                                                                                              \
        static const graft_validate2_api api = {flags, 0, taken, check};                           \
        return strcmp(id, GRAFT_VALIDATE2_ID) == 0 ? &api : NULL;                                  \
    }
QUERY(check_literals, 0, name)
QUERY(check_both, GRAFT_VALIDATE_TYPES, name)
QUERY(check_types, GRAFT_VALIDATE_TYPES, NULL)
QUERY(check_floats, 0, name)
QUERY(check_seven, GRAFT_VALIDATE_ALL, NULL)

#define SHARE .kind = GRAFT_FLOAT, .min = 0, .max = 1
IN(in_1, "input1", "IMAGE,FLOAT", .kind = GRAFT_OBJECT);
IN(in_2, "input2", "IMAGE,FLOAT", .kind = GRAFT_OBJECT);
IN(in_f1, "input1", "FLOAT", .kind = GRAFT_FLOAT);
IN(in_f2, "input2", "FLOAT", .kind = GRAFT_FLOAT);
IN(in_share1, "input1", "FLOAT", SHARE);
IN(in_share2, "input2", "FLOAT", SHARE);
OUT(out_image, "IMAGE", 0);

static const graft_node nodes[] = {
    NODE("TestCustomValidation1", 0, INS(&in_1, &in_2), OUTS(&out_image), run_product,
         check_literals_query),
    NODE("TestCustomValidation2", 0, INS(&in_1, &in_2), OUTS(&out_image), run_product,
         check_both_query),
    NODE("TestCustomValidation3", 0, INS(&in_1, &in_2), OUTS(&out_image), run_product,
         check_types_query),
    NODE("TestCustomValidation4", 0, INS(&in_f1, &in_f2), OUTS(&out_image), run_product,
         check_floats_query),
    NODE("TestCustomValidation5", 0, INS(&in_share1, &in_share2), OUTS(&out_image), run_product,
         check_seven_query),
};
NODE_LIST(check_nodes, nodes)
