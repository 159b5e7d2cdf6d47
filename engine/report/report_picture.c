/* The report as a picture: time by operator kind, memory over one run, and who holds what. */
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"
#include "engine/report/report.h"
#include "engine/image/draw.h"
#include "engine/image/image.h"

enum { WIDTH = 960, HEIGHT = 640, MARGIN = 32, ROW = 26, BAR = 16 };
enum { MIDDLE = 500, PANEL_TOP = 108, CHART_HEIGHT = 208, HOLDERS_TOP = 408 };

#define PAPER  0xfcfcfau
#define INK    0x22282fu
#define FAINT  0x6b7480u
#define GROOVE 0xe9ebedu
#define BLUE   0x3a78b8u
#define GREEN  0x3f9b76u
#define AMBER  0xd08a2eu
#define PURPLE 0x7d66a8u
#define GREY   0x9aa3adu

static void text_right(graft_canvas *c, int64_t right, int64_t y, uint32_t colour, const char *text)
{
    graft_draw_text(c, right - graft_draw_text_width(2, text), y, 2, colour, text);
}

static void heading(graft_canvas *c, int64_t x, int64_t y, int64_t width, const char *text)
{
    graft_draw_text(c, x, y, 2, INK, text);
    graft_draw_box(c, x, y + 22, width, 1, GREY);
}

/* A groove with a bar that fills `share` of it. */
static void bar(graft_canvas *c, int64_t x, int64_t y, int64_t width, double share, uint32_t colour)
{
    int64_t filled = (int64_t)((double)width * share + 0.5);
    if (share > 0 && filled < 2) filled = 2;
    graft_draw_box(c, x, y, width, BAR, GROOVE);
    graft_draw_box(c, x, y, filled, BAR, colour);
}

static void draw_title(graft_canvas *c, const graft_report *r)
{
    char line[160];
    const graft_report_part *p = &r->part[0];
    graft_draw_text(c, MARGIN, 26, 3, INK, "Model report");
    snprintf(line, sizeof line, "%s, %s  -  graphs: %llu compiled, %llu from disk", p->backend,
             p->precision, (unsigned long long)r->compiled.built,
             (unsigned long long)r->compiled.from_disk);
    graft_draw_text(c, MARGIN, 64, 2, FAINT, line);
}

/* ------------------------------------------------------------------ time */

static void time_row(graft_canvas *c, int64_t y, const char *name, uint64_t ns, uint64_t all,
                     double scale)
{
    enum { LABEL = 132, VALUE = 166 };
    char value[32], time[16];
    int64_t right = MIDDLE - MARGIN;
    double share = (double)ns / (double)all;
    graft_seconds_text(1e-9 * (double)ns, time);
    if (share < 0.005)
        snprintf(value, sizeof value, "%s  <1%%", time);
    else
        snprintf(value, sizeof value, "%s %3.0f%%", time, 100.0 * share);
    graft_draw_text(c, MARGIN, y + 1, 2, INK, name);
    bar(c, MARGIN + LABEL, y, right - VALUE - MARGIN - LABEL, share * scale, BLUE);
    text_right(c, right, y + 1, FAINT, value);
}

static void draw_times(graft_canvas *c, const graft_report *r)
{
    enum { ROWS = 9 };
    bool done[GRAFT_OP_END] = {false};
    int64_t y = PANEL_TOP + 36;
    heading(c, MARGIN, PANEL_TOP, MIDDLE - 2 * MARGIN, "Time by operator kind");
    if (!r->all_ns)
        graft_draw_text(c, MARGIN, y, 2, FAINT,
                        r->runs ? "not measured on devices" : "nothing has run yet");
    int most = graft_report_next_op(r, done);
    double scale = most < 0 ? 1 : (double)r->all_ns / (double)r->ns[most];
    uint64_t rest = r->all_ns;
    for (int i = 0; i < ROWS && most >= 0; i++, y += ROW) {
        char name[11]; /* what the column holds; longer names lose their last words */
        bool last = i == ROWS - 1 && rest > r->ns[most];
        const char *full = last ? "other" : graft_op_name(most);
        snprintf(name, sizeof name, "%s", full);
        if (strlen(full) >= sizeof name && strchr(name, '_')) *strrchr(name, '_') = 0;
        time_row(c, y, name, last ? rest : r->ns[most], r->all_ns, scale);
        rest -= r->ns[most];
        done[most] = true;
        most = graft_report_next_op(r, done);
    }
}

/* ------------------------------------------------------------------ memory */

static void draw_curve(graft_canvas *c, const graft_exe *x, int64_t left, int64_t top,
                       int64_t width, int64_t height)
{
    size_t n = x->graph->n_nodes;
    for (int64_t i = 0; i < width; i++) {
        size_t from = (size_t)i * n / (size_t)width, to = (size_t)(i + 1) * n / (size_t)width;
        int64_t most = 0;
        for (size_t k = from; k < (to > from ? to : from + 1) && k < n; k++)
            if (x->live[k] > most) most = x->live[k];
        double share = x->arena_bytes ? (double)most / (double)x->arena_bytes : 0;
        int64_t h = (int64_t)(share * (double)height + 0.5);
        if (h > height) h = height;
        graft_draw_box(c, left + i, top + height - h, 1, h, GREEN);
    }
    for (int64_t i = 0; i < width; i += 10) graft_draw_box(c, left + i, top, 5, 1, INK);
}

static void draw_memory(graft_canvas *c, const graft_report *r)
{
    const graft_exe *x = NULL;
    char text[96], arena[16], bound[16];
    int64_t left = MIDDLE, width = WIDTH - MARGIN - MIDDLE, top = PANEL_TOP + 62;
    heading(c, left, PANEL_TOP, width, "Memory over one run");
    for (int i = 0; i < GRAFT_REPORT_PARTS; i++) /* the UNet's, where there is one */
        if (!x) x = r->part[i].largest;
    graft_draw_box(c, left, top, width, CHART_HEIGHT - 26, GROOVE);
    if (!x) {
        graft_draw_text(c, left, PANEL_TOP + 36, 2, FAINT, "nothing is compiled yet");
        return;
    }
    graft_bytes_text((uint64_t)x->arena_bytes, arena);
    graft_bytes_text((uint64_t)x->arena_bound, bound);
    snprintf(text, sizeof text, "arena %s, least %s", arena, bound);
    graft_draw_text(c, left, PANEL_TOP + 36, 2, FAINT, text);
    draw_curve(c, x, left, top, width, CHART_HEIGHT - 26);
    int64_t below = top + CHART_HEIGHT - 16;
    graft_draw_text(c, left, below, 2, FAINT, "1");
    snprintf(text, sizeof text, "operators of %s", x->kind);
    graft_draw_text(c, left + (width - graft_draw_text_width(2, text)) / 2, below, 2, FAINT, text);
    snprintf(text, sizeof text, "%zu", x->graph->n_nodes);
    text_right(c, left + width, below, FAINT, text);
}

/* ------------------------------------------------------------------ holders */

typedef struct holder {
    char name[32];
    uint64_t bytes;
    uint32_t colour;
} holder;

static size_t list_holders(const graft_report *r, holder *h)
{
    static const uint32_t colours[GRAFT_REPORT_PARTS] = {BLUE,  PURPLE, PURPLE,
                                                         AMBER, PURPLE, PURPLE};
    size_t n = 0;
    for (int i = 0; i < GRAFT_REPORT_PARTS; i++) {
        if (!r->part[i].title) continue;
        snprintf(h[n].name, sizeof h[n].name, "%s weights", r->part[i].title);
        h[n].bytes = r->part[i].resident;
        h[n++].colour = colours[i];
    }
    h[n++] = (holder){"other models' weights", r->other_resident, GREY};
    h[n++] = (holder){"activations", r->arena_bytes, GREEN};
    return n;
}

static void draw_holders(graft_canvas *c, const graft_report *r)
{
    enum { LABEL = 300, VALUE = 120 };
    holder h[GRAFT_REPORT_PARTS + 2];
    size_t n = list_holders(r, h);
    uint64_t most = 1, sum = 0;
    char text[48], bytes[16];
    int64_t y = HOLDERS_TOP + 36, right = WIDTH - MARGIN;
    for (size_t i = 0; i < n; i++) {
        sum += h[i].bytes;
        if (h[i].bytes > most) most = h[i].bytes;
    }
    heading(c, MARGIN, HOLDERS_TOP, WIDTH - 2 * MARGIN, "Who holds what");
    graft_bytes_text(sum, bytes);
    snprintf(text, sizeof text, "%s in all", bytes);
    text_right(c, right, HOLDERS_TOP, FAINT, text);
    for (size_t i = 0; i < n; i++, y += ROW) {
        graft_bytes_text(h[i].bytes, bytes);
        graft_draw_text(c, MARGIN, y + 1, 2, INK, h[i].name);
        bar(c, MARGIN + LABEL, y, right - VALUE - MARGIN - LABEL, (double)h[i].bytes / (double)most,
            h[i].colour);
        text_right(c, right, y + 1, FAINT, bytes);
    }
}

graft_status graft_report_draw(const graft_report *r, graft_image **out, graft_err *e)
{
    int64_t shape[4] = {1, HEIGHT, WIDTH, 3};
    graft_image *image = NULL;
    graft_status st = graft_image_create(shape, false, &image, e);
    if (st) return st;
    graft_canvas c = {graft_image_writable(image), WIDTH, HEIGHT};
    graft_draw_box(&c, 0, 0, WIDTH, HEIGHT, PAPER);
    draw_title(&c, r);
    draw_times(&c, r);
    draw_memory(&c, r);
    draw_holders(&c, r);
    *out = image;
    return GRAFT_OK;
}
