/* Prompts of Qwen-Image 2.1 with pictures: what text and pictures are put into and what of it is
 * left out, where pictures stand among the text's tokens and in which sizes they are seen, and
 * files without what looks at pictures. What the networks compute is held against
 * golden/small/qwen3_vision and qwen3_seen.
 */
#include <math.h>

#include "engine/conditioning.h"
#include "engine/image/image.h"
#include "engine/models/detect/detect.h"
#include "engine/models/encoders/qwen_vision.h"
#include "engine/pictures.h"
#include "engine/prompts/qwen_analyzed.h"
#include "engine/prompts/qwen_vision.h"
#include "tests/engine/seen_files.h"

#define SEEN   GRAFT_SOURCE_DIR "/golden/small/qwen3_seen.safetensors"
#define VAE    MODELS "/../vae/tiny-qwen-image21-vae.safetensors"
#define CONFIG "{\"vision_heads\": 2, \"vision_deep_first\": 1, \"vision_deep_step\": 1}"
#define BEFORE "<|im_start|>system\nComprehend and analyze the provided prompt.<|im_end|>\n"
#define USER   "<|im_start|>user\n"
#define MARK   "<|image_pad|>"
#define SHOWN  "<|vision_start|>" MARK "<|vision_end|>"

enum {
    WIDTH = 16,
    WIDE = 16,
    DENSE = 20,
    LAYERS = 3,
    PATCH = 16,
    TABLE = 4,
    DEEP = 2,
    MOST = 4096
};

static graft_vae *vae;

static void add_merger(made_file *f, const char *place, int64_t normed)
{
    static const struct {
        const char *name;
        int64_t rows, columns;
    } parts[] = {{"norm.weight", 0, 0},
                 {"norm.bias", 0, 0},
                 {"linear_fc1.weight", 4 * WIDE, 4 * WIDE},
                 {"linear_fc1.bias", 4 * WIDE, 0},
                 {"linear_fc2.weight", WIDTH, 4 * WIDE},
                 {"linear_fc2.bias", WIDTH, 0}};
    for (size_t i = 0; i < COUNT(parts); i++) {
        char name[160];
        snprintf(name, sizeof name, "%s.%s", place, parts[i].name);
        add(f, name, parts[i].rows ? parts[i].rows : normed, parts[i].columns);
    }
}

/* The language model of the golden file, with a tokenizer, and what looks at pictures. */
static made_file *whole_file(void)
{
    static const struct part {
        const char *name;
        int64_t rows, columns;
    } parts[] = {{"norm1.weight", WIDE, 0},
                 {"norm1.bias", WIDE, 0},
                 {"norm2.weight", WIDE, 0},
                 {"norm2.bias", WIDE, 0},
                 {"attn.qkv.weight", 3 * WIDE, WIDE},
                 {"attn.qkv.bias", 3 * WIDE, 0},
                 {"attn.proj.weight", WIDE, WIDE},
                 {"attn.proj.bias", WIDE, 0},
                 {"mlp.linear_fc1.weight", DENSE, WIDE},
                 {"mlp.linear_fc1.bias", DENSE, 0},
                 {"mlp.linear_fc2.weight", WIDE, DENSE},
                 {"mlp.linear_fc2.bias", WIDE, 0}};
    graft_safetensors *from = open_file(SEEN);
    made_file *f = copy_file(from, "model.");
    graft_safetensors_close(from);
    random_state = 5;
    add_tensor(f, "visual.patch_embed.proj.weight", 5, (int64_t[]){WIDE, 3, 2, PATCH, PATCH}, NULL,
               0.05f);
    add(f, "patch_embed.proj.bias", WIDE, 0);
    add(f, "pos_embed.weight", TABLE * TABLE, WIDE);
    for (int i = 0; i < LAYERS; i++)
        for (size_t k = 0; k < COUNT(parts); k++) {
            char name[160];
            snprintf(name, sizeof name, "blocks.%d.%s", i, parts[k].name);
            add(f, name, parts[k].rows, parts[k].columns);
        }
    add_merger(f, "merger", WIDE);
    add_merger(f, "deepstack_merger_list.0", 4 * WIDE);
    add_merger(f, "deepstack_merger_list.1", 4 * WIDE);
    add_merges(f, "");
    return f;
}

/* Of a file, which is used up. */
static graft_clip *clip_told(made_file *f, const char *config, const char *type)
{
    const char *path = temp_path("encoder.safetensors");
    graft_clip *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_file(f, path, config);
    CHECK_OK(graft_clip_load(engine, &path, 1, type, NULL, &c, &e), &e);
    unlink(path);
    if (!c) abort();
    return c;
}

static graft_clip *clip_of(made_file *f)
{
    return clip_told(f, CONFIG, "qwen_image");
}

static graft_image *picture_of(int64_t height, int64_t width, int64_t channels, uint64_t seed)
{
    const int64_t shape[4] = {1, height, width, channels}, n = height * width * channels;
    float *p = malloc((size_t)n * sizeof *p);
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; p && i < n; i++) p[i] = 0.5f + 0.5f * fixed_value(seed + (uint64_t)i / 97);
    CHECK_OK(graft_image_from_data(p, shape, false, &out, &e), &e);
    free(p);
    if (!out) abort();
    return out;
}

/* ------------------------------------------------------------------ sizes and places */

static void sizes(void)
{
    /* As the formula of transformers' smart_resize() has them, in cells of 32 pixels. */
    static const struct {
        int64_t height, width;
        int32_t rows, columns;
    } want[] = {{1024, 1024, 32, 32}, {384, 384, 12, 12},     {256, 256, 8, 8},
                {64, 64, 8, 8},       {100, 700, 3, 22},      {32, 480, 3, 31},
                {48, 1600, 2, 50},    {4096, 4096, 128, 128}, {5000, 5000, 128, 128}};
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < COUNT(want); i++) {
        int32_t rows = 0, columns = 0;
        CHECK_OK(graft_qwen_vision_size(PATCH, GRAFT_QWEN3_VISION_LEAST, want[i].height,
                                        want[i].width, &rows, &columns, &e),
                 &e);
        CHECK_INT(rows, want[i].rows);
        CHECK_INT(columns, want[i].columns);
    }
}

/* Of 64 angles 20 go with the row, 20 with the column, in turn, and 24 with the first axis. */
static void angles_take_turns(void)
{
    enum { ANGLES = 64, READ = 14, AT = 5, ROW = 1, COLUMN = 3 };
    const graft_qwen3_arch a = {.head_dim = 2 * ANGLES};
    const graft_qwen3_picture p = {.at = AT, .rows = 2, .columns = 4};
    static float cosines[READ * ANGLES], sines[READ * ANGLES];
    const int token = AT + ROW * 4 + COLUMN, behind = AT + 2 * 4;
    int counted[3] = {0};
    graft_qwen3_angles(&a, &p, 1, READ, cosines, sines);
    for (int i = 0; i < ANGLES; i++) {
        const int axis = i < 60 ? i % 3 : 0, place = AT + (axis == 1   ? ROW
                                                           : axis == 2 ? COLUMN
                                                                       : 0);
        const double speed = pow(5e6, -i / 64.0);
        counted[axis]++;
        CHECK_NEAR(sines[token * ANGLES + i] / sin(place * speed), 1, 1e-5);
        CHECK_NEAR(cosines[token * ANGLES + i], cos(place * speed), 1e-6);
        CHECK_NEAR(sines[behind * ANGLES + i] / sin((AT + 4) * speed), 1, 1e-5);
    }
    CHECK(counted[0] == 24 && counted[1] == 20 && counted[2] == 20);
}

/* ------------------------------------------------------------------ prompts */

/* What the text encoder gives of the whole text, in which each mark of a picture becomes as many
 * tokens as it has cells, but for the beginning and the pictures. */
static void by_hand(const char *text, const graft_qwen3_picture *seen, size_t n,
                    const graft_cond *got, const int64_t *within)
{
    const graft_qwen3 *q = clip->qwen3;
    const graft_build_options o = {.no_disk = true};
    graft_qwen3_picture picture[GRAFT_ANALYZED_PICTURES];
    int32_t *ids = NULL, *before = NULL, *pad = NULL, all[MOST];
    bool is_text[MOST];
    size_t count = 0, left = 0, one = 0, m = 0, shown = 0, kept = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_qwen_encode(q->tokenizer, text, strlen(text), &ids, &count, &e), &e);
    CHECK_OK(graft_qwen_encode(q->tokenizer, BEFORE, strlen(BEFORE), &before, &left, &e), &e);
    CHECK_OK(graft_qwen_encode(q->tokenizer, MARK, strlen(MARK), &pad, &one, &e), &e);
    CHECK_INT(one, 1);
    for (size_t i = 0; i < count; i++) {
        int64_t cells = 1;
        const bool marked = ids[i] == pad[0];
        if (marked && shown < n) {
            picture[shown] = seen[shown];
            picture[shown].at = (int64_t)m;
            cells = (int64_t)seen[shown].rows * seen[shown].columns;
            shown++;
        }
        for (; cells > 0 && m < MOST; cells--, m++) {
            all[m] = ids[i];
            is_text[m] = !marked;
        }
    }
    CHECK_INT(shown, n);
    float *want = calloc(m * WIDTH, sizeof *want);
    CHECK_OK(graft_qwen3_run_seen(engine, &o, &q->arch, q->weights, GRAFT_QWEN3_TAKE_WHOLE, all,
                                  (int64_t)m, picture, n, NULL, want, &e),
             &e);
    const graft_cond_entry *k = got->entry[0];
    CHECK(got->n == 1 && !k->pooled && k->width == WIDTH && left > 0 && m > left);
    for (size_t i = left; i < m; i++) {
        if (!is_text[i]) continue;
        CHECK((int64_t)kept < k->tokens &&
              memcmp(k->data + kept * WIDTH, want + i * WIDTH, WIDTH * sizeof *want) == 0);
        kept++;
        for (size_t p = 0; p < n; p++)
            if (picture[p].at == (int64_t)i + 1) CHECK_INT(within[p], kept);
    }
    CHECK_INT(k->tokens, kept);
    graft_free(ids);
    graft_free(before);
    graft_free(pad);
    free(want);
}

static void prompts(void)
{
    static const struct {
        const char *text, *whole;
        size_t n;
    } cases[] = {{"the (apple:1.3)", BEFORE USER "<image1>" SHOWN "the (apple:1.3)" BEHIND, 1},
                 {"", BEFORE USER "<image1>" SHOWN " " BEHIND, 1},
                 {"the\n\n", BEFORE USER "<image1>" SHOWN " <image2>" SHOWN "the\n\n" BEHIND, 2},
                 {"<image3> the",
                  BEFORE USER "<image1>" SHOWN " <image2>" SHOWN " <image3>" SHOWN
                              "<image3> the" BEHIND,
                  3}};
    static const int64_t size[3][2] = {{300, 340}, {200, 420}, {280, 300}};
    const graft_build_options o = {.no_disk = true};
    graft_qwen3_picture seen[3];
    float *cells[3] = {NULL};
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < 3; i++) {
        graft_image *picture = picture_of(size[i][0], size[i][1], 3, i + 1);
        CHECK_OK(graft_qwen3_see(engine, &o, clip->qwen3, picture, NULL, &seen[i], &cells[i], &e),
                 &e);
        CHECK(seen[i].n_deep == DEEP && seen[i].deep);
        graft_image_release(picture);
    }
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t within[3] = {0};
        graft_cond *c = NULL;
        CHECK_OK(
            graft_clip_encode_among(clip, cases[i].text, seen, cases[i].n, NULL, within, &c, &e),
            &e);
        if (c) by_hand(cases[i].whole, seen, cases[i].n, c, within);
        graft_cond_release(c);
    }
    for (int i = 0; i < 3; i++) graft_free(cells[i]);
}

static bool same_prompt(const graft_cond *a, const graft_cond *b)
{
    return a->entry[0]->tokens == b->entry[0]->tokens &&
           memcmp(a->entry[0]->data, b->entry[0]->data,
                  (size_t)(a->entry[0]->tokens * WIDTH) * sizeof(float)) == 0;
}

/* 3 channels of 4: what is transparent is white. */
static graft_image *on_white(const graft_image *i)
{
    int64_t shape[4];
    const float *from = graft_image_data(i, shape);
    const int64_t n = shape[1] * shape[2];
    float *to = malloc((size_t)n * 3 * sizeof *to);
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t k = 0; k < n * 3; k++) {
        const float alpha = from[k / 3 * 4 + 3];
        to[k] = from[k / 3 * 4 + k % 3] * alpha + (1 - alpha);
    }
    shape[3] = 3;
    CHECK_OK(graft_image_from_data(to, shape, false, &out, &e), &e);
    free(to);
    return out;
}

/* What the text encoder and the VAE are given, by hand: a picture of 250 x 400 pixels at 320 x 320
 * pixels' area is 256 x 416. */
static void pictures_are_scaled(void)
{
    const graft_build_options o = {.no_disk = true};
    graft_image *given[2] = {picture_of(250, 400, 4, 4), picture_of(300, 300, 3, 5)}, *sized[2];
    const graft_analyzed_prompt p = {.text = {"the", "not the"},
                                     .picture = {given[0], given[1]},
                                     .n_pictures = 2,
                                     .vae = vae,
                                     .side = 320};
    graft_qwen3_picture seen[2];
    graft_cond *c[2] = {NULL};
    float *cells[2] = {NULL};
    graft_latent *want[2] = {NULL};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_encode_analyzed(clip, &p, NULL, c, &e), &e);
    for (int i = 0; i < 2; i++) {
        const int64_t side[2][2] = {{256, 416}, {320, 320}};
        int64_t width, height;
        CHECK_OK(graft_analyzed_size(given[i], 320, &width, &height, &e), &e);
        CHECK(height == side[i][0] && width == side[i][1]);
        CHECK_OK(graft_image_scale(given[i], "lanczos", width, height, false, &sized[i], &e), &e);
        graft_image *flat = i ? graft_image_retain(sized[i]) : on_white(sized[i]);
        CHECK_OK(graft_qwen3_see(engine, &o, clip->qwen3, flat, NULL, &seen[i], &cells[i], &e), &e);
        CHECK_INT(seen[i].rows, height / 32);
        CHECK_INT(seen[i].columns, width / 32);
        CHECK_OK(graft_vae_encode(vae, sized[i], NULL, NULL, &want[i], &e), &e);
        graft_image_release(flat);
    }
    for (int i = 0; i < 2 && c[0]; i++) {
        int64_t within[2] = {0};
        graft_cond *again = NULL;
        CHECK_OK(graft_clip_encode_among(clip, p.text[i], seen, 2, NULL, within, &again, &e), &e);
        const graft_cond_entry *k = c[i]->entry[0];
        CHECK(same_prompt(c[i], again));
        CHECK(k->n_references == 2 && k->n_within == 2);
        for (int r = 0; r < k->n_references; r++) {
            CHECK_INT(k->within[r], within[r]);
            CHECK(same_latent(k->reference[r], want[r]));
        }
        graft_cond_release(again);
    }
    CHECK(!same_prompt(c[0], c[1]));
    for (int i = 0; i < 2; i++) {
        graft_free(cells[i]);
        graft_latent_release(want[i]);
        graft_cond_release(c[i]);
        graft_image_release(given[i]);
        graft_image_release(sized[i]);
    }
}

/* Without a picture they are ordinary prompts, and need no VAE. */
static void without_pictures(void)
{
    const graft_analyzed_prompt p = {.text = {"the", ""}, .side = 1024};
    graft_cond *c[2] = {NULL}, *want = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_encode_analyzed(clip, &p, NULL, c, &e), &e);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(graft_clip_encode(clip, p.text[i], NULL, &want, &e), &e);
        CHECK(same_prompt(c[i], want) && !c[i]->entry[0]->n_references);
        graft_cond_release(want);
        graft_cond_release(c[i]);
    }
}

/* ------------------------------------------------------------------ places of references */

static void references_have_places(void)
{
    const int64_t shape[4] = {1, 64, 2, 2};
    float *data = calloc(1, 64 * 4 * sizeof *data);
    graft_latent *l = NULL;
    graft_cond *c = NULL, *one = NULL, *two = NULL, *more = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_from_data(data, shape, &l, &e), &e);
    CHECK_OK(graft_clip_encode(clip, "the", NULL, &c, &e), &e);
    const int64_t tokens = c->entry[0]->tokens;
    CHECK_OK(graft_cond_reference_within(c, l, 3, &one, &e), &e);
    CHECK_OK(graft_cond_reference_within(one, l, 3, &two, &e), &e);
    CHECK(two->entry[0]->n_within == 2 && two->entry[0]->within[1] == 3);
    CHECK(c->entry[0]->n_within == 0);
    CHECK_INT(graft_cond_reference_within(one, l, 2, &more, &e), GRAFT_E_ARG);
    CHECK_INT(graft_cond_reference_within(one, l, tokens, &more, &e), GRAFT_E_ARG);
    graft_cond_release(two);
    CHECK_OK(graft_cond_reference(one, l, &two, &e), &e);
    CHECK_INT(graft_cond_reference_within(two, l, 4, &more, &e), GRAFT_E_ARG);
    for (int i = 1; i < 8; i++) {
        graft_cond_release(two);
        CHECK_OK(graft_cond_reference_within(one, l, 3, &two, &e), &e);
        graft_cond_release(one);
        one = graft_cond_retain(two);
    }
    CHECK_INT(graft_cond_reference_within(one, l, 3, &more, &e), GRAFT_E_LIMIT);
    CHECK(!more);
    graft_cond_release(c);
    graft_cond_release(one);
    graft_cond_release(two);
    graft_latent_release(l);
    free(data);
}

/* ------------------------------------------------------------------ files */

static void refused(const graft_clip *c, size_t n, bool with_vae, graft_status status,
                    const char *words)
{
    graft_image *seen = picture_of(50, 50, 3, 4);
    graft_analyzed_prompt p = {
        .text = {"the", ""}, .n_pictures = n, .vae = with_vae ? vae : NULL, .side = 64};
    graft_cond *out[2] = {NULL};
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < n && i < GRAFT_ANALYZED_PICTURES; i++) p.picture[i] = seen;
    CHECK_INT(graft_clip_encode_analyzed(c, &p, NULL, out, &e), status);
    CHECK(strstr(e.text, words));
    if (!strstr(e.text, words)) fprintf(stderr, "    %s\n", e.text);
    CHECK(!out[0] && !out[1]);
    graft_image_release(seen);
}

/* Texts are read all the same. */
static void blind_told(made_file *f, const char *config, graft_status status, const char *words)
{
    graft_clip *c = clip_told(f, config, "qwen_image");
    graft_cond *text = NULL;
    graft_err e = GRAFT_ERR_INIT;
    refused(c, 1, true, status, words);
    CHECK_OK(graft_clip_encode(c, "the", NULL, &text, &e), &e);
    graft_cond_release(text);
    graft_clip_release(c);
}

static void blind(made_file *f, graft_status status, const char *words)
{
    blind_told(f, CONFIG, status, words);
}

static void without_sight(void)
{
    static const char first[] = "visual.patch_embed.proj.weight";
    made_file *all = whole_file(), *f;
    size_t seen = 0;
    for (size_t i = 0; i < all->n; i++) {
        const char *name = all->tensor[i].name;
        if (strncmp(name, "visual.", 7) != 0) continue;
        f = whole_file();
        drop_tensor(f, name);
        if (strcmp(name, first) == 0) /* by which it is told */
            blind(f, GRAFT_E_UNSUPPORTED, "no visual.* tensors");
        else
            blind(f, GRAFT_E_FORMAT, name);
        seen++;
    }
    CHECK_INT(seen, 12 * LAYERS + 3 + 3 * 6);
    finish_file(all);
    f = whole_file();
    drop_tensor(f, "visual.pos_embed.weight");
    add(f, "pos_embed.weight", TABLE * TABLE + 1, WIDE);
    blind(f, GRAFT_E_FORMAT, "visual.pos_embed.weight");
    f = whole_file();
    drop_tensor(f, "visual.merger.linear_fc2.weight");
    add(f, "merger.linear_fc2.weight", WIDTH + 1, 4 * WIDE);
    blind(f, GRAFT_E_UNSUPPORTED, "gives 17 numbers a token");
    f = whole_file();
    add_merger(f, "deepstack_merger_list.2", 4 * WIDE);
    blind(f, GRAFT_E_UNSUPPORTED, "which 3 of a vision encoder's 3 layers");
    blind_told(whole_file(), "{\"vision_heads\": 2}", GRAFT_E_UNSUPPORTED,
               "which 2 of a vision encoder's 3 layers");
}

/* A tower of 24 or 27 layers is one of the published ones. */
static void known_layers(void)
{
    static const struct {
        int32_t layers, first, step;
    } known[] = {{24, 5, 6}, {27, 8, 8}};
    for (size_t i = 0; i < COUNT(known); i++) {
        made_file *f = whole_file();
        for (int k = LAYERS; k < known[i].layers; k++) {
            char name[64];
            snprintf(name, sizeof name, "blocks.%d.norm1.weight", k);
            add(f, name, WIDE, 0);
        }
        const char *path = temp_path("known.safetensors");
        write_file(f, path, "{\"vision_heads\": 2}");
        graft_safetensors *open = open_file(path);
        graft_qwen3_vision_arch a;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_qwen3_vision_detect(open, "visual.", &a, &e), &e);
        CHECK(a.layers == known[i].layers && a.deep == 2 && a.heads == 2 && a.side == TABLE);
        CHECK(a.deep_first == known[i].first && a.deep_step == known[i].step);
        graft_safetensors_close(open);
        unlink(path);
    }
}

static void too_much(void)
{
    refused(clip, 9, true, GRAFT_E_LIMIT, "at most 8 pictures");
    refused(clip, 1, false, GRAFT_E_ARG, "without a VAE");
    graft_clip *other = load_encoder(engine, CLIP);
    refused(other, 1, true, GRAFT_E_UNSUPPORTED, "Qwen-Image 2.1's text encoder");
    graft_clip_release(other);
    other = clip_told(whole_file(), CONFIG, "lumina2"); /* what is not used is not in the way */
    CHECK(other->qwen3->sight != NULL);
    refused(other, 1, true, GRAFT_E_UNSUPPORTED, "Qwen-Image 2.1's text encoder");
    graft_clip_release(other);
    /* A text of more tokens than one without pictures may have. */
    const graft_qwen3_arch *a = &clip->qwen3->arch;
    const float *none = calloc((size_t)(50 * 50) * WIDTH * (1 + DEEP), sizeof *none);
    static int32_t ids[11000];
    float *hidden = malloc(sizeof ids / sizeof *ids * WIDTH * sizeof *hidden);
    graft_qwen3_picture p = {
        .rows = 50, .columns = 50, .seen = none, .deep = none + 50 * 50 * WIDTH, .n_deep = DEEP};
    const graft_build_options o = {.no_disk = true};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_qwen3_run_seen(engine, &o, a, clip->qwen3->weights, GRAFT_QWEN3_TAKE_WHOLE, ids,
                                  2520, &p, 1, NULL, hidden, &e),
             &e);
    CHECK_INT(graft_qwen3_run_seen(engine, &o, a, clip->qwen3->weights, GRAFT_QWEN3_TAKE_WHOLE, ids,
                                   10241, &p, 1, NULL, hidden, &e),
              GRAFT_E_LIMIT);
    CHECK_INT(graft_qwen3_run_seen(engine, &o, a, clip->qwen3->weights, GRAFT_QWEN3_TAKE_WHOLE, ids,
                                   2049, NULL, 0, NULL, hidden, &e),
              GRAFT_E_LIMIT);
    graft_qwen3_picture uneven[2] = {p, p};
    uneven[1].at = 2500;
    uneven[1].n_deep = 1;
    CHECK_INT(graft_qwen3_run_seen(engine, &o, a, clip->qwen3->weights, GRAFT_QWEN3_TAKE_WHOLE, ids,
                                   5010, uneven, 2, NULL, hidden, &e),
              GRAFT_E_ARG);
    CHECK_INT(graft_qwen3_run_seen(engine, &o, a, clip->qwen3->weights, GRAFT_QWEN3_TAKE_MOST, ids,
                                   2520, &p, 1, NULL, hidden, &e),
              GRAFT_E_ARG); /* what it was not trained with */
    free((void *)none);
    free(hidden);
}

static bool asked(void *ctx)
{
    ++*(int *)ctx;
    return true;
}

/* Pictures that are more tokens than the model reads, alone or with their text, are told as such
 * before any is looked at. */
static void told_before(void)
{
    static char text[6 * 3000];
    const int64_t sides[] = {2048, 4096, 1024};
    for (size_t i = 0; i + 6 < sizeof text; i += 4) memcpy(text + i, " the", 4);
    for (size_t i = 0; i < COUNT(sides); i++) {
        const bool by_text = sides[i] == 1024;
        int times = 0;
        const graft_task task = {.ctx = &times, .cancelled = asked};
        graft_image *seen = picture_of(50, 50, 3, 4);
        graft_analyzed_prompt p = {.text = {"the", by_text ? text : ""},
                                   .n_pictures = by_text ? 7
                                                 : i     ? 1
                                                         : 3,
                                   .vae = vae,
                                   .side = sides[i]};
        graft_cond *out[2] = {NULL};
        graft_err e = GRAFT_ERR_INIT;
        for (size_t k = 0; k < p.n_pictures; k++) p.picture[k] = seen;
        CHECK_INT(graft_clip_encode_analyzed(clip, &p, &task, out, &e), GRAFT_E_LIMIT);
        CHECK(strstr(e.text, by_text ? "7168 of them of its pictures"
                             : i     ? "16384 of them of its pictures"
                                     : "12288 of them of its pictures"));
        CHECK_INT(times, 0);
        CHECK(!out[0] && !out[1]);
        graft_image_release(seen);
    }
}

static graft_status small_prompt(const graft_clip *c, graft_cond *out[2], graft_err *e)
{
    graft_image *seen = picture_of(60, 90, 3, 1);
    const graft_analyzed_prompt p = {
        .text = {"the", ""}, .picture = {seen}, .n_pictures = 1, .vae = vae, .side = 64};
    graft_status st = graft_clip_encode_analyzed(c, &p, NULL, out, e);
    graft_image_release(seen);
    return st;
}

static void encodes_alike(const graft_clip *other)
{
    graft_cond *a[2] = {NULL}, *b[2] = {NULL};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(small_prompt(clip, a, &e), &e);
    CHECK_OK(small_prompt(other, b, &e), &e);
    for (int i = 0; i < 2; i++) {
        if (a[i] && b[i]) CHECK(same_prompt(a[i], b[i]));
        graft_cond_release(a[i]);
        graft_cond_release(b[i]);
    }
}

static const char *const llama_parts[][2] = {
    {"attn.q.", "attn_q."},
    {"attn.k.", "attn_k."},
    {"attn.v.", "attn_v."},
    {"attn.qkv.", "attn_qkv."},
    {"attn.proj.", "attn_out."},
    {"norm1.", "ln1."},
    {"norm2.", "ln2."},
    {"mlp.linear_fc1.", "ffn_up."},
    {"mlp.linear_fc2.", "ffn_down."},
    {"visual.merger.norm.", "v.post_ln."},
    {"visual.merger.linear_fc1.", "mm.0."},
    {"visual.merger.linear_fc2.", "mm.2."},
    {"visual.pos_embed.", "v.position_embd."},
    {"visual.patch_embed.proj.", "v.patch_embd."},
    {"visual.deepstack_merger_list.0.norm.", "v.deepstack.1.norm."}, /* the layer's number */
    {"visual.deepstack_merger_list.0.linear_", "v.deepstack.1."},
    {"visual.deepstack_merger_list.1.norm.", "v.deepstack.2.norm."},
    {"visual.deepstack_merger_list.1.linear_", "v.deepstack.2."},
    {NULL, NULL}};

/* As llama.cpp has it, in a file beside: queries, keys and values as one, or apart. Where a part of
 * it is missing texts are read all the same. */
static void beside(void)
{
    static const char name[] = "vl-Q8_0.gguf", sight[] = "vl-mmproj.gguf";
    for (int turn = 0; turn < 3; turn++) {
        made_file *f = whole_file();
        if (turn == 2) drop_tensor(f, "visual.blocks.1.attn.qkv.bias");
        const char *folder =
            llama_folder(f, "qwen3vl", CONFIG, llama_parts, turn == 1, name, sight);
        graft_clip *c = clip_in(engine, folder, name, "qwen_image");
        if (turn < 2)
            encodes_alike(c);
        else
            refused(c, 1, true, GRAFT_E_FORMAT, "visual.blocks.1.attn.qkv.bias");
        graft_clip_release(c);
        remove_folder(folder, name, sight);
    }
}

static void no_memory(void)
{
    graft_cond *out[2] = {NULL};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(small_prompt(clip, out, &e), &e);
    for (int i = 0; i < 2; i++) graft_cond_release(out[i]);
    const int64_t live = live_blocks();
    int failed = 0;
    graft_image *seen = picture_of(60, 90, 4, 1);
    const graft_analyzed_prompt p = {
        .text = {"the", ""}, .picture = {seen}, .n_pictures = 1, .vae = vae, .side = 64};
    const int64_t with_picture = live_blocks();
    for (int i = 1; i < 3000; i++) {
        out[0] = out[1] = NULL;
        graft_alloc_fail_at(i);
        graft_status st = graft_clip_encode_analyzed(clip, &p, NULL, out, &e);
        graft_alloc_fail_at(0);
        if (st == GRAFT_OK) {
            for (int k = 0; k < 2; k++) graft_cond_release(out[k]);
            break;
        }
        CHECK_INT(st, GRAFT_E_NOMEM);
        CHECK(!out[0] && !out[1]);
        failed++;
    }
    CHECK(failed >= 10 && failed < 2999);
    CHECK_INT(live_blocks(), with_picture);
    graft_image_release(seen);
    CHECK_INT(live_blocks(), live);
}

int main(void)
{
    graft_err e = GRAFT_ERR_INIT;
    engine = make_engine("cpu");
    if (!engine) return 1;
    clip = clip_of(whole_file());
    CHECK_OK(graft_vae_load(engine, VAE, NULL, &vae, &e), &e);
    CHECK(clip->kind == GRAFT_CLIP_QWEN_IMAGE21 && clip->qwen3->sight &&
          clip->qwen3->vision3.layers == LAYERS);
    RUN(sizes);
    RUN(angles_take_turns);
    RUN(prompts);
    RUN(pictures_are_scaled);
    RUN(without_pictures);
    RUN(references_have_places);
    RUN(without_sight);
    RUN(known_layers);
    RUN(too_much);
    RUN(told_before);
    RUN(saved);
    RUN(beside);
    RUN(no_memory);
    graft_vae_release(vae);
    graft_clip_release(clip);
    graft_engine_destroy(engine);
    return test_end();
}
