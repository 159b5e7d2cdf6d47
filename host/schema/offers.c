#include "host/schema/offers.h"

#include <string.h>

#include "base/alloc.h"

static void choices_free(graft_offer *c)
{
    graft_map_finish(&c->names);
    graft_choices_finish(&c->choices);
    graft_free(c);
}

void graft_offers_finish(graft_offers *k)
{
    for (graft_offer *c = k->first, *next; c; c = next) {
        next = c->next;
        choices_free(c);
    }
    k->first = NULL;
}

static graft_status ask(graft_offer *c, const graft_host *host, graft_err *e)
{
    graft_lookup lookup;
    graft_lookup_begin(&lookup, host);
    graft_status st = graft_choices_init(&c->choices, host, c->node, c->in, e);
    graft_lookup_end(&lookup, host);
    if (st) return st;
    memcpy(c->folder, lookup.folder, sizeof c->folder);
    if (c->choices.count <= GRAFT_OFFERS_LONG) return GRAFT_OK;
    for (size_t i = 0; i < c->choices.count; i++)
        if (graft_map_put(&c->names, c->choices.name[i], c)) return graft_fail_nomem(e, "choices");
    return GRAFT_OK;
}

graft_status graft_offers_get(graft_offers *k, const graft_host *host, const graft_node *node,
                              const graft_input *in, graft_offer **out, graft_err *e)
{
    for (*out = k->first; *out; *out = (*out)->next)
        if ((*out)->node == node && (*out)->in == in) return GRAFT_OK;
    graft_offer *c = graft_calloc(1, sizeof *c);
    if (!c) return graft_fail_nomem(e, "choices");
    c->node = node;
    c->in = in;
    graft_status st = ask(c, host, e);
    if (st) {
        choices_free(c);
        return st;
    }
    c->next = k->first;
    *out = k->first = c;
    return GRAFT_OK;
}

bool graft_offers_has(const graft_offer *c, const char *name)
{
    return c->names.count ? graft_map_has(&c->names, name) : graft_choices_has(&c->choices, name);
}
