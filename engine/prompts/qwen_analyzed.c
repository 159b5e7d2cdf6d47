#include "engine/prompts/qwen_analyzed.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/prompts/seen_prompt.h"

graft_status graft_clip_check_analyzed(const graft_clip *c, graft_err *e)
{
    graft_status st = graft_clip_there(c, e);
    if (st || c->kind == GRAFT_CLIP_QWEN_IMAGE21) return st;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "these prompts with pictures are for Qwen-Image 2.1's text encoder, Qwen "
                      "3-VL-8B: CLIPLoader with type qwen_image");
}

/* All that the model reads. */
static graft_status put_together(graft_seen_prompt *p, const char *text,
                                 const graft_qwen3_picture *seen, size_t n, graft_err *e)
{
    graft_str all = GRAFT_STR_INIT;
    graft_status st = GRAFT_OK;
    graft_str_puts(&all, GRAFT_QWEN_ANALYZE GRAFT_QWEN_BEFORE);
    for (size_t i = 0; i < n; i++) {
        graft_str_printf(&all, "%s<image%zu>" GRAFT_QWEN_PICTURE, i ? " " : "", i + 1);
        GRAFT_TRY(all.failed ? graft_fail_nomem(e, "a prompt")
                             : graft_seen_prompt_text(p, all.data, e));
        GRAFT_TRY(graft_seen_prompt_picture(p, &seen[i], e));
        graft_str_finish(&all);
        graft_str_puts(&all, GRAFT_QWEN_PICTURE_END);
    }
    graft_str_printf(&all, "%s" GRAFT_QWEN_BEHIND, *text ? text : " ");
    st = all.failed ? graft_fail_nomem(e, "a prompt") : graft_seen_prompt_text(p, all.data, e);
out:
    graft_str_finish(&all);
    return st;
}

graft_status graft_clip_check_among(const graft_clip *c, const char *text,
                                    const graft_qwen3_picture *seen, size_t n, graft_err *e)
{
    graft_seen_prompt p = {.q = c->qwen3};
    graft_status st = put_together(&p, text, seen, n, e);
    if (!st)
        st = graft_qwen3_check_length(&c->qwen3->arch, p.picture, p.n_pictures, (int64_t)p.n, e);
    graft_seen_prompt_finish(&p);
    return st;
}

/* Rows of `hidden` from number `from` on without those of pictures, at its beginning; returns how
 * many. */
static size_t keep_text(const graft_seen_prompt *p, size_t from, size_t width, float *hidden,
                        int64_t *within)
{
    size_t kept = 0;
    for (size_t i = 0; i <= p->n_pictures; i++) {
        const graft_qwen3_picture *k = i < p->n_pictures ? &p->picture[i] : NULL;
        const size_t to = k ? (size_t)k->at : p->n;
        memmove(hidden + kept * width, hidden + from * width, (to - from) * width * sizeof *hidden);
        kept += to - from;
        if (!k) break;
        within[i] = (int64_t)kept;
        from = to + (size_t)k->rows * (size_t)k->columns;
    }
    return kept;
}

graft_status graft_clip_encode_among(const graft_clip *c, const char *text,
                                     const graft_qwen3_picture *seen, size_t n,
                                     const graft_task *task, int64_t *within, graft_cond **out,
                                     graft_err *e)
{
    const graft_qwen3 *q = c->qwen3;
    graft_seen_prompt p = {.q = q};
    size_t before = 0;
    float *hidden = NULL;
    int64_t tokens = 0;
    graft_status st = graft_clip_check_analyzed(c, e);
    if (st) return st;
    const size_t width = (size_t)q->arch.width;
    GRAFT_TRY(graft_seen_prompt_count(q, GRAFT_QWEN_ANALYZE, &before, e));
    GRAFT_TRY(put_together(&p, text, seen, n, e));
    GRAFT_TRY(graft_qwen3_hidden(c->engine, &c->t5_options, q, GRAFT_QWEN3_TAKE_WHOLE, p.ids, p.n,
                                 p.picture, p.n_pictures, 0, task, &hidden, &tokens, e));
    const size_t kept = keep_text(&p, before, width, hidden, within);
    st = graft_cond_create((int64_t)kept, (int64_t)width, hidden, 0, NULL, NULL, out, e);
    hidden = NULL;
out:
    graft_free(hidden);
    graft_seen_prompt_finish(&p);
    return st;
}
