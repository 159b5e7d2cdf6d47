/* StyleModelLoader: a style model, from a file. */
#include "base/alloc.h"
#include "nodes/call/state.h"
#include "nodes/node.h"

enum { STYLE_MODEL_NAME };
static const graft_input *const inputs[] = {
    [STYLE_MODEL_NAME] =
        IN_CHOICE("style_model_name", NULL,
                  "The style model's file. Put .safetensors files into models/style_models."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("STYLE_MODEL", "STYLE_MODEL", "For Apply Style Model."), NULL};

static graft_status run(graft_call *c)
{
    graft_engine *engine;
    graft_style *style = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_arg_file(c, STYLE_MODEL_NAME, "style_models", &path));
    GRAFT_TRY(graft_style_load(engine, path, &c->task, &style, &c->err));
    GRAFT_TRY(graft_call_out_style(c, 0, style));
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("style_models", STYLE_MODEL_NAME)

GRAFT_NODE(style_model_loader, .id = "StyleModelLoader", .title = "Load Style Model",
           .category = "loaders",
           .description = "Opens FLUX.1 Redux, which makes prompts of pictures.", .query = query);
