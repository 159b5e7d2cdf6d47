/* Any bytes as a shared object, looked at before it is loaded: all that is told lies inside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plugin/elf.h"
#include "tests/fuzz/fuzz.h"

enum { SYMBOLS = 4096 }; /* looked at in one input: a table may be as long as the file */

static void require(int cond)
{
    if (!cond) abort();
}

static void look(const graft_elf *f)
{
    graft_elf_symbol s, same;
    uint64_t sum = 0; /* of bytes, so that they are read */
    for (uint64_t i = 0; i < SYMBOLS && graft_elf_symbol_at(f, i, &s); i++) {
        require(i < f->symbol_count);
        if (s.exported && *s.name)
            require(graft_elf_find(f, s.name, &same) && strcmp(same.name, s.name) == 0);
        const uint8_t *bytes = graft_elf_bytes(f, s.address, s.size);
        if (bytes && s.size) sum += bytes[0] + (uint64_t)bytes[s.size - 1];
    }
    require(sum < UINT64_MAX && !graft_elf_symbol_at(f, f->symbol_count, &s));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    graft_elf f;
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data, size) == (ssize_t)size && graft_elf_init(&f, path, NULL) == GRAFT_OK) {
        look(&f);
        graft_elf_finish(&f);
    }
    close(fd);
    return 0;
}
