/* The stand-in's merges and what is saved of models. */
#include "base/file.h"
#include "engine/lora_made.h"
#include "tests/nodes/fake_trace.h"

graft_status graft_model_merge(const graft_model *a, const graft_model *b,
                               const graft_merge_ratio *r, graft_model **out, graft_err *e)
{
    trace("merge two=%d %g %g %g\n", a != b, r->input, r->middle, r->out);
    return fake_make_model(out, e);
}

graft_status graft_model_merge_parts(const graft_model *a, const graft_model *b,
                                     const graft_merge_part *part, size_t n, graft_model **out,
                                     graft_err *e)
{
    trace("merge_parts two=%d %zu, %s %g to %s %g\n", a != b, n, part[0].prefix, part[0].ratio,
          part[n - 1].prefix, part[n - 1].ratio);
    return fake_make_model(out, e);
}

graft_status graft_model_multiply_attention(const graft_model *m, bool cross,
                                            const graft_attention_factors *f, graft_model **out,
                                            graft_err *e)
{
    (void)m;
    trace("multiply cross=%d %g %g %g %g\n", cross, f->q, f->k, f->v, f->out);
    return fake_make_model(out, e);
}

graft_status graft_clip_multiply_attention(const graft_clip *c, const graft_attention_factors *f,
                                           graft_clip **out, graft_err *e)
{
    (void)c;
    trace("multiply_clip %g %g %g %g\n", f->q, f->k, f->v, f->out);
    return fake_make_clip(out, e);
}

graft_status graft_model_merge_add(const graft_model *a, const graft_model *b, graft_model **out,
                                   graft_err *e)
{
    trace("merge_add two=%d\n", a != b);
    return fake_make_model(out, e);
}

graft_status graft_model_merge_subtract(const graft_model *a, const graft_model *b,
                                        double multiplier, graft_model **out, graft_err *e)
{
    trace("merge_subtract two=%d %g\n", a != b, multiplier);
    return fake_make_model(out, e);
}

graft_status graft_clip_merge(const graft_clip *a, const graft_clip *b, double ratio,
                              graft_clip **out, graft_err *e)
{
    trace("merge_clip two=%d %g\n", a != b, ratio);
    return fake_make_clip(out, e);
}

graft_status graft_clip_merge_add(const graft_clip *a, const graft_clip *b, graft_clip **out,
                                  graft_err *e)
{
    trace("merge_clip_add two=%d\n", a != b);
    return fake_make_clip(out, e);
}

graft_status graft_clip_merge_subtract(const graft_clip *a, const graft_clip *b, double multiplier,
                                       graft_clip **out, graft_err *e)
{
    trace("merge_clip_subtract two=%d %g\n", a != b, multiplier);
    return fake_make_clip(out, e);
}

const char *graft_clip_encoder_name(const graft_clip *c, size_t i)
{
    (void)c;
    return i == 0 ? "clip_l" : i == 1 ? "clip_g" : NULL;
}

graft_status graft_clip_there(const graft_clip *c, graft_err *e)
{
    (void)c;
    (void)e;
    return GRAFT_OK;
}

graft_status graft_checkpoint_save(const graft_checkpoint *c, const char *path,
                                   const char *const *metadata, const graft_task *task,
                                   graft_err *e)
{
    size_t n = 0;
    (void)task;
    while (metadata && metadata[n]) n += 2;
    if (graft_file_exists(path)) return graft_fail(e, GRAFT_E_ARG, "%s: exists", path);
    trace("checkpoint_save %s%s%s%s metadata=%zu\n", base_name(path), c->model ? " model" : "",
          c->encoder == 1   ? " first"
          : c->encoder == 2 ? " second"
          : c->clip         ? " clip"
                            : "",
          c->vae ? " vae" : "", n / 2);
    return due(e);
}

graft_status graft_lora_save(const graft_lora_made *made, const char *path,
                             const char *const *metadata, const graft_task *task, graft_err *e)
{
    size_t n = 0;
    (void)task;
    while (metadata && metadata[n]) n += 2;
    if (graft_file_exists(path)) return graft_fail(e, GRAFT_E_ARG, "%s: exists", path);
    trace("lora_save %s%s%s rank=%lld whole=%d biases=%d metadata=%zu\n", base_name(path),
          made->model ? " model" : "", made->clip ? " clip" : "", (long long)made->rank,
          made->whole, made->biases, n / 2);
    return due(e);
}
