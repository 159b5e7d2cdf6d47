/* The tiny autoencoders that previews are decoded with: files in the "vae_approx" folder, opened
 * when a run first asks for one, and kept. Any thread. */
#ifndef GRAFT_NODES_PREVIEW_VAES_H
#define GRAFT_NODES_PREVIEW_VAES_H
#include "engine/engine.h"
#include "plugin/graft_plugin.h"

typedef struct graft_preview_vaes graft_preview_vaes;
graft_status graft_preview_vaes_create(graft_preview_vaes **out, graft_err *e);
void graft_preview_vaes_destroy(graft_preview_vaes *p); /* before the engine; NULL is fine */

/* The first in the folder for the latents of this model (a reference), decoders without an encoder
 * among them. NULL: there is none, of which the log, unless it is NULL, is warned once, and again
 * when other files lie there. What is no autoencoder is passed over. */
graft_vae *graft_preview_vaes_find(graft_preview_vaes *p, const graft_host *h, graft_engine *engine,
                                   const graft_model *m, const graft_log *log);
#endif
