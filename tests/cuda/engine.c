/* Whole networks on the CUDA library with the fake driver: small UNets against ref, runs that are
 * recorded and repeated, weights that are swapped, memory that runs out, a device that is lost. */
#include "engine/exec/trial.h"
#include "tests/cuda/networks.h"

/* In place of the machine's clock, on which the emulator would be too slow to be recorded. */
double graft_trial_now(void)
{
    static atomic_int turn;
    return 1e-5 * atomic_fetch_add(&turn, 1);
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

/* The time embedding is added in the norm behind a convolution, in all of them. */
static void norms_add_channels(const graft_graph *g)
{
    int norms = 0, convs = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const graft_gnode *n = &g->node[i];
        norms += n->op == GRAFT_OP_GROUP_NORM && n->in[GRAFT_NORM_CHANNEL_ADD] >= 0;
        convs += n->op == GRAFT_OP_CONV2D && n->in[GRAFT_CONV_CHANNEL_ADD] >= 0;
    }
    CHECK_INT(norms, 8); /* blocks of SD1 */
    CHECK_INT(convs, 0);
}

/* By the device's clock, on which a kernel takes a microsecond, and nothing is left out. */
static void profile_is_the_device_s(const graft_exe_profile *p, uint64_t launches)
{
    double sum = 0, most = 0;
    CHECK_INT(p->runs, 1);
    for (size_t i = 0; i < p->n; i++) {
        double us = p->seconds[i] * 1e6;
        CHECK(us > 0.9 && fabs(us - floor(us + 0.5)) < 1e-3);
        if (us > most) most = us;
        sum += us;
    }
    CHECK(most > 1.9); /* some have several launches */
    CHECK(fabs(sum - (double)launches) < 1e-2);
}

/* The host's clock would tell how long it takes to hand work over. */
static void report_has_no_host_times(const graft_model *m)
{
    char *text = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_report(m, NULL, NULL, &text, NULL, &e), &e);
    CHECK(strstr(text, "5 runs\n") != NULL);
    CHECK(strstr(text, "Time by operator kind is not measured on devices") != NULL);
    if (!strstr(text, "5 runs\n")) fprintf(stderr, "%s\n", text);
    graft_text_free(text);
}

static void runs_are_recorded(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1);
    float first[OUT], again[OUT];
    uint64_t overlapped = fake->overlapped;
    graft_binding *b = record_and_repeat(g, m, first);
    CHECK(fake->overlapped > overlapped + 100); /* kernels that began before the one ahead ended */
    norms_add_channels(b->exe->graph);
    uint64_t replays = fake->replays;
    /* Times of single steps need single steps. */
    graft_exe_profile p = {.seconds = calloc(b->exe->graph->n_nodes, sizeof *p.seconds),
                           .n = b->exe->graph->n_nodes};
    uint64_t launches = fake->launches;
    one_run(b, g, again, &p);
    CHECK_INT(fake->replays, replays);
    CHECK(same_bits(first, again));
    profile_is_the_device_s(&p, fake->launches - launches);
    free(p.seconds);
    report_has_no_host_times(m);
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

/* A capture that the driver or a library refuses is no fault of the device: runs stay ordinary. */
static void refused_recording(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float first[OUT], again[OUT];
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    uint64_t captures = fake->captures, replays = fake->replays;
    int64_t objects = fake->live_objects;
    one_run(b, g, first, NULL);
    fake->fail_record = 20;
    for (int i = 0; i < 3; i++) {
        one_run(b, g, again, NULL);
        CHECK(same_bits(first, again));
        if (i == 0) CHECK(strstr(last_log, "a run is not recorded") != NULL);
    }
    CHECK_INT(fake->fail_record, 0);
    CHECK_INT(fake->captures - captures, 1); /* it is not tried again */
    CHECK_INT(fake->replays, replays);
    CHECK_INT(fake->live_objects, objects);
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
    CHECK_INT(fake->misuse, 0);
}

static void weights_are_swapped(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1);
    float want[OUT];
    const char *path = temp_path("cuda-swap.safetensors");
    write_changed(path);
    run_file("cuda", "bf16", path, want);
    swap_and_back(m, path, want);
    graft_model_release(m);
    graft_engine_destroy(g);
    unlink(path);
}

/* Weights that nobody uses make room; those in use do not. */
static void memory_runs_out(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1), *more = load_model(g, SD2);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT];
    int64_t all = fake->memory;
    run_model(m, out);
    fake->memory = fake->live_bytes + 100000;
    CHECK_OK(try_model(more, out, &e), &e);
    fake->memory = all;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    graft_engine_release_unused(g);
    fake->memory = fake->live_bytes + 100000;
    CHECK_INT(try_model(more, out, &e), GRAFT_E_NOMEM);
    CHECK(strstr(e.text, "out of memory") && strstr(e.text, "MiB are left for it"));
    g->offload = false;
    CHECK_INT(try_model(more, out, &e), GRAFT_E_NOMEM);
    CHECK(strstr(e.text, "out of memory") && strstr(last_log, "are free"));
    g->offload = true;
    graft_binding_release(b);
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

/* Variants are timed as runs are: recorded. */
static void trial(int cache)
{
    fake->cache = cache;
    fake->algorithms = cache != 0;
    graft_engine *g = engine_in("cuda", "bf16");
    graft_backend *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_trial t;
    const graft_trial_limits limits = {.max_bytes = 1 << 20};
    const graft_tensor_desc square = {
        .dtype = GRAFT_BF16, .rank = 2, .dim = {64, 64}, .stride = {64, 1}};
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_LINEAR, .out = square};
    d.in[GRAFT_LINEAR_X] = d.in[GRAFT_LINEAR_W] = square;
    d.in[GRAFT_LINEAR_W].constant = 1;
    CHECK_OK(graft_backends_get(&g->backends, "cuda", &b, &e), &e);
    uint64_t captures = fake->captures, replays = fake->replays, copies = fake->copies;
    int64_t objects = fake->live_objects;
    CHECK_OK(graft_trial_run(b, &d, &limits, NULL, &t, &e), &e);
    /* Its own kernel, cuBLASLt's algorithms, and three for Hopper behind them: none is left out. */
    CHECK_INT(t.count, 1 + (cache ? 8 : 2) + 3);
    for (int v = 0; v < t.count; v++) CHECK(t.ns[v] > 0);
    CHECK(fake->captures > captures && fake->replays > replays);
    /* Weights of 8 KiB: three more of them, for each variant, are more than fits in. */
    CHECK_INT(fake->copies - copies, cache ? 3 * (uint64_t)t.count : 0);
    CHECK_INT(t.wrong, 0);
    CHECK_INT(fake->live_objects, objects);
    CHECK_INT(fake->misuse, 0);
    graft_engine_destroy(g);
}

static void trials_are_recorded(void)
{
    trial(0);
    trial(20000);
    fake->cache = fake->algorithms = 0;
}

static graft_binding *bind_small(const graft_model *m)
{
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    return b;
}

/* What a library refuses to run own kernels compute, in recorded runs, too. With levels a bit's
 * difference grows to what quantization itself changes. */
static void plans_are_refused(void)
{
    float out[2][OUT], plain[OUT], again[OUT];
    graft_quant last = NETWORKS > 1 ? GRAFT_QUANT_FP8 : GRAFT_QUANT_INT8;
    for (graft_quant quant = GRAFT_QUANT_NONE; quant <= last; quant++) {
        for (int refused = 0; refused < 2; refused++) {
            graft_engine *g = engine_in("cuda", "bf16");
            graft_model *m = open_quantized(g, SD1, quant);
            last_log[0] = 0;
            fake->refuse_plans = refused;
            graft_binding *b = bind_small(m);
            one_run(b, g, out[refused], NULL);
            memcpy(again, out[refused], sizeof again);
            one_run(b, g, out[refused], NULL);
            CHECK(same_bits(again, out[refused]));
            graft_binding_release(b);
            fake->refuse_plans = 0;
            CHECK_INT(strstr(last_log, "own kernels do it instead") != NULL, refused);
            graft_model_release(m);
            graft_engine_destroy(g);
        }
        if (!quant) memcpy(plain, out[0], sizeof plain);
        double off = difference(out[1], out[0], OUT), cost = difference(out[0], plain, OUT);
        printf("     quant %d: %.2g, quantization %.2g\n", (int)quant, off, cost);
        CHECK(off > 0 && off < cost + 5e-2);
    }
}

/* It is the device that failed: own kernels cannot help. */
static void refused_for_the_device(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1);
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT];
    fake->refuse_plans = 2;
    CHECK_INT(try_model(m, out, &e), GRAFT_E_DEVICE);
    fake->refuse_plans = 0;
    uint64_t launches = fake->launches;
    CHECK_INT(try_model(m, out, &e), GRAFT_E_DEVICE);
    CHECK_INT(fake->launches, launches);
    graft_model_release(m);
    graft_engine_destroy(g);
}

int main(void)
{
    if (!open_fake()) return test_end();
    RUN(networks_match_ref);
    RUN(runs_are_recorded);
    RUN(refused_recording);
    RUN(weights_are_swapped);
    RUN(memory_runs_out);
    RUN(trials_are_recorded);
    RUN(plans_are_refused);
    RUN(refused_for_the_device);
    RUN(launch_fails);
    RUN(wait_fails);
    return close_fake();
}
