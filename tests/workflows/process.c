#include "tests/workflows/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

const char *scratch(const char *name)
{
    static char path[8][1024];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", WORKFLOW_SCRATCH, name);
    return p;
}

bool scratch_write(const char *name, const char *text)
{
    return graft_dir_make(WORKFLOW_SCRATCH, NULL) == GRAFT_OK &&
           graft_file_write(scratch(name), text, strlen(text), NULL) == GRAFT_OK;
}

static const char *output_folder(const process *p)
{
    return scratch(p->output ? p->output : "none");
}

const char *output_file(const process *p, size_t i)
{
    static char path[8][1200];
    static int next;
    char **names = NULL, *out = NULL;
    size_t n = 0;
    if (graft_dir_list(output_folder(p), NULL, &names, &n, NULL)) return NULL;
    for (size_t k = 0; k < n && !out; k++) {
        if (strncmp(names[k], "temp/", 5) == 0 || i-- > 0) continue;
        out = path[next++ % 8];
        snprintf(out, sizeof path[0], "%s/%s", output_folder(p), names[k]);
    }
    graft_names_free(names, n);
    return out;
}

size_t output_count(const process *p)
{
    size_t n = 0;
    while (output_file(p, n)) n++;
    return n;
}

bool same_bytes(const char *a, const char *b)
{
    char *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    bool same = a && b && graft_file_read(a, 1 << 28, &x, &n, NULL) == GRAFT_OK &&
                graft_file_read(b, 1 << 28, &y, &m, NULL) == GRAFT_OK && n == m &&
                memcmp(x, y, n) == 0;
    graft_free(x);
    graft_free(y);
    return same;
}

static void become_graft(const process *p, const char *log, const char *const *arg)
{
    const char *word[MAX_WORDS] = {GRAFT_PROGRAM};
    int n = 1, fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    while (*arg && n + 1 < MAX_WORDS) word[n++] = *arg++;
    if (p->max_file_bytes) {
        const struct rlimit limit = {(rlim_t)p->max_file_bytes, (rlim_t)p->max_file_bytes};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    setenv("GRAFT_BACKEND", p->backend ? p->backend : "ref", 1);
    int out = p->printed ? open(p->printed, O_WRONLY) : fd;
    if (out < 0 || dup2(out, 1) < 0) _exit(126);
    if (fd < 0 || dup2(fd, 2) < 0 || chdir(WORKFLOW_SCRATCH)) _exit(126);
    execv(GRAFT_PROGRAM, (char *const *)(const void *)word);
    _exit(127);
}

static void log_name(const process *p, char *out, size_t n)
{
    snprintf(out, n, "%s.log", output_folder(p));
}

pid_t process_start(process *p, const char *const *arg)
{
    char log[1100];
    const char *old;
    graft_dir_make(output_folder(p), NULL);
    while ((old = output_file(p, 0)) && unlink(old) == 0) {
    }
    log_name(p, log, sizeof log);
    unlink(log); /* nobody must take an earlier run's words for this one's */
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) become_graft(p, log, arg);
    return pid;
}

void process_wait(process *p, pid_t pid)
{
    char log[1100];
    size_t size;
    int status = -1;
    p->status = -1;
    if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status))
        p->status = WEXITSTATUS(status);
    log_name(p, log, sizeof log);
    if (graft_file_read(log, 1 << 24, &p->text, &size, NULL)) p->text = graft_strdup("");
}

void process_run(process *p, const char *const *arg)
{
    process_wait(p, process_start(p, arg));
}

void process_workflow(process *p, const char *file, const char *const *sets)
{
    char path[1024], output[1024];
    const char *models = p->models ? p->models : WORKFLOW_MODELS;
    snprintf(path, sizeof path, "%s/%s", GRAFT_SOURCE_DIR, file);
    snprintf(output, sizeof output, "%s", output_folder(p));
    const char *arg[MAX_WORDS] = {"run",     file[0] == '/' ? file : path, "--models", models,
                                  "--input", GRAFT_SOURCE_DIR "/input",    "--output", output};
    size_t n = 8;
    if (p->quiet) arg[n++] = "--quiet";
    if (p->threads) {
        arg[n++] = "--threads";
        arg[n++] = p->threads;
    }
    for (; sets && *sets && n + 2 < MAX_WORDS; sets++) {
        arg[n++] = "--set";
        arg[n++] = *sets;
    }
    process_run(p, arg);
}

void process_finish(process *p)
{
    graft_free(p->text);
    p->text = NULL;
}
