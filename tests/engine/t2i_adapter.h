/* T2I-Adapters' files, made for the small models of the tests, and a model with places for an XL
 * one. */
#ifndef GRAFT_TESTS_ENGINE_T2I_ADAPTER_H
#define GRAFT_TESTS_ENGINE_T2I_ADAPTER_H
#include "engine/models/t2i_adapter.h"
#include "tests/engine/control_run.h"

typedef struct adapter_form {
    int factor, colours, n, blocks;
    int channels[4];
    bool light, diffusers;
    float spread; /* of weights; 0: features are the same everywhere, whatever the picture */
} adapter_form;

/* For SD1, whose two levels end with blocks of 32 and 64 channels. */
static const adapter_form form_sd1 = {8, 3, 2, 2, {32, 64}, false, true, 1};
static const adapter_form form_light = {8, 3, 2, 2, {32, 64}, true, false, 1};
/* For the model of make_xl(). */
static const adapter_form form_xl = {16, 3, 4, 2, {32, 64, 64, 64}, false, false, 1};

static inline void add_layer(made_file *f, const adapter_form *a, const char *name, int64_t out,
                             int64_t in, int64_t kernel)
{
    char full[200];
    snprintf(full, sizeof full, "%s%s.weight", a->diffusers ? "adapter." : "", name);
    add_tensor(f, full, 4, (int64_t[]){out, in, kernel, kernel}, NULL,
               1.5f * a->spread / sqrtf((float)(in * kernel * kernel)));
    snprintf(full, sizeof full, "%s%s.bias", a->diffusers ? "adapter." : "", name);
    add_tensor(f, full, 1, &out, NULL, 0.3f);
}

static inline void block_called(char out[64], const adapter_form *a, int k, int i)
{
    if (a->diffusers || a->light)
        snprintf(out, 64, "body.%d.%s.%d", k, a->diffusers ? "resnets" : "body", i);
    else
        snprintf(out, 64, "body.%d", k * a->blocks + i);
}

static inline made_file *make_adapter(const adapter_form *a)
{
    made_file *f = calloc(1, sizeof *f);
    char name[100], block[64];
    int64_t before = a->colours * a->factor * a->factor;
    if (!a->light) {
        add_layer(f, a, "conv_in", a->channels[0], before, 3);
        before = a->channels[0];
    }
    for (int k = 0; k < a->n; k++) {
        const int64_t width = a->light ? a->channels[k] / 4 : a->channels[k];
        block_called(block, a, k, 0);
        snprintf(name, sizeof name, "body.%d.in_conv", k);
        if (!a->light && !a->diffusers) snprintf(name, sizeof name, "%s.in_conv", block);
        if (a->light || before != width) add_layer(f, a, name, width, before, 1);
        for (int i = 0; i < a->blocks; i++) {
            block_called(block, a, k, i);
            snprintf(name, sizeof name, "%s.block1", block);
            add_layer(f, a, name, width, width, 3);
            snprintf(name, sizeof name, "%s.block2", block);
            add_layer(f, a, name, width, width, a->light ? 3 : 1);
        }
        snprintf(name, sizeof name, "body.%d.out_conv", k);
        if (a->light) add_layer(f, a, name, a->channels[k], width, 1);
        before = a->channels[k];
    }
    return f;
}

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
    const graft_unet_shape s = {
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
