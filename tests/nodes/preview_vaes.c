/* Which decoder previews get: opened once, again when its file is another, none that does not fit.
 */
#include "nodes/call/preview_vaes.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/nodes/fake_engine.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;
static graft_arg model[4], prompt[4], latent[4];

static graft_status run_node(const char *id, const graft_arg *in, graft_arg *out)
{
    fake_engine_reset();
    fake_host_clear(&host);
    return fake_host_run(&host, fake_host_node(id), in, out, NULL, 0);
}

static void make_inputs(void)
{
    graft_arg in[24];
    fake_host_defaults(fake_host_node("CheckpointLoaderSimple"), in);
    CHECK_INT(run_node("CheckpointLoaderSimple", in, model), GRAFT_OK);
    fake_host_defaults(fake_host_node("CLIPTextEncode"), in);
    in[fake_host_input(fake_host_node("CLIPTextEncode"), "clip")] = model[1];
    CHECK_INT(run_node("CLIPTextEncode", in, prompt), GRAFT_OK);
    fake_host_defaults(fake_host_node("EmptyLatentImage"), in);
    CHECK_INT(run_node("EmptyLatentImage", in, latent), GRAFT_OK);
}

/* What sampling did for its previews. */
static const char *sample(void)
{
    static char text[sizeof fake_trace];
    const graft_node *n = fake_host_node("KSampler");
    graft_arg in[24], out[4] = {{0}};
    fake_host_defaults(n, in);
    in[fake_host_input(n, "model")] = model[0];
    in[fake_host_input(n, "positive")] = in[fake_host_input(n, "negative")] = prompt[0];
    in[fake_host_input(n, "latent_image")] = latent[0];
    in[fake_host_input(n, "sampler_name")].u.s = "euler";
    in[fake_host_input(n, "scheduler")].u.s = "normal";
    CHECK_INT(run_node("KSampler", in, out), GRAFT_OK);
    fake_host_release(out, 1);
    const char *first = strchr(fake_trace, '\n');
    snprintf(text, sizeof text, "%s", first ? first + 1 : "");
    return text;
}

static void put(const char *name, const char *content)
{
    fake_host_put(&host, "vae_approx", name, content, strlen(content));
}

static void take(const char *name)
{
    char path[512];
    fake_host_path(&host, "vae_approx", name, path, sizeof path);
    CHECK_INT(unlink(path), 0);
}

#define OPENED(name) "vae " name "\ncompile vae auto off auto memory=256 cache=1 tile=1 0x0x0\n"
#define DECODED      "previews are decoded\n"
#define WARNS()      (strstr(host.log, "no tiny autoencoder for this model") != NULL)

static void hosts_choose_the_kind(void)
{
    put("taesd_decoder.safetensors", "x");
    fake_vae_fits = true;
    for (int wanted = 0; wanted < 2; wanted++) {
        host.previews_wanted = wanted;
        for (int kind = GRAFT_PREVIEW_NONE; kind <= GRAFT_PREVIEW_LATENT; kind++) {
            host.preview_kind = kind;
            CHECK_STR(sample(), "");
            CHECK_INT(host.previews, wanted);
        }
    }
    host.bare = true; /* a host that says nothing about previews takes them */
    CHECK_STR(sample(), "");
    CHECK_INT(host.previews, 1);
    host.bare = false;
    host.preview_kind = GRAFT_PREVIEW_DECODED;
    CHECK_STR(sample(), OPENED("taesd_decoder.safetensors") DECODED);
    CHECK_INT(host.previews, 1);
    host.preview_kind = GRAFT_PREVIEW_BEST;
    CHECK_STR(sample(), DECODED);
    host.preview_kind = GRAFT_PREVIEW_DECODED;
    CHECK(!WARNS());
}

static void files_are_opened_once(void)
{
    int live = fake_live;
    CHECK_STR(sample(), DECODED);
    put("taesd_decoder.safetensors", "another");
    CHECK_STR(sample(), OPENED("taesd_decoder.safetensors") DECODED);
    CHECK_INT(fake_live, live); /* the one before was given up */
    put("taesd_encoder.safetensors", "x");
    CHECK_STR(sample(), OPENED("taesd_encoder.safetensors") DECODED);
    CHECK_STR(sample(), DECODED);
    take("taesd_encoder.safetensors");
    CHECK_STR(sample(), DECODED);
    CHECK_INT(fake_live, live);
}

static void one_warning(void)
{
    fake_vae_fits = false;
    CHECK_STR(sample(), "");
    CHECK(WARNS());
    CHECK_INT(host.previews, 1); /* of colours */
    CHECK_STR(sample(), "");
    CHECK(!WARNS());
    put("other.safetensors", "x");
    CHECK_STR(sample(), OPENED("other.safetensors"));
    CHECK(WARNS());
    take("other.safetensors");
    take("taesd_decoder.safetensors");
    host.preview_kind = GRAFT_PREVIEW_BEST; /* is content with what there is */
    CHECK_STR(sample(), "");
    CHECK(!WARNS());
    CHECK_INT(host.previews, 1);
    host.preview_kind = GRAFT_PREVIEW_DECODED;
    CHECK_STR(sample(), "");
    CHECK(WARNS());
    CHECK_STR(sample(), "");
    CHECK(!WARNS());
}

/* Without memory a preview is lost, and nothing else. */
static void memory_may_end_anywhere(void)
{
    graft_preview_vaes *p = NULL;
    graft_alloc_stats before, after;
    const graft_log silent = {0};
    graft_vae *v = NULL;
    int tries = 1;
    put("a_decoder.safetensors", "x");
    fake_vae_fits = true;
    fake_engine_reset();
    graft_alloc_stats_get(&before);
    for (; !v && tries < 200; tries++) {
        graft_alloc_fail_at(tries);
        graft_status st = graft_preview_vaes_create(&p, NULL);
        if (st == GRAFT_OK)
            v = graft_preview_vaes_find(p, &host.host, NULL, NULL, &silent);
        else
            CHECK_INT(st, GRAFT_E_NOMEM);
        graft_alloc_fail_at(0);
        if (!v) graft_preview_vaes_destroy(p);
        if (!v) p = NULL;
    }
    CHECK(v != NULL && tries > 6);
    graft_vae_release(v);
    graft_preview_vaes_destroy(p);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

int main(void)
{
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    make_inputs();
    RUN(hosts_choose_the_kind);
    RUN(files_are_opened_once);
    RUN(one_warning);
    RUN(memory_may_end_anywhere);
    fake_host_release(model, 4);
    fake_host_release(prompt, 4);
    fake_host_release(latent, 4);
    graft_plugin_entry.deinit();
    CHECK_INT(fake_live, 0);
    fake_host_finish(&host);
    return test_end();
}
