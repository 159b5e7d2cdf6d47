/* Mistral's vocabulary as llama.cpp keeps it in the metadata of a GGUF file. */
#ifndef GRAFT_TESTS_TEKKEN_GGUF_H
#define GRAFT_TESTS_TEKKEN_GGUF_H
#include "base/base64.h"
#include "base/json.h"
#include "engine/text/tekken.h"
#include "tests/gguf_file.h"

enum { TEKKEN_CONTROL = 3, TEKKEN_NORMAL = 1 };

/* The character of GPT-2's byte alphabet: its own, or one of those from U+0100 on. */
static inline unsigned tekken_character(unsigned byte)
{
    unsigned other = 0x100;
    for (unsigned b = 0; b < 256; b++) {
        const bool own = (b > 32 && b < 127) || (b > 160 && b != 173);
        if (b == byte) return own ? b : other;
        other += !own;
    }
    return 0;
}

static inline void put_token(gguf_file *f, const uint8_t *bytes, size_t n)
{
    gguf_put_number(f, 2 * n, 8); /* at most; set right below */
    const size_t at = f->n;
    for (size_t i = 0; i < n; i++) {
        const unsigned c = tekken_character(bytes[i]);
        const char two[2] = {(char)(0xc0 | c >> 6), (char)(0x80 | (c & 63))};
        const char one = (char)c;
        if (c < 128)
            gguf_put(f, &one, 1);
        else
            gguf_put(f, two, 2);
    }
    for (int i = 0; i < 8; i++) f->data[at - 8 + (size_t)i] = (uint8_t)((f->n - at) >> 8 * i);
}

/* The first `tokens` of a tekken.json without a list of special tokens, those among them. Kinds
 * that are not as usual: `kind[i]` of token i, up to `n_kinds`. */
static inline void add_tekken(gguf_pairs *p, const char *json, const char *cut, uint32_t tokens,
                              const int32_t *kind, uint32_t n_kinds)
{
    cJSON *root = cJSON_Parse(json);
    const cJSON *item = cJSON_GetObjectItem(root, "vocab")->child;
    const uint32_t special = (uint32_t)graft_json_int(cJSON_GetObjectItem(root, "config"),
                                                      "default_num_special_tokens", 0);
    uint8_t bytes[1000];
    gguf_add_text(p, "tokenizer.ggml.model", "gpt2");
    gguf_add_text(p, "tokenizer.ggml.pre", cut);
    gguf_add_list(p, "tokenizer.ggml.tokens", 8, tokens);
    for (uint32_t i = 0; i < tokens; i++) {
        char name[40];
        snprintf(name, sizeof name, "<SPECIAL_%u>", i);
        if (i < special) {
            gguf_put_text(&p->bytes,
                          i < GRAFT_TEKKEN_MARKS ? graft_tekken_name((graft_tekken_mark)i) : name);
        } else {
            const char *text = graft_json_str(item, "token_bytes", "");
            size_t n;
            if (!graft_base64_read(text, strlen(text), bytes, &n)) abort();
            put_token(&p->bytes, bytes, n);
            item = item->next;
        }
    }
    gguf_add_list(p, "tokenizer.ggml.token_type", 5, tokens);
    for (uint32_t i = 0; i < tokens; i++)
        gguf_put_number(&p->bytes,
                        i < n_kinds   ? (uint32_t)kind[i]
                        : i < special ? TEKKEN_CONTROL
                                      : TEKKEN_NORMAL,
                        4);
    cJSON_Delete(root);
}
#endif
