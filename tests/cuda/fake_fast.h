/* How the inner loops of made-up libraries and instructions are compiled: the networks of the tests
 * cost little else. */
#ifndef GRAFT_TESTS_CUDA_FAKE_FAST_H
#define GRAFT_TESTS_CUDA_FAKE_FAST_H

/* For those that read copies, of which each element was looked at by the sanitizers. */
#define FAKE_UNCHECKED __attribute__((no_sanitize("address"), no_sanitize("undefined")))

/* And with the vectors that the processor has; as nothing is fused, results stay the same. */
#ifdef __x86_64__
#define FAKE_FAST FAKE_UNCHECKED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FAKE_FAST FAKE_UNCHECKED
#endif
#endif
