/* ControlNets: files that are none, names that others have for the same tensors, models that do not
 * fit, and limits of memory. */
#include "tests/engine/control_run.h"

/* ------------------------------------------------------------------ refusals */

static void wrong_files(void)
{
    static const char *const needed[] = {
        "control_model.zero_convs.1.0.weight", "control_model.middle_block_out.0.bias",
        "control_model.input_hint_block.4.bias", "control_model.time_embed.0.weight",
        "control_model.input_blocks.1.0.in_layers.2.weight"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        made_file *f = make_control(model, 1);
        remove_tensor(f, needed[i]);
        expect_refusal(f, GRAFT_E_FORMAT, needed[i] + strlen("control_model."));
    }
    made_file *f = make_control(model, 1);
    remove_tensor(f, "control_model.input_hint_block.0.weight");
    expect_refusal(f, GRAFT_E_UNSUPPORTED, "input_hint_block.0.weight is missing");
    f = make_control(model, 1);
    remove_tensor(f, "control_model.input_hint_block.14.weight");
    expect_refusal(f, GRAFT_E_UNSUPPORTED, "7 convolutions");
    f = make_control(model, 1);
    made_find(f, "control_model.zero_convs.2.0.bias")->shape[0] -= 1;
    made_find(f, "control_model.zero_convs.2.0.bias")->bytes -= sizeof(float);
    expect_refusal(f, GRAFT_E_FORMAT, "zero_convs.2.0.bias");
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(try_load(make_control(model, 1), "nonsense", &e) && strstr(e.text, "broken.safetensors"));
    CHECK_INT(graft_controlnet_load(engine, SD1, NULL, &n, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_controlnet_load(engine, "/nowhere", NULL, &n, &e), GRAFT_E_NOTFOUND);
}

static made_file *in_diffusers(const graft_model *m)
{
    made_file *f = make_control(m, 1);
    to_diffusers(f, m);
    return f;
}

static void diffusers_names(void)
{
    static const char *const some[] = {"conv_in.weight",
                                       "time_embedding.linear_2.bias",
                                       "controlnet_cond_embedding.conv_in.weight",
                                       "controlnet_cond_embedding.blocks.5.weight",
                                       "controlnet_cond_embedding.conv_out.bias",
                                       "down_blocks.0.resnets.0.conv1.weight",
                                       "down_blocks.0.downsamplers.0.conv.weight",
                                       "down_blocks.1.resnets.0.conv_shortcut.weight",
                                       "down_blocks.1.attentions.0.proj_in.weight",
                                       "mid_block.resnets.1.norm2.weight",
                                       "controlnet_down_blocks.0.weight",
                                       "controlnet_mid_block.bias"};
    float ours[SMALL], theirs[SMALL];
    for (int i = 0; i < 2; i++) {
        graft_model *m = load_model(engine, i ? SDXL : SD1);
        const char *path = temp_path("diffusers.safetensors");
        random_state = 1; /* the same values in both */
        graft_controlnet *a = made_control(m, 1), *b;
        random_state = 1;
        made_file *f = in_diffusers(m);
        for (size_t k = 0; k < sizeof some / sizeof *some && !i; k++) made_find(f, some[k]);
        write_file(f, path, control_config(m));
        last_log[0] = 0;
        b = load_control(engine, path);
        CHECK_STR(last_log, ""); /* every tensor is read */
        unlink(path);
        CHECK_INT(a->arch.half.n_input, b->arch.half.n_input);
        CHECK(memcmp(&a->arch.half, &b->arch.half, sizeof a->arch.half) == 0);
        pair p = {prompt(m, 1), prompt(m, 2)}, q;
        graft_control_options o = options(1);
        o.net = a;
        q = steer(p, &o);
        sample(m, q, &usual, ours);
        drop(q);
        o.net = b;
        q = steer(p, &o);
        sample(m, q, &usual, theirs);
        drop(q);
        CHECK(memcmp(ours, theirs, sizeof ours) == 0);
        drop(p);
        graft_controlnet_release(a);
        graft_controlnet_release(b);
        graft_model_release(m);
    }
}

/* Any tensor may be missing: an error, which names a tensor of the file. */
static void any_tensor_missing(void)
{
    for (int theirs = 0; theirs < 2; theirs++) {
        made_file *f = theirs ? in_diffusers(model) : make_control(model, 1);
        for (size_t i = 0, last = f->n - 1; i <= last; i++) {
            graft_err e = GRAFT_ERR_INIT;
            const graft_st_tensor gone = f->tensor[i];
            f->tensor[i] = f->tensor[last];
            f->n = last;
            graft_status st = try_again(f, control_config(model), &e);
            CHECK(st == GRAFT_E_FORMAT || st == GRAFT_E_UNSUPPORTED);
            if (!strstr(e.text, "broken.safetensors")) CHECK_STR(e.text, gone.name);
            f->tensor[i] = gone;
            f->n = last + 1;
        }
        finish_file(f);
    }
}

/* One that lacks the first half of what it is told of sizes by, in either's names. */
static void sizes_told_by_half(void)
{
    graft_model *xl = load_model(engine, SDXL);
    for (int theirs = 0; theirs < 2; theirs++) {
        static const char *const lost[] = {"control_model.label_emb.0.0.weight",
                                           "add_embedding.linear_1.weight"};
        graft_err e = GRAFT_ERR_INIT;
        made_file *f = theirs ? in_diffusers(xl) : make_control(xl, 1);
        remove_tensor(f, lost[theirs]);
        CHECK_INT(try_load(f, control_config(xl), &e), GRAFT_E_FORMAT);
        CHECK(strstr(e.text, lost[theirs]));
    }
    graft_model_release(xl);
}

/* A tensor that nothing reads is told and no obstacle. */
static void leftovers(void)
{
    graft_err e = GRAFT_ERR_INIT;
    made_file *f = make_control(model, 1);
    add_tensor(f, "control_model.unknown.weight", 1, (int64_t[]){1}, NULL, 1);
    last_log[0] = 0;
    CHECK_OK(try_load(f, control_config(model), &e), &e);
    CHECK(strstr(last_log, "ignored 1 tensor") && strstr(last_log, "control_model.unknown.weight"));
    last_log[0] = 0;
    CHECK_OK(try_load(make_control(model, 1), control_config(model), &e), &e);
    CHECK_STR(last_log, "");
}

static void wrong_model(void)
{
    float now[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *xl = load_model(engine, SDXL);
    graft_control_options o = options(1);
    pair p = {prompt(xl, 1), prompt(xl, 2)}, q = steer(p, &o);
    CHECK_INT(try_sample(xl, q, &usual, now, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "belongs to another kind of model") != NULL);
    CHECK(strstr(e.text, "control.safetensors") != NULL); /* which one of several */
    drop(p);
    drop(q);
    graft_model_release(xl);
    o.strength = NAN;
    graft_cond *a = NULL, *b = NULL;
    CHECK_INT(graft_cond_control(positive, negative, &o, &a, &b, &e), GRAFT_E_ARG);
    o = options(1), o.end = INFINITY;
    CHECK_INT(graft_cond_control(positive, negative, &o, &a, &b, &e), GRAFT_E_ARG);
}

/* ------------------------------------------------------------------ memory */

/* The number that a message about max_memory_mb ends with. */
static int64_t promised(const char *text)
{
    const char *at = strstr(text, "would do is ");
    return at ? atoll(at + strlen("would do is ")) : 0;
}

/* max_memory_mb counts the ControlNets, too. */
static void memory(void)
{
    float now[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_control_options o = options(1);
    pair bare = {positive, negative}, p = steered(&o);
    int64_t least = 0, most = 0, told = 0;
    for (int64_t mib = 1; mib < 200 && !most; mib = next_limit(mib, told)) {
        graft_model *m = NULL;
        graft_compile_options c = {.precision = "f32", .tuning = "off", .max_memory_mb = mib};
        CHECK_OK(graft_model_compile(model, &c, NULL, &m, &e), &e);
        graft_status alone = try_sample(m, bare, &usual, now, &e);
        if (!alone && !least) least = mib;
        graft_status st = try_sample(m, p, &usual, now, &e);
        CHECK(st == GRAFT_OK || st == GRAFT_E_LIMIT);
        if (!st) {
            most = mib;
            CHECK(memcmp(now, with, sizeof now) == 0);
        } else if (!alone) {
            told = promised(e.text);
            CHECK(strstr(e.text, "of ControlNets), more than the") != NULL);
            CHECK(told > mib);
        }
        graft_model_release(m);
    }
    CHECK(least > 0 && most > least);
    CHECK_INT(most, told);
    drop(p);
}

/* GRAFT_MEMORY_MB does, for all of an engine: what it then has in memory is no more. */
static void memory_of_the_engine(void)
{
    float now[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    int64_t most = 0, told = 0;
    for (int64_t mib = 1; mib < 200 && !most; mib = next_limit(mib, told)) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)mib);
        setenv("GRAFT_MEMORY_MB", text, 1);
        graft_engine *tight = make_engine("cpu");
        graft_model *m = load_model(tight, SD1);
        random_state = 1;
        graft_controlnet *n = made_control(m, 1);
        graft_control_options o = options(1);
        o.net = n;
        pair p = steered(&o);
        graft_status st = try_sample(m, p, &usual, now, &e);
        CHECK(st == GRAFT_OK || st == GRAFT_E_LIMIT);
        CHECK(packs_of(tight).bytes + graft_arenas_bytes(tight->arenas) <= (uint64_t)mib << 20);
        if (!st) {
            most = mib;
        } else if (strstr(e.text, "unet with its ControlNets")) {
            const char *number = strstr(e.text, "would do is ");
            told = number ? strtoll(number + strlen("would do is "), NULL, 10) : 0;
        }
        drop(p);
        graft_controlnet_release(n);
        graft_model_release(m);
        graft_engine_destroy(tight);
    }
    unsetenv("GRAFT_MEMORY_MB");
    CHECK(most > 1);
    CHECK_INT(told, most);
}

/* Each ControlNet of a long chain counts once, also when the UNet without them is bound last. */
static void long_chains(void)
{
    enum { NETS = 20 };
    float now[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_controlnet *each[NETS];
    graft_model *m = NULL;
    pair p = {graft_cond_retain(positive), graft_cond_retain(negative)}, next;
    for (int i = 0; i < NETS; i++) {
        graft_control_options o = options(0.05);
        o.end = 0.9;
        o.net = each[i] = made_control(model, 1);
        next = steer(p, &o);
        drop(p);
        p = next;
    }
    sampling s = usual;
    s.steps = 2;
    int64_t told = 1;
    for (int tries = 0; tries < 5; tries++) {
        graft_compile_options c = {.precision = "f32", .tuning = "off", .max_memory_mb = told};
        CHECK_OK(graft_model_compile(model, &c, NULL, &m, &e), &e);
        graft_status st = try_sample(m, p, &s, now, &e);
        if (!st) break;
        CHECK_INT(st, GRAFT_E_LIMIT);
        told = promised(e.text);
        graft_model_release(m);
        m = NULL;
    }
    CHECK(m != NULL);
    s.steps = 30;
    if (m) sample(m, p, &s, now);
    graft_model_release(m);
    drop(p);
    for (int i = 0; i < NETS; i++) graft_controlnet_release(each[i]);
}

int main(void)
{
    control_begin();
    RUN(wrong_files);
    RUN(any_tensor_missing);
    RUN(sizes_told_by_half);
    RUN(diffusers_names);
    RUN(leftovers);
    RUN(wrong_model);
    if (UNDER_SANITIZER) puts("skipped: three of four limits of memory; the plain build tries all");
    RUN(memory);
    RUN(memory_of_the_engine);
    RUN(long_chains);
    control_end();
    return test_end();
}
