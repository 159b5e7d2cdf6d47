/* Text encoders: of a checkpoint, or of files of their own. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/api/kinds.h"
#include "engine/api/load.h"

/* In a checkpoint; a file of its own has the last. */
static const char *const places[] = {"cond_stage_model.transformer.",
                                     "cond_stage_model.model.",
                                     "conditioner.embedders.0.transformer.",
                                     "conditioner.embedders.0.model.",
                                     "conditioner.embedders.1.model.",
                                     "",
                                     NULL};

static graft_status check_encoder(const graft_encoder *n, graft_err *e)
{
    graft_graph *g = NULL;
    graft_textenc_shape shape = {1, GRAFT_TEXT_CHUNK, n->arch.layers, true, true, true, GRAFT_F32};
    graft_status st = graft_textenc_build(&n->arch, &shape, &g, e);
    st = st ? graft_load_blame(n->weights, st, e) : graft_weights_check(n->weights, g, e);
    graft_graph_destroy(g);
    return st;
}

/* SD 2's encoder has 24 layers, of which the last is not used: diffusers does not keep it. */
static bool is_cut(const graft_text_arch *a)
{
    return a->layout == GRAFT_TEXT_HF && a->width == 1024 && a->layers == 23;
}

/* Looks for one encoder at a place; *found is false when there is none. `sdxl`: the hidden state is
 * the last but one, without norm. */
static graft_status add_encoder(graft_clip *c, graft_weights *file, const char *place, bool sdxl,
                                bool *found, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    *found = graft_load_has(f, place, "positional_embedding") ||
             graft_load_has(f, place, "text_model.embeddings.position_embedding.weight");
    if (!*found) return GRAFT_OK;
    if (c->n_encoders == 2)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: more than two text encoders",
                          graft_safetensors_path(f));
    graft_encoder *n = &c->encoder[c->n_encoders];
    graft_status st =
        graft_text_detect(f, place, graft_safetensors_metadata(f, "config"), &n->arch, e);
    if (st) return st;
    bool big = n->arch.layout == GRAFT_TEXT_OPENCLIP || n->arch.width >= 1024;
    n->pad_token = big ? 0 : 49407;
    n->cut = is_cut(&n->arch);
    n->layer = (sdxl || big ? 2 : 1) - n->cut;
    n->hidden_norm = !sdxl;
    st = graft_weights_part(file, place, &n->weights, e);
    if (st) return st;
    c->n_encoders++;
    return check_encoder(n, e);
}

static graft_clip *new_clip(graft_engine *engine)
{
    graft_clip *c = graft_calloc(1, sizeof *c);
    if (!c) return NULL;
    atomic_init(&c->refs, 1);
    c->engine = engine;
    snprintf(c->options.precision, sizeof c->options.precision, "f32");
    return c;
}

static graft_status no_encoder(const graft_safetensors *f, const char *why, graft_err *e)
{
    char guess[128];
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: no CLIP text encoder in it%s%s",
                      graft_safetensors_path(f),
                      graft_kind_guess(f, "CLIPLoader", guess, sizeof guess), why);
}

graft_status graft_load_clip_part(graft_engine *engine, graft_weights *file, graft_clip **out,
                                  graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    graft_clip *c = new_clip(engine);
    graft_status st = GRAFT_OK;
    if (!c) return graft_fail_nomem(e, "text encoder");
    bool sdxl = graft_load_has(f, "conditioner.embedders.1.model.", "positional_embedding") ||
                graft_load_has(f, "conditioner.embedders.0.model.", "positional_embedding");
    for (const char *const *p = places; (*p)[0]; p++) {
        bool found;
        GRAFT_TRY(add_encoder(c, file, *p, sdxl, &found, e));
    }
    if (!c->n_encoders) {
        st = no_encoder(f, " (no cond_stage_model.* or conditioner.embedders.* tensors)", e);
        goto out;
    }
    *out = c;
    c = NULL;
out:
    graft_clip_release(c);
    return st;
}

graft_status graft_clip_load(graft_engine *engine, const char *const *paths, size_t n_paths,
                             const char *type, const graft_task *task, graft_clip **out,
                             graft_err *e)
{
    bool sdxl = strcmp(type, "sdxl") == 0;
    if (!sdxl && strcmp(type, "stable_diffusion") != 0)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "text encoders of type %s are not supported",
                          type);
    if (n_paths != (sdxl ? 2u : 1u))
        return graft_fail(e, GRAFT_E_ARG, "type %s takes %d file(s)", type, sdxl ? 2 : 1);
    graft_clip *c = new_clip(engine);
    graft_weights *file = NULL;
    graft_status st = GRAFT_OK;
    if (!c) return graft_fail_nomem(e, "text encoder");
    for (size_t i = 0; i < n_paths; i++) {
        bool found = false;
        GRAFT_TRY(graft_load_open(paths[i], NULL, task, &file, e));
        for (const char *const *p = places; *p && !found; p++)
            GRAFT_TRY(add_encoder(c, file, *p, sdxl, &found, e));
        if (!found) {
            st = no_encoder(graft_weights_file(file), "", e);
            goto out;
        }
        graft_weights_release(file);
        file = NULL;
    }
    if (sdxl && c->encoder[0].arch.width > c->encoder[1].arch.width) {
        graft_encoder t = c->encoder[0];
        c->encoder[0] = c->encoder[1];
        c->encoder[1] = t;
    }
    if (sdxl) c->encoder[1].pad_token = 0; /* as OpenCLIP pads, in whichever names */
    *out = c;
    c = NULL;
out:
    graft_weights_release(file);
    graft_clip_release(c);
    return st;
}
