/* The editor's graphs to API prompts. */
#include <time.h>

#include "base/png.h"
#include "host/prompt/file_name.h"
#include "tests/host/convert.h"

static void classic(void)
{
    EXPECT("{'nodes':["
           "{'id':3,'type':'TestSeed','mode':0,'order':1,'inputs':[{'name':'seed','type':'INT',"
           "'widget':{'name':'seed'},'link':null}],'widgets_values':[9007199254740993,'randomize',"
           "'b',0.25]},"
           "{'id':4,'type':'TestShow','order':2,'inputs':[{'name':'any','type':'*','link':7}]},"
           "{'id':5,'type':'Note','widgets_values':['hello']},"
           "{'id':6,'type':'MarkdownNote','widgets_values':['hello']}],"
           "'links':[[7,3,0,4,0,'STRING']],'version':0.4}",
           "{'3':{'class_type':'TestSeed','inputs':{'seed':9007199254740993,'mode':'b',"
           "'strength':0.25}},'4':{'class_type':'TestShow','inputs':{'any':['3',0]}}}");
    /* Files of API origin have no control entry; the third value is then the strength. */
    EXPECT("{'nodes':[{'id':1,'type':'TestSeed','widgets_values':[5,'a',0.75]}],'links':[]}",
           "{'1':{'class_type':'TestSeed','inputs':{'seed':5,'mode':'a','strength':0.75}}}");
    EXPECT("{'nodes':[{'id':1,'type':'TestSeed','widgets_values':[5,'fixed','a']}],'links':[]}",
           "{'1':{'class_type':'TestSeed','inputs':{'seed':5,'mode':'a','strength':0.5}}}");
    EXPECT("{'nodes':[{'id':1,'type':'TestSeed','widgets_values':{'seed':18446744073709551615,"
           "'mode':'b','junk':3}}]}",
           "{'1':{'class_type':'TestSeed','inputs':{'seed':18446744073709551615,'mode':'b',"
           "'strength':0.5}}}");
    EXPECT("{'nodes':[{'id':1,'type':'TestFile','widgets_values':['f.png','image']}]}",
           "{'1':{'class_type':'TestFile','inputs':{'file':'f.png'}}}");
    EXPECT("{'nodes':[{'id':1,'type':'TestText','widgets_values':[['a','b']]}]}",
           "{'1':{'class_type':'TestText','inputs':{'text':{'__value__':['a','b']}}}}");
    EXPECT("{'nodes':[{'id':1,'type':'Unknown','inputs':[{'name':'x','link':1}],'widgets_values':"
           "[1,2]},{'id':2,'type':'TestInt','widgets_values':[4]}],'links':[[1,2,0,1,0,'INT']]}",
           "{'1':{'class_type':'Unknown','inputs':{'x':['2',0]}},"
           "'2':{'class_type':'TestInt','inputs':{'value':4}}}");
}

/* What a file does not say of a node is as in a new one. */
static void missing_values(void)
{
    static const struct {
        const char *node, *inputs;
    } list[] = {
        {"TestSeed'", "'seed':0,'mode':'a','strength':0.5"},
        {"TestSeed','widgets_values':null", "'seed':0,'mode':'a','strength':0.5"},
        {"TestSeed','widgets_values':{'mode':'b'}", "'seed':0,'mode':'b','strength':0.5"},
        {"TestSeed','widgets_values':[5]", "'seed':5,'mode':'a','strength':0.5"},
        {"TestSeed','widgets_values':[5,'randomize']", "'seed':5,'mode':'a','strength':0.5"},
        {"TestSeed','widgets_values':[5,'increment','b']", "'seed':5,'mode':'b','strength':0.5"},
        {"TestSeed','widgets_values':[5,'b']", "'seed':5,'mode':'b','strength':0.5"},
        {"TestSeed','widgets_values':[5,true,'b',1]", "'seed':5,'mode':'b','strength':1"},
        {"TestSeed','widgets_values':[5,false,'b']", "'seed':5,'mode':'b','strength':0.5"},
        {"TestSeed','widgets_values':[null,'fixed',null,1]", "'seed':0,'mode':'a','strength':1"},
        {"TestMask','widgets_values':['f.png','b','image']", "'file':'f.png','mode':'b'"},
        {"TestMask','widgets_values':['f.png','image','b']", "'file':'f.png','mode':'b'"},
        {"TestMask','widgets_values':['f.png','image']", "'file':'f.png','mode':'a'"},
        {"TestMask'", "'mode':'a'"}};
    char graph[300], want[300];
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        snprintf(graph, sizeof graph, "{'nodes':[{'id':1,'type':'%s}]}", list[i].node);
        snprintf(want, sizeof want, "{'1':{'class_type':'%.8s','inputs':{%s}}}", list[i].node,
                 list[i].inputs);
        EXPECT(graph, want);
    }
}

/* A widget that became an input keeps its place in widgets_values. */
static void converted_widgets(void)
{
    EXPECT("{'nodes':["
           "{'id':1,'type':'TestInt','widgets_values':[4]},"
           "{'id':2,'type':'TestAdd','inputs':[{'name':'b','type':'INT','link':1,'widget':{'name':"
           "'b'}}],'widgets_values':[7,8]},"
           "{'id':3,'type':'TestAdd','inputs':[{'name':'a','type':'INT','link':2,'widget':{'name':"
           "'a'}}],'widgets_values':[7,8]},"
           "{'id':4,'type':'PrimitiveNode','widgets_values':[9007199254740995,'fixed'],'outputs':"
           "[{'type':'INT','links':[2]}]}],"
           "'links':[[1,1,0,2,1,'INT'],[2,4,0,3,0,'INT']]}",
           "{'1':{'class_type':'TestInt','inputs':{'value':4}},"
           "'2':{'class_type':'TestAdd','inputs':{'a':7,'b':['1',0]}},"
           "'3':{'class_type':'TestAdd','inputs':{'a':9007199254740995,'b':8}}}");
}

static void modes_and_reroutes(void)
{
    /* 1 -> reroute -> bypassed add -> show; a muted source leaves its input out. */
    EXPECT("{'nodes':["
           "{'id':1,'type':'TestInt','widgets_values':[4]},"
           "{'id':2,'type':'Reroute','inputs':[{'name':'','type':'*','link':1}],'outputs':[{'name':"
           "'','type':'INT','links':[2]}]},"
           "{'id':3,'type':'TestAdd','mode':4,'inputs':[{'name':'a','type':'INT','link':2},{'name':"
           "'b','type':'INT','link':null}],'outputs':[{'name':'INT','type':'INT','links':[3,5]}],"
           "'widgets_values':[1,2]},"
           "{'id':4,'type':'TestShow','inputs':[{'name':'any','type':'*','link':3}]},"
           "{'id':5,'type':'TestInt','mode':2,'widgets_values':[4]},"
           "{'id':6,'type':'TestShow','inputs':[{'name':'any','type':'*','link':4}]},"
           "{'id':7,'type':'TestMeasure','mode':4,'inputs':[{'name':'thing','type':'THING','link':"
           "5}],'outputs':[{'name':'INT','type':'INT','links':[6]}]},"
           "{'id':8,'type':'TestAdd','inputs':[{'name':'a','type':'INT','link':6,'widget':{'name':"
           "'a'}}],'widgets_values':[1,2]}],"
           "'links':[[1,1,0,2,0,'*'],[2,2,0,3,0,'INT'],[3,3,0,4,0,'INT'],[4,5,0,6,0,'INT'],"
           "[5,3,0,7,0,'THING'],[6,7,0,8,0,'INT']]}",
           "{'1':{'class_type':'TestInt','inputs':{'value':4}},"
           "'4':{'class_type':'TestShow','inputs':{'any':['1',0]}},"
           "'6':{'class_type':'TestShow','inputs':{}},"
           "'8':{'class_type':'TestAdd','inputs':{'a':1,'b':2}}}");
    /* A ring of reroutes ends. */
    EXPECT("{'nodes':[{'id':1,'type':'Reroute','inputs':[{'link':1}]},{'id':2,'type':'Reroute',"
           "'inputs':[{'link':2}]},{'id':3,'type':'TestShow','inputs':[{'name':'any','link':1}]}],"
           "'links':[[1,2,0,1,0,'*'],[2,1,0,2,0,'*']]}",
           "{'3':{'class_type':'TestShow','inputs':{}}}");
}

#define INNER                                                                                      \
    "{'id':'9f-uuid','name':'double','inputs':[{'id':'i','name':'x','type':'INT','linkIds':[1,2]}" \
    ",{'id':'j','name':'b2','type':'INT','linkIds':[5]}],'outputs':[{'id':'o','name':'y','type':"  \
    "'INT','linkIds':[4]}],'inputNode':{'id':-10},'outputNode':{'id':-20},'nodes':["               \
    "{'id':1,'type':'TestAdd','inputs':[{'name':'a','type':'INT','link':1},{'name':'b','type':"    \
    "'INT','link':2}],'widgets_values':[0,0]},"                                                    \
    "{'id':2,'type':'TestAdd','inputs':[{'name':'a','type':'INT','link':3},{'name':'b','type':"    \
    "'INT','link':5}],'widgets_values':[0,50]}],"                                                  \
    "'links':[{'id':1,'origin_id':-10,'origin_slot':0,'target_id':1,'target_slot':0},"             \
    "{'id':2,'origin_id':-10,'origin_slot':0,'target_id':1,'target_slot':1},"                      \
    "{'id':3,'origin_id':1,'origin_slot':0,'target_id':2,'target_slot':0},"                        \
    "{'id':4,'origin_id':2,'origin_slot':0,'target_id':-20,'target_slot':0},"                      \
    "{'id':5,'origin_id':-10,'origin_slot':1,'target_id':2,'target_slot':1}]}"

static void subgraphs(void)
{
    EXPECT("{'version':1,'state':{'lastNodeId':4},'nodes':["
           "{'id':1,'type':'TestInt','widgets_values':[4]},"
           "{'id':2,'type':'9f-uuid','inputs':[{'name':'x','type':'INT','link':1},{'name':'b2',"
           "'type':'INT','widget':{'name':'b2'},'link':null}],'widgets_values':[33]},"
           "{'id':3,'type':'9f-uuid','inputs':[{'name':'x','type':'INT','link':2}],"
           "'widgets_values':[],'properties':{'proxyWidgets':[]}},"
           "{'id':4,'type':'TestShow','inputs':[{'name':'any','type':'*','link':3}]}],"
           "'links':[{'id':1,'origin_id':1,'origin_slot':0,'target_id':2,'target_slot':0,'type':"
           "'INT','parentId':1},{'id':2,'origin_id':2,'origin_slot':0,'target_id':3,'target_slot':"
           "0},{'id':3,'origin_id':3,'origin_slot':0,'target_id':4,'target_slot':0}],"
           "'reroutes':[{'id':1,'pos':[0,0],'linkIds':[1]}],"
           "'definitions':{'subgraphs':[" INNER "]}}",
           "{'1':{'class_type':'TestInt','inputs':{'value':4}},"
           "'2:1':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':['1',0]}},"
           "'2:2':{'class_type':'TestAdd','inputs':{'a':['2:1',0],'b':33}},"
           "'3:1':{'class_type':'TestAdd','inputs':{'a':['2:2',0],'b':['2:2',0]}},"
           "'3:2':{'class_type':'TestAdd','inputs':{'a':['3:1',0],'b':50}},"
           "'4':{'class_type':'TestShow','inputs':{'any':['3:2',0]}}}");
    /* Promoted inner widgets, and a bypassed instance. */
    EXPECT("{'version':1,'nodes':["
           "{'id':2,'type':'9f-uuid','inputs':[{'name':'x','type':'INT','link':null}],"
           "'properties':{'proxyWidgets':[['2','b'],['1','a']]},'widgets_values':[77,78]},"
           "{'id':3,'type':'9f-uuid','mode':4,'inputs':[{'name':'x','type':'INT','link':1}],"
           "'outputs':[{'name':'y','type':'INT'}]},"
           "{'id':5,'type':'9f-uuid','mode':2},"
           "{'id':4,'type':'TestShow','inputs':[{'name':'any','type':'*','link':2}]}],"
           "'links':[{'id':1,'origin_id':2,'origin_slot':0,'target_id':3,'target_slot':0},"
           "{'id':2,'origin_id':3,'origin_slot':0,'target_id':4,'target_slot':0}],"
           "'definitions':{'subgraphs':[" INNER "]}}",
           "{'2:1':{'class_type':'TestAdd','inputs':{'a':78,'b':0}},"
           "'2:2':{'class_type':'TestAdd','inputs':{'a':['2:1',0],'b':77}},"
           "'4':{'class_type':'TestShow','inputs':{'any':['2:2',0]}}}");
}

/* A PrimitiveNode (3) and a node inside an instance (2) of one that is inside another (2:5): the
 * outermost that shows a value has the say. */
#define SHOWN(outer, inner)                                                                        \
    "{'version':1,'nodes':[{'id':2,'type':'outer','properties':{'proxyWidgets':[['5','value'],"    \
    "['5','b']]}," outer "}],'links':[],'definitions':{'subgraphs':[{'id':'outer','links':[],"     \
    "'nodes':[{'id':5,'type':'inner','properties':{'proxyWidgets':[['3','value'],['4','b'],"       \
    "['6','b']]}," inner "}]},{'id':'inner','links':[[1,3,0,4,0,'INT']],'nodes':["                 \
    "{'id':3,'type':'PrimitiveNode','widgets_values':[1,'fixed']},"                                \
    "{'id':4,'type':'TestAdd','inputs':[{'name':'a','type':'INT','link':1,'widget':{'name':'a'}}"  \
    "],'widgets_values':[2,3]},{'id':6,'type':'TestAdd','widgets_values':[4,5]}]}]}}"
#define SHOWN_AS(a, b, other)                                                                      \
    "{'2:5:4':{'class_type':'TestAdd','inputs':{'a':" #a ",'b':" #b "}},"                          \
    "'2:5:6':{'class_type':'TestAdd','inputs':{'a':4,'b':" #other "}}}"

static void shown_by_several(void)
{
    EXPECT(SHOWN("'widgets_values':[]", "'widgets_values':[]"), SHOWN_AS(1, 3, 5));
    EXPECT(SHOWN("'widgets_values':[]", "'widgets_values':[11,12,13]"), SHOWN_AS(11, 12, 13));
    EXPECT(SHOWN("'widgets_values':[21,22]", "'widgets_values':[11,12,13]"), SHOWN_AS(21, 22, 13));
    EXPECT(SHOWN("'widgets_values':[null,22]", "'widgets_values':[]"), SHOWN_AS(1, 22, 5));
}

/* An instance's own input, which it lists or not, may be shown by the one around it. */
#define OWN(outer, list)                                                                           \
    "{'version':1,'nodes':[{'id':2,'type':'outer','properties':{'proxyWidgets':[['5','x']]},"      \
    "'widgets_values':" outer "}],'links':[],'definitions':{'subgraphs':[{'id':'outer','links':[]" \
    ",'nodes':[{'id':5,'type':'inner','inputs':[{'name':'x','type':'INT','link':null,'widget':"    \
    "{'name':'x'}}],'properties':{" list "},'widgets_values':[7]}]},{'id':'inner','inputs':["      \
    "{'name':'x','type':'INT','linkIds':[1]}],'links':[[1,-10,0,4,0,'INT']],'nodes':["             \
    "{'id':4,'type':'TestAdd','inputs':[{'name':'a','type':'INT','link':1,'widget':{'name':'a'}}"  \
    "],'widgets_values':[2,3]}]}]}}"
#define OWN_AS(a) "{'2:5:4':{'class_type':'TestAdd','inputs':{'a':" #a ",'b':3}}}"

static void own_inputs_shown(void)
{
    EXPECT(OWN("[]", ""), OWN_AS(7));
    EXPECT(OWN("[9]", ""), OWN_AS(9));
    EXPECT(OWN("[9]", "'proxyWidgets':[['-1','x']]"), OWN_AS(9));
    EXPECT(OWN("[9]", "'proxyWidgets':[['4','x']]"), OWN_AS(2));
}

#define ENDLESS                                                                                    \
    "{'nodes':[{'id':1,'type':'s'}],'definitions':{'subgraphs':[{'id':'s','nodes':[{'id':1,"       \
    "'type':'s'},{'id':2,'type':'s'}]}]}}"

static void hostile(void)
{
    static const char *const graph[] = {ENDLESS, "{'nodes':[1]}", "{'nodes':[{}]}",
                                        "{'nodes':[{'id':{},'type':'TestInt'}]}",
                                        "{'nodes':[{'id':1,'type':5}]}"};
    for (size_t i = 0; i < sizeof graph / sizeof *graph; i++) {
        cJSON *json = parse(graph[i]), *prompt = NULL;
        CHECK(graft_workflow_from_ui(json, fixture.registry, &prompt, NULL) != GRAFT_OK);
        CHECK(prompt == NULL);
        cJSON_Delete(json);
    }
    EXPECT("{'nodes':[{'id':1,'type':'TestAdd','mode':'x','inputs':5,'widgets_values':7,'order':"
           "'a'},{'id':'two','type':'TestShow','inputs':[7,{},{'name':'any','link':{}},{'name':"
           "'any','link':99},{'name':5,'link':1}]}],'links':[5,[],{},[1,2],[1,'two',1e99,1,0],"
           "{'id':1}],'definitions':[4]}",
           "{'1':{'class_type':'TestAdd','inputs':{'a':0,'b':0}},'two':{'class_type':'TestShow','"
           "inputs':"
           "{}}}");
    const char *bad[] = {"", "5", "[", "{\"a\":", "null", "\"x\"", "{\"a\":1}x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        graft_workflow w;
        CHECK(graft_workflow_parse(bad[i], strlen(bad[i]), "x", fixture.registry, &w, NULL) != 0);
    }
    char deep[4001];
    memset(deep, '[', 4000);
    deep[4000] = 0;
    graft_workflow w;
    CHECK(graft_workflow_parse(deep, 4000, "x", fixture.registry, &w, NULL) != GRAFT_OK);
}

static void file_names(void)
{
    char want[400];
    time_t now = time(NULL);
    struct tm t;
    localtime_r(&now, &t);
    snprintf(want, sizeof want,
             "{'1':{'class_type':'TestSeed','inputs':{'seed':18446744073709551615,'mode':'b',"
             "'strength':0.5}},'2':{'class_type':'TestSave','inputs':{'text':'%%date:yyyy%%',"
             "'filename_prefix':'%04d-%d/b_18446744073709551615_0.5_%%width%%_%%No.x%%_5%%_7_"
             "%%TestSeed title.mode%%'}},'3':{'class_type':'TestInt','inputs':{'value':7}}}",
             t.tm_year + 1900, t.tm_mon + 1);
    EXPECT("{'nodes':[{'id':1,'type':'TestSeed','title':'My seed','properties':{'Node name for S&R'"
           ":'Sdr'},'widgets_values':[18446744073709551615,'fixed','b',0.5]},"
           "{'id':2,'type':'TestSave','widgets_values':['%date:yyyy%','%date:yyyy-M%/"
           "%Sdr.mode%_%My seed.seed%_%TestSeed.strength%_%width%_%No.x%_5%_%TestInt title.value%_"
           "%TestSeed title.mode%']},{'id':3,'type':'TestInt','widgets_values':[7]}]}",
           want);
}

static void dates(void)
{
    static const struct {
        const char *format, *want;
    } list[] = {{"yyyy-MM-dd", "2026-03-07"},
                {"yy.M.d", "26.3.7"},
                {"hhmmss", "040905"},
                {"h_m_s", "4_9_5"},
                {"yyyyMMddhhmmss", "20260307040905"},
                {"y yyy MMM ddd x", "y yyy MMM ddd x"},
                {"", ""}};
    const struct tm t = {
        .tm_year = 126, .tm_mon = 2, .tm_mday = 7, .tm_hour = 4, .tm_min = 9, .tm_sec = 5};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        graft_str s = GRAFT_STR_INIT;
        graft_str_puts(&s, "");
        graft_file_name_date(&s, list[i].format, strlen(list[i].format), &t);
        CHECK_STR(s.data, list[i].want);
        graft_str_finish(&s);
    }
}

/* Damaged text: whatever still is JSON goes through the converter and the checker. */
static void mutated(void)
{
    static const char seed_text[] =
        "{'version':1,'nodes':[{'id':2,'type':'9f-uuid','mode':0,'inputs':[{'name':'x','type':'INT'"
        ",'link':1}],'properties':{'proxyWidgets':[['2','b'],['1','a']]},'widgets_values':[77,78]},"
        "{'id':4,'type':'TestShow','inputs':[{'name':'any','type':'*','link':2}]}],'links':[[1,2,0,"
        "3,0],{'id':2,'origin_id':2,'origin_slot':0,'target_id':4,'target_slot':0}],"
        "'definitions':{'subgraphs':[" INNER "]}}";
    char text[sizeof seed_text];
    uint32_t state = 12345;
    int parsed = 0;
    for (int round = 0; round < 20000; round++) {
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = seed_text[i] == '\'' ? '"' : seed_text[i];
        for (int k = 0; k < 1 + round % 4; k++) {
            static const char bytes[] = "0123456789-\"{}[],:.e ";
            state = state * 1664525u + 1013904223u;
            size_t at = (state >> 8) % (sizeof text - 1);
            state = state * 1664525u + 1013904223u;
            if (state >> 31)
                text[at] = bytes[(state >> 8) % (sizeof bytes - 1)];
            else
                memmove(text + at, text + at / 2, (sizeof text - 1 - at) / 8);
        }
        graft_workflow w;
        graft_validation v;
        if (graft_workflow_parse(text, sizeof text - 1, "x", fixture.registry, &w, NULL)) continue;
        parsed++;
        cJSON *json = w.prompt;
        w.prompt = NULL;
        if (graft_validate(fixture.registry, &fixture.services.host, json, NULL, 0, &v, NULL) == 0)
            graft_validation_finish(&v);
        graft_workflow_finish(&w);
    }
    CHECK(parsed > 1000);
}

/* `cut`: bytes that are missing at the end. */
static void write_png(const char *path, const char *prompt, const char *workflow, size_t cut)
{
    const uint8_t pixel[3] = {1, 2, 3};
    graft_png_text text[2];
    size_t n = 0, size = 0;
    uint8_t *png = NULL;
    if (prompt) text[n++] = (graft_png_text){"prompt", prompt};
    if (workflow) text[n++] = (graft_png_text){"workflow", workflow};
    CHECK(graft_png_encode(pixel, 1, 1, 3, 4, text, n, &png, &size, NULL) == GRAFT_OK);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(png, 1, size - cut, f) == size - cut);
    if (f) fclose(f);
    graft_free(png);
}

static void pictures(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_workflow w;
    const char *prompt = "{\"9\":{\"class_type\":\"TestShow\",\"inputs\":{\"any\":1}}}";
    const char *graph = "{\"nodes\":[{\"id\":1,\"type\":\"TestInt\",\"widgets_values\":[4]}]}";
    write_png("both.png", prompt, graph, 0);
    CHECK_OK(graft_workflow_read("both.png", fixture.registry, &w, &e), &e);
    CHECK_JSON(w.prompt, "{'9':{'class_type':'TestShow','inputs':{'any':1}}}");
    CHECK(graft_tree_get(w.extra_pnginfo, "workflow") != NULL);
    graft_workflow_finish(&w);
    write_png("graph.png", NULL, graph, 0);
    CHECK_OK(graft_workflow_read("graph.png", fixture.registry, &w, &e), &e);
    CHECK(graft_tree_get(w.prompt, "1") && w.extra_pnginfo);
    graft_workflow_finish(&w);
    write_png("broken.png", "{\"9\":{\"is_changed\":nan}}", graph, 0);
    CHECK_OK(graft_workflow_read("broken.png", fixture.registry, &w, &e), &e);
    CHECK(graft_tree_get(w.prompt, "1") != NULL);
    graft_workflow_finish(&w);
    write_png("nan.png", "{\"9\":{\"class_type\":\"TestShow\",\"is_changed\":NaN}}",
              "{\"nodes\":[],\"extra\":[-Infinity]}", 0);
    CHECK_OK(graft_workflow_read("nan.png", fixture.registry, &w, &e), &e);
    CHECK_JSON(w.prompt, "{'9':{'class_type':'TestShow','is_changed':null}}");
    CHECK_JSON(w.extra_pnginfo, "{'workflow':{'nodes':[],'extra':[null]}}");
    graft_workflow_finish(&w);
    write_png("none.png", NULL, NULL, 0);
    CHECK_INT(graft_workflow_read("none.png", fixture.registry, &w, &e), GRAFT_E_NOTFOUND);
    for (int i = 0; i < 2; i++) {
        write_png("cut.png", i ? NULL : prompt, i ? graph : NULL, 20);
        CHECK_OK(graft_workflow_read("cut.png", fixture.registry, &w, &e), &e);
        CHECK(graft_tree_get(w.prompt, i ? "1" : "9") != NULL);
        graft_workflow_finish(&w);
    }
    write_png("cut.png", NULL, NULL, 20);
    CHECK_INT(graft_workflow_read("cut.png", fixture.registry, &w, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "cut.png") != NULL);
    check_text("cut.png", "\x89PNG\r\n\x1a\n....");
    CHECK(graft_workflow_read("cut.png", fixture.registry, &w, &e) != GRAFT_OK);
    CHECK(graft_workflow_read("absent.json", fixture.registry, &w, &e) != GRAFT_OK);
    check_text("post.json", "{\"prompt\":{\"9\":{\"class_type\":\"TestShow\",\"inputs\":{}}},"
                            "\"extra_data\":{\"extra_pnginfo\":{\"workflow\":7}}}");
    CHECK_OK(graft_workflow_read("post.json", fixture.registry, &w, &e), &e);
    CHECK_JSON(w.prompt, "{'9':{'class_type':'TestShow','inputs':{}}}");
    CHECK_JSON(w.extra_pnginfo, "{'workflow':7}");
    graft_workflow_finish(&w);
}

static void setting(void)
{
    graft_err e = GRAFT_ERR_INIT;
    cJSON *p = parse("{'1':{'class_type':'TestSeed','inputs':{'seed':1},'_meta':{'title':'My.x'}},"
                     "'2':{'class_type':'TestSwitch'},'3':{'class_type':'TestInt','inputs':{'value'"
                     ":['1',0]}},'4':{'class_type':'TestInt','inputs':{}},'5':{'class_type':"
                     "'TestMeasure'}}");
    const graft_registry *r = fixture.registry;
    CHECK_OK(graft_workflow_set(p, r, "1", "seed", "18446744073709551615", &e), &e);
    CHECK_OK(graft_workflow_set(p, r, "My.x", "strength", "0.125", &e), &e);
    CHECK_OK(graft_workflow_set(p, r, "TestSwitch", "on", "No", &e), &e);
    CHECK_OK(graft_workflow_set(p, r, "3", "value", "-7", &e), &e);
    CHECK_INT(graft_workflow_set(p, r, "TestInt", "value", "1", &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "3, 4") != NULL);
    CHECK_INT(graft_workflow_set(p, r, "nobody", "value", "1", &e), GRAFT_E_NOTFOUND);
    CHECK_INT(graft_workflow_set(p, r, "1", "nothing", "1", &e), GRAFT_E_NOTFOUND);
    CHECK_INT(graft_workflow_set(p, r, "5", "thing", "1", &e), GRAFT_E_ARG);
    CHECK_JSON(p, "{'1':{'class_type':'TestSeed','inputs':{'seed':18446744073709551615,'strength':"
                  "0.125},'_meta':{'title':'My.x'}},'2':{'class_type':'TestSwitch','inputs':{'on':"
                  "false}},'3':{'class_type':'TestInt','inputs':{'value':-7}},'4':{'class_type':"
                  "'TestInt','inputs':{}},'5':{'class_type':'TestMeasure'}}");
    cJSON_Delete(p);
}

int main(void)
{
    fixture_open();
    RUN(classic);
    RUN(missing_values);
    RUN(converted_widgets);
    RUN(modes_and_reroutes);
    RUN(subgraphs);
    RUN(shown_by_several);
    RUN(own_inputs_shown);
    RUN(hostile);
    RUN(file_names);
    RUN(dates);
    RUN(mutated);
    RUN(pictures);
    RUN(setting);
    fixture_close();
    return test_end();
}
