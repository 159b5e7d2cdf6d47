/* Any bytes as a prompt, with and without embeddings, or, behind a first byte of zero, as a list of
 * merges: chunks are whole, start and end where they should, and hold tokens that exist. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "engine/text/tokenizer.h"
#include "tests/fuzz/fuzz.h"

static void require(int cond)
{
    if (!cond) abort();
}

enum { VECTORS = 100 }; /* that the source below has */

typedef struct questions {
    graft_hash hash;
    size_t n;
    bool pending;    /* the last name is to be asked for again, */
    graft_hash bare; /* without its commas */
} questions;

/* What an embedding has depends on its name alone: 0 to 19 vectors, of use or not, or nothing. */
static graft_status find(void *ctx, const char *name, bool last, size_t *first, size_t *count,
                         graft_err *e)
{
    questions *q = ctx;
    size_t n = strlen(name);
    graft_hash h = graft_hash128(name, n);
    (void)e;
    require(last || (n > 1 && name[n - 1] == ','));
    require(!q->pending || (last && graft_hash_equal(h, q->bare)));
    q->hash = graft_hash_mix(q->hash, name, n + 1);
    q->n++;
    q->pending = h.lo % 4 == 0 && !last;
    while (n > 0 && name[n - 1] == ',') n--;
    q->bare = graft_hash128(name, n);
    if (h.lo % 4 == 0) return GRAFT_E_NOTFOUND;
    *count = h.lo / 4 % 20;
    *first = h.lo % 4 == 1 ? GRAFT_TEXT_NO_VECTOR : h.hi % (VECTORS - *count);
    return GRAFT_OK;
}

static void check_chunks(const graft_tokenizer *t, const char *text, bool embeddings)
{
    graft_chunks c;
    questions asked = {0}, named = {0};
    const graft_text_embeddings with = {.ctx = &asked, .find = find};
    const graft_text_embeddings names = {.ctx = &named, .find = find};
    graft_status st = graft_prompt_chunks_with(t, text, 0, embeddings ? &with : NULL, &c, NULL);
    if (embeddings) {
        require(graft_prompt_names(text, &names, NULL) == st || st == GRAFT_E_NOMEM);
        require(st != GRAFT_OK || (asked.n == named.n && asked.hash.lo == named.hash.lo));
        require(!asked.pending);
    }
    if (st != GRAFT_OK) {
        require(c.count == 0 && !c.tokens && !c.weights);
        return;
    }
    require(c.count >= 1);
    for (size_t i = 0; i < c.count; i++) {
        const int32_t *row = c.tokens + i * GRAFT_TEXT_CHUNK;
        int ends = 0;
        require(row[0] == 49406 && c.weights[i * GRAFT_TEXT_CHUNK] == 1.0f);
        for (int k = 0; k < GRAFT_TEXT_CHUNK; k++) {
            require(row[k] >= (embeddings ? -VECTORS : 0) && row[k] < 49408);
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
    check_chunks(builtin, text, false);
    check_chunks(builtin, text, true);
    graft_free(text);
    return 0;
}
