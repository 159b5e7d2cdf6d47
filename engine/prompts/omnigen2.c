#include "engine/prompts/omnigen2.h"

#include "base/alloc.h"
#include "base/str.h"

#define WISH                                                                                       \
    "<|im_start|>system\nYou are a helpful assistant that generates high-quality images based on " \
    "user instructions.<|im_end|>\n"

graft_status graft_omnigen2_encode(graft_engine *engine, const graft_build_options *options,
                                   const graft_qwen3 *q, const char *text, const graft_task *task,
                                   float **hidden, int64_t *tokens, graft_err *e)
{
    graft_str all = GRAFT_STR_INIT;
    int32_t *ids = NULL;
    size_t n = 0;
    graft_str_printf(&all, WISH GRAFT_QWEN_BEFORE "%s<|im_end|>\n", text);
    graft_status st = all.failed ? graft_fail_nomem(e, "a prompt")
                                 : graft_qwen_encode(q->tokenizer, all.data, all.len, &ids, &n, e);
    graft_str_finish(&all);
    if (!st)
        st = graft_qwen3_hidden(engine, options, q, GRAFT_QWEN3_TAKE_NORMED, ids, n, NULL, 0, 0,
                                task, hidden, tokens, e);
    graft_free(ids);
    return st;
}
