/* LoRAs made of differences: applied to the model that was subtracted they give back what the other
 * one makes, as far as their rank and float16 go. */
#include <math.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/engine/merge.h"

#define CLIP_FILE GRAFT_SOURCE_DIR "/golden/small/clip_gelu.safetensors"
enum { WIDTH = 96, HIDDEN = GRAFT_TEXT_CHUNK * WIDTH };

static graft_engine *engine;
static char path[256], other[256];

static graft_status save(const graft_lora_made *made, graft_err *e)
{
    unlink(path);
    return graft_lora_save(made, path, NULL, NULL, e);
}

/* The difference between the models as a LoRA on `to`, and what the network makes then. */
static void through_file(const graft_model *from, const graft_model *to, int64_t rank, bool whole,
                         bool biases, float out[OUT])
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *less = minus(from, to, 1.0);
    const graft_lora_made made = {less, NULL, rank, whole, biases};
    last_log[0] = 0;
    CHECK_OK(save(&made, &e), &e);
    graft_model *back = with_lora(to, path, 1);
    CHECK_STR(last_log, ""); /* every key is found again */
    run_model(back, out);
    RELEASE_ALL(less, back);
}

/* A difference of rank 3 in two layers: any rank from 3 on holds it, and the others are not there.
 */
static void of_a_lora(void)
{
    float plain[OUT], want[OUT], got[OUT];
    make_lora(other, "from.safetensors");
    graft_model *m = load_model(engine, SD1), *changed = with_lora(m, other, 0.75);
    run_model(m, plain);
    run_model(changed, want);
    for (int64_t rank = 1; rank <= 4; rank++) {
        through_file(changed, m, rank, false, true, got);
        const double off = difference(got, want, OUT);
        CHECK(rank < 3 ? off > 1e-3 : off < 5e-4);
        CHECK(difference(got, plain, OUT) > 1e-2);
        graft_safetensors *f = open_file(path);
        CHECK_INT(graft_safetensors_count(f), 4);
        const graft_st_tensor *t = graft_safetensors_find(
            f, "diffusion_model.input_blocks.1.1.transformer_blocks.0.attn1.to_q.lora_up.weight");
        CHECK(t && t->dtype == GRAFT_F16 && t->rank == 2 && t->shape[0] == 32 &&
              t->shape[1] == rank);
        graft_safetensors_close(f);
    }
    RELEASE_ALL(m, changed);
    unlink(other);
}

/* All layers differ: with every direction, or as they are, all comes back; with few of them some.
 */
static void of_all_layers(void)
{
    float plain[OUT], want[OUT], got[OUT];
    make_variant(other, "variant.safetensors", 0.2f, GRAFT_F32);
    graft_model *m = load_model(engine, SD1), *changed = load_model(engine, other);
    run_model(m, plain);
    run_model(changed, want);
    const double apart = difference(plain, want, OUT);
    through_file(changed, m, 4096, false, true, got);
    CHECK(difference(got, want, OUT) < 0.01 * apart);
    graft_safetensors *f = open_file(path);
    const graft_st_tensor *up =
        graft_safetensors_find(f, "diffusion_model.input_blocks.0.0.lora_up.weight");
    const graft_st_tensor *down =
        graft_safetensors_find(f, "diffusion_model.input_blocks.0.0.lora_down.weight");
    CHECK(up && down && up->rank == 4 && up->shape[2] == 1 && down->shape[2] == 3);
    CHECK(up && down && up->shape[1] == 32 && down->shape[0] == 32); /* its outputs */
    graft_safetensors_close(f);
    through_file(changed, m, 1, true, true, got);
    CHECK(difference(got, want, OUT) < 0.01 * apart);
    through_file(changed, m, 16, false, true, got);
    CHECK(difference(got, want, OUT) < 0.8 * apart);
    through_file(changed, m, 2, false, false, got);
    f = open_file(path);
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        CHECK(strstr(t->name, ".lora_") && t->rank >= 2);
    }
    graft_safetensors_close(f);
    RELEASE_ALL(m, changed);
    unlink(other);
}

static void of_a_text_encoder(void)
{
    static float plain[HIDDEN], want[HIDDEN], got[HIDDEN], pooled[WIDTH];
    graft_err e = GRAFT_ERR_INIT;
    graft_safetensors *f = open_file(CLIP_FILE);
    made_file *b = copy_file(f, "");
    for (size_t i = 0; i < b->n; i++) {
        float *v = (float *)(uintptr_t)b->tensor[i].data;
        const bool table = strstr(b->tensor[i].name, "embed") != NULL;
        for (int64_t k = 0; k < shape_count(b->tensor[i].shape, b->tensor[i].rank); k++)
            if (!table && strstr(b->tensor[i].name, ".layers.")) v[k] *= 1 + 0.3f * random_value();
    }
    snprintf(other, sizeof other, "%s", temp_path("clip.safetensors"));
    write_file(b, other, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    graft_clip *x = load_encoder(engine, CLIP_FILE), *y = load_encoder(engine, other);
    graft_clip *less = NULL, *back = NULL;
    CHECK_OK(graft_clip_merge_subtract(y, x, 1.0, &less, &e), &e);
    CHECK_OK(save(&(graft_lora_made){NULL, less, 4096, false, true}, &e), &e);
    last_log[0] = 0;
    CHECK_OK(graft_lora_apply(NULL, x, path, 0, 1, NULL, NULL, &back, &e), &e);
    CHECK_STR(last_log, "");
    run_encoder(x, 0, plain, pooled);
    run_encoder(y, 0, want, pooled);
    run_encoder(back, 0, got, pooled);
    const double apart = difference(plain, want, HIDDEN);
    CHECK(apart > 1e-2 && difference(got, want, HIDDEN) < 0.01 * apart);
    graft_clip *every[] = {x, y, less, back};
    for (int i = 0; i < 4; i++) graft_clip_release(every[i]);
    unlink(other);
}

static void refusals(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, SD1), *nothing = minus(m, m, 1);
    CHECK_INT(save(&(graft_lora_made){nothing, NULL, 8, false, true}, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "nothing differs") != NULL);
    CHECK_INT(save(&(graft_lora_made){m, NULL, 0, false, true}, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "rank") != NULL);
    CHECK(!graft_file_exists(path));
    CHECK_OK(save(&(graft_lora_made){m, NULL, 1, false, false}, &e), &e);
    CHECK_INT(graft_lora_save(&(graft_lora_made){m, NULL, 1, false, false}, path, NULL, NULL, &e),
              GRAFT_E_ARG); /* it exists */
    RELEASE_ALL(m, nothing);
}

static bool stop(void *ctx)
{
    int *left = ctx;
    return (*left)-- == 0;
}

/* Cancelled anywhere: no file. */
static void cancelled(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, SD1);
    for (int at = 0; at < 60; at += 29) {
        int left = at;
        const graft_task task = {.ctx = &left, .cancelled = stop};
        unlink(path);
        CHECK_INT(
            graft_lora_save(&(graft_lora_made){m, NULL, 1, false, false}, path, NULL, &task, &e),
            GRAFT_E_CANCEL);
        CHECK(!graft_file_exists(path));
    }
    graft_model_release(m);
}

int main(void)
{
    engine = make_engine("cpu");
    snprintf(path, sizeof path, "%s", temp_path("made.safetensors"));
    RUN(of_a_lora);
    RUN(of_all_layers);
    RUN(of_a_text_encoder);
    RUN(refusals);
    RUN(cancelled);
    unlink(path);
    graft_engine_destroy(engine);
    return test_end();
}
