/* What the program says of itself. */
#include "host/options.h"

#define OF(command) (1u << GRAFT_COMMAND_##command)
#define WORKFLOWS   (OF(RUN) | OF(COMPILE) | OF(QUANTIZE) | OF(COMPARE) | OF(SERVE))
#define EVERY       (~ALONE)
#define ALONE       (1u << 31) /* not among the options of all */

/* A line of the list of commands, which is also the usage line of its command. */
static const struct {
    graft_command command;
    const char *line;
} commands[] = {
    {GRAFT_COMMAND_RUN, "run FILE [options]     run a workflow (JSON, or a PNG that carries one)"},
    {GRAFT_COMMAND_COMPILE,
     "compile FILE [options] fill the caches for a workflow, and compute nothing"},
    {GRAFT_COMMAND_QUANTIZE,
     "quantize CKPT [options]  measure which layers may compute in integers"},
    {GRAFT_COMMAND_COMPARE,
     "compare A B [--seeds N] [options]  how alike two workflows' pictures are"},
    {GRAFT_COMMAND_CACHE, "cache [list|verify|clear]  what is kept between runs"},
    {GRAFT_COMMAND_NODES,
     "nodes [--json]         list the nodes, or describe them as ComfyUI does"},
    {GRAFT_COMMAND_SERVE,
     "serve [options]        the ComfyUI protocol, and an editor in the browser"},
    {GRAFT_COMMAND_CHECK, "check FILE.so          test a plugin against the rules of the ABI"},
    {GRAFT_COMMAND_HELP, "help [COMMAND] | --help | --version"},
};

/* Parts in the order of print; `of` says which commands a part belongs to. */
static const struct {
    unsigned of;
    const char *text;
} parts[] = {
    {WORKFLOWS, "\noptions of run, compile, compare, quantize and serve:\n"},
    {OF(RUN) | OF(COMPILE),
     "  --set NODE.INPUT=VALUE  run, compile: change an input; NODE is an id, or the title\n"
     "                  or class of one node\n"},
    {WORKFLOWS,
     "  --models DIR    model folders (default: $GRAFT_MODELS, else ./models)\n"
     "  --input DIR     pictures to load (default: ./input)\n"
     "  --output DIR    where files are written, previews into DIR/temp (default: ./output\n"
     "                  and ./temp)\n"
     "  --device NAME   what to compute on: cuda, cpu, ref (default: the best that runs here)\n"
     "  --threads N     processors to use (default: all that this process may)\n"
     "  --plugins DIR   node plugins and kernel libraries, for all commands\n"
     "                  (default: beside the program)\n"
     "  --quiet, -q     print the written files only\n"},
    {ALONE | OF(NODES) | OF(CHECK) | OF(CACHE),
     "\noptions of nodes, check and cache:\n"
     "  --plugins DIR   node plugins and kernel libraries (default: beside the program)\n"},
    {OF(QUANTIZE),
     "\noptions of quantize (CKPT: a name in the models' checkpoints folder; plans go to\n"
     "OUTPUT/quantization, for QuantizeModel's plan_name):\n"
     "  --bits 8|4        8: faster; 4: smaller, not faster (default: 8)\n"
     "  --format int|fp8_e4m3fn  what 8 bits hold (default: int)\n"
     "  --conv-mse X, --linear-mse X\n"
     "                    the error that one layer may cause, 0 to 1 (default: 0.1)\n"
     "  --density N       layers with less arithmetic than this stay as they are (default: 300)\n"
     "  --prompts FILE    one prompt a line to calibrate on (default: a photograph of a "
     "landscape)\n"
     "  --negative TEXT   the negative prompt (default: none)\n"
     "  --width N, --height N  of the picture, in pixels (default: 512)\n"
     "  --steps N, --cfg X, --seed N  of the samplings (default: 20, 8, 0)\n"
     "  --plan NAME       the plan's name (default: the checkpoint's)\n"
     "  --recalibrate     measure although there is a plan\n"
     "  --save-model PREFIX  also write OUTPUT/PREFIX_00001_.safetensors, quantized\n"},
    {OF(COMPARE),
     "\noptions of compare:\n"
     "  --seeds N         compare with seeds 1 to N (default: once, with the workflows' own)\n"},
    {OF(SERVE), "\noptions of serve:\n"
                "  --listen ADDRESS  where to listen (default: 127.0.0.1)\n"
                "  --port N          0 takes any free port (default: 8188)\n"
                "  --state DIR       queue, history, settings, saved workflows (default: ./state)\n"
                "  --token TOKEN     ask for it (also: $GRAFT_TOKEN); needed beyond this machine\n"
                "  --insecure        listen beyond this machine without a token\n"
                "  --tls-cert FILE, --tls-key FILE  serve HTTPS\n"
                "  --allow-host NAMES  further names of this server, separated by commas\n"
                "  --cors-origin ORIGIN  a site whose pages may use this server\n"
                "  --web-root DIR    another editor page\n"
                "  --max-upload-mb N longest request body, MiB (default: 100)\n"
                "  --preview none|latent  pictures while sampling (default: latent)\n"},
    {EVERY, "\nexit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted\n"},
};

void graft_options_help(graft_command topic, FILE *out)
{
    bool all = topic == GRAFT_COMMAND_HELP || topic == GRAFT_COMMAND_VERSION;
    const char *before = "usage: graft ";
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (!all && commands[i].command != topic) continue;
        fprintf(out, "%s%s\n", before, commands[i].line);
        before = "       graft ";
    }
    /* Of one command its own options come first. */
    for (int pass = all; pass < 2; pass++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            bool own = parts[i].of == 1u << topic;
            if (all ? !(parts[i].of & ALONE) : parts[i].of >> topic & 1 && own == !pass)
                fputs(parts[i].text, out);
        }
}
