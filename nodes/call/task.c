#include "nodes/call/task.h"

#include "nodes/call/files.h"
#include "nodes/call/state.h"

static void phase(void *ctx, const char *name)
{
    graft_task_job *w = ctx;
    if (w->self->phase) w->self->phase->begin(w->job, name);
}

static void progress(void *ctx, uint64_t done, uint64_t total)
{
    graft_task_job *w = ctx;
    w->self->job->progress(w->job, done, total);
}

static bool cancelled(void *ctx)
{
    graft_task_job *w = ctx;
    return w->self->job->cancelled(w->job) != 0;
}

static void preview(void *ctx, const uint8_t *rgb, int width, int height)
{
    graft_task_job *w = ctx;
    graft_tensor t = {
        .data = (void *)(uintptr_t)rgb, /* the host copies, and does not write */
        .ndim = 3,
        .dtype_code = 1,
        .dtype_bits = 8,
        .dtype_lanes = 1,
        .device_type = 1,
        .shape = {height, width, 3},
        .stride = {(int64_t)width * 3, 3, 1},
    };
    w->self->job->preview(w->job, &t);
}

static bool preview_wanted(void *ctx)
{
    graft_task_job *w = ctx;
    return w->self->preview->wanted(w->job) != 0;
}

static void line(void *ctx, int32_t level, const char *text)
{
    graft_task_job *w = ctx;
    w->self->job->log(w->job, level, text);
}

static graft_vae *preview_vae(void *ctx, const graft_model *m)
{
    graft_task_job *w = ctx;
    const graft_log log = {ctx, line};
    graft_engine *engine;
    graft_preview_vaes *vaes;
    int32_t kind = w->self->preview->kind(w->job);
    if (kind != GRAFT_PREVIEW_DECODED && kind != GRAFT_PREVIEW_BEST) return NULL;
    if (graft_nodes_engine(&engine, NULL) || graft_nodes_preview_vaes(&vaes, NULL)) return NULL;
    return graft_preview_vaes_find(vaes, w->self->host, engine, m,
                                   kind == GRAFT_PREVIEW_DECODED ? &log : NULL);
}

static void latent(void *ctx, const float *x, const int64_t shape[4])
{
    graft_task_job *w = ctx;
    graft_tensor t = {
        .data = (void *)(uintptr_t)x, /* the host copies, and does not write */
        .ndim = 4,
        .dtype_code = 2,
        .dtype_bits = 32,
        .dtype_lanes = 1,
        .device_type = 1,
        .shape = {shape[0], shape[1], shape[2], shape[3]},
        .stride = {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1},
    };
    w->self->trace->latent(w->job, &t);
}

static graft_status embedding(void *ctx, const char *name, char **path, graft_err *e)
{
    graft_task_job *w = ctx;
    return graft_embedding_files_find(&w->embeddings, name, path, e);
}

static graft_status text_file(void *ctx, const char *name, char **path, graft_err *e)
{
    graft_task_job *w = ctx;
    return graft_files_resolve(w->self->host, "text_encoders", name, path, e);
}

void graft_task_init(graft_task *task, graft_task_job *where)
{
    const graft_preview_api *previews = where->self->preview; /* NULL: a host from before it */
    where->embeddings.host = where->self->host;
    *task = (graft_task){
        .ctx = where,
        .phase = phase,
        .progress = progress,
        .cancelled = cancelled,
        .preview = preview,
        .preview_wanted = previews ? preview_wanted : NULL,
        .preview_vae = previews ? preview_vae : NULL,
        .preview_silent =
            previews && where->job && previews->kind(where->job) == GRAFT_PREVIEW_BEST,
        .latent = where->self->trace ? latent : NULL,
        .compile_only = where->self->mode && where->self->mode->prepare_only(where->job),
        .log = {.ctx = where, .line = line},
        .embedding = embedding,
        .text_file = text_file,
    };
}

void graft_task_finish(graft_task_job *where)
{
    graft_embedding_files_finish(&where->embeddings);
}
