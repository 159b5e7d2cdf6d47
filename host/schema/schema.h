/* What a node's record says, in the form the host asks for it. Any thread. */
#ifndef GRAFT_HOST_SCHEMA_SCHEMA_H
#define GRAFT_HOST_SCHEMA_SCHEMA_H
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "plugin/graft_plugin.h"

size_t graft_schema_inputs(const graft_node *node);
size_t graft_schema_outputs(const graft_node *node);
/* The table with this id, or NULL. */
const void *graft_schema_table(const graft_node *node, const char *id);
/* INT, FLOAT, STRING, BOOLEAN, COMBO: types with a literal form. */
bool graft_schema_literal(const graft_input *in);
/* A literal type that an editor shows as a widget: it has a place in `widgets_values`. */
bool graft_schema_widget(const graft_input *in);
bool graft_schema_combo(const graft_input *in);
/* Whether `in` stands for many inputs, of which `name` is one. */
bool graft_schema_one_of(const graft_input *in, const char *name);
/* The choice that decides whether `in` counts (graft_input.when); NULL when it always does. */
const graft_input *graft_schema_decider(const graft_node *node, const graft_input *in);
/* Whether any input's counting depends on this one. */
bool graft_schema_decides(const graft_node *node, const graft_input *in);
/* Whether `in` counts when its decider has this value; NULL: the one that it has at first. */
bool graft_schema_counts(const graft_input *in, const graft_input *decider, const char *choice);
/* "INT" for GRAFT_INT, …; "" for objects and what is not set. */
const char *graft_schema_of_kind(graft_kind kind);
/* Sockets match: equal, "*" on either side, or comma-separated unions that overlap. */
bool graft_schema_match(const char *from, const char *to);

/* The choices of a COMBO, fixed or asked of the node. Free with graft_choices_finish(). */
typedef struct graft_choices {
    const char *const *name; /* NULL-terminated */
    size_t count;
    char **made;
    void (*free_made)(char **names);
} graft_choices;
graft_status graft_choices_init(graft_choices *c, const graft_host *host, const graft_node *node,
                                const graft_input *in, graft_err *e);
void graft_choices_finish(graft_choices *c); /* fine on a zeroed one */
bool graft_choices_has(const graft_choices *c, const char *name);
#endif
