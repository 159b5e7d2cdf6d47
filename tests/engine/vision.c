/* Encoders of pictures and Redux: what files are taken for, files that are none, pictures of every
 * kind, and a FLUX that is shown one. What the networks compute, and how pictures are resized for
 * them, is held against golden/small/vision_* and redux. */
#include <math.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/models/detect/detect.h"
#include "engine/prompts/vision.h"
#include "tests/engine/sample.h"

#define GOLDEN(name) GRAFT_SOURCE_DIR "/golden/small/" name ".safetensors"
#define CLIP_FILE    GOLDEN("vision_clip")
#define OPENCLIP     GOLDEN("vision_openclip")
#define SIGLIP       GOLDEN("vision_siglip")
#define REDUX        GOLDEN("redux")
#define FLUX_DEV     GOLDEN("flux_dev")

static graft_engine *engine;
static char path[256];

static graft_vision *load(const char *from)
{
    graft_vision *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vision_load(engine, from, NULL, &v, &e), &e);
    return v;
}

static made_file *copy_of(const char *from)
{
    graft_safetensors *f = open_file(from);
    made_file *m = copy_file(f, "");
    graft_safetensors_close(f);
    size_t n = 0; /* without the cases */
    for (size_t i = 0; i < m->n; i++)
        if (strncmp(m->tensor[i].name, "case", 4) != 0) {
            m->tensor[n++] = m->tensor[i];
        } else {
            free((char *)m->tensor[i].name);
            free((void *)m->tensor[i].data);
        }
    m->n = n;
    return m;
}

static void drop(made_file *f, const char *name)
{
    graft_st_tensor *t = made_find(f, name);
    free((char *)t->name);
    free((void *)t->data);
    *t = f->tensor[--f->n];
}

/* ------------------------------------------------------------------ files */

static void files_are_told_apart(void)
{
    static const struct {
        const char *path;
        graft_vision_arch arch;
    } files[] = {
        {CLIP_FILE,
         {GRAFT_VISION_CLIP, GRAFT_TEXT_HF, 2, 128, 2, 96, GRAFT_ACT_QUICK_GELU, 16, 4, 4, 24}},
        {OPENCLIP,
         {GRAFT_VISION_CLIP, GRAFT_TEXT_OPENCLIP, 2, 64, 1, 80, GRAFT_ACT_QUICK_GELU, 15, 5, 3,
          40}},
        {SIGLIP,
         {GRAFT_VISION_SIGLIP, GRAFT_TEXT_HF, 2, 128, 2, 112, GRAFT_ACT_GELU_TANH, 12, 4, 3, 0}}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        graft_vision *v = load(files[i].path);
        if (v && memcmp(&v->arch, &files[i].arch, sizeof v->arch) != 0)
            CHECK_STR(files[i].path, "has the expected architecture");
        graft_vision_release(v);
    }
}

typedef struct published {
    const char *name;
    bool openclip;
    graft_vision_arch arch;
} published;

static void put(graft_str *s, uint64_t *at, const char *name, const char *shape, uint64_t count)
{
    graft_str_printf(s, "%s\"%s\":{\"dtype\":\"F16\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
                     *at ? "," : "", name, shape, (unsigned long long)*at,
                     (unsigned long long)(*at + 2 * count));
    *at += 2 * count;
}

/* What detection looks at of a published file, without values: a hole in the file. */
static void write_published(const graft_vision_arch *a, bool openclip)
{
    const bool clip = a->kind == GRAFT_VISION_CLIP;
    const uint64_t w = (uint64_t)a->width, p = (uint64_t)a->patch;
    const uint64_t tokens = (uint64_t)(a->grid * a->grid + clip), mlp = (uint64_t)a->intermediate;
    graft_str s = GRAFT_STR_INIT;
    char shape[64], name[96];
    uint64_t at = 0;
    graft_str_puts(&s, "{");
    snprintf(shape, sizeof shape, "%d,3,%d,%d", a->width, a->patch, a->patch);
    put(&s, &at,
        openclip ? "visual.conv1.weight" : "vision_model.embeddings.patch_embedding.weight", shape,
        3 * w * p * p);
    snprintf(shape, sizeof shape, "%d,%d", (int)tokens, a->width);
    put(&s, &at,
        openclip ? "visual.positional_embedding"
                 : "vision_model.embeddings.position_embedding.weight",
        shape, tokens * w);
    snprintf(shape, sizeof shape, "%d,%d", a->intermediate, a->width);
    put(&s, &at,
        openclip ? "visual.transformer.resblocks.0.mlp.c_fc.weight"
                 : "vision_model.encoder.layers.0.mlp.fc1.weight",
        shape, mlp * w);
    snprintf(shape, sizeof shape, "%d", a->width);
    if (clip)
        put(&s, &at,
            openclip ? "visual.class_embedding" : "vision_model.embeddings.class_embedding", shape,
            w);
    for (int i = 0; i < a->layers; i++) {
        snprintf(name, sizeof name,
                 openclip ? "visual.transformer.resblocks.%d.ln_1.weight"
                          : "vision_model.encoder.layers.%d.layer_norm1.weight",
                 i);
        put(&s, &at, name, shape, w);
    }
    snprintf(shape, sizeof shape, openclip ? "%d,%d" : "%2$d,%1$d", a->width, a->projection);
    if (a->projection)
        put(&s, &at, openclip ? "visual.proj" : "visual_projection.weight", shape,
            w * (uint64_t)a->projection);
    graft_str_puts(&s, "}");
    while (s.len % 8) graft_str_puts(&s, " ");
    const uint64_t n = s.len;
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(&n, 8, 1, f) == 1 && fwrite(s.data, 1, s.len, f) == s.len);
    CHECK(f && fflush(f) == 0 && ftruncate(fileno(f), (off_t)(8 + n + at)) == 0);
    if (f) fclose(f);
    graft_str_finish(&s);
}

/* Numbers that shapes do not tell, from the configurations that were published with them. */
static void published_ones(void)
{
    static const published all[] = {
        {"CLIP ViT-B/16", false, {0, 0, 12, 768, 12, 3072, GRAFT_ACT_QUICK_GELU, 224, 16, 14, 512}},
        {"CLIP ViT-L/14",
         false,
         {0, 0, 24, 1024, 16, 4096, GRAFT_ACT_QUICK_GELU, 224, 14, 16, 768}},
        {"CLIP ViT-L/14 of 336",
         true,
         {0, 1, 24, 1024, 16, 4096, GRAFT_ACT_QUICK_GELU, 336, 14, 24, 768}},
        {"OpenCLIP ViT-H/14", false, {0, 0, 32, 1280, 16, 5120, GRAFT_ACT_GELU, 224, 14, 16, 1024}},
        {"OpenCLIP ViT-bigG/14",
         true,
         {0, 1, 48, 1664, 16, 8192, GRAFT_ACT_GELU, 224, 14, 16, 1280}},
        {"SigLIP so400m-patch14-384",
         false,
         {1, 0, 27, 1152, 16, 4304, GRAFT_ACT_GELU_TANH, 384, 14, 27, 0}},
        {"SigLIP so400m-patch14-224",
         false,
         {1, 0, 27, 1152, 16, 4304, GRAFT_ACT_GELU_TANH, 224, 14, 16, 0}},
        {"SigLIP base-patch16-512",
         false,
         {1, 0, 12, 768, 12, 3072, GRAFT_ACT_GELU_TANH, 512, 16, 32, 0}}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        graft_vision_arch got;
        graft_err e = GRAFT_ERR_INIT;
        write_published(&all[i].arch, all[i].openclip);
        graft_safetensors *f = open_file(path);
        CHECK_OK(graft_vision_detect(f, "", &got, &e), &e);
        if (memcmp(&got, &all[i].arch, sizeof got) != 0) CHECK_STR(all[i].name, "is told");
        graft_safetensors_close(f);
        unlink(path);
    }
}

/* A whole CLIP has more, and so has SigLIP with its head. */
static void other_parts_do_not_matter(void)
{
    static const char *const from[] = {CLIP_FILE, SIGLIP};
    for (int i = 0; i < 2; i++) {
        made_file *f = copy_of(from[i]);
        add_tensor(f, "logit_scale", 1, (int64_t[]){1}, NULL, 1);
        add_tensor(f, "vision_model.head.probe", 3, (int64_t[]){1, 1, 128}, NULL, 1);
        add_tensor(f, "text_model.embeddings.position_embedding.weight", 2, (int64_t[]){77, 8},
                   NULL, 1);
        write_file(f, path, NULL);
        last_log[0] = 0;
        graft_vision_release(load(path));
        CHECK_STR(last_log, "");
    }
    unlink(path);
}

static void refused(made_file *f, graft_status want, const char *text)
{
    graft_vision *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_file(f, path, NULL);
    CHECK_INT(graft_vision_load(engine, path, NULL, &v, &e), want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    CHECK(!v && strstr(e.text, path) != NULL);
    graft_vision_release(v);
    unlink(path);
}

/* Without any one of its tensors a file is refused, by that name if it is not the one that tells
 * families apart; a projection alone may be missing. */
static void what_is_missing_is_named(void)
{
    static const char *const from[] = {CLIP_FILE, OPENCLIP, SIGLIP};
    for (int i = 0; i < 3; i++) {
        made_file *all = copy_of(from[i]);
        for (size_t k = 0; k < all->n; k++) {
            const char *name = all->tensor[k].name, *say = name;
            if (strstr(name, "proj") && !strstr(name, "_proj.") && !strstr(name, "c_proj") &&
                !strstr(name, "in_proj"))
                continue;
            if (strstr(name, "visual_projection")) continue;
            if (strstr(name, "embeddings.class_embedding")) say = "in 0 rows makes no sense";
            if (strstr(name, "patch_embedding.weight") || strstr(name, "conv1.weight"))
                say = "no vision encoder in it";
            made_file *f = copy_of(from[i]);
            drop(f, name);
            refused(f, strstr(say, "no vision") ? GRAFT_E_UNSUPPORTED : GRAFT_E_FORMAT, say);
        }
        finish_file(all);
    }
}

static void shape_to(made_file *f, const char *name, int rank, int64_t a, int64_t b, int64_t c)
{
    graft_st_tensor *t = made_find(f, name);
    const int64_t dim[GRAFT_MAX_RANK] = {a, b, c, c};
    free((void *)t->data);
    t->rank = rank;
    memcpy(t->shape, dim, sizeof dim);
    t->bytes = (uint64_t)shape_count(dim, rank) * sizeof(float);
    t->data = calloc((size_t)t->bytes + 1, 1);
}

static void hostile_shapes(void)
{
    static const char squares[] = "vision_model.embeddings.patch_embedding.weight";
    static const char places[] = "vision_model.embeddings.position_embedding.weight";
    static const struct {
        const char *name;
        int rank;
        int64_t a, b, c;
        const char *text;
    } bad[] = {{squares, 2, 128, 48, 0, squares}, /* as of encoders for pictures of any aspect */
               {squares, 4, 128, 4, 4, squares},
               {squares, 4, 0, 3, 4, squares},
               {squares, 4, 128, 3, 65, "makes no sense"},
               {squares, 4, 127, 3, 4, "tensor"},
               {places, 2, 8, 128, 0, "in 0 rows makes no sense"},
               {places, 2, 2, 128, 0, "makes no sense"},
               {places, 2, 65 * 65, 128, 0, "makes no sense"},
               {places, 2, 9, 64, 0, places},
               {places, 1, 9, 0, 0, places},
               {"vision_model.encoder.layers.0.mlp.fc1.weight", 2, 111, 128, 0, "mlp.fc1"},
               {"vision_model.encoder.layers.0.mlp.fc1.weight", 1, 0, 0, 0, "mlp.fc1"},
               {"vision_model.encoder.layers.1.self_attn.k_proj.weight", 2, 128, 64, 0, "k_proj"},
               {"vision_model.post_layernorm.weight", 1, 64, 0, 0, "post_layernorm"},
               {"vision_model.embeddings.patch_embedding.bias", 1, 64, 0, 0, "bias"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        made_file *f = copy_of(SIGLIP);
        shape_to(f, bad[i].name, bad[i].rank, bad[i].a, bad[i].b, bad[i].c);
        refused(f, GRAFT_E_FORMAT, bad[i].text);
    }
}

static void other_files_are_called_by_name(void)
{
    graft_vision *v = NULL;
    graft_style *s = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_vision_load(engine, REDUX, NULL, &v, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "it seems to be a style model, which StyleModelLoader opens") != NULL);
    CHECK_INT(graft_style_load(engine, SIGLIP, NULL, &s, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "it seems to be a vision encoder, which CLIPVisionLoader opens") != NULL);
    made_file *f = calloc(1, sizeof *f);
    add_tensor(f, "style_embedding", 3, (int64_t[]){1, 8, 4}, NULL, 1);
    write_file(f, path, NULL);
    CHECK_INT(graft_style_load(engine, path, NULL, &s, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "T2I-Adapter") != NULL);
    unlink(path);
}

static void damaged_redux(void)
{
    static const char *const names[] = {"redux_up.weight", "redux_up.bias", "redux_down.weight",
                                        "redux_down.bias"};
    for (int i = 0; i < 8; i++) {
        graft_style *s = NULL;
        graft_err e = GRAFT_ERR_INIT;
        made_file *f = copy_of(REDUX);
        if (i < 4)
            drop(f, names[i]);
        else
            shape_to(f, names[i - 4], i % 2 ? 1 : 2, 7, 5, 0);
        write_file(f, path, NULL);
        graft_status st = graft_style_load(engine, path, NULL, &s, &e);
        CHECK(st == (i ? GRAFT_E_FORMAT : GRAFT_E_UNSUPPORTED) && !s);
        if (!strstr(e.text, "redux_")) CHECK_STR(e.text, names[i % 4]);
        unlink(path);
    }
}

/* ------------------------------------------------------------------ pictures */

static graft_image *picture(int64_t n, int64_t h, int64_t w, int64_t channels, int seed)
{
    const int64_t shape[4] = {n, h, w, channels};
    const int64_t count = shape_count(shape, 4);
    float *p = calloc((size_t)count, sizeof *p);
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < count; i++)
        p[i] = 0.5f + 0.5f * fixed_value((uint64_t)(i + 1000 * seed));
    CHECK_OK(graft_image_from_data(p, shape, false, &image, &e), &e);
    free(p);
    return image;
}

static float *pixels_of(const graft_vision *v, const graft_image *image, int64_t index, bool center)
{
    float *out = calloc((size_t)graft_vision_values(&v->arch), sizeof *out);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vision_pixels(v, image, index, center, out, &e), &e);
    return out;
}

/* A picture of just the size keeps its values, in steps of 8 bits; grey is three channels, and
 * transparency none. */
static void pictures_of_the_size_stay(void)
{
    graft_vision *v = load(SIGLIP);
    for (int64_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
        graft_image *image = picture(1, 12, 12, channels, 1);
        int64_t shape[4], n = 0;
        const float *p = graft_image_data(image, shape);
        for (int center = 0; center < 2; center++) {
            float *got = pixels_of(v, image, 0, center);
            for (int64_t k = 0; k < 12 * 12 * 3; k++) {
                const float from = p[k / 3 * channels + (channels < 3 ? 0 : k % 3)];
                n += fabsf(got[k] - (nearbyintf(from * 255) / 255 - 0.5f) / 0.5f) > 1e-6f;
            }
            free(got);
        }
        CHECK_INT(n, 0);
        graft_image_release(image);
    }
    graft_vision_release(v);
}

/* The middle of a picture is what it would be of that part alone, where nothing is resized. */
static void the_middle_is_taken(void)
{
    graft_vision *v = load(SIGLIP);
    graft_image *wide = picture(1, 12, 31, 3, 2), *part = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_crop(wide, 9, 0, 12, 12, &part, &e), &e);
    float *a = pixels_of(v, wide, 0, true), *b = pixels_of(v, part, 0, false);
    CHECK(memcmp(a, b, 12 * 12 * 3 * sizeof *a) == 0);
    float *all = pixels_of(v, wide, 0, false);
    CHECK(memcmp(all, b, 12 * 12 * 3 * sizeof *all) != 0);
    free(a), free(b), free(all);
    graft_image_release(wide);
    graft_image_release(part);
    graft_vision_release(v);
}

/* Sides of one pixel, and a picture as narrow as they come, whose long side would have millions of
 * pixels. */
static void any_size_goes(void)
{
    static const int64_t sizes[][2] = {{1, 1}, {1, 16384}, {16384, 1}, {2, 3}, {300, 7}};
    graft_vision *v = load(CLIP_FILE);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        graft_image *image = picture(1, sizes[i][0], sizes[i][1], 3, 3);
        for (int center = 0; center < 2; center++) {
            float *got = pixels_of(v, image, 0, center);
            for (int k = 0; k < 16 * 16 * 3; k++) CHECK(got[k] > -2 && got[k] < 2.2f);
            free(got);
        }
        graft_image_release(image);
    }
    graft_vision_release(v);
}

static graft_vision_output *see(const graft_vision *v, const graft_image *image,
                                const graft_task *task)
{
    graft_vision_output *o = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vision_encode(v, image, true, task, &o, &e), &e);
    return o;
}

static void batches_are_pictures_one_by_one(void)
{
    static const char *const from[] = {CLIP_FILE, SIGLIP};
    const graft_task ahead = {.compile_only = true};
    for (int i = 0; i < 2; i++) {
        graft_vision *v = load(from[i]);
        graft_image *two = picture(2, 20, 24, 3, 4), *second = NULL;
        graft_err e = GRAFT_ERR_INIT;
        int64_t shape[3], pooled[2];
        CHECK_OK(graft_image_from_batch(two, 1, 1, &second, &e), &e);
        graft_vision_output *a = see(v, two, NULL), *b = see(v, second, NULL);
        const float *x = graft_vision_output_tokens(a, shape);
        CHECK(shape[0] == 2 && shape[1] == (i ? 9 : 17) && shape[2] == 128);
        const size_t n = (size_t)(shape[1] * shape[2]);
        CHECK(memcmp(x + n, graft_vision_output_tokens(b, shape), n * sizeof *x) == 0);
        CHECK(memcmp(x + n, x, n * sizeof *x) != 0);
        const float *p = graft_vision_output_pooled(a, pooled);
        CHECK(pooled[0] == 2 && pooled[1] == (i ? 0 : 24) && (p == NULL) == (i == 1));
        if (p) CHECK(memcmp(p + 24, graft_vision_output_pooled(b, pooled), 24 * sizeof *p) == 0);
        graft_vision_output_release(b);
        b = see(v, two, &ahead);
        x = graft_vision_output_tokens(b, shape);
        for (size_t k = 0; k < 2 * n; k++) CHECK(x[k] == 0.0f);
        graft_vision_output_release(graft_vision_output_retain(b));
        graft_vision_output_release(a);
        graft_vision_output_release(b);
        graft_image_release(two);
        graft_image_release(second);
        graft_vision_release(v);
    }
}

static bool always(void *ctx)
{
    (void)ctx;
    return true;
}

static void encoding_can_be_cancelled(void)
{
    const graft_task task = {.cancelled = always};
    graft_vision *v = load(CLIP_FILE);
    graft_image *image = picture(1, 16, 16, 3, 5);
    graft_vision_output *o = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_vision_encode(v, image, true, &task, &o, &e), GRAFT_E_CANCEL);
    CHECK(!o);
    graft_image_release(image);
    graft_vision_release(v);
}

/* ------------------------------------------------------------------ Redux */

/* A Redux for tokens of one width, which makes tokens of another. */
static graft_style *make_style(int64_t seen, int64_t width)
{
    made_file *f = calloc(1, sizeof *f);
    graft_style *s = NULL;
    graft_err e = GRAFT_ERR_INIT;
    add_tensor(f, "redux_up.weight", 2, (int64_t[]){3 * width, seen}, NULL, 0.2f);
    add_tensor(f, "redux_up.bias", 1, (int64_t[]){3 * width}, NULL, 0.2f);
    add_tensor(f, "redux_down.weight", 2, (int64_t[]){width, 3 * width}, NULL, 0.2f);
    add_tensor(f, "redux_down.bias", 1, (int64_t[]){width}, NULL, 0.2f);
    write_file(f, path, NULL);
    CHECK_OK(graft_style_load(engine, path, NULL, &s, &e), &e);
    unlink(path);
    return s;
}

/* Two prompts of three tokens each, told a guidance. */
static graft_cond *two_prompts(int64_t width)
{
    graft_cond *one = NULL, *told = NULL, *both = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float *data = graft_calloc((size_t)(3 * width), sizeof *data);
    float *pooled = graft_calloc(8, sizeof *pooled);
    for (int64_t i = 0; i < 3 * width; i++) data[i] = fixed_value((uint64_t)i);
    pooled[7] = 5;
    CHECK_OK(graft_cond_create(3, width, data, 8, pooled, NULL, &one, &e), &e);
    CHECK_OK(graft_cond_guidance(one, 7, &told, &e), &e);
    CHECK_OK(graft_cond_combine(told, told, &both, &e), &e);
    graft_cond_release(one);
    graft_cond_release(told);
    return both;
}

static void tokens_follow_the_prompts(void)
{
    static const double strengths[] = {0, 0.5, 1};
    graft_vision *v = load(SIGLIP);
    graft_style *s = make_style(128, 24);
    graft_image *image = picture(2, 16, 30, 3, 6);
    graft_vision_output *seen = see(v, image, NULL);
    graft_cond *c = two_prompts(24), *out[3];
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(graft_style_apply(s, c, seen, strengths[i], NULL, &out[i], &e), &e);
        CHECK_INT((int64_t)out[i]->n, 2);
        for (size_t k = 0; k < out[i]->n; k++) {
            const graft_cond_entry *n = out[i]->entry[k];
            CHECK(n->tokens == 3 + 2 * 9 && n->width == 24 && n->pooled[7] == 5);
            CHECK(n->has_guidance && n->guidance == 7);
            CHECK(memcmp(n->data, c->entry[0]->data, 3 * 24 * sizeof *n->data) == 0);
        }
    }
    float most = 0;
    for (int64_t i = 3 * 24; i < 21 * 24; i++) {
        const float whole = out[2]->entry[1]->data[i];
        CHECK(out[0]->entry[1]->data[i] == 0 && out[1]->entry[1]->data[i] == 0.5f * whole);
        most = fmaxf(most, fabsf(whole));
    }
    CHECK(most > 0.1f && isfinite(most));
    for (int i = 0; i < 3; i++) graft_cond_release(out[i]);
    graft_cond_release(c);
    graft_vision_output_release(seen);
    graft_image_release(image);
    graft_style_release(s);
    graft_vision_release(v);
}

static void other_widths_are_refused(void)
{
    graft_vision *v = load(SIGLIP);
    graft_style *s = make_style(64, 24), *fits = make_style(128, 24);
    graft_image *image = picture(1, 12, 12, 3, 7);
    graft_vision_output *seen = see(v, image, NULL);
    graft_cond *c = two_prompts(24), *narrow = two_prompts(16), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_style_apply(s, c, seen, 1, NULL, &out, &e), GRAFT_E_ARG);
    CHECK(!out && strstr(e.text, "a vision encoder of width 64, and this one's is 128") != NULL);
    CHECK_INT(graft_style_apply(fits, narrow, seen, 1, NULL, &out, &e), GRAFT_E_ARG);
    CHECK(!out && strstr(e.text, "prompts of width 24") && strstr(e.text, "is 16"));
    CHECK_INT(graft_style_apply(fits, c, seen, NAN, NULL, &out, &e), GRAFT_E_ARG);
    CHECK_INT(graft_style_apply(fits, c, seen, INFINITY, NULL, &out, &e), GRAFT_E_ARG);
    graft_cond_release(c);
    graft_cond_release(narrow);
    graft_vision_output_release(seen);
    graft_image_release(image);
    graft_style_release(s);
    graft_style_release(fits);
    graft_vision_release(v);
}

/* FLUX draws something else when it is shown a picture, and something else again for another. */
static void flux_sees_pictures(void)
{
    graft_model *m = load_model(engine, FLUX_DEV);
    graft_vision *v = load(SIGLIP);
    graft_style *s = make_style(128, m->arch.context_dim);
    graft_cond *plain = NULL, *c[3] = {NULL};
    graft_latent *latent = NULL, *out[4] = {NULL};
    graft_err e = GRAFT_ERR_INIT;
    int64_t shape[4];
    CHECK_OK(sample_cond(m, &plain, &e), &e);
    CHECK_OK(graft_latent_empty(16, 64, 64, 1, &latent, &e), &e);
    for (int i = 0; i < 3; i++) { /* the second once more at the end */
        graft_image *image = picture(1, 20, 20, 3, 8 + (i + 1) % 2);
        graft_vision_output *seen = see(v, image, NULL);
        CHECK_OK(graft_style_apply(s, plain, seen, 1, NULL, &c[i], &e), &e);
        CHECK_OK(sample_latent(m, c[i], latent, "euler", 2, NULL, &out[i], &e), &e);
        graft_vision_output_release(seen);
        graft_image_release(image);
    }
    CHECK_OK(sample_latent(m, plain, latent, "euler", 2, NULL, &out[3], &e), &e);
    const size_t n = (size_t)16 * 8 * 8;
    const float *x[4];
    for (int i = 0; i < 4; i++) x[i] = graft_latent_data(out[i], shape);
    CHECK(difference(x[0], x[3], n) > 1e-3 && difference(x[0], x[1], n) > 1e-4);
    CHECK(memcmp(x[0], x[2], n * sizeof *x[0]) == 0);
    for (int i = 0; i < 4; i++) graft_latent_release(out[i]);
    for (int i = 0; i < 3; i++) graft_cond_release(c[i]);
    graft_cond_release(plain);
    graft_latent_release(latent);
    graft_style_release(s);
    graft_vision_release(v);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ faults */

/* All of it, from files to a prompt with a picture, on an engine of its own. */
static graft_status show(const graft_image *image, const graft_cond *words, graft_cond **out,
                         graft_err *e)
{
    const graft_engine_config c = {.kernel_dir = GRAFT_LIB_DIR, .backend = "ref", .threads = 1};
    graft_engine *own = NULL;
    graft_vision *v = NULL;
    graft_vision_output *seen = NULL;
    graft_style *s = NULL;
    graft_status st = graft_engine_create(&c, &own, e);
    if (!st) st = graft_vision_load(own, CLIP_FILE, NULL, &v, e);
    if (!st) st = graft_style_load(own, path, NULL, &s, e);
    if (!st) st = graft_vision_encode(v, image, true, NULL, &seen, e);
    if (!st) st = graft_style_apply(s, words, seen, 0.5, NULL, out, e);
    graft_vision_output_release(seen);
    graft_vision_release(v);
    graft_style_release(s);
    graft_engine_destroy(own);
    return st;
}

static int64_t blocks(bool live)
{
    graft_alloc_stats s;
    graft_alloc_stats_get(&s);
    return live ? s.live_blocks : s.total_blocks;
}

static void every_allocation_may_fail(void)
{
    graft_image *image = picture(1, 20, 16, 3, 11);
    graft_cond *words = two_prompts(24), *want = NULL;
    graft_err e = GRAFT_ERR_INIT;
    made_file *f = calloc(1, sizeof *f);
    add_tensor(f, "redux_up.weight", 2, (int64_t[]){32, 128}, NULL, 0.1f);
    add_tensor(f, "redux_up.bias", 1, (int64_t[]){32}, NULL, 0.1f);
    add_tensor(f, "redux_down.weight", 2, (int64_t[]){24, 32}, NULL, 0.1f);
    add_tensor(f, "redux_down.bias", 1, (int64_t[]){24}, NULL, 0.1f);
    write_file(f, path, NULL);
    int64_t before = blocks(false);
    CHECK_OK(show(image, words, &want, &e), &e);
    const int64_t all = blocks(false) - before, live = blocks(true);
    const size_t bytes = (size_t)want->entry[0]->tokens * 24 * sizeof(float);
    int refused = 0;
    for (int64_t n = 1; n <= all; n += 1 + n % 7) {
        graft_cond *got = NULL;
        graft_alloc_fail_at(n);
        graft_status st = show(image, words, &got, &e);
        graft_alloc_fail_at(0);
        refused += st != GRAFT_OK;
        CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && !got && e.text[0]));
        CHECK(st || memcmp(got->entry[0]->data, want->entry[0]->data, bytes) == 0);
        graft_cond_release(got);
        CHECK_INT(blocks(true), live);
    }
    CHECK(refused > 50);
    unlink(path);
    graft_cond_release(want);
    graft_cond_release(words);
    graft_image_release(image);
}

int main(void)
{
    snprintf(path, sizeof path, "%s", temp_path("vision.safetensors"));
    engine = make_engine("ref");
    RUN(files_are_told_apart);
    RUN(published_ones);
    RUN(other_parts_do_not_matter);
    RUN(what_is_missing_is_named);
    RUN(hostile_shapes);
    RUN(other_files_are_called_by_name);
    RUN(damaged_redux);
    RUN(pictures_of_the_size_stay);
    RUN(the_middle_is_taken);
    RUN(any_size_goes);
    RUN(batches_are_pictures_one_by_one);
    RUN(encoding_can_be_cancelled);
    RUN(tokens_follow_the_prompts);
    RUN(other_widths_are_refused);
    RUN(flux_sees_pictures);
    RUN(every_allocation_may_fail);
    graft_engine_destroy(engine);
    return test_end();
}
