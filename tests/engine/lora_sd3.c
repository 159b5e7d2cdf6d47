/* LoRAs for Stable Diffusion 3 in every naming: each does what merged weights do, and has the bits
 * of the same LoRA in the checkpoint's own names. */
#include <math.h>

#include "tests/engine/mmdit.h"

static graft_engine *engine;

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* A layer of a LoRA file, and which rows of a checkpoint's tensor are its own: part `at` of `of`
 * equal ones. of 0: all, in two halves that stand the other way round. */
typedef struct layer_case {
    const char *stem, *tensor;
    int at, of;
} layer_case;

static const layer_case kohya[] = {
    {"lora_unet_joint_blocks_0_x_block_attn_qkv", "joint_blocks.0.x_block.attn.qkv", 0, 1},
    {"lora_unet_joint_blocks_1_context_block_attn_qkv", "joint_blocks.1.context_block.attn.qkv", 0,
     1},
    {"lora_unet_joint_blocks_1_x_block_attn2_proj", "joint_blocks.1.x_block.attn2.proj", 0, 1},
    {"lora_unet_joint_blocks_2_context_block_attn_proj", "joint_blocks.2.context_block.attn.proj",
     0, 1},
    {"lora_unet_joint_blocks_2_x_block_mlp_fc1", "joint_blocks.2.x_block.mlp.fc1", 0, 1},
    {"lora_unet_joint_blocks_0_context_block_mlp_fc2", "joint_blocks.0.context_block.mlp.fc2", 0,
     1},
    {"lora_unet_joint_blocks_3_context_block_adaLN_modulation_1",
     "joint_blocks.3.context_block.adaLN_modulation.1", 0, 1},
    {"lora_unet_final_layer_linear", "final_layer.linear", 0, 1},
    {"lora_unet_final_layer_adaLN_modulation_1", "final_layer.adaLN_modulation.1", 0, 1},
    {"lora_unet_x_embedder_proj", "x_embedder.proj", 0, 1},
    {"lora_unet_context_embedder", "context_embedder", 0, 1},
    {"lora_unet_t_embedder_mlp_0", "t_embedder.mlp.0", 0, 1},
};

/* diffusers' names of layers; what stands before them is the naming's. */
static const layer_case diffusers[] = {
    {"transformer_blocks.0.attn.to_q", "joint_blocks.0.x_block.attn.qkv", 0, 3},
    {"transformer_blocks.0.attn.to_k", "joint_blocks.0.x_block.attn.qkv", 1, 3},
    {"transformer_blocks.0.attn.to_v", "joint_blocks.0.x_block.attn.qkv", 2, 3},
    {"transformer_blocks.1.attn.to_out.0", "joint_blocks.1.x_block.attn.proj", 0, 1},
    {"transformer_blocks.1.attn.add_q_proj", "joint_blocks.1.context_block.attn.qkv", 0, 3},
    {"transformer_blocks.2.attn.add_k_proj", "joint_blocks.2.context_block.attn.qkv", 1, 3},
    {"transformer_blocks.3.attn.add_v_proj", "joint_blocks.3.context_block.attn.qkv", 2, 3},
    {"transformer_blocks.2.attn.to_add_out", "joint_blocks.2.context_block.attn.proj", 0, 1},
    {"transformer_blocks.1.attn2.to_k", "joint_blocks.1.x_block.attn2.qkv", 1, 3},
    {"transformer_blocks.0.attn2.to_v", "joint_blocks.0.x_block.attn2.qkv", 2, 3},
    {"transformer_blocks.0.attn2.to_out.0", "joint_blocks.0.x_block.attn2.proj", 0, 1},
    {"transformer_blocks.0.ff.net.0.proj", "joint_blocks.0.x_block.mlp.fc1", 0, 1},
    {"transformer_blocks.3.ff.net.2", "joint_blocks.3.x_block.mlp.fc2", 0, 1},
    {"transformer_blocks.1.ff_context.net.0.proj", "joint_blocks.1.context_block.mlp.fc1", 0, 1},
    {"transformer_blocks.2.ff_context.net.2", "joint_blocks.2.context_block.mlp.fc2", 0, 1},
    {"transformer_blocks.1.norm1.linear", "joint_blocks.1.x_block.adaLN_modulation.1", 0, 1},
    {"transformer_blocks.3.norm1.linear", "joint_blocks.3.x_block.adaLN_modulation.1", 0, 1},
    {"transformer_blocks.2.norm1_context.linear", "joint_blocks.2.context_block.adaLN_modulation.1",
     0, 1},
    {"transformer_blocks.3.norm1_context.linear", "joint_blocks.3.context_block.adaLN_modulation.1",
     0, 0},
    {"norm_out.linear", "final_layer.adaLN_modulation.1", 0, 0},
    {"proj_out", "final_layer.linear", 0, 1},
    {"pos_embed.proj", "x_embedder.proj", 0, 1},
    {"context_embedder", "context_embedder", 0, 1},
    {"time_text_embed.timestep_embedder.linear_1", "t_embedder.mlp.0", 0, 1},
    {"time_text_embed.text_embedder.linear_2", "y_embedder.mlp.2", 0, 1},
};

typedef struct naming {
    const char *before, *up, *down;
    bool underscores; /* for the dots of a layer's name */
    const layer_case *layer;
    size_t n;
} naming;

static const naming namings[] = {
    {"", ".lora_up.weight", ".lora_down.weight", false, kohya, COUNT(kohya)},
    {"transformer.", ".lora_B.weight", ".lora_A.weight", false, diffusers, COUNT(diffusers)},
    {"", ".lora_B.weight", ".lora_A.weight", false, diffusers, COUNT(diffusers)},
    {"base_model.model.", ".lora_B.weight", ".lora_A.weight", false, diffusers, COUNT(diffusers)},
    {"base_model.model.transformer.", ".lora_B.default.weight", ".lora_A.default.weight", false,
     diffusers, COUNT(diffusers)},
    {"transformer.", ".lora.up.weight", ".lora.down.weight", false, diffusers, COUNT(diffusers)},
    {"lora_transformer_", ".lora_up.weight", ".lora_down.weight", true, diffusers,
     COUNT(diffusers)},
    {"lora_unet_", ".lora_up.weight", ".lora_down.weight", true, diffusers, COUNT(diffusers)},
};

static const char *key(const naming *k, const layer_case *l, const char *role)
{
    static char text[2][512];
    static int turn;
    char *p = text[turn++ & 1];
    snprintf(p, sizeof text[0], "%s%s", k->before, l->stem);
    for (char *c = p; k->underscores && *c; c++)
        if (*c == '.') *c = '_';
    snprintf(p + strlen(p), sizeof text[0] - strlen(p), "%s", role);
    return p;
}

/* ------------------------------------------------------------------ one LoRA in three forms */

#define SCALE 0.75 /* alpha / rank, the same for all ranks */

typedef struct forms {
    made_file *lora, *own; /* the same, in the naming and in the checkpoint's names */
    made_file *merged;     /* the checkpoint with it */
} forms;

/* Which row of the tensor the layer's row r changes. */
static int64_t row_of(const layer_case *l, int64_t rows, int64_t r)
{
    return l->of ? rows / l->of * l->at + r : (r + rows / 2) % rows;
}

/* The own LoRA has one layer for a tensor, of the ranks of all that change it: their factors side
 * by side, and zeros. */
static void add_own(made_file *own, const char *tensor, const float *up, const float *down,
                    const graft_st_tensor *w, int64_t rank)
{
    char name[256];
    float alpha = (float)(SCALE * (double)rank);
    const int64_t u[4] = {w->shape[0], rank, 1, 1};
    const int64_t d[4] = {rank, w->shape[1], w->shape[2], w->shape[3]};
    const char *stem = tensor;
    snprintf(name, sizeof name, "diffusion_model.%s.lora_B.weight", stem);
    add_tensor(own, name, w->rank, u, up, 0);
    snprintf(name, sizeof name, "diffusion_model.%s.lora_A.weight", stem);
    add_tensor(own, name, w->rank, d, down, 0);
    snprintf(name, sizeof name, "diffusion_model.%s.alpha", stem);
    add_tensor(own, name, 0, NULL, &alpha, 0);
}

/* All layers of the naming that change this tensor. */
static void make_tensor(const naming *k, const char *tensor, double strength, forms *to)
{
    char full[256];
    snprintf(full, sizeof full, UNET "%s.weight", tensor);
    graft_st_tensor *w = made_find(to->merged, full);
    const int64_t rows = w->shape[0], columns = shape_count(w->shape, w->rank) / rows;
    int64_t all = 0, done = 0;
    for (size_t i = 0; i < k->n; i++)
        if (strcmp(k->layer[i].tensor, tensor) == 0) all += 2 + (int64_t)(i % 3);
    float *up = calloc((size_t)(rows * all), sizeof *up);
    float *down = calloc((size_t)(all * columns), sizeof *down), *v = (float *)(uintptr_t)w->data;
    for (size_t i = 0; i < k->n; i++) {
        const layer_case *l = &k->layer[i];
        const int64_t rank = 2 + (int64_t)(i % 3), n = l->of ? rows / l->of : rows;
        if (strcmp(l->tensor, tensor) != 0) continue;
        const int64_t ud[4] = {n, rank, 1, 1},
                      dd[4] = {rank, w->shape[1], w->shape[2], w->shape[3]};
        float alpha = (float)(SCALE * (double)rank);
        const float *u = add_tensor(to->lora, key(k, l, k->up), w->rank, ud, NULL, 0.2f);
        const float *d = add_tensor(to->lora, key(k, l, k->down), w->rank, dd, NULL, 0.2f);
        add_tensor(to->lora, key(k, l, ".alpha"), 0, NULL, &alpha, 0);
        for (int64_t r = 0; r < n; r++) {
            int64_t row = row_of(l, rows, r);
            for (int64_t a = 0; a < rank; a++) up[row * all + done + a] = u[r * rank + a];
            for (int64_t c = 0; c < columns; c++) {
                double sum = 0;
                for (int64_t a = 0; a < rank; a++)
                    sum += (double)u[r * rank + a] * (double)d[a * columns + c];
                v[row * columns + c] =
                    (float)((double)v[row * columns + c] + SCALE * strength * sum);
            }
        }
        memcpy(down + done * columns, d, (size_t)(rank * columns) * sizeof *d);
        done += rank;
    }
    add_own(to->own, tensor, up, down, w, all);
    free(up);
    free(down);
}

static void make_forms(const naming *k, double strength, forms *to)
{
    graft_safetensors *f = open_file(MMDIT);
    *to = (forms){calloc(1, sizeof *to->lora), calloc(1, sizeof *to->own), copy_file(f, UNET)};
    graft_safetensors_close(f);
    for (size_t i = 0; i < k->n; i++) {
        bool first = true;
        for (size_t j = 0; j < i; j++)
            first = first && strcmp(k->layer[j].tensor, k->layer[i].tensor) != 0;
        if (first) make_tensor(k, k->layer[i].tensor, strength, to);
    }
}

static void every_naming(void)
{
    const char *lora = temp_path("lora.safetensors"), *own = temp_path("own.safetensors");
    const char *merged = temp_path("merged.safetensors"), *theirs = temp_path("d.safetensors");
    float plain[MMDIT_OUT], got[MMDIT_OUT], want[MMDIT_OUT], same[MMDIT_OUT], other[MMDIT_OUT];
    write_file(diffusers_mmdit(MMDIT), theirs, config_of(MMDIT));
    graft_model *m = load_model(engine, MMDIT), *d = load_model(engine, theirs);
    run_mmdit(m, plain);
    for (size_t i = 0; i < COUNT(namings); i++) {
        forms f;
        make_forms(&namings[i], 0.9, &f);
        write_file(f.lora, lora, NULL);
        write_file(f.own, own, NULL);
        write_file(f.merged, merged, config_of(MMDIT));
        last_log[0] = 0;
        graft_model *w = load_model(engine, merged), *l = with_lora(m, lora, 0.9);
        graft_model *o = with_lora(m, own, 0.9), *dl = with_lora(d, lora, 0.9);
        CHECK_STR(last_log, "");
        run_mmdit(w, want);
        run_mmdit(l, got);
        run_mmdit(o, same);
        run_mmdit(dl, other);
        CHECK(difference(got, want, MMDIT_OUT) < 2e-5);
        CHECK(difference(plain, want, MMDIT_OUT) > 1e-2);
        CHECK(same_mmdit_bits(got, same));
        CHECK(same_mmdit_bits(got, other));
        RELEASE_ALL(w, l, o, dl);
    }
    RELEASE_ALL(m, d);
    unlink(lora);
    unlink(own);
    unlink(merged);
    unlink(theirs);
}

/* Each layer alone: that none is taken for another, and that every one changes something. */
static void every_layer(void)
{
    const char *lora = temp_path("lora.safetensors"), *merged = temp_path("merged.safetensors");
    const char *own = temp_path("own.safetensors");
    float plain[MMDIT_OUT], got[MMDIT_OUT], want[MMDIT_OUT];
    graft_model *m = load_model(engine, MMDIT);
    run_mmdit(m, plain);
    for (size_t i = 0; i < COUNT(diffusers); i++) {
        naming one = namings[1];
        forms f;
        one.layer = &diffusers[i];
        one.n = 1;
        make_forms(&one, 1, &f);
        write_file(f.lora, lora, NULL);
        write_file(f.own, own, NULL);
        write_file(f.merged, merged, config_of(MMDIT));
        graft_model *w = load_model(engine, merged), *l = with_lora(m, lora, 1);
        run_mmdit(w, want);
        run_mmdit(l, got);
        CHECK(difference(got, want, MMDIT_OUT) < 2e-5);
        CHECK(difference(plain, want, MMDIT_OUT) > 1e-4);
        RELEASE_ALL(w, l);
    }
    graft_model_release(m);
    unlink(lora);
    unlink(own);
    unlink(merged);
}

/* ------------------------------------------------------------------ other forms */

/* delta (n,columns) as a whole difference, or as the Kronecker product of two matrices. */
static float *make_delta(made_file *f, const layer_case *l, bool kronecker,
                         const graft_st_tensor *w, int64_t n)
{
    const int64_t columns = shape_count(w->shape, w->rank) / w->shape[0];
    const int64_t whole[4] = {n, w->shape[1], w->shape[2], w->shape[3]}, two[2] = {2, 2};
    const int64_t half[2] = {n / 2, columns / 2};
    float *delta = calloc((size_t)(n * columns), sizeof *delta);
    if (!kronecker || w->rank > 2) {
        const float *d = add_tensor(f, key(&namings[1], l, ".diff"), w->rank, whole, NULL, 0.2f);
        memcpy(delta, d, (size_t)(n * columns) * sizeof *d);
        return delta;
    }
    const float *a = add_tensor(f, key(&namings[1], l, ".lokr_w1"), 2, two, NULL, 0.7f);
    const float *b = add_tensor(f, key(&namings[1], l, ".lokr_w2"), 2, half, NULL, 0.3f);
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < columns; c++)
            delta[r * columns + c] =
                a[r / half[0] * 2 + c / half[1]] * b[r % half[0] * half[1] + c % half[1]];
    return delta;
}

/* The rows of w that are the layer's, with the delta, and as long as `length` says (NULL: as they
 * become). */
static void merge_rows(graft_st_tensor *w, const layer_case *l, int64_t n, const float *delta,
                       const float *length)
{
    const int64_t columns = shape_count(w->shape, w->rank) / w->shape[0];
    for (int64_t r = 0; r < n; r++) {
        float *v = (float *)(uintptr_t)w->data + row_of(l, w->shape[0], r) * columns;
        double square = 0;
        for (int64_t c = 0; c < columns; c++) {
            v[c] += delta[r * columns + c];
            square += (double)v[c] * (double)v[c];
        }
        for (int64_t c = 0; c < columns && length; c++)
            v[c] = (float)((double)v[c] * (double)length[r] / sqrt(square));
    }
}

/* Rows of joined matrices, and halves that stand the other way round, get what their layer's rows
 * get in every form. */
static void other_forms(void)
{
    const char *lora = temp_path("forms.safetensors"), *merged = temp_path("merged.safetensors");
    float plain[MMDIT_OUT], got[MMDIT_OUT], want[MMDIT_OUT];
    graft_model *m = load_model(engine, MMDIT);
    run_mmdit(m, plain);
    for (size_t i = 0; i < COUNT(diffusers); i++)
        for (int form = 0; form < 4; form++) { /* Kronecker or whole, with lengths or not */
            const layer_case *l = &diffusers[i];
            char full[256];
            graft_safetensors *base = open_file(MMDIT);
            made_file *f = calloc(1, sizeof *f), *by_hand = copy_file(base, UNET);
            graft_safetensors_close(base);
            snprintf(full, sizeof full, UNET "%s.weight", l->tensor);
            graft_st_tensor *w = made_find(by_hand, full);
            const int64_t n = l->of ? w->shape[0] / l->of : w->shape[0];
            float *delta = make_delta(f, l, form & 1, w, n), *length = NULL;
            if (form & 2)
                length =
                    add_tensor(f, key(&namings[1], l, ".lora_magnitude_vector"), 1, &n, NULL, 1.0f);
            merge_rows(w, l, n, delta, length);
            free(delta);
            write_file(f, lora, NULL);
            write_file(by_hand, merged, config_of(MMDIT));
            graft_model *x = load_model(engine, merged), *y = with_lora(m, lora, 1);
            run_mmdit(x, want);
            run_mmdit(y, got);
            CHECK(difference(got, want, MMDIT_OUT) < 2e-5);
            CHECK(difference(plain, want, MMDIT_OUT) > 1e-4);
            RELEASE_ALL(x, y);
        }
    graft_model_release(m);
    unlink(lora);
    unlink(merged);
}

/* ------------------------------------------------------------------ what does not fit */

static void refused(void)
{
    static const struct {
        const char *stem;
        int64_t rows, columns;
    } bad[] = {{"transformer.transformer_blocks.0.attn.to_q", 120, 40},
               {"transformer.transformer_blocks.0.attn.to_q", 41, 40},
               {"transformer.transformer_blocks.0.attn.to_q", 40, 41},
               {"diffusion_model.joint_blocks.0.x_block.attn.qkv", 40, 40},
               {"transformer.norm_out.linear", 40, 40},
               {"transformer.norm_out.linear", 120, 40},
               {"transformer.transformer_blocks.3.norm1_context.linear", 240, 40},
               {"transformer.transformer_blocks.2.norm1_context.linear", 80, 40}};
    const char *path = temp_path("bad.safetensors");
    graft_model *m = load_model(engine, MMDIT);
    for (size_t i = 0; i < COUNT(bad); i++) {
        made_file *f = calloc(1, sizeof *f);
        graft_model *out = NULL;
        graft_err e = GRAFT_ERR_INIT;
        add_lora_pair(f, bad[i].stem, bad[i].rows, bad[i].columns);
        write_file(f, path, NULL);
        CHECK_INT(graft_lora_apply(m, NULL, path, 1, 0, NULL, &out, NULL, &e), GRAFT_E_FORMAT);
        CHECK(!out && strstr(e.text, bad[i].stem) && strstr(e.text, "do not fit"));
    }
    graft_model_release(m);
    unlink(path);
}

/* Layers that this model lacks are told: of FLUX, of blocks beyond its own, of its last block. */
static void told(void)
{
    static const char *const stems[] = {"transformer.single_transformer_blocks.0.attn.to_q",
                                        "transformer.transformer_blocks.4.attn.to_q",
                                        "transformer.transformer_blocks.3.attn.to_add_out",
                                        "transformer.transformer_blocks.3.attn2.to_q"};
    const char *path = temp_path("told.safetensors");
    made_file *f = calloc(1, sizeof *f);
    add_lora_pair(f, "transformer.transformer_blocks.0.attn.to_q", 40, 40);
    for (size_t i = 0; i < COUNT(stems); i++) add_lora_pair(f, stems[i], 40, 40);
    write_file(f, path, NULL);
    graft_model *m = load_model(engine, MMDIT);
    last_log[0] = 0;
    graft_model *l = with_lora(m, path, 1);
    CHECK(strstr(last_log, "4 keys") != NULL);
    for (size_t i = 0; i < COUNT(stems); i++) CHECK(strstr(last_log, stems[i]) != NULL);
    RELEASE_ALL(m, l);
    unlink(path);
}

/* ------------------------------------------------------------------ text encoders */

#define TEXT GRAFT_SOURCE_DIR "/golden/small/clip_gelu.safetensors"

static graft_clip *load_sd3_clip(const char *const *paths, size_t n)
{
    graft_clip *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_load(engine, paths, n, "sd3", NULL, &c, &e), &e);
    return c;
}

static size_t patches_of(const graft_clip *c, size_t encoder)
{
    size_t tensors, patches;
    graft_weights_patch_count(c->encoder[encoder].weights, &tensors, &patches);
    return patches;
}

/* L and G, or G alone, each get what is theirs; T5's part waits for T5 (flux.c). */
static void text_encoders(void)
{
    const char *path = temp_path("te.safetensors"), *alone = temp_path("g.safetensors");
    const char *t5 = temp_path("te3.safetensors");
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *l = NULL;
    made_file *f = calloc(1, sizeof *f), *only = calloc(1, sizeof *f);
    add_lora_pair(f, "lora_te1_text_model_encoder_layers_0_mlp_fc1", 384, 96);
    add_lora_pair(f, "lora_te2_text_model_encoder_layers_0_mlp_fc1", 384, 96);
    add_lora_pair(f, "text_encoder_2.text_model.encoder.layers.1.mlp.fc2", 96, 384);
    add_lora_pair(f, "lora_te3_encoder_block_0_layer_0_SelfAttention_q", 64, 64);
    add_lora_pair(f, "text_encoder_3.encoder.block.0.layer.0.SelfAttention.k", 64, 64);
    add_lora_pair(only, "lora_te3_encoder_block_0_layer_0_SelfAttention_q", 64, 64);
    write_file(f, path, NULL);
    write_file(only, t5, NULL);
    f = part_of_file(TEXT, "text_");
    for (size_t i = 0; i < f->n; i++) {
        char name[256];
        snprintf(name, sizeof name, "text_encoders.clip_g.transformer.text_%s", f->tensor[i].name);
        call_tensor(&f->tensor[i], name);
    }
    write_file(f, alone, config_of(TEXT));
    graft_clip *both = load_sd3_clip((const char *[]){TEXT, TEXT}, 2);
    graft_clip *g = load_sd3_clip(&alone, 1);
    last_log[0] = 0;
    CHECK_OK(graft_lora_apply(NULL, both, path, 0, 1, NULL, NULL, &l, &e), &e);
    CHECK_STR(last_log, "");
    CHECK(l && patches_of(l, 0) == 1 && patches_of(l, 1) == 2);
    graft_clip_release(l);
    l = NULL;
    CHECK(g->encoder[0].large);
    CHECK_OK(graft_lora_apply(NULL, g, path, 0, 1, NULL, NULL, &l, &e), &e);
    CHECK(l && patches_of(l, 0) == 2);
    graft_clip_release(l);
    l = NULL;
    CHECK_INT(graft_lora_apply(NULL, g, t5, 0, 1, NULL, NULL, &l, &e), GRAFT_E_ARG);
    CHECK(!l && strstr(e.text, "holds nothing for what it is applied to"));
    graft_clip_release(both);
    graft_clip_release(g);
    unlink(path);
    unlink(alone);
    unlink(t5);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(every_naming);
    RUN(every_layer);
    RUN(other_forms);
    RUN(refused);
    RUN(told);
    RUN(text_encoders);
    graft_engine_destroy(engine);
    return test_end();
}
