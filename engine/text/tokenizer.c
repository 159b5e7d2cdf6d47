#include "engine/text/tokenizer.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/text/bpe.h"
#include "engine/text/unicode.h"
#include "engine/text/vocab.h"

#define TOKEN_START 49406
#define TOKEN_END   49407

struct graft_tokenizer {
    graft_bpe *bpe;
};

static const struct mark {
    const char *text;
    size_t n;
    int32_t token;
} marks[] = {{"<|startoftext|>", 15, TOKEN_START}, {"<|endoftext|>", 13, TOKEN_END}};

/* One call's state: the word that is being collected, its forms, and the tokens so far. */
typedef struct encoder {
    const graft_bpe *bpe;
    graft_err *e;
    uint32_t *word, *scratch;
    size_t n_word, word_cap, scratch_cap;
    uint8_t *utf8;
    size_t utf8_cap;
    graft_bpe_work work;
    int32_t *ids;
    size_t count, ids_cap;
} encoder;

graft_status graft_tokenizer_create_from(const char *merges, size_t n, graft_tokenizer **out,
                                         graft_err *e)
{
    assert(out);
    *out = NULL;
    graft_tokenizer *t = graft_calloc(1, sizeof *t);
    if (!t) return graft_fail_nomem(e, "a tokenizer");
    graft_status st = graft_bpe_create(merges, n, GRAFT_BPE_WORDS, &t->bpe, e);
    if (st != GRAFT_OK) {
        graft_free(t);
        return st;
    }
    *out = t;
    return GRAFT_OK;
}

graft_status graft_tokenizer_create(graft_tokenizer **out, graft_err *e)
{
    size_t n;
    const char *merges = graft_vocab_merges(&n);
    return graft_tokenizer_create_from(merges, n, out, e);
}

void graft_tokenizer_destroy(graft_tokenizer *t)
{
    if (!t) return;
    graft_bpe_destroy(t->bpe);
    graft_free(t);
}

static graft_status add_ids(encoder *c, const uint32_t *ids, size_t n)
{
    if (graft_grow(&c->ids, &c->ids_cap, c->count + n, sizeof *c->ids) != 0)
        return graft_fail_nomem(c->e, "the tokens of a prompt");
    for (size_t i = 0; i < n; i++) c->ids[c->count++] = (int32_t)ids[i];
    return GRAFT_OK;
}

static graft_status add_mark(encoder *c, const struct mark *m)
{
    uint32_t id = (uint32_t)m->token;
    return add_ids(c, &id, 1);
}

static graft_status add_piece(encoder *c, const uint32_t *cp, size_t n)
{
    graft_status st;
    size_t len = 0;
    if (graft_grow(&c->utf8, &c->utf8_cap, 4 * n, 1) != 0)
        return graft_fail_nomem(c->e, "the text of a word");
    for (size_t i = 0; i < n; i++) len += graft_unicode_encode(cp[i], c->utf8 + len);
    GRAFT_TRY(graft_bpe_word(c->bpe, c->utf8, len, &c->work, c->e));
    GRAFT_TRY(add_ids(c, c->work.token, c->work.count));
out:
    return st;
}

static const struct mark *mark_at(const uint32_t *cp, size_t n)
{
    if (cp[0] != '<') return NULL;
    for (size_t k = 0; k < sizeof marks / sizeof *marks; k++) {
        size_t i = 0;
        while (i < marks[k].n && i < n && cp[i] == (uint8_t)marks[k].text[i]) i++;
        if (i == marks[k].n) return &marks[k];
    }
    return NULL;
}

/* Length of an English ending ('s 't 're 've 'm 'll 'd) at cp, or 0. The pattern ignores case, by
 * which the long s counts as s. */
static size_t ending_at(const uint32_t *cp, size_t n)
{
    if (n < 2 || cp[0] != '\'') return 0;
    uint32_t a = cp[1], b = n > 2 ? cp[2] : 0;
    if (a == 's' || a == 0x17f || a == 't') return 2;
    if ((a == 'r' || a == 'v') && b == 'e') return 3;
    if (a == 'm') return 2;
    if (a == 'l' && b == 'l') return 3;
    return a == 'd' ? 2 : 0;
}

/* Length of the piece at cp: an ending, letters, one number, or anything else. */
static size_t piece_at(const uint32_t *cp, size_t n)
{
    size_t len = ending_at(cp, n);
    if (len > 0) return len;
    graft_unicode_kind first = graft_unicode_class(cp[0]), kind;
    if (first == GRAFT_UNICODE_NUMBER) return 1;
    for (len = 1; len < n; len++) {
        kind = graft_unicode_class(cp[len]);
        if (kind == GRAFT_UNICODE_NUMBER) break;
        if ((kind == GRAFT_UNICODE_LETTER) != (first == GRAFT_UNICODE_LETTER)) break;
    }
    return len;
}

/* Ends the word: composes, lowers, splits and encodes it. */
static graft_status flush_word(encoder *c)
{
    graft_status st = GRAFT_OK;
    size_t n = c->n_word, room = graft_unicode_nfc_room(n);
    c->n_word = 0;
    if (n == 0) return GRAFT_OK;
    if (graft_grow(&c->word, &c->word_cap, room, sizeof *c->word) != 0 ||
        graft_grow(&c->scratch, &c->scratch_cap, 2 * room, sizeof *c->scratch) != 0)
        return graft_fail_nomem(c->e, "a word");
    n = graft_unicode_nfc(c->word, n, c->scratch);
    n = graft_unicode_lower(c->word, n, c->scratch);
    for (size_t i = 0; i < n;) {
        const struct mark *m = mark_at(c->scratch + i, n - i);
        size_t len = m ? m->n : piece_at(c->scratch + i, n - i);
        GRAFT_TRY(m ? add_mark(c, m) : add_piece(c, c->scratch + i, len));
        i += len;
    }
out:
    return st;
}

/* Chinese characters stand as words of their own; kana and Hangul do not (the blocks that BERT's
 * basic tokenizer names). */
static bool is_chinese(uint32_t cp)
{
    return (cp >= 0x3400 && cp <= 0x4dbf) || (cp >= 0x4e00 && cp <= 0x9fff) ||
           (cp >= 0xf900 && cp <= 0xfaff) || (cp >= 0x20000 && cp <= 0x2a6df) ||
           (cp >= 0x2a700 && cp <= 0x2ceaf) || (cp >= 0x2f800 && cp <= 0x2fa1f);
}

static graft_status add_char(encoder *c, uint32_t cp)
{
    graft_status st = GRAFT_OK;
    graft_unicode_kind kind = graft_unicode_class(cp);
    bool alone = is_chinese(cp);
    if (kind == GRAFT_UNICODE_DROP) return GRAFT_OK;
    if (kind == GRAFT_UNICODE_SPACE || alone) GRAFT_TRY(flush_word(c));
    if (kind == GRAFT_UNICODE_SPACE) return GRAFT_OK;
    if (graft_grow(&c->word, &c->word_cap, c->n_word + 1, sizeof *c->word) != 0)
        return graft_fail_nomem(c->e, "a word");
    c->word[c->n_word++] = cp;
    if (alone) GRAFT_TRY(flush_word(c));
out:
    return st;
}

static const struct mark *exact_mark_at(const uint8_t *s, size_t n)
{
    if (*s != '<') return NULL;
    for (size_t k = 0; k < sizeof marks / sizeof *marks; k++)
        if (n >= marks[k].n && memcmp(s, marks[k].text, marks[k].n) == 0) return &marks[k];
    return NULL;
}

graft_status graft_tokenizer_encode(const graft_tokenizer *t, const char *text, size_t n,
                                    int32_t **ids, size_t *count, graft_err *e)
{
    graft_status st = GRAFT_OK;
    assert(t && ids && count && (text || n == 0));
    *ids = NULL;
    *count = 0;
    if (n > GRAFT_TEXT_MAX_BYTES)
        return graft_fail(e, GRAFT_E_LIMIT, "a text of %zu bytes; at most %zu are read", n,
                          GRAFT_TEXT_MAX_BYTES);
    encoder c = {.bpe = t->bpe, .e = e};
    const uint8_t *s = (const uint8_t *)text;
    for (size_t i = 0; i < n;) {
        const struct mark *m = exact_mark_at(s + i, n - i);
        uint32_t cp;
        if (m) {
            GRAFT_TRY(flush_word(&c));
            GRAFT_TRY(add_mark(&c, m));
            i += m->n;
        } else {
            i += graft_unicode_decode(s + i, n - i, &cp);
            GRAFT_TRY(add_char(&c, cp));
        }
    }
    GRAFT_TRY(flush_word(&c));
    *ids = c.ids;
    *count = c.count;
    c.ids = NULL;
out:
    graft_free(c.ids);
    graft_free(c.word);
    graft_free(c.scratch);
    graft_free(c.utf8);
    graft_bpe_work_finish(&c.work);
    return st;
}
