/* Text encoders in transformers' names, as diffusers keeps them: text_encoder/model.safetensors and
 * text_encoder_2/model.safetensors. */
#include <fcntl.h>

#include "base/str.h"
#include "tests/engine/diffusers.h"
#include "tests/engine/openclip.h"

#define SMALL_L GRAFT_SOURCE_DIR "/golden/small/clip_quick_gelu.safetensors"
#define SMALL_G GRAFT_SOURCE_DIR "/golden/small/clip_gelu.safetensors"
#define SECOND  "conditioner.embedders.1.model."

enum { W = 96, LAYERS = 3, HIDDEN = GRAFT_TEXT_CHUNK * W };

static graft_engine *engine;
static char path_l[256], path_g[256], path_open[256], path_lora[256];

static graft_clip *load_pair(const char *first, const char *second)
{
    const char *paths[2] = {first, second};
    graft_clip *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_load(engine, paths, 2, "sdxl", NULL, &c, &e), &e);
    return c;
}

/* Both encoders, hidden and pooled; OpenCLIP's one product in place of three may round elsewhere.
 */
static void same_pair(const graft_clip *a, const graft_clip *b)
{
    static float one[HIDDEN], two[HIDDEN];
    float p[W], q[W];
    CHECK(a->n_encoders == 2 && b->n_encoders == 2);
    for (size_t i = 0; i < 2; i++) {
        CHECK_INT(a->encoder[i].pad_token, b->encoder[i].pad_token);
        CHECK_INT(a->encoder[i].layer, b->encoder[i].layer);
        CHECK_INT(a->encoder[i].hidden_norm, b->encoder[i].hidden_norm);
        run_encoder(a, i, one, p);
        run_encoder(b, i, two, q);
        CHECK(difference(one, two, HIDDEN) < 1e-5);
        CHECK(difference(p, q, W) < 1e-5);
    }
}

static void second_in_both_names(void)
{
    graft_clip *hf = load_pair(path_l, path_g), *open = load_pair(path_l, path_open);
    CHECK_INT(hf->encoder[1].arch.layout, GRAFT_TEXT_HF);
    CHECK_INT(open->encoder[1].arch.layout, GRAFT_TEXT_OPENCLIP);
    CHECK_INT(hf->encoder[1].arch.projection, W);
    same_pair(hf, open);
    graft_clip_release(hf);
    graft_clip_release(open);
}

/* ------------------------------------------------------------------ checkpoints */

static graft_clip *saved_and_loaded(const graft_clip *c, const char *path)
{
    graft_clip *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.clip = c}, path, NULL, NULL, &e), &e);
    CHECK_OK(graft_checkpoint_load(engine, path, NULL, NULL, &out, NULL, &e), &e);
    return out;
}

/* Nothing changed: the saved tensors are those that OpenCLIP would have, byte by byte. */
static void saved_as_openclip(void)
{
    const char *path = temp_path("saved.safetensors");
    graft_clip *c = load_pair(path_l, path_g), *loaded = saved_and_loaded(c, path);
    graft_safetensors *f = open_file(path), *own = open_file(SMALL_G);
    made_file *want = as_openclip(own, LAYERS, W);
    size_t n = 0;
    CHECK_INT(loaded->encoder[1].arch.layout, GRAFT_TEXT_OPENCLIP);
    same_pair(c, loaded);
    for (size_t i = 0; i < want->n; i++) {
        const graft_st_tensor *t = &want->tensor[i];
        char name[256];
        snprintf(name, sizeof name, SECOND "%s", t->name);
        check_tensor(f, name, t);
    }
    for (size_t i = 0; i < graft_safetensors_count(f); i++)
        n += graft_str_starts(graft_safetensors_at(f, i)->name, SECOND);
    CHECK_INT(n, want->n);
    finish_file(want);
    graft_safetensors_close(own);
    graft_safetensors_close(f);
    graft_clip_release(c);
    graft_clip_release(loaded);
    unlink(path);
}

/* What a LoRA and a merge made of it is saved, of the joined and the transposed matrices, too. */
static void saved_with_changes(void)
{
    static float plain[HIDDEN], changed[HIDDEN];
    float pooled[W];
    const char *path = temp_path("saved.safetensors");
    graft_clip *c = load_pair(path_l, path_g), *l = NULL, *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_lora_apply(NULL, c, path_lora, 0, 0.8, NULL, NULL, &l, &e), &e);
    run_encoder(c, 1, plain, pooled);
    run_encoder(l, 1, changed, pooled);
    CHECK(difference(changed, plain, HIDDEN) > 1e-3);
    CHECK_OK(graft_clip_merge_add(l, c, &m, &e), &e);
    graft_clip *of_lora = saved_and_loaded(l, path);
    same_pair(l, of_lora);
    unlink(path);
    graft_clip *of_merge = saved_and_loaded(m, path);
    same_pair(m, of_merge);
    unlink(path);
    graft_clip *all[] = {c, l, m, of_lora, of_merge};
    for (size_t i = 0; i < 5; i++) graft_clip_release(all[i]);
}

/* ------------------------------------------------------------------ SD 2's encoder without its
 * last */

/* A file of one byte a value whose data is a hole: it is looked at, but not run. */
typedef struct hollow {
    graft_str header;
    uint64_t bytes;
} hollow;

static void add_hollow(hollow *h, const char *name, int64_t rows, int64_t columns)
{
    uint64_t n = (uint64_t)(rows * (columns ? columns : 1));
    graft_str_printf(&h->header, "%s\"text_model.%s\":{\"dtype\":\"F8_E4M3\",\"shape\":[%lld",
                     h->header.len ? "," : "{", name, (long long)rows);
    if (columns) graft_str_printf(&h->header, ",%lld", (long long)columns);
    graft_str_printf(&h->header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)h->bytes,
                     (unsigned long long)(h->bytes + n));
    h->bytes += n;
}

static void add_hollow_layer(hollow *h, int i, int64_t width)
{
    static const struct {
        const char *name;
        int rows, columns; /* 0: width */
    } layers[] = {{"layer_norm1", 0, 1},      {"layer_norm2", 0, 1},
                  {"mlp.fc1", 8, 0},          {"mlp.fc2", 0, 8},
                  {"self_attn.q_proj", 0, 0}, {"self_attn.k_proj", 0, 0},
                  {"self_attn.v_proj", 0, 0}, {"self_attn.out_proj", 0, 0}};
    char name[128];
    for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) {
        int64_t rows = layers[k].rows ? layers[k].rows : width;
        int64_t columns = layers[k].columns ? layers[k].columns : width;
        snprintf(name, sizeof name, "encoder.layers.%d.%s.weight", i, layers[k].name);
        add_hollow(h, name, rows, columns == 1 ? 0 : columns);
        snprintf(name, sizeof name, "encoder.layers.%d.%s.bias", i, layers[k].name);
        add_hollow(h, name, rows, 0);
    }
}

static void write_hollow(const char *path, int layers, int64_t width)
{
    hollow h = {GRAFT_STR_INIT, 0};
    add_hollow(&h, "embeddings.token_embedding.weight", 8, width);
    add_hollow(&h, "embeddings.position_embedding.weight", 77, width);
    add_hollow(&h, "final_layer_norm.weight", width, 0);
    add_hollow(&h, "final_layer_norm.bias", width, 0);
    for (int i = 0; i < layers; i++) add_hollow_layer(&h, i, width);
    graft_str_puts(&h.header, "}");
    uint64_t n = h.header.len;
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0666);
    CHECK(write(file, &n, sizeof n) == sizeof n);
    CHECK(write(file, h.header.data, n) == (ssize_t)n);
    CHECK(ftruncate(file, (off_t)(sizeof n + n + h.bytes)) == 0);
    close(file);
    graft_str_finish(&h.header);
}

static int layer_after(const graft_clip *c, int64_t stop)
{
    graft_clip *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_set_last_layer(c, stop, &out, &e), &e);
    int layer = out->encoder[0].arch.layers + 1 - out->encoder[0].layer;
    graft_clip_release(out);
    return layer;
}

/* After how many layers its hidden state is taken; the whole encoder gives that of the 23rd. */
static void last_layer_is_gone(void)
{
    const char *path = temp_path("hollow.safetensors");
    for (int layers = 23; layers <= 24; layers++) {
        graft_clip *c = NULL;
        graft_err e = GRAFT_ERR_INIT;
        write_hollow(path, layers, 1024);
        CHECK_OK(graft_clip_load(engine, &path, 1, "stable_diffusion", NULL, &c, &e), &e);
        if (!c) continue;
        CHECK_INT(layers + 1 - c->encoder[0].layer, 23);
        CHECK(c->encoder[0].hidden_norm && c->encoder[0].pad_token == 0);
        CHECK_INT(layer_after(c, -1), layers);
        CHECK_INT(layer_after(c, -2), 23);
        CHECK_INT(layer_after(c, -3), 22);
        CHECK_INT(layer_after(c, -24), 1);
        CHECK_INT(layer_after(c, -25), layers);
        graft_clip_release(c);
        unlink(path);
    }
}

static void make_files(void)
{
    graft_safetensors *l = open_file(SMALL_L), *g = open_file(SMALL_G);
    const char *config = graft_safetensors_metadata(g, "config");
    made_file *lora = calloc(1, sizeof *lora);
    static const char *const layers[] = {"0_self_attn_q_proj", "1_self_attn_v_proj", "2_mlp_fc1"};
    snprintf(path_l, sizeof path_l, "%s", temp_path("l.safetensors"));
    snprintf(path_g, sizeof path_g, "%s", temp_path("g.safetensors"));
    snprintf(path_open, sizeof path_open, "%s", temp_path("open.safetensors"));
    snprintf(path_lora, sizeof path_lora, "%s", temp_path("lora.safetensors"));
    /* A checkpoint has one config for both. */
    write_file(copy_file(l, "text_"), path_l, config);
    write_file(copy_file(g, "text_"), path_g, config);
    write_file(as_openclip(g, LAYERS, W), path_open, config);
    for (int i = 0; i < 3; i++) {
        char name[256];
        snprintf(name, sizeof name, "lora_te2_text_model_encoder_layers_%s.lora_up.weight",
                 layers[i]);
        add_tensor(lora, name, 2, (int64_t[]){i < 2 ? W : 4 * W, 3}, NULL, 0.2f);
        snprintf(name, sizeof name, "lora_te2_text_model_encoder_layers_%s.lora_down.weight",
                 layers[i]);
        add_tensor(lora, name, 2, (int64_t[]){3, W}, NULL, 0.2f);
    }
    write_file(lora, path_lora, NULL);
    graft_safetensors_close(l);
    graft_safetensors_close(g);
}

/* Numbers of the config that are cut to 32 bits would be others. */
static void nonsense_in_the_config(void)
{
    static const char *const configs[] = {"{\"text\": {\"heads\": 4294967298}}",
                                          "{\"text\": {\"heads\": 97}}",
                                          "{\"text\": {\"heads\": 2, \"eos\": 4294967296}}",
                                          "{\"text\": {\"heads\": 2, \"eos\": -1}}"};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        const char *path = temp_path("config.safetensors");
        graft_safetensors *f = open_file(SMALL_L);
        graft_clip *c = NULL;
        graft_err e = GRAFT_ERR_INIT;
        write_file(copy_file(f, "text_"), path, configs[i]);
        graft_safetensors_close(f);
        CHECK_INT(graft_clip_load(engine, &path, 1, "stable_diffusion", NULL, &c, &e),
                  GRAFT_E_FORMAT);
        CHECK(!c && strstr(e.text, "makes no sense"));
        unlink(path);
    }
}

/* What layers are counted by, in OpenCLIP's names. */
static void without_a_norm(void)
{
    static const char lost[] = "transformer.resblocks.1.ln_1.weight";
    const char *path = temp_path("lost.safetensors");
    graft_safetensors *f = open_file(SMALL_G);
    made_file *m = as_openclip(f, LAYERS, W);
    graft_clip *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    drop_tensor(m, lost);
    write_file(m, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    CHECK_INT(graft_clip_load(engine, &path, 1, "stable_diffusion", NULL, &c, &e), GRAFT_E_FORMAT);
    CHECK(!c && strstr(e.text, lost));
    unlink(path);
}

int main(void)
{
    engine = make_engine("cpu");
    make_files();
    RUN(nonsense_in_the_config);
    RUN(without_a_norm);
    RUN(second_in_both_names);
    RUN(saved_as_openclip);
    RUN(saved_with_changes);
    RUN(last_layer_is_gone);
    unlink(path_l), unlink(path_g), unlink(path_open), unlink(path_lora);
    graft_engine_destroy(engine);
    return test_end();
}
