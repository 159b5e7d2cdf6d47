#include "engine/exec/spill.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

/* A file that has no name any more; -1 where none can be made. */
static int open_nameless(const char *folder)
{
    char path[4096];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
    int n = snprintf(path, sizeof path, "%s/spill-XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof path) return -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

static int has_room(int fd, uint64_t bytes)
{
    struct statfs s;
    if (fstatfs(fd, &s) || s.f_type == TMPFS_MAGIC || s.f_type == RAMFS_MAGIC) return 0;
    const uint64_t block = (uint64_t)s.f_bsize, blocks = (uint64_t)s.f_bavail;
    return bytes <= INT64_MAX - GRAFT_SPILL_LEFT &&
           (bytes + GRAFT_SPILL_LEFT + block - 1) / block <= blocks;
}

void *graft_spill_alloc(const char *folder, uint64_t bytes)
{
    if (!bytes) bytes = 1;
    mkdir(folder, 0700); /* it may be there */
    int fd = open_nameless(folder);
    if (fd < 0) return NULL;
    void *p = MAP_FAILED;
    /* Blocks are taken now, or a full disk would end the process when a page is written. */
    if (has_room(fd, bytes) && !posix_fallocate(fd, 0, (off_t)bytes))
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

void graft_spill_free(void *p, uint64_t bytes)
{
    if (p) munmap(p, bytes ? bytes : 1);
}

void graft_spill_soon(void *p, uint64_t bytes)
{
    madvise(p, bytes, MADV_WILLNEED);
}

void graft_spill_done(void *p, uint64_t bytes)
{
    madvise(p, bytes, MADV_DONTNEED); /* of a file's pages: they stay with the file */
}
