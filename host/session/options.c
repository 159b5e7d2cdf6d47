#include "host/session/options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

void graft_options_finish(graft_options *o)
{
    graft_free(o->set);
    graft_free(o->models);
    graft_free(o->input);
    graft_free(o->output);
    graft_free(o->temp);
    graft_free(o->plugins);
    memset(o, 0, sizeof *o);
}

/* `below` under the folder of this program; NULL when that is not known. */
static char *beside_program(const char *below)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0) return NULL;
    exe[n] = 0;
    char *slash = strrchr(exe, '/');
    if (!slash) return NULL;
    *slash = 0;
    return graft_path_join(exe, below);
}

static graft_status fill(char **where, const char *fallback, graft_err *e)
{
    if (!*where) *where = graft_strdup(fallback);
    return *where ? GRAFT_OK : graft_fail_nomem(e, "the options");
}

/* The folder ./NAME, or where there is none the one beside the program's build. */
static graft_status fill_folder(char **where, const char *name, graft_err *e)
{
    char here[32], there[48], real[PATH_MAX];
    snprintf(here, sizeof here, "./%s", name);
    snprintf(there, sizeof there, "../../%s", name);
    if (*where || graft_dir_exists(here)) return fill(where, here, e);
    char *beside = beside_program(there);
    const bool found = beside && graft_dir_exists(beside) && realpath(beside, real);
    graft_free(beside);
    return fill(where, found ? real : here, e);
}

static graft_status default_models(graft_options *o, graft_err *e)
{
    const char *env = getenv("GRAFT_MODELS");
    if (!o->models && env && *env) return fill(&o->models, env, e);
    return fill_folder(&o->models, "models", e);
}

static graft_status defaults(graft_options *o, graft_err *e)
{
    graft_status st = default_models(o, e);
    if (!st && !o->plugins) o->plugins = beside_program("../lib/graft");
    if (!st) st = fill(&o->plugins, "./plugins", e);
    /* What is uploaded to a server is written there. */
    if (!st)
        st = o->command == GRAFT_COMMAND_SERVE ? fill(&o->input, "./input", e)
                                               : fill_folder(&o->input, "input", e);
    /* Who names a folder for what is written means previews and plans, too. */
    if (!st && o->output && !o->temp && !(o->temp = graft_path_join(o->output, "temp")))
        st = graft_fail_nomem(e, "the options");
    if (!st) st = fill(&o->temp, "./temp", e);
    if (!st) st = fill(&o->output, "./output", e);
    return st;
}

/* The value of option number *i, from "--name=VALUE" or the next argument. */
static graft_status value_of(int argc, char **argv, int *i, const char **value, graft_err *e)
{
    char *equals = strchr(argv[*i], '=');
    if (equals) {
        *value = equals + 1;
        return GRAFT_OK;
    }
    if (*i + 1 >= argc) return graft_fail(e, GRAFT_E_ARG, "%s needs a value", argv[*i]);
    *value = argv[++*i];
    return GRAFT_OK;
}

static bool is(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && (!arg[n] || arg[n] == '=');
}

static bool takes_workflow(const graft_options *o)
{
    return o->command == GRAFT_COMMAND_RUN || o->command == GRAFT_COMMAND_COMPILE ||
           o->command == GRAFT_COMMAND_QUANTIZE || o->command == GRAFT_COMMAND_COMPARE;
}

static graft_status seeds_of(int argc, char **argv, int *i, graft_options *o, graft_err *e)
{
    const char *text = NULL;
    char *end = NULL;
    graft_status st = value_of(argc, argv, i, &text, e);
    long n = st ? 0 : strtol(text, &end, 10);
    if (st) return st;
    if (!*text || *end || n < 1 || n > 1000)
        return graft_fail(e, GRAFT_E_ARG, "--seeds must be a number from 1 to 1000, not \"%s\"",
                          text);
    o->seeds = (int)n;
    return GRAFT_OK;
}

static graft_status option(int argc, char **argv, int *i, graft_options *o, graft_err *e)
{
    const char *arg = argv[*i], *value = NULL;
    bool run = takes_workflow(o), serve = o->command == GRAFT_COMMAND_SERVE;
    const struct {
        const char *name;
        char **where;
        bool always;
    } folders[] = {{"--models", &o->models, false},
                   {"--input", &o->input, false},
                   {"--output", &o->output, false},
                   {"--plugins", &o->plugins, true}};
    if ((run || serve) && (strcmp(arg, "--quiet") == 0 || strcmp(arg, "-q") == 0)) {
        o->quiet = true;
        return GRAFT_OK;
    }
    if (o->command == GRAFT_COMMAND_NODES && strcmp(arg, "--json") == 0) {
        o->json = true;
        return GRAFT_OK;
    }
    if (o->command == GRAFT_COMMAND_CONVERT && is(arg, "--quantize")) {
        graft_status st = value_of(argc, argv, i, &value, e);
        if (st) return st;
        o->int8 = true;
        o->straight = strcmp(value, "int8") == 0;
        return o->straight || strcmp(value, "int8_convrot") == 0
                   ? GRAFT_OK
                   : graft_fail(e, GRAFT_E_ARG,
                                "--quantize must be int8_convrot or int8, not \"%s\"", value);
    }
    for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) {
        if (!is(arg, folders[k].name)) continue;
        if (!run && !serve && !folders[k].always && o->command != GRAFT_COMMAND_NODES) break;
        graft_status st = value_of(argc, argv, i, &value, e);
        if (st) return st;
        if (!*value) return graft_fail(e, GRAFT_E_ARG, "%s must not be empty", folders[k].name);
        graft_free(*folders[k].where);
        *folders[k].where = NULL;
        return fill(folders[k].where, value, e);
    }
    if ((run || serve) && is(arg, "--device")) return value_of(argc, argv, i, &o->device, e);
    if ((run || serve) && is(arg, "--threads")) {
        graft_status st = value_of(argc, argv, i, &o->threads, e);
        if (st) return st;
        if (!*o->threads || strlen(o->threads) > 4 ||
            o->threads[strspn(o->threads, "0123456789")] || atoi(o->threads) < 1 ||
            atoi(o->threads) > 1024)
            return graft_fail(e, GRAFT_E_ARG,
                              "--threads must be a number from 1 to 1024, not \"%s\"", o->threads);
        return GRAFT_OK;
    }
    if (run && o->command != GRAFT_COMMAND_QUANTIZE && o->command != GRAFT_COMMAND_COMPARE &&
        is(arg, "--set")) {
        graft_status st = value_of(argc, argv, i, &value, e);
        if (st) return st;
        const char *equals = strchr(value, '=');
        if (!equals || !memchr(value, '.', (size_t)(equals - value)))
            return graft_fail(e, GRAFT_E_ARG, "--set must be NODE.INPUT=VALUE, not \"%s\"", value);
        o->set[o->n_set++] = value;
        return GRAFT_OK;
    }
    graft_status st = GRAFT_E_NOTFOUND;
    if (o->command == GRAFT_COMMAND_COMPARE && is(arg, "--seeds"))
        return seeds_of(argc, argv, i, o, e);
    if (serve) st = graft_options__serve(argc, argv, i, &o->serve, e);
    if (o->command == GRAFT_COMMAND_QUANTIZE)
        st = graft_options__quantize(argc, argv, i, &o->quantize, e);
    return st == GRAFT_E_NOTFOUND ? graft_options__unknown(o->command, arg, e) : st;
}

static graft_status command_of(const char *name, graft_options *o, graft_err *e)
{
    static const struct {
        const char *name;
        graft_command command;
    } known[] = {{"run", GRAFT_COMMAND_RUN},           {"compile", GRAFT_COMMAND_COMPILE},
                 {"cache", GRAFT_COMMAND_CACHE},       {"nodes", GRAFT_COMMAND_NODES},
                 {"check", GRAFT_COMMAND_CHECK},       {"serve", GRAFT_COMMAND_SERVE},
                 {"quantize", GRAFT_COMMAND_QUANTIZE}, {"compare", GRAFT_COMMAND_COMPARE},
                 {"convert", GRAFT_COMMAND_CONVERT},   {"help", GRAFT_COMMAND_HELP},
                 {"--help", GRAFT_COMMAND_HELP},       {"-h", GRAFT_COMMAND_HELP},
                 {"--version", GRAFT_COMMAND_VERSION}, {"version", GRAFT_COMMAND_VERSION}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) {
            o->command = known[i].command;
            return GRAFT_OK;
        }
    return graft_options__unknown_command(name, e);
}

/* "help run" is "run --help". */
static graft_status topic_of(const char *name, graft_options *o, graft_err *e)
{
    graft_status st = command_of(name, o, e);
    o->topic = o->command;
    o->command = GRAFT_COMMAND_HELP;
    return st;
}

graft_status graft_options_parse(int argc, char **argv, graft_options *o, graft_err *e)
{
    memset(o, 0, sizeof *o);
    if (argc < 2) return graft_fail(e, GRAFT_E_ARG, "a command is missing");
    graft_status st = command_of(argv[1], o, e);
    if (st) return st;
    if (o->command == GRAFT_COMMAND_HELP && argc == 3) return topic_of(argv[2], o, e);
    bool two = o->command == GRAFT_COMMAND_COMPARE || o->command == GRAFT_COMMAND_CONVERT;
    bool wants = takes_workflow(o) || two || o->command == GRAFT_COMMAND_CHECK;
    bool may = o->command == GRAFT_COMMAND_CACHE || o->command == GRAFT_COMMAND_NODES;
    o->set = graft_calloc((size_t)argc, sizeof *o->set);
    if (!o->set) return graft_fail_nomem(e, "the options");
    for (int i = 2; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            o->topic = o->command;
            o->command = GRAFT_COMMAND_HELP;
            return GRAFT_OK;
        }
        if (arg[0] == '-' && arg[1]) {
            st = option(argc, argv, &i, o, e);
            if (st) return st;
        } else if (two && o->file && !o->second) {
            o->second = arg;
        } else if (o->file || !(wants || may)) {
            return graft_fail(e, GRAFT_E_ARG, "unexpected argument %s", arg);
        } else {
            o->file = arg;
        }
    }
    if (o->command == GRAFT_COMMAND_COMPARE && !o->second)
        return graft_fail(e, GRAFT_E_ARG, "compare needs two files");
    if (wants && !o->file)
        return graft_fail(e, GRAFT_E_ARG, "%s needs a %s", argv[1],
                          o->command == GRAFT_COMMAND_QUANTIZE ? "checkpoint" : "file");
    st = o->command == GRAFT_COMMAND_SERVE ? graft_options__serve_defaults(&o->serve, e) : GRAFT_OK;
    return st ? st : defaults(o, e);
}
