#include "base/json.h"
#include "engine/models/detect/detect_parts.h"

/* All numbers, or none. */
static bool read_preview(const cJSON *rows, float out[5][3])
{
    if (cJSON_GetArraySize(rows) != 5) return false;
    for (int i = 0; i < 5; i++) {
        const cJSON *row = cJSON_GetArrayItem(rows, i);
        if (cJSON_GetArraySize(row) != 3) return false;
        for (int k = 0; k < 3; k++) {
            double v;
            if (!graft_json_f64(cJSON_GetArrayItem(row, k), &v)) return false;
            out[i][k] = (float)v;
        }
    }
    return true;
}

graft_status graft_checkpoint_config_read(const graft_safetensors *f, graft_checkpoint_config *out,
                                          graft_err *e)
{
    const char *text = graft_safetensors_metadata(f, "config");
    cJSON *root;
    const cJSON *c;
    *out = (graft_checkpoint_config){.beta_start = 0.00085, .beta_end = 0.012};
    graft_status st = graft_detect_config(f, text, "", &root, &c, e);
    if (st) return st;
    out->scale_factor = graft_json_num(c, "scale_factor", 0);
    out->raw_latents = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(c, "raw_latents"));
    const cJSON *schedule = cJSON_GetObjectItemCaseSensitive(c, "schedule");
    out->beta_start = graft_json_num(schedule, "beta_start", out->beta_start);
    out->beta_end = graft_json_num(schedule, "beta_end", out->beta_end);
    const cJSON *preview = cJSON_GetObjectItemCaseSensitive(c, "latent_rgb");
    out->preview_given = preview && read_preview(preview, out->preview);
    const bool preview_bad = preview && !out->preview_given;
    const char *prediction = graft_json_str(c, "prediction", NULL);
    out->prediction_given = prediction != NULL;
    out->v_prediction = prediction && prediction[0] == 'v';
    if (prediction && prediction[0] != 'v' && prediction[0] != 'e') /* "epsilon", "v_prediction" */
        st = graft_fail(e, GRAFT_E_UNSUPPORTED,
                        "%s: the prediction \"%.40s\" in __metadata__.config is neither eps nor v",
                        graft_safetensors_path(f), prediction);
    cJSON_Delete(root);
    if (st) return st;
    if (preview_bad)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: latent_rgb in __metadata__.config is not five rows of three numbers",
                          graft_safetensors_path(f));
    if (!(out->beta_start > 0 && out->beta_start < 1 && out->beta_end > 0 && out->beta_end < 1))
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: the schedule in __metadata__.config has betas from %g to %g, which "
                          "are not between 0 and 1",
                          graft_safetensors_path(f), out->beta_start, out->beta_end);
    if (graft_safetensors_find(f, "v_pred")) out->v_prediction = out->prediction_given = true;
    if (graft_safetensors_find(f, "ztsnr")) out->zsnr = true;
    return GRAFT_OK;
}
