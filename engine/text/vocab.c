#include "engine/text/vocab.h"

/* The assembler copies a file; a C array of half a megabyte would take seconds to compile. */
#define BUILT_IN(name, file)                                                                       \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global " name "begin\n"                                                              \
            ".global " name "end\n"                                                                \
            ".hidden " name "begin\n"                                                              \
            ".hidden " name "end\n" name "begin:\n"                                                \
            ".incbin \"" file "\"\n" name "end:\n"                                                 \
            ".byte 0\n"                                                                            \
            ".popsection\n")

BUILT_IN("graft_vocab__", GRAFT_MERGES_FILE);
BUILT_IN("graft_vocab__qwen_", GRAFT_QWEN_MERGES_FILE);

extern const char graft_vocab__begin[], graft_vocab__end[];
extern const char graft_vocab__qwen_begin[], graft_vocab__qwen_end[];

const char *graft_vocab_merges(size_t *n)
{
    *n = (size_t)(graft_vocab__end - graft_vocab__begin);
    return graft_vocab__begin;
}

const char *graft_vocab_qwen(size_t *n)
{
    *n = (size_t)(graft_vocab__qwen_end - graft_vocab__qwen_begin);
    return graft_vocab__qwen_begin;
}
