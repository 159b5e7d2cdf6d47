/* T5TokenizerOptions: how far T5's prompts are filled up. */
#include "nodes/node.h"

enum { CLIP, MIN_PADDING, MIN_LENGTH };
static const graft_input *const inputs[] = {
    [CLIP] =
        IN_OBJECT("clip", "CLIP", "Text encoders of SD 3, FLUX.1 or Chroma, with T5 among them."),
    [MIN_PADDING] =
        IN_INT("min_padding", 0, 0, 10000, 1, "Tokens of padding that stand behind every prompt."),
    [MIN_LENGTH] = IN_INT("min_length", 0, 0, 10000, 1,
                          "Up to how many tokens padding goes on, in place of SD 3's 77 and "
                          "FLUX.1's 256; Chroma has one of padding without this node."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CLIP", "CLIP", "The text encoders with these options."), NULL};

static graft_status run(graft_call *c)
{
    graft_clip *clip = NULL;
    graft_status st = graft_clip_t5_options(graft_arg_clip(c, CLIP), graft_arg_i64(c, MIN_PADDING),
                                            graft_arg_i64(c, MIN_LENGTH), &clip, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_clip(c, 0, clip);
}

GRAFT_NODE(t5_tokenizer_options, .id = "T5TokenizerOptions", .title = "T5TokenizerOptions",
           .category = "_for_testing/conditioning",
           .description = "Sets how many tokens T5's prompts have at least. The defaults leave out "
                          "the padding that models were trained with.");
