/* Whole networks on the CUDA library with the fake driver: small UNets against ref, runs that are
 * recorded and repeated, weights that are swapped, memory that runs out, a device that is lost. */
#include "tests/cuda/backend.h"
#include "tests/engine/fixture.h"

#if defined(__SANITIZE_ADDRESS__)
enum { NETWORKS = 1 }; /* the emulator is ten times slower under it */
#else
enum { NETWORKS = 3 };
#endif

static fake_cuda_state *fake;

static graft_engine *engine_in(const char *backend, const char *precision)
{
    graft_engine *g = make_engine(backend);
    snprintf(g->default_precision, sizeof g->default_precision, "%s", precision);
    return g;
}

static void run_file(const char *backend, const char *precision, const char *path, float out[OUT])
{
    graft_engine *g = engine_in(backend, precision);
    graft_model *m = load_model(g, path);
    run_model(m, out);
    graft_model_release(m);
    graft_engine_destroy(g);
}

static void networks_match_ref(void)
{
    static const char *const paths[] = {SDXL, SD1, SD2};
    float want[OUT], got[OUT];
    for (int i = 0; i < NETWORKS; i++) {
        uint64_t launches = fake->launches;
        run_file("ref", "f32", paths[i], want);
        run_file("cuda", "f32", paths[i], got);
        double f32 = difference(got, want, OUT);
        run_file("cuda", "bf16", paths[i], got);
        double bf16 = difference(got, want, OUT);
        printf("     %s: f32 %.2g, bf16 %.2g\n", strrchr(paths[i], '/') + 1, f32, bf16);
        CHECK(f32 < 1e-4);
        CHECK(bf16 < 5e-2);
        CHECK(fake->launches > launches + 100);
    }
}

static void one_run(graft_binding *b, graft_engine *g, float out[OUT], graft_exe_profile *profile)
{
    graft_err e = GRAFT_ERR_INIT;
    float x[OUT], t = 500, *context = calloc(TOKENS * 48, sizeof *context);
    for (int i = 0; i < OUT; i++) x[i] = fixed_value((uint64_t)i);
    for (int i = 0; i < TOKENS * 48; i++) context[i] = fixed_value((uint64_t)(OUT + i));
    CHECK_OK(graft_exe_run(b, g->arenas, (const void *[]){x, &t, context, NULL}, (void *[]){out},
                           NULL, profile, &e),
             &e);
    free(context);
}

/* The first run is ordinary, the second recorded; all give the same bits. */
static void runs_are_recorded(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float first[OUT], again[OUT];
    uint64_t captures = fake->captures, replays = fake->replays;
    CHECK_INT(m->arch.context_dim, 48);
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    one_run(b, g, first, NULL);
    CHECK_INT(fake->captures, captures);
    uint64_t launches = fake->launches;
    for (int i = 0; i < 3; i++) {
        one_run(b, g, again, NULL);
        CHECK(same_bits(first, again));
    }
    CHECK_INT(fake->captures, captures + 1);
    CHECK_INT(fake->replays, replays + 3);
    CHECK_INT(fake->launches, launches);
    /* Times of single steps need single steps. */
    graft_exe_profile p = {.seconds = calloc(b->exe->graph->n_nodes, sizeof *p.seconds),
                           .n = b->exe->graph->n_nodes};
    one_run(b, g, again, &p);
    CHECK_INT(fake->replays, replays + 3);
    CHECK(same_bits(first, again));
    free(p.seconds);
    /* The arena moves: the recording is no longer good, and its place is taken by another. */
    graft_arenas_trim(g->arenas);
    for (int i = 0; i < 3; i++) {
        one_run(b, g, again, NULL);
        CHECK(same_bits(first, again));
    }
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
    CHECK_INT(fake->misuse, 0);
}

static void weights_are_swapped(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1), *other = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float before[OUT], after[OUT], back[OUT], want[OUT];
    const char *path = temp_path("cuda-swap.safetensors");
    graft_safetensors *f = open_file(SD1);
    made_file *changed = copy_file(f, "");
    for (size_t i = 0; i < changed->n; i++) {
        graft_st_tensor *t = &changed->tensor[i];
        for (int64_t k = 0; k < shape_count(t->shape, t->rank); k++)
            ((float *)(uintptr_t)t->data)[k] *= 0.9f;
    }
    write_file(changed, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    run_model(m, before);
    CHECK_OK(graft_model_swap(m, path, true, NULL, &other, &e), &e);
    run_model(other, after);
    run_model(m, back);
    CHECK(same_bits(before, back));
    CHECK(!same_bits(before, after));
    run_file("cuda", "bf16", path, want);
    CHECK(same_bits(after, want));
    graft_model_release(other);
    graft_model_release(m);
    graft_engine_destroy(g);
    unlink(path);
}

static void memory_runs_out(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1), *more = load_model(g, SD2);
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT];
    int64_t all = fake->memory;
    run_model(m, out);
    fake->memory = fake->live_bytes + 100000;
    CHECK_INT(try_model(more, out, &e), GRAFT_E_NOMEM);
    CHECK(strstr(e.text, "out of memory") != NULL);
    CHECK(strstr(last_log, "are free") != NULL);
    fake->memory = all;
    run_model(m, out); /* nothing is broken */
    run_model(more, out);
    graft_model_release(more);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* The device fails in the middle of a run: the message says why, the device is not used again, and
 * another backend goes on. */
static void device_is_lost(int *failure)
{
    graft_engine *g = engine_in("cuda", "bf16"), *sound = engine_in("ref", "f32");
    graft_model *m = load_model(g, SD1), *n = load_model(sound, SD1);
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT];
    run_model(m, out);
    *failure = 5;
    CHECK_INT(try_model(m, out, &e), GRAFT_E_DEVICE);
    CHECK(strstr(e.text, "CUDA_ERROR_FAKE") != NULL);
    if (!strstr(e.text, "CUDA_ERROR_FAKE")) fprintf(stderr, "  it says: %s\n", e.text);
    uint64_t launches = fake->launches;
    *failure = 0;
    CHECK_INT(try_model(m, out, &e), GRAFT_E_DEVICE);
    CHECK_INT(fake->launches, launches);
    run_model(n, out);
    graft_model_release(m);
    graft_model_release(n);
    graft_engine_destroy(g);
    graft_engine_destroy(sound);
}

static void launch_fails(void)
{
    device_is_lost(&fake->fail_launch);
}

static void wait_fails(void)
{
    device_is_lost(&fake->fail_wait);
}

int main(void)
{
    use_fake_driver();
    fake = fake_driver_state();
    CHECK(fake != NULL);
    if (!fake) return test_end();
    RUN(networks_match_ref);
    RUN(runs_are_recorded);
    RUN(weights_are_swapped);
    RUN(memory_runs_out);
    RUN(launch_fails);
    RUN(wait_fails);
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->live_objects, 0);
    CHECK_INT(fake->misuse, 0);
    return test_end();
}
