/* How much of a device's memory a picture by SDXL takes, 1024x1024 with guidance: a file of zeros
 * in the checkpoint's real size on the fake driver, which does none of the work and counts what it
 * is asked for. What a driver and NVIDIA's libraries take for themselves is not in it. */
#include <sys/stat.h>

#include "engine/exec/tune.h"
#include "tests/cuda/networks.h"

enum { MIB = 1 << 20, LATENT = 128, STEPS = 3 };

static int64_t file_bytes;

static const char *zeros_file(void)
{
    const char *path = temp_path("zeros.safetensors");
    char command[768];
    struct stat s;
    snprintf(command, sizeof command, "%s sdxl %s --weights zeros > /dev/null", MAKE_MODEL, path);
    CHECK_INT(system(command), 0);
    CHECK_INT(stat(path, &s), 0);
    file_bytes = (int64_t)s.st_size;
    CHECK(s.st_blocks * 512 < 64 * (int64_t)MIB); /* it takes no room */
    return path;
}

static void picture(graft_engine *g, const char *path)
{
    const graft_sdxl_size size = {1024, 1024, 0, 0, 1024, 1024};
    const graft_sample_params p = {.seed = 1,
                                   .steps = STEPS,
                                   .cfg = 7.0,
                                   .sampler = "euler",
                                   .scheduler = "normal",
                                   .denoise = 1.0,
                                   .add_noise = true,
                                   .end_at_step = INT64_MAX};
    graft_model *m = NULL;
    graft_clip *c = NULL;
    graft_vae *v = NULL;
    graft_cond *positive = NULL, *negative = NULL;
    graft_latent *empty = NULL, *latent = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_checkpoint_load(g, path, NULL, &m, &c, &v, &e), &e);
    CHECK_OK(graft_clip_encode_sdxl(c, "a lighthouse", "a lighthouse", &size, NULL, &positive, &e),
             &e);
    CHECK_OK(graft_clip_encode_sdxl(c, "blurry", "blurry", &size, NULL, &negative, &e), &e);
    CHECK_OK(graft_latent_empty(4, 8 * LATENT, 8 * LATENT, 1, &empty, &e), &e);
    CHECK_OK(graft_sample(m, &p, positive, negative, empty, NULL, &latent, &e), &e);
    CHECK_OK(graft_vae_decode(v, latent, NULL, NULL, &image, &e), &e);
    graft_image_release(image);
    graft_latent_release(latent);
    graft_latent_release(empty);
    graft_cond_release(negative);
    graft_cond_release(positive);
    graft_vae_release(v);
    graft_clip_release(c);
    graft_model_release(m);
}

/* The most that a picture takes; limit 0: without one. offloaded: whether weights stay in the
 * host's memory then. */
static int64_t peak_of(const char *path, int64_t limit, bool offloaded)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_engine_describe(g, "cuda", NULL, &e), &e); /* it is tried as it is opened */
    g->max_bytes = (uint64_t)limit;
    fake->skip_work = 1;
    fake->peak_bytes = 0;
    picture(g, path);
    int64_t peak = fake->peak_bytes;
    graft_packs_stats away;
    graft_packs_stats_get(g->offloaded, &away);
    CHECK_INT(away.made > 0, offloaded);
    graft_engine_destroy(g);
    fake->skip_work = 0;
    CHECK_INT(fake->live_blocks, 0);
    printf("     limit %lld MiB: %lld MiB at most, %lld beside the file's %lld\n",
           (long long)limit / MIB, (long long)peak / MIB, (long long)(peak - file_bytes) / MIB,
           (long long)file_bytes / MIB);
    return peak;
}

/* How many of the graph's operators tuning had no room for. A norm that is done in place is the one
 * that a trial, which keeps its result apart, needs more for than the whole graph. */
static int not_tuned(graft_engine *g, const graft_exe *x)
{
    int n = 0;
    for (size_t i = 0; i < x->graph->n_nodes; i++) {
        graft_trial t;
        if (x->info[i].variant_count < 2 || graft_tuner_find(g->tuner, x, i, &t)) continue;
        CHECK_INT(x->graph->node[i].op, GRAFT_OP_GROUP_NORM);
        n++;
    }
    return n;
}

/* The VAE's decoder tuned in full, beside which nothing lies in memory that could be taken. */
static void tuned(const char *path)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_err e = GRAFT_ERR_INIT;
    graft_vae *v = NULL;
    graft_binding *b = NULL;
    CHECK_OK(graft_engine_describe(g, "cuda", NULL, &e), &e);
    CHECK_OK(graft_vae_load(g, path, NULL, &v, &e), &e);
    v->options.tuning = GRAFT_TUNING_FULL;
    fake->skip_work = 1;
    fake->peak_bytes = 0;
    CHECK_OK(graft_vae_bind(v, true, LATENT, LATENT, NULL, &b, &e), &e);
    int64_t need = b->exe->arena_bytes + (int64_t)b->exe->weight_bytes;
    printf("     tuning: %lld MiB at most, the decoder needs %lld\n",
           (long long)fake->peak_bytes / MIB, (long long)need / MIB);
    CHECK(fake->peak_bytes < need + 16 * (int64_t)MIB);
    CHECK_INT(not_tuned(g, b->exe), 1);
    graft_binding_release(b);
    graft_vae_release(v);
    graft_engine_destroy(g);
    fake->skip_work = 0;
    CHECK_INT(fake->live_blocks, 0);
}

int main(void)
{
    if (!open_fake()) return test_end();
    fake->memory = (int64_t)80 << 30;
    const char *path = zeros_file();
    int64_t whole = peak_of(path, 0, false);
    CHECK(whole > file_bytes && whole - file_bytes < (int64_t)600 * MIB);
    const int64_t limit = file_bytes - (int64_t)1200 * MIB;
    CHECK(peak_of(path, limit, false) < limit + (int64_t)64 * MIB);
    const int64_t small = (int64_t)1536 * MIB; /* the UNet alone has 4900 */
    CHECK(peak_of(path, small, true) < small + (int64_t)64 * MIB);
    fake->memory = (int64_t)4 << 30;
    CHECK(peak_of(path, 0, true) <= fake->memory);
    fake->memory = (int64_t)80 << 30;
    tuned(path);
    unlink(path);
    return close_fake();
}
