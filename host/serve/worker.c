#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "host/serve/serve.h"
#include "base/tree.h"
#include "host/prompt/validate.h"

/* {id: {node_id, display_node, parent_node, real_node_id}} for every output that showed something;
 * NULL when out of memory. */
static char *meta_of(const graft_run_result *result)
{
    static const char *const name[] = {"display_node", "parent_node", "real_node_id"};
    graft_str m = GRAFT_STR_INIT;
    const cJSON *item;
    graft_str_puts(&m, "{");
    cJSON_ArrayForEach(item, result->outputs)
    {
        const cJSON *made = graft_tree_get(result->meta, item->string);
        if (m.len > 1) graft_str_puts(&m, ",");
        graft_str_json(&m, item->string);
        graft_str_puts(&m, ":{\"node_id\":");
        graft_str_json(&m, item->string);
        for (int i = 0; i < 3; i++) {
            graft_str_printf(&m, ",\"%s\":", name[i]);
            if (!made && i == 1)
                graft_str_puts(&m, "null");
            else
                graft_str_json(&m, graft_json_str(made, name[i], item->string));
        }
        graft_str_puts(&m, "}");
    }
    graft_str_puts(&m, "}");
    return graft_str_take(&m);
}

/* The ids of the outputs to run: an array of borrowed texts (graft_free). */
static graft_status targets_of(const cJSON *list, const char ***out, size_t *n, graft_err *e)
{
    const cJSON *item;
    size_t count = (size_t)cJSON_GetArraySize(list);
    *n = 0;
    *out = graft_malloc_array(count, sizeof **out);
    if (!*out) return graft_fail_nomem(e, "a job");
    cJSON_ArrayForEach(item, list) if (cJSON_IsString(item))(*out)[(*n)++] = item->valuestring;
    return GRAFT_OK;
}

/* Files may have gone since the prompt was accepted, so it is checked again. */
static graft_status check(graft_serve *s, cJSON **prompt, const cJSON *targets, graft_validation *v,
                          graft_err *e)
{
    const char **target = NULL;
    size_t n;
    cJSON *json = *prompt;
    graft_status st = targets_of(targets, &target, &n, e);
    if (st) return st;
    *prompt = NULL;
    st = graft_validate(s->session.registry, &s->session.services.host, json, target, n, v, e);
    graft_free(target);
    if (st || v->prompt) return st;
    graft_str text = GRAFT_STR_INIT;
    graft_validation_text(v, "prompt", NULL, &text);
    graft_fail(e, GRAFT_E_ARG, "%s", text.data ? text.data : "the prompt is no longer valid");
    graft_str_finish(&text);
    return GRAFT_E_ARG;
}

/* A prompt may ask for other pictures than the server was told to make. */
static graft_preview_mode previews_of(const cJSON *extra, graft_preview_mode usual)
{
    static const struct {
        const char *name;
        graft_preview_mode mode;
    } methods[] = {{"none", GRAFT_PREVIEWS_NONE},
                   {"auto", GRAFT_PREVIEWS_LATENT},
                   {"latent2rgb", GRAFT_PREVIEWS_LATENT},
                   {"taesd", GRAFT_PREVIEWS_TAESD}};
    const char *name = graft_json_str(extra, "preview_method", "");
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(name, methods[i].name) == 0) return methods[i].mode;
    return usual;
}

static graft_status run(graft_serve *s, const graft_store_job *job, graft_run_result *result,
                        graft_err *e)
{
    cJSON *prompt = NULL, *extra = NULL, *targets = NULL;
    graft_validation v = {0};
    graft_status st = GRAFT_OK;
    graft_sink_begin(&s->sink, job->id, job->client, graft_queue_added(&s->queue, job));
    GRAFT_TRY(graft_json_parse(job->prompt, strlen(job->prompt), "the prompt", &prompt, e));
    GRAFT_TRY(graft_json_parse(job->extra, strlen(job->extra), "extra_data", &extra, e));
    GRAFT_TRY(graft_json_parse(job->outputs, strlen(job->outputs), "the outputs", &targets, e));
    GRAFT_TRY(check(s, &prompt, targets, &v, e));
    const cJSON *pnginfo = graft_tree_get(extra, "extra_pnginfo");
    const graft_events events = graft_sink_events(&s->sink, previews_of(extra, s->previews));
    const graft_run_request request = {v.prompt, cJSON_IsObject(pnginfo) ? pnginfo : NULL, &events,
                                       &s->queue.cancel, false};
    st = graft_executor_run(s->executor, &request, result, e);
out:
    graft_validation_finish(&v);
    cJSON_Delete(prompt);
    cJSON_Delete(extra);
    cJSON_Delete(targets);
    return st;
}

/* A full disk, for example, may have room again: until the entry is written the job counts as
 * running, and nobody hears that it ended. */
static void write_down(graft_serve *s, const graft_store_end *end)
{
    graft_status before = GRAFT_OK, st;
    for (;;) {
        graft_err e = GRAFT_ERR_INIT;
        st = graft_queue_end(&s->queue, end, graft_sink_tell, &s->sink, &e);
        if (st && st != before) graft_logs_line(&s->logs, GRAFT_LOG_ERROR, e.text);
        if (!st || st == GRAFT_E_NOTFOUND || !graft_queue_pause(&s->queue)) return;
        before = st;
    }
}

/* Memory may be short; then the entry is written with less in it. */
static void store(graft_serve *s, const graft_store_job *job, const graft_run_result *result)
{
    char *messages = graft_sink_take_messages(&s->sink);
    char *outputs = result->outputs ? graft_json_print(result->outputs) : NULL;
    char *meta = outputs ? meta_of(result) : NULL;
    graft_str profile = GRAFT_STR_INIT;
    graft_sink_profile(&s->sink, &profile);
    const graft_store_end end = {job->id,
                                 s->sink.end[0] ? s->sink.end : "error",
                                 messages ? messages : "[]",
                                 outputs ? outputs : "{}",
                                 meta ? meta : "{}",
                                 graft_clock_ms(),
                                 profile.failed ? NULL : profile.data};
    write_down(s, &end);
    graft_str_finish(&profile);
    graft_free(messages);
    graft_free(outputs);
    graft_free(meta);
}

static void run_and_store(graft_serve *s, const graft_store_job *job)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_run_result result = {0};
    char line[sizeof e.text + 160]; /* the whole message: its end says why */
    double began = graft_clock_now();
    graft_status st = run(s, job, &result, &e);
    if (st && !s->sink.end[0]) graft_sink_fail(&s->sink, &e);
    if (st)
        snprintf(line, sizeof line, "prompt %.128s: %s", job->id, e.text);
    else
        snprintf(line, sizeof line, "prompt %.128s: done in %.2f s, %zu node%s ran, %zu cached",
                 job->id, graft_clock_now() - began, result.ran, result.ran == 1 ? "" : "s",
                 result.cached);
    graft_logs_line(&s->logs, st && st != GRAFT_E_CANCEL ? GRAFT_LOG_WARN : GRAFT_LOG_INFO, line);
    store(s, job, &result);
    graft_sink_close(&s->sink);
    graft_run_result_finish(&result);
}

void *graft_serve_worker(void *serve)
{
    graft_serve *s = serve;
    graft_store_job job;
    for (;;) {
        switch (graft_queue_wait(&s->queue, &job)) {
        case GRAFT_QUEUE_STOP:
            return NULL;
        case GRAFT_QUEUE_FREE:
            graft_executor_clear(s->executor);
            graft_registry_release_memory(s->session.registry);
            break;
        case GRAFT_QUEUE_JOB:
            run_and_store(s, &job);
            graft_store_job_finish(&job);
            break;
        }
    }
}
