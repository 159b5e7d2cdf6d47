/* Constants, nodes that take what they do not declare, and outputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plugins/comfy_testnodes.h"

/* Other values at every call. */
static graft_status run_noise(graft_job *j, graft_arg *out, const graft_arg *size)
{
    static atomic_uint calls;
    const int64_t shape[4] = {size[2].u.i, size[0].u.i, size[1].u.i, 3};
    picture *p = picture_create(&image_ops, 4, shape);
    uint32_t state = atomic_fetch_add(&calls, 1) * 2654435761u + 1;
    if (!p) return no_memory(j);
    for (size_t i = 0, n = count_of(&p->tensor); i < n; i++) {
        state = state * 1664525u + 1013904223u;
        p->data[i] = (float)(state >> 8) / 16777216.0f;
    }
    give(out, &p->value);
    return GRAFT_OK;
}
static graft_status run_image(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    if (strcmp(in[0].u.s, "NOISE") == 0) return run_noise(j, out, in + 1);
    return give_image(j, out, strcmp(in[0].u.s, "WHITE") == 0 ? 1.0f : 0.0f, in[3].u.i, in[1].u.i,
                      in[2].u.i);
}
static graft_status run_constant(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    return give_image(j, out, (float)in[0].u.f, in[3].u.i, in[1].u.i, in[2].u.i);
}
static graft_status run_mask(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    const int64_t shape[3] = {in[3].u.i, in[1].u.i, in[2].u.i};
    picture *p = picture_create(&mask_ops, 3, shape);
    if (!p) return no_memory(j);
    for (size_t i = 0, n = count_of(&p->tensor); i < n; i++) p->data[i] = (float)in[0].u.f;
    give(out, &p->value);
    return GRAFT_OK;
}
/* The undeclared input "inputN"; NULL: there is none. */
static const graft_arg *numbered(graft_job *j, const graft_arg *in, uint64_t number)
{
    char wanted[40];
    snprintf(wanted, sizeof wanted, "input%llu", (unsigned long long)number);
    for (uint64_t k = 0; k < dynamic_api->count(j); k++)
        if (strcmp(dynamic_api->name(j, k), wanted) == 0) return &in[1 + k];
    return NULL;
}
/* The mean of input1, input2, … up to the first that is missing. */
static graft_status run_average(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const graft_tensor *first = tensor_of(&in[0]);
    const graft_arg *arg = in;
    uint64_t n = 1;
    (void)self;
    if (!first) return fail(j, "input1 is no picture");
    picture *p = picture_create(&image_ops, 4, first->shape);
    if (!p) return no_memory(j);
    while (numbered(j, in, n + 1)) n++;
    for (uint64_t k = 1; k <= n; k++, arg = numbered(j, in, k)) {
        const graft_tensor *t = tensor_of(arg);
        if (!t || !same_shape(first, t)) {
            p->value.ops->release(&p->value);
            return fail(j, "an input is no picture of the same size");
        }
        for (size_t i = 0, c = count_of(t); i < c; i++) p->data[i] += at(t, i) / (float)n;
    }
    give(out, &p->value);
    return GRAFT_OK;
}

/* Passes a scaled picture on, and is to be run for its own sake. */
static graft_status run_output(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const graft_tensor *t = tensor_of(&in[0]);
    (void)self;
    if (!t) return fail(j, "image is no picture");
    picture *p = picture_create(&image_ops, 4, t->shape);
    if (!p) return no_memory(j);
    for (size_t i = 0, n = count_of(t); i < n; i++) p->data[i] = at(t, i) * (float)in[1].u.f;
    give(out, &p->value);
    return GRAFT_OK;
}

/* Shows what it gets and passes it on: a picture's or mask's mean, or the value with its kind. */
static graft_status run_show(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const graft_tensor *t = tensor_of(&in[0]);
    char text[80] = "\"nothing\"";
    double sum = 0;
    (void)self;
    for (size_t i = 0, n = t ? count_of(t) : 0; i < n; i++) sum += at(t, i) / (double)n;
    if (t)
        snprintf(text, sizeof text, "\"%.4f\"", sum);
    else if (in[0].kind == GRAFT_INT)
        snprintf(text, sizeof text, "\"INT %lld\"", (long long)in[0].u.i);
    else if (in[0].kind == GRAFT_FLOAT)
        snprintf(text, sizeof text, "\"FLOAT %g\"", in[0].u.f);
    else if (in[0].kind == GRAFT_BOOL)
        snprintf(text, sizeof text, "\"BOOLEAN %s\"", in[0].u.i ? "true" : "false");
    ui_api->add(j, "text", text);
    pass(out, in);
    return GRAFT_OK;
}

static const char *const contents[] = {"WHITE", "BLACK", "NOISE", NULL};
#define SIZE  .kind = GRAFT_INT, .initial.i = 512, .min = 1, .max = 4096, .step = 1
#define VALUE .kind = GRAFT_FLOAT, .initial.f = 0.5, .min = 0, .max = 1, .step = 0.01
IN(in_content, "content", "COMBO", .kind = GRAFT_CHOICE, .choices = contents);
IN(in_height, "height", "INT", SIZE);
IN(in_width, "width", "INT", SIZE);
IN(in_batch, "batch_size", "INT", .kind = GRAFT_INT, .initial.i = 1, .min = 1, .max = 1024,
   .step = 1);
IN(in_value, "value", "FLOAT", VALUE);
IN(in_factor, "value", "FLOAT", .kind = GRAFT_FLOAT, .initial.f = 1, .min = 0, .max = 10,
   .step = 0.01);
IN(in_float, "value", "FLOAT", .kind = GRAFT_FLOAT, .min = -1e38, .max = 1e38, .step = 0.01);
IN(in_int, "value", "INT", .kind = GRAFT_INT, .min = -0xffffffffp0, .max = 0xffffffffp0, .step = 1);
IN(in_any, "value", "*", .kind = GRAFT_OBJECT);
IN(in_input1, "input1", "IMAGE", .kind = GRAFT_OBJECT);
IN(in_image, "image", "IMAGE", .kind = GRAFT_OBJECT);
OUT(out_image, "IMAGE", 0);
OUT(out_mask, "MASK", 0);
OUT(out_int, "INT", 0);
OUT(out_float, "FLOAT", 0);
OUT(out_any, "*", 0);

static const graft_node nodes[] = {
    NODE("StubImage", 0, INS(&in_content, &in_height, &in_width, &in_batch), OUTS(&out_image),
         run_image, NULL),
    NODE("StubConstantImage", 0, INS(&in_value, &in_height, &in_width, &in_batch), OUTS(&out_image),
         run_constant, NULL),
    NODE("StubMask", 0, INS(&in_value, &in_height, &in_width, &in_batch), OUTS(&out_mask), run_mask,
         NULL),
    NODE("StubInt", 0, INS(&in_int), OUTS(&out_int), run_same, NULL),
    NODE("StubFloat", 0, INS(&in_float), OUTS(&out_float), run_same, NULL),
    NODE("TestVariadicAverage", GRAFT_NODE_DYNAMIC, INS(&in_input1), OUTS(&out_image), run_average,
         NULL),
    NODE("TestOutputNodeWithSocketOutput", GRAFT_NODE_OUTPUT, INS(&in_image, &in_factor),
         OUTS(&out_image), run_output, NULL),
    /* Of our own tests only. */
    NODE("TestShowValue", GRAFT_NODE_OUTPUT, INS(&in_any), OUTS(&out_any), run_show, NULL),
};
NODE_LIST(constant_nodes, nodes)
