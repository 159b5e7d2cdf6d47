/* Qwen 3 and 2.5, Mistral, Llama 3.1 and Gemma 2, by the names and shapes of their tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/models/detect/detect_parts.h"
#include "engine/models/encoders/qwen3.h"
#include "kernels/op_desc.h"

#define MAX_LAYERS  128
#define HEAD_DIM    128    /* of Qwen 2.5's from 1.5 billion weights on, and of Mistral's */
#define VOCAB_LLAMA 128256 /* of Llama 3, which none of the others has */
#define HEAD_GEMMA  256    /* of Gemma 2's of 2 and 9 billion weights */

#define LAYER "model.layers.0."

static graft_status other_structure(const graft_safetensors *f, const char *prefix, graft_err *e)
{
    static const graft_detect_other others[] = {
        {LAYER "mlp.gate.weight", "a Qwen 3 with experts"},
    };
    if (graft_detect_find(f, prefix, GRAFT_QWEN3_TENSOR) &&
        graft_detect_find(f, prefix, GRAFT_GEMMA2_TENSOR))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a Gemma 3, whose layers have more norms than Gemma 2's",
                          graft_safetensors_path(f));
    if (graft_detect_find(f, prefix, GRAFT_QWEN3_TENSOR) &&
        graft_detect_find(f, prefix, GRAFT_QWEN25_TENSOR))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: layers with both Qwen 2.5's biases and Qwen 3's norms",
                          graft_safetensors_path(f));
    return graft_detect_others(f, prefix, others, sizeof others / sizeof *others, e);
}

bool graft_qwen3_is_mistral(const graft_safetensors *f, const char *prefix)
{
    return graft_detect_find(f, prefix, GRAFT_MISTRAL_TENSOR) &&
           !graft_detect_find(f, prefix, GRAFT_GEMMA2_TENSOR) &&
           !graft_detect_find(f, prefix, GRAFT_QWEN3_TENSOR) &&
           !graft_detect_find(f, prefix, LAYER "self_attn.k_norm.weight") &&
           !graft_detect_find(f, prefix, GRAFT_QWEN25_TENSOR);
}

/* A layer counts with any of these, so that a file that lacks another is refused by its name. */
static bool has_layer(const graft_safetensors *f, const char *prefix, int i)
{
    return graft_detect_find(f, prefix, "model.layers.%d.self_attn.q_proj.weight", i) ||
           graft_detect_find(f, prefix, "model.layers.%d.input_layernorm.weight", i) ||
           graft_detect_find(f, prefix, "model.layers.%d.mlp.down_proj.weight", i);
}

/* Rows of a matrix of so many columns, or of as many as it has (0); 0 when it is none. */
static int32_t rows_of(const graft_safetensors *f, const char *prefix, const char *name,
                       int32_t columns)
{
    const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", name);
    if (!t || t->rank != 2 || (columns && graft_detect_dim(t, 1) != columns)) return 0;
    return graft_detect_dim(t, 0);
}

bool graft_qwen3_is_llama(const graft_safetensors *f, const char *prefix)
{
    graft_err e = GRAFT_ERR_INIT;
    const char *pre = graft_safetensors_metadata(f, "tokenizer.ggml.pre");
    int64_t told = 0;
    if (!graft_qwen3_is_mistral(f, prefix)) return false;
    if (graft_detect_number(f, graft_safetensors_metadata(f, "config"), "llama", &told, &e))
        return false;
    return told > 0 || (pre && strcmp(pre, "llama-bpe") == 0) ||
           rows_of(f, prefix, graft_qwen3_embeddings_name(), 0) == VOCAB_LLAMA;
}

bool graft_qwen3_is_ministral(const graft_safetensors *f, const char *prefix)
{
    return graft_qwen3_is_mistral(f, prefix) && !graft_qwen3_is_llama(f, prefix) &&
           !has_layer(f, prefix, GRAFT_MINISTRAL_LAYERS);
}

static int32_t length_of(const graft_safetensors *f, const char *prefix, const char *name)
{
    const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", name);
    return t && t->rank == 1 ? graft_detect_dim(t, 0) : 0;
}

/* As given, or as the config says, or `usual`. */
static graft_status head_dim(const graft_safetensors *f, int64_t given, int32_t usual, int32_t *out,
                             graft_err *e)
{
    graft_status st = GRAFT_OK;
    if (!given)
        st = graft_detect_number(f, graft_safetensors_metadata(f, "config"), "head_dim", &given, e);
    *out = given > 0 && given <= GRAFT_ROPE_HEAD_MAX ? (int32_t)given : usual;
    return st;
}

/* What a GGUF file says of its own kind; 0: nothing. */
static int64_t own_number(const graft_safetensors *f, const char *what)
{
    const char *kind = graft_safetensors_metadata(f, "general.architecture"), *found;
    char key[100];
    snprintf(key, sizeof key, "%.40s.%s", kind ? kind : "", what);
    found = kind ? graft_safetensors_metadata(f, key) : NULL;
    return found ? strtol(found, NULL, 10) : 0;
}

graft_status graft_mistral_head_dim(const graft_safetensors *f, int32_t *out, graft_err *e)
{
    return head_dim(f, own_number(f, "rope.dimension_count"), HEAD_DIM, out, e);
}

/* What kind it is, and head_dim. */
static graft_status detect_heads(const graft_safetensors *f, const char *prefix,
                                 graft_qwen3_arch *a, graft_err *e)
{
    a->biased = graft_detect_find(f, prefix, GRAFT_QWEN25_TENSOR) != NULL;
    a->gemma = graft_detect_find(f, prefix, GRAFT_GEMMA2_TENSOR) != NULL;
    a->mistral = graft_qwen3_is_mistral(f, prefix);
    a->ministral = graft_qwen3_is_ministral(f, prefix);
    a->llama = graft_qwen3_is_llama(f, prefix);
    if (a->mistral) return graft_mistral_head_dim(f, &a->head_dim, e);
    if (a->gemma)
        return head_dim(f, own_number(f, "attention.key_length"), HEAD_GEMMA, &a->head_dim, e);
    if (a->biased) return head_dim(f, 0, HEAD_DIM, &a->head_dim, e);
    a->head_dim = length_of(f, prefix, GRAFT_QWEN3_TENSOR);
    return a->head_dim ? GRAFT_OK : graft_detect_missing(f, prefix, GRAFT_QWEN3_TENSOR, e);
}

static bool makes_sense(const graft_qwen3_arch *a, int32_t queries, int32_t keys)
{
    return a->head_dim % 2 == 0 && a->head_dim <= GRAFT_ROPE_HEAD_MAX && a->layers > 1 &&
           queries % a->head_dim == 0 && keys % a->head_dim == 0 && queries % keys == 0;
}

graft_status graft_qwen3_detect(const graft_safetensors *f, const char *prefix,
                                graft_qwen3_arch *out, graft_err *e)
{
    const char *table = graft_qwen3_embeddings_name();
    int32_t queries, keys;
    *out = (graft_qwen3_arch){0};
    graft_status st = other_structure(f, prefix, e);
    if (st) return st;
    const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", table);
    out->vocab = rows_of(f, prefix, table, 0);
    out->width = out->vocab ? graft_detect_dim(t, 1) : 0;
    if (!out->width) return graft_detect_missing(f, prefix, table, e);
    st = detect_heads(f, prefix, out, e);
    if (st) return st;
    queries = rows_of(f, prefix, LAYER "self_attn.q_proj.weight", out->width);
    if (!queries) return graft_detect_missing(f, prefix, LAYER "self_attn.q_proj.weight", e);
    keys = rows_of(f, prefix, LAYER "self_attn.k_proj.weight", out->width);
    if (!keys) return graft_detect_missing(f, prefix, LAYER "self_attn.k_proj.weight", e);
    out->intermediate = rows_of(f, prefix, LAYER "mlp.gate_proj.weight", out->width);
    if (!out->intermediate) return graft_detect_missing(f, prefix, LAYER "mlp.gate_proj.weight", e);
    while (out->layers < MAX_LAYERS && has_layer(f, prefix, out->layers)) out->layers++;
    if (!makes_sense(out, queries, keys))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a %s of %d layers with queries of %d numbers, keys of %d and "
                          "heads of %d makes no sense",
                          graft_safetensors_path(f),
                          out->mistral || out->gemma ? graft_qwen3_family(out) : "Qwen",
                          out->layers, queries, keys, out->head_dim);
    out->heads = queries / out->head_dim;
    out->key_heads = keys / out->head_dim;
    return GRAFT_OK;
}
