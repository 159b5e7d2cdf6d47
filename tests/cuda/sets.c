/* Weight sets on the CUDA library with the fake driver: one allocation a set, swaps that copy
 * nothing, sets that take each other's places, and what is freed when. */
#include "base/alloc.h"
#include "tests/cuda/networks.h"

static void one_allocation_a_set(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT];
    run_model(m, out); /* scratch for packing, and the arena */
    graft_packs_trim(g->packs, 0);
    CHECK_INT(packs_of(g).count, 0);
    CHECK_INT(packs_of(g).bytes, 0);
    uint64_t allocs = fake->allocs, frees = fake->frees, waits = fake->waits;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    graft_packs_stats now = packs_of(g);
    CHECK_INT(fake->allocs, allocs + 1);
    CHECK_INT(fake->waits, waits); /* copies of one weight go on beside the packing of another */
    CHECK(now.count > 50);
    CHECK_INT(now.slabs, 1);
    CHECK(now.bytes >= b->exe->weight_bytes);
    CHECK(now.bytes < b->exe->weight_bytes + 256 * now.count);
    printf("     %llu weights of %llu bytes in a slab of %llu\n", (unsigned long long)now.count,
           (unsigned long long)b->exe->weight_bytes, (unsigned long long)now.bytes);
    graft_packs_trim(g->packs, 0); /* someone uses them */
    CHECK_INT(packs_of(g).count, now.count);
    graft_binding_release(b);
    CHECK_INT(packs_of(g).count, now.count);
    graft_packs_trim(g->packs, now.bytes - 1); /* one too many, so all of them go */
    CHECK_INT(packs_of(g).count, 0);
    CHECK_INT(packs_of(g).bytes, 0);
    CHECK_INT(fake->frees, frees + 1);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* Between sets that are on the device nothing is copied, allocated or recorded. */
static void resident_swaps_choose(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    const char *path = temp_path("cuda-sets.safetensors");
    write_changed(path);
    graft_model *a = load_model(g, SD1), *b = swap_weights(a, path, true);
    float first[2][OUT], out[OUT];
    for (int i = 0; i < 2; i++) { /* the second run of each is recorded */
        run_model(a, first[0]);
        run_model(b, first[1]);
    }
    CHECK(!same_bits(first[0], first[1]));
    fake_cuda_state before = *fake;
    for (int i = 0; i < 6; i++) {
        run_model(i % 2 ? b : a, out);
        CHECK(same_bits(out, first[i % 2]));
    }
    const uint64_t input = (OUT + 1 + TOKENS * 48) * sizeof(float);
    CHECK_INT(fake->upload_bytes, before.upload_bytes + 6 * input);
    CHECK_INT(fake->copies, before.copies);
    CHECK_INT(fake->captures, before.captures);
    CHECK_INT(fake->replays, before.replays + 6);
    CHECK_INT(fake->allocs, before.allocs);
    CHECK_INT(fake->frees, before.frees);
    graft_model_release(a);
    graft_model_release(b);
    graft_engine_destroy(g);
    unlink(path);
}

/* Without keeping the old set the new one lies where it lay, so that even its recording is good. */
static void dropped_sets_are_replaced_in_place(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    const char *path = temp_path("cuda-replaced.safetensors");
    float want[OUT], out[OUT], again[OUT];
    write_changed(path);
    graft_model *a = load_model(g, path);
    run_model(a, want);
    graft_model_release(a);
    graft_packs_trim(g->packs, 0);
    a = load_model(g, SD1);
    for (int i = 0; i < 2; i++) run_model(a, out);
    graft_packs_stats before = packs_of(g);
    uint64_t allocs = fake->allocs, frees = fake->frees;
    graft_model *b = swap_weights(a, path, false);
    run_model(b, again);
    CHECK(same_bits(again, want));
    CHECK_INT(fake->allocs, allocs);
    CHECK_INT(fake->frees, frees);
    CHECK_INT(packs_of(g).slabs, before.slabs);
    CHECK_INT(packs_of(g).bytes, before.bytes);
    graft_model *c = swap_weights(b, SD1, false);
    run_model(c, again);
    CHECK(same_bits(again, out));
    CHECK_INT(fake->allocs, allocs);
    graft_model_release(a);
    graft_model_release(b);
    graft_model_release(c);
    graft_engine_destroy(g);
    unlink(path);
}

/* SD1 in float32, with other values in the first `changed` weights. */
static void write_partly(const char *path, int changed)
{
    graft_safetensors *f = open_file(SD1);
    made_file *m = copy_file(f, "");
    for (size_t i = 0; i < m->n && changed; i++)
        if (m->tensor[i].rank > 1 && changed--) ((float *)(uintptr_t)m->tensor[i].data)[0] += 0.5f;
    write_file(m, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
}

/* A set that differs in some tensors takes a slab for those alone. */
static void shared_tensors_stay_shared(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    const char *base = temp_path("cuda-base.safetensors"),
               *path = temp_path("cuda-shared.safetensors");
    write_partly(base, 0);
    write_partly(path, 8);
    graft_model *a = load_model(g, base);
    float out[OUT], back[OUT], other[OUT];
    run_model(a, out);
    graft_packs_stats before = packs_of(g);
    graft_model *b = swap_weights(a, path, true);
    run_model(b, other);
    graft_packs_stats both = packs_of(g);
    CHECK(both.bytes < before.bytes + before.bytes / 2);
    CHECK(both.count > before.count && both.count <= before.count + 8);
    CHECK_INT(both.slabs, 2);
    CHECK(!same_bits(out, other));
    /* The first set's slab holds what both need, so the second one's goes first and alone. */
    graft_packs_trim(g->packs, both.bytes - 1);
    run_model(a, back);
    CHECK(same_bits(out, back));
    graft_model_release(a);
    graft_model_release(b);
    graft_engine_destroy(g);
    unlink(base);
    unlink(path);
}

/* No block as large as a set is there: packs are taken one by one, and results are the same. */
static void without_a_large_block(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1);
    float want[OUT], out[OUT];
    run_model(m, want);
    graft_packs_trim(g->packs, 0);
    fake->largest = 1 << 20;
    run_model(m, out);
    fake->largest = 0;
    CHECK(same_bits(want, out));
    CHECK_INT(packs_of(g).slabs, 0);
    CHECK(packs_of(g).count > 50);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* With a strict limit every weight must be free to go. */
static void limits_allow_no_slabs(void)
{
    setenv("GRAFT_MEMORY_MB", "512", 1);
    graft_engine *g = engine_in("cuda", "bf16");
    unsetenv("GRAFT_MEMORY_MB");
    graft_model *m = load_model(g, SD1);
    float out[OUT];
    run_model(m, out);
    CHECK_INT(packs_of(g).slabs, 0);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* A first set, another beside it, and a third in the place of the second. */
static void three_sets(int threads, const char *path, float out[3][OUT], fake_cuda_state *cost)
{
    graft_engine *g = make_engine_threads("cuda", threads);
    snprintf(g->default_precision, sizeof g->default_precision, "bf16");
    fake_cuda_state before = *fake;
    graft_model *a = load_model(g, SD1);
    run_model(a, out[0]);
    graft_model *b = swap_weights(a, path, true);
    run_model(b, out[1]);
    graft_model *c = swap_weights(b, SD1, false);
    run_model(c, out[2]);
    *cost = *fake;
    cost->uploads -= before.uploads;
    cost->upload_bytes -= before.upload_bytes;
    cost->allocs -= before.allocs;
    graft_model_release(a);
    graft_model_release(b);
    graft_model_release(c);
    graft_engine_destroy(g);
}

/* Threads read ahead of the one that packs: nothing else than without them goes to the device, and
 * nothing twice. */
static void readers_change_nothing(void)
{
    const char *path = temp_path("cuda-ahead.safetensors");
    float want[3][OUT], out[3][OUT];
    fake_cuda_state alone, with;
    write_changed(path);
    three_sets(1, path, want, &alone);
    CHECK(!same_bits(want[0], want[1]) && same_bits(want[0], want[2]));
    for (int threads = 2; threads <= 8; threads *= 2) {
        three_sets(threads, path, out, &with);
        for (int i = 0; i < 3; i++) CHECK(same_bits(want[i], out[i]));
        CHECK_INT(with.upload_bytes, alone.upload_bytes);
        CHECK_INT(with.uploads, alone.uploads);
        CHECK_INT(with.allocs, alone.allocs);
    }
    unlink(path);
}

/* Whichever allocation fails, on whichever thread: it is tolerated, or the set is not bound. */
static void readers_short_of_memory(void)
{
    graft_engine *g = make_engine_threads("cuda", 3);
    graft_model *m = load_model(g, SD1);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float want[OUT], out[OUT];
    int n = 1, failed = 0;
    run_model(m, want);
    for (bool came = true; came && n < 3000; n += n < 30 ? 1 : 61) {
        graft_packs_trim(g->packs, 0);
        CHECK_INT(packs_of(g).count, 0);
        graft_alloc_fail_at(n);
        graft_status st = graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e);
        came = graft_alloc_fail_at(0) == 0;
        CHECK(st == GRAFT_OK || (came && st == GRAFT_E_NOMEM));
        failed += st != GRAFT_OK;
        if (st) continue;
        one_run(b, g, out, NULL);
        CHECK(same_bits(want, out));
        graft_binding_release(b);
    }
    CHECK(n < 3000 && failed > 2);
    graft_model_release(m);
    graft_engine_destroy(g);
}

static uint64_t recorded_by(const graft_binding *b)
{
    return atomic_load(&b->exe->backend->recorded);
}

static bool cancel_fifth(void *ctx)
{
    return ++*(int *)ctx == 5;
}

/* Nothing may be loaded inside a recording, so a run must have come to its end before. */
static void cancelled_runs_are_no_rehearsal(void)
{
    float first[OUT], out[OUT];
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    uint64_t captures = fake->captures; /* the device was tested */
    for (int i = 0; i < 2; i++) {
        int asked = 0;
        const graft_task task = {.ctx = &asked, .cancelled = cancel_fifth};
        CHECK_INT(run_as(b, g, out, &task, NULL), GRAFT_E_CANCEL);
    }
    one_run(b, g, first, NULL);
    CHECK_INT(fake->captures, captures);
    one_run(b, g, out, NULL);
    CHECK_INT(fake->captures, captures + 1);
    CHECK(same_bits(first, out));
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* What recorded runs hold counts, and goes first where memory has a limit. */
static void recordings_count(void)
{
    enum { NODE = 4096 };
    float first[OUT], again[OUT];
    fake->node_bytes = NODE;
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1);
    graft_err e = GRAFT_ERR_INIT;
    graft_backend *device = NULL; /* opened now: its tests record, too */
    CHECK_OK(graft_backends_get(&g->backends, "cuda", &device, &e), &e);
    uint64_t recorded = fake->recorded;
    graft_binding *b = record_and_repeat(g, m, first);
    uint64_t bytes = (fake->recorded - recorded) * NODE, need;
    CHECK(bytes > 0);
    CHECK_INT(recorded_by(b), bytes);
    graft_recordings_trim(b->exe->recordings);
    CHECK_INT(recorded_by(b), 0);
    for (int i = 0; i < 3; i++) { /* recorded anew */
        one_run(b, g, again, NULL);
        CHECK(same_bits(first, again));
        CHECK_INT(recorded_by(b), i ? bytes : 0);
    }
    need = (uint64_t)b->exe->arena_bytes + b->exe->weight_bytes;
    g->max_bytes = need + bytes + bytes / 2; /* a limit with room for one and a half */
    graft_binding *other = NULL;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &other, &e), &e);
    CHECK_INT(recorded_by(b), bytes); /* it fits */
    graft_binding_release(other);
    graft_arenas_trim(g->arenas); /* another arena, so another recording: the older one goes */
    void *place = b->exe->backend->api->alloc(b->exe->backend->device, 1);
    for (int i = 0; i < 3; i++) one_run(b, g, again, NULL);
    CHECK(same_bits(first, again));
    CHECK_INT(recorded_by(b), bytes);
    b->exe->backend->api->free(b->exe->backend->device, place);
    g->max_bytes = need + bytes / 2; /* none fits: runs are ordinary ones */
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &other, &e), &e);
    CHECK_INT(recorded_by(b), 0);
    uint64_t replays = fake->replays;
    for (int i = 0; i < 3; i++) one_run(other, g, again, NULL);
    CHECK(same_bits(first, again));
    CHECK_INT(recorded_by(b), 0);
    CHECK_INT(fake->replays, replays);
    graft_binding_release(other);
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
    fake->node_bytes = 0;
}

int main(void)
{
    if (!open_fake_without_wgmma()) return test_end();
    RUN(one_allocation_a_set);
    RUN(resident_swaps_choose);
    RUN(dropped_sets_are_replaced_in_place);
    RUN(shared_tensors_stay_shared);
    RUN(without_a_large_block);
    RUN(limits_allow_no_slabs);
    RUN(readers_change_nothing);
    RUN(readers_short_of_memory);
    RUN(cancelled_runs_are_no_rehearsal);
    RUN(recordings_count);
    return close_fake();
}
