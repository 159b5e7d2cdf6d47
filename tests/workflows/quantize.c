/* graft quantize: plans from the command line, and workflows that use them. */
#include <unistd.h>

#include "tests/test.h"

#include "base/alloc.h"
#include "base/file.h"
#include "tests/workflows/pictures.h"
#include "tests/workflows/process.h"

#define PLAN "quantize/quantization/tiny-sd1.json"

static int quantize(process *p, const char *const *more)
{
    char output[1024];
    snprintf(output, sizeof output, "%s", scratch("quantize"));
    const char *arg[MAX_WORDS] = {"quantize",  "tiny-sd1.safetensors",
                                  "--models",  WORKFLOW_MODELS,
                                  "--output",  output,
                                  "--width",   "64",
                                  "--height",  "64",
                                  "--steps",   "2",
                                  "--density", "0"};
    size_t n = 14;
    for (; *more && n + 1 < MAX_WORDS; more++) arg[n++] = *more;
    process_run(p, arg);
    return p->status;
}

static void writes_a_plan_and_reads_it(void)
{
    process p = {.output = "quantize"};
    const char *const none[] = {NULL}, *const quiet[] = {"-q", NULL};
    const char *const zero[] = {"--conv-mse", "0", "--linear-mse=0", "--attention-mse=0", NULL};
    unlink(scratch(PLAN));
    CHECK_INT(quantize(&p, none), 0);
    CHECK(strstr(p.text, "calibrate ") && strstr(p.text, "layers  "));
    CHECK(graft_file_exists(scratch(PLAN)));
    CHECK(strstr(p.text, "/quantization/tiny-sd1.json\n")); /* where the plan is */
    CHECK(strstr(p.text, "/quantize/temp/ComfyUI_temp_"));  /* its picture, likewise */
    process_finish(&p);
    p = (process){.output = "quantize-log"}; /* the files alone */
    CHECK_INT(quantize(&p, quiet), 0);
    CHECK(*p.text == '/' && strstr(p.text, "/quantization/tiny-sd1.json\n/") &&
          strstr(p.text, "/quantize/temp/ComfyUI_temp_") && !strstr(p.text, "plan "));
    process_finish(&p);
    p = (process){.output = "quantize-log"};
    CHECK_INT(quantize(&p, zero), 0);
    CHECK(!strstr(p.text, "calibrate ") && strstr(p.text, "nothing is quantized"));
    process_finish(&p);
}

static void bad_options(void)
{
    static const struct {
        const char *more[5], *says;
    } bad[] = {{{"--bits", "5"}, "--bits must be 4 or 8, not \"5\""},
               {{"--bits", "eight"}, "--bits must be 4 or 8"},
               {{"--format", "fp8"}, "--format must be int or fp8_e4m3fn, not \"fp8\""},
               {{"--format", "fp8_e4m3fn", "--bits", "4"}, "fp8_e4m3fn has 8 bits"},
               {{"--conv-mse", "nan"}, "--conv-mse must be a number from 0 to 1"},
               {{"--linear-mse", "2"}, "--linear-mse must be a number from 0 to 1"},
               {{"--attention-mse", "-1"}, "--attention-mse must be"},
               {{"--density", "-1"}, "--density must be a whole number from 0"},
               {{"--width", "65"}, "--width must be a multiple of 8 from 16 to 16384, not \"65\""},
               {{"--height=65"}, "--height must be a multiple of 8"},
               {{"--steps=-1"}, "--steps must be a whole number from 0"},
               {{"--steps=2.5"}, "--steps must be a whole number from 0"},
               {{"--steps=0"}, "--steps 0 measures no error: it needs --conv-mse 1 and --linear"},
               {{"--steps=0", "--conv-mse=1"}, "and --linear-mse 1"},
               {{"--seed=-1"}, "--seed must be a whole number from 0 to 18446744073709551615"},
               {{"--output="}, "--output must not be empty"},
               {{"--plan", "../out"}, "--plan must be a name without a folder"},
               {{"--plan", "."}, "--plan must be a name"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        process p = {.output = "quantize-log"};
        CHECK_INT(quantize(&p, bad[i].more), 2);
        CHECK(strstr(p.text, bad[i].says) && !strstr(p.text, "[1/")); /* nothing was loaded */
        CHECK(strstr(p.text, "\"graft help quantize\" lists what it takes\n"));
        if (!strstr(p.text, bad[i].says))
            fprintf(stderr, "%s %s:\n%s\n", bad[i].more[0], bad[i].more[1], p.text);
        process_finish(&p);
    }
}

/* What is wrong with a file is no wrong usage. */
static void absent_prompts(void)
{
    const char *const more[] = {"--prompts", "absent.txt", NULL};
    process p = {.output = "quantize-log"};
    CHECK_INT(quantize(&p, more), 1);
    CHECK(strstr(p.text, "absent.txt") && !strstr(p.text, "graft help"));
    process_finish(&p);
}

static int quantize_file(process *p, const char *file)
{
    char output[1024];
    snprintf(output, sizeof output, "%s", scratch("quantize"));
    const char *const arg[] = {
        "quantize",    file,      "--models", WORKFLOW_MODELS,    "--output", output, "--width=64",
        "--height=64", "--steps", "2",        "--density=100000", "--plan",   "path", NULL};
    process_run(p, arg);
    return p->status;
}

/* A path is as good as the name below models/checkpoints, where there is one. */
static void checkpoints_by_path(void)
{
    char linked[1024], outside[1024];
    snprintf(linked, sizeof linked, "%s", scratch("linked"));
    snprintf(outside, sizeof outside, "%s", scratch("outside.safetensors"));
    unlink(linked);
    CHECK(!symlink(WORKFLOW_MODELS, linked) && scratch_write("outside.safetensors", "x"));
    const char *const good[] = {WORKFLOW_MODELS "/checkpoints/tiny-sd1.safetensors",
                                "linked/checkpoints/tiny-sd1.safetensors",
                                "./linked/loras/../checkpoints/tiny-sd1.safetensors"};
    const char *const bad[] = {outside, "outside.safetensors"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        process p = {.output = "quantize-log"};
        CHECK_INT(quantize_file(&p, good[i]), 0);
        if (p.status) fprintf(stderr, "%s: %s\n", good[i], p.text);
        process_finish(&p);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        process p = {.output = "quantize-log"};
        CHECK_INT(quantize_file(&p, bad[i]), 1);
        CHECK(strstr(p.text,
                     "outside.safetensors is not in a folder of models: put or link it into /"));
        CHECK(strstr(p.text, "/checkpoints, and give its name there, outside.safetensors\n"));
        process_finish(&p);
    }
    process p = {.output = "quantize-log"};
    CHECK_INT(quantize_file(&p, "some/where/tiny-sd1.safetensors"), 1);
    CHECK(strstr(p.text, "did you mean tiny-sd1.safetensors"));
    process_finish(&p);
    unlink(linked);
}

/* "nothing reaches the density" is answered with a lower one, which has to help. */
static void a_lower_density_measures(void)
{
    const char *const high[] = {"--density", "100000", "--plan", "dense", NULL};
    const char *const low[] = {"--plan", "dense", "--conv-mse=1", "--linear-mse=1", NULL};
    process p = {.output = "quantize-log"};
    unlink(scratch("quantize/quantization/dense.json"));
    CHECK_INT(quantize(&p, high), 0);
    CHECK(strstr(p.text, "no layer reaches the density"));
    process_finish(&p);
    CHECK_INT(quantize(&p, low), 0);
    CHECK(strstr(p.text, "joint error   MSE") && !strstr(p.text, "nothing is quantized"));
    process_finish(&p);
}

/* The message names the file and the line. */
static void prompts_that_are_no_text(void)
{
    static const struct {
        const char *text;
        size_t size;
    } bad[] = {{"a cat\na d\xf6g\n", 12}, {"a cat\n\0dog\n", 11}};
    char path[1024];
    snprintf(path, sizeof path, "%s", scratch("prompts.txt"));
    const char *const more[] = {"--prompts", path, NULL};
    for (size_t i = 0; i < 2; i++) {
        process p = {.output = "quantize-log"};
        CHECK(graft_file_write(path, bad[i].text, bad[i].size, NULL) == GRAFT_OK);
        CHECK_INT(quantize(&p, more), 1);
        CHECK(strstr(p.text, "prompts.txt: line 2 is not UTF-8 text"));
        process_finish(&p);
    }
}

/* The advice is one that the command line can follow. */
static void plans_for_other_bits(void)
{
    const char *const eight[] = {"--plan", "bits", NULL};
    const char *const four[] = {"--plan", "bits", "--bits", "4", NULL};
    const char *const again[] = {"--plan", "bits", "--bits", "4", "--recalibrate", NULL};
    const char *const none[] = {"--steps=0", "--conv-mse=1", "--linear-mse=1",
                                "--plan",    "none",         NULL};
    process p = {.output = "quantize-log"};
    unlink(scratch("quantize/quantization/bits.json"));
    unlink(scratch("quantize/quantization/none.json"));
    CHECK_INT(quantize(&p, eight), 0);
    process_finish(&p);
    CHECK_INT(quantize(&p, four), 1);
    CHECK(strstr(p.text, "not 4 bits: recalibrate makes it anew, another plan name keeps it\n"));
    process_finish(&p);
    CHECK_INT(quantize(&p, again), 0);
    process_finish(&p);
    CHECK_INT(quantize(&p, none), 0);
    if (p.status) fprintf(stderr, "%s\n", p.text);
    process_finish(&p);
}

/* A damaged plan stops the workflow that names it; recalibrating replaces it. */
static void damaged_plans(void)
{
    const char *const again[] = {"--recalibrate", NULL}, *const none[] = {NULL};
    process p = {.output = "quantize-log"};
    CHECK(graft_file_write(scratch(PLAN), "{}", 2, NULL) == GRAFT_OK);
    CHECK_INT(quantize(&p, none), 1);
    CHECK(strstr(p.text, "is not a quantization plan"));
    process_finish(&p);
    CHECK_INT(quantize(&p, again), 0);
    process_finish(&p);
    CHECK_INT(quantize(&p, none), 0);
    process_finish(&p);
}

static void saves_the_model(void)
{
    static const struct {
        const char *option, *value, *scheme;
    } how[] = {{"--bits", "8", "int8 per output"},
               {"--bits", "4", "int4 per 64"},
               {"--format", "fp8_e4m3fn", "fp8_e4m3fn per output"}};
    const char *const none[] = {"--save-model",   "saved/tiny",        "--conv-mse",    "0",
                                "--linear-mse=0", "--attention-mse=0", "--recalibrate", NULL};
    const char *const deep[] = {"--save-model",   "quantization/a/b/tiny", "--conv-mse=0",
                                "--linear-mse=0", "--attention-mse=0",     NULL};
    for (int i = 0; i < 3; i++) {
        const char *const all[] = {
            "--save-model",   "saved/tiny",        how[i].option, how[i].value, "--conv-mse=1",
            "--linear-mse=1", "--attention-mse=1", "--plan",      how[i].value, NULL};
        char *data = NULL;
        size_t size = 0;
        process p = {.output = "quantize-log"};
        unlink(scratch("quantize/saved/tiny_00001_.safetensors"));
        CHECK_INT(quantize(&p, all), 0);
        if (p.status) fprintf(stderr, "%s\n", p.text);
        CHECK(strstr(p.text, "/saved/tiny_00001_.safetensors\n")); /* what was written is said */
        process_finish(&p);
        CHECK(graft_file_read(scratch("quantize/saved/tiny_00001_.safetensors"), 1 << 28, &data,
                              &size, NULL) == GRAFT_OK);
        CHECK(data && size > 100 && strstr(data + 8, "\"graft.quantized\":\"1\""));
        CHECK(data && size > 100 && strstr(data + 8, how[i].scheme));
        CHECK(data && !strstr(data + 8, ".attn1,") == (i > 0)); /* integers of 8 bits alone */
        graft_free(data);
    }
    process p = {.output = "quantize-log"};
    CHECK_INT(quantize(&p, none), 1);
    CHECK(strstr(p.text, "nothing to save"));
    process_finish(&p);
    CHECK(graft_file_exists(scratch("quantize/saved/tiny_00001_.safetensors")));
    unlink(scratch("quantize/saved/tiny_00001_.safetensors"));
    p = (process){.output = "quantize-log"};
    CHECK_INT(quantize(&p, deep), 1);
    process_finish(&p);
    /* Folders that are of no use are not left behind, the one that has plans in it stays. */
    CHECK(!graft_dir_exists(scratch("quantize/quantization/a")));
    CHECK(graft_dir_exists(scratch("quantize/quantization")));
}

int main(void)
{
    RUN(saves_the_model);
    RUN(writes_a_plan_and_reads_it);
    RUN(a_lower_density_measures);
    RUN(plans_for_other_bits);
    RUN(bad_options);
    RUN(absent_prompts);
    RUN(checkpoints_by_path);
    RUN(prompts_that_are_no_text);
    RUN(damaged_plans);
    return test_end();
}
