/* HypernetworkLoader: a hypernetwork on a diffusion model. */
#include "base/alloc.h"
#include "nodes/node.h"

enum { MODEL, HYPERNETWORK_NAME, STRENGTH };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that the hypernetwork changes."),
    [HYPERNETWORK_NAME] = IN_CHOICE("hypernetwork_name", NULL,
                                    "The hypernetwork's file. Put .safetensors files, which graft "
                                    "convert makes of .pt files, into models/hypernetworks."),
    [STRENGTH] = IN_FLOAT("strength", 1.0, -10.0, 10.0, 0.01,
                          "How strongly the diffusion model changes. 0 is no change, negative "
                          "values push the other way."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model with the hypernetwork."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_arg_file(c, HYPERNETWORK_NAME, "hypernetworks", &path));
    GRAFT_TRY(graft_model_hypernetwork(graft_arg_model(c, MODEL), path, graft_arg_f64(c, STRENGTH),
                                       &c->task, &model, &c->err));
    GRAFT_TRY(graft_call_out_model(c, 0, model));
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("hypernetworks", HYPERNETWORK_NAME)

GRAFT_NODE(hypernetwork_loader, .id = "HypernetworkLoader", .title = "HypernetworkLoader",
           .category = "loaders",
           .description =
               "Adds a hypernetwork for Stable Diffusion 1.x to a diffusion model: small "
               "networks before the keys and values of its attentions.",
           .query = query);
