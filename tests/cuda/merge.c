/* Merges on the device, with the fake driver: the host sums, and what it brings is what a file that
 * holds the sum would bring. */
#include "tests/cuda/networks.h"
#include "tests/engine/merge.h"

static char path_a[256], path_b[256], path_lora[256];

/* The merge and the same saved in float32 (A's type) and loaded, in an engine of its own. */
static void same_when_saved(const graft_model *m, const char *precision)
{
    graft_err e = GRAFT_ERR_INIT;
    const char *path = temp_path("cuda-merged.safetensors");
    float got[OUT], want[OUT], again[OUT];
    run_model(m, got);
    run_model(m, again);
    CHECK(same_bits(got, again));
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.model = m}, path, NULL, NULL, &e), &e);
    graft_engine *g = engine_in("cuda", precision);
    graft_model *loaded = load_model(g, path);
    run_model(loaded, want);
    CHECK(same_bits(got, want));
    graft_model_release(loaded);
    graft_engine_destroy(g);
    unlink(path);
}

static void as_a_file_of_the_sum(const char *precision)
{
    float plain[OUT], other[OUT], out[OUT];
    graft_engine *g = engine_in("cuda", precision);
    graft_model *a = load_model(g, path_a), *b = load_model(g, path_b);
    graft_model *m = merged(a, b, 0.3, 0.5, 0.8), *l = with_lora(b, path_lora, 0.6);
    graft_model *ml = simple(a, l, 0.4), *first = simple(a, b, 1.0), *second = simple(a, b, 0.0);
    graft_model *loras = simple(a, l, 0.0);
    run_model(a, plain);
    run_model(b, other);
    graft_packs_stats before = packs_of(g);
    run_model(first, out);
    CHECK(same_bits(out, plain));
    run_model(second, out);
    CHECK(same_bits(out, other));
    CHECK_INT(packs_of(g).made, before.made);
    same_when_saved(m, precision);
    same_when_saved(ml, precision);
    run_model(m, out);
    CHECK(!same_bits(out, plain) && !same_bits(out, other));
    run_model(l, plain); /* here the device merges the LoRA */
    run_model(loras, out);
    CHECK(same_bits(out, plain));
    RELEASE_ALL(a, b, m, l, ml, first, second, loras);
    graft_engine_destroy(g);
}

static void sums_of_two_files(void)
{
    as_a_file_of_the_sum("f32");
    as_a_file_of_the_sum("bf16");
}

/* Another ratio takes the memory of the one before. */
static void ratios_replace_each_other(void)
{
    float out[OUT], last[OUT] = {0};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *a = load_model(g, path_a), *b = load_model(g, path_b);
    uint64_t bytes = 0;
    for (int i = 1; i < 4; i++) {
        graft_model *m = simple(a, b, 0.25 * i);
        run_model(m, out);
        CHECK(!same_bits(out, last));
        memcpy(last, out, sizeof out);
        if (i == 1) bytes = packs_of(g).used_bytes + packs_of(g).bytes;
        CHECK_INT(packs_of(g).used_bytes + packs_of(g).bytes, bytes);
        graft_model_release(m);
    }
    RELEASE_ALL(a, b);
    graft_engine_destroy(g);
}

int main(void)
{
    if (!open_fake_without_wgmma()) return test_end();
    make_variant(path_a, "cuda-a.safetensors", 0.2f, GRAFT_F32);
    make_variant(path_b, "cuda-b.safetensors", 0.5f, GRAFT_F16);
    make_lora(path_lora, "cuda-merge-lora.safetensors");
    RUN(sums_of_two_files);
    RUN(ratios_replace_each_other);
    unlink(path_a);
    unlink(path_b);
    unlink(path_lora);
    return close_fake();
}
