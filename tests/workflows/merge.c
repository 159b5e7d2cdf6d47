/* workflows/merge.json, and a merge that is saved and loaded again, as a user would run them. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/weights/safetensors.h"
#include "tests/test.h"
#include "tests/workflows/pictures.h"
#include "tests/workflows/process.h"

#define A     "1.ckpt_name=tiny-sd1.safetensors"
#define B     "8.ckpt_name=tiny-sd1-b.safetensors"
#define STEPS "5.steps=2"

static double compared(const process *a, const process *b)
{
    return picture_psnr(output_file(a, 0), output_file(b, 0));
}

/* A merge with a LoRA in it, drawn and saved; the loader of node 20 draws with what was saved. */
static const char saving[] =
    "{\"1\":{\"class_type\":\"CheckpointLoaderSimple\",\"inputs\":"
    "{\"ckpt_name\":\"tiny-sd1.safetensors\"}},"
    "\"8\":{\"class_type\":\"CheckpointLoaderSimple\",\"inputs\":"
    "{\"ckpt_name\":\"tiny-sd1-b.safetensors\"}},"
    "\"11\":{\"class_type\":\"LoraLoader\",\"inputs\":{\"model\":[\"8\",0],\"clip\":[\"8\",1],"
    "\"lora_name\":\"tiny-sd1-lora.safetensors\",\"strength_model\":0.8,\"strength_clip\":0.8}},"
    "\"9\":{\"class_type\":\"ModelMergeSimple\",\"inputs\":"
    "{\"model1\":[\"1\",0],\"model2\":[\"11\",0],\"ratio\":0.4}},"
    "\"10\":{\"class_type\":\"CLIPMergeSimple\",\"inputs\":"
    "{\"clip1\":[\"1\",1],\"clip2\":[\"11\",1],\"ratio\":0.4}},"
    "\"12\":{\"class_type\":\"CheckpointSave\",\"inputs\":{\"model\":[\"9\",0],\"clip\":[\"10\",0],"
    "\"vae\":[\"8\",2],\"filename_prefix\":\"checkpoints/merged\"}},";
static const char drawing[] =
    "\"2\":{\"class_type\":\"CLIPTextEncode\",\"inputs\":"
    "{\"text\":\"red apple, 3d\",\"clip\":[\"%s\",%d]}},"
    "\"3\":{\"class_type\":\"CLIPTextEncode\",\"inputs\":{\"text\":\"\",\"clip\":[\"%s\",%d]}},"
    "\"4\":{\"class_type\":\"EmptyLatentImage\",\"inputs\":"
    "{\"width\":64,\"height\":64,\"batch_size\":1}},"
    "\"5\":{\"class_type\":\"KSampler\",\"inputs\":{\"seed\":1,\"steps\":2,\"cfg\":4.0,"
    "\"sampler_name\":\"ddim\",\"scheduler\":\"ddim_uniform\",\"denoise\":1.0,\"model\":[\"%s\",0],"
    "\"positive\":[\"2\",0],\"negative\":[\"3\",0],\"latent_image\":[\"4\",0]}},"
    "\"6\":{\"class_type\":\"VAEDecode\",\"inputs\":{\"samples\":[\"5\",0],\"vae\":[\"%s\",2]}},"
    "\"7\":{\"class_type\":\"SaveImage\",\"inputs\":"
    "{\"filename_prefix\":\"zzz\",\"images\":[\"6\",0]}}}";
static const char loading[] = "{\"20\":{\"class_type\":\"CheckpointLoaderSimple\",\"inputs\":"
                              "{\"ckpt_name\":\"merged.safetensors\"}},";

static bool write_prompt(const char *name, const char *begin, const char *model, const char *clip,
                         int clip_slot, const char *vae)
{
    static char text[8192];
    int n = snprintf(text, sizeof text, "%s", begin);
    snprintf(text + n, sizeof text - (size_t)n, drawing, clip, clip_slot, clip, clip_slot, model,
             vae);
    return scratch_write(name, text);
}

static const char both[] = "{\"1\":{\"class_type\":\"CheckpointLoaderSimple\",\"inputs\":"
                           "{\"ckpt_name\":\"tiny-sd1.safetensors\"}},"
                           "\"8\":{\"class_type\":\"CheckpointLoaderSimple\",\"inputs\":"
                           "{\"ckpt_name\":\"tiny-sd1-b.safetensors\"}},";

/* All of one checkpoint is that checkpoint; anything between is neither. */
static void ratios(void)
{
    const char *const alone[] = {A, STEPS, NULL}, *const half[] = {A, B, STEPS, NULL};
    const char *const self[] = {A, "8.ckpt_name=tiny-sd1.safetensors", STEPS, "9.middle=0.3", NULL};
    const char *const first[] = {A,   B, STEPS, "9.input=1", "9.middle=1", "9.out=1", "10.ratio=1",
                                 NULL};
    const char *const second[] = {A,   B, STEPS, "9.input=0", "9.middle=0", "9.out=0", "10.ratio=0",
                                  NULL};
    process a = {.output = "merge/a"}, b = {.output = "merge/b"}, h = {.output = "merge/half"};
    process one = {.output = "merge/one"}, zero = {.output = "merge/zero"};
    process same = {.output = "merge/self"};
    process_workflow(&a, "workflows/txt2img.json", alone);
    process_workflow(&h, "workflows/merge.json", half);
    process_workflow(&one, "workflows/merge.json", first);
    process_workflow(&zero, "workflows/merge.json", second);
    /* B, but for its VAE, which the workflow takes from A. */
    CHECK(write_prompt("merge-b.json", both, "8", "8", 1, "1"));
    process_workflow(&b, scratch("merge-b.json"), NULL);
    process_workflow(&same, "workflows/merge.json", self);
    process *all[] = {&a, &b, &h, &one, &zero, &same};
    for (int i = 0; i < 6; i++) {
        CHECK_INT(all[i]->status, 0);
        if (all[i]->status) fprintf(stderr, "%s\n", all[i]->text);
    }
    CHECK_NEAR(compared(&one, &a), 999, 0);
    CHECK_NEAR(compared(&same, &a), 999, 0);
    CHECK_NEAR(compared(&zero, &b), 999, 0);
    CHECK(compared(&h, &a) < 60 && compared(&h, &b) < 60 && compared(&a, &b) < 60);
    for (int i = 0; i < 6; i++) process_finish(all[i]);
}

static void check_saved(const char *path)
{
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    if (!f) return;
    const char *const names[] = {
        "model.diffusion_model.input_blocks.0.0.weight", "first_stage_model.decoder.conv_in.weight",
        "cond_stage_model.transformer.text_model.embeddings.token_embedding.weight"};
    for (int i = 0; i < 3; i++) {
        const graft_st_tensor *t = graft_safetensors_find(f, names[i]);
        CHECK(t && t->dtype == GRAFT_F16); /* as both checkpoints have it */
    }
    const char *prompt = graft_safetensors_metadata(f, "prompt");
    CHECK(prompt && strstr(prompt, "ModelMergeSimple"));
    graft_safetensors_close(f);
}

static void saved_and_loaded(void)
{
    process lazy = {.output = "merge/lazy"}, again = {.output = "merge/again"};
    process full = {.output = "merge/full", .max_file_bytes = 1 << 20};
    char models[1100], to[1200];
    graft_err e = GRAFT_ERR_INIT;
    CHECK(write_prompt("merge-save.json", saving, "9", "10", 0, "8"));
    CHECK(write_prompt("merge-load.json", loading, "20", "20", 1, "20"));
    process_workflow(&lazy, scratch("merge-save.json"), NULL);
    CHECK_INT(lazy.status, 0);
    if (lazy.status) fprintf(stderr, "%s\n", lazy.text);
    CHECK_INT(output_count(&lazy), 2);
    const char *saved = output_file(&lazy, 0);
    CHECK(saved && strstr(saved, "checkpoints/merged_00001_.safetensors"));
    if (!saved || lazy.status) return;
    check_saved(saved);
    snprintf(models, sizeof models, "%s", scratch("merge-models"));
    snprintf(to, sizeof to, "%s/checkpoints", models);
    CHECK_OK(graft_dir_make(to, &e), &e);
    snprintf(to, sizeof to, "%s/checkpoints/merged.safetensors", models);
    CHECK(rename(saved, to) == 0);
    again.models = models;
    process_workflow(&again, scratch("merge-load.json"), NULL);
    CHECK_INT(again.status, 0);
    if (again.status) fprintf(stderr, "%s\n", again.text);
    /* Float16 rounds what was merged in float32. */
    double psnr = picture_psnr(output_file(&lazy, 0), output_file(&again, 0));
    CHECK(psnr > 40);
    printf("     saved in float16 and loaded: %.1f dB\n", psnr);
    remove(to);
    /* A disk that is full leaves nothing. */
    process_workflow(&full, scratch("merge-save.json"), NULL);
    CHECK(full.status != 0);
    CHECK(strstr(full.text, "merged_00001_.safetensors: cannot write") != NULL);
    for (size_t i = 0; i < output_count(&full); i++)
        CHECK(strstr(output_file(&full, i), "checkpoints") == NULL);
    process_finish(&lazy);
    process_finish(&again);
    process_finish(&full);
}

/* The names of each family's text encoders: what nothing changed comes back bit by bit. */
static void each_family(void)
{
    static const char *const kinds[] = {"tiny-sd2", "tiny-sdxl"};
    char models[1100], to[1200], begin[1024], name[64];
    graft_err e = GRAFT_ERR_INIT;
    snprintf(models, sizeof models, "%s", scratch("merge-models"));
    snprintf(to, sizeof to, "%s/checkpoints", models);
    CHECK_OK(graft_dir_make(to, &e), &e);
    snprintf(to, sizeof to, "%s/checkpoints/merged.safetensors", models);
    for (int i = 0; i < 2; i++) {
        process own = {.output = "merge/own"}, again = {.output = "merge/family"};
        snprintf(begin, sizeof begin,
                 "{\"1\":{\"class_type\":\"CheckpointLoaderSimple\",\"inputs\":"
                 "{\"ckpt_name\":\"%s.safetensors\"}},"
                 "\"10\":{\"class_type\":\"CLIPMergeSimple\",\"inputs\":"
                 "{\"clip1\":[\"1\",1],\"clip2\":[\"1\",1],\"ratio\":0.4}},"
                 "\"12\":{\"class_type\":\"CheckpointSave\",\"inputs\":{\"model\":[\"1\",0],"
                 "\"clip\":[\"10\",0],\"vae\":[\"1\",2],\"filename_prefix\":\"merged\"}},",
                 kinds[i]);
        snprintf(name, sizeof name, "merge-%s.json", kinds[i]);
        CHECK(write_prompt(name, begin, "1", "10", 0, "1"));
        process_workflow(&own, scratch(name), NULL);
        CHECK_INT(own.status, 0);
        if (own.status) fprintf(stderr, "%s\n", own.text);
        const char *saved = output_file(&own, 0);
        CHECK(saved && rename(saved, to) == 0);
        CHECK(write_prompt("merge-load.json", loading, "20", "20", 1, "20"));
        again.models = models;
        process_workflow(&again, scratch("merge-load.json"), NULL);
        CHECK_INT(again.status, 0);
        if (again.status) fprintf(stderr, "%s\n", again.text);
        CHECK_NEAR(compared(&own, &again), 999, 0);
        CHECK(strstr(again.text, "ignored") == NULL);
        remove(to);
        process_finish(&own);
        process_finish(&again);
    }
}

static void other_architectures_are_refused(void)
{
    const char *const set[] = {A, "8.ckpt_name=tiny-sd2.safetensors", STEPS, NULL};
    process p = {.output = "merge/other"};
    process_workflow(&p, "workflows/merge.json", set);
    CHECK(p.status != 0);
    CHECK(strstr(p.text, "tiny-sd2.safetensors has another architecture: ") != NULL);
    CHECK_INT(output_count(&p), 0);
    process_finish(&p);
}

int main(void)
{
    RUN(ratios);
    RUN(saved_and_loaded);
    RUN(each_family);
    RUN(other_architectures_are_refused);
    return test_end();
}
