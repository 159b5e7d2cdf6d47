#include "engine/text/tekken.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/text/byte_pairs.h"

/* In the order of their tokens in files that do not name them. */
static const char *const marks[GRAFT_TEKKEN_MARKS] = {"<unk>",
                                                      "<s>",
                                                      "</s>",
                                                      "[INST]",
                                                      "[/INST]",
                                                      "[AVAILABLE_TOOLS]",
                                                      "[/AVAILABLE_TOOLS]",
                                                      "[TOOL_RESULTS]",
                                                      "[/TOOL_RESULTS]",
                                                      "[TOOL_CALLS]",
                                                      "[IMG]",
                                                      "<pad>",
                                                      "[IMG_BREAK]",
                                                      "[IMG_END]",
                                                      "[PREFIX]",
                                                      "[MIDDLE]",
                                                      "[SUFFIX]",
                                                      "[SYSTEM_PROMPT]",
                                                      "[/SYSTEM_PROMPT]",
                                                      "[TOOL_CONTENT]"};

struct graft_tekken {
    graft_bpe *bpe;
    uint32_t first;
    int32_t id[GRAFT_TEKKEN_MARKS];
};

graft_status graft_tekken_create(graft_bpe *bpe, uint32_t first,
                                 const int32_t id[GRAFT_TEKKEN_MARKS], graft_tekken **out,
                                 graft_err *e)
{
    *out = NULL;
    graft_tekken *t = graft_calloc(1, sizeof *t);
    if (!t) {
        graft_bpe_destroy(bpe);
        return graft_fail_nomem(e, "a tokenizer");
    }
    t->bpe = bpe;
    t->first = first;
    memcpy(t->id, id, sizeof t->id);
    *out = t;
    return GRAFT_OK;
}

void graft_tekken_destroy(graft_tekken *t)
{
    if (!t) return;
    graft_bpe_destroy(t->bpe);
    graft_free(t);
}

int32_t graft_tekken_tokens(const graft_tekken *t)
{
    return (int32_t)(t->first + graft_bpe_tokens(t->bpe));
}

int32_t graft_tekken_token(const graft_tekken *t, graft_tekken_mark mark)
{
    return t->id[mark];
}

const char *graft_tekken_name(graft_tekken_mark mark)
{
    return marks[mark];
}

/* ------------------------------------------------------------------ pieces */

static bool may_be_upper(uint32_t cp)
{
    const graft_unicode_letter_kind k = graft_unicode_letter(cp);
    return k == GRAFT_UNICODE_UPPER || k == GRAFT_UNICODE_EITHER;
}

static bool may_be_lower(uint32_t cp)
{
    const graft_unicode_letter_kind k = graft_unicode_letter(cp);
    return k == GRAFT_UNICODE_LOWER || k == GRAFT_UNICODE_EITHER;
}

/* Where capitals, as many as there are, and then small letters end that begin at `at`; 0: there is
 * no small letter. Where none follows the capitals, the last of them that may be one is it. */
static size_t word_end(const uint32_t *cp, size_t n, size_t at)
{
    size_t last = 0;
    for (; at < n && may_be_upper(cp[at]); at++)
        if (may_be_lower(cp[at])) last = at + 1;
    if (at == n || !may_be_lower(cp[at])) return last;
    while (at < n && may_be_lower(cp[at])) at++;
    return at;
}

/* Where capitals end, behind which no small letters are; 0: there are none. */
static size_t capitals_end(const uint32_t *cp, size_t n, size_t at)
{
    const size_t begin = at;
    while (at < n && may_be_upper(cp[at])) at++;
    return at > begin ? at : 0;
}

static size_t piece_at(const uint32_t *cp, size_t n)
{
    const size_t before = !graft_piece_is_letter(cp[0]) && !graft_piece_is_number(cp[0]) &&
                          !graft_piece_ends_line(cp[0]);
    size_t len = word_end(cp, n, before);
    if (!len && before) len = word_end(cp, n, 0); /* a mark is a letter, too */
    if (!len) len = capitals_end(cp, n, before);
    if (len) return len;
    if (graft_piece_is_number(cp[0])) return 1;
    len = cp[0] == ' ';
    if (len < n && graft_piece_is_other(cp[len])) {
        while (len < n && graft_piece_is_other(cp[len])) len++;
        while (len < n && (graft_piece_ends_line(cp[len]) || cp[len] == '/')) len++;
        return len;
    }
    return graft_piece_space(cp, n);
}

/* ------------------------------------------------------------------ tokens */

static int32_t mark_at(const void *ctx, const char *text, size_t n, size_t *bytes)
{
    const graft_tekken *t = ctx;
    if (n == 0 || (*text != '<' && *text != '[')) return -1;
    for (int i = 0; i < GRAFT_TEKKEN_MARKS; i++) {
        *bytes = strlen(marks[i]);
        if (t->id[i] >= 0 && n >= *bytes && memcmp(text, marks[i], *bytes) == 0) return t->id[i];
    }
    return -1;
}

graft_status graft_tekken_encode(const graft_tekken *t, const char *text, size_t n, int32_t **ids,
                                 size_t *count, graft_err *e)
{
    const graft_byte_pairs p = {
        .bpe = t->bpe, .first = t->first, .piece = piece_at, .mark = mark_at, .ctx = t};
    return graft_byte_pairs_encode(&p, text, n, ids, count, e);
}
