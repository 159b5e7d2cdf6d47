/* Threads that read weights ahead of a packer: what it finds at each of them, that they keep near
 * it, and that they leave nothing behind. */
#include <unistd.h>

#include "base/alloc.h"
#include "engine/exec/ahead.h"
#include "engine/weights/packed.h"
#include "kernels/quant.h"
#include "tests/engine/fixture.h"

enum { MOST = 256, MEGA = 1 << 20 };

typedef struct scene {
    graft_weights *w;
    graft_gslot slot[MOST];
    char *name[MOST];
    int64_t rows[MOST][2];
    graft_ahead_item item[MOST];
    size_t n;
} scene;

/* Each tensor of the file, twice over where `joined`: that takes memory. */
static void open_scene(scene *s, uint64_t bytes, bool joined)
{
    graft_safetensors *f = open_file(SD1);
    graft_err e = GRAFT_ERR_INIT;
    *s = (scene){0};
    CHECK_OK(graft_weights_create(f, &s->w, &e), &e);
    for (size_t i = 0; i < graft_safetensors_count(f) && s->n < MOST; i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        graft_gslot *slot = &s->slot[s->n];
        if (!t->rank) continue;
        slot->kind = joined ? GRAFT_SLOT_ROWS : GRAFT_SLOT_PLAIN;
        slot->rank = t->rank;
        for (int k = 0; k < t->rank; k++) slot->dim[k] = t->shape[k];
        slot->dim[0] *= joined ? 2 : 1;
        slot->n_sources = joined ? 2 : 1;
        slot->source = calloc(2, sizeof *slot->source);
        slot->rows = s->rows[s->n];
        for (int k = 0; k < 2; k++) {
            slot->source[k] = (char *)(uintptr_t)t->name;
            slot->rows[k] = t->shape[0];
        }
        s->item[s->n++] = (graft_ahead_item){.slot = slot, .bytes = bytes, .load = true};
    }
    CHECK(s->n > 50);
}

static void close_scene(scene *s)
{
    for (size_t i = 0; i < s->n; i++) free(s->slot[i].source);
    graft_weights_release(s->w);
}

static size_t known(const scene *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) n += graft_weights_slot_hashed(s->w, &s->slot[i]);
    return n;
}

/* Until so many are known, or it takes too long. */
static bool wait_for(const scene *s, size_t n)
{
    for (int i = 0; i < 5000 && known(s) < n; i++) usleep(1000);
    return known(s) >= n;
}

static void check_data(const scene *s, size_t i)
{
    graft_slot_data want = {0};
    graft_err e = GRAFT_ERR_INIT;
    const graft_slot_data *got = &s->item[i].data;
    CHECK_OK(graft_slot_data_load(s->w, &s->slot[i], &want, &e), &e);
    CHECK_INT(got->dtype, want.dtype);
    size_t bytes =
        (size_t)shape_count(s->slot[i].dim, s->slot[i].rank) * graft_dtype_size(want.dtype);
    CHECK(got->data && want.data);
    CHECK(got->data && memcmp(got->data, want.data, bytes) == 0);
    CHECK((got->owned == NULL) == (want.owned == NULL));
    graft_slot_data_finish(&want);
}

static void finds_all_ready(bool joined)
{
    scene s;
    graft_slot_data own = {0};
    open_scene(&s, MEGA, joined);
    s.item[3].load = false;
    const graft_gslot *without = s.item[5].slot;
    s.item[5].slot = NULL;
    graft_ahead *a = graft_ahead_begin(s.w, s.item, s.n, 4);
    CHECK(a != NULL);
    CHECK(wait_for(&s, s.n - 1));
    CHECK(!graft_weights_slot_hashed(s.w, without));
    for (size_t i = 0; i < s.n; i++) {
        graft_ahead_reach(a, i);
        if (i == 3 || i == 5) {
            CHECK(!s.item[i].data.data);
            continue;
        }
        check_data(&s, i);
        if (i == 7) { /* the packer takes it over */
            own = s.item[i].data;
            s.item[i].data = (graft_slot_data){0};
        }
        CHECK(!i || !s.item[i - 1].data.data);
    }
    graft_ahead_end(a);
    CHECK(own.data != NULL);
    graft_slot_data_finish(&own);
    close_scene(&s);
}

/* What an operator has packed comes packed, where it can, else as any other. */
static void packed_tensors(void)
{
    static const char path[] = GRAFT_SOURCE_DIR "/golden/small/coded/layers.safetensors";
    static const graft_dtype wanted[] = {GRAFT_BLOCKS + GRAFT_FLOAT_E4M3,
                                         GRAFT_BLOCKS + GRAFT_FLOAT_NVFP4};
    graft_err e = GRAFT_ERR_INIT;
    graft_weights *w = NULL;
    graft_gslot slot[MOST];
    graft_ahead_item item[MOST];
    char *name[MOST];
    size_t n = 0, packed = 0;
    CHECK_OK(graft_weights_create(open_file(path), &w, &e), &e);
    const graft_safetensors *f = graft_weights_file(w);
    for (size_t i = 0; i < graft_safetensors_count(f) && n < MOST; i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        if (t->part || t->rank != 2) continue;
        name[n] = (char *)(uintptr_t)t->name;
        slot[n] = (graft_gslot){
            .rank = 2, .dim = {t->shape[0], t->shape[1]}, .n_sources = 1, .source = &name[n]};
        slot[n].rows = slot[n].dim;
        item[n] = (graft_ahead_item){
            .slot = &slot[n], .bytes = MEGA, .load = true, .wanted = wanted[n % 2]};
        n++;
    }
    graft_ahead *a = graft_ahead_begin(w, item, n, 4);
    CHECK(a != NULL);
    for (size_t i = 0; i < n; i++) {
        graft_slot_data want = {0};
        graft_weight_term term;
        for (int k = 0; k < 5000 && !graft_weights_slot_hashed(w, &slot[i]); k++) usleep(1000);
        graft_ahead_reach(a, i);
        CHECK_OK(graft_slot_data_wanted(w, &slot[i], item[i].wanted, &want, &e), &e);
        const bool is = graft_weights_packed(w, name[i], &term) &&
                        GRAFT_BLOCKS + graft_packed_type(term.tensor) == item[i].wanted;
        CHECK_INT(want.dtype == item[i].wanted, is);
        CHECK(item[i].data.data && item[i].data.dtype == want.dtype);
        packed += is;
        graft_slot_data_finish(&want);
    }
    CHECK(packed >= 2 && packed < n);
    graft_ahead_end(a);
    graft_weights_release(w);
}

static void stored_tensors(void)
{
    finds_all_ready(false);
}

static void joined_tensors(void)
{
    finds_all_ready(true);
}

/* A packer that does not wait for anybody reads itself what the others have not begun. */
static void packer_at_full_speed(void)
{
    scene s;
    open_scene(&s, MEGA, true);
    graft_ahead *a = graft_ahead_begin(s.w, s.item, s.n, 3);
    for (size_t i = 0; i < s.n; i++) {
        graft_ahead_reach(a, i);
        if (s.item[i].data.data) check_data(&s, i);
        bool read = graft_weights_slot_hashed(s.w, &s.slot[i]);
        CHECK((s.item[i].data.data != NULL) == read);
    }
    graft_ahead_end(a);
    close_scene(&s);
}

/* Of 100 MB each, two are within the bound of 256 MB. */
static void keeps_near(void)
{
    scene s;
    open_scene(&s, 100 * MEGA, true);
    graft_ahead *a = graft_ahead_begin(s.w, s.item, s.n, 8);
    for (size_t i = 0; i < 6; i++) {
        CHECK(wait_for(&s, i + 2));
        usleep(20000);
        CHECK_INT(known(&s), i + 2);
        graft_ahead_reach(a, i + 1);
    }
    graft_ahead_end(a); /* before the end */
    for (size_t i = 0; i < s.n; i++) CHECK(!s.item[i].data.data);
    close_scene(&s);
}

static void not_worth_it(void)
{
    scene s;
    open_scene(&s, MEGA, false);
    CHECK(!graft_ahead_begin(s.w, s.item, s.n, 1));
    CHECK(!graft_ahead_begin(s.w, s.item, 0, 8));
    for (size_t i = 0; i < s.n; i++) s.item[i].bytes = 100;
    CHECK(!graft_ahead_begin(s.w, s.item, s.n, 8));
    graft_ahead_reach(NULL, 3);
    graft_ahead_end(NULL);
    CHECK_INT(known(&s), 0);
    for (size_t i = 0; i < s.n; i++) s.item[i].bytes = MEGA;
    for (int n = 1; n <= 2; n++) {
        graft_alloc_fail_at(n);
        graft_ahead *a = graft_ahead_begin(s.w, s.item, s.n, 2);
        CHECK_INT(graft_alloc_fail_at(0), 0);
        CHECK(!a);
        graft_ahead_end(a);
    }
    close_scene(&s);
}

int main(void)
{
    RUN(stored_tensors);
    RUN(joined_tensors);
    RUN(packed_tensors);
    RUN(packer_at_full_speed);
    RUN(keeps_near);
    RUN(not_worth_it);
    graft_alloc_stats stats;
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
