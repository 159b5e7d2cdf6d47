/* GGUF files on the CUDA library with the fake driver: linear layers that keep their blocks on the
 * device give the bits that they give as floats, also recorded, with LoRAs, swapped, and where they
 * come from the host's memory in each run. */
#include "engine/exec/trial.h"
#include "tests/engine/gguf_network.h"
#include "tests/cuda/networks.h"

#if defined(__SANITIZE_ADDRESS__)
static const char *const precisions[] = {"bf16"};
#else
static const char *const precisions[] = {"f32", "bf16", "f16"};
#endif
#define PRECISIONS (sizeof precisions / sizeof *precisions)

static graft_engine *engine_with(const char *backend, const char *precision, const char *gguf)
{
    setenv("GRAFT_PACKED", gguf, 1);
    graft_engine *g = engine_in(backend, precision);
    unsetenv("GRAFT_PACKED");
    return g;
}

/* Operators on blocks of this type, or of any. */
static int count_of(const graft_model *m, int32_t type)
{
    graft_binding *b = bound(m);
    int n = 0;
    for (size_t i = 0; i < b->exe->graph->n_nodes; i++) {
        const int32_t own = graft_quant_blocks(b->exe->graph->node[i].attrs.quant);
        n += own && (!type || own == type);
    }
    graft_binding_release(b);
    return n;
}

static uint64_t compiled_bytes(const graft_model *m)
{
    graft_binding *b = bound(m);
    const uint64_t n = b->exe->weight_bytes;
    graft_binding_release(b);
    return n;
}

static void run_file(const char *backend, const char *precision, const char *gguf, const char *path,
                     const char *lora, float out[OUT])
{
    graft_engine *g = engine_with(backend, precision, gguf);
    graft_model *m = load_model(g, path), *changed = lora ? with_lora(m, lora, 0.8) : NULL;
    run_model(changed ? changed : m, out);
    graft_model_release(changed);
    graft_model_release(m);
    graft_engine_destroy(g);
}

static void bits_of_floats(void)
{
    const char *path = temp_path("cuda-several.gguf");
    float kept[OUT], floats[OUT], want[OUT];
    write_network(path, several);
    run_file("ref", "f32", "keep", path, NULL, want);
    for (size_t i = 0; i < PRECISIONS; i++) {
        run_file("cuda", precisions[i], "keep", path, NULL, kept);
        run_file("cuda", precisions[i], "floats", path, NULL, floats);
        const double off = difference(kept, want, OUT);
        printf("     %s: beside ref %.2g\n", precisions[i], off);
        CHECK(same_bits(kept, floats));
        CHECK(off < (strcmp(precisions[i], "f32") == 0 ? 3e-4 : 0.1)); /* of large weights */
    }
    unlink(path);
}

/* What threads read ahead of the one that packs is packed, too. Whether they get ahead is chance,
 * so it is tried more than once. */
static void read_ahead(void)
{
    const char *path = temp_path("cuda-several.gguf");
    float want[OUT], got[OUT];
    write_network(path, several);
    run_file("cuda", "bf16", "keep", path, NULL, want);
    for (int i = 0; i < 10; i++) {
        setenv("GRAFT_PACKED", "keep", 1);
        graft_engine *g = make_engine_threads("cuda", 4);
        unsetenv("GRAFT_PACKED");
        snprintf(g->default_precision, sizeof g->default_precision, "bf16");
        graft_model *m = load_model(g, path);
        run_model(m, got);
        CHECK(same_bits(got, want));
        graft_model_release(m);
        graft_engine_destroy(g);
    }
    unlink(path);
}

static void memory(void)
{
    const char *path = temp_path("cuda-several.gguf");
    write_network(path, several);
    graft_engine *g[] = {engine_with("cuda", "bf16", "keep"), engine_with("cuda", "bf16", "auto")};
    graft_model *a = load_model(g[0], path), *b = load_model(g[1], path);
    CHECK(count_of(a, 0) > 30 && count_of(a, Q4_K) > 4 && count_of(a, Q6_K) > 4);
    CHECK_INT(count_of(b, 0), 0); /* small beside this device */
    const uint64_t kept = compiled_bytes(a), floats = compiled_bytes(b);
    printf("     %llu bytes, %llu as bf16\n", (unsigned long long)kept, (unsigned long long)floats);
    CHECK(kept < floats);
    RELEASE_ALL(a, b);
    for (int i = 0; i < 2; i++) graft_engine_destroy(g[i]);
    unlink(path);
}

static void recorded(void)
{
    const char *path = temp_path("cuda-several.gguf");
    float first[OUT];
    write_network(path, several);
    graft_engine *g = engine_with("cuda", "bf16", "keep");
    graft_model *m = load_model(g, path);
    graft_binding_release(record_and_repeat(g, m, first));
    graft_model_release(m);
    graft_engine_destroy(g);
    unlink(path);
}

/* What a LoRA changes becomes Q8_0 on the device, of the values that ref packs likewise. */
static void with_loras(void)
{
    const char *path = temp_path("cuda-several.gguf");
    char lora[256];
    float plain[OUT], got[OUT], want[OUT], again[OUT];
    write_network(path, several);
    make_lora(lora, "cuda-one.safetensors");
    run_file("ref", "f32", "keep", path, lora, want);
    graft_engine *g = engine_with("cuda", "f32", "keep");
    graft_model *a = load_model(g, path), *b = with_lora(a, lora, 0.8);
    run_model(a, plain);
    run_model(b, got);
    CHECK_INT(count_of(b, Q8_0), count_of(a, Q8_0) + 2);
    const double change = difference(want, plain, OUT), off = difference(got, want, OUT);
    printf("     a change of %.2g, beside ref %.2g\n", change, off);
    CHECK(change > 0.01 && off < 3e-4);
    const uint64_t built = graphs_built(g);
    graft_model *weaker = with_lora(a, lora, 0.3), *none = with_lora(a, lora, 0);
    run_model(weaker, again);
    CHECK(!same_bits(again, got) && !same_bits(again, plain));
    run_model(none, again);
    CHECK(same_bits(again, plain));
    run_model(b, again);
    CHECK(same_bits(again, got));
    CHECK_INT(graphs_built(g), built);
    RELEASE_ALL(a, b, weaker, none);
    graft_engine_destroy(g);
    unlink(path);
    unlink(lora);
}

static void swapped(void)
{
    const char *path[] = {temp_path("cuda-a.gguf"), temp_path("cuda-b.gguf")};
    float want[OUT];
    for (int i = 0; i < 2; i++) write_network(path[i], several);
    run_file("cuda", "bf16", "keep", path[1], NULL, want);
    graft_engine *g = engine_with("cuda", "bf16", "keep");
    graft_model *m = load_model(g, path[0]);
    swap_and_back(m, path[1], want);
    graft_model_release(m);
    graft_engine_destroy(g);
    for (int i = 0; i < 2; i++) unlink(path[i]);
}

/* What has no room on the device comes in blocks as well. */
static void offloaded(void)
{
    const char *path = temp_path("cuda-several.gguf");
    float want[OUT], got[OUT];
    write_network(path, several);
    graft_engine *g = engine_with("cuda", "bf16", "keep");
    graft_model *m = load_model(g, path);
    graft_binding *b = bound(m);
    one_run(b, g, want, NULL);
    const uint64_t arena = (uint64_t)b->exe->arena_bytes, weights = b->exe->weight_bytes;
    const uint64_t least = arena + graft_offload_least(b->exe);
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
    CHECK(least < arena + weights);
    g = engine_with("cuda", "bf16", "keep");
    g->max_bytes = least + (arena + weights - least) / 3;
    graft_packs_use_slabs(g->packs, false);
    m = load_model(g, path);
    CHECK(count_of(m, 0) > 30);
    b = bound(m);
    CHECK(b->offload != NULL);
    for (int i = 0; i < 3; i++) {
        one_run(b, g, got, NULL);
        CHECK(same_bits(got, want));
    }
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
    unlink(path);
}

static const int32_t types[] = {2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 226, 227, 228, 229};

/* Tuning has weights of each type, so that every variant is tried, and none is taken for wrong. */
static void tuned(void)
{
    graft_engine *g = engine_with("cuda", "bf16", "blocks");
    graft_backend *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_backends_get(&g->backends, "cuda", &b, &e), &e);
    for (size_t i = 0; b && i < sizeof types / sizeof *types; i++) {
        const graft_trial_limits limits = {.max_bytes = 1 << 26};
        graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_LINEAR};
        graft_trial t;
        d.attrs.quant = GRAFT_QUANT_BLOCKS + types[i];
        d.in[GRAFT_LINEAR_X] = tensor_of(2, 24, 256, 0, 0);
        d.in[GRAFT_LINEAR_W] = tensor_of(2, 64, 256, 0, 0);
        d.in[GRAFT_LINEAR_W].constant = 1;
        d.out = tensor_of(2, 24, 64, 0, 0);
        CHECK_OK(graft_trial_run(b, &d, &limits, NULL, &t, &e), &e);
        CHECK(t.count > 2 && t.wrong == 0);
        for (int32_t v = 0; v < t.count; v++) CHECK(t.status[v] == GRAFT_OK && t.ns[v] > 0);
    }
    graft_engine_destroy(g);
}

int main(void)
{
    if (!open_fake_without_wgmma()) return test_end();
    RUN(bits_of_floats);
    RUN(read_ahead);
    RUN(memory);
    RUN(recorded);
    RUN(with_loras);
    RUN(swapped);
    RUN(offloaded);
    RUN(tuned);
    return close_fake();
}
