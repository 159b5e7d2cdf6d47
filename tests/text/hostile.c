/* Long and nasty input, memory that runs out, many threads, and time. */
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/text/tokenizer.h"
#include "tests/test.h"

static graft_tokenizer *tok;

/* `unit` over and over, about n bytes. */
static char *repeat(const char *unit, size_t n)
{
    size_t len = strlen(unit);
    char *text = malloc(n + len + 1);
    size_t at = 0;
    if (!text) abort();
    while (at + len <= n) {
        memcpy(text + at, unit, len);
        at += len;
    }
    text[at] = '\0';
    return text;
}

static void long_prompts(void)
{
    static const char *const units[] = {
        "a",           "cat ", "(a)",  "(",        ")",
        "\\(",         "(:",   "Σ'",   "\xcc\x81", "e\xcc\x81\xcc\xa7",
        "猫",          "<|",   "\xff", "1",        "a embedding:b",
        "(a:1_1.5e1)", "'s"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_chunks c;
        char *text = repeat(units[i], 1 << 20);
        double t0 = graft_clock_now();
        CHECK_OK(graft_prompt_chunks(tok, text, 0, &c, &e), &e);
        printf("     1 MiB of \"%s\": %zu chunks, %.0f ms\n", units[i], c.count,
               (graft_clock_now() - t0) * 1e3);
        CHECK(c.count >= 1 && c.tokens[0] == 49406);
        graft_chunks_finish(&c);
        free(text);
    }
}

static void nested(int depth, graft_status want)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_chunks c;
    char *open = repeat("(", (size_t)depth), *close = repeat(")", (size_t)depth);
    char *text = malloc(2 * (size_t)depth + 4);
    if (!text) abort();
    sprintf(text, "%sa%s", open, close);
    CHECK_INT(graft_prompt_chunks(tok, text, 0, &c, &e), want);
    CHECK((c.count == 1) == (want == GRAFT_OK));
    if (want == GRAFT_OK) CHECK(c.tokens[1] == 320 && c.weights[1] > 1.0f);
    graft_chunks_finish(&c);
    free(open);
    free(close);
    free(text);
}

static void deep(void)
{
    nested(1, GRAFT_OK);
    nested(1000, GRAFT_OK);
    nested(1001, GRAFT_E_LIMIT);
    nested(500000, GRAFT_E_LIMIT);
}

static int64_t live(void)
{
    graft_alloc_stats s;
    graft_alloc_stats_get(&s);
    return s.live_blocks;
}

static void no_memory_create(void)
{
    int64_t before = live();
    int failed = 0;
    for (int i = 1; i < 100; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_tokenizer *t = NULL;
        graft_alloc_fail_at(i);
        graft_status st = graft_tokenizer_create(&t, &e);
        graft_alloc_fail_at(0);
        graft_tokenizer_destroy(t);
        CHECK_INT(live(), before);
        if (st == GRAFT_OK) break;
        CHECK_INT(st, GRAFT_E_NOMEM);
        CHECK(t == NULL && e.text[0] != '\0');
        failed++;
    }
    CHECK(failed >= 3);
}

static void no_memory_prompt(void)
{
    char *text = repeat("(a caf\xc3\xa9 e\xcc\x81 of supercalifragilistic:1.2) embedding:b ", 2000);
    int64_t before = live();
    int failed = 0, i;
    for (i = 1; i < 5000; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_chunks c;
        graft_alloc_fail_at(i);
        graft_status st = graft_prompt_chunks(tok, text, 0, &c, &e);
        graft_alloc_fail_at(0);
        if (st != GRAFT_OK) CHECK(c.tokens == NULL && c.weights == NULL && c.count == 0);
        graft_chunks_finish(&c);
        CHECK_INT(live(), before);
        if (st == GRAFT_OK) break;
        CHECK_INT(st, GRAFT_E_NOMEM);
        failed++;
    }
    printf("     %d places failed\n", failed);
    CHECK(failed > 20 && i < 5000);
    free(text);
}

static const char *const shared_prompt = "a (photo:1.2) of ((cats)) and caf\xc3\xa9s, 4k 猫";

static void *use(void *arg)
{
    int64_t *sum = arg;
    for (int i = 0; i < 200; i++) {
        graft_chunks c;
        if (graft_prompt_chunks(tok, shared_prompt, 49407, &c, NULL) != GRAFT_OK) return NULL;
        for (int k = 0; k < GRAFT_TEXT_CHUNK; k++) *sum += c.tokens[k] * (k + 1);
        graft_chunks_finish(&c);
    }
    return NULL;
}

static void threads(void)
{
    enum { N = 4 };
    pthread_t id[N];
    int64_t sum[N + 1] = {0};
    use(&sum[N]);
    for (int i = 0; i < N; i++) CHECK_INT(pthread_create(&id[i], NULL, use, &sum[i]), 0);
    for (int i = 0; i < N; i++) {
        pthread_join(id[i], NULL);
        CHECK_INT(sum[i], sum[N]);
    }
    CHECK(sum[N] > 0);
}

static void speed(void)
{
    graft_err e = GRAFT_ERR_INIT;
    double best = 1e9, t0;
    for (int i = 0; i < 5; i++) {
        graft_tokenizer *t;
        t0 = graft_clock_now();
        CHECK_OK(graft_tokenizer_create(&t, &e), &e);
        double took = graft_clock_now() - t0;
        if (took < best) best = took;
        graft_tokenizer_destroy(t);
    }
    printf("     a tokenizer: %.2f ms\n", best * 1e3);
    t0 = graft_clock_now();
    int64_t sum = 0;
    use(&sum);
    printf("     a prompt: %.1f us\n", (graft_clock_now() - t0) / 200 * 1e6);
}

int main(void)
{
    graft_err e = GRAFT_ERR_INIT;
    if (graft_tokenizer_create(&tok, &e) != GRAFT_OK) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    RUN(long_prompts);
    RUN(deep);
    RUN(no_memory_create);
    RUN(no_memory_prompt);
    RUN(threads);
    RUN(speed);
    graft_tokenizer_destroy(tok);
    return test_end();
}
