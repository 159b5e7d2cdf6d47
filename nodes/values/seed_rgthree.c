/* Seed (rgthree): rgthree's node, a seed to share, or with a negative number a new one each time.
 */
#include <stdio.h>

#include "nodes/node.h"

enum { SEED };
#define FURTHEST (INT64_C(1) << 50) /* as far as editors count seeds */
static const graft_input *const inputs[] = {
    [SEED] = IN_INT("seed", 0, -FURTHEST, FURTHEST, 0,
                    "The seed. -1, or any number below 0, draws another one at each run."),
    NULL};
static const graft_output *const outputs[] = {OUT("SEED", "INT", "The seed."), NULL};

static graft_status fingerprint(const graft_host *h, const graft_arg *in, char *text, uint64_t n)
{
    (void)h;
    bool drawn = in[SEED].kind == GRAFT_INT && in[SEED].u.i < 0;
    uint64_t once = drawn ? graft_instance_random(text) : 0;
    snprintf(text, n, "%016llx", (unsigned long long)once);
    return GRAFT_OK;
}

static const void *query(const char *id)
{
    static const graft_fingerprint_api fingerprints = {fingerprint};
    return strcmp(id, GRAFT_FINGERPRINT_ID) == 0 ? &fingerprints : NULL;
}

static graft_status run(graft_call *c)
{
    int64_t seed = graft_arg_i64(c, SEED);
    if (seed < 0) seed = (int64_t)(graft_instance_random(c) % (uint64_t)FURTHEST);
    return graft_call_out_i64(c, 0, seed);
}

GRAFT_NODE(seed_rgthree, .id = "Seed (rgthree)", .title = "Seed (rgthree)", .category = "rgthree",
           .query = query,
           .description = "A seed that several samplers share. It is rgthree's node, which many "
                          "workflows have; Int does the same.");
