/* Networks that enlarge pictures, by the names and shapes of their tensors. */
#include <string.h>

#include "engine/models/detect/detect_parts.h"
#include "engine/models/vaes/upscaler.h"

#define MAX_BLOCKS    64
#define MAX_WIDTH     1024 /* features, growth */
#define MAX_DOUBLINGS 3
#define MAX_FACTOR    8

typedef struct naming {
    graft_upscaler_names names;
    const char *first, *dense, *up; /* first convolution; the first of a block's; up-sampling's */
    const char *last;               /* NULL: numbered as up-samplings are */
} naming;
static const naming namings[] = {
    {GRAFT_UPSCALER_PLAIN, "conv_first.weight", "body.%d.rdb1.conv1.weight", "conv_up%d.weight",
     "conv_last.weight"},
    {GRAFT_UPSCALER_TRUNK, "conv_first.weight", "RRDB_trunk.%d.RDB1.conv1.weight",
     "upconv%d.weight", "conv_last.weight"},
    {GRAFT_UPSCALER_SEQUENTIAL, "model.0.weight", "model.1.sub.%d.RDB1.conv1.0.weight",
     "model.%d.weight", NULL}};
#define N_NAMINGS (sizeof namings / sizeof *namings)

/* A name with one number in it, from the table above. */
static const graft_st_tensor *numbered(const graft_safetensors *f, const char *prefix,
                                       const char *pattern, int number)
{
    const char *hole = strstr(pattern, "%d");
    return graft_detect_find(f, prefix, "%.*s%d%s", (int)(hole - pattern), pattern, number,
                             hole + 2);
}

static graft_status odd(const graft_safetensors *f, const char *what, long long value, graft_err *e)
{
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: an upscale model with %lld %s",
                      graft_safetensors_path(f), value, what);
}

static bool is_conv3(const graft_st_tensor *t)
{
    return t && t->rank == 4 && t->shape[2] == 3 && t->shape[3] == 3;
}

/* What the last convolution gives. Sets how often the picture is doubled. In a sequence the last
 * one's number tells that: an up-sampling is three layers, behind it come one convolution, its
 * activation and the last one. A single up-sampling is one by 2: that there have been ESRGANs for 3
 * times, nothing in a file would tell. */
static int32_t rrdb_end(const graft_safetensors *f, const char *prefix, const naming *n,
                        graft_upscaler_arch *a)
{
    if (n->last) {
        while (a->doublings <= MAX_DOUBLINGS && numbered(f, prefix, n->up, 1 + a->doublings))
            a->doublings++;
        return graft_detect_dim(graft_detect_find(f, prefix, "%s", n->last), 0);
    }
    for (a->doublings = MAX_DOUBLINGS; a->doublings >= 0; a->doublings--) {
        const graft_st_tensor *t = numbered(f, prefix, n->up, 4 + 3 * a->doublings);
        if (t) return graft_detect_dim(t, 0);
    }
    return 0;
}

static graft_status detect_rrdb(const graft_safetensors *f, const char *prefix, const naming *n,
                                graft_upscaler_arch *a, graft_err *e)
{
    const graft_st_tensor *first = graft_detect_find(f, prefix, "%s", n->first);
    const graft_st_tensor *dense = numbered(f, prefix, n->dense, 0);
    a->kind = GRAFT_UPSCALER_RRDB;
    a->names = n->names;
    a->features = graft_detect_dim(first, 0);
    a->growth = graft_detect_dim(dense, 0);
    if (!is_conv3(first) || !a->features) return graft_detect_missing(f, prefix, n->first, e);
    if (!is_conv3(dense) || !a->growth)
        return graft_detect_missing(f, prefix, "rdb1.conv1.weight", e);
    if (a->features > MAX_WIDTH) return odd(f, "features", a->features, e);
    if (a->growth > MAX_WIDTH) return odd(f, "growth channels", a->growth, e);
    while (a->blocks <= MAX_BLOCKS && numbered(f, prefix, n->dense, a->blocks)) a->blocks++;
    if (a->blocks > MAX_BLOCKS) return odd(f, "blocks or more", a->blocks, e);
    int32_t channels = rrdb_end(f, prefix, n, a), in = graft_detect_dim(first, 1);
    if (channels != GRAFT_UPSCALER_CHANNELS)
        return odd(f, "channels; pictures here have 3", channels, e);
    if (a->doublings > MAX_DOUBLINGS) return odd(f, "up-samplings or more", a->doublings, e);
    for (a->unshuffle = 1; a->unshuffle <= 4; a->unshuffle *= 2)
        if (in == channels * a->unshuffle * a->unshuffle) break;
    if (a->unshuffle > 4) return odd(f, "channels going in; known are 3, 12 and 48", in, e);
    if (a->unshuffle > 1 << a->doublings) return odd(f, "up-samplings that shrink", in, e);
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ SRVGGNet */

static graft_status detect_compact(const graft_safetensors *f, const char *prefix,
                                   graft_upscaler_arch *a, graft_err *e)
{
    const graft_st_tensor *first = graft_detect_find(f, prefix, "body.0.weight"), *last = NULL;
    int n = 0;
    a->kind = GRAFT_UPSCALER_COMPACT;
    a->features = graft_detect_dim(first, 0);
    if (!is_conv3(first) || !a->features)
        return graft_detect_missing(f, prefix, "body.0.weight", e);
    if (a->features > MAX_WIDTH) return odd(f, "features", a->features, e);
    if (graft_detect_dim(first, 1) != GRAFT_UPSCALER_CHANNELS)
        return odd(f, "channels; pictures here have 3", graft_detect_dim(first, 1), e);
    if (!graft_detect_find(f, prefix, "body.1.weight"))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a compact upscale model without PReLU (no tensor %sbody.1.weight); "
                          "its activation cannot be told",
                          graft_safetensors_path(f), prefix);
    for (const graft_st_tensor *t;
         n <= MAX_BLOCKS && (t = graft_detect_find(f, prefix, "body.%d.weight", 2 * n)); n++)
        last = t;
    if (n > MAX_BLOCKS) return odd(f, "blocks or more", n, e);
    a->blocks = n - 2;
    if (n < 2 || !is_conv3(last)) return graft_detect_missing(f, prefix, "body.2.weight", e);
    for (a->factor = 1; a->factor <= MAX_FACTOR; a->factor++)
        if (graft_detect_dim(last, 0) == GRAFT_UPSCALER_CHANNELS * a->factor * a->factor)
            return GRAFT_OK;
    return odd(f, "channels before its pixel shuffle", graft_detect_dim(last, 0), e);
}

graft_status graft_upscaler_detect(const graft_safetensors *f, const char *prefix,
                                   graft_upscaler_arch *out, graft_err *e)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < N_NAMINGS; i++)
        if (numbered(f, prefix, namings[i].dense, 0))
            return detect_rrdb(f, prefix, &namings[i], out, e);
    return detect_compact(f, prefix, out, e);
}

const char *graft_upscaler_prefix(const graft_safetensors *f)
{
    static const char *const prefixes[] = {"params_ema.", "params.", "state_dict.", ""};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        for (size_t k = 0; k < N_NAMINGS; k++)
            if (numbered(f, prefixes[i], namings[k].dense, 0)) return prefixes[i];
        const graft_st_tensor *first = graft_detect_find(f, prefixes[i], "body.0.weight");
        if (is_conv3(first)) return prefixes[i];
    }
    return NULL;
}
