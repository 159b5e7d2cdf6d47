/* Engine objects as values of the plugin ABI, and back.
 *
 * A value holds one reference to its engine object and counts its own references atomically. Values
 * of this very library are recognised by a private id; an IMAGE, MASK, LATENT, SIGMAS or FLOATS of
 * another plugin is copied in when it answers "graft.tensor/1" with float32 in host memory. Any
 * thread. */
#ifndef GRAFT_NODES_VALUE_H
#define GRAFT_NODES_VALUE_H
#include "engine/engine.h"
#include "plugin/graft_plugin.h"

typedef enum graft_value_kind {
    GRAFT_VALUE_MODEL,
    GRAFT_VALUE_CLIP,
    GRAFT_VALUE_VAE,
    GRAFT_VALUE_CONDITIONING,
    GRAFT_VALUE_CONTROL_NET,
    GRAFT_VALUE_MODEL_PATCH, /* a graft_controlnet, too */
    GRAFT_VALUE_UPSCALE_MODEL,
    GRAFT_VALUE_CLIP_VISION,
    GRAFT_VALUE_CLIP_VISION_OUTPUT,
    GRAFT_VALUE_STYLE_MODEL,
    GRAFT_VALUE_IP_ADAPTER,
    GRAFT_VALUE_GLIGEN,
    GRAFT_VALUE_LATENT,
    GRAFT_VALUE_LATENT_OPERATION, /* a graft_latent_operation of graft_malloc() */
    GRAFT_VALUE_IMAGE,
    GRAFT_VALUE_MASK,
    GRAFT_VALUE_SIGMAS,
    GRAFT_VALUE_FLOATS, /* a graft_floats of graft_malloc() */
    GRAFT_VALUE_HOOKS,
    GRAFT_VALUE_HOOK_KEYFRAMES,
    GRAFT_VALUE_TIMESTEPS_RANGE, /* a graft_steps_range of graft_malloc() */
    GRAFT_VALUE_SAMPLER,         /* these three hold a graft_part */
    GRAFT_VALUE_NOISE,
    GRAFT_VALUE_GUIDER,
    GRAFT_VALUE_QUANTIZATION_BOOSTER, /* these four hold a graft_booster */
    GRAFT_VALUE_DEEPCACHE_BOOSTER,
    GRAFT_VALUE_TORCHCOMPILE_BOOSTER,
    GRAFT_VALUE_CUSTOM_BOOSTER,
    GRAFT_VALUE_KINDS
} graft_value_kind;

/* A list of numbers of another plugin. */
typedef struct graft_floats {
    size_t n;
    float value[];
} graft_floats;

/* Shares of the schedule, 0: most noise. */
typedef struct graft_steps_range {
    double start, end;
} graft_steps_range;

/* GRAFT_VALUE_KINDS when `type` is none of ours. */
graft_value_kind graft_value_kind_of(const char *type);

/* Wraps `object` and takes over the caller's reference to it, also on failure. */
graft_status graft_value_wrap(graft_value_kind kind, void *object, graft_value **out, graft_err *e);

/* The same thing as a value of ours: `v` itself with one more reference, or a copy of a foreign
 * tensor. GRAFT_E_ARG when `v` is neither. */
graft_status graft_value_adopt(graft_value *v, graft_value_kind kind, graft_value **out,
                               graft_err *e);

/* The engine object inside a value that wrap or adopt made; borrowed. */
void *graft_value_object(const graft_value *v, graft_value_kind kind);
#endif
