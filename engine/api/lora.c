#include "engine/api/objects.h"

graft_status graft_lora_apply(const graft_model *m, const graft_clip *c, const char *path,
                              double strength_model, double strength_clip, const graft_task *task,
                              graft_model **out_m, graft_clip **out_c, graft_err *e)
{
    (void)m, (void)c, (void)strength_model, (void)strength_clip, (void)task, (void)out_m,
        (void)out_c;
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: LoRA is not built yet", path);
}
