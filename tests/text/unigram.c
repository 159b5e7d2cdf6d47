/* SentencePiece's models, of unigrams and of pairs: the library's tokens, models that are damaged
 * or over a limit, memory that runs out, many threads. */
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "engine/text/unigram_file.h"
#include "tests/spiece_gguf.h"
#include "tests/test.h"

#define FOLDER GRAFT_SOURCE_DIR "/golden/small/unigram/"

typedef struct blob {
    char *at;
    size_t n;
} blob;

static blob read_file(const char *name)
{
    graft_err e = GRAFT_ERR_INIT;
    char path[512];
    blob b = {0};
    snprintf(path, sizeof path, "%s%s", FOLDER, name);
    CHECK_OK(graft_file_read(path, 64 << 20, &b.at, &b.n, &e), &e);
    if (!b.at) abort();
    return b;
}

static graft_unigram *open_model(const char *name)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_unigram *u = NULL;
    blob b = read_file(name);
    CHECK_OK(graft_unigram_create(b.at, b.n, &u, &e), &e);
    graft_free(b.at); /* is not needed any more */
    if (!u) abort();
    return u;
}

/* ------------------------------------------------------------------ the library's tokens */

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* Of "text" or "hex", in a block of just this size. */
static blob text_of(const cJSON *item)
{
    const char *text = graft_json_str(item, "text", NULL), *hex = graft_json_str(item, "hex", "");
    const size_t n = text ? strlen(text) : strlen(hex) / 2;
    blob b = {malloc(n ? n : 1), n};
    if (!b.at) abort();
    for (size_t i = 0; i < n; i++)
        b.at[i] = text ? text[i] : (char)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    return b;
}

static void check_text(const graft_unigram *u, const char *name, const cJSON *item)
{
    graft_err e = GRAFT_ERR_INIT;
    blob text = text_of(item);
    const cJSON *want = cJSON_GetObjectItem(item, "ids"), *id;
    int32_t *ids = NULL;
    size_t count = 0, at = 0;
    bool same = true;
    CHECK_OK(graft_unigram_encode(u, text.at, text.n, &ids, &count, &e), &e);
    CHECK_INT(count, cJSON_GetArraySize(want));
    cJSON_ArrayForEach(id, want)
    {
        same = same && at < count && ids[at] == id->valueint;
        at++;
    }
    CHECK(same);
    if (!same || count != at) fprintf(stderr, "    %s: %.*s\n", name, (int)text.n, text.at);
    graft_free(ids);
    free(text.at);
}

/* That its tokens are the library's. */
static void check_golden(const graft_unigram *u, const char *name)
{
    graft_err e = GRAFT_ERR_INIT;
    char tokens[64];
    cJSON *root = NULL;
    snprintf(tokens, sizeof tokens, "%s.json", name);
    blob json = read_file(tokens);
    CHECK_OK(graft_json_parse(json.at, json.n, tokens, &root, &e), &e);
    const cJSON *texts = cJSON_GetObjectItem(root, "texts"), *item;
    graft_unigram_tokens t = graft_unigram_tokens_of(u);
    CHECK_INT(t.count, graft_json_int(root, "count", -2));
    CHECK_INT(t.unknown, graft_json_int(root, "unknown", -2));
    CHECK_INT(t.begin, graft_json_int(root, "begin", -2));
    CHECK_INT(t.end, graft_json_int(root, "end", -2));
    CHECK_INT(t.pad, graft_json_int(root, "pad", -2));
    CHECK(cJSON_GetArraySize(texts) > 400);
    cJSON_ArrayForEach(item, texts) check_text(u, name, item);
    cJSON_Delete(root);
    graft_free(json.at);
}

static void golden(void)
{
    static const char *const names[] = {"t5",    "fallback", "suffix", "odd",   "plain", "ties",
                                        "users", "gemma",    "joined", "apart", "llama"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char model[64];
        snprintf(model, sizeof model, "%s.model", names[i]);
        graft_unigram *u = open_model(model);
        check_golden(u, names[i]);
        graft_unigram_destroy(u);
    }
}

/* ------------------------------------------------------------------ in GGUF files */

/* What loaders find in a GGUF file is the model that the file was made from. */
static void kept_in_gguf(void)
{
    static const char *const names[] = {"t5", "ties", "users", "gemma", "apart"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        graft_err e = GRAFT_ERR_INIT;
        char model[64];
        graft_unigram_file m;
        graft_safetensors *f = NULL;
        graft_unigram *u = NULL;
        snprintf(model, sizeof model, "%s.model", names[i]);
        blob b = read_file(model);
        CHECK_OK(graft_unigram_file_read((graft_bytes){(const uint8_t *)b.at, b.n}, &m, &e), &e);
        graft_unigram *own = open_model(model);
        const graft_unigram_tokens tokens = graft_unigram_tokens_of(own);
        graft_unigram_destroy(own);
        for (int less = 0; less < 2; less++) {
            gguf_pairs pairs = {0};
            add_spiece(&pairs, &m, m.count - (size_t)less, &tokens);
            gguf_file bytes = gguf_with("t5encoder", NULL, NULL, 0, NULL, &pairs);
            CHECK_OK(graft_safetensors_open_memory(bytes.data, bytes.n, "a", &f, &e), &e);
            const graft_st_tensor *t = graft_safetensors_find(f, "spiece_model");
            CHECK((t == NULL) == (less == 1)); /* a list that is too short is none */
            if (t) CHECK_OK(graft_unigram_create(t->data, (size_t)t->bytes, &u, &e), &e);
            graft_safetensors_close(f);
            free(bytes.data);
            free(pairs.bytes.data);
        }
        if (u) check_golden(u, names[i]);
        graft_unigram_destroy(u);
        graft_unigram_file_finish(&m);
        graft_free(b.at);
    }
}

/* ------------------------------------------------------------------ models of our own */

typedef struct writer {
    uint8_t at[1 << 14];
    size_t n;
} writer;

static void put_varint(writer *w, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) w->at[w->n++] = (uint8_t)(v | 0x80);
    w->at[w->n++] = (uint8_t)v;
}

static void put_bytes(writer *w, unsigned number, const void *bytes, size_t n)
{
    put_varint(w, number << 3 | 2);
    put_varint(w, n);
    if (w->n + n > sizeof w->at) abort();
    memcpy(w->at + w->n, bytes, n);
    w->n += n;
}

static void put_number(writer *w, unsigned number, uint64_t v)
{
    put_varint(w, number << 3);
    put_varint(w, v);
}

static void put_piece(writer *w, const char *text, float score, unsigned type)
{
    writer p = {.n = 0};
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    put_bytes(&p, 1, text, strlen(text));
    put_varint(&p, 2 << 3 | 5);
    for (int i = 0; i < 4; i++) p.at[p.n++] = (uint8_t)(bits >> 8 * i);
    put_number(&p, 3, type);
    put_bytes(w, 1, p.at, p.n);
}

static writer small_model(void)
{
    writer w = {.n = 0};
    put_piece(&w, "<unk>", 0, 2);
    put_piece(&w, "a", -1, 1);
    put_piece(&w, "\u2581a", -2, 1);
    return w;
}

static void expect(const writer *w, graft_status want, const char *word)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_unigram *u = NULL;
    CHECK_INT(graft_unigram_create(w->at, w->n, &u, &e), want);
    CHECK((u != NULL) == (want == GRAFT_OK));
    if (want != GRAFT_OK) CHECK(strstr(e.text, word) != NULL);
    if (want != GRAFT_OK && !strstr(e.text, word)) fprintf(stderr, "    %s\n", e.text);
    graft_unigram_destroy(u);
}

static void refuses_models(void)
{
    writer w = small_model();
    expect(&w, GRAFT_OK, "");
    put_piece(&w, "a", -3, 1);
    expect(&w, GRAFT_E_FORMAT, "the same");
    w = small_model();
    put_piece(&w, "<more>", 0, 2);
    expect(&w, GRAFT_E_FORMAT, "2 pieces for unknown");
    w = (writer){.n = 0};
    expect(&w, GRAFT_E_FORMAT, "0 pieces for unknown");
    w = small_model();
    put_piece(&w, "", 0, 1);
    expect(&w, GRAFT_E_FORMAT, "piece 3 has no text");
    w = small_model();
    put_piece(&w, "b", (float)INFINITY, 1);
    expect(&w, GRAFT_E_FORMAT, "score");
    w = small_model();
    put_piece(&w, "b", 0, 7);
    expect(&w, GRAFT_E_FORMAT, "unknown type");
    char text[GRAFT_UNIGRAM_MAX_PIECE + 2] = "";
    memset(text, 'b', GRAFT_UNIGRAM_MAX_PIECE);
    w = small_model();
    put_piece(&w, text, 0, 1);
    expect(&w, GRAFT_OK, "");
    text[GRAFT_UNIGRAM_MAX_PIECE] = 'b';
    put_piece(&w, text, 0, 1);
    expect(&w, GRAFT_E_LIMIT, "piece 4 has 513 bytes");
    w = small_model();
    put_bytes(&w, 2, "\x18\x02", 2); /* model_type: pairs */
    expect(&w, GRAFT_OK, "");
    w = small_model();
    put_bytes(&w, 2, "\x18\x03", 2); /* words */
    expect(&w, GRAFT_E_UNSUPPORTED, "type 3");
    w = small_model();
    put_bytes(&w, 2, "\x98\x02\x01", 3); /* byte_fallback */
    expect(&w, GRAFT_E_FORMAT, "byte 0");
}

static void refuses_damage(void)
{
    static const struct {
        const char *bytes;
        size_t n;
    } tails[] = {
        {"\x0a", 1},                                          /* no length */
        {"\x0a\x05\x0a", 3},                                  /* longer than the file */
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}, /* longer than anything */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11}, /* a number of 65 bits */
        {"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 12},
        {"\x0b\x0b\x0b\x0b", 4}, /* groups in groups */
        {"\x0e", 1},             /* a kind of field that there is not */
        {"\x00\x00", 2},         /* number 0 */
        {"\x0d\x00\x00", 3},     /* a float of two bytes */
        {"\x09\x00", 2},         /* a double of one */
        {"\x0a\x02\x0a\x05", 4}, /* a piece whose text leaves it */
    };
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        writer w = small_model();
        memcpy(w.at + w.n, tails[i].bytes, tails[i].n);
        w.n += tails[i].n;
        expect(&w, GRAFT_E_FORMAT, "not a SentencePiece model");
    }
}

/* `unit` over and over, n bytes. */
static char *repeat(const char *unit, size_t n)
{
    char *text = malloc(n);
    const size_t len = strlen(unit);
    if (!text) abort();
    for (size_t i = 0; i < n; i++) text[i] = unit[i % len];
    return text;
}

/* A double array of `units` with two results, as the normalizer's part of a model that knows 'a'.
 */
static writer with_table(const uint32_t *unit, uint32_t units)
{
    writer w = small_model(), table = {.n = 0}, part = {.n = 0};
    for (uint32_t i = 0; i <= units; i++)
        for (int k = 0; k < 4; k++)
            table.at[table.n++] = (uint8_t)((i ? unit[i - 1] : 4 * units) >> 8 * k);
    memcpy(table.at + table.n, "a\0aa", 5);
    table.n += 5;
    put_bytes(&part, 2, table.at, table.n);
    put_bytes(&w, 3, part.at, part.n);
    return w;
}

/* How many tokens a text has, or the status below 0. */
static long long tokens_of(const writer *w, const char *text)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_unigram *u = NULL;
    int32_t *ids = NULL;
    size_t count = 0;
    CHECK_OK(graft_unigram_create(w->at, w->n, &u, &e), &e);
    if (!u) return -1000;
    graft_status st = graft_unigram_encode(u, text, strlen(text), &ids, &count, &e);
    CHECK((ids != NULL) == (count > 0) && (st == GRAFT_OK || (count == 0 && e.text[0])));
    graft_free(ids);
    graft_unigram_destroy(u);
    return st == GRAFT_OK ? (long long)count : st;
}

enum { UNITS = 256, ENDS = 1 << 8 };
static void normalization_table(void)
{
    uint32_t unit[UNITS] = {0};
    /* The root is unit 0 and steps nowhere: 'b' leads to unit 'b', whose key ends there; its result
     * is at unit 'b' ^ offset. */
    unit['b'] = 'b' | ENDS | 1u << 10;
    unit['b' ^ 1] = 1u << 31 | 0;
    writer w = with_table(unit, UNITS);
    CHECK_INT(tokens_of(&w, "bb"), 2); /* aa */
    unit['b' ^ 1] = 1u << 31 | 2;
    w = with_table(unit, UNITS);
    CHECK_INT(tokens_of(&w, "bb"), 4); /* aaaa */
    unit['b' ^ 1] = 1u << 31 | 4;      /* the empty one */
    w = with_table(unit, UNITS);
    CHECK_INT(tokens_of(&w, "bab"), 1);
    unit['b' ^ 1] = 1u << 31 | 5; /* behind them */
    w = with_table(unit, UNITS);
    CHECK_INT(tokens_of(&w, "bb"), GRAFT_E_FORMAT);
    unit['b'] = 'b' | ENDS | 1u << 18; /* a result behind the array */
    w = with_table(unit, UNITS);
    CHECK_INT(tokens_of(&w, "bb"), GRAFT_E_FORMAT);
    unit['b'] = 'b' | 0x1fffu << 18 | 1u << 9; /* a step behind it */
    w = with_table(unit, UNITS);
    CHECK_INT(tokens_of(&w, "bb"), GRAFT_E_FORMAT);
    CHECK_INT(tokens_of(&w, "aa"), 2);     /* meets none of it */
    unit['b'] = 'b' | (uint32_t)'b' << 10; /* a step to itself: a key that does not end */
    w = with_table(unit, UNITS);
    char *text = repeat("b", 1 << 17);
    text[(1 << 17) - 1] = '\0';
    CHECK_INT(tokens_of(&w, text), 1);
    free(text);
    writer part = {.n = 0}, model = small_model();
    put_bytes(&part, 2, "\x08\0\0\0\0\0\0\0\0\0\0", 11); /* larger than the table */
    put_bytes(&model, 3, part.at, part.n);
    expect(&model, GRAFT_E_FORMAT, "normalization table of 11 bytes");
}

/* ------------------------------------------------------------------ hostile */

static const char probe[] =
    "a cat <b> caf\xc3\xa9 \xe7\x8c\xab  abc \xff two words \xef\xb7\xba 12";

/* Whatever becomes of it: nothing is read outside, and what opens gives tokens that there are. */
static bool survives(const uint8_t *model, size_t n)
{
    graft_unigram *u = NULL;
    int32_t *ids = NULL;
    size_t count = 0;
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy) abort();
    memcpy(copy, model, n);
    graft_status st = graft_unigram_create(copy, n, &u, NULL);
    free(copy);
    CHECK((st == GRAFT_OK) == (u != NULL));
    if (!u) return false;
    st = graft_unigram_encode(u, probe, sizeof probe - 1, &ids, &count, NULL);
    CHECK(st == GRAFT_OK || st == GRAFT_E_FORMAT || st == GRAFT_E_LIMIT);
    const int32_t tokens = graft_unigram_tokens_of(u).count;
    bool sound = true;
    for (size_t i = 0; i < count; i++) sound = sound && ids[i] >= 0 && ids[i] < tokens;
    CHECK(sound);
    graft_free(ids);
    graft_unigram_destroy(u);
    return true;
}

static void mutated(void)
{
    static const char *const names[] = {"odd.model", "plain.model", "suffix.model", "apart.model"};
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        blob b = read_file(names[i]);
        uint8_t *model = (uint8_t *)b.at;
        size_t opened = 0, tries = 0, step = b.n / 500 + 1;
        for (size_t n = 0; n < b.n; n += step) opened += survives(model, n), tries++;
        for (size_t at = 0; at < b.n; at += step)
            for (int k = 0; k < 3; k++) {
                const uint8_t old = model[at];
                state = state * 1664525u + 1013904223u;
                model[at] = k == 0 ? 0xff : k == 1 ? (uint8_t)(old ^ 1 << (at & 7)) : state >> 24;
                opened += survives(model, b.n), tries++;
                model[at] = old;
            }
        printf("     %s: %zu of %zu damaged models open\n", names[i], opened, tries);
        CHECK(opened > 0 && opened < tries);
        CHECK(survives(model, b.n));
        graft_free(b.at);
    }
}

static void long_texts(void)
{
    static const char *const units[] = {"a",  "cat ", "\u2581",      " ",
                                        "猫", "\xff", "a photo of ", "b"};
    static const char *const names[] = {"t5.model", "fallback.model", "ties.model", "gemma.model"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        graft_unigram *u = open_model(names[k]);
        double worst = 0;
        for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
            graft_err e = GRAFT_ERR_INIT;
            int32_t *ids;
            size_t count;
            char *text = repeat(units[i], 1 << 18);
            const double t0 = graft_clock_now();
            CHECK_OK(graft_unigram_encode(u, text, 1 << 18, &ids, &count, &e), &e);
            const double t = graft_clock_now() - t0;
            if (t > worst) worst = t;
            graft_free(ids);
            free(text);
        }
        printf("     %s: 256 KiB in at most %.0f ms\n", names[k], worst * 1e3);
        graft_unigram_destroy(u);
    }
}

static void over_limits(void)
{
    graft_err e = GRAFT_ERR_INIT;
    int32_t *ids;
    size_t count;
    graft_unigram *u = open_model("t5.model");
    /* U+FDFA is three bytes that become 33 and more. */
    char *text = repeat("\xef\xb7\xba", GRAFT_UNIGRAM_MAX_TEXT + 1);
    CHECK_INT(graft_unigram_encode(u, text, GRAFT_UNIGRAM_MAX_TEXT + 1, &ids, &count, &e),
              GRAFT_E_LIMIT);
    CHECK(ids == NULL && count == 0);
    CHECK_INT(graft_unigram_encode(u, text, GRAFT_UNIGRAM_MAX_TEXT, &ids, &count, &e),
              GRAFT_E_LIMIT);
    CHECK(ids == NULL && count == 0 && strstr(e.text, "normalized"));
    free(text);
    graft_unigram_destroy(u);
}

/* ------------------------------------------------------------------ memory, threads */

static int64_t live(void)
{
    graft_alloc_stats s;
    graft_alloc_stats_get(&s);
    return s.live_blocks;
}

/* Makes each allocation of one call fail in turn: of opening, or of tokenizing with `with`. */
static int fail_each(const blob *model, const graft_unigram *with)
{
    int failed = 0;
    for (int i = 1; i < 200; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_unigram *u = NULL;
        int32_t *ids = NULL;
        size_t count = 0;
        const int64_t before = live();
        graft_alloc_fail_at(i);
        graft_status st =
            with ? graft_unigram_encode(with, probe, sizeof probe - 1, &ids, &count, &e)
                 : graft_unigram_create(model->at, model->n, &u, &e);
        graft_alloc_fail_at(0);
        CHECK((st == GRAFT_OK) == (u != NULL || ids != NULL));
        graft_unigram_destroy(u);
        graft_free(ids);
        CHECK_INT(live(), before);
        if (st == GRAFT_OK) return failed;
        CHECK_INT(st, GRAFT_E_NOMEM);
        CHECK(e.text[0] != '\0');
        failed++;
    }
    return -1;
}

static void no_memory(void)
{
    static const char *const names[] = {"suffix.model", "apart.model"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        blob b = read_file(names[i]);
        CHECK(fail_each(&b, NULL) > 10);
        graft_unigram *u = open_model(names[i]);
        CHECK(fail_each(&b, u) >= (i ? 5 : 3));
        graft_unigram_destroy(u);
        graft_free(b.at);
    }
}

typedef struct user {
    const graft_unigram *u;
    int64_t sum;
} user;

static void *use(void *arg)
{
    user *k = arg;
    for (int i = 0; i < 200; i++) {
        int32_t *ids;
        size_t count;
        if (graft_unigram_encode(k->u, probe, sizeof probe - 1, &ids, &count, NULL)) return NULL;
        for (size_t n = 0; n < count; n++) k->sum += ids[n] * (int64_t)(n + 1);
        graft_free(ids);
    }
    return NULL;
}

static void threads(void)
{
    enum { N = 4 };
    pthread_t id[N];
    graft_unigram *u = open_model("t5.model");
    user k[N + 1];
    for (int i = 0; i <= N; i++) k[i] = (user){u, 0};
    use(&k[N]);
    for (int i = 0; i < N; i++) CHECK_INT(pthread_create(&id[i], NULL, use, &k[i]), 0);
    for (int i = 0; i < N; i++) {
        pthread_join(id[i], NULL);
        CHECK_INT(k[i].sum, k[N].sum);
    }
    CHECK(k[N].sum > 0);
    graft_unigram_destroy(u);
}

int main(void)
{
    RUN(golden);
    RUN(kept_in_gguf);
    RUN(refuses_models);
    RUN(refuses_damage);
    RUN(normalization_table);
    RUN(mutated);
    RUN(long_texts);
    RUN(over_limits);
    RUN(no_memory);
    RUN(threads);
    return test_end();
}
