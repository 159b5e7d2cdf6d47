#include "host/services.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "host/job.h"

static const graft_folders *folders_of(const graft_host *h)
{
    return ((const graft_services *)(const void *)h)->folders;
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
    return tell(&e, graft_folders_resolve(folders_of(h), folder, name, path, &e), text, n);
}

static char **list(const graft_host *h, const char *folder)
{
    char **names = NULL;
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

static const graft_folders_api folders_table = {resolve, list, reserve, free_text, free_names};

static const void *query(const graft_host *h, const char *id)
{
    (void)h;
    const struct {
        const char *id;
        const void *table;
    } tables[] = {{GRAFT_JOB_ID, &graft_job_table},
                  {GRAFT_PHASE_ID, &graft_job_phase_table},
                  {GRAFT_TRACE_ID, &graft_job_trace_table},
                  {GRAFT_PICTURE_ID, &graft_job_picture_table},
                  {GRAFT_MODE_ID, &graft_job_mode_table},
                  {GRAFT_PROMPT_ID, &graft_job_prompt_table},
                  {GRAFT_UI_ID, &graft_job_ui_table},
                  {GRAFT_FOLDERS_ID, &folders_table},
                  {GRAFT_DYNAMIC_ID, &graft_job_dynamic_table},
                  {GRAFT_EXPAND_ID, &graft_job_expand_table}};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (strcmp(id, tables[i].id) == 0) return tables[i].table;
    return NULL;
}

void graft_services_init(graft_services *s, const graft_folders *folders)
{
    memset(s, 0, sizeof *s);
    s->host.size = sizeof s->host;
    s->host.abi_major = GRAFT_ABI_MAJOR;
    s->host.abi_minor = GRAFT_ABI_MINOR;
    s->host.name = "graft";
    s->host.version = GRAFT_VERSION;
    s->host.query = query;
    s->folders = folders;
}
