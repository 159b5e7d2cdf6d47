/* Text encoders with hooks: prompts are encoded as LoraLoader's encoder does it, once or for each
 * stretch of the schedule, and bring the hooks into sampling. */
#include "engine/prompts/clip_hooks.h"
#include "tests/engine/hooks.h"

static graft_model *model;
static graft_clip *clip;
static char lora[256];

#define TEXT "red apple, (3d:1.2)"

/* Layers of the demo's UNet and text encoder. */
static void write_both(void)
{
    static const char *const layer[] = {"lora_te_text_model_encoder_layers_0_mlp_fc1",
                                        "lora_te_text_model_encoder_layers_1_self_attn_q_proj",
                                        "lora_unet_middle_block_1_transformer_blocks_0_attn1_to_q"};
    static const char *const name[] = {
        "cond_stage_model.transformer.text_model.encoder.layers.0.mlp.fc1.weight",
        "cond_stage_model.transformer.text_model.encoder.layers.1.self_attn.q_proj.weight",
        "model.diffusion_model.middle_block.1.transformer_blocks.0.attn1.to_q.weight"};
    graft_safetensors *demo = open_file(DEMO);
    made_file *f = calloc(1, sizeof *f);
    for (int i = 0; i < 3; i++) {
        const graft_st_tensor *t = graft_safetensors_find(demo, name[i]);
        char text[300];
        CHECK(t != NULL);
        if (!t) continue;
        snprintf(text, sizeof text, "%s.lora_up.weight", layer[i]);
        add_tensor(f, text, 2, (const int64_t[]){t->shape[0], 2}, NULL, 0.3f);
        snprintf(text, sizeof text, "%s.lora_down.weight", layer[i]);
        add_tensor(f, text, 2, (const int64_t[]){2, t->shape[1]}, NULL, 0.3f);
    }
    snprintf(lora, sizeof lora, "%s", temp_path("both.safetensors"));
    write_file(f, lora, NULL);
    graft_safetensors_close(demo);
}

static graft_cond *encode(const graft_clip *c)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_encode(c, TEXT, NULL, &out, &e), &e);
    return out;
}

static graft_clip *with_hooks(const graft_clip *c, const graft_hooks *h, bool on_prompts,
                              bool scheduled)
{
    graft_clip *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_hooks(c, h, on_prompts, scheduled, &out, &e), &e);
    return out;
}

static graft_clip *clip_with_lora(const graft_clip *c, double strength)
{
    graft_clip *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_lora_apply(NULL, c, lora, 0, strength, NULL, NULL, &out, &e), &e);
    return out;
}

static bool same_words(const graft_cond_entry *a, const graft_cond_entry *b)
{
    return a->tokens == b->tokens && a->width == b->width &&
           memcmp(a->data, b->data, (size_t)(a->tokens * a->width) * sizeof *a->data) == 0;
}

static graft_hooks *two_strengths(double share, double first, double second)
{
    const graft_keyframe list[] = {{0, first}, {share, second}};
    return keyed(and_lora(NULL, lora, 1), list, 2);
}

static void encoded_once(void)
{
    graft_hooks *h = two_strengths(0.5, 0.25, 0.75);
    graft_clip *loaded = clip_with_lora(clip, 1);
    graft_cond *want = encode(loaded), *plain = encode(clip);
    for (int on_prompts = 0; on_prompts < 2; on_prompts++) {
        graft_clip *c = with_hooks(clip, h, on_prompts, false);
        graft_cond *got = encode(c), *again;
        CHECK_INT(got->n, 1);
        CHECK(same_words(got->entry[0], want->entry[0]));
        CHECK(!same_words(got->entry[0], plain->entry[0]));
        CHECK(!got->entry[0]->has_stretch);
        CHECK((got->entry[0]->hooks != NULL) == on_prompts);
        const uint64_t made = packs_of(engine).made;
        again = encode(c);
        CHECK_INT(packs_of(engine).made, made);
        CHECK(same_words(again->entry[0], want->entry[0]));
        graft_cond_release(got);
        graft_cond_release(again);
        graft_clip_release(c);
    }
    graft_cond_release(want);
    graft_cond_release(plain);
    graft_clip_release(loaded);
    graft_hooks_release(h);
}

/* What else is done to an encoder, before or after, and hooks in place of others. */
static void in_any_order(void)
{
    graft_hooks *h = and_lora(NULL, lora, 0.5), *none = and_lora(NULL, lora, -2);
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *loaded = clip_with_lora(clip, 0.5), *want_clip = NULL, *after = NULL,
               *before = NULL, *hooks_first = with_hooks(clip, none, true, false),
               *replaced = with_hooks(hooks_first, h, false, false);
    CHECK_OK(graft_clip_set_last_layer(loaded, -2, &want_clip, &e), &e);
    CHECK_OK(graft_clip_set_last_layer(replaced, -2, &after, &e), &e);
    CHECK_OK(graft_clip_set_last_layer(clip, -2, &before, &e), &e);
    graft_clip *then = with_hooks(before, h, false, false);
    graft_cond *want = encode(want_clip), *a = encode(after), *b = encode(then);
    CHECK(same_words(want->entry[0], a->entry[0]) && same_words(want->entry[0], b->entry[0]));
    CHECK(!a->entry[0]->hooks);
    graft_clip *const clips[] = {loaded, want_clip, after, before, hooks_first, replaced, then};
    graft_cond *const conds[] = {want, a, b};
    for (int i = 0; i < 7; i++) graft_clip_release(clips[i]);
    for (int i = 0; i < 3; i++) graft_cond_release(conds[i]);
    graft_hooks_release(h);
    graft_hooks_release(none);
}

/* A prompt for each stretch; stretches of equal strengths are one. */
static void encoded_by_stretches(void)
{
    const graft_keyframe list[] = {{0, 0.5}, {0.2, 0.5}, {0.4, 0}, {0.6, 2}, {1, 7}};
    const double stretch[][3] = {{0, 0.4, 0.5}, {0.4, 0.6, 0}, {0.6, 1, 2}};
    graft_hooks *h = keyed(and_lora(NULL, lora, 1), list, 5);
    graft_clip *c = with_hooks(clip, h, true, true);
    graft_cond *got = encode(c);
    CHECK_INT(got->n, 3);
    for (size_t i = 0; i < 3 && i < got->n; i++) {
        const graft_cond_entry *k = got->entry[i];
        graft_clip *one = clip_with_lora(clip, stretch[i][2]);
        graft_cond *want = encode(one);
        CHECK(same_words(k, want->entry[0]));
        CHECK(k->has_stretch && k->stretch_start == stretch[i][0] &&
              k->stretch_end == stretch[i][1]);
        CHECK(k->hooks != NULL);
        graft_cond_release(want);
        graft_clip_release(one);
    }
    graft_cond_release(got);
    graft_clip_release(c);
    graft_hooks_release(h);
}

/* Scheduled in both: the same as two samplings with a loader each. */
static void sampled(void)
{
    const double share = share_before(model, 3);
    graft_hooks *h = two_strengths(share, 0.75, -0.5);
    graft_clip *c = with_hooks(clip, h, true, true);
    graft_clip *first = clip_with_lora(clip, 0.75), *second = clip_with_lora(clip, -0.5);
    graft_model *m1 = loaded_with(model, lora, 0.75), *m2 = loaded_with(model, lora, -0.5);
    graft_cond *p = encode(c), *a = encode(first), *b = encode(second), *early = NULL, *cut;
    graft_err e = GRAFT_ERR_INIT;
    float want[N], got[N];
    run_two(&(run_of){.model = m1, .positive = a, .negative = a},
            &(run_of){.model = m2, .positive = b, .negative = b}, 3, want);
    const uint64_t built = graphs_built(engine);
    run(&(run_of){.model = model, .positive = p, .negative = p}, got);
    CHECK(same(want, got));
    CHECK_INT(graphs_built(engine), built);
    /* A range of the prompt's own cuts its stretches. */
    CHECK_OK(graft_cond_timestep_range(p, 0, share / 2, &early, &e), &e);
    graft_sigma_table t;
    graft_model_sigma_table(model, &t);
    cut = early;
    const float late = graft_percent_to_sigma(&t, (share + 1) / 2);
    for (size_t i = 0; i < cut->n; i++) CHECK(!graft_active_now(&t, cut->entry[i], late));
    CHECK(graft_active_now(&t, cut->entry[0], graft_percent_to_sigma(&t, share / 4)));
    CHECK(!graft_active_now(&t, cut->entry[1], graft_percent_to_sigma(&t, share / 4)));
    CHECK(graft_active_now(&t, p->entry[1], late) && !graft_active_now(&t, p->entry[0], late));
    /* Where one ends and the other begins there is one. */
    const float edge = graft_percent_to_sigma(&t, share);
    CHECK(!graft_active_now(&t, p->entry[0], edge) && graft_active_now(&t, p->entry[1], edge));
    CHECK(graft_active_now(&t, p->entry[1], 0));
    graft_cond *const conds[] = {p, a, b, early};
    for (int i = 0; i < 4; i++) graft_cond_release(conds[i]);
    graft_clip *const clips[] = {c, first, second};
    for (int i = 0; i < 3; i++) graft_clip_release(clips[i]);
    graft_model_release(m1);
    graft_model_release(m2);
    graft_hooks_release(h);
}

/* A LoRA without anything for a text encoder leaves it alone; a checkpoint changes it. */
static void other_files(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_hooks *h =
                    and_lora(NULL, GRAFT_SOURCE_DIR "/models/loras/emoji-64-cobalt.safetensors", 1),
                *own = NULL;
    CHECK_OK(graft_hooks_checkpoint(engine, NULL, DEMO, 0, 1, NULL, &own, &e), &e);
    graft_clip *changed = clip_with_lora(clip, 1), *a = with_hooks(clip, h, false, true),
               *b = with_hooks(changed, own, false, false);
    graft_cond *plain = encode(clip), *same_as = encode(a), *lora_stays = encode(b),
               *want = encode(changed);
    CHECK(same_words(plain->entry[0], same_as->entry[0]));
    CHECK_INT(same_as->n, 1);
    /* What the checkpoint differs by from the encoder's own file is nothing. */
    CHECK(difference(lora_stays->entry[0]->data, want->entry[0]->data,
                     (size_t)(want->entry[0]->tokens * want->entry[0]->width)) < 1e-4);
    graft_cond *const conds[] = {plain, same_as, lora_stays, want};
    for (int i = 0; i < 4; i++) graft_cond_release(conds[i]);
    graft_clip *const clips[] = {changed, a, b};
    for (int i = 0; i < 3; i++) graft_clip_release(clips[i]);
    graft_hooks_release(h);
    graft_hooks_release(own);
}

int main(void)
{
    graft_err e = GRAFT_ERR_INIT;
    engine = make_engine("cpu");
    CHECK_OK(graft_checkpoint_load(engine, DEMO, NULL, &model, &clip, NULL, &e), &e);
    if (!model || !clip) return test_end();
    model->scale_factor = 1; /* so that runs in parts hand latents on as they are */
    write_both();
    RUN(encoded_once);
    RUN(in_any_order);
    RUN(encoded_by_stretches);
    RUN(sampled);
    RUN(other_files);
    graft_clip_release(clip);
    graft_model_release(model);
    unlink(lora);
    graft_engine_destroy(engine);
    return test_end();
}
