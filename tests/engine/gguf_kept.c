/* Linear layers of GGUF files keep their blocks in memory: what they compute is what the same file
 * gives as floats but for the order of sums, whatever else is done to the model. */
#include <math.h>

#include "tests/engine/calibrate.h"
#include "tests/engine/gguf_network.h"
#include "tests/engine/kept.h"

static graft_engine *kept, *floats;

static void stay_in_memory(types_of *type)
{
    const char *path = temp_path("several.gguf");
    const uint64_t file = write_network(path, type);
    graft_model *a = load_model(kept, path), *b = load_model(floats, path);
    CHECK(count_kept(a) > 30 && count_kept(b) == 0);
    CHECK((double)weight_bytes(a) < 1.05 * (double)file &&
          1.4 * (double)weight_bytes(a) < (double)weight_bytes(b));
    close_to(a, b, SUMS);
    check_layer(a, "time_embed.0.weight", 0, 1);
    const bool one = type == all_q4_k;
    check_layer(a, BLOCK "attn1.to_q.weight", Q4_K, one ? 3 : 2);
    check_layer(a, BLOCK "attn1.to_v.weight", one ? Q4_K : Q6_K, one ? 3 : 1);
    check_layer(a, BLOCK "attn2.to_k.weight", one ? Q4_K : Q4_0, 2);
    check_layer(a, BLOCK "ff.net.0.proj.weight", one ? Q4_K : Q5_1, 1);
    RELEASE_ALL(a, b);
    unlink(path);
}

static void several_types(void)
{
    stay_in_memory(several);
}

static void one_type(void)
{
    stay_in_memory(all_q4_k);
}

/* They stay packed whichever part of several they are in. */
static void in_parts(void)
{
    enum { PARTS = 3 };
    const char *path = temp_path("several.gguf");
    char stem[400], first[420];
    float one[OUT], two[OUT];
    write_network(path, several);
    graft_safetensors *f = open_file(path);
    const size_t n = graft_safetensors_count(f);
    graft_st_tensor *t = calloc(n, sizeof *t);
    if (!t) abort();
    for (size_t i = 0; i < n; i++) t[i] = *graft_safetensors_at(f, i);
    snprintf(stem, sizeof stem, "%s", temp_path("parts"));
    gguf_write_parts(stem, PARTS, "sd1", config_of(SD1), t, n, NULL);
    gguf_part_path(stem, 1, PARTS, first, sizeof first);
    graft_model *a = load_model(kept, path), *b = load_model(kept, first);
    CHECK_INT(count_kept(b), count_kept(a));
    run_model(a, one);
    run_model(b, two);
    CHECK(same_bits(one, two));
    RELEASE_ALL(a, b);
    free(t);
    graft_safetensors_close(f);
    gguf_remove_parts(stem, PARTS);
    unlink(path);
}

/* What a library without such operators gets is what there was before. */
static void other_backends(void)
{
    const char *path = temp_path("several.gguf");
    write_network(path, several);
    graft_engine *ref = make_engine("ref");
    ref->floats_most = 0;
    graft_model *a = load_model(ref, path);
    float one[OUT], two[OUT];
    CHECK(count_kept(a) > 30);
    run_model(a, one);
    graft_backend *own = &ref->backends.list[0];
    for (size_t i = 0; i < ref->backends.count; i++)
        if (strcmp(ref->backends.list[i].name, "ref") == 0) own = &ref->backends.list[i];
    graft_kernels lib = *own->lib;
    graft_kernels_more more = *lib.more;
    more.wants &= ~GRAFT_WANTS_BLOCKS;
    lib.more = &more;
    own->lib = &lib;
    CHECK_INT(count_kept(a), 0);
    run_model(a, two);
    CHECK(difference(one, two, OUT) < SUMS);
    graft_model_release(a);
    graft_engine_destroy(ref);
    unlink(path);
}

/* The network as it is with its patches and sums, in a file like that at `from`: what was blocks
 * and is changed is packed from its values as Q8_0. */
static void write_changed(const graft_model *m, const char *from, const char *path)
{
    graft_safetensors *f = open_file(from);
    made_file *to = network();
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < to->n; i++) {
        graft_st_tensor *t = &to->tensor[i];
        const graft_st_tensor *own = graft_safetensors_find(f, t->name);
        const char *name = t->name + strlen(UNET);
        const size_t n = (size_t)graft_st_values(t);
        graft_weight_term term;
        float *v = (float *)(uintptr_t)t->data;
        CHECK_OK(graft_weights_patched_values(m->weights, name, t, (int64_t)n, v, &e), &e);
        if (!own->blocks || strncmp(name, "time_embed", 10) == 0) continue;
        uint8_t *p = malloc(own->bytes > n / 32 * 34 ? own->bytes : n / 32 * 34);
        const bool same = graft_weights_packed(m->weights, name, &term);
        if (!p) abort();
        if (same)
            memcpy(p, own->data, own->bytes);
        else
            graft_ggml_pack_q8_0(v, (int64_t)n, p);
        free(v);
        t->data = p;
        t->bytes = same ? own->bytes : n / 32 * 34;
        t->blocks = same ? own->blocks : graft_ggml_blocks_find(Q8_0);
    }
    gguf_file bytes = gguf_of("sd1", config_of(SD1), to->tensor, to->n);
    gguf_write(&bytes, path);
    free(bytes.data);
    finish_file(to);
    graft_safetensors_close(f);
}

/* The model, whose file is `from`, has the bits of one that has its layers so in a file. */
static void like_its_file(const graft_model *m, const char *from)
{
    const char *path = temp_path("changed.gguf");
    float one[OUT], two[OUT];
    write_changed(m, from, path);
    graft_model *n = load_model(kept, path);
    run_model(m, one);
    run_model(n, two);
    CHECK(same_bits(one, two));
    CHECK_INT(count_kept(m), count_kept(n));
    graft_model_release(n);
    unlink(path);
}

/* Patched layers are Q8_0, of whatever LoRA in whatever strength. */
static void with_loras(void)
{
    const char *path = temp_path("several.gguf");
    char lora[2][256];
    float plain[OUT], once[OUT], again[OUT];
    write_network(path, several);
    make_lora(lora[0], "one.safetensors");
    make_lora(lora[1], "two.safetensors");
    graft_model *a = load_model(kept, path), *b = load_model(floats, path);
    graft_model *c = with_lora(a, lora[0], 0.8), *d = with_lora(b, lora[0], 0.8);
    run_model(a, plain);
    run_model(c, once);
    CHECK(difference(once, plain, OUT) > 1e-3);
    close_to(c, d, 0.2 * difference(once, plain, OUT));
    like_its_file(c, path);
    check_layer(c, BLOCK "attn1.to_q.weight", Q8_0, 1);
    check_layer(c, BLOCK "attn1.to_k.weight", Q4_K, 1);
    CHECK_INT(count_kept(c), count_kept(a) + 1); /* k is alone, too; v was */
    const uint64_t built = graphs_built(kept);
    graft_model *weaker = with_lora(a, lora[0], 0.3), *other = with_lora(a, lora[1], 0.8);
    graft_model *none = with_lora(a, lora[0], 0);
    run_model(weaker, again);
    CHECK(!same_bits(again, once) && !same_bits(again, plain));
    run_model(other, again);
    CHECK(!same_bits(again, once) && !same_bits(again, plain));
    run_model(none, again);
    CHECK(same_bits(again, plain));
    run_model(c, again);
    CHECK(same_bits(again, once));
    CHECK_INT(graphs_built(kept), built);
    RELEASE_ALL(a, b, c, d, weaker, other, none);
    unlink(path);
    unlink(lora[0]);
    unlink(lora[1]);
}

static void swapped(void)
{
    const char *path[] = {temp_path("a.gguf"), temp_path("b.gguf"), temp_path("c.gguf")};
    float want[OUT], got[OUT];
    for (int i = 0; i < 3; i++) write_network(path[i], i < 2 ? several : others);
    graft_model *a = load_model(kept, path[0]);
    run_model(a, got);
    const uint64_t built = graphs_built(kept);
    for (int i = 1; i < 3; i++) {
        graft_model *to = swap_weights(a, path[i], false);
        run_model(to, got);
        CHECK_INT(graphs_built(kept), built + (i == 2)); /* of other types another graph */
        CHECK(count_kept(to) > 30);
        graft_model *b = load_model(kept, path[i]);
        run_model(b, want);
        CHECK(same_bits(got, want));
        graft_model *back = swap_weights(to, path[0], true);
        run_model(a, want);
        run_model(back, got);
        CHECK(same_bits(got, want));
        RELEASE_ALL(to, b, back);
    }
    graft_model *to = swap_weights(a, SD1, true); /* and of none */
    CHECK_INT(count_kept(to), 0);
    graft_model *b = load_model(kept, SD1);
    run_model(to, got);
    run_model(b, want);
    CHECK(same_bits(got, want));
    RELEASE_ALL(a, to, b);
    for (int i = 0; i < 3; i++) unlink(path[i]);
}

/* Sums of files that are all of blocks are Q8_0; with others they are floats. */
static void merges(void)
{
    const char *path[] = {temp_path("a.gguf"), temp_path("b.gguf")};
    for (int i = 0; i < 2; i++) write_network(path[i], several);
    graft_model *a = load_model(kept, path[0]), *b = load_model(kept, path[1]);
    graft_model *c = load_model(floats, path[0]), *m = simple(a, b, 0.4);
    check_layer(m, BLOCK "attn1.to_q.weight", Q8_0, 3);
    like_its_file(m, path[0]);
    graft_model *all = simple(a, b, 1); /* the first alone, as it is in its file */
    check_layer(all, BLOCK "attn1.to_v.weight", Q6_K, 1);
    close_to(all, c, SUMS);
    graft_model *other = load_model(kept, SD1), *mixed = simple(a, other, 0.4);
    CHECK_INT(count_kept(mixed), 0);
    RELEASE_ALL(a, b, c, m, all, other, mixed);
    for (int i = 0; i < 2; i++) unlink(path[i]);
}

/* Layers in 8 bits, and all others as floats. */
static graft_model *in_8_bits(const graft_model *m)
{
    const graft_quant_limits linear = {{false, true, false}, {1, 1, 1}, 0};
    const graft_net_shape shape = {
        .batch = 1, .height = SIDE, .width = SIDE, .tokens = TOKENS, .act_dtype = GRAFT_F32};
    graft_quant_plan *p = NULL;
    graft_model *q = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_quant_plan_create(&m->arch, &shape, &p, &e), &e);
    graft_quant_plan_select(p, &linear);
    p->layer[graft_quant_plan_find(p, BLOCK "attn1.to_out.0")].reason = GRAFT_QUANT_KEPT;
    CHECK_OK(graft_model_with_plan(m, p, &q, &e), &e);
    graft_quant_plan_destroy(p);
    return q;
}

static void quantized(void)
{
    const char *path = temp_path("several.gguf");
    float one[OUT], two[OUT];
    write_network(path, several);
    graft_model *a = load_model(kept, path), *b = load_model(floats, path);
    graft_model *c = in_8_bits(a), *d = in_8_bits(b);
    CHECK_INT(count_kept(c), 0);
    run_model(c, one);
    run_model(d, two);
    CHECK(same_bits(one, two));
    RELEASE_ALL(a, b, c, d);
    unlink(path);
}

/* QuantizeModel compares with floats, and chooses as it does without blocks. */
static void calibrated(void)
{
    const char *path = temp_path("several.gguf");
    float got[2][LATENT];
    write_network(path, several);
    for (int i = 0; i < 2; i++) {
        engine = i ? floats : kept;
        scene s = open_scene(path);
        graft_quantize_options o = options(&s);
        o.attention = on_ref;
        graft_model *q = quantize(s.model, &o);
        CHECK(q->quant.bits == 8);
        CHECK_INT(count_kept(q), 0);
        sampled(q, &s, got[i]);
        graft_model_release(q);
        close_scene(&s);
    }
    CHECK(same_latent(got[0], got[1]) && isfinite(got[0][0]));
    unlink(path);
}

static void reports(void)
{
    const char *path = temp_path("several.gguf");
    graft_err e = GRAFT_ERR_INIT;
    write_network(path, several);
    for (int i = 0; i < 2; i++) {
        char *text = NULL;
        graft_model *m = load_model(i ? floats : kept, path);
        CHECK_OK(graft_model_report(m, NULL, NULL, &text, NULL, &e), &e);
        CHECK(text && !strstr(text, "Q4_0, Q5_1, Q8_0, Q4_K, Q6_K") == (i == 1));
        free(text);
        graft_model_release(m);
    }
    engine = kept; /* what a quantizer takes is told by its own report */
    scene s = open_scene(path);
    graft_quantize_options o = options(&s);
    o.positive = o.negative = NULL;
    o.latent = NULL;
    graft_model *q = quantize(s.model, &o);
    char *text = NULL;
    CHECK_OK(graft_model_report(q, NULL, NULL, &text, NULL, &e), &e);
    CHECK(q->quantizer && text && !strstr(text, "weights stay"));
    free(text);
    graft_model_release(q);
    close_scene(&s);
    unlink(path);
}

static bool kept_on(const graft_model *m, uint64_t device)
{
    graft_backend b = m->engine->backends.list[0];
    b.info.host_memory = 0;
    b.info.memory_total = device;
    return graft_model_keeps(m, &b, GRAFT_BF16, m->weights);
}

/* What a device has counts in the place of the host's memory, and beside every limit. `all`: packed
 * values. */
static void half_of_a_device(const graft_model *m, uint64_t all)
{
    graft_engine *g = m->engine;
    const uint64_t host = g->floats_most;
    CHECK(!kept_on(m, 4 * all) && kept_on(m, 4 * all - 2));
    g->floats_most = 2 * all - 2; /* a small host, which has no need to hold them */
    CHECK(!kept_on(m, 4 * all) && kept_on(m, 0));
    g->floats_of_host = false;
    CHECK(kept_on(m, 4 * all)); /* but a limit holds for a device, too */
    g->floats_most = 2 * all;
    CHECK(!kept_on(m, 4 * all) && kept_on(m, 4 * all - 2));
    g->floats_most = 0; /* blocks, and floats, whatever there is */
    CHECK(kept_on(m, 1000 * all));
    g->floats_most = UINT64_MAX;
    CHECK(!kept_on(m, 2));
    g->floats_most = host;
    g->floats_of_host = true;
}

/* Unless somebody says so blocks stay where floats would take more than half of what memory there
 * may be. */
static void half_of_the_memory(void)
{
    const char *path = temp_path("several.gguf");
    write_network(path, several);
    graft_engine *usual = make_engine("cpu");
    graft_model *m = load_model(usual, path);
    CHECK_INT(count_kept(m), 0);
    const uint64_t most = usual->floats_most;
    usual->floats_most = 4096;
    CHECK(count_kept(m) > 30);
    usual->floats_most = most;
    uint64_t all = 0;
    graft_safetensors *f = open_file(path);
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        if (t->blocks) all += (uint64_t)graft_st_values(t);
    }
    graft_safetensors_close(f);
    CHECK(all > 100000);
    const graft_backend *b = &usual->backends.list[0];
    for (int k = 0; k < 2; k++) { /* a model's own limit, of twice as many bytes and one less */
        m->options.max_bytes = (int64_t)(2 * 4 * all) - 2 * k;
        CHECK_INT(graft_model_keeps(m, b, GRAFT_F32, m->weights), k);
        CHECK(!graft_model_keeps(m, b, GRAFT_BF16, m->weights));
    }
    m->options.max_bytes = 0;
    half_of_a_device(m, all);
    graft_model_release(m);
    graft_engine_destroy(usual);
    unlink(path);
}

static void asked_for_floats(void)
{
    setenv("GRAFT_PACKED", "floats", 1);
    floats = make_engine("cpu");
    setenv("GRAFT_PACKED", "tensors", 1);
    last_log[0] = 0;
    kept = make_engine("cpu");
    CHECK(strstr(last_log, "GRAFT_PACKED") && strstr(last_log, "tensors"));
    const uint64_t half = kept->floats_most;
    CHECK(half > (uint64_t)1 << 28 && half < (uint64_t)1 << 50 &&
          floats->floats_most == UINT64_MAX);
    graft_engine_destroy(kept);
    setenv("GRAFT_PACKED", "auto", 1);
    kept = make_engine("cpu");
    CHECK(kept->floats_most == half);
    graft_engine_destroy(kept);
    setenv("GRAFT_PACKED", "keep", 1);
    kept = make_engine("cpu");
    CHECK(kept->floats_most == 0);
    unsetenv("GRAFT_PACKED");
}

int main(void)
{
    RUN(asked_for_floats);
    RUN(half_of_the_memory);
    RUN(several_types);
    RUN(one_type);
    RUN(other_backends);
    RUN(with_loras);
    RUN(swapped);
    RUN(merges);
    RUN(quantized);
    RUN(calibrated);
    RUN(reports);
    RUN(in_parts);
    graft_engine_destroy(kept);
    graft_engine_destroy(floats);
    return test_end();
}
