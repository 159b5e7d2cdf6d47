#include "host/services/device.h"

#include <string.h>

/* The table of the next plugin that has one, from node *i on; NULL after the last. */
static const graft_device_api *next(const graft_registry *r, size_t *i)
{
    const graft_registry_node *node;
    const graft_plugin *last = *i ? graft_registry_at(r, *i - 1)->plugin : NULL;
    while ((node = graft_registry_at(r, *i)) != NULL) {
        const graft_plugin *p = node->plugin;
        ++*i;
        if (p == last || !p->query) continue;
        last = p;
        const graft_device_api *api = p->query(GRAFT_DEVICE_ID);
        if (api) return api;
    }
    return NULL;
}

graft_status graft_device_check(const graft_registry *r, const char *name, graft_err *e)
{
    const graft_device_api *api;
    for (size_t i = 0; (api = next(r, &i)) != NULL;) {
        char text[800] = "";
        graft_status st = api->check(name, text, sizeof text);
        if (st) return graft_fail(e, st, "%s", *text ? text : graft_status_text(st));
    }
    return GRAFT_OK;
}

graft_status graft_device_describe(const graft_registry *r, graft_device_facts *out)
{
    size_t i = 0;
    const graft_device_api *api = next(r, &i);
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    return api ? api->describe(out) : GRAFT_E_NOTFOUND;
}
