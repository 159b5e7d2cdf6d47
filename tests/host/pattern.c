/* Regular expressions of editors' files. What is expected is what JavaScript says: `node -p
 * "/EXPRESSION/.test(TEXT)"`. */
#include "host/prompt/pattern.h"

#include "base/alloc.h"
#include "base/str.h"
#include "tests/test.h"

static graft_status search(const char *expression, const char *text, bool *found)
{
    graft_pattern *p = NULL;
    *found = false;
    graft_status st = graft_pattern_create(expression, &p, NULL);
    if (!st) st = graft_pattern_find(p, text, found, NULL);
    graft_pattern_destroy(p);
    return st;
}

static void matches(void)
{
    static const struct {
        const char *expression, *text;
        bool found;
    } list[] = {
#define YES(expression, text)                                                                      \
    {                                                                                              \
        expression, text, true                                                                     \
    }
#define NO(expression, text)                                                                       \
    {                                                                                              \
        expression, text, false                                                                    \
    }
#include "tests/host/pattern.def"
#undef YES
#undef NO
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        bool found;
        graft_status st = search(list[i].expression, list[i].text, &found);
        if (st || found != list[i].found)
            fprintf(stderr, "/%s/ in \"%s\": %d\n", list[i].expression, list[i].text, found);
        CHECK_INT(st, GRAFT_OK);
        CHECK_INT(found, list[i].found);
    }
}

static void refused(void)
{
    static const struct {
        const char *expression;
        graft_status st;
    } list[] = {{"(", GRAFT_E_FORMAT},
                {")", GRAFT_E_FORMAT},
                {"a)", GRAFT_E_FORMAT},
                {"[", GRAFT_E_FORMAT},
                {"[b-a]", GRAFT_E_FORMAT},
                {"*", GRAFT_E_FORMAT},
                {"a|*", GRAFT_E_FORMAT},
                {"a**", GRAFT_E_FORMAT},
                {"a{2,1}", GRAFT_E_FORMAT},
                {"[\\w-z]", GRAFT_E_FORMAT},
                {"(?<n", GRAFT_E_FORMAT},
                {"(?<=a*)b", GRAFT_E_FORMAT},
                {"(((a{1,99}){1,99}){1,99})", GRAFT_E_LIMIT}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        bool found;
        graft_status st = search(list[i].expression, "ab", &found);
        if (st != list[i].st) fprintf(stderr, "%s: %d\n", list[i].expression, st);
        CHECK_INT(st, list[i].st);
    }
}

/* What would take for ever is said to take too long, or known not to match. */
static void no_end(void)
{
    char text[3001];
    bool found;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    CHECK_INT(search("(a|a)*$", text, &found), GRAFT_OK);
    CHECK(found);
    CHECK_INT(search("(a|aa|aaa){20}[bc]", text, &found), GRAFT_E_LIMIT);
    CHECK(!found);
    CHECK_INT(search("(a*)*[bc]", text, &found), GRAFT_E_LIMIT);
    char deep[1201];
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    CHECK_INT(search(deep, "a", &found), GRAFT_E_LIMIT);
    CHECK(search(deep + 201, "a", &found) != GRAFT_OK);
    CHECK_INT(search("a", "\xFF", &found), GRAFT_E_FORMAT);
}

static void memory_short(void)
{
    for (int64_t n = 1;; n++) {
        bool found;
        graft_alloc_fail_at(n);
        graft_status st = search("x[a-c]+(\\d|e){2,3}", "xab12", &found);
        if (graft_alloc_fail_at(0)) { /* none was left to fail */
            CHECK_INT(st, GRAFT_OK);
            CHECK(found);
            break;
        }
        CHECK_INT(st, GRAFT_E_NOMEM);
    }
}

int main(void)
{
    RUN(matches);
    RUN(refused);
    RUN(no_end);
    RUN(memory_short);
    return test_end();
}
