#include "host/serve/logs.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/clock.h"

void graft_logs_init(graft_logs *l, graft_hub *hub, bool quiet)
{
    memset(l, 0, sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    l->hub = hub;
    l->quiet = quiet;
}

void graft_logs_finish(graft_logs *l)
{
    for (size_t i = 0; i < GRAFT_LOGS_LINES; i++) graft_free(l->line[i].text);
    pthread_mutex_destroy(&l->lock);
}

static void put_entry(graft_str *out, int64_t ms, const char *text)
{
    struct tm t;
    time_t seconds = (time_t)(ms / 1000);
    char stamp[32] = "";
    gmtime_r(&seconds, &t);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &t);
    graft_str line = GRAFT_STR_INIT;
    graft_str_printf(&line, "%s\n", text);
    graft_str_printf(out, "{\"t\":\"%s.%03d\",\"m\":", stamp, (int)(ms % 1000));
    graft_str_json(out, line.data ? line.data : "");
    graft_str_puts(out, "}");
    graft_str_finish(&line);
}

/* What a client sends may be in a line, and must not steer the terminal that shows it: no control
 * characters but the ends of lines, also not those of two bytes (U+0080 to U+009F). */
static void no_controls(char *text)
{
    for (unsigned char *p = (unsigned char *)text; p && *p; p++)
        if ((*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f)
            *p = '?';
        else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
            p[0] = p[1] = '?';
}

void graft_logs_line(graft_logs *l, int32_t level, const char *text)
{
    if (level < GRAFT_LOG_INFO) return;
    int64_t now = graft_clock_ms();
    graft_str m = GRAFT_STR_INIT, told = GRAFT_STR_INIT;
    graft_roots_hide(l->roots, text, &told);
    char *copy = graft_str_take(&told), *plain = graft_strdup(text);
    graft_str_finish(&told);
    no_controls(copy);
    no_controls(plain);
    pthread_mutex_lock(&l->lock);
    graft_free(l->line[l->next].text);
    l->line[l->next].text = copy ? graft_strdup(copy) : NULL;
    l->line[l->next].time = now;
    l->next = (l->next + 1) % GRAFT_LOGS_LINES;
    if (l->count < GRAFT_LOGS_LINES) l->count++;
    if (!l->quiet || level >= GRAFT_LOG_ERROR)
        fprintf(stderr, "%s%s\n", level >= GRAFT_LOG_WARN ? "graft: " : "",
                plain ? plain : "out of memory");
    pthread_mutex_unlock(&l->lock);
    graft_free(plain);
    graft_str_puts(&m, "{\"type\":\"logs\",\"data\":{\"entries\":[");
    put_entry(&m, now, copy ? copy : "out of memory");
    graft_free(copy);
    graft_str_puts(&m, "],\"size\":{\"cols\":80,\"rows\":24}}}");
    graft_hub_log(l->hub, &m);
}

static void each(graft_logs *l, graft_str *out, void (*put)(graft_str *, int64_t, const char *),
                 const char *glue)
{
    pthread_mutex_lock(&l->lock);
    bool first = true;
    for (size_t i = 0; i < l->count; i++) {
        size_t at = (l->next + GRAFT_LOGS_LINES - l->count + i) % GRAFT_LOGS_LINES;
        if (!l->line[at].text) continue;
        if (!first) graft_str_puts(out, glue);
        put(out, l->line[at].time, l->line[at].text);
        first = false;
    }
    pthread_mutex_unlock(&l->lock);
}

static void put_plain(graft_str *out, int64_t ms, const char *text)
{
    (void)ms;
    graft_str_printf(out, "%s\n", text);
}

void graft_logs_text(graft_logs *l, graft_str *out)
{
    each(l, out, put_plain, "");
}

void graft_logs_entries(graft_logs *l, graft_str *out)
{
    each(l, out, put_entry, ",");
}
