/* Reading a call's inputs by number. Kinds were checked before the node ran, so what returns no
 * status cannot fail; an optional input that is not connected gives its initial value, an object
 * then NULL. Everything is borrowed for the call. */
#ifndef GRAFT_NODES_ARGS_H
#define GRAFT_NODES_ARGS_H
#include "nodes/call/call.h"
#include "nodes/call/value.h"

int64_t graft_arg_i64(const graft_call *c, int i);
uint64_t graft_arg_u64(const graft_call *c, int i);
double graft_arg_f64(const graft_call *c, int i);
bool graft_arg_bool(const graft_call *c, int i);
const char *graft_arg_text(const graft_call *c, int i); /* STRING and COMBO */
bool graft_arg_is(const graft_call *c, int i, const char *choice);
/* "x", "y" or "t", as ComfyUI calls them. */
graft_latent_axis graft_arg_axis(const graft_call *c, int i);

graft_model *graft_arg_model(const graft_call *c, int i);
graft_clip *graft_arg_clip(const graft_call *c, int i);
graft_vae *graft_arg_vae(const graft_call *c, int i);
graft_cond *graft_arg_cond(const graft_call *c, int i);
graft_controlnet *graft_arg_controlnet(const graft_call *c, int i);
graft_upscaler *graft_arg_upscaler(const graft_call *c, int i);
graft_vision *graft_arg_vision(const graft_call *c, int i);
graft_vision_output *graft_arg_vision_output(const graft_call *c, int i);
graft_controlnet *graft_arg_model_patch(const graft_call *c, int i);
graft_style *graft_arg_style(const graft_call *c, int i);
graft_ip_adapter *graft_arg_ip_adapter(const graft_call *c, int i);
graft_gligen *graft_arg_gligen(const graft_call *c, int i);
graft_latent *graft_arg_latent(const graft_call *c, int i);
const graft_latent_operation *graft_arg_operation(const graft_call *c, int i);
graft_image *graft_arg_image(const graft_call *c, int i);
graft_image *graft_arg_mask(const graft_call *c, int i);
graft_sigmas *graft_arg_sigmas(const graft_call *c, int i);
const graft_floats *graft_arg_floats(const graft_call *c, int i); /* NULL: it is a number */
graft_hooks *graft_arg_hooks(const graft_call *c, int i);
graft_keyframes *graft_arg_keyframes(const graft_call *c, int i);
const graft_steps_range *graft_arg_range(const graft_call *c, int i);
/* What a SAMPLER, a NOISE or a GUIDER knows. */
const graft_sampling *graft_arg_part(const graft_call *c, int i);
graft_booster *graft_arg_booster(const graft_call *c, int i);
const graft_value *graft_arg_list(const graft_call *c,
                                  int i); /* of an input with GRAFT_INPUT_LIST */

/* Absolute path (graft_free) of the file in this folder that the input names; from now on a failure
 * is about that input. */
graft_status graft_arg_file(graft_call *c, int i, const char *folder, char **path);
/* Warns of an input in pixels that is no multiple of so many, which are a latent's place. */
void graft_arg_warn_pixels(graft_call *c, int i, int64_t place);
#endif
