/* A safetensors file from the inside, for what opens one (safetensors_open.c), reads headers
 * (safetensors_header.c) and GGUF files (safetensors_gguf.c), and gives other names
 * (safetensors_rename.c). */
#ifndef GRAFT_WEIGHTS_SAFETENSORS_INSIDE_H
#define GRAFT_WEIGHTS_SAFETENSORS_INSIDE_H
#include "base/file.h"
#include "engine/weights/gguf.h"
#include "engine/weights/safetensors.h"

/* Open addressing over an array of elements that begin with their name. */
typedef struct graft_st_index {
    uint32_t *slot; /* element number + 1; 0: free */
    size_t cap;     /* power of two, at least twice the elements */
} graft_st_index;

/* One file on the disk. */
typedef struct graft_st_file {
    graft_mapping map; /* empty when the bytes are the caller's */
    graft_file_id id;  /* of the mapped file, when it was opened */
    char *path;
    char *text; /* all strings of the header, unescaped, each with its terminator */
} graft_st_file;

struct graft_safetensors {
    graft_st_file *file; /* its parts, in their order; of most there is one */
    size_t n_files;
    char *what;         /* as it was asked for */
    char *aliases;      /* strings of names given later; NULL: none */
    graft_coded *coded; /* what tensors point to; NULL: none */
    uint8_t *rows;      /* data of tensors whose rows are others than in the file; NULL: none */
    uint8_t *made; /* data of the tensor that was made from a GGUF file's metadata; NULL: none */
    graft_st_tensor *tensor;
    size_t n_tensors, cap_tensors;
    graft_st_pair *meta;
    size_t n_meta, cap_meta;
    graft_st_index by_name, by_key;
    bool gguf;
    uint64_t part_tensors;     /* how many a GGUF file in parts has by its first one */
    graft_safetensors *beside; /* whose tensors are among these; NULL: none */
};

/* Over the n elements of `array`, which are `stride` bytes each. *twice: a name that occurs twice,
 * or NULL. */
graft_status graft_st_index_build(graft_st_index *x, const void *array, size_t stride, size_t n,
                                  const char **twice, graft_err *e);
/* Appends tensors and metadata of `file`, whose bytes these are, in the order of the data. Of
 * metadata only the first part's count. */
graft_status graft_st_read_header(graft_safetensors *f, graft_st_file *file, const uint8_t *bytes,
                                  size_t size, graft_err *e);
/* The same of a GGUF file. Common is all zeros before the first part, and the caller's to finish.
 * GRAFT_E_FORMAT: a part that is not the one that its name says, or of another model;
 * GRAFT_E_UNSUPPORTED: one whose name says nothing of parts. */
graft_status graft_st_read_gguf(graft_safetensors *f, graft_st_file *file, const uint8_t *bytes,
                                size_t size, graft_gguf_common *common, graft_err *e);
#endif
