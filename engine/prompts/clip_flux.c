/* FLUX.1's text encoders: T5's tokens are what the network reads, CLIP-L gives the pooled text
 * alone. */
#include "base/alloc.h"
#include "engine/prompts/clip_hooks.h"
#include "engine/prompts/t5.h"

static graft_status encode_again(const graft_clip *c, const void *what, const graft_task *task,
                                 graft_cond **out, graft_err *e)
{
    const char *const *text = what;
    return graft_clip_encode_flux(c, text[0], text[1], task, out, e);
}

graft_status graft_clip_encode_flux(const graft_clip *c, const char *text_l, const char *text_t5,
                                    const graft_task *task, graft_cond **out, graft_err *e)
{
    const char *const texts[] = {text_l, text_t5};
    if (c->hooking) return graft_clip_encode_hooked(c, encode_again, texts, 1, task, out, e);
    graft_encoded l = {0};
    float *hidden = NULL;
    int64_t tokens = 0;
    *out = NULL;
    graft_status st = graft_clip_there(c, e);
    if (st) return st;
    if (c->kind != GRAFT_CLIP_FLUX)
        return graft_fail(e, GRAFT_E_ARG, "these text encoders are not those of FLUX");
    st = graft_clip_encode_one(c, 0, text_l, task, &l, e);
    if (!st)
        st =
            graft_t5_encode(c->engine, &c->t5_options, c->t5, text_t5,
                            graft_clip_t5_padding(c, GRAFT_FLUX_TOKENS), task, &hidden, &tokens, e);
    if (!st) {
        st = graft_cond_create(tokens, c->t5->arch.width, hidden,
                               graft_encoder_pooled_width(&c->encoder[0]), l.pooled, NULL, out, e);
        l.pooled = NULL; /* taken, also by a failure */
    }
    graft_encoded_finish(&l);
    return st;
}
