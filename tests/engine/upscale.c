/* Upscale models: what a file is taken for, files that are none, pictures of every size, tiles and
 * limits of memory. What the networks compute is held against golden/small/upscale_*. */
#include <math.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/models/vaes/upscaler.h"
#include "tests/engine/fixture.h"

#define GOLDEN(name) GRAFT_SOURCE_DIR "/golden/small/upscale_" name ".safetensors"
#define EMOJI        GRAFT_SOURCE_DIR "/models/upscale_models/emoji-x4.safetensors"

static graft_engine *engine;

static graft_upscaler *load(const char *path)
{
    graft_upscaler *u = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_upscaler_load(engine, path, NULL, &u, &e), &e);
    return u;
}

/* Rings and stripes in three colours: edges everywhere, in all directions. */
static graft_image *picture(int64_t n, int64_t h, int64_t w, int64_t channels)
{
    const int64_t shape[4] = {n, h, w, channels};
    float *p = calloc((size_t)(n * h * w * channels), sizeof *p), *at = p;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < n; i++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++)
                for (int64_t c = 0; c < channels; c++) {
                    double r = sqrt((double)(x * x + y * y)), s = (double)(x + i - 2 * y);
                    *at++ = (float)(0.5 + 0.25 * sin(0.4 * r + (double)c) + 0.25 * sin(0.7 * s));
                }
    CHECK_OK(graft_image_from_data(p, shape, false, &image, &e), &e);
    free(p);
    return image;
}

/* The enlarged picture's values (free) and shape; NULL after a failed check. */
static float *enlarge(const graft_upscaler *u, const graft_image *image, int64_t shape[4])
{
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_upscale(u, image, NULL, &out, &e), &e);
    if (!out) return NULL;
    const float *p = graft_image_data(out, shape);
    size_t n = (size_t)shape_count(shape, 4);
    float *copy = calloc(n, sizeof *copy);
    memcpy(copy, p, n * sizeof *copy);
    graft_image_release(out);
    return copy;
}

/* ------------------------------------------------------------------ files */

static void files_are_told_apart(void)
{
    static const struct {
        const char *path;
        int64_t factor;
        graft_upscaler_arch arch;
    } files[] = {
        {GOLDEN("rrdb_x4"), 4, {GRAFT_UPSCALER_RRDB, GRAFT_UPSCALER_PLAIN, 16, 8, 2, 2, 1, 0}},
        {GOLDEN("rrdb_x2"), 2, {GRAFT_UPSCALER_RRDB, GRAFT_UPSCALER_PLAIN, 12, 6, 1, 2, 2, 0}},
        {GOLDEN("rrdb_x1"), 1, {GRAFT_UPSCALER_RRDB, GRAFT_UPSCALER_PLAIN, 8, 4, 1, 2, 4, 0}},
        {GOLDEN("old_x4"), 4, {GRAFT_UPSCALER_RRDB, GRAFT_UPSCALER_SEQUENTIAL, 8, 4, 2, 2, 1, 0}},
        {GOLDEN("old_x2"), 2, {GRAFT_UPSCALER_RRDB, GRAFT_UPSCALER_SEQUENTIAL, 8, 4, 1, 1, 1, 0}},
        {GOLDEN("old_x8"), 8, {GRAFT_UPSCALER_RRDB, GRAFT_UPSCALER_SEQUENTIAL, 8, 4, 1, 3, 1, 0}},
        {GOLDEN("trunk_x4"), 4, {GRAFT_UPSCALER_RRDB, GRAFT_UPSCALER_TRUNK, 8, 4, 1, 2, 1, 0}},
        {GOLDEN("compact_x4"), 4, {GRAFT_UPSCALER_COMPACT, 0, 16, 0, 3, 0, 0, 4}},
        {GOLDEN("compact_x3"), 3, {GRAFT_UPSCALER_COMPACT, 0, 9, 0, 0, 0, 0, 3}},
        {GOLDEN("compact_x1"), 1, {GRAFT_UPSCALER_COMPACT, 0, 8, 0, 1, 0, 0, 1}}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        graft_upscaler *u = load(files[i].path);
        CHECK_INT(graft_upscaler_factor(u), files[i].factor);
        if (memcmp(&u->arch, &files[i].arch, sizeof u->arch) != 0)
            CHECK_STR(files[i].path, "has the expected architecture");
        graft_upscaler_release(u);
    }
}

/* The tensors of a golden file, without the pictures in it. */
static made_file *copy_of(const char *path, const char *prefix)
{
    graft_safetensors *f = open_file(path);
    made_file *m = copy_file(f, prefix);
    graft_safetensors_close(f);
    return m;
}

static void drop(made_file *f, const char *name)
{
    graft_st_tensor *t = made_find(f, name), gone = *t;
    *t = f->tensor[--f->n];
    free((char *)gone.name);
    free((void *)gone.data);
}

/* Fewer values than the file had, in another shape. */
static void reshape(made_file *f, const char *name, int64_t dim0, int64_t dim1)
{
    graft_st_tensor *t = made_find(f, name);
    t->shape[0] = dim0;
    if (t->rank > 1) t->shape[1] = dim1;
    t->bytes = (uint64_t)shape_count(t->shape, t->rank) * sizeof(float);
}

static void refused(made_file *f, graft_status want, const char *text)
{
    const char *path = temp_path("upscale.safetensors");
    graft_upscaler *u = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_file(f, path, NULL);
    CHECK_INT(graft_upscaler_load(engine, path, NULL, &u, &e), want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    CHECK(strstr(e.text, "upscale.safetensors") != NULL);
    graft_upscaler_release(u);
    unlink(path);
}

#define RRDB    copy_of(GOLDEN("rrdb_x4"), "params_ema.")
#define OLD     copy_of(GOLDEN("old_x4"), "state_dict.")
#define COMPACT copy_of(GOLDEN("compact_x4"), "params.")

static void damaged_rrdbnets(void)
{
    made_file *f = RRDB;
    drop(f, "params_ema.body.1.rdb2.conv3.bias");
    refused(f, GRAFT_E_FORMAT, "body.1.rdb2.conv3.bias");
    f = RRDB;
    drop(f, "params_ema.conv_hr.weight");
    refused(f, GRAFT_E_FORMAT, "conv_hr.weight");
    f = RRDB;
    reshape(f, "params_ema.conv_body.weight", 16, 15);
    refused(f, GRAFT_E_FORMAT, "conv_body.weight");
    f = RRDB;
    reshape(f, "params_ema.conv_first.weight", 16, 2);
    refused(f, GRAFT_E_UNSUPPORTED, "2 channels going in");
    f = RRDB;
    reshape(f, "params_ema.conv_last.weight", 1, 16);
    refused(f, GRAFT_E_UNSUPPORTED, "1 channels");
    f = RRDB;
    drop(f, "params_ema.conv_last.weight");
    refused(f, GRAFT_E_UNSUPPORTED, "0 channels");
    f = RRDB;
    drop(f, "params_ema.conv_first.weight");
    refused(f, GRAFT_E_FORMAT, "conv_first.weight");
    f = RRDB;
    add_tensor(f, "params_ema.body.0.rdb1.conv1x1.weight", 4, (int64_t[]){8, 16, 1, 1}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "conv1x1");
    f = OLD;
    drop(f, "state_dict.model.10.weight");
    refused(f, GRAFT_E_UNSUPPORTED, "0 channels");
    f = OLD;
    drop(f, "state_dict.model.1.sub.2.weight");
    refused(f, GRAFT_E_FORMAT, "model.1.sub.2.weight");
}

static void damaged_compact_ones(void)
{
    made_file *f = COMPACT;
    drop(f, "params.body.1.weight");
    refused(f, GRAFT_E_UNSUPPORTED, "PReLU");
    f = COMPACT;
    drop(f, "params.body.3.weight");
    refused(f, GRAFT_E_FORMAT, "body.3.weight");
    f = COMPACT;
    reshape(f, "params.body.8.weight", 47, 16);
    refused(f, GRAFT_E_UNSUPPORTED, "47 channels before its pixel shuffle");
    f = COMPACT;
    reshape(f, "params.body.0.weight", 16, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "1 channels");
    f = COMPACT;
    add_tensor(f, "params.body.9.weight", 1, (int64_t[]){16}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "body.9.weight");
}

/* Sizes that would cost much before anyone noticed that the tensors do not fit. */
static void hostile_sizes(void)
{
    made_file *f = calloc(1, sizeof *f);
    add_tensor(f, "conv_first.weight", 4, (int64_t[]){4096, 3, 3, 3}, NULL, 1);
    add_tensor(f, "body.0.rdb1.conv1.weight", 4, (int64_t[]){8, 16, 3, 3}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "4096 features");
    f = calloc(1, sizeof *f);
    add_tensor(f, "conv_first.weight", 4, (int64_t[]){8, 3, 3, 3}, NULL, 1);
    for (int i = 0; i < 70; i++) {
        char name[64];
        snprintf(name, sizeof name, "body.%d.rdb1.conv1.weight", i);
        add_tensor(f, name, 4, (int64_t[]){4, 8, 3, 3}, NULL, 1);
    }
    refused(f, GRAFT_E_UNSUPPORTED, "blocks");
    f = calloc(1, sizeof *f);
    for (int i = 0; i < 140; i++) {
        char name[64];
        snprintf(name, sizeof name, "body.%d.weight", i);
        add_tensor(f, name, 4, (int64_t[]){3, 3, 3, 3}, NULL, 1);
    }
    refused(f, GRAFT_E_UNSUPPORTED, "blocks");
    f = calloc(1, sizeof *f);
    add_tensor(f, "conv_first.weight", 1, (int64_t[]){8}, NULL, 1);
    add_tensor(f, "body.0.rdb1.conv1.weight", 2, (int64_t[]){4, 8}, NULL, 1);
    refused(f, GRAFT_E_FORMAT, "conv_first.weight");
}

static void files_that_are_none(void)
{
    const char *path = temp_path("cut.safetensors");
    graft_upscaler *u = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_upscaler_load(engine, SD1, NULL, &u, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "RRDBNet") && strstr(e.text, "SRVGGNet"));
    CHECK(strstr(e.text, "it seems to be a UNet, which UNETLoader opens: neither") != NULL);
    CHECK_INT(graft_upscaler_load(engine, "/nowhere", NULL, &u, &e), GRAFT_E_NOTFOUND);
    char *bytes = NULL;
    size_t n = 0;
    CHECK_OK(graft_file_read(GOLDEN("rrdb_x1"), SIZE_MAX, &bytes, &n, &e), &e);
    for (size_t cut = 0; cut < n; cut += n / 7 + 1) {
        CHECK_OK(graft_file_write(path, bytes, cut, &e), &e);
        CHECK(graft_upscaler_load(engine, path, NULL, &u, &e) != GRAFT_OK);
        CHECK(strstr(e.text, "cut.safetensors") != NULL);
    }
    graft_free(bytes);
    unlink(path);
}

/* ------------------------------------------------------------------ pictures */

/* A picture that is no multiple of what the network takes together is as if its last row and column
 * went on. */
static void extended(const graft_upscaler *u, int64_t h, int64_t w)
{
    int64_t shape[4], even[4], H = (h + 3) / 4 * 4, W = (w + 3) / 4 * 4;
    graft_image *small = picture(1, h, w, 3), *large = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const float *p = graft_image_data(small, shape);
    float *q = calloc((size_t)(H * W * 3), sizeof *q);
    for (int64_t y = 0; y < H; y++)
        for (int64_t x = 0; x < W; x++)
            memcpy(q + (y * W + x) * 3, p + ((y < h ? y : h - 1) * w + (x < w ? x : w - 1)) * 3,
                   3 * sizeof *q);
    CHECK_OK(graft_image_from_data(q, (const int64_t[]){1, H, W, 3}, false, &large, &e), &e);
    float *a = enlarge(u, small, shape), *b = enlarge(u, large, even);
    for (int64_t y = 0; y < shape[1] && a && b; y++)
        CHECK(memcmp(a + y * shape[2] * 3, b + y * even[2] * 3, (size_t)shape[2] * 3 * sizeof *a) ==
              0);
    free(a);
    free(b);
    free(q);
    graft_image_release(small);
    graft_image_release(large);
}

static void any_size(void)
{
    static const char *const paths[] = {GOLDEN("rrdb_x4"), GOLDEN("rrdb_x2"), GOLDEN("rrdb_x1"),
                                        GOLDEN("old_x8"), GOLDEN("compact_x3")};
    static const int64_t sizes[][2] = {{1, 1}, {1, 7}, {5, 2}, {13, 9}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        graft_upscaler *u = load(paths[i]);
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            int64_t shape[4] = {0};
            graft_image *image = picture(2, sizes[k][0], sizes[k][1], 3);
            float *p = enlarge(u, image, shape);
            CHECK_INT(shape[0], 2);
            CHECK_INT(shape[1], sizes[k][0] * graft_upscaler_factor(u));
            CHECK_INT(shape[2], sizes[k][1] * graft_upscaler_factor(u));
            CHECK_INT(shape[3], 3);
            bool inside = p != NULL;
            for (int64_t j = 0; p && j < shape_count(shape, 4); j++)
                inside = inside && p[j] >= 0 && p[j] <= 1;
            CHECK(inside);
            free(p);
            graft_image_release(image);
        }
        if (u->arch.unshuffle == 4) extended(u, 6, 9);
        graft_upscaler_release(u);
    }
}

static void batches_and_grey(void)
{
    graft_upscaler *u = load(GOLDEN("rrdb_x2"));
    int64_t shape[4], one[4];
    graft_image *both = picture(2, 6, 10, 3), *grey = picture(1, 6, 10, 1), *rgb = NULL,
                *alpha = picture(1, 6, 10, 4), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const float *p = graft_image_data(both, shape);
    float *whole = enlarge(u, both, shape);
    for (int i = 0; i < 2 && whole; i++) {
        graft_image *alone = NULL;
        CHECK_OK(
            graft_image_from_data(p + i * 180, (const int64_t[]){1, 6, 10, 3}, false, &alone, &e),
            &e);
        float *q = enlarge(u, alone, one);
        CHECK(q && memcmp(q, whole + i * 720, 720 * sizeof *q) == 0);
        free(q);
        graft_image_release(alone);
    }
    free(whole);
    float three[180];
    p = graft_image_data(grey, one);
    for (int i = 0; i < 180; i++) three[i] = p[i / 3];
    CHECK_OK(graft_image_from_data(three, (const int64_t[]){1, 6, 10, 3}, false, &rgb, &e), &e);
    float *a = enlarge(u, grey, shape), *b = enlarge(u, rgb, one);
    CHECK(a && b && memcmp(a, b, 720 * sizeof *a) == 0);
    free(a);
    free(b);
    CHECK_INT(graft_image_upscale(u, alpha, NULL, &out, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "4 channels") != NULL);
    graft_image_release(both);
    graft_image_release(grey);
    graft_image_release(rgb);
    graft_image_release(alpha);
    graft_upscaler_release(u);
}

/* ------------------------------------------------------------------ tiles */

/* Bytes that a picture of this size takes in one piece. */
static int64_t bytes_of(const graft_upscaler *u, int64_t h, int64_t w)
{
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_upscaler_bind(u, h, w, NULL, &b, &e), &e);
    int64_t bytes = b ? b->exe->arena_bytes + (int64_t)b->exe->weight_bytes : 0;
    graft_binding_release(b);
    return bytes;
}

typedef struct watch {
    bool upscaling;                /* other phases have progress of their own */
    uint64_t done, total, stop_at; /* stop_at: progress at which to cancel; 0: never */
} watch;

static void phase(void *ctx, const char *name)
{
    ((watch *)ctx)->upscaling = strcmp(name, "upscale") == 0;
}

static void progress(void *ctx, uint64_t done, uint64_t total)
{
    watch *w = ctx;
    if (!w->upscaling) return;
    CHECK(done >= w->done && done <= total);
    w->done = done;
    w->total = total;
}

static bool cancelled(void *ctx)
{
    const watch *w = ctx;
    return w->stop_at && w->done >= w->stop_at;
}

/* The demo's network, whose pictures have edges everywhere, whole and in tiles of all sizes: away
 * from seams they are the same, and nowhere is a seam to be seen. */
static void tiles_do_not_show(void)
{
    graft_upscaler *u = load(EMOJI);
    enum { H = 72, W = 168 };
    int64_t shape[4], all = bytes_of(u, H, W);
    graft_image *image = picture(1, H, W, 3);
    float *whole = enlarge(u, image, shape);
    for (int part = 2; part <= 8; part *= 2) {
        watch seen = {0};
        const graft_task task = {.ctx = &seen, .phase = phase, .progress = progress};
        graft_image *out = NULL;
        graft_err e = GRAFT_ERR_INIT;
        u->options.max_bytes = bytes_of(u, 8, 8) + (all - bytes_of(u, 8, 8)) / part;
        CHECK_OK(graft_image_upscale(u, image, &task, &out, &e), &e);
        if (!out || !whole) break;
        const float *p = graft_image_data(out, shape);
        double sum = 0, most = 0;
        for (int64_t i = 0; i < shape_count(shape, 4); i++) {
            double d = fabs((double)p[i] - (double)whole[i]);
            sum += d * d;
            most = d > most ? d : most;
        }
        double psnr = -10 * log10(sum / (double)shape_count(shape, 4) + 1e-20);
        printf("  1/%d of the memory: %d tiles, %.1f dB, at most %.4f\n", part, (int)seen.total,
               psnr, most);
        CHECK(seen.total >= (uint64_t)part && seen.done == seen.total);
        CHECK(psnr > 50);
        CHECK(most < 0.02);
        graft_image_release(out);
    }
    free(whole);
    graft_image_release(image);
    graft_upscaler_release(u);
}

static void too_little_memory(void)
{
    graft_upscaler *u = load(GOLDEN("rrdb_x4"));
    graft_image *image = picture(1, 40, 40, 3), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    u->options.max_bytes = 1 << 12;
    CHECK_INT(graft_image_upscale(u, image, NULL, &out, &e), GRAFT_E_LIMIT);
    CHECK(strstr(e.text, "upscaler") != NULL);
    graft_image_release(image);
    image = picture(1, 1, 16384, 3);
    u->options.max_bytes = 0;
    CHECK_INT(graft_image_upscale(u, image, NULL, &out, &e), GRAFT_E_LIMIT); /* as any picture */
    graft_image_release(image);
    graft_upscaler_release(u);
}

static void stops_between_tiles(void)
{
    graft_upscaler *u = load(GOLDEN("rrdb_x4"));
    graft_image *image = picture(2, 64, 48, 3), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    watch seen = {.stop_at = 2};
    const graft_task task = {
        .ctx = &seen, .phase = phase, .progress = progress, .cancelled = cancelled};
    u->options.max_bytes = bytes_of(u, 24, 24);
    CHECK_INT(graft_image_upscale(u, image, &task, &out, &e), GRAFT_E_CANCEL);
    CHECK_INT(seen.done, 2);
    CHECK(seen.total > 8 && seen.total % 2 == 0);
    graft_image_release(image);
    graft_upscaler_release(u);
}

/* ------------------------------------------------------------------ compiling */

static void compiled_once(void)
{
    graft_upscaler *u = load(GOLDEN("compact_x4")), *again = load(GOLDEN("compact_x4"));
    graft_image *image = picture(1, 9, 11, 3), *out = NULL;
    graft_compiled_stats before, after;
    graft_err e = GRAFT_ERR_INIT;
    int64_t shape[4];
    const graft_task ahead = {.compile_only = true};
    graft_compiled_stats_get(engine->compiled, &before);
    CHECK_OK(graft_image_upscale(u, image, &ahead, &out, &e), &e);
    const float *p = graft_image_data(out, shape);
    CHECK(shape[1] == 36 && shape[2] == 44 && p[0] == 0 && p[36 * 44 * 3 - 1] == 0);
    graft_image_release(out);
    float *a = enlarge(u, image, shape), *b = enlarge(again, image, shape);
    CHECK(a && b && memcmp(a, b, 36 * 44 * 3 * sizeof *a) == 0);
    graft_compiled_stats_get(engine->compiled, &after);
    CHECK_INT(after.built - before.built, 1);
    free(a);
    free(b);
    graft_image_release(image);
    graft_upscaler_release(u);
    graft_upscaler_release(again);
}

int main(void)
{
    static const char *const backends[] = {"cpu", "ref"};
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        if (!engine) break;
        if (i == 0) {
            RUN(files_are_told_apart);
            RUN(damaged_rrdbnets);
            RUN(damaged_compact_ones);
            RUN(hostile_sizes);
            RUN(files_that_are_none);
            RUN(tiles_do_not_show);
        }
        RUN(any_size);
        RUN(batches_and_grey);
        RUN(too_little_memory);
        RUN(stops_between_tiles);
        RUN(compiled_once);
        graft_engine_destroy(engine);
    }
    return test_end();
}
