/* For hash.c alone. */
#ifndef GRAFT_BASE_HASH_WIDE_H
#define GRAFT_BASE_HASH_WIDE_H
#include <stddef.h>

/* XXH3_128bits_update() with AVX2, which the caller has asked for. state: an XXH3_state_t. */
void graft_hash_add_wide(void *state, const void *data, size_t n);
#endif
