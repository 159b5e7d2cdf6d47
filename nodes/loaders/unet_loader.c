/* UNETLoader: a diffusion model that comes without text encoder and VAE. */
#include "nodes/loaders/unet_file.h"
#include "nodes/node.h"

enum { UNET_NAME, WEIGHT_DTYPE };
static const graft_input *const inputs[] = {
    [UNET_NAME] = &graft_unet_file_name,
    [WEIGHT_DTYPE] =
        IN_CHOICE("weight_dtype", CHOICES("default", "fp8_e4m3fn", "fp8_e4m3fn_fast", "fp8_e5m2"),
                  "How weights are kept. Leave it at default: the fp8 choices are accepted for old "
                  "workflows and act like default."),
    NULL};
static const graft_output *const outputs[] = {&graft_unet_file_out, NULL};

static graft_status run(graft_call *c)
{
    if (!graft_arg_is(c, WEIGHT_DTYPE, "default"))
        graft_log_printf(&c->task.log, GRAFT_LOG_WARN, "weight_dtype %s is treated as default",
                         graft_arg_text(c, WEIGHT_DTYPE));
    return graft_unet_file_run(c, UNET_NAME);
}

QUERY_MODEL_FILE("diffusion_models", UNET_NAME)

GRAFT_NODE(unet_loader, .id = "UNETLoader", .title = "Load Diffusion Model",
           .category = "advanced/loaders",
           .description = "Opens a file that holds only a diffusion model.", .query = query);
