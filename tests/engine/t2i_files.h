/* T2I-Adapters' files, made for the small models of the tests. */
#ifndef GRAFT_TESTS_ENGINE_T2I_FILES_H
#define GRAFT_TESTS_ENGINE_T2I_FILES_H
#include "tests/engine/control.h"

typedef struct adapter_form {
    int factor, colours, n, blocks;
    int channels[4];
    bool light, diffusers;
    float spread; /* of weights; 0: features are the same everywhere, whatever the picture */
} adapter_form;

/* For SD1, whose two levels end with blocks of 32 and 64 channels. */
static const adapter_form form_sd1 = {8, 3, 2, 2, {32, 64}, false, true, 1};
static const adapter_form form_light = {8, 3, 2, 2, {32, 64}, true, false, 1};
/* For the model of make_xl() (t2i_adapter.h). */
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
#endif
