/* Results kept from one run to the next, by what they were made from. One thread at a time. */
#ifndef GRAFT_HOST_RUN_CACHE_H
#define GRAFT_HOST_RUN_CACHE_H
#include "base/hash.h"
#include "base/map.h"
#include "host/prompt/prompt.h"
#include "host/run/values.h"

typedef struct graft_cache {
    graft_map map;
    uint64_t clock; /* counts uses */
} graft_cache;

typedef struct graft_cache_key {
    graft_hash hash;
    bool usable; /* false: this node's result must not be reused */
} graft_cache_key;

/* The key of a node whose origins have theirs. It covers the class, the literals, the fingerprint
 * and, through the links, everything upstream. Node ids are no part of it, except those that a
 * GRAFT_INPUT_RAW_LINK tells the node, and its own if it is a GRAFT_NODE_OWN_ID. A node that is not
 * idempotent, or whose fingerprint fails, has no usable key, nor has anything that depends on it.
 */
graft_cache_key graft_cache_key_of(const graft_host *host, const graft_prompt_node *n,
                                   const graft_cache_key *(*origin_key)(const void *ctx,
                                                                        size_t node),
                                   const void *ctx);
/* Borrowed; NULL when absent. */
graft_result *graft_cache_get(const graft_cache *c, const graft_cache_key *key);
/* Takes a reference of its own; a failure only means that nothing is kept. */
void graft_cache_put(graft_cache *c, const graft_cache_key *key, graft_result *r);
/* Copies an entry, and those of the nodes that it expanded into, to another cache: the way to keep
 * some and drop the rest. Counts as a use. */
void graft_cache_keep(graft_cache *from, graft_cache *to, const graft_cache_key *key);
/* Copies those `n` entries that the other cache lacks and that were used last. When memory is short
 * they are lost. */
void graft_cache_keep_recent(const graft_cache *from, graft_cache *to, size_t n);
void graft_cache_finish(graft_cache *c);
#endif
