/* UnetLoaderGGUF: UNETLoader by ComfyUI-GGUF's name. */
#include "nodes/node.h"
#include "nodes/unet_file.h"

enum { UNET_NAME };
static const graft_input *const inputs[] = {
    [UNET_NAME] = IN_CHOICE("unet_name", NULL,
                            "The model file, .gguf or .safetensors, in models/diffusion_models or "
                            "models/unet."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The diffusion model, for a sampler."), NULL};

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
