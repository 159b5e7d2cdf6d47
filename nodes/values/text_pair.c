#include "nodes/values/text_pair.h"

#include "nodes/call/args.h"

graft_status graft_text_pair_init(graft_text_pair *p, graft_call *c, int a, int b, int sensitive)
{
    graft_status st = GRAFT_OK;
    *p = (graft_text_pair){{NULL, NULL}, graft_arg_text(c, a), graft_arg_text(c, b)};
    if (graft_arg_bool(c, sensitive)) return GRAFT_OK;
    st = graft_text_in_case(p->a, GRAFT_TEXT_LOWER, &p->low[0], &c->err);
    if (st == GRAFT_OK) st = graft_text_in_case(p->b, GRAFT_TEXT_LOWER, &p->low[1], &c->err);
    p->a = p->low[0];
    p->b = p->low[1];
    if (st != GRAFT_OK) graft_text_pair_finish(p);
    return st;
}

void graft_text_pair_finish(graft_text_pair *p)
{
    graft_text_free(p->low[0]);
    graft_text_free(p->low[1]);
    *p = (graft_text_pair){{NULL, NULL}, NULL, NULL};
}
