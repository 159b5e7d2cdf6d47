/* Control-LoRAs: with a model's weights they are the ControlNets that hold the sum of both, also
 * where the model's change; files and models that do not fit. */
#include "tests/engine/control_run.h"
#include "tests/engine/merge.h"

enum { RANK = 3 };

static char path_lora[256], path_other[256];

/* ------------------------------------------------------------------ files */

/* t (rows,columns…) += up (rows,RANK) x down (RANK,columns…) */
static void add_product(const graft_st_tensor *t, const float *up, const float *down)
{
    const int64_t rows = t->shape[0], columns = shape_count(t->shape, t->rank) / rows;
    float *v = (float *)(uintptr_t)t->data;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            double sum = 0;
            for (int k = 0; k < RANK; k++) sum += (double)up[r * RANK + k] * down[k * columns + c];
            v[r * columns + c] += (float)sum;
        }
}

/* The factors of a layer; a convolution's as such files have them. Returns where they are. Their
 * products have no more bits than a float, so that sums with weights are the same bits everywhere.
 */
static void add_factors(made_file *f, const char *layer, const graft_st_tensor *t, float **up,
                        float **down)
{
    char name[300];
    int64_t a[4] = {t->shape[0], RANK, 1, 1}, b[4] = {RANK, t->shape[1], 1, 1};
    for (int i = 2; i < t->rank; i++) b[i] = t->shape[i];
    snprintf(name, sizeof name, "%s.up", layer);
    *up = add_tensor(f, name, t->rank, a, NULL, 0.15f);
    snprintf(name, sizeof name, "%s.down", layer);
    *down = add_tensor(f, name, t->rank, b, NULL, 0.15f);
    for (int64_t i = 0; i < shape_count(a, 4); i++) (*up)[i] = roundf((*up)[i] * 64) / 64;
    for (int64_t i = 0; i < shape_count(b, 4); i++) (*down)[i] = roundf((*down)[i] * 64) / 64;
}

/* A Control-LoRA for the model and, where `whole` is wanted, what it is with the model's weights
 * as `base` has them (names as in a checkpoint). */
static made_file *make_control_lora(const graft_model *m, const made_file *base, made_file **whole)
{
    static const char marker[] = "lora_controlnet";
    random_state = 11;
    made_file *f = calloc(1, sizeof *f), *all = make_control(m, 1);
    for (size_t i = 0; i < all->n; i++) {
        const graft_st_tensor *t = &all->tensor[i];
        const char *name = t->name + strlen("control_model.");
        float *v = (float *)(uintptr_t)t->data, *up, *down;
        if (of_first_half(name) && t->rank > 1) {
            char layer[300];
            snprintf(layer, sizeof layer, "%.*s", (int)(strlen(name) - strlen(".weight")), name);
            for (size_t k = 0; base && k < base->n; k++)
                if (strcmp(base->tensor[k].name + strlen("model.diffusion_model."), name) == 0)
                    memcpy(v, base->tensor[k].data, (size_t)t->bytes);
            add_factors(f, layer, t, &up, &down);
            add_product(t, up, down);
            continue;
        }
        if (of_first_half(name))
            for (int64_t k = 0; k < t->shape[0]; k++) v[k] += 0.05f * random_value();
        add_tensor(f, name, t->rank, t->shape, v, 0);
    }
    add_tensor(f, marker, 1, (int64_t[]){0}, NULL, 0);
    if (whole)
        *whole = all;
    else
        finish_file(all);
    return f;
}

static graft_controlnet *load_lora(made_file *f)
{
    const char *path = temp_path("lora.safetensors");
    write_file(f, path, NULL);
    graft_controlnet *n = load_control(engine, path);
    unlink(path);
    return n;
}

/* What sampling the model gives with this ControlNet, which is let go. */
static void run_with(const graft_model *m, graft_controlnet *n, const sampling *s, float *out)
{
    graft_control_options o = options(1);
    pair p = {prompt(m, 1), prompt(m, 2)}, q;
    o.net = n;
    q = steer(p, &o);
    sample(m, q, s, out);
    drop(p);
    drop(q);
    graft_controlnet_release(n);
}

/* ------------------------------------------------------------------ what they are */

/* The ControlNet of the sum, bit by bit, whose graphs it shares: of SD1 and SDXL. */
static void same_as_whole(void)
{
    for (int xl = 0; xl < 2; xl++) {
        float want[SMALL], got[SMALL], bare[SMALL];
        graft_model *m = load_model(engine, xl ? SDXL : SD1);
        made_file *whole, *f = make_control_lora(m, NULL, &whole);
        pair p = {prompt(m, 1), prompt(m, 2)};
        sample(m, p, &usual, bare);
        run_with(m, load_made(m, whole), &usual, want);
        const uint64_t built = graphs_built(engine);
        last_log[0] = 0;
        run_with(m, load_lora(f), &usual, got);
        CHECK_STR(last_log, "");
        CHECK_INT(graphs_built(engine), built);
        CHECK(memcmp(got, want, sizeof got) == 0);
        CHECK(difference(got, bare, SMALL) > 1e-3);
        /* The changes count: without them it is another ControlNet. */
        run_with(m, load_made(m, make_control(m, 1)), &usual, bare);
        CHECK(difference(got, bare, SMALL) > 1e-3);
        drop(p);
        graft_model_release(m);
    }
}

/* Other weights of the model are other weights of the ControlNet, and the first ones again. */
static void follows_the_model(void)
{
    static const double third[GRAFT_REGIONS] = {0.3, 0.3, 0.3},
                        rest[GRAFT_REGIONS] = {0.7, 0.7, 0.7};
    float want[SMALL], got[SMALL], first[SMALL], again[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *other = load_model(engine, path_other), *mixed = graft_model_copy(model);
    graft_controlnet *n = load_control(engine, path_lora);
    graft_safetensors *f[2] = {open_file(SD1), open_file(path_other)};
    made_file *base = copy_file(f[1], "model.diffusion_model."), *whole;
    made_file *own = copy_file(f[0], "model.diffusion_model.");
    run_with(model, graft_controlnet_retain(n), &usual, first);
    finish_file(make_control_lora(model, base, &whole));
    run_with(other, load_made(model, whole), &usual, want);
    run_with(other, graft_controlnet_retain(n), &usual, got);
    CHECK(difference(got, want, SMALL) < 1e-4);
    CHECK(difference(got, first, SMALL) > 1e-3);
    run_with(model, graft_controlnet_retain(n), &usual, again);
    CHECK(memcmp(again, first, sizeof again) == 0);
    for (size_t i = 0; i < base->n; i++) { /* a merge */
        float *v = (float *)(uintptr_t)base->tensor[i].data;
        const float *w = made_find(own, base->tensor[i].name)->data;
        for (uint64_t k = 0; k < base->tensor[i].bytes / sizeof *v; k++)
            v[k] = 0.3f * w[k] + 0.7f * v[k];
    }
    graft_weights *sum = NULL;
    CHECK_OK(graft_weights_sum(model->weights, third, other->weights, rest, &sum, &e), &e);
    graft_weights_release(mixed->weights);
    mixed->weights = sum;
    finish_file(make_control_lora(model, base, &whole));
    run_with(mixed, load_made(model, whole), &usual, want);
    run_with(mixed, n, &usual, got);
    CHECK(difference(got, want, SMALL) < 1e-4);
    for (int i = 0; i < 2; i++) graft_safetensors_close(f[i]);
    finish_file(base);
    finish_file(own);
    graft_model_release(mixed);
    graft_model_release(other);
}

/* A LoRA of the model changes the ControlNet's matrices, but not what its file has whole. */
static void follows_a_lora(void)
{
    float want[SMALL], got[SMALL], first[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    const char *layer = "lora_unet_input_blocks_1_1_transformer_blocks_0_attn1_to_q";
    const char *weight = "model.diffusion_model.input_blocks.1.1.transformer_blocks.0.attn1."
                         "to_q.weight";
    const char *path = temp_path("lora.safetensors");
    const int64_t c = model->arch.unet.model_channels;
    graft_safetensors *sd1 = open_file(SD1);
    made_file *f = calloc(1, sizeof *f), *base = copy_file(sd1, "model.diffusion_model."), *whole;
    char name[256];
    snprintf(name, sizeof name, "%s.lora_up.weight", layer);
    float *up = add_tensor(f, name, 2, (int64_t[]){c, RANK}, NULL, 0.5f);
    snprintf(name, sizeof name, "%s.lora_down.weight", layer);
    float *down = add_tensor(f, name, 2, (int64_t[]){RANK, c}, NULL, 0.5f);
    add_product(made_find(base, weight), up, down);
    write_file(f, path, NULL);
    run_with(model, load_control(engine, path_lora), &usual, first);
    graft_model *m = NULL;
    graft_clip *none = NULL;
    CHECK_OK(graft_lora_apply(model, NULL, path, 1, 0, NULL, &m, &none, &e), &e);
    finish_file(make_control_lora(model, base, &whole));
    run_with(m, load_made(model, whole), &usual, want);
    run_with(m, load_control(engine, path_lora), &usual, got);
    CHECK(difference(got, want, SMALL) < 1e-4);
    CHECK(difference(got, first, SMALL) > 1e-4);
    graft_model_release(m);
    finish_file(base);
    graft_safetensors_close(sd1);
    unlink(path);
}

/* DeepCache, quantized models, and chains with other ControlNets. */
static void goes_with_the_rest(void)
{
    float want[SMALL], got[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    made_file *whole, *f = make_control_lora(model, NULL, &whole);
    graft_controlnet *both[2] = {load_made(model, whole), load_lora(f)};
    graft_model *cached = with_deepcache(model, 3, -1, 0), *m = NULL;
    graft_control_options o = options(1);
    pair p[2], q[2];
    graft_latent *latent = NULL;
    sampling s = usual;
    s.steps = 6;
    for (int i = 0; i < 2; i++) {
        o.net = both[i];
        p[i] = steered(&o);
        o.net = net;
        q[i] = steer(p[i], &o);
    }
    sample(cached, p[0], &s, want);
    sample(cached, p[1], &s, got);
    CHECK(memcmp(got, want, sizeof got) == 0);
    run(q[0], want);
    run(q[1], got);
    CHECK(memcmp(got, want, sizeof got) == 0);
    CHECK_OK(graft_latent_empty(4, 64, 64, 1, &latent, &e), &e);
    const graft_quantize_options quantize = quantizing(p[0], latent);
    CHECK_OK(graft_model_quantize(model, &quantize, NULL, &m, NULL, &e), &e);
    sample(m, p[0], &usual, want);
    sample(m, p[1], &usual, got);
    CHECK(memcmp(got, want, sizeof got) == 0);
    run((pair){positive, negative}, want);
    CHECK(difference(got, want, SMALL) > 0.1);
    for (int i = 0; i < 2; i++) {
        drop(p[i]);
        drop(q[i]);
        graft_controlnet_release(both[i]);
    }
    graft_latent_release(latent);
    graft_model_release(m);
    graft_model_release(cached);
}

/* compile_only compiles and packs all that the run then needs. */
static void ahead_of_time(void)
{
    float now[SMALL];
    graft_task task = {.compile_only = true};
    graft_controlnet *n = load_control(engine, path_lora);
    graft_control_options o = options(1);
    o.net = n;
    pair p = steered(&o);
    sampling s = usual;
    s.task = &task;
    sample(model, p, &s, now);
    const uint64_t built = graphs_built(engine);
    const graft_packs_stats before = packs_of(engine);
    s.task = NULL;
    sample(model, p, &s, now);
    CHECK_INT(graphs_built(engine), built);
    CHECK_INT(packs_of(engine).made, before.made);
    drop(p);
    graft_controlnet_release(n);
}

/* What the file lacks and the model has is the model's. */
static void less_in_the_file(void)
{
    static const char layer[] = "input_blocks.1.0.in_layers.2";
    float want[SMALL], got[SMALL];
    char name[100];
    made_file *whole, *f = make_control_lora(model, NULL, &whole), *bare = make_control(model, 1);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s.%s", layer, i == 2 ? "bias" : i ? "up" : "down");
        remove_tensor(f, name);
        snprintf(name, sizeof name, "control_model.%s.%s", layer, i == 2 ? "bias" : "weight");
        graft_st_tensor *t = made_find(whole, name);
        memcpy((void *)(uintptr_t)t->data, made_find(bare, name)->data, (size_t)t->bytes);
    }
    finish_file(bare);
    run_with(model, load_made(model, whole), &usual, want);
    run_with(model, load_lora(f), &usual, got);
    CHECK(memcmp(got, want, sizeof got) == 0);
}

/* ------------------------------------------------------------------ what does not fit */

static void wrong_files(void)
{
    static const char *const needed[] = {"zero_convs.1.0.weight",
                                         "zero_convs.2.0.bias",
                                         "middle_block_out.0.weight",
                                         "middle_block_out.0.bias",
                                         "input_hint_block.4.bias",
                                         "time_embed.0.up",
                                         "input_blocks.1.0.in_layers.2.down"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        made_file *f = make_control_lora(model, NULL, NULL);
        remove_tensor(f, needed[i]);
        expect_refusal(f, GRAFT_E_FORMAT, needed[i]);
    }
    made_file *f = make_control_lora(model, NULL, NULL);
    remove_tensor(f, "input_hint_block.14.weight");
    expect_refusal(f, GRAFT_E_UNSUPPORTED, "7 convolutions");
    f = make_control_lora(model, NULL, NULL);
    graft_st_tensor *t = made_find(f, "time_embed.2.down");
    t->shape[0] -= 1;
    t->bytes -= t->bytes / RANK;
    expect_refusal(f, GRAFT_E_FORMAT, "time_embed.2.up and time_embed.2.down do not fit together");
    f = calloc(1, sizeof *f);
    add_tensor(f, "lora_controlnet", 1, (int64_t[]){1}, NULL, 1);
    expect_refusal(f, GRAFT_E_FORMAT, "zero_convs.0.0.weight is missing");
    f = make_control_lora(model, NULL, NULL);
    for (size_t i = f->n; i-- > 0;)
        if (graft_str_ends(f->tensor[i].name, ".up") || graft_str_ends(f->tensor[i].name, ".down"))
            remove_tensor(f, f->tensor[i].name);
    expect_refusal(f, GRAFT_E_FORMAT, "without tensors that end with .up and .down");
}

/* f, which is let go, loads, but this model is not the one that it is for. */
static void expect_misfit(made_file *f, const graft_model *m, graft_status want, const char *text)
{
    float now[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_controlnet *n = load_lora(f);
    graft_control_options o = options(1);
    o.net = n;
    pair p = {prompt(m, 1), prompt(m, 2)}, q = steer(p, &o);
    CHECK_INT(try_sample(m, q, &usual, now, &e), want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    CHECK(strstr(e.text, "lora.safetensors") != NULL);
    drop(p);
    drop(q);
    graft_controlnet_release(n);
}

static void wrong_models(void)
{
    graft_model *xl = load_model(engine, SDXL);
    graft_model *sd3 = load_model(engine, GRAFT_SOURCE_DIR "/golden/small/mmdit_sd3.safetensors");
    expect_misfit(make_control_lora(model, NULL, NULL), xl, GRAFT_E_ARG,
                  "belongs to another kind of model: it takes prompts of width 48 and 0");
    expect_misfit(make_control_lora(xl, NULL, NULL), model, GRAFT_E_ARG, "belongs to another kind");
    expect_misfit(make_control_lora(model, NULL, NULL), sd3, GRAFT_E_ARG,
                  "it is for Stable Diffusion 1.x");
    made_file *f = make_control_lora(model, NULL, NULL);
    add_tensor(f, "input_blocks.1.2.odd.up", 2, (int64_t[]){8, RANK}, NULL, 1);
    add_tensor(f, "input_blocks.1.2.odd.down", 2, (int64_t[]){RANK, 8}, NULL, 1);
    expect_misfit(f, model, GRAFT_E_ARG, "it changes input_blocks.1.2.odd.weight, which the model");
    f = make_control_lora(model, NULL, NULL);
    graft_st_tensor *t = made_find(f, "input_blocks.1.0.emb_layers.1.up");
    t->bytes -= t->bytes / (uint64_t)t->shape[0];
    t->shape[0] -= 1;
    expect_misfit(f, model, GRAFT_E_FORMAT, "do not fit");
    f = make_control_lora(model, NULL, NULL);
    t = made_find(f, "input_blocks.1.0.emb_layers.1.bias");
    t->bytes -= sizeof(float);
    t->shape[0] -= 1;
    expect_misfit(f, model, GRAFT_E_FORMAT, "input_blocks.1.0.emb_layers.1.bias has the shape");
    f = make_control_lora(model, NULL, NULL);
    t = made_find(f, "zero_convs.1.0.weight");
    t->bytes -= t->bytes / (uint64_t)t->shape[1];
    t->shape[1] -= 1;
    expect_misfit(f, model, GRAFT_E_FORMAT, "zero_convs.1.0.weight has the shape");
    graft_model_release(xl);
    graft_model_release(sd3);
}

/* An inpainting model's first layer takes more than the latent. */
static void inpainting_model(void)
{
    const char *path = temp_path("wide.safetensors");
    graft_safetensors *from = open_file(SD1);
    write_file(widened_file(copy_file(from, "model.diffusion_model."), 5, 0.1f), path,
               graft_safetensors_metadata(from, "config"));
    graft_model *wide = load_model(engine, path);
    expect_misfit(make_control_lora(model, NULL, NULL), wide, GRAFT_E_FORMAT,
                  "input_blocks.0.0.weight has the shape");
    graft_safetensors_close(from);
    graft_model_release(wide);
    unlink(path);
}

/* With DiffControlNetLoader it is the same. */
static void by_the_other_loader(void)
{
    float want[SMALL], got[SMALL];
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    run_with(model, load_control(engine, path_lora), &usual, want);
    CHECK_OK(graft_controlnet_load_diff(engine, path_lora, model, NULL, &n, &e), &e);
    run_with(model, n, &usual, got);
    CHECK(memcmp(got, want, sizeof got) == 0);
}

static void allocations(void)
{
    without_memory(path_lora, 0, UNDER_SANITIZER ? 31 : 7);
    without_memory(path_lora, 2, UNDER_SANITIZER ? 997 : 211);
}

int main(void)
{
    control_begin();
    snprintf(path_lora, sizeof path_lora, "%s", temp_path("control-lora.safetensors"));
    write_file(make_control_lora(model, NULL, NULL), path_lora, NULL);
    make_variant(path_other, "other.safetensors", 0.3f, GRAFT_F32);
    RUN(same_as_whole);
    RUN(follows_the_model);
    RUN(follows_a_lora);
    RUN(goes_with_the_rest);
    RUN(ahead_of_time);
    RUN(less_in_the_file);
    RUN(wrong_files);
    RUN(wrong_models);
    RUN(inpainting_model);
    RUN(by_the_other_loader);
    RUN(allocations);
    unlink(path_lora);
    unlink(path_other);
    control_end();
    return test_end();
}
