/* Graphs with nodes of extensions of ComfyUI's editor. */
#include "base/file.h"
#include "base/str.h"
#include "tests/host/convert.h"

/* What extensions of ComfyUI's editor add to it: links by name, also from around a sub-graph, where
 * the first of a name counts; reroutes; and what has to do with the screen alone. */
static void nodes_of_extensions(void)
{
    EXPECT("{'nodes':["
           "{'id':1,'type':'TestInt','widgets_values':[4]},"
           "{'id':2,'type':'SetNode','inputs':[{'name':'INT','type':'INT','link':1}],"
           "'widgets_values':['n']},"
           "{'id':3,'type':'Reroute (rgthree)','inputs':[{'name':'','type':'*','link':2}]},"
           "{'id':4,'type':'TestShow','inputs':[{'name':'any','type':'*','link':3}]},"
           "{'id':5,'type':'GetNode','widgets_values':['n']},"
           "{'id':6,'type':'GetNode','widgets_values':['other']},"
           "{'id':7,'type':'TestShow','inputs':[{'name':'any','type':'*','link':4}]},"
           "{'id':8,'type':'Fast Groups Bypasser (rgthree)'},{'id':9,'type':'Label (rgthree)'},"
           "{'id':10,'type':'s'},"
           "{'id':11,'type':'easy setNode','inputs':[{'link':6}],'widgets_values':['n']},"
           "{'id':12,'type':'easy setNode','inputs':[{'link':5}],'widgets_values':['other'],"
           "'mode':2}],"
           "'links':[[1,1,0,2,0,'INT'],[2,5,0,3,0,'INT'],[3,3,0,4,0,'INT'],[4,6,0,7,0,'INT'],"
           "[5,1,0,12,0,'INT'],[6,10,0,11,0,'INT']],"
           "'definitions':{'subgraphs':[{'id':'s','nodes':[{'id':1,'type':'easy getNode',"
           "'widgets_values':['n']},{'id':2,'type':'TestShow','inputs':[{'name':'any','link':1}]}],"
           "'links':[[1,1,0,2,0,'INT']]}]}}",
           "{'1':{'class_type':'TestInt','inputs':{'value':4}},"
           "'4':{'class_type':'TestShow','inputs':{'any':['1',0]}},"
           "'7':{'class_type':'TestShow','inputs':{}},"
           "'10:2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}");
    /* A name that leads back to itself ends. */
    EXPECT("{'nodes':[{'id':1,'type':'SetNode','inputs':[{'link':1}],'widgets_values':['n']},"
           "{'id':2,'type':'GetNode','widgets_values':['n']},"
           "{'id':3,'type':'TestShow','inputs':[{'name':'any','link':1}]}],"
           "'links':[[1,2,0,1,0,'*']]}",
           "{'3':{'class_type':'TestShow','inputs':{}}}");
}

/* Of a switch's inputs the first counts that gets anything. Links 1 to 6 come from a node that
 * runs, one that is muted, a bypassed one with nothing before it, a value, an empty switch, and
 * nowhere. */
static void any_switch(void)
{
    static const struct {
        const char *links;
        int mode;
        const char *want;
    } list[] = {{"1,4,null", 0, "['1',0]"}, {"null,1,4", 0, "['1',0]"}, {"2,3,1", 0, "['1',0]"},
                {"5,6,1", 0, "['1',0]"},    {"2,4,1", 0, "9"},          {"2,3,5", 0, NULL},
                {"1,4,null", 2, NULL},      {"2,1,null", 4, NULL},      {"1,2,null", 4, "['1',0]"}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char links[3][8], graph[1600], want[300];
        CHECK_INT(sscanf(list[i].links, "%7[^,],%7[^,],%7s", links[0], links[1], links[2]), 3);
        snprintf(graph, sizeof graph,
                 "{'nodes':[{'id':1,'type':'TestInt','widgets_values':[4]},"
                 "{'id':2,'type':'TestInt','mode':2,'widgets_values':[5]},"
                 "{'id':3,'type':'TestAdd','mode':4,'inputs':[{'name':'a','type':'INT','link':null}"
                 "],'outputs':[{'type':'INT'}]},"
                 "{'id':4,'type':'PrimitiveNode','widgets_values':[9,'fixed']},"
                 "{'id':5,'type':'Any Switch (rgthree)','inputs':[{'type':'INT','link':2}]},"
                 "{'id':7,'type':'Any Switch (rgthree)','mode':%d,'inputs':[{'type':'INT','link':"
                 "%s},{'type':'INT','link':%s},{'type':'INT','link':%s}],'outputs':[{'type':'INT'"
                 "}]},{'id':8,'type':'TestShow','inputs':[{'name':'any','type':'*','link':7}]}],"
                 "'links':[[1,1,0,7,0,'INT'],[2,2,0,7,0,'INT'],[3,3,0,7,0,'INT'],[4,4,0,7,0,'INT'],"
                 "[5,5,0,7,0,'INT'],[7,7,0,8,0,'INT']]}",
                 list[i].mode, links[0], links[1], links[2]);
        snprintf(want, sizeof want,
                 "{'1':{'class_type':'TestInt','inputs':{'value':4}},'8':{'class_type':'TestShow',"
                 "'inputs':{%s%s}}}",
                 list[i].want ? "'any':" : "", list[i].want ? list[i].want : "");
        EXPECT(graph, want);
    }
}

/* Switches that feed each other end, and a long row of them is looked at once. */
static void rings_of_switches(void)
{
    EXPECT("{'nodes':[{'id':1,'type':'Any Switch (rgthree)','inputs':[{'link':2},{'link':3}]},"
           "{'id':2,'type':'Any Switch (rgthree)','inputs':[{'link':1},{'link':1}]},"
           "{'id':3,'type':'TestShow','inputs':[{'name':'any','link':1}]},"
           "{'id':4,'type':'TestInt','widgets_values':[4]}],'links':[[1,1,0,2,0,'INT'],"
           "[2,2,0,1,0,'INT'],[3,4,0,1,1,'INT']]}",
           "{'3':{'class_type':'TestShow','inputs':{'any':['4',0]}},"
           "'4':{'class_type':'TestInt','inputs':{'value':4}}}");
    graft_str graph = GRAFT_STR_INIT;
    graft_str_puts(&graph,
                   "{'nodes':[{'id':0,'type':'TestShow','inputs':[{'name':'any','link':1}]}");
    for (int i = 1; i < 2000; i++)
        graft_str_printf(&graph,
                         ",{'id':%d,'type':'Any Switch (rgthree)','inputs':[{'link':%d},{'link':%d}"
                         "]}",
                         i, i + 1, i + 1);
    graft_str_puts(&graph, "],'links':[[1,1,0,0,0,'*']");
    for (int i = 2; i < 2000; i++) graft_str_printf(&graph, ",[%d,%d,0,%d,0,'*']", i, i, i - 1);
    graft_str_puts(&graph, "]}");
    char *text = graft_str_take(&graph);
    EXPECT(text, "{'0':{'class_type':'TestShow','inputs':{}}}");
    graft_free(text);
}

/* Cases that the page's tests have, too: what one side makes of a graph the other does as well. */
static void shared(const char *file)
{
    graft_err e = GRAFT_ERR_INIT;
    char *text;
    size_t n;
    cJSON *list, *one;
    CHECK_OK(graft_file_read(file, 1 << 20, &text, &n, &e), &e);
    CHECK_OK(graft_json_parse(text, n, file, &list, &e), &e);
    CHECK(cJSON_GetArraySize(list) > 5);
    cJSON_ArrayForEach(one, list)
    {
        cJSON *prompt = NULL, *node;
        const cJSON *want = graft_tree_get(one, "want");
        graft_status st =
            graft_workflow_from_ui(graft_tree_get(one, "graph"), fixture.registry, &prompt, &e);
        cJSON_ArrayForEach(node, prompt) cJSON_DeleteItemFromObject(node, "_meta");
        bool same = cJSON_Compare(prompt, want, 1);
        char *got = same ? NULL : graft_json_print(prompt);
        if (!same)
            fprintf(stderr, "%s: got %s %s\n", graft_json_str(one, "name", "?"), got, e.text);
        CHECK_OK(st, &e);
        CHECK(same);
        graft_free(got);
        cJSON_Delete(prompt);
    }
    cJSON_Delete(list);
    graft_free(text);
}

static void everywhere(void)
{
    shared(ELSEWHERE_CASES "/everywhere.json");
}

/* rgthree's rows of LoRAs. */
static void loras(void)
{
    shared(ELSEWHERE_CASES "/loras.json");
}

/* Inputs that count only while a choice is this or that. */
static void varied(void)
{
    shared(ELSEWHERE_CASES "/varied.json");
}

static void group_nodes(void)
{
    shared(ELSEWHERE_CASES "/groupnodes.json");
}

/* They say what is wrong; those that do not run are left alone. */
static void group_nodes_refused(void)
{
    static const struct {
        const char *definition, *says;
    } list[] = {
        {"'other':{'nodes':[]}", "does not say what this group node is made of"},
        {"'two':7", "does not say"},
        {"'two':{'nodes':[{'type':'TestAdd','widgets_values':[1,2]}]}", "do not fit"},
        {"'two':{'nodes':[{'type':'workflow>two','widgets_values':[1,2,3]}]}", "more than"}};
    static const char *const type[] = {"workflow>two", "workflow/two"};
    char graph[400];
    for (size_t i = 0; i < 2 * 2 * sizeof list / sizeof *list; i++) {
        graft_err e = GRAFT_ERR_INIT;
        cJSON *prompt = NULL;
        snprintf(graph, sizeof graph,
                 "{'nodes':[{'id':7,'type':'%s','mode':%d,'widgets_values':[1,2,3]}],"
                 "'extra':{'groupNodes':{%s}}}",
                 type[i % 2], i / 2 % 2 ? 4 : 0, list[i / 4].definition);
        cJSON *json = parse(graph);
        graft_status st = graft_workflow_from_ui(json, fixture.registry, &prompt, &e);
        CHECK((st == GRAFT_OK) == (i / 2 % 2 == 1));
        if (st && !strstr(e.text, list[i / 4].says)) fprintf(stderr, "%s\n", e.text);
        CHECK(!st || strstr(e.text, list[i / 4].says));
        cJSON_Delete(prompt);
        cJSON_Delete(json);
    }
}

int main(void)
{
    fixture_open();
    RUN(group_nodes);
    RUN(group_nodes_refused);
    RUN(everywhere);
    RUN(loras);
    RUN(varied);
    RUN(nodes_of_extensions);
    RUN(any_switch);
    RUN(rings_of_switches);
    fixture_close();
    return test_end();
}
