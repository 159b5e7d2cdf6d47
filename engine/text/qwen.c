#include "engine/text/qwen.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"

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

/* One call's state: the characters since the last mark, and the tokens so far. */
typedef struct encoder {
    const graft_qwen *q;
    graft_err *e;
    uint32_t *text, *scratch;
    size_t n, cap, scratch_cap;
    uint8_t *utf8;
    size_t utf8_cap;
    graft_bpe_work work;
    int32_t *ids;
    size_t count, ids_cap;
} encoder;

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

/* White space of Unicode's list; the class has its separators. */
static bool is_space(uint32_t cp)
{
    return (cp >= '\t' && cp <= '\r') || cp == 0x85 ||
           graft_unicode_class(cp) == GRAFT_UNICODE_SPACE;
}

static bool is_letter(uint32_t cp)
{
    return graft_unicode_class(cp) == GRAFT_UNICODE_LETTER;
}

static bool is_number(uint32_t cp)
{
    return graft_unicode_class(cp) == GRAFT_UNICODE_NUMBER;
}

static bool ends_line(uint32_t cp)
{
    return cp == '\r' || cp == '\n';
}

static bool is_other(uint32_t cp)
{
    return !is_space(cp) && !is_letter(cp) && !is_number(cp);
}

static uint32_t lower(uint32_t cp)
{
    return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
}

/* Length of an English ending at cp, or 0; the long s counts as s in either case. */
static size_t ending_at(const uint32_t *cp, size_t n)
{
    if (n < 2 || cp[0] != '\'') return 0;
    uint32_t a = lower(cp[1]), b = n > 2 ? lower(cp[2]) : 0;
    if (a == 's' || a == 0x17f || a == 't' || a == 'm' || a == 'd') return 2;
    return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* Of the white space that cp begins with. */
static size_t space_at(const uint32_t *cp, size_t n)
{
    size_t end = 0, line = 0;
    for (; end < n && is_space(cp[end]); end++)
        if (ends_line(cp[end])) line = end + 1;
    return line ? line : end == n || end == 1 ? end : end - 1;
}

static size_t piece_at(const uint32_t *cp, size_t n)
{
    size_t len = ending_at(cp, n);
    if (len) return len;
    len = !is_letter(cp[0]) && !is_number(cp[0]) && !ends_line(cp[0]);
    if (len < n && is_letter(cp[len])) {
        while (len < n && is_letter(cp[len])) len++;
        return len;
    }
    if (is_number(cp[0])) return 1;
    len = cp[0] == ' ';
    if (len < n && is_other(cp[len])) {
        while (len < n && is_other(cp[len])) len++;
        while (len < n && ends_line(cp[len])) len++;
        return len;
    }
    return space_at(cp, n);
}

/* ------------------------------------------------------------------ tokens */

static graft_status add_id(encoder *c, uint32_t id)
{
    if (graft_grow(&c->ids, &c->ids_cap, c->count + 1, sizeof *c->ids) != 0)
        return graft_fail_nomem(c->e, "the tokens of a prompt");
    c->ids[c->count++] = (int32_t)id;
    return GRAFT_OK;
}

static graft_status add_piece(encoder *c, const uint32_t *cp, size_t n)
{
    graft_status st;
    size_t len = 0;
    if (graft_grow(&c->utf8, &c->utf8_cap, 4 * n, 1) != 0)
        return graft_fail_nomem(c->e, "the text of a word");
    for (size_t i = 0; i < n; i++) len += graft_unicode_encode(cp[i], c->utf8 + len);
    GRAFT_TRY(graft_bpe_word(c->q->bpe, c->utf8, len, &c->work, c->e));
    for (size_t i = 0; i < c->work.count; i++) GRAFT_TRY(add_id(c, c->work.token[i]));
out:
    return st;
}

/* What was collected: composed, cut up and encoded. */
static graft_status flush(encoder *c)
{
    graft_status st = GRAFT_OK;
    size_t n = c->n, room = graft_unicode_nfc_room(n);
    c->n = 0;
    if (n == 0) return GRAFT_OK;
    if (graft_grow(&c->text, &c->cap, room, sizeof *c->text) != 0 ||
        graft_grow(&c->scratch, &c->scratch_cap, room, sizeof *c->scratch) != 0)
        return graft_fail_nomem(c->e, "a prompt");
    n = graft_unicode_nfc(c->text, n, c->scratch);
    for (size_t i = 0, len; i < n; i += len) {
        len = piece_at(c->text + i, n - i);
        GRAFT_TRY(add_piece(c, c->text + i, len));
    }
out:
    return st;
}

static graft_status add_char(encoder *c, uint32_t cp)
{
    if (graft_grow(&c->text, &c->cap, c->n + 1, sizeof *c->text) != 0)
        return graft_fail_nomem(c->e, "a prompt");
    c->text[c->n++] = cp;
    return GRAFT_OK;
}

graft_status graft_qwen_encode(const graft_qwen *q, const char *text, size_t n, int32_t **ids,
                               size_t *count, graft_err *e)
{
    graft_status st = GRAFT_OK;
    assert(q && ids && count && (text || n == 0));
    *ids = NULL;
    *count = 0;
    if (n > GRAFT_TEXT_MAX_BYTES)
        return graft_fail(e, GRAFT_E_LIMIT, "a text of %zu bytes; at most %zu are read", n,
                          GRAFT_TEXT_MAX_BYTES);
    encoder c = {.q = q, .e = e};
    for (size_t i = 0, len; i < n; i += len) {
        const int32_t mark = graft_qwen_mark(text + i, n - i, &len);
        uint32_t cp;
        if (mark >= 0) {
            GRAFT_TRY(flush(&c));
            GRAFT_TRY(add_id(&c, graft_bpe_tokens(q->bpe) + (uint32_t)mark));
        } else {
            len = graft_unicode_decode((const uint8_t *)text + i, n - i, &cp);
            GRAFT_TRY(add_char(&c, cp));
        }
    }
    GRAFT_TRY(flush(&c));
    *ids = c.ids;
    *count = c.count;
    c.ids = NULL;
out:
    graft_free(c.ids);
    graft_free(c.text);
    graft_free(c.scratch);
    graft_free(c.utf8);
    graft_bpe_work_finish(&c.work);
    return st;
}
