/* Tiny autoencoders in the "vae_approx" folder: of a pair of files NAME_encoder and NAME_decoder,
 * as the authors of TAESD publish it, NAME is what VAELoader calls it. Any thread. */
#ifndef GRAFT_NODES_VAE_APPROX_H
#define GRAFT_NODES_VAE_APPROX_H
#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "plugin/graft_plugin.h"

/* What VAELoader offers: the files in the "vae" folder, then the names of whole pairs.
 * graft_files_free_choices(); NULL when out of memory. */
char **graft_vae_approx_choices(const graft_host *h);
/* Whether this is the name of a pair, not that of a file. */
bool graft_vae_approx_is_pair(const char *name);
/* Absolute paths of a pair's files (graft_free). GRAFT_E_NOTFOUND names the half that is missing.
 */
graft_status graft_vae_approx_resolve(const graft_host *h, const char *name, char **encoder,
                                      char **decoder, graft_err *e);
/* For "graft.fingerprint/1" of VAELoader: as graft_files_stamp(), of a pair both files. */
graft_status graft_vae_approx_stamp(const graft_host *h, const graft_arg *name, char *text,
                                    uint64_t n);
#endif
