/* Files that are not as they should be: lists of what is done to a small one, which end with an
 * empty row, and what is said of it. */
#ifndef GRAFT_TESTS_ENGINE_DAMAGE_H
#define GRAFT_TESTS_ENGINE_DAMAGE_H
#include "tests/engine/renamed.h"

/* A tensor in the place of one, or too much, and how the file is refused. A shape ends with its
 * last number that is not 0; {0} is an empty vector. */
typedef struct damage {
    const char *name; /* NULL: no tensor */
    int64_t shape[5];
    graft_status status;
    const char *words;      /* NULL: the tensor's name */
    const char *without[2]; /* tensors that are left out */
    const char *config;     /* of a network; NULL: the checkpoint's */
    bool added;             /* there is none of the name */
    bool theirs;            /* in diffusers' names */
} damage;
#define TOO_MUCH(tensor, said)                                                                     \
    {                                                                                              \
        tensor, {16}, GRAFT_E_UNSUPPORTED, said, {NULL}, NULL, true, true                          \
    }
#define TURNING(n)                                                                                 \
    {                                                                                              \
        NULL, {0}, GRAFT_E_UNSUPPORTED, "of which " #n " turn", {NULL}, "{\"rope_dim\": " #n "}"   \
    }

static inline const char *words_of(const damage *d)
{
    return d->words ? d->words : d->name;
}

static inline bool has_tensor(const made_file *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->tensor[i].name, name) == 0) return true;
    return false;
}

static inline void damage_file(made_file *f, const damage *d)
{
    int rank = 1;
    while (rank < 5 && d->shape[rank]) rank++;
    for (int i = 0; i < 2 && d->without[i]; i++) drop_tensor(f, d->without[i]);
    if (!d->name) return;
    CHECK(has_tensor(f, d->name) == !d->added);
    if (!d->added) drop_tensor(f, d->name);
    add_tensor(f, d->name, rank, d->shape, NULL, 0.1f);
}
#endif
