#include "nodes/compile/booster_nodes.h"

#include "base/alloc.h"
#include "nodes/call/state.h"
#include "nodes/node.h"

static const char *const off_on[] = {"disable", "enable", NULL};
static const char *const on_off[] = {"enable", "disable", NULL};

const graft_input graft_booster_interval =
    INPUT_INT("cache_interval", 3, 1, 1000, 1,
              "Every so many steps the whole model runs; the steps between reuse its deep "
              "features.");
const graft_input graft_booster_layer =
    INPUT_INT("cache_layer_id", 0, 0, 12, 1, "Resolution level of the cut; 0 is the full size.");
const graft_input graft_booster_block =
    INPUT_INT("cache_block_id", 1, 0, 12, 1, "Block of that level at which to cut, from 0.");
const graft_input graft_booster_start = INPUT_INT(
    "start_step", 0, 0, 1000, 1, "Steps of the sampler before this one run the whole model.");
const graft_input graft_booster_end = INPUT_INT(
    "end_step", 1000, 0, 1000, 1, "From this step of the sampler on, all run the whole model.");
const graft_input graft_booster_ckpt_name =
    INPUT_CHOICE("ckpt_name", NULL, "The checkpoint file, from models/checkpoints.");
const graft_input graft_booster_vae_speedup =
    INPUT_CHOICE("vae_speedup", off_on, "Whether to compile the VAE, too.");
const graft_input graft_booster_static_mode =
    INPUT_CHOICE("static_mode", on_off, "Has no effect: one compiled graph serves every run.");

graft_deepcache_options graft_booster_read_deepcache(const graft_call *c, int first)
{
    return (graft_deepcache_options){.cache_interval = graft_arg_i64(c, first),
                                     .cache_layer_id = graft_arg_i64(c, first + 1),
                                     .cache_block_id = graft_arg_i64(c, first + 2),
                                     .start_step = graft_arg_i64(c, first + 3),
                                     .end_step = graft_arg_i64(c, first + 4),
                                     .schedule = "uniform"};
}

const graft_input graft_booster_quantization =
    INPUT_OBJECT("quantization_booster", "QuantizationBooster",
                 "Options of a quantization booster.", .flags = GRAFT_INPUT_OPTIONAL);
const graft_input graft_booster_deepcache =
    INPUT_OBJECT("deepcache_booster", "DeepCacheBooster", "Options of a DeepCache booster.",
                 .flags = GRAFT_INPUT_OPTIONAL);
const graft_input graft_booster_torchcompile = INPUT_OBJECT(
    "torchcompile_booster", "TorchCompileBooster",
    "Has no effect: Graft compiles every model itself.", .flags = GRAFT_INPUT_OPTIONAL);

graft_quantize_options graft_booster_quantize(bool conv, bool linear, int64_t density)
{
    return (graft_quantize_options){.bits = 8,
                                    .conv = conv,
                                    .linear = linear,
                                    .conv_mse_threshold = 0.1,
                                    .linear_mse_threshold = 0.1,
                                    .compute_density_threshold = density,
                                    .steps = 20,
                                    .cfg = 8};
}

enum { QUANTIZATION, DEEPCACHE, TORCHCOMPILE };
graft_status graft_booster_run_parts(graft_call *c)
{
    const graft_booster *q = graft_arg_booster(c, QUANTIZATION);
    const graft_booster *d = graft_arg_booster(c, DEEPCACHE);
    graft_booster *made = NULL;
    if (!q && !d && !graft_arg_booster(c, TORCHCOMPILE))
        return graft_call_fail(c, DEEPCACHE, GRAFT_E_ARG, "connect at least one booster");
    graft_status st = graft_booster_join(d, q, &made, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_booster(c, 0, "CUSTOM_BOOSTER", made);
}

const graft_output graft_booster_model = OUTPUT("MODEL", "MODEL", "The compiled diffusion model.");
const graft_output graft_booster_clip = OUTPUT("CLIP", "CLIP", "The text encoder, for prompts.");
const graft_output graft_booster_vae =
    OUTPUT("VAE", "VAE", "Turns pictures into latents and back.");

QUERY_MODEL_FILE("checkpoints", GRAFT_BOOSTER_CKPT_NAME)
const void *graft_booster_loader_query(const char *id)
{
    return query(id);
}

graft_status graft_booster_load(graft_call *c, bool vae, const graft_booster *b)
{
    graft_engine *engine;
    graft_model *model = NULL, *fast = NULL;
    graft_clip *clip = NULL;
    graft_vae *plain = NULL, *compiled = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_arg_file(c, GRAFT_BOOSTER_CKPT_NAME, "checkpoints", &path));
    GRAFT_TRY(graft_checkpoint_load(engine, path, &c->task, &model, &clip, &plain, &c->err));
    GRAFT_TRY(graft_booster_apply(b, model, &c->task, &fast, &c->err));
    if (vae) GRAFT_TRY(graft_booster_apply_vae(plain, &c->task, &compiled, &c->err));
    if (!vae) compiled = graft_vae_retain(plain);
    /* Each call takes its object over, also when it fails. */
    graft_model *m = fast;
    fast = NULL;
    GRAFT_TRY(graft_call_out_model(c, 0, m));
    graft_clip *k = clip;
    clip = NULL;
    GRAFT_TRY(graft_call_out_clip(c, 1, k));
    graft_vae *v = compiled;
    compiled = NULL;
    GRAFT_TRY(graft_call_out_vae(c, 2, v));
out:
    graft_model_release(fast);
    graft_model_release(model);
    graft_clip_release(clip);
    graft_vae_release(compiled);
    graft_vae_release(plain);
    graft_free(path);
    return st;
}
