#include "engine/quant/measure.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/metrics.h"
#include "engine/graph/cost.h"
#include "engine/quant/replay.h"

#define NO_NODE SIZE_MAX

/* Errors are followed at this size, relative to the values that they change: large beside the
 * rounding of 16-bit activations, small enough for operators to answer in proportion. */
#define FOLLOWED     0.3
#define MOST_ENLARGE 100.0

typedef struct measure {
    graft_quant_plan *plan;
    const graft_quant_record *record;
    const graft_graph *g;
    const graft_task *task;
    graft_replay *replay;
    size_t *behind; /* immediate post-dominator of each node; n_nodes: the end */
    size_t *hub;    /* of each node that errors start from; NO_NODE elsewhere */
    float **sum;    /* of each node that is a hub: the errors that arrived */
    size_t output;  /* the node that makes the output */
    double *factor; /* of each hub: what a squared error there means, see measure_hub() */
    float *error, *part;
    double *arrived; /* of each layer: squared error at its hub */
    size_t *at;      /* of each layer: its hub */
    uint64_t random;
} measure;

/* ------------------------------------------------------------------ hubs */

/* Where the ways from a and b to the end first meet. */
static size_t meet(const measure *m, size_t a, size_t b)
{
    while (a != b) {
        if (a < b)
            a = m->behind[a];
        else
            b = m->behind[b];
    }
    return a;
}

/* Nodes are in execution order, so one sweep from the end finds all post-dominators. */
static graft_status find_behind(measure *m, graft_err *e)
{
    const graft_graph *g = m->g;
    size_t end = g->n_nodes, *maker = graft_malloc_array(g->n_values, sizeof *maker);
    if (!maker) return graft_fail_nomem(e, "calibration");
    for (size_t v = 0; v < g->n_values; v++) maker[v] = NO_NODE;
    for (size_t i = 0; i < end; i++) {
        maker[g->value[g->node[i].out].root] = i;
        m->behind[i] = NO_NODE;
    }
    for (size_t i = 0; i < g->n_outputs; i++) {
        m->output = maker[g->value[g->output[i]].root];
        m->behind[m->output] = end;
    }
    for (size_t i = end; i-- > 0;) {
        if (m->behind[i] == NO_NODE) m->behind[i] = end; /* nobody reads it */
        for (int k = 0; k < GRAFT_MAX_INPUTS; k++) {
            graft_vid v = g->node[i].in[k];
            size_t from = v < 0 ? NO_NODE : maker[g->value[v].root];
            if (from == NO_NODE) continue;
            m->behind[from] = m->behind[from] == NO_NODE ? i : meet(m, m->behind[from], i);
        }
    }
    graft_free(maker);
    return GRAFT_OK;
}

static bool on_the_way(const measure *m, size_t from, size_t hub)
{
    while (from < hub) from = m->behind[from];
    return from == hub;
}

/* Where the error of `count` columns of a node's result from `first` on begins to spread: at the
 * node, but where others read the rest of its columns sooner or later, at the one that reads these.
 */
static size_t start_of(const measure *m, size_t node, int64_t first, int64_t count)
{
    const graft_graph *g = m->g;
    const graft_vid out = g->node[node].out;
    const int64_t wide = g->value[out].dim[g->value[out].rank - 1];
    size_t start = NO_NODE;
    for (size_t i = node + 1; i < g->n_nodes; i++)
        for (int k = 0; k < GRAFT_MAX_INPUTS; k++) {
            const graft_gvalue *v = g->node[i].in[k] < 0 ? NULL : &g->value[g->node[i].in[k]];
            if (!v || v->root != out) continue;
            int64_t from = v->offset % wide, columns = v->dim[v->rank - 1];
            if (from >= first + count || from + columns <= first) continue;
            if (from < first || from + columns > first + count) return node;
            if (start != NO_NODE && start != i) return node;
            start = i;
        }
    return start == NO_NODE || start == m->behind[node] ? node : start;
}

/* What an operator costs, from its shapes alone: measured times would choose other hubs every
 * time. A byte counts as much as some operations, as memory is slower than arithmetic. */
static double cost(const graft_graph *g, size_t node)
{
    return graft_cost_flops(g, node) + 16.0 * graft_cost_bytes(g, node);
}

/* Every layer's hub is the farthest that lies within a stretch of the run; neighbours take the same
 * where they can. */
static void choose_hubs(measure *m)
{
    const size_t n = m->g->n_nodes;
    double stretch = 0, spent = 0;
    size_t current = NO_NODE;
    for (size_t i = 0; i < n; i++) stretch += cost(m->g, i);
    stretch /= sqrt((double)(m->plan->n ? m->plan->n : 1));
    for (size_t i = 0; i < n; i++) {
        if (m->hub[i] == NO_NODE) continue;
        if (current == NO_NODE || current < i || !on_the_way(m, i, current)) {
            current = i;
            spent = 0;
            for (size_t next = m->behind[i]; next < n; next = m->behind[next]) {
                for (size_t k = current + 1; k <= next; k++) spent += cost(m->g, k);
                if (spent > stretch) break;
                current = next;
            }
        }
        m->hub[i] = current;
    }
}

/* ------------------------------------------------------------------ layers */

/* The plan's layer that is the node's k-th; p->n when it is none that may be quantized. */
static size_t layer_at(const measure *m, size_t node, size_t k)
{
    char name[128];
    if (!graft_quant_node_layer(m->g, node, k, name)) return m->plan->n;
    size_t i = graft_quant_plan_find(m->plan, name);
    bool kept = i < m->plan->n && m->plan->layer[i].reason == GRAFT_QUANT_KEPT;
    return kept ? m->plan->n : i;
}

static double next_sign(measure *m)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return m->random >> 63 ? 1.0 : -1.0;
}

/* The part of the node's error that outputs first … first + count make. */
static void cut_out(const measure *m, size_t node, int64_t first, int64_t count)
{
    int64_t n = graft_replay_count(m->replay, node);
    const graft_gvalue *out = &m->g->value[m->g->node[node].out];
    int64_t wide = out->dim[out->rank - 1];
    memset(m->part, 0, (size_t)n * sizeof *m->part);
    for (int64_t i = first; i + count <= n; i += wide)
        memcpy(m->part + i, m->error + i, (size_t)count * sizeof *m->part);
}

/* Enlarges the error of these columns of a node (count 0: of all) to the size at which it is
 * followed; *factor says by how much. */
static graft_status enlarge(measure *m, size_t node, int64_t first, int64_t count, float *error,
                            double *factor, graft_err *e)
{
    size_t n = (size_t)graft_replay_count(m->replay, node);
    double own = graft_metric_square_sum(error, n), values = 0;
    graft_status st = graft_replay_square(m->replay, node, first, count, &values, e);
    *factor = own > 0 ? FOLLOWED * sqrt(values / own) : 1;
    *factor = fmin(fmax(*factor, 1), MOST_ENLARGE);
    for (size_t i = 0; i < n; i++) error[i] *= (float)*factor;
    return st;
}

/* Follows the error in `part`, of these columns of the node (count 0: of all), to its hub. */
static graft_status follow(measure *m, size_t node, int64_t first, int64_t count, size_t layer,
                           graft_err *e)
{
    size_t start = count ? start_of(m, node, first, count) : node, hub = m->hub[start];
    double factor = 1;
    if (hub != node) {
        size_t before = start > node ? start - 1 : node;
        graft_replay_reset(m->replay);
        graft_status st = enlarge(m, node, first, count, m->part, &factor, e);
        if (!st) st = graft_replay_disturb(m->replay, node, m->part, e);
        if (!st) st = graft_replay_continue(m->replay, before, hub, m->task, e);
        if (!st) st = graft_replay_difference(m->replay, hub, m->part, e);
        if (st) return st;
    }
    size_t n = (size_t)graft_replay_count(m->replay, hub);
    if (!m->sum[hub]) m->sum[hub] = graft_calloc(n, sizeof(float));
    if (!m->sum[hub]) return graft_fail_nomem(e, "calibration");
    float sign = (float)(next_sign(m) / factor);
    for (size_t i = 0; i < n; i++) m->sum[hub][i] += sign * m->part[i];
    m->arrived[layer] = graft_metric_square_sum(m->part, n) / (factor * factor);
    m->at[layer] = hub;
    return GRAFT_OK;
}

static void note_seconds(measure *m, size_t node, size_t layer)
{
    graft_quant_layer *l = &m->plan->layer[layer];
    const graft_gslot *s = graft_quant_weight(m->g, node);
    double share = s ? (double)l->dim[0] / (double)s->dim[0] : 1;
    l->seconds = share * graft_replay_seconds(m->replay, node);
    l->seconds_quantized = share * graft_replay_twin_seconds(m->replay, node);
}

/* Libraries may compute attention as it is although integers are allowed. */
static bool is_as_it_is(const measure *m, size_t node)
{
    size_t n = (size_t)graft_replay_count(m->replay, node), i = 0;
    if (m->g->node[node].op != GRAFT_OP_ATTENTION) return false;
    while (i < n && m->error[i] == 0) i++;
    return i == n;
}

static graft_status measure_node(measure *m, size_t node, graft_err *e)
{
    const graft_gslot *s = graft_quant_weight(m->g, node);
    size_t layers = graft_quant_node_layers(m->g, node);
    int64_t first = 0;
    if (!graft_replay_has_twin(m->replay, node)) return GRAFT_OK;
    graft_status st = graft_replay_difference(m->replay, node, m->error, e);
    if (st || is_as_it_is(m, node)) return st;
    for (size_t k = 0; k < layers && !st; k++) {
        size_t layer = layer_at(m, node, k);
        int64_t rows = layers > 1 ? s->rows[k] : 0;
        if (layer < m->plan->n) {
            if (layers == 1)
                memcpy(m->part, m->error,
                       (size_t)graft_replay_count(m->replay, node) * sizeof(float));
            else
                cut_out(m, node, first, rows);
            note_seconds(m, node, layer);
            st = follow(m, node, first, rows, layer, e);
        }
        first += rows;
    }
    return st;
}

/* The next hub that everything behind `hub` must pass, else the output. */
static size_t next_hub(const measure *m, size_t hub)
{
    size_t next = m->behind[hub];
    while (next < m->output && !m->sum[next]) next = m->behind[next];
    return next < m->output ? next : m->output;
}

/* Mean squared error of the guided output for the difference in m->part at the output node. */
static double guided_square(const measure *m)
{
    /* What the last operator gives may have another shape than the graph's output. */
    int64_t rows = m->g->value[m->g->output[0]].dim[0];
    int64_t per = graft_replay_count(m->replay, m->output) / rows;
    double guided = 0;
    for (int64_t i = 0; i < per; i++) {
        double v = 0;
        for (int64_t k = 0; k < rows; k++)
            v += (double)m->record->weight[k] * (double)m->part[k * per + i];
        guided += v * v;
    }
    return guided / (double)per;
}

/* Follows what the hub got to the next hub, where it joins what arrives there by itself, so that
 * every stretch runs once for all that passes it. m->factor[hub]: squared error at the next hub, or
 * of the guided output, per squared error here. */
static graft_status measure_hub(measure *m, size_t hub, graft_err *e)
{
    size_t n = (size_t)graft_replay_count(m->replay, hub), next = next_hub(m, hub);
    double square = graft_metric_square_sum(m->sum[hub], n), larger;
    if (!(square > 0)) return GRAFT_OK;
    if (hub == m->output) {
        memcpy(m->part, m->sum[hub], n * sizeof *m->part);
        m->factor[hub] = guided_square(m) / square;
        return GRAFT_OK;
    }
    graft_replay_reset(m->replay);
    graft_status st = enlarge(m, hub, 0, 0, m->sum[hub], &larger, e);
    if (!st) st = graft_replay_disturb(m->replay, hub, m->sum[hub], e);
    if (!st) st = graft_replay_continue(m->replay, hub, next, m->task, e);
    if (!st) st = graft_replay_difference(m->replay, next, m->part, e);
    if (st) return st;
    size_t there = (size_t)graft_replay_count(m->replay, next);
    double arrived = m->sum[next] ? graft_metric_square_sum(m->part, there) : guided_square(m);
    m->factor[hub] = arrived / (square * larger * larger);
    float sign = (float)(next_sign(m) / larger);
    for (size_t i = 0; m->sum[next] && i < there; i++) m->sum[next][i] += sign * m->part[i];
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ all of it */

static graft_status allocate(measure *m, graft_err *e)
{
    size_t n = m->g->n_nodes, layers = m->plan->n, most = 1;
    for (size_t i = 0; i < n; i++) {
        size_t count = (size_t)graft_gvalue_count(&m->g->value[m->g->node[i].out]);
        if (count > most) most = count;
    }
    m->behind = graft_malloc_array(n, sizeof *m->behind);
    m->hub = graft_malloc_array(n, sizeof *m->hub);
    m->sum = graft_calloc(n, sizeof *m->sum);
    m->factor = graft_calloc(n, sizeof *m->factor);
    m->error = graft_malloc_array(most, sizeof *m->error);
    m->part = graft_malloc_array(most, sizeof *m->part);
    m->arrived = graft_calloc(layers, sizeof *m->arrived);
    m->at = graft_malloc_array(layers, sizeof *m->at);
    bool ok =
        m->behind && m->hub && m->sum && m->factor && m->error && m->part && m->arrived && m->at;
    if (!ok) return graft_fail_nomem(e, "calibration");
    for (size_t i = 0; i < layers; i++) m->at[i] = NO_NODE;
    for (size_t i = 0; i < n; i++) m->hub[i] = NO_NODE;
    return GRAFT_OK;
}

/* Every place that a layer's error starts from. */
static void find_starts(measure *m)
{
    for (size_t i = 0; i < m->g->n_nodes; i++) {
        const graft_gslot *s = graft_quant_weight(m->g, i);
        size_t layers = graft_quant_node_layers(m->g, i);
        int64_t first = 0;
        for (size_t k = 0; k < layers; k++) {
            int64_t rows = layers > 1 ? s->rows[k] : 0;
            size_t start = rows ? start_of(m, i, first, rows) : i;
            if (layer_at(m, i, k) < m->plan->n) m->hub[start] = start;
            first += rows;
        }
    }
}

static void finish(measure *m)
{
    for (size_t i = 0; m->sum && i < m->g->n_nodes; i++) graft_free(m->sum[i]);
    graft_free(m->behind);
    graft_free(m->hub);
    graft_free(m->sum);
    graft_free(m->factor);
    graft_free(m->error);
    graft_free(m->part);
    graft_free(m->arrived);
    graft_free(m->at);
    graft_replay_destroy(m->replay);
}

static graft_status measure_all(measure *m, void (*advance)(void *ctx, double share), void *ctx,
                                double *error, graft_err *e)
{
    size_t n = m->g->n_nodes;
    graft_status st = GRAFT_OK;
    /* From the end on: following a layer's error overwrites what twins behind it left. */
    for (size_t i = n; i-- > 0 && !st;) {
        advance(ctx, 0.7 * (double)(n - i) / (double)n);
        st = measure_node(m, i, e);
    }
    for (size_t i = 0; i < n && !st; i++) {
        advance(ctx, 0.7 + 0.3 * (double)i / (double)n);
        if (m->sum[i]) st = measure_hub(m, i, e);
    }
    for (size_t i = n; i-- > 0 && !st;) {
        size_t next = m->sum[i] ? next_hub(m, i) : i;
        if (next != i && m->sum[next]) m->factor[i] *= m->factor[next];
    }
    for (size_t k = 0; k < m->plan->n && !st; k++)
        if (m->at[k] != NO_NODE) error[k] = m->arrived[k] * m->factor[m->at[k]];
    return st;
}

graft_status graft_quant_measure(graft_quant_plan *p, const graft_quant_record *record,
                                 const graft_task *task, void (*advance)(void *ctx, double share),
                                 void *ctx, double *error, graft_err *e)
{
    measure m = {
        .plan = p, .record = record, .g = record->binding->exe->graph, .task = task, .random = 1};
    graft_status st;
    for (size_t i = 0; i < p->n; i++) error[i] = NAN;
    GRAFT_TRY(allocate(&m, e));
    GRAFT_TRY(graft_replay_create(record->binding, record->quantized, &m.replay, e));
    GRAFT_TRY(graft_replay_run(m.replay, record->in, task, e));
    p->seconds = 0;
    for (size_t i = 0; i < m.g->n_nodes; i++) p->seconds += graft_replay_seconds(m.replay, i);
    GRAFT_TRY(find_behind(&m, e));
    find_starts(&m);
    choose_hubs(&m);
    GRAFT_TRY(measure_all(&m, advance, ctx, error, e));
out:
    finish(&m);
    return st;
}
