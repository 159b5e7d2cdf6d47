/* Files and choices that nodes offer, through the host's "graft.folders/1". Any thread. */
#ifndef GRAFT_NODES_FILES_H
#define GRAFT_NODES_FILES_H
#include "base/error.h"
#include "base/str.h"
#include "plugin/graft_plugin.h"

/* Absolute path of an existing file in a folder (graft_free). A name may end in " [input]",
 * " [output]" or " [temp]", which then is the folder. Back-slashes stand for slashes. */
graft_status graft_files_resolve(const graft_host *h, const char *folder, const char *name,
                                 char **path, graft_err *e);
/* Choices: NULL-terminated copies, NULL when out of memory; freed with graft_files_free_choices. */
char **graft_files_choices(const graft_host *h, const char *folder);
/* Top-level names only that end with one of the NULL-terminated suffixes (in any case). */
char **graft_files_choices_of(const graft_host *h, const char *folder, const char *const *suffixes);
char **graft_files_copy_choices(const char *const *names);
void graft_files_free_choices(char **names);

extern const char *const graft_files_picture_suffixes[];

/* For "graft.fingerprint/1": a hash of the content of the file that `name` names. What a linked
 * name will be is not known, so it stands for all files that it may be: which they are, their sizes
 * and last changes. */
graft_status graft_files_fingerprint(const graft_host *h, const char *folder, const graft_arg *name,
                                     char *text, uint64_t n);
/* The same for `count` large files, without reading them: which files they are, their sizes and
 * last changes. With text encoders and checkpoints also of tokenizers that are files of their own,
 * and of what looks at pictures for GGUF files. */
graft_status graft_files_stamp(const graft_host *h, const char *folder, const graft_arg *names,
                               size_t count, char *text, uint64_t n);
/* Appends which file this is, its size and its last change, of a model in several parts those of
 * all (base/part.h). GRAFT_E_NOTFOUND: there is none, or a part is missing. */
graft_status graft_files_put_identity(const char *path, graft_str *out);
/* For "graft.validate/1": does the file exist? A missing one is told as "<what>: <name>". */
graft_status graft_files_validate(const graft_host *h, const char *folder, const graft_arg *name,
                                  const char *what, char *text, uint64_t n);
/* The same for a picture, and whether it is of a kind that is read. */
graft_status graft_files_validate_picture(const graft_host *h, const char *folder,
                                          const graft_arg *name, const char *what, char *text,
                                          uint64_t n);
#endif
