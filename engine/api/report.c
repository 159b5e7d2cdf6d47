#include "base/alloc.h"
#include "engine/api/objects.h"

graft_status graft_model_report(const graft_model *m, const graft_vae *v, const graft_clip *c,
                                char **text, graft_image **picture, graft_err *e)
{
    (void)m, (void)v, (void)c, (void)text, (void)picture;
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "the report is not built yet");
}

void graft_text_free(char *text)
{
    graft_free(text);
}
