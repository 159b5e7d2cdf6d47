/* Qwen 3-VL's language model as Qwen-Image 2.1's text encoder: which files it is found in by the
 * type of Qwen-Image's, what its prompts are made of, and that all of its layers are read. What it
 * computes is held against golden/small/qwen3_whole. */
#include "engine/models/parts/tensors.h"
#include "tests/engine/language.h"

#define SMALL GRAFT_SOURCE_DIR "/golden/small/qwen3_whole.safetensors"
#define NET   GRAFT_SOURCE_DIR "/golden/small/qwen_image21_one.safetensors"
#define TYPE  "qwen_image"
#define PLACE "text_encoders.qwen3vl_8b.transformer."

enum { WIDTH = 24 };

static graft_engine *engine;

static made_file *own_file(void)
{
    return language_at(SMALL, "");
}

static graft_clip *own_clip(void)
{
    return clip_as(engine, own_file(), TYPE);
}

/* In a file of its own, as transformers names it beside what looks at pictures, which is not read,
 * and in a checkpoint's place. */
static void is_found(void)
{
    graft_clip *own = own_clip();
    CHECK(own->kind == GRAFT_CLIP_QWEN_IMAGE21 && own->width == WIDTH && !own->n_encoders);
    CHECK(!own->qwen3->arch.biased && own->qwen3->arch.layers == 3 && !own->qwen3->sight);
    made_file *f = language_at(SMALL, "model.language_");
    add_tensor(f, "model.visual.blocks.0.attn.qkv.weight", 1, (int64_t[]){WIDTH}, NULL, 1);
    found_in(engine, f, TYPE, own);
    found_in(engine, language_at(SMALL, PLACE), TYPE, own);
    found_beside(engine, language_at(SMALL, PLACE), NET, own, GRAFT_NET_QWEN_IMAGE21);
    graft_clip_release(own);
}

/* The norm behind the last layer is not read. */
static void lacks_a_tensor(void)
{
    clip_lacks_tensors(engine, own_file, TYPE, GRAFT_QWEN3_TENSOR, "model.norm.weight");
}

/* What is asked for is read and left out: of the rest all is there, the words that begin the
 * question included. */
static void prompts(void)
{
    static const char before[] =
        "<|im_start|>system\nComprehend and analyze the provided prompt.<|im_end|>\n";
    static const char *const texts[][2] = {{"the the", "the the"},
                                           {"", " "}, /* nothing to read is a space */
                                           {" the (the:1.5)\n\n the", " the (the:1.5)\n\n the"}};
    graft_clip *c = own_clip();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char all[600];
        snprintf(all, sizeof all, "%s<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n",
                 before, texts[i][1]);
        prompt_gives(c, texts[i][0], before, all, GRAFT_QWEN3_TAKE_WHOLE);
    }
    graft_clip_release(c);
}

/* All layers, no norm behind them, and places turn by the angles of Qwen 3-VL. */
static void graph(void)
{
    const graft_qwen3_arch a = {.layers = 5,
                                .width = 16,
                                .head_dim = 8,
                                .intermediate = 24,
                                .vocab = 300,
                                .heads = 2,
                                .key_heads = 1};
    const graft_qwen3_shape shape = {.batch = 1, .tokens = 9, .act_dtype = GRAFT_F32, .whole = 1};
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t turns = 0, attentions = 0, norms = 0;
    CHECK_OK(graft_qwen3_build(&a, &shape, &g, &e), &e);
    if (!g) return;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const graft_gnode *n = &g->node[i];
        turns += n->op == GRAFT_OP_ROPE && n->attrs.scale == 5e6f;
        attentions += n->op == GRAFT_OP_ATTENTION && n->attrs.causal;
        norms += n->op == GRAFT_OP_RMS_NORM;
    }
    CHECK(turns == 2 * 5 && attentions == 5 && norms == 4 * 5);
    CHECK(g->n_inputs == 1 && g->value[g->output[0]].dim[2] == 16);
    graft_graph_destroy(g);
    for (int i = 0; i < 2; i++) {
        graft_qwen3_shape both = shape;
        both.normed = !i;
        both.layered = i;
        g = NULL;
        CHECK_INT(graft_qwen3_build(&a, &both, &g, &e), GRAFT_E_ARG);
        CHECK(!g);
    }
}

static void no_memory(void)
{
    graft_clip *c = own_clip();
    encodes_short_of_memory(c, 6);
    graft_clip_release(c);
}

int main(void)
{
    engine = make_engine("cpu");
    if (!engine) return 1;
    RUN(is_found);
    RUN(lacks_a_tensor);
    RUN(prompts);
    RUN(graph);
    RUN(no_memory);
    graft_engine_destroy(engine);
    return test_end();
}
