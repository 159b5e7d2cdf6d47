/* CLIP's byte-pair encoding, and ComfyUI's prompt syntax on top of it.
 *
 * Text becomes words as Hugging Face's CLIPTokenizer makes them without ftfy, which is what ComfyUI
 * runs: control, format and unassigned characters are dropped (zero-width joiners among them), so
 * is what is no UTF-8; white space separates; each Chinese character is a word; words are brought
 * to NFC and to lower case (accents stay, HTML entities are plain text), and are then split into
 * the endings 's 't 're 've 'm 'll 'd, runs of letters, single numbers, and runs of anything else.
 * The marks "<|startoftext|>" and "<|endoftext|>" give their tokens. */
#ifndef GRAFT_TEXT_TOKENIZER_H
#define GRAFT_TEXT_TOKENIZER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define GRAFT_TEXT_CHUNK          77 /* tokens of one chunk, start and end included */
#define GRAFT_TEXT_MAX_BYTES      ((size_t)4 << 20)
#define GRAFT_TEXT_MAX_EMBEDDINGS 1000 /* that one prompt names, repetitions counted */

/* Immutable once made: any thread. 49408 tokens; 49406 starts, 49407 ends. */
typedef struct graft_tokenizer graft_tokenizer;
/* The vocabulary that was built in. */
graft_status graft_tokenizer_create(graft_tokenizer **out, graft_err *e);
/* From the text of a merges.txt in the usual form (a "#version" line may come first). */
graft_status graft_tokenizer_create_from(const char *merges, size_t n, graft_tokenizer **out,
                                         graft_err *e);
void graft_tokenizer_destroy(graft_tokenizer *t);
/* Tokens of plain text without start and end. *ids is freed with graft_free(), NULL when there are
 * none. GRAFT_E_LIMIT over GRAFT_TEXT_MAX_BYTES. */
graft_status graft_tokenizer_encode(const graft_tokenizer *t, const char *text, size_t n,
                                    int32_t **ids, size_t *count, graft_err *e);

/* A prompt cut up for a text encoder. A token below zero is no word but vector -1 - token. */
typedef struct graft_chunks {
    size_t count;     /* at least 1 */
    int32_t *tokens;  /* (count, 77) */
    float *weights;   /* (count, 77) */
    size_t n_vectors; /* learned vectors, which graft_prompt_chunks() leaves to its caller: */
    float *vectors;   /* (n_vectors, width of the encoder) */
} graft_chunks;
void graft_chunks_finish(graft_chunks *c);
/* A prompt with weights. Brackets make a group: (text) is 1.1 times the weight around it,
 * (text:1.3) is 1.3 whatever is around it; what follows the last colon is read as Python's float()
 * reads it, and is text if that is no number or if nothing stands before the colon. \( and \) are
 * plain brackets; a bracket without its partner is text as well, and so are the groups after a
 * closing one too many. Weights are computed in double; "inf" and "nan" are numbers here.
 *
 * A segment (text of one weight up to the next bracket) of less than 8 tokens is kept in one chunk,
 * a longer one is split where a chunk is full. Each chunk is start, up to 75 tokens, end, and
 * pad_token for the rest (49407 for CLIP-L, 0 for OpenCLIP); those weigh 1. "embedding:name" is
 * read as words, which are a segment of their own with the words behind them.
 *
 * GRAFT_E_LIMIT: over GRAFT_TEXT_MAX_BYTES, or over 1000 brackets deep. On failure *out is empty;
 * otherwise it goes back through graft_chunks_finish(). */
graft_status graft_prompt_chunks(const graft_tokenizer *t, const char *text, int32_t pad_token,
                                 graft_chunks *out, graft_err *e);

/* Textual inversion (Gal et al. 2022, arXiv:2208.01618): "embedding:NAME" stands for vectors that
 * were learned. It begins a segment or follows white space; NAME goes up to the next white space,
 * and its last commas are text if there is no such name with them. Its vectors are a segment of
 * their own, and so is the text behind them. */
#define GRAFT_TEXT_NO_VECTOR SIZE_MAX
typedef struct graft_text_embeddings {
    void *ctx;
    /* Asked from left to right, each time a prompt has a name. *count: of its vectors; *first: the
     * number of the first one, which the others follow, all below 2^31; or GRAFT_TEXT_NO_VECTOR for
     * vectors that take their places when the prompt is cut up, but are not in the chunks.
     * GRAFT_E_NOTFOUND: there is no such name, ask for it without commas; if this was the `last`
     * question, it is left out. Any other failure is that of the whole call. */
    graft_status (*find)(void *ctx, const char *name, bool last, size_t *first, size_t *count,
                         graft_err *e);
} graft_text_embeddings;
/* graft_prompt_chunks() with embeddings; NULL: none. GRAFT_E_LIMIT also for more than
 * GRAFT_TEXT_MAX_EMBEDDINGS names. */
graft_status graft_prompt_chunks_with(const graft_tokenizer *t, const char *text, int32_t pad_token,
                                      const graft_text_embeddings *embeddings, graft_chunks *out,
                                      graft_err *e);
/* The same prompt for other tokenizers: its segments from the first to the last, n bytes each,
 * which are not empty, with brackets as they are meant and their weights. `each` is called on the
 * way; what it returns other than GRAFT_OK ends the call. "embedding:name" is text, with what
 * stands behind it. GRAFT_E_LIMIT as graft_prompt_chunks(). */
typedef graft_status graft_prompt_segment_fn(void *ctx, const char *text, size_t n, double weight,
                                             graft_err *e);
graft_status graft_prompt_segments(const char *text, graft_prompt_segment_fn *each, void *ctx,
                                   graft_err *e);
/* Only asks for the names, as graft_prompt_chunks_with() does. */
graft_status graft_prompt_names(const char *text, const graft_text_embeddings *embeddings,
                                graft_err *e);
#endif
