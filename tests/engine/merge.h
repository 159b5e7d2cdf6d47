/* Checkpoints to merge, and merges by hand to compare with. */
#ifndef GRAFT_TESTS_ENGINE_MERGE_H
#define GRAFT_TESTS_ENGINE_MERGE_H
#include "base/half.h"
#include "tests/engine/fixture.h"

#define UNET "model.diffusion_model."

static inline void store_as(graft_st_tensor *t, graft_dtype dtype)
{
    float *v = (float *)(uintptr_t)t->data;
    int64_t n = shape_count(t->shape, t->rank);
    uint16_t *narrow = malloc((size_t)n * sizeof *narrow + 2);
    if (dtype == GRAFT_F16)
        graft_f32_to_f16_array(v, narrow, (size_t)n);
    else
        graft_f32_to_bf16_array(v, narrow, (size_t)n);
    free(v);
    t->data = narrow;
    t->dtype = dtype;
    t->bytes = (uint64_t)n * 2;
}

/* SD1 with its weights changed by up to a share of each; written as `dtype`. */
static inline void make_variant(char path[256], const char *name, float share, graft_dtype dtype)
{
    graft_safetensors *f = open_file(SD1);
    made_file *m = copy_file(f, UNET);
    for (size_t i = 0; i < m->n; i++) {
        graft_st_tensor *t = &m->tensor[i];
        float *v = (float *)(uintptr_t)t->data;
        int64_t n = shape_count(t->shape, t->rank);
        for (int64_t k = 0; k < n; k++) v[k] = v[k] * (1 + share * random_value());
        if (dtype != GRAFT_F32) store_as(t, dtype);
    }
    snprintf(path, 256, "%s", temp_path(name));
    write_file(m, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
}

/* A file's share in a merge by hand: of the input blocks and what is in none, the middle block, the
 * output blocks and `out`. */
typedef struct part_of_merge {
    const char *path;
    double input, middle, out;
} part_of_merge;

static inline double share_of(const part_of_merge *p, const char *name)
{
    name += strlen(UNET);
    if (strncmp(name, "middle_block.", 13) == 0) return p->middle;
    if (strncmp(name, "output_blocks.", 14) == 0 || strncmp(name, "out.", 4) == 0) return p->out;
    return p->input;
}

/* The sum in double, as float32 tensors. */
static inline made_file *merge_by_hand(const part_of_merge *part, size_t n)
{
    made_file *sum = NULL;
    for (size_t k = 0; k < n; k++) {
        graft_safetensors *f = open_file(part[k].path);
        if (!sum) sum = copy_file(f, UNET);
        for (size_t i = 0; i < sum->n; i++) {
            graft_st_tensor *t = &sum->tensor[i];
            const graft_st_tensor *own = graft_safetensors_find(f, t->name);
            int64_t count = shape_count(t->shape, t->rank);
            float *v = values_of(own), *to = (float *)(uintptr_t)t->data;
            double share = share_of(&part[k], t->name);
            for (int64_t j = 0; j < count; j++)
                to[j] = (float)((k ? (double)to[j] : 0.0) + share * (double)v[j]);
            free(v);
        }
        graft_safetensors_close(f);
    }
    return sum;
}

/* The file's config until the next call, NULL if it has none. */
static inline const char *config_of(const char *path)
{
    static char text[4096];
    graft_safetensors *f = open_file(path);
    const char *config = graft_safetensors_metadata(f, "config");
    snprintf(text, sizeof text, "%s", config ? config : "");
    graft_safetensors_close(f);
    return config ? text : NULL;
}

static inline graft_model *merged(const graft_model *a, const graft_model *b, double input,
                                  double middle, double out)
{
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_merge(a, b, &(graft_merge_ratio){input, middle, out}, &m, &e), &e);
    return m;
}

static inline graft_model *simple(const graft_model *a, const graft_model *b, double ratio)
{
    return merged(a, b, ratio, ratio, ratio);
}

static inline graft_model *minus(const graft_model *a, const graft_model *b, double multiplier)
{
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_merge_subtract(a, b, multiplier, &m, &e), &e);
    return m;
}

static inline graft_model *plus(const graft_model *a, const graft_model *b)
{
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_merge_add(a, b, &m, &e), &e);
    return m;
}

static inline void release_all(graft_model **m, size_t n)
{
    for (size_t i = 0; i < n; i++) graft_model_release(m[i]);
}
#define RELEASE_ALL(...)                                                                           \
    release_all((graft_model *[]){__VA_ARGS__},                                                    \
                sizeof((graft_model *[]){__VA_ARGS__}) / sizeof(graft_model *))

/* A LoRA for two layers of SD1's small relative: one of the input blocks, one of the output's. */
static inline void make_lora(char path[256], const char *name)
{
    static const char *const stems[] = {
        "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q",
        "lora_unet_up_blocks_1_attentions_1_transformer_blocks_0_attn1_to_v"};
    made_file *f = calloc(1, sizeof *f);
    char full[256];
    for (int i = 0; i < 2; i++) {
        snprintf(full, sizeof full, "%s.lora_up.weight", stems[i]);
        add_tensor(f, full, 2, (const int64_t[]){32, 3}, NULL, 0.4f);
        snprintf(full, sizeof full, "%s.lora_down.weight", stems[i]);
        add_tensor(f, full, 2, (const int64_t[]){3, 32}, NULL, 0.4f);
    }
    snprintf(path, 256, "%s", temp_path(name));
    write_file(f, path, NULL);
}

static inline graft_model *with_lora(const graft_model *m, const char *path, double strength)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_lora_apply(m, NULL, path, strength, 0, NULL, &out, NULL, &e), &e);
    return out;
}
#endif
