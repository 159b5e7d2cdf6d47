/* Quantized networks on the CUDA library with the fake driver: whole UNets against ref, recorded
 * runs, weights that are swapped, files that are quantized already, and what all that weighs. */
#include "tests/cuda/networks.h"

#if defined(__SANITIZE_ADDRESS__) /* `make test` runs it under that alone */
static const graft_quant quants[] = {GRAFT_QUANT_INT8};
enum { SANITIZED = 1 };
#else
static const graft_quant quants[] = {GRAFT_QUANT_INT8, GRAFT_QUANT_INT4};
enum { SANITIZED = 0 };
#endif
#define QUANTS (sizeof quants / sizeof *quants)

static const char *const names[] = {"plain", "int8", "int4", "fp8"};

static void run_file(const char *backend, const char *precision, const char *path,
                     graft_quant quant, float out[OUT])
{
    graft_engine *g = engine_in(backend, precision);
    graft_model *m = open_quantized(g, path, quant);
    run_model(m, out);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* A difference of one bit moves a level here and there, and then others: what quantization itself
 * changes is the measure. That single operators are right is seen in quant.c. */
static void network(const char *path, graft_quant quant)
{
    float plain[OUT], want[OUT], got[OUT];
    run_file("ref", "f32", path, GRAFT_QUANT_NONE, plain);
    run_file("ref", "f32", path, quant, want);
    double cost = difference(want, plain, OUT);
    run_file("cuda", "f32", path, quant, got);
    double f32 = difference(got, want, OUT);
    run_file("cuda", "bf16", path, quant, got);
    double bf16 = difference(got, want, OUT), whole = difference(got, plain, OUT);
    printf("     %s, %s: quantization %.2g; beside ref f32 %.2g, bf16 %.2g; in all %.2g\n",
           strrchr(path, '/') + 1, names[quant], cost, f32, bf16, whole);
    CHECK(f32 < (quant == GRAFT_QUANT_INT4 ? 1e-4 : cost));
    CHECK(bf16 < cost + 5e-2);
    CHECK(whole < 1.5 * cost + 5e-2);
}

/* Every norm of a transformer is one of the layers' that alone read it. */
static void norms_are_the_layers(void)
{
    static const graft_quant of_8_bits[] = {GRAFT_QUANT_INT8, GRAFT_QUANT_FP8};
    for (int q = 0; q < 2; q++) {
        graft_engine *g = engine_in("cuda", "bf16");
        graft_model *m = open_quantized(g, SD1, of_8_bits[q]);
        graft_binding *b = NULL;
        graft_err e = GRAFT_ERR_INIT;
        int norms = 0, taken = 0;
        CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
        for (size_t i = 0; b && i < b->exe->graph->n_nodes; i++) {
            const graft_gnode *n = &b->exe->graph->node[i];
            norms += n->op == GRAFT_OP_LAYER_NORM;
            taken += n->op == GRAFT_OP_LINEAR && n->in[GRAFT_LINEAR_GAMMA] >= 0;
        }
        CHECK_INT(norms, 0);
        CHECK_INT(taken, 3 * 7); /* transformer blocks of SD1 */
        graft_binding_release(b);
        graft_model_release(m);
        graft_engine_destroy(g);
    }
}

static void networks_match_ref(void)
{
    static const char *const paths[] = {SDXL, SD1, SD2};
    for (int i = 0; i < NETWORKS; i++) {
        network(paths[i], GRAFT_QUANT_INT8);
        network(paths[i], GRAFT_QUANT_INT4);
    }
    network(SD1, GRAFT_QUANT_FP8);
}

static void recorded(graft_quant quant)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = open_quantized(g, SD1, quant);
    float first[OUT];
    graft_binding_release(record_and_repeat(g, m, first));
    graft_model_release(m);
    graft_engine_destroy(g);
    CHECK_INT(fake->misuse, 0);
}

static void runs_are_recorded(void)
{
    for (size_t i = 0; i < QUANTS; i++) recorded(quants[i]);
}

/* Other weights are quantized anew with the same choice of layers, on the device. */
static void swapped(graft_quant quant)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = open_quantized(g, SD1, quant);
    float want[OUT];
    const char *path = temp_path("cuda-quant-swap.safetensors");
    write_changed(path);
    run_file("cuda", "bf16", path, quant, want);
    swap_and_back(m, path, want);
    graft_model_release(m);
    graft_engine_destroy(g);
    unlink(path);
}

static void weights_are_swapped(void)
{
    for (size_t i = 0; i < QUANTS; i++) swapped(quants[i]);
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
    static const double most[] = {[GRAFT_QUANT_INT4] = 0.4, [GRAFT_QUANT_INT8] = 0.6};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *plain = load_model(g, DEMO);
    for (size_t i = 0; i < QUANTS; i++) {
        graft_err e = GRAFT_ERR_INIT;
        const char *path = temp_path("cuda-quantized.safetensors");
        graft_model *q = quantized(plain, quants[i]);
        CHECK_OK(graft_model_save_quantized(q, path, NULL, &e), &e);
        graft_model *loaded = load_model(g, path);
        float one[OUT], two[OUT];
        run_model(q, one);
        run_model(loaded, two);
        CHECK(same_bits(one, two));
        CHECK_INT(weight_bytes(loaded), weight_bytes(q));
        double share = (double)weight_bytes(q) / (double)weight_bytes(plain);
        printf("     %s: %.2f of the weights in bf16\n", names[quants[i]], share);
        CHECK(share < most[quants[i]]);
        graft_model_release(loaded);
        graft_model_release(q);
        unlink(path);
    }
    graft_model_release(plain);
    graft_engine_destroy(g);
}

/* Allowing integers for attention changes nothing here. */
static void attention_stays(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *plain = load_model(g, SD1);
    graft_model *without = quantized(plain, GRAFT_QUANT_INT8);
    graft_model *with = quantized_with(plain, GRAFT_QUANT_INT8, true);
    float one[OUT], two[OUT];
    CHECK(memcmp(&with->quant, &without->quant, sizeof with->quant) != 0);
    run_model(without, one);
    run_model(with, two);
    CHECK(same_bits(one, two));
    graft_model_release(with);
    graft_model_release(without);
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
        RUN(norms_are_the_layers);
        RUN(quantized_files);
    }
    RUN(runs_are_recorded);
    RUN(weights_are_swapped);
    RUN(attention_stays);
    return close_fake();
}
