#include "host/schema/schema.h"

#include <string.h>

#include "plugin/loader.h"

size_t graft_schema_inputs(const graft_node *node)
{
    size_t n = 0;
    while (node->inputs && node->inputs[n]) n++;
    return n;
}

size_t graft_schema_outputs(const graft_node *node)
{
    size_t n = 0;
    while (node->outputs && node->outputs[n]) n++;
    return n;
}

const void *graft_schema_table(const graft_node *node, const char *id)
{
    return node->query ? node->query(id) : NULL;
}

bool graft_schema_literal(const graft_input *in)
{
    static const char *const literal[] = {"INT", "FLOAT", "STRING", "BOOLEAN", "COMBO"};
    for (size_t i = 0; i < sizeof literal / sizeof *literal; i++)
        if (strcmp(in->type, literal[i]) == 0) return true;
    return false;
}

bool graft_schema_widget(const graft_input *in)
{
    return graft_schema_literal(in) && !(in->flags & (GRAFT_INPUT_SOCKET | GRAFT_INPUT_MANY));
}

bool graft_schema_combo(const graft_input *in)
{
    return strcmp(in->type, "COMBO") == 0;
}

bool graft_schema_one_of(const graft_input *in, const char *name)
{
    size_t n = strlen(in->name);
    return (in->flags & GRAFT_INPUT_MANY) && strncmp(name, in->name, n) == 0 && name[n];
}

static const char *when_of(const graft_input *in)
{
    return GRAFT_FIELD(graft_input, in, when);
}

/* Whether it is `in` that decides. */
static bool is_decided_by(const char *when, const graft_input *in)
{
    size_t n = strlen(in->name);
    return strncmp(when, in->name, n) == 0 && when[n] == '=';
}

const graft_input *graft_schema_decider(const graft_node *node, const graft_input *in)
{
    const char *when = when_of(in);
    for (size_t i = 0; when && node->inputs[i]; i++)
        if (is_decided_by(when, node->inputs[i])) return node->inputs[i];
    return NULL;
}

bool graft_schema_decides(const graft_node *node, const graft_input *in)
{
    for (size_t i = 0; node->inputs[i]; i++) {
        const char *when = when_of(node->inputs[i]);
        if (when && is_decided_by(when, in)) return true;
    }
    return false;
}

bool graft_schema_counts(const graft_input *in, const graft_input *decider, const char *choice)
{
    const char *list = strchr(when_of(in), '=');
    if (!choice) choice = decider->initial.s ? decider->initial.s : decider->choices[0];
    for (size_t n = choice ? strlen(choice) : 0; choice && list && *list;) {
        size_t length = strcspn(++list, "|");
        if (length == n && memcmp(list, choice, n) == 0) return true;
        list += length;
    }
    return false;
}

const char *graft_schema_of_kind(graft_kind kind)
{
    static const char *const name[] = {"", "INT", "FLOAT", "BOOLEAN", "STRING", "COMBO"};
    return kind >= 0 && kind < GRAFT_OBJECT ? name[kind] : "";
}

static bool in_union(const char *name, size_t n, const char *list)
{
    for (;;) {
        size_t len = strcspn(list, ",");
        if (len == n && memcmp(list, name, n) == 0) return true;
        if (!list[len]) return false;
        list += len + 1;
    }
}

bool graft_schema_match(const char *from, const char *to)
{
    if (strcmp(from, "*") == 0 || strcmp(to, "*") == 0) return true;
    for (;;) {
        size_t len = strcspn(from, ",");
        if (in_union(from, len, to)) return true;
        if (!from[len]) return false;
        from += len + 1;
    }
}

graft_status graft_choices_init(graft_choices *c, const graft_host *host, const graft_node *node,
                                const graft_input *in, graft_err *e)
{
    memset(c, 0, sizeof *c);
    c->name = in->choices;
    if (!c->name) {
        const graft_choices_api *api = graft_schema_table(node, GRAFT_CHOICES_ID);
        if (!api)
            return graft_fail(e, GRAFT_E_INTERNAL, "%s: input %s has no choices", node->id,
                              in->name);
        c->made = api->list(host, in->name);
        if (!c->made) return graft_fail_nomem(e, "a list of choices");
        c->free_made = api->free;
        c->name = (const char *const *)c->made;
    }
    while (c->name[c->count]) c->count++;
    return GRAFT_OK;
}

void graft_choices_finish(graft_choices *c)
{
    if (c->made) c->free_made(c->made);
    memset(c, 0, sizeof *c);
}

bool graft_choices_has(const graft_choices *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->name[i], name) == 0) return true;
    return false;
}
