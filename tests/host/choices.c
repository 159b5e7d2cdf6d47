/* Comments and choices in prompts: which texts can come out, and what decides. */
#include "host/prompt/choices.h"
#include "tests/host/fixture.h"

/* Every one of `wanted` (NULL ends it) comes out for some number, and nothing else does. */
static void expect(const char *text, const char *const *wanted, int line)
{
    unsigned seen = 0, n = 0;
    while (wanted[n]) n++;
    for (uint64_t seed = 0; seed < 200; seed++) {
        uint64_t state = seed;
        graft_str out = GRAFT_STR_INIT;
        graft_choices_text(&out, text, &state);
        unsigned i = 0;
        while (i < n && strcmp(out.data ? out.data : "", wanted[i]) != 0) i++;
        if (i == n) printf("line %d: \"%s\" gives \"%s\"\n", line, text, out.data);
        CHECK(i < n);
        seen |= 1u << i;
        graft_str_finish(&out);
    }
    if (seen != (1u << n) - 1) printf("line %d: \"%s\" never gives all\n", line, text);
    CHECK_INT(seen, (1u << n) - 1);
}
#define EXPECT(text, ...) expect(text, (const char *const[]){__VA_ARGS__, NULL}, __LINE__)

static void texts(void)
{
    EXPECT("a (red:1.2) \\(apple\\)", "a (red:1.2) \\(apple\\)");
    EXPECT("{red|green|blue} apple", "red apple", "green apple", "blue apple");
    EXPECT("{a|{b|c} d}{|!}", "a", "a!", "b d", "b d!", "c d", "c d!");
    EXPECT("{one}", "one");
    EXPECT("{}", "");
    EXPECT("\\{a\\|b\\} {c\\|d|e\\}}", "{a|b} c|d", "{a|b} e}");
    EXPECT("\\\\{a|b}", "\\\\a", "\\\\b");
    EXPECT("{a|b", "a", "b");
    EXPECT("a|b} c\\", "a|b} c\\");
    EXPECT("red // not green\napple /* nor\nblue */, 3d", "red \napple , 3d");
    EXPECT("{a//|b}\n|c}", "a\n", "c");
    EXPECT("/* never ends", "/* never ends");
    EXPECT("a / b * c", "a / b * c");
    char deep[4001], *end = deep + 2000;
    memset(deep, '{', 2000);
    memset(end, '}', 2000);
    deep[4000] = 0;
    uint64_t state = 1;
    graft_str out = GRAFT_STR_INIT;
    graft_choices_text(&out, deep, &state); /* ends */
    CHECK(!out.failed);
    graft_str_finish(&out);
}

static const char *chosen(const char *prompt, char *room, size_t size)
{
    graft_err e = GRAFT_ERR_INIT;
    cJSON *json = parse(prompt);
    CHECK_OK(graft_choices_make(json, fixture.registry, &e), &e);
    const cJSON *inputs = graft_tree_get(graft_tree_get(json, "2"), "inputs");
    snprintf(room, size, "%s", graft_json_str(inputs, "text", "(none)"));
    cJSON_Delete(json);
    return room;
}

/* Seeds decide, and the node: not what else the prompt has, nor when it is asked. */
static void seeds(void)
{
    char text[700], a[40], b[40];
    unsigned seen = 0;
    for (int seed = 0; seed < 40; seed++) {
        snprintf(text, sizeof text,
                 "{'1':{'class_type':'TestSeed','inputs':{'seed':%d}},'2':{'class_type':'TestText',"
                 "'inputs':{'text':'{0|1|2|3}'}}}",
                 seed);
        chosen(text, a, sizeof a);
        snprintf(text, sizeof text,
                 "{'3':{'class_type':'Unknown','inputs':{'seed':[1]}},'2':{'class_type':'TestText',"
                 "'inputs':{'text':'{0|1|2|3}'}},'1':{'class_type':'TestSeed','inputs':{'seed':%d,"
                 "'strength':2}}}",
                 seed);
        CHECK_STR(chosen(text, b, sizeof b), a);
        CHECK(a[0] >= '0' && a[0] <= '3' && !a[1]);
        seen |= 1u << (a[0] - '0');
    }
    CHECK_INT(seen, 15);
    CHECK_STR(chosen("{'2':{'class_type':'TestText','inputs':{'text':['1',0]}}}", a, sizeof a),
              "(none)");
    graft_err e = GRAFT_ERR_INIT;
    cJSON *json = parse("{'2':{'class_type':'TestSave','inputs':{'filename_prefix':'{x}//','text':"
                        "'{x}//'}}}");
    CHECK_OK(graft_choices_make(json, fixture.registry, &e), &e);
    CHECK_JSON(json,
               "{'2':{'class_type':'TestSave','inputs':{'filename_prefix':'{x}//','text':'x'}}}");
    cJSON_Delete(json);
}

/* Editors choose as they send; who sends a prompt himself means what it says. */
static void files(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_workflow w;
    const char *graph =
        "{\"nodes\":[{\"id\":1,\"type\":\"TestText\",\"widgets_values\":[\"{a}\"]}]}";
    const char *prompt = "{\"1\":{\"class_type\":\"TestText\",\"inputs\":{\"text\":\"{a}\"}}}";
    CHECK_OK(graft_workflow_parse(graph, strlen(graph), "x", fixture.registry, &w, &e), &e);
    CHECK(w.editor);
    graft_workflow_finish(&w);
    CHECK_OK(graft_workflow_parse(prompt, strlen(prompt), "x", fixture.registry, &w, &e), &e);
    CHECK(!w.editor);
    graft_workflow_finish(&w);
}

int main(void)
{
    fixture_open();
    RUN(texts);
    RUN(seeds);
    RUN(files);
    fixture_close();
    return test_end();
}
