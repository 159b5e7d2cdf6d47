/* TripleCLIPLoader: Stable Diffusion 3's text encoders from three files. */
#include "base/alloc.h"
#include "nodes/node.h"
#include "nodes/plugin.h"

enum { CLIP_NAME1, CLIP_NAME2, CLIP_NAME3, FILES };
static const graft_input *const inputs[] = {
    [CLIP_NAME1] = IN_CHOICE("clip_name1", NULL,
                             "One of the three encoder files: CLIP-L, CLIP-G and T5-XXL. The order "
                             "does not matter."),
    [CLIP_NAME2] = IN_CHOICE("clip_name2", NULL, "Another one."),
    [CLIP_NAME3] = IN_CHOICE("clip_name3", NULL, "The last one."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CLIP", "CLIP", "All three encoders as one, for prompts."), NULL};

static graft_status run(graft_call *c)
{
    graft_engine *engine;
    graft_clip *clip = NULL;
    char *path[FILES] = {NULL, NULL, NULL};
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    for (int i = FILES - 1; i >= 0; i--)
        GRAFT_TRY(graft_files_of_input(c, i, "text_encoders", &path[i]));
    st = graft_clip_load(engine, (const char *const *)path, FILES, "sd3", &c->task, &clip, &c->err);
    if (st) graft_files_blame(c, CLIP_NAME1, path, FILES);
    if (st) goto out;
    GRAFT_TRY(graft_call_out_clip(c, 0, clip));
out:
    for (int i = 0; i < FILES; i++) graft_free(path[i]);
    return st;
}

QUERY_MODEL_FILES("text_encoders", CLIP_NAME1, FILES)

GRAFT_NODE(triple_clip_loader, .id = "TripleCLIPLoader", .title = "TripleCLIPLoader",
           .category = "advanced/loaders",
           .description = "Opens the three text encoders of Stable Diffusion 3 from separate "
                          "files: CLIP-L, CLIP-G and T5-XXL.",
           .query = query);
