#include "engine/sampling/sampler.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/sampling/walk.h"

enum {
    PAIR = 1,     /* needs the unconditional prediction */
    BROWNIAN = 2, /* draws from a Brownian path */
    ONE_MORE = 4, /* drops the second-last sigma of one step more */
    LOOKS = 8,    /* into arrays; all others use nothing but graft_mix*() and graft_walk_*() */
    NUMBERS = 16, /* takes eta, s_noise, r or an order */
    NOISE = 32,   /* adds noise, as BROWNIAN do */
    ETA = 64,     /* adds noise if it is given an eta above 0 */
};

typedef struct sampler {
    const char *name;
    graft_sample_fn *sample;
    int variant, buffers, flags;
} sampler;

static const sampler samplers[] = {
#define SAMPLER(name, function, variant, buffers, flags)                                           \
    {#name, graft_sample_##function, variant, buffers, flags},
#include "engine/sampling/samplers.def"
#undef SAMPLER
};

static const char *const names[] = {
#define SAMPLER(name, function, variant, buffers, flags) #name,
#include "engine/sampling/samplers.def"
#undef SAMPLER
    NULL};

static const sampler *find(const char *name)
{
    for (size_t i = 0; i < sizeof samplers / sizeof *samplers; i++)
        if (strcmp(samplers[i].name, name) == 0) return &samplers[i];
    return NULL;
}

static bool has_flag(const char *name, int flag)
{
    const sampler *s = find(name);
    return s && s->flags & flag;
}

const char *const *graft_sampler_list(void)
{
    return names;
}

bool graft_sampler_known(const char *name)
{
    return find(name) != NULL;
}

bool graft_sampler_is_sde(const char *name)
{
    return has_flag(name, BROWNIAN);
}

bool graft_sampler_discards_penultimate(const char *name)
{
    return has_flag(name, ONE_MORE);
}

bool graft_sampler_needs_unconditional(const char *name)
{
    return has_flag(name, PAIR);
}

bool graft_sampler_assumes_scale(const char *name, double eta)
{
    return has_flag(name, NOISE | BROWNIAN | PAIR) || (eta > 0 && has_flag(name, ETA));
}

bool graft_sampler_anywhere(const char *name)
{
    return find(name) && !has_flag(name, LOOKS);
}

bool graft_sampler_takes_numbers(const char *name)
{
    return has_flag(name, NUMBERS);
}

static graft_status check_numbers(const sampler *s, const graft_sampler_numbers *k, graft_err *e)
{
    if (!(s->flags & NUMBERS))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "sampler %s takes no numbers", s->name);
    if (k->order < 1 || k->order > GRAFT_LMS_ORDER)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "sampler %s of order %d: 1 to %d are there",
                          s->name, k->order, GRAFT_LMS_ORDER);
    if (k->eta >= 0 && k->eta <= 1e6 && k->s_noise >= 0 && k->s_noise <= 1e6 && k->r > 0 &&
        k->r <= 1e6)
        return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "sampler %s with eta %g, s_noise %g and r %g: the first two must be at least "
                      "0, r above 0",
                      s->name, k->eta, k->s_noise, k->r);
}

/* One array for all that the sampler needs. */
static float *alloc_buffers(const graft_sampler_run *run, size_t n)
{
    if (run->arrays) return run->arrays->alloc(run->arrays->ctx, n);
    return graft_malloc_array(n, sizeof(float));
}

graft_status graft_sampler_run_named(const char *name, graft_sampler_run *run, graft_err *e)
{
    const sampler *s = find(name);
    if (!s) return graft_fail(e, GRAFT_E_NOTFOUND, "unknown sampler \"%s\"", name);
    if (s->flags & PAIR && !run->denoiser->denoise_pair)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "sampler %s needs a model that predicts with and without the prompt",
                          name);
    static const graft_sampler_numbers usual = {.eta = 1,
                                                .s_noise = 1,
                                                .r = 0.5,
                                                .order = GRAFT_LMS_ORDER,
                                                .sa = {.predictor = 3, .corrector = 4}};
    graft_status st = run->numbers ? check_numbers(s, run->numbers, e) : GRAFT_OK;
    if (st || run->n_sigmas < 2) return st;
    assert(s->buffers <= GRAFT_WALK_BUFFERS);
    assert(!run->arrays || !(s->flags & LOOKS));
    graft_walk w = {.run = run,
                    .numbers = run->numbers ? run->numbers : &usual,
                    .variant = s->variant,
                    .sigma = run->sigmas,
                    .steps = run->n_sigmas - 1,
                    .x = run->x,
                    .n = run->n};
    size_t count;
    float *block = NULL;
    if (graft_size_mul(run->n, (size_t)s->buffers, &count)) block = alloc_buffers(run, count);
    if (!block) return graft_fail_nomem(e, "a sampler's buffers");
    for (int i = 0; i < s->buffers; i++) w.buf[i] = block + (size_t)i * run->n;
    if (run->arrays) w.drawn = graft_malloc_array(run->n, sizeof *w.drawn);
    st = run->arrays && !w.drawn ? graft_fail_nomem(e, "a sampler's noise") : s->sample(&w, e);
    graft_free(w.drawn);
    if (run->arrays)
        run->arrays->free(run->arrays->ctx, block);
    else
        graft_free(block);
    return st;
}
