/* The checkpoint that the repository ships draws what its prompt says. red-apple.png was made by
 * the ref kernels in float32 and looked at. */
#include "tests/test.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/png.h"
#include "tests/workflows/pictures.h"
#include "tests/workflows/process.h"

#define DEMO_MODELS GRAFT_SOURCE_DIR "/models"
#define RED_APPLE   GRAFT_SOURCE_DIR "/tests/workflows/red-apple.png"

static void the_demo_draws_a_red_apple(void)
{
    process p = {.output = "demo/ref", .models = DEMO_MODELS};
    process_workflow(&p, "workflows/txt2img.json", NULL);
    CHECK_INT(p.status, 0);
    CHECK(strstr(p.text, "txt2img_00001_.png") != NULL);
    double psnr = picture_psnr(output_file(&p, 0), RED_APPLE);
    printf("ref: %.1f dB\n", psnr);
    CHECK(psnr >= 40);
    process_finish(&p);
}

/* The fastest backend of this machine in the precision that it chooses, and in float32. */
static void other_backends_draw_the_same(void)
{
    static const struct {
        const char *precision;
        double least;
    } cases[] = {{"auto", 40}, {"f32", 60}};
    if (!WORKFLOW_TWICE) puts("skipped: all of its steps in float32; the plain build takes them");
    for (int i = 0; i < (WORKFLOW_TWICE ? 2 : 1); i++) {
        char unet[64], vae[64];
        snprintf(unet, sizeof unet, "8.precision=%s", cases[i].precision);
        snprintf(vae, sizeof vae, "9.precision=%s", cases[i].precision);
        const char *const set[] = {unet, vae, "8.cache=disable", "9.cache=disable", NULL};
        process p = {.output = "demo/auto", .models = DEMO_MODELS, .backend = "auto"};
        process_workflow(&p, "workflows/compile.json", set);
        CHECK_INT(p.status, 0);
        double psnr = picture_psnr(output_file(&p, 0), RED_APPLE);
        printf("auto, %s: %.1f dB\n", cases[i].precision, psnr);
        CHECK(psnr >= cases[i].least);
        process_finish(&p);
    }
}

static char *text_of(const char *png, const char *key)
{
    char *data = NULL, *text = NULL;
    size_t size = 0;
    if (!png || graft_file_read(png, 1 << 24, &data, &size, NULL)) return NULL;
    if (graft_png_read_text((const uint8_t *)data, size, key, &text, NULL)) text = NULL;
    graft_free(data);
    return text;
}

/* Sums are split among threads, so the last bits depend on their number; pictures hardly do. */
static void the_number_of_threads_hardly_matters(void)
{
    static const struct {
        const char *precision;
        double least;
    } cases[] = {{"auto", 40}, {"f32", 60}};
    const char *steps = WORKFLOW_TWICE ? "5.steps=20" : "5.steps=4";
    if (!WORKFLOW_TWICE) puts("skipped: 16 of 20 steps; the plain build computes all");
    for (int i = 0; i < 2; i++) {
        process p = {
            .output = "demo/one", .models = DEMO_MODELS, .backend = "auto", .threads = "1"};
        process q = {
            .output = "demo/two", .models = DEMO_MODELS, .backend = "auto", .threads = "3"};
        char unet[64], vae[64];
        snprintf(unet, sizeof unet, "8.precision=%s", cases[i].precision);
        snprintf(vae, sizeof vae, "9.precision=%s", cases[i].precision);
        const char *const set[] = {unet, vae, "8.tuning=off", "9.tuning=off", steps, NULL};
        process_workflow(&p, "workflows/compile.json", set);
        process_workflow(&q, "workflows/compile.json", set);
        CHECK_INT(p.status, 0);
        CHECK_INT(q.status, 0);
        double psnr = picture_psnr(output_file(&p, 0), output_file(&q, 0));
        printf("1 and 3 threads, %s: %.1f dB\n", cases[i].precision, psnr);
        CHECK(psnr >= cases[i].least);
        process_finish(&p);
        process_finish(&q);
    }
}

/* Whoever gets the picture can make it again from the picture alone. */
static void a_picture_is_its_own_workflow(void)
{
    static const char *const file[] = {"workflows/txt2img.json", "workflows/txt2img.editor.json"};
    const char *const set[] = {"5.steps=3", "5.seed=18446744073709551615", NULL};
    for (int i = 0; i < 2; i++) {
        process p = {.output = "demo/one", .models = DEMO_MODELS};
        process q = {.output = "demo/two", .models = DEMO_MODELS};
        process_workflow(&p, file[i], set);
        CHECK_INT(p.status, 0);
        char *prompt = text_of(output_file(&p, 0), "prompt");
        CHECK(prompt && strstr(prompt, "red apple, 3d"));
        CHECK(prompt && strstr(prompt, "18446744073709551615"));
        if (output_file(&p, 0)) process_workflow(&q, output_file(&p, 0), NULL);
        CHECK_INT(q.status, 0);
        CHECK_NEAR(picture_psnr(output_file(&p, 0), output_file(&q, 0)), 999, 0);
        graft_free(prompt);
        process_finish(&p);
        process_finish(&q);
    }
}

int main(void)
{
    RUN(the_demo_draws_a_red_apple);
    RUN(other_backends_draw_the_same);
    RUN(the_number_of_threads_hardly_matters);
    RUN(a_picture_is_its_own_workflow);
    return test_end();
}
