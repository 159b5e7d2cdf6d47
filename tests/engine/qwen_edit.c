/* Prompts of Qwen-Image-Edit, and of LongCat-Image-Edit: what text and pictures are put into and
 * what of it is left out, in which sizes pictures are seen, what a VAE adds, and files without what
 * looks at pictures. What the networks compute is held against golden/small/qwen_vision and
 * qwen25_seen.
 */
#include "engine/conditioning.h"
#include "engine/files/mmproj.h"
#include "engine/image/image.h"
#include "engine/models/encoders/qwen_vision.h"
#include "engine/pictures.h"
#include "engine/prompts/longcat.h"
#include "engine/prompts/qwen_vision.h"
#include "tests/engine/seen_files.h"

#define SEEN   GRAFT_SOURCE_DIR "/golden/small/qwen25_seen.safetensors"
#define VAE    MODELS "/../vae/tiny-qwen-image-vae.safetensors"
#define CONFIG "{\"head_dim\": 16, \"vision_heads\": 2, \"vision_whole_every\": 2}"
#define BEFORE                                                                                     \
    "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, "       \
    "texture, objects, background), then explain how the user's text instruction should alter or " \
    "modify the image. Generate a new image that meets the user's requirements while maintaining " \
    "consistency with the original input where appropriate.<|im_end|>\n<|im_start|>user\n"

enum { WIDTH = 32, WIDE = 16, DENSE = 20, LAYERS = 2, PATCH = 14 };

/* The language model of the golden file, with a tokenizer, and what looks at pictures. */
static made_file *whole_file(void)
{
    static const struct part {
        const char *name;
        int64_t rows, columns;
    } parts[] = {{"norm1.weight", WIDE, 0},
                 {"norm2.weight", WIDE, 0},
                 {"attn.qkv.weight", 3 * WIDE, WIDE},
                 {"attn.qkv.bias", 3 * WIDE, 0},
                 {"attn.proj.weight", WIDE, WIDE},
                 {"attn.proj.bias", WIDE, 0},
                 {"mlp.gate_proj.weight", DENSE, WIDE},
                 {"mlp.gate_proj.bias", DENSE, 0},
                 {"mlp.up_proj.weight", DENSE, WIDE},
                 {"mlp.up_proj.bias", DENSE, 0},
                 {"mlp.down_proj.weight", WIDE, DENSE},
                 {"mlp.down_proj.bias", WIDE, 0}};
    graft_safetensors *from = open_file(SEEN);
    made_file *f = copy_file(from, "model.");
    graft_safetensors_close(from);
    random_state = 5;
    add_tensor(f, "visual.patch_embed.proj.weight", 5, (int64_t[]){WIDE, 3, 2, PATCH, PATCH}, NULL,
               0.05f);
    for (int i = 0; i < LAYERS; i++)
        for (size_t k = 0; k < COUNT(parts); k++) {
            char name[160];
            snprintf(name, sizeof name, "blocks.%d.%s", i, parts[k].name);
            add(f, name, parts[k].rows, parts[k].columns);
        }
    add(f, "merger.ln_q.weight", WIDE, 0);
    add(f, "merger.mlp.0.weight", 4 * WIDE, 4 * WIDE);
    add(f, "merger.mlp.0.bias", 4 * WIDE, 0);
    add(f, "merger.mlp.2.weight", WIDTH, 4 * WIDE);
    add(f, "merger.mlp.2.bias", WIDTH, 0);
    add_merges(f, "");
    return f;
}

/* Of a file, which is used up. */
static graft_clip *whole_as(made_file *f, const char *type)
{
    const char *path = temp_path("encoder.safetensors");
    graft_clip *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_file(f, path, CONFIG);
    CHECK_OK(graft_clip_load(engine, &path, 1, type, NULL, &c, &e), &e);
    unlink(path);
    if (!c) abort();
    return c;
}

static graft_clip *clip_of(made_file *f)
{
    return whole_as(f, "qwen_image");
}

static graft_image *picture_of(int64_t height, int64_t width, uint64_t seed)
{
    const int64_t shape[4] = {1, height, width, 3};
    float *p = malloc((size_t)(height * width * 3) * sizeof *p);
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; p && i < height * width * 3; i++)
        p[i] = 0.5f + 0.5f * fixed_value(seed + (uint64_t)i / 97);
    CHECK_OK(graft_image_from_data(p, shape, false, &out, &e), &e);
    free(p);
    if (!out) abort();
    return out;
}

static graft_cond *edited(const graft_edit_prompt *p)
{
    graft_cond *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_encode_edit(clip, p, NULL, &c, &e), &e);
    if (!c) abort();
    return c;
}

/* ------------------------------------------------------------------ sizes */

static void sizes(void)
{
    /* As the formula of transformers' smart_resize() has them, in cells of 28 pixels. */
    static const struct {
        int64_t height, width;
        int32_t rows, columns;
    } want[] = {{1024, 1024, 37, 37},   {384, 384, 14, 14},    {100, 700, 4, 25},
                {10, 10, 2, 2},         {42, 70, 2, 2},        {14, 2000, 1, 71},
                {28, 28, 2, 2},         {20, 40, 2, 3},        {5000, 5000, 127, 127},
                {3584, 3584, 128, 128}, {3600, 3570, 128, 127}};
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < COUNT(want); i++) {
        int32_t rows = 0, columns = 0;
        CHECK_OK(
            graft_qwen_vision_size(PATCH, 4, want[i].height, want[i].width, &rows, &columns, &e),
            &e);
        CHECK_INT(rows, want[i].rows);
        CHECK_INT(columns, want[i].columns);
    }
    int32_t rows, columns;
    CHECK_INT(graft_qwen_vision_size(PATCH, 4, 10, 2001, &rows, &columns, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "2001 x 10"));
}

/* Each cell once, windows one after the other. */
static void orders(void)
{
    static const int64_t side[][2] = {{1, 1}, {4, 8}, {9, 6}, {3, 13}};
    for (size_t i = 0; i < COUNT(side); i++) {
        const int64_t rows = side[i][0], columns = side[i][1];
        int32_t place[64];
        int seen[64] = {0}, jumps = 0;
        graft_qwen_vision_order(rows, columns, place);
        for (int64_t k = 0; k < rows * columns; k++) {
            const int32_t at = place[k], before = k ? place[k - 1] : 0;
            CHECK(at >= 0 && at < rows * columns && !seen[at]++);
            jumps += k && (at / columns / 4 != before / columns / 4 ||
                           at % columns / 4 != before % columns / 4);
        }
        CHECK_INT(jumps, (rows + 3) / 4 * ((columns + 3) / 4) - 1);
    }
}

/* ------------------------------------------------------------------ prompts */

/* Put together once more: the whole text in one, in which each mark of a picture becomes as many
 * tokens as it has cells. */
static void by_hand(const char *text, graft_image *const *seen, size_t n, const graft_cond *got)
{
    static const char mark[] = "<|image_pad|>";
    const graft_qwen3 *q = clip->qwen3;
    const graft_build_options o = {.no_disk = true};
    graft_qwen3_picture picture[GRAFT_EDIT_PICTURES];
    float *cells[GRAFT_EDIT_PICTURES] = {NULL};
    int32_t *ids = NULL, *before = NULL, *pad = NULL, all[2048];
    size_t count = 0, left = 0, one = 0, m = 0, shown = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_qwen_encode(q->tokenizer, text, strlen(text), &ids, &count, &e), &e);
    CHECK_OK(graft_qwen_encode(q->tokenizer, BEFORE, strlen(BEFORE), &before, &left, &e), &e);
    CHECK_OK(graft_qwen_encode(q->tokenizer, mark, strlen(mark), &pad, &one, &e), &e);
    CHECK_INT(one, 1);
    for (size_t i = 0; i < count; i++) {
        int64_t cell = 1;
        if (ids[i] == pad[0]) {
            graft_qwen3_picture *p = &picture[shown];
            CHECK_OK(graft_qwen3_see(engine, &o, q, seen[shown], NULL, p, &cells[shown], &e), &e);
            p->at = (int64_t)m;
            cell = (int64_t)p->rows * p->columns;
            shown++;
        }
        for (; cell > 0 && m < COUNT(all); cell--) all[m++] = ids[i];
    }
    CHECK_INT(shown, n);
    float *want = calloc(m * WIDTH, sizeof *want);
    CHECK_OK(graft_qwen3_run_seen(engine, &o, &q->arch, q->weights, GRAFT_QWEN3_TAKE_NORMED, all,
                                  (int64_t)m, picture, n, NULL, want, &e),
             &e);
    const graft_cond_entry *k = got->entry[0];
    CHECK(got->n == 1 && !k->pooled && k->width == WIDTH && left > 0 && m > left);
    CHECK_INT(k->tokens, m - left);
    if (k->tokens == (int64_t)(m - left))
        CHECK(memcmp(k->data, want + left * WIDTH, (m - left) * WIDTH * sizeof *want) == 0);
    for (size_t i = 0; i < n; i++) graft_free(cells[i]);
    graft_free(ids);
    graft_free(before);
    graft_free(pad);
    free(want);
}

/* LongCat-Image-Edit's: 512 tokens of the text, which are its own and padding, stand behind the
 * pictures, and nothing behind them. */
static void of_longcat(void)
{
    static const char before[] =
        "<|im_start|>system\nAs an image editing expert, first analyze the content and attributes "
        "of "
        "the input image(s). Then, based on the user's editing instructions, clearly and precisely "
        "determine how to modify the given image(s), ensuring that only the specified parts are "
        "altered and all other aspects remain consistent with the original(s).<|im_end|>\n"
        "<|im_start|>user\n";
    const graft_build_options o = {.no_disk = true};
    graft_clip *c = whole_as(whole_file(), "longcat_image");
    graft_image *seen = picture_of(60, 90, 1);
    const graft_edit_prompt asked = {
        .text = "\"the\" the", .picture = {seen}, .n_pictures = 1, .numbered = true};
    graft_seen_prompt p = {.q = c->qwen3};
    graft_qwen3_picture k = {0};
    graft_cond *got = NULL;
    float *cells = NULL;
    int32_t *padding = NULL;
    size_t one = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_qwen_encode(p.q->tokenizer, "<|endoftext|>", 13, &padding, &one, &e), &e);
    CHECK_OK(graft_seen_prompt_text(&p, before, &e), &e);
    const size_t from = p.n;
    CHECK_OK(graft_seen_prompt_text(&p, "<|vision_start|>", &e), &e);
    CHECK_OK(graft_qwen3_see(engine, &o, p.q, seen, NULL, &k, &cells, &e), &e);
    CHECK_OK(graft_seen_prompt_picture(&p, &k, &e), &e);
    CHECK_OK(graft_seen_prompt_text(&p, "<|vision_end|>", &e), &e);
    const size_t all = p.n + 512;
    CHECK_OK(graft_longcat_put(&p, asked.text, &e), &e);
    float *want = calloc(all, WIDTH * sizeof *want);
    CHECK_OK(graft_qwen3_run_padded(engine, &o, &p.q->arch, p.q->weights, p.ids, (int64_t)p.n,
                                    p.picture, 1, padding[0], (int64_t)all, NULL, want, &e),
             &e);
    CHECK_OK(graft_clip_encode_seen(c, &asked, NULL, &got, &e), &e);
    CHECK_INT(got->entry[0]->tokens, all - from);
    if (got->entry[0]->tokens == (int64_t)(all - from))
        CHECK(memcmp(got->entry[0]->data, want + from * WIDTH,
                     (all - from) * WIDTH * sizeof *want) == 0);
    graft_cond_release(got);
    graft_seen_prompt_finish(&p);
    graft_free(cells);
    graft_free(padding);
    free(want);
    graft_image_release(seen);
    graft_clip_release(c);
}

#define SHOWN "<|vision_start|><|image_pad|><|vision_end|>"

/* In the sizes that pictures have. */
static void prompts(void)
{
    static const struct {
        const char *text, *whole;
        size_t n;
        bool numbered;
    } cases[] = {{"the (apple:1.3)", BEFORE SHOWN "the (apple:1.3)" BEHIND, 1, false},
                 {"\nthe", BEFORE "\nthe" BEHIND, 0, true},
                 {"", BEFORE "Picture 1: " SHOWN BEHIND, 1, true},
                 {"\nthe",
                  BEFORE "Picture 1: " SHOWN "Picture 2: " SHOWN "Picture 3: " SHOWN "\nthe" BEHIND,
                  3, true}};
    graft_image *seen[] = {picture_of(60, 90, 1), picture_of(200, 120, 2), picture_of(28, 300, 3)};
    for (size_t i = 0; i < COUNT(cases); i++) {
        graft_cond *c = NULL;
        graft_err e = GRAFT_ERR_INIT;
        const graft_edit_prompt p = {.text = cases[i].text,
                                     .picture = {seen[0], seen[1], seen[2]},
                                     .n_pictures = cases[i].n,
                                     .numbered = cases[i].numbered};
        CHECK_OK(graft_clip_encode_seen(clip, &p, NULL, &c, &e), &e);
        if (c) by_hand(cases[i].whole, seen, cases[i].n, c);
        graft_cond_release(c);
    }
    for (int i = 0; i < 3; i++) graft_image_release(seen[i]);
}

/* What the text encoder and the VAE are given, by hand; pixels of each are what the area asks for.
 */
static void scaled(bool numbered, const graft_vae *vae)
{
    graft_image *given = picture_of(50, 90, 4), *seen = NULL, *shown = NULL;
    const graft_edit_prompt p = {.text = "the",
                                 .picture = {given, given},
                                 .n_pictures = numbered ? 2 : 1,
                                 .numbered = numbered,
                                 .vae = vae};
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *want = NULL;
    graft_cond *c = edited(&p), *small = NULL;
    const int64_t width = numbered ? 515 : 1374, height = numbered ? 286 : 763;
    CHECK_OK(graft_image_scale(given, "area", width, height, false, &seen, &e), &e);
    CHECK_OK(graft_image_scale(given, "area", numbered ? 1376 : width, numbered ? 760 : height,
                               false, &shown, &e),
             &e);
    const graft_edit_prompt same = {
        .text = "the", .picture = {seen, seen}, .n_pictures = p.n_pictures, .numbered = numbered};
    CHECK_OK(graft_clip_encode_seen(clip, &same, NULL, &small, &e), &e);
    CHECK_OK(graft_vae_encode(vae, shown, NULL, NULL, &want, &e), &e);
    const graft_cond_entry *a = c->entry[0], *b = small->entry[0];
    CHECK_INT(a->tokens, b->tokens);
    if (a->tokens == b->tokens)
        CHECK(memcmp(a->data, b->data, (size_t)(a->tokens * WIDTH) * sizeof *a->data) == 0);
    CHECK_INT(a->n_references, p.n_pictures);
    CHECK_INT(b->n_references, 0);
    for (int32_t i = 0; i < a->n_references; i++) CHECK(same_latent(a->reference[i], want));
    graft_latent_release(want);
    graft_cond_release(c);
    graft_cond_release(small);
    graft_image_release(given);
    graft_image_release(seen);
    graft_image_release(shown);
}

static void pictures_are_scaled(void)
{
    graft_vae *vae = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vae_load(engine, VAE, NULL, &vae, &e), &e);
    if (!vae) return;
    scaled(false, vae);
    scaled(true, vae);
    graft_vae_release(vae);
}

/* Without a picture or numbers it is an ordinary prompt. */
static void without_pictures(void)
{
    graft_cond *c = edited(&(graft_edit_prompt){.text = "the"}), *want = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_encode(clip, "the", NULL, &want, &e), &e);
    const graft_cond_entry *a = c->entry[0], *b = want->entry[0];
    CHECK(a->tokens == b->tokens &&
          memcmp(a->data, b->data, (size_t)(a->tokens * WIDTH) * sizeof *a->data) == 0);
    graft_cond_release(c);
    graft_cond_release(want);
}

/* ------------------------------------------------------------------ files */

static void refused(const graft_clip *c, size_t n, graft_status status, const char *words)
{
    graft_image *seen = picture_of(50, 50, 4);
    const graft_edit_prompt p = {.text = "the", .picture = {seen, seen, seen}, .n_pictures = n};
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_clip_encode_edit(c, &p, NULL, &out, &e), status);
    CHECK(strstr(e.text, words));
    if (!strstr(e.text, words)) fprintf(stderr, "    %s\n", e.text);
    CHECK(!out);
    graft_image_release(seen);
}

/* Texts are read all the same. */
static void blind(made_file *f, graft_status status, const char *words)
{
    graft_clip *c = clip_of(f);
    graft_cond *text = NULL;
    graft_err e = GRAFT_ERR_INIT;
    refused(c, 1, status, words);
    CHECK_OK(graft_clip_encode(c, "the", NULL, &text, &e), &e);
    graft_cond_release(text);
    graft_clip_release(c);
}

static void without_sight(void)
{
    static const char first[] = "visual.patch_embed.proj.weight";
    made_file *all = whole_file();
    size_t seen = 0;
    for (size_t i = 0; i < all->n; i++) {
        const char *name = all->tensor[i].name;
        if (strncmp(name, "visual.", 7) != 0) continue;
        made_file *f = whole_file();
        drop_tensor(f, name);
        if (strcmp(name, first) == 0) /* by which it is told */
            blind(f, GRAFT_E_UNSUPPORTED, "no visual.* tensors");
        else
            blind(f, GRAFT_E_FORMAT, name);
        seen++;
    }
    CHECK_INT(seen, 12 * LAYERS + 6);
    finish_file(all);
    made_file *f = whole_file();
    drop_tensor(f, first);
    add_tensor(f, first, 5, (int64_t[]){WIDE, 3, 2, PATCH, PATCH - 1}, NULL, 0.1f);
    blind(f, GRAFT_E_FORMAT, first);
    f = whole_file();
    drop_tensor(f, "visual.merger.mlp.2.weight");
    add(f, "merger.mlp.2.weight", WIDTH + 1, 4 * WIDE);
    blind(f, GRAFT_E_UNSUPPORTED, "gives 33 numbers a token");
}

static void too_much(void)
{
    refused(clip, 4, GRAFT_E_LIMIT, "at most 3 pictures");
    graft_image *large = picture_of(1300, 1300, 4);
    const graft_edit_prompt p = {.text = "the", .picture = {large}, .n_pictures = 1};
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_clip_encode_seen(clip, &p, NULL, &out, &e), GRAFT_E_LIMIT);
    CHECK(!out && strstr(e.text, "at most 2048"));
    graft_image_release(large);
    graft_clip *other = load_encoder(engine, CLIP);
    refused(other, 1, GRAFT_E_UNSUPPORTED, "type qwen_image");
    graft_clip_release(other);
}

static void encodes_alike(const graft_clip *other)
{
    graft_image *seen = picture_of(60, 90, 1);
    const graft_edit_prompt p = {.text = "the", .picture = {seen}, .n_pictures = 1};
    graft_cond *a = NULL, *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_encode_seen(clip, &p, NULL, &a, &e), &e);
    CHECK_OK(graft_clip_encode_seen(other, &p, NULL, &b, &e), &e);
    if (a && b)
        CHECK(a->entry[0]->tokens == b->entry[0]->tokens &&
              memcmp(a->entry[0]->data, b->entry[0]->data,
                     (size_t)(a->entry[0]->tokens * WIDTH) * sizeof(float)) == 0);
    graft_cond_release(a);
    graft_cond_release(b);
    graft_image_release(seen);
}

/* Joining both files may run out of memory anywhere. */
static void beside_short_of_memory(const char *folder, const char *name)
{
    const int64_t live = live_blocks();
    graft_status st = GRAFT_E_NOMEM;
    char path[400];
    int n;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (n = 1; n < 2999 && st; n++) {
        graft_safetensors *f = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
        graft_alloc_fail_at(n);
        st = graft_mmproj_adopt(f, &e);
        graft_alloc_fail_at(0);
        if (st) CHECK(st == GRAFT_E_NOMEM && e.text[0]);
        graft_safetensors_close(f);
        CHECK_INT(live_blocks(), live);
    }
    CHECK(n > 30 && n < 2999);
}

/* llama.cpp has what looks at pictures in a file of its own, which lies beside. */
static void beside(void)
{
    static const char *const parts[][2] = {{"attn.q.", "attn_q."},
                                           {"attn.k.", "attn_k."},
                                           {"attn.v.", "attn_v."},
                                           {"attn.proj.", "attn_out."},
                                           {"norm1.", "ln1."},
                                           {"norm2.", "ln2."},
                                           {"mlp.gate_proj.", "ffn_gate."},
                                           {"mlp.up_proj.", "ffn_up."},
                                           {"mlp.down_proj.", "ffn_down."},
                                           {"visual.merger.ln_q.", "v.post_ln."},
                                           {"visual.merger.mlp.", "mm."},
                                           {NULL, NULL}};
    static const struct {
        const char *model, *sight;
        bool seen;
    } names[] = {{"Qwen-7B-Q4_K_M.gguf", "Qwen-7B-mmproj-F16.gguf", true},
                 {"qwen-7b-UD-IQ4_XS.gguf", "mmproj-Qwen-7B.gguf", true},
                 {"qwen-7b.BF16.gguf", "qwen-7b.mmproj-q8_0.gguf", true},
                 {"Qwen-7B-Q4_K_M-00001-of-00003.gguf", "Qwen-7B-mmproj-F16.gguf", true},
                 {"qwen_q8_0.gguf", "mmproj-F16.gguf", true}, /* the only one without a name */
                 {"qwen-7b.gguf", "other-mmproj.gguf", false},
                 {"qwen-7b-Q4_K_M.gguf", "qwen-7b-vision.gguf", false}};
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *folder = llama_folder(whole_file(), "qwen2vl", CONFIG, parts, true,
                                          names[i].model, names[i].sight);
        graft_clip *c = clip_in(engine, folder, names[i].model, "qwen_image");
        CHECK(!c->qwen3->sight == !names[i].seen);
        if (names[i].seen)
            encodes_alike(c);
        else
            refused(c, 1, GRAFT_E_UNSUPPORTED, "no visual.* tensors");
        graft_clip_release(c);
        if (i == 0) beside_short_of_memory(folder, names[i].model);
        remove_folder(folder, names[i].model, names[i].sight);
    }
}

static void no_memory(void)
{
    graft_image *seen = picture_of(40, 60, 1);
    const graft_edit_prompt p = {.text = "the", .picture = {seen, seen}, .n_pictures = 2};
    graft_cond *first = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_encode_seen(clip, &p, NULL, &first, &e), &e);
    const int64_t live = live_blocks();
    int failed = 0;
    for (int i = 1; i < 3000; i++) {
        graft_cond *out = NULL;
        graft_alloc_fail_at(i);
        graft_status st = graft_clip_encode_seen(clip, &p, NULL, &out, &e);
        graft_alloc_fail_at(0);
        if (st == GRAFT_OK) {
            graft_cond_release(out);
            break;
        }
        CHECK_INT(st, GRAFT_E_NOMEM);
        failed++;
    }
    CHECK(failed >= 10 && failed < 2999);
    CHECK_INT(live_blocks(), live);
    graft_cond_release(first);
    graft_image_release(seen);
}

int main(void)
{
    engine = make_engine("cpu");
    if (!engine) return 1;
    clip = clip_of(whole_file());
    CHECK(clip->qwen3->sight && clip->qwen3->vision.layers == LAYERS);
    RUN(sizes);
    RUN(orders);
    RUN(prompts);
    RUN(of_longcat);
    RUN(pictures_are_scaled);
    RUN(without_pictures);
    RUN(without_sight);
    RUN(too_much);
    RUN(saved);
    RUN(beside);
    RUN(no_memory);
    graft_clip_release(clip);
    graft_engine_destroy(engine);
    return test_end();
}
