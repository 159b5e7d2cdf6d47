/* Any bytes as Mistral's tekken.json ("{"), or as a text for a small vocabulary: there are only
 * tokens that the vocabulary has. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/text/tekken.h"
#include "tests/fuzz/fuzz.h"

enum { BYTES = 256, SPECIAL = 20 };

static void require(int cond)
{
    if (!cond) abort();
}

static void check_tokens(const graft_tekken *t, const char *text, size_t n)
{
    int32_t *ids;
    size_t count;
    if (graft_tekken_encode(t, text, n, &ids, &count, NULL) != GRAFT_OK) require(!ids && !count);
    for (size_t i = 0; i < count; i++) require(ids[i] >= 0 && ids[i] < graft_tekken_tokens(t));
    graft_free(ids);
}

/* The bytes, and "th", "the", " the". */
static graft_tekken *small(void)
{
    static const char more[] = "ththe the";
    static const uint32_t ends[] = {2, 5, 9};
    uint8_t bytes[BYTES + sizeof more];
    uint32_t end[BYTES + 3];
    int32_t id[GRAFT_TEKKEN_MARKS];
    graft_bpe *bpe;
    graft_tekken *t;
    for (int i = 0; i < BYTES; i++) {
        bytes[i] = (uint8_t)i;
        end[i] = (uint32_t)i + 1;
    }
    memcpy(bytes + BYTES, more, sizeof more);
    for (int i = 0; i < 3; i++) end[BYTES + i] = BYTES + ends[i];
    for (int i = 0; i < GRAFT_TEKKEN_MARKS; i++) id[i] = i;
    if (graft_bpe_create_ranks(bytes, end, BYTES + 3, true, &bpe, NULL)) return NULL;
    return graft_tekken_create(bpe, SPECIAL, id, &t, NULL) ? NULL : t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char words[] = "<s>[INST]the quick Brown fox[/INST]\n";
    const char *text = (const char *)data;
    graft_tekken *t = NULL;
    if (size > 0 && text[0] == '{') {
        graft_status st = graft_tekken_create_json(text, size, "json", &t, NULL);
        require((t != NULL) == (st == GRAFT_OK));
        if (t) check_tokens(t, words, sizeof words - 1);
        graft_tekken_destroy(t);
    }
    t = small();
    if (t && size < 1 << 16) check_tokens(t, text, size);
    graft_tekken_destroy(t);
    return 0;
}
