/* Any bytes as the text form of a graph. One that is accepted prints and parses to the same text,
 * and the passes keep it a graph that verifies. */
#include "engine/graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "engine/passes/passes.h"
#include "tests/fuzz/fuzz.h"

static void require(int cond)
{
    if (!cond) abort();
}

/* Prints, parses what was printed, and prints that: twice the same text. */
static void round_trip(const graft_graph *g)
{
    graft_str first = GRAFT_STR_INIT, second = GRAFT_STR_INIT;
    graft_graph *again = NULL;
    graft_graph_print(g, &first);
    if (!first.failed) {
        require(graft_graph_parse(first.data, first.len, &again, NULL) == GRAFT_OK);
        graft_graph_print(again, &second);
        require(second.failed ||
                (second.len == first.len && memcmp(second.data, first.data, first.len) == 0));
    }
    graft_graph_destroy(again);
    graft_str_finish(&first);
    graft_str_finish(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    if (graft_graph_parse((const char *)data, size, &g, &e)) {
        require(!g && e.text[0]);
        return 0;
    }
    round_trip(g);
    if (graft_passes_run(g, &e) == GRAFT_OK)
        round_trip(g);
    else
        require(e.code == GRAFT_E_NOMEM);
    graft_graph_destroy(g);
    return 0;
}
