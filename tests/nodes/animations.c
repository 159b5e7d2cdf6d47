/* Nodes that save a batch as one animated picture: how many there are in the file, how long they
 * are seen, what the node shows, and its workflow. */
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/png.h"
#include "base/webp.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;

static graft_status run(const char *id, const graft_arg *in, graft_arg *out)
{
    fake_host_clear(&host);
    return fake_host_run(&host, fake_host_node(id), in, out, NULL, 0);
}

static void make_image(int64_t w, int64_t h, int64_t n, graft_arg *out)
{
    graft_arg in[24];
    fake_host_defaults(fake_host_node("EmptyImage"), in);
    in[0].u.i = w, in[1].u.i = h, in[2].u.i = n, in[3].u.i = 0x102030;
    CHECK_INT(run("EmptyImage", in, out), GRAFT_OK);
}

static graft_status save(const char *id, const graft_arg *image, const char *prefix, double fps)
{
    const graft_node *n = fake_host_node(id);
    graft_arg in[24], out[4];
    fake_host_defaults(n, in);
    in[fake_host_input(n, "images")] = *image;
    in[fake_host_input(n, "filename_prefix")] = (graft_arg){.kind = GRAFT_STRING, .u.s = prefix};
    in[fake_host_input(n, "fps")].u.f = fps;
    return run(id, in, out);
}

static uint8_t *read_file(const char *name, size_t *size)
{
    char path[1024], *data = NULL;
    graft_err e = GRAFT_ERR_INIT;
    fake_host_path(&host, "output", name, path, sizeof path);
    CHECK_OK(graft_file_read(path, 1 << 24, &data, size, &e), &e);
    return (uint8_t *)data;
}

/* That the file has so many pictures, each seen for delay / unit of a second. */
static void check_png(const char *name, int pictures, int delay, int unit)
{
    size_t n = 0;
    uint8_t *png = read_file(name, &n);
    int frames = 0;
    for (size_t i = 0; png && i + 30 < n; i++) {
        if (memcmp(png + i, "acTL", 4) == 0) CHECK_INT(png[i + 7], pictures);
        if (memcmp(png + i, "fcTL", 4) != 0) continue;
        CHECK_INT(png[i + 24] << 8 | png[i + 25], delay);
        CHECK_INT(png[i + 26] << 8 | png[i + 27], unit);
        frames++;
    }
    CHECK_INT(frames, pictures);
    graft_free(png);
}

static void batches_become_one_png(void)
{
    graft_arg image[4];
    graft_err e = GRAFT_ERR_INIT;
    size_t n = 0;
    char *text = NULL;
    make_image(5, 3, 2, image);
    host.prompt = "{\"1\": {}}";
    host.extra_pnginfo = "{\"workflow\": {\"id\": 7}}";
    CHECK_INT(save("SaveAnimatedPNG", image, "sub/all", 6), GRAFT_OK);
    CHECK_STR(host.phases, "save ");
    CHECK_STR(host.ui, "images {\"filename\": \"all_00001_.png\", \"subfolder\": \"sub\", "
                       "\"type\": \"output\"}\nanimated true\n");
    check_png("sub/all_00001_.png", 2, 166, 1000);
    uint8_t *png = read_file("sub/all_00001_.png", &n);
    CHECK_OK(graft_png_read_text(png, n, "workflow", &text, &e), &e);
    CHECK_STR(text, "{\"id\":7}");
    graft_free(text);
    graft_free(png);
    host.prompt = host.extra_pnginfo = NULL;
    CHECK_INT(save("SaveAnimatedPNG", image, "slow", 0.01), GRAFT_OK);
    check_png("slow_00001_.png", 2, 1000, 10);
    CHECK_INT(save("SaveAnimatedPNG", image, "fast", 1000), GRAFT_OK);
    check_png("fast_00001_.png", 2, 1, 1000);
    CHECK_INT(save("SaveAnimatedPNG", image, "../out", 6), GRAFT_E_ARG);
    fake_host_release(image, 4);
}

/* Two pictures of the colour, 0.25 s each; the workflow stands in EXIF. */
static void batches_become_one_webp(void)
{
    static const char text[] = "workflow:{\"id\":7}";
    graft_arg image[4];
    graft_err e = GRAFT_ERR_INIT;
    graft_webp w;
    size_t n = 0, found = 0;
    uint8_t pixels[2 * 3 * 5 * 3];
    make_image(5, 3, 2, image);
    host.prompt = "{\"1\": {}}";
    host.extra_pnginfo = "{\"workflow\": {\"id\": 7}}";
    CHECK_INT(save("SaveAnimatedWEBP", image, "sub/all", 4), GRAFT_OK);
    CHECK_STR(host.ui, "images {\"filename\": \"all_00001_.webp\", \"subfolder\": \"sub\", "
                       "\"type\": \"output\"}\nanimated true\n");
    host.prompt = host.extra_pnginfo = NULL;
    uint8_t *file = read_file("sub/all_00001_.webp", &n);
    CHECK_OK(graft_webp_read(file, n, "all", &w, &e), &e);
    CHECK(w.width == 5 && w.height == 3);
    w.channels = 3;
    for (size_t i = 0; i + sizeof text <= n; i++) found += !memcmp(file + i, text, sizeof text);
    CHECK_INT(found, 1);
    CHECK_INT(graft_webp_decode(file, n, "all", &w, pixels, &e), GRAFT_OK);
    CHECK(pixels[0] == 0x10 && pixels[1] == 0x20 && pixels[2] == 0x30);
    graft_free(file);
    fake_host_release(image, 4);
}

/* The second picture is not begun, and no file is left. */
static void cancelled_between_pictures(void)
{
    static const char *const ids[] = {"SaveAnimatedPNG", "SaveAnimatedWEBP"};
    static const char *const files[] = {"stopped_00001_.png", "stopped_00001_.webp"};
    graft_arg image[4], in[24], out[4];
    char path[1024];
    make_image(4, 4, 3, image);
    for (int k = 0; k < 2; k++) {
        const graft_node *n = fake_host_node(ids[k]);
        fake_host_defaults(n, in);
        in[fake_host_input(n, "images")] = *image;
        in[fake_host_input(n, "filename_prefix")] =
            (graft_arg){.kind = GRAFT_STRING, .u.s = "stopped"};
        fake_host_clear(&host);
        host.cancel_after = 1;
        CHECK_INT(fake_host_run(&host, n, in, out, NULL, 0), GRAFT_E_CANCEL);
        CHECK_INT(host.cancel_after, 0);
        fake_host_path(&host, "output", files[k], path, sizeof path);
        CHECK(!graft_file_exists(path));
    }
    fake_host_clear(&host);
    fake_host_release(image, 4);
}

static void memory_may_end_anywhere(void)
{
    graft_arg image[4];
    graft_alloc_stats before, after;
    static const char *const ids[] = {"SaveAnimatedPNG", "SaveAnimatedWEBP"};
    make_image(4, 4, 2, image);
    host.extra_pnginfo = "{\"workflow\": {}}";
    graft_alloc_stats_get(&before);
    for (int k = 0; k < 2; k++) {
        graft_status st = GRAFT_E_NOMEM;
        for (int i = 1; st != GRAFT_OK && i < 500; i++) {
            graft_alloc_fail_at(i);
            st = save(ids[k], image, "memory", 6);
            graft_alloc_fail_at(0);
        }
        CHECK_INT(st, GRAFT_OK);
    }
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
    host.extra_pnginfo = NULL;
    fake_host_release(image, 4);
}

int main(void)
{
    graft_alloc_stats stats;
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    RUN(batches_become_one_png);
    RUN(batches_become_one_webp);
    RUN(cancelled_between_pictures);
    RUN(memory_may_end_anywhere);
    graft_plugin_entry.deinit();
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    fake_host_finish(&host);
    return test_end();
}
