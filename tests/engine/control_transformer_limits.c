/* ControlNets for FLUX.1, Stable Diffusion 3 and Qwen-Image: which files and models are refused,
 * limits of memory, and memory that is not there. */
#include "engine/models/parts/tensors.h"
#include "tests/engine/control_transformer.h"

#define ZIMAGE GRAFT_SOURCE_DIR "/golden/small/zimage_two.safetensors"
#define CHROMA GRAFT_SOURCE_DIR "/golden/small/chroma_two.safetensors"
#define FLUX2  GRAFT_SOURCE_DIR "/golden/small/flux2_klein.safetensors"

/* ------------------------------------------------------------------ what is refused */

/* Sampling says why, and so does compiling ahead. */
static void expect_misfit(const bench *b, graft_control_options o, bool ahead, const char *text)
{
    float now[ONE];
    const graft_task task = {.compile_only = true};
    pair p = steer(b->plain, o);
    for (int i = 0; i <= ahead; i++) {
        graft_err e = GRAFT_ERR_INIT;
        CHECK_INT(try_sizes(b->m, p, 1, HIGH, WIDE, i ? &task : NULL, now, &e), GRAFT_E_ARG);
        if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    }
    drop(p);
}

static bench model_alone(const char *path)
{
    bench b = {.m = load_model(engine, path)};
    b.plain = (pair){words(b.m, 1), words(b.m, 2)};
    return b;
}

/* The file without the tensors that have this in their names. */
static const char *file_without(const char *path, const char *part, const char *config)
{
    const char *out = temp_path("part.safetensors");
    made_file *f = net_file(path);
    const size_t before = f->n;
    for (size_t i = f->n; i-- > 0;) {
        const graft_st_tensor t = f->tensor[i];
        if (!strstr(t.name, part)) continue;
        f->tensor[i] = f->tensor[--f->n];
        free((char *)(uintptr_t)t.name);
        free((void *)(uintptr_t)t.data);
    }
    CHECK(f->n < before);
    write_file(f, out, config);
    return out;
}

static void other_models(void)
{
    bench dev = model_alone(FLUX_DEV), z = model_alone(ZIMAGE), klein = model_alone(FLUX2),
          sd1 = {.m = load_model(engine, SD1)}, chroma = model_alone(CHROMA);
    graft_controlnet *of_unet = made_control(sd1.m, 1);
    expect_misfit(&dev, options(flux.net, 1), true, "its blocks are 32 wide, the model's 48");
    expect_misfit(&sd3, options(flux.net, 1), true,
                  "it is for FLUX.1, the model is Stable Diffusion 3");
    expect_misfit(&flux, options(sd3.net, 1), true, "it is for Stable Diffusion 3");
    expect_misfit(&z, options(flux.net, 1), true, "it is for FLUX.1, the model is Z-Image");
    expect_misfit(&klein, options(flux.net, 1), true, "it is for FLUX.1, the model is FLUX.2");
    expect_misfit(&chroma, options(flux.net, 1), true, "it is for FLUX.1, the model is Chroma");
    expect_misfit(&z, options(of_unet, 1), true, "2.x or XL, the model is Z-Image");
    expect_misfit(&flux, options(of_unet, 1), true, "2.x or XL, the model is FLUX.1");
    expect_misfit(&qwen, options(flux.net, 1), true, "it is for FLUX.1, the model is Qwen-Image");
    expect_misfit(&flux, options(qwen.net, 1), true, "it is for Qwen-Image, the model is FLUX.1");
    bench other = model_alone(GRAFT_SOURCE_DIR "/golden/small/qwen_image_two.safetensors");
    expect_misfit(&other, options(qwen.net, 1), true, "its blocks are 32 wide, the model's 48");
    drop(other.plain);
    graft_model_release(other.m);
    graft_controlnet_release(of_unet);
    drop(dev.plain);
    drop(z.plain);
    drop(klein.plain);
    drop(chroma.plain);
    graft_model_release(dev.m);
    graft_model_release(z.m);
    graft_model_release(klein.m);
    graft_model_release(chroma.m);
    graft_model_release(sd1.m);
}

/* One that is told a guidance scale needs a model that is; the other way round it does not matter.
 */
static void guidance(void)
{
    static const char config[] = "{\"rope_dim\": 6}";
    float now[ONE];
    bench schnell = model_alone(file_without(FLUX, "guidance_in.", config));
    CHECK(flux.m->arch.flux.guidance && !schnell.m->arch.flux.guidance);
    expect_misfit(&schnell, options(flux.net, 1), true, "it is told a guidance scale");
    graft_controlnet *n =
        load_control(engine, file_without(NET("flux_union"), "guidance_embedder.", config));
    steer_and_sample(&schnell, options(n, 1), now);
    steer_and_sample(&flux, options(n, 1), now);
    CHECK(difference(now, flux.bare, ONE) > 1e-3 && difference(now, flux.steered, ONE) > 1e-4);
    graft_controlnet_release(n);
    drop(schnell.plain);
    graft_model_release(schnell.m);
    unlink(temp_path("part.safetensors"));
}

static void other_vaes(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_vae *four = NULL, *half = NULL;
    graft_cond *p = NULL, *n = NULL;
    graft_control_options o = options(flux.net, 1);
    CHECK_OK(graft_vae_load(engine, VAE_4, NULL, &four, &e), &e);
    CHECK_OK(graft_vae_load(engine, file_without(VAE_16, "encoder.", NULL), NULL, &half, &e), &e);
    o.vae = four;
    expect_misfit(&flux, o, false, "latents of 4 channels, 8x6, and the ControlNet sees 16, 8x6");
    o.vae = NULL;
    CHECK_INT(graft_cond_control(flux.plain.positive, flux.plain.negative, &o, &p, &n, &e),
              GRAFT_E_ARG);
    CHECK(strstr(e.text, "no VAE is given") != NULL);
    o.vae = half;
    CHECK_INT(graft_cond_control(flux.plain.positive, flux.plain.negative, &o, &p, &n, &e),
              GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "no encoder") != NULL);
    CHECK(!p && !n);
    graft_vae_release(four);
    graft_vae_release(half);
    unlink(temp_path("part.safetensors"));
}

static void refused(made_file *f, graft_status want, const char *text)
{
    const char *path = temp_path("broken.safetensors");
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_file(f, path, "{\"rope_dim\": 6, \"num_heads\": 2, \"num_head_channels\": 16}");
    CHECK_INT(graft_controlnet_load(engine, path, NULL, &n, &e), want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    graft_controlnet_release(n);
    unlink(path);
}

static void without(const char *path, const char *name)
{
    made_file *f = net_file(path);
    graft_st_tensor *t = made_find(f, name), gone = *t;
    *t = f->tensor[--f->n];
    free((char *)gone.name);
    free((void *)gone.data);
    refused(f, GRAFT_E_FORMAT, name);
}

/* With this tensor of another width. */
static made_file *resized(const char *path, const char *name, int dim, int64_t size)
{
    made_file *f = net_file(path);
    graft_st_tensor *t = made_find(f, name), old = *t;
    int64_t shape[GRAFT_MAX_RANK];
    memcpy(shape, t->shape, sizeof shape);
    shape[dim] = size;
    add_tensor(f, name, old.rank, shape, NULL, 0.1f);
    *made_find(f, name) = f->tensor[--f->n];
    free((char *)old.name);
    free((void *)old.data);
    return f;
}

static void widened(const char *path, const char *name, int dim, int64_t size, graft_status want,
                    const char *text)
{
    refused(resized(path, name, dim, size), want, text);
}

/* One that knows fewer places than its network says so, and by its file's name. */
static void too_large_for_its_table(void)
{
    const char *path = temp_path("places.safetensors");
    write_file(resized(NET("mmdit"), "pos_embed.pos_embed", 1, 9), path,
               "{\"num_heads\": 2, \"num_head_channels\": 16}");
    graft_controlnet *n = load_control(engine, path);
    expect_misfit(&sd3, options(n, 1), true,
                  "places.safetensors: a latent of 8x6: this ControlNet knows places for 6, which "
                  "are 48 pixels a side");
    graft_controlnet_release(n);
    unlink(path);
}

static void broken_files(void)
{
    without(NET("flux"), "controlnet_x_embedder.bias");
    without(NET("flux"), "controlnet_blocks.1.weight");
    without(NET("flux"), "transformer_blocks.0.attn.add_k_proj.bias");
    without(NET("flux_union"), "controlnet_single_blocks.2.bias");
    without(NET("flux_union"), "single_transformer_blocks.1.attn.to_v.weight");
    without(NET("mmdit"), "pos_embed_input.proj.bias");
    without(NET("mmdit"), "transformer_blocks.2.ff_context.net.2.weight");
    without(NET("mmdit_large"), "transformer_blocks.1.mlp.fc2.bias");
    widened(NET("flux"), "controlnet_x_embedder.weight", 1, 72, GRAFT_E_UNSUPPORTED, "18 planes");
    widened(NET("flux"), "controlnet_x_embedder.weight", 1, 128, GRAFT_E_UNSUPPORTED, "32 planes");
    widened(NET("flux"), "controlnet_blocks.0.weight", 1, 16, GRAFT_E_FORMAT,
            "controlnet_blocks.0");
    widened(NET("flux_union"), "controlnet_mode_embedder.weight", 1, 16, GRAFT_E_FORMAT,
            "controlnet_mode_embedder");
    widened(NET("flux_union"), "controlnet_mode_embedder.weight", 0, 33, GRAFT_E_UNSUPPORTED, "33");
    widened(NET("mmdit"), "pos_embed_input.proj.weight", 1, 18, GRAFT_E_UNSUPPORTED, "18 planes");
    without(NET("qwen_image"), "controlnet_x_embedder.bias");
    without(NET("qwen_image"), "controlnet_blocks.1.weight");
    without(NET("qwen_image"), "transformer_blocks.1.txt_mlp.net.2.bias");
    widened(NET("qwen_image"), "controlnet_x_embedder.weight", 1, 72, GRAFT_E_UNSUPPORTED,
            "18 planes");
    widened(NET("qwen_image"), "controlnet_x_embedder.weight", 1, 66, GRAFT_E_FORMAT,
            "controlnet_x_embedder.weight");
    made_file *f = net_file(NET("flux"));
    add_tensor(f, "proj_out.weight", 1, (int64_t[]){4}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "a ControlNet for FLUX has no tensor proj_out.weight");
    f = calloc(1, sizeof *f);
    add_tensor(f, "input_hint_block.0.weight", 4, (int64_t[]){16, 3, 3, 3}, NULL, 1);
    add_tensor(f, GRAFT_FLUX_TENSOR, 2, (int64_t[]){96, 32}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "XLabs");
}

/* ------------------------------------------------------------------ memory */

static void short_of_names(void)
{
    adopt_short_of_memory(NET("flux_union"), graft_diffusers_adopt_control);
    adopt_short_of_memory(NET("mmdit"), graft_diffusers_adopt_control);
    adopt_short_of_memory(NET("mmdit_large"), graft_diffusers_adopt_control);
}

static graft_status chain_of_two(const bench *b, const graft_controlnet *other, float *out,
                                 graft_err *e)
{
    const graft_control_options o = options(b->net, 1), half = options(other, 0.5);
    pair p = {NULL, NULL}, both = {NULL, NULL};
    graft_status st =
        graft_cond_control(b->plain.positive, b->plain.negative, &o, &p.positive, &p.negative, e);
    if (!st)
        st = graft_cond_control(p.positive, p.negative, &half, &both.positive, &both.negative, e);
    if (!st) st = try_sizes(b->m, both, 1, HIGH - 1, WIDE, NULL, out, e);
    drop(p);
    drop(both);
    return st;
}

/* Memory ends anywhere while a chain is made and sampled: an error, and nothing is lost. */
static void short_of_memory_with(const bench *b, const graft_controlnet *other)
{
    float want[ONE], now[ONE];
    int64_t n = 0, refused = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(chain_of_two(b, other, want, &e), &e);
    const int64_t live = live_blocks();
    for (bool done = false; !done && n < 1000000; n += n / 30) {
        graft_alloc_fail_at(++n);
        const graft_status st = chain_of_two(b, other, now, &e);
        done = graft_alloc_fail_at(0) > 0;
        CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && !done));
        CHECK(st || memcmp(now, want, (HIGH - 1) * WIDE * 16 * sizeof *now) == 0);
        CHECK_INT(live_blocks(), live);
        refused += st != GRAFT_OK;
    }
    CHECK(n < 1000000 && refused > 20);
}

static void short_of_memory(void)
{
    short_of_memory_with(&flux, flux.other);
    short_of_memory_with(&sd3, sd3.net);
    short_of_memory_with(&large, large.net);
    short_of_memory_with(&qwen, qwen.net);
}

/* The number that a message about max_memory_mb ends with. */
static int64_t promised(const char *text)
{
    const char *at = strstr(text, "would do is ");
    return at ? atoll(at + strlen("would do is ")) : 0;
}

/* max_memory_mb counts the ControlNets, too. */
static void limits(void)
{
    enum { ROWS = 24, COLUMNS = 32, VALUES = 16 * ROWS * COLUMNS };
    static float now[VALUES], want[VALUES];
    graft_err e = GRAFT_ERR_INIT;
    pair p = steer(flux.plain, options(flux.net, 1));
    int64_t least = 0, most = 0, told = 0;
    CHECK_OK(try_sizes(flux.m, p, 1, ROWS, COLUMNS, NULL, want, &e), &e);
    for (int64_t mib = 1; mib < 200 && !most; mib = next_limit(mib, told)) {
        const graft_compile_options c = {.precision = "f32", .tuning = "off", .max_memory_mb = mib};
        graft_model *m = NULL;
        CHECK_OK(graft_model_compile(flux.m, &c, NULL, &m, &e), &e);
        const graft_status alone = try_sizes(m, flux.plain, 1, ROWS, COLUMNS, NULL, now, &e);
        const graft_status st = try_sizes(m, p, 1, ROWS, COLUMNS, NULL, now, &e);
        if (!alone && !least) least = mib;
        CHECK(st == GRAFT_OK || st == GRAFT_E_LIMIT);
        if (!st) {
            most = mib;
            CHECK(difference(now, want, VALUES) < 1e-5);
        } else if (!alone) {
            told = promised(e.text);
            CHECK(strstr(e.text, "of ControlNets), more than the") != NULL);
        }
        /* Only what counts the model as well promises that its number will do. */
        if (st) CHECK(!strstr(e.text, "and more with its model") == !strstr(e.text, "control"));
        graft_model_release(m);
    }
    CHECK(least > 0 && most > least);
    CHECK_INT(most, told);
    drop(p);
}

int main(void)
{
    begin_all();
    RUN(other_models);
    RUN(guidance);
    RUN(other_vaes);
    RUN(broken_files);
    RUN(too_large_for_its_table);
    RUN(short_of_names);
    RUN(short_of_memory);
    RUN(limits);
    end_all();
    return test_end();
}
