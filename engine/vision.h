/* Pictures as prompts: the part of engine.h, whose rules hold here, for encoders of pictures and
 * for what makes prompts of their output. */
#ifndef GRAFT_VISION_H
#define GRAFT_VISION_H
#include "engine/types.h"

typedef struct graft_vision graft_vision;               /* an encoder of pictures */
typedef struct graft_vision_output graft_vision_output; /* what it makes of one batch */
typedef struct graft_style graft_style;                 /* a style model: FLUX.1 Redux */
typedef struct graft_ip_adapter graft_ip_adapter;       /* an IP-Adapter */

/* CLIP's encoder of pictures in transformers' names (CLIPVisionModelWithProjection; a file may have
 * the whole CLIP) or in OpenCLIP's, or SigLIP's in transformers'. Tensors' names and shapes tell
 * which; engine/models/detect/detect_vision.c has what they do not tell. Also that of an unCLIP
 * checkpoint. */
graft_status graft_vision_load(graft_engine *engine, const char *path, const graft_task *task,
                               graft_vision **out, graft_err *e);
/* Pictures of any size, each brought to the encoder's: with `center` the middle square of it, else
 * all of it, whatever its aspect (engine/image/pixels.h). One after the other. */
graft_status graft_vision_encode(const graft_vision *v, const graft_image *image, bool center,
                                 const graft_task *task, graft_vision_output **out, graft_err *e);
/* Tokens (N,T,C) as the encoder's last layer, of SigLIP its last norm, gives them. Lives as long as
 * `o`. */
const float *graft_vision_output_tokens(const graft_vision_output *o, int64_t shape[3]);
/* One vector (C) for each of N pictures, projected where the file has a projection; NULL of SigLIP.
 */
const float *graft_vision_output_pooled(const graft_vision_output *o, int64_t shape[2]);
graft_vision *graft_vision_retain(graft_vision *v);
void graft_vision_release(graft_vision *v);
graft_vision_output *graft_vision_output_retain(graft_vision_output *o);
void graft_vision_output_release(graft_vision_output *o);

/* FLUX.1 Redux. GRAFT_E_UNSUPPORTED for T2I-Adapter's style models and other files. */
graft_status graft_style_load(graft_engine *engine, const char *path, const graft_task *task,
                              graft_style **out, graft_err *e);
/* The prompts, each with the pictures' tokens behind its own: those of one picture after the other,
 * as the style model makes them, times `strength`, a finite number. GRAFT_E_ARG where the encoder's
 * tokens, or the prompts, have another width than the style model is for. */
graft_status graft_style_apply(const graft_style *s, const graft_cond *c,
                               const graft_vision_output *seen, double strength,
                               const graft_task *task, graft_cond **out, graft_err *e);
/* Prompts that tell an unCLIP model (Stable Diffusion 2.1 unCLIP) also of these pictures, behind
 * those that they have: how strongly, -10 to 10, and with how much noise, 0 to 1, of which more
 * leaves less of the picture. At most GRAFT_SHOWN batches, else GRAFT_E_LIMIT; GRAFT_E_ARG for
 * other numbers and without a vector for each picture. Other models do not look at them. */
#define GRAFT_SHOWN 8
graft_status graft_cond_show(const graft_cond *c, const graft_vision_output *seen, double strength,
                             double noise, graft_cond **out, graft_err *e);
graft_style *graft_style_retain(graft_style *s);
void graft_style_release(graft_style *s);

/* An IP-Adapter (Ye et al. 2023, arXiv:2308.06721) for Stable Diffusion 1.x, 2.x or XL, plain or
 * "plus", in the names of its authors' .safetensors. GRAFT_E_UNSUPPORTED, saying what it is, for
 * FaceID, "full face", and those of FLUX and Stable Diffusion 3. */
graft_status graft_ip_adapter_load(graft_engine *engine, const char *path, const graft_task *task,
                                   graft_ip_adapter **out, graft_err *e);
/* The model whose cross-attentions attend to pictures beside the prompt. Weight, start and end are
 * run-time values, and so are the pictures: nothing is compiled for others, unless they are more or
 * fewer; another adapter of the same architecture is a swap of weights. Several pictures are one
 * list of tokens. Negative prompts, and third ones, see `negative`, one picture or as many as there
 * are; without it what the paper's code has: a plain adapter is given zeros, "plus" what the
 * encoder makes of pixels of its mean colour. A model may be shown pictures several times, also by
 * different adapters, GRAFT_ATTENDED (engine/models/parts/attended.h) at most, else GRAFT_E_LIMIT.
 *
 * Of each place what pictures add counts as much as the mask says there, which is resized
 * (bilinear) to the places of each attention. A mask for each picture of the batch; the last one
 * serves those that have none. Another mask compiles nothing, the first one does.
 *
 * The encoder is run at once, and its middle squares of pictures are what it sees. GRAFT_E_ARG for
 * an adapter of another kind of model, an encoder other than the adapter's, and numbers out of
 * range; GRAFT_E_UNSUPPORTED for models that are no UNets. */
typedef struct graft_show_options {
    const graft_vision *vision;
    const graft_image *image;
    const graft_image *negative; /* NULL: none */
    double weight;               /* factor of what they add, -10 to 10; 0: nothing */
    double start, end;           /* shares of the schedule, as of ControlNets */
    const graft_image *mask;     /* where in the picture they count; NULL: everywhere */
} graft_show_options;
graft_status graft_model_show(const graft_model *m, const graft_ip_adapter *adapter,
                              const graft_show_options *options, const graft_task *task,
                              graft_model **out, graft_err *e);
graft_ip_adapter *graft_ip_adapter_retain(graft_ip_adapter *a);
void graft_ip_adapter_release(graft_ip_adapter *a);
#endif
