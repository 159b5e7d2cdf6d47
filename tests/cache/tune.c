/* Autotuning: the fastest variant wins if it computes the same, nothing is timed twice, and neither
 * trials nor their winners take more memory than the run. */
#include "engine/exec/trial.h"
#include "engine/passes/passes.h"
#include "tests/cache/fake.h"

/* In place of the machine's clock, whose times would depend on what else runs. */
double graft_trial_now(void)
{
    return 1e-6 * (double)atomic_load(&fake.clock_us);
}

#define SLOW 1500 /* us, where the others take 1 */

static graft_exe *make_exe(graft_backend *b, int32_t layers, int64_t rows)
{
    graft_graph *g = NULL;
    graft_exe *x = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const fake_arch arch = {layers, 64};
    const fake_shape shape = {rows, GRAFT_F32, 0};
    CHECK_OK(fake_build(&arch, &shape, &g, &e), &e);
    CHECK_OK(graft_passes_run(g, &e), &e);
    CHECK_OK(graft_exe_create(g, b, NULL, NULL, &x, &e), &e);
    return x;
}

static graft_tuner *make_tuner(graft_disk_cache *disk)
{
    graft_tuner *t = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_tuner_create(disk, &t, &e), &e);
    return t;
}

static void choose(graft_tuner *t, const graft_exe *x, graft_tuning level, int64_t max_bytes,
                   int32_t variant[8])
{
    graft_err e = GRAFT_ERR_INIT;
    const graft_tuner_request rq = {x, level, true, max_bytes};
    for (int i = 0; i < 8; i++) variant[i] = 99;
    CHECK_OK(graft_tuner_choose(t, &rq, NULL, variant, &e), &e);
}

#define PLENTY ((int64_t)1 << 30)

static void all_are(const int32_t *variant, int n, int32_t v)
{
    for (int i = 0; i < n; i++) CHECK(variant[i] == v);
}

static void fastest_wins(void)
{
    int32_t v[8];
    graft_backend b = fake_backend("t1");
    fake_reset();
    fake.variants = 3;
    fake.own = 1;
    fake.us[0] = 900, fake.us[1] = 600, fake.us[2] = 150;
    graft_exe *x = make_exe(&b, 3, 32);
    graft_tuner *t = make_tuner(NULL);
    choose(t, x, GRAFT_TUNING_OFF, PLENTY, v);
    all_are(v, 3, -1);
    CHECK(atomic_load(&fake.launches) == 0);
    choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
    all_are(v, 3, 2);
    CHECK(graft_tuner_count(t) == 3);
    int launches = atomic_load(&fake.launches);
    CHECK(launches > 9);
    choose(t, x, GRAFT_TUNING_FAST, PLENTY, v); /* known: nothing is timed again */
    all_are(v, 3, 2);
    graft_exe *more = make_exe(&b, 3, 32);
    choose(t, more, GRAFT_TUNING_FULL, PLENTY, v);
    all_are(v, 3, 2);
    CHECK(atomic_load(&fake.launches) == launches);
    graft_exe *other = make_exe(&b, 3, 16); /* other shapes are other operators */
    choose(t, other, GRAFT_TUNING_FULL, PLENTY, v);
    CHECK(graft_tuner_count(t) == 6 && atomic_load(&fake.launches) > launches);
    graft_tuner_destroy(t);
    graft_exe_release(x);
    graft_exe_release(more);
    graft_exe_release(other);
    CHECK(atomic_load(&fake.kernels) == 0 && atomic_load(&fake.bytes) == 0);
}

static void one_variant_is_no_question(void)
{
    int32_t v[8];
    graft_backend b = fake_backend("t2");
    fake_reset();
    graft_exe *x = make_exe(&b, 3, 32);
    graft_tuner *t = make_tuner(NULL);
    choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
    all_are(v, 3, -1);
    CHECK(atomic_load(&fake.launches) == 0 && atomic_load(&fake.prepares) == 3);
    graft_tuner_destroy(t);
    graft_exe_release(x);
}

/* Noise is no reason to change, and another weight layout wants a better one. */
static void margins(void)
{
    graft_trial r = {.own = 0, .count = 2, .ns = {1000, 980}};
    CHECK(graft_trial_best(&r) == -1);
    r.ns[1] = 950;
    CHECK(graft_trial_best(&r) == 1);
    r.repacks = 2;
    CHECK(graft_trial_best(&r) == -1);
    r.ns[1] = 850;
    CHECK(graft_trial_best(&r) == 1);
    r.ns[1] = 0; /* not usable */
    CHECK(graft_trial_best(&r) == -1);
    r.ns[0] = 0;
    CHECK(graft_trial_best(&r) == -1);
    r.ns[1] = 850; /* without one to compare it with, it is the only one that can be used */
    CHECK(graft_trial_best(&r) == 1);
    const graft_trial none = {0};
    CHECK(graft_trial_best(&none) == -1);
}

/* Variants that take long to prepare are for tuning that has the time; what it finds stays. */
static void slow_ones_wait_for_full(void)
{
    int32_t v[8];
    graft_backend b = fake_backend("t slow");
    fake_reset();
    fake.variants = 3;
    fake.slow = 1u << 2;
    fake.us[0] = 900, fake.us[1] = 600, fake.us[2] = 150;
    graft_exe *x = make_exe(&b, 1, 32);
    graft_tuner *t = make_tuner(NULL);
    choose(t, x, GRAFT_TUNING_FAST, PLENTY, v);
    CHECK(v[0] == 1);
    choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
    CHECK(v[0] == 2);
    CHECK(graft_tuner_count(t) == 1);
    int launches = atomic_load(&fake.launches);
    choose(t, x, GRAFT_TUNING_FAST, PLENTY, v);
    CHECK(v[0] == 2);
    choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
    CHECK(v[0] == 2 && atomic_load(&fake.launches) == launches);
    graft_tuner_destroy(t);
    graft_exe_release(x);
}

/* Of the variants of wrong_and_broken_ones_lose(). */
static void reasons_are_kept(graft_tuner *t, const graft_exe *x)
{
    graft_trial r;
    CHECK(graft_tuner_find(t, x, 0, &r));
    CHECK(r.count == 4 && r.wrong == 2);
    CHECK(r.ns[1] == 0 && r.status[1] == GRAFT_OK && r.off[1] > 5e-4f && r.off[1] < 5e-3f);
    CHECK(r.ns[2] == 0 && r.status[2] != GRAFT_OK);
    CHECK(r.ns[3] > 0 && r.status[3] == GRAFT_OK && r.off[3] == 0);
}

static void wrong_and_broken_ones_lose(void)
{
    int32_t v[8];
    graft_backend b = fake_backend("t3");
    fake_reset();
    fake.variants = 4;
    fake.us[0] = 800, fake.us[1] = 100, fake.us[2] = 100, fake.us[3] = 400;
    fake.error[1] = 3e-3f; /* of 3: ten times the limit */
    fake.broken[2] = true;
    graft_exe *x = make_exe(&b, 1, 32);
    graft_tuner *t = make_tuner(NULL);
    choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
    CHECK(v[0] == 3);
    reasons_are_kept(t, x);
    graft_tuner_destroy(t);
    fake.error[1] = NAN;
    fake.unmade[3] = true;
    t = make_tuner(NULL);
    choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
    CHECK(v[0] == -1);
    graft_tuner_destroy(t);
    fake.error_to = 1; /* at the beginning alone: what follows does not make up for it */
    t = make_tuner(NULL);
    choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
    CHECK(v[0] == -1);
    graft_tuner_destroy(t);
    fake.error_to = 0;
    fake.error[1] = 1e-4f; /* within the limit of 3e-4 */
    t = make_tuner(NULL);
    choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
    CHECK(v[0] == 1);
    graft_tuner_destroy(t);
    graft_exe_release(x);
    CHECK(atomic_load(&fake.kernels) == 0 && atomic_load(&fake.bytes) == 0);
}

/* The variant that is chosen of three, of which the last is the fastest, and what is known of each.
 */
static int32_t chosen(graft_backend *b, graft_trial *r)
{
    int32_t v[8];
    graft_exe *x = make_exe(b, 1, 32);
    graft_tuner *t = make_tuner(NULL);
    choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
    CHECK(graft_tuner_find(t, x, 0, r) && r->count == 3);
    graft_tuner_destroy(t);
    graft_exe_release(x);
    return v[0];
}

static void three_variants(int workspace)
{
    fake_reset();
    fake.variants = 3;
    for (int i = 0; i < 3; i++) {
        fake.us[i] = 90 - 30 * i;
        fake.workspace[i] = workspace;
    }
}

/* What a variant leaves out is not taken for what another has left in its place. */
static void idle_ones_lose(void)
{
    graft_trial r;
    graft_backend b[] = {fake_backend("t18"), fake_recorder("t19")};
    for (int i = 0; i < 2; i++) {
        three_variants(0);
        CHECK(chosen(&b[i], &r) == 2 && !r.wrong);
        fake.idle[2] = true;
        CHECK(chosen(&b[i], &r) == 1);
        CHECK(r.wrong == 1u << 2 && !r.ns[2] && r.ns[1] && r.status[2] == GRAFT_OK);
    }
    CHECK(atomic_load(&fake.kernels) == 0 && atomic_load(&fake.bytes) == 0);
}

/* A kernel that is too early for what is written into its workspace finds there what its last
 * launch has left, but in a network what another operator has. */
static void hasty_ones_lose(void)
{
    graft_trial r;
    graft_backend b = fake_recorder("t20");
    for (int recorded = 0; recorded < 2; recorded++) {
        three_variants(64);
        for (int i = 0; i < 3; i++) fake.unrecorded[i] = !recorded;
        CHECK(chosen(&b, &r) == 2 && !r.wrong);
        fake.hasty[2] = true;
        CHECK(chosen(&b, &r) == 1);
        CHECK(r.wrong == 1u << 2 && !r.ns[2] && r.ns[1]);
        fake.hasty[0] = true; /* the library's own choice, too */
        CHECK(chosen(&b, &r) == 1);
        CHECK(r.wrong == (1u << 2 | 1u) && !r.ns[0] && r.ns[1]);
        fake.us[1] = 300; /* slower, but right */
        CHECK(chosen(&b, &r) == 1);
    }
    CHECK(atomic_load(&fake.recordings) == 0);
    CHECK(atomic_load(&fake.kernels) == 0 && atomic_load(&fake.bytes) == 0);
}

/* In a network one kernel after the other is launched with weights of its own. */
static void stuck_ones_lose(void)
{
    graft_trial r;
    graft_backend b = fake_recorder("t21");
    b.info.cache_bytes = 1 << 20;
    for (int recorded = 0; recorded < 2; recorded++) {
        three_variants(0);
        for (int i = 0; i < 3; i++) fake.unrecorded[i] = !recorded;
        CHECK(chosen(&b, &r) == 2 && !r.wrong);
        fake.stuck[2] = true;
        CHECK(chosen(&b, &r) == 1);
        CHECK(r.wrong == 1u << 2 && !r.ns[2] && r.ns[1]);
        fake.stuck[0] = true;
        CHECK(chosen(&b, &r) == 1);
        CHECK(r.wrong == (1u << 2 | 1u) && !r.ns[0] && r.ns[1]);
    }
    CHECK(atomic_load(&fake.recordings) == 0);
    CHECK(atomic_load(&fake.kernels) == 0 && atomic_load(&fake.bytes) == 0);
}

/* Runs are recorded where that is possible, so what handing over costs does not count there. */
static void recorded_launches_are_timed(void)
{
    int32_t v[8];
    graft_backend b = fake_recorder("t13"), plain = fake_backend("t14");
    fake_reset();
    fake.variants = 3;
    fake.us[0] = 60, fake.us[1] = 30, fake.us[2] = 30;
    fake.host_us[1] = 80, fake.host_us[2] = 80;
    fake.unrecorded[2] = true; /* it is timed as it can be */
    graft_exe *x = make_exe(&b, 1, 32), *y = make_exe(&plain, 1, 32);
    graft_tuner *t = make_tuner(NULL), *u = make_tuner(NULL);
    choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
    CHECK(v[0] == 1);
    choose(u, y, GRAFT_TUNING_FULL, PLENTY, v);
    CHECK(v[0] == -1);
    CHECK(atomic_load(&fake.recordings) == 0); /* all freed */
    graft_tuner_destroy(t);
    graft_tuner_destroy(u);
    graft_exe_release(x);
    graft_exe_release(y);
    CHECK(atomic_load(&fake.kernels) == 0 && atomic_load(&fake.bytes) == 0);
}

/* Of a variant in whose place something else runs, from its first launch or a later one on, there
 * is no time, whether it is the library's own choice or not. */
static void stand_ins_are_not_timed(void)
{
    graft_backend b = fake_recorder("t17");
    fake_reset();
    fake.variants = 3;
    fake.own = 1;
    fake.us[0] = 80, fake.us[1] = 60, fake.us[2] = 30;
    graft_exe *x = make_exe(&b, 1, 32);
    for (int from = 0; from < 3; from++)
        for (int own = 0; own < 2; own++) {
            int32_t v[8];
            graft_trial r;
            graft_tuner *t = make_tuner(NULL);
            fake.replaced[2] = from, fake.replaced[1] = own ? from : 0;
            choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
            CHECK(v[0] == (!from ? 2 : own ? 0 : -1));
            CHECK(graft_tuner_find(t, x, 0, &r) && r.ns[0] > 0);
            for (int i = 1; i < 3; i++) {
                bool in_place = fake.replaced[i] != 0;
                CHECK((r.ns[i] == 0) == in_place);
                CHECK(r.status[i] == (in_place ? GRAFT_E_UNSUPPORTED : GRAFT_OK));
            }
            graft_tuner_destroy(t);
        }
    graft_exe_release(x);
    CHECK(atomic_load(&fake.kernels) == 0 && atomic_load(&fake.bytes) == 0);
}

/* On a device the first launch of a kernel loads its code, which may take longer than all others.
 */
static void first_launches_do_not_count(void)
{
    int32_t v[8];
    graft_backend b = fake_recorder("t16");
    fake_reset();
    fake.variants = 2;
    graft_exe *x = make_exe(&b, 1, 32);
    for (int best = 0; best < 2; best++) {
        graft_tuner *t = make_tuner(NULL);
        fake.us[best] = 100, fake.us[!best] = 300;
        fake.first_us[best] = 80000, fake.first_us[!best] = 0;
        choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
        CHECK(v[0] == (best ? 1 : -1));
        graft_tuner_destroy(t);
    }
    graft_exe_release(x);
}

/* A device is waited for at every copy, so there are few, however large the tensors. Of a large
 * result parts are compared, both ends among them. */
static void large_tensors_in_few_copies(void)
{
    enum { ROWS = 110000, N = ROWS * 80 };
    static const int64_t wrong[][2] = {{0, 1}, {N - 1, N}, {N / 2, N / 2 + N / 100}};
    int32_t v[8];
    graft_backend b = fake_backend("t15");
    fake_reset();
    fake.variants = 2;
    fake.us[0] = SLOW;
    graft_exe *x = make_exe(&b, 1, ROWS); /* of 28 to 35 MB */
    graft_tuner *t = make_tuner(NULL);
    choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
    CHECK(v[0] == 1);
    int copies = atomic_load(&fake.copies);
    CHECK(copies > 2 && copies < 400);
    graft_tuner_destroy(t);
    fake.error[1] = 1;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fake.error_from = wrong[i][0];
        fake.error_to = wrong[i][1];
        t = make_tuner(NULL);
        choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
        CHECK(v[0] == -1);
        graft_tuner_destroy(t);
    }
    graft_exe_release(x);
    CHECK(atomic_load(&fake.kernels) == 0 && atomic_load(&fake.bytes) == 0);
}

/* ------------------------------------------------------------------ memory */

static void trials_keep_their_limit(void)
{
    int32_t v[8];
    graft_backend b = fake_backend("t4");
    fake_reset();
    fake.variants = 2;
    fake.us[0] = SLOW;
    fake.workspace[0] = 1 << 20;
    fake.workspace[1] = 1 << 20;
    graft_exe *x = make_exe(&b, 2, 64);
    for (int64_t limit = 0; limit < (2 << 20); limit += 100000) {
        graft_tuner *t = make_tuner(NULL);
        atomic_store(&fake.most, 0);
        choose(t, x, GRAFT_TUNING_FULL, limit, v);
        CHECK(atomic_load(&fake.most) <= limit);
        CHECK(limit > (1 << 20) || v[0] == -1);
        CHECK(limit < (3 << 19) || v[0] == 1);
        graft_tuner_destroy(t);
    }
    graft_exe_release(x);
    CHECK(atomic_load(&fake.bytes) == 0);
}

/* What a trial has on the host, the result that others are held against, takes nothing of a
 * device's. */
static void a_device_has_no_reference(void)
{
    const int64_t x = 64 * 64 * 4, y = 64 * 80 * 4, w = 80 * 64 * 4, limit = x + y + w;
    graft_backend there = fake_recorder("t device"), here = fake_backend("t host");
    for (int i = 0; i < 2; i++) {
        int32_t v[8];
        fake_reset();
        fake.variants = 2;
        fake.us[0] = SLOW;
        graft_exe *exe = make_exe(i ? &here : &there, 1, 64);
        graft_tuner *t = make_tuner(NULL);
        choose(t, exe, GRAFT_TUNING_FULL, limit, v);
        CHECK_INT(v[0], i ? -1 : 1);
        CHECK(atomic_load(&fake.most) <= limit);
        graft_tuner_destroy(t);
        graft_exe_release(exe);
    }
    CHECK(atomic_load(&fake.bytes) == 0);
}

static void apply(graft_exe *x, int32_t variant)
{
    int32_t v[8];
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 8; i++) v[i] = variant;
    const graft_exe_choices c = {v, 8, 0};
    CHECK_OK(graft_exe_apply(x, &c, NULL, &e), &e);
}

static void winners_keep_the_peak(void)
{
    graft_backend b = fake_backend("t5");
    fake_reset();
    fake.variants = 4;
    fake.workspace[0] = 4096;
    fake.workspace[1] = 1 << 20; /* more than the arena */
    fake.workspace[2] = 128;
    fake.weights[3] = 4; /* four times the weights */
    graft_exe *x = make_exe(&b, 3, 32);
    int64_t arena = x->arena_bytes;
    uint64_t weights = x->weight_bytes;
    apply(x, 1);
    CHECK(x->info[1].variant_index == 0 && x->arena_bytes == arena);
    apply(x, 3);
    CHECK(x->info[1].variant_index == 0 && x->weight_bytes == weights);
    apply(x, 2);
    for (int i = 0; i < 3; i++) CHECK(x->info[i].variant_index == 2);
    CHECK(x->arena_bytes <= arena && x->weight_bytes == weights);
    CHECK(x->arena_bytes == x->arena_bound);
    graft_exe_release(x);
    CHECK(atomic_load(&fake.kernels) == 0);
}

/* ------------------------------------------------------------------ across processes */

static void kept_on_disk(void)
{
    int32_t v[8];
    char folder[512];
    graft_backend b = fake_backend("t6"), foreign = fake_backend("t7");
    fake_reset();
    fake.variants = 2;
    fake.us[0] = SLOW;
    snprintf(folder, sizeof folder, "%s", fresh_folder("tune"));
    graft_disk_cache *disk = open_cache(folder, PLENTY);
    graft_exe *x = make_exe(&b, 2, 32), *y = make_exe(&b, 2, 48);
    /* Two processes that know nothing of each other write into one file. */
    graft_tuner *t = make_tuner(disk), *u = make_tuner(disk);
    choose(u, y, GRAFT_TUNING_OFF, PLENTY, v);
    choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
    choose(u, y, GRAFT_TUNING_FULL, PLENTY, v);
    graft_tuner_destroy(t);
    graft_tuner_destroy(u);
    int launches = atomic_load(&fake.launches);
    t = make_tuner(disk);
    choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
    all_are(v, 2, 1);
    choose(t, y, GRAFT_TUNING_FAST, PLENTY, v);
    all_are(v, 2, 1);
    CHECK(atomic_load(&fake.launches) == launches && graft_tuner_count(t) == 4);
    graft_exe *z = make_exe(&foreign, 2, 32); /* timings of another device mean nothing here */
    choose(t, z, GRAFT_TUNING_FULL, PLENTY, v);
    CHECK(atomic_load(&fake.launches) > launches && graft_tuner_count(t) == 6);
    graft_tuner_destroy(t);
    CHECK(warnings == 0);
    graft_disk_cache_destroy(disk);
    graft_exe_release(x);
    graft_exe_release(y);
    graft_exe_release(z);
    remove_folder(folder);
}

/* Two processes time the same operators and find different winners: the first result stays. */
static void the_first_result_stays(void)
{
    int32_t v[8];
    char folder[512];
    graft_backend b = fake_backend("t12");
    fake_reset();
    fake.variants = 2;
    snprintf(folder, sizeof folder, "%s", fresh_folder("first"));
    graft_disk_cache *disk = open_cache(folder, PLENTY);
    graft_exe *x = make_exe(&b, 2, 32), *y = make_exe(&b, 1, 48);
    graft_tuner *t = make_tuner(disk), *u = make_tuner(disk);
    fake.us[0] = SLOW;
    choose(t, y, GRAFT_TUNING_FULL, PLENTY, v); /* now both have read the file */
    choose(u, y, GRAFT_TUNING_FULL, PLENTY, v);
    choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
    all_are(v, 2, 1);
    fake.us[0] = 0, fake.us[1] = SLOW;
    int launches = atomic_load(&fake.launches);
    choose(u, x, GRAFT_TUNING_FULL, PLENTY, v);
    CHECK(atomic_load(&fake.launches) > launches);
    all_are(v, 2, 1);
    graft_tuner_destroy(u);
    u = make_tuner(disk);
    choose(u, x, GRAFT_TUNING_FAST, PLENTY, v);
    all_are(v, 2, 1);
    graft_tuner_destroy(t);
    graft_tuner_destroy(u);
    graft_disk_cache_destroy(disk);
    graft_exe_release(x);
    graft_exe_release(y);
    remove_folder(folder);
}

static void nonsense_on_disk(void)
{
    static const char *const texts[] = {"",
                                        "graft-tuning 1",
                                        "graft-tuning 1\nzz",
                                        "graft-tuning 2\n1 2 0 2 0 5 5\n",
                                        "graft-tuning 1\n1 2 0 9 0 1 1 1 1 1 1 1 1 1\n",
                                        "graft-tuning 1\n1 2 5 2 0 5 5\n",
                                        "graft-tuning 1\n1 2 0 2 0 5",
                                        "graft-tuning 1\n1 2 -1 2 0 5 5\n"};
    int32_t v[8];
    char folder[512];
    graft_backend b = fake_backend("t8");
    fake_reset();
    fake.variants = 2;
    fake.us[0] = SLOW;
    snprintf(folder, sizeof folder, "%s", fresh_folder("nonsense"));
    graft_exe *x = make_exe(&b, 2, 32);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        graft_disk_cache *disk = open_cache(folder, PLENTY);
        graft_disk_cache_write(disk, GRAFT_DISK_TUNING, b.identity, NULL, texts[i],
                               strlen(texts[i]));
        graft_tuner *t = make_tuner(disk);
        choose(t, x, GRAFT_TUNING_FULL, PLENTY, v);
        all_are(v, 2, 1);
        graft_tuner_destroy(t);
        graft_disk_cache_destroy(disk);
    }
    graft_exe_release(x);
    remove_folder(folder);
}

/* ------------------------------------------------------------------ time and threads */

static void fast_has_a_time_limit(void)
{
    int32_t v[8];
    graft_backend b = fake_backend("t9");
    fake_reset();
    fake.variants = 2;
    fake.us[0] = 700000, fake.us[1] = 600000;
    graft_exe *x = make_exe(&b, 8, 32);
    graft_tuner *t = make_tuner(NULL);
    double start = graft_trial_now();
    choose(t, x, GRAFT_TUNING_FAST, PLENTY, v);
    double seconds = graft_trial_now() - start;
    CHECK(seconds < GRAFT_TUNING_FAST_SECONDS + 0.8); /* and the launch that was under way */
    CHECK(graft_tuner_count(t) >= 1 && graft_tuner_count(t) < 8);
    CHECK(v[7] == 1); /* the most costly first */
    CHECK(v[0] == -1);
    graft_tuner_destroy(t);
    graft_exe_release(x);
}

static bool cancel_after(void *ctx)
{
    int *left = ctx;
    return (*left)-- <= 0;
}

static void cancelled(void)
{
    graft_backend b = fake_backend("t10");
    fake_reset();
    fake.variants = 2;
    fake.us[0] = SLOW;
    graft_exe *x = make_exe(&b, 3, 32);
    for (int after = 0; after < 30; after += 3) {
        int32_t v[8];
        int left = after;
        graft_tuner *t = make_tuner(NULL);
        const graft_tuner_request rq = {x, GRAFT_TUNING_FULL, true, PLENTY};
        const graft_task task = {.ctx = &left, .cancelled = cancel_after};
        graft_status st = graft_tuner_choose(t, &rq, &task, v, NULL);
        CHECK(st == GRAFT_E_CANCEL || st == GRAFT_OK);
        if (after == 0) CHECK(st == GRAFT_E_CANCEL);
        graft_tuner_destroy(t);
        CHECK(atomic_load(&fake.bytes) == 0);
    }
    graft_exe_release(x);
    CHECK(atomic_load(&fake.kernels) == 0);
}

typedef struct tuning_thread {
    graft_tuner *t;
    graft_exe *x;
    int32_t v[8];
    graft_status st;
} tuning_thread;

/* No CHECK here: its counters belong to the main thread. */
static void *tune_on_thread(void *arg)
{
    tuning_thread *k = arg;
    const graft_tuner_request rq = {k->x, GRAFT_TUNING_FULL, true, PLENTY};
    graft_err e = GRAFT_ERR_INIT;
    k->st = graft_tuner_choose(k->t, &rq, NULL, k->v, &e);
    return NULL;
}

static void threads_share_results(void)
{
    enum { N = 4 };
    graft_backend b = fake_backend("t11");
    fake_reset();
    fake.variants = 2;
    fake.us[0] = SLOW;
    graft_exe *x = make_exe(&b, 3, 32);
    graft_tuner *t = make_tuner(NULL);
    tuning_thread k[N];
    pthread_t thread[N];
    for (int i = 0; i < N; i++) {
        k[i] = (tuning_thread){.t = t, .x = x};
        CHECK(pthread_create(&thread[i], NULL, tune_on_thread, &k[i]) == 0);
    }
    for (int i = 0; i < N; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < N; i++) CHECK(k[i].st == GRAFT_OK);
    for (int i = 0; i < N; i++) all_are(k[i].v, 3, 1);
    CHECK(graft_tuner_count(t) == 3);
    CHECK(atomic_load(&fake.launches) < 3 * 2 * 10); /* once, not once a thread */
    graft_tuner_destroy(t);
    graft_exe_release(x);
}

/* A convolution that adds rows which lie `stride` apart. */
static graft_hash signature_of_add(int stride)
{
    graft_backend b = fake_backend("a");
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    char text[512];
    int n = snprintf(text, sizeof text,
                     "graft-graph 1\nslot plain [2,2,1,1] 2 \"w\"\n%%0 f32 [2,2,2,2] input 0\n"
                     "%%1 f32 [2,8] input 1\n%%2 f32 [2,2] view %%1 +0 [%d,1]\n"
                     "%%3 f32 [2,2,1,1] weight 0\n%%4 f32 [2,2,2,2] temp\n"
                     "conv2d %%4 = %%0 %%3 - %%2 - | kernel_h=1 kernel_w=1 stride_h=1 stride_w=1\n"
                     "output %%4\n",
                     stride);
    CHECK_OK(graft_graph_parse(text, (size_t)n, &g, &e), &e);
    graft_hash h = graft_tuner_signature(g, 0, &b);
    graft_graph_destroy(g);
    return h;
}

static void signatures(void)
{
    graft_backend b = fake_backend("a"), c = fake_backend("c");
    fake_reset();
    graft_exe *x = make_exe(&b, 2, 32), *y = make_exe(&b, 2, 33);
    graft_hash s = graft_tuner_signature(x->graph, 0, &b);
    CHECK(graft_hash_equal(s, graft_tuner_signature(x->graph, 0, &b)));
    CHECK(!graft_hash_equal(s, graft_tuner_signature(x->graph, 1, &b)));
    CHECK(!graft_hash_equal(s, graft_tuner_signature(y->graph, 0, &b)));
    CHECK(!graft_hash_equal(s, graft_tuner_signature(x->graph, 0, &c)));
    x->graph->node[0].attrs.act = GRAFT_ACT_SILU;
    CHECK(!graft_hash_equal(s, graft_tuner_signature(x->graph, 0, &b)));
    x->graph->node[0].attrs.act = GRAFT_ACT_NONE;
    graft_gvalue *w = &x->graph->value[x->graph->node[0].in[1]];
    w->dtype = GRAFT_BF16; /* of a constant: it means nothing */
    CHECK(graft_hash_equal(s, graft_tuner_signature(x->graph, 0, &b)));
    w->dtype = GRAFT_F32;
    CHECK(graft_hash_equal(signature_of_add(2), signature_of_add(8)));
    graft_exe_release(x);
    graft_exe_release(y);
}

int main(void)
{
    RUN(fastest_wins);
    RUN(one_variant_is_no_question);
    RUN(margins);
    RUN(wrong_and_broken_ones_lose);
    RUN(slow_ones_wait_for_full);
    RUN(idle_ones_lose);
    RUN(hasty_ones_lose);
    RUN(stuck_ones_lose);
    RUN(recorded_launches_are_timed);
    RUN(stand_ins_are_not_timed);
    RUN(first_launches_do_not_count);
    RUN(large_tensors_in_few_copies);
    RUN(trials_keep_their_limit);
    RUN(a_device_has_no_reference);
    RUN(winners_keep_the_peak);
    RUN(kept_on_disk);
    RUN(the_first_result_stays);
    RUN(nonsense_on_disk);
    RUN(fast_has_a_time_limit);
    RUN(cancelled);
    RUN(threads_share_results);
    RUN(signatures);
    return test_end();
}
