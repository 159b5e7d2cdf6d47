/* A text encoder in transformers' names as OpenCLIP has it. */
#ifndef GRAFT_TESTS_ENGINE_OPENCLIP_H
#define GRAFT_TESTS_ENGINE_OPENCLIP_H
#include "tests/engine/fixture.h"

/* The small encoder as OpenCLIP stores it: q, k and v in one matrix, other names, and the
 * projection transposed. */
static inline made_file *as_openclip(const graft_safetensors *f, int layers, int64_t width)
{
    static const struct {
        const char *from, *to;
    } names[] = {{"layer_norm1.weight", "ln_1.weight"},
                 {"layer_norm1.bias", "ln_1.bias"},
                 {"layer_norm2.weight", "ln_2.weight"},
                 {"layer_norm2.bias", "ln_2.bias"},
                 {"mlp.fc1.weight", "mlp.c_fc.weight"},
                 {"mlp.fc1.bias", "mlp.c_fc.bias"},
                 {"mlp.fc2.weight", "mlp.c_proj.weight"},
                 {"mlp.fc2.bias", "mlp.c_proj.bias"},
                 {"self_attn.out_proj.weight", "attn.out_proj.weight"},
                 {"self_attn.out_proj.bias", "attn.out_proj.bias"}};
    static const char qkv[3] = {'q', 'k', 'v'};
    made_file *m = calloc(1, sizeof *m), *all = copy_file(f, "text_");
    char name[256], other[256];
    for (int l = 0; l < layers; l++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            snprintf(name, sizeof name, "text_model.encoder.layers.%d.%s", l, names[i].from);
            snprintf(other, sizeof other, "transformer.resblocks.%d.%s", l, names[i].to);
            graft_st_tensor *t = made_find(all, name);
            add_tensor(m, other, t->rank, t->shape, t->data, 0);
        }
        int64_t w[2] = {3 * width, width};
        snprintf(name, sizeof name, "transformer.resblocks.%d.attn.in_proj_weight", l);
        float *weight = add_tensor(m, name, 2, w, NULL, 0);
        snprintf(name, sizeof name, "transformer.resblocks.%d.attn.in_proj_bias", l);
        float *bias = add_tensor(m, name, 1, w, NULL, 0);
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "text_model.encoder.layers.%d.self_attn.%c_proj.weight", l,
                     qkv[i]);
            memcpy(weight + i * width * width, made_find(all, name)->data,
                   (size_t)(width * width) * sizeof(float));
            snprintf(name, sizeof name, "text_model.encoder.layers.%d.self_attn.%c_proj.bias", l,
                     qkv[i]);
            memcpy(bias + i * width, made_find(all, name)->data, (size_t)width * sizeof(float));
        }
    }
    graft_st_tensor *t = made_find(all, "text_model.embeddings.position_embedding.weight");
    add_tensor(m, "positional_embedding", t->rank, t->shape, t->data, 0);
    t = made_find(all, "text_model.embeddings.token_embedding.weight");
    add_tensor(m, "token_embedding.weight", t->rank, t->shape, t->data, 0);
    t = made_find(all, "text_model.final_layer_norm.weight");
    add_tensor(m, "ln_final.weight", t->rank, t->shape, t->data, 0);
    t = made_find(all, "text_model.final_layer_norm.bias");
    add_tensor(m, "ln_final.bias", t->rank, t->shape, t->data, 0);
    t = made_find(all, "text_projection.weight");
    float *turned =
        add_tensor(m, "text_projection", 2, (int64_t[]){t->shape[1], t->shape[0]}, NULL, 0);
    for (int64_t i = 0; i < t->shape[0]; i++)
        for (int64_t k = 0; k < t->shape[1]; k++)
            turned[k * t->shape[0] + i] = ((const float *)t->data)[i * t->shape[1] + k];
    finish_file(all);
    return m;
}
#endif
