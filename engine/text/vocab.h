/* Lists of merges, built into the program. Any thread. */
#ifndef GRAFT_TEXT_VOCAB_H
#define GRAFT_TEXT_VOCAB_H
#include <stddef.h>

/* Text of CLIP's merges.txt, *n bytes, not terminated. */
const char *graft_vocab_merges(size_t *n);
/* Qwen's, compressed by gzip. *n is 0 where the build could not fetch it. */
const char *graft_vocab_qwen(size_t *n);
#endif
