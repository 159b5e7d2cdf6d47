/* LoRAs that the device merges, with the fake driver: the bits of the host's sums, and what comes
 * to the device for them. */
#include "base/alloc.h"
#include "base/half.h"
#include "engine/weights/patch.h"
#include "tests/cuda/networks.h"

#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* The host merges with them where it has them, the device always. */
static bool host_has_fma(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#elif defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

#define UNET "model.diffusion_model."

static const char *const layers[] = {
    "input_blocks.1.1.transformer_blocks.0.attn1.to_q", /* one of three that are joined */
    "input_blocks.1.1.transformer_blocks.0.attn1.to_v",
    "input_blocks.3.0.emb_layers.1", /* one of all residual blocks', with a bias */
    "middle_block.1.transformer_blocks.0.ff.net.0.proj", /* pairs */
    "middle_block.1.transformer_blocks.0.ff.net.2",
    "output_blocks.1.1.transformer_blocks.0.attn2.to_k",
    "middle_block.1.proj_in",
    "input_blocks.0.0", /* convolutions */
    "input_blocks.3.0.out_layers.3",
    "output_blocks.1.2.conv",
};
enum { LAYERS = sizeof layers / sizeof *layers };

typedef struct made_lora {
    char base[256], path[256];
    made_file *merged;     /* SD1 in float32, and later with the LoRA in it */
    uint64_t factor_bytes; /* that go to the device for it */
} made_lora;

static void to_f16(graft_st_tensor *t)
{
    float *v = (float *)(uintptr_t)t->data;
    int64_t n = shape_count(t->shape, t->rank);
    for (int64_t i = 0; i < n; i++) ((uint16_t *)(void *)v)[i] = graft_f32_to_f16(v[i]);
    t->dtype = GRAFT_F16;
    t->bytes = (uint64_t)n * 2;
}

static made_file *base_file(const char **config, graft_safetensors **f)
{
    *f = open_file(SD1);
    *config = graft_safetensors_metadata(*f, "config");
    return copy_file(*f, "");
}

/* Factors of layer i in the file: its rank is 3, 8, 13, … 43; every other layer is float16. */
static void add_layer(made_file *lora, made_lora *l, int i, bool mid, float strength)
{
    char name[512], stem[256];
    graft_err e = GRAFT_ERR_INIT;
    snprintf(name, sizeof name, UNET "%s.weight", layers[i]);
    graft_st_tensor *w = made_find(l->merged, name);
    snprintf(stem, sizeof stem, "lora_unet_%s", layers[i]);
    for (char *p = stem; *p; p++)
        if (*p == '.') *p = '_';
    bool three = mid && w->rank == 4 && w->shape[2] > 1;
    int64_t rank = 3 + 5 * i, up[4] = {w->shape[0], rank, 1, 1}, one = three ? 1 : 0;
    int64_t down[4] = {rank, w->shape[1], one ? 1 : w->shape[2], one ? 1 : w->shape[3]};
    int64_t middle[4] = {rank, rank, w->shape[2], w->shape[3]};
    float alpha = (float)rank * 0.75f + 0.5f;
    size_t first = lora->n;
    snprintf(name, sizeof name, "%s.lora_up.weight", stem);
    add_tensor(lora, name, w->rank, up, NULL, 0.2f);
    snprintf(name, sizeof name, "%s.lora_down.weight", stem);
    add_tensor(lora, name, w->rank, down, NULL, 0.2f);
    snprintf(name, sizeof name, "%s.lora_mid.weight", stem);
    if (three) add_tensor(lora, name, 4, middle, NULL, 0.3f);
    for (size_t k = first; i % 2 && k < lora->n; k++) to_f16(&lora->tensor[k]);
    graft_st_tensor *t = &lora->tensor[first];
    const graft_patch_source source = {
        .part = {{.a = &t[0], .b = &t[1], .core = three ? &t[2] : NULL}}, .alpha = alpha};
    graft_patch p = graft_patch_make(&source, 0, 0);
    p.strength = strength;
    CHECK_OK(graft_patch_apply(&p, w, NULL, (float *)(uintptr_t)w->data, &e), &e);
    l->factor_bytes +=
        t[0].bytes +
        (three ? (uint64_t)(rank * w->shape[1] * w->shape[2] * w->shape[3]) * sizeof(float)
               : t[1].bytes);
    snprintf(name, sizeof name, "%s.alpha", stem);
    add_tensor(lora, name, 0, NULL, &alpha, 0);
}

static void make_lora(made_lora *l, bool mid, float strength)
{
    const char *config;
    graft_safetensors *f;
    snprintf(l->base, sizeof l->base, "%s", temp_path("cuda-lora-base.safetensors"));
    snprintf(l->path, sizeof l->path, "%s", temp_path("cuda-lora.safetensors"));
    made_file *base = base_file(&config, &f), *lora = calloc(1, sizeof *lora);
    write_file(base, l->base, config);
    graft_safetensors_close(f);
    l->merged = base_file(&config, &f);
    l->factor_bytes = 0;
    for (int i = 0; i < LAYERS; i++) add_layer(lora, l, i, mid, strength);
    write_file(lora, l->path, NULL);
    graft_safetensors_close(f);
}

static graft_model *with_lora(const graft_model *m, const char *path, double strength)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_lora_apply(m, NULL, path, strength, 0, NULL, &out, NULL, &e), &e);
    return out;
}

/* What the host's merge in a file of its own gives on the device. */
static void run_merged(made_lora *l, const char *precision, float out[OUT])
{
    const char *path = temp_path("cuda-lora-merged.safetensors");
    graft_safetensors *f = open_file(SD1);
    write_file(l->merged, path, graft_safetensors_metadata(f, "config"));
    l->merged = NULL;
    graft_safetensors_close(f);
    graft_engine *g = engine_in("cuda", precision);
    graft_model *m = load_model(g, path);
    run_model(m, out);
    graft_model_release(m);
    graft_engine_destroy(g);
    unlink(path);
}

static void finish_lora(made_lora *l)
{
    unlink(l->base);
    unlink(l->path);
    if (l->merged) finish_file(l->merged);
}

static const uint64_t input_bytes = (OUT + 1 + TOKENS * 48) * sizeof(float);

static void merged_as_on_the_host(const char *precision, bool mid)
{
    made_lora l;
    float want[OUT], plain[OUT], out[OUT];
    make_lora(&l, mid, 0.7f);
    run_merged(&l, precision, want);
    graft_engine *g = engine_in("cuda", precision);
    graft_model *m = load_model(g, l.base);
    run_model(m, plain);
    graft_model *n = with_lora(m, l.path, 0.7);
    run_model(n, out);
    CHECK(same_bits(out, want));
    CHECK(!same_bits(plain, want));
    run_model(m, out);
    CHECK(same_bits(out, plain));
    graft_model_release(n);
    graft_model_release(m);
    graft_engine_destroy(g);
    finish_lora(&l);
}

static void bits_of_the_host(void)
{
    merged_as_on_the_host("f32", false);
    merged_as_on_the_host("bf16", false);
    merged_as_on_the_host("bf16", true);
}

/* A change of strength brings factors to the device, and no weights. */
static void strength_costs_factors(void)
{
    made_lora l;
    float first[OUT], other[OUT], out[OUT];
    make_lora(&l, false, 1);
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, l.base), *n = with_lora(m, l.path, 0.7);
    uint64_t before = fake->upload_bytes;
    run_model(n, first);
    uint64_t all = fake->upload_bytes - before;
    graft_model_release(n);
    for (int i = 0; i < 2; i++) {
        uint64_t allocs = fake->allocs;
        before = fake->upload_bytes;
        n = with_lora(m, l.path, -0.25);
        run_model(n, other);
        CHECK_INT(fake->upload_bytes - before, l.factor_bytes + input_bytes);
        graft_model_release(n);
        before = fake->upload_bytes;
        n = with_lora(m, l.path, 0.7);
        run_model(n, out);
        CHECK_INT(fake->upload_bytes - before, l.factor_bytes + input_bytes);
        CHECK(same_bits(out, first));
        CHECK(!same_bits(out, other));
        graft_model_release(n);
        if (i) CHECK_INT(fake->allocs, allocs); /* one strength takes the other's place */
    }
    printf("     %llu bytes for the first run, %llu for another strength\n",
           (unsigned long long)all, (unsigned long long)(l.factor_bytes + input_bytes));
    graft_model_release(m);
    graft_engine_destroy(g);
    finish_lora(&l);
}

/* Two on top of each other, and a swap of the weights below them. */
static void stacked_and_swapped(void)
{
    made_lora l;
    float want[OUT], out[OUT], back[OUT];
    make_lora(&l, false, 0.5f);
    run_merged(&l, "bf16", want);
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, l.base), *n = with_lora(m, l.path, 1.5);
    graft_model *two = with_lora(n, l.path, -1.0), *other = NULL, *again = NULL;
    graft_err e = GRAFT_ERR_INIT;
    run_model(two, out);
    CHECK(difference(out, want, OUT) < 5e-2);
    const char *changed = temp_path("cuda-lora-other.safetensors");
    write_changed(changed);
    CHECK_OK(graft_model_swap(two, changed, false, NULL, &other, &e), &e);
    run_model(other, back);
    CHECK(!same_bits(out, back));
    CHECK_OK(graft_model_swap(other, l.base, false, NULL, &again, &e), &e);
    run_model(again, back);
    CHECK(same_bits(out, back));
    graft_model_release(again);
    graft_model_release(other);
    graft_model_release(two);
    graft_model_release(n);
    graft_model_release(m);
    graft_engine_destroy(g);
    unlink(changed);
    finish_lora(&l);
}

/* A run of the base and two of the LoRA; returns what came to the device for the last. */
static uint64_t run_strengths(const made_lora *l, graft_quant quant, float out[OUT],
                              uint64_t *needed)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = open_quantized(g, l->base, quant), *n;
    graft_packs_stats stats;
    run_model(m, out);
    graft_packs_stats_get(g->packs, &stats);
    *needed = stats.bytes + graft_arenas_bytes(g->arenas);
    n = with_lora(m, l->path, 0.3);
    run_model(n, out);
    graft_model_release(n);
    uint64_t before = fake->upload_bytes;
    n = with_lora(m, l->path, 0.7);
    run_model(n, out);
    before = fake->upload_bytes - before;
    graft_model_release(n);
    graft_model_release(m);
    graft_engine_destroy(g);
    return before;
}

/* Room for the merged weights and not for those they are made from: the host merges, and the bits
 * are the same. */
static void without_room(graft_quant quant)
{
    made_lora l;
    float out[2][OUT];
    int64_t all = fake->memory;
    uint64_t needed, unused;
    make_lora(&l, false, 1);
    uint64_t merged = run_strengths(&l, quant, out[0], &needed);
    CHECK_INT(merged, l.factor_bytes + input_bytes);
    fake->memory =
        2 * (int64_t)needed; /* half of a device's memory is for weights, less the arena */
    uint64_t whole = run_strengths(&l, quant, out[1], &unused);
    fake->memory = all;
    printf("     quant %d: %llu bytes, %llu without room\n", (int)quant, (unsigned long long)merged,
           (unsigned long long)whole);
    CHECK(whole > merged * 3 / 2);
    CHECK(same_bits(out[0], out[1]));
    finish_lora(&l);
}

static void host_merges_without_room(void)
{
    without_room(GRAFT_QUANT_NONE);
    without_room(GRAFT_QUANT_INT8);
}

/* A run with this limit, 0: without; returns what came to the device for its weights. */
static uint64_t run_within(const made_lora *l, bool lora, uint64_t limit, float out[OUT],
                           uint64_t *all)
{
    graft_engine *g = engine_in("cuda", "bf16");
    g->max_bytes = limit;
    graft_packs_use_slabs(g->packs, !limit);
    graft_model *m = load_model(g, l->base), *n = lora ? with_lora(m, l->path, 0.7) : m;
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_engine_describe(g, "cuda", NULL, &e), &e);
    const uint64_t before = fake->upload_bytes;
    CHECK_OK(graft_model_bind(n, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    const uint64_t bytes = fake->upload_bytes - before;
    CHECK((b->offload != NULL) == (limit > 0));
    one_run(b, g, out, NULL);
    *all = (uint64_t)b->exe->arena_bytes + b->exe->weight_bytes;
    graft_binding_release(b);
    if (lora) graft_model_release(n);
    graft_model_release(m);
    graft_engine_destroy(g);
    return bytes;
}

/* Where some weights stay away from the device (engine/exec/offload.h) what passes through it is
 * merged there: beside the files' weights the factors come, and nothing else. With less memory the
 * host merges what is too large for that. */
static void merged_as_they_pass(void)
{
    made_lora l;
    float want[OUT], out[OUT], plain[OUT];
    uint64_t all, unused;
    make_lora(&l, false, 1);
    run_within(&l, true, 0, want, &all);
    for (int i = 0; i < 2; i++) {
        const uint64_t limit = i ? all - 1 : all * 3 / 5;
        const uint64_t base = run_within(&l, false, limit, plain, &unused);
        const uint64_t bytes = run_within(&l, true, limit, out, &unused);
        CHECK(bytes > base && bytes <= base + l.factor_bytes);
        if (i) CHECK_INT(bytes, base + l.factor_bytes);
        CHECK(same_bits(out, want));
        CHECK(!same_bits(out, plain));
    }
    finish_lora(&l);
}

/* Forms that are no product of two matrices are merged by the host. */
static void other_forms(void)
{
    static const char *const forms[] = {"loha", "lokr", "difference", "dora"};
    graft_engine *g = engine_in("cuda", "f32"), *host = engine_in("cpu", "f32");
    graft_model *m = load_model(g, SD1), *h = load_model(host, SD1);
    float plain[OUT], got[OUT], want[OUT], again[OUT];
    run_model(m, plain);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char path[512];
        snprintf(path, sizeof path, GRAFT_SOURCE_DIR "/golden/lora/%s.safetensors", forms[i]);
        graft_model *l = with_lora(m, path, 0.8), *c = with_lora(h, path, 0.8);
        run_model(l, got);
        run_model(c, want);
        CHECK(difference(got, want, OUT) < 1e-4);
        CHECK(difference(plain, want, OUT) > 1e-3);
        graft_model_release(l);
        graft_model_release(c);
        run_model(m, again);
        CHECK(same_bits(again, plain));
    }
    graft_model_release(m);
    graft_model_release(h);
    graft_engine_destroy(g);
    graft_engine_destroy(host);
}

/* What no engine asks for is refused before anything is launched. */
static void wrong_calls(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1);
    graft_backend *b = NULL;
    graft_dtype t;
    graft_err e = GRAFT_ERR_INIT;
    char text[256];
    CHECK_OK(graft_options_resolve(g, &m->options, &b, &t, &e), &e);
    const graft_kernels_more *more = graft_backend_more(b);
    graft_op_desc d;
    memset(&d, 0, sizeof d);
    d.size = sizeof d;
    d.op = GRAFT_OP_LINEAR;
    d.in[0] = d.in[1] = d.out =
        (graft_tensor_desc){.dtype = GRAFT_BF16, .rank = 2, .dim = {16, 16}, .stride = {16, 1}};
    d.in[1].constant = 1;
    d.in[1].dtype = GRAFT_F32;
    graft_kernel *k = NULL;
    graft_kernel_info info = {.size = sizeof info};
    CHECK_INT(b->api->prepare(b->device, &d, 0, &k, &info, text, sizeof text), GRAFT_OK);
    float *p = b->api->alloc(b->device, 4096), factor[64] = {0};
    uint64_t launches = fake->launches;
    graft_low_rank term = {factor, factor, GRAFT_F32, GRAFT_F32, 0, 8, 2, 1, 0};
    graft_weight_part part = {p, 16, GRAFT_F32, 1, &term};
    part.rows = 15;
    CHECK_INT(more->pack_merged(k, 1, &part, 1, p), GRAFT_E_ARG);
    part.rows = 17;
    CHECK_INT(more->pack_merged(k, 1, &part, 1, p), GRAFT_E_ARG);
    part.rows = 16;
    CHECK_INT(more->pack_merged(k, 0, &part, 1, p), GRAFT_E_ARG); /* no constant */
    part.dtype = GRAFT_Q8;
    CHECK_INT(more->pack_merged(k, 1, &part, 1, p), GRAFT_E_UNSUPPORTED);
    part.dtype = GRAFT_F32;
    term.first = 9; /* past the end */
    CHECK_INT(more->pack_merged(k, 1, &part, 1, p), GRAFT_E_UNSUPPORTED);
    term.first = 0;
    term.rank = INT64_MAX;
    CHECK_INT(more->pack_merged(k, 1, &part, 1, p), GRAFT_E_UNSUPPORTED);
    const float *in[5] = {p, p, p, p, p};
    const double one[5] = {1, 1, 1, 1, 1};
    CHECK_INT(more->mix(b->device, p, 16, 5, one, in), GRAFT_E_ARG);
    CHECK_INT(more->mix(b->device, p, 16, 0, one, in), GRAFT_E_ARG);
    CHECK_INT(more->guide(b->device, &(graft_guidance){.entries = 65, .n = 1}), GRAFT_E_ARG);
    const graft_excerpt wide = {
        .pictures = 1, .channels = 1, .h = 2, .w = 2, .x = 1, .height = 1, .width = 2};
    CHECK_INT(more->cut(b->device, &wide), GRAFT_E_ARG);
    CHECK_INT(more->weigh(b->device, &wide), GRAFT_E_ARG);
    CHECK_INT(
        more->cut(
            b->device,
            &(graft_excerpt){
                .pictures = 1 << 16, .channels = 1 << 16, .h = 1, .w = 1, .height = 1, .width = 1}),
        GRAFT_E_LIMIT);
    CHECK_INT(more->change(b->device, &(graft_change){.n = 4, .per = 4, .area = 2, .kind = 99}),
              GRAFT_E_ARG);
    CHECK_INT(more->change(b->device, &(graft_change){.n = 4, .per = 8, .area = 2}), GRAFT_E_ARG);
    CHECK_INT(fake->launches, launches);
    b->api->free(b->device, p);
    b->api->release(k);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* Every allocation of the way fails once: the error is said, and nothing is broken or lost. */
static void memory_failures(void)
{
    made_lora l;
    float want[OUT], out[OUT];
    make_lora(&l, true, 1);
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, l.base), *n = with_lora(m, l.path, 0.7);
    run_model(n, want);
    graft_model_release(n);
    int failed = 0, step = 1;
    for (int64_t at = 1; at < 100000; at += step, step += SANITIZED ? 40 : 3) {
        graft_err e = GRAFT_ERR_INIT;
        n = with_lora(m, l.path, 0.7);
        graft_alloc_fail_at(at);
        graft_status st = try_model(n, out, &e);
        graft_alloc_fail_at(0);
        if (st) CHECK_INT(st, GRAFT_E_NOMEM);
        failed += st != GRAFT_OK;
        if (!st) CHECK(same_bits(out, want));
        graft_packs_trim(g->packs, 0);
        graft_model_release(n);
        if (!st && at > 2000) break;
    }
    CHECK(failed > 3);
    n = with_lora(m, l.path, 0.7);
    run_model(n, out);
    CHECK(same_bits(out, want));
    graft_model_release(n);
    graft_model_release(m);
    graft_engine_destroy(g);
    finish_lora(&l);
}

int main(void)
{
    if (!open_fake_without_wgmma()) return test_end();
    if (!host_has_fma())
        puts("skipped: the host's bits: this processor has no fused multiply-adds");
    else
        RUN(bits_of_the_host);
    RUN(strength_costs_factors);
    RUN(stacked_and_swapped);
    if (host_has_fma()) RUN(host_merges_without_room);
    if (host_has_fma()) RUN(merged_as_they_pass);
    RUN(other_forms);
    RUN(wrong_calls);
    RUN(memory_failures);
    return close_fake();
}
