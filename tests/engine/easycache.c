/* EasyCache in sampling: every evaluation held against the definition in double, made of a plain
 * model's predictions; and beside all else that a model and its prompts can have. */
#include "tests/engine/control.h"
#include "tests/engine/regions.h"

enum { H = 8, W = 12, N = 4 * H * W, STEPS = 12 };

static graft_engine *engine;
static bool
    exact; /* the reference kernels, which are slow: what depends on the engine alone once */
static char line[256]; /* the last of the log */

static void keep(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level == GRAFT_LOG_INFO) snprintf(line, sizeof line, "%s", text);
}
static graft_task listener = {.log = {.line = keep}};

static graft_model *eased(const graft_model *m, double threshold, double start, double end)
{
    const graft_easycache_options o = {threshold, start, end, true};
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_easycache(m, &o, &out, &e), &e);
    return out;
}

/* How many runs of UNets there were. */
static uint64_t unet_runs(void)
{
    graft_exe **list = NULL;
    size_t n = 0;
    uint64_t runs = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_compiled_list(engine->compiled, &list, &n, &e), &e);
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i]->kind, "unet") == 0) runs += atomic_load(&list[i]->times.runs);
    graft_compiled_list_free(list, n);
    return runs;
}

/* What the line says: left out, and of how many. */
static void said(int *left_out, int *of)
{
    *left_out = *of = -1;
    CHECK(sscanf(line, "EasyCache: %d of %d evaluations", left_out, of) == 2);
}

/* ------------------------------------------------------------------ a walk */

/* A run of the guided denoiser along falling sigmas, as euler goes. */
typedef struct walk {
    graft_guided_config c;
    graft_sigma_table table;
    graft_guided *g;
} walk;

static void walk_begin(walk *w, const graft_model *m, const graft_cond *positive,
                       const graft_cond *negative, double cfg)
{
    graft_err e = GRAFT_ERR_INIT;
    w->c = (graft_guided_config){.model = m,
                                 .table = &w->table,
                                 .positive = positive,
                                 .negative = negative,
                                 .cfg = cfg,
                                 .shape = {1, 4, H, W},
                                 .steps = STEPS,
                                 .task = &listener};
    w->g = NULL;
    graft_model_sigma_table(m, &w->table);
    CHECK_OK(graft_guided_create(&w->c, &w->g, &e), &e);
}

static void walk_at(walk *w, size_t step, const float *x, float sigma, float *out, float *second)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_denoiser d = graft_guided_denoiser(w->g);
    graft_guided_step(w->g, step);
    CHECK_OK(second ? d.denoise_pair(d.ctx, x, sigma, out, second, &e)
                    : d.denoise(d.ctx, x, sigma, out, &e),
             &e);
}

static float sigma_at(int i)
{
    return 14.0f * powf(0.68f, (float)i);
}

static void euler(float *x, const float *denoised, int i)
{
    float ratio = sigma_at(i + 1) / sigma_at(i);
    for (int k = 0; k < N; k++) x[k] = denoised[k] + (x[k] - denoised[k]) * ratio;
}

static void first_x(float *x)
{
    for (int i = 0; i < N; i++) x[i] = 14 * 1.7f * fixed_value(4711 + (uint64_t)i);
}

/* ------------------------------------------------------------------ the definition */

/* The network's output from the denoised latent, and back. */
static double output_of(graft_prediction p, double x, double sigma, double d)
{
    double s2 = sigma * sigma + 1;
    return p == GRAFT_PREDICT_V ? (x / s2 - d) * sqrt(s2) / sigma : (x - d) / sigma;
}
static double denoised_of(graft_prediction p, double x, double sigma, double v)
{
    double s2 = sigma * sigma + 1;
    return p == GRAFT_PREDICT_V ? x / s2 - v * sigma / sqrt(s2) : x - v * sigma;
}

static double mean_of(const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < N; i++) sum += fabs(a[i] - (b ? b[i] : 0));
    return sum / N;
}

/* The definition's memory. */
typedef struct defined {
    double x[N], v[N], delta[2][N]; /* delta: of the positive and the negative prompts */
    double rate, sum;
    int known; /* evaluations so far */
} defined;

/* Whether evaluation i, at x, is left out; D by the definition, with the plain model's predictions
 * pos and neg. may: whether it is in the range. */
static bool define(defined *k, const graft_model *m, const float *state, float sigma,
                   const float *pos, const float *neg, double threshold, bool may, double *out)
{
    double x[N], v[2][N], cfg = 4;
    for (int i = 0; i < N; i++) {
        x[i] = state[i] / sqrt((double)sigma * sigma + 1);
        v[0][i] = output_of(m->prediction, state[i], sigma, pos[i]);
        v[1][i] = output_of(m->prediction, state[i], sigma, neg[i]);
    }
    double moved = mean_of(x, k->x);
    bool left_out = false;
    if (may && k->known > 1) {
        k->sum += k->rate * moved / mean_of(k->v, NULL);
        left_out = k->sum < threshold;
    }
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < N; i++)
            if (left_out)
                v[s][i] = x[i] + k->delta[s][i];
            else
                k->delta[s][i] = v[s][i] - x[i];
    if (!left_out) {
        k->rate = mean_of(v[0], k->v) / moved;
        k->sum = 0;
    }
    memcpy(k->x, x, sizeof x);
    memcpy(k->v, v[0], sizeof k->v);
    k->known++;
    for (int i = 0; i < N; i++) {
        double a = denoised_of(m->prediction, state[i], sigma, v[0][i]);
        double b = denoised_of(m->prediction, state[i], sigma, v[1][i]);
        out[i] = b + cfg * (a - b);
    }
    return left_out;
}

/* Returns how many evaluations were left out. */
static int check_walk(const graft_model *m, double threshold, double start, double end)
{
    graft_model *easy = eased(m, threshold, start, end);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    static defined k;
    walk w, plain;
    float x[N], got[N], pos[N], neg[N];
    double want[N];
    int left_out = 0;
    memset(&k, 0, sizeof k);
    walk_begin(&w, easy, p, n, 4);
    walk_begin(&plain, m, p, n, 1);
    first_x(x);
    for (int i = 0; i < STEPS; i++) {
        float sigma = sigma_at(i);
        double worst = 0, most = 0;
        bool may = graft_sigma_in_range(&w.table, start, end, sigma);
        uint64_t before = unet_runs();
        walk_at(&w, (size_t)i, x, sigma, got, NULL);
        bool was_left_out = unet_runs() == before;
        walk_at(&plain, (size_t)i, x, sigma, pos, neg);
        bool expected = define(&k, m, x, sigma, pos, neg, threshold, may, want);
        CHECK_INT(was_left_out, expected);
        for (int v = 0; v < N; v++) {
            worst = fmax(worst, fabs(got[v] - want[v]));
            most = fmax(most, fabs(want[v]));
        }
        CHECK(worst < 1e-4 * most);
        left_out += was_left_out;
        euler(x, got, i);
    }
    graft_guided_tell(w.g);
    int told, of;
    said(&told, &of);
    CHECK_INT(told, left_out);
    CHECK_INT(of, STEPS);
    graft_guided_destroy(w.g);
    graft_guided_destroy(plain.g);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_model_release(easy);
    return left_out;
}

static void by_the_definition(void)
{
    static const char *const files[] = {SD1, SD2, SDXL};
    for (int f = 0; f < (exact ? 1 : 3); f++) {
        graft_model *m = load_model(engine, files[f]), *v = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_model_sampling(m, "v_prediction", false, &v, &e), &e);
        int many = check_walk(m, 1, 0, 1), few = f ? 0 : check_walk(m, 0.1, 0, 1);
        printf("%d and %d of %d left out\n", few, many, STEPS);
        CHECK(few < many && many > 0 && many <= STEPS - 2);
        CHECK((few > 0) == (f == 0));
        CHECK(f == 2 || check_walk(v, 1, 0, 1) > 0);
        CHECK(f || check_walk(m, 1, 0.3, 0.6) < many);
        CHECK(f || check_walk(m, 1, 0.6, 0.3) == 0); /* an empty range */
        graft_model_release(v);
        graft_model_release(m);
    }
}

/* ------------------------------------------------------------------ whole runs */

typedef struct sampled {
    float x[2 * N];
    uint64_t runs;
    int64_t pictures;
} sampled;

static graft_status sample_with(const graft_model *m, const char *sampler, const graft_cond *p,
                                const graft_cond *n, const graft_task *task, sampled *out)
{
    graft_latent *from = NULL, *to = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_sample_params k = {.seed = 5,
                                   .add_noise = true,
                                   .steps = 6,
                                   .cfg = 4,
                                   .sampler = sampler,
                                   .scheduler = "normal",
                                   .denoise = 1,
                                   .end_at_step = 10000};
    int64_t shape[4], pictures = out->pictures ? out->pictures : 1;
    CHECK_OK(graft_latent_empty(4, 8 * W, 8 * H, pictures, &from, &e), &e);
    uint64_t before = unet_runs();
    line[0] = 0;
    graft_status st = graft_sample(m, &k, p, n, from, task, &to, &e);
    out->runs = unet_runs() - before;
    memset(out->x, 0, sizeof out->x);
    if (!st) memcpy(out->x, graft_latent_data(to, shape), (size_t)pictures * N * sizeof *out->x);
    graft_latent_release(from);
    graft_latent_release(to);
    return st;
}

static bool same(const sampled *a, const sampled *b)
{
    return memcmp(a->x, b->x, sizeof a->x) == 0;
}

static bool finite_x(const sampled *a)
{
    for (int i = 0; i < 2 * N; i++)
        if (!isfinite(a->x[i])) return false;
    return true;
}

/* Samplers that evaluate once and twice in a step, draw noise, look back, want the prediction
 * without the prompt and find their own steps: as many runs of the UNet as the line says were not
 * left out, the same bits again, and the plain model's bits where nothing may be left out. */
static void with_all_kinds_of_samplers(void)
{
    static const char *const names[] = {"euler",        "heun",     "dpm_2",
                                        "dpmpp_sde",    "dpmpp_2m", "uni_pc",
                                        "euler_cfg_pp", "lcm",      "dpm_adaptive"};
    graft_model *m = load_model(engine, SD1), *easy = eased(m, 1, 0.1, 0.95),
                *off = eased(easy, 0, 0, 1), *never = eased(m, 3, 1, 0);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    static sampled plain, with, again;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int left_out, of;
        CHECK_INT(sample_with(easy, names[i], p, n, &listener, &with), GRAFT_OK);
        said(&left_out, &of);
        CHECK_INT(with.runs, of - left_out);
        CHECK(left_out > 0 && finite_x(&with));
        CHECK_INT(sample_with(easy, names[i], p, n, NULL, &again), GRAFT_OK);
        CHECK(same(&with, &again) && with.runs == again.runs);
        CHECK_INT(sample_with(m, names[i], p, n, &listener, &plain), GRAFT_OK);
        CHECK_STR(line, "");
        CHECK_INT(sample_with(i % 2 ? off : never, names[i], p, n, NULL, &again), GRAFT_OK);
        CHECK(same(&plain, &again) && plain.runs == again.runs && plain.runs > with.runs);
    }
    graft_model *const all[] = {never, off, easy, m};
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
    graft_cond_release(p);
    graft_cond_release(n);
}

/* Nothing of one run reaches the next, whatever its weights and prompts. */
static void runs_are_their_own(void)
{
    graft_model *m = load_model(engine, SD1), *easy = eased(m, 1, 0, 1),
                *other = swap_weights(easy, SD1, true);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    static sampled first, second, between, swapped;
    CHECK_INT(sample_with(easy, "euler", p, n, NULL, &first), GRAFT_OK);
    CHECK_INT(sample_with(easy, "euler", n, p, NULL, &between), GRAFT_OK);
    CHECK_INT(sample_with(other, "euler", p, n, NULL, &swapped), GRAFT_OK);
    CHECK_INT(sample_with(easy, "euler", p, n, NULL, &second), GRAFT_OK);
    CHECK(same(&first, &second) && same(&first, &swapped) && !same(&first, &between));
    graft_model *const all[] = {other, easy, m};
    for (int i = 0; i < 3; i++) graft_model_release(all[i]);
    graft_cond_release(p);
    graft_cond_release(n);
}

static void progress(void *ctx, uint64_t done, uint64_t total)
{
    uint64_t *last = ctx;
    CHECK_INT(done, *last + 1);
    CHECK_INT(total, 6);
    *last = done;
}

static bool after_four(void *ctx)
{
    return *(uint64_t *)ctx >= 4;
}

/* Steps without a run report, too, and hear that they should stop. A batch is one decision. */
static void beside_the_task(void)
{
    graft_model *m = load_model(engine, SD1), *easy = eased(m, 3, 0, 1);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    uint64_t last = 0;
    graft_task t = {.ctx = &last, .progress = progress};
    static sampled one, two = {.pictures = 2};
    CHECK_INT(sample_with(easy, "euler", p, n, &t, &one), GRAFT_OK);
    CHECK_INT(last, 6);
    CHECK(one.runs < 4);
    t.cancelled = after_four;
    last = 0;
    CHECK_INT(sample_with(easy, "euler", p, n, &t, &one), GRAFT_E_CANCEL);
    CHECK_INT(last, 4);
    CHECK_INT(sample_with(easy, "euler", p, n, NULL, &two), GRAFT_OK);
    CHECK(two.runs < 6 && finite_x(&two));
    CHECK(memcmp(two.x, two.x + N, N * sizeof *two.x) != 0);
    graft_model_release(easy);
    graft_model_release(m);
    graft_cond_release(p);
    graft_cond_release(n);
}

/* ------------------------------------------------------------------ beside all else */

/* An evaluation in full is the plain model's, bit for bit, and those of `whole` are in full: at
 * which of the walk's evaluations. Returns how many were left out. */
static int check_whole(const graft_model *m, const graft_cond *p, const graft_cond *n, double cfg,
                       const bool whole[STEPS])
{
    graft_model *easy = eased(m, 3, 0, 1);
    walk w, plain;
    float x[N], got[N], want[N];
    int left_out = 0;
    walk_begin(&w, easy, p, n, cfg);
    walk_begin(&plain, m, p, n, cfg);
    first_x(x);
    for (int i = 0; i < STEPS; i++) {
        uint64_t before = unet_runs();
        walk_at(&w, (size_t)i, x, sigma_at(i), got, NULL);
        bool ran = unet_runs() != before;
        walk_at(&plain, (size_t)i, x, sigma_at(i), want, NULL);
        CHECK(ran || !whole || !whole[i]);
        if (ran) CHECK(memcmp(got, want, sizeof got) == 0);
        if (!ran) CHECK(memcmp(got, want, sizeof got) != 0);
        for (int v = 0; v < N; v++) CHECK(isfinite(got[v]));
        left_out += !ran;
        euler(x, got, i);
    }
    graft_guided_destroy(w.g);
    graft_guided_destroy(plain.g);
    graft_model_release(easy);
    return left_out;
}

static void with_other_guidance(void)
{
    graft_model *m = load_model(engine, SD1), *rescaled = NULL, *perturbed = NULL, *freed = NULL;
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, 2 * TOKENS);
    graft_err e = GRAFT_ERR_INIT;
    const graft_freeu_options freeu = {2, 1.3, 1.4, 0.9, 0.2};
    CHECK_OK(graft_model_rescale_cfg(m, 0.7, &rescaled, &e), &e);
    CHECK_OK(graft_model_perturbed_attention(rescaled, 2, &perturbed, &e), &e);
    CHECK_OK(graft_model_freeu(perturbed, &freeu, &freed, &e), &e);
    graft_model *const all[] = {rescaled, perturbed, freed, m};
    for (int i = 0; i < 4; i++)
        for (int one = 0; one < 2; one++) CHECK(check_whole(all[i], p, n, one ? 1 : 4, NULL) > 0);
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
    graft_cond_release(p);
    graft_cond_release(n);
}

/* A prediction that is left out moves what guidance makes of it as the definition has it: here with
 * perturbed rows, whose scale counts for those as well. */
static void perturbed_rows_keep_their_own(void)
{
    graft_model *m = load_model(engine, SD1), *easy = eased(m, 3, 0, 1);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    graft_err e = GRAFT_ERR_INIT;
    walk w[3];
    float x[N], got[3][N];
    graft_model *scaled[3];
    bool some = false;
    for (int s = 0; s < 3; s++) {
        CHECK_OK(graft_model_perturbed_attention(easy, s, &scaled[s], &e), &e);
        walk_begin(&w[s], scaled[s], p, n, 4);
    }
    first_x(x);
    for (int i = 0; i < STEPS; i++) {
        uint64_t before = unet_runs();
        for (int s = 0; s < 3; s++) walk_at(&w[s], (size_t)i, x, sigma_at(i), got[s], NULL);
        some |= unet_runs() == before;
        CHECK(difference(got[1], got[0], N) > 1e-4);
        for (int v = 0; v < N; v++) got[1][v] = 2 * got[1][v] - got[0][v];
        CHECK(difference(got[2], got[1], N) < 1e-4);
        euler(x, got[0], i);
    }
    CHECK(some);
    for (int s = 0; s < 3; s++) {
        graft_guided_destroy(w[s].g);
        graft_model_release(scaled[s]);
    }
    graft_cond_release(p);
    graft_cond_release(n);
    graft_model_release(easy);
    graft_model_release(m);
}

/* The walk's evaluations at which something with this range begins or has just ended. */
static void changes_of(const graft_model *m, double start, double end, bool whole[STEPS])
{
    graft_sigma_table t;
    graft_model_sigma_table(m, &t);
    int changes = 0;
    for (int i = 0; i < STEPS; i++) {
        whole[i] = i && graft_sigma_in_range(&t, start, end, sigma_at(i)) !=
                            graft_sigma_in_range(&t, start, end, sigma_at(i - 1));
        changes += whole[i];
    }
    CHECK_INT(changes, 2);
}

static void prompts_that_begin_and_end(void)
{
    graft_model *m = load_model(engine, SD1);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    graft_cond *some = place_prompt(m, 3, TOKENS), *ranged = NULL;
    graft_err e = GRAFT_ERR_INIT;
    bool whole[STEPS];
    CHECK_OK(graft_cond_timestep_range(some, 0.3, 0.6, &ranged, &e), &e);
    graft_cond *two = both(graft_cond_retain(p), graft_cond_retain(ranged));
    changes_of(m, 0.3, 0.6, whole);
    CHECK(check_whole(m, two, n, 4, whole) > 0);
    CHECK(check_whole(m, p, ranged, 4, whole) > 0); /* without a negative prompt at first */
    check_whole(m, ranged, n, 4, whole);            /* nor a positive one */
    graft_cond *const all[] = {p, n, some, ranged, two};
    for (int i = 0; i < 5; i++) graft_cond_release(all[i]);
    graft_model_release(m);
}

static void controlnets_that_begin_and_end(void)
{
    graft_model *m = load_model(engine, SD1);
    steered_prompts s =
        steered_by(m, place_prompt(m, 1, TOKENS), place_prompt(m, 2, TOKENS), H, 0.3, 0.6);
    bool whole[STEPS];
    changes_of(m, 0.3, 0.6, whole);
    CHECK(check_whole(m, s.with_p, s.with_n, 4, whole) > 0);
    steered_release(&s);
    graft_model_release(m);
}

/* Where no prompt sees anything the result is 0, as without. */
static void in_areas(void)
{
    graft_model *m = load_model(engine, SD1), *easy = eased(m, 3, 0, 1);
    graft_cond *n = place_prompt(m, 2, TOKENS);
    graft_cond *parts = both(in_cells(place_prompt(m, 3, TOKENS), 1, 2, 6, 7, 1),
                             in_cells(place_prompt(m, 4, 2 * TOKENS), 0, 4, 8, 8, 0.5));
    walk w;
    float x[N], got[N];
    CHECK(check_whole(m, parts, n, 4, NULL) > 0);
    walk_begin(&w, easy, parts, parts, 1);
    first_x(x);
    for (int i = 0; i < STEPS; i++) {
        walk_at(&w, (size_t)i, x, sigma_at(i), got, NULL);
        for (int y = 0; y < H; y++) CHECK(got[y * W] == 0);
        CHECK(got[3 * W + 5] != 0);
        euler(x, got, i);
    }
    graft_guided_destroy(w.g);
    graft_cond_release(n);
    graft_cond_release(parts);
    graft_model_release(easy);
    graft_model_release(m);
}

/* Steps in which DeepCache makes a new feature are never left out, so that all others are what they
 * are without EasyCache, or made of them. */
static void with_deepcache_in_step(void)
{
    graft_model *m = load_model(engine, SD1), *d = with_deepcache(m, 3, 0, 0);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    bool whole[STEPS];
    for (int i = 0; i < STEPS; i++) whole[i] = i % 3 == 0;
    CHECK(check_whole(d, p, n, 4, whole) > 0);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_model_release(d);
    graft_model_release(m);
}

static graft_status count_call(void *ctx, const graft_guided_call *call, graft_err *e)
{
    (void)call, (void)e;
    ++*(int *)ctx;
    return GRAFT_OK;
}

/* Who looks at a model's calls, as calibration does, sees every one. */
static void onlookers_see_all(void)
{
    graft_model *m = load_model(engine, SD1), *easy = eased(m, 3, 0, 1);
    graft_cond *p = place_prompt(m, 1, TOKENS);
    int calls = 0;
    const graft_guided_tap tap = {&calls, count_call};
    one_call c = {easy, p, p, 1, {1, 4, H, W}, &tap, NULL, 6};
    float out[N];
    denoise(&c, out);
    CHECK_INT(calls, 6);
    c.tap = NULL;
    uint64_t before = unet_runs();
    denoise(&c, out); /* x does not move, so that no rate is known */
    CHECK_INT(unet_runs() - before, 6);
    graft_cond_release(p);
    graft_model_release(easy);
    graft_model_release(m);
}

/* It is no part of what is compiled. */
static void is_no_part_of_the_graph(void)
{
    graft_model *m = load_model(engine, SD2), *easy = eased(m, 1, 0, 1);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    static sampled out;
    CHECK_INT(sample_with(m, "euler", p, n, NULL, &out), GRAFT_OK);
    uint64_t before = graphs_built(engine);
    CHECK_INT(sample_with(easy, "euler", p, n, NULL, &out), GRAFT_OK);
    CHECK_INT(graphs_built(engine), before);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_model_release(easy);
    graft_model_release(m);
}

static void bad_numbers(void)
{
    static const graft_easycache_options bad[] = {
        {-0.01, 0, 1, false},    {3.01, 0, 1, false},   {NAN, 0, 1, false},
        {INFINITY, 0, 1, false}, {0.2, -0.1, 1, false}, {0.2, NAN, 1, false},
        {0.2, 0, 1.5, false},    {0.2, 0, NAN, false},  {0.2, INFINITY, 1, false}};
    graft_model *m = load_model(engine, SD1), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(graft_model_easycache(m, &bad[i], &out, &e), GRAFT_E_ARG);
    CHECK(!out);
    graft_model_release(m);
}

/* What is the engine's alone, whatever computes. */
static void all_the_rest(void)
{
    RUN(with_all_kinds_of_samplers);
    RUN(runs_are_their_own);
    RUN(beside_the_task);
    RUN(with_other_guidance);
    RUN(perturbed_rows_keep_their_own);
    RUN(prompts_that_begin_and_end);
    RUN(controlnets_that_begin_and_end);
    RUN(with_deepcache_in_step);
    RUN(onlookers_see_all);
    RUN(is_no_part_of_the_graph);
    RUN(bad_numbers);
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        if (!engine) return test_end();
        exact = i == 0;
        printf("backend %s\n", backends[i]);
        RUN(by_the_definition);
        RUN(in_areas);
        if (!exact) all_the_rest();
        graft_engine_destroy(engine);
    }
    return test_end();
}
