/* Prompt syntax and chunks: the reference's prompts, then each rule by itself. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "engine/text/tokenizer.h"
#include "tests/test.h"

static graft_tokenizer *tok;

/* One prompt of the reference; false where a number differs. */
static bool same_chunks(const graft_chunks *c, const cJSON *chunks)
{
    if (c->count != (size_t)cJSON_GetArraySize(chunks)) return false;
    size_t at = 0;
    const cJSON *chunk, *pair;
    cJSON_ArrayForEach(chunk, chunks)
    {
        if (cJSON_GetArraySize(chunk) != GRAFT_TEXT_CHUNK) return false;
        cJSON_ArrayForEach(pair, chunk)
        {
            int64_t id = -1;
            double weight = 0;
            graft_json_i64(cJSON_GetArrayItem(pair, 0), &id);
            graft_json_f64(cJSON_GetArrayItem(pair, 1), &weight);
            if (c->tokens[at] != id || c->weights[at] != (float)weight) return false;
            at++;
        }
    }
    return true;
}

static void check_file(const char *path)
{
    graft_err e = GRAFT_ERR_INIT;
    char *text = NULL;
    size_t n = 0;
    cJSON *root = NULL;
    int prompts = 0;
    CHECK_OK(graft_file_read(path, 64 << 20, &text, &n, &e), &e);
    CHECK_OK(text ? graft_json_parse(text, n, path, &root, &e) : GRAFT_E_IO, &e);
    const cJSON *item;
    cJSON_ArrayForEach(item, root)
    {
        const char *prompt = graft_json_str(item, "prompt", NULL);
        graft_chunks c;
        CHECK(prompt != NULL);
        if (!prompt) continue;
        CHECK_OK(graft_prompt_chunks(tok, prompt, 49407, &c, &e), &e);
        bool same = same_chunks(&c, cJSON_GetObjectItem(item, "chunks"));
        CHECK(same);
        if (!same) fprintf(stderr, "    prompt: %s\n", prompt);
        graft_chunks_finish(&c);
        prompts++;
    }
    CHECK(prompts > 0);
    printf("%s: %d prompts\n", path, prompts);
    cJSON_Delete(root);
    graft_free(text);
}

static void golden(void)
{
    check_file(GRAFT_SOURCE_DIR "/golden/small/prompts.json");
}

static void golden_big(void)
{
    const char *path = GRAFT_SOURCE_DIR "/../shared/golden/prompts.json";
    if (graft_file_exists(path))
        check_file(path);
    else
        printf("skipped: no %s\n", path);
}

/* The chunks of `prompt` say the same as those of `plain`, token for token, with these weights for
 * its tokens: `weights` ends with a zero unless n says how many. */
static void expect(const char *prompt, const char *plain, const float *weights, size_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_chunks c;
    int32_t *ids = NULL;
    size_t count = 0, bad = 0;
    CHECK_OK(graft_prompt_chunks(tok, prompt, 49407, &c, &e), &e);
    CHECK_OK(graft_tokenizer_encode(tok, plain, strlen(plain), &ids, &count, &e), &e);
    CHECK_INT(c.count, 1);
    CHECK_INT(count, n);
    for (size_t i = 0; i < count && i < n; i++)
        bad += c.tokens[i + 1] != ids[i] || memcmp(&c.weights[i + 1], &weights[i], sizeof(float));
    bad += c.tokens[count + 1] != 49407;
    CHECK_INT(bad, 0);
    if (bad > 0 || count != n) {
        fprintf(stderr, "    prompt \"%s\":", prompt);
        for (size_t i = 1; i < GRAFT_TEXT_CHUNK && c.tokens[i] != 49407; i++)
            fprintf(stderr, " %d:%.9g", c.tokens[i], (double)c.weights[i]);
        fprintf(stderr, "\n");
    }
    graft_free(ids);
    graft_chunks_finish(&c);
}
#define EXPECT(prompt, plain, ...)                                                                 \
    expect(prompt, plain, (const float[]){__VA_ARGS__},                                            \
           sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

static const double up = 1.1;

static void weights(void)
{
    EXPECT("cat", "cat", 1);
    EXPECT("(cat)", "cat", 1.1f);
    EXPECT("((cat))", "cat", (float)(up * up));
    EXPECT("(((cat)))", "cat", (float)(up * up * up));
    EXPECT("(cat:1.5)(dog:-0.5)", "cat dog", 1.5f, -0.5f);
    EXPECT("(a (cat) dog:0.5)", "a cat dog", 0.5f, (float)(0.5 * up), 0.5f);
    EXPECT("((cat:3) dog:0.5)", "cat dog", 3, 0.5f);
    EXPECT("((cat):2)", "cat", (float)(2 * up));
    EXPECT("((cat:2))", "cat", 2);
    EXPECT("(a:b:1.2)", "a:b", 1.2f, 1.2f, 1.2f);
    EXPECT("( cat : 1.2 )", "cat", 1.2f);
}

static void brackets(void)
{
    EXPECT("(a:)", "a:", 1.1f, 1.1f);
    EXPECT("(:2)", ":2", 1.1f, 1.1f);
    EXPECT("( :2)cat", "cat", 1);
    EXPECT(")(", ")(", 1);
    EXPECT(") (cat:2)", ") (cat:2)", 1, 1, 1, 1, 1, 1);
    EXPECT("))((cat))", "))((cat))", 1, 1, 1, 1);
    EXPECT("(cat", "( cat", 1, 1);
    EXPECT("dog (cat", "dog ( cat", 1, 1, 1);
    EXPECT("(dog (cat)", "dog (cat", 1.1f, 1.1f, 1.1f);
    EXPECT("((cat)", "(cat", 1.1f, 1.1f);
    EXPECT("(cat))dog", "cat )dog", 1.1f, 1, 1);
    EXPECT("\\(cat\\)", "( cat )", 1, 1, 1);
    EXPECT("(\\(cat\\):2)", "( cat )", 2, 2, 2);
    EXPECT("(cat\\)", "( cat )", 1, 1, 1);
    EXPECT("(\\(:2)", "(", 2);
    EXPECT("\\\\(cat\\\\)", "\\( cat \\)", 1, 1, 1, 1, 1);
    EXPECT("a\\b", "a\\b", 1, 1, 1);
    EXPECT("(cat:1\\)", "( cat : 1 )", 1, 1, 1, 1, 1);
    EXPECT("ca(t:2)", "ca t", 1, 2);
}

static void numbers(void)
{
    EXPECT("(cat:1_0)", "cat", 10);
    EXPECT("(cat:+.5)", "cat", 0.5f);
    EXPECT("(cat:5.)", "cat", 5);
    EXPECT("(cat:1E-2)", "cat", 0.01f);
    EXPECT("(cat:\t1.25\xc2\xa0)", "cat", 1.25f);
    EXPECT("(cat:\xef\xbc\x91.\xd9\xa5)", "cat", 1.5f); /* full-width 1, Arabic 5 */
    EXPECT("(cat:INF)", "cat", INFINITY);
    EXPECT("(cat:-infinity)", "cat", -INFINITY);
    EXPECT("(cat:1e400)", "cat", INFINITY);
    EXPECT("(cat:0.1000000000000000055511151231257827)", "cat", 0.1f);
    EXPECT("(cat:0x10)", "cat:0x10", 1.1f, 1.1f, 1.1f, 1.1f, 1.1f, 1.1f);
    EXPECT("(cat:1__0)", "cat:1__0", 1.1f, 1.1f, 1.1f, 1.1f, 1.1f);
    EXPECT("(cat:1e)", "cat:1e", 1.1f, 1.1f, 1.1f, 1.1f);
    EXPECT("(cat:.)", "cat:.", 1.1f, 1.1f, 1.1f);
    EXPECT("(cat:1 2)", "cat:1 2", 1.1f, 1.1f, 1.1f, 1.1f);
    EXPECT("(cat:1,5)", "cat:1,5", 1.1f, 1.1f, 1.1f, 1.1f, 1.1f);
}

static void not_a_number(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_chunks c;
    CHECK_OK(graft_prompt_chunks(tok, "(cat:nan) dog", 49407, &c, &e), &e);
    CHECK_INT(c.tokens[1], 2368);
    CHECK(isnan(c.weights[1]));
    CHECK(c.weights[2] == 1.0f);
    graft_chunks_finish(&c);
}

/* A prompt of "cat" times a, then `middle`, then "cat" times b. */
static void chunks_of(int a, const char *middle, int b, graft_chunks *c)
{
    graft_err e = GRAFT_ERR_INIT;
    char text[4096] = "";
    for (int i = 0; i < a; i++) strcat(text, "cat ");
    strcat(text, middle);
    for (int i = 0; i < b; i++) strcat(text, " cat");
    CHECK_OK(graft_prompt_chunks(tok, text, 0, c, &e), &e);
}

static void filling(void)
{
    graft_chunks c;
    chunks_of(75, "", 0, &c); /* exactly full */
    CHECK_INT(c.count, 1);
    CHECK_INT(c.tokens[75], 2368);
    CHECK_INT(c.tokens[76], 49407);
    graft_chunks_finish(&c);

    chunks_of(76, "", 0, &c);
    CHECK_INT(c.count, 2);
    CHECK_INT(c.tokens[77 + 1], 2368);
    CHECK_INT(c.tokens[77 + 2], 49407);
    CHECK_INT(c.tokens[77 + 3], 0); /* the pad token */
    CHECK(c.weights[77 + 3] == 1.0f);
    graft_chunks_finish(&c);

    chunks_of(73, "(dog dog dog:2)", 0, &c); /* short: goes whole into the second chunk */
    CHECK_INT(c.count, 2);
    CHECK_INT(c.tokens[74], 49407);
    CHECK_INT(c.tokens[75], 0);
    CHECK_INT(c.tokens[77 + 1], 1929);
    CHECK(c.weights[77 + 1] == 2.0f);
    CHECK_INT(c.tokens[77 + 4], 49407);
    graft_chunks_finish(&c);

    chunks_of(73, "(dog dog dog dog dog dog dog:2)", 0, &c); /* 7 tokens: still whole */
    CHECK_INT(c.tokens[74], 49407);
    CHECK_INT(c.tokens[77 + 7], 1929);
    graft_chunks_finish(&c);

    chunks_of(73, "(dog dog dog dog dog dog dog dog:2)", 1, &c); /* 8 tokens: split */
    CHECK_INT(c.tokens[75], 1929);
    CHECK_INT(c.tokens[76], 49407);
    CHECK_INT(c.tokens[77 + 6], 1929);
    CHECK_INT(c.tokens[77 + 7], 2368);
    graft_chunks_finish(&c);

    chunks_of(75, "(dog:2)", 0, &c);
    CHECK_INT(c.count, 2);
    graft_chunks_finish(&c);

    chunks_of(75, "(dog dog dog dog dog dog dog dog:2)", 0, &c); /* long, nothing fits */
    CHECK_INT(c.count, 2);
    CHECK_INT(c.tokens[76], 49407);
    CHECK_INT(c.tokens[77 + 8], 1929);
    graft_chunks_finish(&c);
}

static void empty(void)
{
    static const char *const prompts[] = {"", " ", "()", "(( ))", "\n\t", "(:", "\xe2\x80\x8b"};
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        graft_chunks c;
        CHECK_OK(graft_prompt_chunks(tok, prompts[i], 0, &c, &e), &e);
        CHECK_INT(c.count, 1);
        CHECK_INT(c.tokens[0], 49406);
        if (strcmp(prompts[i], "(:") != 0) {
            CHECK_INT(c.tokens[1], 49407);
            CHECK_INT(c.tokens[2], 0);
        }
        graft_chunks_finish(&c);
        graft_chunks_finish(&c); /* once more is fine */
    }
}

static void embeddings(void)
{
    graft_chunks c;
    EXPECT("embedding:cat", "embedding:cat", 1, 1, 1, 1);
    EXPECT("a embedding:cat", "a embedding:cat", 1, 1, 1, 1, 1);
    /* The name is a segment of its own, short enough to stay whole. */
    chunks_of(74, "embedding:cat", 0, &c);
    CHECK_INT(c.count, 2);
    CHECK_INT(c.tokens[75], 49407);
    graft_chunks_finish(&c);
}

int main(void)
{
    graft_err e = GRAFT_ERR_INIT;
    if (graft_tokenizer_create(&tok, &e) != GRAFT_OK) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    RUN(golden);
    RUN(golden_big);
    RUN(weights);
    RUN(brackets);
    RUN(numbers);
    RUN(not_a_number);
    RUN(filling);
    RUN(empty);
    RUN(embeddings);
    graft_tokenizer_destroy(tok);
    return test_end();
}
