/* Qwen 2.5 as Qwen-Image's and OmniGen2's text encoder: which files it is found in, that its
 * tensors are all read, what a prompt is put into and what of it is left out, and what it refuses.
 * What it computes is held against golden/small/qwen25; what it shares with Qwen 3 is tested there.
 */
#include "engine/models/detect/detect.h"
#include "tests/engine/language.h"
#include "tests/engine/llama_files.h"

#define SMALL    GRAFT_SOURCE_DIR "/golden/small/qwen25.safetensors"
#define PLACE    "text_encoders.qwen25_7b.transformer."
#define PLACE_3B "text_encoders.qwen25_3b.transformer."
#define BEFORE                                                                                     \
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, "        \
    "quantity, text, spatial relationships of the objects and background:<|im_end|>\n"             \
    "<|im_start|>user\n"
#define OMNIGEN2                                                                                   \
    "<|im_start|>system\nYou are a helpful assistant that generates high-quality images based on " \
    "user instructions.<|im_end|>\n<|im_start|>user\n"
#define OMNIGEN2_END "<|im_end|>\n"
#define BEHIND       "<|im_end|>\n<|im_start|>assistant\n"

enum { LAYERS = 2, WIDTH = 32, HEADS = 2, DENSE = 64, VOCAB = 300 };

static graft_engine *engine;

static void add(made_file *f, const char *prefix, const char *name, int64_t rows, int64_t columns)
{
    char full[200];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    add_tensor(f, full, columns ? 2 : 1, (int64_t[]){rows, columns}, NULL, 0.4f);
}

/* A file of heads as published ones have them, with a tokenizer, below a prefix. */
static made_file *file_at(const char *prefix)
{
    static const struct part {
        const char *name;
        int64_t rows, columns;
    } parts[] = {{"input_layernorm.weight", WIDTH, 0},
                 {"self_attn.q_proj.weight", HEADS * 128, WIDTH},
                 {"self_attn.q_proj.bias", HEADS * 128, 0},
                 {"self_attn.k_proj.weight", 128, WIDTH},
                 {"self_attn.k_proj.bias", 128, 0},
                 {"self_attn.v_proj.weight", 128, WIDTH},
                 {"self_attn.v_proj.bias", 128, 0},
                 {"self_attn.o_proj.weight", WIDTH, HEADS * 128},
                 {"post_attention_layernorm.weight", WIDTH, 0},
                 {"mlp.gate_proj.weight", DENSE, WIDTH},
                 {"mlp.up_proj.weight", DENSE, WIDTH},
                 {"mlp.down_proj.weight", WIDTH, DENSE}};
    made_file *f = calloc(1, sizeof *f);
    char name[200];
    if (!f) abort();
    random_state = 7;
    add(f, prefix, "model.embed_tokens.weight", VOCAB, WIDTH);
    for (int i = 0; i < LAYERS; i++)
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            snprintf(name, sizeof name, "model.layers.%d.%s", i, parts[k].name);
            add(f, prefix, name, parts[k].rows, parts[k].columns);
        }
    add(f, prefix, "model.norm.weight", WIDTH, 0);
    add_merges(f, prefix);
    return f;
}

static made_file *own_file(void)
{
    return file_at("");
}

/* Of a file, which is used up. */
static graft_clip *clip_of(made_file *f)
{
    return clip_as(engine, f, "qwen_image");
}

/* ------------------------------------------------------------------ files */

static void is_found(void)
{
    graft_clip *c = clip_of(file_at(""));
    const graft_qwen3_arch *a = &c->qwen3->arch;
    CHECK(a->biased && a->layers == LAYERS && a->width == WIDTH && a->heads == 2 &&
          a->key_heads == 1);
    CHECK(a->head_dim == 128 && a->intermediate == DENSE && a->vocab == VOCAB);
    CHECK(c->kind == GRAFT_CLIP_QWEN_IMAGE && !c->n_encoders && c->width == WIDTH);
    CHECK_STR(graft_clip_encoder_name(c, 0), "qwen25_7b");
    CHECK_STR(graft_qwen3_family(a), "Qwen 2.5");
    graft_clip_release(c);
    graft_safetensors *small = open_file(SMALL); /* whose config has another */
    graft_qwen3_arch b;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_qwen3_detect(small, "", &b, &e), &e);
    CHECK(b.biased && b.head_dim == 12 && b.heads == 6 && b.key_heads == 2 && b.layers == 3);
    graft_safetensors_close(small);
}

/* In a checkpoint's place; as transformers names it beside a model for pictures, which is not read.
 */
static void other_places(void)
{
    graft_clip *own = clip_of(file_at(""));
    found_in(engine, file_at(PLACE), "qwen_image", own);
    made_file *f = file_at("");
    add_tensor(f, "visual.blocks.0.attn.qkv.weight", 2, (int64_t[]){3 * WIDTH, WIDTH}, NULL, 1);
    add_tensor(f, "lm_head.weight", 2, (int64_t[]){300, WIDTH}, NULL, 1);
    found_in(engine, f, "qwen_image", own);
    f = file_at("");
    move_tensors(f, "model.", "model.language_model.");
    move_tensors(f, "merges_txt", "model.language_merges_txt");
    add_tensor(f, "model.visual.blocks.0.attn.qkv.weight", 1, (int64_t[]){WIDTH}, NULL, 1);
    found_in(engine, f, "qwen_image", own);
    graft_clip_release(own);
}

/* Any of its tensors: all layers are read, and the norm behind them. */
static void lacks_a_tensor(void)
{
    clip_lacks_tensors(engine, own_file, "qwen_image", GRAFT_QWEN25_TENSOR, NULL);
}

static void other_kinds(void)
{
    static const char *const types[] = {"lumina2", "flux2", "stable_diffusion", "sd3"};
    const char *path = GRAFT_SOURCE_DIR "/golden/small/t5.safetensors";
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    for (size_t i = 0; i < 4; i++)
        clip_refused(engine, file_at(""), types[i], GRAFT_E_UNSUPPORTED,
                     "CLIPLoader with type qwen_image");
    made_file *f = file_at("");
    add_tensor(f, GRAFT_QWEN3_TENSOR, 1, (int64_t[]){12}, NULL, 1);
    clip_refused(engine, f, "qwen_image", GRAFT_E_UNSUPPORTED,
                 "both Qwen 2.5's biases and Qwen 3's norms");
    f = file_at("");
    drop_tensor(f, "model.layers.0.self_attn.k_proj.weight");
    add(f, "", "model.layers.0.self_attn.k_proj.weight", 100, WIDTH);
    clip_refused(engine, f, "qwen_image", GRAFT_E_UNSUPPORTED, "heads of 128");
    CHECK_INT(graft_clip_load(engine, &path, 1, "qwen_image", NULL, &c, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "no Qwen 2.5 text encoder in it"));
    CHECK(strstr(e.text, "a T5 text encoder"));
    CHECK(!c);
}

/* Saved alone and in a checkpoint it is found again. */
static void saved(void)
{
    graft_clip *c = clip_of(file_at(""));
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t encoder = 0; encoder < 2; encoder++) {
        const graft_checkpoint what = {.clip = c, .encoder = encoder};
        const char *to = temp_path("saved.safetensors");
        CHECK_OK(graft_checkpoint_save(&what, to, NULL, NULL, &e), &e);
        graft_safetensors *f = open_file(to);
        CHECK(graft_safetensors_find(f, encoder ? GRAFT_QWEN25_TENSOR : PLACE GRAFT_QWEN25_TENSOR));
        graft_safetensors_close(f);
        graft_clip *again = NULL;
        CHECK_OK(graft_clip_load(engine, &to, 1, "qwen_image", NULL, &again, &e), &e);
        CHECK(again && encode_alike(c, again, "the red apple"));
        graft_clip_release(again);
        unlink(to);
    }
    graft_clip_release(c);
}

/* llama.cpp's names: a bias is called as its weight. */
static void gguf(void)
{
    const char *path = temp_path("encoder.gguf");
    made_file *f = file_at("");
    graft_clip *own = clip_of(file_at(""));
    call_as_llama(f);
    drop_tensor(f, "merges_txt"); /* the tokenizer below is the one that is built in, or none */
    gguf_file bytes = gguf_of("qwen2vl", NULL, f->tensor, f->n);
    gguf_write(&bytes, path);
    free(bytes.data);
    graft_safetensors *file = open_file(path);
    graft_qwen3_arch a;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_qwen3_detect(file, "", &a, &e), &e);
    CHECK(memcmp(&a, &own->qwen3->arch, sizeof a) == 0);
    CHECK(graft_safetensors_find(file, "model.layers.1.self_attn.v_proj.bias"));
    CHECK(graft_safetensors_find(file, "model.norm.weight"));
    graft_safetensors_close(file);
    graft_clip_release(own);
    finish_file(f);
    unlink(path);
}

/* ------------------------------------------------------------------ prompts */

/* What is left of a prompt is what it is within the whole, behind what stands before it. */
static void prompts(void)
{
    static const char *const texts[] = {"the red (apple:1.3), \\(the\\)", "", "the\n\n the",
                                        "\nthe"};
    graft_clip *c = clip_of(file_at(""));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char all[600];
        snprintf(all, sizeof all, "%s%s%s", BEFORE, texts[i], BEHIND);
        prompt_gives(c, texts[i], BEFORE, all, GRAFT_QWEN3_TAKE_NORMED);
    }
    graft_clip_release(c);
}

/* OmniGen2 is told what it is, and reads that, too; no answer is asked for. */
static void of_omnigen2(void)
{
    static const char *const texts[] = {"the red (apple:1.3)", "", "\nthe"};
    graft_clip *c = clip_as(engine, file_at(""), "omnigen2");
    CHECK(c->kind == GRAFT_CLIP_OMNIGEN2 && c->width == WIDTH && c->qwen3->arch.biased);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char all[600];
        snprintf(all, sizeof all, OMNIGEN2 "%s" OMNIGEN2_END, texts[i]);
        prompt_gives(c, texts[i], "", all, GRAFT_QWEN3_TAKE_NORMED);
    }
    encodes_short_of_memory(c, 4);
    found_in(engine, file_at(PLACE_3B), "omnigen2", c);
    found_beside(engine, file_at(PLACE_3B),
                 GRAFT_SOURCE_DIR "/golden/small/omnigen2_two.safetensors", c, GRAFT_NET_OMNIGEN2);
    graft_clip_release(c);
    made_file *f = file_at("");
    drop_tensor(f, GRAFT_QWEN25_TENSOR);
    clip_refused(engine, f, "omnigen2", GRAFT_E_UNSUPPORTED, "no Qwen 2.5 text encoder in it");
}

/* What a saved file calls it follows from its width. */
static void sizes_have_names(void)
{
    graft_qwen3 q = {.arch = {.biased = 1, .width = 2048}};
    CHECK_STR(graft_qwen3_name(&q), "qwen25_3b");
    q.arch.width = 3584;
    CHECK_STR(graft_qwen3_name(&q), "qwen25_7b");
}

/* Of Qwen's own tokenizer 34 tokens are left out, as in training; OmniGen2's form has 25. */
static void as_in_training(void)
{
    graft_qwen *own = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int32_t *ids = NULL;
    size_t n = 0;
    graft_status st = graft_qwen_create_own(&own, &e);
    if (st == GRAFT_E_NOTFOUND) {
        printf("  not tested: this build has no tokenizer\n");
        return;
    }
    CHECK_OK(st, &e);
    CHECK_OK(graft_qwen_encode(own, BEFORE, strlen(BEFORE), &ids, &n, &e), &e);
    CHECK_INT(n, 34);
    CHECK(ids && ids[0] == 151644 && ids[n - 3] == 151644);
    graft_free(ids);
    ids = NULL;
    CHECK_OK(
        graft_qwen_encode(own, OMNIGEN2 OMNIGEN2_END, strlen(OMNIGEN2 OMNIGEN2_END), &ids, &n, &e),
        &e);
    CHECK_INT(n, 25);
    CHECK(ids && ids[0] == 151644 && ids[n - 2] == 151645);
    graft_free(ids);
    graft_qwen_destroy(own);
}

static void no_memory(void)
{
    graft_clip *c = clip_of(file_at(""));
    encodes_short_of_memory(c, 4);
    graft_clip_release(c);
}

int main(void)
{
    engine = make_engine("ref");
    if (!engine) return 1;
    RUN(is_found);
    RUN(other_places);
    RUN(lacks_a_tensor);
    RUN(other_kinds);
    RUN(saved);
    RUN(gguf);
    RUN(prompts);
    RUN(of_omnigen2);
    RUN(sizes_have_names);
    RUN(as_in_training);
    RUN(no_memory);
    graft_engine_destroy(engine);
    return test_end();
}
