#include "base/resident.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A line as "VmHWM:      1234 kB". */
static int64_t status_bytes(const char *name)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    long long kb = 0;
    size_t n = strlen(name);
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, n) == 0 && sscanf(line + n, ": %lld", &kb) == 1) break;
    if (f) fclose(f);
    return kb * 1024;
}

int64_t graft_resident_now(void)
{
    return status_bytes("VmRSS");
}

int64_t graft_resident_peak(void)
{
    return status_bytes("VmHWM");
}

bool graft_resident_reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool done = write(fd, "5", 1) == 1; /* 5: the peak alone, no page's marks */
    close(fd);
    return done;
}
