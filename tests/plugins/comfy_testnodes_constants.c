/* Constants, nodes that take what they do not declare, and an output that feeds others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plugins/comfy_testnodes.h"

static graft_status run_noise(graft_job *j, graft_arg *out, const graft_arg *size)
{
    const int64_t shape[4] = {size[2].u.i, size[0].u.i, size[1].u.i, 3};
    picture *p = picture_create(&image_ops, 4, shape);
    uint32_t state = 1;
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
static graft_status run_average(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    uint64_t n = 1 + dynamic_api->count(j);
    const graft_tensor *first = tensor_of(&in[0]);
    (void)self;
    if (!first) return fail(j, "input1 is no picture");
    picture *p = picture_create(&image_ops, 4, first->shape);
    if (!p) return no_memory(j);
    for (uint64_t k = 0; k < n; k++) {
        const graft_tensor *t = tensor_of(&in[k]);
        const char *name = k ? dynamic_api->name(j, k - 1) : "input1";
        if (!t || strncmp(name, "input", 5) != 0 || !same_shape(first, t)) {
            p->value.ops->release(&p->value);
            return fail(j, "an input is no picture of the same size");
        }
        for (size_t i = 0, c = count_of(t); i < c; i++) p->data[i] += at(t, i) / (float)n;
    }
    give(out, &p->value);
    return GRAFT_OK;
}

/* Shows the mean and passes a scaled picture on. */
static graft_status run_output(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const graft_tensor *t = tensor_of(&in[0]);
    char text[64];
    double sum = 0;
    (void)self;
    if (!t) return fail(j, "image is no picture");
    picture *p = picture_create(&image_ops, 4, t->shape);
    if (!p) return no_memory(j);
    for (size_t i = 0, n = count_of(t); i < n; i++) {
        p->data[i] = at(t, i) * (float)in[1].u.f;
        sum += p->data[i] / (double)n;
    }
    snprintf(text, sizeof text, "\"%.4f\"", sum);
    ui_api->add(j, "text", text);
    give(out, &p->value);
    return GRAFT_OK;
}

static const char *const contents[] = {"WHITE", "BLACK", "NOISE", NULL};
#define SIZE .kind = GRAFT_INT, .initial.i = 64, .min = 1, .max = 4096, .step = 1
IN(in_content, "content", "COMBO", .kind = GRAFT_CHOICE, .choices = contents);
IN(in_height, "height", "INT", SIZE);
IN(in_width, "width", "INT", SIZE);
IN(in_batch, "batch_size", "INT", .kind = GRAFT_INT, .initial.i = 1, .min = 1, .max = 64);
IN(in_value, "value", "FLOAT", .kind = GRAFT_FLOAT, .initial.f = 0.5, .min = 0, .max = 1);
IN(in_float, "value", "FLOAT", .kind = GRAFT_FLOAT, .min = -1e38, .max = 1e38);
IN(in_int, "value", "INT", .kind = GRAFT_INT);
IN(in_input1, "input1", "IMAGE", .kind = GRAFT_OBJECT);
IN(in_image, "image", "IMAGE", .kind = GRAFT_OBJECT);
OUT(out_image, "IMAGE", 0);
OUT(out_mask, "MASK", 0);
OUT(out_int, "INT", 0);
OUT(out_float, "FLOAT", 0);

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
    NODE("TestOutputNodeWithSocketOutput", GRAFT_NODE_OUTPUT, INS(&in_image, &in_value),
         OUTS(&out_image), run_output, NULL),
};
NODE_LIST(constant_nodes, nodes)
