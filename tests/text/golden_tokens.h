/* A tokenizer against texts whose tokens another implementation gave. */
#ifndef GRAFT_TESTS_TEXT_GOLDEN_TOKENS_H
#define GRAFT_TESTS_TEXT_GOLDEN_TOKENS_H
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "tests/test.h"

/* A tokenizer's encode(), with itself as the first argument. */
typedef graft_status tokens_fn(const void *tokenizer, const char *text, size_t n, int32_t **ids,
                               size_t *count, graft_err *e);

/* For graft_free(). */
static inline char *text_of(const char *path, size_t *n)
{
    char *text = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_read(path, 1 << 20, &text, n, &e), &e);
    if (!text) abort();
    return text;
}

static inline bool same_tokens(tokens_fn *encode, const void *tokenizer, const char *text,
                               const cJSON *ids)
{
    int32_t *got = NULL;
    size_t n = 0, i = 0;
    graft_err e = GRAFT_ERR_INIT;
    const cJSON *id;
    int64_t want;
    CHECK_OK(encode(tokenizer, text, strlen(text), &got, &n, &e), &e);
    bool same = n == (size_t)cJSON_GetArraySize(ids);
    for (id = ids->child; id && same; id = id->next, i++)
        same = graft_json_i64(id, &want) && want == got[i];
    if (!same) fprintf(stderr, "    token %zu of %zu of \"%.60s\"\n", i, n, text);
    graft_free(got);
    return same;
}

/* All texts of a file, of which there are more than `least`. */
static inline void golden_tokens(const char *path, int least, tokens_fn *encode,
                                 const void *tokenizer)
{
    size_t n;
    graft_err e = GRAFT_ERR_INIT;
    cJSON *root = NULL;
    const cJSON *item;
    char *text = text_of(path, &n);
    CHECK_OK(graft_json_parse(text, n, path, &root, &e), &e);
    CHECK(cJSON_GetArraySize(root) > least);
    cJSON_ArrayForEach(item, root) CHECK(same_tokens(
        encode, tokenizer, graft_json_str(item, "text", ""), cJSON_GetObjectItem(item, "ids")));
    cJSON_Delete(root);
    graft_free(text);
}
#endif
