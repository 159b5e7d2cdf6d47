/* Qwen-Image-Edit's network: the pictures that prompts show it, in whole samplings, and which files
 * tell it that there is no noise in them. What the network computes is held against
 * golden/small/qwen_image_edit*.
 */
#include "engine/models/transformers/qwen_image.h"
#include "tests/engine/family.h"
#include "tests/engine/wan_planes.h"

#define EDIT GRAFT_SOURCE_DIR "/golden/small/qwen_image_edit.safetensors"
#define MARK "__index_timestep_zero__"

enum { PLANES = 16, VALUES = PLANES * SIDE * SIDE, SHOWN = PLANES * 64, WORDS = 6 };

static const family tested = {.name = "qwen_image_edit",
                              .mean = wan_mean,
                              .deviation = wan_deviation,
                              .kept = {"img_in", "time_text_embed", "norm_out", "proj_out"}};

static const graft_references one_shown = {.n = 1, .of = {{4, 6}}};

static void run_with(const graft_model *m, const graft_references *r, float out[VALUES])
{
    float x[VALUES + SHOWN];
    for (size_t i = 0; i < COUNT(x); i++) x[i] = fixed_value(i);
    evaluate(m, &(asked){.words = {WORDS}, .shown = r}, 0, x, 400, out);
}

static void run_shown(const graft_model *m, float out[VALUES])
{
    run_with(m, &one_shown, out);
}

/* ------------------------------------------------------------------ sampling */

/* A reference of any size, as the VAE would give it, behind those of the prompt, which is used up;
 * the same as the network is to see it. Returns how many values that are. */
static int64_t refer(const graft_model *m, graft_cond **c, int number, graft_grid of, float *seen)
{
    const int64_t rows = of.rows + of.rows % 2, columns = of.columns + of.columns % 2;
    const int64_t shape[4] = {1, PLANES, of.rows, of.columns};
    float given[SHOWN];
    graft_cond *more = NULL;
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(PLANES * rows * columns <= SHOWN);
    for (int64_t i = 0; i < PLANES * of.rows * of.columns; i++)
        given[i] = 2 * fixed_value((uint64_t)(91 * number + i));
    CHECK_OK(graft_latent_from_data(given, shape, &l, &e), &e);
    CHECK_OK(graft_cond_reference(*c, l, &more, &e), &e);
    graft_latent_release(l);
    graft_cond_release(*c);
    *c = more;
    for (int64_t p = 0; p < PLANES; p++)
        for (int64_t y = 0; y < rows; y++) /* circular, as the latent's own sides */
            for (int64_t x = 0; x < columns; x++)
                seen[(p * rows + y) * columns + x] =
                    given[(p * of.rows + y % of.rows) * of.columns + x % of.columns];
    graft_model_scale_latent(m, seen, (size_t)(PLANES * rows * columns), rows * columns, seen);
    CHECK_NEAR(seen[0], (given[0] - wan_mean[0]) / wan_deviation[0], 1e-5);
    CHECK_NEAR(seen[rows * columns], (given[of.rows * of.columns] - wan_mean[1]) / wan_deviation[1],
               1e-5);
    return PLANES * rows * columns;
}

/* ReferenceLatent: each picture counts, in its order, of any size; and so does what the network is
 * told of their noise. */
static void references(void)
{
    static const graft_grid size[] = {{4, 6}, {3, 5}};
    static float seen[2 * SHOWN];
    float got[ANSWER], want[ANSWER], before[ANSWER] = {0};
    graft_model *m = load_model(engine, EDIT);
    graft_cond *c = prompt_of(m, 20000, WORDS);
    graft_err e = GRAFT_ERR_INIT;
    graft_references r = {.n = 0};
    int64_t at = 0;
    for (size_t i = 0; i < COUNT(size); i++) {
        at += refer(m, &c, (int)i, size[i], seen + at);
        r.of[r.n++] = size[i];
        for (int how = GRAFT_PLACE_BESIDE; how <= GRAFT_PLACE_CLEAN; how++) {
            graft_cond *placed = NULL;
            if (how == GRAFT_PLACE_DIAGONAL) continue;
            CHECK_OK(graft_cond_place_references(c, (graft_placing)how, &placed, &e), &e);
            r.placing = how;
            sampled(m, placed, placed, 1, got);
            by_hand(m, &(asked){.words = {WORDS}, .shown = &r, .seen = seen}, want);
            CHECK(difference(got, want, VALUES) < 2e-4);
            CHECK(same_answers(m, got, before) == (how == GRAFT_PLACE_BEHIND));
            memcpy(before, got, sizeof got);
            graft_cond_release(placed);
        }
    }
    graft_cond_release(c);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ files */

/* With the mark that ComfyUI's file of Edit-2511 has. */
static void marked(const char *path)
{
    made_file *f = part_of_file(EDIT, UNET);
    add_tensor(f, MARK, 1, (int64_t[]){0}, NULL, 0);
    write_file(f, path, config_of(EDIT));
}

static void marked_files(void)
{
    const char *path = temp_path("marked.safetensors"), *again = temp_path("again.safetensors");
    const graft_references none = {.n = 0};
    graft_references clean = one_shown;
    float a[VALUES], b[VALUES];
    graft_err e = GRAFT_ERR_INIT;
    clean.placing = GRAFT_PLACE_CLEAN;
    marked(path);
    graft_model *m = load_model(engine, EDIT), *n = load_model(engine, path);
    CHECK(!m->arch.qwen_image.clean_references && n->arch.qwen_image.clean_references);
    run_with(m, &clean, a);
    run_with(n, &one_shown, b);
    CHECK(same_answers(m, a, b));
    run_with(m, &one_shown, b);
    CHECK(!same_answers(m, a, b));
    run_with(m, &none, a);
    run_with(n, &none, b);
    CHECK(same_answers(m, a, b));
    const graft_checkpoint what = {.model = n};
    CHECK_OK(graft_checkpoint_save(&what, again, NULL, NULL, &e), &e);
    graft_model *saved = load_model(engine, again);
    CHECK(saved->arch.qwen_image.clean_references);
    RELEASE_ALL(m, n, saved);
    unlink(path);
    unlink(again);
}

/* ------------------------------------------------------------------ what goes with it */

static void run_clean(const graft_model *m, float out[VALUES])
{
    graft_references clean = one_shown;
    clean.placing = GRAFT_PLACE_CLEAN;
    run_with(m, &clean, out);
}

/* The layers are those of the network without references. */
static void quantized_alike(void)
{
    const quantized_layers want = {
        .kept = is_kept, .tokens = 32, .attentions = 2, .linears = 2 * 14 - 3 + 6};
    quantized_as(engine, EDIT, &want, run_shown);
    quantized_as(engine, EDIT, &want, run_clean);
}

static void clean_halves(void)
{
    halves_add_up(engine, EDIT, config_of(EDIT), run_clean);
}

static void not_built(const char *file, const graft_references *r, const char *words)
{
    graft_model *m = load_model(engine, file);
    const graft_net_shape shape = {.batch = 1,
                                   .height = 8,
                                   .width = 8,
                                   .tokens = 32,
                                   .act_dtype = GRAFT_F32,
                                   .references = *r};
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(graft_net_build(&m->arch, &shape, 1, &g, &e) != GRAFT_OK);
    CHECK(strstr(e.text, words));
    CHECK(!g);
    graft_model_release(m);
}

static void no_such_places(void)
{
    graft_references r = one_shown;
    r.placing = GRAFT_PLACE_DIAGONAL;
    not_built(EDIT, &r, "not along a diagonal");
    r.placing = GRAFT_PLACE_CLEAN;
    not_built(GRAFT_SOURCE_DIR "/golden/small/flux_kontext.safetensors", &r, "FLUX.1's references");
    not_built(GRAFT_SOURCE_DIR "/golden/small/flux2_klein.safetensors", &r, "FLUX.2's references");
    r.of[0].columns = 0;
    not_built(EDIT, &r, "a reference of 0 x 4");
    r.of[0].columns = 1 << 20;
    not_built(EDIT, &r, "a reference of 1048576 x 4");
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(references);
    RUN(marked_files);
    RUN(quantized_alike);
    RUN(clean_halves);
    RUN(no_such_places);
    graft_engine_destroy(engine);
    return test_end();
}
