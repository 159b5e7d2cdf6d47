/* Small operators on a crowded machine: when they run on one thread, and that it changes no bit.
 * Linked with the objects of the library, whose device it looks into. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kernels/cpu/cpu.h"
#include "tests/kernels/harness.h"
#include "tests/test.h"

#define MS ((int64_t)1000000)

extern const graft_kernels graft_kernels_entry;

/* After an operator that took too long there is a pause; after another one soon behind it, one of
 * twice that length, up to a second; later the first one again. */
static void pauses(void)
{
    graft_cpu_crowd c = {0};
    int64_t now, last = 0;
    CHECK(!graft_cpu_crowd_alone(&c, &now));
    graft_cpu_crowd_ended(&c, MS, graft_clock_ns());              /* in time */
    graft_cpu_crowd_ended(&c, 5 * MS, graft_clock_ns() - 3 * MS); /* within what is usual */
    CHECK(!graft_cpu_crowd_alone(&c, &now));
    for (int i = 0; i < 12; i++) {
        graft_cpu_crowd_ended(&c, MS / 10, graft_clock_ns() - 3 * MS);
        CHECK(graft_cpu_crowd_alone(&c, &now));
        CHECK_INT(c.pause, !i ? 4 * MS : last < 500 * MS ? 2 * last : 1000 * MS);
        last = c.pause;
        c.until = graft_clock_ns(); /* it is over */
    }
    c.until = graft_clock_ns() - 5000 * MS; /* long ago */
    graft_cpu_crowd_ended(&c, MS / 10, graft_clock_ns() - 3 * MS);
    CHECK_INT(c.pause, 4 * MS);
    CHECK(c.until > graft_clock_ns() - MS && c.until < graft_clock_ns() + 5 * MS);
}

static void only_small_ones(void)
{
    graft_op_desc d = {.op = GRAFT_OP_LINEAR};
    d.in[0] = (graft_tensor_desc){.dtype = GRAFT_F32, .rank = 2, .dim = {64, 320}};
    d.in[1] = (graft_tensor_desc){.dtype = GRAFT_F32, .rank = 2, .dim = {320, 320}};
    d.out = d.in[0];
    CHECK(graft_cpu_crowd_usual(&d) < 3 * MS);
    CHECK(graft_cpu_crowd_usual(&d) > MS);
    d.in[0].dim[0] = d.out.dim[0] = 4096;
    CHECK(graft_cpu_crowd_usual(&d) == INT64_MAX);
    d.op = GRAFT_OP_ATTENTION;
    d.in[0] = d.in[1] = d.in[2] = d.out =
        (graft_tensor_desc){.dtype = GRAFT_F32, .rank = 3, .dim = {1, 64, 320}};
    CHECK(graft_cpu_crowd_usual(&d) < 2 * MS);
    d.in[0] = d.in[1] = d.in[2] = d.out =
        (graft_tensor_desc){.dtype = GRAFT_F32, .rank = 3, .dim = {1, 1024, 320}};
    CHECK(graft_cpu_crowd_usual(&d) == INT64_MAX);
}

static kernel_lib lib[2]; /* of one device each: as it is, and with a crowd for ever */
static int compared;

static void compare(const kernel_case *c, graft_dtype t)
{
    float *val[GRAFT_MAX_INPUTS];
    case_result got[2];
    graft_op_desc d = case_desc(c, t);
    if (!lib[0].api->supports(lib[0].device, &d)) return;
    case_values(c, t, 5, val);
    case_want(&lib[0], c, t, val, &got[0]);
    case_run(&lib[1], c, t, -1, val, &got[1]);
    bool same =
        got[0].out && got[1].out &&
        !memcmp(got[0].out, got[1].out, (size_t)element_count(&c->desc.out) * sizeof(float));
    CHECK_STR(got[1].fault, "");
    if (got[1].fault[0]) fprintf(stderr, "  %s [%s]: fault\n", c->name, got[0].variant);
    CHECK_STR(got[0].variant, got[1].variant);
    if (!same) fprintf(stderr, "  %s [%s]: other bits\n", c->name, got[0].variant);
    CHECK(same);
    compared += same;
    for (int i = 0; i < 2; i++) free(got[i].out);
    values_free(val);
}

static void same_bits(int threads)
{
    size_t n;
    kernel_case *list = kernel_cases(&n);
    graft_kernels_host host = *lib_host();
    host.threads = threads;
    for (int i = 0; i < 2; i++) {
        char text[256];
        lib[i] = (kernel_lib){.kernels = &graft_kernels_entry, .api = graft_kernels_entry.api};
        CHECK(!lib[i].api->create(&host, 0, &lib[i].device, text, sizeof text));
        lib[i].info.size = sizeof lib[i].info;
    }
    lib[1].device->crowd.until = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        kernel_case *c = &list[i];
        bool weights = c->desc.op == GRAFT_OP_CONV2D || c->desc.op == GRAFT_OP_LINEAR;
        for (int quant = 0; quant <= (weights ? GRAFT_QUANT_INT4 : 0); quant++) {
            c->desc.attrs.quant = (graft_quant)quant;
            if (truth_cost(c) * (double)element_count(&c->desc.out) > 1e7) continue;
            compare(c, GRAFT_F32);
            if (!c->fixed) compare(c, GRAFT_BF16);
        }
    }
    for (int i = 0; i < 2; i++) lib[i].api->destroy(lib[i].device);
    free(list);
}

static void alone_is_the_same(void)
{
    same_bits(2);
    same_bits(8);
    printf("%d results\n", compared);
    CHECK(compared > 400);
}

int main(void)
{
    setenv("OMP_NUM_THREADS", "8", 1);
    RUN(pauses);
    RUN(only_small_ones);
    RUN(alone_is_the_same);
    return test_end();
}
