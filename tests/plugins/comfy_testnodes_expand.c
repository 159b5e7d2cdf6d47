/* Nodes that give nodes in place of values: loops, mixtures, cycles, a sampling. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plugins/comfy_testnodes.h"

#define VALUES 5 /* that a loop carries from one round to the next */

/* ---- building a part. cJSON copes with NULL, so what failed shows at the end. */

static cJSON *add_node(cJSON *part, const char *id, const char *class_type)
{
    cJSON *node = cJSON_AddObjectToObject(part, id);
    cJSON_AddStringToObject(node, "class_type", class_type);
    return cJSON_AddObjectToObject(node, "inputs");
}
static cJSON *link_to(const char *id, int slot)
{
    cJSON *link = cJSON_CreateArray();
    cJSON_AddItemToArray(link, cJSON_CreateString(id));
    cJSON_AddItemToArray(link, cJSON_CreateNumber(slot));
    return link;
}
static void add_link(cJSON *inputs, const char *name, const char *id, int slot)
{
    cJSON_AddItemToObject(inputs, name, link_to(id, slot));
}
static cJSON *node_json(graft_job *j, const char *id)
{
    const char *text = expand_api->node(j, id);
    return text ? cJSON_Parse(text) : NULL;
}
static cJSON *inputs_of(const cJSON *node)
{
    return cJSON_GetObjectItemCaseSensitive(node, "inputs");
}
/* An input of the node that runs goes on to a node of the part as it stands in the prompt: what
 * came along a link comes along it again. */
static void hand_on(cJSON *to, const char *name, const cJSON *own, const char *own_name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(inputs_of(own), own_name);
    if (item) cJSON_AddItemToObject(to, name, cJSON_Duplicate(item, 1));
}
static cJSON *own_node(graft_job *j)
{
    return node_json(j, prompt_api->node_id(j));
}
/* Frees all three. */
static graft_status expand(graft_job *j, cJSON *part, cJSON *results, cJSON *own)
{
    char *a = cJSON_PrintUnformatted(part), *b = cJSON_PrintUnformatted(results);
    graft_status st = a && b ? expand_api->expand(j, a, b) : no_memory(j);
    free(a);
    free(b);
    cJSON_Delete(part);
    cJSON_Delete(results);
    cJSON_Delete(own);
    return st;
}
static const char *first_of(const cJSON *link)
{
    const cJSON *id = cJSON_IsArray(link) ? cJSON_GetArrayItem(link, 0) : NULL;
    return cJSON_GetArraySize(link) == 2 && cJSON_IsString(id) ? id->valuestring : NULL;
}

/* ---- mixtures */

static void add_stub(cJSON *part, const char *id, const char *content)
{
    cJSON *inputs = add_node(part, id, "StubImage");
    cJSON_AddStringToObject(inputs, "content", content);
    cJSON_AddNumberToObject(inputs, "height", 512);
    cJSON_AddNumberToObject(inputs, "width", 512);
    cJSON_AddNumberToObject(inputs, "batch_size", 1);
}
static void add_mask(cJSON *part, double value)
{
    cJSON *inputs = add_node(part, "mask", "StubMask");
    cJSON_AddNumberToObject(inputs, "value", value);
    cJSON_AddNumberToObject(inputs, "height", 512);
    cJSON_AddNumberToObject(inputs, "width", 512);
    cJSON_AddNumberToObject(inputs, "batch_size", 1);
}
/* Small numbers give a grey picture, larger ones nodes that mix one; white is always a value. */
static graft_status run_mixed(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    double v = in[0].u.f;
    graft_status st = give_image(j, &out[1], 1, 1, 512, 512);
    if (st) return st;
    if (v <= 0.2) {
        st = give_image(j, &out[0], v <= 0.1 ? 0.1f : 0.2f, 1, 512, 512);
    } else {
        cJSON *part = cJSON_CreateObject(), *results = cJSON_CreateArray();
        add_mask(part, 0.3);
        add_stub(part, "black", "BLACK");
        add_stub(part, "white", "WHITE");
        cJSON *mix = add_node(part, "mix", "TestLazyMixImages");
        add_link(mix, "image1", "black", 0);
        add_link(mix, "image2", "white", 0);
        add_link(mix, "mask", "mask", 0);
        cJSON_AddItemToArray(results, link_to("mix", 0));
        cJSON_AddItemToArray(results, cJSON_CreateNull());
        st = expand(j, part, results, NULL);
    }
    if (!st) return GRAFT_OK;
    out[1].u.v->ops->release(out[1].u.v);
    memset(&out[1], 0, sizeof out[1]);
    return st;
}
/* Two nodes that wait for each other. */
static graft_status run_cycle(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)in, (void)out;
    cJSON *part = cJSON_CreateObject(), *results = cJSON_CreateArray(), *own = own_node(j);
    add_mask(part, 0.5);
    cJSON *one = add_node(part, "one", "TestLazyMixImages");
    hand_on(one, "image1", own, "input1");
    add_link(one, "image2", "two", 0);
    add_link(one, "mask", "mask", 0);
    cJSON *two = add_node(part, "two", "TestLazyMixImages");
    add_link(two, "image1", "one", 0);
    hand_on(two, "image2", own, "input2");
    add_link(two, "mask", "mask", 0);
    cJSON_AddItemToArray(results, link_to("one", 0));
    return expand(j, part, results, own);
}

/* ---- asynchronous parts */

static graft_status run_parallel(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)out;
    cJSON *part = cJSON_CreateObject(), *results = cJSON_CreateArray(), *own = own_node(j);
    cJSON *mean = add_node(part, "mean", "TestVariadicAverage");
    for (int i = 1; i <= 3; i++) {
        char id[20], image[20], input[20];
        snprintf(id, sizeof id, "sleep%d", i);
        snprintf(image, sizeof image, "image%d", i);
        snprintf(input, sizeof input, "input%d", i);
        cJSON *sleep = add_node(part, id, "TestSleep");
        hand_on(sleep, "value", own, image);
        cJSON_AddNumberToObject(sleep, "seconds", in[2 + i].u.f);
        add_link(mean, input, id, 0);
    }
    cJSON_AddItemToArray(results, link_to("mean", 0));
    return expand(j, part, results, own);
}
static graft_status run_generate(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)out;
    cJSON *part = cJSON_CreateObject(), *results = cJSON_CreateArray(), *own = own_node(j);
    cJSON *mean = add_node(part, "mean", "TestVariadicAverage");
    for (int i = 1; i <= (int)in[2].u.i; i++) {
        char id[20], input[20];
        snprintf(id, sizeof id, "sleep%d", i);
        snprintf(input, sizeof input, "input%d", i);
        cJSON *sleep = add_node(part, id, "TestSleep");
        hand_on(sleep, "value", own, i % 2 ? "image1" : "image2");
        cJSON_AddNumberToObject(sleep, "seconds", in[3].u.f);
        add_link(mean, input, id, 0);
    }
    cJSON_AddItemToArray(results, link_to("mean", 0));
    return expand(j, part, results, own);
}

static graft_status run_sampling(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)in, (void)out;
    cJSON *part = cJSON_CreateObject(), *results = cJSON_CreateArray(), *own = own_node(j);
    static const char *const text[] = {"prompt", "negative_prompt"};
    cJSON *latent = add_node(part, "latent", "EmptyLatentImage");
    cJSON_AddNumberToObject(latent, "width", 64);
    cJSON_AddNumberToObject(latent, "height", 64);
    cJSON_AddNumberToObject(latent, "batch_size", 1);
    for (int i = 0; i < 2; i++) {
        cJSON *encode = add_node(part, text[i], "CLIPTextEncode");
        hand_on(encode, "clip", own, "clip");
        hand_on(encode, "text", own, text[i]);
    }
    cJSON *sample = add_node(part, "sample", "KSampler");
    hand_on(sample, "model", own, "model");
    hand_on(sample, "seed", own, "seed");
    hand_on(sample, "steps", own, "steps");
    hand_on(sample, "cfg", own, "cfg");
    cJSON_AddStringToObject(sample, "sampler_name", "euler");
    cJSON_AddStringToObject(sample, "scheduler", "normal");
    add_link(sample, "positive", "prompt", 0);
    add_link(sample, "negative", "negative_prompt", 0);
    add_link(sample, "latent_image", "latent", 0);
    cJSON_AddNumberToObject(sample, "denoise", 1);
    cJSON *decode = add_node(part, "decode", "VAEDecode");
    add_link(decode, "samples", "sample", 0);
    hand_on(decode, "vae", own, "vae");
    cJSON_AddItemToArray(results, link_to("decode", 0));
    return expand(j, part, results, own);
}

/* ---- loops */

static const char *const value_name[VALUES] = {"initial_value0", "initial_value1", "initial_value2",
                                               "initial_value3", "initial_value4"};

static graft_status run_while_open(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)j;
    give_constant(&out[0], &flow_control);
    for (int i = 0; i < VALUES; i++) pass(&out[1 + i], &in[1 + i]);
    return GRAFT_OK;
}

/* The nodes upstream of a loop's end, each with whether it depends on the loop's beginning. */
typedef struct upstream {
    cJSON *node; /* object: id -> {"class_type", "inputs"} */
    const char *open;
} upstream;
enum { OUTSIDE, INSIDE };
static int visit(graft_job *j, upstream *u, const char *id)
{
    cJSON *seen = cJSON_GetObjectItemCaseSensitive(u->node, id);
    if (seen) {
        const cJSON *mark = cJSON_GetObjectItemCaseSensitive(seen, "mark");
        return mark ? mark->valueint : OUTSIDE;
    }
    seen = node_json(j, id);
    if (!seen) return OUTSIDE;
    cJSON_AddItemToObject(u->node, id, seen);
    int is_open = strcmp(id, u->open) == 0, found = is_open ? INSIDE : OUTSIDE;
    for (const cJSON *in = is_open ? NULL : inputs_of(seen)->child; in; in = in->next) {
        const char *from = first_of(in);
        if (from && visit(j, u, from) == INSIDE) found = INSIDE;
    }
    cJSON_AddNumberToObject(seen, "mark", found);
    return found;
}
static int is_inside(const upstream *u, const char *id)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(u->node, id);
    const cJSON *mark = cJSON_GetObjectItemCaseSensitive(node, "mark");
    return mark && mark->valueint == INSIDE;
}
/* A name for the copy of a node that no id of a prompt has. */
static void copy_name(const upstream *u, const char *id, char name[32])
{
    int n = 0;
    const cJSON *node;
    cJSON_ArrayForEach(node, u->node)
    {
        if (strcmp(node->string, id) == 0) break;
        n++;
    }
    snprintf(name, 32, "~%d", n);
}
static void copy_node(cJSON *part, const upstream *u, const cJSON *node)
{
    char name[32];
    cJSON *copy = cJSON_Duplicate(node, 1), *input;
    cJSON_DeleteItemFromObjectCaseSensitive(copy, "mark");
    cJSON_DeleteItemFromObjectCaseSensitive(copy, "override_display_id");
    cJSON_AddStringToObject(copy, "override_display_id", node->string);
    cJSON_ArrayForEach(input, inputs_of(copy))
    {
        const char *from = first_of(input);
        if (!from || !is_inside(u, from)) continue;
        copy_name(u, from, name);
        cJSON_ReplaceItemInArray(input, 0, cJSON_CreateString(name));
    }
    copy_name(u, node->string, name);
    cJSON_AddItemToObject(part, name, copy);
}
/* One more round: copies of all between the beginning and this node, which begin with what this
 * round ended with. */
static graft_status next_round(graft_job *j, const char *open)
{
    const char *id = prompt_api->node_id(j);
    upstream u = {cJSON_CreateObject(), open};
    cJSON *part = cJSON_CreateObject(), *results = cJSON_CreateArray();
    char name[32];
    visit(j, &u, id);
    const cJSON *node;
    cJSON_ArrayForEach(node, u.node) if (is_inside(&u, node->string)) copy_node(part, &u, node);
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(u.node, id);
    copy_name(&u, open, name);
    cJSON *begin = inputs_of(cJSON_GetObjectItemCaseSensitive(part, name));
    for (int i = 0; i < VALUES; i++) {
        cJSON_DeleteItemFromObjectCaseSensitive(begin, value_name[i]);
        hand_on(begin, value_name[i], own, value_name[i]);
    }
    copy_name(&u, id, name);
    for (int i = 0; i < VALUES; i++) cJSON_AddItemToArray(results, link_to(name, i));
    return expand(j, part, results, u.node);
}
static graft_status run_while_close(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    if (in[1].u.i) {
        cJSON *link = cJSON_Parse(in[0].u.s);
        const char *open = first_of(link);
        graft_status st = open ? next_round(j, open) : fail(j, "flow_control is not linked");
        cJSON_Delete(link);
        return st;
    }
    for (int i = 0; i < VALUES; i++) pass(&out[i], &in[2 + i]);
    return GRAFT_OK;
}

/* A loop that counts down is a while loop whose first value is what remains: from the second round
 * on an input that the node does not declare. The beginning of that loop is a node of its own,
 * which nothing needs. */
static graft_status run_for_open(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    const graft_arg *remaining = &in[0];
    for (uint64_t k = 0; k < dynamic_api->count(j); k++)
        if (strcmp(dynamic_api->name(j, k), value_name[0]) == 0) remaining = &in[VALUES + k];
    if (remaining->kind != GRAFT_INT) return fail(j, "what remains is no whole number");
    cJSON *part = cJSON_CreateObject(), *results = cJSON_CreateArray(), *own = own_node(j);
    cJSON *open = add_node(part, "~open", "TestWhileLoopOpen");
    cJSON_AddBoolToObject(open, "condition", remaining->u.i != 0);
    cJSON_AddNumberToObject(open, value_name[0], (double)remaining->u.i);
    for (int i = 1; i < VALUES; i++) hand_on(open, value_name[i], own, value_name[i]);
    for (int i = 0; i < VALUES + 1; i++) cJSON_AddItemToArray(results, cJSON_CreateNull());
    graft_status st = expand(j, part, results, own);
    if (st) return st;
    give_constant(&out[0], &flow_control);
    pass(&out[1], remaining);
    for (int i = 1; i < VALUES; i++) pass(&out[1 + i], &in[i]);
    return GRAFT_OK;
}
static graft_status run_for_close(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)out;
    cJSON *part = cJSON_CreateObject(), *results = cJSON_CreateArray(), *own = own_node(j);
    cJSON *flow = cJSON_Parse(in[0].u.s);
    const char *open = first_of(flow);
    if (!open) {
        cJSON_Delete(flow);
        cJSON_Delete(part);
        cJSON_Delete(results);
        cJSON_Delete(own);
        return fail(j, "flow_control is not linked");
    }
    cJSON *less = add_node(part, "~less", "TestIntMathOperation");
    cJSON_AddStringToObject(less, "operation", "subtract");
    add_link(less, "a", open, 1);
    cJSON_AddNumberToObject(less, "b", 1);
    add_link(add_node(part, "~more", "TestToBoolNode"), "value", "~less", 0);
    cJSON *close = add_node(part, "~close", "TestWhileLoopClose");
    add_link(close, "flow_control", open, 0);
    add_link(close, "condition", "~more", 0);
    add_link(close, value_name[0], "~less", 0);
    for (int i = 1; i < VALUES; i++) {
        hand_on(close, value_name[i], own, value_name[i]);
        cJSON_AddItemToArray(results, link_to("~close", i));
    }
    cJSON_Delete(flow);
    return expand(j, part, results, own);
}

#define FLAGS_RAW (GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_RAW_LINK)
#define SECONDS   .kind = GRAFT_FLOAT, .initial.f = 0.5, .min = 0, .max = 10
IN(in_float, "input1", "FLOAT", .kind = GRAFT_FLOAT, .initial.f = 0.5);
IN(in_1, "input1", "IMAGE", .kind = GRAFT_OBJECT);
IN(in_2, "input2", "IMAGE", .kind = GRAFT_OBJECT);
IN(in_image1, "image1", "IMAGE", .kind = GRAFT_OBJECT);
IN(in_image2, "image2", "IMAGE", .kind = GRAFT_OBJECT);
IN(in_image3, "image3", "IMAGE", .kind = GRAFT_OBJECT);
IN(in_sleep1, "sleep1", "FLOAT", SECONDS);
IN(in_sleep2, "sleep2", "FLOAT", SECONDS);
IN(in_sleep3, "sleep3", "FLOAT", SECONDS);
IN(in_count, "num_async_nodes", "INT", .kind = GRAFT_INT, .initial.i = 3, .min = 1, .max = 10);
IN(in_duration, "sleep_duration", "FLOAT", .kind = GRAFT_FLOAT, .initial.f = 0.2, .min = 0.1,
   .max = 1);
IN(in_model, "model", "MODEL", .kind = GRAFT_OBJECT);
IN(in_clip, "clip", "CLIP", .kind = GRAFT_OBJECT);
IN(in_vae, "vae", "VAE", .kind = GRAFT_OBJECT);
IN(in_seed, "seed", "INT", .kind = GRAFT_INT, .min = 0, .max = 0x1p64, .flags = GRAFT_INPUT_U64);
IN(in_steps, "steps", "INT", .kind = GRAFT_INT, .initial.i = 20, .min = 1, .max = 100);
IN(in_cfg, "cfg", "FLOAT", .kind = GRAFT_FLOAT, .initial.f = 7, .min = 0, .max = 30);
IN(in_prompt, "prompt", "STRING", .kind = GRAFT_STRING, .initial.s = "");
IN(in_negative, "negative_prompt", "STRING", .kind = GRAFT_STRING, .initial.s = "");
IN(in_condition, "condition", "BOOLEAN", .kind = GRAFT_BOOL, .initial.i = 1);
IN(in_go_on, "condition", "BOOLEAN", .kind = GRAFT_BOOL, .flags = GRAFT_INPUT_SOCKET);
IN(in_flow, "flow_control", "FLOW_CONTROL", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_RAW_LINK);
IN(in_remaining, "remaining", "INT", .kind = GRAFT_INT, .initial.i = 1, .min = 0, .max = 100000);
IN(in_v0, "initial_value0", "*", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_OPTIONAL);
IN(in_v1, "initial_value1", "*", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_OPTIONAL);
IN(in_v2, "initial_value2", "*", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_OPTIONAL);
IN(in_v3, "initial_value3", "*", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_OPTIONAL);
IN(in_v4, "initial_value4", "*", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_OPTIONAL);
IN(in_raw1, "initial_value1", "*", .kind = GRAFT_OBJECT, .flags = FLAGS_RAW);
IN(in_raw2, "initial_value2", "*", .kind = GRAFT_OBJECT, .flags = FLAGS_RAW);
IN(in_raw3, "initial_value3", "*", .kind = GRAFT_OBJECT, .flags = FLAGS_RAW);
IN(in_raw4, "initial_value4", "*", .kind = GRAFT_OBJECT, .flags = FLAGS_RAW);
OUT(out_image, "IMAGE", 0);
OUT(out_flow, "FLOW_CONTROL", 0);
OUT(out_int, "INT", 0);
OUT(out_any, "*", 0);

#define EXPANDS GRAFT_NODE_EXPANDS
#define FOUR    &out_any, &out_any, &out_any, &out_any
static const graft_node nodes[] = {
    NODE("TestMixedExpansionReturns", EXPANDS, INS(&in_float), OUTS(&out_image, &out_image),
         run_mixed, NULL),
    NODE("TestDynamicDependencyCycle", EXPANDS, INS(&in_1, &in_2), OUTS(&out_image), run_cycle,
         NULL),
    NODE("TestParallelSleep", EXPANDS | GRAFT_NODE_OUTPUT,
         INS(&in_image1, &in_image2, &in_image3, &in_sleep1, &in_sleep2, &in_sleep3),
         OUTS(&out_image), run_parallel, NULL),
    NODE("TestDynamicAsyncGeneration", EXPANDS,
         INS(&in_image1, &in_image2, &in_count, &in_duration), OUTS(&out_image), run_generate,
         NULL),
    NODE("TestSamplingInExpansion", EXPANDS,
         INS(&in_model, &in_clip, &in_vae, &in_seed, &in_steps, &in_cfg, &in_prompt, &in_negative),
         OUTS(&out_image), run_sampling, NULL),
    NODE("TestWhileLoopOpen", 0, INS(&in_condition, &in_v0, &in_v1, &in_v2, &in_v3, &in_v4),
         OUTS(&out_flow, &out_any, FOUR), run_while_open, NULL),
    NODE("TestWhileLoopClose", EXPANDS,
         INS(&in_flow, &in_go_on, &in_v0, &in_v1, &in_v2, &in_v3, &in_v4), OUTS(&out_any, FOUR),
         run_while_close, NULL),
    NODE("TestForLoopOpen", EXPANDS | GRAFT_NODE_DYNAMIC,
         INS(&in_remaining, &in_v1, &in_v2, &in_v3, &in_v4), OUTS(&out_flow, &out_int, FOUR),
         run_for_open, NULL),
    NODE("TestForLoopClose", EXPANDS, INS(&in_flow, &in_raw1, &in_raw2, &in_raw3, &in_raw4),
         OUTS(FOUR), run_for_close, NULL),
};
NODE_LIST(expand_nodes, nodes)
