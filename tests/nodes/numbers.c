/* Nodes that compute numbers from numbers. */
#include "base/alloc.h"
#include "tests/nodes/fake_engine.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;

static graft_status run(const char *id, const graft_arg *in, graft_arg *out)
{
    fake_engine_reset();
    fake_host_clear(&host);
    return fake_host_run(&host, fake_host_node(id), in, out, NULL, 0);
}

/* One of the kinds that an input of several takes, and none that it does not. */
static void numbers_are_converted(void)
{
    static const struct {
        graft_arg in;
        double f;
        int64_t i;
    } all[] = {{{.kind = GRAFT_INT, .u.i = -7}, -7, -7},
               {{.kind = GRAFT_INT, .u.i = INT64_MAX}, 0x1p63, INT64_MAX},
               {{.kind = GRAFT_FLOAT, .u.f = -2.75}, -2.75, -2},
               {{.kind = GRAFT_BOOL, .u.i = 1}, 1, 1},
               {{.kind = GRAFT_STRING, .u.s = " 3.99 "}, 3.99, 3},
               {{.kind = GRAFT_CHOICE, .u.s = "1e3"}, 1000, 1000}};
    static const graft_arg bad[] = {
        {.kind = GRAFT_STRING, .u.s = ""},    {.kind = GRAFT_STRING, .u.s = "3 apples"},
        {.kind = GRAFT_STRING, .u.s = "inf"}, {.kind = GRAFT_STRING, .u.s = NULL},
        {.kind = GRAFT_FLOAT, .u.f = 1e30},   {.kind = GRAFT_NONE}};
    graft_arg out[4];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK_INT(run("ComfyNumberConvert", &all[i].in, out), GRAFT_OK);
        CHECK(out[0].kind == GRAFT_FLOAT && out[0].u.f == all[i].f);
        CHECK(out[1].kind == GRAFT_INT && out[1].u.i == all[i].i);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_INT(run("ComfyNumberConvert", &bad[i], out), GRAFT_E_ARG);
        CHECK_STR(host.fail_input, "value");
    }
    CHECK_INT(run("ComfyNumberConvert", &bad[1], out), GRAFT_E_ARG);
    CHECK_STR(host.fail_text, "\"3 apples\" is no number");
}

static void formulas_are_computed(void)
{
    const graft_node *n = fake_host_node("ComfyMathExpression");
    const graft_validate_api *api = n->query(GRAFT_VALIDATE_ID);
    graft_arg in[32], out[4];
    const char *input = "";
    char text[200];
    fake_host_defaults(n, in);
    in[1] = (graft_arg){.kind = GRAFT_INT, .u.i = 1000};
    in[2] = (graft_arg){.kind = GRAFT_FLOAT, .u.f = 0.5};
    in[26] = (graft_arg){.kind = GRAFT_BOOL, .u.i = 1};
    in[0].u.s = "a // 8 * 8 * b - z";
    CHECK_INT(run(n->id, in, out), GRAFT_OK);
    CHECK(out[0].kind == GRAFT_FLOAT && out[0].u.f == 499);
    CHECK(out[1].kind == GRAFT_INT && out[1].u.i == 499);
    CHECK(out[2].kind == GRAFT_BOOL && out[2].u.i == 1);
    in[0].u.s = "a < b";
    CHECK_INT(run(n->id, in, out), GRAFT_OK);
    CHECK(out[0].u.f == 0 && out[1].u.i == 0 && out[2].u.i == 0);
    in[0].u.s = "sum(values)";
    CHECK_INT(run(n->id, in, out), GRAFT_OK);
    CHECK(out[0].u.f == 1001.5 && out[1].u.i == 1001);
    in[0].u.s = "2 ** 64 - 2 ** 63 - 1";
    CHECK_INT(run(n->id, in, out), GRAFT_OK);
    CHECK(out[0].u.f == 0x1p63 && out[1].u.i == INT64_MAX);
    in[0].u.s = "2 ** 63"; /* which no INT holds */
    CHECK_INT(run(n->id, in, out), GRAFT_E_ARG);
    CHECK_STR(host.fail_text, "9.22337e+18 is no whole number of 64 bits");
    in[0].u.s = "a + c"; /* nothing is connected to c */
    CHECK_INT(run(n->id, in, out), GRAFT_E_ARG);
    CHECK_STR(host.fail_input, "expression");
    CHECK_STR(host.fail_text, "c has no value");
    CHECK_INT(api->check(&host.host, in, &input, text, sizeof text), GRAFT_OK);
    in[0].u.s = "a +";
    CHECK_INT(api->check(&host.host, in, &input, text, sizeof text), GRAFT_E_FORMAT);
    CHECK_STR(input, "expression");
    CHECK_STR(text, "no value at the end of the formula");
    in[0] = (graft_arg){.kind = GRAFT_NONE}; /* it is linked */
    CHECK_INT(api->check(&host.host, in, &input, text, sizeof text), GRAFT_OK);
}

static void sizes_are_selected(void)
{
    static const struct {
        const char *ratio;
        double megapixels;
        int64_t multiple, width, height;
    } all[] = {{"1:1 (Square)", 1, 8, 1024, 1024},
               {"1:1 (Square)", 0.25, 8, 512, 512},
               {"16:9 (Widescreen)", 1, 8, 1368, 768},
               {"9:16 (Portrait Widescreen)", 1, 64, 768, 1344},
               {"21:9 (Ultrawide)", 2, 32, 2208, 960},
               {"2:3 (Portrait Photo)", 0.1, 8, 264, 400},
               {"3:4 (Portrait Standard)", 16, 128, 3584, 4736}};
    graft_arg in[3], out[4];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        in[0] = (graft_arg){.kind = GRAFT_CHOICE, .u.s = all[i].ratio};
        in[1] = (graft_arg){.kind = GRAFT_FLOAT, .u.f = all[i].megapixels};
        in[2] = (graft_arg){.kind = GRAFT_INT, .u.i = all[i].multiple};
        CHECK_INT(run("ResolutionSelector", in, out), GRAFT_OK);
        CHECK_INT(out[0].u.i, all[i].width);
        CHECK_INT(out[1].u.i, all[i].height);
    }
}

int main(void)
{
    graft_alloc_stats stats;
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    RUN(numbers_are_converted);
    RUN(formulas_are_computed);
    RUN(sizes_are_selected);
    graft_plugin_entry.deinit();
    fake_host_finish(&host);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
