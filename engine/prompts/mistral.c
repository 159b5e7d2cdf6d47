#include "engine/prompts/mistral.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "engine/models/transformers/flux2.h"

#define WISH                                                                                       \
    "You are an AI that reasons about image descriptions. You give structured responses focusing " \
    "on object relationships, object attribution and actions without speculation."

/* ------------------------------------------------------------------ the tokenizer */

static graft_status read_beside(const char *path, graft_tekken **out, graft_err *e)
{
    char *name = graft_path_beside(path, GRAFT_MISTRAL_TOKENIZER_FILE), *text = NULL;
    size_t n;
    graft_status st = name ? graft_file_read(name, GRAFT_TEKKEN_MAX_FILE, &text, &n, e)
                           : graft_fail_nomem(e, "a file's name");
    if (!st) st = graft_tekken_create_json(text, n, name, out, e);
    graft_free(text);
    graft_free(name);
    return st;
}

graft_status graft_mistral_load_tokenizer(graft_qwen3 *q, const graft_safetensors *f,
                                          const char *place, graft_err *e)
{
    const char *path = graft_safetensors_path(f);
    const graft_st_tensor *in = graft_qwen3_tokenizer_in(f, place, GRAFT_MISTRAL_TOKENIZER);
    graft_status st;
    if (in) {
        st = graft_tekken_create_json(in->data, (size_t)in->bytes, GRAFT_MISTRAL_TOKENIZER,
                                      &q->tekken, e);
        if (st) return graft_err_prefix(e, st, "%s", path);
    } else {
        st = read_beside(path, &q->tekken, e);
        if (st == GRAFT_E_NOTFOUND)
            return graft_fail(e, st,
                              "%s: %s without its tokenizer: there is no %s in it; "
                              "put " GRAFT_MISTRAL_TOKENIZER_FILE " of %s beside it",
                              path, graft_qwen3_family(&q->arch),
                              graft_safetensors_is_gguf(f) ? "metadata of Tekken"
                                                           : "tensor " GRAFT_MISTRAL_TOKENIZER,
                              q->arch.ministral ? "Ministral 3" : "Mistral Small");
        if (st) return st;
    }
    if (graft_tekken_tokens(q->tekken) > q->arch.vocab)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: its table has %d tokens, fewer than the %d of its tokenizer", path,
                          q->arch.vocab, graft_tekken_tokens(q->tekken));
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ prompts */

/* A text without the marks that stand for pictures, of which there are none. */
static void put_without_pictures(graft_str *out, const char *text)
{
    const char *mark = graft_tekken_name(GRAFT_TEKKEN_PICTURE), *at;
    for (; (at = strstr(text, mark)); text = at + strlen(mark))
        graft_str_append(out, text, (size_t)(at - text));
    graft_str_puts(out, text);
}

static graft_status tokens_of(const graft_qwen3 *q, const char *text, int32_t **ids, size_t *n,
                              graft_err *e)
{
    graft_str all = GRAFT_STR_INIT;
    graft_str_printf(&all, "%s%s" WISH "%s%s", graft_tekken_name(GRAFT_TEKKEN_BEGIN),
                     graft_tekken_name(GRAFT_TEKKEN_SYSTEM),
                     graft_tekken_name(GRAFT_TEKKEN_SYSTEM_END),
                     graft_tekken_name(GRAFT_TEKKEN_USER));
    put_without_pictures(&all, text);
    graft_str_puts(&all, graft_tekken_name(GRAFT_TEKKEN_USER_END));
    graft_status st = all.failed ? graft_fail_nomem(e, "a prompt")
                                 : graft_tekken_encode(q->tekken, all.data, all.len, ids, n, e);
    graft_str_finish(&all);
    return st;
}

graft_status graft_ministral_encode(graft_engine *engine, const graft_build_options *options,
                                    const graft_qwen3 *q, const char *text, const graft_task *task,
                                    float **hidden, int64_t *tokens, graft_err *e)
{
    graft_str all = GRAFT_STR_INIT;
    int32_t *ids = NULL;
    size_t n = 0;
    graft_str_printf(&all, "%s%s", graft_tekken_name(GRAFT_TEKKEN_BEGIN), text);
    graft_status st = all.failed ? graft_fail_nomem(e, "a prompt")
                                 : graft_tekken_encode(q->tekken, all.data, all.len, &ids, &n, e);
    graft_str_finish(&all);
    if (!st)
        st = graft_qwen3_hidden(engine, options, q, GRAFT_QWEN3_TAKE_MOST, ids, n, NULL, 0, 0, task,
                                hidden, tokens, e);
    graft_free(ids);
    return st;
}

graft_status graft_mistral_encode(graft_engine *engine, const graft_build_options *options,
                                  const graft_qwen3 *q, const char *text, const graft_task *task,
                                  float **hidden, int64_t *tokens, graft_err *e)
{
    const size_t width = (size_t)q->arch.width * graft_qwen3_times(GRAFT_QWEN3_TAKE_LED);
    int32_t *ids = NULL;
    float *out = NULL;
    size_t words = 0;
    graft_status st = tokens_of(q, text, &ids, &words, e);
    const size_t n = words > GRAFT_FLUX2_TOKENS ? words : GRAFT_FLUX2_TOKENS;
    if (!st && !(out = graft_malloc_array(n, width * sizeof *out)))
        st = graft_fail_nomem(e, "text encoder");
    if (!st)
        st = graft_qwen3_run_led(engine, options, &q->arch, q->weights, ids, (int64_t)words,
                                 graft_tekken_token(q->tekken, GRAFT_TEKKEN_PAD), (int64_t)n, task,
                                 out, e);
    graft_free(ids);
    if (st) {
        graft_free(out);
        return st;
    }
    *hidden = out;
    *tokens = (int64_t)n;
    return GRAFT_OK;
}
