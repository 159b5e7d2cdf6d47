#include "nodes/call/vae_approx.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "nodes/call/files.h"

#define FOLDER "vae_approx"

static const char *const endings[] = {".safetensors", ".sft"}; /* of halves of pairs */
#define N_ENDINGS (sizeof endings / sizeof *endings)

bool graft_vae_approx_is_name(const char *name)
{
    for (size_t i = 0; i < N_ENDINGS; i++)
        if (graft_str_ends(name, endings[i])) return false;
    return !graft_str_ends(name, ".gguf");
}

/* ------------------------------------------------------------------ names */

/* Length of NAME where `file` is NAME, what `half` says, and an ending of model files; 0: it is
 * not.
 */
static size_t stem_of(const char *file, const char *half)
{
    for (size_t i = 0; i < N_ENDINGS; i++) {
        char suffix[32];
        snprintf(suffix, sizeof suffix, "%s%s", half, endings[i]);
        if (!graft_str_ends(file, suffix)) continue;
        size_t n = strlen(file) - strlen(suffix);
        return n && file[n - 1] != '/' ? n : 0;
    }
    return 0;
}

/* The same of a file that is no half, and whose NAME is not taken for that of a file. */
static size_t single_stem_of(const char *file)
{
    char name[512];
    const size_t n = stem_of(file, "");
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    if (stem_of(file, "_decoder") || stem_of(file, "_encoder")) return 0;
    if (strncmp(base, "_decoder.", 9) == 0 || strncmp(base, "_encoder.", 9) == 0) return 0;
    if (!n || n >= sizeof name) return 0;
    memcpy(name, file, n);
    name[n] = 0;
    return graft_vae_approx_is_name(name) ? n : 0;
}

static bool has_encoder(char *const *files, const char *decoder, size_t stem)
{
    for (; *files; files++) {
        if (strncmp(*files, decoder, stem) != 0 || !graft_str_starts(*files + stem, "_encoder"))
            continue;
        for (size_t i = 0; i < N_ENDINGS; i++)
            if (strcmp(*files + stem + strlen("_encoder"), endings[i]) == 0) return true;
    }
    return false;
}

static bool is_there(char *const *names, const char *name, size_t n)
{
    for (; *names; names++)
        if (strncmp(*names, name, n) == 0 && !(*names)[n]) return true;
    return false;
}

/* Adds the names that `files` make to the list; false when out of memory. */
static bool add_names(char ***list, char *const *files)
{
    size_t n = 0, most = 0;
    while ((*list)[n]) n++;
    while (files[most]) most++;
    char **longer = graft_realloc(*list, n + most + 1, sizeof **list);
    if (!longer) return false;
    *list = longer;
    for (size_t i = 0; files[i]; i++) {
        size_t stem = stem_of(files[i], "_decoder");
        if (stem && !has_encoder(files, files[i], stem)) continue;
        if (!stem) stem = single_stem_of(files[i]);
        if (!stem || is_there(*list, files[i], stem)) continue; /* NAME_decoder.sft as well */
        longer[n] = graft_strndup(files[i], stem);
        if (!longer[n]) return false;
        longer[++n] = NULL;
    }
    return true;
}

char **graft_vae_approx_choices(const graft_host *h)
{
    /* The last folder that was asked for is the one that a missing file is told of. */
    char **files = graft_files_choices(h, FOLDER), **list = graft_files_choices(h, "vae");
    if (!list || !files || !add_names(&list, files)) {
        graft_files_free_choices(list);
        list = NULL;
    }
    graft_files_free_choices(files);
    return list;
}

/* ------------------------------------------------------------------ files */

/* NAME with `half` behind it and one of the endings. */
static graft_status find_file(const graft_host *h, const char *name, const char *half, char **path,
                              graft_err *e)
{
    graft_status st = GRAFT_E_NOTFOUND;
    for (size_t i = 0; i < N_ENDINGS && st == GRAFT_E_NOTFOUND; i++) {
        graft_str file = GRAFT_STR_INIT;
        graft_str_printf(&file, "%s%s%s", name, half, endings[i]);
        st = file.failed ? graft_fail_nomem(e, "a file's name")
                         : graft_files_resolve(h, FOLDER, file.data, path, e);
        graft_str_finish(&file);
    }
    if (st != GRAFT_E_NOTFOUND) return st;
    return graft_fail(e, st, "there is no file %s%s.safetensors in the folder %s", name, half,
                      FOLDER);
}

graft_status graft_vae_approx_resolve(const graft_host *h, const char *name, char **encoder,
                                      char **decoder, graft_err *e)
{
    *encoder = *decoder = NULL;
    graft_status st = find_file(h, name, "_decoder", decoder, e);
    if (st == GRAFT_E_NOTFOUND) {
        st = find_file(h, name, "", decoder, e);
        return st != GRAFT_E_NOTFOUND
                   ? st
                   : graft_fail(e, st,
                                "there is no file %s_decoder.safetensors or %s.safetensors in the "
                                "folder %s",
                                name, name, FOLDER);
    }
    if (!st) st = find_file(h, name, "_encoder", encoder, e);
    if (st) {
        graft_free(*decoder);
        *decoder = NULL;
    }
    return st;
}

graft_status graft_vae_approx_stamp(const graft_host *h, const graft_arg *name, char *text,
                                    uint64_t n)
{
    char *path[2] = {NULL, NULL};
    graft_str all = GRAFT_STR_INIT;
    if (name->kind != GRAFT_CHOICE || !graft_vae_approx_is_name(name->u.s))
        return graft_files_stamp(h, "vae", name, 1, text, n);
    graft_status st = graft_vae_approx_resolve(h, name->u.s, &path[0], &path[1], NULL);
    for (int i = 0; i < 2 && !st; i++)
        if (path[i]) st = graft_files_put_identity(path[i], &all);
    if (all.failed) st = GRAFT_E_NOMEM;
    if (!st) snprintf(text, n, "%s", all.data);
    graft_str_finish(&all);
    graft_free(path[0]);
    graft_free(path[1]);
    return st;
}
