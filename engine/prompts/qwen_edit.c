/* Qwen-Image-Edit's and LongCat-Image-Edit's prompts: a text, and the pictures that it speaks of,
 * in the form that the models were trained with. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/conditioning.h"
#include "engine/models/transformers/flux.h"
#include "engine/prompts/longcat.h"
#include "engine/prompts/qwen_vision.h"
#include "engine/prompts/seen_prompt.h"

#define BEFORE                                                                                     \
    "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, "       \
    "texture, objects, background), then explain how the user's text instruction should alter or " \
    "modify the image. Generate a new image that meets the user's requirements while maintaining " \
    "consistency with the original input where appropriate.<|im_end|>\n" GRAFT_QWEN_BEFORE

/* LongCat-Image-Edit's. */
#define BEFORE_LONGCAT                                                                             \
    "<|im_start|>system\nAs an image editing expert, first analyze the content and attributes of " \
    "the input image(s). Then, based on the user's editing instructions, clearly and precisely "   \
    "determine how to modify the given image(s), ensuring that only the specified parts are "      \
    "altered and all other aspects remain consistent with the "                                    \
    "original(s).<|im_end|>\n" GRAFT_QWEN_BEFORE

static const char *before_of(const graft_clip *c)
{
    return c->kind == GRAFT_CLIP_LONGCAT ? BEFORE_LONGCAT : BEFORE;
}

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

/* All that the model reads, but for LongCat-Image's padding; *before: tokens ahead of its text. */
static graft_status put_together(edit *p, const graft_edit_prompt *prompt, const graft_clip *c,
                                 const graft_task *task, size_t *before, graft_err *e)
{
    const bool longcat = c->kind == GRAFT_CLIP_LONGCAT;
    graft_str text = GRAFT_STR_INIT;
    graft_status st = GRAFT_OK;
    graft_str_puts(&text, before_of(c));
    for (size_t i = 0; i < prompt->n_pictures; i++) {
        if (prompt->numbered && !longcat) graft_str_printf(&text, "Picture %zu: ", i + 1);
        graft_str_puts(&text, GRAFT_QWEN_PICTURE);
        GRAFT_TRY(text.failed ? graft_fail_nomem(e, "a prompt")
                              : graft_seen_prompt_text(&p->prompt, text.data, e));
        GRAFT_TRY(add_picture(p, c->engine, &c->t5_options, prompt->picture[i], task, e));
        graft_str_finish(&text);
        graft_str_puts(&text, GRAFT_QWEN_PICTURE_END);
    }
    if (!longcat) graft_str_printf(&text, "%s%s", prompt->text, GRAFT_QWEN_BEHIND);
    st = text.failed ? graft_fail_nomem(e, "a prompt")
                     : graft_seen_prompt_text(&p->prompt, text.data, e);
    *before = p->prompt.n;
    if (!st && longcat) st = graft_longcat_put(&p->prompt, prompt->text, e);
out:
    graft_str_finish(&text);
    return st;
}

static graft_status check_clip(const graft_clip *c, const graft_edit_prompt *prompt, graft_err *e)
{
    graft_status st = graft_clip_there(c, e);
    if (st) return st;
    if (c->kind != GRAFT_CLIP_QWEN_IMAGE && c->kind != GRAFT_CLIP_LONGCAT)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "prompts with pictures are for the text encoder of Qwen-Image-Edit and "
                          "LongCat-Image-Edit, Qwen 2.5-VL: CLIPLoader with type qwen_image or "
                          "longcat_image");
    if (prompt->n_pictures > GRAFT_EDIT_PICTURES)
        return graft_fail(e, GRAFT_E_LIMIT, "a prompt shows at most %d pictures",
                          GRAFT_EDIT_PICTURES);
    return GRAFT_OK;
}

graft_status graft_clip_encode_seen(const graft_clip *c, const graft_edit_prompt *prompt,
                                    const graft_task *task, graft_cond **out, graft_err *e)
{
    edit p = {.prompt.q = c->qwen3};
    size_t before = 0, text = 0;
    float *hidden = NULL;
    int64_t tokens = 0;
    graft_status st = check_clip(c, prompt, e);
    if (st) return st;
    GRAFT_TRY(graft_seen_prompt_count(c->qwen3, before_of(c), &before, e));
    GRAFT_TRY(put_together(&p, prompt, c, task, &text, e));
    GRAFT_TRY(c->kind == GRAFT_CLIP_LONGCAT
                  ? graft_longcat_encode_from(c->engine, &c->t5_options, &p.prompt, before,
                                              text + GRAFT_LONGCAT_TOKENS, task, &hidden, &tokens,
                                              e)
                  : graft_qwen3_hidden(c->engine, &c->t5_options, c->qwen3, GRAFT_QWEN3_TAKE_NORMED,
                                       p.prompt.ids, p.prompt.n, p.prompt.picture,
                                       p.prompt.n_pictures, before, task, &hidden, &tokens, e));
    st = graft_cond_create(tokens, c->qwen3->arch.width, hidden, 0, NULL, NULL, out, e);
out:
    graft_seen_prompt_finish(&p.prompt);
    for (size_t i = 0; i < p.n_cells; i++) graft_free(p.cells[i]);
    return st;
}
