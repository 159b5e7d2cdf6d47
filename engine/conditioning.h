/* Prompts as conditioning: the part of engine.h, whose rules hold here, that encodes them and says
 * where, when and with what beside them they count. */
#ifndef GRAFT_CONDITIONING_H
#define GRAFT_CONDITIONING_H
#include "engine/types.h"

/* ComfyUI's prompt syntax: (word:1.2), (word), nesting, \( \), chunks of 75 tokens, and
 * "embedding:NAME" for the vectors in a file that task->embedding finds. An embedding that is
 * missing, damaged or for another text encoder is left out with a warning in the task's log. */
graft_status graft_clip_encode(const graft_clip *c, const char *text, const graft_task *task,
                               graft_cond **out, graft_err *e);
typedef struct graft_sdxl_size {
    int64_t width, height, crop_w, crop_h, target_width, target_height;
} graft_sdxl_size;
/* A text for each encoder: the empty prompt follows the shorter one until both have as many chunks.
 */
graft_status graft_clip_encode_sdxl(const graft_clip *c, const char *text_g, const char *text_l,
                                    const graft_sdxl_size *size, const graft_task *task,
                                    graft_cond **out, graft_err *e);
/* For SD 3, likewise; NULL: that encoder is not asked and leaves zeros, T5 nothing.
 * graft_clip_encode() gives all the same text. */
graft_status graft_clip_encode_sd3(const graft_clip *c, const char *text_l, const char *text_g,
                                   const char *text_t5, const graft_task *task, graft_cond **out,
                                   graft_err *e);
/* For HiDream: a text for the pooled output of each CLIP, and those that T5 and Llama read, at
 * least 128 tokens with padding; NULL: that encoder is not asked and leaves zeros.
 * graft_clip_encode() gives all the same text. */
graft_status graft_clip_encode_hidream(const graft_clip *c, const char *text_l, const char *text_g,
                                       const char *text_t5, const char *text_llama,
                                       const graft_task *task, graft_cond **out, graft_err *e);
/* For FLUX: a text for CLIP-L's pooled output, and the one that T5 reads, at least 256 tokens with
 * padding. graft_clip_encode() gives both the same text. */
graft_status graft_clip_encode_flux(const graft_clip *c, const char *text_l, const char *text_t5,
                                    const graft_task *task, graft_cond **out, graft_err *e);
/* For Lumina-Image 2.0: a text behind what the model is told to be, as its authors' pipeline has
 * it, and then as graft_clip_encode() does. */
typedef enum graft_lumina2_wish {
    GRAFT_LUMINA2_SUPERIOR = 0,
    GRAFT_LUMINA2_ALIGNMENT = 1
} graft_lumina2_wish;
graft_status graft_clip_encode_lumina2(const graft_clip *c, graft_lumina2_wish wish,
                                       const char *text, const graft_task *task, graft_cond **out,
                                       graft_err *e);
/* For Qwen-Image-Edit: a text and the pictures that it speaks of, which the text encoder sees in
 * their order, of each batch the first one. With a VAE the network sees them, too: what it makes of
 * each batch is one more reference (graft_cond_reference()). Pictures have any size and are brought
 * to the one that the model was trained with, by areas: of one, 1024 x 1024 pixels in the same
 * aspect for both; of numbered ones, which the text calls "Picture 1" and on (from version 2509
 * on), 384 x 384 for the text encoder, and for the VAE 1024 x 1024 in steps of 8 pixels. Without
 * pictures only the form of the prompt is the model's, and without numbers it is
 * graft_clip_encode(). GRAFT_E_UNSUPPORTED for other text encoders, and with pictures where the
 * file lacks what looks at them; GRAFT_E_LIMIT for more pictures, and where text and pictures are
 * too many tokens (models/encoders/qwen3.h). */
#define GRAFT_EDIT_PICTURES 3
typedef struct graft_edit_prompt {
    const char *text;
    const graft_image *picture[GRAFT_EDIT_PICTURES];
    size_t n_pictures;
    bool numbered;
    const graft_vae *vae; /* or NULL */
} graft_edit_prompt;
graft_status graft_clip_encode_edit(const graft_clip *c, const graft_edit_prompt *prompt,
                                    const graft_task *task, graft_cond **out, graft_err *e);
/* For Qwen-Image 2.1: a text, what it is not to be, and the pictures that both speak of, as
 * <image1> and on, in their order, of each batch the first one. They are brought to side * side
 * pixels in their own aspect, in steps of 32; the text encoder sees them so, what is transparent on
 * white, and the network what the VAE makes of them, each among the text's tokens. Without pictures
 * it is graft_clip_encode() of both. out: the text, and the other. GRAFT_E_UNSUPPORTED for other
 * text encoders, and with pictures where the file lacks what looks at them; GRAFT_E_ARG without a
 * VAE; GRAFT_E_LIMIT for more pictures, and where text and pictures are too many tokens
 * (models/encoders/qwen3.h). */
#define GRAFT_ANALYZED_PICTURES 8
typedef struct graft_analyzed_prompt {
    const char *text[2];
    const graft_image *picture[GRAFT_ANALYZED_PICTURES];
    size_t n_pictures;
    const graft_vae *vae; /* with pictures */
    int64_t side;
} graft_analyzed_prompt;
graft_status graft_clip_encode_analyzed(const graft_clip *c, const graft_analyzed_prompt *prompt,
                                        const graft_task *task, graft_cond *out[2], graft_err *e);
/* Width and height in pixels of a picture so. */
graft_status graft_analyzed_size(const graft_image *picture, int64_t side, int64_t *width,
                                 int64_t *height, graft_err *e);
/* For SDXL's refiner, whose checkpoint has the large text encoder alone: a prompt with the size
 * that the picture had before it was cropped, and how beautiful it is to be (6 for what is
 * wanted, 2.5 for what is not, where a prompt says nothing). Other models do not look at the score.
 */
graft_status graft_clip_encode_refiner(const graft_clip *c, const char *text, double score,
                                       int64_t width, int64_t height, const graft_task *task,
                                       graft_cond **out, graft_err *e);
/* Calls `look` with the names of a prompt's embeddings, as encoding looks for them: a name that
 * ends with commas is tried without them after GRAFT_E_NOTFOUND. Other failures end the call. */
graft_status graft_prompt_embeddings(const char *text,
                                     graft_status (*look)(void *ctx, const char *name), void *ctx,
                                     graft_err *e);
/* T5's prompts get `more` tokens of padding, then what is missing to `least`, 0 to GRAFT_T5_PADDING
 * both, in place of SD 3's 77, FLUX's 256 and Chroma's one of padding. Without T5 nothing happens.
 */
#define GRAFT_T5_PADDING 10000
graft_status graft_clip_t5_options(const graft_clip *c, int64_t more, int64_t least,
                                   graft_clip **out, graft_err *e);
/* -1: the last layer; -2: the one before, … */
graft_status graft_clip_set_last_layer(const graft_clip *c, int64_t layer, graft_clip **out,
                                       graft_err *e);

graft_cond *graft_cond_retain(graft_cond *c);
void graft_cond_release(graft_cond *c);
graft_status graft_cond_combine(const graft_cond *a, const graft_cond *b, graft_cond **out,
                                graft_err *e); /* both lists, one after the other */
/* Tokens of `to`, then those of the first of `from`. */
graft_status graft_cond_concat(const graft_cond *to, const graft_cond *from, graft_cond **out,
                               graft_err *e);
/* to * strength + from * (1 - strength), the shorter one padded with zero tokens. */
graft_status graft_cond_average(const graft_cond *to, const graft_cond *from, double strength,
                                graft_cond **out, graft_err *e);
/* The guidance scale that a dev model of FLUX is told with these prompts, 0 to 100, in place of
 * GRAFT_FLUX_GUIDANCE; other networks are told none. */
#define GRAFT_FLUX_GUIDANCE 3.5
graft_status graft_cond_guidance(const graft_cond *c, double guidance, graft_cond **out,
                                 graft_err *e);
/* It is told none with these, until another node says one again; a ControlNet is told it still. */
graft_status graft_cond_untold(const graft_cond *c, graft_cond **out, graft_err *e);
/* Used from share `start` to share `end` of the schedule only (0: most noise). */
graft_status graft_cond_timestep_range(const graft_cond *c, double start, double end,
                                       graft_cond **out, graft_err *e);
graft_status graft_cond_zero_out(const graft_cond *c, graft_cond **out, graft_err *e);

/* Where in the picture prompts count (MultiDiffusion, arXiv:2302.08113). Predictions of combined
 * prompts are weighted by their strengths and masks and divided by the sum of the weights, so a
 * strength matters beside others only. A new area, strength or mask takes the place of an earlier
 * one of its kind; what is outside the picture when sampling is cut off. GRAFT_E_ARG for what is
 * negative or no number. */
typedef struct graft_area {
    double x, y, width, height; /* pixels, in steps of 8 or 16; or shares of the picture */
    bool shares;
} graft_area;
/* Only this part of the latent is denoised with these prompts, as if it were a picture. */
graft_status graft_cond_area(const graft_cond *c, const graft_area *area, double strength,
                             graft_cond **out, graft_err *e);
graft_status graft_cond_strength(const graft_cond *c, double strength, graft_cond **out,
                                 graft_err *e);
/* The prompts see the whole latent (or their area), and count as much as the mask says, which is
 * brought to the latent's size (bilinear) and repeats over a batch. Times the strength that they
 * have anyway. bounds: they see only the part around what is not black. Retains the mask. */
graft_status graft_cond_mask(const graft_cond *c, const graft_image *mask, double strength,
                             bool bounds, graft_cond **out, graft_err *e);

/* GLIGEN (Li et al. 2023, arXiv:2301.07093) for Stable Diffusion 1.x: texts in boxes, in the names
 * of its authors' UNet, of which the file may have the added parts alone, or all below "model.".
 * GRAFT_E_UNSUPPORTED, saying what it is, for one that puts something else into boxes. */
graft_status graft_gligen_load(graft_engine *engine, const char *path, const graft_task *task,
                               graft_gligen **out, graft_err *e);
graft_gligen *graft_gligen_retain(graft_gligen *g);
void graft_gligen_release(graft_gligen *g);
/* The prompts, each with this text in this box beside those that it has, GRAFT_BOXES at most, else
 * GRAFT_E_LIMIT. While such a prompt counts the UNet has GLIGEN's parts for all prompts; those
 * without boxes are given what it learned for none. The text is encoded at once; its box, and how
 * many there are, compile nothing. A box given in pixels is brought down to steps of 8, and where
 * the prompt has an area it is seen from there.
 *
 * GRAFT_E_ARG for a text encoder that the GLIGEN is not for, beside boxes of another GLIGEN, and
 * for boxes that are negative or no numbers. Sampling refuses boxes of several GLIGENs, and models
 * that they are not for. Retains the GLIGEN. */
#define GRAFT_BOXES 30
graft_status graft_cond_box(const graft_cond *c, const graft_clip *clip, graft_gligen *gligen,
                            const char *text, const graft_area *box, const graft_task *task,
                            graft_cond **out, graft_err *e);

/* Prompts for a network that was made for inpainting, which sees the picture around what it paints:
 * `known`, from graft_vae_encode_known(), which has a mask (GRAFT_E_ARG without one). It is scaled
 * to the latent when sampling, of another aspect the middle of it, and others do not look at it.
 * For prompts without, such a UNet is given the mask of the latent that is sampled, and that
 * latent, as graft_vae_encode_inpaint() makes it; without a mask nothing is known. FLUX's Fill is
 * given that mask and an empty latent. Takes the place of an earlier one, also of a picture. */
graft_status graft_cond_inpaint(const graft_cond *c, const graft_latent *known, graft_cond **out,
                                graft_err *e);

/* Prompts for a network that sees a picture beside the latent (InstructPix2Pix, FLUX's Canny and
 * Depth), scaled to it likewise; others do not look at it. Takes the place of an earlier one,
 * also of one for inpainting, which this is, too, where it has no mask with that of the latent
 * that is sampled, or all of it to be painted. Retains the latent. */
graft_status graft_cond_picture(const graft_cond *c, const graft_latent *picture, graft_cond **out,
                                graft_err *e);
/* One more picture that FLUX.1 (Kontext), FLUX.2, Qwen-Image (Edit) and OmniGen2 see as tokens of
 * its own, of any size, behind those that the prompts have; at most 8, else GRAFT_E_LIMIT, and of
 * OmniGen2 5, GRAFT_E_UNSUPPORTED when sampling. Other networks, and
 * Fill, Canny and Depth, do not look at it. GRAFT_E_UNSUPPORTED for several layers. Retains the
 * latent. */
graft_status graft_cond_reference(const graft_cond *c, const graft_latent *picture,
                                  graft_cond **out, graft_err *e);
/* The same for Qwen-Image 2.1, which sees references among the prompt's tokens, and only those that
 * stand there: this one behind so many of them, fewer than all. GRAFT_E_ARG where one stands
 * further behind already, or one without a place. Other networks see it as any other. */
graft_status graft_cond_reference_within(const graft_cond *c, const graft_latent *picture,
                                         int64_t tokens, graft_cond **out, graft_err *e);
/* Where references stand for the network, which was trained with one of these; those of FLUX.2,
 * Qwen-Image and OmniGen2 each by itself, and GRAFT_PLACE_DIAGONAL is GRAFT_E_UNSUPPORTED there
 * when sampling.
 */
typedef enum graft_placing {
    GRAFT_PLACE_BESIDE = 0,   /* all in the first layer behind the picture's: each to the right of
                               * those before, or below them where both become less high and wide
                               * by that (arXiv:2506.15742) */
    GRAFT_PLACE_BEHIND = 1,   /* each in a layer of its own, one behind the other */
    GRAFT_PLACE_DIAGONAL = 2, /* in the picture's own layer, each to the right of and below all
                               * before (UNO: Wu et al. 2025, arXiv:2504.02160, 3.2) */
    GRAFT_PLACE_CLEAN = 3 /* as GRAFT_PLACE_BEHIND, and the network is told that there is no noise
                           * in them: Qwen-Image-Edit-2511. Of others GRAFT_E_UNSUPPORTED */
} graft_placing;
graft_status graft_cond_place_references(const graft_cond *c, graft_placing how, graft_cond **out,
                                         graft_err *e);

/* Prompts that a ControlNet steers by a picture (arXiv:2302.05543). */
typedef struct graft_control_options {
    const graft_controlnet *net;
    const graft_image *hint; /* what the ControlNet was trained to follow; scaled and cut to the
                                latent's size when sampling. Pictures repeat over a batch. */
    const graft_vae *vae; /* for ControlNets of transformers, which see the latent that it makes of
                             the hint: the model's own; others do not look at it. May be NULL */
    const graft_image *mask; /* for those that complete the hint where it is white, scaled as that;
                                others do not look at it. May be NULL */
    double strength;         /* factor of the residuals; 0: no change */
    double start, end;       /* from share start to share end of the schedule, as above */
    bool everywhere;         /* also on negative prompts, unless one has a ControlNet of its own */
} graft_control_options;
/* Added to what the prompts have already. Strength, start and end are run-time values: nothing is
 * compiled for another one. negative and out_negative: both NULL, or none. GRAFT_E_ARG where a
 * VAE or a mask is needed and missing, and when sampling if the ControlNet is not for the model;
 * GRAFT_E_UNSUPPORTED where that VAE has no encoder. */
graft_status graft_cond_control(const graft_cond *positive, const graft_cond *negative,
                                const graft_control_options *options, graft_cond **out_positive,
                                graft_cond **out_negative, graft_err *e);
#endif
