/* GGUF files in several parts, as llama.cpp's gguf-split writes them: opened as one, and refused
 * where a part is missing, or not the one that its name says. */
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine.h"
#include "engine/weights/safetensors.h"
#include "tests/gguf_file.h"
#include "tests/test.h"

enum { PARTS = 3, TENSORS = 5, VALUES = 64 };

static char folder[64], stem[100];
static float values[TENSORS][VALUES];
/* Names of llama.cpp's; of the fourth the rows are no whole blocks, and the last is packed, too. */
static graft_st_tensor tensor[TENSORS];

static const char *part_path(size_t number)
{
    static char path[4][160];
    static int at;
    at = (at + 1) % 4;
    return gguf_part_path(stem, number, PARTS, path[at], sizeof *path);
}

static void make_tensors(void)
{
    static const char *const names[TENSORS] = {"token_embd.weight", "blk.0.attn_q.weight",
                                               "blk.0.attn_norm.weight", "blk.0.ffn_up.weight",
                                               "blk.0.ffn_down.weight"};
    for (int i = 0; i < TENSORS; i++) {
        for (int k = 0; k < VALUES; k++) values[i][k] = (float)(i * VALUES + k) / 8;
        graft_st_tensor *t = &tensor[i];
        *t = (graft_st_tensor){.name = names[i],
                               .dtype = GRAFT_F32,
                               .rank = 2,
                               .shape = {VALUES / 16, 16},
                               .data = values[i],
                               .bytes = sizeof values[i]};
        if (i < 3) continue;
        if (i == 4) t->shape[0] = 2, t->shape[1] = 32;
        t->data = gguf_pack_q8_0(values[i], VALUES);
        t->bytes = VALUES / 32 * 34;
        t->blocks = graft_ggml_blocks_find(8);
        t->dtype = GRAFT_DTYPE_NONE;
    }
}

/* With a tokenizer, which is made a tensor. */
static void write_parts(void)
{
    enum { TOKENS = 257 };
    gguf_pairs more = {0};
    gguf_add_text(&more, "tokenizer.ggml.model", "gpt2");
    gguf_add_text(&more, "tokenizer.ggml.pre", "qwen2");
    gguf_add_list(&more, "tokenizer.ggml.tokens", 8, TOKENS);
    for (int i = 0; i < TOKENS; i++) gguf_put_text(&more.bytes, "t");
    gguf_add_list(&more, "tokenizer.ggml.merges", 8, 1);
    gguf_put_text(&more.bytes, "t h");
    gguf_write_parts(stem, PARTS, "qwen3", "a config", tensor, TENSORS, &more);
    free(more.bytes.data);
}

static void check_tensor(const graft_safetensors *f, int i, const char *name)
{
    const graft_st_tensor *t = graft_safetensors_find(f, name);
    float got[VALUES];
    CHECK(t && t->rank == 2 && t->shape[0] == tensor[i].shape[0] &&
          t->shape[1] == tensor[i].shape[1] && t->blocks == tensor[i].blocks);
    if (!t || graft_st_values(t) != VALUES) return;
    CHECK_STR(graft_st_called(t), tensor[i].name);
    graft_st_to_f32(t, 0, VALUES, got);
    CHECK(memcmp(got, values[i], sizeof got) == 0);
}

/* By any of them; names, shapes and the tokenizer are those that the first part tells of. */
static void opened_as_one(void)
{
    static const char *const names[TENSORS] = {
        "model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.input_layernorm.weight", "model.layers.0.mlp.up_proj.weight",
        "model.layers.0.mlp.down_proj.weight"};
    write_parts();
    for (size_t number = 1; number <= PARTS; number++) {
        graft_safetensors *f = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_safetensors_open(part_path(number), &f, &e), &e);
        if (!f) continue;
        CHECK(graft_safetensors_is_gguf(f));
        CHECK_INT(graft_safetensors_count(f), TENSORS + 1);
        CHECK_STR(graft_safetensors_metadata(f, "config"), "a config");
        for (int i = 0; i < TENSORS; i++) check_tensor(f, i, names[i]);
        const graft_st_tensor *merges = graft_safetensors_find(f, "merges_txt");
        CHECK(merges && merges->bytes == 4 && memcmp(merges->data, "t h\n", 4) == 0);
        for (size_t i = 0; i < graft_safetensors_count(f); i++)
            graft_safetensors_forget(f, graft_safetensors_at(f, i));
        for (int i = 0; i < TENSORS; i++) check_tensor(f, i, names[i]);
        graft_safetensors_close(f);
    }
}

/* Of a later part nothing counts but what it says of itself. */
static void first_part_speaks_for_all(void)
{
    const gguf_split split = {1, PARTS, TENSORS};
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    gguf_file bytes = {0};
    write_parts();
    gguf_begin_with(&bytes, "t5", 2, 5);
    gguf_put_pair(&bytes, "config", "another");
    gguf_put_split(&bytes, &split);
    gguf_put_tensors(&bytes, tensor + 1, 2);
    gguf_write(&bytes, part_path(2));
    free(bytes.data);
    CHECK_OK(graft_safetensors_open(part_path(1), &f, &e), &e);
    if (!f) return;
    CHECK_STR(graft_safetensors_metadata(f, "config"), "a config");
    CHECK(graft_safetensors_find(f, "model.layers.0.self_attn.q_proj.weight"));
    graft_safetensors_close(f);
}

static void converted(void)
{
    char to[200];
    graft_convert_info info;
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_parts();
    snprintf(to, sizeof to, "%s/whole.safetensors", folder);
    CHECK_OK(graft_checkpoint_convert(part_path(2), to, &info, &e), &e);
    CHECK_INT(info.tensors, TENSORS + 1);
    CHECK_OK(graft_safetensors_open(to, &f, &e), &e);
    const graft_st_tensor *t =
        f ? graft_safetensors_find(f, "model.layers.0.mlp.up_proj.weight") : NULL;
    CHECK(t && t->dtype == GRAFT_F16 && t->shape[0] == 4 && t->shape[1] == 16);
    graft_safetensors_close(f);
    unlink(to);
}

static void refused(size_t asked, graft_status code, const char *words)
{
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_safetensors_open(part_path(asked), &f, &e), code);
    CHECK(!f && strstr(e.text, words));
    if (!strstr(e.text, words)) fprintf(stderr, "  no \"%s\" in: %s\n", words, e.text);
    graft_safetensors_close(f);
}

/* Another file in the place of a part behind the first. */
static void put_part(size_t number, const graft_st_tensor *t, size_t n, gguf_split split)
{
    gguf_file f = gguf_later_part(t, n, &split);
    gguf_write(&f, part_path(number));
    free(f.data);
}

static void what_does_not_fit(void)
{
    graft_err e = GRAFT_ERR_INIT;
    write_parts();
    CHECK_INT(unlink(part_path(2)), 0);
    refused(3, GRAFT_E_NOTFOUND, "and model-00002-of-00003.gguf is missing");
    put_part(2, tensor + 1, 2, (gguf_split){2, PARTS, TENSORS});
    refused(1, GRAFT_E_FORMAT,
            "model-00002-of-00003.gguf: it says of itself that it is part 3 of 3");
    put_part(2, tensor + 1, 2, (gguf_split){1, 4, TENSORS});
    refused(1, GRAFT_E_FORMAT,
            "model-00002-of-00003.gguf: it says of itself that it is part 2 of 4");
    put_part(2, tensor + 1, 2, (gguf_split){1, PARTS, TENSORS + 1});
    refused(1, GRAFT_E_FORMAT, "model-00002-of-00003.gguf: a part of a model of 6 tensors, but");
    put_part(2, tensor + 1, 2, (gguf_split){0});
    refused(1, GRAFT_E_FORMAT, "model-00002-of-00003.gguf: named as one of 3 parts, but it is");
    put_part(2, tensor + 1, 1, (gguf_split){1, PARTS, TENSORS});
    refused(1, GRAFT_E_FORMAT, "model-00003-of-00003.gguf: with it the model has 4 tensors, but");
    put_part(2, tensor, 4, (gguf_split){1, PARTS, TENSORS});
    refused(1, GRAFT_E_FORMAT, "model-00003-of-00003.gguf: with it the model has 7 tensors, but");
    put_part(2, tensor, 2, (gguf_split){1, PARTS, TENSORS});
    refused(1, GRAFT_E_FORMAT, "tensor \"model.embed_tokens.weight\" occurs twice");
    CHECK_OK(graft_safetensors_write(part_path(2), tensor, 2, NULL, true, &e), &e);
    refused(1, GRAFT_E_FORMAT, "model-00002-of-00003.gguf: no GGUF file, but the parts before it");
    gguf_file f = gguf_of("qwen3", NULL, tensor, TENSORS);
    gguf_write(&f, part_path(1));
    free(f.data);
    refused(1, GRAFT_E_FORMAT, "model-00001-of-00003.gguf: named as one of 3 parts, but it is");
}

/* Whichever part it is, it is seen. */
static void changes_are_noticed(void)
{
    graft_safetensors *a = NULL, *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_parts();
    CHECK_OK(graft_safetensors_open(part_path(1), &a, &e), &e);
    CHECK_OK(graft_safetensors_open(part_path(3), &b, &e), &e);
    CHECK(a && b && graft_safetensors_same(a, b));
    FILE *into = fopen(part_path(3), "r+b");
    CHECK(into && fputc(9, into) == 9);
    if (into) fclose(into);
    CHECK(a && graft_safetensors_check(a, &e) == GRAFT_E_IO);
    CHECK(strstr(e.text, "model-00003-of-00003.gguf was written to"));
    graft_safetensors_close(b);
    write_parts();
    CHECK_OK(graft_safetensors_open(part_path(1), &b, &e), &e);
    CHECK(a && b && !graft_safetensors_same(a, b));
    graft_safetensors_close(a);
    graft_safetensors_close(b);
}

static void every_allocation_fails(void)
{
    graft_alloc_stats before, after;
    graft_status st = GRAFT_E_NOMEM;
    int64_t n;
    write_parts();
    graft_alloc_stats_get(&before);
    for (n = 1; n < 200 && st; n++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_safetensors *f;
        graft_alloc_fail_at(n);
        st = graft_safetensors_open(part_path(1), &f, &e);
        graft_alloc_fail_at(0);
        if (st) CHECK_INT(st, GRAFT_E_NOMEM);
        if (st) CHECK(e.text[0] && !f);
        graft_safetensors_close(f);
    }
    CHECK(n > 20 && n < 200);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

int main(void)
{
    snprintf(folder, sizeof folder, "/tmp/graft-gguf-parts-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    snprintf(stem, sizeof stem, "%s/model", folder);
    make_tensors();
    RUN(opened_as_one);
    RUN(first_part_speaks_for_all);
    RUN(converted);
    RUN(what_does_not_fit);
    RUN(changes_are_noticed);
    RUN(every_allocation_fails);
    gguf_remove_parts(stem, PARTS);
    rmdir(folder);
    for (int i = 3; i < TENSORS; i++) free((void *)(uintptr_t)tensor[i].data);
    return test_end();
}
