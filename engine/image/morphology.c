/* Erosion, dilation and what is made of them, for nodes. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/image.h"
#include "engine/task.h"

typedef enum operation {
    ERODE,
    DILATE,
    OPEN,
    CLOSE,
    GRADIENT,
    BOTTOM_HAT,
    TOP_HAT,
    OPERATIONS
} operation;

static graft_status parse(const char *name, operation *out, graft_err *e)
{
    static const char *const names[] = {"erode",    "dilate",     "open",   "close",
                                        "gradient", "bottom_hat", "top_hat"};
    for (int i = 0; i < OPERATIONS; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (operation)i;
            return GRAFT_OK;
        }
    return graft_fail(e, GRAFT_E_ARG, "\"%.40s\" is not a morphological operation", name);
}

/* ------------------------------------------------------------------ running extremes */

/* Neighbouring lines that are worked on together, so that they share cache lines. */
enum { LANES = 16 };

/* The window of place i is [i - before, i + after]; what is beyond the ends does not count. */
typedef struct window {
    int64_t before, after;
    bool largest;
    float *head, *tail; /* places + before + after, LANES each */
} window;

static void extremes(const float *a, const float *b, float *dst, int64_t lanes, bool largest)
{
    if (largest)
        for (int64_t l = 0; l < lanes; l++) dst[l] = a[l] > b[l] ? a[l] : b[l];
    else
        for (int64_t l = 0; l < lanes; l++) dst[l] = a[l] < b[l] ? a[l] : b[l];
}

/* Lines of n values, `step` apart; their values at one place lie side by side.
 *
 * Van Herk 1992, Gil and Werman 1993: cut the line, with room at both ends, into blocks as long as
 * the window. Any window then is the tail of one block and the head of the next, whose extremes are
 * running ones: three comparisons a value, however long the window. dst may be src. */
static void along(const window *k, const float *src, float *dst, int64_t n, int64_t step,
                  int64_t lanes)
{
    const int64_t length = k->before + k->after + 1, all = n + length - 1;
    const size_t bytes = (size_t)lanes * sizeof *src;
    float none[LANES];
    for (int l = 0; l < LANES; l++) none[l] = k->largest ? -INFINITY : INFINITY;
    for (int64_t p = 0; p < all; p++) {
        const int64_t i = p - k->before;
        const float *v = i >= 0 && i < n ? src + i * step : none;
        memcpy(k->tail + p * LANES, v, bytes);
        if (p % length == 0)
            memcpy(k->head + p * LANES, v, bytes);
        else
            extremes(k->head + (p - 1) * LANES, v, k->head + p * LANES, lanes, k->largest);
    }
    for (int64_t p = all - 2; p >= 0; p--)
        if ((p + 1) % length != 0)
            extremes(k->tail + (p + 1) * LANES, k->tail + p * LANES, k->tail + p * LANES, lanes,
                     k->largest);
    for (int64_t i = 0; i < n; i++)
        extremes(k->tail + i * LANES, k->head + (i + length - 1) * LANES, dst + i * step, lanes,
                 k->largest);
}

static graft_status along_all(const window *k, const float *src, float *dst, int64_t outer,
                              int64_t n, int64_t inner, const graft_task *task, graft_err *e)
{
    for (int64_t o = 0; o < outer; o++)
        for (int64_t l = 0; l < inner; l += LANES) {
            const int64_t at = o * n * inner + l;
            if (graft_task_cancelled(task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
            along(k, src + at, dst + at, n, inner, inner - l < LANES ? inner - l : LANES);
        }
    return GRAFT_OK;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The extremes of squares: of rows, then of columns. A square's middle is at size / 2, and that of
 * the mirrored one, which dilation takes, as far from the other end. */
static graft_status spread(const float *src, const int64_t s[4], int64_t size, bool largest,
                           const graft_task *task, float *dst, graft_err *e)
{
    const int64_t low = size / 2, high = size - 1 - low, longest = s[1] > s[2] ? s[1] : s[2];
    graft_status st = GRAFT_OK;
    window k = {.largest = largest};
    const size_t room = (size_t)(longest + size - 1) * LANES;
    k.head = graft_malloc_array(room, sizeof *k.head);
    k.tail = graft_malloc_array(room, sizeof *k.tail);
    if (!k.head || !k.tail) {
        st = graft_fail_nomem(e, "a picture's extremes");
        goto out;
    }
    for (int axis = 0; axis < 2; axis++) {
        const int64_t n = s[2 - axis], beyond = n - 1;
        const int64_t outer = axis ? s[0] : s[0] * s[1], inner = axis ? s[2] * s[3] : s[3];
        k.before = least(largest ? high : low, beyond);
        k.after = least(largest ? low : high, beyond);
        GRAFT_TRY(along_all(&k, axis ? dst : src, dst, outer, n, inner, task, e));
    }
out:
    graft_free(k.tail);
    graft_free(k.head);
    return st;
}

/* ------------------------------------------------------------------ operations */

/* dst = erosion and dilation, one behind the other; `other`: another picture's values, of which
 * nothing is kept. */
static graft_status compute(operation how, const float *src, const int64_t s[4], int64_t size,
                            const graft_task *task, float *other, float *dst, graft_err *e)
{
    const int64_t n = s[0] * s[1] * s[2] * s[3];
    const bool first = how == DILATE || how == CLOSE || how == BOTTOM_HAT || how == GRADIENT;
    graft_status st = spread(src, s, size, first, task, dst, e);
    if (st || how == ERODE || how == DILATE) return st;
    if (how == GRADIENT) {
        st = spread(src, s, size, false, task, other, e);
        for (int64_t i = 0; i < n && !st; i++) dst[i] -= other[i];
        return st;
    }
    st = spread(dst, s, size, !first, task, dst, e);
    for (int64_t i = 0; i < n && !st && how == TOP_HAT; i++) dst[i] = src[i] - dst[i];
    for (int64_t i = 0; i < n && !st && how == BOTTOM_HAT; i++) dst[i] -= src[i];
    return st;
}

graft_status graft_image_morphology(const graft_image *i, const char *name, int64_t size,
                                    const graft_task *task, graft_image **out, graft_err *e)
{
    int64_t s[4];
    operation how = OPERATIONS;
    float *other = NULL;
    graft_image *r = NULL;
    const float *src = graft_image_data(i, s);
    *out = NULL;
    graft_status st = parse(name, &how, e);
    if (!st && (size < 1 || size > GRAFT_IMAGE_MAX_SIDE))
        st = graft_fail(e, GRAFT_E_ARG, "a square of %" PRId64 " pixels per side: 1 to %d", size,
                        GRAFT_IMAGE_MAX_SIDE);
    if (st) return st;
    GRAFT_TRY(graft_image_create(s, graft_image_is_mask(i), &r, e));
    if (how == GRADIENT) {
        other = graft_malloc_array((size_t)(s[0] * s[1] * s[2] * s[3]), sizeof *other);
        if (!other) {
            st = graft_fail_nomem(e, "a picture's extremes");
            goto out;
        }
    }
    GRAFT_TRY(compute(how, src, s, size, task, other, graft_image_writable(r), e));
    *out = r;
    r = NULL;
out:
    graft_free(other);
    graft_image_release(r);
    return st;
}
