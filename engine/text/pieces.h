/* A set of byte strings with numbers, as a trie: all members that a text begins with are found on
 * one walk along it. */
#ifndef GRAFT_TEXT_PIECES_H
#define GRAFT_TEXT_PIECES_H
#include "base/error.h"
#include "engine/text/protobuf.h"

#define GRAFT_PIECES_ROOT 0u
#define GRAFT_PIECES_NONE (-1)

typedef struct graft_piece {
    graft_bytes text; /* not empty */
    int32_t id;       /* at least 0 */
} graft_piece;

typedef struct graft_pieces_node {
    uint32_t first; /* of its children, which lie side by side in the order of their bytes */
    uint16_t children;
    uint8_t byte; /* that leads here from the parent */
    int32_t id;   /* of the member that ends here, or GRAFT_PIECES_NONE */
} graft_pieces_node;

/* Immutable once made: any thread. Zeroed: the empty set. */
typedef struct graft_pieces {
    graft_pieces_node *node;
    size_t count;
} graft_pieces;

/* Sorts `list`, and keeps nothing of it. GRAFT_E_FORMAT when a member stands there twice. */
graft_status graft_pieces_init(graft_pieces *p, graft_piece *list, size_t count, graft_err *e);
void graft_pieces_finish(graft_pieces *p);
/* One byte on from a node; GRAFT_PIECES_ROOT, to which nothing leads, when no member goes on so. */
uint32_t graft_pieces_step(const graft_pieces *p, uint32_t node, uint8_t byte);
/* Bytes of the longest member that the text begins with; 0: there is none. */
size_t graft_pieces_longest(const graft_pieces *p, graft_bytes text);
#endif
