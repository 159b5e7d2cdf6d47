#include "engine/weights/scaled.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/weights/quantized.h"
#include "engine/weights/values.h"

/* The weight that this is the scale of; NULL: it is none. */
static const graft_st_tensor *weight_of(const graft_safetensors *f, const graft_st_tensor *scale)
{
    static const char *const suffixes[] = {GRAFT_SCALED_SUFFIX, ".weight_scale"};
    char name[600];
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (!graft_str_ends(scale->name, suffixes[i])) continue;
        int length = (int)(strlen(scale->name) - strlen(suffixes[i]));
        int n = snprintf(name, sizeof name, "%.*s.weight", length, scale->name);
        return n < (int)sizeof name ? graft_safetensors_find(f, name) : NULL;
    }
    return NULL;
}

static graft_status adopt(const graft_safetensors *f, graft_st_tensor *weight,
                          graft_st_tensor *scale, graft_err *e)
{
    if (!graft_is_weight_type(weight->dtype) || !graft_is_weight_type(scale->dtype) ||
        graft_st_values(scale) != 1 || weight->scale != 0)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: tensor \"%.200s\" was quantized by another program, in another way "
                          "than floats of 8 bits and one scale",
                          graft_safetensors_path(f), weight->name);
    graft_to_f32(scale->dtype, scale->data, &weight->scale, 1);
    scale->part = 1;
    if (isfinite(weight->scale) && weight->scale != 0) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_FORMAT, "%s: \"%.200s\" is 0 or not finite",
                      graft_safetensors_path(f), scale->name);
}

static bool has_no_effect(const char *name)
{
    return graft_str_ends(name, ".scale_input") || graft_str_ends(name, ".input_scale") ||
           graft_str_ends(name, ".comfy_quant") || graft_str_ends(name, "scaled_fp8");
}

graft_status graft_scaled_adopt(const graft_safetensors *f, graft_st_tensor *tensor, size_t n,
                                graft_err *e)
{
    size_t adopted = 0;
    for (size_t i = 0; i < n; i++) {
        const graft_st_tensor *weight = tensor[i].part ? NULL : weight_of(f, &tensor[i]);
        if (!weight || graft_is_quantized(weight->dtype)) continue;
        graft_status st = adopt(f, &tensor[weight - tensor], &tensor[i], e);
        if (st) return st;
        adopted++;
    }
    for (size_t i = 0; i < n && adopted; i++)
        if (has_no_effect(tensor[i].name)) tensor[i].part = 1;
    return GRAFT_OK;
}
