/* Qwen's language models as text encoders, small ones: files of them with a small tokenizer, and
 * what holds of each: prompts are what the model gives for the text that they are put into, a
 * checkpoint's network says what they are for, and no allocation that fails is lost. */
#ifndef GRAFT_TESTS_ENGINE_LANGUAGE_H
#define GRAFT_TESTS_ENGINE_LANGUAGE_H
#include "base/alloc.h"
#include "engine/prompts/qwen3.h"
#include "tests/engine/diffusers.h"

/* The tokenizer's merges: fewer tokens than the small models' tables have. */
#define MERGES "t h\nth e\n\xc4\xa0 the\n\xc4\x8a \xc4\x8a\n"

/* ------------------------------------------------------------------ files */

static inline void add_bytes(made_file *f, const char *place, const char *name, const char *data,
                             size_t n)
{
    char full[200];
    snprintf(full, sizeof full, "%s%s", place, name);
    void *room = add_tensor(f, full, 1, (int64_t[]){(int64_t)n / 4 + 1}, NULL, 0);
    graft_st_tensor *t = &f->tensor[f->n - 1];
    memcpy(room, data, n);
    t->dtype = GRAFT_U8;
    t->shape[0] = (int64_t)n;
    t->bytes = n;
}

static inline void add_merges(made_file *f, const char *place)
{
    add_bytes(f, place, "merges_txt", MERGES, strlen(MERGES));
}

/* The model of a golden file, below `place`, with its tokenizer. */
static inline made_file *language_at(const char *golden, const char *place)
{
    made_file *f = golden_file(golden);
    char name[200];
    for (size_t i = 0; i < f->n; i++) {
        snprintf(name, sizeof name, "%s%s", place, f->tensor[i].name);
        call_tensor(&f->tensor[i], name);
    }
    add_merges(f, place);
    return f;
}

/* With this config. Takes f. */
static inline graft_status try_clip_with(graft_engine *g, made_file *f, const char *config,
                                         const char *type, graft_clip **out, graft_err *e)
{
    const char *path = temp_path("encoder.safetensors");
    write_file(f, path, config);
    *out = NULL;
    graft_status st = graft_clip_load(g, &path, 1, type, NULL, out, e);
    unlink(path);
    return st;
}

/* Takes f. */
static inline graft_status try_clip(graft_engine *g, made_file *f, const char *type,
                                    graft_clip **out, graft_err *e)
{
    return try_clip_with(g, f, NULL, type, out, e);
}

/* Takes f. */
static inline graft_clip *clip_with(graft_engine *g, made_file *f, const char *config,
                                    const char *type)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    CHECK_OK(try_clip_with(g, f, config, type, &c, &e), &e);
    if (!c) abort();
    return c;
}

/* Takes f. */
static inline graft_clip *clip_as(graft_engine *g, made_file *f, const char *type)
{
    return clip_with(g, f, NULL, type);
}

/* That it is not loaded as this type, for a reason that says `words`. Takes f. */
static inline void clip_with_refused(graft_engine *g, made_file *f, const char *config,
                                     const char *type, graft_status status, const char *words)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    CHECK_INT(try_clip_with(g, f, config, type, &c, &e), status);
    CHECK(!c && strstr(e.text, words));
    if (!strstr(e.text, words)) fprintf(stderr, "  as %s no \"%s\" in: %s\n", type, words, e.text);
    graft_clip_release(c);
}

/* Takes f. */
static inline void clip_refused(graft_engine *g, made_file *f, const char *type,
                                graft_status status, const char *words)
{
    clip_with_refused(g, f, NULL, type, status, words);
}

/* Without any of the tensors that are read, which is named; `tells`: that by which a model is known
 * as one of Qwen's; `unread`: behind those that are read, or NULL. */
static inline void clip_lacks_tensors(graft_engine *g, made_file *make(void), const char *type,
                                      const char *tells, const char *unread)
{
    made_file *all = make();
    for (size_t i = 0; i < all->n; i++) {
        const char *name = all->tensor[i].name;
        graft_err e = GRAFT_ERR_INIT;
        graft_clip *c = NULL;
        made_file *f = make();
        drop_tensor(f, name);
        if (all->tensor[i].dtype == GRAFT_U8) {
            finish_file(f); /* a tokenizer */
        } else if (unread && strcmp(name, unread) == 0) {
            CHECK_OK(try_clip(g, f, type, &c, &e), &e);
            graft_clip_release(c);
        } else if (strcmp(name, tells) == 0) {
            clip_refused(g, f, type, GRAFT_E_UNSUPPORTED, "no Qwen 2.5 text encoder");
        } else {
            clip_refused(g, f, type, GRAFT_E_FORMAT, name);
        }
    }
    finish_file(all);
}

/* ------------------------------------------------------------------ prompts */

static inline graft_cond *encoded(const graft_clip *c, const char *text)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *out = NULL;
    CHECK_OK(graft_clip_encode(c, text, NULL, &out, &e), &e);
    if (!out) abort();
    return out;
}

static inline bool same_cond(const graft_cond *a, const graft_cond *b)
{
    const graft_cond_entry *k = a->entry[0], *l = b->entry[0];
    if (k->tokens != l->tokens || k->width != l->width || k->pooled_width != l->pooled_width)
        return false;
    return memcmp(k->data, l->data, (size_t)(k->tokens * k->width) * sizeof *k->data) == 0 &&
           (!k->pooled_width ||
            memcmp(k->pooled, l->pooled, (size_t)k->pooled_width * sizeof *k->pooled) == 0);
}

static inline bool encode_alike(const graft_clip *a, const graft_clip *b, const char *text)
{
    graft_cond *k = encoded(a, text), *l = encoded(b, text);
    const bool same = same_cond(k, l);
    graft_cond_release(k);
    graft_cond_release(l);
    return same;
}

/* The file gives the encoder c. Takes f. */
static inline void found_in(graft_engine *g, made_file *f, const char *type, const graft_clip *c)
{
    graft_clip *other = clip_as(g, f, type);
    CHECK(encode_alike(c, other, "the red apple"));
    graft_clip_release(other);
}

/* A prompt is what the model gives for all of `whole` but `before`, which it begins with. */
static inline void prompt_gives(const graft_clip *c, const char *text, const char *before,
                                const char *whole, graft_qwen3_taken taken)
{
    const graft_build_options o = {.no_disk = true};
    const graft_qwen3 *q = c->qwen3;
    const size_t row = (size_t)c->width;
    int32_t *ids = NULL, *asked = NULL;
    size_t n = 0, first = 0;
    graft_err e = GRAFT_ERR_INIT;
    if (before[0])
        CHECK_OK(graft_qwen_encode(q->tokenizer, before, strlen(before), &asked, &first, &e), &e);
    CHECK_OK(graft_qwen_encode(q->tokenizer, whole, strlen(whole), &ids, &n, &e), &e);
    CHECK(n > first && (first > 0) == (before[0] != 0));
    if (first && text[0] != '\n') /* which becomes one with a line break before it */
        CHECK(memcmp(ids, asked, first * sizeof *ids) == 0);
    float *want = calloc(n, row * sizeof *want);
    CHECK_OK(graft_qwen3_run(c->engine, &o, &q->arch, q->weights, taken, ids, (int64_t)n, NULL,
                             want, &e),
             &e);
    graft_cond *k = encoded(c, text);
    CHECK(k->n == 1 && k->entry[0]->width == (int64_t)row && !k->entry[0]->pooled);
    CHECK_INT(k->entry[0]->tokens, n - first);
    if (k->entry[0]->tokens == (int64_t)(n - first))
        CHECK(memcmp(k->entry[0]->data, want + first * row, (n - first) * row * sizeof *want) == 0);
    graft_cond_release(k);
    graft_free(ids);
    graft_free(asked);
    free(want);
}

/* ------------------------------------------------------------------ checkpoints, memory */

/* What a checkpoint's encoder is for, its network says: with the golden one `net`, f's is c. Saved
 * with it, it is found again. config: of the checkpoint. Takes f. */
static inline void found_beside_as(graft_engine *g, made_file *f, const char *net,
                                   const char *config, const graft_clip *c, int kind)
{
    const char *path = temp_path("whole.safetensors"), *to = temp_path("again.safetensors");
    made_file *own = golden_file(net);
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < own->n; i++)
        add_tensor(f, own->tensor[i].name, own->tensor[i].rank, own->tensor[i].shape,
                   own->tensor[i].data, 0);
    finish_file(own);
    write_file(f, path, config);
    for (int i = 0; i < 2; i++) {
        graft_model *m = NULL;
        graft_clip *again = NULL;
        CHECK_OK(graft_checkpoint_load(g, i ? to : path, NULL, &m, &again, NULL, &e), &e);
        if (!m || !again) abort();
        CHECK((int)m->arch.kind == kind && again->kind == c->kind);
        CHECK(encode_alike(c, again, "the the"));
        const graft_checkpoint what = {.model = m, .clip = again};
        if (!i) CHECK_OK(graft_checkpoint_save(&what, to, NULL, NULL, &e), &e);
        graft_model_release(m);
        graft_clip_release(again);
    }
    unlink(path);
    unlink(to);
}

/* With the network's config. */
static inline void found_beside(graft_engine *g, made_file *f, const char *net, const graft_clip *c,
                                int kind)
{
    found_beside_as(g, f, net, config_of(net), c, kind);
}

/* Each allocation of a prompt fails in turn, of which there are at least so many. */
static inline void encodes_short_of_memory(const graft_clip *c, int least)
{
    graft_cond *want = encoded(c, "the");
    const int64_t live = live_blocks();
    int failed = 0;
    for (bool done = false; !done && failed < 1000;) {
        graft_err e = GRAFT_ERR_INIT;
        graft_cond *got = NULL;
        graft_alloc_fail_at(failed + 1);
        graft_status st = graft_clip_encode(c, "the", NULL, &got, &e);
        graft_alloc_fail_at(0);
        done = st == GRAFT_OK;
        if (done)
            CHECK(same_cond(got, want));
        else
            CHECK_INT(st, GRAFT_E_NOMEM);
        failed += !done;
        graft_cond_release(got);
    }
    CHECK(failed >= least && failed < 1000);
    CHECK_INT(live_blocks(), live);
    graft_cond_release(want);
}
#endif
