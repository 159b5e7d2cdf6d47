/* The program itself, run as a process. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file.h"
#include "tests/host/fixture.h"

static char out_text[20000], err_text[20000];

static void slurp(const char *path, char *text, size_t n)
{
    FILE *f = fopen(path, "r");
    size_t got = f ? fread(text, 1, n - 1, f) : 0;
    text[got] = 0;
    if (f) fclose(f);
}

/* Runs "graft ARGS"; its texts end up in out_text and err_text. */
static int graft(const char *args)
{
    char command[1000];
    snprintf(command, sizeof command, "'%s' %s >out.txt 2>err.txt", GRAFT_PROGRAM, args);
    int status = system(command);
    slurp("out.txt", out_text, sizeof out_text);
    slurp("err.txt", err_text, sizeof err_text);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void usage(void)
{
    static const char *const wrong[] = {"",
                                        "fly",
                                        "run",
                                        "run a b",
                                        "run a --what",
                                        "nodes x y",
                                        "run a --models",
                                        "run a --set x=1",
                                        "run a --set x",
                                        "nodes --quiet",
                                        "check",
                                        "serve --preview",
                                        "serve --preview always",
                                        "check x --json"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_INT(graft(wrong[i]), 2);
        CHECK(strstr(err_text, *wrong[i] ? "graft help" : "usage:") && !*out_text);
    }
    CHECK_INT(graft("--help"), 0);
    CHECK(strstr(out_text, "usage:") && !*err_text);
    CHECK_INT(graft("help"), 0);
    CHECK_INT(graft("help fly"), 2);
    CHECK_INT(graft("help run quickly"), 2);
    CHECK_INT(graft("--version"), 0);
    CHECK_STR(out_text, "graft " GRAFT_VERSION "\n");
}

#define PLUGINS " --plugins " HOST_TEST_PLUGINS

/* A command's help is about that command. */
static void help_of_one(void)
{
    static const struct {
        const char *args, *has, *lacks;
    } help[] = {{"run --help", "--set NODE", "--port"},
                {"help run", "usage: graft run FILE", "--density"},
                {"quantize --help", "usage: graft quantize CKPT", "--port"},
                {"quantize a --bits 4 -h", "--save-model", "--seeds"},
                {"quantize --help", "--threads", "--set NODE"},
                {"compare --help", "--seeds", "--density"},
                {"serve --help", "--port", "--density"},
                {"nodes --help", "--plugins", "--models"},
                {"help run", "--set NODE", "\nusage"},
                {"nodes --help", "--json", "--set"},
                {"help", "graft help COMMAND", "--density"}};
    for (size_t i = 0; i < sizeof help / sizeof *help; i++) {
        CHECK_INT(graft(help[i].args), 0);
        bool ok = strstr(out_text, help[i].has) && !strstr(out_text, help[i].lacks);
        CHECK(ok && strstr(out_text, "exit status") && !*err_text);
        if (!ok) fprintf(stderr, "graft %s:\n%s\n", help[i].args, out_text);
    }
}

/* All of help fits a terminal of 80 columns, and the list of commands 24 lines. */
static void help_fits(void)
{
    static const char *const topics[] = {"help",         "help run",      "help serve",
                                         "help nodes",   "help quantize", "help compare",
                                         "help compile", "help cache",    "help check"};
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        CHECK_INT(graft(topics[i]), 0);
        int lines = 0;
        for (const char *p = out_text; *p; lines++) {
            size_t length = strcspn(p, "\n");
            CHECK(length < 80);
            if (length >= 80) fprintf(stderr, "graft %s: %.*s\n", topics[i], (int)length, p);
            p += length + (p[length] == '\n');
        }
        CHECK(i || lines < 24);
    }
    CHECK_INT(graft("run --what"), 2);
    CHECK(strstr(err_text, "\"graft help run\""));
    CHECK_INT(graft("quantize"), 2);
    CHECK(strstr(err_text, "needs a checkpoint"));
}

static void run(void)
{
    check_text("good.json",
               "{\"1\":{\"class_type\":\"TestSave\",\"inputs\":{\"text\":\"hi\","
               "\"filename_prefix\":\"d/x\"}},\"2\":{\"class_type\":\"TestShow\",\"inputs\":"
               "{\"any\":[\"3\",0]}},\"3\":{\"class_type\":\"TestSleep\",\"inputs\":{\"steps\":"
               "40}}}");
    CHECK_INT(graft("run good.json" PLUGINS), 0);
    CHECK(strstr(out_text, "wrote output/d/x_00001_.txt\n") && strstr(out_text, "40\n"));
    CHECK(strstr(out_text, "sample ") && strstr(out_text, "save ") && strstr(out_text, "total "));
    CHECK(strstr(err_text, "TestSleep") && strstr(err_text, "40/40"));
    int lines = 0;
    for (const char *p = err_text; *p; p++) lines += *p == '\n';
    CHECK(lines <= 3 + 10);
    CHECK_INT(graft("run good.json --quiet --output o2 --set TestSave.text=a=b.c" PLUGINS), 0);
    CHECK_STR(out_text, "o2/d/x_00001_.txt\n");
    CHECK_STR(err_text, "");
    slurp("o2/d/x_00001_.txt", out_text, sizeof out_text);
    CHECK(graft_str_starts(out_text, "a=b.c\n"));
    check_text("graph.json", "{\"nodes\":[{\"id\":1,\"type\":\"TestSave\",\"widgets_values\":"
                             "[\"t\",\"g\"]}],\"links\":[],\"version\":0.4}");
    CHECK_INT(graft("run -q graph.json" PLUGINS), 0);
    CHECK_STR(out_text, "output/g_00001_.txt\n");
    slurp("output/g_00001_.txt", out_text, sizeof out_text);
    CHECK(strstr(out_text, "\"widgets_values\":[\"t\",\"g\"]") != NULL);
}

/* Standard input, by either name, and pipes; more than a pipe holds. */
static void run_from_a_pipe(void)
{
    static const char *const from[] = {"- <show.json", "/dev/stdin <show.json", "pipe"};
    FILE *f = fopen("show.json", "w");
    CHECK(f && fprintf(f, "{\"1\":{\"class_type\":\"TestShow\",\"inputs\":{\"any\":41}}%300000s}",
                       "") > 0);
    if (f) fclose(f);
    CHECK(mkfifo("pipe", 0600) == 0);
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        char args[200];
        pid_t pid = i < 2 ? 0 : fork();
        if (i == 2 && pid == 0) {
            execlp("cp", "cp", "show.json", "pipe", (char *)NULL);
            _exit(99);
        }
        snprintf(args, sizeof args, "run" PLUGINS " --set 1.any=42 %s", from[i]);
        CHECK_INT(graft(args), 0);
        CHECK(strstr(out_text, "42\n") != NULL);
        if (pid) waitpid(pid, NULL, 0);
    }
    CHECK_INT(graft("run -q" PLUGINS " - </dev/null"), 1);
    CHECK(strstr(err_text, "graft: standard input: the file is empty") != NULL);
    CHECK_INT(graft("run -q" PLUGINS " - <."), 1);
    CHECK(strstr(err_text, "graft: standard input: cannot read") != NULL);
}

static void failures(void)
{
    CHECK_INT(graft("run absent.json" PLUGINS), 1);
    CHECK(strstr(err_text, "absent.json") != NULL);
    check_text("bad.json", "{\"1\":{\"class_type\":\"TestInt\",\"inputs\":{\"value\":\"abc\"}},"
                           "\"2\":{\"class_type\":\"TestShow\",\"inputs\":{\"any\":[\"1\",0]}},"
                           "\"3\":{\"class_type\":\"TestSave\",\"inputs\":{\"text\":\"x\"}},"
                           "\"4\":{\"class_type\":\"TestShow\",\"inputs\":{\"any\":1}}}");
    CHECK_INT(graft("run bad.json" PLUGINS), 1);
    CHECK(
        strstr(err_text, "bad.json: node 1 (TestInt), input value: \"abc\" is not of type INT\n"));
    CHECK(strstr(err_text, "bad.json: node 3 (TestSave), input filename_prefix: Required input"));
    CHECK_STR(out_text, ""); /* nothing ran: half a workflow is not what was asked for */
    check_text("loose.json", "{\"nodes\":[{\"id\":1,\"type\":\"TestSave\",\"widgets_values\":"
                             "[\"t\",\"l\"]},{\"id\":2,\"type\":\"TestShow\"}]}");
    CHECK_INT(graft("run -q loose.json" PLUGINS), 0);
    CHECK_STR(out_text, "output/l_00001_.txt\n");
    CHECK(strstr(err_text, "loose.json: node 2 (TestShow), input any: Required input is missing\n"
                           "warning: loose.json: what is not linked up is left out\n"));
    check_text(
        "loose.json",
        "{\"nodes\":[{\"id\":1,\"type\":\"TestSave\",\"widgets_values\":[\"t\",\"l\"]},"
        "{\"id\":2,\"type\":\"TestShow\"},{\"id\":3,\"type\":\"TestInt\",\"widgets_values\":"
        "[9999]},{\"id\":4,\"type\":\"TestShow\",\"inputs\":[{\"name\":\"any\",\"type\":\"*\","
        "\"link\":1}]}],\"links\":[[1,3,0,4,0,\"INT\"]]}");
    CHECK_INT(graft("run -q loose.json" PLUGINS), 1); /* something is wrong besides */
    CHECK_STR(out_text, "");
    check_text("unknown.json", "{\"1\":{\"class_type\":\"Xyz\",\"inputs\":{}}}");
    CHECK_INT(graft("run unknown.json" PLUGINS), 1);
    CHECK(strstr(err_text, "node 1 (Xyz)") && strstr(err_text, "there is no such node class"));
    check_text("fails.json", "{\"1\":{\"class_type\":\"TestFail\",\"inputs\":{\"code\":1}},"
                             "\"2\":{\"class_type\":\"TestShow\",\"inputs\":{\"any\":[\"1\",0]}}}");
    CHECK_INT(graft("run fails.json" PLUGINS), 1);
    CHECK(strstr(err_text, "graft: node 1 (TestFail), input code: this never works\n"));
    CHECK_STR(out_text, ""); /* no table of times, which would be the last that is seen */
    check_text("broken.json", "{\"1\":");
    CHECK_INT(graft("run broken.json" PLUGINS), 1);
    CHECK(strstr(err_text, "broken.json") != NULL);
    CHECK_INT(graft("run good.json --set 9.x=1" PLUGINS), 1);
    CHECK(strstr(err_text, "--set 9.x=1: ") != NULL);
    CHECK_INT(graft("run good.json --set 3.steps=abc" PLUGINS), 1);
    CHECK(strstr(err_text, "steps") != NULL);
    CHECK_INT(graft("run good.json --set 1.filename_prefix=../x" PLUGINS), 1);
    CHECK(strstr(err_text, "input filename_prefix: ") != NULL);
    CHECK_INT(graft("check " HOST_TEST_PLUGINS "/host_testnodes.so"), 0);
    CHECK_INT(graft("check good.json"), 1);
}

/* Whoever mistypes a name is told the one that is near. */
static void did_you_mean(void)
{
    static const struct {
        const char *args, *meant;
        int status;
    } c[] = {{"rnu", "unknown command rnu; did you mean run?", 2},
             {"help quantise", "did you mean quantize?", 2},
             {"run a --modles x", "unknown option --modles; did you mean --models?", 2},
             {"run a --Quiet", "did you mean --quiet?", 2},
             {"quantize a --hieght=8", "unknown option --hieght; did you mean --height?", 2},
             {"serve --prot 1", "did you mean --port?", 2},
             {"compare a b --seed 1", "did you mean --seeds?", 2},
             {"check x --plugin y", "did you mean --plugins?", 2},
             {"run good.json --set TestSavee.text=x" PLUGINS, "did you mean TestSave", 1},
             {"run good.json --set 1.txet=x" PLUGINS, "no input \"txet\"; did you mean text?", 1},
             {"run shwo.json" PLUGINS, "did you mean TestShow?", 1},
             {"run shwo.json --set 1.any=1" PLUGINS, "did you mean TestShow?", 1}};
    check_text("shwo.json", "{\"1\":{\"class_type\":\"TestShwo\",\"inputs\":{\"any\":1}}}");
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        CHECK_INT(graft(c[i].args), c[i].status);
        CHECK(strstr(err_text, c[i].meant) != NULL);
        if (!strstr(err_text, c[i].meant)) fprintf(stderr, "graft %s: %s\n", c[i].args, err_text);
    }
    CHECK_INT(graft("fly"), 2);
    CHECK(!strstr(err_text, "did you mean"));
    /* An optional input would be left out without a word. */
    check_text("stray.json", "{\"1\":{\"class_type\":\"TestSeed\",\"inputs\":{\"seed\":1,"
                             "\"mode\":\"a\",\"strenght\":1,\"far away\":1}},"
                             "\"2\":{\"class_type\":\"TestShow\",\"inputs\":{\"any\":[\"1\",0]}}}");
    CHECK_INT(graft("run stray.json --quiet" PLUGINS), 0);
    CHECK_STR(err_text, "warning: node 1 (TestSeed) has no input \"strenght\"; did you mean "
                        "strength?\n");
    CHECK(!strstr(err_text, "far away"));
}

static void nodes(void)
{
    CHECK_INT(graft("nodes" PLUGINS), 0);
    CHECK(strstr(out_text, "test\n") &&
          strstr(out_text, "  TestSeed                     TestSeed title\n"));
    CHECK_INT(graft("nodes --json" PLUGINS), 0);
    cJSON *json = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_json_parse(out_text, strlen(out_text), "nodes", &json, &e), &e);
    CHECK(graft_tree_get(json, "TestSwitch") != NULL);
    cJSON_Delete(json);
    CHECK_INT(graft("nodes --plugins nowhere"), 0);
    CHECK_STR(err_text, "graft: there is no node plugin in nowhere\n");
}

/* The same node by its class, its title, and either in other letters. */
static void one_node(void)
{
    static const char *const names[] = {"TestSeed", "testseed", "'TestSeed title'",
                                        "'testSEED Title'"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char args[256];
        snprintf(args, sizeof args, "nodes %s" PLUGINS, names[i]);
        CHECK_INT(graft(args), 0);
        CHECK(strncmp(out_text, "TestSeed (TestSeed title)\ntest\n", 31) == 0 && !*err_text);
        CHECK(strstr(out_text, "\nInputs\n  seed  INT: 0, from 0 to 18446744073709551615\n"));
        CHECK(strstr(out_text, "\nOutputs\n"));
    }
    CHECK_INT(graft("nodes TestSed" PLUGINS), 1);
    CHECK(!*out_text && strstr(err_text, "there is no node \"TestSed\"; did you mean TestSeed?"));
    CHECK_INT(graft("nodes switch --json" PLUGINS), 1);
    CHECK(!*out_text && strstr(err_text, "TestSwitch") != NULL);
    CHECK_INT(graft("nodes sWITCH" PLUGINS), 0);
    CHECK(strstr(out_text, "  TestSwitch") && !strstr(out_text, "TestSeed") && !*err_text);
    CHECK_INT(graft("nodes qqqqqqqqqqqqqqqqqqqq" PLUGINS), 1);
    CHECK(strstr(err_text, "\"graft nodes\" lists those there are") != NULL);
    CHECK_INT(graft("nodes TestSwitch --json" PLUGINS), 0);
    cJSON *json = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_json_parse(out_text, strlen(out_text), "nodes", &json, &e), &e);
    CHECK(cJSON_GetArraySize(json) == 1 && graft_tree_get(json, "TestSwitch") != NULL);
    cJSON_Delete(json);
}

/* Every line of every node's description fits 80 columns, whatever its texts are. */
static void descriptions_fit(void)
{
    static char names[sizeof out_text];
    char args[256];
    CHECK_INT(graft("nodes" PLUGINS), 0);
    memcpy(names, out_text, sizeof names);
    for (char *line = strtok(names, "\n"); line; line = strtok(NULL, "\n")) {
        char id[64];
        if (line[0] != ' ' || sscanf(line, " %63s", id) != 1) continue;
        snprintf(args, sizeof args, "nodes %s" PLUGINS, id);
        CHECK_INT(graft(args), 0);
        for (const char *p = out_text; *p;) {
            size_t n = strcspn(p, "\n");
            if (n >= 80) fprintf(stderr, "%s: %.*s\n", id, (int)n, p);
            CHECK(n < 80);
            p += n + (p[n] == '\n');
        }
    }
}

static void folder_options(void)
{
    graft_options o;
    graft_err e = GRAFT_ERR_INIT;
    char *plain[] = {"graft", "run", "x", NULL};
    char *given[] = {"graft", "run",        "--models=m", "--input", "i",
                     "x",     "--output=o", "--device",   "cuda",    NULL};
    unsetenv("GRAFT_MODELS");
    CHECK_OK(graft_options_parse(3, plain, &o, &e), &e);
    CHECK_STR(o.output, "./output");
    CHECK_STR(o.temp, "./temp");
    /* The one that ships is beside a build in the sources, and not beside one within another. */
    CHECK(graft_str_ends(o.input, "/input"));
    CHECK_INT(o.input[0], graft_dir_exists(GRAFT_BINARY_DIR "/../input") ? '/' : '.');
    CHECK(graft_str_ends(o.plugins, "/../lib/graft"));
    graft_options_finish(&o);
    setenv("GRAFT_MODELS", "/some/models", 1);
    CHECK_OK(graft_options_parse(3, plain, &o, &e), &e);
    CHECK_STR(o.models, "/some/models");
    graft_options_finish(&o);
    CHECK_OK(graft_options_parse(9, given, &o, &e), &e);
    CHECK_STR(o.device, "cuda");
    CHECK_STR(o.models, "m");
    CHECK_STR(o.input, "i");
    CHECK_STR(o.output, "o");
    CHECK_STR(o.temp, "o/temp");
    CHECK_STR(o.file, "x");
    graft_options_finish(&o);
    unsetenv("GRAFT_MODELS");
    CHECK(mkdir("models", 0777) == 0);
    CHECK_OK(graft_options_parse(3, plain, &o, &e), &e);
    CHECK_STR(o.models, "./models");
    graft_options_finish(&o);
    CHECK(mkdir("input", 0777) == 0);
    CHECK_OK(graft_options_parse(3, plain, &o, &e), &e);
    CHECK_STR(o.input, "./input");
    graft_options_finish(&o);
    CHECK(rmdir("input") == 0);
    char *serve[] = {"graft", "serve", NULL};
    CHECK_OK(graft_options_parse(2, serve, &o, &e), &e);
    CHECK_STR(o.input, "./input");
    graft_options_finish(&o);
}

#define PATIENCE 60000 /* ms; no claim about speed: other programs may take the processors */

static pid_t start(const char *file, const char *set)
{
    unlink("err.txt"); /* nobody must take an earlier run's words for this one's */
    pid_t pid = fork();
    if (pid) return pid;
    int fd = open("err.txt", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    execl(GRAFT_PROGRAM, GRAFT_PROGRAM, "run", file, "--set", set, "--plugins", HOST_TEST_PLUGINS,
          (char *)NULL);
    _exit(99);
}

/* Found before anything runs, not when the picture is there. */
static void output_that_cannot_be(void)
{
    check_text("file.txt", "x");
    CHECK_INT(graft("run good.json --output file.txt/below" PLUGINS), 1);
    CHECK(strstr(err_text, "cannot write to") && strstr(err_text, "file.txt"));
    CHECK(!strstr(err_text, "[1/") && !*out_text);
    static const char *const bad[] = {"file.txt", "file.txt/a/b", "/proc/new", "/dev/null"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char args[200];
        snprintf(args, sizeof args, "run good.json --output %s" PLUGINS, bad[i]);
        CHECK_INT(graft(args), 1);
        CHECK(strstr(err_text, "cannot write to /") && !strstr(err_text, "[1/"));
    }
    CHECK(mkdir("deep", 0777) == 0);
    check_text("deep/d", "x"); /* where the prefix "d/x" wants a folder */
    CHECK_INT(graft("run good.json --output deep" PLUGINS), 1);
    CHECK(strstr(err_text, "/deep/d is not a folder") && !strstr(err_text, "[1/"));
    CHECK_INT(graft("run good.json --quiet --output new/folder" PLUGINS), 0);
    check_text("shows.json", "{\"1\":{\"class_type\":\"TestShow\",\"inputs\":{\"any\":1}}}");
    CHECK_INT(graft("run shows.json --output file.txt" PLUGINS), 0); /* which writes nothing */
}

static pid_t start_sleeping(const char *set)
{
    pid_t pid = start("good.json", set);
    err_text[0] = 0;
    for (int k = 0; k < PATIENCE / 20 && !strstr(err_text, "TestSleep"); k++) {
        usleep(20000);
        slurp("err.txt", err_text, sizeof err_text);
    }
    return pid;
}

static void interrupt(void)
{
    const int number[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        pid_t pid = start_sleeping("3.steps=100000");
        int status = 0;
        kill(pid, number[i]);
        kill(pid, number[i]); /* the second asks for nothing more */
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status));
        CHECK_INT(WEXITSTATUS(status), 130);
        slurp("err.txt", err_text, sizeof err_text);
        CHECK(strstr(err_text, "\ninterrupted\n") != NULL);
    }
}

/* Whether a signal was sent that the process did not have time for yet. */
static bool signal_waits(pid_t pid)
{
    char path[64], text[4000];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    slurp(path, text, sizeof text);
    const char *shared = strstr(text, "ShdPnd:");
    return shared && strtoull(shared + 7, NULL, 16);
}

static void interrupt_what_does_not_listen(void)
{
    pid_t pid = start_sleeping("3.steps=99999");
    int status = 0;
    for (int i = 0; i < 3; i++) {
        CHECK(waitpid(pid, &status, WNOHANG) == 0);
        kill(pid, SIGINT);
        usleep(100000);
        /* Two that wait are one. */
        for (int k = 0; k < PATIENCE / 20 && signal_waits(pid); k++) usleep(20000);
    }
    pid_t ended = 0;
    for (int k = 0; k < PATIENCE / 20 && !ended; k++) {
        usleep(20000);
        ended = waitpid(pid, &status, WNOHANG);
    }
    CHECK(ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 130);
    if (ended) return;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

int main(void)
{
    fixture_open();
    RUN(usage);
    RUN(help_of_one);
    RUN(help_fits);
    RUN(run);
    RUN(run_from_a_pipe);
    RUN(failures);
    RUN(did_you_mean);
    RUN(nodes);
    RUN(one_node);
    RUN(descriptions_fit);
    RUN(folder_options);
    RUN(output_that_cannot_be);
    RUN(interrupt);
    RUN(interrupt_what_does_not_listen);
    fixture_close();
    return test_end();
}
