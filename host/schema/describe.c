#include "host/schema/describe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "host/schema/schema.h"
#include "plugin/loader.h"

#define WIDTH  79 /* columns that a line may fill */
#define INDENT 6  /* of what is said about an input or output */

/* ------------------------------------------------------------------ finding */

static graft_status not_found(const graft_registry *r, const char *name, graft_err *e)
{
    char text[GRAFT_NEAR_TEXT];
    graft_near near;
    graft_near_init(&near, name);
    graft_describe_near(r, &near);
    return graft_fail(e, GRAFT_E_NOTFOUND, "there is no node \"%.80s\"%s", name,
                      near.count ? graft_near_text(&near, text)
                                 : "; \"graft nodes\" lists those there are");
}

void graft_describe_near(const graft_registry *r, graft_near *near)
{
    const graft_registry_node *n;
    for (size_t i = 0; (n = graft_registry_at(r, i)); i++) {
        graft_near_add(near, n->node->id);
        if (n->node->title) graft_near_add_like(near, n->node->title, n->node->id);
    }
}

graft_status graft_describe_find(const graft_registry *r, const char *name,
                                 const graft_registry_node **out, graft_err *e)
{
    const graft_registry_node *n, *found = NULL;
    int alike = 0;
    *out = NULL;
    for (size_t i = 0; (n = graft_registry_at(r, i)); i++) {
        if (strcmp(n->node->id, name) == 0) {
            *out = n;
            return GRAFT_OK;
        }
        bool same = strcasecmp(n->node->id, name) == 0 ||
                    (n->node->title && strcasecmp(n->node->title, name) == 0);
        if (same) found = n;
        alike += same;
    }
    if (alike != 1) return not_found(r, name, e);
    *out = found;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ lines */

/* Columns of the first n bytes: UTF-8's further bytes take none. */
static size_t columns(const char *text, size_t n)
{
    size_t c = 0;
    for (size_t i = 0; i < n; i++) c += ((unsigned char)text[i] & 0xc0) != 0x80;
    return c;
}

/* Appends words, `column` columns into a line; further lines begin at `indent`. Ends the line. */
static void wrap(graft_str *out, size_t column, size_t indent, const char *text)
{
    bool first = true;
    while (*text) {
        size_t n = strcspn(text, " \n"), wide = columns(text, n);
        bool line = !first && column + 1 + wide > WIDTH;
        if (n) {
            if (line) graft_str_printf(out, "\n%*s", (int)indent, "");
            if (!line && !first) graft_str_puts(out, " ");
            column = (line ? indent : column + !first) + wide;
            graft_str_printf(out, "%.*s", (int)n, text);
            first = false;
        }
        text += n;
        if (*text == '\n' && !first) {
            graft_str_printf(out, "\n%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        if (*text) text++;
    }
    graft_str_puts(out, "\n");
}

/* A paragraph of its own at `indent`; nothing for no text. */
static void paragraph(graft_str *out, size_t indent, const char *text)
{
    if (!text || !*text) return;
    graft_str_printf(out, "%*s", (int)indent, "");
    wrap(out, indent, indent, text);
}

/* ------------------------------------------------------------------ inputs */

static void put_numbers(graft_str *t, const graft_input *in)
{
    bool whole = in->kind == GRAFT_INT, wide = in->flags & GRAFT_INPUT_U64;
    if (whole)
        graft_str_printf(t, wide ? "%" PRIu64 : "%" PRId64, in->initial.i);
    else
        graft_str_printf(t, "%g", in->initial.f);
    if (wide)
        graft_str_puts(t, ", from 0 to 18446744073709551615");
    else if (in->min < in->max)
        graft_str_printf(t, whole ? ", from %.0f to %.0f" : ", from %g to %g", in->min, in->max);
}

static graft_status put_choices(graft_str *t, const graft_host *host, const graft_node *node,
                                const graft_input *in, graft_err *e)
{
    graft_choices c = {0};
    graft_status st = graft_choices_init(&c, host, node, in, e);
    if (st) return st;
    const char *initial = in->initial.s ? in->initial.s : c.count ? c.name[0] : NULL;
    if (initial)
        graft_str_printf(t, "%s; one of ", initial);
    else
        graft_str_puts(t, "there is nothing to choose from");
    for (size_t i = 0; i < c.count; i++) graft_str_printf(t, "%s%s", i ? ", " : "", c.name[i]);
    graft_choices_finish(&c);
    return GRAFT_OK;
}

/* The initial value and what else may be given; nothing for a link. */
static graft_status put_values(graft_str *t, const graft_host *host, const graft_node *node,
                               const graft_input *in, graft_err *e)
{
    if (graft_schema_combo(in)) return put_choices(t, host, node, in, e);
    if (in->kind == GRAFT_INT || in->kind == GRAFT_FLOAT) put_numbers(t, in);
    if (in->kind == GRAFT_BOOL) graft_str_puts(t, in->initial.i ? "true" : "false");
    if (in->kind == GRAFT_STRING) graft_str_printf(t, "\"%s\"", in->initial.s ? in->initial.s : "");
    return GRAFT_OK;
}

static void put_many(graft_str *out, const graft_input *in)
{
    graft_str_printf(out, "  %s1, %s2, …  any number (optional)\n", in->name, in->name);
    paragraph(out, INDENT, in->tooltip);
}

/* " (where resize_type is scale width or match size)" */
static void put_when(graft_str *out, const char *when)
{
    if (!when) return;
    graft_str_puts(out, " (where ");
    for (; *when; when++) {
        if (*when == '=')
            graft_str_puts(out, " is ");
        else if (*when == '|')
            graft_str_puts(out, " or ");
        else
            graft_str_append(out, when, 1);
    }
    graft_str_puts(out, ")");
}

static graft_status put_input(graft_str *out, const graft_host *host, const graft_node *node,
                              const graft_input *in, graft_err *e)
{
    graft_str value = GRAFT_STR_INIT, line = GRAFT_STR_INIT;
    graft_status st = put_values(&value, host, node, in, e);
    bool some = value.len > 0;
    char *text = graft_str_take(&value), *all = NULL;
    graft_str_printf(&line, "%s%s", in->type,
                     in->flags & GRAFT_INPUT_OPTIONAL ? " (optional)" : "");
    put_when(&line, GRAFT_FIELD(graft_input, in, when));
    graft_str_printf(&line, "%s%s", some ? ": " : "", some && text ? text : "");
    all = graft_str_take(&line);
    if (!st && (!all || (some && !text))) st = graft_fail_nomem(e, "a description");
    if (!st) {
        graft_str_printf(out, "  %s  ", in->name);
        wrap(out, columns(in->name, strlen(in->name)) + 4, INDENT, all);
        paragraph(out, INDENT, in->tooltip);
    }
    graft_free(all);
    graft_free(text);
    return st;
}

static void put_head(graft_str *out, const graft_node *node)
{
    static const struct {
        uint32_t flag;
        const char *word;
    } words[] = {{GRAFT_NODE_DEPRECATED, ", deprecated"},
                 {GRAFT_NODE_EXPERIMENTAL, ", experimental"},
                 {GRAFT_NODE_OUTPUT, ", an output node"}};
    bool titled = node->title && *node->title && strcmp(node->title, node->id) != 0;
    graft_str_printf(out, "%s%s%s%s\n", node->id, titled ? " (" : "", titled ? node->title : "",
                     titled ? ")" : "");
    graft_str_printf(out, "%s", node->category && *node->category ? node->category : "no category");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (node->flags & words[i].flag) graft_str_puts(out, words[i].word);
    graft_str_puts(out, "\n");
    if (node->description && *node->description) graft_str_puts(out, "\n");
    paragraph(out, 0, node->description);
}

graft_status graft_describe(const graft_host *host, const graft_node *node, graft_str *out,
                            graft_err *e)
{
    graft_status st = GRAFT_OK;
    put_head(out, node);
    size_t inputs = graft_schema_inputs(node), outputs = graft_schema_outputs(node);
    if (inputs) graft_str_puts(out, "\nInputs\n");
    for (size_t i = 0; i < inputs && !st; i++) {
        if (node->inputs[i]->flags & GRAFT_INPUT_MANY)
            put_many(out, node->inputs[i]);
        else
            st = put_input(out, host, node, node->inputs[i], e);
    }
    if (outputs) graft_str_puts(out, "\nOutputs\n");
    for (size_t i = 0; i < outputs && !st; i++) {
        const graft_output *o = node->outputs[i];
        graft_str_printf(out, "  %s  %s\n", o->name, o->type);
        paragraph(out, INDENT, o->tooltip);
    }
    return st;
}
