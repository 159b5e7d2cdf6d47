/* ControlNets that are stored as differences from a UNet: with a model's weights they are what by
 * hand is the sum of both. */
#include "tests/engine/control_run.h"
#include "tests/engine/merge.h"

static char path_whole[256], path_diff[256], path_other[256];

/* Adds factor times the tensors that the UNet has as well. */
static void add_unet(made_file *f, const graft_safetensors *unet, float factor)
{
    for (size_t i = 0; i < f->n; i++) {
        char name[512];
        snprintf(name, sizeof name, "%s%s", UNET, f->tensor[i].name + strlen("control_model."));
        const graft_st_tensor *t = graft_safetensors_find(unet, name);
        if (!t) continue;
        float *v = (float *)(uintptr_t)f->tensor[i].data, *u = values_of(t);
        int64_t n = shape_count(t->shape, t->rank);
        for (int64_t k = 0; k < n; k++) v[k] += factor * u[k];
        free(u);
    }
}

/* A ControlNet for SD1 whose copy of the UNet has learnt something. */
static made_file *trained(void)
{
    random_state = 1;
    made_file *f = make_control(model, 1);
    for (size_t i = 0; i < f->n; i++) {
        float *v = (float *)(uintptr_t)f->tensor[i].data;
        int64_t n = shape_count(f->tensor[i].shape, f->tensor[i].rank);
        if (!of_first_half(f->tensor[i].name + strlen("control_model."))) continue;
        for (int64_t k = 0; k < n; k++) v[k] += 0.02f * random_value();
    }
    return f;
}

static made_file *differences(void)
{
    made_file *f = trained();
    add_unet(f, graft_weights_file(model->weights), -1);
    return f;
}

static graft_controlnet *load_diff(const char *path, const graft_model *m)
{
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_controlnet_load_diff(engine, path, m, NULL, &n, &e), &e);
    return n;
}

/* What the usual run gives with this ControlNet, which is let go. */
static void run_net(graft_controlnet *n, float *out)
{
    graft_control_options o = options(1);
    o.net = n;
    steer_and_run(&o, out);
    graft_controlnet_release(n);
}

static void same_as_whole(void)
{
    float want[SMALL], got[SMALL], bare[SMALL];
    last_log[0] = 0;
    run_net(load_control(engine, path_whole), want);
    run_net(load_diff(path_diff, model), got);
    CHECK_STR(last_log, "");
    CHECK(difference(want, plain, SMALL) > 1e-3);
    CHECK(difference(got, want, SMALL) < 1e-4);
    run_net(load_control(engine, path_diff), bare);
    CHECK(strstr(last_log, "seems to hold differences") &&
          strstr(last_log, "DiffControlNetLoader"));
    CHECK(difference(bare, want, SMALL) > 1e-3);
}

/* Other weights of the model are other weights of the ControlNet; of merges, too. */
static void follows_the_model(void)
{
    static const double third[GRAFT_REGIONS] = {0.3, 0.3, 0.3},
                        rest[GRAFT_REGIONS] = {0.7, 0.7, 0.7};
    float want[SMALL], got[SMALL], first[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *other = load_model(engine, path_other), *mixed = graft_model_copy(model);
    graft_weights *sum = NULL;
    made_file *f = differences();
    add_unet(f, graft_weights_file(other->weights), 1);
    run_net(load_made(model, f), want);
    run_net(load_diff(path_diff, other), got);
    run_net(load_diff(path_diff, model), first);
    CHECK(difference(got, want, SMALL) < 1e-4);
    CHECK(difference(got, first, SMALL) > 1e-3);
    CHECK_OK(graft_weights_sum(model->weights, third, other->weights, rest, &sum, &e), &e);
    graft_weights_release(mixed->weights);
    mixed->weights = sum;
    f = differences();
    add_unet(f, graft_weights_file(model->weights), 0.3f);
    add_unet(f, graft_weights_file(other->weights), 0.7f);
    run_net(load_made(model, f), want);
    run_net(load_diff(path_diff, mixed), got);
    CHECK(difference(got, want, SMALL) < 1e-4);
    CHECK(difference(got, first, SMALL) > 1e-3);
    graft_model_release(mixed);
    graft_model_release(other);
}

/* A LoRA of the model changes the ControlNet as far as both have the layer, and one of strength 0
 * does not. */
static void follows_a_lora(void)
{
    float first[SMALL], now[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    const char *layer = "lora_unet_input_blocks_1_1_transformer_blocks_0_attn1_to_q";
    const char *path = temp_path("lora.safetensors");
    int64_t c = model->arch.unet.model_channels;
    made_file *f = calloc(1, sizeof *f);
    char name[256];
    snprintf(name, sizeof name, "%s.lora_up.weight", layer);
    add_tensor(f, name, 2, (int64_t[]){c, 4}, NULL, 1);
    snprintf(name, sizeof name, "%s.lora_down.weight", layer);
    add_tensor(f, name, 2, (int64_t[]){4, c}, NULL, 1);
    write_file(f, path, NULL);
    run_net(load_diff(path_diff, model), first);
    for (int i = 0; i < 2; i++) {
        graft_model *m = NULL;
        graft_clip *none = NULL;
        CHECK_OK(graft_lora_apply(model, NULL, path, i, 0, NULL, &m, &none, &e), &e);
        run_net(load_diff(path_diff, m), now);
        CHECK(i ? difference(now, first, SMALL) > 1e-4 : difference(now, first, SMALL) < 1e-5);
        graft_model_release(m);
    }
    unlink(path);
}

/* What is whole stays as it is, with a word about it. */
static void whole_files(void)
{
    float want[SMALL], got[SMALL];
    run_net(load_control(engine, path_whole), want);
    last_log[0] = 0;
    run_net(load_diff(path_whole, model), got);
    CHECK(memcmp(got, want, sizeof got) == 0);
    CHECK(strstr(last_log, "holds whole weights") != NULL);
}

static void expect_failure(const char *path, const graft_model *m, graft_status want,
                           const char *text)
{
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_controlnet_load_diff(engine, path, m, NULL, &n, &e), want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    CHECK(n == NULL);
}

/* SD1 for inpainting: its first layer takes more channels. */
static void make_wide(const char *path)
{
    const char *first = UNET "input_blocks.0.0.weight";
    graft_safetensors *from = open_file(SD1);
    made_file *f = copy_file(from, UNET);
    remove_tensor(f, first);
    add_tensor(f, first, 4, (int64_t[]){model->arch.unet.model_channels, 9, 3, 3}, NULL, 0.1f);
    write_file(f, path, graft_safetensors_metadata(from, "config"));
    graft_safetensors_close(from);
}

static void refusals(void)
{
    graft_model *xl = load_model(engine, SDXL);
    const char *path = temp_path("odd.safetensors");
    expect_failure(path_diff, xl, GRAFT_E_ARG, "belongs to another kind of model");
    expect_failure("/nowhere", model, GRAFT_E_NOTFOUND, "nowhere");
    expect_failure(SD1, model, GRAFT_E_UNSUPPORTED, "no ControlNet in it");
    made_file *f = differences();
    to_diffusers(f, model);
    write_file(f, path, control_config(model));
    expect_failure(path, model, GRAFT_E_UNSUPPORTED, "diffusers' names");
    make_wide(path);
    graft_model *wide = load_model(engine, path);
    expect_failure(path_diff, wide, GRAFT_E_FORMAT, "input_blocks.0.0.weight has the shape");
    unlink(path);
    graft_model_release(wide);
    graft_model_release(xl);
}

int main(void)
{
    control_begin();
    snprintf(path_whole, sizeof path_whole, "%s", temp_path("whole.safetensors"));
    snprintf(path_diff, sizeof path_diff, "%s", temp_path("diff.safetensors"));
    write_file(trained(), path_whole, control_config(model));
    write_file(differences(), path_diff, control_config(model));
    make_variant(path_other, "other.safetensors", 0.3f, GRAFT_F32);
    RUN(same_as_whole);
    RUN(follows_the_model);
    RUN(follows_a_lora);
    RUN(whole_files);
    RUN(refusals);
    unlink(path_whole);
    unlink(path_diff);
    unlink(path_other);
    control_end();
    return test_end();
}
