/* graft compare: two workflows, the same seeds, and how alike their pictures are. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/metrics.h"
#include "base/png.h"
#include "host/session/ahead.h"
#include "host/commands/commands.h"
#include "host/run/executor.h"
#include "host/session/phases.h"
#include "host/session/progress.h"
#include "host/session/session.h"
#include "host/prompt/choices.h"
#include "host/prompt/validate.h"
#include "host/prompt/workflow.h"

enum { PICTURES_MAX = 64, STEPS_MAX = 256, ROWS = 8, PNG_LEVEL = 6 };
#define ENLARGED 4 /* how much the differences are, to be seen */

typedef struct picture {
    uint8_t *rgb;
    uint32_t width, height;
} picture;

typedef struct latent {
    float *values;
    size_t n;
} latent;

/* What one run of one workflow left. */
typedef struct outcome {
    picture picture[PICTURES_MAX];
    size_t n_pictures;
    latent step[STEPS_MAX]; /* one a step, those of later samplers behind those of earlier ones */
    size_t n_steps;
    double seconds; /* of sampling */
    graft_phases phases;
    graft_progress *progress;
} outcome;

typedef struct comparison {
    const graft_options *o;
    graft_session session;
    graft_executor *executor;
    graft_workflow workflow[2];
    double mse[STEPS_MAX]; /* of the latents, added over seeds */
    size_t n_mse[STEPS_MAX];
    size_t uneven[2]; /* steps of a pair of runs whose steps are no counterparts; else 0 */
    double psnr, ssim, seconds[2];
    size_t pairs, equal, runs; /* psnr: the sum of those pairs that are not equal */
    picture row[ROWS][2];      /* for the picture */
    size_t rows;
    graft_progress progress; /* on a terminal only: the table is what a log wants */
} comparison;

static void outcome_finish(outcome *r)
{
    for (size_t i = 0; i < r->n_pictures; i++) graft_free(r->picture[i].rgb);
    for (size_t i = 0; i < r->n_steps; i++) graft_free(r->step[i].values);
    r->n_pictures = r->n_steps = 0;
}

/* ------------------------------------------------------------------ one run */

static void on_phase(void *ctx, const graft_where *at, const char *phase)
{
    outcome *r = ctx;
    (void)at;
    graft_phases_begin(&r->phases, phase);
    graft_progress_phase(r->progress, phase);
}

static void on_progress(void *ctx, const graft_where *at, uint64_t done, uint64_t total)
{
    (void)at;
    graft_progress_step(((outcome *)ctx)->progress, done, total);
}

static void on_done(void *ctx, const graft_where *at, const cJSON *ui, int32_t from_cache)
{
    (void)at, (void)ui, (void)from_cache;
    graft_phases_end(&((outcome *)ctx)->phases);
}

static void on_latent(void *ctx, const graft_where *at, const graft_tensor *t)
{
    outcome *r = ctx;
    (void)at;
    if (r->n_steps == STEPS_MAX) return;
    size_t n = (size_t)(t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]);
    float *copy = graft_malloc_array(n, sizeof *copy);
    if (copy) memcpy(copy, t->data, n * sizeof *copy);
    r->step[r->n_steps++] = (latent){copy, copy ? n : 0}; /* without memory the curve ends here */
}

static double sampling_seconds(const graft_phases *p)
{
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->row[i].name, "sample") == 0) return p->row[i].seconds;
    return 0;
}

static graft_status read_picture(const comparison *c, const cJSON *item, outcome *r, graft_err *e)
{
    const char *name = graft_json_str(item, "filename", ""),
               *sub = graft_json_str(item, "subfolder", "");
    char path[4096];
    char *data = NULL;
    size_t size;
    if (strcmp(graft_json_str(item, "type", ""), "output") != 0 || strlen(name) < 4 ||
        strcmp(name + strlen(name) - 4, ".png") != 0 || r->n_pictures == PICTURES_MAX)
        return GRAFT_OK;
    snprintf(path, sizeof path, "%s/%s%s%s", c->o->output, sub, *sub ? "/" : "", name);
    picture *p = &r->picture[r->n_pictures];
    graft_status st = graft_file_read(path, (size_t)1 << 30, &data, &size, e);
    if (!st)
        st = graft_png_decode_rgb((const uint8_t *)data, size, &p->rgb, &p->width, &p->height, e);
    graft_free(data);
    if (!st) r->n_pictures++;
    return st;
}

static graft_status read_pictures(const comparison *c, const cJSON *outputs, outcome *r,
                                  graft_err *e)
{
    const cJSON *ui, *item;
    graft_status st = GRAFT_OK;
    cJSON_ArrayForEach(ui, outputs)
    {
        const cJSON *images = cJSON_GetObjectItemCaseSensitive(ui, "images");
        cJSON_ArrayForEach(item, images) if (!st) st = read_picture(c, item, r, e);
    }
    return st;
}

/* Sets the seeds of all samplers; what calibrates keeps its own. */
static void set_seed(cJSON *prompt, uint64_t seed)
{
    static const char *const names[] = {"seed", "noise_seed"};
    cJSON *node;
    cJSON_ArrayForEach(node, prompt)
    {
        cJSON *inputs = cJSON_GetObjectItemCaseSensitive(node, "inputs");
        if (strcmp(graft_json_str(node, "class_type", ""), "QuantizeModel") == 0) continue;
        for (int i = 0; i < 2; i++) {
            cJSON *old = cJSON_GetObjectItemCaseSensitive(inputs, names[i]);
            cJSON *new = old && !cJSON_IsArray(old) ? graft_json_new_u64(seed) : NULL;
            if (new) cJSON_ReplaceItemInObjectCaseSensitive(inputs, names[i], new);
        }
    }
}

static void begin_run(comparison *c, int which, int seed, outcome *r)
{
    char text[32] = "its own seed";
    if (seed) snprintf(text, sizeof text, "seed %d", seed);
    r->progress = &c->progress;
    graft_progress_node(&c->progress, which ? "B" : "A", text);
}

static graft_status run_one(comparison *c, int which, int seed, outcome *r, graft_err *e)
{
    const char *file = which ? c->o->second : c->o->file;
    graft_validation v = {0};
    graft_run_result result = {0};
    graft_str text = GRAFT_STR_INIT;
    cJSON *json = cJSON_Duplicate(c->workflow[which].prompt, 1);
    if (!json) return graft_fail_nomem(e, "a workflow");
    if (seed) set_seed(json, (uint64_t)seed);
    graft_status st = GRAFT_OK;
    if (c->workflow[which].editor) st = graft_choices_make(json, c->session.registry, e);
    if (st) cJSON_Delete(json);
    GRAFT_TRY(st);
    GRAFT_TRY(graft_validate(c->session.registry, &c->session.services.host, json, NULL, 0, &v, e));
    if (v.error || (v.node_errors && v.node_errors->child)) {
        graft_validation_text(&v, file, &c->session.folders, &text);
        st = graft_fail(e, GRAFT_E_ARG, "%s", text.data ? text.data : file);
        goto out;
    }
    const graft_events events = {.ctx = r,
                                 .progress = on_progress,
                                 .phase = on_phase,
                                 .node_done = on_done,
                                 .latent = on_latent};
    const graft_run_request request = {v.prompt, NULL, &events, NULL, false};
    begin_run(c, which, seed, r);
    graft_phases_init(&r->phases);
    st = graft_executor_run(c->executor, &request, &result, e);
    r->seconds = sampling_seconds(&r->phases);
    graft_phases_finish(&r->phases);
    if (!st) st = read_pictures(c, result.outputs, r, e);
    if (!st && !r->n_pictures)
        st = graft_fail(e, GRAFT_E_ARG, "%s saves no picture that could be compared", file);
    graft_run_result_finish(&result);
out:
    graft_str_finish(&text);
    graft_validation_finish(&v);
    return st;
}

/* ------------------------------------------------------------------ comparing */

static float *as_floats(const uint8_t *v, size_t n)
{
    float *f = graft_malloc_array(n, sizeof *f);
    for (size_t i = 0; f && i < n; i++) f[i] = (float)v[i] / 255.0f;
    return f;
}

/* Ends a line of the table; psnr: INFINITY for equal pictures. */
static void print_likeness(double psnr, double ssim)
{
    if (isinf(psnr))
        printf(" %9s", "equal");
    else
        printf(" %9.2f", psnr);
    printf(" %8.4f\n", ssim);
}

static graft_status compare_pair(comparison *c, int seed, size_t number, const picture *a,
                                 const picture *b, graft_err *e)
{
    if (a->width != b->width || a->height != b->height)
        return graft_fail(e, GRAFT_E_ARG, "picture %zu has %ux%u pixels in A, %ux%u in B",
                          number + 1, a->width, a->height, b->width, b->height);
    size_t n = (size_t)a->width * a->height * 3;
    float *x = as_floats(a->rgb, n), *y = as_floats(b->rgb, n);
    double ssim = NAN, psnr;
    graft_status st = x && y ? GRAFT_OK : graft_fail_nomem(e, "a picture");
    if (!st) st = graft_metric_ssim(x, y, a->height, a->width, 3, 1.0, &ssim, e);
    if (!st) {
        psnr = graft_metric_psnr(x, y, n, 1.0);
        if (!c->pairs) printf("%6s %8s %9s %8s\n", "seed", "picture", "PSNR dB", "SSIM");
        if (seed)
            printf("%6d", seed);
        else
            printf("%6s", "own");
        printf(" %8zu", number + 1);
        print_likeness(psnr, ssim);
        if (isinf(psnr))
            c->equal++;
        else
            c->psnr += psnr;
        c->ssim += ssim;
        c->pairs++;
    }
    graft_free(x);
    graft_free(y);
    return st;
}

static void compare_steps(comparison *c, const outcome *a, const outcome *b)
{
    if (a->n_steps != b->n_steps) {
        c->uneven[0] = a->n_steps;
        c->uneven[1] = b->n_steps;
        return;
    }
    for (size_t i = 0; i < a->n_steps && i < b->n_steps; i++) {
        if (!a->step[i].n || a->step[i].n != b->step[i].n) return;
        c->mse[i] += graft_metric_mse(a->step[i].values, b->step[i].values, a->step[i].n);
        c->n_mse[i]++;
    }
}

static graft_status compare_seed(comparison *c, int seed, graft_err *e)
{
    outcome *r = graft_calloc(2, sizeof *r);
    graft_status st = r ? GRAFT_OK : graft_fail_nomem(e, "a comparison");
    for (int i = 0; i < 2 && !st; i++) st = run_one(c, i, seed, &r[i], e);
    graft_progress_clear(&c->progress);
    if (!st && r[0].n_pictures != r[1].n_pictures)
        st = graft_fail(e, GRAFT_E_ARG, "A saves %zu picture%s, B %zu", r[0].n_pictures,
                        r[0].n_pictures == 1 ? "" : "s", r[1].n_pictures);
    for (size_t i = 0; !st && i < r[0].n_pictures; i++) {
        st = compare_pair(c, seed, i, &r[0].picture[i], &r[1].picture[i], e);
        if (st || c->rows == ROWS) continue;
        for (int k = 0; k < 2; k++) { /* the row takes the pixels over */
            c->row[c->rows][k] = r[k].picture[i];
            r[k].picture[i].rgb = NULL;
        }
        c->rows++;
    }
    if (!st) {
        fflush(stdout);
        compare_steps(c, &r[0], &r[1]);
        for (int i = 0; i < 2; i++) c->seconds[i] += r[i].seconds;
        c->runs++;
    }
    for (int i = 0; i < 2 && r; i++) outcome_finish(&r[i]);
    graft_free(r);
    return st;
}

/* ------------------------------------------------------------------ results */

static void print_results(const comparison *c)
{
    double n = (double)c->pairs, runs = (double)c->runs, most = 0;
    size_t differ = c->pairs - c->equal;
    printf("%6s %8s", "mean", "");
    print_likeness(differ ? c->psnr / (double)differ : (double)INFINITY, c->ssim / n);
    if (differ && c->equal)
        printf("%zu equal pair%s left out of the mean of PSNR\n", c->equal,
               c->equal == 1 ? " is" : "s are");
    printf("sampling %.3f s in A, %.3f s in B", c->seconds[0] / runs, c->seconds[1] / runs);
    if (c->seconds[0] > 0 && c->seconds[1] > 0)
        printf(": B is %.2f times as fast", c->seconds[0] / c->seconds[1]);
    printf("\n");
    for (size_t i = 0; i < STEPS_MAX && c->n_mse[i]; i++)
        most = fmax(most, c->mse[i] / (double)c->n_mse[i]);
    if (c->uneven[0] || c->uneven[1])
        printf("the latents are not compared: %zu step%s in A, %zu in B%s\n", c->uneven[0],
               c->uneven[0] == 1 ? "" : "s", c->uneven[1],
               c->uneven[1] ? "" : ", which the same nodes had computed already");
    if (c->n_mse[0]) printf("MSE of the latent after each step\n");
    for (size_t i = 0; i < STEPS_MAX && c->n_mse[i]; i++) {
        double mse = c->mse[i] / (double)c->n_mse[i];
        int bar = most > 0 ? (int)lround(40 * mse / most) : 0;
        printf("%6zu %10.2e %.*s\n", i + 1, mse, bar, "########################################");
    }
}

/* A, B and their enlarged difference, side by side. */
static void draw_row(const picture *a, const picture *b, uint8_t *out, size_t stride)
{
    for (uint32_t y = 0; y < a->height; y++)
        for (uint32_t x = 0; x < 3 * a->width; x++) {
            size_t from = (size_t)y * 3 * a->width + x;
            int d = ENLARGED * ((int)a->rgb[from] - (int)b->rgb[from]);
            uint8_t *to = out + y * stride + x;
            to[0] = a->rgb[from];
            to[(size_t)3 * a->width] = b->rgb[from];
            to[(size_t)6 * a->width] = (uint8_t)(d < -255 ? 255 : d < 0 ? -d : d > 255 ? 255 : d);
        }
}

static graft_status write_picture(const comparison *c, graft_err *e)
{
    uint32_t width = 0, height = 0;
    for (size_t i = 0; i < c->rows; i++) {
        if (3 * c->row[i][0].width > width) width = 3 * c->row[i][0].width;
        height += c->row[i][0].height;
    }
    size_t stride = (size_t)width * 3, at = 0, size = 0;
    uint8_t *pixels = graft_calloc(height, stride), *png = NULL;
    char *path = graft_path_join(c->o->output, "compare.png");
    graft_status st = pixels && path ? GRAFT_OK : graft_fail_nomem(e, "a picture");
    for (size_t i = 0; !st && i < c->rows; i++) {
        draw_row(&c->row[i][0], &c->row[i][1], pixels + at, stride);
        at += stride * c->row[i][0].height;
    }
    if (!st) st = graft_png_encode(pixels, width, height, 3, PNG_LEVEL, NULL, 0, &png, &size, e);
    if (!st) st = graft_file_write(path, png, size, e);
    if (!st)
        printf("wrote %s: A, B, and %d times their difference\n", graft_path_shown(path), ENLARGED);
    graft_free(png);
    graft_free(pixels);
    graft_free(path);
    return st;
}

static void on_log(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level >= GRAFT_LOG_WARN) fprintf(stderr, "%s\n", text);
}

static graft_status compare(comparison *c, graft_err *e)
{
    graft_status st;
    GRAFT_TRY(graft_workflow_read(c->o->file, c->session.registry, &c->workflow[0], e));
    GRAFT_TRY(graft_workflow_read(c->o->second, c->session.registry, &c->workflow[1], e));
    GRAFT_TRY(graft_ahead_device(&c->session, c->o, e));
    GRAFT_TRY(graft_folders_writable(&c->session.folders, "output", "", e));
    GRAFT_TRY(graft_executor_create(&c->session.services.host, true, &c->executor, e));
    graft_progress_nodes(&c->progress, 2 * (size_t)(c->o->seeds ? c->o->seeds : 1));
    if (!c->o->seeds) GRAFT_TRY(compare_seed(c, 0, e));
    for (int seed = 1; seed <= c->o->seeds; seed++) GRAFT_TRY(compare_seed(c, seed, e));
    print_results(c);
    GRAFT_TRY(write_picture(c, e));
out:
    return st;
}

int graft_command_compare(const graft_options *o)
{
    graft_err e = GRAFT_ERR_INIT;
    const graft_log log = {NULL, on_log};
    comparison *c = graft_calloc(1, sizeof *c);
    graft_status st = c ? GRAFT_OK : graft_fail_nomem(&e, "a comparison");
    if (c) {
        c->o = o;
        graft_progress_init(&c->progress, stderr, o->quiet || !isatty(STDERR_FILENO));
        st = graft_session_init(&c->session, o, &log, &e);
        if (!st) st = compare(c, &e);
        graft_executor_destroy(c->executor);
        for (size_t i = 0; i < c->rows; i++)
            for (int k = 0; k < 2; k++) graft_free(c->row[i][k].rgb);
        for (int i = 0; i < 2; i++) graft_workflow_finish(&c->workflow[i]);
        graft_session_finish(&c->session);
        graft_progress_finish(&c->progress);
        graft_free(c);
    }
    if (st) fflush(stdout); /* else main() sees whether it went out */
    if (st) fprintf(stderr, "graft: %s\n", e.text);
    return st ? GRAFT_EXIT_FAILED : GRAFT_EXIT_OK;
}
