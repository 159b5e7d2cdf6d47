/* SDXL's refiner: what its checkpoint is, how its prompts are encoded, and what its UNet is told.
 */
#include <math.h>

#include "base/alloc.h"
#include "engine/denoise/denoise.h"
#include "engine/denoise/guided.h"
#include "engine/denoise/sample.h"
#include "engine/denoise/told.h"
#include "tests/engine/fixture.h"

#define G_PREFIX "conditioner.embedders.1.model."

static graft_engine *engine;

/* SDXL's large text encoder, where the refiner's checkpoint has it. */
static graft_clip *refiners_clip(void)
{
    graft_safetensors *f = open_file(MODELS "/tiny-sdxl.safetensors");
    const char *config = graft_safetensors_metadata(f, "config"), *path = temp_path("refiner");
    made_file *all = copy_file(f, G_PREFIX);
    graft_clip *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < all->n; i++)
        ((char *)all->tensor[i].name)[strlen("conditioner.embedders.")] = '0';
    write_file(all, path, config);
    graft_safetensors_close(f);
    CHECK_OK(graft_checkpoint_load(engine, path, NULL, NULL, &c, NULL, &e), &e);
    unlink(path);
    return c;
}

/* One encoder, whose prompts are the columns that SDXL has from it, and the same pooled text. */
static void prompts(void)
{
    static const char text[] = "a (red:1.3) apple, on a table";
    graft_clip *base = NULL, *refiner = refiners_clip();
    graft_cond *both = NULL, *one = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(
        graft_checkpoint_load(engine, MODELS "/tiny-sdxl.safetensors", NULL, NULL, &base, NULL, &e),
        &e);
    CHECK_INT(refiner->n_encoders, 1);
    CHECK_STR(graft_clip_encoder_name(base, 1), "clip_g");
    CHECK_OK(graft_clip_encode(base, text, NULL, &both, &e), &e);
    CHECK_OK(graft_clip_encode_refiner(refiner, text, 7.5, 640, 480, NULL, &one, &e), &e);
    const graft_cond_entry *a = both->entry[0], *b = one->entry[0];
    int64_t left = a->width - b->width;
    CHECK(left > 0 && a->tokens == b->tokens && a->pooled_width == b->pooled_width);
    int wrong = 0;
    for (int64_t t = 0; t < b->tokens; t++)
        wrong += memcmp(a->data + t * a->width + left, b->data + t * b->width,
                        (size_t)b->width * sizeof(float)) != 0;
    CHECK_INT(wrong, 0);
    CHECK(memcmp(a->pooled, b->pooled, (size_t)b->pooled_width * sizeof(float)) == 0);
    CHECK(b->has_size && b->size.width == 640 && b->size.height == 480 && b->size.crop_w == 0);
    CHECK(b->has_score && b->score == 7.5 && !a->has_score);
    graft_cond_release(one);
    one = NULL;
    CHECK_INT(graft_clip_encode_refiner(refiner, text, NAN, 8, 8, NULL, &one, &e), GRAFT_E_ARG);
    CHECK_INT(graft_clip_encode_refiner(refiner, text, -1, 8, 8, NULL, &one, &e), GRAFT_E_ARG);
    CHECK(!one);
    graft_cond_release(both);
    graft_clip_release(base);
    graft_clip_release(refiner);
}

/* A prompt of numbers; scores below 0: not said. */
static graft_cond *prompt(const graft_model *m, double score, const graft_sdxl_size *size)
{
    int64_t n = TOKENS * m->arch.context_dim;
    float *data = graft_malloc_array((size_t)n, sizeof *data);
    float *pooled = graft_malloc_array(1280, sizeof *pooled);
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < n; i++) data[i] = fixed_value((uint64_t)i);
    for (int i = 0; i < 1280; i++) pooled[i] = fixed_value(77 + (uint64_t)i);
    CHECK_OK(graft_cond_create(TOKENS, m->arch.context_dim, data, 1280, pooled, size, &out, &e),
             &e);
    out->entry[0]->has_score = score >= 0;
    out->entry[0]->score = score;
    return out;
}

/* y as the UNet has it, against its definition: sines and cosines of falling frequencies. */
static void check_y(const graft_guided *g, const graft_cond *c, bool negative,
                    const double numbers[5])
{
    static float y[2560];
    double worst = 0;
    graft_guided_fill_y(g, c->entry[0], negative, y);
    CHECK(memcmp(y, c->entry[0]->pooled, 1280 * sizeof *y) == 0);
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 128; k++) {
            double angle = numbers[i] * pow(10000, -k / 128.0);
            worst = fmax(worst, fabs(y[1280 + 256 * i + k] - cos(angle)));
            worst = fmax(worst, fabs(y[1280 + 256 * i + 128 + k] - sin(angle)));
        }
    CHECK(worst < 1e-3); /* angles of hundreds in float32 */
}

static void numbers_of_the_unet(void)
{
    static const graft_sdxl_size size = {640, 480, 3, 5, 999, 888};
    graft_model *m = load_model(engine, MODELS "/../diffusion_models/tiny-refiner.safetensors");
    graft_cond *silent = prompt(m, -1, NULL), *told = prompt(m, 7.25, &size);
    graft_sigma_table table;
    graft_guided *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(graft_unet_is_refiner(&m->arch.unet));
    CHECK_INT(graft_unet_family(&m->arch.unet), GRAFT_FAMILY_SDXL);
    CHECK_INT(m->arch.unet.head_dim, 64);
    CHECK_NEAR(m->scale_factor, 0.13025, 1e-9);
    const graft_guided_config k = {.model = m,
                                   .table = &table,
                                   .positive = silent,
                                   .negative = told,
                                   .cfg = 4,
                                   .shape = {1, 4, 8, 16},
                                   .steps = 1};
    graft_model_sigma_table(m, &table);
    CHECK_OK(graft_guided_create(&k, &g, &e), &e);
    check_y(g, silent, false, (const double[]){64, 128, 0, 0, 6});
    check_y(g, silent, true, (const double[]){64, 128, 0, 0, 2.5});
    check_y(g, told, true, (const double[]){480, 640, 5, 3, 7.25});
    graft_guided_destroy(g);
    graft_cond_release(silent);
    graft_cond_release(told);
    graft_model_release(m);
}

static float run(const graft_model *m, double score)
{
    const graft_sample_params p = {.seed = 3,
                                   .add_noise = true,
                                   .steps = 2,
                                   .cfg = 4,
                                   .sampler = "euler",
                                   .scheduler = "normal",
                                   .denoise = 1,
                                   .end_at_step = 10000};
    graft_cond *c = prompt(m, score, NULL), *n = prompt(m, -1, NULL);
    graft_latent *from = NULL, *to = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float first = NAN;
    CHECK_OK(graft_latent_empty(4, 128, 64, 1, &from, &e), &e);
    CHECK_OK(graft_sample(m, &p, c, n, from, NULL, &to, &e), &e);
    if (to) first = graft_latent_data(to, NULL)[0];
    graft_latent_release(from);
    graft_latent_release(to);
    graft_cond_release(c);
    graft_cond_release(n);
    return first;
}

static void the_score_counts(void)
{
    graft_model *m = load_model(engine, MODELS "/../diffusion_models/tiny-refiner.safetensors");
    float plain = run(m, -1), six = run(m, 6), two = run(m, 2);
    CHECK(isfinite(plain) && plain == six && two != six);
    graft_model_release(m);
}

int main(void)
{
    graft_alloc_stats stats;
    engine = make_engine("cpu");
    RUN(prompts);
    RUN(numbers_of_the_unet);
    RUN(the_score_counts);
    graft_engine_destroy(engine);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
