/* A LoRA's file, open, for those that apply it more than once. Immutable once open; any thread. */
#ifndef GRAFT_FILES_LORA_H
#define GRAFT_FILES_LORA_H
#include "engine/files/lora_file.h"
#include "engine/objects/objects.h"

typedef struct graft_lora {
    char *path;
    graft_weights *owner; /* of the file's tensors */
    graft_lora_file file;
} graft_lora;
/* To be finished in any case, also when it is zeros. */
graft_status graft_lora_open(const char *path, const graft_task *task, graft_lora *out,
                             graft_err *e);
void graft_lora_finish(graft_lora *l);

/* What it is applied to, as graft_lora_apply() has it. */
typedef struct graft_lora_use {
    const graft_model *model;
    const graft_clip *clip;
    double strength_model, strength_clip; /* of what is there, and wanted; else 0 */
    bool may_lack; /* a file without anything for a text encoder leaves it as it is */
    bool silent;   /* without a warning of keys that match nothing */
} graft_lora_use;
graft_status graft_lora_put(const graft_lora *l, const graft_lora_use *use, const graft_task *task,
                            graft_model **out_m, graft_clip **out_c, graft_err *e);
#endif
