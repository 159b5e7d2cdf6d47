/* A ControlNet's file made of a small UNet: its first half, random zero convolutions, and random
 * convolutions for the hint. */
#ifndef GRAFT_TESTS_ENGINE_CONTROL_H
#define GRAFT_TESTS_ENGINE_CONTROL_H
#include <math.h>

#include "engine/objects/control.h"
#include "engine/models/names/diffusers.h"
#include "tests/engine/fixture.h"

static inline void add_conv(made_file *f, const char *name, int64_t out, int64_t in, int64_t kernel,
                            float scale)
{
    char full[600];
    snprintf(full, sizeof full, "control_model.%s.weight", name);
    add_tensor(f, full, 4, (int64_t[]){out, in, kernel, kernel}, NULL,
               scale / sqrtf((float)(in * kernel * kernel)));
    snprintf(full, sizeof full, "control_model.%s.bias", name);
    add_tensor(f, full, 1, &out, NULL, 0.1f * scale);
}

static inline bool of_first_half(const char *name)
{
    static const char *const parts[] = {"input_blocks.", "middle_block.", "time_embed.",
                                        "label_emb."};
    for (size_t i = 0; i < 4; i++)
        if (strncmp(name, parts[i], strlen(parts[i])) == 0) return true;
    return false;
}

/* `scale`: of the zero convolutions; 0 as in a ControlNet that has learnt nothing. */
static inline made_file *make_control(const graft_model *m, float scale)
{
    static const int64_t hint[9] = {3, 4, 4, 8, 8, 8, 8, 16, 0};
    const char *prefix = graft_weights_prefix(m->weights);
    made_file *all = copy_file(graft_weights_file(m->weights), prefix);
    made_file *f = calloc(1, sizeof *f);
    char name[512];
    int64_t channels = 0;
    for (size_t i = 0; i < all->n; i++) {
        const graft_st_tensor *t = &all->tensor[i];
        const char *below = t->name + strlen(prefix);
        if (!of_first_half(below)) continue;
        snprintf(name, sizeof name, "control_model.%s", below);
        add_tensor(f, name, t->rank, t->shape, t->data, 0);
    }
    for (int i = 0; i < m->arch.unet.n_input; i++) {
        if (!m->arch.unet.input[i].down) channels = m->arch.unet.input[i].channels;
        snprintf(name, sizeof name, "zero_convs.%d.0", i);
        add_conv(f, name, channels, channels, 1, scale);
    }
    add_conv(f, "middle_block_out.0", channels, channels, 1, scale);
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "input_hint_block.%d", 2 * i);
        add_conv(f, name, i < 7 ? hint[i + 1] : m->arch.unet.model_channels, hint[i], 3, 2.0f);
    }
    finish_file(all);
    return f;
}

static inline void add_part(made_file *f, const char *name, int rank, int64_t a, int64_t b)
{
    char full[600];
    snprintf(full, sizeof full, "control_model.%s", name);
    add_tensor(f, full, rank, (int64_t[]){a, b}, NULL, rank > 1 ? 2 / sqrtf((float)b) : 0.5f);
}

/* What a union ControlNet has beside: so many types, and one layer. */
static inline void add_union(made_file *f, const graft_model *m, int types)
{
    int64_t c = m->arch.unet.model_channels, t = m->arch.unet.time_dim;
    add_part(f, "task_embedding", 2, types, c);
    add_part(f, "control_add_embedding.linear_1.weight", 2, t, types * 8);
    add_part(f, "control_add_embedding.linear_1.bias", 1, t, 0);
    add_part(f, "control_add_embedding.linear_2.weight", 2, t, t);
    add_part(f, "control_add_embedding.linear_2.bias", 1, t, 0);
    add_part(f, "spatial_ch_projs.weight", 2, c, c);
    add_part(f, "spatial_ch_projs.bias", 1, c, 0);
    add_part(f, "transformer_layes.0.attn.in_proj_weight", 2, 3 * c, c);
    add_part(f, "transformer_layes.0.attn.in_proj_bias", 1, 3 * c, 0);
    add_part(f, "transformer_layes.0.attn.out_proj.weight", 2, c, c);
    add_part(f, "transformer_layes.0.attn.out_proj.bias", 1, c, 0);
    add_part(f, "transformer_layes.0.ln_1.weight", 1, c, 0);
    add_part(f, "transformer_layes.0.ln_1.bias", 1, c, 0);
    add_part(f, "transformer_layes.0.ln_2.weight", 1, c, 0);
    add_part(f, "transformer_layes.0.ln_2.bias", 1, c, 0);
    add_part(f, "transformer_layes.0.mlp.c_fc.weight", 2, 4 * c, c);
    add_part(f, "transformer_layes.0.mlp.c_fc.bias", 1, 4 * c, 0);
    add_part(f, "transformer_layes.0.mlp.c_proj.weight", 2, c, 4 * c);
    add_part(f, "transformer_layes.0.mlp.c_proj.bias", 1, c, 0);
}

/* The same file by diffusers' names. */
static inline void to_diffusers(made_file *f, const graft_model *m)
{
    for (size_t i = 0; i < f->n; i++) {
        char layer[256], name[300];
        const char *below = f->tensor[i].name + strlen("control_model."),
                   *end = strrchr(below, '.');
        if (graft_control_union_has(below)) {
            snprintf(name, sizeof name, "%s", below);
        } else {
            snprintf(layer, sizeof layer, "%.*s", (int)(end - below), below);
            CHECK(graft_diffusers_control_name(&m->arch.unet, layer, name, 256));
            snprintf(name + strlen(name), sizeof name - strlen(name), "%s", end);
        }
        free((char *)f->tensor[i].name);
        f->tensor[i].name = strdup(name);
    }
}

/* The config tells a small UNet's heads, as its own file does. */
static inline const char *control_config(const graft_model *m)
{
    return graft_safetensors_metadata(graft_weights_file(m->weights), "config");
}

static inline graft_controlnet *load_control(graft_engine *g, const char *path)
{
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_controlnet_load(g, path, NULL, &n, &e), &e);
    return n;
}

static inline graft_controlnet *load_made(const graft_model *m, made_file *f)
{
    const char *path = temp_path("control.safetensors");
    write_file(f, path, control_config(m));
    graft_controlnet *n = load_control(m->engine, path);
    unlink(path);
    return n;
}

static inline graft_controlnet *made_control(const graft_model *m, float scale)
{
    return load_made(m, make_control(m, scale));
}

/* Pictures of coloured noise, different ones. */
static inline graft_image *control_hint(int64_t n, int64_t side, uint64_t seed)
{
    int64_t shape[4] = {n, side, side, 3}, values = n * side * side * 3;
    float *v = calloc((size_t)values, sizeof *v);
    for (int64_t i = 0; i < values; i++)
        v[i] = 0.5f + 0.5f * fixed_value(seed * 100000 + (uint64_t)i);
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_from_data(v, shape, false, &out, &e), &e);
    free(v);
    return out;
}

/* Two prompts, and the same with a ControlNet made for a model. */
typedef struct steered_prompts {
    graft_cond *p, *n, *with_p, *with_n;
    graft_controlnet *net;
    graft_image *hint;
} steered_prompts;

/* Takes p and n. Shares of the schedule; a hint of `side` cells of the latent. */
static inline steered_prompts steered_by(const graft_model *m, graft_cond *p, graft_cond *n,
                                         int64_t side, double start, double end)
{
    steered_prompts s = {p, n, NULL, NULL, made_control(m, 0.5f), control_hint(1, 8 * side, 5)};
    graft_err e = GRAFT_ERR_INIT;
    const graft_control_options o = {
        .net = s.net, .hint = s.hint, .strength = 0.8, .start = start, .end = end};
    CHECK_OK(graft_cond_control(p, n, &o, &s.with_p, &s.with_n, &e), &e);
    return s;
}

static inline void steered_release(steered_prompts *s)
{
    graft_cond *const conds[] = {s->p, s->n, s->with_p, s->with_n};
    for (int i = 0; i < 4; i++) graft_cond_release(conds[i]);
    graft_image_release(s->hint);
    graft_controlnet_release(s->net);
}
#endif
