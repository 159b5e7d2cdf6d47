/* Memory budgets, tiles, compiling without a run, the cache through the engine, and what compiling
 * costs: on the demo checkpoint and on the public architectures without their weights. */
#include <math.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "tests/engine/arches.h"
#include "tests/engine/fixture.h"

static const char *cache_folder(void)
{
    return temp_path("budget-cache");
}

static graft_engine *engine_with_cache(const char *folder, int threads)
{
    graft_engine_config c = {
        .kernel_dir = GRAFT_LIB_DIR, .backend = "cpu", .threads = threads, .cache_dir = folder};
    graft_engine *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    c.log.line = keep_line;
    setenv("GRAFT_PRECISION", "f32", 1);
    CHECK_OK(graft_engine_create(&c, &g, &e), &e);
    return g;
}

static graft_vae *load_vae(graft_engine *g)
{
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vae_load(g, DEMO, NULL, &v, &e), &e);
    return v;
}

static graft_vae *compile_vae(const graft_vae *v, int64_t mb)
{
    graft_vae *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_compile_options o = {.tuning = "off", .max_memory_mb = mb};
    CHECK_OK(graft_vae_compile(v, &o, NULL, &out, &e), &e);
    return out;
}

/* What the VAE makes of a picture, enlarged: latents as sampling gives them. */
static graft_latent *make_latent(const graft_vae *v, int64_t side)
{
    graft_latent *l = NULL;
    graft_image *picture = NULL, *large = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_load(GRAFT_SOURCE_DIR "/input/apple.png", &picture, NULL, &e), &e);
    CHECK_OK(graft_image_scale(picture, "bicubic", side * 8, side * 8, false, &large, &e), &e);
    CHECK_OK(graft_vae_encode(v, large, NULL, NULL, &l, &e), &e);
    graft_image_release(picture);
    graft_image_release(large);
    return l;
}

static graft_image *decode(const graft_vae *v, const graft_latent *l, graft_err *e)
{
    graft_image *i = NULL;
    return graft_vae_decode(v, l, NULL, NULL, &i, e) == GRAFT_OK ? i : NULL;
}

/* Mean jump from line k - 1 to line k of one channel. */
static double jump_at(const float *d, int64_t height, int64_t width, bool rows, int64_t k)
{
    int64_t length = rows ? width : height;
    double jump = 0;
    for (int64_t i = 0; i < length; i++) {
        int64_t here = rows ? k * width + i : i * width + k;
        jump += fabs((double)d[here] - (double)d[rows ? here - width : here - 1]);
    }
    return jump / (double)length;
}

/* A seam is a line along which the difference jumps more than beside it: where a tile begins or
 * ends, over the mean of the lines around. */
static double seam_at(const float *d, int64_t height, int64_t width, bool rows, int64_t k)
{
    double around = 0;
    int n = 0;
    for (int64_t i = k - 8; i <= k + 8; i++) {
        if (i >= k - 1 && i <= k + 1) continue;
        around += jump_at(d, height, width, rows, i);
        n++;
    }
    return jump_at(d, height, width, rows, k) / (around / n + 1e-9);
}

/* The difference of one channel; *most and *mean are of all. */
static float *difference_of(const graft_image *a, const graft_image *b, double *most, double *mean)
{
    int64_t s[4];
    const float *p = graft_image_data(a, s), *q = graft_image_data(b, s);
    int64_t n = s[1] * s[2] * s[3];
    float *green = calloc((size_t)n, sizeof *green);
    *most = *mean = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)p[i] - (double)q[i];
        if (!(fabs(d) <= *most)) *most = fabs(d);
        *mean += fabs(d) / (double)n;
        if (i % s[3] == 1) green[i / s[3]] = (float)d;
    }
    return green;
}

/* Two by two tiles of 256 pixels over 384, of which 128 to 256 is common to both. */
static void seams(const graft_vae *v, const graft_latent *l, const graft_image *whole)
{
    const graft_tiling tiling = {256, 64};
    graft_image *tiled = NULL;
    graft_err e = GRAFT_ERR_INIT;
    double most, mean;
    CHECK_OK(graft_vae_decode(v, l, &tiling, NULL, &tiled, &e), &e);
    if (!tiled || !whole) return;
    float *d = difference_of(tiled, whole, &most, &mean);
    for (int rows = 0; rows < 2; rows++)
        for (int64_t line = 128; line <= 256; line += 64) {
            double seam = seam_at(d, 384, 384, rows, line);
            printf("     %s %lld: the difference jumps %.2f times as much as beside it\n",
                   rows ? "row" : "column", (long long)line, seam);
            CHECK(seam < 1.5);
        }
    free(d);
    graft_image_release(tiled);
}

/* The budget that the error names does, one below it does not. */
static void vae_budget(void)
{
    graft_engine *g = make_engine("cpu");
    graft_err e = GRAFT_ERR_INIT;
    graft_vae *v = load_vae(g);
    graft_latent *l = make_latent(v, 48);
    graft_image *whole = decode(v, l, &e);
    CHECK(whole != NULL);
    seams(v, l, whole);
    graft_vae *tight = compile_vae(v, 1);
    CHECK(!decode(tight, l, &e) && e.code == GRAFT_E_LIMIT);
    const char *at = strstr(e.text, "would do is ");
    CHECK(at != NULL);
    int64_t smallest = at ? atoll(at + strlen("would do is ")) : 0;
    graft_vae_release(tight);
    tight = compile_vae(v, smallest - 1);
    CHECK(!decode(tight, l, &e));
    graft_vae_release(tight);
    tight = compile_vae(v, smallest);
    graft_image *again = decode(tight, l, &e);
    CHECK(again != NULL);
    graft_image_release(again);
    graft_vae_release(tight);
    graft_image_release(whole);
    graft_latent_release(l);
    graft_vae_release(v);
    graft_engine_destroy(g);
}

/* What is said before a run is what the run takes. */
static void predicted_peak(void)
{
    graft_engine *g = make_engine("cpu");
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(g, SD1);
    float out[OUT];
    graft_binding *b = NULL;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    uint64_t arena = (uint64_t)b->exe->arena_bytes, weights = b->exe->weight_bytes;
    run_model(m, out);
    graft_packs_stats packs;
    graft_packs_stats_get(g->packs, &packs);
    printf("     predicted %.2f MB, measured %.2f MB\n", (double)(arena + weights) / 1048576,
           (double)(graft_arenas_bytes(g->arenas) + packs.bytes) / 1048576);
    CHECK(graft_arenas_bytes(g->arenas) == arena);
    CHECK(packs.bytes <= weights && packs.bytes > weights / 2); /* equal contents are shared */
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
}

static void global_budget(void)
{
    float out[OUT], first[OUT];
    setenv("GRAFT_MEMORY_MB", "1", 1);
    graft_engine *g = make_engine("cpu");
    graft_err e = GRAFT_ERR_INIT;
    graft_binding *b = NULL;
    graft_model *m = load_model(g, SDXL);
    CHECK(graft_model_bind(m, 1, 64, 64, TOKENS, NULL, &b, &e) == GRAFT_E_LIMIT);
    CHECK(strstr(e.text, "GRAFT_MEMORY_MB") != NULL);
    graft_model_release(m);
    graft_engine_destroy(g);
    setenv("GRAFT_MEMORY_MB", "8", 1); /* room for one of these models, not for three */
    g = make_engine("cpu");
    const char *const files[] = {SD1, SD2, SDXL, SD1};
    for (int i = 0; i < 4; i++) {
        m = load_model(g, files[i]);
        run_model(m, out);
        if (i == 0) memcpy(first, out, sizeof first);
        graft_packs_stats packs;
        graft_packs_stats_get(g->packs, &packs);
        CHECK(packs.bytes + graft_arenas_bytes(g->arenas) <= (uint64_t)8 << 20);
        graft_model_release(m);
    }
    CHECK(same_bits(first, out));
    graft_engine_destroy(g);
    unsetenv("GRAFT_MEMORY_MB");
}

/* ------------------------------------------------------------------ compiling only */

static void prepare_only(void)
{
    const char *folder = cache_folder();
    graft_engine *g = engine_with_cache(folder, 1);
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = NULL;
    graft_clip *c = NULL;
    graft_vae *v = NULL;
    graft_cond *pos = NULL, *neg = NULL;
    graft_latent *l = NULL, *out = NULL, *encoded = NULL;
    graft_image *picture = NULL;
    const graft_task idle = {.compile_only = true};
    const graft_sample_params p = {.seed = 1,
                                   .add_noise = true,
                                   .steps = 3,
                                   .cfg = 5,
                                   .sampler = "euler",
                                   .scheduler = "normal",
                                   .denoise = 1,
                                   .end_at_step = 10000};
    CHECK_OK(graft_checkpoint_load(g, DEMO, &idle, &m, &c, &v, &e), &e);
    CHECK_OK(graft_clip_encode(c, "a cat", &idle, &pos, &e), &e);
    CHECK_OK(graft_clip_encode(c, "", &idle, &neg, &e), &e);
    CHECK_OK(graft_latent_empty(4, 64, 64, 1, &l, &e), &e);
    CHECK_OK(graft_sample(m, &p, pos, neg, l, &idle, &out, &e), &e);
    CHECK_OK(graft_vae_decode(v, out, NULL, &idle, &picture, &e), &e);
    CHECK_OK(graft_vae_encode(v, picture, NULL, &idle, &encoded, &e), &e);
    int64_t s[4];
    const float *pixel = graft_image_data(picture, s);
    CHECK(s[1] == 64 && s[2] == 64 && s[3] == 3 && pixel[0] == 0.5f);
    graft_exe **list;
    size_t n;
    uint64_t runs = 0;
    CHECK_OK(graft_compiled_list(g->compiled, &list, &n, &e), &e);
    for (size_t i = 0; i < n; i++) runs += list[i]->times.runs;
    CHECK(n == 4 && runs == 0);
    graft_compiled_list_free(list, n);
    /* The run itself compiles nothing more. */
    graft_cond *real_pos = NULL, *real_neg = NULL;
    graft_latent *real = NULL;
    graft_image *shown = NULL;
    CHECK_OK(graft_clip_encode(c, "a cat", NULL, &real_pos, &e), &e);
    CHECK_OK(graft_clip_encode(c, "", NULL, &real_neg, &e), &e);
    CHECK_OK(graft_sample(m, &p, real_pos, real_neg, l, NULL, &real, &e), &e);
    CHECK_OK(graft_vae_decode(v, real, NULL, NULL, &shown, &e), &e);
    graft_compiled_stats stats;
    graft_compiled_stats_get(g->compiled, &stats);
    CHECK(stats.built == 4 && stats.from_disk == 0);
    graft_cond_release(real_pos);
    graft_cond_release(real_neg);
    graft_latent_release(real);
    graft_image_release(shown);
    graft_cond_release(pos);
    graft_cond_release(neg);
    graft_latent_release(l);
    graft_latent_release(out);
    graft_latent_release(encoded);
    graft_image_release(picture);
    graft_model_release(m);
    graft_clip_release(c);
    graft_vae_release(v);
    uint64_t removed;
    CHECK_OK(graft_cache_clear(g, &removed, &e), &e);
    CHECK(removed == 4 && strcmp(graft_cache_folder(g), folder) == 0);
    graft_engine_destroy(g);
    rmdir(folder);
}

/* ------------------------------------------------------------------ what compiling costs */

static double cpu_seconds(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static uint64_t entry_bytes;
static void sum_bytes(void *ctx, const char *name, uint64_t bytes, int64_t modified, bool good)
{
    (void)ctx, (void)name, (void)modified;
    CHECK(good);
    entry_bytes += bytes;
}

/* Compiles the UNet in an engine of its own; times are of the processor, the machine may be busy.
 */
static void compile_once(const char *name, const graft_unet_arch *a, const char *folder,
                         double limit)
{
    graft_engine *g = engine_with_cache(folder, 0);
    graft_err e = GRAFT_ERR_INIT;
    graft_net_shape shape;
    graft_exe *x = NULL;
    memset(&shape, 0, sizeof shape);
    shape.batch = 2;
    shape.height = shape.width = 64;
    shape.tokens = 77;
    shape.act_dtype = GRAFT_F32;
    graft_compile_job job = {.kind = "unet",
                             .arch = a,
                             .arch_bytes = sizeof *a,
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .use_disk = true,
                             .build = arch_build_unet};
    CHECK_OK(graft_backends_get(&g->backends, "cpu", &job.backend, &e), &e);
    double wall = graft_clock_now(), cpu = cpu_seconds();
    CHECK_OK(graft_compiled_get(g->compiled, &job, NULL, &x, &e), &e);
    cpu = cpu_seconds() - cpu;
    wall = graft_clock_now() - wall;
    graft_compiled_stats stats;
    graft_compiled_stats_get(g->compiled, &stats);
    entry_bytes = 0;
    CHECK_OK(graft_cache_list(g, true, sum_bytes, NULL, &e), &e);
    printf("     %s %s: %.0f ms, %.0f ms of processor time; %llu bytes on disk\n", name,
           stats.from_disk ? "from disk" : "cold", 1e3 * wall, 1e3 * cpu,
           (unsigned long long)entry_bytes);
    CHECK(entry_bytes > 10000 && entry_bytes < 1000000);
    if (cpu > limit) printf("     above the aim of %.2f s\n", limit);
    graft_exe_release(x);
    graft_engine_destroy(g);
}

/* In a process of its own: what the kernel library has made once it would find again. */
static void compile_in_child(const char *name, const graft_unet_arch *a, const char *folder,
                             double limit)
{
    int status = -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        compile_once(name, a, folder, limit);
        fflush(NULL);
        _exit(test_failures != 0);
    }
    waitpid(pid, &status, 0);
    CHECK(status == 0);
}

static void compile_costs(void)
{
    graft_unet_arch sd15 = arch_sd15(), sdxl = arch_sdxl();
    const struct {
        const char *name;
        const graft_unet_arch *arch;
        double cold, cached;
    } all[] = {{"sd1.5 unet", &sd15, 0.5, 0.05}, {"sdxl unet", &sdxl, 1.0, 0.1}};
    for (int i = 0; i < 2; i++) {
        const char *folder = cache_folder();
        graft_err e = GRAFT_ERR_INIT;
        size_t removed;
        compile_in_child(all[i].name, all[i].arch, folder, all[i].cold);
        compile_in_child(all[i].name, all[i].arch, folder, all[i].cached);
        graft_disk_cache *disk = NULL;
        CHECK_OK(graft_disk_cache_create(folder, 1 << 30, NULL, &disk, &e), &e);
        CHECK_OK(graft_disk_cache_clear(disk, &removed, &e), &e);
        CHECK(removed == 1);
        graft_disk_cache_destroy(disk);
        rmdir(folder);
    }
}

int main(void)
{
    RUN(compile_costs); /* first: its processes must find no library at work */
    RUN(vae_budget);
    RUN(predicted_peak);
    RUN(global_budget);
    RUN(prepare_only);
    return test_end();
}
