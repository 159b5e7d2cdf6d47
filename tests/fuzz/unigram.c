/* Any bytes as a SentencePiece model, behind a first line that is the text to cut up: nothing is
 * read outside, and there are only tokens that the model has. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/text/unigram.h"
#include "tests/fuzz/fuzz.h"

static void require(int cond)
{
    if (!cond) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    graft_unigram *u;
    int32_t *ids;
    size_t count, n = end ? (size_t)(end - data) : 0;
    if (!end) return 0;
    if (graft_unigram_create(end + 1, size - n - 1, &u, NULL) != GRAFT_OK) {
        require(!u);
        return 0;
    }
    const graft_unigram_tokens t = graft_unigram_tokens_of(u);
    require(t.unknown >= 0 && t.unknown < t.count);
    require(t.begin < t.count && t.end < t.count && t.pad < t.count);
    if (graft_unigram_encode(u, (const char *)data, n, &ids, &count, NULL) != GRAFT_OK)
        require(!ids && count == 0);
    for (size_t i = 0; i < count; i++) require(ids[i] >= 0 && ids[i] < t.count);
    graft_free(ids);
    graft_unigram_destroy(u);
    return 0;
}
