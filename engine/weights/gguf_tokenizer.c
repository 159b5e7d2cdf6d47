#include "engine/weights/gguf_tokenizer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "engine/text/tekken.h"

/* GGUF's numbers of types. */
enum { LIST_U8 = 0, LIST_I8 = 1, LIST_I32 = 5, LIST_F32 = 6, LIST_STRING = 8 };
enum { LENGTH = 8 }; /* bytes before a text */
/* Keys of Protocol Buffers: the field's number, times 8, and the kind of what follows. */
enum {
    MODEL_PIECE = 1 << 3 | 2,
    MODEL_TRAINER = 2 << 3 | 2,
    MODEL_NORMALIZER = 3 << 3 | 2,
    PIECE_TEXT = 1 << 3 | 2,
    PIECE_SCORE = 2 << 3 | 5,
    PIECE_TYPE = 3 << 3,
    TRAINER_MODEL_TYPE = 3 << 3,
    TRAINER_BYTE_FALLBACK = 35 << 3,
    TRAINER_BEGIN_NAME = 46 << 3 | 2,
    TRAINER_END_NAME = 47 << 3 | 2,
    TRAINER_PAD_NAME = 48 << 3 | 2,
    NORMALIZER_CHARSMAP = 2 << 3 | 2,
    NORMALIZER_DUMMY_PREFIX = 3 << 3,
    NORMALIZER_TRIM = 4 << 3
};
enum { UNIGRAM = 1, PAIRS = 2 };
enum { BYTES = 256 };
/* llama.cpp's numbers of kinds of tokens, which are SentencePiece's. */
enum { KIND_NORMAL = 1, KIND_BYTE = 6 };

/* Counts what it is given, and keeps it where there is room. */
typedef struct writer {
    uint8_t *data;
    size_t n;
} writer;

static void put(writer *w, const void *p, size_t n)
{
    if (w->data && n) memcpy(w->data + w->n, p, n);
    w->n += n;
}

static void put_varint(writer *w, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) put(w, &(uint8_t){(uint8_t)(v | 0x80)}, 1);
    put(w, &(uint8_t){(uint8_t)v}, 1);
}

static size_t varint_bytes(uint64_t v)
{
    size_t n = 1;
    while (v >>= 7) n++;
    return n;
}

static void put_number(writer *w, unsigned key, uint64_t v)
{
    put_varint(w, key);
    put_varint(w, v);
}

static void put_bytes(writer *w, unsigned key, const uint8_t *p, size_t n)
{
    put_number(w, key, n);
    put(w, p, n);
}

static uint64_t read_number(const uint8_t *p, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static uint64_t kind_of(const graft_gguf_tokenizer *t, uint64_t token)
{
    return read_number(t->kind.at + 4 * token, 4);
}

static void put_pieces(writer *w, const graft_gguf_tokenizer *t)
{
    const uint8_t *text = t->token.at;
    for (uint64_t i = 0; i < t->token.n; i++) {
        const size_t n = (size_t)read_number(text, LENGTH);
        const uint64_t kind = kind_of(t, i);
        put_number(w, MODEL_PIECE, 1 + varint_bytes(n) + n + 1 + 4 + 1 + varint_bytes(kind));
        put_bytes(w, PIECE_TEXT, text + LENGTH, n);
        put_varint(w, PIECE_SCORE);
        put(w, t->score.at + 4 * i, 4);
        put_number(w, PIECE_TYPE, kind);
        text += LENGTH + n;
    }
}

/* What token `plus_one - 1` is called; 0, and those that there are not, are left out. */
static void put_name(writer *w, const graft_gguf_tokenizer *t, unsigned key, uint32_t plus_one)
{
    const uint8_t *text = t->token.at;
    if (!plus_one || plus_one > t->token.n) return;
    for (uint32_t i = 1; i < plus_one; i++) text += LENGTH + read_number(text, LENGTH);
    put_bytes(w, key, text + LENGTH, (size_t)read_number(text, LENGTH));
}

static void put_trainer(writer *w, const graft_gguf_tokenizer *t)
{
    bool bytes = false;
    for (uint64_t i = 0; i < t->kind.n && !bytes; i++) bytes = kind_of(t, i) == KIND_BYTE;
    put_number(w, TRAINER_MODEL_TYPE, t->pairs ? PAIRS : UNIGRAM);
    if (!t->pairs) return;
    put_number(w, TRAINER_BYTE_FALLBACK, bytes);
    put_name(w, t, TRAINER_BEGIN_NAME, t->begin);
    put_name(w, t, TRAINER_END_NAME, t->end);
    put_name(w, t, TRAINER_PAD_NAME, t->pad);
}

static void put_all(writer *w, const graft_gguf_tokenizer *t)
{
    const size_t map = t->charsmap.at ? (size_t)t->charsmap.n : 0;
    writer trainer = {0};
    put_trainer(&trainer, t);
    put_pieces(w, t);
    put_number(w, MODEL_TRAINER, trainer.n);
    put_trainer(w, t);
    put_number(w, MODEL_NORMALIZER, (map ? 1 + varint_bytes(map) + map : 0) + 2 + 2);
    if (map) put_bytes(w, NORMALIZER_CHARSMAP, t->charsmap.at, map);
    put_number(w, NORMALIZER_DUMMY_PREFIX, !t->bare);
    put_number(w, NORMALIZER_TRIM, !t->keeps_space && !t->pairs);
}

/* A text of no length would be no piece. */
static bool all_have_text(const graft_gguf_list *token)
{
    const uint8_t *p = token->at;
    for (uint64_t i = 0; i < token->n; i++) {
        const uint64_t n = read_number(p, LENGTH);
        if (!n) return false;
        p += LENGTH + n;
    }
    return token->n > 0;
}

static bool fits_together(const graft_gguf_tokenizer *t)
{
    const graft_gguf_list *map = &t->charsmap;
    return (t->t5 || t->pairs) && t->token.at && t->token.type == LIST_STRING && t->score.at &&
           t->score.type == LIST_F32 && t->score.n == t->token.n && t->kind.at &&
           t->kind.type == LIST_I32 && t->kind.n == t->token.n &&
           (!map->at || map->type == LIST_U8 || map->type == LIST_I8) && all_have_text(&t->token);
}

/* A merge a line. */
static void put_merges(writer *w, const graft_gguf_tokenizer *t)
{
    const uint8_t *text = t->merge.at;
    for (uint64_t i = 0; i < t->merge.n; i++) {
        const size_t n = (size_t)read_number(text, LENGTH);
        put(w, text + LENGTH, n);
        put(w, "\n", 1);
        text += LENGTH + n;
    }
}

/* Tokens are numbered in the order of the merges, behind those of bytes: there are as many. */
static bool has_merges(const graft_gguf_tokenizer *t)
{
    return t->bytes && t->qwen && t->merge.at && t->merge.type == LIST_STRING && t->merge.n > 0 &&
           t->token.at && t->token.n >= BYTES && t->token.n - BYTES >= t->merge.n;
}

/* ------------------------------------------------------------------ Mistral's */

/* llama.cpp has special tokens first, then those that merges make, in the order of their ranks and
 * in the byte alphabet of GPT-2: its list of merges, of all pairs that make a token, adds nothing.
 */
/* How many tokens are special: those before the first one that is not; 0: they are not so. */
static uint64_t special_tokens(const graft_gguf_tokenizer *t)
{
    uint64_t special = 0;
    const bool fits = t->bytes && t->tekken && t->token.at && t->token.type == LIST_STRING &&
                      t->kind.at && t->kind.type == LIST_I32 && t->kind.n == t->token.n;
    if (!fits) return 0;
    while (special < t->kind.n && kind_of(t, special) != KIND_NORMAL) special++;
    for (uint64_t i = special; i < t->kind.n; i++)
        if (kind_of(t, i) != KIND_NORMAL) return 0;
    return t->token.n - special >= BYTES ? special : 0;
}

static size_t longest_token(const graft_gguf_tokenizer *t)
{
    size_t most = 0;
    const uint8_t *p = t->token.at;
    for (uint64_t i = 0; i < t->token.n; i++) {
        const size_t n = (size_t)read_number(p, LENGTH);
        if (n > most) most = n;
        p += LENGTH + n;
    }
    return most;
}

/* All tokens in lists of their own; `room` is for the bytes of any, and one more. False: one has
 * none, or is not in the alphabet. */
static bool put_tokens(graft_str *s, const graft_gguf_tokenizer *t, uint64_t special, char *room)
{
    const uint8_t *p = t->token.at;
    for (uint64_t i = 0; i < t->token.n && !s->failed; i++) {
        size_t n = (size_t)read_number(p, LENGTH);
        const char *text = (const char *)p + LENGTH;
        p += LENGTH + n;
        graft_str_puts(s, i == 0 ? "\"special_tokens\":[" : i == special ? "],\"vocab\":[" : ",");
        graft_str_printf(s, "{\"rank\":%llu,", (unsigned long long)(i < special ? i : i - special));
        if (i < special) {
            memcpy(room, text, n);
            room[n] = '\0';
            graft_str_puts(s, "\"is_control\":true,\"token_str\":");
            graft_str_json(s, room);
        } else {
            n = graft_bpe_bytes(text, n, (uint8_t *)room);
            if (!n) return false;
            graft_str_puts(s, "\"token_bytes\":\"");
            graft_base64_write(s, room, n);
            graft_str_puts(s, "\"");
        }
        graft_str_puts(s, "}");
    }
    return true;
}

/* As a tekken.json. NULL as graft_gguf_tokenizer_file() gives it. */
static uint8_t *tekken_file(const graft_gguf_tokenizer *t, uint64_t special, size_t *n, bool *nomem)
{
    graft_str s = GRAFT_STR_INIT;
    char *room = graft_malloc(longest_token(t) + 1);
    bool whole = true;
    if (room) {
        graft_str_printf(&s,
                         "{\"config\":{\"num_vocab_tokens\":%llu,\"default_vocab_size\":%llu,"
                         "\"default_num_special_tokens\":%llu,\"pattern\":",
                         (unsigned long long)(t->token.n - special), (unsigned long long)t->token.n,
                         (unsigned long long)special);
        graft_str_json(&s, GRAFT_TEKKEN_PATTERN);
        graft_str_puts(&s, "},");
        whole = put_tokens(&s, t, special, room);
        graft_str_puts(&s, "]}");
    }
    *nomem = !room || s.failed;
    *n = s.len;
    graft_free(room);
    uint8_t *out = whole ? (uint8_t *)graft_str_take(&s) : NULL;
    graft_str_finish(&s);
    return out;
}

/* ------------------------------------------------------------------ Llama 3's */

/* llama.cpp has the tokens in the order of their ranks, in the byte alphabet of GPT-2, and marks
 * behind them. How many these tokens are; 0: they are not so. */
static uint64_t ranked_tokens(const graft_gguf_tokenizer *t)
{
    uint64_t n = 0;
    const bool fits = t->bytes && t->llama && t->token.at && t->token.type == LIST_STRING &&
                      t->kind.at && t->kind.type == LIST_I32 && t->kind.n == t->token.n;
    if (!fits) return 0;
    while (n < t->kind.n && kind_of(t, n) == KIND_NORMAL) n++;
    return n >= BYTES ? n : 0;
}

/* A token a line. */
static void put_ranked(writer *w, const graft_gguf_tokenizer *t)
{
    const uint64_t all = ranked_tokens(t);
    const uint8_t *text = t->token.at;
    for (uint64_t i = 0; i < all; i++) {
        const size_t n = (size_t)read_number(text, LENGTH);
        put(w, text + LENGTH, n);
        put(w, "\n", 1);
        text += LENGTH + n;
    }
}

/* ------------------------------------------------------------------ all */

uint8_t *graft_gguf_tokenizer_file(const graft_gguf_tokenizer *t, const char **name, size_t *n,
                                   bool *nomem)
{
    void (*const put_file)(writer *, const graft_gguf_tokenizer *) = fits_together(t)   ? put_all
                                                                     : has_merges(t)    ? put_merges
                                                                     : ranked_tokens(t) ? put_ranked
                                                                                        : NULL;
    const uint64_t special = special_tokens(t);
    writer w = {0};
    *name = put_file == put_merges   ? GRAFT_QWEN_TOKENIZER
            : put_file == put_ranked ? GRAFT_LLAMA_TOKENIZER
            : special                ? GRAFT_MISTRAL_TOKENIZER
                                     : GRAFT_T5_TOKENIZER;
    *n = 0;
    *nomem = false;
    if (special) return tekken_file(t, special, n, nomem);
    if (!put_file) return NULL;
    put_file(&w, t);
    w.data = graft_malloc(w.n);
    *nomem = !w.data;
    if (!w.data) return NULL;
    *n = w.n;
    w.n = 0;
    put_file(&w, t);
    return w.data;
}
