/* Every allocation of reading, checking and running a workflow fails once: the caller gets an
 * error, nothing leaks, and the next attempt works. */
#include "host/run/executor.h"
#include "host/schema/object_info.h"
#include "tests/host/fixture.h"

static const char api[] =
    "{'1':{'class_type':'TestRange','inputs':{'n':3}},"
    "'2':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':'10'}},"
    "'3':{'class_type':'TestShow','inputs':{'any':['2',0]}},"
    "'4':{'class_type':'TestSum','inputs':{'values':['2',0]}},"
    "'5':{'class_type':'TestSeed','inputs':{'seed':18446744073709551615,'mode':'b'}},"
    "'6':{'class_type':'TestShow','inputs':{'any':['5',0]}},"
    "'7':{'class_type':'TestSwitch','inputs':{'on':true,'on_true':['4',0],'on_false':['5',0]}},"
    "'8':{'class_type':'TestShow','inputs':{'any':['7',0]}},"
    "'10':{'class_type':'TestChecks','inputs':{'value':500,'mode':'x','either':2.0,'text':''}},"
    "'11':{'class_type':'TestShow','inputs':{'any':['10',0]}},"
    "'9':{'class_type':'TestSave','inputs':{'text':['5',0],'filename_prefix':'a/b'}}}";
static const char expanding[] =
    "{'1':{'class_type':'TestRange','inputs':{'n':3}},"
    "'2':{'class_type':'TestDescend','inputs':{'n':['1',0]}},"
    "'3':{'class_type':'TestLater','inputs':{'a':['2',0],'b':1}},"
    "'4':{'class_type':'TestShow','inputs':{'any':['3',0]}},"
    "'5':{'class_type':'TestExpand','inputs':{'part':'{`o`:{`class_type`:`TestShow`,`inputs`:"
    "{`any`:[`t`,0]}},`t`:{`class_type`:`TestLook`,`inputs`:{`text`:`1`,`raw`:[`2`,0]}}}',"
    "'results':'[[`t`,0],null]'}},"
    "'6':{'class_type':'TestShow','inputs':{'any':['5',0]}}}";
static const char beside[] = "{'1':{'class_type':'TestRange','inputs':{'n':6}},"
                             "'2':{'class_type':'TestEach','inputs':{'n':['1',0],'ms':0}},"
                             "'3':{'class_type':'TestShow','inputs':{'any':['2',0]}},"
                             "'4':{'class_type':'TestMeasure','inputs':{'thing':['2',1]}},"
                             "'5':{'class_type':'TestShow','inputs':{'any':['4',0]}}}";
static const char faulty[] =
    "{'1':{'class_type':'TestInt','inputs':{'value':'abc'}},"
    "'2':{'class_type':'TestSeed','inputs':{'seed':-1,'mode':'q','strength':4}},"
    "'3':{'class_type':'TestMeasure','inputs':{'thing':['1',0]}},"
    "'4':{'class_type':'TestAdd','inputs':{'a':['4',0],'b':['77',0]}},"
    "'5':{'class_type':'TestShow','inputs':{'any':['1',0]}},"
    "'6':{'class_type':'TestShow','inputs':{'any':['2',0]}},"
    "'7':{'class_type':'TestShow','inputs':{'any':['3',0]}},"
    "'8':{'class_type':'TestShow','inputs':{'any':['4',0]}},"
    "'10':{'class_type':'TestChecks','inputs':{'value':13,'mode':'x','either':2.0,'text':''}},"
    "'11':{'class_type':'TestShow','inputs':{'any':['10',0]}},"
    "'9':{'class_type':'TestShow','inputs':{'any':['9']}}}";
static const char graph[] =
    "{'version':0.4,'nodes':["
    "{'id':1,'type':'TestSeed','widgets_values':[18446744073709551615,'randomize','b',0.5]},"
    "{'id':2,'type':'Reroute','inputs':[{'name':'','link':1}]},"
    "{'id':3,'type':'inner','inputs':[{'name':'x','link':2}]},"
    "{'id':5,'type':'TestSave','widgets_values':['x','%TestSeed.mode%%date:yy%']},"
    "{'id':4,'type':'TestShow','inputs':[{'name':'any','link':3}]}],"
    "'links':[[1,1,0,2,0,'STRING'],[2,2,0,3,0,'*'],[3,3,0,4,0,'STRING']],"
    "'definitions':{'subgraphs':[{'id':'inner','inputs':[{'name':'x'}],'outputs':[{'name':'y'}],"
    "'nodes':[{'id':1,'type':'TestText','inputs':[{'name':'text','link':1}],"
    "'widgets_values':['z']}],'links':["
    "{'id':1,'origin_id':-10,'origin_slot':0,'target_id':1,'target_slot':0},"
    "{'id':2,'origin_id':1,'origin_slot':0,'target_id':-20,'target_slot':0}]}]}}";

static int64_t things(void)
{
    const graft_registry_node *n = graft_registry_find(fixture.registry, "TestInt");
    const _Atomic int64_t *c = n->plugin->query("test.counts/1");
    return c[0] + c[1];
}

static const char mistyped[] =
    "{'1':{'class_type':'TestFile','inputs':{'file':'bleu.txt'}},"
    "'2':{'class_type':'TestSeed','inputs':{'seed':1,'mode':'its','strength':1}},"
    "'3':{'class_type':'TestSave','inputs':{'txet':'x','filename_prefix':'y'}},"
    "'4':{'class_type':'TestFile','inputs':{'file':7}},"
    "'5':{'class_type':'TestShow','inputs':{'any':['1',0]}},"
    "'6':{'class_type':'TestShow','inputs':{'any':['2',0]}},"
    "'7':{'class_type':'TestShow','inputs':{'any':['4',0]}}}";

static char *quoted(const char *text)
{
    char *copy = strdup(text);
    for (char *p = copy; *p; p++)
        if (*p == '\'') *p = '"';
    return copy;
}

/* One attempt; 1 when it ran to its end without any error. */
static graft_status attempt(const char *text, bool keep, bool expect_faults)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_workflow w;
    graft_validation v = {0};
    graft_executor *x = NULL;
    graft_run_result result = {0};
    graft_status st = graft_workflow_parse(text, strlen(text), "test", fixture.registry, &w, &e);
    if (st) return st;
    cJSON *json = w.prompt;
    w.prompt = NULL;
    GRAFT_TRY(graft_validate(fixture.registry, &fixture.services.host, json, NULL, 0, &v, &e));
    CHECK((v.error != NULL) == expect_faults);
    if (v.error) {
        graft_str s = GRAFT_STR_INIT;
        graft_validation_text(&v, "test", NULL, &s);
        if (s.failed) st = GRAFT_E_NOMEM;
        graft_str_finish(&s);
        goto out;
    }
    GRAFT_TRY(graft_executor_create(&fixture.services.host, keep, &x, &e));
    graft_run_request request = {v.prompt, w.extra_pnginfo, NULL, NULL, false};
    for (int i = 0; i < 2 && !st; i++) {
        graft_run_result_finish(&result);
        st = graft_executor_run(x, &request, &result, &e);
    }
out:
    graft_run_result_finish(&result);
    graft_executor_destroy(x);
    graft_validation_finish(&v);
    graft_workflow_finish(&w);
    return st;
}

static void fail_everywhere(const char *quotes, bool keep, bool expect_faults)
{
    char *text = quoted(quotes);
    graft_alloc_stats before, after;
    int failed = 0;
    CHECK_INT(attempt(text, keep, expect_faults), GRAFT_OK);
    graft_alloc_stats_get(&before);
    for (int64_t n = 1;; n++) {
        graft_alloc_stats start, end;
        graft_alloc_stats_get(&start);
        graft_alloc_fail_at(n);
        graft_status st = attempt(text, keep, expect_faults);
        graft_alloc_fail_at(0);
        graft_alloc_stats_get(&end);
        failed += st != GRAFT_OK;
        graft_alloc_stats_get(&after);
        if (after.live_blocks != before.live_blocks || things()) {
            fprintf(stderr, "allocation %lld: leak of %lld blocks\n", (long long)n,
                    (long long)(after.live_blocks - before.live_blocks));
            CHECK(0);
            break;
        }
        if (st == GRAFT_OK && end.total_blocks - start.total_blocks < n) break;
    }
    CHECK(failed > 100);
    CHECK_INT(attempt(text, keep, expect_faults), GRAFT_OK);
    free(text);
}

static void running(void)
{
    fail_everywhere(api, false, false);
}

/* What is made of an editor's graph before it is a prompt: group nodes, links that nobody drew,
 * switches. */
static const char elsewhere[] =
    "{'nodes':[{'id':1,'type':'workflow>two','inputs':[{'name':'b','type':'INT','link':9,'widget':"
    "{'name':'b'}}],'outputs':[{'name':'INT','type':'INT'}],'widgets_values':[1,3]},"
    "{'id':9,'type':'TestInt','outputs':[{'type':'INT'}],'widgets_values':[4]},"
    "{'id':2,'type':'Any Switch (rgthree)','inputs':[{'type':'INT','link':1}]},"
    "{'id':3,'type':'TestShow','inputs':[{'name':'any','type':'*','link':2}]},"
    "{'id':4,'type':'TestThing','outputs':[{'name':'THING','type':'THING'}],'widgets_values':[2]},"
    "{'id':5,'type':'Anything Everywhere?','inputs':[{'name':'a','type':'*','link':3}],"
    "'widgets_values':['^T(est|x{1,2})','[a-z]+$','.*']},"
    "{'id':6,'type':'TestMeasure','inputs':[{'name':'thing','type':'THING','link':null}],'outputs':"
    "[{'type':'INT'}]},{'id':7,'type':'TestShow','inputs':[{'name':'any','type':'*','link':4}]}],"
    "'links':[[1,1,0,2,0,'INT'],[2,2,0,3,0,'INT'],[3,4,0,5,0,'THING'],[4,6,0,7,0,'INT'],"
    "[9,9,0,1,0,'INT']],"
    "'extra':{'groupNodes':{'two':{'nodes':[{'type':'TestAdd','index':0,'inputs':[{'name':'b',"
    "'type':'INT','widget':{'name':'b'}}],'outputs':[{'name':'INT','type':'INT'}],"
    "'widgets_values':[1,2]},{'type':'TestAdd','index':1,'inputs':[{'name':'a','type':'INT',"
    "'widget':{'name':'a'}}],'outputs':[{'name':'INT','type':'INT'}],'widgets_values':[3,4]}],"
    "'links':[[0,0,1,0,7,'INT']]}}}}";

static void from_elsewhere(void)
{
    fail_everywhere(elsewhere, false, false);
}
static void running_with_cache(void)
{
    fail_everywhere(api, true, false);
}
static void expanding_nodes(void)
{
    fail_everywhere(expanding, false, false);
    fail_everywhere(expanding, true, false);
}
static void calls_beside(void)
{
    fail_everywhere(beside, false, false);
    fail_everywhere(beside, true, false);
}
static void reporting(void)
{
    fail_everywhere(faulty, false, true);
}
static void suggesting(void)
{
    fail_everywhere(mistyped, false, true);
    fail_everywhere("{'1':{'class_type':'TestShwo','inputs':{}},"
                    "'2':{'class_type':'Tested','inputs':{}},'3':{'class_type':'Test','inputs':{}},"
                    "'4':{'class_type':'TestSave title','inputs':{}}}",
                    false, true);
}
static void converting(void)
{
    fail_everywhere(graph, false, false);
}

static void describing(void)
{
    graft_alloc_stats before, after;
    cJSON *info = NULL;
    CHECK(graft_object_info_all(&fixture.services.host, fixture.registry, &info, NULL) == 0);
    cJSON_Delete(info);
    graft_alloc_stats_get(&before);
    int failed = 0;
    for (int64_t n = 1; n < 100000; n++) {
        graft_alloc_fail_at(n);
        graft_status st =
            graft_object_info_all(&fixture.services.host, fixture.registry, &info, NULL);
        graft_alloc_fail_at(0);
        CHECK((st == GRAFT_OK) == (info != NULL));
        cJSON_Delete(info);
        graft_alloc_stats_get(&after);
        CHECK_INT(after.live_blocks, before.live_blocks);
        failed += st != GRAFT_OK;
        if (st == GRAFT_OK) break;
    }
    CHECK(failed > 2);
}

int main(void)
{
    /* The trees fail as well. */
    cJSON_Hooks hooks = {graft_malloc, graft_free};
    cJSON_InitHooks(&hooks);
    fixture_open();
    CHECK(system("mkdir input && touch input/blue.txt") == 0);
    RUN(running);
    RUN(from_elsewhere);
    RUN(running_with_cache);
    RUN(expanding_nodes);
    RUN(calls_beside);
    RUN(reporting);
    RUN(suggesting);
    RUN(converting);
    RUN(describing);
    fixture_close();
    return test_end();
}
