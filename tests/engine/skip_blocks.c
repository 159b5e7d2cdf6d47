/* Skip-layer guidance of FLUX.1's transformer, alone and steered, and how its contrast is taken
 * back. A block whose gates are 0 changes nothing, and so is what a block left out comes to. Rows
 * of Stable Diffusion 3 are in flow.c and control_transformer.c. */
#include <math.h>

#include "tests/engine/control_transformer.h"
#include "tests/engine/regions.h"

enum { PICTURES = 2, ALL = PICTURES * ONE };

#define STATE 0.6f

/* The third of the vectors that a norm and its gate are told, and the sixth, are 0. */
static void still(graft_st_tensor *t, int vectors)
{
    const int64_t n = shape_count(t->shape, t->rank) / vectors;
    float *v = (float *)(uintptr_t)t->data;
    for (int k = 2; k < vectors; k += 3)
        for (int64_t i = 0; i < n; i++) v[k * n + i] = 0;
}

/* The model with blocks that change nothing. */
static graft_model *with_idle(const bool *two, const bool *one)
{
    const char *to = temp_path("idle.safetensors");
    made_file *f = net_file(FLUX);
    for (size_t i = 0; i < f->n; i++) {
        graft_st_tensor *t = &f->tensor[i];
        int block = 0;
        if (sscanf(t->name, "model.diffusion_model.double_blocks.%d.", &block) == 1 && two[block] &&
            strstr(t->name, "_mod.lin."))
            still(t, 6);
        if (sscanf(t->name, "model.diffusion_model.single_blocks.%d.", &block) == 1 && one[block] &&
            strstr(t->name, ".modulation.lin."))
            still(t, 3);
    }
    write_file(f, to, "{\"rope_dim\": 6}");
    graft_model *m = load_model(engine, to);
    unlink(to);
    return m;
}

static void at_state(const graft_model *m, pair p, double cfg, float *out)
{
    float x[ALL];
    graft_err e = GRAFT_ERR_INIT;
    const one_call c = {m, p.positive, p.negative, cfg, {PICTURES, 16, HIGH, WIDE}, NULL, NULL, 0};
    noise_of(&c, x);
    CHECK_OK(try_denoise_at(&c, x, STATE, out, &e), &e);
}

static graft_model *skipping(const char *layers, const char *single, double rescale)
{
    const graft_skip_options o = {layers, single, 2, 0, 1, rescale};
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_skip_blocks(flux.m, &o, &m, &e), &e);
    return m;
}

static void rows_of(pair p)
{
    static const struct {
        const char *layers, *single;
        bool two[8], one[8];
    } cases[] = {{"1", "", {false, true}, {false}},
                 {"", "0, 2", {false}, {true, false, true}},
                 {"0", "1", {true}, {false, true}},
                 {"0, 2", "0", {true, false, true}, {true}},
                 {"2, 77", "0 and 1", {false, false, true}, {true, true}}};
    float positive[ALL], guided[ALL], less[ALL], got[ALL];
    at_state(flux.m, p, 1, positive);
    at_state(flux.m, p, 3, guided);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        graft_model *idle = with_idle(cases[k].two, cases[k].one);
        graft_model *skips = skipping(cases[k].layers, cases[k].single, 0);
        at_state(idle, p, 1, less);
        at_state(skips, p, 1, got); /* one prompt: no rows are plain only */
        float most = 0;
        for (int i = 0; i < ALL; i++)
            most = fmaxf(most, fabsf(got[i] - positive[i] - 2 * (positive[i] - less[i])));
        CHECK(most < 1e-4f);
        CHECK(difference(got, positive, ALL) > 1e-2);
        at_state(skips, p, 3, got);
        for (int i = 0; i < ALL; i++) less[i] = guided[i] + 2 * (positive[i] - less[i]);
        CHECK(difference(got, less, ALL) < 1e-4);
        RELEASE_ALL(idle, skips);
    }
}

static void alone_and_steered(void)
{
    rows_of(flux.plain);
    pair p = steer(flux.plain, options(flux.net, 1));
    rows_of(p);
    drop(p);
}

static graft_model *negative_skips(const char *layers, const char *single, double start, double end)
{
    const graft_skip_options o = {layers, single, 0, start, end, 0};
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_skip_negative(flux.m, &o, &m, &e), &e);
    return m;
}

/* The negative prediction is that of a network whose blocks change nothing; the positive one, and
 * other parts of the schedule, stay. */
static void negative_of(pair p)
{
    const bool two[8] = {false, true}, one[8] = {true, false, true};
    const pair other = {p.negative, p.positive};
    float positive[ALL], negative[ALL], less[ALL], got[ALL];
    graft_model *idle = with_idle(two, one), *m = negative_skips("1", "0 2", 0, 1);
    graft_model *late = negative_skips("1", "0 2", 0.9, 1);
    at_state(flux.m, p, 1, positive);
    at_state(flux.m, other, 1, negative);
    at_state(idle, other, 1, less);
    CHECK(difference(less, negative, ALL) > 1e-2);
    at_state(m, p, 1, got);
    CHECK(memcmp(got, positive, sizeof got) == 0);
    at_state(m, p, 3, got);
    for (int i = 0; i < ALL; i++) less[i] += 3 * (positive[i] - less[i]);
    CHECK(difference(got, less, ALL) < 1e-4);
    at_state(flux.m, p, 3, less);
    CHECK(difference(got, less, ALL) > 1e-2);
    at_state(late, p, 3, got);
    CHECK(memcmp(got, less, sizeof got) == 0);
    RELEASE_ALL(idle, m, late);
}

static void negative_alone(void)
{
    negative_of(flux.plain);
    pair p = steer(flux.plain, options(flux.net, 1));
    negative_of(p);
    drop(p);
}

/* Both ways at once: the third prediction is of positive prompts, with blocks of its own. */
static void both_ways(void)
{
    const graft_skip_options o = {"0", "1", 2, 0, 1, 0};
    const bool two[8] = {true}, one[8] = {false, true}, none[8] = {false}, first[8] = {true};
    const pair p = flux.plain, other = {p.negative, p.positive};
    float positive[ALL], third[ALL], negative[ALL], got[ALL];
    graft_model *m = negative_skips("", "0", 0, 1), *both = NULL;
    graft_model *idle = with_idle(two, one), *away = with_idle(none, first);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_skip_blocks(m, &o, &both, &e), &e);
    at_state(flux.m, p, 1, positive);
    at_state(idle, p, 1, third);
    at_state(away, other, 1, negative);
    at_state(both, p, 3, got);
    for (int i = 0; i < ALL; i++)
        third[i] = negative[i] + 3 * (positive[i] - negative[i]) + 2 * (positive[i] - third[i]);
    CHECK(difference(got, third, ALL) < 1e-4);
    RELEASE_ALL(m, both, idle, away);
}

/* Stable Diffusion 3's: two predictions by hand, of which the negative one's network has no first
 * block. */
static void of_sd3(void)
{
    const graft_skip_options o = {"0", "", 0, 0, 1, 0};
    const graft_skip_options all = {"0", "", 1, 0, 1, 0};
    const pair p = sd3.plain, other = {p.negative, p.positive};
    float positive[ALL], plain[ALL], away[ALL], got[ALL];
    graft_model *m = NULL, *third = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_skip_negative(sd3.m, &o, &m, &e), &e);
    CHECK_OK(graft_model_skip_blocks(sd3.m, &all, &third, &e), &e);
    at_state(sd3.m, p, 1, positive);
    at_state(sd3.m, other, 1, plain);
    at_state(third, other, 1, away); /* 2 plain - skipped */
    at_state(m, p, 3, got);
    for (int i = 0; i < ALL; i++) {
        const float skipped = 2 * plain[i] - away[i];
        away[i] = skipped + 3 * (positive[i] - skipped);
    }
    CHECK(difference(got, away, ALL) < 1e-4);
    at_state(sd3.m, p, 3, plain);
    CHECK(difference(got, plain, ALL) > 1e-2);
    RELEASE_ALL(m, third);
}

/* Compiled ahead, a run whose middle is without blocks has all that it needs. */
static void negative_ahead(void)
{
    const graft_task task = {.compile_only = true};
    float now[ONE], plain[ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = negative_skips("0", "2", 0.2, 0.6);
    const uint64_t start = graphs_built(engine);
    CHECK_OK(try_sizes(m, flux.plain, 1, HIGH + 2, WIDE, &task, (float[2 * ONE]){0}, &e), &e);
    const uint64_t before = graphs_built(engine);
    CHECK_INT(before, start + 3); /* both prompts; the positive one alone; the other one without */
    CHECK_OK(try_sizes(m, flux.plain, 1, HIGH + 2, WIDE, NULL, (float[2 * ONE]){0}, &e), &e);
    CHECK_INT(graphs_built(engine), before);
    sample(m, flux.plain, now);
    sample(flux.m, flux.plain, plain);
    CHECK(difference(now, plain, ONE) > 1e-4);
    graft_model_release(m);
}

/* EasyCache answers nothing across the step in which blocks are left out first: on both sides of it
 * predictions are those without EasyCache. */
static void negative_is_seen_at_once(void)
{
    const graft_easycache_options lazy = {3, 0, 1, false};
    graft_model *m = negative_skips("0", "2", 0, 0.5), *cached = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_sigma_table table;
    graft_guided *g = NULL;
    float x[ALL], out[ALL], want[ALL];
    CHECK_OK(graft_model_easycache(m, &lazy, &cached, &e), &e);
    graft_model_sigma_table(cached, &table);
    const pair p = flux.plain;
    const graft_guided_config k = {.model = cached,
                                   .table = &table,
                                   .positive = p.positive,
                                   .negative = p.negative,
                                   .cfg = 3,
                                   .steps = 8,
                                   .shape = {PICTURES, 16, HIGH, WIDE}};
    const one_call c = {m, p.positive, p.negative, 3, {PICTURES, 16, HIGH, WIDE}, NULL, NULL, 0};
    noise_of(&c, x);
    CHECK_OK(graft_guided_create(&k, &g, &e), &e);
    graft_denoiser d = graft_guided_denoiser(g);
    int last = (int)table.count - 1;
    while (last > 0 && graft_model_skips_at(m, &table, table.sigma[last])) last--;
    const float sigma[4] = {table.sigma[last + 3], table.sigma[last + 2], table.sigma[last + 1],
                            table.sigma[last]};
    CHECK(last > 0 && graft_model_skips_at(m, &table, sigma[2]));
    for (size_t s = 0; s < 4; s++) {
        graft_guided_step(g, s);
        for (int i = 0; i < ALL; i++) x[i] *= 0.99f; /* what did not move is asked again */
        CHECK_OK(d.denoise(d.ctx, x, sigma[s], out, &e), &e);
        CHECK_OK(try_denoise_at(&c, x, sigma[s], want, &e), &e);
        const double far = difference(out, want, ALL);
        if (s == 2) CHECK(far > 0); /* was answered */
        if (s == 3) CHECK(far < 1e-5);
    }
    graft_guided_destroy(g);
    graft_model_release(m);
    graft_model_release(cached);
}

static double deviation(const float *v)
{
    double mean = 0, sum = 0;
    for (int i = 0; i < ONE; i++) mean += v[i] / ONE;
    for (int i = 0; i < ONE; i++) sum += (v[i] - mean) * (v[i] - mean);
    return sqrt(sum / (ONE - 1));
}

/* At 1 each picture has the spread of its positive prediction, at 0.5 it is halfway there. */
static void contrast(void)
{
    float positive[ALL], plain[ALL], got[ALL];
    graft_model *off = skipping("1", "0", 0);
    at_state(flux.m, flux.plain, 1, positive);
    at_state(off, flux.plain, 3, plain);
    for (int k = 1; k <= 2; k++) {
        graft_model *m = skipping("1", "0", k / 2.0);
        at_state(m, flux.plain, 3, got);
        for (int at = 0; at < ALL; at += ONE) {
            const double of = deviation(positive + at), from = deviation(plain + at);
            CHECK(fabs(of - from) > 0.01 * of);
            CHECK_NEAR(deviation(got + at), from + k / 2.0 * (of - from), 1e-4 * from);
            CHECK_NEAR(got[at + 5] * deviation(plain + at), plain[at + 5] * deviation(got + at),
                       1e-4);
        }
        graft_model_release(m);
    }
    graft_model_release(off);
}

static void refused(const graft_skip_options *o, graft_status want, const char *words)
{
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_model_skip_blocks(flux.m, o, &m, &e), want);
    CHECK(strstr(e.text, words) != NULL);
    CHECK(!m);
}

static void refusals(void)
{
    refused(&(graft_skip_options){"7, 8, 9", "7", 3, 0, 1, 0}, GRAFT_E_ARG, "none of this model");
    refused(&(graft_skip_options){"", "", 3, 0, 1, 0}, GRAFT_E_ARG, "none of this model");
    refused(&(graft_skip_options){"1", "", 3, 0, 1, -1}, GRAFT_E_ARG, "rescaling_scale");
    refused(&(graft_skip_options){"1", "", 3, 0, 1, NAN}, GRAFT_E_ARG, "rescaling_scale");
    refused(&(graft_skip_options){"1", "", 3, 0, 2, 0}, GRAFT_E_ARG, "end_percent");
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_skip_options o = {"", "1", 3, 0, 1, 0}; /* which Stable Diffusion 3 has not */
    CHECK_INT(graft_model_skip_blocks(sd3.m, &o, &m, &e), GRAFT_E_ARG);
    CHECK_INT(graft_model_skip_negative(sd3.m, &o, &m, &e), GRAFT_E_ARG);
    CHECK_INT(graft_model_skip_negative(flux.m, &(graft_skip_options){"1", "", 0, 0, 2, 0}, &m, &e),
              GRAFT_E_ARG);
    CHECK(!m);
}

int main(void)
{
    begin_all();
    RUN(alone_and_steered);
    RUN(negative_alone);
    RUN(both_ways);
    RUN(of_sd3);
    RUN(negative_ahead);
    RUN(negative_is_seen_at_once);
    RUN(contrast);
    RUN(refusals);
    end_all();
    return test_end();
}
