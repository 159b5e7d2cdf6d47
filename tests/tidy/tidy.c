/* The style as a test: who includes whom, how long files, lines and functions are, which calls and
 * which variables are not wanted, and leftover marks. exceptions.def lists what is allowed. */
#include "tests/test.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"

#define MAX_FILE_LINES     800
#define MAX_LINE           100
#define MAX_FUNCTION_LINES 70

static const struct function_exception {
    const char *file, *function;
    int lines;
} long_functions[] = {
#define FUNCTION(file, function, lines) {file, function, lines},
#define STATE(file, name, reason)
#define CALL(file, name, reason)
#include "tests/tidy/exceptions.def"
#undef FUNCTION
#undef STATE
#undef CALL
    {NULL, NULL, 0}};

static const struct exception {
    const char *file, *name;
} calls[] =
    {
#define FUNCTION(file, function, lines)
#define STATE(file, name, reason)
#define CALL(file, name, reason) {file, name},
#include "tests/tidy/exceptions.def"
#undef FUNCTION
#undef STATE
#undef CALL
        {NULL, NULL}},
  states[] = {
#define FUNCTION(file, function, lines)
#define STATE(file, name, reason) {file, name},
#define CALL(file, name, reason)
#include "tests/tidy/exceptions.def"
#undef FUNCTION
#undef STATE
#undef CALL
      {NULL, NULL}};

/* Which files a layer may include: a folder, or a file. Tests and benches may include anything. */
static const struct layer {
    const char *folder, *may[14];
} layers[] = {
    {"base/", {"base/"}},
    {"plugin/", {"base/", "plugin/"}},
    {"kernels/", {"base/", "kernels/"}},
    {"engine/",
     {"base/", "engine/", "kernels/blocks.h", "kernels/changes.h", "kernels/ggml_blocks.h",
      "kernels/guidance.h", "kernels/kernel_abi.h", "kernels/hadamard.h", "kernels/op_desc.h",
      "kernels/ops.def", "kernels/quant.h", "kernels/rope.h", "kernels/tokens.h"}},
    {"nodes/", {"base/", "plugin/", "nodes/", "engine/engine.h"}},
    {"host/", {"base/", "plugin/", "host/"}},
};
/* Folders in stacks, bottom first: each may include itself and those before it. A folder that
 * others are in comes behind them, and stands for what lies in none of them. */
static const char *const stacks[][28] = {
    {"engine/graph/",
     "engine/plan/",
     "engine/disk/",
     "engine/text/",
     "engine/sampling/",
     "engine/passes/",
     "engine/weights/",
     "engine/image/",
     "engine/models/parts/",
     "engine/models/names/",
     "engine/models/vaes/",
     "engine/models/encoders/",
     "engine/models/unets/",
     "engine/models/transformers/",
     "engine/models/controls/",
     "engine/models/detect/",
     "engine/models/",
     "engine/exec/",
     "engine/quant/",
     "engine/cache/",
     "engine/objects/",
     "engine/prompts/",
     "engine/files/",
     "engine/pictures/",
     "engine/denoise/",
     "engine/calibrate/",
     "engine/report/"},
    {"nodes/call/", "nodes/values/", "nodes/image/", "nodes/mask/", "nodes/latent/",
     "nodes/conditioning/", "nodes/hooks/", "nodes/controls/", "nodes/model/", "nodes/loaders/",
     "nodes/merging/", "nodes/sampling/", "nodes/compile/"},
    {"host/services/", "host/schema/", "host/prompt/", "host/run/", "host/session/", "host/serve/",
     "host/commands/"},
    {"kernels/cuda/gpu/", "kernels/cuda/device/", "kernels/cuda/libs/", "kernels/cuda/ops/",
     "kernels/cuda/"}};
static const char *const folders[] = {"base", "plugin", "kernels", "engine", "nodes",
                                      "host", "bench",  "tests",   NULL};
static const char *const suffixes[] = {".c", ".h", ".def", NULL};

typedef struct source {
    const char *name; /* "engine/graph/graph.c" */
    char *text;       /* as it is */
    char *code;       /* the same length, comments and literals blanked */
    size_t size;
} source;

static bool in_library(const char *name)
{
    /* The template is a stranger's plugin: it has nothing of ours but the ABI. */
    return !graft_str_starts(name, "tests/") && !graft_str_starts(name, "bench/") &&
           !graft_str_starts(name, "plugin/template/");
}

static int line_of(const source *s, size_t at)
{
    int line = 1;
    for (size_t i = 0; i < at; i++) line += s->text[i] == '\n';
    return line;
}

static void complain(const source *s, size_t at, const char *what, const char *word)
{
    test_failures++;
    fprintf(stderr, "%s:%d: %s%s%s\n", s->name, line_of(s, at), what, *word ? ": " : "", word);
}

/* ------------------------------------------------------------------ reading C */

static size_t skip_literal(const char *text, size_t size, size_t i)
{
    char quote = text[i++];
    while (i < size && text[i] != quote && text[i] != '\n') i += text[i] == '\\' ? 2 : 1;
    return i < size ? i + 1 : size;
}

static size_t skip_comment(const char *text, size_t size, size_t i)
{
    if (text[i + 1] == '/') {
        while (i < size && text[i] != '\n') i++;
        return i;
    }
    const char *end = strstr(text + i + 2, "*/");
    return end ? (size_t)(end - text) + 2 : size;
}

/* Comments, literals and preprocessor lines become spaces; line ends stay. */
static void blank(source *s)
{
    bool line_start = true;
    for (size_t i = 0; i < s->size;) {
        char c = s->text[i];
        size_t end = i;
        if (c == '"' || c == '\'')
            end = skip_literal(s->text, s->size, i);
        else if (c == '/' && (s->text[i + 1] == '/' || s->text[i + 1] == '*'))
            end = skip_comment(s->text, s->size, i);
        else if (c == '#' && line_start)
            for (; end < s->size && (s->text[end] != '\n' || s->text[end - 1] == '\\');) end++;
        line_start = c == '\n' || (line_start && isspace((unsigned char)c));
        if (end == i) i++;
        for (; i < end; i++)
            if (s->code[i] != '\n') s->code[i] = ' ';
    }
}

static bool read_source(const char *name, source *out)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", GRAFT_SOURCE_DIR, name);
    out->name = name;
    if (graft_file_read(path, 1 << 24, &out->text, &out->size, NULL)) return false;
    out->code = graft_strndup(out->text, out->size);
    if (!out->code) return false;
    blank(out);
    return true;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* ------------------------------------------------------------------ the rules */

static bool may_include(const char *file, const char *header)
{
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        if (!graft_str_starts(file, layers[i].folder)) continue;
        for (const char *const *m = layers[i].may; *m; m++)
            if (graft_str_ends(*m, "/") ? graft_str_starts(header, *m) : !strcmp(header, *m))
                return true;
        return false;
    }
    return true;
}

/* The place of a file's folder in a stack; 0: it is in none of them. */
static int floor_in(const char *const *stack, const char *name)
{
    for (int i = 0; stack[i]; i++)
        if (graft_str_starts(name, stack[i])) return i + 1;
    return 0;
}

/* Ours are included by their full path, so the first part is a folder of ours. */
static bool is_ours(const char *header)
{
    for (const char *const *f = folders; *f; f++) {
        size_t n = strlen(*f);
        if (strncmp(header, *f, n) == 0 && header[n] == '/') return true;
    }
    return false;
}

static void check_includes(const source *s)
{
    for (const char *p = s->text; (p = strstr(p, "#include \"")); p++) {
        char header[256] = "";
        sscanf(p, "#include \"%255[^\"]", header);
        if (is_ours(header) && !may_include(s->name, header))
            complain(s, (size_t)(p - s->text), "this layer may not include", header);
        for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++)
            if (floor_in(stacks[i], s->name) &&
                floor_in(stacks[i], header) > floor_in(stacks[i], s->name))
                complain(s, (size_t)(p - s->text), "this folder may not include", header);
    }
}

static void check_lengths(const source *s)
{
    size_t start = 0;
    int lines = 0;
    for (size_t i = 0; i < s->size; i++) {
        if (s->text[i] != '\n') continue;
        int columns = 0; /* UTF-8: a character is a column */
        for (size_t k = start; k < i; k++) columns += (s->text[k] & 0xc0) != 0x80;
        if (columns > MAX_LINE) complain(s, start, "line over 100 columns", "");
        start = i + 1;
        lines++;
    }
    if (lines > MAX_FILE_LINES) complain(s, s->size, "file over 800 lines", "");
}

/* The word before the last '(' on the lines that lead up to a body's brace. */
static void function_name(const source *s, size_t brace, char *out, size_t n)
{
    size_t at = brace, depth = 0;
    while (at > 0 && s->code[at - 1] != ')') at--;
    for (; at > 0; at--) {
        char c = s->code[at - 1];
        depth += c == ')';
        if (c == '(' && --depth == 0) break;
    }
    size_t end = at ? at - 1 : 0;
    while (end > 0 && isspace((unsigned char)s->code[end - 1])) end--;
    size_t begin = end;
    while (begin > 0 && is_word(s->code[begin - 1])) begin--;
    snprintf(out, n, "%.*s", (int)(end - begin), s->code + begin);
}

static int allowed_length(const char *file, const char *function)
{
    for (const struct function_exception *x = long_functions; x->file; x++)
        if (!strcmp(x->file, file) && !strcmp(x->function, function)) return x->lines;
    return MAX_FUNCTION_LINES;
}

/* A body is what stands between a brace in the first column and the next one: clang-format puts
 * them there. */
static void check_functions(const source *s)
{
    for (size_t i = 1; i < s->size; i++) {
        if (s->code[i] != '{' || s->code[i - 1] != '\n') continue;
        const char *end = strstr(s->code + i, "\n}");
        if (!end) continue;
        char name[128];
        function_name(s, i, name, sizeof name);
        int lines = line_of(s, (size_t)(end - s->code)) - line_of(s, i);
        int allowed = allowed_length(s->name, name);
        char size[160];
        snprintf(size, sizeof size, "%s, %d lines", name, lines);
        if (lines > allowed) complain(s, i, "function is too long", size);
        if (allowed > MAX_FUNCTION_LINES && lines < allowed)
            complain(s, i, "function got shorter: lower its number in exceptions.def", size);
    }
}

static bool excepted(const struct exception *x, const char *file, const char *text)
{
    for (; x->file; x++)
        if (!strcmp(x->file, file) && strstr(text, x->name)) return true;
    return false;
}

static void check_calls(const source *s)
{
    static const char *const never[] = {"strcpy", "strcat", "sprintf", "vsprintf",
                                        "gets",   "strtok", "system",  "popen",
                                        "tmpnam", "mktemp", "alloca",  NULL};
    static const char *const not_in_libraries[] = {
        "exit", "_exit", "abort", "malloc", "calloc", "realloc", "free", "strdup", "strndup", NULL};
    bool library = in_library(s->name);
    bool allocator = !strcmp(s->name, "base/alloc.c");
    for (size_t i = 0; i < s->size; i++) {
        if (!is_word(s->code[i]) || (i && is_word(s->code[i - 1]))) continue;
        size_t n = 0;
        while (is_word(s->code[i + n])) n++;
        if (s->code[i + n] != '(' || (i && (s->code[i - 1] == '.' || s->code[i - 1] == '>')))
            continue;
        for (int list = 0; list < (library && !allocator ? 2 : 1); list++)
            for (const char *const *b = list ? not_in_libraries : never; *b; b++)
                if (strlen(*b) == n && !memcmp(*b, s->code + i, n) && library &&
                    !excepted(calls, s->name, *b))
                    complain(s, i, "call is not wanted here", *b);
    }
}

/* Behind the braces that open at p. */
static const char *after_braces(const char *p)
{
    int depth = 0;
    for (; *p; p++) {
        depth += *p == '{';
        depth -= *p == '}';
        if (!depth) return p + 1;
    }
    return p;
}

/* A variable that is `static`, at file level or within a function, and not const. */
static void check_state(const source *s)
{
    if (!in_library(s->name)) return;
    for (const char *p = s->code; (p = strstr(p, "static ")); p++) {
        char declaration[256];
        size_t n = strcspn(p, ";={(");
        if ((p > s->code && is_word(p[-1])) || p[n] == '(') continue;
        size_t head = n >= sizeof declaration ? sizeof declaration - 1 : n;
        memcpy(declaration, p, head);
        declaration[head] = 0;
        const char *star = strrchr(declaration, '*');
        bool constant = strstr(star ? star : declaration, "const") != NULL;
        bool type = p[n] == '{' && !strchr(declaration, '=') &&
                    (strstr(declaration, "struct") || strstr(declaration, "union"));
        if (type) { /* what follows its fields: the variable's name, and perhaps a star */
            const char *rest = after_braces(p + n);
            head = strcspn(rest, ";={(");
            if (head >= sizeof declaration) head = sizeof declaration - 1;
            memcpy(declaration, rest, head);
            declaration[head] = 0;
        }
        if (!constant && !excepted(states, s->name, declaration))
            complain(s, (size_t)(p - s->code), "variable that is not const", declaration);
    }
}

/* Likewise without `static`: a line that begins with a type and a name and ends as a variable does.
 */
static void check_globals(const source *s)
{
    static const char *const begins[] = {"typedef ", "extern ", "static ", "enum ",
                                         "return ",  "goto ",   NULL};
    if (!in_library(s->name) || !graft_str_ends(s->name, ".c")) return;
    for (const char *p = s->code; p && *p; p = strchr(p, '\n'), p += p != NULL) {
        size_t n = strcspn(p, ";={(\n"), words = 0;
        bool wanted = is_word(*p) && (p[n] == ';' || p[n] == '=' || p[n] == '{');
        for (size_t i = 0; i < n; i++) words += is_word(p[i]) && (!i || !is_word(p[i - 1]));
        for (const char *const *b = begins; *b; b++) wanted &= !graft_str_starts(p, *b);
        bool tagged = graft_str_starts(p, "struct ") || graft_str_starts(p, "union ");
        wanted &= !tagged || p[n] != '{';
        char declaration[256];
        snprintf(declaration, sizeof declaration, "%.*s", (int)(n < 255 ? n : 255), p);
        const char *star = strrchr(declaration, '*');
        if (strstr(star ? star : declaration, "const")) continue;
        if (wanted && words >= (tagged ? 3 : 2) && !excepted(states, s->name, declaration))
            complain(s, (size_t)(p - s->code), "variable that is not const", declaration);
    }
}

static void check_marks(const source *s)
{
    /* clang-format off */
    /* In pieces, or this file would have them. */
    static const char *const mark[] = {"TO" "DO", "FIX" "ME", NULL};
    /* clang-format on */
    for (const char *const *m = mark; *m; m++) {
        const char *p = strstr(s->text, *m);
        if (p) complain(s, (size_t)(p - s->text), "leftover mark", *m);
    }
}

static void check_guard(const source *s)
{
    if (!graft_str_ends(s->name, ".h")) return;
    if (!strstr(s->text, "#ifndef GRAFT_") && !strstr(s->text, "do not edit"))
        complain(s, 0, "header without a guard", "");
}

static void check_source(const char *name)
{
    source s = {0};
    if (!read_source(name, &s)) {
        test_failures++;
        fprintf(stderr, "%s: cannot be read\n", name);
    } else {
        check_includes(&s);
        check_lengths(&s);
        check_functions(&s);
        check_calls(&s);
        check_state(&s);
        check_globals(&s);
        check_marks(&s);
        check_guard(&s);
    }
    test_checks++;
    graft_free(s.text);
    graft_free(s.code);
}

static void sources_are_tidy(void)
{
    for (const char *const *f = folders; *f; f++) {
        char **names = NULL, root[1200], name[1200];
        size_t n = 0;
        snprintf(root, sizeof root, "%s/%s", GRAFT_SOURCE_DIR, *f);
        CHECK(!graft_dir_list(root, suffixes, &names, &n, NULL) && n > 0);
        for (size_t i = 0; i < n; i++) {
            if (strstr(names[i], "node_modules/")) continue; /* installed, not ours */
            snprintf(name, sizeof name, "%s/%s", *f, names[i]);
            check_source(name);
        }
        graft_names_free(names, n);
    }
}

/* Whether the code has this word; a name of several as it stands. */
static bool has_word(const char *code, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = code; (p = strstr(p, word)); p++)
        if ((p == code || !is_word(p[-1])) && !is_word(p[n])) return true;
    return false;
}

/* An exception for something that is gone hides the next one of that name. */
static void exceptions_are_needed(void)
{
    for (const struct function_exception *x = long_functions; x->file; x++) {
        source s = {0};
        char call[160];
        snprintf(call, sizeof call, "%s(", x->function);
        CHECK(read_source(x->file, &s) && strstr(s.code, call));
        graft_free(s.text);
        graft_free(s.code);
    }
    const struct exception *const lists[] = {calls, states};
    for (int i = 0; i < 2; i++)
        for (const struct exception *x = lists[i]; x->file; x++) {
            source s = {0};
            CHECK(read_source(x->file, &s) && has_word(s.code, x->name));
            graft_free(s.text);
            graft_free(s.code);
        }
}

int main(void)
{
    RUN(sources_are_tidy);
    RUN(exceptions_are_needed);
    return test_end();
}
