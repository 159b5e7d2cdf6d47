#include "kernels/cuda/device/keep.h"

#include <string.h>

#include "base/hash.h"

static graft_hash hash_of(const graft_device *d, const graft_cuda_key *key)
{
    graft_hash h = graft_hash128(key->what, strlen(key->what));
    h = graft_hash_mix(h, d->info.identity, strlen(d->info.identity));
    return graft_hash_mix(h, key->shape, key->bytes);
}

char *graft_cuda_keep_read(const graft_device *d, const graft_cuda_key *key, uint64_t *bytes)
{
    graft_hash h = hash_of(d, key);
    void *data = NULL;
    *bytes = 0;
    if (!d->host.kept_read ||
        d->host.kept_read(d->host.kept_ctx, &h, sizeof h, &data, bytes) != GRAFT_OK)
        return NULL;
    return data;
}

void graft_cuda_keep_write(const graft_device *d, const graft_cuda_key *key, const void *data,
                           uint64_t bytes)
{
    graft_hash h = hash_of(d, key);
    if (d->host.kept_write) d->host.kept_write(d->host.kept_ctx, &h, sizeof h, data, bytes);
}
