/* Stable Diffusion 3's text encoders (arXiv:2403.03206, figure 2): L's and G's columns side by
 * side, with zeros behind them up to the width that the model takes; and their pooled outputs. An
 * encoder that is not there leaves zeros. */
#include <string.h>

#include "base/alloc.h"
#include "engine/prompts/clip_hooks.h"
#include "engine/prompts/t5.h"

/* Where there is no encoder to ask. */
#define WIDTH_L 768
#define WIDTH_G 1280

enum { L, G, PLACES };

/* What stands in one place. */
typedef struct place {
    const graft_encoder *encoder; /* NULL: nothing */
    graft_encoded text;
    int64_t width, pooled;
} place;

static void find_places(const graft_clip *c, place p[PLACES])
{
    memset(p, 0, PLACES * sizeof *p);
    p[L].width = p[L].pooled = WIDTH_L;
    p[G].width = p[G].pooled = WIDTH_G;
    for (size_t i = 0; i < c->n_encoders; i++) {
        place *at = &p[c->encoder[i].large ? G : L];
        at->encoder = &c->encoder[i];
        at->width = c->encoder[i].arch.width;
        at->pooled = graft_encoder_pooled_width(&c->encoder[i]);
    }
}

/* Texts of their own are made as long as the longest of them, as SDXL's are. */
static graft_status make_equal(const graft_clip *c, place p[PLACES], const graft_task *task,
                               graft_err *e)
{
    size_t longest = 0;
    graft_status st = GRAFT_OK;
    for (int i = 0; i < PLACES; i++)
        if (p[i].text.chunks > longest) longest = p[i].text.chunks;
    for (int i = 0; i < PLACES && !st; i++)
        if (p[i].text.hidden)
            st = graft_clip_lengthen(c, (size_t)(p[i].encoder - c->encoder), longest, task,
                                     &p[i].text, e);
    return st;
}

/* As many chunks as all that spoke have; one where none did. */
static size_t chunks_of(const place p[PLACES])
{
    size_t n = 0;
    for (int i = 0; i < PLACES; i++)
        if (p[i].text.hidden && (!n || p[i].text.chunks < n)) n = p[i].text.chunks;
    return n ? n : 1;
}

/* What T5 gives. */
typedef struct more_words {
    float *hidden; /* (tokens, c->t5's width) */
    int64_t tokens;
} more_words;

/* L's and G's columns into the first tokens. */
static void put_columns(const place p[PLACES], size_t tokens, int64_t width, float *data)
{
    int64_t column = 0;
    for (int i = 0; i < PLACES; i++) {
        size_t w = (size_t)p[i].width;
        for (size_t t = 0; p[i].text.hidden && t < tokens; t++)
            memcpy(data + t * (size_t)width + column, p[i].text.hidden + t * w, w * sizeof *data);
        column += p[i].width;
    }
}

static void put_pooled(const place p[PLACES], float *vector)
{
    for (int i = 0; i < PLACES; i++) {
        if (p[i].text.pooled)
            memcpy(vector, p[i].text.pooled, (size_t)p[i].pooled * sizeof *vector);
        vector += p[i].pooled;
    }
}

static graft_status join(const graft_clip *c, const place p[PLACES], const more_words *more,
                         graft_cond **out, graft_err *e)
{
    bool any = p[L].text.hidden || p[G].text.hidden || !more->hidden;
    size_t tokens = any ? chunks_of(p) * GRAFT_TEXT_CHUNK : 0, all = tokens + (size_t)more->tokens;
    int64_t columns = p[L].width + p[G].width, pooled = p[L].pooled + p[G].pooled;
    int64_t width = any && c->width < columns ? columns : c->width;
    if (more->hidden && width != c->t5->arch.width)
        return graft_fail(e, GRAFT_E_ARG, "T5 of width %d beside text of width %lld",
                          c->t5->arch.width, (long long)width);
    float *data = graft_calloc(all, (size_t)width * sizeof *data);
    float *vector = graft_calloc((size_t)pooled, sizeof *vector);
    if (!data || !vector) {
        graft_free(data);
        graft_free(vector);
        return graft_fail_nomem(e, "conditioning");
    }
    put_columns(p, tokens, width, data);
    if (more->hidden)
        memcpy(data + tokens * (size_t)width, more->hidden,
               (size_t)more->tokens * (size_t)width * sizeof *data);
    put_pooled(p, vector);
    return graft_cond_create((int64_t)all, width, data, pooled, vector, NULL, out, e);
}

typedef struct three_texts {
    const char *l, *g, *t5;
} three_texts;

static graft_status encode_again(const graft_clip *c, const void *what, const graft_task *task,
                                 graft_cond **out, graft_err *e)
{
    const three_texts *t = what;
    return graft_clip_encode_sd3(c, t->l, t->g, t->t5, task, out, e);
}

graft_status graft_clip_encode_sd3(const graft_clip *c, const char *text_l, const char *text_g,
                                   const char *text_t5, const graft_task *task, graft_cond **out,
                                   graft_err *e)
{
    const three_texts texts = {text_l, text_g, text_t5};
    if (c->hooking) return graft_clip_encode_hooked(c, encode_again, &texts, 1, task, out, e);
    const char *const text[PLACES] = {[L] = text_l, [G] = text_g};
    more_words more = {NULL, 0};
    place p[PLACES];
    graft_status st = graft_clip_there(c, e);
    *out = NULL;
    if (st) return st;
    if (c->kind != GRAFT_CLIP_SD3)
        return graft_fail(e, GRAFT_E_ARG, "these text encoders are not those of SD 3");
    find_places(c, p);
    for (int i = 0; i < PLACES && !st; i++)
        if (p[i].encoder && text[i])
            st = graft_clip_encode_one(c, (size_t)(p[i].encoder - c->encoder), text[i], task,
                                       &p[i].text, e);
    if (!st && text_l != text_g) st = make_equal(c, p, task, e);
    if (!st && c->t5 && text_t5)
        st = graft_t5_encode(c->engine, &c->t5_options, c->t5, text_t5,
                             graft_clip_t5_padding(c, GRAFT_TEXT_CHUNK), task, &more.hidden,
                             &more.tokens, e);
    if (!st) st = join(c, p, &more, out, e);
    for (int i = 0; i < PLACES; i++) graft_encoded_finish(&p[i].text);
    graft_free(more.hidden);
    return st;
}
