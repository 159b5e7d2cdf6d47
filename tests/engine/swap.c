/* SwapWeights: one compiled graph, many weight sets. */
#include <pthread.h>
#include <unistd.h>

#include "tests/engine/fixture.h"

#define UNET "model.diffusion_model."

static graft_engine *engine;
static const char *backend;
static char path_a[256], path_b[256], path_c[256];

/* SD1 with `changed` of its UNet's tensors replaced by noise of the same size. */
static void make_checkpoint(char *path, size_t size, const char *name, size_t changed)
{
    graft_safetensors *f = open_file(SD1);
    made_file *m = copy_file(f, UNET);
    for (size_t i = 0; i < m->n && changed; i++) {
        graft_st_tensor *t = &m->tensor[i];
        if (t->rank < 2) continue;
        float *v = (float *)t->data;
        int64_t n = shape_count(t->shape, t->rank);
        for (int64_t k = 0; k < n; k++) v[k] *= 1.0f + 0.5f * random_value();
        changed--;
    }
    snprintf(path, size, "%s", temp_path(name));
    write_file(m, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
}

static graft_compiled_stats compiled(void)
{
    graft_compiled_stats s;
    graft_compiled_stats_get(engine->compiled, &s);
    return s;
}

/* ------------------------------------------------------------------ memory */

/* What stays for the next run can be had back, and is made again; what is in use stays. */
static void unused_memory_goes(void)
{
    float first[OUT], again[OUT];
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, path_b);
    run_model(b, first);
    run_model(a, first);
    graft_model_release(b);
    CHECK(packs_of(engine).bytes > packs_of(engine).used_bytes);
    CHECK(graft_arenas_bytes(engine->arenas) > 0);
    graft_engine_release_unused(engine);
    CHECK(packs_of(engine).bytes == packs_of(engine).used_bytes);
    CHECK_INT(graft_arenas_bytes(engine->arenas), 0);
    run_model(a, again);
    CHECK(same_bits(first, again));
    graft_model_release(a);
    graft_engine_release_unused(engine);
    CHECK_INT(packs_of(engine).bytes, 0);
    a = load_model(engine, path_a);
    run_model(a, again);
    CHECK(same_bits(first, again));
    graft_model_release(a);
}

static void *(*alloc_there)(graft_device *d, uint64_t bytes);
static int refusals;

static void *alloc_or_not(graft_device *d, uint64_t bytes)
{
    return refusals > 0 && refusals-- ? NULL : alloc_there(d, bytes);
}

/* Where the system has no more, what nobody uses goes first; where that does not help it is said.
 */
static void unused_memory_makes_room(void)
{
    float out[OUT];
    graft_err e = GRAFT_ERR_INIT;
    graft_backend *k = NULL;
    graft_model *b = load_model(engine, path_b);
    CHECK_OK(graft_backends_get(&engine->backends, backend, &k, &e), &e);
    if (!k) return;
    const graft_kernels_api *own = k->api;
    graft_kernels_api limited = *own;
    alloc_there = own->alloc;
    limited.alloc = alloc_or_not;
    graft_engine_release_unused(engine);
    run_model(b, out);
    graft_model_release(b);
    uint64_t one = packs_of(engine).bytes; /* b's, which nobody uses */
    CHECK(one > 0 && !packs_of(engine).used_bytes);
    graft_model *c = load_model(engine, path_c);
    k->api = &limited;
    refusals = 1;
    run_model(c, out);
    CHECK_INT(refusals, 0);
    k->api = own;
    CHECK(packs_of(engine).bytes <= one); /* c's instead */
    graft_model_release(c);
}

/* ------------------------------------------------------------------ equality */

static void there_and_back(void)
{
    float first[OUT], other[OUT], back[OUT], direct[OUT];
    graft_model *a = load_model(engine, path_a);
    run_model(a, first);
    graft_compiled_stats before = compiled();
    graft_model *b = swap_weights(a, path_b, true);
    run_model(b, other);
    graft_model *a2 = swap_weights(b, path_a, true);
    uint64_t made = packs_of(engine).made;
    run_model(a2, back);
    CHECK_INT(packs_of(engine).made, made);
    CHECK(same_bits(first, back));
    CHECK(!same_bits(first, other));
    graft_model *loaded = load_model(engine, path_b);
    run_model(loaded, direct);
    CHECK(same_bits(direct, other));
    CHECK_INT(packs_of(engine).made, made);
    CHECK_INT(compiled().built, before.built);
    CHECK_INT(compiled().in_memory, before.in_memory);
    run_model(a, back);
    CHECK(same_bits(first, back));
    graft_model *all[] = {a, b, a2, loaded};
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
}

/* Two fine-tunes hold what they have in common once: C differs from A in three tensors. */
static void common_tensors_are_packed_once(void)
{
    float out[OUT];
    graft_model *a = load_model(engine, path_a), *c = swap_weights(a, path_c, true);
    run_model(a, out);
    uint64_t made = packs_of(engine).made;
    run_model(c, out);
    CHECK(packs_of(engine).made > made);
    CHECK(packs_of(engine).made - made <= 3);
    graft_model_release(a);
    graft_model_release(c);
}

static void not_kept(void)
{
    float first[OUT], out[OUT];
    graft_model *a = load_model(engine, path_a);
    graft_packs_trim(engine->packs, 0);
    CHECK_INT(packs_of(engine).count, 0);
    run_model(a, first);
    graft_packs_stats full = packs_of(engine);
    graft_model *c = swap_weights(a, path_c, false);
    CHECK(packs_of(engine).count >= full.count - 3);
    CHECK(packs_of(engine).count < full.count); /* the three that differ */
    run_model(c, out);
    CHECK_INT(packs_of(engine).bytes, full.bytes);
    CHECK_INT(packs_of(engine).count, full.count);
    graft_model *a2 = swap_weights(c, path_a, false);
    run_model(a2, out);
    CHECK_INT(packs_of(engine).bytes, full.bytes);
    CHECK(same_bits(first, out));
    graft_model_release(a);
    graft_model_release(c);
    graft_model_release(a2);
}

/* SD1 with a value of each large tensor changed where a glance at a few places does not see it. */
static void make_alike(char *path, size_t size)
{
    graft_safetensors *f = open_file(SD1);
    made_file *m = copy_file(f, UNET);
    for (size_t i = 0; i < m->n; i++) {
        graft_st_tensor *t = &m->tensor[i];
        float *v = (float *)t->data;
        if (t->rank >= 2 && t->bytes >= 1024) v[30] = -v[30];
    }
    snprintf(path, size, "%s", temp_path("d.safetensors"));
    write_file(m, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
}

/* Weights are told apart by all of their bytes, also where a sample of them is equal. */
static void alike_at_a_glance(void)
{
    char path_d[256];
    float first[OUT], direct[OUT], out[OUT];
    make_alike(path_d, sizeof path_d);
    graft_packs_trim(engine->packs, 0);
    graft_model *d = load_model(engine, path_d);
    run_model(d, direct);
    graft_model_release(d);
    graft_packs_trim(engine->packs, 0);
    graft_model *a = load_model(engine, path_a);
    run_model(a, first);
    graft_packs_stats full = packs_of(engine);
    d = swap_weights(a, path_d, true);
    run_model(d, out);
    CHECK(same_bits(direct, out) && !same_bits(direct, first));
    CHECK(packs_of(engine).count > full.count);
    run_model(a, out);
    CHECK(same_bits(first, out));
    graft_model_release(d);
    graft_packs_trim(engine->packs, 0);
    run_model(a, out);
    d = swap_weights(a, path_d, false);
    run_model(d, out);
    CHECK(same_bits(direct, out));
    CHECK_INT(packs_of(engine).count, full.count);
    CHECK_INT(packs_of(engine).bytes, full.bytes);
    graft_model_release(a);
    graft_model_release(d);
    unlink(path_d);
}

/* Several threads pack for one binding: the same bits, and each tensor once. */
static void packed_by_three(void)
{
    float alone[OUT], together[OUT];
    graft_engine *one = engine;
    graft_model *a = load_model(engine, path_a), *b = load_model(engine, path_b);
    graft_packs_trim(engine->packs, 0);
    run_model(a, alone);
    uint64_t count = packs_of(engine).count;
    run_model(b, alone);
    graft_model_release(a);
    graft_model_release(b);
    engine = make_engine_threads(backend, 3);
    a = load_model(engine, path_a);
    run_model(a, together);
    CHECK_INT(packs_of(engine).count, count);
    CHECK_INT(packs_of(engine).made, count);
    b = swap_weights(a, path_b, false);
    run_model(b, together);
    for (int i = 0; i < OUT; i++) CHECK(fabsf(alone[i] - together[i]) < 1e-4f);
    CHECK_INT(packs_of(engine).count, count);
    graft_model_release(a);
    graft_model_release(b);
    graft_engine_destroy(engine);
    engine = one;
}

/* A run that holds the old weights keeps them to its end. */
static void not_kept_during_a_run(void)
{
    float out[OUT];
    graft_err e = GRAFT_ERR_INIT;
    graft_binding *b = NULL;
    graft_model *a = load_model(engine, path_a);
    graft_packs_trim(engine->packs, 0);
    run_model(a, out);
    graft_packs_stats full = packs_of(engine);
    CHECK_OK(graft_model_bind(a, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    graft_model *other = swap_weights(a, path_b, false);
    CHECK_INT(packs_of(engine).count, full.count);
    graft_binding_release(b);
    CHECK(packs_of(engine).count < full.count);
    graft_model_release(a);
    graft_model_release(other);
}

static void lora_stays(void)
{
    const char *path = temp_path("lora.safetensors");
    int64_t up[2] = {32, 4}, down[2] = {4, 32};
    float one[OUT], two[OUT], none[OUT];
    made_file *f = calloc(1, sizeof *f);
    const char *stem = "lora_unet_input_blocks_1_1_transformer_blocks_0_attn1_to_v";
    char name[256];
    snprintf(name, sizeof name, "%s.lora_up.weight", stem);
    add_tensor(f, name, 2, up, NULL, 0.5f);
    snprintf(name, sizeof name, "%s.lora_down.weight", stem);
    add_tensor(f, name, 2, down, NULL, 0.5f);
    write_file(f, path, NULL);
    graft_model *a = load_model(engine, path_a), *b = swap_weights(a, path_b, true);
    graft_model *a_l = NULL, *b_l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_lora_apply(a, NULL, path, 1.5, 0, NULL, &a_l, NULL, &e), &e);
    CHECK_OK(graft_lora_apply(b, NULL, path, 1.5, 0, NULL, &b_l, NULL, &e), &e);
    graft_model *l_b = swap_weights(a_l, path_b, true);
    run_model(b, none);
    run_model(b_l, one);
    run_model(l_b, two);
    CHECK(same_bits(one, two));
    CHECK(difference(one, none, OUT) > 1e-4);
    graft_model *all[] = {a, b, a_l, b_l, l_b};
    for (int i = 0; i < 5; i++) graft_model_release(all[i]);
    unlink(path);
}

static void options_stay(void)
{
    graft_model *a = load_model(engine, path_a), *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_sampling(a, "v_prediction", true, &v, &e), &e);
    graft_model *b = swap_weights(v, path_b, true), *plain = swap_weights(a, path_b, true);
    CHECK(b && b->prediction == GRAFT_PREDICT_V && b->zsnr);
    CHECK(plain && plain->prediction == GRAFT_PREDICT_EPS && !plain->zsnr);
    graft_model *all[] = {a, v, b, plain};
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
}

/* Latents are the checkpoint's: their scale, and the colours that tell whose they are. */
static void latents_come_along(void)
{
    const char *path = temp_path("coloured.safetensors");
    graft_safetensors *f = open_file(SD1);
    write_file(copy_file(f, UNET), path,
               "{\"num_heads\": 4, \"scale_factor\": 0.5, \"latent_rgb\":"
               "[[1,0,0],[0,1,0],[0,0,1],[1,1,1],[0,0,0]]}");
    graft_safetensors_close(f);
    graft_model *a = load_model(engine, path_a), *direct = load_model(engine, path);
    graft_model *b = swap_weights(a, path, true), *back = swap_weights(b, path_a, true);
    CHECK(b->scale_factor == 0.5 && back->scale_factor == a->scale_factor);
    CHECK(memcmp(&direct->preview, &a->preview, sizeof a->preview) != 0);
    CHECK(memcmp(&b->preview, &direct->preview, sizeof b->preview) == 0);
    CHECK(memcmp(&back->preview, &a->preview, sizeof back->preview) == 0);
    graft_model *all[] = {a, direct, b, back};
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
    unlink(path);
}

/* ------------------------------------------------------------------ what is refused */

static void refuse(const graft_model *m, const char *path, graft_status status, const char *text)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_model_swap(m, path, true, NULL, &out, &e), status);
    CHECK(out == NULL);
    CHECK(strstr(e.text, text) != NULL);
    if (!strstr(e.text, text)) fprintf(stderr, "%s: %s\n", path, e.text);
}

/* SD1 without the tensor, or with the tensor in another shape (rows), or with other heads. */
static void refuse_variant(const graft_model *m, const char *without, const char *config,
                           graft_status status, const char *text)
{
    graft_safetensors *f = open_file(SD1);
    made_file *k = copy_file(f, UNET);
    const char *path = temp_path("variant.safetensors");
    for (size_t i = 0; without && i < k->n; i++) {
        if (strcmp(k->tensor[i].name, without) != 0) continue;
        free((char *)k->tensor[i].name);
        free((void *)k->tensor[i].data);
        memmove(&k->tensor[i], &k->tensor[i + 1], (k->n - i - 1) * sizeof k->tensor[i]);
        k->n--;
    }
    write_file(k, path, config ? config : graft_safetensors_metadata(f, "config"));
    refuse(m, path, status, text);
    graft_safetensors_close(f);
    unlink(path);
}

static void refused(void)
{
    graft_model *a = load_model(engine, path_a);
    const char *lost = UNET "output_blocks.2.1.transformer_blocks.0.attn2.to_k.weight";
    refuse(a, SD2, GRAFT_E_ARG,
           UNET "input_blocks.1.1.proj_in.weight has the shape (32,32) where (32,32,1,1) belongs");
    refuse(a, SDXL, GRAFT_E_ARG, "model.diffusion_model.");
    refuse(a, temp_path("nothing"), GRAFT_E_NOTFOUND, "nothing");
    refuse(a, GRAFT_SOURCE_DIR "/golden/small/vae.safetensors", GRAFT_E_UNSUPPORTED, "UNet");
    refuse_variant(a, lost, NULL, GRAFT_E_FORMAT, lost + strlen(UNET));
    refuse_variant(a, NULL, "{\"num_heads\": 2}", GRAFT_E_ARG, "heads");
    float out[OUT];
    run_model(a, out);
    graft_model_release(a);
}

/* Mapped weights must not be read once somebody wrote into their file; a file that was replaced is
 * another one. */
static void written_in_place(void)
{
    char path[256], other[256];
    float out[OUT];
    graft_err e = GRAFT_ERR_INIT;
    make_checkpoint(path, sizeof path, "written", 5);
    make_checkpoint(other, sizeof other, "replacement", 6);
    graft_model *m = load_model(engine, path);
    CHECK(truncate(path, 1000) == 0);
    CHECK(try_model(m, out, &e) == GRAFT_E_IO && strstr(e.text, "was written to"));
    graft_model_release(m);
    CHECK(rename(other, path) == 0);
    m = load_model(engine, path);
    make_checkpoint(other, sizeof other, "replacement", 7);
    CHECK(rename(other, path) == 0); /* while it is mapped */
    run_model(m, out);
    graft_model_release(m);
    remove(path);
}

/* ------------------------------------------------------------------ many, and at one time */

static void many_swaps(void)
{
    const int swaps = many_rounds();
    const char *const path[3] = {path_a, path_b, path_c};
    float want[3][OUT], out[OUT];
    bool same = true;
    graft_model *m = load_model(engine, path_a);
    for (int i = 0; i < 3; i++) {
        graft_model *k = swap_weights(m, path[i], true);
        run_model(k, want[i]);
        graft_model_release(k);
    }
    uint64_t built = compiled().built;
    size_t before = 0;
    for (int i = 0; i < swaps; i++) {
        graft_model *next = swap_weights(m, path[i % 3], i % 7 != 0);
        graft_model_release(m);
        m = next;
        run_model(m, out);
        same = same && same_bits(out, want[i % 3]);
        if (i == 99) before = resident_bytes();
    }
    size_t after = resident_bytes();
    CHECK(same);
    CHECK_INT(compiled().built, built);
    printf("     %d swaps: resident %.1f MB after 100, %.1f MB at the end\n", swaps,
           (double)before / 1e6, (double)after / 1e6);
    CHECK_FLAT(before, after);
    graft_model_release(m);
}

typedef struct runner {
    const char *path[2];
    float want[2][OUT];
    bool same;
} runner;

static void *run_many(void *ctx)
{
    runner *r = ctx;
    float out[OUT];
    r->same = true;
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    if (graft_model_load(engine, r->path[0], NULL, &m, &e)) return NULL;
    for (int i = 0; i < 30; i++) {
        graft_model *next = NULL;
        graft_status st = graft_model_swap(m, r->path[i & 1], i % 3 != 0, NULL, &next, &e);
        r->same = r->same && st == GRAFT_OK;
        if (st) break;
        graft_model_release(m);
        m = next;
        st = try_model(m, out, &e);
        r->same = r->same && st == GRAFT_OK && same_bits(out, r->want[i & 1]);
    }
    graft_model_release(m);
    return NULL;
}

static void two_threads(void)
{
    static runner r[2];
    pthread_t thread[2];
    const char *const path[2][2] = {{path_a, path_b}, {path_c, path_a}};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            graft_model *m = load_model(engine, path[i][k]);
            r[i].path[k] = path[i][k];
            run_model(m, r[i].want[k]);
            graft_model_release(m);
        }
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&thread[i], NULL, run_many, &r[i]) == 0);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    CHECK(r[0].same);
    CHECK(r[1].same);
}

int main(void)
{
    make_checkpoint(path_a, sizeof path_a, "a.safetensors", 0);
    make_checkpoint(path_b, sizeof path_b, "b.safetensors", 1000);
    make_checkpoint(path_c, sizeof path_c, "c.safetensors", 3);
    const char *const backends[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        backend = backends[i];
        engine = make_engine(backend);
        if (!engine) break;
        RUN(there_and_back);
        RUN(common_tensors_are_packed_once);
        RUN(not_kept);
        RUN(not_kept_during_a_run);
        RUN(alike_at_a_glance);
        /* What is below the cpu library is not instrumented, and would be reported. */
        if (i == 0 || !UNDER_TSAN) RUN(packed_by_three);
        RUN(lora_stays);
        RUN(options_stay);
        RUN(latents_come_along);
        RUN(refused);
        RUN(written_in_place);
        if (i == 1) {
            RUN(two_threads);
            RUN(many_swaps);
        }
        RUN(unused_memory_goes);
        RUN(unused_memory_makes_room);
        graft_engine_destroy(engine);
    }
    unlink(path_a);
    unlink(path_b);
    unlink(path_c);
    return test_end();
}
