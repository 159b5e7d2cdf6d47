/* Qwen 3-VL's language model as Ideogram 4's text encoder: where it is found, what its prompts are
 * made of, and that it must be whole. What it computes is held against golden/small/qwen3_stacked.
 */
#include "tests/engine/language.h"

#define SMALL GRAFT_SOURCE_DIR "/golden/small/qwen3_stacked.safetensors"
#define NET   GRAFT_SOURCE_DIR "/golden/small/ideogram4_two.safetensors"
#define PLACE "text_encoders.qwen3vl_8b.transformer."

enum { LAYERS = 13 };

static graft_engine *engine;

/* All of the question and where the answer begins is there, 13 layers of each token. */
static void prompts(void)
{
    static const char *const texts[] = {"the the", "", "{\"the\": [1, 2]}"};
    graft_clip *c = clip_as(engine, language_at(SMALL, ""), "ideogram4");
    CHECK(c->kind == GRAFT_CLIP_IDEOGRAM4 && c->width == LAYERS * c->qwen3->arch.width);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char all[200];
        snprintf(all, sizeof all, "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n",
                 texts[i]);
        prompt_gives(c, texts[i], "", all, GRAFT_QWEN3_TAKE_STACKED);
    }
    graft_clip_release(c);
}

static void in_a_checkpoint(void)
{
    graft_clip *own = clip_as(engine, language_at(SMALL, ""), "ideogram4");
    found_beside(engine, language_at(SMALL, PLACE), NET, own, GRAFT_NET_IDEOGRAM4);
    graft_clip_release(own);
}

/* The last layer is read, which others of its kind leave alone. */
static void not_whole(void)
{
    made_file *f = language_at(SMALL, "");
    drop_tensors(f, "model.layers.35.");
    clip_refused(engine, f, "ideogram4", GRAFT_E_UNSUPPORTED,
                 "a Qwen 3 of 35 layers; Ideogram 4 wants what layer 35 of one");
    f = language_at(SMALL, "");
    drop_tensor(f, "model.layers.35.mlp.down_proj.weight");
    clip_refused(engine, f, "ideogram4", GRAFT_E_FORMAT, "model.layers.35.mlp.down_proj.weight");
    clip_refused(engine, language_at(SMALL, ""), "sd3", GRAFT_E_UNSUPPORTED,
                 "CLIPLoader with type lumina2, flux2, krea2, qwen_image, ovis or ideogram4");
}

int main(void)
{
    engine = make_engine("cpu");
    if (!engine) return 1;
    RUN(prompts);
    RUN(in_a_checkpoint);
    RUN(not_whole);
    graft_engine_destroy(engine);
    return test_end();
}
