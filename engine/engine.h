/* The engine: all that the nodes may call. Some of its nouns have headers of their own, which this
 * one includes: changes of guidance (cfg.h), prompts (conditioning.h), hooks, latents, LoRAs that
 * are made (lora_made.h), merging, pictures, sigmas, texts and pictures as prompts (vision.h). All
 * stand on types.h.
 *
 * Objects are opaque, immutable and reference-counted: a function that changes something returns a
 * new object that shares what stayed the same. `out` objects carry one reference for the caller;
 * arguments are borrowed. retain and release are safe on any thread, release takes NULL. Every
 * function here may be called from any thread at any time unless it says otherwise; none keeps a
 * pointer that it was given, except to retained objects.
 *
 * Pictures and masks are float32, (N,H,W,C) and (N,H,W), 0..1. Latents are float32 (N,C,h,w) as
 * ComfyUI has them: not scaled by the VAE's factor. */
#ifndef GRAFT_ENGINE_H
#define GRAFT_ENGINE_H
#include "engine/cfg.h"
#include "engine/conditioning.h"
#include "engine/formula.h"
#include "engine/hooks.h"
#include "engine/latents.h"
#include "engine/lora_made.h"
#include "engine/merging.h"
#include "engine/model_patch.h"
#include "engine/pictures.h"
#include "engine/sampler_options.h"
#include "engine/sigmas.h"
#include "engine/texts.h"
#include "engine/types.h"
#include "engine/vision.h"

/* ------------------------------------------------------------------ engine */

typedef struct graft_engine_config {
    const char *kernel_dir; /* folder of graft_kernels_*.so */
    const char *backend; /* "auto" or NULL, "ref", "cpu", "cuda"; GRAFT_BACKEND overrides "auto" */
    const char *cache_dir; /* compiled-graph cache; NULL: memory only */
    int threads;           /* 0: GRAFT_THREADS, else all processors this process may use */
    graft_log log;
} graft_engine_config;

graft_status graft_engine_create(const graft_engine_config *config, graft_engine **out,
                                 graft_err *e);
/* After the last object of this engine was released. */
void graft_engine_destroy(graft_engine *engine);
/* Gives packed weights, memory of activations and recorded runs that nothing uses back to the
 * system; without it they stay for the next run, up to GRAFT_MEMORY_MB or half of the device's
 * memory. */
void graft_engine_release_unused(graft_engine *engine);
/* NULL-terminated names of the backends that can run here, best first ("cpu", "ref"). Lives as long
 * as the engine. */
const char *const *graft_engine_backends(const graft_engine *engine);

typedef struct graft_engine_device {
    char backend[32];                   /* "cuda" */
    char name[128];                     /* "AMD EPYC (AVX-512, VNNI, BF16)" */
    bool own_memory;                    /* it has memory of its own, as a card does */
    uint64_t memory_total, memory_free; /* bytes, now; 0: not known */
} graft_engine_device;
/* Whether the backend of this name can run here ("auto" and NULL: the engine's own), and what it
 * runs on; opens the device. `out` may be NULL. Any thread. */
graft_status graft_engine_describe(graft_engine *engine, const char *name, graft_engine_device *out,
                                   graft_err *e);

/* ------------------------------------------------------------------ loading */

/* Reads a checkpoint (safetensors) and finds out what it is. Each of the three outputs may be NULL
 * (not wanted); a wanted part that the file lacks is an error naming it. Only text encoders beside
 * a wanted model may be missing: *clip says so when something uses it. Weights are mapped, not
 * read, until something runs. */
graft_status graft_checkpoint_load(graft_engine *engine, const char *path, const graft_task *task,
                                   graft_model **model, graft_clip **clip, graft_vae **vae,
                                   graft_err *e);
/* A model alone, in a checkpoint's names with or without their prefix, or in diffusers'
 * (UNet2DConditionModel). */
graft_status graft_model_load(graft_engine *engine, const char *path, const graft_task *task,
                              graft_model **out, graft_err *e);
/* `type`: "stable_diffusion" with one path, "sdxl" with two, "sd3" with one to three: CLIP-L,
 * CLIP-G and T5, "flux" with two: CLIP-L and T5 (order does not matter), "chroma" with T5. Names
 * are those of transformers or of OpenCLIP. T5 needs its tokenizer: spiece.model beside its file,
 * in the file (a tensor spiece_model), or by the task; GRAFT_E_NOTFOUND without it. */
graft_status graft_clip_load(graft_engine *engine, const char *const *paths, size_t n_paths,
                             const char *type, const graft_task *task, graft_clip **out,
                             graft_err *e);
/* An AutoencoderKL or Wan 2.1's VAE in the names of their authors or of diffusers; a TAESD in
 * diffusers' names, or of its author's files the decoder, which then cannot encode; or a TAEHV.
 * Nothing in a TAESD's tensors says whose latents it takes: with 16 channels those of FLUX.1 where
 * "taef1" or "flux" is in the name of the file or of its folder, of SD 3 otherwise, with 4 those of
 * SDXL where "xl" is, of SD 1 and 2 otherwise, unless the file has a config; with 32 those of
 * FLUX.2. A TAEHV takes Wan 2.1's: where "lighttae" is in the name as its VAE gives them, otherwise
 * as a network sees them; GRAFT_E_UNSUPPORTED where the name says that it is HunyuanVideo's. */
graft_status graft_vae_load(graft_engine *engine, const char *path, const graft_task *task,
                            graft_vae **out, graft_err *e);
/* A TAESD of its author's two files; without encoder_path (NULL) it cannot encode. */
graft_status graft_vae_load_pair(graft_engine *engine, const char *encoder_path,
                                 const char *decoder_path, const graft_task *task, graft_vae **out,
                                 graft_err *e);
/* Whether it is a tiny autoencoder for the latents of this model, and gives no larger pictures than
 * the model draws. */
bool graft_vae_is_for(const graft_vae *v, const graft_model *m);

/* A ControlNet in its authors' names or in diffusers', union ones and those for Stable Diffusion 3
 * and FLUX.1 included; a Control-LoRA, made of the weights of whichever model it steers; or a
 * T2I-Adapter (models/controls/t2i_adapter.h). */
graft_status graft_controlnet_load(graft_engine *engine, const char *path, const graft_task *task,
                                   graft_controlnet **out, graft_err *e);

/* The same of a file that holds what training changed in a copy of a UNet, instead of the copy: the
 * weights of `m`, with its LoRAs and merges, are added to it. Other files are loaded as they are.
 * Each of the two functions warns in the task's log of a file that is for the other one.
 * GRAFT_E_ARG when the ControlNet is for another kind of model, GRAFT_E_UNSUPPORTED for files in
 * diffusers' names. */
graft_status graft_controlnet_load_diff(graft_engine *engine, const char *path,
                                        const graft_model *m, const graft_task *task,
                                        graft_controlnet **out, graft_err *e);

/* The types of pictures that union ControlNets (engine/models/controls/control_union.h) tell apart;
 * "auto": the ControlNet is not told. */
#define GRAFT_CONTROLNET_TYPES                                                                     \
    "auto", "openpose", "depth", "hed/pidi/scribble/ted", "canny/lineart/anime_lineart/mlsd",      \
        "normal", "segment", "tile", "repaint"
/* The ControlNet for hints of this type. It shares the weights and what is compiled of them. One
 * that is no union ControlNet knows a single type anyway and stays as it is, of which the task's
 * log is told. GRAFT_E_ARG for words that are no type, and for types that its file does not have.
 */
graft_status graft_controlnet_with_type(const graft_controlnet *n, const char *type,
                                        const graft_task *task, graft_controlnet **out,
                                        graft_err *e);

/* A model that enlarges pictures: RRDBNet (ESRGAN, Real-ESRGAN) or the compact SRVGGNet, in the
 * names of their authors' files. */
graft_status graft_upscaler_load(graft_engine *engine, const char *path, const graft_task *task,
                                 graft_upscaler **out, graft_err *e);

graft_model *graft_model_retain(graft_model *m);
void graft_model_release(graft_model *m);
graft_clip *graft_clip_retain(graft_clip *c);
void graft_clip_release(graft_clip *c);
graft_vae *graft_vae_retain(graft_vae *v);
void graft_vae_release(graft_vae *v);
graft_controlnet *graft_controlnet_retain(graft_controlnet *n);
void graft_controlnet_release(graft_controlnet *n);
graft_upscaler *graft_upscaler_retain(graft_upscaler *u);
void graft_upscaler_release(graft_upscaler *u);

/* ------------------------------------------------------------------ model options */

/* Noise schedule and prediction: `kind` "eps", "v_prediction", "lcm", "x0"; zsnr rescales the
 * schedule to zero terminal SNR (arXiv:2305.08891). */
graft_status graft_model_sampling(const graft_model *m, const char *kind, bool zsnr,
                                  graft_model **out, graft_err *e);
/* The model as a rectified flow (Stable Diffusion 3, arXiv:2403.03206) of this shift, 0.001
 * to 100: more of the schedule has more noise, as large pictures want it. Schedulers that pick from
 * a table have one of 1000 sigmas, as SD 3 does, or with `fine` of 10000, as FLUX does. */
graft_status graft_model_sampling_flow(const graft_model *m, double shift, bool fine,
                                       graft_model **out, graft_err *e);
/* Guidance rescale (arXiv:2305.08891, 3.4), multiplier 0..1. */
graft_status graft_model_rescale_cfg(const graft_model *m, double multiplier, graft_model **out,
                                     graft_err *e);

/* Differential diffusion (Levin and Fried 2023, arXiv:2306.00950): a latent's mask says when each
 * of its places begins to change, not how much. At timestep t of a run from t_first down to t_last
 * (of sigma_min where the run ends at 0) a place changes where mask >= (t - t_last) / (t_first -
 * t_last), and else is the latent with its noise; so at t_last all change. strength 0..1 mixes that
 * with the mask as it is; 0: nothing happens. GRAFT_E_ARG for others. */
graft_status graft_model_differential(const graft_model *m, double strength, graft_model **out,
                                      graft_err *e);

/* Perturbed-attention guidance (Ahn et al. 2024, arXiv:2403.17377): the denoised latent moves by
 * `scale` times the difference between the positive prompts' prediction and one in which the middle
 * block's self-attention sees nothing but each token itself. The rest of guidance, a rescale
 * included, comes first and stays as it is. Only what follows that attention is computed a second
 * time, for the positive prompts. 0, and a model whose middle block has no attention: nothing
 * happens. GRAFT_E_ARG for scales outside 0..1000. */
graft_status graft_model_perturbed_attention(const graft_model *m, double scale, graft_model **out,
                                             graft_err *e);
/* A hypernetwork of a file before the attentions of a UNet (engine/models/parts/hypernetwork.h), at
 * this strength, which is an input of a run: nothing is compiled when it changes. Widths that the
 * UNet does not have do nothing. GRAFT_E_LIMIT where the model has one already; GRAFT_E_ARG for
 * strengths outside -100..100. Calibration looks at the model without it. */
graft_status graft_model_hypernetwork(const graft_model *m, const char *path, double strength,
                                      const graft_task *task, graft_model **out, graft_err *e);

/* Self-attention guidance (Hong et al. 2022, arXiv:2210.00939): where the middle block's
 * self-attention looks at in the negative prompts' prediction, that is blurred by a Gaussian of
 * this standard deviation in cells of the latent, and the network predicts it once more; the
 * denoised latent moves by `scale` times what it then lacks (engine/denoise/blurred.h has the
 * formulas). All other guidance comes first. Negative prompts are computed whatever cfg is, twice.
 * 0, a model whose middle block has no attention, and latents of 4 cells or fewer in one direction:
 * nothing happens. GRAFT_E_ARG for scales outside -100..100 and a blur_sigma outside 0..1000.
 * Sampling then refuses DeepCache, EasyCache and areas of negative prompts. */
graft_status graft_model_self_attention(const graft_model *m, double scale, double blur_sigma,
                                        graft_model **out, graft_err *e);
/* Skip-layer guidance for transformers: the prediction of positive prompts goes so much further
 * away from one without some of the network's blocks, at these shares of the schedule. `layers`:
 * the blocks, from 0 on, as numbers in any text ("7, 8, 9"). GRAFT_E_ARG where none of them is
 * there; GRAFT_E_UNSUPPORTED for UNets. scale 0: off. More of it is in cfg.h. */
graft_status graft_model_skip_layers(const graft_model *m, const char *layers, double scale,
                                     double start, double end, graft_model **out, graft_err *e);

/* FreeU (Si et al. 2023, arXiv:2309.11497) in its first or second version, 1 or 2: where the UNet
 * joins features with a skip connection, half of the features' channels count b and the skip
 * connection's lowest frequencies s; b1 and s1 at the widest features, b2 and s2 at those half as
 * wide (engine/models/parts/net_shape.h has the formulas). Factors of 1 change nothing. They are
 * inputs of a run, so nothing is compiled when they change; the version is built into the graph. It
 * replaces an earlier FreeU of the model. Nothing happens in models that have no features of these
 * widths. GRAFT_E_ARG for other versions and for factors outside 0..10. */
typedef struct graft_freeu_options {
    int64_t version;
    double b1, b2, s1, s2;
} graft_freeu_options;
graft_status graft_model_freeu(const graft_model *m, const graft_freeu_options *options,
                               graft_model **out, graft_err *e);

typedef struct graft_compile_options {
    const char *precision; /* "auto", "f32", "bf16", "f16" */
    const char *tuning;    /* "off", "fast", "full" */
    const char *device;    /* "auto" or a backend's name */
    int64_t max_memory_mb; /* 0: no limit; counts activations, workspaces and packed weights */
    bool cache;            /* use the compiled-graph cache on disk */
    bool tile;             /* VAE only: may work in strips to stay below max_memory_mb */
    int64_t width, height, batch_size; /* not 0: compile now for this picture size */
} graft_compile_options;
graft_status graft_model_compile(const graft_model *m, const graft_compile_options *options,
                                 const graft_task *task, graft_model **out, graft_err *e);
graft_status graft_vae_compile(const graft_vae *v, const graft_compile_options *options,
                               const graft_task *task, graft_vae **out, graft_err *e);
/* DeepCache (Ma et al. 2023, arXiv:2312.00858): most steps reuse a deep feature of an earlier one.
 */
typedef struct graft_deepcache_options {
    int64_t cache_interval;                 /* every n-th step is full; 1: all */
    int64_t cache_layer_id, cache_block_id; /* resolution level, and block in it, of the cut */
    int64_t start_step, end_step;           /* outside [start,end) all steps are full */
    const char *schedule;                   /* "uniform" or "quadratic" */
    double max_error; /* drift of the feature that forces a full step; 0: off */
    /* Only the first convolution and the last output block are computed in a fast step, and the two
     * ids are not looked at: the paper's first branch, which no block has for its cut. */
    bool outermost;
} graft_deepcache_options;
/* GRAFT_E_ARG, naming the range, when the cut does not exist in this architecture. */
graft_status graft_model_deepcache(const graft_model *m, const graft_deepcache_options *options,
                                   graft_model **out, graft_err *e);

/* EasyCache (Zhou et al. 2025, arXiv:2507.02860): evaluations of the model are left out while their
 * result is thought to change by less than a threshold (engine/sampling/easycache.h); it is then
 * made from the last one that was not. It goes with everything else that a model can have. With
 * DeepCache only such evaluations are left out as compute no new feature, so that features are
 * renewed as often as without. QuantizeModel calibrates without it. */
typedef struct graft_easycache_options {
    double threshold;  /* the sum of relative changes that calls for an evaluation; 0: off */
    double start, end; /* shares of the schedule, as of ControlNets: outside nothing is left out */
    bool verbose;      /* the log says after each sampling run how many were left out */
} graft_easycache_options;
/* It replaces an earlier one of the model. GRAFT_E_ARG for thresholds outside 0..3 and shares
 * outside 0..1. */
graft_status graft_model_easycache(const graft_model *m, const graft_easycache_options *options,
                                   graft_model **out, graft_err *e);

/* HyperTile (engine/models/unets/hypertile.h): self-attention of the outer resolution levels looks
 * at tiles of the picture, which makes large pictures faster. */
typedef struct graft_hypertile_options {
    int64_t tile_size; /* of the picture, in pixels; below 32 is 32 */
    int64_t swap_size; /* so many of the best grids take turns, at most 4 of them */
    int64_t max_depth; /* the last resolution level that is tiled, 0 the outermost */
    bool scale_depth;  /* tiles of level d have 2^d times as many cells of their level a side */
} graft_hypertile_options;
/* GRAFT_E_ARG for numbers that are none of these. */
graft_status graft_model_hypertile(const graft_model *m, const graft_hypertile_options *options,
                                   graft_model **out, graft_err *e);

/* Token merging (engine/models/parts/net_shape.h): self-attention of the outermost resolution level
 * sees so many of its tokens, 0 … 1 of all, as one with others that are like them, which makes
 * large pictures faster; more than about three quarters cannot be. With HyperTile each tile merges
 * its own. It replaces an earlier one of the model; 0 is none. GRAFT_E_ARG for ratios out of range.
 */
graft_status graft_model_merge_tokens(const graft_model *m, double ratio, graft_model **out,
                                      graft_err *e);

/* Deep Shrink (kohya-ss 2023): in a range of the steps the UNet's inner blocks see a smaller
 * picture, so that pictures larger than the model was trained for keep one composition, and are
 * sampled faster there (engine/models/parts/net_shape.h has the rule). Both ways are compiled ahead
 * where any is. Steps of that range go without HyperTile and merged tokens. DeepCache and
 * ControlNets do not go with it: sampling says so. */
typedef struct graft_downscale_options {
    int64_t block_number; /* the input block behind which features are resized; 0 is conv_in */
    double factor;        /* 0.1 … 9; in thousandths */
    double start, end;    /* shares of the schedule, as of ControlNets */
    bool after_skip;      /* that block's skip connection keeps its size */
    const char *down_method, *up_method; /* "bicubic", "nearest-exact", "bilinear", "area" */
} graft_downscale_options;
/* It replaces an earlier one of the model; a factor of 1 is none. GRAFT_E_ARG for numbers out of
 * range and for blocks that this model does not have, stating the range; GRAFT_E_UNSUPPORTED for
 * "bislerp". */
graft_status graft_model_downscale(const graft_model *m, const graft_downscale_options *options,
                                   graft_model **out, graft_err *e);

typedef struct graft_quantize_options {
    int64_t bits;       /* 8: weights and activations; 4: weights only */
    const char *format; /* of 8 bits: "int" or "fp8_e4m3fn"; NULL: "int" */
    bool conv, linear;
    double conv_mse_threshold, linear_mse_threshold; /* 0..1, of the sampled latent */
    int64_t compute_density_threshold;               /* FLOP per byte */
    /* What to calibrate on; positive NULL: on the first sampling run of the model. */
    const graft_cond *positive, *negative;
    const graft_latent *latent;
    int64_t steps;
    bool unmeasured; /* nothing is sampled: thresholds, which are 1, say all that is to be known */
    double cfg;
    uint64_t seed;
    /* A plan that is there is used, whatever its thresholds were, and must be of this model's
     * weights; without one, or to recalibrate, it is written. NULL or "": no file. */
    const char *plan_path;
    bool recalibrate;
    /* The products of attention, in 8-bit integers; other bits and formats leave them alone. */
    bool attention;
    double attention_mse_threshold; /* 0..1, likewise */
} graft_quantize_options;
/* The model computes with the layers that the plan chose in integers. *report is freed with
 * graft_text_free(); NULL: not wanted. */
graft_status graft_model_quantize(const graft_model *m, const graft_quantize_options *options,
                                  const graft_task *task, graft_model **out, char **report,
                                  graft_err *e);
/* Writes the model's file with the chosen layers quantized, so that it loads without quantizing
 * (layout: engine/weights/quantized.h). The whole file is made in memory. GRAFT_E_ARG for a model
 * without a quantized layer, with LoRAs, of a merge, or from such a file, and when `path` exists.
 */
graft_status graft_model_save_quantized(const graft_model *m, const char *path,
                                        const graft_task *task, graft_err *e);
/* The plan of a quantized model as JSON (graft_text_free) and as a picture of its layers. Both NULL
 * when the model is not quantized, or is to be calibrated on a sampling run that is still to come.
 * json and picture may be NULL. */
graft_status graft_model_quantization(const graft_model *m, char **json, graft_image **picture,
                                      graft_err *e);

/* The compiled-graph cache on disk. `visit` gets each entry (also damaged ones, when verify is
 * set); clear removes all. *count: entries seen or removed. */
typedef void graft_cache_visit(void *ctx, const char *name, uint64_t bytes, int64_t modified,
                               bool good);
graft_status graft_cache_list(graft_engine *engine, bool verify, graft_cache_visit *visit,
                              void *ctx, graft_err *e);
/* True when the entry is of another version of the format: it is not damaged, and is made anew when
 * it is needed. */
bool graft_cache_old(const graft_engine *engine, const char *name);
graft_status graft_cache_clear(graft_engine *engine, uint64_t *count, graft_err *e);
/* NULL when there is no cache folder. */
const char *graft_cache_folder(const graft_engine *engine);

/* Writes the weights of a file that PyTorch's torch.save() made (.ckpt, .pt, .pth, .bin), or of a
 * GGUF file, as `to`, a safetensors file, which must not exist yet. Nothing in the file is run
 * (weights/pytorch.h). Names and element types stay as they are; what GGUF packs in blocks becomes
 * float16, and GRAFT_E_UNSUPPORTED where that cannot hold it. Any thread. */
typedef struct graft_convert_info {
    uint64_t tensors, bytes;  /* that were written */
    uint64_t left_out;        /* tensors of kinds that are not read */
    char left_out_names[300]; /* of the first of them */
    char part[32];   /* the entry that had the weights, beside others; "": all were taken */
    uint64_t layers; /* that became integers */
} graft_convert_info;
graft_status graft_checkpoint_convert(const char *from, const char *to, graft_convert_info *info,
                                      graft_err *e);
/* Writes a file of a UNet or a transformer, .safetensors or .gguf, as `to`, which must not exist
 * yet, with the network's linear layers in ComfyUI's format int8_tensorwise: 8-bit integers, a
 * scale for each row. turned: with convrot, rows turned in groups of 256 values, or 64 where they
 * are no multiple. What QuantizeModel never takes, and all else, stays as it is. One tensor is in
 * memory at a time. GRAFT_E_UNSUPPORTED for networks that are not known by their authors' names.
 * Any thread.
 */
graft_status graft_checkpoint_convert_int8(const char *from, const char *to, bool turned,
                                           graft_convert_info *info, graft_err *e);

/* The same model and compiled graphs with the weights of another checkpoint. GRAFT_E_ARG when its
 * architecture differs, naming the first tensor that does. keep: both sets stay resident. */
graft_status graft_model_swap(const graft_model *m, const char *path, bool keep,
                              const graft_task *task, graft_model **out, graft_err *e);
/* Adds a LoRA file with strengths (any sign; 0: no effect). model/clip and their outputs may be
 * NULL. Keys that match nothing are listed in a warning; a file that matches nothing fails. */
graft_status graft_lora_apply(const graft_model *m, const graft_clip *c, const char *path,
                              double strength_model, double strength_clip, const graft_task *task,
                              graft_model **out_m, graft_clip **out_c, graft_err *e);

/* What to save; NULL: not in the file, but one must be. */
typedef struct graft_checkpoint {
    const graft_model *model;
    const graft_clip *clip;
    const graft_vae *vae;
    int64_t encoder; /* 1 to 4: of the clip this text encoder alone, without a prefix; 0: all */
} graft_checkpoint;
/* What text encoder i, counted from 0, is called in files: "clip_l", "clip_g", "clip_h" or, behind
 * those, "t5xxl", then "qwen3_4b" and its likes; NULL past the last. */
const char *graft_clip_encoder_name(const graft_clip *c, size_t i);
/* Fails where a checkpoint's text encoders are missing, with what to do; whatever uses them does,
 * too.
 */
graft_status graft_clip_there(const graft_clip *c, graft_err *e);
/* Writes safetensors with the names of Stable Diffusion's own files (model.diffusion_model.…,
 * cond_stage_model.… or conditioner.embedders.…, first_stage_model.…), a VAE alone without its
 * prefix. LoRAs and merges are in the weights. What is stored already is copied as it is, quantized
 * weights as float16; what is computed is written in the type in which all its parts are stored,
 * else in float32 (float64 too), or float16 for types of 8 bits. From the first part's file comes
 * "config" in the metadata; a v prediction and zero terminal SNR are noted as tensors "v_pred" and
 * "ztsnr", T5's tokenizer as one named "spiece_model"; other options are not. `metadata`: NULL, or
 * pairs key, value, …, NULL. One tensor at a time is in memory; progress counts tensors. The file
 * has its name once it is whole: nothing is left of one that failed or was cancelled. GRAFT_E_ARG
 * when `path` exists; GRAFT_E_LIMIT for values beyond their type; GRAFT_E_UNSUPPORTED for text
 * encoders that such files have no names for. A TAESD has diffusers' names in them, and a config
 * that says whose latents it takes; GRAFT_E_ARG beside a model of other latents, and
 * GRAFT_E_UNSUPPORTED for a TAEHV that takes them as the VAE gives them, unless it is alone. */
graft_status graft_checkpoint_save(const graft_checkpoint *c, const char *path,
                                   const char *const *metadata, const graft_task *task,
                                   graft_err *e);

/* What is compiled, cached, resident, and where time and memory went. *text is freed with
 * graft_text_free(); *picture shows the same as an IMAGE. vae and clip may be NULL. */
graft_status graft_model_report(const graft_model *m, const graft_vae *v, const graft_clip *c,
                                char **text, graft_image **picture, graft_err *e);
void graft_text_free(char *text);

/* ------------------------------------------------------------------ sampling */

/* NULL-terminated, in ComfyUI's order; only what is implemented. */
const char *const *graft_sampler_names(void);
const char *const *graft_scheduler_names(void);

typedef struct graft_sample_params {
    uint64_t seed;
    bool add_noise; /* false: the latent is noisy already */
    int64_t steps;
    double cfg;
    const char *sampler, *scheduler;
    double denoise;          /* 0..1; 1: the whole schedule */
    int64_t start_at_step;   /* 0 */
    int64_t end_at_step;     /* at most steps; larger: to the end */
    bool force_full_denoise; /* the last sigma used becomes 0 */
} graft_sample_params;
/* Progress counts steps. The result keeps the mask and the batch indices of `latent`. */
graft_status graft_sample(const graft_model *m, const graft_sample_params *params,
                          const graft_cond *positive, const graft_cond *negative,
                          const graft_latent *latent, const graft_task *task, graft_latent **out,
                          graft_err *e);

/* The latent with the noise of this seed (add_noise false: with none, but weighted all the same),
 * as much as is between the first sigma and the last, or as the only one says: latent + s noise, of
 * a flow (1 - s) latent + s noise; no sigmas: as it is. Zeros of other channels become those of the
 * model. Values that are no numbers become 0. With mask and batch indices. */
graft_status graft_latent_noised(const graft_model *m, const graft_latent *latent,
                                 const graft_sigmas *sigmas, bool add_noise, uint64_t seed,
                                 graft_latent **out, graft_err *e);

/* A third prompt that guides beside the positive and the negative one. With P, N and T for what the
 * model makes of each, denoised, the result is
 *
 *   perpendicular  T + cfg (P - T - scale Q), where Q is N - T without its share along P - T, for
 *                  each picture; T is of no prompt (Perp-Neg, Armandpour et al. 2023,
 *                  arXiv:2304.04968)
 *   dual           N + scale (T - N) + cfg (P - T) (Brooks et al. 2023, arXiv:2211.09800, eq. 3)
 *   nested         N + scale (T + cfg (P - T) - N)
 *
 * All three are computed, whatever cfg is. Perturbed attention is added to that;
 * RescaleCFG is GRAFT_E_UNSUPPORTED. */
typedef enum graft_third_way {
    GRAFT_THIRD_PERPENDICULAR = 0,
    GRAFT_THIRD_DUAL = 1,
    GRAFT_THIRD_NESTED = 2
} graft_third_way;
typedef struct graft_third {
    const graft_cond *prompt; /* NULL: none */
    graft_third_way way;
    double scale;
} graft_third;
/* Sampling with a negative prompt is perpendicular guidance with this third one, unless it has
 * another. GRAFT_E_ARG for scales outside 0..1000. */
graft_status graft_model_perp_neg(const graft_model *m, const graft_cond *empty, double scale,
                                  graft_model **out, graft_err *e);

/* Sampling put together from its parts; all borrowed. */
typedef struct graft_sampling {
    const graft_model *model;
    const graft_cond *positive;
    const graft_cond *negative; /* NULL: the positive prediction alone, whatever cfg is */
    graft_third third;          /* only with a negative one */
    /* NULL, or a model of the same architecture whose prediction of the negative prompts counts, in
     * place of the model's own; without such prompts it is given the positive ones as zeros. Of
     * networks that count their tokens (Ideogram 4) zeros are no prompt at all. */
    const graft_model *negative_model;
    double cfg;
    const char *sampler;
    const graft_sigmas *sigmas;
    bool add_noise; /* false: the latent is noisy already */
    uint64_t seed;  /* of the noise, and of what the sampler draws */
    /* Given: for euler_ancestral, euler_ancestral_cfg_pp, dpmpp_2s_ancestral, dpmpp_sde,
     * dpmpp_2m_sde, dpmpp_2m_sde_heun, dpmpp_3m_sde, er_sde, lms, dpm_adaptive, sa_solver and
     * sa_solver_pece; GRAFT_E_UNSUPPORTED with others, and for an order above 4. GRAFT_E_ARG for
     * numbers that are not finite or have no meaning, and where dpm_adaptive finds no step that it
     * may take. */
    graft_sampler_options options;
} graft_sampling;
/* As graft_sample() otherwise, with the very same bits for the same sigmas. With fewer than two
 * sigmas nothing is done, and no noise added. *denoised (may be NULL): what the model predicted in
 * the last step; where no step was taken, *out once more. */
graft_status graft_sample_custom(const graft_sampling *sampling, const graft_latent *latent,
                                 const graft_task *task, graft_latent **out,
                                 graft_latent **denoised, graft_err *e);

/* ------------------------------------------------------------------ VAE */

typedef struct graft_tiling {
    int64_t tile_size, overlap; /* pixels */
} graft_tiling;
/* tiling NULL: the whole picture, strip by strip where the VAE's budget asks for it. Layers become
 * pictures of their own, those of a sample one behind the other. */
graft_status graft_vae_decode(const graft_vae *v, const graft_latent *l, const graft_tiling *tiling,
                              const graft_task *task, graft_image **out, graft_err *e);
graft_status graft_vae_encode(const graft_vae *v, const graft_image *pixels,
                              const graft_tiling *tiling, const graft_task *task,
                              graft_latent **out, graft_err *e);
graft_status graft_vae_encode_inpaint(const graft_vae *v, const graft_image *pixels,
                                      const graft_image *mask, int64_t grow_mask_by,
                                      const graft_task *task, graft_latent **out, graft_err *e);

/* A picture for a UNet that was made for inpainting. *whole: the picture itself, with the mask
 * where noise_mask says so; *known: the picture with its masked part grey, and the mask, which is
 * scaled to the picture (bilinear). */
graft_status graft_vae_encode_known(const graft_vae *v, const graft_image *pixels,
                                    const graft_image *mask, bool noise_mask,
                                    const graft_task *task, graft_latent **whole,
                                    graft_latent **known, graft_err *e);

/* ------------------------------------------------------------------ upscale models */

/* How many times as high and wide pictures become. */
int64_t graft_upscaler_factor(const graft_upscaler *u);
/* Each picture enlarged, cut to 0..1. RGB; grey (one channel) counts as RGB, anything else is
 * GRAFT_E_ARG. Large pictures, and those that GRAFT_MEMORY_MB is too small for, are computed in
 * overlapping tiles, of which progress is told. Only compiling: black pictures of the right size.
 */
graft_status graft_image_upscale(const graft_upscaler *u, const graft_image *image,
                                 const graft_task *task, graft_image **out, graft_err *e);
#endif
