/* The arguments of the device kernels: one struct a kernel, filled on the host, passed by value.
 * Plain C that both compilers lay out alike. Strides are in elements; shapes have four dimensions,
 * missing ones in front are 1. */
#ifndef GRAFT_KERNELS_CUDA_PARAMS_H
#define GRAFT_KERNELS_CUDA_PARAMS_H
#include <stdint.h>

enum { /* threads of a block */
       GRAFT_CUDA_THREADS = 256,
       GRAFT_CUDA_NORM_THREADS = 256,
       GRAFT_CUDA_ATTENTION_THREADS = 128,
       GRAFT_CUDA_WGMMA_THREADS = 288,      /* two warpgroups that multiply, a warp that fetches */
       GRAFT_CUDA_WGMMA_MORE_THREADS = 384, /* a warpgroup that fetches */
       GRAFT_CUDA_FLASH_MORE_THREADS = 512, /* three that multiply, and one that fetches */
       GRAFT_CUDA_MAX_GROUPS = 1024,
       GRAFT_CUDA_STAT_SPLITS = 64,     /* at most, of the pixels of one group */
       GRAFT_CUDA_STAT_MORE = 256,      /* likewise, where they are read eight channels at a time */
       GRAFT_CUDA_NORM_CHANNELS = 4096, /* so read at most */
       GRAFT_CUDA_NORM_SLICE = 640,     /* of these at most has a block that norms them */
       GRAFT_CUDA_NORM_AHEAD = 4,       /* pixels of which a thread of it has values under way */
       GRAFT_CUDA_GROUP_THREADS = 512,  /* of blocks of whole groups */
       GRAFT_CUDA_GROUP_SLICE = 512,    /* channels of such a block, at most */
       GRAFT_CUDA_GROUP_HELD = 32,      /* bytes of each of eight channels that a thread holds */
       GRAFT_CUDA_NORM_ROW = 2048,
       GRAFT_CUDA_NORM_SHORT_ROW = 1280, /* with fewer registers */
       GRAFT_CUDA_NORM_NARROW_ROW = 768, /* and fewer again */
       GRAFT_CUDA_QUANT_SPLITS = 32,     /* of one picture, while its largest value is looked for */
       GRAFT_CUDA_MERGE_ROWS = 8,
       GRAFT_CUDA_WAVE_SPLITS = 16, /* at most, of the rows of one picture */
       GRAFT_CUDA_WAVES = 7,        /* 1, cos and sin of u, of v and of u + v (ops.def) */
       GRAFT_CUDA_MAX_HEAD = 512,
       GRAFT_CUDA_HALF = 0x7fffffff
};

/* out[i] = a (op) b, with b broadcast by strides of 0. */
enum {
    GRAFT_CUDA_ACT = 0, /* act(a) */
    GRAFT_CUDA_ADD,     /* act(a + b) */
    GRAFT_CUDA_MUL,
    GRAFT_CUDA_SCALE,  /* a * scale + shift */
    GRAFT_CUDA_GEGLU,  /* a * gelu(b) */
    GRAFT_CUDA_FINISH, /* act(a + b + c); b and c may be NULL */
    GRAFT_CUDA_PRELU,  /* a, or a * b where a is negative */
    GRAFT_CUDA_GATE    /* c + a * b */
};
typedef struct graft_cuda_elementwise {
    const void *a, *b, *c;
    void *out;
    int64_t sa[4], sb[4], sc[4], so[4];
    uint32_t dim[4];
    uint32_t count;
    int32_t op, act;
    float scale, shift;
    int32_t flat;     /* all four tensors are dense and of one shape */
    int32_t b_is_f32; /* whatever the others are */
} graft_cuda_elementwise;

/* out = act(x + residual), all dense; residual may be NULL. eights: of all values. */
typedef struct graft_cuda_acts {
    const void *x, *residual;
    void *out;
    uint32_t eights;
    int32_t act;
} graft_cuda_acts;

/* out = residual + a * b, eight values at a time: a, residual and out are (N, T, C), b has a row
 * for each entry of N. */
typedef struct graft_cuda_gate {
    const void *a, *residual;
    const float *b;
    void *out;
    int64_t sa[2], sr[2], so[2], sb; /* entry, token */
    uint32_t tokens, eights, count;  /* eights: of a row; count: of all rows */
} graft_cuda_gate;

/* Rows of pairs, dense, to rows of a * gelu(b); eights: of results in a row. */
typedef struct graft_cuda_pairs {
    const void *wide;
    void *out;
    int64_t so;
    uint32_t eights, count; /* count: eights of all rows */
} graft_cuda_pairs;

/* Pictures to rows, one for each pixel of a convolution's result: what it reads, tap by tap,
 * channels inside, zeros outside; eight values of 16 bits at a time. up: x is read as if each pixel
 * were doubled, which in_h and in_w are after. */
typedef struct graft_cuda_unfold {
    const void *src;
    void *dst;
    int64_t ss[3];
    uint32_t count, eights, taps, kernel_w; /* count: eights of all rows; eights: of a pixel */
    uint32_t out_h, out_w;
    int32_t in_h, in_w, stride_h, stride_w, pad_top, pad_left, up;
} graft_cuda_unfold;

/* A picture from its corners, of which each holds the channels of four pixels one behind the other
 * (conv2d_corners.h); eight values of 16 bits at a time. vec: dst is a multiple of 16 bytes. */
typedef struct graft_cuda_corners {
    const void *src; /* dense (N, out_h / 2 + 1, out_w / 2 + 1, 4, channels) */
    void *dst;
    int64_t sd[3];
    uint32_t count, eights, out_h, out_w; /* count: eights of all pixels; eights: of one */
    int32_t vec;
} graft_cuda_corners;

/* Elements moved, converted when from and to differ, enlarged when in_h is not 0. */
typedef struct graft_cuda_move {
    const void *src;
    void *dst;
    int64_t ss[4], sd[4];
    uint32_t dim[4]; /* of dst */
    uint32_t count;
    int32_t from, to;    /* graft_dtype */
    uint32_t in_h, in_w; /* GRAFT_CUDA_HALF: place i reads i / 2 */
    int32_t size;        /* bytes of an element that is not converted */
} graft_cuda_move;

/* dst[i,j,k,c] = row number id of src; zeros where the id is outside. */
typedef struct graft_cuda_rows {
    const void *src, *ids;
    void *dst;
    int64_t sid[4], sbatch[4], srow, sd[4];
    int64_t limit;
    uint32_t dim[4];
    uint32_t count;
    int32_t wide_ids; /* int64 */
    int32_t size;     /* of an element */
} graft_cuda_rows;

/* Merged tokens of x (N, tokens, channels). MATCH_TOKENS fills the table, by way of three numbers a
 * token: 1 / |x|, the largest cosine with a target, and which one that is, -1 for targets.
 * MERGE_TOKENS reads the table. */
typedef struct graft_cuda_tokens {
    const void *x;
    void *out;
    int32_t *table, *found;
    float *length, *best;
    int64_t sx[2], so[2], stable; /* entry, token */
    uint32_t count, tokens, channels, rows, columns, pattern, left, sources, targets;
    int32_t vec; /* x can be read 16 bytes at a time */
} graft_cuda_tokens;

/* ROUTE: a thread a row. */
typedef struct graft_cuda_route {
    const void *x;
    void *out;
    int64_t sx[4], so[4];
    uint32_t dim[4];
    uint32_t rows, choices, taken;
} graft_cuda_route;

typedef struct graft_cuda_timestep {
    const float *t;
    void *out;
    int64_t st, so;
    uint32_t batch, half;
} graft_cuda_timestep;

typedef struct graft_cuda_layer_norm {
    const void *x;
    const float *gamma, *beta;
    void *out;
    int64_t sx[4], so[4];
    int64_t sgamma, sbeta; /* from one place of dimension 1 to the next; 0: the same for all */
    uint32_t dim[4];
    uint32_t rows;
    int32_t vec; /* rows, gamma and beta can be accessed 16 bytes at a time */
    float eps;
} graft_cuda_layer_norm;

/* RMS_NORM of parts of `width` values, each by `lanes` neighbouring threads: 1, 2, 4, ... 32. */
typedef struct graft_cuda_rms_norm {
    const void *x;
    const float *gamma;
    void *out;
    int64_t sx[4], so[4];
    uint32_t dim[4]; /* dim[3]: of all heads */
    uint32_t parts, heads, width, lanes;
    int32_t vec; /* all parts and gamma can be accessed 16 bytes at a time */
    float eps;
} graft_cuda_rms_norm;

/* ROPE: a block a token. */
typedef struct graft_cuda_rope {
    const void *x;
    void *out;
    int64_t sx[2], so[2];        /* of entries and tokens */
    uint32_t tokens;             /* of an entry */
    uint32_t before, cells;      /* those ahead of the grid, and of it */
    uint32_t columns;            /* of the grid */
    uint32_t channels, width;    /* of a token, of a head */
    uint32_t last;               /* values of a head behind those that turn */
    uint32_t place[3], pairs[3]; /* of the grid, its first row and its first column, and how many
                                    pairs of a head turn with each */
    int32_t vec;                 /* all heads can be accessed 16 bytes at a time */
    int32_t mixed;               /* a head's pairs go round (kernels/rope.h) */
    int32_t down;                /* likewise: rows are counted down */
    double base;                 /* of the angles */
} graft_cuda_rope;

/* A part of a group's statistics: how many values, their mean, squared distances from it. */
typedef struct graft_cuda_stat {
    float count, mean, m2;
} graft_cuda_stat;

typedef struct graft_cuda_group_norm {
    const void *x;
    const float *gamma, *beta;
    void *out;
    const float *moments; /* [batch][group]: mean and variance; NULL: those of stat */
    const void *add;      /* to x: [batch][channel], rows sadd apart; may be NULL */
    int64_t sadd;
    graft_cuda_stat *stat; /* [batch][group][split] */
    float *joined;         /* [batch][group]: mean and variance, made of stat */
    int64_t sx[3], so[3];
    uint32_t height, width, channels, groups, splits;
    uint32_t chunk; /* pixels of an apply block */
    uint32_t slice; /* channels of a block, a multiple of eight */
    int32_t act;
    float eps;
} graft_cuda_group_norm;

/* MEAN_SCALE. mean: of each pixel, [batch][pixel]; then what its first half counts. */
typedef struct graft_cuda_mean {
    const void *x;
    void *out;
    const float *factor;
    float *mean;
    int64_t sx[3], so[3];
    uint32_t width, channels;
    uint32_t pixels; /* of a picture */
    uint32_t count;  /* pixels of all */
} graft_cuda_mean;

/* LOW_SCALE. table: cos and sin of u of each row, then those of v of each column. */
typedef struct graft_cuda_wave {
    const void *x;
    void *out;
    const float *factor;
    float *table;
    float *sums; /* [batch][split][wave][channel] */
    int64_t sx[3], so[3];
    uint32_t height, width, channels, splits;
} graft_cuda_wave;

/* out = act(x * w^T + bias + channel_add + residual) where row m of x is gathered as a convolution
 * reads it; LINEAR is a convolution of 1 x 1. w: rows of ldw elements, tap by tap, channels inside.
 * geglu: columns 2i and 2i + 1 are a and b of a * gelu(b), which is column i of out. */
typedef struct graft_cuda_matmul {
    const void *x, *w, *bias, *channel_add, *residual;
    void *out;
    int64_t sx[3], so[3], sr[3], sadd;
    int32_t m, n, k, ldw;
    int32_t out_h, out_w, in_h, in_w; /* in_h, in_w: after doubling */
    int32_t channels, kernel_w, stride_h, stride_w, pad_top, pad_left;
    int32_t up; /* 1: x is read as if each pixel were doubled */
    int32_t act, geglu;
    int32_t vec; /* rows of x can be read 16 bytes at a time */
} graft_cuda_matmul;

/* A matrix and the boxes in which it is read; the driver's CUtensorMap, aligned as CUDA 13 has it.
 */
typedef struct __attribute__((aligned(128))) graft_cuda_map {
    uint64_t opaque[16];
} graft_cuda_map;

/* out(m,n) = act(x(m,k) w(n,k)^T + bias + residual), rows ld* elements apart; geglu as above. Of
 * levels a sum counts row_scale[m] * column_scale[n], and column_bias is added, not bias. */
typedef struct graft_cuda_wgmma {
    graft_cuda_map x, w;
    const void *bias, *residual;
    const float *row_scale, *column_scale, *column_bias;
    void *out;
    int64_t ldo, ldr;
    int32_t m, n, k;
    int32_t tiles_m, tiles_n;
    int32_t blocks; /* of wgmma_turns.inc */
    int32_t act, geglu;
    int32_t vec;       /* rows of out and residual can be accessed 16 bytes at a time (geglu: 8) */
    uint32_t patience; /* ms until a barrier counts as lost */
    int32_t trial;     /* give up quietly then */
} graft_cuda_wgmma;
/* The product of levels, int8 or E4M3: x and w of `m` are levels, rows of both multiples of 16
 * bytes, bias is float32 or narrow. A sum counts row_scale[m / rows_per_scale] * column_scale[n].
 */
typedef struct graft_cuda_int8 {
    graft_cuda_matmul m;
    const float *row_scale, *column_scale;
    int32_t rows_per_scale;
    int32_t narrow; /* the bias has the result's dtype */
} graft_cuda_int8;

/* Rows of values to levels and a scale each (kernels/quant.h); ld: bytes from row to row, zeros
 * behind the n values. */
typedef struct graft_cuda_quant_rows {
    const void *x;
    int8_t *level;
    float *scale;
    int64_t sx[4];
    uint32_t dim[4]; /* dim[3]: n */
    uint32_t rows, ld;
    int32_t vec; /* rows can be read 16 bytes at a time */
    int32_t quant;
} graft_cuda_quant_rows;

/* The same of rows that are normed first, as by LAYER_NORM. */
typedef struct graft_cuda_normed_rows {
    graft_cuda_quant_rows to;
    const float *gamma, *beta;
    float eps;
} graft_cuda_normed_rows;

/* The same of rows that are multiplied by a Hadamard matrix (kernels/hadamard.h), each `group`
 * values by themselves; where there is a gamma, of normed ones. warps: that share a row, 1, 2, 4
 * or 8. */
typedef struct graft_cuda_turned_rows {
    graft_cuda_quant_rows to;
    const float *gamma, *beta;
    float eps;
    uint32_t group, warps;
} graft_cuda_turned_rows;

/* Pictures to levels, (N, height, width, ld) dense; up: height and width are after doubling. `most`
 * has `splits` largest values for each picture; each gets `copies` copies of its scale. */
typedef struct graft_cuda_quant_pictures {
    const void *x;
    int8_t *level;
    float *scale, *most;
    int64_t sx[3];
    uint32_t from_h, from_w, height, width, channels, ld, up, splits, blocks, copies;
    int32_t vec, quant;
} graft_cuda_quant_pictures;

/* A weight (rows, channels, taps) to levels, rows of ldw bytes as in graft_cuda_pack but with the
 * channels of each tap padded to `padded`; behind them a scale a row. from may be GRAFT_Q8
 * or GRAFT_QF8, that of `quant`. */
typedef struct graft_cuda_quant_weights {
    const void *src;
    int8_t *level;
    float *scale;
    int32_t from, pairs, quant;
    uint32_t rows, channels, taps, padded;
} graft_cuda_quant_weights;

/* Floats to GRAFT_Q4, one warp a group; and back to rows as graft_cuda_pack writes them. */
typedef struct graft_cuda_quant4 {
    const void *src;
    void *dst;
    int32_t from, pairs;
    uint32_t rows, channels, taps, ldw, groups;
} graft_cuda_quant4;

/* Blocks (kernels/blocks.h) of a weight (rows, columns), from a multiple of 16 bytes on: of floats,
 * Q8_0, one warp a block; and back to rows first … first + count of ldw values, a multiple of 8, as
 * graft_cuda_pack writes them, to a multiple of 16 bytes. type: of all threads. scales: of rows,
 * where the type has such. */
typedef struct graft_cuda_block {
    const void *src;
    void *dst;
    const uint8_t *scales;
    int32_t from, pairs, type;
    uint32_t rows, columns, ldw, first, count;
} graft_cuda_block;

typedef struct graft_cuda_attention {
    const void *q, *k, *v;
    void *out;
    int64_t sq[2], sk[2], sv[2], so[2]; /* batch, token */
    int32_t queries, keys, heads, head_dim, causal;
    int32_t vec;
    float scale;
    const float *bias;    /* of graft_attention: added to scores; NULL: none */
    int64_t sbias[2];     /* head, query */
    const int32_t *count; /* of each of the batch, how many keys count; NULL: all */
    float cap;            /* with bias: what scores approach (ops.def, shift); 0: they do not */
} graft_cuda_attention;

/* The same for Hopper. Maps have the dimensions channel of a head, head, token, batch. */
typedef struct graft_cuda_flash {
    graft_cuda_map q, k, v;
    void *out;
    int64_t so[2]; /* batch, token; multiples of 8, as are channels of a head */
    int32_t queries, keys, head_dim;
    float scale;       /* times 1 / ln 2, > 0 */
    uint32_t patience; /* as above */
    int32_t trial;
    const int32_t *count; /* as above */
} graft_cuda_flash;

/* Rows of `keys` scores to as many shares of 16 bits, both `ld` values apart; may write up to ld.
 */
typedef struct graft_cuda_shares {
    const float *scores;
    void *shares;
    int64_t ld; /* a multiple of 8 */
    int32_t keys;
    float scale; /* times 1 / ln 2, > 0 */
} graft_cuda_shares;

/* out[i] = factor[0] * in[0][i] + …, in double; count 0: factor[0]. */
typedef struct graft_cuda_mix {
    float *out;
    const float *in[4];
    double factor[4];
    uint64_t n;
    uint32_t count;
} graft_cuda_mix;

/* Eights of values of 16 bits become float32; both begin at multiples of 32 bytes. */
typedef struct graft_cuda_widen {
    const void *src;
    float *dst;
    uint32_t eights;
} graft_cuda_widen;

/* sum(rows,columns) += factor * up(rows,rank) down(rank,columns), float32; one block does
 * GRAFT_CUDA_MERGE_ROWS rows of as many columns as it has threads. */
typedef struct graft_cuda_merge {
    const void *up, *down;
    float *sum;
    uint32_t rows, columns, rank, blocks; /* blocks: those of one row */
    int32_t up_dtype, down_dtype;
    float factor;
} graft_cuda_merge;

/* A weight from the dense (rows, channels, taps) of a checkpoint to rows of ldw elements, taps
 * outside, padded with zeros. pairs: row 2i is source row i, row 2i + 1 source row rows/2 + i. */
typedef struct graft_cuda_pack {
    const void *src;
    void *dst;
    int32_t from, to; /* graft_dtype */
    uint32_t rows, channels, taps, ldw;
    int32_t pairs;
} graft_cuda_pack;
#endif
