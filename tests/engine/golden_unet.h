/* A small UNet of a golden file, with something beside it that the file says the results of: its
 * tensors are x and numbers (a sigma and the guidance's cfg), the prompts positive and negative. */
#ifndef GRAFT_TESTS_ENGINE_GOLDEN_UNET_H
#define GRAFT_TESTS_ENGINE_GOLDEN_UNET_H
#include "tests/engine/mmdit.h"
#include "tests/engine/regions.h"

static graft_engine *engine;
static graft_model *model;
static graft_cond *positive, *negative;
static const graft_safetensors *golden;

enum { N = 2 * 4 * 8 * 12 /* of x */ };

/* For free(). */
static float *golden_values(const char *name, size_t *n)
{
    const graft_st_tensor *t = graft_safetensors_find(golden, name);
    CHECK(t != NULL);
    if (n) *n = (size_t)shape_count(t->shape, t->rank);
    return values_of(t);
}

static graft_cond *prompt_of(const char *name)
{
    size_t n;
    float *v = golden_values(name, &n), *own = graft_malloc_array(n, sizeof *own);
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const int64_t width = model->arch.context_dim;
    memcpy(own, v, n * sizeof *own);
    free(v);
    CHECK_OK(graft_cond_create((int64_t)n / width, width, own, 0, NULL, NULL, &out, &e), &e);
    return out;
}

/* What a model makes of x with these prompts, after so many calls. */
static graft_status try_golden(const graft_model *m, const graft_cond *p, const graft_cond *n,
                               int calls, float out[N], graft_err *e)
{
    size_t count;
    float *x = golden_values("x", &count), *numbers = golden_values("numbers", NULL);
    const one_call c = {m, p, n, (double)numbers[1], {2, 4, 8, 12}, NULL, NULL, calls};
    CHECK_INT(count, N);
    graft_status st = try_denoise_at(&c, x, numbers[0], out, e);
    free(x);
    free(numbers);
    return st;
}

/* The model of a file, on a backend; false where that is not there. */
static bool begin_golden(const char *backend, const char *path)
{
    engine = make_engine(backend);
    if (!engine) return false;
    printf("backend %s\n", backend);
    model = load_model(engine, path);
    positive = prompt_of("positive");
    negative = prompt_of("negative");
    return true;
}

static void end_golden(void)
{
    graft_cond_release(positive);
    graft_cond_release(negative);
    graft_model_release(model);
    graft_engine_destroy(engine);
}
#endif
