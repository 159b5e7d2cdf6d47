/* Sampling on the CUDA library with the fake driver, steered by pictures: residuals of ControlNets,
 * features of T2I-Adapters, keys and values of IP-Adapters and a hypernetwork's strength are on the
 * device as latents are. Both ways have the same bits, and no step touches the host. */
#include "engine/objects/boxes.h"
#include "engine/objects/sight.h"
#include "tests/cuda/both_ways.h"
#include "tests/cuda/least.h"
#include "tests/engine/t2i_files.h"

#define GOLDEN     GRAFT_SOURCE_DIR "/golden/small/"
#define HYPER      GRAFT_SOURCE_DIR "/golden/hypernetwork/unet.safetensors"
#define HYPER_FILE GRAFT_SOURCE_DIR "/golden/hypernetwork/relu.pt"
#define BOXES      GRAFT_SOURCE_DIR "/golden/gligen/unet.safetensors"
#define BOXES_FILE GRAFT_SOURCE_DIR "/golden/gligen/boxes.safetensors"

static graft_engine *engine;
static char least[256], least_xl[256]; /* files */

typedef struct bench {
    graft_model *m;
    graft_cond *a, *b; /* prompts */
} bench;

static bench begin(const char *file)
{
    engine = engine_in("cuda", "bf16");
    graft_model *m = load_model(engine, file);
    return (bench){m, words(m, WORDS), words(m, WORDS)};
}

static void end(bench *b)
{
    graft_cond_release(b->a);
    graft_cond_release(b->b);
    graft_model_release(b->m);
    graft_engine_destroy(engine);
    engine = NULL;
}

/* What more steps bring to the device and back, where each needs noise. */
static void steps_bring_noise_alone(const job *given)
{
    float out[MOST];
    uint64_t up[2], down[2];
    job j = *given;
    j.p.sampler = "euler_ancestral";
    for (int i = 0; i < 2; i++) {
        j.p.steps = 2 + i;
        sample(&j, NULL, false, out); /* all that is kept is there */
        up[i] = fake->upload_bytes;
        down[i] = fake->download_bytes;
        const size_t n = sample(&j, NULL, false, out);
        up[i] = fake->upload_bytes - up[i] - (uint64_t)i * n * sizeof *out;
        down[i] = fake->download_bytes - down[i];
    }
    CHECK_INT(up[0], up[1]);
    CHECK_INT(down[0], down[1]);
}

/* ------------------------------------------------------------------ ControlNets */

static void controls(void)
{
    for (int xl = 0; xl < 2; xl++) {
        bench b = begin(xl ? least_xl : least);
        steered_prompts s = steered_by(b.m, graft_cond_retain(b.a), graft_cond_retain(b.b), PLACE,
                                       0.0, xl ? 0.4 : 1.0);
        const job plain = job_of(b.m, b.a, b.b, "euler", 3);
        const job j = job_of(b.m, s.with_p, s.with_n, "euler", 3);
        both_ways(&j);
        CHECK(differs(&j, &plain));
        if (!xl) steps_bring_noise_alone(&j);
        steered_release(&s);
        end(&b);
    }
}

/* Two links, one of which ends before the other, on prompts of two lengths. */
static void chains_of_two(void)
{
    bench b = begin(least);
    graft_cond *longer = words(b.m, WORDS + 2), *p = NULL, *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    steered_prompts s = steered_by(b.m, graft_cond_retain(b.a), longer, PLACE, 0.0, 1.0);
    graft_controlnet *net = made_control(b.m, 0.3f);
    const graft_control_options o = {
        .net = net, .hint = s.hint, .strength = 0.5, .start = 0.2, .end = 0.7};
    CHECK_OK(graft_cond_control(s.with_p, s.with_n, &o, &p, &n, &e), &e);
    const job one = job_of(b.m, s.with_p, s.with_n, "euler", 3), j = job_of(b.m, p, n, "euler", 3);
    const job alone = job_of(b.m, s.with_p, b.b, "euler", 3);
    both_ways(&j);
    CHECK(differs(&j, &one));
    both_ways(&alone); /* negative prompts have none, and so a batch of their own */
    graft_cond_release(p);
    graft_cond_release(n);
    graft_controlnet_release(net);
    steered_release(&s);
    end(&b);
}

/* Fast steps take the residuals that a whole one left. */
static void kept_residuals(void)
{
    const graft_deepcache_options o = {
        .cache_interval = 2, .end_step = 1000, .schedule = "uniform"};
    bench b = begin(least);
    graft_model *cached = NULL;
    graft_err e = GRAFT_ERR_INIT;
    steered_prompts s =
        steered_by(b.m, graft_cond_retain(b.a), graft_cond_retain(b.b), PLACE, 0.0, 0.6);
    CHECK_OK(graft_model_deepcache(b.m, &o, &cached, &e), &e);
    const job whole = job_of(b.m, s.with_p, s.with_n, "euler", 4);
    const job j = job_of(cached, s.with_p, s.with_n, "euler", 4);
    both_ways(&j);
    CHECK(differs(&j, &whole));
    graft_model_release(cached);
    steered_release(&s);
    end(&b);
}

/* A prompt for the left half beside the given one, which the caller keeps. */
static graft_cond *half_beside(const graft_cond *c)
{
    static const graft_area left = {0, 0, 0.5, 1, true};
    graft_cond *half = NULL, *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_area(c, &left, 0.7, &half, &e), &e);
    CHECK_OK(graft_cond_combine(half, c, &out, &e), &e);
    graft_cond_release(half);
    return out;
}

/* Prompts for parts of the picture have parts of the hint. */
static void controls_of_parts(void)
{
    bench b = begin(least);
    steered_prompts s = steered_by(b.m, half_beside(b.a), graft_cond_retain(b.b), PLACE, 0.0, 0.6);
    graft_cond *mixed = half_beside(b.a);
    const job plain = job_of(b.m, mixed, b.b, "euler", 3);
    const job j = job_of(b.m, s.with_p, s.with_n, "euler", 3);
    both_ways(&j);
    CHECK(differs(&j, &plain));
    steps_bring_noise_alone(&j);
    graft_cond_release(mixed);
    steered_release(&s);
    end(&b);
}

static void two_pictures(void)
{
    static const int64_t shape[4] = {PICTURES, 4, PLACE, PLACE};
    float data[PICTURES * N];
    bench b = begin(least);
    graft_latent *latent = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < PICTURES * N; i++) data[i] = 3 * fixed_value((uint64_t)i);
    CHECK_OK(graft_latent_from_data(data, shape, &latent, &e), &e);
    steered_prompts s =
        steered_by(b.m, graft_cond_retain(b.a), graft_cond_retain(b.b), PLACE, 0.0, 1.0);
    job j = job_of(b.m, s.with_p, s.with_n, "euler", 2);
    j.latent = latent;
    both_ways(&j);
    graft_latent_release(latent);
    steered_release(&s);
    end(&b);
}

/* A transformer's, whose hint goes through a VAE; SD3's larger one begins with what the network
 * makes of the latent. */
static void transformers(void)
{
    static const char *const names[][2] = {{"control_flux_union", "flux_union"},
                                           {"control_mmdit_large", "mmdit_large"}};
    for (int i = 0; i < 2 - SANITIZED; i++) {
        char file[256], net_file[256];
        snprintf(file, sizeof file, GOLDEN "%s.safetensors", names[i][0]);
        snprintf(net_file, sizeof net_file, GOLDEN "control/%s.safetensors", names[i][1]);
        bench b = begin(file);
        graft_controlnet *net = load_control(engine, net_file);
        graft_image *hint = control_hint(1, 8 * PLACE, 3);
        graft_latent *latent = NULL;
        graft_vae *vae = NULL;
        graft_cond *p = NULL, *n = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_vae_load(engine, GOLDEN "taesd_sd3.safetensors", NULL, &vae, &e), &e);
        CHECK_OK(graft_latent_empty(16, 8 * PLACE, 8 * PLACE, 1, &latent, &e), &e);
        const graft_control_options o = {
            .net = net, .hint = hint, .vae = vae, .strength = 0.7, .end = 0.6};
        CHECK_OK(graft_cond_control(b.a, b.b, &o, &p, &n, &e), &e);
        job plain = job_of(b.m, b.a, b.b, "euler", 2), j = job_of(b.m, p, n, "euler", 2);
        plain.p.scheduler = j.p.scheduler = "simple";
        plain.latent = j.latent = latent;
        both_ways_with(&j, 16 * PLACE * PLACE * sizeof(float)); /* what the VAE made of the hint */
        CHECK(differs(&j, &plain));
        graft_cond_release(p);
        graft_cond_release(n);
        graft_latent_release(latent);
        graft_vae_release(vae);
        graft_image_release(hint);
        graft_controlnet_release(net);
        end(&b);
    }
}

/* Z-Image's are put on the model, and several of version 2.1 run in two stages. */
static void of_models(void)
{
    bench b = begin(GOLDEN "control_zimage_two.safetensors");
    graft_controlnet *net = NULL;
    graft_image *hint = control_hint(1, 8 * PLACE, 3);
    graft_latent *latent = NULL;
    graft_vae *vae = NULL;
    graft_model *one = NULL, *two = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(
        graft_model_patch_load(engine, GOLDEN "control/zimage_two.safetensors", NULL, &net, &e),
        &e);
    CHECK_OK(graft_vae_load(engine, GOLDEN "taesd_sd3.safetensors", NULL, &vae, &e), &e);
    CHECK_OK(graft_latent_empty(16, 8 * PLACE, 8 * PLACE, 1, &latent, &e), &e);
    const graft_model_control_options o = {.net = net, .vae = vae, .hint = hint, .strength = 0.7};
    CHECK_OK(graft_model_control(b.m, &o, &one, &e), &e);
    CHECK_OK(graft_model_control(one, &o, &two, &e), &e);
    job plain = job_of(b.m, b.a, b.b, "euler", 2),
        j = job_of(SANITIZED ? one : two, b.a, b.b, "euler", 2);
    plain.p.scheduler = j.p.scheduler = "simple";
    plain.latent = j.latent = latent;
    both_ways_with(&j, 16 * PLACE * PLACE * sizeof(float));
    CHECK(differs(&j, &plain));
    graft_model_release(one);
    graft_model_release(two);
    graft_latent_release(latent);
    graft_vae_release(vae);
    graft_image_release(hint);
    graft_controlnet_release(net);
    end(&b);
}

/* ------------------------------------------------------------------ T2I-Adapters */

static void adapters(void)
{
    bench b = begin(SD1);
    const char *path = temp_path("adapter.safetensors");
    write_file(make_adapter(&form_sd1), path, NULL);
    graft_controlnet *net = load_control(engine, path);
    graft_image *hint = control_hint(1, 8 * PLACE, 9);
    graft_cond *p = NULL, *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_control_options o = {.net = net, .hint = hint, .strength = 1, .end = 0.5};
    CHECK_OK(graft_cond_control(b.a, b.b, &o, &p, &n, &e), &e);
    const job plain = job_of(b.m, b.a, b.b, "euler", 2), j = job_of(b.m, p, n, "euler", 2);
    both_ways(&j);
    CHECK(differs(&j, &plain));
    if (!SANITIZED) steps_bring_noise_alone(&j);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_controlnet_release(net);
    graft_image_release(hint);
    remove(path);
    end(&b);
}

/* ------------------------------------------------------------------ pictures beside prompts */

/* Keys and values of made-up pictures; mask may be NULL. */
static graft_model *shown(const graft_model *m, graft_image *mask, double end)
{
    graft_crossings crossings;
    graft_sight *sight = NULL;
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_crossings_of(&m->arch.unet, &crossings);
    CHECK_OK(graft_sight_create(&crossings, 2, &sight, &e), &e);
    const int64_t n = 4 * graft_crossings_before(&crossings, crossings.n);
    for (int side = 0; side < GRAFT_SIGHT_SIDES; side++)
        for (int64_t i = 0; i < n; i++)
            sight->data[side][i] = fixed_value((uint64_t)(i + 5000 * side));
    const struct graft_seen what = {.sight = sight, .weight = 0.8, .end = end, .mask = mask};
    CHECK_OK(graft_model_with_sight(m, &what, &out, &e), &e);
    return out;
}

static void pictures_beside_prompts(void)
{
    static const int64_t shape[4] = {1, PLACE, PLACE, 1};
    float half[PLACE * PLACE];
    bench b = begin(least);
    graft_image *mask = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < PLACE * PLACE; i++) half[i] = i % PLACE < PLACE / 2 ? 1.0f : 0.25f;
    CHECK_OK(graft_image_from_data(half, shape, true, &mask, &e), &e);
    graft_model *m = shown(b.m, NULL, 0.5), *masked = shown(m, mask, 1);
    const job plain = job_of(b.m, b.a, b.b, "euler", 3), one = job_of(m, b.a, b.b, "euler", 3);
    job j = job_of(masked, b.a, b.b, "euler", 3);
    both_ways(&one);
    both_ways(&j);
    CHECK(differs(&one, &plain));
    CHECK(differs(&j, &one));
    steps_bring_noise_alone(&j);
    graft_cond *longer = words(b.m, WORDS + 2); /* batches take turns */
    j = job_of(masked, longer, b.b, "euler", 2);
    both_ways(&j);
    graft_cond_release(longer);
    graft_cond *parts = half_beside(b.a);
    j = job_of(masked, parts, b.b, "euler", 2);
    both_ways(&j);
    graft_cond_release(parts);
    graft_model_release(masked);
    graft_model_release(m);
    graft_image_release(mask);
    end(&b);
}

/* ------------------------------------------------------------------ hypernetworks */

static void hypernetworks(void)
{
    bench b = begin(HYPER);
    char path[256];
    graft_convert_info info;
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(path, sizeof path, "%s", temp_path("hypernetwork.safetensors"));
    CHECK_OK(graft_checkpoint_convert(HYPER_FILE, path, &info, &e), &e);
    CHECK_OK(graft_model_hypernetwork(b.m, path, 0.75, NULL, &m, &e), &e);
    const job plain = job_of(b.m, b.a, b.b, "euler", 2), j = job_of(m, b.a, b.b, "euler", 2);
    both_ways(&j);
    CHECK(differs(&j, &plain));
    graft_model_release(m);
    remove(path);
    end(&b);
}

/* ------------------------------------------------------------------ texts in boxes */

/* The prompts, with a text in a box. */
static graft_cond *boxed(const graft_cond *c, graft_gligen *g, float first)
{
    float text[24] = {first, -first, 0.5f * first};
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(g->arch.text, 24);
    CHECK_OK(graft_cond_with_box(c, g, &(graft_area){0, 0.25, 0.5, 0.5, true}, text, &out, &e), &e);
    return out;
}

static void texts_in_boxes(void)
{
    bench b = begin(BOXES);
    graft_gligen *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_gligen_load(engine, BOXES_FILE, NULL, &g, &e), &e);
    graft_cond *p = boxed(b.a, g, 1), *early = NULL, *longer = words(b.m, WORDS + 2), *q;
    const job plain = job_of(b.m, b.a, b.b, "euler", 3);
    job j = job_of(b.m, p, b.b, "euler", 3);
    const uint64_t tokens = GRAFT_GLIGEN_TOKENS * (uint64_t)g->arch.width * sizeof(float);
    both_ways_with(&j, 2 * tokens); /* of each prompt, once */
    CHECK(differs(&j, &plain));
    steps_bring_noise_alone(&j);
    q = boxed(longer, g, -2); /* batches take turns */
    j = job_of(b.m, p, q, "euler", 2);
    both_ways_with(&j, 2 * tokens);
    CHECK_OK(graft_cond_timestep_range(p, 0, 0.4, &early, &e), &e);
    graft_cond *parts = half_beside(early);
    j = job_of(b.m, parts, b.b, "euler", 3);
    both_ways_with(&j, (parts->n + 2) * tokens); /* the negative one is seen in both sizes */
    graft_cond *const all[] = {p, early, longer, q, parts};
    for (int i = 0; i < 5; i++) graft_cond_release(all[i]);
    graft_gligen_release(g);
    end(&b);
}

/* ------------------------------------------------------------------ too little of something */

static void no_room(void)
{
    bench b = begin(least);
    graft_model *m = shown(b.m, NULL, 1);
    steered_prompts s = steered_by(m, half_beside(b.a), graft_cond_retain(b.b), PLACE, 0.0, 1.0);
    const job j = job_of(m, s.with_p, s.with_n, "euler", 2);
    with_little(&j);
    steered_release(&s);
    graft_model_release(m);
    end(&b);
}

int main(void)
{
    if (!open_fake()) return test_end();
    snprintf(least, sizeof least, "%s", temp_path("least.safetensors"));
    snprintf(least_xl, sizeof least_xl, "%s", temp_path("least-xl.safetensors"));
    write_least(least, 0);
    write_least(least_xl, 40);
    RUN(controls);
    RUN(chains_of_two);
    RUN(kept_residuals);
    RUN(controls_of_parts);
    RUN(two_pictures);
    RUN(transformers);
    RUN(of_models);
    RUN(adapters);
    RUN(pictures_beside_prompts);
    RUN(hypernetworks);
    RUN(texts_in_boxes);
    RUN(no_room);
    remove(least);
    remove(least_xl);
    return close_fake();
}
