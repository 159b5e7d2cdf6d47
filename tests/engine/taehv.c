/* TAEHV for single pictures of Wan 2.1's latents: what a file is taken for and in which form it
 * takes latents, files that are none, what is computed and what is not, strips, and saving. What
 * the network computes is held against golden/small/taew. */
#include <math.h>

#include "base/alloc.h"
#include "engine/image/latent.h"
#include "engine/models/vaes/taehv.h"
#include "tests/engine/taesd.h"

#define SMALL(name) GRAFT_SOURCE_DIR "/golden/small/" name ".safetensors"
#define TAEW        SMALL("taew")
#define MOST_MB     6 /* of those that strips get */

static graft_engine *engine;

/* Writes f, which is given up, as FOLDER/NAME, and loads it. */
static graft_vae *load_as(made_file *f, const char *folder, const char *name, graft_status want,
                          const char *why)
{
    char at[256], path[512];
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(at, sizeof at, "%s", temp_path(folder));
    mkdir(at, 0777);
    snprintf(path, sizeof path, "%s/%s.safetensors", at, name);
    write_file(f, path, NULL);
    CHECK_INT(graft_vae_load(engine, path, NULL, &v, &e), want);
    if (want && (!strstr(e.text, why) || !strstr(e.text, path))) CHECK_STR(e.text, why);
    unlink(path);
    rmdir(at);
    return v;
}

static graft_vae *load(const char *path)
{
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vae_load(engine, path, NULL, &v, &e), &e);
    return v;
}

static bool fits(const graft_vae *v, const char *model)
{
    graft_model *m = load_model(engine, model);
    bool yes = graft_vae_is_for(v, m);
    graft_model_release(m);
    return yes;
}

/* ------------------------------------------------------------------ files */

static void told_apart(void)
{
    graft_vae *v = load(TAEW), *sd3 = load(TAESD("sd3"));
    const graft_vae_arch *a = &v->arch;
    CHECK(a->kind == GRAFT_VAE_TAEHV && a->levels == 4 && a->encoder && a->decoder);
    CHECK(a->z_channels == 16 && a->embed_dim == 16 && a->out_channels == 3 && !a->fold);
    CHECK(a->channels[3] == 20 && a->channels[2] == 12 && a->channels[1] == 8);
    CHECK(a->channels[0] == 10 && a->half[0].width == 12);
    CHECK(a->half[1].blocks[0] == 3 && a->half[1].blocks[1] == 2 && a->half[1].blocks[2] == 3);
    CHECK(a->half[0].blocks[1] == 3 && a->half[0].blocks[2] == 1 && a->half[0].blocks[3] == 2);
    CHECK(fits(v, SMALL("qwen_image_two")) && fits(v, SMALL("krea2_one")));
    CHECK(fits(v, SMALL("anima_one")));
    CHECK(!fits(v, MMDIT) && !fits(v, FLUX) && !fits(v, FLUX2) && !fits(v, SD1));
    CHECK(!fits(sd3, SMALL("qwen_image_two")));
    graft_vae_release(sd3);
    taesd_files p = taesd3_write("vae_approx", "one", "{\"scale_factor\":1}");
    graft_vae *one = taesd_load_pair(engine, p.encoder, p.decoder);
    CHECK(one->scale_factor == 1 && one->latent_shift == 0 && !fits(one, SMALL("qwen_image_two")));
    graft_vae_release(one);
    taesd_remove(&p);
    graft_vae_release(v);
}

/* Nothing in the file says in which form it takes latents, or that they are HunyuanVideo's. */
static void by_their_names(void)
{
    static const struct {
        const char *folder, *name;
        bool raw, refused;
    } files[] = {
        {"vae_approx", "taew2_1", false, false},   {"vae_approx", "LightTAEw2_1", true, false},
        {"lighttae", "model", true, false},        {"vae_approx", "anything", false, false},
        {"taehv", "taew2_1", false, false},        {"vae_approx", "taehv", false, true},
        {"vae_approx", "tae_Hunyuan", false, true}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const bool refused = files[i].refused;
        graft_vae *v = load_as(taesd_copy(TAEW), files[i].folder, files[i].name,
                               refused ? GRAFT_E_UNSUPPORTED : GRAFT_OK, "HunyuanVideo");
        CHECK(refused ? !v : v && v->planes == (files[i].raw ? NULL : &graft_wan_planes));
        CHECK(refused || (v && fits(v, SMALL("qwen_image_two"))));
        graft_vae_release(v);
    }
}

static void refused(made_file *f, graft_status want, const char *why)
{
    graft_vae_release(load_as(f, "taew-bad", "taew", want, why));
}

static made_file *without(const char *name)
{
    made_file *f = taesd_copy(TAEW);
    taesd_drop(f, name);
    return f;
}

/* Fewer or other values than the file had: only shapes are looked at. */
static made_file *reshaped(const char *name, int64_t dim0, int64_t dim1)
{
    made_file *f = taesd_copy(TAEW);
    const graft_st_tensor *t = made_find(f, name);
    const int64_t dim[4] = {dim0, dim1, t->shape[2], t->shape[3]};
    taesd_drop(f, name);
    add_tensor(f, name, 4, dim, NULL, 1);
    return f;
}

static void damaged_files(void)
{
    refused(without("decoder.4.conv.2.weight"), GRAFT_E_FORMAT, "decoder.4.conv.2.weight");
    refused(without("decoder.7.conv.weight"), GRAFT_E_FORMAT, "decoder.7.conv.weight");
    refused(without("decoder.1.weight"), GRAFT_E_FORMAT, "decoder.1.weight");
    refused(without("decoder.21.weight"), GRAFT_E_FORMAT, "decoder.21.weight");
    refused(without("encoder.0.weight"), GRAFT_E_FORMAT, "encoder.0.weight");
    refused(without("encoder.11.weight"), GRAFT_E_FORMAT, "encoder.11.weight");
    refused(without("encoder.5.conv.0.bias"), GRAFT_E_FORMAT, "encoder.5.conv.0.bias");
    refused(reshaped("decoder.1.weight", 20, 48), GRAFT_E_UNSUPPORTED, "48 channels of latents");
    refused(reshaped("decoder.1.weight", 4096, 16), GRAFT_E_UNSUPPORTED, "4096 channels");
    refused(reshaped("decoder.21.weight", 12, 10), GRAFT_E_UNSUPPORTED, "12 channels of pictures");
    refused(reshaped("encoder.0.weight", 12, 12), GRAFT_E_UNSUPPORTED, "12 channels of pictures");
    refused(reshaped("decoder.12.conv.weight", 12, 12), GRAFT_E_UNSUPPORTED,
            "decoder.12 makes other numbers of pictures");
    refused(reshaped("encoder.2.conv.weight", 12, 12), GRAFT_E_UNSUPPORTED,
            "encoder.2 makes other numbers of pictures");
    refused(reshaped("decoder.3.conv.0.weight", 20, 20), GRAFT_E_FORMAT, "decoder.3.conv.0.weight");
    made_file *f = taesd_copy(TAEW);
    add_tensor(f, "decoder.20.conv.0.weight", 4, (int64_t[]){10, 20, 3, 3}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "1 blocks behind the last up-sampling");
    f = taesd_copy(TAEW);
    add_tensor(f, "decoder.3.skip.weight", 4, (int64_t[]){20, 20, 1, 1}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "a TAEHV has no tensor decoder.3.skip.weight");
}

/* Sizes that would cost much before anyone noticed that the tensors do not fit. */
static void hostile_files(void)
{
    made_file *f = calloc(1, sizeof *f);
    char name[64];
    add_tensor(f, "decoder.1.weight", 4, (int64_t[]){8, 16, 3, 3}, NULL, 1);
    for (int i = 3; i < 90; i++) {
        snprintf(name, sizeof name, "decoder.%d.conv.0.weight", i);
        add_tensor(f, name, 4, (int64_t[]){8, 16, 3, 3}, NULL, 1);
    }
    refused(f, GRAFT_E_UNSUPPORTED, "blocks or more");
    f = calloc(1, sizeof *f);
    add_tensor(f, "decoder.1.weight", 1, (int64_t[]){8}, NULL, 1);
    add_tensor(f, "decoder.3.conv.0.weight", 1, (int64_t[]){8}, NULL, 1);
    refused(f, GRAFT_E_FORMAT, "decoder.1.weight");
}

static void decoder_alone(void)
{
    made_file *f = taesd_copy(TAEW);
    graft_err e = GRAFT_ERR_INIT;
    graft_image *image = NULL;
    graft_latent *latent = NULL, *back = NULL;
    int64_t s[4];
    for (size_t i = f->n; i-- > 0;)
        if (strncmp(f->tensor[i].name, "encoder.", 8) == 0) taesd_drop(f, f->tensor[i].name);
    graft_vae *v = load_as(f, "vae_approx", "taew2_1", GRAFT_OK, "");
    CHECK(!v->arch.encoder);
    CHECK_OK(graft_latent_empty(16, 64, 32, 1, &latent, &e), &e);
    CHECK_OK(graft_vae_decode(v, latent, NULL, NULL, &image, &e), &e);
    graft_image_data(image, s);
    CHECK(s[1] == 32 && s[2] == 64 && s[3] == 3);
    CHECK_INT(graft_vae_encode(v, image, NULL, NULL, &back, &e), GRAFT_E_UNSUPPORTED);
    graft_image_release(image);
    graft_latent_release(latent);
    graft_vae_release(v);
}

/* ------------------------------------------------------------------ numbers */

/* How often an operator is in the graph of a half; and slots of a kind. */
static int count_ops(const graft_graph *g, graft_op op)
{
    int n = 0;
    for (size_t i = 0; i < g->n_nodes; i++) n += g->node[i].op == op;
    return n;
}

static int count_slots(const graft_graph *g, graft_slot_kind kind)
{
    int n = 0;
    for (size_t i = 0; i < g->n_slots; i++) n += g->slot[i].kind == kind;
    return n;
}

/* Of two pictures the earlier one goes through all blocks but the last one of the decoder. */
static void no_more_than_counts(void)
{
    graft_vae *v = load(TAEW);
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vae_decoder_build(&v->arch, 1, 4, 4, GRAFT_F32, &g, &e), &e);
    CHECK_INT(count_ops(g, GRAFT_OP_CONV2D), 1 + 9 + 1 + 6 + 2 + 15 + 1 + 1);
    CHECK_INT(count_ops(g, GRAFT_OP_LINEAR), 3);
    CHECK_INT(count_slots(g, GRAFT_SLOT_FIRST), 3 + 2 + 2);
    CHECK_INT(count_slots(g, GRAFT_SLOT_BOTTOM), 1);
    graft_graph_destroy(g);
    CHECK_OK(graft_vae_encoder_build(&v->arch, 1, 32, 32, GRAFT_F32, &g, &e), &e);
    CHECK_INT(count_ops(g, GRAFT_OP_CONV2D), 1 + 1 + 18 + 1 + 3 + 1 + 6 + 1);
    CHECK_INT(count_ops(g, GRAFT_OP_LINEAR), 3);
    CHECK_INT(count_slots(g, GRAFT_SLOT_SUM), 2);
    graft_graph_destroy(g);
    graft_vae_release(v);
}

static void check_decoded(const graft_vae *v, graft_safetensors *f, bool raw)
{
    const graft_st_tensor *t = graft_safetensors_find(f, "case1.latent");
    float *z = values_of(t), *want = values_of(graft_safetensors_find(f, "case1.decoded"));
    const int64_t area = t->shape[2] * t->shape[3];
    graft_latent *latent = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    double most = 0;
    for (int64_t i = 0; i < 2 * 16 * area && !raw; i++)
        z[i] =
            z[i] * graft_wan_planes.deviation[i / area % 16] + graft_wan_planes.mean[i / area % 16];
    CHECK_OK(graft_latent_from_data(z, t->shape, &latent, &e), &e);
    CHECK_OK(graft_vae_decode(v, latent, NULL, NULL, &image, &e), &e);
    const float *got = graft_image_data(image, s);
    CHECK(s[0] == 2 && s[1] == 40 && s[2] == 24 && s[3] == 3);
    for (int64_t i = 0; i < 2 * 40 * 24 * 3; i++) {
        const int64_t p = i / 3 % (40 * 24), k = i / (40 * 24 * 3);
        const double x = (double)want[(k * 3 + i % 3) * 40 * 24 + p];
        most = fmax(most, fabs((x < 0 ? 0 : x > 1 ? 1 : x) - (double)got[i]));
    }
    CHECK(most < 1e-4);
    graft_image_release(image);
    graft_latent_release(latent);
    free(z);
    free(want);
}

static void check_encoded(const graft_vae *v, graft_safetensors *f, bool raw)
{
    float *planes = values_of(graft_safetensors_find(f, "case1.image"));
    float *want = values_of(graft_safetensors_find(f, "case1.moments"));
    float *x = calloc(2 * 40 * 24 * 3, sizeof *x);
    graft_latent *latent = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    for (int i = 0; i < 2 * 40 * 24 * 3; i++)
        x[i] = planes[(i / (40 * 24 * 3) * 3 + i % 3) * 40 * 24 + i / 3 % (40 * 24)];
    CHECK_OK(graft_image_from_data(x, (int64_t[]){2, 40, 24, 3}, false, &image, &e), &e);
    CHECK_OK(graft_vae_encode(v, image, NULL, NULL, &latent, &e), &e);
    const float *got = graft_latent_data(latent, s);
    CHECK(s[0] == 2 && s[1] == 16 && s[2] == 5 && s[3] == 3);
    for (int i = 0; i < 2 * 16 * 15 && !raw; i++)
        want[i] =
            want[i] * graft_wan_planes.deviation[i / 15 % 16] + graft_wan_planes.mean[i / 15 % 16];
    CHECK(difference(got, want, 2 * 16 * 15) < 1e-5);
    graft_image_release(image);
    graft_latent_release(latent);
    free(planes);
    free(want);
    free(x);
}

/* Latents that travel between nodes are the VAE's: normalized for the network, or as they are. */
static void units(void)
{
    graft_safetensors *f = open_file(TAEW);
    for (int raw = 0; raw < 2; raw++) {
        graft_vae *v =
            load_as(taesd_copy(TAEW), "vae_approx", raw ? "lighttaew2_1" : "taew2_1", GRAFT_OK, "");
        check_decoded(v, f, raw);
        check_encoded(v, f, raw);
        graft_vae_release(v);
    }
    graft_safetensors_close(f);
}

/* ------------------------------------------------------------------ in use */

static graft_image *picture(int64_t h, int64_t w)
{
    float *p = calloc((size_t)(h * w * 3), sizeof *p);
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < h * w * 3; i++)
        p[i] = (float)(0.5 + 0.25 * sin(0.05 * (double)(i / 3 % w) * (double)(i % 3 + 1)) +
                       0.25 * sin(0.07 * (double)(i / 3 / w)));
    CHECK_OK(graft_image_from_data(p, (int64_t[]){1, h, w, 3}, false, &image, &e), &e);
    free(p);
    return image;
}

static void trim(void)
{
    graft_packs_trim(engine->packs, 0);
    graft_arenas_trim(engine->arenas);
}

/* Whether what is kept is within so many MB; without a limit it is more than strips get below. */
static void check_memory(int64_t mb)
{
    const uint64_t kept = graft_arenas_bytes(engine->arenas) + packs_of(engine).bytes;
    CHECK(mb ? kept <= (uint64_t)mb << 20 : kept > (uint64_t)MOST_MB << 20);
}

/* Encodes a picture and decodes that, each within so much memory. */
static void both_ways(const graft_vae *v, int64_t mb, graft_latent **latent, graft_image **image)
{
    const graft_compile_options o = {
        .precision = "f32", .tuning = "off", .max_memory_mb = mb, .tile = true};
    graft_image *in = picture(328, 264);
    graft_vae *tight = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vae_compile(v, &o, NULL, &tight, &e), &e);
    trim();
    CHECK_OK(graft_vae_encode(tight, in, NULL, NULL, latent, &e), &e);
    check_memory(mb);
    trim();
    CHECK_OK(graft_vae_decode(tight, *latent, NULL, NULL, image, &e), &e);
    check_memory(mb);
    graft_vae_release(tight);
    graft_image_release(in);
}

static void strips_of(const char *path, int64_t planes, int64_t pixels)
{
    graft_vae *v = load(path);
    graft_latent *z[2] = {NULL, NULL};
    graft_image *p[2] = {NULL, NULL};
    int64_t s[4];
    both_ways(v, 0, &z[0], &p[0]);
    for (int64_t mb = MOST_MB; mb > MOST_MB - 3; mb--) {
        both_ways(v, mb, &z[1], &p[1]);
        const float *a = graft_latent_data(z[0], s), *b = graft_latent_data(z[1], s);
        CHECK(s[1] == planes && s[2] == 328 / pixels && s[3] == 264 / pixels);
        const double latent = difference(a, b, (size_t)shape_count(s, 4));
        a = graft_image_data(p[0], s);
        b = graft_image_data(p[1], s);
        const double image = difference(a, b, (size_t)shape_count(s, 4));
        printf("     %lld MB: latent off by %.2g, picture by %.2g\n", (long long)mb, latent, image);
        CHECK(latent < 1e-5 && image < 1e-5);
        graft_latent_release(z[1]);
        graft_image_release(p[1]);
    }
    graft_latent_release(z[0]);
    graft_image_release(p[0]);
    graft_vae_release(v);
}

/* Two pictures at once are strips of both; FLUX.2's norms see all of the latent in any case. */
static void strips_are_the_whole(void)
{
    strips_of(TAEW, 16, 8);
    strips_of(TAESD("flux2"), 128, 16);
}

/* A saved file says itself what the name of the first one said. */
static void saved_and_loaded(void)
{
    const char *path = temp_path("saved-tiny.safetensors");
    graft_model *m = load_model(engine, SMALL("qwen_image_two")), *other = load_model(engine, SD1);
    graft_err e = GRAFT_ERR_INIT;
    for (int raw = 0; raw < 2; raw++) {
        graft_vae *v = load_as(taesd_copy(TAEW), "vae_approx", raw ? "lighttaew2_1" : "taew2_1",
                               GRAFT_OK, ""),
                  *w = NULL;
        CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.vae = v}, path, NULL, NULL, &e), &e);
        CHECK_OK(graft_vae_load(engine, path, NULL, &w, &e), &e);
        CHECK(w && w->planes == v->planes && w->arch.encoder);
        graft_vae_release(w);
        w = NULL;
        unlink(path);
        const graft_checkpoint both = {.model = m, .vae = v}, wrong = {.model = other, .vae = v};
        CHECK_INT(graft_checkpoint_save(&both, path, NULL, NULL, &e),
                  raw ? GRAFT_E_UNSUPPORTED : GRAFT_OK);
        if (raw) CHECK(strstr(e.text, "in which form") != NULL);
        if (!raw) CHECK_OK(graft_vae_load(engine, path, NULL, &w, &e), &e);
        CHECK(raw || (w && w->planes == &graft_wan_planes));
        graft_vae_release(w);
        CHECK_INT(graft_checkpoint_save(&wrong, path, NULL, NULL, &e), GRAFT_E_ARG);
        CHECK(strstr(e.text, "other latents") != NULL);
        graft_vae_release(v);
        unlink(path);
    }
    graft_model_release(other);
    graft_model_release(m);
}

/* Each allocation of loading, encoding and decoding fails in turn: a status, and nothing is lost.
 */
static graft_status load_and_run(const graft_image *in)
{
    graft_vae *v = NULL;
    graft_latent *latent = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_packs_trim(engine->packs, 0); /* so that slots are read each time */
    graft_status st = graft_vae_load(engine, TAEW, NULL, &v, &e);
    if (!st) st = graft_vae_encode(v, in, NULL, NULL, &latent, &e);
    if (!st) st = graft_vae_decode(v, latent, NULL, NULL, &image, &e);
    if (st) CHECK(st == GRAFT_E_NOMEM && e.text[0]);
    graft_image_release(image);
    graft_latent_release(latent);
    graft_vae_release(v);
    return st;
}

static void memory_may_end_anywhere(void)
{
    graft_image *in = picture(16, 24);
    graft_alloc_stats before, after;
    graft_status st = GRAFT_E_NOMEM;
    int failed = 0;
    CHECK_INT(load_and_run(in), GRAFT_OK); /* what is kept is there */
    graft_packs_trim(engine->packs, 0);
    graft_alloc_stats_get(&before);
    for (int i = 1; st != GRAFT_OK && i < 20000; i += UNDER_SANITIZER ? 7 : 1) {
        graft_alloc_fail_at(i);
        st = load_and_run(in);
        graft_alloc_fail_at(0);
        failed += st != GRAFT_OK;
    }
    graft_packs_trim(engine->packs, 0);
    graft_alloc_stats_get(&after);
    CHECK_INT(st, GRAFT_OK);
    CHECK(failed > 20);
    CHECK_INT(after.live_blocks, before.live_blocks);
    printf("     %d allocations failed\n", failed);
    graft_image_release(in);
}

int main(void)
{
    static const char *const backends[] = {"cpu", "ref"};
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        if (!engine) break;
        if (i == 0) {
            RUN(told_apart);
            RUN(by_their_names);
            RUN(damaged_files);
            RUN(hostile_files);
            RUN(decoder_alone);
            RUN(no_more_than_counts);
            RUN(strips_are_the_whole);
            RUN(saved_and_loaded);
            RUN(memory_may_end_anywhere);
        }
        RUN(units);
        graft_engine_destroy(engine);
    }
    return test_end();
}
