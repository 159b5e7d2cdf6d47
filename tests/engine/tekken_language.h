/* Mistral's language models as text encoders, small ones: files of them with a small vocabulary of
 * their tokenizer's kind. */
#ifndef GRAFT_TESTS_ENGINE_TEKKEN_LANGUAGE_H
#define GRAFT_TESTS_ENGINE_TEKKEN_LANGUAGE_H
#include "base/file.h"
#include "engine/prompts/mistral.h"
#include "tests/engine/language.h"

/* The golden vocabulary with no more tokens than the golden models' tables have. */
static inline char *vocabulary(void)
{
    static const char many[] = "\"default_vocab_size\":803";
    char *text = NULL;
    size_t n;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_read(GRAFT_SOURCE_DIR "/golden/small/tekken/tekken.json", 1 << 20, &text,
                             &n, &e),
             &e);
    char *at = text ? strstr(text, many) : NULL;
    if (!at) abort();
    memcpy(at + strlen(many) - 3, "300", 3);
    return text;
}

static inline void add_vocabulary(made_file *f, const char *place)
{
    char *text = vocabulary();
    add_bytes(f, place, GRAFT_MISTRAL_TOKENIZER, text, strlen(text));
    graft_free(text);
}

/* The model of a golden file, below `place`, without a tokenizer. */
static inline made_file *wordless_at(const char *golden, const char *place)
{
    made_file *f = language_at(golden, place);
    char name[100];
    snprintf(name, sizeof name, "%smerges_txt", place);
    drop_tensor(f, name);
    return f;
}

/* The same beside what looks at pictures, and what only an answer takes. */
static inline made_file *whole_mistral_at(const char *golden, const char *place)
{
    made_file *f = wordless_at(golden, place);
    add_tensor(f, "vision_tower.patch_conv.weight", 4, (int64_t[]){4, 3, 2, 2}, NULL, 0.1f);
    add_tensor(f, "multi_modal_projector.linear_1.weight", 2, (int64_t[]){20, 4}, NULL, 0.1f);
    add_tensor(f, "lm_head.weight", 2, (int64_t[]){300, 20}, NULL, 0.1f);
    return f;
}
#endif
