/* CLIP's list of merges, built into the program. */
#ifndef GRAFT_TEXT_VOCAB_H
#define GRAFT_TEXT_VOCAB_H
#include <stddef.h>

/* Text of merges.txt, *n bytes, not terminated. Any thread. */
const char *graft_vocab_merges(size_t *n);
#endif
