#include "host/run/dispatch.h"
#include "tests/host/listener.h"

static void failing(const char *text, graft_status st, const char *words, int line)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(run(text, NULL, &e), st);
    if (!words || strcmp(e.text, words) == 0) return;
    fprintf(stderr, "line %d: %s\n", line, e.text);
    CHECK_STR(e.text, words);
}
#define FAILS(text, words) failing(text, GRAFT_E_ARG, words, __LINE__)

static void in_place(void)
{
    without_cache();
    EXPECT("{'1':{'class_type':'TestInt','inputs':{'value':5}},"
           "'5':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':['2',1]}},"
           "'6':{'class_type':'TestShow','inputs':{'any':['5',0]}},"
           "'2':{'class_type':'TestExpand','inputs':{'part':'{`s`:{`class_type`:`TestAdd`,`inputs`:"
           "{`a`:[`1`,0],`b`:[`x`,0]}},`x`:{`class_type`:`TestInt`,`inputs`:{`value`:7}},"
           "`not`:{`class_type`:`TestFail`,`inputs`:{`code`:1}}}','results':'[[`s`,0],null]'}},"
           "'3':{'class_type':'TestShow','inputs':{'any':['2',0]}},"
           "'4':{'class_type':'TestShow','inputs':{'any':['2',1]}}}",
           "{'3':{'text':['12']},'4':{'text':['2']},'6':{'text':['7']}}");
    CHECK_STR(events,
              "start cached() run(2) run(1) done(1) run(2.0.0.x) done(2.0.0.x) run(2.0.0.s) "
              "done(2.0.0.s) done(2) run(3) done(3!) run(4) done(4!) run(5) done(5) run(6) "
              "done(6!) success");
    /* A result may be any node of the prompt, and a part may show something. */
    EXPECT(
        "{'1':{'class_type':'TestInt','inputs':{'value':5}},"
        "'2':{'class_type':'TestExpand','inputs':{'part':'{`o`:{`class_type`:`TestShow`,`inputs`:"
        "{`any`:[`1`,0]}}}','results':'[[`1`,0],[`1`,0]]'}},"
        "'3':{'class_type':'TestAdd','inputs':{'a':['2',0],'b':['2',1]}},"
        "'4':{'class_type':'TestShow','inputs':{'any':['3',0]}},"
        "'5':{'class_type':'TestShow','inputs':{'any':['1',0]}}}",
        "{'5':{'text':['5']},'2.0.0.o':{'text':['5']},'4':{'text':['10']}}");
    /* Inner names win over outer ones. */
    EXPECT("{'1':{'class_type':'TestInt','inputs':{'value':5}},"
           "'2':{'class_type':'TestExpand','inputs':{'part':'{`1`:{`class_type`:`TestInt`,`inputs`:"
           "{`value`:6}}}','results':'[[`1`,0],null]'}},"
           "'3':{'class_type':'TestAdd','inputs':{'a':['2',0],'b':['1',0]}},"
           "'4':{'class_type':'TestShow','inputs':{'any':['3',0]}}}",
           "{'4':{'text':['11']}}");
    close_executor();
}

/* Every call of a node may expand, and lists come in between. */
static void of_lists(void)
{
    with_cache();
    const char *text = "{'1':{'class_type':'TestRange','inputs':{'n':4}},"
                       "'2':{'class_type':'TestDescend','inputs':{'n':['1',0]}},"
                       "'3':{'class_type':'TestSum','inputs':{'values':['2',0]}},"
                       "'4':{'class_type':'TestShow','inputs':{'any':['2',0]}},"
                       "'5':{'class_type':'TestShow','inputs':{'any':['3',0]}}}";
    EXPECT(text, "{'4':{'text':['1','3','6','10']},'5':{'text':['20']}}");
    EXPECT(text, "{'4':{'text':['1','3','6','10']},'5':{'text':['20']}}");
    CHECK_STR(events, "start cached(1,2,4,3,5) kept(4!) kept(5!) success");
    EXPECT("{'1':{'class_type':'TestExpand','inputs':{'part':'{`r`:{`class_type`:`TestRange`,"
           "`inputs`:{`n`:3}}}','results':'[[`r`,0],null]'}},"
           "'2':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':['1',1]}},"
           "'3':{'class_type':'TestShow','inputs':{'any':['2',0]}}}",
           "{'3':{'text':['3','4','5']}}");
    close_executor();
}

static void deep(void)
{
    for (int keep = 0; keep < 2; keep++) {
        if (keep)
            with_cache();
        else
            without_cache();
        EXPECT("{'1':{'class_type':'TestDescend','inputs':{'n':300}},"
               "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}",
               "{'2':{'text':['45150']}}");
        close_executor();
    }
    /* Nodes without an end meet a limit. */
    without_cache();
    failing("{'1':{'class_type':'TestRange','inputs':{'n':100}},"
            "'2':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':50}},"
            "'3':{'class_type':'TestDescend','inputs':{'n':['2',0]}},"
            "'4':{'class_type':'TestShow','inputs':{'any':['3',0]}}}",
            GRAFT_E_LIMIT, NULL, __LINE__);
    close_executor();
}

/* Each level makes ids longer; what is told of them must leave room for the reason. */
static void long_ids(void)
{
    static char id[17000], text[40000];
    graft_err e = GRAFT_ERR_INIT;
    memset(id, 'a', sizeof id - 1);
    without_cache();
    snprintf(text, sizeof text,
             "{'%s':{'class_type':'TestExpand','inputs':{'part':'{`x`:{`class_type`:`TestInt`,"
             "`inputs`:{`value`:7}}}','results':'[[`x`,0],null]'}},"
             "'2':{'class_type':'TestShow','inputs':{'any':['%s',0]}}}",
             id, id);
    CHECK_INT(run(text, NULL, &e), GRAFT_E_LIMIT);
    CHECK(strstr(e.text, "expansions lie too deep in one another"));
    snprintf(text, sizeof text,
             "{'%s':{'class_type':'TestExpand','inputs':{'part':'{`x`:{`class_type`:`TestFail`,"
             "`inputs`:{`code`:1}}}','results':'[[`x`,0],null]'}},"
             "'2':{'class_type':'TestShow','inputs':{'any':['%s',0]}}}",
             id + sizeof id - 3000, id + sizeof id - 3000);
    CHECK(run(text, NULL, &e) != GRAFT_OK);
    CHECK(strstr(e.text, "(TestFail)") && strstr(e.text, "this never works"));
    close_executor();
}

/* The nodes of an expansion are kept as long as the node that made them, also when it is not. */
static void kept(void)
{
    const char *text = "{'1':{'class_type':'TestDescend','inputs':{'n':%d}},"
                       "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}";
    char filled[200];
    with_cache();
    for (int n = 3; n < 6; n++) {
        for (int again = 0; again < 2; again++) { /* the second is all from the cache */
            snprintf(filled, sizeof filled, text, n);
            graft_err e = GRAFT_ERR_INIT;
            CHECK_OK(run(filled, NULL, &e), &e);
        }
        CHECK_STR(events, "start cached(1,2) kept(2!) success");
    }
    snprintf(filled, sizeof filled, text, 6);
    EXPECT(filled, "{'2':{'text':['21']}}");
    /* Only what is new: 6 expands into 5, which is there, and a sum. */
    CHECK_STR(events,
              "start cached() run(1) run(1.0.0.sum) done(1.0.0.sum) done(1) run(2) done(2!) "
              "success");
    close_executor();
}

static void faults(void)
{
    without_cache();
#define ONE(class, part, results)                                                                  \
    "{'1':{'class_type':'" class "','inputs':{'part':'" part "','results':'" results "'}},"        \
                                 "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}"
    FAILS(ONE("TestExpand", "{`a`:{`class_type`:`Nothing`,`inputs`:{}}}", "[[`a`,0],null]"),
          "node 1 (TestExpand): the expansion: node 1.0.0.a (Nothing): there is no such node "
          "class; \"graft nodes\" lists those there are");
    FAILS(ONE("TestExpand", "{`a`:{`class_type`:`TestInt`,`inputs`:{`value`:1000}}}",
              "[[`a`,0],null]"),
          "node 1 (TestExpand): the expansion: node 1.0.0.a (TestInt), input value: Value 1000 "
          "bigger than max of 100");
    FAILS(ONE("TestExpand",
              "{`a`:{`class_type`:`TestAdd`,`inputs`:{`a`:[`b`,0],`b`:1}},"
              "`b`:{`class_type`:`TestAdd`,`inputs`:{`a`:[`a`,0],`b`:1}}}",
              "[[`a`,0],null]"),
          "node 1 (TestExpand): the expansion: node 1.0.0.a (TestAdd): Dependency cycle detected "
          "(1.0.0.a (TestAdd) -> 1.0.0.b (TestAdd) -> 1.0.0.a (TestAdd))");
    /* A circle through the node itself is only met when nothing else is left to do. */
    FAILS(ONE("TestExpand", "{`a`:{`class_type`:`TestAdd`,`inputs`:{`a`:[`1`,0],`b`:1}}}",
              "[[`a`,0],null]"),
          "node 1 (TestExpand): node 1.0.0.a (TestAdd): Dependency cycle detected");
    FAILS(
        ONE("TestExpand", "{`a`:{`class_type`:`TestFail`,`inputs`:{`code`:1}}}", "[[`a`,0],null]"),
        "node 1 (TestExpand): node 1.0.0.a (TestFail), input code: this never works");
    CHECK(strstr(events, "error(1 TestExpand code: this never works)") != NULL);
    FAILS(ONE("TestExpand", "{}", "[[`a`,0],null]"),
          "node 1 (TestExpand): the expansion's result 0 is output 0 of node a, which does not "
          "exist");
    FAILS(
        ONE("TestExpand", "{`a`:{`class_type`:`TestInt`,`inputs`:{`value`:1}}}", "[[`a`,1],null]"),
        "node 1 (TestExpand): the expansion's result 0 is output 1 of node a, which does not "
        "exist");
    failing(ONE("TestExpand", "{}", "[[`a`,0]]"), GRAFT_E_FORMAT,
            "node 1 (TestExpand): the expansion's results are not 2 links or nulls", __LINE__);
    failing(ONE("TestExpand", "{}", "[7,null]"), GRAFT_E_FORMAT,
            "node 1 (TestExpand): result 0 of the expansion is not a link", __LINE__);
    failing(ONE("TestExpand", "[]", "[null,null]"), GRAFT_E_FORMAT,
            "node 1 (TestExpand): the expansion is not an object of nodes", __LINE__);
    failing(ONE("TestExpand", "{", "[null,null]"), GRAFT_E_FORMAT,
            "node 1 (TestExpand): the expansion: line 1, column 2: the text ends too early",
            __LINE__);
    failing(ONE("TestUnsaid", "{}", "[null,null]"), GRAFT_E_INTERNAL,
            "node 1 (TestUnsaid): the node expands, but is not said to", __LINE__);
    failing("{'1':{'class_type':'TestExpand','inputs':{'part':'{}','results':'[null,null]',"
            "'twice':true}},'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}",
            GRAFT_E_INTERNAL, "node 1 (TestExpand): the node expands twice in one call", __LINE__);
    /* Nothing but values. */
    EXPECT(ONE("TestExpand", "{}", "[null,null]"), "{'2':{'text':['1']}}");
    /* An id that somebody has already. */
    FAILS("{'1':{'class_type':'TestExpand','inputs':{'part':'{`a`:{`class_type`:`TestInt`,"
          "`inputs`:{`value`:1}}}','results':'[[`a`,0],null]'}},"
          "'1.0.0.a':{'class_type':'TestInt','inputs':{'value':2}},"
          "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}",
          "node 1 (TestExpand): there are two nodes 1.0.0.a");
    close_executor();
}

static void looking(void)
{
    without_cache();
    EXPECT("{'1':{'class_type':'TestInt','inputs':{'value':5}},"
           "'2':{'class_type':'TestLook','inputs':{'text':'1','raw':['1',0]}},"
           "'3':{'class_type':'TestShow','inputs':{'any':['2',0]}},"
           "'4':{'class_type':'TestLook','inputs':{'text':'7','raw':['1',0]}},"
           "'5':{'class_type':'TestShow','inputs':{'any':['4',0]}}}",
           "{'3':{'text':['TestInt^,^inputs^:{^value^:5}} [^1^,0]']},"
           "'5':{'text':['none [^1^,0]']}}");
    close_executor();
    /* A node that is told where a link comes from may tell it on. */
    with_cache();
    EXPECT("{'1':{'class_type':'TestInt','inputs':{'value':5}},"
           "'2':{'class_type':'TestLook','inputs':{'text':'x','raw':['1',0]}},"
           "'3':{'class_type':'TestShow','inputs':{'any':['2',0]}}}",
           "{'3':{'text':['none [^1^,0]']}}");
    EXPECT("{'4':{'class_type':'TestInt','inputs':{'value':5}},"
           "'2':{'class_type':'TestLook','inputs':{'text':'x','raw':['4',0]}},"
           "'3':{'class_type':'TestShow','inputs':{'any':['2',0]}}}",
           "{'3':{'text':['none [^4^,0]']}}");
    CHECK(strncmp(events, "start cached(4) run(2)", 22) == 0);
    close_executor();
}

/* ---- asynchronous nodes */

static void at_once(void)
{
    without_cache();
    EXPECT("{'1':{'class_type':'TestWait','inputs':{'steps':50}},"
           "'2':{'class_type':'TestWait','inputs':{'steps':50}},"
           "'3':{'class_type':'TestInt','inputs':{'value':1}},"
           "'4':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':['2',0]}},"
           "'5':{'class_type':'TestShow','inputs':{'any':['4',0]}},"
           "'6':{'class_type':'TestShow','inputs':{'any':['3',0]}}}",
           "{'6':{'text':['1']},'5':{'text':['100']}}");
    CHECK(strncmp(events, "start cached() run(1) run(2) run(3) done(3) run(6) done(6!) done(",
                  61) == 0);
    close_executor();
}

/* More of them than there are threads, in an expansion or not, with results that are shared. */
static void many(void)
{
    char text[20000] = "{'x':{'class_type':'TestThing','inputs':{'n':2}}";
    with_cache();
    for (int i = 0; i < 100; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n,
                 ",'%d':{'class_type':'TestWait','inputs':{'steps':%d}},'s%d':{'class_type':"
                 "'TestShow','inputs':{'any':['%d',0]}}",
                 i, 1 + i % 7, i, i);
    }
    strcat(text, "}");
    graft_err e = GRAFT_ERR_INIT;
    cJSON *out = NULL;
    CHECK_OK(run(text, &out, &e), &e);
    CHECK_INT(cJSON_GetArraySize(out), 100);
    cJSON_Delete(out);
    close_executor();
}

static void one_fails(void)
{
    graft_err e = GRAFT_ERR_INIT;
    without_cache();
    CHECK_INT(run("{'1':{'class_type':'TestWait','inputs':{'steps':50000}},"
                  "'2':{'class_type':'TestWait','inputs':{'steps':2}},"
                  "'3':{'class_type':'TestAdd','inputs':{'a':['2',0],'b':1}},"
                  "'4':{'class_type':'TestFail','inputs':{'code':['3',0]}},"
                  "'5':{'class_type':'TestShow','inputs':{'any':['1',0]}},"
                  "'6':{'class_type':'TestShow','inputs':{'any':['4',0]}}}",
                  NULL, &e),
              GRAFT_E_ARG);
    CHECK_STR(e.text, "node 4 (TestFail), input code: this never works");
    CHECK(strstr(events, "done(1)") == NULL);
    close_executor();
}

static void interrupted(void)
{
    without_cache();
    cancelled_run("{'1':{'class_type':'TestWait','inputs':{'steps':50000}},"
                  "'2':{'class_type':'TestWait','inputs':{'steps':50001}},"
                  "'3':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':['2',0]}},"
                  "'4':{'class_type':'TestShow','inputs':{'any':['3',0]}}}");
    atomic_store(&cancel, 0);
    close_executor();
}

/* ---- calls of one over a list */

#define EACH(n, plus, more)                                                                        \
    "{'1':{'class_type':'TestRange','inputs':{'n':" #n "}},"                                       \
    "'2':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':" #plus "}},"                           \
    "'3':{'class_type':'TestEach','inputs':{'n':['2',0]" more "}},"                                \
    "'4':{'class_type':'TestShow','inputs':{'any':['3',0]}}}"

/* They run at once and end in another order than they began in; what they gave and showed stands
 * in the order of the list, and what one expands into in its place. */
static void calls_at_once(void)
{
    for (int keep = 0; keep < 2; keep++) {
        if (keep)
            with_cache();
        else
            without_cache();
        for (int again = 0; again <= keep; again++)
            EXPECT(EACH(6, 0, ""),
                   "{'3':{'text':['1','2','3','4','5','6']},'4':{'text':['number 1','number 2',"
                   "'number 3','number 4','five','number 6']}}");
        if (!keep) CHECK_INT(count_of(4), 6);
        close_executor();
    }
    without_cache();
    EXPECT(EACH(1, 1, ""), "{'3':{'text':['2']},'4':{'text':['number 2']}}");
    EXPECT(EACH(0, 1, ""), "{}");
    close_executor();
    CHECK_INT(count_of(3), 0);
}

/* More than there are threads. */
static void many_calls(void)
{
    graft_err e = GRAFT_ERR_INIT;
    cJSON *out = NULL;
    with_cache();
    CHECK_OK(run(EACH(100, 100, ",'ms':410"), &out, &e), &e);
    const cJSON *texts = graft_tree_get(graft_tree_get(out, "4"), "text");
    CHECK_INT(cJSON_GetArraySize(texts), 100);
    int k = 101;
    const cJSON *item;
    cJSON_ArrayForEach(item, texts)
    {
        char want[32];
        snprintf(want, sizeof want, "number %d", k++);
        CHECK_STR(item->valuestring, want);
    }
    CHECK(count_of(4) > 6 && count_of(4) <= 1 + GRAFT_DISPATCH_HELPERS);
    cJSON_Delete(out);
    close_executor();
}

/* The one that fails is told of, and not those that end because of it. */
static void one_call_fails(void)
{
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 10; i++) {
        without_cache();
        CHECK_INT(run(EACH(5, 4, ""), NULL, &e), GRAFT_E_ARG);
        CHECK_STR(e.text, "node 3 (TestEach), input n: no sevens");
        close_executor();
    }
    /* Values that do not fit are met beside calls that run. */
    without_cache();
    CHECK_INT(run(EACH(5, 997, ",'ms':0"), NULL, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "node 3 (TestEach), input n: the linked value 100") == e.text);
    close_executor();
    CHECK_INT(count_of(3), 0);
}

static void calls_interrupted(void)
{
    without_cache();
    cancelled_run(EACH(40, 7, ""));
    atomic_store(&cancel, 0);
    close_executor();
    CHECK_INT(count_of(3), 0);
}

int main(void)
{
    fixture_open();
    RUN(in_place);
    RUN(of_lists);
    RUN(deep);
    RUN(long_ids);
    RUN(kept);
    RUN(faults);
    RUN(looking);
    RUN(at_once);
    RUN(many);
    RUN(one_fails);
    RUN(interrupted);
    RUN(calls_at_once);
    RUN(many_calls);
    RUN(one_call_fails);
    RUN(calls_interrupted);
    fixture_close();
    return test_end();
}
