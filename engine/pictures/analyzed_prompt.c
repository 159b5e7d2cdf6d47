/* Prompts with pictures for Qwen-Image 2.1: how the text encoder and the VAE see them. */
#include "base/alloc.h"
#include "engine/conditioning.h"
#include "engine/pictures.h"
#include "engine/prompts/clip_hooks.h"
#include "engine/prompts/qwen_analyzed.h"
#include "engine/prompts/qwen_vision.h"

/* Pixels of a picture's sides: a cell of the text encoder, and two of the latent. */
#define STEP 32
_Static_assert(GRAFT_ANALYZED_PICTURES == GRAFT_REFERENCES, "as many as a network sees");

/* The pictures of both prompts. */
typedef struct analyzed {
    graft_qwen3_picture seen[GRAFT_ANALYZED_PICTURES];
    float *cells[GRAFT_ANALYZED_PICTURES];
    graft_latent *latent[GRAFT_ANALYZED_PICTURES];
} analyzed;

graft_status graft_analyzed_size(const graft_image *picture, int64_t side, int64_t *width,
                                 int64_t *height, graft_err *e)
{
    int64_t shape[4];
    graft_image_data(picture, shape);
    return graft_image_resolution(shape[2], shape[1],
                                  (double)side * (double)side / (1024.0 * 1024.0), STEP, width,
                                  height, e);
}

/* What is transparent on white; a picture without transparency is itself. */
static graft_status on_white(const graft_image *picture, graft_image **out, graft_err *e)
{
    int64_t shape[4];
    const float *from = graft_image_data(picture, shape);
    if (shape[3] != 4) {
        *out = graft_image_retain((graft_image *)picture);
        return GRAFT_OK;
    }
    const int64_t n = shape[0] * shape[1] * shape[2];
    shape[3] = 3;
    float *to = graft_malloc_array((size_t)n, 3 * sizeof *to);
    if (!to) return graft_fail_nomem(e, "a picture for a text encoder");
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < 3; c++) to[3 * i + c] = 1 + (from[4 * i + c] - 1) * from[4 * i + 3];
    graft_status st = graft_image_from_data(to, shape, false, out, e);
    graft_free(to);
    return st;
}

static graft_status look(const graft_clip *c, const graft_analyzed_prompt *p, size_t i,
                         const graft_task *task, analyzed *a, graft_err *e)
{
    graft_image *sized = NULL, *shown = NULL;
    int64_t width, height;
    graft_status st;
    GRAFT_TRY(graft_analyzed_size(p->picture[i], p->side, &width, &height, e));
    GRAFT_TRY(graft_image_scale(p->picture[i], "lanczos", width, height, false, &sized, e));
    GRAFT_TRY(on_white(sized, &shown, e));
    GRAFT_TRY(graft_qwen3_see(c->engine, &c->t5_options, c->qwen3, shown, task, &a->seen[i],
                              &a->cells[i], e));
    GRAFT_TRY(graft_vae_encode(p->vae, sized, NULL, task, &a->latent[i], e));
out:
    graft_image_release(sized);
    graft_image_release(shown);
    return st;
}

static graft_status encode(const graft_clip *c, const char *text, const analyzed *a, size_t n,
                           const graft_task *task, graft_cond **out, graft_err *e)
{
    int64_t within[GRAFT_ANALYZED_PICTURES] = {0};
    graft_cond *made = NULL, *more = NULL;
    graft_status st = graft_clip_encode_among(c, text, a->seen, n, task, within, &made, e);
    for (size_t i = 0; i < n && !st; i++) {
        st = graft_cond_reference_within(made, a->latent[i], within[i], &more, e);
        if (st) break;
        graft_cond_release(made);
        made = more;
    }
    if (st)
        graft_cond_release(made);
    else
        *out = made;
    return st;
}

static graft_status check(const graft_clip *c, const graft_analyzed_prompt *p, graft_err *e)
{
    if (p->n_pictures > GRAFT_ANALYZED_PICTURES)
        return graft_fail(e, GRAFT_E_LIMIT, "a prompt shows at most %d pictures",
                          GRAFT_ANALYZED_PICTURES);
    if (p->n_pictures && !p->vae)
        return graft_fail(e, GRAFT_E_ARG,
                          "a prompt with pictures for Qwen-Image 2.1 without a VAE, which shows "
                          "them to the network");
    return graft_clip_check_analyzed(c, e);
}

/* Looking at many large pictures takes minutes: what is too long is told before. */
static graft_status check_length(const graft_clip *c, const graft_analyzed_prompt *p, graft_err *e)
{
    graft_qwen3_picture cells[GRAFT_ANALYZED_PICTURES] = {{0}};
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < p->n_pictures && !st; i++) {
        int64_t width, height;
        st = graft_analyzed_size(p->picture[i], p->side, &width, &height, e);
        if (!st) st = graft_qwen3_cells(c->qwen3, height, width, &cells[i], e);
    }
    for (int i = 0; i < 2 && !st; i++)
        st = graft_clip_check_among(c, p->text[i], cells, p->n_pictures, e);
    return st;
}

static graft_status encode_again(const graft_clip *c, const void *what, const graft_task *task,
                                 graft_cond **out, graft_err *e)
{
    return graft_clip_encode_analyzed(c, what, task, out, e);
}

graft_status graft_clip_encode_analyzed(const graft_clip *c, const graft_analyzed_prompt *prompt,
                                        const graft_task *task, graft_cond *out[2], graft_err *e)
{
    if (c->hooking) return graft_clip_encode_hooked(c, encode_again, prompt, 2, task, out, e);
    const size_t n = prompt->n_pictures;
    graft_cond *made[2] = {NULL};
    analyzed a = {.cells = {NULL}};
    graft_status st = n ? check(c, prompt, e) : GRAFT_OK;
    if (n && !st) st = check_length(c, prompt, e);
    for (size_t i = 0; i < n && !st; i++) st = look(c, prompt, i, task, &a, e);
    for (int i = 0; i < 2 && !st; i++)
        st = n ? encode(c, prompt->text[i], &a, n, task, &made[i], e)
               : graft_clip_encode(c, prompt->text[i], task, &made[i], e);
    for (int i = 0; i < 2; i++) {
        if (st)
            graft_cond_release(made[i]);
        else
            out[i] = made[i];
    }
    for (size_t i = 0; i < GRAFT_ANALYZED_PICTURES; i++) {
        graft_free(a.cells[i]);
        graft_latent_release(a.latent[i]);
    }
    return st;
}
