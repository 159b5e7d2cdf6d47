#include <string.h>

#include "base/json.h"
#include "engine/models/detect/detect_parts.h"
#include "kernels/op_desc.h"

static graft_status detect_hf(const graft_safetensors *f, const char *prefix, graft_text_arch *a,
                              graft_err *e)
{
    const graft_st_tensor *pos =
        graft_detect_find(f, prefix, "text_model.embeddings.position_embedding.weight");
    const graft_st_tensor *tok =
        graft_detect_find(f, prefix, "text_model.embeddings.token_embedding.weight");
    const graft_st_tensor *fc =
        graft_detect_find(f, prefix, "text_model.encoder.layers.0.mlp.fc1.weight");
    if (!pos || !tok || !fc)
        return graft_detect_missing(f, prefix, "text_model.embeddings.token_embedding.weight", e);
    a->layout = GRAFT_TEXT_HF;
    a->positions = graft_detect_dim(pos, 0);
    a->width = graft_detect_dim(pos, 1);
    a->vocab = graft_detect_dim(tok, 0);
    a->intermediate = graft_detect_dim(fc, 0);
    a->layers = graft_detect_blocks(f, prefix, "text_model.encoder.layers", "layer_norm1.weight",
                                    "mlp.fc1.weight");
    a->projection = graft_detect_dim(graft_detect_find(f, prefix, "text_projection.weight"), 0);
    return GRAFT_OK;
}

static graft_status detect_openclip(const graft_safetensors *f, const char *prefix,
                                    graft_text_arch *a, graft_err *e)
{
    const graft_st_tensor *pos = graft_detect_find(f, prefix, "positional_embedding");
    const graft_st_tensor *tok = graft_detect_find(f, prefix, "token_embedding.weight");
    const graft_st_tensor *fc =
        graft_detect_find(f, prefix, "transformer.resblocks.0.mlp.c_fc.weight");
    if (!pos || !tok || !fc) return graft_detect_missing(f, prefix, "token_embedding.weight", e);
    a->layout = GRAFT_TEXT_OPENCLIP;
    a->positions = graft_detect_dim(pos, 0);
    a->width = graft_detect_dim(pos, 1);
    a->vocab = graft_detect_dim(tok, 0);
    a->intermediate = graft_detect_dim(fc, 0);
    a->layers =
        graft_detect_blocks(f, prefix, "transformer.resblocks", "ln_1.weight", "mlp.c_fc.weight");
    a->projection = graft_detect_dim(graft_detect_find(f, prefix, "text_projection"), 1);
    a->projection_transposed = a->projection != 0;
    if (!a->projection)
        a->projection = graft_detect_dim(graft_detect_find(f, prefix, "text_projection.weight"), 0);
    return GRAFT_OK;
}

static graft_act act_of(const cJSON *c, const graft_text_arch *a)
{
    const char *name = graft_json_str(c, "hidden_act", graft_json_str(c, "activation", NULL));
    if (name && strcmp(name, "quick_gelu") == 0) return GRAFT_ACT_QUICK_GELU;
    if (name && strcmp(name, "gelu") == 0) return GRAFT_ACT_GELU;
    return a->width == 768 ? GRAFT_ACT_QUICK_GELU : GRAFT_ACT_GELU;
}

graft_status graft_text_detect(const graft_safetensors *f, const char *prefix, const char *config,
                               graft_text_arch *out, graft_err *e)
{
    memset(out, 0, sizeof *out);
    bool openclip = graft_detect_find(f, prefix, "positional_embedding") != NULL;
    graft_status st = openclip ? detect_openclip(f, prefix, out, e) : detect_hf(f, prefix, out, e);
    if (st) return st;
    cJSON *root;
    const cJSON *c;
    if ((st = graft_detect_config(f, config, "text", &root, &c, e))) return st;
    int64_t heads = graft_json_int(c, "num_attention_heads", graft_json_int(c, "heads", 0));
    int64_t eos = graft_json_int(c, "eos_token_id", graft_json_int(c, "eos", 49407));
    out->act = act_of(c, out);
    cJSON_Delete(root);
    if (heads <= 0) heads = out->width / 64;
    if (!out->layers || heads < 1 || heads > out->width || out->width % heads || eos < 0 ||
        eos > INT32_MAX)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: a text encoder of %d layers, width %d, %lld heads, which ends at "
                          "token %lld, makes no sense",
                          graft_safetensors_path(f), out->layers, out->width, (long long)heads,
                          (long long)eos);
    out->eos = (int32_t)eos;
    out->heads = (int32_t)heads;
    return GRAFT_OK;
}
