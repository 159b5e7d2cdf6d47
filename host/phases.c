#include "host/phases.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* A "VmHWM:  1234 kB" line of /proc/self/status; 0 where there is none. */
static int64_t status_kb(const char *name)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    long long kb = 0;
    size_t n = strlen(name);
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, n) == 0 && sscanf(line + n, ": %lld", &kb) == 1) break;
    if (f) fclose(f);
    return kb;
}

/* "5" resets the peak of resident memory: proc(5), /proc/pid/clear_refs. */
static bool reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool done = write(fd, "5", 1) == 1;
    close(fd);
    return done;
}

static void sample(graft_phases *p)
{
    int64_t kb = status_kb(p->resets ? "VmHWM" : "VmRSS");
    if (kb > p->peak_kb) p->peak_kb = kb;
    if (kb > p->all_peak_kb) p->all_peak_kb = kb;
}

void graft_phases_init(graft_phases *p)
{
    memset(p, 0, sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    p->current = -1;
    p->started = graft_clock_now();
    p->resets = reset_peak();
}

void graft_phases_finish(graft_phases *p)
{
    pthread_mutex_destroy(&p->lock);
}

static void end(graft_phases *p)
{
    if (p->current < 0) return;
    graft_phase_row *row = &p->row[p->current];
    sample(p);
    row->seconds += graft_clock_now() - p->begun;
    if (p->peak_kb > row->peak_kb) row->peak_kb = p->peak_kb;
    p->current = -1;
}

static int find_row(graft_phases *p, const char *name)
{
    char cut[sizeof p->row[0].name];
    snprintf(cut, sizeof cut, "%s", name);
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->row[i].name, cut) == 0) return i;
    if (p->count == GRAFT_PHASES_MAX) return GRAFT_PHASES_MAX - 1;
    const char *text = p->count == GRAFT_PHASES_MAX - 1 ? "more" : cut;
    snprintf(p->row[p->count].name, sizeof p->row[0].name, "%s", text);
    return p->count++;
}

void graft_phases_begin(graft_phases *p, const char *name)
{
    pthread_mutex_lock(&p->lock);
    end(p);
    p->current = find_row(p, name);
    p->begun = graft_clock_now();
    p->peak_kb = 0;
    if (p->resets) p->resets = reset_peak();
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

static void print_row(FILE *out, const char *name, double seconds, int64_t kb)
{
    fprintf(out, "%-12s %9.2f s %9.1f MiB\n", name, seconds, (double)kb / 1024);
}

void graft_phases_print(graft_phases *p, FILE *out)
{
    pthread_mutex_lock(&p->lock);
    end(p);
    sample(p);
    fprintf(out, "%-12s %11s %13s\n", "phase", "time", "peak memory");
    for (int i = 0; i < p->count; i++) {
        const graft_phase_row *row = &p->row[i];
        /* What nodes do before they name a phase is mostly nothing. */
        if (strcmp(row->name, "other") == 0 && row->seconds < 0.005) continue;
        print_row(out, row->name, row->seconds, row->peak_kb);
    }
    print_row(out, "total", graft_clock_now() - p->started, p->all_peak_kb);
    pthread_mutex_unlock(&p->lock);
}
