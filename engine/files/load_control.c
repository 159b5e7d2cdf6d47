/* ControlNets, whole or as differences from a model, those of models instead of prompts, and
 * T2I-Adapters. */
#include <math.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/models/controls/t2i_adapter.h"
#include "engine/objects/control.h"
#include "engine/files/kinds.h"
#include "engine/files/load.h"
#include "engine/models/detect/detect.h"

static const char *const prefixes[] = {"control_model.", "", NULL};

/* Relatives of ControlNets that steer a UNet in other ways. */
static graft_status no_controlnet(const graft_safetensors *f, graft_err *e)
{
    const char *path = graft_safetensors_path(f);
    char guess[128];
    if (graft_load_has(f, "", "style_embedding"))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a style model of T2I-Adapter; only those that see what a picture "
                          "shows are supported",
                          path);
    return graft_fail(
        e, GRAFT_E_UNSUPPORTED,
        "%s: no ControlNet in it%s (tensor control_model.input_hint_block.0.weight is "
        "missing)",
        path, graft_kind_guess(f, "ControlNetLoader", guess, sizeof guess));
}

/* XLabs' ControlNets for FLUX, in their own names and in diffusers'. */
static bool is_xlabs(const graft_safetensors *f)
{
    return (graft_load_has(f, "", "input_hint_block.0.weight") &&
            graft_load_has(f, "", GRAFT_FLUX_TENSOR)) ||
           graft_load_has(f, "", "input_hint_block.conv_in.weight");
}

static graft_status no_xlabs(const graft_safetensors *f, graft_err *e)
{
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: a ControlNet of XLabs' kind for FLUX.1, whose picture goes through "
                      "convolutions (input_hint_block); only those whose picture becomes a latent "
                      "are supported",
                      graft_safetensors_path(f));
}

/* Whether the copy of a UNet in it is one of differences. Norms tell: their scales lie about 1 in a
 * network, and about 0 in what training has changed of them. */
static bool holds_differences(const graft_weights *w, const graft_graph *g)
{
    double sum = 0;
    int64_t count = 0;
    for (size_t i = 0; i < g->n_slots; i++) {
        const graft_gslot *s = &g->slot[i];
        float v[4096];
        if (s->rank != 1 || s->dim[0] > 4096 || !graft_str_ends(s->source[0], ".weight")) continue;
        if (graft_weights_values(w, s->source[0], 0, s->dim[0], v, NULL)) continue;
        for (int64_t k = 0; k < s->dim[0]; k++) sum += fabs((double)v[k]);
        count += s->dim[0];
    }
    return count && sum < 0.1 * (double)count;
}

static graft_status add_model(graft_controlnet *n, const graft_model *m, const graft_graph *g,
                              graft_err *e)
{
    graft_weights *sum;
    graft_status st;
    if (n->arch.diffusers || n->arch.kind != GRAFT_NET_UNET)
        return graft_fail(
            e, GRAFT_E_UNSUPPORTED,
            "%s: differences in diffusers' names or for a transformer; only those for "
            "UNets in LDM's names are supported",
            graft_safetensors_path(graft_weights_file(n->weights)));
    GRAFT_TRY(graft_control_check(m, n, e));
    GRAFT_TRY(graft_weights_add(n->weights, m->weights, &sum, e));
    graft_weights_release(n->weights);
    n->weights = sum;
    GRAFT_TRY(graft_weights_check(sum, g, e));
out:
    return st;
}

static void tell_whole(const graft_log *log, const char *path)
{
    graft_log_printf(
        log, GRAFT_LOG_WARN,
        "%s: it holds whole weights, not differences from a model's; nothing is added to them",
        path);
}

/* m: NULL, or what differences are from. */
static graft_status add_differences(graft_controlnet *n, const graft_model *m, const graft_graph *g,
                                    const graft_log *log, graft_err *e)
{
    const char *path = graft_safetensors_path(graft_weights_file(n->weights));
    bool differences = holds_differences(n->weights, g);
    if (differences && m) return add_model(n, m, g, e);
    if (differences)
        graft_log_printf(log, GRAFT_LOG_WARN,
                         "%s: it seems to hold differences from a model's weights, which "
                         "DiffControlNetLoader adds to a model's",
                         path);
    else if (m)
        tell_whole(log, path);
    return GRAFT_OK;
}

/* Of one for FLUX or Stable Diffusion 3, or NULL. */
static const char *transformer_prefix(const graft_safetensors *f)
{
    const bool flux =
        graft_load_has(f, "", GRAFT_CONTROL_FLUX_TENSOR) && graft_load_has(f, "", "img_in.weight");
    const bool mmdit = graft_load_has(f, "", GRAFT_CONTROL_MMDIT_TENSOR) &&
                       graft_load_has(f, "", "controlnet_blocks.0.weight");
    return flux || mmdit ? "" : NULL;
}

static graft_status make_adapter(graft_engine *engine, graft_weights *file, const char *prefix,
                                 const graft_log *log, graft_controlnet **out, graft_err *e)
{
    graft_controlnet *n = graft_calloc(1, sizeof *n);
    const graft_t2i_shape s = {.rows = 1, .height = 64, .width = 64, .act_dtype = GRAFT_F32};
    graft_graph *g = NULL;
    graft_status st;
    if (!n) return graft_fail_nomem(e, "T2I-Adapter");
    atomic_init(&n->refs, 1);
    n->engine = engine;
    GRAFT_TRY(graft_t2i_detect(graft_weights_file(file), prefix, &n->arch.t2i, e));
    GRAFT_TRY(graft_weights_part(file, prefix, &n->weights, e));
    GRAFT_TRY(graft_load_blame(n->weights, graft_t2i_build(&n->arch.t2i, &s, &g, e), e));
    GRAFT_TRY(graft_load_check(log, n->weights, (const graft_graph *const *)&g, 1, e));
    *out = n;
    n = NULL;
out:
    graft_graph_destroy(g);
    graft_controlnet_release(n);
    return st;
}

/* What is below the prefix; `joins`: it is made for a model before it runs. */
static graft_status make_net(graft_engine *engine, graft_weights *file, const char *prefix,
                             bool joins, const graft_model *m, const graft_log *log,
                             graft_controlnet **out, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    graft_graph *g[2] = {NULL, NULL};
    graft_status st;
    graft_controlnet *n = graft_calloc(1, sizeof *n);
    if (!n) return graft_fail_nomem(e, "ControlNet");
    atomic_init(&n->refs, 1);
    n->engine = engine;
    if (joins && !(n->lora = graft_control_lora_create())) {
        st = graft_fail_nomem(e, "ControlNet");
        goto out;
    }
    GRAFT_TRY(
        graft_control_detect(f, prefix, graft_safetensors_metadata(f, "config"), &n->arch, e));
    GRAFT_TRY(graft_weights_part(file, prefix, &n->weights, e));
    const graft_control_shape s = graft_control_some_shape(&n->arch);
    GRAFT_TRY(graft_load_blame(n->weights, graft_control_build(&n->arch, &s, &g[0], e), e));
    GRAFT_TRY(graft_load_blame(
        n->weights, graft_control_hint_build(&n->arch, 1, s.height, s.width, GRAFT_F32, &g[1], e),
        e));
    GRAFT_TRY(graft_load_check(log, n->weights, (const graft_graph *const *)g, 2, e));
    GRAFT_TRY(add_differences(n, m, g[0], log, e));
    *out = n;
    n = NULL;
out:
    graft_graph_destroy(g[0]);
    graft_graph_destroy(g[1]);
    graft_controlnet_release(n);
    return st;
}

static graft_status make_controlnet(graft_engine *engine, graft_weights *file, const graft_model *m,
                                    const graft_log *log, graft_controlnet **out, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    const char *prefix = graft_load_prefix(f, prefixes, "input_hint_block.0.weight");
    if (!prefix)
        prefix = graft_load_prefix(f, prefixes, "controlnet_cond_embedding.conv_in.weight");
    if (!prefix) prefix = transformer_prefix(f);
    if (is_xlabs(f)) return no_xlabs(f, e);
    return prefix ? make_net(engine, file, prefix, false, m, log, out, e) : no_controlnet(f, e);
}

graft_status graft_model_patch_load(graft_engine *engine, const char *path, const graft_task *task,
                                    graft_controlnet **out, graft_err *e)
{
    const graft_log *log = task ? &task->log : &engine->log;
    char guess[128];
    graft_weights *file = NULL;
    graft_status st = graft_load_open(path, graft_diffusers_adopt_control, task, &file, e);
    if (!st && graft_load_has(graft_weights_file(file), "", GRAFT_CONTROL_ZIMAGE_TENSOR))
        st = make_net(engine, file, "", true, NULL, log, out, e);
    else if (!st && graft_load_has(graft_weights_file(file), "", GRAFT_CONTROL_BLOCKWISE_TENSOR))
        st = make_net(engine, file, "", false, NULL, log, out, e);
    else if (!st)
        st = graft_fail(
            e, GRAFT_E_UNSUPPORTED,
            "%s: no ControlNet for Z-Image or of DiffSynth's for Qwen-Image in it%s (tensor %s or "
            "%s is missing)",
            path,
            graft_kind_guess(graft_weights_file(file), "ModelPatchLoader", guess, sizeof guess),
            GRAFT_CONTROL_ZIMAGE_TENSOR, GRAFT_CONTROL_BLOCKWISE_TENSOR);
    graft_weights_release(file);
    return st;
}

graft_status graft_controlnet_load_diff(graft_engine *engine, const char *path,
                                        const graft_model *m, const graft_task *task,
                                        graft_controlnet **out, graft_err *e)
{
    const graft_log *log = task ? &task->log : &engine->log;
    graft_weights *file = NULL;
    graft_status st = graft_load_open(path, graft_diffusers_adopt_control, task, &file, e);
    const char *adapter = st ? NULL : graft_t2i_prefix(graft_weights_file(file));
    const char *lora =
        st ? NULL
           : graft_load_prefix(graft_weights_file(file), prefixes, GRAFT_CONTROL_LORA_TENSOR);
    if (lora)
        st = graft_load_control_lora(engine, file, lora, out, e);
    else if (adapter)
        st = make_adapter(engine, file, adapter, log, out, e);
    else if (!st)
        st = make_controlnet(engine, file, m, log, out, e);
    if (adapter && !st && m) tell_whole(log, path);
    graft_weights_release(file);
    return st;
}

graft_status graft_controlnet_load(graft_engine *engine, const char *path, const graft_task *task,
                                   graft_controlnet **out, graft_err *e)
{
    return graft_controlnet_load_diff(engine, path, NULL, task, out, e);
}
