/* Quantized networks on the CUDA library with the fake driver: whole UNets against ref, recorded
 * runs, weights that are swapped, files that are quantized already, and what all that weighs. */
#include "tests/cuda/networks.h"

#if defined(__SANITIZE_ADDRESS__) /* the emulator is ten times slower under it */
enum { LEAST_BITS = 8, SANITIZED = 1 };
#else
enum { LEAST_BITS = 4, SANITIZED = 0 };
#endif

static void run_file(const char *backend, const char *precision, const char *path, int32_t bits,
                     float out[OUT])
{
    graft_engine *g = engine_in(backend, precision);
    graft_model *m = open_quantized(g, path, bits);
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

static void recorded(int32_t bits)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = open_quantized(g, SD1, bits);
    float first[OUT];
    graft_binding_release(record_and_repeat(g, m, first));
    graft_model_release(m);
    graft_engine_destroy(g);
    CHECK_INT(fake->misuse, 0);
}

static void runs_are_recorded(void)
{
    for (int32_t bits = LEAST_BITS; bits <= 8; bits += 4) recorded(bits);
}

/* Other weights are quantized anew with the same choice of layers, on the device. */
static void swapped(int32_t bits)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = open_quantized(g, SD1, bits);
    float want[OUT];
    const char *path = temp_path("cuda-quant-swap.safetensors");
    write_changed(path);
    run_file("cuda", "bf16", path, bits, want);
    swap_and_back(m, path, want);
    graft_model_release(m);
    graft_engine_destroy(g);
    unlink(path);
}

static void weights_are_swapped(void)
{
    for (int32_t bits = LEAST_BITS; bits <= 8; bits += 4) swapped(bits);
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
    for (int32_t bits = LEAST_BITS; bits <= 8; bits += 4) {
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
    if (!open_fake()) return test_end();
    if (SANITIZED) {
        puts("skipped: networks against ref and quantized files: they take minutes in the "
             "emulator under a sanitizer; cuda.quant has every operator");
    } else {
        RUN(networks_match_ref);
        RUN(quantized_files);
    }
    RUN(runs_are_recorded);
    RUN(weights_are_swapped);
    return close_fake();
}
