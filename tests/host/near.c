/* Which names may have been meant, and in which order. */
#include "host/schema/near.h"
#include "tests/test.h"

static void expect(const char *wanted, const char *const *names, const char *text)
{
    char out[GRAFT_NEAR_TEXT];
    graft_near n;
    graft_near_init(&n, wanted);
    for (; *names; names++) graft_near_add(&n, *names);
    CHECK_STR(graft_near_text(&n, out), text);
}

static void words(void)
{
    static const char *const names[] = {"euler", "euler_ancestral", "heun", "dpm_2",
                                        "lms",   "dpmpp_sde",       "ddim", NULL};
    expect("eulr", names, "; did you mean euler?");
    expect("EULER", names, "; did you mean euler?");
    expect("ddmi", names, "; did you mean ddim?"); /* two letters changed places */
    expect("dpm_3", names, "; did you mean dpm_2?");
    expect("ancestral", names, "; did you mean euler_ancestral?");
    expect("euler_a", names, "; did you mean euler or euler_ancestral?");
    expect("x", names, "");
    expect("", names, "");
    expect("nothing like it", names, "");
}

/* A suffix makes no two files alike, nor does a folder make them strange. */
static void files(void)
{
    static const char *const names[] = {"emoji-64.safetensors", "sd/v1-5.safetensors",
                                        "tiny.safetensors", NULL};
    expect("emoji-46.safetensors", names, "; did you mean emoji-64.safetensors?");
    expect("emoji-64.ckpt", names, "; did you mean emoji-64.safetensors?");
    expect("emoji-64", names, "; did you mean emoji-64.safetensors?");
    expect("v1-5.safetensors", names, "; did you mean sd/v1-5.safetensors?");
    expect("old/v1-5.sft", names, "; did you mean sd/v1-5.safetensors?");
    expect("none.safetensors", names, "");
}

static void several(void)
{
    static const char *const names[] = {"aaab", "aaac", "aaad", "aaab", "aaae",
                                        "aaaf", "aaag", "aaaa", NULL};
    expect("aaax", names, "; did you mean aaab, aaac, aaad, aaae or aaaf?");
    graft_near n;
    char out[GRAFT_NEAR_TEXT];
    graft_near_init(&n, "the sampler");
    graft_near_add_like(&n, "The Sampler", "KSampler");
    graft_near_add_like(&n, "The Samplers", "Other");
    CHECK_STR(graft_near_text(&n, out), "; did you mean KSampler?");
    graft_near_init(&n, "--hieght");
    graft_near_add_part(&n, "--height N", 8);
    CHECK_STR(graft_near_text(&n, out), "; did you mean --height?");
}

/* Names of any length do no harm. */
static void long_names(void)
{
    char name[4000], text[GRAFT_NEAR_TEXT], many[5][200];
    graft_near n;
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = 0;
    graft_near_init(&n, name);
    graft_near_add(&n, name);
    CHECK_STR(graft_near_text(&n, text), "");
    graft_near_init(&n, "aaaaaaaa");
    for (int i = 0; i < 5; i++) {
        memset(many[i], 'a', sizeof many[i]);
        many[i][190 + i] = 0;
        graft_near_add(&n, many[i]);
    }
    CHECK_INT(n.count, 5);
    CHECK(strlen(graft_near_text(&n, text)) < GRAFT_NEAR_TEXT);
}

int main(void)
{
    RUN(words);
    RUN(files);
    RUN(several);
    RUN(long_names);
    return test_end();
}
