#include "engine/weights/gguf_names.h"

#include <stdio.h>
#include <string.h>

typedef struct word {
    const char *llama, *authors;
} word;

static const word t5_words[] = {
    {"attn_q", "layer.0.SelfAttention.q"},
    {"attn_k", "layer.0.SelfAttention.k"},
    {"attn_v", "layer.0.SelfAttention.v"},
    {"attn_o", "layer.0.SelfAttention.o"},
    {"attn_rel_b", "layer.0.SelfAttention.relative_attention_bias"},
    {"attn_norm", "layer.0.layer_norm"},
    {"ffn_gate", "layer.1.DenseReluDense.wi_0"},
    {"ffn_up", "layer.1.DenseReluDense.wi_1"},
    {"ffn_down", "layer.1.DenseReluDense.wo"},
    {"ffn_norm", "layer.1.layer_norm"},
    {NULL, NULL},
};

static const word language_words[] = {
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_norm", "input_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {NULL, NULL},
};

/* What Gemma 2 has beside these, and otherwise: norms behind its branches, too. */
static const word gemma2_words[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {NULL, NULL},
};

static const word qwen_vision_words[] = {
    {"attn_q", "attn.q"},
    {"attn_k", "attn.k"},
    {"attn_v", "attn.v"},
    {"attn_qkv", "attn.qkv"},
    {"attn_out", "attn.proj"},
    {"ln1", "norm1"},
    {"ln2", "norm2"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {NULL, NULL},
};

static const word qwen3_vision_words[] = {
    {"attn_q", "attn.q"},
    {"attn_k", "attn.k"},
    {"attn_v", "attn.v"},
    {"attn_qkv", "attn.qkv"},
    {"attn_out", "attn.proj"},
    {"ln1", "norm1"},
    {"ln2", "norm2"},
    {"ffn_up", "mlp.linear_fc1"},
    {"ffn_down", "mlp.linear_fc2"},
    {NULL, NULL},
};

static const word deep_words[] = {
    {"norm", "norm"}, {"fc1", "linear_fc1"}, {"fc2", "linear_fc2"}, {NULL, NULL}};

/* PREFIX.BLOCK.WORD.weight, or bias; the block's number in *block, what is behind the word in
 * *what. NULL: it is none of these. */
static const char *find_word(const word *words, const char *prefix, const char *name,
                             unsigned *block, const char **what)
{
    const size_t n = strlen(prefix);
    char own[32];
    int end = 0;
    if (strncmp(name, prefix, n) != 0) return NULL;
    if (sscanf(name + n, "%4u.%31[a-z_0-9].%n", block, own, &end) != 2 || !end) return NULL;
    *what = name + n + (size_t)end;
    if (strcmp(*what, "weight") != 0 && strcmp(*what, "bias") != 0) return NULL;
    for (; words->llama; words++)
        if (strcmp(own, words->llama) == 0) return words->authors;
    return NULL;
}

bool graft_gguf_name_t5(const char *name, char *out, size_t size)
{
    unsigned block;
    if (strcmp(name, "token_embd.weight") == 0) return snprintf(out, size, "shared.weight") > 0;
    if (strcmp(name, "enc.output_norm.weight") == 0)
        return snprintf(out, size, "encoder.final_layer_norm.weight") > 0;
    const char *what, *found = find_word(t5_words, "enc.blk.", name, &block, &what);
    return found && snprintf(out, size, "encoder.block.%u.%s.%s", block, found, what) > 0;
}

bool graft_gguf_name_language(const char *name, char *out, size_t size)
{
    unsigned block;
    if (strcmp(name, "token_embd.weight") == 0)
        return snprintf(out, size, "model.embed_tokens.weight") > 0;
    if (strcmp(name, "output_norm.weight") == 0)
        return snprintf(out, size, "model.norm.weight") > 0;
    if (strcmp(name, "output.weight") == 0) return snprintf(out, size, "lm_head.weight") > 0;
    const char *what, *found = find_word(language_words, "blk.", name, &block, &what);
    return found && snprintf(out, size, "model.layers.%u.%s.%s", block, found, what) > 0;
}

bool graft_gguf_name_gemma2(const char *name, char *out, size_t size)
{
    unsigned block;
    const char *what, *found = find_word(gemma2_words, "blk.", name, &block, &what);
    if (found) return snprintf(out, size, "model.layers.%u.%s.%s", block, found, what) > 0;
    return graft_gguf_name_language(name, out, size);
}

/* WORD.weight, or bias, where the name is that of one layer outside of blocks. */
static bool single(const word *words, const char *name, char *out, size_t size)
{
    for (; words->llama; words++) {
        const size_t n = strlen(words->llama);
        if (strncmp(name, words->llama, n) == 0 &&
            (strcmp(name + n, ".weight") == 0 || strcmp(name + n, ".bias") == 0))
            return snprintf(out, size, "%s%s", words->authors, name + n) > 0;
    }
    return false;
}

static bool vision(const word *alone, const word *words, const char *name, char *out, size_t size)
{
    unsigned block;
    if (single(alone, name, out, size)) return true;
    const char *what, *found = find_word(words, "v.blk.", name, &block, &what);
    return found && snprintf(out, size, "visual.blocks.%u.%s.%s", block, found, what) > 0;
}

bool graft_gguf_name_qwen_vision(const char *name, char *out, size_t size)
{
    static const word alone[] = {{"v.patch_embd", "visual.patch_embed.proj"},
                                 {"v.post_ln", "visual.merger.ln_q"},
                                 {"mm.0", "visual.merger.mlp.0"},
                                 {"mm.2", "visual.merger.mlp.2"},
                                 {NULL, NULL}};
    return vision(alone, qwen_vision_words, name, out, size);
}

bool graft_gguf_name_qwen3_vision(const char *name, char *out, size_t size)
{
    static const word alone[] = {
        {"v.patch_embd", "visual.patch_embed.proj"}, {"v.position_embd", "visual.pos_embed"},
        {"v.post_ln", "visual.merger.norm"},         {"mm.0", "visual.merger.linear_fc1"},
        {"mm.2", "visual.merger.linear_fc2"},        {NULL, NULL}};
    unsigned layer;
    const char *what, *found = find_word(deep_words, "v.deepstack.", name, &layer, &what);
    if (found)
        return snprintf(out, size, "visual.deepstack_merger_list.%u.%s.%s", layer, found, what) > 0;
    return vision(alone, qwen3_vision_words, name, out, size);
}
