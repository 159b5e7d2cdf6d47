#include "engine/prompts/embedding.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/weights/values.h"

typedef struct graft_embedding {
    char *name;
    bool found;
    size_t first, count; /* what find() answers */
} graft_embedding;

void graft_embeddings_init(graft_embeddings *x, const graft_clip *c, size_t i,
                           const graft_task *task)
{
    *x = (graft_embeddings){
        .encoder = &c->encoder[i], .task = task, .key = graft_clip_encoder_name(c, i)};
}

void graft_embeddings_finish(graft_embeddings *x)
{
    for (size_t i = 0; i < x->n; i++) graft_free(x->entry[i].name);
    graft_free(x->entry);
    graft_free(x->vectors);
    *x = (graft_embeddings){0};
}

static void leave_out(const graft_embeddings *x, const char *name, const char *why)
{
    graft_log_printf(&x->task->log, GRAFT_LOG_WARN, "embedding \"%.200s\" is left out: %s", name,
                     why);
}

static bool is_list(const graft_st_tensor *t)
{
    bool number = t->dtype == GRAFT_F32 || t->dtype == GRAFT_F16 || t->dtype == GRAFT_BF16 ||
                  t->dtype == GRAFT_F64 || t->dtype == GRAFT_F8_E4M3 || t->dtype == GRAFT_F8_E5M2;
    return number && (t->rank == 1 || t->rank == 2);
}

static bool fits(const graft_embeddings *x, const graft_st_tensor *t)
{
    return t && is_list(t) && t->shape[t->rank - 1] == x->encoder->arch.width;
}

/* The tensor for this encoder: by name, then whichever fits; one that does not fit if none does. */
static const graft_st_tensor *choose(const graft_embeddings *x, const graft_safetensors *f)
{
    const char *const names[] = {x->key, "emb_params"};
    size_t n = graft_safetensors_count(f);
    for (size_t i = 0; i < 2; i++) {
        const graft_st_tensor *t = graft_safetensors_find(f, names[i]);
        if (fits(x, t)) return t;
    }
    for (size_t i = 0; i < n; i++)
        if (fits(x, graft_safetensors_at(f, i))) return graft_safetensors_at(f, i);
    for (size_t i = 0; i < n; i++)
        if (is_list(graft_safetensors_at(f, i))) return graft_safetensors_at(f, i);
    return NULL;
}

/* Appends the tensor's values; false in *finite, and nothing appended, if one is NaN or infinite.
 */
static graft_status append(graft_embeddings *x, const graft_st_tensor *t, size_t count,
                           bool *finite, graft_err *e)
{
    size_t width = (size_t)x->encoder->arch.width, n = count * width;
    size_t from = x->n_vectors * width;
    if (graft_grow(&x->vectors, &x->vectors_cap, from + n, sizeof *x->vectors))
        return graft_fail_nomem(e, "an embedding");
    graft_to_f32(t->dtype, t->data, x->vectors + from, n);
    *finite = true;
    for (size_t i = 0; i < n; i++) *finite = *finite && isfinite(x->vectors[from + i]);
    if (*finite) x->n_vectors += count;
    return GRAFT_OK;
}

static graft_status take(graft_embeddings *x, const graft_safetensors *f, graft_embedding *m,
                         graft_err *e)
{
    const graft_st_tensor *t = choose(x, f);
    char why[160];
    bool finite = true;
    if (!t) {
        leave_out(x, m->name, "its file has no list of vectors");
        return GRAFT_OK;
    }
    int64_t n = t->rank == 1 ? 1 : t->shape[0];
    if (n < 1 || n > GRAFT_EMBEDDING_MAX_VECTORS) {
        snprintf(why, sizeof why, "it has %lld vectors, and may have 1 to %d", (long long)n,
                 GRAFT_EMBEDDING_MAX_VECTORS);
        leave_out(x, m->name, why);
        return GRAFT_OK;
    }
    /* Of SDXL's two encoders one may have a use for it: the other one's text keeps in step. */
    m->first = GRAFT_TEXT_NO_VECTOR;
    m->count = (size_t)n;
    if (!fits(x, t)) {
        snprintf(why, sizeof why, "its vectors have %lld values, and this text encoder's have %d",
                 (long long)t->shape[t->rank - 1], x->encoder->arch.width);
        leave_out(x, m->name, why);
        return GRAFT_OK;
    }
    size_t first = x->n_vectors;
    graft_status st = append(x, t, m->count, &finite, e);
    if (st) return st;
    if (finite)
        m->first = first;
    else
        leave_out(x, m->name, "a value in its file is not a finite number");
    return GRAFT_OK;
}

/* Whether the failure is about the file, and not about this process. */
static bool is_files(graft_status st)
{
    return st != GRAFT_OK && st != GRAFT_E_NOMEM && st != GRAFT_E_CANCEL;
}

static graft_status load(graft_embeddings *x, graft_embedding *m, bool last, graft_err *e)
{
    graft_err why = GRAFT_ERR_INIT;
    graft_safetensors *f = NULL;
    char *path = NULL;
    graft_status st = x->task->embedding(x->task->ctx, m->name, &path, &why);
    m->found = st == GRAFT_OK;
    if (st == GRAFT_OK) st = graft_safetensors_open(path, &f, &why);
    if (st == GRAFT_OK) st = graft_safetensors_check(f, &why);
    if (st == GRAFT_OK) {
        st = take(x, f, m, e);
    } else if (is_files(st)) {
        if (m->found || last) leave_out(x, m->name, why.text);
        st = GRAFT_OK;
    } else {
        graft_fail(e, st, "%s", why.text);
    }
    graft_safetensors_close(f);
    graft_free(path);
    return st;
}

graft_status graft_embeddings_find(void *ctx, const char *name, bool last, size_t *first,
                                   size_t *count, graft_err *e)
{
    graft_embeddings *x = ctx;
    graft_embedding *m = NULL;
    for (size_t i = 0; i < x->n && !m; i++)
        if (strcmp(x->entry[i].name, name) == 0) m = &x->entry[i];
    if (!m) {
        if (graft_grow(&x->entry, &x->cap, x->n + 1, sizeof *x->entry))
            return graft_fail_nomem(e, "an embedding");
        m = &x->entry[x->n];
        *m = (graft_embedding){.name = graft_strdup(name)};
        if (!m->name) return graft_fail_nomem(e, "an embedding");
        x->n++;
        graft_status st = load(x, m, last, e);
        if (st) return st;
    }
    *first = m->first;
    *count = m->count;
    return m->found ? GRAFT_OK : GRAFT_E_NOTFOUND;
}

/* ------------------------------------------------------------------ names */

typedef struct looker {
    graft_status (*look)(void *ctx, const char *name);
    void *ctx;
} looker;

static graft_status look(void *ctx, const char *name, bool last, size_t *first, size_t *count,
                         graft_err *e)
{
    const looker *l = ctx;
    (void)last, (void)first, (void)count, (void)e;
    return l->look(l->ctx, name);
}

graft_status graft_prompt_embeddings(const char *text,
                                     graft_status (*look_up)(void *ctx, const char *name),
                                     void *ctx, graft_err *e)
{
    looker l = {look_up, ctx};
    const graft_text_embeddings names = {.ctx = &l, .find = look};
    return graft_prompt_names(text, &names, e);
}
