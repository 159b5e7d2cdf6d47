/* DualCLIPLoader: a pair of text encoders from two files. */
#include "base/alloc.h"
#include "nodes/node.h"
#include "nodes/plugin.h"

enum { CLIP_NAME1, CLIP_NAME2, TYPE, DEVICE };
static const graft_input *const inputs[] = {
    [CLIP_NAME1] =
        IN_CHOICE("clip_name1", NULL, "One of the two encoder files; the order does not matter."),
    [CLIP_NAME2] = IN_CHOICE("clip_name2", NULL, "The other encoder file."),
    [TYPE] = IN_CHOICE("type",
                       CHOICES("sdxl", "sd3", "flux", "hunyuan_video", "hidream", "hunyuan_image"),
                       "The family of models that the pair is for. Graft runs sdxl, sd3 and "
                       "flux; the others are listed so that workflows open."),
    [DEVICE] = IN_CHOICE("device", CHOICES("default", "cpu"),
                         "Where the encoders run. Both choices use the device of the engine.",
                         .flags = GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_ADVANCED),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CLIP", "CLIP", "Both encoders as one, for prompts."), NULL};

static graft_status run(graft_call *c)
{
    graft_engine *engine;
    graft_clip *clip = NULL;
    char *path[2] = {NULL, NULL};
    graft_status st;
    graft_call_phase(c, "load");
    if (!graft_arg_is(c, TYPE, "sdxl") && !graft_arg_is(c, TYPE, "sd3") &&
        !graft_arg_is(c, TYPE, "flux"))
        return graft_call_fail(c, TYPE, GRAFT_E_UNSUPPORTED,
                               "pairs of text encoders of type %s are not supported, only sdxl, "
                               "sd3 and flux",
                               graft_arg_text(c, TYPE));
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_files_of_input(c, CLIP_NAME2, "text_encoders", &path[1]));
    GRAFT_TRY(graft_files_of_input(c, CLIP_NAME1, "text_encoders", &path[0]));
    st = graft_clip_load(engine, (const char *const *)path, 2, graft_arg_text(c, TYPE), &c->task,
                         &clip, &c->err);
    if (st) graft_files_blame(c, CLIP_NAME1, path, 2);
    if (st) goto out;
    GRAFT_TRY(graft_call_out_clip(c, 0, clip));
out:
    graft_free(path[0]);
    graft_free(path[1]);
    return st;
}

QUERY_MODEL_FILES("text_encoders", CLIP_NAME1, 2)

GRAFT_NODE(dual_clip_loader, .id = "DualCLIPLoader", .title = "DualCLIPLoader",
           .category = "advanced/loaders",
           .description =
               "Opens two text encoders from separate files: SDXL's CLIP-L and CLIP-G, two of "
               "the three of Stable Diffusion 3, or FLUX's CLIP-L and T5.",
           .query = query);
