#include "tests/cuda/emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/cuda/fake_fast.h"
#include "tests/cuda/hopper.h"

/* swapcontext() asks the kernel for the signal mask each time, so the common machine has its own
 * way. ThreadSanitizer knows only the former. AddressSanitizer need not be told: the memory around
 * variables is guarded on any stack, and its own stacks for uses after a return are off in GCC. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define OWN_SWITCH 1
#else
#define OWN_SWITCH 0
#include <ucontext.h>
#endif

enum { MAX_THREADS = 512, STACK = 64 << 10, WARPS = MAX_THREADS / 32, COPIES = 64, DEPTH = 32 };
/* Stacks at equal places of their pages would share a few sets of the caches. */
enum { STACK_STEP = STACK + 13 * 64 };

#if OWN_SWITCH
typedef struct coroutine {
    void *top; /* the stack pointer, under it the registers that calls keep */
} coroutine;
void emulator_switch(void **from, void *to);
__asm__(".text\n.type emulator_switch,@function\nemulator_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");

static void change(coroutine *from, coroutine *to)
{
    emulator_switch(&from->top, to->top);
}

static void make(coroutine *c, char *stack, size_t bytes, void (*start)(void))
{
    void **top = (void **)(void *)(stack + bytes - 64);
    top[0] = (void *)(uintptr_t)start; /* where ret goes; the stack is aligned as after a call */
    c->top = top - 6;
}
#else
typedef ucontext_t coroutine;

static void change(coroutine *from, coroutine *to)
{
    swapcontext(from, to);
}

static void make(coroutine *c, char *stack, size_t bytes, void (*start)(void))
{
    getcontext(c);
    c->uc_stack.ss_sp = stack;
    c->uc_stack.ss_size = bytes;
    makecontext(c, start, 0);
}
#endif

typedef enum thread_state { READY, AT_BLOCK, AT_GROUP, AT_WARP, AT_GRID, SPUN, DONE } thread_state;

typedef struct async_copy {
    void *to;
    const void *from; /* NULL: zeros */
    uint32_t group;
} async_copy;

typedef struct thread {
    uint32_t turn;  /* collectives that this thread took part in */
    uint32_t group; /* of copies: the one that is open */
    uint32_t copies;
    bool waited; /* for the kernels before this one */
    async_copy copy[COPIES];
} thread;

/* What the lanes of a warp bring to a collective: the operands of a product, as numbers in their
 * places, and what it is added to, or addresses of rows. */
typedef struct warp_values {
    float a[16][DEPTH], b[DEPTH][8], d[16][8]; /* (row, k), (k, column), (row, column) */
    bool multiplied; /* d is the sum: the first lane that goes on does it */
    const void *row[32];
} warp_values;

/* What each change reads lies together: threads change some hundred million times in a test. */
static struct machine {
    coroutine context[MAX_THREADS], scheduler;
    uint8_t state[MAX_THREADS];
    thread thread[MAX_THREADS];
    char *stacks;
    uint8_t *shared;
    uint32_t now, block[3];
    uint32_t launches;
    uint32_t step; /* to the thread that comes next: 1, or back to the one before */
    void (*kernel)(const void *);
    const void *args;
    warp_values value[2][WARPS];  /* of two collectives in turn */
    float number[2][MAX_THREADS]; /* the same of shuffles */
    void (*ahead)(const void *);  /* what has still to run for a kernel that began early */
    const void *ahead_args;
} machines[2], *e = machines; /* the second one runs what a kernel of the first waits for */

uint32_t emulator_thread(void)
{
    return e->now;
}

uint32_t emulator_block_x(void)
{
    return e->block[0];
}

uint32_t emulator_block_y(void)
{
    return e->block[1];
}

uint32_t emulator_block_z(void)
{
    return e->block[2];
}

/* To the next lane of the warp that can go on, and only behind the last one to the scheduler. */
static void leave(thread_state state)
{
    uint32_t me = e->now, next = me + e->step;
    e->state[me] = (uint8_t)state;
    while (next / 32 == me / 32 && e->state[next] != READY) next += e->step;
    if (next / 32 == me / 32) {
        e->now = next;
        change(&e->context[me], &e->context[next]);
    } else {
        change(&e->context[me], &e->scheduler);
    }
}

void emulator_sync(void)
{
    leave(AT_BLOCK);
}

void emulator_sync_warp(void)
{
    leave(AT_WARP);
}

void emulator_sync_group(void)
{
    leave(AT_GROUP);
}

void emulator_spin(void)
{
    leave(SPUN);
}

void emulator_grid_wait(void)
{
    e->thread[e->now].waited = true;
    if (e->ahead) leave(AT_GRID);
}

void emulator_grid_next(void)
{
    if (!emulator_waited()) emulator_fail("the next kernel may start before the one ahead is done");
}

bool emulator_waited(void)
{
    return e->thread[e->now].waited;
}

uint8_t *emulator_shared(void)
{
    return e->shared;
}

void emulator_fail(const char *what)
{
    fprintf(stderr, "emulator: block %u,%u,%u thread %u: %s\n", e->block[0], e->block[1],
            e->block[2], e->now, what);
    abort();
}

/* Where this lane brings what it has for its warp's next collective; complete behind meet(). */
static warp_values *bring(void)
{
    uint32_t me = e->now, side = e->thread[me].turn++ & 1;
    return &e->value[side][me / 32];
}

static void meet(void)
{
    leave(AT_WARP);
}

float emulator_shuffle_xor(float v, int mask)
{
    uint32_t me = e->now, side = e->thread[me].turn++ & 1;
    if (mask < 0 || mask > 31) emulator_fail("a shuffle beyond the warp");
    e->number[side][me] = v;
    leave(AT_WARP);
    return e->number[side][me ^ (uint32_t)mask];
}

/* The fragments of m16n8k16 as PTX lays them out: pairs along k, low half first. */
static void bring_halves(warp_values *w, const uint32_t *a, const uint32_t *b,
                         float (*to_float)(uint16_t))
{
    uint32_t lane = e->now % 32, row = lane / 4, k = lane % 4 * 2;
    for (uint32_t i = 0; i < 8; i++)
        w->a[row + i / 2 % 2 * 8][k + i % 2 + i / 4 * 8] =
            to_float((uint16_t)(a[i / 2] >> i % 2 * 16));
    for (uint32_t i = 0; i < 4; i++)
        w->b[k + i % 2 + i / 2 * 8][row] = to_float((uint16_t)(b[i / 2] >> i % 2 * 16));
}

/* Those of m16n8k32: four bytes along k. */
static void bring_bytes(warp_values *w, const uint32_t *a, const uint32_t *b,
                        float (*to_float)(uint8_t))
{
    uint32_t lane = e->now % 32, row = lane / 4, k = lane % 4 * 4;
    for (uint32_t i = 0; i < 16; i++)
        w->a[row + i / 4 % 2 * 8][k + i % 4 + i / 8 * 16] =
            to_float((uint8_t)(a[i / 4] >> i % 4 * 8));
    for (uint32_t i = 0; i < 8; i++)
        w->b[k + i % 4 + i / 4 * 16][row] = to_float((uint8_t)(b[i / 4] >> i % 4 * 8));
}

static float level_to_float(uint8_t v)
{
    return (int8_t)v;
}

/* d += a b, added in the order of k. */
FAKE_FAST static void multiply(warp_values *w, int depth)
{
    enum { TOGETHER = 4 };
    for (int r = 0; r < 16; r += TOGETHER) {
        float sum[TOGETHER][8];
        memcpy(sum, w->d[r], sizeof sum);
        for (int k = 0; k < depth; k++)
            for (int i = 0; i < TOGETHER; i++)
                for (int c = 0; c < 8; c++) sum[i][c] += w->a[r + i][k] * w->b[k][c];
        memcpy(w->d[r], sum, sizeof sum);
    }
}

/* d: this lane's, pairs of neighbours in rows 8 apart. */
static void add_products(float *d, warp_values *w, int depth)
{
    uint32_t lane = e->now % 32, row = lane / 4, column = lane % 4 * 2;
    float *place[2] = {&w->d[row][column], &w->d[row + 8][column]};
    for (int i = 0; i < 2; i++) memcpy(place[i], d + 2 * i, 2 * sizeof *d);
    w->multiplied = false;
    meet();
    if (!w->multiplied) multiply(w, depth);
    w->multiplied = true;
    for (int i = 0; i < 2; i++) memcpy(d + 2 * i, place[i], 2 * sizeof *d);
}

void emulator_mma(float *d, const uint32_t *a, const uint32_t *b, float (*to_float)(uint16_t))
{
    warp_values *w = bring();
    bring_halves(w, a, b, to_float);
    add_products(d, w, 16);
}

void emulator_mma_s8(int32_t *d, const uint32_t *a, const uint32_t *b)
{
    warp_values *w = bring();
    float sum[4] = {0}; /* of 32 products of levels: exact */
    bring_bytes(w, a, b, level_to_float);
    add_products(sum, w, 32);
    for (int i = 0; i < 4; i++) d[i] += (int32_t)sum[i];
}

void emulator_mma_fp8(float *d, const uint32_t *a, const uint32_t *b)
{
    warp_values *w = bring();
    bring_bytes(w, a, b, graft_f8_e4m3_to_f32);
    add_products(d, w, 32);
}

void emulator_load_matrices(uint32_t *to, const void *row)
{
    uint32_t lane = e->now % 32;
    warp_values *w = bring();
    w->row[lane] = row;
    meet();
    for (uint32_t m = 0; m < 4; m++)
        memcpy(&to[m], (const char *)w->row[m * 8 + lane / 4] + lane % 4 * 4, 4);
}

void emulator_async16(void *to, const void *from, int there)
{
    thread *t = &e->thread[e->now];
    if (t->copies == COPIES || (uintptr_t)to % 16 || (there && (uintptr_t)from % 16)) {
        fprintf(stderr, "emulator: an asynchronous copy too many, or not aligned\n");
        abort();
    }
    t->copy[t->copies++] = (async_copy){to, there ? from : NULL, t->group};
}

void emulator_async_commit(void)
{
    e->thread[e->now].group++;
}

void emulator_async_wait(uint32_t groups)
{
    thread *t = &e->thread[e->now];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->copies; i++) {
        const async_copy *c = &t->copy[i];
        if (c->group + groups >= t->group)
            t->copy[kept++] = *c;
        else if (c->from)
            memcpy(c->to, c->from, 16);
        else
            memset(c->to, 0, 16);
    }
    t->copies = kept;
}

/* A coroutine takes block after block: making a new one for each costs more than most kernels. */
static void thread_main(void)
{
    for (;;) {
        uint32_t me = e->now;
        e->kernel(e->args);
        if (e->thread[me].copies) {
            fprintf(stderr, "emulator: %u copies were never waited for\n", e->thread[me].copies);
            abort();
        }
        if (!e->thread[me].waited) emulator_fail("it did not wait for the kernels before");
        leave(DONE);
    }
}

static uint32_t count_in(uint32_t first, uint32_t end, thread_state state)
{
    uint32_t n = 0;
    for (uint32_t i = first; i < end; i++) n += e->state[i] == state;
    return n;
}

static void all_ready(uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (e->state[i] != DONE) e->state[i] = READY;
}

/* Until all lanes wait for more than their warp, or are done. */
static void run_warp(uint32_t first, uint32_t end)
{
    for (;;) {
        uint32_t i = e->step == 1 ? first : end - 1;
        while (i / 32 == first / 32 && e->state[i] != READY) i += e->step;
        if (i / 32 == first / 32) {
            e->now = i;
            change(&e->scheduler, &e->context[i]); /* and the ready lanes behind it, see leave() */
        }
        uint32_t waiting = count_in(first, end, AT_WARP);
        if (!waiting) return;
        if (waiting != end - first && count_in(first, end, SPUN)) return;
        if (waiting != end - first) {
            fprintf(stderr, "emulator: %u of %u lanes are at a barrier of their warp\n", waiting,
                    end - first);
            abort();
        }
        all_ready(first, end);
    }
}

/* Warpgroups whose threads are all here go on. */
static bool release_groups(uint32_t threads)
{
    bool any = false;
    for (uint32_t first = 0; first + 128 <= threads; first += 128)
        if (count_in(first, first + 128, AT_GROUP) == 128) {
            all_ready(first, first + 128);
            any = true;
        }
    return any;
}

static uint32_t spun_again(uint32_t threads)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < threads; i++)
        if (e->state[i] == SPUN) {
            e->state[i] = READY;
            n++;
        }
    return n;
}

/* Nobody can go on before the kernel ahead is done. */
static void run_ahead(void)
{
    void (*ahead)(const void *) = e->ahead;
    e->ahead = NULL;
    e++;
    hopper_use(1);
    ahead(machines[0].ahead_args);
    e--;
    hopper_use(0);
}

void emulator_begin_early(void (*ahead)(const void *), const void *args)
{
    machines[0].ahead = ahead;
    machines[0].ahead_args = args;
}

static void run_block(uint32_t threads)
{
    for (uint32_t i = 0; i < threads; i++) {
        e->state[i] = READY;
        e->thread[i].turn = 0;
        e->thread[i].waited = false;
    }
    uint64_t events = hopper_events();
    for (;;) {
        for (uint32_t i = 0; i < threads; i += 32) {
            uint32_t first = e->step == 1 ? i : threads - 32 - i;
            run_warp(first, first + 32);
        }
        uint32_t done = count_in(0, threads, DONE);
        if (done == threads) return;
        if (count_in(0, threads, AT_GRID)) {
            run_ahead();
            for (uint32_t i = 0; i < threads; i++)
                if (e->state[i] == AT_GRID) e->state[i] = READY;
            continue;
        }
        bool released = release_groups(threads);
        uint32_t spun = spun_again(threads);
        if (spun && !released && events == hopper_events() && !hopper_deliver())
            emulator_fail("all threads wait for each other");
        events = hopper_events();
        if (spun || released) continue;
        if (done) {
            fprintf(stderr, "emulator: %u of %u threads ended before a barrier\n", done, threads);
            abort();
        }
        if (count_in(0, threads, AT_BLOCK) != threads)
            emulator_fail("threads are at different barriers");
        all_ready(0, threads);
    }
}

/* Every second launch goes from the last block, warp and lane to the first one, so that a barrier
 * shows that is missing between two threads, whichever of them reads what the other writes. */
void emulator_launch(void (*kernel)(const void *), const void *args, const uint32_t grid[3],
                     uint32_t threads, uint32_t shared)
{
    if (threads > MAX_THREADS || threads % 32) abort();
    if (!e->stacks) {
        e->stacks = mmap(NULL, (size_t)MAX_THREADS * STACK_STEP, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (e->stacks == MAP_FAILED) abort();
        for (uint32_t i = 0; i < MAX_THREADS; i++)
            make(&e->context[i], e->stacks + (size_t)i * STACK_STEP, STACK, thread_main);
    }
    if (shared && posix_memalign((void **)&e->shared, 1024, shared)) abort();
    e->kernel = kernel;
    e->args = args;
    e->step = e->launches++ % 2 ? UINT32_MAX : 1;
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t block = e->step == 1 ? i : blocks - 1 - i;
        e->block[0] = (uint32_t)(block % grid[0]);
        e->block[1] = (uint32_t)(block / grid[0] % grid[1]);
        e->block[2] = (uint32_t)(block / grid[0] / grid[1]);
        if (shared) hopper_begin(e->shared, shared);
        run_block(threads);
        if (shared) hopper_end();
    }
    free(e->shared);
    e->shared = NULL;
}
