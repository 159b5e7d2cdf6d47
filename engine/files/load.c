/* Loading: what all kinds of files share, and checkpoints, which have several in one. */
#include "engine/files/load.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"

const char *const graft_load_unet_prefixes[] = {"model.diffusion_model.",
                                                "diffusion_model.",
                                                "net.",   /* Anima's own */
                                                "model.", /* AuraFlow's */
                                                "",
                                                NULL};

bool graft_load_has(const graft_safetensors *f, const char *prefix, const char *name)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return graft_safetensors_find(f, full) != NULL;
}

const char *graft_load_prefix(const graft_safetensors *f, const char *const *prefixes,
                              const char *name)
{
    for (; *prefixes; prefixes++)
        if (graft_load_has(f, *prefixes, name)) return *prefixes;
    return NULL;
}

graft_status graft_load_open(const char *path, graft_diffusers_adopt *adopt, const graft_task *task,
                             graft_weights **out, graft_err *e)
{
    graft_safetensors *f = NULL;
    graft_task_phase(task, "load");
    graft_status st = graft_safetensors_open(path, &f, e);
    if (!st && adopt) st = adopt(f, e);
    if (!st) return graft_weights_create(f, out, e);
    graft_safetensors_close(f);
    return st;
}

static graft_status report_unused(const graft_log *log, const graft_weights *w,
                                  const graft_graph *const *graph, size_t n_graphs, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(w);
    const char *prefix = graft_weights_prefix(w), *first = NULL;
    graft_map used = GRAFT_MAP_INIT;
    size_t unused = 0;
    graft_status st = GRAFT_OK;
    for (size_t n = 0; n < n_graphs && !st; n++)
        for (size_t i = 0; i < graph[n]->n_slots && !st; i++)
            for (size_t k = 0; k < graph[n]->slot[i].n_sources && !st; k++)
                if (graft_map_put(&used, graph[n]->slot[i].source[k], &used))
                    st = graft_fail_nomem(e, "tensor names");
    for (size_t i = 0; i < graft_safetensors_count(f) && !st; i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        if (graft_safetensors_at(f, i)->part || strncmp(name, prefix, strlen(prefix)) != 0)
            continue;
        if (graft_map_has(&used, name + strlen(prefix))) continue;
        if (!unused++) first = name;
    }
    graft_map_finish(&used);
    if (unused && prefix[0])
        graft_log_printf(log, GRAFT_LOG_WARN,
                         "%s: ignored %zu tensor%s that this architecture does not have: %s%s",
                         graft_safetensors_path(f), unused, unused == 1 ? "" : "s", first,
                         unused == 1 ? "" : ", …");
    return st;
}

graft_status graft_load_check(const graft_log *log, const graft_weights *w,
                              const graft_graph *const *graph, size_t n_graphs, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < n_graphs && !st; i++) st = graft_weights_check(w, graph[i], e);
    return st ? st : report_unused(log, w, graph, n_graphs, e);
}

graft_status graft_load_blame(const graft_weights *w, graft_status st, graft_err *e)
{
    if (!st || st == GRAFT_E_NOMEM) return st;
    return graft_err_prefix(e, GRAFT_E_FORMAT, "%s: the tensors below \"%s\" do not fit together",
                            graft_safetensors_path(graft_weights_file(w)), graft_weights_prefix(w));
}

/* ------------------------------------------------------------------ checkpoints */

/* Some have a VAE in diffusers' names beside a network in its own. */
static graft_status adopt(graft_safetensors *f, graft_err *e)
{
    graft_status st = graft_diffusers_adopt_net(f, e);
    return st ? st : graft_diffusers_adopt_vae_below(f, e);
}

graft_status graft_checkpoint_load(graft_engine *engine, const char *path, const graft_task *task,
                                   graft_model **model, graft_clip **clip, graft_vae **vae,
                                   graft_err *e)
{
    graft_weights *file = NULL;
    graft_model *m = NULL;
    graft_clip *c = NULL;
    graft_vae *v = NULL;
    graft_status st = graft_load_open(path, model ? adopt : NULL, task, &file, e);
    if (st) return st;
    if (model) GRAFT_TRY(graft_load_model_part(engine, file, task, &m, e));
    if (clip) GRAFT_TRY(graft_load_clip_part(engine, file, task, &c, e));
    if (clip && !model) GRAFT_TRY(graft_clip_there(c, e));
    if (vae) GRAFT_TRY(graft_load_vae_part(engine, file, &v, e));
    if (model) *model = m;
    if (clip) *clip = c;
    if (vae) *vae = v;
    m = NULL;
    c = NULL;
    v = NULL;
out:
    graft_model_release(m);
    graft_clip_release(c);
    graft_vae_release(v);
    graft_weights_release(file);
    return st;
}

graft_status graft_model_load(graft_engine *engine, const char *path, const graft_task *task,
                              graft_model **out, graft_err *e)
{
    return graft_checkpoint_load(engine, path, task, out, NULL, NULL, e);
}
