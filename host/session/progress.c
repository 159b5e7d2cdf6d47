#include "host/session/progress.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define REDRAW_SECONDS 0.1
#define BAR_WIDTH      20

void graft_progress_init(graft_progress *p, FILE *out, bool quiet)
{
    memset(p, 0, sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    p->out = out;
    p->quiet = quiet;
    p->terminal = isatty(fileno(out));
}

static void clear(graft_progress *p)
{
    if (p->shown) fputs("\r\033[K", p->out);
    p->shown = false;
}

void graft_progress_finish(graft_progress *p)
{
    clear(p);
    fflush(p->out);
    pthread_mutex_destroy(&p->lock);
}

/* Calibration counts thousandths of its whole, whatever it does. */
static bool is_share(const graft_progress *p)
{
    return strcmp(p->phase, "calibrate") == 0;
}

static void put_count(const graft_progress *p)
{
    unsigned long long done = p->done, total = p->total;
    if (is_share(p))
        fprintf(p->out, "%llu %%", done * 100 / total);
    else
        fprintf(p->out, "%llu/%llu", done, total);
}

/* "12.3 it/s" or "2.50 s/it", and the time that the rest will take. */
static void put_rate(graft_progress *p, double t)
{
    double steps = (double)(p->done - p->base), rate = steps / (t - p->begun);
    if (p->done <= p->base || t <= p->begun) return;
    /* Nobody counts thousandths, or the tensors of a file, a second. */
    if (!is_share(p) && strcmp(p->phase, "save") != 0) {
        if (rate >= 1)
            fprintf(p->out, "  %.2f it/s", rate);
        else
            fprintf(p->out, "  %.2f s/it", 1 / rate);
    }
    unsigned long long left = (unsigned long long)((double)(p->total - p->done) / rate + 0.5);
    if (p->done < p->total) fprintf(p->out, "  ETA %llu:%02llu", left / 60, left % 60);
}

static void put_label(graft_progress *p)
{
    fprintf(p->out, "[%zu/%zu] %s", p->n_node, p->total_nodes, p->node);
    if (*p->phase) fprintf(p->out, ": %s", p->phase);
}

static void draw(graft_progress *p, bool force)
{
    double t = graft_clock_now();
    if (p->quiet || (!force && t - p->drawn < REDRAW_SECONDS)) return;
    p->drawn = t;
    clear(p);
    put_label(p);
    if (p->total) {
        int full = (int)((double)p->done / (double)p->total * BAR_WIDTH);
        fputs(" [", p->out);
        for (int i = 0; i < BAR_WIDTH; i++) fputc(i < full ? '#' : '.', p->out);
        fputs("] ", p->out);
        put_count(p);
        put_rate(p, t);
    }
    fflush(p->out);
    p->shown = true;
}

static void line(graft_progress *p, bool with_step)
{
    if (p->quiet) return;
    put_label(p);
    if (with_step) {
        fputc(' ', p->out);
        put_count(p);
        put_rate(p, graft_clock_now());
    }
    fputc('\n', p->out);
    fflush(p->out);
}

void graft_progress_nodes(graft_progress *p, size_t total)
{
    pthread_mutex_lock(&p->lock);
    p->total_nodes = total;
    pthread_mutex_unlock(&p->lock);
}

static void restart(graft_progress *p)
{
    p->done = p->total = p->base = 0;
    p->begun = graft_clock_now();
    p->last_tenth = 0;
    p->drawn = p->begun;
}

void graft_progress_node(graft_progress *p, const char *title, const char *id)
{
    pthread_mutex_lock(&p->lock);
    snprintf(p->node, sizeof p->node, "%.70s (%.20s)", title, id);
    p->phase[0] = 0;
    p->n_node++;
    if (p->n_node > p->total_nodes) p->total_nodes = p->n_node;
    restart(p);
    if (p->terminal)
        draw(p, true);
    else
        line(p, false);
    pthread_mutex_unlock(&p->lock);
}

void graft_progress_phase(graft_progress *p, const char *phase)
{
    pthread_mutex_lock(&p->lock);
    if (strcmp(p->phase, phase) != 0) {
        snprintf(p->phase, sizeof p->phase, "%s", phase);
        restart(p);
        if (p->terminal) draw(p, true);
    }
    pthread_mutex_unlock(&p->lock);
}

void graft_progress_step(graft_progress *p, uint64_t done, uint64_t total)
{
    pthread_mutex_lock(&p->lock);
    if (done > total) done = total;
    /* Samplers say nothing before their first step, which has taken the time since the phase began.
     */
    bool first = p->total == 0 && done == 1;
    if ((total != p->total && !first) || done < p->done) {
        restart(p);
        p->base = done;
    }
    p->done = done;
    p->total = total;
    if (p->terminal) {
        draw(p, done == total);
    } else if (total) {
        /* A log wants few lines: at most ten a count, a second apart, and the end of sampling. */
        int tenth = (int)((double)done / (double)total * 10);
        bool ended = done == total && strcmp(p->phase, "sample") == 0;
        double t = graft_clock_now();
        if (tenth > p->last_tenth && (ended || t - p->drawn >= 1.0)) {
            line(p, true);
            p->last_tenth = tenth;
            p->drawn = t;
        }
    }
    pthread_mutex_unlock(&p->lock);
}

void graft_progress_say(graft_progress *p, const char *text)
{
    pthread_mutex_lock(&p->lock);
    clear(p);
    fprintf(p->out, "%s\n", text);
    fflush(p->out);
    pthread_mutex_unlock(&p->lock);
}

void graft_progress_clear(graft_progress *p)
{
    pthread_mutex_lock(&p->lock);
    clear(p);
    fflush(p->out);
    pthread_mutex_unlock(&p->lock);
}
