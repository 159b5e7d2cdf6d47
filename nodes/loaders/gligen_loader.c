/* GLIGENLoader: what puts texts into boxes, from a file. */
#include "base/alloc.h"
#include "nodes/call/state.h"
#include "nodes/node.h"

enum { GLIGEN_NAME };
static const graft_input *const inputs[] = {
    [GLIGEN_NAME] = IN_CHOICE("gligen_name", NULL,
                              "The GLIGEN's file, which is for texts in boxes. Put .safetensors "
                              "files into models/gligen."),
    NULL};
static const graft_output *const outputs[] = {OUT("GLIGEN", "GLIGEN", "For GLIGENTextBoxApply."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_engine *engine;
    graft_gligen *gligen = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_arg_file(c, GLIGEN_NAME, "gligen", &path));
    GRAFT_TRY(graft_gligen_load(engine, path, &c->task, &gligen, &c->err));
    GRAFT_TRY(graft_call_out_gligen(c, 0, gligen));
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("gligen", GLIGEN_NAME)

GRAFT_NODE(gligen_loader, .id = "GLIGENLoader", .title = "GLIGENLoader", .category = "loaders",
           .description = "Opens a GLIGEN for Stable Diffusion 1.x, with which prompts have texts "
                          "in boxes.",
           .query = query);
