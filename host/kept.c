/* `graft cache`: what plugins keep on disk between runs, through their "graft.cache/1". */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "host/commands.h"
#include "host/session.h"

typedef struct listing {
    uint64_t count, bytes, damaged, old;
    bool verify;
} listing;

static void print_size(uint64_t bytes)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    double v = (double)bytes;
    int k = 0;
    while (v >= 999.5 && k < 4) v /= 1000, k++;
    printf(v < 99.95 && k ? "%7.1f %-2s" : "%7.0f %-2s", v, unit[k]);
}

static void on_entry(void *ctx, const char *name, uint64_t bytes, int64_t modified, int32_t good)
{
    listing *l = ctx;
    time_t t = (time_t)modified;
    struct tm day;
    char when[32] = "?";
    if (localtime_r(&t, &day)) strftime(when, sizeof when, "%Y-%m-%d %H:%M", &day);
    if (!l->count) printf("%-40s %10s  %-16s\n", "entry", "size", "last used");
    printf("%-40s ", name);
    print_size(bytes);
    const char *state = good == 2 ? "  old" : !l->verify ? "" : good ? "  good" : "  DAMAGED";
    printf("  %-16s%s\n", when, state);
    l->count++;
    l->bytes += bytes;
    l->damaged += !good;
    l->old += good == 2;
}

static graft_status show(const graft_cache_api *cache, bool verify, uint64_t *damaged)
{
    listing l = {.verify = verify};
    graft_status st = cache->list(verify, on_entry, &l);
    if (st) return st;
    printf("%s%s: %llu %s,", l.count ? "\n" : "", cache->folder(), (unsigned long long)l.count,
           l.count == 1 ? "entry" : "entries");
    print_size(l.bytes);
    if (verify) printf(", %llu damaged", (unsigned long long)l.damaged);
    if (l.old)
        printf(", %llu old: of another version, made anew when needed", (unsigned long long)l.old);
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
static graft_status visit(const graft_registry *r, const char *what, uint64_t *damaged,
                          graft_err *e)
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
        graft_status st = strcmp(what, "clear") == 0
                              ? clear(cache)
                              : show(cache, strcmp(what, "verify") == 0, damaged);
        if (st)
            return graft_fail(e, st, "plugin %s: the cache in %s: %s", p->id, cache->folder(),
                              graft_status_text(st));
    }
    if (!found) printf("nothing is kept: no plugin has a cache folder\n");
    return GRAFT_OK;
}

static void on_line(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level >= GRAFT_LOG_WARN) fprintf(stderr, "graft: %s\n", text);
}

int graft_command_cache(const graft_options *o)
{
    const char *what = o->file ? o->file : "list";
    const graft_log log = {NULL, on_line};
    graft_err e = GRAFT_ERR_INIT;
    graft_session s;
    uint64_t damaged = 0;
    if (strcmp(what, "list") != 0 && strcmp(what, "verify") != 0 && strcmp(what, "clear") != 0) {
        fprintf(stderr, "graft: cache knows list, verify and clear, not \"%s\"\n", what);
        return GRAFT_EXIT_USAGE;
    }
    graft_status st = graft_session_init(&s, o, &log, &e);
    if (!st) {
        st = visit(s.registry, what, &damaged, &e);
        graft_session_finish(&s);
    }
    if (st) fprintf(stderr, "graft: %s\n", e.text);
    return st || damaged ? GRAFT_EXIT_FAILED : GRAFT_EXIT_OK;
}
