/* What a file with the ending of safetensors holds instead. */
#ifndef GRAFT_WEIGHTS_SAFETENSORS_FOREIGN_H
#define GRAFT_WEIGHTS_SAFETENSORS_FOREIGN_H
#include <stddef.h>
#include <stdint.h>

/* In words that go on after the file's name; NULL where its first bytes do not tell. PyTorch's are
 * not among them. */
const char *graft_safetensors_foreign(const uint8_t *bytes, size_t size);
#endif
