/* What all of the engine's headers speak of: its objects, which are opaque, and the task that a
 * call works for. engine.h says what holds for all of them. */
#ifndef GRAFT_ENGINE_TYPES_H
#define GRAFT_ENGINE_TYPES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"

typedef struct graft_engine graft_engine;
typedef struct graft_model graft_model; /* a diffusion model: architecture + weights + options */
typedef struct graft_clip graft_clip;   /* one or two text encoders and their tokenizer */
typedef struct graft_vae graft_vae;
typedef struct graft_cond graft_cond; /* a list of encoded prompts with their options */
typedef struct graft_controlnet graft_controlnet;
typedef struct graft_gligen graft_gligen;     /* what puts texts into boxes (conditioning.h) */
typedef struct graft_upscaler graft_upscaler; /* a model that enlarges pictures */
typedef struct graft_latent graft_latent;
typedef struct graft_image graft_image;   /* IMAGE (N,H,W,C) or MASK (N,H,W; stored with C = 1) */
typedef struct graft_sigmas graft_sigmas; /* of the steps of a sampler (sigmas.h) */
typedef struct graft_hooks graft_hooks;   /* changes of weights that prompts bring (hooks.h) */
typedef struct graft_keyframes graft_keyframes; /* how strong those are, and when (hooks.h) */

/* How a long call reports, learns that it should stop, and asks for what only its caller knows. Any
 * pointer may be NULL. Called on the calling thread only. */
typedef struct graft_task {
    void *ctx;
    void (*phase)(void *ctx, const char *name); /* "load", "compile", "encode", "sample", … */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    bool (*cancelled)(void *ctx); /* asked before every operator */
    /* Compile and pack whatever the call would run, but run nothing: sampling gives its latent
     * back, the VAE a grey picture or an empty latent of the right size. Fills caches ahead of
     * time. */
    bool compile_only;
    /* Pictures of what a sampling run is at: one pixel for each of the latent, of FLUX.2's four,
     * or, where they are decoded, at most 512 a side. NULL: none are made. */
    void (*preview)(void *ctx, const uint8_t *rgb, int width, int height);
    /* Asked before each of them: would it be shown? NULL: yes. */
    bool (*preview_wanted)(void *ctx);
    /* What to decode them with, asked once a run: a tiny autoencoder for this model's latents,
     * whose reference the run takes over, or NULL. Without it they show the latent's channels as
     * colours. */
    graft_vae *(*preview_vae)(void *ctx, const graft_model *m);
    bool preview_silent; /* it is not asked, nor is there a warning, with a limit of memory */
    /* The latent (N,C,h,w) after a step of sampling, in the model's own scale, noise included. */
    void (*latent)(void *ctx, const float *x, const int64_t shape[4]);
    graft_log log;
    /* The file (safetensors) of the embedding that a prompt names: a path for graft_free(), or
     * GRAFT_E_NOTFOUND. NULL: "embedding:NAME" in a prompt is words. */
    graft_status (*embedding)(void *ctx, const char *name, char **path, graft_err *e);
    /* Likewise a file of this name among text encoders: the tokenizer of one that needs its own. */
    graft_status (*text_file)(void *ctx, const char *name, char **path, graft_err *e);
} graft_task;
#endif
