#include "engine/text/qwen.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/text/byte_pairs.h"

/* In the order of their tokens, which follow those of the merges. */
static const char *const marks[] = {"<|endoftext|>",
                                    "<|im_start|>",
                                    "<|im_end|>",
                                    "<|object_ref_start|>",
                                    "<|object_ref_end|>",
                                    "<|box_start|>",
                                    "<|box_end|>",
                                    "<|quad_start|>",
                                    "<|quad_end|>",
                                    "<|vision_start|>",
                                    "<|vision_end|>",
                                    "<|vision_pad|>",
                                    "<|image_pad|>",
                                    "<|video_pad|>",
                                    "<tool_call>",
                                    "</tool_call>",
                                    "<|fim_prefix|>",
                                    "<|fim_middle|>",
                                    "<|fim_suffix|>",
                                    "<|fim_pad|>",
                                    "<|repo_name|>",
                                    "<|file_sep|>",
                                    "<tool_response>",
                                    "</tool_response>",
                                    "<think>",
                                    "</think>"};
enum { MARKS = sizeof marks / sizeof *marks };

struct graft_qwen {
    graft_bpe *bpe;
};

graft_status graft_qwen_create(const char *merges, size_t n, graft_qwen **out, graft_err *e)
{
    *out = NULL;
    graft_qwen *q = graft_calloc(1, sizeof *q);
    if (!q) return graft_fail_nomem(e, "a tokenizer");
    graft_status st = graft_bpe_create(merges, n, GRAFT_BPE_PIECES, &q->bpe, e);
    if (st) {
        graft_free(q);
        return st;
    }
    *out = q;
    return GRAFT_OK;
}

void graft_qwen_destroy(graft_qwen *q)
{
    if (!q) return;
    graft_bpe_destroy(q->bpe);
    graft_free(q);
}

const graft_bpe *graft_qwen_bpe(const graft_qwen *q)
{
    return q->bpe;
}

int32_t graft_qwen_tokens(const graft_qwen *q)
{
    return (int32_t)graft_bpe_tokens(q->bpe) + MARKS;
}

int32_t graft_qwen_mark(const char *text, size_t n, size_t *bytes)
{
    if (n == 0 || *text != '<') return -1;
    for (int32_t i = 0; i < MARKS; i++) {
        *bytes = strlen(marks[i]);
        if (n >= *bytes && memcmp(text, marks[i], *bytes) == 0) return i;
    }
    return -1;
}

/* ------------------------------------------------------------------ pieces */

static size_t piece_at(const uint32_t *cp, size_t n)
{
    return graft_piece_of_words(cp, n, 1);
}

/* ------------------------------------------------------------------ tokens */

static int32_t mark_at(const void *ctx, const char *text, size_t n, size_t *bytes)
{
    const graft_qwen *q = ctx;
    const int32_t mark = graft_qwen_mark(text, n, bytes);
    return mark < 0 ? mark : (int32_t)graft_bpe_tokens(q->bpe) + mark;
}

graft_status graft_qwen_encode(const graft_qwen *q, const char *text, size_t n, int32_t **ids,
                               size_t *count, graft_err *e)
{
    const graft_byte_pairs p = {
        .bpe = q->bpe, .composed = true, .piece = piece_at, .mark = mark_at, .ctx = q};
    return graft_byte_pairs_encode(&p, text, n, ids, count, e);
}
