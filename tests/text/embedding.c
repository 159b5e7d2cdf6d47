/* Embeddings in prompts: which names are asked for, where their vectors stand, what stays text. */
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/text/tokenizer.h"
#include "tests/test.h"

enum { START = 49406, END = 49407, PAD = 0, CAT = 2368, DOG = 1929, COMMA = 267 };

static graft_tokenizer *tok;

/* Embeddings that are there, with the number of their first vector. */
static const struct known {
    const char *name;
    size_t first, count;
} known[] = {{"one", 0, 1},
             {"five", 1, 5},
             {"seven", 6, 7},
             {"eight", 13, 8},
             {"big", 21, 160},
             {"none", 181, 0},
             {"misfit", GRAFT_TEXT_NO_VECTOR, 3},
             {"wide", GRAFT_TEXT_NO_VECTOR, 20},
             {"comma,", 200, 1},
             {"gr\xc3\xbc\xc3\x9f", 201, 1},
             {"br(a)cket", 202, 1},
             {"4", 203, 1},
             {"sub/x.safetensors", 204, 1}};

static char asked[1024];
static graft_status answer; /* not GRAFT_OK: the source fails */

static graft_status find(void *ctx, const char *name, bool last, size_t *first, size_t *count,
                         graft_err *e)
{
    size_t used = strlen(asked);
    (void)ctx;
    snprintf(asked + used, sizeof asked - used, "%s%s|", name, last ? "" : "?");
    if (answer) return graft_fail(e, answer, "the source fails");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            *first = known[i].first;
            *count = known[i].count;
            return GRAFT_OK;
        }
    return GRAFT_E_NOTFOUND;
}

static const graft_text_embeddings source = {.find = find};

static graft_chunks chunks_of(const char *prompt)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_chunks c;
    asked[0] = 0;
    CHECK_OK(graft_prompt_chunks_with(tok, prompt, PAD, &source, &c, &e), &e);
    return c;
}

/* The prompt is one chunk of these tokens with these weights, and asks these questions. */
static void expect(const char *prompt, const char *questions, const int32_t *want,
                   const float *weights, size_t n)
{
    graft_chunks c = chunks_of(prompt);
    size_t bad = 0;
    CHECK_STR(asked, questions);
    CHECK_INT(c.count, 1);
    if (c.count != 1) return;
    bad += c.tokens[0] != START || c.tokens[n + 1] != END;
    for (size_t i = 0; i < n; i++)
        bad += c.tokens[i + 1] != want[i] || c.weights[i + 1] != weights[i];
    for (size_t i = n + 2; i < GRAFT_TEXT_CHUNK; i++)
        bad += c.tokens[i] != PAD || c.weights[i] != 1.0f;
    CHECK_INT(bad, 0);
    if (bad) {
        fprintf(stderr, "    prompt \"%s\":", prompt);
        for (size_t i = 1; i < GRAFT_TEXT_CHUNK && c.tokens[i] != END; i++)
            fprintf(stderr, " %d:%.9g", c.tokens[i], (double)c.weights[i]);
        fprintf(stderr, "\n");
    }
    asked[0] = 0;
    CHECK_INT(graft_prompt_names(prompt, &source, NULL), GRAFT_OK);
    CHECK_STR(asked, questions); /* the same without a tokenizer */
    graft_chunks_finish(&c);
}
#define IDS(...) (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / 4
static void plain(const char *prompt, const char *questions, const int32_t *want, size_t n)
{
    static const float ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    expect(prompt, questions, want, ones, n);
}

static void names(void)
{
    plain("embedding:one", "one|", IDS(-1));
    plain("cat embedding:one dog", "one|", IDS(CAT, -1, DOG));
    plain("embedding:five", "five|", IDS(-2, -3, -4, -5, -6));
    plain("cat\nembedding:one\ndog", "one|", IDS(CAT, -1, DOG));
    plain("embedding:one embedding:five embedding:one", "one|five|one|",
          IDS(-1, -2, -3, -4, -5, -6, -1));
    plain("embedding: one", "one|", IDS(-1));
    plain("embedding:gr\xc3\xbc\xc3\x9f\xe3\x80\x80"
          "cat",
          "gr\xc3\xbc\xc3\x9f|", IDS(-202, CAT));
    plain("embedding:br\\(a\\)cket", "br(a)cket|", IDS(-203));
    plain("embedding:sub/x.safetensors", "sub/x.safetensors|", IDS(-205));
    plain("cat dog", "", IDS(CAT, DOG));
}

static void commas(void)
{
    plain("embedding:one, dog", "one,?|one|", IDS(-1, COMMA, DOG));
    plain("embedding:one,", "one,?|one|", IDS(-1, COMMA));
    plain("embedding:one ,dog", "one|", IDS(-1, COMMA, DOG));
    plain("embedding:comma, dog", "comma,?|", IDS(-201, DOG));
    plain("embedding:missing, dog", "missing,?|missing|", IDS(COMMA, DOG));
    plain("embedding:one,dog cat", "one,dog|", IDS(CAT)); /* a name with a comma in it */
    plain("embedding:one,embedding:five", "one,embedding:five|", NULL, 0);
    plain("cat embedding:, dog", ",|", IDS(CAT, COMMA, DOG));
}

/* Names that are nowhere, or begin nowhere. */
static void left_out(void)
{
    plain("cat embedding:missing dog", "missing|", IDS(CAT, DOG));
    plain("cat embedding:none dog", "none|", IDS(CAT, DOG));
    plain("cat embedding:", "|", IDS(CAT));
    plain("embedding: ", "|", NULL, 0);
    plain("cat embedding:ONE", "ONE|", IDS(CAT));
    graft_chunks c = chunks_of("catembedding:one Embedding:one"); /* words */
    CHECK_STR(asked, "");
    CHECK(c.tokens[1] > 0);
    graft_chunks_finish(&c);
}

static void weights(void)
{
    expect("(embedding:one:1.3) cat", "one|", (const int32_t[]){-1, CAT}, (const float[]){1.3f, 1},
           2);
    expect("(embedding:one)", "one|", (const int32_t[]){-1}, (const float[]){1.1f}, 1);
    expect("(cat embedding:one, (dog:2):0.5)embedding:one", "one,?|one|one|",
           (const int32_t[]){CAT, -1, COMMA, DOG, -1}, (const float[]){0.5f, 0.5f, 0.5f, 2, 1}, 5);
    expect("(embedding:five:-1)", "five|", (const int32_t[]){-2, -3, -4, -5, -6},
           (const float[]){-1, -1, -1, -1, -1}, 5);
    /* The weight is read before the name. */
    expect("(embedding:4)", "", (const int32_t[]){19703, 796}, (const float[]){4, 4}, 2);
    expect("(embedding:4:2)", "4|", (const int32_t[]){-204}, (const float[]){2}, 1);
}

/* "cat" n times, then `rest`. */
static graft_chunks filled(int n, const char *rest)
{
    char text[4096] = "";
    for (int i = 0; i < n; i++) strcat(text, "cat ");
    strcat(text, rest);
    return chunks_of(text);
}

static void places(void)
{
    graft_chunks c = filled(70, "embedding:five"); /* exactly full */
    CHECK_INT(c.count, 1);
    CHECK_INT(c.tokens[71], -2);
    CHECK_INT(c.tokens[75], -6);
    CHECK_INT(c.tokens[76], END);
    graft_chunks_finish(&c);

    c = filled(71, "embedding:five dog"); /* goes whole into the second chunk */
    CHECK_INT(c.count, 2);
    CHECK_INT(c.tokens[71], CAT);
    CHECK_INT(c.tokens[72], END);
    CHECK_INT(c.tokens[73], PAD);
    CHECK_INT(c.tokens[77], START);
    CHECK_INT(c.tokens[77 + 1], -2);
    CHECK_INT(c.tokens[77 + 5], -6);
    CHECK_INT(c.tokens[77 + 6], DOG);
    CHECK_INT(c.tokens[77 + 7], END);
    graft_chunks_finish(&c);

    c = filled(73, "(embedding:seven:2)"); /* as 7 words: whole */
    CHECK_INT(c.tokens[74], END);
    CHECK_INT(c.tokens[77 + 1], -7);
    CHECK_INT(c.tokens[77 + 7], -13);
    CHECK(c.weights[74] == 1.0f && c.weights[77 + 1] == 2.0f);
    graft_chunks_finish(&c);

    c = filled(73, "(embedding:eight:2)"); /* as 8 words: split */
    CHECK_INT(c.tokens[74], -14);
    CHECK_INT(c.tokens[75], -15);
    CHECK_INT(c.tokens[76], END);
    CHECK_INT(c.tokens[77 + 1], -16);
    CHECK_INT(c.tokens[77 + 6], -21);
    CHECK_INT(c.tokens[77 + 7], END);
    CHECK(c.weights[75] == 2.0f && c.weights[76] == 1.0f && c.weights[77 + 6] == 2.0f);
    graft_chunks_finish(&c);

    c = chunks_of("embedding:big"); /* 160 = 75 + 75 + 10 */
    CHECK_INT(c.count, 3);
    CHECK_INT(c.tokens[75], -96);
    CHECK_INT(c.tokens[77 + 1], -97);
    CHECK_INT(c.tokens[2 * 77 + 10], -181);
    CHECK_INT(c.tokens[2 * 77 + 11], END);
    graft_chunks_finish(&c);
}

/* Vectors that do not fit are not in the chunks, which are cut up as if they were. */
static void misfits(void)
{
    plain("cat embedding:misfit dog", "misfit|", IDS(CAT, DOG));
    expect("cat (embedding:misfit:3) (dog:2)", "misfit|", (const int32_t[]){CAT, DOG},
           (const float[]){1, 2}, 2);
    graft_chunks c = filled(73, "embedding:misfit dog");
    CHECK_INT(c.count, 2);
    CHECK_INT(c.tokens[74], END);
    CHECK_INT(c.tokens[77 + 1], DOG);
    CHECK_INT(c.tokens[77 + 2], END);
    graft_chunks_finish(&c);
    c = filled(60, "embedding:wide dog"); /* 15 places here, 5 there */
    CHECK_INT(c.count, 2);
    CHECK_INT(c.tokens[60], CAT);
    CHECK_INT(c.tokens[61], END);
    CHECK_INT(c.tokens[76], PAD);
    CHECK_INT(c.tokens[77 + 1], DOG);
    CHECK_INT(c.tokens[77 + 2], END);
    graft_chunks_finish(&c);
}

/* Without a source nothing changes: names are words. */
static void words_without_a_source(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_chunks a, b;
    CHECK_OK(graft_prompt_chunks(tok, "cat (embedding:one:2)", PAD, &a, &e), &e);
    CHECK_OK(graft_prompt_chunks_with(tok, "cat (embedding:one:2)", PAD, NULL, &b, &e), &e);
    CHECK(memcmp(a.tokens, b.tokens, GRAFT_TEXT_CHUNK * sizeof *a.tokens) == 0);
    for (int i = 0; i < GRAFT_TEXT_CHUNK; i++) CHECK(a.tokens[i] >= 0);
    graft_chunks_finish(&a);
    graft_chunks_finish(&b);
}

static void limits_and_failures(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_chunks c;
    static char text[32 * (GRAFT_TEXT_MAX_EMBEDDINGS + 1)];
    for (int i = 0; i < GRAFT_TEXT_MAX_EMBEDDINGS; i++) strcat(text, "embedding:one ");
    asked[0] = 0;
    CHECK_OK(graft_prompt_chunks_with(tok, text, PAD, &source, &c, &e), &e);
    CHECK_INT(c.count, (GRAFT_TEXT_MAX_EMBEDDINGS + 74) / 75);
    graft_chunks_finish(&c);
    strcat(text, "embedding:one");
    CHECK_INT(graft_prompt_chunks_with(tok, text, PAD, &source, &c, &e), GRAFT_E_LIMIT);
    CHECK(c.tokens == NULL && strstr(e.text, "1000") != NULL);
    CHECK_OK(graft_prompt_chunks(tok, text, PAD, &c, &e), &e);
    graft_chunks_finish(&c);
    answer = GRAFT_E_CANCEL;
    CHECK_INT(graft_prompt_chunks_with(tok, "cat embedding:one", PAD, &source, &c, &e),
              GRAFT_E_CANCEL);
    CHECK_STR(e.text, "the source fails");
    CHECK(c.tokens == NULL);
    CHECK_INT(graft_prompt_names("cat embedding:one,", &source, &e), GRAFT_E_CANCEL);
    answer = GRAFT_OK;
}

static int64_t live(void)
{
    graft_alloc_stats s;
    graft_alloc_stats_get(&s);
    return s.live_blocks;
}

static void no_memory(void)
{
    int64_t before = live();
    int failed = 0;
    for (int i = 1; i < 500; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_chunks c;
        asked[0] = 0;
        graft_alloc_fail_at(i);
        graft_status st = graft_prompt_chunks_with(
            tok, "(embedding:big, cat:1.2) embedding:wide dog", PAD, &source, &c, &e);
        graft_alloc_fail_at(0);
        graft_chunks_finish(&c);
        CHECK_INT(live(), before);
        if (st == GRAFT_OK) break;
        CHECK_INT(st, GRAFT_E_NOMEM);
        failed++;
    }
    CHECK(failed > 8);
}

int main(void)
{
    graft_err e = GRAFT_ERR_INIT;
    if (graft_tokenizer_create(&tok, &e) != GRAFT_OK) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    RUN(names);
    RUN(commas);
    RUN(left_out);
    RUN(weights);
    RUN(places);
    RUN(misfits);
    RUN(words_without_a_source);
    RUN(limits_and_failures);
    RUN(no_memory);
    graft_tokenizer_destroy(tok);
    return test_end();
}
