/* graft-bench-swap: what one compiled graph for many weights costs and saves.
 *
 *   graft-bench-swap SD15.safetensors [--json FILE] [--backend NAME] [--only PART]
 *
 * Parts: arenas, plugin, soak, second, disk, compiling, shapes, vae.
 *
 * The second checkpoint is made beside the first: the same file with one bit turned in each tensor
 * of the UNet, so that text encoder and VAE are shared and every UNet weight must be packed anew.
 */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "bench/record.h"
#include "engine/image/latent.h"
#include "tests/engine/arches.h"

#define SMALL_MODEL GRAFT_SOURCE_DIR "/golden/small/unet_sd1.safetensors"
#define UNET        "model.diffusion_model."

enum { SIDE = 64, TOKENS = 77, BATCH = 2, CYCLES = 1000 };

typedef struct bench {
    const char *json, *backend, *first;
    char second[1024], folder[256], how[256];
} bench;

static void note(const bench *b, const char *name, double value, const char *unit)
{
    record(b->json, name, value, unit, b->how);
}

static graft_engine *open_engine(const bench *b, const char *backend, const char *cache)
{
    graft_engine_config c = {
        .kernel_dir = GRAFT_LIB_DIR, .backend = backend ? backend : b->backend, .cache_dir = cache};
    graft_engine *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_engine_create(&c, &g, &e), &e);
    return g;
}

/* ------------------------------------------------------------------ the second checkpoint */

/* Copies `from` and turns the lowest bit of the first number of each tensor below `prefix`. */
static void make_variant(const char *from, const char *to, const char *prefix, unsigned bit)
{
    graft_safetensors *f = NULL;
    graft_mapping map;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_file_map(from, &map, &e), &e);
    must(graft_safetensors_open_memory(map.data, map.size, from, &f, &e), &e);
    FILE *out = fopen(to, "wb");
    int failed = !out || fwrite(map.data, 1, map.size, out) != map.size;
    for (size_t i = 0; !failed && i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        if (strncmp(t->name, prefix, strlen(prefix)) != 0 || !t->bytes) continue;
        uint8_t byte = *(const uint8_t *)t->data ^ (uint8_t)(1u << bit);
        failed = fseek(out, (const uint8_t *)t->data - map.data, SEEK_SET) ||
                 fwrite(&byte, 1, 1, out) != 1;
    }
    if ((out && fclose(out)) || failed) {
        perror(to);
        exit(1);
    }
    graft_safetensors_close(f);
    graft_file_unmap(&map);
}

/* Brings a file into the page cache: what is timed afterwards does not wait for the disk. */
static void warm(const char *path)
{
    size_t size = (size_t)1 << 20;
    char *part = graft_malloc(size);
    FILE *f = fopen(path, "rb");
    while (part && f && fread(part, 1, size, f) == size) continue;
    if (f) fclose(f);
    graft_free(part);
}

/* ------------------------------------------------------------------ UNet at real size */

static graft_binding *bind(const graft_model *m, int64_t height, int64_t width, int64_t batch,
                           double *seconds)
{
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    double start = graft_clock_now();
    must(graft_model_bind(m, batch, height, width, TOKENS, NULL, &b, &e), &e);
    if (seconds) *seconds = graft_clock_now() - start;
    return b;
}

static graft_model *load(graft_engine *g, const char *path, double *seconds)
{
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    double start = graft_clock_now();
    must(graft_model_load(g, path, NULL, &m, &e), &e);
    if (seconds) *seconds = graft_clock_now() - start;
    return m;
}

/* One run on made-up inputs. */
static double step(const graft_model *m, graft_binding *b, int64_t height, int64_t width,
                   int64_t batch)
{
    size_t n = (size_t)(batch * 4 * height * width);
    size_t n_context = (size_t)(batch * TOKENS * m->arch.context_dim);
    float *x = graft_malloc_array(n, sizeof *x), *out = graft_malloc_array(n, sizeof *out);
    float *context = graft_malloc_array(n_context, sizeof *context), t[BATCH] = {500, 500};
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < n; i++) x[i] = (float)(i % 31) / 16 - 1;
    for (size_t i = 0; i < n_context; i++) context[i] = (float)(i % 29) / 16 - 1;
    const void *in[] = {x, t, context, NULL};
    double start = graft_clock_now();
    must(graft_exe_run(b, m->engine->arenas, in, (void *[]){out}, NULL, NULL, &e), &e);
    double seconds = graft_clock_now() - start;
    graft_free(x);
    graft_free(out);
    graft_free(context);
    return seconds;
}

static double best_step(const graft_model *m, graft_binding *b, int n)
{
    double best = 1e30;
    for (int i = 0; i < n; i++) {
        double t = step(m, b, SIDE, SIDE, BATCH);
        if (t < best) best = t;
    }
    return best;
}

/* ------------------------------------------------------------------ memory copies */

typedef struct copier {
    const char *from;
    char *to;
    size_t bytes;
} copier;

static void *copy_part(void *arg)
{
    copier *c = arg;
    memcpy(c->to, c->from, c->bytes);
    return NULL;
}

/* Bytes per second of copying between touched buffers, with as many threads as packing may use. */
static double copy_speed(int threads)
{
    size_t bytes = (size_t)256 << 20;
    char *from = graft_malloc(bytes), *to = graft_malloc(bytes);
    double best = 1e30;
    pthread_t thread[64];
    copier part[64];
    if (threads > 64) threads = 64;
    if (!from || !to) return 1;
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    for (int k = 0; k < 5; k++) {
        double start = graft_clock_now();
        for (int i = 0; i < threads; i++) {
            size_t each = bytes / (size_t)threads;
            part[i] = (copier){from + (size_t)i * each, to + (size_t)i * each, each};
            if (pthread_create(&thread[i], NULL, copy_part, &part[i])) return 1;
        }
        for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
        double t = graft_clock_now() - start;
        if (t < best) best = t;
    }
    graft_free(from);
    graft_free(to);
    return (double)bytes / best;
}

/* ------------------------------------------------------------------ checkpoints and swaps */

/* Median time of finding graph and packed weights of a model that has both. */
static double rebind(const graft_model *m, int n)
{
    double t[64];
    for (int i = 0; i < n; i++) graft_binding_release(bind(m, SIDE, SIDE, BATCH, &t[i]));
    return record_median(t, n);
}

static void resident_on_ref(const bench *b, double *worst)
{
    graft_engine *g = open_engine(b, "ref", NULL);
    graft_model *m = load(g, b->first, NULL);
    graft_binding_release(bind(m, SIDE, SIDE, BATCH, NULL));
    double t = rebind(m, 15);
    printf("  %-28s %12.4g ms\n", "  of it on ref", 1e3 * t);
    if (t > *worst) *worst = t;
    graft_model_release(m);
    graft_engine_destroy(g);
}

static void second_checkpoint(const bench *b)
{
    double load_a, load_b, bind_a, bind_b;
    graft_engine *g = open_engine(b, NULL, NULL);
    graft_model *first = load(g, b->first, &load_a);
    graft_binding *x = bind(first, SIDE, SIDE, BATCH, &bind_a);
    double step_a = best_step(first, x, 2);
    warm(b->second); /* the extra time is that over reading it */
    graft_model *second = load(g, b->second, &load_b);
    graft_binding *y = bind(second, SIDE, SIDE, BATCH, &bind_b);
    double resident = rebind(second, 25), extra = load_b + resident;
    note(b, "second_checkpoint_extra_ms", 1e3 * extra, "ms");
    note(b, "second_checkpoint_share", extra / (load_a + bind_a), "of the first's time");
    double step_b = best_step(second, y, 2);
    note(b, "swap_step_ratio", step_b / step_a, "step time after the swap / before");
    resident_on_ref(b, &resident);
    note(b, "swap_resident_ms", 1e3 * resident, "ms");
    graft_binding_release(x);
    graft_binding_release(y);
    graft_model_release(first);
    graft_model_release(second);
    graft_engine_destroy(g);
}

/* Lets the file go from the page cache and reads it as a first load does, so that it lies there in
 * the pages that the system chooses for reading, not in those of the program that wrote it. */
static void read_again(const char *path)
{
    graft_mapping map;
    graft_err e = GRAFT_ERR_INIT;
    int file = open(path, O_RDONLY);
    if (file < 0 || fsync(file) || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED)) perror(path);
    if (file >= 0) close(file);
    must(graft_file_map(path, &map, &e), &e);
    volatile uint8_t last = 0;
    for (size_t i = 0; i < map.size; i += 4096) last = map.data[i];
    (void)last;
    graft_file_unmap(&map);
}

/* From the first set to the second, which was never used, letting the first go: as SwapWeights does
 * it. The file is in the page cache. Gives the share of the speed of copying memory. */
static double swap_from_file(const bench *b, double *seconds)
{
    graft_engine *g = open_engine(b, NULL, NULL);
    graft_model *first = load(g, b->first, NULL), *second = NULL;
    graft_packs_stats packs;
    graft_err e = GRAFT_ERR_INIT;
    double bound;
    graft_binding_release(bind(first, SIDE, SIDE, BATCH, NULL));
    graft_packs_stats_get(g->packs, &packs);
    double start = graft_clock_now();
    must(graft_model_swap(first, b->second, false, NULL, &second, &e), &e);
    double swap = graft_clock_now() - start;
    graft_binding_release(bind(second, SIDE, SIDE, BATCH, &bound));
    double copied = copy_speed(g->backends.threads);
    note(b, "memory_copy_gbs", copied * 1e-9, "GB/s");
    graft_model_release(first);
    graft_model_release(second);
    graft_engine_destroy(g);
    *seconds = swap + bound;
    return (double)packs.bytes / *seconds / copied;
}

static void swap_from_disk(const bench *b)
{
    double seconds;
    note(b, "swap_written_share", swap_from_file(b, &seconds),
         "of memory copy speed, the file just written by another program");
    read_again(b->second);
    double share = swap_from_file(b, &seconds);
    note(b, "swap_disk_s", seconds, "s");
    note(b, "swap_disk_share", share, "of memory copy speed");
}

/* ------------------------------------------------------------------ compiling */

static graft_compile_job unet_job(graft_backend *k, const graft_unet_arch *arch,
                                  const graft_net_shape *shape, graft_tuning tuning)
{
    return (graft_compile_job){.kind = "unet",
                               .arch = arch,
                               .arch_bytes = sizeof *arch,
                               .shape = shape,
                               .shape_bytes = sizeof *shape,
                               .backend = k,
                               .tuning = tuning,
                               .use_disk = true,
                               .build = arch_build_unet};
}

static graft_net_shape unet_shape(int64_t side, int64_t batch, graft_dtype dtype)
{
    graft_net_shape s;
    memset(&s, 0, sizeof s);
    s.batch = batch;
    s.height = s.width = side;
    s.tokens = TOKENS;
    s.act_dtype = dtype;
    return s;
}

static graft_backend *backend_of(graft_engine *g, graft_dtype *dtype)
{
    graft_backend *k = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_build_options o;
    memset(&o, 0, sizeof o);
    must(graft_options_resolve(g, &o, &k, dtype, &e), &e);
    return k;
}

/* Seconds of getting the graph in a fresh engine; the executable is released. */
static double compile(const bench *b, const graft_unet_arch *arch, graft_tuning tuning,
                      const char *cache, double *peak_mib)
{
    graft_engine *g = open_engine(b, NULL, cache);
    graft_dtype dtype;
    graft_backend *k = backend_of(g, &dtype);
    graft_net_shape shape = unet_shape(SIDE, BATCH, dtype);
    graft_compile_job job = unet_job(k, arch, &shape, tuning);
    graft_exe *x = NULL;
    graft_err e = GRAFT_ERR_INIT;
    record_reset_peak();
    double base = record_rss_mib(), start = graft_clock_now();
    must(graft_compiled_get(g->compiled, &job, NULL, &x, &e), &e);
    double seconds = graft_clock_now() - start;
    if (peak_mib) *peak_mib = record_peak_mib() - base;
    graft_exe_release(x);
    graft_engine_destroy(g);
    return seconds;
}

static void empty_folder(const char *folder)
{
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0) fprintf(stderr, "%s: not removed\n", folder);
}

static uint64_t largest_file(const char *folder)
{
    char **names = NULL;
    size_t n = 0;
    uint64_t most = 0;
    graft_err e = GRAFT_ERR_INIT;
    if (graft_dir_list(folder, NULL, &names, &n, &e)) return 0;
    for (size_t i = 0; i < n; i++) {
        graft_mapping m;
        char *path = graft_path_join(folder, names[i]);
        if (path && graft_file_map(path, &m, &e) == GRAFT_OK) {
            if (m.size > most) most = m.size;
            graft_file_unmap(&m);
        }
        graft_free(path);
    }
    graft_names_free(names, n);
    return most;
}

/* A run's own memory: packed weights and arena, beside which compiling's is held. */
static double run_peak(const bench *b)
{
    graft_engine *g = open_engine(b, NULL, NULL);
    graft_model *m = load(g, b->first, NULL);
    record_reset_peak();
    double base = record_rss_mib();
    graft_binding *x = bind(m, SIDE, SIDE, BATCH, NULL);
    step(m, x, SIDE, SIDE, BATCH);
    double peak = record_peak_mib() - base;
    graft_binding_release(x);
    graft_model_release(m);
    graft_engine_destroy(g);
    return peak;
}

static void compiling(const bench *b)
{
    graft_unet_arch sd15 = arch_sd15(), sdxl = arch_sdxl();
    double peak, t[5];
    for (int i = 0; i < 5; i++) t[i] = compile(b, &sd15, GRAFT_TUNING_OFF, NULL, NULL);
    note(b, "compile_cold_off_s", record_median(t, 5), "s");
    empty_folder(b->folder);
    note(b, "compile_cold_s", compile(b, &sd15, GRAFT_TUNING_FAST, b->folder, &peak), "s");
    for (int i = 0; i < 5; i++) t[i] = compile(b, &sd15, GRAFT_TUNING_FAST, b->folder, NULL);
    note(b, "compile_cached_ms", 1e3 * record_median(t, 5), "ms");
    empty_folder(b->folder);
    compile(b, &sdxl, GRAFT_TUNING_OFF, b->folder, NULL);
    note(b, "cache_file_bytes", (double)largest_file(b->folder), "bytes");
    empty_folder(b->folder);
    note(b, "compile_peak_share", peak / run_peak(b), "of the run's peak");
}

/* The first run at another size, less a later one, over the time of a step. */
static void new_shapes(const bench *b)
{
    static const struct {
        int64_t height, width, batch;
    } shapes[] = {{48, SIDE, BATCH}, {SIDE, 72, BATCH}, {SIDE, SIDE, 1}};
    graft_engine *g = open_engine(b, NULL, NULL);
    graft_model *m = load(g, b->first, NULL);
    graft_binding *x = bind(m, SIDE, SIDE, BATCH, NULL);
    double one = best_step(m, x, 2), worst = 0;
    graft_binding_release(x);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        double first, later;
        x = bind(m, shapes[i].height, shapes[i].width, shapes[i].batch, &first);
        graft_binding_release(x);
        x = bind(m, shapes[i].height, shapes[i].width, shapes[i].batch, &later);
        graft_binding_release(x);
        if ((first - later) / one > worst) worst = (first - later) / one;
    }
    note(b, "new_shape_share", worst, "of one step");
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* ------------------------------------------------------------------ arenas */

static double over_bound(graft_engine *g, graft_compile_job *job, const char *what)
{
    graft_exe *x = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_compiled_get(g->compiled, job, NULL, &x, &e), &e);
    double over = (double)x->arena_bytes / (double)x->arena_bound - 1;
    printf("  %-28s %9.1f MiB, %.3f %% over the bound\n", what, (double)x->arena_bytes / 1048576,
           100 * over);
    graft_exe_release(x);
    return over;
}

static void arenas(const bench *b)
{
    graft_engine *g = open_engine(b, NULL, NULL);
    graft_dtype dtype;
    graft_backend *k = backend_of(g, &dtype);
    graft_unet_arch arch[2] = {arch_sd15(), arch_sdxl()};
    graft_vae_arch vae = arch_vae();
    double worst = 0;
    char what[64];
    for (int i = 0; i < 2; i++)
        for (int64_t side = 64; side <= 128; side *= 2) {
            graft_net_shape shape = unet_shape(side, BATCH, dtype);
            graft_compile_job job = unet_job(k, &arch[i], &shape, GRAFT_TUNING_OFF);
            snprintf(what, sizeof what, "  %s at %lld", i ? "SDXL" : "SD1.5",
                     (long long)(8 * side));
            worst = fmax(worst, over_bound(g, &job, what));
        }
    for (int64_t side = 64; side <= 128; side *= 2) {
        arch_vae_shape shape;
        memset(&shape, 0, sizeof shape);
        shape.height = shape.width = side;
        shape.act_dtype = dtype;
        graft_compile_job job = {.kind = "vae_decoder",
                                 .arch = &vae,
                                 .arch_bytes = sizeof vae,
                                 .shape = &shape,
                                 .shape_bytes = sizeof shape,
                                 .backend = k,
                                 .build = arch_build_vae};
        snprintf(what, sizeof what, "  VAE at %lld", (long long)(8 * side));
        worst = fmax(worst, over_bound(g, &job, what));
    }
    note(b, "arena_over_bound", worst, "over the largest live set");
    graft_engine_destroy(g);
}

/* ------------------------------------------------------------------ a VAE in less memory */

static graft_vae *vae_within(const graft_vae *v, int64_t mb)
{
    const graft_compile_options o = {.tuning = "off", .max_memory_mb = mb, .tile = true};
    graft_vae *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_vae_compile(v, &o, NULL, &out, &e), &e);
    return out;
}

static graft_latent *some_latent(void)
{
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_latent_create((int64_t[]){1, 4, SIDE, SIDE}, &l, &e), &e);
    float *p = graft_latent_writable(l);
    for (int i = 0; i < 4 * SIDE * SIDE; i++) p[i] = (float)sin(0.37 * i) * (float)(i % 5);
    return l;
}

static double decode_once(const graft_vae *v, const graft_latent *l)
{
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    double start = graft_clock_now();
    must(graft_vae_decode(v, l, NULL, NULL, &image, &e), &e);
    double seconds = graft_clock_now() - start;
    graft_image_release(image);
    return seconds;
}

/* The budget that one piece takes, in MiB, and the least that strips do with. */
static void vae_budgets(const graft_vae *v, const graft_latent *l, int64_t *whole, int64_t *least)
{
    graft_binding *b = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_vae_bind(v, true, SIDE, SIDE, NULL, &b, &e), &e);
    *whole = (b->exe->arena_bytes + (int64_t)b->exe->weight_bytes + 1048575) >> 20;
    graft_binding_release(b);
    graft_vae *one = vae_within(v, 1);
    graft_status st = graft_vae_decode(one, l, NULL, NULL, &image, &e);
    const char *at = strstr(e.text, "would do is ");
    if (st != GRAFT_E_LIMIT || !at) must(st ? st : GRAFT_E_INTERNAL, &e);
    *least = at ? atoll(at + strlen("would do is ")) : 0;
    graft_vae_release(one);
}

static void vae_in_strips(const bench *b)
{
    enum { ROUNDS = 3 };
    graft_engine *g = open_engine(b, NULL, NULL);
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t whole, least;
    double half_ratio[ROUNDS], least_ratio[ROUNDS];
    must(graft_vae_load(g, b->first, NULL, &v, &e), &e);
    graft_latent *l = some_latent();
    vae_budgets(v, l, &whole, &least);
    graft_vae *vaes[3] = {vae_within(v, whole), vae_within(v, whole / 2), vae_within(v, least)};
    for (int i = 0; i < 3; i++) decode_once(vaes[i], l);
    for (int r = 0; r < ROUNDS; r++) {
        double once = decode_once(vaes[0], l);
        half_ratio[r] = decode_once(vaes[1], l) / once;
        least_ratio[r] = decode_once(vaes[2], l) / once;
    }
    printf("  VAE decoder at %d: %lld MiB in one piece, %lld at least\n", 8 * SIDE,
           (long long)whole, (long long)least);
    note(b, "vae_half_memory_time", record_median(half_ratio, ROUNDS),
         "times as long as in one piece");
    note(b, "vae_least_memory_share", (double)least / (double)whole, "of what one piece takes");
    note(b, "vae_least_memory_time", record_median(least_ratio, ROUNDS),
         "times as long as in one piece");
    for (int i = 0; i < 3; i++) graft_vae_release(vaes[i]);
    graft_latent_release(l);
    graft_vae_release(v);
    graft_engine_destroy(g);
}

/* ------------------------------------------------------------------ plugin */

extern char **environ;

static void plugin_load(const bench *b)
{
    double t[15];
    for (int i = 0; i < 15; i++) {
        char *argv[] = {(char *)GRAFT_PROGRAM, (char *)"nodes", NULL};
        posix_spawn_file_actions_t actions;
        pid_t pid;
        int status = 0;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1 /* O_WRONLY */, 0);
        double start = graft_clock_now();
        if (posix_spawn(&pid, GRAFT_PROGRAM, &actions, NULL, argv, environ)) {
            perror(GRAFT_PROGRAM);
            exit(1);
        }
        waitpid(pid, &status, 0);
        t[i] = graft_clock_now() - start;
        posix_spawn_file_actions_destroy(&actions);
        if (status) fprintf(stderr, "%s nodes: status %d\n", GRAFT_PROGRAM, status);
    }
    note(b, "plugin_load_ms", 1e3 * record_median(t, 15), "ms, the whole process");
}

/* ------------------------------------------------------------------ soak */

static void write_small_lora(const char *path)
{
    float up[64 * 2], down[2 * 1024];
    const char *layer = "lora_unet_mid_block_attentions_0_transformer_blocks_0_attn1_to_q";
    char name[2][256];
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    must(graft_safetensors_open(SMALL_MODEL, &f, &e), &e);
    const graft_st_tensor *t = NULL;
    for (size_t i = 0; i < graft_safetensors_count(f); i++)
        if (strstr(graft_safetensors_at(f, i)->name,
                   "middle_block.1.transformer_blocks.0.attn1.to_q.weight"))
            t = graft_safetensors_at(f, i);
    if (!t || t->shape[0] > 64 || t->shape[1] > 1024) {
        fprintf(stderr, "%s: not the model expected\n", SMALL_MODEL);
        exit(1);
    }
    for (size_t i = 0; i < sizeof up / sizeof *up; i++) up[i] = 0.1f * (float)(i % 5);
    for (size_t i = 0; i < sizeof down / sizeof *down; i++) down[i] = 0.1f * (float)(i % 7);
    snprintf(name[0], sizeof name[0], "%s.lora_up.weight", layer);
    snprintf(name[1], sizeof name[1], "%s.lora_down.weight", layer);
    graft_st_tensor tensors[2] = {{.name = name[0],
                                   .dtype = GRAFT_F32,
                                   .rank = 2,
                                   .shape = {t->shape[0], 2},
                                   .data = up,
                                   .bytes = (uint64_t)t->shape[0] * 2 * sizeof *up},
                                  {.name = name[1],
                                   .dtype = GRAFT_F32,
                                   .rank = 2,
                                   .shape = {2, t->shape[1]},
                                   .data = down,
                                   .bytes = (uint64_t)t->shape[1] * 2 * sizeof *down}};
    must(graft_safetensors_write(path, tensors, 2, NULL, 1, &e), &e);
    graft_safetensors_close(f);
}

static void run_small(const graft_model *m, float out[256])
{
    float x[256], t = 400, *context = graft_calloc((size_t)(TOKENS * m->arch.context_dim), 4);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 256; i++) x[i] = (float)(i % 13) / 6 - 1;
    must(graft_model_bind(m, 1, 8, 8, TOKENS, NULL, &b, &e), &e);
    must(graft_exe_run(b, m->engine->arenas, (const void *[]){x, &t, context, NULL},
                       (void *[]){out}, NULL, NULL, &e),
         &e);
    graft_binding_release(b);
    graft_free(context);
}

/* Swaps between three checkpoints, then a LoRA put on and taken off; each result is compared with
 * the first of its kind. */
static void soak(const bench *b)
{
    graft_engine *g = open_engine(b, NULL, NULL);
    char path[3][512], lora[512];
    float expected[4][256], out[256];
    int wrong = 0;
    double base = 0;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(lora, sizeof lora, "%s-lora.safetensors", b->folder);
    write_small_lora(lora);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s-%u.safetensors", b->folder, i);
        make_variant(SMALL_MODEL, path[i], "", 2 + i);
    }
    graft_model *m = load(g, path[0], NULL);
    for (int i = 0; i < CYCLES + CYCLES / 10; i++) {
        graft_model *next = NULL;
        int set = i % 3;
        must(graft_model_swap(m, path[set], i % 2, NULL, &next, &e), &e);
        graft_model_release(m);
        m = next;
        run_small(m, i < 3 ? expected[set] : out);
        wrong += i >= 3 && memcmp(out, expected[set], sizeof out) != 0;
        if (i == CYCLES / 10) base = record_rss_mib();
    }
    int set = (CYCLES + CYCLES / 10 - 1) % 3;
    for (int i = 0; i < CYCLES; i++) {
        graft_model *with = NULL;
        must(graft_lora_apply(m, NULL, lora, 0.8, 0, NULL, &with, NULL, &e), &e);
        run_small(with, i ? out : expected[3]);
        wrong += i && memcmp(out, expected[3], sizeof out) != 0;
        graft_model_release(with);
        run_small(m, out);
        wrong += memcmp(out, expected[set], sizeof out) != 0;
    }
    note(b, "soak_rss_growth", record_rss_mib() / base - 1, "of resident memory");
    note(b, "soak_wrong_results", wrong, "results that differ from the first");
    graft_model_release(m);
    graft_engine_destroy(g);
    for (int i = 0; i < 3; i++) unlink(path[i]);
    unlink(lora);
}

/* ------------------------------------------------------------------ main */

static void make_second(bench *b)
{
    snprintf(b->second, sizeof b->second, "%s-second.safetensors", b->folder);
    make_variant(b->first, b->second, UNET, 0);
}

static const struct {
    const char *name;
    void (*run)(const bench *b);
    bool full; /* needs the checkpoint */
} parts[] = {{"arenas", arenas, false},      {"plugin", plugin_load, false},
             {"soak", soak, false},          {"second", second_checkpoint, true},
             {"disk", swap_from_disk, true}, {"compiling", compiling, true},
             {"shapes", new_shapes, true},   {"vae", vae_in_strips, true}};

int main(int argc, char **argv)
{
    bench b = {.backend = "auto"};
    int only_small = 0;
    const char *only = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            b.json = argv[++i];
        else if (strcmp(argv[i], "--backend") == 0 && i + 1 < argc)
            b.backend = argv[++i];
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else if (strcmp(argv[i], "--small") == 0)
            only_small = 1;
        else if (argv[i][0] != '-' && !b.first)
            b.first = argv[i];
        else
            argc = 0;
    }
    if (argc < 1 || (!b.first && !only_small)) {
        fputs("usage: graft-bench-swap SD15.safetensors [--json FILE] [--backend NAME] "
              "[--only PART]\n"
              "       graft-bench-swap --small [--json FILE] [--backend NAME]\n",
              stderr);
        return 2;
    }
    if (!only_small) must_exist(b.first);
    snprintf(b.folder, sizeof b.folder, "%s/bench-swap-%ld", GRAFT_BINARY_DIR, (long)getpid());
    snprintf(b.how, sizeof b.how, "graft-bench-swap %s --backend %s",
             only_small ? "--small" : b.first, b.backend);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (only && strcmp(only, parts[i].name) != 0) continue;
        if (parts[i].full && only_small) continue;
        if (parts[i].full && !b.second[0]) make_second(&b);
        parts[i].run(&b);
    }
    if (b.second[0]) unlink(b.second);
    return 0;
}
