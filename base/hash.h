/* 64- and 128-bit non-cryptographic hashes (XXH3, https://xxhash.com). Any thread.
 *
 * The 128-bit hash names content: compiled graphs and tensors. It guards against accident, not
 * against an attacker who chooses the data. */
#ifndef GRAFT_BASE_HASH_H
#define GRAFT_BASE_HASH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct graft_hash {
    uint64_t lo, hi;
} graft_hash;

uint64_t graft_hash64(const void *data, size_t n);
graft_hash graft_hash128(const void *data, size_t n);
/* Mixes `n` bytes into a running hash: order matters, lengths are mixed in as well. */
graft_hash graft_hash_mix(graft_hash h, const void *data, size_t n);
/* graft_hash128() of data that comes in pieces. */
typedef struct graft_hasher {
    _Alignas(64) unsigned char state[576];
} graft_hasher;
void graft_hasher_init(graft_hasher *h);
void graft_hasher_add(graft_hasher *h, const void *data, size_t n);
graft_hash graft_hasher_end(const graft_hasher *h);
bool graft_hash_equal(graft_hash a, graft_hash b);
/* 32 lower-case hexadecimal digits, those of `hi` first, and a terminator. */
void graft_hash_hex(graft_hash h, char out[33]);
#endif
