#include "engine/models/names/diffusers_names.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

graft_status graft_diffusers_names_init(graft_diffusers_names *n, graft_safetensors *f,
                                        graft_err *e)
{
    *n = (graft_diffusers_names){.f = f, .e = e};
    n->count = graft_safetensors_count(f);
    n->alias = graft_calloc(n->count + 1, sizeof *n->alias);
    if (!n->alias) n->status = graft_fail_nomem(e, "tensor names");
    return n->status;
}

void graft_diffusers_names_finish(graft_diffusers_names *n)
{
    for (size_t i = 0; n->alias && i < n->count; i++) {
        graft_free(n->alias[i].name);
        graft_free(n->alias[i].second);
    }
    graft_free(n->alias);
}

/* The alias of a tensor that must be there; NULL after a failure. */
static graft_st_alias *alias_of(graft_diffusers_names *n, graft_name theirs)
{
    if (n->status) return NULL;
    const graft_st_tensor *t = graft_safetensors_find(n->f, theirs.text);
    if (t) return &n->alias[t - graft_safetensors_at(n->f, 0)];
    n->status = graft_fail(n->e, GRAFT_E_FORMAT, "%s: tensor %s is missing",
                           graft_safetensors_path(n->f), theirs.text);
    return NULL;
}

static void name_alias(graft_diffusers_names *n, graft_st_alias *a, graft_name ours)
{
    a->name = graft_strdup(ours.text);
    if (!a->name) n->status = graft_fail_nomem(n->e, "tensor names");
}

void graft_diffusers_names_tensor(graft_diffusers_names *n, graft_name ours, graft_name theirs,
                                  bool kernel)
{
    graft_st_alias *a = alias_of(n, theirs);
    if (!a) return;
    a->kernel = kernel;
    name_alias(n, a, ours);
}

void graft_diffusers_names_vector(graft_diffusers_names *n, graft_name ours, graft_name theirs)
{
    graft_st_alias *a = alias_of(n, theirs);
    if (!a) return;
    a->vector = true;
    name_alias(n, a, ours);
}

void graft_diffusers_names_rows(graft_diffusers_names *n, graft_name ours, const graft_name *theirs,
                                int pieces, bool exchanged)
{
    size_t next = 0;
    for (int i = pieces; i-- > 0;) {
        graft_st_alias *a = alias_of(n, theirs[i]);
        if (!a) return;
        a->next = next;
        a->piece = i > 0;
        a->exchanged = exchanged;
        next = 1 + (size_t)(a - n->alias);
        if (!i) name_alias(n, a, ours);
    }
}

void graft_diffusers_names_layer(graft_diffusers_names *n, graft_name ours, graft_name theirs)
{
    static const char *const endings[] = {"weight", "bias"};
    for (int i = 0; i < 2; i++)
        graft_diffusers_names_tensor(n, NAME("%s.%s", ours.text, endings[i]),
                                     NAME("%s.%s", theirs.text, endings[i]), false);
}

void graft_diffusers_names_halves(graft_diffusers_names *n, graft_name first, graft_name second,
                                  graft_name theirs)
{
    static const char *const endings[] = {"weight", "bias"};
    for (int i = 0; i < 2; i++) {
        graft_st_alias *a = alias_of(n, NAME("%s.%s", theirs.text, endings[i]));
        if (!a) return;
        name_alias(n, a, NAME("%s.%s", first.text, endings[i]));
        a->second = graft_strdup(NAME("%s.%s", second.text, endings[i]).text);
        if (!a->second) n->status = graft_fail_nomem(n->e, "tensor names");
    }
}

void graft_diffusers_names_joined(graft_diffusers_names *n, graft_name ours,
                                  const graft_diffusers_rows *theirs, const char *vector)
{
    static const char *const endings[] = {"weight", "bias"};
    graft_name piece[GRAFT_DIFFUSERS_PIECES];
    for (int i = 0; i < (vector ? 1 : 2); i++) {
        for (int k = 0; k < theirs->pieces; k++)
            piece[k] = NAME("%s.%s", theirs->name[k].text, endings[i]);
        graft_diffusers_names_rows(n, NAME("%s.%s", ours.text, vector ? vector : endings[i]), piece,
                                   theirs->pieces, theirs->exchanged);
    }
}

bool graft_diffusers_names_any(const graft_diffusers_names *n, graft_name prefix)
{
    for (size_t i = 0; i < graft_safetensors_count(n->f); i++)
        if (graft_str_starts(graft_safetensors_at(n->f, i)->name, prefix.text)) return true;
    return false;
}

static bool has_shortcut(const graft_diffusers_names *n, graft_name block)
{
    const graft_st_tensor *conv =
        graft_safetensors_find(n->f, NAME("%s.conv1.weight", block.text).text);
    return (conv && conv->rank == 4 && conv->shape[0] != conv->shape[1]) ||
           graft_diffusers_names_any(n, NAME("%s.conv_shortcut.", block.text));
}

void graft_diffusers_names_residual(graft_diffusers_names *n, const graft_diffusers_pair *list,
                                    graft_name ours, graft_name theirs)
{
    for (; list->ours && !n->status; list++)
        if (strcmp(list->theirs, "conv_shortcut") != 0 || has_shortcut(n, theirs))
            graft_diffusers_names_layer(n, NAME("%s.%s", ours.text, list->ours),
                                        NAME("%s.%s", theirs.text, list->theirs));
}

graft_status graft_diffusers_names_apply(graft_diffusers_names *n, const char *what)
{
    for (size_t i = 0; i < graft_safetensors_count(n->f) && !n->status; i++) {
        const graft_st_tensor *t = graft_safetensors_at(n->f, i);
        if (!n->alias[i].name && !n->alias[i].piece && !t->part && strchr(t->name, '.'))
            n->status = graft_fail(n->e, GRAFT_E_UNSUPPORTED, "%s: %s has no tensor %.200s",
                                   graft_safetensors_path(n->f), what, t->name);
    }
    return n->status ? n->status : graft_safetensors_rename(n->f, n->alias, n->e);
}

/* ------------------------------------------------------------------ what a file has */

#define MOST_BLOCKS 128

bool graft_diffusers_has(const graft_safetensors *f, const char *tensor)
{
    return graft_safetensors_find(f, tensor) != NULL;
}

graft_status graft_diffusers_count_blocks(const graft_safetensors *f, const char *blocks,
                                          const char *what, int32_t *count, graft_err *e)
{
    const size_t length = strlen(blocks);
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        int block, n = 0;
        if (!graft_str_starts(name, blocks) || sscanf(name + length, "%d.%n", &block, &n) != 1 ||
            !n)
            continue;
        if (block < 0 || block >= MOST_BLOCKS)
            return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: %s has no tensor %.200s",
                              graft_safetensors_path(f), what, name);
        if (*count <= block) *count = block + 1;
    }
    return GRAFT_OK;
}
