/* Tekken's vocabulary from a tekken.json. */
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/json.h"
#include "engine/text/tekken.h"

enum { BYTES = 256, MOST_SPECIAL = 1 << 16 };

/* What config says: how many special tokens, and how many ranks behind them. */
typedef struct sizes {
    uint32_t special, ranks;
} sizes;

/* The tokens, one after the other. */
typedef struct pool {
    uint8_t *bytes;
    size_t n, cap;
    uint32_t *end;
} pool;

/* GRAFT_E_FORMAT where it is not base64. */
static graft_status add_bytes(pool *p, const char *text, graft_err *e)
{
    const size_t n = strlen(text);
    size_t bytes;
    if (graft_grow(&p->bytes, &p->cap, p->n + n, 1) != 0) return graft_fail_nomem(e, "a tokenizer");
    if (!graft_base64_read(text, n, p->bytes + p->n, &bytes)) return GRAFT_E_FORMAT;
    p->n += bytes;
    return GRAFT_OK;
}

static graft_status read_sizes(const cJSON *root, const char *what, sizes *out, graft_err *e)
{
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(root, "config");
    if (strcmp(graft_json_str(config, "pattern", ""), GRAFT_TEKKEN_PATTERN) != 0)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: no tokenizer of Mistral's (Tekken), or one that cuts texts up in "
                          "another way",
                          what);
    const int64_t all = graft_json_int(config, "default_vocab_size", -1);
    const int64_t special = graft_json_int(config, "default_num_special_tokens", -1);
    if (special < 1 || special > MOST_SPECIAL || all < special + BYTES ||
        all > special + GRAFT_BPE_MOST)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: %lld tokens with %lld special ones", what,
                          (long long)all, (long long)special);
    *out = (sizes){(uint32_t)special, (uint32_t)(all - special)};
    return GRAFT_OK;
}

static graft_status read_ranks(const cJSON *vocab, uint32_t ranks, const char *what, pool *p,
                               graft_err *e)
{
    const cJSON *item = vocab ? vocab->child : NULL;
    if (!cJSON_IsArray(vocab)) return graft_fail(e, GRAFT_E_FORMAT, "%s: no vocabulary", what);
    p->end = graft_malloc_array(ranks, sizeof *p->end);
    if (!p->end) return graft_fail_nomem(e, "a tokenizer");
    for (uint32_t i = 0; i < ranks; i++, item = item->next) {
        if (!item)
            return graft_fail(e, GRAFT_E_FORMAT, "%s: %u tokens, but %u are to be used", what, i,
                              ranks);
        if (graft_json_int(item, "rank", i) != i)
            return graft_fail(e, GRAFT_E_FORMAT, "%s: token %u has another rank", what, i);
        graft_status st = add_bytes(p, graft_json_str(item, "token_bytes", ""), e);
        if (st == GRAFT_E_FORMAT)
            return graft_fail(e, st, "%s: the bytes of token %u are not in base64", what, i);
        if (st) return st;
        p->end[i] = (uint32_t)p->n;
    }
    return GRAFT_OK;
}

static graft_status read_marks(const cJSON *list, uint32_t special, const char *what, int32_t *id,
                               graft_err *e)
{
    static const graft_tekken_mark wanted[] = {GRAFT_TEKKEN_BEGIN,    GRAFT_TEKKEN_USER,
                                               GRAFT_TEKKEN_USER_END, GRAFT_TEKKEN_PAD,
                                               GRAFT_TEKKEN_SYSTEM,   GRAFT_TEKKEN_SYSTEM_END};
    const cJSON *item;
    const bool named = cJSON_IsArray(list);
    if (!named) list = NULL;
    for (int i = 0; i < GRAFT_TEKKEN_MARKS; i++) id[i] = !named && i < (int)special ? i : -1;
    cJSON_ArrayForEach(item, list)
    {
        const char *name = graft_json_str(item, "token_str", "");
        const int64_t token = graft_json_int(item, "rank", -1);
        if (token < 0 || token >= special)
            return graft_fail(e, GRAFT_E_FORMAT, "%s: %.40s is token %lld of %u special ones", what,
                              name, (long long)token, special);
        for (int i = 0; i < GRAFT_TEKKEN_MARKS; i++)
            if (strcmp(name, graft_tekken_name((graft_tekken_mark)i)) == 0) id[i] = (int32_t)token;
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (id[wanted[i]] < 0)
            return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: there is no token %s", what,
                              graft_tekken_name(wanted[i]));
    return GRAFT_OK;
}

graft_status graft_tekken_create_json(const char *json, size_t n, const char *what,
                                      graft_tekken **out, graft_err *e)
{
    cJSON *root;
    graft_bpe *bpe = NULL;
    pool p = {0};
    sizes s = {0};
    int32_t id[GRAFT_TEKKEN_MARKS];
    *out = NULL;
    if (n > GRAFT_TEKKEN_MAX_FILE)
        return graft_fail(e, GRAFT_E_LIMIT, "%s: a vocabulary of %zu bytes; at most %zu are read",
                          what, n, GRAFT_TEKKEN_MAX_FILE);
    graft_status st = graft_json_parse(json, n, what, &root, e);
    if (st) return st;
    GRAFT_TRY(read_sizes(root, what, &s, e));
    GRAFT_TRY(read_marks(cJSON_GetObjectItemCaseSensitive(root, "special_tokens"), s.special, what,
                         id, e));
    GRAFT_TRY(read_ranks(cJSON_GetObjectItemCaseSensitive(root, "vocab"), s.ranks, what, &p, e));
    st = graft_bpe_create_ranks(p.bytes, p.end, s.ranks, true, &bpe, e);
    if (st) {
        graft_err_prefix(e, st, "%s", what);
        goto out;
    }
    st = graft_tekken_create(bpe, s.special, id, out, e);
out:
    graft_free(p.bytes);
    graft_free(p.end);
    cJSON_Delete(root);
    return st;
}
