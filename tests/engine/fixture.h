/* Small models for engine tests: an engine, files made up on the spot, and one run of a UNet. */
#ifndef GRAFT_TESTS_ENGINE_FIXTURE_H
#define GRAFT_TESTS_ENGINE_FIXTURE_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/objects/objects.h"
#include "engine/weights/safetensors.h"
#include "engine/weights/values.h"
#include "tests/test.h"

#define SD1  GRAFT_SOURCE_DIR "/golden/small/unet_sd1.safetensors"
#define SD2  GRAFT_SOURCE_DIR "/golden/small/unet_sd2.safetensors"
#define SDXL GRAFT_SOURCE_DIR "/golden/small/unet_sdxl.safetensors"
/* The middle is one residual block, or nothing. */
#define PRUNED_ONE  GRAFT_SOURCE_DIR "/golden/small/pruned_one.safetensors"
#define PRUNED_NONE GRAFT_SOURCE_DIR "/golden/small/pruned_none.safetensors"
#define DEMO        GRAFT_SOURCE_DIR "/models/checkpoints/emoji-64.safetensors"

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

/* Many times slower, and blind to values. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNDER_SANITIZER 1
#endif
#endif
#ifndef UNDER_SANITIZER
#define UNDER_SANITIZER 0
#endif

/* The limit of memory to try after one that was too low, in MiB, where `told` is said to do. Of
 * those far below it sanitizers see every fourth. */
static inline int64_t next_limit(int64_t mib, int64_t told)
{
    return UNDER_SANITIZER && told > mib + 4 ? mib + 4 : mib + 1;
}

static char last_log[2048];
static inline void keep_line(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level >= GRAFT_LOG_WARN) snprintf(last_log, sizeof last_log, "%s", text);
}

static inline graft_engine *make_engine_threads(const char *backend, int threads)
{
    graft_engine_config c = {.kernel_dir = GRAFT_LIB_DIR, .backend = backend, .threads = threads};
    graft_engine *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    c.log.line = keep_line;
    setenv("GRAFT_PRECISION", "f32", 1);
    CHECK_OK(graft_engine_create(&c, &g, &e), &e);
    return g;
}

static inline graft_engine *make_engine(const char *backend)
{
    return make_engine_threads(backend, 1);
}

/* A path in the folder of this run; eight may be in use at one time. */
static inline const char *temp_path(const char *name)
{
    static char text[8][256];
    static int turn;
    char *p = text[turn++ & 7];
    snprintf(p, sizeof text[0], "%s/test-%ld-%s", GRAFT_BINARY_DIR, (long)getpid(), name);
    return p;
}

/* ------------------------------------------------------------------ random values */

static uint64_t random_state = 1;
static inline float random_value(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(random_state >> 33) / 2147483648.0 * 2.0 - 1.0);
}

/* ------------------------------------------------------------------ files */

typedef struct made_file {
    graft_st_tensor tensor[2048];
    size_t n;
} made_file;

static inline int64_t shape_count(const int64_t *shape, int rank)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    return n;
}

/* Adds a float32 tensor that the file owns; values NULL: random, times `scale`. */
static inline float *add_tensor(made_file *f, const char *name, int rank, const int64_t *shape,
                                const float *values, float scale)
{
    int64_t n = shape_count(shape, rank);
    float *data = malloc(((size_t)n + 1) * sizeof *data);
    if (values && n) memcpy(data, values, (size_t)n * sizeof *data);
    for (int64_t i = 0; !values && i < n; i++) data[i] = scale * random_value();
    data[n] = 0;
    graft_st_tensor *t = &f->tensor[f->n++];
    *t = (graft_st_tensor){.name = strdup(name), .rank = rank, .data = data};
    t->dtype = GRAFT_F32;
    t->bytes = (uint64_t)n * sizeof *data;
    for (int i = 0; i < rank; i++) t->shape[i] = shape[i];
    return data;
}

/* A LoRA of rank 2 for the layer `stem` in PEFT's names. */
static inline void add_lora_pair(made_file *f, const char *stem, int64_t rows, int64_t columns)
{
    char name[300];
    snprintf(name, sizeof name, "%s.lora_B.weight", stem);
    add_tensor(f, name, 2, (const int64_t[]){rows, 2}, NULL, 0.1f);
    snprintf(name, sizeof name, "%s.lora_A.weight", stem);
    add_tensor(f, name, 2, (const int64_t[]){2, columns}, NULL, 0.1f);
}

static inline void finish_file(made_file *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free((char *)f->tensor[i].name);
        free((void *)f->tensor[i].data);
    }
    free(f);
}

/* For more than one file; write_file() lets go of what it has written. */
static inline void write_again(const made_file *f, const char *path, const char *config)
{
    graft_err e = GRAFT_ERR_INIT;
    const char *metadata[3] = {"config", config, NULL};
    CHECK_OK(graft_safetensors_write(path, f->tensor, f->n, config ? metadata : NULL, 1, &e), &e);
}

static inline void write_file(made_file *f, const char *path, const char *config)
{
    write_again(f, path, config);
    finish_file(f);
}

static inline graft_safetensors *open_file(const char *path)
{
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    return f;
}

/* The file has it under this name, in the shape and with the bytes of t. */
static inline void check_tensor(const graft_safetensors *f, const char *name,
                                const graft_st_tensor *t)
{
    const graft_st_tensor *got = graft_safetensors_find(f, name);
    CHECK(got && got->rank == t->rank && memcmp(got->shape, t->shape, sizeof t->shape) == 0 &&
          got->bytes == t->bytes && memcmp(got->data, t->data, (size_t)t->bytes) == 0);
}

static inline float *values_of(const graft_st_tensor *t)
{
    int64_t n = shape_count(t->shape, t->rank);
    float *v = malloc(((size_t)n + 1) * sizeof *v);
    graft_to_f32(t->dtype, t->data, v, (size_t)n);
    v[n] = 0;
    return v;
}

/* All tensors of the file below `prefix`, as float32 that may be changed. */
static inline made_file *copy_file(const graft_safetensors *f, const char *prefix)
{
    made_file *m = calloc(1, sizeof *m);
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        if (strncmp(t->name, prefix, strlen(prefix)) != 0) continue;
        float *v = values_of(t);
        add_tensor(m, t->name, t->rank, t->shape, v, 0);
        free(v);
    }
    return m;
}

/* The file with so many more channels going into its UNet, for a picture and a mask; their weights
 * are random, times `scale`. Lets go of m. */
static inline made_file *widened_file(made_file *m, int64_t more, float scale)
{
    static const char first[] = "input_blocks.0.0.weight";
    made_file *w = calloc(1, sizeof *w);
    for (size_t i = 0; i < m->n; i++) {
        const graft_st_tensor *t = &m->tensor[i];
        const float *from = t->data;
        size_t n = strlen(t->name), k = strlen(first);
        if (n < k || strcmp(t->name + n - k, first) != 0) {
            add_tensor(w, t->name, t->rank, t->shape, from, 0);
            continue;
        }
        float *to =
            add_tensor(w, t->name, 4, (int64_t[]){t->shape[0], 4 + more, 3, 3}, NULL, scale);
        for (int64_t o = 0; o < t->shape[0]; o++)
            memcpy(to + o * 9 * (4 + more), from + o * 36, 36 * sizeof *to);
    }
    finish_file(m);
    return w;
}

static inline graft_st_tensor *made_find(made_file *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->tensor[i].name, name) == 0) return &f->tensor[i];
    fprintf(stderr, "no tensor %s\n", name);
    abort();
}

/* ------------------------------------------------------------------ models */

static inline graft_model *load_model(graft_engine *g, const char *path)
{
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_load(g, path, NULL, &m, &e), &e);
    return m;
}

/* A text encoder alone, and encoder i's answer to a fixed prompt. */
static inline graft_clip *load_encoder(graft_engine *g, const char *path)
{
    graft_clip *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_load(g, &path, 1, "stable_diffusion", NULL, &c, &e), &e);
    return c;
}

static inline void run_encoder(const graft_clip *c, size_t i, float *hidden, float *pooled)
{
    int32_t tokens[GRAFT_TEXT_CHUNK];
    float weights[GRAFT_TEXT_CHUNK];
    graft_err e = GRAFT_ERR_INIT;
    for (int k = 0; k < GRAFT_TEXT_CHUNK; k++) {
        tokens[k] = k < 20 ? 3 + 11 * k : 511;
        weights[k] = 1.0f;
    }
    const graft_chunks chunks = {.tokens = tokens, .weights = weights, .count = 1};
    CHECK_OK(graft_clip_run_chunks(c, i, &chunks, NULL, hidden, pooled, &e), &e);
}

/* That no model is loaded from the file, for a reason that says `words`: it is left in `e`. Takes
 * f. config: its metadata, or NULL. */
static inline void check_refused(graft_engine *g, made_file *f, const char *config,
                                 graft_status status, const char *words, graft_err *e)
{
    const char *path = temp_path("damaged.safetensors");
    graft_model *m = NULL;
    write_file(f, path, config);
    CHECK_INT(graft_model_load(g, path, NULL, &m, e), status);
    CHECK(!m && strstr(e->text, words) && strstr(e->text, "damaged.safetensors"));
    if (!strstr(e->text, words)) fprintf(stderr, "no \"%s\" in: %s\n", words, e->text);
    graft_model_release(m);
    unlink(path);
}

enum { SIDE = 8, TOKENS = 77, OUT = 4 * SIDE * SIDE };

/* The i-th value of a fixed sequence in -1..1 (splitmix64); no state, so threads may share it. */
static inline float fixed_value(uint64_t i)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (float)((double)((z ^ z >> 31) >> 11) / 4503599627370496.0 - 1.0);
}

/* One run of the UNet on fixed inputs; counts no checks, so that any thread may call it. */
static inline graft_status try_model(const graft_model *m, float out[OUT], graft_err *e)
{
    graft_binding *b = NULL;
    float x[OUT], t = 500.0f, y[4096] = {0};
    size_t n = TOKENS * (size_t)m->arch.context_dim;
    float *context = calloc(n, sizeof *context);
    for (size_t i = 0; i < OUT; i++) x[i] = fixed_value(i);
    for (size_t i = 0; i < n; i++) context[i] = fixed_value(OUT + i);
    for (int i = 0; i < m->arch.adm_channels; i++) y[i] = fixed_value(OUT + n + (size_t)i);
    memset(out, 0, OUT * sizeof *out);
    graft_status st = graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, e);
    if (!st)
        st = graft_exe_run(b, m->engine->arenas, (const void *[]){x, &t, context, y},
                           (void *[]){out}, NULL, NULL, e);
    graft_binding_release(b);
    free(context);
    return st;
}

static inline void run_model(const graft_model *m, float out[OUT])
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(try_model(m, out, &e), &e);
}

/* max |a - b| / max |b| */
static inline double difference(const float *a, const float *b, size_t n)
{
    double most = 0, scale = 1e-30;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= most)) most = d; /* NaN counts as a difference */
        if (fabs((double)b[i]) > scale) scale = fabs((double)b[i]);
    }
    return most / scale;
}

static inline bool same_bits(const float *a, const float *b)
{
    return memcmp(a, b, OUT * sizeof *a) == 0;
}

/* How many graphs the engine has built so far. */
static inline uint64_t graphs_built(graft_engine *g)
{
    graft_compiled_stats s;
    graft_compiled_stats_get(g->compiled, &s);
    return s.built;
}

/* Cut at a block of a level; level -1: at the outermost place. */
static inline graft_model *with_deepcache(const graft_model *m, int64_t interval, int64_t level,
                                          int64_t block)
{
    const graft_deepcache_options o = {interval, level, block, 0, 1000, "uniform", 0, level < 0};
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_deepcache(m, &o, &out, &e), &e);
    return out;
}

static inline graft_packs_stats packs_of(graft_engine *g)
{
    graft_packs_stats s;
    graft_packs_stats_get(g->packs, &s);
    return s;
}

static inline graft_model *swap_weights(const graft_model *m, const char *path, bool keep)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_swap(m, path, keep, NULL, &out, &e), &e);
    return out;
}

/* Resident memory stays flat; not asked of builds whose allocator keeps freed memory. */
#define MEASURES_MEMORY (!UNDER_SANITIZER)
#define CHECK_FLAT(before, after)                                                                  \
    CHECK(!MEASURES_MEMORY || (double)(after) < 1.01 * (double)(before) + 300e3)

/* How often something is done of which memory must not grow. Where that is not measured, a few
 * hundred rounds show the leak checker as much as a thousand. */
static inline int many_rounds(void)
{
    if (!MEASURES_MEMORY) printf("skipped: 800 of 1000 rounds, which are for measuring memory\n");
    return MEASURES_MEMORY ? 1000 : 200;
}

static inline size_t resident_bytes(void)
{
    size_t pages = 0, all = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%zu %zu", &all, &pages) != 2) pages = 0;
    if (f) fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}
#endif
