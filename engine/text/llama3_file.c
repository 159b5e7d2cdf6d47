/* Llama 3's vocabulary from a tokenizer.json. */
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/text/bpe.h"
#include "engine/text/llama3.h"

#define PATTERN                                                                                    \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"                      \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static bool is_llama3(const cJSON *root)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    const cJSON *cut = cJSON_GetObjectItemCaseSensitive(root, "pre_tokenizer");
    cut = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(cut, "pretokenizers"), 0);
    cut = cJSON_GetObjectItemCaseSensitive(cut, "pattern");
    return strcmp(graft_json_str(model, "type", ""), "BPE") == 0 &&
           strcmp(graft_json_str(cut, "Regex", ""), PATTERN) == 0;
}

/* The names by their numbers, which are all from 0 to n - 1; GRAFT_E_FORMAT where they are not. */
static graft_status put_names(const cJSON *vocab, const char **name, size_t n, const char *what,
                              graft_err *e)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, vocab)
    {
        int64_t id;
        if (!item->string || !graft_json_i64(item, &id) || id < 0 || (uint64_t)id >= n || name[id])
            return graft_fail(e, GRAFT_E_FORMAT, "%s: its %zu tokens are not numbered from 0 on",
                              what, n);
        name[id] = item->string;
    }
    return GRAFT_OK;
}

/* As a list of lines. */
static graft_status put_lines(const cJSON *vocab, const char *what, graft_str *out, graft_err *e)
{
    const int size = cJSON_IsObject(vocab) ? cJSON_GetArraySize(vocab) : 0;
    const size_t n = size > 0 && size <= GRAFT_BPE_MOST ? (size_t)size : 0;
    if (!n) return graft_fail(e, GRAFT_E_FORMAT, "%s: no vocabulary in it", what);
    const char **name = graft_calloc(n, sizeof *name);
    if (!name) return graft_fail_nomem(e, "a tokenizer");
    graft_status st = put_names(vocab, name, n, what, e);
    for (size_t i = 0; i < n && !st; i++) {
        graft_str_puts(out, name[i]);
        graft_str_puts(out, "\n");
    }
    graft_free(name);
    return st || !out->failed ? st : graft_fail_nomem(e, "a tokenizer");
}

/* Marks have to have the numbers behind all tokens; others are left alone. */
static graft_status check_marks(const graft_llama3 *t, const cJSON *added, const char *what,
                                graft_err *e)
{
    const int64_t first = graft_llama3_token(t, GRAFT_LLAMA3_BEGIN);
    const cJSON *item;
    cJSON_ArrayForEach(item, added)
    {
        const char *text = graft_json_str(item, "content", "");
        const int64_t id = graft_json_int(item, "id", -1);
        size_t bytes = 0;
        const int32_t mark = graft_llama3_mark_at(text, strlen(text), &bytes);
        if (mark >= 0 && bytes == strlen(text) && id != first + mark &&
            !strstr(text, "reserved_special") && !strstr(text, "finetune"))
            return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: %s is token %lld, not %lld", what, text,
                              (long long)id, (long long)first + mark);
    }
    return GRAFT_OK;
}

graft_status graft_llama3_create_json(const char *json, size_t n, const char *what,
                                      graft_llama3 **out, graft_err *e)
{
    cJSON *root;
    graft_llama3 *t = NULL;
    graft_str lines = GRAFT_STR_INIT;
    *out = NULL;
    if (n > GRAFT_LLAMA3_MAX_FILE)
        return graft_fail(e, GRAFT_E_LIMIT, "%s: a vocabulary of %zu bytes; at most %zu are read",
                          what, n, GRAFT_LLAMA3_MAX_FILE);
    graft_status st = graft_json_parse(json, n, what, &root, e);
    if (st) return st;
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    if (!is_llama3(root)) {
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: no tokenizer of Llama 3", what);
        goto out;
    }
    GRAFT_TRY(put_lines(cJSON_GetObjectItemCaseSensitive(model, "vocab"), what, &lines, e));
    st = graft_llama3_create(lines.data, lines.len, &t, e);
    if (st) {
        graft_err_prefix(e, st, "%s", what);
        goto out;
    }
    GRAFT_TRY(check_marks(t, cJSON_GetObjectItemCaseSensitive(root, "added_tokens"), what, e));
    *out = t;
    t = NULL;
out:
    graft_str_finish(&lines);
    graft_llama3_destroy(t);
    cJSON_Delete(root);
    return st;
}
