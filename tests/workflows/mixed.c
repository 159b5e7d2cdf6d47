/* Everything together: random workflows out of what changes a model (mixed_recipe.h), each drawn
 * once by a session of its own, plain, and then again and again by one session that keeps
 * everything: its changes in another order, compiled, with swapped weights, with little memory,
 * with files of the cache spoilt, interrupted, several at once. Latents must be the same bits; a
 * limit that is refused names one that does; what `graft compile` prepared is not compiled again.
 *
 * GRAFT_MIXED_SEED, GRAFT_MIXED_RECIPES, GRAFT_MIXED_RUNS and GRAFT_MIXED_THREADS make it a longer
 * search, GRAFT_MIXED_SHOW says what it does. What differs is printed as prompts that `graft run`
 * takes. */
#include "tests/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/tree.h"
#include "host/prompt/validate.h"
#include "host/run/executor.h"
#include "host/session/session.h"
#include "tests/workflows/mixed_recipe.h"

/* ------------------------------------------------------------------ runs */

static char folder[64];
static graft_options options;

static void say(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level >= GRAFT_LOG_ERROR) fprintf(stderr, "%s\n", text);
}

static void begin_session(graft_session *s)
{
    const graft_log log = {NULL, say};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_session_init(s, &options, &log, &e), &e);
    CHECK_INT(s->plugins, 1);
}

static pthread_mutex_t telling = PTHREAD_MUTEX_INITIALIZER;

/* CHECK() of any thread. */
static void must(bool is, const char *what)
{
    pthread_mutex_lock(&telling);
    if (!is) fprintf(stderr, "not true: %s\n", what);
    CHECK(is);
    pthread_mutex_unlock(&telling);
}

/* Interrupts behind so many calls of progress. */
typedef struct stop {
    atomic_int asked, left;
    int microseconds; /* or behind so many */
} stop;

static void *stop_later(void *arg)
{
    stop *s = arg;
    usleep((useconds_t)s->microseconds);
    atomic_store(&s->asked, 1);
    return NULL;
}

static void on_progress(void *ctx, const graft_where *at, uint64_t done, uint64_t total)
{
    stop *s = ctx;
    (void)at, (void)done, (void)total;
    if (s->left > 0 && atomic_fetch_sub(&s->left, 1) == 1) atomic_store(&s->asked, 1);
}

typedef struct drawn {
    graft_status st;
    graft_err error;
    char *data; /* the latent's values */
    size_t bytes;
} drawn;

static void path_of(const char *name, char path[256])
{
    snprintf(path, 256, "output/%s_00001_.latent", name);
}

/* Takes what SaveLatent wrote. */
static void take_file(const char *name, drawn *out)
{
    char path[256], *data = NULL;
    size_t size = 0;
    uint64_t header = 0;
    graft_err e = GRAFT_ERR_INIT;
    path_of(name, path);
    graft_status st = graft_file_read(path, (size_t)1 << 24, &data, &size, &e);
    must(!st, e.text);
    if (!st && size > 8) memcpy(&header, data, 8);
    if (!st && header + 8 <= size) {
        out->bytes = size - 8 - (size_t)header;
        out->data = graft_malloc(out->bytes + 1);
        memcpy(out->data, data + 8 + header, out->bytes);
    }
    must(out->bytes > 0, "a latent was saved");
    unlink(path);
    graft_free(data);
}

/* Checks a prompt, which has no faults; false when it has. */
static bool check_prompt(graft_session *s, const char *json, graft_validation *v, graft_err *e)
{
    cJSON *prompt = NULL;
    must(!graft_json_parse(json, strlen(json), "test", &prompt, e), e->text);
    const graft_status st = graft_validate(s->registry, &s->services.host, prompt, NULL, 0, v, e);
    must(!st, e->text);
    const bool good = !st && !v->error && !(v->node_errors && v->node_errors->child);
    must(good, "the prompt has no faults");
    if (good) return true;
    char *text = v->node_errors ? graft_json_print(v->node_errors) : NULL;
    fprintf(stderr, "%s\n%s\n", json, text ? text : "");
    graft_free(text);
    return false;
}

static drawn draw_with(graft_session *s, graft_executor *x, const char *json, const char *name,
                       const stop *stopping)
{
    graft_validation v = {0};
    graft_run_result result = {0};
    graft_err e = GRAFT_ERR_INIT;
    stop end = {.left = stopping ? stopping->left : 0};
    pthread_t timer;
    bool timed = false;
    const graft_events events = {.ctx = &end, .progress = on_progress};
    drawn out = {0};
    const bool good = check_prompt(s, json, &v, &e);
    if (!good) out.st = GRAFT_E_ARG;
    const graft_run_request request = {v.prompt, NULL, &events, &end.asked, false};
    char path[256];
    path_of(name, path);
    unlink(path); /* of a run that was interrupted behind its end */
    if (stopping && stopping->microseconds) {
        end.microseconds = stopping->microseconds;
        timed = pthread_create(&timer, NULL, stop_later, &end) == 0;
    }
    if (good) out.st = graft_executor_run(x, &request, &result, &e);
    if (timed) pthread_join(timer, NULL);
    if (good && !out.st) take_file(name, &out);
    out.error = e;
    graft_run_result_finish(&result);
    graft_validation_finish(&v);
    return out;
}

/* ------------------------------------------------------------------ the plain pictures */

#define RECIPES_MAX 4096

static recipe *recipes;
static drawn *plain;
static int n_recipes = 8;

static long number(const char *name, long fallback)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : fallback;
}

static void draw_plain(void)
{
    chance c = {(uint64_t)number("GRAFT_MIXED_SEED", 1)};
    n_recipes = (int)number("GRAFT_MIXED_RECIPES", n_recipes);
    if (n_recipes > RECIPES_MAX) n_recipes = RECIPES_MAX;
    recipes = graft_calloc((size_t)n_recipes, sizeof *recipes);
    plain = graft_calloc((size_t)n_recipes, sizeof *plain);
    setenv("GRAFT_CACHE", "no-cache", 1);
    for (int i = 0; i < n_recipes; i++) {
        graft_session s = {0};
        graft_executor *x = NULL;
        graft_err e = GRAFT_ERR_INIT;
        form f;
        draw_recipe(&recipes[i], &c);
        plain_form(&recipes[i], &f);
        char *json = write_prompt(&recipes[i], &f, "plain");
        CHECK(system("rm -rf no-cache") == 0);
        begin_session(&s);
        CHECK_OK(graft_executor_create(&s.services.host, false, &x, &e), &e);
        plain[i] = draw_with(&s, x, json, "plain", NULL);
        if (getenv("GRAFT_MIXED_SHOW"))
            fprintf(stderr, "recipe %d: %d %s\n", i, plain[i].st, plain[i].error.text);
        graft_executor_destroy(x);
        graft_session_finish(&s);
        graft_free(json);
    }
}

/* ------------------------------------------------------------------ ahead of time */

static atomic_int compiled;

static void on_log(void *ctx, const graft_where *at, int32_t level, const char *text)
{
    (void)ctx, (void)at, (void)level;
    if (strncmp(text, "compiled ", 9) != 0) return;
    atomic_fetch_add(&compiled, 1);
    if (getenv("GRAFT_MIXED_SHOW")) fprintf(stderr, "%s\n", text);
}

/* `graft compile` leaves nothing to compile. What waits to be quantized is not known before, nor
 * what is active between steps, where dpmpp_sde evaluates, too. */
static void compiled_ahead(void)
{
    const graft_events events = {.log = on_log};
    setenv("GRAFT_CACHE", "ahead", 1);
    for (int i = 0; i < n_recipes; i++) {
        graft_session s = {0};
        form f;
        if (plain[i].st || recipes[i].has[QUANTIZED] || strstr(recipes[i].sampler, "dpmpp_sde"))
            continue;
        plain_form(&recipes[i], &f);
        char *json = write_prompt(&recipes[i], &f, "ahead");
        CHECK(system("rm -rf ahead") == 0);
        begin_session(&s);
        for (int run = 0; run < 2; run++) {
            graft_executor *x = NULL;
            graft_err e = GRAFT_ERR_INIT;
            graft_validation v = {0};
            graft_run_result result = {0};
            atomic_store(&compiled, 0);
            CHECK(check_prompt(&s, json, &v, &e));
            CHECK_OK(graft_executor_create(&s.services.host, false, &x, &e), &e);
            const graft_run_request request = {v.prompt, NULL, &events, NULL, run == 0};
            CHECK_OK(graft_executor_run(x, &request, &result, &e), &e);
            graft_run_result_finish(&result);
            graft_executor_destroy(x);
            graft_validation_finish(&v);
            if (run && atomic_load(&compiled))
                fprintf(stderr, "recipe %d: compiled %d\n%s\n", i, compiled, json);
            CHECK(run ? !atomic_load(&compiled) : atomic_load(&compiled) > 0);
        }
        graft_session_finish(&s);
        graft_free(json);
    }
    CHECK(system("rm -rf ahead output") == 0);
}

/* ------------------------------------------------------------------ all in one session */

typedef struct worker {
    pthread_t thread;
    graft_session *session;
    int number;
    chance c;
    long runs;
    long same, stopped, refused;
} worker;

static int wrong;
static bool limited;

static void tell(int which, const char *json, const drawn *d, const char *what)
{
    float worst = 0;
    const drawn *p = &plain[which];
    for (size_t i = 0; d->bytes == p->bytes && i + 4 <= d->bytes; i += 4) {
        float a, b;
        memcpy(&a, d->data + i, 4);
        memcpy(&b, p->data + i, 4);
        if (!(fabsf(a - b) <= worst)) worst = fabsf(a - b);
    }
    pthread_mutex_lock(&telling);
    wrong++;
    form f;
    plain_form(&recipes[which], &f);
    char *of = write_prompt(&recipes[which], &f, "plain");
    fprintf(stderr,
            "recipe %d: %s: %d \"%s\" (%zu bytes), plain %d \"%s\" (%zu bytes), by at most %g\n"
            "%s\n%s\n",
            which, what, d->st, d->error.text, d->bytes, p->st, p->error.text, p->bytes,
            (double)worst, json, of);
    graft_free(of);
    pthread_mutex_unlock(&telling);
}

static void judge(worker *w, int which, const form *f, bool stopping, const char *json,
                  const drawn *d)
{
    const drawn *p = &plain[which];
    if (stopping && d->st == GRAFT_E_CANCEL) {
        w->stopped++;
    } else if ((f->limited || limited) && d->st == GRAFT_E_LIMIT) {
        w->refused++;
    } else if (d->st != p->st) {
        tell(which, json, d, "another end");
    } else if (d->bytes != p->bytes || (d->bytes && memcmp(d->data, p->data, d->bytes) != 0)) {
        tell(which, json, d, "another picture");
    } else {
        w->same++;
    }
}

/* Does to a file of the cache what a full disk, or another program, would. */
static void spoil_cache(chance *c)
{
    char **name = NULL, path[700];
    size_t n = 0;
    if (graft_dir_list("cache", NULL, &name, &n, NULL)) return;
    if (n) {
        snprintf(path, sizeof path, "cache/%s", name[below(c, (int)n)]);
        FILE *f = one_in(c, 3) ? NULL : fopen(path, "r+");
        if (!f)
            unlink(path);
        else if (one_in(c, 2))
            must(ftruncate(fileno(f), below(c, 3000)) == 0, "a file is cut");
        else if (fseek(f, below(c, 3000), SEEK_SET) == 0)
            fputc(below(c, 256), f);
        if (f) fclose(f);
    }
    graft_names_free(name, n);
}

/* The number behind a word; 0: the word is not there. */
static int number_behind(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    return at ? atoi(at + strlen(word)) : 0;
}

/* The least that would do, by an error of the limit `mb`; 0: it says none. Beside others' weights
 * it says how much is needed and how much was left. */
static int named_limit(const char *text, int mb)
{
    const int whole = number_behind(text, "would do is "),
              model = number_behind(text, "the model needs ");
    const int own = number_behind(text, "needs "), left = number_behind(text, ", and ");
    if (whole || model) return whole ? whole : model;
    if (!own) return 0;
    return mb + (own > left ? own - left : 1);
}

/* A limit that is refused names another, which does; or one that is refused in turn, as that of a
 * ControlNet alone. */
static void heed_limit(worker *w, graft_executor *x, int which, form *f, const drawn *refused)
{
    drawn d = *refused;
    d.data = NULL;
    for (int i = 0; i < 6 && d.st == GRAFT_E_LIMIT; i++) {
        const int mb = named_limit(d.error.text, number_behind(f->compile, "'max_memory_mb':"));
        char name[48], *at = strstr(f->compile, "'max_memory_mb':"), rest[200];
        must(mb > 0, "a limit is named");
        if (!at || mb <= 0) return;
        at += strlen("'max_memory_mb':");
        snprintf(rest, sizeof rest, "%s", strchr(at, ','));
        snprintf(at, sizeof f->compile - (size_t)(at - f->compile), "%d%s", mb, rest);
        snprintf(name, sizeof name, "heed-%d-%d", w->number, i);
        char *json = write_prompt(&recipes[which], f, name);
        d = draw_with(w->session, x, json, name, NULL);
        if (d.st != GRAFT_E_LIMIT || i == 5) {
            f->limited = false;
            judge(w, which, f, false, json, &d);
        }
        graft_free(d.data);
        graft_free(json);
    }
}

static void one_run(worker *w, graft_executor *x, long number)
{
    const int which = below(&w->c, n_recipes);
    const bool stopping = one_in(&w->c, 4), timed = one_in(&w->c, 2);
    stop at = {.left = timed ? 0 : 1 + below(&w->c, 120),
               .microseconds = timed ? 1 + below(&w->c, 40000) : 0};
    char name[48];
    form f;
    draw_form(&recipes[which], &w->c, &f);
    snprintf(name, sizeof name, "run-%d-%ld", w->number, number);
    char *json = write_prompt(&recipes[which], &f, name);
    drawn d = draw_with(w->session, x, json, name, stopping ? &at : NULL);
    judge(w, which, &f, stopping, json, &d);
    if (d.st == GRAFT_E_LIMIT && f.limited && !limited) heed_limit(w, x, which, &f, &d);
    graft_free(d.data);
    graft_free(json);
}

static void *work(void *arg)
{
    worker *w = arg;
    graft_executor *x = NULL;
    graft_err e = GRAFT_ERR_INIT;
    if (graft_executor_create(&w->session->services.host, true, &x, &e)) return NULL;
    graft_executor_keep_recent(x, 30);
    for (long i = 0; i < w->runs; i++) {
        one_run(w, x, i);
        if (one_in(&w->c, 12)) graft_executor_clear(x);
        if (one_in(&w->c, 8)) spoil_cache(&w->c);
    }
    graft_executor_destroy(x);
    return NULL;
}

/* Runs of several workers in one session. */
static void draw_fancy(uint64_t seed, int threads, long runs)
{
    enum { MOST = 16 };
    worker w[MOST];
    graft_session s = {0};
    long same = 0, stopped = 0, refused = 0;
    if (threads > MOST) threads = MOST;
    setenv("GRAFT_CACHE", "cache", 1);
    begin_session(&s);
    for (int i = 0; i < threads; i++) {
        w[i] = (worker){
            .session = &s, .number = i, .c = {seed + 1000 * (uint64_t)(i + 1)}, .runs = runs};
        must(pthread_create(&w[i].thread, NULL, work, &w[i]) == 0, "a thread begins");
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        same += w[i].same;
        stopped += w[i].stopped;
        refused += w[i].refused;
    }
    graft_session_finish(&s);
    CHECK_INT(wrong, 0);
    CHECK(same > 0);
    printf("%ld the same, %ld interrupted, %ld refused for their memory\n", same, stopped, refused);
}

static void one_after_another(void)
{
    draw_fancy((uint64_t)number("GRAFT_MIXED_SEED", 1) + 7, 1, number("GRAFT_MIXED_RUNS", 30));
}

/* What the cache has on the disk by now, and little memory. */
static void with_a_limit(void)
{
    setenv("GRAFT_MEMORY_MB", "9", 1);
    limited = true;
    draw_fancy((uint64_t)number("GRAFT_MIXED_SEED", 1) + 7, 1, number("GRAFT_MIXED_RUNS", 30) / 2);
    limited = false;
    unsetenv("GRAFT_MEMORY_MB");
}

/* A process without room says how much would do. */
static void named_memory(void)
{
    for (int i = 0; i < n_recipes; i++) {
        drawn d = {.st = GRAFT_E_LIMIT};
        form f;
        int mb = 1;
        plain_form(&recipes[i], &f);
        char *json = write_prompt(&recipes[i], &f, "named");
        for (int k = 0; k < 9 && d.st == GRAFT_E_LIMIT; k++) {
            graft_session s = {0};
            graft_executor *x = NULL;
            graft_err e = GRAFT_ERR_INIT;
            char text[24];
            snprintf(text, sizeof text, "%d", mb);
            setenv("GRAFT_MEMORY_MB", text, 1);
            begin_session(&s);
            CHECK_OK(graft_executor_create(&s.services.host, false, &x, &e), &e);
            graft_free(d.data);
            d = draw_with(&s, x, json, "named", NULL);
            graft_executor_destroy(x);
            graft_session_finish(&s);
            const int more = d.st == GRAFT_E_LIMIT ? named_limit(d.error.text, mb) : mb;
            CHECK(more > mb || d.st != GRAFT_E_LIMIT);
            if (more <= mb && d.st == GRAFT_E_LIMIT) fprintf(stderr, "%d: %s\n", mb, d.error.text);
            mb = more;
        }
        worker w = {.number = 0};
        judge(&w, i, &f, false, json, &d);
        graft_free(d.data);
        graft_free(json);
    }
    unsetenv("GRAFT_MEMORY_MB");
    CHECK_INT(wrong, 0);
}

static void several_at_once(void)
{
    draw_fancy((uint64_t)number("GRAFT_MIXED_SEED", 1) + 77, (int)number("GRAFT_MIXED_THREADS", 3),
               number("GRAFT_MIXED_RUNS", 30) / 3 + 1);
}

/* Two layers, for keys and for values as wide as the small UNet's first ones. */
static void make_hypernetwork(void)
{
    enum { WIDTH = 32, HIDDEN = 64, EACH = WIDTH * HIDDEN, TENSORS = 4 };
    graft_str header = GRAFT_STR_INIT, file = GRAFT_STR_INIT;
    graft_err e = GRAFT_ERR_INIT;
    chance c = {5};
    graft_str_puts(&header, "{\"__metadata__\":{\"activation_func\":\"relu\"}");
    for (int i = 0; i < TENSORS; i++)
        graft_str_printf(&header,
                         ",\"%d.%d.linear.%d.weight\":{\"dtype\":\"F32\",\"shape\":[%d,%d],"
                         "\"data_offsets\":[%d,%d]}",
                         WIDTH, i / 2, i % 2 * 2, i % 2 ? WIDTH : HIDDEN, i % 2 ? HIDDEN : WIDTH,
                         i * EACH * 4, (i + 1) * EACH * 4);
    graft_str_puts(&header, "}");
    while (header.len % 8) graft_str_puts(&header, " ");
    const uint64_t length = header.len;
    graft_str_append(&file, (const char *)&length, sizeof length);
    graft_str_append(&file, header.data, header.len);
    for (int i = 0; i < TENSORS * EACH; i++) {
        const float v = (float)(below(&c, 2001) - 1000) * 2e-4f;
        graft_str_append(&file, (const char *)&v, sizeof v);
    }
    CHECK_OK(graft_dir_make(WORKFLOW_MODELS "/hypernetworks", &e), &e);
    CHECK_OK(
        graft_file_write(WORKFLOW_MODELS "/hypernetworks/" HYPERNETWORK, file.data, file.len, &e),
        &e);
    graft_str_finish(&header);
    graft_str_finish(&file);
}

int main(void)
{
    char command[128];
    snprintf(folder, sizeof folder, "/tmp/graft-mixed-XXXXXX");
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    options = (graft_options){.models = (char *)WORKFLOW_MODELS,
                              .input = (char *)GRAFT_SOURCE_DIR "/input",
                              .output = (char *)"output",
                              .temp = (char *)"temp",
                              .plugins = (char *)GRAFT_LIB_DIR};
#ifdef __SANITIZE_THREAD__
    setenv("GRAFT_THREADS", "1", 0); /* it does not see how OpenMP's threads wait for each other */
#endif
    make_hypernetwork();
    RUN(draw_plain);
    RUN(compiled_ahead);
    RUN(one_after_another);
    RUN(with_a_limit);
    RUN(named_memory);
    RUN(several_at_once);
    for (int i = 0; i < n_recipes; i++) graft_free(plain[i].data);
    graft_free(plain);
    graft_free(recipes);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return chdir("/") || system(command) || test_end();
}
