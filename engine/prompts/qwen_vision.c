#include "engine/prompts/qwen_vision.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/pixels.h"
#include "engine/models/encoders/qwen_vision.h"
#include "engine/prompts/qwen3_vision.h"

enum { MOST = GRAFT_QWEN_VISION_CELLS, ASPECT = 200 };

/* ------------------------------------------------------------------ sizes */

graft_status graft_qwen_vision_size(int32_t patch, int32_t least, int64_t height, int64_t width,
                                    int32_t *rows, int32_t *columns, graft_err *e)
{
    const double side = 2.0 * patch, high = (double)height, wide = (double)width;
    const double area = high * wide / (side * side);
    if (!(fmax(high, wide) <= ASPECT * fmin(high, wide)))
        return graft_fail(e, GRAFT_E_ARG,
                          "a picture of %lld x %lld: Qwen-VL sees none of which one side is "
                          "more than %d times the other",
                          (long long)width, (long long)height, ASPECT);
    double y = fmax(rint(high / side), 1), x = fmax(rint(wide / side), 1);
    if (x * y > MOST) {
        const double by = sqrt(area / MOST);
        y = fmax(floor(high / by / side), 1);
        x = fmax(floor(wide / by / side), 1);
    } else if (x * y < least) {
        const double by = sqrt(least / area);
        y = ceil(high * by / side);
        x = ceil(wide * by / side);
    }
    *rows = (int32_t)y;
    *columns = (int32_t)x;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ one picture */

static graft_status build_graph(const void *arch, const void *shape, graft_graph **out,
                                graft_err *e)
{
    return graft_qwen_vision_build(arch, shape, out, e);
}

/* What the graph is given and gives, in an order of its own. */
typedef struct sight_values {
    int32_t *place;
    float *squares, *cosines, *sines, *cells;
} sight_values;

static graft_status make_values(const graft_qwen_vision_arch *a, const float *pixels, int64_t rows,
                                int64_t columns, sight_values *v, graft_err *e)
{
    const size_t cells = (size_t)(rows * columns), tokens = GRAFT_QWEN_VISION_MERGED * cells;
    const int32_t head = a->width / a->heads;
    const size_t angles = (size_t)head / 2;
    v->place = graft_malloc_array(cells, sizeof *v->place);
    v->squares =
        graft_malloc_array(tokens * (size_t)graft_qwen_vision_values(a->patch), sizeof *v->squares);
    v->cosines = graft_malloc_array(tokens * angles, sizeof *v->cosines);
    v->sines = graft_malloc_array(tokens * angles, sizeof *v->sines);
    v->cells = graft_malloc_array(cells * (size_t)a->out, sizeof *v->cells);
    if (!v->place || !v->squares || !v->cosines || !v->sines || !v->cells)
        return graft_fail_nomem(e, "a picture for a text encoder");
    graft_qwen_vision_order(rows, columns, v->place);
    graft_qwen_vision_squares(a->patch, rows, columns, v->place, pixels, v->squares);
    graft_qwen_vision_angles(head, rows, columns, v->place, v->cosines, v->sines);
    return GRAFT_OK;
}

static void finish_values(sight_values *v)
{
    graft_free(v->place);
    graft_free(v->squares);
    graft_free(v->cosines);
    graft_free(v->sines);
    graft_free(v->cells);
}

graft_status graft_qwen_vision_run(graft_engine *engine, const graft_build_options *options,
                                   const graft_qwen_vision_arch *arch, graft_weights *weights,
                                   const float *pixels, int64_t rows, int64_t columns,
                                   const graft_task *task, float *cells, graft_err *e)
{
    const size_t width = (size_t)arch->out;
    graft_qwen_vision_shape shape;
    sight_values v = {0};
    graft_binding *b = NULL;
    memset(&shape, 0, sizeof shape);
    shape.rows = rows;
    shape.columns = columns;
    graft_compile_job job = {.kind = "vision_encoder_qwen",
                             .arch = arch,
                             .arch_bytes = sizeof *arch,
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .offload = true,
                             .build = build_graph};
    graft_status st;
    GRAFT_TRY(graft_options_resolve_wide(engine, options, &job.backend, &shape.act_dtype, e));
    GRAFT_TRY(make_values(arch, pixels, rows, columns, &v, e));
    GRAFT_TRY(graft_engine_bind(engine, options, &job, weights, task, &b, e));
    if (task && task->compile_only) {
        memset(cells, 0, (size_t)(rows * columns) * width * sizeof *cells);
        goto out;
    }
    graft_task_phase(task, "encode");
    GRAFT_TRY(graft_exe_run(b, engine->arenas, (const void *[]){v.squares, v.cosines, v.sines},
                            (void *[]){v.cells}, task, NULL, e));
    for (int64_t i = 0; i < rows * columns; i++)
        memcpy(cells + (size_t)v.place[i] * width, v.cells + (size_t)i * width,
               width * sizeof *cells);
out:
    graft_binding_release(b);
    finish_values(&v);
    return st;
}

static graft_status check_sight(const graft_qwen3 *q, graft_err *e)
{
    if (q->sight) return GRAFT_OK;
    if (q->blind.code) return graft_fail(e, q->blind.code, "%s", q->blind.text);
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: nothing in it looks at pictures (no visual.* tensors), which "
                      "prompts with pictures need",
                      graft_safetensors_path(graft_weights_file(q->weights)));
}

/* Of either tower: how pictures become its pixels, and how much it gives. */
typedef struct tower {
    graft_pixels pixels; /* but for the size */
    int32_t patch, least, out, deep;
} tower;

static tower tower_of(const graft_qwen3 *q)
{
    if (q->arch.biased)
        return (tower){
            .pixels = {.mean = GRAFT_PIXELS_CLIP_MEAN, .deviation = GRAFT_PIXELS_CLIP_DEVIATION},
            .patch = q->vision.patch,
            .least = GRAFT_QWEN_VISION_LEAST,
            .out = q->vision.out};
    return (tower){.pixels = {.mean = {0.5f, 0.5f, 0.5f}, .deviation = {0.5f, 0.5f, 0.5f}},
                   .patch = q->vision3.patch,
                   .least = GRAFT_QWEN3_VISION_LEAST,
                   .out = q->vision3.out,
                   .deep = q->vision3.deep};
}

graft_status graft_qwen3_cells(const graft_qwen3 *q, int64_t height, int64_t width,
                               graft_qwen3_picture *out, graft_err *e)
{
    const tower t = tower_of(q);
    graft_status st = check_sight(q, e);
    return st ? st
              : graft_qwen_vision_size(t.patch, t.least, height, width, &out->rows, &out->columns,
                                       e);
}

graft_status graft_qwen3_see(graft_engine *engine, const graft_build_options *options,
                             const graft_qwen3 *q, const graft_image *picture,
                             const graft_task *task, graft_qwen3_picture *out, float **cells,
                             graft_err *e)
{
    tower t = tower_of(q);
    int64_t shape[4];
    float *pixels = NULL, *seen = NULL;
    graft_image_data(picture, shape);
    graft_status st = graft_qwen3_cells(q, shape[1], shape[2], out, e);
    if (st) return st;
    const size_t each = (size_t)out->rows * (size_t)out->columns * (size_t)t.out;
    t.pixels.height = (int64_t)2 * t.patch * out->rows;
    t.pixels.width = (int64_t)2 * t.patch * out->columns;
    pixels = graft_malloc_array((size_t)(t.pixels.height * t.pixels.width), 3 * sizeof *pixels);
    seen = graft_malloc_array(each, (size_t)(1 + t.deep) * sizeof *seen);
    if (!pixels || !seen) {
        st = graft_fail_nomem(e, "a picture for a text encoder");
        goto out;
    }
    GRAFT_TRY(graft_pixels_of(&t.pixels, picture, 0, pixels, e));
    GRAFT_TRY(q->arch.biased
                  ? graft_qwen_vision_run(engine, options, &q->vision, q->sight, pixels, out->rows,
                                          out->columns, task, seen, e)
                  : graft_qwen3_vision_run(engine, options, &q->vision3, q->sight, pixels,
                                           out->rows, out->columns, task, seen, e));
    out->seen = *cells = seen;
    out->deep = t.deep ? seen + each : NULL;
    out->n_deep = t.deep;
    seen = NULL;
out:
    graft_free(pixels);
    graft_free(seen);
    return st;
}
