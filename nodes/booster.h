/* OneDiff's boosters: bundles of options that travel along a link until a loader or a speed-up node
 * applies them. Immutable and reference-counted; any thread. */
#ifndef GRAFT_NODES_BOOSTER_H
#define GRAFT_NODES_BOOSTER_H
#include "nodes/call.h"

typedef struct graft_booster graft_booster;

/* Each part may be NULL. Texts in them must be constants; `quantize` points to nothing. */
graft_status graft_booster_create(const graft_deepcache_options *deepcache,
                                  const graft_quantize_options *quantize, graft_booster **out,
                                  graft_err *e);
void graft_booster_release(graft_booster *b); /* NULL is fine */

/* The model, compiled with the usual options and then with what the booster adds; `b` may be
 * NULL. */
graft_status graft_booster_apply(const graft_booster *b, const graft_model *m,
                                 const graft_task *task, graft_model **out, graft_err *e);
graft_status graft_booster_apply_vae(const graft_vae *v, const graft_task *task, graft_vae **out,
                                     graft_err *e);

/* The five inputs that OneDiff's DeepCache nodes have, and their values from input `first` on. */
extern const graft_input graft_booster_interval, graft_booster_layer, graft_booster_block,
    graft_booster_start, graft_booster_end;
graft_deepcache_options graft_booster_read_deepcache(const graft_call *c, int first);
/* What quantizing by densities means here: 8 bits, single layers and all together within the usual
 * error, calibrated on the first sampling run. One density counts for both kinds. */
graft_quantize_options graft_booster_quantize(bool conv, bool linear, int64_t density);
/* The inputs that OneDiff's loaders have. */
extern const graft_input graft_booster_ckpt_name, graft_booster_vae_speedup,
    graft_booster_static_mode;
/* The inputs of "Apply Model Booster", which goes by two names, and its run(): they come first. */
extern const graft_input graft_booster_quantization, graft_booster_deepcache,
    graft_booster_torchcompile;
graft_status graft_booster_run_parts(graft_call *c);

/* The outputs of OneDiff's loaders, and their query(), for the file that their first input names.
 */
enum { GRAFT_BOOSTER_CKPT_NAME };
extern const graft_output graft_booster_model, graft_booster_clip, graft_booster_vae;
const void *graft_booster_loader_query(const char *id);
/* Loads that checkpoint and sets outputs 0-2: the model with the booster, CLIP, and the VAE,
 * compiled when `vae` says so. */
graft_status graft_booster_load(graft_call *c, bool vae, const graft_booster *b);

/* Inputs and outputs, as in args.h and call.h. */
graft_booster *graft_arg_booster(const graft_call *c, int i);
graft_status graft_call_out_booster(graft_call *c, int slot, const char *type, graft_booster *b);
#endif
