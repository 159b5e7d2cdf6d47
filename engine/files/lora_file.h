/* A LoRA file's keys, whichever program wrote it: kohya's scripts, diffusers (several ages of it),
 * PEFT, LyCORIS (LoCon, LoHa, LoKr, whole differences), each also with DoRA's magnitudes.
 *
 * Each key is a layer's name and a role. Programs differ in dots, underscores and prefixes, so
 * layers are compared in one plain form: "unet/", "te1/", "te2/" or "te3/" and the name with '_'
 * for every '.'. Immutable once open; any thread. */
#ifndef GRAFT_FILES_LORA_FILE_H
#define GRAFT_FILES_LORA_FILE_H
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "engine/weights/patch.h"

#define GRAFT_LORA_NAME 384

typedef enum graft_lora_part {
    GRAFT_LORA_UNET = 0,
    GRAFT_LORA_TEXT1,
    GRAFT_LORA_TEXT2,
    GRAFT_LORA_TEXT3 /* T5 */
} graft_lora_part;

typedef enum graft_lora_role {
    GRAFT_LORA_UP = 0,
    GRAFT_LORA_DOWN,
    GRAFT_LORA_MID,
    GRAFT_LORA_W1, /* LoHa's and LoKr's first part, as a whole or in factors */
    GRAFT_LORA_W1_A,
    GRAFT_LORA_W1_B,
    GRAFT_LORA_T1,
    GRAFT_LORA_W2,
    GRAFT_LORA_W2_A,
    GRAFT_LORA_W2_B,
    GRAFT_LORA_T2,
    GRAFT_LORA_DIFF,
    GRAFT_LORA_BIAS_DIFF,
    GRAFT_LORA_MAGNITUDE,
    GRAFT_LORA_ALPHA,
    GRAFT_LORA_ROLES
} graft_lora_role;

typedef struct graft_lora_layer {
    char *plain; /* "unet/down_blocks_0_…" */
    graft_lora_part part;
    graft_patch_form form;                           /* of the two parts */
    const graft_st_tensor *tensor[GRAFT_LORA_ROLES]; /* NULL where the file has none */
} graft_lora_layer;

typedef struct graft_lora_file {
    graft_lora_layer *layer;
    size_t n, cap;
    const char **foreign; /* keys that are no part of any layer */
    size_t n_foreign;
} graft_lora_file;

/* The file is borrowed. GRAFT_E_UNSUPPORTED naming the key for OFT, GLoRA and other forms that are
 * no sum; GRAFT_E_FORMAT for values that are not finite. */
graft_status graft_lora_file_read(const graft_safetensors *f, graft_lora_file *out, graft_err *e);
void graft_lora_file_finish(graft_lora_file *l);
/* `name` below `part` in the plain form; false when it does not fit. */
bool graft_lora_plain_name(graft_lora_part part, const char *name, char out[GRAFT_LORA_NAME]);
/* One of the layer's tensors, for messages. */
const graft_st_tensor *graft_lora_any(const graft_lora_layer *k);
/* What the layer changes its weights by, and its bias; *weight and *bias tell whether it does.
 * GRAFT_E_FORMAT where a part is missing, forms are mixed, or alpha is no finite number. */
graft_status graft_lora_sources(const graft_lora_layer *k, graft_patch_source *to_weight,
                                bool *weight, graft_patch_source *to_bias, bool *bias,
                                graft_err *e);
#endif
