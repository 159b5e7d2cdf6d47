#include "engine/text/vocab.h"

/* The assembler copies the file; a C array of half a megabyte would take seconds to compile. */
__asm__(".pushsection .rodata\n"
        ".global graft_vocab__begin\n"
        ".global graft_vocab__end\n"
        ".hidden graft_vocab__begin\n"
        ".hidden graft_vocab__end\n"
        "graft_vocab__begin:\n"
        ".incbin \"" GRAFT_MERGES_FILE "\"\n"
        "graft_vocab__end:\n"
        ".byte 0\n"
        ".popsection\n");

extern const char graft_vocab__begin[], graft_vocab__end[];

const char *graft_vocab_merges(size_t *n)
{
    *n = (size_t)(graft_vocab__end - graft_vocab__begin);
    return graft_vocab__begin;
}
