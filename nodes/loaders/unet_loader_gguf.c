/* UnetLoaderGGUF: UNETLoader by ComfyUI-GGUF's name. */
#include "nodes/loaders/unet_file.h"
#include "nodes/node.h"

enum { UNET_NAME };
static const graft_input *const inputs[] = {[UNET_NAME] = &graft_unet_file_name, NULL};
static const graft_output *const outputs[] = {&graft_unet_file_out, NULL};

static graft_status run(graft_call *c)
{
    return graft_unet_file_run(c, UNET_NAME);
}

QUERY_MODEL_FILE("diffusion_models", UNET_NAME)

GRAFT_NODE(unet_loader_gguf, .id = "UnetLoaderGGUF", .title = "Unet Loader (GGUF)",
           .category = "bootleg",
           .description = "For workflows made with ComfyUI-GGUF: Load Diffusion Model takes the "
                          "same files.",
           .query = query);
