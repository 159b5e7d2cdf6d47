/* Weights of 16 bits in float32's products: half of the memory, and no bit of a result that is not
 * what it is without; text encoders, which have them, also with a LoRA, for which they are not
 * enough. */
#include "base/half.h"
#include "tests/cuda/networks.h"
#include "tests/kernels/cases.h"

#define TEXT "cond_stage_model."

static uint64_t packed_bytes(const kernel_lib *cuda, const kernel_case *c)
{
    const graft_op_desc d = case_desc(c, GRAFT_F32);
    graft_kernel_info info = {.size = sizeof info};
    graft_kernel *k = NULL;
    char text[200] = "";
    CHECK_INT(cuda->api->prepare(cuda->device, &d, -1, &k, &info, text, sizeof text), GRAFT_OK);
    cuda->api->release(k);
    return info.packed_bytes[GRAFT_LINEAR_W];
}

static void same_in_all_variants(const kernel_lib *cuda, kernel_case c, graft_dtype source)
{
    float *val[GRAFT_MAX_INPUTS];
    case_result wide, narrow = {.variants = 1};
    c.source = source;
    case_values(&c, source, 7, val);
    for (int32_t v = -1; v < narrow.variants; v++) {
        size_t n = (size_t)element_count(&c.desc.out);
        c.desc.in[GRAFT_LINEAR_W].dtype = GRAFT_F32;
        uint64_t bytes = packed_bytes(cuda, &c);
        case_run(cuda, &c, GRAFT_F32, v, val, &wide);
        c.desc.in[GRAFT_LINEAR_W].dtype = source;
        CHECK_INT(packed_bytes(cuda, &c) * 2, bytes);
        case_run(cuda, &c, GRAFT_F32, v, val, &narrow);
        CHECK_STR(narrow.fault, "");
        CHECK_STR(narrow.variant, wide.variant);
        bool same = memcmp(narrow.out, wide.out, n * sizeof *wide.out) == 0;
        CHECK(same);
        if (!same) fprintf(stderr, "  %s, variant %d\n", c.name, (int)v);
        free(wide.out);
        free(narrow.out);
    }
    values_free(val);
}

static void products_have_the_same_bits(void)
{
    kernel_lib cuda;
    size_t count, run = 0, every = NETWORKS > 1 ? 1 : 4; /* the emulator is slow under ASan */
    kernel_case *c = kernel_cases(&count);
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    for (size_t i = 0, found = 0; i < count; i++) {
        bool linear = c[i].desc.op == GRAFT_OP_LINEAR && !c[i].desc.attrs.quant &&
                      cuda.api->supports(cuda.device, &c[i].desc);
        if (!linear || found++ % every) continue;
        same_in_all_variants(&cuda, c[i], run++ % 2 ? GRAFT_F16 : GRAFT_BF16);
    }
    printf("     %zu products\n", run);
    CHECK(run > 40 / every);
    free(c);
    lib_close(&cuda);
}

/* ------------------------------------------------------------------ text encoders */

static void to_half(graft_st_tensor *t)
{
    float *v = (float *)(uintptr_t)t->data;
    int64_t n = shape_count(t->shape, t->rank);
    for (int64_t i = 0; i < n; i++) ((uint16_t *)(void *)v)[i] = graft_f32_to_f16(v[i]);
    t->dtype = GRAFT_F16;
    t->bytes = (uint64_t)n * 2;
}

/* The demo model's text encoder, which is of F16, in that or in float32. `odd`: one matrix that
 * stays as it is. */
static void write_text(const char *path, bool half, const char *odd)
{
    graft_safetensors *f = open_file(DEMO);
    made_file *m = copy_file(f, TEXT);
    for (size_t i = 0; i < m->n && half; i++)
        if (!odd || !strstr(m->tensor[i].name, odd)) to_half(&m->tensor[i]);
    write_file(m, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
}

/* Strong enough to show. */
static void write_lora(const char *path)
{
    made_file *m = calloc(1, sizeof *m);
    add_tensor(m, "lora_te_text_model_encoder_layers_1_mlp_fc2.lora_up.weight", 2,
               (int64_t[]){128, 2}, NULL, 0.1f);
    add_tensor(m, "lora_te_text_model_encoder_layers_1_mlp_fc2.lora_down.weight", 2,
               (int64_t[]){2, 512}, NULL, 0.1f);
    write_file(m, path, NULL);
}

typedef struct encoded {
    graft_cond *cond;
    int64_t bytes; /* of the device, that are there afterwards and were not before */
} encoded;

static encoded encode(graft_engine *g, const char *path, const char *lora)
{
    graft_clip *c = NULL, *changed = NULL;
    graft_err e = GRAFT_ERR_INIT;
    encoded out = {NULL, 0};
    CHECK_OK(graft_clip_load(g, &path, 1, "stable_diffusion", NULL, &c, &e), &e);
    if (lora) {
        CHECK_OK(graft_lora_apply(NULL, c, lora, 0, 1, NULL, NULL, &changed, &e), &e);
        graft_clip_release(c);
        c = changed;
    }
    int64_t before = fake->live_bytes;
    CHECK_OK(graft_clip_encode(c, "red (apple:1.2)", NULL, &out.cond, &e), &e);
    out.bytes = fake->live_bytes - before;
    graft_clip_release(c);
    return out;
}

static encoded encode_anew(const char *backend, const char *path, const char *lora)
{
    graft_engine *g = engine_in(backend, "bf16"); /* which text encoders do not ask for */
    encoded out = encode(g, path, lora);
    graft_engine_destroy(g);
    return out;
}

static double cond_difference(const graft_cond *a, const graft_cond *b)
{
    const graft_cond_entry *x = a->entry[0], *y = b->entry[0];
    CHECK_INT(x->tokens * x->width, y->tokens * y->width);
    return difference(x->data, y->data, (int)(x->tokens * x->width));
}

static void encoders_stay_narrow(void)
{
    const char *wide = temp_path("wide.safetensors"), *half = temp_path("half.safetensors");
    const char *mixed = temp_path("mixed.safetensors");
    write_text(wide, false, NULL);
    write_text(half, true, NULL);
    write_text(mixed, true, "layers.1.mlp.fc1.weight");
    encoded a = encode_anew("cuda", wide, NULL), b = encode_anew("cuda", half, NULL);
    encoded c = encode_anew("cuda", mixed, NULL), ref = encode_anew("ref", wide, NULL);
    printf("     a text encoder in %lld bytes, wide %lld\n", (long long)b.bytes,
           (long long)a.bytes);
    CHECK(cond_difference(a.cond, b.cond) == 0);
    CHECK(cond_difference(a.cond, c.cond) == 0);
    CHECK(cond_difference(a.cond, ref.cond) < 1e-4);
    /* Two layers of 12 * 128 * 128 weights, which had four bytes each; the largest is written out.
     */
    CHECK(b.bytes <= a.bytes - 2 * 12 * 128 * 128 * 2 + 512 * 128 * 4);
    CHECK(c.bytes > a.bytes - 4096);
    graft_cond_release(a.cond);
    graft_cond_release(b.cond);
    graft_cond_release(c.cond);
    graft_cond_release(ref.cond);
    unlink(wide);
    unlink(half);
    unlink(mixed);
}

/* What a LoRA makes needs float32, also where the same engine had the encoder without it. */
static void loras_are_not_rounded(void)
{
    const char *wide = temp_path("wide.safetensors"), *half = temp_path("half.safetensors");
    const char *lora = temp_path("lora.safetensors");
    write_text(wide, false, NULL);
    write_text(half, true, NULL);
    write_lora(lora);
    encoded want = encode_anew("cuda", wide, lora);
    graft_engine *g = engine_in("cuda", "f32");
    encoded plain = encode(g, half, NULL), with = encode(g, half, lora);
    encoded again = encode(g, half, NULL);
    graft_engine_destroy(g);
    CHECK(cond_difference(with.cond, want.cond) == 0);
    CHECK(cond_difference(plain.cond, again.cond) == 0);
    CHECK(cond_difference(plain.cond, with.cond) > 1e-3);
    graft_cond_release(want.cond);
    graft_cond_release(plain.cond);
    graft_cond_release(with.cond);
    graft_cond_release(again.cond);
    unlink(wide);
    unlink(half);
    unlink(lora);
}

int main(void)
{
    if (!open_fake()) return close_fake();
    products_have_the_same_bits();
    encoders_stay_narrow();
    loras_are_not_rounded();
    return close_fake();
}
