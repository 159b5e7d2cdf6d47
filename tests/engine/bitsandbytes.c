/* Networks in files whose linear layers bitsandbytes quantized to 4 bits, in their authors' names
 * and in diffusers', where rows are joined and exchanged: as floats they have the bits of a file
 * that holds the same values, and packed they compute the same but for the order of sums. What
 * single tensors hold is weights.bitsandbytes'. */
#include "tests/engine/codes.h"
#include "tests/engine/flux.h"
#include "tests/engine/kept.h"
#include "tests/engine/renamed.h"

static graft_engine *kept, *floats;

static const renaming names[] = {
#include "tests/engine/flux_names.def"
    {"time_in.in_layer.", {"time_text_embed.timestep_embedder.linear_1."}},
    {"time_in.out_layer.", {"time_text_embed.timestep_embedder.linear_2."}},
    {"guidance_in.in_layer.", {"time_text_embed.guidance_embedder.linear_1."}},
    {"guidance_in.out_layer.", {"time_text_embed.guidance_embedder.linear_2."}},
    {"vector_in.in_layer.", {"time_text_embed.text_embedder.linear_1."}},
    {"vector_in.out_layer.", {"time_text_embed.text_embedder.linear_2."}},
    {"final_layer.adaLN_modulation.1.", {"norm_out.linear."}, .turned = true},
    {"double_blocks.#.img_mod.lin.", {"transformer_blocks.#.norm1.linear."}},
    {"double_blocks.#.txt_mod.lin.", {"transformer_blocks.#.norm1_context.linear."}},
    {"single_blocks.#.modulation.lin.", {"single_transformer_blocks.#.norm.linear."}},
    {NULL}};

enum { NF4, FP4, NF4_NESTED, FP4_NESTED, LARGE, SMALL, WAYS };
static const codes_way ways[WAYS] = {
    [NF4] = {false, false, 64},      [FP4] = {true, false, 64},    [NF4_NESTED] = {false, true, 64},
    [FP4_NESTED] = {true, true, 64}, [LARGE] = {false, true, 128}, [SMALL] = {false, false, 32}};

typedef const codes_way *ways_of(const char *name);
static const codes_way *only;

static const codes_way *one(const char *name)
{
    (void)name;
    return only;
}

/* The network of a checkpoint with its matrices so, and a file of the same values. */
static void write_both(const char *from, const renaming *table, ways_of *of, const char *packed,
                       const char *plain)
{
    made_file *f = renamed_file(from, table, ""), *m = renamed_file(from, table, "");
    for (size_t i = 0, n = f->n; i < n; i++) {
        const codes_way *w = f->tensor[i].rank == 2 ? of(f->tensor[i].name) : NULL;
        if (!w) continue;
        free((void *)(uintptr_t)m->tensor[i].data);
        m->tensor[i].data = store_as_codes(f, i, w);
    }
    write_file(f, packed, config_of(from));
    write_file(m, plain, config_of(from));
}

static double apart(const graft_model *a, const graft_model *b)
{
    float one_of[FLUX_OUT], other[FLUX_OUT];
    run_flux(a, 3.5f, one_of);
    run_flux(b, 3.5f, other);
    return same_flux_bits(one_of, other) ? 0 : difference(one_of, other, FLUX_OUT);
}

/* Of rows of 64 values and more, and of 48, where blocks go on into the next one. */
static void same_values(void)
{
    static const char *const from[] = {FLUX_SCHNELL, FLUX_DEV};
    const char *path[] = {temp_path("packed.safetensors"), temp_path("plain.safetensors")};
    for (int i = 0; i < 2 * 2 * WAYS; i++) {
        const char *checkpoint = from[i % 2];
        only = &ways[i / 4];
        write_both(checkpoint, i / 2 % 2 ? names : NULL, one, path[0], path[1]);
        last_log[0] = 0;
        graft_model *a = load_model(floats, path[0]), *b = load_model(floats, path[1]);
        CHECK_STR(last_log, "");
        if (!a || !b) continue;
        CHECK(memcmp(&a->arch, &b->arch, sizeof a->arch) == 0);
        const double d = apart(a, b);
        if (d != 0) printf("way %d, names %d: %g\n", i / 4, i / 2 % 2, d);
        CHECK(d == 0);
        graft_model *c = load_model(floats, checkpoint);
        CHECK(apart(a, c) > 0 && apart(a, c) < 0.6);
        RELEASE_ALL(a, b, c);
        unlink(path[0]);
        unlink(path[1]);
    }
}

/* Blocks of 64 values and of whole such ones stay packed, also joined; smaller ones become floats.
 */
static void stays_in_memory(void)
{
    const char *path[] = {temp_path("packed.safetensors"), temp_path("plain.safetensors")};
    for (int i = 0; i < 2 * WAYS; i++) {
        only = &ways[i / 2];
        const bool keeps = i / 2 != SMALL;
        const int32_t type = !keeps ? 0 : only->fp4 ? GRAFT_FLOAT_FP4 : GRAFT_FLOAT_NF4;
        write_both(FLUX_SCHNELL, i % 2 ? names : NULL, one, path[0], path[1]);
        graft_model *a = load_model(kept, path[0]), *b = load_model(floats, path[0]);
        if (!a || !b) continue;
        CHECK(count_kept(b) == 0 && (keeps ? count_kept(a) > 10 : count_kept(a) == 0));
        CHECK(!keeps || 2 * weight_bytes(a) < weight_bytes(b));
        check_layer(a, "double_blocks.0.img_attn.qkv.weight", type, 1);
        check_layer(a, "single_blocks.0.linear1.weight", type, 1);
        check_layer(a, "double_blocks.0.txt_mlp.0.weight", type, 1);
        check_layer(a, "img_in.weight", 0, 1); /* as in all formats */
        CHECK(apart(a, b) < SUMS);
        RELEASE_ALL(a, b);
        unlink(path[0]);
        unlink(path[1]);
    }
}

static void swapped(void)
{
    const char *path[] = {temp_path("a.safetensors"), temp_path("b.safetensors"),
                          temp_path("plain.safetensors")};
    only = &ways[NF4];
    write_both(FLUX_SCHNELL, NULL, one, path[0], path[2]);
    only = &ways[NF4_NESTED];
    write_both(FLUX_SCHNELL, names, one, path[1], path[2]);
    graft_model *a = load_model(kept, path[0]), *b = load_model(kept, path[1]);
    CHECK(apart(a, b) > 0);
    const uint64_t built = graphs_built(kept);
    graft_model *to = swap_weights(a, path[1], true);
    CHECK(apart(to, b) == 0);
    CHECK_INT(graphs_built(kept), built);
    graft_err e = GRAFT_ERR_INIT;
    char *text = NULL;
    CHECK_OK(graft_model_report(to, NULL, NULL, &text, NULL, &e), &e);
    CHECK(text && strstr(text, "NF4") && !strstr(text, "FP4"));
    free(text);
    RELEASE_ALL(a, b, to);
    for (int i = 0; i < 3; i++) unlink(path[i]);
}

/* ------------------------------------------------------------------ what cannot be joined */

static const codes_way *another_key(const char *name)
{
    return strstr(name, "attn.to_k.") ? &ways[FP4] : &ways[NF4];
}

static const codes_way *plain_key(const char *name)
{
    return strstr(name, "attn.to_k.") ? NULL : &ways[NF4];
}

static const codes_way *other_block(const char *name)
{
    return strstr(name, "attn.to_k.") ? &ways[LARGE] : &ways[NF4];
}

/* Rows of 48 values, 48 of them, are no whole blocks of 512. */
static const codes_way *large_blocks(const char *name)
{
    static const codes_way large = {false, true, 512};
    (void)name;
    return &large;
}

static const codes_way *large_halves(const char *name)
{
    return strstr(name, "norm_out") ? large_blocks(name) : &ways[NF4];
}

static void refuses(void)
{
    static const struct {
        const char *from;
        ways_of *of;
        const char *text;
    } cases[] = {{FLUX_SCHNELL, another_key, "do not fit each other"},
                 {FLUX_SCHNELL, plain_key, "do not fit each other"},
                 {FLUX_SCHNELL, other_block, "do not fit each other"},
                 {FLUX_DEV, large_blocks, "do not fit each other"},
                 {FLUX_DEV, large_halves, "not two halves"}};
    const char *path[] = {temp_path("packed.safetensors"), temp_path("plain.safetensors")};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graft_model *m = NULL;
        graft_err e = GRAFT_ERR_INIT;
        write_both(cases[i].from, names, cases[i].of, path[0], path[1]);
        CHECK_INT(graft_model_load(floats, path[0], NULL, &m, &e), GRAFT_E_FORMAT);
        if (!strstr(e.text, cases[i].text)) CHECK_STR(e.text, cases[i].text);
        graft_model_release(m);
        unlink(path[0]);
        unlink(path[1]);
    }
}

/* Its 8 bits (LLM.int8) are another thing: levels with scales for each row. */
static void refuses_8_bits(void)
{
    const char *path = temp_path("int8.safetensors");
    made_file *f = renamed_file(FLUX_SCHNELL, NULL, "");
    graft_st_tensor *t = made_find(f, "double_blocks.0.img_mlp.0.weight");
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    add_part(f, "double_blocks.0.img_mlp.0", ".SCB", GRAFT_F32, t->shape[0],
             zeros_for(t->shape[0], sizeof(float)));
    t->dtype = GRAFT_I8;
    t->bytes = (uint64_t)shape_count(t->shape, 2);
    write_file(f, path, config_of(FLUX_SCHNELL));
    CHECK(graft_model_load(floats, path, NULL, &m, &e) != GRAFT_OK);
    CHECK(strstr(e.text, "img_mlp.0.weight holds no floating-point numbers") != NULL);
    graft_model_release(m);
    unlink(path);
}

int main(void)
{
    setenv("GRAFT_PACKED", "floats", 1);
    floats = make_engine("cpu");
    setenv("GRAFT_PACKED", "keep", 1);
    kept = make_engine("cpu");
    unsetenv("GRAFT_PACKED");
    RUN(same_values);
    RUN(stays_in_memory);
    RUN(swapped);
    RUN(refuses);
    RUN(refuses_8_bits);
    graft_engine_destroy(kept);
    graft_engine_destroy(floats);
    return test_end();
}
