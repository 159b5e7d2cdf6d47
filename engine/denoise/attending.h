/* What the rows of a batch attend to beside their prompts: the keys and values of the pictures that
 * a model is shown, as its UNet's graph takes them. Belongs to one run, on one thread. */
#ifndef GRAFT_DENOISE_ATTENDING_H
#define GRAFT_DENOISE_ATTENDING_H
#include "engine/denoise/batches.h"
#include "engine/denoise/guided_config.h"
#include "engine/exec/memory.h"

/* The keys and values of one batch. */
typedef struct graft_attending_set {
    uint32_t now;
    size_t count; /* 0: of nothing yet */
    size_t slot[GROUP_MAX];
    float *values;
} graft_attending_set;
enum { GRAFT_ATTENDING_SETS = 3 }; /* a step has seldom more batches */

typedef struct graft_attending {
    const graft_model *m;
    graft_crossings crossings;
    graft_memory memory; /* of sets' values, and of masks there */
    graft_attending_set set[GRAFT_ATTENDING_SETS];
    size_t next;       /* the set that is made anew next */
    size_t n_values;   /* of a set, where it has all slots; 0: the model sees no pictures */
    float *values;     /* of one set on its way to a device */
    float *masks;      /* n_masks values, in the host's memory */
    void *masks_there; /* the same in `memory`, where that is a device's */
    size_t n_masks;
    struct {
        int64_t height, width;
        bool shrink;
        size_t count; /* 0: of nothing yet */
        const graft_box *box[GROUP_MAX];
    } masked;              /* what `masks` are of, which steps seldom change */
    int64_t height, width; /* of the latent */
    uint32_t *kept;        /* of each slot, for DeepCache: what counted in its last whole step */
} graft_attending;

graft_status graft_attending_create(const graft_guided_config *c, graft_attending *out,
                                    graft_err *e);
void graft_attending_finish(graft_attending *a);
/* Before the first call: the inputs are in this memory from now on; at first they are in the
 * host's. After GRAFT_E_NOMEM it can be moved elsewhere. */
graft_status graft_attending_move(graft_attending *a, graft_memory to, graft_err *e);
/* The input for the active entries `which`, of `pictures` rows each: positive prompts have the
 * pictures, others what stands for none. `now`: which of them count (graft_model_sees_at()); others
 * have values of 0, which is nothing. Good until the next call. */
graft_status graft_attending_fill(graft_attending *a, uint32_t now, const active *list,
                                  const size_t *which, size_t count, int64_t pictures,
                                  const void **out, graft_err *e);
/* The other input, with masks: in the parts of the latent that the entries see, at the sizes that
 * the network has for this use; made anew where one of these is another. *out NULL where no picture
 * has one. */
graft_status graft_attending_masks(graft_attending *a, const graft_unet_use *use,
                                   const active *list, const size_t *which, size_t count,
                                   int64_t pictures, const void **out, graft_err *e);
#endif
