/* `graft cache`: what plugins keep on disk between runs, through their "graft.cache/1". */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "host/commands/commands.h"
#include "host/session/session.h"

typedef enum command { SUMMARY, LIST, VERIFY, CLEAR } command;

typedef struct listing {
    command what;
    uint64_t shown, count, bytes, damaged, old;
} listing;

static const char *size_text(uint64_t bytes, char out[16])
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    double v = (double)bytes;
    int k = 0;
    while (v >= 999.5 && k < 4) v /= 1000, k++;
    snprintf(out, 16, v < 99.95 && k ? "%.1f %s" : "%.0f %s", v, unit[k]);
    return out;
}

static void show_entry(listing *l, const char *name, uint64_t bytes, int64_t modified,
                       const char *state)
{
    time_t t = (time_t)modified;
    struct tm day;
    char when[32] = "?", size[16];
    if (localtime_r(&t, &day)) strftime(when, sizeof when, "%Y-%m-%d %H:%M", &day);
    if (!l->shown++) printf("%-40s %8s  last used\n", "entry", "size");
    printf("%-40s %8s  %s%s\n", name, size_text(bytes, size), when, state);
}

static void on_entry(void *ctx, const char *name, uint64_t bytes, int64_t modified, int32_t good)
{
    listing *l = ctx;
    const char *state = good == 2 ? "  old" : good ? "" : "  DAMAGED";
    if (l->what == LIST || (l->what == VERIFY && !good))
        show_entry(l, name, bytes, modified, state);
    l->count++;
    l->bytes += bytes;
    l->damaged += !good;
    l->old += good == 2;
}

static graft_status show(const graft_cache_api *cache, command what, uint64_t *damaged)
{
    listing l = {.what = what};
    char size[16];
    graft_status st = cache->list(what == VERIFY, on_entry, &l);
    if (st) return st;
    printf("%s%s: %llu %s, %s", l.shown ? "\n" : "", cache->folder(), (unsigned long long)l.count,
           l.count == 1 ? "entry" : "entries", size_text(l.bytes, size));
    if (what == VERIFY) printf(", %llu damaged", (unsigned long long)l.damaged);
    if (l.old)
        printf(", %llu old: of another version, remade when needed", (unsigned long long)l.old);
    printf("\n");
    *damaged += l.damaged;
    return GRAFT_OK;
}

static graft_status clear(const graft_cache_api *cache)
{
    uint64_t n = 0;
    graft_status st = cache->clear(&n);
    printf("%s: %llu %s removed\n", cache->folder(), (unsigned long long)n,
           n == 1 ? "entry" : "entries");
    return st;
}

/* Each plugin once; the registry lists nodes, those of one plugin in a row. */
static graft_status visit(const graft_registry *r, command what, uint64_t *damaged, graft_err *e)
{
    const graft_plugin *last = NULL;
    const graft_registry_node *node;
    size_t found = 0;
    for (size_t i = 0; (node = graft_registry_at(r, i)) != NULL; i++) {
        const graft_plugin *p = node->plugin;
        if (p == last || !p->query) continue;
        last = p;
        const graft_cache_api *cache = p->query(GRAFT_CACHE_ID);
        if (!cache || !cache->folder()) continue;
        found++;
        graft_status st = what == CLEAR ? clear(cache) : show(cache, what, damaged);
        if (st)
            return graft_fail(e, st, "plugin %s: the cache in %s: %s", p->id, cache->folder(),
                              graft_status_text(st));
    }
    if (!found) printf("nothing is kept: no plugin has a cache folder\n");
    return GRAFT_OK;
}

int graft_command_cache(const graft_options *o)
{
    static const char *const names[] = {[LIST] = "list", [VERIFY] = "verify", [CLEAR] = "clear"};
    graft_err e = GRAFT_ERR_INIT;
    graft_session s;
    uint64_t damaged = 0;
    int what = SUMMARY;
    if (o->file)
        for (what = LIST; what <= CLEAR && strcmp(o->file, names[what]) != 0;) what++;
    if (what > CLEAR) {
        fprintf(stderr, "graft: cache takes list, verify or clear, not \"%s\"\n", o->file);
        return GRAFT_EXIT_USAGE;
    }
    graft_status st = graft_session_init(&s, o, &graft_session_log, &e);
    if (!st) {
        st = visit(s.registry, (command)what, &damaged, &e);
        graft_session_finish(&s);
    }
    if (st) fprintf(stderr, "graft: %s\n", e.text);
    return st || damaged ? GRAFT_EXIT_FAILED : GRAFT_EXIT_OK;
}
