#include "engine/pictures/strips.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/pictures/moments.h"
#include "engine/pictures/strip_plan.h"

typedef struct runner {
    const graft_vae *v;
    const graft_strip_plan *plan;
    const graft_task *task;
    graft_task quiet;
    uint64_t done, total; /* strips */
} runner;

/* A segment at work. */
typedef struct segment_run {
    runner *r;
    const graft_strip_segment *s;
    const char *in;
    char *out;
    char *strip;    /* what a part gives for one strip */
    float *moments; /* of each norm so far: (groups, 2) */
} segment_run;

static int64_t strips_of(const graft_strip_segment *s)
{
    return graft_strip_whole(s) ? 1 : (s->height + s->step - 1) / s->step;
}

static uint64_t runs_of(const graft_strip_plan *p, const graft_strip_segment *s)
{
    uint64_t passes = 1;
    for (int32_t k = 0; k < graft_strip_norms(p, s); k++)
        if (!graft_strip_reads_input(p, s, k)) passes++;
    return passes * (uint64_t)strips_of(s);
}

/* Rows of input: those that strip i adds, and where its reading begins. */
static void rows_of(const graft_strip_segment *s, int64_t i, int64_t *begin, int64_t *end,
                    int64_t *from)
{
    *begin = i * s->step;
    *end = *begin + s->step < s->height ? *begin + s->step : s->height;
    *from = *begin > s->halo ? *begin - s->halo : 0;
    if (*from + s->rows > s->height) *from = s->height - s->rows;
}

/* Runs the part up to norm `stop` over all strips. What a strip adds goes to `sums`, or to the
 * segment's output where that is NULL. */
static graft_status run_pass(const segment_run *w, int32_t stop, graft_moments *sums, graft_err *e)
{
    const graft_strip_segment *s = w->s;
    runner *r = w->r;
    graft_vae_part part = graft_strip_part(r->plan, s, stop);
    graft_strip_tensor in = graft_strip_input(r->plan, s);
    graft_strip_tensor out = graft_strip_output(r->plan, s, stop, s->rows);
    int64_t in_row = graft_strip_row_bytes(&in), out_row = graft_strip_row_bytes(&out);
    graft_binding *b = NULL;
    graft_status st = graft_strip_bind(r->v, &part, &r->quiet, &b, e);
    if (st) return st;
    for (int64_t i = 0; i < strips_of(s) && !st; i++) {
        int64_t begin, end, from;
        rows_of(s, i, &begin, &end, &from);
        st = graft_exe_run(b, r->v->engine->arenas,
                           (const void *[]){w->in + from * in_row, w->moments},
                           (void *[]){w->strip}, r->task, NULL, e);
        if (st) break;
        int64_t first = (begin - from) * out.height / s->rows;
        int64_t rows = (end - begin) * out.height / s->rows;
        if (sums)
            graft_moments_add(sums, out.dtype, w->strip + first * out_row, rows);
        else
            memcpy(w->out + begin * out.height / s->rows * out_row, w->strip + first * out_row,
                   (size_t)(rows * out_row));
        graft_task_progress(r->task, ++r->done, r->total);
    }
    graft_binding_release(b);
    return st;
}

/* Statistics of what norm k of the segment reads, those of the norms before it being known. */
static graft_status find_moments(const segment_run *w, int32_t k, graft_err *e)
{
    const graft_strip_plan *p = w->r->plan;
    graft_strip_tensor t = graft_strip_output(p, w->s, k, w->s->height);
    graft_moments sums;
    graft_status st = graft_moments_begin(t.channels, t.width, &sums, e);
    if (st) return st;
    if (graft_strip_reads_input(p, w->s, k))
        graft_moments_add(&sums, t.dtype, w->in, t.height);
    else
        st = run_pass(w, k, &sums, e);
    if (!st) graft_moments_take(&sums, GRAFT_VAE_GROUPS, w->moments + k * GRAFT_VAE_GROUPS * 2);
    graft_moments_end(&sums);
    return st;
}

static graft_status run_strips(segment_run *w, graft_err *e)
{
    int32_t norms = graft_strip_norms(w->r->plan, w->s);
    graft_status st = GRAFT_OK;
    w->strip = graft_malloc((size_t)w->s->strip_bytes);
    w->moments = graft_calloc((size_t)norms + 1, (size_t)GRAFT_VAE_GROUPS * 2 * sizeof(float));
    if (!w->strip || !w->moments) st = graft_fail_nomem(e, "VAE strips");
    for (int32_t k = 0; k < norms && !st; k++) st = find_moments(w, k, e);
    if (!st) st = run_pass(w, -1, NULL, e);
    graft_free(w->strip);
    graft_free(w->moments);
    return st;
}

static graft_status run_whole(const segment_run *w, graft_err *e)
{
    runner *r = w->r;
    graft_vae_part part = graft_strip_part(r->plan, w->s, -1);
    graft_binding *b = NULL;
    graft_status st = graft_strip_bind(r->v, &part, &r->quiet, &b, e);
    if (st) return st;
    st = graft_exe_run(b, r->v->engine->arenas, (const void *[]){w->in}, (void *[]){w->out},
                       r->task, NULL, e);
    graft_binding_release(b);
    graft_task_progress(r->task, ++r->done, r->total);
    return st;
}

/* Lets the packed weights of a segment go. */
static graft_status drop_packs(const runner *r, const graft_strip_segment *s, graft_err *e)
{
    int32_t norms = graft_strip_norms(r->plan, s);
    for (int32_t stop = -1; stop < norms; stop++) {
        if (stop >= 0 && graft_strip_reads_input(r->plan, s, stop)) continue;
        graft_vae_part part = graft_strip_part(r->plan, s, stop);
        graft_exe *x = NULL;
        graft_status st = graft_strip_compile(r->v, &part, &r->quiet, &x, e);
        if (!st)
            st = graft_exe_drop_packs(x, graft_vae_weights(r->v, part.decoder), NULL,
                                      r->v->engine->packs, e);
        graft_exe_release(x);
        if (st) return st;
    }
    graft_packs_settle(r->v->engine->packs);
    return GRAFT_OK;
}

/* What earlier segments, and other models, have left behind must not lie beside this one. */
static void clear_up(const runner *r, const graft_strip_segment *s)
{
    graft_arenas *a = r->v->engine->arenas;
    if (graft_arenas_bytes(a) > (uint64_t)s->arena_bytes) graft_arenas_trim(a);
    graft_alloc_trim();
}

static graft_status run_segments(runner *r, const float *in, float *out, graft_err *e)
{
    const graft_strip_plan *p = r->plan;
    char *before = NULL, *after = NULL;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < p->n && !st; i++) {
        const graft_strip_segment *s = &p->segment[i];
        graft_strip_tensor t = graft_strip_output(p, s, -1, s->height);
        bool last = i + 1 == p->n;
        clear_up(r, s);
        if (!last) after = graft_malloc_array((size_t)t.height, (size_t)graft_strip_row_bytes(&t));
        segment_run w = {.r = r,
                         .s = s,
                         .in = before ? before : (const char *)in,
                         .out = last ? (char *)out : after};
        if (!last && !after)
            st = graft_fail_nomem(e, "VAE strips");
        else
            st = graft_strip_whole(s) ? run_whole(&w, e) : run_strips(&w, e);
        if (!st && !p->keep_packs) st = drop_packs(r, s, e);
        graft_free(before);
        before = after;
        after = NULL;
    }
    graft_free(before);
    return st;
}

graft_status graft_strips_run(const graft_vae *v, bool decoder, int64_t height, int64_t width,
                              const float *in, float *out, const graft_task *task, graft_err *e)
{
    graft_strip_plan plan;
    graft_status st = graft_strip_plan_make(v, decoder, height, width, task, &plan, e);
    if (st) return st;
    graft_task_phase(task, decoder ? "decode" : "encode");
    runner r = {.v = v, .plan = &plan, .task = task, .quiet = graft_strip_quiet(task)};
    for (size_t i = 0; i < plan.n; i++) r.total += runs_of(&plan, &plan.segment[i]);
    return run_segments(&r, in, out, e);
}

graft_status graft_strips_prepare(const graft_vae *v, bool decoder, int64_t height, int64_t width,
                                  const graft_task *task, graft_err *e)
{
    graft_strip_plan plan;
    return graft_strip_plan_make(v, decoder, height, width, task, &plan, e);
}
