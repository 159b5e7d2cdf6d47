#include "host/schema/near.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LONGEST   64 /* bytes; longer names are near nothing */
#define LONG_NAME 90 /* bytes that a message shows of a name */
#define FAR_AWAY  1000
#define SUFFIX_MAX                                                                                 \
    12 /* letters of ".safetensors", the longest suffix of a file that counts as one */

typedef struct part {
    const char *text;
    size_t n;
} part;

static int lower(const part *p, size_t i)
{
    return tolower((unsigned char)p->text[i]);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Letters to add, take away, change or swap with the next until one is the other, capitals aside
 * (Damerau and Levenshtein's, in the form that changes no place twice). */
static int distance(part a, part b)
{
    int rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    if (a.n > LONGEST || b.n > LONGEST) return FAR_AWAY;
    for (size_t k = 0; k <= b.n; k++) last[k] = (int)k;
    for (size_t i = 0; i < a.n; i++) {
        row[0] = (int)i + 1;
        for (size_t k = 0; k < b.n; k++) {
            int change = last[k] + (lower(&a, i) != lower(&b, k));
            row[k + 1] = least(change, least(row[k], last[k + 1]) + 1);
            if (i && k && lower(&a, i) == lower(&b, k - 1) && lower(&a, i - 1) == lower(&b, k))
                row[k + 1] = least(row[k + 1], before[k - 1] + 1);
        }
        int *free = before;
        before = last;
        last = row;
        row = free;
    }
    return last[b.n];
}

static bool contains(part text, part word)
{
    for (size_t i = 0; i + word.n <= text.n; i++)
        if (strncasecmp(text.text + i, word.text, word.n) == 0) return true;
    return false;
}

/* A file's name without its folders and suffix; any other name is left as it is. */
static part stem(part p)
{
    size_t end = p.n, from = p.n;
    while (end && isalpha((unsigned char)p.text[end - 1])) end--;
    bool suffix = end > 1 && p.text[end - 1] == '.' && p.n - end <= SUFFIX_MAX && end < p.n;
    if (suffix) p.n = end - 1;
    for (from = p.n; from && p.text[from - 1] != '/';) from--;
    return from < p.n ? (part){p.text + from, p.n - from} : p;
}

/* FAR_AWAY when nobody would have meant it. */
static int farness(part wanted, part name)
{
    size_t more = wanted.n > name.n ? wanted.n - name.n : name.n - wanted.n;
    int most = (int)(wanted.n + 1) / 3;
    int d = (int)more > most ? FAR_AWAY : distance(wanted, name);
    if (d <= most) return d;
    return wanted.n > 2 && contains(name, wanted) ? most + 1 : FAR_AWAY;
}

static void add(graft_near *n, part like, part name)
{
    part wanted = {n->wanted, strlen(n->wanted)};
    int d = farness(wanted, like), by_stem = farness(stem(wanted), stem(like)) + 1;
    size_t at = n->count;
    /* A suffix that many files have makes none of them alike. */
    bool file = stem(wanted).n < wanted.n && d > 0;
    if (by_stem < d || file) d = by_stem;
    if (d >= FAR_AWAY) return;
    for (size_t i = 0; i < n->count; i++)
        if (n->at[i].length == name.n && memcmp(n->at[i].name, name.text, name.n) == 0) return;
    while (at > 0 && n->at[at - 1].far > d) at--;
    if (at == GRAFT_NEAR_MAX) return;
    n->count += n->count < GRAFT_NEAR_MAX;
    for (size_t k = n->count - 1; k > at; k--) n->at[k] = n->at[k - 1];
    n->at[at].name = name.text;
    n->at[at].length = name.n;
    n->at[at].far = d;
    /* One letter off is what was meant; what is two off beside it is noise. */
    int nearest = n->at[0].far;
    while (nearest < 2 && n->at[n->count - 1].far > nearest) n->count--;
}

void graft_near_init(graft_near *n, const char *wanted)
{
    memset(n, 0, sizeof *n);
    n->wanted = wanted;
}

void graft_near_add_like(graft_near *n, const char *like, const char *name)
{
    add(n, (part){like, strlen(like)}, (part){name, strlen(name)});
}

void graft_near_add_part(graft_near *n, const char *name, size_t length)
{
    add(n, (part){name, length}, (part){name, length});
}

void graft_near_add(graft_near *n, const char *name)
{
    graft_near_add_part(n, name, strlen(name));
}

const char *graft_near_text(const graft_near *n, char out[GRAFT_NEAR_TEXT])
{
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < n->count; i++) {
        int shown = n->at[i].length > LONG_NAME ? LONG_NAME : (int)n->at[i].length;
        const char *join = !i ? "; did you mean " : i + 1 < n->count ? ", " : " or ";
        int more =
            snprintf(out + used, GRAFT_NEAR_TEXT - used, "%s%.*s", join, shown, n->at[i].name);
        used += (size_t)more;
        if (used >= GRAFT_NEAR_TEXT - 2) return out;
    }
    if (used) snprintf(out + used, GRAFT_NEAR_TEXT - used, "?");
    return out;
}
