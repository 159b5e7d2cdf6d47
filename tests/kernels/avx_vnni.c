/* 8-bit linear layers with AVX-VNNI give AVX2's bits. Where the processor lacks the instruction it
 * is played: the system stops the process at it, and what Intel's manual (volume 2, VPDPBUSD) says
 * that it computes is written into the registers that it names. Linked with the objects of the
 * library. */
#include <cpuid.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/simd.h"
#include "tests/kernels/harness.h"
#include "tests/test.h"

extern const graft_cpu_simd graft_cpu_table__avx2, graft_cpu_table__avx_vnni;

/* ------------------------------------------------------------------ the instruction */

static unsigned upper_at; /* where the state's upper halves of registers are */
static volatile sig_atomic_t played;

/* Register r in the stopped thread's state: two halves of 16 bytes. */
static void halves_of(ucontext_t *u, int r, uint8_t *half[2])
{
    fpregset_t f = u->uc_mcontext.fpregs;
    half[0] = (uint8_t *)&f->_xmm[r];
    half[1] = (uint8_t *)f + upper_at + 16 * r;
}

/* VEX.256.66.0F38.W0 50 /r between registers; false: it is something else. */
static bool play(ucontext_t *u)
{
    const uint8_t *at = (const uint8_t *)(uintptr_t)u->uc_mcontext.gregs[REG_RIP];
    if (at[0] != 0xc4 || (at[1] & 0x1f) != 2 || (at[2] & 0x87) != 5 || at[3] != 0x50 ||
        at[4] >> 6 != 3)
        return false;
    const int sum = (at[4] >> 3 & 7) | (at[1] & 0x80 ? 0 : 8);
    const int plain = ~at[2] >> 3 & 15, with_sign = (at[4] & 7) | (at[1] & 0x20 ? 0 : 8);
    uint8_t *d[2], *a[2], *b[2];
    halves_of(u, sum, d);
    halves_of(u, plain, a);
    halves_of(u, with_sign, b);
    for (int i = 0; i < 8; i++) {
        int32_t v;
        memcpy(&v, d[i / 4] + i % 4 * 4, sizeof v);
        for (int k = i % 4 * 4; k < i % 4 * 4 + 4; k++)
            v += a[i / 4][k] * ((const int8_t *)b[i / 4])[k];
        memcpy(d[i / 4] + i % 4 * 4, &v, sizeof v);
    }
    u->uc_mcontext.gregs[REG_RIP] += 5;
    played++;
    return true;
}

static void on_illegal(int number, siginfo_t *info, void *context)
{
    (void)info;
    if (!play(context)) signal(number, SIG_DFL); /* it comes again, and ends the test */
}

/* ------------------------------------------------------------------ layers */

enum { ROWS = 17, QUADS = 21, OUTPUTS = 75, STRIDE = 128, PANELS = 3 };

typedef struct layer {
    uint8_t level[24 * STRIDE];
    int8_t *weight; /* aligned */
    float row_scale[24], scale[2 * OUTPUTS], bias[2 * OUTPUTS];
    float out[ROWS][OUTPUTS], residual[ROWS][OUTPUTS];
    void *to[ROWS];
    const void *add[ROWS];
} layer;

static void make(layer *l)
{
    uint64_t state = 5;
    const size_t bytes = (size_t)PANELS * 4 * GRAFT_CPU_INT8_PANEL * QUADS;
    l->weight = aligned_alloc(64, (bytes + 63) / 64 * 64);
    CHECK(l->weight != NULL);
    for (size_t i = 0; i < bytes && l->weight; i++)
        l->weight[i] = (int8_t)((int)(random_next(&state) % 255) - 127);
    for (size_t i = 0; i < sizeof l->level; i++)
        l->level[i] = (uint8_t)(int8_t)((int)(random_next(&state) % 255) - 127);
    for (int i = 0; i < 24; i++) l->row_scale[i] = 0.001f * (float)(i + 1);
    for (int i = 0; i < 2 * OUTPUTS; i++) {
        l->scale[i] = 0.01f + 0.001f * (float)i;
        l->bias[i] = (float)(i % 7) - 3;
    }
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < OUTPUTS; i++) l->residual[r][i] = (float)(r * i % 11);
        l->to[r] = l->out[r];
        l->add[r] = l->residual[r];
    }
}

static void compute(const graft_cpu_simd *simd, layer *l, graft_act act, bool more,
                    float out[ROWS][OUTPUTS])
{
    const bool geglu = act == GRAFT_ACT_GEGLU;
    const graft_cpu_int8 job = {.level = l->level,
                                .rows = ROWS,
                                .stride = STRIDE,
                                .quads = QUADS,
                                .row_scale = l->row_scale,
                                .weight = l->weight,
                                .scale = l->scale,
                                .bias = more ? l->bias : NULL,
                                .outputs = geglu ? 40 : OUTPUTS,
                                .act = act,
                                .out = l->to,
                                .out_type = GRAFT_F32,
                                .residual = more && !geglu ? l->add : NULL,
                                .residual_type = GRAFT_F32};
    memset(l->out, 0, sizeof l->out);
    simd->int8_multiply(&job, 0, geglu ? 2 : PANELS);
    memcpy(out, l->out, sizeof l->out);
}

static void same_bits(void)
{
    static const graft_act acts[] = {GRAFT_ACT_NONE, GRAFT_ACT_SILU, GRAFT_ACT_GEGLU};
    static layer l;
    static float want[ROWS][OUTPUTS], got[ROWS][OUTPUTS];
    make(&l);
    for (int i = 0; i < 6 && l.weight; i++) {
        compute(&graft_cpu_table__avx2, &l, acts[i / 2], i % 2 != 0, want);
        const sig_atomic_t before = played;
        compute(&graft_cpu_table__avx_vnni, &l, acts[i / 2], i % 2 != 0, got);
        CHECK(memcmp(got, want, sizeof got) == 0 && got[ROWS - 1][19] != 0);
        CHECK(graft_cpu_level_bytes() || played > before + QUADS * ROWS);
    }
    free(l.weight);
}

/* What the extremes give: no pair of products is cut off. */
static void largest_sums(void)
{
    static layer l;
    static float want[ROWS][OUTPUTS], got[ROWS][OUTPUTS];
    make(&l);
    for (int i = 0; i < PANELS * 4 * GRAFT_CPU_INT8_PANEL * QUADS && l.weight; i++)
        l.weight[i] = i / 128 % 2 ? 127 : -127;
    memset(l.level, 127, sizeof l.level / 2);
    memset(l.level + sizeof l.level / 2, (uint8_t)-127, sizeof l.level / 2);
    if (l.weight) {
        compute(&graft_cpu_table__avx2, &l, GRAFT_ACT_NONE, false, want);
        compute(&graft_cpu_table__avx_vnni, &l, GRAFT_ACT_NONE, false, got);
    }
    CHECK(memcmp(got, want, sizeof got) == 0 && got[0][0] != 0);
    free(l.weight);
}

int main(void)
{
    unsigned a, b, c, d;
    const struct sigaction action = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};
    if (graft_cpu_level() < 1 || !__get_cpuid_count(13, 2, &a, &b, &c, &d) || a != 256) {
        printf("skipped: this processor has no AVX2\n");
        return 77;
    }
    upper_at = b;
    sigaction(SIGILL, &action, NULL);
    printf("     the instruction is %s\n", graft_cpu_level_bytes() ? "the processor's" : "played");
    RUN(same_bits);
    RUN(largest_sums);
    return test_end();
}
