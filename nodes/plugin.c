/* The plugin as hosts see it: its nodes, and what it answers beside them. */
#include <stdio.h>
#include <string.h>

#include "nodes/call/state.h"
#include "nodes/node.h"

static graft_status init(const graft_host *h, const char *dir)
{
    (void)dir;
    graft_nodes_begin(h);
    return GRAFT_OK;
}

static const graft_node *node(uint32_t i)
{
    static const graft_node *const nodes[] = {
#define NODE(folder_, name_) &graft_node_##name_,
#include "nodes/nodes.def"
#undef NODE
    };
    return i < sizeof nodes / sizeof *nodes ? nodes[i] : NULL;
}

/* ------------------------------------------------------------------ graft.cache/1 */

static const char *cache_folder(void)
{
    graft_engine *engine;
    return graft_nodes_engine(&engine, NULL) ? NULL : graft_cache_folder(engine);
}

typedef struct cache_visitor {
    const graft_engine *engine;
    void (*visit)(void *ctx, const char *name, uint64_t bytes, int64_t modified, int32_t good);
    void *ctx;
} cache_visitor;

static void visit_entry(void *ctx, const char *name, uint64_t bytes, int64_t modified, bool good)
{
    const cache_visitor *v = ctx;
    bool old = good && graft_cache_old(v->engine, name);
    v->visit(v->ctx, name, bytes, modified, old ? 2 : good);
}

static graft_status cache_list(int32_t verify,
                               void (*visit)(void *ctx, const char *name, uint64_t bytes,
                                             int64_t modified, int32_t good),
                               void *ctx)
{
    graft_engine *engine = NULL;
    graft_status st = graft_nodes_engine(&engine, NULL);
    cache_visitor v = {engine, visit, ctx};
    return st ? st : graft_cache_list(engine, verify != 0, visit_entry, &v, NULL);
}

static graft_status cache_clear(uint64_t *count)
{
    graft_engine *engine;
    graft_status st = graft_nodes_engine(&engine, NULL);
    return st ? st : graft_cache_clear(engine, count, NULL);
}

/* ------------------------------------------------------------------ graft.memory/1 */

/* Nothing is held where there is no engine yet. */
static void release_memory(void)
{
    graft_engine *engine = graft_nodes_engine_made();
    if (engine) graft_engine_release_unused(engine);
}

/* ------------------------------------------------------------------ graft.convert/1 */

static void tell(const graft_convert_info *info, char *text, uint64_t n)
{
    char part[64] = "", rest[400] = "";
    if (*info->part) snprintf(part, sizeof part, " of \"%s\"", info->part);
    if (info->left_out)
        snprintf(rest, sizeof rest, "; %llu left out, of kinds that are not read: %s",
                 (unsigned long long)info->left_out, info->left_out_names);
    if (info->layers)
        snprintf(rest, sizeof rest, "; %llu layer%s in 8-bit integers",
                 (unsigned long long)info->layers, info->layers == 1 ? "" : "s");
    bool small = info->bytes < 1000000;
    snprintf(text, n, "%llu tensor%s%s, %.1f %s%s", (unsigned long long)info->tensors,
             info->tensors == 1 ? "" : "s", part, (double)info->bytes / (small ? 1e3 : 1e6),
             small ? "kB" : "MB", rest);
}

static graft_status told(graft_status st, const graft_convert_info *info, const graft_err *e,
                         char *text, uint64_t n)
{
    if (st)
        snprintf(text, n, "%s", e->text);
    else
        tell(info, text, n);
    return st;
}

static graft_status convert(const char *from, const char *to, char *text, uint64_t n)
{
    graft_convert_info info;
    graft_err e = GRAFT_ERR_INIT;
    return told(graft_checkpoint_convert(from, to, &info, &e), &info, &e, text, n);
}

static graft_status convert_int8(const char *from, const char *to, int32_t turned, char *text,
                                 uint64_t n)
{
    graft_convert_info info;
    graft_err e = GRAFT_ERR_INIT;
    return told(graft_checkpoint_convert_int8(from, to, turned, &info, &e), &info, &e, text, n);
}

/* ------------------------------------------------------------------ graft.device/1 */

static graft_status check_device(const char *name, char *text, uint64_t n)
{
    graft_engine *engine;
    graft_err e = GRAFT_ERR_INIT;
    graft_status st = graft_nodes_engine(&engine, &e);
    if (!st) st = graft_engine_describe(engine, name, NULL, &e);
    if (st) snprintf(text, n, "%s", e.text);
    return st;
}

static graft_status describe_device(graft_device_facts *out)
{
    graft_engine *engine;
    graft_engine_device d;
    if (!out || out->size < sizeof *out) return GRAFT_E_ARG;
    graft_status st = graft_nodes_engine(&engine, NULL);
    if (!st) st = graft_engine_describe(engine, NULL, &d, NULL);
    if (st) return st;
    out->own_memory = d.own_memory;
    out->memory_total = d.memory_total;
    out->memory_free = d.memory_free;
    snprintf(out->backend, sizeof out->backend, "%s", d.backend);
    snprintf(out->name, sizeof out->name, "%s", d.name);
    return GRAFT_OK;
}

static const void *query(const char *id)
{
    static const graft_cache_api cache_api = {cache_folder, cache_list, cache_clear};
    static const graft_convert_api convert_api = {convert};
    static const graft_convert_int8_api int8_api = {convert_int8};
    static const graft_memory_api memory_api = {release_memory};
    static const graft_device_api device_api = {check_device, describe_device};
    if (strcmp(id, GRAFT_DEVICE_ID) == 0) return &device_api;
    if (strcmp(id, GRAFT_CACHE_ID) == 0) return &cache_api;
    if (strcmp(id, GRAFT_MEMORY_ID) == 0) return &memory_api;
    if (strcmp(id, GRAFT_CONVERT_INT8_ID) == 0) return &int8_api;
    return strcmp(id, GRAFT_CONVERT_ID) == 0 ? &convert_api : NULL;
}

const graft_plugin graft_plugin_entry = {
    .abi_major = GRAFT_ABI_MAJOR,
    .abi_minor = GRAFT_ABI_MINOR,
    .id = "graft",
    .version = GRAFT_VERSION,
    .init = init,
    .deinit = graft_nodes_end,
    .node = node,
    .query = query,
};
