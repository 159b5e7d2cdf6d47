/* T2I-Adapters, in their authors' names and in diffusers'. */
#include <string.h>

#include "base/str.h"
#include "engine/models/detect/detect_parts.h"

#define FULL            "body.0.block1.weight"
#define FULL_DIFFUSERS  "body.0.resnets.0.block1.weight"
#define LIGHT           "body.0.body.0.block1.weight"
#define MOST            64 /* parts of the body, and blocks in one */
#define FEATURES_OF_XL  4
#define FEATURES_OF_SD1 4 /* as the authors have them, whose files do not tell */

const char *graft_t2i_prefix(const graft_safetensors *f)
{
    static const char *const prefixes[] = {"adapter.", ""};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (graft_detect_find(f, prefixes[i], FULL) ||
            graft_detect_find(f, prefixes[i], FULL_DIFFUSERS) ||
            graft_detect_find(f, prefixes[i], LIGHT))
            return prefixes[i];
    return NULL;
}

/* One more than the highest number of the body's parts, and of the blocks within them: what is
 * missing below is noticed when layers are asked for. */
static void count(const graft_safetensors *f, const char *prefix, const char *inner, int32_t *parts,
                  int32_t *blocks)
{
    *parts = *blocks = 0;
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        char kind[16];
        int32_t part = 0, block = 0;
        if (!graft_str_starts(name, prefix)) continue;
        const int n = sscanf(name + strlen(prefix), "body.%d.%15[a-z].%d.", &part, kind, &block);
        if (n < 1 || part < 0 || part >= MOST) continue;
        if (part >= *parts) *parts = part + 1;
        if (n == 3 && strcmp(kind, inner) == 0 && block >= *blocks && block < MOST)
            *blocks = block + 1;
    }
}

/* Features and the blocks of each. */
static graft_status count_blocks(const graft_safetensors *f, const char *prefix, graft_t2i_arch *a,
                                 graft_err *e)
{
    const char *path = graft_safetensors_path(f);
    count(f, prefix, a->diffusers ? "resnets" : "body", &a->n, &a->blocks);
    if (!a->diffusers && !a->light) {
        const int32_t all = a->n;
        a->n = FEATURES_OF_SD1;
        a->blocks = all / FEATURES_OF_SD1;
        if (all % FEATURES_OF_SD1)
            return graft_fail(e, GRAFT_E_UNSUPPORTED,
                              "%s: a T2I-Adapter of %d blocks, which are not equally many for %d "
                              "features",
                              path, all, FEATURES_OF_SD1);
    }
    if (!a->blocks) return graft_detect_missing(f, prefix, LIGHT, e);
    if (a->n <= GRAFT_T2I_FEATURES) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: a T2I-Adapter of %d features; known are up to %d", path, a->n,
                      GRAFT_T2I_FEATURES);
}

/* What the first convolution takes tells squares and colours. */
static graft_status detect_picture(const graft_safetensors *f, const char *prefix,
                                   graft_t2i_arch *a, graft_err *e)
{
    const char *name = a->light ? "body.0.in_conv.weight" : "conv_in.weight";
    const int32_t in = graft_detect_dim(graft_detect_find(f, prefix, "%s", name), 1);
    if (!in) return graft_detect_missing(f, prefix, name, e);
    for (a->factor = 8; a->factor <= 16; a->factor *= 2)
        for (a->colours = 1; a->colours <= 3; a->colours += 2)
            if (a->colours * a->factor * a->factor == in &&
                (a->factor == 8 || (!a->light && a->n == FEATURES_OF_XL)))
                return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: a T2I-Adapter of %d features whose first layer takes %d channels; known "
                      "are 64 and 192, and for SDXL 256 and 768 with %d features",
                      graft_safetensors_path(f), a->n, in, FEATURES_OF_XL);
}

static graft_status detect_channels(const graft_safetensors *f, const char *prefix,
                                    graft_t2i_arch *a, graft_err *e)
{
    for (int k = 0; k < a->n; k++) {
        char name[64];
        const int at = a->diffusers || a->light ? k : k * a->blocks;
        snprintf(name, sizeof name, "body.%d.%sweight", at,
                 a->light       ? "out_conv."
                 : a->diffusers ? "resnets.0.block1."
                                : "block1.");
        a->channels[k] = graft_detect_dim(graft_detect_find(f, prefix, "%s", name), 0);
        if (!a->channels[k]) return graft_detect_missing(f, prefix, name, e);
        if (a->light && a->channels[k] % 4)
            return graft_fail(e, GRAFT_E_UNSUPPORTED,
                              "%s: a light T2I-Adapter whose feature %d has %d channels, no "
                              "multiple of 4",
                              graft_safetensors_path(f), k, a->channels[k]);
    }
    return GRAFT_OK;
}

/* The authors' code can do more than they published. */
static graft_status refuse_others(const graft_safetensors *f, const char *prefix, graft_err *e)
{
    for (int i = 0; i < MOST; i++)
        if (graft_detect_find(f, prefix, "body.%d.skep.weight", i) ||
            graft_detect_find(f, prefix, "body.%d.down_opt.op.weight", i))
            return graft_fail(e, GRAFT_E_UNSUPPORTED,
                              "%s: a T2I-Adapter with convolutions beside its blocks or between "
                              "its levels (body.%d); only those without are supported",
                              graft_safetensors_path(f), i);
    return GRAFT_OK;
}

graft_status graft_t2i_detect(const graft_safetensors *f, const char *prefix, graft_t2i_arch *out,
                              graft_err *e)
{
    memset(out, 0, sizeof *out);
    graft_status st = refuse_others(f, prefix, e);
    if (st) return st;
    out->diffusers = graft_detect_find(f, prefix, FULL_DIFFUSERS) != NULL;
    out->light = graft_detect_find(f, prefix, "body.0.out_conv.weight") ||
                 graft_detect_find(f, prefix, LIGHT);
    if ((st = count_blocks(f, prefix, out, e))) return st;
    if ((st = detect_channels(f, prefix, out, e))) return st;
    out->kernel = 1;
    if (!out->light) {
        const char *name =
            out->diffusers ? "body.0.resnets.0.block2.weight" : "body.0.block2.weight";
        out->kernel = graft_detect_dim(graft_detect_find(f, prefix, "%s", name), 2);
        if (out->kernel != 1 && out->kernel != 3) return graft_detect_missing(f, prefix, name, e);
    }
    return detect_picture(f, prefix, out, e);
}
