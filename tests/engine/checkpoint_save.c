/* Saved checkpoints: what is in them, that they load as what they were, and what is left when
 * saving fails: nothing. */
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/weights/quantized.h"
#include "tests/engine/merge.h"

static graft_engine *engine;
static char path_a[256], path_b[256], path_c[256], path_lora[256], folder[256];

static graft_status save(const graft_model *m, const char *path, const graft_task *task,
                         graft_err *e)
{
    return graft_checkpoint_save(&(graft_checkpoint){.model = m}, path, NULL, task, e);
}

static size_t files_in(const char *path)
{
    size_t n = 0;
    DIR *d = opendir(path);
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n - 2;
}

static void same_run(const graft_model *a, const graft_model *b)
{
    float one[OUT], two[OUT];
    run_model(a, one);
    run_model(b, two);
    CHECK(same_bits(one, two));
}

/* ------------------------------------------------------------------ what is written */

static void check_type(const char *path, graft_dtype dtype)
{
    graft_safetensors *f = open_file(path), *a = open_file(path_a);
    CHECK_INT(graft_safetensors_count(f), graft_safetensors_count(a));
    for (size_t i = 0; i < graft_safetensors_count(a); i++) {
        const graft_st_tensor *own = graft_safetensors_at(a, i);
        const graft_st_tensor *t = graft_safetensors_find(f, own->name);
        CHECK(t && t->dtype == dtype && t->rank == own->rank &&
              memcmp(t->shape, own->shape, sizeof t->shape) == 0);
    }
    graft_safetensors_close(a);
    graft_safetensors_close(f);
}

/* Each pair of types, and the one that the sum is written in. */
static void types_of_sums(void)
{
    graft_err e = GRAFT_ERR_INIT;
    const char *path = temp_path("types.safetensors");
    const struct {
        const char *x, *y;
        graft_dtype want;
        double close; /* of the saved to the merge */
    } cases[] = {{path_a, path_a, GRAFT_F32, 0},  {path_b, path_b, GRAFT_F16, 0},
                 {path_c, path_c, GRAFT_BF16, 0}, {path_a, path_b, GRAFT_F32, 0},
                 {path_b, path_c, GRAFT_F32, 0},  {path_c, path_a, GRAFT_F32, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graft_model *x = load_model(engine, cases[i].x), *y = load_model(engine, cases[i].y);
        graft_model *l = with_lora(x, path_lora, 0.4), *m = simple(l, y, 0.3);
        CHECK_OK(save(m, path, NULL, &e), &e);
        check_type(path, cases[i].want);
        graft_model *loaded = load_model(engine, path);
        if (cases[i].want == GRAFT_F32) {
            same_run(m, loaded);
        } else { /* the two layers that the LoRA changed are rounded to the type */
            float one[OUT], two[OUT];
            run_model(m, one);
            run_model(loaded, two);
            CHECK(difference(two, one, OUT) < (cases[i].want == GRAFT_F16 ? 1e-3 : 1e-2));
        }
        RELEASE_ALL(x, y, l, m, loaded);
        unlink(path);
    }
}

/* Two float16 files: every value of the saved sum is the sum, rounded once. */
static void float16_is_rounded_once(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char other[256];
    const char *path = temp_path("f16.safetensors");
    random_state = 7;
    make_variant(other, "f16-b.safetensors", 0.3f, GRAFT_F16);
    graft_model *x = load_model(engine, path_b), *y = load_model(engine, other);
    graft_model *m = merged(x, y, 0.75, 0.5, 0.25); /* exact factors: one rounding to float32 */
    CHECK_OK(save(m, path, NULL, &e), &e);
    made_file *want =
        merge_by_hand((part_of_merge[]){{path_b, 0.75, 0.5, 0.25}, {other, 0.25, 0.5, 0.75}}, 2);
    graft_safetensors *f = open_file(path);
    size_t wrong = 0;
    for (size_t i = 0; i < want->n; i++) {
        graft_st_tensor *t = &want->tensor[i];
        const graft_st_tensor *got = graft_safetensors_find(f, t->name);
        CHECK(got && got->dtype == GRAFT_F16);
        store_as(t, GRAFT_F16);
        wrong += !got || memcmp(got->data, t->data, (size_t)t->bytes) != 0;
    }
    CHECK_INT(wrong, 0);
    graft_safetensors_close(f);
    finish_file(want);
    RELEASE_ALL(x, y, m);
    unlink(path);
    unlink(other);
}

/* What nothing changed is copied, whatever its type; metadata is the caller's and the config. */
static void copies(void)
{
    graft_err e = GRAFT_ERR_INIT;
    const char *path = temp_path("copy.safetensors");
    const char *const metadata[] = {"prompt", "{\"1\":{}}", "workflow", "\"\xc3\xa9\"", NULL};
    graft_model *c = load_model(engine, path_c), *a = load_model(engine, path_a);
    graft_model *m = simple(a, c, 0.0);
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.model = m}, path, metadata, NULL, &e), &e);
    graft_safetensors *f = open_file(path), *own = open_file(path_c);
    CHECK_STR(graft_safetensors_metadata(f, "prompt"), metadata[1]);
    CHECK_STR(graft_safetensors_metadata(f, "workflow"), metadata[3]);
    CHECK_STR(graft_safetensors_metadata(f, "config"), graft_safetensors_metadata(own, "config"));
    for (size_t i = 0; i < graft_safetensors_count(own); i++) {
        const graft_st_tensor *t = graft_safetensors_at(own, i);
        const graft_st_tensor *k = graft_safetensors_find(f, t->name);
        CHECK(k && k->dtype == GRAFT_BF16 && memcmp(k->data, t->data, (size_t)t->bytes) == 0);
    }
    graft_safetensors_close(f);
    graft_safetensors_close(own);
    unlink(path);
    /* A v prediction and zero terminal SNR come back; SD1's own is that of noise. */
    graft_model *v = NULL;
    CHECK_OK(graft_model_sampling(a, "v_prediction", true, &v, &e), &e);
    CHECK_OK(save(v, path, NULL, &e), &e);
    graft_model *loaded = load_model(engine, path);
    CHECK(loaded && loaded->prediction == GRAFT_PREDICT_V && loaded->zsnr);
    unlink(path);
    graft_model_release(loaded);
    CHECK_OK(save(a, path, NULL, &e), &e);
    loaded = load_model(engine, path);
    CHECK(loaded && loaded->prediction == GRAFT_PREDICT_EPS && !loaded->zsnr);
    same_run(a, loaded);
    RELEASE_ALL(a, c, m, v, loaded);
    unlink(path);
}

/* The names of a bare UNet become a checkpoint's; 8-bit types become float16. */
static void other_files(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char path[256], bare[256];
    snprintf(path, sizeof path, "%s", temp_path("other.safetensors"));
    snprintf(bare, sizeof bare, "%s", temp_path("bare.safetensors"));
    graft_safetensors *f = open_file(path_a);
    made_file *m = copy_file(f, UNET);
    for (size_t i = 0; i < m->n; i++) {
        graft_st_tensor *t = &m->tensor[i];
        char *name = (char *)(uintptr_t)t->name;
        memmove(name, name + strlen(UNET), strlen(name) - strlen(UNET) + 1);
        float *v = (float *)(uintptr_t)t->data;
        int64_t n = shape_count(t->shape, t->rank);
        for (int64_t k = 0; k < n; k++) ((uint8_t *)v)[k] = graft_f32_to_f8_e4m3(v[k]);
        t->dtype = GRAFT_F8_E4M3;
        t->bytes = (uint64_t)n;
    }
    write_file(m, bare, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    graft_model *x = load_model(engine, bare), *y = load_model(engine, path_b);
    graft_model *half = simple(x, y, 0.5), *loaded;
    CHECK_OK(save(half, path, NULL, &e), &e);
    check_type(path, GRAFT_F16);
    unlink(path);
    CHECK_OK(save(x, path, NULL, &e), &e); /* nothing changed it */
    check_type(path, GRAFT_F8_E4M3);
    loaded = load_model(engine, path);
    same_run(x, loaded);
    RELEASE_ALL(x, y, half, loaded);
    unlink(path);
    unlink(bare);
}

/* ------------------------------------------------------------------ whole checkpoints */

typedef struct whole {
    graft_model *model;
    graft_clip *clip;
    graft_vae *vae;
} whole;

static whole load_whole(const char *path)
{
    whole w = {0};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_checkpoint_load(engine, path, NULL, &w.model, &w.clip, &w.vae, &e), &e);
    return w;
}

static void release_whole(whole *w)
{
    graft_model_release(w->model);
    graft_clip_release(w->clip);
    graft_vae_release(w->vae);
}

static float *picture(const whole *w, size_t *n)
{
    graft_cond *positive = NULL, *negative = NULL;
    graft_latent *empty = NULL, *latent = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t shape[4] = {0};
    graft_sample_params p = {.seed = 3,
                             .add_noise = true,
                             .steps = 2,
                             .cfg = 4,
                             .sampler = "euler",
                             .scheduler = "normal",
                             .denoise = 1,
                             .end_at_step = 10000};
    CHECK_OK(graft_clip_encode(w->clip, "red apple, (3d:1.2)", NULL, &positive, &e), &e);
    CHECK_OK(graft_clip_encode(w->clip, "", NULL, &negative, &e), &e);
    CHECK_OK(graft_latent_empty(4, 64, 64, 1, &empty, &e), &e);
    CHECK_OK(graft_sample(w->model, &p, positive, negative, empty, NULL, &latent, &e), &e);
    CHECK_OK(graft_vae_decode(w->vae, latent, NULL, NULL, &image, &e), &e);
    const float *data = graft_image_data(image, shape);
    *n = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]);
    float *copy = malloc(*n * sizeof *copy);
    memcpy(copy, data, *n * sizeof *copy);
    graft_cond_release(positive);
    graft_cond_release(negative);
    graft_latent_release(empty);
    graft_latent_release(latent);
    graft_image_release(image);
    return copy;
}

/* The demo with every weight moved, as a second checkpoint of its architecture: float32. */
static void make_second_demo(const char *path)
{
    graft_safetensors *f = open_file(DEMO);
    made_file *m = calloc(1, sizeof *m);
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        float *v = values_of(t);
        int64_t n = shape_count(t->shape, t->rank);
        for (int64_t k = 0; k < n; k++) v[k] *= 1 + 0.05f * random_value();
        if (t->dtype == GRAFT_F32 || t->dtype == GRAFT_F16 || t->dtype == GRAFT_BF16)
            add_tensor(m, t->name, t->rank, t->shape, v, 0);
        free(v);
    }
    write_file(m, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
}

/* Model, text encoder and VAE in one file; the picture is that of the parts that were saved. */
static void all_of_a_checkpoint(void)
{
    char second[256], path[256];
    graft_err e = GRAFT_ERR_INIT;
    size_t n, m;
    snprintf(second, sizeof second, "%s", temp_path("demo-b.safetensors"));
    snprintf(path, sizeof path, "%s", temp_path("demo-m.safetensors"));
    make_second_demo(second);
    whole a = load_whole(DEMO), b = load_whole(second), w = {0};
    w.model = merged(a.model, b.model, 0.3, 0.6, 0.9);
    CHECK_OK(graft_clip_merge(a.clip, b.clip, 0.4, &w.clip, &e), &e);
    w.vae = graft_vae_retain(b.vae);
    CHECK_OK(
        graft_checkpoint_save(&(graft_checkpoint){w.model, w.clip, w.vae, 0}, path, NULL, NULL, &e),
        &e);
    whole saved = load_whole(path);
    float *one = picture(&w, &n), *two = picture(&saved, &m), *plain = picture(&a, &m);
    CHECK(n == m && memcmp(one, two, n * sizeof *one) == 0);
    CHECK(memcmp(one, plain, n * sizeof *one) != 0);
    free(one);
    free(two);
    free(plain);
    /* The VAE alone has its own names. */
    graft_vae *vae = NULL;
    unlink(path);
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.vae = b.vae}, path, NULL, NULL, &e), &e);
    graft_safetensors *f = open_file(path);
    CHECK(f && graft_safetensors_find(f, "decoder.conv_in.weight"));
    graft_safetensors_close(f);
    CHECK_OK(graft_vae_load(engine, path, NULL, &vae, &e), &e);
    graft_vae_release(vae);
    unlink(path);
    /* So has a text encoder; the merged one computes what it did. */
    const graft_checkpoint first = {.clip = w.clip, .encoder = 1};
    const graft_checkpoint third = {.clip = w.clip, .encoder = 3};
    const char *paths[1] = {path};
    CHECK_STR(graft_clip_encoder_name(w.clip, 0), "clip_l");
    CHECK(graft_clip_encoder_name(w.clip, 1) == NULL);
    CHECK_INT(graft_checkpoint_save(&third, path, NULL, NULL, &e), GRAFT_E_ARG);
    CHECK_OK(graft_checkpoint_save(&first, path, NULL, NULL, &e), &e);
    f = open_file(path);
    CHECK(f && graft_safetensors_find(f, "text_model.embeddings.token_embedding.weight"));
    graft_safetensors_close(f);
    graft_clip *clip = w.clip;
    one = picture(&w, &n);
    w.clip = NULL;
    CHECK_OK(graft_clip_load(engine, paths, 1, "stable_diffusion", NULL, &w.clip, &e), &e);
    two = picture(&w, &m);
    CHECK(n == m && memcmp(one, two, n * sizeof *one) == 0);
    free(one);
    free(two);
    graft_clip_release(clip);
    unlink(path);
    unlink(second);
    release_whole(&a);
    release_whole(&b);
    release_whole(&w);
    release_whole(&saved);
}

/* ------------------------------------------------------------------ failures */

typedef struct stop {
    int64_t after, asked;
    uint64_t last, total;
    bool fell;
} stop;

static bool stop_after(void *ctx)
{
    stop *s = ctx;
    return ++s->asked > s->after;
}

static void note_progress(void *ctx, uint64_t done, uint64_t total)
{
    stop *s = ctx;
    s->fell |= done < s->last || done > total;
    s->last = done;
    s->total = total;
}

static void cancelled(void)
{
    char path[512];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, path_b);
    graft_model *m = simple(a, b, 0.5);
    stop s = {.after = 20};
    const graft_task task = {.ctx = &s, .cancelled = stop_after, .progress = note_progress};
    snprintf(path, sizeof path, "%s/cancelled.safetensors", folder);
    CHECK_INT(save(m, path, &task, &e), GRAFT_E_CANCEL);
    CHECK_INT(files_in(folder), 0);
    CHECK(s.last > 0 && s.last < s.total && !s.fell);
    s = (stop){.after = INT64_MAX};
    CHECK_OK(save(m, path, &task, &e), &e);
    CHECK(s.total > 100 && s.last == s.total && !s.fell);
    CHECK_INT(save(m, path, NULL, &e), GRAFT_E_ARG); /* nothing is replaced */
    CHECK(strstr(e.text, "exists") && strstr(e.text, "cancelled.safetensors"));
    CHECK_INT(files_in(folder), 1);
    unlink(path);
    RELEASE_ALL(a, b, m);
}

/* The limit of a file's size stands for a full disk: write() fails half-way. */
static void disk_full(void)
{
    char path[512];
    graft_err e = GRAFT_ERR_INIT;
    struct rlimit old, low;
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, path_b);
    graft_model *m = simple(a, b, 0.5);
    snprintf(path, sizeof path, "%s/full.safetensors", folder);
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0);
    low = old;
    low.rlim_cur = 500000;
    CHECK(setrlimit(RLIMIT_FSIZE, &low) == 0);
    CHECK_INT(save(m, path, NULL, &e), GRAFT_E_IO);
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
    CHECK(strstr(e.text, "full.safetensors") && strstr(e.text, "cannot write"));
    CHECK_INT(files_in(folder), 0);
    snprintf(path, sizeof path, "%s/nowhere/full.safetensors", folder);
    CHECK_INT(save(m, path, NULL, &e), GRAFT_E_NOTFOUND);
    CHECK(strstr(e.text, "nowhere"));
    CHECK_OK(graft_file_write(temp_path("file"), "", 0, &e), &e);
    snprintf(path, sizeof path, "%s/in-a-file", temp_path("file"));
    CHECK_INT(save(m, path, NULL, &e), GRAFT_E_NOTFOUND);
    unlink(temp_path("file"));
    RELEASE_ALL(a, b, m);
}

/* path_a in bfloat16, of which one value is the type's largest and another is `second`. */
static void make_largest(char path[256], const char *name, float second)
{
    graft_safetensors *f = open_file(path_a);
    made_file *m = copy_file(f, UNET);
    for (size_t i = 0; i < m->n; i++) {
        float *v = (float *)(uintptr_t)m->tensor[i].data;
        if (!i) v[0] = 0x1.fep127f;
        if (!i) v[1] = second;
        store_as(&m->tensor[i], GRAFT_BF16);
    }
    snprintf(path, 256, "%s", temp_path(name));
    write_file(m, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
}

/* The largest number of a type is not beyond it. */
static void largest_bfloat16(void)
{
    char one[256], two[256], path[512];
    graft_err e = GRAFT_ERR_INIT;
    make_largest(one, "one.safetensors", 1), make_largest(two, "two.safetensors", 2);
    graft_model *a = load_model(engine, one), *b = load_model(engine, two), *m = simple(a, b, 0.5);
    snprintf(path, sizeof path, "%s/largest.safetensors", folder);
    CHECK_OK(save(m, path, NULL, &e), &e);
    RELEASE_ALL(a, b, m);
    unlink(one), unlink(two), unlink(path);
}

static void beyond_float16(void)
{
    char path[512];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *b = load_model(engine, path_b), *big = NULL, *none = NULL;
    snprintf(path, sizeof path, "%s/big.safetensors", folder);
    CHECK_OK(graft_model_merge_subtract(b, b, 0.0, &none, &e), &e);
    CHECK_OK(graft_model_merge_subtract(b, none, 1e6, &big, &e), &e);
    CHECK_INT(save(big, path, NULL, &e), GRAFT_E_LIMIT);
    CHECK(strstr(e.text, "beyond the range of float16"));
    CHECK_INT(files_in(folder), 0);
    CHECK_INT(graft_checkpoint_save(&(graft_checkpoint){0}, path, NULL, NULL, &e), GRAFT_E_ARG);
    RELEASE_ALL(b, big, none);
}

static void written_in_place(void)
{
    char path[512], own[256];
    graft_err e = GRAFT_ERR_INIT;
    make_variant(own, "own.safetensors", 0.1f, GRAFT_F32);
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, own);
    graft_model *m = simple(a, b, 0.5);
    snprintf(path, sizeof path, "%s/place.safetensors", folder);
    CHECK(truncate(own, 1000) == 0);
    CHECK_INT(save(m, path, NULL, &e), GRAFT_E_IO);
    CHECK(strstr(e.text, "was written to"));
    CHECK_INT(files_in(folder), 0);
    RELEASE_ALL(a, b, m);
    unlink(own);
}

static void short_of_memory(void)
{
    char path[512];
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, path_b);
    graft_model *m = simple(a, b, 0.5);
    graft_alloc_stats before, after;
    graft_err e = GRAFT_ERR_INIT;
    int64_t n = 0;
    bool done = false;
    snprintf(path, sizeof path, "%s/memory.safetensors", folder);
    graft_alloc_stats_get(&before);
    while (!done && n < 100000) {
        graft_alloc_fail_at(++n);
        graft_status st = save(m, path, NULL, &e);
        graft_alloc_fail_at(0);
        done = st == GRAFT_OK;
        if (done) break;
        CHECK_INT(files_in(folder), 0);
        if (st != GRAFT_E_NOMEM) {
            CHECK_INT(st, GRAFT_E_NOMEM);
            break;
        }
        n += n / 20;
    }
    CHECK(done && n > 20);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
    unlink(path);
    RELEASE_ALL(a, b, m);
}

int main(void)
{
    make_variant(path_a, "save-a.safetensors", 0.2f, GRAFT_F32);
    make_variant(path_b, "save-b.safetensors", 0.5f, GRAFT_F16);
    make_variant(path_c, "save-c.safetensors", 0.5f, GRAFT_BF16);
    make_lora(path_lora, "save-lora.safetensors");
    snprintf(folder, sizeof folder, "%s", temp_path("folder"));
    if (mkdir(folder, 0777)) return 1;
    engine = make_engine("cpu");
    if (!engine) return 1;
    RUN(types_of_sums);
    RUN(float16_is_rounded_once);
    RUN(copies);
    RUN(other_files);
    RUN(all_of_a_checkpoint);
    RUN(cancelled);
    RUN(disk_full);
    RUN(largest_bfloat16);
    RUN(beyond_float16);
    RUN(written_in_place);
    RUN(short_of_memory);
    graft_engine_destroy(engine);
    const char *const made[] = {path_a, path_b, path_c, path_lora};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) unlink(made[i]);
    rmdir(folder);
    return test_end();
}
