/* ControlNets for FLUX.1, Stable Diffusion 3 and Qwen-Image: what they add and when, several at
 * once, and that nothing is compiled again. What their values are is for the golden tests. */
#include "tests/engine/control_transformer.h"
#include "tests/engine/regions.h"

/* ------------------------------------------------------------------ what they add */

static void strengths(const bench *b)
{
    float now[ONE];
    graft_image *another = control_hint(1, 64, 9);
    graft_control_options none = options(b->net, 0), other = options(b->net, 1);
    pair p = steer(b->plain, none);
    CHECK(p.positive == b->plain.positive && p.negative == b->plain.negative);
    drop(p);
    CHECK(difference(b->steered, b->bare, ONE) > 0.01);
    steer_and_sample(b, options(b->net, 1), now);
    CHECK(memcmp(now, b->steered, sizeof now) == 0);
    p = steer(b->plain, options(b->net, 0.5));
    pair twice = steer(p, options(b->net, 0.5));
    sample(b->m, twice, now);
    CHECK(difference(now, b->steered, ONE) < 1e-4);
    drop(twice);
    twice = steer(p, options(b->net, -0.5));
    sample(b->m, twice, now);
    CHECK(difference(now, b->bare, ONE) < 1e-4);
    drop(twice);
    drop(p);
    other.hint = another;
    steer_and_sample(b, other, now);
    CHECK(difference(now, b->steered, ONE) > 1e-3);
    graft_image_release(another);
}

static void ranges(const bench *b)
{
    float first[ONE], now[ONE];
    graft_control_options early = options(b->net, 1), late = options(b->net, 1);
    early.end = 0.5, late.start = 0.5001;
    steer_and_sample(b, early, first);
    CHECK(difference(first, b->bare, ONE) > 1e-3);
    CHECK(difference(first, b->steered, ONE) > 1e-4);
    pair p = steer(b->plain, early), q = steer(p, late);
    sample(b->m, q, now);
    CHECK(difference(now, b->steered, ONE) < 1e-4);
    drop(p);
    drop(q);
    early.start = 0.7, early.end = 0.2;
    steer_and_sample(b, early, now);
    CHECK(memcmp(now, b->bare, sizeof now) == 0);
}

static void all_of_them(void)
{
    const bench *const all[] = {&flux, &sd3, &large, &qwen};
    for (int i = 0; i < 4; i++) {
        strengths(all[i]);
        ranges(all[i]);
    }
}

/* Of two with other numbers of blocks, one of which steers no blocks of one stream. */
static void two_of_a_kind(void)
{
    float a[ONE], b[ONE], alone[ONE];
    pair p = steer(flux.plain, options(flux.net, 1)), q = steer(p, options(flux.other, 0.7));
    sample(flux.m, q, a);
    drop(p);
    drop(q);
    p = steer(flux.plain, options(flux.other, 0.7)), q = steer(p, options(flux.net, 1));
    sample(flux.m, q, b);
    CHECK(difference(a, b, ONE) < 1e-4);
    CHECK(difference(a, flux.steered, ONE) > 1e-3);
    drop(q);
    /* The one with blocks of one stream is there and never active. */
    graft_control_options never = options(flux.net, 1);
    never.start = 0.7, never.end = 0.2;
    sample(flux.m, p, alone);
    q = steer(p, never);
    sample(flux.m, q, a);
    CHECK(difference(a, alone, ONE) < 1e-4);
    CHECK(difference(alone, flux.bare, ONE) > 1e-3);
    drop(p);
    drop(q);
}

/* The file without the tensors of this block, all of whose names begin with one of the two. */
static graft_controlnet *shortened(const char *path, const char *block, const char *residual,
                                   const char *config)
{
    made_file *f = net_file(path);
    const char *to = temp_path("short.safetensors");
    for (size_t i = f->n; i-- > 0;) {
        const graft_st_tensor t = f->tensor[i];
        if (strncmp(t.name, block, strlen(block)) && strncmp(t.name, residual, strlen(residual)))
            continue;
        f->tensor[i] = f->tensor[--f->n];
        free((char *)(uintptr_t)t.name);
        free((void *)(uintptr_t)t.data);
    }
    write_file(f, to, config);
    graft_controlnet *n = load_control(engine, to);
    unlink(to);
    return n;
}

/* Of which one has fewer blocks than the other, so that a residual of it goes where two different
 * ones of the other go. */
static void add_up(const bench *b, const graft_controlnet *few)
{
    float now[ONE], want[ONE];
    const uint64_t own = graft_control_steers(&b->net->arch, &b->m->arch).begins[0];
    const uint64_t of_few = graft_control_steers(&few->arch, &b->m->arch).begins[0];
    CHECK(own != of_few && of_few);
    pair p = steer(b->plain, options(b->net, 0.8)), q = steer(p, options(few, 0.9));
    sample(b->m, q, want);
    CHECK(difference(want, b->steered, ONE) > 1e-3);
    drop(p);
    drop(q);
    p = steer(b->plain, options(few, 0.9)), q = steer(p, options(b->net, 0.8));
    sample(b->m, q, now);
    CHECK(difference(now, want, ONE) < 1e-4);
    drop(q);
    /* What is behind takes all of it away again. */
    q = steer(p, options(b->net, 0.8));
    pair r = steer(q, options(b->net, -0.8)), t = steer(r, options(few, -0.9));
    sample(b->m, t, now);
    CHECK(difference(now, b->bare, ONE) < 1e-4);
    drop(p);
    drop(q);
    drop(r);
    drop(t);
}

static void other_numbers_of_blocks(void)
{
    graft_controlnet *one = shortened(NET("flux"), "transformer_blocks.1.", "controlnet_blocks.1.",
                                      "{\"rope_dim\": 6}"),
                     *two = shortened(NET("mmdit"), "transformer_blocks.2.", "controlnet_blocks.2.",
                                      "{\"num_heads\": 2, \"num_head_channels\": 16}");
    CHECK_INT(one->arch.flux.depth, 1);
    CHECK_INT(two->arch.mmdit.depth, 2);
    add_up(&flux, one);
    add_up(&sd3, two);
    graft_controlnet_release(one);
    graft_controlnet_release(two);
}

static uint64_t every(int step, int blocks)
{
    uint64_t bits = 0;
    for (int i = 0; i < blocks; i += step) bits |= (uint64_t)1 << i;
    return bits;
}

/* Of the models and ControlNets that there are. */
static void where_residuals_begin(void)
{
    static const struct {
        int32_t kind, net[2], of[2], step[2], end[2];
    } known[] = {{GRAFT_NET_FLUX, {19, 38}, {5, 10}, {4, 4}, {19, 38}}, /* Union */
                 {GRAFT_NET_FLUX, {19, 38}, {6, 0}, {4, 1}, {19, 0}},   /* Union-Pro-2.0 */
                 {GRAFT_NET_FLUX, {19, 38}, {4, 0}, {5, 1}, {19, 0}},
                 {GRAFT_NET_FLUX, {19, 38}, {15, 0}, {2, 1}, {19, 0}},
                 {GRAFT_NET_MMDIT, {24, 0}, {12, 0}, {2, 1}, {23, 0}},
                 {GRAFT_NET_MMDIT, {24, 0}, {6, 0}, {4, 1}, {23, 0}},
                 {GRAFT_NET_MMDIT, {38, 0}, {19, 0}, {2, 1}, {37, 0}},
                 {GRAFT_NET_QWEN_IMAGE, {60, 0}, {5, 0}, {12, 1}, {60, 0}}, /* InstantX's union */
                 {GRAFT_NET_QWEN_IMAGE, {60, 0}, {7, 0}, {9, 1}, {60, 0}}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        graft_control_arch c = {.kind = known[i].kind};
        graft_net_arch m = {.kind = known[i].kind};
        c.flux.depth = c.mmdit.depth = c.qwen_image.depth = known[i].of[0];
        m.flux.depth = m.mmdit.depth = m.qwen_image.depth = known[i].net[0];
        c.flux.single_depth = known[i].of[1];
        m.flux.single_depth = known[i].net[1];
        const graft_steered s = graft_control_steers(&c, &m);
        for (int part = 0; part < 2; part++)
            CHECK_INT(s.begins[part], every(known[i].step[part], known[i].end[part]));
    }
}

/* Only one of the two, or the negative ones as the positive ones are. */
static void negative_prompts(void)
{
    float both[ONE], now[ONE];
    graft_control_options o = options(flux.net, 1);
    graft_cond *alone = NULL;
    graft_err e = GRAFT_ERR_INIT;
    pair p = steer(flux.plain, o);
    sample(flux.m, p, both);
    CHECK_OK(graft_cond_control(flux.plain.positive, NULL, &o, &alone, NULL, &e), &e);
    sample(flux.m, (pair){alone, flux.plain.negative}, now);
    CHECK(difference(now, both, ONE) > 1e-3 && difference(now, flux.bare, ONE) > 1e-3);
    sample(flux.m, (pair){flux.plain.positive, p.negative}, now);
    CHECK(difference(now, both, ONE) > 1e-3 && difference(now, flux.bare, ONE) > 1e-3);
    graft_cond_release(alone);
    o.everywhere = true;
    CHECK_OK(graft_cond_control(flux.plain.positive, NULL, &o, &alone, NULL, &e), &e);
    sample(flux.m, (pair){alone, flux.plain.negative}, now);
    CHECK(memcmp(now, both, sizeof now) == 0);
    graft_cond_release(alone);
    drop(p);
}

static void types(void)
{
    static const char *const known[] = {"openpose", "depth", "canny/lineart/anime_lineart/mlsd",
                                        "tile"};
    float now[ONE], last[ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_controlnet *n = NULL;
    memcpy(last, flux.steered, sizeof last); /* told none */
    for (int i = 0; i < 4; i++) {
        CHECK_OK(graft_controlnet_with_type(flux.net, known[i], NULL, &n, &e), &e);
        steer_and_sample(&flux, options(n, 1), now);
        CHECK(difference(now, last, ONE) > 1e-4);
        memcpy(last, now, sizeof now);
        graft_controlnet_release(n);
    }
    CHECK_OK(graft_controlnet_with_type(flux.net, "auto", NULL, &n, &e), &e);
    steer_and_sample(&flux, options(n, 1), now);
    CHECK(memcmp(now, flux.steered, sizeof now) == 0);
    graft_controlnet_release(n);
    CHECK_INT(graft_controlnet_with_type(flux.net, "normal", NULL, &n, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "FLUX.1") != NULL);
}

/* ------------------------------------------------------------------ the run */

static void nothing_is_compiled_again(void)
{
    float now[ONE];
    graft_image *other = control_hint(1, 48, 77);
    const bench *const all[] = {&flux, &sd3, &large, &qwen};
    for (int k = 0; k < 4; k++) {
        const uint64_t before = graphs_built(engine);
        for (int i = 1; i < 5; i++) {
            graft_control_options o = options(all[k]->net, 0.3 * i);
            o.start = 0.1 * i;
            if (i % 2) o.hint = other;
            steer_and_sample(all[k], o, now);
        }
        CHECK_INT(graphs_built(engine), before);
    }
    graft_image_release(other);
}

static graft_cond *within(const graft_cond *c, graft_area a)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_area(c, &a, 1, &out, &e), &e);
    return out;
}

static graft_cond *in_two_areas(const graft_cond *c)
{
    graft_cond *top = within(c, (graft_area){0, 0, 64, 32, false});
    graft_cond *side = within(c, (graft_area){32, 16, 32, 32, false}), *both_parts = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_combine(top, side, &both_parts, &e), &e);
    graft_cond_release(top);
    graft_cond_release(side);
    return both_parts;
}

/* compile_only compiles all that the run then needs, whose prompts may have areas. */
static void ahead_of(const char *model, const char *net, bool areas)
{
    float now[ONE];
    const graft_task task = {.compile_only = true};
    graft_err e = GRAFT_ERR_INIT;
    graft_engine *fresh = make_engine("cpu");
    graft_model *m = load_model(fresh, model);
    graft_controlnet *n = load_control(fresh, net);
    graft_vae *v = NULL;
    CHECK_OK(graft_vae_load(fresh, VAE_16, NULL, &v, &e), &e);
    graft_control_options o = options(n, 1), half = options(n, 1);
    o.vae = half.vae = v;
    half.end = 0.5;
    pair plain = {words(m, 1), words(m, 2)}, p = steer(plain, o), q = steer(p, half);
    if (areas) {
        graft_cond *parts = in_two_areas(q.positive);
        graft_cond_release(q.positive);
        q.positive = parts;
    }
    CHECK_OK(try_sizes(m, q, 1, HIGH, WIDE, &task, now, &e), &e);
    const uint64_t before = graphs_built(fresh);
    CHECK_OK(try_sizes(m, q, 1, HIGH, WIDE, NULL, now, &e), &e);
    CHECK_INT(graphs_built(fresh), before);
    drop(plain);
    drop(p);
    drop(q);
    graft_vae_release(v);
    graft_controlnet_release(n);
    graft_model_release(m);
    graft_engine_destroy(fresh);
}

static void ahead_of_time(void)
{
    for (int areas = 0; areas < 2; areas++) {
        ahead_of(FLUX, NET("flux_union"), areas);
        ahead_of(LARGE, NET("mmdit_large"), areas);
        ahead_of(QWEN, NET("qwen_image"), areas);
    }
}

/* Pictures of a hint repeat over a batch; a latent of odd sides is filled up. */
static void batches_and_sizes(void)
{
    static float all[3 * ONE], first[3 * ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_image *two = control_hint(2, 64, 1);
    const bench *const each[] = {&flux, &sd3, &large, &qwen};
    for (int i = 0; i < 4; i++) {
        graft_control_options o = options(each[i]->net, 1);
        pair p = steer(each[i]->plain, o);
        CHECK_OK(try_sizes(each[i]->m, p, 3, HIGH, WIDE, NULL, first, &e), &e);
        drop(p);
        o.hint = two;
        p = steer(each[i]->plain, o);
        CHECK_OK(try_sizes(each[i]->m, p, 3, HIGH, WIDE, NULL, all, &e), &e);
        CHECK(difference(all, first, ONE) < 1e-4);
        CHECK(difference(all + ONE, first + ONE, ONE) > 1e-4);
        CHECK(difference(all + 2 * ONE, first + 2 * ONE, ONE) < 1e-4);
        CHECK_OK(try_sizes(each[i]->m, p, 1, 5, 7, NULL, all, &e), &e);
        CHECK_OK(try_sizes(each[i]->m, each[i]->plain, 1, 5, 7, NULL, first, &e), &e);
        CHECK(difference(all, first, (size_t)16 * 5 * 7) > 1e-3);
        drop(p);
    }
    graft_image_release(two);
}

static void count_encodings(void *ctx, const char *name)
{
    *(int *)ctx += strcmp(name, "encode") == 0;
}

/* In an area the ControlNet sees its part of the picture: as if that were a picture. */
static void area_of(const bench *b, const graft_vae *local)
{
    enum { ALL = 8, SOME = 4, Y = 2, X = 4, CELLS = 16 * SOME * SOME };
    float x[16 * ALL * ALL], whole[16 * ALL * ALL], in[CELLS], want[CELLS], bare[CELLS];
    graft_err e = GRAFT_ERR_INIT;
    graft_control_options o = options(b->net, 1);
    graft_image *own = cut(hint, Y * PIXELS, X * PIXELS, SOME * PIXELS);
    o.vae = local;
    pair p = steer(b->plain, o);
    graft_cond *placed = within(
        p.positive, (graft_area){X * PIXELS, Y * PIXELS, SOME * PIXELS, SOME * PIXELS, false});
    one_call c = {b->m, placed, b->plain.negative, 1.0, {1, 16, ALL, ALL}, NULL, NULL, 0};
    noise_of(&c, x);
    CHECK_OK(try_denoise_at(&c, x, 0.6f, whole, &e), &e);
    part_of(&c, x, Y, X, SOME, SOME, in);
    graft_cond_release(placed);
    drop(p);
    o.hint = own;
    p = steer(b->plain, o);
    one_call alone = {b->m, p.positive, b->plain.negative, 1.0, {1, 16, SOME, SOME}, NULL, NULL, 0};
    CHECK_OK(try_denoise_at(&alone, in, 0.6f, want, &e), &e);
    alone.positive = b->plain.positive;
    CHECK_OK(try_denoise_at(&alone, in, 0.6f, bare, &e), &e);
    part_of(&c, whole, Y, X, SOME, SOME, in);
    CHECK(difference(in, want, CELLS) < 1e-4);
    CHECK(difference(want, bare, CELLS) > 1e-3);
    drop(p);
    graft_image_release(own);
}

static void areas(void)
{
    graft_vae *local = local_vae();
    area_of(&flux, local);
    area_of(&sd3, local);
    area_of(&large, local);
    graft_vae_release(local);
}

/* However many links and areas a run has, of which one counts half of the time: the VAE sees their
 * picture once. */
static void pictures_once(void)
{
    float now[ONE];
    int encoded = 0, of_parts;
    graft_err e = GRAFT_ERR_INIT;
    graft_control_options half = options(flux.net, 0.5);
    half.end = 0.5;
    const graft_task task = {.ctx = &encoded, .phase = count_encodings};
    pair p = steer(flux.plain, options(flux.net, 1)), q = steer(p, half);
    pair parts = {in_two_areas(q.positive), q.negative};
    CHECK_OK(try_sizes(flux.m, parts, 1, HIGH, WIDE, &task, now, &e), &e);
    of_parts = encoded;
    encoded = 0;
    CHECK_OK(try_sizes(flux.m, p, 1, HIGH, WIDE, &task, now, &e), &e);
    CHECK(encoded > 0);
    CHECK_INT(of_parts, encoded);
    graft_cond_release(parts.positive);
    drop(p);
    drop(q);
}

/* The model with blocks that change nothing: what comes from them counts 0. */
static graft_model *with_idle_blocks(const char *path, const bool *idle)
{
    const char *to = temp_path("idle.safetensors");
    made_file *f = net_file(path);
    for (size_t i = 0; i < f->n; i++) {
        const graft_st_tensor *t = &f->tensor[i];
        float *v = (float *)(uintptr_t)t->data;
        int block = 0;
        if (!strstr(t->name, "adaLN_modulation") ||
            sscanf(t->name, "model.diffusion_model.joint_blocks.%d.", &block) != 1 || !idle[block])
            continue;
        const int64_t n = shape_count(t->shape, t->rank) / 6; /* the third and the last of six */
        for (int64_t k = 0; k < n; k++) v[2 * n + k] = v[5 * n + k] = 0;
    }
    write_file(f, to, "{\"num_heads\": 2, \"num_head_channels\": 16}");
    graft_model *m = load_model(engine, to);
    unlink(to);
    return m;
}

/* Rows that leave blocks out get the residuals of all blocks: those of the others, and of those
 * that they leave out. */
static void skipped_blocks(void)
{
    static const struct {
        const char *layers;
        bool idle[7];
    } cases[] = {{"2", {false, false, true}},
                 {"1, 2", {false, true, true}},
                 {"0, 4", {true, false, false, false, true}}};
    float x[ONE], d[ONE], less[ONE], got[ONE];
    graft_err e = GRAFT_ERR_INIT;
    pair p = steer(sd3.plain, options(sd3.net, 1));
    one_call c = {sd3.m, p.positive, p.negative, 1.0, {1, 16, HIGH, WIDE}, NULL, NULL, 0};
    noise_of(&c, x);
    CHECK_OK(try_denoise_at(&c, x, 0.6f, d, &e), &e);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        graft_model *idle = with_idle_blocks(SD3, cases[k].idle), *skips = NULL;
        CHECK_OK(graft_model_skip_layers(sd3.m, cases[k].layers, 2, 0, 1, &skips, &e), &e);
        c.model = idle;
        CHECK_OK(try_denoise_at(&c, x, 0.6f, less, &e), &e);
        c.model = skips;
        CHECK_OK(try_denoise_at(&c, x, 0.6f, got, &e), &e);
        for (int i = 0; i < ONE; i++) less[i] = d[i] + 2 * (d[i] - less[i]);
        CHECK(difference(got, less, ONE) < 1e-4);
        CHECK(difference(got, d, ONE) > 1e-2);
        graft_model_release(idle);
        graft_model_release(skips);
    }
    drop(p);
}

/* Pictures that Kontext sees stand behind the latent's tokens, which alone are steered. */
static void references(void)
{
    float now[ONE], bare[ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *shown = NULL;
    pair p = {NULL, NULL};
    CHECK_OK(graft_latent_empty(16, 32, 48, 1, &shown, &e), &e);
    CHECK_OK(graft_cond_reference(flux.plain.positive, shown, &p.positive, &e), &e);
    p.negative = graft_cond_retain(flux.plain.negative);
    pair q = steer(p, options(flux.net, 1));
    sample(flux.m, p, bare);
    sample(flux.m, q, now);
    CHECK(difference(now, bare, ONE) > 1e-3);
    CHECK(difference(bare, flux.bare, ONE) > 1e-4);
    drop(p);
    drop(q);
    graft_latent_release(shown);
}

/* Likewise Qwen-Image-Edit's, in one list with the latent's tokens and in one of their own: a
 * ControlNet that takes away what it adds leaves what there is without it. */
static void references_of_qwen_image(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *shown = NULL;
    graft_cond *seen = NULL;
    CHECK_OK(graft_latent_empty(16, 32, 48, 1, &shown, &e), &e);
    CHECK_OK(graft_cond_reference(qwen.plain.positive, shown, &seen, &e), &e);
    for (int clean = 0; clean < 2; clean++) {
        float now[ONE], bare[ONE];
        pair p = {NULL, graft_cond_retain(qwen.plain.negative)};
        CHECK_OK(graft_cond_place_references(seen, clean ? GRAFT_PLACE_CLEAN : GRAFT_PLACE_BEHIND,
                                             &p.positive, &e),
                 &e);
        pair q = steer(p, options(qwen.net, 1)), r = steer(q, options(qwen.net, -1));
        sample(qwen.m, p, bare);
        sample(qwen.m, q, now);
        CHECK(difference(now, bare, ONE) > 1e-3);
        sample(qwen.m, r, now);
        CHECK(difference(now, bare, ONE) < 1e-4);
        CHECK(difference(bare, qwen.bare, ONE) > 1e-4);
        drop(p);
        drop(q);
        drop(r);
    }
    graft_cond_release(seen);
    graft_latent_release(shown);
}

/* Fill's network, which here makes nothing of what it sees beside the latent: the ControlNet sees
 * the latent alone. */
static void beside_the_latent(void)
{
    static const char first[] = "model.diffusion_model.img_in.weight";
    const char *path = temp_path("fill.safetensors");
    float now[ONE];
    made_file *f = net_file(FLUX);
    graft_st_tensor *t = made_find(f, first), old = *t;
    const int64_t rows = old.shape[0], width = old.shape[1], wider = width + 80 * 4;
    float *to = add_tensor(f, first, 2, (int64_t[]){rows, wider}, NULL, 0);
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * wider, (const float *)old.data + r * width, (size_t)width * sizeof *to);
    *made_find(f, first) = f->tensor[--f->n];
    free((char *)(uintptr_t)old.name);
    free((void *)(uintptr_t)old.data);
    write_file(f, path, "{\"rope_dim\": 6}");
    graft_model *fill = load_model(engine, path);
    unlink(path);
    CHECK(fill->arch.beside == GRAFT_BESIDE_FILL);
    pair p = steer(flux.plain, options(flux.net, 1));
    sample(fill, p, now);
    CHECK(difference(now, flux.steered, ONE) < 1e-4);
    drop(p);
    graft_model_release(fill);
}

static void quantized_and_swapped(void)
{
    float now[ONE], bare[ONE];
    graft_model *q = half_quantized(flux.m);
    pair p = steer(flux.plain, options(flux.net, 1));
    sample(q, p, now);
    sample(q, flux.plain, bare);
    CHECK(memcmp(now, flux.steered, sizeof now) != 0);
    CHECK(difference(now, flux.steered, ONE) < 0.5);
    CHECK(difference(now, bare, ONE) > 1e-3);
    graft_model_release(q);
    const uint64_t before = graphs_built(engine);
    graft_model *s = swap_weights(flux.m, FLUX, false);
    sample(s, p, now);
    CHECK(memcmp(now, flux.steered, sizeof now) == 0);
    CHECK_INT(graphs_built(engine), before);
    graft_model_release(s);
    drop(p);
}

/* Stability's mark for outlines changes what the VAE is given, and other marks do not. */
static void marked_for_outlines(void)
{
    for (int i = 0; i < 6; i++) {
        float now[ONE];
        const int32_t type = i % 3;
        const float fraction = (float)type;
        made_file *f = net_file(NET("mmdit_large"));
        const char *path = temp_path("marked.safetensors");
        add_tensor(f, "control_type", 1, (int64_t[]){1}, NULL, 1);
        graft_st_tensor *mark = &f->tensor[f->n - 1];
        if (i < 3) mark->dtype = GRAFT_I32;
        memcpy((void *)(uintptr_t)mark->data, i < 3 ? (const void *)&type : &fraction, sizeof type);
        write_file(f, path, "{\"num_heads\": 2, \"num_head_channels\": 16}");
        graft_controlnet *n = load_control(engine, path);
        unlink(path);
        steer_and_sample(&large, options(n, 1), now);
        const double d = difference(now, large.steered, ONE);
        CHECK(type == 1 ? d > 1e-3 : d < 1e-6);
        graft_controlnet_release(n);
    }
}

static void rename_tensor(graft_st_tensor *t, const char *from, const char *to)
{
    const char *at = strstr(t->name, from);
    char name[256];
    if (!at) return;
    snprintf(name, sizeof name, "%.*s%s%s", (int)(at - t->name), t->name, to, at + strlen(from));
    free((char *)(uintptr_t)t->name);
    t->name = strdup(name);
}

/* Stability's as diffusers names its layers: queries, keys and values apart. */
static void in_diffusers_names(void)
{
    static const char *const names[][2] = {{"adaLN_modulation.1.", "norm1.linear."},
                                           {"attn.proj.", "attn.to_out.0."},
                                           {"mlp.fc1.", "ff.net.0.proj."},
                                           {"mlp.fc2.", "ff.net.2."}};
    static const char *const parts[] = {"attn.to_q.", "attn.to_k.", "attn.to_v."};
    float now[ONE];
    made_file *f = net_file(NET("mmdit_large"));
    const char *path = temp_path("named.safetensors");
    const size_t n = f->n;
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < 4; k++) rename_tensor(&f->tensor[i], names[k][0], names[k][1]);
        if (!strstr(f->tensor[i].name, "attn.qkv.")) continue;
        const graft_st_tensor all = f->tensor[i];
        int64_t shape[GRAFT_MAX_RANK];
        memcpy(shape, all.shape, sizeof shape);
        shape[0] /= 3;
        for (int k = 2; k >= 0; k--) {
            add_tensor(f, all.name, all.rank, shape,
                       (const float *)all.data + k * shape_count(shape, all.rank), 0);
            rename_tensor(&f->tensor[f->n - 1], "attn.qkv.", parts[k]);
        }
        f->tensor[i] = f->tensor[--f->n];
        free((char *)(uintptr_t)all.name);
        free((void *)(uintptr_t)all.data);
    }
    write_file(f, path, "{\"num_heads\": 2, \"num_head_channels\": 16}");
    graft_controlnet *named = load_control(engine, path);
    unlink(path);
    steer_and_sample(&large, options(named, 1), now);
    CHECK(memcmp(now, large.steered, sizeof now) == 0);
    graft_controlnet_release(named);
}

int main(void)
{
    begin_all();
    RUN(all_of_them);
    RUN(two_of_a_kind);
    RUN(other_numbers_of_blocks);
    RUN(where_residuals_begin);
    RUN(negative_prompts);
    RUN(types);
    RUN(nothing_is_compiled_again);
    RUN(ahead_of_time);
    RUN(batches_and_sizes);
    RUN(areas);
    RUN(pictures_once);
    RUN(skipped_blocks);
    RUN(references);
    RUN(references_of_qwen_image);
    RUN(beside_the_latent);
    RUN(quantized_and_swapped);
    RUN(marked_for_outlines);
    RUN(in_diffusers_names);
    end_all();
    return test_end();
}
