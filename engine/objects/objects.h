/* The engine's objects from the inside. A MODEL, CLIP or VAE is a recipe: architecture + weight set
 * + options. Nothing is compiled or packed until something runs it. */
#ifndef GRAFT_OBJECTS_OBJECTS_H
#define GRAFT_OBJECTS_OBJECTS_H
#include <pthread.h>
#include <stdatomic.h>

#include "engine/cache/compiled.h"
#include "engine/engine.h"
#include "engine/exec/run.h"
#include "engine/models/encoders/textenc.h"
#include "engine/models/net.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/folding.h"
#include "engine/models/transformers/flux.h"
#include "engine/models/unets/hypertile.h"
#include "engine/models/unets/unet.h"
#include "engine/models/vaes/vae.h"
#include "engine/models/vaes/wan_vae.h"
#include "engine/quant/plan.h"
#include "engine/sampling/deepcache.h"
#include "engine/sampling/easycache.h"
#include "engine/sampling/preview.h"
#include "engine/sampling/schedule.h"
#include "engine/text/tokenizer.h"
#include "engine/weights/weights.h"

struct graft_engine {
    pthread_mutex_t lock; /* backends and tokenizer, which are made at first use */
    graft_backends backends;
    char default_backend[32], default_precision[8];
    graft_packs *packs;
    graft_packs *offloaded; /* in memory of the host, of weights that devices have no room for */
    bool offload;           /* they may stay there */
    /* Linear layers stay packed as in their file where as floats they would have more bytes. */
    uint64_t floats_most;
    bool floats_of_host; /* that is the host's memory, not a limit: a device has its own instead */
    graft_arenas *arenas;
    graft_arenas *kept;     /* what samplings keep from step to step (series.h) */
    uint64_t max_bytes;     /* of weights and arenas together (GRAFT_MEMORY_MB); 0: no limit */
    graft_disk_cache *disk; /* NULL: memory only */
    graft_tuner *tuner;
    graft_compiled *compiled;
    graft_tokenizer *tokenizer;
    graft_log log;
};

/* How a recipe wants to be compiled. */
typedef struct graft_build_options {
    char precision[8], device[32];
    graft_tuning tuning;
    bool no_disk, tile;
    int64_t max_bytes; /* 0: no limit */
} graft_build_options;

/* The backend and the activation dtype that the options mean on this machine. */
graft_status graft_options_resolve(graft_engine *engine, const graft_build_options *o,
                                   graft_backend **backend, graft_dtype *act_dtype, graft_err *e);
/* The same for networks whose values float16 does not hold: bfloat16 takes its place, or float32
 * where the backend has no bfloat16. */
graft_status graft_options_resolve_wide(graft_engine *engine, const graft_build_options *o,
                                        graft_backend **backend, graft_dtype *act_dtype,
                                        graft_err *e);
/* What a node asks for, checked: GRAFT_E_ARG for words that mean nothing, and what
 * graft_options_resolve() says when this machine cannot do it. */
graft_status graft_options_from(graft_engine *engine, const graft_compile_options *in,
                                graft_build_options *out, graft_err *e);
/* The tokenizer, made at first use; lives as long as the engine. */
graft_status graft_engine_tokenizer(graft_engine *engine, const graft_tokenizer **out,
                                    graft_err *e);
/* Whether linear layers stay packed as these weights have them in graphs for this backend: not
 * where it cannot multiply them, and where as floats, in this dtype, what is packed takes at most
 * half of the memory that the options or the engine allow. */
bool graft_engine_keeps(const graft_engine *engine, const graft_build_options *o,
                        const graft_backend *b, graft_dtype act_dtype, const graft_weights *w);
/* Compiles (or finds) what the job describes for these options, and binds the weights. */
graft_status graft_engine_bind(graft_engine *engine, const graft_build_options *o,
                               graft_compile_job *job, graft_weights *weights,
                               const graft_task *task, graft_binding **out, graft_err *e);
/* Gives up a recipe's weight set. With its last reference go the packs that its LoRAs or a merge
 * made: an abandoned strength or ratio is of no use to anyone. `weights` may be NULL. */
void graft_engine_release_weights(graft_engine *engine, graft_weights *weights);

typedef enum graft_prediction {
    GRAFT_PREDICT_EPS = 0,
    GRAFT_PREDICT_V = 1,
    GRAFT_PREDICT_X0 = 2,
    GRAFT_PREDICT_LCM = 3,
    GRAFT_PREDICT_FLOW = 4, /* noise - latent, where states are (1 - sigma) latent + sigma noise */
    GRAFT_PREDICT_EDM = 5   /* F of D = c_skip x + c_out F (arXiv:2206.00364) */
} graft_prediction;

/* What QuantizeModel leaves in a model (quantizer.h). */
typedef struct graft_quantizer graft_quantizer;

/* Small networks before a UNet's attentions (models/parts/hypernetwork.h). Immutable. */
typedef struct graft_hypernetwork {
    _Atomic int refs;
    graft_engine *engine;
    graft_weights *weights;
    graft_hypernetwork_arch arch;
} graft_hypernetwork;
graft_hypernetwork *graft_hypernetwork_retain(graft_hypernetwork *h); /* both take NULL */
void graft_hypernetwork_release(graft_hypernetwork *h);

struct graft_model {
    _Atomic int refs;
    graft_engine *engine;
    graft_net_arch arch;
    graft_weights *weights; /* its part of the file */
    bool promptless;        /* trained without prompts (Ideogram 4's unconditional one) */
    graft_build_options options;
    graft_prediction prediction;
    bool zsnr, sampling_given; /* given: by a node, so that other weights do not change it */
    double beta_start, beta_end;
    double flow_shift; /* of a flow's schedule; 0 for other predictions */
    int flow_steps;    /* of its table */
    struct graft_continuous {
        graft_time time; /* GRAFT_TIME_STEPS: trained at timesteps, and the rest is not looked at */
        double low, high; /* sigma */
        double data;      /* sigma_data; other than 1 with GRAFT_PREDICT_EDM alone */
    } continuous;
    /* The network's latents are (latent - latent_shift) * scale_factor; or with planes, each plane
     * less its mean and divided by its deviation. */
    double scale_factor, latent_shift;
    const graft_latent_planes *planes; /* static; or NULL */
    graft_preview_colours preview;
    double rescale_cfg; /* 0: off */
    graft_cfg_change cfg_change[GRAFT_CFG_CHANGES];
    int n_cfg_changes;
    struct graft_cfg_operation { /* of a change of that kind, with its number */
        graft_latent_operation what;
        double start, end;
    } cfg_operation[GRAFT_CFG_CHANGES];
    graft_cfg_override cfg_override[GRAFT_CFG_OVERRIDES]; /* of which the last counts first */
    int n_cfg_overrides;
    graft_third third;   /* graft_model_perp_neg(); with a reference to its prompt */
    double differential; /* of masks' grey (graft_model_differential); 0: off */
    double perturbed;    /* scale of guidance away from perturbed rows; 0: off */
    struct graft_self {  /* self-attention guidance; scale 0: off */
        double scale, blur;
    } self;
    struct graft_skip_layers { /* skip-layer guidance, which perturbs so; a UNet's attention else */
        uint64_t blocks;
        double start, end; /* shares of the schedule */
        double rescale;
    } skip;
    struct graft_skip_negative { /* what negative prompts are computed without */
        uint64_t blocks;
        double start, end;
    } skip_negative;
    struct graft_freeu {
        graft_freeu_version version;
        float factor[GRAFT_FREEU_FACTORS]; /* zeros with GRAFT_FREEU_OFF */
    } freeu;
    graft_deepcache deepcache;
    graft_easycache easycache;
    graft_hypertile hypertile;
    int32_t merged; /* tokens, in millionths (net_shape.h); 0: none */
    struct graft_downscale {
        graft_shrink shrink; /* block 0: off */
        double start, end;   /* shares of the schedule */
    } downscale;
    struct graft_seen { /* pictures that it attends to, the first n_seen (sight.h) */
        struct graft_sight *sight;
        double weight, start, end;
        graft_image *mask; /* where in the picture they count; NULL: everywhere */
    } seen[GRAFT_ATTENDED];
    int n_seen;
    struct graft_control *control; /* the last of its own ControlNets (control.h), or NULL */
    struct graft_control *within;  /* likewise of those that run within its network */
    struct graft_hyper {
        graft_hypernetwork *net; /* NULL: none */
        float strength;
    } hyper;
    graft_quant_choice quant;
    bool as_floats;             /* also what would stay packed as in its file */
    graft_quantizer *quantizer; /* NULL without */
};
/* Compiles (or finds) the whole UNet for latents (batch,C,height,width) and binds its weights. x is
 * of graft_net_side() of height and width. */
graft_status graft_model_bind(const graft_model *m, int64_t batch, int64_t height, int64_t width,
                              int64_t tokens, const graft_task *task, graft_binding **out,
                              graft_err *e);
/* The same for a variant that DeepCache runs. */
graft_status graft_model_bind_variant(const graft_model *m, graft_variant variant, int64_t batch,
                                      int64_t height, int64_t width, int64_t tokens,
                                      const graft_task *task, graft_binding **out, graft_err *e);
/* graft_engine_keeps() of weights of its own, unless another choice is made for it. */
bool graft_model_keeps(const graft_model *m, const graft_backend *b, graft_dtype act_dtype,
                       const graft_weights *w);
/* What compiled graphs of such a network are called. */
const char *graft_net_kind_name(const graft_net_arch *a);
/* Whether a compiled graph of this kind is a model's network. */
bool graft_is_net_kind(const char *kind);
/* How sampling uses a model's network; what only UNets have is off for others. */
typedef struct graft_unet_use {
    graft_variant variant;
    bool control;          /* with ControlNets */
    graft_steered steered; /* of a transformer's by them (models/parts/steered.h) */
    bool within;           /* with those that run within it, if the model has any */
    int32_t adapted;       /* by T2I-Adapters, which give so many features */
    /* `entries` conditionings of each of `pictures` latents: x and timesteps hold the latents once
     * for each entry. */
    int64_t pictures, entries;
    int64_t height, width; /* of the latent */
    int64_t tokens;
    int64_t perturbed;             /* the first so many rows once more (net_shape.h) */
    int64_t watched_from, watched; /* so many rows are looked at (net_shape.h) */
    int64_t beside;                /* bytes of packed weights that others need at the same time */
    int64_t arena;                 /* bytes of activations that others of the run take in turn */
    int turn;                      /* of HyperTile's grids, below graft_model_turns() */
    bool shrink;                   /* by the model's downscale; without grids */
    bool attends;                  /* to the model's pictures, beside the prompt */
    const struct graft_gligen *boxed; /* has this one's parts, for texts in boxes; or NULL */
    graft_references references;      /* of each row */
    bool untold;                      /* of the guidance that it could be told */
    bool skips;                       /* all rows, the blocks of the model's skip_negative */
} graft_unet_use;
static inline bool graft_model_is_flow(const graft_model *m)
{
    return m->prediction == GRAFT_PREDICT_FLOW;
}
/* n values of latents as they travel between nodes, as the network sees them; and back. They begin
 * with a latent's first plane; `area` is how many values a plane has. */
void graft_model_scale_latent(const graft_model *m, const float *latent, size_t n, int64_t area,
                              float *out);
void graft_model_unscale_latent(const graft_model *m, const float *x, size_t n, int64_t area,
                                float *out);
/* By how much differences of latents grow when they are scaled: of planes the root mean square. */
double graft_model_latent_gain(const graft_model *m);
/* GRAFT_E_UNSUPPORTED where the model's network is none: what `who` does is done to its blocks. */
graft_status graft_model_needs_unet(const graft_model *m, const char *who, graft_err *e);
/* Whether its steps at this sigma run the UNet so. */
bool graft_model_shrinks(const graft_model *m, const graft_sigma_table *t, float sigma);
/* GRAFT_E_UNSUPPORTED, with the reason, for what does not go with that: DeepCache,
 * ControlNets and T2I-Adapters, whose features and residuals have the sizes that the UNet has
 * without. */
graft_status graft_model_check_downscale(const graft_model *m, const graft_cond *positive,
                                         const graft_cond *negative, graft_err *e);
/* Whether sampling runs the rows of positive prompts a second time, perturbed. */
bool graft_model_perturbs(const graft_model *m);
/* Whether sampling looks at the attention of negative prompts, and computes them once more. */
bool graft_model_guides_itself(const graft_model *m);
/* GRAFT_E_UNSUPPORTED, with the reason, for what of a model does not go with that. */
graft_status graft_model_check_self(const graft_model *m, graft_err *e);
/* Whether it does at this sigma. */
bool graft_model_perturbs_at(const graft_model *m, const graft_sigma_table *t, float sigma);
/* The cfg of a run that has this one where the model says nothing else. */
double graft_model_cfg_at(const graft_model *m, const graft_sigma_table *t, float sigma,
                          double cfg);
/* Whether negative prompts are computed without some blocks at this sigma. */
bool graft_model_skips_at(const graft_model *m, const graft_sigma_table *t, float sigma);
/* How many grids of HyperTile take turns on such latents; 1 without it. */
int graft_model_turns(const graft_model *m, int64_t height, int64_t width);
/* Whether steps on such latents run the UNet in other shapes within: HyperTile's grids, or Deep
 * Shrink. DeepCache's steps do not count, which share their weights but for rarities. */
bool graft_model_alternates(const graft_model *m, int64_t height, int64_t width);
/* Whether one compiled UNet serves both: all but `beside` and `arena`. */
bool graft_unet_use_equal(const graft_unet_use *a, const graft_unet_use *b);
/* pictures * entries; GRAFT_E_ARG when that is no batch. */
graft_status graft_unet_use_batch(const graft_unet_use *use, int64_t *batch, graft_err *e);
graft_status graft_model_bind_guided(const graft_model *m, const graft_unet_use *use,
                                     const graft_task *task, graft_binding **out, graft_err *e);
/* FreeU's factors as the last input of this variant of the UNet, alive with the model; NULL: it
 * takes none. */
const float *graft_model_freeu_factors(const graft_model *m, graft_variant variant);
/* All ways in which sampling such latents uses the UNet; returns how many. use->variant, use->turn
 * and use->shrink are not looked at. */
#define GRAFT_MODEL_USES (2 * GRAFT_HYPERTILE_TURNS + 1)
int graft_model_uses(const graft_model *m, const graft_unet_use *use,
                     graft_unet_use out[GRAFT_MODEL_USES]);
/* Compiles and packs all of them. */
graft_status graft_model_prepare(const graft_model *m, const graft_unet_use *use,
                                 const graft_task *task, graft_err *e);
/* The model with the plan's chosen layers quantized; a plan without any changes nothing.
 * GRAFT_E_ARG when the plan is for another architecture. */
graft_status graft_model_with_plan(const graft_model *m, const graft_quant_plan *plan,
                                   graft_model **out, graft_err *e);
/* A copy that shares the weights, with one reference; NULL when out of memory. */
graft_model *graft_model_copy(const graft_model *m);

struct graft_vae {
    _Atomic int refs;
    graft_engine *engine;
    graft_vae_arch arch;
    graft_weights *weights; /* of the decoder; of both halves where encoder_weights is NULL */
    graft_weights *encoder_weights; /* of one that is a file of its own */
    graft_build_options options;
    /* Of a TAESD, which works on what the network sees: whose latents those are. Latents that
     * travel between nodes are these divided by the scale factor, plus the shift. */
    double scale_factor, latent_shift;
    const graft_latent_planes *planes; /* of a TAEHV: what does so there; NULL: nothing does */
    graft_preview_colours colours;
    graft_folding folding; /* of one whose arch.fold says so */
};
static inline graft_weights *graft_vae_weights(const graft_vae *v, bool decoder)
{
    return decoder || !v->encoder_weights ? v->weights : v->encoder_weights;
}
/* In tiles.h's terms: height and width of the latent in cells for the decoder, of the picture
 * otherwise. */
graft_status graft_vae_bind(const graft_vae *v, bool decoder, int64_t height, int64_t width,
                            const graft_task *task, graft_binding **out, graft_err *e);
/* Compiles, and packs where there is room, what running such a picture takes. */
graft_status graft_vae_prepare(const graft_vae *v, bool decoder, int64_t height, int64_t width,
                               const graft_task *task, graft_err *e);
graft_vae *graft_vae_copy(const graft_vae *v);

struct graft_upscaler {
    _Atomic int refs;
    graft_engine *engine;
    graft_upscaler_arch arch;
    graft_weights *weights;
    graft_build_options options; /* nobody sets them yet but tests */
};
/* Compiles (or finds) it for one picture of height x width pixels and binds the weights. */
graft_status graft_upscaler_bind(const graft_upscaler *u, int64_t height, int64_t width,
                                 const graft_task *task, graft_binding **out, graft_err *e);

/* One text encoder. */
typedef struct graft_encoder {
    graft_text_arch arch;
    graft_weights *weights;
    int32_t pad_token;
    int32_t layer;    /* hidden state after this many layers from the end; 1: all of them */
    bool hidden_norm; /* final norm on the hidden state */
    int32_t cut;      /* layers that the file lacks at the end */
    bool large;       /* SDXL's and SD 3's second one, CLIP-G */
} graft_encoder;

/* Which models a text encoder, or several, are for. */
typedef enum graft_clip_kind {
    GRAFT_CLIP_ONE = 0,           /* one encoder: SD 1 and 2, SDXL's refiner */
    GRAFT_CLIP_SDXL = 1,          /* L and G */
    GRAFT_CLIP_SD3 = 2,           /* any of L, G and T5 (clip_sd3.c) */
    GRAFT_CLIP_FLUX = 3,          /* L and T5 (clip_flux.c) */
    GRAFT_CLIP_QWEN3 = 4,         /* Qwen 3 alone: Z-Image (clip_qwen3.c) */
    GRAFT_CLIP_FLUX2 = 5,         /* likewise: FLUX.2 klein; or Mistral alone: dev */
    GRAFT_CLIP_CHROMA = 6,        /* T5 alone (clip_chroma.c) */
    GRAFT_CLIP_QWEN_IMAGE = 7,    /* Qwen 2.5 alone (clip_qwen3.c) */
    GRAFT_CLIP_KREA2 = 8,         /* Qwen 3 alone, the language model of Qwen 3-VL: Krea 2 */
    GRAFT_CLIP_ANIMA = 9,         /* Qwen 3, and T5's tokenizer (clip_anima.c) */
    GRAFT_CLIP_QWEN_IMAGE21 = 10, /* Qwen 3 alone, likewise: Qwen-Image 2.1 */
    GRAFT_CLIP_IDEOGRAM4 = 11,    /* as Krea 2's, of the next size */
    GRAFT_CLIP_LONGCAT = 12,      /* as Qwen-Image's: LongCat-Image (longcat.h) */
    GRAFT_CLIP_OVIS = 13,         /* Qwen 3 alone: Ovis-Image (ovis.h) */
    GRAFT_CLIP_ERNIE_IMAGE = 14,  /* Ministral 3 alone */
    GRAFT_CLIP_LUMINA2 = 15,      /* Gemma 2 alone: Lumina-Image 2.0 */
    GRAFT_CLIP_AURAFLOW = 16,     /* Pile-T5 alone (clip_auraflow.c) */
    GRAFT_CLIP_OMNIGEN2 = 17,     /* Qwen 2.5 alone (omnigen2.h) */
    GRAFT_CLIP_HIDREAM = 18       /* any of L, G, T5 and Llama 3.1 (clip_hidream.c) */
} graft_clip_kind;
#define GRAFT_SD3_CONTEXT 4096 /* width of SD 3's conditioning, which is that of T5-XXL */

/* Of Chroma's prompts one token of padding is attended to, as in training. */
#define GRAFT_CHROMA_PADDING 1

struct graft_clip {
    _Atomic int refs;
    graft_engine *engine;
    graft_clip_kind kind;
    size_t n_encoders; /* 1, or 2: L, then G; 0 where T5 or Qwen 3 is alone */
    graft_encoder encoder[2];
    struct graft_t5 *t5; /* of SD 3, FLUX, Chroma, AuraFlow, HiDream (t5.h); or NULL */
    /* Of Z-Image, FLUX.2, Krea 2, Anima, Ideogram 4, both Qwen-Images and others (qwen3.h). */
    struct graft_qwen3 *qwen3;
    graft_build_options t5_options; /* of both, by default what is best: T5-XXL in float32 takes
                                       19 GB */
    struct graft_clip_padding {
        bool given;
        int64_t more, least;
    } padding;     /* of T5's prompts (t5.h) */
    int64_t width; /* SD 3: of the conditioning, which has zeros behind what encoders give */
    graft_build_options options;
    graft_err missing; /* why a checkpoint without text encoders has none; GRAFT_OK: it has */
    struct graft_clip_hooking *hooking; /* how it encodes with hooks (clip_hooks.h); or NULL */
};
graft_clip *graft_clip_copy(const graft_clip *c);
/* A prompt by one encoder: hidden (77 * chunks, width), pooled (graft_encoder_pooled_width()). */
typedef struct graft_encoded {
    size_t chunks;
    float *hidden, *pooled; /* NULL before and after */
} graft_encoded;
graft_status graft_clip_encode_one(const graft_clip *c, size_t i, const char *text,
                                   const graft_task *task, graft_encoded *out, graft_err *e);
/* The pooled output alone (graft_encoder_pooled_width()). An encoder of more than 77 positions sees
 * as many tokens at once as it has; of prompts that are longer than that only the beginning
 * counts. */
graft_status graft_clip_encode_pooled(const graft_clip *c, size_t i, const char *text,
                                      const graft_task *task, float *pooled, graft_err *e);
/* Appends the empty prompt until it has so many chunks. */
graft_status graft_clip_lengthen(const graft_clip *c, size_t i, size_t chunks,
                                 const graft_task *task, graft_encoded *k, graft_err *e);
void graft_encoded_finish(graft_encoded *k);
/* The encoder `i` on ready-made chunks: out[0] hidden (1,77*chunks,width), out[1] pooled of the
 * first chunk (1,width or projection), with ComfyUI's weighting. Vectors take the place of rows of
 * the token table. For nodes through graft_clip_encode; for tests directly. */
graft_status graft_clip_run_chunks(const graft_clip *c, size_t i, const graft_chunks *chunks,
                                   const graft_task *task, float *hidden, float *pooled,
                                   graft_err *e);
/* Pooled width of encoder i. */
int64_t graft_encoder_pooled_width(const graft_encoder *n);

/* Pictures that an unCLIP model is told of (denoise/unclip.h). */
typedef struct graft_shown {
    graft_vision_output *seen;
    double strength, noise; /* noise: 0 … 1 */
} graft_shown;

/* Conditioning: entries are immutable and shared between lists. */
typedef struct graft_cond_entry {
    _Atomic int refs;
    int64_t tokens, width, pooled_width;
    int64_t filled; /* so many of the tokens, at the end, only fill it up (zimage.h) */
    bool zeroed;    /* by graft_cond_zero_out(); what was added to it since is no zero */
    float *data;    /* (tokens, width) */
    float *pooled;  /* (pooled_width) or NULL */
    bool worded;    /* pooled tells Anima of words, which stay as they are (clip_anima.c) */
    double start, end;
    bool has_range, has_size;
    graft_sdxl_size size;
    bool has_score, has_guidance;
    bool untold;                   /* FLUX's network is told no guidance at all */
    double score;                  /* for SDXL's refiner */
    double guidance;               /* what FLUX's network is told; without: GRAFT_FLUX_GUIDANCE */
    struct graft_control *control; /* the last of its ControlNets (control.h), or NULL */
    /* Where it counts (regions.h); without all this: everywhere, with weight 1. */
    bool has_area, mask_bounds;
    graft_area area;
    graft_image *mask; /* or NULL */
    double strength, mask_strength;
    graft_latent *beside; /* for networks that see it beside theirs (known.h); or NULL */
    graft_latent *reference[GRAFT_REFERENCES]; /* likewise (known.h); the first n_references */
    int32_t n_references;
    /* The first n_within of them stand among the tokens, each behind so many (Qwen-Image 2.1). */
    int32_t within[GRAFT_REFERENCES];
    int32_t n_within;
    graft_placing placing;          /* of the references */
    graft_shown shown[GRAFT_SHOWN]; /* the first n_shown */
    int32_t n_shown;
    struct graft_boxes *boxes; /* texts in boxes (boxes.h), or NULL */
    graft_hooks *hooks;        /* that change the model's weights for it (hooks.h); or NULL */
    bool rest;                 /* it counts where the others of its side leave something */
    /* Where scheduled hooks of its text encoder were as they were for it: from this start on, and
     * before that end; of an end of 1 to the end of sampling. */
    bool has_stretch;
    double stretch_start, stretch_end;
} graft_cond_entry;
struct graft_cond {
    _Atomic int refs;
    size_t n;
    graft_cond_entry *entry[];
};
/* Takes over data and pooled, also on failure. */
graft_status graft_cond_create(int64_t tokens, int64_t width, float *data, int64_t pooled_width,
                               float *pooled, const graft_sdxl_size *size, graft_cond **out,
                               graft_err *e);
/* The same entries once more, for the caller to change. */
graft_status graft_cond_copy(const graft_cond *c, graft_cond **out, graft_err *e);
/* c, each entry with as many tokens as the network is given for it. Behind its own are zeros; or,
 * where it counts tokens, the last one again: what nobody sees goes through the network all the
 * same, must stay as small as the others for attention (ops.def), and zeros are no words. Of
 * Ideogram 4's an entry of zeros has no tokens of its own, however many there are. */
graft_status graft_cond_fill(const graft_cond *c, const graft_net_arch *a, graft_cond **out,
                             graft_err *e);
/* c and one more entry: what `words` says to the network, where, when and as strongly as `place`
 * counts. */
graft_status graft_cond_add_placed(const graft_cond *c, const graft_cond_entry *words,
                                   const graft_cond_entry *place, graft_cond **out, graft_err *e);
#endif
