/* Runs the program `graft` as a user does: a process in its own folder, its output in files. */
#ifndef GRAFT_TESTS_PROCESS_H
#define GRAFT_TESTS_PROCESS_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define MAX_WORDS 32

typedef struct process {
    const char *output;           /* folder for --output, below the scratch folder; emptied first */
    const char *models, *backend; /* NULL: the small models; ref */
    const char *threads;          /* NULL: as many as there are */
    long max_file_bytes;          /* 0: no limit on what the process may write to a file */
    bool quiet;                   /* with --quiet */
    const char *printed;          /* where standard output goes; NULL: into `text` */
    int status;                   /* exit status; -1: ended by a signal */
    char *text;                   /* what it printed, on both streams (free) */
} process;

/* Runs `graft ARG…` (NULL-terminated) and waits. */
void process_run(process *p, const char *const *arg);
/* The same in two halves. */
pid_t process_start(process *p, const char *const *arg);
void process_wait(process *p, pid_t pid);
/* `graft run FILE --set …`, FILE below the source folder unless absolute; sets NULL-terminated. */
void process_workflow(process *p, const char *file, const char *const *sets);
void process_finish(process *p);

/* Path of `name` in the scratch folder; one of a few rotating buffers. */
const char *scratch(const char *name);
bool scratch_write(const char *name, const char *text);
/* How many files lie in p's output folder, in all depths but for previews. */
size_t output_count(const process *p);
/* Path of output number i in byte order; NULL when there are fewer (rotating buffers). */
const char *output_file(const process *p, size_t i);
bool same_bytes(const char *a, const char *b);
#endif
