/* The widgets of a node in the order in which an editor shows them, required inputs first, each
 * with its entry of `widgets_values`; those that do not count (graft_input.when) have none. Entries
 * for the editor alone (what becomes of a seed, a button) are stepped over. One thread. */
#ifndef GRAFT_HOST_PROMPT_WIDGETS_H
#define GRAFT_HOST_PROMPT_WIDGETS_H
#include "base/json.h"
#include "plugin/graft_plugin.h"

typedef struct graft_widgets {
    const graft_node *node;
    const cJSON *at;   /* entries that were not read yet */
    size_t n, widgets; /* how many of them, and for how many widgets */
    size_t k;
    const graft_input *decider; /* the last one that decides whether others count */
    const cJSON *choice;        /* its entry */
    int place;                  /* number of the entry at `at` */
} graft_widgets;

/* `values` may be anything; what is no list has no entries. */
void graft_widgets_init(graft_widgets *w, const graft_node *node, const cJSON *values);
/* The next widget, and its entry or NULL; NULL behind the last. What belongs to it are the entries
 * from w->place before the call to w->place after it. */
const graft_input *graft_widgets_next(graft_widgets *w, const cJSON **value);
/* Whether editors put "what to do with the value after a run" behind it: a seed. */
bool graft_widgets_has_control(const graft_input *in);
/* Whether an entry says what becomes of a value after a run. */
bool graft_widgets_is_control(const cJSON *value);
#endif
