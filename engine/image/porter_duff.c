/* Pictures laid over each other by what both cover, for nodes. */
#include <inttypes.h>
#include <string.h>

#include "engine/image/image.h"

typedef enum mode {
    ADD,
    CLEAR,
    DARKEN,
    DST,
    DST_ATOP,
    DST_IN,
    DST_OUT,
    DST_OVER,
    LIGHTEN,
    MULTIPLY,
    OVERLAY,
    SCREEN,
    SRC,
    SRC_ATOP,
    SRC_IN,
    SRC_OUT,
    SRC_OVER,
    XOR,
    MODES
} mode;

static graft_status parse(const char *name, mode *out, graft_err *e)
{
    static const char *const names[] = {"ADD",     "CLEAR",    "DARKEN",   "DST",      "DST_ATOP",
                                        "DST_IN",  "DST_OUT",  "DST_OVER", "LIGHTEN",  "MULTIPLY",
                                        "OVERLAY", "SCREEN",   "SRC",      "SRC_ATOP", "SRC_IN",
                                        "SRC_OUT", "SRC_OVER", "XOR"};
    for (int i = 0; i < MODES; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (mode)i;
            return GRAFT_OK;
        }
    return graft_fail(e, GRAFT_E_ARG, "pictures cannot be laid over each other by \"%.40s\"", name);
}

/* Not a number becomes 0. */
static float clip(float v)
{
    return v > 0 ? v < 1 ? v : 1 : 0;
}

/* How opaque the result is, of how opaque source and destination are. */
static float alpha_of(mode how, float sa, float da)
{
    switch (how) {
    case ADD:
        return clip(sa + da);
    case CLEAR:
        return 0;
    case DST:
    case SRC_ATOP:
        return da;
    case SRC:
    case DST_ATOP:
        return sa;
    case DST_IN:
    case SRC_IN:
    case MULTIPLY:
        return sa * da;
    case DST_OUT:
        return (1 - sa) * da;
    case SRC_OUT:
        return (1 - da) * sa;
    case XOR:
        return (1 - da) * sa + (1 - sa) * da;
    default:
        return sa + (1 - sa) * da;
    }
}

/* A colour times its alpha, of such colours. */
static float colour_of(mode how, float s, float sa, float d, float da)
{
    const float outside = (1 - da) * s + (1 - sa) * d; /* where only one of them is */
    switch (how) {
    case ADD:
        return clip(s + d);
    case CLEAR:
        return 0;
    case DARKEN:
        return outside + (s < d ? s : d);
    case DST:
        return d;
    case DST_ATOP:
        return sa * d + (1 - da) * s;
    case DST_IN:
        return sa * d;
    case DST_OUT:
        return (1 - sa) * d;
    case DST_OVER:
        return d + (1 - da) * s;
    case LIGHTEN:
        return outside + (s > d ? s : d);
    case MULTIPLY:
        return s * d;
    case OVERLAY:
        return 2 * d < da ? 2 * s * d : sa * da - 2 * (da - s) * (sa - d);
    case SCREEN:
        return s + d - s * d;
    case SRC:
        return s;
    case SRC_ATOP:
        return da * s + (1 - sa) * d;
    case SRC_IN:
        return da * s;
    case SRC_OUT:
        return (1 - da) * s;
    case SRC_OVER:
        return s + (1 - sa) * d;
    default:
        return outside;
    }
}

/* A picture or mask at a height and width of s. */
static graft_status fit(const graft_image *i, const int64_t s[4], graft_image **out, graft_err *e)
{
    int64_t t[4];
    graft_image_data(i, t);
    if (s[1] != t[1] || s[2] != t[2])
        return graft_image_scale(i, "bicubic", s[2], s[1], true, out, e);
    *out = graft_image_retain((graft_image *)i);
    return GRAFT_OK;
}

/* The destination's mask is cut as the destination is, so it is brought to its size first. */
static graft_status fit_all(const graft_layer_pair *p, const int64_t s[4], graft_image *fitted[3],
                            graft_err *e)
{
    int64_t t[4];
    graft_image *mask = NULL;
    graft_image_data(p->destination, t);
    graft_status st = graft_image_want_mask(p->source_mask, e);
    if (!st) st = graft_image_want_mask(p->destination_mask, e);
    if (!st) st = fit(p->source_mask, s, &fitted[0], e);
    if (!st) st = fit(p->destination, s, &fitted[1], e);
    if (!st) st = fit(p->destination_mask, t, &mask, e);
    if (!st) st = fit(mask, s, &fitted[2], e);
    graft_image_release(mask);
    return st;
}

/* One picture, laid out as s; clear and clear2: the masks. */
static void lay(mode how, const int64_t s[4], const float *source, const float *clear,
                const float *destination, const float *clear2, float *dst, float *mask)
{
    for (int64_t i = 0; i < s[1] * s[2]; i++) {
        const float sa = 1 - clear[i], da = 1 - clear2[i], alpha = alpha_of(how, sa, da);
        mask[i] = 1 - alpha;
        for (int64_t c = 0; c < s[3]; c++) {
            const int64_t k = i * s[3] + c;
            const float v = colour_of(how, source[k] * sa, sa, destination[k] * da, da);
            dst[k] = alpha > 1e-5f ? clip(v / alpha) : 0;
        }
    }
}

static int64_t fewest(const graft_image *source, graft_image *const fitted[3])
{
    int64_t s[4], n;
    graft_image_data(source, s);
    n = s[0];
    for (int i = 0; i < 3; i++) {
        graft_image_data(fitted[i], s);
        if (s[0] < n) n = s[0];
    }
    return n;
}

graft_status graft_image_porter_duff(const graft_layer_pair *p, const char *name, graft_image **out,
                                     graft_image **mask, graft_err *e)
{
    int64_t s[4], t[4];
    mode how = MODES;
    graft_image *fitted[3] = {NULL, NULL, NULL}; /* source mask, destination, destination mask */
    const float *source = graft_image_data(p->source, s);
    graft_image_data(p->destination, t);
    *out = *mask = NULL;
    graft_status st = parse(name, &how, e);
    if (!st && s[3] != t[3])
        st = graft_fail(e, GRAFT_E_ARG,
                        "a picture of %" PRId64 " channels does not go over one of %" PRId64, s[3],
                        t[3]);
    GRAFT_TRY(st);
    GRAFT_TRY(fit_all(p, s, fitted, e));
    const int64_t n = fewest(p->source, fitted), plane = s[1] * s[2];
    GRAFT_TRY(graft_image_create((const int64_t[]){n, s[1], s[2], s[3]},
                                 graft_image_is_mask(p->source), out, e));
    GRAFT_TRY(graft_image_create((const int64_t[]){n, s[1], s[2], 1}, true, mask, e));
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i * plane, pixel = at * s[3];
        lay(how, s, source + pixel, graft_image_data(fitted[0], NULL) + at,
            graft_image_data(fitted[1], NULL) + pixel, graft_image_data(fitted[2], NULL) + at,
            graft_image_writable(*out) + pixel, graft_image_writable(*mask) + at);
    }
out:
    for (int i = 0; i < 3; i++) graft_image_release(fitted[i]);
    if (st) {
        graft_image_release(*out);
        *out = NULL; /* the mask is made last */
    }
    return st;
}
