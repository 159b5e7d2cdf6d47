/* One network in several files: in whatever names and types, it is found to be the same and
 * computes the same bits. */
#ifndef GRAFT_TESTS_ENGINE_NETWORK_FILES_H
#define GRAFT_TESTS_ENGINE_NETWORK_FILES_H
#include "tests/engine/diffusers.h"
#include "tests/engine/merge.h"
#include "tests/gguf_file.h"

/* Writes the network's answer to what is always the same: a latent of SIDE x SIDE. */
typedef void run_network(const graft_model *m, float *out);

static inline size_t answer_values(const graft_model *m)
{
    return (size_t)m->arch.latent_channels * SIDE * SIDE;
}

/* The same bits, not all of them 0. */
static inline bool same_answers(const graft_model *m, const float *a, const float *b)
{
    float sum = 0;
    for (size_t i = 0; i < answer_values(m); i++) sum += a[i] * a[i];
    return sum > 0 && memcmp(a, b, answer_values(m) * sizeof *a) == 0;
}

static inline void answer_alike(const graft_model *a, const graft_model *b, run_network *run)
{
    CHECK(a && b);
    if (!a || !b) return;
    float *one = malloc(answer_values(a) * sizeof *one);
    float *two = malloc(answer_values(a) * sizeof *two);
    run(a, one);
    run(b, two);
    CHECK(same_answers(a, one, two));
    free(one);
    free(two);
}

/* The checkpoint's network in the file at `path`, which is removed: it loads without a word, and
 * each becomes the other in the graph that there is. */
static inline void same_in_file(graft_engine *g, const char *checkpoint, const char *path,
                                run_network *run)
{
    last_log[0] = 0;
    graft_model *a = load_model(g, checkpoint), *b = load_model(g, path);
    CHECK_STR(last_log, "");
    graft_model *to = NULL, *back = NULL;
    answer_alike(a, b, run);
    if (a && b) {
        CHECK(memcmp(&a->arch, &b->arch, sizeof a->arch) == 0);
        CHECK(a->flow_shift == b->flow_shift);
        to = swap_weights(a, path, true), back = swap_weights(b, checkpoint, true);
        const uint64_t built = graphs_built(g);
        answer_alike(to, back, run);
        CHECK_INT(graphs_built(g), built);
    }
    RELEASE_ALL(a, b, to, back);
    unlink(path);
}

/* The checkpoint's network in GGUF, of this family, with its matrices as Q8_0 where rows are whole
 * blocks, beside one that holds the same values in float32. config: of both files, or NULL. */
static inline void same_in_gguf(graft_engine *g, const char *checkpoint, const char *family,
                                const char *config, run_network *run)
{
    const char *packed = temp_path("packed.gguf"), *plain = temp_path("plain.safetensors");
    made_file *m = part_of_file(checkpoint, UNET), *f = part_of_file(checkpoint, UNET);
    size_t n_packed = 0;
    for (size_t i = 0; i < m->n; i++) {
        graft_st_tensor *t = &m->tensor[i], *to = &f->tensor[i];
        if (t->rank != 2 || t->shape[1] % 32) continue;
        gguf_pack_tensor(to, t);
        n_packed++;
    }
    gguf_file bytes = gguf_of(family, config, f->tensor, f->n);
    gguf_write(&bytes, packed);
    free(bytes.data);
    finish_file(f);
    write_file(m, plain, config);
    CHECK(n_packed > 10);
    graft_model *a = load_model(g, packed), *b = load_model(g, plain);
    graft_model *own = load_model(g, checkpoint);
    CHECK(a && memcmp(&a->arch, &own->arch, sizeof a->arch) == 0);
    answer_alike(a, b, run);
    RELEASE_ALL(a, b, own);
    unlink(packed);
    unlink(plain);
}
#endif
