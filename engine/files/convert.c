/* Files of other programs as safetensors. */
#include <stdio.h>

#include "engine/engine.h"
#include "engine/weights/pytorch.h"

/* Files of PyTorch are no safetensors, whatever they are called. */
static graft_status check_needed(const char *from, graft_err *e)
{
    graft_safetensors *f = NULL;
    graft_status st = graft_safetensors_open(from, &f, NULL);
    if (st) return st == GRAFT_E_NOMEM ? graft_fail_nomem(e, from) : GRAFT_OK;
    graft_safetensors_close(f);
    return graft_fail(e, GRAFT_E_ARG, "%s: a safetensors file already; there is nothing to convert",
                      from);
}

graft_status graft_checkpoint_convert(const char *from, const char *to, graft_convert_info *info,
                                      graft_err *e)
{
    static const char *const metadata[] = {"format", "pt", NULL};
    graft_pytorch *f = NULL;
    size_t n;
    graft_status st;
    *info = (graft_convert_info){0};
    GRAFT_TRY(check_needed(from, e));
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
