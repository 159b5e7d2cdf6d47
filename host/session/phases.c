#include "host/session/phases.h"

#include <string.h>

#include "base/clock.h"
#include "base/resident.h"

static void sample(graft_phases *p)
{
    int64_t bytes = p->resets ? graft_resident_peak() : graft_resident_now();
    if (bytes > p->peak) p->peak = bytes;
    if (bytes > p->all_peak) p->all_peak = bytes;
}

static void start(graft_phases *p)
{
    p->count = 0;
    p->current = -1;
    p->started = graft_clock_now();
    p->peak = p->all_peak = 0;
    p->resets = graft_resident_reset_peak();
}

void graft_phases_init(graft_phases *p)
{
    memset(p, 0, sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    start(p);
}

void graft_phases_restart(graft_phases *p)
{
    pthread_mutex_lock(&p->lock);
    start(p);
    pthread_mutex_unlock(&p->lock);
}

void graft_phases_finish(graft_phases *p)
{
    pthread_mutex_destroy(&p->lock);
}

static void end(graft_phases *p)
{
    if (p->current < 0) return;
    graft_phase_row *row = &p->row[p->current];
    row->seconds += graft_clock_now() - p->begun; /* before looking at the memory takes time */
    sample(p);
    if (p->peak > row->peak) row->peak = p->peak;
    p->current = -1;
}

static int find_row(graft_phases *p, const char *name)
{
    char cut[sizeof p->row[0].name];
    snprintf(cut, sizeof cut, "%s", name);
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->row[i].name, cut) == 0) return i;
    if (p->count == GRAFT_PHASES_MAX) return GRAFT_PHASES_MAX - 1;
    graft_phase_row *row = &p->row[p->count];
    memset(row, 0, sizeof *row);
    snprintf(row->name, sizeof row->name, "%s", p->count == GRAFT_PHASES_MAX - 1 ? "more" : cut);
    return p->count++;
}

void graft_phases_begin(graft_phases *p, const char *name)
{
    pthread_mutex_lock(&p->lock);
    if (p->current >= 0)
        end(p);
    else
        sample(p); /* what lay between two phases is in the run's peak, and in no phase's */
    p->current = find_row(p, name);
    p->begun = graft_clock_now();
    p->peak = 0;
    if (p->resets) p->resets = graft_resident_reset_peak();
    sample(p);
    pthread_mutex_unlock(&p->lock);
}

void graft_phases_end(graft_phases *p)
{
    pthread_mutex_lock(&p->lock);
    end(p);
    pthread_mutex_unlock(&p->lock);
}

void graft_phases_sample(graft_phases *p)
{
    pthread_mutex_lock(&p->lock);
    if (!p->resets) sample(p);
    pthread_mutex_unlock(&p->lock);
}

/* What nodes do before they name a phase is mostly nothing. */
static bool is_nothing(const graft_phase_row *row)
{
    return strcmp(row->name, "other") == 0 && row->seconds < 0.005;
}

static void print_row(FILE *out, const char *name, double seconds, int64_t bytes)
{
    fprintf(out, "%-12s %9.2f s %9.1f MiB\n", name, seconds, (double)bytes / 1048576);
}

void graft_phases_print(graft_phases *p, FILE *out)
{
    pthread_mutex_lock(&p->lock);
    end(p);
    sample(p);
    fprintf(out, "%-12s %11s %13s\n", "phase", "time", "peak memory");
    for (int i = 0; i < p->count; i++) {
        const graft_phase_row *row = &p->row[i];
        if (!is_nothing(row)) print_row(out, row->name, row->seconds, row->peak);
    }
    print_row(out, "total", graft_clock_now() - p->started, p->all_peak);
    pthread_mutex_unlock(&p->lock);
}

void graft_phases_json(graft_phases *p, graft_str *out)
{
    pthread_mutex_lock(&p->lock);
    end(p);
    sample(p);
    graft_str_printf(out, "{\"seconds\":%.6f,\"memory_peak\":%lld,\"phases\":[",
                     graft_clock_now() - p->started, (long long)p->all_peak);
    for (int i = 0, n = 0; i < p->count; i++) {
        const graft_phase_row *row = &p->row[i];
        if (is_nothing(row)) continue;
        graft_str_puts(out, n++ ? ",{\"name\":" : "{\"name\":");
        graft_str_json(out, row->name);
        graft_str_printf(out, ",\"seconds\":%.6f,\"memory_peak\":%lld}", row->seconds,
                         (long long)row->peak);
    }
    graft_str_puts(out, "]}");
    pthread_mutex_unlock(&p->lock);
}
