#include "engine/prompts/qwen3_vision.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/models/encoders/qwen_vision.h"

/* What the graph is given. */
typedef struct sight_values {
    float *squares, *places, *cosines, *sines;
} sight_values;

static graft_status look_up_places(const graft_qwen3_vision_arch *a, const graft_weights *w,
                                   int64_t rows, int64_t columns, float *places, graft_err *e)
{
    const int64_t n = (int64_t)a->side * a->side * a->width;
    float *table = graft_malloc_array((size_t)n, sizeof *table);
    if (!table) return graft_fail_nomem(e, "a vision encoder's places");
    graft_status st = graft_weights_values(w, graft_qwen3_vision_table(), 0, n, table, e);
    if (!st) graft_qwen3_vision_places(a, rows, columns, table, places);
    graft_free(table);
    return st;
}

static graft_status make_values(const graft_qwen3_vision_arch *a, const graft_weights *w,
                                const float *pixels, int64_t rows, int64_t columns, sight_values *v,
                                graft_err *e)
{
    const size_t tokens = (size_t)(rows * columns) * GRAFT_QWEN_VISION_MERGED;
    const size_t values = (size_t)graft_qwen_vision_values(a->patch);
    const int32_t head = a->width / a->heads;
    v->squares = graft_malloc_array(tokens, values * sizeof *v->squares);
    v->places = graft_malloc_array(tokens, (size_t)a->width * sizeof *v->places);
    v->cosines = graft_malloc_array(tokens, (size_t)head / 2 * sizeof *v->cosines);
    v->sines = graft_malloc_array(tokens, (size_t)head / 2 * sizeof *v->sines);
    if (!v->squares || !v->places || !v->cosines || !v->sines)
        return graft_fail_nomem(e, "a picture for a text encoder");
    graft_qwen_vision_squares(a->patch, rows, columns, NULL, pixels, v->squares);
    graft_qwen_vision_angles(head, rows, columns, NULL, v->cosines, v->sines);
    return look_up_places(a, w, rows, columns, v->places, e);
}

static void finish_values(sight_values *v)
{
    graft_free(v->squares);
    graft_free(v->places);
    graft_free(v->cosines);
    graft_free(v->sines);
}

static graft_status build_graph(const void *arch, const void *shape, graft_graph **out,
                                graft_err *e)
{
    return graft_qwen3_vision_build(arch, shape, out, e);
}

graft_status graft_qwen3_vision_run(graft_engine *engine, const graft_build_options *options,
                                    const graft_qwen3_vision_arch *arch, graft_weights *weights,
                                    const float *pixels, int64_t rows, int64_t columns,
                                    const graft_task *task, float *cells, graft_err *e)
{
    const size_t each = (size_t)(rows * columns) * (size_t)arch->out;
    void *out[1 + GRAFT_QWEN3_DEEP] = {NULL};
    graft_qwen3_vision_shape shape;
    sight_values v = {0};
    graft_binding *b = NULL;
    memset(&shape, 0, sizeof shape);
    shape.rows = rows;
    shape.columns = columns;
    graft_compile_job job = {.kind = "vision_encoder_qwen3",
                             .arch = arch,
                             .arch_bytes = sizeof *arch,
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .offload = true,
                             .build = build_graph};
    graft_status st;
    for (int k = 0; k <= arch->deep; k++) out[k] = cells + (size_t)k * each;
    GRAFT_TRY(graft_options_resolve_wide(engine, options, &job.backend, &shape.act_dtype, e));
    GRAFT_TRY(make_values(arch, weights, pixels, rows, columns, &v, e));
    GRAFT_TRY(graft_engine_bind(engine, options, &job, weights, task, &b, e));
    if (task && task->compile_only) {
        memset(cells, 0, (size_t)(1 + arch->deep) * each * sizeof *cells);
        goto out;
    }
    graft_task_phase(task, "encode");
    GRAFT_TRY(graft_exe_run(b, engine->arenas,
                            (const void *[]){v.squares, v.places, v.cosines, v.sines}, out, task,
                            NULL, e));
out:
    graft_binding_release(b);
    finish_values(&v);
    return st;
}
