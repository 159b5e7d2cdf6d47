/* graft compare: pictures of two workflows side by side. */
#include <stdlib.h>

#include "tests/test.h"

#include "base/alloc.h"
#include "base/file.h"
#include "tests/workflows/pictures.h"
#include "tests/workflows/process.h"

/* Under sanitizers, where steps are slow and all alike, the workflows that ship have fewer of them.
 */
#define STEPS (WORKFLOW_TWICE ? 20 : 6)

/* The path of a copy with STEPS steps, or of the file itself where it has them. */
static const char *with_steps(const char *file, char path[1024])
{
    char *text = NULL, *end;
    size_t size;
    const char *name = strrchr(file, '/');
    if (WORKFLOW_TWICE || !name || graft_file_read(file, 1 << 20, &text, &size, NULL)) return file;
    for (char *at = text; (at = strstr(at, "\"steps\": ")) != NULL; at = end) {
        at += strlen("\"steps\": ");
        CHECK(strtol(at, &end, 10) >= 10);
        memset(at, ' ', (size_t)(end - at));
        end[-1] = '0' + STEPS;
    }
    CHECK(scratch_write(name + 1, text));
    snprintf(path, 1024, "%s", scratch(name + 1));
    graft_free(text);
    return path;
}

static int compare(process *p, const char *file_a, const char *file_b, const char *seeds)
{
    char path[2][1024];
    const char *a = with_steps(file_a, path[0]), *b = with_steps(file_b, path[1]);
    const char *arg[MAX_WORDS] = {"compare",
                                  a,
                                  b,
                                  "--models",
                                  GRAFT_SOURCE_DIR "/models",
                                  "--input",
                                  GRAFT_SOURCE_DIR "/input",
                                  "--output",
                                  "./compare"};
    if (seeds) {
        arg[9] = "--seeds";
        arg[10] = seeds;
    }
    p->backend = "cpu";
    process_run(p, arg);
    return p->status;
}

#define PLAIN    GRAFT_SOURCE_DIR "/workflows/txt2img.json"
#define CACHED   GRAFT_SOURCE_DIR "/workflows/deepcache.json"
#define ENLARGED GRAFT_SOURCE_DIR "/workflows/hires-fix.json"
#define BATCH    GRAFT_SOURCE_DIR "/workflows/batch.json"

static void equal_pictures(void)
{
    process p = {.output = "compare"};
    CHECK_INT(compare(&p, PLAIN, PLAIN, NULL), 0);
    CHECK(strstr(p.text, "   own        1     equal   1.0000\n"));
    CHECK(strstr(p.text, "\nwrote compare/compare.png: "));
    picture_facts f = picture_read(scratch("compare/compare.png"));
    CHECK_INT(f.width, 3 * 64);
    CHECK_INT(f.height, 64);
    process_finish(&p);
}

static void other_pictures(void)
{
    process p = {.output = "compare"};
    CHECK_INT(compare(&p, PLAIN, CACHED, "2"), 0);
    const char *mean = strstr(p.text, "  mean");
    double psnr = mean ? strtod(mean + 6, NULL) : 0;
    CHECK(psnr > 20 && psnr < 60);
    CHECK(strstr(p.text, "     2        1 ") && strstr(p.text, "times as fast"));
    char last[16];
    snprintf(last, sizeof last, "\n    %2d ", STEPS);
    CHECK(strstr(p.text, last)); /* the curve has all steps */
    /* The first step is a whole one; what the second changes is far below a preview's colours. */
    const char *first = strstr(p.text, "\n     1   0.00e+00"),
               *second = strstr(p.text, "\n     2 ");
    CHECK(first && second && strtod(second + 8, NULL) > 0);
    picture_facts f = picture_read(scratch("compare/compare.png"));
    CHECK_INT(f.height, 2 * 64);
    process_finish(&p);
}

/* Latents after other numbers of steps are no counterparts. */
static void other_steps(void)
{
    static const char workflow[] =
        "{\"1\":{\"class_type\":\"CheckpointLoaderSimple\",\"inputs\":{\"ckpt_name\":"
        "\"emoji-64.safetensors\"}},\"2\":{\"class_type\":\"CLIPTextEncode\",\"inputs\":{\"text\":"
        "\"cactus, "
        "flat\",\"clip\":[\"1\",1]}},\"3\":{\"class_type\":\"EmptyLatentImage\",\"inputs\":"
        "{\"width\":64,\"height\":64,\"batch_size\":1}},\"4\":{\"class_type\":\"KSampler\","
        "\"inputs\":"
        "{\"seed\":1,\"steps\":3,\"cfg\":4.0,\"sampler_name\":\"euler\",\"scheduler\":\"normal\","
        "\"denoise\":1.0,\"model\":[\"1\",0],\"positive\":[\"2\",0],\"negative\":[\"2\",0],"
        "\"latent_image\":[\"3\",0]}},\"5\":{\"class_type\":\"VAEDecode\",\"inputs\":{\"samples\":"
        "[\"4\",0],\"vae\":[\"1\",2]}},\"6\":{\"class_type\":\"SaveImage\",\"inputs\":"
        "{\"filename_prefix\":\"steps\",\"images\":[\"5\",0]}}}";
    char path[1024];
    process p = {.output = "compare"};
    snprintf(path, sizeof path, "%s", scratch("steps.json"));
    CHECK(graft_file_write(path, workflow, strlen(workflow), NULL) == GRAFT_OK);
    CHECK_INT(compare(&p, PLAIN, path, NULL), 0);
    char said[64];
    snprintf(said, sizeof said, "the latents are not compared: %d steps in A, 3 in B", STEPS);
    CHECK(strstr(p.text, said));
    CHECK(strstr(p.text, "  mean") && !strstr(p.text, "MSE of the latent"));
    process_finish(&p);
}

static void what_cannot_be_compared(void)
{
    process p = {.output = "compare"};
    CHECK_INT(compare(&p, PLAIN, ENLARGED, NULL), 1);
    CHECK(strstr(p.text, "pixels in A"));
    CHECK(!strstr(p.text, "PSNR")); /* no table without a line */
    process_finish(&p);
    CHECK_INT(compare(&p, PLAIN, BATCH, NULL), 1);
    CHECK(strstr(p.text, "A saves 1 picture, B 4"));
    process_finish(&p);
    CHECK_INT(compare(&p, PLAIN, "absent.json", NULL), 1);
    CHECK(strstr(p.text, "absent.json"));
    process_finish(&p);
    CHECK_INT(compare(&p, PLAIN, PLAIN, "0"), 2);
    process_finish(&p);
    CHECK_INT(compare(&p, PLAIN, PLAIN, "two"), 2);
    process_finish(&p);
}

int main(void)
{
    if (!WORKFLOW_TWICE) puts("skipped: 14 of 20 steps; the plain build computes all");
    RUN(equal_pictures);
    RUN(other_pictures);
    RUN(other_steps);
    RUN(what_cannot_be_compared);
    return test_end();
}
