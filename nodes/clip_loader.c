/* CLIPLoader: one text encoder from a file of its own. */
#include "base/alloc.h"
#include "nodes/node.h"
#include "nodes/plugin.h"

enum { CLIP_NAME, TYPE, DEVICE };
static const graft_input *const inputs[] = {
    [CLIP_NAME] =
        IN_CHOICE("clip_name", NULL,
                  "The text encoder's file. Put .safetensors files into models/text_encoders."),
    [TYPE] = IN_CHOICE("type",
                       CHOICES("stable_diffusion", "stable_cascade", "sd3", "stable_audio", "mochi",
                               "ltxv", "pixart", "cosmos", "lumina2", "wan", "hidream", "chroma",
                               "ace", "omnigen2", "qwen_image", "hunyuan_image"),
                       "The family of models that the encoder is for. Graft runs stable_diffusion "
                       "and sd3; the others are listed so that workflows open."),
    [DEVICE] = IN_CHOICE("device", CHOICES("default", "cpu"),
                         "Where the encoder runs. Both choices use the device of the engine.",
                         .flags = GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_ADVANCED),
    NULL};
static const graft_output *const outputs[] = {OUT("CLIP", "CLIP", "The text encoder, for prompts."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_engine *engine;
    graft_clip *clip = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    if (!graft_arg_is(c, TYPE, "stable_diffusion") && !graft_arg_is(c, TYPE, "sd3"))
        return graft_call_fail(c, TYPE, GRAFT_E_UNSUPPORTED,
                               "text encoders of type %s are not supported, only stable_diffusion "
                               "and sd3",
                               graft_arg_text(c, TYPE));
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_files_of_input(c, CLIP_NAME, "text_encoders", &path));
    GRAFT_TRY(graft_clip_load(engine, (const char *const *)&path, 1, graft_arg_text(c, TYPE),
                              &c->task, &clip, &c->err));
    GRAFT_TRY(graft_call_out_clip(c, 0, clip));
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("text_encoders", CLIP_NAME)

GRAFT_NODE(clip_loader, .id = "CLIPLoader", .title = "Load CLIP", .category = "advanced/loaders",
           .description = "Opens a text encoder that comes in a file of its own. Stable Diffusion "
                          "1 and 2 use one such encoder; Stable Diffusion 3 can make do with one.",
           .query = query);
