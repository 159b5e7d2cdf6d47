/* SD1's network as a GGUF file, with its matrices in random blocks. */
#ifndef GRAFT_TESTS_ENGINE_GGUF_NETWORK_H
#define GRAFT_TESTS_ENGINE_GGUF_NETWORK_H
#include "tests/engine/kept.h"
#include "tests/gguf_file.h"

enum { Q8_0 = 8, Q4_0 = 2, Q5_1 = 7, Q4_K = 12, Q6_K = 14 };

/* Random levels below scales that make values as large as weights are. */
static inline uint8_t *random_blocks(int32_t type, int64_t n)
{
    const size_t bytes = (size_t)graft_ggml_bytes(type, n);
    const size_t each = (size_t)graft_ggml_bytes(type, graft_ggml_values(type));
    const size_t at = type == Q6_K ? 208 : 0;
    uint8_t *p = malloc(bytes + 1);
    if (!p) abort();
    for (size_t i = 0; i < bytes; i++) p[i] = (uint8_t)(128 + 127 * (double)random_value());
    for (size_t i = 0; i < bytes; i += each) {
        const float size = type == Q6_K ? 3e-5f : type == Q4_K ? 3e-4f : 0.02f;
        const float middle = type == Q4_K ? 6e-4f : type == Q5_1 ? -0.3f : 0; /* of a Q5_1: least */
        const uint16_t d = graft_f32_to_f16(size), least = graft_f32_to_f16(middle);
        memcpy(p + i + at, &d, 2);
        if (type == Q4_K || type == Q5_1) memcpy(p + i + 2, &least, 2);
    }
    return p;
}

/* A type for each of SD1's matrices: what a file of several types may look like. */
typedef int32_t types_of(const char *name);

static inline int32_t several(const char *name)
{
    if (strstr(name, "attn1.to_v")) return Q6_K;
    if (strstr(name, "attn1.to_")) return Q4_K;
    if (strstr(name, "attn2")) return Q4_0;
    return strstr(name, ".ff.") ? Q5_1 : Q8_0;
}

static inline int32_t others(const char *name)
{
    return several(name) == Q4_K ? Q6_K : several(name);
}

static inline int32_t all_q4_k(const char *name)
{
    (void)name;
    return Q4_K;
}

/* SD1's network with its matrices in such blocks, all of them random. Returns the bytes of its
 * tensors, with what is no block as float32. */
static inline uint64_t write_network(const char *path, types_of *type)
{
    made_file *m = network();
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->n; i++) {
        graft_st_tensor *t = &m->tensor[i];
        const int64_t n = graft_st_values(t);
        const int32_t own = t->rank == 2 ? type(t->name) : 0;
        if (own && n % graft_ggml_values(own) == 0) {
            free((void *)(uintptr_t)t->data);
            t->data = random_blocks(own, n);
            t->bytes = (uint64_t)graft_ggml_bytes(own, n);
            t->blocks = graft_ggml_blocks_find((uint32_t)own);
        }
        bytes += t->bytes;
    }
    gguf_file f = gguf_of("sd1", config_of(SD1), m->tensor, m->n);
    gguf_write(&f, path);
    free(f.data);
    finish_file(m);
    return bytes;
}
#endif
