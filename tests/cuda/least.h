/* The least UNet that has everything which sampling sees: two blocks down, a transformer in the
 * middle, two blocks up. In the emulator a run of it takes a fraction of what the golden ones take.
 */
#ifndef GRAFT_TESTS_CUDA_LEAST_H
#define GRAFT_TESTS_CUDA_LEAST_H
#include "tests/engine/fixture.h"

enum { LEAST_WIDTH = 32, LEAST_TIME = 64, LEAST_CONTEXT = 16 };

typedef struct least_part {
    made_file *f;
    char at[64]; /* names begin with this */
} least_part;

static inline least_part least_below(made_file *f, const char *at)
{
    least_part p = {.f = f};
    snprintf(p.at, sizeof p.at, "model.diffusion_model.%s", at);
    return p;
}

/* A weight of rank 2 or, with taps, 4; and its bias. */
static inline void least_layer(const least_part *p, const char *name, int64_t out, int64_t in,
                               int64_t taps, bool bias)
{
    char text[128];
    int64_t shape[4] = {out, in, taps, taps};
    float scale = 1.5f / sqrtf((float)(in * (taps ? taps * taps : 1)));
    snprintf(text, sizeof text, "%s%s.weight", p->at, name);
    add_tensor(p->f, text, taps ? 4 : 2, shape, NULL, scale);
    snprintf(text, sizeof text, "%s%s.bias", p->at, name);
    if (bias) add_tensor(p->f, text, 1, shape, NULL, 0.1f);
}

static inline void least_norm(const least_part *p, const char *name, int64_t channels)
{
    char text[128];
    snprintf(text, sizeof text, "%s%s.weight", p->at, name);
    float *weight = add_tensor(p->f, text, 1, &channels, NULL, 0.2f);
    for (int64_t i = 0; i < channels; i++) weight[i] += 1;
    snprintf(text, sizeof text, "%s%s.bias", p->at, name);
    add_tensor(p->f, text, 1, &channels, NULL, 0.1f);
}

static inline void least_res(made_file *f, const char *at, int64_t in)
{
    const least_part p = least_below(f, at);
    least_norm(&p, "in_layers.0", in);
    least_layer(&p, "in_layers.2", LEAST_WIDTH, in, 3, true);
    least_layer(&p, "emb_layers.1", LEAST_WIDTH, LEAST_TIME, 0, true);
    least_norm(&p, "out_layers.0", LEAST_WIDTH);
    least_layer(&p, "out_layers.3", LEAST_WIDTH, LEAST_WIDTH, 3, true);
    if (in != LEAST_WIDTH) least_layer(&p, "skip_connection", LEAST_WIDTH, in, 1, true);
}

static inline void least_transformer(made_file *f)
{
    enum { W = LEAST_WIDTH };
    const least_part p = least_below(f, "middle_block.1."),
                     t = least_below(f, "middle_block.1.transformer_blocks.0.");
    least_norm(&p, "norm", W);
    least_layer(&p, "proj_in", W, W, 1, true);
    least_layer(&p, "proj_out", W, W, 1, true);
    for (int i = 1; i <= 2; i++) {
        static const char *const names[] = {"q", "k", "v"};
        char name[32];
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "attn%d.to_%s", i, names[k]);
            least_layer(&t, name, W, i == 2 && k ? LEAST_CONTEXT : W, 0, false);
        }
        snprintf(name, sizeof name, "attn%d.to_out.0", i);
        least_layer(&t, name, W, W, 0, true);
    }
    least_norm(&t, "norm1", W);
    least_norm(&t, "norm2", W);
    least_norm(&t, "norm3", W);
    least_layer(&t, "ff.net.0.proj", 8 * W, W, 0, true);
    least_layer(&t, "ff.net.2", W, 4 * W, 0, true);
}

/* adm: as SDXL, with a y of so many values; 0: none. */
static inline void write_least(const char *path, int64_t adm)
{
    made_file *f = calloc(1, sizeof *f);
    const least_part top = least_below(f, "");
    least_layer(&top, "time_embed.0", LEAST_TIME, LEAST_WIDTH, 0, true);
    least_layer(&top, "time_embed.2", LEAST_TIME, LEAST_TIME, 0, true);
    if (adm) {
        least_layer(&top, "label_emb.0.0", LEAST_TIME, adm, 0, true);
        least_layer(&top, "label_emb.0.2", LEAST_TIME, LEAST_TIME, 0, true);
    }
    least_layer(&top, "input_blocks.0.0", LEAST_WIDTH, 4, 3, true);
    least_res(f, "input_blocks.1.0.", LEAST_WIDTH);
    least_res(f, "middle_block.0.", LEAST_WIDTH);
    least_transformer(f);
    least_res(f, "middle_block.2.", LEAST_WIDTH);
    least_res(f, "output_blocks.0.0.", 2 * LEAST_WIDTH);
    least_res(f, "output_blocks.1.0.", 2 * LEAST_WIDTH);
    least_norm(&top, "out.0", LEAST_WIDTH);
    least_layer(&top, "out.2", 4, LEAST_WIDTH, 3, true);
    write_file(f, path, "{\"unet\": {\"num_heads\": 2}}");
}

/* The file at `from` with five planes more beside the latent's, as another. */
static inline void write_wide(const char *from, const char *path)
{
    graft_safetensors *f = open_file(from);
    write_file(widened_file(copy_file(f, ""), 5, 1), path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
}
#endif
