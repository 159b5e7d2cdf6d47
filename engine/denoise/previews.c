#include "engine/denoise/previews.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/image/latent.h"

static bool coloured(const graft_previews *p)
{
    return p->model && p->channels == graft_preview_planes(&p->model->preview);
}

void graft_previews_begin(graft_previews *p, const graft_model *model, const graft_task *task,
                          const int64_t shape[4])
{
    *p = (graft_previews){
        .model = model, .task = task, .channels = shape[1], .height = shape[2], .width = shape[3]};
    if (!task || !task->preview) return;
    bool limited = model->engine->max_bytes > 0; /* that memory is for models */
    if (task->preview_vae && !(limited && task->preview_silent))
        p->vae = task->preview_vae(task->ctx, model);
    p->any = p->vae || coloured(p);
    if (!p->vae || !limited) return;
    graft_log_printf(&task->log, GRAFT_LOG_WARN,
                     "previews are not decoded: GRAFT_MEMORY_MB is for models");
    graft_previews_end(p);
}

/* Nothing is decoded from here on; colours are what is left. */
void graft_previews_end(graft_previews *p)
{
    graft_vae_release(p->vae);
    p->vae = NULL;
    p->any = p->any && coloured(p);
}

static bool is_looked_at(const graft_previews *p)
{
    return !p->task->preview_wanted || p->task->preview_wanted(p->task->ctx);
}

bool graft_previews_wanted(const graft_previews *p, bool last)
{
    /* Of the last one the task is asked once it knows that it is. */
    if (!p->any || last) return p->any;
    if (p->vae && graft_clock_now() < p->rest_until) return false;
    return is_looked_at(p);
}

/* ------------------------------------------------------------------ colours */

static void show_colours(const graft_previews *p, const float *denoised)
{
    const graft_task *t = p->task;
    const graft_preview_colours *c = &p->model->preview;
    const int64_t h = p->height * graft_preview_side(c), w = p->width * graft_preview_side(c);
    const int64_t area = p->height * p->width, n = p->channels * area;
    uint8_t *rgb = graft_malloc_array((size_t)(h * w), 3);
    float *latent = c->travel ? graft_malloc_array((size_t)n, sizeof *latent) : NULL;
    if (rgb && (latent || !c->travel)) { /* a preview is not worth a failure */
        if (latent) graft_model_unscale_latent(p->model, denoised, (size_t)n, area, latent);
        graft_preview_draw(c, latent ? latent : denoised, p->height, p->width, rgb);
        t->preview(t->ctx, rgb, (int)w, (int)h);
    }
    graft_free(latent);
    graft_free(rgb);
}

/* ------------------------------------------------------------------ decoded */

/* The mean of a square of pixels, cut at the picture's end, as a byte. What is no number is black.
 */
static uint8_t mean_of(const float *x, const int64_t shape[4], int64_t y0, int64_t x0, int64_t side,
                       int64_t channel)
{
    float sum = 0;
    int64_t y1 = y0 + side < shape[1] ? y0 + side : shape[1];
    int64_t x1 = x0 + side < shape[2] ? x0 + side : shape[2];
    for (int64_t i = y0; i < y1; i++)
        for (int64_t k = x0; k < x1; k++) sum += x[(i * shape[2] + k) * shape[3] + channel];
    sum /= (float)((y1 - y0) * (x1 - x0));
    return sum >= 0 ? (uint8_t)(sum * 255.0f + 0.5f) : 0;
}

static graft_status show_picture(const graft_previews *p, const graft_image *image, graft_err *e)
{
    int64_t shape[4];
    const float *x = graft_image_data(image, shape);
    const int64_t longest = shape[1] > shape[2] ? shape[1] : shape[2];
    const int64_t side = (longest + GRAFT_PREVIEWS_SIDE - 1) / GRAFT_PREVIEWS_SIDE;
    const int64_t h = (shape[1] + side - 1) / side, w = (shape[2] + side - 1) / side;
    uint8_t *rgb = graft_malloc_array((size_t)(h * w), 3);
    if (!rgb) return graft_fail_nomem(e, "a preview");
    for (int64_t i = 0; i < h * w * 3; i++)
        rgb[i] = mean_of(x, shape, i / 3 / w * side, i / 3 % w * side, side, i % 3);
    p->task->preview(p->task->ctx, rgb, (int)w, (int)h);
    graft_free(rgb);
    return GRAFT_OK;
}

static graft_status decode(graft_previews *p, const float *denoised, graft_err *e)
{
    const int64_t shape[4] = {1, p->channels, p->height, p->width};
    /* Phases and progress are the run's. */
    const graft_task quiet = {
        .ctx = p->task->ctx, .cancelled = p->task->cancelled, .log = p->task->log};
    graft_latent *latent = NULL;
    graft_image *image = NULL;
    graft_status st = GRAFT_OK;
    if (!p->ready) GRAFT_TRY(graft_vae_prepare(p->vae, true, p->height, p->width, &quiet, e));
    p->ready = true;
    double begin = graft_clock_now();
    GRAFT_TRY(graft_latent_create(shape, &latent, e));
    graft_model_unscale_latent(p->model, denoised, (size_t)(shape[1] * shape[2] * shape[3]),
                               shape[2] * shape[3], graft_latent_writable(latent));
    GRAFT_TRY(graft_vae_decode(p->vae, latent, NULL, &quiet, &image, e));
    GRAFT_TRY(show_picture(p, image, e));
    double end = graft_clock_now();
    p->rest_until = end + (end - begin) * (GRAFT_PREVIEWS_SHARE - 1);
out:
    graft_latent_release(latent);
    graft_image_release(image);
    return st;
}

void graft_previews_show(graft_previews *p, const float *denoised, bool last)
{
    graft_err e = GRAFT_ERR_INIT;
    if (!p->any || (last && !is_looked_at(p))) return;
    graft_status st = p->vae ? decode(p, denoised, &e) : GRAFT_OK;
    if (st == GRAFT_E_CANCEL) return; /* the run will see for itself */
    if (st) {
        graft_log_printf(&p->task->log, GRAFT_LOG_WARN, "previews are not decoded: %s", e.text);
        graft_previews_end(p);
    }
    if (!p->vae && p->any) show_colours(p, denoised);
}
