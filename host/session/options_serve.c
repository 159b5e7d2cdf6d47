#include <stdlib.h>
#include <string.h>

#include "host/session/options.h"

#define MAX_UPLOAD_MB 768 /* what all bodies under way may take: GRAFT_CONN_BODIES */
#define MAX_RECENT    100000

static graft_status number(const char *name, const char *text, int low, int high, int *out,
                           graft_err *e)
{
    char *end;
    long v = strtol(text, &end, 10);
    if (!*text || *end || v < low || v > high)
        return graft_fail(e, GRAFT_E_ARG, "%s must be a number from %d to %d, not \"%s\"", name,
                          low, high, text);
    *out = (int)v;
    return GRAFT_OK;
}

/* none, classic, lru=N */
static graft_status cache(const char *text, int *recent, graft_err *e)
{
    if (strncmp(text, "lru=", 4) == 0)
        return number("--cache lru=", text + 4, 0, MAX_RECENT, recent, e);
    *recent = strcmp(text, "none") == 0 ? -1 : 0;
    if (*recent || strcmp(text, "classic") == 0) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG, "--cache must be none, classic or lru=N, not \"%s\"", text);
}

static graft_status preview(const char *text, graft_preview_mode *out, graft_err *e)
{
    static const char *const names[] = {"auto", "none", "taesd", "latent"};
    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (graft_preview_mode)i;
            return GRAFT_OK;
        }
    return graft_fail(e, GRAFT_E_ARG, "--preview must be auto, none, latent or taesd, not \"%s\"",
                      text);
}

static graft_status apply(const char *name, const char *value, graft_serve_options *o, graft_err *e)
{
    const struct {
        const char *name;
        const char **where;
    } texts[] = {{"--listen", &o->listen},           {"--token", &o->token},
                 {"--tls-cert", &o->tls_cert},       {"--tls-key", &o->tls_key},
                 {"--web-root", &o->web_root},       {"--state", &o->state},
                 {"--cors-origin", &o->cors_origin}, {"--allow-host", &o->allow_host},
                 {"--workflows", &o->workflows}};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        if (strcmp(name, texts[k].name) != 0) continue;
        if (!*value) return graft_fail(e, GRAFT_E_ARG, "%s must not be empty", name);
        *texts[k].where = value;
        return GRAFT_OK;
    }
    if (strcmp(name, "--port") == 0) {
        graft_status st = number(name, value, 0, 65535, &o->port, e);
        if (!st && o->port == 0) o->port = -1; /* told apart from "not given" */
        return st;
    }
    if (strcmp(name, "--max-upload-mb") == 0)
        return number(name, value, 1, MAX_UPLOAD_MB, &o->max_upload_mb, e);
    if (strcmp(name, "--cache") == 0) return cache(value, &o->recent, e);
    return preview(value, &o->previews, e);
}

graft_status graft_options__serve(int argc, char **argv, int *i, graft_serve_options *o,
                                  graft_err *e)
{
    static const char *const names[] = {
        "--listen",  "--token",       "--tls-cert",   "--tls-key", "--web-root",
        "--state",   "--cors-origin", "--allow-host", "--port",    "--max-upload-mb",
        "--preview", "--cache",       "--workflows"};
    const char *arg = argv[*i];
    if (strcmp(arg, "--insecure") == 0) {
        o->insecure = true;
        return GRAFT_OK;
    }
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        size_t n = strlen(names[k]);
        if (strncmp(arg, names[k], n) != 0 || (arg[n] && arg[n] != '=')) continue;
        if (arg[n]) return apply(names[k], arg + n + 1, o, e);
        if (*i + 1 >= argc) return graft_fail(e, GRAFT_E_ARG, "%s needs a value", arg);
        return apply(names[k], argv[++*i], o, e);
    }
    return GRAFT_E_NOTFOUND;
}

graft_status graft_options__serve_defaults(graft_serve_options *o, graft_err *e)
{
    const char *env = getenv("GRAFT_TOKEN");
    if (!o->token && env && *env) o->token = env;
    if (!o->listen) o->listen = "127.0.0.1";
    if (!o->state) o->state = "./state";
    if (!o->workflows) o->workflows = "./workflows";
    if (!o->max_upload_mb) o->max_upload_mb = 100;
    o->port = o->port == -1 ? 0 : o->port ? o->port : 8188;
    if (!o->tls_cert != !o->tls_key)
        return graft_fail(e, GRAFT_E_ARG, "--tls-cert and --tls-key belong together");
    bool loopback = strncmp(o->listen, "127.", 4) == 0 || strcmp(o->listen, "localhost") == 0 ||
                    strcmp(o->listen, "::1") == 0;
    if (!loopback && !o->token && !o->insecure)
        return graft_fail(e, GRAFT_E_ARG,
                          "listening at %s lets others use this server: give it a --token, or say "
                          "--insecure",
                          o->listen);
    return GRAFT_OK;
}
