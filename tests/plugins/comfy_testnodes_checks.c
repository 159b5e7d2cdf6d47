/* Nodes that check their inputs themselves, before anything runs. */
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

/* Literals must be numbers with a fraction. */
static graft_status check_numbers(const graft_host *h, const graft_arg *in, const char **input,
                                  char *text, uint64_t n)
{
    static const char *const name[] = {"input1", "input2"};
    (void)h;
    for (int i = 0; i < 2; i++) {
        if (in[i].kind == GRAFT_NONE || in[i].kind == GRAFT_FLOAT) continue;
        *input = name[i];
        snprintf(text, n, "Invalid type of %s", name[i]);
        return GRAFT_E_ARG;
    }
    return GRAFT_OK;
}
static const void *numbers_query(const char *id)
{
    static const graft_validate_api api = {check_numbers};
    return strcmp(id, GRAFT_VALIDATE_ID) == 0 ? &api : NULL;
}
/* Says no, and nothing more. */
static graft_status check_negative(const graft_host *h, const graft_arg *in, const char **input,
                                   char *text, uint64_t n)
{
    (void)h, (void)text, (void)n;
    if (in[0].kind != GRAFT_FLOAT || in[0].u.f >= 0) return GRAFT_OK;
    *input = "input1";
    return GRAFT_E_ARG;
}
static const void *negative_query(const char *id)
{
    static const graft_validate_api api = {check_negative};
    return strcmp(id, GRAFT_VALIDATE_ID) == 0 ? &api : NULL;
}
/* Has an opinion about one value of all that it gets. */
static graft_status check_seven(const graft_host *h, const graft_arg *in, const char **input,
                                char *text, uint64_t n)
{
    (void)h;
    if (in[1].kind != GRAFT_FLOAT || in[1].u.f != 7) return GRAFT_OK;
    *input = "input2";
    snprintf(text, n, "7 is not a number to multiply with");
    return GRAFT_E_ARG;
}
static const void *seven_query(const char *id)
{
    static const graft_validate_api api = {check_seven};
    return strcmp(id, GRAFT_VALIDATE_ID) == 0 ? &api : NULL;
}

IN(in_1, "input1", "IMAGE,FLOAT", .kind = GRAFT_OBJECT);
IN(in_2, "input2", "IMAGE,FLOAT", .kind = GRAFT_OBJECT);
IN(in_f1, "input1", "FLOAT", .kind = GRAFT_FLOAT);
IN(in_f2, "input2", "FLOAT", .kind = GRAFT_FLOAT);
OUT(out_image, "IMAGE", 0);

static const graft_node nodes[] = {
    NODE("TestCustomValidation1", 0, INS(&in_1, &in_2), OUTS(&out_image), run_product,
         numbers_query),
    NODE("TestCustomValidation2", 0, INS(&in_1, &in_2), OUTS(&out_image), run_product,
         numbers_query),
    NODE("TestCustomValidation3", 0, INS(&in_1, &in_2), OUTS(&out_image), run_product, NULL),
    NODE("TestCustomValidation4", 0, INS(&in_f1, &in_f2), OUTS(&out_image), run_product,
         negative_query),
    NODE("TestCustomValidation5", 0, INS(&in_f1, &in_f2), OUTS(&out_image), run_product,
         seven_query),
};
NODE_LIST(check_nodes, nodes)
