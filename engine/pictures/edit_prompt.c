/* Prompts with pictures for Qwen-Image-Edit: in which sizes the text encoder and the VAE see them.
 */
#include <math.h>

#include "engine/conditioning.h"
#include "engine/pictures.h"
#include "engine/prompts/clip_hooks.h"
#include "engine/prompts/qwen_vision.h"

#define WHOLE  1.0                                 /* in times of 1024 x 1024 pixels */
#define GLANCE (384.0 * 384.0 / (1024.0 * 1024.0)) /* likewise, of a numbered picture */
#define STEP   8                                   /* pixels of its sides for the VAE */

/* The picture's own side in the size that the VAE sees. */
static int64_t side_of(int64_t side, int64_t other)
{
    const double by = sqrt(1024.0 * 1024.0 / ((double)side * (double)other));
    const int64_t steps = (int64_t)rint((double)side * by / STEP);
    return STEP * (steps > 0 ? steps : 1);
}

static graft_status for_vae(const graft_edit_prompt *p, size_t i, const graft_image *seen,
                            graft_image **out, graft_err *e)
{
    int64_t shape[4];
    if (!p->numbered) {
        *out = graft_image_retain((graft_image *)seen);
        return GRAFT_OK;
    }
    graft_image_data(p->picture[i], shape);
    return graft_image_scale(p->picture[i], "area", side_of(shape[2], shape[1]),
                             side_of(shape[1], shape[2]), false, out, e);
}

/* *c, which is used up, with picture i as a reference. */
static graft_status refer(const graft_edit_prompt *p, size_t i, const graft_image *seen,
                          const graft_task *task, graft_cond **c, graft_err *e)
{
    graft_image *sized = NULL;
    graft_latent *latent = NULL;
    graft_cond *more = NULL;
    graft_status st;
    GRAFT_TRY(for_vae(p, i, seen, &sized, e));
    GRAFT_TRY(graft_vae_encode(p->vae, sized, NULL, task, &latent, e));
    GRAFT_TRY(graft_cond_reference(*c, latent, &more, e));
    graft_cond_release(*c);
    *c = more;
out:
    graft_image_release(sized);
    graft_latent_release(latent);
    return st;
}

static graft_status encode_again(const graft_clip *c, const void *what, const graft_task *task,
                                 graft_cond **out, graft_err *e)
{
    return graft_clip_encode_edit(c, what, task, out, e);
}

graft_status graft_clip_encode_edit(const graft_clip *c, const graft_edit_prompt *prompt,
                                    const graft_task *task, graft_cond **out, graft_err *e)
{
    if (c->hooking) return graft_clip_encode_hooked(c, encode_again, prompt, 1, task, out, e);
    graft_edit_prompt sized = *prompt;
    graft_image *seen[GRAFT_EDIT_PICTURES] = {NULL};
    graft_cond *made = NULL;
    graft_status st = GRAFT_OK;
    if (!prompt->n_pictures && !prompt->numbered)
        return graft_clip_encode(c, prompt->text, task, out, e);
    if (prompt->n_pictures > GRAFT_EDIT_PICTURES)
        return graft_fail(e, GRAFT_E_LIMIT, "a prompt shows at most %d pictures",
                          GRAFT_EDIT_PICTURES);
    for (size_t i = 0; i < prompt->n_pictures; i++) {
        GRAFT_TRY(graft_image_scale_pixels(prompt->picture[i], "area",
                                           prompt->numbered ? GLANCE : WHOLE, 1, &seen[i], e));
        sized.picture[i] = seen[i];
    }
    GRAFT_TRY(graft_clip_encode_seen(c, &sized, task, &made, e));
    for (size_t i = 0; i < prompt->n_pictures && prompt->vae; i++)
        GRAFT_TRY(refer(prompt, i, seen[i], task, &made, e));
    *out = made;
    made = NULL;
out:
    for (size_t i = 0; i < prompt->n_pictures; i++)
        if (seen[i]) graft_image_release(seen[i]);
    if (made) graft_cond_release(made);
    return st;
}
