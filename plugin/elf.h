/* The dynamic symbols of an ELF shared object, read from the file without loading it: what it would
 * export, and the bytes of a constant before any code of it runs. Trusts nothing in the file.
 * Formats: System V ABI, chapters 4 and 5; DT_GNU_HASH as glibc reads it. 64-bit little-endian
 * files only. One thread at a time per structure. */
#ifndef GRAFT_PLUGIN_ELF_H
#define GRAFT_PLUGIN_ELF_H
#include "base/error.h"
#include "base/file.h"

typedef struct graft_elf {
    graft_mapping file;
    uint64_t symbols, symbol_count; /* file offset of the table, entries */
    uint64_t strings, string_size;
} graft_elf;

typedef struct graft_elf_symbol {
    const char *name;
    uint64_t address, size;
    bool exported; /* defined here and visible to other objects */
    bool data;     /* an object, not a function */
} graft_elf_symbol;

graft_status graft_elf_init(graft_elf *f, const char *path, graft_err *e);
void graft_elf_finish(graft_elf *f);
/* The i-th dynamic symbol; false past the end or when it is malformed. */
bool graft_elf_symbol_at(const graft_elf *f, uint64_t i, graft_elf_symbol *out);
/* The exported symbol with this name; false without one. */
bool graft_elf_find(const graft_elf *f, const char *name, graft_elf_symbol *out);
/* Bytes of the file that are loaded at `address`, not yet relocated; NULL when they are not all in
 * one segment of the file. */
const void *graft_elf_bytes(const graft_elf *f, uint64_t address, uint64_t size);
#endif
