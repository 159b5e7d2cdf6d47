/* ControlNets that complete a picture, for FLUX.1, Stable Diffusion 3 and Qwen-Image: what they see
 * of it and of its mask, and what is refused. The files are those of other ControlNets, whose
 * hint's layer sees a plane more. */
#include "engine/denoise/hint_latents.h"
#include "tests/engine/control_transformer.h"

enum { OF_FLUX, OF_SD3, OF_QWEN, KINDS };
enum { SIDE_IN = 64, MASKED = 32 }; /* rows of pictures and masks; the first one that is white */

static graft_controlnet *nets[KINDS], *blind[KINDS]; /* blind: the plane more has weights of 0 */
static const bench *const benches[KINDS] = {&flux, &sd3, &qwen};
static graft_image *mask;

/* ------------------------------------------------------------------ files */

/* The file with a plane more in its hint's layer; scale: of that plane's weights. */
static graft_controlnet *with_a_plane(const char *from, const char *layer, float scale)
{
    const char *path = temp_path("plane.safetensors");
    made_file *f = net_file(from);
    const graft_st_tensor old = *made_find(f, layer);
    const int64_t own = shape_count(old.shape, old.rank) / old.shape[0], more = own / 16;
    int64_t shape[GRAFT_MAX_RANK];
    memcpy(shape, old.shape, sizeof shape);
    shape[1] = old.rank == 2 ? own + more : 17;
    float *to = add_tensor(f, layer, old.rank, shape, NULL, scale);
    for (int64_t r = 0; r < old.shape[0]; r++) {
        memcpy(to + r * (own + more), (const float *)old.data + r * own, (size_t)own * sizeof *to);
        for (int64_t k = 0; k < more && scale == 0; k++) to[r * (own + more) + own + k] = 0;
    }
    *made_find(f, layer) = f->tensor[--f->n];
    free((char *)(uintptr_t)old.name);
    free((void *)(uintptr_t)old.data);
    write_file(f, path, "{\"rope_dim\": 6, \"num_heads\": 2, \"num_head_channels\": 16}");
    graft_controlnet *n = load_control(engine, path);
    unlink(path);
    return n;
}

static void load_nets(graft_controlnet *out[KINDS], float scale)
{
    out[OF_FLUX] = with_a_plane(NET("flux"), "controlnet_x_embedder.weight", scale);
    out[OF_SD3] = with_a_plane(NET("mmdit"), "pos_embed_input.proj.weight", scale);
    out[OF_QWEN] = with_a_plane(NET("qwen_image"), "controlnet_x_embedder.weight", scale);
}

/* ------------------------------------------------------------------ pictures */

/* White from row MASKED on, and from a cell before it on of these two greys, in halves. */
static graft_image *make_mask(int64_t n, float left, float right)
{
    float *v = graft_malloc_array((size_t)n, SIDE_IN * SIDE_IN * sizeof *v);
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < n * SIDE_IN * SIDE_IN; i++) {
        const int64_t y = i / SIDE_IN % SIDE_IN, x = i % SIDE_IN;
        v[i] = y >= MASKED ? 1 : y < MASKED - PIXELS ? 0 : x < SIDE_IN / 2 ? left : right;
    }
    CHECK_OK(graft_image_from_data(v, (int64_t[]){n, SIDE_IN, SIDE_IN, 1}, true, &out, &e), &e);
    graft_free(v);
    return out;
}

/* The picture in the latent's size, which loses eight rows above and eight below, black where the
 * mask is above a half. */
static graft_image *covered(const graft_image *picture)
{
    int64_t s[4];
    const float *p = graft_image_data(picture, s), *w = graft_image_data(mask, s);
    float v[HIGH * PIXELS * WIDE * PIXELS * 3];
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(s[1] == SIDE_IN && s[2] == SIDE_IN && HIGH * PIXELS == 48 && WIDE * PIXELS == SIDE_IN);
    for (int64_t i = 0; i < 48 * SIDE_IN; i++)
        for (int64_t k = 0; k < 3; k++) {
            const int64_t at = i + 8 * SIDE_IN;
            v[3 * i + k] = w[at] > 0.5f ? 0 : p[3 * at + k];
        }
    CHECK_OK(graft_image_from_data(v, (int64_t[]){1, 48, SIDE_IN, 3}, false, &out, &e), &e);
    return out;
}

/* What the VAE makes of that, as the network of this kind sees it. */
static void latent_of(const graft_model *m, float out[ONE])
{
    static const float sd3_scale[2] = {0.0609f, 1.5305f}, flux_scale[2] = {0.1159f, 0.3611f};
    const float *scale = m->arch.kind == GRAFT_NET_MMDIT ? sd3_scale : flux_scale;
    graft_image *in = covered(hint);
    graft_latent *latent = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(graft_vae_encode(vae, in, NULL, NULL, &latent, &e), &e);
    const float *data = graft_latent_data(latent, s);
    for (int i = 0; i < ONE; i++) {
        const int plane = i / (HIGH * WIDE);
        out[i] = m->planes ? (data[i] - m->planes->mean[plane]) / m->planes->deviation[plane]
                           : (data[i] - scale[0]) * scale[1];
    }
    graft_latent_release(latent);
    graft_image_release(in);
}

static void planes_of(const graft_model *m, graft_controlnet *n)
{
    enum { CELLS = HIGH * WIDE };
    static const float rows[HIGH] = {1, 1, -1, 0, 0, 0}; /* -1: of greys, 0.4 and 0.75 */
    float want[ONE + CELLS], *got = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_hint_latents h = {0};
    const graft_control l = {.net = n, .vae = vae, .hint = hint, .mask = mask};
    const graft_guided_config c = {.model = m, .shape = {1, 16, HIGH, WIDE}};
    const graft_box box = {.height = HIGH, .width = WIDE};
    latent_of(m, want);
    for (int i = 0; i < CELLS; i++)
        want[ONE + i] = rows[i / WIDE] >= 0 ? rows[i / WIDE] : i % WIDE < WIDE / 2 ? 0.6f : 0.25f;
    CHECK_OK(graft_hint_latents_take(&h, &c, &l, &box, 1, &got, &e), &e);
    CHECK(got && difference(got, want, ONE) < 1e-5);
    CHECK(got && difference(got + ONE, want + ONE, CELLS) < 1e-6);
    graft_free(got);
    graft_hint_latents_finish(&h);
}

static void planes(void)
{
    graft_controlnet *within = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m =
        load_model(engine, GRAFT_SOURCE_DIR "/golden/small/control_blockwise.safetensors");
    CHECK_OK(graft_model_patch_load(engine, NET("blockwise_inpaint"), NULL, &within, &e), &e);
    for (int i = 0; i < KINDS; i++) planes_of(benches[i]->m, nets[i]);
    planes_of(m, within);
    graft_controlnet_release(within);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ sampling */

static graft_control_options completing(graft_controlnet *const *of, int i)
{
    graft_control_options o = options(of[i], 1);
    o.mask = mask;
    return o;
}

static void kinds(void)
{
    for (int i = 0; i < KINDS; i++) {
        CHECK_INT(nets[i]->arch.hint_channels, 17);
        CHECK(graft_control_sees_mask(&nets[i]->arch));
        CHECK(!graft_control_sees_mask(&benches[i]->net->arch));
    }
}

/* Without its plane it is the ControlNet that its file was, of the covered picture; Stable
 * Diffusion 3's sees another scale. */
static void as_without_a_mask(void)
{
    graft_image *in = covered(hint);
    for (int i = 0; i < KINDS; i++) {
        float want[ONE], now[ONE];
        graft_controlnet *own = i == OF_FLUX ? flux.other : benches[i]->net;
        graft_control_options o = options(own, 1);
        o.hint = in;
        steer_and_sample(benches[i], o, want);
        steer_and_sample(benches[i], completing(blind, i), now);
        if (i == OF_SD3)
            CHECK(difference(now, want, ONE) > 1e-3);
        else
            CHECK(difference(now, want, ONE) < 1e-5);
        steer_and_sample(benches[i], completing(nets, i), now);
        CHECK(difference(now, want, ONE) > 1e-3);
    }
    graft_image_release(in);
}

/* Masks repeat over a batch, change no graph, and are nothing to others. */
static void masks(void)
{
    static float two[2 * ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_image *other = make_mask(1, 1, 1), *pair_of = make_mask(2, 0.4f, 0.75f);
    for (int i = 0; i < KINDS; i++) {
        float first[ONE], now[ONE];
        graft_control_options o = completing(nets, i);
        steer_and_sample(benches[i], o, first);
        const uint64_t before = graphs_built(engine);
        o.mask = other;
        steer_and_sample(benches[i], o, now);
        CHECK(difference(now, first, ONE) > 1e-4);
        CHECK_INT(graphs_built(engine), before);
        o.mask = pair_of;
        pair p = steer(benches[i]->plain, o);
        CHECK_OK(try_sizes(benches[i]->m, p, 2, HIGH, WIDE, NULL, two, &e), &e);
        CHECK(difference(two, first, ONE) < 1e-4);
        drop(p);
        o = options(benches[i]->net, 1);
        o.mask = mask;
        steer_and_sample(benches[i], o, now);
        CHECK(memcmp(now, benches[i]->steered, sizeof now) == 0);
    }
    graft_image_release(other);
    graft_image_release(pair_of);
}

static void without_a_mask(void)
{
    for (int i = 0; i < KINDS; i++) {
        const graft_control_options o = options(nets[i], 1);
        graft_cond *p = NULL, *n = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_INT(graft_cond_control(benches[i]->plain.positive, benches[i]->plain.negative, &o, &p,
                                     &n, &e),
                  GRAFT_E_ARG);
        CHECK(strstr(e.text, "ControlNetInpaintingAliMamaApply takes one") != NULL);
        CHECK(!p && !n);
    }
}

int main(void)
{
    begin_all();
    load_nets(nets, 0.3f);
    load_nets(blind, 0);
    mask = make_mask(1, 0.4f, 0.75f);
    RUN(kinds);
    RUN(planes);
    RUN(as_without_a_mask);
    RUN(masks);
    RUN(without_a_mask);
    for (int i = 0; i < KINDS; i++) {
        graft_controlnet_release(nets[i]);
        graft_controlnet_release(blind[i]);
    }
    graft_image_release(mask);
    end_all();
    return test_end();
}
