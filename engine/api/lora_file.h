/* A LoRA file's keys, whichever program wrote it: kohya's scripts, diffusers (several ages of it),
 * LyCORIS' LoCon.
 *
 * Each key is a layer's name and a role. Programs differ in dots, underscores and prefixes, so
 * layers are compared in one plain form: "unet/", "te1/", "te2/" or "te3/" and the name with '_'
 * for every
 * '.'. Immutable once open; any thread. */
#ifndef GRAFT_API_LORA_FILE_H
#define GRAFT_API_LORA_FILE_H
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "engine/weights/safetensors.h"

#define GRAFT_LORA_NAME 384

typedef enum graft_lora_part {
    GRAFT_LORA_UNET = 0,
    GRAFT_LORA_TEXT1,
    GRAFT_LORA_TEXT2,
    GRAFT_LORA_TEXT3 /* Stable Diffusion 3's T5 */
} graft_lora_part;

typedef struct graft_lora_layer {
    char *plain; /* "unet/down_blocks_0_…" */
    graft_lora_part part;
    const graft_st_tensor *up, *down, *mid, *alpha; /* NULL when the file has none */
} graft_lora_layer;

typedef struct graft_lora_file {
    graft_lora_layer *layer;
    size_t n, cap;
    const char **foreign; /* keys that are no part of any low-rank layer */
    size_t n_foreign;
} graft_lora_file;

/* The file is borrowed. GRAFT_E_UNSUPPORTED naming the key for LoHa, LoKr, DoRA and other forms
 * that are no low-rank product; GRAFT_E_FORMAT for values that are not finite. */
graft_status graft_lora_file_read(const graft_safetensors *f, graft_lora_file *out, graft_err *e);
void graft_lora_file_finish(graft_lora_file *l);
/* `name` below `part` in the plain form; false when it does not fit. */
bool graft_lora_plain_name(graft_lora_part part, const char *name, char out[GRAFT_LORA_NAME]);
/* The layer's alpha; NAN without one. GRAFT_E_FORMAT when it is no finite number. */
graft_status graft_lora_alpha(const graft_lora_layer *k, float *out, graft_err *e);
#endif
