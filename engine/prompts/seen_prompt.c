#include "engine/prompts/seen_prompt.h"

#include <string.h>

#include "base/alloc.h"

static graft_status more(graft_seen_prompt *p, size_t n, graft_err *e)
{
    return p->n + n > p->cap && graft_grow(&p->ids, &p->cap, p->n + n, sizeof *p->ids)
               ? graft_fail_nomem(e, "a prompt")
               : GRAFT_OK;
}

graft_status graft_seen_prompt_text(graft_seen_prompt *p, const char *text, graft_err *e)
{
    int32_t *ids = NULL;
    size_t n = 0;
    graft_status st = graft_qwen_encode(p->q->tokenizer, text, strlen(text), &ids, &n, e);
    if (!st) st = more(p, n, e);
    if (!st && n) memcpy(p->ids + p->n, ids, n * sizeof *ids);
    if (!st) p->n += n;
    graft_free(ids);
    return st;
}

graft_status graft_seen_prompt_picture(graft_seen_prompt *p, const graft_qwen3_picture *seen,
                                       graft_err *e)
{
    const size_t cells = (size_t)seen->rows * (size_t)seen->columns;
    if (p->n_pictures == GRAFT_REFERENCES)
        return graft_fail(e, GRAFT_E_LIMIT, "a prompt shows at most %d pictures", GRAFT_REFERENCES);
    graft_status st = more(p, cells, e);
    if (st) return st;
    p->picture[p->n_pictures] = *seen;
    p->picture[p->n_pictures++].at = (int64_t)p->n;
    memset(p->ids + p->n, 0, cells * sizeof *p->ids);
    p->n += cells;
    return GRAFT_OK;
}

void graft_seen_prompt_finish(graft_seen_prompt *p)
{
    graft_free(p->ids);
    p->ids = NULL;
}

graft_status graft_seen_prompt_count(const graft_qwen3 *q, const char *text, size_t *n,
                                     graft_err *e)
{
    int32_t *ids = NULL;
    graft_status st = graft_qwen_encode(q->tokenizer, text, strlen(text), &ids, n, e);
    graft_free(ids);
    return st;
}
