#include "host/run/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "host/schema/schema.h"
#include "base/tree.h"

static graft_hash mix_text(graft_hash h, const char *s)
{
    return graft_hash_mix(h, s, strlen(s) + 1);
}

static graft_hash mix_literal(graft_hash h, const graft_arg *a)
{
    h = graft_hash_mix(h, &a->kind, sizeof a->kind);
    if (a->kind == GRAFT_STRING || a->kind == GRAFT_CHOICE) return mix_text(h, a->u.s);
    return a->kind == GRAFT_NONE ? h : graft_hash_mix(h, &a->u.i, sizeof a->u.i);
}

/* Adds the id of the node that a link leads to, if this node is told it. */
static graft_hash mix_link(graft_hash h, const graft_prompt_node *n, size_t input)
{
    const cJSON *link = graft_tree_get(graft_tree_get(n->json, "inputs"), n->inputs[input]->name);
    if (!(n->inputs[input]->flags & GRAFT_INPUT_RAW_LINK)) return h;
    return mix_text(h, cJSON_GetStringValue(cJSON_GetArrayItem(link, 0)));
}

/* Adds the node's fingerprint; false when it has one but cannot give it. */
static bool mix_fingerprint(const graft_host *host, const graft_prompt_node *n, graft_hash *h)
{
    const graft_fingerprint_api *api = graft_schema_table(n->entry->node, GRAFT_FINGERPRINT_ID);
    if (!api) return true;
    graft_arg *args = graft_calloc(n->n_in, sizeof *args);
    char text[512] = "";
    if (!args) return false;
    for (size_t i = 0; i < n->n_in; i++)
        if (!n->in[i].linked) args[i] = n->in[i].literal.value;
    graft_status st = api->get(host, args, text, sizeof text);
    graft_free(args);
    text[sizeof text - 1] = 0;
    *h = mix_text(*h, text);
    return st == GRAFT_OK;
}

graft_cache_key graft_cache_key_of(const graft_host *host, const graft_prompt_node *n,
                                   const graft_cache_key *(*origin_key)(const void *ctx,
                                                                        size_t node),
                                   const void *ctx)
{
    const graft_node *node = n->entry->node;
    graft_cache_key key = {{0, 0}, !(node->flags & GRAFT_NODE_NOT_IDEMPOTENT)};
    graft_hash h = mix_text(key.hash, node->id);
    if (node->flags & GRAFT_NODE_OWN_ID) h = mix_text(h, n->id);
    for (size_t k = 0; k < n->n_in; k++) {
        const graft_prompt_input *in = &n->in[k];
        h = mix_text(h, n->inputs[k]->name);
        h = graft_hash_mix(h, &in->linked, sizeof in->linked);
        if (in->linked) {
            const graft_cache_key *origin = origin_key(ctx, in->node);
            if (!origin->usable) key.usable = false;
            h = graft_hash_mix(h, &origin->hash, sizeof origin->hash);
            h = graft_hash_mix(h, &in->slot, sizeof in->slot);
            h = mix_link(h, n, k);
        } else {
            h = mix_literal(h, &in->literal.value);
        }
    }
    if (key.usable && !mix_fingerprint(host, n, &h)) key.usable = false;
    key.hash = h;
    return key;
}

graft_result *graft_cache_get(const graft_cache *c, const graft_cache_key *key)
{
    char name[33];
    if (!key->usable) return NULL;
    graft_hash_hex(key->hash, name);
    return graft_map_get(&c->map, name);
}

void graft_cache_put(graft_cache *c, const graft_cache_key *key, graft_result *r)
{
    char name[33];
    if (!key->usable) return;
    graft_hash_hex(key->hash, name);
    graft_result *old = graft_map_get(&c->map, name);
    if (graft_map_put(&c->map, name, r)) return;
    graft_result_retain(r);
    graft_result_release(old);
}

/* Moves by reference; what is there already has brought its inner results along. */
void graft_cache_keep(graft_cache *from, graft_cache *to, const graft_cache_key *key)
{
    graft_result *r = graft_cache_get(from, key);
    if (!r || graft_cache_get(to, key)) return;
    graft_cache_put(to, key, r);
    r->used = ++to->clock;
    for (size_t i = 0; i < r->n_inner; i++) {
        const graft_cache_key inner = {r->inner[i], true};
        graft_cache_keep(from, to, &inner);
    }
}

static int later_first(const void *a, const void *b)
{
    const graft_result *x = (*(const graft_map_entry *const *)a)->value;
    const graft_result *y = (*(const graft_map_entry *const *)b)->value;
    return (x->used < y->used) - (x->used > y->used);
}

void graft_cache_keep_recent(const graft_cache *from, graft_cache *to, size_t n)
{
    size_t pos = 0, count = 0;
    const graft_map_entry *entry;
    if (!n || !from->map.count) return;
    const graft_map_entry **old = graft_malloc_array(from->map.count, sizeof *old);
    while (old && (entry = graft_map_next(&from->map, &pos)))
        if (!graft_map_has(&to->map, entry->key)) old[count++] = entry;
    if (count) qsort(old, count, sizeof *old, later_first);
    for (size_t i = 0; i < count && i < n; i++)
        if (!graft_map_put(&to->map, old[i]->key, old[i]->value))
            graft_result_retain(old[i]->value);
    graft_free(old);
}

void graft_cache_finish(graft_cache *c)
{
    size_t pos = 0;
    const graft_map_entry *entry;
    while ((entry = graft_map_next(&c->map, &pos))) graft_result_release(entry->value);
    graft_map_finish(&c->map);
}
