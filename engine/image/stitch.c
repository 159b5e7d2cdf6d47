/* Two pictures side by side. */
#include <inttypes.h>
#include <string.h>

#include "engine/image/image.h"

typedef enum direction { RIGHT, DOWN, LEFT, UP, DIRECTIONS } direction;

static graft_status parse_direction(const char *name, direction *out, graft_err *e)
{
    static const char *const names[] = {"right", "down", "left", "up"};
    for (int i = 0; i < DIRECTIONS; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (direction)i;
            return GRAFT_OK;
        }
    return graft_fail(e, GRAFT_E_ARG, "\"%.40s\" is no side of a picture", name);
}

static graft_status parse_colour(const char *name, float out[3], graft_err *e)
{
    static const struct {
        const char *name;
        float rgb[3];
    } colours[] = {{"white", {1, 1, 1}},
                   {"black", {0, 0, 0}},
                   {"red", {1, 0, 0}},
                   {"green", {0, 1, 0}},
                   {"blue", {0, 0, 1}}};
    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
        if (strcmp(colours[i].name, name) == 0) {
            memcpy(out, colours[i].rgb, sizeof colours[i].rgb);
            return GRAFT_OK;
        }
    return graft_fail(e, GRAFT_E_ARG, "\"%.40s\" is no colour here", name);
}

/* b with a's height where they stand beside each other, else with its width. */
static graft_status matched(const graft_image *a, const graft_image *b, bool beside,
                            graft_image **out, graft_err *e)
{
    int64_t s[4], t[4];
    graft_image_data(a, s);
    graft_image_data(b, t);
    int64_t h = s[1], w = s[2];
    const double aspect = (double)t[2] / (double)t[1];
    if (beside)
        w = (int64_t)((double)h * aspect);
    else
        h = (int64_t)((double)w / aspect);
    return graft_image_scale(b, "lanczos", w < 1 ? 1 : w, h < 1 ? 1 : h, false, out, e);
}

static void fill(float *to, const int64_t shape[4], const float colour[3])
{
    for (int64_t i = 0; i < shape[0] * shape[1] * shape[2]; i++)
        for (int64_t c = 0; c < shape[3]; c++) *to++ = c < 3 ? colour[c] : 1.0f;
}

/* The pictures of `from`, the last one again where there are more, at x, y. */
static void put(const graft_image *from, int64_t y, int64_t x, float *to, const int64_t shape[4])
{
    int64_t s[4];
    const float *data = graft_image_data(from, s);
    for (int64_t n = 0; n < shape[0]; n++)
        for (int64_t r = 0; r < s[1]; r++) {
            const float *row = data + ((n < s[0] ? n : s[0] - 1) * s[1] + r) * s[2] * s[3];
            float *out = to + ((n * shape[1] + y + r) * shape[2] + x) * shape[3];
            graft_image_copy_channels(row, s[3], out, shape[3], s[2]);
        }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* `first` left of `second`, or above it. */
static graft_status join(const graft_image *first, const graft_image *second, bool beside,
                         int64_t spacing, const float colour[3], graft_image **out, graft_err *e)
{
    int64_t s[4], t[4];
    graft_image_data(first, s);
    graft_image_data(second, t);
    if (s[3] != t[3] && (s[3] < 3 || t[3] < 3))
        return graft_fail(e, GRAFT_E_ARG,
                          "pictures of %" PRId64 " and %" PRId64 " channels do not go together",
                          s[3], t[3]);
    const int64_t shape[4] = {
        larger(s[0], t[0]), beside ? larger(s[1], t[1]) : s[1] + spacing + t[1],
        beside ? s[2] + spacing + t[2] : larger(s[2], t[2]), larger(s[3], t[3])};
    graft_status st = graft_image_create(shape, false, out, e);
    if (st) return st;
    float *to = graft_image_writable(*out);
    fill(to, shape, colour);
    if (beside) {
        put(first, (shape[1] - s[1]) / 2, 0, to, shape);
        put(second, (shape[1] - t[1]) / 2, s[2] + spacing, to, shape);
    } else {
        put(first, 0, (shape[2] - s[2]) / 2, to, shape);
        put(second, s[1] + spacing, (shape[2] - t[2]) / 2, to, shape);
    }
    return GRAFT_OK;
}

graft_status graft_image_stitch(const graft_image *a, const graft_image *b,
                                const graft_stitching *how, graft_image **out, graft_err *e)
{
    direction to = RIGHT;
    float colour[3];
    graft_image *scaled = NULL;
    *out = NULL;
    graft_status st = parse_direction(how->direction, &to, e);
    if (!st) st = parse_colour(how->colour, colour, e);
    if (!st && (how->spacing < 0 || how->spacing > GRAFT_IMAGE_MAX_SIDE))
        st = graft_fail(e, GRAFT_E_ARG, "a spacing of %" PRId64 " pixels", how->spacing);
    if (st) return st;
    const bool beside = to == RIGHT || to == LEFT;
    if (how->match) st = matched(a, b, beside, &scaled, e);
    if (st) return st;
    if (scaled) b = scaled;
    const bool a_first = to == RIGHT || to == DOWN;
    st = join(a_first ? a : b, a_first ? b : a, beside, how->spacing + how->spacing % 2, colour,
              out, e);
    graft_image_release(scaled);
    return st;
}
