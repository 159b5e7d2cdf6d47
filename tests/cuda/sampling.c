/* Sampling on the CUDA library with the fake driver: latents that stay on the device give the bits
 * that the host's way gives, and no step touches the host. */
#include "base/alloc.h"
#include "engine/api/sample.h"
#include "engine/sampling/sampler.h"
#include "tests/cuda/networks.h"
#include "tests/engine/sample.h"

#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1, MANY = 3 }; /* the emulator is ten times slower under it */
#else
enum { SANITIZED = 0, MANY = 5 };
#endif

static graft_status look_on(void *ctx, const graft_guided_call *call, graft_err *e)
{
    (void)call, (void)e;
    ++*(int *)ctx;
    return GRAFT_OK;
}

/* tapped: someone looks on, so the latents come to the host. */
static void sample(const graft_model *m, const graft_sample_params *p, const graft_cond *positive,
                   const graft_cond *negative, const graft_task *task, bool tapped, float *out)
{
    graft_latent *from = NULL, *to = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int calls = 0;
    int64_t shape[4];
    const graft_guided_tap tap = {&calls, look_on};
    CHECK_OK(graft_latent_empty(8 * SIDE, 8 * SIDE, 1, &from, &e), &e);
    CHECK_OK(
        graft_sample_tapped(m, p, positive, negative, from, task, tapped ? &tap : NULL, &to, &e),
        &e);
    CHECK(!tapped || calls > 0);
    if (to) memcpy(out, graft_latent_data(to, shape), OUT * sizeof *out);
    graft_latent_release(from);
    graft_latent_release(to);
}

static graft_sample_params params(const char *sampler, int64_t steps, double cfg)
{
    return (graft_sample_params){.seed = 7,
                                 .add_noise = true,
                                 .steps = steps,
                                 .cfg = cfg,
                                 .sampler = sampler,
                                 .scheduler = "karras",
                                 .denoise = 1.0,
                                 .end_at_step = 10000};
}

/* Both ways with these; returns the bytes that the device's way brought to the host. */
static uint64_t both_ways(const graft_model *m, const graft_sample_params *p,
                          const graft_cond *positive, const graft_cond *negative)
{
    float host[OUT], device[OUT];
    int failures = test_failures;
    sample(m, p, positive, negative, NULL, true, host);
    uint64_t before = fake->download_bytes;
    sample(m, p, positive, negative, NULL, false, device);
    before = fake->download_bytes - before;
    CHECK(same_bits(host, device));
    CHECK(host[0] == host[0]);
    if (test_failures != failures) fprintf(stderr, "  with %s\n", p->sampler);
    return before;
}

/* All of them take minutes in the emulator: those that use different sums, and one that must not
 * be there. */
static bool is_tried(const char *name)
{
    static const char *const few[] = {"euler", "dpmpp_2m", "uni_pc", "euler_ancestral"};
    const char *all = getenv("GRAFT_TEST_CUDA");
    if (SANITIZED) return strcmp(name, "dpmpp_2m") == 0;
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        if (strcmp(name, few[i]) == 0) return true;
    return all && strcmp(all, "all") == 0 && graft_sampler_anywhere(name);
}

static void bits_of_the_host(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1);
    graft_cond *cond = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t resident = 0;
    CHECK_OK(sample_cond(m, &cond, &e), &e);
    for (const char *const *name = graft_sampler_list(); *name; name++) {
        bool anywhere = graft_sampler_anywhere(*name);
        resident += anywhere;
        if (!is_tried(*name)) continue;
        graft_sample_params p = params(*name, SANITIZED ? 2 : 3, 4.0);
        uint64_t bytes = both_ways(m, &p, cond, cond);
        CHECK(anywhere == (bytes == OUT * sizeof(float)));
    }
    CHECK_INT(resident, 14);
    printf("     %zu samplers stay on the device\n", resident);
    graft_cond_release(cond);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* Kinds of prediction, guidance of 1, several prompts with ranges, SDXL's y. */
static void all_that_guides(void)
{
    static const char *const kinds[] = {"eps", "v_prediction", "x0", "lcm"};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1), *other = NULL;
    graft_cond *cond = NULL, *early = NULL, *two = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(sample_cond(m, &cond, &e), &e);
    for (int i = SANITIZED ? 3 : 0; i < 4; i++) {
        CHECK_OK(graft_model_sampling(m, kinds[i], false, &other, &e), &e);
        graft_sample_params p = params("dpmpp_2m", 2, 4.0);
        CHECK_INT(both_ways(other, &p, cond, cond), OUT * sizeof(float));
        graft_model_release(other);
    }
    graft_sample_params p = params("euler", 2, 1.0);
    if (!SANITIZED) CHECK_INT(both_ways(m, &p, cond, cond), OUT * sizeof(float));
    CHECK_OK(graft_cond_timestep_range(cond, 0.0, 0.5, &early, &e), &e);
    CHECK_OK(graft_cond_combine(cond, early, &two, &e), &e);
    p.cfg = 3.0;
    if (!SANITIZED) CHECK_INT(both_ways(m, &p, two, cond), OUT * sizeof(float));
    CHECK_INT(both_ways(m, &p, early, early), OUT * sizeof(float)); /* later steps have none */
    graft_cond_release(two);
    graft_cond_release(early);
    graft_cond_release(cond);
    graft_model_release(m);
    if (!SANITIZED) {
        m = load_model(g, SDXL);
        CHECK_OK(sample_cond(m, &cond, &e), &e);
        CHECK_INT(both_ways(m, &p, cond, cond), OUT * sizeof(float));
        graft_cond_release(cond);
        graft_model_release(m);
    }
    graft_engine_destroy(g);
}

typedef struct seen {
    uint64_t previews, steps, last, total;
    uint64_t sum; /* of the previews' colours */
} seen;

static void on_preview(void *ctx, const uint8_t *rgb, int width, int height)
{
    seen *s = ctx;
    s->previews++;
    CHECK_INT(width, SIDE);
    CHECK_INT(height, SIDE);
    for (int i = 0; i < 3 * width * height; i++) s->sum = s->sum * 31 + rgb[i];
}

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    seen *s = ctx;
    s->steps++;
    CHECK_INT(done, s->last + 1);
    s->last = done;
    s->total = total;
}

static fake_cuda_state counted(const graft_model *m, const graft_cond *cond, int64_t steps,
                               const graft_task *task)
{
    fake_cuda_state before = *fake, after;
    graft_sample_params p = params("dpmpp_2m", steps, 4.0);
    float out[OUT];
    sample(m, &p, cond, cond, task, false, out);
    after = *fake;
    after.uploads -= before.uploads;
    after.upload_bytes -= before.upload_bytes;
    after.downloads -= before.downloads;
    after.waits -= before.waits;
    after.event_waits -= before.event_waits;
    after.allocs -= before.allocs;
    after.captures -= before.captures;
    after.replays -= before.replays;
    return after;
}

/* More steps, and nothing more to or from the host, but previews where they are wanted. */
static void steps_stay_on_the_device(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1);
    graft_cond *cond = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(sample_cond(m, &cond, &e), &e);
    seen s = {0};
    const graft_task plain = {0},
                     watched = {.ctx = &s, .progress = on_progress, .preview = on_preview};
    counted(m, cond, 3, &plain); /* recorded, and all that is kept is there */
    for (int with = SANITIZED; with < 2; with++) {
        const graft_task *task = with ? &watched : &plain;
        s = (seen){0};
        fake_cuda_state few = counted(m, cond, 2, task);
        s = (seen){0};
        fake_cuda_state many = counted(m, cond, MANY, task);
        CHECK_INT(many.uploads, few.uploads);
        CHECK_INT(many.upload_bytes, few.upload_bytes);
        CHECK_INT(many.downloads, few.downloads + (with ? MANY - 2 : 0));
        CHECK_INT(many.waits, few.waits);
        CHECK(many.event_waits <= few.event_waits + 2 * (MANY - 2)); /* of the step before last */
        CHECK_INT(many.allocs, few.allocs);
        CHECK_INT(many.captures, 0);
        CHECK_INT(many.replays, MANY);
        if (with) {
            CHECK_INT(s.previews, MANY);
            CHECK_INT(s.steps, MANY);
            CHECK_INT(s.total, MANY);
        }
        printf("     %d steps%s: %llu copies to the device, %llu back, %llu waits for all work\n",
               MANY, with ? " and previews" : "", (unsigned long long)many.uploads,
               (unsigned long long)many.downloads, (unsigned long long)many.waits);
    }
    uint64_t colours = s.sum;
    s = (seen){0};
    float out[OUT];
    graft_sample_params p = params("dpmpp_2m", MANY, 4.0);
    sample(m, &p, cond, cond, &watched, true, out);
    CHECK_INT(s.previews, MANY);
    CHECK(s.sum == colours);
    graft_cond_release(cond);
    graft_model_release(m);
    graft_engine_destroy(g);
}

static bool cancel_third(void *ctx)
{
    return ++*(int *)ctx > 3;
}

/* A run that ends in its middle, and a device that is lost while steps are under way. */
static void ends_early(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1);
    graft_cond *cond = NULL;
    graft_latent *from = NULL, *to = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT], again[OUT];
    graft_sample_params p = params("euler", 4, 4.0);
    CHECK_OK(sample_cond(m, &cond, &e), &e);
    for (int i = SANITIZED; i < 2; i++) sample(m, &p, cond, cond, NULL, false, out);
    CHECK_OK(graft_latent_empty(8 * SIDE, 8 * SIDE, 1, &from, &e), &e);
    int asked = 0;
    const graft_task task = {.ctx = &asked, .cancelled = cancel_third};
    int64_t blocks = fake->live_blocks;
    CHECK_INT(graft_sample(m, &p, cond, cond, from, &task, &to, &e), GRAFT_E_CANCEL);
    CHECK_INT(fake->live_blocks, blocks);
    sample(m, &p, cond, cond, NULL, false, again);
    CHECK(same_bits(out, again));
    fake->fail_event = 3;
    CHECK_INT(graft_sample(m, &p, cond, cond, from, NULL, &to, &e), GRAFT_E_DEVICE);
    CHECK(strstr(e.text, "CUDA_ERROR_FAKE") != NULL);
    if (!strstr(e.text, "CUDA_ERROR_FAKE")) fprintf(stderr, "  it says: %s\n", e.text);
    uint64_t launches = fake->launches;
    CHECK_INT(graft_sample(m, &p, cond, cond, from, NULL, &to, &e), GRAFT_E_DEVICE);
    CHECK_INT(fake->launches, launches);
    graft_latent_release(from);
    graft_cond_release(cond);
    graft_model_release(m);
    graft_engine_destroy(g);
}

int main(void)
{
    if (!open_fake()) return test_end();
    RUN(bits_of_the_host);
    RUN(all_that_guides);
    RUN(steps_stay_on_the_device);
    RUN(ends_early);
    return close_fake();
}
