/* Encoders of pictures and style models. */
#include <stdio.h>

#include "base/alloc.h"
#include "engine/files/kinds.h"
#include "engine/files/load.h"
#include "engine/models/detect/detect.h"
#include "engine/prompts/vision.h"

/* Whether the part has all that the graph reads. Whole CLIPs have text encoders beside it, and
 * SigLIP a head, which are no leftovers. Takes over the graph. */
static graft_status check(const graft_weights *w, graft_graph *g, graft_status st, graft_err *e)
{
    st = st ? graft_load_blame(w, st, e) : graft_weights_check(w, g, e);
    graft_graph_destroy(g);
    return st;
}

static graft_status make_vision(graft_engine *engine, graft_weights *file, const char *place,
                                graft_vision **out, graft_err *e)
{
    graft_graph *g = NULL;
    graft_status st;
    graft_vision *v = graft_calloc(1, sizeof *v);
    if (!v) return graft_fail_nomem(e, "vision encoder");
    atomic_init(&v->refs, 1);
    v->engine = engine;
    snprintf(v->options.precision, sizeof v->options.precision, "f32");
    GRAFT_TRY(graft_vision_detect(graft_weights_file(file), place, &v->arch, e));
    GRAFT_TRY(graft_weights_part(file, place, &v->weights, e));
    st = graft_vision_build(&v->arch, GRAFT_F32, &g, e);
    GRAFT_TRY(check(v->weights, g, st, e));
    *out = v;
    v = NULL;
out:
    graft_vision_release(v);
    return st;
}

/* The second in unCLIP checkpoints. */
static const char *const places[] = {"", "embedder.model.", NULL};

graft_status graft_vision_load(graft_engine *engine, const char *path, const graft_task *task,
                               graft_vision **out, graft_err *e)
{
    graft_weights *file = NULL;
    char guess[128];
    *out = NULL;
    graft_status st = graft_load_open(path, NULL, task, &file, e);
    if (st) return st;
    const graft_safetensors *f = graft_weights_file(file);
    const char *const *place = places;
    while (*place && !graft_vision_in(f, *place)) place++;
    if (*place)
        st = make_vision(engine, file, *place, out, e);
    else
        st = graft_fail(e, GRAFT_E_UNSUPPORTED,
                        "%s: no vision encoder in it%s (neither tensor "
                        "vision_model.embeddings.patch_embedding.weight nor visual.conv1.weight)",
                        path, graft_kind_guess(f, "CLIPVisionLoader", guess, sizeof guess));
    graft_weights_release(file);
    return st;
}

/* ------------------------------------------------------------------ style models */

static graft_status no_style(const graft_safetensors *f, graft_err *e)
{
    const char *path = graft_safetensors_path(f);
    char guess[128];
    if (graft_load_has(f, "", "style_embedding"))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a style model of T2I-Adapter; only FLUX.1 Redux is supported", path);
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: no style model in it%s (tensor " GRAFT_REDUX_TENSOR " is missing)", path,
                      graft_kind_guess(f, "StyleModelLoader", guess, sizeof guess));
}

static graft_status make_style(graft_engine *engine, graft_weights *file, graft_style **out,
                               graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    graft_graph *g = NULL;
    graft_status st;
    if (!graft_load_has(f, "", GRAFT_REDUX_TENSOR)) return no_style(f, e);
    graft_style *s = graft_calloc(1, sizeof *s);
    if (!s) return graft_fail_nomem(e, "style model");
    atomic_init(&s->refs, 1);
    s->engine = engine;
    snprintf(s->options.precision, sizeof s->options.precision, "f32");
    s->weights = graft_weights_retain(file);
    GRAFT_TRY(graft_redux_detect(f, &s->arch, e));
    st = graft_redux_build(&s->arch, 1, GRAFT_F32, &g, e);
    GRAFT_TRY(check(s->weights, g, st, e));
    *out = s;
    s = NULL;
out:
    graft_style_release(s);
    return st;
}

graft_status graft_style_load(graft_engine *engine, const char *path, const graft_task *task,
                              graft_style **out, graft_err *e)
{
    graft_weights *file = NULL;
    *out = NULL;
    graft_status st = graft_load_open(path, NULL, task, &file, e);
    if (!st) st = make_style(engine, file, out, e);
    graft_weights_release(file);
    return st;
}
