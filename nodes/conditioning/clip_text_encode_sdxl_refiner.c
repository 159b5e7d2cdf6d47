/* CLIPTextEncodeSDXLRefiner: a prompt with the numbers that SDXL's refiner was trained with. */
#include "nodes/node.h"

enum { ASCORE, WIDTH, HEIGHT, TEXT, CLIP };
static const graft_input *const inputs[] = {
    [ASCORE] = IN_FLOAT("ascore", 6.0, 0.0, 1000.0, 0.01,
                        "How beautiful the picture is to be: 6 for a positive prompt, 2.5 for a "
                        "negative one."),
    [WIDTH] = IN_INT("width", 1024, 0, 16384, 0,
                     "Width that the picture pretends to have; use that of the picture. Small "
                     "values give a soft, low-resolution look."),
    [HEIGHT] = IN_INT("height", 1024, 0, 16384, 0, "Height that the picture pretends to have."),
    [TEXT] = IN_PROMPT("text", "The prompt, usually that of the base model."),
    [CLIP] = IN_OBJECT("clip", "CLIP", "The refiner's text encoder, from its checkpoint."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The encoded prompt, for sampling with the refiner."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_call_phase(c, "encode");
    graft_status st = graft_clip_encode_refiner(graft_arg_clip(c, CLIP), graft_arg_text(c, TEXT),
                                                graft_arg_f64(c, ASCORE), graft_arg_i64(c, WIDTH),
                                                graft_arg_i64(c, HEIGHT), &c->task, &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

QUERY_PROMPTS(TEXT, 1)

GRAFT_NODE(clip_text_encode_sdxl_refiner, .id = "CLIPTextEncodeSDXLRefiner",
           .title = "CLIPTextEncodeSDXLRefiner", .category = "advanced/conditioning",
           .description = "Encodes a prompt for SDXL's refiner, with a size and a score that it "
                          "takes as hints.",
           .query = query);
