#include "plugin/record.h"

#include <stdbool.h>
#include <string.h>

/* The kind that an input of this type has. */
static graft_kind kind_of(const char *type)
{
    static const struct {
        const char *type;
        graft_kind kind;
    } literal[] = {{"INT", GRAFT_INT},
                   {"FLOAT", GRAFT_FLOAT},
                   {"BOOLEAN", GRAFT_BOOL},
                   {"STRING", GRAFT_STRING},
                   {"COMBO", GRAFT_CHOICE}};
    for (size_t i = 0; i < sizeof literal / sizeof *literal; i++)
        if (strcmp(type, literal[i].type) == 0) return literal[i].kind;
    return GRAFT_OBJECT;
}

static bool empty(const char *text)
{
    return !text || !text[0];
}

static bool is_choice(const graft_input *in, const char *name, size_t length)
{
    for (size_t i = 0; in->choices && in->choices[i]; i++)
        if (strlen(in->choices[i]) == length && memcmp(in->choices[i], name, length) == 0)
            return true;
    return false;
}

/* That a choice before it says whether it counts. */
static bool is_decided(const graft_node *n, size_t i)
{
    const char *when = n->inputs[i]->when, *choice = strchr(when, '=');
    size_t k = 0, length;
    while (k < i && choice &&
           (strncmp(n->inputs[k]->name, when, (size_t)(choice - when)) != 0 ||
            n->inputs[k]->name[choice - when]))
        k++;
    if (!choice || k == i || n->inputs[i]->flags & GRAFT_INPUT_OPTIONAL) return false;
    do {
        length = strcspn(++choice, "|");
        if (!is_choice(n->inputs[k], choice, length)) return false;
        choice += length;
    } while (*choice);
    return true;
}

static graft_status check_input(const graft_node *n, size_t i, graft_err *e)
{
    const graft_input *in = n->inputs[i];
    if (in->size < GRAFT_INPUT_V1_SIZE)
        return graft_fail(e, GRAFT_E_FORMAT, "node %s: input %zu: a record of %u bytes, not %zu",
                          n->id, i, in->size, GRAFT_INPUT_V1_SIZE);
    if (empty(in->name))
        return graft_fail(e, GRAFT_E_FORMAT, "node %s: input %zu: no name", n->id, i);
    if (empty(in->type))
        return graft_fail(e, GRAFT_E_FORMAT, "node %s: input %s: no type", n->id, in->name);
    if (in->kind != kind_of(in->type))
        return graft_fail(e, GRAFT_E_FORMAT, "node %s: input %s: kind %d does not fit type %s",
                          n->id, in->name, in->kind, in->type);
    for (size_t k = 0; k < i; k++)
        if (strcmp(n->inputs[k]->name, in->name) == 0)
            return graft_fail(e, GRAFT_E_FORMAT, "node %s: two inputs named %s", n->id, in->name);
    bool asked = n->query && n->query(GRAFT_CHOICES_ID);
    if (in->kind == GRAFT_CHOICE && !in->choices && !asked && !(in->flags & GRAFT_INPUT_SOCKET))
        return graft_fail(e, GRAFT_E_FORMAT, "node %s: input %s: no choices, and no \"%s\"", n->id,
                          in->name, GRAFT_CHOICES_ID);
    if ((in->flags & GRAFT_INPUT_MANY) &&
        (in->kind != GRAFT_STRING || !(in->flags & GRAFT_INPUT_OPTIONAL)))
        return graft_fail(e, GRAFT_E_FORMAT, "node %s: input %s: many, but no optional STRING",
                          n->id, in->name);
    if ((in->flags & GRAFT_INPUT_SERIES) && (!i || !(in->flags & GRAFT_INPUT_OPTIONAL)))
        return graft_fail(e, GRAFT_E_FORMAT, "node %s: input %s: in a series, but %s", n->id,
                          in->name, i ? "not optional" : "the first");
    if (in->size >= GRAFT_INPUT_WHEN_SIZE && in->when && !is_decided(n, i))
        return graft_fail(e, GRAFT_E_FORMAT, "node %s: input %s: \"%s\" is no choice before it",
                          n->id, in->name, in->when);
    if ((in->flags & GRAFT_INPUT_LAZY) && (i >= 64 || !n->query || !n->query(GRAFT_LAZY_ID)))
        return graft_fail(e, GRAFT_E_FORMAT, "node %s: input %s: lazy without \"%s\"", n->id,
                          in->name, GRAFT_LAZY_ID);
    return GRAFT_OK;
}

static graft_status check_output(const graft_node *n, size_t i, graft_err *e)
{
    const graft_output *out = n->outputs[i];
    if (out->size < GRAFT_OUTPUT_V1_SIZE)
        return graft_fail(e, GRAFT_E_FORMAT, "node %s: output %zu: a record of %u bytes, not %zu",
                          n->id, i, out->size, GRAFT_OUTPUT_V1_SIZE);
    if (empty(out->name) || empty(out->type))
        return graft_fail(e, GRAFT_E_FORMAT, "node %s: output %zu: no %s", n->id, i,
                          empty(out->name) ? "name" : "type");
    return GRAFT_OK;
}

graft_status graft_record_check(const graft_node *n, graft_err *e)
{
    graft_status st = GRAFT_OK;
    if (n->size < GRAFT_NODE_V1_SIZE)
        return graft_fail(e, GRAFT_E_FORMAT, "a node's record of %u bytes, not %zu", n->size,
                          GRAFT_NODE_V1_SIZE);
    if (empty(n->id)) return graft_fail(e, GRAFT_E_FORMAT, "a node without an id");
    const char *missing = empty(n->category) ? "category"
                          : !n->inputs       ? "inputs"
                          : !n->outputs      ? "outputs"
                          : !n->create       ? "create"
                          : !n->destroy      ? "destroy"
                          : !n->execute      ? "execute"
                                             : NULL;
    if (missing) return graft_fail(e, GRAFT_E_FORMAT, "node %s: no %s", n->id, missing);
    size_t i = 0;
    for (; st == GRAFT_OK && n->inputs[i] && i < GRAFT_RECORD_MAX_SOCKETS; i++)
        st = check_input(n, i, e);
    if (st == GRAFT_OK && i == GRAFT_RECORD_MAX_SOCKETS)
        return graft_fail(e, GRAFT_E_LIMIT, "node %s: too many inputs, or no NULL behind them",
                          n->id);
    for (i = 0; st == GRAFT_OK && n->outputs[i] && i < GRAFT_RECORD_MAX_SOCKETS; i++)
        st = check_output(n, i, e);
    if (st == GRAFT_OK && i == GRAFT_RECORD_MAX_SOCKETS)
        return graft_fail(e, GRAFT_E_LIMIT, "node %s: too many outputs, or no NULL behind them",
                          n->id);
    return st;
}
