/* A quantization plan as a picture: each layer by its compute density and its error. */
#include <math.h>
#include <stdio.h>

#include "engine/calibrate/quantize.h"
#include "engine/image/draw.h"
#include "engine/image/image.h"

enum { WIDTH = 960, HEIGHT = 640, LEFT = 110, RIGHT = 930, TOP = 116, BOTTOM = 540, GAP = 20 };

#define PAPER  0xfcfcfau
#define INK    0x22282fu
#define FAINT  0x6b7480u
#define GROOVE 0xe9ebedu
#define BLUE   0x3a78b8u
#define AMBER  0xd08a2eu
#define VIOLET 0x9440b8u
#define GREY   0xb4bbc2u

static const uint32_t colours[GRAFT_LAYER_KINDS] = {BLUE, AMBER, VIOLET};

/* Decades along one axis. */
typedef struct axis {
    int low, high;
    int64_t from, to; /* pixels */
} axis;

static int64_t place(const axis *a, double v)
{
    double decades = log10(v > 1e-300 ? v : 1e-300) - a->low;
    double share = decades / (a->high - a->low);
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    return a->from + (int64_t)lround(share * (double)(a->to - a->from));
}

static void cover(axis *a, double v)
{
    if (!(v > 0) || !isfinite(v)) return;
    double d = log10(v);
    if (floor(d) < a->low) a->low = d < -12 ? -12 : (int)floor(d);
    if (ceil(d) > a->high) a->high = d > 12 ? 12 : (int)ceil(d);
}

static void draw_axes(graft_canvas *c, const axis *x, const axis *y)
{
    char text[32];
    for (int d = x->low; d <= x->high; d++) {
        int64_t at = place(x, pow(10, d));
        snprintf(text, sizeof text, "%g", pow(10, d));
        graft_draw_box(c, at, TOP, 1, BOTTOM - TOP, GROOVE);
        graft_draw_text(c, at - graft_draw_text_width(2, text) / 2, BOTTOM + 12, 2, FAINT, text);
    }
    for (int d = y->low; d <= y->high; d++) {
        int64_t at = place(y, pow(10, d));
        snprintf(text, sizeof text, "%.0e", pow(10, d));
        graft_draw_box(c, LEFT, at, RIGHT - LEFT, 1, GROOVE);
        graft_draw_text(c, LEFT - 12 - graft_draw_text_width(2, text), at - 7, 2, FAINT, text);
    }
    graft_draw_text(c, LEFT, BOTTOM + 40, 2, INK, "compute density, FLOP a byte");
    graft_draw_text(c, 12, TOP - 26, 2, INK, "MSE of the latent by this layer alone");
}

/* A square in a box at x, y; for attention one that stands on a corner. */
static void draw_mark(graft_canvas *c, int64_t x, int64_t y, int64_t size, uint32_t colour,
                      graft_layer_kind kind)
{
    if (kind != GRAFT_LAYER_ATTENTION) {
        graft_draw_box(c, x, y, size, size, colour);
        return;
    }
    for (int64_t i = 0; i < size; i++) {
        int64_t cut = i < size / 2 ? size / 2 - i : i - size / 2;
        graft_draw_box(c, x + cut, y + i, size / 2 * 2 + 1 - 2 * cut, 1, colour);
    }
}

/* Filled for chosen layers and hollow for others; larger for more work. */
static void draw_layer(graft_canvas *c, const graft_quant_layer *l, const axis *x, const axis *y,
                       double most)
{
    int64_t size = 7 + (int64_t)lround(9 * sqrt(most > 0 ? l->flops / most : 0));
    bool diamond = l->kind == GRAFT_LAYER_ATTENTION;
    bool chosen = l->reason == GRAFT_QUANT_CHOSEN;
    if (diamond) size = (size * 7 / 5) | 1; /* about the same area */
    int64_t px = place(x, l->density) - size / 2, py = place(y, l->mse) - size / 2;
    draw_mark(c, px - 1, py - 1, size + 2, PAPER, l->kind);
    draw_mark(c, px, py, size, colours[l->kind], l->kind);
    if (!chosen)
        draw_mark(c, px + 2 + diamond, py + 2 + diamond, size - 4 - 2 * diamond, PAPER, l->kind);
}

static void draw_limits(graft_canvas *c, const graft_quant_limits *k, const axis *x, const axis *y)
{
    if (k->density > 0)
        for (int64_t at = TOP; at < BOTTOM; at += 10)
            graft_draw_box(c, place(x, k->density), at, 1, 5, INK);
    for (int i = 0; i < GRAFT_LAYER_KINDS; i++) {
        if (!k->on[i] || !(k->mse[i] > 0)) continue;
        for (int64_t at = LEFT + 7 * i; at < RIGHT - 7; at += 21) /* equal ones lie side by side */
            graft_draw_box(c, at, place(y, k->mse[i]), 7, 2, colours[i]);
    }
}

static void draw_words(graft_canvas *c, const graft_quant_plan *p)
{
    char line[160];
    double gain = graft_quant_plan_gain(p);
    graft_draw_text(c, 32, 22, 3, INK, "Quantization plan");
    bool known = p->seconds > 0 && !graft_quant_plan_disturbed(p);
    int n = snprintf(line, sizeof line, "%zu of %zu layers to %s",
                     graft_quant_plan_count(p, GRAFT_QUANT_CHOSEN), p->n,
                     graft_quant_levels_name(p->bits, p->format));
    if (known)
        n += snprintf(line + n, sizeof line - (size_t)n, ", predicted %.2f times as fast", gain);
    if (known && p->sampled_quantized > 0 && p->sampled > 0)
        snprintf(line + n, sizeof line - (size_t)n, ", measured %.2f",
                 p->sampled / p->sampled_quantized);
    graft_draw_text(c, 32, 56, 2, FAINT, line);
    int64_t y = HEIGHT - 30, x = LEFT;
    for (int i = 0; i < GRAFT_LAYER_KINDS; i++) {
        static const char *const kinds[GRAFT_LAYER_KINDS] = {"convolution", "linear", "attention"};
        bool diamond = i == GRAFT_LAYER_ATTENTION;
        draw_mark(c, x, y - diamond, diamond ? 15 : 12, colours[i], i);
        x = graft_draw_text(c, x + 20, y - 1, 2, INK, kinds[i]) + GAP;
    }
    graft_draw_box(c, x, y, 12, 12, GREY);
    graft_draw_box(c, x + 2, y + 2, 8, 8, PAPER);
    x = graft_draw_text(c, x + 20, y - 1, 2, INK, "left as it is") + GAP;
    graft_draw_text(c, x, y - 1, 2, FAINT, "dashed: thresholds");
}

graft_status graft_quant_plan_draw(const graft_quant_plan *p, graft_image **out, graft_err *e)
{
    int64_t shape[4] = {1, HEIGHT, WIDTH, 3};
    graft_image *image = NULL;
    axis x = {1, 2, LEFT, RIGHT}, y = {-4, 0, BOTTOM, TOP};
    double most = 0;
    graft_status st = graft_image_create(shape, false, &image, e);
    if (st) return st;
    graft_canvas c = {graft_image_writable(image), WIDTH, HEIGHT};
    cover(&x, p->limits.density);
    for (size_t i = 0; i < p->n; i++) {
        const graft_quant_layer *l = &p->layer[i];
        if (!isfinite(l->mse)) continue;
        cover(&x, l->density);
        cover(&y, l->mse);
        if (l->flops > most) most = l->flops;
    }
    graft_draw_box(&c, 0, 0, WIDTH, HEIGHT, PAPER);
    draw_axes(&c, &x, &y);
    for (int chosen = 0; chosen < 2; chosen++) /* chosen layers on top */
        for (size_t i = 0; i < p->n; i++)
            if (isfinite(p->layer[i].mse) &&
                (p->layer[i].reason == GRAFT_QUANT_CHOSEN) == (chosen == 1))
                draw_layer(&c, &p->layer[i], &x, &y, most);
    draw_limits(&c, &p->limits, &x, &y);
    draw_words(&c, p);
    *out = image;
    return GRAFT_OK;
}
