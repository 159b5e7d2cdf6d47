/* Files whose weights are floats of 8 bits times a number each, as other programs write them. What
 * they compute has the bits of a file that holds the products in float32. */
#include "base/e4m3.h"
#include "base/half.h"
#include "tests/engine/flux.h"
#include "tests/engine/merge.h"

static graft_engine *engine;

/* Adds a tensor of one dtype that the file owns. */
static void add_typed(made_file *f, const char *name, graft_dtype dtype, int rank,
                      const int64_t *shape, void *data)
{
    graft_st_tensor *t = &f->tensor[f->n++];
    *t = (graft_st_tensor){.name = strdup(name), .dtype = dtype, .rank = rank, .data = data};
    t->bytes = (uint64_t)shape_count(shape, rank) * graft_dtype_size(dtype);
    for (int i = 0; i < rank; i++) t->shape[i] = shape[i];
}

static void *copied(const void *from, size_t bytes)
{
    return memcpy(malloc(bytes + 1), from, bytes);
}

/* How a program calls the scale, and writes it: one number, or a list of one. */
typedef struct style {
    const char *suffix, *input;
    int rank;
    bool e5m2;
} style;
static const style styles[] = {{".scale_weight", ".scale_input", 0, false},
                               {".weight_scale", ".input_scale", 1, true}};

/* The network of FLUX_DEV, with the matrices of its blocks so, and the same with the products. */
static void write_both(const style *s, const char *scaled, const char *plain)
{
    made_file *m = part_of_file(FLUX_DEV, UNET), *f = calloc(1, sizeof *f);
    for (size_t i = 0; i < m->n; i++) {
        graft_st_tensor *t = &m->tensor[i];
        const size_t n = (size_t)shape_count(t->shape, t->rank);
        float *v = (float *)(uintptr_t)t->data, most = 0;
        char name[300];
        if (t->rank != 2 || !strstr(t->name, "_blocks.")) {
            add_tensor(f, t->name, t->rank, t->shape, v, 0);
            continue;
        }
        for (size_t k = 0; k < n; k++) most = fmaxf(most, fabsf(v[k]));
        const float scale = most / (s->e5m2 ? 30000 : 448);
        uint8_t *level = malloc(n + 1);
        for (size_t k = 0; k < n; k++) {
            uint16_t half = graft_f32_to_f16(v[k] / scale);
            level[k] = s->e5m2 ? (uint8_t)(half >> 8) : graft_f32_to_f8_e4m3(v[k] / scale);
            v[k] = (s->e5m2 ? graft_f16_to_f32((uint16_t)(level[k] << 8))
                            : graft_f8_e4m3_to_f32(level[k])) *
                   scale;
        }
        add_typed(f, t->name, s->e5m2 ? GRAFT_F8_E5M2 : GRAFT_F8_E4M3, 2, t->shape, level);
        snprintf(name, sizeof name, "%.*s%s", (int)(strlen(t->name) - 7), t->name, s->suffix);
        add_typed(f, name, GRAFT_F32, s->rank, (const int64_t[]){1}, copied(&scale, sizeof scale));
        snprintf(name, sizeof name, "%.*s%s", (int)(strlen(t->name) - 7), t->name, s->input);
        add_tensor(f, name, s->rank, (const int64_t[]){1}, NULL, 1);
    }
    add_typed(f, "scaled_fp8", GRAFT_F8_E4M3, 1, (const int64_t[]){2}, copied("ab", 2));
    write_file(f, scaled, config_of(FLUX_DEV));
    write_file(m, plain, config_of(FLUX_DEV));
}

static void same_as_products(void)
{
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
        const char *path[] = {temp_path("scaled.safetensors"), temp_path("plain.safetensors")};
        float got[FLUX_OUT], want[FLUX_OUT];
        write_both(&styles[i], path[0], path[1]);
        last_log[0] = 0;
        graft_model *a = load_model(engine, path[0]), *b = load_model(engine, path[1]);
        CHECK_STR(last_log, ""); /* nothing of the file is unknown */
        run_flux(a, 3.5f, got);
        run_flux(b, 3.5f, want);
        CHECK(same_flux_bits(got, want));
        graft_model *dev = load_model(engine, FLUX_DEV);
        run_flux(dev, 3.5f, want);
        CHECK(!same_flux_bits(got, want) && difference(got, want, FLUX_OUT) < 0.5);
        graft_model *to = swap_weights(dev, path[0], true);
        run_flux(to, 3.5f, want);
        CHECK(same_flux_bits(got, want));
        RELEASE_ALL(a, b, dev, to);
        unlink(path[0]);
        unlink(path[1]);
    }
}

/* Levels are the same there: only the scale tells such weights apart. */
static void scales_are_content(void)
{
    const char *path[2] = {temp_path("one.safetensors"), temp_path("two.safetensors")};
    float got[2][FLUX_OUT];
    for (int i = 0; i < 2; i++) {
        made_file *f = part_of_file(FLUX_DEV, UNET);
        const float scale = i ? 0.75f : 1.5f;
        add_typed(f, "double_blocks.0.img_attn.qkv.scale_weight", GRAFT_F32, 0, NULL,
                  copied(&scale, sizeof scale)); /* of weights that are no 8-bit floats */
        write_file(f, path[i], config_of(FLUX_DEV));
        graft_model *m = load_model(engine, path[i]);
        run_flux(m, 3.5f, got[i]);
        graft_model_release(m);
        unlink(path[i]);
    }
    CHECK(difference(got[0], got[1], FLUX_OUT) > 1e-4);
}

/* Saved, they are float16; with quantized layers those, and the others with their scales. */
static void saved(void)
{
    const char *path[] = {temp_path("scaled.safetensors"), temp_path("plain.safetensors")};
    const char *out = temp_path("saved.safetensors");
    float got[FLUX_OUT], want[FLUX_OUT];
    graft_err e = GRAFT_ERR_INIT;
    write_both(&styles[0], path[0], path[1]);
    graft_model *m = load_model(engine, path[0]), *n = NULL;
    run_flux(m, 3.5f, want);
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.model = m}, out, NULL, NULL, &e), &e);
    last_log[0] = 0;
    n = load_model(engine, out);
    CHECK_STR(last_log, "");
    run_flux(n, 3.5f, got);
    CHECK(difference(got, want, FLUX_OUT) < 2e-2);
    graft_model_release(n);
    unlink(out);
    graft_model *q = half_quantized(m);
    run_flux(q, 3.5f, want);
    CHECK_OK(graft_model_save_quantized(q, out, NULL, &e), &e);
    last_log[0] = 0;
    n = load_model(engine, out);
    CHECK_STR(last_log, "");
    run_flux(n, 3.5f, got);
    CHECK(same_flux_bits(got, want));
    RELEASE_ALL(m, n, q);
    unlink(out);
    unlink(path[0]);
    unlink(path[1]);
}

/* With a LoRA's own weights go no others, which the model without it still has. */
static void loras_leave_other_packs(void)
{
    const char *path[] = {temp_path("scaled.safetensors"), temp_path("plain.safetensors")};
    const char *lora = temp_path("lora.safetensors");
    graft_packs_stats before, with, after;
    float out[FLUX_OUT];
    write_both(&styles[0], path[0], path[1]);
    made_file *f = calloc(1, sizeof *f);
    add_tensor(f, "lora_unet_txt_in.lora_up.weight", 2, (int64_t[]){48, 1}, NULL, 0.3f);
    add_tensor(f, "lora_unet_txt_in.lora_down.weight", 2, (int64_t[]){1, 24}, NULL, 0.3f);
    write_file(f, lora, NULL);
    graft_model *m = load_model(engine, path[0]);
    run_flux(m, 3.5f, out);
    graft_packs_stats_get(engine->packs, &before);
    graft_model *l = with_lora(m, lora, 1);
    run_flux(l, 3.5f, out);
    graft_packs_stats_get(engine->packs, &with);
    CHECK_INT(with.made, before.made + 1);
    graft_model_release(l);
    graft_packs_stats_get(engine->packs, &after);
    CHECK_INT(after.bytes, before.bytes);
    run_flux(m, 3.5f, out);
    graft_packs_stats_get(engine->packs, &after);
    CHECK_INT(after.made, with.made);
    graft_model_release(m);
    unlink(path[0]);
    unlink(path[1]);
    unlink(lora);
}

/* A file without scales is not another architecture for that. */
static void swaps_are_refused_for_what_differs(void)
{
    const char *path[] = {temp_path("scaled.safetensors"), temp_path("plain.safetensors")};
    graft_err e = GRAFT_ERR_INIT;
    write_both(&styles[0], path[0], path[1]);
    made_file *f = part_of_file(FLUX_DEV, UNET);
    graft_st_tensor *t = made_find(f, "txt_in.weight");
    t->shape[1] -= 4; /* of a text encoder of another width */
    t->bytes = (uint64_t)shape_count(t->shape, 2) * sizeof(float);
    write_file(f, path[1], config_of(FLUX_DEV));
    graft_model *m = load_model(engine, path[0]), *n = NULL;
    CHECK_INT(graft_model_swap(m, path[1], false, NULL, &n, &e), GRAFT_E_ARG);
    CHECK(!n && strstr(e.text, "txt_in.weight has the shape"));
    graft_model_release(m);
    unlink(path[0]);
    unlink(path[1]);
}

/* A file of one matrix of four numbers, and what stands for its scale, in `bytes` bytes. */
static void opened(const char *type, int weight_bytes, const char *scale, const void *data,
                   int bytes, graft_status status, const char *words)
{
    uint8_t file[512] = {0};
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int n = snprintf((char *)file + 8, sizeof file - 8,
                     "{\"a.weight\":{\"dtype\":\"%s\",\"shape\":[2,2],\"data_offsets\":[0,%d]},"
                     "\"a.scale_weight\":{%s,\"data_offsets\":[%d,%d]}}",
                     type, weight_bytes, scale, weight_bytes, weight_bytes + bytes);
    file[0] = (uint8_t)n;
    file[1] = (uint8_t)(n >> 8);
    memcpy(file + 8 + n + weight_bytes, data, (size_t)bytes);
    size_t size = 8 + (size_t)(n + weight_bytes + bytes);
    CHECK_INT(graft_safetensors_open_memory(file, size, "some.safetensors", &f, &e), status);
    CHECK(status ? !f && strstr(e.text, "some.safetensors") && strstr(e.text, words) : f != NULL);
    if (f) graft_safetensors_close(f);
}

static void other_ways(void)
{
    static const char one[] = "\"dtype\":\"F32\",\"shape\":[]";
    const float fits = 2, zero = 0, none = NAN, two[2] = {1, 2};
    const int64_t whole = 3;
    opened("F8_E4M3", 4, one, &fits, 4, GRAFT_OK, "");
    opened("BF16", 8, one, &fits, 4, GRAFT_OK, "");
    opened("F8_E4M3", 4, one, &zero, 4, GRAFT_E_FORMAT, "0 or not finite");
    opened("F8_E4M3", 4, one, &none, 4, GRAFT_E_FORMAT, "0 or not finite");
    opened("F8_E4M3", 4, "\"dtype\":\"F32\",\"shape\":[2]", two, 8, GRAFT_E_UNSUPPORTED,
           "another way");
    opened("F8_E4M3", 4, "\"dtype\":\"I64\",\"shape\":[1]", &whole, 8, GRAFT_E_UNSUPPORTED,
           "another way");
    opened("U8", 4, one, &fits, 4, GRAFT_E_UNSUPPORTED, "another way");
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(same_as_products);
    RUN(scales_are_content);
    RUN(saved);
    RUN(loras_leave_other_packs);
    RUN(swaps_are_refused_for_what_differs);
    RUN(other_ways);
    graft_engine_destroy(engine);
    return test_end();
}
