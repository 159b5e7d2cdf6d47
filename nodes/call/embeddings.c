#include "nodes/call/embeddings.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "nodes/call/files.h"

#define FOLDER "embeddings"

static graft_status list(graft_embedding_files *f, graft_err *e)
{
    const graft_folders_api *api = f->host->query(f->host, GRAFT_FOLDERS_ID);
    if (f->names) return GRAFT_OK;
    if (!api) return graft_fail(e, GRAFT_E_NOTFOUND, "this host gives no access to files");
    f->names = api->list(f->host, FOLDER);
    return f->names ? GRAFT_OK : graft_fail_nomem(e, "a list of files");
}

void graft_embedding_files_finish(graft_embedding_files *f)
{
    const graft_folders_api *api = f->names ? f->host->query(f->host, GRAFT_FOLDERS_ID) : NULL;
    if (api) api->free_names(f->host, f->names);
    f->names = NULL;
}

/* Whether `file` is `name`, or that and an ending of model files. */
static bool is_named(const char *file, const char *name)
{
    size_t n = strlen(name);
    if (!n || strncmp(file, name, n) != 0) return false;
    const char *rest = file + n;
    return !*rest || strcmp(rest, ".safetensors") == 0 || strcmp(rest, ".sft") == 0;
}

static const char *search(char **names, const char *name)
{
    for (size_t i = 0; names[i]; i++)
        if (is_named(names[i], name)) return names[i];
    for (size_t i = 0; names[i]; i++)
        for (const char *s = strchr(names[i], '/'); s; s = strchr(s + 1, '/'))
            if (is_named(s + 1, name)) return names[i];
    return NULL;
}

graft_status graft_embedding_files_find(graft_embedding_files *f, const char *name, char **path,
                                        graft_err *e)
{
    graft_status st = list(f, e);
    if (st) return st;
    const char *file = search(f->names, name);
    if (!file)
        return graft_fail(
            e, GRAFT_E_NOTFOUND,
            "there is no file of this name in the embeddings folder; only .safetensors and .sft "
            "are read (graft convert makes them from .pt and .bin)");
    return graft_files_resolve(f->host, FOLDER, file, path, e);
}

/* ------------------------------------------------------------------ fingerprints */

typedef struct stamps {
    graft_embedding_files files;
    graft_str text;
} stamps;

/* The file that was found, or not: one that cannot be reached is one more state of the folder.
 * Takes the path over. */
static graft_status add(stamps *s, graft_status st, char *path)
{
    if (st == GRAFT_OK) st = graft_files_put_identity(path, &s->text);
    if (st != GRAFT_OK) graft_str_puts(&s->text, "none ");
    graft_free(path);
    return st == GRAFT_E_NOMEM ? st : GRAFT_OK;
}

static graft_status add_named(void *ctx, const char *name)
{
    stamps *s = ctx;
    char *path = NULL;
    graft_status found = graft_embedding_files_find(&s->files, name, &path, NULL);
    graft_status st = add(s, found, path);
    return st == GRAFT_OK && found != GRAFT_OK ? GRAFT_E_NOTFOUND : st;
}

static graft_status add_all(stamps *s)
{
    graft_status st = list(&s->files, NULL);
    for (size_t i = 0; st == GRAFT_OK && s->files.names[i]; i++) {
        char *path = NULL;
        graft_str_printf(&s->text, "%s ", s->files.names[i]);
        st = graft_files_resolve(s->files.host, FOLDER, s->files.names[i], &path, NULL);
        st = add(s, st, path);
    }
    return st == GRAFT_E_NOTFOUND ? GRAFT_OK : st;
}

graft_status graft_embeddings_stamp(const graft_host *h, const graft_arg *prompts, size_t count,
                                    char *text, uint64_t n)
{
    stamps s = {.files = {.host = h}, .text = GRAFT_STR_INIT};
    graft_status st = GRAFT_OK;
    char hex[33];
    for (size_t i = 0; i < count && st == GRAFT_OK; i++)
        st = prompts[i].kind == GRAFT_STRING && prompts[i].u.s
                 ? graft_prompt_embeddings(prompts[i].u.s, add_named, &s, NULL)
                 : add_all(&s);
    if (s.text.failed) st = GRAFT_E_NOMEM;
    if (st == GRAFT_OK && s.text.len) {
        graft_hash_hex(graft_hash128(s.text.data, s.text.len), hex);
        snprintf(text, n, "%s", hex);
    }
    graft_embedding_files_finish(&s.files);
    graft_str_finish(&s.text);
    return st;
}
