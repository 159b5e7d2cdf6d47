#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "host/serve/routes.h"
#include "base/tree.h"
#include "host/prompt/validate.h"

/* {"error": {type, message, details, extra_info: {}}, "node_errors": {}}. */
static graft_status fault(graft_http_response *r, int status, const char *type, const char *message,
                          const char *details, graft_err *e)
{
    graft_str s = GRAFT_STR_INIT;
    graft_str_printf(&s, "{\"error\":{\"type\":\"%s\",\"message\":", type);
    graft_str_json(&s, message);
    graft_str_puts(&s, ",\"details\":");
    graft_str_json(&s, details);
    graft_str_puts(&s, ",\"extra_info\":{}},\"node_errors\":{}}");
    return graft_http_str(r, status, &s, e);
}

/* A random UUID, version 4. */
static bool new_id(char out[GRAFT_QUEUE_ID])
{
    uint8_t b[16];
    if (getrandom(b, sizeof b, 0) != sizeof b) return false;
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    char *p = out;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *p++ = '-';
        p += snprintf(p, 3, "%02x", b[i]);
    }
    return true;
}

/* Letters, digits and "-_.:", 1 to 128 of them. */
static bool good_id(const char *id)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:");
    return n > 0 && n < GRAFT_QUEUE_ID && !id[n];
}

/* extra_data as it is kept: with client_id and create_time, without what must not be shown. */
static graft_status make_extra(cJSON *body, const char *client, int64_t now, char **out,
                               graft_err *e)
{
    cJSON *extra = cJSON_DetachItemFromObjectCaseSensitive(body, "extra_data");
    *out = NULL;
    if (!cJSON_IsObject(extra)) {
        cJSON_Delete(extra);
        extra = cJSON_CreateObject();
    }
    bool ok = extra;
    if (ok) {
        cJSON_DeleteItemFromObjectCaseSensitive(extra, "auth_token_comfy_org");
        cJSON_DeleteItemFromObjectCaseSensitive(extra, "api_key_comfy_org");
        if (client) ok = graft_tree_set(extra, "client_id", cJSON_CreateString(client));
        ok = ok && graft_tree_set(extra, "create_time", graft_json_new_i64(now));
    }
    if (ok) *out = graft_json_print(extra);
    cJSON_Delete(extra);
    return *out ? GRAFT_OK : graft_fail_nomem(e, "a prompt");
}

/* The ids of the outputs that will run, as a JSON array. */
static char *output_ids(const graft_prompt *p)
{
    graft_str s = GRAFT_STR_INIT;
    graft_str_puts(&s, "[");
    for (size_t i = 0; i < p->n_output; i++) {
        if (i) graft_str_puts(&s, ",");
        graft_str_json(&s, p->node[p->output[i]].id);
    }
    graft_str_puts(&s, "]");
    return graft_str_take(&s);
}

static graft_status validate(graft_serve *s, cJSON *body, graft_validation *v, graft_err *e)
{
    const cJSON *list = graft_tree_get(body, "partial_execution_targets"), *item;
    const char **target = NULL;
    size_t n = 0;
    if (cJSON_IsArray(list)) {
        target = graft_malloc_array((size_t)cJSON_GetArraySize(list), sizeof *target);
        if (!target) return graft_fail_nomem(e, "a prompt");
        cJSON_ArrayForEach(item, list) if (cJSON_IsString(item)) target[n++] = item->valuestring;
    }
    cJSON *prompt = cJSON_DetachItemFromObjectCaseSensitive(body, "prompt");
    graft_status st =
        graft_validate(s->session.registry, &s->session.services.host, prompt, target, n, v, e);
    graft_free(target);
    return st;
}

static graft_status answer_faults(graft_http_response *r, const graft_validation *v, graft_err *e)
{
    cJSON holder = {.type = cJSON_Object};
    graft_status st;
    if (cJSON_AddItemReferenceToObject(&holder, "error", v->error) &&
        cJSON_AddItemReferenceToObject(&holder, "node_errors", v->node_errors))
        st = graft_http_tree(r, 400, &holder, e);
    else
        st = graft_fail_nomem(e, "an answer");
    cJSON_Delete(holder.child);
    return st;
}

static graft_status answer_good(graft_http_response *r, const graft_store_job *job,
                                const graft_validation *v, graft_err *e)
{
    graft_str s = GRAFT_STR_INIT;
    char *errors = graft_json_print(v->node_errors);
    graft_str_puts(&s, "{\"prompt_id\":");
    graft_str_json(&s, job->id);
    if (job->number == floor(job->number) && fabs(job->number) < 1e15)
        graft_str_printf(&s, ",\"number\":%.0f", job->number);
    else
        graft_str_printf(&s, ",\"number\":%.17g", job->number);
    graft_str_puts(&s, ",\"node_errors\":");
    graft_str_puts(&s, errors ? errors : "{}");
    graft_str_puts(&s, "}");
    graft_free(errors);
    return graft_http_str(r, 200, &s, e);
}

/* Fills in number and id; false when the answer is a refusal already. */
static bool identify(graft_serve *s, const cJSON *body, graft_store_job *job,
                     graft_http_response *r, graft_status *st, graft_err *e)
{
    char id[GRAFT_QUEUE_ID];
    const cJSON *wanted = graft_tree_get(body, "prompt_id");
    const cJSON *place = graft_tree_get(body, "number");
    double number = 0;
    job->number = (double)s->counter;
    if (cJSON_IsTrue(graft_tree_get(body, "front"))) job->number = -job->number;
    s->counter++;
    if (place && !cJSON_IsNull(place)) {
        if (!graft_json_f64(place, &number) || !isfinite(number)) {
            *st = fault(r, 400, "invalid_prompt", "number must be a finite number", "", e);
            return false;
        }
        job->number = number;
    }
    if (wanted && !cJSON_IsNull(wanted)) {
        if (!cJSON_IsString(wanted) || !good_id(wanted->valuestring)) {
            *st = fault(r, 400, "invalid_prompt_id",
                        "prompt_id must be 1 to 128 letters, digits or -_.:", "", e);
            return false;
        }
        snprintf(id, sizeof id, "%s", wanted->valuestring);
    } else if (!new_id(id)) {
        *st = graft_fail(e, GRAFT_E_IO, "the system has no random numbers");
        return false;
    }
    job->id = graft_strdup(id);
    if (!job->id) *st = graft_fail_nomem(e, "a prompt");
    return job->id;
}

/* The id of the page's workflow, by which jobs are listed. */
static graft_status note_workflow(const cJSON *body, graft_store_job *job, graft_err *e)
{
    const cJSON *info = graft_tree_get(graft_tree_get(body, "extra_data"), "extra_pnginfo");
    const char *id = graft_json_str(graft_tree_get(info, "workflow"), "id", NULL);
    job->workflow = id ? graft_strdup(id) : NULL;
    return id && !job->workflow ? graft_fail_nomem(e, "a prompt") : GRAFT_OK;
}

static graft_status enqueue(graft_serve *s, cJSON *body, graft_store_job *job,
                            const graft_validation *v, graft_http_response *r, graft_err *e)
{
    const char *given = graft_json_str(graft_tree_get(body, "extra_data"), "client_id", NULL);
    const char *client = graft_json_str(body, "client_id", given);
    graft_err why = GRAFT_ERR_INIT;
    job->created = graft_clock_ms();
    job->client = client ? graft_strdup(client) : NULL;
    if (client && !job->client) return graft_fail_nomem(e, "a prompt");
    graft_status st = note_workflow(body, job, e); /* before its parts are taken */
    if (!st) st = make_extra(body, job->client, job->created, &job->extra, e);
    if (st) return st;
    job->prompt = graft_json_print(v->prompt->json);
    job->outputs = output_ids(v->prompt);
    if (!job->prompt || !job->outputs) return graft_fail_nomem(e, "a prompt");
    st = graft_queue_add(&s->queue, job, &why);
    if (st == GRAFT_E_ARG) return fault(r, 409, "duplicate_prompt_id", why.text, job->id, e);
    if (st == GRAFT_E_LIMIT) return fault(r, 429, "queue_full", why.text, "", e);
    if (st) return graft_fail(e, st, "%s", why.text);
    return answer_good(r, job, v, e);
}

graft_status graft_route_prompt_post(graft_serve *s, const graft_http_request *q, const char *rest,
                                     graft_http_response *r, graft_err *e)
{
    graft_err why = GRAFT_ERR_INIT;
    graft_store_job job = {0};
    graft_validation v = {0};
    cJSON *body = NULL;
    (void)rest;
    graft_status st = graft_http_json_python(q, &body, &why);
    if (st == GRAFT_E_NOMEM) return graft_fail_nomem(e, "a prompt");
    if (st) {
        s->counter++;
        return fault(r, 400, "invalid_json", "The body is not valid JSON", why.text, e);
    }
    if (!identify(s, body, &job, r, &st, e)) goto out;
    if (!graft_tree_get(body, "prompt")) {
        st = fault(r, 400, "no_prompt", "No prompt provided", "No prompt provided", e);
        goto out;
    }
    st = validate(s, body, &v, &why);
    if (st == GRAFT_E_LIMIT) {
        st = fault(r, 400, "prompt_too_large", why.text, "", e);
        goto out;
    }
    if (st) {
        graft_fail(e, st, "%s", why.text);
        goto out;
    }
    st = v.error ? answer_faults(r, &v, e) : enqueue(s, body, &job, &v, r, e);
out:
    graft_validation_finish(&v);
    graft_store_job_finish(&job);
    cJSON_Delete(body);
    return st;
}

graft_status graft_route_prompt_get(graft_serve *s, const graft_http_request *q, const char *rest,
                                    graft_http_response *r, graft_err *e)
{
    graft_str text = GRAFT_STR_INIT;
    (void)q, (void)rest;
    graft_str_printf(&text, "{\"exec_info\":{\"queue_remaining\":%lld}}",
                     (long long)graft_store_remaining(s->store));
    return graft_http_str(r, 200, &text, e);
}
