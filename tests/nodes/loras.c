/* rgthree's loader of any number of LoRAs: which are added, in which order, and how files are
 * found. */
#include "tests/nodes/connected.h"

#define NODE "Power Lora Loader (rgthree)"

static const graft_node *node;

/* Rows as JSON with ' in place of ". NULL: none. */
static graft_arg rows(const char *text)
{
    static char copy[1000];
    if (!text) return (graft_arg){.kind = GRAFT_NONE};
    snprintf(copy, sizeof copy, "%s", text);
    for (char *p = copy; *p; p++)
        if (*p == '\'') *p = '"';
    return (graft_arg){.kind = GRAFT_STRING, .u.s = copy};
}

static graft_status run(const char *text, bool with_model, bool with_clip, graft_arg *out)
{
    graft_arg in[3] = {{.kind = GRAFT_NONE}, {.kind = GRAFT_NONE}, rows(text)};
    if (with_model) in[0] = model[0];
    if (with_clip) in[1] = model[1];
    memset(out, 0, 4 * sizeof *out);
    return run_with(NODE, in, out);
}

static void expect(const char *text, bool with_clip, const char *want)
{
    graft_arg out[4];
    CHECK_INT(run(text, true, with_clip, out), GRAFT_OK);
    CHECK_STR(fake_trace, want);
    CHECK(out[0].kind == GRAFT_OBJECT && strcmp(out[0].u.v->ops->type, "MODEL") == 0);
    CHECK((out[1].kind == GRAFT_OBJECT) == with_clip);
    fake_host_release(out, 4);
}

static void rows_are_added_in_turn(void)
{
    expect("{'lora_1':{'on':true,'lora':'file.safetensors','strength':0.75},"
           "'lora_2':{'on':false,'lora':'gone.safetensors','strength':1},"
           "'lora_7':{'on':true,'lora':'sub/deep.safetensors','strength':-1,'strengthTwo':0.5},"
           "'lora_3':{'on':true,'lora':'file.safetensors','strength':2,'strengthTwo':null}}",
           true,
           "lora file.safetensors 0.75 0.75 clip=1\nlora deep.safetensors -1 0.5 clip=1\n"
           "lora file.safetensors 2 2 clip=1\n");
    /* Without an encoder there is no strength for one. */
    expect("{'lora_1':{'on':true,'lora':'file.safetensors','strength':0.5,'strengthTwo':3},"
           "'lora_2':{'on':true,'lora':'file.safetensors','strength':0,'strengthTwo':3}}",
           false, "lora file.safetensors 0.5 0 clip=0\n");
    expect("{'lora_1':{'on':true,'lora':'file.safetensors','strength':0,'strengthTwo':3}}", true,
           "lora file.safetensors 0 3 clip=1\n");
}

/* Rows that change nothing, and what else files have under such names. */
static void some_rows_do_nothing(void)
{
    static const char *const list[] = {
        NULL,
        "{}",
        "{'lora_1':{'on':true,'lora':'None','strength':1}}",
        "{'lora_1':{'on':true,'lora':null,'strength':1}}",
        "{'lora_1':{'on':true,'lora':'','strength':1}}",
        "{'lora_1':{'on':true,'lora':'gone','strength':0,'strengthTwo':0}}",
        "{'lora_1':{'on':true,'lora':'gone'},'lora_2':{'lora':'gone','strength':1}}",
        "{'lora_1':{'type':'x'},'lora_2':5,'lora_3':'on'}"};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        graft_arg out[4];
        expect(list[i], true, "");
        CHECK_INT(run(list[i], true, true, out), GRAFT_OK);
        /* What went in comes out. */
        CHECK(graft_value_object(out[0].u.v, GRAFT_VALUE_MODEL) ==
              graft_value_object(model[0].u.v, GRAFT_VALUE_MODEL));
        fake_host_release(out, 4);
    }
    graft_arg out[4];
    CHECK_INT(
        run("{'lora_1':{'on':true,'lora':'file.safetensors','strength':1}}", false, true, out),
        GRAFT_OK);
    CHECK_STR(fake_trace, "");
    CHECK(out[0].kind == GRAFT_NONE && out[1].kind == GRAFT_OBJECT);
    fake_host_release(out, 4);
}

/* Exactly; then without the ending; then in another folder; then both. */
static void files_are_found(void)
{
    static const char *const list[][2] = {{"file.safetensors", "file.safetensors"},
                                          {"file", "file.safetensors"},
                                          {"sub\\\\deep.safetensors", "deep.safetensors"},
                                          {"sub/deep", "deep.safetensors"},
                                          {"elsewhere\\\\deep.safetensors", "deep.safetensors"},
                                          {"else/where/deep", "deep.safetensors"},
                                          {"v1.5", "v1.5.safetensors"},
                                          {"sub/v1.5.safetensors", "v1.5.safetensors"},
                                          {"x/v1", "v1.sft"}};
    char text[200], want[200];
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        snprintf(text, sizeof text, "{'lora_1':{'on':true,'lora':'%s','strength':1}}", list[i][0]);
        snprintf(want, sizeof want, "lora %s 1 1 clip=1\n", list[i][1]);
        expect(text, true, want);
    }
}

static void check_fault(const char *text, const char *name, const char *says)
{
    const graft_validate_api *api = node->query(GRAFT_VALIDATE_ID);
    graft_arg in[3] = {{.kind = GRAFT_NONE}, {.kind = GRAFT_NONE}, rows(text)}, out[4];
    char why[512] = "";
    const char *input = NULL;
    CHECK(api->check(&host.host, in, &input, why, sizeof why) != GRAFT_OK);
    CHECK_STR(input, name);
    if (!strstr(why, says)) fprintf(stderr, "%s\n", why);
    CHECK(strstr(why, says) != NULL);
    CHECK(run(text, true, true, out) != GRAFT_OK);
    CHECK_STR(host.fail_input, name);
    CHECK(strstr(host.fail_text, says) != NULL);
}

static void faults_name_the_row(void)
{
    check_fault("{'lora_1':{'on':true,'lora':'file','strength':1},"
                "'lora_2':{'on':true,'lora':'gone.safetensors','strength':1}}",
                "lora_2", "gone.safetensors");
    check_fault("{'lora_4':{'on':true,'lora':'file','strength':'much'}}", "lora_4", "strength");
    check_fault("{'lora_4':{'on':1,'lora':'file','strength':1,'strengthTwo':[]}}", "lora_4",
                "strength");
    check_fault("{'lora_4':{'on':true,'lora':'../vae/nothing','strength':1}}", "lora_4", "");
    graft_arg in[3] = {model[0], model[1],
                       rows("{'lora_1':{'on':true,'lora':'file','strength':1}}")};
    const graft_validate_api *api = node->query(GRAFT_VALIDATE_ID);
    const char *input = NULL;
    char why[512] = "";
    CHECK_INT(api->check(&host.host, in, &input, why, sizeof why), GRAFT_OK);
    in[2].kind = GRAFT_NONE;
    CHECK_INT(api->check(&host.host, in, &input, why, sizeof why), GRAFT_OK);
}

/* Results are kept while the files of the rows that count stay as they are. */
static void fingerprints_follow_the_files(void)
{
    const graft_fingerprint_api *api = node->query(GRAFT_FINGERPRINT_ID);
    graft_arg in[3] = {{.kind = GRAFT_NONE}, {.kind = GRAFT_NONE}, {.kind = GRAFT_NONE}};
    char a[64] = "", b[64] = "", c[64] = "";
    in[2] = rows("{'lora_1':{'on':true,'lora':'sub/deep','strength':1},"
                 "'lora_2':{'on':false,'lora':'file','strength':1}}");
    CHECK_INT(api->get(&host.host, in, a, sizeof a), GRAFT_OK);
    fake_host_put(&host, "loras", "file.safetensors", "changed", 7);
    CHECK_INT(api->get(&host.host, in, b, sizeof b), GRAFT_OK);
    CHECK_STR(a, b);
    fake_host_put(&host, "loras", "sub/deep.safetensors", "changed", 7);
    CHECK_INT(api->get(&host.host, in, c, sizeof c), GRAFT_OK);
    CHECK(strcmp(a, c) != 0);
    in[2] = rows("{'lora_1':{'on':true,'lora':'gone','strength':1}}");
    CHECK(api->get(&host.host, in, c, sizeof c) != GRAFT_OK);
}

/* Of a file in parts all of them count. */
static void fingerprints_follow_all_parts(void)
{
    const graft_fingerprint_api *api = node->query(GRAFT_FINGERPRINT_ID);
    graft_arg in[3] = {{.kind = GRAFT_NONE}, {.kind = GRAFT_NONE}, {.kind = GRAFT_NONE}};
    char a[64] = "", b[64] = "";
    in[2] = rows("{'lora_1':{'on':true,'lora':'big-00001-of-00002','strength':1}}");
    fake_host_put(&host, "loras", "big-00001-of-00002.safetensors", "one", 3);
    CHECK(api->get(&host.host, in, a, sizeof a) != GRAFT_OK);
    fake_host_put(&host, "loras", "big-00002-of-00002.safetensors", "two", 3);
    CHECK_INT(api->get(&host.host, in, a, sizeof a), GRAFT_OK);
    fake_host_put(&host, "loras", "big-00002-of-00002.safetensors", "other", 5);
    CHECK_INT(api->get(&host.host, in, b, sizeof b), GRAFT_OK);
    CHECK(strcmp(a, b) != 0);
}

static void memory_may_end_anywhere(void)
{
    const char *text = "{'lora_1':{'on':true,'lora':'sub\\\\deep','strength':1},"
                       "'lora_2':{'on':true,'lora':'file','strength':1}}";
    graft_alloc_stats before, after;
    graft_status st = GRAFT_E_NOMEM;
    graft_arg in[3] = {model[0], model[1], rows(text)}, out[4];
    graft_alloc_stats_get(&before);
    for (int i = 1; st != GRAFT_OK && i < 2000; i++) {
        memset(out, 0, sizeof out);
        graft_alloc_fail_at(i);
        st = fake_host_run(&host, node, in, out, NULL, 0);
        graft_alloc_fail_at(0);
    }
    CHECK_INT(st, GRAFT_OK);
    fake_host_release(out, 4);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

int main(void)
{
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    node = fake_host_node(NODE);
    fake_host_put(&host, "loras", "sub/deep.safetensors", "x", 1);
    fake_host_put(&host, "loras", "v1.5.safetensors", "x", 1);
    fake_host_put(&host, "loras", "v1.sft", "x", 1);
    RUN(make_inputs);
    if (test_failures == 0) {
        RUN(rows_are_added_in_turn);
        RUN(some_rows_do_nothing);
        RUN(files_are_found);
        RUN(faults_name_the_row);
        RUN(fingerprints_follow_the_files);
        RUN(fingerprints_follow_all_parts);
        RUN(memory_may_end_anywhere);
    }
    check_nothing_is_left();
    return test_end();
}
