/* GLIGEN: texts in boxes, as tokens for a UNet. */
#include "engine/prompts/gligen.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/task.h"

#define CELL 8

/* ------------------------------------------------------------------ a text */

static graft_status check_encoder(const graft_clip *c, const graft_gligen *g, graft_err *e)
{
    graft_status st = graft_clip_there(c, e);
    if (st) return st;
    const int64_t width = c->kind == GRAFT_CLIP_ONE ? c->encoder[0].arch.width : 0;
    if (width == g->arch.text) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "the GLIGEN is for a CLIP text encoder of width %d (Stable Diffusion 1.x), "
                      "and this one is %s",
                      g->arch.text, width ? "of another" : "for another kind of model");
}

/* By CLIP, before the projection, which files of Stable Diffusion 1.x seldom have. */
static graft_status encode(const graft_clip *c, const char *text, const graft_task *task,
                           graft_encoded *out, graft_err *e)
{
    graft_clip *plain = graft_clip_copy(c);
    if (!plain) return graft_fail_nomem(e, "text encoder");
    plain->encoder[0].arch.projection = 0;
    graft_status st = graft_clip_encode_one(plain, 0, text, task, out, e);
    graft_clip_release(plain);
    return st;
}

graft_status graft_cond_box(const graft_cond *c, const graft_clip *clip, graft_gligen *gligen,
                            const char *text, const graft_area *area, const graft_task *task,
                            graft_cond **out, graft_err *e)
{
    graft_encoded k = {0};
    *out = NULL;
    graft_status st = check_encoder(clip, gligen, e);
    if (!st) st = encode(clip, text, task, &k, e);
    if (!st) st = graft_cond_with_box(c, gligen, area, k.pooled, out, e);
    graft_encoded_finish(&k);
    return st;
}

/* ------------------------------------------------------------------ tokens */

static graft_status build(const void *arch, const void *shape, graft_graph **out, graft_err *e)
{
    return graft_gligen_build(arch, *(const graft_dtype *)shape, out, e);
}

static graft_status bind(const graft_gligen *g, const graft_task *task, graft_binding **out,
                         graft_err *e)
{
    graft_dtype dtype = GRAFT_F32;
    graft_compile_job job = {.kind = "gligen",
                             .arch = &g->arch,
                             .arch_bytes = sizeof g->arch,
                             .shape = &dtype,
                             .shape_bytes = sizeof dtype,
                             .build = build};
    graft_status st = graft_options_resolve(g->engine, &g->options, &job.backend, &dtype, e);
    if (st) return st;
    if (dtype == GRAFT_F32 && graft_backend_wants(job.backend, GRAFT_WANTS_NARROW_WEIGHTS))
        job.narrow = graft_weights_narrow(g->weights);
    return graft_engine_bind(g->engine, &g->options, &job, g->weights, task, out, e);
}

graft_status graft_gligen_prepare(const graft_gligen *g, const graft_task *task, graft_err *e)
{
    graft_binding *b = NULL;
    graft_status st = bind(g, task, &b, e);
    graft_binding_release(b);
    return st;
}

/* From one edge to another in cells of the latent, of which there are `all`, as shares of the
 * view's. */
static void place(double from, double length, bool shares, int64_t all, int64_t first,
                  int64_t cells, double *begin, double *end)
{
    const double a = shares ? from * (double)all : floor(from / CELL);
    const double n = shares ? length * (double)all : floor(length / CELL);
    *begin = (a - (double)first) / (double)cells;
    *end = (a + n - (double)first) / (double)cells;
}

/* One row of what the tokens are made of. */
static void fill_box(const graft_gligen *g, const graft_boxes *b, const int64_t whole[2],
                     const graft_gligen_view *v, float *row)
{
    const graft_area *a = &b->area;
    double box[4]; /* left, top, right, bottom */
    place(a->x, a->width, a->shares, whole[1], v->x, v->width, &box[0], &box[2]);
    place(a->y, a->height, a->shares, whole[0], v->y, v->height, &box[1], &box[3]);
    memcpy(row, b->text, (size_t)g->arch.text * sizeof *row);
    graft_gligen_waves(&g->arch, box, row + g->arch.text);
}

/* The rows without a box. */
static graft_status fill_none(const graft_gligen *g, int32_t from, float *rows, graft_err *e)
{
    const size_t width = (size_t)(g->arch.text + g->arch.waves);
    if (from == GRAFT_GLIGEN_TOKENS) return GRAFT_OK;
    float *first = rows + (size_t)from * width;
    graft_status st =
        graft_weights_values(g->weights, GRAFT_GLIGEN_NO_TEXT, 0, g->arch.text, first, e);
    if (!st)
        st = graft_weights_values(g->weights, GRAFT_GLIGEN_NO_BOX, 0, g->arch.waves,
                                  first + g->arch.text, e);
    for (int32_t i = from + 1; i < GRAFT_GLIGEN_TOKENS && !st; i++)
        memcpy(rows + (size_t)i * width, first, width * sizeof *rows);
    return st;
}

graft_status graft_gligen_tokens(const graft_gligen *g, const graft_boxes *boxes,
                                 const int64_t whole[2], const graft_gligen_view *view,
                                 const graft_task *task, float *out, graft_err *e)
{
    const size_t width = (size_t)(g->arch.text + g->arch.waves);
    graft_binding *binding = NULL;
    float *rows = graft_malloc_array(GRAFT_GLIGEN_TOKENS * width, sizeof *rows);
    graft_status st = rows ? GRAFT_OK : graft_fail_nomem(e, "texts in boxes");
    for (const graft_boxes *b = boxes; b && !st; b = b->before)
        fill_box(g, b, whole, view, rows + (size_t)(b->n - 1) * width);
    if (!st) st = fill_none(g, boxes ? boxes->n : 0, rows, e);
    if (!st) st = bind(g, task, &binding, e);
    if (!st && task && task->compile_only)
        memset(out, 0, GRAFT_GLIGEN_TOKENS * (size_t)g->arch.width * sizeof *out);
    else if (!st)
        st = graft_exe_run(binding, g->engine->arenas, (const void *[]){rows}, (void *[]){out},
                           task, NULL, e);
    graft_binding_release(binding);
    graft_free(rows);
    return st;
}
