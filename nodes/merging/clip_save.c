/* CLIPSave: each text encoder as a file of its own. */
#include "base/str.h"
#include "nodes/call/output.h"
#include "nodes/merging/checkpoint_file.h"
#include "nodes/node.h"

enum { CLIP, FILENAME_PREFIX };
static const graft_input *const inputs[] = {
    [CLIP] = IN_OBJECT("clip", "CLIP", "The text encoders to save, with their LoRAs and merges."),
    [FILENAME_PREFIX] =
        IN_TEXT("filename_prefix", "clip/ComfyUI",
                "How the files' names begin, with their sub-folder; which encoder it is follows, "
                "and a number. Loaders find what lies in clip."),
    NULL};
static const graft_output *const outputs[] = {NULL};

static graft_status save_one(graft_call *c, const graft_checkpoint *what, const char *encoder)
{
    graft_str prefix = GRAFT_STR_INIT;
    graft_str_printf(&prefix, "%s_%s", graft_arg_text(c, FILENAME_PREFIX), encoder);
    graft_status st = prefix.failed ? graft_fail_nomem(&c->err, "a file's name")
                                    : graft_checkpoint_file_write(c, what, prefix.data);
    graft_str_finish(&prefix);
    return st;
}

static graft_status run(graft_call *c)
{
    graft_checkpoint what = {.clip = graft_arg_clip(c, CLIP)};
    const char *encoder;
    graft_status st = graft_clip_there(what.clip, &c->err);
    while (!st && (encoder = graft_clip_encoder_name(what.clip, (size_t)what.encoder)) != NULL) {
        what.encoder++;
        st = save_one(c, &what, encoder);
    }
    return st;
}

QUERY_PREFIX()

GRAFT_NODE(clip_save, .id = "CLIPSave", .title = "CLIPSave", .category = "advanced/model_merging",
           .flags = GRAFT_NODE_OUTPUT,
           .description = "Saves each text encoder alone in the output folder, with LoRAs and "
                          "merges in its weights.",
           .query = query);
