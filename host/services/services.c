#include "host/services/services.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

static const graft_folders *folders_of(const graft_host *h)
{
    return ((const graft_services *)(const void *)h)->folders;
}

/* The host is given to plugins as constant; what is noted is ours. */
static graft_services *services_of(const graft_host *h)
{
    return (graft_services *)(uintptr_t)h;
}

static void note(const graft_host *h, const char *key)
{
    graft_services *s = services_of(h);
    bool model = false;
    for (size_t i = 0; graft_folders_key(i); i++) model |= strcmp(key, graft_folders_key(i)) == 0;
    pthread_mutex_lock(&s->lock);
    for (graft_lookup *l = s->lookup; l; l = l->next)
        if (pthread_equal(l->thread, pthread_self()))
            snprintf(l->folder, sizeof l->folder, "%s%s", model ? "models/" : "", key);
    pthread_mutex_unlock(&s->lock);
}

void graft_lookup_begin(graft_lookup *l, const graft_host *host)
{
    graft_services *s = services_of(host);
    l->thread = pthread_self();
    l->folder[0] = 0;
    pthread_mutex_lock(&s->lock);
    l->next = s->lookup;
    s->lookup = l;
    pthread_mutex_unlock(&s->lock);
}

void graft_lookup_end(graft_lookup *l, const graft_host *host)
{
    graft_services *s = services_of(host);
    pthread_mutex_lock(&s->lock);
    graft_lookup **at = &s->lookup;
    while (*at != l) at = &(*at)->next;
    *at = l->next;
    pthread_mutex_unlock(&s->lock);
}

static graft_status tell(const graft_err *e, graft_status st, char *text, uint64_t n)
{
    if (st && text && n) snprintf(text, n, "%s", e->text);
    return st;
}

static graft_status resolve(const graft_host *h, const char *folder, const char *name, char **path,
                            char *text, uint64_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    *path = NULL;
    if (!folder || !name) return GRAFT_E_ARG;
    graft_status st = graft_folders_resolve(folders_of(h), folder, name, path, &e);
    if (st) note(h, folder);
    return tell(&e, st, text, n);
}

static char **list(const graft_host *h, const char *folder)
{
    char **names = NULL;
    note(h, folder);
    return graft_folders_list(folders_of(h), folder, &names, NULL) ? NULL : names;
}

static graft_status reserve(const graft_host *h, const char *folder, const char *prefix,
                            const char *suffix, int64_t width, int64_t height, char **path,
                            char **name, char **subfolder, char *text, uint64_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_reserved r;
    graft_status st =
        graft_folders_reserve(folders_of(h), folder, prefix, suffix, width, height, &r, &e);
    *path = r.path;
    *name = r.name;
    *subfolder = r.subfolder;
    return tell(&e, st, text, n);
}

static void free_text(const graft_host *h, char *text)
{
    (void)h;
    graft_free(text);
}

static void free_names(const graft_host *h, char **names)
{
    (void)h;
    graft_folders_free_names(names);
}

static void log_line(const graft_host *h, int32_t level, const char *text)
{
    const graft_services *s = (const graft_services *)(const void *)h;
    if (s->log.line && text) s->log.line(s->log.ctx, level, text);
}

static const graft_log_api log_table = {log_line};
static const graft_folders_api folders_table = {resolve, list, reserve, free_text, free_names};

static const void *query(const graft_host *h, const char *id)
{
    const graft_services *s = (const graft_services *)(const void *)h;
    if (strcmp(id, GRAFT_FOLDERS_ID) == 0) return &folders_table;
    if (strcmp(id, GRAFT_LOG_ID) == 0) return &log_table;
    for (const graft_service *t = s->more; t->id; t++)
        if (strcmp(id, t->id) == 0) return t->table;
    return NULL;
}

void graft_services_init(graft_services *s, const graft_folders *folders, const graft_service *more,
                         const graft_log *log)
{
    memset(s, 0, sizeof *s);
    s->host.size = sizeof s->host;
    s->host.abi_major = GRAFT_ABI_MAJOR;
    s->host.abi_minor = GRAFT_ABI_MINOR;
    s->host.name = "graft";
    s->host.version = GRAFT_VERSION;
    s->host.query = query;
    s->folders = folders;
    s->more = more;
    if (log) s->log = *log;
    pthread_mutex_init(&s->lock, NULL);
}

void graft_services_finish(graft_services *s)
{
    if (s->folders) pthread_mutex_destroy(&s->lock);
    memset(s, 0, sizeof *s);
}
