/* GGUF files: what ggml wrote and makes of it (golden/small/gguf), and what must be refused. */
#include "engine/weights/gguf.h"

#include <unistd.h>

#include "engine/engine.h"
#include "tests/gguf_file.h"
#include "tests/test.h"

#define GOLDEN GRAFT_SOURCE_DIR "/golden/small/gguf/"

static graft_safetensors *opened(const char *path)
{
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    if (!f) abort();
    return f;
}

static void values_are_ggmls(void)
{
    graft_safetensors *f = opened(GOLDEN "blocks.gguf"),
                      *want = opened(GOLDEN "blocks.safetensors");
    size_t packed = 0;
    CHECK(graft_safetensors_is_gguf(f) && !graft_safetensors_is_gguf(want));
    CHECK_INT(graft_safetensors_count(f), graft_safetensors_count(want));
    for (size_t i = 0; i < graft_safetensors_count(want); i++) {
        const graft_st_tensor *w = graft_safetensors_at(want, i);
        const graft_st_tensor *t = graft_safetensors_find(f, w->name);
        CHECK(t && t->rank == w->rank);
        if (!t || t->rank != w->rank) continue;
        CHECK(memcmp(t->shape, w->shape, (size_t)t->rank * sizeof *t->shape) == 0);
        CHECK(!t->blocks == (t->dtype != GRAFT_DTYPE_NONE));
        packed += t->blocks != NULL;
        const int64_t n = graft_st_values(w);
        float *got = malloc((size_t)n * sizeof *got);
        if (!got) abort();
        graft_st_to_f32(t, 0, n, got);
        if (memcmp(got, w->data, (size_t)n * sizeof *got) != 0)
            CHECK_STR(w->name, "as ggml has it");
        /* Pieces that begin and end within blocks. */
        memset(got, 0, (size_t)n * sizeof *got);
        for (int64_t at = 0, step = 1; at < n; at += step, step = step * 3 % 701 + 1)
            graft_st_to_f32(t, at, step < n - at ? step : n - at, got + at);
        CHECK(memcmp(got, w->data, (size_t)n * sizeof *got) == 0);
        free(got);
    }
    CHECK_INT(packed, 12);
    graft_safetensors_close(f);
    graft_safetensors_close(want);
}

static void converted_to_float16(void)
{
    char to[300];
    graft_convert_info info;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(to, sizeof to, "%s/gguf-converted-%ld.safetensors", GRAFT_BINARY_DIR, (long)getpid());
    CHECK_OK(graft_checkpoint_convert(GOLDEN "blocks.gguf", to, &info, &e), &e);
    CHECK_INT(info.tensors, 15);
    graft_safetensors *f = opened(to), *want = opened(GOLDEN "blocks.safetensors");
    for (size_t i = 0; i < graft_safetensors_count(want); i++) {
        const graft_st_tensor *w = graft_safetensors_at(want, i);
        const graft_st_tensor *t = graft_safetensors_find(f, w->name);
        CHECK(t && graft_st_values(t) == graft_st_values(w) && !t->blocks);
        if (!t) continue;
        CHECK_INT(t->dtype, strcmp(t->name, "f32") == 0    ? GRAFT_F32
                            : strcmp(t->name, "bf16") == 0 ? GRAFT_BF16
                                                           : GRAFT_F16);
        for (int64_t k = 0; k < graft_st_values(w); k++) {
            float got, is = ((const float *)w->data)[k];
            graft_st_to_f32(t, k, 1, &got);
            if (fabsf(got - is) > fabsf(is) * 0x1p-11f + 0x1p-25f) CHECK_NEAR(got, is, 0);
        }
    }
    graft_safetensors_close(f);
    graft_safetensors_close(want);
    CHECK_INT(graft_checkpoint_convert(to, "x", &info, &e), GRAFT_E_ARG);
    unlink(to);
}

static graft_status open_bytes(const gguf_file *f, graft_safetensors **out, graft_err *e)
{
    /* Memory of the very size, so that a look behind it is seen. */
    uint8_t *exact = malloc(f->n + !f->n);
    if (!exact) abort();
    memcpy(exact, f->data, f->n);
    graft_status st = graft_safetensors_open_memory(exact, f->n, "a", out, e);
    if (!st) { /* all that it tells must be there */
        float v[GRAFT_GGML_MAX_BLOCK];
        for (size_t i = 0; i < graft_safetensors_count(*out); i++) {
            const graft_st_tensor *t = graft_safetensors_at(*out, i);
            int64_t n = graft_st_values(t);
            if (!n || (!t->blocks && t->dtype != GRAFT_F32)) continue;
            graft_st_to_f32(t, 0, n < GRAFT_GGML_MAX_BLOCK ? n : GRAFT_GGML_MAX_BLOCK, v);
            graft_st_to_f32(t, n - 1, 1, v);
        }
        graft_safetensors_close(*out);
    }
    free(exact);
    return st;
}

static void refused(gguf_file *f, graft_status st, const char *word)
{
    graft_safetensors *out;
    graft_err e = GRAFT_ERR_INIT;
    gguf_align(f);
    CHECK_INT(open_bytes(f, &out, &e), st);
    if (!strstr(e.text, word)) CHECK_STR(e.text, word);
    free(f->data);
    *f = (gguf_file){0};
}

/* A file of one tensor, which has `bytes` bytes. */
static gguf_file one(int rank, const int64_t *shape, uint32_t type, uint64_t offset, size_t bytes)
{
    gguf_file f = {0};
    gguf_begin(&f, "test", 1);
    gguf_put_info(&f, "w", rank, shape, type, offset);
    gguf_align(&f);
    for (size_t i = 0; i < bytes; i++) gguf_put(&f, "", 1);
    return f;
}

static void bad_tensors_are_refused(void)
{
    const int64_t square[5] = {4, 32, 1, 1, 1}, odd[2] = {32, 33}, large[2] = {INT64_MAX, 2};
    const int64_t wide[1] = {(int64_t)1 << 62};
    gguf_file f = one(2, square, 8, 0, 136);
    graft_safetensors *out;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(open_bytes(&f, &out, &e), &e);
    free(f.data);
    f = one(2, square, 8, 0, 100);
    refused(&f, GRAFT_E_FORMAT, "past the end");
    f = one(2, square, 8, 64, 136);
    refused(&f, GRAFT_E_FORMAT, "past the end");
    f = one(2, square, 8, UINT64_MAX - 31, 136);
    refused(&f, GRAFT_E_FORMAT, "past the end");
    f = one(2, square, 8, 16, 200);
    refused(&f, GRAFT_E_FORMAT, "not aligned");
    f = one(2, odd, 8, 0, 2000);
    refused(&f, GRAFT_E_FORMAT, "no whole blocks of Q8_0");
    f = one(2, large, 0, 0, 64);
    refused(&f, GRAFT_E_FORMAT, "too large");
    f = one(1, wide, 0, 0, 64);
    refused(&f, GRAFT_E_FORMAT, "too large");
    f = one(5, square, 0, 0, 512);
    refused(&f, GRAFT_E_FORMAT, "5 dimensions");
    f = one(2, square, 16, 0, 512);
    refused(&f, GRAFT_E_UNSUPPORTED, "packed as IQ2_XXS");
    f = one(2, square, 999, 0, 512);
    refused(&f, GRAFT_E_UNSUPPORTED, "another version of ggml");
}

static void bad_files_are_refused(void)
{
    const int64_t shape[1] = {32};
    gguf_file f = {0};
    graft_convert_info info;
    graft_err e = GRAFT_ERR_INIT;
    gguf_begin(&f, "test", 2);
    gguf_put_info(&f, "a", 1, shape, 0, 0);
    gguf_put_info(&f, "b", 1, shape, 0, 32);
    for (int i = 0; i < 300; i++) gguf_put(&f, "", 1);
    refused(&f, GRAFT_E_FORMAT, "\"a\" and \"b\" overlaps");
    gguf_begin(&f, "test", 2);
    gguf_put_info(&f, "a", 1, shape, 0, 0);
    gguf_put_info(&f, "a", 1, shape, 0, 128);
    for (int i = 0; i < 300; i++) gguf_put(&f, "", 1);
    refused(&f, GRAFT_E_FORMAT, "\"a\" occurs twice");
    gguf_begin(&f, "test", UINT64_MAX);
    refused(&f, GRAFT_E_FORMAT, "cut short");
    gguf_begin(&f, "test", 0);
    f.data[4] = 1;
    refused(&f, GRAFT_E_UNSUPPORTED, "version 1;");
    gguf_begin(&f, "test", 0);
    f.data[4] = 0;
    f.data[7] = 3;
    refused(&f, GRAFT_E_UNSUPPORTED, "big-endian");
    gguf_put(&f, "GGUF", 4);
    refused(&f, GRAFT_E_UNSUPPORTED, "version 0;");
    char path[300];
    snprintf(path, sizeof path, "%s/gguf-cut-%ld.gguf", GRAFT_BINARY_DIR, (long)getpid());
    gguf_write(&(gguf_file){(uint8_t *)"GGUF\3\0\0\0", 8, 8}, path);
    CHECK_INT(graft_checkpoint_convert(path, "x", &info, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "cut short"));
    unlink(path);
}

static void put_pair(gguf_file *f, const char *key, uint32_t type)
{
    gguf_put(f, "GGUF", 4);
    gguf_put_number(f, 3, 4);
    gguf_put_number(f, 0, 8);
    gguf_put_number(f, 1, 8);
    gguf_put_text(f, key);
    gguf_put_number(f, type, 4);
}

static void bad_metadata_is_refused(void)
{
    gguf_file f = {0};
    graft_safetensors *out;
    graft_err e = GRAFT_ERR_INIT;
    put_pair(&f, "split.count", 2); /* joined again */
    gguf_put_number(&f, 0, 2);
    CHECK_OK(open_bytes(&f, &out, &e), &e);
    free(f.data);
    f = (gguf_file){0};
    gguf_begin_with(&f, "test", 0, 3);
    for (int i = 0; i < 2; i++) {
        gguf_put_text(&f, "comfy.gguf.orig_shape.w");
        gguf_put_number(&f, 9, 4);
        gguf_put_number(&f, 5, 4);
        gguf_put_number(&f, 1, 8);
        gguf_put_number(&f, 4, 4);
    }
    refused(&f, GRAFT_E_FORMAT, "occurs twice");
    put_pair(&f, "general.alignment", 4);
    gguf_put_number(&f, 0, 4);
    refused(&f, GRAFT_E_FORMAT, "alignment of 0");
    put_pair(&f, "general.alignment", 4);
    gguf_put_number(&f, 48, 4);
    refused(&f, GRAFT_E_FORMAT, "alignment of 48");
    put_pair(&f, "a", 13);
    gguf_put_number(&f, 0, 8);
    refused(&f, GRAFT_E_FORMAT, "unknown type 13");
    put_pair(&f, "split.count", 2);
    gguf_put_number(&f, 2, 2);
    refused(&f, GRAFT_E_UNSUPPORTED, "a: part 1 of a GGUF file in 2 parts, whose name does not");
    put_pair(&f, "split.count", 6);
    gguf_put_number(&f, 0, 4);
    refused(&f, GRAFT_E_FORMAT, "\"split.count\" is no whole number");
    put_pair(&f, "a", 9);
    for (int i = 0; i < 6; i++) { /* lists of lists */
        gguf_put_number(&f, 9, 4);
        gguf_put_number(&f, 1, 8);
    }
    refused(&f, GRAFT_E_FORMAT, "nested");
    put_pair(&f, "a", 9);
    gguf_put_number(&f, 12, 4);
    gguf_put_number(&f, UINT64_MAX / 4, 8);
    refused(&f, GRAFT_E_FORMAT, "cut short");
    put_pair(&f, "comfy.gguf.orig_shape.w", 9);
    gguf_put_number(&f, 5, 4);
    gguf_put_number(&f, 9, 8);
    refused(&f, GRAFT_E_FORMAT, "orig_shape.w\" is no shape");
}

/* Whatever is done to a file of ggml's: no look outside of it, no crash. */
static void damaged_files_do_no_harm(void)
{
    gguf_file f = {0}, cut;
    graft_safetensors *out;
    graft_err e = GRAFT_ERR_INIT;
    size_t header = 2000, good = 0;
    uint8_t bytes[20000];
    FILE *from = fopen(GOLDEN "blocks.gguf", "rb");
    if (!from) abort();
    gguf_put(&f, bytes, fread(bytes, 1, sizeof bytes, from));
    fclose(from);
    for (size_t n = 0; n < f.n; n += n < header ? 1 : 997) {
        cut = (gguf_file){f.data, n, n};
        good += open_bytes(&cut, &out, &e) == GRAFT_OK;
    }
    CHECK_INT(good, 0);
    for (size_t i = 0; i < header; i++)
        for (int bit = 0; bit < 8; bit += 3) {
            f.data[i] ^= (uint8_t)(1 << bit);
            open_bytes(&f, &out, &e);
            f.data[i] ^= (uint8_t)(1 << bit);
        }
    CHECK_OK(open_bytes(&f, &out, &e), &e);
    free(f.data);
}

static void t5_has_its_authors_names(void)
{
    static const char *const names[][2] = {
        {"token_embd.weight", "shared.weight"},
        {"enc.output_norm.weight", "encoder.final_layer_norm.weight"},
        {"enc.blk.0.attn_rel_b.weight",
         "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
        {"enc.blk.23.attn_q.weight", "encoder.block.23.layer.0.SelfAttention.q.weight"},
        {"enc.blk.1.attn_norm.weight", "encoder.block.1.layer.0.layer_norm.weight"},
        {"enc.blk.1.ffn_gate.weight", "encoder.block.1.layer.1.DenseReluDense.wi_0.weight"},
        {"enc.blk.1.ffn_up.weight", "encoder.block.1.layer.1.DenseReluDense.wi_1.weight"},
        {"enc.blk.1.ffn_down.weight", "encoder.block.1.layer.1.DenseReluDense.wo.weight"},
        {"enc.blk.1.ffn_norm.weight", "encoder.block.1.layer.1.layer_norm.weight"},
        {"enc.blk.1.other.weight", "enc.blk.1.other.weight"},
        {"enc.blk.1.ffn_up.weight.more", "enc.blk.1.ffn_up.weight.more"}};
    enum { N = sizeof names / sizeof *names };
    float value[1] = {1};
    graft_st_tensor t[N];
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < N; i++)
        t[i] = (graft_st_tensor){.name = names[i][0],
                                 .dtype = GRAFT_F32,
                                 .rank = 1,
                                 .shape = {1},
                                 .data = value,
                                 .bytes = sizeof value};
    for (int own = 0; own < 2; own++) {
        gguf_file bytes = gguf_of(own ? "test" : "t5encoder", "a config", t, N);
        CHECK_OK(graft_safetensors_open_memory(bytes.data, bytes.n, "a", &f, &e), &e);
        CHECK_STR(graft_safetensors_metadata(f, "config"), "a config");
        CHECK(!graft_safetensors_metadata(f, "general.alignment"));
        for (size_t i = 0; i < N; i++) {
            const graft_st_tensor *found = graft_safetensors_find(f, names[i][!own]);
            CHECK(found && strcmp(graft_st_called(found), names[i][0]) == 0);
        }
        graft_safetensors_close(f);
        free(bytes.data);
    }
}

/* Those of Qwen and Mistral are the same; numbers in metadata are told as texts. */
static void language_models_have_their_authors_names(void)
{
    static const char *const kinds[] = {"qwen2",   "qwen2vl", "qwen3",
                                        "qwen3vl", "llama",   "mistral3"};
    static const char *const names[][2] = {
        {"token_embd.weight", "model.embed_tokens.weight"},
        {"output_norm.weight", "model.norm.weight"},
        {"output.weight", "lm_head.weight"},
        {"blk.7.attn_q.weight", "model.layers.7.self_attn.q_proj.weight"},
        {"blk.7.attn_output.weight", "model.layers.7.self_attn.o_proj.weight"},
        {"blk.39.ffn_norm.weight", "model.layers.39.post_attention_layernorm.weight"},
        {"rope_freqs.weight", "rope_freqs.weight"}};
    enum { N = sizeof names / sizeof *names };
    float value[1] = {1};
    graft_st_tensor t[N];
    gguf_pairs more = {0};
    gguf_add_u32(&more, "kind.rope.dimension_count", 128);
    gguf_add_u32(&more, "kind.most", UINT32_MAX);
    for (size_t i = 0; i < N; i++)
        t[i] = (graft_st_tensor){.name = names[i][0],
                                 .dtype = GRAFT_F32,
                                 .rank = 1,
                                 .shape = {1},
                                 .data = value,
                                 .bytes = sizeof value};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        graft_safetensors *f = NULL;
        graft_err e = GRAFT_ERR_INIT;
        gguf_file bytes = gguf_with(kinds[k], NULL, t, N, NULL, &more);
        CHECK_OK(graft_safetensors_open_memory(bytes.data, bytes.n, "a", &f, &e), &e);
        CHECK_STR(graft_safetensors_metadata(f, "kind.rope.dimension_count"), "128");
        CHECK_STR(graft_safetensors_metadata(f, "kind.most"), "4294967295");
        for (size_t i = 0; i < N; i++) {
            const graft_st_tensor *found = graft_safetensors_find(f, names[i][1]);
            CHECK(found && strcmp(graft_st_called(found), names[i][0]) == 0);
        }
        graft_safetensors_close(f);
        free(bytes.data);
    }
    free(more.bytes.data);
}

int main(void)
{
    RUN(values_are_ggmls);
    RUN(converted_to_float16);
    RUN(bad_tensors_are_refused);
    RUN(bad_files_are_refused);
    RUN(bad_metadata_is_refused);
    RUN(damaged_files_do_no_harm);
    RUN(t5_has_its_authors_names);
    RUN(language_models_have_their_authors_names);
    return test_end();
}
