/* The CUDA library as a file and at its door: what it needs to load, how it refuses, that memory
 * failures leave nothing behind, and what the compiler said of its kernels. */
#include <elf.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "kernels/cuda/device/driver.h"
#include "kernels/kernel_abi.h"
#include "tests/cuda/backend.h"
#include "tests/test.h"

#define EMPTY_FOLDER GRAFT_BINARY_DIR "/tests/cuda-nothing-here"

static const graft_kernels *open_library(void)
{
    void *h = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!h) fprintf(stderr, "%s\n", dlerror());
    return h ? dlsym(h, GRAFT_KERNELS_SYMBOL) : NULL;
}

/* A machine without any of NVIDIA's software must be able to load it. */
static void needs_libc_only(void)
{
    char *data = NULL;
    size_t size = 0;
    int needed = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_read(CUDA_LIBRARY, 1 << 28, &data, &size, &e), &e);
    if (!data) return;
    const Elf64_Ehdr *h = (const void *)data;
    const Elf64_Shdr *s = (const void *)(data + h->e_shoff);
    for (int i = 0; i < h->e_shnum; i++) {
        if (s[i].sh_type != SHT_DYNAMIC) continue;
        const char *names = data + s[s[i].sh_link].sh_offset;
        const Elf64_Dyn *d = (const void *)(data + s[i].sh_offset);
        for (; d->d_tag != DT_NULL; d++) {
            if (d->d_tag != DT_NEEDED) continue;
            const char *name = names + d->d_un.d_val;
            needed++;
            CHECK(SANITIZED || strncmp(name, "libc.so", 7) == 0); /* a sanitizer adds its own */
        }
    }
    CHECK(needed >= 1);
    graft_free(data);
}

/* The functions of the driver that are asked for by name are those that NVIDIA's has: the toolkit
 * brings a library of empty ones. */
static void driver_has_the_names(void)
{
#define TEXT_(name)           #name
#define TEXT(name)            TEXT_(name)
#define NAME(field, function) TEXT(function),
    static const char *const names[] = {GRAFT_CUDA_DRIVER(NAME)};
    void *stub = CUDA_STUB[0] ? dlopen(CUDA_STUB, RTLD_LAZY | RTLD_LOCAL) : NULL;
    if (!stub) {
        printf("skipped: the toolkit's stub of libcuda is not installed\n");
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool there = dlsym(stub, names[i]) != NULL;
        CHECK(there);
        if (!there) fprintf(stderr, "  no %s\n", names[i]);
    }
    dlclose(stub);
}

/* In a process of its own, since the driver's state is the process's. */
static void in_child(const char *folder, const char *devices, const char *capability,
                     const char *expected)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        char text[480] = "";
        setenv("GRAFT_CUDA_LIBS", folder, 1);
        if (devices) setenv("FAKE_CUDA_DEVICES", devices, 1);
        if (capability) setenv("FAKE_CUDA_CAPABILITY", capability, 1);
        const graft_kernels *k = open_library();
        if (!k) _exit(2);
        k->more->missing(text, sizeof text);
        bool ok = expected ? k->score() == 0 && k->device_count() == 0 && strstr(text, expected)
                           : k->score() > 0 && k->device_count() == 1 && !text[0];
        if (!ok)
            fprintf(stderr, "score %d, %d devices, it says: %s\n", (int)k->score(),
                    (int)k->device_count(), text);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0);
}

static void refuses_with_reasons(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver)
        printf("skipped: this machine has a driver of its own\n");
    else
        in_child(EMPTY_FOLDER, NULL, NULL, "no NVIDIA driver");
    if (!driver) in_child(EMPTY_FOLDER, NULL, NULL, EMPTY_FOLDER); /* where it looked */
    in_child(FAKE_DRIVER_DIR, "0", NULL, "no NVIDIA GPU");
    in_child(FAKE_DRIVER_DIR, NULL, "75", "compute capability 8.0");
    in_child(FAKE_DRIVER_DIR, NULL, NULL, NULL);
}

static void memory_failures(const graft_kernels *k)
{
    graft_device *d = NULL;
    char text[200] = "";
    int n = 1;
    for (; n < 50; n++) {
        graft_kernels_host host = {
            .size = sizeof host, .threads = 1, .alloc = graft_malloc_aligned, .free = graft_free};
        graft_alloc_fail_at(n);
        graft_status st = k->api->create(&host, 0, &d, text, sizeof text);
        graft_alloc_fail_at(0);
        if (!st) k->api->destroy(d);
        CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && !d && text[0]));
        if (!st && n > 10) break;
    }
    CHECK(n < 50);
    CHECK_INT(k->api->create(NULL, 0, &d, text, sizeof text), GRAFT_E_ARG);
    graft_kernels_host host = {
        .size = sizeof host, .threads = 1, .alloc = graft_malloc_aligned, .free = graft_free};
    CHECK_INT(k->api->create(&host, 3, &d, text, sizeof text), GRAFT_E_NOTFOUND);
    CHECK(d == NULL && strstr(text, "number 3"));
    host.size = GRAFT_KERNELS_HOST_SIZE; /* an engine that keeps nothing for libraries */
    CHECK_INT(k->api->create(&host, 0, &d, text, sizeof text), GRAFT_OK);
    if (d) k->api->destroy(d);
    host.size--;
    CHECK_INT(k->api->create(&host, 0, &d, text, sizeof text), GRAFT_E_ARG);
    host.size = sizeof host;
    fake_driver_state()->skip_launch = 1; /* a device that does not compute */
    CHECK_INT(k->api->create(&host, 0, &d, text, sizeof text), GRAFT_E_DEVICE);
    CHECK(d == NULL && strstr(text, "self-test"));
    fake_driver_state()->skip_launch = 2; /* or not in int8 */
    CHECK_INT(k->api->create(&host, 0, &d, text, sizeof text), GRAFT_E_DEVICE);
    CHECK(d == NULL && strstr(text, "self-test") && strstr(text, "int8"));
    fake_driver_state()->fail_launch = 1;
    CHECK_INT(k->api->create(&host, 0, &d, text, sizeof text), GRAFT_E_DEVICE);
    CHECK(d == NULL && strstr(text, "self-test"));
}

static void keep_line(void *ctx, int32_t level, const char *text)
{
    (void)level;
    strcat(ctx, text);
}

/* What a device says while it is opened, with two versions of cuBLASLt at hand. */
static void open_with_two(const graft_kernels *k, int refuse, char said[4000])
{
#define TWO GRAFT_BINARY_DIR "/tests/fake_cuda_two"
    graft_kernels_host host = {.size = sizeof host,
                               .threads = 1,
                               .alloc = graft_malloc_aligned,
                               .free = graft_free,
                               .log = keep_line,
                               .log_ctx = said};
    graft_device *d = NULL;
    char text[200] = "";
    said[0] = 0;
    mkdir(TWO, 0777);
    for (int i = 12; i < 14; i++) {
        char link[300];
        snprintf(link, sizeof link, TWO "/libcublasLt.so.%d", i);
        unlink(link);
        CHECK_INT(symlink(FAKE_DRIVER_DIR "/libcublasLt.so.13", link), 0);
    }
    setenv("GRAFT_CUDA_LIBS", TWO ":" FAKE_DRIVER_DIR, 1);
    fake_driver_state()->refuse_open = refuse;
    CHECK_INT(k->api->create(&host, 0, &d, text, sizeof text), GRAFT_OK);
    fake_driver_state()->refuse_open = 0;
    if (d) k->api->destroy(d);
    use_fake_driver();
}

/* A driver of CUDA 12 opens the cuBLASLt of CUDA 12 only. */
static void older_products_take_over(void)
{
    char said[4000];
    use_fake_driver();
    const graft_kernels *k = open_library();
    if (!k || !fake_driver_state()) return;
    open_with_two(k, 1, said);
    CHECK(!strstr(said, "opening it"));
    open_with_two(k, 2, said);
    CHECK(strstr(said, "cuBLASLt: opening it") != NULL);
}

static void create_and_destroy(void)
{
    use_fake_driver();
    const graft_kernels *k = open_library();
    fake_cuda_state *fake = fake_driver_state();
    CHECK(k && fake);
    if (!k || !fake) return;
    memory_failures(k);
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->live_objects, 0);
}

/* Registers that do not suffice go to memory, which is much slower. */
static void kernels_do_not_spill(void)
{
    char *log = NULL;
    size_t size = 0;
    int kernels = 0, spilled = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_read(GRAFT_BINARY_DIR "/kernels/cuda/ptxas.log", 1 << 24, &log, &size, &e),
             &e);
    for (const char *p = log; p && (p = strstr(p, " bytes spill stores")); p++) {
        kernels++;
        spilled += strncmp(p - 2, " 0", 2) != 0 && strncmp(p - 2, ",0", 2) != 0;
    }
    printf("     %d kernels for devices, %d of them spill\n", kernels, spilled);
    CHECK(kernels > 60);
    CHECK_INT(spilled, 0);
    graft_free(log);
}

/* The most registers that the kernel takes of a thread, on any device; 0: it is not there. */
static int registers_of(const char *log, const char *kernel)
{
    char entry[100];
    int most = 0;
    snprintf(entry, sizeof entry, "entry function '%s'", kernel);
    for (const char *p = log; p && (p = strstr(p, entry)); p++) {
        const char *used = strstr(p, ": Used ");
        int n = used ? atoi(used + 7) : 0;
        if (n > most) most = n;
    }
    return most;
}

/* A processor has 65536 registers; blocks of 256 threads, so many of them at once. */
static void rows_leave_room(void)
{
    static const struct {
        const char *kernel;
        int blocks;
    } rooms[] = {{"graft_layer_norm8_narrow_bf16", 5}, {"graft_layer_norm8_short_bf16", 3},
                 {"graft_layer_norm8_short_f16", 3},   {"graft_layer_norm8_bf16", 2},
                 {"graft_group_norm8_bf16", 4},        {"graft_group_norm8_f16", 3},
                 {"graft_group_joined8_bf16", 3},      {"graft_group_joined8_f16", 3},
                 {"graft_turn_rows_8192_bf16", 3},     {"graft_turn_rows_8192_f16", 3},
                 {"graft_turn_normed_bf16", 2},        {"graft_turn_normed_f16", 2}};
    char *log = NULL;
    size_t size = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_read(GRAFT_BINARY_DIR "/kernels/cuda/ptxas.log", 1 << 24, &log, &size, &e),
             &e);
    for (size_t i = 0; log && i < sizeof rooms / sizeof *rooms; i++) {
        int n = (registers_of(log, rooms[i].kernel) + 7) / 8 * 8;
        if (n * 256 * rooms[i].blocks > 65536) printf("  %s: %d registers\n", rooms[i].kernel, n);
        CHECK(n > 0 && n * 256 * rooms[i].blocks <= 65536);
    }
    graft_free(log);
}

int main(void)
{
    RUN(needs_libc_only);
    RUN(driver_has_the_names);
    RUN(refuses_with_reasons);
    RUN(older_products_take_over);
    RUN(create_and_destroy);
    RUN(kernels_do_not_spill);
    RUN(rows_leave_room);
    graft_alloc_stats stats;
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
