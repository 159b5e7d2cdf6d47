#include "engine/pictures/strip_plan.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

#define MIN_STEP 8 /* rows that a strip adds at least: fewer cost more than they save */

enum { WHOLE = 0, STRIPS = 1 };

/* What is known of units i .. j - 1 run as one segment. */
typedef struct known {
    bool measured;
    graft_strip_segment s; /* with the shortest strips; bytes without the tensors around it */
    int64_t least;         /* bytes: no less than this, by what was measured of parts of it */
} known;

typedef struct planner {
    const graft_vae *v;
    graft_strip_plan *p;
    const graft_task *task;
    int64_t budget;
    bool host;    /* what is kept between segments counts */
    bool careful; /* takes only what was measured itself */
    int64_t height[GRAFT_VAE_MAX_UNITS + 1], width[GRAFT_VAE_MAX_UNITS + 1]; /* of inputs */
    known *table;                                                            /* [mode][i][j] */
    double best[GRAFT_VAE_MAX_UNITS + 1];
    size_t from[GRAFT_VAE_MAX_UNITS + 1];
    int mode[GRAFT_VAE_MAX_UNITS + 1];
} planner;

/* ------------------------------------------------------------------ geometry */

/* Wrong rows at a strip's edge after a unit, when there were d before it. */
static int64_t spread(const graft_vae_unit *u, int64_t d)
{
    switch (u->kind) {
    case GRAFT_VAE_RES:
    case GRAFT_VAE_RES_PIXEL:
        return d + 2;
    case GRAFT_VAE_BLOCK:
        return d + 3;
    case GRAFT_VAE_UP:
        return 2 * d + 1;
    case GRAFT_VAE_DOWN:
        return d / 2 + 1;
    case GRAFT_VAE_LEVEL:
        return d + 2 * u->block;
    case GRAFT_VAE_LEVEL_UP:
        return 2 * (d + 2 * u->block) + 1;
    case GRAFT_VAE_LEVEL_DOWN:
        return (d + 2 * u->block) / 2 + 1;
    default:
        return d + 1;
    }
}

/* Rows and columns after a unit that has n of them before it. */
static int64_t sized(graft_vae_unit_kind kind, int64_t n)
{
    return graft_vae_unit_doubles(kind) ? 2 * n : graft_vae_unit_halves(kind) ? n / 2 : n;
}

/* Where norm `stop` of the segment stands: its unit, and its place within that unit; the unit after
 * the last for -1. */
static int32_t unit_of(const graft_strip_plan *p, int32_t first, int32_t end, int32_t stop,
                       int32_t *place)
{
    *place = 0;
    for (int32_t i = first; i < end && stop >= 0; i++) {
        int32_t n = graft_vae_unit_norms(p->half.unit[i].kind);
        if (stop < n) {
            *place = stop;
            return i;
        }
        stop -= n;
    }
    return end;
}

int32_t graft_strip_norms(const graft_strip_plan *p, const graft_strip_segment *s)
{
    int32_t n = 0;
    for (int32_t i = s->first; i < s->end && !graft_strip_whole(s); i++)
        n += graft_vae_unit_norms(p->half.unit[i].kind);
    return n;
}

bool graft_strip_reads_input(const graft_strip_plan *p, const graft_strip_segment *s, int32_t stop)
{
    int32_t place;
    return unit_of(p, s->first, s->end, stop, &place) == s->first && place == 0;
}

graft_strip_tensor graft_strip_input(const graft_strip_plan *p, const graft_strip_segment *s)
{
    return (graft_strip_tensor){s->height, s->width, p->half.unit[s->first].in_channels,
                                s->first ? p->act_dtype : GRAFT_F32};
}

graft_strip_tensor graft_strip_output(const graft_strip_plan *p, const graft_strip_segment *s,
                                      int32_t stop, int64_t rows)
{
    int32_t place, at = unit_of(p, s->first, s->end, stop, &place);
    graft_strip_tensor t = graft_strip_input(p, s);
    t.height = rows;
    for (int32_t i = s->first; i < at; i++) {
        t.height = sized(p->half.unit[i].kind, t.height);
        t.width = sized(p->half.unit[i].kind, t.width);
        t.channels = p->half.unit[i].channels;
    }
    if (place) t.channels = p->half.unit[at].channels;
    t.dtype = at == (int32_t)p->half.n ? GRAFT_F32 : p->act_dtype;
    return t;
}

graft_vae_part graft_strip_part(const graft_strip_plan *p, const graft_strip_segment *s,
                                int32_t stop)
{
    return (graft_vae_part){.height = s->rows,
                            .width = s->width,
                            .decoder = p->decoder,
                            .first = s->first,
                            .end = s->end,
                            .stop = stop,
                            .given = !graft_strip_whole(s),
                            .act_dtype = p->act_dtype};
}

/* Rows of input that a strip needs around those that count, and what both must be multiples of. */
static int64_t halo_of(const graft_strip_plan *p, int32_t first, int32_t end, int64_t *align)
{
    int64_t up = 1, wrong = 0, halo = 0;
    *align = 1;
    for (int32_t i = first; i < end; i++) {
        const graft_vae_unit *u = &p->half.unit[i];
        wrong = spread(u, wrong); /* never less than before a norm within the unit */
        if (graft_vae_unit_doubles(u->kind)) up *= 2;
        if (graft_vae_unit_halves(u->kind)) *align *= 2;
        int64_t here = (wrong * *align + up - 1) / up;
        if (here > halo) halo = here;
    }
    return (halo + *align - 1) / *align * *align;
}

static graft_strip_segment segment_of(const planner *n, size_t i, size_t j, int mode, int64_t step)
{
    int64_t align;
    graft_strip_segment s = {.first = (int32_t)i,
                             .end = (int32_t)j,
                             .height = n->height[i],
                             .width = n->width[i],
                             .rows = n->height[i]};
    if (mode == WHOLE) return s;
    s.halo = halo_of(n->p, s.first, s.end, &align);
    s.step = (step + align - 1) / align * align;
    s.rows = s.step + 2 * s.halo;
    return s;
}

/* ------------------------------------------------------------------ cost */

static double unit_work(const graft_vae_unit *u, int64_t height, int64_t width)
{
    double area = (double)height * (double)width, in = u->in_channels, out = u->channels;
    switch (u->kind) {
    case GRAFT_VAE_RES:
    case GRAFT_VAE_RES_PIXEL:
        return area * (9 * in * out + 9 * out * out + (in == out ? 0 : in * out));
    case GRAFT_VAE_BLOCK:
        return area * 27 * in * out;
    case GRAFT_VAE_UP:
        return area * 4 * 9 * in * out;
    case GRAFT_VAE_DOWN:
        return area / 4 * 9 * in * out;
    case GRAFT_VAE_LEVEL:
    case GRAFT_VAE_LEVEL_UP:
    case GRAFT_VAE_LEVEL_DOWN: /* a convolution more where the size changes */
        return area * 9 * (in * out + (2 * u->block - 1) * out * out) +
               (u->kind == GRAFT_VAE_LEVEL_UP     ? area * 36 * out * out
                : u->kind == GRAFT_VAE_LEVEL_DOWN ? area / 4 * 9 * out * out
                                                  : 0);
    case GRAFT_VAE_STEM:
    case GRAFT_VAE_FINISH:
    case GRAFT_VAE_LAST:
        return area * 9 * in * out;
    default:
        return area * 36 * in * in; /* the same in every plan */
    }
}

/* Work of all passes over units i .. j - 1. */
static double cost(const planner *n, size_t i, size_t j, int mode)
{
    double done = 0, passes = 0;
    for (size_t k = i; k < j; k++) {
        const graft_vae_unit *u = &n->p->half.unit[k];
        int32_t norms = graft_vae_unit_norms(u->kind);
        double area = (double)n->height[k] * (double)n->width[k];
        if (norms > 0) passes += done;
        if (norms > 1) passes += done + area * 9 * u->in_channels * u->channels;
        done += unit_work(u, n->height[k], n->width[k]);
    }
    return mode == WHOLE ? done : done + passes;
}

/* ------------------------------------------------------------------ memory */

/* Of the tensor before unit i; the caller's own at both ends. */
static int64_t kept_bytes(const planner *n, size_t i)
{
    if (i == 0 || i == n->p->half.n || !n->host) return 0;
    graft_strip_tensor t = {n->height[i], n->width[i], n->p->half.unit[i].in_channels,
                            n->p->act_dtype};
    return t.height * graft_strip_row_bytes(&t);
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Sets what a segment takes, without what is kept around it. */
static graft_status measure(const planner *n, graft_strip_segment *s, graft_err *e)
{
    int32_t norms = graft_strip_norms(n->p, s);
    for (int32_t stop = -1; stop < norms; stop++) {
        if (stop >= 0 && graft_strip_reads_input(n->p, s, stop)) continue;
        graft_vae_part part = graft_strip_part(n->p, s, stop);
        graft_exe *x = NULL;
        graft_status st = graft_strip_compile(n->v, &part, n->task, &x, e);
        if (st) return st;
        graft_strip_tensor t = graft_strip_output(n->p, s, stop, s->rows);
        s->arena_bytes = max_of(s->arena_bytes, x->arena_bytes);
        s->weight_bytes = max_of(s->weight_bytes, (int64_t)x->weight_bytes);
        if (!graft_strip_whole(s))
            s->strip_bytes = max_of(s->strip_bytes, t.height * graft_strip_row_bytes(&t));
        graft_exe_release(x);
    }
    s->bytes = s->arena_bytes + s->weight_bytes + (n->host ? s->strip_bytes : 0);
    return GRAFT_OK;
}

static known *at(const planner *n, int mode, size_t i, size_t j)
{
    size_t units = n->p->half.n;
    return &n->table[((size_t)mode * units + i) * (units + 1) + j];
}

/* More units never take less: what is measured of a part holds for what contains it. */
static void spread_bounds(const planner *n)
{
    size_t units = n->p->half.n;
    for (size_t length = 1; length <= units; length++)
        for (size_t i = 0; i + length <= units; i++)
            for (int mode = WHOLE; mode <= STRIPS; mode++) {
                known *k = at(n, mode, i, i + length);
                k->least = k->measured ? k->s.bytes : 0;
                if (k->measured || length == 1 || n->careful) continue;
                k->least = max_of(at(n, mode, i + 1, i + length)->least,
                                  at(n, mode, i, i + length - 1)->least);
            }
}

static bool possible(const planner *n, int mode, size_t i, size_t j)
{
    if (mode == WHOLE) return true;
    for (size_t k = i; k < j; k++) {
        graft_vae_unit_kind kind = n->p->half.unit[k].kind;
        if (kind == GRAFT_VAE_HEAD || kind == GRAFT_VAE_TAIL) return false;
    }
    graft_strip_segment s = segment_of(n, i, j, STRIPS, MIN_STEP);
    return s.rows < s.height;
}

/* The strips, as few as fit by what the shortest ones take. */
static int64_t fewest_strips(const planner *n, const graft_strip_segment *shortest, int64_t kept)
{
    int64_t row = (shortest->bytes - shortest->weight_bytes) / shortest->rows;
    int64_t room = n->budget - kept - shortest->weight_bytes, height = shortest->height;
    int64_t step = row > 0 ? room / row - 2 * shortest->halo : height;
    if (step < shortest->step) step = shortest->step;
    return step < height ? (height + step - 1) / step : 1;
}

/* Rows that are computed for each that counts. */
static double overhead(const planner *n, size_t i, size_t j, int mode, int64_t kept)
{
    const known *k = at(n, mode, i, j);
    if (mode == WHOLE || !k->measured) return 1;
    double step = (double)k->s.height / (double)fewest_strips(n, &k->s, kept);
    return (step + 2 * (double)k->s.halo) / step;
}

/* ------------------------------------------------------------------ search */

/* Measuring a segment means compiling it, so few of them are: the search goes by lower bounds. A
 * way through the units is chosen by what is known of its segments, where an unmeasured one counts
 * as at least what its measured parts take; what is not measured on it yet is, and a way is chosen
 * anew, until all of the best one is measured. Each round measures one segment more, of finitely
 * many, so it ends; and as bounds are never above the truth, no other way can be better. They could
 * be above it where a longer segment takes less than a part of it does (its arena may be planned
 * better). So where no way seems to fit, it is looked once more with bounds of 0 ("careful"). */

/* The best way through all units by what is known: the fastest within the budget, or the one that
 * needs the least memory. False: there is none. */
static bool find_path(planner *n, bool least_memory)
{
    size_t units = n->p->half.n;
    spread_bounds(n);
    n->best[0] = 0;
    for (size_t j = 1; j <= units; j++) {
        n->best[j] = INFINITY;
        for (size_t i = 0; i < j; i++)
            for (int mode = WHOLE; mode <= STRIPS; mode++) {
                int64_t kept = kept_bytes(n, i) + kept_bytes(n, j);
                int64_t bytes = at(n, mode, i, j)->least + kept;
                if (isinf(n->best[i]) || !possible(n, mode, i, j)) continue;
                if (!least_memory && bytes > n->budget) continue;
                double total =
                    least_memory ? fmax(n->best[i], (double)bytes)
                                 : n->best[i] + cost(n, i, j, mode) * overhead(n, i, j, mode, kept);
                if (total >= n->best[j]) continue;
                n->best[j] = total;
                n->from[j] = i;
                n->mode[j] = mode;
            }
    }
    return !isinf(n->best[units]);
}

/* Measures what is not known yet on the way; *all: nothing was left to measure. */
static graft_status measure_path(const planner *n, bool *all, graft_err *e)
{
    graft_status st = GRAFT_OK;
    *all = true;
    for (size_t j = n->p->half.n; j > 0 && !st; j = n->from[j]) {
        known *k = at(n, n->mode[j], n->from[j], j);
        if (k->measured) continue;
        k->s = segment_of(n, n->from[j], j, n->mode[j], MIN_STEP);
        st = measure(n, &k->s, e);
        k->measured = true;
        *all = false;
    }
    return st;
}

/* A way of which all is measured, or GRAFT_E_NOTFOUND. */
static graft_status search(planner *n, bool least_memory, graft_err *e)
{
    bool all = false;
    graft_status st = GRAFT_OK;
    n->careful = false;
    while (!st && !all) {
        if (find_path(n, least_memory))
            st = measure_path(n, &all, e);
        else if (n->careful)
            st = GRAFT_E_NOTFOUND;
        else
            n->careful = true;
    }
    return st;
}

static graft_status too_small(planner *n, graft_err *e)
{
    graft_status st = search(n, true, e);
    if (st) return st;
    bool own = n->budget == n->v->options.max_bytes;
    return graft_fail(e, GRAFT_E_LIMIT,
                      "the VAE's %s does not fit into the %lld MiB allowed, strip by strip either; "
                      "the smallest %s that would do is %lld",
                      n->p->decoder ? "decoder" : "encoder", (long long)(n->budget >> 20),
                      own ? "max_memory_mb" : "GRAFT_MEMORY_MB",
                      (long long)graft_size_mib((uint64_t)n->best[n->p->half.n]));
}

/* The fewest strips that fit: each computes the rows around it anew. */
static graft_status widen(const planner *n, graft_strip_segment *s, int64_t kept, graft_err *e)
{
    for (int64_t count = fewest_strips(n, s, kept);; count++) {
        int64_t step = (s->height + count - 1) / count;
        if (step <= s->step) return GRAFT_OK;
        graft_strip_segment wider = segment_of(n, (size_t)s->first, (size_t)s->end, STRIPS, step);
        if (wider.rows >= wider.height) continue;
        graft_status st = measure(n, &wider, e);
        if (st) return st;
        if (wider.bytes + kept > n->budget) continue;
        *s = wider;
        return GRAFT_OK;
    }
}

static graft_status take_path(const planner *n, graft_err *e)
{
    graft_strip_plan *p = n->p;
    graft_status st = GRAFT_OK;
    size_t count = 0;
    int64_t weights = 0, rest = 0;
    for (size_t j = p->half.n; j > 0; j = n->from[j]) count++;
    p->n = count;
    for (size_t j = p->half.n; j > 0 && !st; j = n->from[j]) {
        size_t i = n->from[j];
        graft_strip_segment *s = &p->segment[--count];
        int64_t kept = kept_bytes(n, i) + kept_bytes(n, j);
        *s = at(n, n->mode[j], i, j)->s;
        if (!graft_strip_whole(s)) st = widen(n, s, kept, e);
        s->bytes += kept;
        weights += s->weight_bytes;
        rest = max_of(rest, s->bytes - s->weight_bytes);
    }
    p->keep_packs = weights + rest <= n->budget;
    return st;
}

static graft_status set_up(planner *n, int64_t height, int64_t width, graft_err *e)
{
    graft_backend *backend;
    graft_status st =
        graft_options_resolve(n->v->engine, &n->v->options, &backend, &n->p->act_dtype, e);
    if (!st) st = graft_vae_half_of(&n->v->arch, n->p->decoder, &n->p->half, e);
    if (st) return st;
    size_t units = n->p->half.n;
    int64_t own = n->v->options.max_bytes, all = (int64_t)n->v->engine->max_bytes;
    n->budget = own && (!all || own < all) ? own : all ? all : INT64_MAX;
    n->host = backend->info.host_memory;
    n->height[0] = height;
    n->width[0] = width;
    for (size_t i = 0; i < units; i++) {
        n->height[i + 1] = sized(n->p->half.unit[i].kind, n->height[i]);
        n->width[i + 1] = sized(n->p->half.unit[i].kind, n->width[i]);
    }
    n->table = graft_calloc(2 * units * (units + 1), sizeof *n->table);
    return n->table ? GRAFT_OK : graft_fail_nomem(e, "VAE strips");
}

graft_status graft_strip_plan_make(const graft_vae *v, bool decoder, int64_t height, int64_t width,
                                   const graft_task *task, graft_strip_plan *out, graft_err *e)
{
    graft_task quiet = graft_strip_quiet(task);
    planner n = {.v = v, .p = out, .task = &quiet};
    memset(out, 0, sizeof *out);
    out->decoder = decoder;
    graft_status st = set_up(&n, height, width, e);
    if (!st) st = search(&n, false, e);
    if (st == GRAFT_E_NOTFOUND)
        st = too_small(&n, e);
    else if (!st)
        st = take_path(&n, e);
    graft_free(n.table);
    return st;
}

/* ------------------------------------------------------------------ parts */

static graft_status build_part(const void *arch, const void *shape, graft_graph **out, graft_err *e)
{
    return graft_vae_part_build(arch, shape, out, e);
}

/* Where compiling a part takes no longer than reading it, the disk is spared what a search looked
 * at. Devices keep with it what their libraries took seconds to make. */
static bool worth_keeping(const graft_backend *b)
{
    return !b->info.host_memory;
}

static graft_compile_job job_of(const graft_vae *v, const graft_vae_part *part)
{
    return (graft_compile_job){.kind = "vae_part",
                               .arch = &v->arch,
                               .arch_bytes = sizeof v->arch,
                               .shape = part,
                               .shape_bytes = sizeof *part,
                               .build = build_part};
}

graft_status graft_strip_compile(const graft_vae *v, const graft_vae_part *part,
                                 const graft_task *task, graft_exe **out, graft_err *e)
{
    graft_compile_job job = job_of(v, part);
    graft_dtype act_dtype;
    graft_status st = graft_options_resolve(v->engine, &v->options, &job.backend, &act_dtype, e);
    if (st) return st;
    job.use_disk = !v->options.no_disk && worth_keeping(job.backend);
    return graft_compiled_get(v->engine->compiled, &job, task, out, e);
}

graft_status graft_strip_bind(const graft_vae *v, const graft_vae_part *part,
                              const graft_task *task, graft_binding **out, graft_err *e)
{
    graft_compile_job job = job_of(v, part);
    graft_build_options o = v->options;
    graft_dtype act_dtype;
    o.tuning = GRAFT_TUNING_OFF;
    o.max_bytes = 0; /* the plan has kept it */
    graft_status st = graft_options_resolve(v->engine, &o, &job.backend, &act_dtype, e);
    if (st) return st;
    o.no_disk = o.no_disk || !worth_keeping(job.backend);
    return graft_engine_bind(v->engine, &o, &job, graft_vae_weights(v, part->decoder), task, out,
                             e);
}
