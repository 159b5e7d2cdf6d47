/* The folders that nodes may reach by key, and the names inside them. Any thread after init. */
#ifndef GRAFT_HOST_SERVICES_FOLDERS_H
#define GRAFT_HOST_SERVICES_FOLDERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct graft_folders {
    char *models, *input, *output, *temp; /* absolute; need not exist */
} graft_folders;

/* Copies the paths and makes them absolute. */
graft_status graft_folders_init(graft_folders *f, const char *models, const char *input,
                                const char *output, const char *temp, graft_err *e);
void graft_folders_finish(graft_folders *f); /* fine on a zeroed one */

/* The key of model folder i, from 0 on; NULL behind the last. */
const char *graft_folders_key(size_t i);
/* Whether it is such a key, or one's older name ("clip", "unet"). */
bool graft_folders_of_models(const char *key);
/* The root of "input", "output" or "temp"; NULL for any other key. */
const char *graft_folders_root(const graft_folders *f, const char *key);
/* Whether files could be written to the folder `below` of this root, neither of which need exist;
 * GRAFT_E_IO says why not. Leaves nothing behind. */
graft_status graft_folders_writable(const graft_folders *f, const char *key, const char *below,
                                    graft_err *e);
/* Absolute path of an existing file (graft_free). Models are .safetensors and .sft only, and
 * in text_encoders .model, which are tokenizers and in no list; those of
 * folder FOLDER lie in models/FOLDER, where links are followed wherever they lead, or else in
 * output/FOLDER. In the other folders, and below output, no link may leave the folder. */
graft_status graft_folders_resolve(const graft_folders *f, const char *key, const char *name,
                                   char **path, graft_err *e);
/* The name below folder `key` of the model at `path`, which is a user's own word (graft_free); NULL
 * when it lies in none of the places where such models are looked for. */
graft_status graft_folders_name_of(const graft_folders *f, const char *key, const char *path,
                                   char **name, graft_err *e);
/* NULL-terminated sorted names (graft_folders_free_names); an unknown key has none. */
graft_status graft_folders_list(const graft_folders *f, const char *key, char ***names,
                                graft_err *e);
void graft_folders_free_names(char **names);

typedef struct graft_reserved {
    char *path, *name, *subfolder; /* graft_reserved_finish() */
} graft_reserved;
/* The next free PREFIX_NNNNN_SUFFIX below "output" or "temp": the number is one above the highest
 * there. Makes the folder, not the file. */
graft_status graft_folders_reserve(const graft_folders *f, const char *key, const char *prefix,
                                   const char *suffix, int64_t width, int64_t height,
                                   graft_reserved *out, graft_err *e);
void graft_reserved_finish(graft_reserved *r);
#endif
