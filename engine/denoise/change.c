#include "engine/denoise/change.h"

size_t graft_change_work(int64_t pictures, int64_t area)
{
    return (size_t)(pictures * (GRAFT_CHANGE_SUMS + area));
}

static void add_terms(const graft_change *c, uint64_t picture, double sum[GRAFT_CHANGE_SUMS])
{
    const uint64_t n = graft_change_terms(c);
    for (uint64_t i = 0; i < n; i++) {
        double term[GRAFT_CHANGE_SUMS];
        graft_change_term(c, picture, i, term);
        for (int k = 0; k < GRAFT_CHANGE_SUMS; k++) sum[k] += term[k];
    }
}

static void change_picture(const graft_change *c, uint64_t picture)
{
    const bool places = c->kind == GRAFT_CHANGE_NORMED || c->kind == GRAFT_CHANGE_SIMILAR;
    const uint64_t first = picture * c->per, end = first + c->per;
    double sum[GRAFT_CHANGE_SUMS] = {0}, factor[GRAFT_CHANGE_SUMS] = {0};
    const bool kept = c->kind == GRAFT_CHANGE_PROJECTED && c->average;
    for (uint64_t i = first; kept && i < end; i++) graft_change_remember(c, i);
    for (uint64_t i = 0; places && i < c->area; i++) graft_change_place(c, picture, i);
    if (c->kind == GRAFT_CHANGE_NORMED) return;
    add_terms(c, picture, sum);
    if (!graft_change_factors(c, sum, factor)) return;
    for (uint64_t i = first; i < end; i++) graft_change_value(c, i, factor);
}

graft_status graft_change_run(const graft_memory *m, const graft_change *c, graft_err *e)
{
    const graft_backend *b = m->backend;
    if (b) return graft_memory_check(m, graft_backend_more(b)->change(b->device, c), e);
    for (uint64_t i = 0; i < c->n / c->per; i++) change_picture(c, i);
    return GRAFT_OK;
}
