/* Attention of long heads as products by cuBLASLt: what it is offered for, how much workspace it
 * asks for, and that queries in several parts get what they get in one. */
#include "tests/cuda/backend.h"
#include "tests/cuda/compare.h"
#include "tests/kernels/cases.h"
#include "tests/test.h"

#define NAME       "products by cublasLt"
#define SMALL      ((int64_t)8 << 20) /* a device's memory: 128 KiB of scores and shares at once */
#define LARGE      ((int64_t)80 << 30)
#define MOST_SPACE ((uint64_t)128 << 20)

static fake_cuda_state *fake;

/* ------------------------------------------------------------------ parts */

typedef struct shape {
    int64_t batch, queries, keys;
    int32_t heads;
    int64_t head_dim;
    bool joined;
    uint64_t parts; /* on a small device */
} shape;

static const shape shapes[] = {
    {1, 200, 100, 1, 168, false, 2}, /* of 128, the second from 72 on */
    {2, 150, 200, 2, 168, true, 3},  /* of 64, the last from 86 on */
    {1, 128, 200, 1, 256, true, 2},  /* nothing twice */
    {1, 65, 600, 1, 168, false, 2},  /* more keys than a part has room for: 64 all the same */
    {2, 64, 333, 1, 176, false, 1},
};

static kernel_case case_of(const shape *s)
{
    kernel_case c = {.source = GRAFT_F32};
    int64_t width = s->heads * s->head_dim, gap = s->joined ? 2 * width : 0;
    c.desc.size = sizeof c.desc;
    c.desc.op = GRAFT_OP_ATTENTION;
    c.desc.attrs = (graft_attrs){.heads = s->heads, .scale = 0.1f};
    c.desc.in[0] = gapped(act_of(s->batch, s->queries, width, 0), gap);
    c.desc.in[1] = c.desc.in[2] = gapped(act_of(s->batch, s->keys, width, 0), gap);
    c.desc.out = gapped(act_of(s->batch, s->queries, width, 0), gap / 2);
    snprintf(c.name, sizeof c.name, "%lld queries on %lld, %d heads of %lld", (long long)s->queries,
             (long long)s->keys, (int)s->heads, (long long)s->head_dim);
    return c;
}

/* On a device with so much memory; NULL: none could be opened. *launches: how many there were. */
static float *computed(int64_t memory, const kernel_case *c, graft_dtype dtype, float *const *val,
                       uint64_t *launches)
{
    kernel_lib cuda;
    case_result got;
    int64_t before = fake->memory;
    fake->memory = memory;
    bool there = lib_open(CUDA_LIBRARY, &cuda);
    CHECK(there);
    if (there) {
        *launches = fake->launches;
        case_run(&cuda, c, dtype, -1, val, &got);
        *launches = fake->launches - *launches;
        lib_close(&cuda);
        CHECK_STR(got.fault, "");
        CHECK_STR(got.variant, NAME);
    }
    fake->memory = before;
    return there ? got.out : NULL;
}

static void near_ref(const float *got, const float *want, const kernel_case *c, graft_dtype dtype)
{
    error_sum sum = {0};
    double nmse = 0, max = 0;
    for (int64_t i = 0; i < element_count(&c->desc.out); i++)
        error_add(&sum, (double)got[i], (double)want[i]);
    bool ok = error_within(&sum, limit_for(&c->desc, dtype), &nmse, &max);
    CHECK(ok);
    if (!ok) fprintf(stderr, "  %s: nmse %.3g, max %.3g\n", c->name, nmse, max);
}

static void in_parts(const kernel_lib *ref, const shape *s, graft_dtype dtype, uint64_t seed)
{
    kernel_case c = case_of(s);
    float *val[GRAFT_MAX_INPUTS];
    case_result want;
    uint64_t few = 0, many = 0, twice = 2; /* case_run() launches */
    case_values(&c, dtype, seed, val);
    case_want(ref, &c, GRAFT_F32, val, &want);
    float *whole = computed(fake->memory, &c, dtype, val, &few);
    float *parts = computed(SMALL, &c, dtype, val, &many);
    size_t n = (size_t)element_count(&c.desc.out) * sizeof *parts;
    if (whole && parts && want.out) {
        near_ref(whole, want.out, &c, dtype);
        CHECK(memcmp(whole, parts, n) == 0);
        CHECK_INT(many - few, twice * 3 * (s->parts - 1) * (uint64_t)s->batch * (uint64_t)s->heads);
    }
    free(whole);
    free(parts);
    free(want.out);
    values_free(val);
}

static void parts_are_the_whole(void)
{
    kernel_lib ref;
    CHECK(lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        in_parts(&ref, &shapes[i], GRAFT_BF16, i);
        in_parts(&ref, &shapes[i], GRAFT_F16, i);
    }
    lib_close(&ref);
}

/* ------------------------------------------------------------------ what is asked for */

static graft_op_desc op_of(graft_dtype dtype, int64_t batch, int64_t queries, int64_t keys,
                           int32_t heads, int64_t head_dim)
{
    const shape s = {batch, queries, keys, heads, head_dim, false, 1};
    kernel_case c = case_of(&s);
    return case_desc(&c, dtype);
}

/* Scores, shares, and 4 KiB at most that the fake asks for. */
static void workspace(void)
{
    static const int64_t tokens[] = {100, 4096, 9216, 16384, 65536};
    kernel_lib cuda;
    int64_t before = fake->memory;
    fake->memory = LARGE;
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    fake->memory = before;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        graft_op_desc d = op_of(GRAFT_BF16, 1, tokens[i], tokens[i], 1, 512);
        graft_kernel_info info = {.size = sizeof info};
        graft_kernel *k = NULL;
        CHECK_INT(cuda.api->prepare(cuda.device, &d, -1, &k, &info, NULL, 0), GRAFT_OK);
        CHECK_STR(info.variant, NAME);
        CHECK(info.workspace_bytes <= MOST_SPACE);
        uint64_t scores = (uint64_t)(tokens[i] * tokens[i]) * sizeof(float);
        CHECK(info.workspace_bytes >= (scores < MOST_SPACE / 2 ? scores : MOST_SPACE / 2));
        cuda.api->release(k);
    }
    lib_close(&cuda);
}

/* Among how many variants it is; 1: the own choice, too, and behind all others. */
static int offered(const kernel_lib *cuda, const graft_op_desc *d)
{
    graft_kernel_info info = {.size = sizeof info};
    graft_kernel *k = NULL;
    int n = 0;
    CHECK_INT(cuda->api->prepare(cuda->device, d, -1, &k, &info, NULL, 0), GRAFT_OK);
    cuda->api->release(k);
    int32_t own = strcmp(info.variant, NAME) == 0 ? info.variant_index : -1;
    for (int32_t v = 0; v < info.variant_count; v++) {
        k = NULL;
        CHECK_INT(cuda->api->prepare(cuda->device, d, v, &k, &info, NULL, 0), GRAFT_OK);
        cuda->api->release(k);
        if (strcmp(info.variant, NAME)) continue;
        CHECK_INT(own, v);
        CHECK_INT(v, info.variant_count - 1);
        n++;
    }
    return n;
}

static void where_it_is_offered(void)
{
    static const struct {
        graft_dtype dtype;
        int64_t batch;
        int32_t heads;
        int64_t head_dim;
        int times;
    } rows[] = {{GRAFT_BF16, 1, 1, 512, 1},  {GRAFT_F16, 2, 2, 256, 1},  {GRAFT_BF16, 1, 1, 168, 1},
                {GRAFT_BF16, 1, 1, 160, 0},  {GRAFT_F32, 1, 1, 512, 0},  {GRAFT_BF16, 1, 1, 172, 0},
                {GRAFT_BF16, 64, 1, 168, 1}, {GRAFT_BF16, 65, 1, 168, 0}};
    kernel_lib cuda;
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        graft_op_desc d =
            op_of(rows[i].dtype, rows[i].batch, 9, 17, rows[i].heads, rows[i].head_dim);
        CHECK_INT(offered(&cuda, &d), rows[i].times);
    }
    graft_op_desc d = op_of(GRAFT_BF16, 1, 17, 17, 1, 512);
    d.attrs.causal = 1;
    CHECK_INT(offered(&cuda, &d), 0);
    d = op_of(GRAFT_BF16, 1, 17, 17, 1, 512);
    d.in[GRAFT_ATTENTION_BIAS] = act_of(1, 17, 17, 0);
    CHECK_INT(offered(&cuda, &d), 0);
    d = op_of(GRAFT_BF16, 1, 17, 17, 1, 512);
    d.in[2].stride[1] += 4; /* values not at multiples of 16 bytes */
    CHECK_INT(offered(&cuda, &d), 0);
    lib_close(&cuda);
}

int main(void)
{
    use_fake_driver();
    fake = fake_driver_state();
    CHECK(fake != NULL);
    if (!fake) return test_end();
    RUN(parts_are_the_whole);
    RUN(workspace);
    RUN(where_it_is_offered);
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->live_objects, 0);
    CHECK_INT(fake->misuse, 0);
    return test_end();
}
