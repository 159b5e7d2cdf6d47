/* Counts instructions in a cubin: the low 12 bits of each of 16 bytes say which one it is. */
#ifndef GRAFT_TESTS_CUDA_MACHINE_CODE_H
#define GRAFT_TESTS_CUDA_MACHINE_CODE_H
#include <elf.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/test.h"

/* wgmma in 16 bits; mma.sync in 16 bits, and in FP8; two floats rounded; a load from shared memory;
 * a function that is called. */
enum {
    OPCODE_HGMMA = 0x9f0,
    OPCODE_HMMA = 0x23c,
    OPCODE_QMMA = 0x27a,
    OPCODE_F2FP = 0x23e,
    OPCODE_LDS = 0x984,
    OPCODE_CALL = 0x944
};

static inline int count_opcode(const char *code, uint64_t bytes, uint32_t opcode)
{
    int n = 0;
    for (uint64_t i = 0; i + 16 <= bytes; i += 16) {
        uint64_t word;
        memcpy(&word, code + i, sizeof word);
        n += (word & 0xfff) == opcode;
    }
    return n;
}

/* Calls `look` with the code of each kernel in build file kernels.`arch`.cubin. */
static inline void each_kernel(const char *arch,
                               void (*look)(const char *name, const char *code, uint64_t bytes))
{
    char path[500], *data = NULL;
    size_t size = 0;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(path, sizeof path, "%s/kernels/cuda/kernels.%s.cubin", GRAFT_BINARY_DIR, arch);
    CHECK_OK(graft_file_read(path, 1 << 28, &data, &size, &e), &e);
    if (!data) return;
    const Elf64_Ehdr *h = (const void *)data;
    const Elf64_Shdr *s = (const void *)(data + h->e_shoff);
    const char *names = data + s[h->e_shstrndx].sh_offset;
    for (int i = 0; i < h->e_shnum; i++)
        if (strncmp(names + s[i].sh_name, ".text.", 6) == 0)
            look(names + s[i].sh_name + 6, data + s[i].sh_offset, s[i].sh_size);
    graft_free(data);
}
#endif
