/* Counts instructions in a cubin: the low 12 bits of each of 16 bytes say which one it is. */
#ifndef GRAFT_TESTS_CUDA_MACHINE_CODE_H
#define GRAFT_TESTS_CUDA_MACHINE_CODE_H
#include <elf.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/test.h"

/* wgmma in 16 bits, with both operands in shared memory and with one in registers, and of int8;
 * mma.sync in 16
 * bits, and in FP8; two floats rounded; a load from shared memory; a function that is called; the
 * end, or a part of it. Of what touches the device's memory: loads and stores, those of any memory,
 * copies to shared memory, tiles. griddepcontrol: wait, launch_dependents. */
enum {
    OPCODE_HGMMA = 0x9f0,
    OPCODE_HGMMA_R = 0xdf0,
    OPCODE_IGMMA = 0x9f1,
    OPCODE_HMMA = 0x23c,
    OPCODE_QMMA = 0x27a,
    OPCODE_F2FP = 0x23e,
    OPCODE_LDS = 0x984,
    OPCODE_CALL = 0x944,
    OPCODE_EXIT = 0x94d,
    OPCODE_LDG = 0x981,
    OPCODE_STG = 0x986,
    OPCODE_LD = 0x980,
    OPCODE_ST = 0x985,
    OPCODE_LDGSTS = 0xfae,
    OPCODE_UTMALDG = 0x5b4,
    OPCODE_ACQBULK = 0x82e,
    OPCODE_PREEXIT = 0x82d
};

static inline uint64_t instruction(const char *code, uint64_t number)
{
    uint64_t word;
    memcpy(&word, code + 16 * number, sizeof word);
    return word;
}

/* Where the first one is; their number when there is none. */
static inline uint64_t find_opcode(const char *code, uint64_t bytes, uint32_t opcode)
{
    uint64_t i = 0;
    while (i < bytes / 16 && (instruction(code, i) & 0xfff) != opcode) i++;
    return i;
}

/* Whether it depends on no predicate. */
static inline bool always(const char *code, uint64_t number)
{
    return (instruction(code, number) >> 12 & 15) == 7;
}

static inline int count_opcode(const char *code, uint64_t bytes, uint32_t opcode)
{
    int n = 0;
    for (uint64_t i = 0; i < bytes / 16; i++) n += (instruction(code, i) & 0xfff) == opcode;
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
