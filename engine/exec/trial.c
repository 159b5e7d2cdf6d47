#include "engine/exec/trial.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "engine/exec/exe.h"
#include "engine/weights/values.h"
#include "kernels/quant.h"

/* How far a variant's result may be from that of the library's own choice, as a share of the
 * largest value. float32: Winograd and split sums reorder additions and stay near 1e-5; a wrong
 * kernel is off by far more. bfloat16 and float16: one rounding of an intermediate result is 4e-3
 * of it. */
static const struct {
    graft_dtype dtype;
    float limit;
} tolerances[] = {{GRAFT_F32, 1e-4f}, {GRAFT_BF16, 2e-2f}, {GRAFT_F16, 2e-2f}};

/* A variant must win by this much: repeated timings differ by some percent, and weights in a second
 * layout cost memory wherever another graph wants the first. */
#define MARGIN         0.97
#define MARGIN_REPACKS 0.90

#define MAX_LAUNCHES  8
#define MAX_SECONDS   0.05 /* of launches of one variant, once there are two */
#define CLEARLY_WORSE 1.5
#define PERIOD        4093 /* values made up, then repeated: a prime, so rows differ */

/* A copy to or from a device waits for its end, so there are few large ones: values compared at a
 * time, how many times at most, and periods of made-up values. */
#define CHUNK       32768
#define CHUNKS_MOST 256
#define CHUNKS_WARM 32 /* of what is computed once more */
#define PERIODS     256

/* A short launch is timed as one of so many, recorded, that together they take this long: handing
 * it over and waiting may cost more than it does, and runs are recorded, too. */
#define RECORDED_SECONDS 1e-3
#define RECORDED_MOST    16

typedef struct bench {
    const graft_backend *b;
    const graft_op_desc *op;
    int64_t taken, max_bytes;
    void *in[GRAFT_MAX_INPUTS]; /* activations; shared by the variants */
    void *out;
    void *reference; /* host: what the library's own choice computed */
    bool gaps;       /* there may be values between those of the result */
    uint32_t seed;
} bench;

typedef struct candidate {
    graft_kernel *kernel;
    graft_kernel_info info;
    void *packed[GRAFT_MAX_INPUTS];
    void *workspace;
    char *turns; /* more copies of one packed input, in one piece; NULL: none */
    int32_t turning, n_turns;
    int64_t turn_bytes; /* from one to the next */
} candidate;

static float random_value(bench *t)
{
    t->seed = t->seed * 1664525u + 1013904223u;
    return (float)(t->seed >> 8) * (2.0f / 16777216.0f) - 1.0f;
}

/* Elements from the first to the last one that the descriptor reaches. */
static int64_t span_of(const graft_tensor_desc *d)
{
    int64_t last = 0;
    for (int i = 0; i < d->rank; i++) {
        if (d->dim[i] < 1) return 0;
        last += (d->dim[i] - 1) * d->stride[i];
    }
    return last + 1;
}

static int64_t bytes_of(const graft_tensor_desc *d)
{
    return span_of(d) * (int64_t)graft_dtype_size(d->dtype);
}

/* Device memory within the limit; NULL when there is none. */
static void *take(bench *t, int64_t bytes)
{
    if (bytes > t->max_bytes - t->taken) return NULL;
    void *p = t->b->api->alloc(t->b->device, bytes ? (uint64_t)bytes : 1);
    if (p) t->taken += bytes;
    return p;
}

static void give(bench *t, void *p, int64_t bytes)
{
    if (!p) return;
    t->b->api->free(t->b->device, p);
    t->taken -= bytes;
}

/* The limit is that of the memory which runs are in: beside a device's the host has room. */
static bool host_has_room(const bench *t, int64_t bytes)
{
    return !t->b->info.host_memory || bytes <= t->max_bytes - t->taken;
}

/* No numbers, in 32 bits or in 16, where the library can fill memory. */
static void spoil(const bench *t, void *p, int64_t bytes)
{
    const graft_kernels_more *more = graft_backend_more(t->b);
    const uint32_t bits = UINT32_MAX;
    float none;
    memcpy(&none, &bits, sizeof none);
    if (!p) return;
    if (t->b->info.host_memory)
        memset(p, 0xff, (size_t)bytes);
    else if (GRAFT_KERNELS_HAS(more, fill)) /* what fails here shows when it is waited for */
        more->fill(t->b->device, p, (uint64_t)bytes / sizeof none, none);
}

/* ------------------------------------------------------------------ made-up data */

static void make_up(bench *t, graft_dtype dtype, float scale, void *out, size_t n)
{
    float value[PERIOD];
    memset(out, 0, n * graft_dtype_size(dtype)); /* whole numbers: indices, of which 0 is valid */
    if (dtype != GRAFT_F32 && dtype != GRAFT_BF16 && dtype != GRAFT_F16) return;
    for (size_t i = 0; i < n; i++) value[i] = scale * random_value(t);
    if (dtype == GRAFT_F32)
        memcpy(out, value, n * sizeof *value);
    else if (dtype == GRAFT_BF16)
        graft_f32_to_bf16_array(value, out, n);
    else
        graft_f32_to_f16_array(value, out, n);
}

/* Of an attention's keys nearly all count. */
static graft_status fill_count(bench *t, void *to)
{
    const int64_t n = t->op->in[GRAFT_ATTENTION_COUNT].dim[0];
    const int64_t keys = t->op->in[GRAFT_ATTENTION_K].dim[1];
    int32_t *count = graft_malloc_array((size_t)n, sizeof *count);
    if (!count) return GRAFT_E_LIMIT;
    for (int64_t i = 0; i < n; i++) count[i] = (int32_t)(keys - (keys + 63) / 64 + (keys == 1));
    graft_status st = t->b->api->upload(t->b->device, to, count, (uint64_t)n * sizeof *count);
    graft_free(count);
    return st;
}

static graft_status fill_input(bench *t, int input, void *to)
{
    const graft_tensor_desc *d = &t->op->in[input];
    if (t->op->op == GRAFT_OP_ATTENTION && input == GRAFT_ATTENTION_COUNT) return fill_count(t, to);
    int64_t n = span_of(d), size = graft_dtype_size(d->dtype), period = PERIOD * size;
    int64_t periods = n / PERIOD < PERIODS ? n / PERIOD + 1 : PERIODS;
    graft_status st = GRAFT_OK;
    char *piece = graft_malloc_array((size_t)periods, (size_t)period);
    if (!piece) return GRAFT_E_LIMIT;
    make_up(t, d->dtype, 1.0f, piece, PERIOD);
    for (int64_t i = 1; i < periods; i++) memcpy(piece + i * period, piece, (size_t)period);
    for (int64_t at = 0; at < n && !st; at += periods * PERIOD) {
        int64_t count = n - at < periods * PERIOD ? n - at : periods * PERIOD;
        st = t->b->api->upload(t->b->device, (char *)to + at * size, piece,
                               (uint64_t)(count * size));
    }
    graft_free(piece);
    return st;
}

/* Blocks of whichever type: bytes of 4 to 11 are float16 of 6e-5 to 5e-4 where a block of ggml has
 * such numbers, E4M3 of 0.01 to 0.02, and some levels where there are those. */
static void make_up_blocks(bench *t, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = (uint8_t)(8.0f + 4.0f * random_value(t));
}

/* What is no level of the floats among them. */
static void make_up_scales(int32_t type, int64_t rows, int64_t columns, uint8_t *out)
{
    const float one = 1, block = 0.02f;
    const bool codes = type == GRAFT_FLOAT_NF4 || type == GRAFT_FLOAT_FP4;
    const int64_t levels = graft_blocks_level_bytes(type, rows * columns);
    const int64_t each = graft_blocks_level_bytes(type, graft_blocks_values(type));
    for (int64_t i = 0; i < levels && type == GRAFT_FLOAT_MXFP8; i += each) out[i] = 127;
    for (int64_t i = 0; i < levels && codes; i += each) memcpy(out + i, &block, sizeof block);
    for (int64_t r = 0; r < rows && graft_blocks_scaled(type); r++)
        memcpy(out + levels + r * (int64_t)sizeof one, &one, sizeof one);
}

/* Source of a constant. Weights of a size that keeps the result near 1, in bfloat16: half the
 * memory of floats; or in the blocks that the operator has. NULL when memory is short. */
static void *make_constant(bench *t, int32_t input, graft_dtype *dtype)
{
    const graft_tensor_desc *d = &t->op->in[input];
    const int32_t type = input == GRAFT_LINEAR_W ? graft_quant_blocks(t->op->attrs.quant) : 0;
    int64_t n = 1;
    for (int i = 0; i < d->rank; i++) n *= d->dim[i];
    float scale = d->rank > 1 && n > 0 ? sqrtf(3.0f * (float)d->dim[0] / (float)n) : 1.0f;
    const int64_t packed = type ? graft_blocks_bytes(type, d->dim[0], d->dim[1]) : 0;
    const size_t all = (size_t)(type ? packed : n * (int64_t)sizeof(uint16_t));
    const size_t period = type ? PERIOD : PERIOD * sizeof(uint16_t);
    char piece[PERIOD * sizeof(uint16_t)], *source;
    if (!host_has_room(t, (int64_t)all) || !(source = graft_malloc(all))) return NULL;
    t->seed = 1 + (uint32_t)input; /* every variant gets the same weights */
    *dtype = type ? GRAFT_BLOCKS + (graft_dtype)type : GRAFT_BF16;
    if (type)
        make_up_blocks(t, (uint8_t *)piece, period);
    else
        make_up(t, GRAFT_BF16, scale, piece, PERIOD);
    for (size_t i = 0; i < all; i += period)
        memcpy(source + i, piece, all - i < period ? all - i : period);
    if (type) make_up_scales(type, d->dim[0], d->dim[1], (uint8_t *)source);
    return source;
}

static graft_status pack_constant(bench *t, candidate *c, int32_t input)
{
    graft_dtype dtype;
    c->packed[input] = take(t, (int64_t)c->info.packed_bytes[input]);
    void *source = c->packed[input] ? make_constant(t, input, &dtype) : NULL;
    if (!source) return GRAFT_E_LIMIT;
    graft_status st = t->b->api->pack(c->kernel, input, dtype, source, c->packed[input]);
    graft_free(source);
    return st;
}

/* ------------------------------------------------------------------ one variant */

/* Gives its memory back; kernel and information stay. */
static void candidate_unload(bench *t, candidate *c)
{
    give(t, c->turns, c->n_turns * c->turn_bytes);
    c->turns = NULL;
    c->n_turns = 0;
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) {
        give(t, c->packed[i], (int64_t)c->info.packed_bytes[i]);
        c->packed[i] = NULL;
    }
    give(t, c->workspace, (int64_t)c->info.workspace_bytes);
    c->workspace = NULL;
}

static void candidate_finish(bench *t, candidate *c)
{
    candidate_unload(t, c);
    t->b->api->release(c->kernel);
}

static graft_status candidate_init(bench *t, candidate *c, int32_t variant)
{
    char text[256] = "";
    memset(c, 0, sizeof *c);
    c->info.size = sizeof c->info;
    graft_status st =
        t->b->api->prepare(t->b->device, t->op, variant, &c->kernel, &c->info, text, sizeof text);
    if (st) c->kernel = NULL;
    return st;
}

static graft_status candidate_load(bench *t, candidate *c)
{
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) {
        if (!t->op->in[i].constant || !c->info.packed_bytes[i]) continue;
        graft_status st = pack_constant(t, c, i);
        if (st) return st;
    }
    if (!c->info.workspace_bytes) return GRAFT_OK;
    c->workspace = take(t, (int64_t)c->info.workspace_bytes);
    return c->workspace ? GRAFT_OK : GRAFT_E_LIMIT;
}

/* turn: which of the copies is used, where there are any. */
static graft_status hand_over(bench *t, candidate *c, int turn)
{
    const void *in[GRAFT_MAX_INPUTS];
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++)
        in[i] = t->op->in[i].constant ? c->packed[i] : t->in[i];
    int copy = turn % (c->n_turns + 1);
    if (copy) in[c->turning] = c->turns + (copy - 1) * c->turn_bytes;
    return t->b->api->launch(c->kernel, in, t->out, c->workspace);
}

/* Whether what was launched is not the variant: a time would be that of something else. */
static bool is_replaced(const bench *t, const candidate *c)
{
    const graft_kernels_more *more = graft_backend_more(t->b);
    return GRAFT_KERNELS_HAS(more, stands_in) && more->stands_in(c->kernel);
}

static graft_status launch(bench *t, candidate *c, double *seconds)
{
    char text[256] = "";
    double start = graft_trial_now();
    graft_status st = hand_over(t, c, 0);
    if (!st) st = t->b->api->wait(t->b->device, text, sizeof text);
    *seconds = graft_trial_now() - start;
    return st;
}

/* What a variant leaves out would else be what the one before has written, and right. */
static graft_status launch_first(bench *t, candidate *c, double *seconds)
{
    spoil(t, t->out, bytes_of(&t->op->out));
    return launch(t, c, seconds);
}

/* Launches from turn `first` on as one recorded run; NULL where they cannot be recorded. */
static graft_captured *capture(bench *t, candidate *c, int first, int launches)
{
    const graft_kernels_more *more = graft_backend_more(t->b);
    graft_captured *r = NULL;
    graft_status st = GRAFT_OK;
    if (!more || !more->capture_begin || more->capture_begin(t->b->device)) return NULL;
    for (int i = 0; i < launches && !st; i++) st = hand_over(t, c, first + i);
    graft_status end = more->capture_end(t->b->device, &r);
    if (!st && !end) return r;
    more->captured_free(r);
    return NULL;
}

/* ------------------------------------------------------------------ time */

/* Copies of the largest packed input, so many that with it the device's cache does not hold them
 * all; fewer where there are fewer launches, or memory is short. */
static void make_turns(bench *t, candidate *c, int launches)
{
    const graft_kernels_more *more = graft_backend_more(t->b);
    const int64_t cache = (int64_t)t->b->info.cache_bytes, align = t->b->info.alignment;
    const uint64_t *bytes = c->info.packed_bytes;
    if (c->turns || cache < 1 || t->b->info.host_memory || !GRAFT_KERNELS_HAS(more, copy)) return;
    c->turning = 0;
    for (int i = 1; i < GRAFT_MAX_INPUTS; i++)
        if (c->packed[i] && (!c->packed[c->turning] || bytes[i] > bytes[c->turning]))
            c->turning = i;
    const int64_t size = (int64_t)bytes[c->turning];
    if (!c->packed[c->turning] || size < 1 || size >= cache) return;
    c->turn_bytes = align > 1 ? (size + align - 1) / align * align : size;
    int64_t n = cache / size + 1, room = (t->max_bytes - t->taken) / 2 / c->turn_bytes;
    if (n > launches - 1) n = launches - 1;
    if (n > room) n = room;
    if (n < 1 || !(c->turns = take(t, n * c->turn_bytes))) return;
    c->n_turns = (int32_t)n;
    for (int64_t i = 0; i < n; i++) /* what fails here shows when it is waited for */
        more->copy(t->b->device, c->turns + i * c->turn_bytes, c->packed[c->turning],
                   (uint64_t)size);
}

/* Several launches as one recorded run; NULL where they cannot be recorded, and where one takes so
 * long (`first`) that nothing else shows. */
static graft_captured *record(bench *t, candidate *c, double first, int *launches)
{
    const graft_kernels_more *more = graft_backend_more(t->b);
    double n = RECORDED_SECONDS / (first > 1e-9 ? first : 1e-9);
    *launches = n > RECORDED_MOST ? RECORDED_MOST : (int)n;
    if (*launches < 2 || !more || !more->capture_begin) return NULL;
    make_turns(t, c, *launches);
    return capture(t, c, 0, *launches);
}

/* seconds: of one launch. */
static graft_status replay(bench *t, graft_captured *r, int launches, double *seconds)
{
    char text[256] = "";
    double start = graft_trial_now();
    graft_status st = graft_backend_more(t->b)->replay(r);
    if (!st) st = t->b->api->wait(t->b->device, text, sizeof text);
    *seconds = (graft_trial_now() - start) / launches;
    return st;
}

/* The best of several launches; few when they are long, and only two when others were far better.
 * `first`: of the launch that has been made already. */
static graft_status measure(bench *t, candidate *c, double first, double best_so_far,
                            const graft_task *task, uint64_t *ns)
{
    double best = first, sum = first;
    int launches;
    graft_status st = GRAFT_OK;
    graft_captured *r = record(t, c, first, &launches);
    for (int i = 1; i < MAX_LAUNCHES && !st; i++) {
        double seconds;
        if (sum > MAX_SECONDS || (i > 1 && best > CLEARLY_WORSE * best_so_far)) break;
        if (graft_task_cancelled(task)) st = GRAFT_E_CANCEL;
        if (!st) st = r ? replay(t, r, launches, &seconds) : launch(t, c, &seconds);
        if (st) break;
        if (seconds < best) best = seconds;
        sum += r ? launches * seconds : seconds;
    }
    if (r) graft_backend_more(t->b)->captured_free(r);
    if (!st) *ns = best > 1e-9 ? (uint64_t)(best * 1e9) : 1;
    return st;
}

/* ------------------------------------------------------------------ results */

static float tolerance_of(const graft_op_desc *op)
{
    float limit = 0;
    const graft_dtype used[2] = {op->in[0].dtype, op->out.dtype};
    for (size_t i = 0; i < sizeof tolerances / sizeof *tolerances; i++)
        for (int k = 0; k < 2; k++)
            if (used[k] == tolerances[i].dtype && tolerances[i].limit > limit)
                limit = tolerances[i].limit;
    return limit;
}

typedef struct difference {
    float worst, largest; /* of the values that are compared, and of the reference */
} difference;

/* Compares `count` values from place `at` on; buffers: room for three times as many floats. */
static bool compare(bench *t, int64_t at, size_t count, float *buffers, difference *d)
{
    graft_dtype dtype = t->op->out.dtype;
    int64_t size = graft_dtype_size(dtype);
    float *ours = buffers, *theirs = buffers + count, *raw = theirs + count;
    if (t->b->api->download(t->b->device, raw, (char *)t->out + at * size,
                            (uint64_t)count * (uint64_t)size))
        return false;
    graft_to_f32(dtype, raw, ours, count);
    graft_to_f32(dtype, (char *)t->reference + at * size, theirs, count);
    for (size_t i = 0; i < count; i++) {
        float off = fabsf(ours[i] - theirs[i]);
        if (t->gaps && isnan(ours[i]) && isnan(theirs[i])) continue; /* between two rows */
        /* NaN counts as a difference, and stays: nothing is equal to it, itself included. */
        if (d->worst == d->worst && !(off <= d->worst)) d->worst = off;
        if (fabsf(theirs[i]) > d->largest) d->largest = fabsf(theirs[i]);
    }
    return true;
}

/* How far what lies in t->out is from the reference. Of large results as much as `most` parts hold
 * is compared, from the first to the last, equally far apart. GRAFT_E_UNSUPPORTED: what it holds
 * cannot be compared. */
static graft_status distance(bench *t, int64_t most, float *off)
{
    int64_t n = span_of(&t->op->out), chunks = (n + CHUNK - 1) / CHUNK;
    int64_t parts = chunks < most ? chunks : most;
    difference d = {0, 0};
    if (tolerance_of(t->op) <= 0 || graft_dtype_size(t->op->out.dtype) > sizeof(float))
        return GRAFT_E_UNSUPPORTED;
    float *buffers = graft_malloc_array(3 * CHUNK, sizeof *buffers);
    if (!buffers) return GRAFT_E_LIMIT;
    bool good = true;
    for (int64_t i = 0; i < parts && good; i++) {
        int64_t at = (parts < 2 ? 0 : i * (chunks - 1) / (parts - 1)) * CHUNK;
        good = compare(t, at, (size_t)(n - at < CHUNK ? n - at : CHUNK), buffers, &d);
    }
    graft_free(buffers);
    *off = d.worst > 0 ? d.worst / d.largest : d.worst; /* infinite, or no number, where that is */
    return good ? GRAFT_OK : GRAFT_E_DEVICE;
}

/* The result once more, recorded where that is possible, as in a network: with all code loaded and
 * one kernel behind the other, and with nothing left of the launches before. A kernel that reads
 * what its own workspace gets before it is there finds the same numbers from the last launch else,
 * and in a first launch it comes late. The weights are a copy where there is one, and those that
 * were used before are none any more, for who would still read them. *off becomes larger where that
 * is further off. */
static graft_status try_warm(bench *t, candidate *c, float *off)
{
    const graft_kernels_more *more = graft_backend_more(t->b);
    char text[256] = "";
    float now = 0;
    if (t->b->info.host_memory || !GRAFT_KERNELS_HAS(more, fill) || tolerance_of(t->op) <= 0)
        return GRAFT_OK;
    make_turns(t, c, 2);
    int turn = c->n_turns ? 1 : 0;
    graft_captured *r = capture(t, c, turn, 1);
    if (turn) spoil(t, c->packed[c->turning], (int64_t)c->info.packed_bytes[c->turning]);
    spoil(t, t->out, bytes_of(&t->op->out));
    spoil(t, c->workspace, (int64_t)c->info.workspace_bytes);
    graft_status st = r ? more->replay(r) : hand_over(t, c, turn);
    if (!st) st = t->b->api->wait(t->b->device, text, sizeof text);
    if (!st) st = distance(t, CHUNKS_WARM, &now);
    if (!st && !(now <= *off)) *off = now;
    if (r) more->captured_free(r);
    return st;
}

static graft_status keep_reference(bench *t)
{
    int64_t bytes = bytes_of(&t->op->out);
    if (!host_has_room(t, bytes)) return GRAFT_E_LIMIT;
    t->reference = graft_malloc((size_t)bytes);
    if (!t->reference) return GRAFT_E_LIMIT;
    if (t->b->info.host_memory) t->taken += bytes;
    return t->b->api->download(t->b->device, t->reference, t->out, (uint64_t)bytes);
}

/* ------------------------------------------------------------------ the trial */

static void bench_finish(bench *t)
{
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++)
        if (t->in[i]) t->b->api->free(t->b->device, t->in[i]);
    if (t->out) t->b->api->free(t->b->device, t->out);
    graft_free(t->reference);
}

static graft_status bench_init(bench *t)
{
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++) {
        const graft_tensor_desc *d = &t->op->in[i];
        if (d->dtype == GRAFT_DTYPE_NONE || d->constant) continue;
        if (!(t->in[i] = take(t, bytes_of(d)))) return GRAFT_E_LIMIT;
        graft_status st = fill_input(t, i, t->in[i]);
        if (st) return st;
    }
    t->out = take(t, bytes_of(&t->op->out));
    int64_t n = 1;
    for (int i = 0; i < t->op->out.rank; i++) n *= t->op->out.dim[i];
    t->gaps = n < span_of(&t->op->out);
    return t->out ? GRAFT_OK : GRAFT_E_LIMIT;
}

static uint64_t fastest(const graft_trial *r)
{
    uint64_t best = 0;
    for (int i = 0; i < r->count; i++)
        if (r->ns[i] && (!best || r->ns[i] < best)) best = r->ns[i];
    return best;
}

/* Whether a variant is faster than the library's own choice, or that one cannot be used. */
static bool may_win(const graft_trial *r, int32_t v)
{
    return !r->ns[r->own] || r->ns[v] < r->ns[r->own];
}

/* Its time does not count where it failed, or computes something else. */
static void note_result(const bench *t, int32_t v, graft_status st, graft_trial *out)
{
    bool wrong = !st && !(out->off[v] <= tolerance_of(t->op));
    if (wrong) out->wrong |= 1u << v;
    if (st || wrong) out->ns[v] = 0;
    out->status[v] = st;
}

/* Another variant than the library's own; whatever is wrong with it, the trial goes on. */
static graft_status try_variant(bench *t, int32_t v, const candidate *own, const graft_task *task,
                                graft_trial *out)
{
    candidate c;
    uint64_t least = fastest(out);
    double first = 0, best = least ? 1e-9 * (double)least : INFINITY;
    graft_status st = candidate_init(t, &c, v);
    if (!st) st = candidate_load(t, &c);
    if (!st) st = launch_first(t, &c, &first);
    if (!st && is_replaced(t, &c)) st = GRAFT_E_UNSUPPORTED;
    if (!st) st = distance(t, CHUNKS_MOST, &out->off[v]);
    bool good = !st && out->off[v] <= tolerance_of(t->op);
    if (good && !t->b->info.host_memory) st = launch(t, &c, &first);
    if (!st && good) st = measure(t, &c, first, best, task, &out->ns[v]);
    if (!st && good && may_win(out, v)) st = try_warm(t, &c, &out->off[v]);
    if (!st && is_replaced(t, &c)) st = GRAFT_E_UNSUPPORTED; /* in a later launch */
    note_result(t, v, st, out);
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++)
        if (t->op->in[i].constant && c.info.packing[i] != own->info.packing[i])
            out->repacks |= 1u << v;
    candidate_finish(t, &c);
    return st == GRAFT_E_CANCEL ? st : GRAFT_OK;
}

/* What the library's own choice computes first is what the others are held against, and itself once
 * more, also where something stands in for it; only there is no time of it then. *seconds: of a
 * launch. */
static graft_status try_own(bench *t, candidate *own, const graft_task *task, graft_trial *out,
                            double *seconds)
{
    uint64_t ns = 0;
    graft_status st = GRAFT_OK;
    GRAFT_TRY(candidate_load(t, own));
    GRAFT_TRY(launch_first(t, own, seconds));
    GRAFT_TRY(keep_reference(t));
    /* The first launch may set things up: it counts only where that would not show, and never on a
     * device, which loads code then. */
    if (*seconds < MAX_SECONDS || !t->b->info.host_memory) GRAFT_TRY(launch(t, own, seconds));
    if (!is_replaced(t, own)) {
        GRAFT_TRY(measure(t, own, *seconds, *seconds, task, &ns));
        GRAFT_TRY(try_warm(t, own, &out->off[out->own]));
    }
    out->ns[out->own] = ns;
    note_result(t, out->own, is_replaced(t, own) ? GRAFT_E_UNSUPPORTED : GRAFT_OK, out);
    candidate_unload(t, own); /* one variant in memory at a time */
out:
    return st;
}

static graft_status try_all(bench *t, candidate *own, const graft_trial_limits *limits,
                            const graft_task *task, graft_trial *out)
{
    double seconds;
    graft_status st = GRAFT_OK;
    GRAFT_TRY(bench_init(t));
    GRAFT_TRY(try_own(t, own, task, out, &seconds));
    for (int32_t v = 0; v < out->count; v++) {
        if (v == out->own) continue;
        if (graft_task_cancelled(task)) return GRAFT_E_CANCEL;
        if (limits->deadline > 0 && graft_trial_now() + 2 * seconds > limits->deadline)
            return GRAFT_E_LIMIT;
        GRAFT_TRY(try_variant(t, v, own, task, out));
    }
out:
    return st;
}

graft_status graft_trial_run(const graft_backend *backend, const graft_op_desc *op,
                             const graft_trial_limits *limits, const graft_task *task,
                             graft_trial *out, graft_err *e)
{
    bench t = {.b = backend, .op = op, .max_bytes = limits->max_bytes, .seed = 77};
    candidate own;
    memset(out, 0, sizeof *out);
    graft_status st = candidate_init(&t, &own, -1);
    if (st) return graft_fail(e, st, "tuning: the operator cannot be made");
    out->own = own.info.variant_index;
    out->count = own.info.variant_count;
    if (out->count > GRAFT_TRIAL_VARIANTS) out->count = GRAFT_TRIAL_VARIANTS;
    while (limits->deadline > 0 && out->count > 1 && own.info.slow >> (out->count - 1) & 1)
        out->count--;
    if (out->own < 0 || out->own >= out->count) out->own = out->count = 0;
    if (out->count > 1) st = try_all(&t, &own, limits, task, out);
    candidate_finish(&t, &own);
    bench_finish(&t);
    if (st == GRAFT_E_CANCEL) return graft_fail(e, st, "cancelled");
    return st ? graft_fail(e, GRAFT_E_LIMIT, "tuning: no time or memory for a trial") : GRAFT_OK;
}

int32_t graft_trial_best(const graft_trial *t)
{
    int32_t best = -1;
    if (t->count < 2) return -1;
    double own = t->ns[t->own] ? (double)t->ns[t->own] : INFINITY, least = own;
    for (int32_t v = 0; v < t->count; v++) {
        double margin = t->repacks >> v & 1 ? MARGIN_REPACKS : MARGIN;
        double ns = (double)t->ns[v];
        if (v == t->own || ns < 1 || ns >= own * margin || ns >= least) continue;
        best = v;
        least = ns;
    }
    return best;
}
