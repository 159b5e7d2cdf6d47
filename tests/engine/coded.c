/* Models whose layers ComfyUI's tools quantized: in floats they are the bits of a file that holds
 * the same values, in integers they are close to it; they are swapped, merged, changed by LoRAs,
 * quantized and saved as others. What single tensors hold is held against golden/small/coded. */
#include "kernels/hadamard.h"
#include "tests/engine/flux.h"
#include "tests/engine/merge.h"

static graft_engine *engine;

/* How close a network in 8-bit integers is to the one in floats, in units of what it computes. */
#define CLOSE 0.03

typedef struct writing {
    const char *more;   /* what is said of each layer, too */
    bool turned, plain; /* plain: the values alone, in float32 */
} writing;

/* The largest group that rows of so many values fit, of the sizes that files have. */
static int32_t group_for(int64_t columns)
{
    int32_t group = 256;
    while (group >= 16 && !graft_hadamard_is(group, columns)) group /= 4;
    return group >= 16 ? group : 0;
}

static void add_bytes(made_file *f, const char *name, graft_dtype dtype, int rank,
                      const int64_t *shape, const void *data, size_t bytes)
{
    void *own = malloc(bytes);
    if (!own) abort();
    memcpy(own, data, bytes);
    graft_st_tensor *t = &f->tensor[f->n++];
    *t = (graft_st_tensor){
        .name = strdup(name), .dtype = dtype, .rank = rank, .data = own, .bytes = bytes};
    memcpy(t->shape, shape, (size_t)rank * sizeof *shape);
}

/* A matrix as a tool would write it; `own` becomes what that holds. */
static void quantize(made_file *f, graft_st_tensor *own, const writing *how)
{
    const int64_t rows = own->shape[0], n = own->shape[1];
    const int32_t group = how->turned ? group_for(n) : 0;
    float *w = (float *)(uintptr_t)own->data, *scale = malloc((size_t)rows * sizeof *scale);
    int8_t *level = malloc((size_t)(rows * n));
    char layer[256], name[300], says[200];
    if (!scale || !level) abort();
    if (group) graft_hadamard(w, rows * n, group);
    for (int64_t r = 0; r < rows; r++) {
        float most = 0;
        for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(w[r * n + i]));
        scale[r] = most / 120; /* no level is as large as it could be */
        for (int64_t i = 0; i < n; i++) {
            level[r * n + i] = (int8_t)(most > 0 ? lrintf(w[r * n + i] / scale[r]) : 0);
            w[r * n + i] = (float)level[r * n + i] * scale[r];
        }
    }
    if (group) graft_hadamard(w, rows * n, group);
    snprintf(layer, sizeof layer, "%.*s", (int)(strlen(own->name) - strlen(".weight")), own->name);
    snprintf(says, sizeof says, "{\"format\": \"int8_tensorwise\"%s%s%.0d%s}",
             group ? ", \"convrot\": true" : "", group ? ", \"convrot_groupsize\": " : "", group,
             how->more ? how->more : "");
    add_bytes(f, own->name, GRAFT_I8, 2, own->shape, level, (size_t)(rows * n));
    snprintf(name, sizeof name, "%s.weight_scale", layer);
    add_bytes(f, name, GRAFT_F32, 2, (int64_t[]){rows, 1}, scale, (size_t)rows * sizeof *scale);
    snprintf(name, sizeof name, "%s.comfy_quant", layer);
    add_bytes(f, name, GRAFT_U8, 1, (int64_t[]){(int64_t)strlen(says)}, says, strlen(says));
    free(scale);
    free(level);
}

/* The network of a file with all matrices quantized, and what they hold then. */
static const char *written(const char *from, const char *as, const writing *how)
{
    const char *path = temp_path(as);
    made_file *m = part_of_file(from, UNET), *f = calloc(1, sizeof *f);
    if (!f) abort();
    for (size_t i = 0; i < m->n; i++) {
        graft_st_tensor *t = &m->tensor[i];
        const size_t bytes = (size_t)shape_count(t->shape, t->rank) * sizeof(float);
        if (t->rank == 2)
            quantize(f, t, how);
        else
            add_bytes(f, t->name, GRAFT_F32, t->rank, t->shape, t->data, bytes);
    }
    write_file(how->plain ? m : f, path, config_of(from));
    finish_file(how->plain ? f : m);
    return path;
}

static const char *turned_file(void)
{
    return written(FLUX_DEV, "turned.safetensors", &(writing){.turned = true});
}

static const char *plain_file(void)
{
    return written(FLUX_DEV, "plain.safetensors", &(writing){.turned = true, .plain = true});
}

static double apart(const graft_model *a, const graft_model *b)
{
    float one[FLUX_OUT], two[FLUX_OUT];
    run_flux(a, 3.5f, one);
    run_flux(b, 3.5f, two);
    return same_flux_bits(one, two) ? 0 : difference(one, two, FLUX_OUT);
}

/* Who made the file wants floats: the values are those of the other file. */
static void in_floats(void)
{
    const char *path =
        written(FLUX_DEV, "floats.safetensors",
                &(writing){.turned = true, .more = ", \"full_precision_matrix_mult\": true"});
    const char *plain = plain_file();
    last_log[0] = 0;
    graft_model *a = load_model(engine, path), *b = load_model(engine, plain);
    CHECK_STR(last_log, "");
    CHECK(memcmp(&a->arch, &b->arch, sizeof a->arch) == 0);
    CHECK(apart(a, b) == 0);
    RELEASE_ALL(a, b);
    unlink(path);
    unlink(plain);
}

static size_t turned_layers(const graft_model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof m->quant.turned; i++)
        n += (m->quant.turned[i] & 15) != 0, n += m->quant.turned[i] >> 4 != 0;
    return n;
}

static void in_integers(void)
{
    const char *path[] = {turned_file(), plain_file(),
                          written(FLUX_DEV, "rows.safetensors", &(writing){0}),
                          written(FLUX_DEV, "whole.safetensors", &(writing){.plain = true})};
    graft_model *m[4];
    for (int i = 0; i < 4; i++) m[i] = load_model(engine, path[i]);
    CHECK(m[0]->quant.bits == 8 && turned_layers(m[0]) > 10);
    CHECK(m[2]->quant.bits == 8 && turned_layers(m[2]) == 0 && m[3]->quant.bits == 0);
    const double turned = apart(m[0], m[1]), straight = apart(m[2], m[3]);
    printf("off by %.4f with turned rows, %.4f without\n", turned, straight);
    CHECK(turned > 0 && turned < CLOSE && straight > 0 && straight < CLOSE);
    for (int i = 0; i < 4; i++) {
        graft_model_release(m[i]);
        unlink(path[i]);
    }
}

/* What was compiled stays: floats for one file are floats for the other, and so are integers. */
static void swapped(void)
{
    const char *turned = turned_file(), *plain = plain_file();
    graft_model *m = load_model(engine, turned), *dev = load_model(engine, FLUX_DEV);
    graft_model *p = load_model(engine, plain);
    CHECK(apart(m, dev) > 0); /* both are compiled */
    const uint64_t built = graphs_built(engine);
    graft_model *to = swap_weights(dev, turned, true), *back = swap_weights(m, FLUX_DEV, true);
    CHECK(apart(to, p) == 0 && turned_layers(to) == 0);
    CHECK(apart(back, dev) > 0 && apart(back, dev) < CLOSE);
    graft_model *again = swap_weights(back, turned, true);
    CHECK(apart(again, m) == 0);
    CHECK_INT(graphs_built(engine), built);
    RELEASE_ALL(m, dev, p, to, back, again);
    unlink(turned);
    unlink(plain);
}

static void changed_and_merged(void)
{
    const char *turned = turned_file(), *plain = plain_file();
    const char *lora = temp_path("lora.safetensors");
    made_file *f = calloc(1, sizeof *f);
    if (!f) abort();
    add_tensor(f, "lora_unet_double_blocks_0_img_attn_qkv.lora_up.weight", 2, (int64_t[]){144, 2},
               NULL, 0.5f);
    add_tensor(f, "lora_unet_double_blocks_0_img_attn_qkv.lora_down.weight", 2, (int64_t[]){2, 48},
               NULL, 0.5f);
    write_file(f, lora, NULL);
    graft_model *m = load_model(engine, turned), *p = load_model(engine, plain);
    graft_model *c = with_lora(m, lora, 0.8), *d = with_lora(p, lora, 0.8);
    CHECK(apart(c, d) < CLOSE && apart(d, p) > 2 * CLOSE); /* it does something */
    RELEASE_ALL(c, d);
    graft_model *dev = load_model(engine, FLUX_DEV);
    c = merged(m, dev, 0.5, 0.5, 0.5);
    d = merged(p, dev, 0.5, 0.5, 0.5);
    CHECK(apart(c, d) < CLOSE);
    RELEASE_ALL(m, p, c, d, dev);
    unlink(turned);
    unlink(plain);
    unlink(lora);
}

/* Saved, they are float16; with quantized layers those are as if the values had been read. */
static void saved(void)
{
    const char *turned = turned_file(), *plain = plain_file();
    const char *out = temp_path("saved.safetensors");
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, turned), *p = load_model(engine, plain), *n = NULL;
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.model = m}, out, NULL, NULL, &e), &e);
    n = load_model(engine, out);
    CHECK(n->quant.bits == 0 && apart(n, p) < 2e-2);
    graft_model_release(n);
    unlink(out);
    graft_model *q = half_quantized(m), *r = half_quantized(p);
    CHECK(turned_layers(q) == 0 && apart(q, r) == 0); /* its own choice takes the file's place */
    CHECK_OK(graft_model_save_quantized(q, out, NULL, &e), &e);
    n = load_model(engine, out);
    CHECK(apart(n, q) < 4e-2);
    RELEASE_ALL(m, n, q, r, p);
    unlink(out);
    unlink(turned);
    unlink(plain);
}

/* A file that is made here: of floats, and of blocks; it says what it is, and what is no linear
 * layer, or is never quantized, stays. */
static void converted(void)
{
    const char *to = temp_path("made.safetensors"), *packed = temp_path("packed.gguf");
    graft_convert_info info;
    graft_err e = GRAFT_ERR_INIT;
    for (int turned = 0; turned < 2; turned++) {
        CHECK_OK(graft_checkpoint_convert_int8(FLUX_DEV, to, turned, &info, &e), &e);
        graft_model *m = load_model(engine, to), *dev = load_model(engine, FLUX_DEV);
        size_t chosen = 0;
        for (size_t i = 0; i < sizeof m->quant.set; i++)
            for (int k = 0; k < 8; k++) chosen += m->quant.set[i] >> k & 1;
        CHECK(info.layers > 10 && chosen == info.layers);
        CHECK(apart(m, dev) > 0 && apart(m, dev) < CLOSE);
        graft_safetensors *own = open_file(FLUX_DEV), *f = open_file(to);
        CHECK_INT(graft_safetensors_count(f), info.tensors);
        CHECK_INT(info.tensors, graft_safetensors_count(own) + 2 * info.layers);
        for (size_t i = 0; i < graft_safetensors_count(own); i++) {
            const graft_st_tensor *t = graft_safetensors_at(own, i);
            const graft_st_tensor *made = graft_safetensors_find(f, t->name);
            CHECK(made && made->rank == t->rank);
            if (made && !made->coded)
                CHECK(made->dtype == t->dtype && made->bytes == t->bytes &&
                      memcmp(made->data, t->data, t->bytes) == 0);
        }
        graft_safetensors_close(own);
        graft_safetensors_close(f);
        RELEASE_ALL(m, dev);
        CHECK_INT(graft_checkpoint_convert_int8(to, "x", turned, &info, &e), GRAFT_E_ARG);
        CHECK(strstr(e.text, "quantized already") != NULL);
        unlink(to);
    }
    made_file *g = part_of_file(FLUX_DEV, UNET);
    for (size_t i = 0; i < g->n; i++) {
        graft_st_tensor *t = &g->tensor[i], was = *t;
        was.data = memcpy(malloc(t->bytes), t->data, t->bytes);
        if (t->rank == 2 && t->shape[1] % 32 == 0) gguf_pack_tensor(t, &was);
        free((void *)(uintptr_t)was.data);
    }
    gguf_file bytes = gguf_of("flux", config_of(FLUX_DEV), g->tensor, g->n);
    gguf_write(&bytes, packed);
    free(bytes.data);
    finish_file(g);
    CHECK_OK(graft_checkpoint_convert_int8(packed, to, true, &info, &e), &e);
    graft_model *m = load_model(engine, to), *p = load_model(engine, packed);
    CHECK(apart(m, p) > 0 && apart(m, p) < CLOSE);
    RELEASE_ALL(m, p);
    unlink(packed);
    unlink(to);
    CHECK_INT(graft_checkpoint_convert_int8(GRAFT_SOURCE_DIR "/golden/small/t5.safetensors", to,
                                            true, &info, &e),
              GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_checkpoint_convert_int8("/nowhere", to, true, &info, &e), GRAFT_E_NOTFOUND);
}

/* One value of a layer, which others would be lost with. */
static void not_finite(void)
{
    static const float values[] = {NAN, INFINITY, -INFINITY};
    const char *from = temp_path("plain.safetensors"), *to = temp_path("made.safetensors");
    for (int i = 0; i < 6; i++) {
        graft_convert_info info;
        graft_err e = GRAFT_ERR_INIT;
        made_file *f = part_of_file(FLUX_DEV, UNET);
        graft_st_tensor *t = NULL;
        for (size_t k = 0; k < f->n && !t; k++)
            if (strstr(f->tensor[k].name, "double_blocks.1.img_mlp.2.weight")) t = &f->tensor[k];
        CHECK(t && t->dtype == GRAFT_F32);
        if (t) ((float *)(uintptr_t)t->data)[t->shape[1] + 3] = values[i / 2];
        write_file(f, from, config_of(FLUX_DEV));
        CHECK_INT(graft_checkpoint_convert_int8(from, to, i % 2, &info, &e), GRAFT_E_UNSUPPORTED);
        CHECK(strstr(e.text, "img_mlp.2.weight has values that are not finite") != NULL);
        CHECK(access(to, F_OK) != 0);
    }
    unlink(from);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(in_floats);
    RUN(in_integers);
    RUN(swapped);
    RUN(changed_and_merged);
    RUN(saved);
    RUN(converted);
    RUN(not_finite);
    graft_engine_destroy(engine);
    return test_end();
}
