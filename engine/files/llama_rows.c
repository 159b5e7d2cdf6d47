#include "engine/files/llama_rows.h"

#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/models/detect/detect.h"
#include "engine/models/parts/arch.h"

/* Whether it is a GGUF file of this kind. */
static bool is_kind(const graft_safetensors *f, const char *name)
{
    const char *kind =
        graft_safetensors_is_gguf(f) ? graft_safetensors_metadata(f, "general.architecture") : NULL;
    return kind && strcmp(kind, name) == 0;
}

/* A norm that had llama.cpp's name. */
static bool is_norm(const graft_st_tensor *t)
{
    return t->called && strstr(t->called, "_norm.weight");
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
    const bool gemma2 = is_kind(f, "gemma2");
    bool any = false;
    if (!gemma2 && !is_kind(f, "llama") && !is_kind(f, "mistral3")) return GRAFT_OK;
    graft_status st = gemma2 ? GRAFT_OK : graft_mistral_head_dim(f, &head, e);
    if (st) return st;
    graft_st_alias *alias = graft_calloc(n + 1, sizeof *alias);
    if (!alias) return graft_fail_nomem(e, "tensor names");
    for (size_t i = 0; i < n; i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        if (!(gemma2 ? is_norm(t) : is_turned(t))) continue;
        alias[i].less = gemma2;
        alias[i].paired = gemma2 ? 0 : head;
        any = true;
    }
    if (any) st = graft_safetensors_rename(f, alias, e);
    graft_free(alias);
    return st;
}
