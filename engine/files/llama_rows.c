#include "engine/files/llama_rows.h"

#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/models/arch.h"

static bool is_one(const graft_safetensors *f)
{
    const char *kind =
        graft_safetensors_is_gguf(f) ? graft_safetensors_metadata(f, "general.architecture") : NULL;
    return kind && (strcmp(kind, "llama") == 0 || strcmp(kind, "mistral3") == 0);
}

/* Of a block that had llama.cpp's name. */
static bool is_turned(const graft_st_tensor *t)
{
    const char *name = graft_st_called(t);
    return t->called && graft_str_starts(name, "blk.") &&
           (strstr(name, ".attn_q.") || strstr(name, ".attn_k."));
}

graft_status graft_llama_rows_adopt(graft_safetensors *f, graft_err *e)
{
    const size_t n = graft_safetensors_count(f);
    int32_t head = 0;
    bool any = false;
    if (!is_one(f)) return GRAFT_OK;
    graft_status st = graft_mistral_head_dim(f, &head, e);
    if (st) return st;
    graft_st_alias *alias = graft_calloc(n + 1, sizeof *alias);
    if (!alias) return graft_fail_nomem(e, "tensor names");
    for (size_t i = 0; i < n; i++) {
        if (!is_turned(graft_safetensors_at(f, i))) continue;
        alias[i].paired = head;
        any = true;
    }
    if (any) st = graft_safetensors_rename(f, alias, e);
    graft_free(alias);
    return st;
}
