#include "engine/text/unicode.h"

#include <assert.h>
#include <string.h>

#include "engine/text/unicode_cases.h"
#include "engine/text/unicode_tables.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum {
    UNICODE_MAX_DECOMPOSED = 4, /* the longest canonical decomposition, in code points */
    HANGUL_S = 0xac00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11a7,
    HANGUL_LS = 19,
    HANGUL_VS = 21,
    HANGUL_TS = 28,
    CASE_CASED = 1,
    CASE_IGNORED = 2,
    CAPITAL_SIGMA = 0x3a3,
    FINAL_SIGMA = 0x3c2,
    DOTTED_CAPITAL_I = 0x130,
    COMBINING_DOT = 0x307
};

size_t graft_unicode_decode(const uint8_t *s, size_t n, uint32_t *cp)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    assert(n > 0);
    *cp = s[0];
    if (s[0] < 0x80) return 1;
    size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    uint32_t v = s[0] & (0x7fu >> len);
    *cp = GRAFT_UNICODE_INVALID;
    if (s[0] < 0xc2 || s[0] > 0xf4 || len > n) return 1;
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) return 1;
        v = v << 6 | (s[i] & 0x3f);
    }
    if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff)) return 1;
    *cp = v;
    return len;
}

size_t graft_unicode_encode(uint32_t cp, uint8_t out[4])
{
    if (cp < 0x80) {
        out[0] = (uint8_t)cp;
        return 1;
    }
    size_t len = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (cp & 0x3f));
        cp >>= 6;
    }
    out[0] = (uint8_t)(0xf00u >> len | cp);
    return len;
}

/* The value that holds at cp, from a table of changes `cp << shift | value`. */
static uint32_t value_at(const uint32_t *change, size_t count, int shift, uint32_t cp)
{
    size_t lo = 0, hi = count; /* change[0..lo) start at or before cp */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (change[mid] >> shift <= cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo == 0 ? 0 : change[lo - 1] & ((1u << shift) - 1);
}

graft_unicode_kind graft_unicode_class(uint32_t cp)
{
    if (cp < 0x80) {
        uint32_t low = cp | 0x20;
        if (low >= 'a' && low <= 'z') return GRAFT_UNICODE_LETTER;
        if (cp >= '0' && cp <= '9') return GRAFT_UNICODE_NUMBER;
    }
    return (graft_unicode_kind)value_at(class_change, COUNT(class_change), 3, cp);
}

graft_unicode_letter_kind graft_unicode_letter(uint32_t cp)
{
    return (graft_unicode_letter_kind)value_at(letter_change, COUNT(letter_change), 2, cp);
}

bool graft_unicode_is_space(uint32_t cp)
{
    if (cp < 0x80) return cp == ' ' || (cp >= '\t' && cp <= '\r') || (cp >= 0x1c && cp <= 0x1f);
    return cp == 0x85 || graft_unicode_class(cp) == GRAFT_UNICODE_SPACE;
}

int graft_unicode_digit(uint32_t cp)
{
    for (size_t i = 0; i < COUNT(digit_zero) && digit_zero[i] <= cp; i++)
        if (cp - digit_zero[i] < 10) return (int)(cp - digit_zero[i]);
    return -1;
}

static uint32_t mark_rank(uint32_t cp)
{
    return cp < 0x300 ? 0 : value_at(mark_change, COUNT(mark_change), 6, cp);
}

/* Row of cp in a table of `width` numbers a row that is sorted by its first column, or NULL. */
static const uint32_t *find_row(const uint32_t *table, size_t count, size_t width, uint32_t cp)
{
    size_t lo = 0, hi = count / width;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const uint32_t *row = table + mid * width;
        if (row[0] == cp) return row;
        if (row[0] < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static size_t decompose(uint32_t cp, uint32_t *out)
{
    uint32_t tail[UNICODE_MAX_DECOMPOSED];
    size_t n = 0, n_tail = 0;
    if (cp - HANGUL_S < HANGUL_LS * HANGUL_VS * HANGUL_TS) {
        uint32_t s = cp - HANGUL_S;
        out[n++] = HANGUL_L + s / (HANGUL_VS * HANGUL_TS);
        out[n++] = HANGUL_V + s / HANGUL_TS % HANGUL_VS;
        if (s % HANGUL_TS) out[n++] = HANGUL_T + s % HANGUL_TS;
        return n;
    }
    while (cp >= 0xc0) {
        const uint32_t *one = find_row(decompose_one, COUNT(decompose_one), 2, cp);
        const uint32_t *two = one ? NULL : find_row(decompose_two, COUNT(decompose_two), 3, cp);
        if (!one && !two) break;
        cp = one ? one[1] : two[1];
        if (two) {
            assert(n_tail < UNICODE_MAX_DECOMPOSED - 1);
            tail[n_tail++] = two[2];
        }
    }
    out[n++] = cp;
    while (n_tail > 0) out[n++] = tail[--n_tail];
    assert(n <= UNICODE_MAX_DECOMPOSED);
    return n;
}

/* The primary composite of two code points, or 0. */
static uint32_t compose(uint32_t a, uint32_t b)
{
    if (a - HANGUL_L < HANGUL_LS && b - HANGUL_V < HANGUL_VS)
        return HANGUL_S + ((a - HANGUL_L) * HANGUL_VS + (b - HANGUL_V)) * HANGUL_TS;
    if (a - HANGUL_S < HANGUL_LS * HANGUL_VS * HANGUL_TS && (a - HANGUL_S) % HANGUL_TS == 0 &&
        b - HANGUL_T - 1 < HANGUL_TS - 1)
        return a + (b - HANGUL_T);
    size_t lo = 0, hi = COUNT(compose_order);
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const uint32_t *row = decompose_two + (size_t)compose_order[mid] * 3;
        if (row[1] == a && row[2] == b) return row[0];
        if (row[1] < a || (row[1] == a && row[2] < b))
            lo = mid + 1;
        else
            hi = mid;
    }
    return 0;
}

/* Stable order of a run of marks by class; counted, because hostile runs may be long. */
static void sort_marks(uint32_t *run, size_t n, uint32_t *scratch)
{
    size_t place[65] = {0};
    for (size_t i = 0; i < n; i++) place[mark_rank(run[i]) + 1]++;
    for (size_t i = 1; i < COUNT(place); i++) place[i] += place[i - 1];
    for (size_t i = 0; i < n; i++) scratch[place[mark_rank(run[i])]++] = run[i];
    memcpy(run, scratch, n * sizeof *run);
}

size_t graft_unicode_nfc_room(size_t n)
{
    return n > SIZE_MAX / UNICODE_MAX_DECOMPOSED ? SIZE_MAX : n * UNICODE_MAX_DECOMPOSED;
}

/* Joins each character with the last starter before it, unless a mark of the same or a higher class
 * stands between them. */
static size_t compose_all(uint32_t *text, size_t n)
{
    size_t out = 0, starter = SIZE_MAX;
    uint32_t last_rank = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t cp = text[i], rank = mark_rank(cp);
        bool free_path = out == 0 || starter == out - 1 || last_rank < rank;
        if (starter != SIZE_MAX && free_path) {
            uint32_t joined = compose(text[starter], cp);
            if (joined) {
                text[starter] = joined;
                continue;
            }
        }
        if (rank == 0) starter = out;
        last_rank = rank;
        text[out++] = cp;
    }
    return out;
}

size_t graft_unicode_nfc(uint32_t *text, size_t n, uint32_t *scratch)
{
    size_t i = 0, len = 0;
    while (i < n && text[i] < 0x300) i++; /* nothing below U+0300 changes by itself */
    if (i == n) return n;
    for (i = 0; i < n; i++) len += decompose(text[i], scratch + len);
    for (i = 0; i < len;) {
        size_t end = i;
        while (end < len && mark_rank(scratch[end]) != 0) end++;
        if (end - i > 1) sort_marks(scratch + i, end - i, text);
        i = end + 1;
    }
    memcpy(text, scratch, len * sizeof *text);
    return compose_all(text, len);
}

static uint32_t case_class(uint32_t cp)
{
    return value_at(case_change, COUNT(case_change), 2, cp);
}

/* Word-final: a cased letter before it and none after it, signs that do not count left out. */
static bool sigma_is_final(const uint32_t *in, size_t n, size_t at)
{
    size_t before = at, after = at + 1;
    while (before > 0 && case_class(in[before - 1]) == CASE_IGNORED) before--;
    if (before == 0 || case_class(in[before - 1]) != CASE_CASED) return false;
    while (after < n && case_class(in[after]) == CASE_IGNORED) after++;
    return after == n || case_class(in[after]) != CASE_CASED;
}

/* In another case by `count` runs. */
static uint32_t by_run(uint32_t cp, const int32_t *runs, size_t count)
{
    size_t lo = 0, hi = count; /* runs [0..lo) start at or before cp */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if ((uint32_t)runs[mid * 4] <= cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0) return cp;
    const int32_t *run = runs + (lo - 1) * 4;
    int32_t c = (int32_t)cp;
    return c <= run[1] && (c - run[0]) % run[2] == 0 ? (uint32_t)(c + run[3]) : cp;
}

static uint32_t lower_one(uint32_t cp)
{
    if (cp < 0x80) return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
    return by_run(cp, lower_run, COUNT(lower_run) / 4);
}

/* Of in[i]; returns how many code points it is. */
static size_t lower_at(const uint32_t *in, size_t n, size_t i, uint32_t *out)
{
    if (in[i] == DOTTED_CAPITAL_I) {
        out[0] = 'i';
        out[1] = COMBINING_DOT;
        return 2;
    }
    out[0] = in[i] == CAPITAL_SIGMA && sigma_is_final(in, n, i) ? FINAL_SIGMA : lower_one(in[i]);
    return 1;
}

size_t graft_unicode_lower(const uint32_t *in, size_t n, uint32_t *out)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) len += lower_at(in, n, i, out + len);
    return len;
}

/* The entry of a table of four numbers each; returns how many code points it has, 0 without one. */
static size_t more_of(uint32_t cp, const uint32_t *table, size_t count, uint32_t *out)
{
    size_t lo = 0, hi = count, len = 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (table[mid * 4] < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == count || table[lo * 4] != cp) return 0;
    while (len < 3 && table[lo * 4 + 1 + len]) out[len] = table[lo * 4 + 1 + len], len++;
    return len;
}

static size_t upper_one(uint32_t cp, uint32_t *out)
{
    size_t len = more_of(cp, upper_more, COUNT(upper_more) / 4, out);
    if (!len) out[len++] = by_run(cp, upper_run, COUNT(upper_run) / 4);
    return len;
}

static size_t title_one(uint32_t cp, uint32_t *out)
{
    size_t len = more_of(cp, title_more, COUNT(title_more) / 4, out);
    return len ? len : upper_one(cp, out);
}

size_t graft_unicode_upper(const uint32_t *in, size_t n, uint32_t *out)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) len += upper_one(in[i], out + len);
    return len;
}

size_t graft_unicode_title(const uint32_t *in, size_t n, bool first_only, uint32_t *out)
{
    size_t len = 0;
    bool inside = false; /* of a word */
    for (size_t i = 0; i < n; i++) {
        len += inside ? lower_at(in, n, i, out + len) : title_one(in[i], out + len);
        inside = first_only || case_class(in[i]) == CASE_CASED;
    }
    return len;
}
