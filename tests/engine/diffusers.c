/* UNets in diffusers' names are the same to everything as in a checkpoint's, and what is wrong with
 * them is told in their own. */
#include "tests/engine/diffusers.h"

#include "engine/models/names/diffusers_file.h"
#include "tests/engine/control.h"

static graft_engine *engine;

enum { WIDE = 9 * SIDE * SIDE };

/* As run_model(), for any number of channels going in. */
static void run(const graft_model *m, float out[OUT])
{
    graft_binding *b = NULL;
    float x[WIDE], t = 500.0f, y[4096];
    size_t n = TOKENS * (size_t)m->arch.context_dim;
    float *context = calloc(n, sizeof *context);
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < WIDE; i++) x[i] = fixed_value(i);
    for (size_t i = 0; i < 4096; i++) y[i] = fixed_value(WIDE + i);
    for (size_t i = 0; i < n; i++) context[i] = fixed_value(5000 + i);
    memset(out, 0, OUT * sizeof *out);
    graft_status st = graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e);
    if (!st)
        st = graft_exe_run(b, m->engine->arenas, (const void *[]){x, &t, context, y},
                           (void *[]){out}, NULL, NULL, &e);
    CHECK_OK(st, &e);
    graft_binding_release(b);
    free(context);
}

static void same_run(const graft_model *a, const graft_model *b)
{
    float one[OUT], two[OUT], sum = 0;
    run(a, one);
    run(b, two);
    for (int i = 0; i < OUT; i++) sum += one[i] * one[i];
    CHECK(sum > 0 && same_bits(one, two));
}

/* Writes the model's UNet in diffusers' names. */
static const char *written(const graft_model *m, const char *name)
{
    const char *path = temp_path(name);
    write_file(diffusers_unet(m), path, unet_config(m));
    return path;
}

/* ------------------------------------------------------------------ published architectures */

/* A published config of UNet2DConditionModel: two residual blocks in each level on the way down. */
typedef struct published {
    int levels, tensors; /* tensors: how many there are; 0: not looked at */
    int width[4];        /* of the levels, as multiples of the first */
    int depth[4];        /* of the level's transformers; 0: none */
    int middle;
    bool label;
} published;

static void add_name(made_file *f, const char *block, const char *layer, bool bias)
{
    char name[256];
    snprintf(name, sizeof name, "%s%s.weight", block, layer);
    add_tensor(f, name, 1, (const int64_t[]){1}, NULL, 1);
    snprintf(name, sizeof name, "%s%s.bias", block, layer);
    if (bias) add_tensor(f, name, 1, (const int64_t[]){1}, NULL, 1);
}

static void add_residual(made_file *f, const char *block, bool shortcut)
{
    static const char *const layers[] = {"norm1", "conv1", "time_emb_proj", "norm2", "conv2"};
    for (int i = 0; i < 5; i++) add_name(f, block, layers[i], true);
    if (shortcut) add_name(f, block, "conv_shortcut", true);
}

static void add_transformer(made_file *f, const char *block, int depth)
{
    static const char *const layers[] = {
        "norm1",          "norm2",         "norm3",      "attn1.to_q", "attn1.to_k",
        "attn1.to_v",     "attn2.to_q",    "attn2.to_k", "attn2.to_v", "attn1.to_out.0",
        "attn2.to_out.0", "ff.net.0.proj", "ff.net.2"};
    char name[128];
    if (!depth) return;
    add_name(f, block, "norm", true);
    add_name(f, block, "proj_in", true);
    add_name(f, block, "proj_out", true);
    for (int d = 0; d < depth; d++)
        for (int i = 0; i < 13; i++) {
            snprintf(name, sizeof name, "transformer_blocks.%d.%s", d, layers[i]);
            add_name(f, block, name, i < 3 || i > 8);
        }
}

static void add_level(made_file *f, const published *p, bool up, int level)
{
    char block[64];
    for (int k = 0; k < 2 + up; k++) {
        const char *half = up ? "up_blocks" : "down_blocks";
        snprintf(block, sizeof block, "%s.%d.resnets.%d.", half, level, k);
        add_residual(f, block,
                     up || (k == 0 && level > 0 && p->width[level] != p->width[level - 1]));
        snprintf(block, sizeof block, "%s.%d.attentions.%d.", half, level, k);
        add_transformer(f, block, p->depth[up ? p->levels - 1 - level : level]);
    }
    if (level == p->levels - 1) return;
    snprintf(block, sizeof block,
             up ? "up_blocks.%d.upsamplers.0." : "down_blocks.%d.downsamplers.0.", level);
    add_name(f, block, "conv", true);
}

static made_file *published_file(const published *p)
{
    made_file *f = calloc(1, sizeof *f);
    static const char *const single[] = {
        "conv_in",  "time_embedding.linear_1", "conv_norm_out",         "time_embedding.linear_2",
        "conv_out", "add_embedding.linear_1",  "add_embedding.linear_2"};
    for (int i = 0; i < (p->label ? 7 : 5); i++) add_name(f, "", single[i], true);
    for (int level = 0; level < p->levels; level++) add_level(f, p, false, level);
    add_residual(f, "mid_block.resnets.0.", false);
    add_transformer(f, "mid_block.attentions.0.", p->middle);
    add_residual(f, "mid_block.resnets.1.", false);
    for (int level = 0; level < p->levels; level++) add_level(f, p, true, level);
    return f;
}

typedef struct renamed {
    const char *theirs, *ours;
} renamed;

static void check_names(const published *p, const renamed *want)
{
    const char *path = temp_path("published.safetensors");
    graft_err e = GRAFT_ERR_INIT;
    write_file(published_file(p), path, NULL);
    graft_safetensors *f = open_file(path);
    CHECK(!p->tensors || graft_safetensors_count(f) == (size_t)p->tensors);
    CHECK_OK(graft_diffusers_adopt_unet(f, &e), &e);
    for (size_t i = 0; i < graft_safetensors_count(f); i++)
        CHECK(graft_safetensors_at(f, i)->called != NULL);
    for (; want->theirs; want++) {
        const graft_st_tensor *t = graft_safetensors_find(f, want->ours);
        CHECK(t && strcmp(t->called, want->theirs) == 0);
        if (!t || strcmp(t->called, want->theirs) != 0)
            fprintf(stderr, "%s is not %s\n", want->ours, want->theirs);
    }
    graft_safetensors_close(f);
    unlink(path);
}

static void names_of_sd1(void)
{
    static const renamed want[] = {
        {"conv_in.weight", "input_blocks.0.0.weight"},
        {"conv_norm_out.bias", "out.0.bias"},
        {"conv_out.weight", "out.2.weight"},
        {"time_embedding.linear_1.weight", "time_embed.0.weight"},
        {"down_blocks.0.resnets.0.norm1.weight", "input_blocks.1.0.in_layers.0.weight"},
        {"down_blocks.0.attentions.1.proj_in.weight", "input_blocks.2.1.proj_in.weight"},
        {"down_blocks.0.downsamplers.0.conv.bias", "input_blocks.3.0.op.bias"},
        {"down_blocks.1.resnets.0.conv_shortcut.weight", "input_blocks.4.0.skip_connection.weight"},
        {"down_blocks.2.attentions.1.transformer_blocks.0.attn2.to_k.weight",
         "input_blocks.8.1.transformer_blocks.0.attn2.to_k.weight"},
        {"down_blocks.3.resnets.1.conv1.weight", "input_blocks.11.0.in_layers.2.weight"},
        {"mid_block.attentions.0.norm.weight", "middle_block.1.norm.weight"},
        {"mid_block.resnets.1.time_emb_proj.bias", "middle_block.2.emb_layers.1.bias"},
        {"up_blocks.0.resnets.2.norm2.bias", "output_blocks.2.0.out_layers.0.bias"},
        {"up_blocks.0.upsamplers.0.conv.weight", "output_blocks.2.1.conv.weight"},
        {"up_blocks.1.attentions.0.proj_out.bias", "output_blocks.3.1.proj_out.bias"},
        {"up_blocks.1.upsamplers.0.conv.weight", "output_blocks.5.2.conv.weight"},
        {"up_blocks.3.attentions.2.transformer_blocks.0.ff.net.0.proj.weight",
         "output_blocks.11.1.transformer_blocks.0.ff.net.0.proj.weight"},
        {"up_blocks.3.resnets.2.conv2.weight", "output_blocks.11.0.out_layers.3.weight"},
        {NULL, NULL}};
    check_names(&(published){4, 686, {1, 2, 4, 4}, {1, 1, 1, 0}, 1, false}, want);
}

static void names_of_sdxl(void)
{
    static const renamed base[] = {
        {"add_embedding.linear_1.weight", "label_emb.0.0.weight"},
        {"add_embedding.linear_2.bias", "label_emb.0.2.bias"},
        {"down_blocks.0.resnets.1.conv1.weight", "input_blocks.2.0.in_layers.2.weight"},
        {"down_blocks.1.attentions.0.transformer_blocks.1.attn2.to_v.weight",
         "input_blocks.4.1.transformer_blocks.1.attn2.to_v.weight"},
        {"down_blocks.2.attentions.1.proj_in.weight", "input_blocks.8.1.proj_in.weight"},
        {"mid_block.attentions.0.transformer_blocks.9.norm3.bias",
         "middle_block.1.transformer_blocks.9.norm3.bias"},
        {"up_blocks.0.upsamplers.0.conv.weight", "output_blocks.2.2.conv.weight"},
        {"up_blocks.1.attentions.2.proj_in.bias", "output_blocks.5.1.proj_in.bias"},
        {"up_blocks.2.resnets.2.conv_shortcut.weight", "output_blocks.8.0.skip_connection.weight"},
        {NULL, NULL}};
    static const renamed refiner[] = {
        {"down_blocks.0.downsamplers.0.conv.weight", "input_blocks.3.0.op.weight"},
        {"down_blocks.2.attentions.1.transformer_blocks.3.norm1.weight",
         "input_blocks.8.1.transformer_blocks.3.norm1.weight"},
        {"down_blocks.2.downsamplers.0.conv.weight", "input_blocks.9.0.op.weight"},
        {"down_blocks.3.resnets.0.conv1.weight", "input_blocks.10.0.in_layers.2.weight"},
        {"up_blocks.0.upsamplers.0.conv.weight", "output_blocks.2.1.conv.weight"},
        {"up_blocks.2.upsamplers.0.conv.weight", "output_blocks.8.2.conv.weight"},
        {"up_blocks.3.resnets.0.norm1.weight", "output_blocks.9.0.in_layers.0.weight"},
        {NULL, NULL}};
    check_names(&(published){3, 1680, {1, 2, 4}, {0, 2, 10}, 10, true}, base);
    check_names(&(published){4, 0, {1, 2, 4, 4}, {0, 4, 4, 0}, 4, true}, refiner);
}

/* ------------------------------------------------------------------ the same model */

static void same_model(const char *checkpoint)
{
    graft_model *a = load_model(engine, checkpoint);
    const char *path = written(a, "unet.safetensors");
    graft_model *b = load_model(engine, path);
    CHECK(b && memcmp(&a->arch, &b->arch, sizeof a->arch) == 0);
    CHECK_INT(b->prediction, a->prediction);
    same_run(a, b);
    RELEASE_ALL(a, b);
    unlink(path);
}

static void same_models(void)
{
    const char *wide = temp_path("wide.safetensors");
    same_model(SD1);
    same_model(SD2);
    same_model(SDXL);
    same_model(DEMO);
    graft_safetensors *f = open_file(SD1);
    write_file(widened_file(copy_file(f, UNET), 5, 0.1f), wide,
               graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    same_model(wide);
    unlink(wide);
}

/* Half precision, as ".fp16." files have it. */
static void half_precision(void)
{
    char ours[256];
    random_state = 3;
    make_variant(ours, "half.safetensors", 0.3f, GRAFT_F16);
    graft_model *a = load_model(engine, ours);
    const char *path = temp_path("unet.fp16.safetensors");
    made_file *f = diffusers_unet(a);
    for (size_t i = 0; i < f->n; i++) store_as(&f->tensor[i], GRAFT_F16);
    write_file(f, path, unet_config(a));
    graft_model *b = load_model(engine, path);
    CHECK(b && graft_weights_find(b->weights, "out.2.weight")->dtype == GRAFT_F16);
    same_run(a, b);
    RELEASE_ALL(a, b);
    unlink(path);
    unlink(ours);
}

/* Swapped in both directions, nothing is compiled again. */
static void swapped(void)
{
    char variant[256];
    random_state = 5;
    make_variant(variant, "variant.safetensors", 0.3f, GRAFT_F32);
    graft_model *a = load_model(engine, SD1), *v = load_model(engine, variant);
    const char *path = written(v, "unet.safetensors");
    graft_model *b = load_model(engine, path);
    same_run(v, b);
    uint64_t built = graphs_built(engine);
    graft_model *to = swap_weights(a, path, false), *back = swap_weights(b, SD1, false);
    same_run(to, v);
    same_run(back, a);
    CHECK_INT(graphs_built(engine), built);
    RELEASE_ALL(a, v, b, to, back);
    unlink(path);
    unlink(variant);
}

/* What does not fit has the name that it has in its file. */
static void swapped_for_another(void)
{
    graft_model *a = load_model(engine, SD1), *b = load_model(engine, SD2), *out = NULL;
    const char *path = written(b, "unet.safetensors");
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_model_swap(a, path, false, NULL, &out, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "another architecture: down_blocks.0.") != NULL);
    if (!strstr(e.text, "down_blocks")) fprintf(stderr, "%s\n", e.text);
    RELEASE_ALL(a, b);
    unlink(path);
}

/* LoRAs and merges do not see which names a file has. */
static void changed(void)
{
    char variant[256], lora[256];
    random_state = 6;
    make_variant(variant, "variant.safetensors", 0.3f, GRAFT_F32);
    make_lora(lora, "lora.safetensors");
    graft_model *a = load_model(engine, SD1), *v = load_model(engine, variant);
    const char *path = written(v, "unet.safetensors");
    graft_model *b = load_model(engine, path);
    graft_model *lv = with_lora(v, lora, 0.7), *lb = with_lora(b, lora, 0.7);
    same_run(lv, lb);
    graft_model *mv = merged(a, lv, 0.25, 0.5, 0.75), *mb = merged(a, lb, 0.25, 0.5, 0.75);
    same_run(mv, mb);
    graft_model *nv = simple(v, a, 0.5), *nb = simple(b, a, 0.5);
    same_run(nv, nb);
    graft_model *same = simple(v, b, 0.5); /* two files of the same weights */
    same_run(v, same);
    RELEASE_ALL(a, v, b, lv, lb, mv, mb, nv, nb, same);
    unlink(path);
    unlink(variant);
    unlink(lora);
}

static void saved(void)
{
    graft_model *a = load_model(engine, SD2);
    const char *path = written(a, "unet.safetensors");
    saved_like(engine, path, SD2);
    graft_model_release(a);
    unlink(path);
}

/* A ControlNet for the one fits the other, also one of differences from it. */
static void controlled(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *a = load_model(engine, SD1);
    const char *path = written(a, "unet.safetensors"), *differences = temp_path("diff.safetensors");
    graft_model *b = load_model(engine, path);
    graft_controlnet *net = made_control(a, 1), *of[2] = {NULL, NULL};
    CHECK_OK(graft_control_check(b, net, &e), &e);
    made_file *f = make_control(a, 1);
    for (size_t i = 0; i < f->n; i++) {
        const graft_st_tensor *t = &f->tensor[i];
        float *v = (float *)(uintptr_t)t->data;
        for (int64_t k = 0; k < shape_count(t->shape, t->rank); k++) v[k] *= 0.01f;
    }
    write_file(f, differences, unet_config(a));
    CHECK_OK(graft_controlnet_load_diff(engine, differences, a, NULL, &of[0], &e), &e);
    CHECK_OK(graft_controlnet_load_diff(engine, differences, b, NULL, &of[1], &e), &e);
    const char *const name = "input_blocks.1.0.in_layers.2.weight";
    const graft_st_tensor *t = graft_weights_find(a->weights, name);
    size_t n = (size_t)shape_count(t->shape, t->rank);
    float *one = calloc(n, sizeof *one), *two = calloc(n, sizeof *two);
    CHECK_OK(graft_weights_values(of[0]->weights, name, 0, (int64_t)n, one, &e), &e);
    CHECK_OK(graft_weights_values(of[1]->weights, name, 0, (int64_t)n, two, &e), &e);
    CHECK(memcmp(one, two, n * sizeof *one) == 0);
    free(one);
    free(two);
    graft_controlnet_release(net);
    graft_controlnet_release(of[0]);
    graft_controlnet_release(of[1]);
    RELEASE_ALL(a, b);
    unlink(path);
    unlink(differences);
}

/* ------------------------------------------------------------------ PyTorch's files */

/* Every tensor as float32 in the layout before torch.save() wrote zip archives. */
static void put_text(FILE *f, const char *text)
{
    uint32_t n = (uint32_t)strlen(text);
    fputc('X', f);
    fwrite(&n, sizeof n, 1, f);
    fputs(text, f);
}

static void put_number(FILE *f, int64_t v)
{
    int32_t n = (int32_t)v;
    fputc('J', f);
    fwrite(&n, sizeof n, 1, f);
}

static void put_tensor(FILE *f, const graft_st_tensor *t, size_t i)
{
    char key[24];
    int64_t n = shape_count(t->shape, t->rank), stride = n;
    snprintf(key, sizeof key, "%zu", i);
    fputs("ctorch._utils\n_rebuild_tensor_v2\n((", f);
    put_text(f, "storage");
    fputs("ctorch\nFloatStorage\n", f);
    put_text(f, key);
    put_text(f, "cpu");
    put_number(f, n);
    fputs("NtQK", f);
    fputc(0, f);
    fputc('(', f);
    for (int k = 0; k < t->rank; k++) put_number(f, t->shape[k]);
    fputs("t(", f);
    for (int k = 0; k < t->rank; k++) put_number(f, stride /= t->shape[k]);
    fputs("t\x89NtR", f);
}

static void write_bin(made_file *m, const char *path)
{
    static const char head[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                               "\x80\x02M\xe9\x03.\x80\x02}.\x80\x02}(";
    FILE *f = fopen(path, "wb");
    fwrite(head, 1, sizeof head - 1, f);
    for (size_t i = 0; i < m->n; i++) {
        put_text(f, m->tensor[i].name);
        put_tensor(f, &m->tensor[i], i);
    }
    fputs("u.\x80\x02](", f);
    for (size_t i = 0; i < m->n; i++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", i);
        put_text(f, key);
    }
    fputs("e.", f);
    for (size_t i = 0; i < m->n; i++) {
        int64_t n = shape_count(m->tensor[i].shape, m->tensor[i].rank);
        fwrite(&n, sizeof n, 1, f);
        fwrite(m->tensor[i].data, sizeof(float), (size_t)n, f);
    }
    fclose(f);
    finish_file(m);
}

/* diffusion_pytorch_model.bin: converted, it is the other file. It has no config, so only the names
 * and the values are looked at. */
static void pickled(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_convert_info info;
    graft_model *a = load_model(engine, SD1);
    const char *bin = temp_path("unet.bin"), *path = temp_path("from-bin.safetensors");
    graft_model *none = NULL;
    write_bin(diffusers_unet(a), bin);
    CHECK_INT(graft_model_load(engine, bin, NULL, &none, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "graft convert") != NULL);
    CHECK_OK(graft_checkpoint_convert(bin, path, &info, &e), &e);
    graft_safetensors *f = open_file(path);
    made_file *want = part_of_file(SD1, UNET);
    CHECK_OK(graft_diffusers_adopt_unet(f, &e), &e);
    CHECK_INT(graft_safetensors_count(f), want->n);
    for (size_t i = 0; i < want->n; i++) {
        const graft_st_tensor *t = &want->tensor[i];
        check_tensor(f, t->name, t);
    }
    finish_file(want);
    graft_safetensors_close(f);
    graft_model_release(a);
    unlink(bin);
    unlink(path);
}

/* ------------------------------------------------------------------ damage */

/* The reason has the file's own names. */
static void refused(made_file *f, graft_status status, const char *words)
{
    graft_err e = GRAFT_ERR_INIT;
    check_refused(engine, f, config_of(SD1), status, words, &e);
    CHECK(!strstr(e.text, "input_blocks") && !strstr(e.text, "output_blocks"));
}

static void without_tensors(void)
{
    static const char *const names[] = {
        "conv_in.weight",
        "conv_in.bias",
        "conv_norm_out.weight",
        "conv_out.weight",
        "time_embedding.linear_1.weight",
        "time_embedding.linear_2.bias",
        "down_blocks.0.resnets.0.conv1.weight",
        "down_blocks.0.resnets.0.norm1.weight",
        "down_blocks.0.downsamplers.0.conv.weight",
        "down_blocks.0.attentions.0.proj_in.weight",
        "down_blocks.1.resnets.0.conv_shortcut.weight",
        "down_blocks.1.resnets.0.time_emb_proj.bias",
        "mid_block.resnets.1.conv2.weight",
        "mid_block.attentions.0.transformer_blocks.0.attn2.to_k.weight",
        "up_blocks.0.upsamplers.0.conv.bias",
        "up_blocks.1.attentions.1.transformer_blocks.0.ff.net.0.proj.weight",
        "up_blocks.1.resnets.0.conv1.weight"};
    graft_model *m = load_model(engine, SD1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        made_file *f = diffusers_unet(m);
        char words[256];
        drop_tensor(f, names[i]);
        snprintf(words, sizeof words, "tensor %s is missing", names[i]);
        refused(f, GRAFT_E_FORMAT, words);
    }
    graft_model_release(m);
}

/* All that begins with this goes. */
static void drop_all(made_file *f, const char *prefix)
{
    for (size_t i = f->n; i-- > 0;)
        if (strncmp(f->tensor[i].name, prefix, strlen(prefix)) == 0)
            drop_tensor(f, f->tensor[i].name);
}

static void add_copies(made_file *f, const char *from, const char *to)
{
    for (size_t i = 0, n = f->n; i < n; i++) {
        graft_st_tensor *t = &f->tensor[i];
        char name[512];
        if (strncmp(t->name, from, strlen(from)) != 0) continue;
        snprintf(name, sizeof name, "%s%s", to, t->name + strlen(from));
        add_tensor(f, name, t->rank, t->shape, t->data, 0);
    }
}

static void wrong_layers(void)
{
    static const struct {
        const char *from, *to, *words; /* `from` NULL: all of `to` goes */
        graft_status status;
    } cases[] = {
        {NULL, "down_blocks.1.resnets.0.", "down_blocks.1.resnets.0.norm1.weight is missing",
         GRAFT_E_FORMAT},
        {NULL, "up_blocks.0.", "up_blocks.0.resnets.0.norm1.weight is missing", GRAFT_E_FORMAT},
        {NULL, "up_blocks.1.", "1 levels with 2 resnets in up_blocks do not fit 2", GRAFT_E_FORMAT},
        {"up_blocks.1.resnets.1.", "up_blocks.1.resnets.2.", "with 5 resnets in up_blocks",
         GRAFT_E_FORMAT},
        {"down_blocks.1.resnets.0.", "down_blocks.1.resnets.1.", "with 3 in down_blocks",
         GRAFT_E_FORMAT},
        {"down_blocks.0.", "down_blocks.2.", "down_blocks.1.downsamplers.0.conv.weight is missing",
         GRAFT_E_FORMAT},
        {"mid_block.resnets.1.", "mid_block.resnets.2.", "no tensor mid_block.resnets.2.",
         GRAFT_E_UNSUPPORTED},
        {"conv_in.", "class_embedding.", "no tensor class_embedding.", GRAFT_E_UNSUPPORTED},
        {"time_embedding.linear_2.", "time_embedding.cond_proj.",
         "no tensor time_embedding.cond_proj.", GRAFT_E_UNSUPPORTED},
        {"up_blocks.1.resnets.1.", "up_blocks.99.resnets.1.", "no tensor up_blocks.99.resnets.1.",
         GRAFT_E_UNSUPPORTED},
        {"down_blocks.0.resnets.0.", "down_blocks.0.resnets.4000000.",
         "no tensor down_blocks.0.resnets.4000000.", GRAFT_E_UNSUPPORTED},
    };
    graft_model *m = load_model(engine, SD1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made_file *f = diffusers_unet(m);
        if (cases[i].from)
            add_copies(f, cases[i].from, cases[i].to);
        else
            drop_all(f, cases[i].to);
        refused(f, cases[i].status, cases[i].words);
    }
    graft_model_release(m);
}

static void wrong_shapes(void)
{
    static const char *const names[] = {"down_blocks.1.resnets.0.conv2.weight",
                                        "time_embedding.linear_1.weight",
                                        "up_blocks.0.attentions.0.proj_in.weight"};
    graft_model *m = load_model(engine, SD1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        made_file *f = diffusers_unet(m);
        graft_st_tensor *t = made_find(f, names[i]);
        t->rank = 1;
        t->shape[0] = (int64_t)(t->bytes / sizeof(float));
        refused(f, GRAFT_E_FORMAT, names[i]);
    }
    graft_model_release(m);
}

/* Marks, which are no layers, do what they do elsewhere. */
static void marks(void)
{
    graft_model *m = load_model(engine, SD1);
    made_file *f = diffusers_unet(m);
    const char *path = temp_path("marked.safetensors");
    add_tensor(f, "v_pred", 1, (const int64_t[]){0}, NULL, 0);
    write_file(f, path, unet_config(m));
    graft_model *v = load_model(engine, path);
    CHECK(v && v->prediction == GRAFT_PREDICT_V);
    RELEASE_ALL(m, v);
    unlink(path);
}

static void short_of_memory(void)
{
    graft_model *m = load_model(engine, SD1);
    const char *path = written(m, "oom.safetensors");
    adopt_short_of_memory(path, graft_diffusers_adopt_unet);
    graft_model_release(m);
    unlink(path);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(names_of_sd1);
    RUN(names_of_sdxl);
    RUN(same_models);
    RUN(half_precision);
    RUN(swapped);
    RUN(swapped_for_another);
    RUN(changed);
    RUN(saved);
    RUN(controlled);
    RUN(pickled);
    RUN(without_tensors);
    RUN(wrong_layers);
    RUN(wrong_shapes);
    RUN(marks);
    RUN(short_of_memory);
    graft_engine_destroy(engine);
    return test_end();
}
