/* CLIP's byte-pair encoding, and ComfyUI's prompt syntax on top of it. */
#ifndef GRAFT_TEXT_TOKENIZER_H
#define GRAFT_TEXT_TOKENIZER_H
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define GRAFT_TEXT_CHUNK 77 /* tokens of one chunk, start and end included */

/* Immutable once made: any thread. 49408 tokens; 49406 starts, 49407 ends. */
typedef struct graft_tokenizer graft_tokenizer;
/* The vocabulary that was built in. */
graft_status graft_tokenizer_create(graft_tokenizer **out, graft_err *e);
/* From the text of a merges.txt in the usual form (a "#version" line may come first). */
graft_status graft_tokenizer_create_from(const char *merges, size_t n, graft_tokenizer **out,
                                         graft_err *e);
void graft_tokenizer_destroy(graft_tokenizer *t);
/* Tokens of plain text without start and end marks: lower-cased, white space folded, HTML entities
 * undone twice, split by CLIP's pattern. *ids is freed with graft_free(). */
graft_status graft_tokenizer_encode(const graft_tokenizer *t, const char *text, size_t n,
                                    int32_t **ids, size_t *count, graft_err *e);

typedef struct graft_chunks {
    size_t count;    /* at least 1 */
    int32_t *tokens; /* (count, 77) */
    float *weights;  /* (count, 77) */
} graft_chunks;
void graft_chunks_finish(graft_chunks *c);
/* A prompt with weights: (word) is 1.1 times, (word:1.3) is set, they nest and multiply; \( and \)
 * are plain brackets. Words are kept whole across chunks as ComfyUI does (a word of 8 tokens or
 * more is split). Rest of a chunk: pad_token (49407 for CLIP-L, 0 for OpenCLIP). */
graft_status graft_prompt_chunks(const graft_tokenizer *t, const char *text, int32_t pad_token,
                                 graft_chunks *out, graft_err *e);
#endif
