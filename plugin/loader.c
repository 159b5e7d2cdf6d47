#include "plugin/loader.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "plugin/entry.h"
#include "plugin/record.h"

typedef struct loaded {
    const graft_plugin *plugin;
    char *path, *folder;
} loaded;

struct graft_registry {
    const graft_host *host;
    loaded **file; /* one for each successful init() */
    size_t files, file_cap;
    graft_registry_node **node; /* single blocks, so that pointers given out stay good */
    size_t nodes, node_cap;
    graft_map by_id; /* id -> graft_registry_node, NULL: taken back */
};

graft_status graft_registry_create(const graft_host *host, graft_registry **out, graft_err *e)
{
    *out = graft_calloc(1, sizeof **out);
    if (!*out) return graft_fail_nomem(e, "the registry of nodes");
    (*out)->host = host;
    return GRAFT_OK;
}

static void loaded_destroy(loaded *f)
{
    if (!f) return;
    graft_free(f->path);
    graft_free(f->folder);
    graft_free(f);
}

void graft_registry_destroy(graft_registry *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->nodes; i++) graft_free(r->node[i]);
    for (size_t i = r->files; i-- > 0;) {
        r->file[i]->plugin->deinit();
        loaded_destroy(r->file[i]);
    }
    graft_map_finish(&r->by_id);
    graft_free(r->node);
    graft_free(r->file);
    graft_free(r);
}

/* Reads the whole list before any of it is used: a plugin is taken as a whole or not at all. */
static graft_status check_nodes(const loaded *f, graft_err *e)
{
    const graft_node *n;
    for (uint32_t i = 0; (n = f->plugin->node(i)); i++) {
        graft_status st =
            i < GRAFT_PLUGIN_MAX_NODES
                ? graft_record_check(n, e)
                : graft_fail(e, GRAFT_E_LIMIT, "more than %u nodes", GRAFT_PLUGIN_MAX_NODES);
        if (st != GRAFT_OK) return graft_err_prefix(e, st, "%s: plugin %s", f->path, f->plugin->id);
    }
    return GRAFT_OK;
}

static graft_status add_node(graft_registry *r, const loaded *f, const graft_node *n,
                             const graft_log *log, graft_err *e)
{
    const graft_registry_node *other = graft_map_get(&r->by_id, n->id);
    if (other) {
        graft_log_printf(log, GRAFT_LOG_WARN, "%s: node %s is skipped: %s has one of this name",
                         f->path, n->id, other->path);
        return GRAFT_OK;
    }
    graft_registry_node *made = graft_malloc(sizeof *made);
    if (!made || graft_grow(&r->node, &r->node_cap, r->nodes + 1, sizeof *r->node) ||
        graft_map_put(&r->by_id, n->id, made)) {
        graft_free(made);
        return graft_fail_nomem(e, f->path);
    }
    *made = (graft_registry_node){n, f->plugin, f->path};
    r->node[r->nodes++] = made;
    return GRAFT_OK;
}

static graft_status add_nodes(graft_registry *r, const loaded *f, const graft_log *log,
                              graft_err *e)
{
    const size_t before = r->nodes;
    const graft_node *n;
    graft_status st = GRAFT_OK;
    for (uint32_t i = 0; st == GRAFT_OK && i < GRAFT_PLUGIN_MAX_NODES && (n = f->plugin->node(i));
         i++)
        st = add_node(r, f, n, log, e);
    if (st == GRAFT_OK) return st;
    while (r->nodes > before) {
        graft_registry_node *last = r->node[--r->nodes];
        graft_map_put(&r->by_id, last->node->id, NULL); /* replaces, so it cannot fail */
        graft_free(last);
    }
    return st;
}

graft_status graft_registry_load(graft_registry *r, const char *path, const graft_log *log,
                                 graft_err *e)
{
    bool started = false;
    graft_status st = GRAFT_OK;
    loaded *f = graft_calloc(1, sizeof *f);
    if (!f || !(f->path = graft_strdup(path)) ||
        graft_grow(&r->file, &r->file_cap, r->files + 1, sizeof *r->file)) {
        st = graft_fail_nomem(e, path);
        goto out;
    }
    GRAFT_TRY(graft_entry_open(path, &f->plugin, &f->folder, e));
    st = f->plugin->init(r->host, f->folder);
    if (st != GRAFT_OK) {
        st = graft_fail(e, st, "%s: plugin %s could not start: %s", path, f->plugin->id,
                        graft_status_text(st));
        goto out;
    }
    started = true;
    GRAFT_TRY(check_nodes(f, e));
    GRAFT_TRY(add_nodes(r, f, log, e));
    r->file[r->files++] = f;
    return GRAFT_OK;
out:
    if (started) f->plugin->deinit();
    loaded_destroy(f);
    return st;
}

graft_status graft_registry_load_folder(graft_registry *r, const char *folder, const graft_log *log,
                                        size_t *n_loaded, graft_err *e)
{
    static const char *const suffix[] = {".so", NULL};
    char **name = NULL;
    size_t count = 0;
    *n_loaded = 0;
    graft_status st = graft_dir_list(folder, suffix, &name, &count, e);
    for (size_t i = 0; st == GRAFT_OK && i < count; i++) {
        if (strchr(name[i], '/') || graft_str_starts(name[i], "graft_kernels_")) continue;
        graft_err why = GRAFT_ERR_INIT;
        char *path = graft_path_join(folder, name[i]);
        graft_status one =
            path ? graft_registry_load(r, path, log, &why) : graft_fail_nomem(&why, folder);
        graft_free(path);
        if (one == GRAFT_OK)
            ++*n_loaded;
        else if (one == GRAFT_E_NOMEM)
            st = graft_fail(e, one, "%s", why.text);
        else
            graft_log_printf(log, GRAFT_LOG_ERROR, "%s", why.text);
    }
    graft_names_free(name, count);
    return st;
}

const graft_registry_node *graft_registry_find(const graft_registry *r, const char *id)
{
    return graft_map_get(&r->by_id, id);
}

const graft_registry_node *graft_registry_at(const graft_registry *r, size_t i)
{
    return i < r->nodes ? r->node[i] : NULL;
}

/* Nodes of one plugin follow each other. */
void graft_registry_release_memory(const graft_registry *r)
{
    const graft_plugin *last = NULL;
    for (size_t i = 0; i < r->nodes; i++) {
        const graft_plugin *p = r->node[i]->plugin;
        if (p == last || !p->query) continue;
        const graft_memory_api *memory = p->query(GRAFT_MEMORY_ID);
        if (memory) memory->release();
        last = p;
    }
}
