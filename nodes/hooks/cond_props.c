#include "nodes/hooks/cond_props.h"

enum { STRENGTH, AREA, MASK, HOOKS, TIMESTEPS };

/* *c becomes `more`, which it is given up for, unless that could not be made. */
static void become(graft_cond **c, graft_cond *more)
{
    if (!more) return;
    graft_cond_release(*c);
    *c = more;
}

/* Where the prompts count. Without a mask a strength of 1 is what they have. */
static graft_status place(graft_call *c, int first, graft_cond **to)
{
    const double strength = graft_arg_f64(c, first + STRENGTH);
    const graft_image *mask = graft_arg_mask(c, first + MASK);
    graft_cond *more = NULL;
    graft_status st = GRAFT_OK;
    if (mask)
        st = graft_cond_mask(*to, mask, strength, graft_arg_is(c, first + AREA, "mask bounds"),
                             &more, &c->err);
    else if (strength != 1)
        st = graft_cond_strength(*to, strength, &more, &c->err);
    become(to, more);
    return st;
}

graft_status graft_cond_props_set(graft_call *c, int cond, int first, graft_cond **out)
{
    const graft_hooks *hooks = graft_arg_hooks(c, first + HOOKS);
    const graft_steps_range *steps = graft_arg_range(c, first + TIMESTEPS);
    graft_cond *to = graft_cond_retain(graft_arg_cond(c, cond)), *hooked = NULL, *ranged = NULL;
    graft_status st = hooks ? graft_cond_hooks(to, hooks, &hooked, &c->err) : GRAFT_OK;
    become(&to, hooked);
    if (st == GRAFT_OK) st = place(c, first, &to);
    if (st == GRAFT_OK && steps)
        st = graft_cond_timestep_range(to, steps->start, steps->end, &ranged, &c->err);
    become(&to, ranged);
    if (st == GRAFT_OK)
        *out = to;
    else
        graft_cond_release(to);
    return st;
}

graft_status graft_cond_props_add(graft_call *c, int before, int cond, int first, graft_cond **out)
{
    graft_cond *more = NULL;
    graft_status st = graft_cond_props_set(c, cond, first, &more);
    if (st == GRAFT_OK) st = graft_cond_combine(graft_arg_cond(c, before), more, out, &c->err);
    graft_cond_release(more);
    return st;
}
