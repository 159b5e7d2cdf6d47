/* SwapWeights' files, which lie in either of two folders: what is offered, which one is opened, and
 * when again. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/nodes/fake_engine.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;
static const graft_node *node;

static graft_arg choice(const char *text)
{
    return (graft_arg){.kind = GRAFT_CHOICE, .u.s = text};
}

static const char *offered(void)
{
    return fake_host_choices(&host, node, "ckpt_name");
}

static void files_of_both_folders_are_offered(void)
{
    CHECK_STR(offered(), "file.safetensors sub/other.safetensors ");
    fake_host_put(&host, "diffusion_models", "alone.safetensors", "one", 3);
    CHECK_STR(offered(), "file.safetensors sub/other.safetensors alone.safetensors ");
}

static void stamp(char text[128])
{
    const graft_fingerprint_api *api = node->query(GRAFT_FINGERPRINT_ID);
    graft_arg in[24];
    fake_host_defaults(node, in);
    in[fake_host_input(node, "ckpt_name")] = choice("alone.safetensors");
    CHECK_INT(api->get(&host.host, in, text, 128), GRAFT_OK);
}

/* Of two that are called alike the checkpoint counts. */
static void fingerprints_follow_the_file_that_counts(void)
{
    char a[128] = "", b[128] = "", c[128] = "";
    stamp(a);
    fake_host_put(&host, "diffusion_models", "alone.safetensors", "three", 5);
    stamp(b);
    fake_host_put(&host, "checkpoints", "alone.safetensors", "one", 3);
    stamp(c);
    CHECK(strcmp(a, b) != 0 && strcmp(b, c) != 0);
    fake_host_put(&host, "diffusion_models", "alone.safetensors", "five", 4);
    stamp(b);
    CHECK_STR(b, c);
}

static void memory_may_end_anywhere(void)
{
    const graft_choices_api *choices = node->query(GRAFT_CHOICES_ID);
    const graft_fingerprint_api *prints = node->query(GRAFT_FINGERPRINT_ID);
    char want[128] = "", text[128];
    graft_alloc_stats before, after;
    char **names = NULL;
    graft_arg in[24];
    graft_status st = GRAFT_E_NOMEM;
    stamp(want);
    fake_host_defaults(node, in);
    in[fake_host_input(node, "ckpt_name")] = choice("alone.safetensors");
    graft_alloc_stats_get(&before);
    for (int i = 1; !names && i < 2000; i++) {
        graft_alloc_fail_at(i);
        names = choices->list(&host.host, "ckpt_name");
        graft_alloc_fail_at(0);
    }
    CHECK(names != NULL);
    choices->free(names);
    for (int i = 1; st != GRAFT_OK && i < 2000; i++) {
        graft_alloc_fail_at(i);
        st = prints->get(&host.host, in, text, sizeof text);
        graft_alloc_fail_at(0);
    }
    CHECK_INT(st, GRAFT_OK);
    CHECK_STR(text, want);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

int main(void)
{
    CHECK_INT(fake_host_init(&host), 0);
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    node = fake_host_node("SwapWeights");
    RUN(files_of_both_folders_are_offered);
    RUN(fingerprints_follow_the_file_that_counts);
    RUN(memory_may_end_anywhere);
    graft_plugin_entry.deinit();
    fake_host_finish(&host);
    return test_end();
}
