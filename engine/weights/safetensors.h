/* The safetensors format (https://github.com/huggingface/safetensors): read by mapping, every
 * number in the header checked before it is used. GGUF files (gguf.h) are opened as the same thing,
 * whatever they are called.
 *
 * Refused with a message that names file and tensor: headers over 100 MB or past the end of the
 * file, text that is no JSON object, duplicate names, unknown dtypes, negative or overflowing
 * shapes, offsets out of order, out of range, overlapping, leaving gaps, or not fitting shape and
 * dtype. Element types that exist in the format but not in graft_dtype, and ranks over
 * GRAFT_SAFETENSORS_MAX_RANK, are GRAFT_E_UNSUPPORTED; all else is GRAFT_E_FORMAT.
 *
 * A path that is one of several parts (base/part.h) opens all of them, which lie beside it, as one
 * file; which tensor is in which part does not matter, so their index is not read. Metadata are the
 * first part's. GRAFT_E_NOTFOUND, with its name: one is missing. GRAFT_E_FORMAT, likewise: one is
 * no GGUF file as the first is, or the other way round, or of another model by what it says.
 *
 * The file must not be written to while it is open: reading a mapped page that is gone ends the
 * process. graft_safetensors_check() notices it, but not between asking and reading. Replacing the
 * file by a rename is fine. */
#ifndef GRAFT_WEIGHTS_SAFETENSORS_H
#define GRAFT_WEIGHTS_SAFETENSORS_H
#include "engine/weights/st_tensor.h"

/* Immutable once open and, where that is done, renamed; any thread. */
typedef struct graft_safetensors graft_safetensors;
graft_status graft_safetensors_open(const char *path, graft_safetensors **out, graft_err *e);
/* The same on bytes that the caller keeps alive; `what` names them in messages. */
graft_status graft_safetensors_open_memory(const void *data, size_t size, const char *what,
                                           graft_safetensors **out, graft_err *e);
void graft_safetensors_close(graft_safetensors *f);

/* Another name for a tensor. */
typedef struct graft_st_alias {
    char *name;     /* NULL: it keeps its own */
    bool kernel;    /* a matrix (a,b) becomes the kernel of a 1x1 convolution, (a,b,1,1) */
    bool vector;    /* whatever its shape, it becomes a vector */
    char *second;   /* its rows are two tensors: `name` the first half, this the second; or NULL */
    bool exchanged; /* the two halves of its rows change places */
    int64_t paired; /* not 0: of each so many rows, a head's, those of pairs that stand side by side
                       become halves: rows 0, 2, 4 and so on, and behind them 1, 3, 5 */
    bool less;      /* of float32, each of its values becomes one less */
    bool piece;     /* it is `next` of another; it has no name */
    bool slices; /* it and those behind it, (a,b,...) each, become (a,b,n,...), and not more rows */
    size_t next; /* 0, or 1 + the number of a tensor whose rows come behind its own */
} graft_st_alias;
/* Gives tensor i the name alias[i], one for each of graft_safetensors_count(); names are copied.
 * A tensor that is `next` of another becomes part of it and is none any more; one with a `second`
 * becomes two, which lie where it lay. What is joined, exchanged, paired or less is copied into
 * memory, which lasts as long as the file is open.
 *
 * Before anybody else knows of the file. GRAFT_E_FORMAT when two have the same name then, and for
 * rows that do not fit each other in shape or dtype; the file can only be closed after a failure.
 */
graft_status graft_safetensors_rename(graft_safetensors *f, const graft_st_alias *alias,
                                      graft_err *e);
/* Adds the tensors of another file, which may be renamed, and which belongs to f from now on: it
 * is checked, compared and closed with it. Once, before anybody else knows of f. GRAFT_E_FORMAT
 * when a name is in both; after a failure `other` is still the caller's. */
graft_status graft_safetensors_add(graft_safetensors *f, graft_safetensors *other, graft_err *e);
size_t graft_safetensors_count(const graft_safetensors *f);
/* In the order of the data. */
const graft_st_tensor *graft_safetensors_at(const graft_safetensors *f, size_t i);
/* NULL when absent. */
const graft_st_tensor *graft_safetensors_find(const graft_safetensors *f, const char *name);
/* A value of __metadata__ (text, cut at a zero character), of a GGUF file one that is a text, or
 * a whole number of 32 bits (U32) in decimal digits; or NULL. */
const char *graft_safetensors_metadata(const graft_safetensors *f, const char *key);
/* i-th pair of __metadata__; NULL past the end. */
const char *graft_safetensors_metadata_at(const graft_safetensors *f, size_t i, const char **value);
const char *graft_safetensors_path(const graft_safetensors *f);
/* Whether it is a GGUF file. */
bool graft_safetensors_is_gguf(const graft_safetensors *f);
/* GRAFT_E_IO when somebody wrote into the file since it was opened. A system call for each part. */
graft_status graft_safetensors_check(const graft_safetensors *f, graft_err *e);
/* Whether both are the same file on disk in the same state. */
bool graft_safetensors_same(const graft_safetensors *a, const graft_safetensors *b);
/* "(320,4,3,3)", cut if `out` is too small for it; returns `out`. */
const char *graft_safetensors_shape_text(const int64_t *dim, int rank, char *out, size_t size);
/* Lets the system drop the pages of this tensor from memory. */
void graft_safetensors_forget(const graft_safetensors *f, const graft_st_tensor *t);

/* Writes a file that has its name once it is whole (see graft_file_writer); without `replace`,
 * GRAFT_E_ARG when there is one. metadata: pairs key, value, …, NULL; or NULL. Tensors lie in the
 * given order; their data starts at a multiple of 8 bytes and has no gaps, as the format wants.
 * GRAFT_E_ARG for what the reader would refuse. */
graft_status graft_safetensors_write(const char *path, const graft_st_tensor *tensors, size_t n,
                                     const char *const *metadata, bool replace, graft_err *e);

/* Sets *data to the bytes of tensor i, which live until the next call. */
typedef graft_status graft_safetensors_source(void *ctx, size_t i, const void **data, graft_err *e);
/* The same of tensors that come one after the other: their `data` is not looked at. */
graft_status graft_safetensors_write_from(const char *path, const graft_st_tensor *tensors,
                                          size_t n, const char *const *metadata, bool replace,
                                          graft_safetensors_source *source, void *ctx,
                                          graft_err *e);
#endif
