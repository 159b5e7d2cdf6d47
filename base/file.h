/* Files: read-only mappings, whole reads, atomic writes, and the one check for paths that users
 * send. Any thread. Paths are UTF-8. */
#ifndef GRAFT_BASE_FILE_H
#define GRAFT_BASE_FILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct graft_mapping {
    const uint8_t *data; /* read-only, NULL when empty */
    size_t size;
} graft_mapping;

/* Which file a name stood for, and in what state. */
typedef struct graft_file_id {
    uint64_t device, inode, size;
    int64_t changed_s, changed_ns; /* last modification, which may be set back */
    int64_t status_s, status_ns;   /* last change of that, too, of its name or rights */
} graft_file_id;
/* False when there is no such file. */
bool graft_file_identify(const char *path, graft_file_id *out);
/* True when the name still stands for this file, but somebody wrote into it or cut it short. False
 * when it was replaced by another or is gone: mappings of it are then as they were. */
bool graft_file_was_changed(const char *path, const graft_file_id *id);

/* Maps a regular file. The mapping outlives the file's name; unmap frees it, NULL-safe. What it
 * shows when somebody writes into the file is undefined, and reading beyond a new end of it ends
 * the process (SIGBUS): see graft_file_was_changed(). */
graft_status graft_file_map(const char *path, graft_mapping *out, graft_err *e);
/* The same, and which file that is: asked of what was opened, as the name may stand for another one
 * by then. */
graft_status graft_file_map_identified(const char *path, graft_mapping *out, graft_file_id *id,
                                       graft_err *e);
void graft_file_unmap(graft_mapping *m);
/* Lets the system drop pages of the mapping that were read (they come back from the file). */
void graft_file_forget(const graft_mapping *m, size_t offset, size_t size);

/* Reads all of a file of at most `limit` bytes; *out is terminated with a zero byte that is not
 * counted, and freed with graft_free(). */
graft_status graft_file_read(const char *path, size_t limit, char **out, size_t *size,
                             graft_err *e);
/* The same for whatever can be read to its end, such as a pipe, which is waited for. NULL is
 * standard input. */
graft_status graft_file_read_stream(const char *path, size_t limit, char **out, size_t *size,
                                    graft_err *e);
/* Writes to a temporary beside `path`, flushes, renames over it: readers see the old file or the
 * new one, never half. On failure nothing is left behind. */
graft_status graft_file_write(const char *path, const void *data, size_t size, graft_err *e);
/* As graft_file_write, but fails with GRAFT_E_ARG ("exists") instead of replacing a file. */
graft_status graft_file_write_new(const char *path, const void *data, size_t size, graft_err *e);

/* A new file that is written piece by piece, under another name beside `path` until it is whole.
 * One thread at a time. */
typedef struct graft_file_writer graft_file_writer;
graft_status graft_file_writer_open(const char *path, graft_file_writer **out, graft_err *e);
graft_status graft_file_writer_add(graft_file_writer *w, const void *data, size_t size,
                                   graft_err *e);
/* The name that it has until then. */
const char *graft_file_writer_name(const graft_file_writer *w);
/* Flushes, and gives it its name: once, with nothing but closing after it. Without `replace`:
 * GRAFT_E_ARG ("exists") when there is one by then. */
graft_status graft_file_writer_commit(graft_file_writer *w, bool replace, graft_err *e);
/* Removes what was not committed. NULL is fine. */
void graft_file_writer_close(graft_file_writer *w);

bool graft_file_exists(const char *path);
bool graft_dir_exists(const char *path);
/* Creates the folder and its parents; fine if it is there. */
graft_status graft_dir_make(const char *path, graft_err *e);

/* Joins `root` and the relative, untrusted `name` into *out (graft_free). Refuses absolute names,
 * "..", empty parts, back-slashes, control characters; follows no link that leaves `root`: the
 * deepest existing part of the result must lie inside the real path of `root`. */
graft_status graft_path_inside(const char *root, const char *name, char **out, graft_err *e);
/* The same without a look at links, for a folder that only the user writes to: links there are
 * followed wherever they lead. Nothing need exist. */
graft_status graft_path_below(const char *root, const char *name, char **out, graft_err *e);
/* root/name without a check; NULL when out of memory. */
char *graft_path_join(const char *root, const char *name);
/* The name of what a path leads to: what is behind its last slash, within the path. */
const char *graft_path_name(const char *path);
/* Another file in the folder that a path's is in; NULL when out of memory. */
char *graft_path_beside(const char *path, const char *name);

/* All regular files below `root` (links followed, at most 16 folders deep) whose name ends with one
 * of the NULL-terminated `suffix` list (NULL: all), as relative names with '/', sorted by byte
 * value. Names that are not UTF-8 are left out. A missing root gives an empty list. Free with
 * graft_names_free(). */
graft_status graft_dir_list(const char *root, const char *const *suffix, char ***names,
                            size_t *count, graft_err *e);
void graft_names_free(char **names, size_t count);
#endif
