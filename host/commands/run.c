#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "host/session/ahead.h"
#include "host/commands/commands.h"
#include "host/run/executor.h"
#include "host/prompt/choices.h"
#include "host/prompt/hint.h"
#include "host/session/phases.h"
#include "host/session/progress.h"
#include "host/session/quantize.h"
#include "host/session/session.h"
#include "base/tree.h"
#include "host/prompt/validate.h"
#include "host/prompt/workflow.h"

/* A signal handler can reach nothing else. */
static atomic_int interrupted;

static void on_signal(int number)
{
    (void)number;
    if (atomic_fetch_add(&interrupted, 1) >= 2) _exit(GRAFT_EXIT_CANCEL);
}

/* The first signal ends the job within an operator, and the second may be an impatient finger. The
 * third ends the process: some node does not ask whether it should stop. Until a job is there the
 * first does that, as standard input may be waited for. */
static void catch_signals(void)
{
    atomic_store(&interrupted, 2);
    struct sigaction sa = {0};
    sa.sa_handler = on_signal;
    sa.sa_flags = SA_RESTART;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    sa.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &sa, NULL);
}

struct view {
    graft_progress progress;
    graft_phases phases;
    bool quiet;
};

static void on_start(void *ctx, size_t nodes)
{
    graft_progress_nodes(&((struct view *)ctx)->progress, nodes);
}

static void on_node(void *ctx, const graft_where *at, const graft_node *node, const char *title)
{
    struct view *v = ctx;
    graft_phases_begin(&v->phases, "other");
    graft_progress_node(&v->progress, title ? title : node->id, at->display);
}

static void on_progress(void *ctx, const graft_where *at, uint64_t done, uint64_t total)
{
    struct view *v = ctx;
    (void)at;
    graft_phases_sample(&v->phases);
    graft_progress_step(&v->progress, done, total);
}

static void on_phase(void *ctx, const graft_where *at, const char *phase)
{
    struct view *v = ctx;
    (void)at;
    graft_phases_begin(&v->phases, phase);
    graft_progress_phase(&v->progress, phase);
}

static void on_done(void *ctx, const graft_where *at, const cJSON *ui, int32_t from_cache)
{
    (void)at, (void)ui, (void)from_cache;
    graft_phases_end(&((struct view *)ctx)->phases);
}

static void on_line(void *ctx, int32_t level, const char *text)
{
    static const char *const name[] = {"debug", "info", "warning", "error"};
    struct view *v = ctx;
    char line[1200];
    if (level < GRAFT_LOG_INFO || (v->quiet && level < GRAFT_LOG_WARN)) return;
    if (level > GRAFT_LOG_ERROR) level = GRAFT_LOG_ERROR;
    snprintf(line, sizeof line, "%s: %s", name[level], text);
    graft_progress_say(&v->progress, level == GRAFT_LOG_INFO ? text : line);
}

static void on_log(void *ctx, const graft_where *at, int32_t level, const char *text)
{
    (void)at;
    on_line(ctx, level, text);
}

/* Applies "NODE.INPUT=VALUE"; a title may hold dots, an input's name does not. */
static graft_status apply_set(cJSON *prompt, const graft_registry *r, const char *set, graft_err *e)
{
    const char *equals = strchr(set, '=');
    char *node = graft_strndup(set, (size_t)(equals - set));
    if (!node) return graft_fail_nomem(e, "an option");
    char *dot = strrchr(node, '.');
    *dot = 0;
    graft_status st = graft_workflow_set(prompt, r, node, dot + 1, equals + 1, e);
    if (st) graft_err_prefix(e, st, "--set %s", set);
    graft_free(node);
    return st;
}

const char *graft_path_shown(const char *path)
{
    return strncmp(path, "./", 2) == 0 ? path + 2 : path;
}

static void print_file(const graft_options *o, const cJSON *item)
{
    const char *name = graft_json_str(item, "filename", NULL);
    const char *sub = graft_json_str(item, "subfolder", "");
    const char *type = graft_json_str(item, "type", "output");
    const char *root = strcmp(type, "temp") == 0 ? o->temp : o->output;
    if (!name || strcmp(type, "input") == 0) return;
    const bool of_plan = o->command == GRAFT_COMMAND_QUANTIZE && root == o->temp && !o->quiet;
    printf("%s%s/%s%s%s%s\n", o->quiet ? "" : "wrote ", graft_path_shown(root), sub,
           *sub ? "/" : "", name, of_plan ? ", a picture of the plan" : "");
}

/* The plan's file, which QuantizeModel's report has a line for. */
static void print_plan(const char *report)
{
    static const char line[] = "\n  plan ";
    const char *at = strstr(report, line);
    if (!at) return;
    at += strlen(line);
    at += strspn(at, " ");
    printf("%.*s\n", (int)strcspn(at, "\n"), at);
}

/* Written files, and the texts that nodes show; of quantize not its report, which is there twice.
 */
static void print_outputs(const graft_options *o, const cJSON *outputs)
{
    const cJSON *ui, *list, *item;
    cJSON_ArrayForEach(ui, outputs) cJSON_ArrayForEach(list, ui) cJSON_ArrayForEach(item, list)
    {
        if (o->command == GRAFT_COMMAND_QUANTIZE && strcmp(ui->string, GRAFT_QUANTIZE_REPORT) == 0)
            continue;
        if (cJSON_IsObject(item))
            print_file(o, item);
        else if (cJSON_IsString(item) && !o->quiet)
            printf("%s\n", item->valuestring);
        else if (cJSON_IsString(item) && o->command == GRAFT_COMMAND_QUANTIZE)
            print_plan(item->valuestring);
    }
}

/* GRAFT_E_ARG is for the command line alone: what is wrong with a file is no wrong usage. */
static graft_status check_options(const graft_options *o, const graft_session *s, graft_err *e)
{
    if (o->command != GRAFT_COMMAND_QUANTIZE) return GRAFT_OK;
    return graft_quantize_check(o, s->registry, e);
}

static bool has_faults(const graft_validation *v)
{
    return v->error || (v->node_errors && v->node_errors->child);
}

static void print_faults(const graft_options *o, const graft_session *s, const graft_validation *v)
{
    graft_str text = GRAFT_STR_INIT;
    graft_validation_text(v, graft_workflow_shown(o->file), &s->folders, &text);
    if (!text.failed) fputs(text.data ? text.data : "", stderr);
    graft_str_finish(&text);
}

/* Whether all that is wrong are nodes that somebody left lying about in an editor, not linked up,
 * which ComfyUI's page passes over. Otherwise half a workflow is not what was asked for. */
static bool are_loose(const graft_workflow *w, const graft_validation *v)
{
    const cJSON *entry, *fault;
    cJSON_ArrayForEach(entry, v->node_errors)
    {
        cJSON_ArrayForEach(fault, graft_tree_get(entry, "errors"))
        {
            const char *type = graft_json_str(fault, "type", "");
            if (strcmp(type, "required_input_missing") != 0) return false;
        }
    }
    return w->editor && !v->error;
}

/* Reads, changes and checks; GRAFT_E_ARG without a message when the faults were printed. */
static graft_status prepare(const graft_options *o, graft_session *s, graft_workflow *w,
                            graft_validation *v, graft_err *e)
{
    graft_status st = o->command == GRAFT_COMMAND_QUANTIZE
                          ? graft_quantize_workflow(o, &s->folders, s->registry, &w->prompt, e)
                          : graft_workflow_read(o->file, s->registry, w, e);
    for (size_t i = 0; !st && i < o->n_set; i++)
        st = apply_set(w->prompt, s->registry, o->set[i], e);
    if (!st && w->editor) st = graft_choices_make(w->prompt, s->registry, e);
    if (st) return st;
    cJSON *json = w->prompt;
    w->prompt = NULL;
    st = graft_validate(s->registry, &s->services.host, json, NULL, 0, v, e);
    if (st) return graft_err_prefix(e, st, "%s", graft_workflow_shown(o->file));
    if (has_faults(v)) {
        print_faults(o, s, v);
        if (e) e->text[0] = 0;
        if (!are_loose(w, v)) return GRAFT_E_ARG;
        fprintf(stderr, "warning: %s: what is not linked up is left out\n",
                graft_workflow_shown(o->file));
    }
    graft_hint_strays(v->prompt, &s->services.log);
    st = graft_ahead_device(s, o, e);
    if (st || o->command == GRAFT_COMMAND_COMPILE) return st;
    return graft_ahead_output(&s->folders, v->prompt, e);
}

static graft_status execute(const graft_options *o, graft_session *s, const graft_workflow *w,
                            const graft_prompt *prompt, struct view *view, graft_err *e)
{
    graft_executor *x = NULL;
    graft_run_result result = {0};
    const graft_events events = {.ctx = view,
                                 .start = on_start,
                                 .node_start = on_node,
                                 .progress = on_progress,
                                 .phase = on_phase,
                                 .log = on_log,
                                 .node_done = on_done};
    const bool prepare_only = o->command == GRAFT_COMMAND_COMPILE;
    const graft_run_request request = {prompt, w->extra_pnginfo, &events, &interrupted,
                                       prepare_only};
    graft_status st = graft_executor_create(&s->services.host, false, &x, e);
    if (!st) st = graft_executor_run(x, &request, &result, e);
    graft_progress_clear(&view->progress);
    print_outputs(o, result.outputs);
    /* What failed is to be the last that is read, and times of half a run say nothing. */
    if (!o->quiet && !st) graft_phases_print(&view->phases, stdout);
    graft_run_result_finish(&result);
    graft_executor_destroy(x);
    return st;
}

int graft_command_run(const graft_options *o)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_session s;
    graft_workflow w = {0};
    graft_validation v = {0};
    struct view view = {.quiet = o->quiet};
    const graft_log log = {&view, on_line};
    catch_signals();
    graft_progress_init(&view.progress, stderr, o->quiet);
    graft_phases_init(&view.phases);
    graft_status st = graft_session_init(&s, o, &log, &e);
    bool wrong_usage = false;
    if (!st) {
        st = check_options(o, &s, &e);
        wrong_usage = st == GRAFT_E_ARG;
        if (!st) st = prepare(o, &s, &w, &v, &e);
        atomic_store(&interrupted, 0);
        if (!st) st = execute(o, &s, &w, v.prompt, &view, &e);
        graft_validation_finish(&v);
        graft_workflow_finish(&w);
        graft_session_finish(&s);
    }
    graft_progress_finish(&view.progress);
    graft_phases_finish(&view.phases);
    if (st) fflush(stdout); /* else main() sees whether it went out */
    if (st == GRAFT_E_CANCEL) {
        fprintf(stderr, "interrupted\n");
        return GRAFT_EXIT_CANCEL;
    }
    if (st && e.text[0]) fprintf(stderr, "graft: %s\n", e.text);
    if (wrong_usage) return GRAFT_EXIT_USAGE;
    return st ? GRAFT_EXIT_FAILED : GRAFT_EXIT_OK;
}
