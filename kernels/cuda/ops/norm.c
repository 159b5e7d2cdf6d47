/* LAYER_NORM, RMS_NORM and GROUP_NORM. Of the last variant 0 is for all shapes; where channels can
 * be read eight at a time 1 has a launch less, and 2 is one launch for what fits into registers. */
#include <stdio.h>

#include "kernels/cuda/ops/op.h"

/* Rows that can be read eight values at a time: addresses and strides are multiples of 16 bytes. */
static bool by_eights(const graft_kernel *k, const graft_tensor_desc *t, const void *data)
{
    int64_t step = 16 / (int64_t)graft_dtype_size(k->t);
    bool yes = (uintptr_t)data % 16 == 0 && t->dim[t->rank - 1] % 8 == 0;
    for (int i = 0; i < t->rank - 1; i++) yes = yes && (t->stride[i] % step == 0 || t->dim[i] == 1);
    return yes;
}

static graft_status init_layer(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant, (void)e;
    graft_cuda_pack_plain(k, GRAFT_NORM_GAMMA, GRAFT_F32);
    graft_cuda_pack_plain(k, GRAFT_NORM_BETA, GRAFT_F32);
    return GRAFT_OK;
}

static graft_status check_constants(const graft_op_desc *op, graft_err *e)
{
    if (op->in[GRAFT_NORM_X].constant || !op->in[GRAFT_NORM_GAMMA].constant ||
        !op->in[GRAFT_NORM_BETA].constant)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "x must vary, gamma and beta be constant");
    return GRAFT_OK;
}

static bool of_each_entry(const graft_op_desc *op)
{
    return op->in[GRAFT_NORM_GAMMA].rank == 3;
}

static graft_status check_layer(const graft_op_desc *op, graft_err *e)
{
    if (!of_each_entry(op)) return check_constants(op, e);
    if (op->in[GRAFT_NORM_X].constant) return graft_fail(e, GRAFT_E_UNSUPPORTED, "x must vary");
    return GRAFT_OK;
}

/* The same of vectors of float32 that a kernel reads eight at a time. */
static bool vectors_by_fours(const graft_cuda_layer_norm *p)
{
    return ((uintptr_t)p->gamma | (uintptr_t)p->beta) % 16 == 0 && p->sgamma % 4 == 0 &&
           p->sbeta % 4 == 0;
}

static graft_cuda_function by_row(uint32_t row)
{
    return row <= GRAFT_CUDA_NORM_NARROW_ROW  ? GRAFT_CUDA_FN_graft_layer_norm8_narrow
           : row <= GRAFT_CUDA_NORM_SHORT_ROW ? GRAFT_CUDA_FN_graft_layer_norm8_short
                                              : GRAFT_CUDA_FN_graft_layer_norm8;
}

static graft_status launch_layer(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    (void)workspace;
    graft_cuda_layer_norm p = {.x = in[GRAFT_NORM_X],
                               .gamma = in[GRAFT_NORM_GAMMA],
                               .beta = in[GRAFT_NORM_BETA],
                               .out = out,
                               .eps = k->op.attrs.eps};
    graft_cuda_shape(&k->op.in[0], p.dim, p.sx);
    graft_cuda_shape(&k->op.out, NULL, p.so);
    p.rows = (uint32_t)(graft_ref_elements(&k->op.out) / p.dim[3]);
    if (of_each_entry(&k->op)) { /* whose batch is dimension 1 of the four */
        p.sgamma = k->op.in[GRAFT_NORM_GAMMA].stride[0];
        p.sbeta = k->op.in[GRAFT_NORM_BETA].stride[0];
    }
    p.vec =
        vectors_by_fours(&p) && by_eights(k, &k->op.in[0], p.x) && by_eights(k, &k->op.out, out);
    if (p.vec && p.dim[3] <= GRAFT_CUDA_NORM_ROW)
        return graft_cuda_launch(k->d, graft_cuda_typed(by_row(p.dim[3]), k->t),
                                 graft_cuda_blocks(p.rows, GRAFT_CUDA_NORM_THREADS / 32), 1, 1, &p);
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_layer_norm, k->t), p.rows,
                             1, 1, &p);
}

static graft_status check_rms(const graft_op_desc *op, graft_err *e)
{
    if (op->in[GRAFT_NORM_X].constant || !op->in[GRAFT_NORM_GAMMA].constant)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "x must vary, gamma be constant");
    return GRAFT_OK;
}

static graft_status init_rms(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant, (void)e;
    graft_cuda_pack_plain(k, GRAFT_NORM_GAMMA, GRAFT_F32);
    return GRAFT_OK;
}

static graft_status launch_rms(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    (void)workspace;
    graft_cuda_rms_norm p = {.x = in[GRAFT_NORM_X],
                             .gamma = in[GRAFT_NORM_GAMMA],
                             .out = out,
                             .heads = (uint32_t)k->op.attrs.heads,
                             .lanes = 1,
                             .eps = k->op.attrs.eps};
    graft_cuda_shape(&k->op.in[0], p.dim, p.sx);
    graft_cuda_shape(&k->op.out, NULL, p.so);
    p.width = p.dim[3] / p.heads;
    p.parts = (uint32_t)(graft_ref_elements(&k->op.out) / p.width);
    while (p.lanes < 32 && p.lanes * 8 < p.width) p.lanes *= 2;
    p.vec = p.width % 8 == 0 && (uintptr_t)p.gamma % 16 == 0 && by_eights(k, &k->op.in[0], p.x) &&
            by_eights(k, &k->op.out, out);
    return graft_cuda_launch(
        k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_rms_norm, k->t),
        graft_cuda_blocks((uint64_t)p.parts * p.lanes, GRAFT_CUDA_NORM_THREADS), 1, 1, &p);
}

static graft_status check_group(const graft_op_desc *op, graft_err *e)
{
    if (op->attrs.groups > GRAFT_CUDA_MAX_GROUPS || op->out.dim[0] > 65535)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%d groups of %lld pictures",
                          (int)op->attrs.groups, (long long)op->out.dim[0]);
    const graft_tensor_desc *m = &op->in[GRAFT_NORM_MOMENTS];
    if (graft_cuda_present(m) && (m->constant || !graft_ref_is_dense(m)))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "moments must vary and be dense");
    if (op->in[GRAFT_NORM_CHANNEL_ADD].constant)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "channel_add must vary");
    return check_constants(op, e);
}

/* Pixels of one group, and values of all channels, that one block reads for statistics; fewer of
 * small pictures, so that BLOCKS have something to do: the same number on every device, since the
 * order of sums depends on it. */
enum { STAT_PIXELS = 512, STAT_VALUES = 16384, STAT_LEAST = 4096, STAT_BLOCKS = 256 };

static uint32_t splits_of(const graft_op_desc *op, bool eights)
{
    int64_t pixels = op->out.dim[1] * op->out.dim[2], values = pixels * op->out.dim[3];
    int64_t n = eights ? values / STAT_VALUES : pixels / STAT_PIXELS;
    int64_t most = eights ? GRAFT_CUDA_STAT_MORE : GRAFT_CUDA_STAT_SPLITS;
    int64_t wanted = STAT_BLOCKS / op->out.dim[0];
    if (wanted > values / STAT_LEAST) wanted = values / STAT_LEAST;
    if (eights && n < wanted) n = wanted;
    if (n > pixels) n = pixels; /* none of them is empty */
    return n < 1 ? 1 : n > most ? (uint32_t)most : (uint32_t)n;
}

/* GROUP_NORM's variants; with given moments there is the first alone, which then is one launch. */
enum { THREE_LAUNCHES, TWO_LAUNCHES, ONE_LAUNCH };

/* Blocks of whole groups take channels of at least so many, of which eight neighbours never belong
 * to two blocks: 128 and 64 bytes of a pixel in 16 bits. */
enum { PART_CHANNELS = 64, WHOLE_CHANNELS = 32 };

/* Blocks for the statistics of all pictures, eights that each of them reads at least, and parts
 * that are put together: the same numbers on every device. */
enum { PART_BLOCKS = 256, PART_EIGHTS = 1024, PART_SPLITS = 128 };

/* Up to how many eights of a block one launch is the library's own choice, and up to how many
 * values of a picture two are: beyond, blocks have too much to do one after the other, and parts
 * are joined too often. */
enum { WHOLE_EIGHTS = 3072, JOINED_VALUES = 1 << 24 };

/* At least `least` channels, where there are as many, of whole groups and whole eights. */
static uint32_t slice_of(const graft_op_desc *op, uint32_t least)
{
    uint32_t channels = (uint32_t)op->out.dim[3], width = channels / (uint32_t)op->attrs.groups;
    uint32_t unit = width;
    while (unit % 8) unit += width;
    uint32_t slice = graft_cuda_blocks(least, unit) * unit;
    return slice < channels ? slice : channels;
}

/* Splits of a picture where blocks have `slice` channels. */
static uint32_t parts_of(const graft_op_desc *op, uint32_t slice)
{
    uint64_t pixels = (uint64_t)(op->out.dim[1] * op->out.dim[2]);
    uint64_t others = (uint64_t)op->out.dim[0] * graft_cuda_blocks((uint64_t)op->out.dim[3], slice);
    uint64_t n = PART_BLOCKS / others, most = pixels * (slice / 8) / PART_EIGHTS;
    if (n > most) n = most;
    if (n > PART_SPLITS) n = PART_SPLITS;
    if (n > pixels) n = pixels;
    return n < 1 ? 1 : (uint32_t)n;
}

/* Whether values can be read eight at a time as far as addresses allow it. */
static bool eights_fit(const graft_kernel *k)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_NORM_X], *out = &k->op.out;
    bool usual = k->op.attrs.act == GRAFT_ACT_NONE || k->op.attrs.act == GRAFT_ACT_SILU;
    return usual && x->stride[1] == x->dim[2] * x->stride[2] &&
           out->stride[1] == out->dim[2] * out->stride[2] &&
           x->dim[3] <= GRAFT_CUDA_NORM_CHANNELS && by_eights(k, x, NULL) &&
           by_eights(k, out, NULL);
}

/* Likewise for blocks of whole groups. */
static bool slices_fit(const graft_kernel *k)
{
    return eights_fit(k) && !graft_cuda_present(&k->op.in[GRAFT_NORM_MOMENTS]) &&
           slice_of(&k->op, PART_CHANNELS) <= GRAFT_CUDA_GROUP_SLICE;
}

/* Whether the registers of a block have room for a slice. */
static bool whole_fits(const graft_kernel *k)
{
    uint64_t pixels = (uint64_t)(k->op.out.dim[1] * k->op.out.dim[2]);
    uint32_t lanes = GRAFT_CUDA_GROUP_THREADS / (slice_of(&k->op, WHOLE_CHANNELS) / 8);
    uint64_t held = GRAFT_CUDA_GROUP_HELD / graft_dtype_size(k->t);
    return pixels <= lanes * held;
}

static int32_t own_choice(const graft_kernel *k, int32_t count)
{
    int64_t pixels = k->op.out.dim[1] * k->op.out.dim[2];
    int64_t eights = pixels * (slice_of(&k->op, WHOLE_CHANNELS) / 8);
    if (count > ONE_LAUNCH && eights <= WHOLE_EIGHTS) return ONE_LAUNCH;
    bool few = pixels * k->op.out.dim[3] <= JOINED_VALUES;
    return count > TWO_LAUNCHES && few ? TWO_LAUNCHES : THREE_LAUNCHES;
}

/* Addresses are not known here: room for all ways. */
static graft_status init_group(graft_kernel *k, int32_t variant, graft_err *e)
{
    static const char *const names[] = {"own", "own, two launches", "own, one launch"};
    uint64_t groups = (uint64_t)k->op.out.dim[0] * (uint64_t)k->op.attrs.groups;
    uint32_t few = splits_of(&k->op, false), many = splits_of(&k->op, true);
    if (slices_fit(k)) {
        uint32_t parts = parts_of(&k->op, slice_of(&k->op, PART_CHANNELS));
        if (parts > many) many = parts;
        k->info.variant_count = whole_fits(k) ? 3 : 2;
    }
    if (variant < k->info.variant_count) {
        k->way = variant < 0 ? own_choice(k, k->info.variant_count) : variant;
        k->info.variant_index = k->way;
        snprintf(k->info.variant, sizeof k->info.variant, "%s", names[k->way]);
    }
    k->part = groups * 2 * sizeof(float);
    k->info.workspace_bytes =
        k->part + groups * (few > many ? few : many) * sizeof(graft_cuda_stat);
    return init_layer(k, variant, e);
}

/* Slices of channels that keep nearly all threads of a block busy, and pixels of a block: fewer
 * than its threads can have under way where that leaves processors idle. Returns the slices. */
static uint32_t share_out(const graft_kernel *k, graft_cuda_group_norm *p, uint32_t batch)
{
    uint32_t eights = p->channels / 8, ahead = GRAFT_CUDA_NORM_AHEAD;
    uint32_t slices = graft_cuda_blocks(eights, GRAFT_CUDA_NORM_SLICE / 8);
    p->slice = graft_cuda_blocks(eights, slices) * 8;
    uint32_t lanes = GRAFT_CUDA_NORM_THREADS / (p->slice / 8);
    uint64_t pixels = (uint64_t)p->height * p->width, enough = 2 * (uint64_t)k->d->processors;
    while (ahead > 1 &&
           (uint64_t)graft_cuda_blocks(pixels, lanes * ahead) * slices * batch < enough)
        ahead /= 2;
    p->chunk = lanes * ahead;
    return slices;
}

/* A block norms whole groups of a picture by itself. */
static graft_status launch_whole(graft_kernel *k, graft_cuda_group_norm *p, uint32_t batch)
{
    p->slice = slice_of(&k->op, WHOLE_CHANNELS);
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_group_whole8, k->t),
                             graft_cuda_blocks(p->channels, p->slice), batch, 1, p);
}

/* Statistics of parts, and the norm, of which every block puts those of its groups together. */
static graft_status launch_two(graft_kernel *k, graft_cuda_group_norm *p, uint32_t batch)
{
    p->slice = slice_of(&k->op, PART_CHANNELS);
    p->splits = parts_of(&k->op, p->slice);
    graft_status st =
        graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_group_part8, k->t), p->splits,
                          batch, graft_cuda_blocks(p->channels, p->slice), p);
    uint32_t slices = share_out(k, p, batch);
    if (st) return st;
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_group_joined8, k->t),
                             graft_cuda_blocks((uint64_t)p->height * p->width, p->chunk), batch,
                             slices, p);
}

/* Statistics of parts, those put together, and the norm. */
static graft_status launch_eights(graft_kernel *k, graft_cuda_group_norm *p, uint32_t batch)
{
    if (k->way == ONE_LAUNCH) return launch_whole(k, p, batch);
    if (k->way == TWO_LAUNCHES) return launch_two(k, p, batch);
    graft_status st = GRAFT_OK;
    uint32_t slices = share_out(k, p, batch);
    p->splits = splits_of(&k->op, true);
    if (!p->moments) {
        st = graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_group_stat8, k->t),
                               p->splits, batch, 1, p);
        if (!st)
            st = graft_cuda_launch(k->d, GRAFT_CUDA_FN_graft_group_join,
                                   graft_cuda_blocks(p->groups, GRAFT_CUDA_NORM_THREADS / 32),
                                   batch, 1, p);
        p->moments = p->joined;
    }
    if (st) return st;
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_group_norm8, k->t),
                             graft_cuda_blocks((uint64_t)p->height * p->width, p->chunk), batch,
                             slices, p);
}

static graft_status launch_group(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_NORM_X];
    graft_cuda_group_norm p = {.x = in[GRAFT_NORM_X],
                               .gamma = in[GRAFT_NORM_GAMMA],
                               .beta = in[GRAFT_NORM_BETA],
                               .out = out,
                               .moments = in[GRAFT_NORM_MOMENTS],
                               .add = in[GRAFT_NORM_CHANNEL_ADD],
                               .sadd = k->op.in[GRAFT_NORM_CHANNEL_ADD].stride[0],
                               .stat = (graft_cuda_stat *)(void *)(workspace + k->part),
                               .joined = (float *)(void *)workspace,
                               .height = (uint32_t)x->dim[1],
                               .width = (uint32_t)x->dim[2],
                               .channels = (uint32_t)x->dim[3],
                               .groups = (uint32_t)k->op.attrs.groups,
                               .splits = splits_of(&k->op, false),
                               .act = k->op.attrs.act,
                               .eps = k->op.attrs.eps};
    uint32_t pixels = p.height * p.width, batch = (uint32_t)x->dim[0];
    p.chunk = 8192 / p.channels + 1;
    for (int i = 0; i < 3; i++) {
        p.sx[i] = x->stride[i];
        p.so[i] = k->op.out.stride[i];
    }
    if (eights_fit(k) && ((uintptr_t)p.x | (uintptr_t)out) % 16 == 0)
        return launch_eights(k, &p, batch);
    graft_status st = GRAFT_OK;
    if (!p.moments)
        st = graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_group_stat, k->t),
                               p.splits, p.groups, batch, &p);
    if (st) return st;
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_group_norm, k->t),
                             graft_cuda_blocks(pixels, p.chunk), batch, 1, &p);
}

const graft_cuda_op graft_cuda_op_layer_norm = {
    .check = check_layer, .init = init_layer, .launch = launch_layer};
const graft_cuda_op graft_cuda_op_rms_norm = {
    .check = check_rms, .init = init_rms, .launch = launch_rms, .inplace = true};
const graft_cuda_op graft_cuda_op_group_norm = {
    .check = check_group, .init = init_group, .launch = launch_group, .inplace = true};
