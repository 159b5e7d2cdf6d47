/* Nodes that read and write files, and those that work on pictures and latents: with the engine's
 * own pictures and a host that lives in a temporary folder. */
#include <stdbool.h>
#include <stdlib.h>
#include <webp/encode.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/png.h"
#include "nodes/call/metadata.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;

static graft_status run(const char *id, const graft_arg *in, graft_arg *out)
{
    fake_host_clear(&host);
    return fake_host_run(&host, fake_host_node(id), in, out, NULL, 0);
}

static const graft_tensor *tensor(const graft_arg *a)
{
    return a->kind == GRAFT_OBJECT ? a->u.v->ops->query(a->u.v, GRAFT_TENSOR_ID) : NULL;
}

static const float *samples(const graft_arg *a)
{
    const graft_tensor *t = tensor(a);
    return t ? t->data : NULL;
}

static void check_shape(const graft_arg *a, int64_t d0, int64_t d1, int64_t d2, int64_t d3)
{
    const graft_tensor *t = tensor(a);
    const int64_t want[4] = {d0, d1, d2, d3};
    CHECK(t != NULL);
    for (int i = 0; t && i < t->ndim; i++) CHECK_INT(t->shape[i], want[i]);
    CHECK_INT(t ? t->ndim : 0, d3 ? 4 : 3);
}

static void make_image(int64_t w, int64_t h, int64_t n, int64_t color, graft_arg *out)
{
    const graft_node *node = fake_host_node("EmptyImage");
    graft_arg in[24];
    fake_host_defaults(node, in);
    in[0].u.i = w, in[1].u.i = h, in[2].u.i = n, in[3].u.i = color;
    CHECK_INT(run("EmptyImage", in, out), GRAFT_OK);
}

static void make_latent(int64_t w, int64_t h, int64_t n, graft_arg *out)
{
    graft_arg in[24];
    fake_host_defaults(fake_host_node("EmptyLatentImage"), in);
    in[0].u.i = w, in[1].u.i = h, in[2].u.i = n;
    CHECK_INT(run("EmptyLatentImage", in, out), GRAFT_OK);
}

/* ------------------------------------------------------------------ nodes without files */

static void primitives_pass_their_value(void)
{
    graft_arg in[4] = {{.kind = GRAFT_INT, .u.i = INT64_MIN + 1}}, out[4];
    char text[32] = "";
    CHECK_INT(run("PrimitiveInt", in, out), GRAFT_OK);
    CHECK(out[0].kind == GRAFT_INT && out[0].u.i == INT64_MIN + 1);
    in[0] = (graft_arg){.kind = GRAFT_FLOAT, .u.f = 0.1};
    CHECK_INT(run("PrimitiveFloat", in, out), GRAFT_OK);
    CHECK(out[0].kind == GRAFT_FLOAT && out[0].u.f == 0.1);
    in[0] = (graft_arg){.kind = GRAFT_BOOL, .u.i = 1};
    CHECK_INT(run("PrimitiveBoolean", in, out), GRAFT_OK);
    CHECK(out[0].kind == GRAFT_BOOL && out[0].u.i == 1);
    in[0] = (graft_arg){.kind = GRAFT_STRING, .u.s = "gr\xc3\xbc\xc3\x9f"};
    fake_host_clear(&host);
    CHECK_INT(fake_host_run(&host, fake_host_node("PrimitiveString"), in, out, text, sizeof text),
              GRAFT_OK);
    CHECK_STR(text, "gr\xc3\xbc\xc3\x9f");
}

static void strings_are_put_together(void)
{
    graft_arg in[3] = {{.kind = GRAFT_STRING, .u.s = "a red\napple"},
                       {.kind = GRAFT_STRING, .u.s = "3d"},
                       {.kind = GRAFT_STRING, .u.s = ", "}};
    graft_arg out[4];
    char text[32] = "";
    CHECK_INT(fake_host_run(&host, fake_host_node("PrimitiveStringMultiline"), in, out, text,
                            sizeof text),
              GRAFT_OK);
    CHECK_STR(text, "a red\napple");
    CHECK_INT(fake_host_run(&host, fake_host_node("StringConcatenate"), in, out, text, sizeof text),
              GRAFT_OK);
    CHECK_STR(text, "a red\napple, 3d");
}

/* Without the other, which a host does not compute. */
static void a_switch_passes_one(void)
{
    const graft_node *n = fake_host_node("ComfySwitchNode");
    const graft_lazy_api *lazy = n->query(GRAFT_LAZY_ID);
    graft_arg in[4] = {{.kind = GRAFT_BOOL}}, out[4], latent[4];
    uint64_t bits = 0;
    char text[32] = "";
    CHECK(lazy && lazy->needed(NULL, in, &bits) == GRAFT_OK && bits == 2);
    make_latent(64, 64, 1, latent);
    in[1] = latent[0];
    CHECK_INT(run("ComfySwitchNode", in, out), GRAFT_OK);
    CHECK(out[0].kind == GRAFT_OBJECT && out[0].u.v == latent[0].u.v);
    fake_host_release(out, 1);
    in[0].u.i = 1;
    CHECK(lazy->needed(NULL, in, &bits) == GRAFT_OK && bits == 4);
    CHECK_INT(run("ComfySwitchNode", in, out), GRAFT_E_ARG);
    fake_host_release(latent, 1);
    in[1].kind = GRAFT_NONE;
    in[2] = (graft_arg){.kind = GRAFT_STRING, .u.s = "yes"};
    CHECK_INT(fake_host_run(&host, n, in, out, text, sizeof text), GRAFT_OK);
    CHECK_STR(text, "yes");
    in[2] = (graft_arg){.kind = GRAFT_FLOAT, .u.f = 0.5};
    CHECK_INT(run("ComfySwitchNode", in, out), GRAFT_OK);
    CHECK(out[0].kind == GRAFT_FLOAT && out[0].u.f == 0.5);
}

/* Nodes of other packs: a seed below 0 is another one each time, and no result of it is kept. */
static void seeds_are_shared_or_drawn(void)
{
    const graft_node *n = fake_host_node("Seed (rgthree)");
    const graft_fingerprint_api *prints = n->query(GRAFT_FINGERPRINT_ID);
    graft_arg in[1] = {{.kind = GRAFT_INT, .u.i = 7}}, out[4];
    char text[2][64];
    for (int i = 0; i < 2; i++) CHECK_INT(prints->get(NULL, in, text[i], sizeof text[i]), GRAFT_OK);
    CHECK_STR(text[0], text[1]);
    CHECK_INT(run("Seed (rgthree)", in, out), GRAFT_OK);
    CHECK(out[0].kind == GRAFT_INT && out[0].u.i == 7);
    int64_t last = -1;
    for (in[0].u.i = -3; in[0].u.i < 0; in[0].u.i++) {
        for (int i = 0; i < 2; i++)
            CHECK_INT(prints->get(NULL, in, text[i], sizeof text[i]), GRAFT_OK);
        CHECK(strcmp(text[0], text[1]) != 0);
        CHECK_INT(run("Seed (rgthree)", in, out), GRAFT_OK);
        CHECK(out[0].u.i >= 0 && out[0].u.i < INT64_C(1) << 50 && out[0].u.i != last);
        last = out[0].u.i;
    }
}

static void texts_are_shown_and_passed_on(void)
{
    graft_arg in[1] = {{.kind = GRAFT_STRING, .u.s = "red"}}, out[4];
    char text[32] = "";
    fake_host_clear(&host);
    CHECK_INT(fake_host_run(&host, fake_host_node("ShowText|pysssss"), in, out, text, sizeof text),
              GRAFT_OK);
    CHECK_STR(text, "red");
    CHECK_STR(host.ui, "text \"red\"\n");
}

static void any_value_can_be_seen(void)
{
    graft_arg in[4], out[4]; /* a latent takes four */
    const struct {
        graft_arg value;
        const char *shown;
    } plain[] = {{{.kind = GRAFT_INT, .u.i = INT64_MIN}, "text \"-9223372036854775808\"\n"},
                 {{.kind = GRAFT_FLOAT, .u.f = 0.1}, "text \"0.1\"\n"},
                 {{.kind = GRAFT_FLOAT, .u.f = 1.0 / 3}, "text \"0.3333333333333333\"\n"},
                 {{.kind = GRAFT_BOOL, .u.i = 1}, "text \"true\"\n"},
                 {{.kind = GRAFT_STRING, .u.s = ""}, "text \"\"\n"},
                 {{.kind = GRAFT_CHOICE, .u.s = "a \"b\""}, "text \"a \\\"b\\\"\"\n"}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        fake_host_clear(&host);
        in[0] = plain[i].value;
        CHECK_INT(run("PreviewAny", in, out), GRAFT_OK);
        CHECK_STR(host.ui, plain[i].shown);
    }
    make_latent(64, 32, 3, in);
    fake_host_clear(&host);
    CHECK_INT(run("PreviewAny", in, out), GRAFT_OK);
    CHECK_STR(host.ui, "text \"LATENT 3 x 4 x 4 x 8\"\n");
    fake_host_release(in, 1);
    in[0] = (graft_arg){.kind = GRAFT_STRING};
    CHECK_INT(run("PreviewAny", in, out), GRAFT_E_ARG);
    in[0] = (graft_arg){.kind = GRAFT_NONE};
    CHECK_INT(run("PreviewAny", in, out), GRAFT_E_ARG);
}

/* A string output lives until the next call on the same instance, whatever the input does. */
static void text_outputs_outlive_their_input(void)
{
    const graft_node *node = fake_host_node("PrimitiveString");
    char text[] = "first";
    graft_arg in[1] = {{.kind = GRAFT_STRING, .u.s = text}}, out[4] = {{0}};
    void *self = NULL;
    CHECK_INT(node->create(&host.host, &self), GRAFT_OK);
    CHECK_INT(node->execute(self, NULL, in, out), GRAFT_OK);
    memset(text, 'x', 5);
    CHECK_STR(out[0].u.s, "first");
    CHECK_INT(node->execute(self, NULL, in, out), GRAFT_OK);
    CHECK_STR(out[0].u.s, "xxxxx");
    node->destroy(self);
    node->destroy(NULL);
}

static void pictures_and_masks(void)
{
    graft_arg image[4], out[4], mask[4], in[24];
    make_image(4, 2, 3, 0xff8000, image);
    check_shape(&image[0], 3, 2, 4, 3);
    CHECK(samples(&image[0])[0] == 1 && samples(&image[0])[2] == 0);
    CHECK_NEAR(samples(&image[0])[1], 128.0 / 255, 1e-6);
    in[0] = image[0];
    CHECK_INT(run("ImageInvert", in, out), GRAFT_OK);
    CHECK(samples(&out[0])[0] == 0 && samples(&out[0])[2] == 1);
    fake_host_release(out, 4);
    in[1] = (graft_arg){.kind = GRAFT_CHOICE, .u.s = "green"};
    CHECK_INT(run("ImageToMask", in, mask), GRAFT_OK);
    check_shape(&mask[0], 3, 2, 4, 0);
    CHECK_NEAR(samples(&mask[0])[5], 128.0 / 255, 1e-6);
    in[0] = mask[0];
    CHECK_INT(run("MaskToImage", in, out), GRAFT_OK);
    check_shape(&out[0], 3, 2, 4, 3);
    fake_host_release(out, 4);
    fake_host_defaults(fake_host_node("ImageScale"), in);
    in[0] = image[0], in[2].u.i = 8, in[3].u.i = 0;
    CHECK_INT(run("ImageScale", in, out), GRAFT_OK);
    check_shape(&out[0], 3, 4, 8, 3);
    fake_host_release(out, 4);
    fake_host_defaults(fake_host_node("ImageScaleBy"), in);
    in[0] = image[0], in[2].u.f = 2.5;
    CHECK_INT(run("ImageScaleBy", in, out), GRAFT_OK);
    check_shape(&out[0], 3, 5, 10, 3);
    fake_host_release(out, 4);
    fake_host_release(image, 4);
    fake_host_release(mask, 4);
}

static void latents(void)
{
    graft_arg latent[4], out[4], mask[4], image[4], in[24];
    make_latent(64, 128, 2, latent);
    check_shape(&latent[0], 2, 4, 16, 8);
    fake_host_defaults(fake_host_node("LatentUpscale"), in);
    in[0] = latent[0], in[2].u.i = 256, in[3].u.i = 128;
    CHECK_INT(run("LatentUpscale", in, out), GRAFT_OK);
    check_shape(&out[0], 2, 4, 16, 32);
    fake_host_release(out, 4);
    fake_host_defaults(fake_host_node("LatentUpscaleBy"), in);
    in[0] = latent[0];
    CHECK_INT(run("LatentUpscaleBy", in, out), GRAFT_OK);
    check_shape(&out[0], 2, 4, 24, 12);
    fake_host_release(out, 4);
    in[1] = (graft_arg){.kind = GRAFT_INT, .u.i = 3};
    CHECK_INT(run("RepeatLatentBatch", in, out), GRAFT_OK);
    check_shape(&out[0], 6, 4, 16, 8);
    fake_host_release(out, 4);
    in[1] = (graft_arg){.kind = GRAFT_INT, .u.i = 1};
    in[2] = (graft_arg){.kind = GRAFT_INT, .u.i = 1};
    CHECK_INT(run("LatentFromBatch", in, out), GRAFT_OK);
    check_shape(&out[0], 1, 4, 16, 8);
    fake_host_release(out, 4);
    make_image(64, 128, 1, 0xffffff, image);
    in[0] = image[0], in[1] = (graft_arg){.kind = GRAFT_CHOICE, .u.s = "red"};
    CHECK_INT(run("ImageToMask", in, mask), GRAFT_OK);
    in[0] = latent[0], in[1] = mask[0];
    CHECK_INT(run("SetLatentNoiseMask", in, out), GRAFT_OK);
    check_shape(&out[0], 2, 4, 16, 8);
    fake_host_release(out, 4);
    fake_host_release(mask, 4), fake_host_release(image, 4), fake_host_release(latent, 4);
}

/* ------------------------------------------------------------------ files */

static void save(const char *id, const graft_arg *object, const char *prefix, graft_status want)
{
    graft_arg in[2] = {*object, {.kind = GRAFT_STRING, .u.s = prefix}}, out[4];
    CHECK_INT(run(id, in, out), want);
    fake_host_release(out, 4);
}

static char *read_file(const char *folder, const char *name, size_t *size)
{
    char path[1024], *data = NULL;
    fake_host_path(&host, folder, name, path, sizeof path);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_read(path, 1 << 24, &data, size, &e), &e);
    return data;
}

static void check_png_text(const char *name, const char *key, const char *want)
{
    graft_err e = GRAFT_ERR_INIT;
    size_t n = 0;
    char *text = NULL, *png = read_file("output", name, &n);
    if (!png) return;
    graft_status st = graft_png_read_text((const uint8_t *)png, n, key, &text, &e);
    if (want)
        CHECK_STR(text, want);
    else
        CHECK_INT(st, GRAFT_E_NOTFOUND);
    graft_free(text);
    graft_free(png);
}

static void pictures_are_saved_with_their_workflow(void)
{
    graft_arg image[4];
    make_image(5, 3, 2, 0x102030, image);
    host.prompt = "{\"6\": {\"inputs\": {\"text\": \"caf\xc3\xa9 \xf0\x9f\x98\x80\"}}}";
    host.extra_pnginfo = "{\"workflow\": {\"id\": 18446744073709551615, \"t\": \"\xe6\xa3\xae\"},"
                         "\"\xe6\xa3\xae\": 1, \"prompt\": 2, \"\": 3, \"other\": [1, 2.5]}";
    save("SaveImage", &image[0], "sub/pic", GRAFT_OK);
    CHECK_STR(host.phases, "save ");
    CHECK_STR(host.ui, "images {\"filename\": \"pic_00001_.png\", \"subfolder\": \"sub\", "
                       "\"type\": \"output\"}\n"
                       "images {\"filename\": \"pic_00002_.png\", \"subfolder\": \"sub\", "
                       "\"type\": \"output\"}\n");
    check_png_text("sub/pic_00001_.png", "prompt",
                   "{\"6\": {\"inputs\": {\"text\": \"caf\\u00e9 \\ud83d\\ude00\"}}}");
    check_png_text("sub/pic_00002_.png", "workflow",
                   "{\"id\":18446744073709551615,\"t\":\"\\u68ee\"}");
    check_png_text("sub/pic_00001_.png", "other", "[1,2.5]");
    CHECK(strstr(host.log, "left out") != NULL);
    host.prompt = host.extra_pnginfo = NULL;
    save("SaveImage", &image[0], "plain%batch_num%", GRAFT_OK);
    check_png_text("plain0_00001_.png", "prompt", NULL);
    check_png_text("plain1_00001_.png", "workflow", NULL);
    fake_host_release(image, 4);
}

/* With so many bits, behind which the pictures are the ones that came. */
static void pictures_are_saved_finely(void)
{
    graft_arg image[4], in[8], out[4];
    const graft_node *n = fake_host_node("SaveImageAdvanced");
    make_image(5, 3, 2, 0x102030, image);
    host.prompt = "{\"6\": 1}";
    for (int bits = 8; bits <= 16; bits += 8) {
        size_t size = 0;
        fake_host_defaults(n, in);
        in[0] = image[0], in[1].u.s = bits == 8 ? "coarse" : "fine";
        in[2].u.s = "png", in[3].u.s = bits == 8 ? "8-bit" : "16-bit", in[4].u.s = "sRGB";
        CHECK_INT(run("SaveImageAdvanced", in, out), GRAFT_OK);
        CHECK(out[0].kind == GRAFT_OBJECT && out[0].u.v == image[0].u.v);
        fake_host_release(out, 4);
        char *png = read_file("output", bits == 8 ? "coarse_00002_.png" : "fine_00002_.png", &size);
        CHECK(png && size > 25 && png[24] == bits); /* of the header */
        graft_free(png);
    }
    check_png_text("fine_00001_.png", "prompt", "{\"6\": 1}");
    host.prompt = NULL;
    in[1].u.s = "../fine";
    CHECK_INT(run("SaveImageAdvanced", in, out), GRAFT_E_ARG);
    fake_host_release(image, 4);
}

static void previews_go_to_the_temporary_folder(void)
{
    graft_arg image[4], mask[4], in[2], out[4];
    make_image(4, 4, 1, 0, image);
    in[0] = image[0], in[1] = (graft_arg){.kind = GRAFT_CHOICE, .u.s = "red"};
    CHECK_INT(run("ImageToMask", in, mask), GRAFT_OK);
    for (int i = 0; i < 2; i++) {
        fake_host_clear(&host);
        CHECK_INT(run(i ? "MaskPreview" : "PreviewImage", i ? mask : image, out), GRAFT_OK);
        CHECK(strncmp(host.ui, "images {\"filename\": \"ComfyUI_temp_", 34) == 0);
        CHECK(strstr(host.ui, "_.png\", \"subfolder\": \"\", \"type\": \"temp\"}") != NULL);
    }
    in[1] = (graft_arg){.kind = GRAFT_NONE};
    for (int both = 0; both < 2; both++, in[1] = image[0]) {
        fake_host_clear(&host);
        CHECK_INT(run("Image Comparer (rgthree)", in, out), GRAFT_OK);
        const char *first = strstr(host.ui, "images {\"filename\": \"ComfyUI_temp_");
        CHECK(first == host.ui && !strstr(first + 1, "images {") == !both);
    }
    fake_host_release(mask, 4), fake_host_release(image, 4);
}

static void pictures_go_to_who_asked(void)
{
    graft_arg image[4], out[4];
    make_image(4, 4, 3, 0, image);
    CHECK_INT(run("SaveImageWebsocket", image, out), GRAFT_OK);
    CHECK_INT(host.pictures, 3);
    CHECK(host.done == 3 && host.total == 3);
    CHECK_STR(host.ui, "");
    CHECK_STR(host.log, "");
    host.deaf = true;
    CHECK_INT(run("SaveImageWebsocket", image, out), GRAFT_OK);
    CHECK(strstr(host.log, "nobody receives the pictures") != NULL);
    host.deaf = false;
    host.bare = true; /* a host that knows nothing of them */
    CHECK_INT(run("SaveImageWebsocket", image, out), GRAFT_OK);
    CHECK(strstr(host.log, "nobody receives the pictures") != NULL);
    host.bare = false;
    fake_host_clear(&host);
    host.cancel_after = 1;
    CHECK_INT(fake_host_run(&host, fake_host_node("SaveImageWebsocket"), image, out, NULL, 0),
              GRAFT_E_CANCEL);
    CHECK_INT(host.pictures, 1);
    fake_host_release(image, 4);
}

static void saving_survives_races_and_reports_errors(void)
{
    graft_arg image[4];
    make_image(4, 4, 1, 0, image);
    host.reserve_races = 3;
    save("SaveImage", &image[0], "race", GRAFT_OK);
    CHECK(strstr(host.ui, "race_00004_.png") != NULL);
    graft_arg latent[4];
    make_latent(64, 32, 1, latent);
    host.reserve_races = 3;
    save("SaveLatent", &latent[0], "race", GRAFT_OK);
    CHECK(strstr(host.ui, "race_00004_.latent") != NULL);
    fake_host_release(latent, 4);
    host.reserve_races = 1000;
    save("SaveImage", &image[0], "lost", GRAFT_E_ARG);
    CHECK_INT(host.fails, 1);
    host.reserve_races = 0;
    save("SaveImage", &image[0], "../out", GRAFT_E_ARG);
    CHECK(strstr(host.fail_text, "leaves the output folder") != NULL);
    host.extra_pnginfo = "{broken";
    save("SaveImage", &image[0], "x", GRAFT_E_FORMAT);
    host.extra_pnginfo = "[1]";
    save("SaveImage", &image[0], "x", GRAFT_OK);
    host.extra_pnginfo = NULL;
    graft_arg in[2] = {image[0], {.kind = GRAFT_STRING, .u.s = "cancelled"}}, out[4];
    fake_host_clear(&host);
    host.cancel_after = 0;
    CHECK_INT(fake_host_run(&host, fake_host_node("SaveImage"), in, out, NULL, 0), GRAFT_E_CANCEL);
    char path[1024];
    fake_host_path(&host, "output", "cancelled_00001_.png", path, sizeof path);
    CHECK(!graft_file_exists(path));
    fake_host_release(image, 4);
}

static void put_png(const char *name, const uint8_t *pixels, uint32_t w, uint32_t h, int channels)
{
    uint8_t *png = NULL;
    size_t n = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_png_encode(pixels, w, h, channels, 4, NULL, 0, &png, &n, &e), &e);
    fake_host_put(&host, "input", name, png, n);
    graft_free(png);
}

static void put_webp(const char *name, const uint8_t *rgba, int w, int h)
{
    uint8_t *webp = NULL;
    size_t n = WebPEncodeLosslessRGBA(rgba, w, h, 4 * w, &webp);
    CHECK(n > 0);
    fake_host_put(&host, "input", name, webp, n);
    WebPFree(webp);
}

static graft_arg choice(const char *s)
{
    return (graft_arg){.kind = GRAFT_CHOICE, .u.s = s};
}

static void pictures_are_loaded(void)
{
    const uint8_t rgba[8] = {255, 0, 51, 255, 0, 102, 0, 51};
    graft_arg in[2] = {choice("a.webp"), choice("alpha")}, out[4];
    put_png("a.png", rgba, 2, 1, 4);
    put_webp("a.webp", rgba, 2, 1);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(run("LoadImage", in, out), GRAFT_OK);
        CHECK_STR(host.phases, "load ");
        check_shape(&out[0], 1, 1, 2, 3);
        CHECK_NEAR(samples(&out[0])[0], 1, 1e-7);
        CHECK_NEAR(samples(&out[0])[2], 0.2, 1e-6);
        check_shape(&out[1], 1, 1, 2, 0);
        CHECK_NEAR(samples(&out[1])[0], 0, 1e-7);
        CHECK_NEAR(samples(&out[1])[1], 0.8, 1e-6);
        CHECK_STR(out[1].u.v->ops->type, "MASK");
        fake_host_release(out, 4);
        in[0] = choice("a.png");
    }
    CHECK_INT(run("LoadImageMask", in, out), GRAFT_OK);
    CHECK_NEAR(samples(&out[0])[1], 0.8, 1e-6);
    fake_host_release(out, 4);
    in[1] = choice("green");
    CHECK_INT(run("LoadImageMask", in, out), GRAFT_OK);
    CHECK_NEAR(samples(&out[0])[1], 0.4, 1e-6);
    fake_host_release(out, 4);
    in[0] = choice("plain0_00001_.png [output]"); /* an annotated name: saved above */
    CHECK_INT(run("LoadImage", in, out), GRAFT_OK);
    check_shape(&out[0], 1, 3, 5, 3);
    CHECK_NEAR(samples(&out[0])[0], 16.0 / 255, 1e-6);
    check_shape(&out[1], 1, 64, 64, 0);
    fake_host_release(out, 4);
    in[0] = choice("a.png [input]");
    CHECK_INT(run("LoadImage", in, out), GRAFT_OK);
    fake_host_release(out, 4);
    /* From the other folder, however it is named. */
    const char *const names[] = {"plain0_00001_.png", "plain0_00001_.png [output]",
                                 "a.png [input]"};
    for (int i = 0; i < 3; i++) {
        in[0] = choice(names[i]);
        CHECK_INT(run("LoadImageOutput", in, out), GRAFT_OK);
        check_shape(&out[0], 1, i < 2 ? 3 : 1, i < 2 ? 5 : 2, 3);
        CHECK_STR(out[1].u.v->ops->type, "MASK");
        fake_host_release(out, 4);
    }
    in[0] = choice("a.png");
    CHECK_INT(run("LoadImageOutput", in, out), GRAFT_E_NOTFOUND);
    CHECK_STR(host.fail_input, "image");
}

/* Names from Windows, also with a folder behind them. */
static void pictures_in_folders_are_found(void)
{
    static const char *const names[] = {"a/b/c.png", "a\\b\\c.png", "a\\b/c.png [input]",
                                        "sub\\pic_00001_.png [output]",
                                        "sub/pic_00001_.png [output]"};
    graft_arg in[2] = {{0}, choice("red")}, out[4], picture[4];
    make_image(7, 9, 1, 0, picture);
    save("SaveImage", &picture[0], "a/b/c", GRAFT_OK);
    fake_host_release(picture, 4);
    char from[1024], to[1024];
    fake_host_path(&host, "output", "a/b/c_00001_.png", from, sizeof from);
    fake_host_put(&host, "input", "a/b/x", "", 0);
    fake_host_path(&host, "input", "a/b/c.png", to, sizeof to);
    CHECK(rename(from, to) == 0);
    const char *const ids[] = {"LoadImage", "LoadImageMask"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int k = 0; k < 2; k++) {
            const graft_node *n = fake_host_node(ids[k]);
            const graft_validate_api *check = n->query(GRAFT_VALIDATE_ID);
            const char *input = NULL;
            char text[300] = "";
            in[0] = choice(names[i]);
            CHECK_INT(check->check(&host.host, in, &input, text, sizeof text), GRAFT_OK);
            CHECK_INT(run(ids[k], in, out), GRAFT_OK);
            if (k == 0 && !strstr(names[i], "output")) check_shape(&out[0], 1, 9, 7, 3);
            fake_host_release(out, 4);
        }
    in[0] = choice("..\\output\\sub\\pic_00001_.png");
    CHECK(run("LoadImage", in, out) != GRAFT_OK);
    in[0] = choice("..\\input\\a\\b\\c.png [output]");
    CHECK(run("LoadImage", in, out) != GRAFT_OK);
}

static void bad_pictures_name_the_input(void)
{
    graft_arg in[2] = {choice("bad.png"), choice("red")}, out[4];
    fake_host_put(&host, "input", "bad.png", "not a picture", 13);
    const char *const ids[] = {"LoadImage", "LoadImageMask"};
    for (int i = 0; i < 2; i++) {
        in[0] = choice("bad.png");
        CHECK(run(ids[i], in, out) != GRAFT_OK);
        CHECK_STR(host.fail_input, "image");
        in[0] = choice("none.png");
        CHECK_INT(run(ids[i], in, out), GRAFT_E_NOTFOUND);
        CHECK_STR(host.fail_input, "image");
        in[0] = choice("../output/plain0_00001_.png");
        CHECK(run(ids[i], in, out) != GRAFT_OK);
    }
}

static void latents_come_back_from_files(void)
{
    graft_arg latent[4], out[4], in[1];
    make_latent(64, 32, 2, latent);
    host.prompt = "{}";
    save("SaveLatent", &latent[0], "latents/x", GRAFT_OK);
    host.prompt = NULL;
    CHECK_STR(host.ui, "latents {\"filename\": \"x_00001_.latent\", \"subfolder\": \"latents\", "
                       "\"type\": \"output\"}\n");
    in[0] = choice("latents/x_00001_.latent [output]");
    CHECK_INT(run("LoadLatent", in, out), GRAFT_OK);
    check_shape(&out[0], 2, 4, 4, 8);
    fake_host_release(out, 4), fake_host_release(latent, 4);
    fake_host_put(&host, "input", "bad.latent", "x", 1);
    in[0] = choice("bad.latent");
    CHECK(run("LoadLatent", in, out) != GRAFT_OK);
    CHECK_STR(host.fail_input, "latent");
}

static void check_list(const char *id, const char *input, const char *const *want)
{
    const graft_choices_api *api = fake_host_node(id)->query(GRAFT_CHOICES_ID);
    char **names = api->list(&host.host, input);
    int i = 0;
    CHECK(names != NULL);
    for (; names && names[i] && want[i]; i++) CHECK_STR(names[i], want[i]);
    CHECK(names && !names[i] && !want[i]);
    api->free(names);
}

static void only_readable_files_are_offered(void)
{
    static const char *const pictures[] = {"B.JPG", "a.png", "a.webp", "bad.png", NULL};
    static const char *const saved[] = {"bad.latent", NULL};
    fake_host_put(&host, "input", "B.JPG", "x", 1);
    fake_host_put(&host, "input", "notes.txt", "x", 1);
    fake_host_put(&host, "input", ".png", "x", 1);
    fake_host_put(&host, "input", "sub/c.png", "x", 1);
    check_list("LoadImage", "image", pictures);
    check_list("LoadImageMask", "image", pictures);
    check_list("LoadLatent", "latent", saved);
    const graft_choices_api *api = fake_host_node("LoadImageOutput")->query(GRAFT_CHOICES_ID);
    char **names = api->list(&host.host, "image");
    int found = 0, others = 0;
    for (int i = 0; names && names[i]; i++) {
        found += strcmp(names[i], "plain0_00001_.png") == 0;
        others += strcmp(names[i], "a.png") == 0;
    }
    CHECK(found == 1 && others == 0);
    api->free(names);
}

static void missing_files_are_found_before_a_run(void)
{
    const char *const ids[] = {"LoadImage", "LoadImageMask", "LoadLatent"};
    const char *const input_names[] = {"image", "image", "latent"};
    for (int i = 0; i < 3; i++) {
        const graft_validate_api *api = fake_host_node(ids[i])->query(GRAFT_VALIDATE_ID);
        graft_arg in[2] = {choice("x.png"), choice("red")};
        const char *input = NULL;
        char text[64] = "";
        CHECK_INT(api->check(&host.host, in, &input, text, sizeof text), GRAFT_E_NOTFOUND);
        CHECK_STR(input, input_names[i]);
        CHECK_STR(text, i < 2 ? "Invalid image file: x.png" : "Invalid latent file: x.png");
        in[0] = choice("a.png");
        CHECK_INT(api->check(&host.host, in, &input, text, sizeof text), GRAFT_OK);
        in[0] = (graft_arg){.kind = GRAFT_NONE};
        CHECK_INT(api->check(&host.host, in, &input, text, sizeof text), GRAFT_OK);
    }
}

/* By what is in it, whatever it is called; a file of no known kind is left to the run. */
static void kinds_that_are_not_read_are_found_before_a_run(void)
{
    static const struct {
        const char *bytes, *kind;
        size_t n;
    } files[] = {{"II*\0\x08\0\0\0", "TIFF", 8},
                 {"MM\0*\0\0\0\x08", "TIFF", 8},
                 {"\0\0\0\40ftypavif", "AVIF", 12},
                 {"\0\0\0\40ftypavis", "AVIF", 12},
                 {"\0\0\0\30ftypheic", "HEIC", 12},
                 {"\0\0\0\30ftypmif1", "HEIF", 12},
                 {"\xff\x0a\xfa\x7f", "JPEG XL", 4},
                 {"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL", 12},
                 {"RIFF\x04\0\0\0WEBP", NULL, 12},
                 {"not a picture", NULL, 13},
                 {"", NULL, 0}};
    static const char *const ids[] = {"LoadImage", "LoadImageMask", "LoadImageOutput"};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++)
        for (int i = 0; i < 3; i++) {
            const graft_validate_api *api = fake_host_node(ids[i])->query(GRAFT_VALIDATE_ID);
            graft_arg in[2] = {choice("x.png"), choice("red")};
            const char *input = NULL;
            char text[200] = "", want[200] = "";
            fake_host_put(&host, i < 2 ? "input" : "output", "x.png", files[k].bytes, files[k].n);
            CHECK_INT(api->check(&host.host, in, &input, text, sizeof text),
                      files[k].kind ? GRAFT_E_FORMAT : GRAFT_OK);
            if (files[k].kind)
                snprintf(want, sizeof want,
                         "Invalid image file: x.png (%s files are not read, only PNG, JPEG, WebP, "
                         "BMP, GIF, TGA, PSD and PNM)",
                         files[k].kind);
            CHECK_STR(text, want);
            CHECK_STR(input, "image");
        }
}

static void check_ascii(const char *text, const char *want)
{
    char *got = graft_metadata_ascii(text);
    CHECK_STR(got, want);
    graft_free(got);
}

static void metadata_is_ascii(void)
{
    check_ascii("", "");
    check_ascii("plain \x7f", "plain \x7f");
    check_ascii("\xc2\x80\xdf\xbf", "\\u0080\\u07ff");
    check_ascii("\xe0\xa0\x80\xef\xbf\xbf", "\\u0800\\uffff");
    check_ascii("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\\ud800\\udc00\\udbff\\udfff");
    check_ascii("\x80", "\\ufffd");                       /* a tail without a head */
    check_ascii("\xc0\xaf", "\\ufffd\\ufffd");            /* too long a form */
    check_ascii("\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"); /* a surrogate */
    check_ascii("\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd");
    check_ascii("a\xe2\x82", "a\\ufffd\\ufffd"); /* cut off at the end */
}

/* Each allocation of the file nodes fails in turn: no crash, no leak, no half-written file. */
static void memory_may_end_anywhere(void)
{
    static const char *const ids[] = {"LoadImage",         "LoadImageMask", "LoadLatent",
                                      "SaveImage",         "PreviewImage",  "SaveLatent",
                                      "SaveImageWebsocket"};
    graft_arg image[4], latent[4];
    make_image(4, 4, 2, 0, image);
    make_latent(16, 16, 1, latent);
    host.prompt = "{\"a\": \"\xc3\xa9\"}";
    host.extra_pnginfo = "{\"workflow\": {\"nodes\": []}, \"other\": 1}";
    for (size_t k = 0; k < sizeof ids / sizeof *ids; k++) {
        graft_arg in[2] = {choice("a.png"), choice("red")}, out[4];
        if (k == 2) in[0] = choice("latents/x_00001_.latent [output]");
        if (k >= 3) in[0] = k == 5 ? latent[0] : image[0];
        if (k >= 3) in[1] = (graft_arg){.kind = GRAFT_STRING, .u.s = "memory"};
        graft_alloc_stats before, after;
        graft_status st = GRAFT_E_NOMEM;
        graft_alloc_stats_get(&before);
        for (int i = 1; st != GRAFT_OK && i < 2000; i++) {
            fake_host_clear(&host);
            graft_alloc_fail_at(i);
            st = fake_host_run(&host, fake_host_node(ids[k]), in, out, NULL, 0);
            graft_alloc_fail_at(0);
            if (st != GRAFT_OK) CHECK_INT(out[0].kind, GRAFT_NONE);
            fake_host_release(out, 4);
        }
        CHECK_INT(st, GRAFT_OK);
        graft_alloc_stats_get(&after);
        if (after.live_blocks != before.live_blocks) fprintf(stderr, "%s loses memory\n", ids[k]);
        CHECK_INT(after.live_blocks, before.live_blocks);
    }
    host.prompt = host.extra_pnginfo = NULL;
    fake_host_release(image, 4), fake_host_release(latent, 4);
    char **names = NULL;
    size_t count = 0;
    CHECK_INT(graft_dir_list(host.root, NULL, &names, &count, NULL), GRAFT_OK);
    for (size_t i = 0; i < count; i++) CHECK(!strstr(names[i], "tmp"));
    graft_names_free(names, count);
}

int main(void)
{
    graft_alloc_stats stats;
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    RUN(primitives_pass_their_value);
    RUN(strings_are_put_together);
    RUN(a_switch_passes_one);
    RUN(seeds_are_shared_or_drawn);
    RUN(texts_are_shown_and_passed_on);
    RUN(any_value_can_be_seen);
    RUN(text_outputs_outlive_their_input);
    RUN(pictures_and_masks);
    RUN(latents);
    RUN(pictures_are_saved_with_their_workflow);
    RUN(pictures_are_saved_finely);
    RUN(previews_go_to_the_temporary_folder);
    RUN(pictures_go_to_who_asked);
    RUN(saving_survives_races_and_reports_errors);
    RUN(pictures_are_loaded);
    RUN(pictures_in_folders_are_found);
    RUN(bad_pictures_name_the_input);
    RUN(latents_come_back_from_files);
    RUN(only_readable_files_are_offered);
    RUN(missing_files_are_found_before_a_run);
    RUN(kinds_that_are_not_read_are_found_before_a_run);
    RUN(metadata_is_ascii);
    RUN(memory_may_end_anywhere);
    graft_plugin_entry.deinit();
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    fake_host_finish(&host);
    return test_end();
}
