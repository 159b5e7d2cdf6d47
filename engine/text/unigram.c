#include "engine/text/unigram.h"

#include <assert.h>
#include <float.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/text/charsmap.h"
#include "engine/text/pieces.h"
#include "engine/text/unicode.h"
#include "engine/text/unigram_file.h"
#include "engine/text/unigram_pairs.h"

enum { BYTES = 256 };
#define NO_TOKEN (-1)
/* How much less likely than the least likely piece it is that a character is in none. */
#define UNKNOWN_PENALTY 10.0f

static const uint8_t space_mark[] = {0xe2, 0x96, 0x81}; /* U+2581, what white space is written as */
static const uint8_t replacement[] = {0xef, 0xbf, 0xbd}; /* U+FFFD */
static const uint8_t space[] = {' '};

struct graft_unigram {
    graft_unigram_tokens tokens;
    bool pairs; /* it is cut by pairs (unigram_pairs.h) */
    bool dummy_prefix, trim, escape, space_behind, byte_fallback;
    int32_t byte_token[BYTES];
    float *score; /* of each token */
    bool *user;   /* of each token: taken wherever it is in a text */
    bool *unused; /* of each token, where it is cut by pairs and has such; else NULL */
    float unknown_score, best_score;
    graft_charsmap charsmap;
    graft_pieces pieces;  /* all that text can become, */
    graft_pieces symbols; /* and of those the user's, which are not normalized */
};

/* ------------------------------------------------------------------ the model */

static bool same(graft_bytes a, graft_bytes b)
{
    return a.n == b.n && memcmp(a.at, b.at, a.n) == 0;
}

static int32_t control(const graft_unigram_file *f, graft_bytes name)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->piece[i].type == GRAFT_PIECE_CONTROL && same(f->piece[i].text, name))
            return (int32_t)i;
    return NO_TOKEN;
}

/* What number 0-255 is called. */
static graft_status find_bytes(graft_unigram *u, const graft_unigram_file *f, graft_err *e)
{
    for (int b = 0; b < BYTES; b++) u->byte_token[b] = NO_TOKEN;
    if (!f->byte_fallback) return GRAFT_OK;
    for (size_t i = 0; i < f->count; i++)
        for (int b = 0; f->piece[i].type == GRAFT_PIECE_BYTE && b < BYTES; b++) {
            char name[16];
            const int n = snprintf(name, sizeof name, "<0x%02X>", b);
            if (same(f->piece[i].text, (graft_bytes){(const uint8_t *)name, (size_t)n}))
                u->byte_token[b] = (int32_t)i;
        }
    for (int b = 0; b < BYTES; b++)
        if (u->byte_token[b] == NO_TOKEN)
            return graft_fail(e, GRAFT_E_FORMAT, "the tokenizer has no piece for byte %d", b);
    u->byte_fallback = true;
    return GRAFT_OK;
}

static graft_status find_tokens(graft_unigram *u, const graft_unigram_file *f, graft_err *e)
{
    size_t unknown = 0;
    float least = FLT_MAX, best = FLT_MIN; /* the library's, also where no score is above 0 */
    for (size_t i = 0; i < f->count; i++) {
        const graft_unigram_piece *p = &f->piece[i];
        u->score[i] = p->score;
        u->user[i] = p->type == GRAFT_PIECE_USER;
        if (p->type == GRAFT_PIECE_UNKNOWN && unknown++ == 0) u->tokens.unknown = (int32_t)i;
        if (p->type == GRAFT_PIECE_NORMAL && p->score < least) least = p->score;
        if (p->type == GRAFT_PIECE_NORMAL && p->score > best) best = p->score;
    }
    if (unknown != 1)
        return graft_fail(e, GRAFT_E_FORMAT, "the tokenizer has %zu pieces for unknown text, not 1",
                          unknown);
    u->tokens.count = (int32_t)f->count;
    u->tokens.begin = control(f, f->begin_name);
    u->tokens.end = control(f, f->end_name);
    u->tokens.pad = control(f, f->pad_name);
    u->unknown_score = least - UNKNOWN_PENALTY;
    u->best_score = best;
    return find_bytes(u, f, e);
}

/* The set of the pieces of these types. */
static graft_status make_set(graft_pieces *out, const graft_unigram_file *f, graft_piece *scratch,
                             bool all, graft_err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++) {
        const graft_piece_type type = f->piece[i].type;
        /* Unused ones, too: they must differ from the others. */
        const bool text = type == GRAFT_PIECE_NORMAL || type == GRAFT_PIECE_UNUSED;
        if (type == GRAFT_PIECE_USER || (all && text))
            scratch[n++] = (graft_piece){f->piece[i].text, (int32_t)i};
    }
    return graft_pieces_init(out, scratch, n, e);
}

/* Walks through unused pieces find nothing. */
static void leave_unused_out(graft_unigram *u, const graft_unigram_file *f)
{
    for (size_t i = 0; i < u->pieces.count; i++) {
        int32_t *id = &u->pieces.node[i].id;
        if (*id != GRAFT_PIECES_NONE && f->piece[*id].type == GRAFT_PIECE_UNUSED)
            *id = GRAFT_PIECES_NONE;
    }
}

/* Which tokens pairs may become on their way to others only. */
static graft_status find_unused(graft_unigram *u, const graft_unigram_file *f, graft_err *e)
{
    for (size_t i = 0; i < f->count; i++) {
        if (f->piece[i].type != GRAFT_PIECE_UNUSED) continue;
        if (!u->unused) u->unused = graft_calloc(f->count, sizeof *u->unused);
        if (!u->unused) return graft_fail_nomem(e, "a tokenizer");
        u->unused[i] = true;
    }
    return GRAFT_OK;
}

static graft_status fill(graft_unigram *u, const graft_unigram_file *f, graft_err *e)
{
    graft_status st;
    graft_piece *scratch = graft_malloc_array(f->count, sizeof *scratch);
    u->score = graft_malloc_array(f->count, sizeof *u->score);
    u->user = graft_malloc_array(f->count, sizeof *u->user);
    if (!scratch || !u->score || !u->user) {
        st = graft_fail_nomem(e, "a tokenizer");
        goto out;
    }
    u->pairs = f->model_type == GRAFT_MODEL_PAIRS;
    u->dummy_prefix = f->dummy_prefix;
    u->trim = f->trim;
    u->escape = f->escape;
    u->space_behind = f->space_behind;
    GRAFT_TRY(find_tokens(u, f, e));
    GRAFT_TRY(graft_charsmap_init(&u->charsmap, f->charsmap, e));
    GRAFT_TRY(make_set(&u->pieces, f, scratch, true, e));
    GRAFT_TRY(make_set(&u->symbols, f, scratch, false, e));
    if (u->pairs)
        GRAFT_TRY(find_unused(u, f, e));
    else
        leave_unused_out(u, f);
out:
    graft_free(scratch);
    return st;
}

graft_status graft_unigram_create(const void *model, size_t n, graft_unigram **out, graft_err *e)
{
    graft_status st;
    graft_unigram_file f = {0};
    graft_unigram *u = NULL;
    assert(out && (model || n == 0));
    *out = NULL;
    GRAFT_TRY(graft_unigram_file_read((graft_bytes){model, n}, &f, e));
    u = graft_calloc(1, sizeof *u);
    if (!u) {
        st = graft_fail_nomem(e, "a tokenizer");
        goto out;
    }
    GRAFT_TRY(fill(u, &f, e));
    *out = u;
    u = NULL;
out:
    graft_unigram_destroy(u);
    graft_unigram_file_finish(&f);
    return st;
}

void graft_unigram_destroy(graft_unigram *u)
{
    if (!u) return;
    graft_charsmap_finish(&u->charsmap);
    graft_pieces_finish(&u->pieces);
    graft_pieces_finish(&u->symbols);
    graft_free(u->score);
    graft_free(u->user);
    graft_free(u->unused);
    graft_free(u);
}

graft_unigram_tokens graft_unigram_tokens_of(const graft_unigram *u)
{
    return u->tokens;
}

/* ------------------------------------------------------------------ normalization */

/* The beginning of a text, and what it becomes. */
typedef struct part {
    size_t length; /* at least 1 */
    graft_bytes normal;
} part;

typedef struct normal_text {
    uint8_t *at;
    size_t n, cap;
} normal_text;

static graft_status append(normal_text *t, graft_bytes s, graft_err *e)
{
    if (s.n > GRAFT_UNIGRAM_MAX_NORMAL - t->n)
        return graft_fail(e, GRAFT_E_LIMIT, "a text gets longer than %zu bytes when normalized",
                          GRAFT_UNIGRAM_MAX_NORMAL);
    if (graft_grow(&t->at, &t->cap, t->n + s.n, 1) != 0)
        return graft_fail_nomem(e, "the text of a prompt");
    if (s.n > 0) memcpy(t->at + t->n, s.at, s.n);
    t->n += s.n;
    return GRAFT_OK;
}

static graft_bytes space_of(const graft_unigram *u)
{
    return u->escape ? (graft_bytes){space_mark, sizeof space_mark}
                     : (graft_bytes){space, sizeof space};
}

static graft_status next_part(const graft_unigram *u, graft_bytes text, part *out, graft_err *e)
{
    out->length = graft_pieces_longest(&u->symbols, text);
    out->normal = (graft_bytes){text.at, out->length};
    if (out->length > 0) return GRAFT_OK;
    graft_status st = graft_charsmap_find(&u->charsmap, text, &out->length, &out->normal, e);
    if (st || out->length > 0) return st;
    uint32_t cp;
    out->length = graft_unicode_decode(text.at, text.n, &cp);
    out->normal = cp == GRAFT_UNICODE_INVALID ? (graft_bytes){replacement, sizeof replacement}
                                              : (graft_bytes){text.at, out->length};
    return GRAFT_OK;
}

static graft_status append_part(const graft_unigram *u, normal_text *t, graft_bytes s, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < s.n && !st; i++)
        st = append(t, s.at[i] == ' ' ? space_of(u) : (graft_bytes){s.at + i, 1}, e);
    return st;
}

static graft_bytes behind(graft_bytes s, size_t n)
{
    return (graft_bytes){s.at + n, s.n - n};
}

/* Skips white space at the beginning. */
static graft_status skip_space(const graft_unigram *u, graft_bytes *text, graft_err *e)
{
    while (text->n > 0) {
        part p;
        graft_status st = next_part(u, *text, &p, e);
        if (st) return st;
        if (p.normal.n != 1 || p.normal.at[0] != ' ') break;
        *text = behind(*text, p.length);
    }
    return GRAFT_OK;
}

static void trim_end(const graft_unigram *u, normal_text *t)
{
    const graft_bytes s = space_of(u);
    while (t->n >= s.n && memcmp(t->at + t->n - s.n, s.at, s.n) == 0) t->n -= s.n;
}

static graft_status normalize(const graft_unigram *u, graft_bytes text, normal_text *out,
                              graft_err *e)
{
    graft_status st = GRAFT_OK;
    bool after_space = u->trim;
    if (u->trim) GRAFT_TRY(skip_space(u, &text, e));
    if (text.n == 0) goto out;
    if (u->dummy_prefix && !u->space_behind) GRAFT_TRY(append(out, space_of(u), e));
    while (text.n > 0) {
        part p;
        GRAFT_TRY(next_part(u, text, &p, e));
        text = behind(text, p.length);
        while (after_space && p.normal.n > 0 && p.normal.at[0] == ' ')
            p.normal = behind(p.normal, 1);
        GRAFT_TRY(append_part(u, out, p.normal, e));
        if (p.normal.n > 0) after_space = u->trim && p.normal.at[p.normal.n - 1] == ' ';
    }
    if (u->trim) trim_end(u, out);
    if (u->dummy_prefix && u->space_behind) GRAFT_TRY(append(out, space_of(u), e));
out:
    return st;
}

/* ------------------------------------------------------------------ the best way to cut */

typedef graft_unigram_place place;
#define NOWHERE UINT32_MAX /* as `from`: no way leads here */

static void offer(place *to, double score, int32_t token, size_t from)
{
    if (to->from != NOWHERE && !(score > (double)to->score)) return;
    *to = (place){(float)score, token, (uint32_t)from};
}

/* Goes on from `at` by each piece that the text has there. Scores are float, but are compared in
 * the precision in which the library does it. Returns the next character's place. */
static size_t extend(const graft_unigram *u, graft_bytes text, place *way, size_t at)
{
    const float here = way[at].score;
    size_t one = graft_unigram_char(text.at[at]);
    uint32_t node = GRAFT_PIECES_ROOT;
    bool single = false;
    if (one > text.n - at) one = text.n - at;
    for (size_t i = at; i < text.n;) {
        node = graft_pieces_step(&u->pieces, node, text.at[i++]);
        if (node == GRAFT_PIECES_ROOT) break;
        const int32_t token = u->pieces.node[node].id;
        if (token == GRAFT_PIECES_NONE) continue;
        const double score = u->user[token] ? (double)((float)(i - at) * u->best_score) - 0.1
                                            : (double)u->score[token];
        offer(&way[i], score + (double)here, token, at);
        if (i - at == one) single = true;
    }
    if (!single) {
        const float score = u->unknown_score + here;
        offer(&way[at + one], (double)score, u->tokens.unknown, at);
    }
    return at + one;
}

/* Turns the way to the end, which is known from behind, into one from the beginning: `from` of each
 * place on it says where its next piece ends. */
static void turn(place *way, size_t end)
{
    uint32_t next = NOWHERE;
    int32_t token = NO_TOKEN;
    for (size_t at = end;;) {
        const place p = way[at];
        way[at] = (place){0, token, next};
        if (at == 0) break;
        next = (uint32_t)at;
        token = p.token;
        at = p.from;
    }
}

/* The tokens along a turned way, of which there are at most as many as bytes. */
static size_t collect(const graft_unigram *u, graft_bytes text, const place *way, int32_t *ids)
{
    size_t n = 0;
    bool unknown = false; /* the last token */
    for (size_t at = 0; at < text.n; at = way[at].from) {
        const bool known = way[at].token != u->tokens.unknown;
        if (!known && u->byte_fallback)
            for (size_t i = at; i < way[at].from; i++) ids[n++] = u->byte_token[text.at[i]];
        else if (known || !unknown)
            ids[n++] = way[at].token;
        unknown = !known;
    }
    return n;
}

/* Both leave the way turned. */
static graft_status by_score(const graft_unigram *u, graft_bytes text, place *way)
{
    for (size_t i = 0; i <= text.n; i++) way[i] = (place){0, NO_TOKEN, NOWHERE};
    for (size_t at = 0; at < text.n;) at = extend(u, text, way, at);
    turn(way, text.n);
    return GRAFT_OK;
}

static graft_status by_pairs(const graft_unigram *u, graft_bytes text, place *way, graft_err *e)
{
    const graft_unigram_pairs p = {.pieces = u->pieces,
                                   .symbols = u->symbols,
                                   .score = u->score,
                                   .unused = u->unused,
                                   .count = u->tokens.count,
                                   .unknown = u->tokens.unknown};
    return graft_unigram_pairs_cut(&p, text, way, e);
}

static graft_status cut(const graft_unigram *u, graft_bytes text, int32_t **ids, size_t *count,
                        graft_err *e)
{
    graft_status st = GRAFT_OK;
    place *way = graft_malloc_array(text.n + 1, sizeof *way);
    *ids = graft_malloc_array(text.n, sizeof **ids);
    if (!way || !*ids) {
        st = graft_fail_nomem(e, "the tokens of a prompt");
        goto out;
    }
    GRAFT_TRY(u->pairs ? by_pairs(u, text, way, e) : by_score(u, text, way));
    *count = collect(u, text, way, *ids);
out:
    if (st) {
        graft_free(*ids);
        *ids = NULL;
    }
    graft_free(way);
    return st;
}

graft_status graft_unigram_encode(const graft_unigram *u, const char *text, size_t n, int32_t **ids,
                                  size_t *count, graft_err *e)
{
    graft_status st;
    normal_text t = {0};
    assert(u && ids && count && (text || n == 0));
    *ids = NULL;
    *count = 0;
    if (n > GRAFT_UNIGRAM_MAX_TEXT)
        return graft_fail(e, GRAFT_E_LIMIT, "a text of %zu bytes; at most %zu are read", n,
                          GRAFT_UNIGRAM_MAX_TEXT);
    GRAFT_TRY(normalize(u, (graft_bytes){(const uint8_t *)text, n}, &t, e));
    if (t.n > 0) GRAFT_TRY(cut(u, (graft_bytes){t.at, t.n}, ids, count, e));
out:
    graft_free(t.at);
    return st;
}
