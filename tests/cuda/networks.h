/* What the tests of whole networks on the fake driver share. */
#ifndef GRAFT_TESTS_CUDA_NETWORKS_H
#define GRAFT_TESTS_CUDA_NETWORKS_H
#include "engine/calibrate/quantize.h"
#include "tests/cuda/backend.h"
#include "tests/engine/fixture.h"

#if defined(__SANITIZE_ADDRESS__)
enum { NETWORKS = 1 }; /* `make test` runs these tests under it alone */
#else
enum { NETWORKS = 3 };
#endif

static fake_cuda_state *fake;

static inline graft_engine *engine_in(const char *backend, const char *precision)
{
    graft_engine *g = make_engine(backend);
    snprintf(g->default_precision, sizeof g->default_precision, "%s", precision);
    return g;
}

/* All layers with weights that may be quantized are, and attention, which this library may compute
 * as it is. */
static inline graft_model *quantized_with(const graft_model *m, graft_quant quant, bool attention)
{
    const graft_quant_limits everything = {{true, true, attention}, {1, 1, 1}, 0};
    graft_net_shape shape = {
        .batch = 2, .height = SIDE, .width = SIDE, .tokens = TOKENS, .act_dtype = GRAFT_F32};
    graft_quant_plan *p = NULL;
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_quant_plan_create(&m->arch, &shape, &p, &e), &e);
    p->bits = quant == GRAFT_QUANT_INT4 ? 4 : 8;
    p->format = quant == GRAFT_QUANT_FP8 ? GRAFT_FORMAT_FP8 : GRAFT_FORMAT_INT;
    graft_quant_plan_select(p, &everything);
    CHECK_OK(graft_model_with_plan(m, p, &out, &e), &e);
    graft_quant_plan_destroy(p);
    return out;
}

/* Without attention, which ref would round. */
static inline graft_model *quantized(const graft_model *m, graft_quant quant)
{
    return quantized_with(m, quant, false);
}

/* GRAFT_QUANT_NONE: as it is. */
static inline graft_model *open_quantized(graft_engine *g, const char *path, graft_quant quant)
{
    graft_model *m = load_model(g, path);
    if (!quant) return m;
    graft_model *q = quantized(m, quant);
    graft_model_release(m);
    return q;
}

static inline graft_status run_as(graft_binding *b, graft_engine *g, float out[OUT],
                                  const graft_task *task, graft_exe_profile *profile)
{
    graft_err e = GRAFT_ERR_INIT;
    float x[OUT], t = 500, *context = calloc(TOKENS * 48, sizeof *context);
    for (int i = 0; i < OUT; i++) x[i] = fixed_value((uint64_t)i);
    for (int i = 0; i < TOKENS * 48; i++) context[i] = fixed_value((uint64_t)(OUT + i));
    graft_status st = graft_exe_run(b, g->arenas, (const void *[]){x, &t, context, NULL},
                                    (void *[]){out}, task, profile, &e);
    if (st) fprintf(stderr, "  a run ends: %s\n", e.text);
    free(context);
    return st;
}

static inline void one_run(graft_binding *b, graft_engine *g, float out[OUT],
                           graft_exe_profile *profile)
{
    CHECK_INT(run_as(b, g, out, NULL, profile), GRAFT_OK);
}

/* The first run is ordinary, the second recorded; all give the same bits, which are `first`. */
static inline graft_binding *record_and_repeat(graft_engine *g, const graft_model *m,
                                               float first[OUT])
{
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float again[OUT];
    CHECK_INT(m->arch.context_dim, 48);
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    uint64_t captures = fake->captures, replays = fake->replays; /* the device was tested */
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
    return b;
}

/* SD1 with other weights, as a file. */
static inline void write_changed(const char *path)
{
    graft_safetensors *f = open_file(SD1);
    made_file *changed = copy_file(f, "");
    for (size_t i = 0; i < changed->n; i++) {
        graft_st_tensor *t = &changed->tensor[i];
        for (int64_t k = 0; k < shape_count(t->shape, t->rank); k++)
            ((float *)(uintptr_t)t->data)[k] *= 0.9f + 0.1f * random_value();
    }
    write_file(changed, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
}

/* Another file takes the place of m's: what it gives is `want`, and m gives what it gave. */
static inline void swap_and_back(const graft_model *m, const char *path, const float want[OUT])
{
    graft_model *other = swap_weights(m, path, true);
    float before[OUT], after[OUT], back[OUT];
    run_model(m, before);
    run_model(other, after);
    run_model(m, back);
    CHECK(same_bits(before, back));
    CHECK(!same_bits(before, after));
    CHECK(same_bits(after, want));
    graft_model_release(other);
}

static inline bool open_fake(void)
{
    use_fake_driver();
    fake = fake_driver_state();
    CHECK(fake != NULL);
    if (fake) fake->lazy = 1;
    return fake != NULL;
}

/* For tests of where weights lie, which open many devices: trying the kernels for Hopper takes most
 * of that here, and they read weights as the others do. */
static inline bool open_fake_without_wgmma(void)
{
    setenv("GRAFT_CUDA_WGMMA", "off", 1);
    return open_fake();
}

/* What main() returns; nothing is left, and nothing was done that CUDA forbids. */
static inline int close_fake(void)
{
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->live_objects, 0);
    CHECK_INT(fake->misuse, 0);
    return test_end();
}
#endif
