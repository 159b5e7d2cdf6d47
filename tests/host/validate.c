#include <errno.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "tests/host/fixture.h"
#include "tests/locale.h"

static graft_validation check(const char *text)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_validation v;
    CHECK_OK(graft_validate(fixture.registry, &fixture.services.host, parse(text), NULL, 0, &v, &e),
             &e);
    CHECK(v.node_errors != NULL);
    CHECK((v.prompt == NULL) == (v.error != NULL));
    return v;
}

/* The faults of node 1, with a TestShow behind it. */
static void expect_faults(const char *class_type, const char *inputs, const char *want, int line)
{
    char text[2000];
    snprintf(text, sizeof text,
             "{'1':{'class_type':'%s','inputs':%s},"
             "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}",
             class_type, inputs);
    graft_validation v = check(text);
    const cJSON *entry = graft_tree_get(v.node_errors, "1");
    check_json(graft_tree_get(entry, "errors"), want, line);
    check_json(graft_tree_get(entry, "dependent_outputs"), "['2']", line);
    check_json(v.error,
               "{'type':'prompt_outputs_failed_validation','message':"
               "'Prompt outputs failed validation','details':'','extra_info':{}}",
               line);
    graft_validation_finish(&v);
}
#define EXPECT(class_type, inputs, want) expect_faults(class_type, inputs, want, __LINE__)
#define VALUE_RANGE                      "'min':-10,'max':100,'step':1}]"
#define VALUE_CONFIG                     "['INT',{'tooltip':'tip','default':1," VALUE_RANGE

static void whole_prompt(void)
{
    const struct {
        const char *text, *want;
    } c[] = {
        {"{}", "{'type':'prompt_no_outputs','message':'Prompt has no outputs','details':'',"
               "'extra_info':{}}"},
        {"[]", "{'type':'prompt_no_outputs','message':'Prompt has no outputs','details':'',"
               "'extra_info':{}}"},
        {"[{'class_type':'TestShow','inputs':{'any':5}},'a',null,[1],{}]",
         "{'type':'prompt_no_outputs','message':'Prompt has no outputs','details':'',"
         "'extra_info':{}}"},
        {"5", "{'type':'prompt_no_outputs','message':'Prompt has no outputs','details':'',"
              "'extra_info':{}}"},
        {"{'1':{'class_type':'TestInt','inputs':{}}}",
         "{'type':'prompt_no_outputs','message':'Prompt has no outputs','details':'',"
         "'extra_info':{}}"},
        {"{'7':{'inputs':{}}}",
         "{'type':'invalid_prompt','message':'Cannot execute because a node is missing the "
         "class_type property.','details':'Node ID "
         "\\u0027#7\\u0027','extra_info':{'node_id':'7'}}"},
        {"{'7':5}",
         "{'type':'invalid_prompt','message':'Cannot execute because a node is missing the "
         "class_type property.','details':'Node ID "
         "\\u0027#7\\u0027','extra_info':{'node_id':'7'}}"},
        {"{'7':{'class_type':'Xyz','inputs':{}}}",
         "{'type':'missing_node_type','message':'Cannot execute because node Xyz does not exist.',"
         "'details':'Node ID \\u0027#7\\u0027','extra_info':{'node_id':'7','class_type':'Xyz',"
         "'node_title':'Xyz'}}"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        graft_validation v = check(c[i].text);
        CHECK_JSON(v.error, c[i].want);
        graft_validation_finish(&v);
    }
}

/* What a choice asks for must be there; its description says what it is for. */
static void inputs_that_count(void)
{
    EXPECT("TestVaried", "{'how':'by factor','method':'a','how.width':7}",
           "[{'type':'required_input_missing','message':'Required input is missing',"
           "'details':'how.factor','extra_info':{'input_name':'how.factor'}}]");
    EXPECT("TestVaried", "{'how':'by factor','method':'a','how.factor':9,'how.width':-7}",
           "[{'type':'value_bigger_than_max','message':'Value 9.0 bigger than max of 8.0',"
           "'details':'how.factor','extra_info':{'input_name':'how.factor','input_config':"
           "['FLOAT',{'tooltip':'tip','default':1,'min':0,'max':8,'when':{'how':['by factor']}}],"
           "'received_value':9}}]");
    EXPECT("TestVaried", "{'how':'like other','method':'a','how.crop':'center'}",
           "[{'type':'required_input_missing','message':'Required input is missing',"
           "'details':'how.other','extra_info':{'input_name':'how.other'}}]");
}

static void range_and_type(void)
{
    EXPECT("TestInt", "{}",
           "[{'type':'required_input_missing','message':'Required input is missing',"
           "'details':'value','extra_info':{'input_name':'value'}}]");
    EXPECT("TestInt", "{'value':-11}",
           "[{'type':'value_smaller_than_min','message':'Value -11 smaller than min of -10',"
           "'details':'value','extra_info':{'input_name':'value','input_config':" VALUE_CONFIG
           ",'received_value':-11}}]");
    EXPECT("TestInt", "{'value':'101'}",
           "[{'type':'value_bigger_than_max','message':'Value 101 bigger than max of 100',"
           "'details':'value','extra_info':{'input_name':'value','input_config':" VALUE_CONFIG
           ",'received_value':101}}]");
    EXPECT("TestInt", "{'value':'abc'}",
           "[{'type':'invalid_input_type','message':'Failed to convert an input value to a INT "
           "value','details':'value, abc, invalid literal for int() with base 10: "
           "\\u0027abc\\u0027','extra_info':{'input_name':'value','input_config':" VALUE_CONFIG
           ",'received_value':'abc','exception_message':'invalid literal for int() with base 10: "
           "\\u0027abc\\u0027'}}]");
    EXPECT("TestInt", "{'value':null}",
           "[{'type':'invalid_input_type','message':'Failed to convert an input value to a INT "
           "value','details':'value, None, int() argument must be a string, a bytes-like object "
           "or a real number, not \\u0027NoneType\\u0027','extra_info':{'input_name':'value',"
           "'input_config':" VALUE_CONFIG
           ",'received_value':null,'exception_message':'int() argument must be a string, a "
           "bytes-like object or a real number, not \\u0027NoneType\\u0027'}}]");
    EXPECT("TestInt", "{'value':1e300}",
           "[{'type':'value_bigger_than_max','message':'Value "
           "100000000000000005250476025520442024870446858110815915491585 bigger than max of 100',"
           "'details':'value','extra_info':{'input_name':'value','input_config':" VALUE_CONFIG
           ",'received_value':1e300}}]");
}

#define SEED_CONFIG                                                                                \
    "['INT',{'tooltip':'tip','default':0,'min':0,'max':18446744073709551615,"                      \
    "'control_after_generate':true}]"

static void seeds_and_choices(void)
{
    EXPECT("TestSeed", "{'seed':18446744073709551616,'mode':'zzz','strength':1.5}",
           "[{'type':'value_bigger_than_max','message':'Value 18446744073709551616 bigger than max "
           "of 18446744073709551615','details':'seed','extra_info':{'input_name':'seed',"
           "'input_config':" SEED_CONFIG ",'received_value':18446744073709551616}},"
           "{'type':'value_not_in_list','message':'Value not in list','details':'mode: "
           "\\u0027zzz\\u0027 not in [\\u0027a\\u0027, \\u0027b\\u0027, \\\"it\\u0027s\\\"]',"
           "'extra_info':{'input_name':'mode','input_config':[['a','b','it\\u0027s'],{'tooltip':"
           "'tip','default':'a'}],'received_value':'zzz'}},"
           "{'type':'value_bigger_than_max','message':'Value 1.5 bigger than max of 1.0',"
           "'details':'strength','extra_info':{'input_name':'strength','input_config':['FLOAT',"
           "{'tooltip':'tip','default':0.5,'min':0,'max':1,'step':0.01,'round':false}],'received_"
           "value':1.5}}]");
    EXPECT("TestSeed", "{'seed':-1,'mode':1}",
           "[{'type':'value_smaller_than_min','message':'Value -1 smaller than min of 0',"
           "'details':'seed','extra_info':{'input_name':'seed','input_config':" SEED_CONFIG
           ",'received_value':-1}},"
           "{'type':'value_not_in_list','message':'Value not in list','details':'mode: 1 not in "
           "[\\u0027a\\u0027, \\u0027b\\u0027, \\\"it\\u0027s\\\"]','extra_info':{'input_name':"
           "'mode','input_config':[['a','b','it\\u0027s'],{'tooltip':'tip','default':'a'}],"
           "'received_value':1}}]");
}

static void links(void)
{
    EXPECT("TestAdd", "{'a':['1'],'b':[5,0]}",
           "[{'type':'bad_linked_input','message':'Bad linked input, must be a length-2 list of "
           "[node_id, slot_index]','details':'a','extra_info':{'input_name':'a','input_config':"
           "['INT',{'tooltip':'tip','default':0,'min':-1000000,'max':1000000}],'received_value':"
           "['1']}},{'type':'bad_linked_input','message':'Bad linked input, must be a length-2 "
           "list of [node_id, slot_index]','details':'b','extra_info':{'input_name':'b',"
           "'input_config':['INT',{'tooltip':'tip','default':0,'min':-1000000,'max':1000000}],"
           "'received_value':[5,0]}}]");
    EXPECT("TestMeasure", "{'thing':['2',0]}",
           "[{'type':'exception_during_inner_validation','message':'Exception when validating "
           "inner node','details':'tuple index out of range','extra_info':{'input_name':'thing',"
           "'input_config':['THING',{'tooltip':'tip'}],'exception_message':'tuple index out of "
           "range','exception_type':'IndexError','traceback':[],'linked_node':['2',0]}}]");
    EXPECT("TestMeasure", "{'thing':['77',0]}",
           "[{'type':'exception_during_inner_validation','message':'Exception when validating "
           "inner node','details':'\\u002777\\u0027','extra_info':{'input_name':'thing',"
           "'input_config':['THING',{'tooltip':'tip'}],'exception_message':'\\u002777\\u0027',"
           "'exception_type':'KeyError','traceback':[],'linked_node':['77',0]}}]");
    graft_validation v = check("{'1':{'class_type':'TestInt','inputs':{'value':3}},"
                               "'2':{'class_type':'TestMeasure','inputs':{'thing':['1',0]}},"
                               "'3':{'class_type':'TestShow','inputs':{'any':['2',1]}},"
                               "'4':{'class_type':'TestShow','inputs':{'any':['9',0]}},"
                               "'5':{'class_type':'TestShow','inputs':{'any':['1',0]}}}");
    CHECK_JSON(graft_tree_get(v.node_errors, "2"),
               "{'errors':[{'type':'return_type_mismatch','message':'Return type mismatch between "
               "linked nodes','details':'thing, received_type(INT) mismatch input_type(THING)',"
               "'extra_info':{'input_name':'thing','input_config':['THING',{'tooltip':'tip'}],"
               "'received_type':'INT','linked_node':['1',0]}}],'dependent_outputs':['3'],"
               "'class_type':'TestMeasure'}");
    CHECK_JSON(graft_tree_get(graft_tree_get(v.node_errors, "4"), "dependent_outputs"), "['4']");
    CHECK(v.error == NULL && v.prompt && v.prompt->n_output == 1);
    graft_str text = GRAFT_STR_INIT;
    graft_validation_text(&v, "f.json", NULL, &text);
    CHECK_STR(text.data, "f.json: node 2 (TestMeasure), input thing: takes THING, and is linked "
                         "to an output of type INT\n"
                         "f.json: node 4 (TestShow), input any: linked to node 9, which does not "
                         "exist\n");
    graft_str_finish(&text);
    graft_validation_finish(&v);
}

static void cycles(void)
{
    graft_validation v = check("{'1':{'class_type':'TestAdd','inputs':{'a':['2',0],'b':1}},"
                               "'2':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':['4',0]}},"
                               "'3':{'class_type':'TestShow','inputs':{'any':['1',0]}},"
                               "'4':{'class_type':'TestInt','inputs':{'value':1}},"
                               "'5':{'class_type':'TestAdd','inputs':{'a':['5',0],'b':1}},"
                               "'6':{'class_type':'TestShow','inputs':{'any':['5',0]}}}");
    CHECK(v.error != NULL);
    CHECK(graft_tree_get(v.node_errors, "1") && graft_tree_get(v.node_errors, "2") &&
          graft_tree_get(v.node_errors, "5"));
    CHECK(!graft_tree_get(v.node_errors, "3") && !graft_tree_get(v.node_errors, "4"));
    static const struct {
        const char *id, *wanted;
    } c[] = {{"5", "'5 (TestAdd) -> 5 (TestAdd)','extra_info':{'node_id':'5','cycle_nodes':['5']"},
             {"2", "'1 (TestAdd) -> 2 (TestAdd) -> 1 (TestAdd)','extra_info':{'node_id':'2',"
                   "'cycle_nodes':['1','2']"}};
    for (size_t i = 0; i < 2; i++) {
        char wanted[300];
        snprintf(
            wanted, sizeof wanted,
            "[{'type':'dependency_cycle','message':'Dependency cycle detected','details':%s}}]",
            c[i].wanted);
        CHECK_JSON(graft_tree_get(graft_tree_get(v.node_errors, c[i].id), "errors"), wanted);
    }
    graft_validation_finish(&v);
    /* Between two circles, and behind one, is none; what depends on them does not run. */
    v = check("{'1':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':1}},"
              "'2':{'class_type':'TestAdd','inputs':{'a':['1',0],'b':1}},"
              "'3':{'class_type':'TestAdd','inputs':{'a':['4',0],'b':['2',0]}},"
              "'4':{'class_type':'TestAdd','inputs':{'a':['3',0],'b':1}},"
              "'5':{'class_type':'TestShow','inputs':{'any':['4',0]}},"
              "'6':{'class_type':'TestShow','inputs':{'any':['2',0]}}}");
    CHECK(v.error && cJSON_GetArraySize(v.node_errors) == 3 && !graft_tree_get(v.node_errors, "2"));
    CHECK_JSON(graft_tree_get(graft_tree_get(v.node_errors, "1"), "dependent_outputs"),
               "['5','6']");
    graft_validation_finish(&v);
}

static void coercion(void)
{
    graft_validation v =
        check("{'1':{'class_type':'TestAdd','inputs':{'a':' 64 ','b':64.7}},"
              "'2':{'class_type':'TestText','inputs':{'text':{'__value__':[1,'x']}}},"
              "'3':{'class_type':'TestSeed','inputs':{'seed':18446744073709551615,'mode':'b',"
              "'strength':'0.25','_unknown':4},'_meta':{'title':'My seed'}},"
              "'4':{'class_type':'TestSwitch','inputs':{'on':'false','on_true':true,"
              "'on_false':2.5}},"
              "'5':{'class_type':'TestShow','inputs':{'any':['1',0]}},"
              "'6':{'class_type':'TestShow','inputs':{'any':['2',0]}},"
              "'7':{'class_type':'TestShow','inputs':{'any':['3',0]}},"
              "'8':{'class_type':'TestShow','inputs':{'any':['4',0]}}}");
    CHECK(v.prompt != NULL);
    if (v.prompt) {
        const cJSON *json = v.prompt->json;
        CHECK_JSON(graft_tree_get(graft_tree_get(json, "1"), "inputs"), "{'a':64,'b':64}");
        CHECK_JSON(graft_tree_get(graft_tree_get(json, "2"), "inputs"),
                   "{'text':'[1, \\u0027x\\u0027]'}");
        CHECK_JSON(graft_tree_get(graft_tree_get(json, "3"), "inputs"),
                   "{'seed':18446744073709551615,'mode':'b','strength':0.25,'_unknown':4}");
        /* As in Python, any text that is not empty is true. */
        CHECK_JSON(graft_tree_get(graft_tree_get(json, "4"), "inputs"),
                   "{'on':true,'on_true':true,'on_false':2.5}");
        CHECK_STR(v.prompt->node[2].title, "My seed");
        CHECK_STR(v.prompt->node[0].title, "TestAdd title");
        CHECK(v.prompt->node[2].in[0].literal.value.u.i == -1);
    }
    graft_validation_finish(&v);
}

/* Which folder was looked into, for whoever wants to put the file there. */
static void missing_files(void)
{
    EXPECT("TestFile", "{'file':5}",
           "[{'type':'value_not_in_list','message':'Value not in list','details':'file: 5 not in "
           "[]','extra_info':{'input_name':'file','input_config':[[],{'tooltip':'tip',"
           "'image_upload':true}],'received_value':5,'folder':'input','available':[],'count':0}}]");
}

static void expect_line(const char *prompt, const graft_folders *folders, const char *line)
{
    graft_validation v = check(prompt);
    graft_str text = GRAFT_STR_INIT;
    graft_validation_text(&v, "f", folders, &text);
    CHECK_STR(text.data ? text.data : "", line);
    graft_str_finish(&text);
    graft_validation_finish(&v);
}

/* What may have been meant is told beside what clients of the protocol know. */
static void suggestions(void)
{
    graft_validation v = check("{'1':{'class_type':'TestShwo','inputs':{}}}");
    CHECK_JSON(graft_tree_get(v.error, "extra_info"),
               "{'node_id':'1','class_type':'TestShwo','node_title':'TestShwo','suggestions':"
               "['TestShow']}");
    CHECK_STR(graft_json_str(v.error, "message", ""),
              "Cannot execute because node TestShwo does not exist.");
    graft_validation_finish(&v);
    expect_line("{'1':{'class_type':'TestShwo','inputs':{}}}", NULL,
                "f: node 1 (TestShwo): there is no such node class; did you mean TestShow?\n");
    expect_line("{'1':{'class_type':'Qwertz','inputs':{}}}", NULL,
                "f: node 1 (Qwertz): there is no such node class; \"graft nodes\" lists those "
                "there are\n");
    expect_line("{'1':{'class_type':'TestSave','inputs':{'txet':'x','filename_prefix':'y'}}}", NULL,
                "f: node 1 (TestSave), input text: Required input is missing; \"txet\" is not an "
                "input of this node\n");
    expect_line("{'1':{'class_type':'TestSeed','inputs':{'seed':1,'mode':'its','strength':1}},"
                "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}",
                NULL,
                "f: node 1 (TestSeed), input mode: \"its\" is not one of a, b, it's; did you mean "
                "it's?\n");
}

/* Where files were looked for, and what is there. */
static void suggested_files(void)
{
    static const char prompt[] = "{'1':{'class_type':'TestFile','inputs':{'file':'%s'}},"
                                 "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}";
    static const struct {
        const char *file, *hint;
    } c[] = {{"bllue.png", "; did you mean blue.png?"},
             {"zzzzz.png", "; there are blue.png, green.png, red.png and 1 more"}};
    CHECK(system("mkdir -p input && cd input && touch blue.png green.png red.png white.png") == 0);
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char text[300], line[300];
        snprintf(text, sizeof text, prompt, c[i].file);
        snprintf(line, sizeof line,
                 "f: node 1 (TestFile), input file: there is no file %s in input%s\n", c[i].file,
                 c[i].hint);
        expect_line(text, NULL, line);
    }
    const graft_folders *folders = &fixture.folders;
    char line[300], text[300];
    snprintf(line, sizeof line,
             "f: node 1 (TestFile), input file: there is no file [] in %s; there are blue.png, "
             "green.png, red.png and 1 more\n",
             folders->input);
    snprintf(text, sizeof text,
             "{'1':{'class_type':'TestFile','inputs':{'file':{'__value__':[]}}},"
             "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}");
    expect_line(text, folders, line);
    CHECK(system("rm -rf input") == 0);
}

static void targets_and_custom(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_validation v;
    const char *const target[] = {"3"};
    const char *text = "{'1':{'class_type':'TestFile','inputs':{'file':'no.txt'}},"
                       "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}},"
                       "'3':{'class_type':'TestShow','inputs':{'any':5}}}";
    CHECK_OK(
        graft_validate(fixture.registry, &fixture.services.host, parse(text), target, 1, &v, &e),
        &e);
    CHECK(v.prompt && v.prompt->n_output == 1 && !v.node_errors->child);
    graft_validation_finish(&v);
    CHECK_OK(
        graft_validate(fixture.registry, &fixture.services.host, parse(text), target, 0, &v, &e),
        &e);
    CHECK_STR(graft_json_str(v.error, "type", ""), "prompt_no_outputs");
    graft_validation_finish(&v);
    v = check(text);
    CHECK_JSON(graft_tree_get(graft_tree_get(v.node_errors, "1"), "errors"),
               "[{'type':'custom_validation_failed','message':'Custom validation failed for node',"
               "'details':'file - Invalid file: "
               "no.txt','extra_info':{'input_name':'file','folder':'input','available':[],"
               "'count':0}}]");
    graft_str line = GRAFT_STR_INIT;
    graft_validation_text(&v, "f.json", NULL, &line);
    CHECK_STR(line.data,
              "f.json: node 1 (TestFile), input file: there is no file no.txt in input, nor any "
              "other; --input says where to look\n");
    graft_str_finish(&line);
    graft_validation_finish(&v);
}

#define OWN(name, reason)                                                                          \
    "{'type':'custom_validation_failed','message':'Custom validation failed for node',"            \
    "'details':'" name reason "','extra_info':{'input_name':'" name "'}}"
#define OWN_ALL(reason)                                                                            \
    "[" OWN("value", reason) "," OWN("mode", reason) "," OWN("either", reason) "]"

/* What a node's own check takes is left to it: ranges, choices, literals at sockets, types. */
static void own_checks(void)
{
    EXPECT("TestChecks", "{'value':13,'mode':'a','either':1.0,'text':''}",
           OWN_ALL(" - 13 is unlucky"));
    EXPECT("TestChecks", "{'value':1,'mode':'a','either':1,'text':''}", OWN_ALL(""));
    EXPECT("TestChecks", "{'value':1,'mode':'a','either':'x','text':''}", OWN_ALL(""));
    EXPECT("TestChecks", "{'value':1,'mode':'a','either':true,'text':''}", OWN_ALL(""));
    EXPECT(
        "TestChecks", "{'value':1,'mode':'a','either':['3',0],'text':''}",
        "[{'type':'exception_during_inner_validation','message':'Exception when validating inner "
        "node','details':'\\u00273\\u0027','extra_info':{'input_name':'either','input_config':["
        "'THING,FLOAT',{'tooltip':'tip'}],'exception_message':'\\u00273\\u0027',"
        "'exception_type':'KeyError','traceback':[],'linked_node':['3',0]}}]");
    EXPECT("TestChecks", "{'value':1,'mode':'a','either':null,'text':''}",
           "[{'type':'bad_linked_input','message':'Bad linked input, must be a length-2 list of "
           "[node_id, slot_index]','details':'either','extra_info':{'input_name':'either',"
           "'input_config':['THING,FLOAT',{'tooltip':'tip'}],'received_value':null}}]");
    EXPECT(
        "TestChecks", "{'value':9223372036854775808,'mode':5,'either':1.0,'text':''}",
        "[{'type':'value_bigger_than_max','message':'Value 9223372036854775808 bigger than max "
        "of 100','details':'value','extra_info':{'input_name':'value','input_config':" VALUE_CONFIG
        ",'received_value':9223372036854775808}},{'type':'value_not_in_list',"
        "'message':'Value not in list','details':'mode: 5 not in [\\u0027a\\u0027, "
        "\\u0027b\\u0027, \\\"it\\u0027s\\\"]','extra_info':{'input_name':'mode',"
        "'input_config':[['a','b','it\\u0027s'],{'tooltip':'tip','default':'a'}],"
        "'received_value':5}}]");
    graft_validation v = check("{'1':{'class_type':'TestChecks','inputs':{'value':5000,"
                               "'mode':'none of them','either':2.0,'text':5.0}},"
                               "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}},"
                               "'3':{'class_type':'TestThing','inputs':{'n':1}},"
                               "'4':{'class_type':'TestChecks','inputs':{'value':1,'mode':'a',"
                               "'either':['3',0],'text':''}},"
                               "'5':{'class_type':'TestShow','inputs':{'any':['4',0]}},"
                               "'6':{'class_type':'TestChecks','inputs':{'value':1,'mode':'a',"
                               "'either':['2',0],'text':''}},"
                               "'7':{'class_type':'TestChecks','inputs':{'value':1,'mode':'a',"
                               "'either':['1',0],'text':''}},"
                               "'8':{'class_type':'TestShow','inputs':{'any':['7',0]}}}");
    CHECK(v.prompt && v.prompt->n_output == 2);
    if (v.prompt) {
        const cJSON *inputs = graft_tree_get(graft_tree_get(v.prompt->json, "1"), "inputs");
        CHECK_JSON(inputs, "{'value':5000,'mode':'none of them','either':2.0,'text':'5.0'}");
        CHECK(v.prompt->node[0].in[2].literal.value.kind == GRAFT_FLOAT);
    }
    const cJSON *errors = graft_tree_get(graft_tree_get(v.node_errors, "7"), "errors");
    CHECK_JSON(errors, OWN_ALL(" - a link of STRING"));
    graft_validation_finish(&v);
}

/* Of inputs of any number the fault is that of the one that the node names, and the file that it
 * holds is looked for. */
static void one_of_many(void)
{
    CHECK(mkdir("models", 0777) == 0 || errno == EEXIST);
    CHECK(mkdir("models/loras", 0777) == 0);
    check_text("models/loras/wrongs.safetensors", "x");
    EXPECT("Power Lora Loader (rgthree)",
           "{'lora_1':{'lora':'right'},'lora_2':{'on':true,'lora':'wrong.safetensors'}}",
           "[{'type':'custom_validation_failed','message':'Custom validation failed for node',"
           "'details':'lora_2 - no such thing','extra_info':{'input_name':'lora_2',"
           "'folder':'models/loras','suggestions':['wrongs.safetensors']}}]");
    /* A later part of a model stands for nothing; the others are no nearer to what was meant. */
    check_text("models/loras/wrong-00002-of-00003.safetensors", "x");
    check_text("models/loras/wrong-00002-of-00004.safetensors", "x");
    check_text("models/loras/wrong-00001-of-00003.safetensors", "x");
    EXPECT("Power Lora Loader (rgthree)",
           "{'lora_2':{'on':true,'lora':'wrong-00002-of-00003.safetensors'}}",
           "[{'type':'custom_validation_failed','message':'Custom validation failed for node',"
           "'details':'lora_2 - no such thing','extra_info':{'input_name':'lora_2',"
           "'folder':'models/loras','first_part':'wrong-00001-of-00003.safetensors',"
           "'suggestions':['wrong-00001-of-00003.safetensors']}}]");
    EXPECT("Power Lora Loader (rgthree)",
           "{'lora_2':{'on':true,'lora':'wrong-00002-of-00004.safetensors'}}",
           "[{'type':'custom_validation_failed','message':'Custom validation failed for node',"
           "'details':'lora_2 - no such thing','extra_info':{'input_name':'lora_2',"
           "'folder':'models/loras','first_part':'wrong-00001-of-00004.safetensors'}}]");
    CHECK(remove("models/loras/wrong-00001-of-00003.safetensors") == 0);
    CHECK(remove("models/loras/wrong-00002-of-00003.safetensors") == 0);
    CHECK(remove("models/loras/wrong-00002-of-00004.safetensors") == 0);
    CHECK(remove("models/loras/wrongs.safetensors") == 0 && rmdir("models/loras") == 0);
    /* By name on a command line; JSON, since no type says what it is. */
    graft_err e = GRAFT_ERR_INIT;
    cJSON *prompt = parse("{'1':{'class_type':'Power Lora Loader (rgthree)','inputs':{}}}");
    CHECK_OK(graft_workflow_set(prompt, fixture.registry, "1", "lora_7",
                                "{\"on\": false, \"lora\": \"x\"}", &e),
             &e);
    CHECK_JSON(prompt, "{'1':{'class_type':'Power Lora Loader (rgthree)','inputs':{'lora_7':"
                       "{'on':false,'lora':'x'}}}}");
    CHECK_INT(graft_workflow_set(prompt, fixture.registry, "1", "lora_7", "{x", &e),
              GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "node 1, input lora_7") != NULL);
    CHECK_INT(graft_workflow_set(prompt, fixture.registry, "1", "lora_", "{}", &e),
              GRAFT_E_NOTFOUND);
    cJSON_Delete(prompt);
}

/* On a socket of any type a literal is what its form says, and stays it in the queue. */
static void written_forms(void)
{
    static const struct {
        const char *written, *printed;
        graft_kind kind;
    } c[] = {{"5", "5", GRAFT_INT},
             {"5.0", "5.0", GRAFT_FLOAT},
             {"5e0", "5.0", GRAFT_FLOAT},
             {"-0.5", "-0.5", GRAFT_FLOAT},
             {"1e300", "1e+300", GRAFT_FLOAT},
             {"18446744073709551616", "18446744073709551616.0", GRAFT_FLOAT},
             {"true", "true", GRAFT_BOOL},
             {"'x'", "'x'", GRAFT_STRING}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char text[200], wanted[100];
        snprintf(text, sizeof text, "{'1':{'class_type':'TestShow','inputs':{'any':%s}}}",
                 c[i].written);
        snprintf(wanted, sizeof wanted, "{'any':%s}", c[i].printed);
        graft_validation v = check(text);
        CHECK(v.prompt && v.prompt->node[0].in[0].literal.value.kind == c[i].kind);
        if (v.prompt)
            CHECK_JSON(graft_tree_get(graft_tree_get(v.prompt->json, "1"), "inputs"), wanted);
        graft_validation_finish(&v);
    }
}

/* Whatever JSON is sent, the answer is a verdict. */
static void hostile(void)
{
    static const char *const value[] = {"null",
                                        "true",
                                        "[]",
                                        "{}",
                                        "[[]]",
                                        "[null,null]",
                                        "['1',-1]",
                                        "['1',1e99]",
                                        "['2',0]",
                                        "['1',0,0]",
                                        "{'__value__':null}",
                                        "{'__value__':['1',0]}",
                                        "{'__value__':{}}",
                                        "''",
                                        "1e999",
                                        "-1e999",
                                        "123456789012345678901234567890",
                                        "-9223372036854775808",
                                        "'1e400'",
                                        "'99999999999999999999'",
                                        "'_1'",
                                        "'1__2'",
                                        "0.1",
                                        "[['1',0],0]",
                                        "{'a':[{}]}"};
    static const char *const class_type[] = {"TestInt",  "TestSeed", "TestSwitch", "TestText",
                                             "TestFile", "TestSum",  "TestMeasure"};
    static const char *const input[] = {"value", "seed", "on", "text", "file", "values", "thing"};
    for (size_t i = 0; i < sizeof class_type / sizeof *class_type; i++)
        for (size_t k = 0; k < sizeof value / sizeof *value; k++) {
            char text[600];
            snprintf(text, sizeof text,
                     "{'1':{'class_type':'%s','inputs':{'%s':%s}},'2':{'class_type':'TestShow',"
                     "'inputs':{'any':['1',0]}},'3':{'class_type':'TestShow','inputs':{'any':%s}},"
                     "'4':{'class_type':%s},'5':{'class_type':'TestShow','inputs':%s,'_meta':%s}}",
                     class_type[i], input[i], value[k], value[k], k % 2 ? "'TestInt'" : value[k],
                     value[k], value[k]);
            for (char *p = text; *p; p++)
                if (*p == '\'') *p = '"';
            cJSON *json = NULL;
            graft_validation v;
            if (graft_json_parse(text, strlen(text), "hostile", &json, NULL)) continue;
            CHECK(graft_validate(fixture.registry, &fixture.services.host, json, NULL, 0, &v,
                                 NULL) == GRAFT_OK);
            graft_str out = GRAFT_STR_INIT;
            graft_validation_text(&v, "x", NULL, &out);
            CHECK(!out.failed);
            graft_str_finish(&out);
            graft_validation_finish(&v);
        }
}

/* A long chain, and a prompt over the limit. */
static void large(void)
{
    graft_str s = GRAFT_STR_INIT;
    for (int i = 0; i < GRAFT_PROMPT_MAX_NODES - 1; i++)
        graft_str_printf(&s, "%c'%d':{'class_type':'TestAdd','inputs':{'a':['%d',0],'b':1}}",
                         i ? ',' : '{', i, i + 1);
    graft_str_printf(&s, ",'x':{'class_type':'TestShow','inputs':{'any':['0',0]}}");
    graft_str_puts(&s, "}");
    graft_validation v = check(s.data);
    CHECK(v.error != NULL); /* the last link has no end */
    graft_validation_finish(&v);
    s.data[s.len - 1] = 0;
    s.len--;
    graft_str_puts(&s, ",'y':1}");
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(
        graft_validate(fixture.registry, &fixture.services.host, parse(s.data), NULL, 0, &v, &e),
        GRAFT_E_LIMIT);
    graft_str_finish(&s);
}

/* Numbers are those of JSON and Python, whichever locale a plugin set. */
static void numbers_in_another_locale(void)
{
    if (locale_begin()) {
        seeds_and_choices();
        written_forms();
        graft_validation v = check("{'1':{'class_type':'TestSeed','inputs':{'seed':1,'mode':'a',"
                                   "'strength':'0.25'}},"
                                   "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}}}");
        CHECK(v.prompt && cJSON_GetObjectItemCaseSensitive(v.node_errors, "1") == NULL);
        graft_validation_finish(&v);
    }
    locale_end();
}

/* Whatever a prompt's nodes have to do with each other, it is refused soon and in few words. */
static void refused_soon(const char *what, graft_str *text, const char *const *target,
                         size_t n_target)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_validation v;
    cJSON *json = parse(text->data);
    double began = graft_clock_now();
    CHECK_OK(
        graft_validate(fixture.registry, &fixture.services.host, json, target, n_target, &v, &e),
        &e);
    double took = graft_clock_now() - began;
    char *answer = graft_json_print(v.node_errors);
    size_t size = answer ? strlen(answer) : 0;
    printf("%s: %.2f s, %zu bytes\n", what, took, size);
    CHECK(took < 4); /* it is a tenth of that, but not under sanitizers on a busy machine */
    CHECK(size < (size_t)24 << 20);
    CHECK(v.error != NULL);
    graft_free(answer);
    graft_validation_finish(&v);
    graft_str_finish(text);
}

static void put_add(graft_str *s, int i, const char *a, const char *b)
{
    graft_str_printf(s, "%c'%d':{'class_type':'TestAdd','inputs':{'a':%s,'b':%s}}", i ? ',' : '{',
                     i, a, b);
}

static void put_shows(graft_str *s, int from, int n, int of)
{
    for (int i = 0; i < n; i++)
        graft_str_printf(s, ",'%d':{'class_type':'TestShow','inputs':{'any':['%d',0]}}", from + i,
                         of);
    graft_str_puts(s, "}");
}

/* Every output needs every faulty node. */
static void chain_of_faults(void)
{
    enum { HALF = GRAFT_PROMPT_MAX_NODES / 2 };
    graft_str s = GRAFT_STR_INIT;
    char link[32];
    for (int i = 0; i < HALF; i++) {
        snprintf(link, sizeof link, "['%d',0]", i - 1);
        put_add(&s, i, i ? link : "'x'", "'x'");
    }
    put_shows(&s, HALF, HALF, HALF - 1);
    refused_soon("faults in a chain", &s, NULL, 0);
}

/* Removing what leads to a cycle, from its far end, is as long as the way there. */
static void way_to_a_cycle(void)
{
    enum { WAY = GRAFT_PROMPT_MAX_NODES - 1 };
    graft_str s = GRAFT_STR_INIT;
    char link[32], own[32];
    for (int i = 0; i < WAY; i++) {
        snprintf(link, sizeof link, "['%d',0]", i - 1);
        snprintf(own, sizeof own, "['%d',0]", i);
        put_add(&s, i, i ? link : "1", i == WAY - 1 ? own : i ? link : "1");
    }
    put_shows(&s, WAY, 1, WAY - 1);
    refused_soon("a way to a cycle", &s, NULL, 0);
}

/* Each node of a cycle is told of the others. */
static void long_cycles(void)
{
    enum { ALL = GRAFT_PROMPT_MAX_NODES - 1 };
    graft_str s = GRAFT_STR_INIT;
    char link[32];
    for (int i = 0; i < ALL; i++) {
        snprintf(link, sizeof link, "['%d',0]", (i + 1) % ALL);
        put_add(&s, i, link, "1");
    }
    put_shows(&s, ALL, 1, 0);
    refused_soon("a cycle of all", &s, NULL, 0);
    char *name = malloc(100001);
    memset(name, 'n', 100000);
    name[100000] = 0;
    for (int i = 0; i < 1000; i++) {
        snprintf(link, sizeof link, "['%d',0]", i + 1);
        put_add(&s, i, link, "1");
    }
    graft_str_printf(&s, ",'1000':{'class_type':'TestAdd','inputs':{'a':['%s',0],'b':1}}", name);
    graft_str_printf(&s, ",'%s':{'class_type':'TestAdd','inputs':{'a':['0',0],'b':1}}", name);
    put_shows(&s, 1001, 1, 0);
    refused_soon("a cycle with a long name", &s, NULL, 0);
    free(name);
}

static void many_targets(void)
{
    enum { ALL = GRAFT_PROMPT_MAX_NODES - 1, TARGETS = 200000 };
    const char **target = malloc(TARGETS * sizeof *target);
    graft_str s = GRAFT_STR_INIT;
    for (int i = 0; i < TARGETS; i++) target[i] = "a name that no node of this prompt has";
    put_add(&s, 0, "1", "1");
    put_shows(&s, 1, ALL, 0);
    refused_soon("targets", &s, target, TARGETS);
    free(target);
}

/* Many nodes that take one of many files: the folder is listed once, and told once. */
static void many_files(void)
{
    enum { FILES = 2000, LOADS = 1500 };
    graft_str s = GRAFT_STR_INIT;
    char path[64];
    CHECK(system("mkdir -p input") == 0);
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "input/a picture with a long name %d.png", i);
        check_text(path, "");
    }
    put_add(&s, 0, "'x'", "1");
    for (int i = 1; i < LOADS; i++)
        graft_str_printf(&s, ",'%d':{'class_type':'TestFile','inputs':{'file':%s}}", i,
                         i & 1 ? "5" : "['x']");
    for (int i = 0; i < LOADS; i++)
        graft_str_printf(&s, ",'%d':{'class_type':'TestShow','inputs':{'any':['%d',0]}}", LOADS + i,
                         i);
    graft_str_puts(&s, "}");
    refused_soon("files", &s, NULL, 0);
    graft_validation v = check("{'1':{'class_type':'TestFile','inputs':{'file':['x']}},"
                               "'2':{'class_type':'TestShow','inputs':{'any':['1',0]}},"
                               "'3':{'class_type':'TestFile','inputs':{'file':['x']}},"
                               "'4':{'class_type':'TestShow','inputs':{'any':['3',0]}}}");
    int config[2] = {0, 0}; /* how many choices each is told */
    const cJSON *entry;
    cJSON_ArrayForEach(entry, v.node_errors)
    {
        const cJSON *fault = cJSON_GetArrayItem(graft_tree_get(entry, "errors"), 0);
        const cJSON *told = graft_tree_get(graft_tree_get(fault, "extra_info"), "input_config");
        CHECK(told);
        config[cJSON_IsNull(told)] += 1 + cJSON_GetArraySize(cJSON_GetArrayItem(told, 0));
    }
    CHECK_INT(config[0], 1 + FILES);
    CHECK_INT(config[1], 1);
    graft_validation_finish(&v);
    CHECK(system("rm -rf input") == 0);
}

/* As Windows writes it; what is in the list itself comes first. */
static void names_with_back_slashes(void)
{
    static const char *const names[] = {"a/b.sft", "c\\d.sft", "c/d.sft", NULL};
    static const struct {
        const char *given, *want;
    } list[] = {{"a\\b.sft", "a/b.sft"}, {"c\\d.sft", "c\\d.sft"}, {"x\\b.sft", NULL}};
    const graft_input in = {.size = sizeof in, .name = "file", .type = "COMBO"};
    const graft_offer offer = {.choices = {names, 3, NULL, NULL}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_literal got = {0};
        graft_literal_fault fault = {0};
        cJSON *item = cJSON_CreateString(list[i].given);
        CHECK_OK(graft_literal_read(&offer, &in, item, false, &got, &fault, &e), &e);
        if (list[i].want)
            CHECK_STR(got.text, list[i].want);
        else
            CHECK_STR(fault.details,
                      "file: 'x\\\\b.sft' not in ['a/b.sft', 'c\\\\d.sft', 'c/d.sft']");
        CHECK(!fault.type == (list[i].want != NULL));
        cJSON_Delete(item);
        graft_literal_finish(&got);
        graft_literal_fault_finish(&fault);
    }
}

int main(void)
{
    fixture_open();
    RUN(whole_prompt);
    RUN(inputs_that_count);
    RUN(range_and_type);
    RUN(seeds_and_choices);
    RUN(links);
    RUN(cycles);
    RUN(coercion);
    RUN(missing_files);
    RUN(suggestions);
    RUN(suggested_files);
    RUN(targets_and_custom);
    RUN(own_checks);
    RUN(one_of_many);
    RUN(written_forms);
    RUN(numbers_in_another_locale);
    RUN(hostile);
    RUN(large);
    RUN(chain_of_faults);
    RUN(way_to_a_cycle);
    RUN(long_cycles);
    RUN(many_targets);
    RUN(many_files);
    RUN(names_with_back_slashes);
    fixture_close();
    return test_end();
}
