#include "engine/denoise/blurred.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

#define TAPS      (2 * GRAFT_BLURRED_REACH + 1)
#define THRESHOLD 1.0f

struct graft_blurred {
    const graft_guided_config *c;
    int64_t h, w, planes, pictures; /* of the latent; planes: all pictures' channels */
    float tap[TAPS];
    graft_blurred_work work;
    float *across; /* a plane, blurred along its rows */
    /* Queries and keys of the rows that are looked at now, as the network gives them; a head's keys
     * with their tokens side by side; and what a query makes of them. */
    float *queries, *keys, *turned, *share;
    size_t values, tokens; /* that there is room for */
    int64_t rows;
    graft_unet_middle middle;
    float *sum;   /* (pictures,T) of this call, T being middle's height * width */
    size_t room;  /* of sum */
    int64_t seen; /* prompts that it has */
};

bool graft_blurred_wanted(const graft_model *m, const int64_t shape[4])
{
    return graft_model_guides_itself(m) && shape[2] > GRAFT_BLURRED_REACH &&
           shape[3] > GRAFT_BLURRED_REACH;
}

graft_status graft_blurred_check(const graft_model *m, const int64_t shape[4],
                                 const graft_cond_region *list, size_t n, graft_err *e)
{
    if (!graft_blurred_wanted(m, shape)) return GRAFT_OK;
    graft_status st = graft_model_check_self(m, e);
    for (size_t i = 0; i < n && !st; i++)
        if (!list[i].idle && (list[i].box.height != shape[2] || list[i].box.width != shape[3]))
            st = graft_fail(e, GRAFT_E_UNSUPPORTED,
                            "SelfAttentionGuidance does not work with areas of negative prompts: "
                            "it looks at the attention of the whole picture");
    return st;
}

/* ------------------------------------------------------------------ memory */

static void make_taps(double sigma, float tap[TAPS])
{
    double weight[TAPS], sum = 0;
    for (int i = 0; i < TAPS; i++) {
        const double x = (i - GRAFT_BLURRED_REACH) / (sigma > 0 ? sigma : 1e-30);
        sum += weight[i] = exp(-0.5 * x * x);
    }
    for (int i = 0; i < TAPS; i++) tap[i] = (float)(weight[i] / sum);
}

graft_status graft_blurred_create(const graft_guided_config *c, graft_blurred **out, graft_err *e)
{
    if (!graft_blurred_wanted(c->model, c->shape)) return GRAFT_OK;
    graft_blurred *b = graft_calloc(1, sizeof *b);
    if (!b) return graft_fail_nomem(e, "self-attention guidance");
    b->c = c;
    b->pictures = c->shape[0];
    b->planes = c->shape[0] * c->shape[1];
    b->h = c->shape[2];
    b->w = c->shape[3];
    make_taps(c->model->self.blur, b->tap);
    const size_t n = (size_t)(b->planes * b->h * b->w);
    float **const all[] = {&b->work.x0, &b->work.degraded, &b->work.x, &b->work.again};
    b->across = graft_malloc_array((size_t)(b->h * b->w), sizeof(float));
    bool ok = b->across != NULL;
    for (int i = 0; i < 4; i++) {
        *all[i] = graft_malloc_array(n, sizeof(float));
        ok = ok && *all[i];
    }
    if (!ok) {
        graft_blurred_destroy(b);
        return graft_fail_nomem(e, "self-attention guidance");
    }
    *out = b;
    return GRAFT_OK;
}

static void forget_rows(graft_blurred *b)
{
    float **const all[] = {&b->queries, &b->keys, &b->turned, &b->share};
    for (int i = 0; i < 4; i++) {
        graft_free(*all[i]);
        *all[i] = NULL;
    }
    b->values = b->tokens = 0;
}

void graft_blurred_destroy(graft_blurred *b)
{
    if (!b) return;
    forget_rows(b);
    graft_free(b->sum);
    graft_free(b->across);
    graft_free(b->work.x0);
    graft_free(b->work.degraded);
    graft_free(b->work.x);
    graft_free(b->work.again);
    graft_free(b);
}

graft_blurred_work *graft_blurred_arrays(graft_blurred *b)
{
    return &b->work;
}

/* ------------------------------------------------------------------ what is looked at */

void graft_blurred_begin(graft_blurred *b)
{
    b->seen = 0;
}

/* For so many rows of the middle block. */
static graft_status make_room(graft_blurred *b, size_t values, size_t tokens, graft_err *e)
{
    const size_t sums = (size_t)b->pictures * tokens;
    if (b->values < values || b->tokens < tokens) {
        forget_rows(b);
        b->queries = graft_malloc_array(values, sizeof(float));
        b->keys = graft_malloc_array(values, sizeof(float));
        b->turned = graft_malloc_array(tokens, (size_t)b->middle.channels * sizeof(float));
        b->share = graft_malloc_array(tokens, sizeof(float));
        if (!b->queries || !b->keys || !b->turned || !b->share)
            return graft_fail_nomem(e, "self-attention guidance");
        b->values = values;
        b->tokens = tokens;
    }
    if (b->room >= sums) return GRAFT_OK;
    graft_free(b->sum);
    b->room = 0;
    b->sum = graft_malloc_array(sums, sizeof(float));
    if (!b->sum) return graft_fail_nomem(e, "self-attention guidance");
    b->room = sums;
    return GRAFT_OK;
}

graft_status graft_blurred_room(graft_blurred *b, const graft_unet_use *use, float *to[2],
                                graft_err *e)
{
    const graft_model *m = b->c->model;
    graft_net_shape shape = {.height = graft_net_side(&m->arch, use->height),
                             .width = graft_net_side(&m->arch, use->width)};
    if (use->shrink) shape.shrink = m->downscale.shrink;
    int64_t values;
    if (!graft_unet_middle_of(&m->arch.unet, &shape, &b->middle))
        return graft_fail(e, GRAFT_E_INTERNAL, "a UNet without a middle to look at");
    const int64_t dim[] = {use->watched, b->middle.height, b->middle.width, b->middle.channels};
    if (!graft_size_product(dim, 4, &values))
        return graft_fail(e, GRAFT_E_ARG, "the latent is too large");
    b->rows = use->watched;
    graft_status st = make_room(b, (size_t)values, (size_t)(b->middle.height * b->middle.width), e);
    if (st) return st;
    to[0] = b->queries;
    to[1] = b->keys;
    return GRAFT_OK;
}

/* Adds to sum (tokens) what each key gets of one row's queries in one head, times `part`. */
static void add_head(graft_blurred *b, const float *queries, const float *keys, int64_t tokens,
                     int64_t width, float part, float *sum)
{
    const int64_t channels = b->middle.channels;
    const float scale = 1.0f / sqrtf((float)width);
    for (int64_t k = 0; k < tokens; k++)
        for (int64_t i = 0; i < width; i++) b->turned[i * tokens + k] = keys[k * channels + i];
    for (int64_t q = 0; q < tokens; q++) {
        float *share = b->share, most = -INFINITY, all = 0;
        memset(share, 0, (size_t)tokens * sizeof *share);
        for (int64_t i = 0; i < width; i++) {
            const float v = queries[q * channels + i] * scale, *column = b->turned + i * tokens;
            for (int64_t k = 0; k < tokens; k++) share[k] += v * column[k];
        }
        for (int64_t k = 0; k < tokens; k++) most = share[k] > most ? share[k] : most;
        for (int64_t k = 0; k < tokens; k++) {
            share[k] = expf(share[k] - most);
            all += share[k];
        }
        for (int64_t k = 0; k < tokens; k++) sum[k] += share[k] * (part / all);
    }
}

void graft_blurred_look(graft_blurred *b)
{
    const int64_t tokens = b->middle.height * b->middle.width, channels = b->middle.channels;
    const int32_t heads = b->middle.heads;
    const int64_t width = channels / heads;
    if (!b->seen) memset(b->sum, 0, (size_t)(b->pictures * tokens) * sizeof *b->sum);
    for (int64_t r = 0; r < b->rows; r++)
        for (int32_t h = 0; h < heads; h++) {
            const int64_t at = r * tokens * channels + h * width;
            add_head(b, b->queries + at, b->keys + at, tokens, width, 1.0f / (float)heads,
                     b->sum + r % b->pictures * tokens);
        }
    b->seen += b->rows / b->pictures;
}

/* ------------------------------------------------------------------ what becomes of it */

/* Place i of n, mirrored at the ends, whose own places are not doubled. */
static int64_t mirrored(int64_t i, int64_t n)
{
    i = i < 0 ? -i : i;
    return i < n ? i : 2 * (n - 1) - i;
}

static void blur(graft_blurred *b, const float *x, float *out)
{
    for (int64_t y = 0; y < b->h; y++)
        for (int64_t c = 0; c < b->w; c++) {
            float v = 0;
            for (int64_t i = 0; i < TAPS; i++)
                v += b->tap[i] * x[y * b->w + mirrored(c + i - GRAFT_BLURRED_REACH, b->w)];
            b->across[y * b->w + c] = v;
        }
    for (int64_t y = 0; y < b->h; y++)
        for (int64_t c = 0; c < b->w; c++) {
            float v = 0;
            for (int64_t i = 0; i < TAPS; i++)
                v += b->tap[i] * b->across[mirrored(y + i - GRAFT_BLURRED_REACH, b->h) * b->w + c];
            out[y * b->w + c] = v;
        }
}

bool graft_blurred_degrade(graft_blurred *b, const float *x0, float *out)
{
    const int64_t area = b->h * b->w, high = b->middle.height, wide = b->middle.width;
    if (!b->seen) return false;
    for (int64_t p = 0; p < b->planes; p++) {
        const float *sum = b->sum + p / (b->planes / b->pictures) * high * wide;
        blur(b, x0 + p * area, out + p * area);
        for (int64_t y = 0; y < b->h; y++)
            for (int64_t x = 0; x < b->w; x++) {
                const int64_t at = p * area + y * b->w + x;
                const float got = sum[y * high / b->h * wide + x * wide / b->w];
                if (!(got / (float)b->seen > THRESHOLD)) out[at] = x0[at];
            }
    }
    return true;
}
