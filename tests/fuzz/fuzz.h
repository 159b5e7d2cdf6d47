/* What a fuzz target defines: one call with any bytes, which must neither crash nor leak. */
#ifndef GRAFT_TESTS_FUZZ_H
#define GRAFT_TESTS_FUZZ_H
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#endif
