#include <string.h>

#include "base/json.h"
#include "engine/models/detect/detect_parts.h"

#define HEAD_DIM_MAX 512
#define CHANNELS_MAX 4096 /* of a transformer's latents */

graft_status graft_detect_config(const graft_safetensors *f, const char *config, const char *part,
                                 cJSON **root, const cJSON **out, graft_err *e)
{
    *root = NULL;
    *out = NULL;
    if (!config) return GRAFT_OK;
    graft_status st = graft_json_parse(config, strlen(config), "__metadata__.config", root, e);
    if (st) return graft_err_prefix(e, st, "%s", graft_safetensors_path(f));
    const cJSON *sub = cJSON_GetObjectItemCaseSensitive(*root, part);
    *out = cJSON_IsObject(sub) ? sub : *root;
    return GRAFT_OK;
}

graft_status graft_detect_number(const graft_safetensors *f, const char *config, const char *name,
                                 int64_t *out, graft_err *e)
{
    cJSON *root;
    const cJSON *c;
    graft_status st = graft_detect_config(f, config, "unet", &root, &c, e);
    if (st) return st;
    *out = graft_json_int(c, name, 0);
    cJSON_Delete(root);
    return GRAFT_OK;
}

graft_status graft_detect_others(const graft_safetensors *f, const char *prefix,
                                 const graft_detect_other *other, size_t n, graft_err *e)
{
    for (size_t i = 0; i < n; i++)
        if (graft_detect_find(f, prefix, "%s", other[i].tensor))
            return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: %s", graft_safetensors_path(f),
                              other[i].what);
    return GRAFT_OK;
}

graft_status graft_detect_widths(const graft_safetensors *f, const char *prefix,
                                 const graft_detect_width *list, size_t n, graft_err *e)
{
    for (size_t i = 0; i < n; i++) {
        const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", list[i].name);
        *list[i].width = graft_detect_dim(t, list[i].at);
        if (!*list[i].width) return graft_detect_missing(f, prefix, list[i].name, e);
    }
    return GRAFT_OK;
}

int32_t graft_detect_blocks(const graft_safetensors *f, const char *prefix, const char *list,
                            const char *one, const char *other)
{
    int32_t n = 0;
    while (n < GRAFT_DETECT_BLOCKS_MAX &&
           (graft_detect_find(f, prefix, "%s.%d.%s", list, n, one) ||
            graft_detect_find(f, prefix, "%s.%d.%s", list, n, other)))
        n++;
    return n;
}

graft_status graft_detect_turned_heads(const graft_safetensors *f, const char *prefix,
                                       const char *config, const char *norm, int32_t hidden,
                                       const int32_t share[2], int32_t *heads, int32_t *rope_dim,
                                       graft_err *e)
{
    const int32_t head = graft_detect_dim(graft_detect_find(f, prefix, "%s", norm), 0);
    int64_t turned = 0;
    if (!head) return graft_detect_missing(f, prefix, norm, e);
    graft_status st = graft_detect_number(f, config, "rope_dim", &turned, e);
    if (st) return st;
    if (!turned) turned = head / share[1] * share[0];
    if (hidden % head || head % 2 || head > HEAD_DIM_MAX || turned < 0 || turned % 2 ||
        2 * turned > head)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a transformer of width %d with heads of %d, of which %lld turn with "
                          "the row",
                          graft_safetensors_path(f), hidden, head, (long long)turned);
    *heads = hidden / head;
    *rope_dim = (int32_t)turned;
    return GRAFT_OK;
}

graft_status graft_detect_patches(const graft_safetensors *f, const char *prefix, const char *layer,
                                  int32_t patch, int32_t *hidden, int32_t *channels, graft_err *e)
{
    const graft_st_tensor *in = graft_detect_find(f, prefix, "%s", layer);
    const int32_t going_in = graft_detect_dim(in, 1), cells = patch * patch;
    *hidden = graft_detect_dim(in, 0);
    *channels = going_in / cells;
    if (!*hidden || !going_in || going_in % cells || *channels > CHANNELS_MAX)
        return graft_detect_missing(f, prefix, layer, e);
    return GRAFT_OK;
}
