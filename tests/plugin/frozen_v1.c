/* A plugin as it was built for ABI 1.0, with its own copy of the declarations of that version. It
 * must load and run for as long as the major version is 1: NEVER EDIT THIS FILE. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef union v1_payload {
    int64_t i;
    double f;
    const char *s;
    void *v;
} v1_payload;
typedef struct v1_arg {
    int32_t kind;
    uint32_t zero;
    v1_payload u;
} v1_arg;
typedef struct v1_host {
    uint32_t size, abi_major, abi_minor, zero;
    const char *name, *version;
    const void *(*query)(const struct v1_host *h, const char *id);
} v1_host;
typedef struct v1_job_api {
    void (*progress)(void *j, uint64_t done, uint64_t total);
    int32_t (*cancelled)(void *j);
    void (*log)(void *j, int32_t level, const char *text);
    void (*fail)(void *j, int32_t why, const char *input, const char *text);
    void (*preview)(void *j, const void *tensor);
} v1_job_api;
typedef struct v1_input {
    uint32_t size, flags;
    const char *name, *type, *tooltip;
    int32_t kind;
    uint32_t zero;
    v1_payload initial;
    double min, max, step;
    const char *const *choices;
    double round;
} v1_input;
typedef struct v1_output {
    uint32_t size, flags;
    const char *name, *type, *tooltip;
} v1_output;
typedef struct v1_node {
    uint32_t size, flags;
    const char *id, *title, *category, *description;
    const v1_input *const *inputs;
    const v1_output *const *outputs;
    int32_t (*create)(const v1_host *h, void **self);
    void (*destroy)(void *self);
    int32_t (*execute)(void *self, void *j, const v1_arg *in, v1_arg *out);
    const void *(*query)(const char *id);
} v1_node;
typedef struct v1_plugin {
    uint32_t abi_major, abi_minor;
    const char *id, *version;
    int32_t (*init)(const v1_host *h, const char *dir);
    void (*deinit)(void);
    const v1_node *(*node)(uint32_t i);
    const void *(*query)(const char *id);
} v1_plugin;

static const v1_input value_input = {sizeof(v1_input),
                                     0,
                                     "value",
                                     "FLOAT",
                                     "What to add to.",
                                     2,
                                     0,
                                     {.f = 1.5},
                                     -10,
                                     10,
                                     0.5,
                                     NULL,
                                     0.01};
static const v1_input seed_input = {
    sizeof(v1_input),       16 | 32, "seed", "INT", "Any number.", 1, 0, {.i = 0}, 0,
    18446744073709551616.0, 1,       NULL,   0};
static const v1_input *const inputs[] = {&value_input, &seed_input, NULL};
static const v1_output value_output = {sizeof(v1_output), 0, "value", "FLOAT", "The sum."};
static const v1_output seed_output = {sizeof(v1_output), 0, "seed", "INT", "The seed."};
static const v1_output *const outputs[] = {&value_output, &seed_output, NULL};

/* Counted by init() and deinit(), which is what the ABI allows. */
static int inits;
static const v1_host *host;

static int32_t create(const v1_host *h, void **self)
{
    *self = NULL;
    return h == host ? 0 : -1;
}

static void destroy(void *self)
{
    (void)self;
}

static int32_t execute(void *self, void *j, const v1_arg *in, v1_arg *out)
{
    const v1_job_api *job = host->query(host, "graft.job/1");
    (void)self;
    if (in[0].u.f < 0) {
        if (job) job->fail(j, -1, "value", "the value is negative");
        return -1;
    }
    if (job) job->progress(j, 1, 1);
    out[0].kind = 2;
    out[0].u.f = in[0].u.f + 1;
    out[1].kind = 1;
    out[1].u.i = in[1].u.i;
    return 0;
}

static const v1_node add_node = {sizeof(v1_node), 0,           "FrozenAdd", "Frozen Add",
                                 "test",          "Adds one.", inputs,      outputs,
                                 create,          destroy,     execute,     NULL};

static int32_t init(const v1_host *h, const char *dir)
{
    if (h->abi_major != 1 || !dir || !dir[0]) return -1;
    host = h;
    inits++;
    return 0;
}

static void deinit(void)
{
    if (--inits == 0) host = NULL;
}

static const v1_node *node(uint32_t i)
{
    return i == 0 && host ? &add_node : NULL;
}

static const void *query(const char *id)
{
    return strcmp(id, "frozen.inits/1") == 0 ? (const void *)&inits : NULL;
}

extern __attribute__((visibility("default"))) const v1_plugin graft_plugin_entry;
const v1_plugin graft_plugin_entry = {1, 0, "frozen", "1.0", init, deinit, node, query};
