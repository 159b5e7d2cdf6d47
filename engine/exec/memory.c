#include "engine/exec/memory.h"

#include <string.h>

#include "base/alloc.h"

bool graft_memory_works(const graft_backend *b)
{
    const graft_kernels_more *more = graft_backend_more(b);
    return !b->info.host_memory && GRAFT_KERNELS_HAS(more, copy) && GRAFT_KERNELS_HAS(more, fill) &&
           GRAFT_KERNELS_HAS(more, send);
}

void *graft_memory_alloc(const graft_memory *m, size_t bytes)
{
    if (!m->backend) return graft_malloc(bytes);
    return m->backend->api->alloc(m->backend->device, bytes ? bytes : 1);
}

void graft_memory_free(const graft_memory *m, void *p)
{
    if (!m->backend)
        graft_free(p);
    else if (p)
        m->backend->api->free(m->backend->device, p);
}

graft_status graft_memory_check(const graft_memory *m, graft_status st, graft_err *e)
{
    char text[512] = "";
    if (!st || !m->backend) return st;
    m->backend->api->wait(m->backend->device, text, sizeof text);
    return graft_fail(e, st, "backend %s: %s", m->backend->name,
                      text[0] ? text : graft_status_text(st));
}

graft_status graft_memory_copy(const graft_memory *m, void *to, const void *from, size_t bytes,
                               graft_err *e)
{
    const graft_backend *b = m->backend;
    if (b) return graft_memory_check(m, graft_backend_more(b)->copy(b->device, to, from, bytes), e);
    memcpy(to, from, bytes);
    return GRAFT_OK;
}

graft_status graft_memory_clear(const graft_memory *m, void *p, size_t bytes, graft_err *e)
{
    const graft_backend *b = m->backend;
    const size_t floats = bytes / sizeof(float) + (bytes % sizeof(float) > 0);
    if (b) return graft_memory_check(m, graft_backend_more(b)->fill(b->device, p, floats, 0), e);
    memset(p, 0, bytes);
    return GRAFT_OK;
}

graft_status graft_memory_put(const graft_memory *m, void *to, const void *from, size_t bytes,
                              graft_err *e)
{
    const graft_backend *b = m->backend;
    if (b) return graft_memory_check(m, graft_backend_more(b)->send(b->device, to, from, bytes), e);
    memcpy(to, from, bytes);
    return GRAFT_OK;
}

graft_status graft_memory_place(const graft_memory *m, const void *from, size_t bytes,
                                const char *what, void **out, graft_err *e)
{
    *out = graft_memory_alloc(m, bytes);
    if (!*out) return graft_fail_nomem(e, what);
    return graft_memory_put(m, *out, from, bytes, e);
}

/* ------------------------------------------------------------------ runs on a device */

typedef struct there {
    const graft_memory *m;
    const graft_exe *x;
    const void *const *in;
    void *const *out;
} there;

static graft_status bring(void *ctx, void *const *address)
{
    const there *t = ctx;
    const graft_backend *b = t->m->backend;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < t->x->graph->n_inputs && !st; i++)
        st = graft_backend_more(b)->copy(b->device, address[i], t->in[i],
                                         (uint64_t)t->x->input[i].bytes);
    return st;
}

static graft_status take(void *ctx, void *const *address)
{
    const there *t = ctx;
    const graft_backend *b = t->m->backend;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < t->x->graph->n_outputs && !st; i++)
        st = graft_backend_more(b)->copy(b->device, t->out[i], address[i],
                                         (uint64_t)t->x->output[i].bytes);
    return st;
}

graft_status graft_memory_run(const graft_memory *m, const graft_binding *b, graft_arenas *arenas,
                              const void *const *in, void *const *out, const graft_task *task,
                              graft_err *e)
{
    there t = {m, b->exe, in, out};
    if (!m->backend) return graft_exe_run(b, arenas, in, out, task, NULL, e);
    return graft_exe_run_there(b, arenas, NULL, bring, take, &t, task, NULL, e);
}
