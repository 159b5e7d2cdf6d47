/* How names in prompts reach files: which file it is, what no name reaches, and when a prompt is
 * encoded again. */
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine.h"
#include "nodes/call/embeddings.h"
#include "tests/nodes/fake_engine.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;
static graft_arg clip[4];

static void put(const char *name, const char *text)
{
    fake_host_put(&host, "embeddings", name, text, strlen(text));
}

/* The file that this name finds, below the folder; "" if none. */
static const char *found(const char *name)
{
    static char text[512];
    graft_embedding_files f = {.host = &host.host};
    graft_err e = GRAFT_ERR_INIT;
    char *path = NULL, root[512];
    fake_host_path(&host, "embeddings", "", root, sizeof root);
    graft_status st = graft_embedding_files_find(&f, name, &path, &e);
    text[0] = 0;
    if (st == GRAFT_OK) {
        CHECK(strncmp(path, root, strlen(root)) == 0);
        snprintf(text, sizeof text, "%s", path + strlen(root));
    } else {
        CHECK(e.text[0] && !path);
    }
    graft_free(path);
    graft_embedding_files_finish(&f);
    graft_embedding_files_finish(&f); /* once more is fine */
    return text;
}

static void names_find_files(void)
{
    put("cat.safetensors", "1");
    put("dog.sft", "1");
    put("sub/deep/bird.safetensors", "1");
    put("sub/cat.safetensors", "1");
    put("v1.5.safetensors", "1");
    CHECK_STR(found("cat"), "cat.safetensors");
    CHECK_STR(found("cat.safetensors"), "cat.safetensors");
    CHECK_STR(found("dog"), "dog.sft");
    CHECK_STR(found("v1.5"), "v1.5.safetensors");
    CHECK_STR(found("sub/cat"), "sub/cat.safetensors");
    CHECK_STR(found("bird"), "sub/deep/bird.safetensors");
    CHECK_STR(found("deep/bird.safetensors"), "sub/deep/bird.safetensors");
    CHECK_STR(found("Cat"), "");
    CHECK_STR(found("ca"), "");
    CHECK_STR(found("v1"), "");
    CHECK_STR(found("cat.pt"), "");
    CHECK_STR(found("dog.safetensors"), "");
    CHECK_STR(found("ird"), "");
    CHECK_STR(found("sub"), "");
    CHECK_STR(found(""), "");
}

static void nothing_outside_is_found(void)
{
    static const char *const bad[] = {"../checkpoints/file",
                                      "../checkpoints/file.safetensors",
                                      "sub/../cat",
                                      "./cat",
                                      "/cat",
                                      "sub//cat",
                                      "..",
                                      ".",
                                      "/",
                                      "..\\checkpoints\\file",
                                      "sub\\cat",
                                      "cat\x01",
                                      "\xff\xfe",
                                      "cat.safetensors [output]",
                                      "file [checkpoints]"};
    char path[512], *longest = malloc(1 << 20);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK_STR(found(bad[i]), "");
    fake_host_path(&host, "checkpoints", "file.safetensors", path, sizeof path);
    CHECK(graft_file_exists(path));
    CHECK_STR(found(path), "");
    for (int i = 0; i < (1 << 20) - 1; i++) longest[i] = i % 2 ? '/' : '.';
    longest[(1 << 20) - 1] = 0;
    CHECK_STR(found(longest), "");
    free(longest);
    /* A link to a file elsewhere is listed, and left to the host, which refuses it here. */
    char from[512];
    fake_host_path(&host, "embeddings", "link.safetensors", from, sizeof from);
    CHECK_INT(symlink(path, from), 0);
    CHECK_STR(found("link"), "");
    unlink(from);
}

static graft_status encode(const char *prompt)
{
    graft_arg in[2] = {{.kind = GRAFT_STRING, .u.s = prompt}, clip[1]}, out[4];
    fake_engine_reset();
    fake_host_clear(&host);
    graft_status st = fake_host_run(&host, fake_host_node("CLIPTextEncode"), in, out, NULL, 0);
    fake_host_release(out, 4);
    return st;
}

static void the_engine_is_given_the_file(void)
{
    CHECK_INT(encode("a (embedding:cat, red:1.2) embedding:none"), GRAFT_OK);
    CHECK(strstr(fake_trace, "embedding 'cat,' ") != NULL);
    CHECK(strstr(fake_trace, "embedding 'cat': /") != NULL);
    CHECK(strstr(fake_trace, "/embeddings/cat.safetensors\n") != NULL);
    CHECK(strstr(fake_trace, "embedding 'none' ") != NULL);
    host.bare = true; /* no files at all */
    CHECK_INT(encode("a embedding:cat"), GRAFT_OK);
    CHECK(strstr(fake_trace, "no access to files") != NULL);
    host.bare = false;
}

static const char *stamp(const char *id, const char *first, const char *second)
{
    static char text[4][64];
    static int turn;
    const graft_node *node = fake_host_node(id);
    const graft_fingerprint_api *api = node->query(GRAFT_FINGERPRINT_ID);
    bool xl = second != NULL;
    graft_arg in[24];
    char *t = text[turn++ & 3];
    fake_host_defaults(node, in);
    in[fake_host_input(node, xl ? "text_g" : "text")] =
        (graft_arg){.kind = first ? GRAFT_STRING : GRAFT_NONE, .u.s = first};
    if (xl) in[fake_host_input(node, "text_l")] = (graft_arg){.kind = GRAFT_STRING, .u.s = second};
    snprintf(t, sizeof text[0], "%s", "");
    CHECK(api != NULL);
    if (api) CHECK_INT(api->get(&host.host, in, t, sizeof text[0]), GRAFT_OK);
    return t;
}
#define STAMP(text) stamp("CLIPTextEncode", text, NULL)

static void fingerprints_follow_named_files(void)
{
    const char *a = STAMP("a embedding:cat, red");
    CHECK(*a);
    CHECK_STR(STAMP("a red apple"), "");
    CHECK_STR(STAMP("a embedding:cat, red"), a);
    put("dog.sft", "other");
    CHECK_STR(STAMP("a embedding:cat, red"), a); /* of another one */
    a = STAMP("a embedding:cat, red");
    put("cat.safetensors", "changed");
    CHECK(strcmp(STAMP("a embedding:cat, red"), a) != 0);
    a = STAMP("embedding:new");
    CHECK(*a);
    CHECK_STR(STAMP("embedding:new"), a);
    put("sub/new.safetensors", "1");
    const char *b = STAMP("embedding:new");
    CHECK(strcmp(a, b) != 0);
    put("new.safetensors", "1"); /* goes before the one in the sub-folder */
    CHECK(strcmp(STAMP("embedding:new"), b) != 0);
}

static void fingerprints_of_linked_prompts(void)
{
    const char *a = STAMP(NULL);
    CHECK_STR(STAMP(NULL), a);
    put("cat.safetensors", "changed again");
    const char *b = STAMP(NULL);
    CHECK(strcmp(a, b) != 0);
    put("more.safetensors", "1");
    CHECK(strcmp(STAMP(NULL), b) != 0);
}

static void fingerprints_of_both_prompts(void)
{
    const char *id = "CLIPTextEncodeSDXL";
    const char *a = stamp(id, "embedding:cat", "red"), *b = stamp(id, "red", "embedding:cat");
    CHECK(*a && *b);
    CHECK_STR(stamp(id, "red", "apple"), "");
    put("cat.safetensors", "changed once more");
    CHECK(strcmp(stamp(id, "embedding:cat", "red"), a) != 0);
    CHECK(strcmp(stamp(id, "red", "embedding:cat"), b) != 0);
}

static void memory_may_end_anywhere(void)
{
    graft_alloc_stats before, after;
    graft_status st = GRAFT_E_NOMEM;
    int failed = 0;
    graft_alloc_stats_get(&before);
    for (int i = 1; st != GRAFT_OK && i < 2000; i++) {
        graft_alloc_fail_at(i);
        st = encode("a embedding:cat, embedding:none");
        graft_alloc_fail_at(0);
        failed += st != GRAFT_OK;
    }
    CHECK_INT(st, GRAFT_OK);
    CHECK(failed > 8);
    const graft_fingerprint_api *api =
        fake_host_node("CLIPTextEncode")->query(GRAFT_FINGERPRINT_ID);
    graft_arg in[2] = {{.kind = GRAFT_STRING, .u.s = "embedding:cat, embedding:none"}};
    for (int linked = 0; linked < 2; linked++) {
        char want[64] = "", got[64] = "";
        if (linked) in[0] = (graft_arg){.kind = GRAFT_NONE};
        CHECK_INT(api->get(&host.host, in, want, sizeof want), GRAFT_OK);
        st = GRAFT_E_NOMEM;
        for (int i = 1; st != GRAFT_OK && i < 2000; i++) {
            graft_alloc_fail_at(i);
            st = api->get(&host.host, in, got, sizeof got);
            graft_alloc_fail_at(0);
        }
        CHECK_INT(st, GRAFT_OK);
        CHECK_STR(got, want); /* never one that is not right */
    }
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

int main(void)
{
    graft_arg in[24];
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    fake_host_defaults(fake_host_node("CheckpointLoaderSimple"), in);
    CHECK_INT(fake_host_run(&host, fake_host_node("CheckpointLoaderSimple"), in, clip, NULL, 0),
              GRAFT_OK);
    RUN(names_find_files);
    RUN(nothing_outside_is_found);
    RUN(the_engine_is_given_the_file);
    RUN(fingerprints_follow_named_files);
    RUN(fingerprints_of_linked_prompts);
    RUN(fingerprints_of_both_prompts);
    RUN(memory_may_end_anywhere);
    fake_host_release(clip, 4);
    graft_plugin_entry.deinit();
    CHECK_INT(fake_live, 0);
    fake_host_finish(&host);
    return test_end();
}
