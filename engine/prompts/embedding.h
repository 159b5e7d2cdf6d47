/* The embeddings (textual inversion) that a prompt names, for one text encoder: found through the
 * task, read, checked. One that cannot be used is left out, and the task's log is told why. One
 * thread. */
#ifndef GRAFT_PROMPTS_EMBEDDING_H
#define GRAFT_PROMPTS_EMBEDDING_H
#include "engine/objects/objects.h"

#define GRAFT_EMBEDDING_MAX_VECTORS 1024 /* of one embedding */

struct graft_embedding; /* a name that was asked for */
typedef struct graft_embeddings {
    const graft_encoder *encoder;
    const char *key; /* the encoder's tensor in files for several: "clip_l", "clip_g", "clip_h" */
    const graft_task *task; /* with `embedding` */
    struct graft_embedding *entry;
    size_t n, cap;
    float *vectors; /* (n_vectors, width): of all names */
    size_t n_vectors, vectors_cap;
} graft_embeddings;

/* For encoder i of the clip; both outlive it. */
void graft_embeddings_init(graft_embeddings *x, const graft_clip *c, size_t i,
                           const graft_task *task);
void graft_embeddings_finish(graft_embeddings *x);
/* graft_text_embeddings.find with a graft_embeddings. Fails with GRAFT_E_NOTFOUND, or for want of
 * memory; a file is read once. */
graft_status graft_embeddings_find(void *ctx, const char *name, bool last, size_t *first,
                                   size_t *count, graft_err *e);
#endif
