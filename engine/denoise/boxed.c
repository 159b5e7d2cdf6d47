#include "engine/denoise/boxed.h"

#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/prompts/gligen.h"

graft_status graft_boxed_create(const graft_guided_config *c, graft_boxed *out, graft_err *e)
{
    const graft_cond *const lists[] = {c->positive, c->negative, c->third.prompt};
    const size_t slots = graft_guided_slots(c);
    const graft_gligen *g;
    int64_t n;
    *out = (graft_boxed){0};
    graft_status st = graft_gligen_check(c->model, lists, GRAFT_SIDES, &g, e);
    if (st || !g) return st;
    const int64_t each = (int64_t)GRAFT_GLIGEN_TOKENS * g->arch.width;
    if (!graft_size_product((const int64_t[]){each, c->shape[0], (int64_t)slots}, 3, &n))
        return graft_fail(e, GRAFT_E_ARG, "the batch is too large");
    *out = (graft_boxed){.gligen = g,
                         .task = c->task,
                         .whole = {c->shape[2], c->shape[3]},
                         .each = (size_t)each,
                         .most = (size_t)n};
    out->tokens = graft_malloc_array(slots, (size_t)each * sizeof *out->tokens);
    out->values = graft_malloc_array((size_t)n, sizeof *out->values);
    out->made = graft_calloc(slots, sizeof *out->made);
    out->kept = graft_calloc(slots, sizeof *out->kept);
    if (out->tokens && out->values && out->made && out->kept) return GRAFT_OK;
    graft_boxed_finish(out);
    return graft_fail_nomem(e, "texts in boxes");
}

void graft_boxed_finish(graft_boxed *b)
{
    if (b->memory.backend) graft_memory_free(&b->memory, b->there);
    graft_free(b->tokens);
    graft_free(b->values);
    graft_free(b->made);
    graft_free(b->kept);
    *b = (graft_boxed){0};
}

graft_status graft_boxed_move(graft_boxed *b, graft_memory to, graft_err *e)
{
    if (b->memory.backend) graft_memory_free(&b->memory, b->there);
    b->there = NULL;
    b->memory = to;
    b->count = 0;
    if (!to.backend || !b->gligen) return GRAFT_OK;
    b->there = graft_memory_alloc(&to, b->most * sizeof *b->there);
    return b->there ? GRAFT_OK : graft_fail_nomem(e, "texts in boxes");
}

void graft_boxed_settle(const graft_gligen *g, active *list, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) any = any || list[i].entry->boxes;
    for (size_t i = 0; i < n; i++) list[i].boxed = any ? g : NULL;
}

/* The tokens of one slot; those of a prompt never change within a run. */
static graft_status make(graft_boxed *b, const active *a, graft_err *e)
{
    const graft_gligen_view view = {a->box->y, a->box->x, a->box->height, a->box->width};
    if (b->made[a->slot]) return GRAFT_OK;
    graft_status st = graft_gligen_tokens(b->gligen, a->entry->boxes, b->whole, &view, b->task,
                                          b->tokens + a->slot * b->each, e);
    b->made[a->slot] = !st;
    return st;
}

static bool is_there(const graft_boxed *b, const active *list, const size_t *which, size_t count)
{
    bool same = b->count == count;
    for (size_t i = 0; i < count && same; i++) same = b->slot[i] == list[which[i]].slot;
    return same;
}

graft_status graft_boxed_fill(graft_boxed *b, const active *list, const size_t *which, size_t count,
                              int64_t pictures, const void **out, graft_err *e)
{
    const size_t n = count * (size_t)pictures * b->each;
    graft_status st = GRAFT_OK;
    float *to = b->values;
    *out = b->there ? b->there : b->values;
    if (is_there(b, list, which, count)) return GRAFT_OK;
    b->count = 0;
    for (size_t i = 0; i < count && !st; i++) {
        const active *a = &list[which[i]];
        st = make(b, a, e);
        for (int64_t p = 0; p < pictures; p++, to += b->each)
            memcpy(to, b->tokens + a->slot * b->each, b->each * sizeof *to);
        b->slot[i] = a->slot;
    }
    if (!st && b->there)
        st = graft_memory_put(&b->memory, b->there, b->values, n * sizeof *b->values, e);
    if (!st) b->count = count;
    return st;
}
