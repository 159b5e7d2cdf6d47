/* ComfyNumberConvert: a number of any kind, or a text that is one, as FLOAT and INT. */
#include "nodes/node.h"

enum { VALUE };
static const graft_input *const inputs[] = {
    [VALUE] = IN_OBJECT("value", "INT,FLOAT,STRING,BOOLEAN",
                        "A number, a text that says one, or yes and no, which are 1 and 0."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("FLOAT", "FLOAT", "The number."),
    OUT("INT", "INT", "The number without what is behind its point."), NULL};

static graft_status run(graft_call *c)
{
    const graft_arg *a = &c->in[VALUE];
    graft_formula_value n = {a->kind == GRAFT_FLOAT ? GRAFT_FORMULA_FLOAT : GRAFT_FORMULA_INT, 0,
                             0};
    graft_status st = GRAFT_OK;
    int64_t whole = 0;
    if (a->kind == GRAFT_STRING || a->kind == GRAFT_CHOICE) {
        n.kind = GRAFT_FORMULA_FLOAT;
        st = graft_text_number(a->u.s, &n.f, &c->err);
    } else if (n.kind == GRAFT_FORMULA_FLOAT) {
        n.f = a->u.f;
    } else {
        n.i = a->u.i;
    }
    if (st == GRAFT_OK) st = graft_formula_i64(n, &whole, &c->err);
    if (st != GRAFT_OK) {
        graft_call_blame(c, VALUE);
        return st;
    }
    st = graft_call_out_f64(c, 0, graft_formula_f64(n));
    return st != GRAFT_OK ? st : graft_call_out_i64(c, 1, whole);
}

GRAFT_NODE(number_convert, .id = "ComfyNumberConvert", .title = "Convert Number",
           .category = "utils",
           .description = "Makes a number of a text, or a whole number of one with a fraction.");
