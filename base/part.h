/* Models in several files, as transformers and diffusers save large ones, and llama.cpp's
 * gguf-split: NAME-00001-of-00003.safetensors (or .gguf), NAME-00002-of-00003.safetensors and so
 * on, one beside the other. Only names are looked at. Any thread. */
#ifndef GRAFT_BASE_PART_H
#define GRAFT_BASE_PART_H
#include <stdbool.h>
#include <stddef.h>

typedef struct graft_part {
    unsigned number, count; /* number: 1 … count; count: 2 or more */
    size_t at;              /* where the path has the digits of `number` */
} graft_part;

/* Whether the path, which ends in .safetensors, .sft or .gguf, is that of such a part. */
bool graft_part_of(const char *path, graft_part *out);
/* How long the path is up to NAME. */
size_t graft_part_stem(const graft_part *p);
/* The path of another part; NULL when out of memory. */
char *graft_part_path(const char *path, const graft_part *p, unsigned number);
#endif
