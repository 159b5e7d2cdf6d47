/* Any text as a formula of three numbers: computed or refused, soon, and a result is a number. What
 * is understood is so whatever the names' values are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/formula.h"
#include "tests/fuzz/fuzz.h"

static void require(int cond)
{
    if (!cond) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const graft_formula_name names[] = {{"a", {GRAFT_FORMULA_INT, INT64_MIN, 0}},
                                               {"b", {GRAFT_FORMULA_FLOAT, 0, -2.5}},
                                               {"c", {GRAFT_FORMULA_BOOL, 1, 0}}};
    graft_formula_value n = {GRAFT_FORMULA_FLOAT, 0, NAN};
    char *text = graft_malloc(size + 1);
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    text[size] = 0;
    graft_status st = graft_formula_compute(text, names, 3, &n, NULL);
    graft_status known = graft_formula_check(text, NULL);
    require(st == GRAFT_OK || st == GRAFT_E_FORMAT || st == GRAFT_E_ARG || st == GRAFT_E_LIMIT);
    require((known == GRAFT_E_FORMAT) == (st == GRAFT_E_FORMAT));
    if (st == GRAFT_OK) require(isfinite(graft_formula_f64(n)));
    graft_free(text);
    return 0;
}
