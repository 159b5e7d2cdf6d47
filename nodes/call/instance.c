#include "nodes/call/instance.h"

#include <stdio.h>
#include <stdint.h>
#include <sys/random.h>
#include <time.h>

#include "base/alloc.h"

uint64_t graft_instance_random(const void *salt)
{
    uint64_t r;
    if (getrandom(&r, sizeof r, 0) != sizeof r) r = (uint64_t)time(NULL) ^ (uintptr_t)salt;
    return r;
}

/* Five letters, so that the previews of two processes with one temporary folder stay apart. */
static void choose_temp_prefix(char *out, size_t n, const void *salt)
{
    uint64_t r = graft_instance_random(salt);
    char letters[6] = {0};
    for (int i = 0; i < 5; i++, r /= 26) letters[i] = (char)('a' + r % 26);
    snprintf(out, n, "ComfyUI_temp_%s", letters);
}

graft_status graft_instance_create(const graft_host *h, void **self)
{
    const graft_job_api *job = h->query(h, GRAFT_JOB_ID);
    if (!job) return GRAFT_E_UNSUPPORTED;
    graft_instance *s = graft_calloc(1, sizeof *s);
    if (!s) return GRAFT_E_NOMEM;
    s->host = h;
    s->job = job;
    s->phase = h->query(h, GRAFT_PHASE_ID);
    s->prompt = h->query(h, GRAFT_PROMPT_ID);
    s->ui = h->query(h, GRAFT_UI_ID);
    s->mode = h->query(h, GRAFT_MODE_ID);
    s->trace = h->query(h, GRAFT_TRACE_ID);
    s->picture = h->query(h, GRAFT_PICTURE_ID);
    s->preview = h->query(h, GRAFT_PREVIEW_ID);
    choose_temp_prefix(s->temp_prefix, sizeof s->temp_prefix, s);
    *self = s;
    return GRAFT_OK;
}

void graft_instance_destroy(void *self)
{
    graft_instance *s = self;
    if (!s) return;
    graft_free(s->text);
    graft_free(s);
}
