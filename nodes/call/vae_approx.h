/* Tiny autoencoders in the "vae_approx" folder: of a pair of files NAME_encoder and NAME_decoder,
 * as the author of TAESD publishes it, and of a single file NAME that has all of it, NAME is what
 * VAELoader calls it, without an ending. Any thread. */
#ifndef GRAFT_NODES_VAE_APPROX_H
#define GRAFT_NODES_VAE_APPROX_H
#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "plugin/graft_plugin.h"

/* What VAELoader offers: the files in the "vae" folder, then these names: those of pairs that are
 * whole, and of other files than halves.
 * graft_files_free_choices(); NULL when out of memory. */
char **graft_vae_approx_choices(const graft_host *h);
/* Whether this is such a name, not that of a file in the "vae" folder. */
bool graft_vae_approx_is_name(const char *name);
/* Absolute paths of its files (graft_free); *encoder is NULL where it is a single one. That counts
 * where there is no NAME_decoder. GRAFT_E_NOTFOUND names the file that is missing. */
graft_status graft_vae_approx_resolve(const graft_host *h, const char *name, char **encoder,
                                      char **decoder, graft_err *e);
/* For "graft.fingerprint/1" of VAELoader: as graft_files_stamp(), of a pair of both files. */
graft_status graft_vae_approx_stamp(const graft_host *h, const graft_arg *name, char *text,
                                    uint64_t n);
#endif
