#include "host/run/job.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "host/run/agenda.h"
#include "base/tree.h"

#define MOST_WARNINGS 32 /* of a node; all of them are in the log */

void graft_job_init(graft_job *j)
{
    memset(j, 0, sizeof *j);
    pthread_mutex_init(&j->lock, NULL);
}

void graft_job_init_like(graft_job *j, const graft_job *other)
{
    graft_job_init(j);
    j->where = other->where;
    j->agenda = other->agenda;
    j->prompt = other->prompt;
    j->extra_pnginfo = other->extra_pnginfo;
    j->events = other->events;
    j->cancel = other->cancel;
    j->stop = other->stop;
    j->prepare_only = other->prepare_only;
    j->dynamic = other->dynamic;
    j->n_dynamic = other->n_dynamic;
    j->may_expand = other->may_expand;
}

/* False when it is there already or there is no room for it; a lost warning must not end a run. */
static bool note_warning(graft_job *j, const char *text)
{
    const cJSON *known;
    if (cJSON_GetArraySize(j->warnings) >= MOST_WARNINGS) return false;
    cJSON_ArrayForEach(known, j->warnings) if (strcmp(known->valuestring, text) == 0) return false;
    if (!j->warnings) j->warnings = cJSON_CreateArray();
    return graft_tree_push(j->warnings, cJSON_CreateString(text));
}

void graft_job_show_all(graft_job *j, graft_job *from)
{
    cJSON *list, *item;
    j->ui_lost |= from->ui_lost;
    cJSON_ArrayForEach(item, from->warnings) note_warning(j, item->valuestring);
    if (!j->ui) {
        j->ui = from->ui;
        from->ui = NULL;
        return;
    }
    cJSON_ArrayForEach(list, from->ui)
    {
        cJSON *own = graft_tree_get(j->ui, list->string);
        if (!own) own = cJSON_AddArrayToObject(j->ui, list->string);
        while ((item = cJSON_DetachItemFromArray(list, 0)))
            if (!graft_tree_push(own, item)) j->ui_lost = true;
    }
}

void graft_job_finish(graft_job *j)
{
    cJSON_Delete(j->ui);
    cJSON_Delete(j->warnings);
    cJSON_Delete(j->part);
    cJSON_Delete(j->links);
    for (size_t i = 0; i < j->n_text; i++) graft_free(j->text[i]);
    graft_free(j->text);
    pthread_mutex_destroy(&j->lock);
}

static void progress(graft_job *j, uint64_t done, uint64_t total)
{
    const graft_events *ev = j->events;
    if (ev && ev->progress) ev->progress(ev->ctx, j->where, done, total);
}

static bool is_set(const atomic_int *flag)
{
    return flag && atomic_load_explicit(flag, memory_order_relaxed) != 0;
}

bool graft_job_cancelled(const graft_job *j)
{
    return is_set(j->cancel) || is_set(j->stop) || is_set(j->beside);
}

static int32_t cancelled(graft_job *j)
{
    return graft_job_cancelled(j);
}

static void log_line(graft_job *j, int32_t level, const char *text)
{
    const graft_events *ev = j->events;
    if (ev && ev->log) ev->log(ev->ctx, j->where, level, text);
    if (level < GRAFT_LOG_WARN) return;
    pthread_mutex_lock(&j->lock);
    bool fresh = note_warning(j, text);
    pthread_mutex_unlock(&j->lock);
    if (fresh && ev && ev->warning) ev->warning(ev->ctx, j->where, text);
}

static void fail(graft_job *j, graft_status why, const char *input, const char *text)
{
    pthread_mutex_lock(&j->lock);
    if (j->fail_code == GRAFT_OK) {
        j->fail_code = why < 0 ? why : GRAFT_E_INTERNAL;
        snprintf(j->fail_input, sizeof j->fail_input, "%s", input ? input : "");
        graft_fail(&j->fail, j->fail_code, "%s", text ? text : graft_status_text(why));
    }
    pthread_mutex_unlock(&j->lock);
}

static void preview(graft_job *j, const graft_tensor *rgb8)
{
    const graft_events *ev = j->events;
    if (ev && ev->preview) ev->preview(ev->ctx, j->where, rgb8);
}

static int32_t preview_kind(graft_job *j)
{
    const graft_events *ev = j->events;
    if (!ev || !ev->preview) return GRAFT_PREVIEW_NONE;
    return ev->preview_kind;
}

static int32_t preview_wanted(graft_job *j)
{
    const graft_events *ev = j->events;
    if (!ev || !ev->preview) return 0;
    return !ev->preview_wanted || ev->preview_wanted(ev->ctx, j->where);
}

static int32_t send_picture(graft_job *j, const void *png, uint64_t n)
{
    const graft_events *ev = j->events;
    return ev && ev->picture && ev->picture(ev->ctx, j->where, png, (size_t)n);
}

static void latent(graft_job *j, const graft_tensor *values)
{
    const graft_events *ev = j->events;
    if (ev && ev->latent) ev->latent(ev->ctx, j->where, values);
}

static void begin(graft_job *j, const char *phase)
{
    const graft_events *ev = j->events;
    if (ev && ev->phase) ev->phase(ev->ctx, j->where, phase);
}

static int32_t prepare_only(graft_job *j)
{
    return j->prepare_only;
}

static const char *prompt(graft_job *j)
{
    return j->prompt;
}

static const char *node_id(graft_job *j)
{
    return j->where->id;
}

static const char *extra_pnginfo(graft_job *j)
{
    return j->extra_pnginfo;
}

static void add(graft_job *j, const char *key, const char *json)
{
    graft_err e = GRAFT_ERR_INIT;
    cJSON *item = NULL;
    if (graft_json_parse(json, strlen(json), "what a node shows", &item, &e)) {
        log_line(j, GRAFT_LOG_WARN, e.text);
        return;
    }
    pthread_mutex_lock(&j->lock);
    if (!j->ui) j->ui = cJSON_CreateObject();
    cJSON *list = graft_tree_get(j->ui, key);
    if (!list && j->ui) list = cJSON_AddArrayToObject(j->ui, key);
    if (!graft_tree_push(list, item)) j->ui_lost = true;
    pthread_mutex_unlock(&j->lock);
}

static uint64_t dynamic_count(graft_job *j)
{
    return j->n_dynamic;
}

static const char *dynamic_name(graft_job *j, uint64_t i)
{
    return i < j->n_dynamic ? j->dynamic[i]->name : NULL;
}

/* Fails the job as the node itself would. */
static graft_status refuse(graft_job *j, const graft_err *e)
{
    fail(j, e->code, NULL, e->text);
    pthread_mutex_lock(&j->lock);
    j->refused = true;
    pthread_mutex_unlock(&j->lock);
    return e->code;
}

static graft_status expand(graft_job *j, const char *part, const char *results)
{
    graft_err e = GRAFT_ERR_INIT;
    cJSON *prompt = NULL, *links = NULL;
    if (!j->may_expand)
        graft_fail(&e, GRAFT_E_INTERNAL, "the node expands, but is not said to");
    else if (!graft_json_parse(part, strlen(part), "the expansion", &prompt, &e))
        graft_json_parse(results, strlen(results), "the expansion's results", &links, &e);
    pthread_mutex_lock(&j->lock);
    if (!e.code && j->part) graft_fail(&e, GRAFT_E_INTERNAL, "the node expands twice in one call");
    if (!e.code) {
        j->part = prompt;
        j->links = links;
        prompt = links = NULL;
    }
    pthread_mutex_unlock(&j->lock);
    cJSON_Delete(prompt);
    cJSON_Delete(links);
    return e.code ? refuse(j, &e) : GRAFT_OK;
}

static const char *node_text(graft_job *j, const char *id)
{
    char *text = graft_agenda_node_text(j->agenda, id);
    if (!text) return NULL;
    pthread_mutex_lock(&j->lock);
    if (graft_grow(&j->text, &j->cap_text, j->n_text + 1, sizeof *j->text)) {
        graft_free(text);
        text = NULL;
    } else {
        j->text[j->n_text++] = text;
    }
    pthread_mutex_unlock(&j->lock);
    return text;
}

static const graft_job_api job_table = {progress, cancelled, log_line, fail, preview};
static const graft_phase_api phase_table = {begin};
static const graft_trace_api trace_table = {latent};
static const graft_picture_api picture_table = {send_picture};
static const graft_preview_api preview_table = {preview_kind, preview_wanted};
static const graft_mode_api mode_table = {prepare_only};
static const graft_prompt_api prompt_table = {prompt, node_id, extra_pnginfo};
static const graft_ui_api ui_table = {add};
static const graft_dynamic_api dynamic_table = {dynamic_count, dynamic_name};
static const graft_expand_api expand_table = {expand, node_text};

const graft_service graft_job_services[] = {{GRAFT_JOB_ID, &job_table},
                                            {GRAFT_PHASE_ID, &phase_table},
                                            {GRAFT_TRACE_ID, &trace_table},
                                            {GRAFT_PICTURE_ID, &picture_table},
                                            {GRAFT_PREVIEW_ID, &preview_table},
                                            {GRAFT_MODE_ID, &mode_table},
                                            {GRAFT_PROMPT_ID, &prompt_table},
                                            {GRAFT_UI_ID, &ui_table},
                                            {GRAFT_DYNAMIC_ID, &dynamic_table},
                                            {GRAFT_EXPAND_ID, &expand_table},
                                            {NULL, NULL}};
