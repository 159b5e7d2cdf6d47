/* A file that somebody writes to while its weights are packed: what was read of it by then must not
 * be kept under the name of what it holds afterwards. */
#include <fcntl.h>
#include <sys/stat.h>

#include "engine/exec/run.h"
#include "engine/weights/safetensors.h"
#include "engine/weights/weights.h"
#include "tests/cache/fake.h"

enum { WIDTH = 64, OUTPUTS = WIDTH + 16, VALUES = OUTPUTS * WIDTH };

static char path[600];
static off_t values_at; /* of the tensor in the file */

/* Of the second kind those differ that a glance at the tensor does not meet. */
static float value_of(int kind, int64_t i)
{
    return (float)i + (kind && i > VALUES / 2 && i < VALUES * 5 / 8 ? 0.5f : 0.0f);
}

static void make_file(void)
{
    static float values[VALUES];
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < VALUES; i++) values[i] = value_of(0, i);
    const graft_st_tensor t = {.name = "layer.0",
                               .dtype = GRAFT_F32,
                               .rank = 2,
                               .shape = {OUTPUTS, WIDTH},
                               .data = values,
                               .bytes = sizeof values};
    struct stat s;
    CHECK_OK(graft_safetensors_write(path, &t, 1, NULL, true, &e), &e);
    /* Long ago: a clock's step is longer than this test. */
    const struct timespec past[2] = {{1000000000, 0}, {1000000000, 0}};
    CHECK(utimensat(AT_FDCWD, path, past, 0) == 0);
    CHECK(stat(path, &s) == 0);
    values_at = s.st_size - (off_t)sizeof values;
}

/* As `cp` does it, or a download. */
static void write_over(void)
{
    int fd = open(path, O_WRONLY);
    for (int64_t i = 0; i < VALUES; i++) {
        const float v = value_of(1, i);
        if (v == value_of(0, i)) continue;
        CHECK(pwrite(fd, &v, sizeof v, values_at + i * (off_t)sizeof v) == sizeof v);
    }
    close(fd);
}

static bool writes; /* somebody does, as soon as a weight was packed */

static graft_status pack_as_it_is(graft_kernel *k, int32_t input, graft_dtype t, const void *src,
                                  void *dst)
{
    (void)t;
    memcpy(dst, src, (size_t)fake_bytes(&k->op.in[input]));
    if (writes) write_over();
    writes = false;
    return GRAFT_OK;
}

static graft_status bind(graft_exe *x, graft_packs *packs, graft_binding **out, graft_err *e)
{
    graft_safetensors *f = NULL;
    graft_weights *w = NULL;
    graft_status st = graft_safetensors_open(path, &f, e);
    if (!st) st = graft_weights_create(f, &w, e);
    if (!st) st = graft_binding_create(x, w, packs, NULL, NULL, out, e);
    graft_weights_release(w);
    return st;
}

static void while_it_is_packed(void)
{
    static const fake_arch one_layer = {1, WIDTH};
    graft_kernels_api api = fake_api;
    graft_backend backend = fake_backend("fake 1");
    graft_err e = GRAFT_ERR_INIT;
    graft_packs *packs = NULL;
    graft_graph *g = NULL;
    graft_exe *x = NULL;
    graft_binding *b = NULL;
    fake_reset();
    api.pack = pack_as_it_is;
    backend.api = &api;
    snprintf(path, sizeof path, "%s.safetensors", fresh_folder("written"));
    make_file();
    CHECK_OK(graft_packs_create(false, NULL, &packs, &e), &e);
    CHECK_OK(fake_build(&one_layer, &usual_shape, &g, &e), &e);
    CHECK_OK(graft_exe_create(g, &backend, NULL, NULL, &x, &e), &e);
    writes = true;
    CHECK_INT(bind(x, packs, &b, &e), GRAFT_E_IO);
    CHECK(strstr(e.text, "was written to") != NULL);
    graft_binding_release(b);
    b = NULL;
    /* What is there now is what is loaded next. */
    CHECK_OK(bind(x, packs, &b, &e), &e);
    const float *packed = b ? graft_pack_data(b->pack[0]) : NULL;
    for (int64_t i = 0; packed && i < VALUES; i++)
        if (packed[i] != value_of(1, i)) {
            CHECK_NEAR(packed[i], value_of(1, i), 0);
            break;
        }
    CHECK(packed != NULL);
    graft_binding_release(b);
    graft_exe_release(x);
    graft_packs_destroy(packs);
    CHECK(unlink(path) == 0);
    CHECK(atomic_load(&fake.kernels) == 0);
    CHECK(atomic_load(&fake.bytes) == 0);
}

int main(void)
{
    RUN(while_it_is_packed);
    return test_end();
}
