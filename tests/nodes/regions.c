/* The nodes that place prompts in a picture hand their inputs on, and those that make masks,
 * latents and pictures for them do with every input what its name says. */
#include <stdarg.h>

#include "engine/image/latent.h"
#include "nodes/call/value.h"
#include "tests/nodes/fake_engine.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;
static graft_arg model[4], prompt[4], picture[4], mask[4], gligen[4];

static graft_status run_with(const char *id, const graft_arg *in, graft_arg *out)
{
    fake_engine_reset();
    fake_host_clear(&host);
    return fake_host_run(&host, fake_host_node(id), in, out, NULL, 0);
}

/* A prompt and a mask. */
static void make_inputs(void)
{
    graft_arg in[24];
    fake_host_defaults(fake_host_node("CheckpointLoaderSimple"), in);
    CHECK_INT(run_with("CheckpointLoaderSimple", in, model), GRAFT_OK);
    const graft_node *n = fake_host_node("CLIPTextEncode");
    fake_host_defaults(n, in);
    in[fake_host_input(n, "clip")] = model[1];
    CHECK_INT(run_with("CLIPTextEncode", in, prompt), GRAFT_OK);
    fake_host_defaults(fake_host_node("EmptyImage"), in);
    CHECK_INT(run_with("EmptyImage", in, picture), GRAFT_OK);
    n = fake_host_node("ImageToMask");
    fake_host_defaults(n, in);
    in[fake_host_input(n, "image")] = picture[0];
    CHECK_INT(run_with("ImageToMask", in, mask), GRAFT_OK);
    fake_host_defaults(fake_host_node("GLIGENLoader"), in);
    CHECK_INT(run_with("GLIGENLoader", in, gligen), GRAFT_OK);
}

/* Numbers for the node's inputs after the conditioning and the mask, in their order. */
static void expect(const char *id, const double *numbers, const char *choice, const char *want)
{
    const graft_node *n = fake_host_node(id);
    graft_arg in[24], out[4];
    int live = fake_live, next = 0;
    fake_host_defaults(n, in);
    for (int i = 0; n->inputs[i]; i++) {
        if (strcmp(n->inputs[i]->type, "CONDITIONING") == 0) in[i] = prompt[0];
        if (strcmp(n->inputs[i]->type, "MASK") == 0) in[i] = mask[0];
        if (strcmp(n->inputs[i]->type, "CLIP") == 0) in[i] = model[1];
        if (strcmp(n->inputs[i]->type, "GLIGEN") == 0) in[i] = gligen[0];
        if (strcmp(n->inputs[i]->type, "STRING") == 0) in[i].u.s = choice;
        if (in[i].kind == GRAFT_INT) in[i].u.i = (int64_t)numbers[next++];
        if (in[i].kind == GRAFT_FLOAT) in[i].u.f = numbers[next++];
        if (in[i].kind == GRAFT_CHOICE) in[i].u.s = choice;
    }
    CHECK_INT(run_with(id, in, out), GRAFT_OK);
    CHECK_STR(fake_trace, want);
    CHECK_INT(host.fails, 0);
    CHECK_STR(out[0].u.v->ops->type, "CONDITIONING");
    fake_host_release(out, 4);
    CHECK_INT(fake_live, live);
}

static void numbers_arrive(void)
{
    static const double pixels[] = {128, 72, 8, 16, 2.5}, shares[] = {0.5, 0.25, 0.125, 0.75, 2.5};
    expect("ConditioningSetArea", pixels, NULL, "area 128 x 72 at 8, 16 pixels 2.5\n");
    expect("ConditioningSetAreaPercentage", shares, NULL,
           "area 0.5 x 0.25 at 0.125, 0.75 shares 2.5\n");
    expect("ConditioningSetAreaStrength", pixels + 4, NULL, "strength 2.5\n");
    expect("GLIGENTextBoxApply", pixels, "a cat", "box \"a cat\" 128x72 at 8,16\n");
    expect("ConditioningSetMask", pixels + 4, "default", "mask 1 2.5 bounds=0\n");
    expect("ConditioningSetMask", pixels + 4, "mask bounds", "mask 1 2.5 bounds=1\n");
}

/* ------------------------------------------------------------------ masks */

/* Runs a node whose object inputs, in their order, are `from` and whose further inputs are named:
 * name, value, …, NULL; hundredths for floats. The first result is the caller's to release. */
static graft_arg made(const char *id, const graft_arg *from, const char *choice, ...)
{
    const graft_node *n = fake_host_node(id);
    graft_arg in[24], out[4];
    va_list list;
    fake_host_defaults(n, in);
    for (int i = 0, next = 0; n->inputs[i]; i++) {
        if (n->inputs[i]->kind == GRAFT_OBJECT) in[i] = from[next++];
        if (in[i].kind == GRAFT_CHOICE) in[i].u.s = choice;
    }
    va_start(list, choice);
    for (const char *name; (name = va_arg(list, const char *));) {
        graft_arg *a = &in[fake_host_input(n, name)];
        int v = va_arg(list, int);
        if (a->kind == GRAFT_FLOAT)
            a->u.f = v / 100.0;
        else
            a->u.i = v;
    }
    va_end(list);
    CHECK_INT(run_with(id, in, out), GRAFT_OK);
    CHECK_STR(out[0].u.v->ops->type, n->outputs[0]->type);
    for (int i = 1; n->outputs[i]; i++) fake_host_release(&out[i], 1);
    return out[0];
}

/* Checks a mask, as rows of tenths with X for 1, and lets go of it. */
static void expect_mask(graft_arg mask_, const char *want)
{
    int64_t shape[4];
    char got[256];
    size_t n = 0;
    const float *v = graft_image_data(graft_value_object(mask_.u.v, GRAFT_VALUE_MASK), shape);
    CHECK(shape[1] * (shape[2] + 1) < 256);
    for (int64_t y = 0; y < shape[1]; y++) {
        for (int64_t x = 0; x < shape[2]; x++)
            got[n++] = (char)(*v >= 1 ? 'X' : '0' + (int)(*v * 10 + 0.5f)), v++;
        got[n++] = ' ';
    }
    got[n ? n - 1 : 0] = 0;
    CHECK_STR(got, want);
    fake_host_release(&mask_, 1);
}

static void masks_are_made(void)
{
    graft_arg grey = made("SolidMask", NULL, NULL, "value", 20, "width", 6, "height", 4, NULL);
    graft_arg dot = made("SolidMask", NULL, NULL, "width", 2, "height", 1, NULL);
    graft_arg two[] = {grey, dot}, one;
    one = made("MaskComposite", two, "add", "x", 3, "y", 1, NULL);
    expect_mask(made("InvertMask", &one, NULL, NULL), "888888 888008 888888 888888");
    expect_mask(made("ThresholdMask", &one, NULL, "value", 20, NULL),
                "000000 000XX0 000000 000000");
    expect_mask(made("CropMask", &one, NULL, "x", 2, "y", 1, "width", 2, "height", 3, NULL),
                "2X 22 22");
    expect_mask(made("GrowMask", &one, NULL, "expand", 1, NULL), "222XX2 22XXXX 222XX2 222222");
    expect_mask(made("GrowMask", &one, NULL, "expand", 1, "tapered_corners", 0, NULL),
                "22XXXX 22XXXX 22XXXX 222222");
    expect_mask(made("GrowMask", &one, NULL, "expand", -1, NULL), "222222 222222 222222 222222");
    fake_host_release(&one, 1);
    expect_mask(made("MaskComposite", two, "subtract", "x", 0, "y", 3, NULL),
                "222222 222222 222222 002222");
    one = made("SolidMask", NULL, NULL, "width", 4, "height", 4, NULL);
    expect_mask(made("FeatherMask", &one, NULL, "left", 2, NULL), "5XXX 5XXX 5XXX 5XXX");
    expect_mask(made("FeatherMask", &one, NULL, "top", 2, NULL), "5555 XXXX XXXX XXXX");
    expect_mask(made("FeatherMask", &one, NULL, "right", 2, "bottom", 2, NULL),
                "XXX5 XXX5 XXX5 5553");
    fake_host_release(&one, 1);
    fake_host_release(two, 2);
    graft_arg in[24], red[4];
    const graft_node *n = fake_host_node("EmptyImage");
    fake_host_defaults(n, in);
    in[fake_host_input(n, "width")].u.i = in[fake_host_input(n, "height")].u.i = 2;
    in[fake_host_input(n, "color")].u.i = 0xff0001;
    CHECK_INT(run_with("EmptyImage", in, red), GRAFT_OK);
    expect_mask(made("ImageColorToMask", red, NULL, "color", 0xff0001, NULL), "XX XX");
    expect_mask(made("ImageColorToMask", red, NULL, "color", 0xff0000, NULL), "00 00");
    fake_host_release(red, 4);
}

/* ------------------------------------------------------------------ latents, pictures */

/* A latent of 3 x 4 cells, first + 1, first + 2, …, in its first channel. */
static graft_arg numbered(float first)
{
    const int64_t shape[4] = {1, 4, 3, 4};
    float v[48];
    graft_latent *l = NULL;
    graft_value *value = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 48; i++) v[i] = first + (float)(i + 1);
    CHECK_OK(graft_latent_from_data(v, shape, &l, &e), &e);
    CHECK_OK(graft_value_wrap(GRAFT_VALUE_LATENT, l, &value, &e), &e);
    return (graft_arg){.kind = GRAFT_OBJECT, .u.v = value};
}

/* Checks the first channel, as numbers in rows, and lets go of it. */
static void expect_latent(graft_arg latent, int64_t n, const char *want)
{
    int64_t shape[4];
    char got[512] = "";
    size_t used = 0;
    const float *v = graft_latent_data(graft_value_object(latent.u.v, GRAFT_VALUE_LATENT), shape);
    CHECK_INT(shape[0], n);
    for (int64_t i = 0; i < shape[2] * shape[3] && used + 16 < sizeof got; i++)
        used += (size_t)snprintf(got + used, sizeof got - used, "%s%g",
                                 !i             ? ""
                                 : i % shape[3] ? " "
                                                : ", ",
                                 (double)v[i]);
    CHECK_STR(got, want);
    fake_host_release(&latent, 1);
}

static void latents_are_changed(void)
{
    graft_arg two[] = {numbered(0), numbered(100)};
    expect_latent(made("LatentCrop", two, NULL, "x", 8, "y", 16, "width", 16, "height", 64, NULL),
                  1, "10 11");
    expect_latent(made("LatentCut", two, "x", "index", -2, "amount", 9, NULL), 1,
                  "3 4, 7 8, 11 12");
    expect_latent(made("LatentCut", two, "y", "index", 1, NULL), 1, "5 6 7 8");
    expect_latent(made("LatentCut", two, "t", "index", 3, NULL), 1, "1 2 3 4, 5 6 7 8, 9 10 11 12");
    expect_latent(made("LatentCutToBatch", two, "x", NULL), 4, "1, 5, 9");
    expect_latent(made("LatentCutToBatch", two, "y", "slice_size", 2, NULL), 1, "1 2 3 4, 5 6 7 8");
    expect_latent(made("LatentCutToBatch", two, "t", NULL), 1, "1 2 3 4, 5 6 7 8, 9 10 11 12");
    expect_latent(made("LatentFlip", two, "x-axis: vertically", NULL), 1,
                  "9 10 11 12, 5 6 7 8, 1 2 3 4");
    expect_latent(made("LatentFlip", two, "y-axis: horizontally", NULL), 1,
                  "4 3 2 1, 8 7 6 5, 12 11 10 9");
    expect_latent(made("LatentRotate", two, "none", NULL), 1, "1 2 3 4, 5 6 7 8, 9 10 11 12");
    expect_latent(made("LatentRotate", two, "90 degrees", NULL), 1,
                  "9 5 1, 10 6 2, 11 7 3, 12 8 4");
    expect_latent(made("LatentRotate", two, "180 degrees", NULL), 1,
                  "12 11 10 9, 8 7 6 5, 4 3 2 1");
    expect_latent(made("LatentRotate", two, "270 degrees", NULL), 1,
                  "4 8 12, 3 7 11, 2 6 10, 1 5 9");
    expect_latent(made("LatentBlend", two, NULL, "blend_factor", 75, NULL), 1,
                  "26 27 28 29, 30 31 32 33, 34 35 36 37");
    graft_arg far = made("LatentInterpolate", two, NULL, "ratio", 0, NULL);
    const float *v = graft_latent_data(graft_value_object(far.u.v, GRAFT_VALUE_LATENT), NULL);
    for (int i = 0; i < 48; i++) CHECK_NEAR(v[i], 101 + i, 1e-4);
    fake_host_release(&far, 1);
    expect_latent(made("LatentBatch", two, NULL, NULL), 2, "1 2 3 4, 5 6 7 8, 9 10 11 12");
    expect_latent(made("LatentComposite", two, NULL, "x", 16, "y", 8, NULL), 1,
                  "1 2 3 4, 5 6 101 102, 9 10 105 106");
    expect_latent(made("LatentComposite", two, NULL, "x", 16, "feather", 16, NULL), 1,
                  "1 2 52 102, 5 6 56 106, 9 10 60 110");
    expect_latent(made("LatentAdd", two, NULL, NULL), 1,
                  "102 104 106 108, 110 112 114 116, 118 120 122 124");
    expect_latent(made("LatentSubtract", two, NULL, NULL), 1,
                  "-100 -100 -100 -100, -100 -100 -100 -100, -100 -100 -100 -100");
    expect_latent(made("LatentMultiply", two, NULL, "multiplier", -150, NULL), 1,
                  "-1.5 -3 -4.5 -6, -7.5 -9 -10.5 -12, -13.5 -15 -16.5 -18");
    static const int64_t draws[2][2] = {{0, 0}, {0, 1}}; /* fixed; random: by the place */
    for (int k = 0; k < 2; k++) {
        graft_arg batch = made("LatentBatch", two, NULL, NULL);
        graft_arg r = made("LatentBatchSeedBehavior", &batch, k ? "random" : "fixed", NULL);
        const int64_t *index =
            graft_latent_batch_index(graft_value_object(r.u.v, GRAFT_VALUE_LATENT));
        for (int64_t i = 0; i < 2; i++) CHECK_INT(index ? index[i] : i, draws[k][i]);
        fake_host_release(&r, 1);
        fake_host_release(&batch, 1);
    }
    fake_host_release(two, 2);
}

/* A picture and so many layers; which others see as five dimensions, and LatentCut and
 * LatentCutToBatch by their last one. */
static void latents_in_layers(void)
{
    const graft_node *n = fake_host_node("EmptyQwenImageLayeredLatentImage");
    graft_arg in[24], stack[4], one;
    fake_host_defaults(n, in);
    in[fake_host_input(n, "width")].u.i = 48;
    in[fake_host_input(n, "height")].u.i = 35;
    in[fake_host_input(n, "layers")].u.i = 2;
    in[fake_host_input(n, "batch_size")].u.i = 2;
    CHECK_INT(run_with("EmptyQwenImageLayeredLatentImage", in, stack), GRAFT_OK);
    const graft_tensor *t = stack[0].u.v->ops->query(stack[0].u.v, GRAFT_TENSOR_ID);
    CHECK(t && t->ndim == 5 && t->shape[0] == 2 && t->shape[1] == 16 && t->shape[2] == 3);
    CHECK(t && t->shape[3] == 4 && t->shape[4] == 6 && t->stride[0] == 1152);
    CHECK(t && t->stride[1] == 72 && t->stride[2] == 24 && t->stride[4] == 1);
    expect_latent(made("LatentCutToBatch", stack, "t", NULL), 6,
                  "0 0 0 0 0 0, 0 0 0 0 0 0, 0 0 0 0 0 0, 0 0 0 0 0 0");
    one = made("LatentCut", stack, "t", "index", 1, "amount", 16384, NULL);
    CHECK_INT(graft_latent_layers(graft_value_object(one.u.v, GRAFT_VALUE_LATENT)), 2);
    fake_host_release(&one, 1);
    fake_host_release(stack, 4);
    in[fake_host_input(n, "layers")].u.i = 256;
    CHECK_INT(run_with("EmptyQwenImageLayeredLatentImage", in, stack), GRAFT_E_LIMIT);
    in[fake_host_input(n, "layers")].u.i = 0;
    CHECK_INT(run_with("EmptyQwenImageLayeredLatentImage", in, stack), GRAFT_OK);
    t = stack[0].u.v->ops->query(stack[0].u.v, GRAFT_TENSOR_ID);
    CHECK(t && t->ndim == 4 && t->shape[1] == 16);
    fake_host_release(stack, 4);
}

/* With a mask, and without one, which is an object that is not connected. */
static void latents_under_masks(void)
{
    const graft_node *n = fake_host_node("LatentCompositeMasked");
    graft_arg half = made("SolidMask", NULL, NULL, "value", 50, "width", 4, "height", 3, NULL);
    graft_arg all[] = {numbered(0), numbered(100), half}, in[24], out[4];
    expect_latent(made("LatentCompositeMasked", all, NULL, "x", 24, "y", 8, NULL), 1,
                  "1 2 3 4, 5 6 7 54.5, 9 10 11 58.5");
    fake_host_defaults(n, in);
    in[fake_host_input(n, "destination")] = all[0];
    in[fake_host_input(n, "source")] = all[1];
    in[fake_host_input(n, "x")].u.i = 24;
    in[fake_host_input(n, "resize_source")].u.i = 1;
    CHECK_INT(run_with("LatentCompositeMasked", in, out), GRAFT_OK);
    expect_latent(out[0], 1, "1 2 3 101, 5 6 7 105, 9 10 11 109");
    fake_host_release(all, 3);
}

/* The red of the first picture's pixels, in tenths as for masks. */
static void expect_picture(graft_arg picture_, int64_t count, const char *want)
{
    graft_arg red[1] = {picture_};
    int64_t shape[4];
    graft_image_data(graft_value_object(picture_.u.v, GRAFT_VALUE_IMAGE), shape);
    CHECK_INT(shape[0], count);
    expect_mask(made("ImageToMask", red, "red", NULL), want);
    fake_host_release(&picture_, 1);
}

static void pictures_are_put_together(void)
{
    graft_arg two[2], in[24], out[4];
    graft_arg white = made("SolidMask", NULL, NULL, "width", 2, "height", 1, NULL);
    graft_arg dark = made("SolidMask", NULL, NULL, "value", 20, "width", 2, "height", 1, NULL);
    two[0] = made("MaskToImage", &white, NULL, NULL);
    two[1] = made("MaskToImage", &dark, NULL, NULL);
    expect_picture(made("ImageBatch", two, NULL, NULL), 2, "XX");
    expect_picture(made("ImageBlend", two, "multiply", "blend_factor", 100, NULL), 1, "22");
    expect_picture(made("ImageBlend", two, "difference", "blend_factor", 50, NULL), 1, "99");
    expect_picture(made("RepeatImageBatch", two, NULL, "amount", 3, NULL), 3, "XX");
    const graft_arg unmasked[3] = {two[0], two[1], {.kind = GRAFT_NONE}};
    expect_picture(made("ImageCompositeMasked", unmasked, NULL, "x", 1, NULL), 1, "X2");
    const graft_node *n = fake_host_node("ImagePadForOutpaint");
    fake_host_defaults(n, in);
    in[0] = two[0];
    static const char *const sides[] = {"left", "top", "right", "bottom"};
    for (int i = 0; i < 4; i++) in[fake_host_input(n, sides[i])].u.i = i;
    in[fake_host_input(n, "feathering")].u.i = 2;
    CHECK_INT(run_with("ImagePadForOutpaint", in, out), GRAFT_OK);
    CHECK_STR(out[1].u.v->ops->type, "MASK");
    expect_mask(out[1], "XXXX 00XX XXXX XXXX XXXX"); /* too small to fade */
    expect_picture(out[0], 1, "5555 XX55 5555 5555 5555");
    const graft_arg layers[4] = {two[0], dark, two[1], white}; /* the one below is clear */
    expect_picture(made("PorterDuffImageComposite", layers, "SRC_OVER", NULL), 1, "XX");
    expect_picture(made("PorterDuffImageComposite", layers, "DST", NULL), 1, "00");
    fake_host_defaults(fake_host_node("PorterDuffImageComposite"), in);
    memcpy(in, layers, sizeof layers);
    in[4].u.s = "SRC_OVER";
    CHECK_INT(run_with("PorterDuffImageComposite", in, out), GRAFT_OK);
    expect_mask(out[1], "22");
    fake_host_release(out, 1);
    fake_host_release(two, 2);
    fake_host_release(&white, 1);
    fake_host_release(&dark, 1);
}

/* A batch of two pictures of 3 x 2 pixels, tenths in red: 123 456, and the same again, halved. */
static graft_arg two_pictures(void)
{
    float v[2 * 6 * 4];
    graft_image *i = NULL;
    graft_value *value = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int k = 0; k < 48; k++) v[k] = (float)(k / 4 % 6 + 1) / 10 / (float)(1 + k / 24);
    CHECK_OK(graft_image_from_data(v, (const int64_t[]){2, 2, 3, 4}, false, &i, &e), &e);
    CHECK_OK(graft_value_wrap(GRAFT_VALUE_IMAGE, i, &value, &e), &e);
    return (graft_arg){.kind = GRAFT_OBJECT, .u.v = value};
}

/* Of 50 inputs those that are connected. */
static void many_become_one(void)
{
    static const char *const ids[] = {"BatchImagesNode", "BatchMasksNode", "BatchLatentsNode"};
    graft_arg latent[4], size[8];
    const graft_arg *const from[] = {picture, mask, latent};
    const graft_value_kind kind[] = {GRAFT_VALUE_IMAGE, GRAFT_VALUE_MASK, GRAFT_VALUE_LATENT};
    fake_host_defaults(fake_host_node("EmptyLatentImage"), size);
    CHECK_INT(run_with("EmptyLatentImage", size, latent), GRAFT_OK);
    for (int k = 0; k < 3; k++) {
        graft_arg in[50], out[4];
        int64_t one[4], all[4];
        fake_host_defaults(fake_host_node(ids[k]), in);
        in[0] = in[1] = in[7] = in[49] = from[k][0];
        CHECK_INT(run_with(ids[k], in, out), GRAFT_OK);
        if (out[0].kind != GRAFT_OBJECT) return;
        const void *a = graft_value_object(from[k][0].u.v, kind[k]);
        const void *b = graft_value_object(out[0].u.v, kind[k]);
        const float *v = k < 2 ? graft_image_data(a, one) : graft_latent_data(a, one);
        const float *w = k < 2 ? graft_image_data(b, all) : graft_latent_data(b, all);
        const size_t n = (size_t)(one[0] * one[1] * one[2] * one[3]);
        CHECK(all[0] == 4 * one[0] && all[1] == one[1] && all[2] == one[2] && all[3] == one[3]);
        for (size_t i = 0; i < 4; i++) CHECK(memcmp(v, w + i * n, n * sizeof *v) == 0);
        fake_host_release(out, 1);
    }
    fake_host_release(latent, 1);
}

/* As the nodes that resize in one of these ways do. */
static void resized_in_every_way(void)
{
    static const struct {
        const char *how, *input;
        double value;
        int64_t width, height;
    } all[] = {{"scale by multiplier", "resize_type.multiplier", 2, 6, 4},
               {"scale longer dimension", "resize_type.longer_size", 9, 9, 6},
               {"scale shorter dimension", "resize_type.shorter_size", 8, 12, 8},
               {"scale width", "resize_type.width", 6, 6, 4},
               {"scale height", "resize_type.height", 6, 9, 6},
               {"scale total pixels", "resize_type.megapixels", 24.0 / 1048576, 6, 4},
               {"scale to multiple", "resize_type.multiple", 2, 2, 2},
               {"scale to multiple", "resize_type.multiple", 3, 3, 2},
               {"match size", NULL, 0, 16, 8},
               {"scale dimensions", "resize_type.width", 5, 5, 512}};
    const graft_node *n = fake_host_node("ResizeImageMaskNode");
    graft_arg p = two_pictures(), q = {.kind = GRAFT_NONE}, in[24], out[4];
    graft_image *empty = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(graft_image_empty(16, 8, 1, 0, &empty, &e), &e);
    q.kind = GRAFT_OBJECT;
    CHECK_OK(graft_value_wrap(GRAFT_VALUE_IMAGE, empty, &q.u.v, &e), &e);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        fake_host_defaults(n, in);
        in[0] = p;
        in[1].u.s = all[k].how;
        if (!all[k].input) in[fake_host_input(n, "resize_type.match")] = q;
        graft_arg *a = &in[all[k].input ? fake_host_input(n, all[k].input) : 0];
        if (a->kind == GRAFT_INT) a->u.i = (int64_t)all[k].value;
        if (a->kind == GRAFT_FLOAT) a->u.f = all[k].value;
        CHECK_INT(run_with(n->id, in, out), GRAFT_OK);
        if (out[0].kind != GRAFT_OBJECT) continue;
        graft_image_data(graft_value_object(out[0].u.v, GRAFT_VALUE_IMAGE), s);
        CHECK_INT(s[2], all[k].width);
        CHECK_INT(s[1], all[k].height);
        fake_host_release(out, 1);
    }
    fake_host_defaults(n, in);
    in[0] = mask[0];
    CHECK_INT(run_with(n->id, in, out), GRAFT_OK);
    CHECK_STR(out[0].u.v->ops->type, "MASK");
    fake_host_release(out, 1);
    in[0] = p;
    in[1].u.s = "match size"; /* and nothing to match */
    CHECK_INT(run_with(n->id, in, out), GRAFT_E_ARG);
    CHECK_STR(host.fail_input, "resize_type.match");
    fake_host_release(&p, 1);
    fake_host_release(&q, 1);
}

static void pictures_are_changed(void)
{
    const graft_node *n = fake_host_node("GetImageSize");
    graft_arg p = two_pictures(), in[24], out[4], both[2] = {p};
    expect_picture(made("ImageCrop", &p, NULL, "x", 1, "y", 0, "width", 1, "height", 9, NULL), 2,
                   "2 5");
    expect_picture(made("ImageFlip", &p, "x-axis: vertically", NULL), 2, "456 123");
    expect_picture(made("ImageFlip", &p, "y-axis: horizontally", NULL), 2, "321 654");
    expect_picture(made("ImageRotate", &p, "none", NULL), 2, "123 456");
    expect_picture(made("ImageRotate", &p, "90 degrees", NULL), 2, "41 52 63");
    expect_picture(made("ImageRotate", &p, "180 degrees", NULL), 2, "654 321");
    expect_picture(made("ImageRotate", &p, "270 degrees", NULL), 2, "36 25 14");
    expect_picture(made("ImageFromBatch", &p, NULL, "batch_index", 1, NULL), 1, "112 233");
    fake_host_defaults(n, in);
    in[0] = p;
    CHECK_INT(run_with("GetImageSize", in, out), GRAFT_OK);
    static const int64_t size[3] = {3, 2, 2};
    for (int i = 0; i < 3; i++) CHECK(out[i].kind == GRAFT_INT && out[i].u.i == size[i]);
    CHECK_INT(run_with("SplitImageWithAlpha", in, out), GRAFT_OK);
    expect_mask(out[1], "987 654");
    both[0] = out[0];
    both[1] = made("SolidMask", NULL, NULL, "value", 25, "width", 1, "height", 1, NULL);
    graft_arg clear = made("JoinImageWithAlpha", both, NULL, NULL);
    int64_t shape[4];
    const float *v = graft_image_data(graft_value_object(clear.u.v, GRAFT_VALUE_IMAGE), shape);
    CHECK(shape[3] == 4 && v[3] == 0.75f);
    fake_host_release(&clear, 1);
    fake_host_release(both, 2);
    n = fake_host_node("ImageScaleToTotalPixels");
    fake_host_defaults(n, in);
    in[0] = p;
    in[fake_host_input(n, "megapixels")].u.f = 600.0 / 1048576;
    CHECK_INT(run_with("ImageScaleToTotalPixels", in, out), GRAFT_OK);
    graft_image_data(graft_value_object(out[0].u.v, GRAFT_VALUE_IMAGE), shape);
    CHECK(shape[1] == 20 && shape[2] == 30);
    fake_host_release(out, 1);
    in[fake_host_input(n, "resolution_steps")] = (graft_arg){.kind = GRAFT_INT, .u.i = 8};
    CHECK_INT(run_with("ImageScaleToTotalPixels", in, out), GRAFT_OK);
    graft_image_data(graft_value_object(out[0].u.v, GRAFT_VALUE_IMAGE), shape);
    CHECK(shape[1] == 16 && shape[2] == 32); /* 2.5 eights become 2: half to even */
    fake_host_release(out, 1);
    n = fake_host_node("ImageStitch");
    fake_host_defaults(n, in);
    in[fake_host_input(n, "image1")] = in[fake_host_input(n, "image2")] = p;
    in[fake_host_input(n, "spacing_width")].u.i = 2;
    in[fake_host_input(n, "spacing_color")].u.s = "black";
    CHECK_INT(run_with("ImageStitch", in, out), GRAFT_OK);
    expect_picture(out[0], 2, "12300123 45600456");
    in[fake_host_input(n, "direction")].u.s = "down";
    in[fake_host_input(n, "spacing_width")].u.i = 0;
    in[fake_host_input(n, "match_image_size")].u.i = 0;
    CHECK_INT(run_with("ImageStitch", in, out), GRAFT_OK);
    expect_picture(out[0], 2, "123 456 123 456");
    in[fake_host_input(n, "image2")].kind = GRAFT_NONE;
    CHECK_INT(run_with("ImageStitch", in, out), GRAFT_OK);
    expect_picture(out[0], 2, "123 456");
    graft_arg known = made("FluxKontextImageScale", &p, NULL, NULL);
    graft_image_data(graft_value_object(known.u.v, GRAFT_VALUE_IMAGE), shape);
    CHECK(shape[0] == 2 && shape[1] == 832 && shape[2] == 1248); /* 3 : 2 */
    fake_host_release(&known, 1);
    graft_arg longer = made("ImageScaleToMaxDimension", &p, "area", "largest_size", 6, NULL);
    graft_image_data(graft_value_object(longer.u.v, GRAFT_VALUE_IMAGE), shape);
    CHECK(shape[1] == 4 && shape[2] == 6);
    fake_host_release(&longer, 1);
    expect_picture(made("ImageAddNoise", &p, NULL, "strength", 0, NULL), 2, "123 456");
    graft_arg noisy = made("ImageAddNoise", &p, NULL, "seed", 5, "strength", 10, NULL);
    v = graft_image_data(graft_value_object(noisy.u.v, GRAFT_VALUE_IMAGE), shape);
    CHECK(shape[0] == 2 && v[0] != 0.1f && v[3] == 0.1f && v[4] != v[5]);
    fake_host_release(&noisy, 1);
    fake_host_release(&p, 1);
}

/* Each node's numbers arrive: a white picture of 5 x 4 pixels with a dark one in it. */
static void pictures_are_filtered(void)
{
    graft_arg in[24], out[4], p;
    float v[60];
    graft_image *i = NULL;
    graft_value *value = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int k = 0; k < 60; k++) v[k] = k / 3 == 7 ? 0 : 1; /* at 2, 1 */
    CHECK_OK(graft_image_from_data(v, (const int64_t[]){1, 4, 5, 3}, false, &i, &e), &e);
    CHECK_OK(graft_value_wrap(GRAFT_VALUE_IMAGE, i, &value, &e), &e);
    p = (graft_arg){.kind = GRAFT_OBJECT, .u.v = value};
    /* Weights of 1 : e^-0.5 : e^-1, then all alike (':' is 0.96); the upper edge is a mirror. */
    expect_picture(made("ImageBlur", &p, NULL, NULL), 1, "X888X X989X X999X XXXXX");
    expect_picture(made("ImageBlur", &p, NULL, "blur_radius", 2, "sigma", 1000, NULL), 1,
                   "89998 89998 9:::9 89998");
    expect_picture(made("ImageQuantize", &p, "none", "colors", 2, NULL), 1,
                   "XXXXX XX0XX XXXXX XXXXX");
    expect_picture(made("ImageSharpen", &p, NULL, "alpha", 0, NULL), 1, "XXXXX XX0XX XXXXX XXXXX");
    expect_picture(made("ImageSharpen", &p, NULL, "alpha", 500, NULL), 1,
                   "XXXXX XX0XX XXXXX XXXXX");
    expect_picture(made("Canny", &p, NULL, NULL), 1, "00000 00000 00000 00000");
    expect_picture(made("Canny", &p, NULL, "low_threshold", 1, "high_threshold", 2, NULL), 1,
                   "0X0X0 0X0X0 0XXX0 00000");
    expect_picture(made("Morphology", &p, "erode", NULL), 1, "X000X X000X X000X XXXXX");
    expect_picture(made("Morphology", &p, "erode", "kernel_size", 5, NULL), 1,
                   "00000 00000 00000 00000");
    expect_picture(made("Morphology", &p, "close", NULL), 1, "XXXXX XXXXX XXXXX XXXXX");
    fake_host_defaults(fake_host_node("Canny"), in);
    in[0] = p;
    in[1].u.f = 0.9;
    CHECK_INT(run_with("Canny", in, out), GRAFT_E_ARG);
    CHECK(strstr(host.fail_text, "0.9 and 0.8") != NULL);
    fake_host_release(&p, 1);
}

int main(void)
{
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    make_inputs();
    RUN(numbers_arrive);
    RUN(masks_are_made);
    RUN(latents_are_changed);
    RUN(latents_in_layers);
    RUN(latents_under_masks);
    RUN(pictures_are_put_together);
    RUN(many_become_one);
    RUN(resized_in_every_way);
    RUN(pictures_are_changed);
    RUN(pictures_are_filtered);
    fake_host_release(model, 4), fake_host_release(prompt, 4);
    fake_host_release(picture, 4), fake_host_release(mask, 4);
    fake_host_release(gligen, 4);
    graft_plugin_entry.deinit();
    CHECK_INT(fake_live, 0);
    CHECK_INT(fake_engines, 0);
    fake_host_finish(&host);
    return test_end();
}
