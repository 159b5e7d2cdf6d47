/* Any bytes as a prompt, or, behind a first byte of zero, as a list of merges: chunks are whole,
 * start and end where they should, and hold tokens that exist. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/text/tokenizer.h"
#include "tests/fuzz/fuzz.h"

static void require(int cond)
{
    if (!cond) abort();
}

static void check_chunks(const graft_tokenizer *t, const char *text)
{
    graft_chunks c;
    if (graft_prompt_chunks(t, text, 0, &c, NULL) != GRAFT_OK) {
        require(c.count == 0 && !c.tokens && !c.weights);
        return;
    }
    require(c.count >= 1);
    for (size_t i = 0; i < c.count; i++) {
        const int32_t *row = c.tokens + i * GRAFT_TEXT_CHUNK;
        int ends = 0;
        require(row[0] == 49406 && c.weights[i * GRAFT_TEXT_CHUNK] == 1.0f);
        for (int k = 0; k < GRAFT_TEXT_CHUNK; k++) {
            require(row[k] >= 0 && row[k] < 49408);
            ends += row[k] == 49407;
        }
        require(ends >= 1);
    }
    graft_chunks_finish(&c);
}

static void check_tokens(const graft_tokenizer *t, const char *text, size_t n)
{
    int32_t *ids;
    size_t count;
    if (graft_tokenizer_encode(t, text, n, &ids, &count, NULL) != GRAFT_OK) return;
    for (size_t i = 0; i < count; i++) require(ids[i] >= 0 && ids[i] < 49408);
    graft_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static graft_tokenizer *builtin; /* kept: making one takes longer than most inputs */
    if (!builtin && graft_tokenizer_create(&builtin, NULL) != GRAFT_OK) return 0;
    if (size > 0 && data[0] == 0) {
        graft_tokenizer *t;
        if (graft_tokenizer_create_from((const char *)data + 1, size - 1, &t, NULL) == GRAFT_OK)
            check_tokens(t, "the quick brown fox", 19);
        graft_tokenizer_destroy(t);
        return 0;
    }
    char *text = graft_malloc(size + 1);
    if (!text) return 0;
    if (size > 0) memcpy(text, data, size);
    text[size] = '\0';
    check_tokens(builtin, text, size);
    check_chunks(builtin, text);
    graft_free(text);
    return 0;
}
