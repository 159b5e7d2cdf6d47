#include <sys/stat.h>

#include "tests/host/listener.h"

static void order(void)
{
    without_cache();
    EXPECT("{'1':{'class_type':'TestInt','inputs':{'value':3}},"
           "'2':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':['1',0]}},"
           "'3':{'class_type':'TestAdd','inputs':{'a':['2',0],'b':['2',0]}},"
           "'4':{'class_type':'TestShow','inputs':{'any':['3',0]}},"
           "'5':{'class_type':'TestShow','inputs':{'any':['1',0]}},"
           "'6':{'class_type':'TestInt','inputs':{'value':8}}}",
           "{'4':{'text':['12']},'5':{'text':['3']}}");
    /* The near output is shown before the far one is computed; what nobody needs does not run. */
    CHECK_STR(events, "start cached() run(1) done(1) run(5) done(5!) run(2) done(2) run(3) done(3) "
                      "run(4) done(4!) success");
    close_executor();
}

static void early_release(void)
{
    without_cache();
    /* TestMeasure also gives how many things live: the first is gone when the second is measured.
     */
    EXPECT("{'1':{'class_type':'TestThing','inputs':{'n':7}},"
           "'2':{'class_type':'TestMeasure','inputs':{'thing':['1',0]}},"
           "'3':{'class_type':'TestThing','inputs':{'n':['2',0]}},"
           "'4':{'class_type':'TestMeasure','inputs':{'thing':['3',0]}},"
           "'5':{'class_type':'TestShow','inputs':{'any':['4',1]}}}",
           "{'5':{'text':['1']}}");
    close_executor();
}

static void lists(void)
{
    without_cache();
    EXPECT("{'1':{'class_type':'TestRange','inputs':{'n':3}},"
           "'2':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':10}},"
           "'3':{'class_type':'TestShow','inputs':{'any':['2',0]}},"
           "'4':{'class_type':'TestSum','inputs':{'values':['2',0]}},"
           "'5':{'class_type':'TestShow','inputs':{'any':['4',0]}},"
           "'6':{'class_type':'TestRange','inputs':{'n':2}},"
           "'7':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':['6',0]}},"
           "'8':{'class_type':'TestShow','inputs':{'any':['7',0]}},"
           "'9':{'class_type':'TestRange','inputs':{'n':0}},"
           "'10':{'class_type':'TestAdd','inputs':{'a':['9',0],'b':['6',0]}},"
           "'11':{'class_type':'TestSum','inputs':{'values':['10',0]}},"
           "'12':{'class_type':'TestShow','inputs':{'any':['11',0]}},"
           "'13':{'class_type':'TestSum','inputs':{'values':4}},"
           "'14':{'class_type':'TestShow','inputs':{'any':['13',0]}}}",
           "{'3':{'text':['11','12','13']},'5':{'text':['36']},'8':{'text':['2','4','5']},"
           "'12':{'text':['0']},'14':{'text':['4']}}");
    close_executor();
}

static void lazy(void)
{
    const char *text = "{'1':{'class_type':'TestThing','inputs':{'n':1}},"
                       "'2':{'class_type':'TestMeasure','inputs':{'thing':['1',0]}},"
                       "'3':{'class_type':'TestFail','inputs':{'code':1}},"
                       "'4':{'class_type':'TestSwitch','inputs':{'on':%s,'on_true':['2',0],"
                       "'on_false':['3',0]}},"
                       "'5':{'class_type':'TestShow','inputs':{'any':['4',0]}}}";
    char filled[1000];
    graft_err e = GRAFT_ERR_INIT;
    without_cache();
    snprintf(filled, sizeof filled, text, "true");
    EXPECT(filled, "{'5':{'text':['1']}}");
    CHECK_STR(events, "start cached() asked(4) run(1) done(1) run(2) done(2) run(4) done(4) run(5) "
                      "done(5!) success");
    snprintf(filled, sizeof filled, text, "false");
    CHECK_INT(run(filled, NULL, &e), GRAFT_E_ARG);
    CHECK_STR(e.text, "node 3 (TestFail), input code: this never works");
    CHECK_STR(events, "start cached() asked(4) run(3) error(3 TestFail code: this never works)");
    close_executor();
}

static void failures(void)
{
    graft_err e = GRAFT_ERR_INIT;
    cJSON *out = NULL;
    with_cache();
    const char *text = "{'1':{'class_type':'TestThing','inputs':{'n':1}},"
                       "'2':{'class_type':'TestMeasure','inputs':{'thing':['1',0]}},"
                       "'3':{'class_type':'TestAdd','inputs':{'a':['2',0],'b':['4',0]}},"
                       "'4':{'class_type':'TestFail','inputs':{'code':0}},"
                       "'5':{'class_type':'TestShow','inputs':{'any':['3',0]}},"
                       "'6':{'class_type':'TestShow','inputs':{'any':8}}}";
    CHECK_INT(run(text, &out, &e), GRAFT_E_INTERNAL);
    CHECK_STR(e.text, "node 4 (TestFail): internal error");
    CHECK_JSON(out, "{'6':{'text':['8']}}"); /* what was shown before the failure stays */
    cJSON_Delete(out);
    CHECK_INT(run("{'1':{'class_type':'TestRange','inputs':{'n':5}},"
                  "'2':{'class_type':'TestSum','inputs':{'values':['1',0]}},"
                  "'3':{'class_type':'TestAdd','inputs':{'a':['2',0],'b':1000000}},"
                  "'4':{'class_type':'TestSleep','inputs':{'steps':['3',0]}},"
                  "'5':{'class_type':'TestShow','inputs':{'any':['4',0]}}}",
                  NULL, &e),
              GRAFT_E_ARG);
    CHECK_STR(e.text,
              "node 4 (TestSleep), input steps: the linked value 1000015 is outside 1 to 100000");
    CHECK_INT(run("{'1':{'class_type':'TestText','inputs':{'text':'x'}},"
                  "'2':{'class_type':'TestSwitch','inputs':{'on':true,'on_true':['1',0],"
                  "'on_false':1}},"
                  "'3':{'class_type':'TestMeasure','inputs':{'thing':['2',0]}},"
                  "'4':{'class_type':'TestShow','inputs':{'any':['3',0]}}}",
                  NULL, &e),
              GRAFT_E_ARG);
    CHECK_STR(e.text,
              "node 3 (TestMeasure), input thing: the linked value is a plain value, not THING");
    close_executor();
}

static void caching(void)
{
    const char *first = "{'1':{'class_type':'TestThing','inputs':{'n':5}},"
                        "'2':{'class_type':'TestMeasure','inputs':{'thing':['1',0]}},"
                        "'3':{'class_type':'TestAdd','inputs':{'a':['2',0],'b':1}},"
                        "'4':{'class_type':'TestShow','inputs':{'any':['3',0]}}}";
    with_cache();
    EXPECT(first, "{'4':{'text':['6']}}");
    EXPECT(first, "{'4':{'text':['6']}}");
    CHECK_STR(events, "start cached(1,2,3,4) kept(4!) success");
    /* Other ids, one other literal: all above it is kept. */
    EXPECT("{'a':{'class_type':'TestThing','inputs':{'n':5}},"
           "'b':{'class_type':'TestMeasure','inputs':{'thing':['a',0]}},"
           "'c':{'class_type':'TestAdd','inputs':{'a':['b',0],'b':2}},"
           "'d':{'class_type':'TestShow','inputs':{'any':['c',0]}}}",
           "{'d':{'text':['7']}}");
    CHECK_STR(events, "start cached(a,b) run(c) done(c) run(d) done(d!) success");
    /* Only the last prompt's results are kept. */
    EXPECT(first, "{'4':{'text':['6']}}");
    CHECK_STR(events, "start cached(1,2) run(3) done(3) run(4) done(4!) success");
    EXPECT("{'9':{'class_type':'TestShow','inputs':{'any':1}}}", "{'9':{'text':['1']}}");
    CHECK_INT(count_of(0), 0);
    close_executor();
}

/* Inputs of any number come as one, and what is in them counts; links and null are none. */
static void many_inputs(void)
{
    static const char prompt[] = "{'1':{'class_type':'Power Lora Loader (rgthree)','inputs':{%s}},"
                                 "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}";
    static const struct {
        const char *inputs, *shown, *events;
    } list[] = {
        {"'lora_1':{'on':true,'s':[1]},'x':1,'lora_b':5,'lora_':2,'lora_3':null,'lora_4':['1',0]",
         "{'2':{'text':['{^lora_1^:{^on^:true,^s^:[1]},^lora_b^:5}']}}",
         "start cached() run(1) done(1) run(2) done(2!) success"},
        {"'lora_1':{'on':true,'s':[1]},'lora_b':5",
         "{'2':{'text':['{^lora_1^:{^on^:true,^s^:[1]},^lora_b^:5}']}}",
         "start cached(1,2) kept(2!) success"},
        {"'lora_1':{'on':true,'s':[1]},'lora_b':6",
         "{'2':{'text':['{^lora_1^:{^on^:true,^s^:[1]},^lora_b^:6}']}}",
         "start cached() run(1) done(1) run(2) done(2!) success"},
        {"'other':1", "{'2':{'text':['none']}}",
         "start cached() run(1) done(1) run(2) done(2!) success"}};
    char text[400];
    with_cache();
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        snprintf(text, sizeof text, prompt, list[i].inputs);
        EXPECT(text, list[i].shown);
        CHECK_STR(events, list[i].events);
    }
    close_executor();
}

/* What a choice does not ask for is as if it were not there: neither its values, right or wrong,
 * nor its links count. */
static void varied_inputs(void)
{
    static const char prompt[] = "{'1':{'class_type':'TestVaried','inputs':{%s,'method':'b'}},"
                                 "'3':{'class_type':'TestFail','inputs':{'code':1}},"
                                 "'4':{'class_type':'TestInt','inputs':{'value':7}},"
                                 "'5':{'class_type':'TestSwitch','inputs':{'on':true,"
                                 "'on_true':['6',0],'on_false':['6',0]}},"
                                 "'6':{'class_type':'TestText','inputs':{'text':'to size'}},"
                                 "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}";
    static const struct {
        const char *inputs, *shown;
    } list[] = {
        {"'how':'to size','how.width':640,'how.height':['4',0],'how.crop':'disabled'",
         "to size 640 7 1 disabled 0 b"},
        {"'how':'by factor','how.factor':2.5,'how.width':-8,'how.height':['3',0],'how.crop':'no'",
         "by factor 512 256 2.5 center 0 b"},
        {"'how':'like other','how.crop':'center','how.other':['4',0],'how.factor':'x'",
         "like other 512 256 1 center 1 b"},
        /* Nobody knows what a link will give: what is there counts. */
        {"'how':['5',0],'how.width':3", "to size 3 256 1 center 0 b"}};
    char text[700], shown[100];
    without_cache();
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        snprintf(text, sizeof text, prompt, list[i].inputs);
        snprintf(shown, sizeof shown, "{'2':{'text':['%s']}}", list[i].shown);
        EXPECT(text, shown);
    }
    close_executor();
}

/* Some of what earlier prompts left is kept, what was used last first. */
static void recent(void)
{
    char text[3][300];
    for (int i = 0; i < 3; i++)
        snprintf(text[i], sizeof text[i],
                 "{'1':{'class_type':'TestThing','inputs':{'n':%d}},"
                 "'2':{'class_type':'TestMeasure','inputs':{'thing':['1',0]}},"
                 "'3':{'class_type':'TestShow','inputs':{'any':['2',0]}}}",
                 i + 1);
    with_cache();
    graft_executor_keep_recent(executor, 3);
    EXPECT(text[0], "{'3':{'text':['1']}}");
    EXPECT(text[1], "{'3':{'text':['2']}}");
    CHECK_INT(count_of(0), 2);
    EXPECT(text[0], "{'3':{'text':['1']}}");
    CHECK_STR(events, "start cached(1,2,3) kept(3!) success");
    EXPECT(text[2], "{'3':{'text':['3']}}");
    CHECK_INT(count_of(0), 2); /* three results of the first prompt, none of the second */
    EXPECT(text[0], "{'3':{'text':['1']}}");
    CHECK_STR(events, "start cached(1,2,3) kept(3!) success");
    EXPECT(text[1], "{'3':{'text':['2']}}");
    CHECK_STR(events, "start cached() run(1) done(1) run(2) done(2) run(3) done(3!) success");
    /* Room for two: the last of a prompt are the last that were used. */
    graft_executor_keep_recent(executor, 2);
    EXPECT(text[2], "{'3':{'text':['3']}}");
    CHECK_INT(count_of(0), 1);
    EXPECT(text[1], "{'3':{'text':['2']}}");
    CHECK_STR(events, "start cached(2,3) kept(3!) success");
    graft_executor_clear(executor);
    CHECK_INT(count_of(0), 0);
    EXPECT(text[1], "{'3':{'text':['2']}}");
    CHECK(strstr(events, "cached()"));
    close_executor();
}

/* What a result was warned of is told once a run, and again while it comes from the cache. */
static void warnings(void)
{
    const char *text = "{'1':{'class_type':'TestWarn','inputs':{'n':3}},"
                       "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}";
    with_cache();
    EXPECT(text, "{'2':{'text':['3']}}");
    CHECK_STR(events, "start cached() run(1) warn(1: less than wanted) warn(1: 3 is odd) done(1) "
                      "run(2) done(2!) success");
    EXPECT(text, "{'2':{'text':['3']}}");
    CHECK_STR(events, "start cached(1,2) warn(1: less than wanted) warn(1: 3 is odd) kept(2!) "
                      "success");
    close_executor();
    /* Over a list, in turn and beside each other: each text once for the node. */
    static const char *const kinds[] = {"TestWarn", "TestCaution"};
    for (int i = 0; i < 2; i++) {
        char list[400];
        snprintf(list, sizeof list,
                 "{'1':{'class_type':'TestRange','inputs':{'n':4}},"
                 "'2':{'class_type':'%s','inputs':{'n':['1',0]}},"
                 "'3':{'class_type':'TestSum','inputs':{'values':['2',0]}},"
                 "'4':{'class_type':'TestShow','inputs':{'any':['3',0]}}}",
                 kinds[i]);
        with_cache();
        EXPECT(list, "{'4':{'text':['10']}}");
        EXPECT(list, "{'4':{'text':['10']}}");
        CHECK_STR(events, "start cached(1,2,3,4) warn(2: less than wanted) warn(2: 1 is odd) "
                          "warn(2: 3 is odd) kept(4!) success");
        close_executor();
    }
}

static void never_cached(void)
{
    const char *text = "{'1':{'class_type':'TestCount','inputs':{}},"
                       "'2':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':0}},"
                       "'3':{'class_type':'TestShow','inputs':{'any':['2',0]}},"
                       "'4':{'class_type':'TestInt','inputs':{'value':1}},"
                       "'5':{'class_type':'TestShow','inputs':{'any':['4',0]}}}";
    with_cache();
    EXPECT(text, "{'3':{'text':['1']},'5':{'text':['1']}}");
    EXPECT(text, "{'3':{'text':['2']},'5':{'text':['1']}}");
    CHECK(strstr(events, "cached(4,5)") != NULL);
    close_executor();
}

static void fingerprints(void)
{
    const char *text = "{'1':{'class_type':'TestFile','inputs':{'file':'f.txt'}},"
                       "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}";
    CHECK(mkdir("input", 0777) == 0);
    check_text("input/f.txt", "one");
    with_cache();
    EXPECT(text, "{'2':{'text':['one']}}");
    EXPECT(text, "{'2':{'text':['one']}}");
    CHECK_STR(events, "start cached(1,2) kept(2!) success");
    check_text("input/f.txt", "two");
    EXPECT(text, "{'2':{'text':['two']}}");
    close_executor();
}

static void cancelling(void)
{
    graft_err e = GRAFT_ERR_INIT;
    with_cache();
    cancelled_run("{'1':{'class_type':'TestSleep','inputs':{'steps':50000}},"
                  "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}");
    CHECK_INT(run("{'2':{'class_type':'TestShow','inputs':{'any':1}}}", NULL, &e), GRAFT_E_CANCEL);
    CHECK(strstr(events, "run(") == NULL);
    atomic_store(&cancel, 0);
    close_executor();
}

static void seeds(void)
{
    without_cache();
    EXPECT("{'1':{'class_type':'TestSeed','inputs':{'seed':18446744073709551615,'mode':'b'}},"
           "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}},"
           "'3':{'class_type':'TestSeed','inputs':{'seed':9007199254740993,'mode':'a'}},"
           "'4':{'class_type':'TestShow','inputs':{'any':['3',0]}},"
           "'5':{'class_type':'TestSave','inputs':{'text':'t','filename_prefix':'s/p'}}}",
           "{'2':{'text':['18446744073709551615 b']},'4':{'text':['9007199254740993 a']},"
           "'5':{'images':[{'filename':'p_00001_.txt','subfolder':'s','type':'output'}]}}");
    char text[2000] = "";
    FILE *f = fopen("output/s/p_00001_.txt", "r");
    CHECK(f && fread(text, 1, sizeof text - 1, f) > 0);
    if (f) fclose(f);
    CHECK(strstr(text, ":18446744073709551615,") && strstr(text, ":9007199254740993,"));
    CHECK(strstr(text, "{\"workflow\":{\"a\":1}}") != NULL);
    close_executor();
}

int main(void)
{
    fixture_open();
    RUN(order);
    RUN(early_release);
    RUN(lists);
    RUN(lazy);
    RUN(failures);
    RUN(caching);
    RUN(many_inputs);
    RUN(varied_inputs);
    RUN(recent);
    RUN(warnings);
    RUN(never_cached);
    RUN(fingerprints);
    RUN(cancelling);
    RUN(seeds);
    fixture_close();
    return test_end();
}
