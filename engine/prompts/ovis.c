#include "engine/prompts/ovis.h"

#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/models/transformers/flux.h"

#define WISH                                                                                       \
    "Describe the image by detailing the color, quantity, text, shape, size, texture, spatial "    \
    "relationships of the objects and background: "

/* Of all that is read, as many as count. */
static graft_status tokens_of(const graft_qwen3 *q, const char *text, int32_t **ids, size_t *n,
                              graft_err *e)
{
    graft_str all = GRAFT_STR_INIT;
    graft_str_printf(&all, GRAFT_QWEN_BEFORE WISH "%s" GRAFT_QWEN_BEHIND GRAFT_QWEN_THOUGHTS, text);
    graft_status st = all.failed ? graft_fail_nomem(e, "a prompt")
                                 : graft_qwen_encode(q->tokenizer, all.data, all.len, ids, n, e);
    graft_str_finish(&all);
    if (!st && *n > GRAFT_OVIS_BEGIN + GRAFT_OVIS_TOKENS) *n = GRAFT_OVIS_BEGIN + GRAFT_OVIS_TOKENS;
    if (!st && *n <= GRAFT_OVIS_BEGIN)
        st = graft_fail(e, GRAFT_E_INTERNAL, "a prompt without tokens");
    return st;
}

graft_status graft_ovis_encode(graft_engine *engine, const graft_build_options *options,
                               const graft_qwen3 *q, const char *text, const graft_task *task,
                               float **hidden, int64_t *tokens, graft_err *e)
{
    const size_t width = (size_t)q->arch.width, all = GRAFT_OVIS_BEGIN + GRAFT_OVIS_TOKENS;
    int32_t *ids = NULL;
    float *out = NULL;
    size_t n = 0;
    graft_status st = tokens_of(q, text, &ids, &n, e);
    if (!st && !(out = graft_calloc(all, width * sizeof *out)))
        st = graft_fail_nomem(e, "text encoder");
    if (!st)
        st = graft_qwen3_run(engine, options, &q->arch, q->weights, GRAFT_QWEN3_TAKE_NORMED, ids,
                             (int64_t)n, task, out, e);
    graft_free(ids);
    if (st) {
        graft_free(out);
        return st;
    }
    memmove(out, out + GRAFT_OVIS_BEGIN * width, GRAFT_OVIS_TOKENS * width * sizeof *out);
    *hidden = out;
    *tokens = GRAFT_OVIS_TOKENS;
    return GRAFT_OK;
}
