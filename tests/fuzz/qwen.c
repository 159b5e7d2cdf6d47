/* Any bytes as Qwen's tokenizer.json ("{"), as its merges behind a line of text, or as a text for a
 * small vocabulary: there are only tokens that the vocabulary has. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/text/qwen.h"
#include "tests/fuzz/fuzz.h"

static void require(int cond)
{
    if (!cond) abort();
}

static void check_tokens(const graft_qwen *q, const char *text, size_t n)
{
    int32_t *ids;
    size_t count;
    if (graft_qwen_encode(q, text, n, &ids, &count, NULL) != GRAFT_OK) require(!ids && !count);
    for (size_t i = 0; i < count; i++) require(ids[i] >= 0 && ids[i] < graft_qwen_tokens(q));
    graft_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char small[] = "t h\nth e\n\xc4\xa0 the\n\xc4\x8a \xc4\x8a\n";
    static const char words[] = "<|im_start|>user\nthe quick brown fox<|im_end|>\n";
    const char *text = (const char *)data;
    const char *end = size > 0 ? memchr(text, '\n', size) : NULL;
    graft_qwen *q = NULL;
    if (size > 0 && text[0] == '{') {
        graft_status st = graft_qwen_create_json(text, size, "json", &q, NULL);
        require((q != NULL) == (st == GRAFT_OK));
        if (q) check_tokens(q, words, sizeof words - 1);
        graft_qwen_destroy(q);
        return 0;
    }
    if (end) {
        const size_t n = (size_t)(end - text);
        graft_status st = graft_qwen_create(end + 1, size - n - 1, &q, NULL);
        require((q != NULL) == (st == GRAFT_OK));
        if (q) check_tokens(q, text, n);
        graft_qwen_destroy(q);
    }
    if (graft_qwen_create(small, sizeof small - 1, &q, NULL)) return 0;
    if (size < 1 << 16) check_tokens(q, text, size);
    graft_qwen_destroy(q);
    return 0;
}
