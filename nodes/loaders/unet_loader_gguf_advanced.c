/* UnetLoaderGGUFAdvanced: UnetLoaderGGUF with choices that have no effect here. */
#include "nodes/loaders/unet_file.h"
#include "nodes/node.h"

enum { UNET_NAME, DEQUANT_DTYPE, PATCH_DTYPE, PATCH_ON_DEVICE };
static const graft_input *const inputs[] = {
    [UNET_NAME] = &graft_unet_file_name,
    [DEQUANT_DTYPE] =
        IN_CHOICE("dequant_dtype", CHOICES("default", "target", "float32", "float16", "bfloat16"),
                  "Has no effect: weights are unpacked in float32 when they are "
                  "loaded."),
    [PATCH_DTYPE] =
        IN_CHOICE("patch_dtype", CHOICES("default", "target", "float32", "float16", "bfloat16"),
                  "Has no effect: LoRAs are added in float32 when they are loaded."),
    [PATCH_ON_DEVICE] = IN_BOOL("patch_on_device", 0, "Has no effect."),
    NULL};
static const graft_output *const outputs[] = {&graft_unet_file_out, NULL};

static graft_status run(graft_call *c)
{
    return graft_unet_file_run(c, UNET_NAME);
}

QUERY_MODEL_FILE("diffusion_models", UNET_NAME)

GRAFT_NODE(unet_loader_gguf_advanced, .id = "UnetLoaderGGUFAdvanced",
           .title = "Unet Loader (GGUF/Advanced)", .category = "bootleg",
           .description = "For workflows made with ComfyUI-GGUF: Load Diffusion Model takes the "
                          "same files.",
           .query = query);
