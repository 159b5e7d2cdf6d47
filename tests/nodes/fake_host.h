/* A host in one process: it runs single nodes, keeps what they report, and owns a temporary folder
 * with the folders of "graft.folders/1". One thread. */
#ifndef GRAFT_TESTS_NODES_FAKE_HOST_H
#define GRAFT_TESTS_NODES_FAKE_HOST_H
#include <stdbool.h>
#include <stddef.h>

#include "plugin/graft_plugin.h"

typedef struct fake_host {
    graft_host host;
    char root[256];    /* removed by fake_host_finish */
    bool bare;         /* answers "graft.job/1" only */
    int reserve_races; /* so many reserved names are taken by somebody else at once */
    const char *prompt, *extra_pnginfo;
    /* what the last runs said; fake_host_clear empties it */
    char phases[256]; /* "load sample " */
    char log[1024], ui[4096], choices[1024];
    graft_status fail_code;
    char fail_input[64], fail_text[1024];
    int latents;
    float latent_value;
    int fails, previews, cancel_after; /* cancel_after: questions to answer with no; -1: never */
    unsigned long long done, total;
    unsigned char preview_byte;
    bool deaf;                         /* nobody receives pictures */
    int preview_kind, previews_wanted; /* what "graft.preview/1" answers */
    int pictures;
} fake_host;

int fake_host_init(fake_host *h); /* 0 when the folders could be made */
void fake_host_finish(fake_host *h);
void fake_host_clear(fake_host *h);
/* Writes a file into a folder of the host ("input", "checkpoints", …). */
void fake_host_put(fake_host *h, const char *folder, const char *name, const void *data, size_t n);
void fake_host_path(fake_host *h, const char *folder, const char *name, char *out, size_t n);

const graft_node *fake_host_node(const char *id);
/* Index of the node's input; -1 when it has none of that name. */
int fake_host_input(const graft_node *node, const char *name);
/* Initial values of every input; objects are NONE, file choices "file.safetensors". */
void fake_host_defaults(const graft_node *node, graft_arg *in);
/* What the node offers for one of its inputs, a blank behind each name; NULL when it fails. Kept
 * until the next call. */
const char *fake_host_choices(fake_host *h, const graft_node *node, const char *input);
/* create, execute, destroy. Texts in `out` are copied to `text` when that is not NULL. */
graft_status fake_host_run(fake_host *h, const graft_node *node, const graft_arg *in,
                           graft_arg *out, char *text, size_t n_text);
void fake_host_release(graft_arg *a, size_t n);
#endif
