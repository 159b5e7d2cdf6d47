#include "bench/gpu_picture.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

extern char **environ;

enum { PIECE = 8 << 20 };

/* The second reading counts: the first one brings the file into the page cache. */
static graft_status read_file(const char *path, gpu_picture *out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    char *piece = graft_calloc(1, PIECE);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (!piece) st = graft_fail_nomem(e, "a buffer");
    if (!st && fd < 0) st = graft_fail(e, GRAFT_E_IO, "%s: %s", path, strerror(errno));
    for (int turn = 0; turn < 2 && !st; turn++) {
        double t = graft_clock_now();
        ssize_t n = 0;
        out->file_bytes = 0;
        lseek(fd, 0, SEEK_SET);
        while ((n = read(fd, piece, PIECE)) > 0) out->file_bytes += (uint64_t)n;
        out->read_seconds = graft_clock_now() - t;
        if (n < 0) st = graft_fail(e, GRAFT_E_IO, "%s: %s", path, strerror(errno));
    }
    if (fd >= 0) close(fd);
    graft_free(piece);
    return st;
}

/* 0 where the device does not say. */
static uint64_t free_bytes(const graft_backend *d)
{
    graft_device_info info = {.size = sizeof info};
    return d->api->info(d->device, &info) ? 0 : info.memory_free;
}

graft_status gpu_picture_run(const graft_backend *device, const char *model, char **command,
                             gpu_picture *out, graft_err *e)
{
    pid_t pid, ended = 0;
    int code = 0;
    const struct timespec nap = {0, 2000000};
    memset(out, 0, sizeof *out);
    graft_status st = read_file(model, out, e);
    if (st) return st;
    uint64_t before = free_bytes(device);
    double t = graft_clock_now();
    int failed = posix_spawn(&pid, command[0], NULL, NULL, command, environ);
    if (failed) return graft_fail(e, GRAFT_E_IO, "%s: %s", command[0], strerror(failed));
    while (ended == 0 || (ended < 0 && errno == EINTR)) {
        uint64_t now = free_bytes(device);
        if (now && now < before && before - now > out->peak_bytes) out->peak_bytes = before - now;
        nanosleep(&nap, NULL);
        ended = waitpid(pid, &code, WNOHANG);
    }
    out->seconds = graft_clock_now() - t;
    if (ended == pid && WIFEXITED(code) && WEXITSTATUS(code) == 0) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_IO, "%s does not end well (status 0x%x)", command[0],
                      (unsigned)code);
}
