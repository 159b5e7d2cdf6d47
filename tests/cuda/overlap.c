/* Kernels that start before the one ahead has ended: where they are launched so and where not, what
 * is done about devices on which they do not wait, and that the machine code of each waits before
 * it does anything else. */
#include "base/log.h"
#include "kernels/kernel_abi.h"
#include "tests/cuda/backend.h"
#include "tests/cuda/machine_code.h"

static fake_cuda_state *fake;
static char warned[400];

static void note(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level >= GRAFT_LOG_WARN) snprintf(warned, sizeof warned, "%s", text);
}

/* A sum on the device. */
static void add(const graft_kernels *lib, graft_device *device)
{
    const graft_tensor_desc row = {.dtype = GRAFT_F32, .rank = 1, .dim = {64}, .stride = {1}};
    const graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_ADD, .in = {row, row}, .out = row};
    graft_kernel *k = NULL;
    graft_kernel_info info = {.size = sizeof info};
    float *x = lib->api->alloc(device, sizeof(float[64])), values[64];
    for (int i = 0; i < 64; i++) values[i] = (float)i;
    CHECK(x != NULL);
    CHECK_INT(lib->api->upload(device, x, values, sizeof values), GRAFT_OK);
    CHECK_INT(lib->api->prepare(device, &d, -1, &k, &info, NULL, 0), GRAFT_OK);
    CHECK_INT(lib->api->launch(k, (const void *[GRAFT_MAX_INPUTS]){x, x}, x, NULL), GRAFT_OK);
    CHECK_INT(lib->api->download(device, values, x, sizeof values), GRAFT_OK);
    for (int i = 0; i < 64; i++) CHECK(values[i] == (float)(2 * i));
    lib->api->release(k);
    lib->api->free(device, x);
}

/* How many launches of a sum on a new device may begin early; -1: there is no device, and `text`
 * says why. */
static int early(char *text, uint64_t n)
{
    void *h = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    const graft_kernels *lib = h ? dlsym(h, GRAFT_KERNELS_SYMBOL) : NULL;
    const graft_kernels_host host = {.size = sizeof host,
                                     .threads = 1,
                                     .alloc = graft_malloc_aligned,
                                     .free = graft_free,
                                     .log = note};
    graft_device *device = NULL;
    warned[0] = '\0';
    CHECK(lib != NULL);
    if (!lib || lib->api->create(&host, 0, &device, text, n)) return -1;
    uint64_t before = fake->early;
    add(lib, device);
    int found = (int)(fake->early - before);
    lib->api->destroy(device);
    return found;
}

static void from_hopper_on(void)
{
    static const int capabilities[] = {80, 89, 90, 100, 120};
    for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++) {
        fake->capability = capabilities[i];
        CHECK_INT(early(NULL, 0), capabilities[i] >= 90);
        CHECK_STR(warned, "");
    }
    fake->capability = 90;
}

static void switched_off(void)
{
    setenv("GRAFT_CUDA_PDL", "off", 1);
    CHECK_INT(early(NULL, 0), 0);
    CHECK_STR(warned, "");
    unsetenv("GRAFT_CUDA_PDL");
    setenv("FAKE_CUDA_VERSION", "12020", 1); /* recordings cannot hold them */
    CHECK_INT(early(NULL, 0), 0);
    CHECK_STR(warned, "");
    unsetenv("FAKE_CUDA_VERSION");
}

/* The device is used all the same. */
static void not_where_the_test_fails(void)
{
    fake->refuse_early = 1;
    CHECK_INT(early(NULL, 0), 0);
    CHECK(strstr(warned, "do not start before the one ahead has ended") != NULL);
    fake->refuse_early = 0;
    fake->forget_early = 1; /* a kernel that does not wait */
    CHECK_INT(early(NULL, 0), 0);
    CHECK(strstr(warned, "element") != NULL && strstr(warned, "chain") != NULL);
    fake->forget_early = 0;
    CHECK_INT(early(NULL, 0), 1);
    CHECK_STR(warned, "");
}

/* An error that stays: there is no device then, and it is said what may help. */
static void devices_that_fault(void)
{
    char text[400] = "";
    fake->fault_early = 1;
    CHECK_INT(early(text, sizeof text), -1);
    CHECK(strstr(text, "GRAFT_CUDA_PDL=off") != NULL);
    setenv("GRAFT_CUDA_PDL", "off", 1);
    CHECK_INT(early(text, sizeof text), 0);
    unsetenv("GRAFT_CUDA_PDL");
    fake->fault_early = 0;
}

/* ------------------------------------------------------------------ what the compiler made */

static int waiting, loading, with_tiles;

/* The first instruction of these; the number of all when there is none. */
static uint64_t first_of(const uint32_t *opcodes, size_t n, const char *code, uint64_t bytes)
{
    uint64_t first = bytes / 16;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = find_opcode(code, bytes, opcodes[i]);
        if (at < first) first = at;
    }
    return first;
}

static void look_at_hopper(const char *name, const char *code, uint64_t bytes)
{
    static const uint32_t memory[] = {OPCODE_LDG, OPCODE_STG,    OPCODE_LD,
                                      OPCODE_ST,  OPCODE_LDGSTS, OPCODE_UTMALDG};
    static const uint32_t ends[] = {OPCODE_EXIT, OPCODE_CALL};
    uint64_t wait = find_opcode(code, bytes, OPCODE_ACQBULK), all = bytes / 16;
    /* What they write is read by libraries' kernels, as levels or as weights. */
    bool last = strncmp(name, "graft_quant_rows", 16) == 0 ||
                strncmp(name, "graft_quant_pictures", 20) == 0 ||
                strncmp(name, "graft_quant4_unpack", 19) == 0 ||
                strncmp(name, "graft_block_unpack", 18) == 0 ||
                strncmp(name, "graft_norm_rows", 15) == 0 ||
                strncmp(name, "graft_turn_", 11) == 0 || strncmp(name, "graft_widen", 11) == 0;
    uint64_t touched = first_of(memory, sizeof memory / sizeof *memory, code, bytes);
    bool good = wait < all && always(code, wait) && wait < touched &&
                wait < first_of(ends, sizeof ends / sizeof *ends, code, bytes) &&
                wait < find_opcode(code, bytes, OPCODE_PREEXIT) &&
                count_opcode(code, bytes, OPCODE_ACQBULK) == 1 &&
                count_opcode(code, bytes, OPCODE_PREEXIT) == (last ? 0 : 1);
    if (!good) printf("  %s does not wait before all else\n", name);
    CHECK(good);
    waiting += good;
    loading += touched < all;
    with_tiles += find_opcode(code, bytes, OPCODE_UTMALDG) < all;
}

static void look_at_ada(const char *name, const char *code, uint64_t bytes)
{
    (void)name;
    CHECK_INT(count_opcode(code, bytes, OPCODE_ACQBULK), 0);
    CHECK_INT(count_opcode(code, bytes, OPCODE_PREEXIT), 0);
}

/* What is empty on Hopper, for FP8, touches nothing; every other kernel is found to. */
static void machine_code_waits(void)
{
    each_kernel("sm_90a", look_at_hopper);
    printf("     %d kernels wait, %d of them touch memory behind it\n", waiting, loading);
    CHECK(waiting > 100 && loading >= waiting - 4);
    CHECK_INT(with_tiles, 42);
    each_kernel("sm_89", look_at_ada);
}

int main(void)
{
    use_fake_driver();
    fake = fake_driver_state();
    CHECK(fake != NULL);
    if (!fake) return test_end();
    RUN(from_hopper_on);
    RUN(switched_off);
    RUN(not_where_the_test_fails);
    RUN(devices_that_fault);
    RUN(machine_code_waits);
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->live_objects, 0);
    CHECK_INT(fake->misuse, 0);
    return test_end();
}
