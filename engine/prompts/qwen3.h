/* Qwen 3 and Qwen 2.5, Mistral, Llama 3.1 and Gemma 2, as text encoders: their files, and prompts.
 */
#ifndef GRAFT_PROMPTS_QWEN3_H
#define GRAFT_PROMPTS_QWEN3_H
#include "engine/models/encoders/qwen3.h"
#include "engine/objects/objects.h"
#include "engine/text/llama3.h"
#include "engine/text/qwen.h"
#include "engine/text/tekken.h"
#include "engine/weights/gguf_tokenizer.h"

#define GRAFT_QWEN3_STEP                                                                           \
    32 /* texts are padded to a multiple of so many tokens, which one graph                        \
          serves; no token sees what is behind it */

/* Around a user's question, and what Qwen-Image 2.1 was trained with before it. */
#define GRAFT_QWEN_BEFORE "<|im_start|>user\n"
#define GRAFT_QWEN_BEHIND "<|im_end|>\n<|im_start|>assistant\n"
#define GRAFT_QWEN_ANALYZE                                                                         \
    "<|im_start|>system\nComprehend and analyze the provided prompt.<|im_end|>\n"
/* What the model's template has behind that when it is to answer at once. */
#define GRAFT_QWEN_THOUGHTS "<think>\n\n</think>\n\n"
/* Around a picture. */
#define GRAFT_QWEN_PICTURE     "<|vision_start|>"
#define GRAFT_QWEN_PICTURE_END "<|vision_end|>"

/* What is taken of the stream that layers add to, and for whom. */
typedef enum graft_qwen3_taken {
    /* behind all layers but the last: Z-Image, ERNIE-Image, Lumina-Image 2.0 */
    GRAFT_QWEN3_TAKE_MOST = 0,
    GRAFT_QWEN3_TAKE_NORMED = 1,  /* behind all and their norm: Qwen-Image, OmniGen2, Anima */
    GRAFT_QWEN3_TAKE_WHOLE = 2,   /* behind all, without the norm: Qwen-Image 2.1 */
    GRAFT_QWEN3_TAKE_LAYERED = 3, /* behind 12 of them, side by side: Krea 2 */
    GRAFT_QWEN3_TAKE_STACKED = 4, /* behind 13: Ideogram 4 */
    GRAFT_QWEN3_TAKE_JOINED = 5,  /* behind 3: FLUX.2 klein, by graft_qwen3_run_joined() alone */
    GRAFT_QWEN3_TAKE_LED = 6,     /* behind 3 of Mistral: dev, by graft_qwen3_run_led() alone */
    GRAFT_QWEN3_TAKE_PADDED = 7,  /* as NORMED: LongCat-Image, by graft_qwen3_run_padded() alone */
    /* behind each, side by side, the last normed: HiDream-I1, by graft_qwen3_run_every() alone */
    GRAFT_QWEN3_TAKE_EVERY = 8
} graft_qwen3_taken;
/* How many times the model's width that is, of each token; not of TAKE_EVERY. */
size_t graft_qwen3_times(graft_qwen3_taken taken);

/* GRAFT_E_LIMIT where a text of so many tokens, these pictures among them, is longer than what the
 * model reads. Of the pictures rows and columns alone are looked at. */
graft_status graft_qwen3_check_length(const graft_qwen3_arch *arch,
                                      const graft_qwen3_picture *picture, size_t n_pictures,
                                      int64_t tokens, graft_err *e);
/* hidden (tokens, graft_qwen3_times() arch->width) float32 of ids (tokens). `weights` is the
 * model's part, whose names begin with "model.". Precision and device are those of the options, but
 * for float16, which it is not made for: bfloat16 takes its place, or float32 where the backend has
 * no bfloat16. With task->compile_only, hidden is all zeros. GRAFT_E_ARG for tokens outside of the
 * table, GRAFT_E_LIMIT over GRAFT_QWEN3_MAX_TOKENS, GRAFT_E_UNSUPPORTED for a model of too few
 * layers. Any thread. */
graft_status graft_qwen3_run(graft_engine *engine, const graft_build_options *options,
                             const graft_qwen3_arch *arch, graft_weights *weights,
                             graft_qwen3_taken taken, const int32_t *ids, int64_t tokens,
                             const graft_task *task, float *hidden, graft_err *e);
/* The same with pictures among the tokens, whose ids do not count; none: of text alone. Taken is
 * what Qwen 2.5 or Qwen 3-VL was trained with: TAKE_NORMED, or TAKE_WHOLE. GRAFT_E_ARG where they
 * are not one after the other within the tokens, or go deeper unequally often. */
graft_status graft_qwen3_run_seen(graft_engine *engine, const graft_build_options *options,
                                  const graft_qwen3_arch *arch, graft_weights *weights,
                                  graft_qwen3_taken taken, const int32_t *ids, int64_t tokens,
                                  const graft_qwen3_picture *picture, size_t n_pictures,
                                  const graft_task *task, float *hidden, graft_err *e);
/* The same for FLUX.2 klein: hidden (tokens, 3 arch->width). The first `words` of the tokens are
 * the text, those behind it are padding (models/encoders/qwen3.h). GRAFT_E_UNSUPPORTED for a model
 * of too few layers.
 */
graft_status graft_qwen3_run_joined(graft_engine *engine, const graft_build_options *options,
                                    const graft_qwen3_arch *arch, graft_weights *weights,
                                    const int32_t *ids, int64_t words, int64_t tokens,
                                    const graft_task *task, float *hidden, graft_err *e);
/* The same for FLUX.2 dev, with the first of hidden's tokens being padding, and ids (words) the
 * last. */
graft_status graft_qwen3_run_led(graft_engine *engine, const graft_build_options *options,
                                 const graft_qwen3_arch *arch, graft_weights *weights,
                                 const int32_t *ids, int64_t words, int32_t padding, int64_t tokens,
                                 const graft_task *task, float *hidden, graft_err *e);

/* The same for LongCat-Image: hidden (tokens, arch->width) of ids (words), pictures among them or
 * none, then of padding, of which all is the same. Of Qwen 2.5 alone. */
graft_status graft_qwen3_run_padded(graft_engine *engine, const graft_build_options *options,
                                    const graft_qwen3_arch *arch, graft_weights *weights,
                                    const int32_t *ids, int64_t words,
                                    const graft_qwen3_picture *picture, size_t n_pictures,
                                    int32_t padding, int64_t tokens, const graft_task *task,
                                    float *hidden, graft_err *e);

/* The same for HiDream-I1: hidden (tokens, layers width) of ids (tokens), of which the first
 * `words` are the text, those behind it are padding. Of Llama 3.1 alone. */
graft_status graft_qwen3_run_every(graft_engine *engine, const graft_build_options *options,
                                   const graft_qwen3_arch *arch, graft_weights *weights,
                                   const int32_t *ids, int64_t words, int64_t tokens,
                                   const graft_task *task, float *hidden, graft_err *e);

/* What a Gemma makes of the mark that texts begin with, and of padding behind it that sees nothing
 * else, which is the same wherever it stands: hidden (2, arch->width). */
graft_status graft_qwen3_run_empty(graft_engine *engine, const graft_build_options *options,
                                   const graft_qwen3_arch *arch, graft_weights *weights,
                                   const int32_t ids[2], const graft_task *task, float *hidden,
                                   graft_err *e);

/* Its part of a file, and its tokenizer. Immutable; any thread. */
typedef struct graft_qwen3 {
    _Atomic int refs;
    graft_qwen3_arch arch;
    graft_weights *weights;
    graft_qwen *tokenizer;
    graft_tekken *tekken; /* in its place, of a Mistral (mistral.h) */
    graft_llama3 *llama;  /* likewise, of a Llama (llama.h) */
    /* What looks at pictures: Qwen 2.5-VL's (qwen_vision.h), or Qwen 3-VL's (qwen3_vision.h). */
    graft_qwen_vision_arch vision;
    graft_qwen3_vision_arch vision3;
    graft_weights *sight; /* NULL: it sees none */
    graft_err blind;      /* why what there is of it cannot be used; GRAFT_OK: there is nothing */
    /* T5's, whose words Anima is told besides, or Gemma's own, and its file (t5.h); or NULL. */
    struct graft_unigram *words;
    graft_st_tensor words_file;
} graft_qwen3;
/* What graft_qwen3_run_seen() gives of q, pictures among ids (n) or none, but for the first `from`
 * of the tokens: *hidden (*tokens, graft_qwen3_times() width), freed with graft_free().
 * GRAFT_E_INTERNAL where none is left. */
graft_status graft_qwen3_hidden(graft_engine *engine, const graft_build_options *options,
                                const graft_qwen3 *q, graft_qwen3_taken taken, const int32_t *ids,
                                size_t n, const graft_qwen3_picture *picture, size_t n_pictures,
                                size_t from, const graft_task *task, float **hidden,
                                int64_t *tokens, graft_err *e);
/* The tensor of this name, one of gguf_tokenizer.h's, which has the tokenizer of what is below
 * `place`: there, or by itself; NULL: it has none. Borrowed. */
const graft_st_tensor *graft_qwen3_tokenizer_in(const graft_safetensors *f, const char *place,
                                                const char *name);
/* What is below `place` of the file. Of Qwen-VL what looks at pictures is taken along; where that
 * cannot be used texts are read all the same. The tokenizer is a tensor GRAFT_QWEN_TOKENIZER
 * of the file (GGUF files have theirs as such), or tokenizer.json, or vocab.json and merges.txt,
 * beside it, or what was built in. Files beside it that are of another tokenizer are left out with
 * a warning. GRAFT_E_NOTFOUND: there is none. Of a Mistral mistral.h says where its tokenizer is,
 * and gemma2.h of a Gemma; of a Mistral what looks at pictures is left out, and graft_qwen3_check()
 * is still to be asked. */
graft_status graft_qwen3_load(graft_engine *engine, graft_weights *file, const char *place,
                              const graft_task *task, graft_qwen3 **out, graft_err *e);
/* Makes it, before it is shared, Anima's: all layers and the norm behind them must be in the file,
 * and T5's tokenizer is found as graft_t5_load() finds it. GRAFT_E_NOTFOUND: there is none. */
graft_status graft_qwen3_take_words(graft_qwen3 *q, const graft_safetensors *f, const char *place,
                                    const graft_task *task, graft_err *e);
/* Whether its file has the tensors that this reads; GRAFT_E_FORMAT where one is missing. */
graft_status graft_qwen3_check(const graft_qwen3 *q, graft_qwen3_taken taken, graft_err *e);
graft_qwen3 *graft_qwen3_retain(graft_qwen3 *q); /* NULL is fine */
void graft_qwen3_release(graft_qwen3 *q);        /* NULL is fine */
/* What it is called in files, by its kind and size. Static. */
const char *graft_qwen3_name(const graft_qwen3 *q);

/* Hidden states of all tokens of a prompt, as a user's question in the form that the model was
 * trained with. The prompt is text as it is: brackets weigh nothing. *hidden (*tokens, width) is
 * freed with graft_free(). */
graft_status graft_qwen3_encode(graft_engine *engine, const graft_build_options *options,
                                const graft_qwen3 *q, const char *text, const graft_task *task,
                                float **hidden, int64_t *tokens, graft_err *e);
/* For FLUX.2: *hidden (*tokens, 3 width). The answer that the question waits for begins behind
 * thoughts, which are empty; padding makes texts GRAFT_FLUX2_TOKENS long, longer ones stay as they
 * are. */
graft_status graft_qwen3_encode_joined(graft_engine *engine, const graft_build_options *options,
                                       const graft_qwen3 *q, const char *text,
                                       const graft_task *task, float **hidden, int64_t *tokens,
                                       graft_err *e);
/* For Qwen-Image: *hidden (*tokens, width) of the prompt and what stands behind it; what stands
 * before it, which asks to describe a picture, is read and left out. */
graft_status graft_qwen3_encode_described(graft_engine *engine, const graft_build_options *options,
                                          const graft_qwen3 *q, const char *text,
                                          const graft_task *task, float **hidden, int64_t *tokens,
                                          graft_err *e);
/* The same for Krea 2: *hidden (*tokens, 12 width). */
graft_status graft_qwen3_encode_layered(graft_engine *engine, const graft_build_options *options,
                                        const graft_qwen3 *q, const char *text,
                                        const graft_task *task, float **hidden, int64_t *tokens,
                                        graft_err *e);
/* For Qwen-Image 2.1: *hidden (*tokens, width) likewise, behind another wish, and of the question
 * with the words that begin it. An empty prompt is a space. */
graft_status graft_qwen3_encode_analyzed(graft_engine *engine, const graft_build_options *options,
                                         const graft_qwen3 *q, const char *text,
                                         const graft_task *task, float **hidden, int64_t *tokens,
                                         graft_err *e);
/* For Ideogram 4: *hidden (*tokens, 13 width) of all of a user's question and where the answer
 * would begin. */
graft_status graft_qwen3_encode_stacked(graft_engine *engine, const graft_build_options *options,
                                        const graft_qwen3 *q, const char *text,
                                        const graft_task *task, float **hidden, int64_t *tokens,
                                        graft_err *e);
/* For Anima: *hidden (*tokens, width) of the text alone, behind all layers and their norm, its
 * segments one by one as those of CLIP's prompts (engine/text/tokenizer.h), but that weights do not
 * count. Of no text it is the one token that ends texts. */
graft_status graft_qwen3_encode_bare(graft_engine *engine, const graft_build_options *options,
                                     const graft_qwen3 *q, const char *text, const graft_task *task,
                                     float **hidden, int64_t *tokens, graft_err *e);
/* graft_clip_encode() of Anima's. */
graft_status graft_clip_encode_anima(const graft_clip *c, const char *text, const graft_task *task,
                                     graft_cond **out, graft_err *e);
/* Of any other, as conditioning. */
graft_status graft_clip_encode_qwen3(const graft_clip *c, const char *text, const graft_task *task,
                                     graft_cond **out, graft_err *e);
#endif
