/* What OneDiff's nodes have in common: inputs of boosters, and loaders that apply them. */
#ifndef GRAFT_NODES_BOOSTER_NODES_H
#define GRAFT_NODES_BOOSTER_NODES_H
#include "nodes/call/booster.h"
#include "nodes/call/call.h"

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
#endif
