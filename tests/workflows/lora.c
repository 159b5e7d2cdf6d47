/* The LoRA that the repository ships: workflows/lora.json prints in blue what the demo checkpoint
 * draws in its own colours. */
#include "tests/test.h"

#include "tests/workflows/pictures.h"
#include "tests/workflows/process.h"

#define DEMO_MODELS GRAFT_SOURCE_DIR "/models"

typedef struct print_facts {
    double blue;   /* mean of B - (R + G) / 2 where the thing is, in -1..1 */
    double ground; /* mean of the darkest channel along the border */
} print_facts;

static print_facts print_read(const char *path)
{
    graft_image *i = NULL;
    int64_t shape[4] = {0}, things = 0, around = 0;
    print_facts f = {0};
    CHECK(path && graft_image_load(path, &i, NULL, NULL) == GRAFT_OK);
    if (!i) return f;
    const float *v = graft_image_data(i, shape);
    for (int64_t y = 0; y < shape[1]; y++) {
        for (int64_t x = 0; x < shape[2]; x++) {
            const float *p = v + (y * shape[2] + x) * shape[3];
            float least = fminf(p[0], fminf(p[1], p[2]));
            if (y == 0 || x == 0 || y == shape[1] - 1 || x == shape[2] - 1) {
                f.ground += least;
                around++;
            }
            if (least > 0.85f) continue; /* paper, with the little noise that the VAE adds */
            f.blue += p[2] - (p[0] + p[1]) / 2;
            things++;
        }
    }
    CHECK(things > shape[1] * shape[2] / 10);
    if (things) f.blue /= (double)things;
    if (around) f.ground /= (double)around;
    graft_image_release(i);
    return f;
}

/* The picture of `text` by `file`, with the LoRA at `strength` unless that is NULL. */
static void draw(process *p, const char *file, const char *text, const char *strength)
{
    char prompt[64], of_model[32], of_clip[32];
    snprintf(prompt, sizeof prompt, "2.text=%s", text);
    snprintf(of_model, sizeof of_model, "8.strength_model=%s", strength ? strength : "");
    snprintf(of_clip, sizeof of_clip, "8.strength_clip=%s", strength ? strength : "");
    const char *const set[] = {prompt, strength ? of_model : NULL, of_clip, NULL};
    process_workflow(p, file, set);
    CHECK_INT(p->status, 0);
    if (p->status) fprintf(stderr, "%s\n", p->text);
}

static void things_of_any_colour_turn_blue(void)
{
    static const char *const text[] = {"red apple, 3d", "sunflower, flat", "cactus, flat",
                                       "tiger face, 3d"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        process plain = {.output = "lora/plain", .models = DEMO_MODELS};
        process half = {.output = "lora/half", .models = DEMO_MODELS};
        process full = {.output = "lora/full", .models = DEMO_MODELS};
        draw(&plain, "workflows/txt2img.json", text[i], NULL);
        draw(&half, "workflows/lora.json", text[i], "0.5");
        draw(&full, "workflows/lora.json", text[i], NULL); /* as it ships */
        print_facts p = print_read(output_file(&plain, 0)), h = print_read(output_file(&half, 0)),
                    f = print_read(output_file(&full, 0));
        printf("%s: blue %.2f, %.2f at half strength, %.2f; ground %.2f\n", text[i], p.blue, h.blue,
               f.blue, f.ground);
        CHECK(p.blue < 0);
        CHECK(h.blue > p.blue + 0.05 && h.blue < f.blue);
        CHECK(f.blue > 0.2);
        CHECK(f.ground > 0.9);
        process_finish(&plain);
        process_finish(&half);
        process_finish(&full);
    }
}

static void strength_0_changes_no_pixel(void)
{
    process plain = {.output = "lora/plain", .models = DEMO_MODELS};
    process none = {.output = "lora/none", .models = DEMO_MODELS};
    draw(&plain, "workflows/txt2img.json", "rocket, 3d", NULL);
    draw(&none, "workflows/lora.json", "rocket, 3d", "0.0");
    CHECK_NEAR(picture_psnr(output_file(&plain, 0), output_file(&none, 0)), 999, 0);
    process_finish(&plain);
    process_finish(&none);
}

int main(void)
{
    RUN(things_of_any_colour_turn_blue);
    RUN(strength_0_changes_no_pixel);
    return test_end();
}
