/* Architectures as plain data: what a graph builder needs to know. detect/detect.h finds them from
 * the names and shapes of a file's tensors.
 *
 * Structures are zero-filled before they are set, so that equal architectures are equal bytes. */
#ifndef GRAFT_MODELS_ARCH_H
#define GRAFT_MODELS_ARCH_H
#include <stdbool.h>
#include <stdint.h>

#define GRAFT_MAX_BLOCKS 48
#define GRAFT_MAX_LEVELS 8

typedef struct graft_unet_block {
    int32_t channels;    /* of the block's output; 0 for a down-sampling block: as its input */
    int32_t transformer; /* depth; 0: none */
    int32_t down;        /* input blocks: 1 when this is a strided convolution alone */
    int32_t up;          /* output blocks: 1 when the block ends by doubling the size */
} graft_unet_block;

typedef struct graft_unet_arch {
    int32_t in_channels, out_channels, model_channels, time_dim;
    int32_t context_dim;
    int32_t adm_channels; /* width of y; 0: the model takes none */
    int32_t unclip;       /* 1: y tells of pictures (denoise/unclip.h) */
    int32_t linear_proj;  /* proj_in and proj_out are stored as matrices, not as 1x1 convolutions */
    int32_t num_heads, head_dim; /* exactly one is not 0 */
    int32_t n_input, n_output;
    /* The middle: two residual blocks with a transformer of this depth between them, or without one
     * at depth 0. Pruned models have only the first of them (SSD-1B, Segmind Vega), or no middle
     * (KOALA, the smaller of BK-SDM: Kim et al. 2023, arXiv:2305.15798). */
    int32_t middle_residual, middle_transformer;
    graft_unet_block input[GRAFT_MAX_BLOCKS], output[GRAFT_MAX_BLOCKS];
} graft_unet_arch;

/* The diffusion transformer of Stable Diffusion 3 and 3.5 (mmdit.h). */
typedef struct graft_mmdit_arch {
    int32_t channels; /* of the latent, going in and coming out */
    int32_t hidden, depth, heads, mlp;
    int32_t patch;    /* squares of so many cells of the latent are one token */
    int32_t table;    /* rows and columns of the table of positions */
    int32_t time_dim; /* numbers that tell the timestep */
    int32_t context_dim;
    int32_t pooled_dim;
    int32_t qk_norm; /* 1: queries and keys are normed (SD 3.5) */
    int32_t dual;    /* the first so many blocks have a second attention, of the picture alone */
} graft_mmdit_arch;

/* FLUX.1's transformer (flux.h), Chroma's, which has an approximator (chroma.h), LongCat-Image's
 * and Ovis-Image's. */
typedef struct graft_flux_arch {
    int32_t channels; /* of the latent, going in and coming out */
    int32_t beside;   /* planes that it sees beside the latent */
    int32_t hidden, heads, mlp;
    int32_t depth, single_depth; /* blocks of two streams, then of one */
    int32_t patch;               /* as above */
    int32_t rope_dim; /* how many of a head's values turn with the row; with the column as many */
    int32_t time_dim; /* numbers that tell the timestep */
    int32_t context_dim;
    int32_t pooled_dim; /* 0: it is told no pooled prompt, which FLUX.1's are */
    int32_t guidance;   /* 1: it is told the guidance scale (dev) */
    /* Chroma's: its width, 0: there is none; and how many layers it has. */
    int32_t approximator, approximator_layers;
    /* LongCat-Image's and Ovis-Image's: tokens of a prompt, which have places like those of a
     * picture; 0: they have none. */
    int32_t words;
    int32_t apart; /* 1: pictures stand behind the prompt's places, each for itself (LongCat) */
    int32_t gated; /* 1: MLPs have gates, and prompts are normed (Ovis) */
} graft_flux_arch;
/* FLUX.1's relatives that are told no pooled prompt. */
typedef enum graft_flux_relative {
    GRAFT_FLUX_NONE = 0,
    GRAFT_FLUX_LONGCAT = 1,
    GRAFT_FLUX_OVIS = 2
} graft_flux_relative;

/* Z-Image's and Lumina-Image 2.0's transformer (zimage.h). */
typedef struct graft_zimage_arch {
    int32_t channels; /* of the latent, going in and coming out */
    int32_t hidden, heads, mlp;
    int32_t depth;                      /* blocks of prompt and picture together */
    int32_t noise_depth, context_depth; /* those of the picture, and of the prompt, before these */
    int32_t patch;                      /* as above */
    int32_t rope_dim;                   /* likewise */
    int32_t time_dim, time_mlp, told; /* numbers that tell the timestep, and what becomes of them */
    int32_t context_dim;
    /* Of keys and values, which several heads of queries share: Lumina-Image 2.0's; 0: Z-Image's,
     * as many as of queries. All else in which the two differ goes with it. */
    int32_t key_heads;
} graft_zimage_arch;
/* OmniGen2's transformer (omnigen2.h). */
typedef struct graft_omnigen2_arch {
    int32_t channels; /* of the latent, going in and coming out */
    int32_t hidden, mlp;
    int32_t heads, key_heads; /* of queries; of keys and values, which several of them share */
    int32_t depth;            /* blocks of prompt and pictures together */
    int32_t noise_depth, context_depth, picture_depth; /* those of the picture, the prompt and each
                                                          picture that is shown, before these */
    int32_t patch;                                     /* as above */
    int32_t rope_dim;                                  /* likewise */
    int32_t time_dim, told; /* numbers that tell the timestep, and what becomes of them */
    int32_t context_dim;
    int32_t pictures; /* that it may be shown, each of which has a vector */
} graft_omnigen2_arch;

/* A prompt of Z-Image, and a picture, are as many tokens as this or a multiple: the rest is filled
 * with a token that was trained for that, and which the others see. */
#define GRAFT_ZIMAGE_TOKENS 32
/* For so many tokens of a prompt. */
static inline int64_t graft_zimage_tokens(int64_t tokens)
{
    const int64_t blocks = (tokens + GRAFT_ZIMAGE_TOKENS - 1) / GRAFT_ZIMAGE_TOKENS;
    return (blocks > 0 ? blocks : 1) * GRAFT_ZIMAGE_TOKENS;
}

/* FLUX.2's transformer (flux2.h). */
typedef struct graft_flux2_arch {
    int32_t channels; /* of the latent, going in and coming out; each of its cells is one token */
    int32_t hidden, heads;
    int32_t mlp;                 /* values behind the gates */
    int32_t depth, single_depth; /* blocks of two streams, then of one */
    int32_t time_dim;            /* numbers that tell the timestep */
    int32_t context_dim;
    int32_t guidance; /* 1: it is told the guidance scale (dev) */
} graft_flux2_arch;

/* Qwen-Image's transformer (qwen_image.h). */
typedef struct graft_qwen_image_arch {
    int32_t channels; /* of the latent, going in and coming out */
    int32_t hidden, heads, mlp, depth;
    int32_t patch;    /* as above */
    int32_t rope_dim; /* likewise */
    int32_t time_dim; /* numbers that tell the timestep */
    int32_t context_dim;
    /* 1: references are told that there is no noise in them (Qwen-Image-Edit-2511). */
    int32_t clean_references;
    /* 1: Qwen-Image-Layered's: its latents may have layers, and it is told that they have an alpha
     * channel. */
    int32_t layered;
} graft_qwen_image_arch;

/* Qwen-Image 2.1's transformer (qwen_image21.h). */
typedef struct graft_qwen_image21_arch {
    int32_t channels; /* of the latent, going in and coming out; each of its cells is one token */
    int32_t hidden, heads, mlp, depth;
    int32_t rope_dim; /* as above */
    int32_t time_dim; /* numbers that tell the timestep */
    int32_t context_dim;
} graft_qwen_image21_arch;

/* Krea 2's transformer (krea2.h). */
typedef struct graft_krea2_arch {
    int32_t channels; /* of the latent, going in and coming out */
    int32_t hidden, mlp, depth;
    int32_t heads, key_heads; /* of queries; of keys and values, which several of them share */
    int32_t patch;            /* as above */
    int32_t rope_dim;         /* likewise */
    int32_t time_dim;         /* numbers that tell the timestep */
    /* Of a prompt's tokens: how many layers of the language model are read, how wide each is, and
     * the blocks that see the layers of one token, then those that see all tokens. */
    int32_t text_layers, text_width, text_mlp, text_heads, text_key_heads;
    int32_t layer_depth, token_depth;
} graft_krea2_arch;

/* Ideogram 4's transformer (ideogram4.h). */
typedef struct graft_ideogram4_arch {
    int32_t channels; /* of the latent, going in and coming out; each of its cells is one token */
    int32_t hidden, heads, mlp, depth;
    int32_t rope_dim; /* as above */
    int32_t told;     /* numbers that tell a block the time */
    int32_t context_dim;
} graft_ideogram4_arch;

/* ERNIE-Image's transformer (ernie_image.h). */
typedef struct graft_ernie_image_arch {
    int32_t channels; /* of the latent, going in and coming out; each of its cells is one token */
    int32_t hidden, heads, mlp, depth;
    int32_t rope_dim; /* as above */
    int32_t context_dim;
    int32_t own_text; /* 1: a layer makes the prompt's tokens as wide as the network */
} graft_ernie_image_arch;

/* AuraFlow's transformer (auraflow.h). */
typedef struct graft_auraflow_arch {
    int32_t channels; /* of the latent, going in and coming out */
    int32_t hidden, heads, mlp;
    int32_t depth, single_depth; /* blocks of two streams, then of one */
    int32_t patch;               /* as above */
    int32_t table;               /* rows and columns of the table of positions */
    int32_t time_dim;            /* numbers that tell the timestep */
    int32_t context_dim;
    int32_t registers; /* learnt tokens that stand before a prompt's */
} graft_auraflow_arch;

/* HiDream-I1's transformer (hidream.h). */
typedef struct graft_hidream_arch {
    int32_t channels; /* of the latent, going in and coming out */
    int32_t hidden, heads;
    int32_t depth, single_depth; /* blocks of two streams, then of one */
    int32_t patch;               /* as above */
    int32_t rope_dim;            /* likewise */
    int32_t time_dim;            /* numbers that tell the timestep */
    int32_t pooled_dim;
    int32_t experts, chosen;           /* that a token may go through, and does */
    int32_t mlp, shared_mlp, text_mlp; /* values behind the gates of each, of the one that sees all
                                          tokens, and of words */
    /* Of a prompt: T5's numbers of a token, and those of each of so many layers of Llama. */
    int32_t t5_dim, llama_dim, llama_layers;
} graft_hidream_arch;

/* Anima's transformer, and the adapter that makes of a prompt what it reads (anima.h). */
typedef struct graft_anima_arch {
    int32_t channels; /* of the latent, going in and coming out */
    int32_t hidden, heads, mlp, depth;
    int32_t patch;       /* as above */
    int32_t rope_dim;    /* likewise */
    int32_t told;        /* values between the two layers that tell a branch the time */
    int32_t context_dim; /* of the text encoder's tokens */
    /* The adapter's: as wide as what it gives; and how many words its table has. */
    int32_t adapter_width, adapter_heads, adapter_mlp, adapter_depth, words;
} graft_anima_arch;

typedef enum graft_net_kind {
    GRAFT_NET_UNET = 0,
    GRAFT_NET_MMDIT = 1,
    GRAFT_NET_FLUX = 2,
    GRAFT_NET_ZIMAGE = 3,
    GRAFT_NET_FLUX2 = 4,
    GRAFT_NET_QWEN_IMAGE = 5,
    GRAFT_NET_KREA2 = 6,
    GRAFT_NET_ANIMA = 7,
    GRAFT_NET_QWEN_IMAGE21 = 8,
    GRAFT_NET_IDEOGRAM4 = 9,
    GRAFT_NET_ERNIE_IMAGE = 10,
    GRAFT_NET_AURAFLOW = 11,
    GRAFT_NET_OMNIGEN2 = 12,
    GRAFT_NET_HIDREAM = 13,
    GRAFT_NET_KINDS /* how many there are */
} graft_net_kind;

/* What stands behind the latent in a network's x, which stays the same over all steps
 * (denoise/known.h). */
typedef enum graft_beside {
    GRAFT_BESIDE_NOTHING = 0,
    /* Inpainting UNets: a mask, then the latent of the picture without what it masks. */
    GRAFT_BESIDE_MASKED = 1,
    /* InstructPix2Pix, and FLUX's Canny and Depth: the latent of a picture. */
    GRAFT_BESIDE_PICTURE = 2,
    /* FLUX's Fill: the latent of the picture without what is masked, then the mask, a plane for
     * each pixel of a cell. */
    GRAFT_BESIDE_FILL = 3
} graft_beside;
#define GRAFT_CELL_PIXELS (8 * 8)

/* The network that denoises, of any kind: what sampling has to know, and the architecture of its
 * kind; those of the others are all zeros. */
typedef struct graft_net_arch {
    int32_t kind;            /* graft_net_kind */
    int32_t beside;          /* graft_beside */
    int32_t in_channels;     /* of x; more than those of the latent where something is beside it */
    int32_t latent_channels; /* of the latent, and of what comes out */
    int32_t context_dim;
    int32_t adm_channels; /* of y, but for what graft_net_y_width() adds */
    graft_unet_arch unet;
    graft_mmdit_arch mmdit;
    graft_flux_arch flux;
    graft_zimage_arch zimage;
    graft_flux2_arch flux2;
    graft_qwen_image_arch qwen_image;
    graft_krea2_arch krea2;
    graft_anima_arch anima;
    graft_qwen_image21_arch qwen_image21;
    graft_ideogram4_arch ideogram4;
    graft_ernie_image_arch ernie_image;
    graft_auraflow_arch auraflow;
    graft_omnigen2_arch omnigen2;
    graft_hidream_arch hidream;
} graft_net_arch;

/* A T2I-Adapter (t2i_adapter.h). */
#define GRAFT_T2I_FEATURES GRAFT_MAX_LEVELS
typedef struct graft_t2i_arch {
    int32_t n;       /* features that it gives; 0: it is none */
    int32_t factor;  /* squares of so many pixels a side are its places: 8, or XL's 16 */
    int32_t colours; /* that it sees: 3, or 1, brightness */
    int32_t channels[GRAFT_T2I_FEATURES]; /* of each feature */
    int32_t blocks;                       /* residual blocks that make each of them */
    int32_t kernel;                       /* of the convolutions that may be 1x1 or 3x3 */
    int32_t light;     /* 1: of the small kind, whose blocks are a quarter as wide */
    int32_t diffusers; /* 1: tensors have diffusers' names */
} graft_t2i_arch;

/* What the blocks of a ControlNet for Z-Image make of the picture before those of prompt and
 * picture together. */
typedef enum graft_control_refining {
    GRAFT_CONTROL_REFINES_HINT = 0,  /* version 1: control_noise_refiner sees the hint alone */
    GRAFT_CONTROL_REFINES_TWICE = 1, /* 2.0: control_layers run twice, first in its place */
    GRAFT_CONTROL_REFINES_BOTH = 2   /* 2.1: control_noise_refiner steers noise_refiner */
} graft_control_refining;

#define GRAFT_MAX_HINT 16
/* What steers a network by a picture. A ControlNet, of the kind of the network that it steers: the
 * first half of a UNet and the convolutions that its hint goes through, or a transformer of fewer
 * blocks (control_flux.h, control_mmdit.h, control_zimage.h, control_qwen_image.h), whose hint is a
 * latent, or layers within its blocks (control_blockwise.h). */
typedef struct graft_control_arch {
    int32_t kind; /* graft_net_kind; the others' are all zeros */
    graft_flux_arch flux;
    /* Without a context_dim it has no blocks of text; without a table it sees the latent as the
     * network that it steers embeds it. */
    graft_mmdit_arch mmdit;
    int32_t canny;        /* 1: Stability's for outlines, which was trained with glaring white */
    graft_unet_arch half; /* without output blocks and out_channels */
    int32_t diffusers;    /* 1: tensors have diffusers' names */
    int32_t hint_channels, n_hint;
    int32_t hint[GRAFT_MAX_HINT]; /* channels that each convolution gives */
    /* Of a union ControlNet (control_union.h, control_flux.h): how many types of pictures it tells
     * apart; for a UNet also the width of what each entry of its type becomes, and its
     * transformer's layers. 0: it is none. */
    int32_t types, type_dim, type_layers;
    /* 1: a Control-LoRA: of `half` only what its own file tells, which is not all of it; channels
     * of a down-sampling block, too. What a model makes of it is 0 (objects/control.h). */
    int32_t lora;
    graft_t2i_arch t2i; /* n > 0: a T2I-Adapter of UNets, and all above are zeros */
    /* Of one for Z-Image (control_zimage.h): of `zimage` what its own file tells, depth and
     * noise_depth being its own blocks; and the network that it begins with, all zeros before it is
     * made for a model (objects/control.h). */
    graft_zimage_arch zimage, begins_with;
    int32_t refining; /* graft_control_refining */
    graft_qwen_image_arch qwen_image;
    /* 1: it runs within the network (control_blockwise.h); of `qwen_image` what its file tells:
     * channels, hidden, depth and patch. */
    int32_t within;
} graft_control_arch;

typedef enum graft_vae_kind {
    GRAFT_VAE_KL = 0,   /* AutoencoderKL, Stable Diffusion's own */
    GRAFT_VAE_TINY = 1, /* TAESD */
    GRAFT_VAE_WAN = 2,  /* Wan 2.1's and Qwen-Image's, and Qwen-Image 2.1's (wan_vae.h) */
    GRAFT_VAE_TAEHV = 3 /* TAESD's relative for Wan 2.1's latents (taehv.h) */
} graft_vae_kind;

typedef enum graft_quant_conv {
    GRAFT_QUANT_CONV_NONE = 0,
    GRAFT_QUANT_CONV_BESIDE = 1, /* quant_conv and post_quant_conv, beside the halves */
    GRAFT_QUANT_CONV_WITHIN = 2  /* encoder.quant_conv and decoder.post_quant_conv */
} graft_quant_conv;

typedef enum graft_tiny_names {
    GRAFT_TINY_LAYERS = 0, /* diffusers': encoder.layers.N and decoder.layers.N in one file */
    GRAFT_TINY_NUMBERS = 1 /* the author's: N, each half in a file of its own */
} graft_tiny_names;

/* A half of a TAESD or a TAEHV; its levels are those of the whole. */
typedef struct graft_tiny_half {
    int32_t width;                    /* channels, the same on all levels; of a TAEHV's encoder */
    int32_t blocks[GRAFT_MAX_LEVELS]; /* of each level, in the order in which they run */
    int32_t pooled; /* 1: blocks at the latent have a group norm beside them, as FLUX.2's have */
} graft_tiny_half;

typedef struct graft_vae_arch {
    int32_t in_channels, out_channels, z_channels, embed_dim, levels;
    int32_t encoder, decoder; /* 1: present */
    int32_t kind;             /* graft_vae_kind; the rest is of one kind only */
    /* AutoencoderKL, Wan's, and a TAEHV's decoder */
    int32_t channels[GRAFT_MAX_LEVELS]; /* of each level, outermost first */
    int32_t res_blocks;                 /* of the encoder; the decoder has one more */
    /* Wan's: 1: Qwen-Image 2.1's kind, whose levels have a way around them, whose halves differ in
     * width, and whose kernels see one picture. Of each level the decoder's channels, and whether
     * what is between it and the next would change the length of a video besides. */
    int32_t residual;
    int32_t decoder_channels[GRAFT_MAX_LEVELS], temporal[GRAFT_MAX_LEVELS];
    /* AutoencoderKL */
    int32_t quant_conv; /* graft_quant_conv */
    /* And TAESD. 2: FLUX.2's. Each place of its latents has the planes of a square of so many cells
     * a side, normalized (folding.h); 0: cells are places. */
    int32_t fold;
    /* TAESD and TAEHV */
    int32_t names;           /* graft_tiny_names */
    graft_tiny_half half[2]; /* encoder, decoder */
} graft_vae_arch;

typedef enum graft_upscaler_kind {
    GRAFT_UPSCALER_RRDB = 1,   /* ESRGAN's network */
    GRAFT_UPSCALER_COMPACT = 2 /* Real-ESRGAN's small one */
} graft_upscaler_kind;

typedef enum graft_upscaler_names {
    GRAFT_UPSCALER_PLAIN = 0,     /* body.N.rdb1.conv1, conv_up1, conv_hr */
    GRAFT_UPSCALER_TRUNK = 1,     /* RRDB_trunk.N.RDB1.conv1, upconv1, HRconv */
    GRAFT_UPSCALER_SEQUENTIAL = 2 /* model.1.sub.N.RDB1.conv1.0, model.3, model.8 */
} graft_upscaler_names;

#define GRAFT_UPSCALER_CHANNELS 3 /* RGB, going in and coming out */
typedef struct graft_upscaler_arch {
    int32_t kind, names;      /* graft_upscaler_kind, graft_upscaler_names */
    int32_t features, growth; /* growth: RRDB, what each convolution of a dense block adds */
    int32_t blocks;           /* compact: convolutions between the first and the last */
    int32_t doublings;        /* RRDB: times that features are doubled in height and width */
    int32_t unshuffle;        /* RRDB: squares of so many pixels are channels at first; 1, 2, 4 */
    int32_t factor;           /* compact */
} graft_upscaler_arch;

typedef enum graft_text_layout {
    GRAFT_TEXT_HF = 0,      /* text_model.encoder.layers.N.self_attn.q_proj… */
    GRAFT_TEXT_OPENCLIP = 1 /* transformer.resblocks.N.attn.in_proj_weight… */
} graft_text_layout;

typedef struct graft_text_arch {
    int32_t layout; /* graft_text_layout */
    int32_t layers, width, heads, intermediate, vocab, positions;
    int32_t act;                   /* graft_act */
    int32_t projection;            /* width of the projected pooled output; 0: no projection */
    int32_t projection_transposed; /* stored (width, projection): OpenCLIP's x @ P */
    int32_t eos;                   /* token at whose first place the pooled output is taken */
} graft_text_arch;

typedef enum graft_vision_kind { GRAFT_VISION_CLIP = 0, GRAFT_VISION_SIGLIP = 1 } graft_vision_kind;

/* An encoder of pictures (vision.h). */
typedef struct graft_vision_arch {
    int32_t kind, layout; /* graft_vision_kind, graft_text_layout */
    int32_t layers, width, heads, intermediate;
    int32_t act;         /* graft_act */
    int32_t size;        /* of the pictures that it sees, in pixels a side */
    int32_t patch, grid; /* pixels of a square's side; squares of a picture's */
    int32_t projection;  /* as of text encoders */
} graft_vision_arch;

/* FLUX.1 Redux (redux.h): widths of the tokens that it is given, within, and that it gives. */
typedef struct graft_redux_arch {
    int32_t seen, inner, width;
} graft_redux_arch;

typedef enum graft_ip_adapter_kind {
    GRAFT_IP_ADAPTER_LINEAR = 0,   /* of the vector of a picture: one layer and a norm */
    GRAFT_IP_ADAPTER_RESAMPLER = 1 /* "plus": of its tokens, by attention to them */
} graft_ip_adapter_kind;

/* An IP-Adapter (ip_adapter.h). */
#define GRAFT_IP_ADAPTER_LAYERS 256
typedef struct graft_ip_adapter_arch {
    int32_t kind;   /* graft_ip_adapter_kind */
    int32_t seen;   /* width of the encoder's vector, or of its tokens */
    int32_t tokens; /* that it makes of a picture */
    int32_t width;  /* of these, as of a prompt's */
    /* Of a resampler: blocks, its own width, that of attention, of which a head has 64, and that
     * of its MLP. */
    int32_t depth, hidden, inner, mlp;
    /* Cross-attentions that it is for, in their order (attended.h), and channels of each. */
    int32_t n_layers;
    int32_t channels[GRAFT_IP_ADAPTER_LAYERS];
} graft_ip_adapter_arch;

/* T5's encoder, version 1.1, or UMT5's (t5.h). */
typedef struct graft_t5_arch {
    int32_t layers, width, heads, head_dim, intermediate, vocab;
    int32_t buckets; /* of distances that attention tells apart */
    int32_t
        embed_tokens; /* 1: the tokens' table is encoder.embed_tokens.weight, not shared.weight */
    int32_t own_bias; /* 1: UMT5: each layer has a bias of its own */
} graft_t5_arch;

/* Qwen 3's language models, those without experts, Qwen 2.5's, Mistral's, Llama 3.1's and Gemma 2's
 * (qwen3.h). */
typedef struct graft_qwen3_arch {
    int32_t layers, width, head_dim, intermediate, vocab;
    int32_t heads, key_heads; /* of queries; of keys and values, which several of them share */
    int32_t biased;    /* 1: Qwen 2.5: queries, keys and values have biases, and heads no norms */
    int32_t mistral;   /* 1: Mistral: neither biases nor norms of heads */
    int32_t ministral; /* 1: of these Ministral 3, whose places turn by other angles */
    int32_t gemma;     /* 1: Gemma 2: as Mistral, with norms behind branches, too */
    int32_t llama;     /* 1: of Mistral's a Llama 3.1, whose places turn by other angles */
} graft_qwen3_arch;

/* The part of Qwen 2.5-VL that looks at pictures (qwen_vision.h). */
typedef struct graft_qwen_vision_arch {
    int32_t layers, width, heads, intermediate;
    int32_t patch;       /* pixels of a square's side */
    int32_t whole_every; /* the last of so many layers sees the whole picture */
    int32_t out;         /* width of the language model */
} graft_qwen_vision_arch;

/* The part of Qwen 3-VL that does (qwen3_vision.h). */
#define GRAFT_QWEN3_DEEP 3 /* what goes deeper into the language model, at most */
typedef struct graft_qwen3_vision_arch {
    int32_t layers, width, heads, intermediate;
    int32_t patch; /* pixels of a square's side */
    int32_t side;  /* of the table of places: rows, and as many columns */
    int32_t out;   /* width of the language model */
    /* How often the stream goes deeper: behind layer deep_first, counted from 0, and after each
     * deep_step further ones. */
    int32_t deep, deep_first, deep_step;
} graft_qwen3_vision_arch;

typedef enum graft_family {
    GRAFT_FAMILY_SD1 = 1,
    GRAFT_FAMILY_SD2 = 2,
    GRAFT_FAMILY_SDXL = 3,
    GRAFT_FAMILY_CUSTOM = 4 /* described by the file's metadata */
} graft_family;

/* Channels of the latents that a UNet denoises. One that sees a picture beside it has as many again
 * in its x (in_channels), and one for inpainting also a mask, which makes 8 or 9 with 4. */
int32_t graft_unet_latent_channels(const graft_unet_arch *a);
/* How many more; 0: it sees the latent alone. */
int32_t graft_unet_known_channels(const graft_unet_arch *a);
/* SDXL's refiner (arXiv:2307.01952, 2.5): its prompts come from the large text encoder alone, and
 * its y ends with five numbers in place of six, the last an aesthetic score. */
bool graft_unet_is_refiner(const graft_unet_arch *a);
/* Which family a UNet is of, from its context width and y. */
graft_family graft_unet_family(const graft_unet_arch *a);
#endif
