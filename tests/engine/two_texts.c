/* Prompts with a text for each encoder: the empty prompt follows the shorter one, as often as it
 * takes, so that nothing of the longer one is lost. */
#include <string.h>

#include "base/alloc.h"
#include "tests/engine/fixture.h"

enum { CHUNK = 77, LONG = 160 /* words: three chunks */ };

static graft_engine *engine;
static char longer[LONG * 4 + 8];

static void make_longer(void)
{
    longer[0] = 0;
    for (int i = 0; i < LONG; i++) strcat(longer, "red ");
    strcat(longer, "fox");
}

static graft_clip *clip_of(const char *path)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = NULL;
    graft_clip *c = NULL;
    CHECK_OK(graft_checkpoint_load(engine, path, NULL, &m, &c, NULL, &e), &e);
    graft_model_release(m);
    return c;
}

static graft_cond *encode(const graft_clip *c, const char *l, const char *g)
{
    const graft_sdxl_size size = {64, 64, 0, 0, 64, 64};
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *out = NULL;
    if (c->kind == GRAFT_CLIP_SD3)
        CHECK_OK(graft_clip_encode_sd3(c, l, g, NULL, NULL, &out, &e), &e);
    else
        CHECK_OK(graft_clip_encode_sdxl(c, g, l, &size, NULL, &out, &e), &e);
    return out;
}

/* `n` columns from `column` on of a's chunk i and b's chunk k. */
static bool same(const graft_cond *a, int64_t i, const graft_cond *b, int64_t k, int64_t column,
                 int64_t n)
{
    const graft_cond_entry *x = a->entry[0], *y = b->entry[0];
    if ((i + 1) * CHUNK > x->tokens || (k + 1) * CHUNK > y->tokens) return false;
    for (int64_t t = 0; t < CHUNK; t++)
        if (memcmp(x->data + (i * CHUNK + t) * x->width + column,
                   y->data + (k * CHUNK + t) * y->width + column, (size_t)n * sizeof *x->data) != 0)
            return false;
    return true;
}

/* The first `l` columns are the small encoder's, the `g` behind them the large one's. */
static void check_pair(const graft_clip *c, int64_t l, int64_t g)
{
    char other[sizeof longer];
    graft_cond *brief = encode(c, "cat", "dog"), *none = encode(c, "", ""),
               *whole = encode(c, longer, longer), *left = encode(c, longer, "dog"),
               *right = encode(c, "cat", longer);
    if (!brief || !none || !whole || !left || !right) return;
    CHECK_INT(left->entry[0]->tokens, 3 * CHUNK);
    CHECK_INT(right->entry[0]->tokens, 3 * CHUNK);
    for (int64_t i = 0; i < 3; i++) {
        CHECK(same(left, i, whole, i, 0, l) && same(right, i, whole, i, l, g));
        CHECK(same(right, i, i ? none : brief, 0, 0, l) &&
              same(left, i, i ? none : brief, 0, l, g));
    }
    snprintf(other, sizeof other, "%s", longer);
    strcpy(strstr(other, "fox"), "cat");
    graft_cond *last = encode(c, "cat", other);
    CHECK(last && same(last, 0, right, 0, l, g) && !same(last, 2, right, 2, l, g));
    graft_cond *all[] = {brief, none, whole, left, right, last};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) graft_cond_release(all[i]);
}

static void sdxl(void)
{
    graft_clip *c = clip_of(MODELS "/tiny-sdxl.safetensors");
    if (!c) return;
    check_pair(c, c->encoder[0].arch.width, c->encoder[1].arch.width);
    graft_clip_release(c);
}

static void sd3(void)
{
    graft_clip *c = clip_of(MODELS "/tiny-sd3.safetensors");
    if (!c) return;
    bool first = !c->encoder[0].large;
    check_pair(c, c->encoder[!first].arch.width, c->encoder[first].arch.width);
    graft_clip_release(c);
}

int main(void)
{
    engine = make_engine("cpu");
    make_longer();
    RUN(sdxl);
    RUN(sd3);
    graft_engine_destroy(engine);
    return test_end();
}
