/* Qwen-Image-Edit's prompts: a text, and the pictures that it speaks of, in the form that the model
 * was trained with. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/conditioning.h"
#include "engine/prompts/qwen_vision.h"
#include "engine/prompts/seen_prompt.h"

#define BEFORE                                                                                     \
    "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, "       \
    "texture, objects, background), then explain how the user's text instruction should alter or " \
    "modify the image. Generate a new image that meets the user's requirements while maintaining " \
    "consistency with the original input where appropriate.<|im_end|>\n" GRAFT_QWEN_BEFORE

typedef struct edit {
    graft_seen_prompt prompt;
    float *cells[GRAFT_EDIT_PICTURES];
    size_t n_cells;
} edit;

static graft_status add_picture(edit *p, graft_engine *engine, const graft_build_options *options,
                                const graft_image *picture, const graft_task *task, graft_err *e)
{
    graft_qwen3_picture k = {0};
    graft_status st =
        graft_qwen3_see(engine, options, p->prompt.q, picture, task, &k, &p->cells[p->n_cells], e);
    if (st) return st;
    p->n_cells++;
    return graft_seen_prompt_picture(&p->prompt, &k, e);
}

/* All that the model reads. */
static graft_status put_together(edit *p, const graft_edit_prompt *prompt, graft_engine *engine,
                                 const graft_build_options *options, const graft_task *task,
                                 graft_err *e)
{
    graft_str text = GRAFT_STR_INIT;
    graft_status st = GRAFT_OK;
    graft_str_puts(&text, BEFORE);
    for (size_t i = 0; i < prompt->n_pictures; i++) {
        if (prompt->numbered) graft_str_printf(&text, "Picture %zu: ", i + 1);
        graft_str_puts(&text, GRAFT_QWEN_PICTURE);
        GRAFT_TRY(text.failed ? graft_fail_nomem(e, "a prompt")
                              : graft_seen_prompt_text(&p->prompt, text.data, e));
        GRAFT_TRY(add_picture(p, engine, options, prompt->picture[i], task, e));
        graft_str_finish(&text);
        graft_str_puts(&text, GRAFT_QWEN_PICTURE_END);
    }
    graft_str_printf(&text, "%s%s", prompt->text, GRAFT_QWEN_BEHIND);
    st = text.failed ? graft_fail_nomem(e, "a prompt")
                     : graft_seen_prompt_text(&p->prompt, text.data, e);
out:
    graft_str_finish(&text);
    return st;
}

static graft_status check_clip(const graft_clip *c, const graft_edit_prompt *prompt, graft_err *e)
{
    graft_status st = graft_clip_there(c, e);
    if (st) return st;
    if (c->kind != GRAFT_CLIP_QWEN_IMAGE)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "prompts with pictures are for Qwen-Image-Edit's text encoder, Qwen "
                          "2.5-VL: CLIPLoader with type qwen_image");
    if (prompt->n_pictures > GRAFT_EDIT_PICTURES)
        return graft_fail(e, GRAFT_E_LIMIT, "a prompt shows at most %d pictures",
                          GRAFT_EDIT_PICTURES);
    return GRAFT_OK;
}

graft_status graft_clip_encode_seen(const graft_clip *c, const graft_edit_prompt *prompt,
                                    const graft_task *task, graft_cond **out, graft_err *e)
{
    edit p = {.prompt.q = c->qwen3};
    size_t before = 0;
    float *hidden = NULL;
    graft_status st = check_clip(c, prompt, e);
    if (st) return st;
    const graft_qwen3 *q = c->qwen3;
    const size_t width = (size_t)q->arch.width;
    GRAFT_TRY(graft_seen_prompt_count(q, BEFORE, &before, e));
    GRAFT_TRY(put_together(&p, prompt, c->engine, &c->t5_options, task, e));
    const size_t n = p.prompt.n;
    if (n <= before) {
        st = graft_fail(e, GRAFT_E_INTERNAL, "a prompt without tokens");
        goto out;
    }
    hidden = graft_malloc_array(n, width * sizeof *hidden);
    if (!hidden) {
        st = graft_fail_nomem(e, "text encoder");
        goto out;
    }
    GRAFT_TRY(graft_qwen3_run_seen(c->engine, &c->t5_options, &q->arch, q->weights,
                                   GRAFT_QWEN3_TAKE_NORMED, p.prompt.ids, (int64_t)n,
                                   p.prompt.picture, p.prompt.n_pictures, task, hidden, e));
    memmove(hidden, hidden + before * width, (n - before) * width * sizeof *hidden);
    st = graft_cond_create((int64_t)(n - before), (int64_t)width, hidden, 0, NULL, NULL, out, e);
    hidden = NULL;
out:
    graft_free(hidden);
    graft_seen_prompt_finish(&p.prompt);
    for (size_t i = 0; i < p.n_cells; i++) graft_free(p.cells[i]);
    return st;
}
