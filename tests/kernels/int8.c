/* int8 LINEAR of the cpu library at sizes that fit nothing: its own products against oneDNN's to
 * the last bit, one thread against many, every instruction set against the reference, and rows of
 * values that are all zero, huge, tiny or mixed. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/harness.h"
#include "tests/kernels/tables.h"
#include "tests/test.h"

enum { BIAS = 1, RES = 2 };

static const struct {
    int64_t rows, in, out;
    int extras;
    graft_act act;
} shapes[] = {
    {1, 1, 1, 0, 0},
    {1, 4, 32, BIAS, 0},
    {5, 3, 7, BIAS | RES, 0},
    {12, 64, 32, RES, 0},
    {13, 65, 33, BIAS, 0},
    {11, 63, 31, BIAS, GRAFT_ACT_SILU},
    {25, 130, 64, BIAS | RES, GRAFT_ACT_GELU},
    {40, 129, 50, 0, GRAFT_ACT_QUICK_GELU},
    {24, 320, 2, BIAS, GRAFT_ACT_GEGLU},
    {37, 130, 70, BIAS, GRAFT_ACT_GEGLU},
    {61, 32, 96, 0, GRAFT_ACT_GEGLU},
    {300, 320, 320, BIAS | RES, 0},
    {1000, 24, 45, BIAS, 0},
    {130, 2600, 36, BIAS | RES, 0}, /* blocks as small as they get */
    {3, 40, 2100, BIAS, 0},         /* groups of panels */
    {70, 48, 2080, BIAS, GRAFT_ACT_GEGLU},
    {24, 320, 2, BIAS, GRAFT_ACT_GELU_TANH},
    {37, 130, 70, BIAS | RES, GRAFT_ACT_GELU_TANH},
    {61, 32, 96, 0, GRAFT_ACT_GELU_TANH},
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static kernel_lib ref, cpu;

static bool is_tanh(size_t i)
{
    return shapes[i].act == GRAFT_ACT_GELU_TANH;
}

static graft_tensor_desc tensor(int rank, int64_t a, int64_t b, bool constant)
{
    graft_tensor_desc t = {.dtype = GRAFT_F32, .rank = rank, .dim = {a, b}, .constant = constant};
    make_dense(&t);
    return t;
}

static kernel_case case_of(size_t i)
{
    kernel_case c = {.source = GRAFT_F32};
    int64_t rows = shapes[i].rows, in = shapes[i].in, out = shapes[i].out;
    bool geglu = shapes[i].act == GRAFT_ACT_GEGLU;
    c.desc.size = sizeof c.desc;
    c.desc.op = GRAFT_OP_LINEAR;
    c.desc.attrs.act = shapes[i].act;
    c.desc.attrs.quant = GRAFT_QUANT_INT8;
    c.desc.in[GRAFT_LINEAR_X] = tensor(2, rows, in, false);
    c.desc.in[GRAFT_LINEAR_W] = tensor(2, out, in, true);
    if (shapes[i].extras & BIAS) c.desc.in[GRAFT_LINEAR_BIAS] = tensor(1, out, 0, true);
    if (shapes[i].extras & RES) c.desc.in[GRAFT_LINEAR_RESIDUAL] = tensor(2, rows, out, false);
    c.desc.out = tensor(2, rows, geglu ? out / 2 : out, false);
    snprintf(c.name, sizeof c.name, "%lld rows, %lld to %lld, act %d", (long long)rows,
             (long long)in, (long long)out, (int)shapes[i].act);
    return c;
}

static case_result run(const kernel_lib *lib, const kernel_case *c, graft_dtype t, int32_t variant,
                       float *const *val)
{
    case_result r;
    case_run(lib, c, t, variant, val, &r);
    if (r.fault[0]) printf("%s: %s\n", c->name, r.fault);
    CHECK(!r.fault[0] && r.out);
    return r;
}

/* A device of its own with so many threads and this instruction set (NULL: the best). */
static kernel_lib device(int threads, const char *isa)
{
    kernel_lib l = cpu;
    graft_kernels_host host = *lib_host();
    char text[256];
    host.threads = threads;
    if (isa)
        setenv("GRAFT_CPU_ISA", isa, 1);
    else
        unsetenv("GRAFT_CPU_ISA");
    CHECK(!l.api->create(&host, 0, &l.device, text, sizeof text));
    unsetenv("GRAFT_CPU_ISA");
    return l;
}

static bool same(const case_result *a, const case_result *b, const kernel_case *c)
{
    size_t n = (size_t)element_count(&c->desc.out);
    return a->out && b->out && memcmp(a->out, b->out, n * sizeof *a->out) == 0;
}

/* Mean squared difference over the mean square. */
static double nmse(const case_result *a, const case_result *b, const kernel_case *c)
{
    double error = 0, size = 1e-30;
    if (!a->out || !b->out) return INFINITY;
    for (int64_t i = 0; i < element_count(&c->desc.out); i++) {
        error += ((double)a->out[i] - b->out[i]) * ((double)a->out[i] - b->out[i]);
        size += (double)b->out[i] * b->out[i];
    }
    return error / size;
}

/* GEGLU and gelu by tanh to bf16 are those that may differ: their formulas are shorter. */
static void same_as_onednn(void)
{
    int compared = 0;
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (int narrow = 0; narrow <= 1; narrow++) {
            graft_dtype t = narrow ? GRAFT_BF16 : GRAFT_F32;
            kernel_case c = case_of(i);
            float *val[GRAFT_MAX_INPUTS];
            case_values(&c, t, 7 + i, val);
            case_result own = run(&cpu, &c, t, 0, val);
            if (own.variants == 2) {
                case_result other = run(&cpu, &c, t, 1, val);
                CHECK(strcmp(own.variant, other.variant) != 0);
                if (narrow && (shapes[i].act == GRAFT_ACT_GEGLU || is_tanh(i)))
                    CHECK(nmse(&own, &other, &c) < 4e-6);
                else
                    CHECK(same(&own, &other, &c));
                free(other.out);
                compared++;
            }
            free(own.out);
            values_free(val);
        }
    if (!compared) printf("skipped: this processor has no products of our own\n");
}

/* Sums of integers do not depend on their order; where floats stand in for them they do. */
static void threads_do_not_matter(void)
{
    kernel_lib one = device(1, NULL), three = device(3, NULL), eight = device(8, NULL);
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (int narrow = 0; narrow <= 1; narrow++) {
            graft_dtype t = narrow ? GRAFT_BF16 : GRAFT_F32;
            kernel_case c = case_of(i);
            float *val[GRAFT_MAX_INPUTS];
            case_values(&c, t, 50 + i, val);
            case_result a = run(&one, &c, t, -1, val), b = run(&three, &c, t, -1, val);
            case_result d = run(&eight, &c, t, -1, val);
            bool exact = !strstr(a.variant, "as floats"),
                 equal = same(&a, &b, &c) && same(&a, &d, &c);
            if (!exact) printf("%s: skipped, %s\n", c.name, a.variant);
            if (exact && !equal) printf("%s: threads matter\n", c.name);
            CHECK(equal || !exact);
            free(a.out);
            free(b.out);
            free(d.out);
            values_free(val);
        }
    lib_close(&one);
    lib_close(&three);
    lib_close(&eight);
}

/* Every third row zero, and whole rows of values near the ends of what a float holds. */
static void set_rows(float *x, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) {
            float v = x[r * n + i], huge = 3e37f * v;
            if (r % 3 == 0) x[r * n + i] = 0;
            if (r % 9 == 1) x[r * n + i] = huge;
            if (r % 9 == 2) x[r * n + i] = i == n / 2 ? 1e4f : v; /* one value outweighs the rest */
            if (r % 9 == 4) x[r * n + i] = v * 1e-30f;
            if (r % 9 == 5) x[r * n + i] = -0.0f;
            if (r % 9 == 7) x[r * n + i] = v < 0 ? -127.0f : 127.0f;
        }
}

static double in_bf16(double v)
{
    uint16_t h;
    element_put(GRAFT_BF16, &h, 0, v);
    return element_get(GRAFT_BF16, &h, 0);
}

static void check_rows(const kernel_lib *lib, size_t i, graft_dtype t)
{
    kernel_case c = case_of(i);
    float *val[GRAFT_MAX_INPUTS];
    int64_t rows = shapes[i].rows, n = shapes[i].in;
    case_values(&c, t, 90 + i, val);
    set_rows(val[0], rows, n);
    for (int64_t k = 0; k < shapes[i].out * n; k++) val[1][k] *= 1e-3f;
    if (t == GRAFT_BF16) /* in bf16 exactly */
        for (int64_t k = 0; k < rows * n; k++) val[0][k] = (float)in_bf16((double)val[0][k]);
    case_result want = run(&ref, &c, GRAFT_F32, -1, val), got = run(lib, &c, t, -1, val);
    int64_t wide = c.desc.out.dim[1];
    for (int64_t r = 0; r < rows && want.out && got.out; r++) {
        double error = 0, size = 1e-60;
        for (int64_t k = 0; k < wide; k++) {
            double a = (double)got.out[r * wide + k], b = (double)want.out[r * wide + k];
            CHECK(isfinite(a));
            error += (a - b) * (a - b);
            size += b * b;
        }
        if (!(error / size < (t == GRAFT_F32 ? 1e-9 : 1e-4)))
            printf("%s, row %lld: nmse %g\n", c.name, (long long)r, error / size);
        CHECK(error / size < (t == GRAFT_F32 ? 1e-9 : 1e-4));
    }
    free(want.out);
    free(got.out);
    values_free(val);
}

static void every_instruction_set(void)
{
    tables_tried tried = {0};
    for (size_t s = 0; s < TABLES; s++) {
        kernel_lib l = device(2, tables[s]);
        l.api->info(l.device, &l.info);
        bool again = !tables_new(&tried, tables[s], l.info.identity);
        for (size_t i = 0; i < COUNT(shapes) && !again; i++) {
            if (shapes[i].act == GRAFT_ACT_GEGLU) continue; /* squares of huge values */
            if (is_tanh(i) && shapes[i].out == 2) continue; /* both below 0: nothing is left */
            check_rows(&l, i, GRAFT_F32);
            check_rows(&l, i, GRAFT_BF16);
        }
        lib_close(&l);
    }
}

/* The first shape with two outputs and this act. */
static size_t shape_of_two(graft_act act)
{
    size_t i = 0;
    while (i + 1 < COUNT(shapes) && !(shapes[i].act == act && shapes[i].out == 2)) i++;
    CHECK(shapes[i].act == act && shapes[i].out == 2);
    return i;
}

/* All of gelu's range. With GEGLU the value is its bias, the gate one input; else the first result
 * is gelu of one input. Results are what bf16 makes of something within 2e-5 of the exact value. */
static void gelu_of_act(graft_act act)
{
    const size_t which = shape_of_two(act);
    kernel_case c = case_of(which);
    float *val[GRAFT_MAX_INPUTS];
    int64_t rows = shapes[which].rows, n = shapes[which].in, wide = c.desc.out.dim[1];
    bool gate = act == GRAFT_ACT_GEGLU;
    case_values(&c, GRAFT_BF16, 1, val);
    for (int64_t i = 0; i < rows * n; i++) val[0][i] = 0;
    for (int64_t i = 0; i < 2 * n; i++) val[1][i] = i == (gate ? n : 0);
    val[2][0] = gate;
    val[2][1] = 0;
    for (int step = 0; step < 40; step++) {
        for (int64_t r = 0; r < rows; r++)
            val[0][r * n] = (float)in_bf16((double)(step * rows + r - 480) / 60.0);
        case_result got = run(&cpu, &c, GRAFT_BF16, -1, val);
        for (int64_t r = 0; r < rows && got.out; r++) {
            double x = (double)val[0][r * n], y = 0.5 * x * erfc(-x / sqrt(2.0));
            double is = (double)got.out[r * wide];
            if (!gate) y = 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
            bool near = is >= in_bf16(y - 2e-5) && is <= in_bf16(y + 2e-5);
            if (!near) printf("act %d of %g is %.9g, not %.9g\n", (int)act, x, is, y);
            CHECK(near);
        }
        free(got.out);
    }
    values_free(val);
}

static void gelu_in_bf16(void)
{
    gelu_of_act(GRAFT_ACT_GEGLU);
    gelu_of_act(GRAFT_ACT_GELU_TANH);
}

int main(void)
{
    setenv("OMP_NUM_THREADS", "8", 1); /* the library starts no more than that */
    if (!lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref)) return 1;
    if (!lib_open(GRAFT_LIB_DIR "/graft_kernels_cpu.so", &cpu)) {
        lib_close(&ref);
        return test_end();
    }
    RUN(same_as_onednn);
    RUN(threads_do_not_matter);
    RUN(every_instruction_set);
    RUN(gelu_in_bf16);
    lib_close(&cpu);
    lib_close(&ref);
    return test_end();
}
