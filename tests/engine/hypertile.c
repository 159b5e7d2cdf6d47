/* HyperTile: whose turn it is, what is compiled for it, and that it goes with all else that a model
 * can have. What it computes, and which grids, is held against PyTorch in tests/golden. */
#include "tests/engine/calibrate.h"

static graft_model *tiled(const graft_model *m, int64_t tile, int64_t swap)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_hypertile_options o = {tile, swap, 1, false};
    CHECK_OK(graft_model_hypertile(m, &o, &out, &e), &e);
    return out;
}

static void turns_go_round(void)
{
    static const int two[] = {0, 1, 1, 0, 1, 0, 0, 1}, three[] = {0, 1, 2, 1, 2, 0, 2, 0, 1, 1};
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        CHECK_INT(graft_hypertile_turn(i, 2), two[i]);
    for (size_t i = 0; i < sizeof three / sizeof *three; i++)
        CHECK_INT(graft_hypertile_turn(i, 3), three[i]);
    for (size_t i = 0; i < 9; i++) CHECK_INT(graft_hypertile_turn(i * 1000003, 1), 0);
    for (int n = 2; n <= GRAFT_HYPERTILE_TURNS; n++) /* so do DeepCache's whole steps */
        for (size_t every = 1; every <= 6; every++) {
            bool other = false;
            for (size_t i = 0; i < 60; i += every) other = other || graft_hypertile_turn(i, n) != 0;
            CHECK(other);
        }
}

/* 8x8 cells in tiles of at least 4: 2x1 and 1x2 of them take turns. */
static void one_graph_for_each_turn(void)
{
    scene s = open_scene(SD1);
    float plain[LATENT], first[LATENT], again[LATENT];
    sampled(s.model, &s, plain);
    uint64_t before = graphs_built(engine);
    graft_model *m = tiled(s.model, 32, 2);
    CHECK_INT(graft_model_turns(m, 8, 8), 2);
    sampled(m, &s, first);
    CHECK_INT(graphs_built(engine), before + 2);
    CHECK(!same_latent(first, plain));
    sampled(m, &s, again);
    CHECK(same_latent(first, again));
    CHECK_INT(graphs_built(engine), before + 2);
    graft_model *four = tiled(s.model, 32, 100); /* there are no more sizes */
    sampled(four, &s, again);
    CHECK(same_latent(first, again));
    CHECK_INT(graphs_built(engine), before + 2);
    graft_model_release(four);
    graft_model_release(m);
    close_scene(&s);
}

static void large_tiles_are_none(void)
{
    scene s = open_scene(SD1);
    float plain[LATENT], with[LATENT];
    sampled(s.model, &s, plain);
    uint64_t before = graphs_built(engine);
    graft_model *m = tiled(s.model, 64, 4), *small = tiled(m, 32, 1), *last = tiled(small, 2048, 1);
    sampled(m, &s, with);
    CHECK(same_latent(plain, with));
    sampled(last, &s, with); /* the last one counts */
    CHECK(same_latent(plain, with));
    CHECK_INT(graphs_built(engine), before);
    graft_model_release(last);
    graft_model_release(small);
    graft_model_release(m);
    close_scene(&s);
}

static void order_does_not_matter(void)
{
    scene s = open_scene(SD1);
    float a[LATENT], b[LATENT], c[LATENT];
    graft_model *m = tiled(s.model, 32, 2), *d = with_deepcache(s.model, 2, 0, 0);
    graft_model *md = with_deepcache(m, 2, 0, 0), *dm = tiled(d, 32, 2);
    sampled(md, &s, a);
    sampled(dm, &s, b);
    sampled(d, &s, c);
    CHECK(same_latent(a, b));
    CHECK(!same_latent(a, c));
    graft_model *const all[] = {md, dm, d, m};
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
    close_scene(&s);
}

static void compiled_ahead(void)
{
    scene s = open_scene(SD2);
    float out[LATENT];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = tiled(s.model, 32, 2), *d = with_deepcache(m, 2, 0, 0);
    const graft_unet_use use = {
        .pictures = 1, .entries = 1, .height = 8, .width = 8, .tokens = s.cond->entry[0]->tokens};
    graft_unet_use all[GRAFT_MODEL_USES];
    CHECK_INT(graft_model_uses(d, &use, all), 4);
    const graft_unet_use guided = {
        .pictures = 1, .entries = 2, .height = 8, .width = 8, .tokens = use.tokens};
    CHECK_OK(graft_model_prepare(d, &use, NULL, &e), &e);
    CHECK_OK(graft_model_prepare(d, &guided, NULL, &e), &e);
    uint64_t before = graphs_built(engine);
    sampled(d, &s, out);
    CHECK_INT(graphs_built(engine), before);
    graft_model_release(d);
    graft_model_release(m);
    close_scene(&s);
}

/* SDXL has no attention in its outermost level, and so has a fast step with such a cut: turns are
 * no reason to compile it again. */
static void fast_steps_without_tiles(void)
{
    graft_model *plain = load_model(engine, SDXL), *m = tiled(plain, 32, 2),
                *d = with_deepcache(m, 2, 0, 0);
    const graft_unet_use use = {
        .pictures = 1, .entries = 1, .height = 16, .width = 16, .tokens = TOKENS};
    graft_err e = GRAFT_ERR_INIT;
    uint64_t before = graphs_built(engine);
    CHECK_INT(graft_model_turns(d, 16, 16), 2);
    CHECK_OK(graft_model_prepare(d, &use, NULL, &e), &e);
    CHECK_INT(graphs_built(engine), before + 3);
    graft_model *const all[] = {d, m, plain};
    for (int i = 0; i < 3; i++) graft_model_release(all[i]);
}

static void quantized(void)
{
    scene s = open_scene(SD1);
    float exact[LATENT], rounded[LATENT];
    graft_quantize_options o = options(&s);
    graft_model *m = tiled(s.model, 32, 2), *mq = quantize(m, &o);
    graft_model *q = quantize(s.model, &o), *qm = tiled(q, 32, 2);
    sampled(m, &s, exact);
    sampled(mq, &s, rounded);
    CHECK(difference(rounded, exact, LATENT) < 0.1);
    sampled(qm, &s, rounded);
    CHECK(difference(rounded, exact, LATENT) < 0.1);
    graft_model *const all[] = {qm, q, mq, m};
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
    close_scene(&s);
}

static void bad_numbers(void)
{
    static const graft_hypertile_options bad[] = {
        {0, 1, 0, false},        {-64, 1, 0, false},       {64, 0, 0, false},
        {64, 1, -1, false},      {INT64_MAX, 1, 0, false}, {64, INT64_MAX, 0, false},
        {64, 1, INT64_MIN, true}};
    graft_model *m = load_model(engine, SD1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        graft_model *out = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_INT(graft_model_hypertile(m, &bad[i], &out, &e), GRAFT_E_ARG);
        CHECK(!out && strstr(e.text, "tile_size"));
    }
    graft_model_release(m);
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    RUN(turns_go_round);
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        on_ref = i == 0;
        if (!engine) return test_end();
        printf("backend %s\n", backends[i]);
        RUN(one_graph_for_each_turn);
        RUN(large_tiles_are_none);
        RUN(order_does_not_matter);
        RUN(compiled_ahead);
        RUN(fast_steps_without_tiles);
        RUN(quantized);
        RUN(bad_numbers);
        graft_engine_destroy(engine);
    }
    return test_end();
}
