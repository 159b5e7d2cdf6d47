#include "engine/sampling/seed_sequence.h"

#include <assert.h>

#define POOL       24
#define MAX_WORDS  (POOL + 4)
#define INIT_A     0x43b0d7e5u
#define MULTIPLY_A 0x931e8875u
#define INIT_B     0x8b51f9ddu
#define MULTIPLY_B 0x58f38dedu

static uint32_t hash(uint32_t value, uint32_t *constant)
{
    value ^= *constant;
    *constant *= MULTIPLY_A;
    value *= *constant;
    return value ^ value >> 16;
}

static uint32_t mix(uint32_t x, uint32_t y)
{
    uint32_t r = x * 0xca01f9ddu - y * 0x4973f715u;
    return r ^ r >> 16;
}

/* Little end first, as few words as hold the value, at least one. */
static size_t put_words(uint32_t *word, uint64_t value)
{
    word[0] = (uint32_t)value;
    word[1] = (uint32_t)(value >> 32);
    return word[1] ? 2 : 1;
}

void graft_seed_sequence(uint64_t entropy, uint64_t key, int depth, uint32_t *out, size_t n)
{
    assert(n <= POOL);
    uint32_t word[MAX_WORDS] = {0}, pool[POOL], constant = INIT_A;
    size_t count = put_words(word, entropy);
    if (depth >= 0) {
        count = POOL;
        count += put_words(word + count, key);
        count += put_words(word + count, (uint64_t)depth);
    }
    for (size_t i = 0; i < POOL; i++) pool[i] = hash(i < count ? word[i] : 0, &constant);
    for (size_t from = 0; from < POOL; from++)
        for (size_t to = 0; to < POOL; to++)
            if (from != to) pool[to] = mix(pool[to], hash(pool[from], &constant));
    for (size_t from = POOL; from < count; from++)
        for (size_t to = 0; to < POOL; to++) pool[to] = mix(pool[to], hash(word[from], &constant));
    constant = INIT_B;
    for (size_t i = 0; i < n; i++) {
        uint32_t v = pool[i] ^ constant;
        constant *= MULTIPLY_B;
        v *= constant;
        out[i] = v ^ v >> 16;
    }
}
