/* CompileModel: how and when a diffusion model is compiled. */
#include "nodes/compile/compile_options.h"
#include "nodes/node.h"

enum { MODEL, PRECISION, TUNING, MAX_MEMORY_MB, DEVICE, CACHE, WIDTH, HEIGHT, BATCH_SIZE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to compile."),
    [PRECISION] = &graft_compile_precision,
    [TUNING] = &graft_compile_tuning,
    [MAX_MEMORY_MB] = &graft_compile_max_memory_mb,
    [DEVICE] = &graft_compile_device,
    [CACHE] = &graft_compile_cache,
    [WIDTH] = &graft_compile_width,
    [HEIGHT] = &graft_compile_height,
    [BATCH_SIZE] = &graft_compile_batch_size,
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model, compiled with these options when it runs."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_compile_options options = graft_compile_options_read(c, PRECISION, WIDTH);
    graft_call_phase(c, "compile");
    graft_status st =
        graft_model_compile(graft_arg_model(c, MODEL), &options, &c->task, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

static char **list(const graft_host *h, const char *input)
{
    (void)h, (void)input;
    return graft_compile_options_devices();
}
QUERY_CHOICES()

GRAFT_NODE(compile_model, .id = "CompileModel", .title = "Compile Model", .category = "graft",
           .description = "Chooses precision, tuning, memory budget and device of a model and "
                          "compiles it through the cache of compiled graphs.",
           .query = query);
