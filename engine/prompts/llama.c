#include "engine/prompts/llama.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/text/tokenizer.h"

/* ------------------------------------------------------------------ the tokenizer */

static graft_status read_json(const char *path, graft_llama3 **out, graft_err *e)
{
    char *text = NULL;
    size_t n;
    graft_status st = graft_file_read(path, GRAFT_LLAMA3_MAX_FILE, &text, &n, e);
    if (!st) st = graft_llama3_create_json(text, n, path, out, e);
    graft_free(text);
    return st;
}

/* A file of this name beside `path`, or among text encoders. */
static graft_status read_named(const char *path, const char *name, const graft_task *task,
                               graft_llama3 **out, graft_err *e)
{
    char *full = graft_path_beside(path, name);
    graft_status st = full ? read_json(full, out, e) : graft_fail_nomem(e, "a file's name");
    graft_free(full);
    if (st != GRAFT_E_NOTFOUND || !task || !task->text_file) return st;
    full = NULL;
    st = task->text_file(task->ctx, name, &full, e);
    if (!st) st = read_json(full, out, e);
    graft_free(full);
    return st;
}

static graft_status read_any(const char *path, const graft_task *task, graft_llama3 **out,
                             graft_err *e)
{
    static const char *const names[] = {GRAFT_LLAMA_TOKENIZER_FILE, GRAFT_LLAMA_TOKENIZER_JSON};
    graft_status st = GRAFT_E_NOTFOUND;
    for (size_t i = 0; i < sizeof names / sizeof *names && st == GRAFT_E_NOTFOUND; i++)
        st = read_named(path, names[i], task, out, e);
    return st;
}

graft_status graft_llama_load_tokenizer(graft_qwen3 *q, const graft_safetensors *f,
                                        const char *place, const graft_task *task, graft_err *e)
{
    const char *path = graft_safetensors_path(f);
    const graft_st_tensor *in = graft_qwen3_tokenizer_in(f, place, GRAFT_LLAMA_TOKENIZER);
    graft_status st;
    if (in) {
        st = graft_llama3_create(in->data, (size_t)in->bytes, &q->llama, e);
        if (st) return graft_err_prefix(e, st, "%s: its tokenizer", path);
    } else {
        st = read_any(path, task, &q->llama, e);
        if (st == GRAFT_E_NOTFOUND)
            return graft_fail(e, st,
                              "%s: Llama 3.1 without its tokenizer: put tokenizer.json of Llama "
                              "3.1, also as " GRAFT_LLAMA_TOKENIZER_FILE
                              ", beside it or into models/text_encoders",
                              path);
        if (st) return st;
    }
    if (graft_llama3_tokens(q->llama) > q->arch.vocab)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: its table has %d tokens, fewer than the %d of its tokenizer", path,
                          q->arch.vocab, graft_llama3_tokens(q->llama));
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ prompts */

typedef struct word_list {
    const graft_qwen3 *q;
    int32_t *id;
    size_t n, cap;
} word_list;

static graft_status add(word_list *w, const int32_t *id, size_t n, graft_err *e)
{
    if (graft_grow(&w->id, &w->cap, w->n + n, sizeof *w->id))
        return graft_fail_nomem(e, "a prompt");
    if (n) memcpy(w->id + w->n, id, n * sizeof *id);
    w->n += n;
    return GRAFT_OK;
}

static graft_status add_segment(void *ctx, const char *text, size_t n, double weight, graft_err *e)
{
    word_list *w = ctx;
    int32_t *id = NULL;
    size_t count = 0;
    (void)weight;
    graft_status st = graft_llama3_encode(w->q->llama, text, n, &id, &count, e);
    if (!st) st = add(w, id, count, e);
    graft_free(id);
    return st;
}

graft_status graft_llama_tokens(const graft_qwen3 *q, const char *text, int32_t **ids, size_t *n,
                                graft_err *e)
{
    word_list w = {.q = q};
    const int32_t begin = graft_llama3_token(q->llama, GRAFT_LLAMA3_BEGIN);
    graft_status st = add(&w, &begin, 1, e);
    if (!st) st = graft_prompt_segments(text, add_segment, &w, e);
    if (st) {
        graft_free(w.id);
        return st;
    }
    *ids = w.id;
    *n = w.n;
    return GRAFT_OK;
}

graft_status graft_llama_encode(graft_engine *engine, const graft_build_options *options,
                                const graft_qwen3 *q, const int32_t *ids, size_t words,
                                size_t tokens, const graft_task *task, float **hidden, graft_err *e)
{
    const size_t width = (size_t)q->arch.width * (size_t)q->arch.layers;
    const int32_t padding = graft_llama3_token(q->llama, GRAFT_LLAMA3_TURN);
    int32_t *all = graft_malloc_array(tokens, sizeof *all);
    float *out = graft_malloc_array(tokens, width * sizeof *out);
    graft_status st = all && out ? GRAFT_OK : graft_fail_nomem(e, "text encoder");
    for (size_t i = 0; i < tokens && !st; i++) all[i] = i < words ? ids[i] : padding;
    if (!st)
        st = graft_qwen3_run_every(engine, options, &q->arch, q->weights, all, (int64_t)words,
                                   (int64_t)tokens, task, out, e);
    graft_free(all);
    if (st) {
        graft_free(out);
        return st;
    }
    *hidden = out;
    return GRAFT_OK;
}
