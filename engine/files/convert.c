/* Files of other programs as safetensors. */
#include <stdio.h>

#include "engine/engine.h"
#include "engine/weights/pytorch.h"

graft_status graft_checkpoint_convert(const char *from, const char *to, graft_convert_info *info,
                                      graft_err *e)
{
    static const char *const metadata[] = {"format", "pt", NULL};
    graft_pytorch *f = NULL;
    size_t n;
    graft_status st;
    *info = (graft_convert_info){0};
    GRAFT_TRY(graft_pytorch_open(from, &f, e));
    const graft_st_tensor *tensor = graft_pytorch_tensors(f, &n);
    GRAFT_TRY(graft_safetensors_write(to, tensor, n, metadata, 0, e));
    for (size_t i = 0; i < n; i++) info->bytes += tensor[i].bytes;
    info->tensors = n;
    info->left_out = graft_pytorch_left_out(f);
    if (graft_pytorch_part(f)) snprintf(info->part, sizeof info->part, "%s", graft_pytorch_part(f));
out:
    graft_pytorch_close(f);
    return st;
}
