/* IP-Adapters' files: what they are taken for, files that are damaged, and relatives, which are
 * refused by name; and what of an encoder those for which its vector is not enough look at. */
#include "tests/engine/arches.h"
#include "tests/engine/ip_adapter.h"

/* ------------------------------------------------------------------ files */

static void files_are_told_apart(void)
{
    static const struct {
        const char *path;
        graft_ip_adapter_arch arch;
    } files[] = {
        {PLAIN_SD1, {GRAFT_IP_ADAPTER_LINEAR, 24, 4, 24, 0, 0, 0, 0, 4, {32, 32, 32, 64}}},
        {PLUS_SD1, {GRAFT_IP_ADAPTER_RESAMPLER, 64, 5, 24, 2, 48, 128, 192, 4, {32, 32, 32, 32}}},
        {PLAIN_XL, {GRAFT_IP_ADAPTER_LINEAR, 24, 4, 40, 0, 0, 0, 0, 5, {32, 32, 32, 32, 32}}},
        {PLUS_XL,
         {GRAFT_IP_ADAPTER_RESAMPLER, 64, 5, 40, 2, 48, 128, 192, 5, {32, 32, 32, 32, 32}}}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        graft_ip_adapter *a = load(files[i].path);
        if (a && memcmp(&a->arch, &files[i].arch, sizeof a->arch) != 0)
            CHECK_STR(files[i].path, "has the expected architecture");
        graft_ip_adapter_release(a);
    }
}

/* How many cross-attentions the published ones' files have keys for: the last is number 31 and 139.
 */
static void published_models(void)
{
    graft_unet_arch a;
    graft_crossings c;
    a = arch_sd15();
    graft_crossings_of(&a, &c);
    CHECK_INT(c.n, 16);
    CHECK(c.channels[0] == 320 && c.channels[5] == 1280 && c.channels[6] == 1280);
    CHECK(c.channels[14] == 320 && c.channels[15] == 1280);
    CHECK_INT(graft_crossings_first(&a, GRAFT_CROSSING_OUTPUT, 3), 6);
    CHECK_INT(graft_crossings_first(&a, GRAFT_CROSSING_MIDDLE, 0), 15);
    a = arch_sdxl();
    graft_crossings_of(&a, &c);
    CHECK_INT(c.n, 70);
    CHECK(c.channels[3] == 640 && c.channels[4] == 1280 && c.channels[24] == 1280);
    CHECK(c.channels[54] == 640 && c.channels[60] == 1280);
    CHECK_INT(graft_crossings_first(&a, GRAFT_CROSSING_OUTPUT, 0), 24);
}

static void refused(made_file *f, graft_status want, const char *text)
{
    graft_ip_adapter *a = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_file(f, path, NULL);
    CHECK_INT(graft_ip_adapter_load(engine, path, NULL, &a, &e), want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    CHECK(!a && strstr(e.text, path) != NULL);
    graft_ip_adapter_release(a);
    unlink(path);
}

static void what_is_missing_is_named(void)
{
    static const char *const from[] = {PLAIN_SD1, PLUS_XL};
    for (int i = 0; i < 2; i++) {
        made_file *all = part_of_file(from[i], false);
        for (size_t k = 0; k < all->n; k++) {
            const char *name = all->tensor[k].name, *say = name;
            /* Nobody knows that it was of the other kind. */
            if (strstr(name, "image_proj.latents")) say = "image_proj.proj.weight";
            made_file *f = part_of_file(from[i], false);
            drop(f, name);
            refused(f, GRAFT_E_FORMAT, say);
        }
        finish_file(all);
    }
    made_file *f = part_of_file(PLUS_SD1, false);
    drop(f, "ip_adapter.1.to_k_ip.weight");
    refused(f, GRAFT_E_FORMAT, "ip_adapter.1.to_k_ip.weight");
}

static void shape_to(made_file *f, const char *name, int rank, int64_t a, int64_t b, int64_t c)
{
    graft_st_tensor *t = made_find(f, name);
    const int64_t dim[GRAFT_MAX_RANK] = {a, b, c, c};
    free((void *)t->data);
    t->rank = rank;
    memcpy(t->shape, dim, sizeof dim);
    t->bytes = (uint64_t)shape_count(dim, rank) * sizeof(float);
    t->data = calloc((size_t)t->bytes + 1, 1);
}

static void hostile_shapes(void)
{
    static const struct {
        const char *from, *name;
        int rank;
        int64_t a, b, c;
        const char *text;
    } bad[] = {{PLAIN_SD1, "image_proj.proj.weight", 2, 97, 24, 0, "image_proj.proj.weight"},
               {PLAIN_SD1, "image_proj.proj.weight", 3, 96, 24, 1, "image_proj.proj.weight"},
               {PLAIN_SD1, "image_proj.proj.weight", 2, 0, 24, 0, "image_proj.proj.weight"},
               {PLAIN_SD1, "image_proj.norm.weight", 1, 23, 0, 0, "image_proj.norm.weight"},
               {PLAIN_SD1, "ip_adapter.1.to_k_ip.weight", 2, 32, 0, 0, "ip_adapter.1.to_k_ip"},
               {PLAIN_SD1, "ip_adapter.3.to_k_ip.weight", 2, 32, 23, 0, "ip_adapter.3.to_k_ip"},
               {PLAIN_SD1, "ip_adapter.3.to_v_ip.weight", 2, 33, 24, 0, "ip_adapter.3.to_v_ip"},
               {PLUS_SD1, "image_proj.latents", 3, 2, 5, 48, "image_proj.latents"},
               {PLUS_SD1, "image_proj.latents", 2, 5, 48, 0, "image_proj.latents"},
               {PLUS_SD1, "image_proj.latents", 3, 1, 0, 48, "image_proj.proj_in"},
               {PLUS_SD1, "image_proj.proj_in.weight", 2, 47, 64, 0, "image_proj.proj_in"},
               {PLUS_SD1, "image_proj.layers.0.0.to_q.weight", 2, 96, 48, 0, "0.0.to_q"},
               {PLUS_SD1, "image_proj.layers.1.0.to_q.weight", 2, 64, 48, 0, "1.0.to_q"},
               {PLUS_SD1, "image_proj.layers.0.1.1.weight", 2, 192, 47, 0, "0.1.1"},
               {PLUS_SD1, "image_proj.proj_out.weight", 2, 25, 48, 0, "image_proj.proj_out"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        made_file *f = part_of_file(bad[i].from, false);
        shape_to(f, bad[i].name, bad[i].rank, bad[i].a, bad[i].b, bad[i].c);
        refused(f, GRAFT_E_FORMAT, bad[i].text);
    }
}

static void relatives_are_called_by_name(void)
{
    static const char *const more[][2] = {
        {"ip_adapter.0.to_q_lora.down.weight", "FaceID"},
        {"image_proj.perceiver_resampler.proj_in.weight", "FaceID plus"},
        {"image_proj.proj.0.weight", "full face"},
        {"double_blocks.0.processor.ip_adapter_double_stream_k_proj.weight", "for FLUX"},
        {"image_proj.time_embedding.linear_1.weight", "for Stable Diffusion 3"}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        made_file *f = part_of_file(PLAIN_SD1, false);
        add_tensor(f, more[i][0], 2, (int64_t[]){4, 4}, NULL, 1);
        refused(f, GRAFT_E_UNSUPPORTED, more[i][1]);
        f = calloc(1, sizeof *f); /* such a file alone, as far as it can be told by that */
        add_tensor(f, more[i][0], 2, (int64_t[]){4, 4}, NULL, 1);
        refused(f, GRAFT_E_UNSUPPORTED, more[i][1]);
    }
    graft_ip_adapter *a = NULL;
    graft_vision *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_ip_adapter_load(engine, GOLDEN("vision_clip"), NULL, &a, &e),
              GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "no IP-Adapter in it; it seems to be a vision encoder") != NULL);
    write_file(part_of_file(PLAIN_SD1, false), path, NULL);
    CHECK_INT(graft_vision_load(engine, path, NULL, &v, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "an IP-Adapter, which IPAdapterModelLoader opens") != NULL);
    unlink(path);
}

/* The tokens before an encoder's last layer are those of one that lacks it. */
static void early_tokens(void)
{
    made_file *f = part_of_file(PLUS_SD1, true);
    for (size_t i = f->n; i-- > 0;)
        if (strstr(f->tensor[i].name, "encoder.layers.1.")) drop(f, f->tensor[i].name);
    write_file(f, path, NULL);
    graft_vision *whole = load_eyes(PLUS_SD1), *less = load_eyes(path);
    float pixels[12 * 12 * 3], early[10 * 64], last[10 * 64], pooled[64];
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 12 * 12 * 3; i++) pixels[i] = fixed_value((uint64_t)i);
    CHECK_INT(less->arch.layers, 1);
    CHECK_OK(graft_vision_run_early(whole, pixels, NULL, early, &e), &e);
    CHECK_OK(graft_vision_run(less, pixels, NULL, last, pooled, &e), &e);
    CHECK(memcmp(early, last, sizeof early) == 0);
    CHECK_OK(graft_vision_run(whole, pixels, NULL, last, pooled, &e), &e);
    CHECK(memcmp(early, last, sizeof early) != 0);
    graft_vision_release(whole);
    graft_vision_release(less);
    unlink(path);
}

int main(void)
{
    snprintf(path, sizeof path, "%s", temp_path("ip-files.safetensors"));
    engine = make_engine("ref");
    RUN(files_are_told_apart);
    RUN(published_models);
    RUN(what_is_missing_is_named);
    RUN(hostile_shapes);
    RUN(relatives_are_called_by_name);
    RUN(early_tokens);
    graft_engine_destroy(engine);
    return test_end();
}
