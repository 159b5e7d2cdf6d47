/* Prompts of FLUX.1 and Stable Diffusion 3 that are longer than usual: many lengths run in one
 * graph, beside each other, and what fills a prompt up changes nothing. */
#include <math.h>

#include "engine/models/transformers/flux.h"
#include "engine/models/transformers/mmdit.h"
#include "tests/engine/flow_run.h"
#include "tests/engine/network_files.h"

static graft_engine *engine;

#define FLUX GRAFT_SOURCE_DIR "/golden/small/flux_dev.safetensors"
#define SD3  GRAFT_SOURCE_DIR "/golden/small/mmdit_sd3.safetensors"

enum { VALUES = 16 * SIDE * SIDE, WIDTH_MAX = 64, WORDS_MAX = 384 };

typedef struct network {
    const char *file;
    int usual; /* tokens of a prompt that is not counted */
} network;
static const network networks[] = {{FLUX, GRAFT_FLUX_TOKENS}, {SD3, GRAFT_MMDIT_TOKENS}};

static int up(int words)
{
    return (words + GRAFT_NET_TOKENS - 1) / GRAFT_NET_TOKENS * GRAFT_NET_TOKENS;
}

/* The network at t, of a prompt of so many words in a graph for `all`, what is behind them being
 * anything; `again`: one row more, without the first block. */
static void evaluate(const graft_model *m, uint64_t seed, int words, int all, bool again,
                     const float *x, float t, float *out)
{
    static float context[WORDS_MAX * WIDTH_MAX];
    const int64_t width = m->arch.context_dim;
    const graft_unet_use use = {.pictures = 1,
                                .entries = 1,
                                .height = SIDE,
                                .width = SIDE,
                                .tokens = all,
                                .perturbed = again};
    float y[128] = {0};
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(width <= WIDTH_MAX && all <= WORDS_MAX && m->arch.adm_channels < 128);
    for (int64_t i = 0; i < all * width; i++)
        context[i] = i < words * width ? fixed_value(seed + (uint64_t)i) : 5;
    for (int32_t i = 0; i < m->arch.flux.pooled_dim; i++) y[i] = fixed_value(40000 + (uint64_t)i);
    if (m->arch.flux.guidance) y[m->arch.adm_channels - 1] = 3.5f;
    y[m->arch.adm_channels] = (float)words;
    CHECK_OK(graft_model_bind_guided(m, &use, NULL, &b, &e), &e);
    if (b)
        CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){x, &t, context, y},
                               (void *[]){out}, NULL, NULL, &e),
                 &e);
    graft_binding_release(b);
}

/* One step of Euler's from zeros, from sigma 1 to 0. */
static void by_hand(const graft_model *m, const int words[2], float cfg, float out[VALUES])
{
    float x[VALUES] = {0}, v[VALUES], w[VALUES];
    evaluate(m, 20000, words[0], words[0], false, x, 1000, v);
    evaluate(m, 60000, words[1], words[1], false, x, 1000, w);
    for (int k = 0; k < VALUES; k++)
        out[k] = (float)((double)-(w[k] + cfg * (v[k] - w[k])) / m->scale_factor + m->latent_shift);
}

/* Those of up to 64 tokens more than the last multiple of 64 share a graph. */
static void sampled_alike(const network *n)
{
    graft_model *m = load_model(engine, n->file);
    const int next = up(n->usual + 1);
    const int words[][2] = {
        {n->usual + 1, next - 7}, {next, next - 1}, {next - 3, next - 3}, {next, next}};
    float got[VALUES], want[VALUES], before[VALUES] = {0};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        graft_cond *a = prompt_of(m, 20000, words[i][0]), *b = prompt_of(m, 60000, words[i][1]);
        const uint64_t built = graphs_built(engine);
        sampled_in(1, m, a, b, 4, 1, got);
        CHECK_INT(graphs_built(engine) - built, i == 0);
        by_hand(m, words[i], 4, want);
        CHECK(difference(got, want, VALUES) < 2e-4 && difference(got, before, VALUES) > 1e-3);
        memcpy(before, got, sizeof got);
        graft_cond_release(a);
        graft_cond_release(b);
    }
    graft_model_release(m);
}

static void long_prompts(void)
{
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) sampled_alike(&networks[i]);
}

/* The usual ones are seen as they are. */
static void usual_prompts(void)
{
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        graft_model *m = load_model(engine, networks[i].file);
        const int usual = networks[i].usual;
        CHECK(!graft_net_counts_tokens(&m->arch, usual) &&
              graft_net_counts_tokens(&m->arch, usual + 1));
        CHECK_INT(graft_net_tokens(&m->arch, usual), usual);
        CHECK_INT(graft_net_tokens(&m->arch, usual - 5), usual - 5);
        CHECK_INT(graft_net_tokens(&m->arch, usual + 1), up(usual + 1));
        CHECK(graft_net_tokens(&m->arch, INT64_MAX) == INT64_MAX);
        graft_model_release(m);
    }
}

/* Rows that are computed a second time, without a block, count the same tokens. */
static void rows_without_blocks(void)
{
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        const int words = networks[i].usual + 9, all = up(words);
        const graft_skip_options o = {"0", "", 3, 0, 1, 0};
        float x[VALUES], got[2 * VALUES], want[2 * VALUES];
        graft_model *m = load_model(engine, networks[i].file), *skips = NULL;
        graft_err e = GRAFT_ERR_INIT;
        for (size_t k = 0; k < VALUES; k++) x[k] = fixed_value(k);
        CHECK_OK(graft_model_skip_blocks(m, &o, &skips, &e), &e);
        evaluate(skips, 20000, words, words, true, x, 400, want);
        evaluate(skips, 20000, words, all, true, x, 400, got);
        CHECK(difference(got, want, 2 * VALUES) < 1e-5);
        CHECK(difference(got, got + VALUES, VALUES) > 1e-3);
        RELEASE_ALL(m, skips);
    }
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(usual_prompts);
    RUN(long_prompts);
    RUN(rows_without_blocks);
    graft_engine_destroy(engine);
    return test_end();
}
