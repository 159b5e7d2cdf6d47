/* Models in several files, as transformers and diffusers save large ones: NAME-00001-of-00003
 * .safetensors, NAME-00002-of-00003.safetensors and so on, one beside the other. Only names are
 * looked at. Any thread. */
#ifndef GRAFT_BASE_PART_H
#define GRAFT_BASE_PART_H
#include <stdbool.h>
#include <stddef.h>

typedef struct graft_part {
    unsigned number, count; /* number: 1 … count; count: 2 or more */
    size_t at;              /* where the path has the digits of `number` */
} graft_part;

/* Whether the path, which ends in .safetensors or .sft, is that of such a part. */
bool graft_part_of(const char *path, graft_part *out);
/* The path of another part; NULL when out of memory. */
char *graft_part_path(const char *path, const graft_part *p, unsigned number);
#endif
