/* Bad input, a full disk, Ctrl-C: a clear message, the right exit status, nothing half-written. */
#include "base/clock.h"
#include "tests/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/workflows/process.h"

#define TINY "1.ckpt_name=tiny-sd1.safetensors"

static void expect(process *p, int status, const char *word)
{
    CHECK_INT(p->status, status);
    CHECK_INT(output_count(p), 0);
    CHECK(strstr(p->text, word) != NULL);
    if (p->status != status || !strstr(p->text, word))
        fprintf(stderr, "wanted \"%s\" in:\n%s\n", word, p->text);
    process_finish(p);
}

static void bad_values_are_refused(void)
{
    static const struct {
        const char *set, *word;
    } bad[] = {{"1.ckpt_name=none.safetensors", "there is no file none.safetensors in /"},
               {"1.ckpt_name=none.safetensors", "checkpoints; there are "},
               {"1.ckpt_name=tiny-sd11.safetensors", "; did you mean tiny-sd1.safetensors"},
               {"1.ckpt_name=old.ckpt", "graft convert"},
               {"1.ckpt_name=real.gguf", "there is no file real.gguf in /"},
               {"1.ckpt_name=../../secret.safetensors", "ckpt_name"},
               {"5.steps=0", "steps"},
               {"5.sampler_name=nonsense", "sampler_name: \"nonsense\" is not one of its choices"},
               {"5.sampler_name=eulr", "did you mean euler?"},
               {"5.cfg=-1", "cfg"},
               {"5.cfg=1e999", "input cfg: \"1e999\" is not of type FLOAT"},
               {"5.denoise=2", "denoise"},
               {"5.seed=-1", "seed"},
               {"4.width=0", "width"},
               {"4.width=1000000", "width"},
               {"7.filename_prefix=../outside", "SaveImage"},
               {"9.steps=3", "9"},
               {"5.nothing=3", "nothing"},
               {"Samplr.steps=3", "did you mean Sampler"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *const set[] = {TINY, "5.steps=1", bad[i].set, NULL};
        process p = {.output = "trouble/values"};
        process_workflow(&p, "workflows/txt2img.json", set);
        expect(&p, 1, bad[i].word);
    }
}

static void bad_files_are_refused(void)
{
    static const struct {
        const char *text, *word;
    } bad[] = {
        {"", "bad.json: the file is empty; a workflow is a JSON file, or"},
        {" \n\t", "bad.json: the file is empty"},
        {"{", "bad.json: line 1, column 2: "},
        {"{\"a\": 1,}", "bad.json: line 1, column 9: "},
        {"# Read me\n", "bad.json: neither JSON nor a PNG or WebP picture; a workflow is"},
        {"\xff\xd8\xff\xe0", "bad.json: a JPEG picture carries no workflow"},
        {"\x89PNG\r\n\x1a\n", "bad.json: damaged PNG file: the file ends too early\n"},
        {"[1, 2]", "bad.json: this is a list; a workflow is a JSON object of nodes"},
        {"{}", "bad.json: JSON, but not a workflow"},
        {"{\"a\": 1}", "bad.json: JSON, but not a workflow"},
        {"{\"7\": {\"inputs\": {}}}", "bad.json: node 7 has no class_type"},
        {"\xef\xbb\xbf{\"1\": {\"class_type\": \"EmptyImage\", \"inputs\": {}}}",
         "bad.json: none of its nodes saves or shows anything"},
        {"{\"1\": {\"class_type\": \"NoSuchNode\", \"inputs\": {}}}", "NoSuchNode"},
        {"{\"1\": {\"class_type\": \"SaveImage\", \"inputs\": {\"filename_prefix\": \"x\"}}}",
         "images"},
        {"{\"1\": {\"class_type\": \"SaveImage\", \"inputs\": {\"filename_prefix\": \"x\", "
         "\"images\": [\"7\", 0]}}}",
         "7"},
        {"{\"1\": {\"class_type\": \"SaveImage\", \"inputs\": {\"filename_prefix\": \"x\", "
         "\"images\": [\"2\", 0]}}, \"2\": {\"class_type\": \"ImageInvert\", \"inputs\": "
         "{\"image\": [\"2\", 0]}}}",
         "2"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        process p = {.output = "trouble/files"};
        CHECK(scratch_write("bad.json", bad[i].text));
        process_workflow(&p, scratch("bad.json"), NULL);
        expect(&p, 1, bad[i].word);
    }
    process p = {.output = "trouble/files"};
    process_workflow(&p, "/nonexistent/workflow.json", NULL);
    expect(&p, 1, "/nonexistent/workflow.json");
    process_workflow(&p, GRAFT_SOURCE_DIR "/input/apple.png", NULL);
    expect(&p, 1, "apple.png: the picture carries no workflow; a workflow is");
    process_workflow(&p, GRAFT_SOURCE_DIR, NULL);
    expect(&p, 1, ": this is a folder; a workflow is");
}

/* VAELoader looks into two folders; a file that is missing is missing in models/vae. */
static void missing_vaes_belong_into_their_folder(void)
{
    static const struct {
        const char *set, *word;
    } bad[] = {{NULL, "no file ae.safetensors in " GRAFT_SOURCE_DIR "/models/vae, nor any other"},
               {"3.vae_name=vae.pt", "vae.pt in " GRAFT_SOURCE_DIR "/models/vae, nor any other"},
               {"3.vae_name=emojy", "models/vae; did you mean emoji?"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *const set[] = {bad[i].set, NULL};
        process p = {.output = "trouble/vae", .models = GRAFT_SOURCE_DIR "/models"};
        process_workflow(&p, "workflows/flux.json", set);
        CHECK(!strstr(p.text, "models/vae_approx"));
        expect(&p, 1, bad[i].word);
    }
}

/* A workflow in which ' stands for ". */
static void run_quoted(process *p, const char *text)
{
    char json[2048];
    size_t n = 0;
    for (; text[n] && n + 1 < sizeof json; n++) json[n] = text[n] == '\'' ? '"' : text[n];
    json[n] = 0;
    CHECK(scratch_write("quoted.json", json));
    process_workflow(p, scratch("quoted.json"), NULL);
}

/* A checkpoint may leave its text encoders to other files; whoever wants them is told. */
static void checkpoints_without_text_encoders(void)
{
    static const char save[] =
        "{'1': {'class_type': 'CheckpointLoaderSimple', "
        "'inputs': {'ckpt_name': 'tiny-flux-bare.safetensors'}}, "
        "'2': {'class_type': 'CLIPSave', 'inputs': {'clip': ['1', 1], 'filename_prefix': 'x'}}}";
    static const char picture[] =
        "{'1': {'class_type': 'CheckpointLoaderSimple', "
        "'inputs': {'ckpt_name': 'tiny-sd1-bare.safetensors'}}, "
        "'2': {'class_type': 'CheckpointLoaderSimple', "
        "'inputs': {'ckpt_name': 'tiny-sd1.safetensors'}}, "
        "'3': {'class_type': 'CLIPTextEncode', 'inputs': {'clip': ['2', 1], 'text': 'a'}}, "
        "'4': {'class_type': 'EmptyLatentImage', "
        "'inputs': {'width': 64, 'height': 64, 'batch_size': 1}}, "
        "'5': {'class_type': 'KSampler', 'inputs': {'model': ['1', 0], 'positive': ['3', 0], "
        "'negative': ['3', 0], 'latent_image': ['4', 0], 'seed': 1, 'steps': 1, 'cfg': 1, "
        "'sampler_name': 'euler', 'scheduler': 'normal', 'denoise': 1}}, "
        "'6': {'class_type': 'VAEDecode', 'inputs': {'samples': ['5', 0], 'vae': ['1', 2]}}, "
        "'7': {'class_type': 'SaveImage', 'inputs': {'images': ['6', 0], "
        "'filename_prefix': 'x'}}}";
    const char *const set[] = {"1.ckpt_name=tiny-sd1-bare.safetensors", "5.steps=1", NULL};
    process p = {.output = "trouble/bare"};
    process_workflow(&p, "workflows/txt2img.json", set);
    CHECK(strstr(p.text, "; CLIPLoader opens text encoders that are files of their own\n") != NULL);
    expect(&p, 1,
           "(CLIPTextEncode): " WORKFLOW_MODELS "/checkpoints/tiny-sd1-bare.safetensors: no "
           "CLIP text encoder in it (no cond_stage_model.*, ");
    run_quoted(&p, save);
    CHECK(strstr(p.text, "; DualCLIPLoader opens") != NULL);
    expect(&p, 1, "(CLIPSave): " WORKFLOW_MODELS "/checkpoints/tiny-flux-bare.safetensors: no");
    run_quoted(&p, picture);
    CHECK_INT(p.status, 0);
    CHECK_INT(output_count(&p), 1);
    process_finish(&p);
}

/* Checkpoints cut short or changed in their first bytes, beside a list of whole ones. */
static void damaged_checkpoints_are_refused(void)
{
    char *data = NULL;
    size_t size = 0;
    CHECK(!graft_file_read(WORKFLOW_MODELS "/checkpoints/tiny-sd1.safetensors", 1 << 28, &data,
                           &size, NULL));
    const size_t keep[] = {0, 7, 100, size / 2, size - 1};
    CHECK(!graft_dir_make(scratch("damaged/checkpoints"), NULL));
    const char *const set[] = {"1.ckpt_name=damaged.safetensors", "5.steps=1", NULL};
    for (size_t i = 0; i <= sizeof keep / sizeof *keep && size > 200; i++) {
        bool cut = i < sizeof keep / sizeof *keep;
        if (!cut) memset(data, 0xff, 8); /* a header length beyond everything */
        CHECK(!graft_file_write(scratch("damaged/checkpoints/damaged.safetensors"), data,
                                cut ? keep[i] : size, NULL));
        char models[1024];
        snprintf(models, sizeof models, "%s", scratch("damaged"));
        process p = {.output = "trouble/damaged", .models = models};
        process_workflow(&p, "workflows/txt2img.json", set);
        expect(&p, 1, "damaged.safetensors");
    }
    graft_free(data);
}

static void wrong_usage_is_status_2(void)
{
    static const char *const words[][4] = {{NULL},
                                           {"dance", NULL},
                                           {"run", NULL},
                                           {"run", "a.json", "--nonsense", NULL},
                                           {"run", "a.json", "--set", NULL},
                                           {"run", "a.json", "--threads=1025", NULL}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        process p = {.output = "trouble/usage"};
        process_run(&p, words[i]);
        expect(&p, 2, "graft help");
    }
}

static void a_full_disk_leaves_nothing(void)
{
    const char *const set[] = {TINY, "5.steps=1", NULL};
    process p = {.output = "trouble/full", .max_file_bytes = 2000, .quiet = true};
    process_workflow(&p, "workflows/txt2img.json", set);
    expect(&p, 1, "SaveImage");
}

/* --quiet leaves out progress, not that the picture is another one than was asked for. */
static void quiet_runs_warn(void)
{
    const char *const set[] = {TINY, "5.steps=1", "2.text=embedding:nobody, red", NULL};
    process p = {.output = "trouble/quiet", .quiet = true};
    process_workflow(&p, "workflows/txt2img.json", set);
    CHECK_INT(p.status, 0);
    CHECK(strstr(p.text, "Sampler") == NULL);
    CHECK(strstr(p.text, "warning: embedding \"nobody\" is left out") != NULL);
    process_finish(&p);
}

/* A latent has a place for 8 pixels each way: a picture of 65 is one of 64. */
static void another_size_is_told(void)
{
    const char *const set[] = {TINY, "5.steps=1", "4.width=65", "4.height=56", NULL};
    process p = {.output = "trouble/size", .quiet = true};
    process_workflow(&p, "workflows/txt2img.json", set);
    CHECK_INT(p.status, 0);
    CHECK(strstr(p.text, "warning: width 65 is taken as 64, a multiple of 8\n") != NULL);
    CHECK(strstr(p.text, "height") == NULL);
    process_finish(&p);
    const char *const odd[] = {"1.ckpt_name=tiny-sd3.safetensors",
                               "7.steps=1",
                               "4.width=65",
                               "4.height=72",
                               "6.width=64",
                               "6.height=64",
                               NULL};
    process_workflow(&p, "workflows/sd3.json", odd);
    CHECK_INT(p.status, 0);
    CHECK(strstr(p.text, "warning: width 65 is taken as 64, a multiple of 8\n") != NULL);
    CHECK(strstr(p.text, "height") == NULL);
    process_finish(&p);
}

/* What the engine finds belongs to no node, and reaches the user all the same. */
static void the_engine_warns(void)
{
    const char *const set[] = {TINY, "5.steps=1", NULL};
    process p = {.output = "trouble/engine", .quiet = true};
    CHECK(!setenv("GRAFT_MEMORY_MB", "plenty", 1) && !setenv("GRAFT_PRECISION", "fp16", 1));
    process_workflow(&p, "workflows/txt2img.json", set);
    unsetenv("GRAFT_MEMORY_MB");
    unsetenv("GRAFT_PRECISION");
    CHECK_INT(p.status, 0);
    CHECK(strstr(p.text, "warning: GRAFT_MEMORY_MB must be a number") != NULL);
    CHECK(strstr(p.text, "\"fp16\": ignored") != NULL);
    process_finish(&p);
}

/* What a model needs minutes for is not begun when its end can be told. */
static void found_before_anything_runs(void)
{
    static const char *const words[][8] = {
        {"run", "W", "--device", "cuad"},
        {"compile", "W", "--device=gpu"},
        {"compare", "W", "W", "--device", "cpuu"},
        {"serve", "--port=0", "--device", "rev"},
        {"run", "W", "--output", "/proc/no"},
        {"compare", "W", "W", "--output", "/proc/no"},
        {"quantize", "tiny-sd1.safetensors", "--output", "/proc/no"}};
    static const char *const says[] = {
        "--device cuad: there is no backend cuad; these can run here: ",
        "there is no backend gpu; these can run here: ",
        "did you mean cpu?",
        "did you mean ref?",
        "cannot write to /proc/no: ",
        "cannot write to /proc/no: ",
        "cannot write to /proc/no/quantization: "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *arg[12] = {NULL};
        process p = {.output = "trouble/before"};
        size_t n = 0;
        for (; words[i][n]; n++)
            arg[n] =
                strcmp(words[i][n], "W") ? words[i][n] : GRAFT_SOURCE_DIR "/workflows/txt2img.json";
        arg[n++] = "--models";
        arg[n++] = i < 6 ? GRAFT_SOURCE_DIR "/models" : WORKFLOW_MODELS;
        process_run(&p, arg);
        CHECK(!strstr(p.text, "[1/") && !strstr(p.text, "seed"));
        expect(&p, 1, says[i]);
    }
}

static void sleep_ms(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Waits until the process has printed `word`; false after a minute. */
static bool wait_for(const char *log, const char *word)
{
    for (double end = graft_clock_now() + 60; graft_clock_now() < end; sleep_ms(10)) {
        char *text = NULL;
        size_t size;
        bool found = !graft_file_read(log, 1 << 24, &text, &size, NULL) && strstr(text, word);
        graft_free(text);
        if (found) return true;
    }
    return false;
}

static void ctrl_c_stops_soon(void)
{
    const int signals[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        char output[1024];
        snprintf(output, sizeof output, "%s", scratch("trouble/cancel"));
        const char *const arg[] = {"run",      GRAFT_SOURCE_DIR "/workflows/txt2img.json",
                                   "--models", WORKFLOW_MODELS,
                                   "--output", output,
                                   "--set",    TINY,
                                   "--set",    "5.steps=10000",
                                   NULL};
        process p = {.output = "trouble/cancel"};
        pid_t pid = process_start(&p, arg);
        CHECK(pid > 0);
        CHECK(wait_for(scratch("trouble/cancel.log"), "Sampler (5)"));
        sleep_ms(300);
        double before = graft_clock_now();
        if (pid > 0) kill(pid, signals[i]);
        process_wait(&p, pid);
        CHECK(graft_clock_now() - before < 5);
        expect(&p, 130, "interrupted");
    }
}

/* Nobody waits for what reads standard input: one signal ends it, and nothing was begun. */
static void ctrl_c_ends_the_wait_for_input(void)
{
    const char *const arg[] = {"run", "-", "--models", WORKFLOW_MODELS, NULL};
    process p = {.output = "trouble/wait"};
    siginfo_t end = {0};
    int ends[2], before = dup(STDIN_FILENO);
    CHECK(before >= 0 && !pipe(ends) && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    CHECK(!fcntl(ends[1], F_SETFD, FD_CLOEXEC)); /* only this process can write */
    pid_t pid = process_start(&p, arg);
    CHECK(pid > 0 && dup2(before, STDIN_FILENO) == STDIN_FILENO);
    sleep_ms(1500); /* until it reads */
    double start = graft_clock_now();
    if (pid > 0) kill(pid, SIGINT);
    while (!end.si_pid && graft_clock_now() - start < 5) {
        CHECK(!waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT));
        sleep_ms(20);
    }
    CHECK_INT(end.si_pid, pid);
    close(ends[1]); /* else a process that still waits would never end */
    process_wait(&p, pid);
    expect(&p, 130, "");
    close(ends[0]);
    close(before);
}

/* Whatever prints: half of a list must not look like all of it, nor a full disk like a pipe. */
static void what_could_not_be_printed_is_told(void)
{
    static const char *const words[][8] = {{"nodes"},   {"nodes", "--json"}, {"help"},
                                           {"version"}, {"cache"},           {"run", "W", "-q"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *arg[12] = {NULL};
        process p = {.output = "trouble/printed", .printed = "/dev/full"};
        size_t n = 0;
        for (; words[i][n]; n++)
            arg[n] =
                strcmp(words[i][n], "W") ? words[i][n] : GRAFT_SOURCE_DIR "/workflows/txt2img.json";
        if (n > 2) {
            arg[n++] = "--set";
            arg[n++] = TINY;
            arg[n++] = "--set";
            arg[n++] = "5.steps=1";
            arg[n++] = "--models";
            arg[n++] = WORKFLOW_MODELS;
        }
        process_run(&p, arg);
        CHECK_INT(p.status, 1);
        CHECK(strstr(p.text, "graft: standard output: ") != NULL);
        process_finish(&p);
    }
}

int main(void)
{
    RUN(bad_values_are_refused);
    RUN(bad_files_are_refused);
    RUN(missing_vaes_belong_into_their_folder);
    RUN(checkpoints_without_text_encoders);
    RUN(damaged_checkpoints_are_refused);
    RUN(wrong_usage_is_status_2);
    RUN(a_full_disk_leaves_nothing);
    RUN(quiet_runs_warn);
    RUN(another_size_is_told);
    RUN(the_engine_warns);
    RUN(found_before_anything_runs);
    RUN(ctrl_c_stops_soon);
    RUN(ctrl_c_ends_the_wait_for_input);
    RUN(what_could_not_be_printed_is_told);
    return test_end();
}
