/* The tests' few tools: a check prints where and what, counts, and lets the test go on.
 *
 *     static void adds(void) { CHECK(1 + 1 == 2); CHECK_STR(text, "two"); }
 *     int main(void) { RUN(adds); return test_end(); }
 */
#ifndef GRAFT_TESTS_TEST_H
#define GRAFT_TESTS_TEST_H
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int test_failures, test_checks;

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        test_checks++;                                                                             \
        if (!(cond)) {                                                                             \
            test_failures++;                                                                       \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond);                   \
        }                                                                                          \
    } while (0)
#define CHECK_OK(expr, err)                                                                        \
    do {                                                                                           \
        test_checks++;                                                                             \
        int test_st = (int)(expr);                                                                 \
        if (test_st) {                                                                             \
            test_failures++;                                                                       \
            fprintf(stderr, "%s:%d: %s gave %d: %s\n", __FILE__, __LINE__, #expr, test_st,         \
                    (err)->text);                                                                  \
        }                                                                                          \
    } while (0)
#define CHECK_INT(a, b)                                                                            \
    do {                                                                                           \
        test_checks++;                                                                             \
        long long test_a = (long long)(a), test_b = (long long)(b);                                \
        if (test_a != test_b) {                                                                    \
            test_failures++;                                                                       \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #a, test_a,       \
                    test_b);                                                                       \
        }                                                                                          \
    } while (0)
#define CHECK_STR(a, b)                                                                            \
    do {                                                                                           \
        test_checks++;                                                                             \
        const char *test_a = (a), *test_b = (b);                                                   \
        if (!test_a || strcmp(test_a, test_b) != 0) {                                              \
            test_failures++;                                                                       \
            fprintf(stderr, "%s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #a,           \
                    test_a ? test_a : "(null)", test_b);                                           \
        }                                                                                          \
    } while (0)
#define CHECK_NEAR(a, b, tolerance)                                                                \
    do {                                                                                           \
        test_checks++;                                                                             \
        double test_a = (a), test_b = (b);                                                         \
        if (!(fabs(test_a - test_b) <= (tolerance))) {                                             \
            test_failures++;                                                                       \
            fprintf(stderr, "%s:%d: %s is %.9g, not %.9g\n", __FILE__, __LINE__, #a, test_a,       \
                    test_b);                                                                       \
        }                                                                                          \
    } while (0)
/* What takes long says so: seconds of processor time, other processes not counted. */
#define RUN(test)                                                                                  \
    do {                                                                                           \
        int test_before = test_failures;                                                           \
        clock_t test_began = clock();                                                              \
        test();                                                                                    \
        double test_seconds = (double)(clock() - test_began) / CLOCKS_PER_SEC;                     \
        printf("%s %s", test_failures == test_before ? "ok  " : "FAIL", #test);                    \
        if (test_seconds >= 1) printf(" (%.1f s)", test_seconds);                                  \
        printf("\n");                                                                              \
    } while (0)

static inline int test_end(void)
{
    printf("%d checks, %d failed\n", test_checks, test_failures);
    return test_failures != 0 || test_checks == 0;
}
#endif
