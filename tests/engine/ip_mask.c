/* Masked pictures beside a prompt: the network held against golden/small/masks, where the mask is
 * resized by PyTorch. */
#include "base/alloc.h"
#include "engine/denoise/attending.h"
#include "engine/denoise/sample.h"
#include "tests/engine/ip_adapter.h"

#define MASKS(name) GRAFT_SOURCE_DIR "/golden/small/masks/" name ".safetensors"

typedef struct given {
    graft_safetensors *file;
    float *x, *timesteps, *context, *y, *image, *mask, *weight, *output;
} given;

static float *read_one(const given *g, const char *name)
{
    const graft_st_tensor *t = graft_safetensors_find(g->file, name);
    return t ? values_of(t) : NULL;
}

static given open_given(const char *from)
{
    given g = {.file = open_file(from)};
    g.x = read_one(&g, "x");
    g.timesteps = read_one(&g, "timesteps");
    g.context = read_one(&g, "context");
    g.y = read_one(&g, "y");
    g.image = read_one(&g, "image");
    g.mask = read_one(&g, "mask");
    g.weight = read_one(&g, "weight");
    g.output = read_one(&g, "output");
    return g;
}

static void close_given(given *g)
{
    float *const all[] = {g->x,     g->timesteps, g->context, g->y,
                          g->image, g->mask,      g->weight,  g->output};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    graft_safetensors_close(g->file);
}

static graft_image *image_of(const given *g, const char *name, const float *v)
{
    const graft_st_tensor *t = graft_safetensors_find(g->file, name);
    int64_t shape[4] = {t->shape[0], t->shape[1], t->shape[2], t->rank == 4 ? t->shape[3] : 1};
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_from_data(v, shape, false, &image, &e), &e);
    return image;
}

static graft_model *shown(const char *net, const given *g)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, net), *out = NULL;
    graft_ip_adapter *adapter = load(net);
    graft_vision *eyes = load_eyes(net);
    graft_image *image = image_of(g, "image", g->image), *mask = image_of(g, "mask", g->mask);
    const graft_show_options o = {eyes, image, NULL, (double)*g->weight, 0, 1, mask};
    CHECK_OK(graft_model_show(m, adapter, &o, NULL, &out, &e), &e);
    graft_image_release(mask); /* the model holds it */
    graft_image_release(image);
    graft_vision_release(eyes);
    graft_ip_adapter_release(adapter);
    graft_model_release(m);
    return out;
}

/* The first half of the rows sees the picture. */
static void holds(const char *net, const char *golden)
{
    graft_err e = GRAFT_ERR_INIT;
    given g = open_given(golden);
    graft_model *m = shown(net, &g);
    const graft_st_tensor *x = graft_safetensors_find(g.file, "x");
    const graft_st_tensor *words = graft_safetensors_find(g.file, "context");
    const int64_t rows = x->shape[0], pictures = rows / 2, n = shape_count(x->shape, 4);
    const graft_unet_use use = {.pictures = rows,
                                .entries = 1,
                                .height = x->shape[2],
                                .width = x->shape[3],
                                .tokens = words->shape[1],
                                .attends = true};
    graft_cond *cond = NULL;
    graft_sigma_table table;
    graft_model_sigma_table(m, &table);
    CHECK_OK(
        graft_cond_create(words->shape[1], words->shape[2],
                          graft_calloc((size_t)(words->shape[1] * words->shape[2]), sizeof(float)),
                          0, NULL, NULL, &cond, &e),
        &e);
    const graft_guided_config c = {.model = m,
                                   .table = &table,
                                   .positive = cond,
                                   .negative = cond,
                                   .cfg = 4,
                                   .steps = 1,
                                   .shape = {pictures, 4, x->shape[2], x->shape[3]}};
    const graft_box whole = {.height = x->shape[2], .width = x->shape[3]};
    const active list[2] = {{.box = &whole, .side = GRAFT_POSITIVE},
                            {.box = &whole, .side = GRAFT_NEGATIVE}};
    const size_t which[2] = {0, 1};
    graft_attending a;
    const void *masks = NULL, *seen = NULL;
    float *out = calloc((size_t)n, sizeof *out);
    graft_binding *b = NULL;
    CHECK_OK(graft_attending_create(&c, &a, &e), &e);
    CHECK_OK(graft_attending_masks(&a, &use, list, which, 2, pictures, &masks, &e), &e);
    CHECK_OK(graft_attending_fill(&a, 1, list, which, 2, pictures, &seen, &e), &e);
    const void *in[6] = {g.x, g.timesteps, g.context};
    size_t k = 3;
    if (g.y) in[k++] = g.y;
    in[k++] = seen;
    in[k++] = masks;
    CHECK_OK(graft_model_bind_guided(m, &use, NULL, &b, &e), &e);
    if (b) CHECK_OK(graft_exe_run(b, engine->arenas, in, (void *[]){out}, NULL, NULL, &e), &e);
    CHECK(difference(out, g.output, (size_t)n) < 1e-4);
    graft_binding_release(b);
    graft_attending_finish(&a);
    graft_cond_release(cond);
    graft_model_release(m);
    close_given(&g);
    free(out);
}

static void two_levels(void)
{
    holds(PLUS_SD1, MASKS("ip_sd1_plus"));
}

static void deep_blocks(void)
{
    holds(PLAIN_XL, MASKS("ip_sdxl"));
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    (void)path; /* which other tests write to */
    for (int b = 0; b < 2; b++) {
        engine = make_engine(backends[b]);
        if (!engine) break;
        RUN(two_levels);
        RUN(deep_blocks);
        graft_engine_destroy(engine);
    }
    return test_end();
}
