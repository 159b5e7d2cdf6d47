#include "engine/files/mmproj.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/part.h"
#include "engine/weights/gguf_names.h"

#define MARK   "mmproj"
#define EMBED  "v.patch_embd.weight"
#define SECOND EMBED ".1" /* of the two pictures that a video's token has */
#define DEEP   "v.deepstack."

enum { LAYERS = 128 };

/* ------------------------------------------------------------------ the file beside */

static size_t rest_of_word(const char *p)
{
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || p[n] == '_' || p[n] == '-') n++;
    return n;
}

static bool ends_in_float(const char *name, size_t n, size_t *without)
{
    static const char *const types[] = {"bf16", "f16", "f32"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const size_t length = strlen(types[i]);
        if (n <= length + 1 || strncasecmp(name + n - length, types[i], length) != 0) continue;
        if (!strchr("-_.", name[n - length - 1])) continue;
        *without = n - length - 1;
        return true;
    }
    return false;
}

/* How long a name of n bytes is without the type of its values, as "-Q4_K_M" or "-UD-IQ4_XS". */
static size_t without_type(const char *name, size_t n)
{
    enum { MOST = 8 }; /* bytes of a type, behind "Q4_" */
    for (size_t i = 0; i + 3 < n; i++) {
        if (tolower((unsigned char)name[i]) != 'q' || !isdigit((unsigned char)name[i + 1]) ||
            name[i + 2] != '_')
            continue;
        const size_t rest = n - i - 3;
        if (rest > MOST || rest_of_word(name + i + 3) < rest) continue;
        if (i && tolower((unsigned char)name[i - 1]) == 'i') i--;
        if (i >= 3 && strncasecmp(name + i - 3, "ud-", 3) == 0) i -= 3;
        return i && strchr("-_.", name[i - 1]) ? i - 1 : i;
    }
    size_t without;
    return ends_in_float(name, n, &without) ? without : n;
}

/* How long a name is without ".gguf", and of a part without its number. */
static size_t without_ending(const char *name)
{
    graft_part part;
    const char *dot = strrchr(name, '.');
    if (graft_part_of(name, &part)) return graft_part_stem(&part);
    return dot ? (size_t)(dot - name) : strlen(name);
}

/* Whether `part`, of n bytes, is in the name, in any case. */
static bool has_part(const char *name, const char *part, size_t n)
{
    for (; strlen(name) >= n; name++)
        if (strncasecmp(name, part, n) == 0) return true;
    return false;
}

/* Which of a folder's files belongs to the model in the file of this name; NULL: none does. */
static const char *choose(char *const *names, size_t n, const char *model)
{
    const char *only = NULL;
    const size_t stem = without_type(model, without_ending(model));
    size_t without_name = 0;
    for (size_t i = 0; i < n; i++) {
        if (strchr(names[i], '/') || !has_part(names[i], MARK, strlen(MARK))) continue;
        if (stem && has_part(names[i], model, stem)) return names[i];
        if (strncasecmp(names[i], MARK, strlen(MARK)) != 0) continue;
        only = names[i];
        without_name++;
    }
    return without_name == 1 ? only : NULL;
}

/* *out: its path, or NULL. */
static graft_status find_beside(const char *path, char **out, graft_err *e)
{
    static const char *const suffix[] = {".gguf", NULL};
    char *folder = graft_path_beside(path, "."), **names = NULL;
    size_t n = 0;
    *out = NULL;
    if (!folder) return graft_fail_nomem(e, "a path");
    graft_status st = graft_dir_list(folder, suffix, &names, &n, e);
    const char *name = st ? NULL : choose(names, n, graft_path_name(path));
    if (name && !(*out = graft_path_beside(path, name))) st = graft_fail_nomem(e, "a path");
    graft_names_free(names, n);
    graft_free(folder);
    return st;
}

/* ------------------------------------------------------------------ names */

typedef struct renaming {
    const graft_safetensors *f;
    graft_st_alias *alias; /* of each tensor; names are owned */
    bool deep[LAYERS];     /* which layers go deeper */
    graft_status status;
    graft_err *e;
} renaming;

/* 1 + the number of a tensor; 0: it is not there. */
static size_t number_of(const graft_safetensors *f, const char *name)
{
    const graft_st_tensor *t = graft_safetensors_find(f, name);
    return t ? (size_t)(t - graft_safetensors_at(f, 0)) + 1 : 0;
}

static void call(renaming *r, size_t i, const char *name)
{
    graft_free(r->alias[i].name);
    r->alias[i].name = graft_strdup(name);
    if (!r->alias[i].name) r->status = graft_fail_nomem(r->e, "tensor names");
}

/* Queries, keys and values of a block, which transformers has as one layer. What is not whole keeps
 * its names, and is told of when somebody needs it: texts are read all the same. */
static void join_attention(renaming *r, size_t i, const char *name)
{
    unsigned block;
    int end = 0;
    char k[64], v[64], whole[64];
    if (sscanf(name, "v.blk.%4u.attn_q.%n", &block, &end) != 1 || !end) return;
    const char *what = name + end; /* "weight" or "bias" */
    snprintf(k, sizeof k, "v.blk.%u.attn_k.%.8s", block, what);
    snprintf(v, sizeof v, "v.blk.%u.attn_v.%.8s", block, what);
    snprintf(whole, sizeof whole, "visual.blocks.%u.attn.qkv.%.8s", block, what);
    const size_t keys = number_of(r->f, k), values = number_of(r->f, v);
    if (!keys || !values) return;
    call(r, i, whole);
    r->alias[i].next = keys;
    r->alias[keys - 1].next = values;
    r->alias[keys - 1].piece = r->alias[values - 1].piece = true;
}

static void join_squares(renaming *r)
{
    const size_t first = number_of(r->f, EMBED), second = number_of(r->f, SECOND);
    if (!first || !second) return;
    r->alias[first - 1].slices = true;
    r->alias[first - 1].next = second;
    r->alias[second - 1].piece = true;
}

/* Layers that go deeper are counted in the order of the layers that they follow. */
static void count_deep(renaming *r, size_t i, const char *name)
{
    unsigned layer = 0, number = 0;
    int end = 0;
    char other[128];
    if (sscanf(name, "visual.deepstack_merger_list.%4u.%n", &layer, &end) != 1 || !end) return;
    for (unsigned k = 0; k < layer && k < LAYERS; k++) number += r->deep[k];
    snprintf(other, sizeof other, "visual.deepstack_merger_list.%u.%.80s", number, name + end);
    call(r, i, other);
}

static void name_all(renaming *r, graft_gguf_name_fn *rename)
{
    const size_t n = graft_safetensors_count(r->f);
    char name[GRAFT_GGUF_NAME];
    unsigned layer;
    for (size_t i = 0; i < n; i++)
        if (sscanf(graft_safetensors_at(r->f, i)->name, DEEP "%4u.", &layer) == 1 && layer < LAYERS)
            r->deep[layer] = true;
    for (size_t i = 0; i < n && !r->status; i++) {
        const char *was = graft_safetensors_at(r->f, i)->name;
        if (r->alias[i].piece || !rename(was, name, sizeof name)) continue;
        call(r, i, name);
        if (!r->status) join_attention(r, i, was);
        if (!r->status) count_deep(r, i, name);
    }
    join_squares(r);
}

/* A piece has no name, whichever came first. */
static void take_names_of_pieces(renaming *r)
{
    for (size_t i = 0; i < graft_safetensors_count(r->f); i++) {
        if (!r->alias[i].piece) continue;
        graft_free(r->alias[i].name);
        r->alias[i].name = NULL;
    }
}

static graft_status rename_all(graft_safetensors *f, graft_gguf_name_fn *rename, graft_err *e)
{
    const size_t n = graft_safetensors_count(f);
    renaming r = {.f = f, .alias = graft_calloc(n + 1, sizeof *r.alias), .e = e};
    if (!r.alias) return graft_fail_nomem(e, "tensor names");
    name_all(&r, rename);
    take_names_of_pieces(&r);
    if (!r.status) r.status = graft_safetensors_rename(f, r.alias, e);
    for (size_t i = 0; i < n; i++) graft_free(r.alias[i].name);
    graft_free(r.alias);
    return r.status;
}

/* ------------------------------------------------------------------ both */

/* NULL: a model that sees no pictures, or has what it needs for them. */
static graft_gguf_name_fn *names_for(const graft_safetensors *f)
{
    const char *kind =
        graft_safetensors_is_gguf(f) ? graft_safetensors_metadata(f, "general.architecture") : NULL;
    if (!kind || graft_safetensors_find(f, "visual.patch_embed.proj.weight")) return NULL;
    return strcmp(kind, "qwen2vl") == 0   ? graft_gguf_name_qwen_vision
           : strcmp(kind, "qwen3vl") == 0 ? graft_gguf_name_qwen3_vision
                                          : NULL;
}

graft_status graft_mmproj_adopt(graft_safetensors *f, graft_err *e)
{
    graft_gguf_name_fn *rename = names_for(f);
    graft_safetensors *other = NULL;
    char *path = NULL;
    graft_status st = GRAFT_OK;
    if (!rename) return GRAFT_OK;
    GRAFT_TRY(find_beside(graft_safetensors_path(f), &path, e));
    if (!path) goto out;
    GRAFT_TRY(graft_safetensors_open(path, &other, e));
    GRAFT_TRY(rename_all(other, rename, e));
    GRAFT_TRY(graft_safetensors_add(f, other, e));
    other = NULL;
out:
    graft_safetensors_close(other);
    graft_free(path);
    return st;
}
