/* Networks in another program's names, by a table that a test writes down once more: the engine's
 * own tables are what is tested. */
#ifndef GRAFT_TESTS_ENGINE_RENAMED_H
#define GRAFT_TESTS_ENGINE_RENAMED_H
#include <ctype.h>

#include "tests/engine/diffusers.h"

/* Rows of tables leave out what they do not need. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* A row of a table, which ends with an empty one; all rows are gone through in turn. Where `ours`
 * stands in a name, theirs takes its place: at the name's beginning if it begins with a letter, the
 * first time anywhere if not. '#' is a block's number, of ours and of theirs. With several of
 * theirs a tensor's rows are dealt out to as many: equally, or in such shares; of a name that is
 * only one row's doing. */
typedef struct renaming {
    const char *ours, *theirs[4];
    int share[4];
    bool turned; /* its halves stand the other way round there */
    int rows;    /* a vector is a matrix of so many rows there; 0: it is one, too */
    int half;    /* 1, 2: it is the first half, or the second, of a tensor there */
} renaming;

/* What is made of a tensor's rows, in shares of which it has `all`: `share` from `first` on. */
typedef struct their_tensor {
    char name[256];
    int first, share, all;
    bool turned;
    int rows, half;
} their_tensor;

/* Whether the pattern begins here; end: what follows it. */
static inline bool begins_with(const char *name, const char *pattern, const char **end,
                               unsigned *block)
{
    for (; *pattern; pattern++) {
        if (*pattern != '#' && *pattern != *name) return false;
        if (*pattern == '#' && !isdigit((unsigned char)*name)) return false;
        if (*pattern == '#')
            for (*block = 0; isdigit((unsigned char)*name); name++)
                *block = 10 * *block + (unsigned)(*name - '0');
        else
            name++;
    }
    *end = name;
    return true;
}

/* False: the row is not of this name. */
static inline bool replace_in(char name[256], const char *ours, const char *theirs)
{
    char before[256];
    const char *end = NULL, *at = before;
    unsigned block = 0;
    snprintf(before, sizeof before, "%s", name);
    while (*at && !begins_with(at, ours, &end, &block)) {
        if (isalpha((unsigned char)ours[0])) return false;
        at++;
    }
    if (!*at) return false;
    const char *mark = strchr(theirs, '#');
    int n = snprintf(name, 256, "%.*s", (int)(at - before), before);
    if (mark)
        n += snprintf(name + n, (size_t)(256 - n), "%.*s%u", (int)(mark - theirs), theirs, block);
    n += snprintf(name + n, (size_t)(256 - n), "%s%s", mark ? mark + 1 : theirs, end);
    if (n >= 256) fprintf(stderr, "too long a name: %s\n", name), abort();
    return true;
}

/* The k-th of theirs that our tensor of this name becomes; returns how many they are. table NULL:
 * it is called the same there. */
static inline int renamed(const renaming *table, const char *ours, int k, their_tensor *out)
{
    int pieces = 1;
    *out = (their_tensor){.share = 1, .all = 1};
    snprintf(out->name, sizeof out->name, "%s", ours);
    for (const renaming *r = table; r && r->ours; r++) {
        const bool several = r->theirs[1] != NULL;
        if (!replace_in(out->name, r->ours, r->theirs[several ? k : 0])) continue;
        out->turned = out->turned || r->turned;
        if (r->rows) out->rows = r->rows;
        if (r->half) out->half = r->half;
        if (!several) continue;
        out->all = pieces = 0;
        for (int i = 0; i < 4 && r->theirs[i]; i++, pieces++) {
            const int share = r->share[0] ? r->share[i] : 1;
            if (i < k) out->first += share;
            if (i == k) out->share = share;
            out->all += share;
        }
    }
    return pieces;
}

/* The last tensor gets the prefix. */
static inline void call_below(made_file *d, const char *prefix)
{
    char name[300];
    snprintf(name, sizeof name, "%s%s", prefix, d->tensor[d->n - 1].name);
    call_tensor(&d->tensor[d->n - 1], name);
}

/* A half of a tensor that is there from the first one on. */
static inline void add_half(made_file *d, const graft_st_tensor *t, const their_tensor *p,
                            const char *prefix)
{
    const int64_t n = shape_count(t->shape, t->rank);
    char name[300];
    snprintf(name, sizeof name, "%s%s", prefix, p->name);
    graft_st_tensor *whole = NULL;
    for (size_t i = 0; i < d->n && !whole; i++)
        if (strcmp(d->tensor[i].name, name) == 0) whole = &d->tensor[i];
    if (!whole) {
        graft_st_tensor twice = *t;
        twice.shape[0] *= 2;
        add_tensor(d, p->name, twice.rank, twice.shape, NULL, 0);
        call_below(d, prefix);
        whole = &d->tensor[d->n - 1];
    }
    memcpy((float *)(uintptr_t)whole->data + (p->half - 1) * n, t->data, (size_t)n * sizeof(float));
}

static inline void add_renamed(made_file *d, const graft_st_tensor *t, const their_tensor *p,
                               const char *prefix)
{
    const int64_t unit = shape_count(t->shape, t->rank) / p->all, n = unit * p->share;
    const float *from = (const float *)t->data + unit * p->first;
    graft_st_tensor their = *t;
    their.shape[0] = t->shape[0] / p->all * p->share;
    if (p->rows && their.rank == 1) {
        their.shape[1] = their.shape[0] / p->rows;
        their.shape[0] = p->rows;
        their.rank = 2;
    }
    if (p->half) {
        add_half(d, &their, p, prefix);
        return;
    }
    float *to = add_tensor(d, p->name, their.rank, their.shape, from, 0);
    for (int64_t i = 0; p->turned && i < n; i++) to[i] = from[(i + n / 2) % n];
    call_below(d, prefix);
}

/* The file, which is used up, in their names below a prefix. */
static inline made_file *renamed_tensors(made_file *own, const renaming *table, const char *prefix)
{
    made_file *d = calloc(1, sizeof *d);
    for (size_t i = 0; i < own->n; i++) {
        their_tensor p;
        int pieces = 1;
        for (int k = 0; k < pieces; k++) {
            pieces = renamed(table, own->tensor[i].name, k, &p);
            add_renamed(d, &own->tensor[i], &p, prefix);
        }
    }
    finish_file(own);
    return d;
}

/* A checkpoint's network. */
static inline made_file *renamed_file(const char *checkpoint, const renaming *table,
                                      const char *prefix)
{
    return renamed_tensors(part_of_file(checkpoint, UNET), table, prefix);
}
#endif
