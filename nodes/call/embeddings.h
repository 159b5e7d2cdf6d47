/* The files in the "embeddings" folder, by the names that prompts have for them. */
#ifndef GRAFT_NODES_EMBEDDINGS_H
#define GRAFT_NODES_EMBEDDINGS_H
#include <stddef.h>

#include "base/error.h"
#include "plugin/graft_plugin.h"

/* Zeros but for the host. The folder is listed at the first question, so that one prompt sees one
 * state of it. One thread. */
typedef struct graft_embedding_files {
    const graft_host *host;
    char **names; /* the host's */
} graft_embedding_files;

/* Absolute path (graft_free) of the file with this name, with or without its ending, in the folder
 * or else in any of its sub-folders. Only what the host lists can be found, so a name reaches
 * nothing outside. GRAFT_E_NOTFOUND says what was looked for. */
graft_status graft_embedding_files_find(graft_embedding_files *f, const char *name, char **path,
                                        graft_err *e);
void graft_embedding_files_finish(graft_embedding_files *f);

/* For "graft.fingerprint/1": which files the embeddings in these `count` prompts are, their sizes
 * and last changes; of all embeddings when a prompt is linked and so not known yet. Empty when
 * prompts name none. */
graft_status graft_embeddings_stamp(const graft_host *h, const graft_arg *prompts, size_t count,
                                    char *text, uint64_t n);
#endif
