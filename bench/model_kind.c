#include "bench/model_kind.h"

#define VOCAB 49408

#define HF(layers, width, heads)                                                                   \
    {                                                                                              \
        GRAFT_TEXT_HF, layers, width, heads, 4 * (width), VOCAB, 77, GRAFT_ACT_QUICK_GELU, 0, 0,   \
            49407                                                                                  \
    }
#define HF_LARGE(layers, width, heads)                                                             \
    {                                                                                              \
        GRAFT_TEXT_HF, layers, width, heads, 4 * (width), VOCAB, 77, GRAFT_ACT_GELU, width, 0,     \
            49407                                                                                  \
    }
#define OPENCLIP(layers, width, heads)                                                             \
    {                                                                                              \
        GRAFT_TEXT_OPENCLIP, layers, width, heads, 4 * (width), VOCAB, 77, GRAFT_ACT_GELU, width,  \
            1, 49407                                                                               \
    }
/* T5-XXL, version 1.1. */
#define T5_XXL                                                                                     \
    {                                                                                              \
        .layers = 24, .width = 4096, .heads = 64, .head_dim = 64, .intermediate = 10240,           \
        .vocab = 32128, .buckets = 32                                                              \
    }
/* Stable Diffusion 3's, with this depth, table and number of blocks with a second attention. */
#define MMDIT(blocks, side, normed, two)                                                           \
    {                                                                                              \
        .channels = 16, .hidden = 64 * (blocks), .depth = blocks, .heads = blocks,                 \
        .mlp = 256 * (blocks), .patch = 2, .table = side, .time_dim = 256, .context_dim = 4096,    \
        .pooled_dim = 2048, .qk_norm = normed, .dual = two                                         \
    }
/* FLUX.1's and Chroma's, which are told the time by so many waves, and more. */
#define FLUX_NET(waves, ...)                                                                       \
    {                                                                                              \
        .channels = 16, .hidden = 3072, .heads = 24, .mlp = 12288, .depth = 19,                    \
        .single_depth = 38, .patch = 2, .rope_dim = 56, .time_dim = waves, .context_dim = 4096,    \
        __VA_ARGS__                                                                                \
    }
/* LongCat-Image's and Ovis-Image's, of so many blocks. */
#define LONGCAT_NET(two, one)                                                                      \
    {                                                                                              \
        .channels = 16, .hidden = 3072, .heads = 24, .mlp = 12288, .depth = two,                   \
        .single_depth = one, .patch = 2, .rope_dim = 56, .time_dim = 256, .context_dim = 3584,     \
        .words = GRAFT_LONGCAT_TOKENS, .apart = 1                                                  \
    }
#define OVIS_NET(two, one)                                                                         \
    {                                                                                              \
        .channels = 16, .hidden = 3072, .heads = 24, .mlp = 12288, .depth = two,                   \
        .single_depth = one, .patch = 2, .rope_dim = 56, .time_dim = 256, .context_dim = 2048,     \
        .words = GRAFT_OVIS_TOKENS, .gated = 1                                                     \
    }
#define TINY_RELATIVE(...)                                                                         \
    {                                                                                              \
        .channels = 16, .hidden = 64, .heads = 2, .mlp = 160, .depth = 1, .single_depth = 2,       \
        .patch = 2, .rope_dim = 14, .time_dim = 256, .context_dim = 32, __VA_ARGS__                \
    }
#define TINY_NET(waves, ...)                                                                       \
    {                                                                                              \
        .channels = 16, .hidden = 64, .heads = 2, .mlp = 256, .depth = 1, .single_depth = 2,       \
        .patch = 2, .rope_dim = 14, .time_dim = waves, .context_dim = 112, __VA_ARGS__             \
    }
/* Z-Image's, with so many blocks of prompt and picture, and of each alone. */
#define ZIMAGE_NET(blocks, before)                                                                 \
    {                                                                                              \
        .channels = 16, .hidden = 3840, .heads = 30, .mlp = 10240, .depth = blocks,                \
        .noise_depth = before, .context_depth = before, .patch = 2, .rope_dim = 48,                \
        .time_dim = 256, .time_mlp = 1024, .told = 256, .context_dim = 2560                        \
    }
/* Lumina-Image 2.0's, likewise. */
#define LUMINA2_NET(blocks, before)                                                                \
    {                                                                                              \
        .channels = 16, .hidden = 2304, .heads = 24, .mlp = 9216, .depth = blocks,                 \
        .noise_depth = before, .context_depth = before, .patch = 2, .rope_dim = 32,                \
        .time_dim = 256, .time_mlp = 1024, .told = 1024, .context_dim = 2304, .key_heads = 8       \
    }
/* FLUX.2's, with so many heads and blocks, and words of so many numbers; told a guidance, or not.
 */
#define FLUX2_NET(n, two, one, words, told)                                                        \
    {                                                                                              \
        .channels = 128, .hidden = 128 * (n), .heads = n, .mlp = 384 * (n), .depth = two,          \
        .single_depth = one, .time_dim = 256, .context_dim = words, .guidance = told               \
    }
/* Qwen-Image's, with so many blocks. */
#define QWEN_IMAGE_NET(blocks, ...)                                                                \
    {                                                                                              \
        .channels = 16, .hidden = 3072, .heads = 24, .mlp = 12288, .depth = blocks, .patch = 2,    \
        .rope_dim = 56, .time_dim = 256, .context_dim = 3584, __VA_ARGS__                          \
    }
/* What looks at pictures of Qwen 3-VL-8B, and of 4B. */
#define QWEN3_VISION_8B                                                                            \
    {                                                                                              \
        .layers = 27, .width = 1152, .heads = 16, .intermediate = 4304, .patch = 16, .side = 48,   \
        .out = 4096, .deep = 3, .deep_first = 8, .deep_step = 8                                    \
    }
#define QWEN3_VISION_4B                                                                            \
    {                                                                                              \
        .layers = 24, .width = 1024, .heads = 16, .intermediate = 4096, .patch = 16, .side = 48,   \
        .out = 2560, .deep = 3, .deep_first = 5, .deep_step = 6                                    \
    }
/* Qwen-Image 2.1's, with so many blocks. */
#define QWEN_IMAGE21_NET(blocks)                                                                   \
    {                                                                                              \
        .channels = 64, .hidden = 4096, .heads = 32, .mlp = 12288, .depth = blocks,                \
        .rope_dim = 56, .time_dim = 256, .context_dim = 4096                                       \
    }
/* Krea 2's, with so many blocks, and so many of each kind of the prompt's. */
#define KREA2_NET(blocks, text)                                                                    \
    {                                                                                              \
        .channels = 16, .hidden = 6144, .mlp = 16384, .depth = blocks, .heads = 48,                \
        .key_heads = 12, .patch = 2, .rope_dim = 48, .time_dim = 256, .text_layers = 12,           \
        .text_width = 2560, .text_mlp = 6912, .text_heads = 20, .text_key_heads = 20,              \
        .layer_depth = text, .token_depth = text                                                   \
    }
/* Anima's, with so many blocks, and of the adapter. */
#define ANIMA_NET(blocks, more)                                                                    \
    {                                                                                              \
        .channels = 16, .hidden = 2048, .heads = 16, .mlp = 8192, .depth = blocks, .patch = 2,     \
        .rope_dim = 42, .told = 256, .context_dim = 1024, .adapter_width = 1024,                   \
        .adapter_heads = 16, .adapter_mlp = 4096, .adapter_depth = more, .words = 32128            \
    }
/* Ideogram 4's, with so many blocks. */
#define IDEOGRAM4_NET(blocks)                                                                      \
    {                                                                                              \
        .channels = 128, .hidden = 4608, .heads = 18, .mlp = 12288, .depth = blocks,               \
        .rope_dim = 40, .told = 512, .context_dim = 13 * 4096                                      \
    }
#define TINY_IDEOGRAM4                                                                             \
    {                                                                                              \
        .channels = 128, .hidden = 128, .heads = 2, .mlp = 160, .depth = 2, .rope_dim = 10,        \
        .told = 24, .context_dim = 13 * 32                                                         \
    }
/* ERNIE-Image's, with so many blocks. */
#define ERNIE_IMAGE_NET(blocks)                                                                    \
    {                                                                                              \
        .channels = 128, .hidden = 4096, .heads = 32, .mlp = 12288, .depth = blocks,               \
        .rope_dim = 48, .context_dim = 3072, .own_text = 1                                         \
    }
/* AuraFlow's, with so many blocks of each kind, and a table of so many places a side. */
#define AURAFLOW_NET(two, one, side)                                                               \
    {                                                                                              \
        .channels = 4, .hidden = 3072, .heads = 12, .mlp = 8192, .depth = two,                     \
        .single_depth = one, .patch = 2, .table = side, .time_dim = 256, .context_dim = 2048,      \
        .registers = 8                                                                             \
    }
/* OmniGen2's, with so many blocks of all, and of each alone. */
#define OMNIGEN2_NET(blocks, before)                                                               \
    {                                                                                              \
        .channels = 16, .hidden = 2520, .mlp = 10240, .heads = 21, .key_heads = 7,                 \
        .depth = blocks, .noise_depth = before, .context_depth = before, .picture_depth = before,  \
        .patch = 2, .rope_dim = 40, .time_dim = 256, .told = 1024, .context_dim = 2048,            \
        .pictures = 5                                                                              \
    }
/* HiDream-I1's, with so many blocks of each kind. */
#define HIDREAM_NET(two, one)                                                                      \
    {                                                                                              \
        .channels = 16, .hidden = 2560, .heads = 20, .depth = two, .single_depth = one,            \
        .patch = 2, .rope_dim = 32, .time_dim = 256, .pooled_dim = 2048, .experts = 4,             \
        .chosen = 2, .mlp = 6912, .shared_mlp = 3584, .text_mlp = 6912, .t5_dim = 4096,            \
        .llama_dim = 4096,                                                                         \
        .llama_layers = (two) + (one) < 32 ? (two) + (one) : GRAFT_HIDREAM_LLAMA_LAYERS            \
    }
/* A small one of its kind, with everything that belongs to it; more: planes beside the latent. */
#define TINY_FLUX(more)                                                                            \
    .flux = TINY_NET(256, .beside = more, .pooled_dim = 32, .guidance = 1), .vae_channels = 32,    \
    .vae_mult = {1, 1, 1, 1}, .vae_res_blocks = 1, .text = {{SD3_TEXT_L, HF(3, 32, 2)}},           \
    .t5 = {.layers = 2,                                                                            \
           .width = 112,                                                                           \
           .heads = 3,                                                                             \
           .head_dim = 16,                                                                         \
           .intermediate = 64,                                                                     \
           .vocab = 400,                                                                           \
           .buckets = 32},                                                                         \
    .config = "{\"text\": {\"heads\": 2}}"
#define SD3_TEXT                                                                                   \
    {                                                                                              \
        {SD3_TEXT_L, HF(12, 768, 12)},                                                             \
        {                                                                                          \
            SD3_TEXT_G, HF_LARGE(32, 1280, 20)                                                     \
        }                                                                                          \
    }

/* clang-format off */
static const model_kind kinds[] = {
    {.name = "sd15",
     .model_channels = 320, .mult = {1, 2, 4, 4}, .levels = 4, .res_blocks = 2,
     .depth = {1, 1, 1, 0}, .middle = 1, .context_dim = 768, .num_heads = 8,
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .text = {{SD1_TEXT, HF(12, 768, 12)}}},
    {.name = "sd21",
     .model_channels = 320, .mult = {1, 2, 4, 4}, .levels = 4, .res_blocks = 2,
     .depth = {1, 1, 1, 0}, .middle = 1, .context_dim = 1024, .linear_proj = 1, .head_dim = 64,
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .text = {{SD2_TEXT, OPENCLIP(24, 1024, 16)}}},
    {.name = "sdxl",
     .model_channels = 320, .mult = {1, 2, 4}, .levels = 3, .res_blocks = 2,
     .depth = {0, 2, 10}, .middle = 10, .context_dim = 2048, .adm_channels = 1280 + 6 * 256,
     .linear_proj = 1, .head_dim = 64,
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .text = {{SDXL_TEXT_L, HF(12, 768, 12)}, {SDXL_TEXT_G, OPENCLIP(32, 1280, 20)}}},
    {.name = "ssd1b",
     .model_channels = 320, .mult = {1, 2, 4}, .levels = 3, .res_blocks = 2,
     .depth = {0, 2, 4}, .depth_after = {4, 4, 10, 2, 1, 1, 0, 0, 0}, .middle_pruned = 1,
     .context_dim = 2048, .adm_channels = 1280 + 6 * 256, .linear_proj = 1, .head_dim = 64,
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .text = {{SDXL_TEXT_L, HF(12, 768, 12)}, {SDXL_TEXT_G, OPENCLIP(32, 1280, 20)}}},
    {.name = "bk-sdm-small",
     .model_channels = 320, .mult = {1, 2, 4, 4}, .levels = 4, .res_blocks = 1,
     .depth = {1, 1, 1, 0}, .middle_pruned = 2, .context_dim = 768, .num_heads = 8,
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .text = {{SD1_TEXT, HF(12, 768, 12)}}},
    {.name = "sdxl-refiner",
     .model_channels = 384, .mult = {1, 2, 4, 4}, .levels = 4, .res_blocks = 2,
     .depth = {0, 4, 4, 0}, .middle = 4, .context_dim = 1280, .adm_channels = 1280 + 5 * 256,
     .linear_proj = 1, .head_dim = 64,
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .text = {{REFINER_TEXT, OPENCLIP(32, 1280, 20)}}},
    {.name = "sd3", .mmdit = MMDIT(24, 192, 0, 0),
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2, .text = SD3_TEXT,
     .t5 = T5_XXL},
    {.name = "sd35-medium", .mmdit = MMDIT(24, 384, 1, 13),
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2, .text = SD3_TEXT,
     .t5 = T5_XXL},
    {.name = "sd35-large", .mmdit = MMDIT(38, 192, 1, 0),
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2, .text = SD3_TEXT,
     .t5 = T5_XXL},
    {.name = "flux-dev", .flux = FLUX_NET(256, .pooled_dim = 768, .guidance = 1),
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .text = {{SD3_TEXT_L, HF(12, 768, 12)}}, .t5 = T5_XXL},
    {.name = "flux-schnell", .flux = FLUX_NET(256, .pooled_dim = 768, .guidance = 0),
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .text = {{SD3_TEXT_L, HF(12, 768, 12)}}, .t5 = T5_XXL},
    {.name = "chroma", .flux = FLUX_NET(16, .approximator = 5120, .approximator_layers = 5),
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2, .t5 = T5_XXL},
    {.name = "qwen3-4b",
     .qwen3 = {.layers = 36, .width = 2560, .head_dim = 128, .intermediate = 9728, .vocab = 151936,
               .heads = 32, .key_heads = 8}},
    {.name = "qwen3-8b",
     .qwen3 = {.layers = 36, .width = 4096, .head_dim = 128, .intermediate = 12288,
               .vocab = 151936, .heads = 32, .key_heads = 8}},
    {.name = "tiny-qwen3-deep",
     .qwen3 = {.layers = 28, .width = 32, .head_dim = 8, .intermediate = 48, .vocab = 151936,
               .heads = 4, .key_heads = 2}},
    {.name = "mistral-small",
     .qwen3 = {.layers = 30, .width = 5120, .head_dim = 128, .intermediate = 32768,
               .vocab = 131072, .heads = 32, .key_heads = 8, .mistral = 1}},
    {.name = "tiny-mistral",
     .qwen3 = {.layers = 30, .width = 32, .head_dim = 8, .intermediate = 48, .vocab = 1024,
               .heads = 4, .key_heads = 2, .mistral = 1},
     .config = "{\"head_dim\": 8}"},
    {.name = "flux2-vae", .vae_folds = true,
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2},
    {.name = "tiny-flux2-vae", .vae_folds = true,
     .vae_channels = 32, .vae_mult = {1, 1, 1, 1}, .vae_res_blocks = 1},
    {.name = "tiny-qwen3",
     .qwen3 = {.layers = 3, .width = 32, .head_dim = 8, .intermediate = 48, .vocab = 151936,
               .heads = 4, .key_heads = 2}},
    {.name = "tiny-flux", TINY_FLUX(0)},
    {.name = "tiny-flux-fill", TINY_FLUX(80)},
    {.name = "tiny-chroma",
     .flux = TINY_NET(16, .approximator = 48, .approximator_layers = 2)},
    {.name = "longcat-image", .flux = LONGCAT_NET(10, 20),
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2},
    {.name = "longcat-image-layer", .flux = LONGCAT_NET(1, 1)},
    {.name = "tiny-longcat-image",
     .flux = TINY_RELATIVE(.words = GRAFT_LONGCAT_TOKENS, .apart = 1)},
    {.name = "ovis-image", .flux = OVIS_NET(6, 27),
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .qwen3 = {.layers = 28, .width = 2048, .head_dim = 128, .intermediate = 6144, .vocab = 151936,
               .heads = 16, .key_heads = 8}},
    {.name = "ovis-image-layer", .flux = OVIS_NET(1, 1)},
    {.name = "tiny-ovis-image", .flux = TINY_RELATIVE(.words = GRAFT_OVIS_TOKENS, .gated = 1)},
    {.name = "z-image", .zimage = ZIMAGE_NET(30, 2),
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2},
    {.name = "z-image-layer", .zimage = ZIMAGE_NET(1, 1)},
    {.name = "tiny-z-image",
     .zimage = {.channels = 16, .hidden = 64, .heads = 2, .mlp = 160, .depth = 2, .noise_depth = 1,
                .context_depth = 1, .patch = 2, .rope_dim = 12, .time_dim = 256, .time_mlp = 48,
                .told = 24, .context_dim = 32},
     .vae_channels = 32, .vae_mult = {1, 1, 1, 1}, .vae_res_blocks = 1},
    {.name = "lumina2", .zimage = LUMINA2_NET(26, 2),
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .qwen3 = {.layers = 26, .width = 2304, .head_dim = 256, .intermediate = 9216,
               .vocab = 256000, .heads = 8, .key_heads = 4, .gemma = 1}},
    {.name = "lumina2-layer", .zimage = LUMINA2_NET(1, 1)},
    {.name = "tiny-lumina2",
     .zimage = {.channels = 16, .hidden = 96, .heads = 4, .mlp = 160, .depth = 2, .noise_depth = 1,
                .context_depth = 1, .patch = 2, .rope_dim = 8, .time_dim = 256, .time_mlp = 48,
                .told = 24, .context_dim = 32, .key_heads = 2},
     .vae_channels = 32, .vae_mult = {1, 1, 1, 1}, .vae_res_blocks = 1,
     .qwen3 = {.layers = 3, .width = 32, .head_dim = 8, .intermediate = 48, .vocab = 1024,
               .heads = 4, .key_heads = 2, .gemma = 1},
     .config = "{\"head_dim\": 8}"},
    {.name = "flux2-klein", .flux2 = FLUX2_NET(24, 5, 20, 3 * 2560, 0)},
    {.name = "flux2-klein-9b", .flux2 = FLUX2_NET(32, 8, 24, 3 * 4096, 0)},
    {.name = "flux2-dev", .flux2 = FLUX2_NET(48, 8, 48, 3 * 5120, 1)},
    {.name = "flux2-layer", .flux2 = FLUX2_NET(24, 1, 1, 3 * 2560, 0)},
    {.name = "tiny-flux2",
     .flux2 = {.channels = 128, .hidden = 64, .heads = 2, .mlp = 192, .depth = 1, .single_depth = 2,
               .time_dim = 256, .context_dim = 96}},
    {.name = "tiny-flux2-dev",
     .flux2 = {.channels = 128, .hidden = 64, .heads = 2, .mlp = 192, .depth = 1, .single_depth = 2,
               .time_dim = 256, .context_dim = 96, .guidance = 1}},
    {.name = "qwen-image", .qwen_image = QWEN_IMAGE_NET(60), .vae_wan = true,
     .vae_channels = 96, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .qwen3 = {.layers = 28, .width = 3584, .head_dim = 128, .intermediate = 18944,
               .vocab = 152064, .heads = 28, .key_heads = 4, .biased = 1},
     .qwen_vision = {.layers = 32, .width = 1280, .heads = 16, .intermediate = 3420, .patch = 14,
                     .whole_every = 8, .out = 3584}},
    {.name = "qwen-image-layer", .qwen_image = QWEN_IMAGE_NET(2)},
    {.name = "tiny-qwen-image", .vae_wan = true,
     .qwen_image = {.channels = 16, .hidden = 64, .heads = 2, .mlp = 160, .depth = 2, .patch = 2,
                    .rope_dim = 14, .time_dim = 256, .context_dim = 32},
     .vae_channels = 8, .vae_mult = {1, 2, 2, 2}, .vae_res_blocks = 1,
     .qwen3 = {.layers = 2, .width = 32, .head_dim = 8, .intermediate = 48, .vocab = 151936,
               .heads = 4, .key_heads = 2, .biased = 1},
     .qwen_vision = {.layers = 2, .width = 16, .heads = 2, .intermediate = 20, .patch = 14,
                     .whole_every = 2, .out = 32},
     .config = "{\"head_dim\": 8, \"vision_heads\": 2, \"vision_whole_every\": 2}"},
    {.name = "qwen-image-layered", .qwen_image = QWEN_IMAGE_NET(60, .layered = 1), .vae_wan = true,
     .vae_alpha = true, .vae_channels = 96, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2},
    {.name = "tiny-qwen-image-layered", .vae_wan = true, .vae_alpha = true,
     .qwen_image = {.channels = 16, .hidden = 64, .heads = 2, .mlp = 160, .depth = 2, .patch = 2,
                    .rope_dim = 14, .time_dim = 256, .context_dim = 32, .layered = 1},
     .vae_channels = 8, .vae_mult = {1, 2, 2, 2}, .vae_res_blocks = 1},
    {.name = "qwen-image21", .qwen_image21 = QWEN_IMAGE21_NET(32), .vae_wan = true,
     .vae_channels = 96, .vae_mult = {1, 2, 4, 8, 8}, .vae_res_blocks = 2,
     .vae_decoder_channels = 144,
     .qwen3 = {.layers = 36, .width = 4096, .head_dim = 128, .intermediate = 12288,
               .vocab = 151936, .heads = 32, .key_heads = 8},
     .qwen3_vision = QWEN3_VISION_8B},
    {.name = "qwen-image21-layer", .qwen_image21 = QWEN_IMAGE21_NET(2)},
    {.name = "tiny-qwen-image21", .vae_wan = true,
     .qwen_image21 = {.channels = 64, .hidden = 64, .heads = 2, .mlp = 192, .depth = 2,
                      .rope_dim = 14, .time_dim = 256, .context_dim = 32},
     .vae_channels = 8, .vae_mult = {1, 2, 4, 8, 8}, .vae_res_blocks = 1,
     .vae_decoder_channels = 12,
     .qwen3 = {.layers = 3, .width = 32, .head_dim = 8, .intermediate = 48, .vocab = 151936,
               .heads = 4, .key_heads = 2},
     .qwen3_vision = {.layers = 3, .width = 16, .heads = 2, .intermediate = 20, .patch = 16,
                      .side = 4, .out = 32, .deep = 2, .deep_first = 1, .deep_step = 1},
     .config = "{\"vision_heads\": 2, \"vision_deep_first\": 1, \"vision_deep_step\": 1}"},
    {.name = "krea2", .krea2 = KREA2_NET(28, 2), .vae_wan = true,
     .vae_channels = 96, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .qwen3 = {.layers = 36, .width = 2560, .head_dim = 128, .intermediate = 9728, .vocab = 151936,
               .heads = 32, .key_heads = 8},
     .qwen3_vision = QWEN3_VISION_4B},
    {.name = "krea2-layer", .krea2 = KREA2_NET(2, 1)},
    {.name = "tiny-krea2", .vae_wan = true,
     .krea2 = {.channels = 16, .hidden = 64, .mlp = 160, .depth = 2, .heads = 4, .key_heads = 2,
               .patch = 2, .rope_dim = 6, .time_dim = 256, .text_layers = 12, .text_width = 32,
               .text_mlp = 48, .text_heads = 4, .text_key_heads = 4, .layer_depth = 1,
               .token_depth = 1},
     .vae_channels = 8, .vae_mult = {1, 2, 2, 2}, .vae_res_blocks = 1,
     .qwen3 = {.layers = 36, .width = 32, .head_dim = 8, .intermediate = 48, .vocab = 151936,
               .heads = 4, .key_heads = 2}},
    {.name = "anima", .anima = ANIMA_NET(28, 6), .vae_wan = true,
     .vae_channels = 96, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .qwen3 = {.layers = 28, .width = 1024, .head_dim = 128, .intermediate = 3072,
               .vocab = 151936, .heads = 16, .key_heads = 8}},
    {.name = "anima-layer", .anima = ANIMA_NET(1, 1)},
    {.name = "tiny-anima", .vae_wan = true,
     .anima = {.channels = 16, .hidden = 64, .heads = 2, .mlp = 160, .depth = 2, .patch = 2,
               .rope_dim = 10, .told = 16, .context_dim = 32, .adapter_width = 24,
               .adapter_heads = 3, .adapter_mlp = 48, .adapter_depth = 2, .words = 400},
     .vae_channels = 8, .vae_mult = {1, 2, 2, 2}, .vae_res_blocks = 1,
     .qwen3 = {.layers = 2, .width = 32, .head_dim = 8, .intermediate = 48, .vocab = 151936,
               .heads = 4, .key_heads = 2}},
    {.name = "ideogram4", .ideogram4 = IDEOGRAM4_NET(34), .vae_folds = true,
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .qwen3 = {.layers = 36, .width = 4096, .head_dim = 128, .intermediate = 12288,
               .vocab = 151936, .heads = 32, .key_heads = 8},
     .qwen3_vision = QWEN3_VISION_8B,
     .model_type = "ideogram4_cond"},
    {.name = "ideogram4-unconditional", .ideogram4 = IDEOGRAM4_NET(34),
     .model_type = "ideogram4_uncond"},
    {.name = "ideogram4-layer", .ideogram4 = IDEOGRAM4_NET(2)},
    {.name = "tiny-ideogram4", .ideogram4 = TINY_IDEOGRAM4, .vae_folds = true,
     .vae_channels = 32, .vae_mult = {1, 1, 1, 1}, .vae_res_blocks = 1,
     .qwen3 = {.layers = 36, .width = 32, .head_dim = 8, .intermediate = 48, .vocab = 151936,
               .heads = 4, .key_heads = 2},
     .model_type = "ideogram4_cond"},
    {.name = "tiny-ideogram4-unconditional", .ideogram4 = TINY_IDEOGRAM4,
     .model_type = "ideogram4_uncond"},
    {.name = "ernie-image", .ernie_image = ERNIE_IMAGE_NET(36), .vae_folds = true,
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .qwen3 = {.layers = 26, .width = 3072, .head_dim = 128, .intermediate = 9216,
               .vocab = 131072, .heads = 32, .key_heads = 8, .mistral = 1, .ministral = 1}},
    {.name = "ernie-image-layer", .ernie_image = ERNIE_IMAGE_NET(2)},
    {.name = "tiny-ernie-image", .vae_folds = true,
     .ernie_image = {.channels = 128, .hidden = 128, .heads = 4, .mlp = 192, .depth = 2,
                     .rope_dim = 12, .context_dim = 32, .own_text = 1},
     .vae_channels = 32, .vae_mult = {1, 1, 1, 1}, .vae_res_blocks = 1,
     .qwen3 = {.layers = 3, .width = 32, .head_dim = 8, .intermediate = 48, .vocab = 1024,
               .heads = 4, .key_heads = 2, .mistral = 1, .ministral = 1},
     .config = "{\"head_dim\": 8}"},
    {.name = "auraflow", .auraflow = AURAFLOW_NET(4, 32, 96),
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .t5 = {.layers = 24, .width = 2048, .heads = 32, .head_dim = 64, .intermediate = 5120,
            .vocab = 32128, .buckets = 32, .own_bias = 1}},
    {.name = "auraflow-layer", .auraflow = AURAFLOW_NET(1, 1, 96)},
    {.name = "tiny-auraflow",
     .auraflow = {.channels = 4, .hidden = 64, .heads = 4, .mlp = 96, .depth = 2,
                  .single_depth = 2, .patch = 2, .table = 16, .time_dim = 256, .context_dim = 48,
                  .registers = 3},
     .vae_channels = 32, .vae_mult = {1, 1, 1, 1}, .vae_res_blocks = 1,
     .t5 = {.layers = 2, .width = 48, .heads = 3, .head_dim = 16, .intermediate = 64, .vocab = 800,
            .buckets = 32, .own_bias = 1},
     .config = "{\"num_heads\": 4}"},
    {.name = "omnigen2", .omnigen2 = OMNIGEN2_NET(32, 2),
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2,
     .qwen3 = {.layers = 36, .width = 2048, .head_dim = 128, .intermediate = 11008,
               .vocab = 151936, .heads = 16, .key_heads = 2, .biased = 1}},
    {.name = "omnigen2-layer", .omnigen2 = OMNIGEN2_NET(1, 1)},
    {.name = "tiny-omnigen2",
     .omnigen2 = {.channels = 16, .hidden = 72, .mlp = 96, .heads = 6, .key_heads = 2, .depth = 2,
                  .noise_depth = 1, .context_depth = 1, .picture_depth = 1, .patch = 2,
                  .rope_dim = 4, .time_dim = 256, .told = 32, .context_dim = 32, .pictures = 5}},
    {.name = "hidream", .hidream = HIDREAM_NET(16, 32),
     .vae_channels = 128, .vae_mult = {1, 2, 4, 4}, .vae_res_blocks = 2, .text = SD3_TEXT,
     .t5 = T5_XXL,
     .qwen3 = {.layers = 32, .width = 4096, .head_dim = 128, .intermediate = 14336,
               .vocab = 128256, .heads = 32, .key_heads = 8, .mistral = 1, .llama = 1}},
    {.name = "hidream-layer", .hidream = HIDREAM_NET(1, 1)},
    {.name = "tiny-hidream",
     .hidream = {.channels = 16, .hidden = 64, .heads = 2, .depth = 1, .single_depth = 2,
                 .patch = 2, .rope_dim = 8, .time_dim = 256, .pooled_dim = 96, .experts = 4,
                 .chosen = 2, .mlp = 96, .shared_mlp = 64, .text_mlp = 96, .t5_dim = 112,
                 .llama_dim = 32, .llama_layers = 3},
     .vae_channels = 32, .vae_mult = {1, 1, 1, 1}, .vae_res_blocks = 1,
     .text = {{SD3_TEXT_L, HF_LARGE(3, 32, 2)}, {SD3_TEXT_G, HF_LARGE(3, 64, 2)}},
     .t5 = {.layers = 2, .width = 112, .heads = 3, .head_dim = 16, .intermediate = 64, .vocab = 400,
            .buckets = 32},
     .qwen3 = {.layers = 3, .width = 32, .head_dim = 8, .intermediate = 48, .vocab = 400,
               .heads = 4, .key_heads = 2, .mistral = 1, .llama = 1},
     .config = "{\"num_heads\": 2, \"head_dim\": 8, \"llama\": 1, \"text\": {\"heads\": 2}}"},
    {.name = "tiny-sd3",
     .mmdit = {.channels = 16, .hidden = 32, .depth = 3, .heads = 2, .mlp = 128, .patch = 2,
               .table = 24, .time_dim = 256, .context_dim = 112, .pooled_dim = 96, .qk_norm = 1,
               .dual = 1},
     .vae_channels = 32, .vae_mult = {1, 1, 1, 1}, .vae_res_blocks = 1,
     .text = {{SD3_TEXT_L, HF(3, 32, 2)}, {SD3_TEXT_G, HF_LARGE(3, 64, 2)}},
     .t5 = {.layers = 2, .width = 112, .heads = 3, .head_dim = 16, .intermediate = 64, .vocab = 400,
            .buckets = 32},
     .config = "{\"text\": {\"heads\": 2}}"},
    {.name = "tiny-sd1",
     .model_channels = 32, .mult = {1, 2}, .levels = 2, .res_blocks = 1,
     .depth = {1, 1}, .middle = 1, .context_dim = 64, .num_heads = 2,
     .vae_channels = 32, .vae_mult = {1, 1, 1, 1}, .vae_res_blocks = 1,
     .text = {{SD1_TEXT, HF(2, 64, 2)}},
     .config = "{\"unet\": {\"num_heads\": 2}, "
               "\"text\": {\"heads\": 2, \"hidden_act\": \"quick_gelu\"}}"},
    {.name = "tiny-sd2",
     .model_channels = 32, .mult = {1, 2}, .levels = 2, .res_blocks = 1,
     .depth = {1, 1}, .middle = 1, .context_dim = 64, .linear_proj = 1, .head_dim = 16,
     .vae_channels = 32, .vae_mult = {1, 1, 1, 1}, .vae_res_blocks = 1,
     .text = {{SD2_TEXT, OPENCLIP(3, 64, 2)}},
     .config = "{\"prediction\": \"v\", \"unet\": {\"num_head_channels\": 16}, "
               "\"text\": {\"heads\": 2}}"},
    {.name = "tiny-unclip", .unclip = true,
     .model_channels = 32, .mult = {1, 2}, .levels = 2, .res_blocks = 1,
     .depth = {1, 1}, .middle = 1, .context_dim = 64, .adm_channels = 2 * 32, .linear_proj = 1,
     .head_dim = 16,
     .vae_channels = 32, .vae_mult = {1, 1, 1, 1}, .vae_res_blocks = 1,
     .text = {{SD2_TEXT, OPENCLIP(3, 64, 2)}},
     .config = "{\"unet\": {\"num_head_channels\": 16}, \"text\": {\"heads\": 2}}"},
    {.name = "tiny-sdxl",
     .model_channels = 32, .mult = {1, 2}, .levels = 2, .res_blocks = 1,
     .depth = {0, 2}, .middle = 2, .context_dim = 32 + 64, .adm_channels = 64 + 6 * 256,
     .linear_proj = 1, .head_dim = 16,
     .vae_channels = 32, .vae_mult = {1, 1, 1, 1}, .vae_res_blocks = 1,
     .text = {{SDXL_TEXT_L, HF(3, 32, 2)}, {SDXL_TEXT_G, OPENCLIP(3, 64, 2)}},
     .config = "{\"scale_factor\": 0.13025, \"unet\": {\"num_head_channels\": 16}, "
               "\"text\": {\"heads\": 2}}"},
    {.name = "tiny-refiner",
     .model_channels = 64, .mult = {1, 1}, .levels = 2, .res_blocks = 1,
     .depth = {0, 1}, .middle = 1, .context_dim = 1280, .adm_channels = 1280 + 5 * 256,
     .linear_proj = 1, .head_dim = 64,
     .vae_channels = 32, .vae_mult = {1, 1, 1, 1}, .vae_res_blocks = 1},
};
/* clang-format on */

const model_kind *model_kind_at(size_t i)
{
    return i < sizeof kinds / sizeof *kinds ? &kinds[i] : NULL;
}
