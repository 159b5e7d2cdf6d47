#include "kernels/cpu/share.h"

#include <assert.h>

/* No order is asked of memory: what threads read was there before they began, and what they write
 * is looked at after they have met. A value always means the same units, so that it does not matter
 * whether it was another in between. */
#define RELAXED memory_order_relaxed

typedef struct units {
    int64_t first, end;
} units;

static uint64_t word_of(int64_t first, int64_t end)
{
    return (uint64_t)first << 32 | (uint64_t)end;
}

static units units_of(uint64_t word)
{
    return (units){(int64_t)(word >> 32), (int64_t)(word & UINT32_MAX)};
}

static units look(const graft_cpu_share *s, int thread, uint64_t *word)
{
    *word = atomic_load_explicit(&s->piece[thread].units, RELAXED);
    return units_of(*word);
}

static bool change(graft_cpu_share *s, int thread, uint64_t from, int64_t first, int64_t end)
{
    return atomic_compare_exchange_strong_explicit(&s->piece[thread].units, &from,
                                                   word_of(first, end), RELAXED, RELAXED);
}

void graft_cpu_share_begin(graft_cpu_share *s, graft_cpu_piece *piece, int64_t all, int threads)
{
    assert(all <= UINT32_MAX && threads > 0);
    s->piece = piece;
    s->threads = threads;
    if (s->least < 1) s->least = 1;
    if (s->most < s->least) s->most = s->least;
    for (int i = 0; i < threads; i++)
        atomic_init(&piece[i].units, word_of(all * i / threads, all * (i + 1) / threads));
}

/* Half of so many, or all where either half is not worth it. */
static int64_t half(const graft_cpu_share *s, int64_t n)
{
    int64_t some = (n + 1) / 2 < s->least ? s->least : (n + 1) / 2;
    return n - some < s->least ? n : some;
}

/* Takes half of the largest piece; false when none is worth it. */
static bool take_from_another(graft_cpu_share *s, int own)
{
    for (;;) {
        int from = -1;
        uint64_t word = 0;
        units best = {0, s->least - 1};
        for (int i = 0; i < s->threads; i++) {
            uint64_t w;
            units u = look(s, i, &w);
            if (u.end - u.first <= best.end - best.first) continue;
            best = u;
            word = w;
            from = i;
        }
        if (from < 0) return false;
        int64_t middle = best.end - half(s, best.end - best.first);
        if (!change(s, from, word, best.first, middle)) continue;
        atomic_store_explicit(&s->piece[own].units, word_of(middle, best.end), RELAXED);
        return true;
    }
}

static bool is_stopped(graft_cpu_stop *s, int own)
{
    if (atomic_load_explicit(&s->stopped, RELAXED)) return true;
    if (own || !s->ask->asked(s->ask->ctx)) return false;
    atomic_store_explicit(&s->stopped, true, RELAXED);
    return true;
}

int64_t graft_cpu_share_take(graft_cpu_share *s, int own, int64_t *first)
{
    *first = 0;
    if (s->stop && is_stopped(s->stop, own)) return 0;
    for (;;) {
        uint64_t word;
        units u = look(s, own, &word);
        int64_t n = half(s, u.end - u.first);
        if (n > s->most) n = s->most;
        *first = u.first;
        if (n == 0) {
            if (!take_from_another(s, own)) return 0;
        } else if (change(s, own, word, u.first + n, u.end)) {
            return n;
        }
    }
}

bool graft_cpu_share_goes_on(const graft_cpu_share *s, int own)
{
    uint64_t word;
    units u = look(s, own, &word);
    return u.first < u.end;
}
