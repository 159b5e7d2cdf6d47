/* VAEs in diffusers' names, old ones and new ones, are the same as in a checkpoint's; what is wrong
 * with them is told in their own. */
#include "tests/engine/diffusers.h"

#include "base/alloc.h"
#include "base/half.h"
#include "engine/models/names/diffusers_file.h"

#define SMALL_VAE GRAFT_SOURCE_DIR "/golden/small/vae.safetensors"

static graft_engine *engine;

static graft_vae *load_vae(const char *path)
{
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vae_load(engine, path, NULL, &v, &e), &e);
    return v;
}

static const char *written(const graft_vae *v, vae_naming how)
{
    const char *path = temp_path("vae.safetensors");
    write_file(diffusers_vae(v, how), path, NULL);
    return path;
}

/* ------------------------------------------------------------------ the same VAE */

static float *decoded(const graft_vae *v, size_t *n)
{
    graft_latent *l = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t shape[4] = {1, v->arch.embed_dim, 4, 6};
    float x[16 * 24];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = fixed_value(i);
    CHECK_OK(graft_latent_from_data(x, shape, &l, &e), &e);
    CHECK_OK(graft_vae_decode(v, l, NULL, NULL, &image, &e), &e);
    const float *data = graft_image_data(image, shape);
    *n = (size_t)shape_count(shape, 4);
    float *copy = malloc(*n * sizeof *copy);
    memcpy(copy, data, *n * sizeof *copy);
    graft_image_release(image);
    graft_latent_release(l);
    return copy;
}

static float *encoded(const graft_vae *v, size_t *n)
{
    enum { H = 32, W = 48 };
    graft_latent *l = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t shape[4] = {1, H, W, 3};
    static float x[H * W * 3];
    for (size_t i = 0; i < H * W * 3; i++) x[i] = 0.5f + 0.5f * fixed_value(i);
    CHECK_OK(graft_image_from_data(x, shape, false, &image, &e), &e);
    CHECK_OK(graft_vae_encode(v, image, NULL, NULL, &l, &e), &e);
    const float *data = graft_latent_data(l, shape);
    *n = (size_t)shape_count(shape, 4);
    float *copy = malloc(*n * sizeof *copy);
    memcpy(copy, data, *n * sizeof *copy);
    graft_image_release(image);
    graft_latent_release(l);
    return copy;
}

static void same_values(float *(*of)(const graft_vae *, size_t *), const graft_vae *a,
                        const graft_vae *b)
{
    size_t n, m;
    float *one = of(a, &n), *two = of(b, &m), sum = 0;
    for (size_t i = 0; i < n; i++) sum += one[i] * one[i];
    CHECK(sum > 0 && n == m && memcmp(one, two, n * sizeof *one) == 0);
    free(one);
    free(two);
}

static void same_vae(const graft_vae *a, const graft_vae *b)
{
    CHECK(b && memcmp(&a->arch, &b->arch, sizeof a->arch) == 0);
    same_values(decoded, a, b);
    if (a->arch.encoder) same_values(encoded, a, b);
}

static void same_vaes(void)
{
    static const char *const files[] = {SMALL_VAE, DEMO};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++) {
            graft_vae *a = load_vae(files[i]);
            const char *path = written(a, (vae_naming){k & 1, k & 2});
            graft_vae *b = load_vae(path);
            same_vae(a, b);
            graft_vae_release(a);
            graft_vae_release(b);
            unlink(path);
        }
}

/* Other numbers of values, at random. */
static void reshape(made_file *f, const char *name, int rank, const int64_t *shape)
{
    graft_st_tensor *t = made_find(f, name);
    add_tensor(f, name, rank, shape, NULL, 0.1f);
    free((void *)t->data);
    free((char *)t->name);
    *t = f->tensor[--f->n];
}

/* The small VAE as Stable Diffusion 3's are: 16 channels of latents, nothing quantized. */
static void write_sixteen(const char *path)
{
    made_file *f = part_of_file(SMALL_VAE, "first_stage_model.");
    const int64_t *in = made_find(f, "decoder.conv_in.weight")->shape;
    const int64_t *out = made_find(f, "encoder.conv_out.weight")->shape;
    const int64_t first[4] = {in[0], 16, 3, 3}, last[4] = {32, out[1], 3, 3};
    static const char *const quant[] = {"quant_conv.weight", "quant_conv.bias",
                                        "post_quant_conv.weight", "post_quant_conv.bias"};
    for (int i = 0; i < 4; i++) drop_tensor(f, quant[i]);
    reshape(f, "decoder.conv_in.weight", 4, first);
    reshape(f, "encoder.conv_out.weight", 4, last);
    reshape(f, "encoder.conv_out.bias", 1, last);
    write_file(f, path, NULL);
}

static void sixteen_channels(void)
{
    const char *ours = temp_path("sixteen.safetensors");
    write_sixteen(ours);
    for (int k = 0; k < 4; k++) {
        graft_vae *a = load_vae(ours);
        const char *path = written(a, (vae_naming){k & 1, k & 2});
        graft_vae *b = load_vae(path);
        CHECK(a->arch.embed_dim == 16 && !a->arch.quant_conv && a->arch.encoder);
        same_vae(a, b);
        graft_vae_release(a);
        graft_vae_release(b);
        unlink(path);
    }
    unlink(ours);
}

/* Names as they are published, from one VAE of four levels. */
static void names(void)
{
    static const char *const want[][2] = {
        {"encoder.down_blocks.0.resnets.0.norm1.weight", "encoder.down.0.block.0.norm1.weight"},
        {"encoder.down_blocks.1.resnets.0.conv_shortcut.weight",
         "encoder.down.1.block.0.nin_shortcut.weight"},
        {"encoder.down_blocks.2.downsamplers.0.conv.bias", "encoder.down.2.downsample.conv.bias"},
        {"encoder.mid_block.attentions.0.group_norm.weight", "encoder.mid.attn_1.norm.weight"},
        {"encoder.mid_block.resnets.1.conv2.weight", "encoder.mid.block_2.conv2.weight"},
        {"encoder.conv_norm_out.bias", "encoder.norm_out.bias"},
        {"decoder.conv_in.weight", "decoder.conv_in.weight"},
        {"decoder.mid_block.attentions.0.to_q.weight", "decoder.mid.attn_1.q.weight"},
        {"decoder.mid_block.attentions.0.to_out.0.bias", "decoder.mid.attn_1.proj_out.bias"},
        {"decoder.up_blocks.0.resnets.0.conv1.weight", "decoder.up.3.block.0.conv1.weight"},
        {"decoder.up_blocks.0.upsamplers.0.conv.weight", "decoder.up.3.upsample.conv.weight"},
        {"decoder.up_blocks.2.upsamplers.0.conv.weight", "decoder.up.1.upsample.conv.weight"},
        {"decoder.up_blocks.3.resnets.1.norm2.bias", "decoder.up.0.block.1.norm2.bias"},
        {"post_quant_conv.weight", "post_quant_conv.weight"}};
    graft_err e = GRAFT_ERR_INIT;
    graft_vae *v = load_vae(DEMO);
    const char *path = written(v, (vae_naming){false, true});
    graft_safetensors *f = open_file(path);
    CHECK_INT(v->arch.levels, 4);
    CHECK_OK(graft_diffusers_adopt_vae(f, &e), &e);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const graft_st_tensor *t = graft_safetensors_find(f, want[i][1]);
        CHECK(t && t->called && strcmp(t->called, want[i][0]) == 0);
        if (t && strstr(want[i][1], "attn_1.q.")) CHECK(t->rank == 4 && t->shape[3] == 1);
    }
    graft_safetensors_close(f);
    graft_vae_release(v);
    unlink(path);
}

/* A decoder alone, and one without the convolutions around the latent. */
static void parts(void)
{
    graft_vae *a = load_vae(SMALL_VAE);
    made_file *f = diffusers_vae(a, (vae_naming){false, true});
    const char *path = temp_path("decoder.safetensors");
    for (size_t i = f->n; i-- > 0;)
        if (!strncmp(f->tensor[i].name, "encoder.", 8) || !strncmp(f->tensor[i].name, "quant", 5))
            drop_tensor(f, f->tensor[i].name);
    write_file(f, path, NULL);
    graft_vae *b = load_vae(path);
    CHECK(b && !b->arch.encoder);
    same_values(decoded, a, b);
    graft_vae_release(b);
    f = diffusers_vae(a, (vae_naming){false, true});
    for (size_t i = f->n; i-- > 0;)
        if (strstr(f->tensor[i].name, "quant_conv")) drop_tensor(f, f->tensor[i].name);
    write_file(f, path, NULL);
    b = load_vae(path);
    CHECK(b && !b->arch.quant_conv && b->arch.encoder);
    graft_vae_release(a);
    graft_vae_release(b);
    unlink(path);
}

/* Beside a network in its own names, as some checkpoints have one; VAELoader finds it there, too.
 */
static void in_a_checkpoint(void)
{
    static const char net[] = GRAFT_SOURCE_DIR "/golden/small/auraflow_two.safetensors";
    static const char *const place[] = {"vae.", "first_stage_model."};
    const char *path = temp_path("whole.safetensors");
    graft_vae *a = load_vae(SMALL_VAE);
    graft_err e = GRAFT_ERR_INIT;
    char name[200];
    for (int i = 0; i < 4; i++) {
        made_file *own = part_of_file(net, ""), *f = diffusers_vae(a, (vae_naming){i & 1, true});
        graft_model *m = NULL;
        graft_vae *b = NULL;
        for (size_t k = 0; k < f->n; k++) {
            snprintf(name, sizeof name, "%s%s", place[i / 2], f->tensor[k].name);
            call_tensor(&f->tensor[k], name);
        }
        for (size_t k = 0; k < own->n; k++)
            add_tensor(f, own->tensor[k].name, own->tensor[k].rank, own->tensor[k].shape,
                       own->tensor[k].data, 0);
        finish_file(own);
        write_file(f, path, config_of(net));
        CHECK_OK(graft_checkpoint_load(engine, path, NULL, &m, NULL, &b, &e), &e);
        CHECK(m && m->arch.kind == GRAFT_NET_AURAFLOW);
        same_vae(a, b);
        graft_vae_release(b);
        graft_model_release(m);
        b = load_vae(path);
        same_vae(a, b);
        graft_vae_release(b);
    }
    graft_vae_release(a);
    unlink(path);
}

/* In half precision, and saved: a checkpoint's names, shapes and bytes. */
static void saved(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_vae *a = load_vae(SMALL_VAE);
    const char *path = temp_path("vae.fp16.safetensors"), *out = temp_path("saved.safetensors");
    made_file *f = diffusers_vae(a, (vae_naming){true, true});
    for (size_t i = 0; i < f->n; i++) store_as(&f->tensor[i], GRAFT_F16);
    write_file(f, path, NULL);
    graft_vae *b = load_vae(path);
    same_vae(a, b); /* which is float16, too */
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.vae = b}, out, NULL, NULL, &e), &e);
    graft_safetensors *s = open_file(out);
    const graft_safetensors *own = graft_weights_file(a->weights);
    size_t prefix = strlen(graft_weights_prefix(a->weights)), n = 0;
    for (size_t i = 0; i < graft_safetensors_count(own); i++) {
        const graft_st_tensor *t = graft_safetensors_at(own, i);
        if (strncmp(t->name, graft_weights_prefix(a->weights), prefix) != 0) continue;
        check_tensor(s, t->name + prefix, t);
        n++;
    }
    CHECK_INT(graft_safetensors_count(s), n);
    graft_safetensors_close(s);
    graft_vae_release(a);
    graft_vae_release(b);
    unlink(path);
    unlink(out);
}

/* ------------------------------------------------------------------ damage */

static void refused(made_file *f, graft_status status, const char *words)
{
    const char *path = temp_path("damaged.safetensors");
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_file(f, path, NULL);
    CHECK_INT(graft_vae_load(engine, path, NULL, &v, &e), status);
    CHECK(!v && strstr(e.text, words) && strstr(e.text, "damaged.safetensors"));
    if (!strstr(e.text, words)) fprintf(stderr, "no \"%s\" in: %s\n", words, e.text);
    unlink(path);
}

static void without_tensors(void)
{
    static const char *const names[] = {"decoder.conv_in.weight",
                                        "decoder.conv_norm_out.bias",
                                        "decoder.mid_block.attentions.0.to_v.weight",
                                        "decoder.mid_block.attentions.0.group_norm.weight",
                                        "decoder.up_blocks.0.resnets.0.conv1.weight",
                                        "decoder.up_blocks.2.resnets.2.norm2.weight",
                                        "decoder.up_blocks.2.resnets.0.conv_shortcut.weight",
                                        "decoder.up_blocks.1.upsamplers.0.conv.weight",
                                        "encoder.conv_in.weight",
                                        "encoder.down_blocks.0.downsamplers.0.conv.bias",
                                        "encoder.down_blocks.2.resnets.1.conv2.weight",
                                        "encoder.mid_block.resnets.1.norm1.bias",
                                        "quant_conv.bias"};
    graft_vae *v = load_vae(SMALL_VAE);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        made_file *f = diffusers_vae(v, (vae_naming){false, true});
        char words[256];
        drop_tensor(f, names[i]);
        snprintf(words, sizeof words, "tensor %s is missing", names[i]);
        refused(f, GRAFT_E_FORMAT, words);
    }
    graft_vae_release(v);
}

static void wrong_layers(void)
{
    static const struct {
        const char *from, *to, *words;
        graft_status status;
    } cases[] = {{"decoder.mid_block.attentions.0.to_q.weight",
                  "decoder.mid_block.attentions.0.query.weight",
                  "tensor decoder.mid_block.attentions.0.query.bias is missing", GRAFT_E_FORMAT},
                 {"decoder.conv_in.weight", "decoder.time_conv_out.weight",
                  "no tensor decoder.time_conv_out.weight", GRAFT_E_UNSUPPORTED},
                 {"decoder.conv_in.bias", "quantize.embedding.weight",
                  "no tensor quantize.embedding.weight", GRAFT_E_UNSUPPORTED},
                 {"encoder.conv_in.bias", "encoder.down_blocks.2.downsamplers.0.conv.bias",
                  "no tensor encoder.down_blocks.2.downsamplers.0.conv.bias", GRAFT_E_UNSUPPORTED},
                 {"decoder.conv_in.bias", "decoder.up_blocks.9.resnets.0.norm1.bias",
                  "no tensor decoder.up_blocks.9.resnets.0.norm1.bias", GRAFT_E_UNSUPPORTED},
                 {"decoder.conv_in.bias", "decoder.up_blocks.3.resnets.0.norm1.bias",
                  "decoder.up_blocks.2.upsamplers.0.conv.weight is missing", GRAFT_E_FORMAT}};
    graft_vae *v = load_vae(SMALL_VAE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made_file *f = diffusers_vae(v, (vae_naming){false, true});
        const graft_st_tensor *t = made_find(f, cases[i].from);
        add_tensor(f, cases[i].to, t->rank, t->shape, t->data, 0);
        refused(f, cases[i].status, cases[i].words);
    }
    made_file *f = diffusers_vae(v, (vae_naming){false, true});
    for (size_t i = f->n; i-- > 0;)
        if (strstr(f->tensor[i].name, "r.up_blocks.") && strstr(f->tensor[i].name, ".resnets.2."))
            drop_tensor(f, f->tensor[i].name);
    refused(f, GRAFT_E_FORMAT, "3 levels of 2 resnets in encoder.down_blocks do not fit 3 levels");
    f = diffusers_vae(v, (vae_naming){false, true});
    graft_st_tensor *t = made_find(f, "decoder.up_blocks.1.resnets.1.conv2.weight");
    t->shape[0] /= 2;
    t->bytes /= 2;
    refused(f, GRAFT_E_FORMAT,
            "tensor decoder.up_blocks.1.resnets.1.conv2.weight has the shape (32,64,3,3)");
    graft_vae_release(v);
}

/* Files of one name, of which a person may take the wrong one. */
static void mixed_up(void)
{
    graft_vae *v = load_vae(SMALL_VAE), *none = NULL;
    graft_model *m = load_model(engine, SD1), *no_model = NULL;
    graft_clip *clip = NULL;
    graft_controlnet *net = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const char *vae = written(v, (vae_naming){false, true}), *unet = temp_path("unet.safetensors");
    write_file(diffusers_unet(m), unet, unet_config(m));
    CHECK_INT(graft_model_load(engine, vae, NULL, &no_model, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "a VAE, which VAELoader opens") != NULL);
    CHECK_INT(graft_vae_load(engine, unet, NULL, &none, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "a UNet, which UNETLoader opens") != NULL);
    CHECK_INT(graft_clip_load(engine, &unet, 1, "stable_diffusion", NULL, &clip, &e),
              GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "a UNet, which UNETLoader opens") != NULL);
    CHECK_INT(graft_checkpoint_load(engine, unet, NULL, &no_model, &clip, &none, &e),
              GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "a UNet, which UNETLoader opens") != NULL);
    CHECK_INT(graft_controlnet_load(engine, unet, NULL, &net, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "a UNet, which UNETLoader opens") != NULL);
    CHECK(!none && !no_model && !clip && !net);
    graft_vae_release(v);
    graft_model_release(m);
    unlink(vae);
    unlink(unet);
}

static void short_of_memory(void)
{
    graft_vae *v = load_vae(SMALL_VAE);
    const char *path = written(v, (vae_naming){false, true});
    adopt_short_of_memory(path, graft_diffusers_adopt_vae);
    graft_vae_release(v);
    unlink(path);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(names);
    RUN(same_vaes);
    RUN(sixteen_channels);
    RUN(parts);
    RUN(in_a_checkpoint);
    RUN(saved);
    RUN(without_tensors);
    RUN(wrong_layers);
    RUN(mixed_up);
    RUN(short_of_memory);
    graft_engine_destroy(engine);
    return test_end();
}
