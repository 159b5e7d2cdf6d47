/* LoRA: names, the arithmetic against merged weights, stacking, and what must be refused. */
#include "base/alloc.h"
#include "engine/models/names/diffusers.h"
#include "tests/engine/fixture.h"
#include "tests/engine/openclip.h"

static graft_engine *engine;

typedef struct layer_case {
    const char *stem;   /* in the LoRA file */
    const char *tensor; /* in the checkpoint, without prefix and .weight */
} layer_case;

#define UNET "model.diffusion_model."

/* The small UNet has two levels with one residual block each. */
static const layer_case kohya[] = {
    {"lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q",
     "input_blocks.1.1.transformer_blocks.0.attn1.to_q"},
    {"lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn2_to_k",
     "input_blocks.3.1.transformer_blocks.0.attn2.to_k"},
    {"lora_unet_mid_block_attentions_0_transformer_blocks_0_ff_net_0_proj",
     "middle_block.1.transformer_blocks.0.ff.net.0.proj"},
    {"lora_unet_mid_block_attentions_0_transformer_blocks_0_ff_net_2",
     "middle_block.1.transformer_blocks.0.ff.net.2"},
    {"lora_unet_up_blocks_0_attentions_1_transformer_blocks_0_attn1_to_out_0",
     "output_blocks.1.1.transformer_blocks.0.attn1.to_out.0"},
    {"lora_unet_up_blocks_1_attentions_1_proj_in", "output_blocks.3.1.proj_in"},
    {"lora_unet_up_blocks_1_attentions_0_proj_out", "output_blocks.2.1.proj_out"},
    {"lora_unet_conv_in", "input_blocks.0.0"},
    {"lora_unet_conv_out", "out.2"},
    {"lora_unet_time_embedding_linear_2", "time_embed.2"},
    {"lora_unet_down_blocks_0_resnets_0_conv1", "input_blocks.1.0.in_layers.2"},
    {"lora_unet_down_blocks_1_resnets_0_conv2", "input_blocks.3.0.out_layers.3"},
    {"lora_unet_down_blocks_1_resnets_0_time_emb_proj", "input_blocks.3.0.emb_layers.1"},
    {"lora_unet_mid_block_resnets_1_conv1", "middle_block.2.in_layers.2"},
    {"lora_unet_up_blocks_1_resnets_0_conv_shortcut", "output_blocks.2.0.skip_connection"},
    {"lora_unet_down_blocks_0_downsamplers_0_conv", "input_blocks.2.0.op"},
    {"lora_unet_up_blocks_0_upsamplers_0_conv", "output_blocks.1.2.conv"},
};
static const layer_case original[] = {
    {"lora_unet_input_blocks_1_1_transformer_blocks_0_attn1_to_q",
     "input_blocks.1.1.transformer_blocks.0.attn1.to_q"},
    {"lora_unet_middle_block_1_proj_in", "middle_block.1.proj_in"},
    {"lora_unet_output_blocks_1_2_conv", "output_blocks.1.2.conv"},
    {"lora_unet_out_2", "out.2"},
};
static const layer_case diffusers[] = {
    {"unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q",
     "input_blocks.1.1.transformer_blocks.0.attn1.to_q"},
    {"unet.up_blocks.1.attentions.1.transformer_blocks.0.attn2.to_out.0",
     "output_blocks.3.1.transformer_blocks.0.attn2.to_out.0"},
    {"unet.mid_block.resnets.0.conv1", "middle_block.0.in_layers.2"},
    {"unet.conv_in", "input_blocks.0.0"},
};
static const layer_case processors[] = {
    {"unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.processor.to_q",
     "input_blocks.1.1.transformer_blocks.0.attn1.to_q"},
    {"unet.mid_block.attentions.0.transformer_blocks.0.attn2.processor.to_out",
     "middle_block.1.transformer_blocks.0.attn2.to_out.0"},
};
static const layer_case bare[] = {
    {"up_blocks.1.attentions.0.transformer_blocks.0.attn2.processor.to_v",
     "output_blocks.2.1.transformer_blocks.0.attn2.to_v"},
};

typedef struct naming {
    const char *up, *down;
    const layer_case *layer;
    size_t n;
} naming;
#define COUNT(a) (sizeof(a) / sizeof *(a))
static const naming namings[] = {
    {".lora_up.weight", ".lora_down.weight", kohya, COUNT(kohya)},
    {".lora_up.weight", ".lora_down.weight", original, COUNT(original)},
    {".lora_B.weight", ".lora_A.weight", diffusers, COUNT(diffusers)},
    {".lora.up.weight", ".lora.down.weight", diffusers, COUNT(diffusers)},
    {"_lora.up.weight", "_lora.down.weight", processors, COUNT(processors)},
    {"_lora.up.weight", "_lora.down.weight", bare, COUNT(bare)},
};

static const char *joined(const char *a, const char *b, const char *c)
{
    static char text[4][512];
    static int turn;
    char *p = text[turn++ & 3];
    snprintf(p, sizeof text[0], "%s%s%s", a, b, c);
    return p;
}

/* W += factor * up x down in double, by the definition; mid NULL: none. Shapes as stored. */
static void merge(graft_st_tensor *w, const float *up, const float *down, const float *mid,
                  int64_t rank, double factor)
{
    int64_t rows = w->shape[0], columns = shape_count(w->shape, w->rank) / rows;
    int64_t in = w->shape[1], kernel = columns / in;
    float *v = (float *)w->data;
    for (int64_t o = 0; o < rows; o++)
        for (int64_t c = 0; c < columns; c++) {
            double sum = 0;
            for (int64_t a = 0; a < rank; a++) {
                double right = mid ? 0 : down[a * columns + c];
                for (int64_t b = 0; mid && b < rank; b++)
                    right += (double)mid[(a * rank + b) * kernel + c % kernel] *
                             down[b * in + c / kernel];
                sum += (double)up[o * rank + a] * right;
            }
            v[o * columns + c] = (float)(v[o * columns + c] + factor * sum);
        }
}

typedef struct lora_options {
    double strength;
    int64_t rank; /* each layer's is one more than the last's */
    bool alpha, mid;
} lora_options;

/* A LoRA for the layers of `k` into `lora`, the same merged by hand into `merged`. */
static void make_lora(const naming *k, const lora_options *o, made_file *lora, made_file *merged)
{
    for (size_t i = 0; i < k->n; i++) {
        const layer_case *layer = &k->layer[i];
        graft_st_tensor *w = made_find(merged, joined(UNET, layer->tensor, ".weight"));
        int64_t rank = o->rank + (int64_t)i, in = w->shape[1];
        bool conv = w->rank == 4, mid = o->mid && conv && w->shape[2] > 1;
        int64_t up[4] = {w->shape[0], rank, 1, 1};
        int64_t down[4] = {rank, in, mid ? 1 : w->shape[2], mid ? 1 : w->shape[3]};
        int64_t middle[4] = {rank, rank, w->shape[2], w->shape[3]};
        float alpha = (float)rank * 0.75f + 0.5f, *m = NULL;
        float *u = add_tensor(lora, joined(layer->stem, k->up, ""), w->rank, up, NULL, 0.2f);
        float *d = add_tensor(lora, joined(layer->stem, k->down, ""), w->rank, down, NULL, 0.2f);
        if (mid)
            m = add_tensor(lora, joined(layer->stem, ".lora_mid.weight", ""), 4, middle, NULL,
                           0.3f);
        if (o->alpha) add_tensor(lora, joined(layer->stem, ".alpha", ""), 0, NULL, &alpha, 0);
        merge(w, u, d, m, rank, o->strength * (o->alpha ? alpha / (double)rank : 1.0));
    }
}

static made_file *base_file(char **config)
{
    graft_safetensors *f = open_file(SD1);
    made_file *m = copy_file(f, UNET);
    *config = strdup(graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    return m;
}

static graft_model *apply(const graft_model *m, const char *path, double strength)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_lora_apply(m, NULL, path, strength, 0, NULL, &out, NULL, &e), &e);
    return out;
}

/* One LoRA in one naming: the same as merged weights, and not the same as none. */
static void compare_with_merged(const naming *k, const lora_options *o)
{
    char *config;
    float plain[OUT], got[OUT], want[OUT], after[OUT];
    const char *lora_path = temp_path("lora.safetensors");
    const char *merged_path = temp_path("merged.safetensors");
    made_file *lora = calloc(1, sizeof *lora), *merged = base_file(&config);
    make_lora(k, o, lora, merged);
    write_file(lora, lora_path, NULL);
    write_file(merged, merged_path, config);
    free(config);

    graft_model *m = load_model(engine, SD1), *w = load_model(engine, merged_path);
    last_log[0] = 0;
    graft_model *l = apply(m, lora_path, o->strength);
    CHECK_STR(last_log, "");
    run_model(m, plain);
    run_model(w, want);
    if (l) run_model(l, got);
    CHECK(difference(got, want, OUT) < 2e-5);
    CHECK(difference(plain, want, OUT) > 1e-3);
    graft_model_release(l);
    run_model(m, after);
    CHECK(same_bits(after, plain));
    graft_model_release(m);
    graft_model_release(w);
    unlink(lora_path);
    unlink(merged_path);
}

static void names_and_arithmetic(void)
{
    for (size_t i = 0; i < COUNT(namings); i++) {
        compare_with_merged(&namings[i], &(lora_options){1.0, 4, true, false});
        compare_with_merged(&namings[i], &(lora_options){0.6, 3, false, false});
    }
    compare_with_merged(&namings[0], &(lora_options){-0.8, 2, true, false});
    compare_with_merged(&namings[0], &(lora_options){0.9, 3, true, true});
    compare_with_merged(&namings[0], &(lora_options){0.5, 37, true, true});
}

/* ------------------------------------------------------------------ names of the real models */

static void check_name(const graft_unet_arch *a, const char *name, const char *want)
{
    char got[256] = "";
    bool found = graft_diffusers_unet_name(a, name, got, sizeof got);
    CHECK(found == (want[0] != 0));
    if (found) CHECK_STR(got, want);
}

static void names_of_sd1(void)
{
    graft_unet_arch a = {.n_input = 12, .n_output = 12, .middle_transformer = 1};
    for (int i = 1; i < 12; i++) {
        a.input[i].down = i % 3 == 0;
        a.input[i].transformer = i % 3 != 0 && i < 9;
    }
    for (int i = 0; i < 12; i++) {
        a.output[i].transformer = i > 2;
        a.output[i].up = i % 3 == 2 && i < 11;
    }
    check_name(&a, "input_blocks.0.0", "conv_in");
    check_name(&a, "input_blocks.1.1.proj_in", "down_blocks.0.attentions.0.proj_in");
    check_name(&a, "input_blocks.2.1.norm", "down_blocks.0.attentions.1.norm");
    check_name(&a, "input_blocks.3.0.op", "down_blocks.0.downsamplers.0.conv");
    check_name(&a, "input_blocks.4.0.skip_connection", "down_blocks.1.resnets.0.conv_shortcut");
    check_name(&a, "input_blocks.8.1.proj_out", "down_blocks.2.attentions.1.proj_out");
    check_name(&a, "input_blocks.11.0.in_layers.2", "down_blocks.3.resnets.1.conv1");
    check_name(&a, "middle_block.1.proj_in", "mid_block.attentions.0.proj_in");
    check_name(&a, "middle_block.2.out_layers.3", "mid_block.resnets.1.conv2");
    check_name(&a, "output_blocks.0.0.emb_layers.1", "up_blocks.0.resnets.0.time_emb_proj");
    check_name(&a, "output_blocks.2.1.conv", "up_blocks.0.upsamplers.0.conv");
    check_name(&a, "output_blocks.3.1.proj_in", "up_blocks.1.attentions.0.proj_in");
    check_name(&a, "output_blocks.5.2.conv", "up_blocks.1.upsamplers.0.conv");
    check_name(&a, "output_blocks.11.1.proj_in", "up_blocks.3.attentions.2.proj_in");
    check_name(&a, "out.2", "conv_out");
    check_name(&a, "input_blocks.12.0.in_layers.2", "");
    check_name(&a, "input_blocks.9.1.proj_in", "");
    check_name(&a, "output_blocks.0.1.proj_in", "");
    check_name(&a, "something.else", "");
}

static void names_of_sdxl(void)
{
    static const int32_t in[9] = {0, 0, 0, 0, 2, 2, 0, 10, 10};
    static const int32_t out[9] = {10, 10, 10, 2, 2, 2, 0, 0, 0};
    graft_unet_arch a = {.n_input = 9, .n_output = 9, .middle_transformer = 10};
    for (int i = 0; i < 9; i++) {
        a.input[i].transformer = in[i];
        a.output[i].transformer = out[i];
        a.input[i].down = i == 3 || i == 6;
        a.output[i].up = i == 2 || i == 5;
    }
    check_name(&a, "input_blocks.2.0.in_layers.2", "down_blocks.0.resnets.1.conv1");
    check_name(&a, "input_blocks.4.1.transformer_blocks.1.attn2.to_v",
               "down_blocks.1.attentions.0.transformer_blocks.1.attn2.to_v");
    check_name(&a, "input_blocks.8.1.proj_in", "down_blocks.2.attentions.1.proj_in");
    check_name(&a, "output_blocks.0.1.proj_in", "up_blocks.0.attentions.0.proj_in");
    check_name(&a, "output_blocks.2.2.conv", "up_blocks.0.upsamplers.0.conv");
    check_name(&a, "output_blocks.8.0.skip_connection", "up_blocks.2.resnets.2.conv_shortcut");
    check_name(&a, "label_emb.0.2", "add_embedding.linear_2");
}

static void names_of_text(void)
{
    char got[128];
    CHECK(graft_diffusers_text_name("transformer.resblocks.7.mlp.c_fc", got, sizeof got));
    CHECK_STR(got, "text_model.encoder.layers.7.mlp.fc1");
    CHECK(graft_diffusers_text_name("transformer.resblocks.31.attn.out_proj", got, sizeof got));
    CHECK_STR(got, "text_model.encoder.layers.31.self_attn.out_proj");
    CHECK(!graft_diffusers_text_name("text_model.encoder.layers.0.mlp.fc1", got, sizeof got));
    CHECK(!graft_diffusers_text_name("transformer.resblocks.7.mlp.c_fc", got, 10));
}

/* ------------------------------------------------------------------ several at once */

/* Writes a LoRA for all of kohya's names; its effect is not computed here. */
static void write_lora(const char *path, int64_t rank)
{
    char *config;
    made_file *lora = calloc(1, sizeof *lora), *base = base_file(&config);
    make_lora(&namings[0], &(lora_options){1.0, rank, true, false}, lora, base);
    write_file(lora, path, NULL);
    finish_file(base);
    free(config);
}

static void stacking(void)
{
    const char *a = temp_path("a.safetensors"), *b = temp_path("b.safetensors");
    float plain[OUT], ab[OUT], ba[OUT], twice[OUT], doubled[OUT], back[OUT];
    write_lora(a, 2);
    write_lora(b, 5);
    graft_model *m = load_model(engine, SD1);
    graft_model *m_a = apply(m, a, 0.7), *m_b = apply(m, b, -0.4);
    graft_model *m_ab = apply(m_a, b, -0.4), *m_ba = apply(m_b, a, 0.7);
    graft_model *m_aa = apply(m_a, a, 0.7), *m_2a = apply(m, a, 1.4);
    graft_model *m_0 = apply(m_a, a, -0.7), *same = apply(m, a, 0.0);
    CHECK(same == m);
    run_model(m, plain);
    run_model(m_ab, ab);
    run_model(m_ba, ba);
    run_model(m_aa, twice);
    run_model(m_2a, doubled);
    run_model(m_0, back);
    CHECK(difference(ab, plain, OUT) > 1e-3);
    CHECK(difference(ab, ba, OUT) < 1e-5);
    CHECK(difference(twice, doubled, OUT) < 1e-5);
    CHECK(difference(twice, plain, OUT) > 1e-3);
    CHECK(difference(back, plain, OUT) < 1e-5);
    run_model(m, back);
    CHECK(same_bits(back, plain));
    graft_err e = GRAFT_ERR_INIT;
    char *text = NULL;
    CHECK_OK(graft_model_report(m_ab, NULL, NULL, &text, NULL, &e), &e);
    const char *line = text ? strstr(text, "\n  LoRAs") : NULL; /* in the column of the others */
    CHECK(line && strspn(line + 8, " ") == 8);
    CHECK(line && strstr(line, "a.safetensors at 0.7, ") &&
          strstr(line, "b.safetensors at -0.4: "));
    graft_text_free(text);
    graft_model *all[] = {m, m_a, m_b, m_ab, m_ba, m_aa, m_2a, m_0, same};
    for (size_t i = 0; i < COUNT(all); i++) graft_model_release(all[i]);
    unlink(a);
    unlink(b);
}

/* A LoRA touches its own tensors only: all other packs are shared, whatever the strength. */
static void strength_changes_few_packs(void)
{
    const char *path = temp_path("few.safetensors");
    float out[OUT], again[OUT];
    graft_packs_stats before, after;
    made_file *lora = calloc(1, sizeof *lora);
    int64_t up[2] = {128, 2}, down[2] = {2, 128};
    add_tensor(lora, "lora_unet_time_embedding_linear_2.lora_up.weight", 2, up, NULL, 0.3f);
    add_tensor(lora, "lora_unet_time_embedding_linear_2.lora_down.weight", 2, down, NULL, 0.3f);
    write_file(lora, path, NULL);
    graft_model *m = load_model(engine, SD1);
    run_model(m, out);
    for (int i = 1; i < 6; i++) {
        graft_model *l = apply(m, path, 0.2 * i);
        graft_packs_stats_get(engine->packs, &before);
        run_model(l, again);
        graft_packs_stats_get(engine->packs, &after);
        CHECK_INT(after.made - before.made, 1);
        CHECK(difference(again, out, OUT) > 1e-6);
        run_model(l, again);
        graft_packs_stats_get(engine->packs, &before);
        CHECK_INT(after.made, before.made);
        graft_model_release(l);
    }
    graft_model_release(m);
    unlink(path);
}

/* What a strength derived goes with the last model that has it. */
static void derived_packs_go(void)
{
    const char *path = temp_path("go.safetensors");
    float out[OUT], first[OUT];
    write_lora(path, 3);
    graft_model *m = load_model(engine, SD1);
    run_model(m, first);
    graft_packs_stats before, during, after;
    graft_packs_stats_get(engine->packs, &before);
    for (int i = 1; i < 40; i++) {
        graft_model *l = apply(m, path, 0.03 * i), *same = graft_model_copy(l);
        run_model(l, out);
        graft_packs_stats_get(engine->packs, &during);
        CHECK(during.bytes > before.bytes);
        graft_model_release(l);
        graft_packs_stats_get(engine->packs, &after);
        CHECK_INT(after.bytes, during.bytes);
        graft_model_release(same);
        graft_packs_stats_get(engine->packs, &after);
        CHECK_INT(after.bytes, before.bytes);
    }
    run_model(m, out);
    CHECK(same_bits(out, first));
    graft_model_release(m);
    unlink(path);
}

static void many_cycles(void)
{
    const int cycles = many_rounds();
    const char *path = temp_path("cycle.safetensors");
    float first[OUT], with[OUT], out[OUT];
    write_lora(path, 4);
    graft_model *m = load_model(engine, SD1);
    run_model(m, first);
    size_t before = 0;
    bool same = true;
    for (int i = 0; i < cycles; i++) {
        graft_model *l = apply(m, path, 0.8);
        run_model(l, out);
        if (i == 0) memcpy(with, out, sizeof with);
        same = same && same_bits(out, with);
        graft_model_release(l);
        run_model(m, out);
        same = same && same_bits(out, first);
        if (i == 99) before = resident_bytes();
    }
    size_t after = resident_bytes();
    CHECK(same);
    printf("     %d times on and off: resident %.1f MB after 100, %.1f MB at the end\n", cycles,
           (double)before / 1e6, (double)after / 1e6);
    CHECK_FLAT(before, after);
    graft_model_release(m);
    unlink(path);
}

/* ------------------------------------------------------------------ text encoders */

/* One LoRA for the q, k, v, output and MLP projections: with either way of storing the encoder it
 * must do what merging by hand does. */
static void text_encoders(void)
{
    enum { W = 96, LAYERS = 3, HIDDEN = GRAFT_TEXT_CHUNK * W };
    static const char *const layers[] = {"0.self_attn.q_proj", "1.self_attn.k_proj",
                                         "2.self_attn.v_proj", "1.self_attn.out_proj",
                                         "0.mlp.fc1",          "2.mlp.fc2"};
    static float plain[HIDDEN], want[HIDDEN], hf[HIDDEN], joint[HIDDEN], pooled[W];
    const char *path = temp_path("te.safetensors"), *merged_path = temp_path("tem.safetensors");
    const char *open_path = temp_path("openclip.safetensors");
    graft_safetensors *f = open_file(GRAFT_SOURCE_DIR "/golden/small/clip_gelu.safetensors");
    const char *config = graft_safetensors_metadata(f, "config");
    made_file *merged = copy_file(f, "text_"), *lora = calloc(1, sizeof *lora);
    for (size_t i = 0; i < COUNT(layers); i++) {
        char stem[256];
        snprintf(stem, sizeof stem, "lora_te_text_model_encoder_layers_%s", layers[i]);
        for (char *p = stem; *p; p++)
            if (*p == '.') *p = '_';
        graft_st_tensor *w =
            made_find(merged, joined("text_model.encoder.layers.", layers[i], ".weight"));
        int64_t up[2] = {w->shape[0], 3}, down[2] = {3, w->shape[1]};
        float alpha = 2.0f;
        float *u = add_tensor(lora, joined(stem, ".lora_up.weight", ""), 2, up, NULL, 0.2f);
        float *d = add_tensor(lora, joined(stem, ".lora_down.weight", ""), 2, down, NULL, 0.2f);
        add_tensor(lora, joined(stem, ".alpha", ""), 0, NULL, &alpha, 0);
        merge(w, u, d, NULL, 3, 0.9 * 2.0 / 3.0);
    }
    write_file(lora, path, NULL);
    write_file(merged, merged_path, config);
    write_file(as_openclip(f, LAYERS, W), open_path, config);
    graft_clip *c = load_encoder(engine, GRAFT_SOURCE_DIR "/golden/small/clip_gelu.safetensors");
    graft_clip *m = load_encoder(engine, merged_path), *o = load_encoder(engine, open_path),
               *l[2] = {NULL, NULL};
    graft_err e = GRAFT_ERR_INIT;
    last_log[0] = 0;
    CHECK_OK(graft_lora_apply(NULL, c, path, 1, 0.9, NULL, NULL, &l[0], &e), &e);
    CHECK_OK(graft_lora_apply(NULL, o, path, 1, 0.9, NULL, NULL, &l[1], &e), &e);
    CHECK_STR(last_log, "");
    /* The two loaders choose other default layers; the same one is compared. */
    graft_clip *all[] = {c, m, o, l[0], l[1]};
    for (size_t i = 0; i < COUNT(all); i++)
        if (all[i]) all[i]->encoder[0].layer = 1, all[i]->encoder[0].hidden_norm = true;
    run_encoder(c, 0, plain, pooled);
    run_encoder(m, 0, want, pooled);
    if (l[0]) run_encoder(l[0], 0, hf, pooled);
    if (l[1]) run_encoder(l[1], 0, joint, pooled);
    CHECK(difference(plain, want, HIDDEN) > 1e-3);
    CHECK(difference(hf, want, HIDDEN) < 1e-5);
    CHECK(difference(joint, want, HIDDEN) < 1e-5);
    for (size_t i = 0; i < COUNT(all); i++) graft_clip_release(all[i]);
    graft_safetensors_close(f);
    unlink(path);
    unlink(merged_path);
    unlink(open_path);
}

/* ------------------------------------------------------------------ what is refused */

#define GOOD "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q"

typedef struct bad_case {
    const char *up, *down, *alpha; /* names; NULL: not there */
    int64_t rows, rank_up, rank_down, columns;
    float value;
    graft_status status;
    const char *text;
} bad_case;

static const bad_case bad[] = {
    {"a.lora_up.weight", "a.lora_down.weight", NULL, 32, 2, 2, 32, 1, GRAFT_E_ARG,
     "fits no layer of this model; it seems to be a LoRA for another kind of model: 1 key "},
    {GOOD ".lora_up.weight", GOOD ".lora_down.weight", NULL, 32, 2, 2, 48, 1, GRAFT_E_FORMAT,
     "perhaps a LoRA for another kind of model: " GOOD ".lora_up.weight (32,2)"},
    {GOOD ".lora_up.weight", GOOD ".lora_down.weight", NULL, 31, 2, 2, 32, 1, GRAFT_E_FORMAT,
     "attn1_to_q"},
    {GOOD ".lora_up.weight", GOOD ".lora_down.weight", NULL, 32, 3, 2, 32, 1, GRAFT_E_FORMAT,
     "do not fit"},
    {GOOD ".lora_up.weight", GOOD ".lora_down.weight", NULL, 32, 0, 0, 32, 1, GRAFT_E_FORMAT,
     "do not fit"},
    {GOOD ".lora_up.weight", NULL, NULL, 32, 2, 2, 32, 1, GRAFT_E_FORMAT, "down"},
    {NULL, GOOD ".lora_down.weight", NULL, 32, 2, 2, 32, 1, GRAFT_E_FORMAT, "up"},
    {GOOD ".lora_up.weight", GOOD ".lora_down.weight", NULL, 32, 2, 2, 32, NAN, GRAFT_E_FORMAT,
     "not finite"},
    {GOOD ".lora_up.weight", GOOD ".lora_down.weight", NULL, 32, 2, 2, 32, INFINITY, GRAFT_E_FORMAT,
     "not finite"},
    {GOOD ".lora_up.weight",
     "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q"
     ".lora_B.weight",
     NULL, 32, 2, 32, 2, 1, GRAFT_E_FORMAT, "the same"},
};

static void refused(void)
{
    const char *path = temp_path("bad.safetensors");
    graft_model *m = load_model(engine, SD1);
    for (size_t i = 0; i < COUNT(bad); i++) {
        const bad_case *k = &bad[i];
        made_file *f = calloc(1, sizeof *f);
        int64_t up[2] = {k->rows, k->rank_up}, down[2] = {k->rank_down, k->columns};
        float one = 1.0f;
        if (k->up) add_tensor(f, k->up, 2, up, NULL, k->value);
        if (k->down) add_tensor(f, k->down, 2, down, NULL, k->value);
        if (k->alpha) add_tensor(f, k->alpha, 0, NULL, &one, 1);
        write_file(f, path, NULL);
        graft_model *out = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_INT(graft_lora_apply(m, NULL, path, 1, 1, NULL, &out, NULL, &e), k->status);
        CHECK(out == NULL);
        CHECK(strstr(e.text, k->text) != NULL);
        CHECK(strstr(e.text, "bad.safetensors") != NULL);
        if (!strstr(e.text, k->text)) fprintf(stderr, "case %zu: %s\n", i, e.text);
    }
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    unlink(path);
    CHECK(graft_lora_apply(m, NULL, path, 1, 1, NULL, &out, NULL, &e) != GRAFT_OK);
    CHECK_INT(graft_lora_apply(m, NULL, path, NAN, 1, NULL, &out, NULL, &e), GRAFT_E_ARG);
    graft_model_release(m);
}

static void half_matching(void)
{
    const char *path = temp_path("half.safetensors");
    int64_t up[2] = {32, 2}, down[2] = {2, 32};
    made_file *f = calloc(1, sizeof *f);
    add_tensor(f, GOOD ".lora_up.weight", 2, up, NULL, 1);
    add_tensor(f, GOOD ".lora_down.weight", 2, down, NULL, 1);
    add_tensor(f, "lora_unet_nowhere.lora_up.weight", 2, up, NULL, 1);
    add_tensor(f, "lora_unet_nowhere.lora_down.weight", 2, down, NULL, 1);
    add_tensor(f, "some_tensor", 2, down, NULL, 1);
    add_tensor(f, "lora_te_text_model_encoder_layers_0_mlp_fc1.lora_up.weight", 2, up, NULL, 1);
    write_file(f, path, NULL);
    graft_model *m = load_model(engine, SD1);
    last_log[0] = 0;
    graft_model *l = apply(m, path, 0.5);
    CHECK(strstr(last_log, "lora_unet_nowhere") != NULL);
    CHECK(strstr(last_log, "some_tensor") != NULL);
    CHECK(strstr(last_log, "lora_te") == NULL); /* no text encoder was given */
    CHECK(strstr(last_log, "2 keys") != NULL);
    graft_model_release(l);
    graft_model_release(m);
    unlink(path);
}

/* Every allocation of an apply fails once: an error, nothing lost, nothing leaked. */
static void short_of_memory(void)
{
    const char *path = temp_path("oom.safetensors");
    write_lora(path, 2);
    graft_model *m = load_model(engine, SD1);
    graft_alloc_stats before, after;
    int64_t n = 0;
    graft_alloc_stats_get(&before);
    for (bool done = false; !done && n < 200000;) {
        graft_model *l = NULL;
        graft_err e = GRAFT_ERR_INIT;
        graft_alloc_fail_at(++n);
        graft_status st = graft_lora_apply(m, NULL, path, 0.5, 0, NULL, &l, NULL, &e);
        graft_alloc_fail_at(0);
        done = st == GRAFT_OK;
        if (!done && (st != GRAFT_E_NOMEM || l)) {
            CHECK_INT(st, GRAFT_E_NOMEM);
            break;
        }
        graft_model_release(l);
        n += n / 50;
    }
    CHECK(n > 20);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
    graft_model_release(m);
    unlink(path);
}

int main(void)
{
    RUN(names_of_sd1);
    RUN(names_of_sdxl);
    RUN(names_of_text);
    const char *const backends[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        if (!engine) break;
        RUN(names_and_arithmetic);
        RUN(text_encoders);
        if (i == 1) {
            RUN(stacking);
            RUN(strength_changes_few_packs);
            RUN(derived_packs_go);
            RUN(refused);
            RUN(half_matching);
            RUN(short_of_memory);
            RUN(many_cycles);
        }
        graft_engine_destroy(engine);
    }
    return test_end();
}
