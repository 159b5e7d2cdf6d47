/* PreviewAny: what travels along a link, as text. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/str.h"
#include "nodes/call/output.h"
#include "nodes/node.h"

enum { SOURCE };
static const graft_input *const inputs[] = {
    [SOURCE] = IN_OBJECT("source", "*",
                         "The value to show: a text or number as it is, a picture, "
                         "mask or latent by its size, anything else by its type."),
    NULL};
static const graft_output *const outputs[] = {NULL};

/* "IMAGE 1 x 64 x 64 x 3", or "MODEL". */
static void describe(const graft_value *v, graft_str *out)
{
    const graft_tensor *t = v->ops->query ? v->ops->query(v, GRAFT_TENSOR_ID) : NULL;
    graft_str_puts(out, v->ops->type);
    for (int i = 0; t && i < t->ndim; i++)
        graft_str_printf(out, "%s%" PRId64, i ? " x " : " ", t->shape[i]);
}

static void put(const graft_arg *a, graft_str *out)
{
    if (a->kind == GRAFT_INT) graft_str_printf(out, "%" PRId64, a->u.i);
    if (a->kind == GRAFT_FLOAT) graft_str_double(out, a->u.f);
    if (a->kind == GRAFT_BOOL) graft_str_puts(out, a->u.i ? "true" : "false");
    if (a->kind == GRAFT_STRING || a->kind == GRAFT_CHOICE) graft_str_puts(out, a->u.s);
    if (a->kind == GRAFT_OBJECT) describe(a->u.v, out);
}

static graft_status run(graft_call *c)
{
    graft_str all = GRAFT_STR_INIT;
    graft_str_puts(&all, "");
    put(&c->in[SOURCE], &all);
    char *text = graft_str_take(&all);
    graft_str_finish(&all);
    if (!text) return graft_fail_nomem(&c->err, "a text to show");
    graft_status st = graft_output_show_text(c, text);
    graft_free(text);
    return st;
}

GRAFT_NODE(preview_any, .id = "PreviewAny", .title = "Preview Any", .category = "utils",
           .flags = GRAFT_NODE_OUTPUT,
           .description = "Shows a text, a number or what else comes along a link, for example the "
                          "report of QuantizeModel.");
