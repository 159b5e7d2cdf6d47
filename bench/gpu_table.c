#include "bench/gpu_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/exec/tune.h"

typedef struct row { /* an operator with its shape */
    graft_op_desc desc;
    size_t node; /* the first that is one */
    int count;
    double seconds; /* of all, in one step */
} row;

static int costly_first(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds < y->seconds ? 1 : -1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static size_t gather(const graft_exe *x, const graft_exe_profile *profile, row *list)
{
    size_t n = 0;
    for (size_t i = 0; i < x->graph->n_nodes; i++) {
        graft_op_desc d;
        size_t k = 0;
        memset(&d, 0, sizeof d);
        graft_graph_desc(x->graph, i, &d);
        while (k < n && memcmp(&list[k].desc, &d, sizeof d) != 0) k++;
        if (k == n) list[n++] = (row){d, i, 0, 0};
        list[k].count++;
        list[k].seconds += profile->seconds[i] / (double)profile->runs;
    }
    qsort(list, n, sizeof *list, costly_first);
    return n;
}

static void print_sums(const row *list, size_t n, double step_ms)
{
    double all = 1e-12;
    bool done[GRAFT_OP_END] = {false};
    for (size_t i = 0; i < n; i++) all += list[i].seconds;
    printf("  operators one by one %.3f ms, the step %.3f ms\n", all * 1e3, step_ms);
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        int count = 0;
        if (done[list[i].desc.op]) continue;
        done[list[i].desc.op] = true;
        for (size_t k = i; k < n; k++) {
            if (list[k].desc.op != list[i].desc.op) continue;
            sum += list[k].seconds;
            count += list[k].count;
        }
        printf("    %-12s %5d  %9.3f ms  %5.1f %%\n", graft_op_name(list[i].desc.op), count,
               sum * 1e3, 100 * sum / all);
    }
}

/* What else goes into it: operators of one shape differ by that. */
static void print_more(const graft_op_desc *d)
{
    bool product = d->op == GRAFT_OP_LINEAR || d->op == GRAFT_OP_CONV2D;
    for (int i = 2; i < GRAFT_MAX_INPUTS; i++) {
        if (d->in[i].dtype == GRAFT_DTYPE_NONE) continue;
        if (product && i == 2)
            printf(" +bias");
        else if (d->op == GRAFT_OP_LINEAR || (product && i == GRAFT_CONV_RESIDUAL))
            printf(" +residual");
        else if (product)
            printf(" +channels");
    }
    if (d->attrs.act) printf(" act %d", (int)d->attrs.act);
}

static void print_shape(const graft_tensor_desc *t)
{
    for (int i = 0; i < t->rank; i++) printf(i ? ",%lld" : "(%lld", (long long)t->dim[i]);
    printf(t->rank ? ")" : "-");
}

/* What the library calls a variant. */
static void variant_name(const graft_exe *x, const graft_op_desc *d, int32_t variant, char *out,
                         size_t n)
{
    graft_kernel *k = NULL;
    graft_kernel_info info = {.size = sizeof info};
    const graft_backend *b = x->backend;
    bool known = b->api->prepare(b->device, d, variant, &k, &info, NULL, 0) == 0;
    snprintf(out, n, "%s", known ? info.variant : "?");
    b->api->release(k);
}

/* How many of the variants are wrong. */
static int print_trial(const graft_exe *x, const row *r, const graft_trial *t)
{
    int wrong = 0;
    for (int v = 0; v < t->count; v++) {
        char name[64];
        variant_name(x, &r->desc, v, name, sizeof name);
        printf("%s %s ", v ? "," : " |", name);
        if (t->wrong >> v & 1)
            printf("DISAGREES by %.2g", (double)t->off[v]);
        else if (t->status[v])
            printf("not usable: %s", graft_status_text(t->status[v]));
        else if (!t->ns[v])
            printf("not usable"); /* another process knows why */
        else
            printf("%.1f", (double)t->ns[v] * 1e-3);
        wrong += t->wrong >> v & 1;
    }
    return wrong;
}

int gpu_table_print(const graft_engine *engine, const graft_exe *x,
                    const graft_exe_profile *profile, double step_ms)
{
    row *list = calloc(x->graph->n_nodes, sizeof *list);
    int wrong = 0;
    if (!list || !profile->runs) abort();
    size_t n = gather(x, profile, list);
    print_sums(list, n, step_ms);
    puts("  operator     count   us each    ms all  result, second input: variant in use | us of "
         "each "
         "when tuned");
    for (size_t i = 0; i < n; i++) {
        const row *r = &list[i];
        graft_trial t;
        printf("  %-12s %5d %9.1f %9.3f  ", graft_op_name(r->desc.op), r->count,
               r->seconds / r->count * 1e6, r->seconds * 1e3);
        print_shape(&r->desc.out);
        printf(", ");
        print_shape(&r->desc.in[1]);
        print_more(&r->desc);
        printf(": %s", x->info[r->node].variant);
        if (graft_tuner_find(engine->tuner, x, r->node, &t)) wrong += print_trial(x, r, &t);
        puts("");
    }
    free(list);
    return wrong;
}
