/* The small transformer of Stable Diffusion 3's kind: one run of it, and its file in diffusers'
 * names, written down here once more: the engine's own tables are what is tested. */
#ifndef GRAFT_TESTS_ENGINE_MMDIT_H
#define GRAFT_TESTS_ENGINE_MMDIT_H
#include "tests/engine/diffusers.h"
#include "tests/engine/merge.h"

#define MMDIT  GRAFT_SOURCE_DIR "/golden/small/mmdit_sd35m.safetensors"
#define MMDIT3 GRAFT_SOURCE_DIR "/golden/small/mmdit_sd3.safetensors"

enum { MMDIT_OUT = 16 * SIDE * SIDE, MMDIT_WORDS = 5 };

static inline void run_mmdit(const graft_model *m, float out[MMDIT_OUT])
{
    graft_binding *b = NULL;
    float x[MMDIT_OUT], context[MMDIT_WORDS * 64], y[64], t = 400.0f;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(m->arch.context_dim <= 64 && m->arch.adm_channels <= 64);
    for (size_t i = 0; i < MMDIT_OUT; i++) x[i] = fixed_value(i);
    for (size_t i = 0; i < MMDIT_WORDS * 64; i++) context[i] = fixed_value(20000 + i);
    for (size_t i = 0; i < 64; i++) y[i] = fixed_value(40000 + i);
    memset(out, 0, MMDIT_OUT * sizeof *out);
    graft_status st = graft_model_bind(m, 1, SIDE, SIDE, MMDIT_WORDS, NULL, &b, &e);
    if (!st)
        st = graft_exe_run(b, m->engine->arenas, (const void *[]){x, &t, context, y},
                           (void *[]){out}, NULL, NULL, &e);
    CHECK_OK(st, &e);
    graft_binding_release(b);
}

static inline bool same_mmdit_bits(const float *a, const float *b)
{
    float sum = 0;
    for (int i = 0; i < MMDIT_OUT; i++) sum += a[i] * a[i];
    return sum > 0 && memcmp(a, b, MMDIT_OUT * sizeof *a) == 0;
}

/* A layer there and here. Names end where those of the table do; `$` is the block's number. */
typedef struct mmdit_layer {
    const char *ours, *theirs[3];
} mmdit_layer;

static const mmdit_layer mmdit_layers[] = {
    {"pos_embed", {"pos_embed.pos_embed"}},
    {"x_embedder.proj.", {"pos_embed.proj."}},
    {"context_embedder.", {"context_embedder."}},
    {"t_embedder.mlp.0.", {"time_text_embed.timestep_embedder.linear_1."}},
    {"t_embedder.mlp.2.", {"time_text_embed.timestep_embedder.linear_2."}},
    {"y_embedder.mlp.0.", {"time_text_embed.text_embedder.linear_1."}},
    {"y_embedder.mlp.2.", {"time_text_embed.text_embedder.linear_2."}},
    {"final_layer.adaLN_modulation.1.", {"norm_out.linear."}},
    {"final_layer.linear.", {"proj_out."}},
    {"x_block.adaLN_modulation.1.", {"norm1.linear."}},
    {"x_block.attn.qkv.", {"attn.to_q.", "attn.to_k.", "attn.to_v."}},
    {"x_block.attn.ln_q.", {"attn.norm_q."}},
    {"x_block.attn.ln_k.", {"attn.norm_k."}},
    {"x_block.attn.proj.", {"attn.to_out.0."}},
    {"x_block.attn2.qkv.", {"attn2.to_q.", "attn2.to_k.", "attn2.to_v."}},
    {"x_block.attn2.ln_q.", {"attn2.norm_q."}},
    {"x_block.attn2.ln_k.", {"attn2.norm_k."}},
    {"x_block.attn2.proj.", {"attn2.to_out.0."}},
    {"x_block.mlp.fc1.", {"ff.net.0.proj."}},
    {"x_block.mlp.fc2.", {"ff.net.2."}},
    {"context_block.adaLN_modulation.1.", {"norm1_context.linear."}},
    {"context_block.attn.qkv.", {"attn.add_q_proj.", "attn.add_k_proj.", "attn.add_v_proj."}},
    {"context_block.attn.ln_q.", {"attn.norm_added_q."}},
    {"context_block.attn.ln_k.", {"attn.norm_added_k."}},
    {"context_block.attn.proj.", {"attn.to_add_out."}},
    {"context_block.mlp.fc1.", {"ff_context.net.0.proj."}},
    {"context_block.mlp.fc2.", {"ff_context.net.2."}}};

static inline const mmdit_layer *find_mmdit_layer(const char *name)
{
    size_t n = sizeof mmdit_layers / sizeof *mmdit_layers, i = 0;
    while (i < n && strncmp(name, mmdit_layers[i].ours, strlen(mmdit_layers[i].ours)) != 0) i++;
    if (i == n) fprintf(stderr, "no layer %s\n", name), abort();
    return &mmdit_layers[i];
}

/* The tensor as one or three of theirs; halves of rows change places where they do. */
static inline void add_theirs(made_file *d, const graft_st_tensor *t, int depth)
{
    int block = -1, n = 0;
    char name[256], above[64] = "";
    if (sscanf(t->name, "joint_blocks.%d.%n", &block, &n) == 1)
        snprintf(above, sizeof above, "transformer_blocks.%d.", block);
    const mmdit_layer *l = find_mmdit_layer(t->name + n);
    const char *rest = t->name + n + strlen(l->ours);
    const int pieces = l->theirs[1] ? 3 : 1;
    bool last = block == depth - 1 && strstr(t->name, "context_block.adaLN");
    bool turned = last || strstr(t->name, "final_layer.adaLN");
    graft_st_tensor piece = *t;
    if (l->theirs[1]) piece.shape[0] /= 3;
    const int64_t count = shape_count(piece.shape, piece.rank);
    for (int i = 0; i < pieces; i++) {
        const float *from = (const float *)t->data + i * count;
        snprintf(name, sizeof name, "%s%s%s", above, l->theirs[i], rest);
        float *to = add_tensor(d, name, piece.rank, piece.shape, from, 0);
        for (int64_t k = 0; turned && k < count; k++) to[k] = from[(k + count / 2) % count];
    }
}

static inline int by_name(const void *a, const void *b)
{
    return strcmp(((const graft_st_tensor *)a)->name, ((const graft_st_tensor *)b)->name);
}

/* Its tensors stand in the order of their names. */
static inline made_file *diffusers_mmdit(const char *path)
{
    made_file *own = part_of_file(path, UNET), *d = calloc(1, sizeof *d);
    int depth = 0, block;
    for (size_t i = 0; i < own->n; i++)
        if (sscanf(own->tensor[i].name, "joint_blocks.%d.", &block) == 1 && block >= depth)
            depth = block + 1;
    for (size_t i = 0; i < own->n; i++) add_theirs(d, &own->tensor[i], depth);
    qsort(d->tensor, d->n, sizeof *d->tensor, by_name);
    finish_file(own);
    return d;
}
#endif
