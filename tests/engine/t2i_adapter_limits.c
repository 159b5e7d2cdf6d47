/* T2I-Adapters: files that are none or of another kind, names that others have for the same
 * tensors, models that do not fit, and what does not go with them. */
#include "tests/engine/t2i_adapter.h"

static const adapter_form forms[] = {
    {8, 3, 4, 2, {8, 16, 16, 24}, false, false, 1}, {8, 1, 4, 2, {8, 16, 16, 24}, false, true, 1},
    {8, 3, 4, 2, {8, 16, 16, 24}, true, false, 1},  {8, 3, 3, 1, {8, 16, 16}, true, true, 1},
    {16, 3, 4, 2, {8, 16, 24, 24}, false, true, 1}, {16, 1, 4, 1, {8, 8, 16, 16}, false, false, 1}};
#define N_FORMS (sizeof forms / sizeof *forms)

/* ------------------------------------------------------------------ files */

static void all_forms(void)
{
    for (size_t i = 0; i < N_FORMS; i++) {
        last_log[0] = 0;
        graft_controlnet *n = made_adapter(&forms[i]);
        CHECK_STR(last_log, ""); /* every tensor is read */
        if (!n) continue;
        const graft_t2i_arch *a = &n->arch.t2i;
        CHECK(graft_control_adapts(n));
        CHECK_INT(a->n, forms[i].n);
        CHECK_INT(a->factor, forms[i].factor);
        CHECK_INT(a->colours, forms[i].colours);
        CHECK_INT(a->blocks, forms[i].blocks);
        CHECK_INT(a->light, forms[i].light);
        CHECK_INT(a->diffusers, forms[i].diffusers);
        for (int k = 0; k < a->n; k++) CHECK_INT(a->channels[k], forms[i].channels[k]);
        graft_controlnet_release(n);
    }
}

/* Any tensor may be missing: an error, which names the file. */
static void any_tensor_missing(void)
{
    for (size_t i = 0; i < N_FORMS; i++) {
        made_file *f = make_adapter(&forms[i]);
        for (size_t k = 0, last = f->n - 1; k <= last; k++) {
            graft_err e = GRAFT_ERR_INIT;
            const graft_st_tensor gone = f->tensor[k];
            f->tensor[k] = f->tensor[last];
            f->n = last;
            graft_status st = try_again(f, NULL, &e);
            CHECK(st == GRAFT_E_FORMAT || st == GRAFT_E_UNSUPPORTED);
            if (!strstr(e.text, "broken.safetensors")) CHECK_STR(e.text, gone.name);
            f->tensor[k] = gone;
            f->n = last + 1;
        }
        finish_file(f);
    }
}

/* Or have another shape, which is told by its name. */
static void any_shape_wrong(void)
{
    for (size_t i = 0; i < N_FORMS; i++) {
        made_file *f = make_adapter(&forms[i]);
        for (size_t k = 0; k < f->n; k++) {
            graft_err e = GRAFT_ERR_INIT;
            graft_st_tensor *t = &f->tensor[k];
            const graft_st_tensor whole = *t;
            t->bytes -= t->bytes / (uint64_t)t->shape[0];
            t->shape[0] -= 1;
            graft_status st = try_again(f, NULL, &e);
            CHECK(st == GRAFT_E_FORMAT || st == GRAFT_E_UNSUPPORTED);
            if (!strstr(e.text, "broken.safetensors")) CHECK_STR(e.text, whole.name);
            *t = whole;
        }
        finish_file(f);
    }
}

static void refusals(void)
{
    made_file *f = make_adapter(&forms[0]);
    add_tensor(f, "body.1.skep.weight", 4, (int64_t[]){8, 8, 1, 1}, NULL, 1);
    expect_refusal(f, GRAFT_E_UNSUPPORTED, "convolutions beside its blocks");
    f = make_adapter(&forms[0]);
    add_tensor(f, "body.2.down_opt.op.weight", 4, (int64_t[]){8, 8, 3, 3}, NULL, 1);
    expect_refusal(f, GRAFT_E_UNSUPPORTED, "convolutions beside its blocks");
    f = calloc(1, sizeof *f);
    add_tensor(f, "style_embedding", 3, (int64_t[]){1, 8, 16}, NULL, 1);
    expect_refusal(f, GRAFT_E_UNSUPPORTED, "a style model of T2I-Adapter");
    adapter_form odd = forms[0];
    odd.blocks = 2, odd.n = 3;
    expect_refusal(make_adapter(&odd), GRAFT_E_UNSUPPORTED, "6 blocks");
    odd = forms[3], odd.factor = 16;
    expect_refusal(make_adapter(&odd), GRAFT_E_UNSUPPORTED, "takes 768 channels");
    odd = forms[1], odd.colours = 2;
    expect_refusal(make_adapter(&odd), GRAFT_E_UNSUPPORTED, "takes 128 channels");
    odd = forms[3], odd.channels[1] = 18;
    expect_refusal(make_adapter(&odd), GRAFT_E_UNSUPPORTED, "no multiple of 4");
    /* Other loaders say which is right. */
    graft_err e = GRAFT_ERR_INIT;
    check_refused(engine, make_adapter(&forms[1]), NULL, GRAFT_E_UNSUPPORTED,
                  "a T2I-Adapter, which ControlNetLoader opens", &e);
}

static void leftovers(void)
{
    graft_err e = GRAFT_ERR_INIT;
    made_file *f = make_adapter(&forms[1]);
    add_tensor(f, "adapter.unknown.weight", 1, (int64_t[]){1}, NULL, 1);
    last_log[0] = 0;
    CHECK_OK(try_load(f, NULL, &e), &e);
    CHECK(strstr(last_log, "ignored 1 tensor") && strstr(last_log, "adapter.unknown.weight"));
}

/* DiffControlNetLoader has nothing to add to it. */
static void no_differences(void)
{
    const char *path = temp_path("adapter.safetensors");
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_file(make_adapter(&form_sd1), path, NULL);
    last_log[0] = 0;
    CHECK_OK(graft_controlnet_load_diff(engine, path, model, NULL, &n, &e), &e);
    CHECK(strstr(last_log, "holds whole weights") != NULL);
    unlink(path);
    graft_controlnet_release(n);
}

/* ------------------------------------------------------------------ names */

/* The same adapter in both namings. */
static void both_namings(void)
{
    float ours[SMALL], theirs[SMALL];
    for (int i = 0; i < 2; i++) {
        adapter_form a = i ? form_light : form_xl, b;
        made_file *f = make_xl();
        graft_model *m = i ? graft_model_retain(model) : load_made_model(f, config_xl);
        if (i) finish_file(f);
        a.diffusers = false, b = a, b.diffusers = true;
        random_state = 3; /* the same values in both, as they have the same order */
        graft_controlnet *x = made_adapter(&a);
        random_state = 3;
        graft_controlnet *y = made_adapter(&b);
        graft_control_options o = options(1);
        pair p = {prompt(m, 1), prompt(m, 2)}, q;
        o.net = x, q = steer(p, &o);
        sample(m, q, &usual, ours);
        drop(q);
        o.net = y, q = steer(p, &o);
        sample(m, q, &usual, theirs);
        drop(q);
        CHECK(memcmp(ours, theirs, sizeof ours) == 0);
        sample(m, p, &usual, theirs);
        CHECK(difference(ours, theirs, SMALL) > 1e-3);
        drop(p);
        graft_controlnet_release(x);
        graft_controlnet_release(y);
        graft_model_release(m);
    }
}

/* ------------------------------------------------------------------ models */

static void expect_misfit(const graft_model *m, const adapter_form *a, const char *text)
{
    float now[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_controlnet *n = made_adapter(a);
    graft_control_options o = options(1);
    o.net = n;
    pair p = {prompt(m, 1), prompt(m, 2)}, q = steer(p, &o);
    CHECK_INT(try_sample(m, q, &usual, now, &e), GRAFT_E_ARG);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    CHECK(strstr(e.text, "adapter.safetensors") && strstr(e.text, "belongs to another kind"));
    drop(p);
    drop(q);
    graft_controlnet_release(n);
}

static void wrong_models(void)
{
    made_file *f = make_xl();
    graft_model *xl = load_made_model(f, config_xl);
    graft_model *sd3 = load_model(engine, GRAFT_SOURCE_DIR "/golden/small/mmdit_sd3.safetensors");
    adapter_form narrow = form_sd1;
    narrow.channels[1] = 32;
    expect_misfit(model, &form_xl, "gives 4 features, the model has places for 2 or 3");
    expect_misfit(model, &narrow,
                  "feature 1 has 32 channels for squares of 16 pixels, the model's "
                  "blocks there 64 for 16");
    adapter_form large = form_xl;
    large.factor = 8;
    large.diffusers = true;
    expect_misfit(xl, &large, "squares of 8 pixels, the model's blocks there 32 for 16");
    expect_misfit(sd3, &form_sd1, "it is for Stable Diffusion 1.x, 2.x or XL");
    graft_model_release(xl);
    graft_model_release(sd3);
}

static void no_downscale(void)
{
    const graft_downscale_options d = {.block_number = 1,
                                       .factor = 2,
                                       .start = 0,
                                       .end = 1,
                                       .after_skip = true,
                                       .down_method = "bicubic",
                                       .up_method = "bicubic"};
    float now[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = NULL;
    graft_controlnet *n = made_adapter(&form_sd1);
    graft_control_options o = options(1);
    o.net = n;
    pair p = steered(&o);
    CHECK_OK(graft_model_downscale(model, &d, &m, &e), &e);
    CHECK_INT(try_sample(m, p, &usual, now, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "T2I-Adapters") != NULL);
    drop(p);
    graft_model_release(m);
    graft_controlnet_release(n);
}

/* Where memory has a limit the adapter's weights are let go of before the model's come; of one that
 * begins later both are there at once, and count. */
static void memory_from(double start, int64_t *least)
{
    float now[SMALL], want[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    adapter_form large = form_sd1;
    large.blocks = 30; /* larger than all else that the model needs at a time */
    graft_controlnet *n = made_adapter(&large);
    graft_control_options o = options(1);
    o.net = n, o.start = start;
    pair p = steered(&o);
    run(p, want);
    bool refused = false, done = false;
    for (int64_t mib = 1; mib < 200 && !done; mib++) {
        graft_model *m = NULL;
        graft_compile_options c = {.precision = "f32", .tuning = "off", .max_memory_mb = mib};
        CHECK_OK(graft_model_compile(model, &c, NULL, &m, &e), &e);
        graft_status st = try_sample(m, p, &usual, now, &e);
        CHECK(st == GRAFT_OK || st == GRAFT_E_LIMIT);
        refused = refused || st;
        done = !st;
        *least = mib;
        graft_model_release(m);
    }
    CHECK(refused && done);
    CHECK(memcmp(now, want, sizeof now) == 0);
    drop(p);
    graft_controlnet_release(n);
}

static void memory(void)
{
    int64_t at_once, later;
    memory_from(0, &at_once);
    memory_from(0.5, &later);
    CHECK(later > at_once);
}

static void allocations(void)
{
    const char *path = temp_path("adapter.safetensors");
    write_file(make_adapter(&form_sd1), path, NULL);
    without_memory(path, 0, UNDER_SANITIZER ? 7 : 1);
    without_memory(path, 2, UNDER_SANITIZER ? 211 : 53);
    unlink(path);
}

int main(void)
{
    control_begin();
    RUN(all_forms);
    RUN(any_tensor_missing);
    RUN(any_shape_wrong);
    RUN(refusals);
    RUN(leftovers);
    RUN(no_differences);
    RUN(both_namings);
    RUN(wrong_models);
    RUN(no_downscale);
    RUN(memory);
    RUN(allocations);
    control_end();
    return test_end();
}
