/* GLIGEN. */
#include <stdio.h>

#include "base/alloc.h"
#include "engine/files/kinds.h"
#include "engine/files/load.h"
#include "engine/models/detect/detect.h"
#include "engine/objects/boxes.h"
#include "engine/weights/quantized.h"

/* What stands for no text and no box is no weight of a graph. */
static graft_status check_numbers(const graft_weights *w, const char *name, graft_err *e)
{
    const graft_st_tensor *t = graft_weights_find(w, name);
    if (!t || (graft_st_is_weight(t) && !graft_is_quantized(t->dtype))) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_FORMAT, "%s: tensor %s has numbers of an unexpected type",
                      graft_safetensors_path(graft_weights_file(w)), name);
}

/* What is not read is no error: the authors' files have the whole UNet beside it. */
static graft_status check(const graft_gligen *g, graft_err *e)
{
    graft_graph *tokens = NULL, *blocks = NULL;
    graft_status st = check_numbers(g->weights, GRAFT_GLIGEN_NO_TEXT, e);
    if (!st) st = check_numbers(g->weights, GRAFT_GLIGEN_NO_BOX, e);
    if (!st) st = graft_gligen_build(&g->arch, GRAFT_F32, &tokens, e);
    if (!st) st = graft_load_blame(g->weights, graft_gligen_build_all(&g->arch, &blocks, e), e);
    if (!st) st = graft_weights_check(g->weights, tokens, e);
    if (!st) st = graft_weights_check(g->weights, blocks, e);
    graft_graph_destroy(tokens);
    graft_graph_destroy(blocks);
    return st;
}

static graft_status make(graft_engine *engine, graft_weights *file, graft_gligen **out,
                         graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    const char *prefix = graft_gligen_prefix(f);
    char guess[128];
    if (!prefix)
        return graft_fail(
            e, GRAFT_E_UNSUPPORTED, "%s: no GLIGEN in it%s (no tensor is called position_net.…)",
            graft_safetensors_path(f), graft_kind_guess(f, "GLIGENLoader", guess, sizeof guess));
    graft_gligen *g = graft_calloc(1, sizeof *g);
    if (!g) return graft_fail_nomem(e, "GLIGEN");
    atomic_init(&g->refs, 1);
    g->engine = engine;
    snprintf(g->options.precision, sizeof g->options.precision, "f32");
    graft_status st = graft_weights_part(file, prefix, &g->weights, e);
    if (!st) st = graft_gligen_detect(f, prefix, &g->arch, e);
    if (!st) st = check(g, e);
    if (st)
        graft_gligen_release(g);
    else
        *out = g;
    return st;
}

graft_status graft_gligen_load(graft_engine *engine, const char *path, const graft_task *task,
                               graft_gligen **out, graft_err *e)
{
    graft_weights *file = NULL;
    *out = NULL;
    graft_status st = graft_load_open(path, NULL, task, &file, e);
    if (!st) st = make(engine, file, out, e);
    graft_weights_release(file);
    return st;
}
