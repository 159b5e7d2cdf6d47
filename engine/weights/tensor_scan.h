/* What reading a stored tensor tells of it: its content's hash, and whether all values are finite.
 * Found piece by piece, so that whoever needs the bytes reads them while they are in the cache. */
#ifndef GRAFT_WEIGHTS_TENSOR_SCAN_H
#define GRAFT_WEIGHTS_TENSOR_SCAN_H
#include <stdatomic.h>

#include "base/hash.h"
#include "engine/weights/st_tensor.h"

/* Zeros: nothing is known yet. Any thread. */
typedef struct graft_tensor_state {
    _Atomic int known; /* 1: hash and non_finite are set */
    _Atomic int warned;
    bool non_finite;
    _Atomic uint64_t sample; /* hash of a few bytes; 0: not yet known */
    graft_hash hash;
} graft_tensor_state;

/* Whether the hash is there without reading the tensor. */
bool graft_tensor_known(const graft_tensor_state *s);
/* Hash of its bytes and dtype. Reads the tensor the first time. */
graft_hash graft_tensor_hash(graft_tensor_state *s, const graft_st_tensor *t);
/* Hash of a few bytes of it, in hash.lo. */
graft_hash graft_tensor_sample(graft_tensor_state *s, const graft_st_tensor *t);

/* A tensor on its way through the cache, from its begin to its end. One thread. */
typedef struct graft_tensor_scan {
    const graft_st_tensor *t;
    graft_tensor_state *state;
    size_t done;
    bool known, non_finite;
    graft_hasher hasher;
} graft_tensor_scan;
void graft_tensor_scan_begin(graft_tensor_scan *s, graft_tensor_state *state,
                             const graft_st_tensor *t);
/* Takes in at least the bytes before `end`; all of them are in the cache then. */
void graft_tensor_scan_to(graft_tensor_scan *s, size_t end);
/* Takes in the rest; the state knows the tensor then. */
graft_hash graft_tensor_scan_end(graft_tensor_scan *s);
#endif
