/* What the nodes for regular expressions have in common. */
#ifndef GRAFT_NODES_REGEX_INPUTS_H
#define GRAFT_NODES_REGEX_INPUTS_H
#include "nodes/node.h"

/* `more`: flags of the inputs. */
#define IN_PATTERN()                                                                               \
    IN_TEXT("regex_pattern", NULL,                                                                 \
            "A regular expression, as in Python: \\d+ is a number, (\\w+) a word that is kept.",   \
            .flags = GRAFT_INPUT_MULTILINE)
#define IN_ANY_CASE(more)                                                                          \
    IN_BOOL("case_insensitive", true, "Whether large and small letters are the same.",             \
            .flags = (more))
#define IN_MULTILINE(more)                                                                         \
    IN_BOOL("multiline", false, "Whether ^ and $ also stand for the ends of lines.",               \
            .flags = (more))
#define IN_DOTALL(more)                                                                            \
    IN_BOOL("dotall", false, "Whether a dot also stands for the end of a line.", .flags = (more))

/* By the pattern and the three inputs from `flags` on. */
static inline graft_status graft_regex_of_call(graft_call *c, int pattern, int flags,
                                               graft_regex **out)
{
    const graft_regex_options o = {graft_arg_bool(c, flags), graft_arg_bool(c, flags + 1),
                                   graft_arg_bool(c, flags + 2)};
    graft_call_blame(c, pattern);
    return graft_regex_create(graft_arg_text(c, pattern), o, out, &c->err);
}

/* The same where a pattern that is none finds nothing, as in ComfyUI, which is said: *out is NULL
 * then. */
static inline graft_status graft_regex_or_none(graft_call *c, int pattern, int flags,
                                               graft_regex **out)
{
    graft_status st = graft_regex_of_call(c, pattern, flags, out);
    if (st != GRAFT_E_FORMAT) return st;
    graft_log_printf(&c->task.log, GRAFT_LOG_WARN, "%s finds nothing, as it is no expression: %s",
                     c->inputs[pattern]->name, c->err.text);
    return GRAFT_OK;
}
#endif
