/* A network's file with its linear layers in 8-bit integers, in ComfyUI's format
 * (engine/weights/coded.h): one tensor after the other, so that no more than one is in memory. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "engine/files/convert.h"
#include "engine/files/load.h"
#include "engine/quant/plan.h"
#include "engine/weights/quantized.h"
#include "kernels/hadamard.h"
#include "kernels/quant.h"

/* A tensor that is written, and what it is made of. */
typedef struct piece {
    enum { STORED, UNPACKED, LEVELS, SCALES, MARK } is;
    const graft_st_tensor *from;
    char mark[96];
} piece;

typedef struct conversion {
    const graft_safetensors *f;
    bool turned;
    graft_map layers; /* names of the network's linear layers, with its prefix */
    piece *piece;
    graft_st_tensor *tensor;
    size_t n, room, room_tensors;
    int8_t *level;
    float *scale, *row;
    uint16_t *half;
} conversion;

/* Groups of rows of n values: those that other programs know; 0: none. */
static int32_t group_for(int64_t n)
{
    return graft_hadamard_is(256, n) ? 256 : graft_hadamard_is(64, n) ? 64 : 0;
}

/* ------------------------------------------------------------------ what is written */

static graft_status add(conversion *c, piece p, const graft_st_tensor *t, const char *suffix,
                        graft_err *e)
{
    graft_str name = GRAFT_STR_INIT;
    if (graft_grow(&c->piece, &c->room, c->n + 1, sizeof *c->piece) ||
        graft_grow(&c->tensor, &c->room_tensors, c->n + 1, sizeof *c->tensor))
        return graft_fail_nomem(e, "the tensors of a file");
    const size_t stem = strlen(p.from->name) - (suffix ? strlen(".weight") : 0);
    graft_str_printf(&name, "%.*s%s", (int)stem, p.from->name, suffix ? suffix : "");
    c->piece[c->n] = p;
    c->tensor[c->n] = *t;
    c->tensor[c->n].name = graft_str_take(&name);
    graft_str_finish(&name);
    if (!c->tensor[c->n].name) return graft_fail_nomem(e, "the tensors of a file");
    c->n++;
    return GRAFT_OK;
}

static graft_status add_layer(conversion *c, const graft_st_tensor *t, graft_err *e)
{
    const int64_t rows = t->shape[0], n = t->shape[1];
    const int32_t group = c->turned ? group_for(n) : 0;
    piece p = {.is = LEVELS, .from = t};
    graft_st_tensor level = {.dtype = GRAFT_I8, .rank = 2, .shape = {rows, n}};
    graft_st_tensor scale = {.dtype = GRAFT_F32, .rank = 2, .shape = {rows, 1}};
    graft_st_tensor mark = {.dtype = GRAFT_U8, .rank = 1};
    if (group)
        snprintf(p.mark, sizeof p.mark,
                 "{\"format\": \"int8_tensorwise\", \"convrot\": true, \"convrot_groupsize\": %d}",
                 group);
    else
        snprintf(p.mark, sizeof p.mark, "{\"format\": \"int8_tensorwise\"}");
    level.bytes = (uint64_t)(rows * n);
    scale.bytes = (uint64_t)rows * sizeof(float);
    mark.bytes = strlen(p.mark);
    mark.shape[0] = (int64_t)mark.bytes;
    graft_status st = add(c, p, &level, ".weight", e);
    p.is = SCALES;
    if (!st) st = add(c, p, &scale, ".weight_scale", e);
    p.is = MARK;
    return st ? st : add(c, p, &mark, ".comfy_quant", e);
}

static graft_status add_other(conversion *c, const graft_st_tensor *t, graft_err *e)
{
    graft_st_tensor out = *t;
    piece p = {.is = STORED, .from = t};
    if (t->blocks) {
        p.is = UNPACKED;
        out.dtype = GRAFT_F16;
        out.bytes = (uint64_t)graft_st_values(t) * sizeof *c->half;
        out.blocks = NULL;
    }
    return add(c, p, &out, NULL, e);
}

static bool is_layer(const conversion *c, const graft_st_tensor *t)
{
    return t->rank == 2 && graft_map_has(&c->layers, t->name);
}

static graft_status add_all(conversion *c, graft_convert_info *info, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < graft_safetensors_count(c->f) && !st; i++) {
        const graft_st_tensor *t = graft_safetensors_at(c->f, i);
        if (t->coded || t->scale != 0 || t->part || graft_is_quantized(t->dtype))
            return graft_fail(e, GRAFT_E_ARG,
                              "%s: it is quantized already; convert the file that it was made from",
                              graft_safetensors_path(c->f));
        if (is_layer(c, t)) {
            st = add_layer(c, t, e);
            info->layers++;
        } else {
            st = add_other(c, t, e);
        }
    }
    if (!st && !info->layers)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: none of its tensors is a linear layer by name",
                        graft_safetensors_path(c->f));
    for (size_t i = 0; i < c->n; i++) info->bytes += c->tensor[i].bytes;
    info->tensors = c->n;
    return st;
}

/* ------------------------------------------------------------------ values */

static bool is_finite(const float *x, int64_t n)
{
    bool all = true;
    for (int64_t i = 0; i < n; i++) all &= isfinite(x[i]) != 0;
    return all;
}

static graft_status quantize(conversion *c, const graft_st_tensor *t, graft_err *e)
{
    const int64_t rows = t->shape[0], n = t->shape[1];
    const int32_t group = c->turned ? group_for(n) : 0;
    graft_free(c->level);
    graft_free(c->scale);
    graft_free(c->row);
    c->level = graft_malloc_array((size_t)(rows * n), sizeof *c->level);
    c->scale = graft_malloc_array((size_t)rows, sizeof *c->scale);
    c->row = graft_malloc_array((size_t)n, sizeof *c->row);
    if (!c->level || !c->scale || !c->row) return graft_fail_nomem(e, t->name);
    for (int64_t r = 0; r < rows; r++) {
        graft_st_to_f32(t, r * n, n, c->row);
        if (group) graft_hadamard(c->row, n, group);
        if (!is_finite(c->row, n))
            return graft_fail(e, GRAFT_E_UNSUPPORTED,
                              "%s: tensor %.200s has values that are not finite",
                              graft_safetensors_path(c->f), t->name);
        c->scale[r] = graft_quant_scale(graft_quant_absmax(c->row, n), 127.0f);
        const float inverse = graft_quant_inverse(c->scale[r]);
        for (int64_t i = 0; i < n; i++)
            c->level[r * n + i] = (int8_t)graft_quant_round(c->row[i], inverse, 127.0f);
    }
    return GRAFT_OK;
}

static graft_status values(void *ctx, size_t i, const void **data, graft_err *e)
{
    conversion *c = ctx;
    const piece *p = &c->piece[i];
    graft_status st = GRAFT_OK;
    switch (p->is) {
    case STORED:
        *data = p->from->data;
        break;
    case UNPACKED:
        graft_free(c->half);
        c->half = NULL;
        st = graft_st_as_f16(p->from, &c->half, e);
        *data = c->half;
        break;
    case LEVELS:
        st = quantize(c, p->from, e);
        *data = c->level;
        break;
    case SCALES:
        *data = c->scale;
        break;
    case MARK:
        *data = p->mark;
        break;
    }
    graft_safetensors_forget(c->f, p->from);
    return st;
}

/* ------------------------------------------------------------------ the file */

/* The linear layers that QuantizeModel could take. */
static graft_status find_layers(conversion *c, graft_err *e)
{
    const char *prefix;
    graft_net_arch *arch = graft_calloc(1, sizeof *arch);
    graft_quant_plan *all = NULL;
    char name[300];
    graft_status st;
    if (!arch) return graft_fail_nomem(e, "the layers of a network");
    GRAFT_TRY(graft_load_network(c->f, &prefix, arch, e));
    GRAFT_TRY(graft_quant_layers(arch, &all, e));
    for (size_t i = 0; i < all->n && !st; i++) {
        const graft_quant_layer *l = &all->layer[i];
        if (l->kind != GRAFT_LAYER_LINEAR || graft_quant_always_kept(l->name)) continue;
        snprintf(name, sizeof name, "%s%s.weight", prefix, l->name);
        if (graft_map_put(&c->layers, name, c)) st = graft_fail_nomem(e, "the layers of a network");
    }
out:
    graft_quant_plan_destroy(all);
    graft_free(arch);
    return st;
}

static void finish(conversion *c)
{
    for (size_t i = 0; i < c->n; i++) graft_free((char *)(uintptr_t)c->tensor[i].name);
    graft_map_finish(&c->layers);
    graft_free(c->piece);
    graft_free(c->tensor);
    graft_free(c->level);
    graft_free(c->scale);
    graft_free(c->row);
    graft_free(c->half);
}

graft_status graft_checkpoint_convert_int8(const char *from, const char *to, bool turned,
                                           graft_convert_info *info, graft_err *e)
{
    graft_safetensors *f = NULL;
    conversion c = {.turned = turned};
    const char **pairs = NULL;
    graft_status st;
    *info = (graft_convert_info){0};
    GRAFT_TRY(graft_safetensors_open(from, &f, e));
    c.f = f;
    GRAFT_TRY(find_layers(&c, e));
    GRAFT_TRY(add_all(&c, info, e));
    GRAFT_TRY(graft_convert_metadata(f, &pairs, e));
    st = graft_safetensors_write_from(to, c.tensor, c.n, pairs, false, values, &c, e);
out:
    graft_free(pairs);
    finish(&c);
    graft_safetensors_close(f);
    return st;
}
