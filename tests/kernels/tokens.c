/* The operators of merged tokens where numbers alone do not show it: equals are taken in their
 * order, entries do not look at each other, what is no number does no harm to the table, and what
 * does not fit is refused. */
#include <glob.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/tokens.h"
#include "tests/kernels/harness.h"
#include "tests/test.h"

enum { ROWS = 13, COLUMNS = 18, TOKENS = ROWS * COLUMNS, WIDTH = 24, LEFT = 150, PATTERN = 3 };

static graft_tensor_desc tensor(int rank, int64_t a, int64_t b, int64_t c)
{
    graft_tensor_desc t = {.dtype = GRAFT_F32, .rank = rank, .dim = {a, b, c}};
    make_dense(&t);
    return t;
}

static kernel_case match(int64_t entries)
{
    kernel_case c = {.source = GRAFT_F32, .name = "match_tokens"};
    c.desc.size = sizeof c.desc;
    c.desc.op = GRAFT_OP_MATCH_TOKENS;
    c.desc.attrs = graft_tokens_attrs(ROWS, COLUMNS, LEFT, PATTERN);
    c.desc.in[0] = tensor(3, entries, TOKENS, WIDTH);
    c.desc.out = tensor(2, entries, TOKENS, 0);
    c.desc.out.dtype = GRAFT_I32;
    return c;
}

/* The other two; merge: from all to those that are left. */
static kernel_case with_table(bool merge)
{
    kernel_case c = {.source = GRAFT_F32, .name = "a table's"};
    c.desc.size = sizeof c.desc;
    c.desc.op = merge ? GRAFT_OP_MERGE_TOKENS : GRAFT_OP_SPREAD_TOKENS;
    c.desc.attrs.groups = merge ? LEFT : 0;
    c.desc.in[0] = tensor(3, 2, merge ? TOKENS : LEFT, WIDTH);
    c.desc.in[1] = tensor(2, 2, TOKENS, 0);
    c.desc.in[1].dtype = GRAFT_I32;
    c.desc.out = tensor(3, 2, merge ? LEFT : TOKENS, WIDTH);
    return c;
}

/* The table; NULL after a fault. free() */
static float *run(const kernel_lib *lib, const kernel_case *c, graft_dtype t, float *const *val)
{
    case_result r;
    case_run(lib, c, t, -1, val, &r);
    CHECK_STR(r.fault, "");
    CHECK(r.out != NULL);
    return r.out;
}

static bool runs(const kernel_lib *lib, const kernel_case *c, graft_dtype t)
{
    graft_op_desc d = case_desc(c, t);
    return lib->api->supports(lib->device, &d);
}

/* All tokens are alike but for a source of zeros, which is like none: the others go first, in their
 * order, and all to the first target. */
static void equals(const kernel_lib *lib, graft_dtype dtype)
{
    kernel_case c = match(1);
    float *val[GRAFT_MAX_INPUTS];
    graft_tokens t = {.rows = 0};
    int64_t first = -1, zeros = -1, merged = 0;
    int row = 0;
    CHECK(graft_tokens_of(&c.desc.attrs, TOKENS, &t));
    case_values(&c, dtype, 5, val);
    for (int64_t i = 0; i < TOKENS; i++) {
        const bool target = graft_tokens_is_target(&t, i);
        if (first < 0 && target) first = i;
        if (zeros < 0 && !target) zeros = i;
        for (int64_t k = 0; k < WIDTH; k++)
            val[0][i * WIDTH + k] = i == zeros ? 0 : val[0][(TOKENS - 1) * WIDTH + k];
    }
    float *table = run(lib, &c, dtype, val);
    int64_t at = 0; /* the first target's row */
    for (int64_t i = 0, m = 0; i < first; i++) {
        const bool goes = !graft_tokens_is_target(&t, i) && i != zeros && m < t.merged;
        m += goes;
        at += !goes;
    }
    for (int64_t i = 0; table && i < TOKENS; i++) {
        const bool goes = !graft_tokens_is_target(&t, i) && i != zeros && merged < TOKENS - LEFT;
        CHECK_INT((int)table[i], goes ? (int)at : row);
        merged += goes;
        row += !goes;
    }
    CHECK_INT(row, LEFT);
    free(table);
    values_free(val);
}

static void entries_apart(const kernel_lib *lib, graft_dtype dtype)
{
    kernel_case c = match(2), one = match(1);
    float *val[GRAFT_MAX_INPUTS];
    case_values(&c, dtype, 6, val);
    float *both = run(lib, &c, dtype, val);
    for (int n = 0; n < 2; n++) {
        float *const own[GRAFT_MAX_INPUTS] = {val[0] + n * TOKENS * WIDTH};
        float *table = run(lib, &one, dtype, own);
        for (int i = 0; both && table && i < TOKENS; i++)
            CHECK_INT((int)both[n * TOKENS + i], (int)table[i]);
        free(table);
    }
    free(both);
    values_free(val);
}

/* Whatever is found, each row up to the last one has a token, and none is beyond. */
static void no_number(const kernel_lib *lib, graft_dtype dtype, float what, int64_t tokens)
{
    kernel_case c = match(1);
    float *val[GRAFT_MAX_INPUTS];
    bool has[LEFT] = {false};
    case_values(&c, dtype, 7, val);
    for (int64_t i = 0; i < tokens * WIDTH; i++) val[0][i] = what;
    float *table = run(lib, &c, dtype, val);
    for (int i = 0; table && i < TOKENS; i++) {
        CHECK(table[i] >= 0 && table[i] < LEFT);
        if (table[i] >= 0 && table[i] < LEFT) has[(int)table[i]] = true;
    }
    for (int i = 0; table && i < LEFT; i++) CHECK(has[i]);
    free(table);
    values_free(val);
}

static void refuses(const kernel_lib *lib, kernel_case c, const char *what)
{
    CHECK_INT(lib->api->supports(lib->device, &c.desc), 0);
    if (lib->api->supports(lib->device, &c.desc))
        fprintf(stderr, "  %s: %s with %s\n", lib->kernels->name, c.name, what);
}

static void refusals(const kernel_lib *lib)
{
    kernel_case c = match(2);
    CHECK_INT(lib->api->supports(lib->device, &c.desc), 1);
    c.desc.attrs.groups = 53; /* of 54 targets */
    refuses(lib, c, "too few left");
    c.desc.attrs.groups = TOKENS + 1;
    refuses(lib, c, "more left than there are");
    c = match(2);
    c.desc.attrs.up_h++;
    refuses(lib, c, "a larger grid");
    c = match(2);
    c.desc.attrs.pad_top = -1;
    refuses(lib, c, "no pattern");
    c = match(2);
    c.desc.out.dtype = GRAFT_F32;
    refuses(lib, c, "a table of floats");
    c = match(2);
    c.desc.out = tensor(2, 2, TOKENS - 1, 0);
    c.desc.out.dtype = GRAFT_I32;
    refuses(lib, c, "a short table");
    c = match(2);
    c.desc.in[0].constant = 1;
    refuses(lib, c, "a constant x");
    for (int merge = 0; merge < 2; merge++) {
        c = with_table(merge);
        CHECK_INT(lib->api->supports(lib->device, &c.desc), 1);
        c.desc.in[1].dtype = GRAFT_I64;
        refuses(lib, c, "a wide table");
        c = with_table(merge);
        c.desc.in[1].dim[0] = 1;
        refuses(lib, c, "a table for one of two");
        c = with_table(merge);
        c.desc.out.dim[1]--;
        refuses(lib, c, "too few results");
        c = with_table(merge);
        c.desc.out.dim[2]--;
        refuses(lib, c, "too few channels");
    }
    c = with_table(true);
    c.desc.in[1].dim[1]--;
    refuses(lib, c, "a short table");
}

static void look_at(const kernel_lib *lib)
{
    static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_BF16, GRAFT_F16};
    for (int i = 0; i < 3; i++) {
        kernel_case c = match(1);
        if (!runs(lib, &c, dtypes[i])) continue;
        equals(lib, dtypes[i]);
        entries_apart(lib, dtypes[i]);
        no_number(lib, dtypes[i], NAN, 1);
        no_number(lib, dtypes[i], INFINITY, 100);
        no_number(lib, dtypes[i], NAN, TOKENS);
    }
    refusals(lib);
}

static const char *only; /* a part of the name of the library to look at */

static void each_library(void)
{
    glob_t found;
    int seen = 0;
    if (glob(GRAFT_LIB_DIR "/graft_kernels_*.so", 0, NULL, &found)) return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        kernel_lib lib;
        if (only && !strstr(found.gl_pathv[i], only)) continue;
        if (!lib_open(found.gl_pathv[i], &lib)) continue;
        printf("  %s\n", lib.kernels->name);
        look_at(&lib);
        lib_close(&lib);
        seen++;
    }
    globfree(&found);
    CHECK(seen > 0);
}

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : NULL;
    RUN(each_library);
    return test_end();
}
