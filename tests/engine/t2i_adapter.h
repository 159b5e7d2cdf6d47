/* T2I-Adapters for the small models of the tests, and a model with places for an XL one. */
#ifndef GRAFT_TESTS_ENGINE_T2I_ADAPTER_H
#define GRAFT_TESTS_ENGINE_T2I_ADAPTER_H
#include "engine/models/controls/t2i_adapter.h"
#include "tests/engine/control_run.h"
#include "tests/engine/t2i_files.h"

static inline graft_controlnet *load_adapter(made_file *f)
{
    const char *path = temp_path("adapter.safetensors");
    write_file(f, path, NULL);
    graft_controlnet *n = load_control(engine, path);
    unlink(path);
    return n;
}

static inline graft_controlnet *made_adapter(const adapter_form *a)
{
    return load_adapter(make_adapter(a));
}

/* ------------------------------------------------------------------ a model for XL's */

/* Three levels of one block, as SDXL's are: the first has no transformer. */
static inline graft_unet_arch arch_xl(void)
{
    return (graft_unet_arch){.in_channels = 4,
                             .out_channels = 4,
                             .model_channels = 32,
                             .time_dim = 128,
                             .context_dim = 64,
                             .linear_proj = 1,
                             .head_dim = 16,
                             .n_input = 6,
                             .n_output = 6,
                             .middle_residual = 2,
                             .middle_transformer = 1,
                             .input = {{32, 0, 0, 0},
                                       {32, 0, 0, 0},
                                       {0, 0, 1, 0},
                                       {64, 1, 0, 0},
                                       {0, 0, 1, 0},
                                       {64, 1, 0, 0}},
                             .output = {{64, 1, 0, 0},
                                        {64, 1, 0, 1},
                                        {64, 1, 0, 0},
                                        {64, 1, 0, 1},
                                        {32, 0, 0, 0},
                                        {32, 0, 0, 0}}};
}

static const char *const config_xl =
    "{\"model_channels\": 32, \"num_head_channels\": 16, \"context_dim\": 64}";

static inline made_file *make_xl(void)
{
    const graft_unet_arch a = arch_xl();
    const graft_net_shape s = {
        .batch = 1, .height = 8, .width = 8, .tokens = 1, .act_dtype = GRAFT_F32};
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    made_file *f = calloc(1, sizeof *f);
    random_state = 7;
    CHECK_OK(graft_unet_build(&a, &s, &g, &e), &e);
    for (size_t i = 0; g && i < g->n_slots; i++) {
        const graft_gslot *slot = &g->slot[i];
        char name[300];
        const int64_t count = shape_count(slot->dim, slot->rank);
        snprintf(name, sizeof name, "model.diffusion_model.%s", slot->source[0]);
        const float fan = slot->rank > 1 ? sqrtf((float)(count / slot->dim[0])) : 5;
        float *v = add_tensor(f, name, slot->rank, slot->dim, NULL, 1.5f / fan);
        if (slot->rank == 1 && strcmp(name + strlen(name) - 7, ".weight") == 0)
            for (int64_t k = 0; k < count; k++) v[k] += 1;
    }
    graft_graph_destroy(g);
    return f;
}

static inline graft_model *load_made_model(made_file *f, const char *config)
{
    const char *path = temp_path("model.safetensors");
    write_file(f, path, config);
    graft_model *m = load_model(engine, path);
    unlink(path);
    return m;
}
#endif
