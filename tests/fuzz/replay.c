/* Feeds every file of the folders given as arguments to the fuzz target it is linked with, and then
 * damaged copies of each (cut short, single bits turned), so that a plain build tests more than the
 * inputs that were kept. Fails when a folder holds nothing or the target leaks. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/fuzz/fuzz.h"

enum { REPLAY_LIMIT = 64 << 20, REPLAY_DAMAGED = 64 };

/* The target gets a heap block of exactly `size` bytes, so that an address sanitizer sees the first
 * byte read beyond it. */
static int feed(const char *data, size_t size)
{
    uint8_t *copy = graft_malloc(size);
    if (!copy) return -1;
    if (size > 0) memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    graft_free(copy);
    return 0;
}

static int feed_damaged(char *data, size_t size)
{
    uint32_t state = 12345;
    for (int i = 0; i < REPLAY_DAMAGED && size > 0; i++) {
        state = state * 1664525u + 1013904223u;
        size_t at = (state >> 8) % size;
        if (i % 2 == 0) {
            if (feed(data, at) != 0) return -1;
            continue;
        }
        char bit = (char)(1 << (state >> 4 & 7));
        data[at] ^= bit;
        int rc = feed(data, size);
        data[at] ^= bit;
        if (rc != 0) return -1;
    }
    return 0;
}

static int replay_file(const char *folder, const char *name)
{
    graft_err e = GRAFT_ERR_INIT;
    char *data = NULL;
    size_t size = 0;
    int rc = -1;
    char *path = graft_path_join(folder, name);
    if (!path) return -1;
    if (graft_file_read(path, REPLAY_LIMIT, &data, &size, &e) != GRAFT_OK) {
        fprintf(stderr, "%s: %s\n", path, e.text);
        goto out;
    }
    if (feed(data, size) != 0 || feed_damaged(data, size) != 0) {
        fprintf(stderr, "%s: out of memory\n", path);
        goto out;
    }
    rc = 0;
out:
    graft_free(data);
    graft_free(path);
    return rc;
}

static int replay_folder(const char *folder)
{
    graft_err e = GRAFT_ERR_INIT;
    char **names = NULL;
    size_t count = 0;
    if (graft_dir_list(folder, NULL, &names, &count, &e) != GRAFT_OK) {
        fprintf(stderr, "%s: %s\n", folder, e.text);
        return -1;
    }
    int rc = count > 0 ? 0 : -1;
    if (count == 0) fprintf(stderr, "%s: no files\n", folder);
    for (size_t i = 0; i < count && rc == 0; i++) rc = replay_file(folder, names[i]);
    graft_names_free(names, count);
    if (rc == 0) printf("%s: %zu files\n", folder, count);
    return rc;
}

int main(int argc, char **argv)
{
    graft_alloc_stats before, after;
    /* Once without input: what a target keeps from its first call is not a leak. */
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    graft_alloc_stats_get(&before);
    int rc = argc > 1 ? 0 : 1;
    for (int i = 1; i < argc; i++) rc |= replay_folder(argv[i]) != 0;
    graft_alloc_stats_get(&after);
    if (after.live_blocks != before.live_blocks) {
        fprintf(stderr, "%lld blocks leaked\n",
                (long long)(after.live_blocks - before.live_blocks));
        rc = 1;
    }
    return rc;
}
