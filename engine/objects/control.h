/* ControlNets on conditionings, from the inside (Zhang et al. 2023, arXiv:2302.05543), and
 * T2I-Adapters, which are objects of the same type, and links of the same chains.
 *
 * A ControlNet has no options of its own: it is compiled with those of the model that it steers,
 * whose activations it shares. */
#ifndef GRAFT_OBJECTS_CONTROL_H
#define GRAFT_OBJECTS_CONTROL_H
#include "engine/objects/objects.h"
#include "engine/models/controls/control_union.h"
#include "engine/models/controls/controlnet.h"

struct graft_controlnet {
    _Atomic int refs;
    graft_engine *engine;
    graft_control_arch arch;
    graft_weights *weights;                /* shared by those that differ in nothing but the type */
    float type[GRAFT_CONTROL_MODES], told; /* control_union.h; zeros: not told */
    struct graft_control_lora *lora;       /* of what a model has to be joined with; or NULL */
};

/* What the model that a Control-LoRA steers makes of it: the ControlNet of its own architecture,
 * with the model's weights where the file has none, and its up times down added; and of one for
 * Z-Image, which begins with the model's own first blocks: both have their own names. Made when it
 * is asked for, and kept until another model asks. Any thread. */
struct graft_control_lora *graft_control_lora_create(void); /* NULL when out of memory */
void graft_control_lora_destroy(graft_engine *engine, struct graft_control_lora *l);
/* The ControlNet as it steers this model, which it fits; the caller releases *weights. Those that
 * are whole are as they are. GRAFT_E_ARG and GRAFT_E_FORMAT, with the file, where both do not fit
 * together. */
graft_status graft_control_made(const graft_model *m, const graft_controlnet *net,
                                graft_control_arch *arch, graft_weights **weights, graft_err *e);

/* One ControlNet with its picture. Conditionings hold the last one of a chain; residuals of all of
 * it add up. Immutable; equal pointers are equal work, so prompts that share a chain share a batch.
 */
typedef struct graft_control {
    _Atomic int refs;
    struct graft_control *before; /* NULL: none */
    graft_controlnet *net;
    graft_image *hint;           /* NULL only of a model's, which has one of these two then: */
    graft_image *inpaint, *mask; /* mask: also of one that completes its hint */
    graft_vae *vae; /* makes the hint a latent, of a transformer's ControlNet; or NULL */
    double strength, start, end; /* start, end: shares of the schedule */
    bool everywhere;             /* negative prompts that have none of their own get it too */
} graft_control;

graft_control *graft_control_retain(graft_control *k); /* NULL is fine in both */
void graft_control_release(graft_control *k);

/* The same list with chain[i], which may be NULL, for entry i. Retains the chains. */
graft_status graft_cond_with_controls(const graft_cond *c, graft_control *const *chain,
                                      graft_cond **out, graft_err *e);
/* The chain that counts for an entry: its own, or for a negative one that of a positive entry where
 * no negative one has its own and the positive one's is for everyone. */
const graft_control *graft_control_of(const graft_cond *positive, const graft_cond *negative,
                                      bool is_negative, size_t i);
/* The same, or the model's own chain: a model that has one is of a kind that prompts' ControlNets
 * do not fit. */
const graft_control *graft_control_for(const graft_model *m, const graft_cond *positive,
                                       const graft_cond *negative, bool is_negative, size_t i);
/* How many a chain has, which may be NULL. */
int graft_control_links(const graft_control *chain);
/* *w, the model's weights, becomes these and beside them those of all that runs within its network,
 * the first one put on being the first (models/transformers/control_blockwise.h); released on
 * failure. */
graft_status graft_control_within_weights(const graft_model *m, graft_weights **w, graft_err *e);
/* Whether this one counts at this sigma; the others of its chain are not looked at. */
bool graft_control_active(const graft_sigma_table *t, const graft_control *k, float sigma);
/* Whether the same ones of the chain, which may be NULL, are active at both sigmas. */
bool graft_control_alike(const graft_sigma_table *t, const graft_control *chain, float a, float b);
/* The chain where any of it is active, else NULL. */
const graft_control *graft_control_any(const graft_sigma_table *t, const graft_control *chain,
                                       float sigma);

/* GRAFT_E_ARG, with the ControlNet's file, when it is for another kind of model. */
graft_status graft_control_check(const graft_model *m, const graft_controlnet *net, graft_err *e);
/* The same of all that these prompts have, active or not; `c` may be NULL. */
graft_status graft_control_check_all(const graft_model *m, const graft_cond *c, graft_err *e);
/* How a chain steers the model, which all of it fits: whatever of it is active. `chain` may be
 * NULL. */
graft_steered graft_control_steered(const graft_model *m, const graft_control *chain);
/* Whether it is a T2I-Adapter. */
bool graft_control_adapts(const graft_controlnet *net);
/* Whether any of the chain gives residuals, active or not: is no T2I-Adapter. */
bool graft_control_any_net(const graft_control *chain);
/* How many features the chain's T2I-Adapters give, active or not, which is the same for all that
 * fit one model; 0: it has none. */
int graft_control_features(const graft_control *chain);
/* What of `steered` the ControlNet gives, a bit each: 1 for a UNet's, else parts in which it has
 * blocks; 0 for a T2I-Adapter. */
int graft_control_parts(const graft_model *m, const graft_controlnet *net);
/* Whether it gives the residual that begins at this block of a part of `steered`. */
bool graft_control_gives(const graft_model *m, const graft_controlnet *net, int part, int block);
/* Whether those of the chain that are active at this sigma run in two stages. */
bool graft_control_staged(const graft_sigma_table *t, const graft_control *chain, float sigma);
/* The ControlNet for such a use of the model's network, compiled with the model's options and
 * bound. more: which of its parts it adds to the residuals of others. */
graft_status graft_control_bind(const graft_model *m, const graft_controlnet *net, int more,
                                graft_control_stage stage, const graft_unet_use *use,
                                const graft_task *task, graft_binding **out, graft_err *e);
/* The network's own first step, for those ControlNets that begin with what that makes. */
bool graft_control_embeds(const graft_controlnet *net);
graft_status graft_control_bind_embed(const graft_model *m, const graft_unet_use *use,
                                      const graft_task *task, graft_binding **out, graft_err *e);
/* A T2I-Adapter for `rows` pictures of a part of the latent of this size; more: its features are
 * added to those of others; beside: as in graft_unet_use. */
graft_status graft_control_bind_adapter(const graft_model *m, const graft_controlnet *net,
                                        int64_t rows, int64_t height, int64_t width, bool more,
                                        int64_t beside, const graft_task *task, graft_binding **out,
                                        graft_err *e);
/* How many pictures of the hint a batch needs: what there is, at most one for each picture. */
int64_t graft_control_rows(const graft_control *k, int64_t pictures);
/* Its hint's convolutions for `rows` pictures. */
graft_status graft_control_bind_hint(const graft_model *m, const graft_controlnet *net,
                                     int64_t rows, const graft_unet_use *use,
                                     const graft_task *task, graft_binding **out, graft_err *e);
#endif
