/* Any bytes as a quantization plan, which users hand on: what is read can be selected from, written
 * and read again, and is the same then. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/quant/plan.h"
#include "tests/fuzz/fuzz.h"

static void require(int cond)
{
    if (!cond) abort();
}

static void use(graft_quant_plan *p)
{
    graft_quant_limits all = p->limits;
    for (int kind = 0; kind < GRAFT_LAYER_KINDS; kind++) {
        all.on[kind] = true;
        all.mse[kind] = 0.05;
    }
    all.density = 0;
    require(graft_quant_plan_select(p, &all) <= p->n);
    double sum = graft_quant_plan_estimate(p);
    require(!isnan(sum) && sum >= 0);
    require(!(graft_quant_plan_predict(p, sum) < 0));
    require(graft_quant_plan_gain(p) > 0);
    graft_quant_plan_back_off(p, sum / 2);
    require(graft_quant_plan_estimate(p) <= sum);
    for (size_t i = 0; i < p->n; i++)
        require(graft_quant_plan_find(p, p->layer[i].name) <= i); /* the first of this name */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    graft_quant_plan *p, *again;
    graft_str first = GRAFT_STR_INIT, second = GRAFT_STR_INIT;
    if (graft_quant_plan_read((const char *)data, size, "fuzz", &p, NULL) != GRAFT_OK) {
        require(!p);
        return 0;
    }
    require(p->bits == 4 || p->bits == 8);
    if (graft_quant_plan_write(p, &first, NULL) == GRAFT_OK) {
        require(graft_quant_plan_read(first.data, first.len, "own", &again, NULL) == GRAFT_OK);
        require(graft_quant_plan_write(again, &second, NULL) == GRAFT_OK);
        require(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
        graft_quant_plan_destroy(again);
    }
    use(p);
    graft_str_finish(&second);
    graft_str_finish(&first);
    graft_quant_plan_destroy(p);
    return 0;
}
