#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "kernels/tokens.h"
#include "tests/kernels/harness.h"

/* Element of a dense array in the shape of t, indices from the front. */
static double get(const graft_tensor_desc *t, const float *v, const int64_t *at)
{
    int64_t i = 0;
    for (int d = 0; d < t->rank; d++) i = i * t->dim[d] + at[d];
    return (double)v[i];
}

static double act(graft_act a, double x)
{
    switch (a) {
    case GRAFT_ACT_SILU:
        return x / (1 + exp(-x));
    case GRAFT_ACT_GELU:
        return x * 0.5 * (1 + erf(x / sqrt(2.0)));
    case GRAFT_ACT_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case GRAFT_ACT_LEAKY:
        return x < 0 ? 0.2 * x : x;
    case GRAFT_ACT_RELU:
        return x < 0 ? 0 : x;
    case GRAFT_ACT_GELU_TANH:
        return x * 0.5 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case GRAFT_ACT_TANH:
        return tanh(x);
    default:
        return x;
    }
}

static double conv2d(const kernel_case *c, float *const *val, const int64_t *at)
{
    const graft_attrs *a = &c->desc.attrs;
    const graft_tensor_desc *in = c->desc.in;
    int64_t up = a->upsample == 2 ? 2 : 1;
    int64_t height = up == 2 ? a->up_h : in[0].dim[1], width = up == 2 ? a->up_w : in[0].dim[2];
    double sum = val[2] ? (double)val[2][at[3]] : 0;
    for (int64_t i = 0; i < a->kernel_h; i++)
        for (int64_t j = 0; j < a->kernel_w; j++) {
            int64_t r = at[1] * a->stride_h + i - a->pad_top;
            int64_t s = at[2] * a->stride_w + j - a->pad_left;
            if (r < 0 || s < 0 || r >= height || s >= width) continue;
            for (int64_t k = 0; k < in[0].dim[3]; k++)
                sum += get(&in[0], val[0], (int64_t[4]){at[0], r / up, s / up, k}) *
                       get(&in[1], val[1], (int64_t[4]){at[3], k, i, j});
        }
    if (val[3]) sum += get(&in[3], val[3], (int64_t[2]){at[0], at[3]});
    if (val[4]) sum += get(&in[4], val[4], at);
    return act(a->act, sum);
}

static double dot(const kernel_case *c, float *const *val, const int64_t *at, int64_t column)
{
    const graft_tensor_desc *x = &c->desc.in[0];
    int64_t last = x->rank - 1, k = x->dim[last], from[GRAFT_MAX_RANK];
    for (int d = 0; d < last; d++) from[d] = at[d];
    double sum = val[2] ? (double)val[2][column] : 0;
    for (int64_t i = 0; i < k; i++) {
        from[last] = i;
        sum += get(x, val[0], from) * (double)val[1][column * k + i];
    }
    return sum;
}

static double linear(const kernel_case *c, float *const *val, const int64_t *at)
{
    const graft_tensor_desc *out = &c->desc.out;
    int64_t column = at[out->rank - 1], n = out->dim[out->rank - 1];
    double sum = dot(c, val, at, column);
    if (c->desc.attrs.act == GRAFT_ACT_GEGLU)
        return sum * act(GRAFT_ACT_GELU, dot(c, val, at, n + column));
    if (val[3]) sum += get(out, val[3], at);
    return act(c->desc.attrs.act, sum);
}

static double normed(const kernel_case *c, float *const *val, const int64_t *at)
{
    const float *add = val[GRAFT_NORM_CHANNEL_ADD];
    double v = get(&c->desc.in[0], val[0], at);
    if (!add) return v;
    return v + get(&c->desc.in[GRAFT_NORM_CHANNEL_ADD], add, (const int64_t[]){at[0], at[3]});
}

static double group_norm(const kernel_case *c, float *const *val, const int64_t *at)
{
    const graft_tensor_desc *x = &c->desc.in[0];
    int64_t size = x->dim[3] / c->desc.attrs.groups, first = at[3] / size * size;
    double sum = 0, squares = 0, count = (double)(x->dim[1] * x->dim[2] * size);
    for (int64_t p = 0; p < x->dim[1] * x->dim[2]; p++)
        for (int64_t i = first; i < first + size; i++) {
            int64_t pixel[4] = {at[0], p / x->dim[2], p % x->dim[2], i};
            double v = normed(c, val, pixel);
            sum += v;
            squares += v * v;
        }
    double mean = sum / count, variance = squares / count - mean * mean;
    if (val[GRAFT_NORM_MOMENTS]) {
        const float *given =
            val[GRAFT_NORM_MOMENTS] + (at[0] * c->desc.attrs.groups + at[3] / size) * 2;
        mean = (double)given[0];
        variance = (double)given[1];
    }
    double v = (normed(c, val, at) - mean) / sqrt(variance + (double)c->desc.attrs.eps);
    return act(c->desc.attrs.act, v * (double)val[1][at[3]] + (double)val[2][at[3]]);
}

static double layer_norm(const kernel_case *c, float *const *val, const int64_t *at)
{
    const graft_tensor_desc *x = &c->desc.in[0];
    int last = x->rank - 1;
    int64_t n = x->dim[last], from[GRAFT_MAX_RANK];
    double sum = 0, squares = 0;
    for (int d = 0; d < last; d++) from[d] = at[d];
    for (from[last] = 0; from[last] < n; from[last]++) {
        double v = get(x, val[0], from);
        sum += v;
        squares += v * v;
    }
    double mean = sum / (double)n, variance = squares / (double)n - mean * mean;
    double v = (get(x, val[0], at) - mean) / sqrt(variance + (double)c->desc.attrs.eps);
    int64_t row = c->desc.in[1].rank == 3 ? at[0] * n : 0; /* one for each entry of the batch */
    return v * (double)val[1][row + at[last]] + (double)val[2][row + at[last]];
}

static double rms_norm(const kernel_case *c, float *const *val, const int64_t *at)
{
    const graft_tensor_desc *x = &c->desc.in[0];
    int last = x->rank - 1;
    int64_t n = c->desc.in[1].dim[0], first = at[last] / n * n, from[GRAFT_MAX_RANK];
    double squares = 0;
    for (int d = 0; d < last; d++) from[d] = at[d];
    for (from[last] = first; from[last] < first + n; from[last]++)
        squares += pow(get(x, val[0], from), 2);
    double v = get(x, val[0], at) / sqrt(squares / (double)n + (double)c->desc.attrs.eps);
    return v * (double)val[1][at[last] - first];
}

static double rope(const kernel_case *c, float *const *val, const int64_t *at)
{
    const graft_attrs *a = &c->desc.attrs;
    const graft_tensor_desc *x = &c->desc.in[0];
    int64_t cells = (int64_t)a->up_h * a->up_w, width = x->dim[2] / a->heads;
    int64_t cell = at[1] - (x->dim[1] - a->pad_bottom - cells), place = a->groups;
    const int64_t down = cell / a->up_w, row = a->stride_w ? a->pad_top - down : a->pad_top + down;
    int64_t end = width - a->pad_right, n = end - a->kernel_h - a->kernel_w, i = at[2] % width;
    if (cell < 0 || cell >= cells || i >= end) return get(x, val[0], at);
    if (a->stride_h) { /* all exponents are those of the whole head */
        const int64_t axis = i / 2 % 3, turn = i / 6;
        n = width;
        if (axis == 1 && turn < a->kernel_h / 2) place = row;
        if (axis == 2 && turn < a->kernel_w / 2) place = a->pad_left + cell % a->up_w;
    } else if (i >= end - a->kernel_w) {
        i -= end - a->kernel_w;
        n = a->kernel_w;
        place = a->pad_left + cell % a->up_w;
    } else if (i >= n) {
        i -= n;
        n = a->kernel_h;
        place = row;
    }
    double base = a->scale > 0 ? (double)a->scale : 10000;
    double angle = (double)place * pow(base, -(double)(i / 2 * 2) / (double)n);
    int64_t other[3] = {at[0], at[1], at[2] + (i % 2 ? -1 : 1)};
    return get(x, val[0], at) * cos(angle) + get(x, val[0], other) * (i % 2 ? 1 : -1) * sin(angle);
}

static double attention(const kernel_case *c, float *const *val, const int64_t *at)
{
    const graft_tensor_desc *q = &c->desc.in[0], *k = &c->desc.in[1];
    int64_t d = q->dim[2] / c->desc.attrs.heads, first = at[2] / d * d;
    int64_t keys = c->desc.attrs.causal ? at[1] + 1 : k->dim[1];
    if (val[GRAFT_ATTENTION_COUNT])
        keys = (int64_t)get(&c->desc.in[GRAFT_ATTENTION_COUNT], val[GRAFT_ATTENTION_COUNT], at);
    double above = 0, below = 0;
    for (int64_t s = 0; s < keys; s++) {
        double score = 0;
        for (int64_t i = first; i < first + d; i++)
            score += get(q, val[0], (int64_t[3]){at[0], at[1], i}) *
                     get(k, val[1], (int64_t[3]){at[0], s, i});
        score *= (double)c->desc.attrs.scale;
        const double cap = (double)c->desc.attrs.shift;
        if (cap > 0) score = cap * tanh(score / cap);
        if (val[3]) score += get(&c->desc.in[3], val[3], (int64_t[3]){first / d, at[1], s});
        /* Test data keeps scores small enough to go without the usual shift. */
        double weight = exp(score);
        above += weight * get(k, val[2], (int64_t[3]){at[0], s, at[2]});
        below += weight;
    }
    return above / below;
}

/* Element of b that broadcasts to `at` of the output. */
static double broadcast(const kernel_case *c, const float *b, const int64_t *at)
{
    const graft_tensor_desc *t = &c->desc.in[1];
    int missing = c->desc.out.rank - t->rank;
    int64_t from[GRAFT_MAX_RANK];
    for (int d = 0; d < t->rank; d++) from[d] = t->dim[d] == 1 ? 0 : at[d + missing];
    return get(t, b, from);
}

static double mul(const kernel_case *c, float *const *val, const int64_t *at)
{
    double v = get(&c->desc.out, val[0], at) * broadcast(c, val[1], at);
    return val[2] ? get(&c->desc.out, val[2], at) + v : v;
}

static double join(const kernel_case *c, float *const *val, const int64_t *at)
{
    int64_t before = c->desc.in[0].dim[1];
    if (at[1] < before) return get(&c->desc.in[0], val[0], at);
    return get(&c->desc.in[1], val[1], (int64_t[3]){at[0], at[1] - before, at[2]});
}

static double concat(const kernel_case *c, float *const *val, const int64_t *at)
{
    const graft_tensor_desc *a = &c->desc.in[0];
    int last = a->rank - 1;
    int64_t from[GRAFT_MAX_RANK];
    for (int d = 0; d <= last; d++) from[d] = at[d];
    if (at[last] < a->dim[last]) return get(a, val[0], from);
    from[last] -= a->dim[last];
    return get(&c->desc.in[1], val[1], from);
}

static double copy(const kernel_case *c, float *const *val, const int64_t *at)
{
    double v = get(&c->desc.in[0], val[0], at);
    switch (c->desc.out.dtype) {
    case GRAFT_F16:
        return (double)graft_f16_to_f32(graft_f32_to_f16((float)v));
    case GRAFT_BF16:
        return (double)graft_bf16_to_f32(graft_f32_to_bf16((float)v));
    case GRAFT_I8:
        v = nearbyint(v);
        return v < -128 ? -128 : v > 127 ? 127 : v;
    case GRAFT_U8:
        v = nearbyint(v);
        return v < 0 ? 0 : v > 255 ? 255 : v;
    case GRAFT_I32:
    case GRAFT_I64:
        return nearbyint(v);
    case GRAFT_BOOL8:
        return v != 0;
    default:
        return v;
    }
}

static double upsample(const kernel_case *c, float *const *val, const int64_t *at)
{
    const graft_tensor_desc *x = &c->desc.in[0], *y = &c->desc.out;
    int64_t from[4] = {at[0], at[1] * x->dim[1] / y->dim[1], at[2] * x->dim[2] / y->dim[2], at[3]};
    return get(x, val[0], from);
}

static double embedding(const kernel_case *c, float *const *val, const int64_t *at)
{
    const graft_tensor_desc *ids = &c->desc.in[0];
    int64_t id = (int64_t)get(ids, val[0], at);
    return (double)val[1][id * c->desc.in[1].dim[1] + at[ids->rank]];
}

static double timestep(const kernel_case *c, float *const *val, const int64_t *at)
{
    int64_t half = c->desc.out.dim[1] / 2, i = at[1] % half;
    double angle = (double)val[0][at[0]] * pow(10000.0, -(double)i / (double)half);
    return at[1] < half ? cos(angle) : sin(angle);
}

static double geglu(const kernel_case *c, float *const *val, const int64_t *at)
{
    const graft_tensor_desc *x = &c->desc.in[0];
    int last = x->rank - 1;
    int64_t from[GRAFT_MAX_RANK];
    for (int d = 0; d <= last; d++) from[d] = at[d];
    double v = get(x, val[0], from);
    from[last] += x->dim[last] / 2;
    return v * act(GRAFT_ACT_GELU, get(x, val[0], from));
}

static double prelu(const kernel_case *c, float *const *val, const int64_t *at)
{
    double x = get(&c->desc.out, val[0], at);
    return x < 0 ? x * (double)val[1][at[c->desc.out.rank - 1]] : x;
}

static double route(const kernel_case *c, float *const *val, const int64_t *at)
{
    const int last = c->desc.out.rank - 1;
    int64_t other[GRAFT_MAX_RANK], before = 0;
    double own = get(&c->desc.out, val[0], at), sum = 0;
    for (int d = 0; d <= last; d++) other[d] = at[d];
    for (int64_t i = 0; i < c->desc.out.dim[last]; i++) {
        other[last] = i;
        const double x = get(&c->desc.out, val[0], other);
        before += x > own || (x == own && i < at[last]);
        sum += exp(x - own);
    }
    return before < c->desc.attrs.groups ? 1 / sum : 0;
}

static double mean_at(const kernel_case *c, const float *x, int64_t n, int64_t pixel)
{
    const int64_t *dim = c->desc.out.dim;
    double sum = 0;
    for (int64_t i = 0; i < dim[3]; i++)
        sum += (double)x[(n * dim[1] * dim[2] + pixel) * dim[3] + i];
    return sum / (double)dim[3];
}

static double mean_scale(const kernel_case *c, float *const *val, const int64_t *at)
{
    const int64_t *dim = c->desc.out.dim;
    double own = mean_at(c, val[0], at[0], at[1] * dim[2] + at[2]), least = own, most = own;
    for (int64_t p = 0; p < dim[1] * dim[2]; p++) {
        double m = mean_at(c, val[0], at[0], p);
        least = fmin(least, m);
        most = fmax(most, m);
    }
    double m = most > least ? (own - least) / (most - least) : 0, x = get(&c->desc.out, val[0], at);
    return at[3] < dim[3] / 2 ? x * (1 + ((double)val[1][0] - 1) * m) : x;
}

/* By the transform itself: bin by bin there and back, in complex numbers. */
static double low_scale(const kernel_case *c, float *const *val, const int64_t *at)
{
    const int64_t *dim = c->desc.out.dim;
    int64_t h = dim[1], w = dim[2];
    double own = get(&c->desc.out, val[0], at), low = 0;
    for (int64_t ky = h > 1 ? -1 : 0; ky <= 0; ky++)
        for (int64_t kx = w > 1 ? -1 : 0; kx <= 0; kx++) {
            double complex bin = 0;
            for (int64_t i = 0; i < h * w; i++) {
                double turn =
                    (double)(ky * (i / w)) / (double)h + (double)(kx * (i % w)) / (double)w;
                int64_t from[4] = {at[0], i / w, i % w, at[3]};
                bin += get(&c->desc.out, val[0], from) * cexp(-2 * M_PI * I * turn);
            }
            double turn = (double)(ky * at[1]) / (double)h + (double)(kx * at[2]) / (double)w;
            low += creal(bin * cexp(2 * M_PI * I * turn));
        }
    return own + ((double)val[1][0] - 1) * low / (double)(h * w);
}

static double gather_row(const kernel_case *c, float *const *val, const int64_t *at)
{
    return get(&c->desc.in[0], val[0], (int64_t[3]){at[0], (int64_t)val[1][at[0]], at[1]});
}

/* Which of all tokens the others of a cell are merged into; -1: there is none for this one. */
static int64_t target_of_cell(const graft_attrs *a, int64_t row, int64_t column)
{
    if (row / 2 * 2 + 1 >= a->up_h || column / 2 * 2 + 1 >= a->up_w) return -1;
    uint32_t cell = (uint32_t)(row / 2 * (a->up_w / 2) + column / 2);
    uint32_t place = graft_tokens_place((uint32_t)a->pad_top, cell);
    return (row / 2 * 2 + place / 2) * a->up_w + column / 2 * 2 + place % 2;
}

typedef struct like {
    int64_t token, target;
    double cosine;
} like;

static int more_alike(const void *a, const void *b)
{
    const like *x = a, *y = b;
    if (x->cosine != y->cosine) return x->cosine > y->cosine ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

static double cosine_of(const float *a, const float *b, int64_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

/* The whole table of an entry, of which one number is asked for. */
static double match_tokens(const kernel_case *c, float *const *val, const int64_t *at)
{
    const graft_attrs *a = &c->desc.attrs;
    const int64_t tokens = c->desc.in[0].dim[1], n = c->desc.in[0].dim[2];
    const float *x = val[0] + at[0] * tokens * n;
    like *source = calloc((size_t)tokens, sizeof *source);
    int64_t *goes = calloc((size_t)tokens, sizeof *goes), sources = 0, row = 0;
    if (!source || !goes) abort();
    for (int64_t i = 0; i < tokens; i++) {
        goes[i] = i;
        if (target_of_cell(a, i / a->up_w, i % a->up_w) == i) continue;
        like best = {i, -1, 0};
        for (int64_t k = 0; k < tokens; k++) {
            if (target_of_cell(a, k / a->up_w, k % a->up_w) != k) continue;
            double cosine = cosine_of(x + i * n, x + k * n, n);
            if (best.target < 0 || cosine > best.cosine) best = (like){i, k, cosine};
        }
        source[sources++] = best;
    }
    qsort(source, (size_t)sources, sizeof *source, more_alike);
    for (int64_t i = 0; i < tokens - a->groups; i++) goes[source[i].token] = source[i].target;
    for (int64_t i = 0; i < goes[at[1]]; i++) row += goes[i] == i;
    free(source);
    free(goes);
    return (double)row;
}

static double merge_tokens(const kernel_case *c, float *const *val, const int64_t *at)
{
    const int64_t tokens = c->desc.in[0].dim[1];
    double sum = 0, count = 0;
    for (int64_t i = 0; i < tokens; i++) {
        if (val[1][at[0] * tokens + i] != (float)at[1]) continue;
        sum += get(&c->desc.in[0], val[0], (int64_t[3]){at[0], i, at[2]});
        count++;
    }
    return count > 0 ? sum / count : 0;
}

static double spread_tokens(const kernel_case *c, float *const *val, const int64_t *at)
{
    int64_t row = (int64_t)get(&c->desc.in[1], val[1], at);
    if (row < 0 || row >= c->desc.in[0].dim[1]) return 0;
    return get(&c->desc.in[0], val[0], (int64_t[3]){at[0], row, at[2]});
}

double truth_at(const kernel_case *c, float *const *val, const int64_t at[GRAFT_MAX_RANK])
{
    const graft_attrs *a = &c->desc.attrs;
    switch (c->desc.op) {
    case GRAFT_OP_CONV2D:
        return conv2d(c, val, at);
    case GRAFT_OP_LINEAR:
        return linear(c, val, at);
    case GRAFT_OP_GROUP_NORM:
        return group_norm(c, val, at);
    case GRAFT_OP_LAYER_NORM:
        return layer_norm(c, val, at);
    case GRAFT_OP_ATTENTION:
        return attention(c, val, at);
    case GRAFT_OP_ACT:
        return act(a->act, get(&c->desc.out, val[0], at));
    case GRAFT_OP_ADD:
        return get(&c->desc.out, val[0], at) + broadcast(c, val[1], at);
    case GRAFT_OP_MUL:
        return mul(c, val, at);
    case GRAFT_OP_SCALE:
        return get(&c->desc.out, val[0], at) * (double)a->scale + (double)a->shift;
    case GRAFT_OP_CONCAT:
        return concat(c, val, at);
    case GRAFT_OP_COPY:
        return copy(c, val, at);
    case GRAFT_OP_UPSAMPLE:
        return upsample(c, val, at);
    case GRAFT_OP_EMBEDDING:
        return embedding(c, val, at);
    case GRAFT_OP_TIMESTEP:
        return timestep(c, val, at);
    case GRAFT_OP_GEGLU:
        return geglu(c, val, at);
    case GRAFT_OP_GATHER_ROW:
        return gather_row(c, val, at);
    case GRAFT_OP_PRELU:
        return prelu(c, val, at);
    case GRAFT_OP_MEAN_SCALE:
        return mean_scale(c, val, at);
    case GRAFT_OP_LOW_SCALE:
        return low_scale(c, val, at);
    case GRAFT_OP_RMS_NORM:
        return rms_norm(c, val, at);
    case GRAFT_OP_ROPE:
        return rope(c, val, at);
    case GRAFT_OP_JOIN:
        return join(c, val, at);
    case GRAFT_OP_MATCH_TOKENS:
        return match_tokens(c, val, at);
    case GRAFT_OP_MERGE_TOKENS:
        return merge_tokens(c, val, at);
    case GRAFT_OP_SPREAD_TOKENS:
        return spread_tokens(c, val, at);
    case GRAFT_OP_ROUTE:
        return route(c, val, at);
    default:
        return NAN;
    }
}

double truth_cost(const kernel_case *c)
{
    const graft_op_desc *d = &c->desc;
    const graft_tensor_desc *x = &d->in[0];
    switch (d->op) {
    case GRAFT_OP_CONV2D:
        return (double)(d->in[1].dim[1] * d->in[1].dim[2] * d->in[1].dim[3]);
    case GRAFT_OP_LINEAR:
        return (double)(2 * d->in[1].dim[1]);
    case GRAFT_OP_GROUP_NORM:
        return (double)(x->dim[1] * x->dim[2] * x->dim[3] / d->attrs.groups);
    case GRAFT_OP_LAYER_NORM:
    case GRAFT_OP_RMS_NORM:
    case GRAFT_OP_ROUTE:
        return (double)x->dim[x->rank - 1];
    case GRAFT_OP_ATTENTION:
        return (double)(d->in[1].dim[1] * x->dim[2] / d->attrs.heads);
    case GRAFT_OP_MEAN_SCALE:
        return (double)(x->dim[1] * x->dim[2] * x->dim[3]);
    case GRAFT_OP_MATCH_TOKENS:
        return 0.6 * (double)(x->dim[1] * x->dim[1] * x->dim[2]);
    case GRAFT_OP_MERGE_TOKENS:
        return (double)x->dim[1];
    case GRAFT_OP_LOW_SCALE:
        return 40.0 * (double)(x->dim[1] * x->dim[2]);
    default:
        return 1;
    }
}
