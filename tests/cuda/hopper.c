#include "tests/cuda/hopper.h"

#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/fake_fast.h"

#define EXPORT __attribute__((visibility("default")))

enum { RANK = 4, TILES = 64, PRODUCTS = 64, GROUP = 128, GROUPS = 4, MOST_SUMS = 128, SUMS = 2 };
enum { THREADS = 1024, TRY_NS = 10 * 1000 * 1000 }; /* of a block; of a try at a barrier */

/* cuTensorMapEncodeTiled() leaves this in the 128 bytes of a map. */
typedef struct map {
    uint64_t magic;
    const uint8_t *base;
    uint64_t dim[RANK], pitch[RANK]; /* elements; bytes to the next in each dimension */
    uint32_t box[RANK], rank;        /* elements */
    uint32_t bytes;                  /* of an element */
} map;
_Static_assert(sizeof(map) <= sizeof(graft_cuda_map), "as large as the driver's");
#define MAGIC 0x70616d726f736e65ull

typedef struct tile { /* on its way */
    map from;
    int32_t at[RANK];
    uint32_t to, barrier, rows;
} tile;

typedef struct product { /* of a warpgroup; group: its number among the committed */
    uint64_t a, b;
    const uint32_t *registers[GROUP]; /* with a; NULL: it is in shared memory */
    int n, add, in_registers;
    float (*to_float)(uint16_t); /* NULL: levels, and sums of int32 */
    void *d[GROUP];
    uint32_t group[GROUP];
    uint32_t seen; /* threads that came to it */
    bool done;
} product;

/* Sums of a thread while products into them are not finished. */
typedef struct held {
    void *d;
    int n, open;
    union {
        float f[MOST_SUMS];
        int32_t level[MOST_SUMS];
    } value;
} held;

typedef struct warpgroup {
    product list[PRODUCTS]; /* a ring, by number */
    uint64_t done;          /* products computed */
    uint64_t issued[GROUP]; /* of each thread: products, groups, and whether it may issue */
    uint32_t groups[GROUP];
    bool fenced[GROUP];
    held held[GROUP][SUMS];
} warpgroup;

static struct machine {
    uint8_t *shared;
    uint32_t bytes;
    tile tile[TILES];
    int tiles;
    uint32_t random;
    uint64_t events;
    bool initialized, fenced; /* barriers, and since then */
    uint64_t clock[THREADS], began[THREADS];
    uint32_t waits_for[THREADS]; /* what each of them began to wait for then */
    warpgroup *group;
} machines[2], *h = machines;

void hopper_use(int machine)
{
    h = &machines[machine];
}

static uint8_t *at(uint32_t address, uint32_t bytes, uint32_t align)
{
    if (address % align || address > h->bytes || bytes > h->bytes - address)
        emulator_fail("shared memory: an address outside, or not aligned");
    return h->shared + address;
}

EXPORT uint32_t hopper_blocks; /* that have begun */

void hopper_begin(uint8_t *shared, uint32_t bytes)
{
    hopper_blocks++;
    uint32_t random = h->random * 1664525u + 1013904223u;
    warpgroup *group = h->group ? h->group : malloc(GROUPS * sizeof *group);
    if (!group) abort();
    memset(group, 0, GROUPS * sizeof *group);
    memset(h, 0, sizeof *h);
    h->shared = shared;
    h->bytes = bytes;
    h->random = random;
    h->group = group;
    if (bytes) memset(shared, 0xff, bytes); /* NaN in all types */
}

void hopper_end(void)
{
    if (h->tiles) emulator_fail("a block ended before its tiles came");
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; i < GROUP; i++)
            if (h->group[g].issued[i] != h->group[g].done)
                emulator_fail("a block ended before its products were waited for");
}

uint64_t hopper_events(void)
{
    return h->events;
}

uint32_t hopper_address(const void *p)
{
    return (uint32_t)((const uint8_t *)p - h->shared);
}

/* ------------------------------------------------------------------ barriers */

typedef struct barrier { /* 64 bits, as there */
    uint64_t phase : 1, expected : 20, pending : 20;
    int64_t bytes : 22;
} barrier;
_Static_assert(sizeof(barrier) == 8, "a barrier has eight bytes");

static barrier load(uint32_t address)
{
    barrier b;
    memcpy(&b, at(address, 8, 8), sizeof b);
    return b;
}

static void store(uint32_t address, barrier b)
{
    if (b.pending == 0 && b.bytes == 0) {
        b.phase ^= 1;
        b.pending = b.expected;
        h->events++;
    }
    memcpy(at(address, 8, 8), &b, sizeof b);
}

void hopper_barrier_init(uint32_t address, uint32_t count)
{
    barrier b = {.expected = count, .pending = count};
    if (count < 1 || count >= 1u << 20) emulator_fail("a barrier's count");
    memcpy(at(address, 8, 8), &b, sizeof b);
    h->initialized = true;
    h->fenced = false;
}

void hopper_barrier_init_fence(void)
{
    h->fenced = true;
}

void hopper_barrier_arrive(uint32_t address, uint32_t bytes)
{
    barrier b = load(address);
    if (b.pending == 0) emulator_fail("more arrivals at a barrier than it expects");
    b.bytes += bytes;
    b.pending--;
    store(address, b);
}

EXPORT uint32_t hopper_hurry;      /* so many threads of a block find each wait too long */
EXPORT uint32_t hopper_patience;   /* blocks before the first of which they do */
EXPORT uint64_t hopper_longest_ns; /* wait of such a thread, from its first try to its last */

static bool has_ended(uint32_t address, uint32_t parity)
{
    if (parity > 1) emulator_fail("a parity is 0 or 1");
    return load(address).phase != parity;
}

int hopper_barrier_try(uint32_t address, uint32_t parity)
{
    uint32_t me = emulator_thread(), wait = address << 1 | parity;
    if (has_ended(address, parity)) return 1;
    if (hopper_hurry && hopper_blocks > hopper_patience &&
        (me < hopper_hurry || load(address).bytes == 0)) {
        if (h->waits_for[me] != wait) h->began[me] = h->clock[me];
        h->waits_for[me] = wait;
        h->clock[me] += TRY_NS;
        uint64_t waited = h->clock[me] - h->began[me];
        if (waited > hopper_longest_ns) hopper_longest_ns = waited;
        return 0;
    }
    emulator_spin();
    return has_ended(address, parity);
}

uint64_t hopper_nanoseconds(void)
{
    return h->clock[emulator_thread()];
}

/* ------------------------------------------------------------------ tiles */

static bool good_map(const map *m, const cuuint32_t *steps)
{
    bool good = (uintptr_t)m->base % 16 == 0 && m->box[0] * m->bytes == 128;
    for (uint32_t i = 0; i < m->rank; i++)
        good = good && m->dim[i] >= 1 && m->dim[i] <= 1ull << 32 && m->box[i] >= 1 &&
               m->box[i] <= 256 && steps[i] == 1 &&
               (i == 0 || (m->pitch[i] % 16 == 0 && m->pitch[i] < 1ull << 40));
    return good;
}

/* Matrices of 16-bit values or bytes, boxes that fill the 128-byte swizzle: no more is emulated. */
EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank,
                                       void *base, const cuuint64_t *dim, const cuuint64_t *stride,
                                       const cuuint32_t *box, const cuuint32_t *steps,
                                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                       CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill)
{
    uint32_t bytes = type == CU_TENSOR_MAP_DATA_TYPE_UINT8 ? 1 : 2;
    (void)l2;
    if ((uintptr_t)out % 64 || rank < 2 || rank > RANK ||
        interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || swizzle != CU_TENSOR_MAP_SWIZZLE_128B ||
        fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE ||
        (type != CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 && type != CU_TENSOR_MAP_DATA_TYPE_FLOAT16 &&
         bytes == 2))
        return CUDA_ERROR_INVALID_VALUE;
    map m = {.magic = MAGIC, .base = base, .rank = rank, .box = {1, 1, 1, 1}, .bytes = bytes};
    for (uint32_t i = 0; i < rank; i++) {
        m.dim[i] = dim[i];
        m.pitch[i] = i ? stride[i - 1] : bytes;
        m.box[i] = box[i];
    }
    memset(out, 0, sizeof *out);
    if (!good_map(&m, steps)) return CUDA_ERROR_INVALID_VALUE;
    memcpy(out, &m, sizeof m);
    return CUDA_SUCCESS;
}

enum { PIECE = 16 }; /* bytes that the swizzle leaves together */

/* Rows of the box lie one below the other; of an address, bits 7 to 9 are added, without carry, to
 * bits 4 to 6. */
static uint32_t swizzled(uint32_t address)
{
    return address ^ (address >> 7 & 7) << 4;
}

void hopper_tile_load(uint32_t to, const graft_cuda_map *from, const int32_t *place, uint32_t rank,
                      uint32_t barrier_at)
{
    tile t = {.to = to, .barrier = barrier_at};
    memcpy(&t.from, from, sizeof t.from);
    if (t.from.magic != MAGIC || (uintptr_t)from % 64) emulator_fail("no tensor map");
    if (t.from.rank != rank) emulator_fail("a place with another rank than the map's");
    if (!emulator_waited()) emulator_fail("a tile before the kernels ahead are done");
    if (!h->initialized || !h->fenced) emulator_fail("a tile for a barrier without its fence");
    if (h->tiles == TILES) emulator_fail("too many tiles on their way");
    memcpy(t.at, place, rank * sizeof *place);
    t.rows = t.from.box[1] * t.from.box[2] * t.from.box[3];
    load(barrier_at);
    memset(at(to, 128 * t.rows, 128), 0xff, 128 * t.rows);
    h->tile[h->tiles++] = t;
    h->events++;
}

/* PIECE bytes, which stay side by side, of a row that is there or not; x: the first element. */
static void copy_piece(const map *m, const uint8_t *row, int64_t x, uint8_t *to)
{
    int64_t size = m->bytes, n = PIECE / size;
    if (row && x >= 0 && x + n <= (int64_t)m->dim[0]) {
        memcpy(to, row + size * x, PIECE);
        return;
    }
    memset(to, 0, PIECE);
    for (int64_t i = 0; i < n && row; i++)
        if (x + i >= 0 && x + i < (int64_t)m->dim[0])
            memcpy(to + size * i, row + size * (x + i), (size_t)size);
}

/* Rows of the box, 128 bytes each, follow each other with the second dimension first. */
static void copy_tile(const tile *t)
{
    for (uint32_t r = 0; r < t->rows; r++) {
        const uint8_t *row = t->from.base;
        uint32_t rest = r;
        for (uint32_t i = 1; i < t->from.rank; i++) {
            int64_t y = t->at[i] + (int64_t)(rest % t->from.box[i]);
            rest /= t->from.box[i];
            if (y < 0 || y >= (int64_t)t->from.dim[i]) row = NULL;
            if (row) row += (uint64_t)y * t->from.pitch[i];
        }
        for (uint32_t c = 0; c < 128; c += PIECE)
            copy_piece(&t->from, row, (int64_t)t->at[0] + c / t->from.bytes,
                       at(swizzled(t->to + r * 128 + c), PIECE, PIECE));
    }
}

bool hopper_deliver(void)
{
    if (!h->tiles) return false;
    h->random = h->random * 1664525u + 1013904223u;
    int i = (int)(h->random >> 16) % h->tiles;
    tile t = h->tile[i];
    h->tile[i] = h->tile[--h->tiles];
    copy_tile(&t);
    barrier b = load(t.barrier);
    b.bytes -= 128 * t.rows;
    store(t.barrier, b);
    h->events++;
    return true;
}

/* ------------------------------------------------------------------ products */

static warpgroup *mine(uint32_t *thread)
{
    uint32_t me = emulator_thread();
    if (me >= GROUPS * GROUP) emulator_fail("a product by a thread that is of no warpgroup");
    *thread = me % GROUP;
    return &h->group[me / GROUP];
}

void hopper_wgmma_fence(void)
{
    uint32_t t;
    mine(&t)->fenced[t] = true;
}

/* The sums at d of thread t, or a place for them. */
static held *held_of(warpgroup *g, uint32_t t, const void *d)
{
    for (int i = 0; i < SUMS; i++)
        if (g->held[t][i].open && g->held[t][i].d == d) return &g->held[t][i];
    for (int i = 0; i < SUMS; i++)
        if (!g->held[t][i].open) return &g->held[t][i];
    emulator_fail("products into too many sums");
}

/* What nobody may look at yet. */
static void poison(void *d, int n, bool levels)
{
    const float none = NAN;
    const int32_t most = INT32_MAX;
    for (int i = 0; i < n; i++)
        memcpy((char *)d + (size_t)i * 4, levels ? (const void *)&most : &none, 4);
}

static void issue(void *d, const uint32_t *registers, const product *as)
{
    uint32_t t;
    warpgroup *g = mine(&t);
    product *p = &g->list[g->issued[t] % PRODUCTS];
    held *sums = held_of(g, t, d);
    if (!g->fenced[t]) emulator_fail("a product without a fence before it");
    if (g->issued[t]++ >= g->done + PRODUCTS) emulator_fail("too many products without a wait");
    if (p->seen == 0) *p = *as;
    if (p->a != as->a || p->b != as->b || p->n != as->n || p->add != as->add ||
        p->in_registers != as->in_registers || p->to_float != as->to_float)
        emulator_fail("threads of a warpgroup issue different products");
    p->seen++;
    p->d[t] = d;
    p->registers[t] = registers;
    p->group[t] = g->groups[t];
    if (sums->open++ == 0) {
        sums->d = d;
        sums->n = as->n / 2;
        memcpy(&sums->value, d, (size_t)sums->n * 4);
        poison(d, sums->n, !as->to_float);
    }
}

void hopper_wgmma(float *d, uint64_t a, uint64_t b, int add, int n, float (*to_float)(uint16_t))
{
    const product as = {.a = a, .b = b, .add = add, .n = n, .to_float = to_float};
    issue(d, NULL, &as);
}

void hopper_wgmma_s8(int32_t *d, uint64_t a, uint64_t b, int add, int n)
{
    const product as = {.a = a, .b = b, .add = add, .n = n};
    issue(d, NULL, &as);
}

void hopper_wgmma_add(float *d, const uint32_t *a, uint64_t b, int n, float (*to_float)(uint16_t))
{
    const product as = {.b = b, .add = 1, .n = n, .in_registers = 1, .to_float = to_float};
    issue(d, a, &as);
}

void hopper_wgmma_commit(void)
{
    uint32_t t;
    mine(&t)->groups[t]++;
}

enum { ROWS = 64, MOST_COLUMNS = 256, DEPTH = 16, DEPTH_OF_LEVELS = 32, HALVES = PIECE / 2 };
enum { TOGETHER = 16 };
typedef float strip __attribute__((vector_size(TOGETHER * sizeof(float))));

/* An operand's values as floats, (row, k) at out[row * row_step + k * k_step]: rows of 128 bytes,
 * eight of them to 1024, groups of eight `stride` bytes apart. */
static void read_operand(uint64_t desc, int rows, float (*to_float)(uint16_t), float *out,
                         int row_step, int k_step)
{
    uint32_t start = (uint32_t)(desc & 0x3fff) << 4, stride = (uint32_t)(desc >> 32 & 0x3fff) << 4;
    if (desc >> 62 != 1 || (desc >> 49 & 7) != 0) emulator_fail("a descriptor's swizzle or base");
    if (start % 128 + 32 > 128) emulator_fail("an operand across the swizzle's rows");
    for (int r = 0; r < rows; r++) {
        float *to = out + r * row_step;
        for (uint32_t k = 0; k < 32; k += PIECE) {
            uint32_t address = start + (uint32_t)(r / 8) * stride + (uint32_t)(r % 8) * 128;
            const uint8_t *from = at(swizzled(address + k), PIECE, PIECE);
            uint16_t v[HALVES];
            memcpy(v, from, PIECE);
            for (int i = 0; i < HALVES && to_float; i++, to += k_step) *to = to_float(v[i]);
            for (int i = 0; i < PIECE && !to_float; i++, to += k_step) *to = (float)(int8_t)from[i];
        }
    }
}

/* The transposed one as floats, [16][MOST_COLUMNS]: its rows of 16 are columns of a matrix in
 * memory, of which 64 columns lie in rows of 128 bytes, eight rows to 1024, groups of eight rows
 * `stride` bytes apart, the next 64 columns `leading` bytes. */
static void read_rows(uint64_t desc, int columns, float (*to_float)(uint16_t), float *out)
{
    uint32_t start = (uint32_t)(desc & 0x3fff) << 4, stride = (uint32_t)(desc >> 32 & 0x3fff) << 4;
    uint32_t leading = (uint32_t)(desc >> 16 & 0x3fff) << 4;
    if (desc >> 62 != 1 || (desc >> 49 & 7) != 0) emulator_fail("a descriptor's swizzle or base");
    if (start % 1024) emulator_fail("a transposed operand that begins within the swizzle");
    for (int k = 0; k < DEPTH; k++)
        for (int c = 0; c < columns; c += HALVES) {
            uint32_t address = start + (uint32_t)(c / 64) * leading + (uint32_t)(k / 8) * stride +
                               (uint32_t)(k % 8) * 128 + (uint32_t)(c % 64) * 2;
            uint16_t v[HALVES];
            memcpy(v, at(swizzled(address), PIECE, PIECE), sizeof v);
            for (int i = 0; i < HALVES; i++) out[k * MOST_COLUMNS + c + i] = to_float(v[i]);
        }
}

/* What the threads have in registers: pairs of neighbours, low half first; of thread t rows 8
 * apart in turns, then columns 8 apart. */
static void read_registers(const product *p, float *out)
{
    for (int t = 0; t < GROUP; t++)
        for (int i = 0; i < 8; i++) {
            int row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8;
            int column = t % 4 * 2 + i % 2 + i / 4 * 8;
            out[row * DEPTH + column] =
                p->to_float((uint16_t)(p->registers[t][i / 2] >> i % 2 * 16));
        }
}

/* Whether four rows of a product are zeros, as those beyond a matrix are. */
FAKE_UNCHECKED static bool all_zeros(const float *rows, int depth)
{
    bool any = false;
    for (int i = 0; i < 4 * depth; i++) any |= rows[i] != 0;
    return !any;
}

/* Whether all that zeros are multiplied with are numbers. */
FAKE_FAST static bool all_finite(const strip (*b)[MOST_COLUMNS / TOGETHER], int n, int depth)
{
    strip sum = {0};
    float any = 0;
    for (int k = 0; k < depth; k++)
        for (int c = 0; c * TOGETHER < n; c++) sum += b[k][c] * 0;
    for (int i = 0; i < TOGETHER; i++) any += sum[i];
    return any == 0;
}

/* Of a (ROWS, depth) and b (depth, n) into d; of levels as exact as integers would be. Columns
 * beyond n get what is of no use. Not checked by sanitizers, under which most of a test would go by
 * here: the arrays are compute()'s, and n was seen to be right. */
FAKE_FAST static void multiply(const float *a, const strip (*b)[MOST_COLUMNS / TOGETHER], int n,
                               int depth, strip (*d)[MOST_COLUMNS / TOGETHER])
{
    bool finite = false; /* b, as far as is known */
    for (int r = 0; r < ROWS; r += 4) {
        if (all_zeros(a + r * depth, depth) && (finite = finite || all_finite(b, n, depth))) {
            memset(d[r], 0, 4 * sizeof d[r]);
            continue;
        }
        for (int c = 0; c * TOGETHER < n; c++) {
            strip sum[4] = {{0}};
            for (int k = 0; k < depth; k++)
                for (int i = 0; i < 4; i++) sum[i] += a[(r + i) * depth + k] * b[k][c];
            for (int i = 0; i < 4; i++) d[r + i][c] = sum[i];
        }
    }
}

/* What thread t has of d, n values: pairs of rows 8 apart. Not checked likewise; held values and d
 * have room for what compute() looks at first. */
FAKE_UNCHECKED static void sum_up(float (*d)[MOST_COLUMNS], int t, bool levels, bool add, held *to)
{
    int row = t / 32 * 16 + t % 32 / 4;
    for (int i = 0; i < to->n; i += 4) {
        const float *high = &d[row][i * 2 + t % 4 * 2], *low = &d[row + 8][i * 2 + t % 4 * 2];
        const float v[4] = {high[0], high[1], low[0], low[1]};
        for (int k = 0; k < 4 && levels; k++)
            to->value.level[i + k] = (add ? to->value.level[i + k] : 0) + (int32_t)v[k];
        for (int k = 0; k < 4 && !levels; k++)
            to->value.f[i + k] = add ? to->value.f[i + k] + v[k] : v[k];
    }
}

static void compute(warpgroup *g, product *p)
{
    static float a[ROWS * DEPTH_OF_LEVELS]; /* stacks are small */
    static union {
        float value[DEPTH_OF_LEVELS][MOST_COLUMNS];
        strip together[DEPTH_OF_LEVELS][MOST_COLUMNS / TOGETHER];
    } b;
    static union {
        float value[ROWS][MOST_COLUMNS];
        strip together[ROWS][MOST_COLUMNS / TOGETHER];
    } d;
    int depth = p->to_float ? DEPTH : DEPTH_OF_LEVELS;
    if (p->n < 8 || p->n > MOST_COLUMNS || p->n % 8) emulator_fail("a product's width");
    if (p->in_registers) {
        read_registers(p, a);
        read_rows(p->b, p->n, p->to_float, b.value[0]);
    } else {
        read_operand(p->a, ROWS, p->to_float, a, depth, 1);
        read_operand(p->b, p->n, p->to_float, b.value[0], 1, MOST_COLUMNS);
    }
    multiply(a, b.together, p->n, depth, d.together);
    for (int t = 0; t < GROUP; t++) {
        held *sums = held_of(g, (uint32_t)t, p->d[t]);
        sum_up(d.value, t, !p->to_float, p->add, sums);
        if (--sums->open == 0) memcpy(sums->d, &sums->value, (size_t)sums->n * 4);
    }
    p->done = true;
    p->seen = 0;
}

/* All products of groups but the last `groups`, once all threads are here. */
void hopper_wgmma_wait(uint32_t groups)
{
    uint32_t t;
    warpgroup *g = mine(&t);
    emulator_sync_group();
    while (g->done < g->issued[t]) {
        product *p = &g->list[g->done % PRODUCTS];
        if (p->seen != GROUP) emulator_fail("not all threads of a warpgroup issue a product");
        if (p->group[t] + groups >= g->groups[t]) break;
        compute(g, p);
        g->done++;
    }
    g->fenced[t] = false;
}
