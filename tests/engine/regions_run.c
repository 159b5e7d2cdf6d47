/* Areas and masks of prompts beside all else that sampling does: batches, ControlNets, DeepCache,
 * quantizing, compiling ahead, limits of memory, masks of latents, and ways to end. What their
 * values are is regions.c's. */
#include "base/size.h"
#include "engine/denoise/bound.h"
#include "engine/denoise/guided.h"
#include "tests/engine/control.h"
#include "tests/engine/regions.h"

static graft_engine *engine;
static graft_model *model;
static graft_cond *none;

enum { H = 12, W = 16, N = 4 * H * W, SMALL = 4 * 8 * 8 };

static graft_cond *prompt(uint64_t seed)
{
    return place_prompt(model, seed, TOKENS);
}

/* A background, and things on it: two areas of one size and one of another. */
static graft_cond *scene(void)
{
    graft_cond *c = both(prompt(1), in_cells(prompt(2), 1, 2, 6, 7, 2));
    c = both(c, in_cells(prompt(3), 5, 8, 6, 7, 1));
    return both(c, in_cells(prompt(4), 2, 10, 3, 5, 0.5));
}

typedef struct run_of {
    const graft_model *model;
    const graft_cond *positive, *negative;
    int64_t steps;
    double cfg;
    const char *sampler;
    const graft_latent *latent; /* NULL: empty, one picture */
    graft_task *task;
} run_of;

static graft_status try_run(const run_of *r, float *out, graft_err *e)
{
    const graft_sample_params params = {.seed = 5,
                                        .add_noise = true,
                                        .steps = r->steps,
                                        .cfg = r->cfg,
                                        .sampler = r->sampler,
                                        .scheduler = "normal",
                                        .denoise = 1.0,
                                        .end_at_step = 10000};
    graft_latent *from = NULL, *to = NULL;
    int64_t shape[4];
    graft_status st = graft_latent_empty(4, 8 * W, 8 * H, 1, &from, e);
    if (!st)
        st = graft_sample(r->model, &params, r->positive, r->negative, r->latent ? r->latent : from,
                          r->task, &to, e);
    if (!st && out) {
        const float *data = graft_latent_data(to, shape);
        memcpy(out, data, N * sizeof *out);
    }
    graft_latent_release(from);
    graft_latent_release(to);
    return st;
}

static void run(const run_of *r, float *out)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(try_run(r, out, &e), &e);
}

static bool all_finite(const float *v)
{
    for (int i = 0; i < N; i++)
        if (!isfinite(v[i])) return false;
    return true;
}

/* ------------------------------------------------------------------ whole runs */

/* No bit of a whole run changes when a prompt's area is the picture, with any kind of sampler. */
static void whole_runs(void)
{
    static const char *const names[] = {"euler", "euler_cfg_pp", "dpmpp_2m_sde", "heun"};
    float plain[N], now[N];
    graft_cond *p = prompt(1),
               *q = in_area(graft_cond_retain(p), (graft_area){0, 0, 1, 1, true}, 1);
    for (int i = 0; i < 4; i++) {
        run_of r = {model, p, none, 3, 4, names[i], NULL, NULL};
        run(&r, plain);
        r.positive = q;
        run(&r, now);
        CHECK(memcmp(plain, now, sizeof now) == 0);
    }
    graft_cond_release(p);
    graft_cond_release(q);
}

/* Guidance of 1, samplers that ask for the negative prediction, a range, rescaled guidance. */
static void other_ways(void)
{
    float now[N], other[N];
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *s = scene(), *late = NULL, *area = in_cells(prompt(2), 0, 0, 6, 6, 5),
               *p = prompt(1);
    graft_model *rescaled = NULL;
    CHECK_OK(graft_model_rescale_cfg(model, 0.7, &rescaled, &e), &e);
    CHECK_OK(graft_cond_timestep_range(area, 0.5, 1, &late, &e), &e);
    late = both(graft_cond_retain(p), late);
    static const struct {
        const char *sampler;
        double cfg;
    } ways[] = {{"euler", 1}, {"euler_cfg_pp", 1}, {"dpmpp_sde", 3}};
    for (int i = 0; i < 3; i++) {
        run_of r = {model, s, none, 3, ways[i].cfg, ways[i].sampler, NULL, NULL};
        run(&r, now);
        CHECK(all_finite(now));
        r.positive = p;
        run(&r, other);
        CHECK(difference(now, other, N) > 1e-3);
    }
    run_of r = {rescaled, s, none, 3, 5, "euler", NULL, NULL};
    run(&r, now);
    r.model = model;
    run(&r, other);
    CHECK(all_finite(now) && difference(now, other, N) > 1e-3);
    /* An area that counts from the middle on changes the second half only. */
    r = (run_of){model, late, none, 4, 4, "euler", NULL, NULL};
    run(&r, now);
    r.positive = p;
    run(&r, other);
    CHECK(difference(now, other, N) > 1e-4);
    graft_cond_release(late);
    graft_cond_release(s);
    graft_cond_release(area);
    graft_cond_release(p);
    graft_model_release(rescaled);
}

/* What a latent's mask keeps stays, whatever prompts lie there. */
static void inpainting(void)
{
    float v[N], now[N];
    const int64_t shape[4] = {1, 4, H, W};
    graft_latent *plain = NULL, *latent = NULL;
    graft_image *mask = columns(H, W, 0, 8);
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < N; i++) v[i] = fixed_value((uint64_t)i + 5);
    CHECK_OK(graft_latent_from_data(v, shape, &plain, &e), &e);
    CHECK_OK(graft_latent_set_mask(plain, mask, &latent, &e), &e);
    graft_cond *s = scene();
    run_of r = {model, s, none, 3, 4, "euler", latent, NULL};
    run(&r, now);
    for (int i = 0; i < N; i++) CHECK(i % W < 8 ? isfinite(now[i]) : fabsf(now[i] - v[i]) < 1e-4f);
    CHECK(fabsf(now[0] - v[0]) > 1e-3f);
    graft_cond_release(s);
    graft_latent_release(plain);
    graft_latent_release(latent);
    graft_image_release(mask);
}

/* ------------------------------------------------------------------ batches */

typedef struct seen {
    size_t n;
    struct {
        graft_variant variant;
        int64_t height, width;
        size_t entries;
    } call[16];
} seen;

static graft_status look_on(void *ctx, const graft_guided_call *call, graft_err *e)
{
    seen *s = ctx;
    (void)e;
    if (s->n < 16) {
        s->call[s->n].variant = call->variant;
        s->call[s->n].height = call->height;
        s->call[s->n].width = call->width;
        s->call[s->n].entries = call->entries;
    }
    s->n++;
    return GRAFT_OK;
}

static one_call call_of(const graft_model *m, const graft_cond *positive, seen *s,
                        graft_guided_tap *tap)
{
    *tap = (graft_guided_tap){s, look_on};
    return (one_call){m, positive, none, 3.0, {1, 4, H, W}, tap, NULL, 0};
}

/* Parts of one size share a batch, wherever they are. */
static void parts_share_batches(void)
{
    static const struct {
        int64_t height, width;
        size_t entries;
    } want[] = {{H, W, 2}, {6, 7, 2}, {3, 5, 1}};
    float now[N];
    seen s = {0};
    graft_guided_tap tap;
    graft_cond *c = scene();
    one_call k = call_of(model, c, &s, &tap);
    denoise(&k, now);
    CHECK_INT(s.n, 3);
    for (size_t i = 0; i < 3; i++) {
        CHECK_INT(s.call[i].height, want[i].height);
        CHECK_INT(s.call[i].width, want[i].width);
        CHECK_INT(s.call[i].entries, want[i].entries);
    }
    graft_cond_release(c);
}

/* More areas than one batch takes, and than one run holds shapes of. */
static void many_areas(void)
{
    float now[N], plain[N];
    seen s = {0};
    graft_guided_tap tap;
    graft_cond *c = prompt(1), *p = prompt(2);
    for (int i = 0; i < 70; i++) c = both(c, in_cells(graft_cond_retain(p), i % H, i % W, 1, 1, 1));
    one_call k = call_of(model, c, &s, &tap);
    denoise(&k, now);
    CHECK_INT(s.n, 3);
    CHECK_INT(s.call[1].entries, 64);
    CHECK_INT(s.call[2].entries, 6);
    graft_cond_release(c);
    c = prompt(1);
    k.positive = c;
    denoise(&k, plain);
    for (int i = 0; i < 20; i++)
        c = both(c, in_cells(graft_cond_retain(p), 0, 0, 1 + i % 4, 1 + i / 4, 1e-9));
    k.positive = c;
    k.calls = 2;
    s.n = 0;
    denoise(&k, now);
    CHECK_INT(s.n, 2 * 21);
    CHECK(difference(now, plain, N) < 1e-5);
    graft_cond_release(c);
    graft_cond_release(p);
}

/* ------------------------------------------------------------------ DeepCache */

static graft_model *with_cache(bool outermost, double max_error)
{
    const graft_deepcache_options o = {3, 0, 0, 0, 1000, "uniform", max_error, outermost};
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_deepcache(model, &o, &out, &e), &e);
    return out;
}

/* A fast step at the state of the whole one before it gives the same: each area takes its own
 * feature. */
static void deepcache(void)
{
    float want[N], now[N];
    graft_cond *c = scene();
    for (int i = 0; i < 3; i++) {
        graft_model *m = with_cache(i == 1, i == 2 ? 0.5 : 0);
        seen s = {0};
        graft_guided_tap tap;
        one_call k = call_of(model, c, &s, &tap);
        denoise(&k, want);
        k.model = m;
        k.calls = 2;
        s.n = 0;
        denoise(&k, now);
        CHECK_INT(s.n, 6);
        for (size_t n = 0; n < 6; n++)
            CHECK_INT(s.call[n].variant, n < 3 ? GRAFT_STORE : GRAFT_FAST);
        CHECK(difference(now, want, N) < 1e-4);
        run_of r = {m, c, none, 6, 4, "euler", NULL, NULL};
        run(&r, now);
        CHECK(all_finite(now));
        graft_model_release(m);
    }
    graft_cond_release(c);
}

/* ------------------------------------------------------------------ ControlNets */

static graft_image *cut_image(const graft_image *from, int64_t y, int64_t x, int64_t h, int64_t w)
{
    int64_t shape[4];
    const float *v = graft_image_data(from, shape);
    float *part = calloc((size_t)(h * w * 3), sizeof *part);
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t r = 0; r < h; r++)
        memcpy(part + r * w * 3, v + ((y + r) * shape[2] + x) * 3, (size_t)(w * 3) * sizeof *v);
    CHECK_OK(graft_image_from_data(part, (int64_t[]){1, h, w, 3}, false, &out, &e), &e);
    free(part);
    return out;
}

static graft_cond *steered(graft_cond *c, const graft_controlnet *net, const graft_image *hint)
{
    const graft_control_options o = {.net = net, .hint = hint, .strength = 1, .end = 1};
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_control(c, NULL, &o, &out, NULL, &e), &e);
    graft_cond_release(c);
    return out;
}

/* An area's hint is its part of the picture: two areas with one ControlNet, against two latents of
 * their size with the hint cut out here. */
static void controlnets(void)
{
    enum { Y = 2, X = 3, LOW = 4, RIGHT = 8 };
    float now[N], x[N], part[SMALL], d[2][SMALL], in[SMALL], bare[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_controlnet *net = made_control(model, 1);
    graft_image *big = control_hint(1, 16 * 8, 3), *hint = cut_image(big, 0, 0, 8 * H, 8 * W);
    const int at[2][2] = {{Y, X}, {LOW, RIGHT}};
    graft_cond *all = NULL;
    one_call whole = {model, NULL, none, 1.0, {1, 4, H, W}, NULL, NULL, 0};
    noise_of(&whole, x);
    for (int i = 0; i < 2; i++) {
        graft_image *own = cut_image(hint, 8 * at[i][0], 8 * at[i][1], 64, 64);
        graft_cond *k = steered(prompt(7), net, own), *plain = prompt(7);
        one_call c = {model, k, none, 1.0, {1, 4, 8, 8}, NULL, NULL, 0};
        part_of(&whole, x, at[i][0], at[i][1], 8, 8, part);
        CHECK_OK(try_denoise(&c, part, d[i], &e), &e);
        c.positive = plain;
        CHECK_OK(try_denoise(&c, part, bare, &e), &e);
        CHECK(difference(d[i], bare, SMALL) > 1e-3);
        graft_cond_release(k);
        graft_cond_release(plain);
        graft_image_release(own);
    }
    graft_cond *k = steered(prompt(7), net, hint);
    all = in_cells(graft_cond_retain(k), Y, X, 8, 8, 1e6);
    all = both(all, in_cells(k, LOW, RIGHT, 8, 8, 1));
    for (int cached = 0; cached < 2; cached++) {
        graft_model *m = cached ? with_cache(false, 0) : graft_model_retain(model);
        whole.model = m;
        whole.positive = all;
        whole.calls = 1 + cached; /* the second one is fast */
        denoise(&whole, now);
        part_of(&whole, now, Y, X, 8, 8, in);
        CHECK(difference(in, d[0], SMALL) < 1e-4);
        for (int i = 0; i < SMALL; i++) { /* of the other, what the first does not cover */
            int row = i / 8 % 8, column = i % 8, plane = i / 64;
            if (LOW + row < Y + 8 && RIGHT + column < X + 8) continue;
            CHECK_NEAR(now[(plane * H + LOW + row) * W + RIGHT + column], d[1][i], 2e-4);
        }
        graft_model_release(m);
    }
    graft_cond_release(all);
    graft_image_release(big);
    graft_image_release(hint);
    graft_controlnet_release(net);
}

/* ------------------------------------------------------------------ compiling */

/* compile_only makes all that the run then needs: whole and parts, early and late. */
static void ahead_of_time(bool cached, bool controlled)
{
    graft_compiled_stats before, after;
    graft_task task = {.compile_only = true};
    graft_model *old = model, *m = NULL;
    graft_engine *fresh = make_engine("cpu");
    graft_err e = GRAFT_ERR_INIT;
    float now[N];
    model = load_model(fresh, SD1);
    m = cached ? with_cache(false, 0) : graft_model_retain(model);
    graft_cond *area = in_cells(prompt(5), 3, 3, 4, 4, 1), *late = NULL;
    graft_image *hint = control_hint(1, 64, 3), *black = columns(H, W, 0, 0);
    graft_controlnet *net = made_control(model, 1);
    if (controlled) area = steered(area, net, hint);
    CHECK_OK(graft_cond_timestep_range(area, 0.5, 1, &late, &e), &e);
    graft_cond *c = both(scene(), late);
    c = both(c, masked(in_cells(prompt(6), 0, 0, 2, 2, 1), black, 1, false)); /* never needed */
    run_of r = {m, c, none, 4, 4, "euler", NULL, &task};
    run(&r, now);
    graft_compiled_stats_get(fresh->compiled, &before);
    r.task = NULL;
    run(&r, now);
    graft_compiled_stats_get(fresh->compiled, &after);
    CHECK(before.built >= 4);
    CHECK_INT(after.built, before.built);
    graft_cond_release(c);
    graft_cond_release(area);
    graft_image_release(hint);
    graft_image_release(black);
    graft_controlnet_release(net);
    graft_model_release(m);
    graft_model_release(model);
    model = old;
    graft_engine_destroy(fresh);
}

/* A prompt that begins in a fast step of DeepCache, where the others go on, is a batch of its own;
 * so is one whose ControlNet ends there. */
static void ahead_of_changes(double at, bool controlled)
{
    graft_compiled_stats before, after;
    graft_task task = {.compile_only = true};
    graft_model *old = model;
    graft_engine *fresh = make_engine("cpu");
    graft_err e = GRAFT_ERR_INIT;
    float now[N];
    model = load_model(fresh, SD1);
    graft_model *m = with_cache(false, 0);
    graft_controlnet *net = made_control(model, 1);
    graft_image *hint = control_hint(1, 64, 3);
    const graft_control_options o = {.net = net, .hint = hint, .strength = 1, .end = at};
    graft_cond *one = prompt(1), *changing = NULL;
    graft_status st = controlled ? graft_cond_control(one, NULL, &o, &changing, NULL, &e)
                                 : graft_cond_timestep_range(one, at, 1, &changing, &e);
    CHECK_OK(st, &e);
    graft_cond *c = both(prompt(2), changing);
    run_of r = {m, c, none, 6, 4, "euler", NULL, &task};
    run(&r, now);
    graft_compiled_stats_get(fresh->compiled, &before);
    r.task = NULL;
    run(&r, now);
    graft_compiled_stats_get(fresh->compiled, &after);
    CHECK(before.built > 0);
    CHECK_INT(after.built, before.built);
    graft_cond_release(c);
    graft_cond_release(one);
    graft_image_release(hint);
    graft_controlnet_release(net);
    graft_model_release(m);
    graft_model_release(model);
    model = old;
    graft_engine_destroy(fresh);
}

static void compiled_ahead(void)
{
    ahead_of_time(false, false);
    ahead_of_time(true, false);
    ahead_of_time(false, true);
    for (int i = 1; i < 6; i++) {
        ahead_of_changes(0.15 * i, false);
        ahead_of_changes(0.15 * i, true);
    }
}

/* The number that a message about memory names. */
static int64_t promised(const char *text)
{
    static const char *const before[] = {"the model needs ", "would do is "};
    for (int i = 0; i < 2; i++) {
        const char *number = strstr(text, before[i]);
        if (number) return strtoll(number + strlen(before[i]), NULL, 10);
    }
    return 0;
}

/* max_memory_mb holds for all sizes of a run together, compiling ahead says the same, and the
 * number that is named does. */
static void limits_of_memory(void)
{
    float now[N], want[N];
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *c = scene();
    graft_task ahead = {.compile_only = true};
    int64_t told = 0, last = 0;
    run_of r = {model, c, none, 2, 4, "euler", NULL, NULL};
    run(&r, want);
    for (int64_t mib = 1; mib < 200; mib = next_limit(mib, told)) {
        graft_model *m = NULL;
        graft_compile_options o = {.precision = "f32", .tuning = "off", .max_memory_mb = mib};
        CHECK_OK(graft_model_compile(model, &o, NULL, &m, &e), &e);
        r.model = m;
        r.task = &ahead;
        graft_status first = try_run(&r, NULL, &e);
        r.task = NULL;
        graft_status st = try_run(&r, now, &e);
        CHECK_INT(first, st);
        graft_model_release(m);
        last = mib;
        if (!st) break;
        CHECK_INT(st, GRAFT_E_LIMIT);
        told = promised(e.text);
        CHECK(told > mib);
    }
    CHECK(memcmp(now, want, sizeof now) == 0);
    CHECK(last > 1);
    CHECK_INT(told, last);
    graft_cond_release(c);
}

/* What UNets share counts once, and what they do not counts together. */
static void weights_count_once(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *other = load_model(engine, SD2), *tight = NULL;
    graft_binding *b[4];
    CHECK_OK(graft_model_bind(model, 1, H, W, TOKENS, NULL, &b[0], &e), &e);
    CHECK_OK(graft_model_bind(model, 1, H, W, TOKENS, NULL, &b[1], &e), &e);
    CHECK_OK(graft_model_bind(model, 2, 3, 5, TOKENS, NULL, &b[2], &e), &e);
    CHECK_OK(graft_model_bind(other, 1, H, W, TOKENS, NULL, &b[3], &e), &e);
    uint64_t one = b[0]->exe->weight_bytes, two = b[3]->exe->weight_bytes;
    CHECK_INT(graft_bindings_bytes(b, 0), 0);
    CHECK_INT(graft_bindings_bytes(b, 1), one);
    CHECK_INT(graft_bindings_bytes(b, 2), one);
    CHECK(graft_bindings_bytes(b, 3) >= one && graft_bindings_bytes(b, 3) < 2 * one);
    CHECK_INT(graft_bindings_bytes(b, 4) - graft_bindings_bytes(b, 3), two);
    int64_t most = 0;
    for (int i = 0; i < 4; i++)
        if (b[i]->exe->arena_bytes > most) most = b[i]->exe->arena_bytes;
    int64_t need = (int64_t)graft_size_mib(graft_bindings_bytes(b, 4) + (uint64_t)most);
    for (int i = 0; i < 2; i++) {
        graft_compile_options o = {
            .precision = "f32", .tuning = "off", .max_memory_mb = need - 1 + i};
        CHECK_OK(graft_model_compile(model, &o, NULL, &tight, &e), &e);
        CHECK_INT(graft_unets_room(tight, b, 4, 0, 0, &e), i ? GRAFT_OK : GRAFT_E_LIMIT);
        if (!i) CHECK_INT(promised(e.text), need);
        if (!i) CHECK(strstr(e.text, "prompts' areas") != NULL);
        CHECK_INT(graft_unets_room(tight, b, 4, 2 << 20, 0, &e), GRAFT_E_LIMIT);
        graft_model_release(tight);
    }
    for (int i = 0; i < 4; i++) graft_binding_release(b[i]);
    graft_model_release(other);
}

/* GRAFT_MEMORY_MB does for the engine. */
static void memory_of_the_engine(void)
{
    graft_err e = GRAFT_ERR_INIT;
    int64_t last = 0, told = 0;
    graft_cond *c = scene();
    for (int64_t mib = 1; mib < 200 && !last; mib = next_limit(mib, told)) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)mib);
        setenv("GRAFT_MEMORY_MB", text, 1);
        graft_engine *tight = make_engine("cpu");
        graft_model *m = load_model(tight, SD1);
        run_of r = {m, c, none, 2, 4, "euler", NULL, NULL};
        graft_status st = try_run(&r, NULL, &e);
        CHECK(st == GRAFT_OK || st == GRAFT_E_LIMIT);
        told = st ? promised(e.text) : told;
        if (!st) {
            last = mib;
            CHECK(packs_of(tight).bytes + graft_arenas_bytes(tight->arenas) <= (uint64_t)mib << 20);
        }
        graft_model_release(m);
        graft_engine_destroy(tight);
    }
    unsetenv("GRAFT_MEMORY_MB");
    CHECK(last > 1);
    graft_cond_release(c);
}

/* Calibrating on a scene measures on whole latents where it has any, and on areas where not. */
static void quantized(void)
{
    float now[N], plain[N];
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *latent = NULL;
    CHECK_OK(graft_latent_empty(4, 8 * W, 8 * H, 1, &latent, &e), &e);
    for (int i = 0; i < 2; i++) {
        graft_cond *c = i ? in_cells(prompt(1), 2, 2, 5, 6, 1) : scene();
        graft_model *m = NULL;
        const graft_quantize_options o = {.bits = 8,
                                          .conv = true,
                                          .linear = true,
                                          .conv_mse_threshold = 1,
                                          .linear_mse_threshold = 1,
                                          .positive = c,
                                          .negative = i ? c : none,
                                          .latent = latent,
                                          .steps = 4,
                                          .cfg = 4,
                                          .seed = 5};
        CHECK_OK(graft_model_quantize(model, &o, NULL, &m, NULL, &e), &e);
        run_of r = {model, c, none, 3, 4, "euler", NULL, NULL};
        run(&r, plain);
        r.model = m;
        run(&r, now);
        CHECK(memcmp(now, plain, sizeof now) != 0);
        CHECK(difference(now, plain, N) < 0.5);
        graft_model_release(m);
        graft_cond_release(c);
    }
    graft_latent_release(latent);
}

/* ------------------------------------------------------------------ progress */

typedef struct watch {
    uint64_t done, total;
    int asked, most; /* of `cancelled`; 0: never */
} watch;

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    watch *w = ctx;
    w->done = done;
    w->total = total;
}

static bool on_cancelled(void *ctx)
{
    watch *w = ctx;
    return ++w->asked > w->most && w->most;
}

/* Steps are counted, however many parts there are; a run can be ended in any part. */
static void progress_and_cancel(void)
{
    float now[N];
    graft_err e = GRAFT_ERR_INIT;
    watch w = {0};
    graft_task task = {.ctx = &w, .progress = on_progress, .cancelled = on_cancelled};
    graft_cond *c = scene();
    run_of r = {model, c, none, 3, 4, "euler", NULL, &task};
    run(&r, now);
    CHECK_INT(w.done, 3);
    CHECK_INT(w.total, 3);
    int all = w.asked;
    for (int i = 1; i < 8; i++) {
        w = (watch){.most = all * i / 8};
        CHECK_INT(try_run(&r, now, &e), GRAFT_E_CANCEL);
    }
    graft_cond_release(c);
}

int main(void)
{
    engine = make_engine("cpu");
    model = load_model(engine, SD1);
    none = prompt(99);
    RUN(whole_runs);
    RUN(other_ways);
    RUN(inpainting);
    RUN(parts_share_batches);
    RUN(many_areas);
    RUN(deepcache);
    RUN(controlnets);
    RUN(compiled_ahead);
    if (UNDER_SANITIZER) puts("skipped: three of four limits of memory; the plain build tries all");
    RUN(limits_of_memory);
    RUN(weights_count_once);
    RUN(memory_of_the_engine);
    RUN(quantized);
    RUN(progress_and_cancel);
    graft_cond_release(none);
    graft_model_release(model);
    graft_engine_destroy(engine);
    return test_end();
}
