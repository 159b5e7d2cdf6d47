#include "engine/text/llama3.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/text/byte_pairs.h"

enum { BYTES = 256 };

/* In the order of their tokens; those that stand for nothing are left out. */
static const char *const marks[] = {[GRAFT_LLAMA3_BEGIN] = "<|begin_of_text|>",
                                    "<|end_of_text|>",
                                    "<|reserved_special_token_0|>",
                                    "<|reserved_special_token_1|>",
                                    "<|finetune_right_pad_id|>",
                                    "<|reserved_special_token_2|>",
                                    "<|start_header_id|>",
                                    "<|end_header_id|>",
                                    "<|eom_id|>",
                                    [GRAFT_LLAMA3_TURN] = "<|eot_id|>",
                                    "<|python_tag|>"};
enum { MARKS = sizeof marks / sizeof *marks };

struct graft_llama3 {
    graft_bpe *bpe;
};

/* ------------------------------------------------------------------ the vocabulary */

/* The tokens' bytes, one after the other. */
typedef struct token_list {
    uint8_t *bytes;
    uint32_t *end;
    uint32_t n;
} token_list;

static graft_status read_lines(const char *text, size_t n, token_list *list, graft_err *e)
{
    size_t lines = 0, used = 0;
    for (size_t i = 0; i < n; i++) lines += text[i] == '\n';
    if (lines < BYTES || lines > GRAFT_BPE_MOST)
        return graft_fail(e, GRAFT_E_FORMAT, "a list of %zu tokens is none of Llama 3's", lines);
    list->bytes = graft_malloc(n + 1);
    list->end = graft_malloc_array(lines, sizeof *list->end);
    char *name = graft_malloc(n + 1);
    graft_status st =
        list->bytes && list->end && name ? GRAFT_OK : graft_fail_nomem(e, "a tokenizer");
    for (const char *at = text; list->n < lines && !st; list->n++) {
        const char *end = memchr(at, '\n', n - (size_t)(at - text));
        const size_t length = (size_t)(end - at);
        memcpy(name, at, length);
        name[length] = '\0';
        const size_t bytes = length ? graft_bpe_bytes(name, length, list->bytes + used) : 0;
        if (!bytes)
            st = graft_fail(e, GRAFT_E_FORMAT, "token %u is not in the alphabet of bytes", list->n);
        used += bytes;
        list->end[list->n] = (uint32_t)used;
        at = end + 1;
    }
    graft_free(name);
    return st;
}

graft_status graft_llama3_create(const char *tokens, size_t n, graft_llama3 **out, graft_err *e)
{
    token_list list = {0};
    graft_llama3 *t = graft_calloc(1, sizeof *t);
    *out = NULL;
    graft_status st = !t ? graft_fail_nomem(e, "a tokenizer")
                      : n > GRAFT_LLAMA3_MAX_FILE
                          ? graft_fail(e, GRAFT_E_LIMIT, "a vocabulary of %zu bytes", n)
                          : read_lines(tokens, n, &list, e);
    if (!st) st = graft_bpe_create_ranks(list.bytes, list.end, list.n, false, &t->bpe, e);
    graft_free(list.bytes);
    graft_free(list.end);
    if (st)
        graft_llama3_destroy(t);
    else
        *out = t;
    return st;
}

void graft_llama3_destroy(graft_llama3 *t)
{
    if (!t) return;
    graft_bpe_destroy(t->bpe);
    graft_free(t);
}

int32_t graft_llama3_tokens(const graft_llama3 *t)
{
    return (int32_t)graft_bpe_tokens(t->bpe) + MARKS;
}

int32_t graft_llama3_token(const graft_llama3 *t, graft_llama3_mark mark)
{
    return (int32_t)graft_bpe_tokens(t->bpe) + (int32_t)mark;
}

/* ------------------------------------------------------------------ pieces */

static size_t piece_at(const uint32_t *cp, size_t n)
{
    return graft_piece_of_words(cp, n, 3);
}

/* ------------------------------------------------------------------ tokens */

int32_t graft_llama3_mark_at(const char *text, size_t n, size_t *bytes)
{
    if (n == 0 || *text != '<') return -1;
    for (int32_t i = 0; i < MARKS; i++) {
        *bytes = strlen(marks[i]);
        if (n >= *bytes && memcmp(text, marks[i], *bytes) == 0) return i;
    }
    return -1;
}

static int32_t mark_at(const void *ctx, const char *text, size_t n, size_t *bytes)
{
    const graft_llama3 *t = ctx;
    const int32_t mark = graft_llama3_mark_at(text, n, bytes);
    return mark < 0 ? mark : (int32_t)graft_bpe_tokens(t->bpe) + mark;
}

graft_status graft_llama3_encode(const graft_llama3 *t, const char *text, size_t n, int32_t **ids,
                                 size_t *count, graft_err *e)
{
    const graft_byte_pairs p = {.bpe = t->bpe, .piece = piece_at, .mark = mark_at, .ctx = t};
    return graft_byte_pairs_encode(&p, text, n, ids, count, e);
}
