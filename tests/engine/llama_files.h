/* Qwen's models as llama.cpp has them: the language model in one GGUF file, what looks at pictures
 * in another ("mmproj"). The names are written down once more: the engine's own are what is tested.
 */
#ifndef GRAFT_TESTS_ENGINE_LLAMA_FILES_H
#define GRAFT_TESTS_ENGINE_LLAMA_FILES_H
#include <sys/stat.h>

#include "base/part.h"
#include "tests/engine/language.h"
#include "tests/gguf_file.h"

/* Renames what begins with `from`. */
static inline void move_tensors(made_file *f, const char *from, const char *to)
{
    char name[200];
    for (size_t i = 0; i < f->n; i++)
        if (strncmp(f->tensor[i].name, from, strlen(from)) == 0) {
            snprintf(name, sizeof name, "%s%s", to, f->tensor[i].name + strlen(from));
            call_tensor(&f->tensor[i], name);
        }
}

/* The first word that is in the tensor's name is replaced. */
static inline void replace_word(graft_st_tensor *t, const char *const (*words)[2])
{
    for (; (*words)[0]; words++) {
        char name[200];
        const char *at = strstr(t->name, (*words)[0]);
        if (!at) continue;
        snprintf(name, sizeof name, "%.*s%s%s", (int)(at - t->name), t->name, (*words)[1],
                 at + strlen((*words)[0]));
        call_tensor(t, name);
        return;
    }
}

/* The language model's tensors. */
static inline void call_as_llama(made_file *f)
{
    static const char *const words[][2] = {{"self_attn.q_proj", "attn_q"},
                                           {"self_attn.k_proj", "attn_k"},
                                           {"self_attn.v_proj", "attn_v"},
                                           {"self_attn.o_proj", "attn_output"},
                                           {"self_attn.q_norm", "attn_q_norm"},
                                           {"self_attn.k_norm", "attn_k_norm"},
                                           {"post_attention_layernorm", "ffn_norm"},
                                           {"input_layernorm", "attn_norm"},
                                           {"mlp.gate_proj", "ffn_gate"},
                                           {"mlp.up_proj", "ffn_up"},
                                           {"mlp.down_proj", "ffn_down"},
                                           {NULL, NULL}};
    move_tensors(f, "model.embed_tokens", "token_embd");
    move_tensors(f, "model.norm", "output_norm");
    move_tensors(f, "model.layers", "blk");
    for (size_t i = 0; i < f->n; i++)
        if (strncmp(f->tensor[i].name, "visual.", 7) != 0) replace_word(&f->tensor[i], words);
}

/* Queries and keys in its order, before call_as_llama(): row 2 i + k of a head is what row
 * k head/2 + i was. */
static inline void turn_as_llama(made_file *f, size_t head)
{
    for (size_t i = 0; i < f->n; i++) {
        graft_st_tensor *t = &f->tensor[i];
        const size_t row = (size_t)t->bytes / (size_t)t->shape[0];
        const uint8_t *from = t->data;
        uint8_t *to;
        if (!strstr(t->name, ".q_proj.") && !strstr(t->name, ".k_proj.")) continue;
        if (!(to = malloc((size_t)t->bytes))) abort();
        for (size_t r = 0; r < (size_t)t->shape[0]; r++) {
            const size_t in = r % head;
            memcpy(to + r * row, from + (r - in + in % 2 * head / 2 + in / 2) * row, row);
        }
        free((void *)(uintptr_t)from);
        t->data = to;
    }
}

/* What looks at pictures, in two parts or three where llama.cpp has so many. */
static inline void split_as_llama(made_file *to, const graft_st_tensor *t)
{
    static const char letter[] = "qkv";
    const float *v = t->data;
    const char *qkv = strstr(t->name, "attn.qkv.");
    int64_t shape[4] = {t->shape[0], t->shape[1], t->shape[3], t->shape[4]};
    char name[200];
    if (t->rank == 5) {
        const int64_t side = shape[2] * shape[3], all = shape[0] * shape[1];
        float *part = malloc((size_t)(all * side) * sizeof *part);
        if (!part) abort();
        for (int64_t k = 0; k < 2; k++) {
            for (int64_t i = 0; i < all; i++)
                memcpy(part + i * side, v + (2 * i + k) * side, (size_t)side * sizeof *part);
            snprintf(name, sizeof name, "v.patch_embd.weight%s", k ? ".1" : "");
            add_tensor(to, name, 4, shape, part, 1);
        }
        free(part);
    } else if (qkv) {
        shape[0] /= 3;
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "%.*sattn.%c.%s", (int)(qkv - t->name), t->name, letter[k],
                     qkv + strlen("attn.qkv."));
            add_tensor(to, name, t->rank, shape, v + k * graft_st_values(t) / 3, 1);
        }
    } else {
        add_tensor(to, t->name, t->rank, t->shape, v, 1);
    }
}

/* As several parts, where the name is that of one. */
static inline void write_gguf(const made_file *f, const char *architecture, const char *config,
                              const char *folder, const char *name)
{
    char path[400];
    graft_part part;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (graft_part_of(path, &part)) {
        path[graft_part_stem(&part)] = '\0';
        gguf_write_parts(path, part.count, architecture, config, f->tensor, f->n, NULL);
        return;
    }
    gguf_file bytes = gguf_of(architecture, config, f->tensor, f->n);
    gguf_write(&bytes, path);
    free(bytes.data);
}

/* The tokenizer, in the only type of one byte that GGUF has. */
static inline void add_signed(made_file *to, const graft_st_tensor *t)
{
    add_bytes(to, "", t->name, t->data, (size_t)t->bytes);
    to->tensor[to->n - 1].dtype = GRAFT_I8;
}

/* The model of f, which is used up, in a new folder: NAME in it, what looks at pictures as SIGHT.
 * `parts`: of the latter's names; queries, keys and values are apart where `split`. The folder
 * lasts until remove_folder(). */
static inline const char *llama_folder(made_file *f, const char *architecture, const char *config,
                                       const char *const (*parts)[2], bool split, const char *name,
                                       const char *sight)
{
    const char *folder = temp_path("llama");
    made_file *language = calloc(1, sizeof *language), *sees = calloc(1, sizeof *sees);
    if (!language || !sees) abort();
    mkdir(folder, 0777);
    call_as_llama(f);
    for (size_t i = 0; i < f->n; i++) {
        const graft_st_tensor *t = &f->tensor[i];
        if (strcmp(t->name, "merges_txt") == 0)
            add_signed(language, t);
        else if (strncmp(t->name, "visual.", 7) != 0)
            add_tensor(language, t->name, t->rank, t->shape, t->data, 1);
        else if (split || t->rank == 5)
            split_as_llama(sees, t);
        else
            add_tensor(sees, t->name, t->rank, t->shape, t->data, 1);
    }
    for (size_t i = 0; i < sees->n; i++) replace_word(&sees->tensor[i], parts);
    move_tensors(sees, "visual.blocks", "v.blk");
    write_gguf(language, architecture, config, folder, name);
    write_gguf(sees, "clip", NULL, folder, sight);
    finish_file(language);
    finish_file(sees);
    finish_file(f);
    return folder;
}

static inline void remove_folder(const char *folder, const char *name, const char *sight)
{
    const char *const all[] = {name, sight};
    char path[400];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        graft_part part;
        snprintf(path, sizeof path, "%s/%s", folder, all[i]);
        if (graft_part_of(path, &part)) {
            path[graft_part_stem(&part)] = '\0';
            gguf_remove_parts(path, part.count);
        } else {
            unlink(path);
        }
    }
    rmdir(folder);
}

static inline graft_clip *clip_in(graft_engine *g, const char *folder, const char *name,
                                  const char *type)
{
    char path[400];
    const char *at = path;
    graft_clip *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_OK(graft_clip_load(g, &at, 1, type, NULL, &c, &e), &e);
    if (!c) abort();
    return c;
}
#endif
