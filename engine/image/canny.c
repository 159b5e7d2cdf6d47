/* Edges by Canny's method, for nodes. */
#include <math.h>

#include "base/alloc.h"
#include "engine/image/filter.h"
#include "engine/image/image.h"
#include "engine/task.h"

/* What is known of a pixel: at first in which of 8 directions its gradient points, 0 to 7, or that
 * it belongs to no edge. The directions are then replaced by how much it belongs to one. */
enum { NO_EDGE = 8, WEAK = 9, STRONG = 10, RADIUS = 2 };

/* One picture at a time. Planes of h x w. */
typedef struct work {
    int64_t h, w;
    float low, high;
    float *grey, *size; /* of the picture; of its gradient */
    uint8_t *mark;
    uint32_t *stack;
} work;

/* As in ITU-R BT.601; transparency does not count. */
static void to_grey(const float *src, int64_t channels, float *dst, int64_t n)
{
    for (int64_t i = 0; i < n; i++, src += channels)
        dst[i] = channels < 3 ? src[0] : 0.299f * src[0] + 0.587f * src[1] + 0.114f * src[2];
}

/* 0: to the right, then clockwise in steps of 45 degrees; y points down. */
static uint8_t direction(float gx, float gy)
{
    const float degrees = 180.0f * atan2f(gy, gx) / (float)3.14159265358979323846;
    return (uint8_t)((int)rintf(degrees / 45.0f) & 7);
}

/* Sobel's operator, the outermost pixels repeated. A size that is no number is above nothing. */
static void find_gradient(const work *k, int64_t y)
{
    const float *up = k->grey + (y > 0 ? y - 1 : 0) * k->w, *here = k->grey + y * k->w;
    const float *down = k->grey + (y + 1 < k->h ? y + 1 : y) * k->w;
    for (int64_t x = 0; x < k->w; x++) {
        const int64_t l = x > 0 ? x - 1 : 0, r = x + 1 < k->w ? x + 1 : x;
        float gx = (up[r] - up[l]) + 2 * (here[r] - here[l]) + (down[r] - down[l]);
        float gy = (down[l] - up[l]) + 2 * (down[x] - up[x]) + (down[r] - up[r]);
        float size = sqrtf(gx * gx + gy * gy + 1e-6f);
        k->size[y * k->w + x] = size;
        k->mark[y * k->w + x] = size > k->low ? direction(gx, gy) : NO_EDGE;
    }
}

static float size_at(const work *k, int64_t y, int64_t x)
{
    return y >= 0 && y < k->h && x >= 0 && x < k->w ? k->size[y * k->w + x] : 0.0f;
}

static const int dx[8] = {1, 1, 0, -1, -1, -1, 0, 1}, dy[8] = {0, 1, 1, 1, 0, -1, -1, -1};

/* Keeps what is larger than both neighbours along its gradient. Strong ones go onto the stack, of
 * which the new height is given. */
static int64_t thin(const work *k, int64_t y, int64_t height)
{
    for (int64_t x = 0; x < k->w; x++) {
        const int64_t i = y * k->w + x;
        const int d = k->mark[i];
        if (d == NO_EDGE) continue;
        bool top = k->size[i] > size_at(k, y + dy[d], x + dx[d]) &&
                   k->size[i] > size_at(k, y - dy[d], x - dx[d]);
        k->mark[i] = !top ? NO_EDGE : k->size[i] > k->high ? STRONG : WEAK;
        if (k->mark[i] == STRONG) k->stack[height++] = (uint32_t)i;
    }
    return height;
}

/* Weak pixels beside strong ones are strong. Each pixel is put onto the stack once. */
static void follow(const work *k, int64_t height)
{
    while (height > 0) {
        const int64_t i = k->stack[--height], y = i / k->w, x = i % k->w;
        for (int d = 0; d < 8; d++) {
            const int64_t ny = y + dy[d], nx = x + dx[d], at = ny * k->w + nx;
            if (ny < 0 || ny >= k->h || nx < 0 || nx >= k->w || k->mark[at] != WEAK) continue;
            k->mark[at] = STRONG;
            k->stack[height++] = (uint32_t)at;
        }
    }
}

static graft_status find_edges(const work *k, const float *src, int64_t channels,
                               const graft_task *task, float *dst, graft_err *e)
{
    const int64_t n = k->h * k->w, plane[4] = {1, k->h, k->w, 1};
    float weight[2 * RADIUS + 1];
    int64_t height = 0;
    graft_filter_bell(RADIUS, 1, 1, weight);
    to_grey(src, channels, k->grey, n);
    graft_status st = graft_filter_reflect(k->grey, plane, weight, RADIUS, task, k->grey, e);
    if (st) return st;
    for (int64_t y = 0; y < k->h; y++) {
        if (graft_task_cancelled(task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
        find_gradient(k, y);
    }
    for (int64_t y = 0; y < k->h; y++) height = thin(k, y, height);
    follow(k, height);
    for (int64_t i = 0; i < 3 * n; i++) dst[i] = k->mark[i / 3] == STRONG ? 1.0f : 0.0f;
    return GRAFT_OK;
}

graft_status graft_image_canny(const graft_image *i, double low, double high,
                               const graft_task *task, graft_image **out, graft_err *e)
{
    int64_t s[4];
    graft_image *r = NULL;
    graft_status st = GRAFT_OK;
    const float *src = graft_image_data(i, s);
    *out = NULL;
    if (!(low > 0) || !(low <= high))
        return graft_fail(e, GRAFT_E_ARG,
                          "thresholds of %g and %g: the low one is above 0 and not above the high "
                          "one",
                          low, high);
    const int64_t plane = s[1] * s[2], shape[4] = {s[0], s[1], s[2], 3};
    work k = {.h = s[1], .w = s[2], .low = (float)low, .high = (float)high};
    GRAFT_TRY(graft_image_create(shape, false, &r, e));
    k.grey = graft_malloc_array((size_t)plane, sizeof *k.grey);
    k.size = graft_malloc_array((size_t)plane, sizeof *k.size);
    k.mark = graft_malloc_array((size_t)plane, sizeof *k.mark);
    k.stack = graft_malloc_array((size_t)plane, sizeof *k.stack);
    if (!k.grey || !k.size || !k.mark || !k.stack) {
        st = graft_fail_nomem(e, "a picture's edges");
        goto out;
    }
    float *dst = graft_image_writable(r);
    for (int64_t n = 0; n < s[0]; n++)
        GRAFT_TRY(find_edges(&k, src + n * plane * s[3], s[3], task, dst + 3 * n * plane, e));
    *out = r;
    r = NULL;
out:
    graft_free(k.stack);
    graft_free(k.mark);
    graft_free(k.size);
    graft_free(k.grey);
    graft_image_release(r);
    return st;
}
