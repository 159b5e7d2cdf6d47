/* Tiny autoencoders by name: what VAELoader offers, which files it opens, and when it does so
 * again. */
#include "nodes/call/vae_approx.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/nodes/fake_engine.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;

static void put(const char *name)
{
    fake_host_put(&host, "vae_approx", name, "x", 1);
}

static void take(const char *name)
{
    char path[512];
    fake_host_path(&host, "vae_approx", name, path, sizeof path);
    CHECK_INT(unlink(path), 0);
}

/* What VAELoader offers, with a blank behind each. */
static const char *offered(void)
{
    return fake_host_choices(&host, fake_host_node("VAELoader"), "vae_name");
}

static void whole_pairs_are_offered(void)
{
    CHECK_STR(offered(), "file.safetensors ");
    put("taesd_decoder.safetensors");
    CHECK_STR(offered(), "file.safetensors ");
    put("taesd_encoder.safetensors");
    CHECK_STR(offered(), "file.safetensors taesd ");
    put("taesdxl_encoder.safetensors"); /* not taesd's, and without a decoder */
    put("other_encoder.safetensors");
    put("a_decoder.sft");
    put("a_encoder.safetensors");
    put("a_decoder.safetensors"); /* offered once */
    put("sub/b_encoder.sft");
    put("sub/b_decoder.sft");
    put("_encoder.safetensors"); /* no name is left */
    put("_decoder.safetensors");
    put("sub/_encoder.safetensors");
    put("sub/_decoder.safetensors");
    put("c_decoder.safetensors.sft");
    put("c_encoder.safetensors");
    CHECK_STR(offered(), "file.safetensors a sub/b taesd ");
    host.bare = true;
    CHECK_STR(offered(), "");
    host.bare = false;
}

/* Runs VAELoader; what was opened, or why nothing was. */
static const char *opened(const char *name)
{
    const graft_arg in[1] = {{.kind = GRAFT_CHOICE, .u.s = name}};
    graft_arg out[4] = {{0}};
    fake_engine_reset();
    fake_host_clear(&host);
    graft_status st = fake_host_run(&host, fake_host_node("VAELoader"), in, out, NULL, 0);
    if (st == GRAFT_OK) {
        fake_host_release(out, 1);
        CHECK_INT(fake_live, 0);
        return fake_trace;
    }
    CHECK_INT(host.fail_code, st);
    CHECK_STR(host.fail_input, "vae_name");
    CHECK_STR(fake_trace, "");
    return host.fail_text;
}

static void both_files_are_opened(void)
{
    opened("file.safetensors"); /* makes the engine */
    CHECK_STR(opened("file.safetensors"), "vae file.safetensors\n");
    CHECK_STR(opened("taesd"), "vae taesd_encoder.safetensors and taesd_decoder.safetensors\n");
    CHECK_STR(opened("a"), "vae a_encoder.safetensors and a_decoder.safetensors\n");
    CHECK_STR(opened("sub/b"), "vae b_encoder.sft and b_decoder.sft\n");
    CHECK(strstr(opened("taesdxl"), "no file taesdxl_decoder.safetensors") != NULL);
    take("a_encoder.safetensors");
    CHECK(strstr(opened("a"), "no file a_encoder.safetensors") != NULL);
    CHECK(strstr(opened("none"), "none_decoder.safetensors") != NULL);
    CHECK(strstr(opened("../vae_approx/taesd"), "taesd") != NULL);
    CHECK_INT(host.fail_code, GRAFT_E_ARG);
}

static const char *stamp(const char *name)
{
    static char text[2][512];
    static int turn;
    const graft_fingerprint_api *api = fake_host_node("VAELoader")->query(GRAFT_FINGERPRINT_ID);
    const graft_arg in = {.kind = name ? GRAFT_CHOICE : GRAFT_NONE, .u.s = name};
    turn = !turn;
    text[turn][0] = 0;
    graft_status st = api->get(&host.host, &in, text[turn], sizeof text[turn]);
    return st == GRAFT_OK ? text[turn] : st == GRAFT_E_NOTFOUND ? "not found" : "failed";
}

/* What is no half has all of it; a pair of the same name comes before it. */
static void single_files_are_offered(void)
{
    static const char *const files[] = {"one.safetensors", "sub/two.sft", "taesd.safetensors",
                                        "both.sft", "both.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) put(files[i]);
    CHECK_STR(offered(), "file.safetensors both one sub/b sub/two taesd ");
    CHECK_STR(opened("one"), "vae one.safetensors\n");
    CHECK_STR(opened("sub/two"), "vae two.sft\n");
    CHECK_STR(opened("both"), "vae both.safetensors\n");
    CHECK_STR(opened("taesd"), "vae taesd_encoder.safetensors and taesd_decoder.safetensors\n");
    char before[512];
    snprintf(before, sizeof before, "%s", stamp("one"));
    CHECK_STR(stamp("one"), before);
    fake_host_put(&host, "vae_approx", "one.safetensors", "another", 7);
    CHECK(strcmp(stamp("one"), before) != 0 && strcmp(stamp("one"), "not found") != 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) take(files[i]);
    CHECK_STR(stamp("one"), "not found");
    CHECK(strstr(opened("one"), "no file one_decoder.safetensors or one.safetensors") != NULL);
}

/* A server that keeps results must open either half again when it was replaced. */
static void fingerprints_follow_both_files(void)
{
    const char *const halves[] = {"taesd_encoder.safetensors", "taesd_decoder.safetensors"};
    for (int i = 0; i < 2; i++) {
        char before[512];
        snprintf(before, sizeof before, "%s", stamp("taesd"));
        CHECK_STR(stamp("taesd"), before);
        fake_host_put(&host, "vae_approx", halves[i], "another", 7);
        CHECK(strcmp(stamp("taesd"), before) != 0);
        CHECK(strcmp(stamp("file.safetensors"), before) != 0);
    }
    CHECK_STR(stamp("taesdxl"), "not found");
    char linked[512]; /* either kind */
    snprintf(linked, sizeof linked, "%s", stamp(NULL));
    CHECK_STR(stamp(NULL), linked);
    fake_host_put(&host, "vae_approx", halves[0], "the third", 9);
    CHECK(strcmp(stamp(NULL), linked) != 0);
    take("taesd_encoder.safetensors");
    CHECK_STR(stamp("taesd"), "not found");
}

static void memory_may_end_anywhere(void)
{
    const graft_choices_api *api = fake_host_node("VAELoader")->query(GRAFT_CHOICES_ID);
    graft_alloc_stats before, after;
    char **names = NULL;
    int failed = 0;
    put("taesd_encoder.safetensors");
    graft_alloc_stats_get(&before);
    for (int i = 1; !names && i < 2000; i++) {
        graft_alloc_fail_at(i);
        names = api->list(&host.host, "vae_name");
        graft_alloc_fail_at(0);
        failed += !names;
    }
    CHECK(names != NULL && failed > 4);
    api->free(names);
    graft_status st = GRAFT_E_NOMEM;
    char text[512], want[512];
    snprintf(want, sizeof want, "%s", stamp("taesd"));
    const graft_fingerprint_api *prints = fake_host_node("VAELoader")->query(GRAFT_FINGERPRINT_ID);
    const graft_arg in = {.kind = GRAFT_CHOICE, .u.s = "taesd"};
    for (int i = 1; st != GRAFT_OK && i < 2000; i++) {
        graft_alloc_fail_at(i);
        st = prints->get(&host.host, &in, text, sizeof text);
        graft_alloc_fail_at(0);
    }
    CHECK_INT(st, GRAFT_OK);
    CHECK_STR(text, want); /* never one that is not right */
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

int main(void)
{
    CHECK_INT(fake_host_init(&host), 0);
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    RUN(whole_pairs_are_offered);
    RUN(both_files_are_opened);
    RUN(single_files_are_offered);
    RUN(fingerprints_follow_both_files);
    RUN(memory_may_end_anywhere);
    graft_plugin_entry.deinit();
    fake_host_finish(&host);
    return test_end();
}
