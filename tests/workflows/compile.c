/* `graft compile` and `graft cache`: caches filled ahead of time, listed, checked, cleared. */
#include "tests/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/workflows/process.h"

#define TINY "1.ckpt_name=tiny-sd1.safetensors"

static size_t occurrences(const char *text, const char *word)
{
    size_t n = 0;
    for (; (text = strstr(text, word)) != NULL; text++) n++;
    return n;
}

/* Runs `graft cache WHAT` and expects this status, a line with this word, and so many entries in
 * the list. */
static void cache_of(const char *what, int status, const char *word, size_t listed)
{
    process p = {.output = "compile/none"};
    process_run(&p, (const char *[]){"cache", what, NULL});
    CHECK_INT(p.status, status);
    CHECK(strstr(p.text, word) != NULL);
    CHECK_INT(occurrences(p.text, ".graft"), listed);
    if (p.status != status || !strstr(p.text, word))
        fprintf(stderr, "wanted \"%s\" in:\n%s\n", word, p.text);
    process_finish(&p);
}

static void cache(const char *what, int status, const char *word)
{
    cache_of(what, status, word, 0);
}

static void compile(const char *workflow, size_t compiled, size_t found)
{
    char file[512];
    process p = {.output = "compile/out"};
    snprintf(file, sizeof file, "%s/%s", GRAFT_SOURCE_DIR, workflow);
    process_run(&p, (const char *[]){"compile", file, "--set", TINY, "--output",
                                     scratch("compile/out"), "--models", WORKFLOW_MODELS, NULL});
    CHECK_INT(p.status, 0);
    CHECK_INT(occurrences(p.text, "compiled  "), compiled);
    CHECK_INT(occurrences(p.text, "from cache"), found);
    CHECK_INT(output_count(&p), 0);
    if (p.status) fprintf(stderr, "%s\n", p.text);
    process_finish(&p);
}

static void filled_ahead(void)
{
    char folder[512], path[700], **name, *data;
    size_t n, size;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(folder, sizeof folder, "%s", scratch("compile/cache"));
    setenv("GRAFT_CACHE", folder, 1);
    cache("clear", 0, "removed");
    cache("list", 0, "0 entries");
    compile("workflows/txt2img.json", 3, 0); /* text encoder, UNet, decoder */
    compile("workflows/txt2img.json", 0, 3);
    cache_of("list", 0, "3 entries", 3);
    cache(NULL, 0, "3 entries");
    cache("verify", 0, "0 damaged");
    /* The run finds them: nothing is added, and it draws its picture. */
    process p = {.output = "compile/run"};
    process_workflow(&p, "workflows/txt2img.json", (const char *const[]){TINY, "5.steps=2", NULL});
    CHECK_INT(p.status, 0);
    CHECK_INT(output_count(&p), 1);
    process_finish(&p);
    cache_of("list", 0, "3 entries", 3);
    /* One of them damaged: seen, told, made anew. */
    CHECK_OK(graft_dir_list(folder, NULL, &name, &n, &e), &e);
    CHECK_INT(n, 3);
    snprintf(path, sizeof path, "%s/%s", folder, name[0]);
    graft_names_free(name, n);
    CHECK_OK(graft_file_read(path, 1 << 24, &data, &size, &e), &e);
    data[8] ^= 1; /* as an older Graft left it */
    CHECK_OK(graft_file_write(path, data, size, &e), &e);
    cache_of("list", 0, ", 1 old", 3);
    cache("verify", 0, "0 damaged, 1 old");
    data[8] ^= 1;
    data[size / 2] ^= 1;
    CHECK_OK(graft_file_write(path, data, size, &e), &e);
    graft_free(data);
    cache_of("verify", 1, "DAMAGED", 1);
    compile("workflows/txt2img.json", 1, 2);
    cache("verify", 0, "0 damaged");
    cache("clear", 0, "3 entries removed");
    cache("list", 0, "0 entries");
    cache("polish", 2, "polish");
}

static void nowhere_to_keep(void)
{
    setenv("GRAFT_CACHE", "/proc/no/such/folder", 1);
    process p = {.output = "compile/run"};
    process_workflow(&p, "workflows/txt2img.json", (const char *const[]){TINY, "5.steps=1", NULL});
    CHECK_INT(p.status, 0);
    CHECK_INT(output_count(&p), 1);
    CHECK_INT(occurrences(p.text, "going on without it"), 1);
    process_finish(&p);
    unsetenv("GRAFT_CACHE");
}

int main(void)
{
    RUN(filled_ahead);
    RUN(nowhere_to_keep);
    return test_end();
}
