/* The stand-in engine's encoding of prompts. */
#include "base/alloc.h"
#include "tests/nodes/fake_trace.h"

typedef struct finder {
    const graft_task *task;
    graft_err *e;
} finder;

static graft_status find(void *ctx, const char *name)
{
    const finder *f = ctx;
    char *path = NULL;
    graft_status st = f->task->embedding(f->task->ctx, name, &path, f->e);
    if (st == GRAFT_OK)
        trace("embedding '%s': %s\n", name, path);
    else if (st != GRAFT_E_NOMEM)
        trace("embedding '%s' %s: %s\n", name, graft_status_text(st), f->e->text);
    graft_free(path);
    return st == GRAFT_E_NOMEM || st == GRAFT_E_NOTFOUND ? st : GRAFT_OK;
}

graft_status graft_clip_encode(const graft_clip *c, const char *text, const graft_task *task,
                               graft_cond **out, graft_err *e)
{
    (void)c;
    trace("encode '%s'\n", text);
    finder f = {task, e};
    graft_status st = graft_prompt_embeddings(text, find, &f, e);
    if (st != GRAFT_OK) return st;
    return fake_make_cond(out, e);
}

graft_status graft_clip_encode_sdxl(const graft_clip *c, const char *text_g, const char *text_l,
                                    const graft_sdxl_size *s, const graft_task *task,
                                    graft_cond **out, graft_err *e)
{
    (void)c, (void)task;
    trace("encode_sdxl '%s' '%s' %lld %lld %lld %lld %lld %lld\n", text_g, text_l,
          (long long)s->width, (long long)s->height, (long long)s->crop_w, (long long)s->crop_h,
          (long long)s->target_width, (long long)s->target_height);
    return fake_make_cond(out, e);
}

graft_status graft_clip_encode_hidream(const graft_clip *c, const char *text_l, const char *text_g,
                                       const char *text_t5, const char *text_llama,
                                       const graft_task *task, graft_cond **out, graft_err *e)
{
    (void)c, (void)task;
    trace("encode_hidream '%s' '%s' '%s' '%s'\n", text_l, text_g, text_t5, text_llama);
    return fake_make_cond(out, e);
}

graft_status graft_clip_encode_sd3(const graft_clip *c, const char *text_l, const char *text_g,
                                   const char *text_t5, const graft_task *task, graft_cond **out,
                                   graft_err *e)
{
    (void)c, (void)task;
    trace("encode_sd3 '%s' '%s' '%s'\n", text_l ? text_l : "-", text_g ? text_g : "-",
          text_t5 ? text_t5 : "-");
    return fake_make_cond(out, e);
}

graft_status graft_clip_encode_flux(const graft_clip *c, const char *text_l, const char *text_t5,
                                    const graft_task *task, graft_cond **out, graft_err *e)
{
    (void)c, (void)task;
    trace("encode_flux '%s' '%s'\n", text_l, text_t5);
    return fake_make_cond(out, e);
}

graft_status graft_clip_encode_lumina2(const graft_clip *c, graft_lumina2_wish wish,
                                       const char *text, const graft_task *task, graft_cond **out,
                                       graft_err *e)
{
    (void)c, (void)task;
    trace("encode_lumina2 %d '%s'\n", (int)wish, text);
    return fake_make_cond(out, e);
}

graft_status graft_clip_encode_edit(const graft_clip *c, const graft_edit_prompt *p,
                                    const graft_task *task, graft_cond **out, graft_err *e)
{
    (void)c, (void)task;
    trace("encode_edit '%s' %zu%s%s\n", p->text, p->n_pictures, p->numbered ? " numbered" : "",
          p->vae ? " vae" : "");
    return fake_make_cond(out, e);
}

graft_status graft_clip_encode_analyzed(const graft_clip *c, const graft_analyzed_prompt *p,
                                        const graft_task *task, graft_cond *out[2], graft_err *e)
{
    (void)c, (void)task;
    trace("encode_analyzed '%s' '%s' %zu%s %lld\n", p->text[0], p->text[1], p->n_pictures,
          p->vae ? " vae" : "", (long long)p->side);
    graft_status st = fake_make_cond(&out[0], e);
    if (!st) st = fake_make_cond(&out[1], e);
    if (st) graft_cond_release(out[0]);
    if (st) out[0] = NULL;
    return st;
}

graft_status graft_analyzed_size(const graft_image *picture, int64_t side, int64_t *width,
                                 int64_t *height, graft_err *e)
{
    (void)picture, (void)e;
    *width = 2 * side;
    *height = side / 2;
    return GRAFT_OK;
}

graft_status graft_clip_encode_refiner(const graft_clip *c, const char *text, double score,
                                       int64_t width, int64_t height, const graft_task *task,
                                       graft_cond **out, graft_err *e)
{
    (void)c, (void)task;
    trace("encode_refiner '%s' %g %lld %lld\n", text, score, (long long)width, (long long)height);
    return fake_make_cond(out, e);
}
