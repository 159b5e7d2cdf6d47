/* Qwen-Image-Edit's prompts: a text, and the pictures that it speaks of, in the form that the model
 * was trained with. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/conditioning.h"
#include "engine/prompts/qwen_vision.h"

#define BEFORE                                                                                     \
    "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, "       \
    "texture, objects, background), then explain how the user's text instruction should alter or " \
    "modify the image. Generate a new image that meets the user's requirements while maintaining " \
    "consistency with the original input where appropriate.<|im_end|>\n<|im_start|>user\n"
#define BEHIND "<|im_end|>\n<|im_start|>assistant\n"
#define BEGIN  "<|vision_start|>"
#define END    "<|vision_end|>"

/* The tokens so far, and where pictures are among them. */
typedef struct edit {
    const graft_qwen3 *q;
    int32_t *ids;
    size_t n, cap;
    graft_qwen3_picture picture[GRAFT_EDIT_PICTURES];
    float *cells[GRAFT_EDIT_PICTURES];
    size_t n_pictures;
} edit;

static graft_status add_text(edit *p, const char *text, graft_err *e)
{
    int32_t *ids = NULL;
    size_t n = 0;
    graft_status st = graft_qwen_encode(p->q->tokenizer, text, strlen(text), &ids, &n, e);
    if (!st && p->n + n > p->cap && graft_grow(&p->ids, &p->cap, p->n + n, sizeof *p->ids))
        st = graft_fail_nomem(e, "a prompt");
    if (!st && n) memcpy(p->ids + p->n, ids, n * sizeof *ids);
    if (!st) p->n += n;
    graft_free(ids);
    return st;
}

/* A token for each cell; which one does not count. */
static graft_status add_picture(edit *p, graft_engine *engine, const graft_build_options *options,
                                const graft_image *picture, const graft_task *task, graft_err *e)
{
    graft_qwen3_picture *k = &p->picture[p->n_pictures];
    graft_status st =
        graft_qwen3_see(engine, options, p->q, picture, task, k, &p->cells[p->n_pictures], e);
    if (st) return st;
    const size_t cells = (size_t)k->rows * (size_t)k->columns;
    p->n_pictures++;
    k->at = (int64_t)p->n;
    if (p->n + cells > p->cap && graft_grow(&p->ids, &p->cap, p->n + cells, sizeof *p->ids))
        return graft_fail_nomem(e, "a prompt");
    memset(p->ids + p->n, 0, cells * sizeof *p->ids);
    p->n += cells;
    return GRAFT_OK;
}

/* How many tokens stand before the user's question. */
static graft_status count_before(const graft_qwen3 *q, size_t *n, graft_err *e)
{
    int32_t *ids = NULL;
    graft_status st = graft_qwen_encode(q->tokenizer, BEFORE, strlen(BEFORE), &ids, n, e);
    graft_free(ids);
    return st;
}

/* All that the model reads. What stands between two marks can be encoded by itself. */
static graft_status put_together(edit *p, const graft_edit_prompt *prompt, graft_engine *engine,
                                 const graft_build_options *options, const graft_task *task,
                                 graft_err *e)
{
    graft_str text = GRAFT_STR_INIT;
    graft_status st = GRAFT_OK;
    graft_str_puts(&text, BEFORE);
    for (size_t i = 0; i < prompt->n_pictures; i++) {
        if (prompt->numbered) graft_str_printf(&text, "Picture %zu: ", i + 1);
        graft_str_puts(&text, BEGIN);
        GRAFT_TRY(text.failed ? graft_fail_nomem(e, "a prompt") : add_text(p, text.data, e));
        GRAFT_TRY(add_picture(p, engine, options, prompt->picture[i], task, e));
        graft_str_finish(&text);
        graft_str_puts(&text, END);
    }
    graft_str_printf(&text, "%s%s", prompt->text, BEHIND);
    st = text.failed ? graft_fail_nomem(e, "a prompt") : add_text(p, text.data, e);
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
    edit p = {.q = c->qwen3};
    size_t before = 0;
    float *hidden = NULL;
    graft_status st = check_clip(c, prompt, e);
    if (st) return st;
    const size_t width = (size_t)p.q->arch.width;
    GRAFT_TRY(count_before(p.q, &before, e));
    GRAFT_TRY(put_together(&p, prompt, c->engine, &c->t5_options, task, e));
    if (p.n <= before) {
        st = graft_fail(e, GRAFT_E_INTERNAL, "a prompt without tokens");
        goto out;
    }
    hidden = graft_malloc_array(p.n, width * sizeof *hidden);
    if (!hidden) {
        st = graft_fail_nomem(e, "text encoder");
        goto out;
    }
    GRAFT_TRY(graft_qwen3_run_seen(c->engine, &c->t5_options, &p.q->arch, p.q->weights,
                                   GRAFT_QWEN3_TAKE_NORMED, p.ids, (int64_t)p.n, p.picture,
                                   p.n_pictures, task, hidden, e));
    memmove(hidden, hidden + before * width, (p.n - before) * width * sizeof *hidden);
    st = graft_cond_create((int64_t)(p.n - before), (int64_t)width, hidden, 0, NULL, NULL, out, e);
    hidden = NULL;
out:
    graft_free(hidden);
    graft_free(p.ids);
    for (size_t i = 0; i < p.n_pictures; i++) graft_free(p.cells[i]);
    return st;
}
