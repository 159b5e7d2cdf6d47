/* The command line. */
#ifndef GRAFT_HOST_SESSION_OPTIONS_H
#define GRAFT_HOST_SESSION_OPTIONS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/* What a command returns: the process's exit status. */
enum { GRAFT_EXIT_OK = 0, GRAFT_EXIT_FAILED = 1, GRAFT_EXIT_USAGE = 2, GRAFT_EXIT_CANCEL = 130 };

typedef enum graft_command {
    GRAFT_COMMAND_HELP,
    GRAFT_COMMAND_VERSION,
    GRAFT_COMMAND_RUN,
    GRAFT_COMMAND_COMPILE,
    GRAFT_COMMAND_CACHE,
    GRAFT_COMMAND_NODES,
    GRAFT_COMMAND_CHECK,
    GRAFT_COMMAND_QUANTIZE,
    GRAFT_COMMAND_COMPARE,
    GRAFT_COMMAND_CONVERT,
    GRAFT_COMMAND_SERVE
} graft_command;

/* Pictures while a model samples. */
typedef enum graft_preview_mode {
    GRAFT_PREVIEWS_AUTO = 0, /* decoded where there is a decoder for the model, else as LATENT */
    GRAFT_PREVIEWS_NONE = 1,
    GRAFT_PREVIEWS_TAESD = 2, /* the same, and a warning where there is none */
    GRAFT_PREVIEWS_LATENT = 3 /* the latent's channels as colours */
} graft_preview_mode;

/* Texts are borrowed from argv or the environment; NULL: not given. */
typedef struct graft_serve_options {
    const char *listen, *token, *tls_cert, *tls_key, *web_root, *cors_origin, *allow_host;
    const char *workflows; /* folder of those that the page offers to begin with */
    const char *state;     /* folder of queue, history, settings and the user's files */
    int port;              /* 0: any free one */
    int max_upload_mb;
    int recent; /* results kept beyond those of the last prompt; -1: none are kept at all */
    graft_preview_mode previews;
    bool insecure;
} graft_serve_options;

enum { GRAFT_QUANTIZE_OPTIONS = 13 };
typedef struct graft_quantize_cli {
    const char *value[GRAFT_QUANTIZE_OPTIONS]; /* of the options in quantize.c; NULL: not given */
    const char *prompts;                       /* a file, one prompt a line */
    const char *save_model;                    /* how its file's name begins; NULL: not saved */
    bool recalibrate;
} graft_quantize_cli;

typedef struct graft_options {
    graft_command command;
    graft_command topic; /* of help: the command that it is about; GRAFT_COMMAND_HELP: the list */
    /* Borrowed from argv, like `set`. Of cache: its own command, or NULL; of nodes: the one to
     * describe, or NULL; of quantize: the checkpoint's name. */
    const char *file, *second; /* second: of compare and convert */
    int seeds;                 /* of compare; 0: the workflows' own */
    const char **set;          /* "NODE.INPUT=VALUE" */
    size_t n_set;
    char *models, *input, *output, *temp, *plugins; /* never NULL after parsing */
    const char *device, *threads;                   /* NULL: as the engine likes */
    bool quiet, json;
    bool int8, straight; /* of convert: integers; whose rows are not turned */
    graft_serve_options serve;
    graft_quantize_cli quantize;
} graft_options;

/* GRAFT_E_ARG with a sentence for a wrong command line. graft_options_finish() in any case. */
graft_status graft_options_parse(int argc, char **argv, graft_options *o, graft_err *e);
void graft_options_finish(graft_options *o);

/* What one command takes, in help.c; the list of commands with GRAFT_COMMAND_HELP. */
void graft_options_help(graft_command topic, FILE *out);
/* After a wrong command line: where to read on about `command`, which may be unknown. */
void graft_options_hint(const char *command, FILE *out);

/* GRAFT_E_ARG, and what may have been meant, in help.c. */
graft_status graft_options__unknown(graft_command command, const char *arg, graft_err *e);
graft_status graft_options__unknown_command(const char *name, graft_err *e);

/* Options of serve, in options_serve.c. GRAFT_E_NOTFOUND when argv[*i] is none of them; *i moves to
 * the last argument that was used. */
graft_status graft_options__serve(int argc, char **argv, int *i, graft_serve_options *o,
                                  graft_err *e);
/* Options of quantize, in quantize.c, likewise. */
graft_status graft_options__quantize(int argc, char **argv, int *i, graft_quantize_cli *o,
                                     graft_err *e);
/* Fills in what was not given, and refuses what would be dangerous. */
graft_status graft_options__serve_defaults(graft_serve_options *o, graft_err *e);
#endif
