/* Qwen 3 (Yang et al. 2025, arXiv:2505.09388; its code is public under Apache-2.0), a language
 * model, as a graph that ends before its last layer: the text encoder of Z-Image. Or one that ends
 * earlier and gives what three of its layers made: that of FLUX.2 klein; or what twelve of them
 * made: that of Krea 2, which is the language model of Qwen 3-VL-4B (arXiv:2511.21631), whose
 * places turn by other angles; or what thirteen made, or all of its layers without the norm behind
 * them: that of Ideogram 4, and that of Qwen-Image 2.1, both of Qwen 3-VL-8B. And Qwen 2.5
 * (arXiv:2412.15115), whose queries, keys and values have biases and no norms, up to the norm
 * behind its last layer: the text encoder of Qwen-Image, which is the language model of Qwen 2.5-VL
 * (arXiv:2502.13923). And Mistral (Jiang et al. 2023, arXiv:2310.06825), which has neither biases
 * nor norms of heads, where FLUX.2 dev reads three of its layers: the language model of Mistral
 * Small 3.2, of 24 billion weights (transformers' modeling_mistral.py and diffusers'
 * pipeline_flux2.py, both public under Apache-2.0). And Ministral 3 of 3 billion weights, up to its
 * last layer: the text encoder of ERNIE-Image. It is a Mistral whose angles are YaRN's (Peng et al.
 * 2023, arXiv:2309.00071) for 16 times the length of its training, 16384 tokens. Up to there
 * neither scores nor queries are scaled, and texts end long before.
 *
 * And Llama 3.1 (Llama Team 2024, arXiv:2407.21783; transformers' modeling_llama.py and
 * modeling_rope_utils.py, public under Apache-2.0), all of whose layers HiDream-I1 reads, the last
 * behind the norm: it is a Mistral, but for its angles. Those that go round less than once over
 * 8192 places go on eight times as slowly, those that do at least four times as they were, those
 * between in parts.
 *
 * And Gemma 2 (Gemma Team 2024, arXiv:2408.00118; transformers' modeling_gemma2.py, public under
 * Apache-2.0), up to its last layer: the text encoder of Lumina-Image 2.0. Its token embeddings are
 * multiplied by the root of their width, what a branch gives is normed once more before it is
 * added, gates are a GELU by tanh, and scores of attention approach 50 and -50 by a tanh. Every
 * other layer of it looks back 4096 tokens alone, more than any text has here. Its norms' weights
 * are stored less one.
 *
 * Of text alone the places of both VL along three axes are the same. Of a picture (qwen_vision.h,
 * qwen3_vision.h) all cells have one place on the first axis, and further on by their row and
 * column on the others; the text behind it goes on one behind the furthest. Of a head's angles
 * Qwen 2.5-VL turns the first with the first axis, those behind them with the second, the last with
 * the third; Qwen 3-VL lets them take turns, and at the end all go with the first. Behind its first
 * layers it adds further numbers to a picture's tokens (DeepStack).
 *
 * Norms are RMS norms in front of attention and of the gated layers, and of each head's queries and
 * keys. A few heads of keys and values serve several of queries each (Ainslie
 * et al. 2023, arXiv:2305.13245). Places turn halves of a head's values against each other
 * (arXiv:2104.09864). A token sees those before it and itself, so padding at the end changes
 * nothing. FLUX.2's and LongCat-Image's padding is read by the network, so it must be what it was
 * in training. That of klein and of LongCat-Image stands behind the words: it sees all of them and
 * no padding, not even itself; HiDream-I1's likewise; LongCat-Image's all turns as the second token
 * does, as positions are made of masks in transformers' Qwen2_5_VLModel, and so all of it is the
 * same. That of dev stands before them and sees nothing, so attention gives it zeros, and all of it
 * is the same. Token embeddings are looked up by the caller, straight from the mapped table. */
#ifndef GRAFT_MODELS_QWEN3_H
#define GRAFT_MODELS_QWEN3_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"

#define GRAFT_QWEN3_MAX_TOKENS 2048 /* of one text */
/* With pictures, for Qwen 3-VL: eight of 1024 x 1024 pixels beside a text. */
#define GRAFT_QWEN3_MAX_SEEN (GRAFT_QWEN3_MAX_TOKENS + 8 * 1024)
/* Behind so many layers FLUX.2 takes the stream; the model must have more layers than the last. */
#define GRAFT_QWEN3_JOINED 3
#define GRAFT_QWEN3_JOINED_AT                                                                      \
    {                                                                                              \
        9, 18, 27                                                                                  \
    }
#define GRAFT_QWEN3_JOINED_END 27
/* Of Mistral the stream behind so many layers, which are as many as files for FLUX.2 have. */
#define GRAFT_MISTRAL_JOINED_AT                                                                    \
    {                                                                                              \
        10, 20, 30                                                                                 \
    }
#define GRAFT_MISTRAL_JOINED_LEAST 30
/* A Mistral of at most so many layers is a Ministral 3. */
#define GRAFT_MINISTRAL_LAYERS 26
/* Likewise Krea 2: behind 2, 5, 8 and so on up to the last. */
#define GRAFT_QWEN3_LAYERED       12
#define GRAFT_QWEN3_LAYERED_FIRST 2
#define GRAFT_QWEN3_LAYERED_STEP  3
#define GRAFT_QWEN3_LAYERED_END                                                                    \
    (GRAFT_QWEN3_LAYERED_FIRST + GRAFT_QWEN3_LAYERED_STEP * (GRAFT_QWEN3_LAYERED - 1))
/* Ideogram 4's: behind 1, 4, 7 and so on, and behind all 36, without the norm. The model must have
 * more layers than END. */
#define GRAFT_QWEN3_STACKED     13
#define GRAFT_QWEN3_STACKED_END 35

/* For whom a text is read layer by layer. */
enum { GRAFT_QWEN3_KREA2 = 1, GRAFT_QWEN3_IDEOGRAM4 = 2 };
/* Likewise for which FLUX.2, whose padding is read: a Mistral that is no Ministral is for dev
 * alone, and it for none else. */
enum { GRAFT_QWEN3_KLEIN = 1, GRAFT_QWEN3_DEV = 2 };

typedef struct graft_qwen3_shape {
    int64_t batch, tokens;
    /* GRAFT_F32 or GRAFT_BF16. The stream that the layers add to is float32 in both: a few of its
     * values grow to tens of thousands, out of float16's range, and bfloat16 would lose beside them
     * what most layers add. */
    graft_dtype act_dtype;
    int32_t joined;  /* GRAFT_QWEN3_KLEIN, GRAFT_QWEN3_DEV */
    int32_t normed;  /* 1: for Qwen-Image; not with joined */
    int32_t padded;  /* 1: for LongCat-Image, whose padding is read: with normed and placed alone */
    int32_t placed;  /* 1: where tokens stand is an input; of one text; 1 of a Ministral */
    int32_t layered; /* GRAFT_QWEN3_KREA2, GRAFT_QWEN3_IDEOGRAM4; not with joined or normed */
    int32_t whole;   /* 1: for Qwen-Image 2.1; with none of these but placed */
    int32_t every;   /* 1: for HiDream-I1; with placed, and with none of the others */
    int32_t deep;    /* how often pictures go deeper into the model: with placed and whole alone */
} graft_qwen3_shape;

/* Cells of a picture among the tokens of a text, row by row. */
typedef struct graft_qwen3_picture {
    int64_t at; /* the first one's token */
    int32_t rows, columns;
    const float *seen; /* (rows*columns,width): what they are in place of the table's rows */
    const float *deep; /* (n_deep,rows*columns,width): what is added to them behind the first layers
                        */
    int32_t n_deep;    /* up to GRAFT_QWEN3_DEEP */
} graft_qwen3_picture;

/* Input: embeddings (N,T,width) float32. Output: hidden (N,T,width) float32, the sum of the
 * embeddings and of all layers but the last, without a norm. Joined for klein: a second input,
 * (heads,T,T) float32 of graft_qwen3_bias(); output (N,T,3 width), that sum behind 9, 18 and 27
 * layers side by side. Joined for dev: a second input, (1,T,1) float32, by which what attention
 * gives a token is multiplied, 0 for padding; output likewise, behind 10, 20 and 30. Layered:
 * output (N,T,12 width), likewise of Krea 2's layers, or (N,T,13 width) of Ideogram 4's, and no
 * second input. Normed: all layers, and the norm. Padded: a second input as klein's, and of Gemma.
 * Whole: all layers without it, with Qwen 3-VL's angles. Every: a second input as klein's; output
 * (N,T,layers width), the stream behind each of the layers side by side, the last one normed.
 * Placed: two more inputs at the end, float32 (T,1,head_dim/2), of graft_qwen3_angles(). Deep: as
 * many more, (1,T,width), each added to the stream behind one layer, from the first on; zeros where
 * no picture is. GRAFT_E_UNSUPPORTED where there are no more layers than joined or layered takes.
 */
graft_status graft_qwen3_build(const graft_qwen3_arch *a, const graft_qwen3_shape *shape,
                               graft_graph **out, graft_err *e);
/* What is added to the scores of attention, for texts of which the first so many of T tokens are
 * words: bias (heads,T,T). */
void graft_qwen3_bias(const graft_qwen3_arch *a, int64_t words, int64_t tokens, float *bias);
/* Cosines and sines (T,head_dim/2) of tokens with n pictures among them, which follow each other
 * and do not reach behind the last token. */
void graft_qwen3_angles(const graft_qwen3_arch *a, const graft_qwen3_picture *picture, size_t n,
                        int64_t tokens, float *cosines, float *sines);
/* Whether it is a Mistral for FLUX.2 dev. */
static inline bool graft_qwen3_is_led(const graft_qwen3_arch *a)
{
    return a->mistral && !a->ministral && !a->llama;
}
/* Whether where its tokens stand is an input of any graph. */
static inline bool graft_qwen3_is_placed(const graft_qwen3_arch *a)
{
    return a->ministral || a->llama;
}
/* How many tokens one text has at most, pictures among them. */
int64_t graft_qwen3_most(const graft_qwen3_arch *a, bool with_pictures);
/* "Qwen 3", "Qwen 2.5", "Mistral", "Ministral 3", "Llama 3.1" or "Gemma 2". Static. */
const char *graft_qwen3_family(const graft_qwen3_arch *a);
/* Name of the tokens' table (vocab,width). Static. */
const char *graft_qwen3_embeddings_name(void);
#endif
