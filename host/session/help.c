/* What the program says of itself, for terminals of 80 columns. */
#include <string.h>

#include "host/schema/near.h"
#include "host/session/options.h"

#define OF(command) (1u << GRAFT_COMMAND_##command)
#define WORKFLOWS   (OF(RUN) | OF(COMPILE) | OF(QUANTIZE) | OF(COMPARE) | OF(SERVE))

static const struct {
    graft_command command;
    const char *name, *takes, *does;
} commands[] = {
    {GRAFT_COMMAND_RUN, "run", "FILE",
     "run a workflow (JSON, or a picture that carries one); - is\nstandard input"},
    {GRAFT_COMMAND_SERVE, "serve", "", "the node editor in the browser, and ComfyUI's protocol"},
    {GRAFT_COMMAND_NODES, "nodes", "[NAME]",
     "list the nodes, or those that speak of a word; describe one"},
    {GRAFT_COMMAND_QUANTIZE, "quantize", "CKPT", "find the layers that tolerate 8 or 4 bits"},
    {GRAFT_COMMAND_COMPARE, "compare", "A B", "compare the pictures of two workflows"},
    {GRAFT_COMMAND_CONVERT, "convert", "FILE [TO]",
     "turn a PyTorch file (.ckpt, .pt, .pth, .bin) or a .gguf\ninto a .safetensors file (default: "
     "its name beside it),\nwithout running what is in it"},
    {GRAFT_COMMAND_COMPILE, "compile", "FILE",
     "fill the caches for a workflow without computing anything"},
    {GRAFT_COMMAND_CACHE, "cache", "[list|verify|clear]",
     "what is kept between runs: list it, read all of it, or\nremove it"},
    {GRAFT_COMMAND_CHECK, "check", "FILE.so", "test a plugin against the rules of the ABI"},
};

static const struct {
    unsigned of;
    const char *option, *text;
} options[] = {
    {OF(RUN) | OF(COMPILE), "--set NODE.INPUT=VALUE",
     "change an input; NODE is an id, or the title or class of\none node"},
    {OF(NODES), "--json", "describe them as ComfyUI's object_info does"},
    {OF(QUANTIZE), "--bits 8|4", "8: faster; 4: smaller, not faster (default: 8)"},
    {OF(QUANTIZE), "--format int|fp8_e4m3fn", "what 8 bits hold (default: int)"},
    {OF(QUANTIZE), "--conv-mse X, --linear-mse X, --attention-mse X",
     "the error that one layer may cause, 0 to 1 (default: 0.1)"},
    {OF(QUANTIZE), "--density N",
     "layers with less arithmetic, in FLOP per byte, stay as\nthey are (default: 100)"},
    {OF(QUANTIZE), "--prompts FILE",
     "prompts to calibrate on, one per line (default: a\nphotograph of a landscape)"},
    {OF(QUANTIZE), "--negative TEXT", "the negative prompt (default: none)"},
    {OF(QUANTIZE), "--width N, --height N", "of the picture, in pixels (default: 512)"},
    {OF(QUANTIZE), "--steps N, --cfg X, --seed N", "of the samplings (default: 20, 8, 0)"},
    {OF(QUANTIZE), "--plan NAME",
     "the plan's name in OUTPUT/quantization (default: the\ncheckpoint's); QuantizeModel's "
     "plan_name"},
    {OF(QUANTIZE), "--recalibrate", "measure even if there is a plan"},
    {OF(QUANTIZE), "--save-model PREFIX", "also write OUTPUT/PREFIX_00001_.safetensors, quantized"},
    {OF(CONVERT), "--quantize int8_convrot|int8",
     "write a network (.safetensors or .gguf) with its linear\nlayers in 8-bit integers, as "
     "ComfyUI "
     "reads them"},
    {OF(COMPARE), "--seeds N",
     "compare with seeds 1 to N (default: once, with the\nworkflows' own)"},
    {OF(SERVE), "--listen ADDRESS", "where to listen (default: 127.0.0.1)"},
    {OF(SERVE), "--port N", "0 takes any free port (default: 8188)"},
    {OF(SERVE), "--state DIR", "queue, history, settings, saved workflows\n(default: ./state)"},
    {OF(SERVE), "--token TOKEN",
     "clients must send it (also: $GRAFT_TOKEN); required\nbeyond this machine"},
    {OF(SERVE), "--insecure", "listen beyond this machine without a token"},
    {OF(SERVE), "--tls-cert FILE, --tls-key FILE", "serve HTTPS"},
    {OF(SERVE), "--allow-host NAMES", "further names of this server, separated by commas"},
    {OF(SERVE), "--cors-origin ORIGIN", "a site whose pages may use this server"},
    {OF(SERVE), "--workflows DIR", "workflows that the page offers (default: ./workflows)"},
    {OF(SERVE), "--web-root DIR", "another editor page"},
    {OF(SERVE), "--max-upload-mb N", "largest request body, in MiB (default: 100)"},
    {OF(SERVE), "--preview auto|none|latent|taesd",
     "pictures while sampling: the latent's channels as\ncolours, or decoded where "
     "models/vae_approx has a tiny\nautoencoder (auto, the default, and taesd)"},
    {OF(SERVE), "--cache none|classic|lru=N",
     "which results later prompts find: none, those of the last\nprompt, and N more (default: "
     "classic)"},
    {WORKFLOWS, "--models DIR",
     "model folders (default: $GRAFT_MODELS, else ./models, else\nthose beside the program's "
     "build)"},
    {WORKFLOWS, "--input DIR",
     "pictures to load (default: ./input, else those beside the\nprogram's build, which serve "
     "leaves alone)"},
    {WORKFLOWS, "--output DIR",
     "where files are written, previews into DIR/temp (default:\n./output and ./temp)"},
    {WORKFLOWS, "--device NAME",
     "what to compute on: cuda, cpu or ref (default: the best\nthat runs here)"},
    {WORKFLOWS, "--threads N", "processors to use (default: all that are allowed)"},
    {WORKFLOWS, "--quiet, -q", "print only warnings and the files written"},
    {WORKFLOWS | OF(NODES) | OF(CHECK) | OF(CACHE) | OF(CONVERT), "--plugins DIR",
     "node plugins and kernel libraries (default: beside the\nprogram)"},
};

#define COLUMN 20 /* where explanations begin */

/* `text` may have several lines. */
static void explain(const char *option, const char *text, FILE *out)
{
    int used = fprintf(out, "  %s", option);
    if (used > COLUMN - 2) {
        fputc('\n', out);
        used = 0;
    }
    for (;;) {
        size_t length = strcspn(text, "\n");
        fprintf(out, "%*s%.*s\n", COLUMN - used, "", (int)length, text);
        if (!text[length]) return;
        text += length + 1;
        used = 0;
    }
}

static void overview(FILE *out)
{
    fputs("usage: graft COMMAND [options]\n\n", out);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        bool brief = strlen(commands[i].takes) < 8;
        char line[COLUMN];
        snprintf(line, sizeof line, "%s %s", commands[i].name, brief ? commands[i].takes : "");
        explain(line, commands[i].does, out);
    }
    fputs("\n\"graft help COMMAND\" lists its options. For example:\n\n"
          "  graft run workflows/txt2img.json --set \"2.text=rocket, flat\" --set 5.seed=7\n"
          "  graft serve\n",
          out);
}

void graft_options_help(graft_command topic, FILE *out)
{
    const char *name = NULL;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (commands[i].command != topic) continue;
        name = commands[i].name;
        const char *takes = commands[i].takes;
        fprintf(out, "usage: graft %s%s%s [options]\n\n%s\n\n", name, *takes ? " " : "", takes,
                commands[i].does);
    }
    if (!name) overview(out);
    for (size_t i = 0; name && i < sizeof options / sizeof *options; i++)
        if (options[i].of >> topic & 1) explain(options[i].option, options[i].text, out);
    fputs("\nexit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted\n", out);
}

void graft_options_hint(const char *command, FILE *out)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, command) == 0) {
            fprintf(out, "graft: \"graft help %s\" lists what it takes\n", command);
            return;
        }
    fputs("graft: \"graft help\" lists the commands\n", out);
}

/* Adds the names in "--width N, --height N". */
static void add_names(graft_near *near, const char *option)
{
    for (const char *p = option; (p = strchr(p, '-'));) {
        size_t length = strcspn(p, " ,");
        if (p == option || p[-1] == ' ') graft_near_add_part(near, p, length);
        p += length;
    }
}

graft_status graft_options__unknown(graft_command command, const char *arg, graft_err *e)
{
    char name[64], text[GRAFT_NEAR_TEXT];
    graft_near near;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(arg, "="), arg);
    graft_near_init(&near, name);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].of >> command & 1) add_names(&near, options[i].option);
    return graft_fail(e, GRAFT_E_ARG, "unknown option %s%s", name, graft_near_text(&near, text));
}

graft_status graft_options__unknown_command(const char *name, graft_err *e)
{
    char text[GRAFT_NEAR_TEXT];
    graft_near near;
    graft_near_init(&near, name);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        graft_near_add(&near, commands[i].name);
    graft_near_add(&near, "help");
    graft_near_add(&near, "version");
    return graft_fail(e, GRAFT_E_ARG, "unknown command %.80s%s", name,
                      graft_near_text(&near, text));
}
