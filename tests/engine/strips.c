/* A VAE in less memory than it takes in one piece: the same pictures at every budget, and budgets
 * that are kept. On the demo checkpoint. */
#include <math.h>

#include "base/alloc.h"
#include "base/half.h"
#include "engine/pictures/moments.h"
#include "engine/pictures/strip_plan.h"
#include "tests/engine/fixture.h"

/* ------------------------------------------------------------------ statistics */

typedef struct naive {
    double mean, variance;
} naive;

static naive naive_of(const float *x, int64_t pixels, int64_t channels, int64_t first, int64_t n)
{
    naive v = {0, 0};
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t c = first; c < first + n; c++) v.mean += (double)x[p * channels + c];
    v.mean /= (double)(pixels * n);
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t c = first; c < first + n; c++) {
            double d = (double)x[p * channels + c] - v.mean;
            v.variance += d * d;
        }
    v.variance /= (double)(pixels * n);
    return v;
}

static void to_dtype(graft_dtype t, const float *x, void *out, float *back, size_t n)
{
    if (t == GRAFT_BF16) {
        graft_f32_to_bf16_array(x, out, n);
        graft_bf16_to_f32_array(out, back, n);
    } else if (t == GRAFT_F16) {
        graft_f32_to_f16_array(x, out, n);
        graft_f16_to_f32_array(out, back, n);
    } else {
        memcpy(out, x, n * sizeof *x);
        memcpy(back, x, n * sizeof *x);
    }
}

/* Rows in three portions; a mean that is large beside the deviation, and one channel apart. */
static void moments_of_rows(void)
{
    enum { ROWS = 13, WIDTH = 17, CHANNELS = 12, GROUPS = 4, N = ROWS * WIDTH * CHANNELS };
    static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_BF16, GRAFT_F16};
    static float x[N], back[N], data[N], out[GROUPS * 2];
    for (int large = 0; large < 2; large++)
        for (int t = 0; t < 3; t++) {
            graft_moments m;
            graft_err e = GRAFT_ERR_INIT;
            size_t row = WIDTH * CHANNELS * graft_dtype_size(dtypes[t]);
            for (int i = 0; i < N; i++)
                x[i] = random_value() + (large ? 1000.0f : 0.5f) + (i % CHANNELS == 5 ? 3.0f : 0);
            to_dtype(dtypes[t], x, data, back, N);
            CHECK_OK(graft_moments_begin(CHANNELS, WIDTH, &m, &e), &e);
            graft_moments_add(&m, dtypes[t], data, 1);
            graft_moments_add(&m, dtypes[t], (char *)data + row, 0);
            graft_moments_add(&m, dtypes[t], (char *)data + row, 7);
            graft_moments_add(&m, dtypes[t], (char *)data + 8 * row, ROWS - 8);
            graft_moments_take(&m, GROUPS, out);
            graft_moments_end(&m);
            for (int g = 0; g < GROUPS; g++) {
                naive v = naive_of(back, ROWS * WIDTH, CHANNELS, g * CHANNELS / GROUPS,
                                   CHANNELS / GROUPS);
                CHECK(fabs((double)out[2 * g] - v.mean) <= 1e-6 * fabs(v.mean));
                CHECK(fabs((double)out[2 * g + 1] - v.variance) <= 1e-5 * v.variance);
            }
        }
}

/* ------------------------------------------------------------------ pictures */

static graft_vae *load_vae(graft_engine *g)
{
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vae_load(g, DEMO, NULL, &v, &e), &e);
    return v;
}

static graft_vae *within(const graft_vae *v, const char *precision, int64_t mb)
{
    graft_vae *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_compile_options o = {
        .precision = precision, .tuning = "off", .max_memory_mb = mb, .tile = true};
    CHECK_OK(graft_vae_compile(v, &o, NULL, &out, &e), &e);
    return out;
}

/* A picture that differs from place to place, so that a part's statistics are not the whole's. */
static graft_image *make_picture(int64_t width, int64_t height)
{
    graft_image *apple = NULL, *large = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_load(GRAFT_SOURCE_DIR "/input/apple.png", &apple, NULL, &e), &e);
    CHECK_OK(graft_image_scale(apple, "bicubic", width, height, false, &large, &e), &e);
    graft_image_release(apple);
    return large;
}

static double most_apart(const float *a, const float *b, int64_t n, double *mean)
{
    double most = 0;
    *mean = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= most)) most = d;
        *mean += d / (double)n;
    }
    return most;
}

/* Encodes a picture and decodes a latent; NULL members where the budget was too small. */
typedef struct both {
    graft_latent *latent;
    graft_image *image;
    int64_t least; /* the greater of the budgets that errors named, 0 without any */
} both;

static int64_t named_budget(const graft_err *e)
{
    const char *at = strstr(e->text, "would do is ");
    CHECK(e->code == GRAFT_E_LIMIT && at != NULL);
    return at ? atoll(at + strlen("would do is ")) : 0;
}

/* What a half takes is kept to its budget: weights, and the arena, which is as large as the largest
 * run needed. */
static void begin_half(const graft_vae *v)
{
    graft_packs_trim(v->engine->packs, 0);
    graft_arenas_trim(v->engine->arenas);
}

static void end_half(const graft_vae *v)
{
    graft_packs_stats packs;
    graft_packs_stats_get(v->engine->packs, &packs);
    uint64_t bytes = graft_arenas_bytes(v->engine->arenas) + packs.bytes;
    CHECK(!v->options.max_bytes || bytes <= (uint64_t)v->options.max_bytes);
}

static both run_both(const graft_vae *v, const graft_image *picture, const graft_latent *latent)
{
    both b = {0};
    graft_err e = GRAFT_ERR_INIT;
    begin_half(v);
    if (graft_vae_encode(v, picture, NULL, NULL, &b.latent, &e)) b.least = named_budget(&e);
    end_half(v);
    begin_half(v);
    e = (graft_err)GRAFT_ERR_INIT;
    if (graft_vae_decode(v, latent ? latent : b.latent, NULL, NULL, &b.image, &e)) {
        int64_t mb = named_budget(&e);
        if (mb > b.least) b.least = mb;
    }
    end_half(v);
    return b;
}

static void both_release(both *b)
{
    graft_latent_release(b->latent);
    graft_image_release(b->image);
}

/* Prints and returns how far apart they are, as shares of the latent's and picture's ranges. */
static void apart(const both *a, const both *b, double out[2], double mean[2])
{
    int64_t s[4];
    const float *x = graft_latent_data(a->latent, s), *y = graft_latent_data(b->latent, s);
    out[0] = most_apart(x, y, s[0] * s[1] * s[2] * s[3], &mean[0]);
    x = graft_image_data(a->image, s);
    y = graft_image_data(b->image, s);
    out[1] = most_apart(x, y, s[0] * s[1] * s[2] * s[3], &mean[1]);
}

static int64_t least_budget(const graft_vae *v, const char *precision, const graft_image *picture,
                            const graft_latent *latent)
{
    graft_vae *one = within(v, precision, 1);
    both b = run_both(one, picture, latent);
    CHECK(!b.latent && !b.image);
    both_release(&b);
    graft_vae_release(one);
    return b.least;
}

/* Budgets from the least that does to what one piece takes: each is kept, and gives the picture of
 * the whole. float32 is off by rounding; bf16 is as far from float32 as in one piece. */
static void same_picture(int64_t width, int64_t height, const char *precision)
{
    graft_engine *g = make_engine("cpu");
    graft_vae *v = load_vae(g), *plain = within(v, precision, 0), *exact = within(v, "f32", 0);
    graft_image *picture = make_picture(width, height);
    both whole = run_both(plain, picture, NULL), f32 = run_both(exact, picture, whole.latent);
    double off[2], mean[2], rounding[2], rounding_mean[2];
    bool narrow = strcmp(precision, "f32") != 0;
    apart(&whole, &f32, rounding, rounding_mean);
    int64_t least = least_budget(v, precision, picture, whole.latent), mb = least;
    graft_vae *below = within(v, precision, least - 1);
    both none = run_both(below, picture, whole.latent);
    CHECK(!none.latent || !none.image);
    CHECK_INT(none.least, least);
    both_release(&none);
    graft_vae_release(below);
    for (int i = 0; i < 5; i++, mb += mb / 3 + 1) {
        if (UNDER_SANITIZER && i % 2) continue;
        graft_vae *tight = within(v, precision, mb);
        both b = run_both(tight, picture, whole.latent);
        CHECK(b.latent && b.image);
        apart(&b, &whole, off, mean);
        printf("     %lldx%lld %s in %lld MB: latent off by %.2g at most, picture by %.2g\n",
               (long long)width, (long long)height, precision, (long long)mb, off[0], off[1]);
        if (narrow) apart(&b, &f32, off, mean);
        for (int k = 0; k < 2; k++) {
            CHECK(off[k] <= (narrow ? 1.5 * rounding[k] : 1e-4));
            CHECK(mean[k] <= (narrow ? 1.1 * rounding_mean[k] : 1e-5));
        }
        both_release(&b);
        graft_vae_release(tight);
    }
    both_release(&whole);
    both_release(&f32);
    graft_image_release(picture);
    graft_vae_release(plain);
    graft_vae_release(exact);
    graft_vae_release(v);
    graft_engine_destroy(g);
}

static bool has_bf16(void)
{
    graft_engine *g = make_engine("cpu");
    graft_vae *v = load_vae(g), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_compile_options o = {.precision = "bf16", .tuning = "off"};
    graft_status st = graft_vae_compile(v, &o, NULL, &out, &e);
    if (st == GRAFT_E_UNSUPPORTED) printf("     skipped: %s\n", e.text);
    graft_vae_release(out);
    graft_vae_release(v);
    graft_engine_destroy(g);
    return st != GRAFT_E_UNSUPPORTED;
}

static void same_pictures(void)
{
    if (UNDER_SANITIZER)
        printf("skipped: two of five budgets, two of four sizes; the plain build tries all\n");
    same_picture(72, 392, "f32");
    if (!UNDER_SANITIZER) same_picture(264, 200, "f32");
    if (!UNDER_SANITIZER) same_picture(392, 104, "f32");
    if (has_bf16()) same_picture(200, 264, "bf16");
}

/* ------------------------------------------------------------------ the process */

/* "VmHWM" or "RssAnon" of this process, in bytes; 0 where the system does not say. */
static int64_t process_bytes(const char *what)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long kb = 0;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, what, strlen(what)) == 0) kb = atol(line + strlen(what) + 1);
    if (f) fclose(f);
    return (int64_t)kb << 10;
}

static bool reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    bool done = f && fputs("5", f) >= 0;
    return f && !fclose(f) && done;
}

/* What the process has more of at its worst: the budget, the picture and little else. All is
 * compiled before, and the weights' file was read. */
static void budget_of_the_process(void)
{
    graft_engine *g = make_engine("cpu");
    graft_vae *v = load_vae(g);
    graft_image *picture = make_picture(512, 384), *out = NULL;
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_task idle = {.compile_only = true};
    CHECK_OK(graft_vae_encode(v, picture, NULL, NULL, &l, &e), &e);
    for (int64_t mb = 40; mb <= 120; mb += 40) {
        graft_vae *tight = within(v, "f32", mb);
        CHECK_OK(graft_vae_decode(tight, l, NULL, &idle, &out, &e), &e);
        graft_image_release(out);
        graft_packs_trim(g->packs, 0);
        graft_arenas_trim(g->arenas);
        graft_alloc_trim();
        int64_t before = process_bytes("VmRSS"), peak;
        if (UNDER_SANITIZER || !before || !reset_peak()) {
            printf("     skipped: the peak of this process cannot be measured here\n");
        } else {
            CHECK_OK(graft_vae_decode(tight, l, NULL, NULL, &out, &e), &e);
            peak = process_bytes("VmHWM") - before;
            printf("     %lld MiB: the process grew by %.1f MiB at most\n", (long long)mb,
                   (double)peak / 1048576);
            CHECK(peak <= (mb + 8) << 20);
            graft_image_release(out);
        }
        graft_vae_release(tight);
    }
    graft_latent_release(l);
    graft_image_release(picture);
    graft_vae_release(v);
    graft_engine_destroy(g);
}

/* ------------------------------------------------------------------ plans */

/* Segments follow each other, each takes what the budget has, and more memory is never slower. */
static void plans(void)
{
    graft_engine *g = make_engine("cpu");
    graft_vae *v = load_vae(g);
    graft_err e = GRAFT_ERR_INIT;
    uint64_t before = 0;
    for (int64_t mb = 30; mb <= 300; mb += 27) {
        graft_vae *tight = within(v, "f32", mb);
        graft_strip_plan p;
        CHECK_OK(graft_strip_plan_make(tight, true, 40, 48, NULL, &p, &e), &e);
        uint64_t rows = 0;
        for (size_t i = 0; i < p.n; i++) {
            const graft_strip_segment *s = &p.segment[i];
            CHECK_INT(s->first, i ? p.segment[i - 1].end : 0);
            CHECK(s->bytes <= mb << 20 && s->weight_bytes <= s->bytes);
            CHECK(graft_strip_whole(s) || s->rows == s->step + 2 * s->halo);
            rows += (uint64_t)(s->end - s->first) * (graft_strip_whole(s) ? 1 : 2);
        }
        CHECK_INT(p.segment[p.n - 1].end, p.half.n);
        CHECK(!before || rows <= before);
        before = rows;
        graft_vae_release(tight);
    }
    CHECK(before > 0);
    graft_vae_release(v);
    graft_engine_destroy(g);
}

static void count_entry(void *ctx, const char *name, uint64_t bytes, int64_t modified, bool good)
{
    (void)name, (void)bytes, (void)modified, (void)good;
    ++*(int *)ctx;
}

/* A search leaves nothing on the disk, where reading would take as long as searching again, but the
 * decoder in one piece, which was tried first. */
static void no_part_is_kept(void)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s", temp_path("strips-cache"));
    const graft_engine_config c = {
        .kernel_dir = GRAFT_LIB_DIR, .backend = "cpu", .threads = 1, .cache_dir = folder};
    const graft_compile_options o = {
        .precision = "f32", .tuning = "off", .max_memory_mb = 30, .tile = true, .cache = true};
    const graft_task idle = {.compile_only = true};
    graft_engine *g = NULL;
    graft_vae *tight = NULL;
    graft_latent *l = NULL;
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_compiled_stats stats;
    int entries = 0;
    uint64_t cleared;
    CHECK_OK(graft_engine_create(&c, &g, &e), &e);
    graft_vae *v = load_vae(g);
    CHECK_OK(graft_vae_compile(v, &o, NULL, &tight, &e), &e);
    CHECK_OK(graft_latent_empty(4, 320, 320, 1, &l, &e), &e);
    CHECK_OK(graft_vae_decode(tight, l, NULL, &idle, &out, &e), &e);
    graft_compiled_stats_get(g->compiled, &stats);
    CHECK_OK(graft_cache_list(g, false, count_entry, &entries, &e), &e);
    CHECK(stats.built > 10);
    CHECK_INT(entries, 1);
    CHECK_OK(graft_cache_clear(g, &cleared, &e), &e);
    graft_image_release(out);
    graft_latent_release(l);
    graft_vae_release(tight);
    graft_vae_release(v);
    graft_engine_destroy(g);
    rmdir(folder);
}

typedef struct watch {
    uint64_t done, total, runs, cancel_at;
    bool fell;
} watch;

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    watch *w = ctx;
    if (total < 2) return;
    if (done < w->done || done > total) w->fell = true;
    w->done = done;
    w->total = total;
    w->runs++;
}

static bool on_cancelled(void *ctx)
{
    const watch *w = ctx;
    return w->cancel_at && w->runs >= w->cancel_at;
}

/* Compiling ahead leaves nothing to compile; progress ends at its total; cancelling ends the run.
 */
static void ahead_and_cancelled(void)
{
    graft_engine *g = make_engine("cpu");
    graft_vae *v = load_vae(g), *tight = within(v, "f32", 30);
    graft_image *picture = make_picture(320, 320), *out = NULL;
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_compiled_stats ahead, after;
    watch w = {0};
    const graft_task idle = {.compile_only = true};
    const graft_task task = {.ctx = &w, .progress = on_progress, .cancelled = on_cancelled};
    CHECK_OK(graft_vae_encode(v, picture, NULL, NULL, &l, &e), &e);
    CHECK_OK(graft_vae_decode(tight, l, NULL, &idle, &out, &e), &e);
    graft_image_release(out);
    graft_compiled_stats_get(g->compiled, &ahead);
    CHECK_OK(graft_vae_decode(tight, l, NULL, &task, &out, &e), &e);
    graft_image_release(out);
    graft_compiled_stats_get(g->compiled, &after);
    CHECK_INT(after.built, ahead.built);
    CHECK(w.total > 2 && w.done == w.total && !w.fell);
    w = (watch){.cancel_at = 3};
    out = NULL;
    CHECK(graft_vae_decode(tight, l, NULL, &task, &out, &e) == GRAFT_E_CANCEL && !out);
    CHECK_INT(w.runs, 3);
    graft_latent_release(l);
    graft_image_release(picture);
    graft_vae_release(tight);
    graft_vae_release(v);
    graft_engine_destroy(g);
}

static void on_share(void *ctx, uint64_t done, uint64_t total)
{
    double *share = ctx, now = (double)done / (double)total;
    CHECK(now >= *share && now <= 1);
    *share = now;
}

/* All pictures of a batch are one task: no picture begins again at nothing. */
static void progress_of_a_batch(void)
{
    if (UNDER_SANITIZER) {
        printf("skipped: progress of a batch; the plain build looks at it\n");
        return;
    }
    graft_engine *g = make_engine("cpu");
    graft_vae *v = load_vae(g), *tight = within(v, "f32", 30);
    graft_image *out = NULL;
    graft_latent *l = NULL, *back = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_tiling tiles = {64, 16};
    CHECK_OK(graft_latent_empty(4, 320, 320, 2, &l, &e), &e);
    for (int strips = 0; strips < 2; strips++) {
        double share = 0;
        const graft_task task = {.ctx = &share, .progress = on_share},
                         idle = {.compile_only = true};
        const graft_tiling *tiling = strips ? NULL : &tiles;
        CHECK_OK(graft_vae_decode(tight, l, tiling, &idle, &out, &e), &e);
        graft_image_release(out);
        CHECK_OK(graft_vae_decode(tight, l, tiling, &task, &out, &e), &e);
        CHECK(share == 1);
        share = 0;
        CHECK_OK(graft_vae_encode(tight, out, tiling, &idle, &back, &e), &e);
        graft_latent_release(back);
        CHECK_OK(graft_vae_encode(tight, out, tiling, &task, &back, &e), &e);
        CHECK(share == 1);
        graft_latent_release(back);
        graft_image_release(out);
    }
    graft_latent_release(l);
    graft_vae_release(tight);
    graft_vae_release(v);
    graft_engine_destroy(g);
}

int main(void)
{
    RUN(moments_of_rows);
    RUN(budget_of_the_process);
    RUN(same_pictures);
    RUN(plans);
    RUN(no_part_is_kept);
    RUN(ahead_and_cancelled);
    RUN(progress_of_a_batch);
    return test_end();
}
