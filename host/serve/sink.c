#include "host/serve/sink.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "host/serve/picture.h"
#include "base/tree.h"

#define STATE_NODES  200  /* newest nodes that a progress_state lists */
#define PROGRESS_GAP 0.02 /* seconds between two messages about steps */
#define PREVIEW_GAP  0.1
#define WARNINGS     100  /* of one run that clients are told of; the log has all */
#define ANSWER_READ  0.05 /* seconds from a prompt to the first of its results */

void graft_sink_init(graft_sink *s, graft_hub *hub, graft_logs *logs)
{
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    graft_phases_init(&s->phases);
    s->hub = hub;
    s->logs = logs;
}

static void node_finish(graft_sink_node *n)
{
    graft_free(n->id);
    graft_free(n->parent);
    graft_free(n->display);
    graft_free(n->real);
}

static void forget(graft_sink *s)
{
    for (size_t i = 0; i < s->n_node; i++) node_finish(&s->node[i]);
    s->n_node = 0;
    graft_free(s->current);
    s->id = s->client = NULL;
    s->current = NULL;
    graft_str_finish(&s->messages);
    cJSON_Delete(s->warnings);
    s->warnings = NULL;
    graft_str_finish(&s->held);
    s->end[0] = 0;
    s->progress_at = s->preview_at = 0;
}

void graft_sink_finish(graft_sink *s)
{
    forget(s);
    graft_free(s->node);
    graft_phases_finish(&s->phases);
    pthread_mutex_destroy(&s->lock);
}

void graft_sink_begin(graft_sink *s, const char *id, const char *client, double added)
{
    graft_phases_restart(&s->phases);
    pthread_mutex_lock(&s->lock);
    forget(s);
    s->added = added;
    s->id = id;
    s->client = client;
    pthread_mutex_unlock(&s->lock);
}

/* ---- building blocks; the lock is held */

static graft_str begin_message(const char *type)
{
    graft_str m = GRAFT_STR_INIT;
    graft_str_printf(&m, "{\"type\":\"%s\",\"data\":{", type);
    return m;
}

/* Clients learn the id of a prompt from the answer to it, and some listen for its results only
 * then. A result that comes from the cache is there sooner than they have read that answer: it
 * would be lost on them, and they would wait for ever. Without the lock. */
static void let_read(const graft_sink *s)
{
    double left = s->added + ANSWER_READ - graft_clock_now();
    if (!s->client || left <= 0) return;
    const struct timespec pause = {0, (long)(1e9 * left)};
    nanosleep(&pause, NULL);
}

/* Sends to the client of the job, or to all; what was sent is "type" and {data}. */
static void send_message(graft_sink *s, graft_str *m, bool everybody)
{
    graft_str_puts(m, "}}");
    if (everybody)
        graft_hub_tell_all(s->hub, s->client, m);
    else if (s->client)
        graft_hub_text(s->hub, s->client, m);
    else
        graft_str_finish(m);
}

static void put_id(graft_sink *s, graft_str *m)
{
    graft_str_puts(m, "\"prompt_id\":");
    graft_str_json(m, s->id);
}

/* Makes a message that the history keeps, too; `data` is its members with a comma behind, or "". */
static graft_str record(graft_sink *s, const char *type, graft_str *data)
{
    graft_str m = begin_message(type);
    graft_str_append(&m, data->data ? data->data : "", data->len);
    put_id(s, &m);
    graft_str_printf(&m, ",\"timestamp\":%lld", (long long)graft_clock_ms());
    m.failed |= data->failed;
    size_t skip = strlen(type) + strlen("{\"type\":\"\",\"data\":");
    if (!m.failed) {
        graft_str_printf(&s->messages, "%s[\"%s\",", s->messages.len ? "," : "", type);
        graft_str_append(&s->messages, m.data + skip, m.len - skip);
        graft_str_puts(&s->messages, "}]");
    }
    graft_str_finish(data);
    return m;
}

static void tell_held(graft_sink *s)
{
    if (s->held.len) send_message(s, &s->held, s->held_for_all);
    graft_str_finish(&s->held);
    s->held = (graft_str)GRAFT_STR_INIT;
}

/* Records a message that ends the run; graft_sink_tell() sends it. */
static void hold(graft_sink *s, const char *type, graft_str *data, bool everybody)
{
    tell_held(s);
    s->held = record(s, type, data);
    s->held_for_all = everybody;
}

static graft_sink_node *find_node(graft_sink *s, const char *id)
{
    for (size_t i = s->n_node; i-- > 0;)
        if (strcmp(s->node[i].id, id) == 0) return &s->node[i];
    return NULL;
}

static graft_sink_node *add_node(graft_sink *s, const graft_where *at)
{
    graft_sink_node *n = find_node(s, at->id);
    if (!n) {
        graft_sink_node fresh = {.id = graft_strdup(at->id)};
        bool ok = fresh.id;
        if (at->parent) {
            fresh.parent = graft_strdup(at->parent);
            fresh.display = graft_strdup(at->display);
            fresh.real = graft_strdup(at->real);
            ok = ok && fresh.parent && fresh.display && fresh.real;
        }
        if (!ok || graft_grow(&s->node, &s->cap_node, s->n_node + 1, sizeof *s->node)) {
            node_finish(&fresh);
            return NULL;
        }
        n = &s->node[s->n_node++];
        *n = fresh;
    }
    n->state = GRAFT_SINK_RUNNING;
    n->value = 0;
    n->max = 1;
    return n;
}

/* "name":"text", */
static void put_text(graft_str *m, const char *name, const char *text)
{
    graft_str_printf(m, "\"%s\":", name);
    if (text)
        graft_str_json(m, text);
    else
        graft_str_puts(m, "null");
    graft_str_puts(m, ",");
}

static graft_where where_of(const graft_sink_node *n)
{
    const graft_where plain = {n->id, n->id, NULL, n->id};
    const graft_where made = {n->id, n->display, n->parent, n->real};
    return n->parent ? made : plain;
}

static void put_node(graft_sink *s, graft_str *m, const graft_sink_node *n)
{
    static const char *const state[] = {"running", "finished", "error"};
    const graft_where at = where_of(n);
    graft_str_json(m, n->id);
    graft_str_printf(m, ":{\"value\":%llu,\"max\":%llu,\"state\":\"%s\",",
                     (unsigned long long)n->value, (unsigned long long)n->max, state[n->state]);
    put_text(m, "node_id", at.id);
    put_id(s, m);
    graft_str_puts(m, ",");
    put_text(m, "display_node_id", at.display);
    put_text(m, "parent_node_id", at.parent);
    graft_str_puts(m, "\"real_node_id\":");
    graft_str_json(m, at.real);
    if (n->phase[0]) {
        graft_str_puts(m, ",\"phase\":");
        graft_str_json(m, n->phase);
    }
    if (n->rate > 0) graft_str_printf(m, ",\"rate\":%.4g", n->rate);
    graft_str_puts(m, "}");
}

static void send_state(graft_sink *s)
{
    if (!s->client) return;
    graft_str m = begin_message("progress_state");
    put_id(s, &m);
    graft_str_puts(&m, ",\"nodes\":{");
    size_t first = s->n_node > STATE_NODES ? s->n_node - STATE_NODES : 0;
    for (size_t i = first; i < s->n_node; i++) {
        if (i > first) graft_str_puts(&m, ",");
        put_node(s, &m, &s->node[i]);
    }
    graft_str_puts(&m, "}");
    send_message(s, &m, false);
}

static void put_executing(graft_sink *s, graft_str *m)
{
    const graft_sink_node *n = find_node(s, s->current);
    put_text(m, "node", s->current);
    put_text(m, "display_node", n ? where_of(n).display : s->current);
    put_id(s, m);
}

static void put_json(graft_str *m, const cJSON *json, const char *fallback)
{
    char *text = json ? graft_json_print(json) : NULL;
    graft_str_puts(m, text ? text : fallback);
    graft_free(text);
}

/* ---- events */

static void on_start(void *ctx, size_t nodes)
{
    graft_sink *s = ctx;
    graft_str none = GRAFT_STR_INIT;
    (void)nodes;
    pthread_mutex_lock(&s->lock);
    graft_str m = record(s, "execution_start", &none);
    send_message(s, &m, false);
    pthread_mutex_unlock(&s->lock);
}

static void on_cached(void *ctx, const char *const *ids, size_t n)
{
    graft_sink *s = ctx;
    graft_str data = GRAFT_STR_INIT;
    graft_str_puts(&data, "\"nodes\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) graft_str_puts(&data, ",");
        graft_str_json(&data, ids[i]);
    }
    graft_str_puts(&data, "],");
    pthread_mutex_lock(&s->lock);
    graft_str m = record(s, "execution_cached", &data);
    send_message(s, &m, false);
    pthread_mutex_unlock(&s->lock);
}

static void on_node(void *ctx, const graft_where *at, const graft_node *node, const char *title)
{
    graft_sink *s = ctx;
    (void)node, (void)title;
    pthread_mutex_lock(&s->lock);
    graft_free(s->current);
    s->current = graft_strdup(at->id);
    graft_sink_node *n = add_node(s, at);
    if (n && n->since == 0) n->since = graft_clock_now();
    s->progress_at = s->preview_at = 0;
    send_state(s);
    if (s->current) {
        graft_str m = begin_message("executing");
        put_executing(s, &m);
        send_message(s, &m, false);
    }
    pthread_mutex_unlock(&s->lock);
}

static void on_asked(void *ctx, const graft_where *at)
{
    graft_sink *s = ctx;
    graft_str m = begin_message("executing");
    put_text(&m, "node", at->id);
    put_text(&m, "display_node", at->display);
    pthread_mutex_lock(&s->lock);
    put_id(s, &m);
    send_message(s, &m, false);
    pthread_mutex_unlock(&s->lock);
}

static void on_progress(void *ctx, const graft_where *at, uint64_t done, uint64_t total)
{
    graft_sink *s = ctx;
    double now = graft_clock_now();
    graft_phases_sample(&s->phases);
    pthread_mutex_lock(&s->lock);
    graft_sink_node *n = s->id ? find_node(s, at->id) : NULL;
    if (n) {
        if (total != n->max || done < n->value || n->begun == 0) {
            n->begun = now;
            n->first = done;
            n->rate = 0;
        } else if (done > n->first && now > n->begun) {
            n->rate = (double)(done - n->first) / (now - n->begun);
        }
        n->value = done;
        n->max = total;
        if (done >= total || now - s->progress_at >= PROGRESS_GAP) {
            s->progress_at = now;
            send_state(s);
            graft_str m = begin_message("progress");
            graft_str_printf(&m, "\"value\":%llu,\"max\":%llu,", (unsigned long long)done,
                             (unsigned long long)total);
            put_id(s, &m);
            graft_str_puts(&m, ",\"node\":");
            graft_str_json(&m, at->id);
            if (n->rate > 0) graft_str_printf(&m, ",\"rate\":%.4g", n->rate);
            send_message(s, &m, false);
        }
    }
    pthread_mutex_unlock(&s->lock);
}

static void on_phase(void *ctx, const graft_where *at, const char *phase)
{
    graft_sink *s = ctx;
    graft_phases_begin(&s->phases, phase);
    pthread_mutex_lock(&s->lock);
    graft_sink_node *n = s->id ? find_node(s, at->id) : NULL;
    if (n && strcmp(n->phase, phase) != 0) {
        snprintf(n->phase, sizeof n->phase, "%s", phase);
        n->begun = n->rate = 0;
        n->value = 0; /* that was the other phase's: this one has not said anything yet */
        n->max = 1;
        send_state(s);
    }
    pthread_mutex_unlock(&s->lock);
}

static void on_log(void *ctx, const graft_where *at, int32_t level, const char *text)
{
    graft_sink *s = ctx;
    (void)at;
    graft_logs_line(s->logs, level, text);
}

/* Adds it to the list; false when it was told already or there is no room. */
static bool note_warning(graft_sink *s, const graft_where *at, const char *text)
{
    const cJSON *known;
    if (cJSON_GetArraySize(s->warnings) >= WARNINGS) return false;
    cJSON_ArrayForEach(known, s->warnings)
    {
        bool same = strcmp(graft_json_str(known, "node", ""), at->id) == 0;
        if (same && strcmp(graft_json_str(known, "text", ""), text) == 0) return false;
    }
    cJSON *entry = cJSON_CreateObject();
    if (!s->warnings) s->warnings = cJSON_CreateArray();
    bool ok = graft_tree_text(entry, "node", at->id) &&
              graft_tree_text(entry, "display_node", at->display) &&
              graft_tree_text(entry, "text", text);
    if (ok) return graft_tree_push(s->warnings, entry);
    cJSON_Delete(entry);
    return false;
}

/* A kind of message that is ours alone: ComfyUI has none for this. */
static void on_warning(void *ctx, const graft_where *at, const char *text)
{
    graft_sink *s = ctx;
    graft_str plain = GRAFT_STR_INIT, data = GRAFT_STR_INIT;
    graft_roots_hide(s->logs->roots, text, &plain);
    const char *shown = plain.data ? plain.data : "";
    pthread_mutex_lock(&s->lock);
    if (!plain.failed && s->id && note_warning(s, at, shown)) {
        put_text(&data, "node", at->id);
        put_text(&data, "display_node", at->display);
        put_text(&data, "text", shown);
        graft_str m = record(s, "graft.warning", &data);
        send_message(s, &m, false);
    }
    pthread_mutex_unlock(&s->lock);
    graft_str_finish(&plain);
}

/* u32 fields of binary frames are big-endian. */
static void put_u32(graft_str *b, uint32_t v)
{
    const uint8_t byte[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
    graft_str_append(b, (const char *)byte, sizeof byte);
}

static void send_picture(graft_sink *s, const graft_where *at, const uint8_t *jpeg, size_t size)
{
    graft_str meta = GRAFT_STR_INIT, plain = GRAFT_STR_INIT, rich = GRAFT_STR_INIT;
    graft_str_puts(&meta, "{");
    put_text(&meta, "node_id", at->id);
    put_text(&meta, "display_node_id", at->display);
    put_text(&meta, "parent_node_id", at->parent);
    put_text(&meta, "real_node_id", at->real);
    put_id(s, &meta);
    graft_str_puts(&meta, ",\"image_type\":\"image/jpeg\"}");
    put_u32(&plain, 1);
    put_u32(&plain, 1);
    graft_str_append(&plain, (const char *)jpeg, size);
    put_u32(&rich, 4);
    put_u32(&rich, (uint32_t)meta.len);
    graft_str_append(&rich, meta.data ? meta.data : "", meta.len);
    graft_str_append(&rich, (const char *)jpeg, size);
    if (!plain.failed && !rich.failed && !meta.failed)
        graft_hub_binary(s->hub, s->client, plain.data, plain.len, rich.data, rich.len);
    graft_str_finish(&meta);
    graft_str_finish(&plain);
    graft_str_finish(&rich);
}

/* Whether a picture of this node would reach anyone now. Locked. */
static bool wants_preview(graft_sink *s, const graft_where *at, double now)
{
    const graft_sink_node *n = s->id ? find_node(s, at->id) : NULL;
    /* Clients go on showing the last one, so that has to be of the end. */
    bool last = n && n->max && n->value >= n->max;
    return n && s->client && (last || now - s->preview_at >= PREVIEW_GAP);
}

static bool on_preview_wanted(void *ctx, const graft_where *at)
{
    graft_sink *s = ctx;
    pthread_mutex_lock(&s->lock);
    bool wanted = wants_preview(s, at, graft_clock_now());
    pthread_mutex_unlock(&s->lock);
    return wanted;
}

static void on_preview(void *ctx, const graft_where *at, const graft_tensor *rgb)
{
    graft_sink *s = ctx;
    uint8_t *jpeg = NULL;
    size_t size = 0;
    double now = graft_clock_now();
    pthread_mutex_lock(&s->lock);
    bool wanted = wants_preview(s, at, now);
    if (wanted) s->preview_at = now;
    pthread_mutex_unlock(&s->lock);
    if (!wanted || graft_picture_preview(rgb, &jpeg, &size, NULL)) return;
    pthread_mutex_lock(&s->lock);
    if (s->id && s->client) send_picture(s, at, jpeg, size);
    pthread_mutex_unlock(&s->lock);
    graft_free(jpeg);
}

/* Part of the result, so neither thinned out nor left out like previews. */
static bool on_picture(void *ctx, const graft_where *at, const void *png, size_t n)
{
    graft_sink *s = ctx;
    graft_str frame = GRAFT_STR_INIT;
    (void)at;
    let_read(s);
    put_u32(&frame, 1);
    put_u32(&frame, 2);
    graft_str_append(&frame, png, n);
    pthread_mutex_lock(&s->lock);
    bool sent = s->id && s->client && !frame.failed;
    if (sent) graft_hub_binary(s->hub, s->client, frame.data, frame.len, NULL, 0);
    pthread_mutex_unlock(&s->lock);
    graft_str_finish(&frame);
    return sent;
}

static void on_done(void *ctx, const graft_where *at, const cJSON *ui, int32_t from_cache)
{
    graft_sink *s = ctx;
    graft_phases_end(&s->phases);
    double now = graft_clock_now(); /* a node's phases are within its time */
    if (ui) let_read(s);
    pthread_mutex_lock(&s->lock);
    graft_sink_node *n = from_cache ? add_node(s, at) : find_node(s, at->id);
    if (n) {
        n->state = GRAFT_SINK_FINISHED;
        n->value = n->max;
        if (n->since > 0) n->seconds += now - n->since;
        n->since = 0;
    }
    if (ui) {
        graft_str m = begin_message("executed");
        put_text(&m, "node", at->id);
        put_text(&m, "display_node", at->display);
        graft_str_puts(&m, "\"output\":");
        put_json(&m, ui, "{}");
        graft_str_puts(&m, ",");
        put_id(s, &m);
        send_message(s, &m, false);
    }
    send_state(s);
    pthread_mutex_unlock(&s->lock);
}

static const char *exception_of(graft_status code)
{
    switch (code) {
    case GRAFT_E_ARG:
    case GRAFT_E_FORMAT:
        return "ValueError";
    case GRAFT_E_NOMEM:
        return "MemoryError";
    case GRAFT_E_UNSUPPORTED:
        return "NotImplementedError";
    case GRAFT_E_IO:
        return "OSError";
    case GRAFT_E_NOTFOUND:
        return "FileNotFoundError";
    default:
        return "RuntimeError";
    }
}

static void put_line(const graft_sink *s, graft_str *m, const char *text)
{
    graft_str line = GRAFT_STR_INIT;
    graft_roots_hide(s->logs->roots, text, &line);
    graft_str_puts(&line, "\n");
    graft_str_json(m, line.data ? line.data : "");
    graft_str_finish(&line);
}

static void put_where(graft_str *d, const graft_run_error *x)
{
    graft_str_puts(d, "\"node_id\":");
    graft_str_json(d, x->node_id);
    graft_str_puts(d, ",\"node_type\":");
    graft_str_json(d, x->class_type);
    graft_str_puts(d, ",\"executed\":");
    put_json(d, x->executed, "[]");
}

static void put_exception(const graft_sink *s, graft_str *d, const graft_run_error *x)
{
    graft_str_puts(d, ",\"exception_message\":");
    put_line(s, d, x->text);
    graft_str_printf(d, ",\"exception_type\":\"%s\",\"traceback\":[", exception_of(x->code));
    put_line(s, d, x->text);
    graft_str_puts(d, "],\"current_inputs\":");
    /* A text that came along a link may be a path. */
    char *inputs = x->inputs ? graft_json_print(x->inputs) : NULL;
    graft_roots_hide(s->logs->roots, inputs ? inputs : "{}", d);
    graft_free(inputs);
    graft_str_puts(d, ",\"current_outputs\":");
    put_json(d, x->executed, "[]");
}

/* An error event, although the run goes on and ends with success, and nothing for the history: so
 * it is with ComfyUI. */
static void on_blocked(void *ctx, const graft_run_error *x)
{
    graft_sink *s = ctx;
    graft_str m = begin_message("execution_error"), text = GRAFT_STR_INIT;
    graft_str_puts(&text, "Execution Blocked: ");
    graft_roots_hide(s->logs->roots, x->text, &text);
    put_where(&m, x);
    graft_str_puts(&m, ",\"exception_message\":");
    graft_str_json(&m, text.data ? text.data : "");
    graft_str_puts(&m, ",\"exception_type\":\"ExecutionBlocked\",\"traceback\":[],"
                       "\"current_inputs\":[],\"current_outputs\":[],");
    graft_str_finish(&text);
    let_read(s);
    pthread_mutex_lock(&s->lock);
    put_id(s, &m);
    send_message(s, &m, false);
    pthread_mutex_unlock(&s->lock);
}

static void on_error(void *ctx, const graft_run_error *x)
{
    graft_sink *s = ctx;
    graft_str d = GRAFT_STR_INIT;
    bool stopped = x->code == GRAFT_E_CANCEL;
    let_read(s);
    pthread_mutex_lock(&s->lock);
    snprintf(s->end, sizeof s->end, "%s", stopped ? "interrupted" : "error");
    put_where(&d, x);
    if (!stopped) {
        put_exception(s, &d, x);
        if (*x->input) {
            graft_str_puts(&d, ",\"input_name\":");
            graft_str_json(&d, x->input);
        }
    }
    graft_str_puts(&d, ",");
    graft_sink_node *n = find_node(s, x->node_id);
    if (n) n->state = GRAFT_SINK_ERROR;
    hold(s, stopped ? "execution_interrupted" : "execution_error", &d, stopped);
    pthread_mutex_unlock(&s->lock);
}

static void on_success(void *ctx)
{
    graft_sink *s = ctx;
    graft_str none = GRAFT_STR_INIT;
    let_read(s);
    pthread_mutex_lock(&s->lock);
    snprintf(s->end, sizeof s->end, "success");
    hold(s, "execution_success", &none, false);
    pthread_mutex_unlock(&s->lock);
}

#define PROFILE_NODES 500

static const char *shown_at(const graft_sink_node *n)
{
    return where_of(n).display;
}

void graft_sink_profile(graft_sink *s, graft_str *out)
{
    double now = graft_clock_now();
    graft_phases_json(&s->phases, out);
    if (out->failed || !out->len) return;
    out->data[--out->len] = 0; /* the brace at its end */
    graft_str_puts(out, ",\"nodes\":[");
    pthread_mutex_lock(&s->lock);
    size_t n = s->n_node > PROFILE_NODES ? 0 : s->n_node, count = 0;
    for (size_t i = 0; i < n; i++) {
        const char *id = shown_at(&s->node[i]);
        double seconds = 0;
        bool again = false;
        for (size_t k = 0; k < n && !again; k++) {
            const graft_sink_node *x = &s->node[k];
            if (strcmp(shown_at(x), id) != 0) continue;
            again = k < i;
            seconds += x->seconds + (x->since > 0 ? now - x->since : 0);
        }
        if (again || seconds <= 0) continue;
        graft_str_puts(out, count++ ? ",{\"node\":" : "{\"node\":");
        graft_str_json(out, id);
        graft_str_printf(out, ",\"seconds\":%.6f}", seconds);
    }
    pthread_mutex_unlock(&s->lock);
    graft_str_puts(out, "]}");
}

graft_events graft_sink_events(graft_sink *s, graft_preview_mode previews)
{
    static const int32_t kinds[] = {[GRAFT_PREVIEWS_AUTO] = GRAFT_PREVIEW_BEST,
                                    [GRAFT_PREVIEWS_NONE] = GRAFT_PREVIEW_NONE,
                                    [GRAFT_PREVIEWS_TAESD] = GRAFT_PREVIEW_DECODED,
                                    [GRAFT_PREVIEWS_LATENT] = GRAFT_PREVIEW_LATENT};
    const graft_events events = {.ctx = s,
                                 .start = on_start,
                                 .cached = on_cached,
                                 .node_asked = on_asked,
                                 .node_start = on_node,
                                 .progress = on_progress,
                                 .phase = on_phase,
                                 .log = on_log,
                                 .warning = on_warning,
                                 .preview_kind = kinds[previews],
                                 .preview = previews == GRAFT_PREVIEWS_NONE ? NULL : on_preview,
                                 .preview_wanted = on_preview_wanted,
                                 .picture = on_picture,
                                 .node_done = on_done,
                                 .error = on_error,
                                 .blocked = on_blocked,
                                 .success = on_success};
    return events;
}

void graft_sink_fail(graft_sink *s, const graft_err *why)
{
    graft_run_error error = {
        .code = why->code, .node_id = "", .class_type = "", .input = "", .text = why->text};
    if (!s->messages.len) on_start(s, 0);
    on_error(s, &error);
}

char *graft_sink_take_messages(graft_sink *s)
{
    graft_str all = GRAFT_STR_INIT;
    pthread_mutex_lock(&s->lock);
    graft_str_puts(&all, "[");
    graft_str_append(&all, s->messages.data ? s->messages.data : "", s->messages.len);
    graft_str_puts(&all, "]");
    all.failed |= s->messages.failed;
    pthread_mutex_unlock(&s->lock);
    char *text = graft_str_take(&all);
    graft_str_finish(&all);
    return text;
}

void graft_sink_tell(void *sink)
{
    graft_sink *s = sink;
    pthread_mutex_lock(&s->lock);
    tell_held(s);
    pthread_mutex_unlock(&s->lock);
}

void graft_sink_close(graft_sink *s)
{
    pthread_mutex_lock(&s->lock);
    if (s->id) {
        graft_str m = begin_message("executing");
        graft_str_puts(&m, "\"node\":null,");
        put_id(s, &m);
        send_message(s, &m, false);
    }
    forget(s);
    pthread_mutex_unlock(&s->lock);
}

void graft_sink_resume(graft_sink *s, const char *client, graft_str *out)
{
    pthread_mutex_lock(&s->lock);
    bool its = s->id && s->client && s->current && strcmp(client, s->client) == 0;
    if (its && !s->end[0]) {
        graft_str_puts(out, "{\"type\":\"executing\",\"data\":{");
        put_executing(s, out);
        graft_str_puts(out, "}}");
    }
    pthread_mutex_unlock(&s->lock);
}

void graft_sink_progress(graft_sink *s, const char *id, graft_str *out)
{
    pthread_mutex_lock(&s->lock);
    const graft_sink_node *n = NULL;
    size_t done = 0;
    bool runs = s->id && strcmp(s->id, id) == 0 && !s->end[0];
    if (runs && s->current) n = find_node(s, s->current);
    for (size_t i = 0; n && i < s->n_node; i++) done += s->node[i].state == GRAFT_SINK_FINISHED;
    if (n) {
        graft_str_puts(out, "{\"node\":");
        graft_str_json(out, n->id);
        graft_str_puts(out, ",\"phase\":");
        if (n->phase[0])
            graft_str_json(out, n->phase);
        else
            graft_str_puts(out, "null");
        graft_str_printf(out,
                         ",\"value\":%llu,\"max\":%llu,\"rate\":", (unsigned long long)n->value,
                         (unsigned long long)n->max);
        if (n->rate > 0)
            graft_str_printf(out, "%.4g", n->rate);
        else
            graft_str_puts(out, "null");
        graft_str_printf(out, ",\"nodes_done\":%zu}", done);
    } else {
        graft_str_puts(out, "null");
    }
    pthread_mutex_unlock(&s->lock);
}

void graft_sink_warnings(graft_sink *s, const char *id, graft_str *out)
{
    pthread_mutex_lock(&s->lock);
    put_json(out, s->id && strcmp(s->id, id) == 0 ? s->warnings : NULL, "[]");
    pthread_mutex_unlock(&s->lock);
}
