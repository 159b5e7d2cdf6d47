#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "plugin/elf.h"
#include "plugin/entry.h"
#include "plugin/loader.h"
#include "plugin/record.h"

typedef struct check {
    const char *path;
    const graft_host *host;
    const graft_log *log;
    const graft_node *node; /* at which we are, or NULL */
    int broken;
} check;

#define BROKEN(c, ...)                                                                             \
    do {                                                                                           \
        (c)->broken++;                                                                             \
        graft_log_printf((c)->log, GRAFT_LOG_ERROR, __VA_ARGS__);                                  \
    } while (0)
#define STYLE(c, ...) graft_log_printf((c)->log, GRAFT_LOG_WARN, __VA_ARGS__)

/* Reads the symbol table of the file: what else it exports would be bound to by others. */
static graft_status check_symbols(check *c, graft_err *e)
{
    graft_elf f;
    graft_elf_symbol s;
    graft_status st = graft_elf_init(&f, c->path, e);
    if (st != GRAFT_OK) return st;
    bool plugin = false; /* of anything else, what it exports is no matter */
    for (uint64_t i = 1; i < f.symbol_count && !plugin; i++)
        plugin = graft_elf_symbol_at(&f, i, &s) && s.exported &&
                 strcmp(s.name, GRAFT_PLUGIN_SYMBOL) == 0;
    for (uint64_t i = 1; i < f.symbol_count && plugin; i++) {
        if (!graft_elf_symbol_at(&f, i, &s)) {
            BROKEN(c, "%s: symbol %llu is malformed", c->path, (unsigned long long)i);
            break;
        }
        if (s.exported && strcmp(s.name, GRAFT_PLUGIN_SYMBOL) != 0)
            BROKEN(c, "%s: exports %s; only %s may be exported", c->path, s.name,
                   GRAFT_PLUGIN_SYMBOL);
    }
    graft_elf_finish(&f);
    return GRAFT_OK;
}

static bool is_utf8(const char *text)
{
    return graft_str_is_utf8(text, strlen(text));
}

static void check_text(check *c, const char *what, const char *of, const char *text, bool wanted)
{
    if (text && !is_utf8(text))
        BROKEN(c, "node %s: %s %s is not UTF-8", c->node->id, of, what);
    else if (wanted && (!text || !text[0]))
        STYLE(c, "node %s: %s has no %s", c->node->id, of, what);
}

static void check_range(check *c, const graft_input *in)
{
    const char *id = c->node->id;
    bool u64 = in->flags & GRAFT_INPUT_U64, ranged = in->min != in->max;
    double v = in->kind == GRAFT_FLOAT ? in->initial.f
               : u64                   ? (double)(uint64_t)in->initial.i
                                       : (double)in->initial.i;
    if (u64 && in->kind != GRAFT_INT)
        BROKEN(c, "node %s: input %s: U64, but not an INT", id, in->name);
    if (!isfinite(v) || !isfinite(in->min) || !isfinite(in->max) || !isfinite(in->step) ||
        !isfinite(in->round))
        BROKEN(c, "node %s: input %s: a number is not finite", id, in->name);
    if (in->min > in->max) BROKEN(c, "node %s: input %s: min is above max", id, in->name);
    if (ranged && in->min <= in->max && (v < in->min || v > in->max))
        BROKEN(c, "node %s: input %s: the initial value %g is outside %g to %g", id, in->name, v,
               in->min, in->max);
    if (in->step < 0 || in->round < 0)
        BROKEN(c, "node %s: input %s: a negative step or round", id, in->name);
    if (in->kind == GRAFT_INT && !u64 && (in->min < -0x1p63 || in->max > 0x1p63))
        BROKEN(c, "node %s: input %s: the range leaves int64_t", id, in->name);
    if (u64 && (in->min < 0 || in->max > 0x1p64))
        BROKEN(c, "node %s: input %s: the range leaves uint64_t", id, in->name);
}

static void check_choices(check *c, const graft_input *in)
{
    const char *id = c->node->id;
    const graft_choices_api *api = c->node->query ? c->node->query(GRAFT_CHOICES_ID) : NULL;
    char **made = NULL;
    const char *const *list = in->choices;
    if (!list && api) {
        if (!api->list || !api->free) {
            BROKEN(c, "node %s: \"%s\" has an empty member", id, GRAFT_CHOICES_ID);
            return;
        }
        made = api->list(c->host, in->name);
        if (!made) BROKEN(c, "node %s: input %s: no list of choices came", id, in->name);
        list = (const char *const *)made;
    }
    bool found = !in->initial.s;
    for (size_t i = 0; list && list[i]; i++) {
        if (!is_utf8(list[i]))
            BROKEN(c, "node %s: input %s: choice %zu is not UTF-8", id, in->name, i);
        if (in->initial.s && strcmp(list[i], in->initial.s) == 0) found = true;
        for (size_t k = 0; in->choices && k < i; k++)
            if (strcmp(list[i], list[k]) == 0)
                BROKEN(c, "node %s: input %s: choice %s comes twice", id, in->name, list[i]);
    }
    if (in->choices && !in->choices[0]) BROKEN(c, "node %s: input %s: no choices", id, in->name);
    /* Choices made from files may lack the usual one on this machine. */
    if (!found && in->choices)
        BROKEN(c, "node %s: input %s: %s is not one of its choices", id, in->name, in->initial.s);
    if (made) api->free(made);
}

static void check_input(check *c, const graft_input *in)
{
    char of[160];
    snprintf(of, sizeof of, "input %s", in->name);
    check_text(c, "name", of, in->name, true);
    check_text(c, "tooltip", of, in->tooltip, true);
    if (in->zero) BROKEN(c, "node %s: input %s: `zero` is not 0", c->node->id, in->name);
    if (in->kind == GRAFT_INT || in->kind == GRAFT_FLOAT) check_range(c, in);
    if (in->kind == GRAFT_BOOL && in->initial.i != 0 && in->initial.i != 1)
        BROKEN(c, "node %s: input %s: the initial value is neither 0 nor 1", c->node->id, in->name);
    if (in->kind == GRAFT_STRING) check_text(c, "initial value", of, in->initial.s, false);
    if (in->kind == GRAFT_CHOICE && !(in->flags & GRAFT_INPUT_SOCKET)) check_choices(c, in);
    if (in->kind == GRAFT_OBJECT && in->initial.v)
        BROKEN(c, "node %s: input %s: an object has no initial value", c->node->id, in->name);
}

static void check_instance(check *c)
{
    void *a = NULL, *b = NULL;
    const graft_node *n = c->node;
    graft_status first = n->create(c->host, &a), second = n->create(c->host, &b);
    if (first != GRAFT_OK || second != GRAFT_OK)
        BROKEN(c, "node %s: create() failed: %s", n->id,
               graft_status_text(first != GRAFT_OK ? first : second));
    /* Fine for a constant, a race for anything that changes. */
    if (a && a == b) STYLE(c, "node %s: two instances share one `self`", n->id);
    if (first == GRAFT_OK) n->destroy(a);
    if (second == GRAFT_OK) n->destroy(b);
    n->destroy(NULL);
}

static void check_node(check *c, const graft_node *n)
{
    c->node = n;
    check_text(c, "title", "it", n->title, true);
    check_text(c, "description", "it", n->description, true);
    check_text(c, "category", "it", n->category, true);
    for (size_t i = 0; n->inputs[i]; i++) check_input(c, n->inputs[i]);
    for (size_t i = 0; n->outputs[i]; i++) {
        char of[160];
        snprintf(of, sizeof of, "output %s", n->outputs[i]->name);
        check_text(c, "name", of, n->outputs[i]->name, true);
        check_text(c, "tooltip", of, n->outputs[i]->tooltip, true);
    }
    if (!n->outputs[0] && !(n->flags & GRAFT_NODE_OUTPUT))
        STYLE(c, "node %s: has no outputs and is no output node, so it never runs", n->id);
    if (n->query && n->query("graft.no-such-table/1"))
        BROKEN(c, "node %s: query() answers ids that it cannot know", n->id);
    check_instance(c);
}

static void check_nodes(check *c, const graft_plugin *p)
{
    graft_err e = GRAFT_ERR_INIT;
    const graft_node *n;
    uint32_t i = 0;
    while (i < GRAFT_PLUGIN_MAX_NODES && p->node(i)) i++;
    if (i == GRAFT_PLUGIN_MAX_NODES) {
        BROKEN(c, "more than %u nodes: the list has no end", i);
        return;
    }
    for (i = 0; (n = p->node(i)); i++) {
        if (graft_record_check(n, &e) != GRAFT_OK) {
            BROKEN(c, "node %u: %s", i, e.text);
            continue;
        }
        for (uint32_t k = 0; k < i; k++) {
            const graft_node *other = p->node(k);
            if (other && other->size >= GRAFT_NODE_V1_SIZE && other->id &&
                strcmp(other->id, n->id) == 0)
                BROKEN(c, "node %s: two nodes have this id", n->id);
        }
        if (p->node(i) != n) BROKEN(c, "node %s: node(%u) changes its answer", n->id, i);
        check_node(c, n);
    }
    if (p->node(UINT32_MAX)) BROKEN(c, "node(%u) is not NULL", UINT32_MAX);
    if (!i) STYLE(c, "the plugin has no nodes");
    if (p->query && p->query("graft.no-such-table/1"))
        BROKEN(c, "the plugin's query() answers ids that it cannot know");
}

graft_status graft_plugin_check(const char *path, const graft_host *host, const graft_log *log,
                                graft_err *e)
{
    check c = {.path = path, .host = host, .log = log};
    const graft_plugin *p;
    char *folder = NULL;
    graft_status st;
    GRAFT_TRY(check_symbols(&c, e));
    GRAFT_TRY(graft_entry_open(path, &p, &folder, e));
    if (!is_utf8(p->id) || !is_utf8(p->version)) BROKEN(&c, "id or version is not UTF-8");
    int inits = 0; /* nested, then once more after the last deinit() */
    while (inits < 2 && (st = p->init(host, folder)) == GRAFT_OK) inits++;
    if (st == GRAFT_OK) {
        p->deinit();
        inits--;
        check_nodes(&c, p);
        p->deinit();
        inits--;
        if ((st = p->init(host, folder)) == GRAFT_OK) inits++;
        if (st == GRAFT_OK && !p->node(0) != (c.node == NULL) && !c.broken)
            BROKEN(&c, "the nodes are gone after a second init()");
    }
    if (st != GRAFT_OK) BROKEN(&c, "init() failed: %s", graft_status_text(st));
    while (inits-- > 0) p->deinit();
    st = GRAFT_OK;
    if (c.broken) st = graft_fail(e, GRAFT_E_FORMAT, "%s: broken rules: %d", path, c.broken);
out:
    graft_free(folder);
    return st;
}
