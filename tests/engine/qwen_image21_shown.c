/* Qwen-Image 2.1's network with the pictures that prompts show it, in whole samplings: only those
 * that stand among the prompt's tokens count, and where they stand. What the network computes is
 * held against golden/small/qwen_image21_shown.
 */
#include "engine/models/transformers/qwen_image21.h"
#include "tests/engine/family.h"

#define SHOWN GRAFT_SOURCE_DIR "/golden/small/qwen_image21_shown.safetensors"

enum { PLANES = 8, VALUES = PLANES * SIDE * SIDE, MOST = PLANES * 24, WORDS = 6 };

static const family tested = {
    .name = "qwen_image21_shown",
    .kept = {"img_in", "proj_out", "modulation.1", "norm_out.linear", "time_text_embed."}};

static const graft_references one_shown = {.n = 1, .of = {{4, 6}}, .within = {2}};

static void run_with(const graft_model *m, const graft_references *r, float out[VALUES])
{
    float x[VALUES + MOST];
    for (size_t i = 0; i < COUNT(x); i++) x[i] = fixed_value(i);
    evaluate(m, &(asked){.words = {WORDS}, .shown = r}, 0, x, 400, out);
}

static void run_shown(const graft_model *m, float out[VALUES])
{
    run_with(m, &one_shown, out);
}

/* A reference as the VAE would give it, and as the network is to see it. Returns how many values
 * that are. */
static int64_t reference_of(const graft_model *m, int number, graft_grid of, float *seen,
                            graft_latent **out)
{
    const int64_t area = (int64_t)of.rows * of.columns, shape[4] = {1, PLANES, of.rows, of.columns};
    graft_err e = GRAFT_ERR_INIT;
    float given[MOST];
    CHECK(PLANES * area <= MOST);
    for (int64_t i = 0; i < PLANES * area; i++)
        given[i] = 2 * fixed_value((uint64_t)(91 * number + i));
    CHECK_OK(graft_latent_from_data(given, shape, out, &e), &e);
    graft_model_scale_latent(m, given, (size_t)(PLANES * area), area, seen);
    return PLANES * area;
}

/* *c, which is used up, with one more reference: within the prompt, or (-1) anywhere. */
static void refer(graft_cond **c, const graft_latent *l, int64_t within)
{
    graft_cond *more = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(within < 0 ? graft_cond_reference(*c, l, &more, &e)
                        : graft_cond_reference_within(*c, l, within, &more, &e),
             &e);
    graft_cond_release(*c);
    *c = more;
}

/* Each picture counts, in its order, of any size, by its place; others are not seen, and what
 * places other networks' references changes nothing. */
static void references(void)
{
    static const graft_grid size[] = {{4, 6}, {3, 5}};
    static const int32_t within[][2] = {{2, 4}, {2, 2}, {0, 5}};
    static float seen[2 * MOST];
    float got[ANSWER], want[ANSWER], before[ANSWER] = {0};
    graft_model *m = load_model(engine, SHOWN);
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *l[2] = {NULL};
    int64_t at = 0;
    for (int i = 0; i < 2; i++) at += reference_of(m, i, size[i], seen + at, &l[i]);
    for (size_t k = 0; k < COUNT(within); k++) {
        graft_references r = {.n = 0};
        graft_cond *c = prompt_of(m, 20000, WORDS), *placed = NULL;
        for (; r.n < 2; r.n++) {
            refer(&c, l[r.n], within[k][r.n]);
            r.of[r.n] = size[r.n];
            r.within[r.n] = within[k][r.n];
        }
        sampled(m, c, c, 1, got);
        by_hand(m, &(asked){.words = {WORDS}, .shown = &r, .seen = seen}, want);
        CHECK(difference(got, want, VALUES) < 2e-4);
        CHECK(!same_answers(m, got, before));
        memcpy(before, got, sizeof got);
        refer(&c, l[0], -1);
        CHECK_OK(graft_cond_place_references(c, GRAFT_PLACE_DIAGONAL, &placed, &e), &e);
        sampled(m, placed, placed, 1, got);
        CHECK(same_answers(m, got, before));
        graft_cond_release(placed);
        graft_cond_release(c);
    }
    for (int i = 0; i < 2; i++) graft_latent_release(l[i]);
    graft_model_release(m);
}

/* A negative prompt without pictures, or with them elsewhere, has a graph of its own. */
static void guided_by_another(void)
{
    static float seen[MOST];
    float alone[ANSWER], got[ANSWER], both[ANSWER];
    graft_model *m = load_model(engine, SHOWN);
    graft_latent *l = NULL;
    (void)reference_of(m, 1, one_shown.of[0], seen, &l);
    graft_cond *c = prompt_of(m, 20000, WORDS), *plain = prompt_of(m, 60000, WORDS);
    refer(&c, l, one_shown.within[0]);
    sampled(m, c, plain, 1, alone);
    sampled(m, c, plain, 3, got);
    CHECK(!same_answers(m, alone, got));
    refer(&plain, l, 4);
    sampled(m, c, plain, 3, both);
    CHECK(!same_answers(m, both, got));
    graft_cond_release(c);
    graft_cond_release(plain);
    graft_latent_release(l);
    graft_model_release(m);
}

typedef struct shown_run {
    float x[2 * (VALUES + MOST)], context[2 * WORDS * 64], y[2], t[2];
} shown_run;

/* Run number `i` for so many rows. Of the prompt and what it shows only what `known` says is there;
 * the rest is no number. */
static void fill_run(shown_run *r, int i, int64_t rows, int64_t of_x, int64_t width, bool known)
{
    CHECK(width <= 64);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t k = 0; k < of_x; k++)
            r->x[row * of_x + k] = k < VALUES ? fixed_value((uint64_t)(1000 * i + 100 * row + k))
                                   : known    ? fixed_value((uint64_t)(7000 + 100 * row + k))
                                              : NAN;
        for (int64_t k = 0; k < WORDS * width; k++)
            r->context[row * WORDS * width + k] =
                known ? fixed_value((uint64_t)(20000 + 300 * row + k)) : NAN;
        r->y[row] = known ? WORDS : NAN;
        r->t[row] = i ? 300 : 700;
    }
}

/* What pictures show does not change from step to step either: the first run of a series has all
 * that is made of them, and later ones read nothing of it. */
static void pictures_are_read_once(void)
{
    static shown_run r;
    static float want[2 * VALUES], got[2 * VALUES];
    graft_model *m = load_model(engine, SHOWN);
    const int64_t width = m->arch.context_dim;
    for (int64_t rows = 1; rows <= 2; rows++) {
        const graft_unet_use use = {.pictures = rows,
                                    .entries = 1,
                                    .height = SIDE,
                                    .width = SIDE,
                                    .tokens = WORDS,
                                    .references = one_shown};
        const int64_t of_x = graft_net_x_values(&m->arch, SIDE, SIDE, &one_shown);
        const void *const in[] = {r.x, r.t, r.context, r.y};
        graft_invariants *series = NULL;
        graft_binding *b = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_model_bind_guided(m, &use, NULL, &b, &e), &e);
        if (!b) return;
        fill_run(&r, 1, rows, of_x, width, true);
        CHECK_OK(graft_exe_run(b, engine->arenas, in, (void *[]){want}, NULL, NULL, &e), &e);
        CHECK_OK(graft_invariants_create(b->exe, engine->kept, &series, &e), &e);
        for (int i = 0; i < 2; i++) {
            fill_run(&r, i, rows, of_x, width, i == 0);
            CHECK_OK(graft_exe_run_again(b, engine->arenas, series, in, (void *[]){got}, NULL, &e),
                     &e);
            CHECK((memcmp(got, want, (size_t)(rows * VALUES) * sizeof *got) == 0) == (i == 1));
        }
        graft_invariants_destroy(series);
        graft_binding_release(b);
    }
    graft_model_release(m);
}

/* The layers are those of the network without references. */
static void quantized_alike(void)
{
    const quantized_layers want = {
        .kept = is_kept, .tokens = 32, .attentions = 2, .linears = 2 * 6 + 8};
    quantized_as(engine, SHOWN, &want, run_shown);
}

static void not_built(const graft_references *r, const char *words)
{
    graft_model *m = load_model(engine, SHOWN);
    const graft_net_shape shape = {.batch = 1,
                                   .height = 8,
                                   .width = 8,
                                   .tokens = 32,
                                   .act_dtype = GRAFT_F32,
                                   .references = *r};
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, words));
    if (!strstr(e.text, words)) fprintf(stderr, "    %s\n", e.text);
    CHECK(!g);
    graft_model_release(m);
}

static void no_such_places(void)
{
    graft_references r = one_shown;
    r.within[0] = 32;
    not_built(&r, "a reference of 6 x 4 behind 32 of 32 tokens");
    r.within[0] = -1;
    not_built(&r, "behind -1 of 32 tokens");
    r.within[0] = 3;
    r.n = 2;
    r.of[1] = r.of[0];
    r.within[1] = 2;
    not_built(&r, "behind 2 of 32 tokens");
    r.within[1] = 3;
    r.of[1].columns = 0;
    not_built(&r, "a reference of 0 x 4");
    r.of[1].columns = 1 << 20;
    not_built(&r, "a reference of 1048576 x 4");
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(references);
    RUN(guided_by_another);
    RUN(pictures_are_read_once);
    RUN(quantized_alike);
    RUN(no_such_places);
    graft_engine_destroy(engine);
    return test_end();
}
