/* VAE recipes, and their graphs for one picture. */
#include <string.h>

#include "base/alloc.h"
#include "engine/objects/objects.h"

graft_vae *graft_vae_retain(graft_vae *v)
{
    atomic_fetch_add(&v->refs, 1);
    return v;
}

void graft_vae_release(graft_vae *v)
{
    if (!v || atomic_fetch_sub(&v->refs, 1) != 1) return;
    graft_weights_release(v->weights);
    graft_weights_release(v->encoder_weights);
    graft_free(v);
}

graft_vae *graft_vae_copy(const graft_vae *v)
{
    graft_vae *n = graft_malloc(sizeof *n);
    if (!n) return NULL;
    memcpy(n, v, sizeof *n);
    atomic_init(&n->refs, 1);
    graft_weights_retain(n->weights);
    if (n->encoder_weights) graft_weights_retain(n->encoder_weights);
    return n;
}

typedef struct vae_shape {
    int64_t batch, height, width;
    graft_dtype act_dtype;
    int32_t zero;
} vae_shape;

static graft_status build_decoder(const void *arch, const void *shape, graft_graph **out,
                                  graft_err *e)
{
    const vae_shape *s = shape;
    return graft_vae_decoder_build(arch, s->batch, s->height, s->width, s->act_dtype, out, e);
}

static graft_status build_encoder(const void *arch, const void *shape, graft_graph **out,
                                  graft_err *e)
{
    const vae_shape *s = shape;
    return graft_vae_encoder_build(arch, s->batch, s->height, s->width, s->act_dtype, out, e);
}

graft_status graft_vae_bind(const graft_vae *v, bool decoder, int64_t height, int64_t width,
                            const graft_task *task, graft_binding **out, graft_err *e)
{
    vae_shape shape = {1, height, width, 0, 0};
    graft_compile_job job = {.kind = decoder ? "vae_decoder" : "vae_encoder",
                             .arch = &v->arch,
                             .arch_bytes = sizeof v->arch,
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .build = decoder ? build_decoder : build_encoder};
    graft_status st =
        graft_options_resolve(v->engine, &v->options, &job.backend, &shape.act_dtype, e);
    if (st) return st;
    return graft_engine_bind(v->engine, &v->options, &job, graft_vae_weights(v, decoder), task, out,
                             e);
}
