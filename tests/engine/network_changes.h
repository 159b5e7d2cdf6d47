/* What is done to any transformer alike: quantization, EasyCache and merges, on small ones. */
#ifndef GRAFT_TESTS_ENGINE_NETWORK_CHANGES_H
#define GRAFT_TESTS_ENGINE_NETWORK_CHANGES_H
#include "tests/engine/flow_run.h"
#include "tests/engine/network_files.h"

/* Every layer and every attention can be chosen but for those that are `kept`, of which the counts
 * know as well; with all of them the network computes something else, but not much. */
typedef struct quantized_layers {
    bool (*kept)(const char *name);
    int64_t tokens; /* of the prompt in the plan */
    size_t attentions, linears;
} quantized_layers;

static inline void quantized_as(graft_engine *g, const char *checkpoint,
                                const quantized_layers *want, run_network *run)
{
    const graft_quant_limits everything = {{true, true, true}, {1, 1, 1}, 0};
    const graft_net_shape shape = {
        .batch = 1, .height = SIDE, .width = SIDE, .tokens = want->tokens, .act_dtype = GRAFT_F32};
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(g, checkpoint), *q = NULL;
    graft_quant_plan *p = NULL;
    size_t of[GRAFT_LAYER_KINDS] = {0};
    CHECK_OK(graft_quant_plan_create(&m->arch, &shape, &p, &e), &e);
    graft_quant_plan_select(p, &everything);
    for (size_t i = 0; i < p->n; i++) {
        const graft_quant_layer *l = &p->layer[i];
        CHECK_INT(l->reason, want->kept(l->name) ? GRAFT_QUANT_KEPT : GRAFT_QUANT_CHOSEN);
        of[l->kind]++;
    }
    CHECK_INT(of[GRAFT_LAYER_ATTENTION], want->attentions);
    CHECK_INT(of[GRAFT_LAYER_LINEAR], want->linears);
    CHECK_OK(graft_model_with_plan(m, p, &q, &e), &e);
    const size_t n = answer_values(m);
    float *plain = malloc(n * sizeof *plain), *got = malloc(n * sizeof *got);
    run(m, plain);
    run(q, got);
    CHECK(!same_answers(m, plain, got) && difference(got, plain, n) < 0.2);
    free(plain);
    free(got);
    graft_quant_plan_destroy(p);
    RELEASE_ALL(m, q);
}

/* QuantizeModel on prompts of so many words, and EasyCache. */
static inline void measured_on(graft_engine *g, const char *checkpoint, int words, int more)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(g, checkpoint), *q = NULL, *easy = NULL;
    const size_t n = answer_values(m);
    float *plain = malloc(n * sizeof *plain), *got = malloc(n * sizeof *got);
    graft_cond *c = prompt_of(m, 20000, words), *d = prompt_of(m, 60000, more);
    graft_latent *l = NULL;
    const int64_t shape[4] = {1, m->arch.latent_channels, SIDE, SIDE};
    CHECK_OK(graft_latent_create(shape, &l, &e), &e);
    if (l) memset(graft_latent_writable(l), 0, n * sizeof *got);
    const graft_quantize_options o = {.bits = 8,
                                      .linear = true,
                                      .linear_mse_threshold = 0.5,
                                      .attention = true,
                                      .attention_mse_threshold = 0.5,
                                      .positive = c,
                                      .negative = d,
                                      .latent = l,
                                      .steps = 2,
                                      .cfg = 4};
    CHECK_OK(graft_model_quantize(m, &o, NULL, &q, NULL, &e), &e);
    sampled(m, c, d, 4, plain);
    sampled(q, c, d, 4, got);
    /* Three steps of guidance, which multiplies what one prediction is off. */
    CHECK(difference(got, plain, n) > 0 && difference(got, plain, n) < 0.4);
    const graft_easycache_options cache = {.threshold = 3, .end = 1};
    CHECK_OK(graft_model_easycache(m, &cache, &easy, &e), &e);
    sampled(m, c, d, 2, plain); /* less guidance: what it makes of a step is not too far off */
    sampled(easy, c, d, 2, got);
    CHECK(difference(got, plain, n) > 0);
    free(plain);
    free(got);
    graft_latent_release(l);
    graft_cond_release(c);
    graft_cond_release(d);
    RELEASE_ALL(m, q, easy);
}

/* Half of a network and half of itself are the network, and so are two networks of half its weights
 * together, of which one is another. config: of the checkpoint's copy, or NULL. */
static inline void halves_add_up(graft_engine *g, const char *checkpoint, const char *config,
                                 run_network *run)
{
    const char *path = temp_path("other.safetensors");
    made_file *f = part_of_file(checkpoint, UNET);
    for (size_t i = 0; i < f->n; i++)
        for (int64_t k = 0; k < shape_count(f->tensor[i].shape, f->tensor[i].rank); k++)
            ((float *)(uintptr_t)f->tensor[i].data)[k] *= 0.5f;
    write_file(f, path, config);
    graft_model *m = load_model(g, checkpoint), *half = load_model(g, path);
    graft_model *same = simple(m, m, 0.5), *sum = plus(half, half);
    const size_t n = answer_values(m);
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    run(m, want);
    run(same, got);
    CHECK(difference(got, want, n) < 1e-4);
    run(sum, got);
    CHECK(difference(got, want, n) < 1e-4);
    run(half, got);
    CHECK(difference(got, want, n) > 1e-3);
    free(want);
    free(got);
    RELEASE_ALL(m, half, same, sum);
    unlink(path);
}
#endif
