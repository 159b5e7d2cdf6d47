/* Quantized networks on the CUDA library with the fake driver: whole UNets against ref, recorded
 * runs, weights that are swapped, files that are quantized already, and what all that weighs. */
#include "engine/api/quantize.h"
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

/* All layers that may be quantized are. */
static graft_model *quantized(const graft_model *m, int32_t bits)
{
    const graft_quant_limits everything = {true, true, 1, 1, 0};
    graft_unet_shape shape = {2, SIDE, SIDE, TOKENS, GRAFT_F32, GRAFT_UNET_WHOLE, 0};
    graft_quant_plan *p = NULL;
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_quant_plan_create(&m->arch, &shape, &p, &e), &e);
    p->bits = bits;
    graft_quant_plan_select(p, &everything);
    CHECK_OK(graft_model_with_plan(m, p, &out, &e), &e);
    graft_quant_plan_destroy(p);
    return out;
}

/* bits 0: as it is. */
static graft_model *open_model(graft_engine *g, const char *path, int32_t bits)
{
    graft_model *m = load_model(g, path);
    if (!bits) return m;
    graft_model *q = quantized(m, bits);
    graft_model_release(m);
    return q;
}

static void run_file(const char *backend, const char *precision, const char *path, int32_t bits,
                     float out[OUT])
{
    graft_engine *g = engine_in(backend, precision);
    graft_model *m = open_model(g, path, bits);
    run_model(m, out);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* A difference of one bit moves a level here and there, and then others: what quantization itself
 * changes is the measure. That single operators are right is seen in quant.c. */
static void network(const char *path, int32_t bits)
{
    float plain[OUT], want[OUT], got[OUT];
    run_file("ref", "f32", path, 0, plain);
    run_file("ref", "f32", path, bits, want);
    double cost = difference(want, plain, OUT);
    run_file("cuda", "f32", path, bits, got);
    double f32 = difference(got, want, OUT);
    run_file("cuda", "bf16", path, bits, got);
    double bf16 = difference(got, want, OUT), whole = difference(got, plain, OUT);
    printf("     %s, %d bits: quantization %.2g; beside ref f32 %.2g, bf16 %.2g; in all %.2g\n",
           strrchr(path, '/') + 1, (int)bits, cost, f32, bf16, whole);
    CHECK(f32 < (bits == 8 ? cost : 1e-4));
    CHECK(bf16 < cost + 5e-2);
    CHECK(whole < 1.5 * cost + 5e-2);
}

static void networks_match_ref(void)
{
    static const char *const paths[] = {SDXL, SD1, SD2};
    for (int i = 0; i < NETWORKS; i++) {
        network(paths[i], 8);
        network(paths[i], 4);
    }
}

static void one_run(graft_binding *b, graft_engine *g, float out[OUT])
{
    graft_err e = GRAFT_ERR_INIT;
    float x[OUT], t = 500, *context = calloc(TOKENS * 48, sizeof *context);
    for (int i = 0; i < OUT; i++) x[i] = fixed_value((uint64_t)i);
    for (int i = 0; i < TOKENS * 48; i++) context[i] = fixed_value((uint64_t)(OUT + i));
    CHECK_OK(graft_exe_run(b, g->arenas, (const void *[]){x, &t, context, NULL}, (void *[]){out},
                           NULL, NULL, &e),
             &e);
    free(context);
}

/* The first run is ordinary, the second recorded; all give the same bits. */
static void recorded(int32_t bits)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = open_model(g, SD1, bits);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float first[OUT], again[OUT];
    uint64_t captures = fake->captures, replays = fake->replays;
    CHECK_INT(m->arch.context_dim, 48);
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    one_run(b, g, first);
    uint64_t launches = fake->launches;
    for (int i = 0; i < 3; i++) {
        one_run(b, g, again);
        CHECK(same_bits(first, again));
    }
    CHECK_INT(fake->captures, captures + 1);
    CHECK_INT(fake->replays, replays + 3);
    CHECK_INT(fake->launches, launches);
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
    CHECK_INT(fake->misuse, 0);
}

static void runs_are_recorded(void)
{
    recorded(8);
    recorded(4);
}

/* Other weights are quantized anew with the same choice of layers, on the device. */
static void swapped(int32_t bits)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = open_model(g, SD1, bits), *other = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float before[OUT], after[OUT], back[OUT], want[OUT];
    const char *path = temp_path("cuda-quant-swap.safetensors");
    graft_safetensors *f = open_file(SD1);
    made_file *changed = copy_file(f, "");
    for (size_t i = 0; i < changed->n; i++) {
        graft_st_tensor *t = &changed->tensor[i];
        for (int64_t k = 0; k < shape_count(t->shape, t->rank); k++)
            ((float *)(uintptr_t)t->data)[k] *= 1.0f + 0.2f * random_value();
    }
    write_file(changed, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    run_model(m, before);
    CHECK_OK(graft_model_swap(m, path, true, NULL, &other, &e), &e);
    run_model(other, after);
    run_model(m, back);
    CHECK(same_bits(before, back));
    CHECK(!same_bits(before, after));
    run_file("cuda", "bf16", path, bits, want);
    CHECK(same_bits(after, want));
    graft_model_release(other);
    graft_model_release(m);
    graft_engine_destroy(g);
    unlink(path);
}

static void weights_are_swapped(void)
{
    swapped(8);
    swapped(4);
}

static uint64_t weight_bytes(const graft_model *m)
{
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    uint64_t n = b ? b->exe->weight_bytes : 0;
    graft_binding_release(b);
    return n;
}

/* A quantized file computes the bits of the model that it was saved from, and weighs as much. */
static void quantized_files(void)
{
    static const double most[] = {[4] = 0.4, [8] = 0.6};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *plain = load_model(g, DEMO);
    for (int32_t bits = 4; bits <= 8; bits += 4) {
        graft_err e = GRAFT_ERR_INIT;
        const char *path = temp_path("cuda-quantized.safetensors");
        graft_model *q = quantized(plain, bits);
        CHECK_OK(graft_model_save_quantized(q, path, NULL, &e), &e);
        graft_model *loaded = load_model(g, path);
        float one[OUT], two[OUT];
        run_model(q, one);
        run_model(loaded, two);
        CHECK(same_bits(one, two));
        CHECK_INT(weight_bytes(loaded), weight_bytes(q));
        double share = (double)weight_bytes(q) / (double)weight_bytes(plain);
        printf("     %d bits: %.2f of the weights in bf16\n", (int)bits, share);
        CHECK(share < most[bits]);
        graft_model_release(loaded);
        graft_model_release(q);
        unlink(path);
    }
    graft_model_release(plain);
    graft_engine_destroy(g);
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
    RUN(quantized_files);
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->live_objects, 0);
    CHECK_INT(fake->misuse, 0);
    return test_end();
}
