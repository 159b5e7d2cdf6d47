/* A plugin with small nodes that make a host show what it does. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plugin/graft_plugin.h"

static const graft_host *host;
static const graft_job_api *job_api;
static const graft_ui_api *ui_api;
static const graft_phase_api *phase_api;
static const graft_prompt_api *prompt_api;
static const graft_folders_api *folders_api;
static const graft_expand_api *expand_api;
/* live things, live instances, calls of TestCount, calls of TestEach now and at most */
static _Atomic int64_t counts[5];

/* ---- a value */
typedef struct thing {
    graft_value value;
    atomic_int refs;
    int64_t size;
} thing;
static void thing_retain(graft_value *v)
{
    atomic_fetch_add(&((thing *)(void *)v)->refs, 1);
}
static void thing_release(graft_value *v)
{
    if (atomic_fetch_sub(&((thing *)(void *)v)->refs, 1) != 1) return;
    atomic_fetch_sub(&counts[0], 1);
    free(v);
}
static const void *thing_query(const graft_value *v, const char *id)
{
    return strcmp(id, "test.thing/1") == 0 ? (const thing *)(const void *)v : NULL;
}
static const graft_value_ops thing_ops = {"THING", thing_retain, thing_release, thing_query};

static graft_status create(const graft_host *h, void **self)
{
    (void)h;
    atomic_fetch_add(&counts[1], 1);
    *self = calloc(1, 64); /* text that an output points to */
    return *self ? GRAFT_OK : GRAFT_E_NOMEM;
}
static void destroy(void *self)
{
    atomic_fetch_sub(&counts[1], 1);
    free(self);
}
static void give_int(graft_arg *out, int64_t v)
{
    out->kind = GRAFT_INT;
    out->u.i = v;
}
static void give_text(graft_arg *out, const char *s)
{
    out->kind = GRAFT_STRING;
    out->u.s = s;
}

static graft_status run_int(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)j;
    give_int(out, in[0].u.i);
    return GRAFT_OK;
}
static graft_status run_add(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)j;
    give_int(out, in[0].u.i + in[1].u.i);
    return GRAFT_OK;
}
static graft_status run_count(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)j, (void)in;
    give_int(out, atomic_fetch_add(&counts[2], 1) + 1);
    return GRAFT_OK;
}
static graft_status run_text(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)j;
    snprintf(self, 64, "%s", in[0].u.s);
    give_text(out, self);
    return GRAFT_OK;
}
static graft_status run_seed(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)j;
    snprintf(self, 64, "%llu %s", (unsigned long long)in[0].u.i, in[1].u.s);
    give_text(out, self);
    return GRAFT_OK;
}
static graft_status run_thing(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    phase_api->begin(j, "load");
    thing *t = calloc(1, sizeof *t);
    if (!t) return GRAFT_E_NOMEM;
    t->value.ops = &thing_ops;
    atomic_init(&t->refs, 1);
    t->size = in[0].u.i;
    atomic_fetch_add(&counts[0], 1);
    out->kind = GRAFT_OBJECT;
    out->u.v = &t->value;
    return GRAFT_OK;
}
static graft_status run_measure(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)j;
    const thing *t = in[0].u.v->ops->query(in[0].u.v, "test.thing/1");
    give_int(&out[0], t ? t->size : -1);
    give_int(&out[1], atomic_load(&counts[0]));
    return GRAFT_OK;
}
static graft_status run_fail(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)out;
    if (in[0].u.i == 0) return GRAFT_E_INTERNAL; /* without a word */
    job_api->fail(j, GRAFT_E_ARG, "code", "this never works");
    job_api->fail(j, GRAFT_E_IO, NULL, "a second reason does not count");
    return GRAFT_E_ARG;
}
/* With 99999 steps it is a node that does not ask whether it should stop. */
static graft_status run_sleep(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    phase_api->begin(j, "sample");
    for (int64_t i = 0; i < in[0].u.i; i++) {
        struct timespec t = {0, 2000000};
        nanosleep(&t, NULL);
        job_api->progress(j, (uint64_t)i + 1, (uint64_t)in[0].u.i);
        if (in[0].u.i == 99999 || !job_api->cancelled(j)) continue;
        job_api->fail(j, GRAFT_E_CANCEL, NULL, "interrupted");
        return GRAFT_E_CANCEL;
    }
    give_int(out, in[0].u.i);
    return GRAFT_OK;
}
static graft_status run_show(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    char text[200];
    (void)self, (void)out;
    switch (in[0].kind) {
    case GRAFT_INT:
        snprintf(text, sizeof text, "\"%lld\"", (long long)in[0].u.i);
        break;
    case GRAFT_FLOAT:
        snprintf(text, sizeof text, "\"%g\"", in[0].u.f);
        break;
    case GRAFT_BOOL:
        snprintf(text, sizeof text, "\"%s\"", in[0].u.i ? "yes" : "no");
        break;
    case GRAFT_STRING:
    case GRAFT_CHOICE:
        snprintf(text, sizeof text, "\"%s\"", in[0].u.s);
        break;
    default:
        snprintf(text, sizeof text, "\"kind %d\"", in[0].kind);
    }
    ui_api->add(j, "text", text);
    return GRAFT_OK;
}

/* ---- lists */
typedef struct ints {
    graft_value value;
    atomic_int refs;
    int64_t n;
} ints;
static void ints_retain(graft_value *v)
{
    atomic_fetch_add(&((ints *)(void *)v)->refs, 1);
}
static void ints_release(graft_value *v)
{
    if (atomic_fetch_sub(&((ints *)(void *)v)->refs, 1) != 1) return;
    atomic_fetch_sub(&counts[0], 1);
    free(v);
}
static uint64_t ints_count(const graft_value *v)
{
    return (uint64_t)((const ints *)(const void *)v)->n;
}
static graft_status ints_at(const graft_value *v, uint64_t i, graft_arg *out)
{
    (void)v;
    give_int(out, (int64_t)i + 1);
    return GRAFT_OK;
}
static const void *ints_query(const graft_value *v, const char *id)
{
    static const graft_list_api api = {ints_count, ints_at};
    (void)v;
    return strcmp(id, GRAFT_LIST_ID) == 0 ? &api : NULL;
}
static const graft_value_ops ints_ops = {"LIST", ints_retain, ints_release, ints_query};
static graft_status run_range(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)j;
    ints *l = calloc(1, sizeof *l);
    if (!l) return GRAFT_E_NOMEM;
    l->value.ops = &ints_ops;
    atomic_init(&l->refs, 1);
    l->n = in[0].u.i;
    atomic_fetch_add(&counts[0], 1);
    out->kind = GRAFT_OBJECT;
    out->u.v = &l->value;
    return GRAFT_OK;
}
static graft_status run_sum(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)j;
    const graft_list_api *api = in[0].u.v->ops->query(in[0].u.v, GRAFT_LIST_ID);
    int64_t sum = 0;
    for (uint64_t i = 0; i < api->count(in[0].u.v); i++) {
        graft_arg a = {0};
        api->at(in[0].u.v, i, &a);
        sum += a.u.i;
    }
    give_int(out, sum);
    return GRAFT_OK;
}

/* ---- warnings */
static graft_status run_warn(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    char text[64];
    (void)self;
    snprintf(text, sizeof text, "%lld is odd", (long long)in[0].u.i);
    job_api->log(j, 1, "nothing to worry about");
    job_api->log(j, 2, "less than wanted");
    job_api->log(j, 2, "less than wanted");
    if (in[0].u.i % 2) job_api->log(j, 3, text);
    give_int(out, in[0].u.i);
    return GRAFT_OK;
}

/* ---- lazy */
static graft_status switch_needed(void *self, const graft_arg *in, uint64_t *needed)
{
    (void)self;
    *needed = in[0].u.i ? 2 : 4;
    return GRAFT_OK;
}
static graft_status run_switch(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)j;
    *out = in[in[0].u.i ? 1 : 2];
    if (out->kind == GRAFT_OBJECT) out->u.v->ops->retain(out->u.v);
    return GRAFT_OK;
}
static const void *switch_query(const char *id)
{
    static const graft_lazy_api api = {switch_needed};
    return strcmp(id, GRAFT_LAZY_ID) == 0 ? &api : NULL;
}

/* ---- files */
static char **file_list(const graft_host *h, const char *input)
{
    (void)input;
    return folders_api->list(h, "input");
}
static void file_free(char **names)
{
    folders_api->free_names(host, names);
}
static graft_status file_print(const graft_host *h, const graft_arg *in, char *text, uint64_t n)
{
    char *path = NULL, why[200];
    if (in[0].kind == GRAFT_NONE) return GRAFT_E_ARG;
    if (folders_api->resolve(h, "input", in[0].u.s, &path, why, sizeof why)) return GRAFT_E_IO;
    FILE *f = fopen(path, "r");
    size_t got = f ? fread(text, 1, n - 1, f) : 0;
    text[got] = 0;
    if (f) fclose(f);
    folders_api->free_text(h, path);
    return GRAFT_OK;
}
static graft_status file_check(const graft_host *h, const graft_arg *in, const char **input,
                               char *text, uint64_t n)
{
    char *path = NULL, why[200];
    if (in[0].kind == GRAFT_NONE) return GRAFT_OK;
    if (folders_api->resolve(h, "input", in[0].u.s, &path, why, sizeof why)) {
        *input = "file";
        snprintf(text, n, "Invalid file: %s", in[0].u.s);
        return GRAFT_E_ARG;
    }
    folders_api->free_text(h, path);
    return GRAFT_OK;
}
static graft_status run_file(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)j;
    file_print(host, in, self, 64);
    give_text(out, self);
    return GRAFT_OK;
}
static const void *file_query(const char *id)
{
    static const graft_choices_api choices = {file_list, file_free};
    static const graft_fingerprint_api fingerprint = {file_print};
    static const graft_validate_api validate = {file_check};
    if (strcmp(id, GRAFT_CHOICES_ID) == 0) return &choices;
    if (strcmp(id, GRAFT_FINGERPRINT_ID) == 0) return &fingerprint;
    return strcmp(id, GRAFT_VALIDATE_ID) == 0 ? &validate : NULL;
}
/* ---- a check that says what it takes: everything but the text */
static graft_status own_check(const graft_host *h, const graft_arg *in, const char *const *types,
                              char *text, uint64_t n)
{
    (void)h;
    if (in[0].kind == GRAFT_INT && in[0].u.i == 13)
        snprintf(text, n, "13 is unlucky");
    else if (types[2] && strcmp(types[2], "THING") != 0)
        snprintf(text, n, "a link of %s", types[2]);
    else if (in[2].kind != GRAFT_NONE && in[2].kind != GRAFT_FLOAT)
        return GRAFT_E_ARG;
    return *text ? GRAFT_E_ARG : GRAFT_OK;
}
static const void *own_query(const char *id)
{
    static const char *const taken[] = {"value", "mode", "either", NULL};
    static const graft_validate2_api api = {GRAFT_VALIDATE_TYPES, 0, taken, own_check};
    return strcmp(id, GRAFT_VALIDATE2_ID) == 0 ? &api : NULL;
}
/* The number, how the choice is called, and what kind came along the last input. */
static graft_status run_own(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)j;
    snprintf(self, 64, "%lld %.30s %d", (long long)in[0].u.i, in[1].u.s, in[2].kind);
    give_text(out, self);
    return GRAFT_OK;
}

/* The inputs of any number as they came. It bears the name of a node that has some in editors. */
static graft_status run_many(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)j;
    snprintf(self, 64, "%s", in[0].kind == GRAFT_STRING ? in[0].u.s : "none");
    for (char *p = self; *p; p++)
        if (*p == '"') *p = '^';
    give_text(out, self);
    return GRAFT_OK;
}
static graft_status many_check(const graft_host *h, const graft_arg *in, const char **input,
                               char *text, uint64_t n)
{
    char *path = NULL;
    if (in[0].kind != GRAFT_STRING || !strstr(in[0].u.s, "wrong")) return GRAFT_OK;
    folders_api->resolve(h, "loras", "wrong", &path, NULL, 0);
    snprintf(text, n, "no such thing");
    snprintf(text + 20, n - 20, "lora_2");
    *input = text + 20;
    return GRAFT_E_NOTFOUND;
}
static const void *many_query(const char *id)
{
    static const graft_validate_api api = {many_check};
    return strcmp(id, GRAFT_VALIDATE_ID) == 0 ? &api : NULL;
}

static graft_status run_save(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    char *path, *name, *sub, why[300] = "", json[600];
    (void)self, (void)out;
    phase_api->begin(j, "save");
    if (folders_api->reserve(host, "output", in[1].u.s, ".txt", 64, 32, &path, &name, &sub, why,
                             sizeof why)) {
        job_api->fail(j, GRAFT_E_ARG, "filename_prefix", why);
        return GRAFT_E_ARG;
    }
    FILE *f = fopen(path, "w");
    if (f) {
        const char *info = prompt_api->extra_pnginfo(j);
        fprintf(f, "%s\n%s\n%s\n", in[0].u.s, prompt_api->prompt(j), info ? info : "none");
        fclose(f);
    }
    snprintf(json, sizeof json, "{\"filename\":\"%s\",\"subfolder\":\"%s\",\"type\":\"output\"}",
             name, sub);
    ui_api->add(j, "images", json);
    folders_api->free_text(host, path);
    folders_api->free_text(host, name);
    folders_api->free_text(host, sub);
    return GRAFT_OK;
}

/* ---- expansion */

/* Expands into what its inputs say, JSON with ` in place of ". Empty text: gives 1 and 2. */
static graft_status run_expand(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    char text[2][2000];
    (void)self;
    give_int(&out[0], 1);
    give_int(&out[1], 2);
    if (!*in[0].u.s) return GRAFT_OK;
    for (int i = 0; i < 2; i++) {
        snprintf(text[i], sizeof text[i], "%s", in[i].u.s);
        for (char *p = text[i]; *p; p++)
            if (*p == '`') *p = '"';
    }
    expand_api->expand(j, text[0], text[1]);
    if (in[2].u.i) expand_api->expand(j, text[0], text[1]);
    return GRAFT_OK;
}
/* n + (n - 1) + … + 1, each by a node of its own; the numbers n may come as a list. */
static graft_status run_countdown(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    char text[400];
    (void)self;
    if (!in[0].u.i) {
        give_int(out, 0);
        return GRAFT_OK;
    }
    snprintf(text, sizeof text,
             "{\"down\":{\"class_type\":\"TestDescend\",\"inputs\":{\"n\":%lld}},"
             "\"sum\":{\"class_type\":\"TestAdd\",\"inputs\":{\"a\":[\"down\",0],\"b\":%lld}}}",
             (long long)in[0].u.i - 1, (long long)in[0].u.i);
    return expand_api->expand(j, text, "[[\"sum\",0]]");
}
/* What another node of the prompt is, and the link of its own input as it stands. */
static graft_status run_look(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const char *node = expand_api->node(j, in[0].u.s);
    snprintf(self, 64, "%.40s %s", node ? strstr(node, "Test") : "none", in[1].u.s);
    for (char *p = self; *p; p++)
        if (*p == '"') *p = '^';
    give_text(out, self);
    return GRAFT_OK;
}

/* ---- calls over a list that run beside each other */

/* Waits the longer the smaller n is; 7 fails, 8 waits without an end, 5 gives a node for its text.
 * Fails when its instance makes another call meanwhile. */
static graft_status each(char *self, graft_job *j, int64_t n, int64_t ms, graft_arg *out)
{
    char text[32];
    for (int64_t t = ms - 2 * n; t > 0 || n == 8; t -= 2) {
        const struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
        if (!job_api->cancelled(j)) continue;
        job_api->fail(j, GRAFT_E_CANCEL, NULL, "told to end");
        return GRAFT_E_CANCEL;
    }
    if (n == 7) {
        job_api->fail(j, GRAFT_E_ARG, "n", "no sevens");
        return GRAFT_E_ARG;
    }
    snprintf(text, sizeof text, "\"%lld\"", (long long)n);
    ui_api->add(j, "text", text);
    snprintf(self, 32, "number %lld", (long long)n);
    const graft_arg size = {.kind = GRAFT_INT, .u.i = n};
    if (run_thing(NULL, j, &size, &out[1])) return GRAFT_E_NOMEM;
    give_text(&out[0], self);
    if (n == 5)
        expand_api->expand(j,
                           "{\"t\":{\"class_type\":\"TestText\",\"inputs\":{\"text\":"
                           "\"five\"}}}",
                           "[[\"t\",0],null]");
    return GRAFT_OK;
}
static graft_status run_each(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    atomic_char *busy = (atomic_char *)self + 63;
    if (atomic_exchange(busy, 1)) {
        job_api->fail(j, GRAFT_E_INTERNAL, NULL, "the instance is busy");
        return GRAFT_E_INTERNAL;
    }
    int64_t now = atomic_fetch_add(&counts[3], 1) + 1, most = atomic_load(&counts[4]);
    while (now > most && !atomic_compare_exchange_weak(&counts[4], &most, now)) {
    }
    graft_status st = each(self, j, in[0].u.i, in[1].kind == GRAFT_INT ? in[1].u.i : 40, out);
    atomic_fetch_sub(&counts[3], 1);
    atomic_store(busy, 0);
    return st;
}

static graft_status run_varied(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)j;
    snprintf(self, 64, "%s %lld %lld %g %s %d %s", in[0].u.s, (long long)in[1].u.i,
             (long long)in[2].u.i, in[3].u.f, in[4].u.s, in[5].kind, in[6].u.s);
    give_text(out, self);
    return GRAFT_OK;
}

/* ---- records */
#define IN(var, nm, ty, ...)                                                                       \
    static const graft_input var = {                                                               \
        .size = sizeof(graft_input), .name = nm, .type = ty, .tooltip = "tip", __VA_ARGS__}
#define OUT(var, ty, fl)                                                                           \
    static const graft_output var = {                                                              \
        .size = sizeof(graft_output), .flags = fl, .name = ty, .type = ty}
static const char *const modes[] = {"a", "b", "it's", NULL};
IN(in_value, "value", "INT", .kind = GRAFT_INT, .initial.i = 1, .min = -10, .max = 100, .step = 1);
IN(in_a, "a", "INT", .kind = GRAFT_INT, .min = -1000000, .max = 1000000);
IN(in_b, "b", "INT", .kind = GRAFT_INT, .min = -1000000, .max = 1000000);
IN(in_any, "any", "*", .kind = GRAFT_OBJECT);
IN(in_text, "text", "STRING", .kind = GRAFT_STRING, .initial.s = "",
   .flags = GRAFT_INPUT_MULTILINE | GRAFT_INPUT_DYNAMIC_PROMPTS);
IN(in_seed, "seed", "INT", .kind = GRAFT_INT, .flags = GRAFT_INPUT_SEED | GRAFT_INPUT_U64,
   .max = 0x1p64);
IN(in_mode, "mode", "COMBO", .kind = GRAFT_CHOICE, .initial.s = "a", .choices = modes);
IN(in_strength, "strength", "FLOAT", .kind = GRAFT_FLOAT, .initial.f = 0.5, .min = 0, .max = 1,
   .step = 0.01, .flags = GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_EXACT);
IN(in_on, "on", "BOOLEAN", .kind = GRAFT_BOOL, .initial.i = 1);
IN(in_true, "on_true", "*", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_LAZY);
IN(in_false, "on_false", "*", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_LAZY);
IN(in_thing, "thing", "THING", .kind = GRAFT_OBJECT);
IN(in_code, "code", "INT", .kind = GRAFT_INT, .initial.i = 1);
IN(in_steps, "steps", "INT", .kind = GRAFT_INT, .initial.i = 3, .min = 1, .max = 100000);
IN(in_n, "n", "INT", .kind = GRAFT_INT, .min = 0, .max = 1000);
IN(in_ms, "ms", "INT", .kind = GRAFT_INT, .initial.i = 40, .min = 0, .max = 1000,
   .flags = GRAFT_INPUT_OPTIONAL);
IN(in_all, "values", "INT", .kind = GRAFT_INT, .flags = GRAFT_INPUT_LIST | GRAFT_INPUT_SOCKET);
IN(in_file, "file", "COMBO", .kind = GRAFT_CHOICE, .flags = GRAFT_INPUT_IMAGE_UPLOAD);
IN(in_prefix, "filename_prefix", "STRING", .kind = GRAFT_STRING, .initial.s = "test");
IN(in_part, "part", "STRING", .kind = GRAFT_STRING, .initial.s = "");
IN(in_results, "results", "STRING", .kind = GRAFT_STRING, .initial.s = "[]");
IN(in_twice, "twice", "BOOLEAN", .kind = GRAFT_BOOL, .flags = GRAFT_INPUT_OPTIONAL);
IN(in_raw, "raw", "*", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_RAW_LINK);
IN(in_many, "lora_", "STRING", .kind = GRAFT_STRING,
   .flags = GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_MANY);
static const char *const ways[] = {"to size", "by factor", "like other", NULL};
static const char *const sides[] = {"disabled", "center", NULL};
IN(in_how, "how", "COMBO", .kind = GRAFT_CHOICE, .choices = ways);
IN(in_width, "how.width", "INT", .kind = GRAFT_INT, .initial.i = 512, .min = 0, .max = 9999,
   .when = "how=to size");
IN(in_height, "how.height", "INT", .kind = GRAFT_INT, .initial.i = 256, .min = 0, .max = 9999,
   .when = "how=to size");
IN(in_factor, "how.factor", "FLOAT", .kind = GRAFT_FLOAT, .initial.f = 1, .min = 0, .max = 8,
   .when = "how=by factor");
IN(in_crop, "how.crop", "COMBO", .kind = GRAFT_CHOICE, .initial.s = "center", .choices = sides,
   .when = "how=to size|like other");
IN(in_other, "how.other", "INT", .kind = GRAFT_INT, .flags = GRAFT_INPUT_SOCKET,
   .when = "how=like other");
IN(in_method, "method", "COMBO", .kind = GRAFT_CHOICE, .initial.s = "a", .choices = modes);
IN(in_either, "either", "THING,FLOAT", .kind = GRAFT_OBJECT);
OUT(out_int, "INT", 0);
OUT(out_ints, "INT", GRAFT_OUTPUT_LIST);
OUT(out_text, "STRING", 0);
OUT(out_thing, "THING", 0);
OUT(out_any, "*", 0);
static const graft_output *const no_out[] = {NULL};
static const graft_input *const no_in[] = {NULL};
#define NODE(nm, fl, ins, outs, fn, q)                                                             \
    {                                                                                              \
        sizeof(graft_node), fl, nm, nm " title", "test", "A node for tests.", ins, outs, create,   \
            destroy, fn, q                                                                         \
    }

static const graft_node *node(uint32_t i)
{
    static const graft_input *const ins_int
        [] = {&in_value, NULL},
 *const ins_add[] = {&in_a, &in_b, NULL}, *const ins_any[] = {&in_any, NULL},
 *const ins_text[] = {&in_text, NULL}, *const ins_seed[] = {&in_seed, &in_mode, &in_strength, NULL},
 *const ins_varied[] = {&in_how,  &in_width, &in_height, &in_factor,
                        &in_crop, &in_other, &in_method, NULL},
 *const ins_n[] = {&in_n, NULL}, *const ins_thing[] = {&in_thing, NULL},
 *const ins_code[] = {&in_code, NULL}, *const ins_steps[] = {&in_steps, NULL},
 *const ins_all[] = {&in_all, NULL}, *const ins_switch[] = {&in_on, &in_true, &in_false, NULL},
 *const ins_file[] = {&in_file, NULL}, *const ins_mask[] = {&in_file, &in_mode, NULL},
 *const ins_save[] = {&in_text, &in_prefix, NULL},
 *const ins_expand[] = {&in_part, &in_results, &in_twice, NULL},
 *const ins_look[] = {&in_text, &in_raw, NULL}, *const ins_each[] = {&in_n, &in_ms, NULL},
 *const ins_many[] = {&in_many, NULL},
 *const ins_own[] = {&in_value, &in_mode, &in_either, &in_text, NULL};
    static const graft_output
        *const o_int[] = {&out_int, NULL},
               *const o_ints[] = {&out_ints, NULL}, *const o_text[] = {&out_text, NULL},
               *const o_thing[] = {&out_thing, NULL}, *const o_any[] = {&out_any, NULL},
               *const o_two[] = {&out_int, &out_int, NULL},
               *const o_each[] = {&out_text, &out_thing, NULL},
               *const o_anys[] = {&out_any, &out_any, NULL};
    static const graft_node nodes[] = {
        NODE("TestInt", 0, ins_int, o_int, run_int, NULL),
        NODE("TestAdd", 0, ins_add, o_int, run_add, NULL),
        NODE("TestCount", GRAFT_NODE_NOT_IDEMPOTENT, no_in, o_int, run_count, NULL),
        NODE("TestText", 0, ins_text, o_text, run_text, NULL),
        NODE("TestSeed", 0, ins_seed, o_text, run_seed, NULL),
        NODE("TestThing", 0, ins_n, o_thing, run_thing, NULL),
        NODE("TestMeasure", 0, ins_thing, o_two, run_measure, NULL),
        NODE("TestFail", 0, ins_code, o_int, run_fail, NULL),
        NODE("TestSleep", 0, ins_steps, o_int, run_sleep, NULL),
        NODE("TestShow", GRAFT_NODE_OUTPUT, ins_any, no_out, run_show, NULL),
        NODE("TestRange", 0, ins_n, o_ints, run_range, NULL),
        NODE("TestSum", 0, ins_all, o_int, run_sum, NULL),
        NODE("TestSwitch", 0, ins_switch, o_any, run_switch, switch_query),
        NODE("TestFile", 0, ins_file, o_text, run_file, file_query),
        NODE("TestMask", 0, ins_mask, o_text, run_file, file_query),
        NODE("TestLater", GRAFT_NODE_ASYNC, ins_add, o_int, run_add, NULL),
        NODE("TestWait", GRAFT_NODE_ASYNC, ins_steps, o_int, run_sleep, NULL),
        NODE("TestEach", GRAFT_NODE_ASYNC | GRAFT_NODE_EXPANDS, ins_each, o_each, run_each, NULL),
        NODE("TestExpand", GRAFT_NODE_EXPANDS, ins_expand, o_anys, run_expand, NULL),
        NODE("TestUnsaid", 0, ins_expand, o_anys, run_expand, NULL),
        NODE("TestDescend", GRAFT_NODE_EXPANDS, ins_n, o_int, run_countdown, NULL),
        NODE("TestWarn", 0, ins_n, o_int, run_warn, NULL),
        NODE("TestCaution", GRAFT_NODE_ASYNC, ins_n, o_int, run_warn, NULL),
        NODE("TestLook", 0, ins_look, o_text, run_look, NULL),
        NODE("TestChecks", 0, ins_own, o_text, run_own, own_query),
        NODE("Power Lora Loader (rgthree)", 0, ins_many, o_text, run_many, many_query),
        NODE("TestVaried", 0, ins_varied, o_text, run_varied, NULL),
        NODE("TestSave", GRAFT_NODE_OUTPUT, ins_save, no_out, run_save, NULL),
    };
    return i < sizeof nodes / sizeof *nodes ? &nodes[i] : NULL;
}

static graft_status init(const graft_host *h, const char *dir)
{
    (void)dir;
    host = h;
    job_api = h->query(h, GRAFT_JOB_ID);
    ui_api = h->query(h, GRAFT_UI_ID);
    phase_api = h->query(h, GRAFT_PHASE_ID);
    prompt_api = h->query(h, GRAFT_PROMPT_ID);
    folders_api = h->query(h, GRAFT_FOLDERS_ID);
    expand_api = h->query(h, GRAFT_EXPAND_ID);
    return job_api && ui_api && phase_api && prompt_api && folders_api && expand_api
               ? GRAFT_OK
               : GRAFT_E_UNSUPPORTED;
}
static void deinit(void) {}
static const void *query(const char *id)
{
    return strcmp(id, "test.counts/1") == 0 ? (const void *)counts : NULL;
}

const graft_plugin graft_plugin_entry = {
    GRAFT_ABI_MAJOR, GRAFT_ABI_MINOR, "test", "1.0", init, deinit, node, query};
