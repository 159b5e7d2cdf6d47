#include "engine/exec/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

/* Of a folder that is not there, what it will be made in. */
bool graft_spill_helps(const char *folder)
{
    char path[4096];
    struct statfs s;
    int n = snprintf(path, sizeof path, "%s", folder);
    if (n < 0 || (size_t)n >= sizeof path) return false;
    while (statfs(path, &s)) {
        char *slash = strrchr(path, '/');
        if (errno != ENOENT || !strcmp(path, ".") || !strcmp(path, "/")) return false;
        if (slash > path)
            *slash = '\0';
        else
            snprintf(path, sizeof path, "%s", slash ? "/" : ".");
    }
    return s.f_type != TMPFS_MAGIC && s.f_type != RAMFS_MAGIC;
}

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

static bool has_room(int fd, uint64_t bytes)
{
    struct statfs s;
    if (fstatfs(fd, &s)) return false;
    const uint64_t block = (uint64_t)s.f_bsize, blocks = (uint64_t)s.f_bavail;
    errno = ENOSPC;
    return bytes <= INT64_MAX - GRAFT_SPILL_LEFT &&
           (bytes + GRAFT_SPILL_LEFT + block - 1) / block <= blocks;
}

/* Blocks are taken now, or a full disk would end the process when a page is written. */
static bool take_room(int fd, uint64_t bytes)
{
    int why = EINTR; /* a signal's handler ran */
    while (why == EINTR) why = posix_fallocate(fd, 0, (off_t)bytes);
    errno = why;
    return why == 0;
}

void *graft_spill_alloc(const char *folder, uint64_t bytes)
{
    if (!bytes) bytes = 1;
    mkdir(folder, 0700); /* it may be there */
    int fd = open_nameless(folder);
    if (fd < 0) return NULL;
    void *p = MAP_FAILED;
    if (has_room(fd, bytes) && take_room(fd, bytes))
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const int why = errno;
    close(fd);
    errno = why;
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
