/* Models in GGUF files, as a user of ComfyUI-GGUF has them: loaded by its nodes and by the usual
 * ones, converted, and refused where they are none. */
#include "tests/test.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/gguf_file.h"
#include "tests/workflows/pictures.h"
#include "tests/workflows/process.h"

#define DEMO GRAFT_SOURCE_DIR "/models/checkpoints/emoji-64.safetensors"
#define UNET "model.diffusion_model."

#define VAE         "first_stage_model."
#define UNET_VALUES "\"unet_name\":\"demo-unet.gguf\",\"weight_dtype\":\"default\""

static char models[300];

/* The demo model as GGUF: of what begins with `prefix`, without it; matrices and kernels as Q8_0.
 */
static void write_gguf(const char *prefix, const char *path)
{
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t n = 0;
    CHECK_OK(graft_safetensors_open(DEMO, &f, &e), &e);
    if (!f) return;
    graft_st_tensor *t = calloc(graft_safetensors_count(f), sizeof *t);
    if (!t) abort();
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *from = graft_safetensors_at(f, i);
        const size_t values = (size_t)graft_st_values(from);
        if (strncmp(from->name, prefix, strlen(prefix)) != 0) continue;
        graft_st_tensor *to = &t[n++];
        *to = *from;
        to->name += strlen(prefix);
        if (from->rank < 2 || values % 32) continue;
        float *v = malloc(values * sizeof *v);
        if (!v) abort();
        graft_st_to_f32(from, 0, (int64_t)values, v);
        to->data = gguf_pack_q8_0(v, values);
        to->bytes = values / 32 * 34;
        to->blocks = graft_ggml_blocks_find(8);
        free(v);
    }
    gguf_file bytes = gguf_of("sd1", graft_safetensors_metadata(f, "config"), t, n);
    gguf_write(&bytes, path);
    for (size_t i = 0; i < n; i++)
        if (t[i].blocks) free((void *)(uintptr_t)t[i].data);
    free(t);
    free(bytes.data);
    graft_safetensors_close(f);
}

static const char *in_models(const char *name)
{
    char path[100];
    snprintf(path, sizeof path, "gguf/models/%s", name);
    return scratch(path);
}

static void make_models(void)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_dir_make(in_models("checkpoints"), &e), &e);
    CHECK_OK(graft_dir_make(in_models("diffusion_models"), &e), &e);
    snprintf(models, sizeof models, "%s", scratch("gguf/models"));
    write_gguf("", in_models("checkpoints/demo.gguf"));
    write_gguf(UNET, in_models("diffusion_models/demo-unet.gguf"));
    CHECK_OK(graft_dir_make(in_models("vae"), &e), &e);
    write_gguf(VAE, in_models("vae/demo-vae.gguf"));
    unlink(in_models("checkpoints/emoji-64.safetensors"));
    CHECK_INT(symlink(DEMO, in_models("checkpoints/emoji-64.safetensors")), 0);
}

/* The workflow with node 8, of this class, in the place of the checkpoint as what `input` is of. */
static const char *with_node(const char *class, const char *input, const char *values)
{
    static char name[64];
    char *text, path[400];
    size_t n;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(path, sizeof path, "%s/workflows/txt2img.json", GRAFT_SOURCE_DIR);
    CHECK_OK(graft_file_read(path, 1 << 20, &text, &n, &e), &e);
    char *at = strstr(text, input), *end = strrchr(text, '}');
    char *node = at ? strstr(at, "\"1\"") : NULL;
    char *slot = node ? strpbrk(node + 2, "012") : NULL;
    CHECK(slot && end);
    if (!slot || !end) return "";
    node[1] = '8';
    *slot = '0';
    *end = 0;
    char *whole = malloc(n + 300);
    if (!whole) abort();
    snprintf(whole, n + 300, "%s,\"8\":{\"class_type\":\"%s\",\"inputs\":{%s}}}", text, class,
             values);
    snprintf(name, sizeof name, "gguf/%s.json", class);
    CHECK(scratch_write(name, whole));
    free(whole);
    graft_free(text);
    return scratch(name);
}

static void draw(process *p, const char *file, const char *set)
{
    p->models = models;
    p->backend = "auto";
    process_workflow(p, file, (const char *[]){"5.steps=6", set, NULL});
    CHECK_INT(p->status, 0);
    CHECK_INT(output_count(p), 1);
    if (p->status) fprintf(stderr, "%s\n", p->text);
}

static double compared(const process *a, const process *b)
{
    return picture_psnr(output_file(a, 0), output_file(b, 0));
}

static void pictures_are_alike(void)
{
    process plain = {.output = "gguf/plain"}, whole = {.output = "gguf/whole"};
    process unet = {.output = "gguf/unet"}, usual = {.output = "gguf/usual"};
    process back = {.output = "gguf/back"}, made = {.output = "gguf/made"};
    process vae = {.output = "gguf/vae"};
    draw(&plain, "workflows/txt2img.json", NULL);
    draw(&whole, "workflows/txt2img.json", "1.ckpt_name=demo.gguf");
    draw(&unet, with_node("UnetLoaderGGUF", "\"model\"", UNET_VALUES), NULL);
    draw(&usual, with_node("UNETLoader", "\"model\"", UNET_VALUES), NULL);
    draw(&vae, with_node("VAELoader", "\"vae\"", "\"vae_name\":\"demo-vae.gguf\""), NULL);
    CHECK(compared(&plain, &whole) > 25);
    CHECK(compared(&plain, &vae) > 35 && compared(&plain, &vae) < 90);
    CHECK(compared(&plain, &unet) > 25);
    CHECK(same_bytes(output_file(&unet, 0), output_file(&usual, 0)) ||
          compared(&unet, &usual) > 90); /* their workflows are in the files */
    unlink(in_models("checkpoints/demo-made.safetensors"));
    process_run(&made, (const char *[]){"convert", in_models("checkpoints/demo.gguf"),
                                        in_models("checkpoints/demo-made.safetensors"), NULL});
    CHECK_INT(made.status, 0);
    draw(&back, "workflows/txt2img.json", "1.ckpt_name=demo-made.safetensors");
    CHECK(compared(&whole, &back) > 35); /* float16 of 8 bits and a scale */
    process *all[] = {&plain, &whole, &unet, &usual, &back, &made, &vae};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) process_finish(all[i]);
}

static void refused(const char *name, const char *bytes, size_t n, const char *word)
{
    char path[60], set[100];
    graft_err e = GRAFT_ERR_INIT;
    process p = {.output = "gguf/refused", .models = models};
    snprintf(path, sizeof path, "checkpoints/%s", name);
    snprintf(set, sizeof set, "1.ckpt_name=%s", name);
    CHECK_OK(graft_file_write(in_models(path), bytes, n, &e), &e);
    process_workflow(&p, "workflows/txt2img.json", (const char *[]){set, NULL});
    CHECK_INT(p.status, 1);
    CHECK(strstr(p.text, word) && strstr(p.text, name));
    if (!strstr(p.text, word)) fprintf(stderr, "wanted \"%s\" in:\n%s\n", word, p.text);
    process_finish(&p);
    unlink(in_models(path));
}

static void others_are_refused(void)
{
    char *data;
    size_t n;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_read(in_models("checkpoints/demo.gguf"), 1 << 28, &data, &n, &e), &e);
    refused("half.gguf", data, n / 2, "reaches past the end of the file");
    refused("start.gguf", data, 1000, "cut short");
    refused("page.gguf", "<!DOCTYPE html>", 15, "a web page");
    graft_free(data);
}

int main(void)
{
    RUN(make_models);
    RUN(pictures_are_alike);
    RUN(others_are_refused);
    return test_end();
}
