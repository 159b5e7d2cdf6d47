#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/models/detect/detect.h"
#include "tests/golden/golden.h"

/* Runs every sequence of the case by itself, with all weights 1, and compares one result. */
static graft_status plain_result(golden *g, graft_clip *c, const graft_safetensors *f, int k,
                                 const char *name, bool pooled, graft_err *e)
{
    const graft_st_tensor *t = golden_case(f, k, "tokens");
    char full[64];
    size_t n = 0, rows = (size_t)t->shape[0], width = (size_t)c->encoder[0].arch.width;
    size_t each =
        pooled ? (size_t)graft_encoder_pooled_width(&c->encoder[0]) : GRAFT_TEXT_CHUNK * width;
    snprintf(full, sizeof full, "case%d.%s", k, name);
    float *want = golden_read(f, full, &n), weights[GRAFT_TEXT_CHUNK];
    if (!want) return GRAFT_OK;
    int32_t *tokens = golden_tokens(t);
    float *hidden = graft_malloc_array(rows, GRAFT_TEXT_CHUNK * width * sizeof *hidden);
    float *pool = graft_malloc_array(rows, each * sizeof *pool);
    graft_status st = GRAFT_OK;
    for (int i = 0; i < GRAFT_TEXT_CHUNK; i++) weights[i] = 1.0f;
    for (size_t i = 0; i < rows; i++) {
        graft_chunks one = {
            .count = 1, .tokens = tokens + i * GRAFT_TEXT_CHUNK, .weights = weights};
        GRAFT_TRY(graft_clip_run_chunks(c, 0, &one, NULL, hidden + i * GRAFT_TEXT_CHUNK * width,
                                        pooled ? pool + i * each : pool, e));
    }
    snprintf(full, sizeof full, "clip case%d %s", k, name);
    golden_note_model(g, full,
                      n == rows * each ? golden_error(pooled ? pool : hidden, want, n) : HUGE_VAL);
out:
    graft_free(want);
    graft_free(tokens);
    graft_free(hidden);
    graft_free(pool);
    return st;
}

static graft_status plain_case(golden *g, graft_clip *c, const graft_safetensors *f, int k,
                               graft_err *e)
{
    graft_encoder *n = &c->encoder[0];
    int32_t projection = n->arch.projection;
    graft_status st;
    n->layer = 1;
    n->hidden_norm = true;
    if ((st = plain_result(g, c, f, k, "last_hidden_normed", false, e))) return st;
    if ((st = plain_result(g, c, f, k, "pooled_projected", true, e))) return st;
    n->layer = 2;
    if ((st = plain_result(g, c, f, k, "penultimate_normed", false, e))) return st;
    n->hidden_norm = false;
    if ((st = plain_result(g, c, f, k, "penultimate", false, e))) return st;
    n->arch.projection = 0;
    st = plain_result(g, c, f, k, "pooled", true, e);
    n->arch.projection = projection;
    return st;
}

static graft_status weighted_case(golden *g, graft_clip *c, const graft_safetensors *f, int k,
                                  graft_err *e)
{
    const graft_st_tensor *t = golden_case(f, k, "tokens");
    char full[64];
    size_t n_weights = 0, n = 0, width = (size_t)c->encoder[0].arch.width;
    snprintf(full, sizeof full, "case%d.weights", k);
    graft_chunks chunks = {.count = golden_count(t) / GRAFT_TEXT_CHUNK,
                           .tokens = golden_tokens(t),
                           .weights = golden_read(f, full, &n_weights)};
    snprintf(full, sizeof full, "case%d.conditioning", k);
    float *want = golden_read(f, full, &n);
    float *hidden = graft_malloc_array(chunks.count, GRAFT_TEXT_CHUNK * width * sizeof *hidden);
    float *pooled =
        graft_malloc_array((size_t)graft_encoder_pooled_width(&c->encoder[0]), sizeof *pooled);
    c->encoder[0].layer = 1;
    c->encoder[0].hidden_norm = true;
    graft_status st = graft_clip_run_chunks(c, 0, &chunks, NULL, hidden, pooled, e);
    snprintf(full, sizeof full, "clip case%d weighted conditioning", k);
    if (!st)
        golden_note_model(g, full,
                          n == golden_count(t) * width ? golden_error(hidden, want, n) : HUGE_VAL);
    graft_chunks_finish(&chunks);
    graft_free(want);
    graft_free(hidden);
    graft_free(pooled);
    return st;
}

static bool has_prefix(const graft_safetensors *f, const char *prefix)
{
    for (size_t i = 0; i < graft_safetensors_count(f); i++)
        if (strncmp(graft_safetensors_at(f, i)->name, prefix, strlen(prefix)) == 0) return true;
    return false;
}

graft_status golden_clip(golden *g, graft_safetensors *f, graft_err *e)
{
    static const char *const prefixes[] = {"cond_stage_model.transformer.",
                                           "cond_stage_model.model.", "", NULL};
    graft_clip c = {.engine = g->engine, .n_encoders = 1};
    const char *const *prefix = prefixes;
    while (**prefix && !has_prefix(f, *prefix)) prefix++;
    graft_weights *file = NULL;
    graft_status st = graft_weights_create(f, &file, e);
    if (st) return st;
    snprintf(c.options.precision, sizeof c.options.precision, "%s", g->dtype);
    snprintf(c.options.device, sizeof c.options.device, "%s", g->backend);
    c.options.no_disk = true;
    c.encoder[0].pad_token = 49407;
    GRAFT_TRY(graft_text_detect(f, *prefix, graft_safetensors_metadata(f, "config"),
                                &c.encoder[0].arch, e));
    GRAFT_TRY(graft_weights_part(file, *prefix, &c.encoder[0].weights, e));
    for (int k = 0; k < 1000; k++) {
        if (golden_case(f, k, "weights"))
            GRAFT_TRY(weighted_case(g, &c, f, k, e));
        else if (golden_case(f, k, "tokens"))
            GRAFT_TRY(plain_case(g, &c, f, k, e));
    }
out:
    graft_weights_release(c.encoder[0].weights);
    graft_weights_release(file);
    return st;
}
