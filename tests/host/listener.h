/* Runs prompts and writes down what happened, as text. */
#ifndef GRAFT_TESTS_HOST_LISTENER_H
#define GRAFT_TESTS_HOST_LISTENER_H
#include <pthread.h>
#include <stdatomic.h>

#include "host/run/executor.h"
#include "tests/host/fixture.h"

static graft_executor *executor;
static char events[4000];
static atomic_int cancel;

static int64_t count_of(int i)
{
    const graft_registry_node *n = graft_registry_find(fixture.registry, "TestInt");
    const _Atomic int64_t *c = n->plugin->query("test.counts/1");
    return c[i];
}

/* Asynchronous nodes warn from threads of their own. */
static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;

static void note(const char *fmt, const char *a, const char *b)
{
    pthread_mutex_lock(&noting);
    size_t n = strlen(events);
    snprintf(events + n, sizeof events - n, fmt, a, b);
    pthread_mutex_unlock(&noting);
}
static void on_start(void *ctx, size_t nodes)
{
    (void)ctx, (void)nodes;
    note("start", "", "");
}
static void on_cached(void *ctx, const char *const *ids, size_t n)
{
    (void)ctx;
    note(" cached(", "", "");
    for (size_t i = 0; i < n; i++) note("%s%s", i ? "," : "", ids[i]);
    note(")", "", "");
}
static void on_asked(void *ctx, const graft_where *at)
{
    (void)ctx;
    note(" asked(%s)%s", at->id, "");
}
static void on_node(void *ctx, const graft_where *at, const graft_node *node, const char *title)
{
    (void)ctx, (void)node, (void)title;
    note(" run(%s)%s", at->id, "");
}
static void on_done(void *ctx, const graft_where *at, const cJSON *ui, int32_t from_cache)
{
    (void)ctx;
    note(from_cache ? " kept(%s%s)" : " done(%s%s)", at->id, ui ? "!" : "");
}
static void on_warning(void *ctx, const graft_where *at, const char *text)
{
    (void)ctx;
    note(" warn(%s: %s)", at->id, text);
}
static void on_error(void *ctx, const graft_run_error *error)
{
    (void)ctx;
    note(" error(%s %s", error->node_id, error->class_type);
    note(" %s: %s)", error->input, error->text);
    CHECK(cJSON_IsArray(error->executed));
}
static void on_success(void *ctx)
{
    (void)ctx;
    note(" success", "", "");
}
static const graft_events listener = {.start = on_start,
                                      .cached = on_cached,
                                      .node_asked = on_asked,
                                      .node_start = on_node,
                                      .node_done = on_done,
                                      .warning = on_warning,
                                      .error = on_error,
                                      .success = on_success};

/* Runs a prompt; the outputs go to *out when it is not NULL. */
static graft_status run(const char *text, cJSON **out, graft_err *e)
{
    graft_validation v;
    graft_run_result result = {0};
    events[0] = 0;
    graft_status st =
        graft_validate(fixture.registry, &fixture.services.host, parse(text), NULL, 0, &v, e);
    CHECK(st == GRAFT_OK && v.prompt);
    if (st || !v.prompt) return GRAFT_E_ARG;
    cJSON *info = parse("{'workflow':{'a':1}}");
    graft_run_request request = {v.prompt, info, &listener, &cancel, false};
    st = graft_executor_run(executor, &request, &result, e);
    if (out) {
        *out = result.outputs;
        result.outputs = NULL;
    }
    graft_run_result_finish(&result);
    graft_validation_finish(&v);
    cJSON_Delete(info);
    return st;
}

static void expect_run(const char *text, const char *want, int line)
{
    graft_err e = GRAFT_ERR_INIT;
    cJSON *out = NULL;
    CHECK_OK(run(text, &out, &e), &e);
    check_json(out, want, line);
    cJSON_Delete(out);
}
#define EXPECT(text, want) expect_run(text, want, __LINE__)

static void without_cache(void)
{
    graft_executor_create(&fixture.services.host, false, &executor, NULL);
}
static void with_cache(void)
{
    graft_executor_create(&fixture.services.host, true, &executor, NULL);
}
static void close_executor(void)
{
    graft_executor_destroy(executor);
    CHECK_INT(count_of(0), 0); /* no value */
    CHECK_INT(count_of(1), 0); /* no instance */
}
/* A thread that cancels the run after a while. */
static void *set_cancel(void *arg)
{
    usleep(30000);
    atomic_store(&cancel, 1);
    return arg;
}
/* Runs a prompt that never ends by itself. */
static void cancelled_run(const char *text)
{
    graft_err e = GRAFT_ERR_INIT;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, set_cancel, NULL) == 0);
    CHECK_INT(run(text, NULL, &e), GRAFT_E_CANCEL);
    pthread_join(thread, NULL);
    CHECK_STR(e.text, "interrupted");
}
#endif
