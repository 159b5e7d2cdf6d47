#include "engine/text/byte_pairs.h"

#include <assert.h>

#include "base/alloc.h"
#include "engine/text/tokenizer.h"

/* One call's state: the characters since the last mark, and the tokens so far. */
typedef struct encoder {
    const graft_byte_pairs *p;
    graft_err *e;
    uint32_t *text, *scratch;
    size_t n, cap, scratch_cap;
    uint8_t *utf8;
    size_t utf8_cap;
    graft_bpe_work work;
    int32_t *ids;
    size_t count, ids_cap;
} encoder;

size_t graft_piece_space(const uint32_t *cp, size_t n)
{
    size_t end = 0, line = 0;
    for (; end < n && graft_piece_is_space(cp[end]); end++)
        if (graft_piece_ends_line(cp[end])) line = end + 1;
    return line ? line : end == n || end == 1 ? end : end - 1;
}

static uint32_t lower(uint32_t cp)
{
    return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
}

/* Length of an English ending at cp, or 0; the long s counts as s in either case. */
static size_t ending_at(const uint32_t *cp, size_t n)
{
    if (n < 2 || cp[0] != '\'') return 0;
    const uint32_t a = lower(cp[1]), b = n > 2 ? lower(cp[2]) : 0;
    if (a == 's' || a == 0x17f || a == 't' || a == 'm' || a == 'd') return 2;
    return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

size_t graft_piece_of_words(const uint32_t *cp, size_t n, size_t numbers)
{
    size_t len = ending_at(cp, n);
    if (len) return len;
    len = !graft_piece_is_letter(cp[0]) && !graft_piece_is_number(cp[0]) &&
          !graft_piece_ends_line(cp[0]);
    if (len < n && graft_piece_is_letter(cp[len])) {
        while (len < n && graft_piece_is_letter(cp[len])) len++;
        return len;
    }
    for (len = 0; len < n && len < numbers && graft_piece_is_number(cp[len]);) len++;
    if (len) return len;
    len = cp[0] == ' ';
    if (len < n && graft_piece_is_other(cp[len])) {
        while (len < n && graft_piece_is_other(cp[len])) len++;
        while (len < n && graft_piece_ends_line(cp[len])) len++;
        return len;
    }
    return graft_piece_space(cp, n);
}

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
    GRAFT_TRY(graft_bpe_word(c->p->bpe, c->utf8, len, &c->work, c->e));
    for (size_t i = 0; i < c->work.count; i++) GRAFT_TRY(add_id(c, c->p->first + c->work.token[i]));
out:
    return st;
}

static graft_status compose(encoder *c, size_t *n)
{
    const size_t room = graft_unicode_nfc_room(*n);
    if (graft_grow(&c->text, &c->cap, room, sizeof *c->text) != 0 ||
        graft_grow(&c->scratch, &c->scratch_cap, room, sizeof *c->scratch) != 0)
        return graft_fail_nomem(c->e, "a prompt");
    *n = graft_unicode_nfc(c->text, *n, c->scratch);
    return GRAFT_OK;
}

/* What was collected: composed, cut up and encoded. */
static graft_status flush(encoder *c)
{
    graft_status st = GRAFT_OK;
    size_t n = c->n;
    c->n = 0;
    if (n == 0) return GRAFT_OK;
    if (c->p->composed) GRAFT_TRY(compose(c, &n));
    for (size_t i = 0, len; i < n; i += len) {
        len = c->p->piece(c->text + i, n - i);
        assert(len > 0 && len <= n - i);
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

graft_status graft_byte_pairs_encode(const graft_byte_pairs *p, const char *text, size_t n,
                                     int32_t **ids, size_t *count, graft_err *e)
{
    graft_status st = GRAFT_OK;
    assert(p && ids && count && (text || n == 0));
    *ids = NULL;
    *count = 0;
    if (n > GRAFT_TEXT_MAX_BYTES)
        return graft_fail(e, GRAFT_E_LIMIT, "a text of %zu bytes; at most %zu are read", n,
                          GRAFT_TEXT_MAX_BYTES);
    encoder c = {.p = p, .e = e};
    for (size_t i = 0, len; i < n; i += len) {
        const int32_t mark = p->mark(p->ctx, text + i, n - i, &len);
        uint32_t cp;
        if (mark >= 0) {
            GRAFT_TRY(flush(&c));
            GRAFT_TRY(add_id(&c, (uint32_t)mark));
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
