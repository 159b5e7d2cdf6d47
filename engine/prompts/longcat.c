#include "engine/prompts/longcat.h"

#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/models/transformers/flux.h"

#define WISH                                                                                       \
    "<|im_start|>system\nAs an image captioning expert, generate a descriptive text prompt based " \
    "on an image content, suitable for input to a text-to-image "                                  \
    "model.<|im_end|>\n" GRAFT_QWEN_BEFORE
#define PADDING "<|endoftext|>"

/* ------------------------------------------------------------------ quotes */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* How many bytes of the character at p, which does not end the text, belong to it. */
static size_t character(const char *p)
{
    size_t n = 1;
    while (((unsigned char)p[n] & 0xC0) == 0x80) n++;
    return n;
}

/* Behind letters, an apostrophe and letters that begin at p; NULL: they do not stand there. */
static const char *behind_word(const char *p)
{
    const char *mark = p;
    while (is_letter(*mark)) mark++;
    if (mark == p || *mark != '\'' || !is_letter(mark[1])) return NULL;
    for (p = mark + 1; is_letter(*p);) p++;
    return p;
}

static const struct {
    const char *open, *close;
} quotes[] = {
    {"'", "'"}, {"\"", "\""}, {"\xE2\x80\x98", "\xE2\x80\x99"}, {"\xE2\x80\x9C", "\xE2\x80\x9D"}};

/* Behind the quotation that begins at p, whose marks are not within it; NULL: none does. */
static const char *behind_quotation(const char *p)
{
    for (size_t i = 0; i < sizeof quotes / sizeof *quotes; i++) {
        const char *open = quotes[i].open, *close = quotes[i].close;
        if (!graft_str_starts(p, open)) continue;
        for (const char *at = p + strlen(open); *at;) {
            const char *word = behind_word(at);
            if (word) {
                at = word;
                continue;
            }
            if (graft_str_starts(at, close)) return at + strlen(close);
            if (graft_str_starts(at, open)) return NULL;
            if (is_letter(*at))
                while (is_letter(*at)) at++;
            else
                at += character(at);
        }
        return NULL;
    }
    return NULL;
}

static graft_status put_piece(graft_seen_prompt *p, const char *text, size_t n, graft_err *e)
{
    char *piece = n ? graft_strndup(text, n) : NULL;
    if (!n) return GRAFT_OK;
    if (!piece) return graft_fail_nomem(e, "a prompt");
    graft_status st = graft_seen_prompt_text(p, piece, e);
    graft_free(piece);
    return st;
}

graft_status graft_longcat_put(graft_seen_prompt *p, const char *text, graft_err *e)
{
    const size_t most = p->n + GRAFT_LONGCAT_TOKENS;
    const char *plain = text;
    graft_status st = GRAFT_OK;
    while (*text && !st && p->n < most) {
        const char *word = behind_word(text), *end = word ? NULL : behind_quotation(text);
        if (word) {
            text = word;
        } else if (end) {
            st = put_piece(p, plain, (size_t)(text - plain), e);
            for (size_t n; text < end && !st && p->n < most; text += n) {
                n = character(text);
                st = put_piece(p, text, n, e);
            }
            plain = text = end;
        } else if (is_letter(*text)) {
            while (is_letter(*text)) text++;
        } else {
            text += character(text);
        }
    }
    if (!st && p->n < most) st = put_piece(p, plain, strlen(plain), e);
    if (p->n > most) p->n = most;
    return st;
}

/* ------------------------------------------------------------------ prompts */

graft_status graft_longcat_encode_from(graft_engine *engine, const graft_build_options *options,
                                       const graft_seen_prompt *p, size_t from, size_t padded,
                                       const graft_task *task, float **hidden, int64_t *tokens,
                                       graft_err *e)
{
    const graft_qwen3 *q = p->q;
    const size_t width = (size_t)q->arch.width;
    int32_t *padding = NULL;
    float *out = NULL;
    size_t one = 0;
    graft_status st = graft_qwen_encode(q->tokenizer, PADDING, strlen(PADDING), &padding, &one, e);
    if (!st && (one != 1 || p->n < from || padded < p->n))
        st = graft_fail(e, GRAFT_E_INTERNAL, "a prompt without tokens");
    if (!st && !(out = graft_malloc_array(padded, width * sizeof *out)))
        st = graft_fail_nomem(e, "text encoder");
    if (!st)
        st = graft_qwen3_run_padded(engine, options, &q->arch, q->weights, p->ids, (int64_t)p->n,
                                    p->picture, p->n_pictures, padding[0], (int64_t)padded, task,
                                    out, e);
    graft_free(padding);
    if (st) {
        graft_free(out);
        return st;
    }
    memmove(out, out + from * width, (padded - from) * width * sizeof *out);
    *hidden = out;
    *tokens = (int64_t)(padded - from);
    return GRAFT_OK;
}

graft_status graft_longcat_encode(graft_engine *engine, const graft_build_options *options,
                                  const graft_qwen3 *q, const char *text, const graft_task *task,
                                  float **hidden, int64_t *tokens, graft_err *e)
{
    graft_seen_prompt p = {.q = q};
    graft_status st = graft_seen_prompt_text(&p, WISH, e);
    const size_t before = p.n;
    if (!st) st = graft_longcat_put(&p, text, e);
    if (!st)
        st = graft_longcat_encode_from(engine, options, &p, before, before + GRAFT_LONGCAT_TOKENS,
                                       task, hidden, tokens, e);
    graft_seen_prompt_finish(&p);
    return st;
}
