/* IPAdapterModelLoader: an IP-Adapter, from a file. */
#include "base/alloc.h"
#include "nodes/call/state.h"
#include "nodes/node.h"

enum { IPADAPTER_FILE };
static const graft_input *const inputs[] = {
    [IPADAPTER_FILE] =
        IN_CHOICE("ipadapter_file", NULL,
                  "The adapter's file. Put .safetensors files into models/ipadapter."),
    NULL};
static const graft_output *const outputs[] = {OUT("IPADAPTER", "IPADAPTER", "For IPAdapter."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_engine *engine;
    graft_ip_adapter *adapter = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_arg_file(c, IPADAPTER_FILE, "ipadapter", &path));
    GRAFT_TRY(graft_ip_adapter_load(engine, path, &c->task, &adapter, &c->err));
    GRAFT_TRY(graft_call_out_ip_adapter(c, 0, adapter));
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("ipadapter", IPADAPTER_FILE)

GRAFT_NODE(ip_adapter_model_loader, .id = "IPAdapterModelLoader", .title = "IPAdapter Model Loader",
           .category = "ipadapter",
           .description = "Opens an IP-Adapter for Stable Diffusion 1.x or XL, plain or plus, with "
                          "which pictures are prompts.",
           .query = query);
