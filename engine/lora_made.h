/* LoRAs made of differences of models: the part of engine.h, whose rules hold here, that writes
 * them. */
#ifndef GRAFT_LORA_MADE_H
#define GRAFT_LORA_MADE_H
#include "engine/types.h"

/* What a LoRA is made of: differences, as graft_model_merge_subtract() and
 * graft_clip_merge_subtract() give them; one may be NULL. */
typedef struct graft_lora_made {
    const graft_model *model;
    const graft_clip *clip;
    int64_t rank; /* 1 or more; of a layer at most its outputs, and the values each is made of */
    bool whole;   /* each difference as it is, and not its best approximation of that rank */
    bool biases;  /* with those of biases and norms */
} graft_lora_made;
/* Writes safetensors: matrices and convolutions as lora_up and lora_down (engine/weights/
 * thin.h), the others as diff and diff_b, all in float16, below diffusion_model in the names of
 * Stable Diffusion's files and below lora_te1, lora_te2 and lora_te3 in those of transformers. What
 * does not differ is left out, as are tables of tokens and places, which no LoRA changes. Progress
 * counts layers, which are read twice; metadata, `path` and failures as in graft_checkpoint_save();
 * GRAFT_E_ARG where nothing differs. */
graft_status graft_lora_save(const graft_lora_made *made, const char *path,
                             const char *const *metadata, const graft_task *task, graft_err *e);
#endif
