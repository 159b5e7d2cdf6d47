/* TomePatchModel: which tokens may take others, what is compiled, and that it goes with all else
 * that a model can have. What it computes is held against PyTorch in tests/golden, its operators
 * against formulas in tests/kernels. */
#include "engine/models/unets/unet.h"
#include "engine/models/unets/unet_blocks.h"
#include "kernels/tokens.h"
#include "tests/engine/calibrate.h"

static graft_model *merging(const graft_model *m, double ratio)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_merge_tokens(m, ratio, &out, &e), &e);
    return out;
}

static graft_model *tiled(const graft_model *m, int64_t tile, int64_t swap)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_hypertile_options o = {tile, swap, 0, false};
    CHECK_OK(graft_model_hypertile(m, &o, &out, &e), &e);
    return out;
}

/* One token of each whole cell, in no one's favour, and others in another pattern. */
static void one_target_a_cell(void)
{
    enum { ROWS = 65, COLUMNS = 63, CELLS = 32 * 31 };
    const graft_attrs attrs = graft_tokens_attrs(ROWS, COLUMNS, ROWS * COLUMNS, 7),
                      other = graft_tokens_attrs(ROWS, COLUMNS, ROWS * COLUMNS, 8);
    graft_tokens t, u;
    int of_cell[CELLS] = {0}, place[4] = {0}, all = 0, common = 0;
    CHECK(graft_tokens_of(&attrs, ROWS * COLUMNS, &t) && t.targets == CELLS);
    CHECK(graft_tokens_of(&other, ROWS * COLUMNS, &u));
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            if (!graft_tokens_is_target(&t, row * COLUMNS + column)) continue;
            all++;
            CHECK(row / 2 < 32 && column / 2 < 31);
            of_cell[row / 2 * 31 + column / 2]++;
            place[row % 2 * 2 + column % 2]++;
            common += graft_tokens_is_target(&u, row * COLUMNS + column);
        }
    CHECK_INT(all, CELLS);
    for (int i = 0; i < CELLS; i++) CHECK_INT(of_cell[i], 1);
    for (int i = 0; i < 4; i++) CHECK(place[i] > CELLS / 5 && place[i] < CELLS * 3 / 10);
    CHECK(common > CELLS / 5 && common < CELLS * 3 / 10);
}

static void how_many(void)
{
    CHECK_INT(graft_unet_merged_of(16, 16, 300000), 76);
    CHECK_INT(graft_unet_merged_of(16, 16, 1000000), 192);
    CHECK_INT(graft_unet_merged_of(5, 3, 1000000), 13);
    CHECK_INT(graft_unet_merged_of(1, 9, 1000000), 0); /* nothing to go to */
    CHECK_INT(graft_unet_merged_of(128, 128, 290000), 4751);
    CHECK_INT(graft_unet_merged_of(10, 10, 290000), 29);
    CHECK_INT(graft_unet_merged_of(10, 10, 0), 0);
    CHECK_INT(graft_unet_merged_of(32768, 65536, 500000), 0); /* more than can be counted */
    CHECK_INT(graft_unet_merged_of(INT64_MAX / 8, INT64_MAX / 8, 500000), 0);
    CHECK_INT(graft_unet_merged_of(-4, -4, 500000), 0);
}

static void bad_attributes(void)
{
    static const int32_t bad[][5] = {{0, 4, 2, 0, 0},  {4, 4, 3, 0, 16}, {4, 4, 17, 0, 16},
                                     {4, 4, 8, 0, 15}, {1, 4, 3, 0, 4},  {4, 4, 8, -1, 16}};
    graft_tokens t;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const graft_attrs a = graft_tokens_attrs(bad[i][0], bad[i][1], bad[i][2], bad[i][3]);
        CHECK(!graft_tokens_of(&a, bad[i][4], &t));
    }
}

static void none_changes_nothing(void)
{
    scene s = open_scene(SD1);
    float plain[LATENT], none[LATENT], some[LATENT], again[LATENT];
    sampled(s.model, &s, plain);
    uint64_t before = graphs_built(engine);
    graft_model *m = merging(s.model, 0.5), *off = merging(m, 0), *least = merging(off, 0.01);
    sampled(off, &s, none);
    CHECK(same_latent(plain, none)); /* the last one counts */
    sampled(least, &s, none);
    CHECK(same_latent(plain, none)); /* of 64 tokens less than one */
    CHECK_INT(graphs_built(engine), before);
    sampled(m, &s, some);
    sampled(m, &s, again);
    CHECK(!same_latent(plain, some));
    CHECK(same_latent(some, again));
    CHECK_INT(graphs_built(engine), before + 1);
    graft_model *most = merging(s.model, 0.75), *more = merging(s.model, 1);
    sampled(most, &s, some);
    sampled(more, &s, again);
    CHECK(same_latent(some, again));
    graft_model *const all[] = {more, most, least, off, m};
    for (int i = 0; i < 5; i++) graft_model_release(all[i]);
    close_scene(&s);
}

/* SDXL has no attention in its outermost level. */
static void nothing_to_merge(void)
{
    scene s = open_scene(SDXL);
    float plain[LATENT], with[LATENT];
    sampled(s.model, &s, plain);
    uint64_t before = graphs_built(engine);
    graft_model *m = merging(s.model, 0.5);
    sampled(m, &s, with);
    CHECK(same_latent(plain, with));
    CHECK_INT(graphs_built(engine), before);
    graft_model_release(m);
    close_scene(&s);
}

static void order_does_not_matter(void)
{
    scene s = open_scene(SD1);
    float a[LATENT], b[LATENT], c[LATENT], t[LATENT];
    graft_model *m = merging(s.model, 0.5), *d = with_deepcache(s.model, 2, 0, 0);
    graft_model *md = with_deepcache(m, 2, 0, 0), *dm = merging(d, 0.5);
    graft_model *mdt = tiled(md, 32, 2), *t_first = tiled(s.model, 32, 2);
    graft_model *tm = merging(t_first, 0.5), *tmd = with_deepcache(tm, 2, 0, 0);
    sampled(md, &s, a);
    sampled(dm, &s, b);
    sampled(d, &s, c);
    CHECK(same_latent(a, b));
    CHECK(!same_latent(a, c));
    sampled(mdt, &s, t);
    sampled(tmd, &s, b);
    CHECK(same_latent(t, b));
    CHECK(!same_latent(t, a));
    graft_model *td = with_deepcache(t_first, 2, 0, 0);
    sampled(td, &s, b);
    CHECK(!same_latent(t, b)); /* tiles merge their own */
    graft_model *const all[] = {td, tmd, tm, t_first, mdt, dm, md, d, m};
    for (int i = 0; i < 9; i++) graft_model_release(all[i]);
    close_scene(&s);
}

static void compiled_ahead(void)
{
    scene s = open_scene(SD2);
    float out[LATENT];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = merging(s.model, 0.4), *t = tiled(m, 32, 2), *d = with_deepcache(t, 2, 0, 0);
    const graft_unet_use use = {
        .pictures = 1, .entries = 1, .height = 8, .width = 8, .tokens = s.cond->entry[0]->tokens};
    graft_unet_use guided = use;
    guided.entries = 2;
    CHECK_OK(graft_model_prepare(d, &use, NULL, &e), &e);
    CHECK_OK(graft_model_prepare(d, &guided, NULL, &e), &e);
    uint64_t before = graphs_built(engine);
    sampled(d, &s, out);
    CHECK_INT(graphs_built(engine), before);
    graft_model *const all[] = {d, t, m};
    for (int i = 0; i < 3; i++) graft_model_release(all[i]);
    close_scene(&s);
}

/* Steps that see a smaller picture merge nothing, the others do. */
static void with_deep_shrink(void)
{
    scene s = open_scene(SD1);
    float shrunk[LATENT], both[LATENT], merged[LATENT];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = merging(s.model, 0.5), *all = NULL, *some = NULL, *plain = NULL;
    graft_downscale_options o = {1, 2, 0, 1, true, "bicubic", "bicubic"};
    CHECK_OK(graft_model_downscale(m, &o, &all, &e), &e);
    CHECK_OK(graft_model_downscale(s.model, &o, &plain, &e), &e);
    sampled(all, &s, both);
    sampled(plain, &s, shrunk);
    CHECK(same_latent(both, shrunk));
    o.end = 0.3;
    CHECK_OK(graft_model_downscale(m, &o, &some, &e), &e);
    graft_model_release(plain);
    CHECK_OK(graft_model_downscale(s.model, &o, &plain, &e), &e);
    sampled(some, &s, both);
    sampled(plain, &s, shrunk);
    sampled(m, &s, merged);
    CHECK(!same_latent(both, shrunk));
    CHECK(!same_latent(both, merged));
    graft_model *const used[] = {plain, some, all, m};
    for (int i = 0; i < 4; i++) graft_model_release(used[i]);
    close_scene(&s);
}

static void quantized(void)
{
    scene s = open_scene(SD1);
    float exact[LATENT], rounded[LATENT];
    graft_quantize_options o = options(&s);
    graft_model *m = merging(s.model, 0.5), *mq = quantize(m, &o);
    graft_model *q = quantize(s.model, &o), *qm = merging(q, 0.5);
    sampled(m, &s, exact);
    sampled(mq, &s, rounded);
    CHECK(difference(rounded, exact, LATENT) < 0.1);
    sampled(qm, &s, rounded);
    CHECK(difference(rounded, exact, LATENT) < 0.1);
    graft_model *const all[] = {qm, q, mq, m};
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
    close_scene(&s);
}

static void bad_ratios(void)
{
    static const double bad[] = {-0.01, 1.01, INFINITY, NAN};
    graft_model *m = load_model(engine, SD1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        graft_model *out = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_INT(graft_model_merge_tokens(m, bad[i], &out, &e), GRAFT_E_ARG);
        CHECK(!out && strstr(e.text, "ratio"));
    }
    graft_model_release(m);
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    RUN(one_target_a_cell);
    RUN(how_many);
    RUN(bad_attributes);
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        on_ref = i == 0;
        if (!engine) return test_end();
        printf("backend %s\n", backends[i]);
        RUN(none_changes_nothing);
        RUN(nothing_to_merge);
        RUN(order_does_not_matter);
        RUN(compiled_ahead);
        RUN(with_deep_shrink);
        RUN(quantized);
        RUN(bad_ratios);
        graft_engine_destroy(engine);
    }
    return test_end();
}
