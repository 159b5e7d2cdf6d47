/* Seeds for the nodes of a tree from one seed: NumPy's SeedSequence (M. O'Neill's seed_seq_fe) with
 * a pool of 24 words. Any thread. */
#ifndef GRAFT_SAMPLING_SEED_SEQUENCE_H
#define GRAFT_SAMPLING_SEED_SEQUENCE_H
#include <stddef.h>
#include <stdint.h>

/* generate_state(n) of SeedSequence(entropy, spawn_key=(key, depth)); a depth below 0: without
 * spawn_key. n is at most 24. */
void graft_seed_sequence(uint64_t entropy, uint64_t key, int depth, uint32_t *out, size_t n);
#endif
