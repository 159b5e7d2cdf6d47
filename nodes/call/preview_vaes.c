#include "nodes/call/preview_vaes.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "nodes/call/files.h"

#define FOLDER    "vae_approx"
#define MEMORY_MB 256 /* what decoding one takes at most; larger pictures are made in strips */

/* A file in the state in which it was opened. */
typedef struct known_file {
    char *identity;
    graft_vae *vae; /* NULL: nothing that decodes */
    bool seen;      /* in the present look at the folder */
} known_file;

struct graft_preview_vaes {
    pthread_mutex_t lock; /* guards the rest */
    known_file *file;     /* in no order */
    size_t n, cap;
    bool warned; /* that none of these files will do */
};

graft_status graft_preview_vaes_create(graft_preview_vaes **out, graft_err *e)
{
    *out = graft_calloc(1, sizeof **out);
    if (!*out) return graft_fail_nomem(e, "the decoders of previews");
    pthread_mutex_init(&(*out)->lock, NULL);
    return GRAFT_OK;
}

static void file_finish(known_file *f)
{
    graft_free(f->identity);
    graft_vae_release(f->vae);
}

void graft_preview_vaes_destroy(graft_preview_vaes *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->n; i++) file_finish(&p->file[i]);
    graft_free(p->file);
    pthread_mutex_destroy(&p->lock);
    graft_free(p);
}

/* ------------------------------------------------------------------ files */

/* Ready to decode previews; NULL for what cannot. */
static graft_vae *open_vae(graft_engine *engine, const char *path)
{
    const graft_compile_options options = {.precision = "auto",
                                           .tuning = "off",
                                           .device = "auto",
                                           .max_memory_mb = MEMORY_MB,
                                           .cache = true,
                                           .tile = true};
    graft_vae *file = NULL, *vae = NULL;
    if (graft_vae_load(engine, path, NULL, &file, NULL)) return NULL;
    if (graft_vae_compile(file, &options, NULL, &vae, NULL)) vae = NULL;
    graft_vae_release(file);
    return vae;
}

/* The file of this identity, which is taken over; opened when it is not known yet. NULL: out of
 * memory. */
static known_file *find_file(graft_preview_vaes *p, char *identity, graft_engine *engine,
                             const char *path)
{
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->file[i].identity, identity) != 0) continue;
        graft_free(identity);
        return &p->file[i];
    }
    if (graft_grow(&p->file, &p->cap, p->n + 1, sizeof *p->file)) {
        graft_free(identity);
        return NULL;
    }
    known_file *f = &p->file[p->n++];
    *f = (known_file){.identity = identity, .vae = open_vae(engine, path)};
    p->warned = false;
    return f;
}

/* What the folder's file of this name is now; NULL when it is gone. */
static known_file *look_at(graft_preview_vaes *p, const graft_host *h, graft_engine *engine,
                           const char *name)
{
    graft_str identity = GRAFT_STR_INIT;
    known_file *f = NULL;
    char *path = NULL;
    if (graft_files_resolve(h, FOLDER, name, &path, NULL) == GRAFT_OK) {
        graft_str_printf(&identity, "%s ", path);
        graft_files_put_identity(path, &identity);
        char *text = graft_str_take(&identity);
        if (text) f = find_file(p, text, engine, path);
    }
    graft_str_finish(&identity);
    graft_free(path);
    if (f) f->seen = true;
    return f;
}

/* Closes the files that are in the folder no more. */
static void forget_others(graft_preview_vaes *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (p->file[i].seen)
            p->file[kept++] = p->file[i];
        else
            file_finish(&p->file[i]);
    }
    if (kept < p->n) p->warned = false;
    p->n = kept;
}

graft_vae *graft_preview_vaes_find(graft_preview_vaes *p, const graft_host *h, graft_engine *engine,
                                   const graft_model *m, const graft_log *log)
{
    char **names = graft_files_choices(h, FOLDER);
    graft_vae *found = NULL;
    bool tell = false;
    if (!names) return NULL;
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->n; i++) p->file[i].seen = false;
    for (size_t i = 0; names[i]; i++) {
        const known_file *f = look_at(p, h, engine, names[i]);
        if (!found && f && f->vae && graft_vae_is_for(f->vae, m)) found = graft_vae_retain(f->vae);
    }
    forget_others(p);
    if (!found && log) {
        tell = !p->warned;
        p->warned = true;
    }
    pthread_mutex_unlock(&p->lock);
    graft_files_free_choices(names);
    if (tell)
        graft_log_printf(log, GRAFT_LOG_WARN,
                         "previews are not decoded: there is no tiny autoencoder for this model's "
                         "latents in the folder %s",
                         FOLDER);
    return found;
}
