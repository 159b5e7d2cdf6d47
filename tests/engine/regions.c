/* Prompts that count in areas and by masks: what a call of the denoiser gives is what this test
 * composes from calls without any, on latents that it cuts out itself. */
#include "tests/engine/regions.h"

static graft_engine *engine;
static graft_model *model;
static graft_cond *none; /* the negative prompt */
/* A batch of two may be rounded otherwise than one of one; the reference library rounds alike. */
static double tolerance;

enum { H = 12, W = 16, N = 4 * H * W };

static graft_cond *prompt(uint64_t seed)
{
    return place_prompt(model, seed, TOKENS);
}

static one_call usual(const graft_cond *positive)
{
    return (one_call){model, positive, none, 3.0, {1, 4, H, W}, NULL, NULL, 0};
}

/* Of prompts that it lets go of. */
static void denoise_all(graft_cond *positive, float *out)
{
    one_call c = usual(positive);
    denoise(&c, out);
    graft_cond_release(positive);
}

/* ------------------------------------------------------------------ what changes nothing */

static void whole_is_nothing(void)
{
    float plain[N], now[N], ones[64 * 64];
    for (int i = 0; i < 64 * 64; i++) ones[i] = 1;
    graft_image *white = mask_of(ones, 1, 64, 64);
    denoise_all(prompt(1), plain);
    denoise_all(in_area(prompt(1), (graft_area){0, 0, 8 * W, 8 * H, false}, 1), now);
    CHECK(memcmp(now, plain, sizeof now) == 0);
    denoise_all(in_area(prompt(1), (graft_area){0, 0, 16384, 16384, false}, 1), now);
    CHECK(memcmp(now, plain, sizeof now) == 0);
    denoise_all(in_area(prompt(1), (graft_area){0, 0, 1, 1, true}, 1), now);
    CHECK(memcmp(now, plain, sizeof now) == 0);
    denoise_all(with_strength(prompt(1), 1), now);
    CHECK(memcmp(now, plain, sizeof now) == 0);
    for (int bounds = 0; bounds < 2; bounds++) {
        denoise_all(masked(prompt(1), white, 1, bounds), now);
        CHECK(memcmp(now, plain, sizeof now) == 0);
    }
    /* Two that count alike everywhere, too, however that is said. */
    denoise_all(both(prompt(1), prompt(2)), plain);
    denoise_all(both(masked(prompt(1), white, 1, false), prompt(2)), now);
    CHECK(memcmp(now, plain, sizeof now) == 0);
    /* A strength matters beside others only. */
    denoise_all(prompt(1), plain);
    denoise_all(with_strength(prompt(1), 0.3), now);
    CHECK(difference(now, plain, N) < 1e-5);
    denoise_all(in_cells(prompt(1), 0, 0, H, W, 10), now);
    CHECK(difference(now, plain, N) < 1e-5);
    graft_image_release(white);
}

/* ------------------------------------------------------------------ masks */

static void halves(void)
{
    float a[N], b[N], now[N], want[N];
    graft_image *left = columns(H, W, 0, 7), *right = columns(H, W, 7, W);
    denoise_all(prompt(1), a);
    denoise_all(prompt(2), b);
    CHECK(difference(a, b, N) > 0.05);
    for (int i = 0; i < N; i++) want[i] = i % W < 7 ? a[i] : b[i];
    denoise_all(both(masked(prompt(1), left, 1, false), masked(prompt(2), right, 1, false)), now);
    CHECK(difference(now, want, N) <= tolerance);
    /* No overlap, so strengths do not matter. */
    denoise_all(both(masked(prompt(1), left, 4, false), masked(prompt(2), right, 0.5, false)), now);
    CHECK(difference(now, want, N) < 1e-5);
    graft_image_release(left);
    graft_image_release(right);
}

static void strengths_are_ratios(void)
{
    float a[N], b[N], now[N], want[N], grey[4] = {0.25f, 0.25f, 0.25f, 0.25f};
    graft_image *quarter = mask_of(grey, 1, 2, 2);
    denoise_all(prompt(1), a);
    denoise_all(prompt(2), b);
    for (int i = 0; i < N; i++) want[i] = (3 * a[i] + b[i]) / 4;
    denoise_all(both(with_strength(prompt(1), 3), prompt(2)), now);
    CHECK(difference(now, want, N) < 1e-5);
    denoise_all(both(with_strength(prompt(1), 0.75), masked(prompt(2), quarter, 1, false)), now);
    CHECK(difference(now, want, N) < 1e-5);
    /* A mask's strength and its prompt's are factors. */
    denoise_all(both(masked(with_strength(prompt(1), 4), quarter, 3, false), prompt(2)), now);
    CHECK(difference(now, want, N) < 1e-5);
    /* Strength 0 is not there. */
    denoise_all(both(with_strength(prompt(1), 0), prompt(2)), now);
    CHECK(difference(now, b, N) <= tolerance);
    graft_image_release(quarter);
}

/* A mask of another size is brought to the latent's, its greys are weights, and what is beyond 0..1
 * or no number is none. */
static void masks_are_resized(void)
{
    float a[N], b[N], now[N], want[N], fine[2 * H * 2 * W];
    const float strange[4] = {NAN, -3, 5, 1};
    for (int y = 0; y < 2 * H; y++)
        for (int x = 0; x < 2 * W; x++) fine[y * 2 * W + x] = (float)(x / 2) / W + 0.03125f;
    graft_image *ramp = mask_of(fine, 1, 2 * H, 2 * W), *odd = mask_of(strange, 1, 1, 4);
    denoise_all(prompt(1), a);
    denoise_all(prompt(2), b);
    for (int i = 0; i < N; i++) {
        float m = (float)(i % W) / W + 0.03125f;
        want[i] = (m * a[i] + b[i]) / (m + 1);
    }
    denoise_all(both(masked(prompt(1), ramp, 1, false), prompt(2)), now);
    CHECK(difference(now, want, N) < 1e-5);
    denoise_all(both(masked(prompt(1), odd, 1, false), prompt(2)), now);
    for (int i = 0; i < N; i++) CHECK(isfinite(now[i]));
    for (int y = 0; y < H; y++) { /* NaN and -3; then 5 */
        CHECK_NEAR(now[y * W], b[y * W], 1e-4);
        CHECK_NEAR(now[y * W + 10], (a[y * W + 10] + b[y * W + 10]) / 2, 1e-4);
    }
    graft_image_release(ramp);
    graft_image_release(odd);
}

/* Masks repeat over the pictures of a batch. */
static void batches(void)
{
    enum { PART = 4 * 8 * 8 };
    float two[2 * 64], a[3 * PART], b[3 * PART], now[3 * PART];
    for (int i = 0; i < 64; i++) {
        two[i] = i % 8 < 4 ? 1 : 0;
        two[64 + i] = i < 32 ? 1 : 0;
    }
    graft_image *mask = mask_of(two, 2, 8, 8);
    graft_cond *p = prompt(1), *q = prompt(2);
    one_call c = {model, p, none, 3.0, {3, 4, 8, 8}, NULL, NULL, 0};
    denoise(&c, a);
    c.positive = q;
    denoise(&c, b);
    graft_cond *mixed = both(masked(p, mask, 1e4, false), q);
    c.positive = mixed;
    denoise(&c, now);
    for (int i = 0; i < 3 * PART; i++) {
        int at = i % 64, picture = i / PART;
        bool first = (picture == 1 ? at < 32 : at % 8 < 4);
        CHECK_NEAR(now[i], first ? a[i] : b[i], 2e-3);
    }
    graft_cond_release(mixed);
    graft_image_release(mask);
}

/* ------------------------------------------------------------------ areas */

/* The weight of cell i in a part [first, first + n) of `of` cells, as regions.h has it. */
static double falls_off(int i, int first, int n, int of)
{
    int ramp = n / 8 < 8 ? n / 8 : 8;
    double w = 1;
    if (first > 0 && i < ramp) w *= (i + 1.0) / (ramp + 1.0);
    if (first + n < of && n - 1 - i < ramp) w *= (n - i) / (ramp + 1.0);
    return w;
}

/* The sum of weighted predictions of a prompt on the part of x, which is a latent of its own, and
 * of the weights. */
static void lay(const graft_cond *k, const int at[4], double strength, const float *x, double *sum,
                double *weight)
{
    one_call all = usual(k), c = usual(k);
    float part[N], d[N];
    graft_err e = GRAFT_ERR_INIT;
    c.cfg = 1; /* of this side alone */
    c.shape[2] = at[2];
    c.shape[3] = at[3];
    part_of(&all, x, at[0], at[1], at[2], at[3], part);
    CHECK_OK(try_denoise(&c, part, d, &e), &e);
    for (int i = 0; i < 4 * at[2] * at[3]; i++) {
        int column = i % at[3], row = i / at[3] % at[2], plane = i / at[3] / at[2];
        int to = (plane * H + at[0] + row) * W + at[1] + column;
        double w = strength * falls_off(row, at[0], at[2], H) * falls_off(column, at[1], at[3], W);
        sum[to] += w * d[i];
        weight[to] += w;
    }
}

/* Areas of a positive prompt, of one size and of several, on top of each other and of a background,
 * against the composition of runs on parts. */
static void check_areas(const int (*at)[4], const double *strength, size_t n, bool background)
{
    static double sum[2][N], weight[2][N];
    float x[N], now[N];
    graft_cond *each[8], *all = NULL;
    memset(sum, 0, sizeof sum);
    memset(weight, 0, sizeof weight);
    one_call c = usual(NULL);
    noise_of(&c, x);
    for (size_t i = 0; i < n; i++) {
        each[i] = prompt(10 + i);
        lay(each[i], at[i], strength[i], x, sum[0], weight[0]);
        graft_cond *k = in_cells(graft_cond_retain(each[i]), at[i][0], at[i][1], at[i][2], at[i][3],
                                 strength[i]);
        all = all ? both(all, k) : k;
        graft_cond_release(each[i]);
    }
    graft_cond *behind = prompt(9);
    const int whole[4] = {0, 0, H, W};
    if (background) {
        lay(behind, whole, 1, x, sum[0], weight[0]);
        all = both(graft_cond_retain(behind), all);
    }
    lay(none, whole, 1, x, sum[1], weight[1]);
    graft_cond_release(behind);
    denoise_all(all, now);
    float want[N];
    for (int i = 0; i < N; i++) {
        double p = weight[0][i] > 0 ? sum[0][i] / weight[0][i] : 0, q = sum[1][i] / weight[1][i];
        want[i] = (float)(q + 3.0 * (p - q));
    }
    CHECK(difference(now, want, N) < 2e-5);
}

static void areas(void)
{
    static const int two[][4] = {{0, 0, 12, 8}, {0, 8, 12, 8}};
    static const int several[][4] = {{0, 0, 9, 16}, {2, 3, 8, 8}, {4, 8, 8, 8}, {5, 6, 3, 5}};
    static const int small[][4] = {{0, 0, 1, 1}, {11, 15, 1, 1}, {3, 2, 2, 1}};
    static const double one[] = {1, 1, 1, 1}, mixed[] = {0.5, 2, 1, 7};
    check_areas(two, one, 2, false);
    check_areas(two, mixed, 2, true);
    check_areas(several, mixed, 4, true);
    check_areas(several, one, 4, false); /* where none of them is, the prediction is 0 */
    check_areas(small, mixed, 3, true);
}

/* What sticks out is cut off, and what is outside is left out, with a word of warning. */
static void beyond_the_edge(void)
{
    float want[N], now[N], plain[N];
    denoise_all(both(prompt(2), in_cells(prompt(1), 6, 10, 6, 6, 1)), want);
    denoise_all(both(prompt(2), in_cells(prompt(1), 6, 10, 100, 6, 1)), now);
    CHECK(memcmp(now, want, sizeof now) == 0);
    denoise_all(both(prompt(2), in_cells(prompt(1), 6, 10, 6, 100, 1)), now);
    CHECK(memcmp(now, want, sizeof now) == 0);
    denoise_all(prompt(2), plain);
    static const int outside[][2] = {{H, 0}, {0, W}, {1000, 1000}};
    for (int i = 0; i < 3; i++) {
        graft_task task = {.log = {.line = keep_line}};
        graft_cond *k = both(prompt(2), in_cells(prompt(1), outside[i][0], outside[i][1], 4, 4, 1));
        one_call c = usual(k);
        c.task = &task;
        last_log[0] = 0;
        denoise(&c, now);
        CHECK(memcmp(now, plain, sizeof now) == 0);
        CHECK(strstr(last_log, "outside the picture") != NULL);
        graft_cond_release(k);
    }
}

/* Shares meet where their sums do, whatever the latent's size; a share of nothing is a cell. */
static void shares(void)
{
    float want[N], now[N];
    denoise_all(both(in_cells(prompt(1), 0, 0, H, 5, 1), in_cells(prompt(2), 0, 5, H, 6, 1)), want);
    denoise_all(both(in_area(prompt(1), (graft_area){0, 0, 0.33, 1, true}, 1),
                     in_area(prompt(2), (graft_area){0.33, 0, 0.33, 1, true}, 1)),
                now);
    CHECK(memcmp(now, want, sizeof now) == 0);
    denoise_all(both(prompt(2), in_cells(prompt(1), 6, 8, 1, 1, 1)), want);
    denoise_all(both(prompt(2), in_area(prompt(1), (graft_area){0.5, 0.5, 0, 0, true}, 1)), now);
    CHECK(memcmp(now, want, sizeof now) == 0);
    /* 0.97 of 12 and of 16 cells round to all of them. */
    denoise_all(both(prompt(2), in_cells(prompt(1), H - 1, W - 1, 1, 1, 1)), want);
    denoise_all(both(prompt(2), in_area(prompt(1), (graft_area){0.97, 0.97, 0.03, 0.03, true}, 1)),
                now);
    CHECK(memcmp(now, want, sizeof now) == 0);
}

/* "mask bounds": what the mask leaves out is not looked at either. */
static void mask_bounds(void)
{
    float want[N], now[N], v[H * W] = {0}, d[N], x[N], b[N];
    for (int y = 3; y < 9; y++)
        for (int i = 4; i < 11; i++) v[y * W + i] = 0.5f;
    v[3 * W + 4] = 0; /* its box all the same */
    graft_image *mask = mask_of(v, 1, H, W), *black = columns(H, W, 0, 0);
    graft_cond *p = prompt(1), *q = prompt(2);
    one_call all = usual(q), c = usual(p);
    all.cfg = c.cfg = 1;
    denoise(&all, b);
    noise_of(&all, x);
    float part[N];
    graft_err e = GRAFT_ERR_INIT;
    part_of(&all, x, 3, 4, 6, 7, part);
    c.shape[2] = 6, c.shape[3] = 7;
    CHECK_OK(try_denoise(&c, part, d, &e), &e);
    for (int i = 0; i < N; i++) {
        int column = i % W, row = i / W % H, plane = i / W / H;
        float w = v[row * W + column];
        want[i] = w > 0 ? (w * d[(plane * 6 + row - 3) * 7 + column - 4] + b[i]) / (w + 1) : b[i];
    }
    graft_cond *k = both(graft_cond_retain(q), masked(graft_cond_retain(p), mask, 1, true));
    all.positive = k;
    denoise(&all, now);
    CHECK(difference(now, want, N) < 1e-5);
    graft_cond_release(k);
    /* Within an area of its own, only what is in both. */
    k = both(graft_cond_retain(q),
             masked(in_cells(graft_cond_retain(p), 0, 0, 9, 6, 1), mask, 1, true));
    all.positive = k;
    denoise(&all, now);
    for (int i = 0; i < N; i++)
        if (i % W >= 6 || i / W % H < 3) CHECK_NEAR(now[i], b[i], 1e-5);
    CHECK(difference(now, b, N) > 1e-3);
    graft_cond_release(k);
    /* A black mask is no prompt. */
    k = both(graft_cond_retain(q), masked(graft_cond_retain(p), black, 1, true));
    all.positive = k;
    denoise(&all, now);
    CHECK(memcmp(now, b, sizeof now) == 0);
    graft_cond_release(k);
    graft_cond_release(p);
    graft_cond_release(q);
    graft_image_release(mask);
    graft_image_release(black);
}

/* Where no prompt is, D is 0; with guidance, the other side's part of it. */
static void nowhere(void)
{
    float now[N], negative[N];
    graft_cond *p = in_cells(prompt(1), 0, 0, H, 4, 1), *q = prompt(2);
    one_call c = usual(p);
    c.cfg = 1;
    denoise(&c, now);
    for (int i = 0; i < N; i++) CHECK(i % W < 4 ? now[i] != 0 : now[i] == 0);
    c.cfg = 3;
    c.negative = q;
    denoise(&c, now);
    c.positive = q;
    c.cfg = 1;
    denoise(&c, negative);
    for (int i = 0; i < N; i++)
        if (i % W >= 4) CHECK_NEAR(now[i], -2 * negative[i], 1e-4);
    graft_cond *gone = with_strength(graft_cond_retain(q), 0);
    c.positive = gone;
    denoise(&c, now);
    for (int i = 0; i < N; i++) CHECK(now[i] == 0);
    graft_cond_release(gone);
    graft_cond_release(p);
    graft_cond_release(q);
}

/* Each side is combined on its own. */
static void negative_areas(void)
{
    float a[N], b[N], p[N], now[N];
    graft_image *left = columns(H, W, 0, 8), *right = columns(H, W, 8, W);
    graft_cond *k[] = {prompt(1), prompt(2), prompt(3)};
    graft_cond *split = both(masked(graft_cond_retain(k[1]), left, 2, false),
                             masked(graft_cond_retain(k[2]), right, 1, false));
    float *out[] = {p, a, b};
    for (int i = 0; i < 3; i++) {
        one_call c = usual(k[i]);
        c.cfg = 1;
        denoise(&c, out[i]);
    }
    one_call c = usual(k[0]);
    c.negative = split;
    denoise(&c, now);
    for (int i = 0; i < N; i++) {
        float q = i % W < 8 ? a[i] : b[i];
        CHECK_NEAR(now[i], q + 3 * (p[i] - q), 1e-4);
    }
    graft_cond_release(split);
    for (int i = 0; i < 3; i++) graft_cond_release(k[i]);
    graft_image_release(left);
    graft_image_release(right);
}

/* ------------------------------------------------------------------ lists */

/* What other nodes make of a placed prompt is placed, and a new place replaces the old one. */
static void survives_other_nodes(void)
{
    float want[N], now[N];
    graft_err e = GRAFT_ERR_INIT;
    graft_image *left = columns(H, W, 0, 7), *right = columns(H, W, 9, W);
    graft_cond *p = masked(in_cells(prompt(1), 0, 0, H, 9, 2), left, 3, true), *q = NULL, *r = NULL;
    denoise_all(both(graft_cond_retain(p), prompt(2)), want);
    CHECK_OK(graft_cond_timestep_range(p, 0, 1, &q, &e), &e);
    CHECK_OK(graft_cond_average(q, p, 1, &r, &e), &e);
    denoise_all(both(r, prompt(2)), now);
    CHECK(memcmp(now, want, sizeof now) == 0);
    graft_cond_release(q);
    q = masked(in_cells(masked(prompt(1), right, 9, false), 5, 5, 5, 5, 9), left, 3, true);
    q = in_cells(q, 0, 0, H, 9, 2);
    denoise_all(both(q, prompt(2)), now);
    CHECK(memcmp(now, want, sizeof now) == 0);
    graft_cond_release(p);
    graft_image_release(left);
    graft_image_release(right);
}

static void refusals(void)
{
    static const double wrong[] = {-1, NAN, INFINITY};
    graft_cond *p = prompt(1), *out = NULL;
    graft_image *mask = columns(H, W, 0, 7), *picture = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_area whole = {0, 0, 1, 1, true};
    CHECK_OK(graft_mask_to_image(mask, &picture, &e), &e);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(graft_cond_strength(p, wrong[i], &out, &e), GRAFT_E_ARG);
        CHECK_INT(graft_cond_area(p, &whole, wrong[i], &out, &e), GRAFT_E_ARG);
        CHECK_INT(graft_cond_mask(p, mask, wrong[i], false, &out, &e), GRAFT_E_ARG);
        for (int k = 0; k < 4; k++) {
            double v[4] = {0, 0, 64, 64};
            v[k] = wrong[i];
            const graft_area a = {v[0], v[1], v[2], v[3], false};
            CHECK_INT(graft_cond_area(p, &a, 1, &out, &e), GRAFT_E_ARG);
        }
    }
    CHECK_INT(graft_cond_mask(p, picture, 1, false, &out, &e), GRAFT_E_ARG);
    CHECK(out == NULL);
    graft_image_release(picture);
    graft_image_release(mask);
    graft_cond_release(p);
}

static void all(void)
{
    none = prompt(99);
    RUN(whole_is_nothing);
    RUN(halves);
    RUN(strengths_are_ratios);
    RUN(masks_are_resized);
    RUN(batches);
    RUN(areas);
    RUN(beyond_the_edge);
    RUN(shares);
    RUN(mask_bounds);
    RUN(nowhere);
    RUN(negative_areas);
    RUN(survives_other_nodes);
    RUN(refusals);
    graft_cond_release(none);
}

int main(void)
{
    engine = make_engine("cpu");
    tolerance = 1e-5;
    model = load_model(engine, SD1);
    all();
    graft_model_release(model);
    model = load_model(engine, SDXL); /* each row has a y of its own */
    none = prompt(99);
    RUN(areas);
    RUN(halves);
    graft_cond_release(none);
    graft_model_release(model);
    graft_engine_destroy(engine);
    engine = make_engine("ref");
    tolerance = 0;
    model = load_model(engine, SD1);
    none = prompt(99);
    RUN(whole_is_nothing);
    RUN(halves);
    graft_cond_release(none);
    graft_model_release(model);
    graft_engine_destroy(engine);
    return test_end();
}
