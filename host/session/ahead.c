#include "host/session/ahead.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "host/services/device.h"
#include "host/schema/near.h"

graft_status graft_ahead_device(const graft_session *s, const graft_options *o, graft_err *e)
{
    static const char *const names[] = {"cuda", "cpu", "ref", "auto"};
    const char *name = o->device ? o->device : getenv("GRAFT_BACKEND");
    char text[GRAFT_NEAR_TEXT];
    graft_near near;
    if (!name || !*name) return GRAFT_OK;
    graft_status st = graft_device_check(s->registry, name, e);
    if (!st || !e) return st;
    graft_near_init(&near, name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) break; /* that it is known does not make it run here */
        if (graft_device_check(s->registry, names[i], NULL)) continue;
        if (i == 0) graft_near_add_like(&near, "gpu", names[i]);
        if (strcasecmp(name, "gpu") != 0) graft_near_add(&near, names[i]); /* not a mistyped cpu */
    }
    graft_err why = *e;
    return graft_fail(e, st, "%s %.40s: %s%s", o->device ? "--device" : "GRAFT_BACKEND", name,
                      why.text, near.count ? graft_near_text(&near, text) : "");
}

/* `prefix` names folders, and variables whose values are not known yet. */
static graft_status check_prefix(const graft_folders *f, const char *key, const char *prefix,
                                 graft_err *e)
{
    size_t n = strcspn(prefix, "%");
    while (n && prefix[n - 1] != '/') n--;
    n -= n > 0;
    char *below = graft_strndup(prefix, n);
    if (!below) return graft_fail_nomem(e, "a path");
    graft_status st = graft_folders_writable(f, key, below, e);
    graft_free(below);
    return st;
}

static graft_status check_node(const graft_folders *f, const graft_prompt_node *n, graft_err *e)
{
    if (strcmp(n->entry->node->id, "PreviewImage") == 0)
        return graft_folders_writable(f, "temp", "", e);
    for (size_t k = 0; n->in && k < n->n_in; k++) {
        const char *name = n->inputs[k]->name;
        const graft_literal *own = &n->in[k].literal;
        bool plan = strcmp(name, "plan_name") == 0;
        const char *text = n->in[k].linked || !own->text ? "" : own->text;
        if (!plan && strcmp(name, "filename_prefix") != 0) continue;
        if (plan && !*text) continue;
        graft_status st = check_prefix(f, "output", plan ? "quantization/" : text, e);
        if (st) return st;
    }
    return GRAFT_OK;
}

graft_status graft_ahead_output(const graft_folders *f, const graft_prompt *p, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < p->count && !st; i++) st = check_node(f, &p->node[i], e);
    return st;
}
