/* Where Qwen's vocabulary comes from: files in two forms, and what was built in. */
#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/text/qwen.h"
#include "engine/text/vocab.h"

#define PATTERN                                                                                    \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"                           \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* ------------------------------------------------------------------ what was built in */

static void *zip_malloc(void *ctx, unsigned count, unsigned size)
{
    (void)ctx;
    return graft_malloc_array(count, size);
}

static void zip_free(void *ctx, void *p)
{
    (void)ctx;
    graft_free(p);
}

/* The n bytes of gzip as they were: *bytes of them (graft_free). */
static graft_status unpack(const char *from, size_t n, char **out, size_t *bytes, graft_err *e)
{
    enum { GZIP = 16 };
    size_t cap = 0;
    int end = Z_OK;
    z_stream z = {.zalloc = zip_malloc,
                  .zfree = zip_free,
                  .next_in = (Bytef *)(uintptr_t)from,
                  .avail_in = (uInt)n};
    *out = NULL;
    *bytes = 0;
    if (inflateInit2(&z, GZIP + MAX_WBITS) != Z_OK) return graft_fail_nomem(e, "a vocabulary");
    while (end == Z_OK) {
        if (graft_grow(out, &cap, *bytes + ((size_t)1 << 20), 1) != 0) {
            end = Z_MEM_ERROR;
            break;
        }
        z.next_out = (Bytef *)*out + *bytes;
        z.avail_out = 1 << 20;
        end = inflate(&z, Z_NO_FLUSH);
        *bytes += ((size_t)1 << 20) - z.avail_out;
        if (*bytes > GRAFT_QWEN_MAX_FILE) end = Z_DATA_ERROR;
    }
    inflateEnd(&z);
    if (end == Z_STREAM_END) return GRAFT_OK;
    graft_free(*out);
    *out = NULL;
    return end == Z_MEM_ERROR ? graft_fail_nomem(e, "a vocabulary")
                              : graft_fail(e, GRAFT_E_FORMAT, "the vocabulary is damaged");
}

graft_status graft_qwen_create_own(graft_qwen **out, graft_err *e)
{
    size_t n, bytes;
    char *merges;
    const char *packed = graft_vocab_qwen(&n);
    *out = NULL;
    if (!n)
        return graft_fail(e, GRAFT_E_NOTFOUND,
                          "this build has no vocabulary of Qwen, which it could not fetch");
    graft_status st = unpack(packed, n, &merges, &bytes, e);
    if (!st) st = graft_qwen_create(merges, bytes, out, e);
    graft_free(merges);
    return st;
}

/* ------------------------------------------------------------------ vocabularies */

/* Whether the name's bytes are encoded as this token alone. */
static graft_status check_token(const graft_qwen *q, const char *name, int64_t id,
                                graft_bpe_work *work, const char *what, graft_err *e)
{
    const graft_bpe *b = graft_qwen_bpe(q);
    size_t n = strlen(name), bytes;
    if (id >= (int64_t)graft_bpe_tokens(b)) return GRAFT_OK; /* a mark, or what others added */
    uint8_t *text = graft_malloc(n + 1);
    if (!text) return graft_fail_nomem(e, "a vocabulary");
    bytes = graft_bpe_bytes(name, n, text);
    graft_status st = bytes ? graft_bpe_word(b, text, bytes, work, e) : GRAFT_OK;
    graft_free(text);
    if (st || (bytes && work->count == 1 && (int64_t)work->token[0] == id)) return st;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: \"%.80s\" is not the token that its list of merges makes", what, name);
}

static graft_status check_tokens(const graft_qwen *q, const cJSON *vocab, const char *what,
                                 graft_err *e)
{
    graft_status st = GRAFT_OK;
    graft_bpe_work work = {0};
    const cJSON *item;
    int64_t id, seen = 0;
    if (!cJSON_IsObject(vocab))
        return graft_fail(e, GRAFT_E_FORMAT, "%s: no vocabulary in it", what);
    cJSON_ArrayForEach(item, vocab)
    {
        if (!item->string || !graft_json_i64(item, &id) || id < 0) {
            st = graft_fail(e, GRAFT_E_FORMAT, "%s: a token without a number", what);
            goto out;
        }
        seen += id < (int64_t)graft_bpe_tokens(graft_qwen_bpe(q));
        GRAFT_TRY(check_token(q, item->string, id, &work, what, e));
    }
    if (seen != (int64_t)graft_bpe_tokens(graft_qwen_bpe(q)))
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: %lld tokens, but its merges make %u", what,
                        (long long)seen, graft_bpe_tokens(graft_qwen_bpe(q)));
out:
    graft_bpe_work_finish(&work);
    return st;
}

graft_status graft_qwen_check(const graft_qwen *q, const char *json, size_t n, const char *what,
                              graft_err *e)
{
    cJSON *root;
    graft_status st = graft_json_parse(json, n, what, &root, e);
    if (st) return st;
    st = check_tokens(q, root, what, e);
    cJSON_Delete(root);
    return st;
}

/* ------------------------------------------------------------------ tokenizer.json */

/* Marks have to have the numbers behind the merges'; others are left alone. */
static graft_status check_marks(const graft_qwen *q, const cJSON *added, const char *what,
                                graft_err *e)
{
    const int64_t first = graft_bpe_tokens(graft_qwen_bpe(q));
    const cJSON *item;
    cJSON_ArrayForEach(item, added)
    {
        const char *text = graft_json_str(item, "content", "");
        const int64_t id = graft_json_int(item, "id", -1);
        size_t bytes = 0;
        const int32_t mark = graft_qwen_mark(text, strlen(text), &bytes);
        if (mark >= 0 && bytes == strlen(text) && id != first + mark)
            return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: %s is token %lld, not %lld", what, text,
                              (long long)id, (long long)first + mark);
    }
    return GRAFT_OK;
}

/* A merge is two texts, or one with a space between them. */
static bool put_merge(graft_str *out, const cJSON *merge)
{
    const cJSON *left = cJSON_GetArrayItem(merge, 0), *right = cJSON_GetArrayItem(merge, 1);
    if (cJSON_IsString(merge))
        graft_str_puts(out, merge->valuestring);
    else if (cJSON_IsString(left) && cJSON_IsString(right))
        graft_str_printf(out, "%s %s", left->valuestring, right->valuestring);
    else
        return false;
    graft_str_puts(out, "\n");
    return true;
}

static bool is_qwen(const cJSON *root)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    const cJSON *normalizer = cJSON_GetObjectItemCaseSensitive(root, "normalizer");
    const cJSON *cut = cJSON_GetObjectItemCaseSensitive(root, "pre_tokenizer");
    cut = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(cut, "pretokenizers"), 0);
    cut = cJSON_GetObjectItemCaseSensitive(cut, "pattern");
    return strcmp(graft_json_str(model, "type", ""), "BPE") == 0 &&
           strcmp(graft_json_str(normalizer, "type", ""), "NFC") == 0 &&
           strcmp(graft_json_str(cut, "Regex", ""), PATTERN) == 0;
}

graft_status graft_qwen_create_json(const char *json, size_t n, const char *what, graft_qwen **out,
                                    graft_err *e)
{
    cJSON *root;
    graft_qwen *q = NULL;
    graft_str text = GRAFT_STR_INIT;
    *out = NULL;
    graft_status st = graft_json_parse(json, n, what, &root, e);
    if (st) return st;
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model"), *merge;
    if (!is_qwen(root)) {
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: no tokenizer of Qwen 2 or 3", what);
        goto out;
    }
    cJSON_ArrayForEach(merge, cJSON_GetObjectItemCaseSensitive(model, "merges"))
    {
        if (put_merge(&text, merge)) continue;
        st = graft_fail(e, GRAFT_E_FORMAT, "%s: a merge that is not of two tokens", what);
        goto out;
    }
    if (text.failed) {
        st = graft_fail_nomem(e, "a tokenizer");
        goto out;
    }
    st = graft_qwen_create(text.data ? text.data : "", text.len, &q, e);
    if (st) {
        graft_err_prefix(e, st, "%s", what);
        goto out;
    }
    GRAFT_TRY(check_tokens(q, cJSON_GetObjectItemCaseSensitive(model, "vocab"), what, e));
    GRAFT_TRY(check_marks(q, cJSON_GetObjectItemCaseSensitive(root, "added_tokens"), what, e));
    *out = q;
    q = NULL;
out:
    graft_str_finish(&text);
    graft_qwen_destroy(q);
    cJSON_Delete(root);
    return st;
}
