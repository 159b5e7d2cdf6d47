/* The small transformer of FLUX's kind: one run of it, and what diffusers calls its layers, written
 * down here once more: the engine's own tables are what is tested. */
#ifndef GRAFT_TESTS_ENGINE_FLUX_H
#define GRAFT_TESTS_ENGINE_FLUX_H
#include "tests/engine/network_files.h"

#define FLUX_DEV     GRAFT_SOURCE_DIR "/golden/small/flux_dev.safetensors"
#define FLUX_SCHNELL GRAFT_SOURCE_DIR "/golden/small/flux_schnell.safetensors"

enum { FLUX_OUT = 16 * SIDE * SIDE, FLUX_WORDS = 5 };

static inline void run_flux(const graft_model *m, float guidance, float out[FLUX_OUT])
{
    graft_binding *b = NULL;
    float x[FLUX_OUT], context[FLUX_WORDS * 64], y[64], t = 400.0f;
    const int32_t adm = m->arch.adm_channels;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(m->arch.context_dim <= 64 && adm <= 64);
    for (size_t i = 0; i < FLUX_OUT; i++) x[i] = fixed_value(i);
    for (size_t i = 0; i < FLUX_WORDS * 64; i++) context[i] = fixed_value(20000 + i);
    for (size_t i = 0; i < 64; i++) y[i] = fixed_value(40000 + i);
    if (m->arch.flux.guidance) y[adm - 1] = guidance;
    if (m->arch.flux.approximator) y[0] = FLUX_WORDS;
    memset(out, 0, FLUX_OUT * sizeof *out);
    graft_status st = graft_model_bind(m, 1, SIDE, SIDE, FLUX_WORDS, NULL, &b, &e);
    if (!st)
        st = graft_exe_run(b, m->engine->arenas, (const void *[]){x, &t, context, y},
                           (void *[]){out}, NULL, NULL, &e);
    CHECK_OK(st, &e);
    graft_binding_release(b);
}

/* With every other linear layer in 8 bits that can be, measured or not. */
static inline graft_model *half_quantized(const graft_model *m)
{
    const graft_quant_limits linear = {{false, true, false}, {1, 1, 1}, 0};
    graft_unet_shape shape = {.batch = 1,
                              .height = SIDE,
                              .width = SIDE,
                              .tokens = graft_net_tokens(&m->arch, FLUX_WORDS),
                              .act_dtype = GRAFT_F32};
    graft_quant_plan *p = NULL;
    graft_model *q = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_quant_plan_create(&m->arch, &shape, &p, &e), &e);
    graft_quant_plan_select(p, &linear);
    for (size_t i = 0; i < p->n; i += 2)
        if (p->layer[i].reason == GRAFT_QUANT_CHOSEN) p->layer[i].reason = GRAFT_QUANT_KEPT;
    CHECK_OK(graft_model_with_plan(m, p, &q, &e), &e);
    graft_quant_plan_destroy(p);
    return q;
}

static inline bool same_flux_bits(const float *a, const float *b)
{
    float sum = 0;
    for (int i = 0; i < FLUX_OUT; i++) sum += a[i] * a[i];
    return sum > 0 && memcmp(a, b, FLUX_OUT * sizeof *a) == 0;
}

/* A layer there and here; `share`: rows of each of theirs, in units of all of them together.
 * turned: its halves stand the other way round. */
typedef struct flux_layer {
    const char *block, *ours, *their_block, *theirs[4];
    int share[4];
    bool turned;
} flux_layer;

#define FLUX_ONE                                                                                   \
    {                                                                                              \
        1, 0, 0, 0                                                                                 \
    }
static const flux_layer flux_layers[] = {
    {"", "img_in", "", {"x_embedder"}, FLUX_ONE, false},
    {"", "txt_in", "", {"context_embedder"}, FLUX_ONE, false},
    {"", "time_in.in_layer", "", {"time_text_embed.timestep_embedder.linear_1"}, FLUX_ONE, false},
    {"", "time_in.out_layer", "", {"time_text_embed.timestep_embedder.linear_2"}, FLUX_ONE, false},
    {"",
     "guidance_in.in_layer",
     "",
     {"time_text_embed.guidance_embedder.linear_1"},
     FLUX_ONE,
     false},
    {"",
     "guidance_in.out_layer",
     "",
     {"time_text_embed.guidance_embedder.linear_2"},
     FLUX_ONE,
     false},
    {"", "vector_in.in_layer", "", {"time_text_embed.text_embedder.linear_1"}, FLUX_ONE, false},
    {"", "vector_in.out_layer", "", {"time_text_embed.text_embedder.linear_2"}, FLUX_ONE, false},
    {"", "final_layer.adaLN_modulation.1", "", {"norm_out.linear"}, FLUX_ONE, true},
    {"", "final_layer.linear", "", {"proj_out"}, FLUX_ONE, false},
    {"double", "img_mod.lin", "", {"norm1.linear"}, FLUX_ONE, false},
    {"double", "txt_mod.lin", "", {"norm1_context.linear"}, FLUX_ONE, false},
    {"double", "img_attn.qkv", "", {"attn.to_q", "attn.to_k", "attn.to_v"}, {1, 1, 1, 0}, false},
    {"double",
     "txt_attn.qkv",
     "",
     {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"},
     {1, 1, 1, 0},
     false},
    {"double", "img_attn.norm.query_norm", "", {"attn.norm_q"}, FLUX_ONE, false},
    {"double", "img_attn.norm.key_norm", "", {"attn.norm_k"}, FLUX_ONE, false},
    {"double", "txt_attn.norm.query_norm", "", {"attn.norm_added_q"}, FLUX_ONE, false},
    {"double", "txt_attn.norm.key_norm", "", {"attn.norm_added_k"}, FLUX_ONE, false},
    {"double", "img_attn.proj", "", {"attn.to_out.0"}, FLUX_ONE, false},
    {"double", "txt_attn.proj", "", {"attn.to_add_out"}, FLUX_ONE, false},
    {"double", "img_mlp.0", "", {"ff.net.0.proj"}, FLUX_ONE, false},
    {"double", "img_mlp.2", "", {"ff.net.2"}, FLUX_ONE, false},
    {"double", "txt_mlp.0", "", {"ff_context.net.0.proj"}, FLUX_ONE, false},
    {"double", "txt_mlp.2", "", {"ff_context.net.2"}, FLUX_ONE, false},
    {"single", "modulation.lin", "single_", {"norm.linear"}, FLUX_ONE, false},
    {"single",
     "linear1",
     "single_",
     {"attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"},
     {1, 1, 1, 4},
     false},
    {"single", "linear2", "single_", {"proj_out"}, FLUX_ONE, false},
    {"single", "norm.query_norm", "single_", {"attn.norm_q"}, FLUX_ONE, false},
    {"single", "norm.key_norm", "single_", {"attn.norm_k"}, FLUX_ONE, false}};
enum { FLUX_LAYERS = sizeof flux_layers / sizeof *flux_layers };

/* Names of the layer in block i, of which layers outside of blocks take no notice. */
static inline const char *flux_name(const flux_layer *l, int i, int piece)
{
    static char text[8][256];
    static int turn;
    char *p = text[turn++ & 7];
    const size_t size = sizeof text[0];
    if (!l->block[0])
        snprintf(p, size, "%s", piece < 0 ? l->ours : l->theirs[piece]);
    else if (piece < 0)
        snprintf(p, size, "%s_blocks.%d.%s", l->block, i, l->ours);
    else
        snprintf(p, size, "%stransformer_blocks.%d.%s", l->their_block, i, l->theirs[piece]);
    return p;
}

static inline int flux_shares(const flux_layer *l)
{
    return l->share[0] + l->share[1] + l->share[2] + l->share[3];
}

/* The tensor of the layer, whose name ends with `ending` there, as theirs. */
static inline void add_flux_theirs(made_file *d, const graft_st_tensor *t, const flux_layer *l,
                                   int i, const char *ending)
{
    const int64_t all = shape_count(t->shape, t->rank);
    const float *from = t->data;
    for (int k = 0; k < 4 && l->theirs[k]; k++) {
        char name[300];
        graft_st_tensor piece = *t;
        piece.shape[0] = t->shape[0] / flux_shares(l) * l->share[k];
        const int64_t count = shape_count(piece.shape, piece.rank);
        snprintf(name, sizeof name, "%s.%s", flux_name(l, i, k), ending);
        float *to = add_tensor(d, name, piece.rank, piece.shape, from, 0);
        for (int64_t v = 0; l->turned && v < count; v++) to[v] = from[(v + all / 2) % all];
        from += count;
    }
}

/* The tensor as theirs; false: it is of no layer of FLUX.1. */
static inline bool add_flux_tensor(made_file *d, const graft_st_tensor *t)
{
    static const char *const endings[][2] = {
        {"weight", "weight"}, {"bias", "bias"}, {"scale", "weight"}};
    for (size_t k = 0; k < FLUX_LAYERS * 8 * 3; k++) {
        const flux_layer *l = &flux_layers[k / 24];
        const int i = (int)(k / 3 % 8), end = (int)(k % 3);
        char name[300];
        snprintf(name, sizeof name, "%s.%s", flux_name(l, i, -1), endings[end][0]);
        if (strcmp(t->name, name) != 0) continue;
        add_flux_theirs(d, t, l, i, endings[end][1]);
        return true;
    }
    return false;
}

/* The checkpoint's transformer in diffusers' names. */
static inline made_file *diffusers_flux(const char *path)
{
    made_file *own = part_of_file(path, UNET), *d = calloc(1, sizeof *d);
    for (size_t n = 0; n < own->n; n++)
        if (!add_flux_tensor(d, &own->tensor[n]))
            fprintf(stderr, "no layer %s\n", own->tensor[n].name), abort();
    finish_file(own);
    return d;
}
#endif
