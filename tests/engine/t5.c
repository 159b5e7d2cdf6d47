/* T5's encoder: its layers computed here once more in double, the buckets of its bias, which files
 * it is found in, and what it refuses. */
#include "base/alloc.h"
#include "base/half.h"
#include "engine/api/t5.h"
#include "tests/engine/fixture.h"

enum { LAYERS = 2, WIDTH = 32, HEADS = 3, HEAD = 8, INNER = HEADS * HEAD, DENSE = 48, VOCAB = 50 };
#define PREFIX  "text_encoders.t5xxl.transformer."
#define BIAS    "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
#define EPSILON 1e-6

/* ------------------------------------------------------------------ a file */

static void add(made_file *f, const char *prefix, const char *name, int64_t rows, int64_t columns,
                float scale)
{
    char full[200];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    float *data = add_tensor(f, full, columns ? 2 : 1, (int64_t[]){rows, columns}, NULL, scale);
    for (int64_t i = 0; !columns && i < rows; i++) data[i] += 1; /* of norms */
}

static void add_layer(made_file *f, const char *prefix, int layer, float size)
{
    static const struct {
        const char *name;
        int64_t rows, columns;
    } tensors[] = {{"layer.0.layer_norm", WIDTH, 0},
                   {"layer.0.SelfAttention.q", INNER, WIDTH},
                   {"layer.0.SelfAttention.k", INNER, WIDTH},
                   {"layer.0.SelfAttention.v", INNER, WIDTH},
                   {"layer.0.SelfAttention.o", WIDTH, INNER},
                   {"layer.1.layer_norm", WIDTH, 0},
                   {"layer.1.DenseReluDense.wi_0", DENSE, WIDTH},
                   {"layer.1.DenseReluDense.wi_1", DENSE, WIDTH},
                   {"layer.1.DenseReluDense.wo", WIDTH, DENSE}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        char name[100];
        snprintf(name, sizeof name, "encoder.block.%d.%s.weight", layer, tensors[i].name);
        add(f, prefix, name, tensors[i].rows, tensors[i].columns,
            i == 8 ? size : tensors[i].columns ? 0.3f : 0.2f);
    }
}

/* `size`: of the gated layers' results. */
static made_file *make_file(const char *prefix, float size)
{
    made_file *f = calloc(1, sizeof *f);
    random_state = 7;
    add(f, prefix, "shared.weight", VOCAB, WIDTH, 1.0f);
    add(f, prefix, BIAS, 32, HEADS, 2.0f);
    for (int i = 0; i < LAYERS; i++) add_layer(f, prefix, i, size);
    add(f, prefix, "encoder.final_layer_norm.weight", WIDTH, 0, 0.2f);
    return f;
}

/* Halves the bytes of all values, which are what they then are. */
static void to_bf16(made_file *f)
{
    for (size_t i = 0; i < f->n; i++) {
        graft_st_tensor *t = &f->tensor[i];
        graft_f32_to_bf16_array(t->data, (uint16_t *)memcpy(malloc(t->bytes), t->data, t->bytes), 0);
        uint16_t *half = malloc(t->bytes / 2 + 1);
        graft_f32_to_bf16_array(t->data, half, t->bytes / 4);
        free((void *)t->data);
        t->data = half;
        t->dtype = GRAFT_BF16;
        t->bytes /= 2;
    }
}
