/* Every node's interface against the table of the nodes that workflows expect. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static cJSON *schema;
static const char *where = ""; /* "KSampler.seed", for messages */
static char where_text[128];

#define EXPECT(cond)                                                                               \
    do {                                                                                           \
        if (!(cond)) fprintf(stderr, "%s: ", where);                                               \
        CHECK(cond);                                                                               \
    } while (0)

static bool flag(const cJSON *o, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, name));
}

static void check_flags(const cJSON *want, const graft_input *in)
{
    const cJSON *display = cJSON_GetObjectItemCaseSensitive(want, "display");
    static const struct {
        const char *name;
        uint32_t flag;
    } flags[] = {
        {"optional", GRAFT_INPUT_OPTIONAL},
        {"multiline", GRAFT_INPUT_MULTILINE},
        {"control_after_generate", GRAFT_INPUT_SEED},
        {"dynamicPrompts", GRAFT_INPUT_DYNAMIC_PROMPTS},
        {"image_upload", GRAFT_INPUT_IMAGE_UPLOAD},
        {"advanced", GRAFT_INPUT_ADVANCED},
        {"image_output", GRAFT_INPUT_IMAGE_OUTPUT},
        {"list", GRAFT_INPUT_LIST},
        {"lazy", GRAFT_INPUT_LAZY},
        {"many", GRAFT_INPUT_MANY},
        {"series", GRAFT_INPUT_SERIES},
        {"forceInput", GRAFT_INPUT_SOCKET},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        EXPECT(flag(want, flags[i].name) == ((in->flags & flags[i].flag) != 0));
    EXPECT((display != NULL) == ((in->flags & GRAFT_INPUT_COLOR) != 0));
}

static void check_number(const cJSON *want, const graft_input *in)
{
    const cJSON *min = cJSON_GetObjectItemCaseSensitive(want, "min");
    const cJSON *initial = cJSON_GetObjectItemCaseSensitive(want, "default");
    double lo = 0, hi = 0, value = 0;
    bool is_int = in->kind == GRAFT_INT;
    if (min) graft_json_f64(min, &lo), graft_json_f64(cJSON_GetObjectItem(want, "max"), &hi);
    if (initial) graft_json_f64(initial, &value);
    EXPECT(in->min == lo && in->max == hi);
    EXPECT((is_int ? (double)in->initial.i : in->initial.f) == value);
    EXPECT(in->step == graft_json_num(want, "step", 0));
    EXPECT(in->round == graft_json_num(want, "round", 0));
    EXPECT(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(want, "round")) ==
           ((in->flags & GRAFT_INPUT_EXACT) != 0));
    EXPECT((hi > 1e19) == ((in->flags & GRAFT_INPUT_U64) != 0));
}

static void check_choices(const cJSON *want, const graft_node *node, const graft_input *in)
{
    const cJSON *choices = cJSON_GetObjectItemCaseSensitive(want, "choices");
    const char *initial = graft_json_str(want, "default", NULL);
    EXPECT((choices != NULL) == (in->choices != NULL));
    EXPECT(!in->initial.s == !initial);
    if (initial && in->initial.s) CHECK_STR(in->initial.s, initial);
    if (!choices) {
        EXPECT(node->query && node->query(GRAFT_CHOICES_ID));
        return;
    }
    int n = 0;
    for (const cJSON *c = choices->child; c; c = c->next, n++)
        EXPECT(in->choices[n] && strcmp(in->choices[n], c->valuestring) == 0);
    EXPECT(!in->choices[n]);
}

static void check_input(const cJSON *want, const graft_node *node, const graft_input *in)
{
    const char *type = graft_json_str(want, "type", "");
    snprintf(where_text, sizeof where_text, "%s.%s", node->id, in->name);
    where = where_text;
    EXPECT(in->size == sizeof *in);
    EXPECT(strcmp(in->name, graft_json_str(want, "name", "")) == 0);
    EXPECT(strcmp(in->type, type) == 0);
    EXPECT(in->tooltip && strlen(in->tooltip) > 10);
    EXPECT(in->tooltip && in->tooltip[strlen(in->tooltip) - 1] == '.');
    check_flags(want, in);
    CHECK_STR(in->when ? in->when : "", graft_json_str(want, "when", ""));
    if (strcmp(type, "INT") == 0) {
        EXPECT(in->kind == GRAFT_INT);
        check_number(want, in);
    } else if (strcmp(type, "FLOAT") == 0) {
        EXPECT(in->kind == GRAFT_FLOAT);
        check_number(want, in);
    } else if (strcmp(type, "BOOLEAN") == 0) {
        EXPECT(in->kind == GRAFT_BOOL && in->initial.i == flag(want, "default"));
    } else if (strcmp(type, "COMBO") == 0) {
        EXPECT(in->kind == GRAFT_CHOICE);
        check_choices(want, node, in);
    } else if (strcmp(type, "STRING") == 0) {
        const char *initial = graft_json_str(want, "default", NULL);
        EXPECT(in->kind == GRAFT_STRING && !in->initial.s == !initial);
        if (initial && in->initial.s) CHECK_STR(in->initial.s, initial);
    } else {
        EXPECT(in->kind == GRAFT_OBJECT);
    }
}

static void check_node(const cJSON *want, const graft_node *node)
{
    const cJSON *inputs = cJSON_GetObjectItemCaseSensitive(want, "inputs");
    const cJSON *outputs = cJSON_GetObjectItemCaseSensitive(want, "outputs");
    int i = 0, o = 0;
    where = node->id;
    EXPECT(node->size == sizeof *node);
    CHECK_STR(node->title, graft_json_str(want, "title", ""));
    CHECK_STR(node->category, graft_json_str(want, "category", ""));
    EXPECT(node->description && strlen(node->description) > 20);
    EXPECT(node->flags == ((flag(want, "output_node") ? GRAFT_NODE_OUTPUT : 0u) |
                           (flag(want, "deprecated") ? GRAFT_NODE_DEPRECATED : 0u) |
                           (flag(want, "experimental") ? GRAFT_NODE_EXPERIMENTAL : 0u) |
                           (flag(want, "not_idempotent") ? GRAFT_NODE_NOT_IDEMPOTENT : 0u)));
    EXPECT(node->create && node->destroy && node->execute);
    for (const cJSON *in = inputs->child; in; in = in->next, i++) {
        EXPECT(node->inputs[i] != NULL);
        if (!node->inputs[i]) return;
        check_input(in, node, node->inputs[i]);
        where = node->id;
    }
    EXPECT(!node->inputs[i]);
    for (const cJSON *out = outputs->child; out; out = out->next, o++) {
        const graft_output *have = node->outputs[o];
        EXPECT(have && have->size == sizeof *have &&
               have->flags == (flag(out, "list") ? GRAFT_OUTPUT_LIST : 0u));
        if (!have) return;
        CHECK_STR(have->name, graft_json_str(out, "name", ""));
        CHECK_STR(have->type, graft_json_str(out, "type", ""));
        EXPECT(have->tooltip && strlen(have->tooltip) > 8);
    }
    EXPECT(!node->outputs[o]);
}

static void every_expected_node_matches(void)
{
    for (const cJSON *want = schema->child; want; want = want->next) {
        const graft_node *node = fake_host_node(graft_json_str(want, "class", ""));
        where = graft_json_str(want, "class", "");
        EXPECT(node != NULL);
        if (node) check_node(want, node);
    }
}

static void every_node_is_expected(void)
{
    const graft_node *node;
    int n = 0;
    for (uint32_t i = 0; (node = graft_plugin_entry.node(i)); i++, n++) {
        int seen = 0;
        for (const cJSON *want = schema->child; want; want = want->next)
            seen += strcmp(graft_json_str(want, "class", ""), node->id) == 0;
        where = node->id;
        EXPECT(seen == 1);
    }
    CHECK_INT(n, cJSON_GetArraySize(schema));
    CHECK(!graft_plugin_entry.node(0xffffffffu));
}

/* Two inputs that a user sees side by side and that read the same help nobody. */
static void tooltips_differ_within_a_node(void)
{
    const graft_node *node;
    for (uint32_t i = 0; (node = graft_plugin_entry.node(i)); i++)
        for (int a = 0; node->inputs[a]; a++)
            for (int b = a + 1; node->inputs[b]; b++) {
                where = node->id;
                EXPECT(strcmp(node->inputs[a]->tooltip, node->inputs[b]->tooltip) != 0);
            }
}

int main(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char *text = NULL;
    size_t n = 0;
    CHECK_OK(graft_file_read(GRAFT_SOURCE_DIR "/tests/nodes/schema.json", 1 << 20, &text, &n, &e),
             &e);
    if (!text) return test_end();
    CHECK_OK(graft_json_parse(text, n, "schema.json", &schema, &e), &e);
    graft_free(text);
    if (!schema) return test_end();
    RUN(every_expected_node_matches);
    RUN(every_node_is_expected);
    RUN(tooltips_differ_within_a_node);
    cJSON_Delete(schema);
    return test_end();
}
